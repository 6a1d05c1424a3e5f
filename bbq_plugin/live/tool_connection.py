"""How two servers know each other: address and token of the tool, its open project, our secrets.

Addresses are typed, in the environment or in a file; a secret is never typed, because every user of
the machine sees the list of processes.
"""

from __future__ import annotations

import json
import os
import stat
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

from bbq_plugin.config import ServerSettings, load_server
from bbq_plugin.errors import RemoteError, UnsupportedError, UsageError
from bbq_plugin.plugins import chosen_adapter, coerced
from bbq_plugin.protocols import EventSubscription, Project, Tool

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from bbq_plugin.live.health import Problems
    from bbq_plugin.store.project_sync import Memory

    Opened = AbstractContextManager[tuple[Project, Memory]]

_LONGEST_TOKEN = 1 << 14

#: The header in which Label Studio shows the webhook's secret.
SECRET_HEADER = "X-BBQ-Secret"  # noqa: S105 (the name of it)
_SHORTEST = 16
_LONGEST = 1 << 12
_PAUSE_S = 0.1


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
    """Where the server is: typed, or in the environment, or in the tool's section of a file."""
    environment = os.environ if environment is None else environment
    section = tool.name.replace("-", "_")
    settings = ServerSettings() if config is None else load_server(config, section)
    found = url or environment.get(tool.url_variable) or settings.url
    if not found and tool.by_folder:
        return Address("", "")
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


def read_secret(file: Path | None, variable: str, environment: Mapping[str, str]) -> bytes | None:
    """A secret from a file or the environment; never from the command line, which all users see."""
    if file is not None:
        try:
            found = file.read_bytes()[:_LONGEST].strip()
        except OSError as error:
            raise UsageError(f"{file}: the secret cannot be read ({error.strerror})") from error
        where = str(file)
    else:
        found = environment.get(variable, "").encode().strip()
        where = variable
        if not found:
            return None
    if len(found) < _SHORTEST or not found.isascii() or any(map(str.isspace, found.decode())):
        raise UsageError(
            f"{where}: expected a secret of at least {_SHORTEST} ASCII characters without spaces; "
            "make one with: python -c 'import secrets; print(secrets.token_hex())'"
        )
    return found


def seen_by_others(file: Path) -> str | None:
    """A warning about a file with a secret that not only its owner can read."""
    if os.name != "posix":
        return None
    try:
        mode = file.stat().st_mode
    except OSError:
        return None
    if not mode & (stat.S_IRGRP | stat.S_IROTH):
        return None
    return f"{file}: other users of this machine can read this secret; run: chmod 600 {file}"


# -- having a project send its events to `bbq serve`


def subscribe(
    project: Project, serve_url: str, secret: bytes, *, check: bool = True, wait_s: float = 10.0
) -> tuple[int, bool]:
    """Have a project send its events to a running `bbq serve`; with `check`, wait for one.

    The id of the webhook, and whether it is a new one.
    """
    hooks, url = _hooks(project, serve_url)
    headers = {SECRET_HEADER: secret.decode("ascii")}
    before = _received(url, headers) if check else {}
    own, is_new = hooks.subscribe(url, headers)
    if check:
        try:
            _wait_for(hooks.provoke(), url, headers, before, wait_s)
        except BaseException:
            if is_new:
                hooks.unsubscribe(own)
            raise
    return own, is_new


def subscription(
    project: Project, serve_url: str, secret: bytes | None
) -> tuple[str, int | None, str | None]:
    """What `subscribe` would do, without doing it.

    The address that events would be sent to, the id of the webhook that is there already, and why
    `bbq serve` would not take them now.
    """
    hooks, url = _hooks(project, serve_url)
    problem = None
    if secret is None:
        problem = (
            "no secret is set; give the secret of bbq serve with --webhook-secret-file or "
            "BBQ_WEBHOOK_SECRET"
        )
    else:
        try:
            _received(url, {SECRET_HEADER: secret.decode("ascii")})
        except RemoteError as error:
            problem = str(error)
    return url, hooks.find(url), problem


