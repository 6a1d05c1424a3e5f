"""How every file comes in: opened, unpacked, recognised, read; errors say where."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import sys
import zlib
from contextlib import contextmanager
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from bbq_plugin.data.builder import DatasetBuilder
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.records import Comparison
from bbq_plugin.errors import DataError, FormatError, UnsupportedError, UsageError
from bbq_plugin.plugins import chosen_adapter, coerced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bbq_plugin.data.records import Batch, Record
    from bbq_plugin.protocols import Adapter

    FileName = str | os.PathLike[str]

# Enough for the first lines of any table or log; sniffing never reads more.
HEAD_BYTES = 64 * 1024
STANDARD_INPUT = "-"
_GZIP_MAGIC = b"\x1f\x8b"
_PARQUET_MAGIC = b"PAR1"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
# Where UTF-16 without a mark shows.
_FIRST_BYTES = 64
# Rows of a Parquet table turned into text at once.
_PARQUET_ROWS = 4096
# A table from a pipe or in gzip is kept in memory up to here, and on disk beyond.
_SPOOLED = 64 * 1024 * 1024


class Readable(Protocol):
    """All that is asked of a file."""

    def readinto(self, buffer: Any, /) -> int | None:
        """Fill a buffer, or less of it; 0 at the end."""


class Opened:
    """One open file: its stream, its first bytes, and its SHA-256 once it is read."""

    def __init__(self, file: Readable, name: str) -> None:
        self._raw = _HashingReader(file)
        packed = io.BufferedReader(self._raw, HEAD_BYTES)
        self.stream: io.BufferedReader = _unpacked(packed, name)
        self.head = self.stream.peek(HEAD_BYTES)[:HEAD_BYTES]
        _check_head(self.head, name)

    def sha256(self) -> str:
        """Of all bytes of the file, also of those that no reader asked for."""
        while self._raw.read(1 << 20):
            pass
        return self._raw.hash.hexdigest()


@contextmanager
def opened(path: FileName) -> Iterator[Opened]:
    """Open a path, or standard input for `-`."""
    name = str(path)
    try:
        if name == STANDARD_INPUT:
            yield Opened(cast("io.BufferedReader[Any]", sys.stdin.buffer), name)
        else:
            with Path(path).open("rb", buffering=0) as file:
                yield Opened(file, name)
    except OSError as error:
        why = error.strerror or str(error)
        raise FormatError(f"cannot be read ({why})", name, remedy="check the path") from error
    except UnicodeDecodeError as error:
        raise FormatError(
            f"the text is not UTF-8 ({error.reason})", name, remedy="save the file as UTF-8"
        ) from error


def _check_head(head: bytes, name: str) -> None:
    if not head.strip(b"\xef\xbb\xbf \t\r\n"):
        raise FormatError("the file is empty", name, remedy="give a file with comparisons")
    if head.startswith(_UTF16_MARKS) or _is_unmarked_utf16(head):
        raise FormatError("the text is UTF-16", name, 1, remedy="save it as UTF-8")


def _is_unmarked_utf16(head: bytes) -> bool:
    """Every other byte of Latin text is NUL; in a binary file, such as a zip, they are anywhere."""
    even, odd = head[:_FIRST_BYTES:2], head[1:_FIRST_BYTES:2]
    return any(
        2 * high.count(0) > len(high) and 0 not in low for high, low in ((even, odd), (odd, even))
    )


def _unpacked(file: io.BufferedReader[Any], name: str) -> io.BufferedReader[Any]:
    """The content decides, not the name."""
    if file.peek(4).startswith(_GZIP_MAGIC):
        file = io.BufferedReader(_GzipReader(file, name), HEAD_BYTES)
    if file.peek(4).startswith(_PARQUET_MAGIC):
        file = io.BufferedReader(_PieceReader(_parquet_lines(file, name)), HEAD_BYTES)
    return file


class _Reader(io.RawIOBase):
    def readable(self) -> bool:
        return True


class _HashingReader(_Reader):
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


class _GzipReader(_Reader):
    """A gzip stream whose faults name the file and the last whole line."""

    def __init__(self, file: io.BufferedReader[Any] | io.FileIO, name: str) -> None:
        self._gzip = gzip.GzipFile(fileobj=file)
        self._name = name
        self._lines = 0
        self._fault: FormatError | None = None

    def readinto(self, buffer: Any) -> int:
        # What is there before a broken end is handed over first, so the count of lines is right.
        if self._fault:
            raise self._fault
        n = 0
        while n < len(buffer):
            try:
                data = self._gzip.read1(len(buffer) - n)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                self._fault = FormatError(
                    f"the gzip data end early or are damaged after line {self._lines} ({error})",
                    self._name,
                    self._lines + 1,
                    remedy="copy or download the file again",
                )
                if not n:
                    raise self._fault from error
                break
            if not data:
                break
            self._lines += data.count(b"\n")
            buffer[n : n + len(data)] = data
            n += len(data)
        return n


class _PieceReader(_Reader):
    """Pieces of bytes as a stream."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        n = min(len(buffer), len(self._rest))
        buffer[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        return n


def _parquet_lines(file: io.BufferedReader[Any], name: str) -> Iterator[bytes]:
    try:
        # Only here: most files are no tables, and pyarrow is large.
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise UnsupportedError(
            f"{name} is a Parquet file, and reading it needs pyarrow; "
            "install it with: pip install 'bbq-plugin[parquet]'"
        ) from None
    with SpooledTemporaryFile(_SPOOLED) as table:
        while piece := file.read(1 << 20):
            table.write(piece)
        table.seek(0)
        row = 0
        try:
            for batch in parquet.ParquetFile(table).iter_batches(_PARQUET_ROWS):
                rows = _plain_times(batch, pa).to_pylist()
                row += len(rows)
                yield b"".join(msgspec.json.encode(one) + b"\n" for one in rows)
        except (pa.ArrowException, OSError, TypeError, ValueError) as error:
            raise FormatError(
                f"not a readable Parquet table ({error})",
                name,
                row + 1,
                remedy="the file may be cut off: copy or download it again",
            ) from error


def _plain_times(batch: Any, pa: Any) -> Any:
    """Times in nanoseconds need pandas to become Python's; those in microseconds do not."""
    for i, column in enumerate(batch.schema):
        if pa.types.is_timestamp(column.type):
            coarse = pa.timestamp("us", column.type.tz)
            batch = batch.set_column(i, column.name, batch.column(i).cast(coarse, safe=False))
    return batch


def read(
    paths: FileName | Sequence[FileName],
    adapter: str | Adapter | None = None,
    *,
    strict: bool = False,
    max_skipped: float = 0.01,
    where: Mapping[str, str] | None = None,
    rename: Mapping[str, str] | None = None,
    drop_raters: Iterable[str] = (),
    **options: Any,
) -> Comparisons:
    """Read one file, or several as one set, into `Comparisons`.

    - `paths`: files, plain or gzip, or "-" for standard input. The adapter is
      recognised by the content of each file unless it is named.
    - The same key again, in one file or in several, is the same answer: the newest
      `version` counts, or `at`, else what comes later; `n_duplicates` says how many did not.
    - `strict` makes the first skipped row an error. Without it, a file of which more
      than the share `max_skipped` is skipped is one.
    - `where` keeps only answers with these tags; `rename` gives items other names,
      and two with the same name become one; `drop_raters` leaves these people out.
    - Other keywords are the adapter's own options, e.g. `both_bad="drop"`.
    """
    builder = DatasetBuilder(strict=strict, where=where, rename=rename, drop_raters=drop_raters)
    (fields,) = _parts(builder, paths, adapter, options, max_skipped).values()
    return Comparisons(**fields)


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
    **options: Any,
) -> dict[str, Comparisons]:
    """Read like `read`, and split by the value of the tag `by`.

    Answers without that tag are counted in `n_filtered`. Nobody knows what the
    value of a skipped row is, so every part counts all of them.
    """
    builder = DatasetBuilder(
        strict=strict, where=where, by=by, rename=rename, drop_raters=drop_raters
    )
    parts = _parts(builder, paths, adapter, options, max_skipped)
    return {value: Comparisons(**parts[value]) for value in sorted(parts)}


