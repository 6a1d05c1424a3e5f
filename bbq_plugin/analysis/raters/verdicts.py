"""Keep, watch or exclude, for each rater of a fit: the rules, and the reasons in words.

The verdicts: by which rules a rater is excluded or watched, and the reasons in words.

The rules name the rate of error, and when a rater comes back. A reason is at most two short
sentences.

The raters of a fit over parts are judged where their answers are, and written there as Parquet.
What all raters decide together (the consensus, and the population that they are drawn from) is
found first, and is the same as in memory. The rate of wrong exclusions is then held in each part,
and so over all of them; tests of groups of raters look at the raters of one part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import isnan
from typing import Any, Literal, cast

import numpy as np

from bbq_plugin.analysis.agreement import (
    ALIKE_LEVEL,
    LEVEL,
    alike_p,
    coins_among,
    differ_in_taste,
    inverted_camps,
    own_ranking,
    panel_p,
    panel_p_over,
    panel_sums,
    panel_warning,
    ranking_evidence,
    rest_tells,
    share_of_own,
    turned_panel,
)
from bbq_plugin.analysis.leaderboard import Row, Rows
from bbq_plugin.analysis.raters.behaviour import SideBias, Sign, Signs, signs_of
from bbq_plugin.analysis.raters.leave_one_out import (
    TOLERANCE,
    Effect,
    Evidence,
    WholePanel,
    effects,
    evidence_of,
    views_of,
)
from bbq_plugin.analysis.uncertainty import relative_sd
from bbq_plugin.data.records import LeadWord
from bbq_plugin.data.triples import Codes, Floats, Mask
from bbq_plugin.errors import ConvergenceError, UsageError
from bbq_plugin.model import Fit, Priors
from bbq_plugin.model import fit as fitted
from bbq_plugin.model.camps import LEAST_RATERS, CampDensity
from bbq_plugin.model.fit import MODELS, PartedResult, in_camps
from bbq_plugin.model.objectives import theta_density
from bbq_plugin.model.rater_population import (
    RaterPopulation,
    likelihood_rows,
    likely_populations,
    sampled_raters,
    sampled_up_to,
)
from bbq_plugin.model.solvers import solve_newton
from bbq_plugin.model.ties import tie_counts
from bbq_plugin.text import (
    MOST_HTML_ROWS,
    count,
    counted,
    html_notes,
    html_table,
    number,
    p_equals,
    plain,
    share,
    span,
)

Verdict = Literal["keep", "watch", "exclude"]
FALSE_RATE = 0.05
LEAST = 10  # answers before a rater is excluded
SURE = 0.9  # P(guessing or inverted) below which the answers as a whole exclude no rater
THRESHOLD = 0.5  # of quality, for P(q below it)
SIDE_ROAD = 0.2  # of the stated rate, for each of the two lesser roads to exclusion
MARGIN = 0.9  # of that rate that is used: P(bad) is known no better than that
OWN = 0.9  # P(a ranking of the rater's own) above which a rater is spared
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
LEAST_NAMED, AS_NAMED = 6, 0.93  # items; rank correlation from which a camp ranks by name
BY_CHANCE, MOST_NAMED = 1e-3, 8  # of raters with equal answers; of them that are named
HANGS = 1.0  # standard deviations that items move by without a busy rater, root mean square
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
    #: Contradict the others, but too few of these agree with each other to tell who is right.
    untold: Mask
    #: Whether the order of the answers is known, so that a change in quality over time counts.
    dated: bool = True

    @cached_property
    def excluded(self) -> Mask:
        """Who is excluded, by any road."""
        return self.by_answers | self.by_button | self.by_gold | self.still_out

    @cached_property
    def spared(self) -> Mask:
        """Who would be excluded by the answers, but may have a taste of their own, or none."""
        return self.own | self.indifferent | self.alike | self.untold

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
    own: Callable[[Mask], Floats], camp_more: Callable[[Mask], tuple[Mask, Mask]],
    coins: Callable[[Mask], Mask], told: Callable[[Mask], bool],
) -> Flags:  # fmt: skip
    """Apply the rules; ``turned`` says that the model uses inverted answers in reverse.

    ``group`` are raters who reverse a camp's ranking together. ``alike`` says whether raters agree
    with each other beyond what the camps' rankings explain, ``own`` how probably they follow a
    ranking of their own, ``camp_more`` whom one camp more would explain, and who of these reverse
    the ranking, ``coins`` whom in a divided panel a coin explains better than a camp, ``told``
    whether those who stay tell that these raters are the wrong ones.
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
    was_out = np.array([name in out for name in raters], np.bool_)
    still_out = was_out & (bad >= BACK) & ~group
    explained, reverse = camp_more(by_answers | still_out)
    group = group | reverse
    by_answers, still_out = by_answers & ~group, still_out & ~group
    p_own = own(by_answers | still_out)
    # With those who are suspect, and those with a ranking of their own: it may be one they share.
    doubtful = by_answers | still_out | (enough & (bad > WATCH) & ~group)
    same_mind = by_answers | still_out
    if not (same_mind.any() and alike(doubtful)):
        same_mind = same_mind & explained
    # Where they share a ranking, that is what there is to say of them.
    own_mind = (p_own > OWN) & ~same_mind
    by_answers, still_out = by_answers & ~own_mind, still_out & ~own_mind
    indifferent = (by_answers | still_out) & ~same_mind
    indifferent = indifferent & ~coins(indifferent)
    by_answers, still_out = by_answers & ~indifferent, still_out & ~indifferent
    inverted = benjamini_hochberg(np.where(enough, evidence.p_coin_below, np.nan), rate) & (
        evidence.kinds.p_inverted > evidence.kinds.p_guesser
    )
    untold = by_answers | still_out | (none if turned else inverted & ~group)
    untold = untold & ~same_mind & ~own_mind & ~indifferent
    if not untold.any() or told(untold | (enough & (bad > WATCH))):
        untold = none
    by_answers, still_out = by_answers & ~untold, still_out & ~untold
    typical = evidence.kinds.population.typical_quality
    return Flags(
        by_answers=by_answers & ~same_mind,
        # What the items explain of it is known only where the others tell who is right.
        by_button=enough & beyond(signs.left, lambda _: one, lesser) & (bad > CLEARED) & ~untold,
        by_gold=coin & enough & (bad > WATCH),
        still_out=still_out & ~same_mind,
        suspect=bad > WATCH,
        # Where nobody decides it is the items that are alike.
        tied=evidence.given.tied & (evidence.n >= rules.least) & (not _all_tied(evidence)),
        inverted=inverted,
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
        untold=untold,
        dated=signs.dated,
    )


