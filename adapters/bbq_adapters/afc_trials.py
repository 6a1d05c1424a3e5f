"""What one trial of a forced-choice experiment says, by the task that people were given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from bbq_adapters._fields import is_name, item, number, text
from bbq_plugin.breaking import Weights, break_choice, break_ranking
from bbq_plugin.comparisons import Outcome, Skipped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bbq_adapters._rows import Place, Row

Task = Literal["2afc", "2afc-tie", "best-of-n", "rank-of-n", "triplet-ref", "oddity"]

TIMEOUT = "no answer was given"
_TIE = -1
_NOTHING = ("", "null", "none", "nan", "n/a")
_TRUE, _FALSE = ("1", "true"), ("0", "false")
_WORDS = {"left": 0, "right": 1, "tie": _TIE}


@dataclass(frozen=True, slots=True)
class Layout:
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


@dataclass(frozen=True, slots=True)
class Pair:
    """One comparison of a trial; those of a slate were not shown side by side."""

    left: str
    right: str
    outcome: Outcome
    weight: float = 1.0
    in_slate: bool = False


def pairs(row: Row, layout: Layout, task: Task, place: Place) -> list[Pair] | Skipped:
    """The comparisons that a trial stands for."""
    if all(row.get(column) is None for column in layout.items):
        return Skipped(str(place), "not a comparison (no items in this row)", expected=True)
    shown = [item(row, column, place) for column in layout.items]
    if len(set(shown)) < len(shown):
        return Skipped(str(place), "an item against itself", shown[0])
    if task == "rank-of-n":
        return _ranked(row, shown, layout, place)
    chosen = _chosen(row, shown, layout, task, place)
    if chosen is None:
        return Skipped(str(place), TIMEOUT)
    if task == "triplet-ref":
        return _triplet(shown, chosen, layout, place)
    return _choice(shown, chosen, layout) or _against_reference(place)


def _choice(shown: list[str], chosen: int, layout: Layout) -> list[Pair]:
    """What is left of a choice without the reference, which may be nothing."""
    kept = [name for name in shown if name != layout.reference]
    if len(shown) > 2 and shown[chosen] in kept and len(kept) > 1:
        wins = break_choice(shown[chosen], kept, weights=layout.weights)
        return [
            Pair(winner, loser, "left", weight, in_slate=True) for winner, loser, weight in wins
        ]
    if len(shown) > 2 or len(kept) < 2:
        return []
    outcomes: dict[int, Outcome] = {_TIE: "tie", 0: "left", 1: "right"}
    return [Pair(shown[0], shown[1], outcomes[chosen])]


def _against_reference(place: Place) -> Skipped:
    return Skipped(str(place), "against the reference, left out as asked", expected=True)


def _ranked(row: Row, shown: list[str], layout: Layout, place: Place) -> list[Pair] | Skipped:
    levels: dict[float, list[str]] = {}
    unranked = []
    for name, column in zip(shown, layout.ranks, strict=True):
        if name == layout.reference:
            continue
        value = row.get(column)
        if _is_nothing(value):
            unranked.append(name)
            continue
        rank = number(value)
        if rank is None:
            raise place.error(
                f"{column} is {str(value)[:60]!r}", value, "expected a rank, 1 for the best"
            )
        levels.setdefault(rank, []).append(name)
    if not levels:
        return Skipped(str(place), TIMEOUT)
    if len(levels) + bool(unranked) < 2:
        return Skipped(str(place), "all items have the same rank")
    wins = break_ranking(
        [levels[rank] for rank in sorted(levels)], unranked=unranked, weights=layout.weights
    )
    return [Pair(w, lo, "left", weight, in_slate=len(shown) > 2) for w, lo, weight in wins]


def _triplet(shown: list[str], chosen: int, layout: Layout, place: Place) -> list[Pair] | Skipped:
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


def _is_nothing(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING)


def _chosen(row: Row, shown: list[str], layout: Layout, task: Task, place: Place) -> int | None:
    """The index of what was chosen, _TIE, or None without an answer."""
    column = layout.answer or ""
    value = row.get(column)
    if _is_nothing(value):
        return None
    said = str(value).lower() if isinstance(value, bool) else text(value) if is_name(value) else ""
    found = _meaning(said.strip(), shown, layout)
    if found is None:
        raise place.error(
            f"{column} is {str(value)[:60]!r}", value, f"expected {_expected(shown, layout)}"
        )
    if found == len(shown) and task == "2afc-tie":
        return _TIE
    if found == _TIE and task == "2afc-tie":
        return _TIE
    if not 0 <= found < len(shown):
        hint = "if a third button means 'no difference', say task=2afc-tie"
        raise place.error(
            f"{column} is {said!r}, which is none of the {len(shown)} items", value, hint
        )
    return found


def _meaning(said: str, shown: list[str], layout: Layout) -> int | None:
    if layout.values:
        said = layout.values.get(said, "")
        if said.isdigit():
            return int(said) - 1
        return _WORDS.get(said)
    if layout.is_first:
        return 0 if said.lower() in _TRUE else 1 if said.lower() in _FALSE else None
    if said.isdigit() and len(said) < 4:
        return int(said) - layout.first
    if said in shown:
        return shown.index(said)
    return _WORDS.get(said.lower()) if len(shown) == 2 else None


def _expected(shown: list[str], layout: Layout) -> str:
    if layout.values:
        return f"one of {', '.join(map(repr, layout.values))} (the option values says so)"
    if layout.is_first:
        return "1 or 0"
    last = layout.first + len(shown) - 1
    return (
        f"a place from {layout.first} to {last}, or the name of an item; "
        "say what other answers mean with values=ANSWER=PLACE,…"
    )
