"""Pull and push, killed in the middle of a request: nothing lost, nothing doubled, stores whole."""

from __future__ import annotations

import os
import random
import signal
from typing import TYPE_CHECKING, Any

import pytest

from bbq_plugin.store import Store
from bbq_plugin.store.store import records_of
from tests.live.label_studio.faults import Answer, Asked, Proxy
from tests.live.label_studio.study import PAIRWISE, chose, fill, pair, without_times
from tests.live.watch.running import Nursery

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.live.label_studio.server import Server, User

#: How often each is killed; `make soak` does it 50 times.
KILLS = int(os.environ.get("BBQ_TEST_KILL_EACH", "5"))


class Victims:
    """Commands on a server behind a proxy, which kills them at a request."""

    def __init__(self, nursery: Nursery, server: Server, proxy: Proxy, folder: Path) -> None:
        self._nursery, self._proxy, self._log = nursery, proxy, folder / "log"
        self._environment = {"LABEL_STUDIO_URL": proxy.url, "LABEL_STUDIO_API_KEY": server.token}
        self._pid = 0
        self._left: int | None = None
        self._chance = random.Random(7)  # noqa: S311 (no secret)
        proxy.rule = self._rule
        self.methods: tuple[str, ...] = ("GET", "POST", "PATCH", "DELETE")

    def _rule(self, asked: Asked) -> Answer | None:
        if self._left is None or asked.method not in self.methods:
            return None
        self._left -= 1
        if self._left:
            return None
        # Half of the time the server has done what it was asked for.
        after = self._chance.random() < 0.5
        return Answer(500, after=after, then=lambda: os.kill(self._pid, signal.SIGKILL))

    def run(self, *arguments: str, at: int | None = None) -> int:
        """Run a command to its end, or to the request at which it is killed; its status."""
        self._left = at
        told = self._nursery.ask(
            args=list(arguments), stderr=str(self._log), environment=self._environment
        )
        self._pid = told["pid"]
        status = int(self._nursery.ask(wait=self._pid)["status"])
        self._left = None
        return status

    def log(self) -> str:
        return self._log.read_text()[-3000:]


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    found = Nursery()
    yield found
    found.close()


@pytest.fixture
def victims(nursery: Nursery, label_studio: Server, proxy: Proxy, tmp_path: Path) -> Victims:
    return Victims(nursery, label_studio, proxy, tmp_path)


def whole(store: Path) -> list[str]:
    """The keys of a store that is intact."""
    if not store.exists():
        return []
    with Store(store) as opened:
        assert opened.check() == []
        keys = [record.key for record in records_of(opened)]
    assert len(set(keys)) == len(keys)
    return keys


def test_a_pull_killed_again_and_again_ends_with_every_answer_once(
    victims: Victims, label_studio: Server, tmp_path: Path
) -> None:
    project = label_studio.project(PAIRWISE)
    tasks = label_studio.tasks(project, [pair("x", "y") for _ in range(8)])
    for task in tasks:
        label_studio.annotate(task, chose("left"))
    store, chance = tmp_path / "s.db", random.Random(5)  # noqa: S311 (no secret)
    words = ("pull", "--project", str(project), "--store", str(store), "--page-size", "2")
    n_killed, n_kept = 0, 0
    while n_killed < KILLS:
        status = victims.run(*words, "--everything", at=chance.randint(1, 7))
        assert status in (0, -signal.SIGKILL), victims.log()
        n_killed += status != 0
        keys = whole(store)
        assert len(keys) >= n_kept
        n_kept = len(keys)
    assert victims.run(*words) == 0, victims.log()
    assert len(whole(store)) == len(tasks)


def test_a_push_killed_again_and_again_writes_nothing_twice_and_is_undone_without_a_trace(
    victims: Victims, label_studio: Server, people: list[User], tmp_path: Path
) -> None:
    crowd = fill(label_studio, people, n_tasks=120)
    store, chance = tmp_path / "s.db", random.Random(6)  # noqa: S311 (no secret)
    where = ("--project", str(crowd.project), "--store", str(store))
    assert victims.run("pull", *where) == 0, victims.log()
    keys = whole(store)

    def seen() -> Any:
        tabs = label_studio.get(f"/api/dm/views/?project={crowd.project}")
        return without_times([label_studio.export(crowd.project), tabs])

    before = seen()
    victims.methods = ("POST", "PATCH", "DELETE")
    n_killed, mode = 0, "--apply"
    while n_killed < KILLS:
        status = victims.run("push", *where, mode, at=chance.randint(1, 12))
        assert status in (0, -signal.SIGKILL), victims.log()
        n_killed += status != 0
        mode = mode if status else "--undo" if mode == "--apply" else "--apply"
        assert whole(store) == keys
    assert victims.run("push", *where, "--apply") == 0, victims.log()
    tabs = [
        tab["data"]["title"] for tab in label_studio.get(f"/api/dm/views/?project={crowd.project}")
    ]
    assert len(set(tabs)) == len(tabs) > 0
    assert victims.run("push", *where, "--undo") == 0, victims.log()
    assert seen() == before
