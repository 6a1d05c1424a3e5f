"""What was read from where, and fitted when: sources, history, and the status of a store."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

import bbq_plugin
from bbq_plugin.data.records import HistoryItem, HistoryPoint, spread
from bbq_plugin.store.lock import holder
from bbq_plugin.store.schema import reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bbq_plugin.store.lock import Holder

SCHEMA = "bbq.status/1"
#: Moments of the history that are kept; beyond, every second one of the older half goes.
MOST_HISTORY = 2000


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
    id: int = 0


@dataclass(frozen=True, slots=True)
class FitNote:
    """When something was fitted, how, and of how many comparisons."""

    at: float
    #: incremental or full.
    how: str
    n_comparisons: int


class Counts(NamedTuple):
    """How much a store holds; names stay known when their comparisons are taken back."""

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
        f"ON CONFLICT (kind, name) DO UPDATE SET {update} RETURNING id"
    )
    return int(db.execute(sql, values).fetchone()[0])


def _entry(row: tuple[Any, ...]) -> SourceEntry:
    values = dict(zip(_COLUMNS, row, strict=True))
    for name in _JSON:
        values[name] = msgspec.json.decode(values[name]) if values[name] else {}
    values["notes"] = tuple(values["notes"])
    return SourceEntry(**values)


def counts(db: sqlite3.Connection) -> Counts:
    """How much there is."""
    sql = (
        "SELECT (SELECT value FROM counter WHERE name = 'n_comparisons'), "
        "(SELECT count(*) FROM item), (SELECT count(*) FROM rater)"
    )
    return Counts(*db.execute(sql).fetchone())


def history(db: sqlite3.Connection, most: int | None = None) -> list[HistoryPoint]:
    """The leaderboard at each refresh, oldest first; at most so many, spread over the answers."""
    points = db.execute("SELECT id, at, n_comparisons, how FROM history ORDER BY id").fetchall()
    if most is not None:
        points = [points[i] for i in spread([n for _, _, n, _ in points], most)]
    items: dict[int, dict[str, HistoryItem]] = {}
    for moment, name, *values in db.execute(
        "SELECT h.history, i.name, h.rating, h.lower, h.upper, h.rank FROM history_item h "
        "JOIN item i ON i.id = h.item WHERE h.history IN (SELECT value FROM json_each(?)) "
        "ORDER BY h.history, h.rank",
        (msgspec.json.encode([id_ for id_, *_ in points]).decode(),),
    ):
        items.setdefault(moment, {})[name] = HistoryItem(*values)
    return [HistoryPoint(at, n, how, items.get(id_, {})) for id_, at, n, how in points]


def fit_notes(db: sqlite3.Connection) -> list[FitNote]:
    """The newest point of the history of each kind, and the fit that is kept."""
    found = db.execute(
        "SELECT at, how, n_comparisons FROM history WHERE id IN "
        "(SELECT max(id) FROM history GROUP BY how) UNION ALL "
        "SELECT at, json_extract(CAST(data AS TEXT), '$.how'), "
        "json_extract(CAST(data AS TEXT), '$.n_comparisons') FROM fit"
    )
    return [FitNote(*row) for row in found]


def add_history(
    db: sqlite3.Connection,
    at: float,
    n_comparisons: int,
    how: str,
    rows: Iterable[tuple[int, float, float | None, float | None, int]],
) -> None:
    """Keep the leaderboard of this moment: (item's id, rating, lower, upper, rank)."""
    moment = db.execute(
        "INSERT INTO history (at, n_comparisons, how) VALUES (?, ?, ?)", (at, n_comparisons, how)
    ).lastrowid
    db.executemany(
        "INSERT INTO history_item VALUES (?, ?, ?, ?, ?, ?)", ((moment, *row) for row in rows)
    )
    thin(db)


def thin(db: sqlite3.Connection) -> None:
    """Keep the history from growing without end: the older it is, the fewer moments are kept."""
    (n,) = db.execute("SELECT count(*) FROM history").fetchone()
    if n > MOST_HISTORY:
        db.execute(
            "DELETE FROM history WHERE id IN (SELECT id FROM (SELECT id, row_number() OVER "
            "(ORDER BY id) AS place FROM history) WHERE place <= ? AND place % 2 = 0)",
            (n // 2,),
        )


@dataclass(frozen=True)
class Status:
    """A store at one moment."""

    store: str
    counts: Counts
    #: The newest refresh of all, and the newest full one.
    last_fit: FitNote | None
    last_full_fit: FitNote | None
    #: In the order in which they first came.
    sources: tuple[SourceEntry, ...]
    writer: Holder | None

    def n_sources(self) -> dict[str, int]:
        """How many sources there are, by what became of them."""
        found = Counter(entry.status for entry in self.sources)
        return {word: found[word] for word in ("read", "copy", "waiting", "refused")}

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
            "writer": None if self.writer is None else msgspec.structs.asdict(self.writer),
            "n_sources": self.n_sources(),
            "n_skipped": sum(entry.n_skipped for entry in self.sources),
            "skipped": self.skipped(),
            "sources": [_source_dict(entry) for entry in self.sources],
        }


def status_of(path: str | os.PathLike[str]) -> Status:
    """Look at a store, also while another process writes it."""
    name = os.fspath(path)
    with reading(name) as db:
        fits = fit_notes(db)
        return Status(
            store=name,
            counts=counts(db),
            last_fit=_newest(fits),
            last_full_fit=_newest(one for one in fits if one.how == "full"),
            sources=tuple(entries(db)),
            writer=holder(name),
        )


def _newest(fits: Iterable[FitNote]) -> FitNote | None:
    return max(fits, key=lambda one: one.at, default=None)


def iso(at: float) -> str:
    """A moment in a document."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _fit_dict(note: FitNote | None) -> dict[str, Any] | None:
    return None if note is None else {**asdict(note), "at": iso(note.at)}


def _source_dict(entry: SourceEntry) -> dict[str, Any]:
    shown = (
        "name", "kind", "status", "reason", "at", "adapter", "options", "offset", "sha256",
        "n_rows", "n_skipped", "skipped", "notes",
    )  # fmt: skip
    return {name: getattr(entry, name) for name in shown} | {"at": iso(entry.at)}
