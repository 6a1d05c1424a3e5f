"""How a data set is built of files: what was read, what was skipped and why, which record counts.

`DatasetBuilder` gathers the answers of any number of files in coded columns; records of one
answer are known by their key, and the newest of them counts.
"""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from bbq_plugin.data.dataset import (
    AnswerColumns,
    RaterCodes,
    RawCodes,
    TagColumns,
    as_text,
    coded,
    wins_of,
)
from bbq_plugin.data.records import (
    AGAINST_ITSELF,
    NO_ANSWER,
    NO_WINNER,
    Batch,
    Comparison,
    FullExport,
    Note,
    Skipped,
    Source,
)
from bbq_plugin.errors import DataError, FormatError, UsageError, did_you_mean
from bbq_plugin.plugins import key_tags
from bbq_plugin.text import counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from bbq_plugin.data.records import Record

    Columns = dict[str, NDArray[Any]]
    Mask = NDArray[np.bool_]


#: Why a row was left out.
UNRATED = "no rater in this row, while others have one"
MERGED = "one item after renaming"

# Skipped rows are counted without limit but kept only so far: a file of ten
# million self pairs must not fill the memory with the same sentence.
SKIPPED_KEPT = 1000


class SkipLog:
    """Counts every skipped row and keeps the first ones."""

    def __init__(self) -> None:
        self.first: list[Skipped] = []
        self.reasons: Counter[str] = Counter()

    def add(self, record: Skipped) -> None:
        """Count one more."""
        self.reasons[record.reason] += 1
        if len(self.first) < SKIPPED_KEPT:
            self.first.append(record)


@dataclass
class FileLog:
    """What happened in one file."""

    name: str
    adapter: str
    why: str
    first_row: int
    #: Set apart from other files whose rows would have the same `file:line` as key.
    apart: int = 0
    n_skipped: int = 0
    n_answers: int = 0
    sha256: str = ""
    reasons: Counter[str] = field(default_factory=Counter)
    #: For a reason the first row with it, and what stands there.
    first: dict[str, str] = field(default_factory=dict)
    last_slate: str | None = None
    #: Whether the rows have ids of their own.
    has_ids: bool = False

    def skip(self, record: Skipped, *, strict: bool = False) -> None:
        """Count a row that was left out, or refuse it."""
        self.n_skipped += 1
        if record.expected:
            return
        self.reasons[record.reason] += 1
        if record.value is not None:
            self.first.setdefault(record.reason, f"{record.where}: {record.value}")
        if strict:
            raise _strict_error(record, self.name)

    def check(self, max_skipped: float) -> None:
        """Refuse a file of which too much was left out."""
        n = self.reasons.total()
        rows = n + self.n_answers
        # One row is no pattern: without this, a pilot of fifty answers could not have a gap.
        if n <= max(max_skipped * rows, max_skipped > 0):
            return
        raise TooManySkippedError(
            self.name, self.adapter, self.reasons, rows, max_skipped, self.first
        )


# What so many rows of one reason may mean about the mapping.
_SUSPICIONS = {
    AGAINST_ITSELF: "the names of the items may span two columns: compose them with "
    "--items a+b,c+d",
    NO_WINNER: "the column of choices may be another one",
    UNRATED: "the column of raters may be another one",
}
# A reason that more rows have than this is no gap here and there.
_MOST_GAPS = 0.3


