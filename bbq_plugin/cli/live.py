"""`bbq watch` and `bbq serve`: the two commands that run until they are stopped."""

from __future__ import annotations

import os
import re
import sys
import threading
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from bbq_plugin.cli.main import Command
from bbq_plugin.cli.options import (
    FILE,
    JUDGING,
    Server,
    check_judged,
    configured_by,
    naming_options,
    people_of,
    place_options,
    warn_of_readers,
    webhook_secret_option,
)
from bbq_plugin.cli.output import tell
from bbq_plugin.config import KEYS, load_studies, study_names
from bbq_plugin.errors import DataError, UnsupportedError
from bbq_plugin.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from bbq_plugin.cli.options import Configured
    from bbq_plugin.config import Settings
    from bbq_plugin.live.engine import Engine
    from bbq_plugin.protocols import Project
    from bbq_plugin.store.project_sync import Memory


@click.command(cls=Command)
@click.option("--once", is_flag=True, help="Read the files of now, write the results, and stop.")
@configured_by(KEYS)
@place_options
def watch(
    configured: Configured,
    once: bool,  # noqa: FBT001 (click's)
    url: str | None,
    token_file: Path | None,
) -> None:
    """Read the files that arrive in FOLDER, and rewrite the results after each batch.

    A file has arrived when it is closed, renamed into place, or has not changed for a while. FOLDER
    may be the address of a PostgreSQL database, whose --table is followed then. Stop with Ctrl-C or
    SIGTERM; SIGHUP reads the configuration again. Events are logged on standard error, one line
    each. With --once the exit code is 1 if a file is refused. With --push, feedback for a Label
    Studio project is planned after each refresh; only the kinds of --auto-apply are applied.
    """
    chosen = configured.load()
    for name in ("store", "out") if chosen.database else ("folder", "store", "out"):
        chosen.path(name)
    from bbq_plugin.live.health import sender
    from bbq_plugin.live.log import Log
    from bbq_plugin.live.watch import Daemon

    warned: set[str] = set()

    def server(now: Settings) -> Server:
        number = now.feedback.project or 0
        return Server(
            number, now.path("store"), url, token_file, configured.file, 30.0,
            moved=False, warned=warned,
        )  # fmt: skip

    chosen.feedback.check()
    if chosen.feedback.push:
        server(chosen).address()
    warn_of_readers(chosen.alerts.alert_url_file)
    log = Log(sys.stderr, chosen.log_format)
    daemon = Daemon(
        chosen, configured.load, log, alert=sender(chosen.alerts, os.environ),
        reach=lambda now, store, notice: server(now).open(store, notice=notice),
    )  # fmt: skip
    daemon.run(once=once)
    if once and daemon.refused:
        # The results are written. A script has to know that they are not of all files.
        told = "; ".join(f"{name}: {why}" for name, why in islice(daemon.refused.items(), 3))
        raise DataError(
            f"{counted(len(daemon.refused), 'source')} refused: {told}. The others are in the "
            f"results. Correct or remove what is refused; to list all: bbq status --store "
            f"{chosen.path('store')}"
        )


# Longer than a start takes where the code is compiled already.
_PATIENCE_S = 10.0
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}


class Duration(click.ParamType[float]):
    """30s, 5m or 1h."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Take a number with its unit; a bare one could be anything."""
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", str(value).strip())
        if found is None or not float(found[1]):
            self.fail(f"{value!r} is not a duration; expected 30s, 5m or 1h", param, ctx)
        return float(found[1]) * _UNITS_S[found[2]]


# The keys of bbq.toml that concern a server; the others are those of a folder and its results.
_KEYS = [
    key
    for key in KEYS
    if key in JUDGING
    or key.section in ("feedback", "alerts")
    or key.name in ("store", "study", "mapping", "covariate")
]


