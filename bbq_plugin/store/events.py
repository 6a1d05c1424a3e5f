"""Events of a labelling tool: those received, the answers of each task, and how they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from bbq_plugin.store.upsert import COLUMNS, StoredRow, among

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bbq_plugin.store import Store
    from bbq_plugin.store.transaction import Transaction

__all__ = [
    "add_plans",
    "add_task",
    "add_task_answers",
    "answers_of",
    "forget_task",
    "has_set_aside",
    "plan_of",
    "rows_of",
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


def add_task(transaction: Transaction, project: int, task: int) -> None:
    """Keep that an event has told of a task, unless a page of a pull has held it."""
    transaction.db.execute(_ADD_TASK, {"project": project, "task": task})


def forget_task(transaction: Transaction, name: str, project: int, task: int) -> None:
    """Forget a deleted task; its answers have to be taken back apart."""
    transaction.db.execute("DELETE FROM task_answer WHERE task = ?", (name,))
    transaction.db.execute("DELETE FROM told_task WHERE project = ? AND task = ?", (project, task))


def task_keys(transaction: Transaction, name: str, project: int, task: int) -> set[str]:
    """The keys of the answers of a task, as events or the pages of a pull have told them."""
    return {key for (key,) in transaction.db.execute(_TASK_KEYS, (name, project, task))}


def tasks_of(transaction: Transaction, key: str) -> set[str]:
    """The names of the tasks that events have told an answer to belong to."""
    found = transaction.db.execute("SELECT task FROM task_answer WHERE key = ?", (key,))
    return {task for (task,) in found}


# -- what is stored under the keys of answers


def rows_of(transaction: Transaction, keys: Iterable[str]) -> list[StoredRow]:
    """The comparisons under these keys, or broken out of the rankings with these names."""
    return [StoredRow(*row) for row in _under(transaction, COLUMNS, COLUMNS, keys)]


def answers_of(
    transaction: Transaction, keys: Iterable[str]
) -> list[tuple[str, int, float | None, float | None]]:
    """Key, rater, version and time of what counts: one for each answer, however many pairs."""
    of_key, of_slate = (f"{name}, rater, version, at" for name in ("key", "slate"))
    found = set(_under(transaction, of_key, of_slate, keys))
    return sorted((row for row in found if row[1] is not None), key=lambda row: row[:2])


def _under(
    transaction: Transaction, of_key: str, of_slate: str, keys: Iterable[str]
) -> list[tuple[Any, ...]]:
    wanted = set(keys)
    by_key = f"SELECT {of_key} FROM comparison WHERE key"  # noqa: S608 (constants)
    by_slate = f"SELECT {of_slate} FROM comparison WHERE slate > '' AND slate"  # noqa: S608
    return among(transaction.db, by_key, wanted) + among(transaction.db, by_slate, wanted)


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
    kept += store.rows(
        "SELECT json_extract(state, '$.plan') FROM remote WHERE project = ?", (int(project),)
    )
    found: dict[str, Any] | None = next((msgspec.json.decode(p) for (p,) in kept if p), None)
    return found