class TooManySkippedError(FormatError):
    """More of a file was skipped than is allowed."""

    def __init__(
        self,
        file: str,
        adapter: str,
        reasons: Mapping[str, int],
        rows: int,
        allowed: float,
        first: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        n = sum(reasons.values())
        ordered = sorted(reasons.items(), key=lambda one: -one[1])
        most, times = ordered[0]
        named = "; ".join(f"{count:,} × {reason}" for reason, count in ordered[:3])
        problem = (
            f"{n:,} of {rows:,} rows ({n / rows:.2%}) were skipped, more than the {allowed:.2%} "
            f"allowed; most often ({times:,} ×): {most}"
        )
        if most in first:
            problem += f", first in {first[most]}"
        if len(ordered) > 1:
            problem += f" (in all: {named})"
        suspicion = _SUSPICIONS.get(most)
        wrong = most == AGAINST_ITSELF or times > _MOST_GAPS * rows
        # The first whole percent with which the check passes.
        percent = next(p for p in range(1, 101) if n <= p / 100 * rows)
        if wrong:
            remedy = suspicion or f"adapter {adapter!r} or its mapping may be the wrong one"
            remedy += f"; see what is in the file with: bbq inspect {shlex.quote(file)}"
        else:
            remedy = (
                f"if these rows are no answers, allow more (--max-skipped {percent}%, "
                f"in Python max_skipped={percent / 100})"
            )
        super().__init__(problem, file, remedy=remedy)
        self.args = (file, adapter, dict(reasons), rows, allowed, dict(first))
        #: What would let the file in, added to the command.
        self.more_words = () if wrong else (("--max-skipped", f"{percent}%"),)


# Rows that are there exactly twice are worth a word where nearly all of so many are.
_FEW_TWINS, _NEARLY_ALL = 20, 0.95


class DatasetBuilder:
    """Takes records and batches file by file; `parts` makes the arrays of them."""

    def __init__(
        self,
        *,
        strict: bool = False,
        merge: bool = True,
        where: Mapping[str, str] | None = None,
        by: str | None = None,
        rename: Mapping[str, str] | None = None,
        drop_raters: Iterable[str] = (),
    ) -> None:
        self.strict = strict
        self.merge = merge
        self.where = dict(where or {})
        self.by = by
        #: Whether all tags are needed, also of files that are read faster without.
        self.tagged = bool(self.where) or by is not None
        self.rename = dict(rename or {})
        self.drop_raters = tuple(drop_raters)
        self.items = RawCodes("item", self.rename)
        self.raters = RaterCodes("rater")
        self.values = RawCodes("tag")
        self.tags: Counter[str] = Counter()
        #: What to add where a tag that is asked for is not there.
        self.tags_remedy = ""
        self.log = SkipLog()
        self.notes: dict[str, None] = {}
        self.files: list[FileLog] = []
        self.unrated: list[tuple[int, str]] = []
        self.n_filtered = 0
        self.columns = AnswerColumns()
        self.tag_columns = TagColumns()
        self.retracted = Retractions()

    # -- rows in

    def begin(self, name: str, adapter: str = "", why: str = "") -> FileLog:
        """Start a file; what is added from now on is its."""
        base = PurePath(name).name
        clash = any(PurePath(file.name).name == base for file in self.files)
        apart = len(self.files) if clash else 0
        self.files.append(FileLog(name, adapter, why, len(self.columns), apart))
        return self.files[-1]

    def add(self, record: Record | Batch) -> None:
        """Take one record, or a batch of them."""
        if isinstance(record, Comparison):
            self._add_comparison(record)
        elif isinstance(record, Skipped):
            self._skip(record)
        elif isinstance(record, Batch):
            self._add_batch(record)
        elif isinstance(record, Note):
            self.notes[record.text] = None
        elif not isinstance(record, FullExport):
            raise DataError(f"is {record!r}; expected Comparison or Skipped")

    def _skip(self, record: Skipped) -> None:
        self.log.add(record)
        if record.key is not None:
            self._retract(record.key, record)
        self.files[-1].skip(record, strict=self.strict)

    def _add_comparison(self, record: Comparison) -> None:
        tags = record.tags
        if self.where or self.by is not None:
            tags = {**key_tags(record.slate or record.key), **(tags or {})}
            self.tags.update(list(tags))
        if not self._matches(tags):
            if record.version is not None:
                self._retract(record.slate or record.key, record)
            return
        answer = coded(record, self.items, self.raters)
        file = self.files[-1]
        if answer is None:
            self._skip(_itself(_place(record.key, file.name), record.left, record.right))
            if record.version is not None and record.slate is None:
                self._retract(record.key, record)
            return
        if answer["rater"] < 0 and len(self.unrated) < SKIPPED_KEPT:
            self.unrated.append((len(self.columns), _place(record.key, file.name)))
        if record.slate is None or record.slate != file.last_slate:
            file.n_answers += 1
        file.last_slate = record.slate
        # The pairs of one ranking are corrected together, whatever their own keys are.
        answer["key"] = self._key(record.key if record.slate is None else record.slate)
        if self.by is not None:
            answer["part"] = self.values[(tags or {})[self.by]]
        if record.tags:
            self.tag_columns.append(len(self.columns), record.tags)
        self.columns.append(answer)

    def _retract(self, key: str, by: Comparison | Skipped) -> None:
        self.retracted.add(self._key(key), by.at, by.version, len(self.columns))

    def _matches(self, tags: Mapping[str, str] | None) -> bool:
        found = tags or {}
        ok = all(found.get(tag) == value for tag, value in self.where.items())
        ok = ok and (self.by is None or bool(found.get(self.by)))
        self.n_filtered += not ok
        return ok

    def _key(self, key: str) -> int:
        file = self.files[-1]
        if file.apart and key.startswith(f"{PurePath(file.name).name}:"):
            return hash((file.apart, key)) or 1
        if not file.has_ids:
            base = PurePath(file.name).name
            file.has_ids = not key.startswith((f"{base}:", f"{file.name}:"))
        return hash(key) or 1

    def _add_batch(self, batch: Batch) -> None:
        n = len(batch.lines)
        file = self.files[-1]
        try:
            # Row by row, because names are numbered in the order in which they appear.
            both = chain.from_iterable(zip(batch.left, batch.right, strict=True))
            left, right = self.items.of_column(both, 2 * n).reshape(n, 2).T.copy()
            rater = self.raters.of_column(batch.rater, n)
            usable = not any(word in self.items for word in batch.reserved)
        except DataError:
            if batch.records is None:
                raise
            usable = False
        if not usable and batch.records:
            for record in batch.records():
                self.add(record)
            return
        outcome = np.frombuffer(batch.outcome, dtype=np.uint8)
        good = (left != right) & (outcome != NO_ANSWER)
        columns: Columns = {"rater": rater, "left": left, "right": right, "outcome": outcome}
        if batch.keys is not None:
            columns["key"] = key_hashes(batch.keys, n)
            file.has_ids = True
        if batch.at is not None:
            columns["at"] = np.array(batch.at, dtype=np.float64)
        lines: Any = batch.lines
        if not good.all():
            for i in np.flatnonzero(~good).tolist():
                where = f"{file.name}:{lines[i]}"
                name, other = as_text(batch.left[i]), as_text(batch.right[i])
                # Two names that only `rename` made one: that there is no winner was so before.
                itself = name == other or outcome[i] != NO_ANSWER
                self._skip(_itself(where, name, other) if itself else Skipped(where, NO_WINNER))
            columns = {name: column[good] for name, column in columns.items()}
            lines = np.asarray(lines)[good]
            if not len(lines):
                return
        self._note_unrated(columns["rater"], lines, file.name)
        self.tag_columns.extend(len(self.columns), batch.tags, good)
        file.n_answers += len(lines)
        self.columns.extend(len(lines), **columns)

    def _note_unrated(self, rater: NDArray[Any], lines: Any, name: str) -> None:
        room = SKIPPED_KEPT - len(self.unrated)
        if room > 0 and rater.size and rater.min() < 0:
            start = len(self.columns)
            for i in np.flatnonzero(rater < 0)[:room].tolist():
                self.unrated.append((start + i, f"{name}:{lines[i]}"))

    # -- arrays out

    def parts(self, max_skipped: float = 1.0) -> dict[str, dict[str, Any]]:
        """The fields of `Comparisons`, by value of the tag `by` ("" without one)."""
        columns = self.columns.arrays()
        tags = self.tag_columns.arrays(columns["key"].size)
        first = [*(log.first_row for log in self.files), columns["key"].size]
        file = np.repeat(np.arange(len(self.files)), np.diff(first))
        keep = self._skip_unrated(columns["rater"], columns["slate"], file)
        for log in self.files:
            log.check(max_skipped)
        self._check_tags()
        n_once = int(keep.sum())
        keyed = bool(_has_twins(columns["key"][columns["key"] != 0]))
        latests = (newest(columns, file) if keyed else None, self.retracted.of(columns))
        for latest in latests if self.merge else ():
            if latest is not None:
                keep &= latest
        n_kept = int(keep.sum())
        self._check_duplicates(columns, keep, file, max_skipped)
        if dropped := self._dropped():
            keep &= ~np.isin(columns["rater"], dropped)
        n_dropped = n_kept - int(keep.sum())
        for old in self.rename:
            if old not in self.items:
                self.notes[f"there is no item {old!r} to rename"] = None
        if not keep.any():
            raise DataError(self._why_nothing(n_dropped))
        self._note_combined()
        for codes in (self.items, self.raters):
            self._note_case(codes)
        if self.merge:
            self._note_twice(columns, tags, file)
        whole = {
            "skipped": tuple(self.log.first),
            "skip_reasons": MappingProxyType(dict(self.log.reasons)),
            "n_duplicates": n_once - n_kept,
            "n_dropped": n_dropped,
            "n_filtered": self.n_filtered,
            "warnings": tuple(self.notes),
            "tag_values": MappingProxyType(self.tag_columns.values()),
        }
        found = {}
        for code, value in enumerate(self.values.names if self.by is not None else ("",)):
            mine = keep if self.by is None else keep & (columns["part"] == code)
            if mine.any():
                counts = np.bincount(file[mine], minlength=len(self.files)).tolist()
                sources = tuple(
                    Source(f.name, f.adapter, f.why, n, f.n_skipped, f.sha256)
                    for f, n in zip(self.files, counts, strict=True)
                )
                wins = wins_of(
                    columns, mine, self.items.names, self.raters.names, tags, keyed=keyed
                )
                found[value] = wins | whole | {"sources": sources}
        return found

    def _note_combined(self) -> None:
        """Say that names such as `A+B` may be one output of two items."""
        names = set(self.items.names)
        combined = sorted(
            name for name in names
            if "+" in name and names.issuperset(part.strip() for part in name.split("+"))
        )  # fmt: skip
        if combined:
            n, first = counted(len(combined), "name"), combined[0]
            self.notes[
                f"{n} such as {first!r} combine names that occur alone as well; if they are one "
                "output of several items, say --adapter table -O split=+"
            ] = None

    def _note_twice(
        self, columns: Columns, tags: Mapping[str, NDArray[np.int32]], file: NDArray[Any]
    ) -> None:
        """Say where nearly every row is there exactly twice, and nothing tells them apart."""
        known = [log.has_ids or not log.n_answers for log in self.files]
        if all(known) or not len(self.raters.names) or not np.isnan(columns["at"]).all():
            return
        names = ("rater", "left", "right", "outcome", "slate")
        same: NDArray[Any] = np.zeros(file.size, dtype=np.int64)
        for column in (*(columns[name] for name in names), *tags.values()):
            same = _mixed(same, column)
        for name in ("weight", "time_s"):
            same = _mixed(same, columns[name].view(np.int64))
        for i, log in enumerate(self.files):
            mine = file == i
            rows = int(mine.sum())
            if known[i] or rows < _FEW_TWINS:
                continue
            _, times = np.unique(same[mine], return_counts=True)
            twice = 2 * int((times == 2).sum())
            if twice >= _NEARLY_ALL * rows:
                self.notes[
                    f"{log.name}: {twice / rows:.0%} of the rows are there exactly twice, rater "
                    "included, without ids or times: the votes may be stored twice; all of them "
                    "count"
                ] = None

    def _note_case(self, codes: RawCodes) -> None:
        """Say which names differ only in case."""
        first: dict[str, str] = {}
        twins = [(name, first.setdefault(name.casefold(), name)) for name in codes.names]
        twins = [(name, other) for name, other in twins if name != other]
        if twins:
            (name, other), kind = twins[0], codes.kind
            remedy = "; --rename makes them one" if kind == "item" else ""
            more = f", and {len(twins) - 1:,} more" if len(twins) > 1 else ""
            self.notes[
                f"{kind}s {other!r} and {name!r} differ only in case{more}: they count as two"
                f"{remedy}"
            ] = None

    def _check_duplicates(
        self, columns: Columns, keep: Mask, file: NDArray[Any], max_skipped: float
    ) -> None:
        """Refuse a file of which many rows are dropped as the same answer again.

        A tool that tells of versions knows what it says; and of several files each may hold all.
        """
        if not self.merge or max_skipped >= 1:
            return
        for i, log in enumerate(self.files):
            mine = (file == i) & np.isnan(columns["version"]) & (columns["key"] != 0)
            again = int((mine & ~keep).sum())
            if not again or again <= max(max_skipped * int((file == i).sum()), 1):
                continue
            single = mine & (columns["slate"] == 0)
            twins = again - (int(single.sum()) - np.unique(columns["key"][single]).size)
            if twins > 0:
                # The other files hold the same answers: that is what several exports are.
                again -= twins
            if again <= max(max_skipped * int((file == i).sum()), 1):
                continue
            raise FormatError(
                f"{again:,} of {int((file == i).sum()):,} rows are the same answer again: they "
                "have the id, the rater and the items of another row, so only the last would count",
                log.name,
                remedy="if each row is an answer of its own, drop or rename the column of the id; "
                "to keep the last one of each, allow it with --max-skipped 100% (in Python "
                "max_skipped=1)",
            )

    def _skip_unrated(self, rater: NDArray[Any], slate: NDArray[Any], file: NDArray[Any]) -> Mask:
        rated: Mask = rater >= 0
        if rated.all() or not rated.any():
            return np.ones(rater.size, dtype=np.bool_)
        for row, where in self.unrated:
            skipped = Skipped(where, UNRATED)
            if self.strict:
                raise _strict_error(skipped, self.files[file[row]].name)
            if len(self.log.first) < SKIPPED_KEPT:
                self.log.first.append(skipped)
        # A ranking is one answer, of many rows.
        counted_rows = ~rated
        counted_rows[1:] &= (slate[1:] == 0) | (slate[1:] != slate[:-1])
        self.log.reasons[UNRATED] += int(counted_rows.sum())
        counts = np.bincount(file[counted_rows], minlength=len(self.files)).tolist()
        for log, n in zip(self.files, counts, strict=True):
            if n:
                log.n_skipped += n
                log.n_answers -= n
                log.reasons[UNRATED] += n
        return rated

    def _check_tags(self) -> None:
        if not self.n_filtered or len(self.columns):
            return
        for tag in (*self.where, *([] if self.by is None else [self.by])):
            if tag not in self.tags:
                known = f"known: {listed(self.tags)}"
                meant = did_you_mean(tag, self.tags, known)
                raise UsageError(f"no row has a tag {tag!r}{meant}{self.tags_remedy}")
        wanted = ", ".join(f"{tag}={value}" for tag, value in self.where.items())
        raise DataError(
            f"none of the {self.n_filtered:,} answers has {wanted or self.by}; "
            "look at the values that the file has"
        )

    def _dropped(self) -> list[int]:
        known = self.raters.codes.code
        for name in self.drop_raters:
            if name not in known:
                meant = did_you_mean(name, known, f"known: {listed(known)}")
                raise UsageError(f"there is no rater {name!r} to drop{meant}")
        return [known[name] for name in self.drop_raters]

    def _why_nothing(self, n_dropped: int) -> str:
        if n_dropped:
            return f"there are no comparisons left: all {n_dropped:,} are of raters to be dropped"
        if not self.log.reasons:
            return "there are no comparisons; give at least one row that is not skipped"
        why = "; ".join(f"{n} × {reason}" for reason, n in self.log.reasons.most_common(3))
        return (
            f"there are no comparisons: all {self.log.reasons.total()} rows were skipped ({why}); "
            "correct the rows or give other data"
        )


def _place(key: str, name: str) -> str:
    base = f"{PurePath(name).name}:"
    return f"{name}:{key.removeprefix(base)}" if key.startswith(base) else f"{name}, key {key!r}"


def _strict_error(skipped: Skipped, name: str) -> FormatError:
    remedy = "correct the row, or read without strict to skip and count such rows"
    line = skipped.where.removeprefix(f"{name}:")
    if line.isdigit():
        return FormatError(skipped.reason, name, int(line), skipped.value, remedy)
    return FormatError(f"{skipped.where}: {skipped.reason}", None, None, skipped.value, remedy)


def _itself(where: str, left: str, right: str) -> Skipped:
    """A row of one item: by mistake, or because the user made one of the two."""
    if as_text(left) == as_text(right):
        return Skipped(where, AGAINST_ITSELF, left)
    return Skipped(where, MERGED, left, expected=True)


def key_hashes(keys: Sequence[str | int | float], n: int) -> NDArray[np.int64]:
    """The keys as numbers; 0 stands for no key."""
    if set(map(type, keys)) != {str}:
        keys = [as_text(key, "key") for key in keys]
    hashes = np.fromiter(map(hash, keys), dtype=np.int64, count=n)
    hashes[hashes == 0] = 1
    return hashes


def newest(columns: Columns, file: NDArray[Any]) -> Mask | None:
    """Which rows are the last word under their key; None if no key comes twice.

    The newest `version` wins, or `at` for want of one, else what comes later. A slate
    is one answer of many rows: it is taken from one file as a whole. Key 0 stands for no
    key. A key says nothing about other people or other items: an `id` may be that of a
    pair, which many have seen. Only who gives a version speaks of one answer that
    changes, its items and all, and tells it from others of that key by when it was made.
    """
    slate = columns["slate"] != 0
    keep = np.ones(slate.size, dtype=np.bool_)
    single = np.flatnonzero(~slate & (columns["key"] != 0))
    if _has_twins(columns["key"][single]):
        when = _when(columns)
        same = columns["key"]
        for name in ("rater", "left", "right"):
            same = _mixed(same, columns[name])
        keep[_older(same, single, when)] = False
        versioned = single[~np.isnan(columns["version"][single])]
        same = _mixed(columns["key"], columns["at"].view(np.int64))
        keep[_older(same, versioned, when)] = False
    many = np.flatnonzero(slate)
    if many.size and file[many].min() != file[many].max():
        _, group = np.unique(columns["key"][many], return_inverse=True)
        order = np.lexsort((many, _when(columns)[many], group))
        chosen = np.empty(int(group.max()) + 1, dtype=np.int64)
        chosen[group[order]] = file[many][order]
        keep[many] = file[many] == chosen[group]
    return None if keep.all() else keep


class Retractions:
    """Rows left out that take back what an older row said under the same key."""

    def __init__(self) -> None:
        # by key and time of creation: how new, and before which row it came
        self._last: dict[tuple[int, float | None], tuple[float, int]] = {}

    def add(self, key: int, at: float | None, version: float | None, row: int) -> None:
        """Take one; `row` is the number of answers before it."""
        when = next((time for time in (version, at) if time is not None), -inf)
        self._last[key, at] = max(self._last.get((key, at), (-inf, 0)), (when, row))

    def of(self, columns: Columns) -> Mask | None:
        """Which answers still stand; None if all do."""
        if not self._last:
            return None
        keys = np.array([key for key, _ in self._last], dtype=np.int64)
        rows = np.flatnonzero(np.isin(columns["key"], keys))
        when, at = _when(columns)[rows].tolist(), columns["at"][rows].tolist()
        key = columns["key"][rows].tolist()
        keep = np.ones(columns["key"].size, dtype=np.bool_)
        for i, row in enumerate(rows.tolist()):
            # NaN is not equal to itself.
            last = self._last.get((key[i], at[i] if at[i] == at[i] else None))
            keep[row] = last is None or (when[i], row) >= last
        return None if keep.all() else keep


def _when(columns: Columns) -> NDArray[np.float64]:
    """How new each row is."""
    version, at = columns["version"], columns["at"]
    return np.nan_to_num(np.where(np.isnan(version), at, version), nan=-np.inf)


def _older(same: NDArray[Any], rows: NDArray[Any], when: NDArray[Any]) -> NDArray[Any]:
    """Those of these rows, in ascending order, after which a newer one of the same comes."""
    same = same[rows]
    if not _has_twins(same):
        return rows[:0]
    order = np.lexsort((rows, when[rows], same))
    return np.asarray(rows[order[:-1][same[order][1:] == same[order][:-1]]])


def _has_twins(key: NDArray[Any]) -> bool:
    in_order = np.sort(key)
    return bool((in_order[1:] == in_order[:-1]).any())


def _mixed(key: NDArray[Any], code: NDArray[Any]) -> NDArray[Any]:
    """Both in one number: a step of the hash that SplitMix64 is made of."""
    mixed = (key.astype(np.uint64) ^ code.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed ^ (mixed >> np.uint64(29))).astype(np.int64)
