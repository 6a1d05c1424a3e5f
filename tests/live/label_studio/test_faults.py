"""A server that fails: the user is told what and what to do, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from bbq_adapters.label_studio.server_project import Client
from pydantic import BaseModel

from bbq_plugin.errors import RemoteError
from tests.live.label_studio.faults import Answer, Asked, Proxy, proxied
from tests.live.label_studio.study import PAIRWISE, Bbq, chose, pair
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from pathlib import Path

    from tests.live.label_studio.server import Server, User

HTML = b"<!doctype html><html><body>Please log in</body></html>"


@pytest.fixture(scope="module")
def project(label_studio: Server, people: list[User]) -> int:
    """Nine tasks with an answer each."""
    made = label_studio.project(PAIRWISE)
    for task in label_studio.tasks(made, [pair("x", "y")] * 9):
        label_studio.annotate(task, chose("left"), people[0])
    return made


@pytest.fixture
def failing(bbq: Bbq, proxy: Proxy) -> Bbq:
    """The command line, with the proxy in between."""
    bbq.url = proxy.url
    return bbq


def of_tasks(asked: Asked) -> bool:
    return asked.path.startswith("/api/tasks/")


@pytest.mark.usefixtures("no_waiting")
def test_a_server_that_is_down(bbq: Bbq) -> None:
    with proxied("http://127.0.0.1:9") as closed:
        bbq.url = closed.url
    said = bbq("pull", 1, fails=1)
    assert "cannot be reached" in said
    assert "is it running" in said
    assert "5 tries" in said


def test_an_answer_of_another_shape_is_not_called_a_web_page(failing: Bbq, proxy: Proxy) -> None:
    proxy.rule = lambda _: Answer(200, b"[1]")
    said = failing("pull", 1, fails=1)
    assert "can make nothing of the answer" in said
    assert "pip install -U label-studio-sdk" in said
    assert "web page" not in said


def test_what_pydantic_refuses_is_named_without_its_value() -> None:
    class Known(BaseModel):
        number: int

    client = Client("http://127.0.0.1:9", "0" * 40)
    with pytest.raises(RemoteError, match=r"\(number: Input should be .* integer") as caught:
        client.call("asking", lambda _: Known.model_validate({"number": "a secret"}))
    assert "a secret" not in str(caught.value)
    client.close()


@pytest.mark.usefixtures("no_waiting")
def test_a_slow_server(failing: Bbq, proxy: Proxy, project: int) -> None:
    never = threading.Event()
    proxy.rule = lambda _: Answer(200, until=never)
    said = failing("pull", project, "--timeout", "0.2", fails=1)
    never.set()
    assert "no answer in time (5 tries)" in said


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_fault_that_passes_is_waited_out(
    failing: Bbq, proxy: Proxy, project: int, status: int
) -> None:
    failed: set[str] = set()

    def once(asked: Asked) -> Answer | None:
        path = asked.path.split("?")[0]
        if path in failed:
            return None
        failed.add(path)
        return Answer(status)

    proxy.rule = once
    assert failing.pull(project)["n_new"] == 9
    assert f"answered {status}; trying again" in failing.said[-1]


def test_the_pause_that_the_server_asks_for_is_kept(
    failing: Bbq, proxy: Proxy, project: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.rule = lambda asked: (
        Answer(429, headers={"Retry-After": "1"}) if not asked.number else None
    )
    monkeypatch.setattr("bbq_adapters.label_studio.server_project.FIRST_WAIT_S", 1000.0)
    failing.pull(project)
    assert "trying again in 1 s" in failing.said[-1]


@pytest.mark.usefixtures("no_waiting")
def test_a_server_that_goes_on_failing(failing: Bbq, proxy: Proxy, project: int) -> None:
    proxy.rule = lambda asked: Answer(500) if of_tasks(asked) else None
    said = failing("pull", project, fails=1)
    assert "the server answered 500: a fault of the test (5 tries)" in said
    assert "Traceback" not in said


def test_a_wrong_token(failing: Bbq, proxy: Proxy, project: int) -> None:
    failing.token = "0" * 40
    said = failing("pull", project, fails=1)
    assert "the token is refused (401" in said
    assert "LABEL_STUDIO_API_KEY" in said
    assert len(proxy.asked) == 1


def test_a_web_page_instead_of_json(failing: Bbq, proxy: Proxy, project: int) -> None:
    proxy.rule = lambda _: Answer(200, HTML, "text/html")
    said = failing("pull", project, fails=1)
    assert "a web page and not JSON" in said
    assert "doctype" not in said


def test_json_of_another_server(failing: Bbq, proxy: Proxy, project: int) -> None:
    proxy.rule = lambda asked: Answer(200, b'{"hello": 1}') if of_tasks(asked) else None
    assert "unexpected shape" in failing("pull", project, fails=1)


def test_a_project_that_is_not_there(bbq: Bbq) -> None:
    said = bbq("pull", 99_999, fails=1)
    assert "there is no project 99999 (404)" in said


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("127.0.0.1:8080", "expected one such as http://"),
        ("http://user:pass@127.0.0.1:8080", "holds a password"),
        ("http://127.0.0.1:8080/projects/5/data", "one of its pages"),
    ],
)
def test_an_address_that_is_none_is_wrong_usage(bbq: Bbq, url: str, why: str) -> None:
    bbq.url = url
    assert why in bbq("pull", 1, fails=2)


def test_another_server_with_the_same_project_number_is_refused(
    bbq: Bbq, proxy: Proxy, project: int
) -> None:
    bbq.pull(project)
    bbq.url = proxy.url
    assert "--moved" in bbq("pull", project, fails=2)
    assert bbq.pull(project, "--moved")["n_tasks"] == 0
    assert bbq.pull(project)["n_tasks"] == 0


def test_a_token_that_runs_out_in_the_middle_is_renewed(
    failing: Bbq, proxy: Proxy, label_studio: Server, project: int
) -> None:
    """A personal access token is exchanged for tokens of five minutes: the first one dies."""
    failing.token = label_studio.personal_token()
    expired = Answer(401, b'{"detail": "Given token not valid for any token type"}')
    first: list[str] = []

    def rule(asked: Asked) -> Answer | None:
        if not of_tasks(asked):
            return None
        first.append(asked.authorization)
        return expired if len(first) > 2 and asked.authorization == first[0] else None

    proxy.rule = rule
    assert failing.pull(project, "--page-size", "2")["n_new"] == 9
    assert len(set(first)) == 2
    assert sum(asked.path == "/api/token/refresh/" for asked in proxy.asked) == 2


@pytest.mark.usefixtures("no_waiting")
def test_a_pull_that_was_cut_off_goes_on_from_its_last_page(
    failing: Bbq, proxy: Proxy, project: int
) -> None:
    pages = 0

    def rule(asked: Asked) -> Answer | None:
        nonlocal pages
        pages += of_tasks(asked)
        # The first question is for the latest change, the next two are for pages.
        return Answer(500) if pages > 3 else None

    proxy.rule = rule
    failing("pull", project, "--page-size", "2", fails=1)
    proxy.rule = lambda _: None
    rest = failing.pull(project, "--page-size", "2")
    assert rest["n_new"] == 9 - 4
    assert rest["n_comparisons"] == 9


_KILLED = """
import os, signal, sys
from bbq_plugin.cli import main
from bbq_plugin.store.project_sync import Memory
kept = Memory.save_page
pages = 0
def save_page(self, *arguments):
    global pages
    kept(self, *arguments)
    pages += 1
    if pages == 3:
        os.kill(os.getpid(), signal.SIGKILL)
Memory.save_page = save_page
main(sys.argv[1:])
"""


def test_a_pull_that_was_killed_in_the_middle_of_a_page_loses_only_that_page(
    bbq: Bbq, label_studio: Server, project: int, tmp_path: Path
) -> None:
    arguments = ["pull", "--project", str(project), "--store", str(bbq.store), "--page-size", "2"]
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "LABEL_STUDIO_URL": label_studio.url,
        "LABEL_STUDIO_API_KEY": label_studio.token,
    }
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, *arguments], env=environment, check=False, timeout=HANG_S
    )
    assert done.returncode == -9
    rest = bbq.pull(project)
    assert (rest["n_new"], rest["n_comparisons"]) == (9 - 4, 9)
