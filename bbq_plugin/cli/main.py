"""`bbq`: the group of all commands, loaded when they are used; errors become exit codes.

Imports stand inside the commands: neither `bbq --help` nor an error should wait for numba.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import click
from click.shell_completion import get_completion_class

from bbq_plugin import __version__
from bbq_plugin.cli.output import leave_pipe
from bbq_plugin.errors import BBQError, UsageError, did_you_mean
from bbq_plugin.text import plain

#: Where the context keeps what was typed.
ARGUMENTS = "bbq_plugin.arguments"

#: The module of `bbq_plugin.cli` that has a command, in the order of use.
HOMES = {
    "inspect": "inspect",
    "fit": "fit",
    "raters": "fit",
    "pairs": "fit",
    "evaluate": "fit",
    "convert": "convert",
    "prepare": "convert",
    "pull": "projects",
    "push": "projects",
    "serve": "live",
    "connect": "projects",
    "watch": "live",
    "status": "store",
    "store": "store",
    "formats": "inspect",
    "simulate": "simulate",
    "demo": "simulate",
    "completion": "main",
}


class Command(click.Command):
    """A command whose wrong use is reported with its own usage line."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run it."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            lines = [_printable(error), *_further_lines(error, ctx)]
            raise click.UsageError("\n".join(lines), ctx) from error


class Group(click.Group):
    """Commands in the order of use; an unknown one is refused with the nearest name."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        """In the order of use, not of the alphabet."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one was probably meant."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            hint = did_you_mean(args[0], self.list_commands(ctx))
            ctx.fail(f"No such command {args[0]!r}{hint or '.'}")
        return super().resolve_command(ctx, args)


class Commands(Group):
    """Loads a command when it is used, and turns this package's errors into exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All of them, loaded or not."""
        return list(HOMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load the module of a command."""
        if cmd_name not in HOMES:
            return None
        module = import_module(f"bbq_plugin.cli.{HOMES[cmd_name]}")
        return cast("click.Command", getattr(module, cmd_name))

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run as a program, also for a caller who closed standard input or output."""
        # Passes use all cores; threads of numpy's BLAS would wait beside them, busily.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        # Kernels that are compiled and files that are read leave millions of objects that stay:
        # to look through them for cycles every 700 objects was a fifth of the first command.
        gc.set_threshold(10_000, 10, 10)
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
        """Run a command; errors of the user or the data are printed without a traceback."""
        try:
            return super().invoke(ctx)
        except (BBQError, OSError, UnicodeEncodeError) as error:
            if isinstance(error, BrokenPipeError):
                # The reader has closed the pipe, as in `bbq fit votes.jsonl | head -1`.
                leave_pipe()
                ctx.exit(0)
            further = _further_lines(error, ctx)
            said = (
                error.for_command_line()
                if further and hasattr(error, "for_command_line")
                else error
            )
            click.echo(f"Error: {_printable(said)}", err=True)
            for line in further:
                click.echo(line, err=True)
            ctx.exit(1)
        except RuntimeError as error:
            # numba's, where neither the package nor the home folder can be written.
            if "cannot cache function" not in str(error):
                raise
            remedy = "set NUMBA_CACHE_DIR to a folder that you can write to"
            click.echo(f"Error: there is no folder for compiled code; {remedy}", err=True)
            ctx.exit(1)


def _further_lines(error: Exception, ctx: click.Context) -> list[str]:
    """Commands to paste, where the error knows of some."""
    if not (hasattr(error, "readings") or hasattr(error, "more_words")):
        return []
    from bbq_plugin.cli.suggested_commands import try_lines

    return list(try_lines(error, ctx))


def _printable(error: Exception | str) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return plain(f"{where}{error.strerror}")
    if isinstance(error, UnicodeEncodeError):
        return plain(
            f"a name cannot be written as UTF-8 ({error.object!r}); correct it in the file"
        )
    return plain(str(error))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="bbq")
def main() -> None:
    """Leaderboards with honest intervals, and rater quality, from pairwise votes."""


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a SHELL.

    \b
    bash:  bbq completion bash > ~/.local/share/bash-completion/completions/bbq
    zsh:   bbq completion zsh > ~/.zfunc/_bbq     (a folder of $fpath)
    fish:  bbq completion fish > ~/.config/fish/completions/bbq.fish
    """
    kind = get_completion_class(shell)
    if kind is None:  # every shell above is known to click
        raise click.UsageError(f"no completion for {shell}")
    script = kind(ctx.find_root().command, {}, "bbq", "_BBQ_COMPLETE")
    # Not .source(): that one starts the shell to ask for its version.
    click.echo(script.source_template % script.source_vars())
