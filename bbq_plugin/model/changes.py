"""Triples that change: a base sorted by rater, changes on top of it, and the rows they touch.

What a change costs depends on the rater it belongs to, not on the number of raters or rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.aggregate import Triples
from bbq_plugin.errors import DataError
from bbq_plugin.model import kernels_streaming as kernels
from bbq_plugin.model.objective import Floats

__all__ = ["Changes", "Codes", "grown"]

Codes = NDArray[np.int64]
Ints = NDArray[np.int32]

# Times the largest sum ever held: what rounding may leave of weights that were all taken back.
ZERO = 1e-13


def grown(array: NDArray[np.generic], used: int, need: int, fill: float) -> NDArray[np.generic]:
    """The same array, or a copy of its first ``used`` with room for ``need`` and as many again."""
    if need <= array.shape[0]:
        return array
    wider = np.full((2 * need, *array.shape[1:]), fill, dtype=array.dtype)
    wider[:used] = array[:used]
    return wider


class Changes:
    """The current triples of every rater: rows in the base or the tail, plus a list of changes."""

    def __init__(self, triples: Triples) -> None:
        self.largest = float(np.max(triples.weight, initial=0.0))
        self.rest_on(triples)

    def rest_on(self, triples: Triples) -> None:
        """Make these triples the base, with nothing on top of it."""
        self.base = triples
        self.n_raters, self.n_items = triples.n_raters, triples.n_items
        self.low, self.high = triples.start[:-1].copy(), triples.start[1:].copy()
        self.moved = np.zeros(self.n_raters, dtype=np.bool_)
        self.head = np.full(self.n_raters, -1, dtype=np.int64)
        self.tail = _empty_rows(0)
        self.log = _empty_rows(0)
        self.log_next: Codes = np.empty(0, dtype=np.int64)
        self.tail_size = self.log_size = 0

    @property
    def any(self) -> bool:
        """Whether anything is on top of the base."""
        same = (self.n_raters, self.n_items) == (self.base.n_raters, self.base.n_items)
        return bool(self.log_size or not same)

    def make_room(self, n_raters: int, n_items: int) -> None:
        """Append raters and items without rows."""
        used, self.n_items = self.n_raters, max(n_items, self.n_items)
        if n_raters <= used:
            return
        for name, fill in (("low", 0), ("high", 0), ("moved", False), ("head", -1)):
            setattr(self, name, grown(getattr(self, name), used, n_raters, fill))
        self.n_raters = n_raters

    def push(self, rater: Codes, winner: Ints, loser: Ints, weight: Floats) -> None:
        """Put signed changes on the lists of their raters."""
        used, need = self.log_size, self.log_size + rater.size
        self.log = _grown_rows(self.log, used, need)
        self.log_next = np.asarray(grown(self.log_next, used, need, -1), dtype=np.int64)
        kernels.push(rater, winner, loser, weight, used, self.head, *self.log, self.log_next)
        self.log_size = need

    def counts(self, raters: Codes) -> Codes:
        """How many rows each of these raters has, the lists left out."""
        return np.asarray(self.high[raters] - self.low[raters])

    def rows(self, raters: Codes) -> Triples:
        """The rows of these raters, the lists left out."""
        start = np.concatenate(([0], np.cumsum(self.counts(raters))))
        winner, loser, weight = _empty_rows(int(start[-1]))
        base = self.base
        kernels.gather(
            raters, self.low, self.high, self.moved, base.winner, base.loser, base.weight,
            *self.tail, winner, loser, weight,
        )  # fmt: skip
        return Triples(start, winner, loser, weight, self.n_items)

    def merged(self, raters: Codes, rows: Triples) -> Triples:
        """``rows`` of these raters with their lists, equal ones summed, those taken back gone."""
        length = np.empty(raters.size, dtype=np.int64)
        kernels.list_lengths(raters, self.head, self.log_next, length)
        start = np.zeros(raters.size + 1, dtype=np.int64)
        winner, loser, weight = _empty_rows(rows.size + int(length.sum()))
        bad, largest = kernels.merge(
            raters, self.head, *self.log, self.log_next, self.n_items, ZERO, self.largest,
            rows.start, rows.winner, rows.loser, rows.weight, start, winner, loser, weight,
        )  # fmt: skip
        if bad >= 0:
            raise DataError(
                f"rater {bad}: more was taken back than was ever given for a pair of items; "
                "take back a comparison once, with the weight it was added with"
            )
        self.largest = largest
        end = start[-1]
        return Triples(start, winner[:end], loser[:end], weight[:end], self.n_items)

    def settle(self, raters: Codes, triples: Triples) -> None:
        """Let the merged rows of these raters stand in the tail, their lists used up."""
        used, need = self.tail_size, self.tail_size + triples.size
        self.tail = _grown_rows(self.tail, used, need)
        winner, loser, weight = self.tail
        winner[used:need], loser[used:need] = triples.winner, triples.loser
        weight[used:need] = triples.weight
        self.low[raters] = used + triples.start[:-1]
        self.high[raters] = used + triples.start[1:]
        self.moved[raters] = True
        self.head[raters] = -1
        self.tail_size = need

    def compact(self) -> None:
        """Let the tail's rows take their place in the base once there are as many; lists stay."""
        if self.tail_size <= self.base.size:
            return
        self.base = self.rows(np.arange(self.n_raters))
        start = self.base.start
        self.low[: self.n_raters], self.high[: self.n_raters] = start[:-1], start[1:]
        self.moved[:] = False
        self.tail, self.tail_size = _empty_rows(0), 0

    def touched(self) -> Codes:
        """The raters of whom the base does not tell all."""
        used = slice(0, self.n_raters)
        new = np.arange(self.n_raters) >= self.base.n_raters
        return np.flatnonzero(self.moved[used] | (self.head[used] >= 0) | new)

    def whole(self) -> Triples:
        """All triples as they are now."""
        if not self.any:
            return self.base
        everyone = np.arange(self.n_raters)
        return self.merged(everyone, self.rows(everyone))


def _empty_rows(n: int) -> tuple[Ints, Ints, Floats]:
    return np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32), np.empty(n)


def _grown_rows(rows: tuple[Ints, Ints, Floats], used: int, need: int) -> tuple[Ints, Ints, Floats]:
    winner, loser, weight = rows
    return (
        np.asarray(grown(winner, used, need, 0), dtype=np.int32),
        np.asarray(grown(loser, used, need, 0), dtype=np.int32),
        np.asarray(grown(weight, used, need, 0.0), dtype=np.float64),
    )
