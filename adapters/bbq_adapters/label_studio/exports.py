"""Exports of Label Studio: JSON, snapshots, JSON_MIN and tables, recognised and read by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, groupby, islice
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from bbq_adapters.label_studio.comparison_control import (
    GroundTruth,
    LabelStudioOptions,
    Meaning,
    Within,
    checked,
)
from bbq_adapters.label_studio.store_keys import key_tags, project_prefix
from bbq_adapters.row_reader import BOM, array_objects, iso_seconds, look, number, table_rows
from bbq_plugin.data.rankings import Weights
from bbq_plugin.data.records import BothBad, Comparison, FullExport, Note, Skipped
from bbq_plugin.errors import FormatError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterable, Iterator

    from bbq_adapters.label_studio.webhook_events import LabelStudioEvents
    from bbq_plugin.data.records import Record


#: The columns that every table of Label Studio has, whatever the project.
COLUMNS = ("annotation_id", "annotator", "created_at", "lead_time", "updated_at")
#: What to do about a file that no server writes.
DAMAGED = "export the project again; the file may be damaged"
#: The types of result that can compare, and the key of their value.
VALUE_KEYS = {"pairwise": "selected", "choices": "choices", "ranker": "ranker", "rating": "rating"}
_KINDS = {key: kind for kind, key in VALUE_KEYS.items()}
#: What the flat exports add to the task's data.
FLAT_FIELDS = frozenset(
    ("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement")
)
# Tables rename a key of the data like this if a control has the same name.
_RENAMED = "_data_"
# A page may stay open over a weekend; what takes longer than a year is no duration.
_LONGEST_S = 366 * 24 * 3600.0
# The flat exports write Python's None as text where the rater's account was deleted.
_NOBODY = "None"


@dataclass(slots=True)
class ControlResult:
    """What one control of an annotation holds. `kind` is "" where the export does not say."""

    control: str
    kind: str
    value: Any
    to_name: str = ""


@dataclass(slots=True)
class Annotation:
    """One annotation."""

    id: str | None
    where: str
    rater: str | None
    results: list[ControlResult]
    at: float | None = None
    updated: float | None = None
    time_s: float | None = None
    cancelled: bool = False
    ground_truth: bool | None = None
    parent: str | None = None
    by_machine: bool = False
    #: Whether it told a duration that can be none.
    odd_time: bool = False

    def of(self, control: str) -> list[ControlResult]:
        """The results of one control."""
        return [result for result in self.results if result.control == control]


@dataclass(slots=True)
class ExportedTask:
    """One task: what was shown, and what was answered."""

    line: int
    where: str
    project: str | None
    data: dict[str, Any]
    answers: list[Annotation]
    drafts: int = 0
    #: In the flat exports the data hold the answers too, and no type says which.
    flat: bool = False
    #: Keys of data that a table had to rename because a control has the same name.
    renamed: frozenset[str] = frozenset()
    #: Its number on the server.
    id: str | None = None

    @property
    def is_answered(self) -> bool:
        """Whether a rater has answered it, and not skipped it."""
        return any(answer.results and not answer.cancelled for answer in self.answers)

    def shown_beside(self, control: str) -> dict[str, Any]:
        """The data without this control's own answer."""
        if not self.flat or control in self.renamed:
            return self.data
        return {key: value for key, value in self.data.items() if key != control}


class AnnotationJson(msgspec.Struct, gc=False, omit_defaults=True):
    """What is read of an annotation in an export, an answer of the API or an event."""

    id: Any = None
    completed_by: Any = None
    result: Any = None
    was_cancelled: Any = False
    ground_truth: Any = False
    created_at: Any = None
    updated_at: Any = None
    lead_time: Any = None
    task: Any = None
    project: Any = None
    parent_annotation: Any = None
    parent_prediction: Any = None


class TaskJson(msgspec.Struct, gc=False):
    """What is read of a task in an export or an answer of the API."""

    annotations: list[AnnotationJson]
    data: dict[str, Any]
    id: Any = None
    project: Any = None
    drafts: Any = None


