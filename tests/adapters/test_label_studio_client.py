"""The client of Label Studio against real HTTP servers that send it elsewhere."""

from __future__ import annotations

import base64
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from bbq_plugin.errors import RemoteError
from bbq_plugin.live.tool_connection import SECRET_HEADER, subscribe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytest.importorskip("label_studio_sdk")

from bbq_adapters.label_studio.server_project import Client


def _jwt(claims: dict[str, str]) -> str:
    parts = ({"alg": "HS256", "typ": "JWT"}, {"exp": 4_000_000_000, "iat": 1, **claims})
    coded = [base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=") for one in parts]
    return b".".join([*coded, base64.urlsafe_b64encode(b"x" * 32).rstrip(b"=")]).decode()


PERSONAL = _jwt({"token_type": "refresh", "jti": "personal-token"})
ACCESS = _jwt({"token_type": "access", "jti": "access-token"})
LEGACY = "0123456789abcdef0123456789abcdef01234567"


class Site:
    """A server that keeps all that it was sent; `answer` gives status, headers and body."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, str]] = []
        self.answer: Callable[[str], tuple[int, dict[str, str], Any]] = lambda _: (404, {}, {})
        site = self

        class Handler(BaseHTTPRequestHandler):
            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                site.sent.append((self.path, str(self.headers), body))
                status, headers, found = site.answer(self.path)
                content = json.dumps(found).encode()
                self.send_response(status)
                sent = {"Content-Type": "application/json", **headers}
                for name, value in {**sent, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PATCH = do_DELETE = _any  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@contextmanager
def site() -> Iterator[Site]:
    found = Site()
    thread = threading.Thread(target=found.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.server.shutdown()
        found.server.server_close()
        thread.join()


@pytest.fixture
def own() -> Iterator[Site]:
    with site() as found:
        yield found


@pytest.fixture
def other() -> Iterator[Site]:
    with site() as found:
        found.answer = lambda _: (200, {}, {"access": ACCESS, "id": 1, "title": "t"})
        yield found


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("token", [PERSONAL, LEGACY])
def test_no_request_and_no_token_follows_a_redirect_to_another_origin(
    own: Site, other: Site, status: int, token: str
) -> None:
    own.answer = lambda path: (status, {"Location": other.url + path}, {})
    client = Client(own.url, token, tries=1)
    with pytest.raises(RemoteError, match=r"redirects to http://127.0.0.1:.*gets no token"):
        client.call("project 1", lambda sdk: sdk.projects.get(id=1))
    client.close()
    assert other.sent == []
    assert len(own.sent) == 1
    if token is PERSONAL:
        assert own.sent[0][0] == "/api/token/refresh/"


@pytest.mark.parametrize("status", [307, 308])
def test_a_write_follows_none_either(own: Site, other: Site, status: int) -> None:
    def answer(path: str) -> tuple[int, dict[str, str], Any]:
        if path == "/api/token/refresh/":
            return 200, {}, {"access": ACCESS}
        return status, {"Location": other.url + path}, {}

    own.answer = answer
    client = Client(own.url, PERSONAL, tries=1)
    with pytest.raises(RemoteError, match=r"give its address there \(--url "):
        client.call("task 1", lambda sdk: sdk.tasks.update(id="1", overlap=2), creates=True)
    client.close()
    assert other.sent == []


def test_a_redirect_on_the_same_server_is_followed(own: Site) -> None:
    def answer(path: str) -> tuple[int, dict[str, str], Any]:
        if path == "/api/token/refresh/":
            return 307, {"Location": "/elsewhere/refresh/"}, {}
        if path == "/elsewhere/refresh/":
            return 200, {}, {"access": ACCESS}
        return 200, {}, {"id": 1, "title": "t"}

    own.answer = answer
    client = Client(own.url, PERSONAL, tries=1)
    assert client.call("project 1", lambda sdk: sdk.projects.get(id=1)).id == 1
    client.close()
    assert PERSONAL in own.sent[1][2]


def test_the_secret_of_the_webhook_follows_none_either(own: Site, other: Site) -> None:
    class Hooks:
        path = "/webhook/label-studio"

    class Project:
        def hooks(self) -> Hooks:
            return Hooks()

    own.answer = lambda path: (307, {"Location": other.url + path}, {})
    with pytest.raises(RemoteError, match="answered 307"):
        subscribe(Project(), own.url, b"secret-of-the-webhook")  # type: ignore[arg-type]
    assert SECRET_HEADER.lower() in own.sent[0][1].lower()
    assert other.sent == []
