"""`bbq pull`, `bbq push`, `bbq connect`: a project on a Label Studio server."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bbq_plugin.cli import options as fitting
from bbq_plugin.cli.main import Command
from bbq_plugin.cli.options import (
    CONFIG_FILE,
    FILE,
    Choice,
    all_option,
    check_judged,
    judging_options,
    merged,
    option_of,
    table_or_json_option,
    together,
)
from bbq_plugin.cli.output import emit, progress, show, tell, working
from bbq_plugin.data.feedback_actions import ACTION_KINDS, ASKABLE, kinds_of
from bbq_plugin.errors import StoreBusyError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bbq_plugin.cli.options import Configured
    from bbq_plugin.config import Settings
    from bbq_plugin.data.feedback_actions import ActionResult, FeedbackPlan
    from bbq_plugin.live.credentials import Address
    from bbq_plugin.protocols import FeedbackGoals, Project
    from bbq_plugin.store import Store
    from bbq_plugin.store.projects import Memory

_Command = TypeVar("_Command", bound="Callable[..., Any]")

#: Where the server is, for a command that has a --config of its own.
place_options = together(
    click.option(
        "--url", help="Address of Label Studio. Default: LABEL_STUDIO_URL, else bbq.toml."
    ),
    click.option(
        "--token-file",
        type=FILE,
        help="File with Label Studio's token. Default: LABEL_STUDIO_API_KEY, else bbq.toml.",
    ),
)
#: The same with a --config.
address_options = together(
    place_options,
    click.option(
        "--config",
        type=FILE,
        help="File with a section [label_studio]. Default: bbq.toml, if there is one.",
    ),
)
project_option = click.option(
    "--project", type=click.IntRange(1), required=True, help="The project's number."
)
webhook_secret_option = click.option(
    "--webhook-secret-file",
    type=FILE,
    help="File with the webhook's secret, the same for bbq serve and bbq connect. "
    "Default: BBQ_WEBHOOK_SECRET.",
)
_project_options = together(
    project_option,
    click.option("--store", type=FILE, required=True, help="The store to keep the answers in."),
)
_request_options = together(
    click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(0, min_open=True),
        default=60.0,
        show_default=True,
        help="Seconds to wait for a response of the server.",
    ),
    click.option("--moved", is_flag=True, help="The same server has a new address."),
)
_naming_options = together(
    click.option(
        "--items", help="Fields of the task data that name the items; the same as -O items=…."
    ),
    click.option("--labels", help="What the labels of Choices mean; the same as -O labels=…."),
    option_of("options"),
)


def naming_options(command: _Command) -> _Command:
    """Add how an adapter finds the items' names; the command gets all of it as `naming`."""

    @wraps(command)
    def wrapped(
        *, items: str | None, labels: str | None, options: dict[str, Any], **rest: Any
    ) -> Any:
        return command(naming=merged(options, {"items": items, "labels": labels}), **rest)

    return _naming_options(wrapped)  # type: ignore[return-value] # click calls it by keyword


@dataclass(frozen=True)
class Server:
    """Where a project is, and how to get at it."""

    project: int
    store: Path
    url: str | None
    token_file: Path | None
    config: Path | None
    timeout_s: float
    moved: bool
    #: Warnings that were given, each of which is enough.
    warned: set[str] = field(default_factory=set, compare=False)

    def address(self) -> Address:
        """Address and token of the server; refused if either is not known."""
        return server_address(self.url, self.token_file, self.config, self.warned)

    @contextmanager
    def open(
        self,
        store: Store,
        options: Mapping[str, Any] | None = None,
        page_size: int | None = None,
        notice: Callable[[str], None] = tell,
    ) -> Iterator[tuple[Project, Memory]]:
        """Reach the project, and what the store knows of it; `notice` hears of retries."""
        from bbq_plugin.live.credentials import adapter_options
        from bbq_plugin.plugins import tool as labelling_tool
        from bbq_plugin.store.projects import Memory

        tool = labelling_tool()
        address = self.address()
        url = address.url.rstrip("/")
        given = adapter_options(tool, options or {})
        memory = Memory(store, tool.name, self.project, url, options=given, moved=self.moved)
        project = tool.open(
            url,
            address.token,
            self.project,
            options=memory.options,
            page_size=page_size,
            timeout_s=self.timeout_s,
            notice=notice,
        )
        try:
            yield project, memory
        finally:
            project.close()


