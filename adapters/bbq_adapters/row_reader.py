"""Tables and logs as rows, and the values in them: JSON lines, JSON arrays and delimited text.

Every row is a dict from field to value with its line. Faults name file, line, value and remedy.
No more than one line or element is held beyond the piece at hand.
"""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain, islice
from math import inf, isfinite, isnan
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeGuard

import msgspec

from bbq_plugin.data.mappings import Reading, UnclearError
from bbq_plugin.data.records import LEAST_WEIGHT, MOST_WEIGHT, NO_WINNER, Skipped, is_subject
from bbq_plugin.errors import FormatError, UnknownOutcomeError, UsageError, did_you_mean
from bbq_plugin.text import brief, listed, name_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from bbq_plugin.data.records import Outcome

BOM = b"\xef\xbb\xbf"

# Whole conversations may stand in a field that is not read here, but this is no row any more.
LONGEST_ROW = 64 * 1024 * 1024
_BOM_AND_BLANKS = 64
_PIECE = 1 << 20
_DELIMITERS = ",\t;|"
# A whole document is held; what is larger is to be written as lines.
_LONGEST_DOCUMENT = 256 * 1024 * 1024
# How deep in a document a list of rows is looked for.
_DEEPEST_LIST = 4
_NOTHING = ("", "null", "none", "nan", "n/a", "na")
_CR_LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_EXCEL_HINT = re.compile(rb"sep=([,;|\t])\r?\n?")

# Up to the next brace outside a string. Possessive, so it never goes back over what it read;
# a string that the window cuts off is left where it starts.
_TO_BRACE = re.compile(rb'[^"{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}]*+)*+', re.DOTALL)
_JSON_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]')
Row = dict[str, Any]
_ABSENT = object()

#: Fields that name the rater, the surer ones first.
RATER_FIELDS = (
    "judge", "judge_hash", "judge_id", "rater", "annotator", "annotator_id", "user_id", "worker",
    "answerer", "observer", "participant", "subject", "completed_by", "worker_id", "workerId",
    "WorkerId", "rater_id", "evaluator", "evaluator_id", "participant_id", "labeler", "labeller",
    "juror", "reviewer", "reviewer_id", "performer", "assessor", "voter", "voter_id",
    "prolific_pid", "PROLIFIC_PID", "user",
)  # fmt: skip

# A tag is a value to group by, such as a language; what is longer is content.
_LONGEST_TAG = 80


class RowPlace(NamedTuple):
    """Where a row stands, for messages."""

    name: str
    line: int
    #: The number of the element of an array, which may all stand on one line.
    element: int | None = None
    #: Sets the entries of a list in one row apart.
    part: str = ""

    def __str__(self) -> str:
        number = "" if self.element is None else f" (element {self.element})"
        return f"{self.name}:{self.line}{number}"

    def error(self, problem: str, value: object = None, remedy: str | None = None) -> FormatError:
        """An error about this row."""
        return FormatError(self._number + problem, self.name, self.line, value, remedy)

    def unknown(self, problem: str, value: object, remedy: str) -> UnknownOutcomeError:
        """An outcome in this row of which it is not known what it means."""
        return UnknownOutcomeError(self._number + problem, self.name, self.line, value, remedy)

    @property
    def _number(self) -> str:
        return "" if self.element is None else f"element {self.element}: "


class BrokenRow(FormatError):  # noqa: N818 - a row left out, and no error by itself
    """A row with an empty or broken field: a counted skip, and not the end of the file."""

    def skipped(self, place: RowPlace) -> Skipped:
        """The record of it."""
        return Skipped(str(place), self.problem, None if self.value is None else brief(self.value))


class RaggedRow(dict[str, Any]):
    """A row of a delimited file with another number of cells than the header."""

    def __init__(self, problem: str, start: str) -> None:
        super().__init__()
        self.problem, self.start = problem, start

    def broken(self, place: RowPlace) -> BrokenRow:
        """The error about it."""
        remedy = (
            "put text with the delimiter in it into double quotes, or export the file again if it "
            "is cut off"
        )
        return BrokenRow(self.problem, place.name, place.line, self.start, remedy)

    def skipped(self, place: RowPlace) -> Skipped:
        """The record of it."""
        return self.broken(place).skipped(place)


def broken_field(place: RowPlace, field: str, value: object, expected: str) -> BrokenRow:
    """A field that holds something else than is expected."""
    # The value is not in the problem: skips are counted by their reasons.
    remedy = "correct or drop the row"
    return BrokenRow(f"{field} is not {expected}", place.name, place.line, value, remedy)


