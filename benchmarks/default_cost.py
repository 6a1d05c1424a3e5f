"""What the default costs: priors, camps, robust intervals and verdicts, against the paper's fit.

CPU time of the default fit in units of the same fit under the paper's priors (one camp), at
HUMAINE's size (105,220 comparisons, 1,977 raters, 27 items), with 10,000 raters and 500 items (with
the verdicts; also where half of the raters gave at most 12 answers, and a few hundreds), and with
5 million comparisons of 20,000 items. The whole command `bbq fit` is measured against evalica's own
command on the same votes as CSV, every cache warm. numpy's BLAS has one thread: its others wait
busily, and their CPU time would be that of the machine's load. Last, a study that grows by a tenth:
`Engine.refresh`, which goes on from the last fit, against the first.
"""

from __future__ import annotations

import csv
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported

from common import Report, arguments, cpu_of

from bbq_plugin import Comparison, Comparisons, Engine, fit, rater_report, simulate

if TYPE_CHECKING:
    from bbq_plugin.simulation import Study

HUMAINE = {"items": 27, "raters": 1977, "comparisons": 105_220, "median_votes": 30.0}
WIDE = {"items": 500, "raters": 10_000, "comparisons": 200_000}
HUGE = {"items": 20_000, "raters": 20_000, "comparisons": 5_000_000}
GROWING = {"items": 27, "raters": 400, "comparisons": 20_000}
#: Compiled modules are cached, as they are for a user, whatever this process was told.
CACHING = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def study(**size: float) -> Study:
    """A study with a fifth of guessers."""
    return simulate(guessers=0.2, quality=(8.0, 2.0), seed=7, **size)  # type: ignore[arg-type]


def child_seconds(command: list[str]) -> float:
    """The least CPU time of three runs of a command, after one that fills the caches."""
    spent = []
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            command, check=True, env=CACHING, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent[1:])


def humaine(report: Report, data: Comparisons) -> None:
    """Default fit and camps at HUMAINE's size."""
    paper = cpu_of(lambda: fit(data, priors="paper", camps=1), 5)
    one = cpu_of(lambda: fit(data, camps=1), 3)
    auto = cpu_of(lambda: fit(data), 3)
    report.check("default fit (camps=1) / priors='paper', HUMAINE's size", f"{one / paper:.1f}",
                 "≤ 30", ok=one <= 30 * paper)  # fmt: skip
    report.check("camps='auto' / camps=1 on an undivided panel", f"{auto / one:.2f}",
                 "≤ 1.3", ok=auto <= 1.3 * one)  # fmt: skip
    report.values["humaine"] = {"paper": paper, "one": one, "auto": auto}


def with_verdicts(report: Report, data: Comparisons, kind: str) -> None:
    """Default fit with camps and verdicts, many raters and items."""
    paper = cpu_of(lambda: fit(data, priors="paper", camps=1), 3)
    whole = cpu_of(lambda: rater_report(fit(data)), 1)
    what = "default fit with camps and verdicts / priors='paper', 10,000 raters, 500 items"
    report.check(what + kind, f"{whole / paper:.1f}", "≤ 60", ok=whole <= 60 * paper)
    report.values[f"wide{kind}"] = {"paper": paper, "whole": whole}


def very_many_items(report: Report, data: Comparisons) -> None:
    """Estimated priors of 20,000 items."""
    # Once each: everything is compiled by now, and each takes a while.
    begin = time.process_time()
    fit(data, priors="paper", camps=1)
    paper = time.process_time() - begin
    begin = time.process_time()
    estimated = fit(data).given_priors().estimated
    auto = time.process_time() - begin
    report.check("default fit / priors='paper', 5 million comparisons, 20,000 items",
                 f"{auto / paper:.1f}", "estimated, ≤ 10",
                 ok=estimated and auto <= 10 * paper)  # fmt: skip
    report.values["huge"] = {"paper": paper, "auto": auto}


def command_line(report: Report, drawn: Study) -> None:
    """`bbq fit` against evalica's command, the same votes as CSV."""
    items = drawn.truth.items
    with TemporaryDirectory() as folder:
        ours, theirs = Path(folder, "votes.csv"), Path(folder, "pairs.csv")
        with ours.open("w", newline="") as one, theirs.open("w", newline="") as two:
            first, second = csv.writer(one), csv.writer(two)
            first.writerow(["judge", "left", "right", "winner"])
            second.writerow(["left", "right", "winner"])
            for rater, (left, right), order, _ in drawn.answers():
                row = [items[left], items[right], "left" if order[0] == 0 else "right"]
                first.writerow([rater, *row])
                second.writerow(row)
        bin_folder = Path(sys.executable).parent
        out = os.devnull
        evalica = child_seconds(
            [str(bin_folder / "evalica"), "-i", str(theirs), "-o", out, "pairwise", "bradley-terry"]
        )
        bbq = child_seconds([sys.executable, "-m", "bbq_plugin", "fit", str(ours)])
    report.check("`bbq fit` / evalica's command, HUMAINE's size", f"{bbq / evalica:.2f}", "≤ 1.8",
                 ok=bbq <= 1.8 * evalica)  # fmt: skip
    report.values["command"] = {"evalica": evalica, "bbq": bbq}


def growth(report: Report, drawn: Study) -> None:
    """A refit of a study that grew by a twentieth, and by a tenth of what it was, warm."""
    items = drawn.truth.items
    answers = [
        Comparison(str(n), rater, items[left], items[right], "left" if order[0] == 0 else "right")
        for n, (rater, (left, right), order, _) in enumerate(drawn.answers())
    ]
    spent: dict[str, float] = {}
    with TemporaryDirectory() as folder:
        for turn in ("compiling", "timed"):
            with Engine(Path(folder, f"{turn}.db")) as engine:
                begin = 0
                for what, until in (("first", 0.9), ("a twentieth more", 0.945), ("outgrown", 1.0)):
                    end = int(until * len(answers))
                    engine.add(answers[begin:end])
                    start = time.process_time()
                    engine.refresh()
                    spent[what], begin = time.process_time() - start, end
    first = spent["first"]
    for what in ("a twentieth more", "outgrown"):
        ratio = spent[what] / first
        bar = "< 1" if what == "a twentieth more" else ""
        report.check(f"refresh of a grown study ({what}) / first fit, 20,000 answers",
                     f"{ratio:.2f}", bar, ok=ratio < 1 if bar else None)  # fmt: skip
    report.values["growth"] = spent


def main() -> None:
    """Measure and print."""
    quick: bool = arguments(__doc__ or "").quick
    report = Report("default_cost", "What the default costs", __doc__ or "", quick)
    drawn = study(**HUMAINE)
    humaine(report, drawn.arrays())
    command_line(report, drawn)
    growth(report, study(**GROWING))
    with_verdicts(report, study(**WIDE).arrays(), "")
    unequal = study(**WIDE, median_votes=12.0)
    with_verdicts(report, unequal.arrays(), ", unequal numbers of answers")
    if not quick:
        very_many_items(report, study(**HUGE).arrays())
    report.finish()


if __name__ == "__main__":
    main()
