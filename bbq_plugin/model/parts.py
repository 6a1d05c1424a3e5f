"""Raters in several parts: what a fit asks of data that one machine does not hold.

A pass over the data is a function of one part; its results are added up. An in-memory fit calls it
once, an engine on every part. The order in which results are added is fixed, so that a fit is the
same to the last bit wherever its parts were computed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from bbq_plugin.data.triples import Triples

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some raters with all their wins; ``first`` is the place of the first among all raters."""

    triples: Triples
    first: int


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
