"""How every file comes in: opened, unpacked, recognised, read; errors say where."""

from __future__ import annotations

import hashlib
import io
import os
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from bbq_plugin.data.database_table import is_database, opened_table
from bbq_plugin.data.dataset import Comparisons, DatasetBuilder
from bbq_plugin.data.file_decoding import HEAD_BYTES, RawReader, unpacked
from bbq_plugin.data.mappings import Inspection, UnclearError
from bbq_plugin.data.records import Comparison, Note
from bbq_plugin.errors import (
    DataError,
    FormatError,
    IncompleteMappingError,
    UnknownOutcomeError,
    UnrankableError,
    UnrecognisedError,
    UsageError,
)
from bbq_plugin.plugins import adapters, answer_files, chosen_adapter, coerced

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from bbq_plugin.data.records import Batch, Record
    from bbq_plugin.protocols import Adapter

    FileName = str | os.PathLike[str]

STANDARD_INPUT = "-"
# What is read twice is kept in memory up to here, and on disk beyond.
_SPOOLED = 64 * 1024 * 1024


class Readable(Protocol):
    """All that is asked of a file."""

    def readinto(self, buffer: Any, /) -> int | None:
        """Fill a buffer, or less of it; 0 at the end."""


class Opened:
    """One open file: its stream, its first bytes, and its SHA-256 once it is read.

    `given` may hold options about opening it: `plugins.OPENING`.
    """

    def __init__(self, file: Readable, name: str, given: Mapping[str, Any] | None = None) -> None:
        self._raw = _HashingReader(file)
        self._copy: Any = None
        self.unpacked = unpacked(io.BufferedReader(self._raw, HEAD_BYTES), name, given)
        self.stream: io.BufferedReader = self.unpacked.stream
        self.head = self.stream.peek(HEAD_BYTES)[:HEAD_BYTES]
        if not self.head.strip(b"\xef\xbb\xbf \t\r\n"):
            raise FormatError("the file is empty", name, remedy="give a file with comparisons")

    def copy(self) -> io.BufferedReader[Any]:
        """Copy all of its text, to memory or to a file, so that `rewind` can go back."""
        self._copy = SpooledTemporaryFile(_SPOOLED)  # noqa: SIM115 (closed with the file)
        while piece := self.stream.read(1 << 20):
            self._copy.write(piece)
        self.rewind()
        return self.stream

    def rewind(self) -> None:
        """Go back to the start of what was copied."""
        if self._copy is not None:
            self._copy.seek(0)
            self.stream = io.BufferedReader(_CopyReader(self._copy), HEAD_BYTES)

    def close(self) -> None:
        """Forget what was copied."""
        if self._copy is not None:
            self._copy.close()

    def sha256(self) -> str:
        """Of all bytes of the file, also of those that no reader asked for."""
        while self._raw.read(1 << 20):
            pass
        return self._raw.hash.hexdigest()


@contextmanager
def opened(path: FileName, given: Mapping[str, Any] | None = None) -> Iterator[Opened]:
    """Open a path, or standard input for `-`."""
    name = str(path)
    try:
        if name == STANDARD_INPUT:
            with closing(
                Opened(cast("io.BufferedReader[Any]", sys.stdin.buffer), name, given)
            ) as it:
                yield it
        elif is_database(name):
            with (
                opened_table(name, (given or {}).get("table")) as rows,
                closing(Opened(cast("io.BufferedReader[Any]", rows), name, given)) as it,
            ):
                yield it
        else:
            with (
                Path(path).open("rb", buffering=0) as file,
                closing(Opened(file, name, given)) as it,
            ):
                yield it
    except OSError as error:
        why = error.strerror or str(error)
        raise FormatError(f"cannot be read ({why})", name, remedy="check the path") from error
    except UnicodeDecodeError as error:
        raise FormatError(
            f"the text is not UTF-8 ({error.reason})", name, remedy="save the file as UTF-8"
        ) from error


class _HashingReader(RawReader):
    """Hashes what passes, and fills every buffer: a pipe would hand over a few bytes at a time."""

    def __init__(self, file: Readable) -> None:
        self._file = file
        self.hash = hashlib.sha256()

    def readinto(self, buffer: Any) -> int:
        view, n = memoryview(buffer), 0
        while n < len(view) and (more := self._file.readinto(view[n:])):
            n += more
        self.hash.update(view[:n])
        return n


