"""The verdicts: by which rules a rater is excluded or watched, and the reasons in words.

The rules name the rate of error, and when a rater comes back. A reason is at most two short
sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from bbq_plugin.analysis.raters.behaviour import SideBias, Sign, Signs
from bbq_plugin.analysis.raters.leave_one_out import Evidence
from bbq_plugin.data.triples import Floats, Mask
from bbq_plugin.model import Fit
from bbq_plugin.text import p_equals

Verdict = Literal["keep", "watch", "exclude"]
FALSE_RATE = 0.05
LEAST = 10  # answers before a rater is excluded
SURE = 0.9  # P(guessing or inverted) below which the answers as a whole exclude no rater
THRESHOLD = 0.5  # of quality, for P(q below it)
SIDE_ROAD = 0.2  # of the stated rate, for each of the two lesser roads to exclusion
MARGIN = 0.9  # of that rate that is used: P(bad) is known no better than that
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
MANY = 100  # answers from which a low quality is certain enough for a remark
POOR = 0.7  # of a typical rater's quality
FAR = 10_000  # answers beyond which no rater comes back
CHECK_KEYS = "Check the task's wording and the key mapping first"


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
    tied: Mask
    inverted: Mask
    lean: Mask
    pattern: Mask
    fast: Mask
    inconsistent: Mask
    drift: Mask
    gold: Mask
    untouched: Mask
    cleared: Mask
    #: Certainly of low quality, from many answers; a remark, no verdict.
    poor: Mask
    #: A small group that follows the reverse of a camp's ranking.
    group: Mask
    #: Would be excluded, but follow a ranking of their own.
    own: Mask
    #: Would be excluded, but the panel is divided, and a coin explains the answers no better.
    indifferent: Mask
    #: Would be excluded, but agree with each other beyond what the rankings explain.
    alike: Mask
    #: Whether the order of the answers is known, so that a change in quality over time counts.
    dated: bool = True

    @cached_property
    def excluded(self) -> Mask:
        """Who is excluded, by any road."""
        return self.by_answers | self.by_button | self.by_gold | self.still_out

    @cached_property
    def spared(self) -> Mask:
        """Who would be excluded by the answers, but may have a taste of their own, or none."""
        return self.own | self.indifferent | self.alike

    @cached_property
    def circumstantial(self) -> Mask:
        """Signs that do not count against a rater whose answers are clearly informed."""
        return self.lean | self.pattern | self.fast | self.inconsistent | self.untouched

    @cached_property
    def noted(self) -> Mask:
        """Raters with at least one reason."""
        return self.excluded | self.watched | self.circumstantial | self.drift | self.poor

    @cached_property
    def watched(self) -> Mask:
        """Who is watched, if not excluded."""
        serious = self.suspect | self.tied | self.inverted | self.gold | self.group | self.spared
        if self.dated:
            serious = serious | self.drift
        return serious | (self.circumstantial & ~self.cleared)


@np.errstate(invalid="ignore")  # NaN where a sign is not known
def flags_of(
    evidence: Evidence, signs: Signs, rules: Rules, raters: tuple[str, ...],
    before: Collection[str], *, turned: bool, group: Mask, alike: Callable[[Mask], bool],
    own: Callable[[Mask], Mask], camp_more: Callable[[Mask], tuple[Mask, Mask]],
    coins: Callable[[Mask], Mask],
) -> Flags:  # fmt: skip
    """Apply the rules; ``turned`` says that the model uses inverted answers in reverse.

    ``group`` are raters who reverse a camp's ranking together. ``alike`` says whether raters agree
    with each other beyond what the camps' rankings explain, ``own`` which of them follow a ranking
    of their own, ``camp_more`` whom one camp more would explain, and who of these reverse the
    ranking, ``coins`` whom in a divided panel a coin explains better than a camp.
    """
    rate, enough = rules.false_rate, evidence.n_answers >= rules.least
    bad = evidence.kinds.p_guesser if turned else evidence.p_bad
    lesser = SIDE_ROAD * rate
    roads = (signs.left is not None) + (signs.gold is not None)
    none: Mask = np.zeros(len(raters), dtype=np.bool_)
    out = frozenset(before)

    def beyond(sign: Sign | None, holds: Callable[[Sign], Mask], rate: float = rate) -> Mask:
        """Of whom this holds, and by more than chance; of no rater where the data do not tell."""
        return none if sign is None else benjamini_hochberg(sign.p, rate) & holds(sign)

    one: Mask = none
    if signs.left is not None:
        same = np.maximum(signs.left.seen, 1 - signs.left.seen) >= ONE_BUTTON
        one = same & (signs.left.n >= max(rules.least, 10))
    coin = beyond(signs.gold, lambda x: _gold_coin(x, rules), lesser)
    by_answers = (
        most_certain(bad, enough & (bad >= SURE), MARGIN * (rate - roads * lesser)) & ~group
    )
    still_out = np.array([name in out for name in raters], np.bool_) & (bad >= BACK) & ~group
    explained, reverse = camp_more(by_answers | still_out)
    group = group | reverse
    by_answers, still_out = by_answers & ~group, still_out & ~group
    own_mind = own(by_answers | still_out)
    # With those who are suspect, and those with a ranking of their own: it may be one they share.
    doubtful = by_answers | still_out | (enough & (bad > WATCH) & ~group)
    same_mind = by_answers | still_out
    if not (same_mind.any() and alike(doubtful)):
        same_mind = same_mind & explained
    by_answers, still_out = by_answers & ~own_mind, still_out & ~own_mind
    same_mind = same_mind & ~own_mind
    indifferent = (by_answers | still_out) & ~same_mind
    indifferent = indifferent & ~coins(indifferent)
    by_answers, still_out = by_answers & ~indifferent, still_out & ~indifferent
    typical = evidence.kinds.population.typical_quality
    return Flags(
        by_answers=by_answers & ~same_mind,
        by_button=enough & beyond(signs.left, lambda _: one, lesser) & (bad > CLEARED),
        by_gold=coin & enough & (bad > WATCH),
        still_out=still_out & ~same_mind,
        suspect=bad > WATCH,
        tied=evidence.given.tied & (evidence.n >= rules.least),
        inverted=benjamini_hochberg(np.where(enough, evidence.p_coin_below, np.nan), rate)
        & (evidence.kinds.p_inverted > evidence.kinds.p_guesser),
        lean=_leaning(signs, one, enough, rate),
        pattern=beyond(
            signs.switches,
            lambda x: (np.abs(x.seen - x.expected) >= PATTERN) & ~one & (x.n >= rules.least),
        ),
        fast=beyond(signs.tempo, lambda x: x.seen < FAST),
        inconsistent=beyond(
            signs.repeats,
            lambda x: (x.expected - x.seen >= INCONSISTENT) & (x.n >= rules.least),
        ),
        drift=beyond(signs.drift, lambda x: x.expected - x.seen >= DROP),
        gold=beyond(
            signs.gold,
            lambda x: _gold_coin(x, rules) | ((x.n >= rules.least) & (x.seen < x.expected - LEAN)),
        ),
        untouched=beyond(
            signs.untouched, lambda x: (x.seen >= UNTOUCHED) & (x.n >= LEAST_RANKINGS)
        ),
        cleared=(bad < CLEARED) & (evidence.kinds.p_below < CLEARED),
        poor=(evidence.n_answers >= MANY) & (evidence.upper < POOR * typical),
        group=group,
        alike=same_mind,
        own=own_mind,
        indifferent=indifferent,
        dated=signs.dated,
    )


def _leaning(signs: Signs, one: Mask, enough: Mask, rate: float) -> Mask:
    """Who leans to one side, of whom at most ``rate`` are expected to lean no more than others."""
    bias = signs.side_bias
    if bias is None:
        return np.zeros(enough.size, dtype=np.bool_)
    far = one | (np.abs(bias.mean - bias.panel) >= LEAN)
    return most_certain(1.0 - bias.wrong, far & enough & ~np.isnan(bias.wrong), rate)


def _gold_coin(sign: Sign, rules: Rules) -> Mask:
    """Known questions answered like a coin."""
    return np.asarray((sign.seen <= GOLD_COIN) & (sign.n >= rules.least))


# -- reasons


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """Of a typical honest rater on the same pairs: agreement, and nats an answer."""

    agreement: Floats
    nats: Floats


def expected_of(fit: Fit, evidence: Evidence) -> Expected:
    """What a typical honest rater would have shown, pair by pair."""
    given, typical = evidence.given, evidence.kinds.population.typical_quality
    t, s = fit.triples, np.abs(evidence.left_out.s)
    p = 0.5 + typical * s
    rater, pairs = t.rater(), given.pairs.weight
    agreed = np.bincount(rater, given.weight * p, t.n_raters)
    nats = np.bincount(rater, pairs * _distance(p), t.n_raters)
    slates = given.slate_sums(_distance(0.5 + s), -0.5 * np.log1p(-4.0 * np.minimum(s, 0.499) ** 2))
    if slates is not None:
        # Informed, a ranking is likelier by R; guessed, it is less likely than a coin's.
        by, if_informed, if_guessed = slates
        informed = np.log1p(typical * np.expm1(np.minimum(if_informed, 300.0)))
        guessed = np.log1p(typical * np.expm1(-if_guessed))
        nats = nats + np.bincount(by, typical * informed + (1 - typical) * guessed, t.n_raters)
    return Expected(
        agreed / np.maximum(evidence.n_told, 1e-300), nats / np.maximum(given.n_answers, 1e-300)
    )


def _distance(p: Floats) -> Floats:
    """Nats by which answers of chance p differ from a coin's."""
    return np.asarray(p * np.log(2 * p) + (1 - p) * np.log(2 * np.maximum(1 - p, 1e-300)))


