"""A real HTTP server between the client and Label Studio that can be told to fail."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from urllib.parse import urlsplit

from tests.waiting import HANG_S


@dataclass
class Answer:
    """What to answer instead of Label Studio."""

    status: int
    body: bytes = b'{"detail": "a fault of the test"}'
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    #: Let the request through, and only then answer this: the client does not know.
    after: bool = False
    #: Called before it is answered.
    then: Callable[[], None] = lambda: None
    #: Say nothing until this is set.
    until: Event | None = None


@dataclass
class Asked:
    """A request that came."""

    number: int
    method: str
    path: str
    authorization: str


Rule = Callable[[Asked], Answer | None]


class Proxy:
    """Passes requests on, unless its rule has another answer; keeps what was asked."""

    def __init__(self, target: str) -> None:
        self.rule: Rule = lambda _: None
        self.asked: list[Asked] = []
        proxy, where = self, urlsplit(target)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(size)
                asked = Asked(
                    len(proxy.asked),
                    self.command,
                    self.path,
                    self.headers.get("Authorization") or "",
                )
                proxy.asked.append(asked)
                answer = proxy.rule(asked)
                if answer is not None and answer.until is not None:
                    answer.until.wait(HANG_S)
                    self.close_connection = True
                    return
                if answer is None or answer.after:
                    real = self._passed_on(body)
                    answer = answer or real
                answer.then()
                with suppress(ConnectionError):
                    self._send(answer)

            def _passed_on(self, body: bytes) -> Answer:
                upstream = http.client.HTTPConnection(
                    str(where.hostname), where.port, timeout=HANG_S
                )
                headers = {
                    key: value
                    for key, value in self.headers.items()
                    if key.lower() not in ("host", "connection", "accept-encoding")
                }
                upstream.request(self.command, self.path, body or None, headers)
                got = upstream.getresponse()
                content = got.read()
                upstream.close()
                return Answer(got.status, content, got.headers.get("Content-Type") or "")

            def _send(self, answer: Answer) -> None:
                self.send_response(answer.status)
                for key, value in answer.headers.items():
                    self.send_header(key, value)
                if answer.kind:
                    self.send_header("Content-Type", answer.kind)
                if answer.status != 204:
                    self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                if answer.status != 204:
                    self.wfile.write(answer.body)

            do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _any  # noqa: N815 (http.server's)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def proxied(target: str) -> Iterator[Proxy]:
    """A proxy for as long as it is needed."""
    proxy = Proxy(target)
    try:
        yield proxy
    finally:
        proxy.stop()
