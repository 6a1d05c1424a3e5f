"""Files to exchange data: this project's own rows, lists of choix, PrefLib profiles, Appraise.

This project's own rows: `winner` and `loser`, with `rater` and `weight` if they are known.

Where there are ties, a column `tie` has 1 for each of them and 0 for the others: then `winner` and
`loser` are only the two items.

`bbq convert` and `bbq simulate --format comparisons` write them, as CSV, JSON lines or
Parquet. Which side an item stood on is not recorded. In CSV an apostrophe guards a name that
a spreadsheet would take for a formula ('=a); it is taken away again, so that every
name comes back as it was. JSON and Parquet hold the names as they are.

Data of choix: items as numbers, as `bbq convert --layout choix` writes them or as bare lists.

    {"n_items": 3, "items": ["a", "b", "c"], "data": [[0, 1], [2, 0]]}

Each entry is a win [winner, loser], a ranking [best, …, worst], or a choice [best, [others]]. In a
CSV file the names stand in front as comments, `# 0 "a"`, and each row is a win. Without names the
items are called by their numbers.

Preference profiles of PrefLib: .soc, .soi, .toc, .toi and .pwg, as they are now and were.

    # ALTERNATIVE NAME 1: Shrek
    263: 2,1,3          263 voters: 2 before 1 before 3
    12: 1,{2,3}         12 voters: 1 before 2 and 3, which are equal
    31.0, 1, 2          31 voters: 1 before 2 (.pwg)

Rankings of Appraise, the evaluation tool of WMT, as XML.

    <ranking-result id="17" user="ann" duration="00:00:31">
      <translation rank="1" system="uedin"/> <translation rank="2" system="online-A"/>
    </ranking-result>
"""

from __future__ import annotations

import json
import re
from itertools import chain
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

from bbq_adapters.json_csv_rows import BOM, document, header_width, lines, look, rows
from bbq_adapters.row_values import (
    BrokenRow,
    RowPlace,
    broken_field,
    item,
    line_key,
    rank_of,
    weight,
)
from bbq_plugin.data.rankings import best_worst_pairs, ranked_pairs, slate_comparisons
from bbq_plugin.data.records import AGAINST_ITSELF, Comparison, Note, Skipped
from bbq_plugin.errors import DataError, FormatError
from bbq_plugin.text import brief, unguarded

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator, Sequence

    from bbq_adapters.row_values import Row, RowPlace
    from bbq_plugin.data.rankings import Pair
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
        known = _NEEDED <= fields <= _KNOWN and not header_width(head)
        return "rows of winner and loser" if known else None

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


_DOCUMENT = re.compile(rb'\s*\{\s*"n_items"\s*:\s*\d+\s*,\s*"items"\s*:\s*\[')
_COMMENTS = re.compile(rb'#\s*0\s+"')
_CHOIX_NAME = re.compile(r"#\s*(\d+)\s+(\".*\")")
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
        found = _CHOIX_NAME.fullmatch(text)
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


_NAME = re.compile(r"#\s*ALTERNATIVE NAME\s+(\d+)\s*:\s*(.*)", re.IGNORECASE)
_OLD_NAME = re.compile(r"(\d+)\s*,\s*(.*)")
_TYPE = re.compile(r"#\s*DATA TYPE\s*:\s*(\w+)", re.IGNORECASE)
# Other types are graphs of majorities or of matches, and no rankings.
_KINDS = ("soc", "soi", "toc", "toi", "pwg")
_ORDER = re.compile(r"\s*(\d+)(?:\.0+)?\s*[:,]\s*((?:\{[\d,\s]*\}|[\d,\s])+)")
_LEVEL = re.compile(r"\{([\d,\s]*)\}|(\d+)")
_OLD_HEAD = re.compile(rb"\d+[ \t]*\r?\n(?:1[ \t]*,[^\n]*\n)")
_MOST_VOTERS = 1_000_000


class PrefLibAdapter:
    """Rankings of PrefLib: .soc, .soi, .toc, .toi and .pwg."""

    name = "preflib"

    def sniff(self, head: bytes, name: str) -> str | None:
        """By `# ALTERNATIVE NAME 1:`, or by the suffix with the head of the old format."""
        text = head.removeprefix(BOM)
        if text.startswith(b"#") and b"# ALTERNATIVE NAME 1:" in text:
            return "a preference profile of PrefLib"
        old = name.lower().removesuffix(".gz").endswith(tuple(f".{one}" for one in _KINDS))
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
            if (kind := _TYPE.match(line)) and kind[1].lower() not in _KINDS:
                problem = f"{kind[1]} is a type of PrefLib without rankings"
                raise place.error(problem, line, f"give its file of type {', '.join(_KINDS)}")
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


