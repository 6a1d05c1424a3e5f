"""Answers as columns of codes, in memory and on disk, and the names that codes stand for.

The tags that answers may be clustered by are columns of codes too.
"""

from __future__ import annotations

import sqlite3
import threading
import zlib
from array import array
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from math import nan
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from bbq_plugin.data.dataset import GOLD_CODES, KEPT_CODES, RaterCodes, RawCodes, TagColumns
from bbq_plugin.data.records import (
    GOLD,
    LEAST_WEIGHT,
    MOST_WEIGHT,
    OUTCOMES,
    SHOWN_ORDER,
    is_subject,
)
from bbq_plugin.errors import DataError, StoreError
from bbq_plugin.store.database_file import DAMAGED

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Iterable, Mapping
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray


#: Columns of an answer in memory and their types. Codes count from 0; no rater is -1. `slate` is a
#: code of the name of the ranking or choice that a pair is of, 0 for none. `study` is last: the
#: chunks of older stores, which had one study, lack it.
KINDS: Mapping[str, str] = {
    "id": "q", "rater": "i", "left": "i", "right": "i",
    "outcome": "b", "slate": "i", "weight": "d", "time_s": "d",
    "at": "d", "gold": "b", "kept": "b", "study": "h",
}  # fmt: skip
_ROW_BYTES = sum(np.dtype(kind).itemsize for kind in KINDS.values())

ColumnArrays = dict[str, "NDArray[Any]"]


