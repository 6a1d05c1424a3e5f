"""The adapter: recognises an export, reads it task by task, says what becomes of each answer."""

from __future__ import annotations

from itertools import chain
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from bbq_adapters.label_studio import files
from bbq_adapters.label_studio.answers import DELETED, NO_NAMES, LeftOutError, Reader, Said
from bbq_adapters.label_studio.files import (
    BOM,
    flat_tasks,
    full_tasks,
    is_flat,
    json_min_rows,
    objects,
)
from bbq_adapters.label_studio.names import Keys, described, tags_of
from bbq_adapters.label_studio.options import BothBad, GroundTruth, Within, checked
from bbq_adapters.label_studio.question import make_plan
from bbq_plugin.data.rankings import Weights
from bbq_plugin.data.records import (
    GOLD,
    SHOWN_ORDER,
    TRUTH,
    Comparison,
    FullExport,
    Note,
    Outcome,
    Skipped,
)
from bbq_plugin.errors import FormatError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator, Mapping, Sequence

    from bbq_adapters.label_studio.events import LabelStudioEvents
    from bbq_adapters.label_studio.files import Annotation, ExportedTask
    from bbq_adapters.label_studio.options import Meaning, Options
    from bbq_adapters.label_studio.question import Question
    from bbq_plugin.data.records import Record

# Enough tasks with answers to tell controls and names by; no more are held than this.
_SAMPLE = 100
_MOST_HELD = 10_000

_PEEK = 4096

_FLAT = (
    "a CSV, TSV or JSON_MIN export does not show which answers are drafts or were accepted from "
    "predictions, so any that it holds count; export the project as JSON to leave them out"
)

