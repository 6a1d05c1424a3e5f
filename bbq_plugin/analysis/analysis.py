"""One analysis of a fit: the leaderboard, camps, the raters, what to compare next, when to stop.

Every reader of these (the command line, the daemon's files, the page, a push, the hook) asks an
`Analysis`. Two readers with the same fit, the same limits and the same list of raters who were
excluded before get the same verdicts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from bbq_plugin.analysis.agreement import InterRater, PanelDivision, inter_rater, panel_division
from bbq_plugin.analysis.leaderboard import (
    EffectRow,
    Leaderboard,
    Scale,
    checked_camp,
    effect_rows,
    leaderboard,
)
from bbq_plugin.analysis.next_pairs import (
    AnswerWorth,
    Goal,
    NextPairs,
    information_of,
    judged_elsewhere,
    next_pairs,
)
from bbq_plugin.analysis.raters import (
    FALSE_RATE,
    LEAST,
    THRESHOLD,
    RaterReport,
    gives_verdicts,
    judging_fit,
    rater_report,
)
from bbq_plugin.analysis.stability import Fragility, fragility
from bbq_plugin.analysis.stopping import TOP_K, Stopping, stopping
from bbq_plugin.analysis.uncertainty import Intervals
from bbq_plugin.data.records import LeadWord, PlanWorth
from bbq_plugin.data.triples import Floats
from bbq_plugin.model import Fit
from bbq_plugin.model.kernels import likelihood as kernels
from bbq_plugin.model.objectives import LARGEST_COVARIANCE

T = TypeVar("T")
# Lists of next pairs that are kept.
_LISTS = 8


@dataclass(frozen=True, slots=True)
class Limits:
    """What the results of a fit depend on besides the fit.

    ``level`` is that of all intervals. ``false_rate``, ``least`` and ``threshold`` are those of
    `rater_report`, ``intervals`` and ``scale`` those of `leaderboard`. ``top_k`` is the number of
    best items whose forecast is made, ``for_camp`` the camp (from 1) whose ranking it is about;
    None: the preference of the whole panel.
    """

    level: float = 0.95
    false_rate: float = FALSE_RATE
    least: int = LEAST
    threshold: float = THRESHOLD
    intervals: Intervals = "auto"
    scale: Scale = "elo"
    top_k: int | None = TOP_K
    seed: int = 0
    for_camp: int | None = None


class Analysis:
    """What follows from a fit. Each part is computed once, when it is first asked for.

    ``previously_excluded`` are raters whom an earlier analysis excluded: they come back only when
    little is left against them. ``words`` are what a lead has decided about raters. ``raters`` are
    verdicts that were made elsewhere: those on all answers, where the fit is of a slice of them.
    ``at`` is when the answers were as they are here, in seconds since 1970. Any thread may ask.
    """

    def __init__(
        self,
        fit: Fit,
        limits: Limits = Limits(),
        previously_excluded: Collection[str] = (),
        *,
        words: Mapping[str, LeadWord] = {},
        at: float = 0.0,
        raters: RaterReport | None = None,
    ) -> None:
        self.fit, self.limits, self.at = fit, limits, at
        self.words = dict(words)
        self.previously_excluded = frozenset(previously_excluded)
        self._lock = threading.Lock()
        self._locks: dict[Hashable, threading.Lock] = {}
        self._parts: dict[Hashable, Any] = {} if raters is None else {"raters": raters}

    def _once(self, name: Hashable, make: Callable[[], T]) -> T:
        # Each part has its own lock: the leaderboard does not wait for the verdicts.
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            if name not in self._parts:
                self._parts[name] = make()
            return cast("T", self._parts[name])

    # -- items

    @property
    def leaderboard(self) -> Leaderboard:
        """The items, the best first."""
        to = self.limits
        return self._once(
            "leaderboard",
            lambda: leaderboard(self.fit, to.intervals, to.level, to.scale, seed=to.seed),
        )

    @property
    def better(self) -> Floats | None:
        """P(row i is better than row j) in the leaderboard's order; None of too many items."""
        if len(self.fit.items) > LARGEST_COVARIANCE:
            return None
        board = self.leaderboard
        return self._once("better", lambda: board.better)

    @property
    def effects(self) -> tuple[EffectRow, ...]:
        """What the covariates do that are held equal; none without."""
        to = self.limits
        return self._once("effects", lambda: effect_rows(self.fit, to.level, to.scale))

    @property
    def without_covariates(self) -> Leaderboard | None:
        """The leaderboard as it is without covariates; None of a fit that has none."""
        to, fit = self.limits, self.fit.judged
        if fit is self.fit:
            return None
        return self._once(
            "without covariates",
            lambda: leaderboard(fit, to.intervals, to.level, to.scale, seed=to.seed),
        )

    # -- a divided panel

    @property
    def division(self) -> PanelDivision:
        """The camps, and the axis along which raters differ."""
        return self._once("division", lambda: panel_division(self.fit))

    @property
    def camp_boards(self) -> tuple[Leaderboard, ...]:
        """The leaderboard of each camp; none if there is one camp."""
        to, fit = self.limits, self.fit
        # Resampled or drawn intervals are those of the whole panel.
        kind: Intervals = "laplace" if to.intervals == "laplace" else "robust"
        return self._once(
            "camp boards",
            lambda: tuple(
                leaderboard(fit, kind, to.level, to.scale, seed=to.seed, camp=row.camp)
                for row in self.division
                if self.division.divided
            ),
        )

    @property
    def n_groups(self) -> int:
        """Into how many groups the items fall that were never compared with each other."""
        t = self.fit.data.pooled
        return self._once(
            "groups", lambda: int(np.unique(kernels.groups(t.winner, t.loser, t.n_items)).size)
        )

    @property
    def stopping(self) -> Stopping:
        """What is settled, and how many comparisons are still needed; as `Limits.for_camp` says."""
        to, board = self.limits, self.leaderboard
        if to.for_camp is not None:
            place = checked_camp(self.fit, to.for_camp)
            board = (self.camp_boards or (board,))[place]
        return self._once(
            "stopping", lambda: stopping(self.fit, board, top_k=to.top_k, seed=to.seed)
        )

    @property
    def fragility(self) -> Fragility | None:
        """What the first place hangs on; None of several camps, or of too many answers."""
        return self._once("fragility", lambda: fragility(self.fit))

    # -- raters

    @property
    def raters(self) -> RaterReport:
        """The raters with verdicts, if the model gives any."""
        to = self.limits
        return self._once(
            "raters",
            lambda: rater_report(
                self.fit, to.level, false_rate=to.false_rate, least=to.least,
                threshold=to.threshold, before=self.previously_excluded, words=self.words,
            ),
        )  # fmt: skip

    @property
    def inter_rater(self) -> InterRater | None:
        """Percent agreement and Krippendorff's alpha, which ask no model; None over parts."""
        if self.fit.in_parts:
            return None
        data, level = self.fit.data, self.limits.level
        return self._once("inter-rater", lambda: inter_rater(data, level))

    @property
    def judged(self) -> bool:
        """Whether there are verdicts already, so that it costs nothing to ask for them."""
        return "raters" in self._parts and gives_verdicts(self.fit)

    @property
    def judge(self) -> Analysis:
        """The analysis that says whom to exclude: this one, or bbq's where the model cannot."""
        fit = self._once("judge", lambda: judging_fit(self.fit))
        if fit is self.fit:
            return self
        return self._once(
            "judge's",
            lambda: Analysis(
                fit, self.limits, self.previously_excluded, words=self.words, at=self.at
            ),
        )

    # -- what to compare next

    def pairs(
        self,
        n: int = 50,
        *,
        goal: Goal = "ranking",
        top_k: int | None = None,
        among: Sequence[str] | None = None,
        raters: Sequence[str] | None = None,
        camp: int | None = None,
    ) -> NextPairs:
        """What to compare next, as in `next_pairs`; no rater is asked who is excluded here."""

        def make() -> NextPairs:
            exclude = None if raters is None else self.judge.raters.excluded
            found = next_pairs(
                self.fit, n, goal=goal, top_k=top_k, among=among, raters=raters, exclude=exclude,
                camp=camp, seed=self.limits.seed,
            )  # fmt: skip
            if raters is not None and self.judge is not self:
                found.warnings = (judged_elsewhere(self.fit), *found.warnings)
            return found

        listed = (None if names is None else tuple(names) for names in (among, raters))
        asked = ("pairs", n, goal, top_k, camp, *listed)
        found = self._once(asked, make)
        self._keep_newest(asked)
        return found

    def _keep_newest(self, asked: tuple[Hashable, ...]) -> None:
        """Keep only the last few lists of a kind: callers may ask for ever other ones."""
        with self._lock:
            if asked in self._parts:
                self._parts[asked] = self._parts.pop(asked)
            same = [name for name in self._parts if isinstance(name, tuple) and name[0] == asked[0]]
            for name in same[:-_LISTS]:
                del self._parts[name]
                self._locks.pop(name, None)

    @property
    def answer_worth(self) -> AnswerWorth | None:
        """What answers that are not given yet would change; None of too many items."""
        if not 1 < len(self.fit.items) <= LARGEST_COVARIANCE:
            return None
        board, seed = self.leaderboard, self.limits.seed
        return self._once("worth", lambda: AnswerWorth(self.fit, board, seed))

    def next_worth(self, n: int, goal: Goal = "ranking") -> PlanWorth | None:
        """What ``n`` answers would change, on pairs chosen for it; None of too many items."""
        worth = self.answer_worth
        if worth is None:
            return None
        return self._once(("next worth", n, goal), lambda: worth.chosen(n, goal))

    def information_bits(self, items: Sequence[str]) -> float | None:
        """What one more answer on these items would tell; None if one of them is not known."""
        if not 1 < len(self.fit.items) <= LARGEST_COVARIANCE:
            return None
        return self._once("information", lambda: information_of(self.fit))(items)