def check_row(row: Row, place: RowPlace) -> None:
    """Refuse a row whose cells are not distinguishable."""
    if isinstance(row, RaggedRow):
        raise row.broken(place)


def first_whole(
    found: Iterator[tuple[RowPlace, Row]],
) -> tuple[list[Skipped], tuple[RowPlace, Row] | None]:
    """The first row that has all its cells, and the records of those before it."""
    ragged: list[Skipped] = []
    for place, row in found:
        if not isinstance(row, RaggedRow):
            return ragged, (place, row)
        ragged.append(row.skipped(place))
    return ragged, None


@dataclass(frozen=True, slots=True)
class Head:
    """What the first bytes of a file show."""

    kind: Literal["json", "table"]
    fields: frozenset[str]


@lru_cache(maxsize=4)  # every adapter looks at the same head
def look(head: bytes) -> Head:
    """The kind of a file and the fields of its first rows."""
    text = head.removeprefix(BOM).lstrip()
    if text.startswith((b"{", b"[")):
        return Head("json", frozenset(_json_fields(text)))
    if hint := _EXCEL_HINT.match(text):
        text = text[hint.end() :]
    first = text.split(b"\n", 1)[0].decode("utf-8", "replace")
    try:
        columns = next(csv.reader([first], delimiter=_delimiter(first)), [])
    except csv.Error:
        columns = []
    return Head("table", frozenset(column.strip() for column in columns if column.strip()))


def _json_fields(text: bytes) -> set[str]:
    """The fields of the objects at the top, or of those in the array at the top."""
    depth, last, found = 0, b"", set()
    level = 1 if text.startswith(b"{") else 2
    for match in _JSON_TOKEN.finditer(text):
        token = match.group()
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
        elif token == b":" and depth == level and last.startswith(b'"'):
            found.add(last[1:-1].decode("utf-8", "replace"))
        last = token
    return found


def rows(
    stream: io.BufferedReader,
    name: str,
    *,
    records: str | None = None,
    header: bool = True,
    unique: bool = True,
    uneven: bool = False,
) -> Iterator[tuple[RowPlace, Row]]:
    """Yield the rows of a JSON or delimited file.

    `records` is the path of the list of rows in a document. Without a `header` the columns are
    called column1, column2, … Where names need not be `unique`, a second column of the same name
    is called `name (2)`. Where rows may be `uneven` and there is no header, each has its own width.
    """
    head = stream.peek(_BOM_AND_BLANKS).removeprefix(BOM).lstrip()
    if head.startswith((b"{", b"[")) and (records is not None or _is_nested_list(head)):
        return _document_rows(stream, name, records)
    if head.startswith(b"["):
        return _array_rows(stream, name)
    if head.startswith(b"{"):
        return _line_rows(stream, name)
    return table_rows(stream, name, header=header, unique=unique, uneven=uneven)


def _is_nested_list(head: bytes) -> bool:
    return head.startswith(b"[") and head[1:].lstrip().startswith(b"[")


def _document_rows(
    stream: io.BufferedReader, name: str, path: str | None, begun: bytes = b""
) -> Iterator[tuple[RowPlace, Row]]:
    found = document_rows(document(stream, name, begun), path)
    if found is None:
        raise FormatError(
            f"a JSON document without a list of rows{f' under {path!r}' if path else ''}",
            name,
            1,
            path,
            "name the list with records=PATH, such as records=data.votes",
        )
    for number, row in enumerate(found[1], 1):
        yield RowPlace(name, 1, number), row


def document(stream: io.BufferedReader, name: str, begun: bytes = b"") -> Any:
    """All of a file as one value; `begun` was read already."""
    text = begun + stream.read(_LONGEST_DOCUMENT + 1).removeprefix(BOM)
    if len(text) > _LONGEST_DOCUMENT:
        raise FormatError(
            f"one JSON document of more than {_LONGEST_DOCUMENT >> 20} MB",
            name,
            1,
            remedy="write one answer a line (JSON lines)",
        )
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError(
            f"not valid JSON ({error.msg})",
            name,
            error.lineno,
            text[max(0, error.pos - 40) : error.pos + 40],
            "every line is one whole JSON object, or the file is one document; it may be cut off",
        ) from error
    except UnicodeDecodeError as error:
        at = 1 + text.count(b"\n", 0, error.start)
        raise _not_utf8(RowPlace(name, at), error) from error
    except (RecursionError, ValueError) as error:
        raise FormatError(
            f"not usable JSON ({error})", name, 1, remedy="export it again"
        ) from error


