"""What the values of a column of choices mean: sides, ties and no answers, in words or in codes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bbq_adapters.column_statistics import SMALL
from bbq_adapters.row_reader import number
from bbq_adapters.wording import SKIPS, label_meaning, tokens, word_set

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bbq_adapters.column_statistics import ColumnProfile

# Names of columns in which 0 is the first item, and in which 1 says that it won.
_INDEX = word_set("index idx")
_FLAG = word_set("outcome score result win won wins is label y target correct")
_PRESSED = word_set("key keys response choice resp answer button pressed keypress")
_OVER = word_set("better over than beats beat preferred prefers wins gt above vs")
_SIDED = word_set("choice response answer selected side direction")
# How a tie is written where it is no word.
_TIE_LIKE = word_set("c 0 0.5 3 s e t d n = x 2 -")


@dataclass
class Coding:
    """What the values of a column of choices mean."""

    values: dict[str, str]
    #: Written in words, and not in numbers or letters.
    explicit: bool
    #: The values are the names of the two columns, or the words that set them apart.
    sided: bool = False
    doubts: list[str] = field(default_factory=list)
    others: list[tuple[dict[str, str], str]] = field(default_factory=list)


def coding(one: ColumnProfile, sides: tuple[str, str] = ("", "")) -> Coding | None:
    """What the values of a column mean for two items; None where that cannot be told."""
    values = [value for value, _ in one.counts.most_common()]
    if not 2 <= len(values) <= SMALL and not (len(values) == 1 and one.n < 20):
        return None
    for way in (_by_sides, _by_results, _by_numbers, _by_words):
        found = way(values, one, sides)
        if found is not None:
            return found
    return None


def _by_sides(values: list[str], one: ColumnProfile, sides: tuple[str, str]) -> Coding | None:  # noqa: ARG001
    """The columns' own names, or the words that set them apart: a of model_a, Red of R_fighter."""
    known = dict(zip((side.casefold() for side in sides), ("left", "right"), strict=True))
    meaning = {value: known.get(value.casefold()) for value in values}
    left, right = (set(tokens(side)) for side in sides)
    if len(left - right) == len(right - left) == 1:
        words = (*(left - right), *(right - left))
        for value in values:
            same = [_is_short_for(word, value, words) for word in words]
            if sum(same) == 1:
                meaning[value] = ("left", "right")[same.index(True)]
    if not any(meaning.values()):
        return None
    found = _with_third({v: said or _third(v) for v, said in meaning.items()}, explicit=True)
    if found is not None:
        # A lone letter may as well be a group or a version.
        found.sided = all(len(v) > 1 for v, said in meaning.items() if said)
    return found


def _is_short_for(word: str, value: str, words: tuple[str, ...]) -> bool:
    """Whether a word that sets two columns apart is a value, or the first letter of one."""
    said = value.casefold()
    if not word.isalpha() or not said.isalpha() or isinstance(label_meaning(value), str):
        return False
    # Of words that begin with a or b, hardly any means the one or the other.
    short = 1 in (len(word), len(said)) and set(words) != {"a", "b"}
    return said == word or (short and said[0] == word[0])


def _third(value: str) -> str | None:
    """What a value means that is no side: a tie, both bad, or no answer."""
    said = label_meaning(value)
    if isinstance(said, str):
        return said
    return "skip" if " ".join(tokens(value.replace("'", ""))) in SKIPS else None


_RESULTS = (
    {"h": "left", "a": "right", "d": "tie"},
    {"g": "left", "b": "right", "s": "tie"},
    {"w": "left", "l": "right", "d": "tie", "t": "tie"},
    {
        "win": "left",
        "loss": "right",
        "lose": "right",
        "lost": "right",
        "draw": "tie",
        "won": "left",
    },
    {"f": "left", "j": "right"},
    {"z": "left", "m": "right"},
    {"q": "left", "p": "right"},
    {"arrowleft": "left", "arrowright": "right", "arrowdown": "tie", "arrowup": "tie"},
    {">": "left", "<": "right", "=": "tie", ">>": "left", "<<": "right", "==": "tie"},
    {"1-0": "left", "0-1": "right", "1/2-1/2": "tie", "½-½": "tie"},
    {"l": "left", "r": "right", "t": "tie", "n": "tie", "d": "tie", "s": "tie", "e": "tie"},
    {"a": "left", "b": "right", "s": "tie", "t": "tie", "d": "tie", "e": "tie", "=": "tie"},
)


