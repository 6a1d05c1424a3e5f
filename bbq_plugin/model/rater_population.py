"""What kind of rater each one is: honest, of low quality or inverted, by the answers of all others.

Given the consensus without rater r, each kind says how likely r's answers are, the quality
integrated out: the honest have q ~ Beta(alpha, beta), the low a Beta near 0 of its own (a coin has
q = 0, but bad raters are right a little more often than one), and the inverted reverse every answer
of an honest one. The population is not known: verdicts are averaged over those that are likely,
given the answers of all raters and weak priors, and over two forms of it, with and without raters
of low quality. So a panel whose honest raters merely differ a lot is not split in two by force.

With several camps a rater follows one of their rankings, each with the camp's share: whom none of
them explains is low, and inverted is who follows the reverse of one and no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, lgamma, log, pi
from typing import cast

import numpy as np

from bbq_plugin.data.triples import Codes, Floats, Triples, even_chunks, lots, run_chunks
from bbq_plugin.model.kernels import likelihood as kernels
from bbq_plugin.model.objectives import Parts
from bbq_plugin.model.prior_estimation import last_lot

NODES = 40
# eta = (log(alpha - 1), log(beta - 1), logit of the share of the honest who are of BROAD quality;
# of the low: logit of the mean over HIGHEST, log of alpha + beta beyond LEAST_NARROW, logit of the
# share whose few informed answers are reversed; log share of the low, log share of the inverted,
# both relative to the honest). The centres: the paper's Beta, hardly any broad, the low right 18%
# more often than a coin, a fifth of them, and one in fifty inverted.
CENTRE = np.array(
    [
        *(log(9.0), 0.0, log(0.02 / 0.98)),
        *(log(0.18 / 0.27), log(4.0), log(0.1 / 0.9)),
        *(log(0.2 / 0.78), log(0.02 / 0.78)),
    ]
)
WIDTH = np.array([0.6, 0.6, 1.2, 1.2, 0.5, 1.0, 0.5, 1.0])
FREEDOM = np.array([3.0, 3.0, *[inf] * 6])
# Real raters are no Beta: some honest ones are spread over mediocre qualities, and are no low part.
BROAD = 10.0, 2.0
HIGHEST, LEAST_NARROW = 0.45, 6.0
LOW = 6  # the place of the low part's share
NO_LOW = -30.0  # its value in the form of the population that has no such part
ALL, HONEST_ONLY = np.arange(8), np.array([0, 1, 2, 7])  # the numbers that each form estimates
P_LOW = 0.7  # before the answers: that there are raters of low quality at all
NUDGE = 1e-3
LONGEST = 1.0
ENOUGH = 1e-3
MOST_STEPS = 60
POINTS = 128  # populations of each form that the verdicts are averaged over
WIDER = 1.3  # than the curvature says: the proposal's tails must not be the thinner ones
SLIGHT = 1e-5  # weight of a population below which it is left out
LARGEST_RATIO = 300.0  # nats: beyond, a ranking is that of an informed rater anyway
BLOCK = 5_000  # raters whose table is held at a time
ENOUGH_RATERS = 2500  # to estimate the population by; more would not move it visibly


def _nodes() -> tuple[Floats, Floats]:
    """Nodes and weights on [0, 1], denser towards both ends, where Betas are steep."""
    x, w = np.polynomial.legendre.leggauss(NODES)
    u = 0.5 * (1.0 + x)
    return u**2 * (3.0 - 2.0 * u), 3.0 * u * (1.0 - u) * w


NODE, BY = _nodes()
LOG_Q, LOG_REST, LOG_BY = np.log(NODE), np.log1p(-NODE), np.log(BY)


@dataclass(frozen=True, slots=True)
class RaterPopulation:
    """Honest quality ~ Beta(alpha, beta), low quality ~ Beta(low_alpha, low_beta), and the shares.

    ``guessers`` is the share of the low, ``inverted`` of those who reverse their answers.
    """

    alpha: float
    beta: float
    guessers: float
    inverted: float
    low_alpha: float = 1.0
    low_beta: float = 99.0

    @property
    def typical_quality(self) -> float:
        """The mean quality of the honest."""
        return self.alpha / (self.alpha + self.beta)

    @property
    def masses(self) -> Floats:
        """The share of the honest at each ``NODE``, for means over them."""
        return _beta(self.alpha, self.beta)

    @property
    def low_masses(self) -> Floats:
        """The share of those of low quality at each ``NODE``."""
        return _beta(self.low_alpha, self.low_beta)


@dataclass(frozen=True, slots=True, eq=False)
class Slates:
    """Rankings and choices in the order of raters: those of rater r are start[r]:start[r + 1].

    ``upright`` is log R, R = P(answer | informed) / P(answer | coin), ``turned`` the same for the
    answer inverted. A slate is informed or guessed as a whole, as a pair is: it has
    the likelihood 1 + q (R - 1) against a coin, of which a pair's 1 + 2 q s is the case R = 2 y.
    So one slate, however long, speaks against a rater of quality q by -log(1 - q) at most.
    """

    start: Codes
    upright: Floats
    turned: Floats

    def add_to(self, logs: Floats, raters: Codes) -> None:
        """Add the log-likelihoods of these raters' slates at the nodes, upright and turned."""
        n = np.diff(self.start)[raters]
        place = np.repeat(np.arange(raters.size), n)
        mine = np.repeat(self.start[raters] - np.cumsum(n) + n, n) + np.arange(place.size)
        for first, ratio in ((0, self.upright), (NODES, self.turned)):
            told = np.log1p(NODE * np.expm1(np.minimum(ratio[mine], LARGEST_RATIO))[:, None])
            np.add.at(logs[:, first : first + NODES], place, told)


