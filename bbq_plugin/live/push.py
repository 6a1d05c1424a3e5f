"""A push: what verdicts ask for is planned, written into a project, and undone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import msgspec

from bbq_plugin.data.feedback_actions import ACTION_KINDS, ActionResult, FeedbackPlan
from bbq_plugin.protocols import FeedbackGoals

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

    from bbq_plugin.analysis import Analysis, RaterRow
    from bbq_plugin.data.feedback_actions import Action, JournalEntry, PlanWorth, Relabel
    from bbq_plugin.protocols import Project, WorthEstimate
    from bbq_plugin.store.project_sync import Memory

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
    worths = [one.worth for one in by_study.values() if one.worth is not None]
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
    """What answers change in any of several studies; what they buy is told of the first."""

    studies: Sequence[WorthEstimate]

    def chance(self, items: Sequence[str], n: int) -> float | None:
        """P(n answers on these items change one of the results)."""
        found = [one.chance(items, n) for one in self.studies]
        known = [p for p in found if p is not None]
        return 1 - prod(1 - p for p in known) if known else None

    def together(self, asked: Iterable[tuple[Sequence[str], int]]) -> PlanWorth:
        """What all of them change in the first."""
        return self.studies[0].together(asked)


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
