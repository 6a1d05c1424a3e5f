"""Signs in single answers: sides, times, repeats, patterns, drift and known questions.

Every sign is a number of the rater beside the number to expect, and a p-value that says how often
chance alone would bring as much. What to expect of an answer comes from the items shown, by the
consensus of the others, and from the rater's own quality.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbq_plugin._coding import median_time_s
from bbq_plugin._singles import Answers
from bbq_plugin.comparisons import Comparisons
from bbq_plugin.insight.raters.evidence import phi
from bbq_plugin.insight.uncertainty import Floats

__all__ = ["Sign", "Signs", "signs_of"]

LEAST_PAIR_TIMES = 5  # answers to a pair before its own median says what it takes
PARTS = (1 / 3, 1 / 2, 2 / 3)  # where a rater may have changed
LEAN_STEPS = 30


@dataclass(frozen=True, slots=True, eq=False)
class Sign:
    """By rater: what was seen, what was to be expected, of how many answers, and the p-value."""

    seen: Floats
    expected: Floats
    n: Floats
    p: Floats


@dataclass(slots=True, eq=False)
class Signs:
    """The signs that these data can show; what they cannot is said in ``not_known``."""

    left: Sign | None = None
    switches: Sign | None = None
    tempo: Sign | None = None
    repeats: Sign | None = None
    drift: Sign | None = None
    gold: Sign | None = None
    untouched: Sign | None = None
    #: In which of a rater's answers the second, worse part begins.
    drift_from: Floats | None = None
    dated: bool = False
    not_known: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Decided answers in the order of raters and, within a rater, of time."""

    rater: NDArray[np.int64]
    winner: NDArray[np.int64]
    loser: NDArray[np.int64]
    weight: Floats
    s: Floats  # y - 1/2 of the winner against the loser, by the others
    row: NDArray[np.int64]
    n_raters: int

    def where(self, mask: NDArray[np.bool_]) -> _Rows:
        return _Rows(
            self.rater[mask], self.winner[mask], self.loser[mask], self.weight[mask], self.s[mask],
            self.row[mask], self.n_raters,
        )  # fmt: skip

    def count(self, weights: NDArray[np.float64] | None = None) -> Floats:
        return _count(self.rater, self.n_raters, weights)


def signs_of(data: Comparisons, s: Floats, quality: Floats, usual: float, least: int = 10) -> Signs:
    """All signs; ``s`` by triple without the rater, ``usual`` the quality of an honest rater."""
    signs, answers = Signs(), data.answers
    if answers is None:
        signs.not_known.append(
            "sides, times and the order of the answers are not known, nor which questions have a "
            "known answer: these data have only wins"
        )
        return signs
    signs.dated = answers.dated
    rows = _decided(data, answers, s)
    own = np.clip(quality, 0.0, 1.0)
    if answers.side is None:
        signs.not_known.append("on which side an item was shown")
    else:
        signs.left, signs.switches = _sides(rows, answers.side, own)
    if answers.time_s is None:
        signs.not_known.append("how long an answer took")
    else:
        signs.tempo = _tempo(data, answers, answers.time_s, least)
    signs.repeats = _repeats(rows, data.n_items, usual)
    signs.drift, signs.drift_from = _drift(rows, least)
    if answers.gold is None:
        signs.not_known.append("which questions have a known answer")
    else:
        signs.gold = _gold(data, answers, answers.gold)
    if answers.kept is None:
        signs.not_known.append("in which order the items of a ranking were shown")
    else:
        signs.untouched = _untouched(data, answers.kept)
    return signs


def _decided(data: Comparisons, answers: Answers, s: Floats) -> _Rows:
    """The wins, with what the others say of each; halves of ties are none."""
    t, k = data.triples, data.n_items
    codes = (t.rater() * k + t.winner) * k + t.loser
    row = np.arange(data.rater.size)
    if answers.half is not None:
        row = row[answers.half == 0]
    when = row if answers.order is None else answers.order[row]
    row = row[np.lexsort((when, data.rater[row]))]
    rater, winner, loser = (
        column[row].astype(np.int64) for column in (data.rater, data.winner, data.loser)
    )
    at = np.searchsorted(codes, (rater * k + winner) * k + loser)
    return _Rows(rater, winner, loser, data.weight[row], s[at], row, t.n_raters)


def _count(
    rater: NDArray[Any], n_raters: int, weights: NDArray[np.float64] | None = None
) -> Floats:
    return np.asarray(np.bincount(rater, weights, n_raters), dtype=np.float64)


def _share(part: Floats, n: Floats) -> Floats:
    return np.asarray(np.divide(part, n, out=np.full(n.size, np.nan), where=n > 0))


