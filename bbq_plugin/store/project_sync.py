"""What the store remembers of projects: how far each was read, its tasks, what was written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from bbq_plugin.data.records import Action, JournalEntry
from bbq_plugin.errors import UsageError
from bbq_plugin.store.database_file import reading
from bbq_plugin.store.transaction import among

if TYPE_CHECKING:
    from bbq_plugin.data.records import TaskRef, TaskState, WriteState
    from bbq_plugin.store import Store
    from bbq_plugin.store.transaction import Transaction

_encode = msgspec.json.Encoder(order="sorted").encode

# Of writes that were made, or may have been.
_STANDING = "state IN ('begun', 'done', 'undoing')"

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
    "JOIN study s JOIN retracted r ON r.study = s.id AND r.key = b.key AND r.version < 1e300 "
    "WHERE NOT EXISTS (SELECT 1 FROM comparison c WHERE c.study = s.id AND c.key = b.key) AND a.key"
)


#: Rows of a task by study, as `row_counts` has them.
_Rows = dict[int, dict[str, int]]


def _by_study(rows: Mapping[str, Mapping[str, int]], bound: Mapping[str, int]) -> _Rows:
    found: dict[int, Counter[str]] = {}
    for question, some in rows.items():
        found.setdefault(bound[question], Counter()).update(some)
    return {study: dict(total) for study, total in found.items() if total}


@dataclass(frozen=True, slots=True)
class Standing:
    """The writes that an undo would take back."""

    #: How many writes of each kind.
    kinds: Mapping[str, int] = field(default_factory=dict)
    #: Names these writes, so that no more is undone than the user has seen.
    mark: str = ""
    #: All writes were undone by hand since a plan was last applied by hand.
    held: bool = False

    @property
    def n(self) -> int:
        """How many writes."""
        return sum(self.kinds.values())


class Memory:
    """`ProjectMemory` and `Journal` of one project, in one store."""

    def __init__(
        self,
        store: Store,
        tool: str,
        project: int,
        url: str,
        *,
        options: Mapping[str, Any] | None = None,
        moved: bool = False,
        bind: bool = True,
    ) -> None:
        """`options` are kept for the next time; without any, those of the last time hold.

        A project that the store does not know yet is entered, unless it is only read; with
        ``bind=False`` not before `bind`, for a caller who has yet to see whether it is there.
        """
        self.store = store
        self.tool = tool
        self.project = project
        self.name = f"{tool} project {project}"
        known = self._row()
        if known is not None and known[1] != url and not moved:
            raise UsageError(
                f"the store has project {project} of {known[1]}, and this is {url}; take another "
                "store for another server, or say --moved if it is the same under a new address"
            )
        said = "{}" if known is None else known[2]
        wanted = _encode(dict(options)).decode() if options else said
        self._entered = known is not None and known[1:] == (url, wanted)
        self._wanted = url, wanted
        self.id: int = 0 if known is None else known[0]
        self.options: dict[str, Any] = msgspec.json.decode(wanted)
        if not (self._entered or store.writable):
            raise UsageError(
                f"{store.path} has nothing of project {project} of {url}; "
                f"pull it first: bbq pull --project {project} --store {store.path}"
            )
        if bind:
            self.bind()

    def bind(self) -> None:
        """Enter the project with its address and options, if the store has them otherwise."""
        if self._entered:
            return
        with self.store.transaction() as transaction:
            transaction.db.execute(
                "INSERT INTO remote (tool, project, url, options, at) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET url = excluded.url, options = excluded.options",
                (self.tool, self.project, *self._wanted, self.store.clock()),
            )
        row = self._row()
        assert row is not None  # noqa: S101 (written above)
        self.id, self._entered = row[0], True

    def _row(self) -> tuple[int, str, str] | None:
        row: tuple[int, str, str] | None = self.store.db.execute(
            "SELECT id, url, options FROM remote WHERE tool = ? AND project = ?",
            (self.tool, self.project),
        ).fetchone()
        return row

    # -- what is known of the project

    @property
    def state(self) -> Mapping[str, Any]:
        """What came with the last page."""
        (state,) = self._one("SELECT state FROM remote WHERE id = ?")
        found: dict[str, Any] = msgspec.json.decode(state)
        return found

    def n_tasks(self) -> int:
        """How many tasks are known."""
        return int(self._one("SELECT count(*) FROM remote_task WHERE remote = ?")[0])

    def n_answers(self) -> int:
        """How many answers are known, cancelled ones apart."""
        sql = "SELECT coalesce(sum(n_answers), 0) FROM remote_task WHERE remote = ?"
        return int(self._one(sql)[0])

    def tasks(self) -> dict[int, tuple[str, int, int]]:
        """Stamp and counts of each task."""
        sql = "SELECT task, stamp, n_answers, n_cancelled FROM remote_task WHERE remote = ?"
        return {task: (stamp, n, m) for task, stamp, n, m in self._all(sql)}

    def told_tasks(self) -> frozenset[int]:
        """Tasks that events have told of and no page."""
        sql = "SELECT task FROM told_task WHERE project = ?"
        return frozenset(task for (task,) in self.store.rows(sql, (self.project,)))

    def last_id(self) -> int:
        """What comes into the store from now on has a higher id."""
        return self.store.last_id()

    def cancelled_by_push(self) -> frozenset[int]:
        """The tool's ids of answers that were cancelled by us."""
        found = cancelled_by_push(self.store)
        return frozenset(ref for remote, _, ref in found if remote == self.id)

    def task_keys(self, task: TaskRef) -> set[str]:
        """The keys of the answers that a task had, whether a page or an event has told them."""
        return self.page_keys(task) | self.told_keys(task)

    def page_keys(self, task: TaskRef) -> set[str]:
        """Those that were on the last page of the task."""
        found = self.store.db.execute(
            "SELECT keys FROM remote_task WHERE remote = ? AND task = ?", (self.id, task.number)
        ).fetchone()
        return set(msgspec.json.decode(found[0]) if found else ())

    def told_keys(self, task: TaskRef) -> set[str]:
        """Those that events have told of."""
        told = self.store.db.execute("SELECT key FROM task_answer WHERE task = ?", (task.name,))
        return {key for (key,) in told.fetchall()}

    def save_page(
        self,
        transaction: Transaction,
        state: Mapping[str, Any],
        tasks: Sequence[TaskState],
        gone: Mapping[TaskRef, Collection[str]],
        bound: Mapping[str, int],
    ) -> None:
        """Note what a page says, in the transaction that stores its answers.

        `gone`: tasks that exist no more, each with the keys under it that are newer than that.
        `bound` has the study of each question.
        """
        db = transaction.db
        rows = [_by_study(one.rows, bound) for one in tasks]
        self._recount(transaction, [*(one.task for one in tasks), *gone], rows)
        for task in gone:
            forget_task(transaction, task)
        db.executemany(
            "DELETE FROM remote_task WHERE remote = ? AND task = ?",
            [(self.id, task.number) for task in gone],
        )
        db.executemany(
            "DELETE FROM told_task WHERE project = ? AND task = ?", [one.task[1:] for one in tasks]
        )
        db.executemany(
            "INSERT OR REPLACE INTO remote_task VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (self.id, one.task.number, one.stamp, one.n_answers, one.n_cancelled,
                 _encode(one.keys).decode(),
                 msgspec.json.encode(counts).decode() if counts else None)
                for one, counts in zip(tasks, rows, strict=True)
            ],
        )  # fmt: skip
        # A new task with the same id: for the next pull.
        for task, keys in gone.items():
            if keys:
                add_task_answers(transaction, [(task.name, key) for key in keys])
                add_task(transaction, task)
        db.execute(
            "UPDATE remote SET state = ?, at = ? WHERE id = ?",
            (_encode(state).decode(), self.store.clock(), self.id),
        )

    def _recount(
        self,
        transaction: Transaction,
        known: Iterable[TaskRef],
        now: Iterable[_Rows],
    ) -> None:
        """Count the rows of tasks as they are now, in place of what they were when last read."""
        change: dict[int, Counter[str]] = {}
        for task in known:
            before = transaction.db.execute(
                "SELECT rows FROM remote_task WHERE remote = ? AND task = ?", (self.id, task.number)
            ).fetchone()
            if before is not None and before[0] is not None:
                for study, rows in msgspec.json.decode(before[0], type=_Rows).items():
                    change.setdefault(study, Counter()).subtract(rows)
        for counted in now:
            for study, some in counted.items():
                change.setdefault(study, Counter()).update(some)
        for study, total in change.items():
            if any(total.values()):
                transaction.recount("pull", self.name, study, total)

    # -- what was written to it

    def entries(self) -> list[JournalEntry]:
        """Writes that stand or may stand, oldest first."""
        sql = (
            "SELECT id, kind, target, reason, before, after, ref, state, at FROM journal "  # noqa: S608
            f"WHERE remote = ? AND {_STANDING} ORDER BY id"
        )
        return [_entry(row) for row in self._all(sql)]

    @property
    def held(self) -> bool:
        """Whether nothing is written automatically, because the user has undone everything.

        Otherwise a server that is running, or started again, would write the same once more.
        """
        return _is_held(self.store, self.id)

    def hold(self, on: bool) -> None:  # noqa: FBT001 (the value itself)
        """Begin or end that; a plan that is applied by hand ends it."""
        if on != self.held:
            self.store.keep_note(_hold_note(self.id), "true" if on else "false")

    def written_at(self) -> list[float]:
        """When something was written or taken back, for a budget."""
        sql = (
            "SELECT at, CASE WHEN state IN ('undoing', 'undone') THEN settled_at END "
            "FROM journal WHERE remote = ? AND state != 'void'"
        )
        return [at for times in self._all(sql) for at in times if at is not None]

    def begin(self, actions: Sequence[Action]) -> list[int]:
        """Put writes on record before they are done; their ids."""
        ids = []
        with self.store.transaction() as transaction:
            for action in actions:
                made = transaction.db.execute(
                    "INSERT INTO journal (remote, kind, target, reason, before, after, ref, state, "
                    "at) VALUES (?, ?, ?, ?, ?, ?, ?, 'begun', ?)",
                    (
                        self.id, action.kind, action.target, action.reason,
                        _encode(action.before).decode(), _encode(action.after).decode(),
                        action.ref, self.store.clock(),
                    ),
                )  # fmt: skip
                ids.append(int(made.lastrowid or 0))
        return ids

    def mark(self, entries: Mapping[int, int | None], state: WriteState) -> None:
        """Say how far writes are; for each entry the id of what it made, if that is news."""
        if not entries:
            return
        now = self.store.clock()
        with self.store.transaction() as transaction:
            transaction.db.executemany(
                "UPDATE journal SET state = ?, ref = coalesce(?, ref), settled_at = ? WHERE id = ?",
                [(state, ref, now, entry) for entry, ref in entries.items()],
            )
            if state == "done":
                for entry in entries:
                    self._merge_score(transaction, entry)

    @staticmethod
    def _merge_score(transaction: Transaction, entry: int) -> None:
        """A new score of our own prediction takes the place of the last one on record.

        Scores follow every fit: one entry each would make the journal, and an undo, endless.
        """
        older = transaction.db.execute(
            "SELECT max(o.id) FROM journal n JOIN journal o ON o.remote = n.remote "  # noqa: S608
            "AND o.kind = n.kind AND o.target = n.target AND o.ref = n.ref AND o.id < n.id "
            f"WHERE n.id = ? AND n.kind = 'predict' AND n.before != 'null' AND o.{_STANDING}",
            (entry,),
        ).fetchone()[0]
        if older is not None:
            transaction.db.execute(
                "UPDATE journal SET after = (SELECT after FROM journal WHERE id = ?) WHERE id = ?",
                (entry, older),
            )
            transaction.db.execute("DELETE FROM journal WHERE id = ?", (entry,))

    def _one(self, sql: str) -> tuple[Any, ...]:
        return self._all(sql)[0]

    def _all(self, sql: str) -> list[tuple[Any, ...]]:
        return self.store.rows(sql, (self.id,))


