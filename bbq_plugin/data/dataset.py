"""A data set: all comparisons as arrays of coded, weighted wins."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bbq_plugin.data.coding import (
    Wins,
    at_row,
    check_distinct,
    checked_weight,
    codes_1d,
    int32,
    names_of,
    weights_1d,
)
from bbq_plugin.data.records import Comparison
from bbq_plugin.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from bbq_plugin.data.aggregate import Triples
    from bbq_plugin.data.answers import Answers
    from bbq_plugin.data.records import Record, Skipped, Source


@dataclass(frozen=True, eq=False, repr=False)
class Comparisons:
    """Coded comparisons: one row per win, names interned once.

    Build it with `from_records`, `from_arrays` or `from_comparisons`. Row i says
    that `raters[rater[i]]` ranked `items[winner[i]]` above `items[loser[i]]`
    with weight `weight[i]`. Without raters (`has_raters` is False) `raters` is
    empty and every `rater[i]` is 0. The arrays are not copied from the caller's
    where they already have the right type: do not write to them.
    """

    rater: NDArray[np.int32]
    winner: NDArray[np.int32]
    loser: NDArray[np.int32]
    weight: NDArray[np.float64]
    items: tuple[str, ...]
    raters: tuple[str, ...]
    has_raters: bool
    #: What people answered; a tie counts once here and has two rows above.
    n_comparisons: int
    n_ties: int = 0
    n_both_bad: int = 0
    #: Share of an item's comparisons that were answered both_bad; None without any such answer.
    both_bad_rate: NDArray[np.float64] | None = None
    #: The first rows left out; `skip_reasons` counts all of them.
    skipped: tuple[Skipped, ...] = ()
    skip_reasons: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    #: Decided answers of which the side is known, and how many of these went left. When all of them
    #: went to one side (with raters: of five or more), the sides count as unknown and both are 0.
    n_sided: int = 0
    n_left: int = 0
    #: Share of a rater's decided answers that went left; NaN without any, None if no side is known.
    left_rate: NDArray[np.float64] | None = None
    #: How much more often an item stood left than right; None if no side is known.
    left_excess: NDArray[np.int64] | None = None
    #: Median answering time of a rater in seconds; NaN without any, None if no time is known.
    median_time_s: NDArray[np.float64] | None = None
    #: What the wins do not say of the answers they came from; None where nothing is known.
    answers: Answers | None = None
    #: Answers left out because the same key came again, newer or in a later file, perhaps to
    #: take the answer back.
    n_duplicates: int = 0
    #: Answers of the raters that were to be dropped.
    n_dropped: int = 0
    #: Answers that did not match `where`, or have no value of the tag they are split by.
    n_filtered: int = 0
    #: The files that these came from.
    sources: tuple[Source, ...] = ()
    #: What the adapters have to say about the files.
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_records(
        cls,
        records: Iterable[tuple[str | None, str, str] | tuple[str | None, str, str, float]],
    ) -> Self:
        """Build from (rater, winner, loser) or (rater, winner, loser, weight) rows.

        Errors name the row by its index, counted from 0. A weight must be finite
        and positive; a row that should not count is dropped, not given weight 0.
        """
        wins = Wins()
        for i, record in enumerate(records):
            try:
                _add_record(wins, record)
            except DataError as error:
                raise DataError(f"row {i} (counted from 0): {error}") from None
        return cls(n_comparisons=len(wins.weight), **wins.arrays())

    @classmethod
    def from_comparisons(
        cls, comparisons: Iterable[Record], skipped: Iterable[Skipped] = ()
    ) -> Self:
        """Build from `Comparison` records, as the adapters yield them.

        `Skipped` records may be mixed in or given apart; they are counted and
        never fitted. Records are taken as they come: two with the same key are
        two answers (upsert by key is the store's business).
        """
        # Not above: that module needs the names of this one.
        from bbq_plugin.data.builder import Gatherer  # noqa: PLC0415

        gatherer = Gatherer(merge=False)
        gatherer.begin("")
        rated: bool | None = None
        for left_out in skipped:
            gatherer.add(left_out)
        for i, record in enumerate(comparisons):
            try:
                if isinstance(record, Comparison):
                    rated = _rated_as_before(record.rater, rated=rated)
                    check_distinct(record.left, record.right, record.left)
                gatherer.add(record)
            except DataError as error:
                key = f", key {record.key!r}" if isinstance(record, Comparison) else ""
                raise DataError(f"record {i} (counted from 0{key}): {error}") from None
        return cls(**{**gatherer.parts()[""], "sources": ()})

    @classmethod
    def from_arrays(
        cls,
        rater: ArrayLike | None,
        winner: ArrayLike,
        loser: ArrayLike,
        weight: ArrayLike | None = None,
        *,
        raters: Sequence[str] | None = None,
        items: Sequence[str] | None = None,
    ) -> Self:
        """Build from integer codes, for millions of rows: vectorised, and copied only to convert.

        `raters[rater[i]]` ranked `items[winner[i]]` above `items[loser[i]]`.
        Names that are not given are "0", "1", …; `rater=None` means that no rater
        is known. Errors name the row by its index, counted from 0.
        """
        winner = codes_1d(winner, "winner")
        loser = codes_1d(loser, "loser", like=winner)
        n = winner.size
        if n == 0:
            raise DataError("there are no comparisons; give at least one row")
        item_names = names_of(items, "item", winner, loser)
        rater_names: tuple[str, ...] = ()
        rater_codes: NDArray[Any]
        if rater is None:
            if raters:
                raise DataError("raters are named but rater is None; give both or neither")
            rater_codes = np.zeros(n, dtype=np.int32)
        else:
            rater_codes = codes_1d(rater, "rater", like=winner)
            rater_names = names_of(raters, "rater", rater_codes)
        winner32, loser32 = int32(winner), int32(loser)
        same = winner32 == loser32
        if same.any():
            i = int(same.argmax())
            with at_row(i):
                check_distinct(0, 0, item_names[int(winner32[i])])
        return cls(
            rater=int32(rater_codes),
            winner=winner32,
            loser=loser32,
            weight=weights_1d(weight, n),
            items=item_names,
            raters=rater_names,
            has_raters=rater is not None,
            n_comparisons=n,
        )

    @property
    def n_items(self) -> int:
        """How many items there are names for."""
        return len(self.items)

    @property
    def n_raters(self) -> int:
        """How many raters there are names for; 0 when raters are unknown."""
        return len(self.raters)

    @property
    def n_skipped(self) -> int:
        """How many rows were left out, kept in `skipped` or not."""
        return sum(self.skip_reasons.values())

    @cached_property
    def triples(self) -> Triples:
        """Distinct (rater, winner, loser) with summed weights, sorted by rater."""
        # Here and not above, because numba takes longer to import than most files to read.
        from bbq_plugin.data.aggregate import aggregate  # noqa: PLC0415

        return aggregate(
            self.rater,
            self.winner,
            self.loser,
            self.weight,
            max(1, self.n_raters),
            self.n_items,
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the wins by name, whatever the order of rows and the names of files."""
        from bbq_plugin.data.builder import digest_of  # noqa: PLC0415

        return digest_of(self)

    def __repr__(self) -> str:
        raters = f"{self.n_raters} raters" if self.has_raters else "no raters"
        return f"<Comparisons: {self.n_comparisons} of {self.n_items} items by {raters}>"


def _add_record(wins: Wins, record: Sequence[Any]) -> None:
    if isinstance(record, str) or len(record) not in (3, 4):
        raise DataError(
            f"is {record!r}; expected (rater, winner, loser) or (rater, winner, loser, weight)"
        )
    weight = checked_weight(record[3]) if len(record) == 4 else 1.0
    winner, loser = wins.items(record[1]), wins.items(record[2])
    check_distinct(winner, loser, record[1])
    wins.add(wins.rater_code(record[0]), winner, loser, weight)


def _rated_as_before(rater: object, *, rated: bool | None) -> bool:
    now = rater is not None
    if rated not in (None, now):
        this, those = ("a rater", "none") if now else ("no rater", "one")
        raise DataError(
            f"has {this} ({rater!r}) where the records before have {those}; "
            "give a rater on every record, or None on every record"
        )
    return now