def _all_tied(evidence: Evidence) -> bool:
    """Whether nobody ever decided."""
    return bool(evidence.given.tied.all())


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
            f"certainly of low quality: at most {evidence.upper[r]:.2f} from "
            f"{_counted(r, evidence)}, a typical rater has "
            f"{evidence.kinds.population.typical_quality:.2f}. Such answers have less weight in "
            "the fit"
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
            "may follow a ranking of its own, which no other rater shares. That explains these "
            "answers better than guessing does"
        )
    if flags.indifferent[r]:
        return (
            "the panel is divided, and random answers do not explain these clearly better than a "
            "camp does. The rater may be between the camps"
        )
    if flags.untold[r]:
        return (
            "it is not known who is right. An exclusion needs two others or more who agree with "
            "each other, and who are more than those who contradict them"
        )
    return (
        "agrees with the others who would be excluded, beyond what the ranking explains. They may "
        "share another taste"
    )


def _head(r: int, flags: Flags, *, turned: bool, tied: bool) -> str:
    """What is held against the answers as a whole, in a few words; empty if nothing is."""
    if flags.inverted[r] and not flags.spared[r]:
        return "inverted"
    if flags.tied[r]:
        return "never decides"
    if not (flags.by_answers[r] or flags.suspect[r] or flags.still_out[r] or flags.spared[r]):
        return ""
    if turned:
        return "may be inverted"
    if tied:
        return "never decides"
    return "answers look random" if flags.by_answers[r] else "may be guessing"


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
            f"quality falls: about {drift.expected[r]:.2f} in the first {since:,.0f} answers and "
            f"{max(drift.seen[r], 0.0):.2f} in the {drift.n[r] - since:,.0f} after them "
            f"(p {_p(drift.p[r])}){basis}"
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
            f"inconsistent: gave the same answer to {again.seen[r]:.0%} of {again.n[r]:,.0f} "
            f"repeated pairs, a typical rater to {again.expected[r]:.0%} (p {_p(again.p[r])})"
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
        f"leans to one side: {went}. Of two equal items the rater chooses the {side} one in "
        f"{mean:.0%} ({low:.0%} to {high:.0%}), the panel in {panel:.0%}"
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
            f"{count} further {'rankings' if ranks else 'comparisons'} with the answers of a "
            f"typical rater ({expected.agreement[r]:.0%} agreement)"
        )
    if flags.by_button[r]:
        ways.append("answers that use both buttons")
    if flags.by_gold[r]:
        ways.append("known questions answered as well as by the others")
    return "; ".join(ways)


def _p(p: float) -> str:
    return f"= {p:.2g}" if p >= 1e-6 else "< 1e-6"


GROUP = 0.05  # of the raters: so many inverted ones may be a group
ONE_PLACE = 0.95  # of a group's answers with one value of a tag: a project, a form, a device
SHORT_SPAN = 0.3  # of all answers in order: a group within it answered at one time


