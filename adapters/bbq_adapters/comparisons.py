"""This project's own rows: `winner` and `loser`, with `rater` and `weight` if they are known.

`bbq convert` and `bbq simulate --format comparisons` write them, as CSV, JSON lines or
Parquet. Which side an item stood on is not recorded. In CSV an apostrophe guards a name that
a spreadsheet would take for a formula ('=a); it is taken away again, so that every
name comes back as it was. JSON and Parquet hold the names as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bbq_adapters.rows import RowPlace, look, rows
from bbq_plugin.data.records import Comparison, Skipped

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

_NEEDED = {"winner", "loser"}
_KNOWN = {"rater", "winner", "loser", "weight"}
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_PEEKED = 64


class ComparisonsAdapter:
    """Rows of winner and loser, as `bbq convert` writes them."""

    name = "comparisons"
    lines_stand_alone = True

    def sniff(self, head: bytes, name: str) -> str | None:  # noqa: ARG002 - the content decides
        """By `winner` and `loser`, perhaps `rater` and `weight`, and no other columns."""
        fields = look(head).fields
        return "rows of winner and loser" if _NEEDED <= fields <= _KNOWN else None

    def read(self, stream: io.BufferedReader, name: str) -> Iterator[Comparison | Skipped]:
        """Yield one record a row."""
        guarded = look(stream.peek(_PEEKED)).kind == "table"
        for place, row in rows(stream, name):
            winner, loser = (_name(row, field, place, guarded=guarded) for field in _FIELDS)
            if winner == loser:
                yield Skipped(str(place), "an item against itself", winner)
                continue
            rater = None if row.get("rater") in (None, "") else row["rater"]
            if rater is not None:
                rater = _name(row, "rater", place, guarded=guarded)
            # The side is not known, and a record that is part of a slate has none.
            key = str(place)
            yield Comparison(key, rater, winner, loser, "left", _weight(row, place), slate=key)


_FIELDS = ("winner", "loser")


def _name(row: dict[str, Any], field: str, place: RowPlace, *, guarded: bool) -> str:
    value = row.get(field)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or value == "":
        raise place.error(
            f"{field} is {value!r}",
            value,
            "every row names the item that won and the one that lost",
        )
    text = str(value)
    if guarded and text.startswith("'") and text.lstrip("'").startswith(_FORMULA_STARTS):
        return text[1:]
    return text


def _weight(row: dict[str, Any], place: RowPlace) -> float:
    value = row.get("weight")
    if value is None or value == "":
        return 1.0
    try:
        weight = float(value)
    except (TypeError, ValueError):
        weight = float("nan")
    if isinstance(value, bool) or not 0 < weight < float("inf"):
        raise place.error(
            f"weight is {value!r}", value, "a weight is a finite number above 0, or left out for 1"
        )
    return weight