def document_rows(document: Any, path: str | None) -> tuple[str, list[Row]] | None:
    """Where the rows of a document stand, and the rows; None if there are none."""
    if path is not None:
        found = _as_rows(document if path == "." else lookup(document, path))
        return None if found is None else (path, found)
    best: tuple[str, list[Row]] | None = None
    waiting = [(".", document)]
    while waiting:
        at, value = waiting.pop(0)
        found = _as_rows(value)
        if found is not None and (best is None or len(found) > len(best[1])):
            best = at, found
        if isinstance(value, dict) and at.count(".") < _DEEPEST_LIST and found is None:
            waiting += [(key if at == "." else f"{at}.{key}", one) for key, one in value.items()]
    return best


def _as_rows(value: Any) -> list[Row] | None:
    """A list of objects or of lists, a table of columns, or objects by their names, as rows."""
    if isinstance(value, list):
        return _list_rows(value)
    return _dict_rows(value) if isinstance(value, dict) and len(value) > 1 else None


def _dict_rows(value: dict[str, Any]) -> list[Row] | None:
    columns = list(value.values())
    if all(isinstance(one, list) for one in columns):
        kinds = {
            frozenset(row) if isinstance(row, dict) else None for one in columns for row in one
        }
        if len(kinds) == 1 and None not in kinds:
            # Lists of the same kind of rows, by the name of a part.
            return [{"part": name, **row} for name, one in value.items() for row in one]
        flat = not any(isinstance(cell, (list, dict)) for one in columns for cell in one)
        if flat and len({len(one) for one in columns}) == 1 and len(columns[0]) > 1:
            return [dict(zip(value, cells, strict=True)) for cells in zip(*columns, strict=True)]
    elif all(isinstance(one, dict) and one for one in columns):
        keys = [tuple(one) for one in columns]
        if len(set(keys)) == 1 and all(key.isdigit() for key in keys[0]):
            # What pandas writes: the columns, each by the number of the row.
            return [{name: one[key] for name, one in value.items()} for key in keys[0]]
        if len({frozenset(one) for one in keys}) == 1 and len(keys) > 2:
            return [{"key": name, **one} for name, one in value.items()]
    return None


def _list_rows(value: list[Any]) -> list[Row] | None:
    if value and all(isinstance(one, dict) for one in value):
        return value
    if not value or not all(isinstance(one, list) for one in value):
        return None
    if all(one and all(isinstance(cell, dict) for cell in one) for one in value):
        return [cell for one in value for cell in one]
    return [{f"column{i}": cell for i, cell in enumerate(one, 1)} for one in value]


def lookup(data: Any, path: str, missing: Any = None) -> Any:
    """The value under a key, or under keys and indices joined by dots; else `missing`."""
    if isinstance(data, dict) and path in data:
        return data[path]
    head, dot, rest = path.partition(".")
    if isinstance(data, dict):
        # A key may have dots of its own.
        while dot:
            if head in data and (found := lookup(data[head], rest, _ABSENT)) is not _ABSENT:
                return found
            more, dot, rest = rest.partition(".")
            head = f"{head}.{more}"
        return missing
    if isinstance(data, list) and head.isascii() and head.isdigit() and len(head) < 6:
        inside = data[int(head)] if int(head) < len(data) else missing
        return lookup(inside, rest, missing) if dot else inside
    return missing


