"""Signs in single answers: sides, times, repeats, patterns, drift and known questions."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.analysis.raters.leave_one_out import phi, triple_of_row
from bbq_plugin.data.dataset import (
    Answers,
    Comparisons,
    median_time_s,
    shown_as_pairs,
    slate_of_row,
)
from bbq_plugin.data.triples import Codes, Floats, Mask, Triples, count_by
from bbq_plugin.model.rater_population import NODE, RaterPopulation

LEAN_STEPS, LEAN_SETTLED = 30, 1e-9  # of log-odds
LEANS = np.geomspace(0.02, 4.0, 40)  # nats that raters' leans may differ by
USUAL_LEAN = 0.5  # the scale of its prior, tau exp(-tau / 0.5): never quite 0
LEAST_PAIR_TIMES = 5  # answers to a pair before its own median says what it takes
PARTS = (1 / 3, 1 / 2, 2 / 3)  # where a rater may have changed
CHANGED_SIDES = 0.01  # of the answers, up to which side and item are the same thing
LEAST_SEEN_AGAIN = 12  # sights of items that a rater saw again before their sides say so
GOLD_PRIOR = 2.0  # answers that the ranking's word on a known question is worth


@dataclass(frozen=True, slots=True, eq=False)
class Sign:
    """By rater: what was seen, what was to be expected, of how many answers, and the p-value."""

    seen: Floats
    expected: Floats
    n: Floats
    p: Floats

    def but_of(self, raters: Mask) -> Sign:
        """The same, but of these raters it says nothing."""
        return Sign(self.seen, self.expected, self.n, np.where(raters, np.nan, self.p))


@dataclass(frozen=True, slots=True, eq=False)
class SideBias:
    """By rater: how much more often than not the left one of two equal items is chosen.

    Of b_r ~ Normal(b, tau^2) on the log-odds, partially pooled: ``mean`` is sigma(b_r) - 1/2, with
    its interval, ``panel`` that of the others together, and ``wrong`` the probability that the
    rater leans no more than they do, or to the other side. NaN where it is not known.
    """

    mean: Floats
    lower: Floats
    upper: Floats
    panel: Floats
    wrong: Floats

    def but_of(self, raters: Mask) -> SideBias:
        """The same, but of these raters it says nothing."""
        columns = (self.mean, self.lower, self.upper, self.panel, self.wrong)
        return SideBias(*(np.where(raters, np.nan, one) for one in columns))


@dataclass(frozen=True, slots=True, eq=False)
class DecidedAnswers:
    """Decided answers in the order of raters and, within a rater, of time."""

    rater: Codes
    winner: Codes
    loser: Codes
    weight: Floats
    s: Floats  # y - 1/2 of the winner against the loser, by the others
    row: Codes
    n_raters: int
    slate: Codes | None = None  # -1: shown as a pair

    def where(self, mask: Mask) -> DecidedAnswers:
        """Some of them."""
        return DecidedAnswers(
            self.rater[mask], self.winner[mask], self.loser[mask], self.weight[mask], self.s[mask],
            self.row[mask], self.n_raters, None if self.slate is None else self.slate[mask],
        )  # fmt: skip

    def count(self, weights: Floats | None = None) -> Floats:
        """How many by rater, or the sum of these weights."""
        return count_by(self.rater, self.n_raters, weights)


def share(part: Floats, n: Floats) -> Floats:
    """part / n, NaN without any."""
    return np.asarray(np.divide(part, n, out=np.full(n.size, np.nan), where=n > 0))


def _beyond_chance(total: Floats, expected: Floats, variance: Floats, n: Floats) -> Sign:
    """Of a sum that is near normal, with p on both sides; NaN without any."""
    gap, sd = total - expected, np.sqrt(variance)
    z = np.divide(gap, sd, out=np.full(n.size, np.nan), where=variance > 0)
    return Sign(share(total, n), share(expected, n), n, 2.0 * phi(-np.abs(z)))


@dataclass(slots=True, eq=False)
class Signs:
    """The signs that these data can show; what they cannot is said in ``not_known``."""

    left: Sign | None = None
    side_bias: SideBias | None = None
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


def signs_of(
    data: Comparisons, t: Triples, s: Floats, quality: Floats, honest: RaterPopulation,
    least: int = 10, level: float = 0.95,
) -> Signs:  # fmt: skip
    """All signs; ``s`` by triple ``t`` without the rater, ``honest`` who the raters are."""
    signs, answers = Signs(), data.answers
    if answers is None:
        signs.not_known.append(
            "sides, times and the order of the answers are not known, nor which questions have a "
            "known answer: these data have only wins"
        )
        return signs
    signs.dated = answers.dated
    rows = _decided(data, t, answers, s)
    single = rows if rows.slate is None else rows.where(rows.slate < 0)
    own = np.clip(quality, 0.0, 1.0)
    if answers.side is None:
        signs.not_known.append("on which side an item was shown")
    else:
        signs.left, signs.side_bias, switches = sides_of(single, answers.side, own, least, level)
        fixed = sides_fixed(single, answers.side, data.n_items)
        if fixed.all():
            # A rater who prefers the item on the left prefers the left.
            signs.left = signs.side_bias = None
            signs.not_known.append(
                "whether a rater leans to one side: each item was always shown on the same side"
            )
        else:
            signs.left = signs.left.but_of(fixed)
            signs.side_bias = signs.side_bias.but_of(fixed)
            # Rows may be sorted by anything: only recorded times show a pattern.
            signs.switches = switches.but_of(fixed) if answers.dated else None
    signs.tempo = _tempo(data, answers, rows, least)
    if signs.tempo is None:
        signs.not_known.append("how long an answer took")
    signs.repeats = _repeats(single, data.n_items, honest, dated=answers.dated)
    if answers.ordered:
        signs.drift, signs.drift_from = _drift(rows, least)
    else:
        signs.not_known.append("in which order the answers were given")
    if answers.gold is None:
        signs.not_known.append("which questions have a known answer")
    else:
        signs.gold = _gold(rows, answers.gold, data.n_items, honest)
    if answers.kept is None:
        signs.not_known.append("in which order the items of a ranking were shown")
    else:
        signs.untouched = _untouched(data, answers.kept)
    return signs


def _decided(data: Comparisons, t: Triples, answers: Answers, s: Floats) -> DecidedAnswers:
    """The wins, with what the others say of each; halves of ties are none."""
    row: Codes = np.arange(data.rater.size)
    if data.repeats.n_rows:
        # An answer that was stored again is one answer.
        pair = data.winner.astype(np.int64) * data.n_items + data.loser
        row = np.unique(np.stack((data.repeats.answer, pair)), axis=1, return_index=True)[1]
    if answers.half is not None:
        row = row[answers.half[row] == 0]
    when = row if answers.order is None else answers.order[row]
    row = row[np.lexsort((when, data.rater[row]))]
    rater, winner, loser = (
        column[row].astype(np.int64) for column in (data.rater, data.winner, data.loser)
    )
    at = triple_of_row(data, t, row)
    slate = None
    if answers.slate is not None:
        by_row: Codes = np.full(data.rater.size, -1, dtype=np.int64)
        of_slate = np.flatnonzero(~shown_as_pairs(data, answers.slate))
        if of_slate.size:
            by_row[of_slate] = slate_of_row(data, answers.slate, of_slate)
        slate = by_row[row]
    weight = np.minimum(data.weight[row], 1.0)
    return DecidedAnswers(rater, winner, loser, weight, s[at], row, t.n_raters, slate)


# -- sides


def sides_of(
    rows: DecidedAnswers, side: NDArray[np.int8], own: Floats, least: int, level: float
) -> tuple[Sign, SideBias, Sign]:
    """Left answers against what the items and the lean of the others explain; changes of side."""
    place = side[rows.row]
    rows, place = rows.where(place != 0), place[place != 0]
    left = (place > 0).astype(np.float64)
    p = 0.5 + own[rows.rater] * rows.s * place
    logit = np.log(p) - np.log1p(-p)
    n, went = rows.count(), rows.count(left)
    shift = _lean_of_each(rows, logit, went)
    others, error = _lean_of_others(shift, n >= least)
    usual = _shifted(rows, logit, others)
    lean = _beyond_chance(went, rows.count(usual), rows.count(usual * (1 - usual)), n)
    bias = _pooled_leans(rows, logit, went, shift, others, error, level)
    return lean, bias, _switches(rows, left, _shifted(rows, logit, shift))


def _pooled_leans(
    rows: DecidedAnswers, logit: Floats, went: Floats, shift: Floats, others: Floats, error: float,
    level: float,
) -> SideBias:  # fmt: skip
    """The lean of each rater, drawn to that of the others by how much leans differ at all.

    tau is averaged over, by how likely the shifts are, each with the curvature of its own answers.
    """
    n, chance = rows.count(), _shifted(rows, logit, shift)
    told = rows.count(chance * (1 - chance))
    known = (n > 0) & (told > 0)
    apart, own = (shift - others)[known], np.maximum(told[known], 1e-9)
    wide = 1.0 / own + LEANS[:, None] ** 2
    height = -0.5 * np.sum(np.log(wide) + apart**2 / wide, axis=1)
    # The grid is even in log tau, the prior is one of tau.
    weight = np.exp(height - height.max() + 2.0 * np.log(LEANS) - LEANS / USUAL_LEAN)
    weight /= weight.sum()
    prior = 1.0 / (float(weight @ LEANS) ** 2 + error**2)
    # Newton's steps, for all raters at once: the posterior has one top.
    at = others.copy()
    for _ in range(LEAN_STEPS):
        chance = _shifted(rows, logit, at)
        told = rows.count(chance * (1 - chance))
        pull = went - rows.count(chance) - prior * (at - others)
        step = np.clip(pull / (told + prior), -1.0, 1.0)
        at += step
        if float(np.max(np.abs(step), initial=0.0)) < LEAN_SETTLED:
            break
    # What is not known of tau moves the leans too.
    drawn = apart * LEANS[:, None] ** 2 / wide
    moved = np.zeros(n.size)
    moved[known] = weight @ (drawn - weight @ drawn) ** 2
    sd = np.sqrt(1.0 / (told + prior) + moved)
    reach = NormalDist().inv_cdf((1 + level) / 2) * sd
    mean, low, high, panel = (
        0.5 * np.tanh(0.5 * one) for one in (at, at - reach, at + reach, others)
    )
    return SideBias(mean, low, high, panel, phi(-np.abs(at - others) / sd)).but_of(~known)


def sides_fixed(rows: DecidedAnswers, side: NDArray[np.int8], n_items: int) -> Mask:
    """For whom side and item are the same thing, as where one side always is the baseline.

    Of all raters if hardly any item changed sides at all; else of those who saw items again, and
    each of them always on its side.
    """
    place = side[rows.row]
    known = place != 0
    rater, place = rows.rater[known], place[known]
    left = np.where(place > 0, rows.winner[known], rows.loser[known])
    right = np.where(place > 0, rows.loser[known], rows.winner[known])
    on_left, on_right = (count_by(item, n_items) for item in (left, right))
    total = float((on_left + on_right).sum())
    if np.minimum(on_left, on_right).sum() <= CHANGED_SIDES * total:
        return np.ones(rows.n_raters, dtype=np.bool_)
    cell, at = np.unique(
        np.concatenate((rater * n_items + left, rater * n_items + right)), return_inverse=True
    )
    on_left, on_right = (count_by(part, cell.size) for part in np.split(at, 2))
    again = on_left + on_right > 1
    seen, changed = (
        count_by(cell[again] // n_items, rows.n_raters, x[again])
        for x in (on_left + on_right, np.minimum(on_left, on_right))
    )
    return np.asarray((seen >= LEAST_SEEN_AGAIN) & (changed == 0))


def _lean_of_each(rows: DecidedAnswers, logit: Floats, went: Floats) -> Floats:
    """The shift of the log-odds with which as many lefts are expected as there were."""
    n = rows.count()
    goal, shift = np.clip(went, 0.5, np.maximum(n - 0.5, 0.5)), np.zeros(n.size)
    for _ in range(LEAN_STEPS):
        moved = _shifted(rows, logit, shift)
        gap, slope = goal - rows.count(moved), rows.count(moved * (1 - moved))
        step = np.where(n > 0, np.clip(gap / np.maximum(slope, 1e-9), -1.0, 1.0), 0.0)
        shift += step
        if float(np.max(np.abs(step), initial=0.0)) < LEAN_SETTLED:
            break
    return shift


def _shifted(rows: DecidedAnswers, logit: Floats, shift: Floats) -> Floats:
    """The chances of these log-odds, shifted."""
    return np.asarray(1.0 / (1.0 + np.exp(-(logit + shift[rows.rater]))))


def _lean_of_others(shift: Floats, judged: Mask) -> tuple[Floats, float]:
    """The lean that the others have in common, for a layout that favours one side; its error.

    Their median, which a few who always press one button do not move, less what chance brings.
    """
    known = np.sort(shift[judged])
    n = known.size - 1  # others
    if n < 3:
        return np.zeros(shift.size), 0.0
    # Without a value at or below the middle the median is one place higher, and so on.
    place = np.searchsorted(known, shift)
    low, high = (n - 1) // 2, n // 2
    median = 0.5 * (known[low + (place <= low)] + known[high + (place <= high)])
    median = np.where(judged, median, np.median(known))
    error = 1.2533 * 1.4826 * float(np.median(np.abs(known - np.median(known)))) / np.sqrt(n)
    small = np.maximum(median**2, 1e-300)
    return np.asarray(median * np.maximum(0.0, 1.0 - error**2 / small)), error


def _switches(rows: DecidedAnswers, left: Floats, p: Floats) -> Sign:
    """How often the side changes from one answer to the next: alternation, or runs."""
    same = rows.rater[1:] == rows.rater[:-1]
    rater = rows.rater[1:][same]
    seen = (left[1:] != left[:-1])[same].astype(np.float64)
    chance = p[1:] * (1 - p[:-1]) + (1 - p[1:]) * p[:-1]
    n = count_by(rater, rows.n_raters)
    total, expected = (count_by(rater, rows.n_raters, x) for x in (seen, chance[same]))
    variance = count_by(rater, rows.n_raters, (chance * (1 - chance))[same])
    # Two changes in a row share an answer.
    both = p[2:] * (1 - p[1:-1]) * p[:-2] + (1 - p[2:]) * p[1:-1] * (1 - p[:-2])
    linked = rows.rater[2:] == rows.rater[:-2]
    shared = (both - chance[1:] * chance[:-1])[linked]
    variance = variance + 2 * count_by(rows.rater[2:][linked], rows.n_raters, shared)
    return _beyond_chance(total, expected, variance, n)


# -- times, repeats, drift, known questions, rankings


def _tempo(data: Comparisons, answers: Answers, rows: DecidedAnswers, least: int) -> Sign | None:
    """Time over the usual time of the same pair; ``p`` is how few raters are as fast as this."""
    time_s = answers.time_s
    if time_s is None:
        return None
    usable = ~np.isnan(time_s) & (time_s > 0)
    if rows.slate is not None:
        # The time of a ranking stands on all of its pairs, and counts once.
        ranked = rows.slate >= 0
        once = rows.row[ranked][np.unique(rows.slate[ranked], return_index=True)[1]]
        timed, usable[rows.row[ranked]] = usable[once], False
        usable[once] = timed
    if answers.half is not None:
        usable &= answers.half < 2
    rater = data.rater[usable]
    low, high = (f(data.winner[usable], data.loser[usable]) for f in (np.minimum, np.maximum))
    pair = np.unique(low.astype(np.int64) * data.n_items + high, return_inverse=True)[1]
    log_time = np.log(time_s[usable].astype(np.float64))
    n_pairs = int(pair.max(initial=-1)) + 1
    usual = median_time_s(pair.astype(np.int32), log_time, n_pairs)
    n = count_by(rater, data.n_raters)
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


def _repeats(
    rows: DecidedAnswers, n_items: int, honest: RaterPopulation, *, dated: bool
) -> Sign | None:
    """The same pair again: the same answer again? Expected of an honest rater."""
    low, high = np.minimum(rows.winner, rows.loser), np.maximum(rows.winner, rows.loser)
    code, first, pair, m = np.unique(
        (rows.rater * n_items + low) * n_items + high,
        return_index=True, return_inverse=True, return_counts=True,
    )  # fmt: skip
    # Answers 1 and 2 of a pair, 3 and 4, …: no answer is used twice.
    times = (m // 2).astype(np.float64)
    if not times.any():
        return None
    if dated:
        order = np.argsort(pair, kind="stable")
        place = np.arange(order.size) - np.repeat(np.cumsum(m) - m, m)
        again = np.flatnonzero(place % 2 == 1)
        same = rows.winner[order][again] == rows.winner[order][again - 1]
        alike = count_by(pair[order][again], code.size, same.astype(np.float64))
    else:
        # Which two is not known: the mean over all ways, whatever the order of the rows.
        won = count_by(pair, code.size, (rows.winner == low).astype(np.float64))
        alike = times * (won * (won - 1) + (m - won) * (m - won - 1)) / np.maximum(m * (m - 1), 1)
    rater = rows.rater[first]
    # p^2 + (1 - p)^2 = 1/2 + 2 q^2 s^2
    by_pair = times, alike, times * 2.0 * rows.s[first] ** 2
    n, total, clear = (count_by(rater, rows.n_raters, x) for x in by_pair)
    clear = np.nan_to_num(share(clear, n))
    usual = 0.5 + honest.typical_quality**2 * clear
    return Sign(
        share(total, n), np.where(n > 0, usual, np.nan), n,
        _as_low(np.ceil(total - 1e-9), n, 0.5 + NODE**2 * clear[:, None], honest),
    )  # fmt: skip


def _as_low(seen: Floats, n: Floats, chance: Floats, honest: RaterPopulation) -> Floats:
    """How often an honest rater, who may be any of them, does as badly; NaN without answers.

    ``chance`` is the mean over a rater's answers at each quality. Answers of unequal chances spread
    less than as many of the mean chance (Hoeffding 1956), so the binomial is on the safe side.
    """
    from scipy.special import bdtr  # noqa: PLC0415 (loads slowly)

    whole = np.maximum(n, 1.0).astype(np.int64)
    tail = bdtr(seen[:, None], whole[:, None], np.clip(chance, 0.0, 1.0)) @ honest.masses
    return np.asarray(np.where(n > 0, np.minimum(tail, 1.0), np.nan))


def _drift(rows: DecidedAnswers, least: int) -> tuple[Sign, Floats]:
    """Quality before and after a third, a half and two thirds of the answers: the worst change.

    With u = 2 s of the winner, E[u] = q u^2, so sum(u) / sum(u^2) estimates q, with a variance of
    at most 1 / sum(u^2). ``expected`` is the quality before, ``seen`` the one after.
    """
    rater, told, weight = _by_answer(rows)
    n = count_by(rater, rows.n_raters)
    begin = np.cumsum(n) - n
    number = np.arange(rater.size) - begin[rater]
    best_z: Floats = np.full(n.size, -np.inf)
    before: Floats = np.full(n.size, np.nan)
    after, since = before, before
    for part in PARTS:
        cut = np.floor(part * n)
        early = number < cut[rater]
        (told_1, w_1), (told_2, w_2) = (
            tuple(count_by(rater[mask], n.size, x[mask]) for x in (told, weight))
            for mask in (early, ~early)
        )
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


def _by_answer(rows: DecidedAnswers) -> tuple[Codes, Floats, Floats]:
    """Rater, sum(u) and sum(u^2) of each answer; a ranking's sum(u^2) is at most 1, as a pair's."""
    u = 2.0 * rows.s
    told, weight = rows.weight * u, rows.weight * u**2
    if rows.slate is None:
        return rows.rater, told, weight
    # The place of an answer is that of its first row.
    first, slate = np.unique(rows.slate, return_index=True, return_inverse=True)[1:]
    place = np.where(rows.slate >= 0, first[slate], np.arange(rows.rater.size))
    kept, answer = np.unique(place, return_inverse=True)
    told, weight = (count_by(answer, kept.size, x) for x in (told, weight))
    scale = np.minimum(1.0, 1.0 / np.maximum(weight, 1e-300))
    return rows.rater[kept], told * scale, weight * scale


def _gold(
    rows: DecidedAnswers, gold: NDArray[np.int8], n_items: int, honest: RaterPopulation
) -> Sign:
    """Right answers to known questions, against what an honest rater manages on the same ones.

    A question is a pair with its right answer. How clear it is, is told by the others' answers to
    it, and for want of these by the ranking: p = (right + c (1/2 + q s)) / (n + c). Ties are left
    out. A ranking is one answer, right by the share of its pairs.
    """
    said = gold[rows.row]
    rows, said = rows.where(said != 0), said[said != 0]
    right = (said > 0).astype(np.float64)
    best = np.where(said > 0, rows.winner, rows.loser)
    other = np.where(said > 0, rows.loser, rows.winner)
    question = np.unique(best * n_items + other, return_inverse=True)[1]
    mine = np.unique(question * rows.n_raters + rows.rater, return_inverse=True)[1]
    (others, others_right) = (
        np.bincount(question, x)[question] - np.bincount(mine, x)[mine]
        for x in (np.ones(right.size), right)
    )
    usual = honest.typical_quality
    by_ranking = 0.5 + usual * rows.s * said
    p = (others_right + GOLD_PRIOR * by_ranking) / (others + GOLD_PRIOR)
    part = _part_of_answer(rows)
    n, won, expected = (rows.count(part * x) for x in (np.ones(right.size), right, p))
    # Whole but for rounding.
    n = np.round(n)
    expected = share(expected, n)
    slope = np.clip((np.nan_to_num(expected, nan=0.5) - 0.5) / usual, -0.5, 0.5)
    tail = _as_low(np.ceil(won - 1e-9), n, 0.5 + NODE * slope[:, None], honest)
    return Sign(share(won, n), expected, n, tail)


def _part_of_answer(rows: DecidedAnswers) -> Floats:
    """1 of a pair; of the pairs of a ranking, one over their number."""
    part: Floats = np.ones(rows.rater.size)
    if rows.slate is not None:
        ranked = rows.slate >= 0
        part[ranked] = 1.0 / np.bincount(rows.slate[ranked])[rows.slate[ranked]]
    return part


def _untouched(data: Comparisons, kept: NDArray[np.int8]) -> Sign:
    """Rankings left as they were shown, against what the others leave."""
    from scipy.special import bdtrc  # noqa: PLC0415 (loads slowly)

    said = kept != 0
    rater = data.rater[said]
    n = count_by(rater, data.n_raters)
    same = count_by(rater, data.n_raters, (kept[said] > 0).astype(np.float64))
    # The share of all other raters, with one more of either kind, for no rater is perfect.
    usual = (same.sum() - same + 1.0) / (n.sum() - n + 2.0)
    whole = np.maximum(n, 1.0).astype(np.int64)
    p = np.where(n > 0, np.where(same > 0, bdtrc(same - 1, whole, usual), 1.0), np.nan)
    return Sign(share(same, n), usual, n, p)
