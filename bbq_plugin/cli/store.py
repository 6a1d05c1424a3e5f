"""`bbq status` and `bbq store`: what a store holds, and whether it is intact."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bbq_plugin.cli.convert import convert_options, write_converted
from bbq_plugin.cli.main import Command, Group
from bbq_plugin.cli.options import FILE, option_of, table_or_json_option
from bbq_plugin.cli.output import emit, plain_table, show, tell, working
from bbq_plugin.errors import StoreError
from bbq_plugin.text import counted, moment, plain

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from rich.console import RenderableType

    from bbq_plugin.live.health import Health
    from bbq_plugin.store.sources_and_status import Status
    from bbq_plugin.store.studies import FitNote

# More on a screen are noise; the JSON document has all of them.
SHOWN = 20
NEWEST = 10


store_option = click.option(
    "--store",
    type=FILE,
    required=True,
    envvar="BBQ_STORE",
    help="The store of `bbq watch` or of a program. Default: BBQ_STORE in the environment.",
)


@click.command(cls=Command)
@store_option
@table_or_json_option
def status(store: Path, output_format: str) -> None:
    """Show what a store has read and fitted.

    What was read, what was refused and why, what is waiting, when the last fit was made, and which
    process writes the store. It also works while `bbq watch` writes.
    """
    from bbq_plugin.live.health import stored_health
    from bbq_plugin.store.sources_and_status import status_of

    found = status_of(store)
    health = stored_health(found, time.time())
    if output_format == "json":
        from bbq_plugin.report.documents import report_json

        emit(report_json({**found.document(), "health": health.document()}), None)
    else:
        show(_status_parts(found, health), None)


def _status_parts(found: Status, health: Health) -> Iterator[RenderableType]:
    from rich.text import Text

    counts = found.counts
    yield Text(
        f"{plain(found.store)}: {counted(counts.n_comparisons, 'comparison')}, "
        f"{counted(counts.n_items, 'item')}, {counted(counts.n_raters, 'rater')}"
    )
    if len(found.studies) > 1 or any(one.questions for one in found.studies):
        yield Text("Studies:")
        for one in found.studies:
            if not (one.n_comparisons or one.questions):
                continue
            about = f" ({one.described})" if one.questions else ""
            n = counted(one.n_comparisons, "comparison")
            yield Text(f"  {plain(one.name)}: {n}{about}")
    yield Text(f"Fitted: {_fitted(found)}")
    if found.panel:
        yield Text(f"Camps: {found.n_camps}. {plain(found.panel)}")
    said = health.lines
    if found.writer is None and not health.sentences:
        said = ["Nothing is known to be wrong, and no program writes this store now"]
    yield Text(f"Health: {health.colour}. {'. '.join(said)}.")
    yield Text(f"Writer: {plain(str(found.writer)) if found.writer else 'none'}")
    sources = ", ".join(f"{n:,} {word}" for word, n in found.n_sources().items())
    yield Text(f"Sources: {sources}")
    newest = sorted(found.sources, key=lambda one: -one.at)
    for word in ("refused", "waiting"):
        of_word = [one for one in newest if one.status == word]
        reasons = [(one.name or one.kind, moment(one.at), one.reason or "") for one in of_word]
        yield from _listed((word, "since", "reason"), reasons, SHOWN)
    skipped = [(f"{n:,}", reason) for reason, n in found.skipped().items()]
    yield from _listed(("rows skipped", "reason"), skipped, SHOWN, ("rows skipped",))
    several = len({one.study for one in newest}) > 1
    taken = [
        (one.name or one.kind, *([found.study_of(one)] if several else []), moment(one.at),
         one.adapter or one.kind, f"{one.n_rows:,}", f"{one.n_skipped:,}")
        for one in newest if one.n_rows
    ]  # fmt: skip
    heads = ("last read", *(["study"] if several else []), "at", "as", "rows", "skipped")
    yield from _listed(heads, taken, NEWEST, ("rows", "skipped"))


def _fitted(found: Status) -> str:
    if found.last_fit is None:
        return "not yet"
    text = _fit_note(found.last_fit)
    if found.last_full_fit is not None and found.last_full_fit != found.last_fit:
        text += f"; in full {_fit_note(found.last_full_fit, how=False)}"
    return text


def _fit_note(note: FitNote, *, how: bool = True) -> str:
    kind = f"{note.how}, " if how else ""
    return f"{moment(note.at)} ({kind}{note.n_comparisons:,} comparisons)"


def _listed(
    heads: Sequence[str], rows: Sequence[Sequence[str]], most: int, numbers: Collection[str] = ()
) -> Iterator[RenderableType]:
    from rich.text import Text

    if rows:
        yield plain_table(heads, rows[:most], numbers)
    if len(rows) > most:
        yield Text(f"… and {len(rows) - most:,} more; --format json has all", style="dim")


@click.group(cls=Group)
def store() -> None:
    """Check, back up, restore or export a store; erase a rater."""


@store.command(cls=Command)
@store_option
def check(store: Path) -> None:
    """Check that a store is intact.

    It runs SQLite's own check, and checks that rows, columns and counts agree. It only reads, and
    works while another process writes.
    """
    from bbq_plugin.store import Store

    with working("Checking"), Store(store, writable=False) as opened:
        problems = opened.check()
        counts = opened.counts()
        notes = () if problems else opened.left_out().notes
    tell(*notes, what="Warning")
    if problems:
        tell(*problems, what="Problem")
        raise StoreError(
            f"{store}: this store is damaged; make a copy of it, then run 'bbq store vacuum', "
            "which rewrites all that can be read; if that does not help, read the files again "
            "into a new store"
        )
    emit(f"{plain(str(store))} is intact: {counted(counts.n_comparisons, 'comparison')}\n", None)


@store.command(cls=Command)
@store_option
def vacuum(store: Path) -> None:
    """Free the space that a store no longer needs.

    No other process may write the store meanwhile. Needs about as much free space as the store
    itself.
    """
    from bbq_plugin.store import Store

    before = _size(store)
    with working("Rewriting"), Store(store) as opened:
        opened.vacuum()
    emit(f"{plain(str(store))}: {before:,} bytes before, {_size(store):,} now\n", None)


@store.command(cls=Command)
@store_option
@click.option("-o", "--output", type=FILE, required=True, help="The file of the backup.")
def backup(store: Path, output: Path) -> None:
    """Copy a store to a FILE, also while another process writes it.

    The copy is of one moment, and complete: FILE is replaced when all of it is written and checked.
    Do not copy a store with `cp` while it is in use: its newest answers are in other files.
    """
    from bbq_plugin.store.database_file import back_up

    with working("Copying"):
        n = back_up(store, output)
    emit(f"{plain(str(output))} is a backup of {counted(n, 'comparison')}\n", None)


@store.command(cls=Command)
@store_option
@click.argument("file", type=FILE)
def restore(store: Path, file: Path) -> None:
    """Replace a store by a backup.

    All that the store holds is replaced by what FILE holds, at once or not at all. Stop the process
    that writes the store first.
    """
    from bbq_plugin.store.database_file import restore as replace_store

    with working("Copying"):
        n = replace_store(store, file)
    emit(f"{plain(str(store))} is restored: {counted(n, 'comparison')}\n", None)


@store.command(cls=Command)
@store_option
@click.option("--rater", required=True, help="The rater, by the name in 'bbq raters'.")
def erase(store: Path, rater: str) -> None:
    """Erase a rater from a store: answers, name, leads' decisions, journal, events and notes.

    The store is then rewritten, so that the bytes are gone from its file too. What the store does
    not reach is listed. This cannot be undone. Stop the process that writes the store first.
    """
    from bbq_plugin.live.event_ingest import event_reader
    from bbq_plugin.store import Store
    from bbq_plugin.store.erasure import erase as erase_rater

    with working("Erasing"), Store(store) as opened:
        done = erase_rater(opened, rater, event_reader("label-studio").raters)
    emit(f"Erased from {plain(str(store))}: {done.text}\n", None)
    tell(*done.not_reached, what="Not reached")


@store.command(cls=Command)
@convert_options
@store_option
@option_of("study")
def export(
    store: Path, study: str | None, layout: Any, file_format: Any, output: Path | None
) -> None:
    """Write all comparisons of a store, or of one of its studies.

    The rows are those of `bbq convert`: each has rater, winner, loser and weight, and a column tie
    where there are ties.
    """
    from bbq_plugin.store import read_store

    def read() -> Any:
        with working("Reading"):
            return read_store(store, study=study)

    write_converted(read, layout, file_format, output)


def _size(path: Path) -> int:
    if not path.is_file():
        raise StoreError(f"{path}: there is no such store; check the path (bbq watch creates one)")
    return sum(
        file.stat().st_size for file in (path, path.with_name(f"{path.name}-wal")) if file.exists()
    )
