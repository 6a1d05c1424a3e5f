"""`bbq fit` on 5,000 lines, everything cached: wall time of the whole command.

A simulated study of 5,000 answers (12 items, 60 raters, 15% guessers, some ties) as Arena JSON
lines; the command with its defaults, as a user types it, in a process of its own. The first run,
which may have to compile, is not counted. How long the imports take is measured by a process that
only imports what the command does. Commands that need no fit (help, a file that is missing, the
status of a store) are measured by their CPU time, against that of `bbq --help`.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from common import Report, Table, arguments

from bbq_plugin import simulate
from bbq_plugin.simulation import write_study

LINES = 5000
SECONDS = 1.5
#: CPU time of an error, in that of `bbq --help`.
RATIO = 2.0
IMPORTS = (
    "import bbq_plugin.cli, bbq_plugin.data.files, bbq_plugin.analysis, "
    "bbq_plugin.report.terminal_tables"
)
PYTHON = [sys.executable, "-c"]
#: Compiled modules are cached, as they are for a user, whatever this process was told.
CACHING = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def command() -> list[str]:
    """The installed `bbq`, or the same from the source tree."""
    installed = Path(sys.executable).with_name("bbq")
    if installed.exists():
        return [str(installed)]
    return [*PYTHON, "from bbq_plugin.cli import main; main()"]


def wall(words: list[str], runs: int) -> list[float]:
    """Seconds of each run of a command, after one that does not count."""
    times = []
    for _ in range(runs + 1):
        begin = time.perf_counter()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=CACHING)
        times.append(time.perf_counter() - begin)
    return times[1:]


def cpu(words: list[str], runs: int, folder: str) -> list[float]:
    """CPU seconds of each run of a command, which may fail, after one that does not count."""
    times = []
    for _ in range(runs + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(words, check=False, capture_output=True, cwd=folder, env=CACHING)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return times[1:]


def import_shares(count: int) -> list[list[str]]:
    """The packages whose modules take longest to import, each module's own time summed."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", IMPORTS],
        check=True, stderr=subprocess.PIPE, text=True, env=CACHING,
    )  # fmt: skip
    found: Counter[str] = Counter()
    for line in done.stderr.splitlines():
        own, _, name = line.removeprefix("import time:").split("|")
        if own.strip().isdigit():
            found[name.strip().split(".")[0]] += int(own)
    return [[name, f"{value / 1000:.0f}"] for name, value in found.most_common(count)]


def main() -> None:
    """Time the command."""
    quick: bool = arguments(__doc__ or "").quick
    runs = 3 if quick else 9
    report = Report("command_line", "`bbq fit` on 5,000 lines", __doc__ or "", quick)
    study = simulate(items=12, raters=60, comparisons=LINES, guessers=0.15, ties=0.1, seed=3)
    with TemporaryDirectory() as folder:
        votes = Path(folder) / "votes.jsonl"
        with votes.open("w", encoding="utf-8") as file:
            write_study(study, file, "arena")
        whole = {
            "bbq fit votes.jsonl": wall([*command(), "fit", str(votes)], runs),
            "bbq fit votes.jsonl --format json": wall(
                [*command(), "fit", str(votes), "--format", "json"], runs
            ),
            "bbq fit votes.jsonl --priors paper": wall(
                [*command(), "fit", str(votes), "--priors", "paper"], runs
            ),
        }
        watch = [*command(), "watch", folder, "--store", "s.db", "--out", "out", "--once"]
        subprocess.run(watch, check=True, capture_output=True, cwd=folder, env=CACHING)
        light = {
            f"bbq {words}": cpu([*command(), *words.split()], runs, folder)
            for words in (
                "--help", "fit missing.jsonl", "status --store s.db", "store check --store s.db",
                "formats", "completion bash",
            )
        }  # fmt: skip
    parts = {
        "python, no imports": wall([*PYTHON, "pass"], runs),
        "imports of the command": wall([*PYTHON, IMPORTS], runs),
    }
    median = statistics.median(whole["bbq fit votes.jsonl"])
    imports = statistics.median(parts["imports of the command"])
    report.check("bbq fit, median", f"{median:.2f} s", f"< {SECONDS} s", ok=median < SECONDS)
    report.check("of this, start and imports", f"{imports:.2f} s")
    ratio = statistics.median(light["bbq fit missing.jsonl"]) / statistics.median(
        light["bbq --help"]
    )
    report.check(
        "CPU of bbq fit missing.jsonl, in that of bbq --help",
        f"{ratio:.2f} times",
        f"<= {RATIO:g} times",
        ok=ratio <= RATIO,
    )
    rows = [
        [name, f"{statistics.median(times):.2f}", f"{min(times):.2f}", f"{max(times):.2f}"]
        for name, times in (whole | parts).items()
    ]
    report.tables.append(Table(f"Seconds, {runs} runs", ["what", "median", "min", "max"], rows))
    rows = [
        [name, f"{statistics.median(times):.3f}", f"{min(times):.3f}", f"{max(times):.3f}"]
        for name, times in light.items()
    ]
    report.tables.append(Table(f"CPU seconds, {runs} runs", ["what", "median", "min", "max"], rows))
    report.tables.append(
        Table("Imports with `-X importtime`", ["package", "ms in its modules"], import_shares(6))
    )
    report.values = {**whole, **parts, **light}
    report.finish()


if __name__ == "__main__":
    main()
