"""Distinct (rater, winner, loser) with summed weights, and passes over them on all cores.

Equal rows are summed once, so that each later pass costs distinct triples. The rows are put in
rater order by a counting sort (linear), and each rater's few rows are then sorted on their own:
both parts beat one large sort over all rows, and the second runs on all cores.

A pass releases the interpreter lock and runs in chunks of raters. The chunks depend on the data
alone and their results are added up in order, so a fit is the same to the last bit however many
threads took part.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar
from zlib import crc32

import numpy as np
from numba import njit
from numpy.typing import NDArray

T = TypeVar("T")
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Mask = NDArray[np.bool_]
LARGEST_TABLE = 1 << 20  # pairs of items that a table for one rater may have

# Below this many rows a second thread costs more than it saves.
ROWS_PER_CHUNK = 20_000
MOST_CHUNKS = 16
MOST_SORTING = 4  # threads that go through all rows each
ROWS_SORTED = 4_000_000  # fewer stay in the caches, and one thread is enough


@dataclass(frozen=True, slots=True, eq=False)
class Triples:
    """Distinct (rater, winner, loser) with their summed weight, sorted by rater, winner, loser.

    The rows of rater ``r`` are ``start[r]:start[r + 1]``.
    """

    start: NDArray[np.int64]
    winner: NDArray[np.int32]
    loser: NDArray[np.int32]
    weight: NDArray[np.float64]
    n_items: int
    #: Added to theta_winner - theta_loser; rows of one pair that differ in it are rows apart.
    offset: NDArray[np.float64] | None = None
    #: Of the raters, where known.
    names: tuple[str, ...] = ()

    @property
    def n_raters(self) -> int:
        """How many raters there are, those without a triple included."""
        return self.start.size - 1

    @property
    def size(self) -> int:
        """How many distinct triples there are."""
        return self.winner.size

    def rater(self) -> NDArray[np.int64]:
        """The rater of each triple (the expansion of ``start``)."""
        return np.repeat(np.arange(self.n_raters), np.diff(self.start))

    def without_raters(self) -> Triples:
        """The same comparisons as if one rater had made them all."""
        if self.offset is not None:
            return replace(self, start=np.array([0, self.size], dtype=np.int64), names=())
        if self.n_items**2 <= self.size:
            return of_pairs(self.by_pair())
        one = np.zeros(self.size, dtype=np.int32)
        return aggregate(one, self.winner, self.loser, self.weight, 1, self.n_items)

    def by_pair(self) -> Floats:
        """How often each item won against each other one, counted by some rows at a time."""
        k, rows = self.n_items, 1 << 20
        table = np.zeros(k * k)
        for first in range(0, self.size, rows):
            at = slice(first, first + rows)
            cell = self.winner[at].astype(np.int64) * k + self.loser[at]
            table += np.bincount(cell, self.weight[at], k * k)
        return table.reshape(k, k)


def of_pairs(table: Floats) -> Triples:
    """The wins in a table of winners and losers, as if one rater had made them all."""
    winner, loser = np.nonzero(table)
    start = np.array([0, winner.size], dtype=np.int64)
    weight = np.asarray(table[winner, loser])
    return Triples(start, winner.astype(np.int32), loser.astype(np.int32), weight, len(table))


def aggregate(
    rater: NDArray[np.int32],
    winner: NDArray[np.int32],
    loser: NDArray[np.int32],
    weight: NDArray[np.float64],
    n_raters: int,
    n_items: int,
    names: tuple[str, ...] = (),
) -> Triples:
    """Sum the weights of equal triples; codes are taken as valid (``Comparisons`` checks them)."""
    begin = np.zeros(n_raters + 1, dtype=np.int64)
    _count(rater, begin)
    at = begin[:-1].copy()
    # Small numbers, and arrays that are used again: fresh memory costs as much as the work on it.
    pair = np.empty(rater.size, dtype=np.int32 if n_items**2 < 2**31 else np.int64)
    summed = np.empty(rater.size, dtype=np.float64)

    def sort(first: int, last: int) -> None:
        _by_rater(first, last, rater, winner, loser, weight, n_items, at, pair, summed)

    # Each thread goes through all rows and takes those of its raters.
    threads = min(worker_count(), MOST_SORTING, 1 + rater.size // ROWS_SORTED)
    run_chunks(sort, even_chunks(begin, threads))
    kept = np.zeros(n_raters + 1, dtype=np.int64)
    n_pairs = n_items**2 if n_items**2 <= LARGEST_TABLE else 0

    def merge(first: int, last: int) -> None:
        total, seen = np.zeros(n_pairs), np.zeros(n_pairs, dtype=np.bool_)
        _merge_equal(first, last, begin, pair, summed, total, seen, kept)

    run_chunks(merge, even_chunks(begin))
    start = np.cumsum(kept)
    out_loser = np.empty(start[-1], dtype=np.int32)

    def part(first: int, last: int) -> None:
        _part_pairs(first, last, begin, start, pair, n_items, out_loser)

    run_chunks(part, even_chunks(begin))
    _close_up(begin, start, pair, summed)
    for array in (pair, summed):
        array.resize(start[-1], refcheck=False)
    codes = pair.astype(np.int32, copy=False), out_loser
    return Triples(start, *codes, summed, n_items, names=names)


def some_raters(triples: Triples, chosen: Codes) -> Triples:
    """The wins of these raters."""
    length = np.diff(triples.start)[chosen]
    start = np.concatenate(([0], np.cumsum(length)))
    at = np.repeat(triples.start[chosen] - start[:-1], length) + np.arange(start[-1])
    winner, loser, weight = triples.winner[at], triples.loser[at], triples.weight[at]
    offset = None if triples.offset is None else triples.offset[at]
    names = tuple(map(triples.names.__getitem__, chosen.tolist())) if triples.names else ()
    return Triples(start, winner, loser, weight, triples.n_items, offset, names)


def lots(triples: Triples) -> NDArray[np.uint32]:
    """A number of each rater that looks random and depends on the name alone: 32 bits, mixed.

    Those with the lowest numbers are a sample of all raters: the same in whatever order the rows
    come, and hardly another one when answers are added. Raters without names go by their place.
    """
    names = triples.names or map(str, range(triples.n_raters))
    codes = (crc32(name.encode(errors="surrogatepass")) for name in names)
    h = np.fromiter(codes, np.uint32, triples.n_raters)
    for shift, times in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        h = (h ^ (h >> np.uint32(shift))) * np.uint32(times)
    return h


def triple_of(
    triples: Triples, rater: NDArray[Any], winner: NDArray[Any], loser: NDArray[Any]
) -> Codes:
    """The place of each row among the triples, which are sorted by rater, winner and loser."""
    k = np.int64(triples.n_items)
    keys = (triples.rater() * k + triples.winner) * k + triples.loser
    rows = (np.asarray(rater, dtype=np.int64) * k + winner) * k + loser
    return np.asarray(np.searchsorted(keys, rows), dtype=np.int64)


def count_by(group: NDArray[Any], n: int, weights: Floats | None = None) -> Floats:
    """How many of each of ``n`` groups, such as raters, or the sum of these weights."""
    return np.asarray(np.bincount(group, weights, n), dtype=np.float64)


def worker_count() -> int:
    """How many threads may run: BBQ_THREADS, else the cores this process may use."""
    wanted = os.environ.get("BBQ_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="bbq")


def even_chunks(start: NDArray[np.int64], most: int = MOST_CHUNKS) -> list[tuple[int, int]]:
    """Cut groups ``0..len(start) - 1`` into runs of about equally many rows."""
    groups, rows = start.size - 1, int(start[-1])
    pieces = min(most, max(1, rows // ROWS_PER_CHUNK), max(1, groups))
    cuts = np.searchsorted(start, np.linspace(0, rows, pieces + 1)[1:-1], side="left")
    edges = np.unique(np.concatenate(([0], cuts, [groups])))
    return [(int(a), int(b)) for a, b in pairwise(edges)] or [(0, 0)]


def run_chunks(work: Callable[[int, int], T], chunks: list[tuple[int, int]]) -> list[T]:
    """Call ``work(first, last)`` for each chunk, on several threads if there are several chunks."""
    workers = min(worker_count(), len(chunks))
    if workers <= 1:
        return [work(a, b) for a, b in chunks]
    return list(_pool(workers).map(lambda chunk: work(*chunk), chunks))


# -- compiled passes of the aggregation
#
# Plain loops over arrays that come from outside: what NumPy offers inside a kernel (slices, sums,
# sorts) is compiled anew for each kernel and makes the first use of the package wait.

# Wrappers that nothing calls are not compiled either.
OPTIONS: dict[str, Any] = {
    "cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True,
}  # fmt: skip
kernel: Any = njit(**OPTIONS)
#: Of a kernel that only kernels call.
INNER: dict[str, Any] = {**OPTIONS, "no_cpython_wrapper": True}
inner_kernel: Any = njit(**INNER)


@kernel
def _count(rater, begin):
    """Where the rows of each rater begin, if they are sorted by rater."""
    for row in range(rater.size):
        begin[rater[row] + 1] += 1
    for r in range(begin.size - 1):
        begin[r + 1] += begin[r]


@kernel
def _by_rater(first, last, rater, winner, loser, weight, n_items, at, pair, summed):
    """Counting sort by rater, of some of them; a pair of items becomes winner * K + loser."""
    for row in range(rater.size):
        r = rater[row]
        if first <= r < last:
            slot = at[r]
            at[r] = slot + 1
            pair[slot] = np.int64(winner[row]) * n_items + loser[row]
            summed[slot] = weight[row]


@kernel
def _merge_equal(first, last, begin, pair, summed, total, seen, kept):
    """Sort each rater's rows by pair and sum equal ones to the front of the rater's stretch.

    For a rater with many rows: a table of all pairs (``total`` and ``seen``, left clean again)
    instead of a sort.
    """
    for r in range(first, last):
        low, high = begin[r], begin[r + 1]
        end = low
        if high - low > 48 and total.size <= 16 * (high - low) and total.size > 0:
            for k in range(low, high):
                total[pair[k]] += summed[k]
                seen[pair[k]] = True
            for code in range(total.size):
                if seen[code]:
                    pair[end] = code
                    summed[end] = total[code]
                    total[code] = 0.0
                    seen[code] = False
                    end += 1
        elif high > low:
            sort_by_code(low, high, pair, summed)
            for k in range(low + 1, high):
                if pair[k] == pair[end]:
                    summed[end] += summed[k]
                else:
                    end += 1
                    pair[end] = pair[k]
                    summed[end] = summed[k]
            end += 1
        kept[r + 1] = end - low


@inner_kernel
def sort_by_code(low, high, code, value):
    """Sort a stretch of both by code: insertions over smaller and smaller gaps (Shell's sort)."""
    gap = 1
    while 9 * gap < high - low:
        gap = 9 * gap // 4 + 1
    while gap > 0:
        for k in range(low + gap, high):
            one, its = code[k], value[k]
            j = k - gap
            while j >= low and code[j] > one:
                code[j + gap] = code[j]
                value[j + gap] = value[j]
                j -= gap
            code[j + gap] = one
            value[j + gap] = its
        gap = 4 * gap // 9


@kernel
def _part_pairs(first, last, begin, start, pair, n_items, loser):
    """The losers of the pairs that were kept; their winners take the place of the pairs."""
    for r in range(first, last):
        shift = start[r] - begin[r]
        for k in range(begin[r], begin[r] + start[r + 1] - start[r]):
            code = pair[k]
            loser[k + shift] = code % n_items
            pair[k] = code // n_items


@kernel
def _close_up(begin, start, code, value):
    """Move the first rows of each stretch of ``begin`` to that of ``start``, no later."""
    for r in range(start.size - 1):
        shift = begin[r] - start[r]
        if shift > 0:
            for k in range(start[r], start[r + 1]):
                code[k] = code[k + shift]
                value[k] = value[k + shift]
