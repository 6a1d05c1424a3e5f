"""What a Label Studio server sends: the events of webhooks, and the requests to an ML backend.

What is kept of an event is what is named here and nothing else: its project carries the token that
lets anybody in and the login of the data's storage.

An ML backend is connected in the project's settings (Model). Its predictions carry no result, so
that no rater is led by them, and a score that is low where one more answer would tell much: a
project with uncertainty sampling serves the lowest score first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from bbq_adapters.label_studio.answers import TaskReading, key_of, settled
from bbq_adapters.label_studio.exports import (
    Annotation,
    AnnotationJson,
    ControlResult,
    ExportedTask,
    TaskJson,
    identifier,
    task_of_server,
    without_address,
)
from bbq_adapters.label_studio.keys import answer_key, answer_url, number, task_named, task_ref
from bbq_adapters.label_studio.question import Question, comparing_controls, find_question, meaning
from bbq_plugin.data.records import Skipped
from bbq_plugin.errors import FormatError
from bbq_plugin.protocols import Endpoint, ParsedEvent

if TYPE_CHECKING:
    from bbq_adapters.label_studio.adapter import LabelStudioOptions
    from bbq_plugin.data.records import Record, TaskRef
    from bbq_plugin.protocols import ServerKnowledge

#: Where `bbq serve` takes events: those of a webhook, and those of an ML backend.
EVENT_PATHS = ("/webhook/label-studio", "/webhook")
_ANSWERED = ("ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_CREATED")
_DELETED = ("ANNOTATIONS_DELETED", "ANNOTATION_DELETED")
_NOTHING = (
    *("PROJECT_CREATED", "PROJECT_UPDATED", "PROJECT_DELETED", "START_TRAINING"),
    *("LABEL_LINK_CREATED", "LABEL_LINK_UPDATED", "LABEL_LINK_DELETED"),
)
#: The version of the predictions that Label Studio asks for.
MODEL_VERSION = "bbq"
_LONGEST_WORD = 64
# Questions that are remembered; a configuration that changes makes another one.
_MOST_QUESTIONS = 256


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


class _PredictRequest(msgspec.Struct):
    """What is needed of a request for predictions; the rest has a login in it."""

    tasks: list[_EventTask] = []
    project: Any = None


_decode = msgspec.json.Decoder(WebhookEvent).decode
_encode = msgspec.json.Encoder().encode


class LabelStudioEvents:
    """Reads events; the first answer of a project says how all of its answers are read."""

    def __init__(self, options: LabelStudioOptions) -> None:
        self._options = options
        self._questions: dict[tuple[str | None, bytes], Question] = {}
        #: The last one of each project. Other threads look it up while events are read.
        self._last: dict[str | None, Question] = {}

    event_paths = EVENT_PATHS

    def stripped(self, body: bytes) -> tuple[str, bytes]:
        """What has happened, and the part of an event that is needed."""
        event = _decoded(body)
        if event.project is not None and not event.annotation:
            event.project.parsed_label_config = None
        for annotation in _listed(event.annotation):
            annotation.completed_by = without_address(annotation.completed_by)
        return event.action, _encode(event)

    answer_url = staticmethod(answer_url)
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

    # -- the ML backend

    def endpoints(self) -> tuple[Endpoint, ...]:
        """What Label Studio asks of an ML backend, beside the address for events."""
        return (
            # Also asked without a secret, to see whether anything is there at all.
            Endpoint(
                "GET", "/health", lambda *_: {"status": "UP", "model_class": "bbq"}, public=True
            ),
            # The body holds the token of the user who connects: it is not read.
            Endpoint("POST", "/setup", lambda *_: {"model_version": MODEL_VERSION}),
            Endpoint("POST", "/predict", self._predict),
            # Nothing has to be started: the fit follows the answers as they come.
            Endpoint("POST", "/train", lambda *_: {}),
            Endpoint("GET", "/versions", lambda *_: {"versions": [MODEL_VERSION]}),
        )

    def _predict(self, body: bytes, known: ServerKnowledge) -> dict[str, Any]:
        """A score for each task: 1 minus the bits that one more answer is expected to tell."""
        try:
            asked = msgspec.json.decode(body, type=_PredictRequest)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            problem = "this is no request for predictions of Label Studio"
            raise FormatError(problem, "predict") from None
        # A project is called by its id and the time it was made: 2.1794800129.
        project = str(asked.project or "").split(".")[0]
        found = [self._items(project, task.data) for task in asked.tasks]
        if None in found and (kept := Question.of_kept(known.reading_plan(project))) is not None:
            # Since the start no event has told how the project names its items.
            if len(self._last) < _MOST_QUESTIONS:
                self._last.setdefault(project, kept)
            found = [self._items(project, task.data) for task in asked.tasks]
        results: list[dict[str, Any]] = []
        for items in found:
            bits = None if items is None else known.information_bits(items)
            score = None if bits is None else max(0.0, 1.0 - bits)
            results.append({"result": [], "score": score, "model_version": MODEL_VERSION})
        return {"results": results, "model_version": MODEL_VERSION}

    def _items(self, project: str, data: dict[str, Any]) -> tuple[str, ...] | None:
        """The items that a task shows, by the last question of its project."""
        question = self._last.get(project)
        names = question.source.names(data) if question and question.source else None
        return tuple(names) if names else None

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
        records: list[Record] = []
        answers: list[tuple[TaskRef, str]] = []
        lost = False
        for own, some in by_task.items():
            # A single task needs no id to be the one that is meant.
            task = shown.get(own) or (next(iter(shown.values())) if len(shown) == 1 else None)
            if task is None:
                lost = True
                records.append(Skipped(name, "the event does not tell what was shown"))
                continue
            place = identifier(task.project) or project
            for annotation in some:
                if (number(place), number(identifier(annotation.id))) in given:
                    annotation.was_cancelled = False
            # In the shape that a page of the server has.
            whole = task_of_server(TaskJson(some, task.data, task.id, place), name)
            records += self._records(whole, said.project, name)
            answers += [
                (task_ref(whole.project, own), key_of(whole, answer))
                for answer in whole.answers
                if answer.id is not None and own is not None
            ]
        question = self._last.get(project)
        kept = None if question is None else _encode(question.kept()).decode()
        return ParsedEvent(
            action, project, tuple(records), answers=tuple(answers), partial=lost, plan=kept
        )

    def _records(self, task: ExportedTask, project: _Project | None, name: str) -> list[Record]:
        parsed = project.parsed_label_config if project else None
        controls = {key: msgspec.to_builtins(one) for key, one in (parsed or {}).items()}
        place = task.project, _encode(controls)
        question = self._questions.get(place)
        new = question is None and task.is_answered
        if new:
            candidates = comparing_controls(controls, self._options, name) if controls else []
            sample = [self._with_all_labels(task, controls, candidates)]
            question = find_question(sample, self._options, name, candidates)
        reading = TaskReading(question, self._options, name)
        records: list[Record] = list(reading.records(task))
        if new and question is not None:
            reading.check_names([task])
            if len(self._questions) >= _MOST_QUESTIONS:
                self._questions.clear()
                self._last.clear()
            self._questions[place] = question
        if question is not None and self._last.get(task.project) != question:
            self._last[task.project] = question
        return records

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
