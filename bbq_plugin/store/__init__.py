"""The store: every answer under its key, what was read from where, and the last fit, in SQLite."""

from __future__ import annotations

from bbq_plugin.store.columns import Change
from bbq_plugin.store.lock import Holder, holder
from bbq_plugin.store.read import read_store, read_store_by
from bbq_plugin.store.sources import SourceEntry
from bbq_plugin.store.store import Counts, Store

__all__ = [
    "Change",
    "Counts",
    "Holder",
    "SourceEntry",
    "Store",
    "holder",
    "read_store",
    "read_store_by",
]
