"""The reasons for a verdict in words: each at most two short sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bbq_plugin.analysis.raters.evidence import Evidence, SlateSums
from bbq_plugin.analysis.raters.rules import BACK, Flags, Rules
from bbq_plugin.analysis.raters.signs import Signs
from bbq_plugin.analysis.uncertainty import Floats
from bbq_plugin.model import Fit
from bbq_plugin.text import p_equals

if TYPE_CHECKING:
    from bbq_plugin.analysis.raters.report import Effect

FAR = 10_000  # answers beyond which no rater comes back
VISIBLE = 0.01  # nats: a smaller move is none to a reader
CHECK_KEYS = "Check the task's wording and the key mapping first"


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """Of a typical honest rater on the same pairs: agreement, and nats an answer."""

    agreement: Floats
    nats: Floats


def expected_of(fit: Fit, evidence: Evidence) -> Expected:
    """What a typical honest rater would have shown, pair by pair."""
    given, typical = evidence.given, evidence.kinds.population.typical_quality
    t, s = fit.data.triples, np.abs(evidence.left_out.s)
    p = 0.5 + typical * s
    rater, pairs = t.rater(), given.pairs.weight
    agreed = np.bincount(rater, given.weight * p, t.n_raters)
    nats = np.bincount(rater, pairs * _distance(p), t.n_raters)
    slates = given.slate_sums(_distance(0.5 + s), -0.5 * np.log1p(-4.0 * np.minimum(s, 0.499) ** 2))
    if slates is not None:
        nats = nats + np.bincount(slates.rater, _slate_nats(slates, typical), t.n_raters)
    return Expected(
        agreed / np.maximum(evidence.n, 1e-300), nats / np.maximum(given.n_answers, 1e-300)
    )


def _distance(p: Floats) -> Floats:
    """Nats by which answers of chance p differ from a coin's."""
    return np.asarray(p * np.log(2 * p) + (1 - p) * np.log(2 * np.maximum(1 - p, 1e-300)))


def _slate_nats(slates: SlateSums, typical: float) -> Floats:
    """The same of a ranking: informed it is likelier by R, guessed less likely than a coin's."""
    informed = np.log1p(typical * np.expm1(np.minimum(slates.first, 300.0)))
    guessed = np.log1p(typical * np.expm1(-slates.second))
    return np.asarray(typical * informed + (1 - typical) * guessed)


def reasons_of(
    r: int, evidence: Evidence, signs: Signs, flags: Flags, expected: Expected, rules: Rules
) -> tuple[str, ...]:
    """All that speaks against rater ``r``, the gravest first."""
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
    turned = kinds.p_inverted[r] > kinds.p_guesser[r]
    head = ""
    if flags.inverted[r]:
        head = "inverted"
    elif flags.by_answers[r] or flags.suspect[r] or flags.still_out[r]:
        if turned:
            head = "may be inverted"
        elif tied:
            head = "never decides"
        else:
            head = "answers like a coin" if flags.by_answers[r] else "may be guessing"
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
    if flags.still_out[r] and not flags.by_answers[r]:
        found.append(
            f"was excluded before: P(guessing or inverted) is {evidence.p_bad[r]:.2f}, and has to "
            f"fall below {BACK:g}"
        )
    return found


def _counted(r: int, evidence: Evidence) -> str:
    """So many comparisons, and the rankings that they came from."""
    slates, answers = evidence.given.n_slates[r], evidence.n_answers[r]
    found = f"{evidence.n[r]:,.0f} comparisons"
    if not slates:
        return found
    rankings = f"{slates:,.0f} ranking{'s' if slates > 1 else ''}"
    single = answers - slates
    return f"{found} in {rankings}" + (f" and {single:,.0f} pairs" if single >= 0.5 else "")


def _single(r: int, signs: Signs, flags: Flags) -> list[str]:
    found = []
    if signs.left is not None and (flags.by_button[r] or flags.lean[r]):
        left = signs.left
        side, share = ("left", left.seen[r]) if left.seen[r] >= 0.5 else ("right", 1 - left.seen[r])
        told = left.expected[r] if side == "left" else 1 - left.expected[r]
        head = "always the same button" if flags.by_button[r] else "leans to one side"
        found.append(
            f"{head}: {share:.0%} of {left.n[r]:,.0f} answers went {side}, where {told:.0%} were "
            f"expected (p {_p(left.p[r])})"
        )
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


def effect_text(effect: Effect) -> str:
    """What excluding one or more raters changes in the leaderboard."""
    same_best = effect.best_with == effect.best_without
    if same_best and not effect.moved and effect.shift < VISIBLE:
        return "no rank changes"
    best = (
        f"the best item stays {effect.best_with}"
        if same_best
        else f"the best item is {effect.best_without} instead of {effect.best_with}"
    )
    moved = f"{effect.moved} items change rank" if effect.moved else "no rank changes"
    shift = f"{effect.shift:.2f} nats, {effect.shift_sd:.1f} standard deviations"
    return f"{best}, and {moved}. The largest shift is {shift}"


def _p(p: float) -> str:
    return f"= {p:.2g}" if p >= 1e-6 else "< 1e-6"
