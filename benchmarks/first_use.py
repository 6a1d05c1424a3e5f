"""First use: what a command costs before any kernel is compiled, and after.

`bbq fit` on 5,000 votes with an empty folder for compiled code, then twice more with the same
folder. CPU time of the process, because the wall time is that of the machine's other work.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from common import Report, arguments

BAR_S = 8.0


def cpu_of(words: list[str], cache: Path) -> float:
    """Seconds of CPU that one command takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, "-m", "bbq_plugin", *words],
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Run it."""
    options = arguments(__doc__ or "")
    about = " ".join((__doc__ or "").split())
    report = Report("first_use", "The first use of a command", about, options.quick)
    with tempfile.TemporaryDirectory() as name:
        votes, cache = Path(name) / "votes.jsonl", Path(name) / "compiled"
        words = ["simulate", "--guessers", "0.2", "--comparisons", "5000", "-o", str(votes)]
        cpu_of(words, cache)
        first = cpu_of(["fit", str(votes)], cache)
        later = min(cpu_of(["fit", str(votes)], cache) for _ in range(2))
    bar = f"≤ {BAR_S:g} s"
    report.check("bbq fit, nothing compiled, CPU", f"{first:.1f} s", bar, ok=first <= BAR_S)
    report.check("bbq fit, compiled before, CPU", f"{later:.1f} s")
    report.finish()


if __name__ == "__main__":
    main()
