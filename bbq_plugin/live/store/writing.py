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
from math import inf, nan
from typing import TYPE_CHECKING

import msgspec

from bbq_plugin._answers import coded, told_by
from bbq_plugin._gather import AGAINST_ITSELF, FileLog
from bbq_plugin.comparisons import GOLD, SHOWN_ORDER, Comparison, Skipped
from bbq_plugin.live.store.changes import slate_code
from bbq_plugin.live.store.rows import (
    ANY_TIME,
    CHUNK,
    COLUMNS,
    Known,
    Record,
    Row,
    checked_key,
    when,
)

if TYPE_CHECKING:
    from bbq_plugin.live.store.changes import Changes, Columns
    from bbq_plugin.live.store.names import Names

DELETED = "taken back meanwhile, by a newer record or a newer full export"

_encode = msgspec.json.Encoder(order="sorted").encode


_INSERT = f"INSERT INTO comparison ({COLUMNS}) VALUES ({', '.join('?' * len(Row._fields))})"  # noqa: S608


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
        self.db = db
        self.names = names
        self._changes = changes
        self.log = log
        self.source = source
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
        if len(self._buffer) >= CHUNK:
            self.flush()

    def flush(self) -> None:
        """Write what was held back."""
        records, self._buffer = self._buffer, []
        if not records:
            return
        known = Known(self.db, records)
        for record in records:
            if isinstance(record, Skipped):
                self._skip(record, known)
            else:
                self._answer(record, known)
        self.names.write(self.db)
        self._carry_out(known)

    def finish(self) -> None:
        """Write the rest, and take out the pairs that the slates no longer have."""
        self.flush()
        for left in self._leftover.values():
            self.tally.n_retracted += len(left)
            self.delete(left)

    def put_all(self, rows: list[Row]) -> None:
        """Take rows whose keys may be there already."""
        for start in range(0, len(rows), CHUNK):
            some = rows[start : start + CHUNK]
            known = Known(self.db, some)
            for row in some:
                self._put(row, known)
            self._carry_out(known)

    def note_inserted(self, columns: Columns) -> None:
        """Count answers that are in the table by now."""
        n = columns["id"].size
        self._changes.extend(n, columns)
        self.tally.n_new += n
        self.tally.held.frombytes(columns["id"].tobytes())

    # -- one by one

    def _answer(self, record: Comparison, known: Known) -> None:
        checked_key(record.key)
        answer = coded(record, self.names.items, self.names.raters)
        if answer is None:
            self.log.skip(Skipped(record.key, AGAINST_ITSELF, record.left))
            if record.version is not None and record.slate is None:
                self._take_back(record.key, record, known)
            return
        if record.slate is None or record.slate != self.log.last_slate:
            self.log.n_answers += 1
        self.log.last_slate = record.slate
        slate = record.slate if record.slate != record.key else ""
        row = Row(
            0, record.key, 0, slate, answer["rater"] + 1 if answer["rater"] >= 0 else None,
            answer["left"] + 1, answer["right"] + 1, answer["outcome"], answer["weight"],
            record.at, record.time_s, record.version,
            _encode(record.tags).decode() if record.tags else None, self.source,
        )  # fmt: skip
        if self._is_gone(row, record.slate or record.key, known):
            self.log.skip(Skipped(record.key, DELETED, expected=True))
            self.tally.n_stale += 1
        else:
            self._put(row, known)

    def _put(self, row: Row, known: Known) -> None:
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
            if old.source != self.source:
                known.adopted.append(old.id)
            return
        known.remove(old)
        self._new(row._replace(twin=old.twin), known)
        self.tally.n_changed += 1

    def _is_same(self, old: Row, new: Row) -> bool:
        in_one_slate = new.slate is not None and old.slate == new.slate
        return self._by_key or in_one_slate or old.same_answer(new)

    def _take_slate(self, slate: str, new: float, known: Known) -> bool:
        """Whether the pairs of this slate count: those of one reading replace the older ones."""
        if slate not in self._slates:
            before = known.slate(slate)
            self._slates[slate] = new >= max((row.when for row in before), default=-inf)
            if self._slates[slate]:
                self._leftover[slate] = {row.id for row in before}
        return self._slates[slate]

    def _new(self, row: Row, known: Known) -> None:
        self.last_id += 1
        known.add(row._replace(id=self.last_id))
        self.tally.held.append(self.last_id)

    def _skip(self, record: Skipped, known: Known) -> None:
        self.log.skip(record)
        if record.key is not None:
            self._take_back(record.key, record, known)

    def _take_back(self, key: str, by: Record, known: Known) -> None:
        last = when(by)
        for row in [*known.rows(key), *known.slate(key)]:
            if row.at == by.at and row.when <= last:
                known.remove(row)
                self.tally.n_retracted += 1
        self.db.execute(
            "INSERT INTO retracted VALUES (?, ?, ?) "
            "ON CONFLICT DO UPDATE SET version = max(version, excluded.version)",
            (key, ANY_TIME if by.at is None else by.at, last),
        )
        known.note_gone(key, by.at, last)

    def _is_gone(self, row: Row, key: str, known: Known) -> bool:
        if row.version is None:
            return False
        if row.version < known.gone(key, row.at):
            return True
        return not (known.rows(key) or known.slate(key)) and any(
            key.startswith(prefix) and row.version <= as_of for prefix, as_of in self._wholes
        )

    # -- tables

    def _carry_out(self, known: Known) -> None:
        # First out, then in: what is replaced has the same key.
        self.delete(known.dead)
        insert_rows(self.db, self._changes, known.fresh.values())
        # Who said it last speaks for it.
        mine = [(self.source, id_) for id_ in known.adopted]
        self.db.executemany("UPDATE comparison SET source = ? WHERE id = ?", mine)
        self.db.executemany("INSERT OR IGNORE INTO adopted VALUES (?, ?)", mine)

    def delete(self, ids: Iterable[int]) -> None:
        """Take comparisons out of the table."""
        gone = list(ids)
        self.db.executemany("DELETE FROM comparison WHERE id = ?", [(i,) for i in gone])
        self._changes.removed.update(gone)


def insert_rows(db: sqlite3.Connection, changes: Changes, rows: Iterable[Row]) -> None:
    """Put rows into the table, and count them."""
    found = list(rows)
    db.executemany(_INSERT, found)
    for row in found:
        changes.add(
            (
                row.id, (row.rater or 0) - 1, row.left - 1, row.right - 1, row.outcome,
                0 if row.slate is None else slate_code(row.slate or row.key), row.weight,
                nan if row.time_s is None else row.time_s, nan if row.at is None else row.at,
                *_told(row.tags),
            )
        )  # fmt: skip


def _told(tags: str | None) -> tuple[int, int]:
    """What the tags of a row say of known questions and of the order shown, in codes."""
    # Most rows have no tags, or none of these two.
    if tags is None or (GOLD not in tags and SHOWN_ORDER not in tags):
        return 0, 0
    return told_by(msgspec.json.decode(tags))
