"""The events that a Label Studio server sends to a webhook.

What is kept of an event is what is named here and nothing else: its project carries the token that
lets anybody in and the login of the data's storage.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from bbq_adapters.label_studio.answers import (
    Annotation,
    AnnotationJson,
    ControlResult,
    ExportedTask,
    TaskJson,
    TaskReading,
    identifier,
    key_of,
    settled,
    task_of_server,
    without_address,
)
from bbq_adapters.label_studio.comparison_control import (
    FoundQuestions,
    Question,
    asked_questions,
    comparing_controls,
    find_questions,
    kept_questions,
    meaning,
    problem_text,
)
from bbq_adapters.label_studio.ml_backend import MOST_QUESTIONS, MLBackend
from bbq_adapters.label_studio.store_keys import (
    answer_key,
    answer_place,
    answer_url,
    number,
    task_named,
    task_ref,
    task_url,
)
from bbq_plugin.data.records import Skipped
from bbq_plugin.errors import FormatError
from bbq_plugin.protocols import ParsedEvent

if TYPE_CHECKING:
    from bbq_adapters.label_studio.comparison_control import LabelStudioOptions
    from bbq_plugin.data.records import Record, TaskRef
    from bbq_plugin.protocols import Endpoint

#: Where `bbq serve` takes events: those of a webhook, and those of an ML backend.
EVENT_PATHS = ("/webhook/label-studio", "/webhook")
_ANSWERED = ("ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_CREATED")
_DELETED = ("ANNOTATIONS_DELETED", "ANNOTATION_DELETED")
_NOTHING = (
    *("PROJECT_CREATED", "PROJECT_UPDATED", "PROJECT_DELETED", "START_TRAINING"),
    *("LABEL_LINK_CREATED", "LABEL_LINK_UPDATED", "LABEL_LINK_DELETED"),
)
_LONGEST_WORD = 64


class _EventTask(msgspec.Struct, omit_defaults=True):
    id: Any = None
    data: dict[str, Any] = {}
    project: Any = None


class _Control(msgspec.Struct, omit_defaults=True):
    type: Any = None
    to_name: Any = None
    labels: Any = None


class _Project(msgspec.Struct, omit_defaults=True):
    id: Any = None
    title: Any = None
    parsed_label_config: dict[str, _Control] | None = None


class _Id(msgspec.Struct):
    id: Any = None


class WebhookEvent(msgspec.Struct, omit_defaults=True):
    """An event, without all that is not needed."""

    action: str
    annotation: AnnotationJson | list[AnnotationJson] | None = None
    task: _EventTask | list[_EventTask] | None = None
    #: Only ids, of what was deleted or made.
    annotations: list[_Id] | None = None
    tasks: list[_Id] | None = None
    project: _Project | None = None


_decode = msgspec.json.Decoder(WebhookEvent).decode
_encode = msgspec.json.Encoder().encode


class LabelStudioEvents:
    """Reads events; the first answer of a project says how all of its answers are read."""

    def __init__(self, options: LabelStudioOptions) -> None:
        self._options = options
        self._questions: dict[tuple[str | None, bytes], tuple[Question, ...]] = {}
        #: The first question of each project. Other threads look it up while events are read.
        self._last: dict[str | None, Question] = {}
        self._kept: dict[str | None, tuple[Question, ...]] = {}

    event_paths = EVENT_PATHS

    def stripped(self, body: bytes) -> tuple[str, bytes]:
        """What has happened, and the part of an event that is needed."""
        event = _decoded(body)
        if event.project is not None and not event.annotation:
            event.project.parsed_label_config = None
        for annotation in _listed(event.annotation):
            annotation.completed_by = without_address(annotation.completed_by)
        return event.action, _encode(event)

    def raters(self, body: bytes) -> frozenset[str]:
        """Whose answers an event holds."""
        named = (one.completed_by for one in _listed(_decoded(body).annotation))
        return frozenset(str(own) for own in map(without_address, named) if own is not None)

    answer_url = staticmethod(answer_url)
    answer_place = staticmethod(answer_place)
    task_url = staticmethod(task_url)
    settle = staticmethod(settled)
    task = staticmethod(task_named)

    def __call__(
        self, event: bytes | Mapping[str, Any], given: Collection[tuple[int, int]] = ()
    ) -> ParsedEvent:
        """What an event means."""
        said = _decoded(event)
        action = said.action[:_LONGEST_WORD]
        project = identifier(said.project.id) if said.project else None
        if action in _ANSWERED:
            return self._answered(said, action, project, given)
        if action in _DELETED:
            ids = [identifier(one.id) for one in said.annotations or ()]
            gone = tuple(answer_key(project, one) for one in ids if one)
            return ParsedEvent(action, project, gone=gone, partial=not gone)
        if action == "TASKS_DELETED":
            ids = [identifier(one.id) for one in said.tasks or ()]
            tasks = tuple(task_ref(project, one) for one in ids if one)
            return ParsedEvent(action, project, gone_tasks=tasks, partial=True)
        if action in _NOTHING:
            return ParsedEvent(action, project)
        if action == "TASKS_CREATED":
            # Tasks may be imported together with answers, of which no event tells.
            return ParsedEvent(action, project, partial=True)
        unknown = Skipped("webhook", "an event of an unknown kind", repr(action), expected=True)
        return ParsedEvent(action, project, (unknown,))

    def endpoints(self) -> tuple[Endpoint, ...]:
        """What Label Studio asks of an ML backend, beside the address for events."""
        return MLBackend(self._last).endpoints()

    # -- answers

    def _answered(
        self,
        said: WebhookEvent,
        action: str,
        project: str | None,
        given: Collection[tuple[int, int]],
    ) -> ParsedEvent:
        if not said.annotation:
            # The webhook was set up without its payload.
            return ParsedEvent(action, project, partial=True)
        shown = {identifier(task.id): task for task in _listed(said.task)}
        by_task: dict[str | None, list[AnnotationJson]] = {}
        for annotation in _listed(said.annotation):
            by_task.setdefault(identifier(annotation.task), []).append(annotation)
        name = f"label-studio project {project or 'without id'}"
        records: dict[str, list[Record]] = {}
        answers: list[tuple[TaskRef, str]] = []
        problems: list[str] = []
        lost = False
        for own, some in by_task.items():
            # A single task needs no id to be the one that is meant.
            task = shown.get(own) or (next(iter(shown.values())) if len(shown) == 1 else None)
            if task is None:
                lost = True
                untold = Skipped(name, "the event does not tell what was shown")
                records.setdefault("", []).append(untold)
                continue
            place = identifier(task.project) or project
            for annotation in some:
                if (number(place), number(identifier(annotation.id))) in given:
                    annotation.was_cancelled = False
            # In the shape that a page of the server has.
            whole = task_of_server(TaskJson(some, task.data, task.id, place), name)
            found, unread = self._records(whole, said.project, name)
            for question, some_records in found.items():
                records.setdefault(question, []).extend(some_records)
            problems += unread
            answers += [
                (task_ref(whole.project, own), key_of(whole, answer))
                for answer in whole.answers
                if answer.id is not None and own is not None
            ]
        kept = kept_questions(self._kept.get(project, ()))
        (first, of_first), *others = list(records.items()) or [("", [])]
        title = said.project.title if said.project else None
        return ParsedEvent(
            action, project, tuple(of_first), answers=tuple(answers), partial=lost,
            plan=None if kept is None else _encode(kept).decode(),
            question=first, others=dict(others), title=title if isinstance(title, str) else "",
            problem="; ".join(dict.fromkeys(problems)) or None,
        )  # fmt: skip

    def _records(
        self, task: ExportedTask, project: _Project | None, name: str
    ) -> tuple[dict[str, list[Record]], list[str]]:
        """The records by question, and why some are missing."""
        parsed = project.parsed_label_config if project else None
        controls = {key: msgspec.to_builtins(one) for key, one in (parsed or {}).items()}
        place = task.project, _encode(controls)
        asked = asked_questions(controls, self._options)
        known = self._questions.get(place, ())
        candidates, problems = [], []
        if task.is_answered and len(known) < max(1, len(asked)):
            candidates = comparing_controls(controls, self._options, name) if controls else []
            labelled = dict.fromkeys([*candidates, *(one for chosen in asked for one in chosen)])
            sample = [self._with_all_labels(task, controls, list(labelled))]
            found = find_questions(sample, self._options, name, asked, candidates, known)
            problems = [problem_text(error) for error in found.problems.values()]
        else:
            found = FoundQuestions(known)
        several = [",".join(chosen) for chosen in asked] if len(asked) > 1 else []
        names = dict.fromkeys([*several, *(question.name for question in found.known)])
        by_question: dict[str, list[Record]] = {}
        for own in names or ("",):
            question = found.of(own)
            records = by_question[own] = []
            if question is None and several:
                continue
            reading = TaskReading(question, self._options, name)
            try:
                records += reading.records(task)
                if question is not None and question not in known:
                    reading.check_names([task])
            except FormatError as error:
                if not several:
                    raise
                problems.append(problem_text(error))
                records.clear()
        self._remember(task.project, place, found.known)
        return by_question, problems

    def _remember(
        self,
        project: str | None,
        place: tuple[str | None, bytes],
        questions: tuple[Question, ...],
    ) -> None:
        if not questions:
            return
        if questions != self._questions.get(place):
            if len(self._questions) >= MOST_QUESTIONS:
                self._questions.clear()
                self._kept.clear()
                self._last.clear()
            self._questions[place] = questions
        if self._kept.get(project) != questions:
            self._kept[project] = questions
            self._last[project] = questions[0]

    def _with_all_labels(
        self, task: ExportedTask, controls: dict[str, Any], candidates: list[str]
    ) -> ExportedTask:
        """The task as if each label had been chosen once: one answer alone says too little."""
        asked = [
            Annotation(None, task.where, None, [ControlResult(control, "choices", [str(label)])])
            for control in candidates
            if controls[control].get("type") == "Choices"
            for label in _listed(controls[control].get("labels"))
            if meaning(str(label), self._options.labels) is not None
        ]
        return replace(task, answers=[*task.answers, *asked])


def _decoded(event: bytes | Mapping[str, Any]) -> WebhookEvent:
    try:
        if isinstance(event, (bytes, bytearray)):
            return _decode(event)
        return msgspec.convert(event, WebhookEvent)
    except msgspec.ValidationError as error:
        problem = f"this is no event of Label Studio: {error}"
    except (msgspec.DecodeError, UnicodeError) as error:
        problem = f"not valid JSON ({error})"
    except RecursionError:
        problem = "the JSON is nested too deeply"
    raise FormatError(problem, "event", remedy="expected what a webhook of Label Studio sends")


def _listed(found: Any) -> list[Any]:
    if found is None:
        return []
    return found if isinstance(found, list) else [found]
