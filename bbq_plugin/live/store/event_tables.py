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

TOLD_TASKS = """
    -- Tasks that events have told of and no page of a pull: few, where answers are many. A pull
    -- asks for them, since nobody else would notice that they were deleted.
    CREATE TABLE told_task (
        project INTEGER NOT NULL, task INTEGER NOT NULL, PRIMARY KEY (project, task)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO told_task
    SELECT DISTINCT project, own FROM (
        SELECT task, CAST(substr(task, 4) AS INTEGER) AS project,
            CAST(substr(task, instr(task, ':task:') + 6) AS INTEGER) AS own
        FROM task_answer
    ) a
    WHERE task = 'ls:' || project || ':task:' || own AND NOT EXISTS (
        SELECT 1 FROM remote r CROSS JOIN remote_task t
        WHERE r.project = a.project AND t.remote = r.id AND t.task = a.own
    );
    """

EVENT_PLANS = """
    -- How the answers of a project are read, as its first events told: `/predict` asks for it.
    CREATE TABLE event_plan (project TEXT PRIMARY KEY, plan TEXT NOT NULL) STRICT, WITHOUT ROWID;
    """
