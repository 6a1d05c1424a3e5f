"""Pairs as new tasks for Label Studio: an import file, and the order in which to serve them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from bbq_plugin.analysis.next_pairs import prediction_scores
from bbq_plugin.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbq_plugin.analysis import NextPairs

__all__ = ["PAIRS_VERSION", "label_studio_json", "label_studio_tasks"]

#: What the predictions that carry the scores are called in the project.
PAIRS_VERSION = "bbq pairs"


def label_studio_tasks(
    pairs: NextPairs,
    keys: Sequence[str] = ("model_left", "model_right"),
    *,
    rater_key: str | None = None,
    scores: bool = False,
) -> list[dict[str, Any]]:
    """One task for each pair, with the items' names where the adapter's option `items` finds them.

    Two ``keys`` name the one shown first and the other; one key is a list, or a field of its
    entries (``images.model``). Dots stand for nested data. Under ``rater_key`` stands whom to ask.
    With ``scores`` each task has a prediction without a result, whose score puts the most
    informative task first in a project that serves the lowest prediction score first.
    """
    _check_keys(keys, rater_key)
    place = prediction_scores(pairs, [(row.left, row.right) for row in pairs])
    tasks = []
    for row, score in zip(pairs, place, strict=True):
        data: dict[str, Any] = {}
        if len(keys) == 2:
            for key, name in zip(keys, (row.left, row.right), strict=True):
                _put(data, key, name)
        else:
            key, _, field = keys[0].rpartition(".")
            names = [row.left, row.right]
            # A control knows the entries of its list by their ids.
            entries = [{"id": str(at), field: name} for at, name in enumerate(names, start=1)]
            _put(data, key or field, entries if key else names)
        if rater_key is not None:
            _put(data, rater_key, row.rater)
        task: dict[str, Any] = {"data": data}
        if scores:
            task["predictions"] = [{"model_version": PAIRS_VERSION, "score": score, "result": []}]
        tasks.append(task)
    return tasks


def label_studio_json(tasks: Sequence[dict[str, Any]]) -> str:
    """The tasks as the file that a project imports."""
    return msgspec.json.format(msgspec.json.encode(tasks), indent=2).decode() + "\n"


def _check_keys(keys: Sequence[str], rater_key: str | None) -> None:
    used = [*keys, *([] if rater_key is None else [rater_key])]
    if isinstance(keys, str) or len(keys) not in (1, 2):
        raise UsageError(f"keys={keys!r}: give two keys, left and right, or one that is a list")
    for key in used:
        if not key or not all(part.strip() for part in key.split(".")):
            raise UsageError(f"{key!r} is no key of task data; give a name such as model_left")
    for key in used:
        inside = [other for other in used if other is not key and f"{other}.".startswith(f"{key}.")]
        if inside:
            raise UsageError(f"{key!r} and {inside[0]!r} are the same place; give each its own")


def _put(data: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for parent in parents:
        data = data.setdefault(parent, {})
    data[last] = value
