"""Votes in a table of PostgreSQL: read once, or followed while others write and servers end."""

from __future__ import annotations

import os
import random
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

import bbq_plugin as bbq
from bbq_plugin.cli import main
from bbq_plugin.errors import FormatError, RemoteError, UsageError
from bbq_plugin.store import Store
from tests.database_server import PASSWORD, READER, DatabaseServer, running_server
from tests.live.watch.running import Nursery, Place

if TYPE_CHECKING:
    from collections.abc import Iterator

psycopg = pytest.importorskip("psycopg")

# Twice as often as each command is killed: 10 times, and 100 times by `make soak`.
KILLS = 2 * int(os.environ.get("BBQ_TEST_KILL_EACH", "5"))
ITEMS = ("ape", "bee", "cat", "dog; DROP TABLE votes", 'e"l/k')
TABLE = (
    "CREATE TABLE votes (id bigserial PRIMARY KEY, judge text, model_a text, model_b text, "
    "winner text, updated_at timestamptz NOT NULL DEFAULT now(), note jsonb)"
)


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with running_server() as found:
        yield found


@pytest.fixture
def votes(server: DatabaseServer) -> Iterator[Any]:
    """The owner's connection, with an empty table of votes."""
    with server.connect(autocommit=True) as db:
        db.execute("DROP TABLE IF EXISTS votes CASCADE")
        db.execute(TABLE)
        db.execute(f"GRANT SELECT ON votes TO {READER}")
        yield db


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def vote(chance: random.Random) -> tuple[str, str, str, str]:
    a, b = chance.sample(ITEMS, 2)
    return f"judge-{chance.randrange(5)}", a, b, chance.choice(["model_a", "model_b", "tie"])


INSERT = "INSERT INTO votes (judge, model_a, model_b, winner) VALUES (%s, %s, %s, %s)"


def fill(db: Any, n: int, seed: int = 1) -> None:
    chance = random.Random(seed)  # noqa: S311 (no secret)
    with db.cursor() as cursor:
        cursor.executemany(INSERT, [vote(chance) for _ in range(n)])


class TablePlace(Place):
    """A daemon on a table instead of a folder."""

    def __init__(
        self, nursery: Nursery, top: Path, server: DatabaseServer, **settings: object
    ) -> None:
        self.address = server.address()
        fast = {"poll_s": 0.1, "reconcile_s": 0.5, "table": "votes", "changed": "updated_at"}
        super().__init__(nursery, top, priors="paper", **{**fast, **settings})

    def arguments(self, *more: str) -> list[str]:
        given = super().arguments(*more)
        given[1] = self.address
        return given


@pytest.fixture
def place(nursery: Nursery, server: DatabaseServer, tmp_path: Path) -> Iterator[TablePlace]:
    found = TablePlace(nursery, tmp_path, server)
    found.environment["PGPASSWORD"] = PASSWORD
    yield found
    if found.pid is not None:
        found.end(signal.SIGKILL)


CODES = {"model_a": 0, "model_b": 1, "tie": 2}


def in_table(db: Any) -> dict[str, tuple[str, str, str, int]]:
    """What each row says, by its key."""
    rows = db.execute("SELECT id, judge, model_a, model_b, winner FROM votes").fetchall()
    return {str(key): (who, a, b, CODES[said]) for key, who, a, b, said in rows if said in CODES}


def in_store(path: Path) -> dict[str, tuple[str, str, str, int]]:
    with Store(path, writable=False) as store:
        assert store.check() == []
        rows = store.rows(
            "SELECT c.key, r.name, a.name, b.name, c.outcome FROM comparison c "
            "JOIN rater r ON r.id = c.rater JOIN item a ON a.id = c.left "
            "JOIN item b ON b.id = c.right",
            (),
        )
    assert len({key for key, *_ in rows}) == len(rows)
    return {key.rpartition(":")[2]: (who, a, b, said) for key, who, a, b, said in rows}


# -- read once


def test_a_table_gives_what_a_file_of_its_rows_gives(
    server: DatabaseServer, votes: Any, tmp_path: Path
) -> None:
    fill(votes, 300)
    found = bbq.read(server.address(), table="votes")
    file = tmp_path / "votes.jsonl"
    with votes.cursor() as cursor:
        cursor.execute("SELECT row_to_json(v)::text FROM votes v")
        file.write_text("".join(f"{line}\n" for (line,) in cursor))
    same = bbq.read(file)
    assert found.n_comparisons == same.n_comparisons == 300
    assert bbq.fit(found).theta == pytest.approx(bbq.fit(same).theta, abs=1e-12)