_ODD_TIME = (
    "some lead_time is no duration in seconds (below 0, beyond a year, or no number); these "
    "answers count, without their time"
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
        header, separator = files.columns(text.split(b"\n", 1)[0])
        if not set(files.COLUMNS) <= set(header):
            return None
        kind = "TSV" if separator == "\t" else "CSV"
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
        from bbq_adapters.label_studio.events import LabelStudioEvents  # noqa: PLC0415 (a circle)

        return LabelStudioEvents(checked(**options))


def _sniffed_json(text: bytes) -> str | None:
    if not text[1:].lstrip().startswith(b"{"):
        return None
    # A task without annotations may fill the whole head, but it lists its drafts.
    if b'"annotations"' in text and (b'"completed_by"' in text or b'"drafts"' in text):
        return "a JSON array of tasks with annotations"
    if all(b'"%s"' % key.encode() in text for key in files.COLUMNS):
        return "a JSON array of rows with annotation_id and annotator (JSON_MIN)"
    return None


def _tasks(
    stream: io.BufferedReader, name: str, options: Options
) -> tuple[Iterator[ExportedTask], bool]:
    """The tasks, and whether they come from rows that say less."""
    if not stream.peek(_PEEK)[:_PEEK].removeprefix(BOM).lstrip().startswith(b"["):
        _need_no_flags(options, name)
        return flat_tasks(files.rows(stream, name), name, options.project), True
    found = objects(stream, name)
    first = next(found, None)
    if first is None:
        return iter(()), False
    line, raw = first
    rest = chain([first], found)
    if not is_flat(raw, name, line):
        return full_tasks(rest, name), False
    _need_no_flags(options, name)
    return flat_tasks(json_min_rows(rest, name), name, options.project), True


def _need_no_flags(options: Options, name: str) -> None:
    if options.ground_truth != "use":
        raise FormatError(
            f"ground_truth is {options.ground_truth!r}, but this export does not say which "
            "annotations are ground truth",
            name,
            1,
            value=options.ground_truth,
            remedy="export the project as JSON",
        )


def _shallow(found: Iterator[Record], name: str) -> Iterator[Record]:
    """The same, where values nested a thousand deep, which no project makes, are refused."""
    place = None
    try:
        for record in found:
            if isinstance(record, (Comparison, Skipped)):
                place = record.where if isinstance(record, Skipped) else record.key
            yield record
    except RecursionError:
        raise FormatError(
            f"the values are nested too deeply (after {place or 'the start'})",
            name,
            1,
            value=place or "",
            remedy="export the project again; the file may be damaged",
        ) from None


def _records(
    tasks: Iterator[ExportedTask], options: Options, name: str, covered: dict[str, float] | None
) -> Iterator[Record]:
    """The records, and at the end which projects the file holds all of, as of when."""
    held, sample = _first(tasks)
    plan = make_plan(sample, options, name)
    reading = Reading(plan, options, name)
    for task in chain(held, tasks):
        yield from reading.records(task)
        if covered is not None and task.project:
            times = [covered.get(task.project), *(answer.updated for answer in task.answers)]
            covered[task.project] = max((t for t in times if t is not None), default=-inf)
    reading.check_names(sample)
    for project, as_of in (covered or {}).items():
        if as_of > -inf:
            yield FullExport(f"ls:{project}:", as_of)


def _first(tasks: Iterator[ExportedTask]) -> tuple[list[ExportedTask], list[ExportedTask]]:
    """The tasks that have to be seen before one can be read, and those of them with answers."""
    held: list[ExportedTask] = []
    sample: list[ExportedTask] = []
    for task in tasks:
        held.append(task)
        if any(answer.results and not answer.cancelled for answer in task.answers):
            sample.append(task)
        if len(sample) >= _SAMPLE or len(held) >= _MOST_HELD:
            break
    return held, sample


class Reading:
    """One pass over the tasks of a file or a page."""

    def __init__(self, plan: Question | None, options: Options, name: str) -> None:
        self._options = options
        self._name = name
        self._plan = plan
        self._reader = Reader(plan, options, name) if plan else None
        source = plan.source if plan else None
        keys = () if source is None else source.keys if isinstance(source, Keys) else (source.key,)
        self._no_tags = {*keys, *(plan.controls if plan else ())}
        self._named = 0
        self._nameless = 0
        self._odd_time = False

    def records(self, task: ExportedTask) -> Iterator[Comparison | Skipped | Note]:
        """What becomes of a task and its answers."""
        if not self._odd_time and any(answer.odd_time for answer in task.answers):
            self._odd_time = True
            yield Note(f"{self._name}: {_ODD_TIME}")
        for _ in range(task.drafts):
            yield Skipped(task.where, "a draft, never submitted", expected=True)
        if not task.answers:
            if not task.drafts:
                yield Skipped(task.where, "a task without annotations", expected=True)
            return
        said: list[tuple[Annotation, Said]] = []
        for answer in task.answers:
            try:
                said.append((answer, self._said(task, answer)))
            except LeftOutError as why:
                self._nameless += why.reason == NO_NAMES
                # What an older export knows of the rater or the items is not taken back.
                unknown = answer.id is None or why.reason in (DELETED, NO_NAMES)
                key = None if unknown else key_of(task, answer)
                yield Skipped(
                    answer.where,
                    why.reason,
                    why.value,
                    why.expected,
                    key,
                    answer.updated,
                    answer.at,
                )
        tags = tags_of(task.data, self._no_tags) if said else None
        superseded = _superseded(said)
        known = _known_answers(said)
        for number, (answer, one) in enumerate(said):
            if number in superseded:
                reason, since = superseded[number]
                yield Skipped(
                    answer.where,
                    reason,
                    expected=True,
                    key=key_of(task, answer),
                    version=since,
                    at=answer.at,
                )
                continue
            self._named += 1
            yield from _comparisons(task, answer, one, tags, known)

    def _said(self, task: ExportedTask, answer: Annotation) -> Said:
        if answer.cancelled:
            raise LeftOutError("skipped by the rater (was_cancelled)", expected=True)
        if answer.ground_truth and self._options.ground_truth == "skip":
            raise LeftOutError("ground truth, skipped as asked", expected=True)
        if not answer.ground_truth and self._options.ground_truth == "only":
            raise LeftOutError("not ground truth, skipped as asked", expected=True)
        if answer.by_machine:
            raise LeftOutError("made from a prediction, not by a person", expected=True)
        if not answer.results or self._reader is None:
            raise LeftOutError("the result is empty", expected=True)
        said = self._reader(task, answer)
        if answer.id is None:
            raise LeftOutError("the annotation has no id")
        if answer.rater is None:
            raise LeftOutError(DELETED)
        return said

    def check_names(self, sample: Sequence[ExportedTask]) -> None:
        """Refuse a file of which no task names its items: the keys are the wrong ones."""
        if self._nameless and not self._named and sample and self._plan:
            raise FormatError(
                f"no task names its items; {described(sample)}",
                self._name,
                sample[0].line,
                value=sorted(self._no_tags - set(self._plan.controls)),
                remedy="say which keys do with the option items=KEY,KEY",
            )


def _superseded(said: list[tuple[Annotation, Said]]) -> dict[int, tuple[str, float | None]]:
    """Which answers of a task do not count beside the others of the same task, why, since when."""
    if len(said) < 2:
        return {}
    newest: dict[str | None, int] = {}
    for number, (answer, _) in enumerate(said):
        best = newest.setdefault(answer.rater, number)
        if _later(answer, number) > _later(said[best][0], best):
            newest[answer.rater] = number
    by_id = {answer.id: (answer, one) for answer, one in said}
    reasons: dict[int, tuple[str, float | None]] = {}
    for number, (answer, one) in enumerate(said):
        if newest[answer.rater] != number:
            later = said[newest[answer.rater]][0]
            since = answer.updated if later.id == answer.id else later.updated
            reasons[number] = ("replaced by the rater's later answer to the same task", since)
        elif answer.parent in by_id:
            parent, same = by_id[answer.parent]
            if same == one and parent.rater != answer.rater:
                reasons[number] = (
                    "an unchanged copy of another rater's annotation",
                    answer.updated,
                )
    return reasons


def _later(answer: Annotation, number: int) -> tuple[float, float, int]:
    unknown = float("-inf")
    return (
        unknown if answer.updated is None else answer.updated,
        unknown if answer.at is None else answer.at,
        number,
    )


def key_of(task: ExportedTask, answer: Annotation) -> str:
    """The name of an answer: the same from exports, pages and webhooks."""
    return f"ls:{task.project or ''}:{answer.id}"


_TURNED: dict[Outcome, Outcome] = {"left": "right", "right": "left"}


def _known_answers(said: list[tuple[Annotation, Said]]) -> dict[tuple[str, str], Outcome]:
    """What the ground truth of a task says of each pair, both ways round."""
    known: dict[tuple[str, str], Outcome] = {}
    for answer, one in said:
        for left, right, outcome, _ in one.pairs if answer.ground_truth else ():
            known[left, right] = outcome
            known[right, left] = _TURNED.get(outcome, outcome)
    return known


def _comparisons(
    task: ExportedTask,
    answer: Annotation,
    said: Said,
    task_tags: dict[str, str] | None,
    known: dict[tuple[str, str], Outcome],
) -> Iterator[Comparison]:
    key = key_of(task, answer)
    slate = key if said.broken else None
    for number, (left, right, outcome, weight) in enumerate(said.pairs):
        tags = task_tags
        # The ground truth itself is no answer to be checked by it.
        if (left, right) in known:
            gold = TRUTH if answer.ground_truth else known[left, right]
            tags = {**(tags or {}), GOLD: gold}
        if said.untouched is not None and number == 0:
            tags = {**(tags or {}), SHOWN_ORDER: "kept" if said.untouched else "changed"}
        yield Comparison(
            f"{key}:{number}" if said.broken else key,
            answer.rater,
            left,
            right,
            outcome,
            weight,
            slate,
            answer.at,
            answer.time_s,
            tags,
            answer.updated,
        )
