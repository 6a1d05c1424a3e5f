"""Coded answers as growing columns; those that nobody fills cost nothing."""

from __future__ import annotations

from array import array
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_KINDS = {
    "rater": "i", "left": "i", "right": "i", "outcome": "b", "key": "q", "weight": "d",
    "time_s": "d", "at": "d", "version": "d", "slate": "b", "part": "i", "gold": "b",
    "kept": "b",
}  # fmt: skip
_USUAL: dict[str, Any] = {"weight": 1.0, "time_s": nan, "at": nan, "version": nan}


class Columns:
    """Rows are added one by one or many at once; what is not given has its usual value."""

    def __init__(self) -> None:
        self.n = 0
        self._columns = {name: array(kind) for name, kind in _KINDS.items()}

    def __len__(self) -> int:
        return self.n

    def append(self, answer: Mapping[str, Any]) -> None:
        """Add one answer."""
        for name, value in answer.items():
            column = self._columns[name]
            if len(column) < self.n:
                self._pad(name)
            column.append(value)
        self.n += 1

    def extend(self, n: int, **given: NDArray[Any]) -> None:
        """Add `n` answers."""
        for name, values in given.items():
            column = self._columns[name]
            if len(column) < self.n:
                self._pad(name)
            column.frombytes(values.data.cast("B"))
        self.n += n

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All columns, as long as each other."""
        for name in self._columns:
            self._pad(name)
        return {
            name: np.frombuffer(column, dtype=np.dtype(column.typecode))
            for name, column in self._columns.items()
        }

    def _pad(self, name: str) -> None:
        column = self._columns[name]
        column.extend(array(column.typecode, [_USUAL.get(name, 0)]) * (self.n - len(column)))
