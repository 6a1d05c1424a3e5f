"""A real Label Studio for tests: installed once, migrated once, started for each run.

The environment and a migrated data folder are kept in a cache folder outside the checkout
(`BBQ_CACHE_DIR`, else `~/.cache/bbq-plugin`). The server listens on the loopback only, with
telemetry off and the proxies closed, on a copy of the data that is thrown away. Nothing but the
standard library is needed here, so that `make_fixtures.py` can use it as well.
"""

from __future__ import annotations

import fcntl
import http.cookiejar
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.waiting import HANG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Another version is tried by hand, before the range in the documentation is changed.
VERSION = os.environ.get("BBQ_TEST_LABEL_STUDIO", "1.23.2")
ADMIN = "admin@example.com"
# The address that the server refuses, as by default it does all of a private network.
BANNED = "127.0.0.2"


class NoServerError(Exception):
    """Label Studio cannot be had here; the message says why."""


def cache_folder() -> Path:
    """Where the environment and the migrated data are kept."""
    base = os.environ.get("BBQ_CACHE_DIR")
    root = Path(base) if base else Path.home() / ".cache" / "bbq-plugin"
    return root / f"label-studio-{VERSION}-py{sys.version_info[0]}.{sys.version_info[1]}"


def installed() -> Path:
    """The cache folder with all that a start needs; made now if it is absent."""
    folder = cache_folder()
    if (folder / "ready.json").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        # Two runs at the same time: the second waits and finds all done.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready.json").exists():
            _install(folder)
            _migrate(folder)
    return folder


