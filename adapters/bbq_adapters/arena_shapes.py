"""The shapes that Arena-style votes come in: which fields make one, and what a row of it says."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from bbq_adapters._fields import is_name, item, missing, number, rater, text
from bbq_plugin.comparisons import Outcome, Skipped

if TYPE_CHECKING:
    from bbq_adapters._rows import Place, Row

BothBad = Literal["tie", "drop"]
Golden = Literal["use", "skip", "only"]

NO_WINNER = "no winner recorded"


@dataclass(frozen=True, slots=True)
class Options:
    """What the user can decide about Arena-style votes."""

    both_bad: BothBad = "tie"
    golden: Golden = "use"
    strong: float = 1.0
    baseline: str | None = None
    salt: str = ""


@dataclass(frozen=True, slots=True)
class Vote:
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


Votes = Iterator[Vote | Skipped]


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of row: the fields it is known by, and how to read it."""

    title: str
    fields: tuple[str, ...]
    votes: Callable[[Row, Place, Options], Votes]
    #: Fields that are read and make no tag, beside those above.
    used: tuple[str, ...] = ()
    #: Whether `id` is known to name a vote, and not a pair or a question that many see.
    votes_have_ids: bool = False


WORDS: dict[str, Outcome] = {
    "model_a": "left",
    "model_b": "right",
    "tie": "tie",
    "both_bad": "both_bad",
    "tie (bothbad)": "both_bad",
}
_SIDES: dict[str, Outcome] = {
    "left": "left", "right": "right", "tie": "tie", "both_bad": "both_bad",
}  # fmt: skip
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


def outcome(
    row: Row, field: str, words: dict[str, Outcome], left: str, right: str, place: Place
) -> Outcome | Skipped:
    """Who won, by one of the words or by the name of an item; never a guess."""
    if field not in row:
        raise missing(row, field, place)
    value = row[field]
    if value is None or value == "":
        return Skipped(str(place), NO_WINNER)
    if not is_name(value):
        raise _unknown(value, field, words, left, right, place)
    word = text(value)
    said = words.get(word)
    named: Outcome | None = "left" if word == left else "right" if word == right else None
    if named is None:
        if said is None:
            raise _unknown(word, field, words, left, right, place)
        return said
    if said not in (None, named):
        raise place.error(
            f"{field} is {word!r}, which is both an outcome and the name of an item",
            word,
            "rename the item",
        )
    return named


def _unknown(
    word: object, field: str, words: dict[str, Outcome], left: str, right: str, place: Place
) -> Exception:
    by_lower = {known.lower(): known for known in (left, right, *words)}
    close = difflib.get_close_matches(str(word).lower()[:100], by_lower, n=1)
    *most, last = [w for w in words if w != "tie (bothbad)"] or ["the name of an item"]
    listed = f"{', '.join(most)} or {last} (or one of the two item names)" if most else last
    shown = repr(word)
    return place.error(
        f"{field} is {shown if len(shown) < 80 else shown[:80] + '…'}; expected {listed}",
        word,
        f"did you mean {by_lower[close[0]]!r}?" if close else "mend or drop the line",
    )


def _pair_reader(
    left: str, right: str, field: str, words: dict[str, Outcome]
) -> Callable[[Row, Place, Options], Votes]:
    """Reads rows of two items and one word about them."""

    def votes(row: Row, place: Place, options: Options) -> Votes:  # noqa: ARG001 - one signature
        a, b = item(row, left, place), item(row, right, place)
        if a == b:
            yield Skipped(str(place), "an item against itself", a)
            return
        said = outcome(row, field, words, a, b, place)
        yield said if isinstance(said, Skipped) else Vote(a, b, said)

    return votes


def _fastchat(row: Row, place: Place, options: Options) -> Votes:
    kind = row.get("type")
    if not isinstance(kind, str) or kind not in _FASTCHAT:
        shown = kind if isinstance(kind, str) and len(kind) < 40 else "unknown"
        yield Skipped(str(place), f"not a vote (type {shown})", expected=True)
        return
    a, b = _fastchat_models(row, place)
    address = row.get("ip")
    voter = rater(row)
    if voter is None and is_name(address):
        voter = hashed(text(address), options.salt)
    yield Vote(a, b, _FASTCHAT[kind], rater=voter, key=_conversations(row))


