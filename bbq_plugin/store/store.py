"""One store: opened by one writer or any number of readers, changed by whole transactions.

`read_store` reads one like a file, also while another process writes it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from bbq_plugin.data.dataset import UNRATED, Comparisons, DatasetBuilder, wins_of
from bbq_plugin.data.records import (
    BAD_WEIGHT,
    LEAST_WEIGHT,
    MOST_WEIGHT,
    OUTCOMES,
    WEIGHT_BOUNDS,
    Comparison,
    HistoryPoint,
    LeadWord,
    Skipped,
    Source,
)
from bbq_plugin.errors import DataError, StoreError
from bbq_plugin.store import coded_columns, sources_and_status, studies
from bbq_plugin.store.coded_columns import Codebook, ColumnArrays, StoredTags, load, usable
from bbq_plugin.store.database_file import (
    DAMAGED,
    MEMORY,
    WriterLock,
    check_folder,
    connect,
    explained,
    faults_explained,
    reading,
)
from bbq_plugin.store.sources_and_status import SourceEntry, entries
from bbq_plugin.store.studies import MAIN, chosen_study
from bbq_plugin.store.transaction import Tally, Transaction, among
from bbq_plugin.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from bbq_plugin.data.records import Comparison, HistoryPoint, Skipped
    from bbq_plugin.store.coded_columns import Change, ColumnArrays
    from bbq_plugin.store.sources_and_status import Counts, SourceEntry
    from bbq_plugin.store.studies import StudyEntry
    from bbq_plugin.store.transaction import Transaction


# Answers that are left out and are named one by one.
_NAMED = 5

#: Comparisons with the names of their items and raters; the rest of the statement says which.
SELECT_COMPARISONS = (
    "SELECT c.key, r.name, a.name, b.name, c.outcome, c.weight, "
    "CASE c.slate WHEN '' THEN c.key ELSE c.slate END, c.at, c.time_s, c.tags, c.version, c.id "
    "FROM comparison c JOIN item a ON a.id = c.left JOIN item b ON b.id = c.right "
    "LEFT JOIN rater r ON r.id = c.rater "
)


def read_store(
    path: str | os.PathLike[str],
    *,
    where: Mapping[str, str] | None = None,
    rename: Mapping[str, str] | None = None,
    drop_raters: Iterable[str] = (),
    tags: Collection[str] = (),
    study: str | None = None,
) -> Comparisons:
    """Everything that a study of a store holds, as `bbq.read` would have given it.

    ``tags`` are those to keep beside the ones that name prompts or scenes. ``study`` may be left
    out where only one has answers.
    """
    dropped, name = tuple(drop_raters), os.fspath(path)
    # One moment for all of it, names included, whatever is written meanwhile.
    with reading(name) as db:
        names, own = Codebook(db), chosen_study(db, study, name)
        columns, misweighed = usable(load(db, own))
        stored = StoredTags(lambda: nullcontext(db), tags)
        found = stored.of(columns["id"])
        plain = comparisons_of(
            columns, names.items.names, names.raters.names,
            entries(db, "WHERE study = ? ORDER BY id", (own,)),
            left_out_of(db, misweighed), found, stored.values(),
        )  # fmt: skip
        if not (where or rename or dropped):
            return plain
        parts = _parts(db, name, own, tags, where=where, rename=rename, drop_raters=dropped)
        (fields,) = parts.values()
    fields["warnings"] = (*plain.warnings, *fields["warnings"])
    return replace(Comparisons(**fields), sources=plain.sources)


def read_store_by(
    path: str | os.PathLike[str],
    *,
    by: str,
    where: Mapping[str, str] | None = None,
    rename: Mapping[str, str] | None = None,
    drop_raters: Iterable[str] = (),
    study: str | None = None,
    tags: Collection[str] = (),
) -> dict[str, Comparisons]:
    """What a study of a store holds, split by the value of a tag, as `bbq.read_by` would.

    ``tags`` are kept even if nearly every answer has another value.

    ``by="study"`` gives each study that has answers.
    """
    name, dropped = os.fspath(path), tuple(drop_raters)
    if by == "study" and study is None:
        with reading(name) as db:
            names = [one.name for one in studies.studies(db) if one.n_comparisons]
        choice: dict[str, Any] = {"where": where, "rename": rename, "drop_raters": dropped}
        return {one: read_store(path, study=one, **choice) for one in sorted(names)}
    with reading(name) as db:
        own = chosen_study(db, study, name)
        parts = _parts(db, name, own, tags, where=where, by=by, rename=rename, drop_raters=dropped)
        notes = left_out_of(db, usable(load(db, own))[1]).notes
    for fields in parts.values():
        fields["warnings"] = (*notes, *fields["warnings"])
    return {value: Comparisons(**parts[value]) for value in sorted(parts)}


def _parts(
    db: sqlite3.Connection, name: str, study: int, tags: Collection[str] = (), **choice: Any
) -> dict[str, dict[str, Any]]:
    """The fields of the data sets that a choice among the records of a study makes."""
    builder = DatasetBuilder(merge=False, **choice)
    builder.tag_columns.kept = frozenset(tags)
    builder.begin(name)
    builder.tags_remedy = (
        "; if the files have it, the store was filled without tags: read them again into a new "
        "store with --keep-tags"
    )
    for row in db.execute(f"{SELECT_COMPARISONS} WHERE c.study = ? ORDER BY c.id", (study,)):
        record = comparison(row)
        if LEAST_WEIGHT <= record.weight <= MOST_WEIGHT:
            builder.add(record)
        else:
            builder.add(Skipped(record.key, BAD_WEIGHT, str(record.weight), expected=True))
    return builder.parts()


def records_of(store: Store, study: int = MAIN) -> Iterator[Comparison]:
    """The comparisons of a study as they were added, in the order in which they last changed."""
    of_study = f"{SELECT_COMPARISONS} WHERE c.study = ? ORDER BY c.id"
    return map(comparison, store.db.execute(of_study, (study,)))


def comparison(row: tuple[Any, ...]) -> Comparison:
    """A row of these as a record."""
    key, rater, left, right, outcome, weight, slate, at, time_s, tags, version, _ = row
    try:
        found = msgspec.json.decode(tags, type=dict[str, str]) if tags else None
        said = OUTCOMES[outcome]
    except (msgspec.DecodeError, IndexError) as error:
        raise StoreError(f"comparison {key!r} of the store: {error}; {DAMAGED}") from error
    return Comparison(key, rater, left, right, said, weight, slate, at, time_s, found, version)


def records_of_rater(path: str, rater: str, study: int = MAIN) -> list[Comparison]:
    """The comparisons of one rater, by a connection of its own: a writer does not wait for it."""
    with reading(path) as db:
        of_rater = "WHERE c.study = ? AND c.rater = (SELECT id FROM rater WHERE name = ?)"
        found = db.execute(f"{SELECT_COMPARISONS} {of_rater}", (study, rater))
        return list(map(comparison, found))


def tag_values(path: str, study: int, least: int) -> dict[str, tuple[dict[str, int], int]]:
    """By tag, its values that at least so many comparisons have, and how many have any value."""
    found: dict[str, tuple[dict[str, int], int]] = {}
    with reading(path) as db:
        for tag, value, n, n_tag in db.execute(
            "SELECT * FROM (SELECT j.key, j.value, count(*) AS n, "
            "sum(count(*)) OVER (PARTITION BY j.key) FROM comparison c, json_each(c.tags) j "
            "WHERE c.study = ? AND c.tags IS NOT NULL GROUP BY j.key, j.value) WHERE n >= ?",
            (study, least),
        ):
            found.setdefault(tag, ({}, n_tag))[0][value] = n
    return found


def comparisons_under(
    transaction: Transaction, keys: Iterable[str], study: int = MAIN
) -> dict[int, Comparison]:
    """The comparisons under these keys, or broken out of rankings with these names, by their id."""
    wanted = set(keys)
    of_study = f"{SELECT_COMPARISONS} WHERE c.study = ? AND"
    found = among(transaction.db, f"{of_study} c.key", wanted, study)
    found += among(transaction.db, f"{of_study} c.slate > '' AND c.slate", wanted, study)
    return {row[-1]: comparison(row) for row in sorted(found, key=lambda row: row[-1])}


class Unusable(NamedTuple):
    """Answers of the store that cannot be fitted: how many, and what is to be said of them."""

    n: int = 0
    notes: tuple[str, ...] = ()


def left_out_of(db: sqlite3.Connection, ids: Sequence[int]) -> Unusable:
    """Name the answers with a weight out of bounds, some of them if they are many."""
    if not ids:
        return Unusable()
    named = [
        f"{key!r} of {source} (weight {weight:g})"
        for id_ in ids[:_NAMED]
        for key, weight, source in db.execute(
            "SELECT c.key, c.weight, iif(s.name = '', s.kind, s.name) FROM comparison c "
            "JOIN source s ON s.id = c.source WHERE c.id = ?",
            (id_,),
        )
    ]
    more = f" and {len(ids) - _NAMED:,} more" if len(ids) > _NAMED else ""
    note = (
        f"{counted(len(ids), 'answer')} of the store left out, because {WEIGHT_BOUNDS}: "
        f"{', '.join(named)}{more}; add again with another weight, or retract by key "
        "(Engine.retract)"
    )
    return Unusable(len(ids), (note,))


def comparisons_of(
    columns: ColumnArrays,
    items: tuple[str, ...],
    raters: tuple[str, ...],
    ledger: Iterable[SourceEntry] = (),
    left_out: Unusable = Unusable(),  # noqa: B008 (a constant)
    tags: Mapping[str, NDArray[np.int32]] = MappingProxyType({}),
    tag_values: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> Comparisons:
    """The answers as `bbq.read` would have given them."""
    rated = columns["rater"] >= 0
    keep: NDArray[np.bool_] = np.ones(rated.size, dtype=np.bool_)
    reasons: dict[str, int] = {}
    sources, warnings = [], dict.fromkeys(left_out.notes)
    if left_out.n:
        reasons[BAD_WEIGHT] = left_out.n
    for entry in ledger:
        for reason, n in entry.skipped.items():
            reasons[reason] = reasons.get(reason, 0) + n
        warnings |= dict.fromkeys(entry.notes)
        if entry.status != "copy":
            n = entry.n_rows - entry.n_skipped
            sources.append(
                Source(
                    entry.name or entry.kind, entry.adapter or "", entry.why or "", n,
                    entry.n_skipped, entry.sha256 or "",
                )
            )  # fmt: skip
    if rated.any() and not rated.all():
        keep = rated
        reasons[UNRATED] = reasons.get(UNRATED, 0) + int((~rated).sum())
    if not keep.size:
        raise DataError(
            "there are no comparisons in the store yet; add some"
            + "".join(f" ({note})" for note in left_out.notes)
        )
    return Comparisons(
        **wins_of(columns, keep, items, raters, tags),
        tag_values=MappingProxyType(dict(tag_values)),
        skip_reasons=MappingProxyType(reasons),
        sources=tuple(sources),
        warnings=tuple(warnings),
    )


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
    "comparisons have an outcome that is none": (
        "SELECT count(*) FROM comparison WHERE outcome NOT BETWEEN 0 AND 3"
    ),
    "comparisons are of an item with itself": "SELECT count(*) FROM comparison WHERE left = right",
    "comparisons more or less than the store's own count": (
        "SELECT coalesce(sum(abs(n_comparisons - (SELECT count(*) FROM comparison c "
        "WHERE c.study = study.id))), 0) FROM study"
    ),
    "comparisons are of a study that is not there": (
        "SELECT count(*) FROM comparison WHERE study NOT IN (SELECT id FROM study)"
    ),
    "comparisons have an id that is yet to be given": (
        "SELECT count(*) FROM comparison WHERE id > "
        "(SELECT value FROM counter WHERE name = 'last_id')"
    ),
}


def _excluded_note(study: int) -> str:
    """The name of the note with the excluded raters."""
    return f"excluded {study}"


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
        except BaseException:
            self._release()
            raise
        try:
            with faults_explained(self.path):
                self.names = Codebook(self.db)
        except BaseException:
            self.close()
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
                with faults_explained(self.path):
                    transaction = Transaction(self.db, self.names)
                yield transaction
                with faults_explained(self.path):
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
        study: int = MAIN,
        by_key: bool = True,
    ) -> tuple[Change, Tally]:
        """Add answers, each under its key; newer replaces older. Durable on return.

        `by_key`: a key names one answer, not one of each rater.
        """
        with self.transaction() as transaction:
            tally = transaction.add(records, kind, name, self.clock(), study=study, by_key=by_key)
        return transaction.change, tally

    def retract(
        self, keys: Iterable[str], study: int = MAIN, *, for_good: bool = False
    ) -> tuple[Change, list[str]]:
        """Take back answers by key; what changed, and the keys that were not there.

        `for_good`: whatever comes under these keys later, by a slower way, stays out.
        """
        with self.transaction() as transaction:
            _, unknown = transaction.retract(keys, study, for_good=for_good)
        return transaction.change, unknown

    def add_history(
        self,
        at: float,
        n_comparisons: int,
        how: str,
        rows: Iterable[tuple[str, Any, Any, Any, int]],
        study: int = MAIN,
    ) -> None:
        """Keep the leaderboard of this moment: (item, rating, lower, upper, rank)."""
        with self.transaction() as transaction:
            codes = transaction.names.items
            known = ((codes[item] + 1, *values) for item, *values in rows)
            studies.add_history(self.db, at, n_comparisons, how, known, study)

    def save_fit(self, data: bytes, study: int = MAIN) -> None:
        """Keep the last fit: JSON in which `how` and `n_comparisons` are told."""
        with self.transaction():
            self.db.execute(
                "INSERT OR REPLACE INTO fit VALUES (?, ?, ?)", (study, self.clock(), data)
            )

    def study(self, name: str) -> int:
        """The number of a study, which is made if there is none of this name."""
        with self._mutex:
            known = {one.name: one.id for one in self.studies()}
            if name in known or not self.writable:
                return known[name] if name in known else self.chosen_study(name)
            with self.transaction():
                return studies.study_named(self.db, name)

    def keep_note(self, name: str, value: str) -> None:
        """Keep a text under a name, in place of the one before."""
        with self.transaction():
            self.db.execute("INSERT OR REPLACE INTO note VALUES (?, ?)", (name, value))

    def vacuum(self) -> None:
        """Rewrite the columns from the rows, and give free space back."""
        with self._mutex, faults_explained(self.path):
            self.db.execute("BEGIN IMMEDIATE")
            coded_columns.rewrite(self.db)
            self.db.execute("COMMIT")
            self.db.execute("VACUUM")
            self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # -- reading

    def load(self, study: int | None = None) -> ColumnArrays:
        """All answers as columns, or those of one study."""
        with self._mutex, faults_explained(self.path):
            return coded_columns.load(self.db, study)

    def studies(self) -> list[StudyEntry]:
        """All studies, in the order in which they came."""
        with self._mutex, faults_explained(self.path):
            return studies.studies(self.db)

    def chosen_study(self, name: str | None) -> int:
        """The number of the study that is to be read; without a name the only one."""
        with self._mutex, faults_explained(self.path):
            return studies.chosen_study(self.db, name, self.path)

    def tags(self, named: Collection[str] = ()) -> StoredTags:
        """The tags that answers may be clustered by, and those ``named``."""
        if self.path == MEMORY:
            return StoredTags(lambda: nullcontext(self.db), named)
        # By a connection of its own, while another thread writes by this one.
        return StoredTags(lambda: reading(self.path), named)

    def left_out(self, ids: Sequence[int] | None = None) -> Unusable:
        """What is to be said of answers that no fit can use; without ids they are looked for."""
        with self._mutex, faults_explained(self.path):
            found = coded_columns.usable(coded_columns.load(self.db))[1] if ids is None else ids
            return left_out_of(self.db, found)

    def ledger(self, study: int | None = None) -> list[SourceEntry]:
        """Every source as it is now, or those of one study."""
        with self._mutex, faults_explained(self.path):
            if study is None:
                return sources_and_status.entries(self.db)
            return sources_and_status.entries(self.db, "WHERE study = ? ORDER BY id", (study,))

    def history(self, most: int | None = None, study: int = MAIN) -> list[HistoryPoint]:
        """The leaderboard at each refresh, oldest first; at most so many of them."""
        with self._mutex, faults_explained(self.path):
            return studies.history(self.db, study, most)

    def saved_fit(self, study: int = MAIN) -> tuple[float, bytes] | None:
        """When the last fit was made, and what was kept of it."""
        sql = "SELECT at, data FROM fit WHERE study = ?"
        found: list[tuple[float, bytes]] = self.rows(sql, (study,))
        return found[0] if found else None

    def note(self, name: str) -> str | None:
        """The text that was last kept under a name."""
        found = self.rows("SELECT value FROM note WHERE name = ?", (name,))
        return None if not found else str(found[0][0])

    def excluded(self, study: int = MAIN) -> frozenset[str]:
        """The raters that were excluded last, also by an earlier process."""
        kept = self.note(_excluded_note(study))
        with faults_explained(self.path):
            return frozenset(msgspec.json.decode(kept, type=list[str]) if kept else ())

    def keep_excluded(self, names: Collection[str], study: int = MAIN) -> None:
        """Keep who is excluded now, if that is news."""
        if frozenset(names) != self.excluded(study):
            kept = msgspec.json.encode(sorted(names)).decode()
            self.keep_note(_excluded_note(study), kept)

    def rater_names(self) -> tuple[str, ...]:
        """All raters that have ever answered."""
        return tuple(name for (name,) in self.rows("SELECT name FROM rater ORDER BY id"))

    def lead_words(self) -> dict[str, LeadWord]:
        """What leads have decided about raters, as it holds now."""
        found = {word.rater: word for word in self.lead_journal()}
        return {rater: word for rater, word in found.items() if word.verdict}

    def lead_journal(self, rater: str | None = None) -> list[LeadWord]:
        """All that leads have decided, of one rater or of all, oldest first."""
        only, values = ("", ()) if rater is None else ("WHERE rater = ? ", (rater,))
        sql = f"SELECT rater, verdict, reason, said_by, at FROM lead_word {only}ORDER BY id"  # noqa: S608
        return [LeadWord(*row) for row in self.rows(sql, values)]

    def add_lead_word(self, word: LeadWord) -> None:
        """Put down what a lead has decided; it holds until the next word on the same rater."""
        with self.transaction():
            self.db.execute(
                "INSERT INTO lead_word (rater, verdict, reason, said_by, at) "
                "VALUES (?, ?, ?, ?, ?)",
                (word.rater, word.verdict, word.reason, word.by, word.at),
            )

    def last_id(self) -> int:
        """The number of its state: another after every change."""
        with faults_explained(self.path):
            return int(self.rows("SELECT value FROM counter WHERE name = 'last_id'")[0][0])

    def counts(self) -> Counts:
        """How much there is."""
        with self._mutex, faults_explained(self.path):
            return sources_and_status.counts(self.db)

    def service_facts(self) -> sources_and_status.ServiceFacts:
        """What it knows of how the service does that writes it."""
        with self._mutex, faults_explained(self.path):
            return sources_and_status.service_facts(self.db)

    def rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """What a statement of this room finds."""
        with self._mutex, faults_explained(self.path):
            return self.db.execute(sql, values).fetchall()

    def check(self) -> list[str]:
        """What is wrong with it, in words; nothing if all is well."""
        with self._mutex, faults_explained(self.path):
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
        packed = coded_columns.load(db)
    except StoreError as error:
        return [str(error)]
    rows = coded_columns.rows_between(db, 0)
    same = packed["id"].size == rows["id"].size and all(
        np.array_equal(packed[name], rows[name], equal_nan=name in ("time_s", "at"))
        for name in rows
    )
    if same:
        return []
    return ["the columns and the rows differ; 'bbq store vacuum' rewrites the columns"]
