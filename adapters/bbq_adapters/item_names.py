"""Item names in a task's data: where the user says they are, or where they are beyond doubt."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Protocol

from bbq_adapters.row_reader import lookup
from bbq_adapters.wording import families, names_an_item, side_keys
from bbq_plugin.data.mappings import Reading, UnclearError
from bbq_plugin.errors import FormatError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_LONGEST_NAME = 120
_LONGEST_TAG = 60
_MOST_TAGS = 30
_SHOWN_KEYS = 25
_MISSING = object()
# How an entry of a list is known to the control that shows it: a Ranker takes the id,
# Choices take the alias, else the value.
_IDENTITIES = ("id", "alias", "value")


class NamingTask(Protocol):
    """A task of any tool: its data, and the line of its file."""

    @property
    def data(self) -> dict[str, Any]:
        """What the task shows, by key."""

    @property
    def line(self) -> int | None:
        """Where it stands."""


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
    """A name as text without blanks around it, or None for what is none."""
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return str(int(value)) if float(value).is_integer() else str(value)
    except (ValueError, OverflowError):
        return None


def told_keys(paths: tuple[str, ...], sample: Sequence[NamingTask], file: str) -> Source:
    """The source that the option `items` names, checked against the data."""
    if len(paths) == 1:
        return told_list(paths[0], sample, file)
    for path in paths:
        if all(lookup(task.data, path, _MISSING) is _MISSING for task in sample):
            raise _no_such_key(path, sample, file)
    return Keys(paths)


def told_list(path: str, sample: Sequence[NamingTask], file: str) -> Listed:
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


def _no_such_key(path: str, sample: Sequence[NamingTask], file: str) -> FormatError:
    keys = sorted({key for task in sample for key in task.data})
    problem = f"no task has the key {path!r} that the option items names; {described(sample)}"
    remedy = did_you_mean(path, keys, "name keys that the tasks have", before="")
    return FormatError(problem, file, sample[0].line, path, remedy)


def found_keys(
    sample: Sequence[NamingTask], most: int | None, file: str, adapter: str = "label-studio"
) -> Source:
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
    likely = good or _by_values(sample, keys, most)
    if likely:
        shown = " or items=".join(",".join(_paths(source)) for source in likely[:3])
        problem += f"; say which with the option items={shown}"
    else:
        example = ",".join(("KEY",) * (most or 2))
        problem += (
            f"; name them with the option items={example}, or add the names to the tasks where "
            "they are missing"
        )
    readings = [
        Reading(
            adapter, {"items": _paths(source)}, "possible" if i else "likely",
            "items named by keys of the task data",
            difference=f"{', '.join(_paths(source))} name the items",
            doubts=(_values_shown(source, sample),),
        )
        for i, source in enumerate(likely[:3])
    ]  # fmt: skip
    raise UnclearError(problem, file, readings, sample[0].line, keys[:_SHOWN_KEYS])


def _paths(source: Source) -> tuple[str, ...]:
    return source.keys if isinstance(source, Keys) else (source.key,)


def _values_shown(source: Source, sample: Sequence[NamingTask]) -> str:
    """Some of the names, for a message."""
    found = dict.fromkeys(name for task in sample for name in source.names(task.data) or ())
    some = ", ".join(repr(name[:40]) for name in list(found)[:4])
    return (
        f"{', '.join(_paths(source))} would name the items {some}{' …' if len(found) > 4 else ''}"
    )


def _by_values(sample: Sequence[NamingTask], keys: list[str], most: int | None) -> list[Source]:
    """Groups of keys whose few values come again in many tasks, as names do and texts do not."""
    groups = [family for family in families(keys) if most in (None, len(family))]
    if most in (None, 2):
        groups += [pair for pair in combinations(keys, 2) if pair not in groups]
    found: list[tuple[float, Source]] = []
    for group in groups:
        source = Keys(tuple(group))
        named = [names for task in sample if (names := source.names(task.data))]
        values = [{names[i] for names in named} for i in range(len(group))]
        union = set().union(*values)
        if len(named) * 2 <= len(sample) or len(named) < 3 or not _all_short(source, sample):
            continue
        common = set.intersection(*values)
        if len(union) * 2 > len(named) or len(union) < 2 or len(common) * 2 < min(map(len, values)):
            continue
        found.append((len(union), source))
    found.sort(key=lambda one: -one[0])
    return [source for _, source in found]


def _all_short(source: Source, sample: Sequence[NamingTask]) -> bool:
    """Whether most tasks have names there, and none has anything else."""
    found = [names for task in sample if (names := source.names(task.data))]
    return len(found) * 2 > len(sample) and all(
        len(name) <= _LONGEST_NAME and "\n" not in name and "://" not in name
        for names in found
        for name in names
    )


def _is_plain_list(key: str, most: int | None, sample: Sequence[NamingTask]) -> bool:
    lists = [task.data[key] for task in sample if key in task.data]
    return all(
        isinstance(one, list)
        and len(one) >= 2
        and most in (None, len(one))
        and all(isinstance(entry, str) for entry in one)
        for one in lists
    )


def described(sample: Sequence[NamingTask]) -> str:
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