def test_fit_inspect_and_prepare_take_the_address_of_a_database(
    server: DatabaseServer, votes: Any, tmp_path: Path
) -> None:
    fill(votes, 200)
    address, table = server.address(), ("--table", "votes")
    assert "cat" in run("fit", address, *table).stdout
    assert "model_a" in run("inspect", address, *table).stdout
    columns = ("-O", "left=model_a", "-O", "right=model_b", "-O", "winner=winner")
    for name, more in (("own", ()), ("named", (*columns, "-O", "rater=judge"))):
        folder = tmp_path / f"{name}.bbq"
        done = run("prepare", address, *table, *more, "-o", str(folder))
        assert "200 comparisons" in done.stderr
        assert bbq.open_dataset(folder).n_comparisons == 200


def test_what_is_missing_is_said_with_the_remedy(server: DatabaseServer, votes: Any) -> None:
    address = server.address()
    with pytest.raises(UsageError, match=r"Name it with --table \(there are: votes\)"):
        bbq.read(address)
    with pytest.raises(UsageError, match=r"there is no such table; did you mean 'votes'\?"):
        bbq.read(address, table="vote")
    votes.execute(f"REVOKE SELECT ON votes FROM {READER}")  # noqa: S608 (a constant)
    with pytest.raises(FormatError, match=r"permission denied for table votes.*GRANT SELECT"):
        bbq.read(address, table="votes")
    with pytest.raises(RemoteError, match="the database cannot be reached"):
        bbq.read("postgresql://reader@127.0.0.1:1/arena", table="votes")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://reader:hunter2@127.0.0.1/arena",
        "postgresql://127.0.0.1/arena?user=reader&password=hunter2",
        "postgres://reader:hunter2@[::1/arena",
    ],
)
@pytest.mark.parametrize("command", ["fit", "watch", "prepare"])
def test_an_address_with_a_password_is_refused_and_not_repeated(
    command: str, address: str, tmp_path: Path
) -> None:
    out = {
        "fit": (), "watch": ("--store", f"{tmp_path}/s.db", "--out", f"{tmp_path}/out"),
        "prepare": ("-o", f"{tmp_path}/v.bbq"),
    }  # fmt: skip
    done = run(command, address, "--table", "votes", *out[command])
    assert done.exit_code == 2
    assert "hunter2" not in done.output
    assert "PGPASSWORD" in done.output or "cannot be understood" in done.output


