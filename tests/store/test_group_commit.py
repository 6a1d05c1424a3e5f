"""Many callers, one transaction: who is told what, and when."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from bbq_plugin.errors import UsageError
from bbq_plugin.store import Store
from bbq_plugin.store.event_inbox import Inbox, waiting_events
from bbq_plugin.store.group_commit import GroupCommit, Request
from tests.store.answers import answer, held
from tests.waiting import HANG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bbq_plugin.store import Change
    from bbq_plugin.store.transaction import Transaction


@dataclass(eq=False)
class Put(Request[str]):
    key: str


class Gate:
    """Writes what is put, once it is open; a key "bad" cannot be stored."""

    def __init__(self) -> None:
        self.begun, self.open = threading.Event(), threading.Event()

    def __call__(self, transaction: Transaction, puts: Sequence[Put]) -> list[str]:
        self.begun.set()
        self.open.wait()
        if any(put.key == "bad" for put in puts):
            raise ValueError("bad")
        transaction.add([answer(put.key) for put in puts], "call", "", 0.0)
        return [put.key for put in puts]


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def changes() -> list[Change]:
    return []


@pytest.fixture
def commits(store: Store, gate: Gate, changes: list[Change]) -> Iterator[GroupCommit[Put]]:
    found = GroupCommit(store, gate, on_commit=changes.append, closed="too late", name="test")
    yield found
    gate.open.set()
    found.close()


@pytest.fixture
def put(commits: GroupCommit[Put]) -> Callable[[str], Put]:
    def put(key: str) -> Put:
        request = Put(key)
        commits.submit(request)
        return request

    return put


def test_what_waits_at_the_same_moment_is_stored_by_one_transaction(
    put: Callable[[str], Put], gate: Gate, commits: GroupCommit[Put], changes: list[Change]
) -> None:
    first = put("1")
    gate.begun.wait()
    rest = [put(str(i)) for i in range(2, 100)]
    gate.open.set()
    assert [one.done.result() for one in (first, *rest)] == [str(i) for i in range(1, 100)]
    assert commits.n_commits == 2
    assert [change.n_added for change in changes] == [1, 98]


def test_one_that_cannot_be_stored_takes_no_other_with_it(
    put: Callable[[str], Put], gate: Gate, store: Store
) -> None:
    put("1")
    gate.begun.wait()
    bad, good = put("bad"), put("2")
    gate.open.set()
    assert good.done.result() == "2"
    with pytest.raises(ValueError, match="bad"):
        bad.done.result()
    assert held(store).keys() == {"1", "2"}


def test_callers_are_told_where_what_follows_a_commit_fails(store: Store, gate: Gate) -> None:
    failing = [True]

    def follow(_: Change) -> None:
        if failing.pop():
            raise ValueError("not followed")

    commits = GroupCommit(store, gate, on_commit=follow, closed="too late", name="test")
    gate.open.set()
    first, second = Put("1"), Put("2")
    commits.submit(first)
    with pytest.raises(ValueError, match="not followed"):
        first.done.result(HANG_S)
    failing.append(False)
    commits.submit(second)
    assert second.done.result(HANG_S) == "2"
    commits.close()


def test_a_caller_who_gives_up_waiting_has_asked_for_nothing(
    put: Callable[[str], Put], gate: Gate, store: Store
) -> None:
    put("1")
    gate.begun.wait()
    given_up, later = put("2"), put("3")
    assert given_up.done.cancel()
    gate.open.set()
    assert later.done.result() == "3"
    assert held(store).keys() == {"1", "3"}


def test_closing_stores_what_waits_and_refuses_what_comes_after(
    put: Callable[[str], Put], gate: Gate, commits: GroupCommit[Put], store: Store
) -> None:
    gate.open.set()
    waiting = [put(str(i)) for i in range(50)]
    commits.close()
    assert all(one.done.done() for one in waiting)
    assert store.counts().n_comparisons == 50
    with pytest.raises(UsageError, match="too late"):
        put("51")


def test_an_event_whose_sender_is_gone_does_not_hold_up_the_next_ones(store: Store) -> None:
    arrived = threading.Semaphore(0)
    inbox = Inbox(store, on_arrival=arrived.release)
    # The inbox waits for the end of this transaction.
    with store.transaction():
        first = inbox.put(b"1")
        wait_until(first.running, "the inbox takes the event")
        gone, last = inbox.put(b"2"), inbox.put(b"3")
        assert gone.cancel()
    first.result()
    last.result()
    arrived.acquire()
    assert [event.body for event in waiting_events(store, 10)] == [b"1", b"3"]
    inbox.close()
