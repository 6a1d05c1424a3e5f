"""Which of several answers under one key counts: the newest, unless it was taken back."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from bbq_plugin.data.coding import as_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    #: One array for each field of an answer, all of the same length.
    Columns = dict[str, NDArray[Any]]
    Mask = NDArray[np.bool_]


def key_hashes(keys: Sequence[str | int | float], n: int) -> NDArray[np.int64]:
    """The keys as numbers; 0 stands for no key."""
    if set(map(type, keys)) != {str}:
        keys = [as_text(key, "key") for key in keys]
    hashes = np.fromiter(map(hash, keys), dtype=np.int64, count=n)
    hashes[hashes == 0] = 1
    return hashes


def newest(columns: Columns, file: NDArray[Any]) -> Mask | None:
    """Which rows are the last word under their key; None if no key comes twice.

    The newest `version` wins, or `at` for want of one, else what comes later. A slate
    is one answer of many rows: it is taken from one file as a whole. Key 0 stands for no
    key. A key says nothing about other people or other items: an `id` may be that of a
    pair, which many have seen. Only who gives a version speaks of one answer that
    changes, its items and all, and tells it from others of that key by when it was made.
    """
    slate = columns["slate"] != 0
    keep = np.ones(slate.size, dtype=np.bool_)
    single = np.flatnonzero(~slate & (columns["key"] != 0))
    # Sorting alone tells whether there is anything to do, which is rare.
    if _has_twins(columns["key"][single]):
        when = _when(columns)
        same = columns["key"]
        for name in ("rater", "left", "right"):
            same = _mixed(same, columns[name])
        keep[_older(same, single, when)] = False
        versioned = single[~np.isnan(columns["version"][single])]
        same = _mixed(columns["key"], columns["at"].view(np.int64))
        keep[_older(same, versioned, when)] = False
    many = np.flatnonzero(slate)
    if many.size and file[many].min() != file[many].max():
        _, group = np.unique(columns["key"][many], return_inverse=True)
        order = np.lexsort((many, _when(columns)[many], group))
        chosen = np.empty(int(group.max()) + 1, dtype=np.int64)
        chosen[group[order]] = file[many][order]
        keep[many] = file[many] == chosen[group]
    return None if keep.all() else keep


class Retractions:
    """Rows left out that take back what an older row said under the same key."""

    def __init__(self) -> None:
        # by key and time of creation: how new, and before which row it came
        self._last: dict[tuple[int, float | None], tuple[float, int]] = {}

    def add(self, key: int, at: float | None, version: float | None, row: int) -> None:
        """Take one; `row` is the number of answers before it."""
        when = next((time for time in (version, at) if time is not None), -inf)
        same = (key, at)
        self._last[same] = max(self._last.get(same, (-inf, 0)), (when, row))

    def of(self, columns: Columns) -> Mask | None:
        """Which answers still stand; None if all do."""
        if not self._last:
            return None
        keys = np.array([key for key, _ in self._last], dtype=np.int64)
        rows = np.flatnonzero(np.isin(columns["key"], keys))
        when, at = _when(columns)[rows].tolist(), columns["at"][rows].tolist()
        key = columns["key"][rows].tolist()
        keep = np.ones(columns["key"].size, dtype=np.bool_)
        for i, row in enumerate(rows.tolist()):
            # NaN is not equal to itself.
            last = self._last.get((key[i], at[i] if at[i] == at[i] else None))
            keep[row] = last is None or (when[i], row) >= last
        return None if keep.all() else keep


def _when(columns: Columns) -> NDArray[np.float64]:
    """How new each row is."""
    version, at = columns["version"], columns["at"]
    return np.nan_to_num(np.where(np.isnan(version), at, version), nan=-np.inf)


def _older(same: NDArray[Any], rows: NDArray[Any], when: NDArray[Any]) -> NDArray[Any]:
    """Those of these rows, in ascending order, after which a newer one of the same comes."""
    same = same[rows]
    if not _has_twins(same):
        return rows[:0]
    order = np.lexsort((rows, when[rows], same))
    return np.asarray(rows[order[:-1][same[order][1:] == same[order][:-1]]])


def _has_twins(key: NDArray[Any]) -> bool:
    in_order = np.sort(key)
    return bool((in_order[1:] == in_order[:-1]).any())


def _mixed(key: NDArray[Any], code: NDArray[Any]) -> NDArray[Any]:
    """Both in one number: a step of the hash that SplitMix64 is made of."""
    mixed = (key.astype(np.uint64) ^ code.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed ^ (mixed >> np.uint64(29))).astype(np.int64)
