"""What the benchmarks share: timing, the table of bars, the environment, real data, results.

Each script measures one row (or two related rows) of the table of bars, prints what it
measured beside the bar, and exits with 1 if a bar is missed. Ratios are always between
things that ran in the same run on the same machine.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bbq_plugin import Comparisons

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "results"
FIGURES = ROOT / "docs" / "figures"
DATA = ROOT.parent / "shared" / "data"

# So that a script also runs where the package is not installed (child processes included).
for _folder in (str(ROOT / "adapters"), str(ROOT)):
    if _folder not in sys.path:
        sys.path.insert(0, _folder)

#: Points of the paper's rating scale per nat of theta.
PAPER_ELO = 400.0

#: The paper's own fit: one ranking, ties as two halves.
PAPERS: dict[str, Any] = {"priors": "paper", "camps": 1, "ties": "half"}

Work = TypeVar("Work")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Check:
    """One measured value beside its bar; `ok` is None where the value is shown without a bar."""

    what: str
    measured: str
    bar: str = ""
    ok: bool | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Further numbers that belong to the result, already as text."""

    caption: str
    header: list[str]
    rows: list[list[str]]


@dataclass(slots=True)
class Report:
    """All that a benchmark has to say; `values` holds the raw numbers for machines."""

    name: str
    title: str
    about: str
    quick: bool
    checks: list[Check] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    began: float = field(default_factory=time.perf_counter)

    def check(self, what: str, measured: str, bar: str = "", *, ok: bool | None = None) -> None:
        """Add a measured value; with `ok` it is judged."""
        self.checks.append(Check(what, measured, bar, None if ok is None else bool(ok)))

    def check_share(
        self, what: str, value: float, error: float, bar: tuple[float, float] | None = None
    ) -> None:
        """Add a share with its standard error; few studies (--quick) are allowed three of these."""
        shown = f"{per_cent(value)} ± {per_cent(error)}"
        if bar is None:
            self.check(what, shown)
            return
        allowed = 3 * error if self.quick else 0.0
        text = f"{100 * bar[0]:g}–{100 * bar[1]:g}%" + (" (± 3 s.e.)" if self.quick else "")
        self.check(what, shown, text, ok=within(value, bar[0] - allowed, bar[1] + allowed))

    def finish(self) -> NoReturn:
        """Print the table, save the result of a full run, and exit with 1 if a bar was missed."""
        seconds = time.perf_counter() - self.began
        where = environment()
        print(f"\n{self.title}")
        if self.quick:
            print("--quick: smaller sizes; these are not the results, and they are not saved")
        print(", ".join(f"{key} {value}" for key, value in where.items()) + f"; {seconds:.0f} s\n")
        rows = [[c.what, c.measured, c.bar, _verdict(c)] for c in self.checks]
        print_table(["what", "measured", "bar", ""], rows)
        for table in self.tables:
            print(f"\n{table.caption}")
            print_table(table.header, table.rows)
        for note in self.notes:
            print(f"\n- {note}")
        if not self.quick:
            document = {
                key: value for key, value in asdict(self).items() if key not in ("quick", "began")
            }
            document |= {"environment": where, "seconds": round(seconds, 1)}
            RESULTS.mkdir(exist_ok=True)
            (RESULTS / f"{self.name}.json").write_text(written(document), encoding="utf-8")
        missed = sum(check.ok is False for check in self.checks)
        if missed:
            print(f"\n{missed} of {len(self.checks)} missed")
        sys.exit(1 if missed else 0)


def _verdict(check: Check) -> str:
    return {None: "", True: "pass", False: "FAIL"}[check.ok]