@dataclass(frozen=True, slots=True)
class RaterRow(Row):
    """One rater; a number that is not known is NaN. docs/report.md says what each one is."""

    rater: str
    n: float
    quality: float
    quality_lower: float
    quality_upper: float
    agreement: float
    left_rate: float
    tie_rate: float
    median_time_s: float
    camp: int
    p_bad: float
    verdict: Verdict
    reasons: tuple[str, ...]
    p_guesser: float = float("nan")
    p_inverted: float = float("nan")
    p_camp: float = float("nan")
    p_below: float = float("nan")
    agreement_expected: float = float("nan")
    left_expected: float = float("nan")
    side_bias: float = float("nan")
    side_bias_lower: float = float("nan")
    side_bias_upper: float = float("nan")
    tempo: float = float("nan")
    self_consistency: float = float("nan")
    self_consistency_expected: float = float("nan")
    drift: float = float("nan")
    n_gold: float = float("nan")
    gold_rate: float = float("nan")
    gold_expected: float = float("nan")
    moved: float = float("nan")
    shift_sd: float = float("nan")
    effect: str = ""
    way_back: str = ""
    model_verdict: Verdict = "keep"
    lead_word: str = ""


class RaterReport(Rows[RaterRow]):
    """Raters in the order of the data, with what the verdicts rest on."""

    def __init__(
        self,
        rows: list[RaterRow],
        warnings: tuple[str, ...] = (),
        *,
        rules: Rules = Rules(),
        population: RaterPopulation | None = None,
        without_excluded: Effect | None = None,
        not_known: tuple[str, ...] = (),
        p_coins: float = float("nan"),
        by_others: Floats | None = None,
    ) -> None:
        super().__init__(rows)
        self.warnings = warnings
        self.false_rate, self.least, self.threshold = rules.false_rate, rules.least, rules.threshold
        #: Who the raters are, as estimated from all of them; None without verdicts.
        self.population = population
        #: What excluding all of them changes in the leaderboard; None if no rater is excluded.
        self.without_excluded = without_excluded
        #: What these data do not tell, and no verdict could therefore use.
        self.not_known = not_known
        #: How often coins would agree with each other as much as these raters, or a bound of it.
        self.p_coins = p_coins
        #: By triple of the data, what the others say: P(winner is better) - 1/2, without the
        #: rater's own votes; None without verdicts.
        self.by_others = by_others

    @property
    def n_raters(self) -> int:
        """How many were judged, those that are not listed included."""
        return len(self)

    @property
    def everyone(self) -> Sequence[RaterRow]:
        """All raters, also those of a fit over parts that are not listed here."""
        return self

    @property
    def rule(self) -> str:
        """The rule of exclusion: the rate, and the minimum of evidence."""
        return (
            "Rule: the most certain raters are excluded first, as long as at most "
            f"{100 * self.false_rate:.3g}% of the excluded are expected to be honest. It takes "
            f"{self.least:,} answers, and P(guessing or inverted) of at least {SURE:g} from the "
            "answers alone."
        )

    @property
    def p_guesser(self) -> Floats:
        """P(guesser) of each rater."""
        return np.array([row.p_guesser for row in self._rows])

    @property
    def excluded(self) -> tuple[str, ...]:
        """The names of those to exclude."""
        return tuple(row.rater for row in self._rows if row.verdict == "exclude")

    @property
    def excluded_by_model(self) -> tuple[str, ...]:
        """Whom the model excludes, whatever a lead says: what a later report takes as before."""
        return tuple(row.rater for row in self._rows if row.model_verdict == "exclude")

    def _repr_html_(self) -> str:
        rows = (
            (
                row.rater,
                count(row.n),
                number(row.quality, 2),
                span(row.quality_lower, row.quality_upper, 2),
                share(row.agreement),
                row.verdict,
                "; ".join(row.reasons),
            )
            for row in worst_first(self._rows)[:MOST_HTML_ROWS]
        )
        title = f"Raters ({len(self.excluded)} of {len(self)} to exclude)"
        heads = ("rater", "n", "quality", "interval", "agreement", "verdict", "reasons")
        words = ("rater", "verdict", "reasons")
        return html_table(title, heads, rows, len(self), words=words) + html_notes(self.warnings)

    def __repr__(self) -> str:
        return f"<RaterReport: {len(self)} raters, {len(self.excluded)} to exclude>"


def worst_first(raters: Iterable[RaterRow]) -> list[RaterRow]:
    """Excluded raters, then watched ones, then the others, each by quality."""
    severity = {"exclude": 0, "watch": 1, "keep": 2}
    return sorted(raters, key=lambda r: (severity[r.verdict], isnan(r.quality), r.quality))


def rater_report(
    fit: Fit,
    level: float = 0.95,
    *,
    false_rate: float = FALSE_RATE,
    least: int = LEAST,
    threshold: float = THRESHOLD,
    before: Collection[str] = (),
    words: Mapping[str, LeadWord] = {},
) -> RaterReport:
    """Quality with its interval, agreement and a verdict with reasons, for each rater of a fit.

    ``before`` names raters who were excluded by an earlier report: they come back only when
    little is left against them, so that a verdict does not change with every vote. ``words`` are
    what a lead has decided, by rater: that is the verdict, and `model_verdict` what it would be.
    """
    for name, value in (("level", level), ("false_rate", false_rate), ("threshold", threshold)):
        if not 0 < value < 1:
            raise UsageError(f"{name}={value!r}: expected a number between 0 and 1 such as 0.05")
    rules = Rules(false_rate, least, threshold)
    fit = fit.judged
    if fit.in_parts:
        return parted_report(fit, level, rules, frozenset(before))
    if not gives_verdicts(fit):
        return _without_verdicts(fit, rules, words)
    return judged(fit, level, rules, before, words=words)