def reasons_of(
    r: int, evidence: Evidence, signs: Signs, flags: Flags, expected: Expected, rules: Rules
) -> tuple[str, ...]:
    """All that speaks against rater ``r``, the gravest first."""
    if not flags.noted[r]:
        return ()
    found = [*_answers(r, evidence, flags, expected, rules), *_single(r, signs, flags)]
    drift = flags.drift[r] and flags.dated
    clear = flags.cleared[r] and not (flags.excluded[r] or drift or flags.gold[r])
    if clear and found:
        found.append("noted only: the answers themselves are clearly informed")
    return tuple(found)


def _answers(
    r: int, evidence: Evidence, flags: Flags, expected: Expected, rules: Rules
) -> list[str]:
    """What the answers as a whole say against rater ``r``, and an earlier exclusion."""
    kinds, tied = evidence.kinds, evidence.given.tied[r]
    turned = bool(kinds.p_inverted[r] > kinds.p_guesser[r])
    head = _head(r, flags, turned=turned, tied=tied)
    found = []
    if head:
        answered = (
            f"answered a tie to all {_counted(r, evidence)}"
            if tied
            else f"agrees with the others in {evidence.agreement[r]:.0%} of "
            f"{_counted(r, evidence)}, a typical rater in {expected.agreement[r]:.0%}"
        )
        found.append(
            f"{head}, P(guessing or inverted) {p_equals(evidence.p_bad[r], 3)}: {answered}"
        )
        if evidence.n_answers[r] < rules.least:
            found[-1] += f". Too few to decide (at least {rules.least} answers)"
        elif turned:
            found[-1] += f". {CHECK_KEYS}"
    if flags.spared[r]:
        found.append(f"not excluded: {_spared(r, flags)}")
    if flags.group[r]:
        found.append(
            "one of a small group that follows the reverse of the ranking of a larger camp. "
            f"{CHECK_KEYS}"
        )
    if flags.poor[r] and not flags.excluded[r]:
        found.append(
            f"low quality, and certainly so: at most {evidence.upper[r]:.2f} from "
            f"{_counted(r, evidence)}, a typical rater "
            f"{evidence.kinds.population.typical_quality:.2f}. The fit counts such answers less"
        )
    if flags.still_out[r] and not flags.by_answers[r]:
        found.append(
            f"was excluded before: P(guessing or inverted) is {evidence.p_bad[r]:.2f}, and has to "
            f"fall below {BACK:g}"
        )
    return found


