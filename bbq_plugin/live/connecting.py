"""Tells a labelling project to send its events to `bbq serve`, and looks whether they arrive."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from bbq_plugin.errors import RemoteError, UnsupportedError, UsageError
from bbq_plugin.live.secrets import SECRET_HEADER

if TYPE_CHECKING:
    from bbq_plugin.protocols import EventSubscription, Project

__all__ = ["Connected", "Door", "connect"]

PATH = "/webhook/label-studio"
_WAIT_S = 10.0
_PAUSE_S = 0.1


@dataclass(frozen=True)
class Connected:
    """A webhook that works."""

    webhook: int
    is_new: bool
    #: Whether an event has come through.
    checked: bool


class Door:
    """A running `bbq serve`, as it is reached from here."""

    def __init__(self, url: str, secret: bytes) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(
                f"the address of bbq serve is {url!r}; expected one such as http://127.0.0.1:8765"
            )
        self.url = url.rstrip("/")
        self.headers = {SECRET_HEADER: secret.decode("ascii")}

    @property
    def webhook(self) -> str:
        """Where events go."""
        return self.url + PATH

    def received(self) -> dict[str, int]:
        """How many events of each kind have come in."""
        request = urllib.request.Request(self.webhook, headers=self.headers)  # noqa: S310 (checked)
        # Not through a proxy: this is about this machine or one nearby.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=5) as answer:
                found: dict[str, Any] = json.loads(answer.read(1 << 20))
                return {str(action): int(n) for action, n in found["received"].items()}
        except urllib.error.HTTPError as error:
            why = "the secret is another one there" if error.code in (401, 403) else "an old one?"
            raise RemoteError(f"{self.url}: bbq serve answers {error.code}; {why}") from error
        except (OSError, ValueError, KeyError) as error:
            reason = getattr(error, "reason", None) or type(error).__name__
            raise RemoteError(
                f"{self.url}: bbq serve cannot be reached from here ({reason}); start it, or say "
                "--no-check if only Label Studio can reach it under this address"
            ) from error


def connect(
    project: Project,
    door: Door,
    *,
    check: bool = True,
    wait_s: float = _WAIT_S,
) -> Connected:
    """Have the project's events sent to the door; with `check`, until one has come through."""
    before = door.received() if check else {}
    make = getattr(project, "hooks", None)
    if make is None:
        raise UnsupportedError("this labelling tool sends no events")
    hooks = cast("EventSubscription", make())
    own, is_new = hooks.subscribe(door.webhook, door.headers)
    if not check:
        return Connected(own, is_new, checked=False)
    try:
        _await(hooks.provoke(), door, before, wait_s)
    except BaseException:
        if is_new:
            hooks.unsubscribe(own)
        raise
    return Connected(own, is_new, checked=True)


def _await(action: str, door: Door, before: Mapping[str, int], wait_s: float) -> None:
    """Until an event of this kind has come in."""
    end = time.monotonic() + wait_s
    while door.received().get(action, 0) <= before.get(action, 0):
        if time.monotonic() > end:
            raise RemoteError(
                f"Label Studio took the webhook, but no event has reached {door.webhook} in "
                f"{wait_s:g} s; is that the address under which Label Studio itself reaches bbq "
                "serve? From inside a container 127.0.0.1 is the container. A webhook that was "
                "made for this is removed again"
            )
        time.sleep(_PAUSE_S)
