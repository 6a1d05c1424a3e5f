"""The frame around all commands: errors become one line and an exit code, typing errors a hint."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from bbq_plugin.cli.options import near_miss
from bbq_plugin.cli.output import leave_pipe
from bbq_plugin.errors import BBQError, UsageError

ARGUMENTS = "bbq_plugin.arguments"


class Command(click.Command):
    """A command whose wrong use is told together with its own usage line."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run it."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            raise click.UsageError(_printable(error), ctx) from error


class Group(click.Group):
    """Commands in the order of use; one that is not there is told with what was meant."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        """In the order of use, not of the alphabet."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one was probably meant."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            hint = near_miss(args[0], self.list_commands(ctx))
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


class Commands(Group):
    """Turns this package's errors into a line on standard error and an exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run as a program, also for a caller who closed standard input or output."""
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:
                # It stays open as long as the program runs.
                setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
        return super().main(*args, **kwargs)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what was typed, for the report; then parse it."""
        ctx.meta[ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what the user or the data did wrong is told, not traced."""
        try:
            return super().invoke(ctx)
        except (BBQError, OSError, UnicodeEncodeError) as error:
            if isinstance(error, BrokenPipeError):
                # Whoever reads has seen enough, as in `bbq fit votes.jsonl | head -1`.
                leave_pipe()
                ctx.exit(0)
            click.echo(f"Error: {_printable(error)}", err=True)
            ctx.exit(1)
        except RuntimeError as error:
            # numba's, where neither the package nor the home folder can be written.
            if "cannot cache function" not in str(error):
                raise
            remedy = "set NUMBA_CACHE_DIR to a folder of your own that can be written"
            click.echo(f"Error: there is no place for compiled code; {remedy}", err=True)
            ctx.exit(1)


def _printable(error: Exception) -> str:
    from bbq_plugin.text import plain

    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return plain(f"{where}{error.strerror}")
    if isinstance(error, UnicodeEncodeError):
        return plain(f"a name cannot be written as UTF-8 ({error.object!r}); mend it in the file")
    return plain(str(error))
