"""The example arena, started for real, with a visitor who votes over HTTP."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from bbq_plugin.store import Store
from bbq_plugin.store.store import records_of
from tests.waiting import HANG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

ARENA = Path(__file__).resolve().parents[2] / "examples" / "arena" / "arena.py"
EVIL = "<script>alert(1)</script>"
ANSWERS = {
    "Which?": {"good": "the good answer", "bad": "the bad answer", EVIL: "the evil answer"},
}


class Visitor:
    """A browser, as far as the arena needs one."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.cookie = ""

    def get(self, path: str) -> str:
        status, body = self.request("GET", path)
        assert status == 200
        return body

    def request(
        self, method: str, path: str, form: dict[str, str] | None = None
    ) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=HANG_S)
        try:
            body = None if form is None else urlencode(form)
            connection.request(method, path, body, {"Cookie": self.cookie})
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        given = answer.headers.get("Set-Cookie", "")
        assert "script-src" not in answer.headers.get("Content-Security-Policy", "")
        self.cookie = given.split(";")[0] or self.cookie
        return answer.status, text

    def duel(self) -> tuple[str, list[str]]:
        """The token, and the answers from left to right."""
        page = self.get("/")
        found = re.search(r"name='duel' value='([^']+)'", page)
        assert found
        return found[1], re.findall(r"<blockquote>(.*?)</blockquote>", page)

    def prefer(self, order: list[str]) -> None:
        """Vote for whatever comes first in this order."""
        token, shown = self.duel()
        left = order.index(shown[0]) < order.index(shown[1])
        status, _ = self.request(
            "POST", "/vote", {"duel": token, "outcome": "left" if left else "right"}
        )
        assert status == 303

    def board(self, until_votes: int) -> list[str]:
        """The models in their order, once so many votes are in it."""

        def page() -> str:
            shown = self.get("/leaderboard")
            return shown if f"<p>{until_votes} votes" in shown else ""

        found = wait_until(page, f"{until_votes} votes on the leaderboard")
        assert EVIL not in found
        return re.findall(r"<th scope='row'>(.*?)</th>", found)


@pytest.fixture
def arena(tmp_path: Path) -> Iterator[tuple[int, subprocess.Popen[str], Path]]:
    answers, store = tmp_path / "answers.json", tmp_path / "arena.db"
    answers.write_text(json.dumps(ANSWERS))
    command = [sys.executable, str(ARENA), "--port", "0", "--store", str(store)]
    with subprocess.Popen(
        [*command, "--answers", str(answers)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rsplit(":", 1)[1].strip("/\n"))
            yield port, process, store
        finally:
            if process.poll() is None:
                process.kill()


def test_votes_over_http_change_the_leaderboard_and_are_kept(
    arena: tuple[int, subprocess.Popen[str], Path],
) -> None:
    port, process, store = arena
    ann, bob = Visitor(port), Visitor(port)
    assert "No votes yet" in ann.get("/leaderboard")
    order = ["the good answer", "the evil answer", "the bad answer"]
    for _ in range(12):
        ann.prefer(order)
    assert ann.board(12)[0] == "good"
    for _ in range(60):
        bob.prefer(order[::-1])
    board = bob.board(72)
    assert board[0] == "bad"
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in board
    process.send_signal(signal.SIGTERM)
    assert process.wait(HANG_S) == 0
    with Store(store, writable=False) as kept:
        records = list(records_of(kept))
    assert len(records) == 72
    assert {record.rater for record in records} == {
        visitor.cookie.split("=")[1] for visitor in (ann, bob)
    }
    assert all(record.time_s is not None and record.time_s >= 0 for record in records)


def test_a_form_sent_twice_is_one_vote_and_a_strangers_form_is_none(
    arena: tuple[int, subprocess.Popen[str], Path],
) -> None:
    port, process, store = arena
    ann, eve = Visitor(port), Visitor(port)
    token, _ = ann.duel()
    vote = {"duel": token, "outcome": "left"}
    assert eve.request("POST", "/vote", vote)[0] == 409
    assert ann.request("POST", "/vote", {"duel": token, "outcome": "best"})[0] == 400
    assert ann.request("POST", "/vote", {"duel": "?" * 5000, "outcome": "left"})[0] == 400
    assert ann.request("POST", "/vote", vote)[0] == 303
    assert ann.request("POST", "/vote", vote | {"outcome": "right"})[0] == 303
    process.send_signal(signal.SIGTERM)
    assert process.wait(HANG_S) == 0
    with Store(store, writable=False) as kept:
        assert [record.outcome for record in records_of(kept)] == ["right"]
