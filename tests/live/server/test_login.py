"""Logging in: in time, not too often, and never in the way of events."""

from __future__ import annotations

import resource
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from bbq_plugin.live.server.access_control import LoginTries
from tests.live.server.payloads import event
from tests.live.server.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.live.server.serving import Answer, Serving

TOKEN = "the-token-of-the-page-0123456789"  # noqa: S105


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    store: Path = tmp_path_factory.mktemp("login") / "s.db"
    with serving(store, BBQ_PAGE_TOKEN=TOKEN) as found:
        yield found


def head(server: Serving, size: int) -> bytes:
    return (
        f"POST /login HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        f"Origin: http://127.0.0.1:{server.port}\r\n"
        f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {size}\r\n\r\n"
    ).encode()


def log_in(server: Serving, token: str) -> Answer:
    form = {"Origin": server.url, "Content-Type": "application/x-www-form-urlencoded"}
    return server.ask("/login", f"token={token}".encode(), form)


def test_a_form_that_does_not_come_is_not_waited_for(server: Serving) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as line:
        line.sendall(head(server, 100) + b"token=")
        # No time limit of its own: without one of the server this would hang.
        answer = b""
        while more := line.recv(1000):
            answer += more
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"did not come in time" in answer


def test_a_thousand_that_wait_keep_no_event_out(server: Serving) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2000:
        pytest.skip("the system allows too few connections for this")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    try:
        with ExitStack() as stack:
            for turn in range(1100):
                line = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                # Some wait before the headers, others before the form.
                line.sendall(head(server, 100) if turn % 2 else b"POST /login HTTP/1.1\r\n")
                if turn % 100 == 99:
                    assert server.send(event(turn)).status == 200
            assert server.ask("/login").status == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_wrong_tokens_are_looked_at_ten_times_a_minute(server: Serving) -> None:
    assert log_in(server, TOKEN).status == 303
    assert [log_in(server, f"wrong-{n}").status for n in range(10)] == [401] * 10
    refused = log_in(server, "wrong")
    assert refused.status == 429
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert "too many wrong tokens" in refused.text
    # The right one as well: else the answer would tell which one it is.
    assert log_in(server, TOKEN).status == 429
    assert server.send(event(5000)).status == 200
    assert server.ask("/").status == 200


def test_the_limit_is_of_an_address_and_passes() -> None:
    now = 100.0
    tries = LoginTries(most=3, window_s=60.0, clock=lambda: now)
    near, far = ("192.0.2.1", 1), ("192.0.2.2", 1)
    for _ in range(3):
        assert tries.wait_s(near) == 0.0
        tries.failed(near)
        now += 10.0
    assert tries.wait_s(near) == 30.0
    assert tries.wait_s(far) == 0.0
    now += 30.0
    assert tries.wait_s(near) == 0.0
    tries.failed(near)
    assert tries.wait_s(near) == 10.0
    tries.passed(near)
    assert tries.wait_s(near) == 0.0
    # One owner has all addresses of a network of IPv6.
    for n in range(3):
        tries.failed((f"2001:db8::{n + 1}", 1))
    assert tries.wait_s(("2001:db8::ffff", 1)) == 60.0
    assert tries.wait_s(("2001:db8:1::1", 1)) == 0.0
    assert tries.wait_s(None) == 0.0


def test_wrong_tokens_of_many_addresses_take_no_memory_without_end() -> None:
    tries = LoginTries()
    for n in range(5000):
        tries.failed((f"10.0.{n // 250}.{n % 250}", 1))
    assert len(tries._failed) <= 1000
