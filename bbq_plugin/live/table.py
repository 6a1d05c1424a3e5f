"""All answers in memory as columns: what the engine counts, and what a report is made of."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from bbq_plugin._gather import UNRATED
from bbq_plugin._wins import RIGHT, TIE, wins_of
from bbq_plugin.comparisons import Comparisons, Source
from bbq_plugin.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from bbq_plugin.live.store import Change, Entry
    from bbq_plugin.live.store.changes import Columns

__all__ = ["Table", "View", "signed_wins"]

_NEVER = np.iinfo(np.int32).max
# Rows that are gone are kept until they are so many, and so large a share.
_MOST_DEAD_ROWS = 100_000
_MOST_DEAD = 0.5


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """The answers as they were at one moment, whatever has come since."""

    columns: Columns
    died: NDArray[np.int32]
    n: int
    moment: int

    def alive(self) -> Columns:
        """Those that count."""
        stays = self.died[: self.n] > self.moment
        if stays.all():
            # Rows are only ever added behind these: no copy is needed.
            return {name: column[: self.n] for name, column in self.columns.items()}
        return {name: column[: self.n][stays] for name, column in self.columns.items()}


class Table:
    """Grows at its end; an answer that is taken back is marked with the moment."""

    def __init__(self, columns: Columns) -> None:
        self._start(columns)
        self._moment = 0

    def _start(self, columns: Columns) -> None:
        self.n = int(columns["id"].size)
        self._columns = dict(columns)
        self._died: NDArray[np.int32] = np.full(self.n, _NEVER, dtype=np.int32)
        self._n_dead = 0

    def apply(self, change: Change) -> Columns:
        """Take a change over; the answers that went, as they were."""
        self._moment += 1
        ids = self._columns["id"][: self.n]
        rows = np.searchsorted(ids, change.removed)
        if not np.array_equal(ids[rows[rows < self.n]], change.removed):
            raise DataError("a change takes back answers that are not here")
        self._died[rows] = self._moment
        self._n_dead += rows.size
        gone = {name: column[rows] for name, column in self._columns.items()}
        self._append(change.added)
        if self._n_dead > max(_MOST_DEAD_ROWS, _MOST_DEAD * self.n):
            # Views keep the old arrays.
            self._start(self.view().alive())
        return gone

    def _append(self, added: Columns) -> None:
        n = self.n + int(added["id"].size)
        if n > self._died.size:
            room = max(n, int(1.5 * self._died.size), 1024)
            # A new dictionary, because views have the old one; one column after the other, so that
            # without views no more than one of them is there twice.
            self._columns = dict(self._columns)
            for name in self._columns:
                self._columns[name] = _grown(self._columns[name], self.n, room)
            self._died = _grown(self._died, self.n, room)
        for name, column in self._columns.items():
            column[self.n : n] = added[name]
        self._died[self.n : n] = _NEVER
        self.n = n

    def view(self) -> View:
        """The answers as they are now."""
        return View(self._columns, self._died, self.n, self._moment)


def _grown(column: NDArray[Any], n: int, room: int) -> NDArray[Any]:
    out = np.empty(room, dtype=column.dtype)
    out[:n] = column[:n]
    return out


def comparisons_of(
    columns: Columns, items: tuple[str, ...], raters: tuple[str, ...], entries: Iterable[Entry] = ()
) -> Comparisons:
    """The answers as `bbq.read` would have given them."""
    rated = columns["rater"] >= 0
    keep: NDArray[np.bool_] = np.ones(rated.size, dtype=np.bool_)
    reasons: dict[str, int] = {}
    sources, warnings = [], dict[str, None]()
    for entry in entries:
        for reason, n in entry.skipped.items():
            reasons[reason] = reasons.get(reason, 0) + n
        warnings |= dict.fromkeys(entry.notes)
        if entry.status != "copy":
            n = entry.n_rows - entry.n_skipped
            sources.append(
                Source(
                    entry.name or entry.kind, entry.adapter or "", entry.why or "", n,
                    entry.n_skipped, entry.sha256 or "",
                )
            )  # fmt: skip
    if rated.any() and not rated.all():
        keep = rated
        reasons[UNRATED] = reasons.get(UNRATED, 0) + int((~rated).sum())
    if not keep.size:
        raise DataError("there are no comparisons in the store yet; add some")
    return Comparisons(
        **wins_of(columns, keep, items, raters),
        skip_reasons=MappingProxyType(reasons),
        sources=tuple(sources),
        warnings=tuple(warnings),
    )


def signed_wins(
    columns: Columns, sign: float
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """Rater, winner, loser and signed weight of answers; a tie is half a win each way."""
    outcome, left, right = columns["outcome"], columns["left"], columns["right"]
    tied = outcome >= TIE
    first = outcome != RIGHT
    winner, loser = np.where(first, left, right), np.where(first, right, left)
    weight = sign * np.where(tied, 0.5, 1.0) * columns["weight"]
    return (
        np.concatenate((columns["rater"], columns["rater"][tied])),
        np.concatenate((winner, right[tied])),
        np.concatenate((loser, left[tied])),
        np.concatenate((weight, weight[tied])),
    )
