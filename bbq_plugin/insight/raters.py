"""Which raters to keep, to watch, to exclude, and why.

The evidence is the odds that a rater guesses: the likelihood of their answers if every answer were
a coin's, against their likelihood under the honest population, quality integrated out. Raters are
excluded from the surest down while the expected share of honest ones among the excluded stays at
``false_rate`` or below (Bayesian false discovery rate), and never on fewer than ``least``
comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.errors import UsageError
from bbq_plugin.insight.rows import Row, Rows
from bbq_plugin.insight.uncertainty import Floats
from bbq_plugin.model import Fit, Priors

__all__ = ["RaterReport", "RaterRow", "Verdict", "rater_report"]

Verdict = Literal["keep", "watch", "exclude"]

FALSE_RATE = 0.05
LEAST = 10
WATCH = 0.5
# What is believed of a rater before their first answer, where the priors do not say.
EXPECTED_GUESSERS = 0.1


@dataclass(frozen=True, slots=True)
class RaterRow(Row):
    """One rater; a number that is not known is NaN."""

    rater: str
    n: float
    quality: float
    quality_lower: float
    quality_upper: float
    agreement: float
    left_rate: float
    median_time_s: float
    verdict: Verdict
    reasons: tuple[str, ...]


class RaterReport(Rows[RaterRow]):
    """Raters in the order of the data, with what the verdicts rest on."""

    def __init__(
        self,
        rows: list[RaterRow],
        p_guesser: Floats,
        warnings: tuple[str, ...] = (),
        *,
        false_rate: float = FALSE_RATE,
        least: int = LEAST,
    ) -> None:
        super().__init__(rows)
        self.p_guesser, self.warnings = p_guesser, warnings
        self.false_rate, self.least = false_rate, least

    def __repr__(self) -> str:
        excluded = sum(row.verdict == "exclude" for row in self._rows)
        return f"<RaterReport: {len(self)} raters, {excluded} to exclude>"


def rater_report(
    fit: Fit, level: float = 0.95, *, false_rate: float = FALSE_RATE, least: int = LEAST
) -> RaterReport:
    """Quality with its interval, agreement and a verdict with reasons, for each rater of a fit."""
    if not 0 < level < 1:
        raise UsageError(f"level={level!r}: expected a probability such as 0.95")
    n_raters = len(fit.raters)
    unknown = np.full(n_raters, np.nan)
    n, agreement = _agreement(fit) if n_raters else (unknown, unknown)
    sides, times = fit.data.left_rate, fit.data.median_time_s
    quality, lower, upper, p_guesser = fit.quality, unknown, unknown, unknown
    warnings: tuple[str, ...] = ()
    if n_raters and fit.model == "bbq" and isinstance(fit.priors, Priors):
        known = fit.rater_posterior(level)
        lower, upper = known.lower, known.upper
        p_guesser = _p_guesser(fit, fit.priors)
        # The mode, which is what the fit reports, may lie beyond an interval's end: both count.
        lower, upper = np.minimum(lower, quality), np.maximum(upper, quality)
    elif n_raters:
        warnings = (f"{fit.model} gives no verdicts on raters: fit model='bbq' for these",)
        quality = unknown if fit.model == "bayes-bt" else quality
    excluded = _excluded(p_guesser, n, false_rate, least)
    rows = []
    for r, name in enumerate(fit.raters):
        verdict, reasons = _judge(
            p_guesser[r], agreement[r], n[r], excluded=bool(excluded[r]), least=least
        )
        rows.append(
            RaterRow(
                rater=name,
                n=float(n[r]),
                quality=float(quality[r]),
                quality_lower=float(lower[r]),
                quality_upper=float(upper[r]),
                agreement=float(agreement[r]),
                left_rate=float("nan") if sides is None else float(sides[r]),
                median_time_s=float("nan") if times is None else float(times[r]),
                verdict=verdict,
                reasons=reasons,
            )
        )
    return RaterReport(rows, p_guesser, warnings, false_rate=false_rate, least=least)


def _agreement(fit: Fit) -> tuple[Floats, Floats]:
    """Weighted number of comparisons, and the share that agrees with the fitted order."""
    t = fit.data.triples
    ahead = np.sign(fit.theta[t.winner] - fit.theta[t.loser])
    rater = t.rater()
    n: Floats = np.bincount(rater, t.weight, t.n_raters).astype(np.float64)
    agreed = np.bincount(rater, t.weight * 0.5 * (1.0 + ahead), t.n_raters)
    return n, np.divide(agreed, n, out=np.full(n.size, np.nan), where=n > 0)


def _p_guesser(fit: Fit, priors: Priors) -> Floats:
    """P(guesser | answers), with an expected share of guessers even where the priors have none."""
    if priors.guessers == 0:
        priors = replace(priors, guessers=EXPECTED_GUESSERS)
    return fit.rater_posterior_under(priors).p_guesser


def _excluded(p_guesser: Floats, n: Floats, false_rate: float, least: int) -> NDArray[np.bool_]:
    """The longest list, surest first, of which at most ``false_rate`` are expected to be honest."""
    chosen = np.zeros(p_guesser.size, dtype=np.bool_)
    able = np.flatnonzero((n >= least) & (p_guesser > WATCH))
    order = able[np.argsort(-p_guesser[able], kind="stable")]
    honest = np.cumsum(1.0 - p_guesser[order]) / np.arange(1, order.size + 1)
    chosen[order[honest <= false_rate]] = True
    return chosen


def _judge(
    p_guesser: float, agreement: float, n: float, *, excluded: bool, least: int
) -> tuple[Verdict, tuple[str, ...]]:
    if np.isnan(p_guesser):
        return "keep", ()
    numbers = f"agrees with the ranking in {agreement:.0%} of {n:,.0f} comparisons"
    if excluded:
        reasons = [f"answers like a coin: P(guesser) {_equal(p_guesser)}, {numbers}"]
        if agreement < 0.5 - 1.64 * np.sqrt(0.25 / n):
            reasons.append(
                "below chance: may be answering upside down; check the task's wording and the "
                "key mapping before blaming the rater"
            )
        return "exclude", tuple(reasons)
    if p_guesser > WATCH:
        why = f"may be guessing: P(guesser) = {p_guesser:.2f}, {numbers}"
        if n < least:
            why += f"; too few to decide (at least {least})"
        return "watch", (why,)
    return "keep", ()


def _equal(probability: float) -> str:
    """A probability that is not 1 is not called 1."""
    return f"= {probability:.3f}" if probability < 0.9995 else "> 0.999"
