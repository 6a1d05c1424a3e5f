"""From what a rater said in one task to comparisons, or to the reason why there are none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bbq_adapters.label_studio import names
from bbq_adapters.label_studio.options import typed
from bbq_adapters.label_studio.question import NOT_PLACED, chosen_labels, meaning, ranked_ids
from bbq_plugin.data.rankings import break_ranking
from bbq_plugin.errors import DataError, FormatError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbq_adapters.label_studio.files import Annotation, ExportedTask
    from bbq_adapters.label_studio.options import Options
    from bbq_adapters.label_studio.question import Question
    from bbq_plugin.data.records import Outcome

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
class Said:
    """One answer: pairs as (left, right, outcome, weight), broken out of a slate or not.

    `untouched` says whether a ranking is the order in which the items were shown; None: not known.
    """

    pairs: tuple[tuple[str, str, Outcome, float], ...]
    broken: bool
    untouched: bool | None = None


class Reader:
    """Reads answers by a plan."""

    def __init__(self, plan: Question, options: Options, file: str) -> None:
        self._plan = plan
        self._options = options
        self._file = file

    def __call__(self, task: ExportedTask, answer: Annotation) -> Said:
        """What was said, else LeftOutError."""
        if self._plan.way == "ratings":
            return self._ratings(task, answer)
        values = [result.value for result in answer.of(self._plan.controls[0])]
        if not values:
            empty = not answer.results or task.flat
            raise LeftOutError(
                "the result is empty" if empty else "no answer of the control that is read",
                expected=True,
            )
        if any(value != values[0] for value in values[1:]):
            raise LeftOutError("the results contradict one another", values)
        if self._plan.way == "pairwise":
            return self._pairwise(task, values[0])
        if self._plan.way == "ranker":
            return self._ranker(task, values[0])
        return self._choices(task, values[0])

    def _names(self, task: ExportedTask, least: int = 2) -> list[str]:
        source = self._plan.source
        found = source.names(task.data) if source is not None else None
        if found is None:
            raise LeftOutError(NO_NAMES)
        if len(found) < least:
            raise LeftOutError("the answer is about more items than were shown", found)
        return found

    def _pairwise(self, task: ExportedTask, value: Any) -> Said:
        if value not in ("left", "right"):
            raise LeftOutError("a Pairwise result that is neither left nor right", value)
        return self._pair(self._names(task), value)

    def _pair(self, shown: Sequence[str], outcome: Outcome) -> Said:
        if len(shown) != 2:
            raise LeftOutError("two items are compared where more were shown", list(shown))
        if shown[0] == shown[1]:
            raise LeftOutError("an item against itself", shown[0])
        return Said(((shown[0], shown[1], outcome, 1.0),), broken=False)

    def _choices(self, task: ExportedTask, value: Any) -> Said:
        labels = chosen_labels(value)
        if labels is None:
            raise LeftOutError("a Choices result without labels", value)
        if not labels:
            raise LeftOutError("the result is empty", expected=True)
        if self._plan.way == "listed":
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
        if known is None:
            raise FormatError(
                f"the label {label[:60]!r} is not known ({task.where})",
                self._file,
                task.line,
                value=label[:200],
                remedy="say what it means with the option labels, e.g. labels="
                f"{typed({label[:60]: 'skip'})}, together with all the other labels",
            )
        return known

    def _listed(self, task: ExportedTask, labels: list[str], value: Any) -> Said:
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
        source = self._plan.source
        shown = source.by_identity(task.data) if isinstance(source, names.Listed) else {}
        if not shown:
            raise LeftOutError(NO_NAMES)
        return shown

    def _chosen(self, best: list[str], shown: list[str]) -> Said:
        """The chosen items stand above those that were not."""
        rest = [name for name in shown if name not in best]
        if not rest:
            raise LeftOutError("all items were chosen, none stands above another", expected=True)
        return self._broken([best, rest])

    def _ranker(self, task: ExportedTask, value: Any) -> Said:
        buckets = ranked_ids(value)
        if buckets is None:
            raise LeftOutError("a Ranker result that is no ranking", value)
        order: list[str] | None = None
        if self._plan.source is not None:
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
        for bucket in self._ordered(buckets, task):
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
            if len(buckets) == 1 and NOT_PLACED not in buckets:
                return list(buckets)
            return [bucket for bucket in self._options.buckets if bucket in buckets]
        filled = [bucket for bucket, ids in buckets.items() if ids and bucket != NOT_PLACED]
        if not filled:
            raise LeftOutError("no item was placed in the ranking", expected=True)
        order = filled if len(filled) == 1 else names.ordered_buckets(filled)
        if order is None:
            raise FormatError(
                "items stand in several buckets, and which bucket is better is not known: "
                f"{', '.join(map(repr, filled[:12]))} ({task.where})",
                self._file,
                task.line,
                value=filled[:12],
                remedy=f"name them best first with the option buckets={','.join(filled[:12])}; add "
                "_ for the items that were not placed, and leave out a bucket that does not count",
            )
        return order

    def _broken(self, levels: list[list[str]]) -> Said:
        if len(levels) < 2:
            raise LeftOutError("only one item, or one level, in the ranking", expected=True)
        try:
            wins = break_ranking(levels, weights=self._options.weights)
        except DataError as error:
            raise LeftOutError("the ranking compares nothing", str(error)) from None
        return Said(tuple((won, lost, "left", weight) for won, lost, weight in wins), broken=True)

    def _ratings(self, task: ExportedTask, answer: Annotation) -> Said:
        ratings: list[float] = []
        for control in self._plan.controls:
            values = [result.value for result in answer.of(control)]
            if not values:
                raise LeftOutError(
                    "the result is empty" if not answer.results else "not all items were rated",
                    expected=True,
                )
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
        return self._broken(
            [
                [name for name, own in zip(shown, ratings, strict=True) if own == rating]
                for rating in sorted(set(ratings), reverse=True)
            ]
        )


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
