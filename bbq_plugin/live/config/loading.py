"""From a file, the environment and what was typed to `Settings`; every error names its key."""

from __future__ import annotations

import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bbq_plugin.errors import SettingsError, UsageError
from bbq_plugin.live.config.kinds import FilePath, Options, Wrong, near
from bbq_plugin.live.config.settings import KEYS, SECTIONS, Key, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["load", "unknown_variables"]

PREFIX = "BBQ_"
# Variables that are not keys: a secret, the file itself, and what other parts look at.
OTHER_VARIABLES = (
    "BBQ_CONFIG",
    "BBQ_PAGE_TOKEN",
    "BBQ_PSEUDONYM_KEY",
    "BBQ_THREADS",
    "BBQ_WEBHOOK_SECRET",
)

# Sections of the same file that other commands read: where a labelling tool's server is.
OTHER_SECTIONS = ("label_studio",)


def load(path: Path | None, env: Mapping[str, str], given: Mapping[str, Any]) -> Settings:
    """The settings of now: ``given`` (by key's name) over ``env`` over the file over defaults.

    Paths in the file are relative to it, all others to the current folder.
    """
    found: dict[str, Any] = {}
    if path is not None:
        _take(found, _from_file(path))
    _take(found, _from_environment(env))
    _take(found, _from_caller(given))
    settings = _built(found)
    _check_together(settings)
    return settings


def unknown_variables(env: Mapping[str, str]) -> list[str]:
    """What to say about variables that look like a key of ours, spelt wrong.

    They are no error: a platform may well set variables with this beginning.
    """
    known = [*(key.variable for key in KEYS), *OTHER_VARIABLES]
    notes = []
    for name in sorted(env):
        if name.startswith(PREFIX) and name not in known:
            close = get_close_matches(name, known, n=1, cutoff=0.8)
            if close:
                notes.append(f"the variable {name} is not known; did you mean {close[0]}?")
    return notes


def _take(found: dict[str, Any], more: Iterator[tuple[Key, Any]]) -> None:
    for key, value in more:
        if isinstance(key.kind, Options):
            # One option typed does not take the others of the file away.
            found[key.dotted] = {**found.get(key.dotted, {}), **value}
        else:
            found[key.dotted] = value


def _from_file(path: Path) -> Iterator[tuple[Key, Any]]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: the text is not UTF-8 ({error.reason}); save it as UTF-8"
                            ) from error  # fmt: skip
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML ({error})") from error
    except OSError as error:
        raise SettingsError(
            f"{path}: cannot be read ({error.strerror}); check the path of the configuration"
        ) from error
    by_name = {key.dotted: key for key in KEYS}
    for dotted, value in _flat(document, path):
        key = by_name.get(dotted)
        if key is None:
            raise SettingsError(f"{path}: there is no key {dotted!r}{_meant(dotted)}")
        checked = _checked(f"{path}: {dotted}", key.kind.check, value)
        if isinstance(key.kind, FilePath):
            checked = path.parent / checked
        yield key, checked


def _flat(document: Mapping[str, Any], path: Path) -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        if name in OTHER_SECTIONS:
            continue
        if name not in SECTIONS:
            yield name, value
        elif isinstance(value, dict):
            yield from ((f"{name}.{inner}", one) for inner, one in value.items())
        else:
            raise SettingsError(
                f"{path}: {name} is {value!r}; expected a table, [{name}], with keys of its own"
            )


def _meant(dotted: str) -> str:
    """The key that was probably meant: in another section, or spelt otherwise."""
    last = dotted.rpartition(".")[2].replace("-", "_")
    for key in KEYS:
        if key.name == last:
            return f"; did you mean {key.dotted!r}?"
    return near(dotted, [*(key.dotted for key in KEYS), *SECTIONS])


def _from_environment(env: Mapping[str, str]) -> Iterator[tuple[Key, Any]]:
    for key in KEYS:
        # Empty is how a container file says that it has nothing to say.
        if text := env.get(key.variable, ""):
            yield key, _checked(key.variable, key.kind.parse, text)


def _from_caller(given: Mapping[str, Any]) -> Iterator[tuple[Key, Any]]:
    by_name = {key.name: key for key in KEYS}
    for name, value in given.items():
        if name not in by_name:
            raise SettingsError(f"there is no key {name!r}{near(name, by_name)}")
        key = by_name[name]
        yield key, _checked(key.option, key.kind.check, value)


def _checked(name: str, check: Callable[[Any], Any], value: Any) -> Any:
    try:
        return check(value)
    except Wrong as wrong:
        raise SettingsError(f"{name} is {value!r}; {wrong}") from None


def _built(found: Mapping[str, Any]) -> Settings:
    parts: dict[str | None, dict[str, Any]] = {None: {}, **{section: {} for section in SECTIONS}}
    for key in KEYS:
        if key.dotted in found:
            parts[key.section][key.name] = found[key.dotted]
    sections = {section: holder(**parts[section]) for section, holder in SECTIONS.items()}
    return Settings(**parts[None], **sections)


def _check_together(settings: Settings) -> None:
    """What no single key can show to be wrong."""
    if settings.max_delay_s < settings.debounce_s:
        raise SettingsError(
            f"max_delay_s is {settings.max_delay_s:g} and debounce_s {settings.debounce_s:g}; "
            "the first is the longest that the second may become, so it cannot be smaller"
        )
    if settings.read.adapter is not None:
        _check_adapter(settings.read.adapter, settings.read.options)


def _check_adapter(adapter: str, options: Mapping[str, Any]) -> None:
    """Now, and not when the first file comes: an adapter that is not there, an option not its."""
    from bbq_plugin.registry import check_options  # noqa: PLC0415 (loads all adapters)

    try:
        check_options(adapter, options)
    except UsageError as error:
        raise SettingsError(f"read.adapter or read.options: {error}") from error
