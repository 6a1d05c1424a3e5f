"""One store: opened by one writer or any number of readers, changed by whole transactions."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import msgspec
import numpy as np

from bbq_plugin.errors import StoreError
from bbq_plugin.store import columns, sources
from bbq_plugin.store.columns import Codebook
from bbq_plugin.store.lock import WriterLock
from bbq_plugin.store.schema import MEMORY, check_folder, connect, explained
from bbq_plugin.store.transaction import Transaction
from bbq_plugin.store.upsert import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from bbq_plugin.data.records import Comparison, HistoryPoint, Skipped
    from bbq_plugin.store.columns import Change, ColumnArrays
    from bbq_plugin.store.sources import Counts, SourceEntry

# How many comparisons break a promise.
_CHECKS = {
    "comparisons name an item that is not there": (
        "SELECT count(*) FROM comparison WHERE left NOT IN (SELECT id FROM item) "
        "OR right NOT IN (SELECT id FROM item)"
    ),
    "comparisons name a rater who is not there": (
        "SELECT count(*) FROM comparison WHERE rater IS NOT NULL "
        "AND rater NOT IN (SELECT id FROM rater)"
    ),
    "comparisons have no source": (
        "SELECT count(*) FROM comparison WHERE source NOT IN (SELECT id FROM source)"
    ),
    "comparisons are of an item with itself": "SELECT count(*) FROM comparison WHERE left = right",
    "comparisons more or less than the store's own count": (
        "SELECT abs((SELECT count(*) FROM comparison) - value) FROM counter "
        "WHERE name = 'n_comparisons'"
    ),
    "comparisons have an id that is yet to be given": (
        "SELECT count(*) FROM comparison WHERE id > "
        "(SELECT value FROM counter WHERE name = 'last_id')"
    ),
}

# The name of the note with the excluded raters.
_EXCLUDED = "excluded"


class Store:
    """SQLite in WAL mode behind one lock a process and one writer a file.

    `writable=False` opens it for reading, which works while another process writes.
    `clock` gives the seconds since 1970 that go on record.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        writable: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = os.fspath(path)
        self.writable = writable
        self.clock = clock
        self._mutex = threading.RLock()
        self._busy = False
        check_folder(self.path, writable=writable)
        self._lock = WriterLock(self.path) if writable and self.path != MEMORY else None
        try:
            self.db = connect(self.path, writable=writable)
            self.names = Codebook(self.db)
        except BaseException:
            self._release()
            raise

    def close(self) -> None:
        """Close it, and let others write."""
        with self._mutex:
            self.db.close()
            self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- writing

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Everything inside it is stored when it ends, or nothing is."""
        if not self.writable:
            raise StoreError(f"{self.path}: this store was opened for reading only")
        with self._mutex, self._explained():
            self._clear_up()
            known = self.names.mark()
            self._busy = True
            try:
                self.db.execute("BEGIN IMMEDIATE")
                transaction = Transaction(self.db, self.names)
                yield transaction
                transaction.finish()
                self.db.execute("COMMIT")
            except BaseException:
                # A full disk may have ended the transaction already.
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")
                self.names.back_to(known)
                self._busy = False
                raise
            for publish in transaction.after_commit:
                publish()
            self._busy = False

    def _clear_up(self) -> None:
        """Undo what a call has begun that was cut off, by an interrupt, where nothing could."""
        if self._busy:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            self.names = Codebook(self.db)
            self._busy = False

    def add(
        self,
        records: Iterable[Comparison | Skipped],
        *,
        kind: str = "call",
        name: str = "",
        by_key: bool = True,
    ) -> tuple[Change, Tally]:
        """Add answers, each under its key; newer replaces older. Durable on return.

        `by_key`: a key names one answer, not one of each rater.
        """
        with self.transaction() as transaction:
            tally = transaction.add(records, kind, name, self.clock(), by_key=by_key)
        return transaction.change, tally

    def retract(self, keys: Iterable[str], *, for_good: bool = False) -> tuple[Change, list[str]]:
        """Take back answers by key; what changed, and the keys that were not there.

        `for_good`: whatever comes under these keys later, by a slower way, stays out.
        """
        with self.transaction() as transaction:
            _, unknown = transaction.retract(keys, for_good=for_good)
        return transaction.change, unknown

    def add_history(
        self,
        at: float,
        n_comparisons: int,
        how: str,
        rows: Iterable[tuple[str, Any, Any, Any, int]],
    ) -> None:
        """Keep the leaderboard of this moment: (item, rating, lower, upper, rank)."""
        with self.transaction() as transaction:
            codes = transaction.names.items
            known = ((codes[item] + 1, *values) for item, *values in rows)
            sources.add_history(self.db, at, n_comparisons, how, known)

    def save_fit(self, data: bytes) -> None:
        """Keep the last fit: JSON in which `how` and `n_comparisons` are told."""
        with self.transaction():
            self.db.execute("INSERT OR REPLACE INTO fit VALUES (1, ?, ?)", (self.clock(), data))

    def keep_note(self, name: str, value: str) -> None:
        """Keep a text under a name, in place of the one before."""
        with self.transaction():
            self.db.execute("INSERT OR REPLACE INTO note VALUES (?, ?)", (name, value))

    def vacuum(self) -> None:
        """Rewrite the columns from the rows, and give free space back."""
        with self._mutex, self._explained():
            self.db.execute("BEGIN IMMEDIATE")
            columns.rewrite(self.db)
            self.db.execute("COMMIT")
            self.db.execute("VACUUM")
            self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # -- reading

    def load(self) -> ColumnArrays:
        """All answers as columns."""
        with self._mutex, self._explained():
            return columns.load(self.db)

    def ledger(self) -> list[SourceEntry]:
        """Every source as it is now."""
        with self._mutex, self._explained():
            return sources.entries(self.db)

    def history(self, most: int | None = None) -> list[HistoryPoint]:
        """The leaderboard at each refresh, oldest first; at most so many of them."""
        with self._mutex, self._explained():
            return sources.history(self.db, most)

    def saved_fit(self) -> tuple[float, bytes] | None:
        """When the last fit was made, and what was kept of it."""
        found: list[tuple[float, bytes]] = self.rows("SELECT at, data FROM fit")
        return found[0] if found else None

    def note(self, name: str) -> str | None:
        """The text that was last kept under a name."""
        found = self.rows("SELECT value FROM note WHERE name = ?", (name,))
        return None if not found else str(found[0][0])

    def excluded(self) -> frozenset[str]:
        """The raters that were excluded last, also by an earlier process."""
        kept = self.note(_EXCLUDED)
        return frozenset(msgspec.json.decode(kept, type=list[str]) if kept else ())

    def keep_excluded(self, names: Collection[str]) -> None:
        """Keep who is excluded now, if that is news."""
        if frozenset(names) != self.excluded():
            self.keep_note(_EXCLUDED, msgspec.json.encode(sorted(names)).decode())

    def last_id(self) -> int:
        """The number of its state: another after every change."""
        return int(self.rows("SELECT value FROM counter WHERE name = 'last_id'")[0][0])

    def counts(self) -> Counts:
        """How much there is."""
        with self._mutex, self._explained():
            return sources.counts(self.db)

    def rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """What a statement of this room finds."""
        with self._mutex, self._explained():
            return self.db.execute(sql, values).fetchall()

    def check(self) -> list[str]:
        """What is wrong with it, in words; nothing if all is well."""
        with self._mutex, self._explained():
            # One moment for all questions: a writer may go on meanwhile.
            self.db.execute("BEGIN")
            try:
                return _problems(self.db)
            finally:
                self.db.execute("ROLLBACK")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise explained(error, self.path) from error


def _problems(db: sqlite3.Connection) -> list[str]:
    """What is wrong: SQLite's own check, and what this project promises beyond it."""
    found = [text for (text,) in db.execute("PRAGMA integrity_check") if text != "ok"]
    if found:
        return found
    for what, sql in _CHECKS.items():
        (n,) = db.execute(sql).fetchone()
        if n:
            found.append(f"{n:,} {what}")
    return found + _column_problems(db)


def _column_problems(db: sqlite3.Connection) -> list[str]:
    """Whether the columns say what the rows say."""
    try:
        packed = columns.load(db)
    except StoreError as error:
        return [str(error)]
    rows = columns.rows_between(db, 0)
    same = packed["id"].size == rows["id"].size and all(
        np.array_equal(packed[name], rows[name], equal_nan=name in ("time_s", "at"))
        for name in rows
    )
    if same:
        return []
    return ["the columns and the rows differ; 'bbq store vacuum' rewrites the columns"]
