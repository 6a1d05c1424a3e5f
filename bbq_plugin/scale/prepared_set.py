"""A prepared set: votes in Parquet files by raters, names coded once, and a manifest.

    votes.bbq/
      manifest.json               what is in the set, with counts and digests
      batch-0001-…/items.parquet  the names of items that this batch brought
      batch-0001-…/raters-003.parquet, votes-003.parquet    the same of part 3

Part p holds all answers of the raters whose name has the hash p. Equal rows are one, with their
number ``n``; a batch that retracts has negative numbers. So a part is the sum of its files, and
appending touches no old file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from bbq_plugin.data.dataset import LEFT, MERGED, RIGHT, TIE, Comparisons, identifies, wins_of
from bbq_plugin.data.records import Source
from bbq_plugin.errors import DataError, FormatError, UnsupportedError, UsageError, did_you_mean
from bbq_plugin.text import counted, listed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bbq_plugin.data.triples import Triples
    from bbq_plugin.model import Fit

    Columns = dict[str, NDArray[Any]]

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