_BLOCK = 1 << 16
# A file of XML that nests deeper, or has longer attributes, is none of Appraise.
_DEEPEST = 64
_LONGEST = 1 << 16
_MOST_SYSTEMS = 100
_NOTE = (
    "names such as 'a,b' stand for one output of several systems; each is compared with the others"
)


class AppraiseAdapter:
    """Rankings of translations by Appraise, as XML."""

    name = "appraise"

    def sniff(self, head: bytes, name: str) -> str | None:  # noqa: ARG002 - the content decides
        """By XML with `rank` and `system` of translations."""
        is_xml = head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<")
        if is_xml and b"<translation" in head and b"rank=" in head and b"system=" in head:
            return "XML with the ranks of translations (Appraise)"
        return None

    def read(self, stream: io.BufferedReader, name: str) -> Iterator[Comparison | Skipped | Note]:
        """Yield the pairs of each ranking; equal ranks are ties."""
        reader = _Reader(name)
        while piece := stream.read(_BLOCK):
            yield from reader.feed(piece)
        yield from reader.feed(b"", last=True)
        if reader.split:
            yield Note(_NOTE)


class _Reader:
    """Finds elements with ranked translations in them; entities are refused."""

    def __init__(self, name: str) -> None:
        self.name, self.split = name, False
        self._parser: Any = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.EntityDeclHandler = self._entity
        self._open: list[tuple[dict[str, str], list[dict[str, str]]]] = []
        self._found: list[tuple[RowPlace, dict[str, str], list[dict[str, str]]]] = []

    def feed(self, piece: bytes, *, last: bool = False) -> Iterator[Comparison | Skipped]:
        try:
            self._parser.Parse(piece, last)
        except expat.ExpatError as error:
            raise FormatError(
                f"not valid XML ({expat.ErrorString(error.code)})",
                self.name,
                error.lineno,
                remedy="the file may be cut off: export it again",
            ) from error
        found, self._found = self._found, []
        for place, about, shown in found:
            try:
                yield from self._ranking(place, about, shown)
            except BrokenRow as broken:
                yield broken.skipped(place)

    def _place(self) -> RowPlace:
        return RowPlace(self.name, self._parser.CurrentLineNumber)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= _DEEPEST or any(len(v) > _LONGEST for v in attributes.values()):
            raise self._place().error("this XML is no export of Appraise", tag, "export it again")
        if tag == "translation" and self._open and len(self._open[-1][1]) < _MOST_SYSTEMS:
            self._open[-1][1].append(attributes)
        self._open.append((attributes, []))

    def _end(self, tag: str) -> None:  # noqa: ARG002 - expat's signature
        about, shown = self._open.pop()
        if shown:
            outer = [one for one, _ in self._open]
            for further in reversed(outer):
                about = {**further, **about}
            self._found.append((self._place(), about, shown))

    def _entity(self, *_: object) -> None:
        raise self._place().error(
            "the XML declares entities, which are not read", remedy="export it without them"
        )

    def _ranking(
        self, place: RowPlace, about: dict[str, str], shown: list[dict[str, str]]
    ) -> Iterator[Comparison | Skipped]:
        ranks: list[tuple[str, float]] = []
        for one in shown:
            rank = rank_of(one.get("rank"), "rank", place)
            system = one.get("system", "").strip()
            if not system:
                raise BrokenRow("a translation names no system", place.name, place.line)
            if rank is not None:
                ranks.append((system, rank))
        names = [system for system, _ in ranks]
        if len(ranks) < 2:
            yield Skipped(str(place), "fewer than two translations are ranked")
            return
        if len(set(names)) < len(names):
            yield Skipped(str(place), AGAINST_ITSELF, names[0])
            return
        pairs = [
            type(pair)(a, b, pair.outcome, pair.weight, in_slate=True)
            for pair in ranked_pairs(ranks)
            for a in self._systems(pair.left)
            for b in self._systems(pair.right)
            if a != b
        ]
        yield from slate_comparisons(pairs, line_key(place), about.get("user") or None)

    def _systems(self, name: str) -> list[str]:
        parts = [part.strip() for part in name.split(",") if part.strip()]
        self.split = self.split or len(parts) > 1
        return parts
