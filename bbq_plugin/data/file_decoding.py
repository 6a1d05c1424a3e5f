"""The text of a file, whatever it is packed in: gzip, Parquet, a workbook, another encoding.

What comes out is UTF-8: the text itself, JSON lines for a Parquet table, CSV for a sheet.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from tempfile import SpooledTemporaryFile
from typing import IO, Any, cast

import msgspec

from bbq_plugin.data.mappings import Reading, UnclearError
from bbq_plugin.errors import FormatError, UnsupportedError, UsageError, did_you_mean
from bbq_plugin.text import listed

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
    found = table.metadata
    for group in range(found.num_row_groups):
        for place in range(found.num_columns):
            column = found.row_group(group).column(place)
            packed, size = column.total_compressed_size, column.total_uncompressed_size
            if size > _LARGEST_PAGES and size > _MOST_UNPACKED * max(packed, 1):
                raise FormatError(
                    f"column {column.path_in_schema!r} unpacks from {packed:,} to {size:,} bytes",
                    name,
                    remedy="no table of answers does; write it again with smaller row groups",
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
