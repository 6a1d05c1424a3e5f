"""Feedback without a person: a plan after each refresh, and of it what a policy allows."""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from bbq_plugin.data.feedback_actions import ActionResult, FeedbackPlan
from bbq_plugin.errors import RemoteError
from bbq_plugin.live.jobs import Job, Next
from bbq_plugin.live.push import apply, goals_of, make_plan, settle
from bbq_plugin.report.terminal_tables import counts_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from bbq_plugin.analysis import Analysis
    from bbq_plugin.config import Settings
    from bbq_plugin.data.feedback_actions import Policy
    from bbq_plugin.live.engine import Engine
    from bbq_plugin.live.log import Problems
    from bbq_plugin.protocols import FeedbackGoals, Project
    from bbq_plugin.store import Store
    from bbq_plugin.store.project_sync import Memory

    Opened = AbstractContextManager[tuple[Project, Memory]]
    #: Opens the project of these settings, with what the store knows of it; hears of retries.
    Reach = Callable[[Settings, Store, Callable[[str], None]], Opened]

T = TypeVar("T")

# What the budget had no room for is looked at again so much later, even if nothing else happens.
_LATER_S = 900.0
# A plan reads the whole project: a quarter of the time at most its server is asked for that.
_REST = 3.0
_STOP_S = 5.0
_NOT_THERE = 404

HELD = (
    "all changes were undone by hand, so nothing is written automatically until a plan is applied "
    "by hand again"
)


class OpenProject:
    """A project that stays open while a program runs; opened when it is first needed.

    `open_` gets whom to tell of requests that are tried again. An outage of the server is one
    problem, for any number of uses. A server that says that something is not there does answer:
    what that means is for the use to tell.
    """

    def __init__(
        self, open_: Callable[[Callable[[str], None]], Opened], problems: Problems
    ) -> None:
        self._open, self._problems = open_, problems
        self._stack = ExitStack()
        self._opened: tuple[Project, Memory] | None = None
        # One request at a time: a pull and a plan would see each other's half.
        self._lock = threading.RLock()
        self._purpose = ""
        #: The purposes that failed the last time: reading may work when writing does not.
        self._failing: set[str] = set()

    def use(self, work: Callable[[Project, Memory], T], purpose: str = "feedback") -> T:
        """Do something with the project; what that gives."""
        with self._lock:
            self._purpose = purpose
            try:
                if self._opened is None:
                    self._opened = self._stack.enter_context(self._open(self._retried))
                done = work(*self._opened)
            except RemoteError as error:
                if error.status == _NOT_THERE:
                    self._answered()
                else:
                    self._retried(str(error))
                raise
            self._answered()
            return done

    def _answered(self) -> None:
        if self._purpose in self._failing:
            self._failing.remove(self._purpose)
            self._problems.over("server")

    def _retried(self, reason: str) -> None:
        if "server" not in self._problems and self._purpose not in self._failing:
            self._problems.report("server", reason)
        self._failing.add(self._purpose)

    def close(self) -> None:
        """Let the project go."""
        self._stack.close()


@dataclass(frozen=True, slots=True)
class Round:
    """What was applied, and the plan that is left for a person to look at."""

    plan: FeedbackPlan
    done: tuple[ActionResult, ...] = ()
    #: Some of what is left is allowed, but not today.
    short: bool = False

    @property
    def n_done(self) -> int:
        """How many actions were applied."""
        return sum(one.left is None for one in self.done)

    def fields(self) -> dict[str, str | None]:
        """The fields of its event in the log."""
        applied = [one.action for one in self.done if one.left is None]
        return {
            "done": counts_line(applied) if applied else None,
            "planned": counts_line(self.plan.actions),
            "note": "; ".join(self.plan.notes) or None,
        }


def act(
    project: Project,
    memory: Memory,
    goals: FeedbackGoals,
    policy: Policy,
    stopping: Callable[[], bool] = lambda: False,
) -> Round:
    """Plan, and apply what the policy allows, each write on record before it is done."""
    settle(project, memory)
    plan = make_plan(project, memory, goals)
    if policy.kinds and memory.held:
        plan = replace(plan, notes=(*plan.notes, HELD))
        policy = replace(policy, kinds=frozenset())
    may = policy.allowed(plan, memory.written_at(), memory.store.clock())
    chosen = {id(action) for action in may.actions}
    left = tuple(action for action in plan.actions if id(action) not in chosen)
    done: list[ActionResult] = []
    if not stopping():
        with closing(apply(project, memory, may)) as written:
            for one in written:
                done.append(one)
                if stopping():
                    break
    short = any(action.is_of(policy.kinds) for action in left)
    return Round(replace(plan, actions=left, notes=may.notes), tuple(done), short)


class Rounds:
    """Acts in the background soon after it is asked to, at most every so often.

    `act` gets what says whether to stop after the action in hand, and returns None if it could not
    act now and is to be called again. What it raises is a problem, and is tried again.
    """

    def __init__(
        self, act: Callable[[Callable[[], bool]], Round | None], every_s: float, problems: Problems
    ) -> None:
        self._act, self._every_s, self._problems = act, every_s, problems
        self._job = Job("push", self._work, self._failed)
        self._last: dict[str, str | None] = {}

    def start(self) -> None:
        """Begin to wait."""
        self._job.start()

    def soon(self) -> None:
        """Say that there are new verdicts."""
        self._job.wake()

    def stop(self) -> None:
        """End after the action in hand; a request that hangs is not waited for."""
        self._job.stop(_STOP_S)

    def now(self) -> Round | None:
        """Act at once, in the caller's thread."""
        done = self._act(self._job.stopping)
        if done is not None and (done.fields() != self._last or done.done):
            self._last = done.fields()
            self._problems.log("feedback", **self._last)
        return done

    def _work(self) -> Next:
        done = self.now()
        if done is None:
            return self._rest(again_s=0.0)
        self._problems.over("feedback")
        return self._rest(again_s=max(_LATER_S, self._every_s) if done.short else None)

    def _failed(self, error: Exception) -> Next:
        if not self._job.stopping():
            self._problems.report("feedback", error, retry_s=self._every_s)
        return self._rest(again_s=0.0)

    def _rest(self, again_s: float | None) -> Next:
        return Next(max(self._every_s, _REST * self._job.spent_s), again_s)


class Pusher:
    """The daemon's feedback: the verdicts of the newest analysis, on their way to the project."""

    def __init__(
        self, settings: Settings, engine: Engine, reach: Reach, problems: Problems
    ) -> None:
        self._engine = engine
        self._policy = settings.feedback.policy()
        self._relabel = settings.feedback.relabel
        self._project = OpenProject(lambda notice: reach(settings, engine.store, notice), problems)
        self._rounds = Rounds(self._act, settings.feedback.push_every_s, problems)
        self._analysis: Analysis | None = None

    def start(self) -> None:
        """Begin to wait for an analysis."""
        self._rounds.start()

    def offer(self, analysis: Analysis) -> None:
        """Take over an analysis, under the names that the labelling project knows."""
        self._analysis = analysis
        self._rounds.soon()

    def now(self) -> None:
        """Act at once, for a daemon that is about to leave."""
        self._rounds.now()

    def stop(self) -> None:
        """End after the action in hand."""
        self._rounds.stop()
        self._project.close()

    def _act(self, stopping: Callable[[], bool]) -> Round | None:
        analysis = self._analysis
        if analysis is None:
            return None
        goals = goals_of(analysis, relabel=self._relabel)
        self._engine.keep_verdicts(analysis)
        return self._project.use(
            lambda project, memory: act(project, memory, goals, self._policy, stopping)
        )
