"""Rows that are one answer: copies of it, and the pairs of a ranking.

Where a rater is known, rows under one identifier or of one moment are

- copies, if rater, items and outcome are the same too: an answer that was stored again;
- a ranking, if they hold every pair of three items or more once, in one order.

A moment that is coarse (a day) holds many answers of a rater. So it tells answers apart only where
most of a rater's rows of one moment are copies or rankings; the same goes for identifiers, which
may be those of a question.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.data.rankings import information_weight
from bbq_plugin.errors import UsageError
from bbq_plugin.text import counted

if TYPE_CHECKING:
    from bbq_plugin.data.dataset import Comparisons


Codes = NDArray[np.int64]
#: What to do with rows that are one answer: count all of them, or make them one.
Treatment = Literal["keep", "merge"]


@dataclass(frozen=True, slots=True, eq=False)
class Repeats:
    """The answer that each row of a data set belongs to, counted from 0, and what was found.

    The two halves of a tie are one answer, and so are the pairs of a slate. ``n_rows`` rows of
    what people answered are ``n_copied`` answers that were stored again; ``rank_size`` is, by row,
    the number of items of a ranking that was recognised, and 0 in other rows.
    """

    answer: Codes
    n_rows: int
    n_copied: int
    n_rankings: int
    rank_size: Codes
    merged: bool = False

    def __bool__(self) -> bool:
        return self.n_rows > 0 or self.n_rankings > 0

    @property
    def n(self) -> int:
        """How many answers there are."""
        return int(self.answer.max()) + 1 if self.answer.size else 0

    def note(self) -> str:
        """What a reader should know of it; empty if there is nothing."""
        found = []
        if self.n_rows:
            answers = counted(self.n_copied, "answer")
            found.append(f"{self.n_rows:,} rows are {answers} stored again (same rater and items)")
        if self.n_rankings:
            found.append(f"{counted(self.n_rankings, 'ranking')} came as single pairs")
        if not found:
            return ""
        if self.merged:
            return f"{'; '.join(found)}: each answer counts once, as asked"
        return (
            f"{'; '.join(found)}: ratings count every row, intervals and verdicts each answer "
            "once; with repeats=merge (--repeats merge) each counts once everywhere"
        )


def checked_repeats(repeats: str) -> Treatment:
    """One of the two treatments."""
    if repeats not in get_args(Treatment):
        raise UsageError(f"repeats={repeats!r}: expected keep or merge")
    return cast("Treatment", repeats)


def repeats_of(data: Comparisons) -> Repeats:
    """Look for rows that are one answer; without raters or answers there are none to be found."""
    n, known = data.winner.size, data.answers
    if known is None:
        return Repeats(np.empty(0, np.int64), 0, 0, 0, np.empty(0, np.int64))
    second = np.zeros(n, dtype=np.bool_) if known.half is None else known.half == 2
    base = np.flatnonzero(~second)
    of_base = np.cumsum(~second) - 1
    link = np.arange(base.size)
    rank_size = np.zeros(base.size, dtype=np.int64)
    copied = np.zeros(base.size, dtype=np.bool_)
    in_slate = np.zeros(base.size, dtype=np.bool_)
    if known.slate is not None:
        in_slate = known.slate[base] != 0
    for stamp in (known.key, known.at):
        if stamp is not None:
            _look(data, base, stamp[base], in_slate, link, rank_size, copied)
    if known.slate is not None and in_slate.any():
        inside = np.flatnonzero(in_slate)
        same = _runs(data.rater[base[inside]], known.slate[base[inside]])
        link[inside] = inside[_first_of(same)]
    _, answer = np.unique(link, return_inverse=True)
    n_rows, n_copied = int(copied.sum()), int(np.unique(link[copied]).size)
    n_rankings = int(np.unique(link[rank_size > 0]).size)
    return Repeats(
        np.asarray(answer, dtype=np.int64).ravel()[of_base], n_rows, n_copied, n_rankings,
        rank_size[of_base],
    )  # fmt: skip


def merged_weights(data: Comparisons, found: Repeats) -> NDArray[np.float64]:
    """Weights with which the copies of an answer count as one, and a ranking as a ranking does."""
    k = np.int64(data.n_items)
    pair = (found.answer * k + data.winner) * k + data.loser
    _, at, copies = np.unique(pair, return_inverse=True, return_counts=True)
    weight = data.weight / copies[at.ravel()]
    for size in np.unique(found.rank_size[found.rank_size > 0]).tolist():
        weight[found.rank_size == size] *= information_weight([1] * size)
    return np.asarray(weight, dtype=np.float64)


def _look(
    data: Comparisons, base: Codes, stamp: NDArray[Any], known: NDArray[np.bool_], link: Codes,
    rank_size: Codes, copied: NDArray[np.bool_],
) -> None:  # fmt: skip
    """Link the rows of one rater and stamp that are copies or a ranking to the first of them.

    Of those that are ``known`` to be of a slate nothing is left to be found.
    """
    stamped = ~np.isnan(stamp) if stamp.dtype.kind == "f" else stamp != 0
    told = np.flatnonzero(stamped & ~known)
    in_order = (
        told if np.all(stamp[told][1:] >= stamp[told][:-1]) else told[np.argsort(stamp[told])]
    )
    again = stamp[in_order][1:] == stamp[in_order][:-1]
    # Most files have no two rows of one moment: this is all that they cost.
    near = np.zeros(in_order.size, dtype=np.bool_)
    near[1:] |= again
    near[:-1] |= again
    some = np.sort(in_order[near])
    if not some.size:
        return
    rows, k = base[some], np.int64(data.n_items)
    group = _runs(data.rater[rows], stamp[some])
    size = np.bincount(group)
    some, rows, group = (part[size[group] > 1] for part in (some, rows, group))
    if not some.size:
        return
    _, group = np.unique(group, return_inverse=True)
    group = group.ravel()
    tied = np.zeros(rows.size, dtype=np.bool_)
    if data.answers is not None and data.answers.half is not None:
        tied = data.answers.half[rows] == 1
    winner, loser = data.winner[rows].astype(np.int64), data.loser[rows].astype(np.int64)
    swap = tied & (winner > loser)
    winner, loser = np.where(swap, loser, winner), np.where(swap, winner, loser)
    same = _runs(group, (winner * k + loser) * 2 + tied)
    first = _first_of(same)
    is_copy = first != np.arange(rows.size)
    once = ~is_copy
    ranked = _rankings(group[once], winner[once], loser[once], tied[once], k)
    n_pairs = np.bincount(group[once], minlength=int(group.max()) + 1)
    # A moment of several answers that are neither: it tells nothing apart.
    other = (n_pairs > 1) & (ranked == 0)
    if other.sum() > (n_pairs.size - other.sum()):
        return
    good = ~other[group]
    link[some[good]] = link[some[first[good]]]
    rank_size[some[good]] = ranked[group[good]]
    in_ranking = good & (ranked[group] > 0)
    _, start = np.unique(group, return_index=True)
    link[some[in_ranking]] = link[some[start[group[in_ranking]]]]
    # All rows of an answer that was stored again, its first one included.
    n_same = np.bincount(first, minlength=rows.size)
    copied[some[good & (n_same[first] > 1)]] = True


def _rankings(
    group: Codes, winner: Codes, loser: Codes, tied: NDArray[np.bool_], k: np.int64
) -> Codes:
    """By group, the number of items that its rows rank in full; 0 where they do not."""
    n_groups = int(group.max()) + 1
    rows = np.bincount(group, minlength=n_groups)
    item, at = np.unique(
        np.concatenate((group * k + winner, group * k + loser)), return_inverse=True
    )
    wins = np.bincount(at.ravel()[: group.size], minlength=item.size).astype(np.int64)
    owner = item // k
    m = np.bincount(owner, minlength=n_groups)
    squares = np.bincount(owner, wins**2, n_groups)
    low, high = np.minimum(winner, loser), np.maximum(winner, loser)
    pairs = np.unique((group * k + low) * k + high)
    distinct = np.bincount(pairs // (k * k), minlength=n_groups)
    full = (m >= 3) & (rows == m * (m - 1) // 2) & (distinct == rows)
    # Wins of m - 1, m - 2, …, 0: of all tournaments only one in order has these squares.
    in_order = squares == (m - 1) * m * (2 * m - 1) // 6
    no_tie = np.bincount(group, tied, n_groups) == 0
    return np.where(full & in_order & no_tie, m, 0).astype(np.int64)


def _runs(*columns: NDArray[Any]) -> Codes:
    """A number for each distinct row of these columns."""
    order = np.lexsort(columns)
    new = np.zeros(order.size, dtype=np.bool_)
    for column in columns:
        new[1:] |= column[order][1:] != column[order][:-1]
    out = np.empty(order.size, dtype=np.int64)
    out[order] = np.cumsum(new)
    return out


def _first_of(group: Codes) -> Codes:
    """The first row of each row's group."""
    _, first, at = np.unique(group, return_index=True, return_inverse=True)
    return np.asarray(first[at.ravel()], dtype=np.int64)