def _p_value(total: Floats, variance: Floats, *, sides: int) -> Floats:
    """Of a sum that is near normal: two sides, or -1 for the lower tail alone; NaN without any."""
    z = np.divide(total, np.sqrt(variance), out=np.full(total.size, np.nan), where=variance > 0)
    return np.asarray(phi(z) if sides < 0 else 2.0 * phi(-np.abs(z)))


def _sides(rows: _Rows, side: NDArray[np.int8], own: Floats) -> tuple[Sign, Sign]:
    """Left answers against what the items shown explain, and changes of side against chance."""
    place = side[rows.row]
    rows, place = rows.where(place != 0), place[place != 0]
    left = (place > 0).astype(np.float64)
    p = 0.5 + own[rows.rater] * rows.s * place
    n, went = rows.count(), rows.count(left)
    expected, variance = rows.count(p), rows.count(p * (1 - p))
    lean = Sign(
        _share(went, n), _share(expected, n), n, _p_value(went - expected, variance, sides=2)
    )
    return lean, _switches(rows, left, _leaning(rows, p, went))


def _leaning(rows: _Rows, p: Floats, went: Floats) -> Floats:
    """The same chances, shifted on the log-odds so that as many lefts are expected as there were.

    So that a lean to one side is not counted again as long runs.
    """
    n = rows.count()
    goal = np.clip(went, 0.5, np.maximum(n - 0.5, 0.5))
    logit, shift = np.log(p) - np.log1p(-p), np.zeros(n.size)
    for _ in range(LEAN_STEPS):
        moved = 1.0 / (1.0 + np.exp(-(logit + shift[rows.rater])))
        gap, slope = goal - rows.count(moved), rows.count(moved * (1 - moved))
        shift += np.clip(gap / np.maximum(slope, 1e-9), -1.0, 1.0)
    return np.asarray(1.0 / (1.0 + np.exp(-(logit + shift[rows.rater]))))


def _switches(rows: _Rows, left: Floats, p: Floats) -> Sign:
    """How often the side changes from one answer to the next: alternation, or runs."""
    same = rows.rater[1:] == rows.rater[:-1]
    rater = rows.rater[1:][same]
    seen = (left[1:] != left[:-1])[same].astype(np.float64)
    chance = p[1:] * (1 - p[:-1]) + (1 - p[1:]) * p[:-1]
    n = _count(rater, rows.n_raters)
    total, expected = (_count(rater, rows.n_raters, x) for x in (seen, chance[same]))
    variance = _count(rater, rows.n_raters, (chance * (1 - chance))[same])
    # Two changes in a row share an answer.
    both = p[2:] * (1 - p[1:-1]) * p[:-2] + (1 - p[2:]) * p[1:-1] * (1 - p[:-2])
    linked = rows.rater[2:] == rows.rater[:-2]
    shared = (both - chance[1:] * chance[:-1])[linked]
    variance = variance + 2 * _count(rows.rater[2:][linked], rows.n_raters, shared)
    p_value = _p_value(total - expected, variance, sides=2)
    return Sign(_share(total, n), _share(expected, n), n, p_value)


def _tempo(data: Comparisons, answers: Answers, time_s: NDArray[np.float32], least: int) -> Sign:
    """Time over the usual time of the same pair; ``p`` is how few raters are as fast as this."""
    usable = ~np.isnan(time_s) & (time_s > 0)
    if answers.half is not None:
        usable &= answers.half < 2
    rater = data.rater[usable]
    low, high = (f(data.winner[usable], data.loser[usable]) for f in (np.minimum, np.maximum))
    pair = np.unique(low.astype(np.int64) * data.n_items + high, return_inverse=True)[1]
    log_time = np.log(time_s[usable].astype(np.float64))
    n_pairs = int(pair.max(initial=-1)) + 1
    usual = median_time_s(pair.astype(np.int32), log_time, n_pairs)
    n = _count(rater, data.n_raters)
    nothing = np.full(data.n_raters, np.nan)
    if usual is None:
        return Sign(nothing, nothing, n, nothing)
    few = np.bincount(pair, None, n_pairs) < LEAST_PAIR_TIMES
    usual = np.where(few, np.median(log_time), usual)
    found = median_time_s(rater, log_time - usual[pair], data.n_raters)
    tempo = nothing if found is None else found
    judged = n >= least
    if np.count_nonzero(judged) < 3:
        return Sign(np.exp(tempo), np.ones(n.size), n, nothing)
    middle = float(np.median(tempo[judged]))
    # A robust spread of habits, and no less than a tenth: people are not clocks.
    spread = max(1.4826 * float(np.median(np.abs(tempo[judged] - middle))), 0.1)
    p = np.where(judged, phi((tempo - middle) / spread), np.nan)
    return Sign(np.exp(tempo - middle), np.ones(n.size), n, p)


