"""The options of the daemon: one for each key of `bbq.toml`, made from the table of the keys."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bbq_plugin.cli.output import tell
from bbq_plugin.config import (
    KEYS,
    Choice,
    Key,
    Kind,
    Names,
    Options,
    PriorsText,
    Switch,
    Whole,
    Wrong,
)
from bbq_plugin.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bbq_plugin.config import Settings

    # Only new versions of click take the type in brackets when the program runs.
    _Param = click.ParamType[Any]
else:
    _Param = click.ParamType

_Command = TypeVar("_Command", bound="Callable[..., Any]")

VARIABLE = "BBQ_CONFIG"
USUAL = Path("bbq.toml")

#: What a verdict on raters depends on: the same for whoever plans feedback.
JUDGING = tuple(
    key for key in KEYS if key.section == "raters" or key.name in ("model", "priors", "level")
)


@dataclass(frozen=True)
class Configured:
    """Where the settings of a command come from; `load` reads them, again if need be."""

    file: Path | None
    given: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> Settings:
        """The settings as they are now."""
        from bbq_plugin.config import load, unknown_variables

        tell(*unknown_variables(os.environ), what="Warning")
        return load(self.file, os.environ, self.given)


def options(command: _Command) -> _Command:
    """Add --config and an option for every key; the command gets all of it as `configured`."""
    return options_for(KEYS)(command)


def options_for(keys: Sequence[Key]) -> Callable[[_Command], _Command]:
    """Add --config and an option for each of these keys; the file may hold the others as well."""

    def added(command: _Command) -> _Command:
        @wraps(command)
        def wrapped(config: Path | None, **rest: Any) -> Any:
            given = {}
            for key in keys:
                value = rest.pop(key.name)
                if value is not None:
                    given[key.name] = value
            return command(configured=Configured(config or _usual_file(), given), **rest)

        for key in reversed(keys):
            wrapped = _option(key)(wrapped)
        return click.option(  # type: ignore[return-value] # click calls it by keyword
            "--config",
            type=click.Path(path_type=Path),
            envvar=VARIABLE,
            help="File with the configuration. Default: bbq.toml in the current folder, if there "
            "is one.",
        )(wrapped)

    return added


def judging_options(command: _Command) -> _Command:
    """Add --config and what verdicts depend on to a command that does nothing else with a fit."""
    from bbq_plugin.cli.options import JUDGED_MODELS

    narrow = [
        replace(key, kind=Choice(JUDGED_MODELS)) if key.name == "model" else key for key in JUDGING
    ]
    return options_for(narrow)(command)


def check_judged(chosen: Settings, command: str) -> None:
    """Refuse a model that raters cannot be judged with; the file may name any."""
    from bbq_plugin.analysis.raters.report import JUDGED

    if chosen.model.model not in JUDGED:
        raise UsageError(
            f"model.model is {chosen.model.model!r}, and {command} judges raters, which can be "
            f"done with {' and '.join(JUDGED)}; say one of these with --model"
        )


def _usual_file() -> Path | None:
    return USUAL if USUAL.is_file() else None


def _option(key: Key) -> Callable[[Any], Any]:
    if key.name == "folder":
        return click.argument("folder", required=False, type=_Value(key.kind))
    shown = key.kind.shown(key.default)
    text = f"{key.meaning} Default: {shown}." if shown else key.meaning
    if isinstance(key.kind, Switch):
        both = f"{key.option}/--no-{key.option.removeprefix('--')}"
        return click.option(both, key.name, default=None, help=text)
    if key.name == "options":
        return click.option(
            "-O", key.option, key.name, type=_Value(key.kind), multiple=True,
            callback=_together, help=f"{text} Repeatable.",
        )  # fmt: skip
    words = f"[{'|'.join(key.kind.words)}]" if isinstance(key.kind, Choice) else None
    return click.option(key.option, key.name, type=_Value(key.kind), help=text, metavar=words)


def _together(
    ctx: click.Context,
    param: click.Parameter,
    value: tuple[dict[str, Any], ...],
) -> dict[str, Any] | None:
    merged: dict[str, Any] = {}
    for one in value:
        for name in one:
            if name in merged:
                raise click.BadParameter(f"{name!r} is given twice; say it once.", ctx, param)
        merged |= one
    return merged or None


# What stands behind an option in the help, where the documentation's words are too long.
_METAVAR: dict[type[Kind], str] = {
    Names: "name,…",
    Options: "name=value",
    PriorsText: "priors",
    Whole: "integer",
}


class _Value(_Param):
    """A value of one of our kinds."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.name = _METAVAR.get(type(kind), kind.takes)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse what was typed."""
        if not isinstance(value, str):
            return value
        try:
            if isinstance(self.kind, Options) and "=" in value:
                # What is typed at once is one option, whatever its value holds.
                name, _, rest = value.partition("=")
                return self.kind.check({name.strip(): rest})
            return self.kind.parse(value)
        except Wrong as wrong:
            raise click.BadParameter(f"{value!r}: {wrong}.", ctx, param) from None

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[Any]:
        """Offer the words of a choice."""
        if not isinstance(self.kind, Choice):
            return super().shell_complete(ctx, param, incomplete)
        from click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in self.kind.words if word.startswith(incomplete)]
