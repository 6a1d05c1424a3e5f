"""The hook tells what moved, and calls back."""

from __future__ import annotations

import logging
import re
import threading
from pathlib import Path
from queue import SimpleQueue

import pytest

import bbq_plugin as bbq
from bbq_plugin.errors import DataError, UsageError
from bbq_plugin.store import Store
from bbq_plugin.store.coded_columns import merged
from tests.live.hooks import cast, kept, study
from tests.waiting import HANG_S

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_updates_say_what_moved_and_who_is_judged_otherwise(path: Path) -> None:
    updates: SimpleQueue[bbq.Update] = SimpleQueue()
    threads = set()

    def note(update: bbq.Update) -> None:
        threads.add(threading.current_thread())
        updates.put(update)

    with bbq.Hook(path, refresh_every_s=3600) as hook:
        stop = hook.on_update(note)
        hook.vote(rater="ann", left="a", right="b", outcome="left")
        hook.flush()
        first = updates.get(timeout=HANG_S)
        assert first.leaderboard_changed
        assert first.n_comparisons == 1
        assert [(c.item, c.rank_before, c.rank) for c in first.items] == [
            ("a", None, 1), ("b", None, 2),
        ]  # fmt: skip
        assert first.raters == ()
        cast(hook, study())
        hook.flush()
        second = updates.get(timeout=HANG_S)
        assert second.n_comparisons == 601
        assert second.fit is hook.fit
        moved = {c.item: c for c in second.items}
        board = hook.leaderboard()
        for row in board:
            assert (moved[row.item].rank, moved[row.item].rating) == (row.rank, row.rating)
        verdicts = {row.rater: row.verdict for row in hook.raters() if row.verdict != "keep"}
        assert verdicts
        assert {c.rater: c.verdict for c in second.raters} == verdicts
        assert all(c.verdict_before == "keep" and c.reasons for c in second.raters)
        # The same answers again change nothing, and nobody is called for it.
        cast(hook, study())
        hook.flush()
        assert updates.empty()
        for vote in study():
            hook.submit_retraction(vote.key)
        stop()
        stop()
        hook.flush()
    assert updates.empty()
    assert len(threads) == 1
    assert threading.current_thread() not in threads


def test_an_update_leaves_out_what_moved_less_than_was_asked_for(path: Path) -> None:
    updates: list[bbq.Update] = []
    with bbq.Hook(path, refresh_every_s=3600, rating_change=50) as hook:
        cast(hook, study())
        hook.flush()
        hook.on_update(updates.append)
        best, second = hook.leaderboard()[:2]
        hook.vote(rater="ann", left=best.item, right=second.item, outcome="left")
        hook.flush()
    assert [update.leaderboard_changed for update in updates] == [False]
    assert updates[0].n_comparisons == 601


def test_taking_every_vote_back_is_told_and_leaves_no_leaderboard(hook: bbq.Hook) -> None:
    updates: list[bbq.Update] = []
    key = hook.vote(rater="ann", left="a", right="b", outcome="left")
    hook.flush()
    hook.on_update(updates.append)
    hook.retract(key)
    hook.flush()
    assert updates[-1].fit is None
    assert updates[-1].n_comparisons == 0
    assert [(c.item, c.rank) for c in updates[-1].items] == [("a", None), ("b", None)]
    with pytest.raises(DataError, match="no comparisons yet"):
        hook.leaderboard()
    hook.vote(rater="ann", left="c", right="d", outcome="left")
    hook.flush()
    assert {row.item for row in hook.leaderboard()} == {"c", "d"}


def test_a_callback_that_fails_is_logged_and_stops_nothing(
    hook: bbq.Hook, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[bbq.Update] = []

    def fail(_: bbq.Update) -> None:
        raise RuntimeError("the printer is on fire")

    hook.on_update(fail)
    hook.on_update(told.append)
    with caplog.at_level(logging.ERROR):
        hook.vote(rater="ann", left="a", right="b", outcome="left")
        hook.flush()
        hook.vote(rater="ann", left="a", right="b", outcome="left")
        hook.flush()
    assert len(told) == 2
    assert caplog.text.count("RuntimeError: the printer is on fire") == 2


def test_a_callback_may_vote_and_ask_but_not_wait_for_itself(hook: bbq.Hook) -> None:
    found: list[str] = []

    def react(update: bbq.Update) -> None:
        if update.n_comparisons > 1:
            return
        found.append(hook.leaderboard()[0].item)
        hook.vote(rater="robot", left="a", right="b", outcome="left", key="reaction")
        for wait in (hook.flush, hook.close):
            with pytest.raises(UsageError, match="inside a callback would wait for itself"):
                wait()
        found.append("end")

    hook.on_update(react)
    hook.vote(rater="ann", left="a", right="b", outcome="left")
    hook.flush()
    hook.flush()
    assert found == ["a", "end"]
    assert hook.fit.data.n_comparisons == 2


def test_closing_fits_what_is_waiting_and_calls_back(path: Path) -> None:
    updates: list[bbq.Update] = []
    with bbq.Hook(path, refresh_every_s=3600) as hook:
        hook.on_update(updates.append)
        cast(hook, study(60))
    hook.close()
    assert updates[-1].n_comparisons == 60
    assert len(hook.leaderboard()) == 8
    with pytest.raises(UsageError, match="this hook is closed"):
        hook.vote(rater="ann", left="a", right="b", outcome="left")
    with bbq.Hook(path) as free:
        assert free.fit.data.n_comparisons == 60


def test_a_fit_that_fails_keeps_the_votes_and_tells_whoever_waits(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bbq.Hook(path, refresh_every_s=0) as hook:
        with monkeypatch.context() as broken:
            broken.setattr(hook._engine, "refresh", lambda: 1 / 0)
            hook.vote(rater="ann", left="a", right="b", outcome="left", key="k")
            with pytest.raises(ZeroDivisionError):
                hook.flush()
        assert "the votes are stored, but could not be fitted" in caplog.text
        assert set(kept(path)) == {"k"}
        hook.flush()
        assert len(hook.leaderboard()) == 2


def test_changes_that_cancel_out_are_in_neither_part_when_merged(path: Path) -> None:
    with Store(path) as store:
        changes = [
            store.add([bbq.Comparison(key, "ann", "a", "b", "left")])[0] for key in ("x", "y")
        ]
        changes.append(store.retract(["x"])[0])
        both = merged(changes)
        assert both.added["id"].tolist() == [2]
        assert both.removed.tolist() == []
        assert merged(changes[1:]).removed.tolist() == [1]


def test_the_programs_of_the_documentation_run_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (DOCS / "live.md").read_text(encoding="utf-8")
    section = text[text.index("## Inside your own program") :]
    programs = re.findall(r"```python\n(.*?)```", section, re.DOTALL)[:2]
    monkeypatch.chdir(tmp_path)
    for program in programs:
        exec(compile(program, "docs", "exec"), {"__name__": "docs"})  # noqa: S102 (our own text)
    printed = capsys.readouterr().out
    assert "gpt: rank None → 1" in printed
    assert printed.endswith("1 votes\ngpt\n")
