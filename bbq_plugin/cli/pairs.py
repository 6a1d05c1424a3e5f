"""`bbq pairs`: what to compare next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bbq_plugin.cli import fitting
from bbq_plugin.cli.framing import framed
from bbq_plugin.cli.group import Command
from bbq_plugin.cli.output import chosen_format, emit, output_options, show, width_of, working
from bbq_plugin.cli.reading import Input, reading_options

if TYPE_CHECKING:
    from pathlib import Path


@click.command(cls=Command)
@fitting.options(fitting.model_option, fitting.priors_option)
@click.option(
    "-n",
    "--number",
    "n",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="How many pairs.",
)
@click.option("--among", metavar="ITEM", multiple=True, help="Only these items. Repeatable.")
@output_options({"table": "for people", "json": "all of it", "csv": "one line a pair"})
@reading_options
def pairs(
    source: Input,
    model: Any,
    priors: str | None,
    n: int,
    among: tuple[str, ...],
    output_format: str | None,
    output: Path | None,
) -> None:
    """List what to compare next.

    These are the pairs of items in FILES whose comparison, by a rater of average quality, is
    expected to tell most about the ranking.
    """
    from bbq_plugin import report
    from bbq_plugin.report.document import distinct

    chosen = chosen_format(output_format, output, "table", "json", "csv")
    origin = source.origin()
    data = source.read()
    fit = fitting.fitted(data, model, priors)
    with working("Choosing"):
        from bbq_plugin.insight import next_pairs

        found = next_pairs(fit, n, among=among or None)
    if chosen == "json":
        emit(report.report_json(report.pairs_dict(data, fit, found, origin)), output)
    elif chosen == "csv":
        emit(report.rows_csv(found), output)
    else:
        tables = [report.pairs_table(found, width=width_of(output))]
        warnings = distinct(data.warnings, fit.warnings, found.warnings)
        show(framed(fit, origin, warnings, tables), output)
