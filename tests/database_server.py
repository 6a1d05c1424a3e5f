"""A PostgreSQL of our own, from Debian's package: on a socket in a folder of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.waiting import HANG_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection

OWNER, READER, PASSWORD = "owner", "reader", "se/cr%et"


def programs() -> Path:
    """Where initdb and pg_ctl are; the test is skipped where they are not."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).parent] if on_path else []
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in found:
        if (folder / "initdb").exists() and (folder / "pg_ctl").exists():
            return folder
    pytest.skip("there is no PostgreSQL here; on Debian: apt-get install postgresql")


class DatabaseServer:
    """A server that can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._programs = folder, programs()
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            # It refuses to run as root.
            try:
                who = pwd.getpwnam("postgres")
            except KeyError:
                pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
            os.chown(folder, who.pw_uid, who.pw_gid)
            self._user = {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}
        folder.chmod(0o755)
        secret = folder / "secret"
        secret.write_text(PASSWORD)
        how = ("--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync")
        self._run("initdb", "-D", folder / "data", "-U", OWNER, f"--pwfile={secret}", *how)

    def _run(self, program: str, *words: object) -> None:
        # Its output goes to a file: a server that was started keeps what it inherits open.
        with (self.folder.parent / f"{self.folder.name}.log").open("ab") as log:
            subprocess.run(
                [self._programs / program, *map(str, words)], check=True, cwd="/", timeout=HANG_S,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._user,
            )  # fmt: skip

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses= -c fsync=off -c max_connections=30"
        self._run("pg_ctl", "-D", self.folder / "data", "-w", "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", self.folder / "data", "-w", "-m", mode, "stop")

    def address(self, user: str = READER, database: str = "arena") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def connect(self, database: str = "arena", **more: Any) -> Connection[Any]:
        import psycopg  # noqa: PLC0415 (an extra)

        return psycopg.connect(self.address(OWNER, database), password=PASSWORD, **more)


@contextmanager
def running_server() -> Iterator[DatabaseServer]:
    """A server with the database `arena` and a user who may read and nothing else."""
    folder = Path(tempfile.mkdtemp(prefix="bbq-postgres-"))
    try:
        server = DatabaseServer(folder)
        server.start()
        try:
            with server.connect("postgres", autocommit=True) as db:
                db.execute("CREATE DATABASE arena")
                db.execute(f"CREATE ROLE {READER} LOGIN PASSWORD '{PASSWORD}'")
            yield server
        finally:
            server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        folder.with_name(f"{folder.name}.log").unlink(missing_ok=True)
