"""`bbq convert`: comparisons written for this and other tools."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bbq_plugin.cli.inputs import Input, reading_options
from bbq_plugin.cli.main import Command
from bbq_plugin.cli.options import FILE, Choice, together
from bbq_plugin.cli.output import check_writable, tell, working
from bbq_plugin.errors import UsageError
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbq_plugin.data.dataset import Comparisons

_PREFLIB = ("soc", "soi", "toc", "toi")
_FORMAT_OF_SUFFIX = {
    ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".parquet": "parquet",
    **{f".{kind}": kind for kind in _PREFLIB},
}  # fmt: skip


#: --layout, --format and --output.
convert_options = together(
    click.option(
        "--layout",
        type=Choice(["bbq", "arena", "evalica", "crowd-kit", "choix", "preflib"]),
        help="The columns of which tool; bbq reads wins, ties and weights of its own layout back "
        "exactly. Default: bbq, or preflib for its suffixes.",
    ),
    click.option(
        "--format",
        "file_format",
        type=Choice(["csv", "jsonl", "json", "parquet", *_PREFLIB]),
        help="Default: by the suffix of OUTPUT, else csv (toi for preflib). json is for choix; "
        "soc, soi, toc and toi are for preflib.",
    ),
    click.option("-o", "--output", type=FILE, help="File to write. Default: standard output."),
)


@click.command(cls=Command)
@convert_options
@reading_options
def convert(source: Input, layout: Any, file_format: Any, output: Path | None) -> None:
    """Write comparisons for this and other tools.

    Each row of the output has rater, winner, loser and weight, and where there are ties a column
    tie: 1 for a tie, 0 for a win. Other layouts are those of other tools, and bbq reads them too.
    What a layout cannot hold (raters, weights, ties) is refused or said in a note; times, tags and
    ids are in none, and the sides of the items only in arena and evalica.
    """
    write_converted(source.read, layout, file_format, output)


def write_converted(
    read: Callable[[], Comparisons], layout: Any, file_format: Any, output: Path | None
) -> None:
    """Write comparisons; they are read only after it is known that they can be written."""
    chosen = file_format or _by_suffix(output, layout)
    layout = layout or ("preflib" if chosen in _PREFLIB else "bbq")
    check_writable(output)
    if output is None and chosen == "parquet" and sys.stdout.isatty():
        raise UsageError("Parquet cannot be printed on a terminal; name a file with -o")
    data = read()
    from bbq_plugin.data.export import write_comparisons
    from bbq_plugin.report.documents import open_atomically

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


def _by_suffix(output: Path | None, layout: str | None) -> Any:
    if output is None:
        return "toi" if layout == "preflib" else "csv"
    said = _FORMAT_OF_SUFFIX.get(output.suffix.lower())
    if said is None:
        raise UsageError(
            f"the suffix of {str(output)!r} is of no known format; "
            f"use {', '.join(_FORMAT_OF_SUFFIX)} or name a format with --format"
        )
    return said
