"""One store, one verdict: every reader of a store says the same about each rater.

Late has guessed and was excluded, and has answered a little better since: too good to be excluded
anew, not good enough to come back. A reader that does not know of the exclusion says another thing.
"""

from __future__ import annotations

import json
import re
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from bbq_plugin import Hook
from bbq_plugin.cli.options import Server
from bbq_plugin.data.records import FeedbackPlan
from bbq_plugin.live.engine import Engine
from tests.live.server.serving import serving
from tests.live.test_excluded import BETWEEN, RECOVERED, SURELY_BAD, answers
from tests.store.stores import report, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bbq_plugin.live.python_hook import Update
    from bbq_plugin.protocols import FeedbackGoals

Verdict = str


def add(store: Path, n_good: int) -> None:
    with Engine(store) as engine:
        engine.add(answers(n_good))
        engine.refresh(full=True)


def of_late(document: Any) -> Verdict:
    (row,) = [row for row in document["raters"] if row["rater"] == "late"]
    return str(row["verdict"])


def raters_command(store: Path, _: pytest.MonkeyPatch) -> Verdict:
    return of_late(report("raters", "--store", store))


def fit_command(store: Path, _: pytest.MonkeyPatch) -> Verdict:
    return of_late(report("fit", "--store", store))


def pairs_command(store: Path, _: pytest.MonkeyPatch) -> Verdict:
    found = report("pairs", "--store", store, "--all-raters", "-n", "11")
    asked = {row["rater"] for row in found["pairs"]}
    return "watch" if "late" in asked else "exclude"


def daemon_files(store: Path, _: pytest.MonkeyPatch) -> Verdict:
    inbox, out = store.parent / "inbox", store.parent / "out"
    inbox.mkdir(exist_ok=True)
    done = run("watch", inbox, "--store", store, "--out", out, "--once")
    assert done.exit_code == 0, done.output
    return of_late(json.loads((out / "report.json").read_text()))


def pseudonymous_files(store: Path, monkeypatch: pytest.MonkeyPatch) -> Verdict:
    monkeypatch.setenv("BBQ_PSEUDONYM_KEY", "correct horse battery staple")
    inbox, out = store.parent / "inbox", store.parent / "out"
    inbox.mkdir(exist_ok=True)
    done = run("watch", inbox, "--store", store, "--out", out, "--once", "--pseudonymise")
    assert done.exit_code == 0, done.output
    rows = json.loads((out / "report.json").read_text())["raters"]
    assert "late" not in {row["rater"] for row in rows}
    (shown,) = [row for row in rows if row["verdict"] != "keep"]
    return str(shown["verdict"])


def page(store: Path, _: pytest.MonkeyPatch) -> Verdict:
    with serving(store) as server:
        text = server.ask("/raters?q=late").text
    (verdict,) = set(re.findall(r'class="verdict (\w+)"', text)) or {"?"}
    return str(verdict)


class _Project:
    """A labelling project that is only asked for a plan."""

    def __init__(self) -> None:
        self.goals: FeedbackGoals | None = None

    def plan(self, goals: FeedbackGoals, *_: object) -> FeedbackPlan:
        self.goals = goals
        return FeedbackPlan(())


def push_command(store: Path, monkeypatch: pytest.MonkeyPatch) -> Verdict:
    project = _Project()

    class Memory:
        @staticmethod
        def entries() -> list[object]:
            return []

    @contextmanager
    def reached(*_: object, **__: object) -> Iterator[tuple[_Project, type[Memory]]]:
        yield project, Memory

    monkeypatch.setattr(Server, "open", reached)
    monkeypatch.setenv("LABEL_STUDIO_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", "not used")
    done = run("push", "--project", "1", "--store", store)
    assert done.exit_code == 0, done.output
    assert project.goals is not None
    return "exclude" if "late" in project.goals.excluded else "watch"


def hook_verdict(found: Hook) -> Verdict:
    return {row.rater: row.verdict for row in found.raters()}["late"]


def hook(store: Path, _: pytest.MonkeyPatch) -> Verdict:
    with Hook(store) as found:
        return hook_verdict(found)


READERS = (
    raters_command, fit_command, pairs_command, daemon_files, pseudonymous_files, page,
    push_command, hook,
)  # fmt: skip


@pytest.fixture(scope="module")
def improved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which Late was excluded, and has improved a little since."""
    folder = tmp_path_factory.mktemp("improved")
    store = folder / "votes.db"
    add(store, SURELY_BAD)
    with pytest.MonkeyPatch.context() as patch:
        assert daemon_files(store, patch) == "exclude"
    add(store, BETWEEN)
    return store


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_of_a_store_gives_the_same_verdict(
    reader: Callable[[Path, pytest.MonkeyPatch], Verdict],
    improved: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A copy each: none may profit from what another has put down.
    store = tmp_path / "votes.db"
    shutil.copy(improved, store)
    assert reader(store, monkeypatch) == "exclude"
    # The same answers in a store that has never excluded anybody.
    fresh = tmp_path / "fresh.db"
    add(fresh, BETWEEN)
    assert reader(fresh, monkeypatch) == "watch"


@pytest.mark.parametrize("first", [daemon_files, pseudonymous_files, page, hook])
def test_an_exclusion_is_remembered_by_whoever_made_it_until_the_rater_has_recovered(
    first: Callable[[Path, pytest.MonkeyPatch], Verdict],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = tmp_path / "votes.db"
    add(store, SURELY_BAD)
    assert first(store, monkeypatch) == "exclude"
    add(store, BETWEEN)
    assert {reader(store, monkeypatch) for reader in (raters_command, first, hook)} == {"exclude"}
    add(store, RECOVERED)
    found = {reader(store, monkeypatch) for reader in (raters_command, daemon_files, hook)}
    assert "exclude" not in found


def test_updates_of_the_hook_do_not_take_an_exclusion_back_after_a_few_good_answers(
    tmp_path: Path,
) -> None:
    store = tmp_path / "votes.db"
    add(store, SURELY_BAD)
    heard: list[Update] = []
    with Hook(store) as found:
        found.on_update(heard.append)
        assert hook_verdict(found) == "exclude"
        for one in answers(BETWEEN)[-BETWEEN:]:
            found.submit(one)
        found.flush()
        assert hook_verdict(found) == "exclude"
    told = [one.verdict for update in heard for one in update.raters if one.rater == "late"]
    assert set(told) <= {"exclude"}
    assert heard