def _fastchat_models(row: Row, place: Place) -> tuple[str, str]:
    """Both names: from the states, which have them also in a blind battle, else from `models`."""
    states, models = row.get("states"), row.get("models")
    for found, field in ((states, "model_name"), (models, None)):
        if isinstance(found, list) and len(found) == 2:
            said = [s.get(field) if isinstance(s, dict) and field else s for s in found]
            a, b = (_HTML.sub("", n).strip() if isinstance(n, str) else "" for n in said)
            if a and b:
                return a, b
    raise place.error(
        "neither states[].model_name nor models name two items", remedy="mend or drop the line"
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


def _one_hot(row: Row, place: Place, options: Options) -> Votes:  # noqa: ARG001 - one signature
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
        yield Skipped(str(place), "an item against itself", a)
    elif not any(flags):
        yield Skipped(str(place), NO_WINNER)
    elif flags.count(1.0) > 1:
        raise place.error(
            "more than one of winner_model_a, winner_model_b and winner_tie is 1",
            flags,
            "a vote has one outcome: mend or drop the line",
        )
    else:
        outcomes: tuple[Outcome, ...] = ("left", "right", "tie")
        yield Vote(a, b, outcomes[flags.index(1.0)])


def _mt_bench_pair(row: Row, place: Place, options: Options) -> Votes:  # noqa: ARG001
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
        yield Skipped(str(place), "an item against itself", a)
        return
    # The games swap the sides, so the sides of the verdict on both mean nothing; two games that
    # disagree show a bias of position and no preference.
    yield Vote(a, b, said[0] if said[0] == said[1] else "tie", sided=False)


def _arena_hard(row: Row, place: Place, options: Options) -> Votes:
    model = item(row, "model", place)
    base = row.get("baseline") or options.baseline
    if not is_name(base) or not text(base).strip():
        raise place.error(
            "the row does not say which baseline the model was compared with",
            remedy="name it with the option baseline=NAME",
        )
    baseline, games = text(base), row.get("games")
    if not isinstance(games, list) or len(games) not in (1, 2):
        raise place.error("games is not a list of one or two games", remedy="mend or drop the line")
    for i, game in enumerate(games, 1):
        score = game.get("score") if isinstance(game, dict) else None
        if score is None:
            yield Skipped(f"{place}", f"game {i} has no score")
            continue
        if not isinstance(score, str) or score not in _GAMES:
            raise place.error(
                f"the score of game {i} is {str(score)[:60]!r}", score, "expected A>B, A>>B, A=B, …"
            )
        if model == baseline:
            yield Skipped(str(place), "an item against itself", model)
            continue
        said, is_strong = _GAMES[score]
        # In game 1 the baseline is A, in game 2 the sides are swapped.
        a, b = (baseline, model) if i == 1 else (model, baseline)
        yield Vote(a, b, said, options.strong if is_strong else 1.0, part=f"game {i}")


def _alpaca(row: Row, place: Place, options: Options) -> Votes:  # noqa: ARG001 - one signature
    a, b = item(row, "generator_1", place), item(row, "generator_2", place)
    if "preference" not in row:
        raise missing(row, "preference", place)
    value = row["preference"]
    if a == b:
        yield Skipped(str(place), "an item against itself", a)
        return
    if value is None or (isinstance(value, str) and value.lower() in ("", "nan", "none")):
        yield Skipped(str(place), NO_WINNER)
        return
    found = number(value)
    # AlpacaEval wrote 0 for a draw before it wrote 1.5.
    if found is None or not (found == 0 or 1 <= found <= 2):
        raise place.error(
            f"preference is {str(value)[:60]!r}", value, "expected a number from 1 to 2 (1.5 ties)"
        )
    yield Vote(a, b, "tie" if found in (0, 1.5) else "left" if found < 1.5 else "right")


_clic_pair = _pair_reader("methodA", "methodB", "answerValue", _CLIC)


def _clic(row: Row, place: Place, options: Options) -> Votes:
    golden = str(row.get("isGolden") or "").strip().lower() in ("1", "true", "yes")
    if options.golden != "use" and golden != (options.golden == "only"):
        what = "a golden question" if golden else "not a golden question"
        yield Skipped(str(place), f"{what}, left out as asked", expected=True)
        return
    for vote in _clic_pair(row, place, options):
        yield (
            replace(vote, gold=_clic_gold(row, vote)) if golden and isinstance(vote, Vote) else vote
        )


def _clic_gold(row: Row, vote: Vote) -> str | None:
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
    Shape(
        "one-hot votes",
        (*_MODELS, "winner_model_a", "winner_model_b"),
        _one_hot,
        ("winner_tie",),
        votes_have_ids=True,
    ),
    Shape(
        "votes",
        (*_MODELS, "winner"),
        _pair_reader(*_MODELS, "winner", WORDS),
        ("tstamp", "timestamp"),
        votes_have_ids=True,
    ),
    Shape("AlpacaEval annotations", ("generator_1", "generator_2", "preference"), _alpaca),
    Shape("CLIC answers", ("methodA", "methodB", "answerValue"), _clic),
    Shape("pairs", ("left", "right", "winner"), _pair_reader("left", "right", "winner", _SIDES)),
    Shape("pairs", ("left", "right", "label"), _pair_reader("left", "right", "label", {})),
)
