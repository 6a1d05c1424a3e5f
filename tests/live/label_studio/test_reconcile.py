"""Pulls beside events, on a real server: neither takes out what the other rightly brought."""

from __future__ import annotations

import json
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from bbq_plugin.live.event_ingest import event_reader, take
from bbq_plugin.live.pull import pull
from bbq_plugin.plugins import tool
from bbq_plugin.protocols import ProjectAddress
from bbq_plugin.store import Store
from bbq_plugin.store.project_sync import Memory
from bbq_plugin.store.store import records_of
from tests.live.label_studio.study import PAIRWISE, chose, pair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from bbq_plugin.live.pull import Pulled
    from bbq_plugin.protocols import Project
    from tests.live.label_studio.server import Server, User


@dataclass
class Listening:
    """A store that is told events and pulls on a line that stays open."""

    server: Server
    project: int
    store: Store
    line: Project
    memory: Memory

    def __post_init__(self) -> None:
        self._reader = event_reader("label-studio")

    def event(self, task: int, annotation: int) -> dict[str, Any]:
        """What the server's webhook says of an annotation as it is now."""
        info = self.server.get(f"/api/projects/{self.project}/")
        said = self.server.get(f"/api/annotations/{annotation}/")
        return {
            "action": "ANNOTATION_UPDATED",
            "annotation": {**said, "project": self.project},
            "task": self.server.get(f"/api/tasks/{task}/"),
            "project": {
                "id": self.project,
                "parsed_label_config": info["parsed_label_config"],
            },
        }

    def hear(self, event: dict[str, Any]) -> None:
        """Take an event in."""
        with self.store.transaction() as transaction:
            news = self._reader(json.dumps(event).encode())
            take(transaction, self._reader, [news], "webhook", "test", 0.0, adapter="label-studio")

    def pull(
        self,
        *,
        everything: bool = False,
        alone: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> Pulled:
        """Reconcile."""
        return pull(self.line, self.memory, everything=everything, alone=alone)

    def counting(self) -> set[int]:
        """The annotations that count."""
        return {int(record.key.rpartition(":")[2]) for record in records_of(self.store)}


@pytest.fixture
def listening(label_studio: Server, tmp_path: Path) -> Iterator[Listening]:
    project = label_studio.project(PAIRWISE, maximum_annotations=3)
    line = tool().open(ProjectAddress(label_studio.url, label_studio.token, project))
    with Store(tmp_path / "s.db") as store, closing(line):
        memory = Memory(store, "label-studio", project, label_studio.url)
        yield Listening(label_studio, project, store, line, memory)


def test_a_pull_after_a_change_of_the_configuration_keeps_what_events_brought(
    listening: Listening, people: list[User]
) -> None:
    server, project = listening.server, listening.project
    tasks = server.tasks(project, [pair("x", "y"), pair("y", "z")])
    first = server.annotate(tasks[0], chose("left"), people[0])
    listening.pull()
    # The server refuses another configuration while there are answers to the old one.
    server.delete(f"/api/annotations/{first}/")
    listening.pull()
    config = PAIRWISE.replace('name="pw"', 'name="better"')
    server.patch(f"/api/projects/{project}/", {"label_config": config})
    result = [{**chose("left")[0], "from_name": "better", "to_name": "better"}]
    made = [server.annotate(task, result, people[1]) for task in tasks]
    for task, annotation in zip(tasks, made, strict=True):
        listening.hear(listening.event(task, annotation))
    assert listening.counting() == set(made)
    assert listening.pull().n_retracted == 0
    assert listening.counting() == set(made)
    assert "control 'better'" in listening.line.describe()


@pytest.mark.parametrize("everything", [False, True])
def test_an_answer_that_only_an_event_told_of_goes_with_its_task(
    listening: Listening, people: list[User], everything: bool
) -> None:
    server, project = listening.server, listening.project
    tasks = server.tasks(project, [pair("x", "y")] * 2)
    stays = server.annotate(tasks[0], chose("left"), people[0])
    listening.pull()
    (new,) = server.tasks(project, [pair("y", "z")])
    event = listening.event(new, server.annotate(new, chose("left"), people[1]))
    listening.hear(event)
    assert len(listening.counting()) == 2
    server.delete(f"/api/tasks/{new}/")
    assert listening.pull(everything=everything).n_retracted == 1
    assert listening.counting() == {stays}
    # An event that comes once more does not bring it back, and leaves nothing to look for.
    listening.hear(event)
    assert listening.counting() == {stays}
    listening.pull()
    assert not listening.memory.told_tasks()


def test_an_event_that_comes_after_its_task_was_taken_out_counts_until_the_next_pull(
    listening: Listening, people: list[User]
) -> None:
    server, project = listening.server, listening.project
    tasks = server.tasks(project, [pair("x", "y")] * 2)
    stays = server.annotate(tasks[0], chose("left"), people[0])
    listening.pull()
    late = listening.event(tasks[1], server.annotate(tasks[1], chose("left"), people[1]))
    server.delete(f"/api/tasks/{tasks[1]}/")
    gone = {"tasks": [{"id": tasks[1]}], "project": {"id": project}}
    listening.hear({"action": "TASKS_DELETED", **gone})
    listening.pull()
    listening.hear(late)
    listening.pull()
    assert listening.counting() == {stays}


def test_an_answer_to_a_new_task_with_the_id_of_a_deleted_one_stays(
    listening: Listening, people: list[User]
) -> None:
    server, project = listening.server, listening.project
    server.tasks(project, [pair("x", "y")])
    listening.pull()
    (old,) = server.tasks(project, [pair("y", "z")])
    listening.hear(listening.event(old, server.annotate(old, chose("left"), people[0])))
    server.delete(f"/api/tasks/{old}/")
    made: list[int] = []
    pages: list[int] = []

    @contextmanager
    def meanwhile() -> Iterator[None]:
        pages.append(1)
        # The second page is that of the tasks that are gone: the server has been asked for them.
        if len(pages) == 2:
            (new,) = server.tasks(project, [pair("z", "x")])
            assert new == old
            made.append(server.annotate(new, chose("right"), people[1]))
            listening.hear(listening.event(new, made[0]))
        yield

    listening.pull(alone=meanwhile)
    assert made
    assert made[0] in listening.counting()
    listening.pull()
    assert listening.counting() == set(made)


def test_of_two_ground_truths_the_later_counts_by_events_as_by_a_pull(
    listening: Listening, people: list[User], tmp_path: Path
) -> None:
    server, project = listening.server, listening.project
    (task,) = server.tasks(project, [pair("x", "y")])
    sides = ("left", "right", "left")
    made = [server.annotate(task, chose(s), user) for s, user in zip(sides, people, strict=False)]
    for annotation in made:
        listening.hear(listening.event(task, annotation))
    heard = []
    for annotation in made[:2]:
        server.patch(f"/api/annotations/{annotation}/", {"ground_truth": True})
        heard.append(listening.event(task, annotation))
    for event in reversed(heard):
        listening.hear(event)
    with Store(tmp_path / "fresh.db") as fresh:
        pull(listening.line, Memory(fresh, "label-studio", project, server.url))
        pulled = {record.key: record.tags for record in records_of(fresh)}
    assert {record.key: record.tags for record in records_of(listening.store)} == pulled
    assert [(pulled[f"ls:{project}:{one}"] or {})["gold"] for one in made] == [
        *("right", "truth", "right")
    ]
