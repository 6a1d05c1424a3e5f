"""How every file comes in: opened, unpacked, decoded, recognised, read; errors say where.

What comes out is UTF-8: the text itself, JSON lines for a Parquet table, CSV for a sheet.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import io
import os
import re
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, time
from filecmp import cmp
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Any, Protocol, cast

import msgspec
import numpy as np

from bbq_plugin.data.database_table import is_database, opened_table
from bbq_plugin.data.dataset import Comparisons, DatasetBuilder
from bbq_plugin.data.mappings import Inspection, Reading, UnclearError
from bbq_plugin.data.records import Comparison, Note
from bbq_plugin.errors import (
    DataError,
    FormatError,
    IncompleteMappingError,
    UnknownOutcomeError,
    UnrankableError,
    UnrecognisedError,
    UnsupportedError,
    UsageError,
    did_you_mean,
)
from bbq_plugin.plugins import adapters, answer_files, chosen_adapter, coerced
from bbq_plugin.text import listed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from bbq_plugin.data.records import Batch, Record
    from bbq_plugin.protocols import Adapter

    FileName = str | os.PathLike[str]


# Enough for the first lines of any table or log; sniffing never reads more.
HEAD_BYTES = 64 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
_PARQUET_MAGIC = b"PAR1"
_ZIP_MAGIC = b"PK\x03\x04"
_OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
#: What files begin with that are not lines of text.
PACKED = (_GZIP_MAGIC, _PARQUET_MAGIC, _ZIP_MAGIC, _OLE_MAGIC, b"\xff\xfe", b"\xfe\xff")
_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"), (codecs.BOM_UTF32_BE, "UTF-32"), (codecs.BOM_UTF8, "UTF-8"),
    (codecs.BOM_UTF16_LE, "UTF-16"), (codecs.BOM_UTF16_BE, "UTF-16"),
)  # fmt: skip
# Where UTF-16 without a mark shows.
_FIRST_BYTES = 64
# Rows of a Parquet table turned into text at once.
_PARQUET_ROWS = 4096
# A table from a pipe or in gzip is kept in memory up to here, and on disk beyond.
_SPOOLED = 64 * 1024 * 1024
# Pages of a Parquet column that are larger, and so many times as large as in the file, are refused.
_LARGEST_PAGES = 256 * 1024 * 1024
_MOST_UNPACKED = 1000
# So many rows of a table may be alike, whatever they are packed into.
_FREE_ROWS = 1_000_000
# Texts of one row, and of the rows that are turned into text at once.
_LONGEST_PARQUET_ROW = 64 * 1024 * 1024
# What a workbook may unpack to.
_LARGEST_WORKBOOK = 512 * 1024 * 1024
_BLOCK = 1 << 20


class RawReader(io.RawIOBase):
    """A stream that is made while it is read."""

    def readable(self) -> bool:
        """Say that it is."""
        return True


class GzipReader(RawReader):
    """A gzip stream whose faults name the file and the last whole line."""

    def __init__(self, file: io.BufferedReader[Any] | io.FileIO, name: str) -> None:
        self._gzip = gzip.GzipFile(fileobj=file)
        self._name = name
        self._lines = 0
        self._fault: FormatError | None = None

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, or less of it."""
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


class PieceReader(RawReader):
    """Pieces of bytes as a stream."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, or less of it."""
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
            # Texts stay codes of a dictionary until it is known how long they are: a few
            # kilobytes may stand for gigabytes of the same text.
            texts = _text_columns(parquet.ParquetFile(table), pa, name)
            for batch in parquet.ParquetFile(table, read_dictionary=texts).iter_batches(
                _PARQUET_ROWS
            ):
                for some in _small_batches(batch, pa, name, row):
                    rows = _plain_times(some, pa).to_pylist()
                    row += len(rows)
                    yield b"".join(msgspec.json.encode(one) + b"\n" for one in rows)
        except FormatError:
            raise
        except (pa.ArrowException, OSError, TypeError, ValueError) as error:
            raise FormatError(
                f"not a readable Parquet table ({error})",
                name,
                row + 1,
                remedy="the file may be cut off: copy or download it again",
            ) from error


