"""`bbq prepare`: votes into a prepared set, for fits of more than the memory holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bbq_plugin.cli.inputs import Input, expanded, reading_options
from bbq_plugin.cli.main import Command
from bbq_plugin.cli.output import progress, tell
from bbq_plugin.data.database_table import is_database
from bbq_plugin.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


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
    help="How much memory the database may use; beyond, it uses the disk.",
)
@click.option(
    "--parts",
    type=click.IntRange(1, 4096),
    help="Into how many parts raters fall. Default: by the number of votes.",
)
@click.option("--retract", is_flag=True, help="Take the votes of FILES back instead.")
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
    from bbq_plugin.scale.preparation import (
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
