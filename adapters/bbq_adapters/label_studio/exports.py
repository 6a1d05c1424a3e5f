"""One shape for what JSON exports, snapshots, JSON_MIN and tables say about a task."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec

from bbq_adapters.row_reader import iso_seconds, number, table_rows
from bbq_plugin.errors import FormatError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterable, Iterator

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
