"""A push: what verdicts ask for is planned, written into a project, and undone.

`Pusher` does it without a person: a plan after each refresh, and of it what a policy allows.
`Feedback` does it for a person who looks at the live page.
"""

from __future__ import annotations

import hashlib
import threading
from contextlib import closing
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, TypeVar

import msgspec

from bbq_plugin.data.records import ACTION_KINDS, ActionResult, FeedbackPlan
from bbq_plugin.errors import BBQError
from bbq_plugin.live.job_runner import Job, Next
from bbq_plugin.live.tool_connection import OpenProject, report_use
from bbq_plugin.protocols import FeedbackGoals
from bbq_plugin.report.terminal_tables import counts_line
from bbq_plugin.store.project_sync import Standing
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from bbq_plugin.analysis import Analysis, RaterRow
    from bbq_plugin.config import Settings
    from bbq_plugin.data.records import Action, JournalEntry, PlanWorth, Policy, Relabel
    from bbq_plugin.live.engine import Engine
    from bbq_plugin.live.health import Problems
    from bbq_plugin.live.server.page_state import View
    from bbq_plugin.live.tool_connection import Opened
    from bbq_plugin.protocols import Project, WorthEstimate
    from bbq_plugin.store import Store
    from bbq_plugin.store.project_sync import Memory

    Reach = Callable[[Settings, Store, Callable[[str], None]], Opened]


# Writes that are looked at, and put on record, together: few enough to be looked up after a crash,
# and that people have hardly changed them by the time it is their turn.
_AT_ONCE = 25


def goals_of(
    analysis: Analysis,
    *,
    kinds: frozenset[str] = frozenset(ACTION_KINDS),
    cancel: bool = False,
    sampling: bool = False,
    n_informative: int = 50,
    relabel: Relabel = "useful",
) -> FeedbackGoals:
    """What the verdicts on raters and the uncertainty about items ask for."""
    raters = analysis.raters
    return FeedbackGoals(
        excluded={row.rater: _reason(row) for row in raters if row.verdict == "exclude"},
        watched={row.rater: _reason(row) for row in raters if row.verdict == "watch"},
        information_bits=analysis.information_bits,
        worth=analysis.answer_worth,
        relabel=relabel,
        kinds=kinds,
        cancel=cancel,
        sampling=sampling,
        n_informative=n_informative,
    )


def merged_goals(by_study: Mapping[str, FeedbackGoals]) -> FeedbackGoals:
    """What several questions of a project ask for together.

    A rater whom one of them excludes is excluded, because a task is asked again with all of its
    questions. What an answer tells is the sum over the questions, and it changes a result if it
    changes one of them.
    """
    (first, *others) = by_study.values()
    if not others:
        return first
    excluded: dict[str, str] = {}
    watched: dict[str, str] = {}
    for name, goals in by_study.items():
        for found, own in ((excluded, goals.excluded), (watched, goals.watched)):
            for rater, reason in own.items():
                found.setdefault(rater, f"study {name}: {reason}")
    worths = {name: one.worth for name, one in by_study.items() if one.worth is not None}
    return replace(
        first,
        excluded=excluded,
        watched={rater: why for rater, why in watched.items() if rater not in excluded},
        information_bits=lambda items: _sum(
            one.information_bits(items) for one in by_study.values()
        ),
        worth=_StudiesWorth(worths) if len(worths) == len(by_study) else None,
    )


def _sum(found: Iterable[float | None]) -> float | None:
    known = [value for value in found if value is not None]
    return sum(known) if known else None


@dataclass(frozen=True, slots=True)
class _StudiesWorth:
    """What answers change in any of several studies, by their names."""

    studies: Mapping[str, WorthEstimate]

    def chance(self, items: Sequence[str], n: int) -> float | None:
        """P(n answers on these items change one of the results)."""
        found = [one.chance(items, n) for one in self.studies.values()]
        known = [p for p in found if p is not None]
        return 1 - prod(1 - p for p in known) if known else None

    def together(self, asked: Iterable[tuple[Sequence[str], int]]) -> PlanWorth:
        """What all of them change in each study."""
        same = list(asked)
        first, *others = (
            replace(one.together(same), study=name) for name, one in self.studies.items()
        )
        return replace(first, others=tuple(others))


def _reason(row: RaterRow) -> str:
    return row.reasons[0] if row.reasons else f"verdict {row.verdict}"


def make_plan(project: Project, memory: Memory, goals: FeedbackGoals) -> FeedbackPlan:
    """What to write now; nothing is written, not even the journal."""
    return project.plan(goals, memory, memory)


def settle(project: Project, memory: Memory) -> int:
    """Find out what became of writes that were cut off; how many there were."""
    open_ = [entry for entry in memory.entries() if entry.state == "begun"]
    project.look([entry.action for entry in open_])
    for entry in open_:
        state, ref = project.settle(entry)
        memory.mark({entry.id: ref}, state)
    return len(open_)


def apply(project: Project, memory: Memory, plan: FeedbackPlan) -> Generator[ActionResult]:
    """Apply a plan, in its order; some writes at a time are put on record together."""
    for start in range(0, len(plan.actions), _AT_ONCE):
        some = plan.actions[start : start + _AT_ONCE]
        yield from _written(project, memory, [one for one in some if not one.entries])
        yield from _released(project, memory, [one for one in some if one.entries])


