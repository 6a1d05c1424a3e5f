"""`bbq convert` and `bbq prepare`: comparisons written for other tools, or as a prepared set."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bbq_plugin.cli.main import Command
from bbq_plugin.cli.options import FILE, Choice, Input, expanded, reading_options, together
from bbq_plugin.cli.output import check_writable, progress, tell, working
from bbq_plugin.data.database_table import is_database
from bbq_plugin.errors import UsageError
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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


@click.command(cls=Command)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder of the set, such as votes.bbq. If it is a set already, FILES are appended.",
)
@click.option(
    "--keep",
    default="side",
    show_default=True,
    help="What to keep besides rater, items and outcome: side, time, names of tags; or none. Rows "
    "that are equal in all that is kept become one.",
)
@click.option(
    "--memory",
    default="2GB",
    show_default=True,
    help="Memory that the database may use; beyond this, it uses the disk.",
)
@click.option(
    "--parts",
    type=click.IntRange(1, 4096),
    help="Number of parts to divide the raters into. Default: by the number of votes.",
)
@click.option("--retract", is_flag=True, help="Retract the votes of FILES instead.")
@reading_options
def prepare(
    source: Input,
    output: Path,
    keep: str,
    memory: str,
    parts: int | None,
    retract: bool,  # noqa: FBT001 (click passes by keyword)
) -> None:
    """Write votes as a prepared set, which every command reads.

    Parquet and CSV files whose columns are named by -O (left, right and winner, or winner and
    loser; rater, weight, time, at, values) are read by DuckDB within --memory, and so is the
    --table of a database, if FILES is its address (postgresql://…). All other FILES are read as
    every command reads them, in memory.
    """
    from bbq_plugin.scale.prepared_set import (
        Preparation,
        all_named,
        checked_keep,
        from_database,
        from_lake,
        memory_bytes,
        prepare_comparisons,
        prepare_database,
        prepare_lake,
    )

    kept = checked_keep(keep.split(","))
    memory_bytes(memory)  # refuses what is no size
    with progress("Preparing") as move:

        def moved(done: int, of: int) -> None:
            move(completed=done, total=of)

        how = Preparation(
            output, kept, parts, memory, retract, source.strict, source.max_skipped, moved
        )
        files = _files(source) if _reads_lake(source) else []
        roles = _roles(source.options)
        if from_lake(files, roles, source.adapter):
            found = prepare_lake(files, roles, how)
        elif from_database(files, roles, source.adapter):
            found = prepare_database(files[0], roles, how)
        else:
            if all_named(files, roles, source.adapter):
                # What DuckDB does not read of such a table is read in memory.
                source = replace(source, adapter="table")
            tags = tuple(name for name in kept if name not in ("side", "time"))
            found = prepare_comparisons(source.read(tags), how)
    tell(f"{found.path} has {found.held}", *found.manifest.batches[-1].warnings)


def _roles(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, with what the values mean as a mapping."""
    values = options.get("values")
    if not isinstance(values, str):
        return dict(options)
    from bbq_plugin.plugins import as_mapping

    return {**options, "values": as_mapping("values", values)}


def _files(source: Input) -> list[str]:
    """What to read, patterns expanded; DuckDB itself looks up addresses."""
    found: list[str] = []
    for name in source.files:
        found += [name] if _is_remote(name) else expanded((name,))
    return found


def _is_remote(name: str) -> bool:
    return "://" in name and not is_database(name)


def _reads_lake(source: Input) -> bool:
    """Whether nothing was asked for that only reading in memory does."""
    simple = not (source.store or source.where or source.rename or source.drop_rater or source.key)
    if any(map(_is_remote, source.files)) and not simple:
        raise UsageError("files at an address are read by DuckDB, without filters and renaming")
    return simple and source.prepared() is None
