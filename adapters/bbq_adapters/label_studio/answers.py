"""From exports and annotations to comparisons, or to the reason why there are none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain, groupby, islice
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from bbq_adapters import labels_and_item_names as naming
from bbq_adapters.json_csv_rows import BOM, array_objects, look, table_rows
from bbq_adapters.label_studio.comparison_control import (
    NOT_PLACED,
    GroundTruth,
    LabelStudioOptions,
    Meaning,
    Within,
    checked,
    chosen_labels,
    find_question,
    meaning,
    ranked_ids,
    typed,
)
from bbq_adapters.label_studio.store_keys import (
    annotation_number,
    answer_key,
    key_tags,
    pair_key,
    project_prefix,
)
from bbq_adapters.labels_and_item_names import Keys, described, tags_of
from bbq_adapters.row_values import iso_seconds
from bbq_adapters.row_values import number as number_of
from bbq_plugin.data.rankings import Weights, break_ranking
from bbq_plugin.data.records import (
    GOLD,
    SHOWN_ORDER,
    TRUTH,
    UNREAD,
    BothBad,
    Comparison,
    FullExport,
    Note,
    Outcome,
    Skipped,
)
from bbq_plugin.errors import DataError, FormatError
from bbq_plugin.protocols import Settled

if TYPE_CHECKING:
    import io
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from bbq_adapters.label_studio.comparison_control import LabelStudioOptions, Question
    from bbq_adapters.label_studio.webhook_events import LabelStudioEvents
    from bbq_plugin.data.records import Record


_ODD_TIME = (
    "some lead_time is no duration in seconds (below 0, beyond a year, or no number); these "
    "answers count, without their time"
)
_SAY_LABELS = (
    "say what it means, with all the other labels: bbq serve or bbq pull with "
    "--labels 'LABEL=left,LABEL=right,LABEL=tie', other commands with -O labels=…"
)
_SAY_BUCKETS = "name them best first by the option buckets"
#: The tag with the number of a task.
TASK = "task"
NO_NAMES = "the task does not name its items"
DELETED = "the rater's account was deleted"


class LeftOutError(Exception):
    """This answer compares nothing; `expected` if that is no sign of trouble."""

    def __init__(self, reason: str, value: object = None, *, expected: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.value = None if value is None else repr(value)[:80]
        self.expected = expected


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: pairs as (left, right, outcome, weight), broken out of a slate or not.

    `untouched` says whether a ranking is the order in which the items were shown; None: not known.
    """

    pairs: tuple[tuple[str, str, Outcome, float], ...]
    broken: bool
    untouched: bool | None = None


