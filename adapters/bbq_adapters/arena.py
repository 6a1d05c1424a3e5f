"""Arena-style votes: two items, a winner and perhaps a rater, in the shapes that people publish."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from bbq_adapters.json_csv_rows import (
    BOM,
    LONGEST_ROW,
    columns_of,
    first_whole,
    header_width,
    line_row,
    look,
    plain_cells,
    plain_header,
    rows,
    table_lines,
    too_long,
)
from bbq_adapters.labels_and_item_names import (
    beside,
    label_meaning,
    may_be_a_topic,
    rater_place,
    rater_word,
    tokens,
    word_set,
)
from bbq_adapters.row_values import (
    RATER_FIELDS,
    BrokenRow,
    Row,
    RowPlace,
    is_name,
    iso_seconds,
    item,
    line_key,
    missing,
    number,
    outcome,
    rater,
    seconds_since_1970,
    subjects,
    tags,
    weight,
)
from bbq_plugin.data.records import (
    AGAINST_ITSELF,
    GOLD,
    NO_ANSWER,
    NO_WINNER,
    OUTCOMES,
    Batch,
    BothBad,
    Comparison,
    Note,
    Outcome,
    Skipped,
)
from bbq_plugin.text import brief, name_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    Slow = Callable[[Iterator[tuple[RowPlace, Row]]], Iterator[Comparison | Skipped | Note]]

Golden = Literal["use", "skip", "only"]


@dataclass(frozen=True, slots=True)
class ArenaOptions:
    """What the user can decide about Arena-style votes."""

    both_bad: BothBad = "tie"
    golden: Golden = "use"
    strong: float = 1.0
    baseline: str | None = None
    salt: str = ""
    rater: str | None = None


@dataclass(frozen=True, slots=True)
class ArenaVote:
    """What one row says, before it is known by whom and under which key."""

    left: str
    right: str
    outcome: Outcome
    weight: float = 1.0
    #: Tells the votes of one row apart.
    part: str = ""
    rater: str | None = None
    key: str | None = None
    #: Whether left and right were really seen there.
    sided: bool = True
    #: The right answer of a known question, or "other" if only this one is known to be wrong.
    gold: str | None = None


Votes = Iterator[ArenaVote | Skipped]


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of row: the fields it is known by, and how to read it."""

    title: str
    fields: tuple[str, ...]
    votes: Callable[[Row, RowPlace, ArenaOptions], Votes]
    #: Fields that are read and make no tag, beside those above.
    used: tuple[str, ...] = ()
    #: Whether `id` is known to name a vote, and not a pair or a question that many see.
    votes_have_ids: bool = False


WORDS: dict[str, Outcome] = {
    "model_a": "left", "model_b": "right", "tie": "tie", "both_bad": "both_bad",
    "tie (bothbad)": "both_bad",
}  # fmt: skip
_SIDES: dict[str, Outcome] = {word: word for word in OUTCOMES}
# A number beyond this counts or scores something else.
_MOST_WEIGHT = 1000.0
_FASTCHAT: dict[str, Outcome] = {
    "leftvote": "left", "rightvote": "right", "tievote": "tie", "bothbad_vote": "both_bad",
}  # fmt: skip

_CLIC: dict[str, Outcome] = {"A": "left", "B": "right", "draw": "tie"}

_GAMES: dict[str, tuple[Outcome, bool]] = {
    "A>>B": ("left", True), "A>B": ("left", False), "A=B": ("tie", False),
    "B>A": ("right", False), "B>>A": ("right", True), "B=A": ("tie", False),
    "A<B": ("right", False), "A<<B": ("right", True), "B<A": ("left", False),
    "B<<A": ("left", True),
}  # fmt: skip

_PAIR: dict[str, Outcome] = {"model_1": "left", "model_2": "right", "tie": "tie"}
_HTML = re.compile(r"<[^>]*>|^#+\s*(Model [AB]:)?|[*_`\s]+$")


def _pair_reader(
    left: str, right: str, field: str, words: dict[str, Outcome]
) -> Callable[[Row, RowPlace, ArenaOptions], Votes]:
    """Reads rows of two items and one word about them."""

    def votes(row: Row, place: RowPlace, options: ArenaOptions) -> Votes:  # noqa: ARG001 - one signature
        a, b = item(row, left, place), item(row, right, place)
        if a == b:
            yield Skipped(str(place), AGAINST_ITSELF, a)
            return
        said = outcome(row, field, words, a, b, place)
        if isinstance(said, Skipped):
            yield said
        else:
            yield ArenaVote(a, b, said, _weight(row, place))

    return votes


