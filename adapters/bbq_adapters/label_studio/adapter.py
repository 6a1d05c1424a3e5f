"""The adapter: recognises an export, checks the options, reads the file task by task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from bbq_adapters.label_studio.exports import (
    COLUMNS,
    DAMAGED,
    cell_rows,
    flat_tasks,
    full_tasks,
    is_flat,
    json_min_rows,
)
from bbq_adapters.label_studio.keys import project_prefix
from bbq_adapters.row_reader import BOM, array_objects, look
from bbq_plugin.data.rankings import Weights
from bbq_plugin.data.records import BothBad, Comparison, FullExport, Note, Skipped
from bbq_plugin.errors import FormatError, UsageError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

    from bbq_adapters.label_studio.exports import ExportedTask
    from bbq_adapters.label_studio.webhooks import LabelStudioEvents
    from bbq_plugin.data.records import Record

GroundTruth = Literal["use", "skip", "only"]
Within = Literal["ranked", "tied"]
#: What a label may mean: an outcome, "skip", or the place of an item counted from 1.
Meaning = str | int
MEANINGS = ("left", "right", "tie", "both_bad", "skip")
_PLACES = {str(place): place for place in range(1, 101)}


@dataclass(frozen=True, slots=True)
class LabelStudioOptions:
    """What the user said, checked."""

    items: tuple[str, ...] = ()
    control: tuple[str, ...] = ()
    labels: Mapping[str, Meaning] = field(default_factory=dict)
    buckets: tuple[str, ...] = ()
    within: Within = "ranked"
    weights: Weights = "information"
    ground_truth: GroundTruth = "use"
    both_bad: BothBad = "tie"
    project: str | None = None


def _one_of(value: Any, option: str, allowed: tuple[Any, ...]) -> Any:
    if not isinstance(value, str) or value not in allowed:
        raise UsageError(f"{option} is {value!r}; expected {' or '.join(map(repr, allowed))}")
    return value


def _names(value: Any, option: str, example: str, separators: str = ",") -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        for separator in separators[1:]:
            value = value.replace(separator, separators[0])
        names = [part.strip() for part in value.split(separators[0])]
    elif isinstance(value, Sequence) and all(isinstance(part, str) for part in value):
        names = list(value)
    else:
        raise UsageError(f"{option} is {value!r}; expected names such as {example!r}")
    if not names or not all(names) or len(set(names)) < len(names):
        raise UsageError(f"{option} is {value!r}; expected different names such as {example!r}")
    return tuple(names)


def _labels(value: Any) -> dict[str, Meaning]:
    if value is None:
        return {}
    if isinstance(value, str):
        value = _parsed(value)
    if not isinstance(value, Mapping) or not value:
        raise _bad_labels(value)
    if not all(isinstance(label, str) and label.strip() for label in value):
        raise _bad_labels(value)
    return {label.strip(): _meaning(meaning) for label, meaning in value.items()}


def _parsed(text: str) -> Any:
    """`A is better=left,B is better=right`, or a JSON object for labels with commas."""
    if text.lstrip().startswith("{"):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise _bad_labels(text) from None
    pairs: dict[str, str] = {}
    for part in text.split(","):
        label, equals, meaning = part.rpartition("=")
        if not equals or label.strip() in pairs:
            raise _bad_labels(text)
        pairs[label.strip()] = meaning.strip()
    return pairs


def _meaning(meaning: Any) -> Meaning:
    if isinstance(meaning, str) and meaning in MEANINGS:
        return meaning
    if isinstance(meaning, (str, int)) and str(meaning) in _PLACES:
        return _PLACES[str(meaning)]
    raise UsageError(
        f"a label means {meaning!r}; expected {', '.join(MEANINGS)}, or 1, 2, 3 … for the place "
        "of an item"
    )


def _bad_labels(value: Any) -> UsageError:
    return UsageError(
        f"labels is {value!r}; expected labels and what they mean, such as "
        "'A is better=left,B is better=right,same=tie'"
    )


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "items": partial(_names, option="items", example="model_left,model_right"),
    "control": partial(_names, option="control", example="preference"),
    "labels": _labels,
    "buckets": partial(_names, option="buckets", example="good,bad", separators=",>"),
    "within": partial(_one_of, option="within", allowed=get_args(Within)),
    "weights": partial(_one_of, option="weights", allowed=get_args(Weights)),
    "ground_truth": partial(_one_of, option="ground_truth", allowed=get_args(GroundTruth)),
    "both_bad": partial(_one_of, option="both_bad", allowed=get_args(BothBad)),
    "project": lambda project: None if project is None else str(project),
}


def checked(**given: Any) -> LabelStudioOptions:
    """Options from what `read` was given."""
    return LabelStudioOptions(**{name: _CHECKS[name](value) for name, value in given.items()})


# Enough tasks with answers to tell controls and names by; no more are held than this.
_SAMPLE = 100
_MOST_HELD = 10_000
_PEEK = 4096
_FLAT = (
    "a CSV, TSV or JSON_MIN export does not show which answers are drafts or were accepted from "
    "predictions, so any that it holds count; export the project as JSON to leave them out"
)


class LabelStudioAdapter:
    """Reads exports of Label Studio projects that compare or rank."""

    name = "label-studio"

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
        from bbq_adapters.label_studio.webhooks import LabelStudioEvents  # noqa: PLC0415 (a circle)

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
) -> tuple[Iterator[ExportedTask], bool]:
    """The tasks, and whether they come from rows that say less."""
    if not stream.peek(_PEEK)[:_PEEK].removeprefix(BOM).lstrip().startswith(b"["):
        _need_no_flags(options, name)
        return flat_tasks(cell_rows(stream, name), name, options.project), True
    found = array_objects(stream, name, "task")
    first = list(islice(found, 1))
    rest = chain(first, found)
    if not any(is_flat(raw, name, line) for line, raw in first):
        return full_tasks(rest, name), False
    _need_no_flags(options, name)
    return flat_tasks(json_min_rows(rest, name), name, options.project), True


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
    tasks: Iterator[ExportedTask],
    options: LabelStudioOptions,
    name: str,
    covered: dict[str, float] | None,
) -> Iterator[Record]:
    """The records, and at the end which projects the file holds all of, as of when."""
    # Files of other tools are only looked at: what reads tasks is loaded for those of this one.
    from bbq_adapters.label_studio.answers import TaskReading  # noqa: PLC0415
    from bbq_adapters.label_studio.question import find_question  # noqa: PLC0415

    held, sample = _first(tasks)
    reading = TaskReading(find_question(sample, options, name), options, name)
    for task in chain(held, tasks):
        yield from reading.records(task)
        if covered is not None and task.project:
            times = [covered.get(task.project), *(answer.updated for answer in task.answers)]
            covered[task.project] = max((t for t in times if t is not None), default=-inf)
    reading.check_names(sample)
    for project, as_of in (covered or {}).items():
        if as_of > -inf:
            yield FullExport(project_prefix(project), as_of)


def _first(tasks: Iterator[ExportedTask]) -> tuple[list[ExportedTask], list[ExportedTask]]:
    """The tasks that have to be seen before one can be read, and those of them with answers."""
    held: list[ExportedTask] = []
    sample: list[ExportedTask] = []
    for task in tasks:
        held.append(task)
        if task.is_answered:
            sample.append(task)
        if len(sample) >= _SAMPLE or len(held) >= _MOST_HELD:
            break
    return held, sample
