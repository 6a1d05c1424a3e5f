"""The optimum of `fit` against the paper's EM, run until less than 1e-10 is left.

The EM is written in NumPy straight from the paper's equations (`literal_em.py`) and shares no
code with the package. Both solvers of the package have to end where it ends.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from common import PAPERS, Report, Table, arguments, real_sets
from literal_em import Counts, em_to

from bbq_plugin import Comparisons, fit, simulate

BAR = 1e-6
DISTANCE = 1e-10
TIGHT = 1e-9
SIGN = {"theta": "θ", "q": "q"}
SOLVERS: tuple[Literal["auto", "em"], ...] = ("auto", "em")
MODELS: tuple[Literal["bbq", "bayes-bt"], ...] = ("bbq", "bayes-bt")


def simulations(*, quick: bool) -> dict[str, Comparisons]:
    """Studies that differ in what makes a fit hard."""
    n = 1 if quick else 10
    return {
        "simulated: METHOD's 8 items": simulate(seed=1).arrays(),
        "simulated: 30% guessers, 20% ties": simulate(
            items=12, raters=80, comparisons=4000 * n, guessers=0.3, ties=0.2, seed=2
        ).arrays(),
        "simulated: 10% inverted": simulate(
            items=20, raters=150, comparisons=3000 * n, inverted=0.1, seed=3
        ).arrays(),
        "simulated: slates of 4, ranked": simulate(
            items=15, raters=60, comparisons=600 * n, slate=4, answer="rank", seed=4
        ).arrays(),
        "simulated: 40 items far apart": simulate(
            items=40, raters=30, comparisons=2000 * n, spread=2.0, seed=5
        ).arrays(),
    }


def main() -> None:
    """Compare all optima."""
    quick: bool = arguments(__doc__ or "").quick
    report = Report("optimum", "Optimum against a literal EM run to 1e-10", __doc__ or "", quick)
    sets = real_sets(report, "hific", "mtbench", "llmfao") | simulations(quick=quick)
    tightest = 0.0
    rows, worst = [], {(s, x): 0.0 for s in SOLVERS for x in ("theta", "q")}
    for name, data in sets.items():
        for model in MODELS:
            counts = Counts.of(data)
            theta, q, steps = em_to(counts, DISTANCE, quality=model == "bbq")
            row = [name, model, f"{steps:,}"]
            for solver in SOLVERS:
                found = fit(data, model=model, solver=solver, **PAPERS)
                gaps = {"theta": np.max(np.abs(found.theta - theta))}
                gaps["q"] = np.max(np.abs(found.quality - q))
                for x, gap in gaps.items():
                    worst[solver, x] = max(worst[solver, x], float(gap))
                    row.append(f"{gap:.0e}")
            tight = fit(data, model=model, tol=TIGHT, **PAPERS)
            gap = max(np.max(np.abs(tight.theta - theta)), np.max(np.abs(tight.quality - q)))
            tightest = max(tightest, float(gap))
            rows.append([*row, f"{gap:.0e}"])
            print(" | ".join(rows[-1]), flush=True)
    for (solver, x), gap in worst.items():
        unit = "nats" if x == "theta" else ""
        what = f"largest difference of {SIGN[x]}, solver {solver}, {len(rows)} fits"
        report.check(
            what, f"{gap:.1e} {unit}".strip(), f"≤ {BAR:.0e} {unit}".strip(), ok=gap <= BAR
        )
        report.values[f"{solver} {x}"] = gap
    what = f"largest difference of θ or q, solver auto with tol = {TIGHT:.0e}"
    report.check(what, f"{tightest:.1e}")
    report.values["tight"] = tightest
    report.tables.append(
        Table(
            f"Largest differences; tol = 1e-6 (the default), in the last column {TIGHT:.0e}",
            ["set", "model", "EM steps", "auto θ", "auto q", "em θ", "em q", "tight"],
            rows,
        )
    )
    report.finish()


if __name__ == "__main__":
    main()
