"""What kind of rater each one is: honest, guessing or inverted, by the answers of all others.

Given the consensus without rater r, each kind says how likely r's answers are: a coin's, or, the
quality integrated out, those of someone who is informed, or of someone informed who reverses
every answer. The population (how good the honest are, how many there are of each kind) is set
where the answers of all raters are most likely, with a weak prior around the paper's raters.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, lgamma, log

import numpy as np

from bbq_plugin.data.triples import Codes, Floats, Triples, even_chunks, run_chunks
from bbq_plugin.model.kernels import held_out as kernels

NODES = 40
# eta = (log(alpha - 1), log(beta - 1), log share of guessers, log share inverted, both relative
# to the honest): centres are the paper's Beta, a tenth of guessers, and one in fifty inverted.
CENTRE = np.array([log(9.0), 0.0, log(0.1 / 0.88), log(0.02 / 0.88)])
WIDTH = np.array([1.0, 1.0, 1.0, 1.0])
FREEDOM = np.array([3.0, 3.0, inf, inf])
NUDGE = 0.05
LONGEST = 1.0
ENOUGH = 1e-3
MOST_STEPS = 60
POINTS = 128  # populations that the verdicts are averaged over
WIDER = 1.3  # than the curvature says: the proposal's tails must not be the thinner ones
LARGEST_RATIO = 300.0  # nats: beyond, a ranking is that of an informed rater anyway
BLOCK = 20_000  # raters whose table is held at a time
ENOUGH_RATERS = 4000  # to estimate the population by; more would not move it visibly


def _nodes() -> tuple[Floats, Floats]:
    """Nodes and weights on [0, 1], denser towards both ends, where Betas are steep."""
    x, w = np.polynomial.legendre.leggauss(NODES)
    u = 0.5 * (1.0 + x)
    return u**2 * (3.0 - 2.0 * u), 3.0 * u * (1.0 - u) * w


NODE, BY = _nodes()


@dataclass(frozen=True, slots=True)
class RaterPopulation:
    """Honest quality ~ Beta(alpha, beta); the shares of those who guess and who are inverted."""

    alpha: float
    beta: float
    guessers: float
    inverted: float

    @property
    def typical_quality(self) -> float:
        """The mean quality of the honest."""
        return self.alpha / (self.alpha + self.beta)

    @property
    def masses(self) -> Floats:
        """The share of the honest at each ``NODE``, for means over them."""
        return _beta(np.log(np.array([self.alpha - 1.0, self.beta - 1.0])))


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
class Kinds:
    """Of each rater: P(guessing), P(inverted), P(q below the threshold), and the ends of q.

    ``lower`` and ``upper`` bound q in [-1, 1] at the level asked for.
    """

    p_guesser: Floats
    p_inverted: Floats
    p_below: Floats
    lower: Floats
    upper: Floats
    population: RaterPopulation


def kinds_of(
    triples: Triples, s: Floats, slates: Slates | None = None, *, threshold: float = 0.5,
    level: float = 0.95,
) -> Kinds:  # fmt: skip
    """Judge every rater; ``s`` is y - 1/2 of each triple by the consensus of all others."""
    n = triples.n_raters
    some = np.linspace(0, n, min(n, ENOUGH_RATERS), endpoint=False).astype(np.int64)
    sample = _Table.of(triples, s, some, slates)
    eta = _estimate(sample)
    points = _posterior(sample, eta)
    out = np.empty((5, n))
    for first in range(0, n, BLOCK):
        last, table = min(n, first + BLOCK), sample
        if some.size < n:
            table = _Table.of(triples, s, np.arange(first, last), slates)
        out[:, first:last] = table.judged(*points, threshold, level)
    population = RaterPopulation(
        *(float(1 + np.exp(x)) for x in eta[:2]), *(float(x) for x in np.exp(_log_shares(eta))[1:])
    )
    # In the order of the fields, which `judged` keeps.
    guesser, inverted, below, lower, upper = out
    return Kinds(guesser, inverted, below, lower, upper, population)


def honest_evidence(triples: Triples, s: Floats, alpha: float, beta: float) -> Floats:
    """log P(answers | honest) - log P(answers | coin) of each rater, the population being known."""
    table = _Table.of(triples, s, np.arange(triples.n_raters))
    eta = np.array([log(alpha - 1), log(beta - 1), *CENTRE[2:]])
    return np.asarray(table.logs_of_kinds(eta)[0] - _log_shares(eta)[0])


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Likelihoods at the nodes, upright and turned, each row by its largest."""

    upright: Floats
    upright_top: Floats
    turned: Floats
    turned_top: Floats

    @classmethod
    def of(cls, triples: Triples, s: Floats, raters: Codes, slates: Slates | None = None) -> _Table:
        """The table of some raters."""
        logs = np.empty((raters.size, 2 * NODES))
        rows = np.concatenate(([0], np.cumsum(np.diff(triples.start)[raters])))

        def work(first: int, last: int) -> None:
            kernels.likelihood_table(
                first, last, raters, triples.start, triples.weight, s, NODE, logs
            )

        run_chunks(work, even_chunks(rows))
        if slates is not None:
            slates.add_to(logs, raters)
        upright, turned = logs[:, :NODES], logs[:, NODES:]
        tops = upright.max(axis=1), turned.max(axis=1)
        return cls(
            np.exp(upright - tops[0][:, None]), tops[0], np.exp(turned - tops[1][:, None]), tops[1]
        )

    def logs_of_kinds(self, eta: Floats) -> Floats:
        """log share + log P(answers | kind) - log P(answers | coin): honest, coin, inverted."""
        mass = _beta(eta)
        shares = _log_shares(eta)
        with np.errstate(divide="ignore"):
            honest = np.log(self.upright @ mass) + self.upright_top
            turned = np.log(self.turned @ mass) + self.turned_top
        return np.stack((honest + shares[0], np.full(honest.size, shares[1]), turned + shares[2]))

    def value(self, eta: Floats) -> float:
        """log-likelihood of all raters plus the prior of eta."""
        return float(np.sum(_log_sum(self.logs_of_kinds(eta)))) + _log_prior(eta)

    def judged(self, etas: Floats, weight: Floats, threshold: float, level: float) -> Floats:
        """The rows of `Kinds`, over populations ``etas`` of this weight: which one is not known."""
        masses = np.array([_beta(eta) for eta in etas])
        shares = np.array([_log_shares(eta) for eta in etas])
        with np.errstate(divide="ignore"):
            upright = np.log(self.upright @ masses.T) + self.upright_top[:, None]
            turned = np.log(self.turned @ masses.T) + self.turned_top[:, None]
        coin = np.zeros(upright.shape)
        logs = np.stack((upright, coin, turned)) + shares.T[:, None, :]
        kinds = np.exp(logs - _log_sum(logs)) * weight
        kind = kinds.sum(axis=2)
        # Quality under each population, in the share of that population.
        above = self.upright * (_over(kinds[0], upright - self.upright_top[:, None]) @ masses)
        under = self.turned * (_over(kinds[2], turned - self.turned_top[:, None]) @ masses)
        at = np.concatenate((-NODE[::-1], [0.0], NODE))
        below = np.cumsum(np.column_stack((under[:, ::-1], kind[1], above)), axis=1)
        tails = ((1 - level) / 2, (1 + level) / 2)
        ends = [at[np.minimum(np.sum(below < tail, axis=1), at.size - 1)] for tail in tails]
        p_below = below[:, np.searchsorted(at, threshold) - 1]
        return np.stack((kind[1], kind[2], p_below, *ends))