def judged(
    fit: Fit, level: float, rules: Rules, before: Collection[str],
    whole: WholePanel | None = None, words: Mapping[str, LeadWord] = {},
) -> RaterReport:  # fmt: skip
    """The report with verdicts; ``whole``: of all raters, of whom the fit has some."""
    least, threshold = rules.least, rules.threshold
    evidence = evidence_of(fit, level, threshold, whole)
    population = evidence.kinds.population
    signs = signs_of(
        fit.data, fit.triples, evidence.left_out.s, fit.quality, population, least, level
    )
    turned = MODELS[fit.model].uses_inverted
    reversed_camps = inverted_camps(fit)
    group = np.isin(np.argmax(fit.membership, axis=1), list(reversed_camps))
    p_coins = panel_p(fit.data) if whole is None else 0.0
    # In a divided panel agreement is within the camps; a part has some of the raters.
    of_one = whole is None and fit.division is None
    flags = flags_of(
        evidence, signs, rules, fit.raters, before, turned=turned, group=group,
        alike=lambda some: alike_p(fit, evidence, np.flatnonzero(some)) <= ALIKE_LEVEL,
        own=lambda some: _own(fit, evidence, some, whole),
        camp_more=lambda some: _camp_more(fit, evidence, some),
        coins=lambda some: _among(some, lambda raters: coins_among(fit, evidence, raters))
        if differ_in_taste(fit) else some,
        told=lambda out: not of_one or rest_tells(fit, evidence, out, p_coins),
    )  # fmt: skip
    out = flags.excluded.copy()
    for r, name in enumerate(fit.raters):
        if name in words:
            out[r] = words[name].verdict == "exclude"
    excluded = np.flatnonzero(out).tolist()
    # What would change without a rater is known of all raters alone.
    shown = excluded if whole is None else []
    alone, together = effects(fit, shown, evidence.consensus)
    return RaterReport(
        _decided(_rows(fit, evidence, signs, flags, rules, alone), words),
        (
            *_warnings(fit, evidence, flags, p_coins, rules),
            *_hangs_on_one(fit, evidence),
            *_groups(fit, flags, reversed_camps),
            *_camps_by_name(fit),
            *_copies(fit, evidence),
        ),
        rules=rules,
        population=population,
        without_excluded=together,
        not_known=tuple(signs.not_known),
        p_coins=p_coins,
        by_others=evidence.left_out.s,
    )


def _decided(rows: list[RaterRow], words: Mapping[str, LeadWord]) -> list[RaterRow]:
    """The rows with what a lead has decided."""
    found = []
    for row in rows:
        word = words.get(row.rater)
        if word is None or not word.verdict:
            found.append(row)
            continue
        reasons = (word.text, *row.reasons)
        found.append(replace(row, verdict=word.verdict, lead_word=word.text, reasons=reasons))
    return found


def _own(fit: Fit, evidence: Evidence, some: Mask, whole: WholePanel | None) -> Floats:
    """How probably each of these raters follows a ranking of their own; 0 of the others."""
    raters, found = np.flatnonzero(some), np.zeros(some.size)
    known, share = raters[:0], None if whole is None else whole.own_share
    if share is None:
        sample = sampled_raters(fit.triples, sampled_up_to(fit.triples))
        known = sample[evidence.p_bad[sample] >= SURE]
    found[raters] = own_ranking(fit, evidence, raters, known, share)
    return found


def _among(some: Mask, holds: Callable[[Codes], Mask]) -> Mask:
    """Of whom of these it holds."""
    found = np.zeros(some.size, dtype=np.bool_)
    raters = np.flatnonzero(some)
    found[raters] = holds(raters)
    return found


def _camp_more(fit: Fit, evidence: Evidence, some: Mask) -> tuple[Mask, Mask]:
    """Of raters to be excluded: whom a second camp would explain, and who reverse the ranking.

    The criterion may have found too little for a camp of few raters. So many inverted raters are
    a group, not single ones; a second camp is looked for where the screen fires.
    """
    none = np.zeros(some.size, dtype=np.bool_)
    kinds, axis = evidence.kinds, fit.axis
    if fit.division is not None or axis is None or not some.any():
        return none, none
    several = max(LEAST_RATERS, GROUP * some.size)
    inverted = some & (kinds.p_inverted > kinds.p_guesser)
    if not several <= inverted.sum() < 0.5 * some.size:
        inverted = none
    if not axis.fires:
        return none, inverted
    try:
        two = in_camps(fit, 2)
    except ConvergenceError:
        return none, inverted
    explained = some & (evidence_of(two, 0.95, THRESHOLD).p_bad < WATCH)
    # A ranking that one rater follows is no camp: a single inverted rater would be one.
    camp = np.argmax(two.membership, axis=1)
    explained &= np.bincount(camp, minlength=2)[camp] >= several
    of_reverse = np.isin(camp, list(inverted_camps(two)))
    return explained, inverted | (explained & of_reverse)