@click.command(cls=Command)
@configured_by(_KEYS)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8765,
    show_default=True,
    help="Port to listen on; 0: any free port.",
)
@webhook_secret_option
@click.option("--insecure-webhook", is_flag=True, help="Accept events without a secret.")
@click.option(
    "--page-token-file",
    type=FILE,
    help="File with a token; with it the page can be opened from other machines, and can apply "
    "feedback. Default: BBQ_PAGE_TOKEN.",
)
@click.option(
    "--allow-host",
    multiple=True,
    help="A host name under which the page may be opened. Repeatable.",
)
@place_options
@click.option(
    "--show-names",
    is_flag=True,
    help="Show the names and e-mail addresses of raters on the page; they are requested from the "
    "server and not stored.",
)
@click.option(
    "--reconcile",
    "reconcile_s",
    type=Duration(),
    help="Pull what webhooks have missed, at the start and then this often, such as 5m. Needs "
    "--project.",
)
@naming_options
def serve(
    configured: Configured,
    host: str,
    port: int,
    webhook_secret_file: Path | None,
    insecure_webhook: bool,  # noqa: FBT001 (click passes by keyword)
    page_token_file: Path | None,
    allow_host: tuple[str, ...],
    url: str | None,
    token_file: Path | None,
    show_names: bool,  # noqa: FBT001
    reconcile_s: float | None,
    naming: dict[str, Any],
) -> None:
    """Receive events from Label Studio, and show the live leaderboard in a browser.

    Label Studio sends events to /webhook/label-studio; 'bbq connect' sets this up. They are in the
    store before they are confirmed. The page shows the current leaderboard, the raters and the
    planned feedback. Stop with Ctrl-C or SIGTERM. Needs the extra serve.
    """
    chosen = configured.load()
    store, project = chosen.path("store"), chosen.feedback.project
    chosen.feedback.check()
    if reconcile_s is not None and project is None:
        raise click.UsageError("--reconcile pulls from a project; name it with --project")
    check_judged(chosen, "bbq serve")
    _check_installed()
    from bbq_plugin.analysis import Limits
    from bbq_plugin.live.engine import Engine
    from bbq_plugin.live.health import sender
    from bbq_plugin.live.log import Log
    from bbq_plugin.live.server.access_control import AccessRules
    from bbq_plugin.live.server.served_project import ServedProject
    from bbq_plugin.live.server.service import Service, listening, run
    from bbq_plugin.live.tool_connection import read_secret

    warn_of_readers(webhook_secret_file, page_token_file, chosen.alerts.alert_url_file)
    rules = AccessRules(
        secret=read_secret(webhook_secret_file, "BBQ_WEBHOOK_SECRET", os.environ),
        insecure_webhook=insecure_webhook,
        hosts=frozenset((*allow_host, *({host} - {"0.0.0.0", "::"}))),  # noqa: S104
        page_token=read_secret(page_token_file, "BBQ_PAGE_TOKEN", os.environ),
    )
    of_file = chosen.read.options if chosen.read.adapter == "label-studio" else {}
    typed = click.get_current_context().get_parameter_source("mapping")
    if typed == ParameterSource.COMMANDLINE and chosen.read.adapter != "label-studio":
        # The mapping of bbq.toml may be that of the files of a watched folder.
        raise click.UsageError(
            f"the mapping {chosen.read.mapping} is one of {chosen.read.adapter} files, and events "
            "come from Label Studio; write one with 'bbq inspect EXPORT --save-mapping FILE'"
        )
    options = {**of_file, **naming}
    door = listening(host, port)
    with ExitStack() as stack:
        stack.callback(door.close)
        model = chosen.model.model
        engine = stack.enter_context(
            Engine(
                store,
                study=chosen.study,
                model=model,
                covariates=chosen.model.covariate,
                **chosen.model.fit_options(),
            )
        )
        studies = load_studies(configured.file)
        known_url, known_options = _known_server(engine)
        known_url = url or os.environ.get("LABEL_STUDIO_URL") or known_url
        service = Service(
            engine,
            rules,
            options=options or known_options,
            limits=Limits(chosen.model.level, chosen.raters.false_rate, chosen.raters.least),
            base_url=_address(known_url),
            named=study_names(studies, chosen.study),
            people=people_of(known_url, token_file, configured.file) if show_names else None,
            alert=sender(chosen.alerts, os.environ),
            alert_on=chosen.alerts.alert_on,
            log=Log(sys.stderr),
        )
        feedback = chosen.feedback
        for number in dict.fromkeys(
            [project, *(one for study in studies.values() for one in study.projects)]
            if project is not None else ()
        ):  # fmt: skip
            server = Server(number, store, url, token_file, configured.file, 30.0, moved=False)
            pushes = feedback.push and number == project
            if pushes:
                server.address()
            service.projects.append(
                ServedProject(
                    service, number,
                    partial(_opened, server, engine, options),
                    reconcile_s=reconcile_s,
                    policy=feedback.policy() if pushes else None,
                    push_s=feedback.push_every_s,
                    relabel=feedback.relabel,
                )
            )  # fmt: skip
            stack.callback(service.projects[-1].close)
        if rules.secret is None and not insecure_webhook:
            tell(
                "no secret is set, so all events are refused; give --webhook-secret-file or "
                "BBQ_WEBHOOK_SECRET",
                what="Warning",
            )
        slow = threading.Timer(_PATIENCE_S, _still_starting)
        slow.daemon = True
        slow.start()
        stack.callback(slow.cancel)

        def ready(address: str) -> None:
            slow.cancel()
            click.echo(f"Serving {address} (Ctrl-C to stop)", err=True)
            sys.stderr.flush()

        run(service, door, ready)


def _opened(
    server: Server, engine: Engine, options: dict[str, Any], notice: Callable[[str], None]
) -> AbstractContextManager[tuple[Project, Memory]]:
    return server.open(engine.store, options, notice=notice)


def _still_starting() -> None:
    click.echo(
        "Starting: code is compiled on first use, before the port opens; on a new machine this "
        "may take half a minute",
        err=True,
    )
    sys.stderr.flush()


def _known_server(engine: Engine) -> tuple[str | None, dict[str, Any]]:
    """Where the answers were pulled from, and how they are read, if that is one place and way."""
    from bbq_plugin.store.project_sync import servers

    found = servers(engine.store)
    urls, options = [url for url, _ in found], [options for _, options in found]
    url = urls[0] if len(set(urls)) == 1 else None
    return url, options[0] if options and options.count(options[0]) == len(options) else {}


def _address(url: str | None) -> str | None:
    """An address that a link may lead to."""
    return url.rstrip("/") if url and url.startswith(("http://", "https://")) else None


def _check_installed() -> None:
    try:
        import jinja2  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UnsupportedError(
            f"bbq serve needs {error.name}, which is not installed; "
            "run: pip install 'bbq-plugin[serve]'"
        ) from None