def _spared(r: int, flags: Flags) -> str:
    """Why rater ``r`` is not excluded by the answers alone."""
    if flags.own[r]:
        return (
            "agrees with itself, if not with the others. A ranking of its own explains these "
            "answers better than guessing"
        )
    if flags.indifferent[r]:
        return (
            "the panel is divided, and random answers explain these not clearly better than a camp "
            "does. The rater may stand between the camps"
        )
    return (
        "agrees with the others who would be excluded, beyond what the ranking explains. They may "
        "follow a taste of their own"
    )


def _head(r: int, flags: Flags, *, turned: bool, tied: bool) -> str:
    """What is held against the answers as a whole, in a few words; empty if nothing is."""
    if flags.inverted[r]:
        return "inverted"
    if flags.tied[r]:
        return "never decides"
    if not (flags.by_answers[r] or flags.suspect[r] or flags.still_out[r] or flags.spared[r]):
        return ""
    if turned:
        return "may be inverted"
    if tied:
        return "never decides"
    return "answers like a coin" if flags.by_answers[r] else "may be guessing"


def _counted(r: int, evidence: Evidence) -> str:
    """So many comparisons, and the rankings that they came from."""
    slates, answers = evidence.given.n_slates[r], evidence.n_answers[r]
    tied = evidence.given.tied[r]
    found = f"{(evidence.n if tied else evidence.n_told)[r]:,.0f} comparisons"
    if not slates:
        return found
    rankings = f"{slates:,.0f} ranking{'s' if slates > 1 else ''}"
    single = answers - slates
    return f"{found} in {rankings}" + (f" and {single:,.0f} pairs" if single >= 0.5 else "")


