"""What a transaction did to the answers, as columns: the form in which the engine takes it over."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

#: Columns of an answer in memory and their types. Codes count from 0; nobody is -1. `slate` is a
#: code of the name of the ranking or choice that a pair is of, 0 for none.
KINDS: Mapping[str, str] = {
    "id": "q", "rater": "i", "left": "i", "right": "i",
    "outcome": "b", "slate": "i", "weight": "d", "time_s": "d",
    "at": "d", "gold": "b", "kept": "b",
}  # fmt: skip

Columns = dict[str, "NDArray[Any]"]


@dataclass(frozen=True, eq=False, slots=True)
class Change:
    """Answers that are new, in ascending order of id, and ids of those that are gone."""

    added: Columns
    removed: NDArray[np.int64]
    #: The last id that was given away when it was done: the state of the store has this number.
    last_id: int = 0

    @property
    def n_added(self) -> int:
        """How many answers are new."""
        return int(self.added["id"].size)

    def __bool__(self) -> bool:
        return bool(self.n_added or self.removed.size)


class Changes:
    """Collects them row by row or many at once."""

    def __init__(self) -> None:
        self._columns = {name: array(kind) for name, kind in KINDS.items()}
        self.removed: set[int] = set()

    def __len__(self) -> int:
        return len(self._columns["id"])

    def add(self, row: tuple[Any, ...]) -> None:
        """Take one answer, with its values in the order of KINDS."""
        for column, value in zip(self._columns.values(), row, strict=True):
            column.append(value)

    def extend(self, n: int, given: Mapping[str, NDArray[Any]]) -> None:
        """Take `n` answers; what is not given is as usual."""
        for name, column in self._columns.items():
            if name in given:
                column.frombytes(np.ascontiguousarray(given[name]).data.cast("B"))
            else:
                column.extend(array(column.typecode, [_USUAL[name]]) * n)

    def cut(self, n: int, removed: Iterable[int]) -> None:
        """Go back to the first `n` answers and to these removed ones."""
        for column in self._columns.values():
            del column[n:]
        self.removed = set(removed)

    def change(self) -> Change:
        """Everything so far; what came and went meanwhile is in neither part."""
        columns = columns_of({name: column.tobytes() for name, column in self._columns.items()})
        gone = np.array(sorted(self.removed), dtype=np.int64)
        stays = ~np.isin(columns["id"], gone)
        before = gone[~np.isin(gone, columns["id"])]
        return Change({name: column[stays] for name, column in columns.items()}, before)


_USUAL: Mapping[str, Any] = {
    "slate": 0, "weight": 1.0, "time_s": nan, "at": nan, "gold": 0, "kept": 0,
}  # fmt: skip


def slate_code(name: str) -> int:
    """A number for the name of a slate, of which two of one rater hardly share theirs."""
    return 1 + crc32(name.encode()) % (2**31 - 1)


def columns_of(data: Mapping[str, bytes]) -> Columns:
    """Bytes of columns as arrays."""
    return {name: np.frombuffer(data[name], dtype=np.dtype(kind)) for name, kind in KINDS.items()}


def joined(parts: Iterable[Columns]) -> Columns:
    """Several pieces as one."""
    pieces = list(parts)
    empty = columns_of(dict.fromkeys(KINDS, b""))
    return {name: np.concatenate([empty[name], *(p[name] for p in pieces)]) for name in KINDS}
