"""Preference profiles of PrefLib: .soc, .soi, .toc and .toi, in the format of now and the old one.

# ALTERNATIVE NAME 1: Shrek
263: 2,1,3          263 voters: 2 before 1 before 3
12: 1,{2,3}         12 voters: 1 before 2 and 3, which are equal
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

from bbq_adapters.row_reader import BOM, BrokenRow, RowPlace, line_key, lines
from bbq_plugin.data.rankings import ranked_pairs, slate_comparisons
from bbq_plugin.data.records import Comparison, Note, Skipped
from bbq_plugin.errors import FormatError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

_NAME = re.compile(r"#\s*ALTERNATIVE NAME\s+(\d+)\s*:\s*(.*)", re.IGNORECASE)
_OLD_NAME = re.compile(r"(\d+)\s*,\s*(.*)")
_ORDER = re.compile(r"\s*(\d+)\s*[:,]\s*((?:\{[\d,\s]*\}|[\d,\s])+)")
_LEVEL = re.compile(r"\{([\d,\s]*)\}|(\d+)")
_OLD_HEAD = re.compile(rb"\d+[ \t]*\r?\n(?:1[ \t]*,[^\n]*\n)")
_MOST_VOTERS = 1_000_000


class PrefLibAdapter:
    """Rankings of PrefLib: .soc, .soi, .toc and .toi."""

    name = "preflib"

    def sniff(self, head: bytes, name: str) -> str | None:
        """By `# ALTERNATIVE NAME 1:`, or by the suffix with the head of the old format."""
        text = head.removeprefix(BOM)
        if text.startswith(b"#") and b"# ALTERNATIVE NAME 1:" in text:
            return "a preference profile of PrefLib"
        old = name.lower().removesuffix(".gz").endswith((".soc", ".soi", ".toc", ".toi"))
        return (
            "a preference profile of PrefLib (old format)"
            if old and _OLD_HEAD.match(text)
            else None
        )

    def read(self, stream: io.BufferedReader, name: str) -> Iterator[Comparison | Skipped | Note]:
        """Yield the pairs of each voter's ranking; equal alternatives are ties."""
        numbered = (
            (RowPlace(name, number), line.decode("utf-8", "replace").strip())
            for number, line in lines(stream, name)
        )
        names: dict[str, str] = {}
        for place, line in numbered:
            found = _NAME.fullmatch(line)
            if found:
                names[found[1]] = found[2].strip() or found[1]
            elif line and not line.startswith("#"):
                yield from _orders(place, line, names, numbered)
                return
        raise FormatError("there is no ranking in this file", name, 1, remedy="give its data file")


def _orders(
    place: RowPlace, line: str, names: dict[str, str], rest: Iterator[tuple[RowPlace, str]]
) -> Iterator[Comparison | Skipped | Note]:
    """The rankings, after the names of the old format if these are not known yet."""
    if not names:
        if not line.isdigit() or int(line) > _MOST_VOTERS:
            raise place.error("there are no names of alternatives", line, "give its data file")
        for _ in range(int(line)):
            place, text = next(rest, (place, ""))
            found = _OLD_NAME.fullmatch(text)
            if found is None:
                raise place.error("this is no alternative", text[:60], "expected 1,NAME")
            names[found[1]] = found[2].strip() or found[1]
        # voters, sum of the counts, different orders
        place, line = next(rest, (place, ""))
        place, line = next(rest, (place, ""))
    if len(set(names.values())) < len(names):
        names = {number: f"{own} ({number})" for number, own in names.items()}
    for at, text in chain([(place, line)], rest):
        if text and not text.startswith("#"):
            try:
                yield from _voters(at, text, names)
            except BrokenRow as broken:
                yield broken.skipped(at)


def _voters(place: RowPlace, line: str, names: dict[str, str]) -> Iterator[Comparison | Skipped]:
    found = _ORDER.fullmatch(line)
    if found is None or not 0 < len(found[1]) < 8:
        raise BrokenRow(
            "the line is no ranking such as 12: 1,{2,3}", place.name, place.line, line[:60]
        )
    ranks = []
    for rank, level in enumerate(_LEVEL.finditer(found[2]), 1):
        for number in (level[1] or level[2] or "").split(","):
            if number.strip() and number.strip() not in names:
                problem = "an alternative of the ranking has no name"
                raise BrokenRow(problem, place.name, place.line, number)
            if number.strip():
                ranks.append((names[number.strip()], float(rank)))
    shown = [name for name, _ in ranks]
    if len(set(shown)) < len(shown):
        raise BrokenRow("an alternative is ranked twice", place.name, place.line, line[:60])
    if len(shown) < 2:
        yield Skipped(str(place), "only one alternative is ranked", expected=True)
        return
    pairs = ranked_pairs(ranks)
    n = int(found[1])
    if not 0 < n <= _MOST_VOTERS:
        raise BrokenRow("the number of voters is not usable", place.name, place.line, found[1])
    for voter in range(n):
        # Two alternatives have no sides here.
        yield from slate_comparisons(pairs, f"{line_key(place)}/{voter}", None, sided=False)
