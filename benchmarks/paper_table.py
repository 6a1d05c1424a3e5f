"""The paper's stability table: HiFiC and MT-Bench, 1,000 resamples of raters.

Each resample draws as many raters as there are, with replacement, and is fitted again; Kendall's
τ and the first place are compared with the fit of all the data. The paper used 10,000 resamples.
Ties of MT-Bench are two half-weight comparisons. crowd-bt is Chen et al.'s model at its true
maximum, whereas the paper ran another program for it: shown beside, without a bar.
"""

from __future__ import annotations

import time

import numpy as np
from common import PAPERS, Report, Table, arguments, mean_and_error, per_cent, real_sets
from numpy.typing import NDArray
from scipy.stats import kendalltau

from bbq_plugin import Comparisons, fit
from bbq_plugin.model.fit import Model

RESAMPLES = 1000
NEAR = 0.01
MOST_SECONDS = 60.0
NAMES = {"hific": "HiFiC", "mtbench": "MT-Bench"}
MODELS: tuple[Model, ...] = ("bayes-bt", "bbq", "crowd-bt")
#: Kendall's τ of the paper's table.
PAPER = {
    ("hific", "bayes-bt"): 0.9293,
    ("hific", "bbq"): 0.9525,
    ("hific", "crowd-bt"): 0.9366,
    ("mtbench", "bayes-bt"): 0.9569,
    ("mtbench", "bbq"): 0.9675,
    ("mtbench", "crowd-bt"): 0.9743,
}


def stability(data: Comparisons, model: Model, n: int) -> tuple[NDArray[np.float64], float, float]:
    """Kendall's τ of each resample, the share with the same first place, and the seconds."""
    whole = fit(data, model=model, **PAPERS)
    begin = time.perf_counter()
    theta = whole.bootstrap(n)
    seconds = time.perf_counter() - begin
    tau = np.array([kendalltau(row, whole.theta).statistic for row in theta])
    top = float(np.mean(theta.argmax(axis=1) == whole.theta.argmax()))
    return tau, top, seconds


def main() -> None:
    """Fill the table."""
    quick: bool = arguments(__doc__ or "").quick
    n = 200 if quick else RESAMPLES
    report = Report("paper_table", "The paper's table of stability", __doc__ or "", quick)
    rows = []
    for name, data in real_sets(report, "hific", "mtbench").items():
        taken = 0.0
        for model in MODELS:
            judged = model != "crowd-bt"
            tau, top, seconds = stability(data, model, n if judged else max(50, n // 5))
            mean, error = mean_and_error(tau)
            goal = PAPER[name, model]
            taken += seconds if judged else 0.0
            rows.append(
                [
                    NAMES[name], model, f"{len(tau):,}", f"{mean:.4f} ± {error:.4f}", f"{goal:.4f}",
                    per_cent(top, 1), f"{seconds:.1f}", f"{1000 * seconds / len(tau):.1f}",
                ]
            )  # fmt: skip
            print(" | ".join(rows[-1]), flush=True)
            report.values[f"{name} {model}"] = {"tau": mean, "top": top, "seconds": seconds}
            if judged:
                what = f"{NAMES[name]}, {model}"
                bar = f"{goal:.4f} ± {NEAR}"
                report.check(f"{what}: τ", f"{mean:.4f}", bar, ok=abs(mean - goal) <= NEAR)
                report.check(f"{what}: same first place", per_cent(top, 1), "100%", ok=top == 1)
        what = f"{NAMES[name]}: all {2 * n:,} resamples of bayes-bt and bbq"
        bar = f"seconds (≤ {MOST_SECONDS:.0f} s)"
        report.check(what, f"{taken:.1f} s", bar, ok=taken <= MOST_SECONDS)
    header = ["set", "model", "resamples", "τ", "paper's τ", "same first", "s", "ms each"]
    report.tables.append(Table("Stability under resampled raters", header, rows))
    report.finish()


if __name__ == "__main__":
    main()
