"""The store and the engine: durable ingest, a restart, a refresh, and memory.

Ingest: a file of Arena JSON lines (id, judge, model_a, model_b, winner; 30 items, 50 votes a
rater) into a new store by `Engine.ingest`, hashed, checked, committed and fsynced. The yardstick
is SQLite's own `executemany` of the same five fields, already decoded, as keyed upserts into a
table of the same durability (WAL, synchronous=FULL, one transaction). Restart: `Engine(path)` and
`.fit` on the store of a run that has ended, against `Comparisons.from_arrays` and `fit` from coded
arrays in memory. Refresh: `Engine.refresh` after `Engine.add` of 1,000 answers that nobody has
seen. All best of several, in turn, in processes of their own.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common import (
    PAPERS,
    Report,
    Table,
    arguments,
    best_of,
    in_child,
    peak_memory_bytes,
    seconds_of,
)

LINES, MANY, QUICK = 1_000_000, 10_000_000, 20_000
EACH, NEW, REFRESHES, ROUNDS = 50, 1000, 12, 3
INGEST, RESTART, SHARE, ELO_OFF, PEAK_BYTES = 4.0, 3.0, 30.0, 0.1, 3e9
ELO = 173.7
FIELDS = ("id", "judge", "model_a", "model_b", "winner")


def draw(folder: str, lines: str) -> dict[str, Any]:
    """Write the votes."""
    from bbq_plugin import simulate  # noqa: PLC0415 (other children must not pay for it)
    from bbq_plugin.simulation import write_study  # noqa: PLC0415

    n = int(lines)
    study = simulate(items=30, raters=n // EACH, comparisons=n, guessers=0.2, ties=0.1, seed=1)
    with (Path(folder) / "votes.jsonl").open("w", encoding="utf-8") as file:
        write_study(study, file, "arena")
    return {}


def ingest(folder: str, rounds: str) -> dict[str, Any]:
    """Seconds of an ingest and of SQLite alone, in turn."""
    from bbq_plugin.live.engine import Engine  # noqa: PLC0415
    from bbq_plugin.live.file_ingest import Offer  # noqa: PLC0415

    votes = Path(folder) / "votes.jsonl"
    with votes.open("rb") as file:
        decoded = map(json.loads, file)
        rows = [
            tuple(v[f] for f in ("id", "judge", "model_a", "model_b", "winner")) for v in decoded
        ]
    ours, theirs = [], []
    for i in range(int(rounds)):
        path = Path(folder) / f"{i}.db"

        def read(path: Path = path) -> None:
            with Engine(path) as engine:
                (outcome,) = engine.ingest([Offer(votes, votes.name)])
                assert outcome.n_new == len(rows)

        ours.append(seconds_of(read))
        theirs.append(seconds_of(lambda i=i: _upsert(Path(folder) / f"plain-{i}.db", rows)))
        _remove(folder, f"plain-{i}.db*", *([f"{i}.db*"] if i else []))
    return {"ours": min(ours), "executemany": min(theirs), "rows": len(rows)}


def _upsert(path: Path, rows: list[tuple[Any, ...]]) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE vote (key TEXT PRIMARY KEY, judge TEXT, a TEXT, b TEXT, winner TEXT)")
    db.execute("BEGIN")
    db.executemany(
        "INSERT INTO vote VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (key) DO UPDATE SET winner = excluded.winner",
        rows,
    )
    db.execute("COMMIT")
    db.close()


def _remove(folder: str, *patterns: str) -> None:
    for pattern in patterns:
        for path in Path(folder).glob(pattern):
            path.unlink()


def restart(folder: str, rounds: str) -> dict[str, Any]:
    """Seconds until a stored engine is fitted, and of a cold fit from arrays."""
    import bbq_plugin as bbq  # noqa: PLC0415

    path = Path(folder) / "0.db"
    with bbq.Engine(path) as engine:
        engine.refresh(full=True)
        data = engine.data
    arrays = (data.rater, data.winner, data.loser, data.weight)

    def cold() -> None:
        again = bbq.Comparisons.from_arrays(*arrays, raters=data.raters, items=data.items)
        bbq.fit(again, **PAPERS)

    def start() -> None:
        with bbq.Engine(path) as engine:
            assert engine.fit.converged

    return {"cold": best_of(cold, int(rounds)), "restart": best_of(start, int(rounds))}


def refresh(folder: str, refreshes: str) -> dict[str, Any]:
    """Seconds of a refresh after new answers, of the add before it, and the error at the end."""
    import numpy as np  # noqa: PLC0415

    import bbq_plugin as bbq  # noqa: PLC0415

    rng = np.random.default_rng(3)
    times, adds = [], []
    with bbq.Engine(Path(folder) / "0.db") as engine:
        before = engine.fit
        engine.refresh(full=True)
        data = engine.data
        arrays = (data.rater, data.winner, data.loser, data.weight)
        cold = best_of(
            lambda: bbq.fit(
                bbq.Comparisons.from_arrays(*arrays, raters=data.raters, items=data.items)
            ),
            3,
        )
        for batch in range(int(refreshes)):
            new = _new_votes(before, rng, f"new-{batch}")
            begin = time.perf_counter()
            engine.add(new)
            middle = time.perf_counter()
            engine.refresh()
            end = time.perf_counter()
            adds.append(middle - begin)
            times.append(end - middle)
        near = engine.fit.theta
        engine.refresh(full=True)
        off = float(np.max(np.abs(engine.fit.theta - near))) * ELO
    return {"cold": cold, "refresh": min(times), "add": min(adds), "off": off}


def _new_votes(fit: Any, rng: Any, name: str) -> list[Any]:
    from bbq_plugin import Comparison  # noqa: PLC0415

    found = []
    for i in range(NEW):
        a, b = rng.choice(len(fit.items), 2, replace=False)
        outcome = (
            "left" if rng.random() < 1 / (1 + 2.718 ** (fit.theta[b] - fit.theta[a])) else "right"
        )
        rater = fit.raters[int(rng.integers(len(fit.raters)))]
        found.append(Comparison(f"{name}-{i}", rater, fit.items[a], fit.items[b], outcome))
    return found


def memory(folder: str) -> dict[str, Any]:
    """Peak of a process that reads all of it, fits it, and follows 1,000 more."""
    import numpy as np  # noqa: PLC0415

    import bbq_plugin as bbq  # noqa: PLC0415
    from bbq_plugin.live.file_ingest import Offer  # noqa: PLC0415

    votes = Path(folder) / "votes.jsonl"
    path = Path(folder) / "many.db"
    with bbq.Engine(path) as engine:
        engine.ingest([Offer(votes, votes.name)])
        read = peak_memory_bytes()
        engine.refresh()
        fitted = peak_memory_bytes()
        engine.add(_new_votes(engine.fit, np.random.default_rng(1), "new"))
        engine.refresh()
        bbq.leaderboard(engine.fit)
        n = engine.store.counts().n_comparisons
    return {"n": n, "read": read, "fitted": fitted, "peak": peak_memory_bytes()}


def main() -> None:
    """Measure it."""
    if len(sys.argv) > 2:
        work = {f.__name__: f for f in (draw, ingest, restart, refresh, memory)}
        print(json.dumps(work[sys.argv[1]](*sys.argv[2:])))
        return
    quick: bool = arguments(__doc__ or "").quick
    report = Report("live", "Store and engine", __doc__ or "", quick)
    with TemporaryDirectory() as folder:
        in_child(__file__, "draw", folder, str(QUICK if quick else LINES))
        stored = in_child(__file__, "ingest", folder, "2" if quick else str(ROUNDS))
        started = in_child(__file__, "restart", folder, str(ROUNDS))
        fresh = in_child(__file__, "refresh", folder, str(REFRESHES))
    ratio = stored["ours"] / stored["executemany"]
    report.check(
        "durable ingest, in executemany of the same rows", f"{ratio:.2f} times",
        f"≤ {INGEST:g} times", ok=ratio <= INGEST,
    )  # fmt: skip
    ratio = started["restart"] / started["cold"]
    report.check(
        "restart until fitted, in cold fits", f"{ratio:.2f} times", f"≤ {RESTART:g} times",
        ok=quick or ratio <= RESTART,
    )  # fmt: skip
    ratio = fresh["cold"] / fresh["refresh"]
    report.check(
        "refresh of the engine after 1,000 answers, of a cold fit", f"1/{ratio:.0f}",
        f"≤ 1/{SHARE:g}", ok=quick or ratio >= SHARE,
    )  # fmt: skip
    report.check(
        f"error after {REFRESHES} refreshes", f"{fresh['off']:.4f} Elo", f"≤ {ELO_OFF} Elo",
        ok=fresh["off"] <= ELO_OFF,
    )  # fmt: skip
    with TemporaryDirectory() as folder:
        in_child(__file__, "draw", folder, str(QUICK if quick else MANY))
        held = in_child(__file__, "memory", folder)
    report.check(
        f"peak memory with {held['n']:,} comparisons held", f"{held['peak'] / 1e9:.2f} GB",
        f"< {PEAK_BYTES / 1e9:g} GB", ok=held["peak"] < PEAK_BYTES,
    )  # fmt: skip
    rows = [
        ["ingest", f"{stored['ours']:.2f} s"],
        ["executemany", f"{stored['executemany']:.2f} s"],
        ["cold fit from arrays", f"{1e3 * started['cold']:.0f} ms"],
        ["restart until fitted", f"{1e3 * started['restart']:.0f} ms"],
        ["1,000 answers added, durably", f"{1e3 * fresh['add']:.1f} ms"],
        ["refresh", f"{1e3 * fresh['refresh']:.2f} ms"],
        [
            "memory after reading, after fitting",
            f"{held['read'] / 1e9:.2f}, {held['fitted'] / 1e9:.2f} GB",
        ],
    ]
    report.tables.append(Table("Seconds and bytes", ["what", ""], rows))
    report.values = {"ingest": stored, "restart": started, "refresh": fresh, "memory": held}
    report.finish()


if __name__ == "__main__":
    main()
