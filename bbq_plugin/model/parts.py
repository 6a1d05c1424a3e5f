"""Raters in several parts: what a fit asks of data that one machine does not hold.

A pass over the data is a function of one part; its results are added up. An in-memory fit calls it
once, an engine on every part. The order in which results are added is fixed, so that a fit is the
same to the last bit wherever its parts were computed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from bbq_plugin.data.triples import Triples

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some raters with all their wins; ``first`` is the place of the first among all raters.

    An ``empty`` part has no raters, and its triples one who does not count.
    """

    triples: Triples
    first: int
    empty: bool = False


class Parts(ABC):
    """The wins of all raters, in parts; in a model it stands where `Triples` do."""

    n_items: int
    n_raters: int
    size: int

    @abstractmethod
    def each(self, work: Callable[..., T], *args: Any) -> list[T]:
        """``work(part, *args)`` of every part, in their order."""

    @abstractmethod
    def summed(self, work: Callable[..., T], *args: Any) -> T:
        """The sum of ``work(part, *args)`` over all parts; each is a tuple of numbers and arrays.

        Neighbours are added first, then their sums: `added_up` says how.
        """

    def without_raters(self) -> Triples:
        """The same wins as if one rater had made them all."""
        (table,) = self.summed(_by_pair)
        winner, loser = np.nonzero(table)
        start = np.array([0, winner.size])
        codes = winner.astype(np.int32), loser.astype(np.int32)
        return Triples(start, *codes, np.asarray(table[winner, loser]), self.n_items)


class Blocks(Parts):
    """The raters of one machine in blocks, where a pass cannot hold what it needs of all."""

    def __init__(self, triples: Triples, n_raters: int) -> None:
        """``n_raters``: of a block."""
        self.triples, self._step = triples, max(1, n_raters)
        self.n_items, self.n_raters, self.size = triples.n_items, triples.n_raters, triples.size

    def each(self, work: Callable[..., T], *args: Any) -> list[T]:
        """``work(part, *args)`` of every block."""
        firsts = range(0, self.n_raters, self._step)
        return [work(self._block(first), *args) for first in firsts]

    def summed(self, work: Callable[..., T], *args: Any) -> T:
        """The sum over all blocks."""
        return cast("T", added_up(self.each(work, *args)))

    def without_raters(self) -> Triples:
        """The same wins as if one rater had made them all."""
        return self.triples.without_raters()

    def _block(self, first: int) -> Part:
        t = self.triples
        start = t.start[first : first + self._step + 1]
        at = slice(int(start[0]), int(start[-1]))
        codes = t.winner[at], t.loser[at]
        return Part(Triples(start - start[0], *codes, t.weight[at], t.n_items), first)


def _by_pair(part: Part) -> tuple[Any]:
    t = part.triples
    cell = t.winner.astype(np.int64) * t.n_items + t.loser
    return (np.bincount(cell, t.weight, t.n_items**2).reshape(t.n_items, t.n_items),)


def added(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    """Two results, added number by number; an empty one is that of a part without raters."""
    if not first or not second:
        return first or second
    return tuple(a + b for a, b in zip(first, second, strict=True))


def added_up(found: list[Any], add: Callable[[Any, Any], Any] = added) -> Any:
    """All results by a tree: neighbours first, whatever finished first."""
    while len(found) > 1:
        pairs = [found[i : i + 2] for i in range(0, len(found), 2)]
        found = [add(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return found[0]
