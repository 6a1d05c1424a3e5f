"""A prepared set: votes in Parquet files by raters, names coded once, and a manifest.

    votes.bbq/
      manifest.json               what is in the set, with counts and digests
      batch-0001-…/items.parquet  the names of items that this batch brought
      batch-0001-…/raters-003.parquet, votes-003.parquet    the same of part 3

Part p holds all answers of the raters whose name has the hash p. Equal rows are one, with their
number ``n``; a batch that retracts has negative numbers. So a part is the sum of its files, and
appending touches no old file.

DuckDB makes a set of votes within a memory limit. Names are coded first; then all rows are written
apart by the hash of their rater, and each part alone is summed and sorted. So no step holds more
than one part, or what DuckDB puts on disk.

What a row says is worked out once for each kind of row (two items and an outcome) and once for each
rater, never for each row: `kinds` and `rater_keys` have it, by the values as the files have them.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from bbq_plugin.data.clusters import found_tag
from bbq_plugin.data.database_table import export_csv, is_database
from bbq_plugin.data.dataset import (
    LEFT,
    MERGED,
    RIGHT,
    TIE,
    UNRATED,
    Comparisons,
    TooManySkippedError,
    identifies,
    wins_of,
)
from bbq_plugin.data.records import (
    AGAINST_ITSELF,
    BAD_WEIGHT,
    LEAST_WEIGHT,
    MOST_WEIGHT,
    NO_WINNER,
    Source,
)
from bbq_plugin.errors import DataError, FormatError, UnsupportedError, UsageError, did_you_mean
from bbq_plugin.text import brief, counted, listed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bbq_plugin.data.triples import Triples
    from bbq_plugin.model import Fit

    Columns = dict[str, NDArray[Any]]
    Progress = Callable[[int, int], object]

SCHEMA = "bbq.dataset/1"
MANIFEST = "manifest.json"
#: Besides the rows themselves: what --keep may name, and the columns that it keeps. Other names are
#: those of tags.
KEPT_COLUMNS = {"side": (), "time": ("time_s", "at")}
TAG = "tag "
REMEDY = "prepare the set again with bbq prepare"


class StoredFile(msgspec.Struct, frozen=True):
    """A file of the set, as it was written."""

    name: str
    rows: int
    size: int
    sha256: str


class PartFiles(msgspec.Struct, frozen=True):
    """What one batch has of one part."""

    votes: StoredFile
    raters: StoredFile | None
    #: How many answers the rows stand for.
    n_answers: int


class InputFile(msgspec.Struct, frozen=True):
    """A file that went in; without a digest where it was not on this machine."""

    file: str
    adapter: str
    why: str
    n_comparisons: int
    n_skipped: int
    sha256: str


class PreparedBatch(msgspec.Struct, frozen=True):
    """What one run of ``bbq prepare`` wrote."""

    folder: str
    retracts: bool
    n_comparisons: int
    n_ties: int
    inputs: tuple[InputFile, ...]
    skipped: dict[str, int]
    warnings: tuple[str, ...]
    items: StoredFile | None
    parts: dict[int, PartFiles]


class Manifest(msgspec.Struct, frozen=True):
    """All that is known of the set without opening its files."""

    schema: str
    keep: tuple[str, ...]
    has_raters: bool
    n_parts: int
    batches: tuple[PreparedBatch, ...] = ()


def is_prepared(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is a prepared set."""
    name = os.fspath(path)
    return "://" not in name and Path(name, MANIFEST).is_file()


def open_dataset(path: str | os.PathLike[str]) -> PreparedSet:
    """Open a set that ``bbq prepare`` wrote: a folder, or an address that fsspec knows."""
    return PreparedSet(os.fspath(path))


