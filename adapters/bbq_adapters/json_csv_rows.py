"""Files as rows: JSON lines, JSON arrays and documents, and delimited text.

Every row is a dict from field to value with its line. Faults name file, line, value and remedy.
No more than one line or element is held beyond the piece at hand.
"""

from __future__ import annotations

import csv
import io
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from math import inf
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from bbq_adapters.labels_and_item_names import tokens, word_set
from bbq_adapters.row_values import (
    HEADER_AGAIN,
    RaggedRow,
    Row,
    RowPlace,
    check_row,
    is_name,
    lookup,
)
from bbq_plugin.data.mappings import Reading, UnclearError
from bbq_plugin.data.records import Skipped
from bbq_plugin.errors import FormatError
from bbq_plugin.text import brief, name_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


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
_CR_LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_EXCEL_HINT = re.compile(rb"sep=([,;|\t])\r?\n?")

# Up to the next brace outside a string. Possessive, so it never goes back over what it read;
# a string that the window cuts off is left where it starts.
_TO_BRACE = re.compile(rb'[^"{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}]*+)*+', re.DOTALL)
_JSON_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]')


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


def columns_of(head: bytes) -> dict[str, list[str]]:
    """The cells of the whole rows in the head of a file by column, without lists and objects."""
    found: dict[str, list[str]] = {}
    whole: Any = io.BufferedReader(io.BytesIO(head[: head.rfind(b"\n") + 1]))
    with suppress(FormatError):
        for _, row in rows(whole, "", unique=False):
            inner = {
                f"{k}.{i}": v for k, d in row.items() if isinstance(d, dict) for i, v in d.items()
            }
            for field, value in {**row, **inner}.items():
                if isinstance(value, bool):
                    found.setdefault(field, []).append(str(value).lower())
                elif is_name(value):
                    found.setdefault(field, []).append(name_text(value).strip())
    return found


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
    """Where the rows of a document stand, and the rows; None if there are none.

    Of several lists it is one that refers to another by two ids, as matches to players, else the
    longest. The names of what a row refers to are added.
    """
    named = {at: names for at, rows in _lists_of_rows(document) if (names := _names_by_id(rows))}
    if path is not None:
        found = _as_rows(document if path == "." else lookup(document, path))
        return None if found is None else (path, _with_names(found, path, named))
    best: tuple[str, list[Row]] | None = None
    most = (False, 0)
    for at, found in _lists_of_rows(document):
        joined = _with_names(found, at, named)
        if (size := (joined is not found, len(found))) > most:
            best, most = (at, joined), size
    return best


# What fields that refer to such an entry are called, beside the name of its list.
_REFER_WORDS = word_set(
    "id ids winner loser won lost home away left right first second one two 1 2 a b"
)
_ID_AT_END = re.compile(r"(?<=.)[_-]?(?:id|Id|ID)$")
# What an entry of a list is known by, and what it is called.
_IDS = ("id", "_id", "uuid")
_NAMES = ("name", "title", "label", "username")


def _names_by_id(found: list[Row]) -> dict[str, Any]:
    """The names of the entries of a list by their ids; none where it has no such fields."""
    for key in _IDS:
        name = next((one for one in _NAMES if key in found[0] and one in found[0]), None)
        if name is not None:
            names = {str(row.get(key)): row.get(name) for row in found}
            good = len(names) == len(found) and all(map(is_name, names.values()))
            return names if good else {}
    return {}


def _with_names(found: list[Row], at: str, named: dict[str, dict[str, Any]]) -> list[Row]:
    """The rows with the names of what two fields or more refer to, as `player1.name`.

    What an object has by the same ids, such as scores, is added as `player1.score`.
    """
    for other, names in named.items():
        own = tokens(other)
        words = _REFER_WORDS | {*own, *(word.removesuffix("s") for word in own)}
        refer = [
            field
            for field, value in found[0].items()
            if field not in _IDS
            and is_name(value)
            # Numbers of goals may be ids of players as well.
            and {*tokens(field)} <= words
            and all(row.get(field) is None or str(row[field]) in names for row in found)
        ]
        if at == other or len(refer) < 2:
            continue
        return [_with_names_of(row, refer, names) for row in found]
    return found


def _with_names_of(row: Row, refer: Sequence[str], names: dict[str, Any]) -> Row:
    ids = {field: str(row[field]) for field in refer if row.get(field) is not None}
    by_id = [
        field
        for field, value in row.items()
        if isinstance(value, dict) and value and value.keys() <= {*ids.values()}
    ]
    out = {field: value for field, value in row.items() if field not in by_id}
    for field, own in ids.items():
        about = _ID_AT_END.sub("", field)
        out[f"{about}.name"] = names[own]
        out |= {f"{about}.{what}": row[what].get(own) for what in by_id}
    return out


