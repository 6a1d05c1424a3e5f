"""The adapter: recognises an export and reads the file task by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from bbq_adapters.label_studio.exports import (
    COLUMNS,
    DAMAGED,
    cell_rows,
    flat_tasks,
    full_tasks,
    is_flat,
    json_min_rows,
)
from bbq_adapters.label_studio.reading_options import (
    GroundTruth,
    LabelStudioOptions,
    Meaning,
    Within,
    checked,
)
from bbq_adapters.label_studio.store_keys import key_tags, project_prefix
from bbq_adapters.row_reader import BOM, array_objects, look
from bbq_plugin.data.rankings import Weights
from bbq_plugin.data.records import BothBad, Comparison, FullExport, Note, Skipped
from bbq_plugin.errors import FormatError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

    from bbq_adapters.label_studio.exports import ExportedTask
    from bbq_adapters.label_studio.webhook_events import LabelStudioEvents
    from bbq_plugin.data.records import Record

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
