"""What Hypothesis may invent: names, weighted wins, rankings and answers."""

from __future__ import annotations

from hypothesis import strategies as st

from bbq_plugin.data.records import OUTCOMES, Comparison

names = st.text(min_size=1, max_size=12).filter(str.strip)
# Weights as the engine promises to cope with them.
weights = st.floats(min_value=1e-6, max_value=1e6, allow_nan=False)
few_items = st.integers(min_value=2, max_value=6).map(lambda n: [f"i{k}" for k in range(n)])


@st.composite
def records(
    draw: st.DrawFn, min_size: int = 1, max_size: int = 30
) -> list[tuple[str, str, str, float]]:
    """Rows of (rater, winner, loser, weight)."""
    items = draw(few_items)
    pair = st.lists(st.sampled_from(items), min_size=2, max_size=2, unique=True)
    row = st.tuples(st.sampled_from(["ann", "bob", "eve"]), pair, weights)
    rows = draw(st.lists(row, min_size=min_size, max_size=max_size))
    return [(rater, winner, loser, weight) for rater, (winner, loser), weight in rows]


@st.composite
def comparisons(draw: st.DrawFn, max_size: int = 30) -> list[Comparison]:
    """Answers with every outcome, all of them rated."""
    rows = draw(records(max_size=max_size))
    outcomes = draw(st.lists(st.sampled_from(OUTCOMES), min_size=len(rows), max_size=len(rows)))
    return [
        Comparison(f"c{i}", rater, left, right, outcome, weight)
        for i, ((rater, left, right, weight), outcome) in enumerate(
            zip(rows, outcomes, strict=True)
        )
    ]


# Sizes of the levels of a partial ranking, few enough items to list all their orders.
level_sizes = st.lists(st.integers(1, 3), min_size=2, max_size=4).filter(lambda s: sum(s) <= 6)
