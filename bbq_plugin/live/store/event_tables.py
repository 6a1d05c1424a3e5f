"""The tables of events: what a server was told and has not yet worked off."""

from __future__ import annotations

EVENTS = """
    -- An event is here from its receipt until its answers are in; a refused one stays, with why.
    CREATE TABLE event (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at REAL NOT NULL,
        body BLOB NOT NULL,
        reason TEXT
    ) STRICT;
    CREATE INDEX event_open ON event (id) WHERE reason IS NULL;

    -- Which answer belongs to which task: a deleted task takes its answers along.
    CREATE TABLE task_answer (
        task TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (task, key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX task_answer_key ON task_answer (key);
    """

EVENT_PLANS = """
    -- How the answers of a project are read, as its first events told: `/predict` asks for it.
    CREATE TABLE event_plan (project TEXT PRIMARY KEY, plan TEXT NOT NULL) STRICT, WITHOUT ROWID;
    """
