"""A store with flipped bytes, cut off or overwritten: an error that says so, never a traceback."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import bbq_plugin as bbq
from bbq_plugin.errors import DataError, StoreError, UsageError
from bbq_plugin.live.engine import Engine
from bbq_plugin.report.history import history_rows
from bbq_plugin.store import Store, coded_columns, read_store
from tests.store.stores import run

if TYPE_CHECKING:
    from collections.abc import Callable

# Fewer only while working on this test.
FLIPS = int(os.environ.get("BBQ_TEST_FLIPS", "120"))


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store with something in most tables."""
    path = tmp_path_factory.mktemp("damage") / "s.db"
    with pytest.MonkeyPatch.context() as patch, Engine(path) as engine:
        patch.setattr(coded_columns, "CHUNK_ROWS", 64)
        engine.add(list(bbq.simulate(items=5, raters=6, comparisons=300, seed=1).comparisons()))
        tagged = [
            bbq.Comparison(
                f"t{i}", "ann", "item 1", "item 2", "tie", 1.0, None, i, 2.0, {"l": "en"}
            )
            for i in range(30)
        ]
        engine.add(tagged)
        engine.retract(["t1"])
        engine.refresh(full=True)
        engine.store.add_history(1.0, 329, "full", history_rows(bbq.leaderboard(engine.fit)))
        engine.store.keep_excluded(["ann"])
        engine.store.vacuum()
    return path.read_bytes()


def _commands(path: Path) -> None:
    for words in (["status"], ["store", "check"], ["store", "export"]):
        # Whatever is no error of this package comes through as it is.
        result = run(*words, "--store", path)
        assert result.exit_code in (0, 1)
        said = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
        assert len(said) == result.exit_code


def _read(path: Path) -> None:
    data = read_store(path)
    assert data.triples.weight.size


def _read_some(path: Path) -> None:
    with suppress(UsageError):  # the tag itself may be what is damaged
        read_store(path, where={"l": "en"})


def _write(path: Path) -> None:
    with Engine(path) as engine:
        engine.store.history()
        engine.store.excluded()
        engine.add(bbq.Comparison("new", "ann", "item 1", "item 2", "left"))
        engine.retract("t2")
        assert engine.data.n_comparisons


def _vacuum(path: Path) -> None:
    with Store(path) as store:
        store.vacuum()


USES: tuple[Callable[[Path], None], ...] = (_commands, _read, _read_some, _write, _vacuum)


def outcomes(path: Path, damaged: bytes) -> list[Exception]:
    """What each use makes of a damaged store: nothing, or an error meant for people."""
    found: list[Exception] = []
    for use in USES:
        for end in ("-wal", "-shm"):
            Path(f"{path}{end}").unlink(missing_ok=True)
        path.write_bytes(damaged)
        try:
            use(path)
        except (StoreError, DataError) as error:
            found.append(error)
    return found


def test_a_flipped_byte_anywhere_gives_no_traceback(tmp_path: Path, content: bytes) -> None:
    chance = random.Random(5)  # noqa: S311 (no secret)
    places = [*range(0, 108, 4), *(chance.randrange(len(content)) for _ in range(FLIPS))]
    errors = []
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= chance.randrange(1, 256)
        errors += outcomes(tmp_path / "s.db", bytes(damaged))
    assert any("damaged" in str(error) for error in errors)


# Found by flipping bytes: a schema that is no UTF-8, an outcome that is none, a fit that is no
# JSON, a code of no item.
@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("UPDATE comparison SET outcome = 40 WHERE key = 't3'", "damaged"),
        ("UPDATE comparison SET left = 99999 WHERE key = 't3'", "damaged"),
        ("UPDATE comparison SET rater = 99999 WHERE key = 't3'", "damaged"),
        ("UPDATE comparison SET tags = '{\"l\": 3' WHERE key = 't3'", "damaged"),
        ("UPDATE fit SET data = CAST('{\"model\": ' AS BLOB)", "damaged"),
        ("UPDATE source SET skipped = '{'", "damaged"),
        ("UPDATE note SET value = '{'", "damaged"),
        ("DELETE FROM counter", "damaged"),
    ],
)
def test_a_value_that_was_never_written_is_named_as_damage(
    tmp_path: Path, content: bytes, sql: str, message: str
) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(content)
    with Store(path) as store:
        # Rows that no chunk has are read as they are.
        store.db.execute("DELETE FROM chunk")
        store.db.execute("DELETE FROM removed")
        store.db.execute(sql)
    errors = outcomes(path, path.read_bytes())
    assert any(message in str(error) for error in errors)


def test_a_schema_that_is_no_text_is_named_as_damage(tmp_path: Path, content: bytes) -> None:
    damaged = content.replace(b"CREATE TABLE rater", b"CREATE TABLE r\xc8ter")
    assert damaged != content
    errors = outcomes(tmp_path / "s.db", damaged)
    assert len(errors) == len(USES) - 1
    assert all("s.db: " in str(error) for error in errors)


@pytest.mark.parametrize("end", ["cut", "zeros", "text"])
def test_a_store_that_is_not_all_there_gives_no_traceback(
    tmp_path: Path, content: bytes, end: str
) -> None:
    for part in (100, 4096, len(content) // 2, len(content) - 1):
        rest = len(content) - part
        more = {"cut": b"", "zeros": bytes(rest), "text": b"x" * rest}[end]
        outcomes(tmp_path / "s.db", content[:part] + more)