def _by_results(values: list[str], one: ColumnProfile, sides: tuple[str, str]) -> Coding | None:  # noqa: ARG001
    """Letters and words that only together mean something: home, away, draw."""
    small = [value.casefold() for value in values]
    for known in _RESULTS:
        first = next(iter(known))
        if first in small and len(small) > 1 and all(value in known for value in small):
            meaning = {value: known[value.casefold()] for value in values}
            thirds = [value for value, said in meaning.items() if said == "tie" and len(value) == 1]
            found = Coding(meaning, explicit=len(first) > 1)
            for value in thirds:
                found.doubts.append(f"{value!r} is taken for a tie")
                found.others.append(({**meaning, value: "skip"}, f"{value!r} is no answer"))
            return found
    return _by_keys(small, values, one)


# The keys under the left and under the right hand.
_LEFT_HAND, _RIGHT_HAND = frozenset("qwertasdfgzxcvb"), frozenset("yuiophjklnm")


def _by_keys(small: list[str], values: list[str], one: ColumnProfile) -> Coding | None:
    """Two keys of a keyboard, one for each hand."""
    hands = [
        "left" if key in _LEFT_HAND else "right" if key in _RIGHT_HAND else "" for key in small
    ]
    if sorted(hands) != ["left", "right"] or not set(one.words) & _PRESSED:
        return None
    return _either(dict(zip(values, hands, strict=True)))


def _by_words(values: list[str], one: ColumnProfile, sides: tuple[str, str]) -> Coding | None:  # noqa: ARG001
    """Words that people know: left, model_a, A is better, tie, both bad."""
    meaning: dict[str, str | None] = {}
    bare = False
    for value in values:
        said = label_meaning(value)
        if isinstance(said, int):
            meaning[value] = {1: "left", 2: "right"}.get(said)
            bare = bare or len(value) == 1
        else:
            meaning[value] = _third(value)
    if "left" not in meaning.values() and "right" not in meaning.values():
        return None
    return _with_third(meaning, explicit=not bare)


def _with_third(meaning: Mapping[str, str | None], *, explicit: bool) -> Coding | None:
    """A coding where one value may be unknown: it is asked about."""
    unknown = [value for value, said in meaning.items() if said is None]
    known = {value: said for value, said in meaning.items() if said is not None}
    if len(unknown) > 1 or not {"left", "right"} & set(known.values()):
        return None
    found = Coding(dict(known), explicit=explicit)
    for value, said in known.items():
        if said == "skip":
            found.explicit = False
            found.doubts.append(f"{value!r} is taken for no answer")
            found.others.append(({**known, value: "tie"}, f"{value!r} is a tie"))
    if unknown:
        (value,) = unknown
        tie = value.casefold() in _TIE_LIKE or tokens(value) == ["c"]
        first, second = ("tie", "skip") if tie else ("skip", "tie")
        words = {"tie": "a tie", "skip": "no answer"}
        found.values[value] = first
        found.explicit = False
        found.doubts.append(
            f"{value!r} is taken for {words[first]}, which nothing in the file says"
        )
        found.others.append(({**known, value: second}, f"{value!r} is {words[second]}"))
    return found


def _by_numbers(values: list[str], one: ColumnProfile, sides: tuple[str, str]) -> Coding | None:
    """Codes such as 1/2/0, 0/1, -1/0/1 and true/false."""
    if all(value.casefold() in ("true", "false", "yes", "no") for value in values):
        named = side_named(one, sides)
        yes, no = ("right", "left") if named == "right" else ("left", "right")
        meaning = {value: yes if value.casefold() in ("true", "yes") else no for value in values}
        return _either(meaning, sure=named is not None)
    if not one.numeric:
        return None
    codes = {value: number(value) for value in values}
    kinds = frozenset(value for value in codes.values() if value is not None)
    words = set(one.words)
    found = None
    if kinds <= {0, 1}:
        named = side_named(one, sides)
        first_is_zero = bool(words & _INDEX) or not words & _FLAG
        if named is not None:
            first_is_zero = named == "right"
        zero, other = ("left", "right") if first_is_zero else ("right", "left")
        found = _either(_coded(codes, {0: zero, 1: other}))
    elif kinds <= {1, 2}:
        found = Coding(_coded(codes, {1: "left", 2: "right"}), explicit=False)
    elif {0, 1} <= kinds and len(kinds) == 3 and 0 < max(kinds - {0, 1}) < 1:
        found = _shares(codes, max(kinds - {0, 1}), side_named(one, sides))
    elif kinds in ({0, 1, 2}, {1, 2, 3}):
        found = _three(codes, kinds, words, one.counts)
    elif kinds <= {-1, 0, 1}:
        # From the left to the right, as on a scale, where the columns are called so.
        scale = words & _SIDED or {"left", "right"} <= {w for side in sides for w in tokens(side)}
        low, high = ("left", "right") if scale else ("right", "left")
        found = _either(_coded(codes, {-1: low, 1: high, 0: "tie"}))
    else:
        found = _graded(codes, kinds)
    return found


