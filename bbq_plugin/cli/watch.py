"""`bbq watch`: read what arrives in a folder, and keep the results up to date."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

import click

from bbq_plugin.cli import settings
from bbq_plugin.cli.main import Command
from bbq_plugin.cli.remote import Server, place_options

if TYPE_CHECKING:
    from pathlib import Path

    from bbq_plugin.cli.settings import Configured
    from bbq_plugin.config import Settings
    from bbq_plugin.live.watch.log import LogFormat


@click.command(cls=Command)
@click.option("--once", is_flag=True, help="Read what is there, write the results, and leave.")
@settings.options
@place_options
def watch(
    configured: Configured,
    once: bool,  # noqa: FBT001 (click's)
    url: str | None,
    token_file: Path | None,
) -> None:
    """Read what arrives in FOLDER, and write the results anew after each batch.

    A file has arrived when it is closed, renamed into place, or has not changed for a while. Stop
    with Ctrl-C or SIGTERM; SIGHUP reads the configuration again. What happens is told on standard
    error, one line an event. With --push, a plan of feedback for a Label Studio project follows
    each refresh; only what --auto-apply names is written.
    """
    chosen = configured.load()
    for name in ("folder", "store", "out"):
        chosen.path(name)
    from bbq_plugin.live.watch import Daemon, Log
    from bbq_plugin.live.watch.daemon import Parts

    warned: set[str] = set()

    def server(now: Settings) -> Server:
        number = now.feedback.project or 0
        return Server(
            number, now.path("store"), url, token_file, configured.file, 30.0,
            moved=False, warned=warned,
        )  # fmt: skip

    chosen.feedback.check()
    if chosen.feedback.push:
        server(chosen).place()
    log = Log(sys.stderr, cast("LogFormat", chosen.log_format))
    parts = Parts(reach=lambda now, store, notice: server(now).open(store, notice=notice))
    Daemon(chosen, configured.load, log, parts=parts).run(once=once)
