"""The budget of what is written without asking, as the journal of a store has it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from bbq_plugin.data.records import Action, FeedbackPlan, Policy, kinds_of
from bbq_plugin.store import Store
from bbq_plugin.store.project_sync import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BEFORE_MIDNIGHT = datetime(2026, 3, 1, 23, 59, 50, tzinfo=UTC).timestamp()
DAY_S = 24 * 3600.0


def relabel(task: int) -> Action:
    return Action("relabel", f"task {task}", "a reason", {"overlap": 2}, {"overlap": 3}, task)


def release(task: int, *entries: int) -> Action:
    return Action(
        "release", f"task {task}", "a reason", {}, {}, task, entries=entries, released="relabel"
    )


PLAN = FeedbackPlan(tuple(relabel(task) for task in range(10)))


class Clock:
    now = BEFORE_MIDNIGHT

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(tmp_path: Path, clock: Clock) -> Iterator[Memory]:
    with Store(tmp_path / "state.db", clock=clock) as store:
        yield Memory(store, "label-studio", 5, "http://127.0.0.1:8080")


def allowed(memory: Memory, a_day: int) -> int:
    policy = Policy(kinds_of(["relabel"]), a_day)
    return len(policy.allowed(PLAN, memory.written_at(), memory.store.clock()).actions)


def test_a_budget_that_is_spent_does_not_come_back_at_midnight(
    memory: Memory, clock: Clock
) -> None:
    assert allowed(memory, 3) == 3
    ids = memory.begin(PLAN.actions[:3])
    memory.mark(dict.fromkeys(ids), "done")
    assert allowed(memory, 3) == 0
    clock.now = BEFORE_MIDNIGHT + 20
    assert allowed(memory, 3) == 0
    memory.begin(PLAN.actions[3:4])
    clock.now = BEFORE_MIDNIGHT + DAY_S - 1
    assert allowed(memory, 5) == 1
    # The three of the evening are a day old, the one after midnight is not.
    clock.now = BEFORE_MIDNIGHT + DAY_S + 1
    assert allowed(memory, 5) == 4


def test_what_is_taken_back_is_a_write_and_what_was_never_written_is_none(
    memory: Memory, clock: Clock
) -> None:
    done, failed = memory.begin(PLAN.actions[:2])
    memory.mark({done: None}, "done")
    memory.mark({failed: None}, "void")
    assert allowed(memory, 10) == 9
    clock.now += DAY_S + 1
    assert allowed(memory, 10) == 10
    memory.mark({done: None}, "undone")
    assert allowed(memory, 10) == 9


def test_a_release_costs_as_many_writes_as_it_takes_back(memory: Memory) -> None:
    written = [relabel(1), relabel(1), relabel(1), relabel(2)]
    first, second, third, other = memory.begin(written)
    memory.mark(dict.fromkeys((first, second, third, other)), "done")
    back = (
        release(1, first, second, third),
        release(2, other),
    )
    policy = Policy(kinds_of(["relabel"]), 8)
    whole = policy.allowed(FeedbackPlan(back), memory.written_at(), memory.store.clock())
    assert whole.actions == back
    # Four were written: with seven a day there is room for the first of the two.
    some = Policy(kinds_of(["relabel"]), 7).allowed(
        FeedbackPlan(back), memory.written_at(), memory.store.clock()
    )
    assert some.actions == back[:1]
    assert some.notes == ("4 writes planned; the limit of 7 writes a day allows 3 now",)


def test_a_release_that_is_larger_than_the_budget_is_taken_back_newest_first(
    memory: Memory,
) -> None:
    plan = FeedbackPlan((release(1, 11, 12, 13),))
    (some,) = Policy(kinds_of(["relabel"]), 2).allowed(plan, [], memory.store.clock()).actions
    assert some.entries == (12, 13)
    assert Policy(kinds_of(["relabel"]), 0).allowed(plan, [], 0.0).actions == ()


def test_predictions_bring_along_that_they_are_served() -> None:
    assert kinds_of(["predict"]) == {"predict", "project"}
    assert kinds_of(["relabel"]) == {"relabel"}


def test_new_scores_of_our_own_predictions_are_outside_of_the_limit() -> None:
    def score(task: int, before: float | None) -> Action:
        was = None if before is None else {"score": before, "model_version": "v"}
        after = {"score": 0.1, "model_version": "v", "task": task}
        return Action("predict", f"prediction for task {task}", "", was, after, 10 + task)

    plan = FeedbackPlan((score(1, None), score(2, None), score(3, 0.2), score(4, 0.3)))
    may = Policy(kinds_of(["predict"]), a_day=1).allowed(plan, [], 0.0)
    assert [action.target[-1] for action in may.actions] == ["1", "3", "4"]
