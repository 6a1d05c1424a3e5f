"""What a store has read, refused and fitted, and who writes it: for `bbq status`."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

import bbq_plugin
from bbq_plugin.store.lock import holder
from bbq_plugin.store.schema import reading
from bbq_plugin.store.sources import counts, entries, fit_notes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bbq_plugin.store.lock import Holder
    from bbq_plugin.store.sources import Counts, FitNote, SourceEntry

__all__ = ["SCHEMA", "Status", "status_of"]

SCHEMA = "bbq.status/1"


@dataclass(frozen=True)
class Status:
    """A store at one moment."""

    store: str
    counts: Counts
    #: The newest refresh of all, and the newest full one.
    last_fit: FitNote | None
    last_full_fit: FitNote | None
    #: In the order in which they first came.
    sources: tuple[SourceEntry, ...]
    writer: Holder | None

    def n_sources(self) -> dict[str, int]:
        """How many sources there are, by what became of them."""
        found = Counter(entry.status for entry in self.sources)
        return {word: found[word] for word in ("read", "copy", "waiting", "refused")}

    def skipped(self) -> dict[str, int]:
        """How many rows were left out, by reason, the most frequent first."""
        total: Counter[str] = Counter()
        for entry in self.sources:
            total.update(entry.skipped)
        return dict(total.most_common())

    def document(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "schema": SCHEMA,
            "version": bbq_plugin.__version__,
            "store": self.store,
            **self.counts._asdict(),
            "last_fit": _fit_dict(self.last_fit),
            "last_full_fit": _fit_dict(self.last_full_fit),
            "writer": None if self.writer is None else msgspec.structs.asdict(self.writer),
            "n_sources": self.n_sources(),
            "n_skipped": sum(entry.n_skipped for entry in self.sources),
            "skipped": self.skipped(),
            "sources": [_source_dict(entry) for entry in self.sources],
        }


def status_of(path: str | os.PathLike[str]) -> Status:
    """Look at a store, also while another process writes it."""
    name = os.fspath(path)
    with reading(name) as db:
        fits = fit_notes(db)
        return Status(
            store=name,
            counts=counts(db),
            last_fit=_newest(fits),
            last_full_fit=_newest(one for one in fits if one.how == "full"),
            sources=tuple(entries(db)),
            writer=holder(name),
        )


def _newest(fits: Iterable[FitNote]) -> FitNote | None:
    return max(fits, key=lambda one: one.at, default=None)


def iso(at: float) -> str:
    """A moment in a document."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _fit_dict(note: FitNote | None) -> dict[str, Any] | None:
    return None if note is None else {**asdict(note), "at": iso(note.at)}


def _source_dict(entry: SourceEntry) -> dict[str, Any]:
    shown = (
        "name", "kind", "status", "reason", "at", "adapter", "options", "offset", "sha256",
        "n_rows", "n_skipped", "skipped", "notes",
    )  # fmt: skip
    return {name: getattr(entry, name) for name in shown} | {"at": iso(entry.at)}