def read(
    paths: FileName | Sequence[FileName],
    adapter: str | Adapter | None = None,
    *,
    strict: bool = False,
    max_skipped: float = 0.01,
    where: Mapping[str, str] | None = None,
    rename: Mapping[str, str] | None = None,
    drop_raters: Iterable[str] = (),
    force: bool = False,
    keep_tags: bool | Collection[str] = False,
    **options: Any,
) -> Comparisons:
    """Read one file, or several as one set, into `Comparisons`.

    - `paths`: files, plain or gzip, "-" for standard input, the folder of a labelling tool's
      project, or the address of a PostgreSQL database with `table="votes"`. The adapter is
      recognised by the content of each file unless it is named.
    - The same key again, in one file or in several, is the same answer: the newest
      `version` counts, or `at`, else what comes later; `n_duplicates` says how many did not.
    - `strict` makes the first skipped row an error. Without it, a file of which more
      than the share `max_skipped` is skipped is one.
    - `where` keeps only answers with these tags; `rename` gives items other names,
      and two with the same name become one; `drop_raters` leaves these people out.
    - `keep_tags` keeps all tags of large Arena files, to cluster by; reading them is slower. Those
      that name prompts or scenes are kept anyway. Tags that are named here are kept even if nearly
      every answer has another value, as a length has.
    - A set of which no leaderboard can be made is refused, unless `force` says otherwise.
    - Other keywords are the adapter's own options, e.g. `both_bad="drop"`.
    """
    builder = DatasetBuilder(strict=strict, where=where, rename=rename, drop_raters=drop_raters)
    builder.tagged |= bool(keep_tags)
    if not isinstance(keep_tags, bool):
        builder.tag_columns.kept = frozenset(keep_tags)
    (fields,) = _parts(builder, paths, adapter, options, max_skipped).values()
    data = Comparisons(**fields)
    if not force:
        check_board(data)
    return data


def read_by(
    paths: FileName | Sequence[FileName],
    adapter: str | Adapter | None = None,
    *,
    by: str,
    strict: bool = False,
    max_skipped: float = 0.01,
    where: Mapping[str, str] | None = None,
    rename: Mapping[str, str] | None = None,
    drop_raters: Iterable[str] = (),
    force: bool = False,
    keep_tags: Collection[str] = (),
    **options: Any,
) -> dict[str, Comparisons]:
    """Read like `read`, and split by the value of the tag `by`; all tags are kept.

    Those of `keep_tags` are kept even if nearly every answer has another value.

    Answers without that tag are counted in `n_filtered`. Nobody knows what the
    value of a skipped row is, so every part counts all of them.
    """
    builder = DatasetBuilder(
        strict=strict, where=where, by=by, rename=rename, drop_raters=drop_raters
    )
    builder.tag_columns.kept = frozenset(keep_tags)
    parts = _parts(builder, paths, adapter, options, max_skipped)
    found = [Comparisons(**fields) for fields in parts.values()]
    if not force and len(found) == 1:
        check_board(found[0])
    return {value: Comparisons(**parts[value]) for value in sorted(parts)}


# Names longer than this on average are texts.
_TEXT = 60
# So few comparisons may be an excerpt, of which items have few votes.
_EXCERPT = 20
# A table of all pairs may have so many cells.
_MOST_PAIRS = 10_000_000
# Fewer comparisons are a first try, of which nobody expects a ranking.
_FEW = 5


def check_board(data: Comparisons) -> None:
    """Refuse comparisons of which no leaderboard can be made."""
    n = len(data.items)
    if n < 3 or data.n_comparisons < _FEW:
        return
    opponents = _opponents(data.winner, data.loser, n)
    names = [source.file for source in data.sources]
    file = names[0] if len(names) == 1 else None
    long = sum(map(len, data.items)) > _TEXT * n or any("\n" in item for item in data.items)
    rare = n > 1.5 * data.n_comparisons
    if long and (rare or n > 0.5 * data.n_comparisons):
        raise UnrankableError(
            f"the items are texts, and hardly any comes again ({n:,} items in "
            f"{data.n_comparisons:,} comparisons), so no ranking follows from them; name the "
            "columns that say what wrote the texts, or use --force (in Python force=True)",
            file,
        )
    if opponents.max() < 2 or rare:
        many = f"{n:,} items in {data.n_comparisons:,} comparisons"
        why = (
            "no item is compared with more than one other"
            if opponents.max() < 2
            else f"nearly every item has one vote ({many})"
        )
        raise UnrankableError(
            f"{why}, so no ranking of all follows from them; if the items are named by another "
            "column, name that one; --force (in Python force=True) makes the leaderboard anyway",
            file,
            # Many items of one vote each are hardly named by the right column.
            more_words=() if rare and data.n_comparisons > _EXCERPT else (("--force",),),
        )


