"""Everything that is compiled on first use, used once: later it would keep events waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bbq_plugin.comparisons import Comparison, Outcome
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.server.view import Moment, Thresholds

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["warm_up"]

_ITEMS, _RATERS = "abcd", "rstu"


def warm_up(engine: Engine) -> None:
    """Fit a handful of answers the way that an engine does, and look at all of the result."""
    with Engine(model=engine.model, priors=engine.priors, tol=engine.tol) as other:
        other.add(_answers(0))
        other.refresh()
        other.add(_answers(1))
        other.refresh()
        moment = Moment(other.fit, 0.0, Thresholds())
        for part in (moment.better, moment.raters, moment.pairs, moment.n_groups):
            del part


def _answers(turn: int) -> Iterator[Comparison]:
    for n, rater in enumerate(_RATERS):
        for i, left in enumerate(_ITEMS):
            for j, right in enumerate(_ITEMS[:i]):
                outcome: Outcome = ("left", "right", "tie")[(n * i + j) % 3]
                yield Comparison(f"{turn}{rater}{left}{right}", rater, left, right, outcome)
