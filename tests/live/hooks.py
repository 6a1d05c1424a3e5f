"""What the tests of the hook share."""

from __future__ import annotations

from pathlib import Path

import bbq_plugin as bbq
from bbq_plugin.store import Store
from bbq_plugin.store.store import records_of


def kept(path: Path) -> dict[str, bbq.Comparison]:
    """Every answer of a store by its key; a key that is there twice is a failure."""
    with Store(path, writable=False) as store:
        records = list(records_of(store))
        assert store.check() == []
    by_key = {record.key: record for record in records}
    assert len(by_key) == len(records)
    return by_key


def study(n: int = 600) -> list[bbq.Comparison]:
    """Votes of a simulated study of eight items, in which two of ten raters guess."""
    drawn = bbq.simulate(
        items=8, raters=10, comparisons=n, guessers=0.2, spread=0.7, seed=2
    ).arrays()
    votes = []
    for i, (r, w, x) in enumerate(zip(drawn.rater, drawn.winner, drawn.loser, strict=True)):
        rater, winner, loser = drawn.raters[r], drawn.items[w], drawn.items[x]
        if i % 2:
            votes.append(bbq.Comparison(f"s{i}", rater, winner, loser, "left", at=float(i)))
        else:
            votes.append(bbq.Comparison(f"s{i}", rater, loser, winner, "right", at=float(i)))
    return votes


def cast(hook: bbq.Hook, votes: list[bbq.Comparison]) -> None:
    """Vote as fast as one can without waiting for each."""
    for done in [hook.submit(vote) for vote in votes]:
        done.result()