def _repeats(rows: _Rows, n_items: int, usual: float) -> Sign | None:
    """The same pair again: the same answer again? Expected of a rater of the usual quality."""
    low, high = np.minimum(rows.winner, rows.loser), np.maximum(rows.winner, rows.loser)
    pair = (rows.rater * n_items + low) * n_items + high
    order = np.argsort(pair, kind="stable")
    pair, winner, rater, s = pair[order], rows.winner[order], rows.rater[order], rows.s[order]
    # Answers 1 and 2 of a pair, 3 and 4, …: no answer is used twice.
    first = np.concatenate(([True], pair[1:] != pair[:-1]))
    begin = np.maximum.accumulate(np.where(first, np.arange(pair.size), 0))
    odd = (np.arange(pair.size) - begin) % 2 == 1
    if not odd.any():
        return None
    again = np.flatnonzero(odd)
    same = (winner[again] == winner[again - 1]).astype(np.float64)
    p = 0.5 + usual * s[again]
    chance = p**2 + (1 - p) ** 2
    rater = rater[again]
    n = _count(rater, rows.n_raters)
    total, expected, variance = (
        _count(rater, rows.n_raters, x) for x in (same, chance, chance * (1 - chance))
    )
    p_value = _p_value(total - expected, variance, sides=-1)
    return Sign(_share(total, n), _share(expected, n), n, p_value)


def _drift(rows: _Rows, least: int) -> tuple[Sign, Floats]:
    """Quality before and after a third, a half and two thirds of the answers: the worst change.

    With u = 2 s of the winner, E[u] = q u^2, so sum(u) / sum(u^2) estimates q, with a variance of
    at most 1 / sum(u^2). ``expected`` is the quality before, ``seen`` the one after.
    """
    n = rows.count()
    begin = np.cumsum(n) - n
    number = np.arange(rows.rater.size) - begin[rows.rater]
    u = 2.0 * rows.s
    best_z: Floats = np.full(n.size, -np.inf)
    before: Floats = np.full(n.size, np.nan)
    after, since = before, before
    for part in PARTS:
        cut = np.floor(part * n)
        early = number < cut[rows.rater]
        halves = []
        for mask in (early, ~early):
            who, x, w = rows.rater[mask], u[mask], rows.weight[mask]
            told = _count(who, n.size, w * x)
            weight = _count(who, n.size, w * x**2)
            halves.append((told, weight))
        (told_1, w_1), (told_2, w_2) = halves
        able = (cut >= least) & (n - cut >= least) & (w_1 > 0) & (w_2 > 0)
        w_1, w_2 = np.where(able, w_1, 1.0), np.where(able, w_2, 1.0)
        q_1, q_2 = told_1 / w_1, told_2 / w_2
        z = np.where(able, (q_1 - q_2) / np.sqrt(1 / w_1 + 1 / w_2), -np.inf)
        worse = z > best_z
        best_z = np.where(worse, z, best_z)
        before, after = np.where(worse, q_1, before), np.where(worse, q_2, after)
        since = np.where(worse, cut, since)
    p = np.where(np.isfinite(best_z), np.minimum(len(PARTS) * phi(-best_z), 1.0), np.nan)
    return Sign(np.clip(after, -1, 1), np.clip(before, -1, 1), n, p), since


def _gold(data: Comparisons, answers: Answers, gold: NDArray[np.int8]) -> Sign:
    """Right answers to known questions, against what the others manage on theirs."""
    asked = gold != 0
    if answers.half is not None:
        asked &= answers.half < 2
    rater, right = data.rater[asked], (gold[asked] > 0).astype(np.float64)
    n = _count(rater, data.n_raters)
    won = _count(rater, data.n_raters, right)
    usual = _of_others(won, n)
    from scipy.special import bdtr  # noqa: PLC0415 (loads slowly)

    p = np.where(n > 0, bdtr(won, np.maximum(n, 1.0).astype(np.int64), usual), np.nan)
    return Sign(_share(won, n), usual, n, p)


def _of_others(part: Floats, n: Floats) -> Floats:
    """The share of all other raters, with one more of either kind: nobody is without exception."""
    return np.asarray((part.sum() - part + 1.0) / (n.sum() - n + 2.0))


def _untouched(data: Comparisons, kept: NDArray[np.int8]) -> Sign:
    """Rankings left as they were shown, against what the others leave."""
    from scipy.special import bdtrc  # noqa: PLC0415 (loads slowly)

    said = kept != 0
    rater = data.rater[said]
    n = _count(rater, data.n_raters)
    same = _count(rater, data.n_raters, (kept[said] > 0).astype(np.float64))
    usual = _of_others(same, n)
    whole = np.maximum(n, 1.0).astype(np.int64)
    p = np.where(n > 0, np.where(same > 0, bdtrc(same - 1, whole, usual), 1.0), np.nan)
    return Sign(_share(same, n), usual, n, p)
