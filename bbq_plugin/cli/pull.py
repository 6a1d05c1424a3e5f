"""`bbq pull`: answers from a Label Studio server into the store."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from bbq_plugin.cli.main import Command
from bbq_plugin.cli.options import Choice
from bbq_plugin.cli.output import emit, tell
from bbq_plugin.cli.remote import Server, naming_options, server_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bbq_plugin.live.feedback import Pulled

PULL_SCHEMA = "bbq.pull/1"


@click.command(cls=Command)
@server_options
@naming_options
@click.option("--everything", is_flag=True, help="Read all of the project again.")
@click.option("--page-size", type=click.IntRange(1, 10_000), help="Tasks a request.")
@click.option(
    "--format",
    "output_format",
    type=Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="table: for people. json: the numbers.",
)
def pull(
    server: Server,
    naming: dict[str, Any],
    everything: bool,  # noqa: FBT001 (click passes by keyword)
    page_size: int | None,
    output_format: str,
) -> None:
    """Read what is new in a Label Studio project into a store.

    Only tasks that changed since the last time are read, page by page; answers that were edited
    or deleted are edited or deleted in the store. Interrupted, it goes on from its last page.
    Needs the extra label-studio.
    """
    from bbq_plugin.live import feedback as remote
    from bbq_plugin.report import report_json
    from bbq_plugin.store import Store

    with Store(server.store) as store, server.open(store, naming, page_size) as opened:
        project, memory = opened
        with _shown() as progress:
            done = remote.pull(project, memory, everything=everything, progress=progress)
        found = project.describe()
        n = store.counts().n_comparisons
    if output_format == "json":
        document = {
            "schema": PULL_SCHEMA,
            "project": server.project,
            "found": found,
            "n_tasks": done.n_tasks,
            "n_new": done.n_new,
            "n_changed": done.n_changed,
            "n_retracted": done.n_retracted,
            "n_skipped": done.n_skipped,
            "n_comparisons": n,
        }
        emit(report_json(document), None)
        return
    tell(found, what="Found")
    emit(
        f"{done.n_tasks:,} tasks read: {done.n_new:,} new, {done.n_changed:,} changed, "
        f"{done.n_retracted:,} taken back, {done.n_skipped:,} skipped; "
        f"{n:,} comparisons in the store\n",
        None,
    )


@contextmanager
def _shown() -> Iterator[Callable[[Pulled], None] | None]:
    """A bar on a terminal; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns: tuple[Any, ...] = (
        "Reading tasks", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done: bar.update(task, completed=done.n_tasks, total=done.n_total or None)
