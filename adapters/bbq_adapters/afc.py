"""Forced-choice logs of psychophysics: pwcmp, jsPsych, PsychoPy and plain tables."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from bbq_adapters.json_csv_rows import columns_of, look, rows
from bbq_adapters.labels_and_item_names import beside
from bbq_adapters.row_values import (
    RATER_FIELDS,
    BrokenRow,
    Row,
    RowPlace,
    check_row,
    is_name,
    is_nothing,
    item,
    known_columns,
    line_key,
    number,
    rank_of,
    rater,
    tags,
)
from bbq_plugin.data.mappings import Reading, UnclearError
from bbq_plugin.data.rankings import (
    Pair,
    Weights,
    best_worst_pairs,
    ranked_pairs,
    slate_comparisons,
)
from bbq_plugin.data.records import AGAINST_ITSELF, Comparison, Note, Outcome, Skipped
from bbq_plugin.errors import UsageError
from bbq_plugin.text import brief, listed, name_text

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator, Mapping, Sequence

Task = Literal["2afc", "2afc-tie", "best-of-n", "rank-of-n", "triplet-ref", "oddity"]
TIMEOUT = "no answer was given"
_TIE = -1
_TRUE, _FALSE = ("1", "true"), ("0", "false")
_WORDS = {"left": 0, "right": 1, "tie": _TIE}


@dataclass(frozen=True, slots=True)
class LogLayout:
    """Where a log keeps what."""

    items: tuple[str, ...]
    answer: str | None
    ranks: tuple[str, ...] = ()
    #: The number of the first place in the answers.
    first: int = 1
    #: Whether the answer says if the first item was chosen.
    is_first: bool = False
    values: Mapping[str, str] = field(default_factory=dict)
    pivot: str | None = None
    reference: str | None = None
    weights: Weights = "information"


def pairs(row: Row, layout: LogLayout, task: Task, place: RowPlace) -> list[Pair] | Skipped:
    """The comparisons that a trial stands for."""
    check_row(row, place)
    if all(row.get(column) is None for column in layout.items):
        return Skipped(str(place), "not a comparison (no items in this row)", expected=True)
    shown = [item(row, column, place) for column in layout.items]
    if len(set(shown)) < len(shown):
        return Skipped(str(place), AGAINST_ITSELF, shown[0])
    if task == "rank-of-n":
        return _ranked(row, shown, layout, place)
    chosen = _chosen(row, shown, layout, task, place)
    if chosen is None:
        return Skipped(str(place), TIMEOUT)
    if task == "triplet-ref":
        return _triplet(shown, chosen, layout, place)
    return _choice(shown, chosen, layout) or _against_reference(place)


def _choice(shown: list[str], chosen: int, layout: LogLayout) -> list[Pair]:
    """What is left of a choice without the reference, which may be nothing."""
    kept = [name for name in shown if name != layout.reference]
    if len(shown) > 2 and shown[chosen] in kept and len(kept) > 1:
        return best_worst_pairs(shown[chosen], None, kept, layout.weights)
    if len(shown) > 2 or len(kept) < 2:
        return []
    outcomes: dict[int, Outcome] = {_TIE: "tie", 0: "left", 1: "right"}
    return [Pair(shown[0], shown[1], outcomes[chosen])]


def _against_reference(place: RowPlace) -> Skipped:
    return Skipped(str(place), "against the reference, left out as asked", expected=True)


def _ranked(row: Row, shown: list[str], layout: LogLayout, place: RowPlace) -> list[Pair] | Skipped:
    ranks: list[tuple[str, float]] = []
    unranked = []
    for name, column in zip(shown, layout.ranks, strict=True):
        if name == layout.reference:
            continue
        rank = rank_of(row.get(column), column, place)
        if rank is None:
            unranked.append(name)
        else:
            ranks.append((name, rank))
    if not ranks:
        return Skipped(str(place), TIMEOUT)
    if len(ranks) + len(unranked) < 2:
        return _against_reference(place)
    return ranked_pairs(ranks, unranked, layout.weights)


def _triplet(
    shown: list[str], chosen: int, layout: LogLayout, place: RowPlace
) -> list[Pair] | Skipped:
    """Of two, the one that differs more from the pivot loses."""
    two = list(range(len(shown)))
    if len(shown) == 3:
        pivot = layout.items.index(layout.pivot) if layout.pivot in layout.items else 0
        two.remove(pivot)
        if chosen == pivot:
            raise place.error(
                "the pivot itself was chosen",
                shown[pivot],
                "say which column is the pivot with pivot=COLUMN",
            )
    if chosen not in two or len(two) != 2:
        raise place.error(
            "a triplet is a pivot and two items", shown, "name the two with items=COLUMN,COLUMN"
        )
    left, right = (shown[i] for i in two)
    if layout.reference in (left, right):
        return _against_reference(place)
    return [Pair(left, right, "right" if chosen == two[0] else "left")]


def _chosen(
    row: Row, shown: list[str], layout: LogLayout, task: Task, place: RowPlace
) -> int | None:
    """The index of what was chosen, _TIE, or None without an answer."""
    column = layout.answer or ""
    value = row.get(column)
    if is_nothing(value):
        return None
    said = name_text(value) if is_name(value) else ""
    if isinstance(value, bool):
        said = str(value).lower()
    found = _meaning(said.strip(), shown, layout)
    if found is None:
        raise place.unknown(
            f"{column} is {brief(value)}", value, f"expected {_expected(shown, layout)}"
        )
    if task == "2afc-tie" and found in (_TIE, len(shown)):
        return _TIE
    if not 0 <= found < len(shown):
        hint = "if a third button means 'no difference', say task=2afc-tie"
        raise place.unknown(
            f"{column} is {said!r}, which is none of the {len(shown)} items", value, hint
        )
    return found


def _meaning(said: str, shown: list[str], layout: LogLayout) -> int | None:
    if layout.values:
        said = layout.values.get(said, "")
        return int(said) - 1 if said.isdigit() else _WORDS.get(said)
    if layout.is_first:
        return 0 if said.lower() in _TRUE else 1 if said.lower() in _FALSE else None
    if said.isdigit() and len(said) < 4:
        return int(said) - layout.first
    if said in shown:
        return shown.index(said)
    return _WORDS.get(said.lower()) if len(shown) == 2 else None


def _expected(shown: list[str], layout: LogLayout) -> str:
    if layout.values:
        return f"one of {', '.join(map(repr, layout.values))} (the option values says so)"
    if layout.is_first:
        return "1 or 0"
    last = layout.first + len(shown) - 1
    what = "place" if layout.first else "button"
    return (
        f"a {what} from {layout.first} to {last}, or the name of an item; "
        "say what other answers mean with values=ANSWER=PLACE,…, where places count from 1"
    )


Unit = Literal["s", "ms"]
_HEAD = 64 * 1024
_LETTERS = "ABCDEFGH"
_PAIRS = (("left", "right"), ("stimulus_left", "stimulus_right"), ("item_left", "item_right"))
_NUMBERED = ("condition", "item", "stimulus")

_PEOPLE = (
    *RATER_FIELDS, "subject_id", "participant_id", "PROLIFIC_PID", "prolific_id", "worker_id",
)  # fmt: skip

_ANSWERS = ("is_A_selected", "selected", "response", "answer", "choice")
_TASKS = "best-of-n, triplet-ref, rank-of-n (or 2afc-tie with two items)"

_ODDITY = (
    "task is 'oddity': the odd one out tells which items differ, not which is better, so no "
    "ranking follows from it; if people chose the best, say task=best-of-n"
)


class AfcAdapter:
    """Forced choices: pwcmp, jsPsych, PsychoPy, and plain tables of 2AFC, 3AFC and rankings."""

    name = "afc"
    option_help = {  # noqa: RUF012 - read by plugins, never written
        "task": "the question that the raters were asked",
        "items": "columns of the items shown, in the order of their places",
        "answer": "column of the choice",
        "ranks": "columns of the ranks, one for each of items",
        "values": "what an answer means: a place from 1, left, right or tie",
        "rater": "column of the rater",
        "time": "column of the reaction time",
        "time_unit": "unit of the reaction time",
        "pivot": "triplet-ref: column of the item with which the two others are compared",
        "reference": "an item whose comparisons are left out; without it all items count",
        "weights": "weight of the pairs of a slate",
    }

    def sniff(self, head: bytes, name: str) -> str | None:  # noqa: ARG002 - the content decides
        """By `condition_A`, `condition_1` …, or the fields of jsPsych or PsychoPy."""
        fields = look(head).fields
        if _usual_items(fields) and _usual_answer(fields) and _asks_more(head):
            return None
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
        given = LogLayout(
            tuple(items), answer, tuple(ranks), values=values or {}, pivot=pivot,
            reference=reference, weights=weights,
        )  # fmt: skip
        layout = _completed(given, fields, name)
        what = task or _task(layout, name)
        _check_task(what, layout, name)
        people = _PEOPLE if rater is None else (rater,)
        clock = _clock(fields, layout, time, time_unit)
        return _records(rows(stream, name), layout, what, people, clock)


def _asks_more(head: bytes) -> bool:
    """Whether a column beside the answers may change what they mean."""
    return any(
        beside(field, cells) is not None
        for field, cells in columns_of(head).items()
        if field not in _ANSWERS
    )


def _completed(given: LogLayout, fields: frozenset[str], name: str) -> LogLayout:
    """What was not said is taken from columns that are called so."""
    items = given.items or _usual_items(fields)
    if len(items) < 2:
        raise UnclearError(
            "cannot tell which columns hold the items; name them with items=COLUMN,COLUMN; there "
            f"are: {listed(sorted(fields), 40)}",
            name,
        )
    usual = tuple(f"rank_{i}" for i in range(1, len(items) + 1))
    ranks = given.ranks or (usual if fields.issuperset(usual) else ())
    if ranks and len(ranks) != len(items):
        raise UsageError(f"there are {len(items)} columns of items and {len(ranks)} of ranks")
    answer = given.answer or _usual_answer(fields)
    if answer is None and not ranks:
        raise UnclearError(
            "cannot tell which column holds the answer; name it with answer=COLUMN; there are: "
            f"{listed(sorted(fields), 40)}",
            name,
        )
    first = 0 if answer == "response" and "trial_index" in fields else 1
    is_first = answer == "is_A_selected"
    return replace(given, items=items, answer=answer, ranks=ranks, first=first, is_first=is_first)


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
    keys = [f for f in fields if f.endswith(".keys")]
    return next((c for c in _ANSWERS if c in fields), keys[0] if len(keys) == 1 else None)


def _task(layout: LogLayout, name: str) -> Task:
    if layout.ranks:
        return "rank-of-n"
    if len(layout.items) == 2:
        return "2afc"
    raise UnclearError(
        f"{len(layout.items)} items were shown and one was chosen, which means different things "
        f"in different studies; say what people were asked with task=…: {_TASKS}",
        name,
        [
            Reading("afc", {"task": "best-of-n"}, "likely", "the best of those shown"),
            Reading(
                "afc", {"task": "triplet-ref"}, "possible", "the one that differs more",
                difference="the chosen one differs more from a reference",
            ),
        ],
    )  # fmt: skip


def _check_task(task: Task, layout: LogLayout, name: str) -> None:
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
    fields: frozenset[str], layout: LogLayout, time: str | None, unit: Unit | None
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
    found: Iterator[tuple[RowPlace, Row]],
    layout: LogLayout,
    task: Task,
    people: Sequence[str],
    clock: tuple[str, float] | Note | None,
) -> Iterator[Comparison | Skipped | Note]:
    if isinstance(clock, Note):
        yield clock
        clock = None
    pivot = () if layout.pivot is None or layout.pivot in layout.items else (layout.pivot,)
    used = {*layout.items, layout.answer or "", *layout.ranks, *people, clock[0] if clock else ""}
    used -= set(pivot)
    for place, row in found:
        try:
            trial = pairs(row, layout, task, place)
        except BrokenRow as broken:
            yield broken.skipped(place)
            continue
        if isinstance(trial, Skipped):
            yield trial
            continue
        key, who, tagged = line_key(place), rater(row, people), tags(row, used)
        time_s = _seconds(row, clock)
        yield from slate_comparisons(trial, key, who, time_s=time_s, tags=tagged)


def _seconds(row: Row, clock: tuple[str, float] | None) -> float | None:
    found = None if clock is None else number(row.get(clock[0]))
    return None if clock is None or found is None or found < 0 else found / clock[1]
