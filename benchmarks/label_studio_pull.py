"""Pulling a Label Studio project of 100,000 annotations from a real server on this machine.

The server is that of the tests. It does most of the work: what is judged is how much of the time
a pull spends itself, that memory stays flat, and that a pull with nothing new is cheap beside the
first one.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common import Report, arguments, in_child, peak_memory_bytes

PAGE = 200
BATCH = 2000


def fill(server: Any, n_tasks: int) -> int:
    """Three answers a task, imported."""
    from tests.live.label_studio.study import PAIRWISE, answer, pair  # noqa: PLC0415

    rng = random.Random(1)  # noqa: S311 (a study)
    project = server.project(PAIRWISE, "A large one", maximum_annotations=3)
    raters = [server.sign_up(f"rater{n}@example.com") for n in range(3)]
    for start in range(0, n_tasks, BATCH):
        body = []
        for _ in range(min(BATCH, n_tasks - start)):
            left, right = rng.sample("abcdefgh", 2)
            said = [answer(rater, rng.choice(["left", "right"])) for rater in raters]
            body.append({"data": pair(left, right), "annotations": said})
        server.post(f"/api/projects/{project}/import", body)
    return project


def pull(url: str, project: str, store: str) -> dict[str, Any]:
    """One pull in a process of its own."""
    from bbq_plugin.live.pull import pull as pull_project  # noqa: PLC0415
    from bbq_plugin.plugins import tool  # noqa: PLC0415
    from bbq_plugin.store import Store  # noqa: PLC0415
    from bbq_plugin.store.project_sync import Memory  # noqa: PLC0415

    token = os.environ["LABEL_STUDIO_API_KEY"]
    opened = tool().open(url, token, int(project), options={}, page_size=PAGE)
    with Store(store) as kept:
        memory = Memory(kept, "label-studio", int(project), url)
        began, cpu = time.perf_counter(), time.process_time()
        peaks = []
        done = pull_project(opened, memory, progress=lambda _: peaks.append(peak_memory_bytes()))
        seconds, used = time.perf_counter() - began, time.process_time() - cpu
        found = {"tasks": memory.n_tasks(), "answers": memory.n_answers()}
    opened.close()
    middle = peaks[len(peaks) // 2]
    return found | {
        "seconds": seconds, "cpu_s": used, "pages": done.n_pages,
        "middle": middle, "peak": peak_memory_bytes(),
    }  # fmt: skip


def main() -> None:
    """Fill, pull, pull again."""
    from tests.live.label_studio.server import running  # noqa: PLC0415

    quick: bool = arguments(__doc__ or "").quick
    title = "Pulling a Label Studio project of 100,000 annotations"
    report = Report("label_studio_pull", title, __doc__ or "", quick)
    n_tasks = 2_000 if quick else 33_334
    with running() as server, TemporaryDirectory() as folder:
        project = fill(server, n_tasks)
        # Not as an argument: these are for everybody to see.
        os.environ["LABEL_STUDIO_API_KEY"] = server.token
        where = (server.url, project, Path(folder) / "answers.db")
        first = in_child(__file__, *map(str, where))
        again = in_child(__file__, *map(str, where))
    share = first["cpu_s"] / first["seconds"]
    growth = (first["peak"] - first["middle"]) / 2**20
    report.check("answers", f"{first['answers']:,}", f"{3 * n_tasks:,}",
                 ok=first["answers"] == 3 * n_tasks)  # fmt: skip
    report.check("first pull", f"{first['seconds']:.0f} s, {first['pages']:,} pages")
    report.check("of it in this program", f"{share:.0%}", "at most a half", ok=share <= 0.5)
    report.check("memory gained in the second half of the pages", f"{growth:.0f} MB",
                 "at most 50 MB", ok=growth <= 50)  # fmt: skip
    ratio = again["seconds"] / first["seconds"]
    report.check("pull with nothing new, of the first", f"{ratio:.1%}", "at most 25%",
                 ok=ratio <= 0.25)  # fmt: skip
    report.values = {"first": first, "again": again}
    report.finish()


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(json.dumps(pull(*sys.argv[1:])))
    else:
        main()
