"""The tables, in the order in which they came, and the version that they are at.

M008_STUDIES has changed some of them. A new store runs all migrations, an older one those that it
has not seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

M001_ANSWERS = """
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE rater (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;

-- Where answers come from, as it is now; `ledger` has how it came to be so.
CREATE TABLE source (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,                  -- file, call, hook, webhook, pull
    name TEXT NOT NULL,
    status TEXT NOT NULL,                -- read, copy, waiting, refused
    reason TEXT,
    sha256 TEXT,                         -- of the first `offset` bytes
    offset INTEGER NOT NULL DEFAULT 0,
    lines INTEGER NOT NULL DEFAULT 0,    -- in these bytes
    stamp TEXT,                          -- device, inode, size and time when last looked at
    adapter TEXT,
    why TEXT,
    options TEXT,
    n_rows INTEGER NOT NULL DEFAULT 0,
    n_skipped INTEGER NOT NULL DEFAULT 0,
    skipped TEXT NOT NULL DEFAULT '{}',  -- how many, by reason
    notes TEXT NOT NULL DEFAULT '[]',
    at REAL NOT NULL,
    UNIQUE (kind, name)
) STRICT;
CREATE INDEX source_content ON source (sha256);

-- One row for every time that something was read; never changed afterwards.
CREATE TABLE ledger (
    id INTEGER PRIMARY KEY,
    source INTEGER NOT NULL REFERENCES source,
    status TEXT NOT NULL,
    reason TEXT,
    sha256 TEXT,
    start INTEGER NOT NULL,              -- from this byte
    offset INTEGER NOT NULL,             -- up to this one
    first_id INTEGER NOT NULL,           -- the comparisons that it brought are among these
    last_id INTEGER NOT NULL,
    n_rows INTEGER NOT NULL,
    n_new INTEGER NOT NULL,
    n_changed INTEGER NOT NULL,
    n_retracted INTEGER NOT NULL,
    n_skipped INTEGER NOT NULL,
    at REAL NOT NULL
) STRICT;
CREATE INDEX ledger_source ON ledger (source);
CREATE INDEX ledger_content ON ledger (sha256);

-- An answer that changes gets a new id, so what is new since a moment has a higher one.
CREATE TABLE comparison (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    twin INTEGER NOT NULL DEFAULT 0,     -- others under the same key, of a pair and no vote
    slate TEXT,                          -- '' where it is the key itself
    rater INTEGER,
    left INTEGER NOT NULL,
    right INTEGER NOT NULL,
    outcome INTEGER NOT NULL,            -- 0 left, 1 right, 2 tie, 3 both_bad
    weight REAL NOT NULL DEFAULT 1.0,
    at REAL,
    time_s REAL,
    version REAL,
    tags TEXT,
    source INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX comparison_key ON comparison (key, twin);
CREATE INDEX comparison_slate ON comparison (slate) WHERE slate > '';
CREATE INDEX comparison_twin ON comparison (key) WHERE twin > 0;
-- Comparisons that another source brought, and this one said last.
CREATE TABLE adopted (
    source INTEGER NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (source, id)
) STRICT, WITHOUT ROWID;

-- What was taken back, so that an older record of it does not bring it back.
CREATE TABLE retracted (
    key TEXT NOT NULL, at REAL NOT NULL, version REAL NOT NULL, PRIMARY KEY (key, at)
) STRICT, WITHOUT ROWID;
-- Prefixes of keys of which a full export told everything, as of the newest change in it.
CREATE TABLE whole (prefix TEXT PRIMARY KEY, as_of REAL NOT NULL, source INTEGER) STRICT;

-- Comparisons again as columns, for a quick start; `removed` are those of them that are gone.
CREATE TABLE chunk (
    first_id INTEGER PRIMARY KEY, last_id INTEGER NOT NULL, n INTEGER NOT NULL,
    data BLOB NOT NULL, crc INTEGER NOT NULL
) STRICT;
CREATE TABLE removed (id INTEGER PRIMARY KEY) STRICT;

CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
INSERT INTO counter VALUES ('last_id', 0), ('n_comparisons', 0);

CREATE TABLE fit (id INTEGER PRIMARY KEY CHECK (id = 1), at REAL NOT NULL, data BLOB NOT NULL)
STRICT;
CREATE TABLE history (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, n_comparisons INTEGER NOT NULL, how TEXT NOT NULL
) STRICT;
CREATE TABLE history_item (
    history INTEGER NOT NULL REFERENCES history ON DELETE CASCADE,
    item INTEGER NOT NULL, rating REAL NOT NULL, lower REAL, upper REAL, rank INTEGER NOT NULL,
    PRIMARY KEY (history, item)
) STRICT, WITHOUT ROWID;
"""

M002_PROJECTS = """
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

M003_EVENTS = """
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

# Columns with more in them: `migrate` writes them again from the rows.
M004_COLUMNS = """
DELETE FROM chunk;
DELETE FROM removed;
"""

M005_EVENT_PLANS = """
-- How the answers of a project are read, as its first events told: `/predict` asks for it.
CREATE TABLE event_plan (project TEXT PRIMARY KEY, plan TEXT NOT NULL) STRICT, WITHOUT ROWID;
"""

M006_NOTES = """
-- What is to be known after a restart and has no table of its own, as JSON.
CREATE TABLE note (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
"""

M007_TOLD_TASKS = """
-- Tasks that events have told of and no page of a pull: few, where answers are many. A pull
-- asks for them, since nothing else would tell that they were deleted.
CREATE TABLE told_task (
    project INTEGER NOT NULL, task INTEGER NOT NULL, PRIMARY KEY (project, task)
) STRICT, WITHOUT ROWID;
INSERT INTO told_task
SELECT DISTINCT project, own FROM (
    SELECT task, substr(task, 1, instr(task, ':')) AS tool,
        CAST(substr(task, instr(task, ':') + 1) AS INTEGER) AS project,
        CAST(substr(task, instr(task, ':task:') + 6) AS INTEGER) AS own
    FROM task_answer
) a
WHERE task = tool || project || ':task:' || own AND NOT EXISTS (
    SELECT 1 FROM remote r CROSS JOIN remote_task t
    WHERE r.project = a.project AND t.remote = r.id AND t.task = a.own
);

-- The first stores of version 1 lack these.
CREATE INDEX IF NOT EXISTS ledger_content ON ledger (sha256);
CREATE INDEX IF NOT EXISTS comparison_twin ON comparison (key) WHERE twin > 0;
CREATE TABLE IF NOT EXISTS adopted (
    source INTEGER NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (source, id)
) STRICT, WITHOUT ROWID;
"""

M008_STUDIES = """
-- A study: answers to one question, of one or several projects, which are fitted together. A key
-- names an answer within its study. All that was there before is one study.
CREATE TABLE study (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, n_comparisons INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO study SELECT 1, 'main', value FROM counter WHERE name = 'n_comparisons';
-- The counts of the studies are its sum.
DELETE FROM counter WHERE name = 'n_comparisons';

-- Which study a question of a project belongs to; a question is called by its control.
CREATE TABLE study_question (
    project TEXT NOT NULL, question TEXT NOT NULL, study INTEGER NOT NULL REFERENCES study,
    title TEXT NOT NULL DEFAULT '',      -- of the project
    PRIMARY KEY (project, question)
) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO study_question (project, question, study)
SELECT project, question, 1 FROM (
    SELECT CAST(project AS TEXT) AS project,
        (SELECT group_concat(value) FROM json_each(state, '$.plan.controls')) AS question
    FROM remote UNION ALL
    SELECT project, (SELECT group_concat(value) FROM json_each(plan, '$.controls'))
    FROM event_plan
) WHERE question IS NOT NULL;

ALTER TABLE comparison ADD COLUMN study INTEGER NOT NULL DEFAULT 1;
DROP INDEX comparison_key;
CREATE UNIQUE INDEX comparison_key ON comparison (study, key, twin);

CREATE TABLE new_retracted (
    study INTEGER NOT NULL, key TEXT NOT NULL, at REAL NOT NULL, version REAL NOT NULL,
    PRIMARY KEY (study, key, at)
) STRICT, WITHOUT ROWID;
INSERT INTO new_retracted SELECT 1, key, at, version FROM retracted;
DROP TABLE retracted;
ALTER TABLE new_retracted RENAME TO retracted;

CREATE TABLE new_whole (
    study INTEGER NOT NULL, prefix TEXT NOT NULL, as_of REAL NOT NULL, source INTEGER,
    PRIMARY KEY (study, prefix)
) STRICT;
INSERT INTO new_whole SELECT 1, prefix, as_of, source FROM whole;
DROP TABLE whole;
ALTER TABLE new_whole RENAME TO whole;

CREATE TABLE new_source (
    id INTEGER PRIMARY KEY,
    study INTEGER NOT NULL,
    kind TEXT NOT NULL,                  -- file, call, hook, webhook, pull
    name TEXT NOT NULL,
    status TEXT NOT NULL,                -- read, copy, waiting, refused
    reason TEXT,
    sha256 TEXT,                         -- of the first `offset` bytes
    offset INTEGER NOT NULL DEFAULT 0,
    lines INTEGER NOT NULL DEFAULT 0,    -- in these bytes
    stamp TEXT,                          -- device, inode, size and time when last looked at
    adapter TEXT,
    why TEXT,
    options TEXT,
    n_rows INTEGER NOT NULL DEFAULT 0,
    n_skipped INTEGER NOT NULL DEFAULT 0,
    skipped TEXT NOT NULL DEFAULT '{}',  -- how many, by reason
    notes TEXT NOT NULL DEFAULT '[]',
    at REAL NOT NULL,
    UNIQUE (study, kind, name)
) STRICT;
INSERT INTO new_source
SELECT id, 1, kind, name, status, reason, sha256, offset, lines, stamp, adapter, why, options,
    n_rows, n_skipped, skipped, notes, at
FROM source;
DROP TABLE source;
ALTER TABLE new_source RENAME TO source;
CREATE INDEX source_content ON source (sha256);

CREATE TABLE new_fit (study INTEGER PRIMARY KEY, at REAL NOT NULL, data BLOB NOT NULL) STRICT;
INSERT INTO new_fit SELECT 1, at, data FROM fit;
DROP TABLE fit;
ALTER TABLE new_fit RENAME TO fit;
ALTER TABLE history ADD COLUMN study INTEGER NOT NULL DEFAULT 1;
CREATE INDEX history_study ON history (study);
UPDATE note SET name = 'excluded 1' WHERE name = 'excluded';
"""

M009_LEAD_WORDS = """
-- What leads have decided about raters, in the order in which they did; the last one holds.
CREATE TABLE lead_word (
    id INTEGER PRIMARY KEY,
    rater TEXT NOT NULL,
    verdict TEXT NOT NULL,               -- keep, exclude; empty: as the model says
    reason TEXT NOT NULL,
    said_by TEXT NOT NULL,
    at REAL NOT NULL
) STRICT;
CREATE INDEX lead_word_rater ON lead_word (rater);
"""

M010_HELD_ANSWERS = """
-- Why answers of a task cannot be read yet: a list with an entry each, or NULL.
ALTER TABLE remote_task ADD COLUMN held TEXT;
-- When events last came, also those that bring no answer.
INSERT INTO note SELECT 'last event', at FROM event ORDER BY id DESC LIMIT 1;
"""

M011_ROWS_OF_TASKS = """
-- How many answers of a task were read, and how many rows were left out, by reason: by study. So a
-- task that is read again is not counted again. The next pull reads all of them.
ALTER TABLE remote_task RENAME COLUMN held TO rows;
UPDATE remote_task SET rows = NULL;
UPDATE source SET n_rows = 0, n_skipped = 0, skipped = '{}' WHERE kind = 'pull';
UPDATE remote SET state = json_remove(state, '$.fingerprint');
"""

#: Each takes a store from its place in this list to the next version.
MIGRATIONS = (
    M001_ANSWERS, M002_PROJECTS, M003_EVENTS, M004_COLUMNS, M005_EVENT_PLANS, M006_NOTES,
    M007_TOLD_TASKS, M008_STUDIES, M009_LEAD_WORDS, M010_HELD_ANSWERS, M011_ROWS_OF_TASKS,
)  # fmt: skip
VERSION = len(MIGRATIONS)

#: The version since which the columns can be read. Before 4 they had no times and tags; stores of 4
#: to 6 have one byte or four for the code of a slate, and do not say which. Those of 7 have all but
#: the study.
COLUMNS_SINCE = 7

#: "BBQ1": what `file` and other programs know a store by.
APPLICATION_ID = 0x42425131


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Bring a store of an earlier version up to this one, in one transaction."""
    if version == VERSION:
        return
    steps = "".join(MIGRATIONS[version:])
    connection.executescript(
        f"BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID}; {steps}"
        f"PRAGMA user_version = {VERSION};"
    )
    if version < COLUMNS_SINCE:
        from bbq_plugin.store import coded_columns  # noqa: PLC0415 (bbq status needs no arrays)

        coded_columns.rewrite(connection)
    connection.execute("COMMIT")
