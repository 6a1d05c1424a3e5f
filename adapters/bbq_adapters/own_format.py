"""This project's own rows: `winner` and `loser`, with `rater` and `weight` if they are known.

Where there are ties, a column `tie` has 1 for each of them and 0 for the others: then `winner` and
`loser` are only the two items.

`bbq convert` and `bbq simulate --format comparisons` write them, as CSV, JSON lines or
Parquet. Which side an item stood on is not recorded. In CSV an apostrophe guards a name that
a spreadsheet would take for a formula ('=a); it is taken away again, so that every
name comes back as it was. JSON and Parquet hold the names as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bbq_adapters.row_reader import BrokenRow, broken_field, item, look, rows, weight
from bbq_plugin.data.records import AGAINST_ITSELF, Comparison, Skipped
from bbq_plugin.text import unguarded

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

    from bbq_adapters.row_reader import Row, RowPlace
    from bbq_plugin.data.records import Outcome

_NEEDED = {"winner", "loser"}
_KNOWN = {"rater", "winner", "loser", "weight", "tie"}
_TIES = {"1": True, "true": True, "0": False, "false": False, "": False}
_PEEKED = 64


class ComparisonsAdapter:
    """Rows of winner and loser, as `bbq convert` writes them."""

    name = "comparisons"
    lines_stand_alone = True

    def sniff(self, head: bytes, name: str) -> str | None:  # noqa: ARG002 - the content decides
        """By `winner` and `loser`, perhaps `rater`, `weight` and `tie`, and no other columns."""
        fields = look(head).fields
        return "rows of winner and loser" if _NEEDED <= fields <= _KNOWN else None

    def read(self, stream: io.BufferedReader, name: str) -> Iterator[Comparison | Skipped]:
        """Yield one record a row."""
        guarded = look(stream.peek(_PEEKED)).kind == "table"
        for place, row in rows(stream, name):
            try:
                yield _record(row, place, guarded=guarded)
            except BrokenRow as broken:
                yield broken.skipped(place)


def _record(row: Row, place: RowPlace, *, guarded: bool) -> Comparison | Skipped:
    winner, loser = (_name(row, field, place, guarded=guarded) for field in ("winner", "loser"))
    if winner == loser:
        return Skipped(str(place), AGAINST_ITSELF, winner)
    rated = row.get("rater") not in (None, "")
    rater = _name(row, "rater", place, guarded=guarded) if rated else None
    # The side is not known, and a record that is part of a slate has none.
    key = str(place)
    outcome: Outcome = "tie" if _is_tie(row, place) else "left"
    return Comparison(key, rater, winner, loser, outcome, weight(row, "weight", place), slate=key)


def _is_tie(row: Row, place: RowPlace) -> bool:
    value = row.get("tie")
    found = _TIES.get(str("" if value is None else value).strip().lower())
    if found is None:
        raise broken_field(place, "tie", value, "1 for a tie, or 0")
    return found


def _name(row: Row, field: str, place: RowPlace, *, guarded: bool) -> str:
    name = item(row, field, place)
    return unguarded(name) if guarded else name
