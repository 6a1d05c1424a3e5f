"""Rankings of Appraise, the evaluation tool of WMT, as XML.

<ranking-result id="17" user="ann" duration="00:00:31">
  <translation rank="1" system="uedin"/> <translation rank="2" system="online-A"/>
</ranking-result>
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.parsers import expat

from bbq_adapters.row_reader import BrokenRow, RowPlace, line_key, rank_of
from bbq_plugin.data.rankings import ranked_pairs, slate_comparisons
from bbq_plugin.data.records import AGAINST_ITSELF, Comparison, Note, Skipped
from bbq_plugin.errors import FormatError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

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
