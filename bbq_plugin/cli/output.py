"""Where results go: standard output or a file; everything else goes to standard error."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bbq_plugin.errors import BBQError, UsageError
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from rich.console import Console, RenderableType

    from bbq_plugin.model import Fit
    from bbq_plugin.report.documents import Origin

# In a pipe rich would cut tables at 80 columns and lose numbers.
PIPE_WIDTH = 132

# What the name of an output file says about the format.
SUFFIXES = {".txt": "table", ".json": "json", ".csv": "csv", ".html": "html", ".htm": "html"}


def chosen_format(output_format: str | None, output: Path | None, *known: str) -> str:
    """The format that was named, or that the file's suffix stands for.

    A file that cannot be written is refused here, before the work and not after it.
    """
    check_writable(output)
    if output_format is not None:
        return output_format
    if output is None:
        return "table"
    said = SUFFIXES.get(output.suffix.lower())
    if said is None or said not in known:
        suffixes = ", ".join(suffix for suffix, name in SUFFIXES.items() if name in known)
        raise UsageError(
            f"the suffix of {str(output)!r} is of no known format; "
            f"name one with --format ({', '.join(known)}) or use a suffix of {suffixes}"
        )
    return said


def check_writable(output: Path | None) -> None:
    """Refuse a place where no file can be."""
    if output is None:
        return
    if output.is_dir():
        raise BBQError(f"{output}: is a folder; name a file in it")
    if not output.parent.is_dir():
        raise BBQError(f"{output}: there is no folder {str(output.parent)!r}; create it first")


def emit(text: str, output: Path | None) -> None:
    """Print a result, or write it into a file, as UTF-8 in both cases."""
    if output is None:
        click.echo(text.encode("utf-8"), nl=False)
        return
    from bbq_plugin.report.documents import write_atomically

    write_atomically(output, text)


def show(parts: Iterable[RenderableType], output: Path | None) -> None:
    """Print tables and lines for people, or write them into a file without colours."""
    text = io.StringIO()
    screen = console() if output is None else console(text, force_terminal=False, color_system=None)
    for part in parts:
        screen.print(part)
    if output is not None:
        emit(text.getvalue(), output)


def width_of(output: Path | None) -> int:
    """How many columns there are for tables."""
    return PIPE_WIDTH if output is not None else console().width


def console(file: Any = None, **options: Any) -> Console:
    """A console for tables: as wide as the terminal, and wide enough in a pipe."""
    from rich.console import Console

    class Screen(Console):
        """No error when the reader of a pipe closes it."""

        def on_broken_pipe(self) -> None:
            leave_pipe()
            raise SystemExit(0)

    if file is None and hasattr(sys.stdout, "reconfigure"):
        # An old code page has no box characters: a question mark is better than a traceback.
        sys.stdout.reconfigure(errors="replace")
    screen = Screen(file=file, highlight=False, **options)
    if not screen.is_terminal and "width" not in options:
        screen.width = PIPE_WIDTH
    return screen


def leave_pipe() -> None:
    """Drop the rest of the output, so that the end of the program prints no error."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())


def tell(*notes: str, what: str = "Note") -> None:
    """Print a note beside the result, on standard error."""
    for note in notes:
        click.echo(f"{what}: {plain(note)}", err=True)


def working(what: str) -> AbstractContextManager[Any]:
    """A sign of life on a terminal; nothing in a pipe."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(f"{what} …")


def announce_compiling() -> None:
    """Say on a terminal, once, that kernels are compiled: when the first of them is."""
    if not sys.stderr.isatty():
        return
    from numba.core import event

    class FirstCompiled(event.Listener):
        said = False

        def on_start(self, _: event.Event) -> None:
            if not self.said:
                self.said = True
                tell("compiling for the first use on this machine; later runs skip this")

        def on_end(self, _: event.Event) -> None:
            pass

    event.register("numba:compile", FirstCompiled())  # type: ignore[no-untyped-call]


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[..., object]]:
    """A bar on a terminal, moved by `advance=` or `completed=` and `total=`; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda **_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (what, "{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield partial(bar.update, bar.add_task("", total=total))


def plain_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Collection[str] = (),
    *,
    indented: bool = False,
) -> RenderableType:
    """A table without lines, of untrusted text; the columns of ``numbers`` are on the right."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2), pad_edge=indented)
    for head in heads:
        table.add_column(head, overflow="fold", justify="right" if head in numbers else "left")
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    return table


def framed(
    fit: Fit, origin: Origin, warnings: Iterable[str], tables: Iterable[RenderableType]
) -> Iterator[RenderableType]:
    """Tables with what belongs above and below them; a text is a line of its own."""
    from rich.text import Text

    from bbq_plugin.report.summary import origin_lines, summary_lines

    for line in summary_lines(fit.data, fit):
        yield Text(line)
    for table in tables:
        yield Text(table) if isinstance(table, str) else table
    for warning in warnings:
        yield Text(f"Warning: {plain(warning)}", style="yellow")
    for line in origin_lines(fit.data, origin):
        yield Text(line, style="dim")