@dataclass(frozen=True, slots=True)
class AnswerReader:
    """Reads the answers to a question."""

    _question: Question
    _options: LabelStudioOptions
    _file: str
    #: Whether an answer that cannot be read is left out, and does not stop the others.
    _lenient: bool = False

    def __call__(self, task: ExportedTask, answer: Annotation) -> Answer:
        """What was said, else LeftOutError."""
        if self._question.way == "ratings":
            return self._ratings(task, answer)
        values = [result.value for result in answer.of(self._question.controls[0])]
        if not values:
            empty = not answer.results or task.flat
            why = "the result is empty" if empty else "no answer of the control that is read"
            raise LeftOutError(why, expected=True)
        if any(value != values[0] for value in values[1:]):
            raise LeftOutError("the results contradict one another", values)
        if self._question.way == "pairwise":
            return self._pairwise(task, values[0])
        if self._question.way == "ranker":
            return self._ranker(task, values[0])
        return self._choices(task, values[0])

    def _names(self, task: ExportedTask, least: int = 2) -> list[str]:
        source = self._question.source
        found = source.names(task.data) if source is not None else None
        if found is None:
            raise LeftOutError(NO_NAMES)
        if len(found) < least:
            raise LeftOutError("the answer is about more items than were shown", found)
        return found

    def _pairwise(self, task: ExportedTask, value: Any) -> Answer:
        if value not in ("left", "right"):
            raise LeftOutError("a Pairwise result that is neither left nor right", value)
        return self._pair(self._names(task), value)

    def _pair(self, shown: Sequence[str], outcome: Outcome) -> Answer:
        if len(shown) != 2:
            raise LeftOutError("two items are compared where more were shown", list(shown))
        if shown[0] == shown[1]:
            raise LeftOutError("an item against itself", shown[0])
        return Answer(((shown[0], shown[1], outcome, 1.0),), broken=False)

    def _choices(self, task: ExportedTask, value: Any) -> Answer:
        labels = chosen_labels(value)
        if labels is None:
            raise LeftOutError("a Choices result without labels", value)
        if not labels:
            raise LeftOutError("the result is empty", expected=True)
        if self._question.way == "listed":
            return self._listed(task, labels, value)
        meanings = [self._meaning(label, task) for label in dict.fromkeys(labels)]
        if "skip" in meanings:
            raise LeftOutError("a label that is skipped as asked", labels, expected=True)
        outcomes = [one for one in meanings if isinstance(one, str)]
        if outcomes:
            if len(set(meanings)) > 1:
                raise LeftOutError("the labels contradict one another", labels)
            if outcomes[0] == "both_bad" and self._options.both_bad == "drop":
                raise LeftOutError("both bad, dropped as asked", expected=True)
            return self._pair(self._names(task), "both_bad" if "both_bad" in outcomes else "tie")
        places = sorted({one for one in meanings if isinstance(one, int)})
        shown = self._names(task, places[-1])
        if len(shown) == 2 and len(places) == 1:
            return self._pair(shown, "left" if places == [1] else "right")
        return self._chosen([shown[place - 1] for place in places], shown)

    def _meaning(self, label: str, task: ExportedTask) -> str | int:
        known = meaning(label, self._options.labels)
        if known is None and self._lenient:
            raise LeftOutError(f"{UNREAD} ({label[:60]!r}); {_SAY_LABELS}", label)
        if known is None:
            problem = f"the label {label[:60]!r} is not known ({task.where})"
            remedy = (
                "say what it means with the option labels, e.g. labels="
                f"{typed({label[:60]: 'skip'})}, together with all the other labels"
            )
            raise FormatError(problem, self._file, task.line, label[:200], remedy)
        return known

    def _listed(self, task: ExportedTask, labels: list[str], value: Any) -> Answer:
        shown = self._shown(task)
        unknown = [label for label in labels if shown.get(label) is None]
        if unknown:
            raise LeftOutError("the answer names an item that was not shown", unknown[0])
        # Of a choice nested in another, the outer one was neither chosen nor passed over.
        outer = {label for path in value if isinstance(path, list) for label in path[:-1]}
        best = [str(shown[label]) for label in dict.fromkeys(labels)]
        rest = [name for own, name in shown.items() if name is not None and own not in outer]
        return self._chosen(best, rest)

    def _shown(self, task: ExportedTask) -> dict[str, str | None]:
        source = self._question.source
        shown = source.by_identity(task.data) if isinstance(source, naming.Listed) else {}
        if not shown:
            raise LeftOutError(NO_NAMES)
        return shown

    def _chosen(self, best: list[str], shown: list[str]) -> Answer:
        """The chosen items stand above those that were not."""
        rest = [name for name in shown if name not in best]
        if not rest:
            raise LeftOutError("all items were chosen, none stands above another", expected=True)
        return self._broken([best, rest])

    def _ranker(self, task: ExportedTask, value: Any) -> Answer:
        buckets = ranked_ids(value)
        if buckets is None:
            raise LeftOutError("a Ranker result that is no ranking", value)
        order: list[str] | None = None
        if self._question.source is not None:
            shown = self._shown(task)
            order = [name for name in shown.values() if name is not None]
            for ids in buckets.values():
                for place, own in enumerate(ids):
                    name = shown.get(own)
                    if name is None:
                        raise LeftOutError("the answer names an item that was not shown", own)
                    ids[place] = name
        levels: list[list[str]] = []
        plain = len(buckets) == 1 and NOT_PLACED not in buckets
        for bucket in buckets if plain and self._options.buckets else self._ordered(buckets, task):
            inside = buckets[bucket]
            tied = bucket == NOT_PLACED or (self._options.within == "tied" and not plain)
            levels += [inside] if tied else [[name] for name in inside]
        said = self._broken([level for level in levels if level])
        if order is None or not plain:
            return said
        return replace(said, untouched=[name for level in levels for name in level] == order)

    def _ordered(self, buckets: dict[str, list[str]], task: ExportedTask) -> list[str]:
        """The buckets that count, best first."""
        if self._options.buckets:
            return [bucket for bucket in self._options.buckets if bucket in buckets]
        filled = [bucket for bucket, ids in buckets.items() if ids and bucket != NOT_PLACED]
        if not filled:
            raise LeftOutError("no item was placed in the ranking", expected=True)
        order = filled if len(filled) == 1 else naming.ordered_buckets(filled)
        if order is None and self._lenient:
            raise LeftOutError(f"{UNREAD} (buckets without an order); {_SAY_BUCKETS}", filled)
        if order is None:
            shown = filled[:12]
            problem = (
                "items stand in several buckets, and which bucket is better is not known: "
                f"{', '.join(map(repr, shown))} ({task.where})"
            )
            remedy = (
                f"name them best first with the option buckets={','.join(shown)}; add _ for the "
                "items that were not placed, and leave out a bucket that does not count"
            )
            raise FormatError(problem, self._file, task.line, shown, remedy)
        return order

    def _broken(self, levels: list[list[str]]) -> Answer:
        if len(levels) < 2:
            raise LeftOutError("only one item, or one level, in the ranking", expected=True)
        try:
            wins = break_ranking(levels, weights=self._options.weights)
        except DataError as error:
            raise LeftOutError("the ranking compares nothing", str(error)) from None
        return Answer(tuple((won, lost, "left", weight) for won, lost, weight in wins), broken=True)

    def _ratings(self, task: ExportedTask, answer: Annotation) -> Answer:
        ratings: list[float] = []
        for control in self._question.controls:
            values = [result.value for result in answer.of(control)]
            if not values:
                why = "not all items were rated" if answer.results else "the result is empty"
                raise LeftOutError(why, expected=True)
            number = _number(values[0])
            if number is None or any(_number(value) != number for value in values[1:]):
                raise LeftOutError("a Rating that is not one number", values)
            ratings.append(number)
        shown = self._names(task, len(ratings))
        if len(ratings) == 2:
            higher = ratings[0] - ratings[1]
            return self._pair(shown, "left" if higher > 0 else "right" if higher < 0 else "tie")
        if len(shown) != len(ratings):
            raise LeftOutError(NO_NAMES, shown)
        levels: dict[float, list[str]] = {}
        for rating, name in sorted(zip(ratings, shown, strict=True), key=lambda one: -one[0]):
            levels.setdefault(rating, []).append(name)
        return self._broken(list(levels.values()))


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