def servers(store: Store) -> list[tuple[str, dict[str, Any]]]:
    """The address of each project, and the options of the adapter that reads it."""
    found = store.rows("SELECT url, options FROM remote ORDER BY id")
    return [(url, msgspec.json.decode(options)) for url, options in found]


def cancelled_by_push(store: Store) -> list[tuple[int, int, int]]:
    """Answers that were marked as cancelled from here: remote, project, and the tool's own id."""
    return store.rows(
        "SELECT r.id, r.project, j.ref FROM journal j JOIN remote r ON r.id = j.remote "  # noqa: S608
        f"WHERE kind = 'cancel' AND j.{_STANDING}"
    )


def standing(store: Store, tool: str, project: int) -> Standing:
    """How much there is to undo, by the store alone: no server is asked."""
    known = store.rows("SELECT id FROM remote WHERE tool = ? AND project = ?", (tool, project))
    if not known:
        return Standing()
    ((remote,),) = known
    found = store.rows(
        "SELECT kind, count(*), max(id) FROM journal "  # noqa: S608
        f"WHERE remote = ? AND {_STANDING} GROUP BY kind ORDER BY kind",
        (remote,),
    )
    kinds = {kind: n for kind, n, _ in found}
    mark = f"{sum(kinds.values())}-{max(own for *_, own in found)}" if found else ""
    return Standing(kinds, mark, held=_is_held(store, remote))


def _hold_note(remote: int) -> str:
    return f"push {remote} held"


def _is_held(store: Store, remote: int) -> bool:
    return store.note(_hold_note(remote)) == "true"


def _entry(row: tuple[Any, ...]) -> JournalEntry:
    own, kind, target, reason, before, after, ref, state, at = row
    values = msgspec.json.decode(before), msgspec.json.decode(after)
    return JournalEntry(own, Action(kind, target, reason, *values, ref), state, at)


# -- the answers of a task, which has a name in the tables of events and numbers in those of pulls


def add_task_answers(transaction: Transaction, pairs: Iterable[tuple[str, str]]) -> None:
    """Keep which answer belongs to which task: pairs of the task's name and the answer's key."""
    transaction.db.executemany("INSERT OR IGNORE INTO task_answer VALUES (?, ?)", pairs)


def add_task(transaction: Transaction, task: TaskRef) -> None:
    """Keep that an event has told of a task of a server, unless a page of a pull has held it."""
    if task.number is not None:
        transaction.db.execute(_ADD_TASK, {"project": task.project, "task": task.number})


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
    with reading(path) as db:
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