def _install(folder: Path) -> None:
    if (folder / "installed").exists():
        return
    _say(f"installing Label Studio {VERSION} in {folder} (once, about two minutes)")
    shutil.rmtree(folder / "venv", ignore_errors=True)
    environment = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    quiet = ["--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [str(environment / "bin" / "pip"), "install", *quiet, f"label-studio=={VERSION}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise NoServerError(f"Label Studio {VERSION} cannot be installed: {reason}")
    (folder / "installed").touch()


def _migrate(folder: Path) -> None:
    """Start once on empty data: that makes the tables, the organisation and its first user."""
    _say("migrating Label Studio's database (once, about half a minute)")
    data = folder / "data"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    token, password = secrets.token_hex(20), secrets.token_hex(12)
    server = Server(folder / "venv" / "bin" / "label-studio", data, token, password)
    try:
        server.wait()
    finally:
        server.stop()
    (data / "server.log").unlink()
    ready = folder / "ready.json"
    ready.with_suffix(".part").write_text(json.dumps({"token": token, "password": password}))
    ready.with_suffix(".part").replace(ready)


def _say(text: str) -> None:
    # Past pytest's capture: this is where a first run spends its minutes.
    sys.__stderr__.write(f"== {text}\n")  # type: ignore[union-attr]
    sys.__stderr__.flush()  # type: ignore[union-attr]


@contextmanager
def running(failed: Callable[[], bool] = lambda: False) -> Iterator[Server]:
    """A server of one's own, on a copy of the migrated data; its log is kept if it `failed`."""
    cache = installed()
    admin = json.loads((cache / "ready.json").read_text())
    folder = Path(tempfile.mkdtemp(prefix="bbq-label-studio-"))
    data = folder / "data"
    shutil.copytree(cache / "data", data)
    command = cache / "venv" / "bin" / "label-studio"
    server = Server(command, data, admin["token"], admin["password"])
    well = False
    try:
        server.wait()
        yield server
        well = not failed()
    finally:
        server.stop()
        if well:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            (data / "server.log").replace(folder / "server.log")
            shutil.rmtree(data, ignore_errors=True)
            _say(f"the log of Label Studio is kept: {folder / 'server.log'}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class User:
    """Somebody who can log in."""

    id: int
    email: str
    #: The legacy token of the account.
    token: str
    #: Keeps the cookies of the login.
    browser: urllib.request.OpenerDirector


class Server:
    """A running server and a way to talk to it as any of its users."""

    def __init__(
        self,
        command: Path,
        data: Path,
        token: str,
        password: str,
    ) -> None:
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.token = token
        self.data = data
        self._personal: dict[str, str] = {}
        closed = "http://127.0.0.1:9"
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(data),
            "LABEL_STUDIO_BASE_DATA_DIR": str(data),
            "LABEL_STUDIO_COLLECT_ANALYTICS": "false",
            "LABEL_STUDIO_LATEST_VERSION_CHECK": "false",
            "LABEL_STUDIO_SENTRY_DSN": "",
            "LABEL_STUDIO_FRONTEND_SENTRY_DSN": "",
            "LABEL_STUDIO_FEATURE_FLAGS_OFFLINE": "true",
            # Webhooks and ML backends of the tests are on the loopback too, all but one.
            "LABEL_STUDIO_SSRF_PROTECTION_ENABLED": "true",
            "LABEL_STUDIO_USE_DEFAULT_BANNED_SUBNETS": "false",
            "LABEL_STUDIO_USER_ADDITIONAL_BANNED_SUBNETS": BANNED,
            "LABEL_STUDIO_ML_BLOCK_LOCAL_IP": "false",
            "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
            "LABEL_STUDIO_USERNAME": ADMIN,
            "LABEL_STUDIO_PASSWORD": password,
            "LABEL_STUDIO_USER_TOKEN": token,
            "HTTP_PROXY": closed,
            "HTTPS_PROXY": closed,
            "NO_PROXY": "127.0.0.1,localhost",
        }
        arguments = ["start", "--no-browser", "--internal-host", "127.0.0.1"]
        with (data / "server.log").open("wb") as log:
            self.process = subprocess.Popen(
                [str(command), *arguments, "--port", str(self.port)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait(self) -> None:
        """Until the server answers. The first start migrates the database before that."""

        def answers() -> bool:
            try:
                self.call("GET", "/health")
            except OSError:
                return False
            return True

        try:
            wait_until(
                answers,
                "Label Studio to answer",
                log=self.data / "server.log",
                ended=lambda: self.process.poll() is not None,
            )
        except AssertionError as error:
            raise NoServerError(f"Label Studio did not start: {error}") from None

    def stop(self) -> None:
        """End the process that was started here, and no other."""
        self.process.terminate()
        try:
            self.process.wait(HANG_S)
        finally:
            self.process.kill()

    def call(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> bytes:
        """One request, as the administrator unless another token is given."""
        request = urllib.request.Request(  # noqa: S310 - always the loopback
            self.url + path,
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={
                "Authorization": f"Token {token or self.token}",
                "Content-Type": "application/json",
            },
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=HANG_S) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            said = error.read()[:500]
            raise OSError(f"{method} {path}: {error.code} {said!r}") from None

    def get(self, path: str, *, token: str | None = None) -> Any:
        """The answer to a GET, decoded."""
        return json.loads(self.call("GET", path, token=token))

    def post(self, path: str, body: Any, *, token: str | None = None) -> Any:
        """The answer to a POST, decoded."""
        answer = self.call("POST", path, body, token=token)
        return json.loads(answer) if answer else None

    def patch(self, path: str, body: Any, *, token: str | None = None) -> Any:
        """The answer to a PATCH, decoded."""
        return json.loads(self.call("PATCH", path, body, token=token))

    def delete(self, path: str, *, token: str | None = None) -> None:
        """Delete something, as a person would."""
        self.call("DELETE", path, token=token)

    def sign_up(self, email: str, password: str = "a-password-of-tests") -> User:  # noqa: S107
        """Create an account the way a person does: only these can log in."""
        browser = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()),
        )
        page = browser.open(self.url + "/user/signup/", timeout=HANG_S).read().decode()
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        if found is None:
            raise OSError("the page for signing up has no form")
        form = {
            "csrfmiddlewaretoken": found[1],
            "email": email,
            "password": password,
            "allow_newsletters": "false",
        }
        body = urllib.parse.urlencode(form).encode()
        browser.open(self.url + "/user/signup/", body, timeout=HANG_S).read()
        token = json.loads(
            browser.open(self.url + "/api/current-user/token", timeout=HANG_S).read()
        )
        who = self.get("/api/current-user/whoami", token=token["token"])
        return User(int(who["id"]), email, token["token"], browser)

    def personal_token(self, *, token: str | None = None) -> str:
        """A personal access token: a JWT that is exchanged for others of five minutes.

        A user has one at a time, which the server shows once.
        """
        user = token or self.token
        if user not in self._personal:
            self._personal[user] = str(self.post("/api/token/", {}, token=token)["token"])
        return self._personal[user]

    def project(self, config: str, title: str = "A project", **settings: Any) -> int:
        """Create a project."""
        body = {"title": title, "label_config": config, **settings}
        return int(self.post("/api/projects/", body)["id"])

    def tasks(self, project: int, data: list[dict[str, Any]]) -> list[int]:
        """Import tasks; their ids in the same order."""
        before = self._last_task(project)
        self.post(f"/api/projects/{project}/import", [{"data": one} for one in data])
        query = json.dumps(
            {
                "filters": {
                    "conjunction": "and",
                    "items": [
                        {
                            "filter": "filter:tasks:id",
                            "operator": "greater",
                            "type": "Number",
                            "value": before,
                        }
                    ],
                }
            }
        )
        path = f"/api/tasks/?project={project}&page_size=10000&query={urllib.parse.quote(query)}"
        return sorted(task["id"] for task in self.get(path)["tasks"])

    def _last_task(self, project: int) -> int:
        found = self.get(f"/api/tasks/?project={project}&page_size=10000&fields=task_only")
        return max((task["id"] for task in found["tasks"]), default=0)

    def annotate(
        self, task: int, result: list[dict[str, Any]], user: User | None = None, **fields: Any
    ) -> int:
        """Answer a task as somebody; the id of the annotation."""
        body = {"result": result, "lead_time": 4.2, **fields}
        token = None if user is None else user.token
        return int(self.post(f"/api/tasks/{task}/annotations/", body, token=token)["id"])

    def export(self, project: int) -> list[dict[str, Any]]:
        """Everything in the project as its JSON export has it, by task id."""
        path = f"/api/projects/{project}/export?download_all_tasks=true&exportType=JSON"
        return sorted(self.get(path), key=lambda task: int(task["id"]))