def _lists_of_rows(document: Any) -> Iterator[tuple[str, list[Row]]]:
    """The lists of rows in a document by their paths, those further outside first."""
    waiting = [(".", document)]
    while waiting:
        at, value = waiting.pop(0)
        found = _as_rows(value)
        if found is not None:
            yield at, found
        elif isinstance(value, dict) and at.count(".") < _DEEPEST_LIST:
            waiting += [(key if at == "." else f"{at}.{key}", one) for key, one in value.items()]


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
        found_rows = _without_questions(
            ((reader.line_num, row) for row in chain(held, reader)), header=header
        )
        if header and not unique:
            columns, found_rows = _as_wide_as_rows(columns, found_rows)
        width, named = len(columns), all(columns)
        for line, row in found_rows:
            place = RowPlace(name, line + shift)
            # Where files were joined, the names of the columns come again.
            again = header and row == top
            if named and len(row) == width and all(row) and not (again or "\0" in "".join(row)):
                yield place, dict(zip(columns, row, strict=True))
                continue
            made = _made_row(row, columns, again=again, free=uneven and not header)
            if made is not None:
                if needed and not again:
                    check_row(made, place)
                yield place, made
    except csv.Error as error:
        remedy = "correct the quotes of this line, or export the file again if it is cut off"
        place = RowPlace(name, max(1, reader.line_num + shift))
        raise place.error(f"not valid CSV ({error})", text.last[:60], remedy) from error
    except UnicodeDecodeError as error:
        raise _not_utf8(RowPlace(name, reader.line_num + shift + 1), error) from error


# So many rows tell that the header is longer or shorter than all of them.
_ROWS_TO_TELL = 20
# A first column of such a name numbers the rows itself.
_ROW_NUMBERS = word_set("id ids idx index number num no nr n row trial comparison question round")


def _as_wide_as_rows(
    columns: list[str], found: Iterator[tuple[int, list[str]]]
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The columns and the rows, where the header has another width than all rows.

    What the header has beyond them is empty in each row. What it lacks has no name: at the end,
    or, where the first cells number the rows as R writes them, at the start.
    """
    width = len(columns)
    first = list(islice(found, 1))
    surplus = first[0][1][width:] if first else []
    if not width or not first or len(first[0][1]) == width or (surplus and not any(surplus)):
        return columns, chain(first, found)
    first += islice(found, _ROWS_TO_TELL)
    rows = [row for _, row in first if any(cell.strip() for cell in row)]
    widths = {len(row) for row in rows}
    if len(rows) < 3 or len(widths) > 1:
        return columns, chain(first, found)
    (wide,) = widths
    if 1 < wide < width:
        lacking = [""] * (width - wide)
        padded = (
            (line, [*row, *lacking] if len(row) == wide else row)
            for line, row in chain(first, found)
        )
        return columns, padded
    starts = [row[0] for row in rows]
    numbers = {*tokens(columns[0])} <= _ROW_NUMBERS
    if len({*starts}) < len(starts) or wide > width + 1 or numbers:
        columns = [*columns, *(f"column{i}" for i in range(width + 1, wide + 1))]
    elif all(map(str.isdigit, starts)) and starts == sorted(starts, key=int):
        columns = ["column1", *columns]
    return columns, chain(first, found)


def header_width(head: bytes) -> tuple[int, int] | None:
    """How many columns the header of a table and all rows below have; None where as many."""
    if look(head).kind == "json":
        return None
    whole: Any = io.BufferedReader(io.BytesIO(head[: head.rfind(b"\n") + 1]))
    with suppress(FormatError):
        found = rows(whole, "", header=False, unique=False, uneven=True)
        wide = [len(row) for _, row in islice(found, 4) if not isinstance(row, RaggedRow)]
        if len(wide) == 4 and len({*wide[1:]}) == 1 and wide[1] != wide[0]:
            return wide[0], wide[1]
    return None


def _made_row(row: list[str], columns: list[str], *, again: bool, free: bool) -> Row | None:
    """A row with empty cells, or a damaged one; None for an empty line.

    `free`: it may have another number of cells.
    """
    # More empty cells than columns: a delimiter at the end of each line.
    cells = row if any(row[len(columns) :]) else row[: len(columns)]
    problem = f"has {len(cells)} columns where the header has {len(columns)}"
    if "\0" in "".join(cells):
        problem = "holds NUL characters"
    elif len(cells) == len(columns) and not again:
        # CSV has no null: an empty cell is one.
        return {c: v or None for c, v in zip(columns, cells, strict=True) if c}
    elif free:
        return {f"column{i}": v or None for i, v in enumerate(row, 1)}
    elif not any(cell.strip() for cell in cells):
        return None
    elif again:
        problem = HEADER_AGAIN
    return RaggedRow(problem, cells[0][:60])


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
        or "\0" in text
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
