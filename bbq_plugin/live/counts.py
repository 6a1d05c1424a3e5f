"""How many answers count, and of which items: kept up to date with every change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bbq_plugin.live.store.changes import Columns


class Counts:
    """Answers without a rater count only as long as there are no others."""

    def __init__(self, columns: Columns) -> None:
        self._n = [0, 0]
        self._items: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64) for _ in range(2)]
        self.add(columns, 1)

    def add(self, columns: Columns, sign: int) -> None:
        """Answers that came (1) or went (-1)."""
        rated = columns["rater"] >= 0
        for kind, mine in enumerate((~rated, rated)):
            both = np.concatenate((columns["left"][mine], columns["right"][mine]))
            self._n[kind] += sign * (both.size // 2)
            old = self._items[kind]
            new = np.bincount(both, minlength=old.size).astype(np.int64) * sign
            new[: old.size] += old
            self._items[kind] = new

    @property
    def rated(self) -> bool:
        """Whether any rater is known."""
        return self._n[1] > 0

    @property
    def n(self) -> int:
        """How many answers count."""
        return self._n[self.rated]

    def items(self) -> NDArray[np.int64]:
        """The codes of the items that were compared, ascending."""
        return np.flatnonzero(self._items[self.rated])

    def counted(self, columns: Columns) -> Columns:
        """Those answers that count; nobody has code 0 where no rater is known."""
        if not self.rated:
            return columns | {"rater": np.zeros(columns["rater"].size, dtype=np.int32)}
        keep: NDArray[Any] = columns["rater"] >= 0
        if keep.all():
            return columns
        return {name: column[keep] for name, column in columns.items()}