def lines(stream: io.BufferedReader, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with their numbers, without the mark at the start of the file."""
    number = 0
    while line := stream.readline(LONGEST_ROW + 1):
        number += 1
        if len(line) > LONGEST_ROW:
            raise too_long(name, number)
        yield number, line.removeprefix(BOM) if number == 1 else line


def too_long(name: str, line: int, what: str = "row", longest: float = LONGEST_ROW) -> FormatError:
    """A line, or an object, that cannot be a row."""
    return FormatError(
        f"a {what} is longer than {int(longest) >> 20} MB",
        name,
        line,
        remedy="write one answer a line, without images or other attachments",
    )


def _line_rows(stream: io.BufferedReader, name: str) -> Iterator[tuple[RowPlace, Row]]:
    begun = False
    for number, line in lines(stream, name):
        if line.isspace():
            continue
        place = RowPlace(name, number)
        try:
            row = line_row(line, place)
        except FormatError:
            if begun or not line.lstrip().startswith(b"{"):
                raise
            # No line of its own: perhaps one document over many lines, with the rows inside.
            yield from _document_rows(stream, name, None, line)
            return
        begun = True
        yield place, row


def line_row(line: bytes, place: RowPlace) -> Row:
    """One line of JSON as a row."""
    try:
        row = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise place.error(
            f"not valid JSON ({error})",
            line[:80],
            "every line is one whole JSON object; the line may be cut off",
        ) from error
    except UnicodeDecodeError as error:
        raise _not_utf8(place, error) from error
    except (RecursionError, ValueError) as error:
        raise place.error(
            f"not usable JSON ({error})", line[:80], "correct or drop the line"
        ) from error
    if isinstance(row, dict):
        return row
    raise place.error(
        f"is {brief(row)}, not an object with fields", row, "every row is an object such as {…}"
    )


def _not_utf8(place: RowPlace, error: UnicodeDecodeError) -> FormatError:
    value = error.object[error.start : error.start + 20]
    latin = Reading("", {"encoding": "cp1252"}, "likely", "text in Windows-1252 (Latin-1)")
    problem = f"the text is not UTF-8 ({error.reason}: {bytes(value)!r})"
    return UnclearError(problem, place.name, (latin,), place.line, value)


def _array_rows(stream: io.BufferedReader, name: str) -> Iterator[tuple[RowPlace, Row]]:
    """The objects of a JSON array, or of several (JATOS writes one a participant)."""
    found = array_objects(stream, name, several=True, longest=LONGEST_ROW)
    for number, (line, raw) in enumerate(found, 1):
        place = RowPlace(name, line, number)
        try:
            row = _decoded_object(raw)
        except json.JSONDecodeError as error:
            raise place.error(
                f"not valid JSON ({error.msg})", raw[:80], "correct or drop this element"
            ) from error
        except UnicodeDecodeError as error:
            at = line + raw.count(b"\n", 0, error.start)
            raise _not_utf8(RowPlace(name, at), error) from error
        except (RecursionError, ValueError) as error:
            raise place.error(
                f"not usable JSON ({error})", remedy="correct or drop this element"
            ) from error
        yield place, row


def _decoded_object(raw: bytes) -> Row:
    try:
        found: Row = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Python writes NaN, which only its own decoder takes; and it says where a fault is.
        found = json.loads(raw)
    return found


def array_objects(
    stream: io.BufferedReader,
    name: str,
    what: str = "element",
    *,
    several: bool = False,
    longest: float = inf,
) -> Iterator[tuple[int, bytes]]:
    """Yield each object of an array, however long, with the line it starts on.

    `several` arrays may follow each other. No more than one object is held beyond the window.
    """
    return _ArrayScanner(stream, name, what, longest).objects(several=several)


class _ArrayScanner:
    """Finds the ends of objects by their braces, without decoding them."""

    def __init__(self, stream: io.BufferedReader, name: str, what: str, longest: float) -> None:
        self._stream, self._name, self._what, self._longest = stream, name, what, longest
        self._window = b""
        self._at, self._line, self._count = 0, 1, 0

    def objects(self, *, several: bool) -> Iterator[tuple[int, bytes]]:
        self._more()
        if self._window.startswith(BOM):
            self._at = len(BOM)
        while True:
            if self._next() != b"[":
                raise self._broken(f"this is not a JSON array of {self._what}s")
            yield from self._array(lenient=several)
            self._at += 1
            after = self._next()
            if not after:
                return
            if not several:
                raise self._broken("there is more text after the end of the array")

    def _array(self, *, lenient: bool) -> Iterator[tuple[int, bytes]]:
        """The objects up to the end of the array, which is not consumed."""
        self._at += 1
        may_end = True
        while (byte := self._next()) != b"]" or not may_end:
            if byte != b"{":
                raise self._broken(
                    f"{self._what} {self._count + 1} of the array is not a JSON object"
                )
            line = self._line
            raw = self._object()
            self._count += 1
            yield line, raw
            byte = self._next()
            may_end = lenient
            if byte == b",":
                self._at += 1
            elif byte == b"]":
                return
            else:
                raise self._broken(f"no comma after {self._what} {self._count} of the array")

    def _more(self) -> bool:
        """Drop what was read, and at least double the rest: a long string is not read n² times."""
        rest = self._window[self._at :]
        fresh = self._stream.read(max(_PIECE, len(rest)))
        self._window, self._at = rest + fresh, 0
        return bool(fresh)

    def _next(self) -> bytes:
        """The next byte that is no blank, not consumed; empty at the end of the file."""
        while True:
            rest = self._window[self._at : self._at + 64]
            blanks = len(rest) - len(rest.lstrip(b" \t\r\n"))
            self._line += rest.count(b"\n", 0, blanks)
            self._at += blanks
            if blanks < len(rest):
                return rest[blanks : blanks + 1]
            if not rest and not self._more():
                return b""

    def _object(self) -> bytes:
        """The object that starts here; consumed."""
        depth = 0
        here = self._at
        while True:
            match = _TO_BRACE.match(self._window, here)
            here = match.end() if match else here
            brace = self._window[here : here + 1]
            if brace == b"{":
                depth += 1
            elif brace == b"}":
                depth -= 1
                if depth == 0:
                    break
            else:
                here -= self._at
                if len(self._window) - self._at > self._longest:
                    what = "row" if self._what == "element" else self._what
                    raise too_long(self._name, self._line, what, self._longest)
                if not self._more():
                    raise self._broken(f"the file ends inside {self._what} {self._count + 1}")
                continue
            here += 1
        raw = self._window[self._at : here + 1]
        self._line += raw.count(b"\n")
        self._at = here + 1
        return raw

    def _broken(self, problem: str) -> FormatError:
        sample = self._window[self._at : self._at + 60].decode("utf-8", "replace")
        if not sample:
            problem = "the file ends before the end of the array"
        remedy = "the file may be cut off: export it again"
        return FormatError(problem, self._name, self._line, sample, remedy)


def _delimiter(header: str) -> str:
    """What stands between the columns: the sign that the header has most of, else blanks."""
    found = max(_DELIMITERS, key=header.count)
    words = header.split()
    blanks = found not in header and 2 <= len(words) <= 4 and header.strip().count(" ") < 4
    return " " if blanks else found


def table_rows(
    stream: io.BufferedReader,
    name: str,
    needed: Sequence[str] = (),
    *,
    header: bool = True,
    unique: bool = True,
    uneven: bool = False,
) -> Iterator[tuple[RowPlace, Row]]:
    """Yield the rows of a delimited file that has the `needed` columns.

    A row with another number of cells is a RaggedRow.
    """
    found = (line for _, line in lines(stream, name))
    return table_lines(found, name, needed, header=header, unique=unique, uneven=uneven)


def table_lines(
    found: Iterator[bytes],
    name: str,
    needed: Sequence[str] = (),
    *,
    header: bool = True,
    unique: bool = True,
    uneven: bool = False,
    shift: int = 0,
) -> Iterator[tuple[RowPlace, Row]]:
    """The rows of a table from its lines; `shift` lines are missing after the header."""
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_ROW))
    begun = list(islice(found, _MOST_PREAMBLE))
    before = _preamble(begun)
    shift += before
    found = chain(begun[before:], found)
    first = next(found, b"")
    hint = _EXCEL_HINT.fullmatch(first)
    if hint:
        first = next(found, b"")
    # A byte that is no text is told about where it stands: below, not in the search for commas.
    delimiter = hint[1].decode() if hint else _delimiter(first.decode("utf-8", "replace"))
    shift += 1 if hint else 0
    text = _TextLines(chain([first], found))
    reader = csv.reader(text, delimiter=delimiter, strict=True, skipinitialspace=delimiter == " ")
    try:
        top = next(reader, [])
        columns = [f"column{i}" for i in range(1, len(top) + 1)]
        held = [top]
        if header:
            top, held = _asked_below(top, reader)
            columns = _header(top, name, unique=unique)
        if missing := [column for column in needed if column not in columns]:
            problem = f"there is no column {', '.join(missing)}"
            raise FormatError(problem, name, 1, columns[:40], "export the file again")
        width, named = len(columns), all(columns)
        below = ((reader.line_num, row) for row in chain(held, reader))
        for line, row in _without_questions(below, header=header):
            place = RowPlace(name, line + shift)
            if named and len(row) == width and all(row):
                yield place, dict(zip(columns, row, strict=True))
                continue
            # More empty cells than columns: a delimiter at the end of each line.
            cells = row if any(row[len(columns) :]) else row[: len(columns)]
            if len(cells) == len(columns):
                # CSV has no null: an empty cell is one.
                yield place, {c: v or None for c, v in zip(columns, cells, strict=True) if c}
            elif uneven and not header:
                yield place, {f"column{i}": v or None for i, v in enumerate(row, 1)}
            elif any(cell.strip() for cell in cells):
                problem = f"has {len(cells)} columns where the header has {len(columns)}"
                ragged = RaggedRow(problem, cells[0][:60])
                if needed:
                    check_row(ragged, place)
                yield place, ragged
    except csv.Error as error:
        remedy = "correct the quotes of this line, or export the file again if it is cut off"
        place = RowPlace(name, max(1, reader.line_num + shift))
        raise place.error(f"not valid CSV ({error})", text.last[:60], remedy) from error
    except UnicodeDecodeError as error:
        raise _not_utf8(RowPlace(name, reader.line_num + shift + 1), error) from error


# So many lines at the start are looked at, and more than this are no preamble.
_MOST_PREAMBLE = 12
_COMMENTS = ("#", "%", "//")


def _preamble(begun: Sequence[bytes]) -> int:
    """How many lines stand before the header: comments, a title, blank lines."""
    texts = [line.decode("utf-8", "replace").strip("\r\n") for line in begun]
    if len(texts) < 3:
        return 0
    sign = _delimiter(texts[-1])
    counts = [text.count(sign) for text in texts]
    usual = max(set(counts), key=counts.count)
    for n, (text, count) in enumerate(zip(texts, counts, strict=True)):
        filled = sum(bool(cell.strip(' "')) for cell in text.split(sign))
        comment = text.startswith(_COMMENTS) and count != usual
        # A title above at least three columns; one more line has to follow the header.
        title = usual >= 2 and filled <= 1 and '"' not in text
        if not (comment or title) or n > len(texts) - 3:
            return n if n <= len(texts) - 3 else 0
    return 0


def _asked_below(top: list[str], rest: Iterator[list[str]]) -> tuple[list[str], list[list[str]]]:
    """The header, and the rows that were read of the rest.

    Where columns have no name and the row below has one for each, as SurveyMonkey writes them,
    they are called so.
    """
    empty = [i for i, cell in enumerate(top) if not cell.strip()]
    if len(empty) < 2:
        return top, []
    below = next(rest, [])
    named = {*empty, *(i - 1 for i in empty)}
    is_row = len(below) != len(top) or not all(below[i].strip() for i in empty)
    others = {cell.strip() for i, cell in enumerate(below) if i not in named}
    if is_row or not others <= {"", "Response", "Open-Ended Response"}:
        return top, [below] if below else []
    return [below[i] if i in named else cell for i, cell in enumerate(top)], []


def _without_questions(
    found: Iterator[tuple[int, list[str]]], *, header: bool
) -> Iterator[tuple[int, list[str]]]:
    """Rows without the two that Qualtrics puts below the header: the questions, and their ids."""
    first = list(islice(found, 2 if header else 0))
    if len(first) == 2 and is_import_id(first[1][1]):
        first = []
    return chain(first, found)


def is_import_id(cells: Iterable[object]) -> bool:
    """Whether a row has the ids that Qualtrics gives its questions."""
    return any(str(cell).startswith('{"ImportId"') for cell in cells)


def plain_header(line: bytes, name: str) -> tuple[str, list[str]] | None:
    """The delimiter and the columns of a header in which cells alone stand between delimiters."""
    if b'"' in line or b"\r" in line[:-1] or _EXCEL_HINT.match(line):
        return None
    try:
        text = line.decode("utf-8").rstrip("\r")
    except UnicodeDecodeError:
        return None
    delimiter = _delimiter(text)
    if delimiter == " ":
        return None
    return delimiter, _header(text.split(delimiter), name, unique=True)


def plain_cells(piece: bytes, delimiter: str, columns: Sequence[str]) -> dict[str, list[str]]:
    """The cells of whole lines by column; none where there is more in them than cells."""
    try:
        text = piece.decode("utf-8").replace("\r\n", "\n").removesuffix("\n")
    except UnicodeDecodeError:
        return {}
    between = len(columns) - 1
    if (
        '"' in text
        or "\r" in text
        or any(line.count(delimiter) != between for line in text.split("\n"))
    ):
        return {}
    cells = text.replace("\n", delimiter).split(delimiter)
    return {column: cells[i :: len(columns)] for i, column in enumerate(columns) if column}


class _TextLines:
    """Lines as text; `last` is the one that was read last."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines, self.last = lines, ""

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.last = line.decode("utf-8")
            if self.last.find("\r", 0, -2) >= 0:
                # Old line ends among new ones, as inside texts.
                yield from _CR_LINES.findall(self.last)
            else:
                yield self.last


def _header(cells: list[str], name: str, *, unique: bool) -> list[str]:
    header = [cell.strip() for cell in cells]
    if not unique:
        header = [column or f"column{i}" for i, column in enumerate(header, 1)]
    seen: dict[str, int] = {}
    for i, column in enumerate(header):
        seen[column] = seen.get(column, 0) + 1
        if not column or seen[column] == 1:
            continue
        if unique:
            raise FormatError(
                f"two columns are called {column!r}", name, 1, column, "rename one of them"
            )
        header[i] = f"{column} ({seen[column]})"
    return header


def is_name(value: object) -> TypeGuard[str | int | float]:
    """Whether a value can be a name: text or a number."""
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


def is_blank(value: object) -> bool:
    """Whether a cell is empty, also as programs write it that know no empty cells."""
    if isinstance(value, str):
        return value.strip().lower() in ("", "nan", "null")
    return value is None or (isinstance(value, float) and isnan(value))


def is_nothing(value: object) -> bool:
    """Whether this is how people write that there is no value."""
    return value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING)