def _weight(row: Row, place: RowPlace) -> float:
    found = weight(row, "weight", place)
    if found > _MOST_WEIGHT:
        raise place.error(
            f"weight is {found:g}; a number this large may be no weight",
            found,
            "if it is one, say so with --adapter table and -O weight=weight",
        )
    return found


def _fastchat(row: Row, place: RowPlace, options: ArenaOptions) -> Votes:
    kind = row.get("type")
    if not isinstance(kind, str) or kind not in _FASTCHAT:
        shown = kind if isinstance(kind, str) and len(kind) < 40 else "unknown"
        yield Skipped(str(place), f"not a vote (type {shown})", expected=True)
        return
    a, b = _fastchat_models(row, place)
    address = row.get("ip")
    voter = rater(row)
    if voter is None and is_name(address):
        voter = hashed(name_text(address), options.salt)
    yield ArenaVote(a, b, _FASTCHAT[kind], rater=voter, key=_conversations(row))


def _fastchat_models(row: Row, place: RowPlace) -> tuple[str, str]:
    """Both names: from the states, which have them also in a blind battle, else from `models`."""
    states, models = row.get("states"), row.get("models")
    for found, field in ((states, "model_name"), (models, None)):
        if isinstance(found, list) and len(found) == 2:
            said = [s.get(field) if isinstance(s, dict) and field else s for s in found]
            a, b = (_HTML.sub("", n).strip() if isinstance(n, str) else "" for n in said)
            if a and b:
                return a, b
    raise place.error(
        "neither states[].model_name nor models name two items", remedy="correct or drop the line"
    )


def _conversations(row: Row) -> str | None:
    states = row.get("states")
    if not isinstance(states, list):
        return None
    found = [str(s["conv_id"]) for s in states if isinstance(s, dict) and s.get("conv_id")]
    return "/".join(found) if len(found) == 2 else None


def hashed(address: str, salt: str) -> str:
    """A keyed hash of a network address: the same one in every file, and never the address."""
    key = hashlib.blake2b(salt.encode(), digest_size=32, person=b"bbq address").digest()
    return "ip-" + hashlib.blake2b(address.strip().encode(), digest_size=8, key=key).hexdigest()


def _one_hot(row: Row, place: RowPlace, options: ArenaOptions) -> Votes:  # noqa: ARG001 - one signature
    a, b = item(row, "model_a", place), item(row, "model_b", place)
    flags = []
    for field in ("winner_model_a", "winner_model_b", "winner_tie"):
        if field not in row:
            raise missing(row, field, place)
        value = row[field]
        flag = float(value) if isinstance(value, bool) else number(value)
        if value is not None and flag not in (0.0, 1.0):
            raise place.error(f"{field} is {value!r}", value, "expected 0 or 1")
        flags.append(flag)
    if a == b:
        yield Skipped(str(place), AGAINST_ITSELF, a)
    elif not any(flags):
        yield Skipped(str(place), NO_WINNER)
    elif flags.count(1.0) > 1:
        raise place.error(
            "more than one of winner_model_a, winner_model_b and winner_tie is 1",
            flags,
            "a vote has one outcome: correct or drop the line",
        )
    else:
        outcomes: tuple[Outcome, ...] = ("left", "right", "tie")
        yield ArenaVote(a, b, outcomes[flags.index(1.0)])


def _mt_bench_pair(row: Row, place: RowPlace, options: ArenaOptions) -> Votes:  # noqa: ARG001
    a, b = item(row, "model_1", place), item(row, "model_2", place)
    said = []
    for game in ("g1_winner", "g2_winner"):
        if row.get(game) == "error":
            yield Skipped(str(place), "the judge gave no verdict (error)")
            return
        found = outcome(row, game, _PAIR, a, b, place)
        if isinstance(found, Skipped):
            yield found
            return
        said.append(found)
    if a == b:
        yield Skipped(str(place), AGAINST_ITSELF, a)
        return
    # The games swap the sides, so the sides of the verdict on both mean nothing; two games that
    # disagree show a bias of position and no preference.
    yield ArenaVote(a, b, said[0] if said[0] == said[1] else "tie", sided=False)


