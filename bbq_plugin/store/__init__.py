"""The store: every answer under its key, what was read from where, and the last fit, in SQLite.

Names load when they are first used: `bbq status` needs no arrays.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bbq_plugin.store.coded_columns import Change
    from bbq_plugin.store.database_file import holder
    from bbq_plugin.store.sources_and_status import SourceEntry
    from bbq_plugin.store.store import Store, read_store, read_store_by

__all__ = ["Change", "SourceEntry", "Store", "holder", "read_store", "read_store_by"]

_HOME = {
    "Change": "coded_columns", "SourceEntry": "sources_and_status", "Store": "store",
    "holder": "database_file", "read_store": "store", "read_store_by": "store",
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'bbq_plugin.store' has no attribute {name!r}")
    return getattr(import_module(f"bbq_plugin.store.{_HOME[name]}"), name)
