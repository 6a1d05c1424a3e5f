"""What the user says about a project: items, control, labels and their meanings, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

import msgspec

from bbq_plugin.data.rankings import Weights
from bbq_plugin.data.records import BothBad
from bbq_plugin.errors import UsageError

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