def _shares(codes: Mapping[str, float | None], third: float, named: str | None) -> Coding:
    """How much of a win an item has, the first if no other is named: 1, 0 and something between."""
    won, lost = ("right", "left") if named == "right" else ("left", "right")
    meaning = _coded(codes, {1: won, 0: lost, third: "tie" if third == 0.5 else "skip"})
    found = _either(meaning)
    if third != 0.5:
        value = next(v for v, code in codes.items() if code == third)
        found.doubts.insert(0, f"{value!r} is taken for no answer, which nothing in the file says")
        found.others.insert(0, ({**meaning, value: "tie"}, f"{value!r} is a tie"))
    return found


def _coded(codes: Mapping[str, float | None], meaning: Mapping[float, str]) -> dict[str, str]:
    return {value: meaning[code] for value, code in codes.items() if code is not None}


def _three(
    codes: Mapping[str, float | None],
    kinds: frozenset[float],
    words: set[str],
    counts: Mapping[str, int],
) -> Coding:
    """Two sides and a third value, which is a tie or no answer."""
    one_two: dict[float, str] = {1: "left", 2: "right", 0: "tie"}
    zero: dict[float, str] = {0: "left", 1: "right", 2: "tie"}
    ways = [one_two]
    if 0 in kinds:
        ways = [zero, *ways] if words & (_INDEX | {"response", "button"}) else [*ways, zero]
    else:
        # The tie may be the last or the middle one: rather the rarer.
        ways = [{1: "left", 2: "right", 3: "tie"}, {1: "left", 3: "right", 2: "tie"}]
        often = {code: counts[value] for value, code in codes.items()}
        ways = ways[::-1] if often[2] < often[3] else ways
    third = next(code for code, said in ways[0].items() if said == "tie")
    value = next(v for v, code in codes.items() if code == third)
    found = Coding(_coded(codes, ways[0]), explicit=False)
    tie, skip = found.values, _coded(codes, {**ways[0], third: "skip"})
    if ways[0][third] == "tie" and "response" in words:
        # A third button: those who skip are not to be counted as undecided.
        found.values = skip
        found.doubts.append(f"{value!r} is taken for no answer, which nothing in the file says")
        found.others.append((tie, f"{value!r} is a tie"))
    else:
        found.doubts.append(f"{value!r} is taken for a tie, which nothing in the file says")
        found.others.append((skip, f"{value!r} is no answer"))
    found.others += [
        (_coded(codes, way), ", ".join(f"{code:g}={said}" for code, said in way.items()))
        for way in ways[1:]
    ]
    return found


def _graded(codes: Mapping[str, float | None], kinds: frozenset[float]) -> Coding | None:
    """A scale from one side over the middle to the other: 1 … 5, or -2 … 2."""
    low, high = min(kinds), max(kinds)
    if not (
        all(code.is_integer() for code in kinds)
        and (low, high) in ((1, 5), (1, 7), (-2, 2), (-3, 3))
    ):
        return None
    middle = (low + high) / 2
    meaning = {
        value: "tie" if code == middle else "left" if code < middle else "right"
        for value, code in codes.items()
        if code is not None
    }
    return _either(meaning)


def side_named(one: ColumnProfile, sides: tuple[str, str]) -> str | None:
    """The side that a flag speaks of: left of is_A_selected, right of away_won; None if neither."""
    left, right = (set(tokens(side)) for side in sides)
    first, second = (
        (left - right) | {"a", "left", "first"},
        (right - left) | {"b", "right", "second"},
    )
    own = set(one.words)
    if own & _OVER and own & first and own & second:
        # a_better_than_b speaks of the one that it names first.
        earlier = next(word for word in one.words if word in first | second)
        return "left" if earlier in first else "right"
    if not own & (first | second):
        # bResult of blueTeam and redTeam
        first, second = ({word[0] for word in words} for words in (left - right, right - left))
    if bool(own & (first - second)) == bool(own & (second - first)):
        return None
    return "left" if own & (first - second) else "right"


def _either(meaning: dict[str, str], *, sure: bool = False) -> Coding:
    """A coding that may as well be the other way round."""
    found = Coding(meaning, explicit=False)
    if not sure:
        swap = {"left": "right", "right": "left"}
        other = {value: swap.get(said, said) for value, said in meaning.items()}
        first = next(value for value, said in meaning.items() if said in swap)
        found.doubts.append(
            f"{first!r} is taken for the {meaning[first]} item; it may be the other one"
        )
        found.others.append((other, "the other way round"))
    return found
