"""A real `bbq serve` in a process of its own, and a way to talk to it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from tests.waiting import HANG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

T = TypeVar("T")
SECRET = "a-secret-of-the-tests-0123456789"  # noqa: S105


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Serving:
    """A running server."""

    process: subprocess.Popen[str]
    store: Path
    url: str = ""
    said: list[str] = field(default_factory=list)
    #: Set when it has ended and all that it said is here.
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def port(self) -> int:
        port = urlsplit(self.url).port
        assert port is not None
        return port

    @property
    def log(self) -> str:
        return "".join(self.said)

    def ask(
        self,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        method: str | None = None,
    ) -> Answer:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG_S)
        try:
            line.request(method or ("GET" if body is None else "POST"), path, body, headers or {})
            answer = line.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, told, answer.read())
        finally:
            line.close()

    def send(
        self, event: Any, secret: str | None = SECRET, path: str = "/webhook/label-studio"
    ) -> Answer:
        """One event, as Label Studio sends it."""
        headers = {"Content-Type": "application/json"}
        if secret is not None:
            headers["X-BBQ-Secret"] = secret
        body = event if isinstance(event, bytes) else json.dumps(event).encode()
        return self.ask(path, body, headers)

    def n(self) -> int:
        """How many comparisons the page counts."""
        found = re.search(r'id="n">([\d,]+)<', self.ask("/").text)
        return int(found[1].replace(",", "")) if found else 0

    def wait_for(self, n: int) -> None:
        self.wait_until(lambda: self.n() == n, f"{n} comparisons on the page")

    def wait_until(self, true: Callable[[], T], what: str) -> T:
        """Wait for something that this server brings about."""
        return wait_until(true, what, log=lambda: self.log, ended=self.ended.is_set)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(HANG_S)


CODE = "from bbq_plugin.cli import main; main(prog_name='bbq')"


def clean(**more: str) -> dict[str, str]:
    """The environment without settings of ours."""
    ours = ("BBQ_", "LABEL_STUDIO")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)} | more


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-c", CODE, *words],
        env=clean(**environment),
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def serving(
    store: Path, *arguments: str, secret: str | None = SECRET, **environment: str
) -> Iterator[Serving]:
    """Start it on a free port, and end it."""
    if secret is not None:
        environment["BBQ_WEBHOOK_SECRET"] = secret
    command = [sys.executable, "-c", CODE, "serve", "--store", str(store), "--port", "0"]
    process = subprocess.Popen(
        [*command, *arguments],
        env=clean(**environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    found = Serving(process, store)
    ready = threading.Event()

    def listen() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            found.said.append(line)
            if line.startswith("Serving "):
                found.url = line.split()[1]
                ready.set()
        found.ended.set()
        ready.set()

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        ready.wait(HANG_S)
        assert found.url, f"bbq serve did not start: {found.log}"
        yield found
    finally:
        process.terminate()
        try:
            process.wait(HANG_S)
        finally:
            process.kill()
            listener.join()
            assert process.stdout is not None
            process.stdout.close()
