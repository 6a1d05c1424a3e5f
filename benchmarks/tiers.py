"""Tiers and settled pairs where there is nothing to find: how often is something found?

Tiers: ten equal items, 1,200 comparisons of random pairs, quality Beta(10, 2), looked at once under
default settings. A false tier: the leaderboard has more than one. Four panels: 30 raters, 5 raters,
30 raters with tastes of their own (each rater's places of the items Normal(0, 0.5^2) around 0), and
10 raters with such tastes.

Settled pairs: ten equal items, 10,000 fair votes on random pairs, looked at after every 100. A
false settled pair: any pair is settled at any of the 100 looks. Beside it what each pair held to
e >= 20 by itself would give. Seeds: 0 and up.
"""

from __future__ import annotations

import numpy as np
from common import Report, arguments, per_cent

from bbq_plugin import Comparisons, fit, leaderboard
from bbq_plugin.analysis.stopping import _Met, log_e_value

K, VOTES, LOOKS = 10, 1200, 100
PANELS = {
    "30 raters": (30, 0.0), "5 raters": (5, 0.0), "30 raters with tastes": (30, 0.5),
    "10 raters with tastes": (10, 0.5),
}  # fmt: skip


def tiers(raters: int, taste: float, seed: int) -> int:
    """How many tiers a study of equal items has."""
    rng = np.random.default_rng([23, raters, int(10 * taste), seed])
    quality = rng.beta(10, 2, raters)
    theta = taste * rng.standard_normal((raters, K))
    who = np.repeat(np.arange(raters), VOTES // raters)
    first = rng.integers(0, K, who.size)
    second = (first + rng.integers(1, K, who.size)) % K
    gap = theta[who, first] - theta[who, second]
    won = rng.random(who.size) < 0.5 + quality[who] * 0.5 * np.tanh(0.5 * gap)
    winner, loser = np.where(won, first, second), np.where(won, second, first)
    board = leaderboard(fit(Comparisons.from_arrays(who, winner, loser)))
    return max(row.tier for row in board)


def settled(seed: int) -> tuple[bool, bool]:
    """Whether any pair was ever settled: by e-BH, and each by itself."""
    rng = np.random.default_rng([29, seed])
    low, high = np.triu_indices(K, 1)
    won, lost = np.zeros(low.size), np.zeros(low.size)
    corrected = alone = False
    for _ in range(LOOKS):
        pair, left = rng.integers(0, low.size, 100), rng.random(100) < 0.5
        won += np.bincount(pair, left, low.size)
        lost += np.bincount(pair, ~left, low.size)
        log_e = log_e_value(won, lost)
        met = _Met(low, high, won, lost, log_e, K)
        corrected |= bool((log_e >= met.enough(0.95)).any())
        alone |= bool((log_e >= np.log(20)).any())
    return corrected, alone


def main() -> None:
    """Measure and report."""
    quick: bool = arguments(__doc__ or "").quick
    report = Report("tiers", "Tiers and settled pairs of equal items", __doc__ or "", quick)
    n = 10 if quick else 400
    for name, (raters, taste) in PANELS.items():
        false = [tiers(raters, taste, seed) > 1 for seed in range(n)]
        share = float(np.mean(false))
        error = float(np.sqrt(max(share * (1 - share), 0.25 / n) / n))
        report.check(
            f"any false tier: {name} ({n} studies)", f"{per_cent(share)} ± {per_cent(error)}",
            "at most 5%", ok=share <= 0.05,
        )  # fmt: skip
    found = np.array([settled(seed) for seed in range(100 if quick else 2000)])
    corrected, alone = found.mean(axis=0).tolist()
    report.check(
        f"any false settled pair in 100 looks ({len(found)} studies)", per_cent(corrected),
        "at most 5%", ok=corrected <= 0.05,
    )  # fmt: skip
    report.check("the same with each pair by itself (e ≥ 20)", per_cent(alone))
    report.finish()


if __name__ == "__main__":
    main()