def gives_verdicts(fit: Fit) -> bool:
    """Whether raters can be judged by this fit."""
    return bool(fit.raters) and MODELS[fit.model].gives_verdicts


def judging_fit(fit: Fit) -> Fit:
    """The fit that raters are judged by: this one, or bbq's of the same data if it cannot."""
    fit = fit.judged
    if gives_verdicts(fit) or not fit.raters:
        return fit
    if isinstance(fit.priors, Priors) and not fit.priors.estimated:
        return fitted(fit.data, priors=fit.priors)
    return fitted(fit.data, priors="auto")


def _without_verdicts(fit: Fit, rules: Rules, words: Mapping[str, LeadWord]) -> RaterReport:
    if not fit.raters:
        return RaterReport([], rules=rules)
    t, nan = fit.data.triples, float("nan")
    rater = t.rater()
    n = np.bincount(rater, t.weight, t.n_raters)
    ahead = np.sign(fit.theta[t.winner] - fit.theta[t.loser])
    agreed = np.bincount(rater, t.weight * 0.5 * (1.0 + ahead), t.n_raters)
    left, tied, time = _rates(fit)
    camp, p_camp = _camps(fit)
    rows = [
        RaterRow(
            name, float(n[r]), float(fit.quality[r]) if fit.rated else nan, nan, nan,
            float(agreed[r] / n[r]) if n[r] else nan, left[r], tied[r], time[r], camp[r], nan,
            "keep", (), p_camp=p_camp[r],
        )
        for r, name in enumerate(fit.raters)
    ]  # fmt: skip
    warning = f"{fit.model} gives no verdicts on raters: fit model='bbq' for these"
    return RaterReport(_decided(rows, words), (warning,), rules=rules)


def _rates(fit: Fit) -> tuple[list[float], list[float], list[float]]:
    """Left rate, tie rate and median time of each rater, where they are known."""
    tied, n = tie_counts(fit.data)
    rate = None if fit.data.answers is None else tied / np.where(n > 0, n, np.nan)
    known = (fit.data.left_rate, rate, fit.data.median_time_s)
    unknown = np.full(len(fit.raters), np.nan)
    left, ties, time = ((unknown if column is None else column).tolist() for column in known)
    return left, ties, time


def _camps(fit: Fit) -> tuple[list[int], list[float]]:
    """The number, from 1, of the camp each rater most probably belongs to, and how probably."""
    belongs = fit.membership
    return (1 + np.argmax(belongs, axis=1)).tolist(), np.max(belongs, axis=1).tolist()


def _rows(
    fit: Fit, evidence: Evidence, signs: Signs, flags: Flags, rules: Rules,
    without: dict[int, Effect],
) -> list[RaterRow]:  # fmt: skip
    kinds, expected = evidence.kinds, expected_of(fit, evidence)
    left, tied, time = _rates(fit)
    camp, p_camp = _camps(fit)
    n, none = len(fit.raters), ()
    nothing = [float("nan")] * n

    def of(sign: Sign | SideBias | None, what: str) -> list[float]:
        found: list[float] = nothing if sign is None else getattr(sign, what).tolist()
        return found

    drift = nothing if signs.drift is None else (signs.drift.seen - signs.drift.expected).tolist()
    reasons: list[tuple[str, ...]] = [none] * n
    for r in np.flatnonzero(flags.noted).tolist():
        reasons[r] = reasons_of(r, evidence, signs, flags, expected, rules)
    effect = [without.get(r) for r in range(n)]
    verdicts = np.select([flags.excluded, flags.watched], ["exclude", "watch"], "keep").tolist()
    columns: dict[str, Any] = {
        "rater": fit.raters,
        "n": evidence.n.tolist(),
        "quality": fit.quality.tolist(),
        "quality_lower": evidence.lower.tolist(),
        "quality_upper": evidence.upper.tolist(),
        "agreement": evidence.agreement.tolist(),
        "left_rate": left,
        "tie_rate": tied,
        "median_time_s": time,
        "camp": camp,
        "p_bad": kinds.p_bad.tolist(),
        "verdict": verdicts,
        "model_verdict": verdicts,
        "lead_word": [""] * n,
        "reasons": reasons,
        "p_guesser": kinds.p_guesser.tolist(),
        "p_inverted": kinds.p_inverted.tolist(),
        "p_camp": p_camp,
        "p_below": kinds.p_below.tolist(),
        "agreement_expected": expected.agreement.tolist(),
        "left_expected": of(signs.left, "expected"),
        "side_bias": of(signs.side_bias, "mean"),
        "side_bias_lower": of(signs.side_bias, "lower"),
        "side_bias_upper": of(signs.side_bias, "upper"),
        "tempo": of(signs.tempo, "seen"),
        "self_consistency": of(signs.repeats, "seen"),
        "self_consistency_expected": of(signs.repeats, "expected"),
        "drift": drift,
        "n_gold": of(signs.gold, "n"),
        "gold_rate": of(signs.gold, "seen"),
        "gold_expected": of(signs.gold, "expected"),
        "moved": [float("nan") if e is None else float(e.moved) for e in effect],
        "shift_sd": [float("nan") if e is None else e.shift_sd for e in effect],
        "effect": ["" if e is None else e.text for e in effect],
        "way_back": [
            way_back(r, evidence, flags, expected) if out else ""
            for r, out in enumerate(flags.excluded.tolist())
        ],
    }
    # In the order of the fields, by which a row is made fastest.
    by_field = [columns[field.name] for field in fields(RaterRow)]
    return [RaterRow(*values) for values in zip(*by_field, strict=True)]


