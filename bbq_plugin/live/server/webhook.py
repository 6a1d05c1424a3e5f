"""What a labelling tool calls: the address for its events, and what its adapter declares.

An event is answered with 200 once it is on disk. `Worker` reads what waits there into the store,
then the fit follows.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bbq_plugin.errors import BBQError, DataError
from bbq_plugin.live.engine import StudyEngines
from bbq_plugin.live.event_ingest import take
from bbq_plugin.live.health import Problems, reason_of
from bbq_plugin.live.jobs import Job, Next
from bbq_plugin.live.server.access_control import headers_of
from bbq_plugin.store import event_inbox
from bbq_plugin.store.database_file import blames_store
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

    from starlette.requests import Request

    from bbq_plugin.live.engine import Engine
    from bbq_plugin.live.server.access_control import AccessRules
    from bbq_plugin.protocols import Endpoint, EventReader, ParsedEvent, ServerKnowledge
    from bbq_plugin.store.event_inbox import Inbox, ReceivedEvent
    from bbq_plugin.store.studies import Named


#: An event has some kilobytes; those of a bulk action hold many answers.
MOST_BYTES = 16 << 20
#: A tool waits no longer for its answer.
BODY_S = 5.0


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
                "no secret is set, so no event is taken; start bbq serve with "
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


#: Events that are worked off in one transaction, which the sender of the next ones waits for.
_BATCH = 64
# The fit follows no more often than this, however fast events come.
_REFRESH_S = 0.5
_LONGEST_PAUSE_S = 1.0
# To estimate the priors takes longer than all else together, and every tenth more answers
# asks for it; it gets this share of the time, until a quiet moment makes up for it.
_ESTIMATING = 0.05
_LONGEST_REASON = 500


class Worker:
    """A thread that wakes up when events are there.

    `given` names the answers that this side has marked as cancelled. `on_fit` is called after the
    fit has followed, `on_partial` when a pull would tell more than the events do, `on_refused` when
    some are held back.
    """

    def __init__(
        self,
        engine: Engine | StudyEngines,
        reader: EventReader,
        *,
        tool: str = "label-studio",
        given: Callable[[], Collection[tuple[int, int]]] = frozenset,
        on_fit: Callable[[Engine], None] = lambda _: None,
        on_partial: Callable[[], None] = lambda: None,
        on_refused: Callable[[], None] = lambda: None,
        problems: Problems | None = None,
        named: Named = lambda *_: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self.engines = engine if isinstance(engine, StudyEngines) else StudyEngines(engine)
        self.engine, self.reader, self.tool = self.engines.first, reader, tool
        self._named, self._on_refused = named, on_refused
        self._given, self._on_fit, self._on_partial = given, on_fit, on_partial
        self._problems = problems or Problems()
        #: The projects whose events are taken; none: those of all.
        self.projects: frozenset[str] = frozenset()
        #: When the priors of a study may be estimated again, on that clock.
        self._estimate_from: dict[int, float] = {}
        #: Why the fits of some studies failed the last time.
        self._failed_fits: dict[int, Exception] = {}
        #: How long the last fit took.
        self.fit_s: float | None = None
        self.job = Job("worker", self._turn, self._failed, clock=clock)

    def start(self) -> None:
        """Begin, with events that an earlier run has left or refused."""
        event_inbox.retry_refused(self.engine.store)
        self.job.start(due=True)

    def _failed(self, error: Exception) -> Next:
        """What waits on disk is tried again after a pause."""
        self._problems.report("events", error)
        try:
            waiting = bool(event_inbox.waiting_events(self.engine.store, 1))
        except BBQError:
            waiting = True
        return Next(_LONGEST_PAUSE_S, 0.0 if waiting else self._until_estimate_s())

    def _turn(self) -> Next:
        begun = self._clock()
        more = False
        while not self.job.stopping() and not more and self.work():
            more = self._clock() - begun > _REFRESH_S
        self.follow()
        self._problems.over("events")
        # A quarter of the time at most: senders and pages need the rest.
        spent = self._clock() - begun
        rest_s = min(max(_REFRESH_S - spent, 3 * spent), _LONGEST_PAUSE_S)
        return Next(rest_s, 0.0 if more else self._until_estimate_s())

    def follow(self) -> None:
        """Let the fits follow the answers, if there are any; the priors not as often."""
        failed = [error for engine in self.engines if (error := self._follow(engine)) is not None]
        if failed:
            # The answers are in; the page shows the last fit.
            self._problems.report("fit", failed[0])
        else:
            self._problems.over("fit")

    def _follow(self, engine: Engine) -> Exception | None:
        begun = self._clock()
        estimates = engine.outgrown and begun >= self._estimate_from.get(engine.study, 0.0)
        if not (engine.changed or estimates) or not engine.n_comparisons:
            return self._failed_fits.get(engine.study)
        self._failed_fits.pop(engine.study, None)
        try:
            engine.refresh(hold_priors=not estimates)
            self._on_fit(engine)
        except Exception as error:
            if blames_store(error):
                raise
            self._failed_fits[engine.study] = error
            return error
        else:
            self.fit_s = self._clock() - begun
            return None
        finally:
            if estimates:
                now = self._clock()
                self._estimate_from[engine.study] = now + (now - begun) * (1 / _ESTIMATING - 1)

    def _until_estimate_s(self) -> float | None:
        """How long to wait for events at most, because the priors are due; None for ever."""
        due = [
            self._estimate_from.get(engine.study, 0.0)
            for engine in self.engines if engine.outgrown
        ]  # fmt: skip
        return max(0.0, min(due) - self._clock()) if due else None

    def work(self) -> int:
        """Work off one batch; how many events it had."""
        waiting = event_inbox.waiting_events(self.engine.store, _BATCH)
        if not waiting:
            return 0
        news, refused = self._read(waiting)
        try:
            self._store([one for _, one in news], [event.id for event in waiting], refused)
        except Exception as error:
            if blames_store(error):
                raise
            # One of them spoils the rest: each for itself.
            for own, one in news:
                self._store_one(own, one)
            self._store([], list(refused), refused)
        if any(one.partial for _, one in news):
            self._on_partial()
        return len(waiting)

    def _read(
        self, waiting: Sequence[ReceivedEvent]
    ) -> tuple[list[tuple[int, ParsedEvent]], dict[int, str]]:
        news, refused = [], {}
        given = self._given()
        for own, body in waiting:
            try:
                one = self.reader(body, given)
                self._check_project(one)
                news.append((own, one))
                if one.problem is not None:
                    # What can be read counts; the event waits for the rest.
                    refused[own] = one.problem
            except Exception as error:  # noqa: BLE001 (no event may hold up the others)
                refused[own] = reason_of(error)
        return news, refused

    def _check_project(self, news: ParsedEvent) -> None:
        if self.projects and news.project is not None and news.project not in self.projects:
            named = ", ".join(sorted(self.projects))
            raise DataError(
                f"it is of project {news.project}, and --project {named} was given; name it in "
                "[studies] of bbq.toml as well, or serve both without --project"
            )

    def _store_one(self, own: int, news: ParsedEvent) -> None:
        try:
            self._store([news], [own], {} if news.problem is None else {own: news.problem})
        except Exception as error:
            if blames_store(error):
                raise
            self._store([], [own], {own: reason_of(error)})

    def _store(
        self, news: Iterable[ParsedEvent], ids: Iterable[int], refused: dict[int, str]
    ) -> None:
        """Answers in and events out, in one transaction: each event counts once."""
        reasons = {own: plain(reason)[:_LONGEST_REASON] for own, reason in refused.items()}
        store = self.engine.store
        with self.engines.writing():
            with store.transaction() as transaction:
                found = list(news)
                if found:
                    take(
                        transaction, self.reader, found, "webhook", self.tool, store.clock(),
                        adapter=self.tool, on_partial=self._on_partial, named=self._named,
                    )  # fmt: skip
                n_dropped = event_inbox.settle_events(transaction, ids, reasons)
            self.engines.apply(transaction.change)
        for reason in dict.fromkeys(reasons.values()):
            self._problems.log("event_refused", reason=reason)
        if reasons:
            self._on_refused()
        if n_dropped:
            self._problems.log("refused_events_dropped", n=n_dropped, kept=event_inbox.MOST_REFUSED)
