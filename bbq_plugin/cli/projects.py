"""`bbq pull`, `bbq push`, `bbq connect`: a project of a labelling tool."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from bbq_plugin.cli.main import Command
from bbq_plugin.cli.options import (
    Choice,
    Server,
    address_options,
    all_option,
    check_judged,
    configured_server_options,
    fitted_with,
    judging_options,
    naming_options,
    option_of,
    project_option,
    server_address,
    server_options,
    table_or_json_option,
    warn_of_readers,
    webhook_secret_option,
)
from bbq_plugin.cli.output import emit, progress, show, tell, working
from bbq_plugin.config import load_studies, study_names
from bbq_plugin.data.records import ACTION_KINDS, ASKABLE, Relabel, kinds_of
from bbq_plugin.errors import StoreBusyError, UnsupportedError, UsageError
from bbq_plugin.text import counted, listed, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bbq_plugin.cli.options import Configured
    from bbq_plugin.config import Settings
    from bbq_plugin.data.records import ActionResult, FeedbackPlan
    from bbq_plugin.live.pull import Pulled
    from bbq_plugin.protocols import FeedbackGoals, Project
    from bbq_plugin.store import Store
    from bbq_plugin.store.studies import StudyEntry

PULL_SCHEMA = "bbq.pull/1"


@click.command(cls=Command)
@server_options
@naming_options
@click.option("--everything", is_flag=True, help="Read all of the project again.")
@click.option("--page-size", type=click.IntRange(1, 10_000), help="Tasks per request.")
@option_of("study", help="What to call the study of the project's only question.")
@table_or_json_option
def pull(
    server: Server,
    naming: dict[str, Any],
    study: str | None,
    everything: bool,  # noqa: FBT001 (click passes by keyword)
    page_size: int | None,
    output_format: str,
) -> None:
    """Read what is new in a project of Label Studio or Potato into a store.

    Only tasks that have changed since the last pull are read, page by page. Answers that were
    edited or deleted are edited or deleted in the store. After an interruption it continues from
    the last page. Of a project with several comparison controls each is a study of its own, which
    [studies.NAME] of bbq.toml may name. Needs the extra label-studio.
    """
    server.address()
    from bbq_plugin.live.pull import pull as pull_project
    from bbq_plugin.report.documents import report_json
    from bbq_plugin.store import Store

    with Store(server.store) as store, server.open(store, naming, page_size) as opened:
        project, memory = opened
        with progress("Reading tasks") as update:
            done = pull_project(
                project, memory, everything=everything,
                progress=lambda now: update(completed=now.n_tasks, total=now.n_total or None),
                named=study_names(load_studies(server.config_file()), study),
            )  # fmt: skip
        found = project.describe()
        n, studies = store.counts().n_comparisons, store.studies()
    if output_format == "json":
        document = {
            "schema": PULL_SCHEMA,
            "project": server.number,
            "found": found,
            "n_tasks": done.n_tasks,
            "n_new": done.n_new,
            "n_changed": done.n_changed,
            "n_retracted": done.n_retracted,
            "n_skipped": done.n_skipped,
            "n_comparisons": n,
            "studies": {one.name: one.n_comparisons for one in studies},
        }
        emit(report_json(document), None)
        return
    tell(found, what="Found")
    if len(studies) > 1:
        for one in studies:
            about = f": {one.described}" if one.questions else ""
            tell(f"{plain(one.name)}, {one.n_comparisons:,} comparisons{about}", what="Study")
    emit(
        f"{done.n_tasks:,} tasks read: {done.n_new:,} new, {done.n_changed:,} changed, "
        f"{done.n_retracted:,} retracted, {done.n_skipped:,} skipped; "
        f"{n:,} comparisons in the store\n",
        None,
    )


@click.command(cls=Command)
@judging_options
@configured_server_options
@naming_options
@option_of("study")
@click.option("--apply", "applied", is_flag=True, help="Apply the plan; else it is only shown.")
@click.option("--undo", "undone", is_flag=True, help="Undo every change that a push has made.")
@click.option(
    "--only",
    type=Choice(list(ASKABLE)),
    multiple=True,
    help="Only actions of this kind, and what undoes them. Repeatable.",
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
    "--relabel",
    type=Choice(list(get_args(Relabel))),
    help="Which tasks of excluded raters to ask again: those whose new answers may change the "
    "result, or all. Default: useful.",
)
@click.option(
    "--informative",
    "n_informative",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="How many tasks to serve first because they are the most informative.",
)
@all_option
@table_or_json_option
def push(
    server: Server,
    configured: Configured,
    naming: dict[str, Any],
    study: str | None,
    applied: bool,  # noqa: FBT001 (click passes by keyword)
    undone: bool,  # noqa: FBT001
    only: tuple[str, ...],
    show_all: bool,  # noqa: FBT001
    output_format: str,
    **asked: Any,
) -> None:
    """Plan feedback for a project of Label Studio or Potato; apply it with --apply.

    Label Studio: tasks that depend on excluded raters go back into the queue. The answers of these
    raters get a tab for review. With uncertainty sampling the most informative tasks are served
    first. Potato: excluded raters get no more tasks, and the most informative tasks come first.
    Every write is recorded before it is made, and --undo undoes all of them. Nothing is deleted
    except what an earlier push has created. Run 'bbq pull' first: the verdicts are about the
    answers in the store. Model, priors and [raters] are those of bbq.toml, as in 'bbq serve' and
    'bbq watch'; options that are typed come first.
    """
    if applied and undone:
        raise UsageError("--apply and --undo are both given; give one of them")
    chosen = configured.load()
    check_judged(chosen, "bbq push")
    server.address()
    from bbq_plugin.data.records import FeedbackPlan
    from bbq_plugin.live import push as pushing

    with (
        _opened_store(server.store, writable=applied or undone) as store,
        server.open(store, naming) as opened,
    ):
        project, memory = opened
        if undone:
            done = list(pushing.undo(project, memory))
            plan = FeedbackPlan(tuple(one.action for one in done))
        else:
            if applied:
                pushing.settle(project, memory)
            elif any(entry.state == "begun" for entry in memory.entries()):
                tell("a write was interrupted last time; --apply first checks whether it was done")
            found = {
                own: _goals(server, chosen, only, store, own, **asked)
                for own in _studies_of(store, server.number, study)
            }
            goals = pushing.merged_goals({own.name: one for own, (one, _) in found.items()})
            with working("Planning"):
                plan = pushing.make_plan(project, memory, goals)
            if applied:
                for own, (_, excluded) in found.items():
                    store.keep_excluded(excluded, own.id)
                memory.hold(on=False)
            with working("Writing"):
                done = list(pushing.apply(project, memory, plan)) if applied else []
    from bbq_plugin.report.documents import push_dict, report_json
    from bbq_plugin.report.terminal_tables import MOST_ROWS

    if output_format == "json":
        document = push_dict(server.number, plan, applied=applied, undone=undone, done=done)
        emit(report_json(document), None)
    else:
        limit = None if show_all else MOST_ROWS
        _show_plan(server.number, plan, done, limit, applied=applied, undone=undone)


def _opened_store(path: Path, *, writable: bool) -> Store:
    from bbq_plugin.store import Store

    try:
        return Store(path, writable=writable)
    except StoreBusyError as error:
        raise StoreBusyError(
            f"{error}. If that is bbq serve, use the tab Feedback of its page; that needs the "
            "token (--page-token-file)"
        ) from error


def _studies_of(store: Store, project: int, name: str | None) -> list[StudyEntry]:
    """The studies whose verdicts go to a project: those of all its questions, or the one named."""
    mine = [one for one in store.studies() if one.asks(project) and one.n_comparisons]
    if name is not None or not mine:
        chosen = store.chosen_study(name)
        return [one for one in store.studies() if one.id == chosen]
    if len(mine) > 1:
        names = ", ".join(plain(one.name) for one in mine)
        tell(
            f"the verdicts are those of all studies of the project ({names}): a rater whom one of "
            "them excludes is excluded; --study takes one of them"
        )
    return mine


def _goals(
    server: Server,
    chosen: Settings,
    only: tuple[str, ...],
    store: Store,
    study: StudyEntry,
    *,
    cancel: bool,
    sampling: bool,
    n_informative: int,
    relabel: Relabel | None,
) -> tuple[FeedbackGoals, tuple[str, ...]]:
    """What to ask of the project, and whom the model excludes."""
    from bbq_plugin.live.push import goals_of
    from bbq_plugin.store import read_store

    with working("Reading"):
        data = read_store(server.store, study=study.name)
    if not data.has_raters:
        raise UnsupportedError(
            "the answers in the store have no rater names, so no rater can be judged"
        )
    fit = fitted_with(data, model=chosen.model.model, **chosen.model.fit_options())
    with working("Judging"):
        from bbq_plugin.analysis import Analysis
        from bbq_plugin.live.result_files import limits_of

        before = store.excluded(study.id)
        analysis = Analysis(fit, limits_of(chosen), before, words=store.lead_words())
        # Here, where the user is told what takes the time.
        _ = analysis.raters
    kinds: frozenset[str] = frozenset(ACTION_KINDS)
    if only:
        kinds = kinds_of(only) | ({"cancel"} if cancel else set())
    goals = goals_of(
        analysis, kinds=kinds, cancel=cancel, sampling=sampling, n_informative=n_informative,
        relabel=relabel or chosen.feedback.relabel,
    )  # fmt: skip
    return goals, analysis.raters.excluded_by_model


def _show_plan(
    project: int,
    plan: FeedbackPlan,
    done: list[ActionResult],
    limit: int | None,
    *,
    applied: bool,
    undone: bool,
) -> None:
    from rich.text import Text

    from bbq_plugin.report.terminal_tables import ALL_ROWS, counts_line, plan_table

    left = [one.left for one in done if one.left]
    what = "Undone" if undone else "Applied" if applied else "Plan, nothing is applied yet"
    actions = plan.actions
    if applied or undone:
        actions = tuple(one.action for one in done if one.left is None)
    parts: list[Any] = [Text(f"{what}: {counts_line(actions)}")]
    if actions:
        parts.append(plan_table(actions, f"Project {project}", limit=limit))
    show(parts, None)
    if plan.worth is not None and not undone:
        tell(f"relabel asks for {plan.worth.text}")
    tell(*plan.notes, *left[:limit])
    if limit is not None and len(left) > limit:
        tell(f"… and {len(left) - limit:,} more; {ALL_ROWS}")
    if plan.actions and not (applied or undone):
        tell("--apply applies this plan, --undo undoes it later")


@click.command(cls=Command)
@project_option
@address_options
@click.option(
    "--serve-url",
    default="http://127.0.0.1:8765",
    show_default=True,
    help="Address of bbq serve, as Label Studio reaches it.",
)
@webhook_secret_option
@click.option("--no-check", is_flag=True, help="Do not check that an event arrives.")
@click.option(
    "--check", "only_check", is_flag=True, help="Show what it would do, and write nothing."
)
@naming_options
def connect(
    project: int,
    url: str | None,
    token_file: Path | None,
    config: Path | None,
    serve_url: str,
    webhook_secret_file: Path | None,
    naming: dict[str, Any],
    no_check: bool,  # noqa: FBT001 (click passes by keyword)
    only_check: bool,  # noqa: FBT001
) -> None:
    """Make a Label Studio project send its events to a running 'bbq serve'.

    It registers a webhook with the secret, saves the project unchanged to cause an event, and
    checks that this event arrives. Run it again to renew the same webhook. With --check it reads
    the project as 'bbq pull' would, with --items and --labels if these are given, and shows the
    controls, items, labels, counts and warnings. Needs the extra label-studio.
    """
    from bbq_plugin.live.tool_connection import read_secret

    warn_of_readers(webhook_secret_file)
    secret = read_secret(webhook_secret_file, "BBQ_WEBHOOK_SECRET", os.environ)
    if only_check:
        server = Server(project, Path(":memory:"), url, token_file, config, 60.0, moved=False)
        _show_connection(server, naming, serve_url, secret)
        return
    if naming:
        raise UsageError(
            "--items, --labels and -O say how answers are read; give them to bbq serve, or add "
            "--check"
        )
    if secret is None:
        raise UsageError(
            "no secret is set; give the secret of bbq serve with --webhook-secret-file or "
            "BBQ_WEBHOOK_SECRET"
        )
    at = server_address(url, token_file, config, set())
    from bbq_plugin.live.tool_connection import subscribe
    from bbq_plugin.plugins import tool
    from bbq_plugin.protocols import ProjectAddress

    opened = tool().open(ProjectAddress(at.url.rstrip("/"), at.token, project, notice=tell))
    try:
        webhook, is_new = subscribe(opened, serve_url, secret, check=not no_check)
        tell(opened.describe(), what="Found")
    finally:
        opened.close()
    what = "created" if is_new else "renewed"
    seen = "not checked whether events arrive" if no_check else "an event has arrived"
    emit(f"Webhook {webhook} {what} for project {project}: {seen}\n", None)


# Enough to see how a project is read; a pull reads all of it.
_CHECKED_TASKS = 2000


def _show_connection(
    server: Server, naming: dict[str, Any], serve_url: str, secret: bytes | None
) -> None:
    """Read a project into memory, and say what was found and what `bbq connect` would do."""
    from bbq_plugin.live.pull import pull as pull_project
    from bbq_plugin.live.tool_connection import subscription
    from bbq_plugin.store import Store

    named = study_names(load_studies(server.config_file()))
    with Store(server.store) as store, server.open(store, naming) as (project, memory):
        with progress("Reading tasks") as update:
            done = pull_project(
                project, memory, named=named, most_tasks=_CHECKED_TASKS,
                progress=lambda now: update(completed=now.n_tasks, total=now.n_total or None),
            )  # fmt: skip
        lines = [f"Found: {project.describe()}", *_labels(project)]
        warnings = list(_read_lines(store, done, lines))
        url, known, problem = subscription(project, serve_url, secret)
    lines.append(
        f"Would {'register a webhook' if known is None else f'renew webhook {known}'}: {url}"
    )
    emit("".join(f"{line}\n" for line in (*lines, "Nothing was written.")), None)
    tell(*warnings, *([] if problem is None else [problem]), what="Warning")


def _labels(project: Project) -> Iterator[str]:
    """What the labels mean, where the answers are labels."""
    told: dict[str, str | None] = getattr(project, "labels", dict)()
    if told:
        shown = (f"{plain(label)!r} = {means or 'not known'}" for label, means in told.items())
        yield f"Labels: {', '.join(shown)}"


def _read_lines(store: Store, done: Pulled, lines: list[str]) -> Iterator[str]:
    """Put down what was read of a project; what is to be warned of."""
    tasks = counted(done.n_tasks, "task")
    if done.n_total > done.n_tasks:
        tasks = f"the first {done.n_tasks:,} of {counted(done.n_total, 'task')}"
    lines.append(f"Read: {tasks}, {counted(done.n_new, 'comparison')}")
    for one in store.studies():
        if one.n_comparisons:
            from bbq_plugin.store.store import records_of

            answers = list(records_of(store, one.id))
            items = sorted({name for said in answers for name in (said.left, said.right)})
            raters = {said.rater for said in answers} - {None}
            lines.append(
                f"Study {plain(one.name)}: {counted(one.n_comparisons, 'comparison')}, "
                f"{counted(len(raters), 'rater')}, {counted(len(items), 'item')}: "
                f"{listed(map(plain, items), 12)}"
            )
    # A row that answers two questions is a row of two studies.
    names = {one.id: one.name for one in store.studies()}
    for entry in store.ledger():
        of = f" of study {plain(names[entry.study])}" if len(names) > 1 else ""
        for reason, n in entry.skipped.items():
            yield f"{counted(n, 'row')}{of} left out: {plain(reason)}"
        yield from map(plain, entry.notes)
    if not done.n_new:
        yield "the project has no answers that can be read yet, so how they are read is not certain"