def _warnings(
    fit: Fit, evidence: Evidence, flags: Flags, p_coins: float, rules: Rules
) -> tuple[str, ...]:
    within = len(evidence.left_out.within)
    warning = (
        f"{within:,} of {len(fit.raters):,} raters are judged by a ranking that includes their own "
        "votes. Their agreement looks better than it is"
    )
    # Where no rater has enough answers for a verdict, "keep" claims nothing that could mislead.
    judged = bool((evidence.n_answers >= rules.least).any())
    # In a divided panel agreement is within the camps.
    judged = judged and fit.division is None
    panel = panel_warning(p_coins, all_tied=_all_tied(evidence)) if judged else ""
    if panel and (flags.by_answers | flags.still_out).any():
        panel = "the raters agree with each other only without those who are excluded"
    found = (panel, warning if within else "")
    return tuple(text for text in found if text)


def _hangs_on_one(fit: Fit, evidence: Evidence) -> list[str]:
    """That one busy rater decides the ranking: intervals see how answers vary, and one does not."""
    found: list[str] = []
    if len(evidence.consensus) > 1 or not evidence.consensus[0].without:
        return found
    top, n = evidence.consensus[0], evidence.n_told
    sd = np.maximum(relative_sd(fit.covariance()), 1e-150)
    for r, theta in top.without.items():
        moved = theta - top.theta
        far = np.abs(moved - moved.mean()) / sd
        mean = float(np.sqrt(np.mean(far**2)))
        if mean > HANGS:
            found.append(
                f"the ranking hangs on {plain(fit.raters[r])}, who gave {n[r] / n.sum():.0%} of "
                f"the answers: without this rater the items would move by {mean:.1f} standard "
                f"deviations (root mean square), {plain(fit.items[int(far.argmax())])} by "
                f"{far.max():.1f}. The intervals do not allow for that"
            )
    return found


def _camps_by_name(fit: Fit) -> list[str]:
    """Of the smaller camps, which rank the items as their names do: a rule may have answered."""
    found: list[str] = []
    if fit.division is None or len(fit.items) < LEAST_NAMED:
        return found
    order = [sorted(fit.items).index(name) for name in fit.items]
    rules = {"the alphabet": order, "the length of their names": [len(name) for name in fit.items]}
    for words, by in rules.items():
        along = [_rank_correlation(theta, -np.array(by, np.float64)) for theta in fit.camp_theta]
        if abs(along[0]) >= AS_NAMED:
            continue  # most raters do: the names may follow what is asked
        found += [
            f"camp {c + 1} ({int(fit.member_counts[c]):,} raters) ranks the items by {words} "
            f"(rank correlation {along[c]:.2f}). Either the names follow what raters look for, or "
            "a rule answered and no taste"
            for c in range(1, len(along))
            if abs(along[c]) >= AS_NAMED
        ]
    return found


