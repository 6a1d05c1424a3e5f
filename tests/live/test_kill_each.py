"""Serve, backup and restore, killed at any instant: nothing lost, nothing doubled, stores whole."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
from functools import partial
from typing import TYPE_CHECKING

import pytest

from bbq_plugin.store import Store
from bbq_plugin.store.event_inbox import n_waiting
from bbq_plugin.store.store import records_of
from tests.live.server.payloads import event
from tests.live.server.serving import SECRET
from tests.live.watch.running import Nursery
from tests.store.answers import answer
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: How often each is killed; `make soak` does it 50 times.
KILLS = int(os.environ.get("BBQ_TEST_KILL_EACH", "5"))


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    found = Nursery()
    yield found
    found.close()


def whole(store: Path) -> set[str]:
    """The keys of a store that is intact."""
    with Store(store, writable=False) as opened:
        assert opened.check() == []
        keys = [record.key for record in records_of(opened)]
    assert len(set(keys)) == len(keys)
    return set(keys)


def test_an_event_that_a_killed_server_has_confirmed_is_stored_once(
    nursery: Nursery, tmp_path: Path
) -> None:
    store, chance = tmp_path / "s.db", random.Random(3)  # noqa: S311 (no secret)
    confirmed: set[str] = set()
    number = 0
    for run in range(KILLS + 1):
        log = tmp_path / f"log-{run}"
        log.touch()
        told = nursery.ask(
            args=["serve", "--store", str(store), "--port", "0", "--priors", "paper"],
            stderr=str(log), environment={"BBQ_WEBHOOK_SECRET": SECRET},
        )  # fmt: skip
        wait_until(partial(_is_serving, log), "the server", log=log)
        port = int(log.read_text().split("Serving http://127.0.0.1:")[1].split()[0])
        if run == KILLS:
            wait_until(lambda: _n_waiting(store) == 0, "all events to be read", log=log)
        else:
            # The last one is on its way when the kill comes.
            for _ in range(chance.randint(1, 20)):
                number += 1
                if _sent(port, number):
                    confirmed.add(f"ls:1:{number}")
            number += 1
            # At another point of the work each time: nothing, some or all is read by then.
            most = chance.randint(0, len(confirmed))
            wait_until(lambda: _n_read(store) >= most, "some events to be read", log=log)  # noqa: B023
            _sent(port, number, then=partial(os.kill, told["pid"], signal.SIGKILL))
        if run == KILLS:
            os.kill(told["pid"], signal.SIGTERM)
        status = nursery.ask(wait=told["pid"])["status"]
        assert status == (0 if run == KILLS else -signal.SIGKILL), log.read_text()[-2000:]
        whole(store)
    keys = whole(store)
    assert confirmed <= keys
    assert len(keys) <= number


def _is_serving(log: Path) -> bool:
    return "Serving " in log.read_text()


def _n_read(store: Path) -> int:
    with Store(store, writable=False) as opened:
        return opened.counts().n_comparisons


def _n_waiting(store: Path) -> int:
    with Store(store, writable=False) as opened:
        return n_waiting(opened)


def _sent(port: int, number: int, then: object = None) -> bool:
    """Send an event; whether it was confirmed. `then` happens before the answer is awaited."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        line.request(
            "POST", "/webhook/label-studio", json.dumps(event(number)).encode(),
            {"X-BBQ-Secret": SECRET, "Content-Type": "application/json"},
        )  # fmt: skip
        if callable(then):
            then()
        return line.getresponse().status == 200
    except OSError:
        return False
    except http.client.HTTPException:
        return False
    finally:
        line.close()


@pytest.mark.parametrize("what", ["backup", "restore"])
def test_a_copy_killed_at_any_instant_leaves_whole_stores(
    nursery: Nursery, tmp_path: Path, what: str
) -> None:
    chance = random.Random(4)  # noqa: S311 (no secret)
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    for path, n in ((old, 3000), (new, 4000)):
        with Store(path) as opened:
            opened.add([answer(f"{path.stem} {k}") for k in range(n)])
    before = {path: whole(path) for path in (old, new)}
    arguments = {
        "backup": ["store", "backup", "--store", str(new), "-o", str(old)],
        "restore": ["store", "restore", "--store", str(old), str(new)],
    }[what]
    # At another of its calls of the system each time: no clock says when.
    usual, n_killed = 40, 0
    while n_killed < KILLS:
        told = nursery.ask(
            args=arguments, stderr=str(tmp_path / "log"), kill_at=chance.randint(1, usual)
        )
        status = nursery.ask(wait=told["pid"])["status"]
        assert status in (0, -signal.SIGKILL), (tmp_path / "log").read_text()[-2000:]
        n_killed += status != 0
        usual = max(2, usual if status else usual // 2)
        assert whole(new) == before[new]
        assert whole(old) in (before[old], before[new])
    end = nursery.ask(args=arguments, stderr=str(tmp_path / "log"))
    assert nursery.ask(wait=end["pid"])["status"] == 0
    assert whole(old) == before[new]
    assert not [path for path in tmp_path.iterdir() if path.name.endswith((".part", ".restore"))]
