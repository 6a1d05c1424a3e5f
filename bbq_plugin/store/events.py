"""Events of a labelling tool: those received, the answers of each task, and how they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from bbq_plugin.store.read import SELECT_COMPARISONS, comparison
from bbq_plugin.store.upsert import among

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bbq_plugin.data.records import Comparison, TaskRef
    from bbq_plugin.store import Store
    from bbq_plugin.store.transaction import Transaction

__all__ = [
    "add_plans",
    "add_task",
    "add_task_answers",
    "comparisons_under",
    "forget_task",
    "has_set_aside",
    "plan_of",
    "task_keys",
    "tasks_of",
]

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
