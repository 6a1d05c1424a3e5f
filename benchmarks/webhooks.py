"""Events of a labelling tool: how fast they are answered, whether one is lost, what they cost.

A real `bbq serve` in a process of its own gets 200 events a second for 60 seconds on the loopback,
over lines that stay open and in no step with the answers: an event that has to wait counts from
the moment at which it should have been sent. Meanwhile 20 readers have its pages open, as browsers
do: each hears of news over SSE, and then fetches its page again. Afterwards single events are
followed to the page.

Before and after it, the same load goes to a bare endpoint that does nothing but put each body on
disk: what this machine, its disk and the sender take by themselves.

Then the same with a large study: 200,000 answers of 10,000 raters about 500 items are there before,
100 events a second come, and 10 readers have pages open.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any

from common import ROOT, Report, arguments

from bbq_plugin.data.records import Comparison
from bbq_plugin.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request
    from starlette.responses import Response

BARE_S = 8
SECRET = "a-secret-of-the-benchmark"  # noqa: S105
LINES = 32
BAR_MS = 50.0
PAGE_S = 1.0
#: What a page does between two fetches (PAUSE_MS of page.js).
PAUSE_S = 0.4


@dataclass(frozen=True)
class Study:
    """Who answers about what, how fast events come, and how many readers look."""

    n_items: int
    n_raters: int
    rate: int
    n_readers: int
    #: Answers that are in the store before.
    n_before: int
    #: The bar for the 99th percentile of a page.
    page_s: float

    def paths(self) -> Iterator[str]:
        """The page of each reader."""
        shown = ["/", "/raters", "/pairs", f"/rater?name={self.n_raters // 2}", "/log"]
        return islice(cycle(shown), self.n_readers)


SMALL = Study(n_items=12, n_raters=60, rate=200, n_readers=20, n_before=400, page_s=1.0)
LARGE = Study(n_items=500, n_raters=10_000, rate=100, n_readers=10, n_before=200_000, page_s=2.0)


def event(number: int, random: Random, study: Study = SMALL) -> bytes:
    """An annotation in the shape and size of Label Studio's webhooks."""
    left, right = random.sample(range(study.n_items), 2)
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    control = {"type": "Pairwise", "to_name": ["text1", "text2"], "inputs": [], "labels": []}
    selected = "left" if (left < right) == (random.random() < 0.8) else "right"
    annotation = {
        "id": number,
        "result": [{"type": "pairwise", "from_name": "pw", "value": {"selected": selected}}],
        "was_cancelled": False,
        "created_at": now,
        "updated_at": now,
        "lead_time": 4.2,
        "task": number,
        "project": 1,
        "completed_by": random.randrange(study.n_raters),
    }
    data = {"text1": "x" * 300, "text2": "y" * 300, "model1": f"m{left}", "model2": f"m{right}"}
    project = {
        "id": 1,
        "label_config": "<View>" + " " * 1000 + "</View>",
        "parsed_label_config": {"pw": control},
        "token": "t" * 40,
    }
    told = {
        "action": "ANNOTATION_CREATED",
        "annotation": annotation,
        "task": {"id": number, "data": data, "project": 1},
        "project": project,
    }
    return json.dumps(told).encode()


def page_waits(port: int, before: int, sent: int, events: int = 10) -> list[float]:
    """Seconds from an event's answer until the page counts it, sorted.

    `before` answers were there, and `sent` events went before. One event at a time, because the
    page shows the last of several at once.
    """
    random = Random(2)  # noqa: S311 (a benchmark)
    waits = []
    for number in range(sent + 1, sent + events + 1):
        _ask(port, "/webhook/label-studio", event(number, random))
        begun = time.perf_counter()
        while _shown(port) != before + number:
            if time.perf_counter() - begun > 60:
                raise SystemExit(f"the page does not count event {number}")
            time.sleep(0.01)
        waits.append(time.perf_counter() - begun)
    return sorted(waits)


def _ask(port: int, path: str, body: bytes | None = None) -> str:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    line.request("GET" if body is None else "POST", path, body, {"X-BBQ-Secret": SECRET})
    text = line.getresponse().read().decode()
    line.close()
    return text


def _shown(port: int) -> int:
    """How many comparisons the page counts."""
    found = re.search(r'id="n">([\d,]+)<', _ask(port, "/"))
    return int(found[1].replace(",", "")) if found else 0


def memory_bytes(pid: int) -> int:
    """What a process holds in memory now."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("VmRSS is not known on this system")


class Line:
    """One open connection."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """One request; the status and the body of the answer."""
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        sent = (
            "" if body is None
            else f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        )  # fmt: skip
        head = (
            f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: localhost\r\n"
            f"X-BBQ-Secret: {SECRET}\r\n{sent}\r\n"
        )
        writer.write(head.encode() + (body or b""))
        answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(answer.split("content-length:")[1].split("\r\n")[0])
        return int(answer.split()[1]), await reader.readexactly(length)

    def close(self) -> None:
        """End the connection."""
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None


@dataclass
class Readers:
    """Pages that are open: how long each fetch took."""

    port: int
    waits: list[float] = field(default_factory=list)
    n_failed: int = 0

    async def read(self, path: str) -> None:
        """Keep a page up to date, as page.js does, until this is cancelled."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        news = asyncio.Event()

        async def listen() -> None:
            while line := await reader.readline():
                if line.startswith(b"data:"):
                    news.set()

        listening = asyncio.create_task(listen())
        try:
            while True:
                await news.wait()
                news.clear()
                begun = time.perf_counter()
                # The server closes a line that was idle for long, as between two large fits.
                page = Line(self.port)
                status, _ = await page.ask(path)
                self.waits.append(time.perf_counter() - begun)
                page.close()
                self.n_failed += status != 200
                await asyncio.sleep(PAUSE_S)
        finally:
            listening.cancel()
            writer.close()