def _over(share: Floats, log_mass: Floats) -> Floats:
    """share / exp(log_mass), 0 where the share is."""
    return np.asarray(np.where(share > 0, share * np.exp(-np.maximum(log_mass, -700.0)), 0.0))


def _beta(eta: Floats) -> Floats:
    """The mass of the honest quality's Beta at the nodes."""
    alpha, beta = 1.0 + np.exp(eta[:2])
    scale = lgamma(alpha + beta) - lgamma(alpha) - lgamma(beta)
    mass = BY * np.exp(scale + (alpha - 1) * np.log(NODE) + (beta - 1) * np.log1p(-NODE))
    return np.asarray(mass / mass.sum())


def _log_shares(eta: Floats) -> Floats:
    shares = np.concatenate(([0.0], eta[2:]))
    return np.asarray(shares - _log_sum(shares))


def _log_sum(logs: Floats) -> Floats:
    top = logs.max(axis=0)
    return np.asarray(top + np.log(np.sum(np.exp(logs - top), axis=0)))


def _log_prior(eta: Floats) -> float:
    z = (eta - CENTRE) / WIDTH
    student = np.isfinite(FREEDOM)
    nu = np.where(student, FREEDOM, 1.0)
    return float(np.sum(np.where(student, -(nu + 1) / 2 * np.log1p(z**2 / nu), -0.5 * z**2)))


def _posterior(table: _Table, eta: Floats) -> tuple[Floats, Floats]:
    """Populations that are likely, given the answers of all, and how likely each is.

    Around the best, by importance: who is called a guesser must not hang on one population.
    """
    _, curve = _curvature(table, eta, table.value(eta))
    roots, axes = np.linalg.eigh(curve)
    scale = axes * (WIDER / np.sqrt(np.maximum(roots, 0.25)))
    drawn = np.random.default_rng(0).standard_normal((POINTS // 2, eta.size))
    drawn = np.concatenate((np.zeros((1, eta.size)), drawn, -drawn))
    etas = eta + drawn @ scale.T
    log_weight = np.array([table.value(x) for x in etas]) + 0.5 * np.sum(drawn**2, axis=1)
    weight = np.exp(log_weight - log_weight.max())
    return etas, weight / weight.sum()


def _estimate(table: _Table) -> Floats:
    """Newton with derivatives by differences, every curvature made positive, shortened to rise."""
    eta, value = CENTRE.copy(), table.value(CENTRE)
    for _ in range(MOST_STEPS):
        step = _newton(table, eta, value)
        trial, size = value, 1.0
        while size > 1e-3 and trial <= value:
            trial = table.value(eta + size * step)
            size /= 2
        if trial <= value:
            break
        eta, value = eta + 2 * size * step, trial
        if float(np.max(np.abs(step))) < ENOUGH:
            break
    return eta


def _newton(table: _Table, eta: Floats, value: float) -> Floats:
    gradient, curve = _curvature(table, eta, value)
    roots, axes = np.linalg.eigh(curve)
    step = axes @ ((axes.T @ gradient) / np.maximum(np.abs(roots), 0.25))
    return np.asarray(step * min(1.0, LONGEST / max(float(np.max(np.abs(step))), 1e-300)))


def _curvature(table: _Table, eta: Floats, value: float) -> tuple[Floats, Floats]:
    """Gradient and minus the Hessian, by differences."""
    nudges = NUDGE * np.eye(eta.size)
    up = np.array([table.value(eta + h) for h in nudges])
    down = np.array([table.value(eta - h) for h in nudges])
    curve = np.diag(-(up - 2 * value + down))
    for i in range(eta.size):
        for j in range(i):
            corner = table.value(eta + nudges[i] + nudges[j])
            curve[i, j] = curve[j, i] = -(corner - up[i] - up[j] + value)
    return np.asarray((up - down) / (2 * NUDGE)), np.asarray(curve / NUDGE**2)
