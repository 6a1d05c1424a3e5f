"""The panel's preference: how probable it is that a random rater prefers an item to a random other.

    win_share_i = mean over raters r, other items j and camps c of
                  P(r is of c) [1/2 + q_r (sigma(theta^c_i - theta^c_j) - 1/2)]

Raters count equally, those to be excluded included: they too were drawn from the population that
the panel stands for. The scale of theta is known only together with the level of quality; their
product, and with it this number, is known from the answers.

The interval is for the population of raters, by influence functions (van der Vaart 1998, ch. 20):
rater r moves the mean by (w_ri - W_i) / R, and by what theta follows, J_i V g_r, with J the whole
derivative: quality and camp of a rater follow theta too. It is never narrower than what the model
itself does not know, with the raters' spread added.

Of one camp c it is the same among the raters of c: with m_r = P(r is of c),

    win_share^c_i = 1/2 + Q_c mean over j of (sigma(theta^c_i - theta^c_j) - 1/2),
    Q_c = sum_r m_r q_r / sum_r m_r

and rater r moves the mean quality by m_r (q_r - Q_c) / sum_r m_r.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from bbq_plugin.data.clusters import RATER
from bbq_plugin.data.triples import Floats

if TYPE_CHECKING:
    from bbq_plugin.model.fit import Fit

# Of more items the mean over all others is interpolated between so many points.
MANY_ITEMS, POINTS = 4096, 4096


@dataclass(frozen=True, slots=True, eq=False)
class WinShares:
    """Of each item: the share, and the ends of its interval. Of several camps their covariance."""

    share: Floats
    lower: Floats
    upper: Floats
    covariance: Floats | None = None


def panel_shares(fit: Fit) -> Floats:
    """The share of each item alone, without what its interval takes."""
    stands = np.array([standing(theta) for theta in fit.camp_theta])
    return np.asarray(0.5 + fit.panel.quality / fit.panel.n @ stands)


def win_shares(fit: Fit, level: float, *, own: bool = False, camp: int | None = None) -> WinShares:
    """Of all items; ``own``: with the model's own covariance, answers taken as independent.

    ``camp`` (from 0): among the raters of one camp alone.
    """
    stands = np.array([standing(theta) for theta in fit.camp_theta])
    raters = _panel(fit) if camp is None else _members(fit, camp)
    if camp is not None:
        stands[np.arange(len(stands)) != camp] = 0.0
    share = 0.5 + raters.level @ stands
    # Of one camp, which ranks items by theta, the variances are enough: a third of the work.
    several = camp is None and len(stands) > 1
    found = _covariance(fit, stands, raters, _full if several else _diagonal, own=own)
    variance = np.diag(found) if several else found
    reach = NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(np.maximum(variance, 0.0))
    lower, upper = np.maximum(share - reach, 0.0), np.minimum(share + reach, 1.0)
    return WinShares(share, lower, upper, found if several else None)


@dataclass(frozen=True, slots=True, eq=False)
class PanelSums:
    """Sums over raters r, by camp c: all that win shares need of them, and parts of them add up.

    With q_rc = P(r is of c) E[q], m_rc = P(r is of c) and g_r the score (camps x items).
    """

    n: int
    quality: Floats  # sum q
    square: Floats  # sum P(c) E[q^2]
    products: Floats  # sum q q', camps x camps
    pushed: Floats  # sum q_c g, camps x (camps x items)
    score: Floats  # sum g
    lifted: Floats  # sum of quality times score
    members: Floats  # sum m
    members_squared: Floats
    members_quality: Floats  # sum m q
    members_pushed: Floats  # sum m_c g
    #: Of all answers, ties included: how many, times quality, and times what they tell.
    votes: Floats
    votes_quality: Floats
    votes_told: Floats

    def __add__(self, other: PanelSums) -> PanelSums:
        return PanelSums(*(getattr(self, f) + getattr(other, f) for f in self.__slots__))


def panel_sums(fit: Fit) -> PanelSums:
    """Of all raters of a fit."""
    moments, m = fit.moments, fit.membership
    q = moments.quality
    if len(m) < len(q):
        m = np.ones(q.shape)  # no rater is known: all answers are of one
    return PanelSums(
        n=len(q),
        quality=q.sum(axis=0),
        square=moments.square.sum(axis=0),
        products=q.T @ q,
        pushed=np.array([_by_item(fit, moments.push, mine) for mine in q.T]),
        score=_by_item(fit, moments.push),
        lifted=_by_item(fit, moments.lift),
        members=m.sum(axis=0),
        members_squared=(m * m).sum(axis=0),
        members_quality=(m * q).sum(axis=0),
        members_pushed=np.array([_by_item(fit, moments.push, mine) for mine in m.T]),
        **_answers(fit, m),
    )


def _answers(fit: Fit, m: Floats) -> dict[str, Floats]:
    t = fit.data.triples
    votes = np.bincount(t.rater(), t.weight, t.n_raters)
    quality = fit.quality if fit.rated else np.ones(t.n_raters)
    # Where ties are an outcome of their own, they say nothing about the items.
    tied = fit.tie_rate if fit.rated else np.zeros(t.n_raters)
    told = np.minimum(np.abs(quality), 1.0) ** 2 * (1.0 - tied)
    return {
        "votes": votes @ m, "votes_quality": votes * quality @ m, "votes_told": votes * told @ m,
    }  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Raters:
    """Whose preference it is, by camp: their mean quality, and what moves it.

    ``among`` is the sum of squares of what each rater adds to it (camps x camps), ``unknown`` the
    variance of what is not known of the raters (camps x camps), ``slope`` d level_c / d theta^d_k
    (camps x (camps x items)), ``together`` sum_r a_r g_r, a_r being what the rater adds.
    """

    n: int
    level: Floats
    among: Floats
    unknown: Floats
    slope: Floats
    together: Floats


def _panel(fit: Fit) -> _Raters:
    """All raters, each counted once."""
    p = fit.panel
    n, camps = p.n, p.quality.size
    level = p.quality / n
    # What is not known of each rater: E[f f'] - E[f] E[f]' with f = P(camp) q.
    unknown = np.diag(p.square) - p.products
    slope = -p.pushed / n
    lifted = p.lifted.reshape(camps, -1) / n
    for c, mine in enumerate(slope.reshape(camps, camps, -1)):
        mine[c] += lifted[c]
    among = (p.products - n * np.outer(level, level)) / n**2
    together = (p.pushed - level[:, None] * p.score) / n
    return _Raters(n, level, among, unknown / n**2, slope, together)


def _members(fit: Fit, camp: int) -> _Raters:
    """The raters of one camp, each counted with the probability that they are of it."""
    p, c = fit.panel, camp
    n, camps = float(p.members[c]), p.quality.size
    mean = float(p.quality[c]) / n
    apart = p.products[c, c] - 2 * mean * p.members_quality[c] + mean**2 * p.members_squared[c]
    square = p.square[c] - 2 * mean * p.quality[c] + mean**2 * n
    level, among, unknown = np.zeros(camps), np.zeros((camps,) * 2), np.zeros((camps,) * 2)
    level[c], among[c, c], unknown[c, c] = mean, apart / n**2, (square - apart) / n**2
    slope, together = np.zeros((camps, camps, len(fit.items))), np.zeros((camps, p.score.size))
    together[c] = (p.pushed[c] - mean * p.members_pushed[c]) / n
    slope[c] = -together[c].reshape(camps, -1)
    slope[c, c] += (p.lifted - mean * p.score).reshape(camps, -1)[c] / n
    return _Raters(p.n, level, among, unknown, slope.reshape(camps, -1), together)


def large_win_shares(fit: Fit, low: Floats, high: Floats, level: float) -> WinShares:
    """Of very many items, by the ends of their intervals of theta, relative to the mean item.

    Among so many others what is not known of an item is what is not known of its own theta.
    """
    quality = fit.quality if fit.rated else np.ones(1)
    level_of = float(quality.mean())
    theta = fit.theta - fit.theta.mean()
    middle, lower, upper = (0.5 + level_of * standing(theta, at) for at in (theta, low, high))
    spread = float(quality.std()) / np.sqrt(max(quality.size - 1, 1))
    reach = NormalDist().inv_cdf((1 + level) / 2) * spread * np.abs(middle - 0.5) / level_of
    below, above = (np.hypot(middle - end, reach) for end in (lower, upper))
    return WinShares(middle, np.maximum(middle - below, 0.0), np.minimum(middle + above, 1.0))


def standing(theta: Floats, at: Floats | None = None) -> Floats:
    """Mean over all other items of sigma(theta_i - theta_j) - 1/2, for each item i.

    ``at``: of items that stand there instead, among the same others.
    """
    k = theta.size
    here = theta if at is None else at
    if k <= MANY_ITEMS:
        return np.asarray(0.5 * np.tanh(0.5 * (here[:, None] - theta)).sum(axis=1) / max(k - 1, 1))
    ends = min(theta.min(), here.min()), max(theta.max(), here.max())
    points = np.linspace(*ends, POINTS)
    mean = [0.5 * float(np.tanh(0.5 * (point - theta)).mean()) for point in points.tolist()]
    return np.asarray(np.interp(here, points, mean))


def _full(a: Floats, b: Floats) -> Floats:
    return np.asarray(a @ b.T)


def _diagonal(a: Floats, b: Floats) -> Floats:
    return np.asarray(np.einsum("ik,ik->i", a, b))


def _covariance(
    fit: Fit, by_camp: Floats, raters: _Raters, product: Callable[[Floats, Floats], Floats], *,
    own: bool,
) -> Floats:  # fmt: skip
    """Of the shares; ``product`` is that of two matrices, or only its diagonal."""
    known, n_raters = fit.robust, raters.n
    slope, stands = _slope(fit, by_camp, raters), by_camp.T
    among = product(stands @ raters.among, stands)
    follows = slope @ known.own
    model = product(follows, slope) + product(stands @ raters.unknown, stands) + among
    if own or not known.ways:
        return model
    small = known.factor * (n_raters / (n_raters - 1) if n_raters > 1 else 1.0)
    found = product(slope @ known.stacked, slope) + small * among
    if any(way.name == RATER for way in known.ways):
        cross = small * product(follows @ raters.together.T, stands)
        found = found + cross + cross.T
    # Never below what the model itself does not know.
    if found.ndim == 1:
        return np.maximum(found, model)
    least, variance = np.diag(model), np.maximum(np.diag(found), 1e-300)
    scale = np.sqrt(np.maximum(least / variance, 1.0))
    return np.asarray(found * scale[:, None] * scale)


def _slope(fit: Fit, by_camp: Floats, raters: _Raters) -> Floats:
    """d share_i / d theta^c_k, items x (camps x items)."""
    camps, k = by_camp.shape
    out = (by_camp.T @ raters.slope).reshape(k, camps, k)
    for c, theta in enumerate(fit.camp_theta):
        out[:, c] += raters.level[c] * share_slope(theta)
    return out.reshape(k, camps * k)


def share_slope(theta: Floats) -> Floats:
    """d standing_i / d theta_k."""
    bend = 0.25 / np.cosh(np.clip(0.5 * (theta[:, None] - theta), -300, 300)) ** 2
    np.fill_diagonal(bend, 0.0)
    return np.asarray((np.diag(bend.sum(axis=1)) - bend) / max(theta.size - 1, 1))


def _by_item(fit: Fit, part: Floats, by_rater: Floats | None = None) -> Floats:
    """sum_r f_r sum_(t of r) part_t (e_winner - e_loser), one camp after the other."""
    t = fit.wins
    if by_rater is not None:
        part = part * np.repeat(by_rater, np.diff(t.start))
    out = [
        np.bincount(t.winner, row, t.n_items) - np.bincount(t.loser, row, t.n_items) for row in part
    ]
    return np.asarray(np.concatenate(out), dtype=np.float64)
