"""Keep, watch or exclude, for each rater of a fit, with reasons.

The raters of a fit over parts are judged where their answers are, and written there as Parquet.
What all raters decide together (the consensus, and the population that they are drawn from) is
found first, and is the same as in memory. The rate of wrong exclusions is then held in each part,
and so over all of them; tests of groups of raters look at the raters of one part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import isnan
from typing import Any, cast

import numpy as np

from bbq_plugin.analysis.division import differ_in_taste, inverted_camps
from bbq_plugin.analysis.leaderboard import Row, Rows
from bbq_plugin.analysis.raters.behaviour import SideBias, Sign, Signs, signs_of
from bbq_plugin.analysis.raters.leave_one_out import (
    ALIKE_LEVEL,
    TOLERANCE,
    Consensus,
    Evidence,
    WholePanel,
    alike_p,
    coins_among,
    evidence_of,
    own_ranking,
    panel_p,
    panel_warning,
    views_of,
)
from bbq_plugin.analysis.raters.verdicts import (
    FALSE_RATE,
    LEAST,
    SURE,
    THRESHOLD,
    WATCH,
    Flags,
    Rules,
    Verdict,
    expected_of,
    flags_of,
    reasons_of,
    way_back,
)
from bbq_plugin.analysis.uncertainty import relative_sd
from bbq_plugin.data.records import LeadWord
from bbq_plugin.data.triples import Codes, Floats, Mask
from bbq_plugin.errors import ConvergenceError, UsageError
from bbq_plugin.model import Fit, Priors
from bbq_plugin.model import fit as fitted
from bbq_plugin.model.camps import LEAST_RATERS, CampDensity
from bbq_plugin.model.fit import MODELS, PartedResult, in_camps
from bbq_plugin.model.objectives import LARGEST_COVARIANCE, theta_density
from bbq_plugin.model.priors import CrowdPriors
from bbq_plugin.model.rater_population import (
    LikelyPopulations,
    RaterPopulation,
    likelihood_rows,
    likely_populations,
    sampled_raters,
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
    share,
    span,
)

GROUP = 0.05  # of the raters: so many inverted ones may be a group
ONE_PLACE = 0.95  # of a group's answers with one value of a tag: a project, a form, a device
SHORT_SPAN = 0.3  # of all answers in order: a group within it answered at one time
VISIBLE = 0.01  # nats: a smaller move is none to a reader
MATTERS = 1.0  # posterior standard deviations that an item has to move by
MOST = 500  # raters whose effect is computed
REFITS = 100_000  # triples to fit again, over all raters who are left out alone
#: The models that raters can be judged by.
JUDGED = tuple(name for name, model in MODELS.items() if model.gives_verdicts)


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
        rules: Rules = Rules(),  # noqa: B008 (a frozen value)
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
    flags = flags_of(
        evidence, signs, rules, fit.raters, before, turned=turned, group=group,
        alike=lambda some: alike_p(fit, evidence, np.flatnonzero(some)) <= ALIKE_LEVEL,
        own=lambda some: _among(some, lambda raters: own_ranking(fit, evidence, raters)),
        camp_more=lambda some: _camp_more(fit, evidence, some),
        coins=lambda some: _among(some, lambda raters: coins_among(fit, evidence, raters))
        if differ_in_taste(fit) else some,
    )  # fmt: skip
    out = flags.excluded.copy()
    for r, name in enumerate(fit.raters):
        if name in words:
            out[r] = words[name].verdict == "exclude"
    excluded = np.flatnonzero(out).tolist()
    # What would change without a rater is known of all raters alone.
    shown = excluded if whole is None else []
    alone, together = effects(fit, shown, evidence.consensus)
    p_coins = panel_p(fit.data)
    return RaterReport(
        _decided(_rows(fit, evidence, signs, flags, rules, alone), words),
        (*_warnings(fit, evidence, p_coins, rules), *_groups(fit, flags, reversed_camps)),
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
    if inverted.sum() < several:
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
    left, tied, time = _counted(fit)
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


def _counted(fit: Fit) -> tuple[list[float], list[float], list[float]]:
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
    left, tied, time = _counted(fit)
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


def _warnings(fit: Fit, evidence: Evidence, p_coins: float, rules: Rules) -> tuple[str, ...]:
    within = len(evidence.left_out.within)
    warning = (
        f"{within:,} of {len(fit.raters):,} raters are judged by a ranking that includes their own "
        "votes. Their agreement looks better than it is"
    )
    # Where no rater has enough answers for a verdict, "keep" claims nothing that could mislead.
    judged = bool((evidence.n_answers >= rules.least).any())
    # In a divided panel agreement is within the camps.
    judged = judged and fit.division is None
    found = (panel_warning(p_coins) if judged else "", warning if within else "")
    return tuple(text for text in found if text)


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
        f"{head}. So small a group has more often swapped the keys or misread the question than "
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
                "of the others' have it, which speaks for a fault there"
            )
    if answers is None:
        return text
    if answers.gold is not None and (answers.gold[rows] != 0).any():
        said = answers.gold[rows]
        right = float(np.mean(said[said != 0] > 0))
        speaks = "taste" if right > 0.5 else "swapped keys"
        text += (
            f". It answered {right:.0%} of {np.sum(said != 0):,} known questions right, which "
            f"speaks for {speaks}"
        )
    if answers.dated and answers.order is not None:
        order = answers.order[rows]
        span = (float(order.max()) - float(order.min())) / max(float(np.ptp(answers.order)), 1.0)
        when = f"within {span:.0%} of the study's course"
        text += f". Its answers came {when}, which speaks for " + (
            "a fault at one time" if span < SHORT_SPAN else "no fault at one time"
        )
    return text


# -- what an exclusion changes


@dataclass(frozen=True, slots=True)
class Effect:
    """``moved`` items change places; ``shift_sd`` is the largest move in the item's own sd."""

    best_with: str
    best_without: str
    moved: int
    shift: float
    shift_sd: float

    @property
    def matters(self) -> bool:
        """Another best item, or an item that moves by more than its standard deviation."""
        return self.best_with != self.best_without or self.shift_sd > MATTERS

    @property
    def text(self) -> str:
        """What changes in the leaderboard, in words."""
        same_best = self.best_with == self.best_without
        if same_best and not self.moved and self.shift < VISIBLE:
            return "no rank changes"
        best = f"stays {self.best_with}"
        if not same_best:
            best = f"is {self.best_without} instead of {self.best_with}"
        moved = f"{self.moved} items change rank" if self.moved else "no rank changes"
        shift = f"{self.shift:.2f} nats, {self.shift_sd:.1f} standard deviations"
        return f"the best item {best}, and {moved}. The largest shift is {shift}"


