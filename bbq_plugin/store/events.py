"""Events of a labelling tool: those received, the answers of each task, and how they are read."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from bbq_plugin.store.commits import GroupCommit, Request
from bbq_plugin.store.read import SELECT_COMPARISONS, comparison
from bbq_plugin.store.schema import connect
from bbq_plugin.store.upsert import among

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from concurrent.futures import Future

    from bbq_plugin.data.records import Comparison, TaskRef
    from bbq_plugin.store.store import Store
    from bbq_plugin.store.transaction import Transaction

__all__ = [
    "Inbox",
    "ReceivedEvent",
    "RefusedEvents",
    "add_plans",
    "add_task",
    "add_task_answers",
    "comparisons_under",
    "forget_task",
    "has_set_aside",
    "n_waiting",
    "plan_of",
    "refuse_events",
    "refused_events",
    "remove_events",
    "retry_refused",
    "task_by_answer",
    "task_keys",
    "tasks_of",
    "waiting_events",
]

#: Refused events that are kept for another try; beyond, the oldest go.
MOST_REFUSED = 10_000


class ReceivedEvent(NamedTuple):
    """An event that waits to be read."""

    id: int
    at: float
    body: bytes


class RefusedEvents(NamedTuple):
    """Events that were refused for one reason, the last of them at this time."""

    reason: str
    n: int
    at: float


@dataclass(eq=False)
class _Arrival(Request[None]):
    body: bytes


class Inbox:
    """Takes events from any thread; `on_arrival` is called when some are on disk."""

    def __init__(self, store: Store, on_arrival: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._commits = GroupCommit(
            store, self._write, on_commit=lambda _: on_arrival(),
            closed="the server is stopping; send the event again later", name="bbq-inbox",
        )  # fmt: skip

    def close(self) -> None:
        """Write what has come, then end."""
        self._commits.close()

    def put(self, body: bytes) -> Future[None]:
        """Take an event; the future is done when it is on disk."""
        arrival = _Arrival(body)
        self._commits.submit(arrival)
        return arrival.done

    def _write(self, transaction: Transaction, arrivals: Sequence[_Arrival]) -> list[None]:
        now = self._store.clock()
        transaction.db.executemany(
            "INSERT INTO event (at, body) VALUES (?, ?)", [(now, one.body) for one in arrivals]
        )
        return [None] * len(arrivals)


def waiting_events(store: Store, most: int) -> list[ReceivedEvent]:
    """The oldest events that wait to be read."""
    sql = "SELECT id, at, body FROM event WHERE reason IS NULL ORDER BY id LIMIT ?"
    return [ReceivedEvent(*row) for row in store.rows(sql, (most,))]


def remove_events(transaction: Transaction, ids: Iterable[int]) -> None:
    """Forget events whose answers are in."""
    transaction.db.executemany("DELETE FROM event WHERE id = ?", [(own,) for own in ids])


def refuse_events(transaction: Transaction, reasons: Mapping[int, str]) -> None:
    """Keep events apart that cannot be read, each with the reason."""
    transaction.db.executemany(
        "UPDATE event SET reason = ? WHERE id = ?", [(why, own) for own, why in reasons.items()]
    )


def retry_refused(store: Store) -> int:
    """Let refused events wait again; how many there are."""
    with store.transaction() as transaction:
        transaction.db.execute(
            "DELETE FROM event WHERE reason IS NOT NULL AND id NOT IN "
            "(SELECT id FROM event WHERE reason IS NOT NULL ORDER BY id DESC LIMIT ?)",
            (MOST_REFUSED,),
        )
        again = "UPDATE event SET reason = NULL WHERE reason IS NOT NULL"
        return transaction.db.execute(again).rowcount


def n_waiting(store: Store) -> int:
    """How many events wait to be read."""
    return int(store.rows("SELECT count(*) FROM event WHERE reason IS NULL")[0][0])


def refused_events(store: Store) -> list[RefusedEvents]:
    """The events that were refused, by reason, the newest reason first."""
    found = store.rows(
        "SELECT reason, count(*), max(at) FROM event WHERE reason IS NOT NULL "
        "GROUP BY reason ORDER BY max(id) DESC"
    )
    return [RefusedEvents(*row) for row in found]


# A cross join keeps its order: projects are few, and a plan that begins with the tasks goes
# through all of them.
_TASK_KEYS = (
    "SELECT key FROM task_answer WHERE task = ? UNION "
    "SELECT k.value FROM remote r CROSS JOIN remote_task t CROSS JOIN json_each(t.keys) k "
    "WHERE r.project = ? AND t.remote = r.id AND t.task = ?"
)

# A task that a page has held is known to the next pull, which notices when it is gone.
_ADD_TASK = (
    "INSERT OR IGNORE INTO told_task SELECT :project, :task WHERE NOT EXISTS ("
    "SELECT 1 FROM remote r CROSS JOIN remote_task t "
    "WHERE r.project = :project AND t.remote = r.id AND t.task = :task)"
)

# A version as high as this is of an answer that was deleted for good.
_SET_ASIDE = (
    "SELECT b.key FROM task_answer a JOIN task_answer b ON b.task = a.task AND b.key != a.key "
    "JOIN retracted r ON r.key = b.key AND r.version < 1e300 "
    "WHERE NOT EXISTS (SELECT 1 FROM comparison c WHERE c.key = b.key) AND a.key"
)


# -- the answers of a task, which has a name in the tables of events and numbers in those of pulls


def add_task_answers(transaction: Transaction, pairs: Iterable[tuple[str, str]]) -> None:
    """Keep which answer belongs to which task: pairs of the task's name and the answer's key."""
    transaction.db.executemany("INSERT OR IGNORE INTO task_answer VALUES (?, ?)", pairs)


def add_task(transaction: Transaction, task: TaskRef) -> None:
    """Keep that an event has told of a task of a server, unless a page of a pull has held it."""
    if task.number is not None:
        numbers = {"project": task.project, "task": task.number}
        transaction.db.execute(_ADD_TASK, numbers)


def forget_task(transaction: Transaction, task: TaskRef) -> None:
    """Forget a deleted task; its answers have to be taken back apart."""
    transaction.db.execute("DELETE FROM task_answer WHERE task = ?", (task.name,))
    transaction.db.execute("DELETE FROM told_task WHERE project = ? AND task = ?", task[1:])


def task_keys(transaction: Transaction, task: TaskRef) -> set[str]:
    """The keys of the answers of a task, as events or the pages of a pull have told them."""
    return {key for (key,) in transaction.db.execute(_TASK_KEYS, task)}


def tasks_of(transaction: Transaction, keys: Iterable[str]) -> set[str]:
    """The names of the tasks that events have told these answers to belong to."""
    found = among(transaction.db, "SELECT task FROM task_answer WHERE key", set(keys))
    return {task for (task,) in found}


def task_by_answer(path: str, keys: Iterable[str]) -> dict[str, str | int]:
    """The task of each answer: its name, as an event told it, or else its number in a pull."""
    wanted = (msgspec.json.encode(list(keys)).decode(),)
    with closing(connect(path, writable=False)) as db:
        paged = db.execute(
            "SELECT k.value, t.task FROM remote_task t, json_each(t.keys) k "
            "WHERE k.value IN (SELECT value FROM json_each(?))",
            wanted,
        ).fetchall()
        told = db.execute(
            "SELECT key, task FROM task_answer WHERE key IN (SELECT value FROM json_each(?))",
            wanted,
        ).fetchall()
    return dict(paged) | dict(told)


# -- what is stored under the keys of answers


def comparisons_under(transaction: Transaction, keys: Iterable[str]) -> dict[int, Comparison]:
    """The comparisons under these keys, or broken out of rankings with these names, by their id."""
    wanted = set(keys)
    found = among(transaction.db, f"{SELECT_COMPARISONS} WHERE c.key", wanted)
    found += among(transaction.db, f"{SELECT_COMPARISONS} WHERE c.slate > '' AND c.slate", wanted)
    return {row[-1]: comparison(row) for row in sorted(found, key=lambda row: row[-1])}


def has_set_aside(transaction: Transaction, keys: Iterable[str]) -> bool:
    """Whether other answers of the same tasks were taken back and may count again."""
    return bool(among(transaction.db, _SET_ASIDE, set(keys)))


# -- how the answers of a project are read


def add_plans(transaction: Transaction, plans: Mapping[str, str]) -> None:
    """Keep how the answers of projects are read, by the project, in place of what was kept."""
    transaction.db.executemany(
        "INSERT INTO event_plan VALUES (?, ?) "
        "ON CONFLICT DO UPDATE SET plan = excluded.plan WHERE plan != excluded.plan",
        plans.items(),
    )


def plan_of(store: Store, project: str) -> dict[str, Any] | None:
    """How the answers of a project are read, as its events or, without any, its pages have told."""
    kept = store.rows("SELECT plan FROM event_plan WHERE project = ?", (project,))
    if project.isascii() and project.isdigit() and len(project) < 19:
        sql = "SELECT json_extract(state, '$.plan') FROM remote WHERE project = ?"
        kept += store.rows(sql, (int(project),))
    found: dict[str, Any] | None = next((msgspec.json.decode(p) for (p,) in kept if p), None)
    return found
