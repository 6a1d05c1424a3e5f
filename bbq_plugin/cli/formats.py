"""`bbq formats` and `bbq convert`: what can be read, and what can be written."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bbq_plugin.cli.inputs import Input, reading_options
from bbq_plugin.cli.main import Command
from bbq_plugin.cli.options import FILE, Choice, together
from bbq_plugin.cli.output import check_writable, emit, plain_table, show, tell, working
from bbq_plugin.errors import UsageError
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

    from bbq_plugin.data.dataset import Comparisons
    from bbq_plugin.plugins import Description

SCHEMA = "bbq.formats/1"


@click.command(cls=Command)
@click.argument("adapter", required=False)
@click.option("--json", "as_json", is_flag=True, help="As JSON, with the schema bbq.formats/1.")
def formats(adapter: str | None, as_json: bool) -> None:  # noqa: FBT001 (click passes by keyword)
    """List what can be read, or describe one ADAPTER."""
    from bbq_plugin.plugins import describe

    found = describe(adapter)
    if as_json:
        from dataclasses import asdict

        from bbq_plugin.report.documents import report_json

        document = {"schema": SCHEMA, "adapters": [asdict(one) for one in found]}
        emit(report_json(document), None)
    else:
        show(_format_tables(found), None)


def _format_tables(found: tuple[Description, ...]) -> Iterator[RenderableType]:
    from rich.text import Text

    for one in found:
        yield Text.assemble((plain(one.name), "bold"), f"  {plain(one.summary)}")
        yield Text(f"  {plain(one.recognised)}")
        if one.options:
            heads = ("option", "takes", "default", "meaning")
            rows = ((each.name, each.takes, each.default, each.help) for each in one.options)
            yield plain_table(heads, rows, indented=True)
        yield Text("")


_FORMAT_OF_SUFFIX = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


#: --layout, --format and --output.
convert_options = together(
    click.option(
        "--layout",
        type=Choice(["bbq", "evalica", "crowd-kit", "choix"]),
        default="bbq",
        show_default=True,
        help="The columns of which tool; bbq reads its own layout back exactly.",
    ),
    click.option(
        "--format",
        "file_format",
        type=Choice(["csv", "jsonl", "parquet"]),
        help="Default: by the suffix of OUTPUT, else csv.",
    ),
    click.option("-o", "--output", type=FILE, help="File to write. Default: standard output."),
)


@click.command(cls=Command)
@convert_options
@reading_options
def convert(source: Input, layout: Any, file_format: Any, output: Path | None) -> None:
    """Write comparisons for this and other tools.

    Each row of the output has rater, winner, loser and weight. A tie in FILES becomes two rows of
    half the weight, one each way.
    """
    write_converted(source.read, layout, file_format, output)


def write_converted(
    read: Callable[[], Comparisons], layout: Any, file_format: Any, output: Path | None
) -> None:
    """Write comparisons; they are read only after it is known that they can be written."""
    chosen = file_format or _by_suffix(output)
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


def _by_suffix(output: Path | None) -> Any:
    if output is None:
        return "csv"
    said = _FORMAT_OF_SUFFIX.get(output.suffix.lower())
    if said is None:
        raise UsageError(
            f"the suffix of {str(output)!r} is of no known format; "
            f"use {', '.join(_FORMAT_OF_SUFFIX)} or name a format with --format"
        )
    return said