@dataclass(frozen=True, slots=True, eq=False)
class CampView:
    """What one camp says of the answers: its share of the raters, s by triple, and the slates.

    ``s`` is y - 1/2 of each triple by the camp's ranking without the rater.
    """

    share: float
    s: Floats
    slates: Slates | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """Of each rater: P(low), P(inverted), P(q below the threshold), and the ends of q.

    ``lower`` and ``upper`` bound q in [-1, 1] at the level asked for.
    """

    p_guesser: Floats
    p_inverted: Floats
    p_below: Floats
    lower: Floats
    upper: Floats
    population: RaterPopulation

    @property
    def p_bad(self) -> Floats:
        """P(low or inverted)."""
        return np.asarray(np.minimum(self.p_guesser + self.p_inverted, 1.0))


#: Populations of raters that are likely, with their weights, and a typical one.
LikelyPopulations = tuple[tuple[Floats, Floats], RaterPopulation]


def sampled_up_to(triples: Triples | Parts) -> int:
    """The lot of the last rater by whom the population is estimated."""
    return last_lot(triples, ENOUGH_RATERS)


def sampled_raters(triples: Triples, last: int) -> Codes:
    """The places of raters up to this lot."""
    return np.flatnonzero(lots(triples) <= last)


def likelihood_rows(triples: Triples, views: Sequence[CampView], raters: Codes) -> Floats:
    """What the answers of some raters say of their kinds; those of several parts are stacked."""
    table = _Table.of(triples, views, raters)
    return np.column_stack((table.upright, table.turned, table.top))


def likely_populations(rows: Floats) -> tuple[LikelyPopulations, Floats, Floats]:
    """The populations by the rows of `likelihood_rows`; of these raters P(bad), and its evidence.

    The evidence is log P(answers | low, or reversed with any quality) / P(answers | coin).
    """
    table = _Table(rows[:, :NODES], rows[:, NODES : 2 * NODES], rows[:, 2 * NODES])
    points, population = known = _likely(table)
    guesser, inverted, *_ = table.judged(*points, 0.5, 0.95)
    likely = np.maximum(table.upright @ population.low_masses, table.turned @ BY)
    bad = np.log(np.maximum(likely, 1e-300)) + table.top
    return known, guesser + inverted, bad