class TaskReading:
    """One pass over the tasks of a file or a page."""

    def __init__(
        self,
        question: Question | None,
        options: LabelStudioOptions,
        name: str,
        *,
        lenient: bool = False,
    ) -> None:
        self._question, self._options, self._name = question, options, name
        self._reader = AnswerReader(question, options, name, lenient) if question else None
        source = question.source if question else None
        keys = () if source is None else source.keys if isinstance(source, Keys) else (source.key,)
        self._no_tags = {*keys, *(question.controls if question else ())}
        self._named = self._nameless = 0
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
        said: list[tuple[Annotation, Answer]] = []
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
        tags = self._tags(task) if said else None
        found = [list(_comparisons(task, answer, one, tags)) for answer, one in said]
        if any(answer.ground_truth for answer, _ in said):
            found = _with_known_answers(found)
        not_counted = _replaced(task, said)
        for number, comparisons in enumerate(found):
            if number in not_counted:
                yield not_counted[number]
            else:
                self._named += 1
                yield from comparisons

    def _tags(self, task: ExportedTask) -> dict[str, str] | None:
        """Of the task's data, and its own number, unless the data have one.

        Answers to one task vary together, and agreement is that of raters of the same task.
        """
        tags = tags_of(task.data, self._no_tags)
        return tags if task.id is None else {TASK: task.id, **(tags or {})}

    def _said(self, task: ExportedTask, answer: Annotation) -> Answer:
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
        if self._nameless and not self._named and sample and self._question:
            problem = f"no task names its items; {described(sample)}"
            remedy = "say which keys do with the option items=KEY,KEY"
            keys = sorted(self._no_tags - set(self._question.controls))
            raise FormatError(problem, self._name, sample[0].line, keys, remedy)


