"""Kinds of option values, with messages that say what was probably meant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

    # Only new versions of click take the type in brackets when the program runs.
    _Words = click.Choice[str]
    _Number = click.ParamType[float]
    _Pair = click.ParamType[tuple[str, str]]
else:
    _Words, _Number, _Pair = click.Choice, click.ParamType, click.ParamType

#: What --seed takes, whatever is drawn.
SEED = click.IntRange(min=0)


def near_miss(word: str, known: Iterable[str]) -> str:
    """A question to put behind a message, or nothing."""
    by_lower = {one.lower(): one for one in known}
    close = get_close_matches(word.lower(), by_lower, n=1)
    return f" Did you mean {by_lower[close[0]]!r}?" if close else ""


class Choice(_Words):
    """One of some words; a near miss is recognised."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Take the word, or refuse it with the nearest one."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            known = [str(one) for one in self.choices]
            message = error.message + near_miss(str(value), known)
            raise click.BadParameter(message, ctx, param) from None


def _fraction(value: Any) -> tuple[str, float | None]:
    """What was typed, and its number: 1% is 0.01."""
    text = str(value).strip()
    number = _number(text.removesuffix("%"))
    return text, number / 100 if number is not None and text.endswith("%") else number


class Probability(_Number):
    """A number between 0 and 1, ends excluded, such as a level."""

    name = "probability"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Take 0.95 or 95%; 95 is refused with what was meant."""
        text, number = _fraction(value)
        if number is None:
            raise click.BadParameter(
                f"{text!r} is not a number; expected one such as 0.95.", ctx, param
            )
        if 0 < number < 1:
            return number
        meant = f" Did you mean {number / 100:g}?" if 1 < number < 100 else ""
        raise click.BadParameter(f"{text} is not between 0 and 1.{meant}", ctx, param)


class Share(_Number):
    """A share from nothing to all, as 1% or 0.01."""

    name = "share"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Take 1% or 0.01; 5 is refused, because it could be either."""
        text, number = _fraction(value)
        if number is None:
            raise click.BadParameter(
                f"{text!r} is not a share; expected one such as 1% or 0.01.", ctx, param
            )
        if 0 <= number <= 1:
            return number
        meant = f" Did you mean {number:g}%?" if 1 < number <= 100 and "%" not in text else ""
        raise click.BadParameter(f"{text} is not a share from 0% to 100%.{meant}", ctx, param)


class KeyValue(_Pair):
    """Two texts with an equals sign between them."""

    def __init__(self, key: str = "key", value: str = "value") -> None:
        self.name = f"{key}={value}"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Split at the first equals sign."""
        if isinstance(value, tuple):
            return value
        key, equals, rest = str(value).partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{value!r} has no '='; expected {self.name}.", ctx, param)
        return key.strip(), rest


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if number == number else None  # noqa: PLR0124 (not NaN)
