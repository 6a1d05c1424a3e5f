"""Arena-style votes: two items, a winner and perhaps a rater, in the shapes that people publish.

- The shape is that of the first row (`arena_shapes.SHAPES`); docs/formats.md has the table.
- An outcome that nobody knows is an error, never a tie; null is an unanswered row.
- The rater is the first of RATER_FIELDS that a row fills. A session is taken when there
  is nobody else, and said to be one.
- The key is `key`, or `id` where that is known to name a vote; else `id`, `uid`, or
  `question_id` with the turn, joined with rater and items, because many judges may see
  one question. Without any the key is `file:line`.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from bbq_adapters._fields import (
    RATER_FIELDS,
    is_name,
    line_key,
    rater,
    seconds_since_1970,
    tags,
    text,
)
from bbq_adapters._rows import Place, Row, look, rows
from bbq_adapters.arena_fast import batches
from bbq_adapters.arena_shapes import SHAPES, BothBad, Golden, Options, Shape, Vote
from bbq_plugin.comparisons import GOLD, Batch, Comparison, Note, Skipped

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

__all__ = ["RATER_FIELDS", "ArenaAdapter"]

SESSION = "evaluation_session_id"

_SESSION_NOTE = (
    f"the raters are sessions ({SESSION}), not people: one person may be several of them, "
    "so a verdict on a rater is one on a session"
)
_ADDRESS_NOTE = (
    "the raters are hashed network addresses: several people may share one, and who knows how "
    "the hash is made can guess addresses; give salt=SECRET to prevent that"
)
_KEY_FIELDS = ("id", "key")


class ArenaAdapter:
    """Votes on two items: Chatbot Arena, MT-Bench, Arena-Hard, AlpacaEval, evalica, crowd-kit."""

    name = "arena"
    lines_stand_alone = True
    option_help = {  # noqa: RUF012 - read by the registry, written by nobody
        "both_bad": "what a vote 'both are bad' counts as",
        "golden": "CLIC: questions whose answer is known, used like others, left out, or alone",
        "strong": "Arena-Hard: weight of A>>B; its authors count it as 3 votes",
        "baseline": "Arena-Hard: the item that all others were compared with",
        "salt": "FastChat logs: a secret mixed into the hash of network addresses",
    }

    def sniff(self, head: bytes, name: str) -> str | None:  # noqa: ARG002 - the content decides
        """By its fields: `model_a` and `model_b`, or those of one of the other shapes."""
        found = look(head)
        kind = "JSON" if found.kind == "json" else "a table"
        for shape in SHAPES:
            if found.fields.issuperset(shape.fields):
                return f"{kind} with {', '.join(shape.fields)} ({shape.title})"
        # Without a winner it is still this kind of file, and the error will say what is missing.
        if {"model_a", "model_b"} <= found.fields:
            return f"{kind} with model_a, model_b"
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
    ) -> Iterator[Comparison | Skipped | Note]:
        """Yield the votes of a file with their tags."""
        options = Options(both_bad, golden, strong, baseline, salt)
        return _records(rows(stream, name), options)

    def read_batches(
        self,
        stream: io.BufferedReader,
        name: str,
        *,
        both_bad: BothBad = "tie",
        golden: Golden = "use",
        strong: float = 1.0,
        baseline: str | None = None,
        salt: str = "",
    ) -> Iterator[Comparison | Skipped | Note | Batch]:
        """Yield the same votes without tags, JSON lines of the common shape as batches."""
        options = Options(both_bad, golden, strong, baseline, salt)
        if both_bad == "drop":
            return _records(rows(stream, name), options)
        return batches(stream, name, lambda found: _records(found, options))


def _records(
    found: Iterator[tuple[Place, Row]], options: Options
) -> Iterator[Comparison | Skipped | Note]:
    first = next(found, None)
    if first is None:
        return
    shape = _shape(first[1])
    used = {*shape.fields, *shape.used, *RATER_FIELDS, *_KEY_FIELDS, SESSION}
    noted = False
    for place, row in chain([first], found):
        for vote in shape.votes(row, place, options):
            if isinstance(vote, Skipped):
                yield vote
                continue
            if vote.outcome == "both_bad" and options.both_bad == "drop":
                yield Skipped(str(place), "both bad, dropped as asked", expected=True)
                continue
            who = vote.rater or rater(row)
            if who is None and (who := rater(row, (SESSION,))) and not noted:
                noted = True
                yield Note(_SESSION_NOTE)
            if vote.rater and not noted and not options.salt:
                noted = vote.rater.startswith("ip-")
                if noted:
                    yield Note(_ADDRESS_NOTE)
            key = _key(row, shape, vote, who, place)
            yield Comparison(
                key,
                who,
                vote.left,
                vote.right,
                vote.outcome,
                vote.weight,
                slate=None if vote.sided else key,
                at=_moment(row, place),
                tags=_tags(row, used, vote),
            )


def _tags(row: Row, used: set[str], vote: Vote) -> dict[str, str] | None:
    found = tags(row, used)
    return found if vote.gold is None else {**(found or {}), GOLD: vote.gold}


def _shape(row: Row) -> Shape:
    for shape in SHAPES:
        if row.keys() >= set(shape.fields):
            return shape
    # None fits: the plain one says what is missing.
    return next(shape for shape in SHAPES if shape.title == "votes")


def _key(row: Row, shape: Shape, vote: Vote, who: str | None, place: Place) -> str:
    part = f"/{vote.part}" if vote.part else ""
    for field in ("key", "id") if shape.votes_have_ids else ("key",):
        if is_name(own := row.get(field)) and text(own):
            return text(own) + part
    if vote.key is not None:
        return vote.key
    for fields in (("id",), ("uid",), ("question_id", "turn")):
        found = [text(row[f]) for f in fields if is_name(row.get(f))]
        if found and is_name(row.get(fields[0])):
            return "/".join([*found, who or "", vote.left, vote.right])
    return line_key(place) + part


def _moment(row: Row, place: Place) -> float | None:
    value = row.get("tstamp")
    if value is None:
        return seconds_since_1970(row.get("timestamp"))
    found = seconds_since_1970(value)
    if found is None:
        raise place.error(
            f"tstamp is {str(value)[:60]!r}", value, "expected seconds since 1970, or nothing"
        )
    return found
