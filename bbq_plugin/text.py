"""Names of items and raters come from files of strangers; here they become harmless text."""

from __future__ import annotations

from collections.abc import Iterable

# A spreadsheet runs a cell that begins with one of these.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def plain(text: str) -> str:
    """Show control, direction and other invisible characters as escapes, e.g. \\x1b."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def counted(n: int, what: str) -> str:
    """Say how many: 1 rater, 2 raters."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def listed(names: Iterable[str], most: int = 20) -> str:
    """Name the first ones of some names: `a, b, c …`, or `none`."""
    names = list(names)
    return ", ".join(names[:most]) + (" …" if len(names) > most else "") or "none"


def cell(value: object) -> object:
    """Guard a text cell of a CSV file against being taken for a formula.

    An apostrophe goes in front of a text that begins, after any apostrophes, with a formula's
    first character. So taking one apostrophe away from such a text gives back every name exactly.
    """
    if isinstance(value, str) and value.lstrip("'").startswith(_FORMULA_STARTS):
        return "'" + value
    return value
