"""The values of a row: items, winners, raters, weights, times and tags."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeGuard

from bbq_plugin.data.records import NO_WINNER, Skipped
from bbq_plugin.errors import UsageError, did_you_mean
from bbq_plugin.text import brief, listed, name_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from bbq_adapters.row_reader import Row, RowPlace
    from bbq_plugin.data.records import Outcome

#: Fields that name the rater, the surer ones first.
RATER_FIELDS = (
    "judge",
    "judge_hash",
    "judge_id",
    "rater",
    "annotator",
    "annotator_id",
    "user_id",
    "worker",
    "answerer",
    "observer",
    "participant",
    "subject",
    "completed_by",
)

# A tag is a value to group by, such as a language; what is longer is content.
_LONGEST_TAG = 80


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
    return place.error(
        f"there is no field {field}",
        fields[:20],
        f"the row has: {listed(fields)}{did_you_mean(field, fields)}",
    )


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
        raise place.error(
            f"{field} is {brief(value)}",
            value,
            "a weight is a finite number above 0, or left out for 1",
        )
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
        raise place.error(
            f"{field} is {word!r}, which is both an outcome and the name of an item",
            word,
            "rename the item",
        )
    return named


def _unknown(
    word: object, field: str, words: dict[str, Outcome], left: str, right: str, place: RowPlace
) -> Exception:
    *most, last = [w for w in words if w != "tie (bothbad)"] or ["the name of an item"]
    expected = f"{', '.join(most)} or {last} (or one of the two item names)" if most else last
    return place.error(
        f"{field} is {brief(word, 80)}; expected {expected}",
        word,
        did_you_mean(word, (left, right, *words), "correct or drop the line", before=""),
    )
