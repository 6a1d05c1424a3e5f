"""Keep, watch or exclude, for each rater of a fit, with reasons."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from bbq_plugin.analysis.leaderboard import Row, Rows
from bbq_plugin.analysis.raters.evidence import Evidence, evidence_of, panel_p, panel_warning
from bbq_plugin.analysis.raters.signs import Sign, Signs, signs_of
from bbq_plugin.analysis.raters.verdicts import (
    FALSE_RATE,
    LEAST,
    SURE,
    THRESHOLD,
    Flags,
    Rules,
    Verdict,
    expected_of,
    flags_of,
    reasons_of,
    way_back,
)
from bbq_plugin.analysis.uncertainty import relative_sd
from bbq_plugin.data.triples import Floats
from bbq_plugin.errors import UsageError
from bbq_plugin.model import Fit, Priors
from bbq_plugin.model import fit as fitted
from bbq_plugin.model.fit import MODELS
from bbq_plugin.model.leave_out import Consensus
from bbq_plugin.model.objectives import LARGEST_COVARIANCE
from bbq_plugin.model.priors import CrowdPriors
from bbq_plugin.model.rater_types import RaterPopulation

VISIBLE = 0.01  # nats: a smaller move is none to a reader
MATTERS = 1.0  # posterior standard deviations that an item has to move by
MOST = 500  # raters whose effect is computed
REFITS = 1_000_000  # triples to fit again, over all raters who are left out alone
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
    median_time_s: float
    verdict: Verdict
    reasons: tuple[str, ...]
    p_guesser: float = float("nan")
    p_inverted: float = float("nan")
    p_below: float = float("nan")
    agreement_expected: float = float("nan")
    left_expected: float = float("nan")
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
        """The names of those to exclude: what a later report takes as ``before``."""
        return tuple(row.rater for row in self._rows if row.verdict == "exclude")

    def __repr__(self) -> str:
        return f"<RaterReport: {len(self)} raters, {len(self.excluded)} to exclude>"


def rater_report(
    fit: Fit,
    level: float = 0.95,
    *,
    false_rate: float = FALSE_RATE,
    least: int = LEAST,
    threshold: float = THRESHOLD,
    before: Collection[str] = (),
) -> RaterReport:
    """Quality with its interval, agreement and a verdict with reasons, for each rater of a fit.

    ``before`` names raters who were excluded by an earlier report: they come back only when
    little is left against them, so that a verdict does not change with every vote.
    """
    for name, value in (("level", level), ("false_rate", false_rate), ("threshold", threshold)):
        if not 0 < value < 1:
            raise UsageError(f"{name}={value!r}: expected a number between 0 and 1 such as 0.05")
    rules = Rules(false_rate, least, threshold)
    if not gives_verdicts(fit):
        return _without_verdicts(fit, rules)
    evidence = evidence_of(fit, level, threshold)
    population = evidence.kinds.population
    signs = signs_of(fit.data, evidence.left_out.s, fit.quality, population, least)
    turned = MODELS[fit.model].uses_inverted
    flags = flags_of(evidence, signs, rules, fit.raters, before, turned=turned)
    excluded = np.flatnonzero(flags.excluded).tolist()
    alone, together = effects(fit, excluded)
    p_coins = panel_p(fit.data)
    return RaterReport(
        _rows(fit, evidence, signs, flags, rules, alone),
        _warnings(fit, evidence, p_coins, rules),
        rules=rules,
        population=population,
        without_excluded=together,
        not_known=tuple(signs.not_known),
        p_coins=p_coins,
        by_others=evidence.left_out.s,
    )


def gives_verdicts(fit: Fit) -> bool:
    """Whether raters can be judged by this fit."""
    return bool(fit.raters) and MODELS[fit.model].gives_verdicts


def judging_fit(fit: Fit) -> Fit:
    """The fit that raters are judged by: this one, or bbq's of the same data if it cannot."""
    if gives_verdicts(fit) or not fit.raters:
        return fit
    if isinstance(fit.priors, Priors) and not fit.priors.estimated:
        return fitted(fit.data, priors=fit.priors)
    return fitted(fit.data, priors="auto")


