"""`bbq evaluate`: how stable the models' rankings are on these data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bbq_plugin.cli import options as fitting
from bbq_plugin.cli.inputs import Input, reading_options
from bbq_plugin.cli.main import Command
from bbq_plugin.cli.options import Choice
from bbq_plugin.cli.output import chosen_format, emit, framed, progress, show, tell, working
from bbq_plugin.config import KEYS_BY_NAME
from bbq_plugin.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType


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
@click.option(
    "--more",
    "more",
    type=click.IntRange(1),
    multiple=True,
    metavar="N",
    help="Forecast what N more raters would bring. Repeatable. Default: a quarter, half, once and "
    "twice as many as there are.",
)
@click.option(
    "--by",
    metavar="TAG",
    help="Show quality against agreement for each value of this tag, such as screened or country.",
)
@fitting.output_options(
    {
        "table": "for people",
        "json": "all of it",
        "csv": "one line per model",
        "html": "a page with all charts",
    }
)
@click.option(
    "--charts",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the charts as files, for a paper.",
)
@reading_options
def evaluate(
    source: Input,
    resamples: int,
    models: tuple[str, ...],
    priors: Any,
    camps: Any,
    more: tuple[int, ...],
    by: str | None,
    output_format: str | None,
    output: Path | None,
    charts: Path | None,
) -> None:
    """Measure how stable the ranking of each model is.

    The raters of FILES are resampled with replacement, each model is fitted again, and its ranking
    is compared with the ranking on all data: by Kendall's tau, and by whether the same item is
    best. The same for fewer raters and for fewer comparisons of each; under other priors; and a
    forecast for more raters.
    """
    chosen = chosen_format(output_format, output, "table", "json", "csv", "html")
    data = source.read(() if by is None else (by,))
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
    from bbq_plugin.analysis.evaluation import SIZES, evaluation

    steps = (resamples + 2 * SIZES) * len(fits)
    with progress("Resampling", steps) as update:
        found = evaluation(
            fits, resamples, source.seed, group=by, more=more,
            advance=lambda n: update(advance=n),
        )  # fmt: skip
    from bbq_plugin.report.documents import distinct, evaluation_dict, report_json, rows_csv
    from bbq_plugin.report.summary import evaluation_lines
    from bbq_plugin.report.terminal_tables import stability_table

    origin = source.origin()
    if chosen == "json":
        emit(report_json(evaluation_dict(data, found, origin)), output)
    elif chosen == "csv":
        emit(rows_csv(found.stability), output)
    elif chosen == "html":
        from bbq_plugin.report.html_report import evaluation_html

        with working("Drawing"):
            page = evaluation_html(found, data, origin.command)
        emit(page, output)
    else:
        tables: list[RenderableType] = [stability_table(found.stability)]
        tables += [line for some in evaluation_lines(found).values() for line in some]
        show(framed(fits[0], origin, distinct(data.warnings, fits[0].warnings), tables), output)
    if charts is not None:
        from bbq_plugin.report.charts import evaluation_specs, write_specs

        with working("Drawing"):
            write_specs(
                charts, {name: spec(narrow=False) for name, spec in evaluation_specs(found).items()}
            )
        tell(f"the charts are in {charts}")
