"""Run compiled passes that release the interpreter lock on all cores, in a fixed order of chunks.

The chunks depend on the data alone and their results are added up in order, so a fit is the same
to the last bit however many threads took part.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

# Below this many rows a second thread costs more than it saves.
ROWS_PER_CHUNK = 20_000
MOST_CHUNKS = 16


def worker_count() -> int:
    """How many threads may run: BBQ_THREADS, else the cores this process may use."""
    wanted = os.environ.get("BBQ_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="bbq")


def even_chunks(start: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Cut groups ``0..len(start) - 1`` into runs of about equally many rows."""
    groups, rows = start.size - 1, int(start[-1])
    pieces = min(MOST_CHUNKS, max(1, rows // ROWS_PER_CHUNK), max(1, groups))
    cuts = np.searchsorted(start, np.linspace(0, rows, pieces + 1)[1:-1], side="left")
    edges = np.unique(np.concatenate(([0], cuts, [groups])))
    return [(int(a), int(b)) for a, b in pairwise(edges)] or [(0, 0)]


def run_chunks(work: Callable[[int, int], T], chunks: list[tuple[int, int]]) -> list[T]:
    """Call ``work(first, last)`` for each chunk, on several threads if there are several chunks."""
    workers = min(worker_count(), len(chunks))
    if workers <= 1:
        return [work(a, b) for a, b in chunks]
    return list(_pool(workers).map(lambda chunk: work(*chunk), chunks))