def print_table(header: list[str], rows: list[list[str]]) -> None:
    """Columns as wide as their longest cell."""
    widths = [max(len(row[c]) for row in [header, *rows]) for c in range(len(header))]
    for row in [header, ["-" * w for w in widths], *rows]:
        print("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())


def environment() -> dict[str, str]:
    """What a reader needs to judge the seconds."""
    found = {"cores": str(cores()), "python": platform.python_version()}
    return found | {name: version(name) for name in ("numpy", "scipy", "numba")}


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def arguments(about: str) -> argparse.Namespace:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(description=about.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes, in seconds")
    return parser.parse_args()


def seconds_of(work: Callable[[], object]) -> float:
    """Wall time of one call, with the garbage of others collected before."""
    gc.collect()
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def best_of(work: Callable[[], object], times: int, warm_up: int = 1) -> float:
    """The shortest of several calls, after warming up: the one that others disturbed least."""
    for _ in range(warm_up):
        work()
    return min(seconds_of(work) for _ in range(times))


def cpu_of(work: Callable[[], object], times: int) -> float:
    """The least CPU time of several calls, all threads counted, after one that may compile."""
    work()
    best = float("inf")
    for _ in range(times):
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return best


def peak_memory_bytes() -> int:
    """The peak of this process since it was started.

    VmHWM where there is one: `ru_maxrss` also counts the parent that the process was forked from.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource  # noqa: PLC0415 (not on every system)

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def in_child(script: str, *words: str) -> dict[str, Any]:
    """Run this script again with `words`, in a process of its own, and read the JSON it prints."""
    command = [sys.executable, script, *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def written(document: dict[str, Any]) -> str:
    """The document as JSON, one line for each list of numbers."""
    text = json.dumps(document, indent=1, ensure_ascii=False, default=float)
    return (
        re.sub(r"\[[-+.\deE\s,NanIfity]+\]", lambda found: " ".join(found[0].split()), text) + "\n"
    )


def in_two_processes(
    study: Callable[[Work], Result], work: Iterable[Work], workers: int = 2
) -> Iterator[Result]:
    """`study(piece)` for each piece, in spawned processes of one thread each, in order."""
    os.environ["BBQ_THREADS"] = "1"
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap(study, work)


def real_sets(report: Report, *names: str) -> dict[str, Comparisons]:
    """The public sets that are there; what is not there is said and skipped."""
    from bbq_plugin import read  # noqa: PLC0415 (a child that only measures must not pay for it)

    found = {}
    for name in names:
        path = DATA / name / "comparisons.jsonl"
        if path.exists():
            found[name] = read(path)
        else:
            report.notes.append(f"{name} was skipped: its file is not in the shared data folder.")
    return found


@contextmanager
def figure(report: Report, stem: str, width: float = 7.0, height: float = 4.2) -> Iterator[Axes]:
    """Axes to draw on, saved as docs/figures/STEM.svg after a full run."""
    import matplotlib as mpl  # noqa: PLC0415 (slow, and few benchmarks draw)

    mpl.use("agg")
    # The same numbers give the same file, and the text stays text in the reader's own fonts.
    mpl.rcParams.update({"svg.hashsalt": "bbq", "svg.fonttype": "none"})
    from matplotlib import pyplot as plt  # noqa: PLC0415 (after the choice of backend)

    canvas, axes = plt.subplots(figsize=(width, height), layout="constrained")
    axes.grid(visible=True, alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    yield axes
    if not report.quick:
        FIGURES.mkdir(parents=True, exist_ok=True)
        canvas.savefig(FIGURES / f"{stem}.svg", metadata={"Date": None})
        report.figures.append(f"figures/{stem}.svg")
    plt.close(canvas)


def mean_and_error(values: Iterable[float]) -> tuple[float, float]:
    """The mean and its standard error."""
    numbers = list(values)
    n = len(numbers)
    mean = sum(numbers) / n
    spread = sum((x - mean) ** 2 for x in numbers) / max(1, n - 1)
    return mean, (spread / n) ** 0.5


def per_cent(share: float, digits: int = 2) -> str:
    """0.9512 as 95.12%."""
    return f"{100 * share:.{digits}f}%"


def within(value: float, low: float, high: float) -> bool:
    """Whether a value lies between two ends, both allowed."""
    return low <= value <= high
