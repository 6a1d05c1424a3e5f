"""The service: the port, the routes of tool and page, one engine, its inbox and worker.

An event is answered with 200 once it is on disk.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import signal
import socket
import sys
from collections import Counter
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from importlib.resources import files
from itertools import permutations
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn
from anyio import to_thread
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bbq_plugin.analysis import Analysis, Limits
from bbq_plugin.config import ALERTS
from bbq_plugin.data.records import Comparison, Outcome
from bbq_plugin.errors import BBQError, DataError, UsageError
from bbq_plugin.live.engine import Engine, StudyEngines
from bbq_plugin.live.event_ingest import Worker, cancelled_by_push, event_reader
from bbq_plugin.live.health import Alerts, Health, HealthSentence, Problems, health_of, told_by
from bbq_plugin.live.log import silent
from bbq_plugin.live.server.access_control import BODY_S, AccessRules, Guard, headers_of
from bbq_plugin.live.server.page_state import PageNews, RaterNames, View, outlook
from bbq_plugin.live.server.pages import Pages
from bbq_plugin.store.event_inbox import Inbox
from bbq_plugin.store.project_sync import plan_of
from bbq_plugin.store.sources_and_status import HEALTH
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Collection,
        Iterator,
        Mapping,
        Sequence,
    )

    from starlette.requests import Request

    from bbq_plugin.config import AlertKind
    from bbq_plugin.data.records import Person
    from bbq_plugin.live.health import Send
    from bbq_plugin.live.server.served_project import ServedProject
    from bbq_plugin.protocols import Endpoint, EventReader, ServerKnowledge, TaskContent
    from bbq_plugin.store.studies import Named


#: An event has some kilobytes; those of a bulk action hold many answers.
MOST_BYTES = 16 << 20


class Webhook:
    """The routes of a tool; counts what came, for the page and for `bbq connect`."""

    def __init__(
        self, rules: AccessRules, reader: EventReader, inbox: Inbox, known: ServerKnowledge
    ) -> None:
        self.rules, self.reader, self.inbox, self._known = rules, reader, inbox, known
        self.n_received: Counter[str] = Counter()
        self.n_refused = 0

    @property
    def paths(self) -> frozenset[str]:
        """Where the tool calls: these ask for the secret, and may come under any host name."""
        return frozenset((*self.reader.event_paths, *(e.path for e in self.reader.endpoints())))

    def routes(self) -> list[Route]:
        """Where a tool finds what it asks for."""
        paths = self.reader.event_paths
        return [
            *(Route(path, self.receive, methods=["POST"]) for path in paths),
            Route(paths[0], self.received, methods=["GET"]),
            *(
                Route(e.path, self._answering(e), methods=[e.method])
                for e in self.reader.endpoints()
            ),
        ]

    # -- events

    async def receive(self, request: Request) -> Response:
        """Take an event; 200 once it is on disk."""
        refused = self._refusal(request)
        if refused is not None:
            self.n_refused += 1
            return refused
        body = await self._body(request)
        if isinstance(body, Response):
            return body
        try:
            action, kept = self.reader.stripped(body)
        except DataError as error:
            return _said(400, str(error))
        try:
            await asyncio.wrap_future(self.inbox.put(kept))
        except Exception:  # noqa: BLE001 (whatever it is, the event is not on disk)
            return _said(503, "the event could not be stored; see the log of bbq serve")
        # A stranger's words are not kept without end.
        known = action if action in self.n_received or len(self.n_received) < 64 else "others"
        self.n_received[known[:64]] += 1
        return _said(200, "on disk")

    async def received(self, request: Request) -> Response:
        """How many events have come since the start, for `bbq connect`."""
        return self._refusal(request) or JSONResponse({"received": dict(self.n_received)})

    def _refusal(self, request: Request) -> Response | None:
        headers = headers_of(request.scope["headers"])
        if self.rules.secret is None and not self.rules.insecure_webhook:
            return _said(
                403,
                "no secret is set, so no event is accepted; start bbq serve with "
                "--webhook-secret-file, or BBQ_WEBHOOK_SECRET",
            )
        if self.rules.secret is not None:
            if self.rules.knows_secret(headers):
                return None
            return _said(401, "the secret is missing or wrong", {"WWW-Authenticate": "Basic"})
        # Without a secret, at least no web page in a browser on this machine gets through.
        kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if b"origin" in headers or (request.method == "POST" and kind != b"application/json"):
            return _said(403, "events come from a server and as JSON")
        return None

    async def _body(self, request: Request) -> bytes | Response:
        told = request.headers.get("content-length", "")
        if told.isdigit() and int(told) > MOST_BYTES:
            return _said(413, "the body is too large", {"Connection": "close"})
        parts, size = [], 0
        try:
            async with asyncio.timeout(BODY_S):
                async for part in request.stream():
                    size += len(part)
                    if size > MOST_BYTES:
                        return _said(413, "the body is too large", {"Connection": "close"})
                    parts.append(part)
        except TimeoutError:
            return _said(408, "the body did not come in time", {"Connection": "close"})
        return b"".join(parts)

    # -- what else it asks

    def _answering(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            refused = None if endpoint.public else self._refusal(request)
            body = refused or await self._body(request)
            if isinstance(body, Response):
                return body
            try:
                return JSONResponse(await asyncio.to_thread(endpoint.answer, body, self._known))
            except DataError as error:
                return _said(400, str(error))

        return answer


def _said(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"detail": text}, status, headers)


# A computation or a request that takes longer is not waited for at the end.
STOP_S = 5.0
_PAGES_AT_ONCE = 2

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
        named: Named = lambda *_: None,
        people: Callable[[], Mapping[str, Person]] | None = None,
        alert: Send | None = None,
        alert_on: Collection[AlertKind] = ALERTS,
        log: Callable[..., None] = silent,
    ) -> None:
        """`people` asks the tool who the raters are; None: pages do not name them.

        `alert` sends an alert, of these kinds.
        """
        self.engine = engine
        self.engines = StudyEngines(engine)
        self.rules = rules
        #: The labelling projects that are named, the one of the feedback first; before the start.
        self.projects: list[ServedProject] = []
        self.base_url, self._limits = base_url, limits
        self.named = named
        #: What does not work at present.
        self.problems = Problems(log, engine.store.clock)
        self.problems.on_change = self._health_changed
        self._alerts: Alerts | None = None
        if alert is not None:
            self._alerts = Alerts(alert, engine.store, self.problems, alert_on)
        self.news = PageNews()
        self.names = people and RaterNames(people, self.news.touch, self.problems)
        #: By the number of the study, the engine's first.
        self.views: dict[int, View] = {}
        self._started = False
        for one in self.engines:
            self._view_of(one)
        self.worker = Worker(
            self.engines, event_reader(adapter, options), tool=adapter,
            given=lambda: cancelled_by_push(engine.store), on_fit=self._fitted,
            on_followed=self._followed, on_partial=self._pull_soon, on_refused=self._health_changed,
            problems=self.problems, named=named,
        )  # fmt: skip
        self.inbox = Inbox(engine.store, on_arrival=self.worker.job.wake)
        self.webhook = Webhook(rules, self.worker.reader, self.inbox, self)

    def app(self) -> Starlette:
        """The ASGI app."""
        feedback = self.projects[0].feedback if self.projects else None
        pages = Pages(self, self.webhook, self.rules, feedback, base_url=self.base_url)
        static = [Route(f"/static/{name}", _static(name)) for name in _STATIC]
        return Starlette(
            routes=[*self.webhook.routes(), *pages.routes(), *static],
            middleware=[Middleware(Guard, rules=self.rules, tool_paths=self.webhook.paths)],
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        # Pages that are made at the same time take the processor from one another, and from the
        # thread that answers events.
        to_thread.current_default_thread_limiter().total_tokens = _PAGES_AT_ONCE
        self.news.open()
        self.start()
        try:
            yield
        finally:
            self.news.close()
            self.stop()

    def _view_of(self, engine: Engine) -> View:
        found = self.views.get(engine.study)
        if found is None:
            found = View(engine, self._limits, self.problems, self.news)
            if self._alerts is not None:
                self._listen(found, self._alerts)
            if self._started:
                found.start()
            # A new dictionary: pages may be going through the old one.
            self.views = {**self.views, engine.study: found}
        return found

    def _listen(self, view: View, alerts: Alerts) -> None:
        """Have alerts follow what a study shows."""
        study = view.engine.study

        def name() -> str:
            return next(one.name for one in self.engine.store.studies() if one.id == study)

        def shown(analysis: Analysis) -> None:
            alerts.analysed(study, name(), analysis)
            if "settled" in alerts.kinds:
                view.outlooks.job.wake()

        view.on_shown = shown
        view.outlooks.on_made = lambda made: alerts.settled(study, name(), made.best, made.at)

    @property
    def view(self) -> View:
        """The first study's."""
        return self.views[self.engine.study]

    def health(self) -> Health:
        """How the service does, by the memory of the process and the store."""
        store, told = self.engine.store, told_by(self.problems, self._advice())
        try:
            return health_of(store.service_facts(), told, store.clock())
        except BBQError as error:
            text = f"The store cannot be read: {plain(str(error))}"
            return Health((*told, HealthSentence("red", text)))

    def _advice(self) -> str | None:
        """What is not set up yet, with the command to type."""
        if self.rules.secret is None and not self.rules.insecure_webhook:
            return (
                "Events are refused, because no secret is set; start bbq serve with "
                "--webhook-secret-file FILE, then type: bbq connect --project N "
                "--webhook-secret-file FILE"
            )
        if self.projects or self.webhook.n_received or self.engine.store.ledger():
            return None
        return (
            "Nothing is configured yet; type: bbq connect --project N --url URL "
            "--webhook-secret-file FILE"
        )

    def _health_changed(self) -> None:
        """Put it down for `bbq status`, and show it; a store that cannot be written is no news."""
        with suppress(BBQError):
            now = told_by(self.problems, self._advice())
            self.engine.store.keep_note(HEALTH, msgspec.json.encode(now).decode())
        self.news.touch()
        if self._alerts is not None:
            self._alerts.health(self.health())

    def start(self) -> None:
        """Begin to take events; the page has the last answers from the start."""
        if self._alerts is not None:
            self._alerts.job.start(due=True)
        warm_up(self.engine)
        for note in self.engine.left_out().notes:
            self.problems.report("weights", note)
        self.worker.follow()
        self._started = True
        for view in self.views.values():
            view.start()
        self.worker.start()
        if self.names is not None:
            self.names.job.start(due=True)
        for project in self.projects:
            project.start()
        self._health_changed()

    def stop(self) -> None:
        """Bring to disk what has come, and end."""
        for project in self.projects:
            project.stop()
        if self.names is not None:
            self.names.job.stop(STOP_S)
        self.inbox.close()
        self.worker.job.stop()
        for view in self.views.values():
            view.stop(STOP_S)
        if self._alerts is not None:
            self._alerts.job.stop(STOP_S)
        self.engines.close()

    def _fitted(self, engine: Engine) -> None:
        self._view_of(engine).publish()

    def _followed(self) -> None:
        # Not before: a plan is made of the verdicts of all studies.
        for project in self.projects:
            project.fitted()

    def _pull_soon(self) -> None:
        for project in self.projects:
            project.pull_soon()

    def information_bits(self, items: Sequence[str]) -> float | None:
        """What one more answer about these items is expected to tell, by the last fit."""
        shown = (view.analysis for view in self.views.values())
        bits = [one.information_bits(items) for one in shown if one is not None]
        known = [value for value in bits if value is not None]
        return sum(known) if known else None

    def fit_mark(self) -> str | None:
        """The moment of the last fit of any study, in UTC."""
        fits = [view.analysis.at for view in self.views.values() if view.analysis is not None]
        if not fits:
            return None
        return datetime.fromtimestamp(max(fits), UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]

    def contents(
        self, places: Collection[tuple[int, int]]
    ) -> tuple[dict[tuple[int, int], TaskContent], list[str]]:
        """What tasks show, by project and task, asked for now; and why some of it is missing."""
        found: dict[tuple[int, int], TaskContent] = {}
        missing = []
        for number in sorted({project for project, _ in places}):
            project = next((one for one in self.projects if one.number == number), None)
            if project is None:
                missing.append(
                    f"project {number} is not connected; start bbq serve with --project {number} "
                    "and a token"
                )
                continue
            tasks = sorted({task for own, task in places if own == number})
            try:
                contents = project.contents(tasks)
            except BBQError as error:
                missing.append(plain(str(error)))
            else:
                found |= {(number, task): content for task, content in contents.items()}
        return found, missing

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
    with Engine(
        model=engine.model, priors=engine.priors, camps=engine.camps, tol=engine.tol
    ) as other:
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
#: Python's own thresholds of the garbage collector.
_ROUNDS = (700, 10, 10)
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
    before_s, before_rounds = sys.getswitchinterval(), gc.get_threshold()
    # A thread that computes gives way sooner than Python's 5 ms: an event changes threads twice.
    sys.setswitchinterval(_SWITCH_S)
    try:
        SignalledServer(config).run(sockets=[door])
    finally:
        sys.setswitchinterval(before_s)
        gc.set_threshold(*before_rounds)
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
    takes a tenth of a second, in which nothing is answered. What comes after them is little, and
    goes: it is looked through as often as Python does by itself.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_ROUNDS)
