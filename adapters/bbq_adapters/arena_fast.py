"""JSON lines of the commonest shape, a piece of the file at a time and without a step a row.

The fields of the first line decide which ones are decoded. A piece in which anything
is out of the ordinary goes to the reader of single rows, which has the words for it:
a winner given by name, a line that is cut off, a rater who is missing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from bbq_adapters._fields import RATER_FIELDS, seconds_since_1970, text
from bbq_adapters._rows import BOM, LONGEST_ROW, Place, line_row, rows, too_long
from bbq_adapters.arena_shapes import WORDS
from bbq_plugin.comparisons import NO_ANSWER, OUTCOMES, Batch

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterator, Sequence

    from bbq_adapters._rows import Row
    from bbq_plugin.comparisons import Comparison, Note, Skipped

    Slow = Callable[[Iterator[tuple[Place, Row]]], Iterator[Comparison | Skipped | Note]]

# Small enough to stay in the cache of a core.
_PIECE = 1 << 17
_BLANKS = 64

_CODES: dict[Any, int] = {
    **{word: OUTCOMES.index(said) for word, said in WORDS.items()},
    None: NO_ANSWER,
}
_WORDS = frozenset(WORDS)
# The more telling ones first, as the reader of single rows has them.
_KEYS = (("key",), ("id",), ("uid",), ("question_id", "turn"))
# These name a vote; a question is seen by many.
_OF_VOTES = (("key",), ("id",))
_MOMENTS = ("tstamp", "timestamp")

_Name = str | int | float
# Known words come out of the decoder as the same objects each time, which costs nothing.
_Said = Literal["model_a", "model_b", "tie", "both_bad", "tie (bothbad)"]


class _Unusual(Exception):  # noqa: N818 - nothing is wrong yet
    """This piece is for the reader of single rows."""


def batches(
    stream: io.BufferedReader, name: str, slow: Slow
) -> Iterator[Comparison | Skipped | Note | Batch]:
    """Yield batches, or what `slow` makes of the rows where no batch can be made."""
    if not stream.peek(_BLANKS).removeprefix(BOM).lstrip().startswith(b"{"):
        yield from slow(rows(stream, name))
        return
    fast: _Fast | None = None
    for lines, piece in _pieces(stream, name):
        fast = fast or _Fast.of(piece)
        single = partial(_single, lines, piece, name, slow)
        try:
            batch = fast.batch(lines, piece, single)
        except (_Unusual, msgspec.DecodeError, ValueError, RecursionError):
            yield from single()
        else:
            yield batch


def _pieces(stream: io.BufferedReader, name: str) -> Iterator[tuple[range, bytes]]:
    """Whole lines, about a piece at a time, with their numbers."""
    number, parts, size = 1, [stream.read(_PIECE).removeprefix(BOM)], 0
    while data := parts.pop():
        end = data.rfind(b"\n") + 1
        if end:
            piece = b"".join((*parts, data[:end]))
            lines = range(number, number + piece.count(b"\n"))
            yield lines, piece
            number = lines.stop
            parts, size, data = [], 0, data[end:]
        parts.append(data)
        size += len(data)
        if size > LONGEST_ROW:
            raise too_long(name, number)
        parts.append(stream.read(_PIECE))
    if rest := b"".join(parts):
        yield range(number, number + 1), rest


def _single(
    lines: range, piece: bytes, name: str, slow: Slow
) -> Iterator[Comparison | Skipped | Note]:
    return slow(_rows_of(lines.start, piece, name))


def _rows_of(line: int, piece: bytes, name: str) -> Iterator[tuple[Place, Row]]:
    for number, text_ in enumerate(piece.split(b"\n"), line):
        if text_ and not text_.isspace():
            place = Place(name, number)
            yield place, line_row(text_, place)


class _Fast:
    """Decodes only what the first line shows to be there, and notices what appears later."""

    def __init__(self, first: Row) -> None:
        rater = next((f for f in RATER_FIELDS if first.get(f) is not None), None)
        key = next((k for k in _KEYS if first.get(k[0]) is not None), None)
        at = next((f for f in _MOMENTS if first.get(f) is not None), None)
        turn = key[1] if key and len(key) > 1 else None
        self.rated, self.timed = rater is not None, at
        self.keyed, self.turns = key, turn is not None and first.get(turn) is not None
        # What a field is called in the file, by what it is here: an attribute that is written
        # in the code is read three times as fast as one whose name is in a variable.
        called = {"rater": rater, "own": key and key[0], "turn": turn, "at": at}
        # Where something would count before what is read, it has to be absent or null.
        absent = [
            *_before(rater, (*RATER_FIELDS, "evaluation_session_id")),
            *_before(key and key[0], [k[0] for k in _KEYS]),
            *_before(at, _MOMENTS),
            "winner_model_a",
        ]
        fields: list[Any] = [("model_a", _Name), ("model_b", _Name), ("winner", _Said | None)]
        fields += [(field, _Name | None, None) for field, name in called.items() if name]
        if key and isinstance(first[key[0]], str):
            fields = [(f[0], str, "") if f[0] == "own" else f for f in fields]
        fields += [(f"no_{field}", None, None) for field in absent]
        names = {field: name for field, name in called.items() if name}
        names |= {f"no_{field}": field for field in absent}
        vote = msgspec.defstruct("Vote", fields, rename=names, gc=False)
        self.decode = msgspec.json.Decoder(vote).decode_lines

    @classmethod
    def of(cls, piece: bytes) -> _Fast:
        try:
            first = msgspec.json.decode(piece.lstrip().split(b"\n", 1)[0])
        except (msgspec.DecodeError, ValueError, RecursionError):
            first = {}
        return cls(first if isinstance(first, dict) else {})

    def batch(self, lines: range, piece: bytes, single: Callable[[], Iterator[Any]]) -> Batch:
        """The rows of a piece, or _Unusual."""
        votes: list[Any] = self.decode(piece)
        if len(votes) != len(lines):
            raise _Unusual
        left, right = [v.model_a for v in votes], [v.model_b for v in votes]
        outcome = bytes([_CODES[v.winner] for v in votes])
        rater = [v.rater for v in votes] if self.rated else None
        if rater is not None and not all(rater):
            # Another field may name the rater of such a row.
            raise _Unusual
        return Batch(
            lines,
            rater,
            left,
            right,
            outcome,
            self._keys(votes, rater, left, right),
            self._moments(votes),
            # An item called `tie` makes some outcomes ambiguous.
            reserved=_WORDS,
            records=single,
        )

    def _keys(
        self,
        votes: list[Any],
        rater: Sequence[Any] | None,
        left: Sequence[Any],
        right: Sequence[Any],
    ) -> Sequence[Any] | None:
        if self.keyed is None:
            return None
        own = [v.own for v in votes]
        # 0 is a good key, and empty text is none.
        if not all(own) and (None in own or "" in own):
            raise _Unusual
        if self.keyed in _OF_VOTES:
            return own
        parts: list[Sequence[Any]] = [own]
        if len(self.keyed) > 1:
            turn = [v.turn for v in votes]
            if self.turns is (None in turn):
                raise _Unusual
            parts += [turn] if self.turns else []
        parts += [[""] * len(votes) if rater is None else rater, left, right]
        try:
            return list(map("/".join, zip(*parts, strict=True)))
        except TypeError:
            words = ([text(value) for value in column] for column in parts)
            return list(map("/".join, zip(*words, strict=True)))

    def _moments(self, votes: list[Any]) -> Sequence[float | None] | None:
        if self.timed is None:
            return None
        found = [v.at for v in votes]
        if set(map(type, found)) <= {float, int}:
            try:
                return list(map(float, found))
            except OverflowError:
                raise _Unusual from None
        known = [None if value is None else seconds_since_1970(value) for value in found]
        if self.timed == "tstamp" and known.count(None) != found.count(None):
            raise _Unusual
        return known


def _before(chosen: str | None, ordered: Sequence[str]) -> Sequence[str]:
    return ordered if chosen is None else ordered[: ordered.index(chosen)]
