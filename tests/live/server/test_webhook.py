"""`bbq serve` takes events: what counts, what is refused, and what never reaches the disk."""

from __future__ import annotations

import base64
import http.client
import json
import re
import signal
import socket
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import pytest

from bbq_plugin.data.records import Comparison
from bbq_plugin.live.engine import Engine
from bbq_plugin.store import Store, read_store
from bbq_plugin.store.store import records_of
from tests.live.server.payloads import EMAIL, SECRETS, bulk, deleted, event, project, task
from tests.live.server.serving import SECRET, Serving, serving
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    with serving(tmp_path / "state.db") as found:
        yield found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One for all tests that only ask whether they are let in."""
    with serving(tmp_path_factory.mktemp("shared") / "state.db") as found:
        yield found


def keys(store: Path) -> set[str]:
    with Store(store, writable=False) as opened:
        return {record.key for record in records_of(opened)}


def test_events_of_all_kinds_reach_the_leaderboard(server: Serving) -> None:
    pairs = [("model-a", "model-b"), ("model-b", "model-c"), ("model-a", "model-c")]
    assert server.send(bulk(*(event(n, items=pairs[n % 3]) for n in range(1, 10)))).status == 200
    assert server.send(event(10, items=pairs[0])).status == 200
    assert server.send(event(11, was_cancelled=True)).status == 200
    assert server.send(deleted(1, 2)).status == 200
    assert server.send({"action": "SOMETHING_NEW"}).status == 200
    server.wait_for(8)
    assert "model-a" in server.ask("/").text
    log = server.ask("/log").text
    assert "SOMETHING_NEW" in log
    assert "an event of an unknown kind" in log


def test_an_answered_event_survives_a_kill(tmp_path: Path) -> None:
    store = tmp_path / "state.db"
    with serving(store) as server:
        for n in range(1, 6):
            assert server.send(event(n)).status == 200
        server.stop(signal.SIGKILL)
    with serving(store) as server:
        server.wait_for(5)
        assert server.stop() == 0
    assert keys(store) == {f"ls:1:{n}" for n in range(1, 6)}


def test_many_senders_at_once_lose_nothing(server: Serving) -> None:
    n = 400

    def send(number: int) -> int:
        return server.send(event(number, rater=number % 7, items=("a", f"b{number % 5}"))).status

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(send, range(1, n + 1))) == {200}
    server.wait_for(n)
    server.stop()
    assert keys(server.store) == {f"ls:1:{number}" for number in range(1, n + 1)}


def test_a_request_without_the_secret_changes_nothing(server: Serving) -> None:
    body = json.dumps(event()).encode()
    basic = base64.b64encode(b"bbq:wrong").decode()
    wrong: list[dict[str, str]] = [
        {},
        *({"X-BBQ-Secret": one} for one in ("", "wrong", SECRET + "x", SECRET[:-1], "ä" * 20)),
        *({"Authorization": one} for one in (f"Basic {basic}", "Basic %%%", "Basic", SECRET)),
    ]
    for headers in wrong:
        for path in ("/webhook/label-studio", "/webhook"):
            assert server.ask(path, body, headers).status == 401
    assert server.stop() == 0
    with sqlite3.connect(server.store) as db:
        assert db.execute("SELECT count(*) FROM event").fetchone() == (0,)
        assert db.execute("SELECT count(*) FROM comparison").fetchone() == (0,)
        assert db.execute("SELECT * FROM sqlite_sequence").fetchall() == []


def test_without_a_secret_no_event_is_taken(tmp_path: Path) -> None:
    with serving(tmp_path / "state.db", secret=None) as server:
        answer = server.send(event(), secret=None)
        assert answer.status == 403
        assert "--webhook-secret-file" in answer.text
        assert "no secret is set" in server.log


def test_an_insecure_webhook_still_refuses_a_page_in_a_browser(tmp_path: Path) -> None:
    with serving(tmp_path / "state.db", "--insecure-webhook", secret=None) as server:
        body = json.dumps(event()).encode()
        json_type = {"Content-Type": "application/json"}
        path = "/webhook/label-studio"
        assert server.ask(path, body, {"Content-Type": "text/plain"}).status == 403
        assert server.ask(path, body, {**json_type, "Origin": "http://evil.example"}).status == 403
        assert server.ask(path, body, json_type).status == 200


def test_no_secret_of_an_event_is_in_the_store_the_log_or_the_page(tmp_path: Path) -> None:
    store = tmp_path / "state.db"
    with serving(store) as server:
        person = {"id": 2, "email": EMAIL, "first_name": "Alice"}
        for n in range(1, 4):
            assert server.send(event(n, completed_by=person)).status == 200
        # What is refused is kept as well, and so is what nobody knows.
        nameless = event(9, of=project(2))
        nameless["task"] |= {"data": {"text": "some text here"}, "project": 2}
        assert server.send(nameless).status == 200
        assert server.send({"action": "SOMETHING_NEW", "project": project()}).status == 200
        setup = {"project": "1.2", "schema": "<View/>", "access_token": SECRETS[0]}
        assert server.send(setup, path="/setup").status == 200
        asked = {"tasks": [task(1, "a", "b")], "params": {"login": SECRETS[1], "password": "x"}}
        assert server.send({**asked, "project": "1.2"}, path="/predict").status == 200
        server.send(b'{"action": "broken", "token": "' + SECRETS[0].encode())
        server.wait_for(3)
        server.wait_until(lambda: "items=" in server.ask("/log").text, "the reason on the page")
        paths = ("/", "/raters", "/rater?name=2", "/pairs", "/feedback", "/log")
        pages = "".join(server.ask(path).text for path in paths)
        held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert b"ls:1:1" in held
        assert server.stop() == 0
    held += b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for secret in (*SECRETS, SECRET):
        assert secret.encode() not in held
        assert secret not in server.log
        assert secret not in pages


def test_a_body_that_is_too_large_is_refused(shared: Serving) -> None:
    big = b'{"action": "' + b"x" * (17 << 20) + b'"}'
    # The server need not read what it refuses.
    with suppress(BrokenPipeError, ConnectionResetError):
        assert shared.send(big).status == 413
    headers = (
        f"POST /webhook/label-studio HTTP/1.1\r\nHost: x\r\nX-BBQ-Secret: {SECRET}\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", shared.port), timeout=HANG_S) as line:
        line.sendall(headers.encode())
        piece = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
        try:
            for _ in range(20):
                line.sendall(piece)
            answer = line.recv(100)
        except (BrokenPipeError, ConnectionResetError):
            answer = b"HTTP/1.1 413"
    assert answer.startswith(b"HTTP/1.1 413")
    assert shared.send(event()).status == 200


def test_a_body_that_does_not_come_is_not_waited_for(shared: Serving) -> None:
    headers = (
        f"POST /webhook/label-studio HTTP/1.1\r\nHost: x\r\nX-BBQ-Secret: {SECRET}\r\n"
        'Content-Length: 1000\r\n\r\n{"action"'
    )
    with socket.create_connection(("127.0.0.1", shared.port), timeout=HANG_S) as line:
        line.sendall(headers.encode())
        # Meanwhile others are served.
        assert shared.send(event()).status == 200
        assert line.recv(100).startswith(b"HTTP/1.1 408")


def test_headers_that_come_byte_by_byte_hold_up_nobody_and_are_not_waited_for(
    tmp_path: Path,
) -> None:
    with serving(tmp_path / "state.db") as server, ExitStack() as stack:
        address = ("127.0.0.1", server.port)
        lines = [
            stack.enter_context(socket.create_connection(address, timeout=HANG_S))
            for _ in range(200)
        ]
        for line in lines[1:]:
            line.sendall(b"POST /webhook/label-studio HTTP/1.1\r\nX-Slow: ")
        for n in range(1, 21):
            assert server.send(event(n)).status == 200
            for line in lines[1:]:
                with suppress(BrokenPipeError, ConnectionResetError):
                    line.sendall(b"x")
        server.wait_for(20)
        # Every one is ended: with an answer, or without one where nothing was asked.
        ends = {_end_of(line) for line in lines}
        assert ends <= {b"HTTP/1.1 408", b""}
        assert server.send(event(21)).status == 200


def _end_of(line: socket.socket) -> bytes:
    with suppress(BrokenPipeError, ConnectionResetError):
        said = b""
        while more := line.recv(1000):
            said += more
        return said[:12]
    return b""


def test_headers_without_end_are_refused(shared: Serving) -> None:
    with socket.create_connection(("127.0.0.1", shared.port), timeout=HANG_S) as line:
        line.sendall(b"GET / HTTP/1.1\r\n")
        with suppress(BrokenPipeError, ConnectionResetError):
            for n in range(100):
                line.sendall(b"X-%d: %s\r\n" % (n, b"x" * 4000))
        assert _end_of(line) in (b"HTTP/1.1 431", b"")
    # One request after another on a line, and headers of the usual size, are let through.
    client = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=HANG_S)
    for _ in range(40):
        client.request("GET", "/health", headers={"X-Long": "x" * 4000})
        assert client.getresponse().read()
    client.close()


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b'"x"', b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_event_is_refused(shared: Serving, text: bytes) -> None:
    assert shared.send(text).status == 400
    assert shared.send(event()).status == 200


@pytest.mark.parametrize("own", ["a:b", "²", "9" * 30, 10**30, None, [1]])
def test_an_odd_event_holds_up_no_other(tmp_path: Path, own: object) -> None:
    odd = {"action": "TASKS_DELETED", "tasks": [{"id": own}], "project": {"id": 1}}
    with serving(tmp_path / "state.db") as server:
        assert server.send(odd).status in (200, 400)
        assert server.send(event()).status == 200
        server.wait_for(1)


def test_a_refused_event_is_read_when_the_options_say_how(tmp_path: Path) -> None:
    store = tmp_path / "state.db"
    told = event()
    told["task"]["data"] = {"first": "model-a", "other": "model-b"}
    with serving(store) as server:
        assert server.send(told).status == 200
        server.wait_until(lambda: "items=" in server.ask("/log").text, "the reason on the page")
        # The page shows what is stored; the log follows.
        server.wait_until(lambda: " event_refused reason=" in server.log, "the reason in the log")
    with serving(store, "--items", "first,other") as server:
        server.wait_for(1)
    assert read_store(store).items == ("model-a", "model-b")


def test_label_studio_can_connect_it_as_an_ml_backend(server: Serving) -> None:
    basic = base64.b64encode(f"bbq:{SECRET}".encode()).decode()
    headers = {"Content-Type": "application/json", "Authorization": f"Basic {basic}"}
    assert server.ask("/health").json()["status"] == "UP"
    assert server.ask("/setup", b"{}", headers).json() == {"model_version": "bbq"}
    assert server.ask("/setup", b"{}", {"Content-Type": "application/json"}).status == 401
    pairs = [("a", "b"), ("b", "c"), ("a", "c")]
    # The ML backend's own webhook has no header of ours, but its password.
    told = bulk(*(event(n, items=pairs[n % 3]) for n in range(1, 31)))
    assert server.ask("/webhook", json.dumps(told).encode(), headers).status == 200
    server.wait_for(30)
    asked = {"tasks": [task(1, "a", "b"), task(2, "a", "new")], "project": "1.1794800129"}
    answer = server.ask("/predict", json.dumps(asked).encode(), headers).json()
    known, unknown = answer["results"]
    assert known["result"] == []
    assert 0 <= known["score"] <= 1
    assert unknown["score"] is None
    assert server.ask("/train", b"{}", headers).status == 200
    # The version changes with the fit: tasks are asked about again only under a new one.
    version = answer["model_version"]
    assert version.startswith("bbq 20")
    assert {one["model_version"] for one in answer["results"]} == {version}
    assert server.ask("/versions", headers=headers).json() == {"versions": [version]}
    assert server.ask("/setup", b"{}", headers).json() == {"model_version": version}


def test_the_version_of_scores_changes_with_the_fit_of_any_study(tmp_path: Path) -> None:
    store = tmp_path / "state.db"
    # The project has two questions, so the study main is empty.
    with Engine(store, study="fluency") as engine:
        engine.add([Comparison(f"k{n}", "ann", "a", "b", "left") for n in range(3)])
    with serving(store) as server:
        server.wait_until(
            lambda: server.send({}, path="/setup").json()["model_version"].startswith("bbq 20"),
            "the version of the fit",
        )


def test_tasks_have_scores_after_a_restart_before_any_event(tmp_path: Path) -> None:
    store = tmp_path / "state.db"
    pairs = [("a", "b"), ("b", "c"), ("a", "c")]
    asked = {"tasks": [task(1, "a", "b"), task(2, "b", "c")], "project": "1.1794800129"}
    with serving(store) as server:
        told = bulk(*(event(n, items=pairs[n % 3]) for n in range(1, 31)))
        assert server.send(told).status == 200
        server.wait_for(30)
        before = server.send(asked, path="/predict").json()
    with serving(store) as server:
        after = server.send(asked, path="/predict").json()
        # Another project's tasks are not read by the plan of this one.
        other = server.send({**asked, "project": "2.1794800129"}, path="/predict").json()
    scores = [[one["score"] for one in answer["results"]] for answer in (before, after)]
    assert all(0 <= score <= 1 for score in scores[1])
    assert scores[1] == pytest.approx(scores[0], abs=1e-6)
    assert [one["score"] for one in other["results"]] == [None, None]


def test_an_address_stands_for_a_person_only_as_a_hash(tmp_path: Path) -> None:
    store = tmp_path / "state.db"
    with serving(store) as server:
        for n, person in enumerate(({"email": EMAIL}, EMAIL, {"email": EMAIL.upper()}), 1):
            assert server.send(event(n, completed_by=person)).status == 200
        assert server.send(event(4, completed_by={"email": "bob@example.com"})).status == 200
        server.wait_for(4)
        page = server.ask("/raters").text
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert EMAIL.encode() not in held.lower()
    assert EMAIL not in page.lower() + server.log.lower()
    raters = read_store(store).raters
    assert len(raters) == 2
    assert all(re.fullmatch("person-[0-9a-f]{12}", rater) for rater in raters)


def test_a_duration_that_is_none_is_left_out_and_said(tmp_path: Path) -> None:
    store = tmp_path / "state.db"
    odd = (1e308, -3, "1e400", "soon", [1], True, 10**400)
    with serving(store) as server:
        for n, lead_time in enumerate(odd, 1):
            assert server.send(event(n, lead_time=lead_time)).status == 200
        assert server.send(event(99, lead_time=7.5)).status == 200
        server.wait_for(len(odd) + 1)
        assert "no duration in seconds" in server.ask("/log").text
    with serving(store) as server:
        server.wait_for(len(odd) + 1)
    assert "Warning" not in server.log
    with Store(store, writable=False) as opened:
        assert [c.time_s for c in records_of(opened) if c.time_s is not None] == [7.5]


def test_a_page_whose_answers_were_all_taken_back_is_empty(server: Serving) -> None:
    assert server.send(event(1)).status == 200
    server.wait_for(1)
    assert server.send(deleted(1)).status == 200
    server.wait_until(lambda: "No answers yet" in server.ask("/").text, "an empty page")
    assert "No answers yet" in server.ask("/raters").text


def test_a_second_server_on_the_same_store_is_refused_with_the_first_one_s_name(
    server: Serving,
) -> None:
    with pytest.raises(AssertionError, match="being written by process"), serving(server.store):
        pass


def test_it_ends_in_good_order_while_a_page_is_open(server: Serving) -> None:
    server.send(event())
    begun = threading.Event()

    def listen() -> None:
        with socket.create_connection(("127.0.0.1", server.port), timeout=HANG_S) as line:
            line.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            line.recv(100)
            begun.set()
            while line.recv(1000):
                pass

    listener = threading.Thread(target=listen)
    listener.start()
    begun.wait(HANG_S)
    assert server.stop() == 0
    listener.join(HANG_S)
    assert not listener.is_alive()