def is_flat(raw: bytes, name: str, line: int) -> bool:
    """Whether this first object of a JSON file is a JSON_MIN row and not a task."""
    keys = decoded(raw, dict[str, msgspec.Raw], name, line)
    if "annotation_id" in keys and "annotator" in keys:
        return True
    if "annotations" in keys and "data" in keys:
        return False
    problem = (
        "this is not a task of Label Studio: it has neither annotations and data (JSON) "
        "nor annotation_id and annotator (JSON_MIN)"
    )
    raise FormatError(problem, name, line, sorted(keys)[:20], "export the project as JSON")


def decoded(raw: bytes, kind: Any, name: str, line: int) -> Any:
    """Decode one object, or say what is wrong with it."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        problem = f"the task has an unexpected shape: {error}"
    except msgspec.DecodeError as error:
        problem = f"not valid JSON ({error})"
    except UnicodeError:
        problem = "the text is not UTF-8"
    except RecursionError:
        problem = "the JSON is nested too deeply"
    value = raw[:80].decode("utf-8", "replace")
    raise FormatError(problem, name, line, value, DAMAGED)


def full_tasks(found: Iterable[tuple[int, bytes]], name: str) -> Iterator[tuple[int, ExportedTask]]:
    """Tasks of a JSON export or a snapshot, with their sizes in bytes."""
    for line, raw in found:
        task: TaskJson = decoded(raw, TaskJson, name, line)
        yield len(raw), _full_task(task, line, f"{name}:{line}: task {_shown(task.id)}")


def task_of_api(found: dict[str, Any], name: str) -> ExportedTask:
    """A task as the server's API has it."""
    try:
        task = msgspec.convert(found, TaskJson)
    except msgspec.ValidationError as error:
        problem = f"a task has an unexpected shape: {error}"
        remedy = "this version of Label Studio may be newer than this package; upgrade it"
        raise FormatError(problem, name, value=sorted(found)[:20], remedy=remedy) from error
    return task_of_server(task, name)


def task_of_server(task: TaskJson, name: str) -> ExportedTask:
    """A task that a server has sent; no address of a person is kept."""
    for annotation in task.annotations:
        annotation.completed_by = without_address(annotation.completed_by)
    return _full_task(task, 0, f"{name}: task {_shown(task.id)}")


def _full_task(task: TaskJson, line: int, place: str) -> ExportedTask:
    told = [task.project, *(annotation.project for annotation in task.annotations)]
    return ExportedTask(
        line,
        place,
        next(filter(None, map(identifier, told)), None),
        task.data,
        [_answer(annotation, place) for annotation in task.annotations],
        drafts=len(task.drafts) if isinstance(task.drafts, list) else 0,
        id=identifier(task.id),
    )


def _answer(annotation: AnnotationJson, place: str) -> Annotation:
    results = annotation.result if isinstance(annotation.result, list) else []
    time_s = seconds(annotation.lead_time)
    return Annotation(
        identifier(annotation.id),
        f"{place}, annotation {_shown(annotation.id)}",
        _person(annotation.completed_by),
        [result for item in results if (result := _result(item))],
        epoch(annotation.created_at),
        epoch(annotation.updated_at),
        time_s,
        bool(annotation.was_cancelled),
        bool(annotation.ground_truth),
        identifier(annotation.parent_annotation),
        # Submitting in the browser always sends the time it took; turning predictions into
        # annotations in bulk never does, and no rater looked at those.
        annotation.parent_prediction is not None and annotation.lead_time is None,
        time_s is None and annotation.lead_time is not None,
    )


def _result(item: Any) -> ControlResult | None:
    if not isinstance(item, dict):
        return None
    control, kind, value = item.get("from_name"), item.get("type"), item.get("value")
    if not isinstance(control, str) or not isinstance(kind, str):
        return None
    to_name = item.get("to_name")
    key = VALUE_KEYS.get(kind, "")
    inside = value.get(key) if isinstance(value, dict) else None
    return ControlResult(control, kind, inside, to_name if isinstance(to_name, str) else "")


