"""The labelling project beside the server: answers that no event brought, and feedback."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from bbq_plugin.errors import BBQError
from bbq_plugin.live import sync
from bbq_plugin.live.runner import Job, Next
from bbq_plugin.live.sync import OpenProject, Rounds, goals_of
from bbq_plugin.store.projects import Standing, standing
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bbq_plugin.analysis import Analysis
    from bbq_plugin.data.feedback_actions import Action, ActionResult, FeedbackPlan, Policy
    from bbq_plugin.live.log import Problems
    from bbq_plugin.live.server.app import Service
    from bbq_plugin.live.server.view import View
    from bbq_plugin.live.sync import Opened, Round
    from bbq_plugin.protocols import FeedbackGoals, Project
    from bbq_plugin.store.projects import Memory

# After an event that tells of more than it brings, and before what it tells of is all there.
_SOON_S = 1.0
# A request that hangs is not waited for: its thread ends with the process.
_STOP_S = 5.0


@dataclass(frozen=True)
class PlanState:
    """What the page shows: what is going on, the last plan, and what went wrong."""

    what: str
    #: What is done automatically.
    automatic: str = ""
    busy: bool = False
    at: float | None = None
    plan: FeedbackPlan | None = None
    #: Names the plan: only the one that was shown is applied.
    mark: str = ""
    n_done: int = 0
    n_undone: int = 0
    #: Why some of it was left as it is.
    left: tuple[str, ...] = ()
    #: What there is to undo.
    standing: Standing = field(default_factory=Standing)
    problem: str | None = None

    @property
    def actions(self) -> Sequence[Action]:
        """Of the plan."""
        return () if self.plan is None else self.plan.actions


class Feedback:
    """The feedback of the page: plans, applies and undoes in the background, one at a time."""

    def __init__(
        self,
        view: View,
        project: OpenProject,
        what: str,
        standing: Callable[[], Standing],
        problems: Problems,
    ) -> None:
        """`standing` asks no server."""
        self._view, self._use, self._standing, self._problems = (
            view,
            project.use,
            standing,
            problems,
        )
        self._state = PlanState(what)
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
            analysis = self._view.analysis
            if analysis is None:
                return None
            return sync.act(project, memory, self._goals(analysis), policy, stopping)

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
            self._set(replace(before, busy=False, problem=said))
            raise
        self._set(replace(after, busy=False))
        self._problems.over("plan")

    def _planned(self, state: PlanState) -> PlanState:
        analysis = self._view.analysis
        if analysis is None:
            return replace(state, problem="there are no answers yet")
        goals = self._goals(analysis)

        def work(project: Project, memory: Memory) -> FeedbackPlan:
            sync.settle(project, memory)
            return sync.make_plan(project, memory, goals)

        return replace(self._with(state, self._use(work)), n_done=0, n_undone=0, left=())

    def _with(self, state: PlanState, plan: FeedbackPlan) -> PlanState:
        return replace(state, plan=plan, mark=_mark(plan), at=self._view.engine.store.clock())

    def _applied(self, state: PlanState) -> PlanState:
        plan, analysis = state.plan, self._view.analysis
        if plan is None or analysis is None:
            return state
        goals = self._goals(analysis)
        done = self._use(lambda project, memory: list(sync.by_hand(project, memory, goals, plan)))
        return _ended(state, n_done=sum(one.left is None for one in done), done=done)

    def _undone(self, state: PlanState, mark: str) -> PlanState:
        if mark != self._standing().mark:
            return replace(
                state, problem="more was written meanwhile; load the page again and check"
            )
        done = self._use(lambda project, memory: list(sync.undo(project, memory)))
        return _ended(state, n_undone=sum(one.left is None for one in done), done=done)

    def _goals(self, analysis: Analysis) -> FeedbackGoals:
        found = goals_of(analysis)
        self._view.engine.keep_verdicts(analysis)
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


class ServedProject(OpenProject):
    """The project of a service: pulls what was missed, and gives the page its feedback."""

    def __init__(
        self,
        service: Service,
        project: int,
        open_: Callable[[Callable[[str], None]], Opened],
        *,
        reconcile_s: float | None = None,
        policy: Policy | None = None,
        push_s: float = 60.0,
    ) -> None:
        """`reconcile_s`: pull that often. With a policy, plan after each fit and act within it."""
        super().__init__(open_, service.problems)
        self._service = service
        store, tool = service.engine.store, service.worker.tool
        service.worker.project = str(project)
        self.feedback = Feedback(
            service.view,
            self,
            f"Project {project}",
            lambda: standing(store, tool, project),
            service.problems,
        )
        self._reconcile_s = reconcile_s
        self._pulling = Job("reconcile", self._pull, self._not_pulled)
        self._rounds: Rounds | None = None
        if policy is not None:
            self._rounds = Rounds(
                lambda stopping: self.feedback.act(policy, stopping), push_s, service.problems
            )
            self.feedback.announce(_announced(policy, push_s))
            self.feedback.on_written = self._rounds.soon

    def start(self) -> None:
        """Begin, with what was missed before."""
        self.feedback.job.start()
        if self._reconcile_s is not None:
            self._pulling.start(due=True)
        if self._rounds is not None:
            self._rounds.start()

    def stop(self) -> None:
        """End after the page or the action in hand; a pull that is cut off goes on where it was."""
        self._pulling.stop(_STOP_S)
        if self._rounds is not None:
            self._rounds.stop()
        self.feedback.job.stop(_STOP_S)

    def fitted(self) -> None:
        """Say that there are new verdicts."""
        if self._rounds is not None:
            self._rounds.soon()

    def pull_soon(self) -> None:
        """Say that the project has more than its events have brought."""
        if self._reconcile_s is not None:
            self._pulling.wake(_SOON_S)

    def _pull(self) -> Next:
        engine, problems = self._service.engine, self._service.problems

        def work(project: Project, memory: Memory) -> None:
            done = sync.pull(project, memory, on_change=engine.apply, alone=engine.writing)
            if done.n_new or done.n_changed or done.n_retracted:
                problems.log(
                    "pulled", new=done.n_new, changed=done.n_changed, retracted=done.n_retracted
                )

        self.use(work, "pulling")
        self._service.worker.job.wake()
        problems.over("pull")
        return Next(again_s=self._reconcile_s)

    def _not_pulled(self, error: Exception) -> Next:
        self._service.problems.report("pull", error, retry_s=self._reconcile_s)
        return Next(again_s=self._reconcile_s)


def _announced(policy: Policy, every_s: float) -> str:
    """What the page says about it."""
    kinds = ", ".join(sorted(policy.kinds))
    automatic = (
        f"Applied automatically: {kinds}, at most {policy.a_day:,} writes in 24 hours"
        if kinds
        else "Nothing is written automatically"
    )
    return f"A plan is made after each change, at most every {every_s:g} s. {automatic}."
