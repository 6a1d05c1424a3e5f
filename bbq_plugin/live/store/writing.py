"""How an answer gets into the store: what is the same answer, and which record of it counts.

- Records that carry a version speak of one answer that changes, its items and all: the same key
  and the same time of creation are the same answer.
- Other records are the same answer if key, rater and items agree: an `id` may be that of a pair,
  which many people have seen. A caller who says so (`by_key`) means the key alone.
- The pairs of one slate are replaced together.
- The newest counts, by version, else by `at`, else what comes later. What was taken back, or what
  a full export no longer held, is not brought back by an older record.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from bbq_plugin._answers import coded
from bbq_plugin._coding import as_text
from bbq_plugin._gather import AGAINST_ITSELF, NO_WINNER, FileLog
from bbq_plugin.comparisons import NO_ANSWER, Batch, Comparison, Skipped
from bbq_plugin.errors import DataError

if TYPE_CHECKING:
    from bbq_plugin.live.store.changes import Changes
    from bbq_plugin.live.store.names import Names

    Record = Comparison | Skipped

DELETED = "taken back meanwhile, by a newer record or a newer full export"

#: Stands in `retracted` for a time of creation that nobody gave.
ANY_TIME = -1e300

# Records that are looked up in the store at once.
_CHUNK = 4096

_encode = msgspec.json.Encoder(order="sorted").encode


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
_INSERT = f"INSERT INTO comparison ({COLUMNS}) VALUES ({', '.join('?' * len(Row._fields))})"  # noqa: S608
_BULK = (
    "INSERT OR IGNORE INTO comparison (id, key, rater, left, right, outcome, at, source) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)


def when(record: Row | Record) -> float:
    """How new a record is, by its version, else by its time."""
    if record.version is not None:
        return record.version
    return -inf if record.at is None else record.at


@dataclass
class Tally:
    """What became of the records of one source."""

    n_new: int = 0
    n_changed: int = 0
    n_same: int = 0
    n_stale: int = 0
    n_retracted: int = 0
    #: Ids of the comparisons that the source holds, whether they were new or not.
    held: array[int] = field(default_factory=lambda: array("q"))


class Writer:
    """Puts the records of one source into the tables, inside the caller's transaction."""

    def __init__(
        self,
        db: sqlite3.Connection,
        names: Names,
        changes: Changes,
        log: FileLog,
        source: int,
        last_id: int,
        *,
        by_key: bool = False,
    ) -> None:
        self._db = db
        self._names = names
        self._changes = changes
        self._log = log
        self._source = source
        self.last_id = last_id
        self._by_key = by_key
        self._buffer: list[Record] = []
        self._slates: dict[str, bool] = {}
        self._leftover: dict[str, set[int]] = {}
        self._wholes: list[tuple[str, float]] = db.execute(
            "SELECT prefix, as_of FROM whole"
        ).fetchall()
        self.tally = Tally()

    # -- rows in

    def add(self, record: Record) -> None:
        """Take one record."""
        self._buffer.append(record)
        if len(self._buffer) >= _CHUNK:
            self.flush()

    def flush(self) -> None:
        """Write what was held back."""
        records, self._buffer = self._buffer, []
        if not records:
            return
        known = _Known(self._db, records)
        for record in records:
            if isinstance(record, Skipped):
                self._skip(record, known)
            else:
                self._answer(record, known)
        self._names.write(self._db)
        self._carry_out(known)

    def finish(self) -> None:
        """Write the rest, and take out the pairs that the slates no longer have."""
        self.flush()
        for left in self._leftover.values():
            self.tally.n_retracted += len(left)
            self.delete(left)

    def add_batch(self, batch: Batch) -> None:
        """Take many answers at once; each has a key."""
        self.flush()
        n = len(batch.lines)
        try:
            left = self._names.item_codes(batch.left, n)
            right = self._names.item_codes(batch.right, n)
            rater = self._names.rater_codes(batch.rater, n)
            usable = not any(word in self._names.items for word in batch.reserved)
        except DataError:
            if batch.records is None:
                raise
            usable = False
        if not usable and batch.records:
            for record in batch.records():
                if isinstance(record, (Comparison, Skipped)):
                    self.add(record)
            self.flush()
            return
        keys = list(map(as_text, batch.keys or ()))
        outcome = np.frombuffer(batch.outcome, dtype=np.uint8)
        good = (left != right) & (outcome != NO_ANSWER)
        at = [None] * n if batch.at is None else list(batch.at)
        if not good.all():
            self._skip_rows(batch, np.flatnonzero(~good))
            rows = np.flatnonzero(good)
            left, right, rater, outcome = left[rows], right[rows], rater[rows], outcome[rows]
            keys = [keys[i] for i in rows.tolist()]
            at = [at[i] for i in rows.tolist()]
            n = len(keys)
        self._names.write(self._db)
        self._log.n_answers += n
        first = self.last_id + 1
        self.last_id += n
        ids = np.arange(first, first + n)
        rated = [code + 1 if code >= 0 else None for code in rater.tolist()]
        columns = (
            ids.tolist(), keys, rated, (left + 1).tolist(), (right + 1).tolist(),
            outcome.tolist(), at, [self._source] * n,
        )  # fmt: skip
        inserted = self._db.executemany(_BULK, zip(*columns, strict=True)).rowcount
        fresh = np.ones(n, dtype=np.bool_)
        if inserted != n:
            found = self._db.execute("SELECT id FROM comparison WHERE id >= ?", (first,))
            fresh = np.isin(ids, np.array(found.fetchall(), dtype=np.int64).ravel())
        self._changes.extend(
            int(fresh.sum()),
            {
                "id": ids[fresh], "rater": rater[fresh], "left": left[fresh],
                "right": right[fresh], "outcome": outcome[fresh].astype(np.int8),
            },
        )  # fmt: skip
        self.tally.n_new += int(fresh.sum())
        self.tally.held.frombytes(ids[fresh].tobytes())
        # Keys that are there already: each has to be looked at.
        again = [
            Row(0, keys[i], 0, None, rated[i], int(left[i]) + 1, int(right[i]) + 1,
                int(outcome[i]), 1.0, at[i], None, None, None, self._source)
            for i in np.flatnonzero(~fresh).tolist()
        ]  # fmt: skip
        for start in range(0, len(again), _CHUNK):
            rows_ = again[start : start + _CHUNK]
            known = _Known(self._db, rows_)
            for row in rows_:
                self._put(row, known)
            self._carry_out(known)

    # -- one by one

    def _answer(self, record: Comparison, known: _Known) -> None:
        checked_key(record.key)
        answer = coded(record, self._names.items, self._names.raters)
        if answer is None:
            self._log.skip(Skipped(record.key, AGAINST_ITSELF, record.left))
            if record.version is not None and record.slate is None:
                self._take_back(record.key, record, known)
            return
        if record.slate is None or record.slate != self._log.last_slate:
            self._log.n_answers += 1
        self._log.last_slate = record.slate
        slate = record.slate if record.slate != record.key else ""
        row = Row(
            0, record.key, 0, slate, answer["rater"] + 1 if answer["rater"] >= 0 else None,
            answer["left"] + 1, answer["right"] + 1, answer["outcome"], answer["weight"],
            record.at, record.time_s, record.version,
            _encode(record.tags).decode() if record.tags else None, self._source,
        )  # fmt: skip
        if self._is_gone(row, record.slate or record.key, known):
            self._log.skip(Skipped(record.key, DELETED, expected=True))
            self.tally.n_stale += 1
        else:
            self._put(row, known)

    def _put(self, row: Row, known: _Known) -> None:
        """Insert, replace, or leave an answer as it is."""
        if row.slate and not self._take_slate(row.slate, row.when, known):
            self.tally.n_stale += 1
            return
        under = known.rows(row.key)
        old = next((r for r in under if self._is_same(r, row)), None)
        if old is None:
            twin = 1 + max((r.twin for r in under), default=-1)
            self._new(row._replace(twin=twin), known)
            self.tally.n_new += 1
            return
        self._leftover.get(row.slate or "", set()).discard(old.id)
        if old.says_the_same(row) or row.when < old.when:
            self.tally.n_same += row.when >= old.when
            self.tally.n_stale += row.when < old.when
            self.tally.held.append(old.id)
            return
        known.remove(old)
        self._new(row._replace(twin=old.twin), known)
        self.tally.n_changed += 1

    def _is_same(self, old: Row, new: Row) -> bool:
        in_one_slate = new.slate is not None and old.slate == new.slate
        return self._by_key or in_one_slate or old.same_answer(new)

    def _take_slate(self, slate: str, new: float, known: _Known) -> bool:
        """Whether the pairs of this slate count: those of one reading replace the older ones."""
        if slate not in self._slates:
            before = known.slate(slate)
            self._slates[slate] = new >= max((row.when for row in before), default=-inf)
            if self._slates[slate]:
                self._leftover[slate] = {row.id for row in before}
        return self._slates[slate]

    def _new(self, row: Row, known: _Known) -> None:
        self.last_id += 1
        known.add(row._replace(id=self.last_id))
        self.tally.held.append(self.last_id)

    def _skip(self, record: Skipped, known: _Known) -> None:
        self._log.skip(record)
        if record.key is not None:
            self._take_back(record.key, record, known)

    def _take_back(self, key: str, by: Record, known: _Known) -> None:
        last = when(by)
        for row in [*known.rows(key), *known.slate(key)]:
            if row.at == by.at and row.when <= last:
                known.remove(row)
                self.tally.n_retracted += 1
        self._db.execute(
            "INSERT INTO retracted VALUES (?, ?, ?) "
            "ON CONFLICT DO UPDATE SET version = max(version, excluded.version)",
            (key, ANY_TIME if by.at is None else by.at, last),
        )
        known.note_gone(key, by.at, last)

    def _is_gone(self, row: Row, key: str, known: _Known) -> bool:
        if row.version is None:
            return False
        if row.version < known.gone(key, row.at):
            return True
        return not (known.rows(key) or known.slate(key)) and any(
            key.startswith(prefix) and row.version <= as_of for prefix, as_of in self._wholes
        )

    # -- tables

    def _carry_out(self, known: _Known) -> None:
        # First out, then in: what is replaced has the same key.
        self.delete(known.dead)
        self._insert(known.fresh.values())

    def _insert(self, rows: Iterable[Row]) -> None:
        found = list(rows)
        self._db.executemany(_INSERT, found)
        for row in found:
            self._changes.add(
                (
                    row.id, (row.rater or 0) - 1, row.left - 1, row.right - 1, row.outcome,
                    row.slate is not None, row.weight,
                    float("nan") if row.time_s is None else row.time_s,
                )
            )  # fmt: skip

    def delete(self, ids: Iterable[int]) -> None:
        """Take comparisons out of the table."""
        gone = list(ids)
        self._db.executemany("DELETE FROM comparison WHERE id = ?", [(i,) for i in gone])
        self._changes.removed.update(gone)

    def _skip_rows(self, batch: Batch, rows: Any) -> None:
        lines = batch.lines
        for i in rows.tolist():
            where = f"{self._log.name}:{lines[i]}"
            if batch.left[i] == batch.right[i]:
                self._log.skip(Skipped(where, AGAINST_ITSELF, str(batch.left[i])))
            else:
                self._log.skip(Skipped(where, NO_WINNER))


