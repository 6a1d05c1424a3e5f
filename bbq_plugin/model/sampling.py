"""Draws from the exact posterior of (theta, q), by one of two samplers, and their diagnostics."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import lgamma

import numpy as np
from scipy.linalg import solve_triangular

from bbq_plugin.data.triples import Floats, Triples, worker_count
from bbq_plugin.model.kernels import likelihood as kernels
from bbq_plugin.model.objectives import Marginal, population_table, theta_density
from bbq_plugin.model.prior_estimation import log_hyperprior, priors_of
from bbq_plugin.model.priors import Priors


def _split(chains: Floats) -> Floats:
    """(chains, draws, …) with every chain cut in half, so that a drift shows as disagreement."""
    half = chains.shape[1] // 2
    return np.concatenate((chains[:, :half], chains[:, chains.shape[1] - half :]))


def _variances(chains: Floats) -> tuple[Floats, Floats]:
    """Within-chain variance W, and the pooled estimate (n - 1)/n W + B/n."""
    n = chains.shape[1]
    within = chains.var(axis=1, ddof=1).mean(axis=0)
    between = chains.mean(axis=1).var(axis=0, ddof=1)
    return within, (n - 1) / n * within + between


def r_hat(chains: Floats) -> Floats:
    """How much wider all chains together are than each alone: 1 when they agree."""
    within, pooled = _variances(_split(chains))
    safe = np.where(within > 0, within, 1.0)
    return np.where(within > 0, np.sqrt(pooled / safe), 1.0)


def effective_sample_size(chains: Floats) -> Floats:
    """How many independent draws these are worth: sums of autocorrelations, in Geyer's pairs."""
    split = _split(chains)
    m, n = split.shape[:2]
    within, pooled = _variances(split)
    centred = split - split.mean(axis=1, keepdims=True)
    length = 2 ** int(np.ceil(np.log2(2 * n)))
    power = np.abs(np.fft.rfft(centred, n=length, axis=1)) ** 2
    covariance = np.fft.irfft(power, n=length, axis=1)[:, :n].mean(axis=0) / n
    safe = np.where(pooled > 0, pooled, 1.0)
    rho = 1.0 - (within - covariance * n / (n - 1)) / safe
    pairs = rho[: n - n % 2].reshape(n // 2, 2, *rho.shape[1:]).sum(axis=1)
    # Geyer's initial monotone sequence: sums of pairs count while they are positive and falling.
    positive = np.cumprod(pairs > 0, axis=0)
    monotone = np.minimum.accumulate(np.maximum(pairs, 0.0), axis=0) * positive
    tau = np.maximum(2.0 * monotone.sum(axis=0) - 1.0, 1.0 / np.log10(m * n + 10))
    return np.asarray(
        np.where(pooled > 0, np.minimum(m * n / tau, m * n * np.log10(m * n + 10)), m * n)
    )


CHAINS = 4
R_HAT_LIMIT = 1.05
ESS_LIMIT = 200
THIN_GIBBS = 2


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Posterior draws, by rows, with the word of the diagnostics on them.

    ``ess`` and ``r_hat`` are the worst over the items, each item's theta taken relative to the
    mean of all (the common level is not what anyone asks for).
    """

    theta: Floats
    quality: Floats
    method: str
    ess: float
    r_hat: float
    acceptance: float
    warnings: tuple[str, ...] = ()


def whole_weights(triples: Triples) -> bool:
    """Whether every weight is a whole number, small enough to draw a binomial of."""
    w = triples.weight
    return bool(np.all(w == np.floor(w)) and (w.size == 0 or w.max() < 2**31))


def _collect(theta: Floats, quality: Floats, n: int, method: str, acceptance: float) -> Draws:
    """(chains, draws, …) arrays into ``n`` draws by rows, judged by all of them."""
    relative = theta - theta.mean(axis=2, keepdims=True)
    ess, split = float(np.min(effective_sample_size(relative))), float(np.max(r_hat(relative)))
    warnings = []
    if split > R_HAT_LIMIT:
        warnings.append(
            f"the sampler has not mixed: R-hat is {split:.3f} (above {R_HAT_LIMIT}); "
            "ask for more draws"
        )
    if ess < min(ESS_LIMIT, 0.5 * theta.shape[0] * theta.shape[1]):
        warnings.append(f"the draws are worth only {ess:.0f} independent ones; ask for more draws")
    flat = (theta.shape[0] * theta.shape[1], -1)
    theta, quality = (x.swapaxes(0, 1).reshape(flat)[:n] for x in (theta, quality))
    return Draws(theta, quality, method, ess, split, acceptance, tuple(warnings))


def gibbs(
    triples: Triples, priors: Priors, theta: Floats, quality: Floats, n: int, seed: int, *,
    fixed: bool, keep_quality: bool,
) -> Draws:  # fmt: skip
    """Alternate exact draws of latent counts, qualities and skills, from ``theta`` on."""
    low, high = np.minimum(triples.winner, triples.loser), np.maximum(triples.winner, triples.loser)
    code = low.astype(np.int64) * triples.n_items + high
    pairs, pair = np.unique(code, return_inverse=True)
    one, two = np.divmod(pairs, triples.n_items)
    per_chain = -(-n // CHAINS)
    theta_draws = np.empty((CHAINS, per_chain, triples.n_items))
    quality_draws = np.empty((CHAINS, per_chain, triples.n_raters if keep_quality else 0))
    warm_up = max(200, per_chain // 2)
    parts = population_table(priors)

    def chain(c: int, rng: np.random.Generator) -> None:
        first = theta + rng.normal(0.0, 0.3, theta.size)
        q = np.clip(quality + rng.normal(0.0, 0.1, quality.size), 0.05, 0.95)
        kernels.gibbs_chain(
            rng, triples.start, triples.winner, triples.loser, triples.weight, pair, one, two,
            priors.a, priors.b, parts, fixed, first, np.ones(q.size) if fixed else q,
            warm_up, THIN_GIBBS, theta_draws[c], quality_draws[c],
        )  # fmt: skip

    _run(chain, seed)
    return _collect(theta_draws, quality_draws, n, "gibbs", 1.0)


def _run(chain: Callable[[int, np.random.Generator], None], seed: int) -> None:
    """Each chain in a thread of its own, with a generator of its own."""
    generators = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(CHAINS)]
    with ThreadPoolExecutor(min(CHAINS, worker_count())) as pool:
        for done in [pool.submit(chain, c, rng) for c, rng in enumerate(generators)]:
            done.result()


class _Target:
    """log p(theta, eta | data): eta is empty under given priors."""

    def __init__(self, triples: Triples, priors: Priors, *, fixed: bool) -> None:
        self.density = theta_density(triples, priors, fixed=fixed)
        self.triples, self.fixed = triples, fixed

    def __call__(self, x: Floats) -> float:
        k = self.triples.n_items
        theta, eta = x[:k], x[k:]
        constant = 0.0
        if eta.size:
            if np.max(np.abs(eta)) > 12:  # no population is believed in so far out
                return -np.inf
            priors = priors_of(eta)
            constant = (
                k * (priors.a * np.log(priors.b) - lgamma(priors.a)) + log_hyperprior(eta, k)[0]
            )
            if isinstance(self.density, Marginal):
                self.density.believe(priors)
            else:
                self.density.a = priors.a + 1.0
        with np.errstate(over="ignore"):  # a wild proposal: its density is zero
            return self.density.value(theta) + constant

    def draw_quality(self, x: Floats, rng: np.random.Generator) -> Floats:
        """One draw of every rater's quality given theta and eta."""
        t, density = self.triples, self.density
        out = np.ones(t.n_raters)
        if isinstance(density, Marginal):
            if x.size > t.n_items:
                density.believe(priors_of(x[t.n_items :]))
            s, where = density.passes.standing(x[: t.n_items]), rng.random(t.n_raters)
            kernels.draw_quality(
                0, t.n_raters, t.start, t.weight, s, density.parts, density.tops, where, out
            )
        return out


def metropolis(
    triples: Triples, priors: Priors, centre: Floats, covariance: Floats, n: int, seed: int, *,
    fixed: bool, keep_quality: bool,
) -> Draws:  # fmt: skip
    """Steps scaled by the Laplace approximation N(centre, covariance) of theta and eta.

    Eta walks at random, and theta goes with it as the approximation says; the spread of the items
    walks once more with theta stretched to it, for data too few to hold theta in place. Then theta
    alone takes a preconditioned Crank-Nicolson step: x' = m + sqrt(1 - s^2) (x - m) + s L z leaves
    the Gaussian unchanged, so only the posterior's departure from it is ever rejected. All lengths
    are set during the warm-up.
    """
    k = triples.n_items
    m = centre.size - k
    order = np.concatenate((np.arange(k, k + m), np.arange(k)))  # eta first, then theta given eta
    root = np.linalg.cholesky(1.15 * covariance[np.ix_(order, order)])
    middle = centre[order]
    per_chain = -(-n // CHAINS)
    warm_up = max(300, per_chain // 3)
    thetas = np.empty((CHAINS, per_chain, k))
    qualities = np.ones((CHAINS, per_chain, triples.n_raters if keep_quality else 0))
    accepted = np.zeros(CHAINS)

    def chain(c: int, rng: np.random.Generator) -> None:
        target = _Target(triples, priors, fixed=fixed)

        def at(u: Floats) -> Floats:
            x = middle + root @ u
            return np.concatenate((x[m:], x[:m]))

        walk, stride = _Stride(2.4 / np.sqrt(max(m, 1)), most=10.0), _Stride(1.0, most=1.0)
        stretch = _Stride(1.0, most=5.0)
        u = rng.standard_normal(centre.size)
        value = target(at(u))
        for step in range(warm_up + per_chain):
            if m:
                moved = u.copy()
                moved[:m] += walk.length * rng.standard_normal(m)
                new = target(at(moved))
                took = bool(np.log(rng.random()) < new - value)
                u, value = (moved, new) if took else (u, value)
                walk.heed(took, step, warm_up, wanted=0.3)
                x, log_volume = _stretched(at(u), k, stretch.length * rng.standard_normal())
                new = target(x)
                took = bool(np.log(rng.random()) < new - value + log_volume)
                if took:
                    u = solve_triangular(root, x[order] - middle, lower=True)
                    value = new
                stretch.heed(took, step, warm_up, wanted=0.4)
            moved = u.copy()
            fresh = rng.standard_normal(k)
            moved[m:] = np.sqrt(1.0 - stride.length**2) * u[m:] + stride.length * fresh
            new = target(at(moved))
            gain = new - value + 0.5 * float(moved[m:] @ moved[m:] - u[m:] @ u[m:])
            took = bool(np.log(rng.random()) < gain)
            u, value = (moved, new) if took else (u, value)
            stride.heed(took, step, warm_up, wanted=0.5)
            if step >= warm_up:
                accepted[c] += took
                x = at(u)
                thetas[c, step - warm_up] = x[:k]
                if keep_quality:
                    qualities[c, step - warm_up] = target.draw_quality(x, rng)

    _run(chain, seed)
    rate = float(accepted.mean() / per_chain)
    return _collect(thetas, qualities, n, "metropolis", rate)


class _Stride:
    """The length of a step, set by Robbins and Monro's rule until the warm-up is over."""

    def __init__(self, length: float, most: float) -> None:
        self.length, self.most = float(length), most

    def heed(self, took: bool, step: int, warm_up: int, *, wanted: float) -> None:  # noqa: FBT001
        """Longer after an accepted step, shorter after a refused one, in changes that die away."""
        if step < warm_up:
            change = np.exp(2.0 * (took - wanted) / np.sqrt(1 + step))
            self.length = float(np.clip(self.length * change, 0.02, self.most))


def _stretched(x: Floats, k: int, by: float) -> tuple[Floats, float]:
    """log a moved by ``by`` and theta's spread with it, as the prior has it; the log volume ratio.

    The variance of log lambda is about 1/a + 1/(2 a^2), its mean about log a.
    """
    moved = x.copy()
    moved[k] += by
    before, after = np.exp(-x[k]), np.exp(-moved[k])
    factor = float(np.sqrt((after + 0.5 * after**2) / (before + 0.5 * before**2)))
    level = x[:k].mean()
    moved[:k] = level + by + factor * (x[:k] - level)
    return moved, (k - 1) * float(np.log(factor))
