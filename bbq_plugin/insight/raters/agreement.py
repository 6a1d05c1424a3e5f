"""Whether the raters agree with each other at all, more than coins would.

If they do not, there is no consensus to hold anyone against, and a verdict of "keep" is ignorance.

With x_r the wins less the losses of each item by rater r, and D its comparisons (|x|^2 is
x' D^-1 x), the agreement is

    U = sum over two different raters of x_r' D^-1 x_s = |sum of x_r|^2 - sum of |x_r|^2

which is 0 on average for coins. Of a coin, the answers turned round are as likely as the answers;
so U is compared with what it is when raters are turned round at random. This is exact, whatever a
rater's answers have to do with each other (rankings, ties, weights). With few raters there are too
few ways to turn them round: then every answer is a coin of its own, drawn as a normal number for
each pair of items. A panel counts as agreeing when coins reach its U with a probability of at most
LEVEL: of panels of coins, so many are not warned of.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.comparisons import Comparisons
from bbq_plugin.insight.uncertainty import Floats

__all__ = ["LEVEL", "panel_p", "panel_warning"]

LEVEL = 0.05
TURNS = 399
FEW_RATERS = 10  # below, 2^(raters - 1) ways to turn them round are too few


def panel_warning(p: float) -> str:
    """What to say of a panel; nothing if it agrees."""
    if np.isnan(p):
        return (
            "no two raters answered about the same items: nothing can be said of any of them, and "
            "'keep' means only that"
        )
    if p <= LEVEL:
        return ""
    return (
        "the raters do not agree with each other more than coins would: nothing can be said of any "
        f"of them, and 'keep' means only that (coins agree as much in {p:.0%} of such studies, "
        f"where {LEVEL:.0%} or less is asked for; they guess, or the items are too close for so "
        "few answers)"
    )


def panel_p(data: Comparisons) -> float:
    """How often coins agree as much as these raters, or a bound below LEVEL; NaN: nobody meets."""
    t = data.triples
    rater, k = t.rater(), data.n_items
    d = np.bincount(t.winner, t.weight, k) + np.bincount(t.loser, t.weight, k)
    who, item, x = _scores(rater, t.winner, t.loser, t.weight, k)
    shared = np.bincount(item, minlength=k) > 1
    if not shared.any():
        return float("nan")
    by = 1.0 / np.maximum(d, 1e-300)
    own = float(np.sum(x**2 * by[item]))
    together = float(np.sum(np.bincount(item, x, k) ** 2 * by))
    rng = np.random.default_rng(0)
    if data.n_raters < FEW_RATERS:
        return _by_answers(data, by, together - own, rng)
    if own <= LEVEL * together:
        # Markov's inequality: turned at random, |sum|^2 is `own` on average.
        return own / together
    signs = rng.choice([-1.0, 1.0], (TURNS, data.n_raters))
    turned = [np.sum(np.bincount(item, x * sign[who], k) ** 2 * by) for sign in signs]
    return _share(np.array(turned), together)


def _scores(
    rater: NDArray[np.int64],
    winner: NDArray[np.int32],
    loser: NDArray[np.int32],
    margin: Floats,
    k: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Rater, item, and its wins less losses by this rater, where the two met."""
    base = rater.astype(np.int64) * k
    cell, at = np.unique(np.concatenate((base + winner, base + loser)), return_inverse=True)
    x = np.bincount(at, np.concatenate((margin, -margin)), cell.size)
    return cell // k, cell % k, np.asarray(x, np.float64)


def _by_answers(data: Comparisons, by: Floats, seen: float, rng: np.random.Generator) -> float:
    """Every answer a coin: for each rater and pair of items, N(0, sum of squared weights)."""
    k, half = data.n_items, None if data.answers is None else data.answers.half
    row = np.arange(data.weight.size) if half is None else np.flatnonzero(half == 0)
    if not row.size:
        return 1.0
    winner, loser = data.winner[row].astype(np.int64), data.loser[row].astype(np.int64)
    low, high = np.minimum(winner, loser), np.maximum(winner, loser)
    cell, at = np.unique((data.rater[row] * k + low) * k + high, return_inverse=True)
    spread = np.sqrt(np.bincount(at, data.weight[row] ** 2, cell.size))
    place, high = cell // k, cell % k
    rater, low = place // k, place % k
    drawn = []
    for z in rng.standard_normal((TURNS, cell.size)):
        _, item, x = _scores(rater, low, high, z * spread, k)
        total = np.bincount(item, x, k)
        drawn.append(np.sum(total**2 * by) - np.sum(x**2 * by[item]))
    return _share(np.array(drawn), seen)


def _share(drawn: Floats, seen: float) -> float:
    """The p-value of a Monte Carlo test; rounding must not part what is equal."""
    near = 1e-9 * max(abs(seen), 1.0)
    return float((1 + np.sum(drawn >= seen - near)) / (1 + drawn.size))