def item(row: Row, field: str, place: RowPlace) -> str:
    """The item that a field names, without blanks around it; BrokenRow if it names none."""
    check_row(row, place)
    value = row.get(field)
    if value is None and field not in row:
        raise missing(row, field, place)
    if is_blank(value) or not is_name(value) or not (name := name_text(value).strip()):
        raise no_item(place, field, value)
    return name


def no_item(place: RowPlace, field: str, value: object) -> BrokenRow:
    """A row whose field names no item."""
    if not is_blank(value):
        return broken_field(place, field, value, "the name of an item")
    remedy = "write the name or drop the row"
    what = "the rater" if field == "rater" else "an item"
    problem = f"{what} has an empty name ({field})"
    return BrokenRow(problem, place.name, place.line, value, remedy)


def missing(row: Row, field: str, place: RowPlace) -> BrokenRow:
    """A row without a field that it has to have."""
    fields = [str(name) for name in row]
    remedy = f"the row has: {listed(fields)}{did_you_mean(field, fields)}"
    return BrokenRow(f"there is no field {field}", place.name, place.line, fields[:20], remedy)


def rater(row: Row, fields: Iterable[str] = RATER_FIELDS) -> str | None:
    """Who answered: the first of the fields that says so."""
    for field in fields:
        value = row.get(field)
        # MT-Bench's judge may be a list such as ["gpt-4", "pair-v2"]: together they are one rater.
        if isinstance(value, list) and value and all(map(is_name, value)):
            return ", ".join(name_text(one).strip() for one in value)
        if is_name(value) and not is_blank(value) and (name := name_text(value).strip()):
            return name
    return None


