"""The question that a project asks: which control compares, and what names the items.

The user may say so in options, which are checked here; otherwise it is found.

A configuration names the controls that can compare; the first answers show which one does, and
where the data have the items' names. What is not clear beyond doubt is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import msgspec

from bbq_adapters import labels_and_item_names as naming
from bbq_adapters.labels_and_item_names import Keys, Listed
from bbq_adapters.row_values import lookup
from bbq_plugin.data.mappings import Reading, UnclearError
from bbq_plugin.data.rankings import Weights
from bbq_plugin.data.records import BothBad
from bbq_plugin.errors import FormatError, UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bbq_adapters.label_studio.answers import ExportedTask
    from bbq_adapters.labels_and_item_names import Source


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


#: The bucket of what was not placed anywhere.
NOT_PLACED = "_"
# How many controls or labels a message shows.
_SHOWN = 12
_SAID: dict[Any, str] = {1: "left", 2: "right"}
Way = Literal["pairwise", "places", "listed", "ranker", "ratings"]


@dataclass(frozen=True, slots=True)
class Question:
    """How to read the answers of a file or a project."""

    way: Way
    controls: tuple[str, ...]
    #: None for a Ranker whose list is not in the data: its ids are the names.
    source: Source | None

    @property
    def name(self) -> str:
        """What it is called: by its controls."""
        return ",".join(self.controls)

    def kept(self) -> dict[str, Any]:
        """The question as JSON, to be kept in a store."""
        kept: dict[str, Any] = {"way": self.way, "controls": list(self.controls)}
        if isinstance(self.source, Keys):
            kept["keys"] = list(self.source.keys)
        elif self.source is not None:
            kept["list"], kept["field"] = self.source.key, self.source.field
        return kept

    @classmethod
    def of_kept(cls, kept: Mapping[str, Any] | None) -> Question | None:
        """A question that was kept."""
        if not kept:
            return None
        source: Source | None = None
        if "keys" in kept:
            source = Keys(tuple(kept["keys"]))
        elif "list" in kept:
            source = Listed(kept["list"], kept.get("field"))
        return cls(kept["way"], tuple(kept["controls"]), source)


def kept_questions(questions: Sequence[Question]) -> dict[str, Any] | None:
    """All questions of a project as JSON: the first, and the others inside it."""
    if not questions:
        return None
    kept = questions[0].kept()
    if len(questions) > 1:
        kept["others"] = [question.kept() for question in questions[1:]]
    return kept


def questions_of_kept(kept: Mapping[str, Any] | None) -> list[Question]:
    """The questions that were kept."""
    others = (kept or {}).get("others", ())
    return [found for one in (kept, *others) if (found := Question.of_kept(one)) is not None]


# -- what a result says


def chosen_labels(value: Any) -> list[str] | None:
    """The labels of a Choices result; of nested ones the innermost; None if it holds none."""
    if not isinstance(value, list):
        return None
    inner = [path[-1] if isinstance(path, list) and path else path for path in value]
    labels = [label for label in inner if isinstance(label, str)]
    return labels if len(labels) == len(inner) else None


def ranked_ids(value: Any) -> dict[str, list[str]] | None:
    """The ids in each bucket of a Ranker result, or None if it has another shape."""
    if not isinstance(value, dict) or not value:
        return None
    buckets: dict[str, list[str]] = {}
    for bucket, inside in value.items():
        if not isinstance(inside, list):
            return None
        ids = [name for own in inside if (name := naming.name_of(own)) is not None]
        if len(ids) < len(inside):
            return None
        buckets[bucket] = ids
    return buckets


def meaning(label: str, labels: Mapping[str, Meaning]) -> Meaning | None:
    """What a label means: as told, else as well known, else None."""
    told = labels.get(label.strip())
    if told is None and not labels:
        told = naming.label_meaning(label)
    return {"left": 1, "right": 2}.get(told, told) if isinstance(told, str) else told


def typed(labels: Mapping[str, str]) -> str:
    """The option `labels` as one would type it, for a message."""
    if any("," in label for label in labels):
        return repr(msgspec.json.encode(labels).decode())
    return ",".join(f"{label}={meaning}" for label, meaning in labels.items())


# -- the controls of some answers


@dataclass(slots=True)
class Control:
    """One control. `kind` is "" where the answers do not say, or do not agree."""

    name: str
    kinds: set[str] = field(default_factory=set)
    to_names: set[str] = field(default_factory=set)
    buckets: set[str] = field(default_factory=set)
    #: The labels of Choices, or the ids of a Ranker, with the data of their task.
    said: list[tuple[list[str], dict[str, Any]]] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Its type, as results name it."""
        return next(iter(self.kinds)) if len(self.kinds) == 1 else ""

    def labels(self) -> list[str]:
        """All the labels or ids that were said, once each."""
        return list(dict.fromkeys(label for labels, _ in self.said for label in labels))

    def lists(self) -> list[str]:
        """The lists in the data out of which its labels come."""
        keys = dict.fromkeys(key for _, data in self.said for key in data)
        return [key for key in keys if self._comes_from(key)]

    def _comes_from(self, key: str) -> bool:
        own_list = Listed(key)
        shown = [(labels, own_list.by_identity(data)) for labels, data in self.said if labels]
        inside = [labels for labels, offered in shown if offered and set(labels) <= offered.keys()]
        # One odd answer, which the server would accept, must not hide the list.
        return bool(inside) and len(inside) * 2 > len(shown)


