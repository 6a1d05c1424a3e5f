"""Ties: an outcome of its own, with a rate of each rater, or two half wins as in the paper.

Under ``model`` rater r answers a tie with probability tau_r, and else as the model says:

    P(tie) = tau_r,   P(i above j) = (1 - tau_r) (1/2 + q_r (y_ij - 1/2)),   tau_r ~ Beta(a, b)

So ties say nothing about items and quality, and drop out of their likelihood: a rater who often
sees no difference is not a coin. (a, b) are set where the counts of all raters are most likely.

A tie is likelier between items that lie close. Where an answer is predicted, tau_r is that of the
rater's mean question, and of another one

    logit P(tie) = logit tau_r + c + gamma (g - mean g of r),   g = log(2 sqrt(y (1 - y)))

with gamma and c estimated (gamma = 1 is Davidson's, 1970). What the ties themselves say about
distances is not used in the fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.triples import Codes, Floats, Triples
from bbq_plugin.errors import UsageError

if TYPE_CHECKING:
    from bbq_plugin.model.fit import Fit

Ties = Literal["auto", "model", "half"]
TiesUsed = Literal["model", "half"]

# (logit of the mean rate, log of a + b): weak priors, for studies of a few raters.
CENTRE = np.array([-1.4, 1.6])
WIDTH = np.array([2.0, 1.5])
STEPS = 50
ENOUGH = 1e-6
NUDGE = 1e-4


def checked_ties(ties: Ties) -> Ties:
    """How ties are asked to be treated."""
    if ties not in get_args(Ties):
        raise UsageError(f"ties={ties!r}: expected one of {', '.join(get_args(Ties))}")
    return ties


def ties_used(ties: Ties, model: str, solver: str, data: Comparisons) -> TiesUsed:
    """What "auto" is for these data: the model wherever it can be had.

    Raters have to be known, and some of their answers decided.
    """
    able = model == "bbq" and solver == "auto" and data.has_raters
    return "model" if able and ties != "half" and data.decided.size else "half"


def wins_of(data: Comparisons, ties: TiesUsed) -> Triples:
    """The aggregated wins that count."""
    return data.decided if ties == "model" else data.triples


def tie_counts(data: Comparisons) -> tuple[Floats, Floats]:
    """By rater: how many answers were ties, of how many."""
    n = max(1, data.n_raters)
    half = None if data.answers is None else data.answers.half
    if half is None:
        return np.zeros(n), np.bincount(data.rater, None, n).astype(np.float64)
    tied, all_of = (np.bincount(data.rater[rows], None, n) for rows in (half == 1, half < 2))
    return tied.astype(np.float64), all_of.astype(np.float64)


def tie_rates(data: Comparisons) -> Floats:
    """The rate of each rater, partially pooled; all 0 where no answer is known to be a tie."""
    tied, n = tie_counts(data)
    if not tied.any():
        return np.zeros(tied.size)
    return rates_under(tie_population(*same_counts(tied, n)), tied, n)


def rates_under(shape: tuple[float, float], tied: Floats, n: Floats) -> Floats:
    """The rate of each rater under a Beta(a, b) of rates."""
    a, b = shape
    return np.asarray((tied + a) / (n + a + b))


def same_counts(
    tied: Floats, n: Floats, times: Floats | None = None
) -> tuple[Floats, Floats, Floats]:
    """Raters with the same counts are one, so many times."""
    found, at = np.unique(np.stack((tied, n)), axis=1, return_inverse=True)
    return found[0], found[1], np.bincount(at.ravel(), times, found.shape[1]).astype(np.float64)


def tie_population(tied: Floats, n: Floats, times: Floats) -> tuple[float, float]:
    """(a, b) of the Beta that the rates come from: Newton on the beta-binomial likelihood."""
    eta = CENTRE.copy()
    for _ in range(STEPS):
        slope = _slope(eta, tied, n, times)
        nudged = [_slope(eta + nudge, tied, n, times) for nudge in NUDGE * np.eye(2)]
        curve = (slope - np.array(nudged)) / NUDGE
        roots, axes = np.linalg.eigh(0.5 * (curve + curve.T))
        step = axes @ ((axes.T @ slope) / np.maximum(np.abs(roots), 1e-3))
        step *= min(1.0, 1.0 / max(float(np.max(np.abs(step))), 1e-300))
        eta = eta + step
        if float(np.max(np.abs(step))) < ENOUGH:
            break
    return _shape(eta)


def _shape(eta: Floats) -> tuple[float, float]:
    mean, both = 1.0 / (1.0 + np.exp(-eta[0])), np.exp(eta[1])
    return float(mean * both), float((1.0 - mean) * both)


def _slope(eta: Floats, tied: Floats, n: Floats, times: Floats) -> Floats:
    """The gradient of the log-likelihood and the prior."""
    from scipy.special import psi  # noqa: PLC0415 (loads slowly)

    a, b = _shape(eta)
    common = psi(a + b) - psi(n + a + b)
    by_a = float(times @ (psi(tied + a) - psi(a) + common))
    by_b = float(times @ (psi(n - tied + b) - psi(b) + common))
    mean = a / (a + b)
    found = np.array([(by_a - by_b) * (a + b) * mean * (1.0 - mean), by_a * a + by_b * b])
    return np.asarray(found - (eta - CENTRE) / WIDTH**2)


# -- predicting ties


@dataclass(frozen=True, slots=True, eq=False)
class TieModel:
    """P(tie) by rater and closeness of the items.

    ``rate`` and ``centre`` are the rate and the mean closeness of each rater's questions, with
    those of a rater who is not known at the end. ``slope`` is gamma, ``shift`` c.
    """

    rate: Floats
    centre: Floats
    slope: float
    shift: float

    def p_tie(self, rater: Codes, closeness: Floats) -> Floats:
        """Of these answers; rater -1 is one who is not known."""
        rate = np.clip(self.rate[rater], 1e-9, 1 - 1e-9)
        odds = np.log(rate) - np.log1p(-rate) + self.shift
        odds = odds + self.slope * (closeness - self.centre[rater])
        return np.asarray(np.where(self.rate[rater] > 0, 1.0 / (1.0 + np.exp(-odds)), 0.0))


def shares_of_camps(fit: Fit) -> Floats:
    """P(camp) of each rater, and of one who is not known at the end."""
    if not fit.raters:
        return np.ones((2, 1))
    return np.vstack((fit.membership, fit.membership.mean(axis=0)))


def closeness_of(fit: Fit, rater: Codes, left: Codes, right: Codes) -> Floats:
    """log(2 sqrt(y (1 - y))) of each pair of items: 0 of equal ones, falling with the distance."""
    shares = shares_of_camps(fit)
    found: Floats = np.zeros(left.size)
    for theta, share in zip(fit.camp_theta, shares.T, strict=True):
        half_gap = 0.5 * np.abs(theta[left] - theta[right])
        found -= share[rater] * (half_gap + np.log1p(np.exp(-2.0 * half_gap)) - np.log(2.0))
    return found


def tie_model(fit: Fit) -> TieModel:
    """The model of ties of a fit; without any tie it says so of every pair."""
    data = fit.data
    tied, n = tie_counts(data)
    half = None if data.answers is None else data.answers.half
    rows = np.arange(data.rater.size) if half is None else np.flatnonzero(half < 2)
    rater = data.rater[rows].astype(np.int64)
    items = (data.winner[rows].astype(np.int64), data.loser[rows].astype(np.int64))
    closeness = closeness_of(fit, rater, *items)
    # A rater who is not known ties as the answers of all do.
    pooled = float(tied.sum() / max(n.sum(), 1.0))
    centre = np.append(
        np.bincount(rater, closeness, tied.size) / np.maximum(n, 1.0), float(closeness.mean())
    )
    rate = np.append(tie_rates(data), pooled)
    if half is None or not tied.any():
        return TieModel(rate, centre, 0.0, 0.0)
    is_tie = (half[rows] == 1).astype(np.float64)
    kept = np.clip(rate[rater], 1e-9, 1 - 1e-9)
    base, moved = np.log(kept) - np.log1p(-kept), closeness - centre[rater]
    slope, shift = 0.0, 0.0
    for _ in range(STEPS):
        p = 1.0 / (1.0 + np.exp(-(base + slope * moved + shift)))
        rest, bend = is_tie - p, p * (1.0 - p)
        gradient = np.array([rest @ moved - (slope - 0.5), rest.sum() - shift])
        across = bend @ moved
        curve = np.array([[bend @ moved**2 + 1.0, across], [across, bend.sum() + 1.0]])
        step = np.linalg.solve(curve, gradient)
        step *= min(1.0, 1.0 / max(float(np.max(np.abs(step))), 1e-300))
        slope, shift = slope + float(step[0]), shift + float(step[1])
        if float(np.max(np.abs(step))) < ENOUGH:
            break
    return TieModel(rate, centre, slope, shift)
