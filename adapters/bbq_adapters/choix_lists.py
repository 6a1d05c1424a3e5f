"""Data of choix: items as numbers, as `bbq convert --layout choix` writes them or as bare lists.

    {"n_items": 3, "items": ["a", "b", "c"], "data": [[0, 1], [2, 0]]}

Each entry is a win [winner, loser], a ranking [best, …, worst], or a choice [best, [others]]. In a
CSV file the names stand in front as comments, `# 0 "a"`, and each row is a win. Without names the
items are called by their numbers.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from bbq_adapters.row_reader import BOM, BrokenRow, RowPlace, document, line_key, lines
from bbq_plugin.data.rankings import best_worst_pairs, ranked_pairs, slate_comparisons
from bbq_plugin.data.records import Comparison, Skipped
from bbq_plugin.errors import DataError, FormatError
from bbq_plugin.text import brief

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator, Sequence

    from bbq_plugin.data.rankings import Pair

_DOCUMENT = re.compile(rb'\s*\{\s*"n_items"\s*:\s*\d+\s*,\s*"items"\s*:\s*\[')
_COMMENTS = re.compile(rb'#\s*0\s+"')
_NAME = re.compile(r"#\s*(\d+)\s+(\".*\")")
_EXPECTED = "expected [winner, loser], [best, …, worst] or [best, [others]], by number"


class ChoixAdapter:
    """Pairs, rankings and choices of choix, items as numbers."""

    name = "choix"

    def sniff(self, head: bytes, name: str) -> str | None:  # noqa: ARG002 - the content decides
        """By `n_items` and `items` of JSON, or by the comment `# 0 "NAME"` of CSV."""
        text = head.removeprefix(BOM)
        found = _DOCUMENT.match(text) or _COMMENTS.match(text)
        return "numbers of items with their names, as for choix" if found else None

    def read(self, stream: io.BufferedReader, name: str) -> Iterator[Comparison | Skipped]:
        """Yield the pairs of each entry."""
        begins = stream.peek(64).removeprefix(BOM).lstrip()[:1]
        entries = _of_document(stream, name) if begins in (b"{", b"[") else _of_csv(stream, name)
        for place, entry, names in entries:
            try:
                pairs = _pairs(entry, names)
            except DataError as error:
                yield BrokenRow(str(error), name, place.line, brief(entry)).skipped(place)
                continue
            # Which side an item stood on is not known.
            yield from slate_comparisons(pairs, line_key(place), None, sided=False)


_Entry = tuple[RowPlace, Any, "dict[int, str] | None"]


def _of_document(stream: io.BufferedReader, name: str) -> Iterator[_Entry]:
    found = document(stream, name)
    data, items = (
        (found.get("data"), found.get("items")) if isinstance(found, dict) else (found, None)
    )
    if not isinstance(data, list) or not isinstance(items, (list, type(None))):
        raise FormatError(
            "there is no list of comparisons",
            name,
            1,
            remedy='expected {"items": […], "data": […]}',
        )
    names = None if items is None else dict(enumerate(map(str, items)))
    for number, entry in enumerate(data, 1):
        yield RowPlace(name, 1, number), entry, names


def _of_csv(stream: io.BufferedReader, name: str) -> Iterator[_Entry]:
    names: dict[int, str] = {}
    for number, line in lines(stream, name):
        text = line.decode("utf-8", "replace").removeprefix("\ufeff").strip()
        found = _NAME.fullmatch(text)
        if found:
            names[int(found[1])] = json.loads(found[2])
        elif text and not text.startswith("#"):
            cells = re.split(r"\s*,\s*|\s+", text)
            entry = [int(cell) if cell.isdecimal() else cell for cell in cells]
            yield RowPlace(name, number), entry, names or None


def _pairs(entry: Any, names: dict[int, str] | None) -> Sequence[Pair]:
    if not isinstance(entry, list) or len(entry) < 2:
        raise DataError(f"{brief(entry)} is no comparison; {_EXPECTED}")
    if isinstance(entry[1], list):
        best, *others = (_item(number, names) for number in [entry[0], *entry[1]])
        if len(entry) > 2 or not others or len({best, *others}) <= len(others):
            raise DataError(f"{brief(entry)} is no choice; {_EXPECTED}")
        if len(others) == 1:
            return ranked_pairs([(best, 1.0), (others[0], 2.0)])
        return best_worst_pairs(best, None, [best, *others])
    ranked = [_item(number, names) for number in entry]
    if len(set(ranked)) < len(ranked):
        raise DataError(f"{brief(entry)} has an item twice")
    return ranked_pairs([(item, float(rank)) for rank, item in enumerate(ranked)])


def _item(number: Any, names: dict[int, str] | None) -> str:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise DataError(f"{brief(number)} is no number of an item; {_EXPECTED}")
    if names is None:
        return str(number)
    if number not in names:
        raise DataError(f"item {number} has no name; there are {len(names)} names, from 0 on")
    return names[number]