def records(
    path: FileName, adapter: str | Adapter | None = None, **options: Any
) -> Iterator[Record]:
    """Yield the records of one file as its adapter finds them."""
    with opened(path) as file:
        chosen, _ = chosen_adapter(adapter, file.head, str(path))
        yield from chosen.read(file.stream, str(path), **coerced(chosen, options))


def _parts(
    builder: DatasetBuilder,
    paths: FileName | Sequence[FileName],
    adapter: str | Adapter | None,
    options: Mapping[str, Any],
    max_skipped: float,
) -> dict[str, dict[str, Any]]:
    for path in _distinct(paths):
        name = str(path)
        with opened(path) as file:
            chosen, why = chosen_adapter(adapter, file.head, name)
            log = builder.begin(name, chosen.name, why)
            tagged = bool(builder.where) or builder.by is not None
            for record in found_in(file, chosen, name, options, tagged=tagged):
                try:
                    builder.add(record)
                except FormatError:
                    raise
                except DataError as error:
                    key = f" (key {record.key!r})" if isinstance(record, Comparison) else ""
                    raise FormatError(f"{error}{key}", name) from error
            log.sha256 = file.sha256()
    if not 0 <= max_skipped <= 1:
        raise UsageError(f"max_skipped is {max_skipped}; expected a share from 0 to 1")
    try:
        return builder.parts(max_skipped)
    except FormatError:
        raise
    except DataError as error:
        raise FormatError(str(error), ", ".join(log.name for log in builder.files)) from error


def found_in(
    file: Opened, adapter: Adapter, name: str, options: Mapping[str, Any], *, tagged: bool
) -> Iterator[Record | Batch]:
    """What an adapter finds in an open file, in batches unless tags are wanted."""
    reader = adapter.read if tagged else getattr(adapter, "read_batches", adapter.read)
    found: Iterator[Record | Batch] = reader(file.stream, name, **coerced(adapter, options))
    return found


def _distinct(paths: FileName | Sequence[FileName]) -> list[FileName]:
    """The paths, each file once: a glob and a name may well say the same one."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not given:
        raise UsageError("no file was given; name at least one")
    found: dict[str, FileName] = {}
    for path in given:
        name = os.fspath(path)
        found.setdefault(name if name == STANDARD_INPUT else os.path.realpath(name), path)
    return list(found.values())
