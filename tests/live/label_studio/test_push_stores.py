"""One project, two stores: what a push from the one has written is not written again."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from bbq_plugin.live.pull import pull
from tests.live.label_studio.small import Small, without
from tests.live.label_studio.study import chose

if TYPE_CHECKING:
    from pathlib import Path

    from bbq_plugin.protocols import FeedbackGoals
    from tests.live.label_studio.server import Server


def elsewhere(small: Small, tmp_path: Path) -> Small:
    """The same project, from a store that has just been pulled."""
    other = copy(small)
    other.store = tmp_path / "other.db"
    with other.opened() as (project, memory):
        pull(project, memory)
    return other


def overlaps(small: Small, goals: FeedbackGoals) -> dict[str, int]:
    """What is planned, by task."""
    actions = small.plan(goals).actions
    return {one.target: one.after["overlap"] for one in actions if one.kind == "relabel"}


def test_another_store_plans_nothing_again_while_tasks_are_open_and_after(
    small: Small, label_studio: Server, tmp_path: Path
) -> None:
    before = small.snapshot()
    small.apply(without(small.bob))
    other = elsewhere(small, tmp_path)
    assert other.plan(without(small.bob)).actions == ()
    # Who is found bad since gets room, and no more than that.
    assert set(overlaps(other, without(small.ann, small.bob)).values()) == {4}
    # Fewer excluded than there were: there is room enough.
    small.apply(without(small.ann, small.bob))
    assert overlaps(other, without(small.bob)) == {}
    small.apply(without(small.bob))
    assert set(small.now().values()) == {(3, False)}
    small.undo()
    assert small.snapshot() == before

    small.apply(without(small.bob))
    for task in small.tasks:
        label_studio.annotate(task, chose("left"), small.cat)
    assert set(small.now().values()) == {(3, True)}
    assert overlaps(other, without(small.bob)) == {}


def test_an_overlap_of_its_own_that_no_push_would_have_written_is_respected(
    small: Small, label_studio: Server, tmp_path: Path
) -> None:
    own, *rest = small.tasks
    label_studio.patch(f"/api/tasks/{own}/", {"overlap": 7, "is_labeled": True})
    wanted = {f"task {own}": 8} | {f"task {task}": 3 for task in rest}
    assert overlaps(small, without(small.bob)) == wanted
    small.apply(without(small.bob))
    assert overlaps(elsewhere(small, tmp_path), without(small.bob)) == {}


def test_tasks_outside_the_cohort_want_one_answer_from_any_store(
    small: Small, label_studio: Server, tmp_path: Path
) -> None:
    settings = {"maximum_annotations": 4, "overlap_cohort_percentage": 50}
    label_studio.patch(f"/api/projects/{small.id}/", settings)
    given = {task: overlap for task, (overlap, _) in small.now().items()}
    assert sorted(given.values()) == [1, 1, 4, 4]
    bad = without(small.ann, small.bob)
    small.apply(bad)
    raised = {task: (overlap + 2, False) for task, overlap in given.items()}
    assert small.now() == raised
    other = elsewhere(small, tmp_path)
    assert overlaps(other, bad) == {}
    small.undo()
    assert {task: overlap for task, (overlap, _) in small.now().items()} == given
