"""A simulated study as the files that people have, and its truth beside them.

- `arena`: JSON lines with id, judge, model_a, model_b, winner.
- `afc`: the CSV log of a forced-choice experiment. Two items: pwcmp's columns
  observer, session_id, scene, condition_A, condition_B, is_A_selected. Slates of n:
  observer, session_id, scene, condition_1 … condition_n, then `selected` (the place
  of the best, from 1) or rank_1 … rank_n (the rank of each condition, 1 is best).
- `comparisons`: CSV with rater, winner, loser, weight; a tie is two rows of half weight.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any, Literal, TextIO

import msgspec

from bbq_plugin.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bbq_plugin.simulation.study import Study, Truth

FileFormat = Literal["arena", "afc", "comparisons"]
SUFFIX: dict[FileFormat, str] = {"arena": ".jsonl", "afc": ".csv", "comparisons": ".csv"}


def write_study(study: Study, file: TextIO, file_format: FileFormat) -> None:
    """Write the answers in one of the formats above."""
    if file_format == "arena":
        _write_arena(study, file)
    elif file_format == "afc":
        _write_rows(file, _afc_pairs(study) if study.slate == 2 else _afc_slates(study))
    elif file_format == "comparisons":
        _write_rows(file, _comparison_rows(study))
    else:
        raise UsageError(f"the file format is {file_format!r}; expected one of {', '.join(SUFFIX)}")


def write_truth(truth: Truth, file: TextIO) -> None:
    """Write θ per item, and quality and kind per rater, as JSON."""
    document = {
        "schema": "bbq.truth/1",
        "items": [
            {"item": item, "theta": theta}
            for item, theta in zip(truth.items, truth.theta.tolist(), strict=True)
        ],
        "raters": [
            {"rater": rater, "quality": quality, "kind": kind}
            for rater, quality, kind in zip(
                truth.raters, truth.quality.tolist(), truth.kind, strict=True
            )
        ],
    }
    file.write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")


def _write_arena(study: Study, file: TextIO) -> None:
    if study.slate > 2:
        raise UsageError(
            f"Arena votes have two items, this study has slates of {study.slate}; "
            "write it as afc or comparisons"
        )
    words = {"left": "model_a", "right": "model_b", "tie": "tie"}
    for c in study.comparisons():
        vote = {
            "id": c.key,
            "judge": c.rater,
            "model_a": c.left,
            "model_b": c.right,
            "winner": words[c.outcome],
        }
        file.write(msgspec.json.encode(vote).decode() + "\n")


def _write_rows(file: TextIO, rows: Iterator[list[Any]]) -> None:
    csv.writer(file, lineterminator="\n").writerows(rows)


def _afc_pairs(study: Study) -> Iterator[list[Any]]:
    if study.tie.any():
        raise UsageError(
            "a forced-choice log has no ties, this study has; "
            "simulate without ties, or write it as arena or comparisons"
        )
    yield ["observer", "session_id", "scene", "condition_A", "condition_B", "is_A_selected"]
    items = study.truth.items
    for i, (rater, (left, right), order, _) in enumerate(study.answers()):
        yield [rater, 1, f"scene-{i}", items[left], items[right], int(order[0] == 0)]


def _afc_slates(study: Study) -> Iterator[list[Any]]:
    places = range(1, study.slate + 1)
    said = ["selected"] if study.answer == "best" else [f"rank_{i}" for i in places]
    yield ["observer", "session_id", "scene", *(f"condition_{i}" for i in places), *said]
    items = study.truth.items
    for i, (rater, shown, order, _) in enumerate(study.answers()):
        if study.answer == "best":
            answer = [order[0] + 1]
        else:
            answer = [order.index(place) + 1 for place in range(study.slate)]
        yield [rater, 1, f"scene-{i}", *(items[item] for item in shown), *answer]


def _comparison_rows(study: Study) -> Iterator[list[Any]]:
    yield ["rater", "winner", "loser", "weight"]
    for c in study.comparisons():
        if c.outcome == "tie":
            yield [c.rater, c.left, c.right, c.weight / 2]
            yield [c.rater, c.right, c.left, c.weight / 2]
        else:
            winner, loser = (c.left, c.right) if c.outcome == "left" else (c.right, c.left)
            yield [c.rater, winner, loser, c.weight]
