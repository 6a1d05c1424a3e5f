"""How answers get into the store: by transactions, each stored as a whole or not at all.

First what is the same answer, and which record of it counts; then the transaction.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections import Counter
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf, nan, nextafter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from bbq_plugin.data.dataset import FileLog, SkipLog, as_text, coded, told_by
from bbq_plugin.data.records import (
    AGAINST_ITSELF,
    GOLD,
    NO_ANSWER,
    NO_WINNER,
    SHOWN_ORDER,
    Batch,
    Comparison,
    FullExport,
    Note,
    Skipped,
)
from bbq_plugin.errors import DataError
from bbq_plugin.store import coded_columns
from bbq_plugin.store.coded_columns import ChangeBuilder
from bbq_plugin.store.database_file import slate_code
from bbq_plugin.store.sources_and_status import SourceEntry, entries, save_entry
from bbq_plugin.store.studies import MAIN, study_ids
from bbq_plugin.text import brief

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from bbq_plugin.data.records import Record
    from bbq_plugin.store.coded_columns import Change, ChangeBuilder, Codebook, ColumnArrays

    Found = Record | Batch


AnswerRecord = Comparison | Skipped
DELETED = "taken back meanwhile, by a newer record or a newer full export"
_encode = msgspec.json.Encoder(order="sorted").encode

#: Stands in `retracted` for a time of creation that is not known.
ANY_TIME = -1e300

# As names of items and raters.
_LONGEST_KEY, _LONGEST_TAGS = 10_000, 100_000
# Keys that are looked up at once.
CHUNK = 4096


class ComparisonRow(NamedTuple):
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
    study: int

    @property
    def when(self) -> float:
        """How new it is."""
        return when(self)

    def same_answer(self, other: ComparisonRow) -> bool:
        """Whether both are records of one answer, the key being the same."""
        if self.version is not None and other.version is not None:
            return self.at == other.at
        return self[4:7] == other[4:7]

    def says_the_same(self, other: ComparisonRow) -> bool:
        """Whether nothing that counts differs."""
        return self[3:13] == other[3:13]


COLUMNS = ", ".join(ComparisonRow._fields)
_INSERT = f"INSERT INTO comparison ({COLUMNS}) VALUES ({', '.join('?' * 15)})"  # noqa: S608

_INSERT_NEW = (
    "INSERT OR IGNORE INTO comparison (id, key, rater, left, right, outcome, at, source, study) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def when(record: ComparisonRow | AnswerRecord) -> float:
    """How new a record is, by its version, else by its time."""
    if record.version is not None:
        return record.version
    return -inf if record.at is None else record.at


class Revision:
    """What a study holds under the keys of some records, and what they make of it."""

    def __init__(
        self, db: sqlite3.Connection, records: Iterable[AnswerRecord | ComparisonRow], study: int
    ) -> None:
        keys, slates = set[str](), set[str]()
        for record in records:
            if record.key is None:
                continue
            if isinstance(record, Skipped):
                slates.add(record.key)
            elif record.slate and record.slate != record.key:
                slates.add(record.slate)
            keys.add(record.key)
        self._rows: dict[str, dict[int, ComparisonRow]] = {key: {} for key in keys}
        self._slates: dict[str, dict[int, ComparisonRow]] = {slate: {} for slate in slates}
        self.fresh: dict[int, ComparisonRow] = {}
        self.dead: list[int] = []
        self.adopted: list[int] = []
        select = f"SELECT {COLUMNS} FROM comparison WHERE study = ? AND"  # noqa: S608
        for column, wanted in (("key", keys), ("slate > '' AND slate", slates)):
            for found in among(db, f"{select} {column}", wanted, study):
                self._file(ComparisonRow(*found))
        select = "SELECT key, at, version FROM retracted WHERE study = ? AND key"
        gone = among(db, select, keys | slates, study)
        self._gone: dict[tuple[str, float], float] = {(key, at): v for key, at, v in gone}

    def rows(self, key: str) -> list[ComparisonRow]:
        """Those under a key."""
        return list(self._rows.get(key, {}).values())

    def slate(self, slate: str) -> list[ComparisonRow]:
        """The pairs of a slate."""
        return list(self._slates.get(slate, {}).values())

    def _file(self, row: ComparisonRow) -> None:
        self._rows.setdefault(row.key, {})[row.id] = row
        if row.slate:
            self._slates.setdefault(row.slate, {})[row.id] = row

    def add(self, row: ComparisonRow) -> None:
        """One that is to be inserted."""
        self.fresh[row.id] = row
        self._file(row)

    def remove(self, row: ComparisonRow) -> None:
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


def among(
    db: sqlite3.Connection, select: str, wanted: set[str], *values: Any
) -> list[tuple[Any, ...]]:
    """The rows whose last named column is one of these; `values` are for the statement's others."""
    keys, found = list(wanted), []
    for start in range(0, len(keys), CHUNK):
        some = keys[start : start + CHUNK]
        # Not by a list in JSON: that ends at the first NUL of a text.
        sql = f"{select} IN ({', '.join('?' * len(some))})"
        found += db.execute(sql, [*values, *some]).fetchall()
    return found


