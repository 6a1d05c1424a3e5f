"""What was read from where, and how the service does: the sources of a store, and its status."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

import bbq_plugin
from bbq_plugin.data.records import UNREAD
from bbq_plugin.errors import StoreError
from bbq_plugin.store.database_file import DAMAGED, holder, reading
from bbq_plugin.store.studies import MAIN, FitNote, StudyEntry, fit_notes, panel_note, studies

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bbq_plugin.store.database_file import Holder


SCHEMA = "bbq.status/1"


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """One source as it is now: how far it was read, how, and what came of it."""

    name: str
    kind: str
    #: When it was last read or refused, in seconds since 1970.
    at: float
    #: read, copy, waiting or refused.
    status: str = "read"
    reason: str | None = None
    sha256: str | None = None
    #: Bytes and lines that were taken in.
    offset: int = 0
    lines: int = 0
    adapter: str | None = None
    why: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    n_rows: int = 0
    n_skipped: int = 0
    #: How many rows were left out, by reason.
    skipped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    #: Device, inode, size and time of a file when it was last looked at.
    stamp: str | None = None
    study: int = MAIN
    id: int = 0


class Counts(NamedTuple):
    """How much a store holds; names stay known when their comparisons are taken back.

    A rater who was erased leaves a place without a name, which does not count.
    """

    n_comparisons: int
    n_items: int
    n_raters: int


_COLUMNS = tuple(one.name for one in fields(SourceEntry))
_JSON = {"options", "skipped", "notes"}
_ENTRIES = f"SELECT {', '.join(_COLUMNS)} FROM source"  # noqa: S608 (field names)


def entries(
    db: sqlite3.Connection, clause: str = "ORDER BY id", values: tuple[Any, ...] = ()
) -> list[SourceEntry]:
    """The sources that match."""
    return [_entry(row) for row in db.execute(f"{_ENTRIES} {clause}", values)]


def save_entry(db: sqlite3.Connection, entry: SourceEntry) -> int:
    """Write a source as it is now; its id."""
    columns = _COLUMNS[:-1]
    packed = {name: msgspec.json.encode(getattr(entry, name)).decode() for name in _JSON}
    values = [packed.get(name, getattr(entry, name)) for name in columns]
    update = ", ".join(f"{name} = excluded.{name}" for name in columns)
    sql = (
        f"INSERT INTO source ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "  # noqa: S608
        f"ON CONFLICT (study, kind, name) DO UPDATE SET {update} RETURNING id"
    )
    return int(db.execute(sql, values).fetchone()[0])


def _entry(row: tuple[Any, ...]) -> SourceEntry:
    values = dict(zip(_COLUMNS, row, strict=True))
    try:
        for name in _JSON:
            values[name] = msgspec.json.decode(values[name]) if values[name] else {}
    except msgspec.DecodeError as error:
        raise StoreError(f"source {values['name']!r} of the store: {error}; {DAMAGED}") from error
    values["notes"] = tuple(values["notes"])
    return SourceEntry(**values)


def counts(db: sqlite3.Connection) -> Counts:
    """How much there is in all studies."""
    sql = (
        "SELECT (SELECT sum(n_comparisons) FROM study), "
        "(SELECT count(*) FROM item), (SELECT count(*) FROM rater WHERE name NOT GLOB ? "
        "OR EXISTS (SELECT 1 FROM comparison c WHERE c.rater = rater.id))"
    )
    return Counts(*map(int, db.execute(sql, (f"{ERASED} [0-9]*",)).fetchone()))


#: What stands in the place of a rater who was erased, with the number of the place.
ERASED = "erased"
#: The name of the note with what a service tells of its problems.
HEALTH = "health"
#: That with the time of the last event.
LAST_EVENT = "last event"
#: That with the alerts that were sent and those that wait.
ALERTS_NOTE = "alerts"


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """What a store knows of how the service does that writes it."""

    #: Events that wait to be read, and when the oldest came, in seconds since 1970.
    n_waiting: int
    oldest: float | None
    #: Events that are kept because they cannot be read, by reason, the newest first.
    held: tuple[tuple[str, int], ...]
    #: Answers to known questions that could not be read, by reason.
    unread: tuple[tuple[str, int], ...]
    last_pull: float | None
    last_event: float | None
    #: What the service itself has said, as JSON.
    told: str | None
    #: Files and tables of which nothing was taken, and how many there are of all.
    n_refused: int = 0
    n_sources: int = 0


def service_facts(db: sqlite3.Connection) -> ServiceFacts:
    """All of it, of this moment."""
    n_waiting, oldest = db.execute(
        "SELECT count(*), min(at) FROM event WHERE reason IS NULL"
    ).fetchone()
    held = db.execute(
        "SELECT reason, count(*) FROM event WHERE reason IS NOT NULL "
        "GROUP BY reason ORDER BY max(id) DESC"
    ).fetchall()
    unread = db.execute(
        "SELECT k.key, sum(k.value) FROM source s, json_each(s.skipped) k "
        "WHERE substr(k.key, 1, ?) = ? GROUP BY k.key ORDER BY 2 DESC",
        (len(UNREAD), UNREAD),
    ).fetchall()
    times = db.execute(
        "SELECT (SELECT max(at) FROM remote), "
        "(SELECT max(at) FROM (SELECT at FROM source WHERE kind = 'webhook' UNION ALL "
        "SELECT * FROM (SELECT at FROM event ORDER BY id DESC LIMIT 1) UNION ALL "
        "SELECT CAST(value AS REAL) FROM note WHERE name = ?)), "
        "(SELECT value FROM note WHERE name = ?)",
        (LAST_EVENT, HEALTH),
    ).fetchone()
    refused = db.execute(
        "SELECT coalesce(sum(status = 'refused'), 0), count(*) FROM source"
    ).fetchone()
    return ServiceFacts(n_waiting, oldest, tuple(held), tuple(unread), *times, *refused)


@dataclass(frozen=True)
class Status:
    """A store at one moment."""

    store: str
    counts: Counts
    #: The newest refresh of all, and the newest full one.
    last_fit: FitNote | None
    last_full_fit: FitNote | None
    #: How many camps the last fit that was kept has, and what is said of them.
    n_camps: int | None
    panel: str
    #: In the order in which they first came.
    sources: tuple[SourceEntry, ...]
    writer: Holder | None
    studies: tuple[StudyEntry, ...]
    facts: ServiceFacts

    def n_sources(self) -> dict[str, int]:
        """How many sources there are, by what became of them."""
        found = Counter(entry.status for entry in self.sources)
        return {word: found[word] for word in ("read", "copy", "waiting", "refused")}

    def study_of(self, entry: SourceEntry) -> str:
        """The name of a source's study."""
        return next((one.name for one in self.studies if one.id == entry.study), "")

    def skipped(self) -> dict[str, int]:
        """How many rows were left out, by reason, the most frequent first."""
        total: Counter[str] = Counter()
        for entry in self.sources:
            total.update(entry.skipped)
        return dict(total.most_common())

    def document(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "schema": SCHEMA,
            "version": bbq_plugin.__version__,
            "store": self.store,
            **self.counts._asdict(),
            "last_fit": _fit_dict(self.last_fit),
            "last_full_fit": _fit_dict(self.last_full_fit),
            "n_camps": self.n_camps,
            "panel": self.panel or None,
            "writer": None if self.writer is None else msgspec.structs.asdict(self.writer),
            "studies": [_study_dict(one) for one in self.studies],
            "n_sources": self.n_sources(),
            "n_skipped": sum(entry.n_skipped for entry in self.sources),
            "skipped": self.skipped(),
            "sources": [
                {**_source_dict(entry), "study": self.study_of(entry)} for entry in self.sources
            ],
        }


