"""A real Potato for tests: installed once in an environment of its own, started for a project.

It is run, never imported: it is under the GPL. It listens on the loopback only.
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.waiting import HANG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = "2.12.1"


class NoPotatoError(Exception):
    """Potato cannot be had here; the message says why."""


def installed() -> Path:
    """The command `potato`; installed now if it is absent."""
    base = os.environ.get("BBQ_CACHE_DIR")
    root = Path(base) if base else Path.home() / ".cache" / "bbq-plugin"
    folder = root / f"potato-{VERSION}-py{sys.version_info[0]}.{sys.version_info[1]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        # Two runs at the same time: the second waits and finds all done.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
            pip = [str(folder / "venv" / "bin" / "pip"), "install", "-q"]
            done = subprocess.run(
                [*pip, "--disable-pip-version-check", f"potato-annotation=={VERSION}"],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
                raise NoPotatoError(f"Potato {VERSION} cannot be installed: {reason}")
            (folder / "installed").touch()
    return folder / "venv" / "bin" / "potato"


@contextmanager
def running(command: Path, project: Path) -> Iterator[str]:
    """A server on a project's folder; its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    url = f"http://127.0.0.1:{port}"
    closed = "http://127.0.0.1:9"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(project),
        "HTTP_PROXY": closed,
        "HTTPS_PROXY": closed,
        "NO_PROXY": "127.0.0.1",
    }
    log = project.with_name(f"{project.name}.log")
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(command), "start", "config.yaml", "-p", str(port), "--host", "127.0.0.1"],
            cwd=project,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(
            lambda: _answers(url), "Potato", log=log, ended=lambda: process.poll() is not None
        )
        yield url
    finally:
        process.terminate()
        process.wait(HANG_S)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=10) as reply:  # noqa: S310 (loopback)
            return int(reply.status) == 200
    except urllib.error.URLError:
        return False
