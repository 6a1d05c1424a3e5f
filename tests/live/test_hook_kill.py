"""Kill -9 in the middle of voting: whatever a caller was told is in the store, once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import bbq_plugin as bbq
from bbq_plugin.store import Store
from bbq_plugin.store.store import records_of
from tests.waiting import HANG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

VOTER = Path(__file__).with_name("hook_voter.py")
RUNS = 40


class Nursery:
    """The process that forks voters."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert self.line() == "ready"

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def kill_a_voter(self, store: Path, threads: int, votes: int) -> list[str]:
        """Let a voter vote, kill it after so many votes, and give what it printed."""
        assert self._process.stdin is not None
        printed = store.with_suffix(".out")
        printed.write_text("")
        self._process.stdin.write(f"{store}\t{threads}\t{printed}\n")
        self._process.stdin.flush()
        pid = int(self.line())
        try:
            # It votes on while this is looked at: the kill falls on any instant of a vote.
            wait_until(lambda: printed.read_text().count("\n") > votes, f"{votes} votes")
        finally:
            os.kill(pid, signal.SIGKILL)
        assert self.line() == "gone"
        lines = printed.read_text().split("\n")
        assert lines[-1] == ""
        assert lines[0] == "started"
        return lines[1:-1]


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    with subprocess.Popen(
        [sys.executable, str(VOTER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Nursery(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(HANG_S) == 0


@pytest.mark.parametrize("threads", [1, 4])
def test_every_key_that_a_killed_program_was_given_is_stored_once(
    nursery: Nursery, tmp_path: Path, threads: int
) -> None:
    store = tmp_path / "state.db"
    rng = random.Random(threads)  # noqa: S311 (chance, not secrecy)
    printed: list[str] = []
    unprinted: set[str] = set()
    for _ in range(RUNS):
        # The same store again: each voter finds what the killed one before it has left.
        printed += nursery.kill_a_voter(store, threads, rng.randint(1, 60))
        with Store(store, writable=False) as kept:
            keys = [record.key for record in records_of(kept)]
        assert len(set(keys)) == len(keys)
        assert set(printed) <= set(keys)
        new = set(keys) - set(printed) - unprinted
        assert len(new) <= threads
        unprinted |= new
    assert len(printed) > RUNS
    with bbq.Hook(store) as hook:
        assert hook.fit.data.n_comparisons == len(printed) + len(unprinted)
        assert hook._engine.store.check() == []
