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
from itertools import chain
from math import inf, isfinite
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

import msgspec

from bbq_plugin.data.records import NO_WINNER, Skipped
from bbq_plugin.errors import FormatError, UsageError, did_you_mean
from bbq_plugin.text import brief, listed, name_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from bbq_plugin.data.records import Outcome

BOM = b"\xef\xbb\xbf"

# Whole conversations may stand in a field that is not read here, but this is no row any more.
LONGEST_ROW = 64 * 1024 * 1024
_BOM_AND_BLANKS = 64
_PIECE = 1 << 20
_DELIMITERS = ",\t;|"

# Up to the next brace outside a string. Possessive, so it never goes back over what it read;
# a string that the window cuts off is left where it starts.
_TO_BRACE = re.compile(rb'[^"{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}]*+)*+', re.DOTALL)
_JSON_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]')
Row = dict[str, Any]

#: Fields that name the rater, the surer ones first.
RATER_FIELDS = (
    "judge", "judge_hash", "judge_id", "rater", "annotator", "annotator_id", "user_id", "worker",
    "answerer", "observer", "participant", "subject", "completed_by",
)  # fmt: skip

# A tag is a value to group by, such as a language; what is longer is content.
_LONGEST_TAG = 80


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Where a row stands, for messages."""

    name: str
    line: int
    #: The number of the element of an array, which may all stand on one line.
    element: int | None = None

    def __str__(self) -> str:
        number = "" if self.element is None else f" (element {self.element})"
        return f"{self.name}:{self.line}{number}"

    def error(self, problem: str, value: object = None, remedy: str | None = None) -> FormatError:
        """An error about this row."""
        number = "" if self.element is None else f"element {self.element}: "
        return FormatError(number + problem, self.name, self.line, value, remedy)


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


def rows(stream: io.BufferedReader, name: str) -> Iterator[tuple[RowPlace, Row]]:
    """Yield the rows of a JSON or delimited file."""
    head = stream.peek(_BOM_AND_BLANKS).removeprefix(BOM).lstrip()
    if head.startswith(b"["):
        return _array_rows(stream, name)
    return _line_rows(stream, name) if head.startswith(b"{") else table_rows(stream, name)


def lines(stream: io.BufferedReader, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with their numbers, without the mark at the start of the file."""
    number = 0
    while line := stream.readline(LONGEST_ROW + 1):
        number += 1
        if len(line) > LONGEST_ROW:
            raise too_long(name, number)
        yield number, line.removeprefix(BOM) if number == 1 else line


def too_long(name: str, line: int) -> FormatError:
    """A line that cannot be a row."""
    return FormatError(
        f"a row is longer than {LONGEST_ROW >> 20} MB",
        name,
        line,
        remedy="write one answer a line, without images or other attachments",
    )


def _line_rows(stream: io.BufferedReader, name: str) -> Iterator[tuple[RowPlace, Row]]:
    for number, line in lines(stream, name):
        if not line.isspace():
            place = RowPlace(name, number)
            yield place, line_row(line, place)


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
    return place.error(f"the text is not UTF-8 ({error.reason})", value, "save the file as UTF-8")


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
                    raise too_long(self._name, self._line)
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
    """What stands between the columns: the sign that the header has most of."""
    return max(_DELIMITERS, key=header.count)


def table_rows(
    stream: io.BufferedReader, name: str, needed: Sequence[str] = ()
) -> Iterator[tuple[RowPlace, Row]]:
    """Yield the rows of a delimited file that has the `needed` columns."""
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_ROW))
    numbered = lines(stream, name)
    first = next(numbered, (1, b""))[1]
    # A byte that is no text is told about where it stands: below, not in the search for commas.
    delimiter = _delimiter(first.decode("utf-8", "replace"))
    last = ""

    def decoded() -> Iterator[str]:
        nonlocal last
        for _, line in chain([(1, first)], numbered):
            last = line.decode("utf-8")
            yield last

    reader = csv.reader(decoded(), delimiter=delimiter, strict=True)
    try:
        header = _header(next(reader, []), name)
        if missing := [column for column in needed if column not in header]:
            problem = f"there is no column {', '.join(missing)}"
            raise FormatError(problem, name, 1, header[:40], "export the file again")
        for cells in reader:
            place = RowPlace(name, reader.line_num)
            if len(cells) == len(header):
                # CSV has no null: an empty cell is one.
                yield place, {c: v or None for c, v in zip(header, cells, strict=True) if c}
            elif any(cell.strip() for cell in cells):
                raise place.error(
                    f"has {len(cells)} columns where the header has {len(header)}",
                    cells[0][:60],
                    "put text with the delimiter in it into double quotes, or export the file "
                    "again if it is cut off",
                )
    except csv.Error as error:
        remedy = "correct the quotes of this line, or export the file again if it is cut off"
        place = RowPlace(name, max(1, reader.line_num))
        raise place.error(f"not valid CSV ({error})", last[:60], remedy) from error
    except UnicodeDecodeError as error:
        raise _not_utf8(RowPlace(name, reader.line_num + 1), error) from error


