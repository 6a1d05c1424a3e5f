"""Item names in a task's data, and what labels mean: as told, or found beyond doubt."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bbq_plugin.errors import FormatError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from bbq_adapters.label_studio.adapter import Meaning
    from bbq_adapters.label_studio.exports import ExportedTask


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
NAME_WORDS = _set(
    "model system method name id condition generator engine variant codec algorithm "
    "checkpoint policy"
)
#: The same without the words that every list has.
STRONG_NAME_WORDS = NAME_WORDS - {"id", "name"}
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


def names_an_item(key: str, *, words: Collection[str] = NAME_WORDS) -> bool:
    """Whether a key looks like one that holds the name of an item."""
    own = [word for word in tokens(key) if word not in _ANY_COUNT]
    return bool(own) and own[-1].removesuffix("s") in words


def label_meaning(label: str) -> Meaning | None:
    """What a well-known label means: tie, both_bad, or the place of an item counted from 1."""
    if (signed := _SIGNED.fullmatch(label)) is not None:
        # `A > B`, `A >> B`, `A = B`, `A < B`
        sides = (signed[1].lower(), signed[3].lower())
        known = any(sides == count[:2] for count in _COUNTS[:-1])
        return {">": 1, "<": 2}.get(signed[2][0], "tie") if known else None
    words = tokens(label.replace("'", ""))
    phrase = " ".join(words)
    if phrase in _TIES:
        return "tie"
    if phrase in _BOTH_BAD:
        return "both_bad"
    said = [word for word in words if word not in _FILLERS]
    for count in _COUNTS[:-1] if len(said) == 1 else ():
        if said[0] in count:
            return count.index(said[0]) + 1
    return None


def is_bare(label: str) -> bool:
    """Whether a label is a lone letter or number, which may as well be something else."""
    words = tokens(label)
    return len(words) == 1 and (len(words[0]) == 1 or words[0].isdigit())


def is_sided(label: str) -> bool:
    """Whether a label speaks of left or right, which only two things have."""
    return not {"left", "right"}.isdisjoint(tokens(label))


def is_verdict(label: str) -> bool:
    """Whether a label with a meaning can hardly be anything but an answer."""
    return isinstance(label_meaning(label), str) or not _VERDICTS.isdisjoint(tokens(label))


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


_LONGEST_NAME = 120
_LONGEST_TAG = 60
_MOST_TAGS = 30
_SHOWN_KEYS = 25
_MISSING = object()
# How an entry of a list is known to the control that shows it: a Ranker takes the id,
# Choices take the alias, else the value.
_IDENTITIES = ("id", "alias", "value")


@dataclass(frozen=True, slots=True)
class Keys:
    """The items stand under keys of their own, in the order in which they are shown."""

    keys: tuple[str, ...]

    def names(self, data: dict[str, Any]) -> list[str] | None:
        """The items' names, or None if one is missing."""
        found = [name_of(lookup(data, key)) for key in self.keys]
        names = [name for name in found if name is not None]
        return names if len(names) == len(found) else None


@dataclass(frozen=True, slots=True)
class Listed:
    """The items are the entries of a list; `field` names them, else what identifies them."""

    key: str
    field: str | None = None

    def names(self, data: dict[str, Any]) -> list[str] | None:
        """The items' names, or None if one is missing."""
        shown = list(self.by_identity(data).values())
        names = [name for name in shown if name is not None]
        return names if names and len(names) == len(shown) else None

    def by_identity(self, data: dict[str, Any]) -> dict[str, str | None]:
        """The names of the entries by what the control calls them."""
        return {
            own: name_of(entry.get(self.field)) if self.field and isinstance(entry, dict) else own
            for entry in entries(lookup(data, self.key))
            if (own := identity(entry)) is not None
        }


Source = Keys | Listed


def entries(value: Any) -> Iterator[Any]:
    """The entries of a list, and those nested in them as `children`."""
    if not isinstance(value, list):
        return
    waiting = list(reversed(value))
    while waiting:
        entry = waiting.pop()
        yield entry
        if isinstance(entry, dict) and isinstance(entry.get("children"), list):
            waiting.extend(reversed(entry["children"]))


def identity(entry: Any) -> str | None:
    """What the control calls an entry of its list."""
    if isinstance(entry, dict):
        return next((own for key in _IDENTITIES if (own := name_of(entry.get(key)))), None)
    return name_of(entry)


def name_of(value: Any) -> str | None:
    """A name as text, or None for what is none."""
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return str(int(value)) if float(value).is_integer() else str(value)
    except (ValueError, OverflowError):
        return None


def lookup(data: Any, path: str, missing: Any = None) -> Any:
    """The value under a key, or under keys and indices joined by dots; else `missing`."""
    if isinstance(data, dict) and path in data:
        return data[path]
    head, dot, rest = path.partition(".")
    if isinstance(data, dict):
        return lookup(data[head], rest, missing) if dot and head in data else missing
    if isinstance(data, list) and head.isascii() and head.isdigit() and len(head) < 6:
        inside = data[int(head)] if int(head) < len(data) else missing
        return lookup(inside, rest, missing) if dot else inside
    return missing