def _opponents(winner: NDArray[Any], loser: NDArray[Any], n: int) -> NDArray[Any]:
    """With how many different others each item was compared."""
    pairs = np.minimum(winner, loser).astype(np.int64) * n + np.maximum(winner, loser)
    if n * n <= _MOST_PAIRS:
        # Many times faster than sorting millions of them.
        seen = np.zeros(n * n, dtype=np.bool_)
        seen[pairs] = True
        pairs = np.flatnonzero(seen)
    else:
        pairs = np.unique(pairs)
    return np.bincount(pairs // n, minlength=n) + np.bincount(pairs % n, minlength=n)


def records(
    path: FileName, adapter: str | Adapter | None = None, **options: Any
) -> Iterator[Record]:
    """Yield the records of one file as its adapter finds them."""
    with opened(path, options) as file:
        chosen, _, said = recognised(file, adapter, str(path), options)
        yield from found_in(file, chosen, str(path), said, tagged=True, path=path)  # type: ignore[misc] # no batches


def _parts(
    builder: DatasetBuilder,
    paths: FileName | Sequence[FileName],
    adapter: str | Adapter | None,
    options: Mapping[str, Any],
    max_skipped: float,
) -> dict[str, dict[str, Any]]:
    files, again = _distinct(paths)
    for name in again:
        builder.add(Note(f"{name} is named more than once, and read once"))
    for path in files:
        name = str(path)
        try:
            with opened(path, options) as file:
                chosen, why, said = recognised(file, adapter, name, options)
                log = builder.begin(name, chosen.name, why)
                _add_all(builder, file, chosen, name, said, path)
                log.sha256 = file.sha256()
        except (UnknownOutcomeError, IncompleteMappingError) as error:
            raise _with_readings(error, path, adapter, options) from error
        except UnclearError as error:
            if error.readings or error.inspected:
                raise
            raise _with_readings(error, path, adapter, options) from error
    if not 0 <= max_skipped <= 1:
        raise UsageError(f"max_skipped is {max_skipped}; expected a share from 0 to 1")
    try:
        return builder.parts(max_skipped)
    except FormatError:
        raise
    except DataError as error:
        raise FormatError(str(error), ", ".join(log.name for log in builder.files)) from error


def _add_all(
    builder: DatasetBuilder,
    file: Opened,
    adapter: Adapter,
    name: str,
    options: Mapping[str, Any],
    path: FileName,
) -> None:
    for note in file.unpacked.notes:
        builder.add(Note(note))
    tagged = builder.tagged
    for record in found_in(file, adapter, name, options, tagged=tagged, path=path):
        try:
            builder.add(record)
        except FormatError:
            raise
        except DataError as error:
            key = f" (key {record.key!r})" if isinstance(record, Comparison) else ""
            raise FormatError(f"{error}{key}", name) from error


def recognised(
    file: Opened,
    adapter: str | Adapter | None,
    name: str,
    options: Mapping[str, Any],
    known: Mapping[str, Adapter] | None = None,
) -> tuple[Adapter, str, Mapping[str, Any]]:
    """The adapter to read an open file with, why that one, and its options.

    A file that no adapter recognises by its head is inspected: a reading that leaves no question
    is taken, and any other is an UnclearError that carries it.
    """
    try:
        chosen, why = chosen_adapter(adapter, file.head, name, known)
    except UnrecognisedError:
        found = inspected(file, name, options, keep=True, known=known)
        reading = found.certain
        if not found.readings and (told := _told(options, known)) is not None:
            return told, "told by its options", options
        if reading is None:
            raise UnclearError(found.problem, name, found.readings, inspected=True) from None
        chosen, _ = chosen_adapter(reading.adapter, file.head, name, known)
        roles = ", ".join(f"{role.role}: {role.column}" for role in reading.roles)
        return chosen, f"{reading.shape} ({roles})", {**reading.options, **options}
    return chosen, why, options


def _told(options: Mapping[str, Any], known: Mapping[str, Adapter] | None) -> Adapter | None:
    """The adapter that one of the options belongs to, where no file is recognised."""
    for one in (adapters() if known is None else known).values():
        if not options.keys().isdisjoint(getattr(one, "telling_options", ())):
            return one
    return None


def inspected(
    file: Opened,
    name: str,
    options: Mapping[str, Any],
    *,
    keep: bool = False,
    known: Mapping[str, Adapter] | None = None,
) -> Inspection:
    """What is in an open file, and how it could be read.

    All of it is read. With `keep` it can be read again: it is copied to memory or to a file.
    """
    inspectors = [
        inspect
        for one in (adapters() if known is None else known).values()
        if (inspect := getattr(one, "inspect", None))
    ]
    foreign = other_kind(file.head)
    if foreign or not inspectors:
        return Inspection(name, foreign or "", 0, problem=f"this is {foreign or 'no known format'}")
    found: Inspection = inspectors[0](file.copy() if keep else file.stream, name, options)
    file.rewind()
    return found


class _CopyReader(RawReader):
    """A copy that stays open when a stream on it is closed."""

    def __init__(self, copy: Any) -> None:
        self._copy = copy

    def readinto(self, buffer: Any) -> int:
        data = self._copy.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _with_readings(
    error: UnknownOutcomeError | IncompleteMappingError | UnclearError,
    path: FileName,
    adapter: str | Adapter | None,
    options: Mapping[str, Any],
) -> Exception:
    """The error with readings of the file that would mend it, if there are any."""
    if str(path) == STANDARD_INPUT or adapter not in (None, "table"):
        return error
    with opened(path, options) as file:
        found = inspected(file, str(path), options)
    if not found.readings:
        return error
    if isinstance(error, FormatError):
        return UnclearError(error.problem, str(path), found.readings, error.line, error.value)
    return UnclearError(str(error), str(path), found.readings)


# What files that hold no votes begin with.
_OTHER_KINDS = (
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "an image (PNG)"),
    (b"\xff\xd8\xff", "an image (JPEG)"),
    (b"GIF8", "an image (GIF)"),
    (b"SQLite format 3", "an SQLite database; export its table of votes as CSV"),
    (b"[Event ", "a record of chess games (PGN), not votes"),
    (b"\x93NUMPY", "a NumPy array; save the rows as CSV"),
    (b"\x80\x04", "a Python pickle, which is not opened; save the rows as CSV"),
    (b"\x80\x05", "a Python pickle, which is not opened; save the rows as CSV"),
    (b"<!doctype html", "a page (HTML); if you saved a page, download the file itself"),
    (b"<html", "a page (HTML); if you saved a page, download the file itself"),
    (b"ARROW1", "an Arrow file; save it as Parquet"),
    (
        b"version https://git-lfs",
        "a pointer of Git LFS, not the file itself; fetch it with git lfs",
    ),
    (b"\xfd7zXZ", "an xz archive; unpack it"),
    (b"BZh", "a bzip2 archive; unpack it"),
    (b"(\xb5/\xfd", "a Zstandard archive; unpack it"),
    (b"7z\xbc\xaf", "a 7z archive; unpack it"),
    (b"RDX", "data of R; save them as CSV"),
    (b"\x89HDF", "an HDF5 file; save the rows as CSV"),
)


