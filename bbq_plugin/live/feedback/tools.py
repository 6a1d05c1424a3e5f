"""Where the server of a labelling tool is: as told, from the environment, from a file."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bbq_plugin.errors import UsageError
from bbq_plugin.live.secrets import seen_by_others
from bbq_plugin.plugins import chosen_adapter, coerced
from bbq_plugin.protocols import Tool

CONFIG = "bbq.toml"

SETTINGS = ("url", "token_file")

_LONGEST_TOKEN = 1 << 14


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, and the token to be let in with, which is never shown."""

    url: str
    token: str = field(repr=False)
    #: What whoever runs this should know about it.
    warnings: tuple[str, ...] = ()


def address(
    tool: Tool,
    *,
    url: str | None = None,
    token_file: Path | None = None,
    settings: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Address:
    """Where the server is: what was typed, else the environment, else the settings of a file.

    A token is never typed: whoever looks at the list of processes would see it.
    """
    environment = os.environ if environment is None else environment
    settings = settings or {}
    found = url or environment.get(tool.url_variable) or settings.get("url")
    if not found:
        raise UsageError(
            f"no address of a server is known; give --url, {tool.url_variable}, "
            f"or url in the section [{_section(tool)}] of {CONFIG}"
        )
    token = environment.get(tool.token_variable)
    if token_file is None and not token and settings.get("token_file"):
        token_file = Path(settings["token_file"])
    warnings = (_overheard(found), token_file and seen_by_others(token_file))
    told = tuple(text for text in warnings if text)
    if token_file is not None:
        return Address(found, _token_of(token_file), told)
    if token:
        return Address(found, token, told)
    raise UsageError(
        f"no token is known; put it into {tool.token_variable}, or into a file that only you can "
        "read and name that with --token-file"
    )


def adapter_options(tool: Tool, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the tool's adapter, checked by its own word."""
    return coerced(chosen_adapter(tool.name, b"", tool.name)[0], options)


def settings_of(config: Path | None, tool: Tool) -> dict[str, str]:
    """The tool's section of bbq.toml: `url` and `token_file`, relative to the file."""
    path = config or Path(CONFIG)
    if not path.is_file():
        if config is None:
            return {}
        raise UsageError(f"{path}: there is no such file")
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: this is not TOML ({error})") from error
    section = found.get(_section(tool), {})
    if not isinstance(section, dict):
        raise UsageError(f"{path}: {_section(tool)} is {section!r}; expected a table")
    for key in section:
        if key not in SETTINGS:
            raise UsageError(
                f"{path}: there is no key {key!r} in [{_section(tool)}]; "
                f"expected {' or '.join(SETTINGS)}"
            )
    settings = {key: section[key] for key in SETTINGS if key in section}
    for key, value in settings.items():
        if not isinstance(value, str):
            raise UsageError(f"{path}: {key} in [{_section(tool)}] is {value!r}; expected text")
    if "token_file" in settings:
        settings["token_file"] = str(path.parent / settings["token_file"])
    return settings


def _section(tool: Tool) -> str:
    return tool.name.replace("-", "_")


def _overheard(url: str) -> str | None:
    """What to say of an address at which the token goes through a network as it is."""
    parts = urlsplit(url)
    name = parts.hostname or ""
    try:
        near = ip_address(name).is_loopback
    except ValueError:
        near = name == "localhost" or name.endswith(".localhost")
    if parts.scheme != "http" or near:
        return None
    return f"{parts.scheme}://{name}: the token goes there without encryption; use https if it can"


def _token_of(file: Path) -> str:
    if not file.is_file():
        raise UsageError(f"{file}: there is no such file with a token")
    text = file.read_bytes()[:_LONGEST_TOKEN].decode("ascii", "replace").strip()
    if not text:
        raise UsageError(f"{file}: this file is empty; put the token into it")
    return text
