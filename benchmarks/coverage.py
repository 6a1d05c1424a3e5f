"""Coverage of nominal 95% intervals for the difference of two items, in METHOD's simulation.

8 items, 40 raters with 38 comparisons each, skills and qualities drawn from the paper's priors;
all 28 differences of a study are looked at. `default` is what the command line does when nothing
is asked for: priors estimated from the data, intervals robust to clusters of answers by rater
(there are none in this simulation). `laplace` are the model's own, with quality integrated out.
`posterior` is the exact posterior under the given priors (Gibbs, 4,000 draws); under the priors
that the truth was drawn from its coverage is 95% by construction, so it also tests the sampler.
`paper` takes all other skills and every quality as known. Standard errors are over studies.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from common import Report, Table, arguments, figure, in_two_processes, mean_and_error, per_cent

from bbq_plugin import Comparisons, fit, simulate
from bbq_plugin.analysis import Uncertainty, uncertainty
from bbq_plugin.data.dataset import Answers

STUDIES, QUICK_STUDIES = 1000, 40
LEVEL = 0.95
DRAWS = 4000
ITEMS, RATERS, EACH = 8, 40, 38
KINDS = {
    "paper": "paper: Gammas given the expected latents",
    "laplace": "laplace, given priors",
    "posterior": "posterior, given priors",
    "own": "laplace, priors estimated",
    "default": "default: robust, priors estimated",
    "own, thrice": "each answer stored three times: laplace",
    "thrice": "each answer stored three times: default",
}
BARS = {"default": (0.94, 0.97), "thrice": (0.92, 0.97), "posterior": (0.945, 0.955)}


def study(seed: int) -> dict[str, tuple[float, float]]:
    """Of each kind of interval, the share of differences it holds and its mean width."""
    drawn = simulate(items=ITEMS, raters=RATERS, comparisons=RATERS * EACH, seed=seed)
    data, truth = drawn.arrays(), drawn.truth.theta
    given, estimated = fit(data, priors="paper"), fit(data, priors="auto")
    again = fit(stored(data, 3), priors="auto")
    known = {
        "paper": uncertainty(given, "paper", draws=DRAWS, seed=seed),
        "laplace": uncertainty(given, "laplace", draws=10),
        "posterior": uncertainty(given, "posterior", draws=DRAWS, seed=seed),
        "own": uncertainty(estimated, "laplace", draws=10),
        "default": uncertainty(estimated, "auto", draws=10),
        "own, thrice": uncertainty(again, "laplace", draws=10),
        "thrice": uncertainty(again, "auto", draws=10),
    }
    return {kind: held(found, truth) for kind, found in known.items()}


def stored(data: Comparisons, times: int) -> Comparisons:
    """The same answers, each stored so often, with its time."""
    rows = [np.tile(column, times) for column in (data.rater, data.winner, data.loser)]
    at = np.tile(np.arange(data.weight.size, dtype=np.float64), times)
    none = dict.fromkeys(("side", "time_s", "order", "gold", "kept", "half"))
    answers = Answers(**none, dated=True, at=at)
    return replace(Comparisons.from_arrays(*rows), answers=answers)


def held(found: Uncertainty, truth: np.ndarray) -> tuple[float, float]:
    """The share of all differences inside their intervals, and the mean width in nats."""
    inside, width = [], []
    for i in range(ITEMS):
        for j in range(i):
            low, high = found.difference_interval(i, j, LEVEL)
            inside.append(low <= truth[i] - truth[j] <= high)
            width.append(high - low)
    return float(np.mean(inside)), float(np.mean(width))


def main() -> None:
    """Run the studies."""
    quick: bool = arguments(__doc__ or "").quick
    n = QUICK_STUDIES if quick else STUDIES
    report = Report("coverage", "Coverage of nominal 95% intervals", __doc__ or "", quick)
    found = list(in_two_processes(study, range(n)))
    rows = []
    for kind, what in KINDS.items():
        coverage, error = mean_and_error(one[kind][0] for one in found)
        width, _ = mean_and_error(one[kind][1] for one in found)
        rows.append([what, f"{per_cent(coverage)} ± {per_cent(error)}", f"{width:.3f}"])
        report.values[kind] = {"coverage": coverage, "error": error, "width": width}
        report.check_share(what, coverage, error, BARS.get(kind))
    header = ["interval", "coverage ± s.e.", "mean width, nats"]
    report.tables.append(Table(f"{n:,} studies, {n * 28:,} differences", header, rows))
    with figure(report, "coverage", width=8.0, height=3.0) as axes:
        for place, kind in enumerate(reversed(KINDS)):
            value = report.values[kind]
            axes.errorbar(
                100 * value["coverage"], place, xerr=200 * value["error"], fmt="o", capsize=3
            )
        axes.axvline(100 * LEVEL, color="black", linewidth=1, linestyle="--")
        axes.set_yticks(range(len(KINDS)), [KINDS[kind] for kind in reversed(KINDS)])
        axes.set_xlabel("differences inside their 95% interval, % (± 2 s.e.)")
        axes.set_ylabel("interval")
    report.finish()


if __name__ == "__main__":
    main()
