"""Prepared sets and fits over Dask: votes to seconds and memory, against DuckDB and against memory.

Votes are drawn in Parquet: 100 items, one rater for every 20 votes, 10% ties, 15% of the raters of
low quality. Measured are

- `bbq prepare` against DuckDB's own GROUP BY of the same columns, both in a process of their own,
  the first with its memory limit;
- a default fit with intervals and verdicts by a local Dask cluster: seconds, CPU seconds of both
  workers, and the memory of a worker (verdicts up to 2 million votes: they cost the most);
- bytes that go out to and come back from the parts in one pass (pickled, as Dask sends them);
- the differences from the same fit in memory, both at tol = 1e-10, where the votes fit.

python benchmarks/scale.py [votes]...      2,000,000 unless said otherwise
"""

from __future__ import annotations

import pickle
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

ROLES = {"left": "model_a", "right": "model_b", "winner": "winner", "rater": "judge"}
ITEMS, VOTES_OF_A_RATER, CHUNK = 100, 20, 2_000_000
IN_MEMORY, JUDGED = 10_000_000, 2_000_000


def draw(path: Path, n: int) -> None:
    """Write votes, a chunk at a time."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    rng = np.random.default_rng(0)
    raters = max(2, n // VOTES_OF_A_RATER)
    theta = rng.normal(0, 1, ITEMS)
    low = rng.random(raters) < 0.15
    quality = np.where(low, rng.beta(1, 9, raters), rng.beta(10, 2, raters))
    items = pa.array([f"model-{i}" for i in range(ITEMS)])
    words = pa.array(["model_a", "model_b", "tie"])
    writer = None
    for first in range(0, n, CHUNK):
        size = min(CHUNK, n - first)
        r, a = rng.integers(0, raters, size), rng.integers(0, ITEMS, size)
        b = (a + rng.integers(1, ITEMS, size)) % ITEMS
        p = 0.5 + quality[r] * (1 / (1 + np.exp(theta[b] - theta[a])) - 0.5)
        won = np.where(rng.random(size) < 0.1, 2, (rng.random(size) >= p).astype(int))

        def named(codes: Any, names: Any) -> Any:
            return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), names).cast(
                pa.string()
            )

        who = pa.array(np.char.add("rater-", r.astype(str)))
        columns = {"judge": who, "model_a": named(a, items), "model_b": named(b, items),
                   "winner": named(won, words)}  # fmt: skip
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def child(what: str, *words: str) -> tuple[float, float, float]:
    """Seconds, CPU seconds and peak memory (GB) of a step in a process of its own."""
    command = [sys.executable, __file__, what, *words]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(told[-3]), float(told[-2]), float(told[-1])


def cpu_s() -> float:
    """Of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_gb() -> float:
    """Of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def group_by(source: str) -> None:
    """DuckDB's own sum of equal rows."""
    import duckdb  # noqa: PLC0415

    with duckdb.connect() as db:
        votes = db.read_parquet(source)
        votes.aggregate("judge, model_a, model_b, winner, count(*)").fetch_arrow_table()


def prepare(source: str, target: str, memory: str) -> None:
    """The set."""
    from bbq_plugin.scale.preparation import Preparation, prepare_lake  # noqa: PLC0415

    prepare_lake([source], ROLES, Preparation(Path(target), memory=memory))


def _used() -> tuple[float, float]:
    return cpu_s(), peak_gb()


def run(n: int, folder: Path) -> None:
    """All steps with so many votes."""
    import bbq_plugin as bbq  # noqa: PLC0415
    from bbq_plugin.scale.engines import opened_engine  # noqa: PLC0415

    source, target = folder / f"{n}.parquet", folder / f"{n}.bbq"
    draw(source, n)
    grouped, grouped_cpu, _ = child("group_by", str(source))
    prepared, prepared_cpu, peak = child("prepare", str(source), str(target), "2GB")
    print(f"{n:,} votes, {source.stat().st_size / 1e6:.0f} MB of Parquet")
    print(f"  prepare {prepared:.1f} s, {prepared / grouped:.1f} times DuckDB's GROUP BY "
          f"({grouped:.1f} s); CPU {prepared_cpu:.1f} s, {prepared_cpu / grouped_cpu:.1f} times; "
          f"{peak:.2f} GB with a limit of 2GB", flush=True)  # fmt: skip
    data = bbq.open_dataset(target)
    size = sum(f.stat().st_size for f in target.rglob("*.parquet"))
    print(f"  set {size / 1e6:.0f} MB in {data.n_parts} parts, {data.n_raters:,} raters")
    with opened_engine("dask") as engine:
        sent: dict[str, int] = {}
        plain = engine.sum

        def counted(work: Any, tasks: Any, *args: Any) -> Any:
            found = plain(work, tasks, *args)
            sent["out"] = len(pickle.dumps(args)) * len(tasks)
            sent["back"] = len(pickle.dumps(found))
            sent["passes"] = sent.get("passes", 0) + 1
            return found

        engine.sum = counted  # type: ignore[method-assign]
        client, begun = engine.client, time.perf_counter()  # type: ignore[attr-defined]

        def told(what: str) -> None:
            used = client.run(_used).values()
            print(f"  dask, 2 workers, {what}: {time.perf_counter() - begun:.0f} s, CPU "
                  f"{sum(cpu for cpu, _ in used):.0f} s, {sent['passes']} passes; a worker's peak "
                  f"{max(peak for _, peak in used):.2f} GB", flush=True)  # fmt: skip

        found = bbq.fit(data, engine=engine)
        told("fit")
        board = bbq.leaderboard(found)
        told(f"with leaderboard (best {board[0].item}, {len(found.camps)} camps)")
        if n <= JUDGED:
            raters = bbq.rater_report(found)
            told(f"with verdicts {raters.counts}")  # type: ignore[attr-defined]
    print(f"  the last pass sent {sent['out']:,} bytes out and {sent['back']:,} back to the driver")
    if n <= IN_MEMORY:
        memory, tight = bbq.fit(data.read(), tol=1e-10), bbq.fit(data, tol=1e-10)
        pairs = {
            "theta": (memory.theta, tight.theta),
            "population": (memory.population.eta, tight.population.eta),  # type: ignore[union-attr]
            "covariance": (memory.covariance(), tight.covariance()),
            "quality": (memory.quality, tight.quality),
        }
        if n <= JUDGED:
            sides = ({row.rater: row.p_bad for row in report} for report in (
                bbq.rater_report(memory), bbq.rater_report(tight).everyone))  # type: ignore[attr-defined]  # fmt: skip
            one, other = sides
            pairs["p_bad"] = ([*one.values()], [other[name] for name in one])  # type: ignore[assignment]
        gaps = (f"{name} {np.max(np.abs(np.subtract(*both))):.1e}" for name, both in pairs.items())
        print("  from the fit in memory:", ", ".join(gaps))


def main() -> None:
    """Run a step that a parent asked for, or all of them."""
    if sys.argv[1:2] and sys.argv[1] in ("group_by", "prepare"):
        begun, used = time.perf_counter(), cpu_s()
        {"group_by": group_by, "prepare": prepare}[sys.argv[1]](*sys.argv[2:])
        print(time.perf_counter() - begun, cpu_s() - used, peak_gb())
        return
    with TemporaryDirectory(prefix="bbq-scale-") as folder:
        for n in [int(word.replace(",", "")) for word in sys.argv[1:]] or [2_000_000]:
            run(n, Path(folder))


if __name__ == "__main__":
    main()