def _rank_correlation(one: Floats, other: Floats) -> float:
    """Spearman's; 0 where all are equal."""
    from scipy.stats import rankdata  # noqa: PLC0415 (loads slowly)

    first, second = rankdata(one), rankdata(other)
    if not (np.ptp(first) and np.ptp(second)):
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _copies(fit: Fit, evidence: Evidence) -> list[str]:
    """Raters whose answers are all equal, which chance hardly ever makes of so many."""
    t, weight, s = fit.triples, evidence.given.weight, evidence.left_out.s
    # Equal sums of the same numbers in the same order, of which few others have the value.
    one, other = np.random.default_rng(0).random((2, t.n_items))
    mark = np.bincount(t.rater(), weight * one[t.winner] * other[t.loser], t.n_raters)
    mark[evidence.n_answers < LEAST] = np.nan
    _, first, which, times = np.unique(
        mark, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    found = []
    for group in np.flatnonzero(times > 1).tolist():
        at = slice(t.start[first[group]], t.start[first[group] + 1])
        # That an honest rater gives these answers to these pairs, for any two of the raters.
        won, lost, more = t.winner[at], t.loser[at], weight[at]
        pair = np.minimum(won, lost).astype(np.int64) * t.n_items + np.maximum(won, lost)
        # Both ways: a tie as two half wins says nothing.
        _, row, place = np.unique(pair, return_index=True, return_inverse=True)
        one_way = np.bincount(place, np.where(won < lost, more, -more))
        chance = float(np.abs(one_way) @ np.log(0.5 + np.abs(s[at][row])))
        if chance + 2.0 * np.log(t.n_raters) < np.log(BY_CHANCE):
            some = [plain(fit.raters[r]) for r in np.flatnonzero(which == group).tolist()]
            rest = f" and {len(some) - MOST_NAMED} more" if len(some) > MOST_NAMED else ""
            found.append(
                f"{', '.join(some[:MOST_NAMED])}{rest} gave equal answers to "
                f"{evidence.n_told[first[group]]:,.0f} comparisons, which is no chance: they may "
                "have copied, or the same answers were stored under several names"
            )
    return found


def _groups(fit: Fit, flags: Flags, reversed_camps: dict[int, int]) -> list[str]:
    """What to say of raters who belong together, and are therefore not excluded."""
    found = []
    alike = int(flags.alike.sum())
    if alike:
        found.append(
            f"{counted(alike, 'rater')} would be excluded, but they agree with each other beyond "
            "what the ranking explains. None of them is excluded: they may follow a taste of their "
            "own. "
            "Fit with more camps (camps=2, on the command line --camps 2) to see it"
        )
    if not reversed_camps and flags.group.any():
        head = f"{int(flags.group.sum()):,} raters follow the reverse of the others' ranking"
        found.append(_reversed_group(fit, flags.group, head))
    for camp, other in reversed_camps.items():
        mine = np.argmax(fit.membership, axis=1) == camp
        head = (
            f"camp {camp + 1} ({int(mine.sum()):,} raters, {fit.membership[:, camp].mean():.0%}) "
            f"follows the reverse of the ranking of camp {other + 1}"
        )
        found.append(_reversed_group(fit, mine, head))
    return found


def _reversed_group(fit: Fit, mine: Mask, head: str) -> str:
    """What is known of a small group that follows the reverse of a larger camp's ranking."""
    text = (
        f"{head}. In so small a group, swapped keys or a misread question are more probable than "
        "another taste: check the wording and the key mapping"
    )
    data, answers = fit.data, fit.data.answers
    rows = mine[data.rater]
    for name, code in data.tags.items():
        known = code >= 0
        if not (rows & known).any():
            continue
        value = np.bincount(code[rows & known]).argmax()
        here, there = (float(np.mean(code[some & known] == value)) for some in (rows, ~rows))
        if here >= ONE_PLACE and there <= here / 2:
            text += (
                f". {here:.0%} of its answers have the same value of {name!r}, where {there:.0%} "
                "of the others' have it, which indicates a fault there"
            )
    if answers is None:
        return text
    if answers.gold is not None and (answers.gold[rows] != 0).any():
        said = answers.gold[rows]
        right = float(np.mean(said[said != 0] > 0))
        speaks = "taste" if right > 0.5 else "swapped keys"
        text += (
            f". It answered {right:.0%} of {np.sum(said != 0):,} known questions right, which "
            f"indicates {speaks}"
        )
    if answers.dated and answers.order is not None:
        order = answers.order[rows]
        span = (float(order.max()) - float(order.min())) / max(float(np.ptp(answers.order)), 1.0)
        when = f"within {span:.0%} of the study's course"
        text += f". Its answers came {when}, which indicates " + (
            "a fault at one time" if span < SHORT_SPAN else "no fault at one time"
        )
    return text


#: Rows that are read back; the files have all.
MOST_LISTED = 10_000


class PartedRaterReport(RaterReport):
    """The raters that matter most; ``counts`` is of all of them."""

    def __init__(
        self, rows: list[RaterRow], warnings: tuple[str, ...], counts: Mapping[str, int],
        read_all: Callable[[], list[RaterRow]], **about: Any,
    ) -> None:  # fmt: skip
        super().__init__(rows, warnings, **about)
        self.counts, self._read_all = counts, read_all

    @property
    def n_raters(self) -> int:
        """How many were judged, those that are not listed included."""
        return sum(self.counts.values())

    @property
    def everyone(self) -> Sequence[RaterRow]:
        """All raters, read from what the parts wrote."""
        return self._read_all()


def parted_report(fit: Fit, level: float, rules: Rules, before: Collection[str]) -> RaterReport:
    """Judge the raters of every part; those to exclude and to watch are read back first."""
    if not (isinstance(fit.priors, Priors) and fit.priors.estimated):
        text = "over the parts of a set raters are judged under estimated priors (priors='auto')"
        return RaterReport([], (text,), rules=rules)
    parted = cast("PartedResult", fit)
    whole = _consensus(fit, fit.priors)
    rows = np.concatenate(parted.by_parts(_sampled, whole, sampled_up_to(fit.triples)))
    known, p_bad, bad = likely_populations(rows[:, :-1])
    own = rows[:, -1] - np.maximum(bad, 0.0)
    whole = replace(whole, kinds=known, own_share=share_of_own(own[p_bad >= SURE]))
    found = parted.by_parts(_written, whole, level, rules, before, parted.results)
    counts: Counter[str] = Counter()
    warnings: dict[str, int] = {}
    not_known: tuple[str, ...] = ()
    for one in found:
        counts.update(one["counts"])
        for text in one["warnings"]:
            warnings[text] = warnings.get(text, 0) + 1
        not_known = not_known or one["not_known"]
    files = tuple(one["file"] for one in found if one["counts"])
    listed = _worst(parted, files, MOST_LISTED)
    p_coins = _panel_of_parts(parted)
    told = [f"{text} (in {n} of {len(files)} parts)" for text, n in warnings.items()]
    if fit.division is None and not p_coins <= LEVEL:
        told.insert(0, panel_warning(p_coins))
    n = sum(counts.values())
    if n > len(listed):
        told.append(f"the rows of all {n:,} raters are in {parted.results}")
    return PartedRaterReport(
        listed, tuple(told), rules=rules, population=known[1], not_known=not_known,
        p_coins=p_coins, counts=dict(counts),
        read_all=lambda: [row for name in files for row in rows_of(parted.read_result(name))],
    )  # fmt: skip


def _panel_of_parts(parted: PartedResult) -> float:
    """How often coins would agree as much as all raters do."""
    d, total, squares, raters = (
        np.sum(column, axis=0) for column in zip(*parted.by_parts(_panel_sums), strict=True)
    )
    return panel_p_over(
        (d, total, squares, raters), lambda: np.sum(parted.by_parts(_turned_panel), axis=0)
    )


def _panel_sums(fit: Fit, first: int) -> tuple[Floats, Floats, Floats, Floats]:
    del first
    return panel_sums(fit.data)


def _turned_panel(fit: Fit, first: int) -> Floats:
    return turned_panel(fit.data, first)


def _consensus(fit: Fit, priors: Priors) -> WholePanel:
    """The ranking of all raters, or of the members of each camp, that a rater is judged by."""
    parts: Any = fit.triples
    if fit.division is None:
        density: Any = theta_density(parts, priors, fixed=False)
        points = [density.at(fit.theta, np.empty(0))]
    else:
        points = []
        for camp, theta in enumerate(fit.division.theta):
            density = CampDensity(parts, priors, fit.division, camp)
            points.append(solve_newton(density, theta, np.empty(0), TOLERANCE).point)
    found = [np.linalg.inv(density.passes.curvature(point)) for point in points]
    return WholePanel(tuple(point.theta for point in points), tuple(found))


def _sampled(fit: Fit, first: int, whole: WholePanel, last: int) -> Floats:
    """What the answers of the sampled raters of a part say of their kinds, and of a ranking."""
    del first
    given, _, _, views = views_of(fit, whole)
    chosen = sampled_raters(given.pairs, last)[: fit.data.n_raters]
    own = ranking_evidence(fit.triples, given.weight, chosen)[chosen]
    return np.column_stack((likelihood_rows(given.pairs, views, chosen), own))


def _written(
    fit: Fit, first: int, whole: WholePanel, level: float, rules: Rules, before: Collection[str],
    results: str,
) -> dict[str, Any]:  # fmt: skip
    """Judge the raters of a part, and write their rows."""
    if not fit.data.n_raters:
        return {"counts": {}, "warnings": (), "not_known": (), "file": ""}
    report = judged(fit, level, rules, before, whole)
    name = f"raters-{first:09d}.parquet"
    write_parquet(report.to_arrow(), results, name)
    return {
        "counts": Counter(row.verdict for row in report), "warnings": report.warnings,
        "not_known": report.not_known, "file": name,
    }  # fmt: skip


def write_parquet(table: Any, folder: str, name: str) -> None:
    """Write a table as a whole, or not at all."""
    import pyarrow.parquet as pq  # noqa: PLC0415 (an extra)

    if "://" in folder:
        import fsspec  # noqa: PLC0415 (for object stores alone)

        with fsspec.open(f"{folder}/{name}", "wb") as file:
            pq.write_table(table, file)
        return
    from pathlib import Path  # noqa: PLC0415 (for folders alone)

    target = Path(folder, name)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_suffix(".new")
    pq.write_table(table, fresh)
    fresh.replace(target)


def _worst(parted: PartedResult, files: tuple[str, ...], most: int) -> list[RaterRow]:
    """The rows of the raters that matter most, as `worst_first` has them; of few raters all."""
    import pyarrow as pa  # noqa: PLC0415 (an extra)
    import pyarrow.compute as pc  # noqa: PLC0415

    kept: Any = None
    for name in files:
        table = parted.read_result(name)
        kept = table if kept is None else pa.concat_tables([kept, table])
        if len(kept) > most:
            severity = pc.index_in(kept["verdict"], pa.array(["exclude", "watch", "keep"]))
            quality = pc.fill_null(kept["quality"], np.nan).to_numpy()
            kept = kept.take(np.lexsort((quality, severity.to_numpy()))[:most])
    return [] if kept is None else rows_of(kept)


def rows_of(table: Any) -> list[RaterRow]:
    """The rows of one file; a number that is not known is NaN."""
    columns = [table[name].to_pylist() for name in RaterRow.__dataclass_fields__]
    found = []
    for values in zip(*columns, strict=True):
        given = dict(zip(RaterRow.__dataclass_fields__, values, strict=True))
        for name, value in given.items():
            if value is None:
                given[name] = float("nan")
        given["reasons"] = tuple(given["reasons"])
        found.append(RaterRow(**given))
    return found
