"""A store read like a file, also while another process writes it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import nullcontext
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from bbq_plugin.data.dataset import UNRATED, Comparisons, DatasetBuilder, wins_of
from bbq_plugin.data.records import (
    BAD_WEIGHT,
    LEAST_WEIGHT,
    MOST_WEIGHT,
    OUTCOMES,
    WEIGHT_BOUNDS,
    Comparison,
    Skipped,
    Source,
)
from bbq_plugin.errors import DataError, StoreError
from bbq_plugin.store.answer_upsert import among
from bbq_plugin.store.coded_columns import Codebook, ColumnArrays, StoredTags, load, usable
from bbq_plugin.store.database_file import DAMAGED, reading
from bbq_plugin.store.sources import SourceEntry, entries
from bbq_plugin.store.studies import MAIN, chosen_study, studies
from bbq_plugin.text import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from bbq_plugin.store.store import Store
    from bbq_plugin.store.transaction import Transaction

# Answers that are left out and are named one by one.
_NAMED = 5

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
    tags: Collection[str] = (),
    study: str | None = None,
) -> Comparisons:
    """Everything that a study of a store holds, as `bbq.read` would have given it.

    ``tags`` are those to keep beside the ones that name prompts or scenes. ``study`` may be left
    out where only one has answers.
    """
    dropped, name = tuple(drop_raters), os.fspath(path)
    # One moment for all of it, names included, whatever is written meanwhile.
    with reading(name) as db:
        names, own = Codebook(db), chosen_study(db, study, name)
        columns, misweighed = usable(load(db, own))
        stored = StoredTags(lambda: nullcontext(db), tags)
        found = stored.of(columns["id"])
        plain = comparisons_of(
            columns, names.items.names, names.raters.names,
            entries(db, "WHERE study = ? ORDER BY id", (own,)),
            left_out_of(db, misweighed), found, stored.values(),
        )  # fmt: skip
        if not (where or rename or dropped):
            return plain
        parts = _parts(db, name, own, where=where, rename=rename, drop_raters=dropped)
        (fields,) = parts.values()
    fields["warnings"] = (*plain.warnings, *fields["warnings"])
    return replace(Comparisons(**fields), sources=plain.sources)


def read_store_by(
    path: str | os.PathLike[str],
    *,
    by: str,
    where: Mapping[str, str] | None = None,
    rename: Mapping[str, str] | None = None,
    drop_raters: Iterable[str] = (),
    study: str | None = None,
) -> dict[str, Comparisons]:
    """What a study of a store holds, split by the value of a tag, as `bbq.read_by` would.

    ``by="study"`` gives each study that has answers.
    """
    name, dropped = os.fspath(path), tuple(drop_raters)
    if by == "study" and study is None:
        with reading(name) as db:
            names = [one.name for one in studies(db) if one.n_comparisons]
        choice: dict[str, Any] = {"where": where, "rename": rename, "drop_raters": dropped}
        return {one: read_store(path, study=one, **choice) for one in sorted(names)}
    with reading(name) as db:
        own = chosen_study(db, study, name)
        parts = _parts(db, name, own, where=where, by=by, rename=rename, drop_raters=dropped)
        notes = left_out_of(db, usable(load(db, own))[1]).notes
    for fields in parts.values():
        fields["warnings"] = (*notes, *fields["warnings"])
    return {value: Comparisons(**parts[value]) for value in sorted(parts)}


def _parts(
    db: sqlite3.Connection, name: str, study: int, **choice: Any
) -> dict[str, dict[str, Any]]:
    """The fields of the data sets that a choice among the records of a study makes."""
    builder = DatasetBuilder(merge=False, **choice)
    builder.begin(name)
    builder.tags_remedy = (
        "; if the files have it, the store was filled without tags: read them again into a new "
        "store with --keep-tags"
    )
    for row in db.execute(f"{SELECT_COMPARISONS} WHERE c.study = ? ORDER BY c.id", (study,)):
        record = comparison(row)
        if LEAST_WEIGHT <= record.weight <= MOST_WEIGHT:
            builder.add(record)
        else:
            builder.add(Skipped(record.key, BAD_WEIGHT, str(record.weight), expected=True))
    return builder.parts()


def records_of(store: Store, study: int = MAIN) -> Iterator[Comparison]:
    """The comparisons of a study as they were added, in the order in which they last changed."""
    of_study = f"{SELECT_COMPARISONS} WHERE c.study = ? ORDER BY c.id"
    return map(comparison, store.db.execute(of_study, (study,)))


def comparison(row: tuple[Any, ...]) -> Comparison:
    """A row of these as a record."""
    key, rater, left, right, outcome, weight, slate, at, time_s, tags, version, _ = row
    try:
        found = msgspec.json.decode(tags, type=dict[str, str]) if tags else None
        said = OUTCOMES[outcome]
    except (msgspec.DecodeError, IndexError) as error:
        raise StoreError(f"comparison {key!r} of the store: {error}; {DAMAGED}") from error
    return Comparison(key, rater, left, right, said, weight, slate, at, time_s, found, version)


def records_of_rater(path: str, rater: str, study: int = MAIN) -> list[Comparison]:
    """The comparisons of one rater, by a connection of its own: a writer does not wait for it."""
    with reading(path) as db:
        of_rater = "WHERE c.study = ? AND c.rater = (SELECT id FROM rater WHERE name = ?)"
        found = db.execute(f"{SELECT_COMPARISONS} {of_rater}", (study, rater))
        return list(map(comparison, found))


def tag_values(path: str, study: int, least: int) -> dict[str, tuple[dict[str, int], int]]:
    """By tag, its values that at least so many comparisons have, and how many have any value."""
    found: dict[str, tuple[dict[str, int], int]] = {}
    with reading(path) as db:
        for tag, value, n, n_tag in db.execute(
            "SELECT * FROM (SELECT j.key, j.value, count(*) AS n, "
            "sum(count(*)) OVER (PARTITION BY j.key) FROM comparison c, json_each(c.tags) j "
            "WHERE c.study = ? AND c.tags IS NOT NULL GROUP BY j.key, j.value) WHERE n >= ?",
            (study, least),
        ):
            found.setdefault(tag, ({}, n_tag))[0][value] = n
    return found


def comparisons_under(
    transaction: Transaction, keys: Iterable[str], study: int = MAIN
) -> dict[int, Comparison]:
    """The comparisons under these keys, or broken out of rankings with these names, by their id."""
    wanted = set(keys)
    of_study = f"{SELECT_COMPARISONS} WHERE c.study = ? AND"
    found = among(transaction.db, f"{of_study} c.key", wanted, study)
    found += among(transaction.db, f"{of_study} c.slate > '' AND c.slate", wanted, study)
    return {row[-1]: comparison(row) for row in sorted(found, key=lambda row: row[-1])}


class Unusable(NamedTuple):
    """Answers of the store that cannot be fitted: how many, and what is to be said of them."""

    n: int = 0
    notes: tuple[str, ...] = ()


def left_out_of(db: sqlite3.Connection, ids: Sequence[int]) -> Unusable:
    """Name the answers with a weight out of bounds, some of them if they are many."""
    if not ids:
        return Unusable()
    named = [
        f"{key!r} of {source} (weight {weight:g})"
        for id_ in ids[:_NAMED]
        for key, weight, source in db.execute(
            "SELECT c.key, c.weight, iif(s.name = '', s.kind, s.name) FROM comparison c "
            "JOIN source s ON s.id = c.source WHERE c.id = ?",
            (id_,),
        )
    ]
    more = f" and {len(ids) - _NAMED:,} more" if len(ids) > _NAMED else ""
    note = (
        f"{counted(len(ids), 'answer')} of the store left out, because {WEIGHT_BOUNDS}: "
        f"{', '.join(named)}{more}; add again with another weight, or retract by key "
        "(Engine.retract)"
    )
    return Unusable(len(ids), (note,))


def comparisons_of(
    columns: ColumnArrays,
    items: tuple[str, ...],
    raters: tuple[str, ...],
    ledger: Iterable[SourceEntry] = (),
    left_out: Unusable = Unusable(),  # noqa: B008 (a constant)
    tags: Mapping[str, NDArray[np.int32]] = MappingProxyType({}),
    tag_values: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> Comparisons:
    """The answers as `bbq.read` would have given them."""
    rated = columns["rater"] >= 0
    keep: NDArray[np.bool_] = np.ones(rated.size, dtype=np.bool_)
    reasons: dict[str, int] = {}
    sources, warnings = [], dict.fromkeys(left_out.notes)
    if left_out.n:
        reasons[BAD_WEIGHT] = left_out.n
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
        raise DataError(
            "there are no comparisons in the store yet; add some"
            + "".join(f" ({note})" for note in left_out.notes)
        )
    return Comparisons(
        **wins_of(columns, keep, items, raters, tags),
        tag_values=MappingProxyType(dict(tag_values)),
        skip_reasons=MappingProxyType(reasons),
        sources=tuple(sources),
        warnings=tuple(warnings),
    )
