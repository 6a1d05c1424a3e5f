"""The plan of feedback on the page: a dry run in the background, and its going ahead."""

from __future__ import annotations

import hashlib
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from bbq_plugin.errors import BBQError
from bbq_plugin.live.excluded import keep_verdicts
from bbq_plugin.live.feedback import Standing, act, by_hand, goals_of, make_plan, settle, undo
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bbq_plugin.analysis import Analysis
    from bbq_plugin.data.actions import Action, ActionResult, FeedbackPlan, Policy
    from bbq_plugin.live.feedback import Memory, Round
    from bbq_plugin.live.server.view import View
    from bbq_plugin.protocols import FeedbackGoals, Project

__all__ = [
    "Feedback",
    "PlanState",
]


@dataclass(frozen=True)
class PlanState:
    """How far it is: what is going on, the last plan, and what went wrong."""

    what: str
    #: What is done without anybody asking.
    alone: str = ""
    busy: bool = False
    at: float | None = None
    plan: FeedbackPlan | None = None
    #: Names the plan: only the one that was looked at is carried out.
    mark: str = ""
    n_done: int = 0
    n_undone: int = 0
    #: Why some of it was left as it is.
    left: tuple[str, ...] = ()
    #: What there is to put back.
    standing: Standing = field(default_factory=Standing)
    problem: str | None = None

    @property
    def actions(self) -> Sequence[Action]:
        """Of the plan."""
        return () if self.plan is None else self.plan.actions


class Feedback:
    """One project on a server; one thing at a time."""

    def __init__(
        self,
        view: View,
        use: Callable[[Callable[[Project, Memory], None]], None],
        what: str,
        standing: Callable[[], Standing] = Standing,
    ) -> None:
        """`use` does something with the project; `standing` asks no server."""
        self._view, self._use, self._standing = view, use, standing
        self._state = PlanState(what)
        #: Called after something was written by hand: whoever plans alone has to look again.
        self.on_written: Callable[[], None] = lambda: None
        self._lock = threading.Lock()

    def state(self) -> PlanState:
        """As it is now."""
        return replace(self._state, standing=self._standing())

    def plan(self) -> bool:
        """Begin to make a plan; False if something is under way."""
        return self._begin(self._planned)

    def apply(self, mark: str) -> bool:
        """Begin to carry out the plan of that mark."""
        if not mark or mark != self._state.mark:
            return False
        return self._begin(self._applied)

    def undo(self, mark: str) -> bool:
        """Begin to put back the writes of that mark, which are all that stand."""
        if not mark or mark != self._standing().mark:
            return False
        return self._begin(lambda state: self._undone(state, mark))

    def announce(self, alone: str) -> None:
        """Say on the page what is done without anybody asking."""
        self._set(replace(self._state, alone=alone))

    def act(self, policy: Policy, stopping: Callable[[], bool]) -> Round | None:
        """Plan, and carry out what the policy allows, now; None if something is under way."""
        found: list[Round] = []

        def work(project: Project, memory: Memory) -> None:
            # Not before it is our turn: a pull that was under way has brought more.
            analysis = self._view.analysis
            if analysis is not None:
                found.append(act(project, memory, self._goals(analysis), policy, stopping))

        def acted(state: PlanState) -> PlanState:
            self._use(work)
            if not found:
                return state
            (done,) = found
            state = self._with(state, done.plan)
            left = tuple(one.left for one in done.done if one.left)
            return replace(state, n_done=state.n_done + done.n_done, left=left or state.left)

        if not self._claim():
            return None
        self._work(acted)
        return found[0] if found else None

    def _claim(self) -> bool:
        with self._lock:
            if self._state.busy:
                return False
            self._set(replace(self._state, busy=True, problem=None))
            return True

    def _begin(self, work: Callable[[PlanState], PlanState]) -> bool:
        if not self._claim():
            return False
        threading.Thread(target=self._run, args=(work,), name="bbq-feedback", daemon=True).start()
        return True

    def _run(self, work: Callable[[PlanState], PlanState]) -> None:
        # The page shows what was wrong.
        with suppress(BBQError):
            self._work(work)
        if work != self._planned:
            self.on_written()

    def _work(self, work: Callable[[PlanState], PlanState]) -> None:
        before = self._state
        try:
            after = work(before)
        except Exception as error:
            said = plain(str(error)) if isinstance(error, BBQError) else type(error).__name__
            self._set(replace(before, busy=False, problem=said))
            raise
        self._set(replace(after, busy=False))

    def _planned(self, state: PlanState) -> PlanState:
        analysis = self._view.analysis
        if analysis is None:
            return replace(state, problem="there are no answers yet")
        found: list[FeedbackPlan] = []
        goals = self._goals(analysis)

        def work(project: Project, memory: Memory) -> None:
            settle(project, memory)
            found.append(make_plan(project, memory, goals))

        self._use(work)
        return replace(self._with(state, found[0]), n_done=0, n_undone=0, left=())

    def _with(self, state: PlanState, plan: FeedbackPlan) -> PlanState:
        return replace(state, plan=plan, mark=_mark(plan), at=self._view.engine.store.clock())

    def _applied(self, state: PlanState) -> PlanState:
        plan, analysis = state.plan, self._view.analysis
        if plan is None or analysis is None:
            return state
        goals = self._goals(analysis)
        done: list[ActionResult] = []
        self._use(lambda project, memory: done.extend(by_hand(project, memory, goals, plan)))
        return _ended(state, n_done=sum(one.left is None for one in done), done=done)

    def _undone(self, state: PlanState, mark: str) -> PlanState:
        if mark != self._standing().mark:
            return replace(state, problem="more was written meanwhile; look at it again")
        done: list[ActionResult] = []
        self._use(lambda project, memory: done.extend(undo(project, memory)))
        return _ended(state, n_undone=sum(one.left is None for one in done), done=done)

    def _goals(self, analysis: Analysis) -> FeedbackGoals:
        found = goals_of(analysis)
        keep_verdicts(self._view.engine.store, analysis)
        return found

    def _set(self, state: PlanState) -> None:
        self._state = state
        self._view.touch()


def _ended(
    state: PlanState, *, n_done: int = 0, n_undone: int = 0, done: Sequence[ActionResult]
) -> PlanState:
    left = tuple(one.left for one in done if one.left)
    return replace(state, plan=None, mark="", n_done=n_done, n_undone=n_undone, left=left)


def _mark(plan: FeedbackPlan) -> str:
    said = msgspec.json.encode([(a.kind, a.target, a.before, a.after) for a in plan.actions])
    return hashlib.sha256(said).hexdigest()[:16]
