"""What the others say about each rater's answers, and whether the raters agree at all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.rankings import information_weight
from bbq_plugin.data.triples import Codes, Floats, Mask, Triples
from bbq_plugin.model import Fit, Priors, SignedPriors
from bbq_plugin.model.leave_out import Consensus, LeftOut
from bbq_plugin.model.rater_types import Kinds, Slates, kinds_of

EQUAL = 1e-3  # nats: a gap this small is none, and an answer across it agrees half
NEVER = 1e-9  # an answer against a certain consensus is this likely at least
# Of a panel that does not agree: the level of the test, and how many random signs are drawn.
LEVEL = 0.05
TURNS = 399
FEW_RATERS = 10  # below, 2^(raters - 1) ways to reverse them are too few


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """By rater: how many comparisons, agreement, quality's interval, kinds, and p against a coin.

    ``n`` is the weight of the comparisons, ``given`` counts the answers they came from.
    ``p_coin_below`` is the chance that a coin agrees with the others as little as this rater does:
    exact whatever the others think, because a coin does not care and they have not seen it.
    """

    n: Floats
    agreement: Floats
    lower: Floats
    upper: Floats
    p_coin_below: Floats
    kinds: Kinds
    left_out: LeftOut
    given: Given

    @property
    def n_answers(self) -> Floats:
        """How many answers there are: a ranking is one, and so is a row of any weight."""
        return self.given.n_answers

    @property
    def p_bad(self) -> Floats:
        """P(guessing or inverted)."""
        return np.asarray(np.minimum(self.kinds.p_guesser + self.kinds.p_inverted, 1.0))


def evidence_of(fit: Fit, level: float, threshold: float) -> Evidence:
    """Leave each rater out, then judge them by what remains."""
    t, given = fit.data.triples, given_by(fit.data)
    left_out = consensus_of(fit).leave_each_out()
    slates = given.slates(left_out.s)
    kinds = kinds_of(given.pairs, left_out.s, slates, threshold=threshold, level=level)
    rater, weight = t.rater(), given.weight
    n = np.bincount(rater, weight, t.n_raters).astype(np.float64)
    ahead = np.where(np.abs(left_out.gap) < EQUAL, 0.0, np.sign(left_out.gap))
    agreed = np.bincount(rater, weight * 0.5 * (1.0 + ahead), t.n_raters)
    along = 2.0 * left_out.s
    total = np.bincount(rater, weight * along, t.n_raters)
    spread = np.sqrt(np.bincount(rater, weight * along**2, t.n_raters))
    lower, upper = kinds.lower, kinds.upper
    if isinstance(fit.priors, Priors):
        known = fit.rater_posterior(level)
        lower, upper = known.lower, known.upper
    # The mode, which is what a fit reports, may lie beyond an interval's end: both count.
    return Evidence(
        n=n,
        agreement=np.divide(agreed, n, out=np.full(n.size, np.nan), where=n > 0),
        lower=np.minimum(lower, fit.quality),
        upper=np.maximum(upper, fit.quality),
        p_coin_below=phi(np.divide(total, spread, out=np.zeros(n.size), where=spread > 0)),
        kinds=kinds,
        left_out=left_out,
        given=given,
    )


def consensus_of(fit: Fit) -> Consensus:
    """The consensus that raters are judged by."""
    if isinstance(fit.priors, SignedPriors):
        priors = fit.priors
    else:
        a, b = getattr(fit.priors, "a", 0.0), getattr(fit.priors, "b", 0.0)
        priors = SignedPriors(a=a, b=b) if a > 1 and b > 0 else SignedPriors()
    return Consensus(fit.data.triples, priors, fit.theta, np.clip(fit.quality, -0.95, 0.95))


def phi(z: Floats) -> Floats:
    """The normal distribution function."""
    from scipy.special import ndtr  # noqa: PLC0415 (loads slowly)

    return np.asarray(ndtr(z))


# -- what each rater gave


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """What each rater gave. ``pairs`` are the data's triples, weighted by answers shown as pairs.

    ``weight`` is that of all answers by triple, ``n_answers`` counts by rater what was asked: a
    ranking once, a row of whatever weight once, and ``n_slates`` how many of these are rankings
    or choices. ``tied`` are raters who never decided. ``ranked`` are the pairs of rankings and
    choices: slate, place among the triples, and weight of each.
    """

    pairs: Triples
    weight: Floats
    n_answers: Floats
    n_slates: Floats
    tied: Mask
    ranked: tuple[Codes, Codes, Floats] | None = None

    def slates(self, s: Floats) -> Slates | None:
        """The likelihood of each slate, ``s`` being y - 1/2 of each triple by the others."""
        told = self.slate_sums(*(np.log(np.maximum(1.0 + x, NEVER)) for x in (2.0 * s, -2.0 * s)))
        if told is None:
            return None
        rater, upright, turned = told
        order = np.argsort(rater, kind="stable")
        ends = np.cumsum(np.bincount(rater, None, self.pairs.n_raters))
        start = np.concatenate(([0], ends)).astype(np.int64)
        return Slates(start, upright[order], turned[order])

    def slate_sums(self, first: Floats, second: Floats) -> tuple[Codes, Floats, Floats] | None:
        """By slate: its rater, and two quantities of the triples summed with its pairs' weights."""
        if self.ranked is None:
            return None
        slate, at, weight = self.ranked
        n = int(slate.max()) + 1
        rater = np.zeros(n, dtype=np.int64)
        rater[slate] = np.searchsorted(self.pairs.start, at, side="right") - 1
        one, two = (count_by(slate, n, weight * x[at]) for x in (first, second))
        return rater, one, two


