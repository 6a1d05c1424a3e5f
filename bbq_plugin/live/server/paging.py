"""Long tables, a part at a time."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from urllib.parse import urlencode

__all__ = ["Paging"]


@dataclass(frozen=True)
class Paging:
    """Where a long table stands."""

    page: int
    n: int
    size: int
    path: str
    given: dict[str, str]

    @property
    def n_pages(self) -> int:
        """At least one."""
        return max(1, ceil(self.n / self.size))

    @property
    def first(self) -> int:
        """The first row, counted from 0."""
        return (self.page - 1) * self.size

    @property
    def last(self) -> int:
        """One after the last row."""
        return min(self.n, self.first + self.size)

    def url(self, page: int) -> str:
        """Another part of the table."""
        return f"{self.path}?{urlencode({**self.given, 'page': str(page)})}"