def key_of(task: ExportedTask, annotation: Annotation) -> str:
    """The key of an annotation in the store."""
    return answer_key(task.project, annotation.id or "")


def _comparisons(
    task: ExportedTask, annotation: Annotation, answer: Answer, task_tags: dict[str, str] | None
) -> Iterator[Comparison]:
    key = key_of(task, annotation)
    for number, (left, right, outcome, weight) in enumerate(answer.pairs):
        tags = task_tags
        if annotation.ground_truth:
            tags = {**(tags or {}), GOLD: TRUTH}
        if answer.untouched is not None and number == 0:
            tags = {**(tags or {}), SHOWN_ORDER: "kept" if answer.untouched else "changed"}
        yield Comparison(
            pair_key(key, number) if answer.broken else key,
            annotation.rater,
            left,
            right,
            outcome,
            weight,
            key if answer.broken else None,
            annotation.at,
            annotation.time_s,
            tags,
            annotation.updated,
        )


def _replaced(task: ExportedTask, said: list[tuple[Annotation, Answer]]) -> dict[int, Skipped]:
    """The answers of a task, by place, that do not count beside the others."""
    raters = {annotation.rater for annotation, _ in said}
    if len(raters) == len(said) and not any(annotation.parent for annotation, _ in said):
        return {}
    found: dict[int, Skipped] = {}
    since = replaced([(key_of(task, one), one.rater, one.updated, one.at) for one, _ in said])
    by_id = {annotation.id: (annotation, answer) for annotation, answer in said}
    for number, (annotation, answer) in enumerate(said):
        if number in since:
            reason, version = REPLACED, since[number]
        else:
            parent, same = by_id.get(annotation.parent, (annotation, answer))
            if same != answer or parent.rater == annotation.rater:
                continue
            reason, version = "an unchanged copy of another rater's annotation", annotation.updated
        key = key_of(task, annotation)
        found[number] = Skipped(
            annotation.where, reason, expected=True, key=key, version=version, at=annotation.at
        )
    return found


def _with_known_answers(found: list[list[Comparison]]) -> list[list[Comparison]]:
    flat = [one for comparisons in found for one in comparisons]
    for place, tags in gold_tags(flat).items():
        flat[place] = msgspec.structs.replace(flat[place], tags=tags)
    rest = iter(flat)
    return [list(islice(rest, len(comparisons))) for comparisons in found]


# -- what the answers of a task make of one another; the same for files, pages and events

REPLACED = "replaced by the rater's later answer to the same task"
_REVERSED: dict[str, str] = {"left": "right", "right": "left"}
#: Key, rater, time of the last change and time of creation of an answer.
Given = tuple[str, str | None, float | None, float | None]


def settled(
    before: Sequence[Comparison], now: Sequence[Comparison], told: Collection[str]
) -> Settled:
    """What the stored answers of a task make of one another, after an event has brought some."""
    places: dict[Given, list[int]] = {}
    for place, one in enumerate(now):
        if one.rater is not None:
            places.setdefault((_key(one), one.rater, one.version, one.at), []).append(place)
    answers = list(places)
    skipped: list[Skipped] = []
    tags = gold_tags(now, before, told)
    for number, version in replaced(answers).items():
        key, _, _, at = answers[number]
        skipped.append(Skipped(key, REPLACED, expected=True, key=key, version=version, at=at))
        for place in places[answers[number]]:
            tags.pop(place, None)
    return Settled(tuple(skipped), tags)


