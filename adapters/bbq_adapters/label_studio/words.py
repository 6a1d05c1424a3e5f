"""Names as people write them: sides in keys, outcomes in labels, scales in buckets."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bbq_adapters.label_studio.options import Meaning


def _set(text: str, separator: str | None = None) -> frozenset[str]:
    return frozenset(text.split(separator))


_TOKENS = re.compile(r"\d+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")

_SIGNED = re.compile(r"\s*(\w+)\s*(>+|<+|=+|≈)\s*(\w+)\s*")

# Ways to count the things shown, each from the first one on.
_COUNTS: tuple[tuple[str, ...], ...] = (
    ("left", "right"),
    ("first", "second", "third", "fourth", "fifth", "sixth"),
    ("one", "two", "three", "four", "five", "six"),
    tuple("abcdefgh"),
    tuple(str(n) for n in range(1, 21)),
    tuple(str(n) for n in range(20)),
)

_ANY_COUNT = frozenset(word for count in _COUNTS for word in count)

# A key that ends in one of these words names an item (answer1_model); one that ends in
# another holds what was shown (model1_answer).
_NAME_WORDS = _set(
    "model system method name id condition generator engine variant codec algorithm "
    "checkpoint policy"
)
_STRONG_NAME_WORDS = _NAME_WORDS - {"id", "name"}

# What people write around a side without changing its meaning.
_FILLERS = _set(
    "is are was the this that i prefer preferred better best wins winner much slightly clearly "
    "strongly answer response model option image text output video audio system candidate "
    "sample side item choose chosen version summary translation picture result"
)

_TIES = _set(
    "tie|tied|draw|equal|equally good|both equal|both good|both are good|both equally good|same|"
    "the same|about the same|no preference|no difference|equivalent|neither is better|"
    "both|both are equal|they are equal|they are the same|both are equally good|about equal|"
    "roughly equal|roughly the same|equal quality|same quality|no clear winner",
    "|",
)
_BOTH_BAD = _set(
    "both bad|bothbad|both are bad|equally bad|tie both bad|tie bothbad|neither is good|"
    "both are equally bad|both equally bad|both poor|neither good",
    "|",
)

_VERDICTS = _set("left right better best prefer preferred wins winner choose chosen")

# Buckets whose order their names say, best first.
_SCALES: tuple[tuple[str, ...], ...] = (
    ("best", "good", "ok", "bad", "worst"),
    ("excellent", "good", "okay", "poor", "terrible"),
    ("excellent", "good", "average", "poor", "bad"),
    ("good", "fair", "poor"),
    ("good", "neutral", "bad"),
    ("top", "middle", "bottom"),
    ("high", "medium", "low"),
    ("relevant", "irrelevant"),
    ("better", "worse"),
)


def tokens(text: str) -> list[str]:
    """The words and numbers of a name, small: `answer1_model` → answer, 1, model."""
    return [token.lower() for token in _TOKENS.findall(text)]


def families(keys: Iterable[str]) -> list[tuple[str, ...]]:
    """Groups of keys that differ in nothing but a count from the first on, in that order."""
    groups: dict[tuple[int, int, tuple[str, ...]], dict[str, str]] = {}
    for key in keys:
        words = tokens(key)
        for place, word in enumerate(words):
            stem = (*words[:place], *words[place + 1 :])
            for which, count in enumerate(_COUNTS):
                if word in count:
                    groups.setdefault((which, place, stem), {})[word] = key
    found: list[tuple[str, ...]] = []
    for (which, _, _), members in groups.items():
        count = _COUNTS[which]
        if len(members) < 2 or set(count[: len(members)]) != set(members):
            continue
        family = tuple(members[word] for word in count[: len(members)])
        if family not in found:
            found.append(family)
    return found


@lru_cache(maxsize=256)
def side_keys(keys: tuple[str, ...]) -> frozenset[str]:
    """The keys that speak of one side only."""
    return frozenset(key for family in families(keys) for key in family)


def names_an_item(key: str) -> bool:
    """Whether a key looks like one that holds the name of an item."""
    return _noun(key) in _NAME_WORDS


def strongly_names_an_item(key: str) -> bool:
    """The same without the words that every list has, such as id."""
    return _noun(key) in _STRONG_NAME_WORDS


def _noun(key: str) -> str:
    words = [word for word in tokens(key) if word not in _ANY_COUNT]
    return words[-1].removesuffix("s") if words else ""


def meaning(label: str) -> Meaning | None:
    """What a well-known label means: tie, both_bad, or the place of an item counted from 1."""
    if (sign := _SIGNED.fullmatch(label)) is not None:
        return _signed(*sign.groups())
    words = tokens(label.replace("'", ""))
    phrase = " ".join(words)
    if phrase in _TIES:
        return "tie"
    if phrase in _BOTH_BAD:
        return "both_bad"
    sides = [word for word in words if word not in _FILLERS]
    if len(sides) != 1:
        return None
    for count in _COUNTS[:-1]:
        if sides[0] in count:
            return count.index(sides[0]) + 1
    return None


def _signed(first: str, sign: str, second: str) -> Meaning | None:
    """`A > B`, `A >> B`, `A = B`, `A < B`."""
    sides = (first.lower(), second.lower())
    if not any(sides == count[:2] for count in _COUNTS[:-1]):
        return None
    return {">": 1, "<": 2}.get(sign[0], "tie")


def is_bare(label: str) -> bool:
    """Whether a label is a lone letter or number, which may as well be something else."""
    words = tokens(label)
    return len(words) == 1 and (len(words[0]) == 1 or words[0].isdigit())


def is_sided(label: str) -> bool:
    """Whether a label speaks of left or right, which only two things have."""
    return not {"left", "right"}.isdisjoint(tokens(label))


def is_verdict(label: str) -> bool:
    """Whether a label with a meaning can hardly be anything but an answer."""
    return isinstance(meaning(label), str) or not _VERDICTS.isdisjoint(tokens(label))


def ordered_buckets(names: Sequence[str]) -> list[str] | None:
    """Buckets best first where their names say so, else None."""
    for scale in _SCALES:
        places: dict[int, str] = {}
        for name in names:
            on_scale = [scale.index(word) for word in tokens(name) if word in scale]
            if len(on_scale) == 1:
                places[on_scale[0]] = name
        if len(places) == len(names):
            return [places[place] for place in sorted(places)]
    return None
