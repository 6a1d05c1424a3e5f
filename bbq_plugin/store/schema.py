"""The tables, the version that they are at, and how a store is opened or refused.

The tables stand here in the order in which they came; M008_STUDIES has changed some of them. A new
store runs all migrations, an older one those that it has not seen.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec

from bbq_plugin.errors import BBQError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

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

# Columns with more in them: `_migrate` writes them again from the rows.
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

#: Each takes a store from its place in this list to the next version.
MIGRATIONS = (
    M001_ANSWERS, M002_PROJECTS, M003_EVENTS, M004_COLUMNS, M005_EVENT_PLANS, M006_NOTES,
    M007_TOLD_TASKS, M008_STUDIES, M009_LEAD_WORDS,
)  # fmt: skip
VERSION = len(MIGRATIONS)

# The version since which the columns can be read. Before 4 they had no times and tags; stores of 4
# to 6 have one byte or four for the code of a slate, and do not say which. Those of 7 have all but
# the study.
_COLUMNS_SINCE = 7
MEMORY = ":memory:"

#: "BBQ1": what `file` and other programs know a store by.
APPLICATION_ID = 0x42425131

# Pages of the index of random keys that stay in memory; without them every insert into a
# store of millions is a read from disk.
_CACHE_KIB = 256 * 1024
_BUSY_MS = 30_000


def connect(path: str, *, writable: bool) -> sqlite3.Connection:
    """Open a store, make one where there is none, and refuse what is not ours or too new."""
    with faults_explained(path):
        connection = opened_for(path, writable=writable)
        connection.create_function("slate_code", 1, slate_code, deterministic=True)
        try:
            _prepare(connection, path, writable=writable)
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def reading(path: str) -> Iterator[sqlite3.Connection]:
    """A connection of its own, to look at one moment of a store; no writer waits for it."""
    check_folder(path, writable=False)
    with closing(connect(path, writable=False)) as connection, faults_explained(path):
        connection.execute("BEGIN")
        yield connection


def slate_code(name: str) -> int:
    """A number for the name of a slate, of which two of one rater hardly share theirs."""
    return 1 + crc32(name.encode()) % (2**31 - 1)


def check_folder(path: str, *, writable: bool) -> None:
    """Refuse a path at which no store can be, before anything is made there."""
    file = Path(path)
    if path == MEMORY:
        return
    if file.is_dir():
        raise StoreError(f"{path}: this is a folder; name a file")
    if not writable and not file.exists():
        raise StoreError(f"{path}: there is no such store; check the path (bbq watch makes one)")
    if not file.parent.is_dir():
        raise StoreError(f"{path}: there is no folder {file.parent}; make it first")


def opened_for(path: str, *, writable: bool) -> sqlite3.Connection:
    """A connection to a file, whatever is in it."""
    if path == MEMORY:
        return sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    file = Path(path)
    if writable and not file.exists():
        # Answers may be confidential: only the owner of the file reads it.
        file.touch(mode=0o600)
    if writable:
        return _opened(file, "mode=rw")
    try:
        return _opened(file, "mode=ro")
    except sqlite3.OperationalError as error:
        if not (error.sqlite_errorname or "").startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")):
            raise
        return _opened_read_only(file)


def _opened(file: Path, how: str) -> sqlite3.Connection:
    uri = f"{file.absolute().as_uri()}?{how}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        # Only a look into it opens the log.
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _opened_read_only(file: Path) -> sqlite3.Connection:
    """Open a store where SQLite cannot make the file by which readers and a writer agree.

    So there is no writer. What one that was killed has left in the log is read from a copy.
    """
    log = file.with_name(f"{file.name}-wal")
    if not log.exists() or not log.stat().st_size:
        return _opened(file, "mode=ro&immutable=1")
    with TemporaryDirectory(prefix="bbq-") as folder:
        copy = Path(folder, file.name)
        shutil.copyfile(file, copy)
        shutil.copyfile(log, copy.with_name(log.name))
        # Open, its files need no names any more.
        return _opened(copy, "mode=ro")


def _prepare(connection: sqlite3.Connection, path: str, *, writable: bool) -> None:
    def pragma(name: str) -> int:
        return int(connection.execute(f"PRAGMA {name}").fetchone()[0])

    version = pragma("user_version")
    fresh = not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    if fresh and not writable:
        raise StoreError(f"{path}: this store is empty; check the path")
    if not fresh and pragma("application_id") != APPLICATION_ID:
        raise StoreError(
            f"{path}: this is a database of another program; name another file for the store"
        )
    if version > VERSION:
        raise StoreError(
            f"{path}: this store has version {version}, and this installation knows versions "
            f"up to {VERSION}; upgrade bbq-plugin, or name another file"
        )
    if writable:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        _migrate(connection, version)
    elif version < VERSION:
        raise StoreError(
            f"{path}: this store has version {version}, older than {VERSION}; "
            f"'bbq store vacuum --store {path}' brings it up to date, and loses nothing"
        )
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    connection.execute("PRAGMA foreign_keys = ON")


def _migrate(connection: sqlite3.Connection, version: int) -> None:
    if version == VERSION:
        return
    steps = "".join(MIGRATIONS[version:])
    connection.executescript(
        f"BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID}; {steps}"
        f"PRAGMA user_version = {VERSION};"
    )
    if version < _COLUMNS_SINCE:
        from bbq_plugin.store import coded_columns  # noqa: PLC0415 (bbq status needs no arrays)

        coded_columns.rewrite(connection)
    connection.execute("COMMIT")


@contextmanager
def faults_explained(path: str) -> Iterator[None]:
    """Inside, a store is read: what goes wrong is an error that names it and the remedy.

    Beside SQLite's own errors these are what a value leads to that this package has not written.
    """
    try:
        yield
    except BBQError:
        raise
    except sqlite3.Error as error:
        raise explained(error, path) from error
    except (msgspec.MsgspecError, LookupError, OverflowError, TypeError, ValueError) as error:
        said = f"cannot be read ({type(error).__name__}: {error})"
        raise StoreError(f"{path}: {said}; {DAMAGED}") from error


DAMAGED = (
    "it is damaged or no store at all, and is left as it is: take a copy, restore a backup (bbq "
    "store restore), or name another file and read the exports again"
)


def blames_store(error: Exception) -> bool:
    """Whether the store or its disk is at fault, and not what was to be written."""
    cause = error.__cause__ if isinstance(error, StoreError) else error
    of_record = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError)
    return isinstance(error, (StoreError, sqlite3.Error)) and not isinstance(cause, of_record)


def explained(error: sqlite3.Error, path: str) -> StoreError:
    """What SQLite says, with what can be done about it."""
    text = str(error)
    name = getattr(error, "sqlite_errorname", "")
    remedy = "the disk or its permissions may be at fault"
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")) or "malformed" in text:
        remedy = DAMAGED
    elif name.startswith("SQLITE_FULL"):
        remedy = "the disk is full: make room; nothing of this batch was stored"
    elif name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        remedy = "it cannot be written: check the permissions, or that the disk is not read-only"
    elif isinstance(error, sqlite3.ProgrammingError):
        remedy = "open it again" if "closed" in text else "this is a fault of the program"
    elif name.startswith("SQLITE_BUSY"):
        remedy = "another program holds it: wait, or end that program"
    return StoreError(f"{path}: {text}; {remedy}")