def replaced(answers: Sequence[Given]) -> dict[int, float | None]:
    """Which answers of a task, by place, their raters have replaced by a later one, since when."""
    order = [
        (_time(updated), _time(at), annotation_number(key), place)
        for place, (key, _, updated, at) in enumerate(answers)
    ]
    newest: dict[str | None, int] = {}
    for place, (_, rater, _, _) in enumerate(answers):
        best = newest.setdefault(rater, place)
        if order[place] > order[best]:
            newest[rater] = place
    found: dict[int, float | None] = {}
    for place, (key, rater, updated, _) in enumerate(answers):
        later = answers[newest[rater]]
        if newest[rater] != place:
            found[place] = updated if later[0] == key else later[2]
    return found


def gold_tags(
    now: Sequence[Comparison], before: Sequence[Comparison] = (), told: Collection[str] = ()
) -> dict[int, dict[str, str] | None]:
    """Tags that name the known answer of a task, by place, where other ones are right by now.

    `before` are the comparisons of the task before an event brought the answers `told`. Label
    Studio has one ground truth in a task, and no event tells which annotation was it before: the
    newest is the one. Only an import can bring several.
    """
    truths = [place for place, one in enumerate(now) if _gold(one) == TRUTH]
    if any(_key(now[place]) in told for place in truths):
        newest = _key(now[max(truths, key=lambda place: (_when(now[place]), place))])
        truths = [place for place in truths if _key(now[place]) == newest]
    if not truths and not any(_gold(one) == TRUTH for one in before):
        return _gold_as_before(now, before)
    right = _right([now[place] for place in truths], [now[place].outcome for place in truths])
    return {
        place: _with_gold(one, right.get((one.left, one.right)))
        for place, one in enumerate(now)
        if place not in truths and _gold(one) != right.get((one.left, one.right))
    }


def _gold_as_before(
    now: Sequence[Comparison], before: Sequence[Comparison]
) -> dict[int, dict[str, str] | None]:
    """Where nothing says which answer is the known one, what was said of the others stands.

    So it is in stores from before the known answer was tagged, and where it came in a file, which
    does not name its task. It may be among the answers that were there, so only new ones get it.
    """
    named = [one for one in before if _gold(one) is not None]
    right = _right(named, [_gold(one) or "" for one in named])
    return {
        place: _with_gold(one, right[one.left, one.right])
        for place, one in enumerate(now)
        if _gold(one) is None and (one.left, one.right) in right and one not in before
    }


def _right(rows: Sequence[Comparison], outcomes: Sequence[str]) -> dict[tuple[str, str], str]:
    """The right answer by the items on both sides, in either order."""
    found: dict[tuple[str, str], str] = {}
    for row, outcome in zip(rows, outcomes, strict=True):
        found[row.left, row.right] = outcome
        found[row.right, row.left] = _REVERSED.get(outcome, outcome)
    return found


def _key(row: Comparison) -> str:
    """The key of the answer that a comparison is of."""
    return row.slate or row.key


def _gold(row: Comparison) -> str | None:
    return row.tags.get(GOLD) if row.tags else None


def _with_gold(row: Comparison, gold: str | None) -> dict[str, str] | None:
    tags = {name: value for name, value in (row.tags or {}).items() if name != GOLD}
    return (tags if gold is None else {**tags, GOLD: gold}) or None


def _time(time: float | None) -> float:
    return -inf if time is None else time


def _when(row: Comparison) -> float:
    return _time(row.at if row.version is None else row.version)


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
    found = number_of(value)
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
            "weights": "weight of the pairs of a ranking: by its information, or 1 each",
            "ground_truth": "whether ground truth annotations are used, skipped, or used alone",
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
