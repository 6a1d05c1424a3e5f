"""`bbq fit` and `bbq raters`: the leaderboard and the raters, on a terminal or as a file."""

from __future__ import annotations

import re
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bbq_plugin.cli import options as fitting
from bbq_plugin.cli.inputs import Input, reading_options
from bbq_plugin.cli.main import Command
from bbq_plugin.cli.output import chosen_format, emit, framed, show, tell, width_of, working
from bbq_plugin.config import JUDGED_MODEL
from bbq_plugin.errors import UnsupportedError, UsageError
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from bbq_plugin.analysis import Analysis
    from bbq_plugin.data.dataset import Comparisons
    from bbq_plugin.report.documents import Origin

# More raters than this on a screen are noise; the JSON report has all of them.
RATERS_SHOWN = 15


@click.command(cls=Command)
@fitting.options_of("model", "solver", "priors", "intervals", "level", "scale")
@click.option(
    "--top-k",
    metavar="K",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Forecast when the best K items will be known.",
)
@click.option("--by", metavar="TAG", help="One leaderboard for each value of this tag.")
@fitting.output_options(
    {
        "table": "for people",
        "json": "the whole report",
        "csv": "the leaderboard",
        "html": "a page to send and print",
    }
)
@fitting.all_option
@click.option(
    "--charts",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the charts as files, for a paper.",
)
@reading_options
def fit(
    source: Input,
    by: str | None,
    output_format: str | None,
    output: Path | None,
    show_all: bool,  # noqa: FBT001 (click passes by keyword)
    charts: Path | None,
    **options: Any,
) -> None:
    """Fit and print leaderboard and raters.

    FILES are fitted together. They may be patterns; - is standard input.
    """
    chosen = chosen_format(output_format, output, "table", "json", "csv", "html")
    if chosen == "html" and by is not None and output is None:
        raise UsageError("with --by a page is written for each value; name it with -o report.html")
    fitting.check_intervals(options["model"], options["intervals"])
    groups = {"": source.read()} if by is None else source.read_by(by)
    origin = source.origin()
    results = {value: _analysed(source, data, **options) for value, data in groups.items()}
    if by is None:
        _print_one(results[""], chosen, output, origin, show_all=show_all)
    else:
        _print_groups(by, results, chosen, output, origin, show_all=show_all)
    if charts is not None:
        for value, result in results.items():
            _write_charts(charts / file_part(value) if value else charts, result)


def _analysed(
    source: Input,
    data: Comparisons,
    *,
    model: Any,
    solver: Any,
    priors: str | None,
    intervals: Any,
    level: float,
    scale: Any,
    top_k: int,
) -> Analysis:
    fitted = fitting.fitted(data, model, priors, solver)
    excluded, _ = fitting.excluded_before(source, data, None)
    with working("Computing intervals"):
        from bbq_plugin.analysis import Analysis, Limits

        limits = Limits(level, intervals=intervals, scale=scale, top_k=top_k, seed=source.seed)
        result = Analysis(fitted, limits, excluded)
        # Here, where the user is told what takes the time.
        _ = result.leaderboard, result.raters
    with working("Looking ahead"):
        _ = result.stopping.forecast.milestones
    return result


def _print_one(
    result: Analysis, chosen: str, output: Path | None, origin: Origin, *, show_all: bool
) -> None:
    from bbq_plugin.report.documents import report_dict, report_json, rows_csv

    if chosen == "json":
        emit(report_json(report_dict(result, origin)), output)
    elif chosen == "csv":
        emit(rows_csv(result.leaderboard), output)
    elif chosen == "html":
        emit(_page(result, origin), output)
    else:
        show(_tables(result, origin, width_of(output), show_all=show_all), output)


def _print_groups(
    tag: str,
    results: dict[str, Analysis],
    chosen: str,
    output: Path | None,
    origin: Origin,
    *,
    show_all: bool,
) -> None:
    from bbq_plugin.report.documents import grouped_csv, groups_dict, report_dict, report_json

    if chosen == "json":
        documents = {value: report_dict(result, origin) for value, result in results.items()}
        emit(report_json(groups_dict(tag, documents, origin)), output)
    elif chosen == "csv":
        boards = {value: result.leaderboard for value, result in results.items()}
        emit(grouped_csv(boards), output)
    elif chosen == "html" and output is not None:
        for value, result in results.items():
            page = output.with_stem(f"{output.stem}-{file_part(value)}")
            emit(_page(result, origin, f"{tag}: {value}"), page)
            tell(f"{tag} = {value} is in {page}")
    else:
        parts = (
            part
            for value, result in results.items()
            for part in _tables(
                result, origin, width_of(output), f"{tag}: {value}", show_all=show_all
            )
        )
        show(parts, output)


def _tables(
    result: Analysis, origin: Origin, width: int, heading: str | None = None, *, show_all: bool
) -> Iterator[RenderableType]:
    from rich.text import Text

    from bbq_plugin.report.documents import all_warnings
    from bbq_plugin.report.summary import stopping_lines
    from bbq_plugin.report.tables import MOST_ROWS, leaderboard_table, raters_table, reason_lines

    if heading is not None:
        yield Text(f"\n{plain(heading)}", style="bold")
    board, raters = result.leaderboard, result.raters
    most_items, most_raters = (None, None) if show_all else (MOST_ROWS, RATERS_SHOWN)
    tables: list[RenderableType] = [leaderboard_table(board, limit=most_items, width=width)]
    tables += stopping_lines(result.stopping)
    if result.fit.rated:
        tables.append(raters_table(raters, most_raters, width=width))
        tables += reason_lines(raters, most_raters, width=width)
    yield from framed(result.fit, origin, all_warnings(result), tables)


def _page(result: Analysis, origin: Origin, title: str | None = None) -> str:
    """The report as one HTML file."""
    from bbq_plugin.report.html import report_html

    with working("Drawing"):
        return report_html(result, title=title, command=origin.command)


def _write_charts(folder: Path, result: Analysis) -> None:
    from bbq_plugin.report.charts import write_charts

    folder.mkdir(parents=True, exist_ok=True)
    with working("Drawing"):
        write_charts(folder, result.fit.data, result.fit, result.leaderboard, result.raters)
    tell(f"the charts are in {folder}")


def file_part(value: str) -> str:
    """A tag's value as a part of a file name; a hash keeps changed values distinct."""
    safe = re.sub(r"[^A-Za-z0-9_-]+", "_", value)[:40] or "_"
    if safe == value:
        return safe
    return f"{safe}-{blake2b(value.encode('utf-8'), digest_size=3).hexdigest()}"


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
        emit(_page(result, origin, "Raters"), output)
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