class _Known:
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
        for column, wanted in (("key", keys), ("slate", slates)):
            for found in db.execute(
                f"SELECT {COLUMNS} FROM comparison WHERE {column} IN "  # noqa: S608 (constants)
                "(SELECT value FROM json_each(?))",
                (_encode(list(wanted)).decode(),),
            ):
                self._file(Row(*found))
        self._gone: dict[tuple[str, float], float] = {
            (key, at): version
            for key, at, version in db.execute(
                "SELECT key, at, version FROM retracted WHERE key IN "
                "(SELECT value FROM json_each(?))",
                (_encode(list(keys | slates)).decode(),),
            )
        }

    def rows(self, key: str) -> list[Row]:
        return list(self._rows.get(key, {}).values())

    def slate(self, slate: str) -> list[Row]:
        return list(self._slates.get(slate, {}).values())

    def _file(self, row: Row) -> None:
        self._rows.setdefault(row.key, {})[row.id] = row
        if row.slate:
            self._slates.setdefault(row.slate, {})[row.id] = row

    def add(self, row: Row) -> None:
        self.fresh[row.id] = row
        self._file(row)

    def remove(self, row: Row) -> None:
        if self.fresh.pop(row.id, None) is None:
            self.dead.append(row.id)
        self._rows.get(row.key, {}).pop(row.id, None)
        if row.slate:
            self._slates.get(row.slate, {}).pop(row.id, None)

    def gone(self, key: str, at: float | None) -> float:
        made = ANY_TIME if at is None else at
        return max(self._gone.get((key, time), -inf) for time in (made, ANY_TIME))

    def note_gone(self, key: str, at: float | None, version: float) -> None:
        made = ANY_TIME if at is None else at
        self._gone[key, made] = max(self._gone.get((key, made), -inf), version)


def checked_key(key: object) -> str:
    """A key that a caller gave."""
    if not isinstance(key, str) or not key:
        raise DataError(f"key is {key!r}; a key is text that names one answer")
    return key