def _arena_hard(row: Row, place: RowPlace, options: ArenaOptions) -> Votes:
    model = item(row, "model", place)
    base = row.get("baseline") or options.baseline
    if not is_name(base) or not name_text(base).strip():
        raise place.error(
            "the row does not say which baseline the model was compared with",
            remedy="name it with the option baseline=NAME",
        )
    baseline, games = name_text(base).strip(), row.get("games")
    if not isinstance(games, list) or len(games) not in (1, 2):
        raise place.error(
            "games is not a list of one or two games", remedy="correct or drop the line"
        )
    for i, game in enumerate(games, 1):
        score = game.get("score") if isinstance(game, dict) else None
        if score is None:
            yield Skipped(f"{place}", f"game {i} has no score")
            continue
        if not isinstance(score, str) or score not in _GAMES:
            raise place.error(
                f"the score of game {i} is {brief(score)}", score, "expected A>B, A>>B, A=B, …"
            )
        if model == baseline:
            yield Skipped(str(place), AGAINST_ITSELF, model)
            continue
        said, is_strong = _GAMES[score]
        # In game 1 the baseline is A, in game 2 the sides are swapped.
        a, b = (baseline, model) if i == 1 else (model, baseline)
        yield ArenaVote(a, b, said, options.strong if is_strong else 1.0, part=f"game {i}")


def _alpaca(row: Row, place: RowPlace, options: ArenaOptions) -> Votes:  # noqa: ARG001 - one signature
    a, b = item(row, "generator_1", place), item(row, "generator_2", place)
    if "preference" not in row:
        raise missing(row, "preference", place)
    value = row["preference"]
    if a == b:
        yield Skipped(str(place), AGAINST_ITSELF, a)
        return
    if value is None or (isinstance(value, str) and value.lower() in ("", "nan", "none")):
        yield Skipped(str(place), NO_WINNER)
        return
    found = number(value)
    # AlpacaEval wrote 0 for a draw before it wrote 1.5.
    if found is None or not (found == 0 or 1 <= found <= 2):
        raise place.error(
            f"preference is {brief(value)}", value, "expected a number from 1 to 2 (1.5 ties)"
        )
    yield ArenaVote(a, b, "tie" if found in (0, 1.5) else "left" if found < 1.5 else "right")


_clic_pair = _pair_reader("methodA", "methodB", "answerValue", _CLIC)


def _clic(row: Row, place: RowPlace, options: ArenaOptions) -> Votes:
    golden = str(row.get("isGolden") or "").strip().lower() in ("1", "true", "yes")
    if options.golden != "use" and golden != (options.golden == "only"):
        what = "a golden question" if golden else "not a golden question"
        yield Skipped(str(place), f"{what}, left out as asked", expected=True)
        return
    for vote in _clic_pair(row, place, options):
        yield (
            replace(vote, gold=_clic_gold(row, vote))
            if golden and isinstance(vote, ArenaVote)
            else vote
        )


def _clic_gold(row: Row, vote: ArenaVote) -> str | None:
    """`modelProbability` is 1 where the answer given is the right one, by that format's word."""
    right = number(row.get("modelProbability"))
    if right is None:
        return None
    if right >= 0.5:
        return vote.outcome
    return {"left": "right", "right": "left"}.get(vote.outcome, "other")


_MODELS = ("model_a", "model_b")

#: In the order in which they are tried: the more telling fields first.
SHAPES = (
    Shape("FastChat log", ("type", "states"), _fastchat, ("models", "ip", "tstamp")),
    Shape("FastChat log", ("type", "models"), _fastchat, ("states", "ip", "tstamp")),
    Shape("Arena-Hard judgments", ("model", "games"), _arena_hard, ("baseline",)),
    Shape("MT-Bench pairs", ("model_1", "model_2", "g1_winner", "g2_winner"), _mt_bench_pair),
    Shape("one-hot votes", (*_MODELS, "winner_model_a", "winner_model_b"), _one_hot,
          ("winner_tie",), votes_have_ids=True),
    Shape("votes", (*_MODELS, "winner"), _pair_reader(*_MODELS, "winner", WORDS),
          ("tstamp", "timestamp"), votes_have_ids=True),
    Shape("AlpacaEval annotations", ("generator_1", "generator_2", "preference"), _alpaca),
    Shape("CLIC answers", ("methodA", "methodB", "answerValue"), _clic),
    Shape("pairs", ("left", "right", "winner"), _pair_reader("left", "right", "winner", _SIDES)),
    Shape("pairs", ("left", "right", "label"), _pair_reader("left", "right", "label", {})),
)  # fmt: skip


