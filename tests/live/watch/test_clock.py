"""The clock is set back while the daemon runs: by days, as after a wrong start of a machine."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from bbq_plugin.config import load
from bbq_plugin.live.log import Log
from bbq_plugin.live.watch import Daemon
from bbq_plugin.store import Store
from tests.live.watch.running import QUICK, Nursery, Place, Votes, put
from tests.waiting import HANG_S, wait_until

BACK_S = 40 * 24 * 3600.0
BBQ = [sys.executable, "-c", "from bbq_plugin.cli import main; main(prog_name='bbq')"]


def put_back(path: Path, text: str) -> None:
    """Bring a file as it is written after the clock was set back."""
    half = path.with_name(".half")
    half.write_text(text)
    then_s = time.time() - BACK_S
    os.utime(half, (then_s, then_s))
    half.replace(path)


def moments(store: Path) -> list[tuple[float, int]]:
    with Store(store, writable=False) as opened:
        return [(point.at, point.n_comparisons) for point in opened.history()]


def test_with_the_daemons_clock_set_back_files_are_read_as_before(tmp_path: Path) -> None:
    folder, store, out = tmp_path / "in", tmp_path / "state.db", tmp_path / "out"
    folder.mkdir()
    back_s = [0.0]

    def wall_clock() -> float:
        return time.time() - back_s[0]

    given = {"folder": folder, "store": store, "out": out, "write": ["report.json"], **QUICK}
    settings = load(None, {}, given)
    log = io.StringIO()
    daemon = Daemon(settings, lambda: settings, Log(log, "json", wall_clock), wall_clock=wall_clock)
    thread = threading.Thread(target=daemon.run)
    thread.start()

    def reported() -> int:
        report = out / "report.json"
        return json.loads(report.read_text())["n_comparisons"] if report.exists() else 0

    votes = Votes()
    try:
        put(folder / "a.jsonl", votes.lines(10))
        wait_until(lambda: reported() == 10, "10 comparisons reported")
        back_s[0] = BACK_S
        put_back(folder / "b.jsonl", votes.lines(10))
        wait_until(lambda: reported() == 20, "20 comparisons reported")
        # A file that is known is replaced by one that seems to be older.
        put_back(folder / "a.jsonl", votes.lines(15))
        wait_until(lambda: reported() == 25, "25 comparisons reported")
    finally:
        daemon.stop()
        thread.join()
    history = moments(store)
    assert [n for _, n in history] == [10, 20, 25]
    assert history[1][0] < history[0][0] - BACK_S / 2


def faketime() -> Path | None:
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    return found[0] if found else None


def test_with_the_systems_clock_set_back_files_are_read_as_before(
    nursery: Nursery, tmp_path: Path
) -> None:
    library = faketime()
    if library is None:
        pytest.skip("libfaketime is not installed (Debian: apt-get install faketime)")
    place = Place(nursery, tmp_path)
    offset = tmp_path / "offset"
    offset.write_text("+0\n")
    fake = {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
        # Setting the clock moves neither the monotonic one nor the times of files.
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }
    votes = Votes()
    with place.log.open("w") as log:
        daemon = subprocess.Popen([*BBQ, *place.arguments()], stderr=log, env=os.environ | fake)
    try:
        put(place.folder / "a.jsonl", votes.lines(10))
        place.await_count(10)
        offset.write_text(f"-{int(BACK_S)}\n")
        put_back(place.folder / "b.jsonl", votes.lines(10))
        place.await_count(20)
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(HANG_S) == 0
    finally:
        daemon.kill()
        daemon.wait()
    history = moments(place.store)
    assert [n for _, n in history] == [10, 20]
    assert history[1][0] < history[0][0] - BACK_S / 2
    assert place.events()[-1]["at"] < place.events()[0]["at"]
