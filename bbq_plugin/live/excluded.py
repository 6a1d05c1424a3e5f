"""Who is excluded, kept in the store: no rater goes in and out with one answer or a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection

    from bbq_plugin.analysis import Analysis
    from bbq_plugin.store import Store

__all__ = ["excluded_in", "keep_excluded", "keep_verdicts"]

_NOTE = "excluded"


def excluded_in(store: Store) -> frozenset[str]:
    """Who was excluded last: what the next analysis takes as ``previously_excluded``."""
    kept = store.note(_NOTE)
    return frozenset(msgspec.json.decode(kept, type=list[str]) if kept else ())


def keep_excluded(store: Store, names: Collection[str]) -> None:
    """Put down who is excluded now, if that is news."""
    if frozenset(names) != excluded_in(store):
        store.keep_note(_NOTE, msgspec.json.encode(sorted(names)).decode())


def keep_verdicts(store: Store, analysis: Analysis) -> None:
    """Put down whom an analysis excludes, if it has verdicts by now."""
    if analysis.judged:
        keep_excluded(store, analysis.raters.excluded)
