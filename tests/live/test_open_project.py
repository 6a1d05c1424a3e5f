"""A line to a project's server: an outage is told once, whoever needs the project meanwhile."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from bbq_plugin.data.records import Person
from bbq_plugin.errors import RemoteError
from bbq_plugin.live.health import Problems
from bbq_plugin.live.server.page_state import RaterNames
from bbq_plugin.live.tool_connection import OpenProject
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OUTAGE, AGAIN = "server_failed trying again in 1 s", "server_recovered"


class Server:
    """What a line sees of a server: it is there, or for some purposes not."""

    def __init__(self) -> None:
        self.down: set[str] = set()
        self.gone = False
        self.told: list[str] = []
        self.line = OpenProject(self.open, Problems(self._log))
        self._notice: Callable[[str], None] = lambda _: None

    def _log(self, event: str, reason: str = "") -> None:
        self.told.append(f"{event} {reason}".strip())

    @contextmanager
    def open(self, notice: Callable[[str], None]) -> Iterator[Any]:
        self._notice = notice
        if "opening" in self.down:
            self._fail()
        yield None, None

    def use(self, what: str) -> None:
        def work(*_: object) -> None:
            if what in self.down:
                self._fail()
            if self.gone:
                raise RemoteError("there is no project 7 (404)", 404)

        with suppress(RemoteError):
            self.line.use(cast("Any", work), what)

    def _fail(self) -> None:
        for wait_s in (1, 2):
            self._notice(f"trying again in {wait_s} s")
        raise RemoteError("cannot be reached")

    def heard(self) -> list[str]:
        said = list(self.told)
        self.told.clear()
        return said


def test_an_outage_from_the_start_is_told_once_and_its_end_once() -> None:
    server = Server()
    server.down = {"opening"}
    for what in ("pulling", "feedback", "pulling", "feedback"):
        server.use(what)
    assert server.heard() == [OUTAGE]
    server.down = set()
    server.use("pulling")
    server.use("feedback")
    assert server.heard() == [AGAIN]
    server.down = {"pulling", "feedback"}
    server.use("feedback")
    server.use("pulling")
    assert server.heard() == [OUTAGE]


def test_a_server_that_is_read_and_not_written_does_not_come_and_go_in_the_log() -> None:
    server = Server()
    server.down = {"feedback"}
    for _ in range(3):
        server.use("feedback")
        server.use("pulling")
    assert server.heard() == [OUTAGE]
    server.down = set()
    server.use("feedback")
    assert server.heard() == [AGAIN]


def test_a_plan_that_nobody_asks_for_again_hides_no_later_outage() -> None:
    server = Server()
    server.down = {"feedback", "pulling"}
    server.use("pulling")
    server.use("feedback")
    server.down = set()
    server.use("pulling")
    assert server.heard() == [OUTAGE, AGAIN]
    server.down = {"pulling"}
    server.use("pulling")
    server.down = set()
    server.use("pulling")
    assert server.heard() == [OUTAGE, AGAIN]


def test_a_server_that_says_that_the_project_is_gone_does_answer() -> None:
    server = Server()
    server.gone = True
    server.use("pulling")
    assert server.heard() == []
    server.down = {"pulling"}
    server.use("pulling")
    server.use("feedback")
    assert server.heard() == [OUTAGE]
    server.down = set()
    server.use("pulling")
    assert server.heard() == [AGAIN]


def test_names_that_cannot_be_asked_for_in_an_outage_are_no_second_problem() -> None:
    problems = Problems()
    failing = [RemoteError("cannot be reached"), RemoteError("refused", 403)]
    asked = threading.Event()

    def ask() -> dict[str, Person]:
        asked.set()
        raise failing[0]

    problems.report("server", "cannot be reached")
    for expected in (["server"], ["server", "names"]):
        names = RaterNames(ask, lambda: None, problems)
        asked.clear()
        names.job.start(due=True)
        assert asked.wait(HANG_S)
        names.job.stop(HANG_S)
        assert [one.what for one in problems] == expected
        failing.pop(0)
