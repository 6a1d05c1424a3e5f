"""A cold fit at HUMAINE's size, from coded arrays to 1e-6 Elo.

105,220 comparisons by 1,977 raters of 27 items (simulated, with 20% guessers). The clock runs over
`Comparisons.from_arrays` and `fit`, with no warm start; compiled code is loaded before. 1e-6 Elo on
the paper's scale (400 points a nat) is 2.5e-9 nats. The paper's EM is the one of `literal_em.py`
without rescaling, on counts made before the clock starts, and stops at the first step that is
within 1e-6 Elo of the optimum, which it is told. evalica's rater-blind `bradley_terry` gets the
same arrays, with the list of winners made before the clock starts and its own default tolerance.
Called with an index of its own making beside the arrays it has less to do; that is shown too.
"""

from __future__ import annotations

import time
from functools import partial

import evalica
import numpy as np
import pandas as pd
from common import PAPER_ELO, PAPERS, Report, Table, arguments, best_of
from literal_em import Counts, em

from bbq_plugin import Comparisons, fit, simulate

ITEMS, RATERS, COMPARISONS = 27, 1977, 105_220
TOLERANCE_ELO = 1e-6
FASTER = 300


def paper_em(counts: Counts, optimum: np.ndarray, most: int) -> tuple[int, float, float]:
    """Steps to 1e-6 Elo, seconds for them, and the Elo still missing after the last step."""
    gap = np.inf
    begin = time.perf_counter()
    for n, (lam, _) in enumerate(em(counts, rescale=False), start=1):
        gap = PAPER_ELO * float(np.max(np.abs(np.log(lam) - optimum)))
        if gap <= TOLERANCE_ELO or n == most:
            break
    return n, time.perf_counter() - begin, gap


def main() -> None:
    """Time all three."""
    quick: bool = arguments(__doc__ or "").quick
    report = Report("humaine_speed", "Cold fit at HUMAINE's size", __doc__ or "", quick)
    study = simulate(
        items=ITEMS, raters=RATERS, comparisons=COMPARISONS, guessers=0.2, quality=(8.0, 2.0),
        spread=0.6, median_votes=30, seed=0,
    )  # fmt: skip
    data = study.arrays()
    order = np.random.default_rng(0).permutation(COMPARISONS)  # as it would come: unsorted
    rater, winner, loser = data.rater[order], data.winner[order], data.loser[order]
    tolerance = TOLERANCE_ELO / PAPER_ELO

    def ours() -> np.ndarray:
        return fit(Comparisons.from_arrays(rater, winner, loser), tol=tolerance, **PAPERS).theta

    repeats = 5 if quick else 20
    seconds = best_of(ours, repeats, warm_up=2)
    # Whether tol keeps its word is measured against a fit a thousand times as tight.
    optimum = fit(data, tol=1e-12, **PAPERS).theta
    error = PAPER_ELO * float(np.max(np.abs(ours() - optimum)))

    steps, em_seconds, gap = paper_em(Counts.of(data), optimum, 200 if quick else 1_000_000)
    index = pd.Index(range(ITEMS))
    x_won = [evalica.Winner.X] * COMPARISONS
    lists = winner.tolist(), loser.tolist()
    theirs = {
        name: best_of(partial(evalica.bradley_terry, *given, x_won, index=known), repeats)
        for name, given, known in (
            ("evalica, arrays", (winner, loser), None),
            ("evalica, arrays and its index", (winner, loser), index),
            ("evalica, lists and its index", lists, index),
        )
    }
    evalica_seconds = theirs["evalica, arrays"]

    if quick:
        needed = 9000
        em_seconds *= needed / steps
        report.notes.append(
            f"--quick: the EM ran {steps} steps and its time is extrapolated to {needed:,}."
        )
    ratio = em_seconds / seconds
    shown = f"{ratio:,.0f} times"
    report.check("faster than the paper's EM", shown, f"≥ {FASTER} times", ok=ratio >= FASTER)
    against = seconds / evalica_seconds
    report.check("time relative to evalica", f"{against:.2f}", "≤ 1", ok=against <= 1)
    indexed = f"{seconds / min(theirs.values()):.2f}"
    report.check("time relative to evalica with its index at hand", indexed, "")
    shown = f"{error:.0e} Elo"
    ok = error <= TOLERANCE_ELO
    report.check("largest error of the timed fit", shown, f"≤ {TOLERANCE_ELO:.0e} Elo", ok=ok)
    rows = [
        ["bbq fit, from_arrays to theta", f"{1000 * seconds:.1f}", f"{error:.0e}"],
        [f"the paper's EM, {steps:,} steps", f"{1000 * em_seconds:,.0f}", f"{gap:.0e}"],
        *([name, f"{1000 * value:.1f}", ""] for name, value in theirs.items()),
    ]
    report.tables.append(
        Table(f"Best of {repeats} (EM: one run)", ["what", "ms", "Elo from the optimum"], rows)
    )
    report.values = {
        "seconds": seconds, "em_seconds": em_seconds, "em_steps": steps, "ratio": ratio,
        "evalica": theirs, "error_elo": error,
    }  # fmt: skip
    report.finish()


if __name__ == "__main__":
    main()
