"""The app: one engine, its inbox and worker, and the routes of tool and page."""

from __future__ import annotations

from contextlib import asynccontextmanager
from importlib.resources import files
from itertools import permutations
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

from bbq_plugin.analysis import Analysis, Limits
from bbq_plugin.data.records import Comparison, Outcome
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.events import cancelled_by_push, event_reader
from bbq_plugin.live.server.guard import Guard, Rules
from bbq_plugin.live.server.pages import Pages
from bbq_plugin.live.server.view import View, outlook
from bbq_plugin.live.server.webhook import Webhook
from bbq_plugin.live.server.worker import Worker
from bbq_plugin.store.events import Inbox, plan_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from starlette.requests import Request

    from bbq_plugin.live.feedback import Rounds
    from bbq_plugin.live.server.connection import Reconcile
    from bbq_plugin.live.server.plans import Feedback

__all__ = [
    "Service",
    "warm_up",
]

_ITEMS = "abcdefghij"

_RATERS = "rstuvwxy"


def warm_up(engine: Engine) -> None:
    """Fit some answers the way that an engine does, and look at all of the result.

    The first rater has given enough of them to be followed without being read again, which is
    work of its own; so is a change too small to estimate the priors anew, and to take one back.
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
        rules: Rules,
        *,
        adapter: str = "label-studio",
        options: Mapping[str, Any] | None = None,
        limits: Limits = Limits(),  # noqa: B008 (a frozen value)
        base_url: str | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.engine = engine
        self.rules = rules
        self.reconcile: Reconcile | None = None
        self.feedback: Feedback | None = None
        self.pushing: Rounds | None = None
        self.base_url = base_url
        self.view = View(engine, limits, tell)
        self.inbox = Inbox(engine.store, on_arrival=self._wake)
        self.worker = Worker(
            engine, event_reader(adapter, options), tool=adapter,
            given=lambda: cancelled_by_push(engine.store), on_fit=self._fitted,
            on_partial=self._pull_soon, tell=tell,
        )  # fmt: skip
        self.webhook = Webhook(rules, self.worker.reader, self.inbox, scores=self.scores)

    def app(self) -> Starlette:
        """The ASGI app."""
        pages = Pages(self.view, self.webhook, self.rules, self.feedback, base_url=self.base_url)
        static = [Route(f"/static/{name}", _static(name)) for name in _STATIC]
        return Starlette(
            routes=[*self.webhook.routes(), *pages.routes(), *static],
            middleware=[Middleware(Guard, rules=self.rules)],
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
        self.view.outlooks.start()
        if self.reconcile is not None:
            self.reconcile.start()
        if self.pushing is not None:
            self.pushing.start()

    def stop(self) -> None:
        """Bring to disk what has come, and end."""
        if self.reconcile is not None:
            self.reconcile.stop()
        if self.pushing is not None:
            self.pushing.stop()
        self.inbox.close()
        self.worker.stop()
        self.view.outlooks.stop()
        self.view.record()

    def _fitted(self) -> None:
        self.view.publish()
        if self.pushing is not None:
            self.pushing.soon()

    def _wake(self) -> None:
        self.worker.wake()

    def _pull_soon(self) -> None:
        if self.reconcile is not None:
            self.reconcile.soon()

    def scores(self, project: str, tasks: Sequence[dict[str, Any]]) -> list[float | None]:
        """How little one more answer to these tasks would tell: 1 minus the bits of it."""
        analysis = self.view.analysis
        if analysis is None:
            return [None] * len(tasks)
        reader = self.worker.reader
        found = [reader.items(project, data) for data in tasks]
        if None in found and (plan := plan_of(self.engine.store, project)) is not None:
            # Since the start no event has told how the project names its items.
            reader.remember(project, plan)
            found = [reader.items(project, data) for data in tasks]
        bits = [None if items is None else analysis.information_bits(items) for items in found]
        return [None if one is None else max(0.0, 1.0 - one) for one in bits]


def _static(name: str) -> Callable[[Request], Response]:
    package, folder, kind = _STATIC[name]
    content = (files(package) / folder / name).read_bytes()

    def served(_: Request) -> Response:
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    return served
