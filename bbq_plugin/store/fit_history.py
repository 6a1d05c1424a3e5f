"""When a store was fitted, and the leaderboard of each time."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from bbq_plugin.data.records import HistoryItem, HistoryPoint, spread

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
