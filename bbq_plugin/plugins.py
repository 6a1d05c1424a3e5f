"""Adapters and labelling tools by entry point; the adapter of a file, and its options.

An adapter is a class without arguments, registered under the entry point group
`bbq_plugin.adapters`, and a labelling tool one under `bbq_plugin.feedback`; the built-in ones
load the same way as all others.
"""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from bbq_plugin.errors import (
    FormatError,
    UnrecognisedError,
    UnsupportedError,
    UsageError,
    did_you_mean,
)
from bbq_plugin.text import listed

if TYPE_CHECKING:
    from pathlib import Path

    from bbq_plugin.protocols import Adapter, Tool

#: The entry point groups.
ADAPTERS = "bbq_plugin.adapters"
TOOLS = "bbq_plugin.feedback"
#: Options that say how a file or a database is opened, and no adapter sees.
OPENING = ("encoding", "sheet", "table")
_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


@dataclass(frozen=True, slots=True)
class Option:
    """One option of an adapter, as `bbq formats` shows it."""

    name: str
    #: What may stand there: `tie|drop`, `text`, `number`, `list`, `mapping`, …
    takes: str
    default: str
    help: str


@dataclass(frozen=True, slots=True)
class Description:
    """An adapter as `bbq formats` shows it."""

    name: str
    summary: str
    recognised: str
    options: tuple[Option, ...]


def key_tags(key: str) -> Mapping[str, str]:
    """What the key of an answer tells by its form, as tags: the project that it is of."""
    return next(filter(None, (tell(key) for tell in _key_readers())), {})


@cache
def _key_readers() -> list[Callable[[str], Mapping[str, str]]]:
    return [adapter.key_tags for adapter in adapters().values() if hasattr(adapter, "key_tags")]


def adapters() -> Mapping[str, Adapter]:
    """Every installed adapter by name."""
    found: dict[str, Adapter] = {}
    for entry in entry_points(group=ADAPTERS):
        if entry.name in found:
            raise UnsupportedError(
                f"two installed packages bring an adapter {entry.name!r}; uninstall one of them"
            )
        found[entry.name] = cast("Adapter", _loaded(entry, "adapter"))
    return found


def answer_files(folder: Path) -> tuple[str, str] | None:
    """The adapter of a folder that is a project of its tool, and the pattern of its answers."""
    for name, adapter in adapters().items():
        find = getattr(adapter, "answer_files", None)
        pattern = None if find is None else find(folder)
        if pattern is not None:
            return name, str(pattern)
    return None


def tool(name: str = "label-studio") -> Tool:
    """A labelling tool by its name."""
    known = {entry.name: entry for entry in entry_points(group=TOOLS)}
    if name not in known:
        raise UsageError(
            f"no installed package reaches a server of {name!r}; "
            f"known: {listed(sorted(known))}{did_you_mean(name, known)}"
        )
    return cast("Tool", _loaded(known[name], "labelling tool"))


def _loaded(entry: EntryPoint, what: str) -> object:
    try:
        return entry.load()()
    except Exception as error:
        package = entry.dist.name if entry.dist else "an unknown package"
        raise UnsupportedError(
            f"{what} {entry.name!r} of {package} cannot be loaded "
            f"({type(error).__name__}: {error}); upgrade or uninstall that package"
        ) from error


def describe(adapter: str | Adapter | None = None) -> tuple[Description, ...]:
    """Describe one adapter, or all that are installed, in the order of their names."""
    known = adapters() if adapter is None else {"": _named(adapter)}
    found = []
    for _, one in sorted(known.items()):
        about, recognised = map(_first_line, (type(one).__doc__, type(one).sniff.__doc__))
        found.append(Description(one.name, about, recognised, options_of(one)))
    return tuple(found)


def check_options(adapter: str, options: Mapping[str, Any]) -> None:
    """Refuse an adapter that is not there, or an option that it does not take."""
    coerced(_named(adapter), options)


def _named(adapter: str | Adapter, known: Mapping[str, Adapter] | None = None) -> Adapter:
    if not isinstance(adapter, str):
        return adapter
    known = adapters() if known is None else known
    if adapter not in known:
        raise UsageError(
            f"there is no adapter {adapter!r}; "
            f"known: {listed(sorted(known))}{did_you_mean(adapter, known)}"
        )
    return known[adapter]


def chosen_adapter(
    adapter: str | Adapter | None,
    head: bytes,
    name: str,
    known: Mapping[str, Adapter] | None = None,
) -> tuple[Adapter, str]:
    """The adapter to read a file with, which begins with `head`, and why that one.

    `known`: what `adapters` gave before. Looking through all installed packages takes longer than
    reading a small file.
    """
    if adapter is not None:
        return _named(adapter, known), "named by the caller"
    known = adapters() if known is None else known
    reasons = {key: why for key, one in known.items() if (why := one.sniff(head, name))}
    if len(reasons) == 1:
        ((key, why),) = reasons.items()
        return known[key], why
    if reasons:
        claims = "; ".join(f"{key}: {reason}" for key, reason in reasons.items())
        raise FormatError(
            f"several adapters could read this file ({claims})",
            name,
            remedy=f"name one of them: {listed(sorted(reasons))}",
        )
    raise UnrecognisedError(
        "no adapter recognises this file",
        name,
        value=head[:80],
        remedy=f"name the adapter if you know it; known: {listed(sorted(known))} "
        "(`bbq formats` tells what each needs)",
    )


def _first_line(docstring: str | None) -> str:
    return (docstring or "").strip().split("\n", 1)[0]


# -- options of an adapter


