"""Feedback from the page of a real `bbq serve`: applied, cut off, undone, and then quiet."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from bbq_plugin.store import Store, project_sync
from tests.live.label_studio.faults import Answer, Asked, Proxy
from tests.live.label_studio.study import Bbq, fill, without_times
from tests.live.label_studio.test_push_alone import WRITES, said, state
from tests.live.server.serving import Serving, serving
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.live.label_studio.server import Server, User

PAGE_TOKEN = "a-token-of-the-page-0123456789"  # noqa: S105


class Browser:
    """Somebody who has logged in, and presses buttons."""

    def __init__(self, here: Serving) -> None:
        self.here = here
        self.form = {"Origin": here.url, "Content-Type": "application/x-www-form-urlencoded"}
        login = here.ask("/login", f"token={PAGE_TOKEN}".encode(), self.form)
        self.cookie = {"Cookie": login.headers["set-cookie"].split(";")[0]}

    def page(self) -> str:
        return self.here.ask("/feedback", headers=self.cookie).text

    def press(self, what: str, **fields: str) -> str:
        """Press a button; the page once the work is done."""
        body = "&".join(f"{key}={value}" for key, value in fields.items()).encode()
        answer = self.here.ask(f"/feedback/{what}", body, {**self.form, **self.cookie})
        assert answer.status == 303
        page: str = wait_until(self._idle, "the end of it")
        return page

    def _idle(self) -> str:
        page = self.page()
        return "" if "Working" in page else page

    def hidden(self, name: str) -> str:
        found = re.search(f'name="{name}" value="([^"]+)"', self.page())
        assert found is not None, self.page()
        return found[1]


class Study:
    """A crowd with one who answers upside down, and the page before its project."""

    def __init__(self, server: Server, people: list[User], proxy: Proxy, store: Path) -> None:
        self.server, self.proxy, self.store = server, proxy, store
        self.project = fill(server, people[:10], n_tasks=75, n_guessers=0).project
        self.place = {
            "LABEL_STUDIO_URL": proxy.url,
            "LABEL_STUDIO_API_KEY": server.token,
            "BBQ_PAGE_TOKEN": PAGE_TOKEN,
        }

    @contextmanager
    def serving(self, *more: str) -> Iterator[Browser]:
        words = ("--project", str(self.project), "--reconcile", "1h", *more)
        with serving(self.store, *words, **self.place) as here:
            here.wait_for(225)
            yield Browser(here)

    def n_tabs(self) -> int:
        return len(self.server.get(f"/api/dm/views/?project={self.project}"))

    def tasks(self) -> dict[int, tuple[int, bool]]:
        return state(self.server, self.project)

    def export(self) -> Any:
        return without_times(self.server.export(self.project))


@pytest.fixture
def study(label_studio: Server, people: list[User], proxy: Proxy, tmp_path: Path) -> Study:
    return Study(label_studio, people, proxy, tmp_path / "state.db")


def lose_the_tab(asked: Asked) -> Answer | None:
    lost = asked.method == "POST" and asked.path.startswith("/api/dm/views/")
    return Answer(502, after=True) if lost else None


def test_a_plan_is_applied_after_a_cut_and_undone_from_the_page(study: Study) -> None:
    before, tasks = study.export(), study.tasks()
    with study.serving() as browser:
        assert "There is no change by bbq" in browser.page()
        browser.press("dry-run")
        mark = browser.hidden("plan")
        study.proxy.rule = lose_the_tab
        assert "the server answered 502" in browser.press("apply", plan=mark)
        assert study.n_tabs() == 1
        study.proxy.rule = lambda _: None
        # The same plan again, whose tab was made by now.
        browser.press("apply", plan=mark)
        assert study.n_tabs() == 1
        changed = study.tasks()
        n = sum(changed[task] != tasks[task] for task in tasks)
        assert n > 5
        page = browser.page()
        assert f"{n + 1} changes in the project: relabel {n}, tab 1." in page
        assert f"Undo {n + 1} changes" in page
        # Who has not logged in reads the same, and has no button.
        assert ">Undo " not in browser.here.ask("/feedback").text
        standing = browser.hidden("standing")
        body = f"standing={standing}".encode()
        assert browser.here.ask("/feedback/undo", body, browser.form).status == 403
        foreign = {**browser.form, **browser.cookie, "Origin": "http://elsewhere.example"}
        assert browser.here.ask("/feedback/undo", body, foreign).status == 403
        browser.press("undo", standing="1-1")
        assert study.tasks() == changed
        assert f"{n + 1} changes were undone" in browser.press("undo", standing=standing)
        assert "There is no change by bbq" in browser.page()
    assert study.n_tabs() == 0
    assert study.export() == before
    assert study.tasks() == tasks


def test_what_was_undone_on_the_page_is_not_written_again_automatically(study: Study) -> None:
    tasks = study.tasks()
    alone = ("--push", "--push-every-s", "0.3", "--auto-apply", "relabel,tab")
    with study.serving(*alone) as browser:
        said(browser.here, 'feedback done="relabel ')
        wait_until(lambda: study.n_tabs() == 1, "the tab")
        changed = study.tasks()
        browser.press("undo", standing=browser.hidden("standing"))
        said(browser.here, "all changes were undone by hand")
        assert study.tasks() == tasks
    # Not even by a new start.
    n_asked = len(study.proxy.asked)
    with study.serving(*alone) as browser:
        said(browser.here, "all changes were undone by hand")
        assert "Nothing is written automatically until a plan" in browser.page()
        writes = [one for one in study.proxy.asked[n_asked:] if one.method in (*WRITES, "POST")]
        assert writes == []
        assert "changes were applied" in browser.press("apply", plan=browser.hidden("plan"))
        assert "until a plan is applied" not in browser.page()
    assert study.tasks() == changed
    with Store(study.store, writable=False) as opened:
        standing = project_sync.standing(opened, "label-studio", study.project)
    assert not standing.held
    bbq = Bbq(study.server, study.store, url=study.proxy.url)
    assert bbq.push(study.project, "--undo")["n_actions"] == standing.n
    assert study.tasks() == tasks