def flat_tasks(
    found: Iterable[tuple[int, dict[str, Any]]], name: str, project: str | None
) -> Iterator[ExportedTask]:
    """Tasks of JSON_MIN, CSV or TSV: the rows of one task stand together."""
    alone = iter(range(1 << 62))

    def task_id(numbered: tuple[int, dict[str, Any]]) -> Any:
        own = identifier(numbered[1].get("id"))
        return own if own is not None else next(alone)

    for own, group in groupby(found, task_id):
        rows = list(group)
        line, first = rows[0]
        shown = _shown(own if isinstance(own, str) else None)
        answers = [_flat_answer(row, f"{name}:{at}: task {shown}") for at, row in rows]
        # What differs between the rows of a task is an answer, not the task's data.
        data = {
            key: value
            for key, value in first.items()
            if key not in FLAT_FIELDS and all(row.get(key) == value for _, row in rows)
        }
        for key in [key for key in data if key.startswith(_RENAMED)]:
            data[key.removeprefix(_RENAMED)] = data.pop(key)
        yield ExportedTask(
            line,
            f"{name}:{line}: task {shown}",
            project,
            data,
            [answer for answer in answers if answer is not None],
            flat=True,
            renamed=frozenset(k.removeprefix(_RENAMED) for k in first if k.startswith(_RENAMED)),
            id=own if isinstance(own, str) else None,
        )


def cell_rows(stream: io.BufferedReader, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows of a CSV or TSV export, without the empty cells; JSON in a cell is decoded."""
    for place, row in table_rows(stream, name, COLUMNS):
        yield place.line, {key: _decoded(cell) for key, cell in row.items() if cell is not None}


def _decoded(cell: str) -> Any:
    """Lists and objects come as JSON in a cell; a text that only looks so stays a text."""
    if cell[0] not in "[{":
        return cell
    try:
        return msgspec.json.decode(cell)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return cell


def json_min_rows(
    found: Iterable[tuple[int, bytes]], name: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows of a JSON_MIN export, without the nulls."""
    for line, raw in found:
        row: dict[str, Any] = decoded(raw, dict[str, Any], name, line)
        if "annotation_id" not in row:
            problem = "the row has no annotation_id, while the first one has"
            remedy = "export the project again as JSON_MIN or JSON"
            raise FormatError(problem, name, line, sorted(row)[:20], remedy)
        yield line, {key: value for key, value in row.items() if value is not None}


def _flat_answer(row: dict[str, Any], place: str) -> Annotation | None:
    own = identifier(row.get("annotation_id"))
    if own is None:
        return None
    rater = _person(row.get("annotator"))
    time_s = seconds(row.get("lead_time"))
    return Annotation(
        own,
        f"{place}, annotation {_shown(own)}",
        None if rater == _NOBODY else rater,
        [
            result
            for key, value in row.items()
            if key not in FLAT_FIELDS and not key.startswith(_RENAMED)
            for result in _flat_results(key, value)
        ],
        epoch(row.get("created_at")),
        epoch(row.get("updated_at")),
        time_s,
        odd_time=time_s is None and row.get("lead_time") not in (None, ""),
    )


def _flat_results(control: str, value: Any) -> Iterator[ControlResult]:
    """A control's cell: `[{"selected": "left"}]`, `{"choices": [...]}`, or one choice.

    One choice is a text, or a list of texts if it is nested in others.
    """
    if isinstance(value, str) or (
        isinstance(value, list) and value and all(isinstance(one, str) for one in value)
    ):
        yield ControlResult(control, "", [value])
        return
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, dict):
            continue
        known = [key for key in item if key in _KINDS]
        if len(known) == 1:
            yield ControlResult(control, _KINDS[known[0]], item[known[0]])


def identifier(value: Any) -> str | None:
    """An id as text, or None for what cannot be one."""
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value % 1 != 0:
        return None
    try:
        return str(int(value))
    except ValueError:  # Python writes out no number of thousands of digits
        return None


def _person(value: Any) -> str | None:
    """The rater's id; of an object too, so that JSON exports and snapshots agree."""
    if isinstance(value, dict):
        own = identifier(value.get("id"))
        return own if own is not None else identifier(value.get("email"))
    return identifier(value)


