"""Rows of a result, frozen dataclasses that also read like a mapping, and lists of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, Generic, TypeVar, overload


class Row:
    """``row.rating``, ``row["rating"]`` and ``dict(row)`` are all the same number."""

    __slots__ = ()

    def keys(self) -> Iterator[str]:
        """The names of the fields, in order."""
        return iter([f.name for f in fields(self)])  # type: ignore[arg-type] # dataclasses only

    def __getitem__(self, name: str) -> Any:
        if name not in self.keys():
            raise KeyError(name)
        return getattr(self, name)


R = TypeVar("R", bound=Row)


class Rows(Sequence[R], Generic[R]):
    """A result that is a list of rows, with whatever belongs to all of them as attributes."""

    def __init__(self, rows: list[R]) -> None:
        self._rows = rows

    @overload
    def __getitem__(self, index: int) -> R: ...
    @overload
    def __getitem__(self, index: slice) -> list[R]: ...
    def __getitem__(self, index: int | slice) -> R | list[R]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[R]:
        return iter(self._rows)
