"""The command as it was typed, without secrets, for the report."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import click

from bbq_plugin.cli.group import ARGUMENTS

if TYPE_CHECKING:
    from collections.abc import Callable

_SECRET = re.compile(r"secret|token|passw|api_?key|credential|auth|salt", re.IGNORECASE)
_HIDDEN = "***"
_RATERS = ("--drop-rater", "--rater")


def typed_command(hide_rater: Callable[[str], str] | None = None) -> str | None:
    """What was typed; ``hide_rater`` replaces the names that --drop-rater and --rater give."""
    context = click.get_current_context(silent=True)
    if context is None or ARGUMENTS not in context.meta:
        return None
    return shlex.join(["bbq", *_hidden(context.meta[ARGUMENTS], hide_rater)])


def _hidden(arguments: list[str], hide_rater: Callable[[str], str] | None) -> list[str]:
    out: list[str] = []
    option = ""
    for word in arguments:
        name, equals, value = word.partition("=")
        if option in ("-O", "--option") or (name == "--option" and equals):
            # key=value of an adapter's option
            shown = word if option else value
            key, _, _ = shown.partition("=")
            if _SECRET.search(key):
                shown = f"{key}={_HIDDEN}"
            out.append(shown if option else f"{name}={shown}")
        elif option in _RATERS and hide_rater:
            out.append(hide_rater(word))
        elif name in _RATERS and equals and hide_rater:
            out.append(f"{name}={hide_rater(value)}")
        else:
            out.append(word)
        option = word if not option and word in ("-O", "--option", *_RATERS) else ""
    return out
