"""A project small enough to be looked at task by task, and what is wished for it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bbq_plugin.data.records import FeedbackPlan
from bbq_plugin.live import push
from bbq_plugin.live.pull import pull
from bbq_plugin.plugins import tool
from bbq_plugin.protocols import FeedbackGoals, ProjectAddress
from bbq_plugin.store import Store
from bbq_plugin.store.project_sync import Memory
from tests.live.label_studio.study import (
    PAIRWISE,
    answer,
    pair,
    without_times,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bbq_plugin.data.records import ActionResult
    from bbq_plugin.protocols import Project
    from tests.live.label_studio.server import Server, User


class Small:
    """Four tasks with two answers each, of Ann and Bob, and a store that has pulled them."""

    def __init__(self, server: Server, people: list[User], store: Path, **settings: Any) -> None:
        self.server, self.store = server, store
        self.ann, self.bob, self.cat = people[:3]
        self.id = server.project(PAIRWISE, maximum_annotations=2, **settings)
        answers = [answer(user, "left") for user in (self.ann, self.bob)]
        pairs = [pair("x", "y"), pair("y", "z"), pair("z", "x"), pair("y", "x")]
        body = [{"data": data, "annotations": answers} for data in pairs]
        server.post(f"/api/projects/{self.id}/import", body)
        exported = server.export(self.id)
        self.tasks = [int(task["id"]) for task in exported]
        self.answers = {
            (int(task["id"]), int(one["completed_by"])): int(one["id"])
            for task in exported
            for one in task["annotations"]
        }
        self.url = server.url
        with self.opened() as (project, memory):
            pull(project, memory)

    @contextmanager
    def opened(self) -> Iterator[tuple[Project, Memory]]:
        with Store(self.store) as store:
            memory = Memory(store, "label-studio", self.id, self.url, moved=True)
            project = tool().open(ProjectAddress(self.url, self.server.token, self.id))
            try:
                yield project, memory
            finally:
                project.close()

    def plan(self, goals: FeedbackGoals) -> FeedbackPlan:
        with self.opened() as (project, memory):
            push.settle(project, memory)
            return push.make_plan(project, memory, goals)

    def apply(self, goals: FeedbackGoals) -> list[ActionResult]:
        with self.opened() as (project, memory):
            push.settle(project, memory)
            return list(push.apply(project, memory, push.make_plan(project, memory, goals)))

    def undo(self) -> list[ActionResult]:
        with self.opened() as (project, memory):
            return list(push.undo(project, memory))

    def now(self) -> dict[int, tuple[int, bool]]:
        """Overlap and is_labeled of every task."""
        listed = self.server.get(f"/api/tasks/?project={self.id}&page_size=100")["tasks"]
        return {task["id"]: (task["overlap"], task["is_labeled"]) for task in listed}

    def snapshot(self) -> Any:
        """Everything that a write could change: tasks, annotations, predictions, tabs, project."""
        listed = self.server.get(f"/api/tasks/?project={self.id}&page_size=100&fields=all")
        return without_times(
            [
                self.server.export(self.id),
                listed,
                self.server.get(f"/api/dm/views/?project={self.id}"),
                self.server.get(f"/api/projects/{self.id}/"),
            ]
        )


def without(*raters: User, **more: Any) -> FeedbackGoals:
    return FeedbackGoals(
        excluded={str(rater.id): "answers like a coin" for rater in raters}, **more
    )


def kinds(actions: Sequence[Any]) -> list[str]:
    return sorted({getattr(action, "action", action).kind for action in actions})


BITS = {"x": 0.1, "y": 0.9, "z": 0.5}


def by_first(items: Sequence[str]) -> float | None:
    return BITS[items[0]]
