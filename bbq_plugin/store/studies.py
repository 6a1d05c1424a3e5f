"""The studies of a store: names, the questions they belong to, the history of their fits."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from bbq_plugin.data.records import HistoryItem, HistoryPoint, spread
from bbq_plugin.errors import UsageError, did_you_mean
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable


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