def status_of(path: str | os.PathLike[str]) -> Status:
    """Look at a store, also while another process writes it."""
    name = os.fspath(path)
    with reading(name) as db:
        fits = fit_notes(db)
        n_camps, panel = panel_note(db) or (None, "")
        return Status(
            store=name,
            counts=counts(db),
            last_fit=_newest(fits),
            last_full_fit=_newest(one for one in fits if one.how == "full"),
            n_camps=n_camps,
            panel=panel,
            sources=tuple(entries(db)),
            writer=holder(name),
            studies=tuple(studies(db)),
            facts=service_facts(db),
        )


def _newest(fits: Iterable[FitNote]) -> FitNote | None:
    return max(fits, key=lambda one: one.at, default=None)


def iso(at: float) -> str:
    """A moment in a document."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _fit_dict(note: FitNote | None) -> dict[str, Any] | None:
    return None if note is None else {**asdict(note), "at": iso(note.at)}


def _study_dict(study: StudyEntry) -> dict[str, Any]:
    return {
        "name": study.name,
        "n_comparisons": study.n_comparisons,
        "questions": [one._asdict() for one in study.questions],
    }


def _source_dict(entry: SourceEntry) -> dict[str, Any]:
    shown = (
        "name", "kind", "status", "reason", "at", "adapter", "options", "offset", "sha256",
        "n_rows", "n_skipped", "skipped", "notes",
    )  # fmt: skip
    return {name: getattr(entry, name) for name in shown} | {"at": iso(entry.at)}
