"""A comparison as it is in the table, and what the table holds under the keys of others."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from math import inf
from typing import Any, NamedTuple

from bbq_plugin.comparisons import Comparison, Skipped
from bbq_plugin.errors import DataError

Record = Comparison | Skipped

#: Stands in `retracted` for a time of creation that nobody gave.
ANY_TIME = -1e300

# Keys that are looked up at once.
CHUNK = 4096


class Row(NamedTuple):
    """A comparison as it is in the table."""

    id: int
    key: str
    twin: int
    slate: str | None
    rater: int | None
    left: int
    right: int
    outcome: int
    weight: float
    at: float | None
    time_s: float | None
    version: float | None
    tags: str | None
    source: int

    @property
    def when(self) -> float:
        """How new it is."""
        return when(self)

    def same_answer(self, other: Row) -> bool:
        """Whether both are records of one answer, the key being the same."""
        if self.version is not None and other.version is not None:
            return self.at == other.at
        return self[4:7] == other[4:7]

    def says_the_same(self, other: Row) -> bool:
        """Whether nothing that counts differs."""
        return self[3:13] == other[3:13]


COLUMNS = ", ".join(Row._fields)
_BULK = (
    "INSERT OR IGNORE INTO comparison (id, key, rater, left, right, outcome, at, source) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)


def when(record: Row | Record) -> float:
    """How new a record is, by its version, else by its time."""
    if record.version is not None:
        return record.version
    return -inf if record.at is None else record.at


class Known:
    """What the store holds under the keys of some records, and what they make of it."""

    def __init__(self, db: sqlite3.Connection, records: Iterable[Record | Row]) -> None:
        keys: set[str] = set()
        slates: set[str] = set()
        for record in records:
            if record.key is None:
                continue
            if isinstance(record, Skipped):
                slates.add(record.key)
            elif record.slate and record.slate != record.key:
                slates.add(record.slate)
            keys.add(record.key)
        self._rows: dict[str, dict[int, Row]] = {key: {} for key in keys}
        self._slates: dict[str, dict[int, Row]] = {slate: {} for slate in slates}
        self.fresh: dict[int, Row] = {}
        self.dead: list[int] = []
        self.adopted: list[int] = []
        for column, wanted in (("key", keys), ("slate > '' AND slate", slates)):
            for found in among(db, f"SELECT {COLUMNS} FROM comparison WHERE {column}", wanted):  # noqa: S608
                self._file(Row(*found))
        self._gone: dict[tuple[str, float], float] = {
            (key, at): version
            for key, at, version in among(
                db, "SELECT key, at, version FROM retracted WHERE key", keys | slates
            )
        }

    def rows(self, key: str) -> list[Row]:
        """Those under a key."""
        return list(self._rows.get(key, {}).values())

    def slate(self, slate: str) -> list[Row]:
        """The pairs of a slate."""
        return list(self._slates.get(slate, {}).values())

    def _file(self, row: Row) -> None:
        self._rows.setdefault(row.key, {})[row.id] = row
        if row.slate:
            self._slates.setdefault(row.slate, {})[row.id] = row

    def add(self, row: Row) -> None:
        """One that is to be inserted."""
        self.fresh[row.id] = row
        self._file(row)

    def remove(self, row: Row) -> None:
        """One that is to go."""
        if self.fresh.pop(row.id, None) is None:
            self.dead.append(row.id)
        self._rows.get(row.key, {}).pop(row.id, None)
        if row.slate:
            self._slates.get(row.slate, {}).pop(row.id, None)

    def gone(self, key: str, at: float | None) -> float:
        """Up to which version an answer was taken back."""
        made = ANY_TIME if at is None else at
        return max(self._gone.get((key, time), -inf) for time in (made, ANY_TIME))

    def note_gone(self, key: str, at: float | None, version: float) -> None:
        """An answer is taken back, up to this version."""
        made = ANY_TIME if at is None else at
        self._gone[key, made] = max(self._gone.get((key, made), -inf), version)


def among(db: sqlite3.Connection, select: str, wanted: set[str]) -> list[tuple[Any, ...]]:
    """The rows whose last named column is one of these."""
    keys, found = list(wanted), []
    for start in range(0, len(keys), CHUNK):
        some = keys[start : start + CHUNK]
        # Not by a list in JSON: that ends at the first NUL of a text.
        found += db.execute(f"{select} IN ({', '.join('?' * len(some))})", some).fetchall()
    return found


def checked_key(key: object, what: str = "key") -> str:
    """A key that a caller gave."""
    if not isinstance(key, str) or not key:
        raise DataError(f"{what} is {key!r}; expected text that names one answer")
    return key
