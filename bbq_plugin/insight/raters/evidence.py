"""What the answers of all others say about each rater's own.

The consensus that raters are held against is that of bbq-signed, whatever was fitted: it does not
believe in guessers beforehand, so that a few unlucky raters are not first ignored and then found
to disagree, and someone upside down does not blur it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.insight.raters.slates import Given, given_by
from bbq_plugin.insight.uncertainty import Floats
from bbq_plugin.model import Fit, Priors, SignedPriors
from bbq_plugin.model.kinds import Kinds, kinds_of
from bbq_plugin.model.leave_out import Consensus, LeftOut

__all__ = ["Evidence", "consensus_of", "evidence_of", "phi"]

EQUAL = 1e-3  # nats: a gap this small is none, and an answer across it agrees half


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """By rater: how many comparisons, agreement, quality's interval, kinds, and p against a coin.

    ``n`` is the weight of the comparisons, ``given`` counts the answers they came from.

    ``p_coin_below`` is the chance that a coin agrees with the others as little as this rater does:
    exact whatever the others think, because a coin does not care and they have not seen it.
    """

    n: Floats
    agreement: Floats
    lower: Floats
    upper: Floats
    p_coin_below: Floats
    kinds: Kinds
    left_out: LeftOut
    given: Given

    @property
    def n_answers(self) -> Floats:
        """How many answers there are: a ranking is one, and so is a row of any weight."""
        return self.given.n_answers

    @property
    def p_bad(self) -> Floats:
        """P(guessing or upside down)."""
        return np.asarray(np.minimum(self.kinds.p_guesser + self.kinds.p_inverted, 1.0))


def evidence_of(fit: Fit, level: float, threshold: float) -> Evidence:
    """Leave each rater out, then judge them by what remains."""
    t, given = fit.data.triples, given_by(fit.data)
    left_out = consensus_of(fit).leave_each_out()
    slates = given.slates(left_out.s)
    kinds = kinds_of(given.pairs, left_out.s, slates, threshold=threshold, level=level)
    rater, weight = t.rater(), given.weight
    n = np.bincount(rater, weight, t.n_raters).astype(np.float64)
    ahead = np.where(np.abs(left_out.gap) < EQUAL, 0.0, np.sign(left_out.gap))
    agreed = np.bincount(rater, weight * 0.5 * (1.0 + ahead), t.n_raters)
    along = 2.0 * left_out.s
    total = np.bincount(rater, weight * along, t.n_raters)
    spread = np.sqrt(np.bincount(rater, weight * along**2, t.n_raters))
    lower, upper = kinds.lower, kinds.upper
    if isinstance(fit.priors, Priors):
        known = fit.rater_posterior(level)
        lower, upper = known.lower, known.upper
    # The mode, which is what a fit reports, may lie beyond an interval's end: both count.
    return Evidence(
        n=n,
        agreement=np.divide(agreed, n, out=np.full(n.size, np.nan), where=n > 0),
        lower=np.minimum(lower, fit.quality),
        upper=np.maximum(upper, fit.quality),
        p_coin_below=phi(np.divide(total, spread, out=np.zeros(n.size), where=spread > 0)),
        kinds=kinds,
        left_out=left_out,
        given=given,
    )


def consensus_of(fit: Fit) -> Consensus:
    """The consensus that raters are judged by."""
    if isinstance(fit.priors, SignedPriors):
        priors = fit.priors
    else:
        a, b = getattr(fit.priors, "a", 0.0), getattr(fit.priors, "b", 0.0)
        priors = SignedPriors(a=a, b=b) if a > 1 and b > 0 else SignedPriors()
    return Consensus(fit.data.triples, priors, fit.theta, np.clip(fit.quality, -0.95, 0.95))


def phi(z: NDArray[np.float64]) -> Floats:
    """The normal distribution function."""
    from scipy.special import ndtr  # noqa: PLC0415 (loads slowly)

    return np.asarray(ndtr(z))
