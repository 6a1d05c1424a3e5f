"""A store read like a file, also while another process writes it."""

from __future__ import annotations

import os
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bbq_plugin.data.builder import UNRATED, DatasetBuilder, wins_of
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.records import OUTCOMES, Comparison, Source
from bbq_plugin.errors import DataError
from bbq_plugin.store.columns import Codebook, ColumnArrays
from bbq_plugin.store.schema import reading
from bbq_plugin.store.sources import SourceEntry
from bbq_plugin.store.store import Store
from bbq_plugin.store.upsert import among

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from bbq_plugin.store.transaction import Transaction

#: Comparisons with the names of their items and raters; the rest of the statement says which.
SELECT_COMPARISONS = (
    "SELECT c.key, r.name, a.name, b.name, c.outcome, c.weight, "
    "CASE c.slate WHEN '' THEN c.key ELSE c.slate END, c.at, c.time_s, c.tags, c.version, c.id "
    "FROM comparison c JOIN item a ON a.id = c.left JOIN item b ON b.id = c.right "
    "LEFT JOIN rater r ON r.id = c.rater "
)


def read_store(
    path: str | os.PathLike[str],
    *,
    where: Mapping[str, str] | None = None,
    rename: Mapping[str, str] | None = None,
    drop_raters: Iterable[str] = (),
) -> Comparisons:
    """Everything that a store holds, as `bbq.read` would have given it."""
    dropped = tuple(drop_raters)
    with Store(path, writable=False) as store:
        # One moment for all of it, names included, whatever is written meanwhile.
        store.db.execute("BEGIN")
        names = Codebook(store.db)
        plain = comparisons_of(store.load(), names.items.names, names.raters.names, store.ledger())
        if not (where or rename or dropped):
            return plain
        builder = DatasetBuilder(merge=False, where=where, rename=rename, drop_raters=dropped)
        builder.begin(store.path)
        for record in records_of(store):
            builder.add(record)
        (fields,) = builder.parts().values()
    fields["warnings"] = (*plain.warnings, *fields["warnings"])
    return replace(Comparisons(**fields), sources=plain.sources)


def read_store_by(
    path: str | os.PathLike[str],
    *,
    by: str,
    where: Mapping[str, str] | None = None,
    rename: Mapping[str, str] | None = None,
    drop_raters: Iterable[str] = (),
) -> dict[str, Comparisons]:
    """Everything that a store holds, split by the value of a tag, as `bbq.read_by` would."""
    with Store(path, writable=False) as store:
        store.db.execute("BEGIN")
        builder = DatasetBuilder(
            merge=False, where=where, by=by, rename=rename, drop_raters=tuple(drop_raters)
        )
        builder.begin(store.path)
        for record in records_of(store):
            builder.add(record)
        parts = builder.parts()
    return {value: Comparisons(**parts[value]) for value in sorted(parts)}


def records_of(store: Store) -> Iterator[Comparison]:
    """Every comparison as it was added, in the order in which they last changed."""
    return map(comparison, store.db.execute(f"{SELECT_COMPARISONS} ORDER BY c.id"))


def comparison(row: tuple[Any, ...]) -> Comparison:
    """A row of these as a record."""
    key, rater, left, right, outcome, weight, slate, at, time_s, tags, version, _ = row
    found = msgspec.json.decode(tags, type=dict[str, str]) if tags else None
    return Comparison(
        key, rater, left, right, OUTCOMES[outcome], weight, slate, at, time_s, found, version
    )


def records_of_rater(path: str, rater: str) -> list[Comparison]:
    """Every comparison of one rater, by a connection of its own: a writer does not wait for it."""
    with reading(path) as db:
        of_rater = "WHERE c.rater = (SELECT id FROM rater WHERE name = ?)"
        return list(map(comparison, db.execute(f"{SELECT_COMPARISONS} {of_rater}", (rater,))))


def comparisons_under(transaction: Transaction, keys: Iterable[str]) -> dict[int, Comparison]:
    """The comparisons under these keys, or broken out of rankings with these names, by their id."""
    wanted = set(keys)
    found = among(transaction.db, f"{SELECT_COMPARISONS} WHERE c.key", wanted)
    found += among(transaction.db, f"{SELECT_COMPARISONS} WHERE c.slate > '' AND c.slate", wanted)
    return {row[-1]: comparison(row) for row in sorted(found, key=lambda row: row[-1])}


def comparisons_of(
    columns: ColumnArrays,
    items: tuple[str, ...],
    raters: tuple[str, ...],
    entries: Iterable[SourceEntry] = (),
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
