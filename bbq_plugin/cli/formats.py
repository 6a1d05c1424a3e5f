"""`bbq formats`: what can be read, with the options of each adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bbq_plugin.cli.main import Command
from bbq_plugin.cli.output import emit, plain_table, show
from bbq_plugin.text import plain

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
