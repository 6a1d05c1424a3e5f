"""Answers out of a project in pages: what changed since the last time, and what is gone.

Tasks come in the order of their ids, each page asks for ids above the last one: nothing is lost
or read twice when others work meanwhile, and a pull that was interrupted goes on from its last
page. A task's `updated_at` moves with every answer that is made, changed or deleted in it, so only
tasks that changed are asked for. Deleted tasks are on no page: after each pull the numbers of tasks
and answers on both sides are compared, and where they differ, or where events have told of tasks
that were on no page, the ids and counts of all tasks are gone through.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from bbq_adapters.label_studio.answers import TaskReading, key_of
from bbq_adapters.label_studio.client import plain, query
from bbq_adapters.label_studio.comparison_control import (
    asked_questions,
    comparing_controls,
    find_questions,
    kept_questions,
    questions_of_kept,
)
from bbq_adapters.label_studio.exports import epoch, task_of_api
from bbq_adapters.label_studio.store_keys import task_ref
from bbq_plugin.data.records import UNREAD, Note, Skipped, TaskState
from bbq_plugin.errors import RemoteError
from bbq_plugin.protocols import TaskPage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bbq_adapters.label_studio.client import Client
    from bbq_adapters.label_studio.comparison_control import LabelStudioOptions, Question
    from bbq_adapters.label_studio.exports import ExportedTask
    from bbq_plugin.data.records import Record, TaskRef
    from bbq_plugin.errors import FormatError
    from bbq_plugin.protocols import ProjectMemory

PAGE_SIZE = 200
#: Tasks whose ids and counts are compared at once.
SWEEP_SIZE = 2000
# What is asked of a task and, under the same names, of its annotations; the rest is three
# quarters of the bytes.
ANSWERS = (
    "annotations,result,completed_by,was_cancelled,ground_truth,created_at,lead_time,"
    "parent_annotation,parent_prediction"
)
_FIELDS = f"id,project,data,drafts,updated_at,total_annotations,cancelled_annotations,{ANSWERS}"
_COUNTS = "id,updated_at,total_annotations,cancelled_annotations"
# A change may become visible a little after its own time.
_OVERLAP = timedelta(seconds=60)


@dataclass(frozen=True)
class PullState:
    """Where a pull stands; kept with every page."""

    #: Of configuration and options: answers read in another way are read again.
    fingerprint: str
    plan: dict[str, Any] | None = None
    #: The plan under the configuration or the options of before.
    before: dict[str, Any] | None = None
    #: All changes up to this time are in; empty before the first pull has ended.
    since: str = ""
    #: Where the pull under way stands: the last task, and the latest change when it began. What
    #: changes meanwhile, before or behind it, is for the next pull.
    after: int = 0
    began: str = ""


class TaskReader:
    """One project, page by page."""

    def __init__(
        self,
        client: Client,
        project: int,
        info: Mapping[str, Any],
        options: LabelStudioOptions,
        page_size: int,
    ) -> None:
        self.client, self.project, self.options = client, project, options
        self.page_size = page_size
        self.name = f"label-studio project {project}"
        self.parsed = info.get("parsed_label_config")
        self.candidates = comparing_controls(self.parsed, options, self.name)
        self.asked = asked_questions(self.parsed, options)
        self.title = str(info.get("title") or "")
        self.fingerprint = self._fingerprint(info)

    def reads(self, info: Mapping[str, Any]) -> bool:
        """Whether this is the configuration that answers are read by."""
        return self._fingerprint(info) == self.fingerprint

    def _fingerprint(self, info: Mapping[str, Any]) -> str:
        """Changes when answers have to be read in another way."""
        read_by = msgspec.json.encode((str(info.get("label_config")), self.options), order="sorted")
        return sha256(read_by).hexdigest()[:16]

    def questions(self, known: ProjectMemory) -> list[Question]:
        """How the answers are read, if that is known by now."""
        return questions_of_kept(self._kept(known.state).plan)

    def _kept(self, state: Mapping[str, Any]) -> PullState:
        if state.get("fingerprint") != self.fingerprint:
            # All is read again; how it was read before helps where a new label makes it unclear.
            return PullState(self.fingerprint, before=state.get("plan") or state.get("before"))
        return msgspec.convert({k: v for k, v in state.items() if v is not None}, PullState)

    def pages(self, known: ProjectMemory, *, everything: bool = False) -> Iterator[TaskPage]:
        """Everything that changed; the last page says that all is in."""
        state = self._kept(known.state)
        if everything:
            state = PullState(self.fingerprint, before=state.before)
        if not state.began:
            state = replace(state, began=self._latest())
        n_done = 0
        for tasks, n_left in self._changed(state, known):
            page = self._page(tasks, state, known, n_done, n_left)
            yield page
            state, n_done = PullState(**page.state), page.n_done
        state = replace(state, since=max(state.began, state.since), after=0, began="")
        yield TaskPage((), (), asdict(state), n_done, n_done)
        counted = known.n_tasks(), known.n_answers()
        if everything or known.told_tasks() or self._counts() != counted:
            yield from self._sweep(state, known, n_done)

    def _page(
        self,
        tasks: list[dict[str, Any]],
        state: PullState,
        known: ProjectMemory,
        n_done: int,
        n_left: int,
    ) -> TaskPage:
        given = known.cancelled_by_push()
        for task in tasks:
            for annotation in task.get("annotations") or () if given else ():
                if annotation.get("id") in given:
                    annotation["was_cancelled"] = False
        shown = [task_of_api(task, self.name) for task in tasks]
        questions, by_question = self._read(shown, state)
        states = tuple(map(self._task_state, tasks, shown))
        state = replace(state, plan=kept_questions(questions), after=int(tasks[-1]["id"]))
        (first, records), *others = by_question.items()
        return TaskPage(
            records, states, asdict(state), n_done + len(tasks), n_done + n_left,
            question=first, others=dict(others), title=self.title,
        )  # fmt: skip

    def _read(
        self, shown: list[ExportedTask], state: PullState
    ) -> tuple[list[Question], dict[str, list[Record]]]:
        """All questions that are known by now, and the records of each that is asked."""
        sample = [task for task in shown if task.is_answered]
        known, before = questions_of_kept(state.plan), questions_of_kept(state.before)
        found = find_questions(
            sample, self.options, self.name, self.asked, self.candidates, known, before
        )
        several = [",".join(chosen) for chosen in self.asked] if len(self.asked) > 1 else []
        names = dict.fromkeys([*several, *(question.name for question in found.known)])
        by_question: dict[str, list[Record]] = {}
        for name in names or ("",):
            question = found.of(name)
            records = by_question[name] = []
            if question is None and several:
                # Nobody has answered it yet, or it cannot be read.
                why = found.problems.get(name)
                records += [] if why is None else _unread(shown, name.split(","), why)
                continue
            reading = TaskReading(question, self.options, self.name, lenient=bool(known or before))
            # A task without an answer is no row that was left out.
            records += [r for task in shown if task.answers for r in reading.records(task)]
            if question not in known:
                reading.check_names(sample)
        for name, error in found.problems.items():
            by_question[name].append(Note(str(error)))
        return list(found.known), by_question

    def _ref(self, task: Any) -> TaskRef:
        return task_ref(str(self.project), str(task))

    def _task_state(self, task: dict[str, Any], shown: ExportedTask) -> TaskState:
        stamp, total, cancelled = _counts_of(task)
        keys = tuple(key_of(shown, answer) for answer in shown.answers if answer.id is not None)
        return TaskState(self._ref(task["id"]), stamp, epoch(stamp) or 0.0, total, cancelled, keys)

    # -- questions to the server

    def _changed(
        self, state: PullState, known: ProjectMemory
    ) -> Iterator[tuple[list[dict[str, Any]], int]]:
        """Whole tasks that changed, in the order of their ids, and how many are left."""
        if state.since:
            since = datetime.fromisoformat(state.since).astimezone(UTC) - _OVERLAP
            stamp = since.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            filters = [("updated_at", "greater", "Datetime", stamp)]
            yield from self._whole(self._differing(known.tasks(), set(), filters, state.after))
        else:
            yield from self.by_id("reading tasks", _FIELDS, self.page_size, state.after, whole=True)

    def by_id(
        self,
        what: str,
        fields: str,
        size: int,
        after: int = 0,
        filters: Sequence[tuple[str, str, str, Any]] = (),
        *,
        whole: bool = False,
    ) -> Iterator[tuple[list[dict[str, Any]], int]]:
        """Tasks in the order of their ids, page by page, and how many are left."""
        while True:
            asked = query([("id", "greater", "Number", after), *filters])
            tasks, n_left = self.listed(what, asked, fields, size, whole=whole)
            if not tasks:
                return
            after = int(tasks[-1]["id"])
            yield tasks, n_left

    def _whole(self, ids: list[int]) -> Iterator[tuple[list[dict[str, Any]], int]]:
        for start in range(0, len(ids), self.page_size):
            some = ids[start : start + self.page_size]
            chosen = query([], selectedItems={"all": False, "included": some})
            tasks, _ = self.listed("reading tasks", chosen, _FIELDS, self.page_size, whole=True)
            if tasks:
                yield tasks, len(ids) - start

    def _differing(
        self,
        before: Mapping[int, tuple[str, int, int]],
        missing: set[int],
        filters: list[tuple[str, str, str, Any]],
        after: int = 0,
    ) -> list[int]:
        """Tasks that are not as they were known; what there is leaves `missing`."""
        differ: list[int] = []
        for tasks, _ in self.by_id("comparing tasks", _COUNTS, SWEEP_SIZE, after, filters):
            for task in tasks:
                missing.discard(int(task["id"]))
                if before.get(int(task["id"])) != _counts_of(task):
                    differ.append(int(task["id"]))
        return differ

    def _latest(self) -> str:
        """When a task last changed, by the server's clock."""
        asked = query([], ordering=["-tasks:updated_at"])
        tasks, _ = self.listed("looking for changes", asked, _COUNTS, 1)
        return str(tasks[0].get("updated_at") or "") if tasks else ""

    def _counts(self) -> tuple[int, int]:
        """How many tasks and answers there are, cancelled answers apart."""
        listed: Any = self.client.call(
            "counting tasks",
            lambda sdk: sdk.tasks.list(project=self.project, page=1, page_size=1, include="id"),
            missing=f"there is no project {self.project}",
        )
        totals = plain(listed.response)
        return int(totals.get("total") or 0), int(totals.get("total_annotations") or 0)

    def _sweep(self, state: PullState, known: ProjectMemory, n_done: int) -> Iterator[TaskPage]:
        """Compare ids and counts of all tasks: read what differs, drop what is gone."""
        # Before the list is asked for: what comes later may be newer than the list.
        last_id = known.last_id()
        before = known.tasks()
        missing = set(before) | known.told_tasks()
        for tasks, n_left in self._whole(self._differing(before, missing, [])):
            page = self._page(tasks, state, known, n_done, n_left)
            # Where to go on is not a matter of these.
            state, n_done = replace(state, plan=page.state["plan"]), page.n_done
            yield replace(page, state=asdict(state))
        if missing:
            gone = tuple(map(self._ref, sorted(missing)))
            yield TaskPage((), (), asdict(state), n_done, n_done, gone, last_id)

    def listed(
        self, what: str, asked: str, fields: str, size: int, *, whole: bool = False
    ) -> tuple[list[dict[str, Any]], int]:
        """Tasks that match, and how many match in all; `whole`: with what hangs on them."""
        found: Any = self.client.call(
            what,
            lambda sdk: sdk.tasks.list(
                project=self.project,
                page=1,
                page_size=size,
                fields="all" if whole else "task_only",
                include=fields,
                query=asked,
                # Links to a cloud storage would be signed one by one, and names of items no more.
                resolve_uri=False,
            ),
            missing=f"there is no project {self.project}",
        )
        tasks = [plain(task) for task in found.items or ()]
        total = plain(found.response).get("total")
        if not isinstance(total, int) or not all("id" in task for task in tasks):
            raise RemoteError(
                f"{self.client.url}: {what}: the answer has an unexpected shape; is this the "
                "address of Label Studio, and of a version that this package knows?"
            )
        return tasks, total


def _unread(
    shown: Sequence[ExportedTask], controls: Sequence[str], why: FormatError
) -> list[Skipped]:
    """The answers to a question that cannot be read; they count as soon as it can be."""
    return [
        Skipped(answer.where, f"{UNREAD}: {why.problem}")
        for task in shown
        for answer in task.answers
        if not answer.cancelled and any(answer.of(control) for control in controls)
    ]


def _counts_of(task: Mapping[str, Any]) -> tuple[str, int, int]:
    return (
        str(task.get("updated_at") or ""),
        int(task.get("total_annotations") or 0),
        int(task.get("cancelled_annotations") or 0),
    )