def without_address(value: Any) -> Any:
    """Who answered, for what is kept of a server: an account's id, and never an address.

    Where a server tells nothing but an address, its hash stands for the person: always the same.
    """
    own = _person(value)
    if own is None or "@" not in own:
        return own
    return f"person-{sha256(own.lower().encode('utf-8', 'replace')).hexdigest()[:12]}"


def seconds(value: Any) -> float | None:
    """A duration, from a number or its text; None for what cannot be one."""
    found = number(value)
    return found if found is not None and 0 <= found <= _LONGEST_S else None


def epoch(value: Any) -> float | None:
    """Seconds since 1970 of a time as Label Studio writes it."""
    return iso_seconds(value) if isinstance(value, str) else None


def _shown(own: Any) -> str:
    known = identifier(own)
    if known is None:
        return "without id"
    return known if known.isdigit() and len(known) < 20 else repr(known[:40])


# Enough tasks with answers to tell controls and names by; no more are held than this, or these
# bytes.
_SAMPLE = 100
_MOST_HELD = 32 * 1024 * 1024
# A task that is longer is refused: decoded, it would take many times as much memory.
_LONGEST_TASK = 16 * 1024 * 1024
# What a row of a flat export may take; its length is bounded like that of any row.
_FLAT_BYTES = 1024
_PEEK = 4096
_FLAT = (
    "a CSV, TSV or JSON_MIN export does not show which answers are drafts or were accepted from "
    "predictions, so any that it holds count; export the project as JSON to leave them out"
)


class LabelStudioAdapter:
    """Reads exports of Label Studio projects that compare or rank."""

    name = "label-studio"
    key_tags = staticmethod(key_tags)

    option_help: Mapping[str, str] = MappingProxyType(
        {
            "items": "the keys of the task data that name the items (model_left,model_right), "
            "or the list that shows them (images, images.model)",
            "control": "the control to read where several compare; for Ratings one an item",
            "labels": "what the labels of Choices mean: left, right, tie, both_bad, skip or a "
            "place (A is better=left,B is better=right,same=tie)",
            "buckets": "the buckets of a Ranker that count, best first; _ is what was not placed",
            "within": "whether the order inside a bucket counts",
            "weights": "how much the pairs of a ranking weigh: as the ranking tells, or 1 each",
            "ground_truth": "whether ground truth annotations are used, skipped, or all there is",
            "both_bad": "what a label for 'both are bad' counts as",
            "project": "the project's id for the keys where the export has none (CSV, JSON_MIN)",
        }
    )

    def sniff(self, head: bytes, name: str) -> str | None:  # noqa: ARG002 - the content decides
        """Recognise tasks with annotations, JSON_MIN rows, or the columns of CSV and TSV."""
        text = head.removeprefix(BOM).lstrip()
        if text.startswith(b"["):
            return _sniffed_json(text)
        if not look(head).fields.issuperset(COLUMNS):
            return None
        kind = "TSV" if b"annotation_id\t" in text else "CSV"
        return f"a {kind} header with annotation_id, annotator and lead_time"

    def read(
        self,
        stream: io.BufferedReader,
        name: str,
        *,
        items: str | Sequence[str] | None = None,
        control: str | Sequence[str] | None = None,
        labels: str | Mapping[str, Meaning] | None = None,
        buckets: str | Sequence[str] | None = None,
        within: Within = "ranked",
        weights: Weights = "information",
        ground_truth: GroundTruth = "use",
        both_bad: BothBad = "tie",
        project: str | int | None = None,
    ) -> Iterator[Record]:
        """Yield the records of one export; `option_help` says what the options are for."""
        options = checked(
            items=items,
            control=control,
            labels=labels,
            buckets=buckets,
            within=within,
            weights=weights,
            ground_truth=ground_truth,
            both_bad=both_bad,
            project=project,
        )
        tasks, flat = _tasks(stream, name, options)
        covered: dict[str, float] | None = None if flat else {}
        records = _shallow(_records(tasks, options, name, covered), name)
        return chain([Note(f"{name}: {_FLAT}")], records) if flat else records

    def events(self, **options: Any) -> LabelStudioEvents:
        """Read the events of webhooks, with the options of `read`."""
        from bbq_adapters.label_studio.webhook_events import LabelStudioEvents  # noqa: PLC0415 (a circle)

        return LabelStudioEvents(checked(**options))


