"""A row and the values in it: place, items, raters, numbers, ranks, times, tags and outcomes."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite, isnan
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from bbq_plugin.data.records import LEAST_WEIGHT, MOST_WEIGHT, NO_WINNER, Skipped, is_subject
from bbq_plugin.errors import FormatError, UnknownOutcomeError, UsageError, did_you_mean
from bbq_plugin.text import brief, listed, name_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from bbq_plugin.data.records import Outcome

_NOTHING = ("", "null", "none", "nan", "n/a", "na")
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


#: Why a row is left out that has the names of the columns, as where files were joined.
HEADER_AGAIN = "repeats the names of the columns"


class BrokenRow(FormatError):  # noqa: N818 - a row left out, and no error by itself
    """A row with an empty or broken field: a counted skip, and not the end of the file."""

    def skipped(self, place: RowPlace) -> Skipped:
        """The record of it."""
        shown = None if self.value is None else brief(self.value)
        return Skipped(str(place), self.problem, shown, expected=self.problem == HEADER_AGAIN)


class RaggedRow(dict[str, Any]):
    """A row of a delimited file that is damaged, or has other cells than the header."""

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
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
)  # fmt: skip
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
