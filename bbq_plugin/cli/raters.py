"""`bbq raters`: whom to keep, to watch, to exclude, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bbq_plugin.cli import fitting
from bbq_plugin.cli.framing import framed
from bbq_plugin.cli.group import Command
from bbq_plugin.cli.output import chosen_format, emit, output_options, show, width_of, working
from bbq_plugin.cli.reading import Input, reading_options
from bbq_plugin.cli.types import Probability
from bbq_plugin.errors import UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType


@click.command(cls=Command)
@fitting.options(fitting.priors_option, fitting.level_option)
@click.option(
    "--false-rate",
    type=Probability(),
    default=0.05,
    show_default=True,
    help="Share of honest raters to expect among the excluded, at most.",
)
@click.option(
    "--least",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Comparisons a rater must have before exclusion.",
)
@output_options({"table": "for people", "json": "all of it", "csv": "one line a rater"})
@reading_options
def raters(
    source: Input,
    priors: str | None,
    level: float,
    false_rate: float,
    least: int,
    output_format: str | None,
    output: Path | None,
) -> None:
    """Report whom to keep, to watch and to exclude.

    Each rater of FILES gets a verdict with reasons, beside quality, agreement with the ranking,
    left rate and median time.
    """
    from bbq_plugin import report
    from bbq_plugin.report.document import distinct

    chosen = chosen_format(output_format, output, "table", "json", "csv")
    origin = source.origin()
    data = source.read()
    if not data.has_raters:
        raise UnsupportedError("these data name no raters, so there is nothing to say of them")
    fit = fitting.fitted(data, "bbq", priors)
    with working("Judging"):
        from bbq_plugin.insight import rater_report

        found = rater_report(fit, level, false_rate=false_rate, least=least)
    if chosen == "json":
        document = report.raters_dict(data, fit, found, origin, level=level)
        emit(report.report_json(document), output)
    elif chosen == "csv":
        emit(report.rows_csv(found), output)
    else:
        width = width_of(output)
        counts = report.verdict_counts(found)
        tables: list[RenderableType] = [
            ", ".join(f"{verdict} {n:,}" for verdict, n in counts.items()),
            report.raters_table(found, width=width),
            *report.reason_lines(found, width=width),
        ]
        warnings = distinct(data.warnings, fit.warnings, found.warnings)
        show(framed(fit, origin, warnings, tables), output)
