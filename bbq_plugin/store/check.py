"""Whether a store is whole: SQLite's own check, and what this project promises beyond it."""

from __future__ import annotations

import sqlite3

import numpy as np

from bbq_plugin.errors import StoreError
from bbq_plugin.store import columns


def problems(db: sqlite3.Connection) -> list[str]:
    """Everything that is wrong, in words."""
    found = [text for (text,) in db.execute("PRAGMA integrity_check") if text != "ok"]
    if found:
        return found
    for what, sql in _QUESTIONS.items():
        (n,) = db.execute(sql).fetchone()
        if n:
            found.append(f"{n:,} {what}")
    return found + _column_problems(db)


_QUESTIONS = {
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
    return ["the columns and the rows differ; 'bbq store vacuum' writes the columns anew"]