def given_by(data: Comparisons) -> Given:
    """Count the answers; data without single answers are taken by their weights."""
    t, answers = data.triples, data.answers
    rater = t.rater()
    tied = np.zeros(t.n_raters, dtype=np.bool_)
    most: Floats = np.ones(data.weight.size)
    if answers is not None and answers.half is not None:
        tied = np.bincount(data.rater[answers.half == 0], None, t.n_raters) == 0
        most[answers.half > 0] = 0.5
    if answers is None or (answers.slate is None and not (data.weight > most).any()):
        n = count_by(rater, t.n_raters, t.weight)
        return Given(t, t.weight, n, np.zeros(t.n_raters), tied)
    weight = np.minimum(data.weight, most)
    at = triple_of_row(data)
    single = np.ones(weight.size, dtype=np.bool_) if answers.slate is None else answers.slate == 0
    by_pair = count_by(at[single], t.size, weight[single])
    pairs = replace(t, weight=by_pair)
    n = count_by(rater, t.n_raters, by_pair)
    if answers.slate is None or single.all():
        return Given(pairs, by_pair, n, np.zeros(t.n_raters), tied)
    rows = np.flatnonzero(~single)
    slate = slate_of_row(data, answers.slate, rows)
    row_weight = np.minimum(weight[rows], _most_informative(data, rows, slate))
    first = np.unique(slate, return_index=True)[1]
    n_slates = count_by(data.rater[rows[first]], t.n_raters)
    by_slate = count_by(at[rows], t.size, row_weight)
    ranked = slate, at[rows], row_weight
    return Given(pairs, by_pair + by_slate, n + n_slates, n_slates, tied, ranked)


def triple_of_row(data: Comparisons, rows: Codes | None = None) -> Codes:
    """The place of each win among the triples of the data."""
    t, k = data.triples, data.n_items
    codes = (t.rater() * k + t.winner) * k + t.loser
    rater, winner, loser = (
        (column if rows is None else column[rows]).astype(np.int64)
        for column in (data.rater, data.winner, data.loser)
    )
    return np.searchsorted(codes, (rater * k + winner) * k + loser)


def slate_of_row(data: Comparisons, named: Codes, rows: Codes) -> Codes:
    """The slates of these rows, numbered as they come; ``named`` is the column of `Answers`."""
    number, rater = named[rows], data.rater[rows].astype(np.int64)
    order = np.lexsort((rater, number))
    differs = (np.diff(number[order]) != 0) | (np.diff(rater[order]) != 0)
    new = np.concatenate(([True], differs))
    group = np.empty(rows.size, dtype=np.int64)
    group[order] = np.cumsum(new) - 1
    # Names are hashed; what is summed later must not depend on their order.
    first = np.unique(group, return_index=True)[1]
    place = np.empty(first.size, dtype=np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(first.size)
    return place[group]


def _most_informative(data: Comparisons, rows: Codes, slate: Codes) -> Floats:
    """The weight of a pair in a full ranking of as many items: none can tell more."""
    n, k = int(slate.max()) + 1, data.n_items
    seen = np.unique(
        np.concatenate([slate * k + column[rows] for column in (data.winner, data.loser)])
    )
    items = np.bincount(seen // k, None, n)
    by_size = {m: information_weight([1] * m) for m in np.unique(items).tolist()}
    most = np.array([by_size.get(m, 1.0) for m in range(int(items.max()) + 1)])
    return np.asarray(most[items][slate])


def count_by(group: NDArray[Any], n: int, weights: Floats | None = None) -> Floats:
    """How many of each of ``n`` groups, such as raters, or the sum of these weights."""
    return np.asarray(np.bincount(group, weights, n), dtype=np.float64)


# -- the panel as a whole


def panel_warning(p: float) -> str:
    """What to say of a panel; nothing if it agrees."""
    if np.isnan(p):
        return "no two raters answered about the same items. No rater can be judged: all are kept"
    if p <= LEVEL:
        return ""
    return (
        f"the raters do not agree with each other more than coins would (p = {p:.2g}). "
        "No rater can be judged: they guess, or there are too few answers for items so close"
    )


def panel_p(data: Comparisons) -> float:
    """How often coins agree as much as these raters, or a bound below LEVEL; NaN: no two met."""
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
    rater: Codes, winner: NDArray[Any], loser: NDArray[Any], margin: Floats, k: int
) -> tuple[Codes, Codes, Floats]:
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
