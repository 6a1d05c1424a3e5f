"""The tables of pull and push: how far a project was read, and what was written to it."""

from __future__ import annotations

REMOTE = """
    -- A project on a server; `state` is where its tool goes on reading.
    CREATE TABLE remote (
        id INTEGER PRIMARY KEY,
        tool TEXT NOT NULL,
        project INTEGER NOT NULL,
        url TEXT NOT NULL,
        options TEXT NOT NULL DEFAULT '{}',  -- of the adapter, as the user gave them
        state TEXT NOT NULL DEFAULT '{}',
        at REAL NOT NULL,
        UNIQUE (tool, project)
    ) STRICT;

    -- Its tasks as they were last read, so that what is gone is noticed.
    CREATE TABLE remote_task (
        remote INTEGER NOT NULL REFERENCES remote,
        task INTEGER NOT NULL,
        stamp TEXT NOT NULL,                 -- when it changed, as the server writes it
        n_answers INTEGER NOT NULL,
        n_cancelled INTEGER NOT NULL,
        keys TEXT NOT NULL,                  -- of its answers
        PRIMARY KEY (remote, task)
    ) STRICT, WITHOUT ROWID;

    -- Every write to it, put down before it is done.
    CREATE TABLE journal (
        id INTEGER PRIMARY KEY,
        remote INTEGER NOT NULL REFERENCES remote,
        kind TEXT NOT NULL,
        target TEXT NOT NULL,
        reason TEXT NOT NULL,
        before TEXT NOT NULL,                -- null: it was not there
        after TEXT NOT NULL,
        ref INTEGER,
        state TEXT NOT NULL,                 -- begun, done, undoing, undone, void
        at REAL NOT NULL,
        settled_at REAL
    ) STRICT;
    CREATE INDEX journal_state ON journal (remote, state);
    """

NOTES = """
    -- What is to be known after a restart and has no table of its own, as JSON.
    CREATE TABLE note (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
    """
