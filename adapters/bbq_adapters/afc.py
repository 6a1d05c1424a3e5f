"""Forced-choice logs of psychophysics: pwcmp, jsPsych, PsychoPy and plain tables.

The columns are known by their usual names or named by options. What a choice among
three means differs from study to study: the user says it with `task`, and where it
cannot be told nothing is guessed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from bbq_adapters._fields import (
    RATER_FIELDS,
    known_columns,
    line_key,
    number,
    rater,
    tags,
)
from bbq_adapters._rows import Place, Row, look, rows
from bbq_adapters.afc_trials import Layout, Task, pairs
from bbq_plugin.breaking import Weights
from bbq_plugin.comparisons import Comparison, Note, Skipped
from bbq_plugin.errors import FormatError, UsageError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator, Mapping, Sequence

Unit = Literal["s", "ms"]

_HEAD = 64 * 1024
_LETTERS = "ABCDEFGH"
_PAIRS = (("left", "right"), ("stimulus_left", "stimulus_right"), ("item_left", "item_right"))
_NUMBERED = ("condition", "item", "stimulus")
_PEOPLE = (
    *RATER_FIELDS,
    "subject_id",
    "participant_id",
    "PROLIFIC_PID",
    "prolific_id",
    "worker_id",
)
_TASKS = "best-of-n, triplet-ref, rank-of-n (or 2afc-tie with two items)"
_ODDITY = (
    "task is 'oddity': the odd one out tells which items differ, not which is better, so no "
    "ranking follows from it; if people chose the best, say task=best-of-n"
)


class AfcAdapter:
    """Forced choices: pwcmp, jsPsych, PsychoPy, and plain tables of 2AFC, 3AFC and rankings."""

    name = "afc"
    option_help = {  # noqa: RUF012 - read by the registry, written by nobody
        "task": "what people were asked to do",
        "items": "columns of the items shown, as they stood",
        "answer": "column of what was chosen",
        "ranks": "columns of the ranks, one for each of items",
        "values": "what an answer means: a place from 1, left, right or tie",
        "rater": "column of who answered",
        "time": "column of the reaction time",
        "time_unit": "unit of the reaction time",
        "pivot": "triplet-ref: column of what the two others are compared with",
        "reference": "an item whose comparisons are left out; otherwise it is one like any other",
        "weights": "weight of the pairs of a slate",
    }

    def sniff(self, head: bytes, name: str) -> str | None:  # noqa: ARG002 - the content decides
        """By `condition_A`, `condition_1` …, or the fields of jsPsych or PsychoPy."""
        fields = look(head).fields
        if {"condition_A", "condition_B"} <= fields:
            return "a log with condition_A and condition_B (pwcmp)"
        if {"condition_1", "condition_2"} <= fields:
            return "a log with condition_1, condition_2, …"
        if {"trial_type", "trial_index", "rt"} <= fields:
            return "trial_type, trial_index and rt (jsPsych)"
        if "psychopyVersion" in fields or (
            "participant" in fields and any(f.endswith(".keys") for f in fields)
        ):
            return "participant and keys of responses (PsychoPy)"
        return None

    def read(
        self,
        stream: io.BufferedReader,
        name: str,
        *,
        task: Task | None = None,
        items: Sequence[str] = (),
        answer: str | None = None,
        ranks: Sequence[str] = (),
        values: Mapping[str, str] | None = None,
        rater: str | None = None,
        time: str | None = None,
        time_unit: Unit | None = None,
        pivot: str | None = None,
        reference: str | None = None,
        weights: Weights = "information",
    ) -> Iterator[Comparison | Skipped | Note]:
        """Yield the comparisons of each trial."""
        if task == "oddity":
            raise UsageError(_ODDITY)
        fields = look(stream.peek(_HEAD)).fields
        named = [c for c in (*items, answer, *ranks, rater, time, pivot) if c is not None]
        known_columns(named, dict.fromkeys(sorted(fields)))
        layout = _layout(
            fields, name, items=tuple(items), answer=answer, ranks=tuple(ranks),
            values=values or {}, pivot=pivot, reference=reference, weights=weights,
        )  # fmt: skip
        what = task or _task(layout, name)
        _check_task(what, layout, name)
        people = _PEOPLE if rater is None else (rater,)
        clock = _clock(fields, layout, time, time_unit)
        return _records(rows(stream, name), layout, what, people, clock)


def _layout(
    fields: frozenset[str],
    name: str,
    *,
    items: tuple[str, ...],
    answer: str | None,
    ranks: tuple[str, ...],
    values: Mapping[str, str],
    pivot: str | None,
    reference: str | None,
    weights: Weights,
) -> Layout:
    items = items or _usual_items(fields)
    if len(items) < 2:
        raise FormatError(
            "cannot tell which columns hold the items",
            name,
            value=sorted(fields),
            remedy=f"name them with items=COLUMN,COLUMN; there are: {', '.join(sorted(fields))}",
        )
    usual = tuple(f"rank_{i}" for i in range(1, len(items) + 1))
    ranks = ranks or (usual if fields.issuperset(usual) else ())
    if ranks and len(ranks) != len(items):
        raise UsageError(f"there are {len(items)} columns of items and {len(ranks)} of ranks")
    answer = answer or _usual_answer(fields)
    if answer is None and not ranks:
        raise FormatError(
            "cannot tell which column holds the answer",
            name,
            value=sorted(fields),
            remedy=f"name it with answer=COLUMN; there are: {', '.join(sorted(fields))}",
        )
    zero_based = answer == "response" and "trial_index" in fields
    return Layout(
        items, answer, ranks, 0 if zero_based else 1, answer == "is_A_selected", values, pivot,
        reference, weights,
    )  # fmt: skip


def _usual_items(fields: frozenset[str]) -> tuple[str, ...]:
    lettered = tuple(f"condition_{c}" for c in _LETTERS if f"condition_{c}" in fields)
    if len(lettered) > 1:
        return lettered
    for stem in _NUMBERED:
        found = [f for f in fields if re.fullmatch(rf"{stem}_[1-9]\d?", f)]
        if len(found) > 1:
            return tuple(sorted(found, key=lambda f: int(f.rsplit("_", 1)[1])))
    return next((pair for pair in _PAIRS if fields.issuperset(pair)), ())


def _usual_answer(fields: frozenset[str]) -> str | None:
    for column in ("is_A_selected", "selected", "response", "answer", "choice"):
        if column in fields:
            return column
    keys = [f for f in fields if f.endswith(".keys")]
    return keys[0] if len(keys) == 1 else None


def _task(layout: Layout, name: str) -> Task:
    if layout.ranks:
        return "rank-of-n"
    if len(layout.items) == 2:
        return "2afc"
    raise FormatError(
        f"{len(layout.items)} items were shown and one was chosen, which means different things "
        "in different studies",
        name,
        remedy=f"say what people were asked with task=…: {_TASKS}",
    )


def _check_task(task: Task, layout: Layout, name: str) -> None:
    n = len(layout.items)
    if task in ("2afc", "2afc-tie") and n != 2:
        raise UsageError(
            f"task is {task!r}, but {name} has {n} items a row: {', '.join(layout.items)}; "
            f"name two with items=COLUMN,COLUMN, or choose from {_TASKS}"
        )
    if task == "rank-of-n" and not layout.ranks:
        raise UsageError(
            "task is 'rank-of-n', but no ranks are there; name them with ranks=COLUMN,…"
        )
    if task != "rank-of-n" and layout.answer is None:
        raise UsageError(f"task is {task!r}, but no answer is there; name it with answer=COLUMN")


def _clock(
    fields: frozenset[str], layout: Layout, time: str | None, unit: Unit | None
) -> tuple[str, float] | Note | None:
    """The column of the reaction time and how many make a second."""
    usual: dict[str, Unit] = {"time_s": "s", "rt_s": "s", "time_ms": "ms", "rt_ms": "ms"}
    if "trial_index" in fields:
        usual["rt"] = "ms"
    if layout.answer and layout.answer.endswith(".keys"):
        usual[layout.answer.removesuffix(".keys") + ".rt"] = "s"
    column = time or next((c for c in usual if c in fields), "rt" if "rt" in fields else None)
    if column is None:
        return None
    unit = unit or usual.get(column)
    if unit is None:
        return Note(
            f"the reaction times in {column!r} are not used, because their unit is not known; "
            "say time_unit=s or time_unit=ms"
        )
    return column, 1000.0 if unit == "ms" else 1.0


def _records(
    found: Iterator[tuple[Place, Row]],
    layout: Layout,
    task: Task,
    people: Sequence[str],
    clock: tuple[str, float] | Note | None,
) -> Iterator[Comparison | Skipped | Note]:
    if isinstance(clock, Note):
        yield clock
        clock = None
    pivot = () if layout.pivot is None or layout.pivot in layout.items else (layout.pivot,)
    used = {*layout.items, layout.answer or "", *layout.ranks, *people}
    used |= set() if clock is None else {clock[0]}
    used -= set(pivot)
    for place, row in found:
        trial = pairs(row, layout, task, place)
        if isinstance(trial, Skipped):
            yield trial
            continue
        key, who, tagged = line_key(place), rater(row, people), tags(row, used)
        time_s = _seconds(row, clock)
        for i, pair in enumerate(trial):
            yield Comparison(
                f"{key}/{i}" if pair.in_slate else key,
                who,
                pair.left,
                pair.right,
                pair.outcome,
                pair.weight,
                slate=key if pair.in_slate else None,
                # One answer took one time, however many pairs it is broken into.
                time_s=None if i else time_s,
                tags=tagged,
            )


def _seconds(row: Row, clock: tuple[str, float] | None) -> float | None:
    found = None if clock is None else number(row.get(clock[0]))
    return None if clock is None or found is None or found < 0 else found / clock[1]
