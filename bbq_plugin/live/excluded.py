"""Who was excluded last, kept in the store: nobody goes in and out with an answer or a restart."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from bbq_plugin.store import Store

__all__ = ["Excluded"]

_NOTE = "excluded"


class Excluded:
    """The names of those whom the last report excluded, which the next one takes as `before`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        kept = store.note(_NOTE)
        self._names = frozenset(msgspec.json.decode(kept, type=list[str]) if kept else ())

    @property
    def names(self) -> frozenset[str]:
        """Who they are."""
        return self._names

    def keep(self, names: Collection[str]) -> None:
        """Put down who they are now, if that is news."""
        with self._lock:
            if frozenset(names) == self._names:
                return
            self._store.keep_note(_NOTE, msgspec.json.encode(sorted(names)).decode())
            self._names = frozenset(names)
