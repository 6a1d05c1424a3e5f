"""Feedback on the page: plans are made, applied and undone in the background, one at a time."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from bbq_plugin.errors import BBQError
from bbq_plugin.live import push
from bbq_plugin.live.jobs import Job, Next
from bbq_plugin.live.push import act, goals_of
from bbq_plugin.store.project_sync import Standing
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bbq_plugin.data.feedback_actions import (
        Action,
        ActionResult,
        FeedbackPlan,
        Policy,
        Relabel,
    )
    from bbq_plugin.live.health import Problems
    from bbq_plugin.live.push import OpenProject, Round
    from bbq_plugin.live.server.page_state import View
    from bbq_plugin.protocols import FeedbackGoals, Project
    from bbq_plugin.store.project_sync import Memory


@dataclass(frozen=True, slots=True)
class ActionGroup:
    """Actions of one kind because of the same raters."""

    kind: str
    raters: tuple[str, ...]
    actions: tuple[Action, ...]

    @property
    def tasks(self) -> list[int]:
        """The tasks that they are about, in their order."""
        found = (action.after.get("task") or action.ref for action in self.actions)
        return [int(task) for task in found if task] if self.kind in _ABOUT_TASKS else []


# Kinds that are about a task each.
_ABOUT_TASKS = ("relabel", "cancel", "predict")


def grouped(actions: Iterable[Action]) -> list[ActionGroup]:
    """Actions by kind and by the raters they are because of, in the order of the plan."""
    found: dict[tuple[str, tuple[str, ...]], list[Action]] = {}
    kinds: dict[str, int] = {}
    for action in actions:
        kinds.setdefault(action.kind, len(kinds))
        found.setdefault((action.kind, action.raters), []).append(action)
    groups = [ActionGroup(kind, raters, tuple(some)) for (kind, raters), some in found.items()]
    return sorted(groups, key=lambda group: (kinds[group.kind], -len(group.actions)))


@dataclass(frozen=True)
class PlanState:
    """What the page shows: what is going on, the last plan, and what went wrong."""

    what: str
    #: The number of the project.
    project: int | None = None
    #: What is done automatically.
    automatic: str = ""
    busy: bool = False
    at: float | None = None
    plan: FeedbackPlan | None = None
    #: Names the plan: only the one that was shown is applied.
    mark: str = ""
    n_done: int = 0
    n_undone: int = 0
    #: How far the work in hand is: actions that are through, and all of them.
    through: tuple[int, int] | None = None
    #: Why some of it was left as it is.
    left: tuple[str, ...] = ()
    #: What there is to undo.
    standing: Standing = field(default_factory=Standing)
    problem: str | None = None

    @property
    def actions(self) -> Sequence[Action]:
        """Of the plan."""
        return () if self.plan is None else self.plan.actions

    @property
    def groups(self) -> list[ActionGroup]:
        """The same by kind and raters."""
        return grouped(self.actions)


class Feedback:
    """The feedback of the page: plans, applies and undoes in the background, one at a time."""

    def __init__(
        self,
        view: View,
        project: OpenProject,
        project_id: int,
        standing: Callable[[], Standing],
        problems: Problems,
        relabel: Relabel = "useful",
        views: Callable[[], Mapping[str, View]] | None = None,
    ) -> None:
        """`standing` asks no server. `views` are those of the project's studies, by name."""
        self._views = views or (lambda: {"": view})
        self._relabel: Relabel = relabel
        self._view, self._use, self._standing, self._problems = (
            view,
            project.use,
            standing,
            problems,
        )
        self._state = PlanState(f"Project {project_id}", project_id)
        #: Called after something was written by hand: the automatic rounds have to look again.
        self.on_written: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._requested: Callable[[PlanState], PlanState] = self._planned
        self.job = Job("feedback", self._run, self._failed)

    def state(self) -> PlanState:
        """As it is now."""
        return replace(self._state, standing=self._standing())

    def plan(self) -> bool:
        """Begin to make a plan; False if something is in progress."""
        return self._begin(self._planned)

    def apply(self, mark: str) -> bool:
        """Begin to apply the plan of that mark."""
        if not mark or mark != self._state.mark:
            return False
        return self._begin(self._applied)

    def undo(self, mark: str) -> bool:
        """Begin to undo the changes of that mark, which are all that stand."""
        if not mark or mark != self._standing().mark:
            return False
        return self._begin(lambda state: self._undone(state, mark))

    def announce(self, automatic: str) -> None:
        """Say on the page what is done automatically."""
        self._set(replace(self._state, automatic=automatic))

    def act(self, policy: Policy, stopping: Callable[[], bool]) -> Round | None:
        """Plan, and apply what the policy allows, now; None if something else is in progress."""
        done: Round | None = None

        def work(project: Project, memory: Memory) -> Round | None:
            # Not before it is our turn: a pull in progress may have brought more.
            goals = self._goals()
            return None if goals is None else act(project, memory, goals, policy, stopping)

        def acted(state: PlanState) -> PlanState:
            nonlocal done
            done = self._use(work)
            if done is None:
                return state
            state = self._with(state, done.plan)
            left = tuple(one.left for one in done.done if one.left)
            return replace(state, n_done=state.n_done + done.n_done, left=left or state.left)

        if not self._claim():
            return None
        self._work(acted)
        return done

    def _claim(self) -> bool:
        with self._lock:
            if self._state.busy:
                return False
            self._set(replace(self._state, busy=True, problem=None))
            return True

    def _begin(self, work: Callable[[PlanState], PlanState]) -> bool:
        if not self._claim():
            return False
        self._requested = work
        self.job.wake()
        return True

    def _run(self) -> Next:
        work = self._requested
        try:
            self._work(work)
        finally:
            if work != self._planned:
                self.on_written()
        return Next()

    def _failed(self, error: Exception) -> Next:
        # What is expected to go wrong is on the page.
        if not isinstance(error, BBQError):
            self._problems.report("plan", error)
        return Next()

    def _work(self, work: Callable[[PlanState], PlanState]) -> None:
        before = self._state
        try:
            after = work(before)
        except Exception as error:
            said = plain(str(error)) if isinstance(error, BBQError) else type(error).__name__
            self._set(replace(before, busy=False, through=None, problem=said))
            raise
        self._set(replace(after, busy=False, through=None))
        self._problems.over("plan")

    def _planned(self, state: PlanState) -> PlanState:
        goals = self._goals()
        if goals is None:
            return replace(state, problem="there are no answers yet")

        def work(project: Project, memory: Memory) -> FeedbackPlan:
            push.settle(project, memory)
            return push.make_plan(project, memory, goals)

        return replace(self._with(state, self._use(work)), n_done=0, n_undone=0, left=())

    def _with(self, state: PlanState, plan: FeedbackPlan) -> PlanState:
        names = [plain(name) for name, view in self._views().items() if view.analysis is not None]
        if len(names) > 1:
            said = f"the verdicts are those of all studies of the project ({', '.join(names)})"
            plan = replace(plan, notes=(*plan.notes, said))
        return replace(state, plan=plan, mark=_mark(plan), at=self._view.engine.store.clock())

    def _applied(self, state: PlanState) -> PlanState:
        plan, goals = state.plan, self._goals()
        if plan is None or goals is None:
            return state
        n = len(plan.actions)
        done = self._use(
            lambda project, memory: self._followed(push.by_hand(project, memory, goals, plan), n)
        )
        return _ended(state, n_done=sum(one.left is None for one in done), done=done)

    def _followed(self, results: Iterable[ActionResult], n: int) -> list[ActionResult]:
        """The results, each told to the page as it comes."""
        done = []
        for one in results:
            done.append(one)
            self._set(replace(self._state, through=(len(done), n)))
        return done

    def _undone(self, state: PlanState, mark: str) -> PlanState:
        if mark != self._standing().mark:
            return replace(
                state, problem="more was written meanwhile; load the page again and check"
            )
        n = self._standing().n
        done = self._use(lambda project, memory: self._followed(push.undo(project, memory), n))
        return _ended(state, n_undone=sum(one.left is None for one in done), done=done)

    def _goals(self) -> FeedbackGoals | None:
        """What the last analyses of the project's studies ask for; None before the first."""
        found = {}
        for name, view in self._views().items():
            analysis = view.analysis
            if analysis is not None:
                found[name] = goals_of(analysis, relabel=self._relabel)
                view.engine.keep_verdicts(analysis)
        return push.merged_goals(found) if found else None

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
