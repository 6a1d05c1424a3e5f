"""Who may ask what: secrets, hosts, origins, and the headers that every answer carries."""

from __future__ import annotations

import base64
import hmac
import ipaddress
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.responses import Response

from bbq_plugin.live.tool_connection import SECRET_HEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "bbq_page"
#: How long the body of a request may take; a tool waits no longer for its answer.
BODY_S = 5.0
# Whose wrong tokens are remembered.
_MOST_ADDRESSES = 1000
_PASSED_ON = (b"x-forwarded-for", b"forwarded", b"x-real-ip", b"via")

# data: is for the page's own script, which draws tables and charts as PNG.
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    # With no-referrer a browser hides the origin of our own forms as well.
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)


class LoginTries:
    """How often a wrong token was given lately, by address: only so many are looked at.

    Behind a proxy all addresses are that of the proxy.
    """

    def __init__(
        self,
        most: int = 10,
        window_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._window_s, self._clock = most, window_s, clock
        #: The moments of wrong ones, the address that failed last at the end.
        self._failed: dict[str, list[float]] = {}

    def wait_s(self, client: Any) -> float:
        """How long an address has to wait before its next try; 0: not at all."""
        now = self._clock()
        recent = [at for at in self._failed.get(_network(client), ()) if now - at < self._window_s]
        if len(recent) < self._most:
            return 0.0
        return recent[-self._most] + self._window_s - now

    def failed(self, client: Any) -> None:
        """A wrong token."""
        network = _network(client)
        self._failed[network] = [*self._failed.pop(network, ())[1 - self._most :], self._clock()]
        if len(self._failed) > _MOST_ADDRESSES:
            del self._failed[next(iter(self._failed))]

    def passed(self, client: Any) -> None:
        """The right one."""
        self._failed.pop(_network(client), None)


def _network(client: Any) -> str:
    """The address of a client; of IPv6 the part that one owner has all of."""
    try:
        found = ipaddress.ip_address(client[0])
    except (ValueError, TypeError):
        return ""
    return str(found) if found.version == 4 else str(ipaddress.ip_network((found, 64), False))  # noqa: FBT003


@dataclass(frozen=True)
class AccessRules:
    """What the caller of `bbq serve` has allowed."""

    #: Of the webhook; None: none is set.
    secret: bytes | None = field(default=None, repr=False)
    #: Take events without a secret.
    insecure_webhook: bool = False
    #: Names under which the page may be asked for, beside those of this machine.
    hosts: frozenset[str] = frozenset()
    #: With it the page may be seen from elsewhere, and may write.
    page_token: bytes | None = field(default=None, repr=False)
    #: What a browser that has shown the token is known by, until the server ends.
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def knows_secret(self, headers: dict[bytes, bytes]) -> bool:
        """Whether a request carries the webhook's secret, as a header or as a Basic password."""
        if self.secret is None:
            return False
        told = headers.get(SECRET_HEADER.lower().encode(), b"")
        kind, _, value = headers.get(b"authorization", b"").partition(b" ")
        password = b""
        if kind.lower() == b"basic":
            with suppress(ValueError):
                password = base64.b64decode(value, validate=True).partition(b":")[2]
        # Both are compared, so that the time tells nothing about which one was used.
        by_header = hmac.compare_digest(told, self.secret)
        by_password = hmac.compare_digest(password, self.secret)
        return by_header or by_password

    def knows_token(self, token: str) -> bool:
        """Whether this is the page's token."""
        return self.page_token is not None and hmac.compare_digest(
            token.strip().encode(), self.page_token
        )

    def logged_in(self, headers: dict[bytes, bytes]) -> bool:
        """Whether a browser has shown the token before."""
        if self.page_token is None:
            return False
        try:
            cookies = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
        except CookieError:
            return False
        found = cookies.get(COOKIE)
        return found is not None and hmac.compare_digest(
            found.value.encode(), self.session.encode()
        )


class Guard:
    """Stands before the app: refuses what comes under a wrong name or from a foreign page.

    `tool_paths` ask for a secret of their own, and may come under any name.
    """

    def __init__(
        self, app: ASGIApp, rules: AccessRules, tool_paths: frozenset[str] = frozenset()
    ) -> None:
        self.app, self.rules, self._tool_paths = app, rules, tool_paths
        self.hosts = {"localhost", "127.0.0.1", "::1", *(h.lower() for h in rules.hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or say why not."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                told = list(message.get("headers", ()))
                if not any(name.lower() == b"cache-control" for name, _ in told):
                    told.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*told, *_HEADERS]}
            await send(message)

        refused = self._refusal(scope)
        if refused is not None:
            await refused(scope, receive, with_headers)
        else:
            await self.app(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        if scope["path"] in self._tool_paths:
            return None
        headers = headers_of(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        if _name(host) not in self.hosts:
            # A foreign name that was made to point at this machine (DNS rebinding).
            return _refused(421, "this server is not known under that name; see --allow-host")
        if scope["method"] not in ("GET", "HEAD"):
            origin = headers.get(b"origin", b"").decode("latin-1")
            if not origin or urlsplit(origin).netloc.lower() != host.lower():
                return _refused(403, "this request comes from another page")
        if scope["path"] == "/login" or scope["path"].startswith("/static/"):
            return None
        return self._stranger(scope.get("client"), headers)

    def _stranger(self, client: Any, headers: dict[bytes, bytes]) -> Response | None:
        if (_is_near(client) and not _is_passed_on(headers)) or self.rules.logged_in(headers):
            return None
        if self.rules.page_token is None:
            return _refused(403, "the page is for this machine only; see --page-token-file")
        return _refused(401, "open /login and give the token of this page")


def _refused(status: int, text: str) -> Response:
    return Response(f"{text}\n", status, media_type="text/plain")


def headers_of(raw: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Headers by their name."""
    return {name.lower(): value for name, value in raw}


def _name(host: str) -> str:
    """The name in a Host header, without the port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_near(client: Any) -> bool:
    try:
        return client is not None and ipaddress.ip_address(client[0]).is_loopback
    except ValueError:
        return False


def _is_passed_on(headers: dict[bytes, bytes]) -> bool:
    """Whether a proxy has passed it on: who asked is far, whatever address the proxy names."""
    return any(name in headers for name in _PASSED_ON)
