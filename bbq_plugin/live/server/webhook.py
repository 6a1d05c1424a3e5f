"""What a labelling tool calls: the webhook, and the protocol of an ML backend.

An event is answered with 200 once it is on disk. An ML backend is connected in Label Studio's own
settings (Model); its webhook is the same as the other, and its predictions carry no result, only
how little an answer would tell: the lowest score is served first.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bbq_plugin.errors import DataError
from bbq_plugin.live.server.guard import headers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request

    from bbq_plugin.live.server.guard import Rules
    from bbq_plugin.protocols import EventReader
    from bbq_plugin.store.events import Inbox

__all__ = ["MODEL_VERSION", "Webhook"]

#: Label Studio sends events of some kilobytes; those of a bulk action hold many answers.
MOST_BYTES = 16 << 20
#: Label Studio itself waits one second.
BODY_S = 5.0

MODEL_VERSION = "bbq"


class _Predict(msgspec.Struct):
    """What is needed of a question for predictions; the rest has a login in it."""

    class Task(msgspec.Struct):
        id: Any = None
        data: dict[str, Any] = {}

    tasks: list[Task] = []
    project: Any = None


class Webhook:
    """The routes of a tool; counts what came, for the page and for `bbq connect`."""

    def __init__(
        self,
        rules: Rules,
        reader: EventReader,
        inbox: Inbox,
        *,
        scores: Callable[[str, Sequence[dict[str, Any]]], list[float | None]] | None = None,
        most_bytes: int = MOST_BYTES,
        body_s: float = BODY_S,
    ) -> None:
        self.rules, self.reader, self.inbox = rules, reader, inbox
        self._scores = scores
        self._most_bytes, self._body_s = most_bytes, body_s
        self.n_received: Counter[str] = Counter()
        self.n_refused = 0

    def routes(self) -> list[Route]:
        """Where a tool finds what it asks for."""
        return [
            Route("/webhook/label-studio", self.receive, methods=["POST"]),
            Route("/webhook/label-studio", self.received, methods=["GET"]),
            Route("/webhook", self.receive, methods=["POST"]),
            Route("/health", self.health, methods=["GET"]),
            Route("/setup", self.setup, methods=["POST"]),
            Route("/predict", self.predict, methods=["POST"]),
            Route("/train", self.train, methods=["POST"]),
            Route("/versions", self.versions, methods=["GET"]),
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
            kept = self.reader.stripped(body)
        except DataError as error:
            return _said(400, str(error))
        try:
            await asyncio.wrap_future(self.inbox.put(kept))
        except Exception:  # noqa: BLE001 (whatever it is, the event is not on disk)
            return _said(503, "the event could not be stored; see the log of bbq serve")
        action = msgspec.json.decode(kept, type=_Action).action
        # A stranger's words are not kept without end.
        known = action if action in self.n_received or len(self.n_received) < 64 else "others"
        self.n_received[known[:64]] += 1
        return _said(200, "on disk")

    async def received(self, request: Request) -> Response:
        """How many events have come since the start, for `bbq connect`."""
        refused = self._refusal(request)
        if refused is not None:
            return refused
        return JSONResponse({"received": dict(self.n_received)})

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
        if told.isdigit() and int(told) > self._most_bytes:
            return _said(413, "the body is too large", {"Connection": "close"})
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._body_s):
                async for part in request.stream():
                    size += len(part)
                    if size > self._most_bytes:
                        return _said(413, "the body is too large", {"Connection": "close"})
                    parts.append(part)
        except TimeoutError:
            return _said(408, "the body did not come in time", {"Connection": "close"})
        return b"".join(parts)

    # -- the protocol of an ML backend

    async def health(self, _: Request) -> Response:
        """Say that it is there, to anybody, and nothing else."""
        return JSONResponse({"status": "UP", "model_class": "bbq"})

    async def setup(self, request: Request) -> Response:
        """Greet a project. Its body holds the token of whoever connects: nobody reads it."""
        refused = self._refusal(request)
        if refused is not None:
            return refused
        body = await self._body(request)
        if isinstance(body, Response):
            return body
        return JSONResponse({"model_version": MODEL_VERSION})

    async def versions(self, request: Request) -> Response:
        """There is one."""
        return self._refusal(request) or JSONResponse({"versions": [MODEL_VERSION]})

    async def train(self, request: Request) -> Response:
        """Answers are followed as they come; there is nothing to be started."""
        return self._refusal(request) or JSONResponse({})

    async def predict(self, request: Request) -> Response:
        """Score tasks: the lower, the more an answer would tell. No result, so nobody is led."""
        refused = self._refusal(request)
        if refused is not None:
            return refused
        body = await self._body(request)
        if isinstance(body, Response):
            return body
        try:
            asked = msgspec.json.decode(body, type=_Predict)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return _said(400, "this is no question of Label Studio")
        data = [task.data for task in asked.tasks]
        scores: list[float | None] = [None] * len(data)
        if self._scores is not None:
            # A project is called by its id and the time it was made: 2.1794800129.
            project = str(asked.project or "").split(".")[0]
            scores = await asyncio.to_thread(self._scores, project, data)
        results: list[dict[str, Any]] = [
            {"result": [], "score": score, "model_version": MODEL_VERSION} for score in scores
        ]
        return JSONResponse({"results": results, "model_version": MODEL_VERSION})


class _Action(msgspec.Struct):
    action: str


def _said(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"detail": text}, status, headers)
