"""Prepared sets and fits over Dask: 10 and 100 million votes by a cluster of two workers.

Votes are drawn into Parquet: 100 items, one rater for every 20 votes (5 million raters of 100
million votes), 10% ties, 15% of the raters of low quality. Measured are

- `bbq prepare` with a limit of 2 GB, against DuckDB's own GROUP BY of the same columns with
  the same limit, whose sums are counted and not written; both in a process of their own;
- a default fit with leaderboard and verdicts by `dask scheduler` and two `dask worker` processes:
  seconds, CPU seconds, the peak memory of a worker, and the bytes that all sockets of the cluster
  and the driver received (as the kernel counts them), pass by pass;
- the same with one worker, and of a fifth of the votes in as many parts: the bytes are the same;
- the same at tol = 1e-10 against the fit in memory;
- a worker killed with -9 in the middle of a pass, and the scheduler killed with a second run after.

Each step is written to `--folder` when it is done, and a second run goes on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from common import Report, Table, in_child, peak_memory_bytes

ROLES = {"left": "model_a", "right": "model_b", "winner": "winner", "rater": "judge"}
ITEMS, VOTES_OF_A_RATER, CHUNK = 100, 20, 2_000_000
SMALL, MIDDLE, LARGE = 2_000_000, 10_000_000, 100_000_000
LIMIT = "2GB"
LIMIT_BYTES = 2e9
SAME = 1e-8
#: A pass over the parts of the model: what goes over the network again and again.
STEP_OF_A_FIT = "part_pass"


def draw(path: str, n: str) -> dict[str, Any]:
    """Write votes, a chunk at a time."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    rng, votes = np.random.default_rng(0), int(n)
    raters = max(2, votes // VOTES_OF_A_RATER)
    theta = rng.normal(0, 1, ITEMS)
    low = rng.random(raters) < 0.15
    quality = np.where(low, rng.beta(1, 9, raters), rng.beta(10, 2, raters))
    items = pa.array([f"model-{i}" for i in range(ITEMS)])
    words = pa.array(["model_a", "model_b", "tie"])

    def named(codes: Any, names: Any) -> Any:
        coded = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), names)
        return coded.cast(pa.string())

    fields = [(name, pa.string()) for name in ("judge", "model_a", "model_b", "winner")]
    with pq.ParquetWriter(path, pa.schema(fields)) as writer:
        for first in range(0, votes, CHUNK):
            size = min(CHUNK, votes - first)
            r, a = rng.integers(0, raters, size), rng.integers(0, ITEMS, size)
            b = (a + rng.integers(1, ITEMS, size)) % ITEMS
            p = 0.5 + quality[r] * (1 / (1 + np.exp(theta[b] - theta[a])) - 0.5)
            won = np.where(rng.random(size) < 0.1, 2, (rng.random(size) >= p).astype(int))
            who = pc.binary_join_element_wise("rater-", pa.array(r).cast(pa.string()), "")
            columns = [who, named(a, items), named(b, items), named(won, words)]
            writer.write_table(pa.table(dict(zip([f[0] for f in fields], columns, strict=True))))
    return {"bytes": Path(path).stat().st_size}


def group_by(source: str) -> dict[str, Any]:
    """DuckDB's own sum of equal rows, within the same limit."""
    import duckdb  # noqa: PLC0415

    spilled = TemporaryDirectory(prefix="bbq-spill-", dir=Path(source).parent)
    with spilled as spill, duckdb.connect() as db, measured() as used:
        db.execute(f"SET memory_limit = '{LIMIT}'")
        db.execute(f"SET temp_directory = '{spill}'")
        db.execute("SET preserve_insertion_order = false")
        columns = "judge, model_a, model_b, winner"
        sums = f"SELECT {columns}, count(*) AS n FROM read_parquet('{source}') GROUP BY ALL"  # noqa: S608 (our own file)
        db.execute(f"SELECT count(*), max(judge), max(model_a) FROM ({sums})").fetchall()  # noqa: S608
    return used


