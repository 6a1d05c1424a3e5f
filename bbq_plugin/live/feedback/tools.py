"""The address and the token of a labelling tool's server: typed, from the environment, a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bbq_plugin.config import ServerSettings, load_server
from bbq_plugin.errors import UsageError
from bbq_plugin.live.secrets import seen_by_others
from bbq_plugin.plugins import chosen_adapter, coerced
from bbq_plugin.protocols import Tool

_LONGEST_TOKEN = 1 << 14


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, and the token to be let in with, which is never shown."""

    url: str
    token: str = field(repr=False)
    #: What the user should know about it.
    warnings: tuple[str, ...] = ()


def address(
    tool: Tool,
    *,
    url: str | None = None,
    token_file: Path | None = None,
    config: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Address:
    """Where the server is: what was typed, else the environment, else the tool's section of a file.

    A token is never typed: all users of the machine see it in the list of processes.
    """
    environment = os.environ if environment is None else environment
    section = tool.name.replace("-", "_")
    settings = ServerSettings() if config is None else load_server(config, section)
    found = url or environment.get(tool.url_variable) or settings.url
    if not found:
        raise UsageError(
            f"the address of the server is not known; give --url, {tool.url_variable}, "
            f"or url in the section [{section}] of bbq.toml"
        )
    token = environment.get(tool.token_variable)
    if token_file is None and not token:
        token_file = settings.token_file
    warnings = (_unencrypted(found), token_file and seen_by_others(token_file))
    told = tuple(text for text in warnings if text)
    if token_file is not None:
        return Address(found, _token_of(token_file), told)
    if token:
        return Address(found, token, told)
    raise UsageError(
        f"the token is not known; set {tool.token_variable}, or name a file with --token-file that "
        "has the token and that only you can read"
    )


def adapter_options(tool: Tool, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the tool's adapter, checked by its own word."""
    return coerced(chosen_adapter(tool.name, b"", tool.name)[0], options)


def _unencrypted(url: str) -> str | None:
    """A warning about an address to which the token is sent as plain text."""
    parts = urlsplit(url)
    name = parts.hostname or ""
    try:
        near = ip_address(name).is_loopback
    except ValueError:
        near = name == "localhost" or name.endswith(".localhost")
    if parts.scheme != "http" or near:
        return None
    return f"{parts.scheme}://{name}: the token is sent without encryption; use https"


def _token_of(file: Path) -> str:
    if not file.is_file():
        raise UsageError(f"{file}: there is no such file; name the file with the token")
    text = file.read_bytes()[:_LONGEST_TOKEN].decode("ascii", "replace").strip()
    if not text:
        raise UsageError(f"{file}: the file is empty; write the token into it")
    return text
