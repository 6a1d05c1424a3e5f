"""The controls of a file's first answers: their types, and what was said in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bbq_adapters.label_studio import names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbq_adapters.label_studio.tasks import Task

#: The bucket of what was not placed anywhere.
NOT_PLACED = "_"

#: How many controls or labels a message shows.
SHOWN = 12


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


def collected(sample: Sequence[Task]) -> dict[str, Control]:
    """The controls of these tasks by name, without those of skipped annotations."""
    found: dict[str, Control] = {}
    for task in sample:
        for answer in task.answers:
            if answer.cancelled:
                continue
            for result in answer.results:
                control = found.setdefault(result.control, Control(result.control))
                # A flat export shows no type for a single choice: other rows may.
                if result.kind:
                    control.kinds.add(result.kind)
                if result.kind == "ranker":
                    control.buckets.update(ranked_ids(result.value) or ())
                if result.to_name:
                    control.to_names.add(result.to_name)
                shown = task.shown_beside(result.control)
                control.said.append((_said(result.kind, result.value), shown))
    return found


def _said(kind: str, value: Any) -> list[str]:
    if kind in ("choices", ""):
        return chosen_labels(value) or []
    if kind == "ranker":
        return [own for ids in (ranked_ids(value) or {}).values() for own in ids]
    return []


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
        ids = [name for own in inside if (name := names.name_of(own)) is not None]
        if len(ids) < len(inside):
            return None
        buckets[bucket] = ids
    return buckets


def described(controls: dict[str, Control]) -> str:
    """The controls with some of their labels, for a message."""
    shown = []
    for control in list(controls.values())[:SHOWN]:
        labels = ", ".join(repr(label[:30]) for label in control.labels()[:4])
        kind = control.kind or "text"
        shown.append(f"{control.name!r} ({kind}{': ' + labels if labels else ''})")
    return f"the answers have {', '.join(shown)}" if shown else "no answer has a result"
