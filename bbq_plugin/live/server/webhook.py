"""What a labelling tool calls: the address for its events, and what its adapter declares.

An event is answered with 200 once it is on disk.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bbq_plugin.errors import DataError
from bbq_plugin.live.server.access_control import headers_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from bbq_plugin.live.server.access_control import AccessRules
    from bbq_plugin.protocols import Endpoint, EventReader, ServerKnowledge
    from bbq_plugin.store.event_inbox import Inbox


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
