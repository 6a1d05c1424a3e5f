"""When to stop, in sentences and as a section of a page."""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf
from typing import TYPE_CHECKING

from bbq_plugin.report.answer import Sentence, chance, level_text, name

if TYPE_CHECKING:
    from bbq_plugin.insight.forecast import Milestone
    from bbq_plugin.insight.stopping import HeadToHead, Stopping

__all__ = [
    "StopSection",
    "for_good",
    "more_text",
    "question_text",
    "stop_section",
    "stopping_lines",
]


@dataclass(frozen=True)
class StopSection:
    """What stop.html.j2 shows: the forecast by question, the rule in a sentence, its pairs."""

    forecast: list[tuple[str, Milestone]]
    no_forecast: str
    for_good: Sentence
    pairs: tuple[HeadToHead, ...]


def stop_section(stop: Stopping) -> StopSection:
    """When to stop, for the report and the live page."""
    asked = [(question_text(row), row) for row in stop.milestones]
    return StopSection(asked, stop.no_forecast, for_good(stop), stop.pairs)


def stopping_lines(stop: Stopping) -> list[str]:
    """A line for each question, and one on what is settled however often someone looks."""
    lines = []
    if stop.milestones:
        lines.append(f"When to stop ({level_text(stop.level)}), as a forecast with an even chance:")
        lines += [f"  {question_text(row)}: {_forecast(row)}" for row in stop.milestones]
    elif stop.no_forecast:
        lines.append(f"When to stop: {stop.no_forecast}")
    return [*lines, "".join(for_good(stop))]


def for_good(stop: Stopping) -> Sentence:
    """What the rule says that holds at all times."""
    pairs = "pair" if stop.compared == 1 else "pairs"
    told = f"{stop.settled:,} of {stop.compared:,} {pairs} told apart by their own votes"
    begin = f"However often you look ({level_text(stop.level)}): {told}; "
    if stop.best is None:
        return (f"{begin}no item is the best of all yet.",)
    return (begin, name(stop.best), " is best.")


def question_text(row: Milestone) -> str:
    """The question in words."""
    if row.question == "top-k":
        return f"the best {row.top_k}"
    return {"best": "the best item", "neighbours": "every pair of neighbours"}[row.question]


def more_text(n: float) -> str:
    """A number of comparisons."""
    return "out of reach" if isinf(n) else f"{n:,.0f}"


def _forecast(row: Milestone) -> str:
    if row.known:
        return f"reached, P {chance(row.probability)}"
    if isinf(row.more) and isinf(row.chosen):
        return "out of reach"
    so_far = "out of reach as so far" if isinf(row.more) else f"{row.more:,.0f} more as so far"
    return f"{so_far}, {more_text(row.chosen)} if each pair is chosen"
