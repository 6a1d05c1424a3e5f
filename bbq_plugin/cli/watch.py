"""`bbq watch`: read what arrives in a folder, and keep the results up to date."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

import click

from bbq_plugin.cli import settings
from bbq_plugin.cli.group import Command

if TYPE_CHECKING:
    from bbq_plugin.cli.settings import Configured
    from bbq_plugin.live.watch.log import LogFormat


@click.command(cls=Command)
@click.option("--once", is_flag=True, help="Read what is there, write the results, and leave.")
@settings.options
def watch(configured: Configured, once: bool) -> None:  # noqa: FBT001 (click's)
    """Read what arrives in FOLDER, and write the results anew after each batch.

    A file has arrived when it is closed, renamed into place, or has not changed for a while. Stop
    with Ctrl-C or SIGTERM; SIGHUP reads the configuration again. What happens is told on standard
    error, one line an event.
    """
    chosen = configured.load()
    for name in ("folder", "store", "out"):
        chosen.path(name)
    from bbq_plugin.live.watch import Daemon, Log

    log = Log(sys.stderr, cast("LogFormat", chosen.log_format))
    Daemon(chosen, configured.load, log).run(once=once)