def number(value: object) -> float | None:
    """A finite number, also one written as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        if not (isinstance(value, str) and _DECIMAL_COMMA.fullmatch(value.strip())):
            return None
        found = float(value.replace(",", "."))
    # Python reads 1_2 as 12; in a file it is a name.
    return found if isfinite(found) and not (isinstance(value, str) and "_" in value) else None


# 12,5 as half of Europe writes it. Three digits after the comma may as well be thousands.
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,(?:\d{1,2}|\d{4,})", re.ASCII)
_NTH = (
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
)
_ORDINAL = re.compile(
    rf"(?:rank|choice|place|rang|platz|puesto|#|no\.?)?\s*(?:(\d+)\s*(?:st|nd|rd|th|\.)?|({'|'.join(_NTH)}))\s*"
    r"(?:choice|rank|place|preference|pref)?",
    re.IGNORECASE,
)


def ordinal(value: object) -> float | None:
    """A number that may be written as a place: 2, 2nd choice, Rank 2, second."""
    found = number(value)
    if found is None and isinstance(value, str) and (place := _ORDINAL.fullmatch(value.strip())):
        return float(place[1] or _NTH.index(place[2].lower()) + 1)
    return found


def rank_of(value: object, field: str, place: RowPlace, *, higher: bool = False) -> float | None:
    """A rank, 1 for the best, or a score where `higher` is better; None for none.

    A rank of 0 stops the file: these are no ranks.
    """
    if is_nothing(value):
        return None
    found = number(value) if higher else ordinal(value)
    if found is None:
        raise broken_field(place, field, value, "a score" if higher else "a rank, 1 for the best")
    if higher or found >= 1:
        return found
    if found == -1:
        # What WMT's files have where no rank was given.
        return None
    raise place.error(
        f"{field} is {found:g}, and ranks count from 1",
        value,
        "if these are scores, of which a higher one is better, say higher=better",
    )


def weight(row: Row, field: str | None, place: RowPlace) -> float:
    """The weight that a field gives: 1 without one."""
    value = row.get(field) if field else None
    if value is None or value == "":
        return 1.0
    found = number(value)
    if found is None or not LEAST_WEIGHT <= found <= MOST_WEIGHT:
        raise broken_field(place, field or "", value, "a weight, from 1e-6 to 1e6")
    return found


# Where seconds since 1970 would be later than the year 5000, they are counted in smaller units.
_LATEST_S = 1e11
_ZONE = re.compile(r"\s*(?:UTC|GMT|Z)$|\s+(?=[+-]\d\d:?\d\d$)", re.IGNORECASE)
_FRACTION = re.compile(r"[.,](\d{1,6})\d*")
_SLASHES = re.compile(r"^(\d{4})[/.](\d{1,2})[/.](\d{1,2})(?=\D|$)")


def seconds_since_1970(value: object) -> float | None:
    """A moment as seconds since 1970, or None.

    Numbers are seconds, or thousandths, millionths or billionths of them by their size; texts are
    ISO 8601 as people write it (UTC unless it says otherwise).
    """
    found = number(value)
    if found is None:
        return iso_seconds(value) if isinstance(value, str) else None
    while abs(found) >= _LATEST_S:
        if abs(found) > 1e19:
            return None
        found /= 1000
    return found


def iso_seconds(text: str) -> float | None:
    """Seconds since 1970 of a moment in ISO 8601, or None."""
    text = text.strip()
    zone = _ZONE.search(text)
    if zone:
        text = text[: zone.start()] + (text[zone.end() :] or "+00:00")
    text = _FRACTION.sub(lambda digits: f".{digits[1]:0<6}", text)
    text = _SLASHES.sub(lambda day: f"{day[1]}-{day[2]:0>2}-{day[3]:0>2}", text)
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return moment.timestamp()
    except (ValueError, OverflowError):
        return None


def tags(row: Row, used: Collection[str]) -> dict[str, str] | None:
    """The short values of the fields that have no other use, to group and to filter by."""
    found = {}
    for field, value in row.items():
        if field in used or value is None or isinstance(value, (list, dict)):
            continue
        tag = str(value).lower() if isinstance(value, bool) else name_text(value)
        if 0 < len(tag) <= _LONGEST_TAG and "\n" not in tag:
            found[field] = tag
    return found or None


def subjects(row: Row) -> list[str]:
    """The fields of a row that name what its question was about, as tags have it."""
    found = tags(row, ()) or {}
    return [field for field in found if is_subject(field) and not isinstance(row[field], bool)]


def line_key(place: RowPlace) -> str:
    """A key for a row without one: it holds as long as the file only grows at its end."""
    return f"{_base(place.name)}:{place.element or place.line}{place.part}"


@lru_cache(maxsize=64)  # the same name for every row of a file
def _base(name: str) -> str:
    return PurePath(name).name


def known_columns(wanted: Iterable[str], row: Row) -> None:
    """Refuse columns that the user named and the file does not have."""
    fields = [str(field) for field in row]
    for column in wanted:
        if column not in row and lookup(row, column, _ABSENT) is _ABSENT:
            raise UsageError(
                f"there is no column {column!r}; the file has: {listed(fields, 40)}"
                f"{did_you_mean(column, fields)}"
            )


def outcome(
    row: Row,
    field: str,
    words: Mapping[str, Outcome],
    left: str,
    right: str,
    place: RowPlace,
    *,
    told: bool = False,
    tellable: bool = False,
) -> Outcome | Skipped:
    """Who won, by one of the words or by the name of an item; never a guess.

    Words that the user has `told` count before names of items; `tellable`: they can be told.
    """
    value = row.get(field)
    if value is None or value == "":
        return Skipped(str(place), NO_WINNER)
    if not is_name(value):
        raise _unknown(value, field, words, left, right, place, tellable=False)
    word = name_text(value).strip()
    said = words.get(word)
    named: Outcome | None = "left" if word == left else "right" if word == right else None
    if named is None or (told and said is not None):
        if said is None:
            raise _unknown(word, field, words, left, right, place, tellable=tellable)
        return said
    if said not in (None, named):
        problem = f"{field} is {word!r}, which is both an outcome and the name of an item"
        raise place.error(problem, word, "rename the item, or say what it means with values=")
    return named


# A longer one is no code that somebody would type.
_LONGEST_TOLD = 40


def _unknown(
    word: object,
    field: str,
    words: Mapping[str, Outcome],
    left: str,
    right: str,
    place: RowPlace,
    *,
    tellable: bool,
) -> Exception:
    *most, last = [w for w in words if w != "tie (bothbad)"] or ["the name of an item"]
    expected = f"{', '.join(most)} or {last} (or one of the two item names)" if most else last
    drop = "correct or drop the line"
    if tellable and len(str(word)) <= _LONGEST_TOLD:
        drop += f", or say what it means: -O values={word}=… "
        drop += "(left, right, tie, both_bad or skip)"
    remedy = did_you_mean(word, (left, right, *words), drop, before="")
    return place.unknown(f"{field} is {brief(word, 80)}; expected {expected}", word, remedy)
