"""Small studies with a known truth, drawn from the model itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.data.dataset import Comparisons

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Study:
    data: Comparisons
    theta: Floats
    quality: Floats


def draw_study(
    seed: int = 0,
    *,
    items: int = 8,
    raters: int = 40,
    votes: int = 38,
    guessers: float = 0.0,
    ties: float = 0.0,
    spread: float = 0.6,
) -> Study:
    """Every rater votes ``votes`` times; a share ``ties`` of the answers becomes two halves."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(0.0, spread, items)
    quality = np.where(rng.random(raters) < guessers, 0.0, rng.beta(8.0, 2.0, raters))
    rater = np.repeat(np.arange(raters), votes)
    left = rng.integers(0, items, rater.size)
    right = (left + rng.integers(1, items, rater.size)) % items
    p = 0.5 + quality[rater] * (1 / (1 + np.exp(theta[right] - theta[left])) - 0.5)
    won = rng.random(rater.size) < p
    winner, loser = np.where(won, left, right), np.where(won, right, left)
    weight = np.where(rng.random(rater.size) < ties, 0.5, 1.0)
    tied = weight < 1
    data = Comparisons.from_arrays(
        np.concatenate((rater, rater[tied])),
        np.concatenate((winner, loser[tied])),
        np.concatenate((loser, winner[tied])),
        np.concatenate((weight, weight[tied])),
        raters=[f"r{k}" for k in range(raters)],
        items=[f"i{k}" for k in range(items)],
    )
    return Study(data, theta, quality)
