"""`bbq status` and `bbq store`: what a store holds, and whether it is intact."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bbq_plugin.cli.formats import convert_options, write_converted
from bbq_plugin.cli.main import Command, Group
from bbq_plugin.cli.options import Choice
from bbq_plugin.cli.output import emit, show, tell, working
from bbq_plugin.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from bbq_plugin.store import SourceEntry
    from bbq_plugin.store.sources import FitNote, Status

# More on a screen are noise; the JSON document has all of them.
SHOWN = 20

NEWEST = 10


store_option = click.option(
    "--store",
    type=click.Path(path_type=Path),
    required=True,
    envvar="BBQ_STORE",
    help="The store that `bbq watch` or a program keeps. Or: BBQ_STORE in the environment.",
)


@click.command(cls=Command)
@store_option
@click.option(
    "--format",
    "output_format",
    type=Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="table: for people. json: all of it.",
)
def status(store: Path, output_format: str) -> None:
    """Say what a store has read and fitted.

    It works while `bbq watch` writes the store: what was read, what was refused and why, what
    waits, when it was last fitted, and who writes it.
    """
    from bbq_plugin.store.sources import status_of

    found = status_of(store)
    if output_format == "json":
        from bbq_plugin.report.json import report_json

        emit(report_json(found.document()), None)
    else:
        show(_status_parts(found), None)


def _status_parts(found: Status) -> Iterator[RenderableType]:
    from rich.text import Text

    from bbq_plugin.text import counted, plain

    counts = found.counts
    yield Text(
        f"{plain(found.store)}: {counted(counts.n_comparisons, 'comparison')}, "
        f"{counted(counts.n_items, 'item')}, {counted(counts.n_raters, 'rater')}"
    )
    yield Text(f"Fitted: {_fitted(found)}")
    yield Text(f"Writer: {plain(str(found.writer)) if found.writer else 'nobody at present'}")
    sources = ", ".join(f"{n:,} {word}" for word, n in found.n_sources().items())
    yield Text(f"Sources: {sources}")
    for word in ("refused", "waiting"):
        yield from _with_reasons(word, [one for one in found.sources if one.status == word])
    yield from _skipped(found.skipped())
    yield from _newest(found.sources)


def _fitted(found: Status) -> str:
    if found.last_fit is None:
        return "not yet"
    text = _fit_note(found.last_fit)
    if found.last_full_fit is not None and found.last_full_fit != found.last_fit:
        text += f"; in full {_fit_note(found.last_full_fit, how=False)}"
    return text


def _fit_note(note: FitNote, *, how: bool = True) -> str:
    kind = f"{note.how}, " if how else ""
    return f"{_moment(note.at)} ({kind}{note.n_comparisons:,} comparisons)"


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _with_reasons(word: str, entries: list[SourceEntry]) -> Iterator[RenderableType]:
    if not entries:
        return
    newest = sorted(entries, key=lambda one: -one.at)[:SHOWN]
    rows = [(_name(one), _moment(one.at), one.reason or "") for one in newest]
    yield _reasons_table((word, "since", "why"), rows)
    yield from _more(len(entries) - len(newest))


def _skipped(reasons: dict[str, int]) -> Iterator[RenderableType]:
    if not reasons:
        return
    shown = list(reasons.items())[:SHOWN]
    yield _reasons_table(
        ("rows left out", "why"), [(f"{n:,}", reason) for reason, n in shown], right=1
    )
    yield from _more(len(reasons) - len(shown))


def _newest(sources: tuple[SourceEntry, ...]) -> Iterator[RenderableType]:
    taken = sorted((one for one in sources if one.n_rows), key=lambda one: -one.at)
    if not taken:
        return
    rows = [
        (_name(one), _moment(one.at), one.adapter or one.kind, f"{one.n_rows:,}",
         f"{one.n_skipped:,}")
        for one in taken[:NEWEST]
    ]  # fmt: skip
    yield _reasons_table(("read last", "at", "as", "rows", "left out"), rows, right=2)
    yield from _more(len(taken) - len(rows))


def _name(entry: SourceEntry) -> str:
    return entry.name or entry.kind


def _more(n: int) -> Iterator[RenderableType]:
    from rich.text import Text

    if n > 0:
        yield Text(f"… and {n:,} more (--format json has all of them)", style="dim")


def _reasons_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: int = 0
) -> RenderableType:
    """Cells of untrusted text; the last columns, or the first of two, are numbers."""
    from rich.table import Table
    from rich.text import Text

    from bbq_plugin.text import plain

    table = Table(box=None, padding=(0, 2), pad_edge=False, title=None)
    numbers = {0} if right == 1 else set(range(len(heads) - right, len(heads)))
    for i, head in enumerate(heads):
        align = "right" if i in numbers else "left"
        table.add_column(head, overflow="fold", justify=align)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    return table


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
