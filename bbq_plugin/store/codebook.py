"""Item and rater names with their numbers, the same in memory and in the tables."""

from __future__ import annotations

import sqlite3
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from bbq_plugin.data.coding import RaterCodes, RawCodes
from bbq_plugin.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class Codebook:
    """Codes count from 0 in order of first appearance; the id in the table is one more."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.items = RawCodes("item")
        self.raters = RaterCodes("rater")
        self._written: dict[str, int] = {}
        for table, codes in (("item", self.items), ("rater", self.raters)):
            names = db.execute(f"SELECT id, name FROM {table} ORDER BY id")  # noqa: S608 (constants)
            for id_, name in names:
                if codes[name] != id_ - 1:
                    raise StoreError(
                        f"the {table}s of the store are not numbered in order; it is damaged: "
                        "restore a backup, or read the exports into a new store"
                    )
            self._written[table] = len(codes.codes.code)

    def mark(self) -> tuple[int, ...]:
        """How much is known now, for `back_to`."""
        both = (self.items, self.raters)
        sizes = [n for codes in both for n in (len(codes), len(codes.codes.code))]
        return (*sizes, *self._written.values())

    def back_to(self, mark: tuple[int, ...]) -> None:
        """Forget what was added since; dictionaries keep the order in which they were filled."""
        both = (self.items, self.items.codes.code, self.raters, self.raters.codes.code)
        for known, n in zip(both, mark, strict=False):
            while len(known) > n:
                known.popitem()
        self._written = dict(zip(self._written, mark[len(both) :], strict=True))

    def write(self, db: sqlite3.Connection) -> None:
        """Put new names into the tables."""
        for table, codes in (("item", self.items), ("rater", self.raters)):
            known, n = self._written[table], len(codes.codes.code)
            if n > known:
                new = islice(codes.codes.code.items(), known, None)
                db.executemany(
                    f"INSERT INTO {table} (id, name) VALUES (?, ?)",  # noqa: S608 (constants)
                    ((code + 1, name) for name, code in new),
                )
                self._written[table] = n

    def item_codes(self, column: Sequence[Any], n: int) -> NDArray[np.int32]:
        """The codes of a column of names."""
        return np.fromiter(map(self.items.__getitem__, column), dtype=np.int32, count=n)

    def rater_codes(self, column: Sequence[Any] | None, n: int) -> NDArray[np.int32]:
        """The same for raters; -1 for none."""
        if column is None:
            return np.full(n, -1, dtype=np.int32)
        return np.fromiter(map(self.raters.__getitem__, column), dtype=np.int32, count=n)