def test_a_wrong_password_is_said_and_not_shown(
    server: DatabaseServer, votes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    del votes
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    done = run("fit", server.address(), "--table", "votes")
    assert done.exit_code == 1
    assert "password authentication failed" in done.output
    assert "hunter2" not in done.output


def test_the_password_may_be_in_a_file(
    server: DatabaseServer, votes: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fill(votes, 100)
    file = tmp_path / "pgpass"
    file.write_text(f"*:*:*:{READER}:{PASSWORD}\n")
    file.chmod(0o600)
    monkeypatch.delenv("PGPASSWORD")
    monkeypatch.setenv("PGPASSFILE", str(file))
    assert bbq.read(server.address(), table="votes").n_comparisons == 100


# -- followed


def test_rows_that_come_change_and_go_are_followed(place: TablePlace, votes: Any) -> None:
    fill(votes, 50)
    place.start()
    place.await_count(50)
    fill(votes, 10, seed=2)
    place.await_count(60)
    votes.execute("UPDATE votes SET winner = 'tie', updated_at = now() WHERE id <= 5")
    place.wait_until(lambda: in_store(place.store) == in_table(votes), "changed rows")
    votes.execute("DELETE FROM votes WHERE id > 55")
    place.await_count(55)
    # A row that no longer says who won has no answer.
    votes.execute("UPDATE votes SET winner = NULL, updated_at = now() WHERE id = 7")
    place.await_count(54)
    # What no change time tells of is found by comparing.
    votes.execute("UPDATE votes SET winner = 'model_b' WHERE id = 9")
    votes.execute("UPDATE votes SET judge = 'new', updated_at = '2001-01-01' WHERE id = 10")
    place.wait_until(lambda: in_store(place.store) == in_table(votes), "rows changed in silence")
    assert place.end() == 0
    assert PASSWORD not in place.log.read_text()
    assert PASSWORD.encode() not in place.store.read_bytes()
    assert PASSWORD not in (place.out / "report.json").read_text()


def test_without_a_column_of_changes_each_poll_compares_the_table(
    place: TablePlace, votes: Any
) -> None:
    del place.settings["changed"]
    fill(votes, 30)
    place.start()
    place.await_count(30)
    votes.execute("UPDATE votes SET winner = 'tie' WHERE id = 3")
    votes.execute("DELETE FROM votes WHERE id = 4")
    place.await_count(29)
    assert in_store(place.store) == in_table(votes)
    assert place.end() == 0


def test_the_mapping_is_kept_with_the_study(place: TablePlace, votes: Any) -> None:
    votes.execute("ALTER TABLE votes RENAME COLUMN model_a TO x1")
    votes.execute("ALTER TABLE votes RENAME COLUMN model_b TO x2")
    votes.execute("ALTER TABLE votes RENAME COLUMN winner TO w")
    with votes.cursor() as cursor:
        chance = random.Random(3)  # noqa: S311 (no secret)
        rows = [vote(chance) for _ in range(40)]
        cursor.executemany(
            "INSERT INTO votes (judge, x1, x2, w) VALUES (%s, %s, %s, %s)", rows
        )  # fmt: skip
    columns = ["left=x1", "right=x2", "winner=w", "rater=judge"]
    values = ["values=model_a=left,model_b=right,tie=tie"]
    place.start("--once", *(word for one in (*columns, *values) for word in ("-O", one)))
    assert place.end(None) == 0
    assert place.reported() == 40
    votes.execute("DELETE FROM votes WHERE id <= 10")
    assert place.once() == 0
    assert place.reported() == 30


def test_a_row_that_cannot_be_read_is_named_and_others_wait_for_it(
    place: TablePlace, votes: Any
) -> None:
    fill(votes, 20)
    place.start()
    place.await_count(20)
    votes.execute("UPDATE votes SET winner = 'modelX', updated_at = now() WHERE id = 11")
    said = place.await_said("table_refused")
    assert "id=11" in said["reason"]
    assert "modelX" in said["reason"]
    votes.execute("UPDATE votes SET winner = 'tie', updated_at = now() WHERE id = 11")
    place.wait_until(lambda: in_store(place.store) == in_table(votes), "the row is mended")
    assert place.end() == 0


def test_a_table_without_a_key_asks_for_one(place: TablePlace, votes: Any) -> None:
    fill(votes, 20)
    votes.execute("ALTER TABLE votes DROP CONSTRAINT votes_pkey")
    assert place.once() == 2
    assert "-O key=COLUMN" in place.log.read_text()
    place.start("--once", "-O", "key=judge")
    assert place.end(None) == 1
    assert "the key does not name one row: judge=" in place.log.read_text()
    place.start("--once", "-O", "key=id")
    assert place.end(None) == 0
    assert in_store(place.store) == in_table(votes)


# -- while everything ends


class Client(threading.Thread):
    """Inserts, changes and deletes votes; some transactions are long, some are rolled back."""

    def __init__(self, server: DatabaseServer, seed: int) -> None:
        super().__init__()
        self._server, self._random, self._ending = server, random.Random(seed), threading.Event()  # noqa: S311 (no secret)
        self.n_done = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._ending.is_set():
                # The server may be away, or take what is under way with it.
                with suppress(psycopg.OperationalError), self._server.connect() as db:
                    while not self._ending.is_set():
                        self._change(db)
        except BaseException as error:
            self.failure = error
            raise

    def _change(self, db: Any) -> None:
        chance = self._random
        for _ in range(chance.randint(1, 3)):
            known = "SELECT id FROM votes ORDER BY random() LIMIT 1"
            what = chance.random()
            if what < 0.5:
                db.execute(INSERT, vote(chance))
            elif what < 0.8:
                new = "judge = %s, model_a = %s, model_b = %s, winner = %s, updated_at = now()"
                db.execute(f"UPDATE votes SET {new} WHERE id = ({known})", vote(chance))  # noqa: S608
            else:
                db.execute(f"DELETE FROM votes WHERE id = ({known})")  # noqa: S608 (a constant)
            # Other transactions that began later are done before this one.
            self._ending.wait(chance.uniform(0, 0.05))
        db.rollback() if chance.random() < 0.1 else db.commit()
        self.n_done += 1

    def end(self) -> None:
        self._ending.set()
        self.join()
        if self.failure is not None:
            raise self.failure


def test_killed_daemons_and_a_restarted_server_leave_the_store_equal_to_the_table(
    place: TablePlace, server: DatabaseServer, votes: Any
) -> None:
    fill(votes, 100)
    votes.close()
    chance = random.Random(15)  # noqa: S311 (no secret)
    clients = [Client(server, seed) for seed in range(4)]
    for client in clients:
        client.start()
    try:
        for kill in range(KILLS):
            # Cut off soon after the start, or at work: the clients see to it that there is some.
            place.start(cpu_s=chance.uniform(0.001, 0.3 if kill % 2 else 1.0))
            if kill % 5 == 2:
                server.stop(chance.choice(["fast", "immediate"]))
                server.start()
            assert place.end(None) == -signal.SIGPROF, place.log.read_text()[-2000:]
    finally:
        for client in clients:
            client.end()
    assert min(client.n_done for client in clients) > 0
    with server.connect(autocommit=True) as db:
        place.start()
        place.wait_until(lambda: in_store(place.store) == in_table(db), "the store is the table")
        place.await_count(len(in_table(db)))
        assert place.end() == 0
        place.store.unlink()
        assert place.once() == 0
        assert in_store(place.store) == in_table(db)
