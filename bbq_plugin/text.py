"""Text that people read: untrusted names made harmless, and numbers written one way everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from math import isfinite, isnan

# A spreadsheet runs a cell that begins with one of these.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def plain(text: str) -> str:
    """Show control, direction and other invisible characters as escapes, e.g. \\x1b."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


#: The longest name that a table or a sentence on the terminal shows whole.
LONGEST_SHOWN = 120


def short_name(name: str) -> str:
    """A name for the terminal: plain, and cut where it would fill the screen."""
    return plain(name if len(name) <= LONGEST_SHOWN else name[: LONGEST_SHOWN - 1] + "…")


def name_text(value: str | float) -> str:
    """A name as text; whole numbers without the `.0` that a column with gaps gives them."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def moment(at: float) -> str:
    """Seconds since 1970 as a date and time."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def counted(n: int, what: str) -> str:
    """Say how many: 1 rater, 2 raters."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def listed(names: Iterable[str], most: int = 20) -> str:
    """Name the first ones of some names: `a, b, c …`, or `none`."""
    names = list(names)
    return ", ".join(names[:most]) + (" …" if len(names) > most else "") or "none"


def brief(value: object, most: int = 60) -> str:
    """A value in a message, cut off where it is long."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"


def cell(value: object) -> object:
    """Guard a text cell of a CSV file against being taken for a formula.

    An apostrophe goes in front of a text that begins, after any apostrophes, with a formula's
    first character. So taking one apostrophe away from such a text gives back every name exactly.
    """
    if isinstance(value, str) and value.lstrip("'").startswith(_FORMULA_STARTS):
        return "'" + value
    return value


def unguarded(text: str) -> str:
    """The text of a cell that `cell` may have guarded."""
    return text[1:] if text.startswith("'") and cell(text) != text else text


#: Shown in place of a number that is not known.
UNKNOWN = "–"


def number(value: float | None, digits: int = 0) -> str:
    """With commas between thousands and a typographic minus; never a negative zero."""
    if value is None or isnan(value):
        return UNKNOWN
    if not isfinite(value):
        return "∞"
    text = f"{value:,.{digits}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text.replace("-", "−")


def signed(value: float, digits: int = 0) -> str:
    """A number with its sign, + as well."""
    text = number(value, digits)
    return f"+{text}" if value > 0 else text


def count(value: float) -> str:
    """A number of comparisons: whole, or with one digit where ties or weights are fractions."""
    return number(value, 0 if isnan(value) or float(value).is_integer() else 1)


def needed(value: float) -> str:
    """A forecast number of comparisons, to two digits."""
    if not isfinite(value):
        return "out of reach"
    if value < 100:
        return f"{value:.0f}"
    digits = 10 ** (len(f"{value:.0f}") - 2)
    return f"{round(value / digits) * digits:,.0f}"


def share(value: float | None, digits: int = 0) -> str:
    """A share as a percentage."""
    return UNKNOWN if value is None or isnan(value) else f"{100 * value:.{digits}f}%"


def chance(p: float) -> str:
    """A probability as a percentage; no estimate is shown as 0% or 100%."""
    if p <= 0.005:  # 0.5 would round to 0
        return "<1%"
    return ">99%" if p >= 0.995 else f"{p:.0%}"


def odds(p: float, digits: int = 3) -> str:
    """A probability as a decimal; no estimate is shown as 0 or 1."""
    least = 10.0**-digits
    if p >= 1 - least / 2:
        return f"> {1 - least:.{digits}f}"
    return f"< {least:.{digits}f}" if p < least / 2 else number(p, digits)


def p_equals(p: float, digits: int = 2) -> str:
    """What follows the letter P in a sentence: `= 0.93`, or `> 0.99`."""
    text = odds(p, digits)
    return text if text[0] in "<>" else f"= {text}"


def span(lower: float, upper: float, digits: int = 0) -> str:
    """Both ends of an interval."""
    if isnan(lower) or isnan(upper):
        return UNKNOWN
    return f"{number(lower, digits)} – {number(upper, digits)}"


def share_span(lower: float, upper: float) -> str:
    """Both ends of an interval of probabilities, as percentages."""
    if isnan(lower) or isnan(upper):
        return UNKNOWN
    return f"{chance(lower).removesuffix('%')}–{chance(upper)}"


def ranks(best: int, worst: int) -> str:
    """The ranks that are possible."""
    return f"{best}" if best == worst else f"{best}–{worst}"


def level_text(level: float) -> str:
    """A confidence level: 95%, or 99.9%."""
    return f"{100 * level:.4g}%"


def capital(text: str) -> str:
    """The text with its first letter as a capital."""
    return text[:1].upper() + text[1:]


#: Rows of a table in a notebook.
MOST_HTML_ROWS = 30


def html_table(
    title: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    n_rows: int,
    *,
    words: Sequence[str] = (),
) -> str:
    """A short table for a notebook, every text escaped.

    Columns whose heads are among `words` are aligned to the left. `rows` are the first ones of
    `n_rows`, and no more than MOST_HTML_ROWS.
    """
    # No colours: those of the notebook, light or dark, are right.
    styles = [
        f"padding:.1em .7em;text-align:{'left' if head in words else 'right'}" for head in heads
    ]
    head = "".join(
        f'<th scope="col" style="{style}">{_html(text)}</th>'
        for style, text in zip(styles, heads, strict=True)
    )
    shown = [
        "".join(
            f'<td style="{style}">{_html(text)}</td>'
            for style, text in zip(styles, row, strict=True)
        )
        for row in rows
    ]
    body = "".join(f"<tr>{row}</tr>" for row in shown)
    more = n_rows - len(shown)
    rest = f"<p>… and {counted(more, 'more row')}</p>" if more > 0 else ""
    return (
        f"<table><caption>{_html(title)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"
    )


def html_notes(notes: Iterable[str]) -> str:
    """Warnings below a table."""
    found = "".join(f"<li>{_html(note)}</li>" for note in notes)
    return f"<ul>{found}</ul>" if found else ""


def _html(text: str) -> str:
    return escape(plain(text))


def unit_text(covariate: str, unit: float) -> str:
    """What the effect of a covariate is for."""
    return "left, not right" if covariate == "side" else f"{unit:.4g} more (root mean square)"