# Shapes of which files often have more columns than the format asks for.
_PLAIN_SHAPES = ("votes", "pairs", "one-hot votes")
# Small enough to stay in the cache of a core.
_PIECE = 1 << 17
_BLANKS = 64

# Rows of a table at a time, the columns of the plain ones with their words, and columns that ask
# for a closer look.
_ROWS = 4096
LEFT, RIGHT = OUTCOMES.index("left"), OUTCOMES.index("right")
_PLAIN: dict[tuple[str, str, str], dict[str, int]] = {
    fields: {word: OUTCOMES.index(said) for word, said in words.items()}
    for fields, words in (
        ((*_MODELS, "winner"), WORDS),
        (("left", "right", "winner"), _SIDES),
    )
}
_SPECIAL = (
    *("key", "id", "uid", "question_id", "turn", "tstamp", "timestamp", "created_at"),
    *("winner_model_a", "evaluation_session_id", "label", "games", "type", "preference", "weight"),
)

_CODES: dict[Any, int] = {word: OUTCOMES.index(said) for word, said in WORDS.items()}
_CODES[None] = NO_ANSWER
_WORDS = frozenset(WORDS)
# The more telling ones first, as the reader of single rows has them.
_KEYS = (("key",), ("id",), ("uid",), ("question_id", "turn"))
# These name a vote; a question is seen by many.
_OF_VOTES = (("key",), ("id",))
_MOMENTS = ("tstamp", "timestamp", "created_at")
# Moments too where they hold dates; numbers may be how long an answer took.
_DATES = ("datetime", "date", "time", "at", "answered_at", "submitted_at")
_Name = str | int | float
# Known words come out of the decoder as the same objects each time, which costs nothing.
_Said = Literal["model_a", "model_b", "tie", "both_bad", "tie (bothbad)"]


class _UnusualRow(Exception):  # noqa: N818 - nothing is wrong yet
    """This piece is for the reader of single rows."""


def batches(
    stream: io.BufferedReader, name: str, slow: Slow
) -> Iterator[Comparison | Skipped | Note | Batch]:
    """Yield batches, or what `slow` makes of the rows where no batch can be made."""
    if not stream.peek(_BLANKS).removeprefix(BOM).lstrip().startswith(b"{"):
        if stream.peek(_BLANKS).removeprefix(BOM).lstrip().startswith(b"["):
            yield from _row_batches(rows(stream, name), slow)
        else:
            yield from _table_batches(stream, name, slow)
        return
    decoder: _BatchDecoder | None = None
    for lines, piece in _pieces(stream, name):
        decoder = decoder or _BatchDecoder.of(piece)
        single = partial(_single, lines, piece, name, slow)
        try:
            batch = decoder.batch(lines, piece, single)
        except (_UnusualRow, msgspec.DecodeError, ValueError, RecursionError):
            yield from single()
        else:
            yield batch


def _table_batches(
    stream: io.BufferedReader, name: str, slow: Slow
) -> Iterator[Comparison | Skipped | Note | Batch]:
    """Batches of a table, by column; from where it is not plain on, row by row."""
    pieces = _pieces(stream, name)
    some, head = next(pieces, (range(1, 2), b""))
    top, newline, rest = head.partition(b"\n")
    plain, begin = plain_header(top, name), some.start + 1
    rest_first = [(range(begin, some.stop), rest)] if rest else []
    for numbers, piece in chain(rest_first, pieces):
        batch = None
        if plain is not None and len(top) <= LONGEST_ROW:
            cells = plain_cells(piece, *plain)
            batch = _column_batch(numbers, cells) if cells else None
        if batch is None:
            left = chain([piece], (more for _, more in pieces))
            lines = (line for part in left for line in _whole_lines(part))
            found = table_lines(chain([top + newline], lines), name, shift=numbers.start - begin)
            yield from _row_batches(found, slow)
            return
        again = partial(_table_again, top + newline, piece, name, numbers.start - begin, slow)
        yield replace(batch, records=again)


