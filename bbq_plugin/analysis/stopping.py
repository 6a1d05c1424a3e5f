"""When to stop, and how many more comparisons are needed.

How many more comparisons are needed: for each question on the ranking, and for each open pair.

A question (the best item, the best k, the order of all neighbours) is answered along simulated
paths of the posterior, at the current mix of pairs and with pairs chosen by bbq. An open pair is
two items whose order is not decided at the leaderboard's level; its direct comparisons needed
follow from the gap and its variance alone.

When to stop: a forecast, and a test that is valid under continuous monitoring.

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
from math import ceil, inf, lgamma
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.analysis.leaderboard import ItemRow, Leaderboard, Row, Rows
from bbq_plugin.analysis.next_pairs import (
    LEAST_QUALITY,
    LEAST_VARIANCE,
    PanelRanking,
    fisher,
    gap_variance,
    panel_ranking,
)
from bbq_plugin.analysis.uncertainty import Uncertainty, eigen, gaussian
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.triples import Codes, Floats, Mask
from bbq_plugin.errors import UsageError
from bbq_plugin.model import Fit
from bbq_plugin.model.objectives import LARGEST_COVARIANCE

Question = Literal["best", "top-k", "neighbours"]
Stake = Literal["best", "neighbours", "other"]
TOP_K = 3
# No study has more: beyond, items are as good as equal.
OUT_OF_REACH = 1_000_000
# A number of comparisons is given for an even chance, and for this one.
PATIENT = 0.8
# Each path has a covariance of its own where pairs are chosen.
MOST_ITEMS = 60
DRAWS = 2000
# As many paths as take little time: of few items many, since quantiles of so wide distributions
# are coarse.
PATHS, CELLS = (150, 800), 4_000
CHOSEN_PATHS, CHOSEN_CELLS = (16, 150), 20_000
# How much is spent from one look at the paths to the next, as a share of what was spent before.
STRIDE, CHOSEN_STRIDE = 0.2, 0.12
# Phi(-z) at points 1/200 apart, good to 1e-3: scipy.special loads slowly.
_FINE, _FAR = 200.0, 8.0
_TAIL = np.array([NormalDist().cdf(-at / _FINE) for at in range(int(_FINE * _FAR) + 1)])


@dataclass(frozen=True, slots=True)
class Milestone(Row):
    """One question, how certain its answer is now, and the comparisons needed to answer it.

    ``more`` at the current mix of pairs answer it with an even chance, ``more_80`` with a chance of
    80%; ``chosen`` and ``chosen_80`` with pairs chosen by bbq. Infinite: out of reach.
    """

    question: Question
    top_k: int | None
    probability: float
    known: bool
    more: float
    more_80: float
    chosen: float
    chosen_80: float


@dataclass(frozen=True, slots=True)
class OpenPair(Row):
    """Two items whose order is not decided, the better rated first.

    ``more`` direct comparisons decide the pair with an even chance, ``more_80`` with a chance of
    80%; infinite when out of reach. ``kind`` says what depends on it: which item is best, the order
    of two neighbours, or neither.
    """

    rank: int
    item: str
    other_rank: int
    other: str
    p_better: float
    more: float
    more_80: float
    kind: Stake


class OpenPairs(Rows[OpenPair]):
    """Open pairs, up to a limit: those with the leader first, then neighbours, then the rest."""

    def __init__(self, rows: list[OpenPair], n_open: int, n_pairs: int, quality: float) -> None:
        super().__init__(rows)
        self.n_open, self.n_pairs, self.quality = n_open, n_pairs, quality

    @property
    def n_settled(self) -> int:
        """How many pairs are decided already."""
        return self.n_pairs - self.n_open


@dataclass(frozen=True, eq=False)
class Forecast:
    """The comparisons needed after a fit; each part is computed when it is first asked for."""

    fit: Fit
    board: Leaderboard
    top_k: int | None = TOP_K
    seed: int = 0

    @cached_property
    def milestones(self) -> tuple[Milestone, ...]:
        """The questions; none for too many items, of which ``no_milestones`` tells."""
        if self.no_milestones:
            return ()
        target = panel_ranking(self.fit, self.board.camp)
        known = gaussian("robust", target.mean, target.covariance, (), DRAWS, self.seed)
        level = self.board.level
        return tuple(milestones(self.fit, known, level, self.top_k, self.seed, self.board.camp))

    @property
    def no_milestones(self) -> str:
        """Why there are no milestones; empty if there are."""
        n = len(self.board)
        if n <= MOST_ITEMS:
            return ""
        return f"no forecast is made for more than {MOST_ITEMS} items, and these are {n:,}"

    @cached_property
    def open_pairs(self) -> OpenPairs | None:
        """The pairs that are not decided; None of too many items."""
        if len(self.board) > LARGEST_COVARIANCE:
            return None
        return open_pairs(self.fit, self.board)


def open_pairs(fit: Fit, board: Leaderboard, most: int = 1000) -> OpenPairs:
    """The open pairs of a leaderboard, at most ``most`` of them listed."""
    k, better = len(board), board.better
    sure = (1 + board.level) / 2
    first, second = np.nonzero(np.triu((better < sure) & (better > 1 - sure), 1))
    kinds = np.where(first == 0, 0, np.where(second == first + 1, 1, 2))
    listed = np.lexsort((second, first, kinds))[:most]
    n_open, first, second, kinds = first.size, first[listed], second[listed], kinds[listed]
    target = panel_ranking(fit, board.camp)
    quality = max(target.quality, LEAST_QUALITY)
    code = {name: at for at, name in enumerate(fit.items)}
    order = np.array([code[row.item] for row in board])
    z = NormalDist().inv_cdf(sure)
    targets = (z, z + NormalDist().inv_cdf(PATIENT))
    more, more_80 = _direct(target, order[first], order[second], quality, targets)
    stakes: tuple[Stake, ...] = ("best", "neighbours", "other")
    rows = [
        OpenPair(
            rank=board[i].rank,
            item=board[i].item,
            other_rank=board[j].rank,
            other=board[j].item,
            p_better=float(better[i, j]),
            more=_whole(n),
            more_80=_whole(n_80),
            kind=stakes[kind],
        )
        for i, j, kind, n, n_80 in zip(
            first.tolist(), second.tolist(), kinds.tolist(), more, more_80, strict=True
        )
    ]
    return OpenPairs(rows, n_open, k * (k - 1) // 2, quality)


def _direct(
    known: PanelRanking, i: Codes, j: Codes, quality: float, targets: tuple[float, ...]
) -> list[Floats]:
    """Direct comparisons until each gap is so many (``targets``) of its standard deviations."""
    gap, covariance = known.mean[i] - known.mean[j], known.covariance
    spread = np.diag(covariance)
    variance = np.maximum(spread[i] + spread[j] - 2 * covariance[i, j], 1e-300)
    y = 1 / (1 + np.exp(-gap))
    p = 0.5 + quality * (y - 0.5)
    information = (quality * y * (1 - y)) ** 2 / (p * (1 - p))
    # A gap of exactly nothing is never decided.
    squared = np.maximum(gap**2, 1e-300)
    return [np.maximum(target**2 / squared - 1 / variance, 0.0) / information for target in targets]


def _whole(n: float) -> float:
    return inf if n > OUT_OF_REACH else float(max(1, ceil(n)))


def milestones(
    fit: Fit, known: Uncertainty, level: float, top_k: int | None, seed: int = 0,
    camp: int | None = None,
) -> list[Milestone]:  # fmt: skip
    """The three questions of a fit; the one on the best ``top_k`` only where it is another.

    Of a divided panel they are on its preference, or on that of one ``camp`` (from 1), of whose
    raters the comparisons then are.
    """
    target = panel_ranking(fit, camp)
    n_items = len(fit.items)
    questions: list[tuple[Question, int | None]] = [("best", None)]
    if top_k is not None and 1 < top_k < n_items:
        questions.append(("top-k", top_k))
    if n_items > 2:
        questions.append(("neighbours", None))
    return [_milestone(fit, target, known, level, name, k, seed) for name, k in questions]


def _milestone(
    fit: Fit, target: PanelRanking, known: Uncertainty, level: float, question: Question,
    top_k: int | None, seed: int,
) -> Milestone:  # fmt: skip
    mean, covariance = target.mean, target.covariance
    probability = _probability(known, mean, covariance, question, top_k)
    sure = probability >= ((1 + level) / 2 if question == "neighbours" else level)
    needed = [0.0] * 4
    if not sure:
        ask, rng = _Asked(question, top_k, level), np.random.default_rng(seed)
        more = _current_mix(fit, target, ask, rng)
        chosen = _chosen(mean, covariance, ask, target.informative, rng)
        needed = [_quantile(n, chance) for n in (more, chosen) for chance in (0.5, PATIENT)]
    return Milestone(question, top_k, probability, sure, *needed)


def _probability(
    known: Uncertainty, mean: Floats, covariance: Floats, question: Question, top_k: int | None
) -> float:
    """How certain the likeliest answer is now; of neighbours, the least certain pair."""
    if question == "best":
        return float(known.p_best().max())
    if top_k is not None:
        n = known.n_items
        best = np.sort(np.argpartition(known.draws, n - top_k, axis=1)[:, n - top_k :], axis=1)
        return float(np.unique(best, axis=0, return_counts=True)[1].max() / len(best))
    order = np.argsort(-mean)
    first, second = order[:-1], order[1:]
    z = (mean[first] - mean[second]) / np.sqrt(gap_variance(covariance)[first, second])
    return NormalDist().cdf(float(z.min()))


class _Asked:
    """A question put to many paths at once."""

    def __init__(self, question: Question, top_k: int | None, level: float) -> None:
        self.question, self.inside = question, top_k or 1
        self.doubt = 1 - level
        self.z = NormalDist().inv_cdf((1 + level) / 2)

    def pairs(self, mean: Floats) -> tuple[Codes, Codes]:
        """The pairs that the question depends on, better one first: paths x pairs."""
        order = np.argsort(-mean, axis=1)
        if self.question == "neighbours":
            return order[:, :-1], order[:, 1:]
        k, n = self.inside, mean.shape[1]
        return np.repeat(order[:, :k], n - k, axis=1), np.tile(order[:, k:], (1, k))

    def answered(self, z: Floats) -> Mask:
        """Whether each path knows, from the standardised gaps of those pairs."""
        if self.question == "neighbours":
            return np.asarray(z.min(axis=1) >= self.z)
        place = (np.minimum(z, _FAR) * _FINE + 0.5).astype(np.intp)
        return np.asarray(_TAIL[place].sum(axis=1) <= self.doubt)


def _current_mix(fit: Fit, target: PanelRanking, ask: _Asked, rng: np.random.Generator) -> Floats:
    """When each path knows, at the current mix of pairs."""
    mean = target.mean
    roots, axes = eigen(target.covariance)
    half = axes * np.sqrt(roots)
    told, turn = eigen(half.T @ _information(fit, target) @ half)
    basis = half @ turn
    n_paths = min(max(CELLS // mean.size, PATHS[0]), PATHS[1])
    at: Floats = np.zeros((n_paths, mean.size))
    open_paths: Codes = np.arange(n_paths)
    passed: Floats = np.zeros(mean.size)
    done, n = np.full(n_paths, inf), 1.0
    while n <= OUT_OF_REACH and len(at) > (1 - PATIENT) * n_paths:
        share = n * told / (1 + n * told)
        at = at + rng.standard_normal(at.shape) * np.sqrt(np.maximum(share - passed, 0.0))
        passed = share
        path = mean + at @ basis.T
        variance = gap_variance((basis * (1 - share)) @ basis.T)
        first, second = ask.pairs(path)
        each = np.arange(len(path))[:, None]
        gap = path[each, first] - path[each, second]
        known = ask.answered(gap / np.sqrt(variance[first, second]))
        done[open_paths[known]] = n
        at, open_paths = at[~known], open_paths[~known]
        n *= 1 + STRIDE
    return done


def _information(fit: Fit, target: PanelRanking) -> Floats:
    """What one more comparison of weight 1, drawn from those so far, adds to the precision."""
    everyone, mean, n = target.counted is None, target.mean, target.mean.size
    t = fit.data.pooled if everyone else fit.data.triples
    weight = t.weight if target.counted is None else t.weight * target.counted[t.rater()]
    met = np.bincount(t.winner.astype(np.int64) * n + t.loser, weight, n * n).reshape(n, n)
    gaps, variance = mean[:, None] - mean[None, :], gap_variance(target.covariance)
    told = fisher(gaps, variance, target.informative)
    mix = (met + met.T) * told / met.sum()
    np.fill_diagonal(mix, 0.0)
    laplacian: Floats = np.diag(mix.sum(axis=1)) - mix
    return laplacian


def _chosen(
    mean: Floats, covariance: Floats, ask: _Asked, quality: float, rng: np.random.Generator
) -> Floats:
    """When each path knows, every comparison being on the pair most in doubt."""
    n_paths = min(max(CHOSEN_CELLS // mean.size**2, CHOSEN_PATHS[0]), CHOSEN_PATHS[1])
    path, s = np.tile(mean, (n_paths, 1)), np.tile(covariance, (n_paths, 1, 1))
    done, spent, step = np.full(n_paths, inf), 0.0, 1.0
    open_paths: Codes = np.arange(n_paths)
    # Neighbours take turns, so that a step must be small beside what each of them got.
    stride = min(CHOSEN_STRIDE, 2 / mean.size if ask.question == "neighbours" else 1.0)
    while spent <= OUT_OF_REACH:
        first, second = ask.pairs(path)
        each = np.arange(len(path))[:, None]
        variance = s[each, first, first] + s[each, second, second] - 2 * s[each, first, second]
        gap = path[each, first] - path[each, second]
        z = gap / np.sqrt(np.maximum(variance, LEAST_VARIANCE))
        known = ask.answered(z)
        done[open_paths[known]] = spent
        left = ~known
        if left.sum() <= (1 - PATIENT) * n_paths:
            break
        path, s, open_paths = path[left], s[left], open_paths[left]
        row, worst = np.arange(len(path)), z[left].argmin(axis=1)
        i, j = first[left][row, worst], second[left][row, worst]
        v = np.maximum(variance[left][row, worst], LEAST_VARIANCE)
        told = step * fisher(gap[left][row, worst], v, quality)
        share = told / (1 + told * v)
        column = s[row, :, i] - s[row, :, j]
        path = path + column * (np.sqrt(share) * rng.standard_normal(len(path)))[:, None]
        s = s - share[:, None, None] * column[:, :, None] * column[:, None, :]
        spent += step
        step = max(1.0, stride * spent)
    return done


def _quantile(done: Floats, chance: float) -> float:
    """Comparisons after which so many of the paths know, to two digits."""
    found = float(np.quantile(done, chance, method="higher"))
    if not np.isfinite(found) or found > OUT_OF_REACH:
        return inf
    return float(f"{max(1, ceil(found)):.2g}")


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