def server_address(
    url: str | None, token_file: Path | None, config: Path | None, warned: set[str]
) -> Address:
    """Address and token of the server; warns of a token that other users can read."""
    from bbq_plugin.live.credentials import address
    from bbq_plugin.plugins import tool

    config = config or (CONFIG_FILE if CONFIG_FILE.is_file() else None)
    found = address(tool(), url=url, token_file=token_file, config=config)
    tell(*(text for text in found.warnings if text not in warned), what="Warning")
    warned.update(found.warnings)
    return found


def warn_of_readers(*files: Path | None) -> None:
    """Warn of files with a secret that others on this machine can read."""
    from bbq_plugin.live.credentials import seen_by_others

    found = (seen_by_others(file) for file in files if file is not None)
    tell(*(text for text in found if text is not None), what="Warning")


def server_options(command: _Command) -> _Command:
    """Add the options to a command, which gets them as one ``server``."""

    @wraps(command)
    def wrapped(config: Path | None, **rest: Any) -> Any:
        server = _server(config, rest)
        return command(server=server, **rest)

    return together(_project_options, address_options, _request_options)(wrapped)  # type: ignore[return-value] # click's


def configured_server_options(command: _Command) -> _Command:
    """Add the same to a command that gets a ``configured``, with the --config of that."""

    @wraps(command)
    def wrapped(configured: Configured, **rest: Any) -> Any:
        server = _server(configured.file, rest)
        return command(server=server, configured=configured, **rest)

    return together(_project_options, place_options, _request_options)(wrapped)  # type: ignore[return-value] # click's


def _server(config: Path | None, typed: dict[str, Any]) -> Server:
    """Take the options of a server out of what was typed."""
    names = ("project", "store", "url", "token_file", "timeout_s", "moved")
    return Server(config=config, **{name: typed.pop(name) for name in names})


PULL_SCHEMA = "bbq.pull/1"


@click.command(cls=Command)
@server_options
@naming_options
@click.option("--everything", is_flag=True, help="Read all of the project again.")
@click.option("--page-size", type=click.IntRange(1, 10_000), help="Tasks per request.")
@table_or_json_option
def pull(
    server: Server,
    naming: dict[str, Any],
    everything: bool,  # noqa: FBT001 (click passes by keyword)
    page_size: int | None,
    output_format: str,
) -> None:
    """Read what is new in a Label Studio project into a store.

    Only tasks that have changed since the last pull are read, page by page. Answers that were
    edited or deleted are edited or deleted in the store. After an interruption it continues from
    the last page. Needs the extra label-studio.
    """
    server.address()
    from bbq_plugin.live.sync import pull as pull_project
    from bbq_plugin.report.documents import report_json
    from bbq_plugin.store import Store

    with Store(server.store) as store, server.open(store, naming, page_size) as opened:
        project, memory = opened
        with progress("Reading tasks") as update:
            done = pull_project(
                project, memory, everything=everything,
                progress=lambda now: update(completed=now.n_tasks, total=now.n_total or None),
            )  # fmt: skip
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
        f"{done.n_retracted:,} retracted, {done.n_skipped:,} skipped; "
        f"{n:,} comparisons in the store\n",
        None,
    )


@click.command(cls=Command)
@judging_options
@configured_server_options
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
    applied: bool,  # noqa: FBT001 (click passes by keyword)
    undone: bool,  # noqa: FBT001
    only: tuple[str, ...],
    show_all: bool,  # noqa: FBT001
    output_format: str,
    **asked: Any,
) -> None:
    """Plan feedback for a Label Studio project; apply it with --apply.

    Tasks that depend on excluded raters go back into the queue. The answers of these raters get a
    tab for review. With uncertainty sampling the most informative tasks are served first. Every
    write is recorded before it is made, and --undo undoes all of them. Nothing is deleted except
    what an earlier push has created. Run 'bbq pull' first: the verdicts are about the answers in
    the store. Model, priors and [raters] are those of bbq.toml, as in 'bbq serve' and 'bbq watch';
    options that are typed come first.
    """
    if applied and undone:
        raise UsageError("--apply and --undo are both given; give one of them")
    chosen = configured.load()
    check_judged(chosen, "bbq push")
    server.address()
    from bbq_plugin.data.feedback_actions import FeedbackPlan
    from bbq_plugin.live import sync

    with (
        _opened_store(server.store, writable=applied or undone) as store,
        server.open(store) as opened,
    ):
        project, memory = opened
        if undone:
            done = list(sync.undo(project, memory))
            plan = FeedbackPlan(tuple(one.action for one in done))
        else:
            if applied:
                sync.settle(project, memory)
            elif any(entry.state == "begun" for entry in memory.entries()):
                tell("a write was interrupted last time; --apply first checks whether it was done")
            goals = _goals(server, chosen, only, store.excluded(), **asked)
            with working("Planning"):
                plan = sync.make_plan(project, memory, goals)
            if applied:
                store.keep_excluded(goals.excluded)
                memory.hold(on=False)
            with working("Writing"):
                done = list(sync.apply(project, memory, plan)) if applied else []
    from bbq_plugin.report.documents import push_dict, report_json
    from bbq_plugin.report.tables import MOST_ROWS

    if output_format == "json":
        document = push_dict(server.project, plan, applied=applied, undone=undone, done=done)
        emit(report_json(document), None)
    else:
        limit = None if show_all else MOST_ROWS
        _show_plan(server.project, plan, done, limit, applied=applied, undone=undone)


