"""The command line: it parses, calls and prints. The work is done elsewhere.

Imports stand inside the commands, because `bbq --help` should not wait for numba.
"""

from __future__ import annotations

import click

from bbq_plugin import __version__
from bbq_plugin.cli.completion import completion
from bbq_plugin.cli.connect import connect
from bbq_plugin.cli.convert import convert
from bbq_plugin.cli.evaluate import evaluate
from bbq_plugin.cli.fit import fit
from bbq_plugin.cli.formats import formats
from bbq_plugin.cli.main import Commands
from bbq_plugin.cli.pairs import pairs
from bbq_plugin.cli.pull import pull
from bbq_plugin.cli.push import push
from bbq_plugin.cli.raters import raters
from bbq_plugin.cli.serve import serve
from bbq_plugin.cli.status import status
from bbq_plugin.cli.store import store
from bbq_plugin.cli.study import demo, simulate
from bbq_plugin.cli.watch import watch

__all__ = ["main"]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="bbq")
def main() -> None:
    """Leaderboards with honest intervals, and rater quality, from pairwise votes."""


for _command in (
    fit, raters, pairs, evaluate, convert, pull, push, serve, connect, watch, status, store,
    formats, simulate, demo, completion,
):  # fmt: skip
    main.add_command(_command)
