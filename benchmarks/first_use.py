"""First use: what a command costs before any kernel is compiled, and after.

`bbq fit` on 5,000 votes with an empty folder for compiled code, then twice more with the same
folder. CPU time of the process, because the wall time is that of the machine's other work. Then
`bbq serve` on a store with these votes and an empty folder again: the time until the page is there,
and until it has the leaderboard.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from math import isnan
from pathlib import Path

from common import Report, arguments

BAR_S, PAGE_BAR_S = 8.0, 20.0
VOTES = 5000
PATIENCE_S = 300


def cpu_now() -> float:
    """Seconds of CPU of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def environment(cache: Path) -> dict[str, str]:
    """That of a command with its own folder for compiled code."""
    return {
        **os.environ,
        "NUMBA_CACHE_DIR": str(cache),
        "OPENBLAS_NUM_THREADS": "1",
        "BBQ_WEBHOOK_SECRET": "a-secret-of-the-benchmark",
    }


def cpu_of(words: list[str], cache: Path) -> float:
    """Seconds of CPU that one command takes."""
    before = cpu_now()
    subprocess.run(
        [sys.executable, "-m", "bbq_plugin", *words],
        env=environment(cache),
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return cpu_now() - before


def page_of(address: str) -> str:
    """The page, or nothing if there is none yet."""
    try:
        with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:  # noqa: S310 (ours)
            return str(answer.read().decode())
    except urllib.error.HTTPError:
        return ""


def first_pages(store: Path, cache: Path, item: str) -> tuple[float, float, float]:
    """From the start of a server: until a page, until one that names this item; CPU in all."""
    before, begun = cpu_now(), time.perf_counter()
    server = subprocess.Popen(
        [sys.executable, "-m", "bbq_plugin", "serve", "--port", "0", "--store", str(store)],
        env=environment(cache),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stderr is not None
        address = next(line.split()[1] for line in server.stderr if line.startswith("Serving "))
        page = page_of(address)
        there = full = time.perf_counter() - begun if page else float("nan")
        while item not in page and time.perf_counter() - begun < PATIENCE_S:
            time.sleep(0.2)
            page = page_of(address)
            full = time.perf_counter() - begun
            there = full if page and isnan(there) else there
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    return there, full, cpu_now() - before


def fill(store: Path) -> str:
    """A store with the votes of a study; an item of it."""
    import bbq_plugin as bbq  # noqa: PLC0415 (the commands before are other processes)
    from bbq_plugin.store import Store  # noqa: PLC0415

    study = bbq.simulate(items=8, raters=40, comparisons=VOTES, guessers=0.2, seed=1)
    with Store(store) as opened:
        opened.add(study.comparisons())
    return str(study.arrays().items[0])


def main() -> None:
    """Run it."""
    options = arguments(__doc__ or "")
    about = " ".join((__doc__ or "").split())
    report = Report("first_use", "The first use of a command", about, options.quick)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        votes, cache = folder / "votes.jsonl", folder / "compiled"
        words = ["simulate", "--guessers", "0.2", "--comparisons", str(VOTES), "-o", str(votes)]
        cpu_of(words, cache)
        first = cpu_of(["fit", str(votes)], cache)
        later = min(cpu_of(["fit", str(votes)], cache) for _ in range(2))
        item = fill(folder / "answers.db")
        there, full, used = first_pages(folder / "answers.db", folder / "of the server", item)
    bar = f"≤ {BAR_S:g} s"
    report.check("bbq fit, nothing compiled, CPU", f"{first:.1f} s", bar, ok=first <= BAR_S)
    report.check("bbq fit, compiled before, CPU", f"{later:.1f} s")
    bar = f"≤ {PAGE_BAR_S:g} s"
    report.check("bbq serve, nothing compiled, first page", f"{there:.1f} s", bar,
                 ok=there <= PAGE_BAR_S)  # fmt: skip
    report.check("bbq serve, nothing compiled, page with the leaderboard", f"{full:.1f} s")
    report.check("bbq serve until then, CPU", f"{used:.1f} s")
    report.finish()


if __name__ == "__main__":
    main()