def _controls_in(sample: Sequence[ExportedTask]) -> dict[str, Control]:
    """The controls of these tasks by name, without those of skipped annotations."""
    found: dict[str, Control] = {}
    for task in sample:
        for annotation in task.answers:
            for result in annotation.results if not annotation.cancelled else ():
                control = found.setdefault(result.control, Control(result.control))
                # A flat export shows no type for a single choice: other rows may.
                if result.kind:
                    control.kinds.add(result.kind)
                if result.to_name:
                    control.to_names.add(result.to_name)
                said: list[str] = []
                if result.kind in ("choices", ""):
                    said = chosen_labels(result.value) or []
                elif result.kind == "ranker":
                    buckets = ranked_ids(result.value) or {}
                    control.buckets.update(buckets)
                    said = [own for ids in buckets.values() for own in ids]
                control.said.append((said, task.shown_beside(result.control)))
    return found


# -- finding the question


def find_question(
    sample: Sequence[ExportedTask],
    options: LabelStudioOptions,
    file: str,
    candidates: Sequence[str] = (),
) -> Question | None:
    """How to read answers that begin with these tasks; None if they have no answers.

    `candidates` are the controls that can compare by the word of the configuration.
    """
    if not sample:
        return None
    controls = _controls_in(sample)
    named = bool(options.control)
    if not options.control and len(candidates) == 1 and candidates[0] in controls:
        options = replace(options, control=tuple(candidates))
    return _Finder(sample, controls, options, file, named).question()


@dataclass(frozen=True, slots=True)
class FoundQuestions:
    """The questions of a project that are known by now, and why others are not."""

    known: tuple[Question, ...] = ()
    #: By the name of the question.
    problems: Mapping[str, FormatError] = field(default_factory=dict)

    def of(self, name: str) -> Question | None:
        """A question by its name."""
        return next((one for one in self.known if one.name == name), None)


def find_questions(
    sample: Sequence[ExportedTask],
    options: LabelStudioOptions,
    file: str,
    asked: Sequence[tuple[str, ...]],
    candidates: Sequence[str],
    known: Sequence[Question] = (),
    before: Sequence[Question] = (),
) -> FoundQuestions:
    """How to read the answers of a project that asks all of these; those `known` stay.

    A question that cannot be read does not stop the others, and is read as `before` if it was.
    The only question of a project that was never read is refused.
    """
    questions = {question.controls: question for question in known}
    earlier = {question.controls: question for question in before}
    problems: dict[str, FormatError] = {}
    if len(asked) < 2:
        try:
            found = None if known else find_question(sample, options, file, candidates)
        except FormatError as error:
            if not before:
                raise
            return FoundQuestions(tuple(before), {before[0].name: error})
        return FoundQuestions((*known, *([] if found is None else [found])))
    controls = _controls_in(sample)
    for chosen in asked:
        if chosen in questions or any(control not in controls for control in chosen):
            continue
        try:
            named = bool(options.control)
            finder = _Finder(sample, controls, replace(options, control=chosen), file, named)
            questions[chosen] = finder.question()
        except FormatError as error:
            problems[",".join(chosen)] = error
            if chosen in earlier:
                questions[chosen] = earlier[chosen]
    order = [*asked, *(own for own in questions if own not in asked)]
    return FoundQuestions(tuple(questions[own] for own in order if own in questions), problems)


