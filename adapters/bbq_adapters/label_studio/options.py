"""The adapter's options, as Python values or as the text of a command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import msgspec

from bbq_plugin.data.rankings import Weights
from bbq_plugin.errors import UsageError

GroundTruth = Literal["use", "skip", "only"]
Within = Literal["ranked", "tied"]
BothBad = Literal["tie", "drop"]

#: What a label may mean: an outcome, "skip", or the place of an item counted from 1.
Meaning = str | int
MEANINGS = ("left", "right", "tie", "both_bad", "skip")

_PLACES = {str(place): place for place in range(1, 101)}


@dataclass(frozen=True, slots=True)
class Options:
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


def checked(
    *,
    items: str | Sequence[str] | None = None,
    control: str | Sequence[str] | None = None,
    labels: str | Mapping[str, Meaning] | None = None,
    buckets: str | Sequence[str] | None = None,
    within: Any = "ranked",
    weights: Any = "information",
    ground_truth: Any = "use",
    both_bad: Any = "tie",
    project: str | int | None = None,
) -> Options:
    """Options from what `read` was given."""
    return Options(
        items=_names(items, "items", "model_left,model_right"),
        control=_names(control, "control", "preference"),
        labels=_labels(labels),
        buckets=_names(buckets, "buckets", "good,bad", separators=",>"),
        within=_one_of(within, "within", get_args(Within)),
        weights=_one_of(weights, "weights", get_args(Weights)),
        ground_truth=_one_of(ground_truth, "ground_truth", get_args(GroundTruth)),
        both_bad=_one_of(both_bad, "both_bad", get_args(BothBad)),
        project=None if project is None else str(project),
    )


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
    return {_label(label, value): _meaning(meaning) for label, meaning in value.items()}


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


def typed(labels: Mapping[str, str]) -> str:
    """Labels as one would type them, for a message."""
    if any("," in label for label in labels):
        return repr(msgspec.json.encode(labels).decode())
    return ",".join(f"{label}={meaning}" for label, meaning in labels.items())


def _label(label: Any, value: Any) -> str:
    if not isinstance(label, str) or not label.strip():
        raise _bad_labels(value)
    return label.strip()


def _meaning(meaning: Any) -> Meaning:
    if isinstance(meaning, str) and meaning in MEANINGS:
        return meaning
    if isinstance(meaning, (str, int)) and not isinstance(meaning, bool):
        place = _PLACES.get(str(meaning))
        if place is not None:
            return place
    raise UsageError(
        f"a label means {meaning!r}; expected {', '.join(MEANINGS)}, or 1, 2, 3 … for the place "
        "of an item"
    )


def _bad_labels(value: Any) -> UsageError:
    return UsageError(
        f"labels is {value!r}; expected labels and what they mean, such as "
        "'A is better=left,B is better=right,same=tie'"
    )