async def load(
    port: int, seconds: int, pid: int, sent: int = 0, study: Study = SMALL, *, readers: bool = False
) -> dict[str, Any]:
    """Send at the rate; seconds from due to answered, statuses, and memory on the way.

    `sent`: how many events went before, because each is an annotation of its own.
    """
    rate = study.rate
    random = Random(1)  # noqa: S311 (a benchmark)
    # In turn, so that no line is idle for so long that the server closes it.
    free: asyncio.Queue[Line] = asyncio.Queue()
    for _ in range(LINES):
        free.put_nowait(Line(port))
    waits: list[float] = []
    statuses: list[int] = []
    memory: list[int] = []

    async def one(number: int, due: float) -> None:
        body = event(number, random, study)
        line = await free.get()
        status, _ = await line.ask("/webhook/label-studio", body)
        free.put_nowait(line)
        waits.append(time.perf_counter() - due)
        statuses.append(status)

    pages = Readers(port)
    looking = [asyncio.create_task(pages.read(path)) for path in study.paths() if readers]
    begin = time.perf_counter()
    tasks = []
    for number in range(rate * seconds):
        due = begin + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(one(sent + number + 1, due)))
        if number % rate == 0:
            memory.append(memory_bytes(pid))
    await asyncio.gather(*tasks)
    memory.append(memory_bytes(pid))
    for reader in looking:
        reader.cancel()
    for ended in await asyncio.gather(*looking, return_exceptions=True):
        if not isinstance(ended, asyncio.CancelledError):
            raise SystemExit(f"a page was not answered: {ended!r}")
    return {
        "waits": sorted(waits),
        "pages": sorted(pages.waits),
        "pages_failed": pages.n_failed,
        "statuses": statuses,
        "memory": memory,
        "seconds": time.perf_counter() - begin,
    }


