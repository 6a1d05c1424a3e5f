"""What was read from where and fitted when: the sources and studies of a store, and its status."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

import bbq_plugin
from bbq_plugin.data.records import UNREAD, HistoryItem, HistoryPoint, spread
from bbq_plugin.errors import StoreError, UsageError, did_you_mean
from bbq_plugin.store.database_file import DAMAGED, holder, reading
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bbq_plugin.store.database_file import Holder


#: Moments of the history that are kept; beyond, every second one of the older half goes.
MOST_HISTORY = 2000


@dataclass(frozen=True, slots=True)
class FitNote:
    """When something was fitted, how, and of how many comparisons."""

    at: float
    #: incremental or full.
    how: str
    n_comparisons: int


def history(db: sqlite3.Connection, study: int, most: int | None = None) -> list[HistoryPoint]:
    """The leaderboard at each refresh, oldest first; at most so many, spread over the answers."""
    points = db.execute(
        "SELECT id, at, n_comparisons, how FROM history WHERE study = ? ORDER BY id", (study,)
    ).fetchall()
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


def panel_note(db: sqlite3.Connection) -> tuple[int, str] | None:
    """How many camps the fit has that is kept, and what is said of them; None without a fit."""
    found = db.execute(
        "SELECT coalesce(json_extract(CAST(data AS TEXT), '$.n_camps'), 1), "
        "coalesce(json_extract(CAST(data AS TEXT), '$.panel'), '') FROM fit"
    ).fetchone()
    return None if found is None else (int(found[0]), str(found[1]))


def add_history(
    db: sqlite3.Connection,
    at: float,
    n_comparisons: int,
    how: str,
    rows: Iterable[tuple[int, float, float | None, float | None, int]],
    study: int,
) -> None:
    """Keep the leaderboard of this moment: (item's id, rating, lower, upper, rank)."""
    moment = db.execute(
        "INSERT INTO history (at, n_comparisons, how, study) VALUES (?, ?, ?, ?)",
        (at, n_comparisons, how, study),
    ).lastrowid
    db.executemany(
        "INSERT INTO history_item VALUES (?, ?, ?, ?, ?, ?)", ((moment, *row) for row in rows)
    )
    thin(db, study)


def thin(db: sqlite3.Connection, study: int) -> None:
    """Keep the history from growing without end: the older it is, the fewer moments are kept."""
    (n,) = db.execute("SELECT count(*) FROM history WHERE study = ?", (study,)).fetchone()
    if n > MOST_HISTORY:
        db.execute(
            "DELETE FROM history WHERE id IN (SELECT id FROM (SELECT id, row_number() OVER "
            "(ORDER BY id) AS place FROM history WHERE study = ?) WHERE place <= ? "
            "AND place % 2 = 0)",
            (study, n // 2),
        )


#: The study of what belongs to no other; stores of before have no other.
MAIN = 1
MAIN_NAME = "main"
# Codes are stored in two bytes; no store of people has a thousand questions.
_MOST = 1000
_LONGEST_NAME = 200
# So many studies are proposed where one has to be named.
_TRIED = 3


class StudyQuestion(NamedTuple):
    """A question of a project, and the project's title."""

    project: str
    question: str
    title: str


@dataclass(frozen=True, slots=True)
class StudyEntry:
    """One study: its number and name, how many comparisons it has, and whose questions."""

    id: int
    name: str
    n_comparisons: int
    questions: tuple[StudyQuestion, ...] = ()

    def asks(self, project: int) -> bool:
        """Whether it has a question of a project."""
        return any(one.project == str(project) for one in self.questions)

    @property
    def described(self) -> str:
        """Projects, titles and controls in a line; empty where no project is known."""
        return "; ".join(
            f"project {one.project}{' ' + repr(plain(one.title)) if one.title else ''}, "
            f"control {plain(one.question)!r}"
            for one in self.questions
        )


def study_ids(db: sqlite3.Connection) -> list[int]:
    """The numbers of all studies."""
    return [own for (own,) in db.execute("SELECT id FROM study ORDER BY id")]


def studies(db: sqlite3.Connection) -> list[StudyEntry]:
    """All studies, in the order in which they came."""
    asked: dict[int, list[StudyQuestion]] = {}
    for study, *rest in db.execute(
        "SELECT study, project, question, title FROM study_question "
        "ORDER BY CAST(project AS INTEGER), project, question"
    ):
        asked.setdefault(study, []).append(StudyQuestion(*rest))
    found = db.execute("SELECT id, name, n_comparisons FROM study ORDER BY id")
    return [StudyEntry(own, name, n, tuple(asked.get(own, ()))) for own, name, n in found]


def checked_study(name: object) -> str:
    """A name that a study may have."""
    if not isinstance(name, str) or not name.strip() or name != plain(name):
        raise UsageError(f"study is {name!r}; expected a name, such as fluency")
    if len(name) > _LONGEST_NAME:
        raise UsageError(f"a study has a name of {len(name):,} characters; shorten it")
    return name


def study_named(db: sqlite3.Connection, name: str) -> int:
    """The number of a study, which is made if there is none of this name."""
    found = db.execute("SELECT id FROM study WHERE name = ?", (checked_study(name),)).fetchone()
    if found:
        return int(found[0])
    made = db.execute("INSERT INTO study (name) VALUES (?) RETURNING id", (name,)).fetchone()[0]
    if made > _MOST:
        raise UsageError(f"the store has {_MOST:,} studies; take another store for {name!r}")
    return int(made)


def chosen_study(db: sqlite3.Connection, name: str | None, path: str) -> int:
    """The number of the study that is to be read; without a name the only one with answers."""
    known = studies(db)
    if name is not None:
        found = next((one for one in known if one.name == name), None)
        if found is None:
            names = [one.name for one in known]
            meant = did_you_mean(name, names) or f"; it has {', '.join(map(plain, names))}"
            raise UsageError(f"{path} has no study {name!r}{meant}")
        return found.id
    filled = [one for one in known if one.n_comparisons]
    if len(filled) > 1:
        listed = ", ".join(f"{plain(one.name)} ({one.n_comparisons:,})" for one in filled)
        error = UsageError(
            f"{path} holds several studies, with so many comparisons: {listed}; name one with "
            "--study, or study= in Python"
        )
        most = sorted(filled, key=lambda one: -one.n_comparisons)
        error.more_words = tuple(("--study", one.name) for one in most[:_TRIED])
        raise error
    return filled[0].id if filled else MAIN


#: Names the study of a project's question, if the user has: by project, question, and whether the
#: project asks no other.
Named = Callable[[str, str, bool], str | None]


def bind(
    db: sqlite3.Connection,
    project: str,
    questions: Sequence[str],
    title: str | None = None,
    named: Named = lambda *_: None,
) -> dict[str, int]:
    """The study of each of a project's questions; made, and remembered, where it has none yet.

    Without a name from the user the only question of the first project of a store belongs to the
    main study; any other gets a study that is called like it.
    """
    of_project = "SELECT question, study FROM study_question WHERE project = ?"
    known: dict[str, int] = dict(db.execute(of_project, (project,)))
    found: dict[str, int] = {}
    for question in questions:
        name = named(project, question, len(questions) == 1)
        own = known.get(question)
        if own is not None:
            own = own if name is None else _renamed(db, own, name)
        elif name is not None:
            own = study_named(db, name)
        else:
            # A control that is called otherwise from now on asks the same.
            before = set(known.values()) if len(questions) == 1 else set()
            if len(before) == 1:
                own = before.pop()
            else:
                own = _unnamed(db, project, question, alone=len(questions) == 1)
        found[question] = own
        db.execute(
            "INSERT INTO study_question VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE "
            "SET study = excluded.study, title = iif(excluded.title = '', title, excluded.title) "
            "WHERE study != excluded.study OR excluded.title NOT IN ('', title)",
            (project, question, own, title or ""),
        )
    return found


def _renamed(db: sqlite3.Connection, study: int, name: str) -> int:
    """A study whose only question the user calls so: its answers are in it already."""
    (now,) = db.execute("SELECT name FROM study WHERE id = ?", (study,)).fetchone()
    if now == name:
        return study
    of_it = "SELECT count(*) FROM study_question WHERE study = ?"
    taken = db.execute("SELECT 1 FROM study WHERE name = ?", (checked_study(name),)).fetchone()
    if taken or db.execute(of_it, (study,)).fetchone()[0] > 1:
        raise UsageError(
            f"answers of this question are in the study {now!r} of the store, and it is to be "
            f"{name!r}; call it {now!r}, or pull into another store"
        )
    db.execute("UPDATE study SET name = ? WHERE id = ?", (name, study))
    return study


def _unnamed(db: sqlite3.Connection, project: str, question: str, *, alone: bool) -> int:
    taken = db.execute("SELECT 1 FROM study_question WHERE study = ? LIMIT 1", (MAIN,)).fetchone()
    if alone and not taken:
        return MAIN
    name = plain(question)[:_LONGEST_NAME].strip() or f"project {project}"
    of_others = (
        "SELECT 1 FROM study s JOIN study_question q ON q.study = s.id WHERE s.name = ? LIMIT 1"
    )
    if db.execute(of_others, (name,)).fetchone():
        name = f"{name[: _LONGEST_NAME - 40]} {project}"
    return study_named(db, name)


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
