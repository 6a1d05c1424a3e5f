"""Commands to paste after a refusal: what was typed, completed by what was missing."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from bbq_plugin.cli.main import ARGUMENTS
from bbq_plugin.cli.options import STDIN, hidden_words
from bbq_plugin.data.mappings import spelled
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import click

    from bbq_plugin.data.mappings import Reading


TRY = "Try: "


def words_of(reading: Reading, typed: Sequence[str] = ()) -> list[str]:
    """A reading as words of a command line, without those that are typed already."""
    words: list[str] = []
    if reading.adapter and not _says(typed, "--adapter"):
        words += ["--adapter", reading.adapter]
    for name, value in reading.options.items():
        if _says(typed, f"--{name}") or _has_option(typed, name):
            continue
        text = spelled(value)
        # Those with an option of their own; the others by -O.
        words += [f"--{name}", text] if name in ("items", "rows") else ["-O", f"{name}={text}"]
    return words


def _says(typed: Sequence[str], option: str) -> bool:
    return any(word == option or word.startswith(f"{option}=") for word in typed)


def _has_option(typed: Sequence[str], name: str) -> bool:
    named = (f"{name}=", f"{name.replace('_', '-')}=")
    for before, word in zip(["", *typed], typed, strict=False):
        shown = word.removeprefix("--option=") if word.startswith("--option=") else word
        is_option = before in ("-O", "--option") or shown != word
        if is_option and shown.startswith(named):
            return True
        if word.startswith("-O") and word[2:].startswith(named):
            return True
    return False


def completed(typed: Sequence[str], more: Sequence[str]) -> str | None:
    """The command that was typed with more words, or None where it cannot be pasted."""
    if "--" in typed:
        at = list(typed).index("--")
        words = [*typed[:at], *more, *typed[at:]]
    else:
        words = [*typed, *more]
    line = shlex.join(["bbq", *words])
    return line if plain(line) == line else None


def try_lines(error: Exception, context: click.Context) -> Iterator[str]:
    """The lines that end a refusal which the user can mend."""

    readings: Sequence[Reading] = getattr(error, "readings", ())
    more: Sequence[Sequence[str]] = getattr(error, "more_words", ())
    typed: list[str] = context.meta.get(ARGUMENTS, [])
    if not typed or STDIN in typed or hidden_words(typed) != typed:
        # A pipe cannot be pasted, and a secret is not repeated.
        yield from (f"Add: {shlex.join(words_of(one, typed))}" for one in readings[:1])
        return
    for i, reading in enumerate(readings):
        for doubt in reading.doubts if i == 0 else ():
            yield f"  {plain(doubt)}"
        words = words_of(reading, typed)
        line = completed(typed, words)
        if line is None or not words:
            # The same command again would be refused again.
            continue
        if reading.difference and i:
            yield f"  or, if {plain(reading.difference)}:"
        yield TRY + line
    for further in more:
        if (line := completed(typed, further)) is not None:
            yield TRY + line
