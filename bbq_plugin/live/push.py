"""A push: what verdicts ask for is planned, written into a project, and undone.

`OpenProject` does it without a person: a plan after each refresh, and of it what a policy allows.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, TypeVar

import msgspec

from bbq_plugin.data.records import ACTION_KINDS, ActionResult, FeedbackPlan
from bbq_plugin.errors import RemoteError
from bbq_plugin.live.jobs import Job, Next
from bbq_plugin.protocols import FeedbackGoals
from bbq_plugin.report.terminal_tables import counts_line

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from bbq_plugin.analysis import Analysis, RaterRow
    from bbq_plugin.config import Settings
    from bbq_plugin.data.records import Action, JournalEntry, PlanWorth, Policy, Relabel
    from bbq_plugin.live.engine import Engine
    from bbq_plugin.live.health import Problems
    from bbq_plugin.protocols import FeedbackGoals, Project, WorthEstimate
    from bbq_plugin.store import Store
    from bbq_plugin.store.project_sync import Memory

    Opened = AbstractContextManager[tuple[Project, Memory]]
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


def is_outage(error: Exception) -> bool:
    """Whether a server did not answer, or could not; else it has refused what it was asked."""
    if not isinstance(error, RemoteError):
        return False
    return error.status is None or error.status == 429 or error.status >= 500


def report_use(
    problems: Problems, what: str, error: Exception | str, retry_s: float | None
) -> None:
    """Report that a use of a project failed, unless the outage of its server tells it already."""
    if "server" in problems and isinstance(error, Exception) and is_outage(error):
        return
    problems.report(what, error, retry_s=retry_s)


class OpenProject:
    """A project that stays open while a program runs; opened when it is first needed.

    `open_` gets whom to tell of requests that are tried again. An outage of the server is one
    problem, for any number of uses, which do not tell of it again. A server that refuses something,
    or says that it is not there, does answer: what that means is for the use to tell.
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
                if is_outage(error):
                    self._retried(str(error))
                else:
                    self._answered()
                raise
            self._answered()
            return done

    def _answered(self) -> None:
        if self._purpose in self._failing:
            self._failing.remove(self._purpose)
            self._problems.over("server")

    def _retried(self, reason: str) -> None:
        if "server" not in self._problems and self._purpose not in self._failing:
            # It stays on the page for as long as the outage: how long the first wait is, does not.
            self._problems.report("server", reason.partition("; trying again")[0])
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
