"""Runs the service until it is told to end."""

from __future__ import annotations

import gc
import signal
import socket
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from bbq_plugin.errors import UsageError
from bbq_plugin.live.server.protocol import Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bbq_plugin.live.server.app import Service

__all__ = ["listening", "run"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SWITCH_S = 0.0005
# Browsers that look at the page hold a line each.
_MOST_CONNECTIONS = 1000


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
    host, port = door.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host

    class Server(uvicorn.Server):
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
            # Lines that are held open end first; else everybody would wait for them.
            service.view.close()
            await super().shutdown(sockets)

    config = uvicorn.Config(
        service.app(),
        http=Protocol,
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
        Server(config).run(sockets=[door])
    finally:
        sys.setswitchinterval(before_s)
        gc.unfreeze()


def _keep_for_good() -> None:
    """Take what is loaded by now out of the garbage collector's rounds.

    Modules and compiled code are hundreds of thousands of objects that stay. To look through them
    takes a tenth of a second, in which nothing is answered.
    """
    gc.collect()
    gc.freeze()