@dataclass(frozen=True, slots=True)
class _Finder:
    """Finds the question in some tasks, or says what is not clear."""

    _sample: Sequence[ExportedTask]
    _controls: dict[str, Control]
    _options: LabelStudioOptions
    _file: str
    #: The user has named the control.
    _named: bool = False

    def question(self) -> Question:
        way, chosen = self._told() if self._options.control else self._found()
        if not (self._options.labels or (self._named and way != "places")):
            self._ask_of_direction(way, chosen[0])
        return Question(way, chosen, self._source(way, chosen))

    # -- the control

    def _told(self) -> tuple[Way, tuple[str, ...]]:
        chosen = self._options.control
        for name in chosen:
            if name not in self._controls:
                otherwise = "name a control that the answers have"
                remedy = did_you_mean(name, self._controls, otherwise, before="")
                problem = f"no answer has the control {name!r}; {self._described()}"
                raise self._refusal(problem, name, remedy)
        if len(chosen) > 1:
            if any(self._controls[name].kind != "rating" for name in chosen):
                raise self._refusal(
                    "several controls can be read together only if all are Ratings; "
                    + self._described(),
                    list(chosen),
                    "name one control, or the Ratings of the items in the order they are shown",
                )
            return "ratings", chosen
        control = self._controls[chosen[0]]
        way = self._way(control, told=True)
        if way is None:
            raise self._unclear(control)
        return way, chosen

    def _found(self) -> tuple[Way, tuple[str, ...]]:
        found: list[tuple[Way, tuple[str, ...]]] = [
            (way, (control.name,))
            for control in self._controls.values()
            if (way := self._way(control, told=False))
        ]
        found += [("ratings", family) for family in self._rated_together()]
        found = [one for one in found if not self._is_weak(*one)] or found
        if len(found) == 1:
            return found[0]
        if found:
            listed = ", ".join(" with ".join(map(repr, chosen)) for _, chosen in found)
            raise self._question(
                f"several controls compare items: {listed}; say which with the option "
                f"control={' or control='.join(','.join(chosen) for _, chosen in found)}",
                [
                    ({"control": chosen}, f"the answers of {' and '.join(chosen)} count")
                    for _, chosen in found
                ],
            )
        choices = [c for c in self._controls.values() if c.kind == "choices" and c.labels()]
        if len(choices) == 1:
            raise self._unclear(choices[0])
        raise self._refusal(
            f"no control of these answers compares items; {self._described()}",
            sorted(self._controls)[:_SHOWN],
            "expected Pairwise, Ranker, two Ratings, or Choices of a side; say which control and "
            "what its labels mean with the options control=NAME and "
            "labels=LABEL=left,LABEL=right,LABEL=tie",
        )

    def _way(self, control: Control, *, told: bool) -> Way | None:
        """How this control compares, or None if it does not."""
        if control.kind in ("pairwise", "ranker"):
            return cast("Way", control.kind)
        labels = control.labels() if control.kind in ("choices", "") else []
        if not labels:
            return None
        meanings = self._options.labels
        if all(meaning(label, meanings) is not None for label in labels):
            # A column of a flat export may be data: "A" or "model-a" proves nothing.
            known = control.kind or told or meanings or any(map(naming.is_verdict, labels))
            return "places" if known else None
        if told and meanings:
            return "places"
        return "listed" if control.lists() else None

    def _is_weak(self, way: Way, chosen: tuple[str, ...]) -> bool:
        control = self._controls[chosen[0]]
        if way == "listed":
            # A column of a flat export whose text happens to stand in some list.
            return not control.kind
        bare = all(map(naming.is_bare, control.labels()))
        return way == "places" and not self._options.labels and bare

    def _rated_together(self) -> Iterator[tuple[str, ...]]:
        """Ratings that differ only in a side, by their own name or by what they are about."""
        ratings = [control for control in self._controls.values() if control.kind == "rating"]
        by_name = naming.families(control.name for control in ratings)
        if by_name:
            yield from by_name
            return
        about = {next(iter(c.to_names)): c.name for c in ratings if len(c.to_names) == 1}
        if len(about) == len(ratings):
            yield from (tuple(about[to] for to in family) for family in naming.families(about))

    # -- whether the worse was asked for

    def _ask_of_direction(self, way: Way, name: str) -> None:
        """Refuse answers that may name the worse, by the name of the control or by the tasks."""
        asked = self._asked_for_worse(name)
        if way not in ("pairwise", "places", "listed") or asked is None:
            return
        why, sure = asked
        if way != "places":
            raise self._refusal(
                f"{why}, and answers of {name!r} are read as the better one", name,
                f"if the better one was chosen all the same, say so with the option control={name}",
            )  # fmt: skip
        known = {label: _SAID.get(said := meaning(label, {}), said)
                 for label in self._controls[name].labels()}  # fmt: skip
        other = {"left": "right", "right": "left"}
        turned = {label: other.get(str(said), said) for label, said in known.items()}
        control = {"control": self._options.control} if self._named else {}
        ways = [
            ({"labels": turned, **control}, "the chosen one is the worse"),
            ({"labels": known, **control}, "the chosen one is the better"),
        ]
        problem = f"{why}: say with the option labels what each label means for who is better"
        raise self._question(problem, ways if sure else [])

    def _asked_for_worse(self, name: str) -> tuple[str, bool] | None:
        """What asks for the worse, and whether it surely does; None if nothing does."""
        if (way := naming.asks_for_worse(name)) is not False:
            return f"the name of the control {name!r} may ask for the worse", way is True
        texts: dict[str, set[str]] = {}
        for task in self._sample if len(self._sample) > 1 else ():
            for key, value in task.data.items():
                if isinstance(value, str):
                    texts.setdefault(key, set()).add(value)
        for key, said in texts.items():
            if len(said) > 2 or not any(naming.is_question(key, text) for text in said):
                continue
            ways = {naming.asks_for_worse(text) for text in said}
            if ways != {False}:
                sure = ways == {True} and not {"prompt", "text"} & {*naming.tokens(key)}
                return f"{key} of the tasks asks {', '.join(map(repr, sorted(said)))}", sure
        return None

    # -- the names of the items

    def _source(self, way: Way, chosen: tuple[str, ...]) -> Source | None:
        control, items = self._controls[chosen[0]], self._options.items
        if way == "ranker":
            self._check_buckets(control)
        if way in ("ranker", "listed"):
            return self._list_source(way, control)
        most: int | None = len(chosen) if way == "ratings" else 2
        if way == "places":
            most = self._most_places(control)
        if not items:
            return naming.found_keys(self._sample, most, self._file)
        source = naming.told_keys(items, self._sample, self._file)
        if isinstance(source, Keys) and most not in (None, len(source.keys)):
            n_keys, remedy = len(source.keys), f"name {most} keys, the first one first"
            problem = f"the option items names {n_keys} keys where {most} items are shown"
            raise self._refusal(problem, list(source.keys), remedy)
        return source

    def _check_buckets(self, control: Control) -> None:
        for bucket in self._options.buckets:
            if bucket not in control.buckets and bucket != NOT_PLACED:
                known = sorted(control.buckets - {NOT_PLACED})
                otherwise = "name buckets that the answers have"
                remedy = did_you_mean(bucket, known, otherwise, before="")
                problem = (
                    f"no answer has the bucket {bucket!r} that the option buckets names; "
                    f"there are {', '.join(map(repr, known[:_SHOWN])) or 'none'}"
                )
                raise self._refusal(problem, bucket, remedy)

    def _most_places(self, control: Control) -> int | None:
        """Two where a label speaks of sides or ties; labels that only count may go on counting."""
        told = self._options.labels
        labels = told or dict.fromkeys(control.labels())
        meanings = [meaning(label, told) for label in labels]
        if any(isinstance(one, int) and one > 2 for one in meanings):
            return None
        tied = "tie" in meanings or "both_bad" in meanings
        said = [str(value) for value in told.values()] or list(labels)
        return 2 if tied or any(map(naming.is_sided, said)) else None

    def _list_source(self, way: Way, control: Control) -> Source | None:
        items, shown = self._options.items, naming.described(self._sample)
        if items:
            if len(items) > 1:
                problem = f"the option items names {len(items)} keys, but the items are one list"
                remedy = "name the list, or a field of its entries, such as items=images.model"
                raise self._refusal(f"{problem}; {shown}", list(items), remedy)
            return naming.told_list(items[0], self._sample, self._file)
        lists = control.lists()
        if not lists:
            return None
        if len(lists) > 1:
            problem = f"several lists could be what was shown; {shown}"
            raise self._refusal(problem, lists, f"say which with the option items={lists[0]}")
        (own,) = lists
        fields = self._naming_fields(own)
        if fields or (way == "listed" and not self._identities_are_names(own)):
            raise self._refusal(
                f"the entries of {own!r} do not clearly name the items; {shown}",
                fields or lists,
                "say what names them with the option items="
                + " or items=".join([*(f"{own}.{name}" for name in fields), own]),
            )
        return Listed(own)

    def _naming_fields(self, key: str) -> list[str]:
        """Fields that name something else than the entry's identity does."""
        found: dict[str, None] = {}
        for task in self._sample:
            for entry in naming.entries(lookup(task.data, key)):
                for name, value in entry.items() if isinstance(entry, dict) else ():
                    known = (None, naming.identity(entry))
                    strong = naming.names_an_item(name, words=naming.STRONG_NAME_WORDS)
                    if strong and naming.name_of(value) not in known:
                        found[name] = None
        return list(found)

    def _identities_are_names(self, key: str) -> bool:
        """Whether the values of Choices look like names; texts with blanks are what was shown."""
        shown = [own for task in self._sample for own in Listed(key).by_identity(task.data)]
        return all(not any(map(str.isspace, own)) and len(own) <= 60 for own in shown)

    # -- messages

    def _described(self) -> str:
        """The controls with some of their labels."""
        shown = []
        for control in list(self._controls.values())[:_SHOWN]:
            labels = ", ".join(repr(label[:30]) for label in control.labels()[:4])
            kind = control.kind or "text"
            shown.append(f"{control.name!r} ({kind}{': ' + labels if labels else ''})")
        return f"the answers have {', '.join(shown)}" if shown else "no answer has a result"

    def _unclear(self, control: Control) -> FormatError:
        if control.kind not in ("choices", ""):
            return self._refusal(
                f"the control {control.name!r} ({control.kind}) compares nothing by itself",
                control.name,
                "a Rating needs a second one: control=RATING_LEFT,RATING_RIGHT",
            )
        labels = control.labels()[:_SHOWN]
        known = {label: _SAID.get(said, said) for label in labels if (said := meaning(label, {}))}
        unknown = [label for label in labels if label not in known]
        problem = (
            f"the labels of the control {control.name!r} are not known: "
            + ", ".join(repr(label[:60]) for label in labels)
            + "; say what each means (left, right, tie, both_bad, skip, or the place 1, 2, 3 … of "
            "an item) with the option labels, such as labels=LABEL=left,LABEL=right"
        )
        ways: list[tuple[dict[str, Any], str]] = []
        if len(unknown) == 1 and {"left", "right"} <= set(known.values()):
            # One label beside two sides is a tie or no answer: that is asked.
            (label,) = unknown
            meanings = [("tie", "a tie"), ("skip", "no answer")]
            if " ".join(naming.tokens(label)) in naming.SKIPS:
                meanings.reverse()
            ways = [
                ({"labels": {**known, label: said}}, f"{label!r} means {words}")
                for said, words in meanings
            ]
        return self._question(problem, ways)

    def _question(self, problem: str, ways: Sequence[tuple[dict[str, Any], str]]) -> UnclearError:
        """A refusal that options would mend; each of the ways is a set of them."""
        given = {"items": self._options.items} if self._options.items else {}
        readings = [
            Reading(
                "label-studio", {**options, **given}, "possible" if i else "likely",
                "answers of a labelling project", difference=difference,
                doubts=(f"the first of these is taken: {difference}",) if len(ways) > 1 else (),
            )
            for i, (options, difference) in enumerate(ways)
        ]  # fmt: skip
        return UnclearError(problem, self._file, readings, self._sample[0].line, problem[:60])

    def _refusal(self, problem: str, value: object, remedy: str) -> FormatError:
        return FormatError(problem, self._file, self._sample[0].line, value, remedy)


