"""Transactions, each stored as a whole or not at all; and one thread that commits for many."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import Counter
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf, nextafter
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from bbq_plugin.data.dataset import FileLog, SkipLog
from bbq_plugin.data.records import Batch, Comparison, FullExport, Note, Skipped
from bbq_plugin.errors import DataError, StoreError, UsageError
from bbq_plugin.store import coded_columns
from bbq_plugin.store.answer_upsert import (
    COLUMNS,
    ComparisonRow,
    Tally,
    Writer,
    add_batch,
    bury,
    checked_key,
    delete_rows,
    insert_rows,
    tags_text,
)
from bbq_plugin.store.coded_columns import ChangeBuilder
from bbq_plugin.store.sources import SourceEntry, entries, save_entry
from bbq_plugin.store.studies import MAIN, study_ids

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from bbq_plugin.data.records import Record
    from bbq_plugin.store.coded_columns import Change, Codebook

    Found = Record | Batch
    from collections.abc import Sequence

    from bbq_plugin.store.store import Store


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
    ) -> Tally:
        """Add answers that come from no file; their source counts them and has no ledger."""
        before = self.source(kind, name, study)
        before = before or SourceEntry(name, kind, at, adapter=adapter, study=study)
        source = before.id or self.save(before)
        log = SourceLog(name or kind, adapter or "", "", 0)
        tally = self.write(records, source, log, study=study, by_key=by_key, wholes=wholes)
        after = replace(
            before,
            at=at,
            n_rows=before.n_rows + log.n_answers + log.n_skipped,
            n_skipped=before.n_skipped + log.n_skipped,
            skipped=dict(Counter(before.skipped) + log.all_skipped.reasons),
            notes=tuple(dict.fromkeys((*before.notes, *log.notes))),
        )
        self.save(after)
        return tally

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


T = TypeVar("T")


# Requests that one transaction takes at most, so that the first of them need not wait for ever.
_MOST_AT_ONCE = 4096
# Callers who shared a transaction come back one by one, within this time; without it the first of
# them would have the next transaction for itself, and a transaction would hold half of them.
_GATHER_S = 0.0002


@dataclass(eq=False)
class Request(Generic[T]):
    """What a caller wants to have stored; `done` has the result once it is on the disk."""

    done: Future[T] = field(default_factory=Future, init=False)


R = TypeVar("R", bound=Request[Any])


class GroupCommit(Generic[R]):
    """A thread that stores what waits at the same moment by the same transaction.

    A commit is a wait for the disk, and it takes as long for a hundred answers as for one. While
    the thread waits, callers line up, and its next transaction takes all of them. No interrupt of
    a caller's thread reaches it in the middle of a transaction.

    `write` puts requests into a transaction, and gives their results in the same order.
    `on_commit` is told each change before the callers are; it must not fail. `closed` says to a
    caller who comes too late what to do.
    """

    def __init__(
        self,
        store: Store,
        write: Callable[[Transaction, Sequence[R]], Sequence[object]],
        *,
        on_commit: Callable[[Change], None],
        closed: str,
        name: str,
    ) -> None:
        self._store = store
        self._write = write
        self._on_commit = on_commit
        self._closed_reason = closed
        self._queue: SimpleQueue[R | None] = SimpleQueue()
        self._mutex = threading.Lock()
        self._closed = False
        self.n_commits = 0
        #: Started by the first request.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def submit(self, request: R) -> None:
        """Line up."""
        with self._mutex:
            if self._closed:
                raise UsageError(self._closed_reason)
            self._queue.put(request)
            if self._thread.ident is None:
                self._thread.start()

    def close(self) -> None:
        """Write what is lined up, and end."""
        with self._mutex:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        waiting: list[R | None] = []
        while None not in waiting:
            shared = len(waiting) > 1
            waiting = [self._queue.get()]
            if shared:
                time.sleep(_GATHER_S)
            try:
                while len(waiting) < _MOST_AT_ONCE:
                    waiting.append(self._queue.get_nowait())
            except Empty:
                pass
            # A caller who gave up before this moment has asked for nothing.
            self._commit(
                [r for r in waiting if r is not None and r.done.set_running_or_notify_cancel()]
            )

    def _commit(self, requests: list[R]) -> None:
        if not requests:
            return
        try:
            with self._store.transaction() as transaction:
                results = self._write(transaction, requests)
        except Exception as error:  # noqa: BLE001 (the callers raise it)
            if len(requests) > 1 and not isinstance(error, StoreError):
                # One that cannot be stored must not take the others with it.
                for request in requests:
                    self._commit([request])
            else:
                for request in requests:
                    request.done.set_exception(error)
            return
        self.n_commits += 1
        try:
            self._on_commit(transaction.change)
        except Exception as error:  # noqa: BLE001 (the callers raise it)
            for request in requests:
                request.done.set_exception(error)
            return
        for request, result in zip(requests, results, strict=True):
            request.done.set_result(result)
