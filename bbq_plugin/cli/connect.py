"""`bbq connect`: tell Label Studio to send its events to `bbq serve`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from bbq_plugin.cli.main import Command
from bbq_plugin.cli.output import emit, tell
from bbq_plugin.cli.remote import address_options, place, warn_of_readers
from bbq_plugin.errors import UsageError


@click.command(cls=Command)
@click.option("--project", type=click.IntRange(1), required=True, help="The project's number.")
@address_options
@click.option(
    "--serve-url",
    default="http://127.0.0.1:8765",
    show_default=True,
    help="Address of bbq serve, as Label Studio reaches it.",
)
@click.option(
    "--webhook-secret-file",
    type=click.Path(path_type=Path),
    help="File with the webhook's secret, the same as of bbq serve. Default: BBQ_WEBHOOK_SECRET.",
)
@click.option("--no-check", is_flag=True, help="Do not look whether an event comes through.")
def connect(
    project: int,
    url: str | None,
    token_file: Path | None,
    config: Path | None,
    serve_url: str,
    webhook_secret_file: Path | None,
    no_check: bool,  # noqa: FBT001 (click passes by keyword)
) -> None:
    """Have a Label Studio project send its events to a running 'bbq serve'.

    Registers a webhook with the secret, saves the project as it is to cause an event, and looks
    whether that comes through. Running it again renews the same webhook. Needs the extra
    label-studio.
    """
    from bbq_plugin.live import connecting
    from bbq_plugin.live import feedback as remote
    from bbq_plugin.live.secrets import read_secret

    warn_of_readers(webhook_secret_file)
    secret = read_secret(webhook_secret_file, "BBQ_WEBHOOK_SECRET", os.environ)
    if secret is None:
        raise UsageError(
            "no secret is set; give the one of bbq serve with --webhook-secret-file or in "
            "BBQ_WEBHOOK_SECRET"
        )
    at = place(url, token_file, config, set())
    tool = remote.tool()
    opened = tool.open(at.url.rstrip("/"), at.token, project, options={}, notice=tell)
    try:
        found = connecting.connect(opened, connecting.Door(serve_url, secret), check=not no_check)
        tell(opened.describe(), what="Found")
    finally:
        opened.close()
    what = "made" if found.is_new else "renewed"
    seen = "an event came through" if found.checked else "nobody has looked whether events arrive"
    emit(f"Webhook {found.webhook} {what} for project {project}: {seen}\n", None)