def _hooks(project: Project, serve_url: str) -> tuple[EventSubscription, str]:
    """Where a project sends its events, and the address of `bbq serve` for them."""
    parts = urlsplit(serve_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"the address of bbq serve is {serve_url!r}; expected one such as http://127.0.0.1:8765"
        )
    make = getattr(project, "hooks", None)
    if make is None:
        raise UnsupportedError("this labelling tool sends no events")
    hooks = cast("EventSubscription", make())
    return hooks, serve_url.rstrip("/") + hooks.path


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """What is sent goes to the address that was given, and nowhere else."""

    def redirect_request(self, *_: object) -> None:
        """Follow none: the answer is then an error of its status."""


def _received(url: str, headers: Mapping[str, str]) -> dict[str, int]:
    """How many events of each kind a server has received."""
    request = urllib.request.Request(url, headers=dict(headers))  # noqa: S310 (checked)
    # Not through a proxy: this is about this machine or one nearby.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirect())
    try:
        with opener.open(request, timeout=5) as answer:
            found: dict[str, Any] = json.loads(answer.read(1 << 20))
            return {str(action): int(n) for action, n in found["received"].items()}
    except urllib.error.HTTPError as error:
        why = (
            "its secret is another one"
            if error.code in (401, 403)
            else "check that this is bbq serve, of this version"
        )
        raise RemoteError(f"{url}: bbq serve answered {error.code}; {why}") from error
    except (OSError, ValueError, KeyError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise RemoteError(
            f"{url}: bbq serve cannot be reached from here ({reason}); start it, or give "
            "--no-check if only Label Studio can reach it under this address"
        ) from error


def _wait_for(
    action: str, url: str, headers: Mapping[str, str], before: Mapping[str, int], wait_s: float
) -> None:
    end = time.monotonic() + wait_s
    while _received(url, headers).get(action, 0) <= before.get(action, 0):
        if time.monotonic() > end:
            raise RemoteError(
                f"the webhook was registered, but no event has reached {url} in {wait_s:g} s; "
                "give the address under which Label Studio itself reaches bbq serve (inside a "
                "container, 127.0.0.1 is the container). To addresses of its own network it may "
                "send nothing unless it is started with LABEL_STUDIO_SSRF_PROTECTION_ENABLED="
                "false. A new webhook has been removed again"
            )
        time.sleep(_PAUSE_S)


T = TypeVar("T")


def is_outage(error: Exception) -> bool:
    """Whether a server did not answer, or could not; else it has refused what it was asked."""
    if not isinstance(error, RemoteError):
        return False
    return error.status is None or error.status == 429 or error.status >= 500


def report_use(
    problems: Problems, what: str, error: Exception | str, retry_s: float | None
) -> None:
    """Report that a use of a project failed, unless the outage of its server tells it already."""
    if "server" in problems and isinstance(error, Exception) and is_outage(error):
        return
    problems.report(what, error, retry_s=retry_s)


class OpenProject:
    """A project that stays open while a program runs; opened when it is first needed.

    `open_` gets whom to tell of requests that are tried again. An outage of the server is one
    problem, for any number of uses, which do not tell of it again. A server that refuses something,
    or says that it is not there, does answer: what that means is for the use to tell.
    """

    def __init__(
        self, open_: Callable[[Callable[[str], None]], Opened], problems: Problems
    ) -> None:
        self._open, self._problems = open_, problems
        self._stack = ExitStack()
        self._opened: tuple[Project, Memory] | None = None
        # One request at a time: a pull and a plan would see each other's half.
        self._lock = threading.RLock()
        self._purpose = ""
        #: The purposes that failed the last time: reading may work when writing does not.
        self._failing: set[str] = set()

    def use(self, work: Callable[[Project, Memory], T], purpose: str = "feedback") -> T:
        """Do something with the project; what that gives."""
        with self._lock:
            self._purpose = purpose
            try:
                if self._opened is None:
                    self._opened = self._stack.enter_context(self._open(self._retried))
                done = work(*self._opened)
            except RemoteError as error:
                if is_outage(error):
                    self._retried(str(error))
                else:
                    self._answered()
                raise
            self._answered()
            return done

    def _answered(self) -> None:
        if self._purpose in self._failing:
            self._failing.remove(self._purpose)
            self._problems.over("server")

    def _retried(self, reason: str) -> None:
        if "server" not in self._problems and self._purpose not in self._failing:
            # It stays on the page for as long as the outage: how long the first wait is, does not.
            self._problems.report("server", reason.partition("; trying again")[0])
        self._failing.add(self._purpose)

    def close(self) -> None:
        """Let the project go; it is opened again if it is needed."""
        self._stack.close()
        self._opened = None