# -- what the configuration of a project says

# Controls that can compare. Choices and Ratings may be about something else.
_SURE = ("Pairwise", "Ranker")
_PERHAPS = ("Choices", "Rating")


def comparing_controls(parsed: Any, options: LabelStudioOptions, name: str) -> list[str]:
    """The controls of a configuration that can compare; FormatError if there is none."""
    controls = {str(key): one for key, one in dict(parsed or {}).items() if isinstance(one, dict)}
    able = [one for one in controls if controls[one].get("type") in (*_SURE, *_PERHAPS)]
    if not able:
        listed = ", ".join(f"{key!r} ({one.get('type')})" for key, one in controls.items())
        raise FormatError(
            f"no control of the labelling configuration compares items; it has {listed or 'none'}",
            name,
            value=sorted(controls)[:_SHOWN],
            remedy="expected Pairwise, Ranker, Choices of a side, or two Ratings",
        )
    if options.control:
        return [control for control in options.control if control in able] or able
    sure = [control for control in able if controls[control].get("type") in _SURE]
    sided = [control for control in able if _is_sided(controls[control], options)]
    return sure or sided or able


def asked_questions(parsed: Any, options: LabelStudioOptions) -> list[tuple[str, ...]]:
    """The controls of each question that a configuration asks beyond doubt.

    Choices with a label for each side are one, whatever their other labels mean.
    """
    if options.control:
        return [options.control]
    controls = {str(key): one for key, one in dict(parsed or {}).items() if isinstance(one, dict)}
    asked = [
        (name,)
        for name, control in controls.items()
        if control.get("type") in _SURE or _is_sided(control, options, partly=True)
    ]
    ratings = [name for name, control in controls.items() if control.get("type") == "Rating"]
    return [*asked, *naming.families(ratings)]