def prepare(source: str, target: str, parts: str = "") -> dict[str, Any]:
    """The set, in as many parts as it has by itself, or in these."""
    from bbq_plugin.scale.prepared_set import Preparation, prepare_lake  # noqa: PLC0415

    with measured() as used:
        how = Preparation(Path(target), memory=LIMIT, parts=int(parts) if parts else None)
        found = prepare_lake([source], ROLES, how)
    size = sum(file.stat().st_size for file in Path(target).rglob("*.parquet"))
    return used | {"bytes": size, "parts": found.n_parts, "raters": found.n_raters}


@contextmanager
def measured() -> Iterator[dict[str, Any]]:
    """Seconds, CPU seconds and peak memory of this process."""
    found: dict[str, Any] = {}
    begun, cpu = time.perf_counter(), cpu_s()
    yield found
    found["seconds"], found["cpu"] = time.perf_counter() - begun, cpu_s() - cpu
    found["peak"] = peak_memory_bytes()


def cpu_s() -> float:
    """Of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def about_me() -> tuple[int, float, int]:
    """The process, its CPU seconds and its peak memory."""
    return os.getpid(), cpu_s(), peak_memory_bytes()


def received(processes: set[int]) -> int:
    """The bytes that the open sockets of these processes received, as the kernel counts them."""
    command = ["/usr/bin/env", "ss", "-tinp"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    total = 0
    for who, counts in zip(told.splitlines(), told.splitlines()[1:], strict=False):
        owner, found = re.search(r"pid=(\d+)", who), re.search(r"bytes_received:(\d+)", counts)
        if owner and found and int(owner[1]) in processes:
            total += int(found[1])
    return total


@contextmanager
def cluster(n_workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and workers as the documentation starts them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    root = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join([root, f"{root}/adapters", f"{root}/benchmarks"])
    env = os.environ | {"PYTHONPATH": path}
    dask, at = [sys.executable, "-m", "dask"], ["--host", "127.0.0.1", "--no-dashboard"]
    begun = [subprocess.Popen([*dask, "scheduler", *at, "--port", str(port)], env=env,
                              stderr=subprocess.DEVNULL)]  # fmt: skip
    with TemporaryDirectory(prefix="bbq-workers-") as folder:
        begun += [
            subprocess.Popen([*dask, "worker", f"tcp://127.0.0.1:{port}", *at, "--nthreads", "1",
                              "--local-directory", folder], env=env, stderr=subprocess.DEVNULL)
            for _ in range(n_workers)
        ]  # fmt: skip
        try:
            yield f"dask://127.0.0.1:{port}", begun
        finally:
            for process in reversed(begun):
                process.terminate()
                process.wait()


def by_cluster(target: str, workers: str) -> dict[str, Any]:
    """A default fit with intervals and verdicts, and what it takes of the workers."""
    import bbq_plugin as bbq  # noqa: PLC0415
    from bbq_plugin.scale.engines import opened_engine  # noqa: PLC0415

    stages: dict[str, Any] = {}
    passes: list[dict[str, Any]] = []
    data = bbq.open_dataset(target)
    data.by(None).forget_passes()  # of a run that was cut off
    with cluster(int(workers)) as (where, begun), opened_engine(where) as engine:
        client = engine.client  # type: ignore[attr-defined]
        client.wait_for_workers(int(workers))
        processes = {os.getpid(), begun[0].pid, *(pid for pid, _, _ in _asked(client))}

        def counted(plain: Callable[..., Any]) -> Callable[..., Any]:
            def call(work: Any, tasks: Any, *args: Any) -> Any:
                before, clock = received(processes), time.perf_counter()
                found = plain(work, tasks, *args)
                what = next((a.__name__ for a in args if callable(a)), work.__name__)
                took = time.perf_counter() - clock
                passes.append({"what": what, "s": took, "bytes": received(processes) - before})
                print(f"{what} {took:.1f} s, {passes[-1]['bytes']:,} bytes", file=sys.stderr)
                return found

            return call

        engine.sum = counted(engine.sum)  # type: ignore[method-assign]
        engine.map = counted(engine.map)  # type: ignore[method-assign]
        clock = time.perf_counter()

        def done(stage: str) -> None:
            used = _asked(client)
            stages[stage] = {
                "seconds": time.perf_counter() - clock, "cpu": sum(cpu for _, cpu, _ in used),
                "driver_cpu": cpu_s(), "peak": max(peak for _, _, peak in used),
            }  # fmt: skip
            print(stage, stages[stage], file=sys.stderr)

        done("start")
        found = bbq.fit(data, engine=engine)
        done("fit")
        board = bbq.leaderboard(found)
        done("board")
        report = bbq.rater_report(found)
        done("verdicts")
    return {
        "stages": stages, "passes": passes, "n_parts": data.n_parts, "n_raters": data.n_raters,
        "best": board[0].item, "counts": dict(report.counts),  # type: ignore[attr-defined]
        "driver_peak": peak_memory_bytes(),
    }  # fmt: skip


def _asked(client: Any) -> list[tuple[int, float, int]]:
    return list(client.run(about_me).values())


def same(target: str) -> dict[str, Any]:
    """Both fits at tol = 1e-10: the largest differences."""
    import pyarrow.dataset as ds  # noqa: PLC0415

    import bbq_plugin as bbq  # noqa: PLC0415
    from bbq_plugin.analysis.raters.leave_one_out import evidence_of  # noqa: PLC0415
    from bbq_plugin.analysis.raters.verdicts import THRESHOLD  # noqa: PLC0415
    from bbq_plugin.scale.engines import opened_engine  # noqa: PLC0415

    data = bbq.open_dataset(target)
    with cluster(2) as (where, _), opened_engine(where) as engine:
        parted: Any = bbq.fit(data, engine=engine, tol=1e-10)
        parted.covariance()
        bbq.rater_report(parted)
    memory: Any = bbq.fit(data.read(), tol=1e-10)
    found = {
        "theta": np.max(np.abs(memory.theta - parted.theta)),
        "population": np.max(np.abs(memory.population.eta - parted.population.eta)),
        "covariance": np.max(np.abs(memory.covariance() - parted.covariance())),
    }
    print(found, file=sys.stderr)
    rows = ds.dataset(parted.results, format="parquet").to_table(columns=["rater", "p_bad"])
    p_bad = dict(zip(rows["rater"].to_pylist(), rows["p_bad"].to_pylist(), strict=True))
    # As in every row of the report, whose verdicts would fit another camp and leave out each rater.
    mine = evidence_of(memory, 0.95, THRESHOLD).p_bad
    found["p_bad"] = max(abs(p - p_bad[name]) for name, p in zip(memory.raters, mine, strict=True))
    return {name: float(gap) for name, gap in found.items()} | {"n_raters": len(p_bad)}


def killed(target: str) -> dict[str, Any]:
    """Kill a worker in a pass, then the scheduler; what comes of both."""
    import bbq_plugin as bbq  # noqa: PLC0415
    from bbq_plugin.errors import RemoteError  # noqa: PLC0415
    from bbq_plugin.scale.engines import opened_engine  # noqa: PLC0415

    data = bbq.open_dataset(target)
    whole = bbq.fit(data, engine="local")
    told: dict[str, Any] = {}

    def fitted(end: int | None) -> Any:
        """A fit in whose fifth pass a worker (1) or the scheduler (0) is killed."""
        with cluster(2) as (where, begun), opened_engine(where) as engine:
            client = engine.client  # type: ignore[attr-defined]
            client.wait_for_workers(2)
            plain, seen = engine.sum, {"passes": 0, "cut": 0}

            def heard(done: int, of: int) -> None:
                if end is not None and seen["passes"] == 5 and 0 < done < of and not seen["cut"]:
                    seen["cut"] = done
                    victim = begun[0].pid if end == 0 else _asked(client)[0][0]
                    os.kill(victim, signal.SIGKILL)

            def counted(work: Any, tasks: Any, *args: Any) -> Any:
                seen["passes"] += 1
                return plain(work, tasks, *args)

            engine.sum, engine.heard = counted, heard  # type: ignore[method-assign]
            told["seen"] = seen
            found: Any = bbq.fit(data.by(engine))
            found.robust  # noqa: B018 (computed here, where the workers are)
            return found

    data.by(None).forget_passes()
    worker = fitted(1)
    data.by(None).forget_passes()
    cut = told["seen"]["cut"]
    equal = worker.theta.tobytes() == whole.theta.tobytes()
    equal = equal and worker.covariance().tobytes() == whole.covariance().tobytes()
    said = ""
    try:
        fitted(0)
    except RemoteError as error:
        said = str(error)
    kept = len(list(Path(target, ".passes").glob("*.npz")))
    again = fitted(None)
    passes = told["seen"]["passes"]
    data.by(None).forget_passes()
    fresh = fitted(None)
    data.by(None).forget_passes()
    return {
        "equal": bool(equal), "cut_after": cut, "said": said, "kept": kept, "passes_again": passes,
        "passes_fresh": told["seen"]["passes"],
        "equal_again": again.theta.tobytes() == fresh.theta.tobytes() == whole.theta.tobytes(),
    }  # fmt: skip


STEPS: dict[str, Callable[..., dict[str, Any]]] = {
    "draw": draw, "group_by": group_by, "prepare": prepare, "by_cluster": by_cluster, "same": same,
    "killed": killed,
}  # fmt: skip


class Run:
    """Steps in processes of their own, each kept when it is done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def step(self, name: str, *words: object) -> dict[str, Any]:
        """What was found before, or what is found now."""
        told = [str(word) for word in words]
        key = "-".join([name, *(Path(word).stem for word in told)])
        file = self.folder / f"{key}.json"
        if not file.is_file():
            found = in_child(__file__, name, *told)
            file.write_text(json.dumps(found), encoding="utf-8")
        read: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        print(f"{key} is done", flush=True)
        return read

    def source(self, n: int) -> Path:
        """The votes in Parquet."""
        path = self.folder / f"{n}.parquet"
        if not path.is_file():
            self.step("draw", path, n)
        return path

    def target(self, n: int) -> Path:
        """The same as a prepared set."""
        path = self.folder / f"{n}.bbq"
        if not path.is_dir():
            self.step("prepare", self.source(n), path)
        return path


