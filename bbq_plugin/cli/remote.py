"""Options of the commands that talk to a labelling tool's server, the same for all of them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bbq_plugin.cli.output import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bbq_plugin.feedback import Project
    from bbq_plugin.live.remote import Address, Memory
    from bbq_plugin.live.store import Store

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
_ADDRESS = [
    *_PLACE,
    click.option(
        "--config",
        type=click.Path(path_type=Path),
        help="File with a section [label_studio]. Default: bbq.toml, if there is one.",
    ),
]

_OPTIONS = [
    click.option("--project", type=click.IntRange(1), required=True, help="The project's number."),
    click.option(
        "--store",
        type=click.Path(path_type=Path),
        required=True,
        help="The store to keep the answers in.",
    ),
    *_ADDRESS,
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
        self, store: Store, options: Mapping[str, Any] | None = None, page_size: int | None = None
    ) -> Iterator[tuple[Project, Memory]]:
        """Reach the project, and what the store knows of it."""
        from bbq_plugin.live import remote

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
            notice=tell,
        )
        try:
            yield project, memory
        finally:
            project.close()


def place(
    url: str | None, token_file: Path | None, config: Path | None, warned: set[str]
) -> Address:
    """Where the server is, and the token; warns of a token that others can read."""
    from bbq_plugin.live import remote

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
    def wrapped(
        project: int,
        store: Path,
        url: str | None,
        token_file: Path | None,
        config: Path | None,
        timeout_s: float,
        moved: bool,  # noqa: FBT001 (click passes by keyword)
        **rest: Any,
    ) -> Any:
        server = Server(project, store, url, token_file, config, timeout_s, moved)
        return command(server, **rest)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value] # click calls it by keyword
