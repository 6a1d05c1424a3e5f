"""The rules: who is excluded or watched, at which rate of error, and when a rater comes back."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.analysis.raters.evidence import Evidence
from bbq_plugin.analysis.raters.signs import Sign, Signs
from bbq_plugin.analysis.uncertainty import Floats

Mask = NDArray[np.bool_]


def benjamini_hochberg(p: Floats, rate: float) -> Mask:
    """Which p-values stand out when at most ``rate`` of those named may be chance; NaN never."""
    chosen = np.zeros(p.size, dtype=np.bool_)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    under = np.flatnonzero(p[order] <= rate * np.arange(1, order.size + 1) / max(order.size, 1))
    if under.size:
        chosen[order[: under[-1] + 1]] = True
    return chosen


def most_certain(p_bad: Floats, able: Mask, rate: float) -> Mask:
    """The longest list, most certain first, of which at most ``rate`` are expected to be honest.

    The Bayesian false discovery rate: the mean of P(honest) over the list.
    """
    chosen = np.zeros(p_bad.size, dtype=np.bool_)
    some = np.flatnonzero(able)
    order = some[np.argsort(-p_bad[some], kind="stable")]
    honest = np.cumsum(1.0 - p_bad[order]) / np.arange(1, order.size + 1)
    # The mean only grows along the list, so this is its longest good beginning.
    chosen[order[honest <= rate]] = True
    return chosen


Verdict = Literal["keep", "watch", "exclude"]
FALSE_RATE = 0.05
LEAST = 10  # answers before a rater is excluded
SURE = 0.9  # P(guessing or inverted) below which the answers as a whole exclude no rater
THRESHOLD = 0.5  # of quality, for P(q below it)
SIDE_ROAD = 0.2  # of the stated rate, for each of the two lesser roads to exclusion
WATCH = 0.5  # P(guessing or inverted) above which a rater is watched
BACK = 0.2  # and below which a rater who was excluded before comes back
CLEARED = 0.05  # P(…) below which circumstantial signs are only noted
ONE_BUTTON = 0.95  # share of answers on one side that counts as "always the same"
LEAN = 0.15  # beyond what the items explain
PATTERN = 0.2  # changes of side beyond what is expected
FAST = 1 / 3  # of the usual time
INCONSISTENT = 0.15  # fewer repeated answers than expected
DROP = 0.3  # of quality, from early to late
LEAST_RANKINGS = 5
UNTOUCHED = 0.5  # of a rater's rankings left as they were shown
GOLD_COIN = 0.6  # share of known questions answered rightly, not visibly better than a coin's


@dataclass(frozen=True, slots=True)
class Rules:
    """What a report was made by."""

    false_rate: float = FALSE_RATE
    least: int = LEAST
    threshold: float = THRESHOLD


@dataclass(frozen=True, eq=False)
class Flags:
    """By rater, what holds; the first four exclude."""

    by_answers: Mask
    by_button: Mask
    by_gold: Mask
    still_out: Mask
    suspect: Mask
    inverted: Mask
    lean: Mask
    pattern: Mask
    fast: Mask
    inconsistent: Mask
    drift: Mask
    gold: Mask
    untouched: Mask
    cleared: Mask
    #: Whether the order of the answers is known, so that a change in quality over time counts.
    dated: bool = True

    @cached_property
    def excluded(self) -> Mask:
        """Who is excluded, by any road."""
        return self.by_answers | self.by_button | self.by_gold | self.still_out

    @cached_property
    def circumstantial(self) -> Mask:
        """Signs that do not count against a rater whose answers are clearly informed."""
        return self.lean | self.pattern | self.fast | self.inconsistent | self.untouched

    @cached_property
    def noted(self) -> Mask:
        """Raters with at least one reason."""
        return self.excluded | self.watched | self.circumstantial | self.drift

    @cached_property
    def watched(self) -> Mask:
        """Who is watched, if not excluded."""
        serious = self.suspect | self.inverted | self.gold
        if self.dated:
            serious = serious | self.drift
        return serious | (self.circumstantial & ~self.cleared)


def flags_of(
    evidence: Evidence,
    signs: Signs,
    rules: Rules,
    raters: tuple[str, ...],
    before: Collection[str] = (),
    *,
    turned: bool = False,
) -> Flags:
    """Apply the rules; ``turned`` says that the model uses inverted answers in reverse."""
    rate, enough = rules.false_rate, evidence.n_answers >= rules.least
    bad = evidence.kinds.p_guesser if turned else evidence.p_bad
    lesser = SIDE_ROAD * rate
    roads = (signs.left is not None) + (signs.gold is not None)
    by_answers = most_certain(bad, enough & (bad >= SURE), rate - roads * lesser)
    out = set(before)
    none: NDArray[np.bool_] = np.zeros(len(raters), dtype=np.bool_)
    lean = button = pattern = none
    if signs.left is not None:
        far, one = _far(signs.left, LEAN, rate), _one_button(signs.left, rules)
        button = enough & one & _stands_out(signs.left, lesser, one) & (bad > CLEARED)
        lean = far | (one & _stands_out(signs.left, rate, one))
        if signs.switches is not None:
            pattern = _far(signs.switches, PATTERN, rate) & ~one & (signs.switches.n >= rules.least)
    by_gold, low_gold = _gold(signs.gold, rules, lesser, none)
    return Flags(
        by_answers=by_answers,
        by_button=button,
        by_gold=by_gold & enough & (bad > WATCH),
        still_out=np.array([name in out for name in raters], dtype=np.bool_) & (bad >= BACK),
        suspect=bad > WATCH,
        inverted=benjamini_hochberg(np.where(enough, evidence.p_coin_below, np.nan), rate)
        & (evidence.kinds.p_inverted > evidence.kinds.p_guesser),
        lean=lean & enough,
        pattern=pattern,
        fast=none if signs.tempo is None else _low(signs.tempo, FAST, rate),
        inconsistent=none if signs.repeats is None else _repeats(signs.repeats, rules),
        drift=none if signs.drift is None else _drift(signs.drift, rate),
        gold=low_gold,
        untouched=none if signs.untouched is None else _untouched(signs.untouched, rules),
        cleared=(bad < CLEARED) & (evidence.kinds.p_below < CLEARED),
        dated=signs.dated,
    )


def _stands_out(sign: Sign, rate: float, among: Mask) -> Mask:
    """By Benjamini and Hochberg over all raters; ``among`` are those it is asked for."""
    return benjamini_hochberg(sign.p, rate) & among


def _far(sign: Sign, effect: float, rate: float) -> Mask:
    """Beyond chance, and by so much that it matters."""
    with np.errstate(invalid="ignore"):
        return benjamini_hochberg(sign.p, rate) & (np.abs(sign.seen - sign.expected) >= effect)


def _low(sign: Sign, below: float, rate: float) -> Mask:
    with np.errstate(invalid="ignore"):
        return benjamini_hochberg(sign.p, rate) & (sign.seen < below)


def _one_button(sign: Sign, rules: Rules) -> Mask:
    with np.errstate(invalid="ignore"):
        same = np.maximum(sign.seen, 1 - sign.seen) >= ONE_BUTTON
    return same & (sign.n >= max(rules.least, 10))


def _repeats(sign: Sign, rules: Rules) -> Mask:
    with np.errstate(invalid="ignore"):
        fewer = sign.expected - sign.seen >= INCONSISTENT
    return benjamini_hochberg(sign.p, rules.false_rate) & fewer & (sign.n >= rules.least)


def _untouched(sign: Sign, rules: Rules) -> Mask:
    with np.errstate(invalid="ignore"):
        often = (sign.seen >= UNTOUCHED) & (sign.n >= LEAST_RANKINGS)
    return benjamini_hochberg(sign.p, rules.false_rate) & often


def _drift(sign: Sign, rate: float) -> Mask:
    with np.errstate(invalid="ignore"):
        return benjamini_hochberg(sign.p, rate) & (sign.expected - sign.seen >= DROP)


def _gold(sign: Sign | None, rules: Rules, rate: float, none: Mask) -> tuple[Mask, Mask]:
    """By known questions: answered like a coin (excluded), or far below the others (watched)."""
    if sign is None:
        return none, none
    with np.errstate(invalid="ignore"):
        coin = (sign.seen <= GOLD_COIN) & (sign.n >= rules.least)
        low = (sign.n >= rules.least) & (sign.seen < sign.expected - LEAN)
    out = benjamini_hochberg(sign.p, rate) & coin
    return out, benjamini_hochberg(sign.p, rules.false_rate) & (low | coin)