def effects(
    fit: Fit, raters: list[int], consensus: tuple[Consensus, ...]
) -> tuple[dict[int, Effect], Effect | None]:
    """Of leaving out each of these raters alone, and all of them, under the fit's own priors.

    Each is a refit, as far as `REFITS` goes, those with the largest effect first; of the others, in
    large studies, it is one Newton step of the same log-posterior.
    """
    priors = fit.priors
    if not raters or isinstance(priors, CrowdPriors) or len(fit.items) > LARGEST_COVARIANCE:
        return {}, None
    raters_shown = raters[:MOST]
    # The mode that the leaderboard shows: joint under given priors, else quality integrated out.
    joint = not (isinstance(priors, Priors) and priors.estimated)
    top = consensus[0]
    if joint or len(consensus) > 1:
        top = Consensus(fit.triples, priors, fit.theta, fit.quality, joint=joint)
    sd = relative_sd(fit.laplace.covariance)
    without = {r: fit.theta + (top.theta_without(r) - top.theta) for r in raters_shown}
    size = {r: float(np.ptp(without[r] - fit.theta)) for r in raters_shown}
    n_refits = REFITS // max(fit.triples.size, 1)
    if len(fit.raters) > 1:
        for r in sorted(raters_shown, key=size.__getitem__, reverse=True)[:n_refits]:
            without[r] = fit.theta_without([r])
    alone = {r: _compared(fit.items, fit.theta, without[r], sd) for r in raters_shown}
    if len(raters) == len(fit.raters):
        return alone, None
    return alone, _compared(fit.items, fit.theta, fit.theta_without(raters), sd)


def _compared(items: tuple[str, ...], before: Floats, after: Floats, sd: Floats) -> Effect:
    before, after = before - before.mean(), after - after.mean()
    first, second = (np.argsort(-theta, kind="stable") for theta in (before, after))
    shift = np.abs(after - before)
    return Effect(
        best_with=items[int(first[0])],
        best_without=items[int(second[0])],
        moved=int(np.count_nonzero(first != second)),
        shift=float(shift.max()),
        shift_sd=float((shift / np.maximum(sd, 1e-150)).max()),
    )


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
    rows = parted.by_parts(_sampled, whole, sampled_raters(fit.triples))
    known: LikelyPopulations = likely_populations(np.concatenate(rows))
    whole = replace(whole, kinds=known)
    found = parted.by_parts(_written, whole, level, rules, before, parted.results)
    counts: Counter[str] = Counter()
    warnings: dict[str, int] = {}
    not_known: tuple[str, ...] = ()
    p_coins = float("nan")
    for one in found:
        counts.update(one["counts"])
        for text in one["warnings"]:
            warnings[text] = warnings.get(text, 0) + 1
        not_known = not_known or one["not_known"]
        p_coins = float(np.nanmin((p_coins, one["p_coins"]))) if one["counts"] else p_coins
    files = tuple(one["file"] for one in found if one["counts"])
    listed = _worst(parted, files, MOST_LISTED)
    told = [f"{text} (in {n} of {len(files)} parts)" for text, n in warnings.items()]
    n = sum(counts.values())
    if n > len(listed):
        told.append(f"the rows of all {n:,} raters are in {parted.results}")
    return PartedRaterReport(
        listed, tuple(told), rules=rules, population=known[1], not_known=not_known,
        p_coins=p_coins, counts=dict(counts),
        read_all=lambda: [row for name in files for row in rows_of(parted.read_result(name))],
    )  # fmt: skip


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


def _sampled(fit: Fit, first: int, whole: WholePanel, chosen: Codes) -> Floats:
    """What the answers of the sampled raters of a part say of their kinds."""
    mine = chosen[(chosen >= first) & (chosen < first + fit.data.n_raters)] - first
    given, _, _, views = views_of(fit, whole)
    return likelihood_rows(given.pairs, views, mine)


def _written(
    fit: Fit, first: int, whole: WholePanel, level: float, rules: Rules, before: Collection[str],
    results: str,
) -> dict[str, Any]:  # fmt: skip
    """Judge the raters of a part, and write their rows."""
    if not fit.data.n_raters:
        return {"counts": {}, "warnings": (), "not_known": (), "p_coins": np.nan, "file": ""}
    report = judged(fit, level, rules, before, whole)
    name = f"raters-{first:09d}.parquet"
    write_parquet(report.to_arrow(), results, name)
    return {
        "counts": Counter(row.verdict for row in report), "warnings": report.warnings,
        "not_known": report.not_known, "p_coins": report.p_coins, "file": name,
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