def told_keys(paths: tuple[str, ...], sample: Sequence[ExportedTask], file: str) -> Source:
    """The source that the option `items` names, checked against the data."""
    if len(paths) == 1:
        return told_list(paths[0], sample, file)
    for path in paths:
        if all(lookup(task.data, path, _MISSING) is _MISSING for task in sample):
            raise _no_such_key(path, sample, file)
    return Keys(paths)


def told_list(path: str, sample: Sequence[ExportedTask], file: str) -> Listed:
    """A list, or a field of its entries: `images` or `images.model`."""
    if any(isinstance(lookup(task.data, path), list) for task in sample):
        return Listed(path)
    key, dot, field = path.rpartition(".")
    if dot and any(
        isinstance(entry, dict) and field in entry
        for task in sample
        for entry in entries(lookup(task.data, key))
    ):
        return Listed(key, field)
    raise _no_such_key(path, sample, file)


def _no_such_key(path: str, sample: Sequence[ExportedTask], file: str) -> FormatError:
    keys = sorted({key for task in sample for key in task.data})
    problem = f"no task has the key {path!r} that the option items names; {described(sample)}"
    remedy = did_you_mean(path, keys, "name keys that the tasks have", before="")
    return FormatError(problem, file, sample[0].line, path, remedy)


def found_keys(sample: Sequence[ExportedTask], most: int | None, file: str) -> Source:
    """The keys that name the items, or a refusal that lists the keys.

    A group of keys qualifies if they differ only in a side (model1, model2), one of
    their words says that they name something, and every task has short texts there.
    `most` is how many items the control shows, None if it may be any number.
    """
    keys = list(dict.fromkeys(key for task in sample for key in task.data))
    good: list[Source] = [
        Keys(family)
        for family in families(keys)
        if most in (None, len(family))
        and all(names_an_item(key) for key in family)
        and _all_short(Keys(family), sample)
    ]
    good += [
        Listed(key)
        for key in keys
        if names_an_item(key)
        and _is_plain_list(key, most, sample)
        and _all_short(Listed(key), sample)
    ]
    if len(good) == 1:
        return good[0]
    what = "several groups of keys could hold" if good else "no keys clearly hold"
    problem = f"{what} the names of the items; {described(sample)}"
    remedy = f"say which with the option items={_example(good, keys, most)}"
    if not good:
        remedy += ", or add the names to the tasks where they are missing"
    raise FormatError(problem, file, sample[0].line, keys[:_SHOWN_KEYS], remedy)


def _all_short(source: Source, sample: Sequence[ExportedTask]) -> bool:
    """Whether most tasks have names there, and none has anything else."""
    found = [names for task in sample if (names := source.names(task.data))]
    return len(found) * 2 > len(sample) and all(
        len(name) <= _LONGEST_NAME and "\n" not in name and "://" not in name
        for names in found
        for name in names
    )


def _is_plain_list(key: str, most: int | None, sample: Sequence[ExportedTask]) -> bool:
    lists = [task.data[key] for task in sample if key in task.data]
    return all(
        isinstance(one, list)
        and len(one) >= 2
        and most in (None, len(one))
        and all(isinstance(entry, str) for entry in one)
        for one in lists
    )


def _example(good: list[Source], keys: list[str], most: int | None) -> str:
    if good:
        return " or items=".join(
            ",".join(source.keys) if isinstance(source, Keys) else source.key for source in good[:3]
        )
    group = [family for family in families(keys) if most in (None, len(family))]
    return ",".join(group[0] if group else ("KEY",) * (most or 2))


def described(sample: Sequence[ExportedTask]) -> str:
    """The keys of the tasks with a value each, for a message."""
    seen: dict[str, Any] = {}
    for task in sample:
        for key, value in task.data.items():
            seen.setdefault(key, value)
    shown = [f"{key!r} (e.g. {_brief(value)})" for key, value in list(seen.items())[:_SHOWN_KEYS]]
    rest = ", …" if len(seen) > _SHOWN_KEYS else ""
    return f"the task data have {', '.join(shown)}{rest}" if shown else "the tasks have no data"


def _brief(value: Any) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}" + (f": {_briefest(value[0])}" if value else "")
    return _briefest(value)


def _briefest(value: Any, longest: int = 40) -> str:
    if isinstance(value, dict):
        return "an object with " + ", ".join(repr(key)[:longest] for key in list(value)[:6])
    name = name_of(value)
    if name is None:
        return "a list" if isinstance(value, list) else type(value).__name__
    return repr(name[:longest] + "…" if len(name) > longest else name)


def tags_of(data: dict[str, Any], without: Iterable[str]) -> dict[str, str] | None:
    """What the data say about the comparison as a whole: short values, of no single side."""
    left_out = side_keys(tuple(data)).union(without)
    tags: dict[str, str] = {}
    for key, value in data.items():
        if key in left_out or len(tags) == _MOST_TAGS:
            continue
        text = ("true" if value else "false") if isinstance(value, bool) else name_of(value)
        if text is not None and len(text) <= _LONGEST_TAG and "\n" not in text:
            tags[key] = text
    return tags or None