def _without_verdicts(fit: Fit, rules: Rules) -> RaterReport:
    if not fit.raters:
        return RaterReport([], rules=rules)
    t, nan = fit.data.triples, float("nan")
    rater = t.rater()
    n = np.bincount(rater, t.weight, t.n_raters)
    ahead = np.sign(fit.theta[t.winner] - fit.theta[t.loser])
    agreed = np.bincount(rater, t.weight * 0.5 * (1.0 + ahead), t.n_raters)
    rows = [
        RaterRow(
            name, float(n[r]), float(fit.quality[r]) if fit.rated else nan, nan, nan,
            float(agreed[r] / n[r]) if n[r] else nan, *_counted(fit, r), "keep", (),
        )
        for r, name in enumerate(fit.raters)
    ]  # fmt: skip
    warning = f"{fit.model} gives no verdicts on raters: fit model='bbq' for these"
    return RaterReport(rows, (warning,), rules=rules)


def _counted(fit: Fit, r: int) -> tuple[float, float]:
    """Left rate and median time, where they are known."""
    known = (fit.data.left_rate, fit.data.median_time_s)
    left, time = (float("nan") if column is None else float(column[r]) for column in known)
    return left, time


def _rows(
    fit: Fit, evidence: Evidence, signs: Signs, flags: Flags, rules: Rules,
    without: dict[int, Effect],
) -> list[RaterRow]:  # fmt: skip
    kinds, expected = evidence.kinds, expected_of(fit, evidence)
    verdict: list[Verdict] = np.select(
        [flags.excluded, flags.watched], ["exclude", "watch"], "keep"
    ).tolist()
    rows = []
    for r, name in enumerate(fit.raters):
        effect = without.get(r)
        left, time = _counted(fit, r)
        rows.append(
            RaterRow(
                rater=name,
                n=float(evidence.n[r]),
                quality=float(fit.quality[r]),
                quality_lower=float(evidence.lower[r]),
                quality_upper=float(evidence.upper[r]),
                agreement=float(evidence.agreement[r]),
                left_rate=left,
                median_time_s=time,
                verdict=verdict[r],
                reasons=reasons_of(r, evidence, signs, flags, expected, rules),
                p_guesser=float(kinds.p_guesser[r]),
                p_inverted=float(kinds.p_inverted[r]),
                p_below=float(kinds.p_below[r]),
                agreement_expected=float(expected.agreement[r]),
                left_expected=_of(signs.left, "expected", r),
                tempo=_of(signs.tempo, "seen", r),
                self_consistency=_of(signs.repeats, "seen", r),
                self_consistency_expected=_of(signs.repeats, "expected", r),
                drift=_of(signs.drift, "seen", r) - _of(signs.drift, "expected", r),
                n_gold=_of(signs.gold, "n", r),
                gold_rate=_of(signs.gold, "seen", r),
                gold_expected=_of(signs.gold, "expected", r),
                moved=float("nan") if effect is None else float(effect.moved),
                shift_sd=float("nan") if effect is None else effect.shift_sd,
                effect="" if effect is None else effect.text,
                way_back=way_back(r, evidence, flags, expected) if flags.excluded[r] else "",
            )
        )
    return rows


def _of(sign: Sign | None, what: str, r: int) -> float:
    return float("nan") if sign is None else float(getattr(sign, what)[r])


def _warnings(fit: Fit, evidence: Evidence, p_coins: float, rules: Rules) -> tuple[str, ...]:
    within = len(evidence.left_out.within)
    warning = (
        f"{within:,} of {len(fit.raters):,} raters are judged by a ranking that includes their own "
        "votes. Their agreement looks better than it is"
    )
    # Where no rater has enough answers for a verdict, "keep" claims nothing that could mislead.
    judged = bool((evidence.n_answers >= rules.least).any())
    found = (panel_warning(p_coins) if judged else "", warning if within else "")
    return tuple(text for text in found if text)


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


def effects(fit: Fit, raters: list[int]) -> tuple[dict[int, Effect], Effect | None]:
    """Of leaving out each of these raters alone, and all of them, under the fit's own priors.

    Each is a refit, as far as `REFITS` goes, those with the largest effect first; of the others, in
    large studies, it is one Newton step of the same log-posterior.
    """
    priors = fit.priors
    if not raters or isinstance(priors, CrowdPriors) or len(fit.items) > LARGEST_COVARIANCE:
        return {}, None
    raters_shown = raters[:MOST]
    # The mode that the leaderboard shows: joint under given priors, else quality integrated out.
    joint = fit.population is None
    top = Consensus(fit.data.triples, priors, fit.theta, fit.quality, joint=joint)
    sd = relative_sd(fit.laplace.covariance)
    without = {r: fit.theta + (top.theta_without(r) - top.theta) for r in raters_shown}
    size = {r: float(np.ptp(without[r] - fit.theta)) for r in raters_shown}
    n_refits = max(1, REFITS // max(fit.data.triples.size, 1))
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
