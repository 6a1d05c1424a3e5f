"""Covariates: is the bias of a length and of a side gone from the ratings, do intervals hold?

Simulated studies of 10 items: places Normal(0, 1), 50 raters with quality Beta(10, 2), 200 answers
each (small studies: 60). Answers of better items are longer (correlation 0.7), and the better item
stands on the left 65% of the time. A rater adds 0.4 nats for each standard deviation of length, and
leans to the left by Normal(0.4, 0.3). Both covariates are estimated, under default settings.

Three slopes through the origin, all studies together. On the fit with the true effects given: of
the fitted places with estimated effects on those of the same fit with the true ones. What differs
from 1 is the bias that the covariates leave. Truth on fitted: whether a fitted distance is to be
believed. Fitted on truth: below 1 in any fit that shrinks, with the true effects given as well;
a mode in 10 places is nearer to 0 than their mean where the scale of all of them is not known well.
It is in the table for both. Bias: the slope of the error on the item's mean length. Coverage: of
the 95% intervals of the length's effect, the panel's lean, each rater's lean, and of the
differences of items. Seeds: 300,000 and up; those below were looked at while this was made.

In small studies the prior, which holds items together but not effects, lets a covariate explain
some of what the items are: slope and bias there are shown without a bar.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from common import Report, Table, arguments, per_cent, within

from bbq_plugin import Comparison, Comparisons, fit
from bbq_plugin.model.fit import MODELS

LENGTH, LEAN, LEANS = 0.4, 0.4, 0.3


def study(
    seed: int, *, times: float = 1.0, ties: float = 0.0, each: int = 200
) -> tuple[Comparisons, Any]:
    """The answers, and what they were drawn from; effects ``times`` as large."""
    rng = np.random.default_rng([17, seed])
    k, raters = 10, 50
    theta = rng.normal(0, 1, k)
    long = 0.7 * theta + np.sqrt(1 - 0.49) * rng.normal(0, 1, k)
    quality, lean = rng.beta(10, 2, raters), times * (LEAN + LEANS * rng.normal(0, 1, raters))
    rows = []
    for r in range(raters):
        for n in range(each):
            i, j = rng.choice(k, 2, replace=False)
            # The better one stands left more often.
            if (theta[i] < theta[j]) == (rng.random() < 0.65):
                i, j = j, i
            gap = long[i] - long[j] + rng.normal(0, 1)
            d = theta[i] - theta[j] + times * LENGTH * gap + lean[r]
            p = 0.5 + quality[r] * (1 / (1 + np.exp(-d)) - 0.5)
            outcome: Any = "left" if rng.random() < p else "right"
            if rng.random() < ties:
                outcome = "tie"
            rows.append(
                Comparison(f"{r}-{n}", f"r{r}", f"i{i}", f"i{j}", outcome,
                           tags={"length_diff": f"{gap:.4f}"})
            )  # fmt: skip
    return Comparisons.from_comparisons(rows), (theta, long, lean)


def measured(seed: int, times: float, ties: float = 0.0, each: int = 200) -> dict[str, Any]:
    """One study: errors, and what intervals hold."""
    data, (theta, long, lean) = study(seed, times=times, ties=ties, each=each)
    began = time.process_time()
    plain = fit(data)
    alone = time.process_time() - began
    found = fit(data, covariates=("length_diff", "side"))
    level = [int(name[1:]) for name in data.items]
    true = theta[level] - theta.mean()
    length, side = found.effects()
    unit, known = length.unit, found.known_with
    covariance, gap = found.covariance(), found.theta[:, None] - found.theta
    spread = np.diag(covariance)[:, None] + np.diag(covariance) - 2 * covariance
    pairs = np.triu_indices(len(true), 1)
    inside = np.abs(gap - true[:, None] + true)[pairs] < 1.96 * np.sqrt(spread[pairs])
    raters = np.array([int(name[1:]) for name in data.raters])
    # The same fit with the true effects in place of the estimated ones.
    design = found.held.design
    triples = design.triples
    lean_of = lean[raters][triples.rater()]
    given = times * LENGTH * unit * design.x[0] + lean_of * design.x[1]
    told = MODELS["bbq"].solve(data, replace(triples, offset=given), "auto", "auto", 1e-4).theta
    return {
        "true": true, "told": told - told.mean(), "long": long[level] - long.mean(),
        "plain": plain.theta - plain.theta.mean(), "held": found.theta - found.theta.mean(),
        "length": length.theta_lower <= times * LENGTH * unit <= length.theta_upper,
        "side": side.theta_lower <= times * LEAN <= side.theta_upper,
        "bias": [length.theta - times * LENGTH * unit, side.theta - times * LEAN],
        "leans": float(np.mean(np.abs(known.lean - lean[raters]) < 1.96 * known.lean_sd)),
        "pairs": float(inside.mean()),
        "cost": (time.process_time() - began) / alone,
    }  # fmt: skip


def slope(rows: list[dict[str, Any]], what: str, on: str = "true", less: str = "") -> float:
    """Of all studies together, through the origin."""
    y = np.concatenate([row[what] - (row[less] if less else 0.0) for row in rows])
    x = np.concatenate([row[on] for row in rows])
    return float(x @ y / (x @ x))


def main() -> None:
    """Measure and report."""
    quick: bool = arguments(__doc__ or "").quick
    report = Report("covariates", "Covariates held equal", __doc__ or "", quick)
    n = 20 if quick else 200
    rows = [measured(300_000 + seed, 1.0) for seed in range(n)]
    none = [measured(310_000 + seed, 0.0) for seed in range(n // 4)]
    tied = [measured(320_000 + seed, 1.0, 0.2) for seed in range(n // 4)]
    small = [measured(330_000 + seed, 1.0, each=60) for seed in range(n // 4)]
    kinds = {"with effects": rows, "no effects": none, "20% ties": tied, "small": small}
    for name, some in kinds.items():
        slopes = {
            "ratings on those with the true effects given": slope(some, "held", "told"),
            "truth on ratings": slope(some, "true", "held"),
        }
        for said, found in slopes.items():
            report.check(
                f"{name}: slope of {said}", f"{found:.3f}", "0.97–1.03",
                ok=None if some is small else within(found, 0.97, 1.03),
            )  # fmt: skip
        for what, said in (("length", "length's effect"), ("side", "panel's lean")):
            share = float(np.mean([row[what] for row in some]))
            error = float(np.sqrt(share * (1 - share) / len(some)))
            report.check(
                f"{name}: the interval of the {said} holds the truth",
                f"{per_cent(share)} ± {per_cent(error)}", "93–97%",
                ok=within(share, 0.93, 0.97) if some is rows else None,
            )  # fmt: skip
    table = []
    for name, some in kinds.items():
        bias = np.mean([row["bias"] for row in some], axis=0)
        table.append(
            [name, f"{slope(some, 'plain', 'told'):.3f}", f"{slope(some, 'held', 'told'):.3f}",
             f"{slope(some, 'plain'):.3f}", f"{slope(some, 'held'):.3f}",
             f"{slope(some, 'told'):.3f}", f"{slope(some, 'plain', 'long', 'true'):+.3f}",
             f"{slope(some, 'held', 'long', 'true'):+.3f}",
             f"{bias[0]:+.3f}", f"{bias[1]:+.3f}",
             per_cent(float(np.mean([row["leans"] for row in some]))),
             per_cent(float(np.mean([row["pairs"] for row in some])))]
        )  # fmt: skip
    heads = [
        "studies", "on the fit with effects given: without", "with",
        "fitted on truth: without", "with", "effects given",
        "error by length without", "error by length with",
        "bias of the length's effect", "of the lean", "leans of raters covered",
        "differences of items covered",
    ]  # fmt: skip
    report.tables.append(Table("Ratings without and with covariates, nats", heads, table))
    cost = float(np.median([row["cost"] for row in rows]))
    report.check("CPU with covariates, in fits without", f"{cost:.1f}")
    report.finish()


if __name__ == "__main__":
    main()