def main() -> None:
    """Measure it."""
    if sys.argv[1:2] and sys.argv[1] in STEPS:
        print(json.dumps(STEPS[sys.argv[1]](*sys.argv[2:])))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--folder", type=Path, help="where the votes and finished steps are kept")
    asked = parser.parse_args()
    part = 100 if asked.quick else 1
    report = Report("scale", "Past one machine", __doc__ or "", asked.quick)
    with TemporaryDirectory(prefix="bbq-scale-") as folder:
        run = Run(asked.folder or Path(folder))
        measure(report, run, SMALL // part, MIDDLE // part, LARGE // part)
    report.finish()


def measure(report: Report, run: Run, small: int, middle: int, large: int) -> None:
    """All steps."""
    values: dict[str, Any] = {}
    for n in (middle, large):
        source = run.source(n)
        grouped, made = run.step("group_by", source), run.step("prepare", source, run.target(n))
        values[f"prepare {n}"] = {"group_by": grouped, "prepare": made}
    times = made["seconds"] / grouped["seconds"]
    of_cpu = made["cpu"] / grouped["cpu"]
    report.check(f"bbq prepare, {large:,} rows, in DuckDB's GROUP BY of them",
                 f"{times:.2f} times ({of_cpu:.2f} of CPU)", "≤ 2 times",
                 ok=times <= 2)  # fmt: skip
    report.check(f"its peak memory with a limit of {LIMIT}", f"{made['peak'] / 1e9:.2f} GB",
                 f"< {LIMIT_BYTES / 1e9:g} GB", ok=made["peak"] < LIMIT_BYTES)  # fmt: skip
    gaps = run.step("same", run.target(middle))
    for name in ("theta", "population", "covariance", "p_bad"):
        report.check(f"dask against memory, {middle:,} votes, tol = 1e-10: {name}",
                     f"{gaps[name]:.1e}", f"≤ {SAME:g}", ok=gaps[name] <= SAME)  # fmt: skip
    one, two = (run.step("by_cluster", run.target(middle), workers) for workers in (1, 2))
    most = run.step("by_cluster", run.target(large), 2)
    last = {name: found["stages"]["verdicts"] for name, found in
            (("one", one), ("two", two), ("most", most))}  # fmt: skip
    report.check(f"{large:,} votes, {most['n_raters']:,} raters, two workers: fit, intervals and "
                 "verdicts", f"{last['most']['seconds']:.0f} s", "finishes", ok=True)  # fmt: skip
    memory = last["most"]["peak"] / last["two"]["peak"]
    report.check(f"a worker's peak memory, of that with {middle:,} votes",
                 f"{memory:.2f} times ({last['most']['peak'] / 1e9:.2f} GB)", "≤ 1.3 times",
                 ok=memory <= 1.3)  # fmt: skip
    by_part = {}
    for name, found in (("two", two), ("most", most)):
        counts = sorted(p["bytes"] for p in found["passes"] if p["what"] == STEP_OF_A_FIT)
        by_part[name] = counts[len(counts) // 2] / found["n_parts"]
    report.check(f"bytes of a pass for each part, {large:,} votes against {middle:,}",
                 f"{by_part['most']:,.0f} against {by_part['two']:,.0f}", "≤ 1.2 times",
                 ok=by_part["most"] <= 1.2 * by_part["two"])  # fmt: skip
    few = run.folder / f"{small}-in-{two['n_parts']}.bbq"
    run.step("prepare", run.source(small), few, two["n_parts"])
    fewer = run.step("by_cluster", few, 2)
    total, other = (sum(p["bytes"] for p in found["passes"]) for found in (two, fewer))
    report.check(f"bytes of all of it, {middle:,} votes against {small:,}, {two['n_parts']} parts",
                 f"{total / 1e6:.1f} against {other / 1e6:.1f} MB", "≤ 1.2 times",
                 ok=total <= 1.2 * other)  # fmt: skip
    gain = last["one"]["seconds"] / last["two"]["seconds"]
    report.check(f"two workers against one, {middle:,} votes, all of it", f"{gain:.2f} times",
                 "≥ 1.5 times", ok=gain >= 1.5)  # fmt: skip
    ended = run.step("killed", run.target(small))
    report.check("a worker killed with -9 in a pass: theta and covariance to the last digit",
                 "equal" if ended["equal"] else "different", "equal",
                 ok=ended["equal"] and ended["cut_after"] > 0)  # fmt: skip
    report.check("the scheduler killed: passes of the second run, of those of a fresh one",
                 f"{ended['passes_again']} of {ended['passes_fresh']}", "fewer, same digits",
                 ok="scheduler" in ended["said"] and ended["equal_again"]
                 and ended["passes_again"] < ended["passes_fresh"])  # fmt: skip
    rows = []
    for n, workers, found in ((middle, 1, one), (middle, 2, two), (large, 2, most)):
        s = found["stages"]
        rows.append([
            f"{n:,}", str(workers),
            *(f"{s[k]['seconds']:.0f}" for k in ("fit", "board", "verdicts")),
            f"{s['verdicts']['cpu']:.0f}", f"{s['verdicts']['driver_cpu']:.0f}",
            f"{s['verdicts']['peak'] / 1e9:.2f}", f"{found['driver_peak'] / 1e9:.2f}",
            str(found["n_parts"]), f"{sum(p['bytes'] for p in found['passes']) / 1e6:.0f}",
        ])  # fmt: skip
    report.tables.append(Table(
        "Fits by a cluster (seconds from the first pass on)",
        ["votes", "workers", "fit, s", "+ leaderboard, s", "+ verdicts, s", "CPU of workers, s",
         "CPU of driver, s", "worker, GB", "driver, GB", "parts", "MB over the network"], rows,
    ))  # fmt: skip
    rows = []
    for n in (middle, large):
        grouped, made = (values[f"prepare {n}"][k] for k in ("group_by", "prepare"))
        rows.append([f"{n:,}", f"{made['seconds']:.0f}", f"{made['cpu']:.0f}",
                     f"{made['seconds'] / grouped['seconds']:.2f}",
                     f"{made['cpu'] / grouped['cpu']:.2f}", f"{made['peak'] / 1e9:.2f}",
                     f"{made['bytes'] / 1e6:.0f}"])  # fmt: skip
    report.tables.append(Table("bbq prepare", ["votes", "s", "CPU, s", "times GROUP BY",
                               "times its CPU", "peak, GB", "set, MB"], rows))  # fmt: skip
    report.values = values | {"same": gaps, "killed": ended, "by_cluster": {
        "one": one, "two": two, "most": most, "fewer": fewer}}  # fmt: skip


if __name__ == "__main__":
    main()
