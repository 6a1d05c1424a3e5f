"""Daemons for tests: started, watched through their log, and ended by a real signal."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.waiting import HANG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

NURSERY = Path(__file__).with_name("nursery.py")
QUICK = {"settle_s": 0.1, "debounce_s": 0.02, "max_delay_s": 0.4, "rescan_s": 1}


class Nursery:
    """The process that daemons are forked from."""

    def __init__(self) -> None:
        calm = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "BBQ_THREADS": "1"}
        kept = {k: v for k, v in os.environ.items() if not k.startswith("BBQ_")}
        self._process = subprocess.Popen(
            [sys.executable, NURSERY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**kept, **calm},
        )
        ready = self._answer()
        assert ready["threads"] == 1, "a thread would be left behind by each fork"

    def ask(self, **order: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process that forks daemons is gone"
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(HANG_S)
        self._process.stdout.close()


class Place:
    """A folder to watch, a store, a folder for the results, and the daemon on them."""

    def __init__(self, nursery: Nursery, top: Path, **settings: object) -> None:
        self.nursery = nursery
        self.top = top
        self.folder, self.store, self.out = top / "in", top / "state.db", top / "out"
        self.log = top / "log.jsonl"
        self.settings: dict[str, object] = {
            **QUICK,
            "write": "report.json,leaderboard.csv,raters.csv",
            **settings,
        }
        self.uid: int | None = None
        self.environment: dict[str, str] = {}
        self.pid: int | None = None
        self._read = 0
        self.folder.mkdir(parents=True, exist_ok=True)

    def arguments(self, *more: str) -> list[str]:
        given = ["watch", str(self.folder), "--store", str(self.store), "--out", str(self.out)]
        for key, value in self.settings.items():
            option = f"--{key.replace('_', '-')}"
            given += [option] if value is True else [option, str(value)]
        return [*given, "--log-format", "json", *more]

    def start(self, *more: str, cpu_s: float | None = None) -> int:
        """Start the daemon; after `cpu_s` of work it is cut off, wherever it is."""
        assert self.pid is None
        who: dict[str, float] = {} if self.uid is None else {"uid": self.uid}
        if cpu_s is not None:
            who["cpu_s"] = cpu_s
        answer = self.nursery.ask(
            args=self.arguments(*more), stderr=str(self.log), environment=self.environment, **who
        )
        self.pid = int(answer["pid"])
        return self.pid

    def end(self, number: int | None = signal.SIGTERM) -> int:
        """Send a signal, if any, and give the exit status."""
        pid, self.pid = self.pid, None
        assert pid is not None
        if number is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return int(self.nursery.ask(wait=pid)["status"])

    def once(self) -> int:
        """Read what is there and leave."""
        self.start("--once")
        return self.end(None)

    # -- what it says

    def events(self) -> list[dict[str, Any]]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [json.loads(line) for line in lines if line.startswith("{")]

    def said(self, event: str, **fields: object) -> list[dict[str, Any]]:
        return [
            one
            for one in self.events()
            if one["event"] == event and all(one.get(k) == v for k, v in fields.items())
        ]

    def await_said(self, event: str, n: int = 1, **fields: object) -> dict[str, Any]:
        """Wait for the log to hold this event so many times."""
        self.wait_until(lambda: len(self.said(event, **fields)) >= n, f"{event} {fields}")
        return self.said(event, **fields)[n - 1]

    def await_count(self, n: int) -> None:
        """Wait for the results to be of so many comparisons."""
        self.wait_until(lambda: self.reported() == n, f"{n} comparisons reported")

    def await_more_than(self, n: int) -> None:
        """Wait for the results to be of more comparisons than these."""
        self.wait_until(lambda: (self.reported() or 0) > n, f"more than {n} reported")

    def wait_until(self, true: Callable[[], bool], what: str) -> None:
        """Wait for something that this daemon brings about."""
        wait_until(true, what, log=self.log, ended=self.has_ended)

    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self.pid is not None and not alive(self.pid)

    # -- what it wrote

    def reported(self) -> int | None:
        """How many comparisons the report is of; all outputs that are there must parse."""
        for name in ("leaderboard.csv", "raters.csv"):
            if (self.out / name).exists():
                rows = list(csv.DictReader((self.out / name).read_text().splitlines()))
                assert rows, name
                assert all(None not in row and None not in row.values() for row in rows)
        page = self.out / "report.html"
        if page.exists():
            assert page.read_text().rstrip().endswith("</html>")
        report = self.out / "report.json"
        if not report.exists():
            return None
        return int(json.loads(report.read_text())["n_comparisons"])


def alive(pid: int) -> bool:
    """Whether a process has not ended yet; where there is no /proc, it is taken to live."""
    if not Path("/proc/self/stat").exists():
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


class Votes:
    """Makes votes that all differ, as lines of an Arena log."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)  # noqa: S311 (no secret)
        self.n = 0

    def line(self) -> str:
        self.n += 1
        a, b = self._random.sample(["ape", "bee", "cat", "dog"], 2)
        winner = self._random.choice(["model_a", "model_b", "tie"])
        judge = f"judge-{self._random.randrange(5)}"
        vote = {"id": f"v{self.n}", "judge": judge, "model_a": a, "model_b": b, "winner": winner}
        return json.dumps(vote) + "\n"

    def lines(self, n: int) -> str:
        return "".join(self.line() for _ in range(n))


def put(path: Path, text: str) -> Path:
    """Bring a file by renaming it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.half")
    half.write_text(text)
    half.replace(path)
    return path
