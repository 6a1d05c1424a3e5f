"""Has a sampler mixed? Split R-hat and effective sample size (BDA3, section 11.4)."""

from __future__ import annotations

import numpy as np

from bbq_plugin.model.objective import Floats

__all__ = ["effective_sample_size", "r_hat"]


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
