"""Calibration at HUMAINE's size when the raters are not those of the prior.

105,220 comparisons by 1,977 raters (log-normal numbers of votes with median 30) of 27 items with
θ ~ Normal(0, 0.6); 20% of the raters guess (q = 0), the honest ones have q ~ Beta(8, 2). The slope
is that of a regression of the fitted θ on the true θ: 1 means that distances between items are
right on average, less means that they are shrunk. Coverage is of nominal 95% Laplace intervals
for all 351 differences. Beside it, the paper's priors, which take the raters for better than
they are.
"""

from __future__ import annotations

import time
from typing import Literal

import numpy as np
from common import (
    Report,
    Table,
    arguments,
    figure,
    in_two_processes,
    mean_and_error,
    per_cent,
    within,
)

from bbq_plugin import Priors, fit, simulate

STUDIES, QUICK_STUDIES = 40, 2
ITEMS, RATERS, COMPARISONS = 27, 1977, 105_220
LEVEL_Z = 1.959963984540054
SOURCES: tuple[Literal["auto", "paper"], ...] = ("auto", "paper")


def study(seed: int) -> dict[str, dict[str, float]]:
    """Slope, coverage and what was estimated, for both kinds of priors."""
    drawn = simulate(
        items=ITEMS, raters=RATERS, comparisons=COMPARISONS, guessers=0.2, quality=(8.0, 2.0),
        spread=0.6, median_votes=30, seed=seed,
    )  # fmt: skip
    data, truth = drawn.arrays(), drawn.truth.theta
    result: dict[str, dict[str, float]] = {}
    for source in SOURCES:
        begin = time.perf_counter()
        found = fit(data, priors=source)
        assert isinstance(found.priors, Priors)
        mean, cov = found.laplace.mean, found.covariance()
        seconds = time.perf_counter() - begin
        i, j = np.triu_indices(ITEMS, 1)
        sd = np.sqrt(cov[i, i] + cov[j, j] - 2 * cov[i, j])
        miss = np.abs((mean[i] - mean[j]) - (truth[i] - truth[j])) / sd
        result[source] = {
            "slope": float(np.polyfit(truth, found.theta, 1)[0]),
            "coverage": float(np.mean(miss <= LEVEL_Z)),
            "guessers": found.priors.guessers,
            "alpha": found.priors.alpha,
            "beta": found.priors.beta,
            "quality": float(found.quality.mean()),
            "true_quality": float(drawn.truth.quality.mean()),
            "seconds": seconds,
        }
    return result


def main() -> None:
    """Run the studies."""
    quick: bool = arguments(__doc__ or "").quick
    n = QUICK_STUDIES if quick else STUDIES
    report = Report(
        "calibration", "Calibration at HUMAINE's size with 20% guessers", __doc__ or "", quick
    )
    studies = list(in_two_processes(study, range(n)))
    rows = []
    for source in SOURCES:
        column = {key: np.array([s[source][key] for s in studies]) for key in studies[0][source]}
        slope, slope_error = mean_and_error(column["slope"])
        coverage, coverage_error = mean_and_error(column["coverage"])
        judged = source == "auto"
        shown = f"{slope:.3f} ± {slope_error:.3f}"
        ok = within(slope, 0.95, 1.05) if judged else None
        report.check(f"{source}: mean slope", shown, "0.95–1.05" if judged else "", ok=ok)
        bar = (0.93, 0.97) if judged else None
        report.check_share(f"{source}: coverage", coverage, coverage_error, bar)
        rows.append(
            [
                source,
                f"{slope:.3f}",
                f"{column['slope'].std(ddof=1):.3f}",
                f"{column['slope'].min():.3f}–{column['slope'].max():.3f}",
                per_cent(coverage, 1),
                f"{per_cent(column['coverage'].min(), 0)}–{per_cent(column['coverage'].max(), 0)}",
                f"{column['quality'].mean():.2f} ({column['true_quality'].mean():.2f})",
                f"{column['guessers'].mean():.2f}",
                f"{column['seconds'].mean():.1f}",
            ]
        )
        report.values[source] = {key: list(map(float, values)) for key, values in column.items()}
    header = [
        "priors", "slope", "sd over studies", "range", "coverage", "range",
        "mean q (true)", "share of guessers", "s per fit, one thread",
    ]  # fmt: skip
    report.tables.append(Table(f"{n} studies; ± is the standard error of the mean", header, rows))
    with figure(report, "calibration") as axes:
        for source in SOURCES:
            slopes = report.values[source]["slope"]
            axes.scatter(slopes, 100 * np.array(report.values[source]["coverage"]), label=source)
        axes.axvline(1, color="black", linewidth=1, linestyle="--")
        axes.axhline(95, color="black", linewidth=1, linestyle="--")
        axes.set_xlabel("slope of fitted on true θ (1 is calibrated)")
        axes.set_ylabel("differences inside their 95% interval, %")
        axes.legend(title="priors", frameon=False)
    report.finish()


if __name__ == "__main__":
    main()
