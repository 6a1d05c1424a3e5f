"""`bbq push`: verdicts back into a Label Studio project, a dry run unless --apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bbq_plugin.cli import options as fitting
from bbq_plugin.cli import settings
from bbq_plugin.cli.main import Command
from bbq_plugin.cli.options import Choice
from bbq_plugin.cli.output import emit, show, tell, working
from bbq_plugin.cli.remote import Server, configured_server_options
from bbq_plugin.errors import StoreBusyError, UnsupportedError, UsageError
from bbq_plugin.protocols import ASKABLE, KINDS, kinds_of

if TYPE_CHECKING:
    from pathlib import Path

    from bbq_plugin.cli.settings import Configured
    from bbq_plugin.config import Settings
    from bbq_plugin.protocols import Done, Plan, Wishes
    from bbq_plugin.store import Store


@click.command(cls=Command)
@settings.judging_options
@configured_server_options
@click.option("--apply", "applied", is_flag=True, help="Write; without it, only say what.")
@click.option("--undo", "undone", is_flag=True, help="Put back everything that was written.")
@click.option(
    "--only",
    type=Choice(list(ASKABLE)),
    multiple=True,
    help="Only actions of this kind, and what takes them back. Repeatable.",
)
@click.option(
    "--cancel-annotations",
    "cancel",
    is_flag=True,
    help="Mark the annotations of excluded raters as cancelled too.",
)
@click.option(
    "--uncertainty-sampling",
    "sampling",
    is_flag=True,
    help="Switch the project to serving the most informative tasks first.",
)
@click.option(
    "--informative",
    "n_informative",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="How many tasks to serve first for what they would tell.",
)
@click.option(
    "--format",
    "output_format",
    type=Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="table: for people. json: all of it.",
)
def push(
    server: Server,
    configured: Configured,
    applied: bool,  # noqa: FBT001 (click passes by keyword)
    undone: bool,  # noqa: FBT001
    only: tuple[str, ...],
    output_format: str,
    **asked: Any,
) -> None:
    """Plan, and with --apply write, feedback into a Label Studio project.

    Tasks that lean on excluded raters go back into the queue; their answers get a tab for review;
    with uncertainty sampling the most informative tasks are served first. Every write is on
    record before it is done, and --undo puts everything back. Nothing is ever deleted but what an
    earlier push made. Pull first: the verdicts are on what the store holds. Model, priors and
    [raters] are those of bbq.toml, as in 'bbq serve' and 'bbq watch'; what is typed counts first.
    """
    from bbq_plugin.live import feedback as remote
    from bbq_plugin.live.excluded import Excluded
    from bbq_plugin.protocols import Plan

    if applied and undone:
        raise UsageError("--apply and --undo were both given; say one of them")
    chosen = configured.load()
    settings.check_judged(chosen, "bbq push")
    with _store(server.store, writable=applied or undone) as store, server.open(store) as opened:
        project, memory = opened
        if undone:
            done = list(remote.undo(project, memory))
            plan = Plan(tuple(one.action for one in done))
        else:
            if applied:
                remote.settle(project, memory)
            elif any(entry.state == "begun" for entry in memory.entries()):
                tell("a write was cut off the last time; --apply looks what became of it first")
            excluded = Excluded(store)
            wishes = _wishes(server, chosen, only, excluded.names, **asked)
            with working("Planning"):
                plan = remote.make_plan(project, memory, wishes)
            if applied:
                excluded.keep(wishes.excluded)
                memory.hold(on=False)
            with working("Writing"):
                done = list(remote.apply(project, memory, plan)) if applied else []
    _report(server.project, plan, done, output_format, applied=applied, undone=undone)


def _store(path: Path, *, writable: bool) -> Store:
    from bbq_plugin.store import Store

    try:
        return Store(path, writable=writable)
    except StoreBusyError as error:
        raise StoreBusyError(
            f"{error}. If that is bbq serve, its page does the same under Feedback, for whoever "
            "has the token (--page-token-file)"
        ) from error


def _wishes(
    server: Server,
    chosen: Settings,
    only: tuple[str, ...],
    before: frozenset[str],
    *,
    cancel: bool,
    sampling: bool,
    n_informative: int,
) -> Wishes:
    from bbq_plugin.live import feedback as remote
    from bbq_plugin.store import read_store

    with working("Reading"):
        data = read_store(server.store)
    if not data.has_raters:
        raise UnsupportedError("the answers in the store name no raters, so none can be judged")
    fit = fitting.fitted_with(data, chosen.model.model, chosen.model.fit_priors())
    with working("Judging"):
        from bbq_plugin.analysis import rater_report

        report = rater_report(
            fit,
            chosen.model.level,
            false_rate=chosen.raters.false_rate,
            least=chosen.raters.least,
            before=before,
        )
    kinds: frozenset[str] = frozenset(KINDS)
    if only:
        kinds = kinds_of(only) | ({"cancel"} if cancel else set())
    return remote.wishes_of(
        fit, report, kinds=kinds, cancel=cancel, sampling=sampling, n_informative=n_informative
    )


def _report(
    project: int,
    plan: Plan,
    done: list[Done],
    output_format: str,
    *,
    applied: bool,
    undone: bool,
) -> None:
    from rich.text import Text

    from bbq_plugin import report
    from bbq_plugin.report.json import push_dict
    from bbq_plugin.report.tables import counts_line, plan_table

    left = [one.left for one in done if one.left]
    if output_format == "json":
        document = push_dict(project, plan, applied=applied, undone=undone, done=done)
        emit(report.report_json(document), None)
        return
    what = "Put back" if undone else "Written" if applied else "Plan: nothing is written yet"
    actions = plan.actions
    if applied or undone:
        actions = tuple(one.action for one in done if one.left is None)
    parts: list[Any] = [Text(f"{what}: {counts_line(actions)}")]
    if actions:
        parts.append(plan_table(actions, f"Project {project}"))
    show(parts, None)
    tell(*plan.notes, *left)
    if plan.actions and not (applied or undone):
        tell("--apply writes this, --undo puts it back")
