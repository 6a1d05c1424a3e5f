"""What the wins do not say of the answers they came from: side, time, order, known questions.

One entry a win, in the same order, and only what is known: ten million votes without times, in
the order in which they were given, cost one byte each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Answers",
    "answers_of",
]

_LEFT, _RIGHT, _TIE = 0, 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Columns beside the wins of `Comparisons`; None where nothing is known."""

    #: 1: the winner stood on the left, -1: on the right, 0: not side by side, a tie, or not known.
    side: NDArray[np.int8] | None
    #: How long the answer took.
    time_s: NDArray[np.float32] | None
    #: The place of the answer in time; None: the rows stand in order already.
    order: NDArray[np.int32] | None
    #: Whether that order is one of recorded times, and not only that of the rows.
    dated: bool
    #: 1: the right answer to a known question, -1: another one, 0: the question is not a known one.
    gold: NDArray[np.int8] | None
    #: 1: a ranking in the very order in which its items were shown, -1: in another one; on one of
    #: its wins, 0 on all others.
    kept: NDArray[np.int8] | None
    #: 0: a win, 1 and 2: the two halves of a tie; None: there are no ties.
    half: NDArray[np.int8] | None
    #: Of a pair of a ranking or choice: a number of its slate, one for each of a rater's; 0: shown
    #: as a pair. None: all were.
    slate: NDArray[np.int64] | None = None


def answers_of(
    columns: dict[str, NDArray[Any]],
    row: NDArray[np.int64] | None,
    half: NDArray[np.int8] | None,
    *,
    sides: bool,
) -> Answers:
    """From the columns of the answers; `row` is the answer of each win, if some have two."""
    outcome, time_s, gold, kept = (columns[name] for name in ("outcome", "time_s", "gold", "kept"))
    order, dated = _order(columns["at"])
    timed = not np.isnan(time_s).all()
    return Answers(
        side=_by_win(_side(outcome, columns["slate"]), row) if sides else None,
        time_s=_by_win(time_s.astype(np.float32), row) if timed else None,
        order=None if order is None else _by_win(order, row),
        dated=dated,
        gold=_by_win(_right(outcome, gold), row) if gold.any() else None,
        kept=_by_win(kept, row) if kept.any() else None,
        half=half,
        slate=_by_win(_slate(columns), row) if columns["slate"].any() else None,
    )


def _slate(columns: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    """The pairs of a slate have its name as their key; a store has codes for slates instead."""
    of_slate = columns["slate"] != 0
    number = columns.get("key", columns["slate"])
    return np.where(of_slate, number, 0).astype(np.int64)


def _by_win(column: NDArray[Any], row: NDArray[np.int64] | None) -> NDArray[Any]:
    return column if row is None else column[row]


def _side(outcome: NDArray[Any], slate: NDArray[Any]) -> NDArray[np.int8]:
    side = np.zeros(outcome.size, dtype=np.int8)
    side[outcome == _LEFT] = 1
    side[outcome == _RIGHT] = -1
    side[slate != 0] = 0
    return side


def _right(outcome: NDArray[Any], gold: NDArray[Any]) -> NDArray[np.int8]:
    right = np.where(gold == outcome + 1, 1, -1)
    return np.where(gold > 0, right, 0).astype(np.int8)


def _order(at: NDArray[np.float64]) -> tuple[NDArray[np.int32] | None, bool]:
    """Places in time, and whether times are known; rows without a time keep theirs."""
    if np.isnan(at[:1]).all() and np.isnan(at).all():
        return None, False
    if (at[1:] >= at[:-1]).all():
        return None, True
    place = np.empty(at.size, dtype=np.int32)
    place[np.argsort(at, kind="stable")] = np.arange(at.size, dtype=np.int32)
    return place, not np.isnan(at).any()
