"""Killed at any instant, the daemon loses nothing and counts nothing twice."""

from __future__ import annotations

import os
import random
import signal
from functools import partial
from pathlib import Path

import pytest

import bbq_plugin as bbq
from bbq_plugin.live.engine import Engine
from bbq_plugin.store import Store
from tests.live.watch.running import Nursery, Place, Votes, put
from tests.waiting import wait_until

# Fewer only while working on this test; the promise is about 200.
RUNS = int(os.environ.get("BBQ_TEST_KILLS", "200"))

# The page is drawn in some of the runs; it takes longer than all the rest.
PAGE_EVERY = 20
TABLES = "report.json,leaderboard.csv,raters.csv"
WITH_PAGE = f"{TABLES},report.html"


class Bringer:
    """Brings files in every way there is, and remembers what the folder holds."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder
        self.votes = Votes()
        self._random = chance
        self._n = 0
        self._unfinished: str | None = None

    def bring(self) -> None:
        """Make one change to the folder."""
        ways = (self._rename, self._write, self._append, self._table, self._copy, self._export)
        self._random.choice(ways)()

    def _new(self, suffix: str) -> Path:
        self._n += 1
        return self.folder / f"{self._n:04}{suffix}"

    def _rename(self) -> None:
        put(self._new(".jsonl"), self.votes.lines(self._random.randint(1, 20)))

    def _write(self) -> None:
        with self._new(".jsonl").open("w") as file:
            for _ in range(3):
                file.write(self.votes.lines(4))
                file.flush()

    def _append(self) -> None:
        """A log whose last line is half there until the next time."""
        line = self.votes.line()
        with (self.folder / "log.jsonl").open("a") as file:
            if self._unfinished is not None:
                file.write(self._unfinished)
            file.write(self.votes.lines(5) + line[:25])
        self._unfinished = line[25:]

    def _table(self) -> None:
        """Rows without a key of their own: counted twice, they would not be told apart."""
        path = self._new(".csv")
        lines = ["rater,winner,loser,weight"]
        for _ in range(self._random.randint(1, 10)):
            winner, loser = self._random.sample(["ape", "bee", "cat", "dog"], 2)
            lines.append(f"{path.stem},{winner},{loser},1")
        put(path, "\n".join(lines) + "\n")

    def _copy(self) -> None:
        """The same answers again under another name."""
        known = sorted(self.folder.glob("0*.jsonl"))
        if known:
            put(self._new(".jsonl"), self._random.choice(known).read_text())

    def _export(self) -> None:
        """The same file with more in it than before."""
        path = self.folder / "export.jsonl"
        before = path.read_text() if path.exists() else ""
        put(path, before + self.votes.lines(3))

    def finish(self) -> None:
        """Complete the half line."""
        if self._unfinished is not None:
            with (self.folder / "log.jsonl").open("a") as file:
                file.write(self._unfinished)
            self._unfinished = None


def test_killed_at_random_instants_nothing_is_lost_and_nothing_counted_twice(
    nursery: Nursery, tmp_path: Path
) -> None:
    chance = random.Random(4)  # noqa: S311 (no secret)
    place = Place(nursery, tmp_path, settle_s=0.05, debounce_s=0.01, priors="paper")
    bringer = Bringer(place.folder, chance)
    # How much work of the processor it takes to have results; learnt on the way.
    usual_s = {TABLES: 0.3, WITH_PAGE: 1.0}
    last = n_with_results = 0
    for run in range(RUNS):
        outputs = WITH_PAGE if run % PAGE_EVERY == 0 else TABLES
        place.settings["write"] = outputs
        n_done = len(place.said("refreshed"))
        n_started = len(place.said("started"))
        # Half of the kills come before the work is usually done, half after.
        place.start(cpu_s=chance.uniform(0.001, 2 * usual_s[outputs]))
        bringer.bring()
        for _ in range(chance.randint(0, 2)):
            # While it starts, and while it works.
            wait_until(partial(_said_or_ended, place, "started", n_started), "the start")
            bringer.bring()
        wait_until(partial(_said_or_ended, place, "refreshed", n_done), "results, or the end")
        status = place.end(signal.SIGKILL)
        assert status in (-signal.SIGKILL, -signal.SIGPROF), place.log.read_text()[-2000:]
        reported = place.reported()
        if place.store.exists():
            last = _at_least(place, last, reported)
        # What is usual changes with what else the machine does.
        had_results = len(place.said("refreshed")) > n_done
        usual_s[outputs] *= 0.9 if had_results else 1.1
        n_with_results += had_results
    # Some were killed before they had results, and some after.
    assert RUNS // 10 < n_with_results < RUNS - RUNS // 10
    bringer.finish()
    assert place.once() == 0, place.log.read_text()[-2000:]
    _equals_a_cold_reading(place)


def _said_or_ended(place: Place, event: str, n: int) -> bool:
    return place.has_ended() or len(place.said(event)) > n


def _at_least(place: Place, before: int, reported: int | None) -> int:
    """What was stored stays stored, the store is sound, and no result runs ahead of it."""
    with Store(place.store, writable=False) as store:
        assert store.check() == []
        n = store.counts().n_comparisons
    assert n >= before
    assert reported is None or reported <= n
    return n


def _equals_a_cold_reading(place: Place) -> None:
    files = sorted(path for path in place.folder.iterdir() if not path.name.startswith("."))
    cold = bbq.read(files)
    assert place.reported() == cold.n_comparisons
    with Store(place.store, writable=False) as store:
        assert store.counts().n_comparisons == cold.n_comparisons
    with Engine(place.store) as engine:
        engine.refresh(full=True)
        live, fresh = engine.fit, bbq.fit(cold)
    theta = dict(zip(live.items, live.theta, strict=True))
    quality = dict(zip(live.raters, live.quality, strict=True))
    # Both stop within 1e-6 of the optimum.
    assert theta == pytest.approx(dict(zip(fresh.items, fresh.theta, strict=True)), abs=3e-6)
    assert quality == pytest.approx(dict(zip(fresh.raters, fresh.quality, strict=True)), abs=3e-6)