@contextmanager
def serving(*command: str) -> Iterator[tuple[int, int]]:
    """A server on a free port, in a process of its own; the port and the process."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "adapters")])
    process = subprocess.Popen(
        [sys.executable, *command],
        env={**os.environ, "BBQ_WEBHOOK_SECRET": SECRET, "PYTHONPATH": path},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("Serving "):
                yield int(line.split()[1].rsplit(":", 1)[1]), process.pid
                return
        raise SystemExit(f"{command[-1]} did not start")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def bare(store: str) -> None:
    """Put each body on disk in a transaction of its own, and answer; nothing else."""
    import uvicorn  # noqa: PLC0415 (this is another process)
    from starlette.applications import Starlette  # noqa: PLC0415
    from starlette.responses import JSONResponse  # noqa: PLC0415
    from starlette.routing import Route  # noqa: PLC0415

    from bbq_plugin.live.server.service import listening  # noqa: PLC0415

    db = sqlite3.connect(store, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE IF NOT EXISTS event (id INTEGER PRIMARY KEY, body BLOB)")

    async def receive(request: Request) -> Response:
        body = await request.body()
        db.execute("INSERT INTO event (body) VALUES (?)", (body,))
        return JSONResponse({"detail": "on disk"})

    app = Starlette(routes=[Route("/webhook/label-studio", receive, methods=["POST"])])
    door = listening("127.0.0.1", 0)
    door.listen(2048)
    print(f"Serving http://127.0.0.1:{door.getsockname()[1]}", file=sys.stderr, flush=True)
    uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run(sockets=[door])


def bare_waits(folder: str, seconds: int) -> list[float]:
    """How long a bare endpoint takes under the same load."""
    with serving(__file__, "bare", str(Path(folder) / "bare.db")) as (port, pid):
        asyncio.run(load(port, 1, pid))
        waits: list[float] = asyncio.run(load(port, seconds, pid))["waits"]
        return waits


def percentile_ms(waits: list[float], share: float) -> float:
    """Of sorted waits."""
    return 1000 * waits[int(share * (len(waits) - 1))]


def stored(store: Path) -> tuple[int, int]:
    """Answers in the store, and events that still wait."""
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as db:
        (n,) = db.execute("SELECT count(*) FROM comparison").fetchone()
        (waiting,) = db.execute("SELECT count(*) FROM event").fetchone()
        return n, waiting


def fill(store: Path, study: Study) -> None:
    """Answers of a study that has run for a while."""
    random = Random(3)  # noqa: S311 (a benchmark)

    def answers() -> Iterator[Comparison]:
        for n in range(study.n_before):
            left, right = random.sample(range(study.n_items), 2)
            side = "left" if (left < right) == (random.random() < 0.8) else "right"
            rater = str(random.randrange(study.n_raters))
            yield Comparison(f"before {n}", rater, f"m{left}", f"m{right}", side)

    with Store(store) as opened:
        opened.add(answers())


def measured(folder: str, study: Study, seconds: int) -> dict[str, Any]:
    """A server with a study under load, and what is found of it afterwards."""
    code = "from bbq_plugin.cli import main; main(prog_name='bbq')"
    store = Path(folder) / f"{study.n_raters}.db"
    fill(store, study)
    with serving("-c", code, "serve", "--port", "0", "--store", str(store)) as (port, pid):
        found = asyncio.run(load(port, seconds, pid, 0, study, readers=True))
        begun = time.perf_counter()
        while stored(store)[1] and time.perf_counter() - begun < 60:
            time.sleep(0.1)
        found["behind"] = time.perf_counter() - begun
        if study is SMALL:
            found["shown"] = page_waits(port, study.n_before, len(found["waits"]))
    n, waiting = stored(store)
    sent = len(found["waits"]) + len(found.get("shown", ()))
    refused = sum(status != 200 for status in found["statuses"])
    found["n"] = n
    found["lost"] = max(0, study.n_before + sent - n) + refused + waiting
    return found


def judge(report: Report, found: dict[str, Any], study: Study, what: str) -> dict[str, float]:
    """Hold the pages, what was lost and the memory against their bars."""
    sent, pages, memory = len(found["waits"]), found["pages"], found["memory"]
    report.check(f"{what}lost", f"{found['lost']} of {sent:,}", "0", ok=not found["lost"])
    page_p99 = percentile_ms(pages, 0.99) / 1000
    report.check(
        f"{what}a page, 99th percentile", f"{page_p99:.2f} s", f"≤ {study.page_s:g} s",
        ok=page_p99 <= study.page_s and not found["pages_failed"],
    )  # fmt: skip
    report.check(f"{what}a page, median", f"{percentile_ms(pages, 0.5):.0f} ms")
    report.check(f"{what}pages fetched", f"{len(pages):,}")
    third = len(memory) // 3
    early, late = max(memory[:third]), max(memory[-third:])
    growth = late / early
    report.check(f"{what}memory, last third to first", f"{growth:.2f}", "≤ 1.1", ok=growth <= 1.1)
    report.check(f"{what}memory at the end", f"{late / 1e6:.0f} MB")
    report.check(f"{what}worked off after the last event", f"{found['behind']:.1f} s")
    return {"page_p99_s": page_p99, "growth": growth, "n": found["n"]}


def main() -> None:
    """Measure."""
    options = arguments(__doc__ or "")
    seconds = 10 if options.quick else 60
    report = Report(
        "webhooks", "Webhooks", "Events of Label Studio into a store, 200 a second.", options.quick
    )
    bare_s = 2 if options.quick else BARE_S
    with tempfile.TemporaryDirectory() as folder:
        control = bare_waits(folder, bare_s)
        found = measured(folder, SMALL, seconds)
        control = sorted(control + bare_waits(folder, bare_s))
        large = measured(folder, LARGE, seconds)
    waits = found["waits"]
    p99, bare_p99 = percentile_ms(waits, 0.99), percentile_ms(control, 0.99)
    report.check("events a second", f"{len(waits) / found['seconds']:.0f}", f"{SMALL.rate}")
    report.check(
        "answered, 99th percentile", f"{p99:.1f} ms", f"≤ {BAR_MS:.0f} ms", ok=p99 <= BAR_MS
    )
    report.check("answered, median", f"{percentile_ms(waits, 0.5):.1f} ms")
    report.check("answered, longest", f"{1000 * waits[-1]:.1f} ms")
    report.check("a bare endpoint, 99th percentile", f"{bare_p99:.1f} ms")
    report.check("a bare endpoint, median", f"{percentile_ms(control, 0.5):.1f} ms")
    report.check("99th percentile, to that of the bare endpoint", f"{p99 / bare_p99:.1f}")
    on_page = median(found["shown"])
    report.check(
        "from an event to the page, median", f"{on_page:.2f} s", f"≤ {PAGE_S:.0f} s",
        ok=on_page <= PAGE_S,
    )  # fmt: skip
    small = judge(report, found, SMALL, "")
    name = f"{LARGE.n_raters:,} raters, {LARGE.n_items} items: "
    rate = len(large["waits"]) / large["seconds"]
    report.check(f"{name}events a second", f"{rate:.0f}", f"{LARGE.rate}")
    report.check(
        f"{name}answered, 99th percentile", f"{percentile_ms(large['waits'], 0.99):.1f} ms"
    )
    of_large = judge(report, large, LARGE, name)
    report.check("load of the machine", f"{os.getloadavg()[0]:.1f}")
    report.values = {"p99_ms": p99, "bare_p99_ms": bare_p99, "page_s": on_page, **small}
    report.values["large"] = of_large
    report.finish()


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "bare":
        bare(sys.argv[2])
    else:
        main()
