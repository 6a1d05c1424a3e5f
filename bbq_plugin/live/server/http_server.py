"""The port: connections with limits to time and size, until a signal ends the server."""

from __future__ import annotations

import ctypes
import gc
import signal
import socket
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bbq_plugin.errors import UsageError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from bbq_plugin.live.server.service import Service

#: From the first byte of a request, or from the start of a connection, to the end of the headers.
HEAD_S = 5.0
HEAD_BYTES = 1 << 16
_LATE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n"
    b"connection: close\r\n\r\n"
)

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SWITCH_S = 0.0005
# M_ARENA_MAX of malloc.h.
_ARENA_MAX = -8
# Each browser that shows the page holds a connection. From so many on, one that only waits makes
# room for the next; beyond the second number requests are refused.
_FULL = 900
_MOST_CONNECTIONS = 1000


class Protocol(HttpToolsProtocol):
    """HTTP as uvicorn speaks it, with a limit to the time and the size of headers.

    Where connections are many, the one that has waited longest ends for the newest: else some
    hundreds that send nothing would keep out the events of a tool.
    """

    #: Where a labelling tool sends its events.
    tool_paths: frozenset[str] = frozenset()
    _patience: asyncio.TimerHandle | None = None
    _n_head = 0
    #: When the client last had to send something.
    _waits_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait."""
        super().connection_made(transport)
        self._expect_headers()
        if len(self.connections) > _FULL:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to wait for any more."""
        self._have_headers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless the headers grow without end."""
        if self._patience is None and (self.cycle is None or self.cycle.response_complete):
            self._expect_headers()
        before = self._patience
        super().data_received(data)
        if self._patience is not None and self._patience is before:
            self._n_head += len(data)
            if self._n_head > HEAD_BYTES and not self.transport.is_closing():
                self._end(_LARGE)

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        if self._patience is None:
            self._expect_headers()

    def on_headers_complete(self) -> None:
        """In time."""
        self._have_headers()
        super().on_headers_complete()

    def _make_room(self) -> None:
        idle = [
            one for one in self.connections
            if isinstance(one, Protocol) and one is not self and one.is_idle()
        ]  # fmt: skip
        if idle:
            min(idle, key=lambda one: one._waits_since).transport.abort()

    def is_idle(self) -> bool:
        """Whether the client has to send more; the body of an event is worth waiting for."""
        if self.transport.is_closing():
            return False
        if self.cycle is None or self.cycle.response_complete or self._patience is not None:
            return True
        return self.cycle.more_body and self.scope["path"] not in self.tool_paths

    def _expect_headers(self) -> None:
        self._n_head, self._waits_since = 0, self.loop.time()
        self._patience = self.loop.call_later(HEAD_S, self._late)

    def _have_headers(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _late(self) -> None:
        # A browser opens connections in advance and asks nothing: these just end.
        self._end(_LATE if self._n_head else b"")

    def _end(self, answer: bytes) -> None:
        self._have_headers()
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(answer)
        self.transport.close()


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes any that is free."""
    try:
        kind = socket.AF_INET6 if ":" in host else socket.AF_INET
        # Named as TCP, or asyncio leaves Nagle's algorithm on: 40 ms more an answer.
        found = socket.socket(kind, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot listen on {host}:{port} ({reason}); is another server running there? "
            "Name another one with --port"
        ) from error
    return found


def run(service: Service, door: socket.socket, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; `ready` gets the address once requests are answered."""
    _share_memory()
    host, port = door.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host

    class ServiceProtocol(Protocol):
        tool_paths = service.webhook.paths

    class SignalledServer(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """End in good order: uvicorn would kill itself with the signal once more."""
            before = {one: signal.signal(one, self.handle_exit) for one in _SIGNALS}
            try:
                yield
            finally:
                for one, handler in before.items():
                    signal.signal(one, handler)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                _keep_for_good()
                ready(f"http://{shown}:{port}")

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # Connections that are held open end first: the others would wait for them.
            service.news.close()
            await super().shutdown(sockets)

    config = uvicorn.Config(
        service.app(),
        http=ServiceProtocol,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=5,
        backlog=2048,
    )
    before_s = sys.getswitchinterval()
    # A thread that computes gives way sooner than Python's 5 ms: an event changes threads twice.
    sys.setswitchinterval(_SWITCH_S)
    try:
        SignalledServer(config).run(sockets=[door])
    finally:
        sys.setswitchinterval(before_s)
        gc.unfreeze()


def _share_memory() -> None:
    """Have all threads take memory from two places instead of one each, as glibc would.

    What a thread gives back stays in its own place. Fits, forecasts, histories and pages are made
    in threads of their own, each of which would come to hold as much as its largest work needed.
    """
    with suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 2)


def _keep_for_good() -> None:
    """Take what is loaded by now out of the garbage collector's rounds.

    Modules and compiled code are hundreds of thousands of objects that stay. To look through them
    takes a tenth of a second, in which nothing is answered.
    """
    gc.collect()
    gc.freeze()