def _opened_store(path: Path, *, writable: bool) -> Store:
    from bbq_plugin.store import Store

    try:
        return Store(path, writable=writable)
    except StoreBusyError as error:
        raise StoreBusyError(
            f"{error}. If that is bbq serve, use the tab Feedback of its page; that needs the "
            "token (--page-token-file)"
        ) from error


def _goals(
    server: Server,
    chosen: Settings,
    only: tuple[str, ...],
    before: frozenset[str],
    *,
    cancel: bool,
    sampling: bool,
    n_informative: int,
) -> FeedbackGoals:
    from bbq_plugin.live import sync
    from bbq_plugin.store import read_store

    with working("Reading"):
        data = read_store(server.store)
    if not data.has_raters:
        raise UnsupportedError(
            "the answers in the store have no rater names, so no rater can be judged"
        )
    fit = fitting.fitted_with(data, chosen.model.model, chosen.model.fit_priors())
    with working("Judging"):
        from bbq_plugin.analysis import Analysis
        from bbq_plugin.live.outputs import limits_of

        analysis = Analysis(fit, limits_of(chosen), before)
        # Here, where the user is told what takes the time.
        _ = analysis.raters
    kinds: frozenset[str] = frozenset(ACTION_KINDS)
    if only:
        kinds = kinds_of(only) | ({"cancel"} if cancel else set())
    return sync.goals_of(
        analysis, kinds=kinds, cancel=cancel, sampling=sampling, n_informative=n_informative
    )


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

    from bbq_plugin.report.tables import counts_line, plan_table

    left = [one.left for one in done if one.left]
    what = "Undone" if undone else "Applied" if applied else "Plan, nothing is applied yet"
    actions = plan.actions
    if applied or undone:
        actions = tuple(one.action for one in done if one.left is None)
    parts: list[Any] = [Text(f"{what}: {counts_line(actions)}")]
    if actions:
        parts.append(plan_table(actions, f"Project {project}", limit=limit))
    show(parts, None)
    tell(*plan.notes, *left[:limit])
    if limit is not None and len(left) > limit:
        tell(f"… and {len(left) - limit:,} more; --all shows them, --format json has all")
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
def connect(
    project: int,
    url: str | None,
    token_file: Path | None,
    config: Path | None,
    serve_url: str,
    webhook_secret_file: Path | None,
    no_check: bool,  # noqa: FBT001 (click passes by keyword)
) -> None:
    """Make a Label Studio project send its events to a running 'bbq serve'.

    It registers a webhook with the secret, saves the project unchanged to cause an event, and
    checks that this event arrives. Run it again to renew the same webhook. Needs the extra
    label-studio.
    """
    from bbq_plugin.live.credentials import read_secret

    warn_of_readers(webhook_secret_file)
    secret = read_secret(webhook_secret_file, "BBQ_WEBHOOK_SECRET", os.environ)
    if secret is None:
        raise UsageError(
            "no secret is set; give the secret of bbq serve with --webhook-secret-file or "
            "BBQ_WEBHOOK_SECRET"
        )
    at = server_address(url, token_file, config, set())
    from bbq_plugin.live.events import subscribe
    from bbq_plugin.plugins import tool

    opened = tool().open(at.url.rstrip("/"), at.token, project, options={}, notice=tell)
    try:
        webhook, is_new = subscribe(opened, serve_url, secret, check=not no_check)
        tell(opened.describe(), what="Found")
    finally:
        opened.close()
    what = "created" if is_new else "renewed"
    seen = "not checked whether events arrive" if no_check else "an event has arrived"
    emit(f"Webhook {webhook} {what} for project {project}: {seen}\n", None)