def _sniffed_json(text: bytes) -> str | None:
    if not text[1:].lstrip().startswith(b"{"):
        return None
    # A task without annotations may fill the whole head, but it lists its drafts.
    if b'"annotations"' in text and (b'"completed_by"' in text or b'"drafts"' in text):
        return "a JSON array of tasks with annotations"
    if all(b'"%s"' % key.encode() in text for key in COLUMNS):
        return "a JSON array of rows with annotation_id and annotator (JSON_MIN)"
    return None


def _tasks(
    stream: io.BufferedReader, name: str, options: LabelStudioOptions
) -> tuple[Iterator[tuple[int, ExportedTask]], bool]:
    """The tasks with their sizes in bytes, and whether they come from rows that say less."""
    if not stream.peek(_PEEK)[:_PEEK].removeprefix(BOM).lstrip().startswith(b"["):
        _need_no_flags(options, name)
        rows = flat_tasks(cell_rows(stream, name), name, options.project)
        return ((_FLAT_BYTES, task) for task in rows), True
    found = array_objects(stream, name, "task", longest=_LONGEST_TASK)
    first = list(islice(found, 1))
    rest = chain(first, found)
    if not any(is_flat(raw, name, line) for line, raw in first):
        return full_tasks(rest, name), False
    _need_no_flags(options, name)
    rows = flat_tasks(json_min_rows(rest, name), name, options.project)
    return ((_FLAT_BYTES, task) for task in rows), True


def _need_no_flags(options: LabelStudioOptions, name: str) -> None:
    asked = options.ground_truth
    if asked != "use":
        problem = (
            f"ground_truth is {asked!r}, but this export does not say which annotations are "
            "ground truth"
        )
        raise FormatError(problem, name, 1, asked, "export the project as JSON")


def _shallow(found: Iterator[Record], name: str) -> Iterator[Record]:
    """The same, where values nested a thousand deep, which no project makes, are refused."""
    place = None
    try:
        for record in found:
            if isinstance(record, (Comparison, Skipped)):
                place = record.where if isinstance(record, Skipped) else record.key
            yield record
    except RecursionError:
        problem = f"the values are nested too deeply (after {place or 'the start'})"
        raise FormatError(problem, name, 1, place or "", DAMAGED) from None


def _records(
    tasks: Iterator[tuple[int, ExportedTask]],
    options: LabelStudioOptions,
    name: str,
    covered: dict[str, float] | None,
) -> Iterator[Record]:
    """The records, and at the end which projects the file holds all of, as of when."""
    # Files of other tools are only looked at: what reads tasks is loaded for those of this one.
    from bbq_adapters.label_studio.answers import TaskReading  # noqa: PLC0415
    from bbq_adapters.label_studio.comparison_control import find_question  # noqa: PLC0415

    def cover(task: ExportedTask) -> None:
        if covered is not None and task.project:
            times = [covered.get(task.project), *(answer.updated for answer in task.answers)]
            covered[task.project] = max((t for t in times if t is not None), default=-inf)

    # How answers are read is known by the first of them: tasks without any need not be held.
    unanswered = TaskReading(None, options, name)
    sample: list[ExportedTask] = []
    size = 0
    for n_bytes, task in tasks:
        if task.is_answered:
            sample.append(task)
            size += n_bytes
            if len(sample) >= _SAMPLE or size > _MOST_HELD:
                break
        else:
            yield from unanswered.records(task)
            cover(task)
    reading = TaskReading(find_question(sample, options, name), options, name)
    for task in chain(sample, (task for _, task in tasks)):
        yield from reading.records(task)
        cover(task)
    reading.check_names(sample)
    for project, as_of in (covered or {}).items():
        if as_of > -inf:
            yield FullExport(project_prefix(project), as_of)