def _table_again(
    top: bytes, piece: bytes, name: str, shift: int, slow: Slow
) -> Iterator[Comparison | Skipped | Note]:
    return slow(table_lines(chain([top], _whole_lines(piece)), name, shift=shift))


def _whole_lines(piece: bytes) -> list[bytes]:
    return io.BytesIO(piece).readlines()


def _row_batches(
    found: Iterator[tuple[RowPlace, Row]], slow: Slow
) -> Iterator[Comparison | Skipped | Note | Batch]:
    """Batches of the rows of a plain table; what is unusual in it goes the slow way."""
    while some := list(islice(found, _ROWS)):
        batch = _row_batch(some)
        if batch is None:
            yield from slow(iter(some))
        else:
            yield replace(batch, records=partial(slow, iter(some)))


def _row_batch(some: list[tuple[RowPlace, Row]]) -> Batch | None:
    """The rows as a batch."""
    first = some[0][1]
    try:
        columns = {column: [row[column] for _, row in some] for column in first}
    except KeyError:
        return None
    return _column_batch([place.line for place, _ in some], columns)


def _column_batch(lines: Sequence[int], cells: Mapping[str, list[Any]]) -> Batch | None:
    """A batch of these columns, if there is nothing in them but items, winner and rater."""
    first = {column: values[0] or None for column, values in cells.items()}
    fields = next((f for f in _PLAIN if first.keys() >= set(f)), None)
    raters = [field for field in RATER_FIELDS if field in first]
    special = any(field in first for field in (*_SPECIAL, *_DATES))
    if fields is None or len(raters) > 1 or special or subjects(first):
        return None
    left, right, winner, *rater = (cells[c] for c in (*fields[:3], *raters))
    texts = {*left, *right, *winner, *chain.from_iterable(rater)}
    if not all(isinstance(text, str) and text and text.strip() == text for text in texts):
        return None
    words = _PLAIN[fields]
    codes = [
        words.get(w, LEFT if w == a else RIGHT if w == b else NO_ANSWER)
        for w, a, b in zip(winner, left, right, strict=True)
    ]
    if NO_ANSWER in codes:
        return None
    return Batch(
        lines, rater[0] if rater else None, left, right, bytes(codes), reserved=frozenset(words)
    )


def _pieces(stream: io.BufferedReader, name: str) -> Iterator[tuple[range, bytes]]:
    """Whole lines, about a piece at a time, with their numbers."""
    line, parts, size = 1, [stream.read(_PIECE).removeprefix(BOM)], 0
    while data := parts.pop():
        end = data.rfind(b"\n") + 1
        if end:
            piece = b"".join((*parts, data[:end]))
            lines = range(line, line + piece.count(b"\n"))
            yield lines, piece
            line = lines.stop
            parts, size, data = [], 0, data[end:]
        parts.append(data)
        size += len(data)
        if size > LONGEST_ROW:
            raise too_long(name, line)
        parts.append(stream.read(_PIECE))
    if rest := b"".join(parts):
        yield range(line, line + 1), rest


def _single(
    lines: range, piece: bytes, name: str, slow: Slow
) -> Iterator[Comparison | Skipped | Note]:
    return slow(_rows_of(lines.start, piece, name))


def _rows_of(line: int, piece: bytes, name: str) -> Iterator[tuple[RowPlace, Row]]:
    for at_line, text_ in enumerate(piece.split(b"\n"), line):
        if text_ and not text_.isspace():
            place = RowPlace(name, at_line)
            yield place, line_row(text_, place)