def other_kind(head: bytes) -> str | None:
    """What a file is that holds no table, by its first bytes."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    for magic, kind in _OTHER_KINDS:
        if start.startswith(magic) or (magic.islower() and start[:40].lower().startswith(magic)):
            return kind
    if start.startswith(b"<"):
        return "a file of XML that no adapter knows"
    return "a binary file" if b"\0" in head[:1000] else None


def found_in(
    file: Opened,
    adapter: Adapter,
    name: str,
    options: Mapping[str, Any],
    *,
    tagged: bool,
    path: FileName | None = None,
) -> Iterator[Record | Batch]:
    """What an adapter finds in an open file, in batches unless tags are wanted.

    `path` is where the file is, for adapters that read more of its project beside it.
    """
    beside = getattr(adapter, "beside", None)
    if beside is not None and path is not None and str(path) != STANDARD_INPUT:
        options = beside(Path(path), options)
    reader = adapter.read if tagged else getattr(adapter, "read_batches", adapter.read)
    found: Iterator[Record | Batch] = reader(file.stream, name, **coerced(adapter, options))
    return found


def files_of(path: FileName) -> Sequence[FileName]:
    """The file itself, or the files with answers in the folder of a labelling tool's project."""
    folder = Path(path)
    if not folder.is_dir():
        return [path]
    project = answer_files(folder)
    if project is None:
        name = str(path)
        raise FormatError("is a folder", name, remedy=f"name its files, such as {name}/*.jsonl")
    found = sorted(folder.glob(project[1]))
    if not found:
        problem = f"this is a project of {project[0]}, and it has no answers yet ({project[1]})"
        raise FormatError(problem, str(path), remedy="wait for the first, or check the folder")
    return found


def _distinct(
    paths: FileName | Sequence[FileName],
) -> tuple[list[FileName], dict[str, None]]:
    """The paths, each file once, and those that came again."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not given:
        raise UsageError("no file was given; name at least one")
    found: dict[str, FileName] = {}
    again: dict[str, None] = {}
    for path in (one for typed in given for one in files_of(typed)):
        name = os.fspath(path)
        is_path = name != STANDARD_INPUT and not is_database(name)
        own = os.path.realpath(name) if is_path else name
        if own in found:
            again[name] = None
        else:
            found[own] = path
    return list(found.values()), again