def options_of(adapter: Adapter) -> tuple[Option, ...]:
    """The options that an adapter declares, in its own order."""
    helps = getattr(adapter, "option_help", {})
    hints = _hints(adapter)
    return tuple(
        Option(p.name, _takes(hints.get(p.name, Any)), _default(p.default), helps.get(p.name, ""))
        for p in _parameters(adapter)
        if p.kind is p.KEYWORD_ONLY
    )


def coerced(adapter: Adapter, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with text turned into what the parameters are annotated with.

    A value that is not text is passed on as it is: Python's own callers know the type.
    """
    parameters = _parameters(adapter)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
    allowed = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    # Of thousands of small files, each would spend more on this than on being read.
    hints = _hints(adapter) if options else {}
    found = {}
    for name, value in options.items():
        # On a command line words are joined by hyphens.
        known = name if name in allowed else name.replace("-", "_")
        if known in OPENING and known not in allowed:
            continue
        if known not in allowed and not open_ended:
            other = _taking(options)
            instead = f"; {other} has it: add --adapter {other}" if other else ""
            raise UsageError(
                f"adapter {adapter.name!r} has no option {name!r}; "
                f"it has: {listed(sorted(allowed))}{instead or did_you_mean(name, allowed)}"
            )
        found[known] = _checked(known, value, hints.get(known, Any))
    return found


def _taking(options: Mapping[str, Any]) -> str:
    """The adapter that takes all of these options; nothing if there is none, or several."""
    names = {name.replace("-", "_") for name in options} - set(OPENING)
    found = [
        name
        for name, one in adapters().items()
        if names <= {p.name for p in _parameters(one) if p.kind is p.KEYWORD_ONLY}
    ]
    return found[0] if len(found) == 1 else ""


def _parameters(adapter: Adapter) -> list[inspect.Parameter]:
    return list(inspect.signature(adapter.read).parameters.values())


def _hints(adapter: Adapter) -> dict[str, Any]:
    """The annotations, where a name that only type checkers import stands for anything."""
    unknown: dict[str, Any] = {"Mapping": Mapping, "Sequence": Sequence}
    while True:
        try:
            return get_type_hints(adapter.read, localns=unknown)
        except NameError as error:
            if error.name is None or error.name in unknown:
                return {}
            unknown[error.name] = _Anything
        except (AttributeError, TypeError):
            return {}


class _AnyAttribute(type):
    def __getattr__(cls, name: str) -> type:
        return cls

    def __getitem__(cls, parameters: object) -> type:
        return cls


class _Anything(metaclass=_AnyAttribute):
    """Stands for a type that cannot be looked up."""


def _checked(name: str, value: Any, hint: Any) -> Any:
    choices = _choices(hint)
    if choices:
        if value in choices:
            return value
        meant = did_you_mean(value, map(str, choices))
        expected = " or ".join(repr(c) for c in choices)
        raise UsageError(f"{name} is {value!r}; expected {expected}{meant}")
    return _parsed(name, value, hint) if isinstance(value, str) else value


def _parsed(name: str, text: str, hint: Any) -> Any:
    takes = _takes(hint)
    if takes == "true|false":
        if text.lower() not in (*_TRUE, *_FALSE):
            raise UsageError(f"{name} is {text!r}; expected true or false")
        return text.lower() in _TRUE
    if takes == "number":
        try:
            return _plain(hint)(text)
        except ValueError:
            raise UsageError(f"{name} is {text!r}; expected a number") from None
    if takes == "mapping":
        return as_mapping(name, text)
    if takes == "list" and text.lstrip().startswith("["):
        return tuple(_json(name, text, list))
    if takes == "list":
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text


def _json(name: str, text: str, kind: type) -> Any:
    """A list or a mapping of texts in JSON, for names that hold a comma or an equals sign."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{name} is {text!r}, which is not valid JSON ({error})") from None
    parts = [*found, *found.values()] if isinstance(found, dict) else found
    if not isinstance(found, kind) or not all(isinstance(part, str) for part in parts):
        raise UsageError(f"{name} is {text!r}; expected a JSON {kind.__name__} of texts")
    return found


def as_mapping(name: str, text: str) -> dict[str, str]:
    """Pairs as they are typed, such as 1=left,2=right, or as JSON."""
    if text.lstrip().startswith("{"):
        return dict(_json(name, text, dict))
    found = {}
    for part in text.split(","):
        # From the right: what a value means has no equals sign, and a value may be one.
        key, sign, value = part.rpartition("=")
        if not sign:
            raise UsageError(f"{name} is {text!r}; expected pairs such as 1=left,2=right")
        if not key.strip():
            raise UsageError(
                f"{name} is {text!r}, with nothing before the equals sign; "
                f"if the value is an equals sign itself, write -O {name}=={text}"
            )
        found[key.strip()] = value.strip()
    return found


def _members(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(m for m in get_args(hint) if m is not type(None))
    return (hint,)


def _choices(hint: Any) -> tuple[Any, ...]:
    members = _members(hint)
    if not all(get_origin(m) is Literal for m in members):
        return ()
    none = (None,) if type(None) in get_args(hint) else ()
    return (*(value for m in members for value in get_args(m)), *none)


def _plain(hint: Any) -> Any:
    members = _members(hint)
    return members[0] if len(members) == 1 else str


def _takes(hint: Any) -> str:
    choices = [c for c in _choices(hint) if c is not None]
    if choices:
        return "|".join(map(str, choices))
    kind = _plain(hint)
    origin = get_origin(kind) or kind
    if kind is bool:
        return "true|false"
    if kind in (int, float):
        return "number"
    if not isinstance(origin, type) or issubclass(origin, str):
        return "text"
    if issubclass(origin, Mapping):
        return "mapping"
    return "list" if issubclass(origin, Sequence) else "text"


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty or value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ",".join(f"{k}={v}" for k, v in value.items())
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