class _BatchDecoder:
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
            "weight",
        ]
        fields: list[Any] = [("model_a", _Name), ("model_b", _Name), ("winner", _Said | None)]
        fields += [(field, _Name | None, None) for field, name in called.items() if name]
        if key and isinstance(first[key[0]], str):
            fields = [(f[0], str, "") if f[0] == "own" else f for f in fields]
        fields += [(f"no_{field}", None, None) for field in absent]
        # Texts in these are for the reader of single rows.
        fields += [(f"no_{field}", float | None, None) for field in _DATES]
        names = {field: name for field, name in called.items() if name}
        names |= {f"no_{field}": field for field in (*absent, *_DATES)}
        # Tags that answers may be clustered by, by what they are called here.
        self.subjects = {field: f"tag_{n}" for n, field in enumerate(subjects(first))}
        for field, here in self.subjects.items():
            if field in names.values():
                self.subjects[field] = next(own for own, name in names.items() if name == field)
            else:
                fields.append((here, _Name | None, None))
                names[here] = field
        vote = msgspec.defstruct("Vote", fields, rename=names, gc=False)
        self.decode = msgspec.json.Decoder(vote).decode_lines
        # Names that have no blanks around them.
        self._plain: set[Any] = set()

    @classmethod
    def of(cls, piece: bytes) -> _BatchDecoder:
        try:
            first = msgspec.json.decode(piece.lstrip().split(b"\n", 1)[0])
        except (msgspec.DecodeError, ValueError, RecursionError):
            first = {}
        return cls(first if isinstance(first, dict) else {})

    def batch(self, lines: range, piece: bytes, single: Callable[[], Iterator[Any]]) -> Batch:
        """The rows of a piece, or _UnusualRow."""
        votes: list[Any] = self.decode(piece)
        if len(votes) != len(lines):
            raise _UnusualRow
        left, right = [v.model_a for v in votes], [v.model_b for v in votes]
        outcome = bytes([_CODES[v.winner] for v in votes])
        rater = [v.rater for v in votes] if self.rated else None
        if rater is not None and not all(rater):
            # Another field may name the rater of such a row.
            raise _UnusualRow
        for names in (left, right, rater or ()):
            # Nearly all names are known from earlier lines.
            if not self._plain.issuperset(names):
                if _has_blanks(fresh := {*names} - self._plain):
                    raise _UnusualRow
                self._plain |= fresh
        keys, at = self._keys(votes, rater, left, right), self._moments(votes)
        # An item called `tie` makes some outcomes ambiguous.
        tags = {
            name: [getattr(vote, here) for vote in votes] for name, here in self.subjects.items()
        }
        return Batch(
            lines, rater, left, right, outcome, keys, at, tags, reserved=_WORDS, records=single
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
            raise _UnusualRow
        if self.keyed in _OF_VOTES:
            return own
        if rater is None:
            # Two equal rows of unknown raters are two answers.
            return None
        parts: list[Sequence[Any]] = [own]
        if len(self.keyed) > 1:
            turn = [v.turn for v in votes]
            if self.turns is (None in turn):
                raise _UnusualRow
            parts += [turn] if self.turns else []
        parts += [rater, left, right]
        try:
            return list(map("/".join, zip(*parts, strict=True)))
        except TypeError:
            words = ([name_text(value) for value in column] for column in parts)
            return list(map("/".join, zip(*words, strict=True)))

    def _moments(self, votes: list[Any]) -> Sequence[float | None] | None:
        if self.timed is None:
            return None
        found = [v.at for v in votes]
        if set(map(type, found)) <= {float, int}:
            try:
                return list(map(float, found))
            except OverflowError:
                raise _UnusualRow from None
        known = [None if value is None else seconds_since_1970(value) for value in found]
        if known.count(None) != found.count(None):
            raise _UnusualRow
        return known


def _has_blanks(names: set[Any]) -> bool:
    """Whether a name has blanks around it, which the reader of single rows takes away."""
    return any(isinstance(name, str) and name != name.strip() for name in names)


def _before(chosen: str | None, ordered: Sequence[str]) -> Sequence[str]:
    return ordered if chosen is None else ordered[: ordered.index(chosen)]


SESSION = "evaluation_session_id"

_SESSION_NOTE = (
    "the raters are sessions ({}), not people: one person may have several sessions, "
    "and a verdict on a rater is a verdict on a session"
)
# Words that may stand beside one for raters without changing its meaning.
_ID_WORDS = word_set("id ids uid uuid name names hash hashed key email code number no model anon")

_ADDRESS_NOTE = (
    "the raters are hashed network addresses: several people may share one address, and an "
    "address can be found by trying; give salt=SECRET to prevent that"
)

_KEY_FIELDS = ("id", "key")
_HEAD = 64 * 1024
_HEAD_ROWS = 1000
_COLUMNS = re.compile(rb'"(?:model_a|left)"\s*:\s*[{\[]')


class ArenaAdapter:
    """Votes on two items: Chatbot Arena, MT-Bench, Arena-Hard, AlpacaEval, evalica, crowd-kit."""

    name = "arena"
    lines_stand_alone = True
    option_help = {  # noqa: RUF012 - read by plugins, never written
        "both_bad": "what a vote 'both are bad' counts as",
        "golden": "CLIC: questions whose answer is known, used like others, left out, or alone",
        "strong": "Arena-Hard: weight of A>>B; its authors count it as 3 votes",
        "baseline": "Arena-Hard: the item that all others were compared with",
        "salt": "FastChat logs: a secret mixed into the hash of network addresses",
        "rater": "column of the rater, if its name is not a usual one",
    }

    def sniff(self, head: bytes, name: str) -> str | None:  # noqa: ARG002 - the content decides
        """By its fields: `model_a` and `model_b`, or those of one of the other shapes."""
        found = look(head)
        kind = "JSON" if found.kind == "json" else "a table"
        if _COLUMNS.search(head):
            # A document of columns, each with all its values.
            return None
        for shape in SHAPES:
            if found.fields.issuperset(shape.fields):
                if header_width(head):
                    # Which cell belongs to which name is asked.
                    return None
                if shape.title in _PLAIN_SHAPES and _asks_more(shape, head):
                    # All rows are looked at before it is said what they mean.
                    return None
                return f"{kind} with {', '.join(shape.fields)} ({shape.title})"
        return None

    def read(
        self,
        stream: io.BufferedReader,
        name: str,
        *,
        both_bad: BothBad = "tie",
        golden: Golden = "use",
        strong: float = 1.0,
        baseline: str | None = None,
        salt: str = "",
        rater: str | None = None,
    ) -> Iterator[Comparison | Skipped | Note]:
        """Yield the votes of a file with their tags."""
        note, rater = _told_rater(stream, rater)
        options = ArenaOptions(both_bad, golden, strong, baseline, salt, rater)
        return chain(note, _records(rows(stream, name), options))

    def read_batches(
        self, stream: io.BufferedReader, name: str, **options: Any
    ) -> Iterator[Comparison | Skipped | Note | Batch]:
        """Yield the same votes without tags, JSON lines of the common shape as batches."""
        note, options["rater"] = _told_rater(stream, options.get("rater"))
        chosen = ArenaOptions(**options)
        if chosen.both_bad == "drop" or chosen.rater is not None:
            return chain(note, _records(rows(stream, name), chosen))
        return batches(stream, name, lambda found: _records(found, chosen))


def _asks_more(shape: Shape, head: bytes) -> bool:
    """Whether another column may change what the votes mean, or be a second answer."""
    cells = columns_of(head)
    items = {cell for field in shape.fields[:2] for cell in cells.get(field, ())}
    return any(
        beside(field, own) is not None
        or (field not in (*RATER_FIELDS, *_KEY_FIELDS) and _may_answer(field, {*own} - {""}, items))
        or may_be_a_topic(field, own)
        # Of many, none weighs 1: perhaps that of a person.
        or (field == "weight" and len(own) > 20 and not any(c == "1" or "." in c for c in own))
        for field, own in cells.items()
        if field not in (*shape.fields, *shape.used)
    )


def _may_answer(field: str, values: set[str], items: set[str]) -> bool:
    """Whether a column has the words of an outcome, or names items, as a second answer does."""
    numbered = all(map(str.isdigit, values)) and not {"winner", "choice"} & {*tokens(field)}
    return (
        len(values) > 1
        and not numbered
        and all(
            value in items or value in WORDS or label_meaning(value) in (1, 2, "tie", "both_bad")
            for value in values
        )
    )


def _told_rater(stream: io.BufferedReader, said: str | None) -> tuple[Sequence[Note], str | None]:
    """The column of who voted where it has no usual name but one that says so, with a note."""
    fields = look(stream.peek(_HEAD)[:_HEAD]).fields
    if said is not None or fields & {*RATER_FIELDS, SESSION, "ip"}:
        return (), said
    named = {
        field: word
        for field in sorted(fields)
        if (word := rater_word(field)) and set(tokens(field)) <= {word} | _ID_WORDS
    }
    if not named:
        return (), None
    column = min(named, key=lambda field: rater_place(named[field]))
    if named[column] == "session":
        return [Note(_SESSION_NOTE.format(column))], column
    return [Note(f"{column} is taken for the rater, by its name; -O rater=… names another")], column


def _records(
    found: Iterator[tuple[RowPlace, Row]], options: ArenaOptions
) -> Iterator[Comparison | Skipped | Note]:
    ragged, first = first_whole(found)
    yield from ragged
    if first is None:
        return
    # A log may begin with rows of another kind: the first one of a known shape decides.
    head = [first, *islice(found, _HEAD_ROWS)]
    shape = _shape(*next(((at, row) for at, row in head if _known_shape(row)), first))
    used = {*shape.fields, *shape.used, *RATER_FIELDS, *_KEY_FIELDS, SESSION, options.rater or ""}
    used.add("weight")
    noted = set[str]()
    for place, row in chain(head, found):
        try:
            votes = list(shape.votes(row, place, options))
        except BrokenRow as broken:
            yield broken.skipped(place)
            continue
        for vote in votes:
            if isinstance(vote, Skipped):
                yield vote
                continue
            if vote.outcome == "both_bad" and options.both_bad == "drop":
                yield Skipped(str(place), "both bad, dropped as asked", expected=True)
                continue
            who, note = _rater(row, vote, options)
            at = _moment(row)
            if at is None and (unread := _unread_moment(row)):
                note = note or unread
            if note and note not in noted:
                noted.add(note)
                yield Note(note)
            key, own = _key(row, shape, vote, who, place), tags(row, used)
            yield Comparison(
                key,
                who,
                vote.left,
                vote.right,
                vote.outcome,
                vote.weight,
                slate=None if vote.sided else key,
                at=at,
                tags=own if vote.gold is None else {**(own or {}), GOLD: vote.gold},
            )


def _rater(row: Row, vote: ArenaVote, options: ArenaOptions) -> tuple[str | None, str]:
    """Who voted, and what is to be known about that."""
    if options.rater is not None:
        return rater(row, (options.rater,)), ""
    who = vote.rater or rater(row)
    if who is None and (who := rater(row, (SESSION,))):
        return who, _SESSION_NOTE.format(SESSION)
    hashed_address = bool(vote.rater and vote.rater.startswith("ip-"))
    return who, _ADDRESS_NOTE if hashed_address and not options.salt else ""


def _known_shape(row: Row) -> Shape | None:
    return next((shape for shape in SHAPES if row.keys() >= set(shape.fields)), None)


def _shape(place: RowPlace, row: Row) -> Shape:
    if (shape := _known_shape(row)) is not None:
        return shape
    # None fits: the plain one says what is missing.
    plain = next(shape for shape in SHAPES if shape.title == "votes")
    raise missing(row, next(field for field in plain.fields if field not in row), place)


def _key(row: Row, shape: Shape, vote: ArenaVote, who: str | None, place: RowPlace) -> str:
    part = f"/{vote.part}" if vote.part else ""
    for field in ("key", "id") if shape.votes_have_ids else ("key",):
        if is_name(own := row.get(field)) and name_text(own):
            return name_text(own) + part
    if vote.key is not None:
        return vote.key
    if who is None:
        # Two equal rows of unknown raters are two answers.
        return line_key(place) + part
    for fields in (("id",), ("uid",), ("question_id", "turn")):
        found = [name_text(row[f]) for f in fields if is_name(row.get(f))]
        if found and is_name(row.get(fields[0])):
            return "/".join([*found, who or "", vote.left, vote.right])
    return line_key(place) + part


def _moment(row: Row) -> float | None:
    found = next((row[f] for f in _MOMENTS if row.get(f) is not None), None)
    if found is not None:
        return seconds_since_1970(found)
    dates = (date for f in _DATES if isinstance(date := row.get(f), str) and number(date) is None)
    return next((at for date in dates if (at := iso_seconds(date)) is not None), None)


def _unread_moment(row: Row) -> str:
    """What to say about a time that cannot be read; it is left out."""
    field = next((f for f in _MOMENTS if row.get(f) is not None), None)
    if field is None:
        return ""
    return f"{field} is no moment in some rows, and is left out there"