class Codebook:
    """Names of items and raters with their codes, the same in memory and in the tables.

    Codes count from 0 in order of first appearance; the id in the table is one more.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self.items = RawCodes("item")
        self.raters = RaterCodes("rater")
        self._written: dict[str, int] = {}
        for table, codes in (("item", self.items), ("rater", self.raters)):
            names = db.execute(f"SELECT id, name FROM {table} ORDER BY id")  # noqa: S608 (constants)
            for id_, name in names:
                if codes[name] != id_ - 1:
                    raise StoreError(
                        f"the {table}s of the store are not numbered in order; {DAMAGED}"
                    )
            self._written[table] = len(codes.codes.code)

    def mark(self) -> tuple[int, ...]:
        """How much is known now, for `back_to`."""
        both = (self.items, self.raters)
        sizes = [n for codes in both for n in (len(codes), len(codes.codes.code))]
        return (*sizes, *self._written.values())

    def back_to(self, mark: tuple[int, ...]) -> None:
        """Forget what was added since; dictionaries keep the order in which they were filled."""
        both = (self.items, self.items.codes.code, self.raters, self.raters.codes.code)
        for known, n in zip(both, mark, strict=False):
            while len(known) > n:
                known.popitem()
        self._written = dict(zip(self._written, mark[len(both) :], strict=True))

    def write(self, db: sqlite3.Connection) -> None:
        """Put new names into the tables."""
        for table, codes in (("item", self.items), ("rater", self.raters)):
            known, n = self._written[table], len(codes.codes.code)
            if n > known:
                new = islice(codes.codes.code.items(), known, None)
                db.executemany(
                    f"INSERT INTO {table} (id, name) VALUES (?, ?)",  # noqa: S608 (constants)
                    ((code + 1, name) for name, code in new),
                )
                self._written[table] = n


@dataclass(frozen=True, eq=False, slots=True)
class Change:
    """Answers that are new, in ascending order of id, and ids of those that are gone."""

    added: ColumnArrays
    removed: NDArray[np.int64]
    #: The studies of the removed, aligned.
    removed_study: NDArray[np.int16]
    #: The last id that was given away when it was done: the state of the store has this number.
    last_id: int = 0

    @property
    def n_added(self) -> int:
        """How many answers are new."""
        return int(self.added["id"].size)

    def __bool__(self) -> bool:
        return bool(self.n_added or self.removed.size)

    def of(self, study: int) -> Change:
        """The part of it that concerns one study."""
        gone = self.removed_study == study
        return Change(
            of_study(self.added, study), self.removed[gone], self.removed_study[gone], self.last_id
        )

    def growth(self) -> Counter[int]:
        """By how many comparisons each study has grown."""
        grown: Counter[int] = Counter()
        for sign, column in ((1, self.added["study"]), (-1, self.removed_study)):
            for study, n in zip(*np.unique(column, return_counts=True), strict=True):
                grown[int(study)] += sign * int(n)
        return grown


class ChangeBuilder:
    """Collects them row by row or many at once."""

    def __init__(self) -> None:
        self._columns = {name: array(kind) for name, kind in KINDS.items()}
        #: The study of each, by id.
        self.removed: dict[int, int] = {}

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

    def cut(self, n: int, removed: Mapping[int, int]) -> None:
        """Go back to the first `n` answers and to these removed ones."""
        for column in self._columns.values():
            del column[n:]
        self.removed = dict(removed)

    def change(self) -> Change:
        """Everything so far; what came and went meanwhile is in neither part."""
        columns = columns_of({name: column.tobytes() for name, column in self._columns.items()})
        removed = np.array(sorted(self.removed.items()), dtype=np.int64).reshape(-1, 2)
        return _net(columns, removed[:, 0], removed[:, 1].astype(np.int16))


def merged(changes: list[Change]) -> Change:
    """Several changes, in their order, as one; what came and went meanwhile is in neither part."""
    removed = np.concatenate([change.removed for change in changes])
    study = np.concatenate([change.removed_study for change in changes])
    order = np.argsort(removed)
    added = joined(change.added for change in changes)
    return _net(added, removed[order], study[order], changes[-1].last_id)


def _net(
    added: ColumnArrays,
    removed: NDArray[np.int64],
    study: NDArray[np.int16],
    last_id: int = 0,
) -> Change:
    """What stays of both, without what came and went meanwhile."""
    stays, before = ~np.isin(added["id"], removed), ~np.isin(removed, added["id"])
    kept = {name: column[stays] for name, column in added.items()}
    return Change(kept, removed[before], study[before], last_id)


def of_study(columns: ColumnArrays, study: int) -> ColumnArrays:
    """The answers of one study."""
    mine = columns["study"] == study
    if mine.all():
        return columns
    return {name: column[mine] for name, column in columns.items()}


_USUAL: Mapping[str, Any] = {
    "slate": 0, "weight": 1.0, "time_s": nan, "at": nan, "gold": 0, "kept": 0, "study": 1,
}  # fmt: skip


def columns_of(data: Mapping[str, bytes]) -> ColumnArrays:
    """Bytes of columns as arrays."""
    return {name: np.frombuffer(data[name], dtype=np.dtype(kind)) for name, kind in KINDS.items()}


def joined(parts: Iterable[ColumnArrays]) -> ColumnArrays:
    """Several pieces as one."""
    pieces = list(parts)
    empty = columns_of(dict.fromkeys(KINDS, b""))
    return {name: np.concatenate([empty[name], *(p[name] for p in pieces)]) for name in KINDS}


def usable(columns: ColumnArrays) -> tuple[ColumnArrays, list[int]]:
    """The answers that can be fitted, and the ids of the others.

    No answer is taken in with a weight out of bounds; earlier versions did so.
    """
    weight = columns["weight"]
    good = (weight >= LEAST_WEIGHT) & (weight <= MOST_WEIGHT)
    if good.all():
        return columns, []
    ids: list[int] = columns["id"][~good].tolist()
    return {name: column[good] for name, column in columns.items()}, ids


_NEVER = np.iinfo(np.int32).max
# Rows that are gone are kept until they are so many, and so large a share.
_MOST_GONE_ROWS = 100_000
_MOST_GONE = 0.5


@dataclass(frozen=True, eq=False, slots=True)
class ColumnsSnapshot:
    """The answers as they were at one moment, whatever has come since."""

    columns: ColumnArrays
    died: NDArray[np.int32]
    n: int
    version: int

    def alive(self) -> ColumnArrays:
        """Those that count."""
        stays = self.died[: self.n] > self.version
        if stays.all():
            # Rows are only ever added behind these: no copy is needed.
            return {name: column[: self.n] for name, column in self.columns.items()}
        return {name: column[: self.n][stays] for name, column in self.columns.items()}


class VersionedColumns:
    """Answers that grow at the end; one that is taken back stays, with the version it left in."""

    def __init__(self, columns: ColumnArrays) -> None:
        good, left_out = usable(columns)
        self._start(good)
        self._version = 0
        #: Ids of answers that the store has and no fit can use.
        self.left_out = set(left_out)

    def _start(self, columns: ColumnArrays) -> None:
        self.n = int(columns["id"].size)
        self._columns = dict(columns)
        self._died: NDArray[np.int32] = np.full(self.n, _NEVER, dtype=np.int32)
        self._n_dead = 0

    def apply(self, change: Change) -> tuple[ColumnArrays, ColumnArrays]:
        """Take a change over; the answers that came, and those that went, as they were."""
        self._version += 1
        added, left_out = usable(change.added)
        removed = change.removed
        if self.left_out:
            removed = removed[~np.isin(removed, list(self.left_out))]
            self.left_out.difference_update(change.removed.tolist())
        self.left_out.update(left_out)
        ids = self._columns["id"][: self.n]
        rows = np.searchsorted(ids, removed)
        if not np.array_equal(ids[rows[rows < self.n]], removed):
            raise DataError("a change takes back answers that are not here")
        self._died[rows] = self._version
        self._n_dead += rows.size
        gone = {name: column[rows] for name, column in self._columns.items()}
        self._append(added)
        if self._n_dead > max(_MOST_GONE_ROWS, _MOST_GONE * self.n):
            # Views keep the old arrays.
            self._start(self.snapshot().alive())
        return added, gone

    def _append(self, added: ColumnArrays) -> None:
        n = self.n + int(added["id"].size)
        if n > self._died.size:
            room = max(n, int(1.5 * self._died.size), 1024)
            # A new dictionary, because views have the old one; one column after the other, so that
            # without views no more than one of them is there twice.
            self._columns = dict(self._columns)
            for name in self._columns:
                self._columns[name] = _grown(self._columns[name], self.n, room)
            self._died = _grown(self._died, self.n, room)
        for name, column in self._columns.items():
            column[self.n : n] = added[name]
        self._died[self.n : n] = _NEVER
        self.n = n

    def snapshot(self) -> ColumnsSnapshot:
        """The answers as they are now."""
        return ColumnsSnapshot(self._columns, self._died, self.n, self._version)


def _grown(column: NDArray[Any], n: int, room: int) -> NDArray[Any]:
    out = np.empty(room, dtype=column.dtype)
    out[:n] = column[:n]
    return out


#: Rows after the last chunk are read one by one at a start, so a chunk is written for so many.
CHUNK_ROWS = 1 << 16
# With more dead rows than this share, all chunks are rewritten.
_MOST_DEAD = 0.25


def _code_of(tag: str, codes: Mapping[str, int]) -> str:
    cases = " ".join(f"WHEN '{value}' THEN {code}" for value, code in codes.items())
    return f"CASE json_extract(tags, '$.{tag}') {cases} ELSE 0 END"


_ROWS = (
    "SELECT id, coalesce(rater, 0) - 1, left - 1, right - 1, outcome, "  # noqa: S608 (constants)
    "CASE WHEN slate IS NULL THEN 0 ELSE slate_code(iif(slate = '', key, slate)) END, weight, "
    f"time_s, at, {_code_of(GOLD, GOLD_CODES)}, {_code_of(SHOWN_ORDER, KEPT_CODES)}, "
    "study FROM comparison WHERE id > ? AND id < ? ORDER BY id"
)

_COVERED = "SELECT coalesce(max(last_id), 0) FROM chunk"


def load(db: sqlite3.Connection, study: int | None = None) -> ColumnArrays:
    """All answers there are, or those of one study."""
    parts, last = [], 0
    for first, last_id, n, data, crc in db.execute(
        "SELECT first_id, last_id, n, data, crc FROM chunk ORDER BY first_id"
    ):
        if zlib.crc32(data) != crc:
            raise StoreError(
                f"the columns of comparisons {first} to {last_id} are damaged in the store; "
                "'bbq store vacuum' rewrites them from the rows"
            )
        parts.append(_unpacked(data, n))
        last = last_id
    gone = np.array(db.execute("SELECT id FROM removed ORDER BY id").fetchall(), np.int64).ravel()
    packed = joined(parts)
    if gone.size:
        stays = ~np.isin(packed["id"], gone)
        packed = {name: column[stays] for name, column in packed.items()}
    columns = joined([packed, rows_between(db, last)])
    _check_codes(db, columns)
    return columns if study is None else of_study(columns, study)


def _check_codes(db: sqlite3.Connection, columns: ColumnArrays) -> None:
    """Refuse codes of nothing: compiled code would follow them out of its arrays."""
    n_items, n_raters = (
        db.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()[0]  # noqa: S608 (constants)
        for table in ("item", "rater")
    )
    bounds = {
        "left": (0, n_items), "right": (0, n_items), "rater": (-1, n_raters),
        "outcome": (0, len(OUTCOMES)),
    }  # fmt: skip
    for name, (low, high) in bounds.items():
        column = columns[name]
        if column.size and not low <= column.min() <= column.max() < high:
            raise StoreError(f"the {name} of a comparison is not known in the store; {DAMAGED}")


def rows_between(db: sqlite3.Connection, after: int, before: int = 2**62) -> ColumnArrays:
    """The answers with ids in between, read one by one."""
    return _columns(db.execute(_ROWS, (after, before)).fetchall())


def _columns(rows: list[tuple[Any, ...]]) -> ColumnArrays:
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
    """Write all chunks again, from the rows."""
    db.execute("DELETE FROM chunk")
    db.execute("DELETE FROM removed")
    rows = db.execute(_ROWS, (0, 2**62))
    # Not all at once: ten million rows would be gigabytes of Python's numbers.
    while some := rows.fetchmany(CHUNK_ROWS):
        _write(db, _columns(some))


def _write(db: sqlite3.Connection, columns: ColumnArrays) -> None:
    ids = columns["id"]
    for start in range(0, ids.size, CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS)
        data = b"".join(columns[name][part].tobytes() for name in KINDS)
        db.execute(
            "INSERT INTO chunk VALUES (?, ?, ?, ?, ?)",
            (int(ids[part][0]), int(ids[part][-1]), ids[part].size, data, zlib.crc32(data)),
        )


def _unpacked(data: bytes, n: int) -> ColumnArrays:
    if len(data) < n * _ROW_BYTES:
        data += np.ones(n, dtype=np.dtype(KINDS["study"])).tobytes()
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


# Whether a store has such tags at all is seen by its first and its last answers with any.
_LOOKED_AT = 100
_ENDS = (
    "SELECT * FROM (SELECT tags FROM comparison WHERE tags IS NOT NULL ORDER BY id LIMIT ?) "
    "UNION ALL "
    "SELECT * FROM (SELECT tags FROM comparison WHERE tags IS NOT NULL ORDER BY id DESC LIMIT ?)"
)
_decode = msgspec.json.Decoder(dict[str, str]).decode


class StoredTags:
    """Tags that name what a question was about, and those ``named``; any thread may ask.

    An answer that changes gets a new id, so each look reads those alone that came since the last.
    """

    def __init__(
        self,
        opened: Callable[[], AbstractContextManager[sqlite3.Connection]],
        named: Collection[str] = (),
    ) -> None:
        self._opened, self._named = opened, frozenset(named)
        self._lock = threading.Lock()
        self._last, self._ids, self._columns = 0, array("q"), TagColumns()

    def of(self, ids: NDArray[np.int64]) -> dict[str, NDArray[np.int32]]:
        """By name, the codes of the answers with these ids, in ascending order; -1 for none."""
        with self._lock, self._opened() as db:
            self._follow(db)
            known = np.array(self._ids, dtype=np.int64)
            columns = self._columns.arrays(known.size)
        if not columns:
            return {}
        at = np.searchsorted(known, ids)
        there = at < known.size
        there[there] = known[at[there]] == ids[there]
        found: dict[str, NDArray[np.int32]] = {}
        for name, codes in columns.items():
            found[name] = np.full(ids.size, -1, dtype=np.int32)
            found[name][there] = codes[at[there]]
        return found

    def values(self) -> dict[str, tuple[str, ...]]:
        """By name, what the codes mean."""
        with self._lock:
            return self._columns.values()

    def _follow(self, db: sqlite3.Connection) -> None:
        ends = db.execute(_ENDS, (_LOOKED_AT, _LOOKED_AT))
        if not any(self._wanted(name) for (tags,) in ends for name in _decode(tags)):
            return
        since = "SELECT id, tags FROM comparison WHERE id > ? AND tags IS NOT NULL ORDER BY id"
        for id_, tags in db.execute(since, (self._last,)):
            own = {name: value for name, value in _decode(tags).items() if self._wanted(name)}
            self._last = id_
            if own:
                self._columns.append(len(self._ids), own)
                self._ids.append(id_)

    def _wanted(self, name: str) -> bool:
        return name in self._named or is_subject(name)
