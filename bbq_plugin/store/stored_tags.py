"""The tags of stored answers that answers may be clustered by, as columns of codes."""

from __future__ import annotations

import threading
from array import array
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from bbq_plugin.data.dataset_builder import TagColumns
from bbq_plugin.data.records import is_subject

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

# Whether a store has such tags at all is seen by its first and its last answers with any.
_LOOKED_AT = 100
_ENDS = (
    "SELECT * FROM (SELECT tags FROM comparison WHERE tags IS NOT NULL ORDER BY id LIMIT ?) "
    "UNION ALL "
    "SELECT * FROM (SELECT tags FROM comparison WHERE tags IS NOT NULL ORDER BY id DESC LIMIT ?)"
)
_decode = msgspec.json.Decoder(dict[str, str]).decode


class StoredTags:
    """Tags that name what a question was about, and those ``named``; any thread may ask.

    An answer that changes gets a new id, so each look reads those alone that came since the last.
    """

    def __init__(
        self,
        opened: Callable[[], AbstractContextManager[sqlite3.Connection]],
        named: Collection[str] = (),
    ) -> None:
        self._opened, self._named = opened, frozenset(named)
        self._lock = threading.Lock()
        self._last, self._ids, self._columns = 0, array("q"), TagColumns()

    def of(self, ids: NDArray[np.int64]) -> dict[str, NDArray[np.int32]]:
        """By name, the codes of the answers with these ids, in ascending order; -1 for none."""
        with self._lock, self._opened() as db:
            self._follow(db)
            known = np.array(self._ids, dtype=np.int64)
            columns = self._columns.arrays(known.size)
        if not columns:
            return {}
        at = np.searchsorted(known, ids)
        there = at < known.size
        there[there] = known[at[there]] == ids[there]
        found: dict[str, NDArray[np.int32]] = {}
        for name, codes in columns.items():
            found[name] = np.full(ids.size, -1, dtype=np.int32)
            found[name][there] = codes[at[there]]
        return found

    def values(self) -> dict[str, tuple[str, ...]]:
        """By name, what the codes mean."""
        with self._lock:
            return self._columns.values()

    def _follow(self, db: sqlite3.Connection) -> None:
        ends = db.execute(_ENDS, (_LOOKED_AT, _LOOKED_AT))
        if not any(self._wanted(name) for (tags,) in ends for name in _decode(tags)):
            return
        since = "SELECT id, tags FROM comparison WHERE id > ? AND tags IS NOT NULL ORDER BY id"
        for id_, tags in db.execute(since, (self._last,)):
            own = {name: value for name, value in _decode(tags).items() if self._wanted(name)}
            self._last = id_
            if own:
                self._columns.append(len(self._ids), own)
                self._ids.append(id_)

    def _wanted(self, name: str) -> bool:
        return name in self._named or is_subject(name)
