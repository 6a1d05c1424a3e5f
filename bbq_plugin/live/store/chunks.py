"""Answers as columns on disk: a million of them are in memory again in a tenth of a second.

A chunk holds the comparisons of a range of ids as they were when it was written. Ids are never
used again and an answer that changes gets a new one, so a chunk is only ever wrong by what is
gone since, and those ids stand in `removed`.
"""

from __future__ import annotations

import sqlite3
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from bbq_plugin._answers import GOLD_CODES, KEPT_CODES
from bbq_plugin.comparisons import GOLD, SHOWN_ORDER
from bbq_plugin.errors import StoreError
from bbq_plugin.live.store.changes import KINDS, columns_of, joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bbq_plugin.live.store.changes import Change, Columns

#: Rows after the last chunk are read one by one at a start, so a chunk is written for so many.
CHUNK_ROWS = 1 << 16
# With more dead rows than this share, all chunks are written anew.
_MOST_DEAD = 0.25


def _code_of(tag: str, codes: Mapping[str, int]) -> str:
    cases = " ".join(f"WHEN '{value}' THEN {code}" for value, code in codes.items())
    return f"CASE json_extract(tags, '$.{tag}') {cases} ELSE 0 END"


_ROWS = (
    "SELECT id, coalesce(rater, 0) - 1, left - 1, right - 1, outcome, "  # noqa: S608 (constants)
    "CASE WHEN slate IS NULL THEN 0 ELSE slate_code(iif(slate = '', key, slate)) END, weight, "
    f"time_s, at, {_code_of(GOLD, GOLD_CODES)}, {_code_of(SHOWN_ORDER, KEPT_CODES)} "
    "FROM comparison WHERE id > ? AND id < ? ORDER BY id"
)

_COVERED = "SELECT coalesce(max(last_id), 0) FROM chunk"


def load(db: sqlite3.Connection) -> Columns:
    """All answers there are."""
    parts, last = [], 0
    for first, last_id, n, data, crc in db.execute(
        "SELECT first_id, last_id, n, data, crc FROM chunk ORDER BY first_id"
    ):
        if zlib.crc32(data) != crc:
            raise StoreError(
                f"the columns of comparisons {first} to {last_id} are damaged in the store; "
                "'bbq store vacuum' writes them anew from the rows"
            )
        parts.append(_unpacked(data, n))
        last = last_id
    gone = np.array(db.execute("SELECT id FROM removed ORDER BY id").fetchall(), np.int64).ravel()
    packed = joined(parts)
    if gone.size:
        stays = ~np.isin(packed["id"], gone)
        packed = {name: column[stays] for name, column in packed.items()}
    return joined([packed, rows_between(db, last)])


def rows_between(db: sqlite3.Connection, after: int, before: int = 2**62) -> Columns:
    """The answers with ids in between, read one by one."""
    return _columns(db.execute(_ROWS, (after, before)).fetchall())


def _columns(rows: list[tuple[Any, ...]]) -> Columns:
    columns: Iterable[tuple[Any, ...]] = zip(*rows, strict=True) if rows else ((),) * len(KINDS)
    return {
        # None, an unknown time, becomes NaN.
        name: np.array(column, dtype=np.dtype(kind))
        for (name, kind), column in zip(KINDS.items(), columns, strict=True)
    }


def write_due(db: sqlite3.Connection, change: Change, first_id: int) -> None:
    """Write the chunks that have become due; part of the transaction that made them so.

    `first_id` is the first id that the transaction gave away.
    """
    (covered,) = db.execute(_COVERED).fetchone()
    n_dead, n_packed = db.execute(
        "SELECT (SELECT count(*) FROM removed), (SELECT coalesce(sum(n), 0) FROM chunk)"
    ).fetchone()
    newest = int(change.added["id"][-1]) if change.n_added else 0
    if n_dead > max(CHUNK_ROWS, _MOST_DEAD * n_packed):
        rewrite(db)
    elif newest - covered >= CHUNK_ROWS:
        _write(db, joined([rows_between(db, covered, first_id), change.added]))


def rewrite(db: sqlite3.Connection) -> None:
    """All chunks anew, from the rows."""
    db.execute("DELETE FROM chunk")
    db.execute("DELETE FROM removed")
    rows = db.execute(_ROWS, (0, 2**62))
    # Not all at once: ten million rows would be gigabytes of Python's numbers.
    while some := rows.fetchmany(CHUNK_ROWS):
        _write(db, _columns(some))


def _write(db: sqlite3.Connection, columns: Columns) -> None:
    ids = columns["id"]
    for start in range(0, ids.size, CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS)
        data = b"".join(columns[name][part].tobytes() for name in KINDS)
        db.execute(
            "INSERT INTO chunk VALUES (?, ?, ?, ?, ?)",
            (int(ids[part][0]), int(ids[part][-1]), ids[part].size, data, zlib.crc32(data)),
        )


def _unpacked(data: bytes, n: int) -> Columns:
    pieces, at = {}, 0
    for name, kind in KINDS.items():
        size = np.dtype(kind).itemsize * n
        pieces[name] = data[at : at + size]
        at += size
    return columns_of(pieces)


def note_removed(db: sqlite3.Connection, ids: Iterable[int]) -> None:
    """Ids that chunks still hold and the store does not."""
    (covered,) = db.execute(_COVERED).fetchone()
    dead = [(i,) for i in ids if i <= covered]
    db.executemany("INSERT OR IGNORE INTO removed VALUES (?)", dead)