def kinds_of(
    triples: Triples, views: Sequence[CampView], *, threshold: float = 0.5, level: float = 0.95,
    known: LikelyPopulations | None = None,
) -> Kinds:  # fmt: skip
    """Judge every rater by what each camp says of their answers.

    ``known``: the populations, where these raters are some of those they were estimated by.
    """
    n = triples.n_raters
    some = sampled_raters(triples, sampled_up_to(triples))
    sample = _Table.of(triples, views, some) if known is None else None
    points, population = _likely(sample) if sample is not None else cast("LikelyPopulations", known)
    out = np.empty((5, n))
    for first in range(0, n, BLOCK):
        rows = np.arange(first, min(n, first + BLOCK))
        whole = sample is not None and some.size == n
        table = sample.part(rows) if whole else _Table.of(triples, views, rows)  # type: ignore[union-attr]
        out[:, rows] = table.judged(*points, threshold, level)
    # In the order of the fields, which `judged` keeps.
    guesser, inverted, below, lower, upper = out
    return Kinds(guesser, inverted, below, lower, upper, population)


def honest_evidence(triples: Triples, s: Floats, alpha: float, beta: float) -> Floats:
    """log P(answers | honest) - log P(answers | coin) of each rater, the population being known."""
    table = _Table.of(triples, (CampView(1.0, s),), np.arange(triples.n_raters))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(table.upright @ _beta(alpha, beta)) + table.top)


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Likelihoods at the nodes, upright and turned, over the rater's largest, whose log is top."""

    upright: Floats
    turned: Floats
    top: Floats

    @classmethod
    def of(cls, triples: Triples, views: Sequence[CampView], raters: Codes) -> _Table:
        """The table of some raters: the mean over camps, by their shares.

        Inverted is who follows the inverse of every camp: where two camps are opposed, no rater.
        """
        logs = np.empty((len(views), raters.size, 2 * NODES))
        rows = np.concatenate(([0], np.cumsum(np.diff(triples.start)[raters])))
        for of_camp, view in zip(logs, views, strict=True):
            for half, turn in ((slice(NODES), 1.0), (slice(NODES, None), -1.0)):
                summed = np.zeros((raters.size, NODES))

                def work(
                    first: int, last: int, s: Floats = turn * view.s, out: Floats = summed
                ) -> None:
                    kernels.likelihood_table(
                        first, last, raters, triples.start, triples.weight, s, NODE[None],
                        np.empty(NODES + 8), out,
                    )  # fmt: skip

                run_chunks(work, even_chunks(rows))
                of_camp[:, half] = summed
            if view.slates is not None:
                view.slates.add_to(of_camp, raters)
        told = logs[0]
        if len(views) > 1:
            shares = np.log([max(view.share, 1e-300) for view in views])
            told = _log_sum(logs + (shares - _log_sum(shares))[:, None, None])
            told[:, NODES:] = logs[:, :, NODES:].min(axis=0)
        top = told.max(axis=1)
        likely = np.exp(told - top[:, None])
        return cls(likely[:, :NODES], likely[:, NODES:], top)

    def part(self, rows: Codes) -> _Table:
        """Some of the raters."""
        return _Table(self.upright[rows], self.turned[rows], self.top[rows])

    def likelihoods(
        self, honest: Floats, low: Floats, low_turned: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """P(answers | kind) by rater and population, over exp(top): honest, low, inverted."""
        return (
            self.upright @ honest,
            self.upright @ low + self.turned @ low_turned,
            (self.turned @ honest),
        )

    def values(self, etas: Floats) -> Floats:
        """log-likelihood of all raters plus the prior, of each of these populations."""
        told, shares = self.likelihoods(*_masses(etas)), np.exp(_log_shares(etas))
        total = sum(likely * share for likely, share in zip(told, shares, strict=True))
        logs = np.log(np.maximum(total, 1e-300)).sum(axis=0)
        return np.asarray(logs + self.top.sum() + _log_prior(etas))

    def gradients(self, etas: Floats) -> Floats:
        """Of ``values``, by all numbers of eta (columns)."""
        told, shares = self.likelihoods(*_masses(etas)), np.exp(_log_shares(etas))
        total = sum(likely * share for likely, share in zip(told, shares, strict=True))
        honest, low, inverted = (share / np.maximum(total, 1e-300) for share in shares)
        by_honest, by_low, by_low_turned = _slopes(etas)
        found = np.empty(etas.shape)
        of_honest = honest.T @ self.upright + inverted.T @ self.turned
        found[:, :3] = np.einsum("ek,pke->ep", of_honest, by_honest)
        found[:, 3:LOW] = np.einsum("ek,pke->ep", low.T @ self.upright, by_low)
        found[:, 3:LOW] += np.einsum("ek,pke->ep", low.T @ self.turned, by_low_turned)
        kinds = ((told[1] * low).sum(axis=0), (told[2] * inverted).sum(axis=0))
        found[:, LOW:] = (np.stack(kinds) - self.top.size * shares[1:]).T
        return found + _prior_slope(etas)

    def judged(self, etas: Floats, weight: Floats, threshold: float, level: float) -> Floats:
        """The rows of `Kinds`, over populations ``etas`` of this weight: which one is not known."""
        honest, low, low_turned = _masses(etas)
        shares = np.exp(_log_shares(etas))
        told = self.likelihoods(honest, low, low_turned)
        parts = [likely * share for likely, share in zip(told, shares, strict=True)]
        by = weight / np.maximum(parts[0] + parts[1] + parts[2], 1e-300)
        kind = [(part * by).sum(axis=1) for part in parts]
        # Quality under each population, in the share of that population.
        by_kind = [by * share for share in shares]
        above = self.upright * (by_kind[0] @ honest.T + by_kind[1] @ low.T)
        under = self.turned * (by_kind[2] @ honest.T + by_kind[1] @ low_turned.T)
        at = np.concatenate((-NODE[::-1], NODE))
        below = np.cumsum(np.column_stack((under[:, ::-1], above)), axis=1)
        tails = ((1 - level) / 2, (1 + level) / 2)
        ends = [at[np.minimum(np.sum(below < tail, axis=1), at.size - 1)] for tail in tails]
        p_below = below[:, np.searchsorted(at, threshold) - 1]
        return np.stack((kind[1], kind[2], p_below, *ends))


# -- the population


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def _shapes(etas: Floats) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """(alpha, beta) of the honest, but for the broad part, and of the low."""
    alpha, beta = 1.0 + np.exp(etas.T[:2])
    mean, both = HIGHEST * _sigmoid(etas.T[3]), LEAST_NARROW + np.exp(etas.T[4])
    return (alpha, beta), (mean * both, (1.0 - mean) * both)


def _masses(etas: Floats) -> tuple[Floats, Floats, Floats]:
    """The masses at the nodes (rows) of honest quality, of low quality, and of the low in reverse.

    Of each population (columns), as all below.
    """
    honest, low = (_betas(*shape) for shape in _shapes(etas))
    broad, turned = _sigmoid(etas.T[2]), _sigmoid(etas.T[5])
    return (1.0 - broad) * honest + broad * _BROAD[:, None], (1.0 - turned) * low, turned * low


def _slopes(etas: Floats) -> tuple[Floats, Floats, Floats]:
    """How these masses follow the numbers of eta (first): those of the honest, of the low."""
    (alpha, beta), (low_alpha, low_beta) = _shapes(etas)
    honest, low = _betas(alpha, beta), _betas(low_alpha, low_beta)
    broad, turned, share = (_sigmoid(etas.T[i]) for i in (2, 5, 3))
    # d log mass / d alpha = log q - E[log q]; the chain rule leads from there to eta.
    q, rest = (logs[:, None] - logs @ honest for logs in (LOG_Q, LOG_REST))
    by_honest = np.stack(
        (
            (1.0 - broad) * honest * q * (alpha - 1.0),
            (1.0 - broad) * honest * rest * (beta - 1.0),
            broad * (1.0 - broad) * (_BROAD[:, None] - honest),
        )
    )
    both = low_alpha + low_beta
    mean = low_alpha / both
    q, rest = (logs[:, None] - logs @ low for logs in (LOG_Q, LOG_REST))
    by_mean = low * (q - rest) * both * mean * (1.0 - share)
    by_both = low * (mean * q + (1.0 - mean) * rest) * (both - LEAST_NARROW)
    by_turned = turned * (1.0 - turned) * low
    return (
        by_honest,
        np.stack(((1.0 - turned) * by_mean, (1.0 - turned) * by_both, -by_turned)),
        np.stack((turned * by_mean, turned * by_both, by_turned)),
    )


def _betas(alpha: Floats, beta: Floats) -> Floats:
    """The masses of some Betas at the nodes (rows)."""
    logs = LOG_BY[:, None] + np.outer(LOG_Q, alpha - 1.0) + np.outer(LOG_REST, beta - 1.0)
    mass = np.exp(logs - logs.max(axis=0))
    return np.asarray(mass / mass.sum(axis=0))


def _beta(alpha: float, beta: float) -> Floats:
    """The mass of a Beta at the nodes."""
    return _betas(np.array([alpha]), np.array([beta]))[:, 0]


_BROAD = _beta(*BROAD)


def _log_shares(etas: Floats) -> Floats:
    """Of the honest, the low and the inverted (rows)."""
    shares = np.vstack((np.zeros(len(etas)), etas.T[LOW:]))
    return np.asarray(shares - _log_sum(shares))


def _log_sum(logs: Floats) -> Floats:
    top = logs.max(axis=0)
    return np.asarray(top + np.log(np.sum(np.exp(logs - top), axis=0)))


def _log_prior(etas: Floats) -> Floats:
    """Up to the constants, which `_constants` has."""
    z = (etas - CENTRE) / WIDTH
    student = np.isfinite(FREEDOM)
    nu = np.where(student, FREEDOM, 1.0)
    logs = np.where(student, -(nu + 1) / 2 * np.log1p(z**2 / nu), -0.5 * z**2)
    return np.asarray(logs.sum(axis=1))


def _prior_slope(etas: Floats) -> Floats:
    z = (etas - CENTRE) / WIDTH
    nu = np.where(np.isfinite(FREEDOM), FREEDOM, 1.0)
    student = -(nu + 1) * z / (nu + z**2)
    return np.asarray(np.where(np.isfinite(FREEDOM), student, -z) / WIDTH)


def _constants(numbers: Codes) -> float:
    """Of the normalised prior of these numbers of eta."""
    total = 0.0
    for width, nu in zip(WIDTH[numbers].tolist(), FREEDOM[numbers].tolist(), strict=True):
        flat = -0.5 * log(2 * pi)
        if nu < inf:
            flat = lgamma((nu + 1) / 2) - lgamma(nu / 2) - 0.5 * log(nu * pi)
        total += flat - log(width)
    return total


def _likely(table: _Table) -> tuple[tuple[Floats, Floats], RaterPopulation]:
    """Populations that are likely, given the answers of all, with weights; and a typical one."""
    best = _estimate(table, CENTRE, ALL)
    etas, weight, evidence = _posterior(table, best, ALL)
    start = CENTRE.copy()
    start[LOW] = NO_LOW
    # Without a low part its other numbers say nothing, and do not count against this form.
    single = _estimate(table, start, HONEST_ONLY)
    etas_0, weight_0, evidence_0 = _posterior(table, single, HONEST_ONLY)
    ahead = evidence - evidence_0 + log(P_LOW / (1.0 - P_LOW))
    share = 1.0 / (1.0 + np.exp(np.clip(-ahead, -500.0, 500.0)))
    etas = np.concatenate((etas, etas_0))
    weight = np.concatenate((share * weight, (1.0 - share) * weight_0))
    keep = weight > SLIGHT
    etas, weight = etas[keep], weight[keep] / weight[keep].sum()
    shares = np.exp(_log_shares(etas)) @ weight
    (alpha, beta), low = _shapes(best if share >= 0.5 else single)[0], _shapes(best)[1]
    population = RaterPopulation(
        float(alpha), float(beta), float(shares[1]), float(shares[2]), float(low[0]), float(low[1])
    )
    return (etas, weight), population


def _posterior(table: _Table, eta: Floats, numbers: Codes) -> tuple[Floats, Floats, float]:
    """Populations around the best, by importance, their weights, and the form's log evidence.

    Who is called a guesser must not hang on one population.
    """
    roots, axes = np.linalg.eigh(_curvature(table, eta, numbers))
    sd = WIDER / np.sqrt(np.maximum(roots, 0.25))
    drawn = np.random.default_rng(0).standard_normal((POINTS // 2, numbers.size))
    drawn = np.concatenate((np.zeros((1, numbers.size)), drawn, -drawn))
    etas = np.tile(eta, (len(drawn), 1))
    # The symmetric root: axes have no sign of their own, and raters come in any order.
    etas[:, numbers] += drawn @ (axes * sd) @ axes.T
    log_weight = table.values(etas) + 0.5 * np.sum(drawn**2, axis=1)
    # The prior of the numbers that this form does not have.
    others = np.setdiff1d(ALL, numbers)
    absent = -0.5 * float(np.sum(((eta - CENTRE) / WIDTH)[others] ** 2))
    top = float(log_weight.max())
    weight = np.exp(log_weight - top)
    evidence = top + log(float(weight.mean())) + float(np.sum(np.log(sd))) - absent
    evidence += 0.5 * numbers.size * log(2 * pi) + _constants(numbers)
    return etas, np.asarray(weight / weight.sum()), evidence


def _estimate(table: _Table, start: Floats, numbers: Codes) -> Floats:
    """Newton in some numbers of eta, every curvature made positive, shortened to rise."""
    eta, value = start.copy(), _value(table, start)
    for _ in range(MOST_STEPS):
        roots, axes = np.linalg.eigh(_curvature(table, eta, numbers))
        slope = axes.T @ table.gradients(eta[None])[0, numbers]
        step = np.zeros(eta.size)
        step[numbers] = axes @ (slope / np.maximum(np.abs(roots), 0.25))
        step *= min(1.0, LONGEST / max(float(np.max(np.abs(step))), 1e-300))
        size, trial = 1.0, _value(table, eta + step)
        while size > 1e-3 and trial <= value:
            size /= 2
            trial = _value(table, eta + size * step)
        if trial <= value:
            break
        eta, value = eta + size * step, trial
        if float(np.max(np.abs(step))) < ENOUGH:
            break
    return eta


def _value(table: _Table, eta: Floats) -> float:
    return float(table.values(eta[None])[0])


def _curvature(table: _Table, eta: Floats, numbers: Codes) -> Floats:
    """Minus the Hessian in these numbers, by differences of the gradient."""
    nudges = NUDGE * np.eye(eta.size)[numbers]
    found = table.gradients(np.concatenate((eta + nudges, eta - nudges)))[:, numbers]
    up, down = found[: numbers.size], found[numbers.size :]
    curve = (down - up) / (2 * NUDGE)
    return np.asarray(0.5 * (curve + curve.T))
