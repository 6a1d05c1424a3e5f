"""When to stop: a forecast, and a test that is valid under continuous monitoring.

The test. Of two items that are equally good, each decided answer between them is a fair coin's,
given everything that came before: whatever the rater's quality, and whichever pairs were chosen
for whatever reason. (Equally good to these raters: who has a taste of their own, and answers the
same pair many times, is no fair coin, even if tastes cancel out among all who might be asked.) So
a gambler who starts with 1 and bets on the answers between i and j can only gain by luck: the
chance that the stake ever reaches 1 / alpha is at most alpha (Ville 1939). The gambler here bets
by a mixture: after w wins of i and l of j the stake is

    e(w, l) = 2^(w + l) B(w + c, l + c) / B(c, c)

which depends on the counts alone, so that it can be read off the data at any time. The two differ
significantly once e >= 1 / alpha. A tie counts as half a win for either, which can only lower e
(2 sqrt(p (1 - p)) <= 1); so do weights below 1 (Jensen's inequality). A weight above 1 counts as 1:
one answer is one coin, whatever its weight in the fit and whatever number of times it was stored.

The interval. Let p_s be the expected score of i in answer s (its chance to win, plus half that of
a tie) and p its mean over the answers so far. For any x, exp(x w - sum log(1 - p_s + p_s e^x)) is
such a stake too, and since log is concave, exp(x w - n log(1 - p + p e^x)) never exceeds it. Mixed
over x by the same weights, the values of p with a stake below 1 / alpha form an interval that holds
the true p at all times with probability 1 - alpha; p_s may differ from rater to rater. It
excludes 1/2 exactly when e >= 1 / alpha, so the direction is right with the same certainty: unless
more than half of the information comes from inverted raters.

Many pairs. With ten equal items there are 45 chances for a lucky gambler. So the pairs that are
called settled are those of the e-BH procedure (Wang and Ramdas 2022): the k largest e with
e >= m / (k alpha), m all pairs of items, for the largest such k. Of them at most a share alpha is
false on average; and if all items are equal, the chance that any pair is ever settled is at most
alpha, since k such pairs need a mean stake of 1 / alpha over all m gamblers.

What it does not use: the model, the raters' quality, and evidence by way of other items. Its
guarantee needs none of them, and it pays for that with more votes (benchmarks.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from math import lgamma

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.analysis.forecast import TOP_K, Forecast
from bbq_plugin.analysis.leaderboard import ItemRow, Leaderboard, Row
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.triples import Codes, Floats
from bbq_plugin.errors import UsageError
from bbq_plugin.model import Fit

# The mixture is Beta(c, c) on the chance to win: half of it within 0.08 of one half.
MIXTURE = 10.0
_LOG_BETA = 2 * lgamma(MIXTURE) - lgamma(2 * MIXTURE)
_NODES, _SHARES = np.polynomial.legendre.leggauss(64)
_REACH = 9.0  # standard deviations of the integrand on either side of its top
_HALVINGS, _NEWTON = 28, 40
_EDGE = 1e-12
_FEW = 2000
# Places of the leaderboard whose votes are listed head to head.
MOST_PLACES = 100
_Votes = tuple[ItemRow, ItemRow, float, float]  # two rows, the wins of the first, and its losses


@dataclass(frozen=True, slots=True)
class HeadToHead(Row):
    """The votes between two items alone, the better rated first.

    ``score`` is the first one's share, a tie counting half; its interval holds at all times. In
    ``n`` and ``score`` an answer counts at most once, whatever its weight.
    ``e_value`` is the evidence that the two differ. For one pair that was named before,
    1 / (1 - level) is enough; ``settled`` is corrected for all pairs.
    """

    rank: int
    item: str
    other_rank: int
    other: str
    n: float
    score: float
    score_lower: float
    score_upper: float
    e_value: float
    settled: bool


@dataclass(frozen=True)
class Stopping:
    """What is significant under continuous monitoring, and a forecast of what is still needed.

    ``settled`` of the ``compared`` pairs that met differ by their own votes: of these at most a
    share 1 - ``level`` is false on average, corrected for all pairs (e-BH). ``best`` is the item
    that is significantly the best, with the same error for the whole claim; None while there is
    none. ``pairs`` are the votes of the leader with each other item, and of neighbours. With a
    ``camp`` the forecast is for its ranking, by answers of its raters. The test is of the votes of
    all raters even then: who belongs to a camp is learnt from the same votes, which it does not
    allow for.
    """

    level: float
    camp: int | None
    forecast: Forecast
    compared: int
    settled: int
    best: str | None
    _votes: tuple[_Votes, ...]
    _enough: float  # log e of a pair that is settled

    @cached_property
    def pairs(self) -> tuple[HeadToHead, ...]:
        """The votes head to head; computed when first asked for."""
        return tuple(_head_to_head(self._votes, self.level, self._enough))

    def as_dict(self) -> dict[str, object]:
        """For JSON; a number that is out of reach is null."""
        return {
            "level": self.level,
            "camp": self.camp,
            "milestones": [_finite(dict(row)) for row in self.forecast.milestones],
            "no_forecast": self.forecast.no_milestones or None,
            "for_good": {
                "compared": self.compared,
                "settled": self.settled,
                "best": self.best,
                "pairs": [_finite(dict(row)) for row in self.pairs],
            },
        }


def stopping(fit: Fit, board: Leaderboard, *, top_k: int | None = TOP_K, seed: int = 0) -> Stopping:
    """When to stop collecting answers, at the level of the leaderboard."""
    met = _Met.of(fit)
    enough = met.enough(board.level)
    return Stopping(
        level=board.level,
        camp=board.camp,
        forecast=Forecast(fit, board, top_k, seed),
        compared=met.first.size,
        settled=int((met.log_e >= enough).sum()),
        best=_best(fit, met, -float(np.log(1 - board.level))),
        _votes=tuple(_votes(fit, board, met)),
        _enough=enough,
    )


def significant_pairs(fit: Fit, items: Iterable[str], level: float) -> frozenset[tuple[str, str]]:
    """The pairs of these items that differ significantly, as (a, b) and as (b, a)."""
    wanted = set(items)
    met = _Met.of(fit)
    sure = np.flatnonzero(met.log_e >= met.enough(level))
    ends = zip(met.first[sure].tolist(), met.second[sure].tolist(), strict=True)
    named = ((fit.items[i], fit.items[j]) for i, j in ends)
    found = [pair for pair in named if wanted.issuperset(pair)]
    return frozenset((*found, *((b, a) for a, b in found)))


def log_e_value(wins: Floats, losses: Floats) -> Floats:
    """log e(w, l), elementwise: the evidence against two equal items."""
    wins, losses = np.asarray(wins, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    n = wins + losses
    log_e: Floats = n * np.log(2) - _LOG_BETA
    log_e += _log_gamma(wins + MIXTURE) + _log_gamma(losses + MIXTURE)
    log_e -= _log_gamma(n + 2 * MIXTURE)
    return log_e


def _log_gamma(x: Floats) -> Floats:
    """One by one where these are few: scipy.special loads slowly."""
    if x.size > _FEW:
        found: Floats = import_module("scipy.special").gammaln(x)
        return found
    return np.array([lgamma(value) for value in x.ravel().tolist()]).reshape(x.shape)


def score_interval(wins: Floats, losses: Floats, level: float = 0.95) -> tuple[Floats, Floats]:
    """Ends of the interval of the mean expected score, valid at all times, elementwise."""
    if not 0 < level < 1:
        raise UsageError(f"level={level!r}: expected a probability such as 0.95")
    wins = np.atleast_1d(np.asarray(wins, dtype=np.float64))
    n = wins + np.atleast_1d(np.asarray(losses, dtype=np.float64))
    enough = -np.log(1 - level)
    middle = np.divide(wins, n, out=np.full(wins.shape, 0.5), where=n > 0)
    return _end(wins, n, middle, 0.0, enough), _end(wins, n, middle, 1.0, enough)


def _end(wins: Floats, n: Floats, middle: Floats, outer: float, enough: float) -> Floats:
    """The value between the observed score and an end of the scale at which e is just enough."""
    inner, out = middle.copy(), np.full(middle.shape, outer)
    for _ in range(_HALVINGS):
        guess = 0.5 * (inner + out)
        beyond = _log_mixture(wins, n, guess) >= enough
        inner, out = np.where(beyond, inner, guess), np.where(beyond, guess, out)
    return out


def _log_mixture(wins: Floats, n: Floats, p: Floats) -> Floats:
    """log of the stake at a mean score p: x mixed as the logit of Beta(c, c).

    The integrand is log-concave: Newton's method finds its top, Gauss and Legendre the rest.
    """
    expit, log_expit = (getattr(import_module("scipy.special"), f) for f in ("expit", "log_expit"))
    p = np.clip(p, _EDGE, 1 - _EDGE)
    shift = np.log(p) - np.log1p(-p)
    x = np.zeros_like(p)
    for _ in range(_NEWTON):
        tilted, fair = expit(x + shift), expit(x)
        slope = wins - n * tilted + MIXTURE * (1 - 2 * fair)
        curve = n * tilted * (1 - tilted) + 2 * MIXTURE * fair * (1 - fair)
        step = slope / curve
        x = x + np.clip(step, -1.0, 1.0)
        if np.all(np.abs(step) < 1e-6):
            break
    half = _REACH / np.sqrt(curve)
    at = x[..., None] + half[..., None] * _NODES
    # log(1 - p + p e^x) = log(1 - p) - log sigma(-(x + logit p))
    cost = np.log1p(-p)[..., None] - log_expit(-(at + shift[..., None]))
    height = at * wins[..., None] - n[..., None] * cost
    height += MIXTURE * (log_expit(at) + log_expit(-at)) - _LOG_BETA
    top = height.max(axis=-1)
    sums: Floats = top + np.log((np.exp(height - top[..., None]) @ _SHARES) * half)
    return sums


@dataclass(frozen=True, slots=True)
class _Met:
    """The votes between each two items that met; ``won`` is the first one's."""

    first: Codes
    second: Codes
    won: Floats
    lost: Floats
    log_e: Floats
    n_items: int

    def enough(self, level: float) -> float:
        """The log e from which on a pair is settled, by e-BH among all pairs of items."""
        log_e = np.sort(self.log_e)[::-1]
        most = self.n_items * (self.n_items - 1) / 2
        limits = np.log(most / np.arange(1, log_e.size + 1)) - np.log(1 - level)
        found = np.flatnonzero(log_e >= limits)
        return float(limits[found[-1]]) if found.size else float("inf")

    @classmethod
    def of(cls, fit: Fit) -> _Met:
        winner, loser, weight = _coins(fit.data)
        k = fit.data.n_items
        low, high = np.minimum(winner, loser), np.maximum(winner, loser)
        pair, at = np.unique(low.astype(np.int64) * k + high, return_inverse=True)
        won = np.bincount(at, weight * (winner < loser), pair.size)
        lost = np.bincount(at, weight * (winner > loser), pair.size)
        first, second = np.divmod(pair, k)
        votes = np.asarray(won, np.float64), np.asarray(lost, np.float64)
        return cls(first, second, *votes, log_e_value(*votes), k)