class PreparedSet:
    """A prepared set. Nothing is read but the manifest until it is asked for."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            told = _bytes(self.path, MANIFEST)
            #: Of the manifest, which has the digests of all files.
            self.digest = hashlib.sha256(told).hexdigest()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FormatError(
                "is no prepared set: it has no manifest.json", path, remedy="make one with bbq "
                "prepare"
            ) from error  # fmt: skip
        try:
            self.manifest = msgspec.json.decode(told, type=Manifest)
        except msgspec.MsgspecError as error:
            raise FormatError(
                f"the manifest cannot be read ({error})", f"{path}/{MANIFEST}", remedy=REMEDY
            ) from error
        if self.manifest.schema != SCHEMA:
            raise FormatError(
                f"the manifest has the schema {self.manifest.schema!r}; this version reads "
                f"{SCHEMA!r}", f"{path}/{MANIFEST}", remedy=REMEDY,
            )  # fmt: skip

    def __repr__(self) -> str:
        return f"<PreparedSet {self.path}: {self.n_comparisons} in {self.n_parts} parts>"

    @property
    def address(self) -> str:
        """Where a worker finds it, whatever folder that works in."""
        return self.path.rstrip("/") if "://" in self.path else str(Path(self.path).absolute())

    @property
    def n_parts(self) -> int:
        """Into how many parts the raters fall."""
        return self.manifest.n_parts

    @property
    def keep(self) -> tuple[str, ...]:
        """What was kept besides rater, items and outcome."""
        return self.manifest.keep

    @property
    def has_raters(self) -> bool:
        """Whether raters are known."""
        return self.manifest.has_raters

    @property
    def n_comparisons(self) -> int:
        """How many answers there are; retracted ones do not count."""
        return sum(b.n_comparisons * (-1 if b.retracts else 1) for b in self.manifest.batches)

    @property
    def n_rows(self) -> int:
        """How many rows the files have, equal ones of one batch being one."""
        return sum(p.votes.rows for b in self.manifest.batches for p in b.parts.values())

    @property
    def held(self) -> str:
        """What there is of each kind, in words."""
        return (
            f"{counted(self.n_comparisons, 'comparison')} of {counted(len(self.items), 'item')} by "
            f"{counted(self.n_raters, 'rater')} in {counted(self.n_rows, 'row')} and "
            f"{counted(self.n_parts, 'part')}"
        )

    @cached_property
    def items(self) -> tuple[str, ...]:
        """The names of all items, by code."""
        stored = [(b.folder, b.items) for b in self.manifest.batches]
        return tuple(
            name
            for folder, file in stored
            if file is not None
            for name in self._table(folder, file)["name"].to_pylist()
        )

    def n_raters_of(self, part: int) -> int:
        """How many raters a part has."""
        return sum(
            file.rows
            for batch in self.manifest.batches
            if part in batch.parts and (file := batch.parts[part].raters) is not None
        )

    @property
    def n_raters(self) -> int:
        """How many raters there are."""
        return sum(map(self.n_raters_of, range(self.n_parts)))

    def raters_of(self, part: int) -> list[str]:
        """The names of a part's raters, by code."""
        return [
            name
            for batch in self.manifest.batches
            if part in batch.parts and (file := batch.parts[part].raters) is not None
            for name in self._table(batch.folder, file)["name"].to_pylist()
        ]

    def _table(self, folder: str, file: StoredFile) -> Any:
        whole = f"{self.path.rstrip('/')}/{folder}/{file.name}"
        if "://" not in self.path and Path(whole).is_file():
            size = Path(whole).stat().st_size
            if size != file.size:
                raise FormatError(
                    f"has {size:,} bytes where the manifest says {file.size:,}", whole,
                    remedy="the file was changed or cut short: restore it, or prepare again",
                )  # fmt: skip
        return read_table(self.path, f"{folder}/{file.name}")

    def rows_of(self, part: int) -> Columns:
        """The rows of a part, sorted: codes of rater, winner and loser, and what was kept.

        Equal rows of several batches are summed, and those that were retracted are gone. A tag is
        an array of names, None where a row has no value.
        """
        tables = [
            self._table(batch.folder, batch.parts[part].votes)
            for batch in self.manifest.batches
            if part in batch.parts
        ]
        if not tables:
            return {}
        import pyarrow as pa  # noqa: PLC0415 (an extra)

        names = tables[0].column_names
        if len(tables) == 1 and not any(batch.retracts for batch in self.manifest.batches):
            return {name: _array(tables[0][name]) for name in names}
        whole = pa.concat_tables(tables)
        same = [name for name in names if name != "n"]
        whole = whole.group_by(same).aggregate([("n", "sum")])
        whole = whole.rename_columns([*same, "n"])
        whole = whole.filter(pa.compute.not_equal(whole["n"], 0))
        whole = whole.sort_by([(name, "ascending") for name in same])
        return {name: _array(whole[name]) for name in names}

    def triples_of(self, part: int, *, decided: bool, once: bool = False) -> Triples:
        """The weighted wins of a part's raters; ``decided``: without ties.

        ``once``: no answer counts more than once, as in `Comparisons.once`.
        """
        from bbq_plugin.data.triples import aggregate  # noqa: PLC0415 (numba loads slowly)

        rows = self.rows_of(part)
        n_raters = max(1, self.n_raters_of(part))
        if not rows:
            none = np.empty(0, dtype=np.int32)
            return aggregate(none, none, none, np.empty(0), n_raters, len(self.items))
        tied = rows["tie"] != 0
        weight = (np.minimum(rows["weight"], 1.0) if once else rows["weight"]) * rows["n"]
        wins = ~tied
        names = "rater", "winner", "loser"
        rater, winner, loser = (rows[name][wins] for name in names)
        weight, tied_weight = weight[wins], 0.5 * weight[tied]
        if not decided and tied.any():
            who, one, other = (rows[name][tied] for name in names)
            rater = np.concatenate((rater, who, who))
            winner, loser = (
                np.concatenate((a, b, c)) for a, b, c in ((winner, one, other), (loser, other, one))
            )
            weight = np.concatenate((weight, tied_weight, tied_weight))
        return aggregate(rater, winner, loser, weight, n_raters, len(self.items))

    def read(
        self,
        *,
        where: Mapping[str, str] | None = None,
        rename: Mapping[str, str] | None = None,
        drop_raters: Iterable[str] = (),
    ) -> Comparisons:
        """All of it in memory, as the files themselves would be read.

        What was not kept is not known; each answer is a row again.
        """
        (found,) = self.read_by(None, where=where, rename=rename, drop_raters=drop_raters).values()
        return found

    def read_by(
        self,
        tag: str | None,
        *,
        where: Mapping[str, str] | None = None,
        rename: Mapping[str, str] | None = None,
        drop_raters: Iterable[str] = (),
    ) -> dict[str, Comparisons]:
        """The same, split by the value of a tag that was kept; None: all in one, under ""."""
        for name in (*(where or ()), *(() if tag is None else (tag,))):
            if name not in self.keep or name in KEPT_COLUMNS:
                kept = [name for name in self.keep if name not in KEPT_COLUMNS]
                raise UsageError(
                    f"{self.path} has not kept a tag {name!r} (kept: {listed(kept)}); prepare the "
                    f"set with --keep {','.join((*self.keep, name))}"
                )
        rows, raters = self._all_rows(), self.all_raters()
        keep = np.ones(rows["n"].size, dtype=np.bool_)
        for name, value in (where or {}).items():
            keep &= rows[TAG + name] == value
        if tag is not None:
            keep &= np.array([value is not None for value in rows[TAG + tag].tolist()], np.bool_)
        n_filtered = int(rows["n"][~keep].sum())
        dropped = _dropped(raters, drop_raters)
        gone = keep & np.isin(rows["rater"], dropped)
        keep &= ~gone
        n_dropped = int(rows["n"][gone].sum())
        items, code, merged = _renamed(self.items, rename or {})
        rows["winner"], rows["loser"] = code[rows["winner"]], code[rows["loser"]]
        itself = keep & (rows["winner"] == rows["loser"])
        keep &= ~itself
        if not keep.any():
            raise DataError(f"{self.path}: there are no comparisons left; give other filters")
        batches = self.manifest.batches
        reasons: dict[str, int] = {}
        for batch in batches:
            for why, n in batch.skipped.items():
                reasons[why] = reasons.get(why, 0) + n
        if itself.any():
            reasons[MERGED] = int(rows["n"][itself].sum())
        common = {
            "n_filtered": n_filtered,
            "n_dropped": n_dropped,
            "skip_reasons": MappingProxyType(reasons),
            "sources": self.sources,
            "warnings": (*self.warnings, *merged),
        }
        values = [""] if tag is None else sorted(set(rows[TAG + tag][keep]))
        masks = {v: keep if tag is None else keep & (rows[TAG + tag] == v) for v in values}
        return {
            value: Comparisons(**self._wins({k: c[mine] for k, c in rows.items()}, items, raters)
                               | common)
            for value, mine in masks.items()
        }  # fmt: skip

    def by(self, engine: Any) -> SetByEngine:
        """The same, to be fitted by an engine that is open already."""
        return SetByEngine(self, engine)

    def fitted(self, engine: Any = None, **chosen: Any) -> Fit:
        """Fit a model part by part; `bbq.fit` calls it."""
        from bbq_plugin.scale.engines import opened_engine  # noqa: PLC0415 (numba loads slowly)
        from bbq_plugin.scale.parted_fit import fitted  # noqa: PLC0415

        with opened_engine(engine) as where:
            found = fitted(self, where, **chosen)
            if isinstance(engine, str):
                # The cluster ends here: what needs all raters is computed before.
                found.complete()
        found.forget_passes()
        return found

    @property
    def sources(self) -> tuple[Source, ...]:
        """The files that went in."""
        return tuple(
            Source(f.file, f.adapter, f.why, f.n_comparisons, f.n_skipped, f.sha256)
            for batch in self.manifest.batches
            for f in batch.inputs
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader of the results should know."""
        return tuple(dict.fromkeys(w for batch in self.manifest.batches for w in batch.warnings))

    def all_raters(self) -> tuple[str, ...]:
        """The names of all raters, part by part."""
        return tuple(name for part in range(self.n_parts) for name in self.raters_of(part))

    def part(self, part: int) -> Comparisons:
        """The answers of a part's raters, with all items of the set."""
        rows, raters = self.rows_of(part), tuple(self.raters_of(part))
        if not rows:
            none = np.empty(0, dtype=np.int32)
            return Comparisons(none, none, none, np.empty(0), self.items, raters, True, 0)  # noqa: FBT003
        found = self._wins(rows, self.items, raters)
        # Codes are those of the whole set, also where this part has only some items.
        for names, columns in (("items", ("winner", "loser")), ("raters", ("rater",))):
            whole = {"items": self.items, "raters": raters}[names]
            place = {name: code for code, name in enumerate(whole)}
            code = np.array([place[name] for name in found[names]], dtype=np.int32)
            for column in columns:
                found[column] = code[found[column]]
            per = {
                "items": ("left_excess", "both_bad_rate"),
                "raters": ("left_rate", "median_time_s"),
            }
            for column in per[names]:
                if found[column] is not None:
                    empty = np.nan if found[column].dtype.kind == "f" else 0
                    filled = np.full(len(whole), empty, found[column].dtype)
                    filled[code] = found[column]
                    found[column] = filled
            found[names] = whole
        return Comparisons(**found)

    def _all_rows(self) -> Columns:
        """The rows of all parts, raters coded across them."""
        found, first = [], 0
        for part in range(self.n_parts):
            rows = self.rows_of(part)
            if rows:
                rows["rater"] = rows["rater"] + np.int32(first)
                found.append(rows)
            first += self.n_raters_of(part)
        if not found:
            raise DataError(f"{self.path}: the set is empty; append votes with bbq prepare")
        return {name: np.concatenate([rows[name] for rows in found]) for name in found[0]}

    def _wins(self, rows: Columns, items: tuple[str, ...], raters: tuple[str, ...]) -> Any:
        """The fields of `Comparisons`; a row that stands for n answers becomes n rows again."""
        row = np.repeat(np.arange(rows["n"].size), rows["n"])
        winner, loser, side, tie = (rows[k][row] for k in ("winner", "loser", "side", "tie"))
        right = side < 0
        size, nan = row.size, np.full(row.size, np.nan)
        apart = (side == 0).astype(np.int8)
        columns: Columns = {
            "rater": rows["rater"][row] if self.has_raters else np.full(size, -1, np.int32),
            "left": np.where(right, loser, winner),
            "right": np.where(right, winner, loser),
            "outcome": np.where(tie > 0, tie + (TIE - 1), np.where(right, RIGHT, LEFT)),
            "weight": rows["weight"][row],
            "time_s": rows["time_s"][row] if "time_s" in rows else nan,
            "at": rows["at"][row] if "at" in rows else nan,
            # No side is known of these, as of the pairs of a ranking; what these were is not kept.
            "slate": apart,
            "gold": np.zeros(size, np.int8), "kept": np.zeros(size, np.int8),
        }  # fmt: skip
        tags, values = {}, {}
        for name in rows:
            if name.startswith(TAG):
                code, names = _coded(rows[name])
                if not identifies(len(names), size):
                    tag = name.removeprefix(TAG)
                    tags[tag], values[tag] = code[row], names
        found = wins_of(columns, np.ones(size, dtype=np.bool_), items, raters, tags)
        found["tag_values"] = MappingProxyType(values)
        if found.get("answers") is not None:
            # Equal rows were summed and sorted: only times tell the order of the answers.
            answers = found["answers"]
            found["answers"] = replace(answers, slate=None, ordered=answers.dated)
            if apart.all():
                found["answers"] = replace(found["answers"], side=None)
        return found


@dataclass(frozen=True, slots=True)
class SetByEngine:
    """A prepared set and the engine that fits it; its passes are kept until `forget_passes`."""

    data: PreparedSet
    engine: Any

    def fitted(self, engine: Any = None, **chosen: Any) -> Fit:
        """Fit a model part by part; `bbq.fit` calls it."""
        from bbq_plugin.scale.parted_fit import fitted  # noqa: PLC0415 (numba loads slowly)

        return fitted(self.data, engine or self.engine, **chosen)

    def forget_passes(self) -> None:
        """All that was wanted of the fit is done."""
        from bbq_plugin.scale.parted_fit import passes_of  # noqa: PLC0415 (numba loads slowly)

        passes_of(self.data).forget()


def _bytes(path: str, name: str) -> bytes:
    if "://" not in path:
        return Path(path, name).read_bytes()
    whole = f"{path.rstrip('/')}/{name}"
    try:
        import fsspec  # noqa: PLC0415 (for object stores alone)

        with fsspec.open(whole, "rb") as file:
            found: bytes = file.read()
    except FileNotFoundError:
        raise
    except ImportError as error:  # of the library for this kind of store, which fsspec names
        raise UnsupportedError(f"{whole} cannot be read: {error}") from error
    except (OSError, ValueError) as error:
        raise FormatError(
            f"cannot be read ({error})", whole, remedy="check the address and the credentials"
        ) from error
    return found


def read_table(path: str, name: str) -> Any:
    """A Parquet file below a folder or an address."""
    import pyarrow as pa  # noqa: PLC0415 (an extra)
    import pyarrow.parquet as pq  # noqa: PLC0415

    whole = f"{path.rstrip('/')}/{name}"
    try:
        local = "://" not in path
        return pq.read_table(whole if local else pa.BufferReader(_bytes(path, name)))
    except FileNotFoundError as error:
        raise FormatError("is missing from the set", whole, remedy=REMEDY) from error
    except pa.ArrowInvalid as error:
        raise FormatError(f"cannot be read ({error})", whole, remedy=REMEDY) from error


def _array(column: Any) -> NDArray[Any]:
    return np.asarray(column.to_numpy())


def _coded(values: NDArray[Any]) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Codes of names, -1 for None, and the names."""
    import pyarrow as pa  # noqa: PLC0415 (an extra)

    found = pa.array(values, pa.string()).dictionary_encode()
    codes = np.asarray(found.indices.fill_null(-1).to_numpy(), dtype=np.int32)
    return codes, tuple(found.dictionary.to_pylist())


def _dropped(raters: tuple[str, ...], names: Iterable[str]) -> list[int]:
    code = {name: r for r, name in enumerate(raters)} if names else {}
    for name in names:
        if name not in code:
            meant = did_you_mean(name, code, f"known: {listed(code)}")
            raise UsageError(f"there is no rater {name!r} to drop{meant}")
    return [code[name] for name in names]


def _renamed(
    items: tuple[str, ...], rename: Mapping[str, str]
) -> tuple[tuple[str, ...], NDArray[np.int32], tuple[str, ...]]:
    """The names after renaming, the new code of each old one, and what to say of it."""
    new: dict[str, int] = {}
    code = [new.setdefault(rename.get(name, name), len(new)) for name in items]
    known = frozenset(items)
    missing = tuple(f"there is no item {old!r} to rename" for old in rename if old not in known)
    return tuple(new), np.array(code, dtype=np.int32), missing


def needs_extra(error: ImportError) -> UnsupportedError:
    """What to install where a library of the extra is missing."""
    return UnsupportedError(
        f"{error.name or error} is not installed; install it with: pip install 'bbq-plugin[scale]'"
    )


#: Rows of a part, where the number of parts is not given: about 200 MB while it is fitted.
ROWS_OF_A_PART = 1_500_000
LEAST_PARTS, MOST_PARTS = 4, 4096
NO_NAME = "an item without a name"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT])(i?)B", re.IGNORECASE)
#: Of the memory that was allowed; the rest is for what DuckDB does not count, and for Arrow.
_SHARE_OF_DUCKDB = 0.75

#: What a column of a lake may be: as the adapter of tables calls it.
ROLES = ("rater", "left", "right", "winner", "loser", "weight", "time", "at", "values")
#: What the values of a column of outcomes mean, as codes: left, right, tie, both bad.
_WORDS = {
    "left": 0, "model_a": 0, "right": 1, "model_b": 1, "tie": 2, "both_bad": 3, "tie (bothbad)": 3,
}  # fmt: skip
_LAKE = (".parquet", ".csv", ".csv.gz")
# What may stand around a name.
_BLANKS = "' \t\r\n\u00a0'"


def checked_keep(keep: Sequence[str]) -> tuple[str, ...]:
    """What to keep: ``side``, ``time`` or names of tags; ``none`` stands alone."""
    names = tuple(dict.fromkeys(name.strip() for name in keep))
    if names == ("none",):
        return ()
    if not all(names) or "none" in names:
        raise UsageError(
            f"keep={','.join(keep)!r}: expected names such as side,scene,time, or none"
        )
    return names


def memory_bytes(limit: str) -> int:
    """A size such as 2GB or 500MB."""
    told = _SIZE.fullmatch(limit.strip())
    if not told:
        raise UsageError(f"memory={limit!r}: expected a size such as 2GB or 500MB")
    number, letter, binary = told.groups()
    return int(float(number) * (1024 if binary else 1000) ** ("KMGT".index(letter.upper()) + 1))


def from_lake(files: Sequence[str], roles: Mapping[str, Any], adapter: str | None) -> bool:
    """Whether DuckDB can read these files itself: tables whose columns are all named."""
    # An answer that is to be skipped is known to the adapter of tables alone.
    skips = "skip" in (roles.get("values") or {}).values()
    return all_named(files, roles, adapter) and not skips and not any(map(_is_utf16, files))


def all_named(files: Sequence[str], roles: Mapping[str, Any], adapter: str | None) -> bool:
    """Whether these are tables whose columns are all named."""
    tables = bool(files) and all(name.lower().endswith(_LAKE) for name in files)
    return tables and _all_named(roles, adapter)


def _is_utf16(name: str) -> bool:
    """Whether a file begins as UTF-16 does, which DuckDB does not read."""
    path = Path(name)
    if not name.lower().endswith(".csv") or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(2) in (BOM_UTF16_LE, BOM_UTF16_BE)


def from_database(files: Sequence[str], roles: Mapping[str, Any], adapter: str | None) -> bool:
    """Whether this is a table of a database whose columns are all named."""
    one = len(files) == 1 and is_database(files[0])
    return one and _all_named({k: v for k, v in roles.items() if k != "table"}, adapter)


def _all_named(roles: Mapping[str, Any], adapter: str | None) -> bool:
    named = "loser" in roles or {"left", "right"} <= roles.keys()
    return named and "winner" in roles and adapter in (None, "table") and (
        roles.keys() <= set(ROLES)
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Preparation:
    """How a set is to be written."""

    folder: Path
    keep: tuple[str, ...] = ("side",)
    parts: int | None = None
    memory: str = "2GB"
    retract: bool = False
    strict: bool = False
    max_skipped: float = 0.01
    #: Told how many steps of how many are done.
    progress: Progress = field(default=lambda _done, _of: None)


def prepare_database(address: str, roles: Mapping[str, Any], how: Preparation) -> PreparedSet:
    """Read the columns of a database's table into a file first, and that by DuckDB."""
    roles = dict(roles)
    table = roles.pop("table", None)
    wanted = {role: column for role, column in roles.items() if role != "values"}
    wanted |= {f"--keep {tag}": tag for tag in how.keep if tag not in KEPT_COLUMNS}
    with tempfile.TemporaryDirectory(prefix=f".{how.folder.name}-", dir=how.folder.parent) as place:
        file = Path(place, "table.csv")
        name = export_csv(address, table, file, wanted)
        return prepare_lake([str(file)], roles, how, [name])


def prepare_lake(
    files: Sequence[str], roles: Mapping[str, Any], how: Preparation,
    names: Sequence[str] | None = None,
) -> PreparedSet:  # fmt: skip
    """Read Parquet or CSV files by DuckDB; ``roles`` names their columns.

    ``names``: what the files are called on the record.
    """
    with _database(how) as db:
        inputs = [
            (name, digest)
            for name, (_, digest) in zip(names or files, _digests(files), strict=True)
        ]
        _check_new(how, inputs)
        _lake_view(db, files, roles, how.keep)
        n_ok, skipped = _checked_rows(db, files, roles, how)
        told = [
            InputFile(name, "duckdb", "columns as named", n_ok if one else 0,
                      sum(skipped.values()) if one else 0, digest)
            for one, (name, digest) in zip([True] + [False] * len(inputs), inputs, strict=False)
        ]  # fmt: skip
        return _written(db, how, tuple(told), skipped, ())


def prepare_comparisons(data: Comparisons, how: Preparation) -> PreparedSet:
    """Write answers that were read already."""
    for name in how.keep:
        if name not in KEPT_COLUMNS and name not in data.tag_values:
            raise UsageError(
                f"--keep {name}: the files have no such tag"
                f"{did_you_mean(name, data.tag_values, f'they have: {listed(data.tag_values)}')}"
            )
    inputs = tuple(
        InputFile(s.file, s.adapter, s.why, s.n_comparisons, s.n_skipped, s.sha256)
        for s in data.sources
    )
    _check_new(how, [(one.file, one.sha256) for one in inputs])
    warnings, answers = list(data.warnings), data.answers
    if answers is not None and answers.slate is not None:
        warnings.append(
            "rankings and choices were prepared as single pairs: which of them are one answer is "
            "not kept, so intervals and verdicts take each pair as an answer of its own"
        )
    tag = found_tag(data)
    if tag is not None and tag not in how.keep:
        warnings.append(
            f"answers about one {tag} belong together, and {tag} is not kept: intervals will take "
            f"them as independent; to keep it: --keep {','.join((*how.keep, tag))}"
        )
    if data.n_both_bad:
        warnings.append("answers 'both are bad' were prepared as ties")
    with _database(how) as db:
        _arrow_view(db, data, how.keep)
        return _written(db, how, inputs, dict(data.skip_reasons), tuple(warnings))


# -- what comes in


def _ident(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


@contextmanager
def _database(how: Preparation) -> Iterator[Any]:
    """A database of its own, whose temporary files stand beside the set."""
    try:
        import duckdb  # noqa: PLC0415 (an extra)
        import pyarrow  # noqa: F401, ICN001, PLC0415
    except ImportError as error:
        raise needs_extra(error) from error
    parent = how.folder.parent
    if not parent.is_dir():
        raise UsageError(f"there is no folder {str(parent)!r}; create it first")
    if how.folder.exists() and not is_prepared(how.folder) and any(how.folder.iterdir()):
        raise UsageError(f"{how.folder} is no prepared set and not empty; name another folder")
    scratch = tempfile.mkdtemp(prefix=f".{how.folder.name}-", dir=parent)
    try:
        with duckdb.connect() as db:
            allowed = int(_SHARE_OF_DUCKDB * memory_bytes(how.memory)) // 1000
            db.execute(f"SET memory_limit = '{allowed}KB'")
            db.execute(f"SET temp_directory = {_text(f'{scratch}/spill')}")
            db.execute("SET preserve_insertion_order = false")
            db.execute("SET enable_progress_bar = false")
            db.execute(f"CREATE TEMP TABLE scratch AS SELECT {_text(scratch)} AS folder")
            yield db
    except duckdb.OutOfMemoryException as error:
        raise UnsupportedError(
            f"the memory limit of {how.memory} does not suffice; allow more with --memory, or "
            "make more parts with --parts"
        ) from error
    except duckdb.Error as error:
        said = str(error).partition("\n")[0]
        raise FormatError(f"DuckDB cannot read this ({said})", remedy="check files and columns") \
            from error  # fmt: skip
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _digests(files: Sequence[str]) -> list[tuple[str, str]]:
    """The files and their SHA-256; none of what is not on this machine."""
    found = []
    for name in files:
        digest = ""
        if "://" not in name:
            try:
                with Path(name).open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise FormatError(
                    f"cannot be read ({error.strerror})", name, remedy="check the path"
                ) from error
        found.append((name, digest))
    return found


def _check_new(how: Preparation, inputs: Sequence[tuple[str, str]]) -> None:
    """Refuse a file that is in the set already: its votes would count twice."""
    if how.retract or not is_prepared(how.folder):
        return
    known = {s.sha256: s.file for s in PreparedSet(str(how.folder)).sources if s.sha256}
    for name, digest in inputs:
        if digest in known:
            raise FormatError(
                f"is in {how.folder} already (as {known[digest]})", name,
                remedy="leave it out; --retract takes its votes back",
            )  # fmt: skip


def _lake_view(
    db: Any, files: Sequence[str], roles: Mapping[str, Any], keep: Sequence[str]
) -> None:
    """The view `votes`: one row a vote, with the reason if it is to be left out."""
    listed_files = ", ".join(map(_text, files))
    if files[0].lower().endswith(".parquet"):
        source = f"read_parquet([{listed_files}], union_by_name = true)"
    else:
        source = f"read_csv([{listed_files}], all_varchar = true, union_by_name = true)"
    kinds = {
        row[0]: str(row[1]) for row in db.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
    }
    tags = [name for name in keep if name not in KEPT_COLUMNS]
    for what, column in [*((role, roles[role]) for role in roles if role != "values"),
                         *(("--keep", tag) for tag in tags)]:  # fmt: skip
        if column not in kinds:
            hint = did_you_mean(column, kinds, f"there are: {listed(kinds)}")
            raise FormatError(f"{what}={column}: there is no such column{hint}", files[0])

    def name_of(value: str, column: str) -> str:
        """A name as text without blanks around it; whole numbers without .0; blank text is none."""
        text = f"CAST({value} AS VARCHAR)"
        if kinds[column] in ("DOUBLE", "FLOAT"):
            whole = f"CAST(CAST({value} AS HUGEINT) AS VARCHAR)"
            text = f"CASE WHEN {value} = floor({value}) THEN {whole} ELSE {text} END"
        return f"nullif(trim({text}, {_BLANKS}), '')"

    def number_of(role: str, otherwise: str) -> str:
        return f"TRY_CAST({_ident(roles[role])} AS DOUBLE)" if role in roles else otherwise

    who, of = roles.get("rater"), ("winner", "loser") if "loser" in roles else ("left", "right")
    columns = {
        "rater": _ident(who) if who else "CAST(NULL AS VARCHAR)",
        "first": _ident(roles[of[0]]), "second": _ident(roles[of[1]]),
        "word": "''" if "loser" in roles else _ident(roles["winner"]),
        "weight": number_of("weight", "CAST(1 AS DOUBLE)"),
        "time_s": number_of("time", "CAST(NULL AS DOUBLE)"),
        "at": _moment(roles, kinds),
        **{TAG + tag: name_of(_ident(tag), tag) for tag in tags},
    }  # fmt: skip
    chosen = ", ".join(f"{sql} AS {_ident(name)}" for name, sql in columns.items())
    # A text file is read once: to look into it again costs as much as the first time.
    kind = "VIEW" if files[0].lower().endswith(".parquet") else "TABLE"
    db.execute(f"CREATE TEMP {kind} named AS SELECT {chosen} FROM {source}")
    name = name_of("rater", who) if who else "rater"
    db.execute(
        f"CREATE TEMP TABLE rater_keys AS SELECT rater, {name} AS name "
        "FROM (SELECT DISTINCT rater FROM named WHERE rater IS NOT NULL)"
    )
    nobody = "rater IS NULL"
    if db.execute("SELECT count(*) FROM rater_keys WHERE name IS NULL").fetchone()[0]:
        nobody = f"{name} IS NULL"
    names = {"first": name_of("first", roles[of[0]]), "second": name_of("second", roles[of[1]]),
             "word": "word" if "loser" in roles else name_of("word", roles["winner"])}  # fmt: skip
    named = ", ".join(f"{one} AS raw_{one}, {sql} AS {one}" for one, sql in names.items())
    bad = f"NOT coalesce(weight BETWEEN {LEAST_WEIGHT} AND {MOST_WEIGHT}, false)"
    db.execute(
        f"CREATE TEMP TABLE counted AS SELECT {named}, odd, nobody, n FROM ("
        f"SELECT first, second, word, {bad} AS odd, {nobody} AS nobody, count(*) AS n "
        "FROM named GROUP BY ALL)"
    )
    said = "0" if "loser" in roles else _outcome_sql(roles.get("values") or {})
    reason = (
        f"CASE WHEN first IS NULL OR second IS NULL THEN {_text(NO_NAME)} "
        f"WHEN first = second THEN {_text(AGAINST_ITSELF)} "
        f"WHEN said IS NULL THEN {_text(NO_WINNER)} WHEN odd THEN {_text(BAD_WEIGHT)} END"
    )
    db.execute(
        f"CREATE TEMP VIEW told AS SELECT *, {reason} AS reason "
        f"FROM (SELECT *, {said} AS said FROM counted)"
    )


def _moment(roles: Mapping[str, Any], kinds: Mapping[str, str]) -> str:
    if "at" not in roles:
        return "CAST(NULL AS DOUBLE)"
    column = _ident(roles["at"])
    if kinds[roles["at"]].startswith(("TIMESTAMP", "DATE")):
        return f"epoch({column})"
    return f"coalesce(TRY_CAST({column} AS DOUBLE), epoch(TRY_CAST({column} AS TIMESTAMP)))"


def _outcome_sql(values: Mapping[str, str]) -> str:
    """Who won, as a code: NULL if nothing is said, -1 if it is not known what that means.

    A word that is an outcome and the name of an item too is not known, unless ``values`` has it.
    """
    for word, meaning in values.items():
        if meaning not in _WORDS:
            raise UsageError(
                f"values: {word!r} is to mean {meaning!r}; expected left, right, tie or both_bad"
            )
    told = "".join(f" WHEN {_is_word(w)} THEN {_WORDS[m]}" for w, m in values.items())
    words = "".join(
        f" WHEN word = {_text(word)} THEN CASE WHEN (word = first AND {code} <> 0) "
        f"OR (word = second AND {code} <> 1) THEN -1 ELSE {code} END"
        for word, code in _WORDS.items()
    )
    return (
        f"CASE WHEN word IS NULL THEN NULL{told}{words} WHEN word = first THEN 0 "
        "WHEN word = second THEN 1 ELSE -1 END"
    )


def _is_word(word: str) -> str:
    """Whether this stands there; a number as 1, 1.0 or 1.00."""
    try:
        number = float(word)
    except ValueError:
        return f"word = {_text(word)}"
    return f"(word = {_text(word)} OR TRY_CAST(word AS DOUBLE) = {_text(repr(number))}::DOUBLE)"


def _checked_rows(
    db: Any, files: Sequence[str], roles: Mapping[str, Any], how: Preparation
) -> tuple[int, dict[str, int]]:
    """Count what is left out and why; refuse what is not known, and too much of it."""
    counts = db.execute(
        "SELECT reason, said = -1, nobody, sum(n)::BIGINT, min(word) FROM told GROUP BY 1, 2, 3"
    ).fetchall()
    where = files[0] if len(files) == 1 else None
    skipped: dict[str, int] = {}
    rated = unrated = 0
    for reason, unknown, nobody, n, word in counts:
        if reason is not None:
            skipped[reason] = skipped.get(reason, 0) + n
        elif unknown:
            raise FormatError(
                f"{roles['winner']} is {brief(word)} in {n:,} rows, and it is not known who won "
                "then", where, value=word, remedy="say what it means with -O values, such as "
                f"-O values='{word}=left' (left, right, tie or both_bad)",
            )  # fmt: skip
        elif nobody:
            unrated += n
        else:
            rated += n
    if rated and unrated:
        skipped[UNRATED] = unrated
    n_ok, n_out = rated or unrated, sum(skipped.values())
    if not n_ok:
        why = "; ".join(f"{n:,} × {reason}" for reason, n in skipped.items()) or "it has no rows"
        raise FormatError(f"there are no comparisons ({why})", where, remedy="give other files")
    if how.strict and n_out:
        raise FormatError(
            f"{n_out:,} rows cannot be used ({listed(skipped)})", where,
            remedy="correct them, or prepare without --strict",
        )  # fmt: skip
    if n_out > max(how.max_skipped * (n_ok + n_out), how.max_skipped > 0):
        name = where or f"{len(files)} files"
        raise TooManySkippedError(name, "duckdb", skipped, n_ok + n_out, how.max_skipped)
    # A tie has no winner: the first name of the two stands there, so that equal ties are one row.
    side = int("side" in how.keep and "loser" not in roles)
    swap = "(said = 1 OR (said > 1 AND first > second))"
    db.execute(
        "CREATE TEMP TABLE kinds AS SELECT DISTINCT raw_first AS first, raw_second AS second, "
        "raw_word AS word, "
        f"if({swap}, second, first) AS winner, if({swap}, first, second) AS loser, "
        "CAST(greatest(said - 1, 0) AS TINYINT) AS tie, "
        f"CAST(if({swap}, -1, 1) * {side} AS TINYINT) AS side FROM told WHERE reason IS NULL"
    )
    more = [c for name in how.keep for c in KEPT_COLUMNS.get(name, (TAG + name,))]
    chosen = "".join(f", {_ident(name)}" for name in ("first", "second", "word", "weight", *more))
    conditions = []
    if n_out:
        if rated:
            # Of blank names too.
            db.execute("DELETE FROM rater_keys WHERE name IS NULL")
            conditions.append("rater IN (SELECT rater FROM rater_keys)")
        conditions.append(f"weight BETWEEN {LEAST_WEIGHT} AND {MOST_WEIGHT}")
        conditions.append("(first, second, word) IN (SELECT (first, second, word) FROM kinds)")
    where_sql = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    db.execute(f"CREATE TEMP VIEW votes AS SELECT rater{chosen} FROM named{where_sql}")
    return n_ok, skipped


def _arrow_view(db: Any, data: Comparisons, keep: Sequence[str]) -> None:
    """The same of answers in memory, in codes.

    The second half of a tie is left out, the first counts all.
    """
    import pyarrow as pa  # noqa: PLC0415 (an extra)

    known = data.answers
    half: NDArray[np.int8] = np.zeros(data.winner.size, np.int8)
    if known is not None and known.half is not None:
        half = known.half
    once = half < 2
    tie = half[once]
    winner, loser = data.winner[once], data.loser[once]
    swap = (tie > 0) & (winner > loser)
    winner, loser = np.where(swap, loser, winner), np.where(swap, winner, loser)
    side: NDArray[np.int8] = np.zeros(tie.size, np.int8)
    if "side" in keep and known is not None and known.side is not None:
        side = known.side[once]
    columns: dict[str, Any] = {
        "first": winner, "second": loser, "word": 3 * tie + side + 1,
        "weight": data.weight[once] * np.where(tie > 0, 2.0, 1.0), "who": data.rater[once],
    }  # fmt: skip
    more = [c for name in keep for c in KEPT_COLUMNS.get(name, (TAG + name,))]
    for name in more:
        if name.startswith(TAG):
            tag = name.removeprefix(TAG)
            values = np.array([*data.tag_values[tag], None], dtype=object)
            columns[name] = pa.array(values[data.tags[tag][once]], pa.string())
        else:
            found = None if known is None else getattr(known, name)
            filled = np.full(tie.size, np.nan) if found is None else found[once].astype(np.float64)
            columns[name] = pa.array(filled, from_pandas=True)
    db.register("rows", pa.table(columns))
    db.register("item_names", _names(data.items))
    db.register("rater_names", _names(data.raters))
    kept = "".join(f", {_ident(name)}" for name in more)
    rater = "who" if data.has_raters else "CAST(NULL AS INTEGER)"
    db.execute(
        f"CREATE TEMP VIEW votes AS SELECT {rater} AS rater, first, second, word, weight{kept} "
        "FROM rows"
    )
    db.execute("CREATE TEMP VIEW rater_keys AS SELECT code AS rater, name FROM rater_names")
    db.execute(
        "CREATE TEMP TABLE kinds AS SELECT first, second, word, w.name AS winner, l.name AS loser, "
        "CAST(word // 3 AS TINYINT) AS tie, CAST(word % 3 - 1 AS TINYINT) AS side "
        "FROM (SELECT DISTINCT first, second, word FROM rows) "
        "JOIN item_names AS w ON w.code = first JOIN item_names AS l ON l.code = second"
    )


def _names(names: Sequence[str]) -> Any:
    import pyarrow as pa  # noqa: PLC0415 (an extra)

    return pa.table(
        {"code": np.arange(len(names), dtype=np.int32), "name": pa.array(names, pa.string())}
    )


# -- what goes out


def _written(
    db: Any, how: Preparation, inputs: tuple[InputFile, ...], skipped: dict[str, int],
    warnings: tuple[str, ...],
) -> PreparedSet:  # fmt: skip
    """Write the view `votes` as one batch, and name it in the manifest at the very end."""
    before = PreparedSet(str(how.folder)) if is_prepared(how.folder) else None
    rated = db.execute("SELECT rater IS NOT NULL FROM votes LIMIT 1").fetchone()[0]
    manifest = _begun(before, how, rated=rated, n_rows=_n_rows(db, inputs))
    scratch = Path(db.execute("SELECT folder FROM scratch").fetchone()[0])
    n, staged = manifest.n_parts, scratch / "rows"
    total = n + 2
    how.progress(0, total)
    how.folder.mkdir(exist_ok=True)
    number = len(manifest.batches) + 1
    folder = Path(tempfile.mkdtemp(prefix=f"batch-{number:04d}-", dir=how.folder))
    folder.chmod(0o755)
    try:
        items = _code_items(db, folder, before)
        if rated:
            _code_raters(db, n, before, some=bool(skipped))
        how.progress(1, total)
        _stage(db, staged, rated=rated)
        how.progress(2, total)
        parts, n_answers, n_ties = {}, 0, 0
        raters = [_write_raters(db, p, folder) if rated else None for p in range(n)]

        def write(p: int) -> tuple[PartFiles, int] | None:
            return _write_part(staged / f"part={p}", folder, p, raters[p], how)

        # Two at once: more would hold more than the memory that was allowed.
        with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
            for p, found in enumerate(pool.map(write, range(n))):
                if found is not None:
                    parts[p], ties = found
                    n_answers, n_ties = n_answers + parts[p].n_answers, n_ties + ties
                how.progress(p + 3, total)
        batch = PreparedBatch(
            folder.name, how.retract, n_answers, n_ties, inputs, skipped, warnings, items, parts
        )
        if how.retract and before is not None:
            _check_retraction(db, before, folder, batch)
        _commit(how.folder, before, msgspec.structs.replace(
            manifest, batches=(*manifest.batches, batch)))  # fmt: skip
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return PreparedSet(str(how.folder))


def _n_rows(db: Any, inputs: tuple[InputFile, ...]) -> int:
    said = sum(one.n_comparisons for one in inputs)
    return said or int(db.execute("SELECT count(*) FROM votes").fetchone()[0])


def _begun(before: PreparedSet | None, how: Preparation, *, rated: bool, n_rows: int) -> Manifest:
    """The manifest so far, or a new one; what the set is like is settled by its first batch."""
    if before is None:
        if how.retract:
            raise UsageError(f"{how.folder} is no prepared set: there is nothing to retract")
        n = how.parts or 1 << max(0, -(-n_rows // ROWS_OF_A_PART) - 1).bit_length()
        n = min(max(n, 1 if how.parts else LEAST_PARTS), MOST_PARTS)
        return Manifest(SCHEMA, how.keep, rated, n if rated else 1)
    had = before.manifest
    if set(how.keep) != set(had.keep):
        kept = ",".join(had.keep) or "none"
        raise UsageError(f"{how.folder} was prepared with --keep {kept}; append with the same")
    if how.parts not in (None, had.n_parts):
        raise UsageError(f"{how.folder} has {had.n_parts} parts, which cannot be changed")
    if rated != had.has_raters:
        has, these = ("raters", "have none") if had.has_raters else ("no raters", "have some")
        raise DataError(f"{how.folder} has {has}, and these votes {these}; prepare another set")
    return had


def _stored(path: Path, rows: int) -> StoredFile:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return StoredFile(path.name, rows, path.stat().st_size, digest)


def _files_of(before: PreparedSet | None, kind: str, part: int) -> list[str]:
    """The files that the set has already, of raters or votes of one part, or of items."""
    found = []
    for batch in before.manifest.batches if before is not None else ():
        of_part = batch.parts.get(part)
        file = batch.items if kind == "items" else of_part and getattr(of_part, kind)
        if file:
            found.append(f"{before.path}/{batch.folder}/{file.name}")  # type: ignore[union-attr]
    return found


def _code_items(db: Any, folder: Path, before: PreparedSet | None) -> StoredFile | None:
    """The table `item_codes`; new names get the next codes, in the order of the alphabet."""
    files = _files_of(before, "items", 0)
    source = f"read_parquet([{', '.join(map(_text, files))}])" if files else _NO_NAMES
    db.execute(f"CREATE TEMP TABLE item_codes AS SELECT code, name FROM {source}")
    names = "SELECT winner AS name FROM kinds UNION SELECT loser AS name FROM kinds"
    db.execute(
        "CREATE TEMP TABLE new_items AS SELECT CAST((SELECT count(*) FROM item_codes) "
        "+ row_number() OVER (ORDER BY name) - 1 AS INTEGER) AS code, name "
        f"FROM ({names}) WHERE name NOT IN (SELECT name FROM item_codes)"
    )
    db.execute("INSERT INTO item_codes SELECT code, name FROM new_items")
    return _write_names(db, "SELECT code, name FROM new_items", folder / "items.parquet")


#: The columns of `votes` that say who won, and of `kinds`, which has what they mean.
_KIND = ("first", "second", "word")
#: Where no name has a code yet.
_NO_NAMES = "(SELECT 0 AS code, '' AS name WHERE false)"


def _code_raters(db: Any, n_parts: int, before: PreparedSet | None, *, some: bool) -> None:
    """The table `rater_codes`: the part of each rater and the code in it; new ones come last.

    ``some``: not all rows count, and perhaps not all raters have one that does.
    """
    counts = " AND rater IN (SELECT rater FROM votes)" if some else ""
    known = []
    for part in range(n_parts):
        files = _files_of(before, "raters", part)
        if files:
            listed_files = ", ".join(map(_text, files))
            known.append(f"SELECT code, name, {part} AS part FROM read_parquet([{listed_files}])")
    source = " UNION ALL ".join(known) or f"SELECT code, name, 0 AS part FROM {_NO_NAMES}"
    db.execute(f"CREATE TEMP TABLE rater_codes AS {source}")
    # The hash is MD5's, which no version of any library changes.
    db.execute(
        "CREATE TEMP TABLE new_raters AS SELECT CAST(coalesce(had, 0) "
        "+ row_number() OVER (PARTITION BY part ORDER BY name) - 1 AS INTEGER) AS code, name, part "
        f"FROM (SELECT name, CAST(md5_number_lower(name) % {n_parts} AS INTEGER) AS part "
        f"FROM (SELECT DISTINCT name FROM rater_keys WHERE name IS NOT NULL{counts}) "
        "WHERE name NOT IN (SELECT name FROM rater_codes)) "
        "LEFT JOIN (SELECT part, count(*) AS had FROM rater_codes GROUP BY part) USING (part) "
        "ORDER BY part, code"
    )
    db.execute("INSERT INTO rater_codes SELECT code, name, part FROM new_raters")


def _write_names(db: Any, names: str, path: Path) -> StoredFile | None:
    n = int(db.execute(f"SELECT count(*) FROM ({names})").fetchone()[0])
    if not n:
        return None
    db.execute(
        f"COPY (SELECT * FROM ({names}) ORDER BY code) TO {_text(str(path))} "
        "(FORMAT parquet, COMPRESSION zstd)"
    )
    return _stored(path, n)


def _write_raters(db: Any, part: int, folder: Path) -> StoredFile | None:
    names = f"SELECT code, name FROM new_raters WHERE part = {part}"
    return _write_names(db, names, folder / f"raters-{part:03d}.parquet")


def _stage(db: Any, staged: Path, *, rated: bool) -> None:
    """Write the votes apart by part, with codes for names."""
    kept = [row[0] for row in db.execute("DESCRIBE votes").fetchall()]
    more = "".join(f", v.{_ident(c)}" for c in kept if c not in ("rater", *_KIND))
    columns = f"k.winner, k.loser, k.tie, k.side{more}"
    coded = (
        "(SELECT first, second, word, w.code AS winner, l.code AS loser, tie, side FROM kinds "
        "JOIN item_codes AS w ON w.name = winner JOIN item_codes AS l ON l.name = loser)"
    )
    join = f"JOIN {coded} AS k USING ({', '.join(_KIND)})"
    if rated:
        columns = f"r.part AS part, r.code AS rater, {columns}"
        who = "SELECT rater, part, code FROM rater_keys JOIN rater_codes USING (name)"
        chosen = f"SELECT {columns} FROM votes AS v {join} JOIN ({who}) AS r ON r.rater = v.rater"
    else:
        # One part has all: equal votes are summed here, and few remain.
        columns = f"0 AS part, CAST(0 AS INTEGER) AS rater, {columns}, count(*) AS n"
        chosen = f"SELECT {columns} FROM votes AS v {join} GROUP BY ALL"
    db.execute(
        f"COPY ({chosen}) TO {_text(str(staged))} "
        "(FORMAT parquet, PARTITION_BY (part), COMPRESSION uncompressed)"
    )


def _write_part(
    staged: Path, folder: Path, part: int, raters: StoredFile | None, how: Preparation
) -> tuple[PartFiles, int] | None:
    import pyarrow.parquet as pq  # noqa: PLC0415 (an extra)

    if not staged.is_dir():
        return None
    rows = pq.read_table(staged, partitioning=None)
    shutil.rmtree(staged)
    first = ["rater", "winner", "loser", "tie", "side", "weight"]
    names = first + sorted(set(rows.column_names).difference(first, ["n"]))
    summed = sum_equal(rows, names)
    n = summed["n"].to_numpy()
    ties = int(n[summed["tie"].to_numpy() > 0].sum())
    if how.retract:
        summed = summed.set_column(len(names), "n", [-n])
    path = folder / f"votes-{part:03d}.parquet"
    pq.write_table(summed, path, compression="zstd")
    return PartFiles(_stored(path, len(n)), raters, int(n.sum())), ties


def sum_equal(rows: Any, names: Sequence[str]) -> Any:
    """The different rows of an Arrow table, sorted, with their number as ``n``.

    A row is one number, which its columns' codes are the digits of: numbers are sorted many times
    faster than rows.
    """
    import pyarrow as pa  # noqa: PLC0415 (an extra)

    key: NDArray[np.int64] = np.zeros(len(rows), np.int64)
    span, digits = 1, list[tuple[Any, int, Any]]()
    for name in names:
        codes, values = _column_codes(rows[name].combine_chunks())
        before = None
        if span * len(values) >= 1 << 62:
            # More digits than a number has: the numbers so far are numbered themselves.
            before, key = np.unique(key, return_inverse=True)
            span = len(before)
        key, span = key * len(values) + codes, span * len(values)
        digits.append((values, len(values), before))
    if "n" in rows.column_names:
        order = np.argsort(key, kind="stable")
        key, times = key[order], rows["n"].to_numpy()[order]
    else:
        key, times = np.sort(key), None
    start = np.flatnonzero(np.diff(key, prepend=-1))
    ends = np.append(start[1:], key.size)
    n = ends - start if times is None else np.add.reduceat(times, start)
    key, columns = key[start], {"n": pa.array(n, pa.int64())}
    for name, (values, size, before) in zip(reversed(names), reversed(digits), strict=True):
        key, code = np.divmod(key, size)
        columns[name] = values.take(pa.array(code))
        key = key if before is None else before[key]
    return pa.table({name: columns[name] for name in (*names, "n")})


def _column_codes(column: Any) -> tuple[NDArray[np.int64], Any]:
    """The place of each value among the different ones, which are sorted; a missing one is last."""
    import pyarrow as pa  # noqa: PLC0415 (an extra)
    import pyarrow.compute as pc  # noqa: PLC0415 (an extra)

    if pa.types.is_integer(column.type):
        low, high = (x.as_py() for x in pc.min_max(column).values())
        codes = column.to_numpy().astype(np.int64) - low
        return codes, pa.array(np.arange(low, high + 1), column.type)
    coded = column.dictionary_encode()
    order = pc.sort_indices(coded.dictionary).to_numpy()
    place = np.empty(order.size + 1, np.int64)
    place[order], place[-1] = np.arange(order.size), order.size
    found = coded.indices.fill_null(order.size).to_numpy()
    values = pa.concat_arrays([coded.dictionary.take(pa.array(order)), pa.nulls(1, column.type)])
    return place[found], values if column.null_count else values[:-1]


def _check_retraction(db: Any, before: PreparedSet, folder: Path, batch: PreparedBatch) -> None:
    """Refuse to take back what is not there."""
    for p, files in batch.parts.items():
        names = [*_files_of(before, "votes", p), str(folder / files.votes.name)]
        listed_names = ", ".join(map(_text, names))
        wrong = db.execute(
            "SELECT winner, loser, left_over FROM (SELECT * EXCLUDE (n), sum(n) AS left_over "
            f"FROM read_parquet([{listed_names}]) GROUP BY ALL) WHERE left_over < 0 LIMIT 1"
        ).fetchone()
        if wrong:
            first, second, n = wrong
            name = dict(db.execute("SELECT code, name FROM item_codes").fetchall())
            raise DataError(
                f"{-n:,} votes for {name[first]!r} over {name[second]!r} are to be retracted that "
                f"are not in {before.path}; nothing was changed: retract the files that were "
                "appended, prepared in the same way"
            )


def _commit(folder: Path, before: PreparedSet | None, manifest: Manifest) -> None:
    """Replace the manifest, unless another process did so meanwhile."""
    target, lock = folder / MANIFEST, folder / "manifest.lock"
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError as error:
        raise DataError(
            f"{folder}: another bbq prepare is writing this set; wait for it, or, if there is "
            f"none, remove {lock}"
        ) from error
    try:
        now = PreparedSet(str(folder)).manifest if target.is_file() else None
        if now != (None if before is None else before.manifest):
            raise DataError(f"{folder}: the set changed meanwhile; run the command again")
        fresh = folder / f"{MANIFEST}.new"
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
        fresh.replace(target)
    finally:
        lock.unlink()
