"""The server: one engine, its inbox and worker, the routes of tool and page, and the port."""

from __future__ import annotations

import gc
import signal
import socket
import sys
from contextlib import asynccontextmanager, contextmanager
from importlib.resources import files
from itertools import permutations
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bbq_plugin.analysis import Analysis, Limits
from bbq_plugin.data.records import Comparison, Outcome
from bbq_plugin.errors import UsageError
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.events import cancelled_by_push, event_reader
from bbq_plugin.live.log import Problems, silent
from bbq_plugin.live.server.guard import AccessRules, Guard
from bbq_plugin.live.server.pages import Pages
from bbq_plugin.live.server.view import View, outlook
from bbq_plugin.live.server.webhook import Webhook
from bbq_plugin.live.server.worker import Worker
from bbq_plugin.store.inbox import Inbox
from bbq_plugin.store.projects import plan_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from starlette.requests import Request

    from bbq_plugin.live.server.project import ServedProject

# A computation that takes longer is not waited for at the end.
_STOP_S = 5.0

_STATIC = {
    "report.css": ("bbq_plugin.report", "templates", "text/css"),
    "page.css": ("bbq_plugin.live.server", "static", "text/css"),
    "page.js": ("bbq_plugin.live.server", "static", "text/javascript"),
    "icon.svg": ("bbq_plugin.live.server", "static", "image/svg+xml"),
}


class Service:
    """Everything that `bbq serve` runs; the engine is the caller's."""

    def __init__(
        self,
        engine: Engine,
        rules: AccessRules,
        *,
        adapter: str = "label-studio",
        options: Mapping[str, Any] | None = None,
        limits: Limits = Limits(),  # noqa: B008 (a frozen value)
        base_url: str | None = None,
        log: Callable[..., None] = silent,
    ) -> None:
        self.engine = engine
        self.rules = rules
        #: The labelling project, if one is named; set before the start.
        self.project: ServedProject | None = None
        self.base_url = base_url
        #: What does not work at present.
        self.problems = Problems(log, engine.store.clock)
        self.view = View(engine, limits, self.problems)
        self.worker = Worker(
            engine, event_reader(adapter, options), tool=adapter,
            given=lambda: cancelled_by_push(engine.store), on_fit=self._fitted,
            on_partial=self._pull_soon, problems=self.problems,
        )  # fmt: skip
        self.inbox = Inbox(engine.store, on_arrival=self.worker.job.wake)
        self.webhook = Webhook(rules, self.worker.reader, self.inbox, self)

    def app(self) -> Starlette:
        """The ASGI app."""
        feedback = None if self.project is None else self.project.feedback
        pages = Pages(self.view, self.webhook, self.rules, feedback, base_url=self.base_url)
        static = [Route(f"/static/{name}", _static(name)) for name in _STATIC]
        return Starlette(
            routes=[*self.webhook.routes(), *pages.routes(), *static],
            middleware=[Middleware(Guard, rules=self.rules, tool_paths=self.webhook.paths)],
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self.view.open()
        self.start()
        try:
            yield
        finally:
            self.view.close()
            self.stop()

    def start(self) -> None:
        """Begin to take events; the page has the last answers from the start."""
        warm_up(self.engine)
        if self.engine.store.counts().n_comparisons:
            self.engine.refresh()
            self._fitted()
        self.worker.start()
        self.view.outlooks.job.start()
        if self.project is not None:
            self.project.start()

    def stop(self) -> None:
        """Bring to disk what has come, and end."""
        if self.project is not None:
            self.project.stop()
        self.inbox.close()
        self.worker.job.stop()
        self.view.outlooks.job.stop(_STOP_S)
        self.view.record()

    def _fitted(self) -> None:
        self.view.publish()
        if self.project is not None:
            self.project.fitted()

    def _pull_soon(self) -> None:
        if self.project is not None:
            self.project.pull_soon()

    def information_bits(self, items: Sequence[str]) -> float | None:
        """What one more answer about these items is expected to tell, by the last fit."""
        analysis = self.view.analysis
        return None if analysis is None else analysis.information_bits(items)

    def reading_plan(self, project: str) -> Mapping[str, Any] | None:
        """How the answers of a project were read before."""
        return plan_of(self.engine.store, project)


def _static(name: str) -> Callable[[Request], Response]:
    package, folder, kind = _STATIC[name]
    content = (files(package) / folder / name).read_bytes()

    def served(_: Request) -> Response:
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    return served


# -- what is compiled before the port is open

_ITEMS = "abcdefghij"
_RATERS = "rstuvwxy"


def warm_up(engine: Engine) -> None:
    """Fit some answers the way that an engine does, and look at all of the result.

    The first rater has given enough of them to be followed without being read again, which is
    work of its own; so is a change too small to estimate the priors again, and to take one back.
    """
    with Engine(model=engine.model, priors=engine.priors, tol=engine.tol) as other:
        known = list(_answers())
        other.add(known)
        other.refresh()
        for turn, rater in enumerate(_RATERS[:2]):
            other.add(Comparison(f"more {turn}", rater, "a", "b", "left"))
            other.refresh()
        other.retract(known[0].key)
        other.refresh()
        analysis = Analysis(other.fit)
        for part in (analysis.better, analysis.raters, analysis.pairs(), analysis.n_groups):
            del part
        outlook(analysis)
        analysis.information_bits(_ITEMS[:2])


def _answers() -> Iterator[Comparison]:
    """All pairs both ways round by the first rater, a part of them by each of the others."""
    for n, (left, right) in enumerate(permutations(_ITEMS, 2)):
        for m, rater in enumerate(_RATERS):
            if m == 0 or (n + m) % 4 == 0:
                outcome: Outcome = "left" if m == 0 or left < right else ("right", "tie")[n % 2]
                yield Comparison(f"{rater}{left}{right}", rater, left, right, outcome)


# -- the port

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
# Each browser that shows the page holds a connection.
_MOST_CONNECTIONS = 1000


class Protocol(HttpToolsProtocol):
    """HTTP as uvicorn speaks it, with a limit to the time and the size of headers."""

    _patience: asyncio.TimerHandle | None = None
    _n_head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait."""
        super().connection_made(transport)
        self._expect_headers()

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

    def _expect_headers(self) -> None:
        self._n_head = 0
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
    host, port = door.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host

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
        SignalledServer(config).run(sockets=[door])
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
