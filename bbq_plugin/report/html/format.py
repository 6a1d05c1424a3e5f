"""Numbers and names as the page shows them."""

from __future__ import annotations

from math import isfinite, isnan

from markupsafe import Markup, escape

from bbq_plugin.report.summary import Name, Sentence
from bbq_plugin.text import plain

__all__ = [
    "FILTERS",
    "number",
    "share",
    "span",
]

UNKNOWN = "–"

LONGEST_NAME = 60

LONGEST_TITLE = 400


def number(value: float, digits: int = 0) -> str:
    """With thousands set apart, and a real minus."""
    if isnan(value):
        return UNKNOWN
    if not isfinite(value):
        return "∞"
    text = f"{value:,.{digits}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text.replace("-", "−")


def count(value: float) -> str:
    """A number of comparisons: whole, or with a half where ties or weights make one."""
    return number(value, 0 if isnan(value) or float(value).is_integer() else 1)


def needed(value: float) -> str:
    """Comparisons still to be made, no more exact than an approximation is."""
    if not isfinite(value):
        return "out of reach"
    if value < 100:
        return f"{value:.0f}"
    digits = 10 ** (len(f"{value:.0f}") - 2)
    return f"{round(value / digits) * digits:,.0f}"


def share(value: float, digits: int = 0) -> str:
    """A share as a percentage."""
    return UNKNOWN if isnan(value) else f"{100 * value:.{digits}f}%"


def chance(p: float) -> str:
    """A probability as a percentage; nothing estimated is certain."""
    if p < 0.005:
        return "<1%"
    return ">99%" if p >= 0.995 else f"{p:.0%}"


def span(lower: float, upper: float, digits: int = 0) -> str:
    """Both ends of an interval."""
    if isnan(lower) or isnan(upper):
        return UNKNOWN
    return f"{number(lower, digits)} – {number(upper, digits)}"


def ranks(best: int, worst: int) -> str:
    """The ranks that cannot be ruled out."""
    return f"{best}" if best == worst else f"{best}–{worst}"


def show_name(text: str, longest: int = LONGEST_NAME) -> Markup:
    """A name, set apart from the direction of the text around it; cut, with the whole as title."""
    whole = plain(text)
    if len(whole) <= longest:
        return Markup("<bdi>{}</bdi>").format(whole)
    title = whole if len(whole) <= LONGEST_TITLE else whole[: LONGEST_TITLE - 1] + "…"
    return Markup('<bdi title="{}">{}…</bdi>').format(title, whole[: longest - 1])


def show_sentence(sentence: Sentence) -> Markup:
    """Words as they are, names as names."""
    return Markup("").join(
        Markup("<b>{}</b>").format(show_name(part)) if isinstance(part, Name) else escape(part)
        for part in sentence
    )


def odds(p: float) -> str:
    """A probability in three digits; nothing estimated is certain."""
    if p >= 0.9995:
        return "> 0.999"
    return "< 0.001" if p < 0.0005 else number(p, 3)


def capital(text: str) -> str:
    """A sentence begins with a capital; the rest stays as it is."""
    return text[:1].upper() + text[1:]


FILTERS = {
    "odds": odds,
    "capital": capital,
    "number": number,
    "count": count,
    "needed": needed,
    "share": share,
    "chance": chance,
    "name": show_name,
    "sentence": show_sentence,
    "plain": plain,
}
