"""`bbq raters`: which raters to keep, to watch, to exclude, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bbq_plugin.cli import options as fitting
from bbq_plugin.cli.inputs import Input, reading_options
from bbq_plugin.cli.main import Command
from bbq_plugin.cli.output import chosen_format, emit, framed, show, tell, width_of, working
from bbq_plugin.config import JUDGED_MODEL
from bbq_plugin.errors import UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType


@click.command(cls=Command)
@fitting.option_of(JUDGED_MODEL)
@fitting.options_of("priors", "level", "false_rate", "least")
@fitting.before_option
@fitting.option_of("threshold")
@fitting.output_options(
    {
        "table": "for people",
        "json": "all of it",
        "csv": "one line per rater",
        "html": "the page of bbq fit, with a page for each excluded rater and 20 of those watched",
    }
)
@fitting.all_option
@reading_options
def raters(
    source: Input,
    model: Any,
    priors: Any,
    level: float,
    false_rate: float,
    least: int,
    threshold: float,
    before: Path | None,
    output_format: str | None,
    output: Path | None,
    show_all: bool,  # noqa: FBT001 (click passes by keyword)
) -> None:
    """Report which raters to keep, to watch and to exclude.

    Each rater of FILES is compared with the ranking of the other raters, and gets a verdict with
    reasons, and quality, agreement, left rate and median time.
    """
    chosen = chosen_format(output_format, output, "table", "json", "csv", "html")
    data = source.read()
    if not data.has_raters:
        raise UnsupportedError("these data have no rater names, so no rater can be judged")
    excluded, gone = fitting.excluded_before(source, data, before)
    fit = fitting.fitted(data, model, priors)
    with working("Judging"):
        from bbq_plugin.analysis import Analysis, Limits

        limits = Limits(level, false_rate, least, threshold, seed=source.seed)
        result = Analysis(fit, limits, excluded)
        found = result.raters
    from bbq_plugin.report.documents import (
        distinct,
        raters_dict,
        report_json,
        rows_csv,
        verdict_counts,
    )
    from bbq_plugin.report.tables import (
        MOST_ROWS,
        raters_table,
        reason_lines,
        verdict_lines,
        way_back_lines,
    )

    origin = source.origin()
    if gone:
        found.warnings = (*found.warnings, gone)
    if chosen == "json":
        emit(report_json(raters_dict(result, origin)), output)
    elif chosen == "csv":
        emit(rows_csv(found), output)
        tell(*found.warnings, what="Warning")
    elif chosen == "html":
        from bbq_plugin.cli.fit import report_page

        emit(report_page(result, origin, "Raters"), output)
    else:
        width, limit = width_of(output), None if show_all else MOST_ROWS
        counts = verdict_counts(found)
        tables: list[RenderableType] = [
            ", ".join(f"{verdict} {n:,}" for verdict, n in counts.items()),
            found.rule,
            *verdict_lines(found),
            raters_table(found, limit, width=width),
            *reason_lines(found, limit, width=width),
            *way_back_lines(found, limit),
        ]
        warnings = distinct(data.warnings, fit.warnings, found.warnings)
        show(framed(fit, origin, warnings, tables), output)
