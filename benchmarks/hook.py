"""Votes a second through the hook, against one commit for each vote.

Every vote waits until it is on the disk. Against `Engine.add` with one vote a call, which is one
commit for each, called by as many threads. Both have a store of their own on the same disk; rounds
of both take turns, and the median of their ratios counts. The hook refits once a second meanwhile
and tells a callback; the engine of the comparison fits nothing. Votes are of 20 items by 200
raters.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from common import HERE, Report, arguments

import bbq_plugin as bbq

ROUNDS, QUICK_ROUNDS = 5, 2
SECONDS, QUICK_SECONDS = 1.5, 0.3
THREADS = (1, 4, 16)
# With one caller nothing can be shared; handing a vote to another thread must cost little.
LEAST_ALONE = 0.8
LEAST_TIMES = 4.0
LEAST_SHARED = 8.0
# Commits a second beyond which the disk is so fast that sharing them cannot gain as much.
FAST_DISK = 2000.0

Vote = Callable[[], object]


def rate(vote: Vote, n_threads: int, seconds: float) -> float:
    """Votes a second when so many threads vote as fast as they can."""
    end = time.perf_counter() + seconds
    counts = [0] * n_threads

    def run(me: int) -> None:
        while time.perf_counter() < end:
            vote()
            counts[me] += 1

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n_threads)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - begin)


class Voters:
    """The votes of a simulated study, over and over, each under a key of its own."""

    def __init__(self) -> None:
        drawn = bbq.simulate(items=20, raters=200, comparisons=20_000, guessers=0.1, seed=1)
        data = drawn.arrays()
        self._votes = [
            (data.raters[r], data.items[w], data.items[x])
            for r, w, x in zip(data.rater, data.winner, data.loser, strict=True)
        ]
        self.numbers = itertools.count()

    def next(self) -> bbq.Comparison:
        """Another vote."""
        n = next(self.numbers)
        rater, winner, loser = self._votes[n % len(self._votes)]
        if n % 2:
            return bbq.Comparison(f"vote {n}", rater, winner, loser, "left")
        return bbq.Comparison(f"vote {n}", rater, loser, winner, "right")


async def async_rate(path: Path, voters: Voters, seconds: float, n_tasks: int) -> float:
    """Votes a second of so many tasks on one loop."""
    done = 0

    async def run(hook: bbq.AsyncHook) -> None:
        nonlocal done
        while time.perf_counter() < end:
            v = voters.next()
            await hook.vote(rater=v.rater, left=v.left, right=v.right, outcome=v.outcome)
            done += 1

    async with bbq.AsyncHook(path) as hook:
        await hook.vote(rater="ann", left="item 1", right="item 2", outcome="left")
        await hook.flush()
        begin = time.perf_counter()
        end = begin + seconds
        await asyncio.gather(*(run(hook) for _ in range(n_tasks)))
        return done / (time.perf_counter() - begin)


Rates = dict[str, dict[str, list[float]]]


def measured(folder: Path, rounds: int, seconds: float) -> Rates:
    """Of all rounds: votes a second, and votes a commit, by the number of threads."""
    voters = Voters()
    found: Rates = {"hook": {}, "engine": {}, "shared": {}, "async": {}}
    with bbq.Hook(folder / "hook.db") as hook, bbq.Engine(folder / "engine.db") as engine:
        hook.on_update(lambda _: None)
        hook.submit(voters.next()).result()
        # The first fit loads or compiles the kernels.
        hook.flush()
        for _ in range(rounds):
            for n_threads in map(str, THREADS):
                commits = hook._commits.n_commits
                n = next(voters.numbers)
                add_to(
                    found["hook"],
                    n_threads,
                    rate(lambda: hook.submit(voters.next()).result(), int(n_threads), seconds),
                )
                n_votes = next(voters.numbers) - n - 1
                add_to(found["shared"], n_threads, n_votes / (hook._commits.n_commits - commits))
                add_to(
                    found["engine"],
                    n_threads,
                    rate(lambda: engine.add(voters.next()), int(n_threads), seconds),
                )
    for _ in range(rounds):
        path = folder / "async.db"
        add_to(found["async"], "64", asyncio.run(async_rate(path, voters, seconds, 64)))
    return found


def add_to(rates: dict[str, list[float]], n_threads: str, value: float) -> None:
    """Note one round."""
    rates.setdefault(n_threads, []).append(value)


def main() -> None:
    """Measure and judge."""
    quick = arguments(__doc__ or "").quick
    report = Report("hook", "Votes through the hook", (__doc__ or "").strip(), quick)
    # Not in a temporary folder, which may be in memory, where a commit costs nothing.
    with TemporaryDirectory(prefix="bbq-bench-", dir=HERE) as folder:
        found = measured(
            Path(folder), QUICK_ROUNDS if quick else ROUNDS, QUICK_SECONDS if quick else SECONDS
        )
    middle = {name: {n: median(rates) for n, rates in by.items()} for name, by in found.items()}
    # The disk changes its pace from second to second, so each round is compared with itself.
    ratio = {
        n: median(h / e for h, e in zip(found["hook"][n], rates, strict=True))
        for n, rates in found["engine"].items()
    }
    fast = middle["engine"]["1"] > FAST_DISK
    for n, bar in (("1", LEAST_ALONE), ("16", LEAST_TIMES)):
        report.check(
            f"{threads(n)}, times one commit a vote", f"{ratio[n]:.2f} ×", f"at least {bar:g} ×",
            ok=None if fast or quick else ratio[n] >= bar,
        )  # fmt: skip
    report.check(
        "16 threads, votes a commit", f"{middle['shared']['16']:.1f}",
        f"at least {LEAST_SHARED:g}", ok=middle["shared"]["16"] >= LEAST_SHARED,
    )  # fmt: skip
    for n in middle["hook"]:
        report.check(
            f"votes a second, {threads(n)}",
            f"{middle['hook'][n]:,.0f} (one commit a vote: {middle['engine'][n]:,.0f})",
        )
    report.check("votes a second, 64 tasks on a loop", f"{middle['async']['64']:,.0f}")
    report.values = {"rounds": found, "ratio": ratio}
    report.finish()


def threads(n: str) -> str:
    """A number of them."""
    return f"{n} thread" if n == "1" else f"{n} threads"


if __name__ == "__main__":
    main()
