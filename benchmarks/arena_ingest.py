"""A million Arena lines to a fitted leaderboard, against msgspec decoding the same lines.

The file is JSON lines as `bbq simulate` writes them: id, judge, model_a, model_b, winner; 30
items, 20,000 raters, 10% ties. The whole is `read`, the paper's `fit` and `leaderboard` with the
model's own intervals (what estimated priors, camps and clusters cost is in default_cost), after a
small file has loaded (or compiled) the kernels. The reference decodes every line into a struct with
the same five fields and keeps the structs: what one has to have before anything can be done with
them. The same without keeping them is shown beside it. Both run in turn in one process, and the
best of each counts.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from common import PAPERS, Report, arguments, in_child, peak_memory_bytes, seconds_of

LINES, QUICK_LINES = 1_000_000, 50_000
ROUNDS = 5
MOST_TIMES = 2.8
MOST_BYTES = 600_000_000


class Vote(msgspec.Struct, gc=False):
    """The fields of a line."""

    id: str
    judge: str
    model_a: str
    model_b: str
    winner: str


def draw(folder: str, lines: str) -> dict[str, Any]:
    """Write the votes, and a small file to warm up with."""
    from bbq_plugin import simulate  # noqa: PLC0415 (other children must not pay for it)
    from bbq_plugin.simulation import write_study  # noqa: PLC0415

    for name, n in (("votes", int(lines)), ("small", 2000)):
        study = simulate(
            items=30, raters=max(20, n // 50), comparisons=n, guessers=0.2, ties=0.1, seed=1
        )
        with (Path(folder) / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            write_study(study, file, "arena")
    return {"bytes": (Path(folder) / "votes.jsonl").stat().st_size}


def steps(path: Path) -> dict[str, float]:
    """Seconds of reading, fitting and ranking."""
    import bbq_plugin as bbq  # noqa: PLC0415

    begin = time.perf_counter()
    data = bbq.read(path)
    read = time.perf_counter()
    fitted = bbq.fit(data, **PAPERS)
    fit = time.perf_counter()
    board = bbq.leaderboard(fitted, intervals="laplace")
    end = time.perf_counter()
    assert len(board) == data.n_items
    return {"read": read - begin, "fit": fit - read, "rank": end - fit, "whole": end - begin}


def speed(folder: str) -> dict[str, Any]:
    """The best whole, and the best of both references, in turn."""
    path = Path(folder) / "votes.jsonl"
    decode = msgspec.json.Decoder(Vote).decode

    def kept() -> list[Vote]:
        with path.open("rb") as file:
            return [decode(line) for line in file]

    def dropped() -> None:
        with path.open("rb") as file:
            for line in file:
                decode(line)

    steps(Path(folder) / "small.jsonl")
    rounds = [
        {"kept": seconds_of(kept), "dropped": seconds_of(dropped)} | steps(path)
        for _ in range(ROUNDS)
    ]
    best = min(rounds, key=lambda r: r["whole"])
    return best | {name: min(r[name] for r in rounds) for name in ("kept", "dropped")}


def memory(folder: str) -> dict[str, Any]:
    """The peak of a process that does this once."""
    steps(Path(folder) / "votes.jsonl")
    return {"peak": peak_memory_bytes()}


def main() -> None:
    """Run the children and judge what they measured."""
    quick = arguments(__doc__ or "").quick
    lines = QUICK_LINES if quick else LINES
    report = Report(
        "arena_ingest", f"{lines:,} Arena lines to a leaderboard", (__doc__ or "").strip(), quick
    )
    with TemporaryDirectory(prefix="bbq-bench-") as folder:
        size = in_child(__file__, "draw", folder, str(lines))["bytes"]
        found = in_child(__file__, "speed", folder)
        peak = in_child(__file__, "memory", folder)["peak"]
    ratio = found["whole"] / found["kept"]
    report.check(
        "lines to leaderboard, times msgspec", f"{ratio:.2f} ×", f"at most {MOST_TIMES:g} ×",
        # A small file is mostly the fixed cost of the model.
        ok=None if quick else ratio <= MOST_TIMES,
    )  # fmt: skip
    report.check(
        "peak memory", f"{peak / 1e6:.0f} MB", f"below {MOST_BYTES / 1e6:.0f} MB",
        ok=peak < MOST_BYTES,
    )  # fmt: skip
    report.check("read", f"{found['read']:.2f} s ({lines / found['read'] / 1e6:.2f} million/s)")
    report.check("fit", f"{found['fit']:.2f} s")
    report.check("leaderboard", f"{found['rank']:.2f} s")
    report.check("msgspec, structs kept", f"{found['kept']:.2f} s")
    report.check("msgspec, structs thrown away", f"{found['dropped']:.2f} s")
    report.values = found | {"lines": lines, "bytes": size, "peak": peak, "ratio": ratio}
    report.values["ratio_to_dropped"] = found["whole"] / found["dropped"]
    report.finish()


if __name__ == "__main__":
    children = {"draw": draw, "speed": speed, "memory": memory}
    if len(sys.argv) > 1 and sys.argv[1] in children:
        print(json.dumps(children[sys.argv[1]](*sys.argv[2:])))
    else:
        main()
