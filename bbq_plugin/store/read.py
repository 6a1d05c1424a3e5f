"""A store read like a file, also while another process writes it."""

from __future__ import annotations

import os
import sqlite3
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
from bbq_plugin.store.columns import Codebook, ColumnArrays, load
from bbq_plugin.store.schema import reading
from bbq_plugin.store.sources import SourceEntry, entries
from bbq_plugin.store.upsert import among

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from bbq_plugin.store.store import Store
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
    dropped, name = tuple(drop_raters), os.fspath(path)
    # One moment for all of it, names included, whatever is written meanwhile.
    with reading(name) as db:
        names = Codebook(db)
        plain = comparisons_of(load(db), names.items.names, names.raters.names, entries(db))
        if not (where or rename or dropped):
            return plain
        (fields,) = _parts(db, name, where=where, rename=rename, drop_raters=dropped).values()
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
    name, dropped = os.fspath(path), tuple(drop_raters)
    with reading(name) as db:
        parts = _parts(db, name, where=where, by=by, rename=rename, drop_raters=dropped)
    return {value: Comparisons(**parts[value]) for value in sorted(parts)}


def _parts(db: sqlite3.Connection, name: str, **choice: Any) -> dict[str, dict[str, Any]]:
    """The fields of the data sets that a choice among all records makes."""
    builder = DatasetBuilder(merge=False, **choice)
    builder.begin(name)
    for row in db.execute(f"{SELECT_COMPARISONS} ORDER BY c.id"):
        builder.add(comparison(row))
    return builder.parts()


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
    ledger: Iterable[SourceEntry] = (),
) -> Comparisons:
    """The answers as `bbq.read` would have given them."""
    rated = columns["rater"] >= 0
    keep: NDArray[np.bool_] = np.ones(rated.size, dtype=np.bool_)
    reasons: dict[str, int] = {}
    sources, warnings = [], dict[str, None]()
    for entry in ledger:
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
