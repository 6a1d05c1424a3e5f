"""`bbq evaluate`: how stable the models' rankings are on these data."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from bbq_plugin.cli import options as fitting
from bbq_plugin.cli.inputs import Input, reading_options
from bbq_plugin.cli.main import Command
from bbq_plugin.cli.options import Choice
from bbq_plugin.cli.output import chosen_format, emit, framed, show
from bbq_plugin.config import KEYS_BY_NAME
from bbq_plugin.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@click.command(cls=Command)
@click.option(
    "--resamples",
    type=click.IntRange(2),
    default=200,
    show_default=True,
    help="How often raters are drawn anew; the paper has 10000.",
)
@click.option(
    "--model",
    "models",
    type=Choice(KEYS_BY_NAME["model"].words),
    multiple=True,
    default=("bbq", "bayes-bt", "crowd-bt"),
    help="Only this model. Repeatable. Default: bbq, bayes-bt and crowd-bt.",
)
@fitting.option_of("priors", default="paper", show_default=True)
@fitting.output_options({"table": "for people", "json": "all of it", "csv": "one line a model"})
@reading_options
def evaluate(
    source: Input,
    resamples: int,
    models: tuple[str, ...],
    priors: Any,
    output_format: str | None,
    output: Path | None,
) -> None:
    """Measure how stable the models' rankings are.

    The raters of FILES are drawn with replacement, the model is fitted again, and its ranking is
    compared with that of all data: Kendall's tau, and whether the same item comes first.
    """
    chosen = chosen_format(output_format, output, "table", "json", "csv")
    data = source.read()
    if not data.has_raters:
        raise UnsupportedError("the raters are drawn anew, and these data name no raters")
    fits = [
        fitting.fitted(data, model, None if model in ("crowd-bt", "bbq-signed") else priors)
        for model in dict.fromkeys(models)
    ]
    from bbq_plugin.analysis.stability import stability

    with _progress(resamples * len(fits)) as advance:
        found = stability(fits, resamples, source.seed, advance=advance)
    from bbq_plugin.report.csv import rows_csv
    from bbq_plugin.report.json import distinct, report_json, stability_dict
    from bbq_plugin.report.tables import stability_table

    origin = source.origin()
    if chosen == "json":
        emit(report_json(stability_dict(data, found, origin)), output)
    elif chosen == "csv":
        emit(rows_csv(found), output)
    else:
        tables = [stability_table(found)]
        show(framed(fits[0], origin, distinct(data.warnings, fits[0].warnings), tables), output)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], object]]:
    """A bar on a terminal; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("Resampling", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda n: bar.advance(task, n)
