"""What adapters do with the values of a row: names, numbers, times, raters and tags."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeGuard

from bbq_plugin.errors import UsageError, did_you_mean
from bbq_plugin.text import listed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from bbq_adapters.rows import Row, RowPlace

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


def text(value: str | float) -> str:
    """A name as text; pandas writes whole numbers of a column with gaps as 12.0."""
    if isinstance(value, str):
        return value
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def item(row: Row, field: str, place: RowPlace) -> str:
    """The item that a field names."""
    value = row.get(field)
    if value is None and field not in row:
        raise missing(row, field, place)
    if value is None or not is_name(value) or not text(value).strip():
        problem = "an item has an empty name" if value is None or is_name(value) else "is no name"
        raise place.error(
            f"{problem}: {field} is {_short(value)}", value, "name the item or drop the row"
        )
    return text(value)


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
            return ", ".join(map(text, value))
        if is_name(value) and text(value).strip():
            return text(value)
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


def seconds_since_1970(value: object) -> float | None:
    """A moment given as seconds or in ISO 8601 (UTC unless it says otherwise), or None."""
    found = number(value)
    if found is not None or not isinstance(value, str):
        return found
    try:
        moment = datetime.fromisoformat(value.strip())
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
        tag = str(value).lower() if isinstance(value, bool) else text(value)
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


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"