def _single(r: int, signs: Signs, flags: Flags) -> list[str]:
    found = []
    if signs.left is not None and (flags.by_button[r] or flags.lean[r]):
        found.append(_leans(r, signs.left, signs.side_bias, button=bool(flags.by_button[r])))
    if signs.gold is not None and (flags.by_gold[r] or flags.gold[r]):
        gold = signs.gold
        found.append(
            f"known questions: {gold.seen[r]:.0%} of {gold.n[r]:,.0f} right, where a typical rater "
            f"has {gold.expected[r]:.0%} (p {_p(gold.p[r])})"
        )
    if signs.drift is not None and signs.drift_from is not None and flags.drift[r]:
        drift, since = signs.drift, signs.drift_from[r]
        basis = "" if signs.dated else ". This is in the order of the rows, not of time"
        found.append(
            f"good at first, then not: quality about {drift.expected[r]:.2f} in the first "
            f"{since:,.0f} answers and {max(drift.seen[r], 0.0):.2f} in the "
            f"{drift.n[r] - since:,.0f} after (p {_p(drift.p[r])}){basis}"
        )
    if signs.switches is not None and flags.pattern[r]:
        turns = signs.switches
        head = "alternates" if turns.seen[r] > turns.expected[r] else "answers in long runs"
        found.append(
            f"{head}: the side changes in {turns.seen[r]:.0%} of {turns.n[r]:,.0f} steps, where "
            f"{turns.expected[r]:.0%} is expected (p {_p(turns.p[r])})"
        )
    if signs.tempo is not None and flags.fast[r]:
        found.append(
            f"fast: takes {signs.tempo.seen[r]:.0%} of the time that others take for the same pairs"
        )
    if signs.untouched is not None and flags.untouched[r]:
        kept = signs.untouched
        found.append(
            f"untouched: left {kept.seen[r]:.0%} of {kept.n[r]:,.0f} rankings in the order shown, "
            f"where the others leave {kept.expected[r]:.0%} (p {_p(kept.p[r])})"
        )
    if signs.repeats is not None and flags.inconsistent[r]:
        again = signs.repeats
        found.append(
            f"contradicts itself: gave the same answer to {again.seen[r]:.0%} of {again.n[r]:,.0f} "
            f"repeated pairs, where a typical rater would to {again.expected[r]:.0%} "
            f"(p {_p(again.p[r])})"
        )
    return found


def _leans(r: int, left: Sign, bias: SideBias | None, *, button: bool) -> str:
    """How much rater ``r`` prefers a side, and what shows it."""
    side, seen = ("left", left.seen[r]) if left.seen[r] >= left.expected[r] else (
        "right", 1 - left.seen[r]
    )  # fmt: skip
    told = left.expected[r] if side == "left" else 1 - left.expected[r]
    went = f"{seen:.0%} of {left.n[r]:,.0f} answers went {side}, where {told:.0%} were expected"
    if button or bias is None:
        return f"always the same button: {went} (p {_p(left.p[r])})"
    ends = [0.5 + one[r] for one in (bias.mean, bias.lower, bias.upper, bias.panel)]
    mean, low, high, panel = ends if side == "left" else [1 - one for one in ends]
    low, high = min(low, high), max(low, high)
    return (
        f"leans to one side: {went}. Of two equal items it chooses the {side} one in {mean:.0%} "
        f"({low:.0%} to {high:.0%}), the panel in {panel:.0%}"
    )


def way_back(r: int, evidence: Evidence, flags: Flags, expected: Expected) -> str:
    """What would bring an excluded rater back."""
    ways = []
    if flags.by_answers[r] or flags.still_out[r]:
        bad = float(np.clip(evidence.p_bad[r], 1e-12, 1 - 1e-12))
        needed = np.log(bad / (1 - bad)) + np.log((1 - BACK) / BACK)
        n = needed / max(float(expected.nats[r]), 1e-12)
        count = f"about {np.ceil(n):,.0f}" if n <= FAR else f"more than {FAR:,}"
        ranks = evidence.given.n_slates[r] > 0.5 * evidence.n_answers[r]
        ways.append(
            f"{count} further {'rankings' if ranks else 'comparisons'} answered as a typical rater "
            f"would ({expected.agreement[r]:.0%} agreement)"
        )
    if flags.by_button[r]:
        ways.append("answers that use both buttons")
    if flags.by_gold[r]:
        ways.append("known questions answered as well as by the others")
    return "; ".join(ways)


def _p(p: float) -> str:
    return f"= {p:.2g}" if p >= 1e-6 else "< 1e-6"
