"""The store: every answer under its key, what was read from where, and the last fit, in SQLite."""

from __future__ import annotations

from bbq_plugin.live.store.changes import Change
from bbq_plugin.live.store.ledger import Entry, HistoryItem, HistoryPoint
from bbq_plugin.live.store.lock import Holder, holder
from bbq_plugin.live.store.reading import read_store, read_store_by
from bbq_plugin.live.store.store import Counts, Store

__all__ = [
    "Change",
    "Counts",
    "Entry",
    "HistoryItem",
    "HistoryPoint",
    "Holder",
    "Store",
    "holder",
    "read_store",
    "read_store_by",
]