def by_hand(
    project: Project, memory: Memory, goals: FeedbackGoals, shown: FeedbackPlan
) -> Iterator[ActionResult]:
    """Apply a plan that a person has looked at, as far as it is planned still.

    It may be of yesterday: what became of writes that were cut off since, and whom the verdicts
    are about by now, is in a plan of this moment.
    """
    settle(project, memory)
    now = {_same(action): action for action in make_plan(project, memory, goals).actions}
    chosen = []
    for action in shown.actions:
        if _same(action) in now:
            chosen.append(now[_same(action)])
        else:
            yield ActionResult(action, f"{action.target} is not planned any more")
    memory.hold(on=False)
    yield from apply(project, memory, FeedbackPlan(tuple(chosen)))


def _same(action: Action) -> bytes:
    """What an action does, whatever is on the server now; scores move with every answer."""
    after = {key: value for key, value in action.after.items() if key != "score"}
    return msgspec.json.encode((action.kind, action.target, after), order="sorted")


def undo(project: Project, memory: Memory) -> Iterator[ActionResult]:
    """Undo all changes, the newest first; nothing is written automatically after that."""
    settle(project, memory)
    entries = memory.entries()[::-1]
    if entries:
        memory.hold(on=True)
    for start in range(0, len(entries), _AT_ONCE):
        some = entries[start : start + _AT_ONCE]
        left = _reverted(project, memory, some)
        yield from (ActionResult(entry.action, left.get(entry.id)) for entry in some)


def _written(project: Project, memory: Memory, actions: Sequence[Action]) -> Iterator[ActionResult]:
    """Write what is still as it was planned, so that the values before on record are the truth."""
    if not actions:
        return
    project.look(actions)
    chosen = []
    for action in actions:
        left = project.changed(action)
        if left is None:
            chosen.append(action)
        else:
            yield ActionResult(action, left)
    untried = dict(zip(memory.begin(chosen), chosen, strict=True))
    done: dict[int, int | None] = {}
    try:
        for entry in list(untried):
            action = untried.pop(entry)
            done[entry] = project.perform(action)
            yield ActionResult(action)
    finally:
        memory.mark(done, "done")
        memory.mark(dict.fromkeys(untried), "void")


def _released(
    project: Project, memory: Memory, actions: Sequence[Action]
) -> Iterator[ActionResult]:
    ids = {entry for action in actions for entry in action.entries}
    left = _reverted(project, memory, [e for e in memory.entries()[::-1] if e.id in ids])
    for action in actions:
        yield ActionResult(
            action, next((left[entry] for entry in action.entries if entry in left), None)
        )


def _reverted(project: Project, memory: Memory, entries: Sequence[JournalEntry]) -> dict[int, str]:
    """Take these back, newest first; the reasons for what was left, by entry."""
    project.look([entry.action for entry in entries])
    memory.mark(dict.fromkeys(entry.id for entry in entries), "undoing")
    untried = {entry.id: entry for entry in entries}
    left: dict[int, str] = {}
    done: dict[int, int | None] = {}
    try:
        for entry in entries:
            del untried[entry.id]
            reason = project.revert(entry)
            # What others have changed since is theirs now.
            done[entry.id] = None
            if reason is not None:
                left[entry.id] = reason
    finally:
        memory.mark(done, "undone")
        for state in ("done", "undoing"):
            again = [one.id for one in untried.values() if one.state == state]
            memory.mark(dict.fromkeys(again), state)
    return left


T = TypeVar("T")

# What the budget had no room for is looked at again so much later, even if nothing else happens.
_LATER_S = 900.0
# A plan reads the whole project: a quarter of the time at most its server is asked for that.
_REST = 3.0
_STOP_S = 5.0
_SOON_S = 1.0

HELD = (
    "all changes were undone by hand, so nothing is written automatically until a plan is applied "
    "by hand again"
)


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
            # No server was asked: no verdicts yet, or a user's own plan is in hand.
            return Next(min(self._every_s, _SOON_S), 0.0)
        self._problems.over("feedback")
        return self._rest(again_s=max(_LATER_S, self._every_s) if done.short else None)

    def _failed(self, error: Exception) -> Next:
        if not self._job.stopping():
            report_use(self._problems, "feedback", error, self._every_s)
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
            settle(project, memory)
            return make_plan(project, memory, goals)

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
            lambda project, memory: self._followed(by_hand(project, memory, goals, plan), n)
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
        done = self._use(lambda project, memory: self._followed(undo(project, memory), n))
        return _ended(state, n_undone=sum(one.left is None for one in done), done=done)

    def _goals(self) -> FeedbackGoals | None:
        """What the last analyses of the project's studies ask for; None before the first."""
        found = {}
        for name, view in self._views().items():
            analysis = view.analysis
            if analysis is not None:
                found[name] = goals_of(analysis, relabel=self._relabel)
                view.engine.keep_verdicts(analysis)
        return merged_goals(found) if found else None

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
