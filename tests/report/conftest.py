"""Results that several tests look at, computed once."""

from __future__ import annotations

import pytest

import bbq_plugin as bbq
from tests.report.studies import HOSTILE, Result, history_of, renamed, result_of


@pytest.fixture(scope="session")
def demo() -> Result:
    """Eight items, a clear best, raters of every verdict but many."""
    study = bbq.simulate(
        items=8, raters=30, comparisons=3000, guessers=0.1, inverted=0.05, left_bias=0.5,
        ties=0.1, spread=0.8, seed=3,
    )  # fmt: skip
    return result_of(study.arrays(), priors="auto")


@pytest.fixture(scope="session")
def hostile() -> Result:
    study = bbq.simulate(
        items=12, raters=12, comparisons=1800, guessers=0.3, ties=0.1, spread=0.6, seed=7
    )
    return result_of(renamed(study, HOSTILE, tuple(f"{name}?" for name in HOSTILE)), priors="auto")


@pytest.fixture(scope="session")
def divided() -> Result:
    """Two camps of 24 and 16 raters."""
    study = bbq.simulate(
        items=8, raters=40, comparisons=4000, minority=0.4, spread=1.2, seed=9
    )  # fmt: skip
    return result_of(study.arrays(), priors="auto")


@pytest.fixture(scope="session")
def hostile_divided() -> Result:
    study = bbq.simulate(
        items=12, raters=12, comparisons=6000, minority=0.5, spread=1.2, seed=7
    )  # fmt: skip
    return result_of(renamed(study, HOSTILE, tuple(f"{name}?" for name in HOSTILE)), priors="auto")


@pytest.fixture(scope="session")
def demo_html(demo: Result) -> str:
    return demo.html(
        title="A study",
        command="bbq fit votes.jsonl -o report.html",
        history=history_of(demo.board),
    )


@pytest.fixture(scope="session")
def hostile_html(hostile: Result) -> str:
    return hostile.html(
        title=HOSTILE[0],
        command=f"bbq fit '{HOSTILE[1]}'",
        history=history_of(hostile.board),
    )
