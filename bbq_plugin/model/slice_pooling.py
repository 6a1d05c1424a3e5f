"""Slices of a study, partially pooled: an item's place in a slice leans on its place overall.

Slice s (a category of prompts, a group of raters) has a ranking of its own, eta_s, around a common
one:

    P(r ranks i above j in s) = 1/2 + q_r (sigma(eta_si - eta_sj) - 1/2)
    eta_si ~ Normal(theta_i, tau^2)      theta as in the fit of all answers

Quality q_r is that of the fit of all answers. tau, how much slices differ, is not known: a grid of
values is averaged over, each weighted by its marginal likelihood (Laplace's approximation). So a
slice of few answers stays near the common ranking, and its interval is as wide as slices are apart.
Each answer counts 1 / phi (quasi-likelihood), phi the factor by which the answers of one cluster
(a rater, a prompt) vary more together than these rankings say: with g_c the cluster's score and H
the information of all slices, phi = sum_c g_c' H^-1 g_c / (K - 1); of two ways of clustering, as in
the fit of all answers, the sum of both less that of both at once. It is estimated from C clusters,
hence the covariances hold the factor of Student's interval with C - 1 degrees of freedom. A way
that the slices are made by is none. The effects of covariates are those of the fit of all answers.

With H_s the information of slice s, A_s = (H_s + I / tau^2)^-1 and C the covariance of theta,

    Cov(eta_s, eta_t) = [s = t] A_s + A_s C A_t / tau^4
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.data.clusters import RATER, clusters_of
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.triples import Codes, Floats
from bbq_plugin.errors import UnsupportedError
from bbq_plugin.model.covariates import offsets_in
from bbq_plugin.model.fit import Fit, check_together
from bbq_plugin.model.robust import Robust, t_factor
from bbq_plugin.model.solvers import Laplace, inverse
from bbq_plugin.model.ties import wins_of

#: How far slices may lie apart, in nats. The prior is even in tau itself (Gelman 2006): one that is
#: even in its logarithm believes too firmly in no difference.
TAUS = np.geomspace(0.03, 2.4, 9)
STEPS, SMALL = 60, 1e-8
# Beyond, one matrix of items x items for each slice is more than is sensible.
MOST_ITEMS = 1024


@dataclass(frozen=True, slots=True, eq=False)
class _Answers:
    """The wins of one slice: items coded as in the fit of all, and the raters' quality."""

    winner: Codes
    loser: Codes
    weight: Floats
    quality: Floats
    offset: Floats  # what covariates add

    def _chances(self, eta: Floats) -> tuple[Floats, Floats]:
        """The probability of each win, and its derivative by the difference of the two items."""
        gap = eta[self.winner] - eta[self.loser] + self.offset
        y = 0.5 + 0.5 * np.tanh(0.5 * gap)
        return 0.5 + self.quality * (y - 0.5), self.quality * y * (1.0 - y)

    def push(self, eta: Floats) -> Floats:
        """The score of each win."""
        p, slope = self._chances(eta)
        return np.asarray(self.weight * slope / p)

    def at(self, eta: Floats) -> tuple[float, Floats, Floats]:
        """Log-likelihood, gradient and expected information."""
        k = eta.size
        p, slope = self._chances(eta)
        push = self.weight * slope / p
        gradient = np.bincount(self.winner, push, k) - np.bincount(self.loser, push, k)
        curve = self.weight * slope**2 / (p * (1.0 - p) + 1e-300)
        half = np.bincount(self.winner * k + self.loser, curve, k * k).reshape(k, k)
        both = half + half.T
        return (
            float(self.weight @ np.log(p)),
            np.asarray(gradient, dtype=np.float64),
            np.diag(both.sum(axis=1)) - both,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Height:
    """The top for one tau: eta of each slice, A_s, C, and the log of the marginal likelihood."""

    theta: Floats
    eta: Floats
    within: Floats
    common: Floats
    evidence: float


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """The rankings of all slices, averaged over tau; ``share`` is what each tau weighs."""

    names: tuple[str, ...]
    tau: float
    dispersion: float
    _tops: tuple[_Height, ...]
    share: Floats
    #: What the scale of all rankings has in common and estimated priors leave open.
    _scale: Floats
    freedom: float

    def of(self, weights: Sequence[float]) -> tuple[Floats, Floats]:
        """Mean and covariance of sum_s weights_s eta_s: of a slice, a mix or a difference."""
        by, taus = np.asarray(weights, dtype=np.float64), TAUS[-len(self._tops) :]
        means, inside = [], 0.0
        for top, tau, share in zip(self._tops, taus, self.share, strict=True):
            means.append(by @ top.eta)
            lean = np.einsum("s,sij->ij", by, top.within) / tau**2
            apart = np.einsum("s,sij->ij", by**2, top.within)
            inside = inside + share * (apart + lean @ top.common @ lean.T)
        spread = np.array(means)
        mean = self.share @ spread
        apart = (spread - mean).T @ ((spread - mean) * self.share[:, None])
        few = t_factor(self.freedom)
        return np.asarray(mean), np.asarray(few * inside + apart + by.sum() ** 2 * self._scale)

    def slice_fit(self, fit: Fit, place: int, data: Comparisons) -> Fit:
        """A slice as a fit of its own answers, with the pooled ranking and its covariance."""
        unit = np.eye(len(self.names))[place]
        return _as_fit(fit, data, self.freedom, *self.of(unit))

    def mix_fit(self, fit: Fit, shares: Sequence[float]) -> Fit:
        """All answers as a fit of the mix of slices with these shares."""
        return _as_fit(fit, fit.data, self.freedom, *self.of(shares))


def pooled(fit: Fit, groups: Mapping[str, Comparisons]) -> Pooled:
    """Fit all slices at once; ``groups`` are the answers of ``fit`` by slice."""
    k = len(fit.items)
    check_together(
        model=fit.model, solver=fit.solver, priors=fit.priors, camps="auto", ties=fit.ties,
        has_raters=None, pooled=True,
    )  # fmt: skip
    if k > MOST_ITEMS:
        raise UnsupportedError(
            f"slices of {k} items are not pooled (the limit is {MOST_ITEMS}); "
            "fit each slice alone (--by-alone)"
        )
    slices = [_answers(fit, data) for data in groups.values()]
    tops, share = _over_taus(fit, slices)
    phi, freedom = _dispersion(fit, list(groups.values()), tops[int(share.argmax())])
    if phi > 1.0:
        slices = [replace(one, weight=one.weight / phi) for one in slices]
        tops, share = _over_taus(fit, slices)
    tau = float(np.exp(share @ np.log(TAUS)))
    scale: Floats = np.zeros((k, k))
    if fit.population is not None:
        scale = fit.population.slope @ fit.population.covariance @ fit.population.slope.T
    return Pooled(tuple(groups), tau, phi, tops, share, scale, freedom)


def _over_taus(fit: Fit, slices: Sequence[_Answers]) -> tuple[tuple[_Height, ...], Floats]:
    """The top for each tau, and what it weighs."""
    priors = fit.given_priors("pooling")
    rate = 0.0 if priors.flat_items else priors.b
    shape = 0.0 if priors.flat_items else priors.a
    tops: list[_Height] = []
    theta = fit.theta - (fit.theta.mean() if priors.flat_items else 0.0)
    eta = np.tile(theta, (len(slices), 1))
    for tau in TAUS:
        top = _top(slices, theta, eta, tau, shape, rate)
        theta, eta = top.theta, top.eta
        tops.append(top)
    evidence = np.array([top.evidence for top in tops]) + np.log(TAUS)
    share = np.exp(evidence - evidence.max())
    return tuple(tops), share / share.sum()


def _dispersion(fit: Fit, parts: Sequence[Comparisons], top: _Height) -> tuple[float, float]:
    """How many times as much clusters vary as these rankings say, and the degrees of freedom."""
    k = len(fit.items)
    ways = [way for way in clusters_of(fit.data, fit.cluster) if _across(way.name, parts)]
    if not ways:
        return 1.0, inf
    pushes, told = [], np.zeros((k, k))
    for data, eta in zip(parts, top.eta, strict=True):
        rows = _single(fit, data)
        pushes.append((rows, rows.push(eta)))
        told += rows.at(eta)[2]
    known = np.linalg.pinv(told, hermitian=True)

    def times(code: Codes) -> float:
        n, scores, first = int(code.max()) + 1, np.zeros((int(code.max()) + 1, k)), 0
        for rows, push in pushes:
            mine = code[first : first + push.size]
            np.add.at(scores, (mine, rows.winner), push)
            np.add.at(scores, (mine, rows.loser), -push)
            first += push.size
        spread = np.einsum("ri,ij,rj->", scores, known, scores)
        return float(spread) / (k - 1) * n / max(1, n - 1)

    codes = [_cluster_codes(fit, way.name, parts) for way in ways]
    found = [times(code) for code in codes]
    if len(codes) == 2:
        both = np.unique(np.stack(codes), axis=1, return_inverse=True)[1].ravel()
        found.append(found[0] + found[1] - times(both))
    return max(1.0, *found), min(way.n for way in ways) - 1.0


def _across(way: str, parts: Sequence[Comparisons]) -> bool:
    """Whether clusters of this way are known in the slices, and are not the slices themselves."""
    if way not in parts[0].tags:
        return way == RATER
    return any(np.unique(data.tags[way]).size > 1 for data in parts)


def _cluster_codes(fit: Fit, way: str, parts: Sequence[Comparisons]) -> Codes:
    """The cluster of each row that counts, over all slices."""
    found: list[Codes] = []
    code: dict[str, int] = {}
    for data in parts:
        names = data.tag_values[way] if way in data.tags else data.raters
        row = data.tags.get(way, data.rater)
        mine = [code.setdefault(name, len(code)) for name in names]
        # Without a value, -1, a row is a cluster of its own.
        found.append(np.array([*mine, -1], dtype=np.int64)[row[_counting(fit, data)]])
    every = np.concatenate(found)
    alone = every < 0
    every[alone] = every.max(initial=0) + 1 + np.arange(int(alone.sum()))
    return np.unique(every, return_inverse=True)[1].astype(np.int64).ravel()


def _counting(fit: Fit, data: Comparisons) -> Codes:
    """The rows that count: not those of ties where these are an outcome of their own."""
    half = None if data.answers is None else data.answers.half
    if fit.ties == "model" and half is not None:
        return np.flatnonzero(half == 0)
    return np.arange(data.rater.size)


def _single(fit: Fit, data: Comparisons) -> _Answers:
    """The wins of a slice one by one, in the codes of the fit of all answers."""
    rows = _counting(fit, data)
    return _coded(
        fit, data, data.rater[rows], data.winner[rows], data.loser[rows], data.weight[rows],
        offsets_in(fit, data)[rows],
    )  # fmt: skip


def _answers(fit: Fit, data: Comparisons) -> _Answers:
    """The wins of a slice, equal ones once, where covariates do not differ between them."""
    if fit.held is not None:
        return _single(fit, data)
    wins = wins_of(data, fit.ties)
    return _coded(
        fit, data, wins.rater(), wins.winner, wins.loser, wins.weight, np.zeros(wins.size)
    )


def _coded(
    fit: Fit, data: Comparisons, rater: NDArray[Any], winner: NDArray[Any], loser: NDArray[Any],
    weight: Floats, offset: Floats,
) -> _Answers:  # fmt: skip
    item = {name: i for i, name in enumerate(fit.items)}
    code = np.array([item[name] for name in data.items], dtype=np.int64)
    quality: Floats = np.ones(rater.size)
    if fit.rated:
        known = {name: r for r, name in enumerate(fit.raters)}
        quality = fit.quality[[known[name] for name in data.raters]][rater]
    return _Answers(code[winner], code[loser], weight, quality, offset)


def _top(
    slices: Sequence[_Answers], theta: Floats, eta: Floats, tau: float, shape: float, rate: float
) -> _Height:
    """The joint maximum over theta and all eta, by Fisher's scoring with halved steps."""
    k, precision = theta.size, 1.0 / tau**2
    eye = np.eye(k)

    def value(theta: Floats, eta: Floats) -> float:
        # A trial step may be far out, where the density is nothing.
        with np.errstate(over="ignore"):
            prior = float(np.sum(shape * theta - rate * np.exp(theta)))
        gap = eta - theta
        told = sum(one.at(row)[0] for one, row in zip(slices, eta, strict=True))
        return told + prior - 0.5 * precision * float(np.sum(gap * gap))

    height = value(theta, eta)
    for _ in range(STEPS):
        within, ahead = [], []
        gradient = shape - rate * np.exp(theta)
        curve = np.diag(rate * np.exp(theta) + 1e-9)
        for one, row in zip(slices, eta, strict=True):
            _, push, told = one.at(row)
            inside = inverse(told + precision * eye)
            slope = push - precision * (row - theta)
            within.append(inside)
            ahead.append(inside @ slope)
            gradient = gradient + precision * (row - theta) + precision * ahead[-1]
            curve = curve + precision * eye - precision**2 * inside
        common = inverse(curve)
        step = common @ gradient
        steps = np.array([a + precision * w @ step for a, w in zip(ahead, within, strict=True)])
        length = 1.0
        while length > 1e-6:
            new = value(theta + length * step, eta + length * steps)
            if new >= height - 1e-10 * abs(height):
                break
            length *= 0.5
        theta, eta, height = theta + length * step, eta + length * steps, new
        if length * max(np.abs(step).max(), np.abs(steps).max(initial=0.0)) < SMALL:
            break
    # log p(answers | tau), up to what does not depend on tau.
    dets = sum(np.linalg.slogdet(one)[1] for one in within) + np.linalg.slogdet(common)[1]
    evidence = height + 0.5 * float(dets) - len(slices) * k * float(np.log(tau))
    return _Height(theta, eta, np.array(within), common, evidence)


def _as_fit(fit: Fit, data: Comparisons, freedom: float, mean: Floats, covariance: Floats) -> Fit:
    """A fit with a given ranking and covariance, so that all is asked of it as of any other."""
    rater = {name: r for r, name in enumerate(fit.raters)}
    recoded = recoded_items(data, fit.items)
    quality = fit.quality[[rater[name] for name in data.raters]] if fit.rated else fit.quality
    # Field by field: a fit that follows answers makes some of them when they are asked for.
    found = Fit(
        recoded, fit.model, fit.solver, fit.priors, mean, quality, fit.trace, fit.error,
        fit.converged, (), cluster=fit.cluster, ties=fit.ties,
    )  # fmt: skip
    known = fit.robust
    found.__dict__["laplace"] = Laplace(mean, covariance)
    found.__dict__["robust"] = Robust(
        covariance, covariance, covariance, known.ways, freedom, known.wider
    )
    return found


def recoded_items(data: Comparisons, items: tuple[str, ...]) -> Comparisons:
    """The same answers, with the items of a larger set; what was counted by item is left out."""
    code = {name: i for i, name in enumerate(items)}
    to = np.array([code[name] for name in data.items], dtype=np.int32)
    rate = data.both_bad_rate
    if rate is not None:
        rate = np.zeros(len(items))
        rate[to] = data.both_bad_rate
    return replace(
        data, winner=to[data.winner], loser=to[data.loser], items=items, both_bad_rate=rate,
        left_excess=None,
    )  # fmt: skip
