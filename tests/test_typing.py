"""The public names as a type checker sees them: mypy reads this file, pytest runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_type

import numpy as np
from numpy.typing import NDArray

import bbq_plugin as bbq

if TYPE_CHECKING:
    from bbq_adapters.arena import ArenaAdapter

    from bbq_plugin.protocols import Adapter

    # The built-in adapter is one by the protocol, options of its own included.
    _adapter: type[Adapter] = ArenaAdapter


def test_public_names_have_the_types_that_the_contract_states() -> None:
    data = bbq.Comparisons.from_records([("ann", "a", "b", 1.0), ("ann", "b", "a")])
    assert_type(data, bbq.Comparisons)
    assert_type(data.items, tuple[str, ...])
    assert_type(data.rater, NDArray[np.int32])
    assert_type(data.weight, NDArray[np.float64])
    assert_type(data.left_rate, NDArray[np.float64] | None)
    assert_type(data.n_skipped, int)
    assert_type(bbq.break_ranking(["a", ["b", "c"]]), list[tuple[str, str, float]])
    assert_type(bbq.break_choice("a", ["a", "b"]), list[tuple[str, str, float]])
    comparison = bbq.Comparison("k", None, "a", "b", "left", time_s=1.5)
    assert_type(comparison.rater, str | None)
    assert_type(comparison.weight, float)
    assert_type(bbq.simulate(comparisons=40).arrays(), bbq.Comparisons)


def test_a_fit_has_the_types_that_the_contract_states() -> None:
    fit = bbq.fit(bbq.simulate(comparisons=100, items=3, raters=5).arrays(), priors=bbq.Priors())
    assert_type(fit, bbq.Fit)
    assert_type(fit.converged, bool)
    assert_type(fit.log_posterior, float)
    row = bbq.leaderboard(fit, intervals="laplace")[0]
    assert_type(row.item, str)
    assert_type(row.rating, float)
    values: dict[str, Any] = dict(row)
    assert values["item"] == row["item"] == row.item


def test_every_public_name_can_be_reached_and_nothing_else_pretends_to_be() -> None:
    for name in bbq.__all__:
        assert getattr(bbq, name) is not None
        assert name in dir(bbq)
    assert not hasattr(bbq, "no_such_name")
    # A submodule of the same name would take the place of the function.
    assert callable(bbq.simulate)
    assert callable(bbq.fit)
