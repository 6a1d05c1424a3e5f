"""Rows of a result: frozen dataclasses that also read like a mapping."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

__all__ = ["Row"]


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
