"""Events of a labelling tool: subscribed to, read through its adapter, put into the store."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from bbq_plugin.data.records import Skipped, TaskRef
from bbq_plugin.errors import RemoteError, UnsupportedError, UsageError
from bbq_plugin.live.credentials import SECRET_HEADER
from bbq_plugin.plugins import chosen_adapter, coerced
from bbq_plugin.protocols import ParsedEvent, Settled
from bbq_plugin.store import projects
from bbq_plugin.store.read import comparisons_under

if TYPE_CHECKING:
    from bbq_plugin.data.records import Comparison, Record
    from bbq_plugin.protocols import Adapter, EventReader, EventSubscription, Project
    from bbq_plugin.store import Store
    from bbq_plugin.store.transaction import Transaction
    from bbq_plugin.store.upsert import Tally

_PAUSE_S = 0.1


def event_reader(adapter: str | Adapter, options: Mapping[str, Any] | None = None) -> EventReader:
    """What reads the events of an adapter's tool; `options` are those of the adapter."""
    chosen, _ = chosen_adapter(adapter, b"", "")
    make = getattr(chosen, "events", None)
    if make is None:
        raise UsageError(f"adapter {chosen.name!r} reads files, and no events")
    return cast("EventReader", make(**coerced(chosen, options or {})))


def reader_of(adapter: Adapter, options: Mapping[str, Any] | None = None) -> EventReader | None:
    """The same for any adapter whose events can be read.

    Instead of `events` an adapter may have a plain `read_event`, which yields the records of one.
    """
    if hasattr(adapter, "events"):
        return event_reader(adapter, options)
    plain = getattr(adapter, "read_event", None)
    return None if plain is None else cast("EventReader", _RecordEvents(plain))


class _RecordEvents:
    """Events that are records and nothing else: each stands alone."""

    def __init__(self, read: Callable[[Mapping[str, Any]], Iterable[Record]]) -> None:
        self._read = read

    def __call__(
        self, event: Mapping[str, Any], given: Collection[tuple[int, int]] = ()
    ) -> ParsedEvent:
        del given
        return ParsedEvent("event", records=tuple(self._read(event)))

    def settle(
        self, before: Sequence[Comparison], now: Sequence[Comparison], told: Collection[str]
    ) -> Settled:
        del before, now, told
        return Settled()

    def task(self, name: str) -> TaskRef:
        return TaskRef(name)


def take(
    transaction: Transaction,
    reader: EventReader,
    news: Iterable[ParsedEvent],
    kind: str,
    name: str,
    at: float,
    *,
    adapter: str | None = None,
    on_partial: Callable[[], None] = lambda: None,
) -> Tally:
    """Put what events say into the store, in whatever order they come.

    Of two records of an answer the newer counts, and what was deleted stays out: so an event
    twice, or before one that should have come first, changes nothing. Which answers of a task
    count beside one another is for the reader to say. `on_partial` is called when a pull would
    bring more: an answer is gone in whose favour another one was taken out.
    """

    def add(records: Iterable[Record]) -> Tally:
        return transaction.add(records, kind, name, at, by_key=False, adapter=adapter, wholes=False)

    def comparisons(task: TaskRef) -> dict[int, Comparison]:
        return comparisons_under(transaction, projects.task_keys(transaction, task))

    found = list(news)
    told: dict[TaskRef, set[str]] = {}
    for task, key in (pair for one in found for pair in one.answers):
        told.setdefault(task, set()).add(key)
    gone = [key for one in found for key in one.gone]
    # An answer that is deleted is named without its task.
    tasks = {**dict.fromkeys(map(reader.task, projects.tasks_of(transaction, gone)), ()), **told}
    before = {task: list(comparisons(task).values()) for task in sorted(tasks)}
    projects.add_task_answers(
        transaction, [(task.name, key) for task, keys in told.items() for key in keys]
    )
    for task in told:
        projects.add_task(transaction, task)
    plans = {one.project or "": one.plan for one in found if one.plan is not None}
    projects.add_plans(transaction, plans)
    records = [record for one in found for record in one.records]
    tally = add(records)
    for task in (task for one in found for task in one.gone_tasks):
        gone += projects.task_keys(transaction, task)
        projects.forget_task(transaction, task)
    if gone:
        tally.n_retracted += transaction.retract(dict.fromkeys(gone), for_good=True)[0]
    for task, known in before.items():
        now = comparisons(task)
        settled = reader.settle(known, list(now.values()), tasks[task])
        if settled.tags:
            ids = list(now)
            tags = {ids[place]: own for place, own in settled.tags.items()}
            tally.n_changed += transaction.retag(tags)
        if settled.replaced:
            tally.n_retracted += add(settled.replaced).n_retracted
    gone += [one.key for one in records if isinstance(one, Skipped) and one.key is not None]
    if gone and projects.has_set_aside(transaction, gone):
        on_partial()
    return tally


def cancelled_by_push(store: Store) -> frozenset[tuple[int, int]]:
    """Answers that were marked as cancelled from here, as project and answer."""
    return frozenset((project, ref) for _, project, ref in projects.cancelled_by_push(store))


# -- having a project send them to `bbq serve`


def subscribe(
    project: Project, serve_url: str, secret: bytes, *, check: bool = True, wait_s: float = 10.0
) -> tuple[int, bool]:
    """Have a project send its events to a running `bbq serve`; with `check`, wait for one.

    The id of the webhook, and whether it is a new one.
    """
    parts = urlsplit(serve_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"the address of bbq serve is {serve_url!r}; expected one such as http://127.0.0.1:8765"
        )
    make = getattr(project, "hooks", None)
    if make is None:
        raise UnsupportedError("this labelling tool sends no events")
    hooks = cast("EventSubscription", make())
    url = serve_url.rstrip("/") + hooks.path
    headers = {SECRET_HEADER: secret.decode("ascii")}
    before = _received(url, headers) if check else {}
    own, is_new = hooks.subscribe(url, headers)
    if check:
        try:
            _wait_for(hooks.provoke(), url, headers, before, wait_s)
        except BaseException:
            if is_new:
                hooks.unsubscribe(own)
            raise
    return own, is_new


def _received(url: str, headers: Mapping[str, str]) -> dict[str, int]:
    """How many events of each kind a server has received."""
    request = urllib.request.Request(url, headers=dict(headers))  # noqa: S310 (checked)
    # Not through a proxy: this is about this machine or one nearby.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=5) as answer:
            found: dict[str, Any] = json.loads(answer.read(1 << 20))
            return {str(action): int(n) for action, n in found["received"].items()}
    except urllib.error.HTTPError as error:
        why = (
            "its secret is another one"
            if error.code in (401, 403)
            else "check that this is bbq serve, of this version"
        )
        raise RemoteError(f"{url}: bbq serve answered {error.code}; {why}") from error
    except (OSError, ValueError, KeyError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise RemoteError(
            f"{url}: bbq serve cannot be reached from here ({reason}); start it, or give "
            "--no-check if only Label Studio can reach it under this address"
        ) from error


def _wait_for(
    action: str, url: str, headers: Mapping[str, str], before: Mapping[str, int], wait_s: float
) -> None:
    end = time.monotonic() + wait_s
    while _received(url, headers).get(action, 0) <= before.get(action, 0):
        if time.monotonic() > end:
            raise RemoteError(
                f"the webhook was registered, but no event has reached {url} in {wait_s:g} s; "
                "give the address under which Label Studio itself reaches bbq serve (inside a "
                "container, 127.0.0.1 is the container). A new webhook has been removed again"
            )
        time.sleep(_PAUSE_S)
