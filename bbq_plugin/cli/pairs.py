"""`bbq pairs`: what to compare next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bbq_plugin.cli import options as fitting
from bbq_plugin.cli.inputs import Input, reading_options
from bbq_plugin.cli.main import Command
from bbq_plugin.cli.options import Choice
from bbq_plugin.cli.output import chosen_format, emit, framed, show, tell, width_of, working
from bbq_plugin.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from bbq_plugin.data.dataset import Comparisons


@click.command(cls=Command)
@fitting.options_of("model", "priors", "camps", "ties", "cluster", "repeats", "false_rate", "least")
@fitting.before_option
@click.option(
    "-n",
    "--number",
    "n",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="How many pairs.",
)
@click.option(
    "--goal",
    type=Choice(["ranking", "best", "top-k"]),
    help="What to find out: the whole ranking, the best item, or the best K. "
    "Default: ranking; with --top-k, top-k.",
)
@click.option(
    "--top-k", metavar="K", type=click.IntRange(1), help="How many items count as the best."
)
@fitting.for_camp_option
@click.option("--among", metavar="ITEM", multiple=True, help="Only these items. Repeatable.")
@click.option(
    "--rater",
    "raters",
    metavar="NAME",
    multiple=True,
    help="A rater who is available. Each pair is then assigned to one of them, but to none that "
    "'bbq raters' with the same --false-rate, --least and --before excludes. Repeatable.",
)
@click.option("--all-raters", is_flag=True, help="All raters of FILES are available.")
@click.option(
    "--item-keys",
    metavar="LEFT,RIGHT",
    default="model_left,model_right",
    show_default=True,
    help="Keys of the task data for the names of the items (--format label-studio); one key "
    "alone is a list.",
)
@click.option(
    "--rater-key", metavar="KEY", help="Key of the task data for the rater (label-studio)."
)
@click.option(
    "--scores",
    is_flag=True,
    help="Add predictions whose scores order the tasks, lowest first (label-studio).",
)
@fitting.output_options(
    {
        "table": "for people",
        "json": "all of it",
        "csv": "one line per pair",
        "label-studio": "tasks to import",
    }
)
@fitting.all_option
@reading_options
def pairs(
    source: Input,
    model: Any,
    priors: Any,
    camps: Any,
    ties: Any,
    cluster: Any,
    repeats: Any,
    false_rate: float,
    least: int,
    before: Path | None,
    n: int,
    goal: Any,
    top_k: int | None,
    for_camp: int | None,
    among: tuple[str, ...],
    raters: tuple[str, ...],
    all_raters: bool,  # noqa: FBT001 (click passes by keyword)
    item_keys: str,
    rater_key: str | None,
    scores: bool,  # noqa: FBT001
    output_format: str | None,
    output: Path | None,
    show_all: bool,  # noqa: FBT001
) -> None:
    """List the pairs to compare next.

    These are the pairs of items in FILES with the most expected information, given the quality of
    the raters. Each item is on the left and on the right about equally often.
    """
    chosen = chosen_format(output_format, output, "table", "json", "csv", "label-studio")
    if chosen != "label-studio" and (rater_key is not None or scores):
        raise UsageError("--rater-key and --scores are for --format label-studio")
    for option, given in (("--rater-key", rater_key), ("--before", before)):
        if given is not None and not (raters or all_raters):
            raise UsageError(
                f"{option} needs the raters who are available; add --rater NAME or --all-raters"
            )
    if goal == "top-k" and top_k is None:
        raise UsageError("--goal top-k does not say how many are the best; add --top-k K")
    if goal not in (None, "top-k") and top_k is not None:
        raise UsageError(
            f"--top-k is for --goal top-k, not for --goal {goal}; leave one of them out"
        )
    data = source.read(cluster)
    available = _available(source, data, raters, everyone=all_raters)
    more = {"camps": camps, "ties": ties, "cluster": cluster, "repeats": repeats}
    fit = fitting.fitted(data, model=model, priors=priors, **more)
    excluded, gone = fitting.excluded_before(source, data, before)
    with working("Choosing"):
        from bbq_plugin.analysis import Analysis, Limits

        limits = Limits(false_rate=false_rate, least=least, seed=source.seed)
        words = fitting.lead_words(source)
        found = Analysis(fit, limits, excluded, words=words).pairs(
            n,
            goal=goal or ("ranking" if top_k is None else "top-k"),
            top_k=top_k,
            among=among or None,
            raters=available,
            camp=for_camp,
        )
    from bbq_plugin.report.documents import distinct, pairs_dict, report_json, rows_csv
    from bbq_plugin.report.terminal_tables import MOST_ROWS, pairs_table

    origin = source.origin()
    if gone:
        found.warnings = (gone, *found.warnings)
    warnings = distinct(data.warnings, fit.warnings, found.warnings)
    if chosen == "json":
        emit(report_json(pairs_dict(fit, found, origin)), output)
    elif chosen == "csv":
        emit(rows_csv(found), output)
        tell(*warnings, what="Warning")
    elif chosen == "label-studio":
        from bbq_plugin.analysis import prediction_scores
        from bbq_plugin.plugins import tool
        from bbq_plugin.protocols import PairTasks

        shown = [(row.left, row.right) for row in found]
        asked = PairTasks(
            shown,
            item_keys.split(","),
            rater_key=rater_key,
            raters=[row.rater for row in found],
            scores=prediction_scores(found, shown) if scores else None,
        )
        emit(tool(chosen).import_tasks(asked), output)
        tell(*warnings, what="Warning")
    else:
        limit = None if show_all else MOST_ROWS
        tables = [pairs_table(found, limit=limit, width=width_of(output))]
        show(framed(fit, origin, warnings, tables), output)


def _available(
    source: Input, data: Comparisons, named: tuple[str, ...], *, everyone: bool
) -> list[str] | None:
    """The raters to choose from, under the names that the data have here."""
    if everyone and not data.has_raters:
        raise UsageError("--all-raters: these data have no rater names; give them with --rater")
    if not (named or everyone):
        return None
    return [*map(source.rater_name, named), *(data.raters if everyone else ())]
