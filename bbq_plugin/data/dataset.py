"""A data set: all comparisons as arrays of coded, weighted wins."""

from __future__ import annotations

import hashlib
from array import array
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bbq_plugin.data.dataset_builder import Answers, DatasetBuilder
from bbq_plugin.data.name_codes import Codes, checked_weight
from bbq_plugin.data.records import LEAST_WEIGHT, MOST_WEIGHT, Comparison, Skipped, Source
from bbq_plugin.data.repeats import Repeats, merged_weights, repeats_of
from bbq_plugin.errors import DataError
from bbq_plugin.text import MOST_HTML_ROWS, html_notes, html_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from bbq_plugin.data.records import Record
    from bbq_plugin.data.triples import Triples


# Codes without names must be dense. This much slack is a matter of taste; codes
# beyond it are identifiers that were never coded, and would make empty items.
_MOST_SPARE_CODES = 1_000_000


@dataclass(frozen=True, eq=False, repr=False)
class Comparisons:
    """Coded comparisons: one row per win, names interned once.

    Build it with `from_records`, `from_arrays`, `from_frame` or `from_comparisons`. Row i says
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
    #: Whether the answer names the winner first, on the left; None where rows are wins as such.
    winner_first: NDArray[np.bool_] | None = None
    #: What the wins do not say of the answers they came from; None where nothing is known.
    answers: Answers | None = None
    #: Answers left out because the same key came again, newer or in a later file, perhaps to
    #: take the answer back.
    n_duplicates: int = 0
    #: Answers of the raters that were to be dropped.
    n_dropped: int = 0
    #: Answers that did not match `where`, or have no value of the tag they are split by.
    n_filtered: int = 0
    #: Tags by name: a code of each row's value, -1 without one. Only those of few values are kept.
    tags: Mapping[str, NDArray[np.int32]] = field(default_factory=lambda: MappingProxyType({}))
    #: The values of these tags, by code, where they are known.
    tag_values: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    #: The files that these came from.
    sources: tuple[Source, ...] = ()
    #: What the adapters have to say about the files.
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_records(
        cls, records: Iterable[tuple[str | None, str, str] | tuple[str | None, str, str, float]]
    ) -> Self:
        """Build from (rater, winner, loser) or (rater, winner, loser, weight) rows.

        Errors name the row by its index, counted from 0. A weight is from
        1e-6 to 1e6; a row that should not count is dropped, not given weight 0.
        """
        items, raters = Codes("item"), Codes("rater")
        rater, winner, loser, weight = array("i"), array("i"), array("i"), array("d")
        rated: bool | None = None
        for i, record in enumerate(records):
            try:
                who, won, lost, w = _checked_record(record)
                winner.append(items(won))
                loser.append(items(lost))
                _check_distinct(winner[-1], loser[-1], won)
                rated = _rated_as_before(who, rated=rated, what="row")
                rater.append(raters(who) if rated else 0)
                weight.append(w)
            except DataError as error:
                raise DataError(f"row {i} (counted from 0): {error}") from None
        if rated is None:
            raise DataError("there are no comparisons; give at least one row that is not skipped")
        return cls(
            rater=np.frombuffer(rater, dtype=np.int32),
            winner=np.frombuffer(winner, dtype=np.int32),
            loser=np.frombuffer(loser, dtype=np.int32),
            weight=np.frombuffer(weight, dtype=np.float64),
            items=items.names,
            raters=raters.names,
            has_raters=rated,
            n_comparisons=len(weight),
        )

    @classmethod
    def from_comparisons(
        cls, comparisons: Iterable[Record], skipped: Iterable[Skipped] = ()
    ) -> Self:
        """Build from `Comparison` records, as the adapters yield them.

        `Skipped` records may be mixed in or given apart; they are counted and
        never fitted. Records are taken as they come: two with the same key are
        two answers (upsert by key is the store's business).
        """
        builder = DatasetBuilder(merge=False)
        builder.begin("")
        rated: bool | None = None
        for left_out in skipped:
            builder.add(left_out)
        for i, record in enumerate(comparisons):
            try:
                if isinstance(record, Comparison):
                    rated = _rated_as_before(record.rater, rated=rated, what="record")
                    _check_distinct(record.left, record.right, record.left)
                builder.add(record)
            except DataError as error:
                key = f", key {record.key!r}" if isinstance(record, Comparison) else ""
                raise DataError(f"record {i} (counted from 0{key}): {error}") from None
        return cls(**{**builder.parts()[""], "sources": ()})

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
        winner = _codes_1d(winner, "winner")
        loser = _codes_1d(loser, "loser", like=winner)
        n = winner.size
        if n == 0:
            raise DataError("there are no comparisons; give at least one row")
        item_names = _names_of(items, "item", winner, loser)
        rater_names: tuple[str, ...] = ()
        rater_codes: NDArray[Any] = np.zeros(n, dtype=np.int32)
        if rater is not None:
            rater_codes = _codes_1d(rater, "rater", like=winner)
            rater_names = _names_of(raters, "rater", rater_codes)
        elif raters:
            raise DataError("raters are named but rater is None; give both or neither")
        winner32, loser32 = _int32(winner), _int32(loser)
        same = winner32 == loser32
        if same.any():
            i = int(same.argmax())
            with _at_row(i):
                _check_distinct(0, 0, item_names[int(winner32[i])])
        return cls(
            rater=_int32(rater_codes),
            winner=winner32,
            loser=loser32,
            weight=_weights_1d(weight, n),
            items=item_names,
            raters=rater_names,
            has_raters=rater is not None,
            n_comparisons=n,
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        rater: str | None = None,
        left: str | None = None,
        right: str | None = None,
        outcome: str | None = None,
        winner: str | None = None,
        loser: str | None = None,
        weight: str | None = None,
        at: str | None = None,
        time_s: str | None = None,
        tags: Sequence[str] = (),
        values: Mapping[Any, str] | None = None,
    ) -> Self:
        """Build from the named columns of a data frame: pandas, Polars, Arrow, DuckDB or others.

        Give `left`, `right` and `outcome`, or `winner` and `loser`. An outcome is `left`, `right`,
        `tie`, `both_bad` (or `model_a`, `model_b`), or the name of the item that won; `values` says
        what other values mean, such as {1: "left", 2: "right", 0: "tie"}. A value that is not known
        is an error that names the row; a row without an item, an outcome or a weight is skipped and
        counted. `at` holds moments and `time_s` durations, as such or in seconds.
        """
        # Here and not above: few programs need it.
        from bbq_plugin.data.frames import wins_of_frame  # noqa: PLC0415

        roles = {
            "rater": rater, "left": left, "right": right, "outcome": outcome, "winner": winner,
            "loser": loser, "weight": weight, "at": at, "time_s": time_s,
        }  # fmt: skip
        return cls(**wins_of_frame(frame, roles, tags, values))

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
        from bbq_plugin.data.triples import aggregate  # noqa: PLC0415

        return aggregate(
            self.rater, self.winner, self.loser, self.weight, max(1, self.n_raters), self.n_items
        )

    @cached_property
    def pooled(self) -> Triples:
        """The same as if one rater had made all comparisons: what is known of the items alone."""
        return self.triples.without_raters()

    @cached_property
    def repeats(self) -> Repeats:
        """Which rows are one answer: `repeats.answer` has the answer of each row."""
        return repeats_of(self)

    def merged(self) -> Comparisons:
        """The same with each answer counting once, however many rows it has."""
        if not self.repeats or self.repeats.merged:
            return self
        # What was found stays known; what was computed from the weights does not.
        found = replace(self, weight=merged_weights(self, self.repeats))
        found.__dict__["repeats"] = replace(self.repeats, merged=True)
        return found

    @cached_property
    def decided(self) -> Triples:
        """The same without the answers that were ties."""
        from bbq_plugin.data.triples import aggregate  # noqa: PLC0415

        if self.answers is None or self.answers.half is None:
            return self.triples
        rows = self.answers.half == 0
        columns = (self.rater[rows], self.winner[rows], self.loser[rows], self.weight[rows])
        return aggregate(*columns, max(1, self.n_raters), self.n_items)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the wins by name, whatever the order of rows and the names of files.

        The halves of ties are told from half wins.
        """
        item_order = sorted(range(self.n_items), key=self.items.__getitem__)
        rater_order = sorted(range(self.n_raters), key=self.raters.__getitem__)
        item_rank = np.empty(self.n_items, "<i4")
        item_rank[item_order] = np.arange(self.n_items)
        rater_rank = np.zeros(max(1, self.n_raters), "<i4")
        rater_rank[rater_order] = np.arange(self.n_raters)
        ranks = rater_rank[self.rater], item_rank[self.winner], item_rank[self.loser]
        rows: tuple[NDArray[Any], ...] = (*ranks, self.weight.astype("<f8"))
        if self.answers is not None and self.answers.half is not None and self.answers.half.any():
            rows = (*rows, self.answers.half > 0)
        order = np.lexsort(rows[::-1])
        rated = b"rated" if self.has_raters else b"unrated"
        digest = hashlib.sha256(b"bbq.comparisons/1\0" + rated)
        for names in (self.items, self.raters):
            encoded = [name.encode("utf-8", "surrogatepass") for name in sorted(names)]
            digest.update(b"\0".join(b"%d %s" % (len(t), t) for t in encoded) + b"\n")
        for column in rows:
            digest.update(column[order].tobytes())
        return digest.hexdigest()

    def _repr_html_(self) -> str:
        facts = [
            ("comparisons", self.n_comparisons),
            ("items", self.n_items),
            ("raters", self.n_raters if self.has_raters else None),
            ("ties", self.n_ties),
            ("both bad", self.n_both_bad),
            ("skipped rows", self.n_skipped),
            ("duplicates", self.n_duplicates),
        ]
        rows = [(name, "not known" if n is None else f"{n:,}") for name, n in facts]
        # Also below one another: how often each reason to skip a row occurred.
        rows += [(f"skipped: {why}", f"{n:,}") for why, n in self.skip_reasons.items()]
        shown = rows[:MOST_HTML_ROWS]
        table = html_table("Comparisons", ("", "n"), shown, len(rows), words=("",))
        return table + html_notes(self.warnings)

    def __repr__(self) -> str:
        raters = f"{self.n_raters} raters" if self.has_raters else "no raters"
        return f"<Comparisons: {self.n_comparisons} of {self.n_items} items by {raters}>"


def _checked_record(record: Sequence[Any]) -> tuple[Any, Any, Any, float]:
    if isinstance(record, str) or len(record) not in (3, 4):
        raise DataError(
            f"is {record!r}; expected (rater, winner, loser) or (rater, winner, loser, weight)"
        )
    weight = checked_weight(record[3]) if len(record) == 4 else 1.0
    return record[0], record[1], record[2], weight


def _rated_as_before(rater: object, *, rated: bool | None, what: str) -> bool:
    """Whether there is a rater; either all rows have one or none has."""
    now = rater is not None
    if rated not in (None, now):
        this, those = ("a rater", "none") if now else ("no rater", "one")
        raise DataError(
            f"has {this} ({rater!r}) where the {what}s before have {those}; "
            f"give a rater on every {what}, or None on every {what}"
        )
    return now


@contextmanager
def _at_row(i: int, what: str = "row") -> Iterator[None]:
    """Add the place to an error, by the index that the caller knows."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{what} {i} (counted from 0): {error}") from None


def _check_distinct(a: object, b: object, name: str) -> None:
    if a == b:
        raise DataError(f"item {name!r} is compared with itself; drop the row")


def _codes_1d(codes: ArrayLike, what: str, like: NDArray[Any] | None = None) -> NDArray[Any]:
    found = np.asarray(codes)
    if found.ndim != 1:
        raise DataError(f"{what} has {found.ndim} dimensions; give a flat array of integer codes")
    if found.dtype.kind not in "iu" and found.size:
        raise DataError(
            f"{what} has type {found.dtype}, not integers; code names first "
            "(numpy.unique with return_inverse) or use Comparisons.from_records"
        )
    if like is not None and found.size != like.size:
        raise DataError(f"{what} has {found.size} rows, winner has {like.size}; give as many")
    return found


def _names_of(given: Sequence[str] | None, kind: str, *columns: NDArray[Any]) -> tuple[str, ...]:
    """The names of one kind, after checking that every code has one."""
    highest = max(int(codes.max()) for codes in columns)
    if given is None:
        limit = 2 * columns[0].size + _MOST_SPARE_CODES
        remedy = "codes run from 0 without large gaps (numpy.unique with return_inverse makes them)"
    else:
        limit = len(given)
        remedy = f"there are {limit} names, so codes run from 0 to {limit - 1}"
    if highest >= limit or min(int(codes.min()) for codes in columns) < 0:
        for codes in columns:
            wrong = (codes < 0) | (codes >= limit)
            if wrong.any():
                i = int(wrong.argmax())
                with _at_row(i):
                    raise DataError(f"{kind} code is {int(codes[i])}; {remedy}")
    if given is None:
        return tuple(map(str, range(highest + 1)))
    # Through the same door as named rows, so that an empty or doubled name is refused here too.
    codes_of = Codes(kind)
    for i, name in enumerate(given):
        with _at_row(i, f"{kind} name"):
            if codes_of(name) != i:
                raise DataError(f"{name!r} is there already; names are unique")
    return codes_of.names


def _int32(codes: NDArray[Any]) -> NDArray[np.int32]:
    return np.ascontiguousarray(codes, dtype=np.int32)


def _weights_1d(weight: ArrayLike | None, n: int) -> NDArray[np.float64]:
    if weight is None:
        return np.ones(n)
    try:
        found = np.ascontiguousarray(weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"weight is not numeric ({error}); give one number a row") from None
    if found.shape != (n,):
        raise DataError(f"weight has shape {found.shape}; give one number a row, {n} in all")
    # NaN goes through min(), so two passes without temporaries decide the good case.
    if not (found.min() >= LEAST_WEIGHT and found.max() <= MOST_WEIGHT):
        i = int(np.argmin((found >= LEAST_WEIGHT) & (found <= MOST_WEIGHT)))
        with _at_row(i):
            checked_weight(float(found[i]))
    return found
