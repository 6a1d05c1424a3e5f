"""`bbq evaluate`: how stable the models' rankings are on these data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bbq_plugin.cli import options as fitting
from bbq_plugin.cli.inputs import Input, reading_options
from bbq_plugin.cli.main import Command
from bbq_plugin.cli.options import Choice
from bbq_plugin.cli.output import chosen_format, emit, framed, progress, show
from bbq_plugin.config import KEYS_BY_NAME
from bbq_plugin.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


@click.command(cls=Command)
@click.option(
    "--resamples",
    type=click.IntRange(2),
    default=200,
    show_default=True,
    help="How many resamples of the raters to draw; the paper has 10000.",
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
@fitting.option_of(
    "camps",
    default=1,
    help="How many rankings the panel has, for --model bbq: auto, or a number up to 6. "
    "The other models have one.",
)
@fitting.output_options({"table": "for people", "json": "all of it", "csv": "one line per model"})
@reading_options
def evaluate(
    source: Input,
    resamples: int,
    models: tuple[str, ...],
    priors: Any,
    camps: Any,
    output_format: str | None,
    output: Path | None,
) -> None:
    """Measure how stable the ranking of each model is.

    The raters of FILES are resampled with replacement, each model is fitted again, and its ranking
    is compared with the ranking on all data: by Kendall's tau, and by whether the same item is
    best.
    """
    chosen = chosen_format(output_format, output, "table", "json", "csv")
    data = source.read()
    if not data.has_raters:
        raise UnsupportedError(
            "these data have no rater names; evaluate resamples the raters, so it needs them"
        )
    if camps not in ("auto", 1) and "bbq" not in models:
        raise UsageError(f"--camps {camps} is for --model bbq; add that, or leave --camps out")
    fits = [
        fitting.fitted(
            data,
            model=model,
            priors=None if model in ("crowd-bt", "bbq-signed") else priors,
            camps=camps if model == "bbq" else 1,
            # The same for all models: the others know no other.
            ties="half",
        )
        for model in dict.fromkeys(models)
    ]
    from bbq_plugin.analysis.stability import stability

    with progress("Resampling", resamples * len(fits)) as update:
        found = stability(fits, resamples, source.seed, advance=lambda n: update(advance=n))
    from bbq_plugin.report.documents import distinct, report_json, rows_csv, stability_dict
    from bbq_plugin.report.terminal_tables import stability_table

    origin = source.origin()
    if chosen == "json":
        emit(report_json(stability_dict(data, found, origin)), output)
    elif chosen == "csv":
        emit(rows_csv(found), output)
    else:
        tables = [stability_table(found)]
        show(framed(fits[0], origin, distinct(data.warnings, fits[0].warnings), tables), output)
