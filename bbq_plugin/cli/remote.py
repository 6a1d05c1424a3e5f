"""Options of the commands that talk to a labelling tool's server, the same for all of them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bbq_plugin.cli.inputs import merged
from bbq_plugin.cli.options import KeyValue
from bbq_plugin.cli.output import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bbq_plugin.cli.settings import Configured
    from bbq_plugin.live.feedback import Address, Memory
    from bbq_plugin.protocols import Project
    from bbq_plugin.store import Store

_Command = TypeVar("_Command", bound="Callable[..., Any]")

_PLACE = [
    click.option(
        "--url", help="Address of Label Studio. Default: LABEL_STUDIO_URL, else bbq.toml."
    ),
    click.option(
        "--token-file",
        type=click.Path(path_type=Path),
        help="File with Label Studio's token. Default: LABEL_STUDIO_API_KEY, else bbq.toml.",
    ),
]
_CONFIG = click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="File with a section [label_studio]. Default: bbq.toml, if there is one.",
)
_ADDRESS = [*_PLACE, _CONFIG]

_PROJECT = [
    click.option("--project", type=click.IntRange(1), required=True, help="The project's number."),
    click.option(
        "--store",
        type=click.Path(path_type=Path),
        required=True,
        help="The store to keep the answers in.",
    ),
]
_NAMING = [
    click.option("--items", help="Fields of the task data that name the items; for -O items=…."),
    click.option("--labels", help="What the labels of Choices mean; for -O labels=…."),
    click.option(
        "-O",
        "--option",
        "adapter_options",
        type=KeyValue(),
        multiple=True,
        help="An option of the adapter label-studio; 'bbq formats' lists them. Repeatable.",
    ),
]
_MANNERS = [
    click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(0, min_open=True),
        default=60.0,
        show_default=True,
        help="Seconds to wait for an answer of the server.",
    ),
    click.option("--moved", is_flag=True, help="The server is the same under a new address."),
]


def address_options(command: _Command) -> _Command:
    """Add where the server is and who asks to a command."""
    return _with(_ADDRESS, command)


def place_options(command: _Command) -> _Command:
    """Add the same to a command that has a --config of its own."""
    return _with(_PLACE, command)


def naming_options(command: _Command) -> _Command:
    """Add what an adapter is told of the items' names; the command gets all of it as `naming`."""

    @wraps(command)
    def wrapped(
        *,
        items: str | None,
        labels: str | None,
        adapter_options: tuple[tuple[str, str], ...],
        **rest: Any,
    ) -> Any:
        return command(naming=merged(adapter_options, {"items": items, "labels": labels}), **rest)

    return _with(_NAMING, wrapped)  # type: ignore[return-value] # click calls it by keyword


def _with(options: Sequence[Callable[[Any], Any]], command: _Command) -> _Command:
    for option in reversed(options):
        command = option(command)
    return command


@dataclass(frozen=True)
class Server:
    """Where a project is, and how to get at it."""

    project: int
    store: Path
    url: str | None
    token_file: Path | None
    config: Path | None
    timeout_s: float
    moved: bool
    #: Warnings that were given, each of which is enough.
    warned: set[str] = field(default_factory=set, compare=False)

    def place(self) -> Address:
        """Where the server is, and the token; refused if either is not known."""
        return place(self.url, self.token_file, self.config, self.warned)

    @contextmanager
    def open(
        self,
        store: Store,
        options: Mapping[str, Any] | None = None,
        page_size: int | None = None,
        notice: Callable[[str], None] = tell,
    ) -> Iterator[tuple[Project, Memory]]:
        """Reach the project, and what the store knows of it; `notice` hears of retries."""
        from bbq_plugin.live import feedback as remote

        tool = remote.tool()
        place = self.place()
        url = place.url.rstrip("/")
        given = remote.adapter_options(tool, options or {})
        memory = remote.Memory(store, tool.name, self.project, url, options=given, moved=self.moved)
        project = tool.open(
            url,
            place.token,
            self.project,
            options=memory.options,
            page_size=page_size,
            timeout_s=self.timeout_s,
            notice=notice,
        )
        try:
            yield project, memory
        finally:
            project.close()


def place(
    url: str | None, token_file: Path | None, config: Path | None, warned: set[str]
) -> Address:
    """Where the server is, and the token; warns of a token that others can read."""
    from bbq_plugin.live import feedback as remote

    tool = remote.tool()
    settings = remote.settings_of(config, tool)
    found = remote.address(tool, url=url, token_file=token_file, settings=settings)
    tell(*(text for text in found.warnings if text not in warned), what="Warning")
    warned.update(found.warnings)
    return found


def warn_of_readers(*files: Path | None) -> None:
    """Warn of files with a secret that others on this machine can read."""
    from bbq_plugin.live.secrets import seen_by_others

    found = (seen_by_others(file) for file in files if file is not None)
    tell(*(text for text in found if text is not None), what="Warning")


def server_options(command: _Command) -> _Command:
    """Add the options to a command, which gets them as one ``server``."""

    @wraps(command)
    def wrapped(config: Path | None, **rest: Any) -> Any:
        server, rest = _taken(config, **rest)
        return command(server=server, **rest)

    return _with([*_PROJECT, *_ADDRESS, *_MANNERS], wrapped)  # type: ignore[return-value] # click's


def configured_server_options(command: _Command) -> _Command:
    """Add the same to a command that gets a ``configured`` from the options of `settings`."""

    @wraps(command)
    def wrapped(configured: Configured, **rest: Any) -> Any:
        server, rest = _taken(configured.file, **rest)
        return command(server=server, configured=configured, **rest)

    return _with([*_PROJECT, *_PLACE, *_MANNERS], wrapped)  # type: ignore[return-value] # click's


def _taken(
    config: Path | None,
    *,
    project: int,
    store: Path,
    url: str | None,
    token_file: Path | None,
    timeout_s: float,
    moved: bool,
    **rest: Any,
) -> tuple[Server, dict[str, Any]]:
    """The server of what was typed, and the options that are not about it."""
    return Server(project, store, url, token_file, config, timeout_s, moved), rest
