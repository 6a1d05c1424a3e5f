"""Potato: how soon an answer that it has saved is in the report of a watched project.

A real Potato and a real `bbq watch`, each in a process of its own. Twelve annotators give 30
answers each; then single answers are followed, one after the other, once the first report with all
its files is written (the start of the daemon is not part of it).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
from common import ROOT, Report, arguments

sys.path.insert(0, str(ROOT))
from bbq_adapters.potato import Visitor

from tests.live.potato.server import installed, running
from tests.live.potato.test_potato import COMPARING, MODELS, RATERS, answer, made

BAR_S = 2.0
PAUSE_S = 0.02


def main() -> None:
    """Run it."""
    options = arguments(__doc__ or "")
    about = " ".join((__doc__ or "").split())
    report = Report("potato", "A watched Potato project", about, options.quick)
    rng = np.random.default_rng(5)
    tasks = [
        {"id": f"task-{i}", "text": f"Question {i}", "responses": [f"Answer of {m}" for m in pair],
         "model_a": pair[0], "model_b": pair[1], "models": rng.permutation(MODELS)[:4].tolist()}
        for i, pair in enumerate(rng.permutation(MODELS)[:2].tolist() for _ in range(60))
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = made(Path(name) / "project", COMPARING, tasks)
        with running(installed(), folder) as url:
            visitors = {rater: Visitor(url, rater) for rater in RATERS}
            for rater, visitor in visitors.items():
                visitor.ask("/annotate")
                for place in range(30):
                    answer(visitor, rng, rater, place)
            waits = _followed(folder, visitors, rng, 5 if options.quick else 20)
    report.check("answer to report, median", f"{median(waits):.2f} s", f"≤ {BAR_S:g} s",
                 ok=median(waits) <= BAR_S)  # fmt: skip
    report.check("answer to report, slowest", f"{max(waits):.2f} s", f"≤ {BAR_S:g} s",
                 ok=max(waits) <= BAR_S)  # fmt: skip
    report.check("load of the machine", f"{os.getloadavg()[0]:.1f}")
    report.finish()


def _followed(
    folder: Path, visitors: dict[str, Visitor], rng: np.random.Generator, n: int
) -> list[float]:
    """Seconds from the end of each answer's request to the report that has it."""
    out = folder.parent / "out"
    words = [sys.executable, "-m", "bbq_plugin", "watch", str(folder), "--out", str(out)]
    words += ["--store", str(folder.parent / "a.db"), "-O", "question=better"]
    watch = subprocess.Popen(words, stderr=subprocess.DEVNULL, env=os.environ)
    try:
        _until(out / "report.json", 30 * len(RATERS))
        while not (out / "report.html").exists():  # the last file of a report
            time.sleep(PAUSE_S)
        waits = []
        for i in range(n):
            rater = RATERS[i % len(RATERS)]
            answer(visitors[rater], rng, rater, 30 + i // len(RATERS))
            begun = time.monotonic()
            _until(out / "report.json", 30 * len(RATERS) + i + 1)
            waits.append(time.monotonic() - begun)
        return waits
    finally:
        watch.send_signal(signal.SIGTERM)
        watch.wait()


def _until(file: Path, n: int) -> None:
    while not file.exists() or json.loads(file.read_text())["n_comparisons"] < n:
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
