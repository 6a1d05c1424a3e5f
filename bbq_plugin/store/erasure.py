"""Erasing a person: their answers and name, wherever the store has them, down to the bytes.

Keys of their answers that do not hold the name stay on record, so that a pull does not bring the
same answers back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec

from bbq_plugin.errors import UsageError, did_you_mean
from bbq_plugin.store.sources_and_status import ALERTS_NOTE, ERASED, HEALTH
from bbq_plugin.store.transaction import bury, delete_rows
from bbq_plugin.text import counted, plain

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from bbq_plugin.store.store import Store
    from bbq_plugin.store.transaction import Transaction

_EXCLUDED = "excluded "


@dataclass(frozen=True, slots=True)
class Erasure:
    """What was erased, how much of each, and what the store cannot reach."""

    n_answers: int
    n_events: int
    n_lead_words: int
    n_journal: int
    n_reasons: int
    #: Names of sources that hold the name of the person.
    sources: tuple[str, ...]

    @property
    def text(self) -> str:
        """How much of what."""
        told = (
            counted(self.n_answers, "answer"), counted(self.n_events, "event"),
            counted(self.n_lead_words, "lead's decision"), counted(self.n_journal, "journal row"),
            counted(self.n_reasons, "note"),
        )  # fmt: skip
        return ", ".join(told)

    @property
    def not_reached(self) -> tuple[str, ...]:
        """What holds the person still, with what to do about it."""
        told = [
            "backups of the store: erase the person in each, or delete it",
            (
                "reports, exports, logs and alerts that were written or sent: delete these files, "
                "and tell who has them"
            ),
            (
                "the files that the answers came from, and Label Studio: delete the answers there "
                "too; a changed file is read again, and new answers count again"
            ),
        ]
        if self.sources:
            told.append(
                f"names of sources, which name the files: {', '.join(map(plain, self.sources))}; "
                "rename the files, and read them into a new store"
            )
        return tuple(told)


def erase(store: Store, rater: str, raters_of: Callable[[bytes], frozenset[str]]) -> Erasure:
    """Erase a rater; `raters_of` says whose answers an event that waits holds.

    UsageError where the store has no such rater, or where writes stand in a labelling project that
    name them: without the entry of the journal these could not be undone.
    """
    with store.transaction() as transaction:
        db = transaction.db
        # What is deleted is overwritten, so that not even a kill before the end leaves it.
        db.execute("PRAGMA secure_delete = ON")
        _check_known(store, db, rater)
        _check_undone(db, rater)
        done = Erasure(
            n_answers=_answers(transaction, rater),
            n_events=_events(db, lambda body: rater in raters_of(body)),
            n_lead_words=_lead_words(db, rater),
            n_journal=_journal(db, rater),
            n_reasons=_reasons(db, rater) + _notes(db, rater),
            sources=tuple(
                name
                for (name,) in db.execute("SELECT DISTINCT name FROM source ORDER BY name")
                if _mentions(name, rater)
            ),
        )
    store.vacuum()
    return done


def _check_known(store: Store, db: sqlite3.Connection, rater: str) -> None:
    sql = "SELECT 1 FROM rater WHERE name = :name UNION SELECT 1 FROM lead_word WHERE rater = :name"
    if db.execute(sql, {"name": rater}).fetchone() is None:
        meant = did_you_mean(rater, store.rater_names())
        raise UsageError(
            f"{store.path} has no rater {rater!r}{meant}; 'bbq raters --store {store.path} --all' "
            "lists them"
        )


def _check_undone(db: sqlite3.Connection, rater: str) -> None:
    """Refuse while a tab or a pause that names the rater stands in a project."""
    standing = db.execute(
        "SELECT r.project, j.target, j.before, j.after FROM journal j "
        "JOIN remote r ON r.id = j.remote "
        "WHERE j.kind IN ('tab', 'pause') AND j.state IN ('begun', 'done', 'undoing')"
    )
    named = [
        (project, target)
        for project, target, *values in standing
        if any(rater in _values(msgspec.json.decode(value)) for value in values)
    ]
    if named:
        project, target = named[0]
        raise UsageError(
            f"{counted(len(named), 'change')} in Label Studio (project {project}: {plain(target)}) "
            f"name {rater!r}, and could not be undone afterwards; first undo the changes: bbq push "
            f"--project {project} --undo --store STORE"
        )


def _values(found: object) -> set[str]:
    """All texts and numbers in a document, as text."""
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list):
        return {value for inside in found for value in _values(inside)}
    return set() if found is None else {str(found)}


def _answers(transaction: Transaction, rater: str) -> int:
    """Take the answers back for good, and the name out of the list of raters."""
    db = transaction.db
    known = db.execute("SELECT id FROM rater WHERE name = ?", (rater,)).fetchone()
    if known is None:
        return 0
    (own,) = known
    found = db.execute(
        "SELECT id, study, key, slate FROM comparison WHERE rater = ?", (own,)
    ).fetchall()
    delete_rows(db, transaction.changes, [id_ for id_, *_ in found])
    keys = {(study, name) for _, study, key, slate in found for name in (key, slate) if name}
    for study, key in keys:
        if not _mentions(key, rater):
            bury(db, study, key, inf)
    db.executemany("DELETE FROM task_answer WHERE key = ?", {(key,) for _, key in keys})
    buried = db.execute("SELECT DISTINCT key FROM retracted").fetchall()
    db.executemany(
        "DELETE FROM retracted WHERE key = ?", [one for one in buried if _mentions(one[0], rater)]
    )
    # Codes of raters are places in this list: the place stays, without the name.
    name, n = f"{ERASED} {own}", 0
    while db.execute("SELECT 1 FROM rater WHERE name = ?", (name,)).fetchone():
        n += 1
        name = f"{ERASED} {own} {n}"
    db.execute("UPDATE rater SET name = ? WHERE id = ?", (name, own))
    # What is kept of a fit may tell who belongs to a camp.
    db.execute("DELETE FROM fit")
    return len(found)


def _events(db: sqlite3.Connection, is_theirs: Callable[[bytes], bool]) -> int:
    gone = [(own,) for own, body in db.execute("SELECT id, body FROM event") if is_theirs(body)]
    db.executemany("DELETE FROM event WHERE id = ?", gone)
    return len(gone)


def _lead_words(db: sqlite3.Connection, rater: str) -> int:
    n = db.execute("DELETE FROM lead_word WHERE rater = ?", (rater,)).rowcount
    return (
        n
        + db.execute("UPDATE lead_word SET said_by = ? WHERE said_by = ?", (ERASED, rater)).rowcount
    )


def _journal(db: sqlite3.Connection, rater: str) -> int:
    """Forget whom writes were because of; those that stand can be undone all the same."""
    n = 0
    rows = db.execute("SELECT id, kind, state, reason, before, after FROM journal")
    for own, kind, state, reason, before, after in rows.fetchall():
        settled = state in ("undone", "void") and kind in ("tab", "pause")
        if settled and any(rater in _values(msgspec.json.decode(one)) for one in (before, after)):
            # How many writes there were counts towards the daily limit, and nothing else.
            sql = (
                "UPDATE journal SET target = ?, reason = ?, before = 'null', after = '{}' "
                "WHERE id = ?"
            )
            db.execute(sql, (ERASED, ERASED, own))
            n += 1
        elif _mentions(reason, rater):
            db.execute("UPDATE journal SET reason = ? WHERE id = ?", (ERASED, own))
            n += 1
    return n


def _reasons(db: sqlite3.Connection, rater: str) -> int:
    """Take the name out of texts that quote it."""
    n = 0
    for table, column, is_json in (
        ("source", "reason", False), ("source", "skipped", True), ("source", "notes", True),
        ("ledger", "reason", False), ("event", "reason", False), ("lead_word", "reason", False),
    ):  # fmt: skip
        found = db.execute(f"SELECT id, {column} FROM {table} WHERE {column} IS NOT NULL")  # noqa: S608
        for own, text in found.fetchall():
            # In JSON the name may be written otherwise.
            value = _without(msgspec.json.decode(text) if is_json else text, rater)
            without = msgspec.json.encode(value).decode() if is_json else value
            if without != text:
                db.execute(f"UPDATE {table} SET {column} = ? WHERE id = ?", (without, own))  # noqa: S608
                n += 1
    return n


def _notes(db: sqlite3.Connection, rater: str) -> int:
    """Who is excluded, and what the service last said."""
    n = 0
    for name, value in db.execute("SELECT name, value FROM note").fetchall():
        if name.startswith(_EXCLUDED):
            kept = [one for one in msgspec.json.decode(value, type=list[str]) if one != rater]
            new = msgspec.json.encode(kept).decode()
        elif name in (HEALTH, ALERTS_NOTE):
            new = msgspec.json.encode(_without(msgspec.json.decode(value), rater)).decode()
        else:
            continue
        if new != value:
            db.execute("UPDATE note SET value = ? WHERE name = ?", (new, name))
            n += 1
    return n


def _without(found: Any, rater: str) -> Any:
    """A document, or a text, without the name; a number in a text may be anything."""
    if isinstance(found, dict):
        return {_without(name, rater): _without(value, rater) for name, value in found.items()}
    if isinstance(found, list):
        return [_without(value, rater) for value in found if value != rater]
    if not isinstance(found, str) or rater.isdigit():
        return found
    return _pattern(rater).sub(ERASED, found)


def _pattern(rater: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(rater)}(?!\w)")


def _mentions(text: str, rater: str) -> bool:
    """Whether a text holds the name as a word of its own."""
    return bool(_pattern(rater).search(text))