def _coins(data: Comparisons) -> tuple[NDArray[np.int32], NDArray[np.int32], Floats]:
    """Winners, losers and weights, at most 1 an answer; added up where that is the same."""
    # The two halves of a tie of weight w are two rows of w / 2.
    half = None if data.answers is None else data.answers.half
    # An answer that was stored again is one coin.
    weight = data.merged().weight
    most = np.ones(1) if half is None else np.where(half == 0, 1.0, 0.5)
    if weight is data.weight and np.all(weight <= most):
        t = data.pooled
        return t.winner, t.loser, t.weight
    return data.winner, data.loser, np.minimum(weight, most)


def _best(fit: Fit, met: _Met, enough: float) -> str | None:
    """The item that beats each other one head to head, for good.

    A wrong claim must be wrong about the pair with the true best, one of K - 1 pairs: each is
    held to alpha / (K - 1).
    """
    others = len(fit.items) - 1
    sure = met.log_e >= enough + np.log(max(1, others))
    better = np.where(met.won > met.lost, met.first, met.second)[sure]
    beaten = np.bincount(better, minlength=len(fit.items))
    found = np.flatnonzero(beaten == others)
    return fit.items[int(found[0])] if found.size else None


def _votes(fit: Fit, board: Leaderboard, met: _Met) -> Iterator[_Votes]:
    """Pairs with the leader, then neighbours, that met."""
    k = min(len(board), MOST_PLACES)
    code = {name: at for at, name in enumerate(fit.items)}
    met_by = zip(met.first.tolist(), met.second.tolist(), strict=True)
    found = {pair: at for at, pair in enumerate(met_by)}
    for i, j in [(0, j) for j in range(1, k)] + [(i, i + 1) for i in range(1, k - 1)]:
        a, b = code[board[i].item], code[board[j].item]
        at = found.get((min(a, b), max(a, b)))
        if at is not None:
            won, lost = float(met.won[at]), float(met.lost[at])
            yield (board[i], board[j], won, lost) if a < b else (board[i], board[j], lost, won)


def _head_to_head(votes: tuple[_Votes, ...], level: float, enough: float) -> Iterator[HeadToHead]:
    won, lost = np.array([v[2] for v in votes]), np.array([v[3] for v in votes])
    lower, upper = score_interval(won, lost, level)
    log_e = log_e_value(won, lost)
    for at, (first, second, wins, losses) in enumerate(votes):
        yield HeadToHead(
            rank=first.rank,
            item=first.item,
            other_rank=second.rank,
            other=second.item,
            n=wins + losses,
            score=wins / (wins + losses),
            score_lower=float(lower[at]),
            score_upper=float(upper[at]),
            e_value=float(np.exp(min(log_e[at], 700.0))),
            settled=bool(log_e[at] >= enough),
        )


def _finite(fields: dict[str, object]) -> dict[str, object]:
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in fields.items()
    }
