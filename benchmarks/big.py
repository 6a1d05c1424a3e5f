"""Child processes for the benchmarks of size: one draws a study, others measure one thing each.

Each prints its result as one line of JSON. The arrays go from one to the other as .npy files, so
that the peak memory of a child is that of what it measures and of the arrays it was given.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import PAPERS, best_of, in_child, peak_memory_bytes
from numpy.typing import NDArray

Codes = NDArray[np.int64]


def draw(folder: str, items: str, raters: str, comparisons: str, seed: str) -> dict[str, Any]:
    """Simulate a study and save its codes as int64, in random order of rows."""
    from bbq_plugin import simulate  # noqa: PLC0415 (other children must not pay for it)

    study = simulate(
        items=int(items), raters=int(raters), comparisons=int(comparisons), guessers=0.2,
        quality=(8.0, 2.0), spread=0.6, seed=int(seed),
    )  # fmt: skip
    data = study.arrays()
    order = np.random.default_rng(int(seed)).permutation(data.winner.size)
    for name in ("rater", "winner", "loser"):
        np.save(Path(folder) / f"{name}.npy", getattr(data, name)[order].astype(np.int64))
    return {"rows": int(data.winner.size)}


def load(folder: str) -> tuple[Codes, Codes, Codes]:
    """The codes of a saved study."""
    rater, winner, loser = (
        np.load(Path(folder) / f"{n}.npy") for n in ("rater", "winner", "loser")
    )
    return rater, winner, loser


def unique(folder: str, times: str) -> dict[str, Any]:
    """Seconds of one numpy.unique over the keys (rater, winner, loser), with their counts."""
    rater, winner, loser = load(folder)
    items = int(max(winner.max(), loser.max())) + 1
    keys = (rater * items + winner) * items + loser
    del rater, winner, loser
    return {"seconds": best_of(lambda: np.unique(keys, return_counts=True), int(times), warm_up=0)}


def whole(folder: str, with_laplace: str, times: str) -> dict[str, Any]:
    """Seconds, cores used and peak memory from coded arrays to a fit (with Laplace intervals)."""
    warm_up()
    before = peak_memory_bytes()
    rater, winner, loser = load(folder)
    best: dict[str, Any] = {}
    for _ in range(int(times)):
        found = _timed(rater, winner, loser, with_laplace=with_laplace == "laplace")
        if not best or found["seconds"] < best["seconds"]:
            best = found
    return best | {"peak": peak_memory_bytes(), "peak_before": before}


def _timed(rater: Codes, winner: Codes, loser: Codes, *, with_laplace: bool) -> dict[str, Any]:
    from bbq_plugin import Comparisons, fit  # noqa: PLC0415 (loaded by warm_up)

    clock, cpu = time.perf_counter(), time.process_time()
    data = Comparisons.from_arrays(rater, winner, loser)
    triples = data.triples
    coded = time.perf_counter() - clock
    found = fit(data, **PAPERS)
    fitted = time.perf_counter() - clock
    sd = np.sqrt(np.diag(found.covariance())) if with_laplace else np.zeros(1)
    seconds, used = time.perf_counter() - clock, time.process_time() - cpu
    assert np.isfinite(found.theta).all()
    return {
        "seconds": seconds, "cores": used / seconds, "aggregated_s": coded,
        "fitted_s": fitted - coded, "laplace_s": seconds - fitted, "steps": len(found.trace),
        "error": found.error, "triples": int(triples.size), "sd": float(sd.mean()),
    }  # fmt: skip


def warm_up() -> None:
    """Load (or, the first time, compile) what will be timed."""
    from bbq_plugin import Comparisons, fit  # noqa: PLC0415

    rng = np.random.default_rng(0)
    for items in (5, 200):
        winner = rng.integers(0, items, 3000)
        loser = (winner + rng.integers(1, items, 3000)) % items
        found = fit(Comparisons.from_arrays(rng.integers(0, 300, 3000), winner, loser), **PAPERS)
        found.covariance()


def ask(what: str, *words: object, plain_sort: bool = False) -> dict[str, Any]:
    """Run one of these in a process of its own; ``plain_sort``: NumPy without vector registers."""
    if not plain_sort:
        return in_child(__file__, what, *map(str, words))
    name = "NPY_DISABLE_CPU_FEATURES"
    os.environ[name] = "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL"
    try:
        return in_child(__file__, what, *map(str, words))
    finally:
        del os.environ[name]


def main(words: list[str]) -> None:
    """Do what the parent asked for."""
    doing: dict[str, Callable[..., dict[str, Any]]] = {
        "draw": draw, "unique": unique, "whole": whole,
    }  # fmt: skip
    print(json.dumps(doing[words[0]](*words[1:])))


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