def _is_sided(
    control: dict[str, Any], options: LabelStudioOptions, *, partly: bool = False
) -> bool:
    """Whether these are Choices, all of whose labels (or two) say which item is better."""
    labels = [str(label) for label in control.get("labels") or ()]
    meanings = [meaning(label, options.labels) for label in labels]
    told = {1, 2}.issubset(meanings) if partly else None not in meanings
    sided = len(labels) > 1 and told and any(map(naming.is_verdict, labels))
    return control.get("type") == "Choices" and sided


def problem_text(error: FormatError) -> str:
    """Why a question cannot be read, where nobody can type what Python would be told."""
    return error.for_command_line() if isinstance(error, UnclearError) else str(error)


def described(
    questions: Sequence[Question], candidates: Sequence[str], parsed: Any, *, looked: bool = True
) -> str:
    """What was found, in words; without having `looked`, nothing is said about answers."""
    found = [_described(one, candidates, parsed, looked=looked) for one in questions or (None,)]
    return "; ".join(found)


def _described(
    question: Question | None, candidates: Sequence[str], parsed: Any, *, looked: bool
) -> str:
    controls = dict(parsed or {})
    shown = []
    for name in question.controls if question else candidates:
        control = controls.get(name, {})
        about = " and ".join(map(str, control.get("to_name") or ()))
        kind = control.get("type", "not in the configuration")
        shown.append(f"control {name!r} ({kind}{' of ' + about if about else ''})")
    if question is None:
        return "; ".join(shown) + ("; no answers yet" if looked else "")
    source = question.source
    if source is None:
        named_by = "the control's own ids"
    elif isinstance(source, Keys):
        named_by = " and ".join(source.keys)
    else:
        named_by = f"the list {source.key}" + (f", field {source.field}" if source.field else "")
    return f"{', '.join(shown)}, items named by {named_by}"