def _header(cells: list[str], name: str) -> list[str]:
    header = [cell.strip() for cell in cells]
    seen: set[str] = set()
    for column in header:
        if column and column in seen:
            raise FormatError(
                f"two columns are called {column!r}", name, 1, column, "rename one of them"
            )
        seen.add(column)
    return header


def is_name(value: object) -> TypeGuard[str | int | float]:
    """Whether a value can be a name: text or a number."""
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


def item(row: Row, field: str, place: RowPlace) -> str:
    """The item that a field names."""
    value = row.get(field)
    if value is None and field not in row:
        raise missing(row, field, place)
    if value is None or not is_name(value) or not name_text(value).strip():
        problem = "an item has an empty name" if value is None or is_name(value) else "is no name"
        raise place.error(
            f"{problem}: {field} is {brief(value)}", value, "name the item or drop the row"
        )
    return name_text(value)


def missing(row: Row, field: str, place: RowPlace) -> Exception:
    """A row without a field that it has to have."""
    fields = [str(name) for name in row]
    remedy = f"the row has: {listed(fields)}{did_you_mean(field, fields)}"
    return place.error(f"there is no field {field}", fields[:20], remedy)


def rater(row: Row, fields: Iterable[str] = RATER_FIELDS) -> str | None:
    """Who answered: the first of the fields that says so."""
    for field in fields:
        value = row.get(field)
        # MT-Bench's judge may be a list such as ["gpt-4", "pair-v2"]: together they are one rater.
        if isinstance(value, list) and value and all(map(is_name, value)):
            return ", ".join(map(name_text, value))
        if is_name(value) and name_text(value).strip():
            return name_text(value)
    return None


def number(value: object) -> float | None:
    """A finite number, also one written as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if isfinite(found) else None


def weight(row: Row, field: str | None, place: RowPlace) -> float:
    """The weight that a field gives: 1 without one."""
    value = row.get(field) if field else None
    if value is None or value == "":
        return 1.0
    found = number(value)
    if found is None or found <= 0:
        remedy = "a weight is a finite number above 0, or left out for 1"
        raise place.error(f"{field} is {brief(value)}", value, remedy)
    return found


def seconds_since_1970(value: object) -> float | None:
    """A moment given as seconds or in ISO 8601 (UTC unless it says otherwise), or None."""
    found = number(value)
    return found if found is not None or not isinstance(value, str) else iso_seconds(value)


def iso_seconds(text: str) -> float | None:
    """Seconds since 1970 of a moment in ISO 8601, or None."""
    try:
        moment = datetime.fromisoformat(text.strip())
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


def line_key(place: RowPlace) -> str:
    """A key for a row without one: it holds as long as the file only grows at its end."""
    return f"{_base(place.name)}:{place.element or place.line}"


@lru_cache(maxsize=64)  # the same name for every row of a file
def _base(name: str) -> str:
    return PurePath(name).name


def known_columns(wanted: Iterable[str], row: Row) -> None:
    """Refuse columns that the user named and the file does not have."""
    fields = [str(field) for field in row]
    for column in wanted:
        if column not in row:
            raise UsageError(
                f"there is no column {column!r}; the file has: {listed(fields, 40)}"
                f"{did_you_mean(column, fields)}"
            )


def outcome(
    row: Row, field: str, words: dict[str, Outcome], left: str, right: str, place: RowPlace
) -> Outcome | Skipped:
    """Who won, by one of the words or by the name of an item; never a guess."""
    if field not in row:
        raise missing(row, field, place)
    value = row[field]
    if value is None or value == "":
        return Skipped(str(place), NO_WINNER)
    if not is_name(value):
        raise _unknown(value, field, words, left, right, place)
    word = name_text(value)
    said = words.get(word)
    named: Outcome | None = "left" if word == left else "right" if word == right else None
    if named is None:
        if said is None:
            raise _unknown(word, field, words, left, right, place)
        return said
    if said not in (None, named):
        problem = f"{field} is {word!r}, which is both an outcome and the name of an item"
        raise place.error(problem, word, "rename the item")
    return named


def _unknown(
    word: object, field: str, words: dict[str, Outcome], left: str, right: str, place: RowPlace
) -> Exception:
    *most, last = [w for w in words if w != "tie (bothbad)"] or ["the name of an item"]
    expected = f"{', '.join(most)} or {last} (or one of the two item names)" if most else last
    remedy = did_you_mean(word, (left, right, *words), "correct or drop the line", before="")
    return place.error(f"{field} is {brief(word, 80)}; expected {expected}", word, remedy)
