"""`bbq store`: whether a store is whole, and what it holds as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bbq_plugin.cli.convert import convert_options, write_converted
from bbq_plugin.cli.main import Command, Group
from bbq_plugin.cli.output import emit, tell, working
from bbq_plugin.errors import StoreError

store_option = click.option(
    "--store",
    type=click.Path(path_type=Path),
    required=True,
    envvar="BBQ_STORE",
    help="The store that `bbq watch` or a program keeps. Or: BBQ_STORE in the environment.",
)


@click.group(cls=Group)
def store() -> None:
    """Check, shrink or export a store."""


@store.command(cls=Command)
@store_option
def check(store: Path) -> None:
    """Check that a store is whole.

    SQLite's own check, and that the rows, the columns and the counts agree. It only reads, also
    while another process writes.
    """
    from bbq_plugin.store import Store
    from bbq_plugin.text import counted, plain

    with working("Checking"), Store(store, writable=False) as opened:
        problems = opened.check()
        counts = opened.counts()
    if problems:
        tell(*problems, what="Problem")
        raise StoreError(
            f"{store}: this store is not whole; take a copy of it, then try 'bbq store vacuum', "
            "which writes anew what can be; if that does not help, name another store and read "
            "the files again"
        )
    emit(f"{plain(str(store))} is whole: {counted(counts.n_comparisons, 'comparison')}\n", None)


@store.command(cls=Command)
@store_option
def vacuum(store: Path) -> None:
    """Give back the space that a store no longer needs.

    Nothing may write the store meanwhile. Needs about as much free space as the store itself.
    """
    from bbq_plugin.store import Store
    from bbq_plugin.text import plain

    before = _size(store)
    with working("Writing anew"), Store(store) as opened:
        opened.vacuum()
    emit(f"{plain(str(store))}: {before:,} bytes before, {_size(store):,} now\n", None)


@store.command(cls=Command)
@convert_options
@store_option
def export(store: Path, layout: Any, file_format: Any, output: Path | None) -> None:
    """Write all comparisons of a store.

    As `bbq convert` writes those of files: every row has rater, winner, loser and weight, and a
    tie is two rows of half the weight, one each way.
    """
    from bbq_plugin.store import read_store

    def read() -> Any:
        with working("Reading"):
            return read_store(store)

    write_converted(read, layout, file_format, output)


def _size(path: Path) -> int:
    if not path.is_file():
        raise StoreError(f"{path}: there is no such store; check the path (bbq watch makes one)")
    return sum(
        file.stat().st_size for file in (path, path.with_name(f"{path.name}-wal")) if file.exists()
    )
