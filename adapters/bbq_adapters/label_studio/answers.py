"""From the annotations of a task to comparisons, or to the reason why there are none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec

from bbq_adapters import item_names, wording
from bbq_adapters.item_names import Keys, described, tags_of
from bbq_adapters.label_studio.comparison_control import (
    NOT_PLACED,
    chosen_labels,
    meaning,
    ranked_ids,
    typed,
)
from bbq_adapters.label_studio.store_keys import annotation_number, answer_key, pair_key
from bbq_plugin.data.rankings import break_ranking
from bbq_plugin.data.records import (
    GOLD,
    SHOWN_ORDER,
    TRUTH,
    UNREAD,
    Comparison,
    Note,
    Outcome,
    Skipped,
)
from bbq_plugin.errors import DataError, FormatError
from bbq_plugin.protocols import Settled

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from bbq_adapters.label_studio.comparison_control import LabelStudioOptions, Question
    from bbq_adapters.label_studio.exports import Annotation, ExportedTask

_ODD_TIME = (
    "some lead_time is no duration in seconds (below 0, beyond a year, or no number); these "
    "answers count, without their time"
)
_SAY_LABELS = "say what it means, with all the other labels, by the option labels"
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
        shown = source.by_identity(task.data) if isinstance(source, item_names.Listed) else {}
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
        order = filled if len(filled) == 1 else wording.ordered_buckets(filled)
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
