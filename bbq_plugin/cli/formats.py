"""`bbq formats`: what can be read, how it is recognised, and what can be said about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bbq_plugin.cli.main import Command
from bbq_plugin.cli.output import emit, show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

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

        from bbq_plugin.report import report_json

        document = {"schema": SCHEMA, "adapters": [asdict(one) for one in found]}
        emit(report_json(document), None)
    else:
        show(_tables(found), None)


def _tables(found: tuple[Description, ...]) -> Iterator[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    from bbq_plugin.text import plain

    for one in found:
        yield Text.assemble((plain(one.name), "bold"), f"  {plain(one.summary)}")
        yield Text(f"  {plain(one.recognised)}")
        if one.options:
            table = Table(box=None, padding=(0, 2), pad_edge=True)
            for name in ("option", "takes", "default", "meaning"):
                table.add_column(name, overflow="fold")
            for option in one.options:
                cells = (option.name, option.takes, option.default, option.help)
                table.add_row(*(Text(plain(text)) for text in cells))
            yield table
        yield Text("")