def checked_key(key: object, what: str = "key") -> str:
    """A key that a caller gave."""
    if not isinstance(key, str) or not key:
        raise DataError(f"{what} is {brief(key)}; expected text that names one answer")
    if len(key) > _LONGEST_KEY:
        raise DataError(
            f"{what} has {len(key):,} characters ({key[:40]!r}…); a {what} has at most "
            f"{_LONGEST_KEY:,}: give an identifier, not the content"
        )
    return key


def tags_text(tags: Mapping[str, str] | None) -> str | None:
    """Tags as the table has them."""
    text = _encode(tags).decode() if tags else None
    if text is not None and len(text) > _LONGEST_TAGS:
        raise DataError(
            f"the tags have {len(text):,} characters ({text[:40]!r}…); all tags of an answer have "
            f"at most {_LONGEST_TAGS:,}: give short values, not the content"
        )
    return text


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

    def include(self, other: Tally) -> None:
        """Count what became of further records, which are of another study or source."""
        for name in ("n_new", "n_changed", "n_same", "n_stale", "n_retracted"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Writer:
    """Puts the records of one source into the tables, inside the caller's transaction."""

    def __init__(
        self,
        db: sqlite3.Connection,
        names: Codebook,
        changes: ChangeBuilder,
        log: FileLog,
        source: int,
        last_id: int,
        study: int = 1,
        *,
        by_key: bool = False,
        current: bool = False,
    ) -> None:
        self.study = study
        self.db = db
        self.names = names
        self._changes = changes
        self.log = log
        self.source = source
        self.last_id = last_id
        self._by_key, self._current = by_key, current
        self._buffer: list[AnswerRecord] = []
        self._slates: dict[str, bool] = {}
        self._leftover: dict[str, set[int]] = {}
        covered = "SELECT prefix, as_of FROM whole WHERE study = ?"
        self._wholes = db.execute(covered, (study,)).fetchall()
        self.tally = Tally()

    # -- rows in

    def add(self, record: AnswerRecord) -> None:
        """Take one record."""
        self._buffer.append(record)
        if len(self._buffer) >= CHUNK:
            self.flush()

    def flush(self) -> None:
        """Write what was held back."""
        records, self._buffer = self._buffer, []
        if not records:
            return
        known = Revision(self.db, records, self.study)
        for record in records:
            if not isinstance(record, Skipped):
                self._answer(record, known)
                continue
            self.log.skip(record)
            if record.key is not None:
                self._take_back(record.key, record, known)
        self.names.write(self.db)
        self._apply(known)

    def finish(self) -> None:
        """Write the rest, and take out the pairs that the slates no longer have."""
        self.flush()
        for left in self._leftover.values():
            self.tally.n_retracted += len(left)
            self.delete(left)

    def put_all(self, rows: list[ComparisonRow]) -> None:
        """Take rows whose keys may be there already."""
        for start in range(0, len(rows), CHUNK):
            some = rows[start : start + CHUNK]
            known = Revision(self.db, some, self.study)
            for row in some:
                self._put(row, known)
            self._apply(known)

    def note_inserted(self, columns: ColumnArrays) -> None:
        """Count answers that are in the table by now."""
        n = columns["id"].size
        self._changes.extend(n, columns)
        self.tally.n_new += n
        self.tally.held.frombytes(columns["id"].tobytes())

    # -- one by one

    def _answer(self, record: Comparison, known: Revision) -> None:
        checked_key(record.key)
        try:
            answer = coded(record, self.names.items, self.names.raters)
        except DataError as error:
            raise DataError(f"answer {brief(record.key)}: {error}") from None
        if answer is None:
            self.log.skip(Skipped(record.key, AGAINST_ITSELF, record.left))
            if record.version is not None and record.slate is None:
                self._take_back(record.key, record, known)
            return
        if record.slate is None or record.slate != self.log.last_slate:
            self.log.n_answers += 1
        self.log.last_slate = record.slate
        slate = record.slate if record.slate != record.key else ""
        row = ComparisonRow(
            0, record.key, 0, slate, answer["rater"] + 1 if answer["rater"] >= 0 else None,
            answer["left"] + 1, answer["right"] + 1, answer["outcome"], answer["weight"],
            record.at, record.time_s, record.version,
            tags_text(record.tags), self.source, self.study,
        )  # fmt: skip
        if self._is_gone(row, record.slate or record.key, known):
            self.log.skip(Skipped(record.key, DELETED, expected=True))
            self.tally.n_stale += 1
        else:
            self._put(row, known)

    def _put(self, row: ComparisonRow, known: Revision) -> None:
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
        if old.says_the_same(row) or (row.when < old.when and not self._current):
            self.tally.n_same += row.when >= old.when
            self.tally.n_stale += row.when < old.when
            self.tally.held.append(old.id)
            if old.source != self.source:
                known.adopted.append(old.id)
            return
        known.remove(old)
        self._new(row._replace(twin=old.twin), known)
        self.tally.n_changed += 1

    def _is_same(self, old: ComparisonRow, new: ComparisonRow) -> bool:
        in_one_slate = new.slate is not None and old.slate == new.slate
        return self._by_key or in_one_slate or old.same_answer(new)

    def _take_slate(self, slate: str, new: float, known: Revision) -> bool:
        """Whether the pairs of this slate count: those of one reading replace the older ones."""
        if slate not in self._slates:
            before = known.slate(slate)
            newest = max((row.when for row in before), default=-inf)
            self._slates[slate] = self._current or new >= newest
            if self._slates[slate]:
                self._leftover[slate] = {row.id for row in before}
        return self._slates[slate]

    def _new(self, row: ComparisonRow, known: Revision) -> None:
        self.last_id += 1
        known.add(row._replace(id=self.last_id))
        self.tally.held.append(self.last_id)

    def _take_back(self, key: str, by: AnswerRecord, known: Revision) -> None:
        last = when(by)
        for row in [*known.rows(key), *known.slate(key)]:
            if row.at == by.at and row.when <= last:
                known.remove(row)
                self.tally.n_retracted += 1
        bury(self.db, self.study, key, last, by.at)
        known.note_gone(key, by.at, last)

    def _is_gone(self, row: ComparisonRow, key: str, known: Revision) -> bool:
        if row.version is None:
            return False
        if row.version < known.gone(key, row.at):
            return True
        return not (known.rows(key) or known.slate(key)) and any(
            key.startswith(prefix) and row.version <= as_of for prefix, as_of in self._wholes
        )

    # -- tables

    def _apply(self, known: Revision) -> None:
        # First out, then in: what is replaced has the same key.
        self.delete(known.dead)
        insert_rows(self.db, self._changes, known.fresh.values())
        # Who said it last speaks for it.
        mine = [(self.source, id_) for id_ in known.adopted]
        self.db.executemany("UPDATE comparison SET source = ? WHERE id = ?", mine)
        self.db.executemany("INSERT OR IGNORE INTO adopted VALUES (?, ?)", mine)

    def delete(self, ids: Iterable[int]) -> None:
        """Take comparisons out of the table."""
        delete_rows(self.db, self._changes, list(ids))


def bury(
    db: sqlite3.Connection, study: int, key: str, version: float, at: float | None = None
) -> None:
    """Keep records of an answer out that are older than this; `at`: only of the one made then."""
    db.execute(
        "INSERT INTO retracted VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET version = max(version, excluded.version)",
        (study, key, ANY_TIME if at is None else at, version),
    )


def delete_rows(db: sqlite3.Connection, changes: ChangeBuilder, ids: list[int]) -> None:
    """Take rows out of the table, and note them."""
    for id_ in ids:
        gone = db.execute("DELETE FROM comparison WHERE id = ? RETURNING study", (id_,)).fetchone()
        if gone is not None:
            changes.removed[id_] = gone[0]


def insert_rows(
    db: sqlite3.Connection, changes: ChangeBuilder, rows: Iterable[ComparisonRow]
) -> None:
    """Put rows into the table, and note them."""
    found = list(rows)
    db.executemany(_INSERT, found)
    for row in found:
        changes.add(
            (
                row.id, (row.rater or 0) - 1, row.left - 1, row.right - 1, row.outcome,
                0 if row.slate is None else slate_code(row.slate or row.key), row.weight,
                nan if row.time_s is None else row.time_s, nan if row.at is None else row.at,
                *_told(row.tags), row.study,
            )
        )  # fmt: skip


def _told(tags: str | None) -> tuple[int, int]:
    """What the tags of a row say of known questions and of the order shown, in codes."""
    # Most rows have no tags, or none of these two.
    if tags is None or (GOLD not in tags and SHOWN_ORDER not in tags):
        return 0, 0
    return told_by(msgspec.json.decode(tags))


@dataclass(frozen=True, eq=False, slots=True)
class CodedBatch:
    """The answers of a batch in codes."""

    #: rater, left, right and outcome, a row each
    codes: NDArray[np.int32]
    keys: list[str]
    at: list[float | None]
    source: int
    study: int

    def __len__(self) -> int:
        return len(self.keys)

    def chosen(self, mask: NDArray[np.bool_]) -> CodedBatch:
        """Some of them."""
        if mask.all():
            return self
        rows = np.flatnonzero(mask).tolist()
        keys, at = [self.keys[i] for i in rows], [self.at[i] for i in rows]
        return CodedBatch(self.codes[:, rows], keys, at, self.source, self.study)

    def rows(self) -> list[ComparisonRow]:
        """They as rows of the table, without ids."""
        return [
            ComparisonRow(0, key, 0, None, rater + 1 if rater >= 0 else None, left + 1, right + 1,
                outcome, 1.0, at, None, None, None, self.source, self.study)
            for (rater, left, right, outcome), key, at in zip(
                self.codes.T.tolist(), self.keys, self.at, strict=True
            )
        ]  # fmt: skip


def add_batch(writer: Writer, batch: Batch) -> None:
    """Take a batch; each answer in it has a key."""
    writer.flush()
    codes = _codes(writer, batch)
    if codes is None:
        for record in batch.records() if batch.records else ():
            if isinstance(record, (Comparison, Skipped)):
                writer.add(record)
        writer.flush()
        return
    _, left, right, outcome = codes
    good = (left != right) & (outcome != NO_ANSWER)
    for i in np.flatnonzero(~good).tolist():
        writer.log.skip(_skipped(writer.log.name, batch, i))
    keys = list(map(as_text, batch.keys or ()))
    if keys:
        checked_key(max(keys, key=len))
    times = _times(batch.at, len(keys))
    answers = CodedBatch(codes, keys, times, writer.source, writer.study).chosen(good)
    writer.names.write(writer.db)
    writer.log.n_answers += len(answers)
    shared = _shared(writer, answers.keys)
    first = np.array([key not in shared for key in answers.keys], dtype=np.bool_)
    writer.put_all(_insert(writer, answers.chosen(first)).rows())
    writer.put_all(answers.chosen(~first).rows())


def _codes(writer: Writer, batch: Batch) -> NDArray[np.int32] | None:
    """Rater, left, right and outcome; None where the rows have to be looked at one by one."""
    n, names = len(batch.lines), writer.names
    try:
        left, right = names.items.of_column(batch.left, n), names.items.of_column(batch.right, n)
        rater = names.raters.of_column(batch.rater, n)
    except DataError:
        if batch.records is None:
            raise
        return None
    if batch.records and any(word in names.items for word in batch.reserved):
        return None
    outcome = np.frombuffer(batch.outcome, dtype=np.uint8).astype(np.int32)
    return np.stack((rater, left, right, outcome))


def _insert(writer: Writer, answers: CodedBatch) -> CodedBatch:
    """Insert those whose key is new; the others are left."""
    n = len(answers)
    first = writer.last_id + 1
    writer.last_id += n
    ids = np.arange(first, first + n)
    rater, left, right, outcome = answers.codes
    columns = (
        ids.tolist(), answers.keys, [code + 1 if code >= 0 else None for code in rater.tolist()],
        (left + 1).tolist(), (right + 1).tolist(), outcome.tolist(), answers.at,
        [answers.source] * n, [answers.study] * n,
    )  # fmt: skip
    inserted = writer.db.executemany(_INSERT_NEW, zip(*columns, strict=True)).rowcount if n else 0
    fresh: NDArray[np.bool_] = np.ones(n, dtype=np.bool_)
    if inserted != n:
        found = writer.db.execute("SELECT id FROM comparison WHERE id >= ?", (first,)).fetchall()
        fresh = np.isin(ids, np.array(found, dtype=np.int64).ravel())
    told = {"id": ids, "rater": rater, "left": left, "right": right,
            "outcome": outcome.astype(np.int8),
            "study": np.full(n, answers.study, np.int16)}  # fmt: skip
    if any(moment is not None for moment in answers.at):
        # None, an unknown time, becomes NaN.
        told["at"] = np.array(answers.at, dtype=np.float64)
    writer.note_inserted({name: column[fresh] for name, column in told.items()})
    return answers.chosen(~fresh)


def _shared(writer: Writer, keys: list[str]) -> set[str]:
    """Those of the keys under which the store has answers of several people or pairs."""
    # By name, because SQLite would rather go through all keys than use an index of a part.
    twins = "FROM comparison INDEXED BY comparison_twin WHERE twin > 0"
    if not writer.db.execute(f"SELECT 1 {twins} LIMIT 1").fetchone():
        return set()
    select = f"SELECT key {twins} AND study = ? AND key"
    return {key for (key,) in among(writer.db, select, set(keys), writer.study)}


def _times(at: Sequence[float | None] | None, n: int) -> list[float | None]:
    """Times as numbers that fit into the table, whatever a file has."""
    if at is None:
        return [None] * n
    if None in at:
        return [None if value is None else float(value) for value in at]
    found: list[float | None] = np.array(at, dtype=np.float64).tolist()
    return found


def _skipped(name: str, batch: Batch, i: int) -> Skipped:
    lines: Sequence[Any] = batch.lines
    where = f"{name}:{lines[i]}"
    if batch.left[i] == batch.right[i]:
        return Skipped(where, AGAINST_ITSELF, str(batch.left[i]))
    return Skipped(where, NO_WINNER)


@dataclass
class SourceLog(FileLog):
    """What happened in one reading of a source, with all reasons counted."""

    strict: bool = False
    all_skipped: SkipLog = field(default_factory=SkipLog)
    notes: dict[str, None] = field(default_factory=dict)

    def skip(self, record: Skipped, *, strict: bool = False) -> None:
        """Count a row that was left out, or refuse it."""
        self.all_skipped.add(record)
        super().skip(record, strict=strict or self.strict)


def _counted(entry: SourceEntry, rows: Mapping[str, int]) -> SourceEntry:
    """A source with these rows added to what it has counted."""
    skipped = Counter(entry.skipped)
    skipped.update({reason: n for reason, n in rows.items() if reason})
    skipped = +skipped
    n_answers = entry.n_rows - entry.n_skipped + rows.get("", 0)
    n_skipped = skipped.total()
    return replace(entry, n_rows=n_answers + n_skipped, n_skipped=n_skipped, skipped=dict(skipped))


class Transaction:
    """Adds and takes back answers; made by `Store.transaction`."""

    def __init__(self, db: sqlite3.Connection, names: Codebook) -> None:
        self.db = db
        self.names = names
        self.changes = ChangeBuilder()
        #: What is true only once all of it is stored.
        self.after_commit: list[Callable[[], None]] = []
        (self.last_id,) = db.execute("SELECT value FROM counter WHERE name = 'last_id'").fetchone()
        self._first_id = self.last_id + 1
        self._result: Change | None = None

    # -- sources

    def source(self, kind: str, name: str, study: int = MAIN) -> SourceEntry | None:
        """A source of a study by its name."""
        values = (study, kind, name)
        found = entries(self.db, "WHERE study = ? AND kind = ? AND name = ?", values)
        return found[0] if found else None

    def save(self, entry: SourceEntry) -> int:
        """Write a source as it is now."""
        return save_entry(self.db, entry)

    def same_content(
        self, name: str, sha256: str, size: int, study: int = MAIN
    ) -> SourceEntry | None:
        """Another file that was read with this content, or has only grown since."""
        found = entries(
            self.db,
            "WHERE study = ? AND kind = 'file' AND status != 'copy' AND name != ? AND id IN ("
            "SELECT source FROM ledger l WHERE sha256 = ? AND offset = ? AND NOT EXISTS ("
            "SELECT 1 FROM ledger m WHERE m.source = l.source AND m.id > l.id AND m.start = 0 "
            "AND m.status != 'refused')) LIMIT 1",
            (study, name, sha256, size),
        )
        return found[0] if found else None

    def give_to_copy(self, file: SourceEntry) -> bool:
        """Let a copy of a file have its name and its answers; whether there is one."""
        copies = entries(
            self.db,
            "WHERE study = ? AND kind = 'file' AND status = 'copy' AND sha256 = ? AND offset = ? "
            "LIMIT 1",
            (file.study, file.sha256, file.offset),
        )
        for copy in copies:
            self.db.execute("DELETE FROM ledger WHERE source = ?", (copy.id,))
            self.db.execute("DELETE FROM source WHERE id = ?", (copy.id,))
            self.db.execute("UPDATE source SET name = ? WHERE id = ?", (copy.name, file.id))
        return bool(copies)

    def record(
        self,
        source: int,
        entry: SourceEntry,
        start: int,
        first_id: int,
        tally: Tally,
        n_rows: int = 0,
        n_skipped: int = 0,
    ) -> None:
        """Put one reading into the ledger."""
        self.db.execute(
            "INSERT INTO ledger (source, status, reason, sha256, start, offset, first_id, last_id, "
            "n_rows, n_new, n_changed, n_retracted, n_skipped, at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                source, entry.status, entry.reason, entry.sha256, start, entry.offset, first_id,
                self.last_id, n_rows, tally.n_new, tally.n_changed, tally.n_retracted,
                n_skipped, entry.at,
            ),
        )  # fmt: skip

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """A part that may fail on its own: an error undoes it and nothing else."""
        n, removed = len(self.changes), dict(self.changes.removed)
        known, n_after = self.names.mark(), len(self.after_commit)
        self.db.execute("SAVEPOINT attempt")
        try:
            yield
        except BaseException:
            # On a full disk SQLite may have undone the whole transaction already.
            if self.db.in_transaction:
                self.db.execute("ROLLBACK TO attempt")
                self.db.execute("RELEASE attempt")
            self.changes.cut(n, removed)
            self.names.back_to(known)
            del self.after_commit[n_after:]
            raise
        self.db.execute("RELEASE attempt")

    # -- answers

    def add(
        self,
        records: Iterable[Found],
        kind: str,
        name: str,
        at: float,
        *,
        study: int = MAIN,
        by_key: bool = True,
        adapter: str | None = None,
        wholes: bool = True,
        counted: bool = True,
    ) -> Tally:
        """Add answers that come from no file; their source has no ledger.

        It counts the rows, unless the caller does (`recount`).
        """
        before = self.source(kind, name, study)
        before = before or SourceEntry(name, kind, at, adapter=adapter, study=study)
        source = before.id or self.save(before)
        log = SourceLog(name or kind, adapter or "", "", 0)
        tally = self.write(records, source, log, study=study, by_key=by_key, wholes=wholes)
        after = replace(before, at=at, notes=tuple(dict.fromkeys((*before.notes, *log.notes))))
        if counted:
            after = _counted(after, Counter({"": log.n_answers}) + log.all_skipped.reasons)
        self.save(after)
        return tally

    def recount(
        self, kind: str, name: str, study: int, rows: Mapping[str, int], *, anew: bool = False
    ) -> None:
        """Add rows, as `row_counts` has them, to what a source has counted; below 0: take away.

        `anew`: in place of it.
        """
        found = self.source(kind, name, study)
        if found is not None:
            none = replace(found, n_rows=0, n_skipped=0, skipped={})
            self.save(_counted(none if anew else found, rows))

    def write(
        self,
        records: Iterable[Found],
        source: int,
        log: SourceLog,
        *,
        study: int = MAIN,
        by_key: bool = False,
        current: bool = False,
        wholes: bool = True,
    ) -> Tally:
        """Put the records of one source into a study.

        `by_key`: a key names one answer, not one of each rater. `current`: what comes counts, even
        if it names an earlier time than what is there. `wholes`: take back what a full export no
        longer holds.
        """
        covered: list[FullExport] = []
        writer = Writer(
            self.db, self.names, self.changes, log, source, self.last_id, study,
            by_key=by_key, current=current,
        )  # fmt: skip
        for record in records:
            if isinstance(record, Batch):
                add_batch(writer, record)
            elif isinstance(record, (Comparison, Skipped)):
                writer.add(record)
            elif isinstance(record, Note):
                log.notes[record.text] = None
            elif isinstance(record, FullExport):
                covered.append(record)
            else:
                raise DataError(f"is {record!r}; expected a Comparison")
        writer.finish()
        self.last_id = writer.last_id
        for whole in covered if wholes else ():
            self._cover(whole, writer, source)
        return writer.tally

    def _cover(self, whole: FullExport, writer: Writer, source: int) -> None:
        """Take back what a full export, if it is the newest, does not hold."""
        newer = self.db.execute(
            "SELECT 1 FROM whole WHERE study = ? AND prefix = ? AND as_of > ?",
            (writer.study, whole.prefix, whole.as_of),
        ).fetchone()
        if newer:
            return
        # A record that is newer than the export may have come by another way.
        end = whole.prefix[:-1] + chr(ord(whole.prefix[-1]) + 1)
        found = self.db.execute(
            "SELECT id FROM comparison WHERE study = ? AND key >= ? AND key < ? "
            "AND (version IS NULL OR version <= ?)",
            (writer.study, whole.prefix, end, whole.as_of),
        )
        gone = _others([id_ for (id_,) in found], writer.tally.held)
        writer.delete(gone)
        writer.tally.n_retracted += len(gone)
        self.db.execute(
            "INSERT OR REPLACE INTO whole VALUES (?, ?, ?, ?)",
            (writer.study, whole.prefix, whole.as_of, source),
        )

    def retract_unheld(self, source: int, held: array[int]) -> int:
        """Take back what came from this source before and is no longer in it."""
        # A cross join keeps its order: the readings of a source are few.
        before = self.db.execute(
            "SELECT c.id FROM ledger l CROSS JOIN comparison c "
            "ON c.id BETWEEN l.first_id AND l.last_id WHERE l.source = :source "
            "AND c.source = :source UNION "
            "SELECT c.id FROM adopted a CROSS JOIN comparison c ON c.id = a.id "
            "WHERE a.source = :source AND c.source = :source",
            {"source": source},
        )
        gone = _others([id_ for (id_,) in before], held)
        delete_rows(self.db, self.changes, gone)
        return len(gone)

    def retract_rows(self, keys: Iterable[str], held: array[int], study: int) -> int:
        """Take back what rows of a table said before and no longer say; how many comparisons.

        Answers of a row have its key, or one that begins with it and "/".
        """
        before: list[int] = []
        for key in keys:
            found = self.db.execute(
                "SELECT id FROM comparison WHERE study = ? AND key = ? UNION ALL "
                "SELECT id FROM comparison WHERE study = ? AND key >= ? AND key < ?",
                (study, key, study, f"{key}/", f"{key}0"),
            )
            before += [id_ for (id_,) in found]
        gone = _others(before, held)
        delete_rows(self.db, self.changes, gone)
        return len(gone)

    def _studies(self, study: int | None) -> list[int]:
        """This one, or without one all."""
        return study_ids(self.db) if study is None else [study]

    def retract(
        self,
        keys: Iterable[str],
        study: int | None = MAIN,
        *,
        for_good: bool = False,
        as_of: float | None = None,
    ) -> tuple[int, list[str]]:
        """Take back answers by key; how many comparisons went, and which keys were not there.

        Without a study in all of them: an annotation may answer several questions.
        `for_good`: records with a version that come under these keys by a slower way stay out.
        `as_of`: only what is no newer than this, and only such records stay out.
        """
        gone, unknown = [], []
        newest, studies = inf if as_of is None else as_of, self._studies(study)
        for key in keys:
            found = [pair for one in studies for pair in self._versions(key, one)]
            gone += [id_ for id_, version in found if version <= newest]
            if not found:
                unknown.append(key)
            for one in studies if for_good or as_of is not None else ():
                bury(self.db, one, key, newest)
        delete_rows(self.db, self.changes, gone)
        return len(gone), unknown

    def retract_known(self, keys: Iterable[str], last_id: int) -> tuple[int, list[str]]:
        """Take back answers that came no later than this id; how many went, and which keys did not.

        In all studies.
        The same records stay out when they come again. Newer ones do not.
        """
        gone, later, studies = [], [], self._studies(None)
        for key in keys:
            found = [pair for one in studies for pair in self._versions(key, one)]
            if any(id_ > last_id for id_, _ in found):
                later.append(key)
            elif found:
                gone += [id_ for id_, _ in found]
                # Less than a microsecond, the smallest step of a version, after the newest.
                newest = nextafter(max(version for _, version in found), inf)
                for one in studies:
                    bury(self.db, one, key, newest)
        delete_rows(self.db, self.changes, gone)
        return len(gone), later

    def newest(self, key: str, study: int = MAIN) -> float | None:
        """The version, or without one the time, of what counts under a key; None for nothing."""
        newest: float | None
        (newest,) = self.db.execute(
            "SELECT max(coalesce(version, at)) FROM comparison WHERE study = ? AND key = ?",
            (study, key),
        ).fetchone()
        return newest

    def readmit(self, versions: Iterable[tuple[str, float]], study: int = MAIN) -> None:
        """Let answers count again that were taken back, each by its key up to this version."""
        self.db.executemany(
            f"DELETE FROM retracted WHERE study = {study:d} AND key = ? AND version <= ?",  # noqa: S608 (a number)
            versions,
        )

    def _versions(self, key: str, study: int) -> list[tuple[int, float]]:
        """Ids and versions of what counts under a key."""
        values = (study, checked_key(key))
        return self.db.execute(
            "SELECT id, coalesce(version, 0) FROM comparison WHERE study = ? AND key = ? UNION "
            "SELECT id, coalesce(version, 0) FROM comparison "
            "WHERE study = ? AND slate > '' AND slate = ?",
            values + values,
        ).fetchall()

    def retag(self, tags: Mapping[int, Mapping[str, str] | None]) -> int:
        """Give comparisons other tags, by id; how many. Their sources go on speaking for them."""
        rows = []
        for id_, own in tags.items():
            found = self.db.execute(f"SELECT {COLUMNS} FROM comparison WHERE id = ?", (id_,))  # noqa: S608
            self.last_id += 1
            row = ComparisonRow(*found.fetchone())
            rows.append(row._replace(id=self.last_id, tags=tags_text(own)))
        delete_rows(self.db, self.changes, list(tags))
        insert_rows(self.db, self.changes, rows)
        # The ledger knows a source's comparisons by the ids of its readings, and these are later.
        self.db.executemany(
            "INSERT OR IGNORE INTO adopted VALUES (?, ?)", [(row.source, row.id) for row in rows]
        )
        return len(rows)

    # -- the end

    def finish(self) -> Change:
        """The last statements before the commit."""
        change = self.changes.change()
        if change.removed.size:
            # Taking back gives no id away; but another state has another number.
            self.last_id += 1
        change = replace(change, last_id=self.last_id)
        coded_columns.note_removed(self.db, change.removed.tolist())
        coded_columns.write_due(self.db, change, self._first_id)
        n_ids = self.last_id - self._first_id + 1
        self.db.execute("UPDATE counter SET value = value + ? WHERE name = 'last_id'", (n_ids,))
        self.db.executemany(
            "UPDATE study SET n_comparisons = n_comparisons + ? WHERE id = ?",
            [(n, study) for study, n in change.growth().items()],
        )
        self._result = change
        return change

    @property
    def change(self) -> Change:
        """What was done, once it is."""
        if self._result is None:
            raise DataError("the transaction is not finished")
        return self._result


def _others(ids: list[int], held: array[int]) -> list[int]:
    """Those that are not held."""
    found = np.array(ids, dtype=np.int64)
    others: list[int] = found[~np.isin(found, np.frombuffer(held, dtype=np.int64))].tolist()
    return others