def _text_columns(table: Any, pa: Any, name: str) -> list[str]:
    """The columns of texts; a table whose pages unpack to far more than they are is refused."""
    found, total = table.metadata, 0
    for group in range(found.num_row_groups):
        for place in range(found.num_columns):
            column = found.row_group(group).column(place)
            packed, size = column.total_compressed_size, column.total_uncompressed_size
            total += packed
            if size > _LARGEST_PAGES and size > _MOST_UNPACKED * max(packed, 1):
                raise FormatError(
                    f"column {column.path_in_schema!r} unpacks from {packed:,} to {size:,} bytes",
                    name,
                    remedy="no table of answers does; write it again with smaller row groups",
                )
    # Equal rows are packed into runs: an answer, if only its side, is one bit at the least.
    if found.num_rows > max(_FREE_ROWS, 8 * total):
        raise FormatError(
            f"{found.num_rows:,} rows in {total:,} bytes, less than a bit for each",
            name,
            remedy="no table of answers has that; sum equal rows, with their number as weight",
        )
    schema = table.schema_arrow
    is_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
    return [one.name for one in schema if any(is_it(one.type) for is_it in is_text)]


def _small_batches(batch: Any, pa: Any, name: str, row: int) -> Iterator[Any]:
    """The same rows, so many at a time that their texts stay within bounds."""
    import pyarrow.compute as pc  # noqa: PLC0415 (as above)

    n = batch.num_rows
    longest = 0
    for place, column in enumerate(batch.schema):
        values = batch.column(place)
        if pa.types.is_dictionary(column.type) and len(values.dictionary):
            longest += pc.max(pc.binary_length(values.dictionary)).as_py() or 0
        elif n:
            longest += values.nbytes // n
    if longest > _LONGEST_PARQUET_ROW:
        raise FormatError(
            f"a row has texts of {longest:,} bytes",
            name,
            row + 1,
            remedy="leave out the columns with the contents: names of items are enough",
        )
    step = max(1, min(n, _LONGEST_PARQUET_ROW // max(longest, 1)))
    for start in range(0, n, step):
        yield batch.slice(start, step)


def _plain_times(batch: Any, pa: Any) -> Any:
    """Times in nanoseconds need pandas to become Python's; those in microseconds do not."""
    for i, column in enumerate(batch.schema):
        if pa.types.is_timestamp(column.type):
            coarse = pa.timestamp("us", column.type.tz)
            batch = batch.set_column(i, column.name, batch.column(i).cast(coarse, safe=False))
    return batch


# -- workbooks


def _spooled(file: io.BufferedReader[Any]) -> IO[bytes]:
    spool = cast("IO[bytes]", SpooledTemporaryFile(_SPOOLED))  # noqa: SIM115 (the caller closes it)
    while piece := file.read(_BLOCK):
        spool.write(piece)
    spool.seek(0)
    return spool


def _sheet_text(file: io.BufferedReader[Any], name: str, wanted: str | None) -> tuple[bytes, str]:
    """One sheet of a workbook as CSV, and what it is called."""
    with _spooled(file) as spool:
        if spool.read(4) == _ZIP_MAGIC:
            _check_zip(spool, name)
        spool.seek(0)
        try:
            import python_calamine as calamine  # noqa: PLC0415 (few files are workbooks)
        except ImportError:
            raise UnsupportedError(
                f"{name} is a workbook, and reading it needs python-calamine; "
                "install it with: pip install 'bbq-plugin[xlsx]', or save the sheet as CSV"
            ) from None
        try:
            book = calamine.CalamineWorkbook.from_filelike(spool)
            sheets = {
                one: rows
                for one in book.sheet_names
                if (rows := book.get_sheet_by_name(one).to_python())
            }
        except Exception as error:
            raise FormatError(
                f"not a readable workbook ({error})", name, remedy="save the sheet as CSV"
            ) from error
    if not sheets:
        raise FormatError("all sheets of the workbook are empty", name)
    if wanted is None and len(sheets) == 1:
        (wanted,) = sheets
    if wanted is None:
        ordered = sorted(sheets, key=lambda one: -len(sheets[one]))
        readings = [
            Reading("", {"sheet": one}, "possible", f"the sheet {one}", difference=f"sheet {one}")
            for one in ordered
        ]
        raise UnclearError(
            f"the workbook has {len(sheets)} sheets with rows: {listed(map(repr, ordered))}",
            name,
            readings,
        )
    if wanted not in sheets:
        known = f"; it has: {listed(sheets)}"
        raise UsageError(f"{name} has no sheet {wanted!r}{did_you_mean(wanted, sheets, known)}")
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(
        [_cell(cell) for cell in row] for row in sheets[wanted]
    )
    return text.getvalue().encode(), wanted


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value)


def _check_zip(spool: IO[bytes], name: str) -> None:
    """Refuse an archive that is no workbook, or that unpacks to more than it says or may."""
    spool.seek(0)
    try:
        with zipfile.ZipFile(spool) as archive:
            names = set(archive.namelist())
            if not names & {"xl/workbook.xml", "xl/workbook.bin", "content.xml"}:
                raise FormatError(
                    f"a zip archive of {listed(sorted(names), 5)}",
                    name,
                    remedy="unpack it and name the file with the votes",
                )
            if sum(one.file_size for one in archive.infolist()) > _LARGEST_WORKBOOK:
                raise FormatError(
                    f"the workbook unpacks to more than {_LARGEST_WORKBOOK >> 20} MB",
                    name,
                    remedy="save the sheet as CSV",
                )
            # A part that is longer than it says, or broken, fails here and not in the reader.
            for one in archive.infolist():
                with archive.open(one) as part:
                    while part.read(_BLOCK):
                        pass
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise FormatError(
            f"not a readable workbook ({error})", name, remedy="copy or download it again"
        ) from error


# -- encodings

# Signs that stand in Western text of Windows-1252 besides letters.
_SIGNS = frozenset(
    c
    for code in range(0x80, 0x100)
    if not (c := bytes([code]).decode("cp1252", "ignore")).isalpha() and c
)
# Those of them that may stand between two letters, and those that may follow one.
_BETWEEN = frozenset(bytes([0x91, 0x92, 0x96, 0x97, 0x85, 0xB4, 0xB7, 0xAD, 0xD7]).decode("cp1252"))
_AFTER = _BETWEEN | frozenset(
    bytes([0x93, 0x94, 0x99, 0x9B, 0xA0, 0xA9, 0xAE, 0xB0, 0xB2, 0xB3, 0xB9, 0xBB, 0x80]).decode(
        "cp1252"
    )
)
_AROUND = re.compile(r"(.?)([^\x00-\x7f])(.?)", re.DOTALL)


def _is_western(text: str) -> bool:
    """Whether text that was decoded as Windows-1252 looks as if that was right.

    Other encodings leave their letters as signs inside words, as capitals after small letters, or
    as long runs of accented letters.
    """
    if re.search(r"[À-ÿ]{4}", text):
        return False
    for before, sign, after in _AROUND.findall(text):
        if sign.isalpha():
            good = not (sign.isupper() and before.islower())
        else:
            allowed = _SIGNS if not before.isalpha() else _BETWEEN if after.isalpha() else _AFTER
            good = sign in allowed
        if not good:
            return False
    return True


def _encoding_of(head: bytes, name: str) -> str:
    """What the text of a file is written in; UTF-8 where nothing speaks against it."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    even, odd = head[:_FIRST_BYTES:2], head[1:_FIRST_BYTES:2]
    # Every other byte of Latin text is NUL; in a binary file, such as a zip, they are anywhere.
    if even and 2 * even.count(0) > len(even) and 0 not in odd:
        return "UTF-16-BE"
    if odd and 2 * odd.count(0) > len(odd) and 0 not in even:
        return "UTF-16-LE"
    try:
        # The head may end inside a character.
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError as error:
        if b"\0" in head:
            return "UTF-8"
        return _legacy_encoding(head, name, error)
    return "UTF-8"


def _legacy_encoding(head: bytes, name: str, error: UnicodeDecodeError) -> str:
    try:
        text = head.decode("cp1252")
    except UnicodeDecodeError:
        text = ""
    if text and _is_western(text):
        return "Windows-1252"
    line = 1 + head.count(b"\n", 0, error.start)
    guess = _guessed(head)
    problem = (
        f"the text is not UTF-8 ({head[error.start : error.start + 20]!r}), and its encoding is "
        "not clear"
    )
    readings = [
        Reading(
            "", {"encoding": guess}, "likely", f"text in {guess}", difference=f"text in {guess}"
        )
    ]
    raise UnclearError(problem, name, readings if guess else (), line, inspected=True)


def _guessed(head: bytes) -> str | None:
    """What a library that knows many encodings takes it for, if it is installed."""
    try:
        from charset_normalizer import from_bytes  # noqa: PLC0415 (for few files)
    except ImportError:
        return None
    best = from_bytes(head).best()
    return None if best is None or best.encoding in ("ascii", "utf_8") else best.encoding


class _Transcoder(RawReader):
    """Text of another encoding as UTF-8; old line ends become new ones."""

    def __init__(self, file: io.BufferedReader[Any], encoding: str, name: str, *, cr: bool) -> None:
        self._file, self._name, self._encoding, self._cr = file, name, encoding, cr
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._rest = b""
        self._lines = 1
        self._ended = False

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, or less of it."""
        while not self._rest and not self._ended:
            piece = self._file.read(1 << 16)
            self._ended = not piece
            try:
                text = self._decoder.decode(piece, final=self._ended)
            except UnicodeDecodeError as error:
                raise FormatError(
                    f"the text is not {self._encoding} ({error.reason})",
                    self._name,
                    self._lines,
                    remedy="name its encoding with -O encoding=NAME, or save the file as UTF-8",
                ) from error
            if self._cr:
                text = text.replace("\r", "\n")
            self._lines += text.count("\n")
            self._rest = text.encode("utf-8", "surrogatepass")
        n = min(len(buffer), len(self._rest))
        buffer[:n], self._rest = self._rest[:n], self._rest[n:]
        return n


@dataclass
class Unpacked:
    """The text of a file as a stream, and what it was packed in."""

    stream: io.BufferedReader[Any]
    encoding: str = "UTF-8"
    #: In words, from the outside to the inside: gzip, Parquet, sheet 'Votes'.
    packing: list[str] = field(default_factory=list)
    #: What was found, and nobody said.
    notes: list[str] = field(default_factory=list)


def unpacked(
    file: io.BufferedReader[Any], name: str, given: Mapping[str, Any] | None = None
) -> Unpacked:
    """The text of a file; the content decides, not the name.

    `given` may say the `encoding`, and the `sheet` of a workbook.
    """
    given = given or {}
    found = Unpacked(file)
    if file.peek(4).startswith(_GZIP_MAGIC):
        found.stream = _buffered(GzipReader(file, name))
        found.packing.append("gzip")
    head = found.stream.peek(8)
    if head.startswith(_PARQUET_MAGIC):
        found.stream = _buffered(PieceReader(_parquet_lines(found.stream, name)))
        found.packing.append("Parquet")
        return found
    if head.startswith((_ZIP_MAGIC, _OLE_MAGIC)):
        text, sheet = _sheet_text(found.stream, name, given.get("sheet"))
        found.stream = _buffered(PieceReader(iter([text])))
        found.packing.append(f"sheet {sheet!r} of a workbook")
        return found
    _decode(found, name, given.get("encoding"))
    return found


def _buffered(raw: RawReader) -> io.BufferedReader[Any]:
    return io.BufferedReader(raw, HEAD_BYTES)


def _decode(found: Unpacked, name: str, said: str | None) -> None:
    """Turn text of another encoding into UTF-8."""
    head = found.stream.peek(HEAD_BYTES)[:HEAD_BYTES]
    if said is not None:
        try:
            encoding = codecs.lookup(said).name
        except LookupError:
            raise UsageError(f"encoding is {said!r}, which is not known; try latin-1") from None
    else:
        encoding = _encoding_of(head, name)
    found.encoding = encoding
    cr = b"\r" in head and b"\n" not in head
    codec = {"Windows-1252": "cp1252"}.get(encoding, encoding)
    if codecs.lookup(codec).name in ("utf-8", "ascii") and not cr:
        return
    if codec.startswith("UTF-16") and cr is False:
        cr = b"\r" in head and b"\n" not in head
    found.stream = _buffered(_Transcoder(found.stream, codec, name, cr=cr))
    if said is None and encoding == "Windows-1252":
        found.notes.append(
            f"{name}: the text is not UTF-8 and is read as {encoding} (Latin-1); if names look "
            "wrong, name the encoding with -O encoding=NAME"
        )


STANDARD_INPUT = "-"
# What is read twice is kept in memory up to here, and on disk beyond.


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


_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+", re.IGNORECASE)


def path_remedy(name: str) -> str:
    """What to do about a path that cannot be opened."""
    if _ADDRESS.match(name) is None:
        return "check the path"
    return "votes are read from files: download it first"


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
        raise FormatError(f"cannot be read ({why})", name, remedy=path_remedy(name)) from error
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
    (fields,) = _parts(builder, paths, adapter, options, max_skipped, force=force).values()
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
    parts = _parts(builder, paths, adapter, options, max_skipped, force=force)
    found = [Comparisons(**fields) for fields in parts.values()]
    if not force and len(found) == 1:
        check_board(found[0])
    return {value: Comparisons(**parts[value]) for value in sorted(parts)}


# What pandas and databases write where there is nothing.
_EMPTY_NAMES = ("nan", "null")
# The same in capitals only: Na may be a name.
_EMPTY_CAPITALS = ("NA", "N/A", "#N/A")
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
    for what, names_of in (("an item", data.items), ("a rater", data.raters)):
        empty = [
            name for name in names_of
            if name.casefold() in _EMPTY_NAMES or name in _EMPTY_CAPITALS
        ]  # fmt: skip
        if empty:
            raise UnrankableError(
                f"{what} is called {empty[0]!r}, which is how programs write an empty cell; drop "
                "these rows, or use --force (in Python force=True) if it is a name",
                data.sources[0].file if len(data.sources) == 1 else None,
                more_words=(),
            )
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
    *,
    force: bool,
) -> dict[str, dict[str, Any]]:
    files, again = _distinct(paths)
    for name in again:
        builder.add(Note(f"{name} is named more than once, and read once"))
    twins = list(_twins(files))
    for copy, twin in twins:
        builder.add(
            Note(f"{copy} has the same content as {twin}: rows without ids count twice; leave it "
                 "out if it is a copy")
        )  # fmt: skip
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
        parts = builder.parts(max_skipped)
    except FormatError:
        raise
    except DataError as error:
        raise FormatError(str(error), ", ".join(log.name for log in builder.files)) from error
    # Rows with ids were merged.
    if not force and not any(fields["n_duplicates"] for fields in parts.values()):
        _refuse_copies(twins)
    return parts


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
        if isinstance(error, IncompleteMappingError) and found.problem:
            return IncompleteMappingError(f"{error}; {found.problem}")
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
    # A few NUL bytes are damage to a text.
    start = head[:1000]
    return "a binary file" if start.count(0) * 50 > len(start) else None


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


def _refuse_copies(twins: Iterable[tuple[Path, Path]]) -> None:
    for copy, twin in twins:
        if copy.stat().st_size > _EQUAL_BY_CHANCE:
            remedy = "leave one of them out; --force (in Python force=True) counts both"
            raise FormatError(f"has the same content as {twin}", str(copy), remedy=remedy)


# So many bytes of two files may be equal by chance.
_EQUAL_BY_CHANCE = 200


def _twins(files: Sequence[FileName]) -> Iterator[tuple[Path, Path]]:
    """Files that are copies of others, each with the first of them."""
    sizes: dict[int, list[Path]] = {}
    for path in map(Path, files):
        if not path.is_file() or not (size := path.stat().st_size):
            continue
        known = sizes.setdefault(size, [])
        if twin := next((one for one in known if cmp(one, path, shallow=False)), None):
            yield path, twin
        else:
            known.append(path)
