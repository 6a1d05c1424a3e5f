"""What kind of rater each one is: honest, guessing or upside down, by the answers of all others.

Given the consensus without rater r, each kind says how likely r's answers are: a coin's, or, the
quality integrated out, those of someone who is informed, or of someone informed who turns every
answer round. The population (how good the honest are, how many there are of each kind) is set
where the answers of all raters are most likely, with a weak prior around the paper's raters.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, lgamma, log

import numpy as np

from bbq_plugin.aggregate import Triples
from bbq_plugin.model import kernels_leave_out as kernels
from bbq_plugin.model.objective import Floats
from bbq_plugin.threads import even_chunks, run_chunks

__all__ = ["Kinds", "kinds_of"]

NODES = 40
# eta = (log(alpha - 1), log(beta - 1), log share of guessers, log share upside down, both relative
# to the honest): centres are the paper's Beta, a tenth of guessers, and one in fifty upside down.
CENTRE = np.array([log(9.0), 0.0, log(0.1 / 0.88), log(0.02 / 0.88)])
WIDTH = np.array([0.3, 0.3, 1.0, 1.0])
FREEDOM = np.array([3.0, 3.0, inf, inf])
NUDGE = 0.05
LONGEST = 1.0
ENOUGH = 1e-3
MOST_STEPS = 60
MOST_RATERS = 20_000  # to estimate the population by; more would not move it


def _nodes() -> tuple[Floats, Floats]:
    """Nodes and weights on [0, 1], denser towards both ends, where Betas are steep."""
    x, w = np.polynomial.legendre.leggauss(NODES)
    u = 0.5 * (1.0 + x)
    return u**2 * (3.0 - 2.0 * u), 3.0 * u * (1.0 - u) * w


NODE, BY = _nodes()


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """Of each rater: P(guessing) and P(upside down), and the evidence in nats against a coin.

    ``log_honest`` is log P(answers | honest) - log P(answers | coin), ``log_inverted`` the same
    for someone upside down. The population: honest quality ~ Beta(alpha, beta), and the shares.
    """

    p_guesser: Floats
    p_inverted: Floats
    log_honest: Floats
    log_inverted: Floats
    alpha: float
    beta: float
    guessers: float
    inverted: float

    @property
    def p_honest(self) -> Floats:
        """P(neither guessing nor upside down)."""
        return np.asarray(np.clip(1.0 - self.p_guesser - self.p_inverted, 0.0, 1.0))


def kinds_of(triples: Triples, s: Floats) -> Kinds:
    """Judge every rater; ``s`` is y - 1/2 of each triple by the consensus of all others."""
    table = np.empty((triples.n_raters, 2 * NODES))

    def work(first: int, last: int) -> None:
        kernels.likelihood_table(first, last, triples.start, triples.weight, s, NODE, table)

    run_chunks(work, even_chunks(triples.start))
    every = max(1, -(-triples.n_raters // MOST_RATERS))
    eta = _estimate(_Table.of(table[::every]))
    honest, inverted = _Table.of(table).evidence(eta[0], eta[1])
    shares = np.concatenate(([0.0], eta[2:]))
    shares -= _log_sum(shares)
    logs = np.stack((honest + shares[0], np.full(honest.size, shares[1]), inverted + shares[2]))
    posterior = np.exp(logs - _log_sum(logs))
    return Kinds(
        posterior[1], posterior[2], honest, inverted,
        float(1 + np.exp(eta[0])), float(1 + np.exp(eta[1])),
        float(np.exp(shares[1])), float(np.exp(shares[2])),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Likelihoods at the nodes, upright and turned, each row by its largest."""

    upright: Floats
    upright_top: Floats
    turned: Floats
    turned_top: Floats

    @classmethod
    def of(cls, logs: Floats) -> _Table:
        upright, turned = logs[:, :NODES], logs[:, NODES:]
        tops = upright.max(axis=1), turned.max(axis=1)
        return cls(
            np.exp(upright - tops[0][:, None]), tops[0], np.exp(turned - tops[1][:, None]), tops[1]
        )

    def evidence(self, log_alpha: float, log_beta: float) -> tuple[Floats, Floats]:
        """log of the integral over quality ~ Beta, upright and turned."""
        mass = _beta(1.0 + np.exp(log_alpha), 1.0 + np.exp(log_beta))
        with np.errstate(divide="ignore"):
            return (
                np.log(self.upright @ mass) + self.upright_top,
                np.log(self.turned @ mass) + self.turned_top,
            )

    def value(self, eta: Floats) -> float:
        """log-likelihood of all raters plus the prior of eta."""
        honest, inverted = self.evidence(eta[0], eta[1])
        shares = np.concatenate(([0.0], eta[2:]))
        shares -= _log_sum(shares)
        kinds = np.stack(
            (honest + shares[0], np.full(honest.size, shares[1]), inverted + shares[2])
        )
        return float(np.sum(_log_sum(kinds))) + _log_prior(eta)


def _beta(alpha: float, beta: float) -> Floats:
    """The Beta's mass at the nodes."""
    scale = lgamma(alpha + beta) - lgamma(alpha) - lgamma(beta)
    mass = BY * np.exp(scale + (alpha - 1) * np.log(NODE) + (beta - 1) * np.log1p(-NODE))
    return np.asarray(mass / mass.sum())


def _log_sum(logs: Floats) -> Floats:
    top = logs.max(axis=0)
    return np.asarray(top + np.log(np.sum(np.exp(logs - top), axis=0)))


def _log_prior(eta: Floats) -> float:
    z = (eta - CENTRE) / WIDTH
    student = np.isfinite(FREEDOM)
    nu = np.where(student, FREEDOM, 1.0)
    return float(np.sum(np.where(student, -(nu + 1) / 2 * np.log1p(z**2 / nu), -0.5 * z**2)))


def _estimate(table: _Table) -> Floats:
    """Newton with derivatives by differences, every curvature made positive, shortened to rise."""
    eta, value = CENTRE.copy(), table.value(CENTRE)
    nudges = NUDGE * np.eye(eta.size)
    for _ in range(MOST_STEPS):
        up = np.array([table.value(eta + h) for h in nudges])
        down = np.array([table.value(eta - h) for h in nudges])
        gradient = (up - down) / (2 * NUDGE)
        curve = np.diag(-(up - 2 * value + down))
        for i in range(eta.size):
            for j in range(i):
                corner = table.value(eta + nudges[i] + nudges[j])
                curve[i, j] = curve[j, i] = -(corner - up[i] - up[j] + value)
        roots, axes = np.linalg.eigh(curve / NUDGE**2)
        step = axes @ ((axes.T @ gradient) / np.maximum(np.abs(roots), 0.25))
        step *= min(1.0, LONGEST / max(float(np.max(np.abs(step))), 1e-300))
        trial, size = value, 1.0
        while size > 1e-3:
            trial = table.value(eta + size * step)
            if trial > value:
                break
            size /= 2
        if trial <= value:
            break
        eta, value = eta + size * step, trial
        if float(np.max(np.abs(step))) < ENOUGH:
            break
    return eta
