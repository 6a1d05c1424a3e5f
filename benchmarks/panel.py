"""Raters who agree no more than random answers would: when there is a warning, and when not.

Panels of random answers, and panels whose raters have quality ~ Beta(10, 2) while the items differ
by a standard deviation of so many nats. There is a warning unless random answers agree as much with
a probability of at most 5%. So 95% of the panels of random answers get a warning; so do panels in
which the items are too close for so few answers, where no verdict is possible either. Seed: 0.
"""

from __future__ import annotations

import numpy as np
from common import Report, Table, arguments, per_cent

from bbq_plugin.analysis.agreement import LEVEL, panel_p
from bbq_plugin.data.dataset import Comparisons

DESIGNS = ((6, 3, 60), (6, 10, 50), (2, 10, 50), (20, 100, 8), (6, 20, 400))
SPREADS = (0.0, 0.1, 0.2, 0.5, 1.0)
RUNS, QUICK_RUNS = 300, 40


def panel(
    rng: np.random.Generator, items: int, raters: int, votes: int, spread: float
) -> Comparisons:
    """One study; a spread of 0 makes every answer a coin's."""
    theta, quality = spread * rng.standard_normal(items), rng.beta(10, 2, raters)
    who = np.repeat(np.arange(raters), votes)
    one = rng.integers(0, items, who.size)
    other = (one + rng.integers(1, items, who.size)) % items
    p = 0.5 + quality[who] * (1 / (1 + np.exp(theta[other] - theta[one])) - 0.5)
    won = rng.random(who.size) < p
    return Comparisons.from_arrays(
        who, np.where(won, one, other), np.where(won, other, one),
        items=[f"item-{n}" for n in range(items)], raters=[f"rater-{n}" for n in range(raters)],
    )  # fmt: skip


def main() -> None:
    """Run all designs."""
    quick: bool = arguments(__doc__ or "").quick
    runs = QUICK_RUNS if quick else RUNS
    report = Report("panel", "A panel of random answers", __doc__ or "", quick)
    rng = np.random.default_rng(0)
    rows, coins = [], []
    for design in DESIGNS:
        shares = [
            float(np.mean([panel_p(panel(rng, *design, spread)) > LEVEL for _ in range(runs)]))
            for spread in SPREADS
        ]
        items, raters, votes = design
        rows.append([str(items), str(raters), str(votes), *(per_cent(s, 0) for s in shares)])
        report.values[f"{items} items, {raters} raters, {votes} votes"] = dict(
            zip(map(str, SPREADS), shares, strict=True)
        )
        coins.append(shares[0])
    missed, n = 1 - float(np.mean(coins)), runs * len(DESIGNS)
    error = float(np.sqrt(missed * (1 - missed) / n))
    report.check(
        "panels of random answers without a warning",
        f"{per_cent(missed, 1)} ± {per_cent(error, 1)}",
        "at most 5%, beside the error of the simulation",
        ok=missed <= LEVEL + 2 * error,
    )
    header = ["items", "raters", "votes each", "coins", *(f"{s:g} nats" for s in SPREADS[1:])]
    report.tables.append(Table("Panels that are warned of", header, rows))
    report.finish()


if __name__ == "__main__":
    main()
