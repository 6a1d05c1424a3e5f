"""The templates of the report and of the live page: their environment and filters."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import jinja2
from markupsafe import Markup, escape

from bbq_plugin import text
from bbq_plugin.report.summary import Name

if TYPE_CHECKING:
    from bbq_plugin.report.summary import Sentence

LONGEST_NAME = 60
LONGEST_TITLE = 400


def environment(*packages: str) -> jinja2.Environment:
    """The templates of these packages, the first that has one; every value is escaped."""
    env = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package) for package in packages]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    env.filters.update(
        name=show_name, sentence=show_sentence, moment=show_time, query=urlencode,
        plain=text.plain, capital=text.capital, number=text.number, count=text.count,
        needed=text.needed, share=text.share, chance=text.chance, odds=text.odds,
    )  # fmt: skip
    env.globals.update(
        signed=text.signed, span=text.span, share_span=text.share_span, ranks=text.ranks
    )
    return env


def show_name(name: str, longest: int = LONGEST_NAME) -> Markup:
    """A name, isolated from the text direction around it; a long one is cut and has a title."""
    whole = text.plain(name)
    if len(whole) <= longest:
        return Markup("<bdi>{}</bdi>").format(whole)
    title = whole if len(whole) <= LONGEST_TITLE else whole[: LONGEST_TITLE - 1] + "…"
    return Markup('<bdi title="{}">{}…</bdi>').format(title, whole[: longest - 1])


def show_sentence(sentence: Sentence) -> Markup:
    """Words as they are, names in bold."""
    return Markup("").join(
        Markup("<b>{}</b>").format(show_name(part)) if isinstance(part, Name) else escape(part)
        for part in sentence
    )


def show_time(at: float | None) -> str:
    """Seconds since 1970 as a date and time in UTC."""
    if at is None:
        return text.UNKNOWN
    try:
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, OSError, ValueError):
        return text.UNKNOWN
