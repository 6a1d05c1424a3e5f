"""The plain Bradley-Terry limit (no priors, every quality 1) against choix and evalica.

With a = 1, b = 0 and q ≡ 1 the model is the plain Bradley-Terry maximum likelihood, which both
packages from PyPI compute as well. A tie is half a win each way: evalica means the same with its
default `tie_weight = 0.5`; choix has no weights, so it is given every decided comparison twice
and every tie once each way, which has the same maximum.
"""

from __future__ import annotations

import warnings
from importlib.metadata import version

import choix
import evalica
import numpy as np
from common import Report, Table, arguments, real_sets
from numpy.typing import NDArray

from bbq_plugin import Comparisons, Priors, fit, simulate

BAR = 1e-5

Floats = NDArray[np.float64]


def centred(theta: Floats) -> Floats:
    """Only differences mean something here."""
    return np.asarray(theta - theta.mean())


def by_choix(data: Comparisons) -> dict[str, Floats]:
    """Three algorithms of choix, each with the tightest tolerance it can hold."""
    copies = np.rint(2 * data.weight).astype(int)
    assert np.allclose(copies, 2 * data.weight), "choix has no weights: whole and half wins only"
    if np.all(copies == 2):
        copies = np.ones_like(copies)
    pairs = np.column_stack((data.winner, data.loser)).repeat(copies, axis=0).tolist()
    n = data.n_items
    return {
        "choix.ilsr_pairwise": choix.ilsr_pairwise(n, pairs, alpha=0.0, max_iter=1000, tol=1e-10),
        "choix.mm_pairwise": choix.mm_pairwise(n, pairs, alpha=0.0, max_iter=200_000, tol=1e-12),
        "choix.opt_pairwise": choix.opt_pairwise(
            n, pairs, alpha=0.0, method="Newton-CG", tol=1e-12, max_iter=10_000
        ),
    }


def by_evalica(data: Comparisons) -> dict[str, Floats]:
    """Both solvers of evalica; two equal rows of half weight, one each way, are a tie to it."""
    found = {}
    winners = [evalica.Winner.X] * data.winner.size
    for solver in ("pyo3", "naive"):
        result = evalica.bradley_terry(
            data.winner.tolist(),
            data.loser.tolist(),
            winners,
            weights=data.weight.tolist(),
            solver=solver,
            tolerance=1e-12,
            limit=100_000,
        )
        assert result.iterations < 100_000, "evalica ran into its limit"
        found[f"evalica.bradley_terry ({solver})"] = np.log(
            result.scores.reindex(range(data.n_items)).to_numpy()
        )
    return found


def main() -> None:
    """Compare all maxima."""
    quick: bool = arguments(__doc__ or "").quick
    report = Report(
        "plain_bt", "Plain Bradley-Terry against choix and evalica", __doc__ or "", quick
    )
    sets = real_sets(report, "hific", "mtbench", "llmfao")
    sets["simulated: 20 items, 10% ties"] = simulate(
        items=20, raters=40, comparisons=4000 if quick else 20_000, ties=0.1, spread=1.0, seed=6
    ).arrays()
    worst: dict[str, float] = {}
    rows = []
    for name, data in sets.items():
        ours = centred(fit(data, model="bayes-bt", priors=Priors(a=1, b=0), tol=1e-9).theta)
        with warnings.catch_warnings():
            # "Desired error not necessarily achieved": the achieved one is what we measure.
            warnings.simplefilter("ignore")
            others = by_choix(data) | by_evalica(data)
        for tool, theta in others.items():
            gap = float(np.max(np.abs(centred(theta) - ours)))
            worst[tool] = max(worst.get(tool, 0.0), gap)
            rows.append([name, tool, f"{gap:.1e}"])
            print(" | ".join(rows[-1]), flush=True)
    for tool, gap in worst.items():
        what = f"largest difference of θ to {tool}"
        report.check(what, f"{gap:.1e} nats", f"≤ {BAR:.0e} nats", ok=gap <= BAR)
    report.values = dict(worst)
    report.tables.append(Table("Largest difference by set", ["set", "other tool", "nats"], rows))
    report.notes.append(f"choix {version('choix')}, evalica {version('evalica')}.")
    report.finish()


if __name__ == "__main__":
    main()
