"""`bbq convert`: weighted comparisons as a file for this and other tools."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bbq_plugin.cli.inputs import Input, reading_options
from bbq_plugin.cli.main import Command
from bbq_plugin.cli.options import Choice
from bbq_plugin.cli.output import check_writable, tell, working
from bbq_plugin.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbq_plugin.data.dataset import Comparisons

_SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


def convert_options(command: Any) -> Any:
    """--layout, --format and --output."""
    options = [
        click.option(
            "--layout",
            type=Choice(["bbq", "evalica", "crowd-kit", "choix"]),
            default="bbq",
            show_default=True,
            help="Whose columns: bbq reads its own back exactly.",
        ),
        click.option(
            "--format",
            "file_format",
            type=Choice(["csv", "jsonl", "parquet"]),
            help="Default: what the suffix of OUTPUT tells, else csv.",
        ),
        click.option(
            "-o",
            "--output",
            type=click.Path(path_type=Path),
            help="File to write; else it is printed.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command(cls=Command)
@convert_options
@reading_options
def convert(source: Input, layout: Any, file_format: Any, output: Path | None) -> None:
    """Write comparisons for this and other tools.

    Every row of the output has rater, winner, loser and weight; a tie in FILES is two rows of
    half the weight, one each way. Other layouts are for other tools.
    """
    write_converted(source.read, layout, file_format, output)


def write_converted(
    read: Callable[[], Comparisons], layout: Any, file_format: Any, output: Path | None
) -> None:
    """Write comparisons; they are read when it is known that they can be written."""
    from bbq_plugin.data.export import write_comparisons
    from bbq_plugin.report.files import open_atomically
    from bbq_plugin.text import plain

    chosen = file_format or _by_suffix(output)
    check_writable(output)
    if output is None and chosen == "parquet" and sys.stdout.isatty():
        raise UsageError("Parquet is not for a terminal; name a file with -o")
    data = read()
    with working("Writing"):
        if output is not None:
            with open_atomically(output) as file:
                notes = write_comparisons(data, file, chosen, layout)
        elif sys.stdout.isatty():
            shown = io.BytesIO()
            notes = write_comparisons(data, shown, chosen, layout)
            # Names may hold what acts on a terminal; in a file or a pipe they stay exact.
            for line in shown.getvalue().decode().split("\n")[:-1]:
                click.echo(plain(line))
        else:
            notes = write_comparisons(data, sys.stdout.buffer, chosen, layout)
            sys.stdout.buffer.flush()
    tell(*notes)


def _by_suffix(output: Path | None) -> Any:
    if output is None:
        return "csv"
    said = _SUFFIXES.get(output.suffix.lower())
    if said is None:
        raise UsageError(
            f"the suffix of {str(output)!r} tells no format; use {', '.join(_SUFFIXES)} "
            "or name one with --format"
        )
    return said
