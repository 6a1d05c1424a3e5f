"""The hook inside a program: votes that are kept, and word when the result changes."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import bbq_plugin as bbq
from bbq_plugin.comparisons import Skipped
from bbq_plugin.errors import DataError, StoreBusyError, StoreError, UnsupportedError, UsageError
from bbq_plugin.live.commits import merged
from bbq_plugin.live.store import Store
from bbq_plugin.live.store.reading import records_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bbq_plugin.comparisons import Record


DOCS = Path(__file__).resolve().parents[2] / "docs"


def kept(path: Path) -> dict[str, bbq.Comparison]:
    """Every answer of a store by its key; a key that is there twice is a failure."""
    with Store(path, writable=False) as store:
        records = list(records_of(store))
        assert store.check() == []
    by_key = {record.key: record for record in records}
    assert len(by_key) == len(records)
    return by_key


def study(n: int = 600) -> list[bbq.Comparison]:
    """Votes of a simulated study of eight items, in which two of ten raters guess."""
    drawn = bbq.simulate(
        items=8, raters=10, comparisons=n, guessers=0.2, spread=0.7, seed=2
    ).arrays()
    votes = []
    for i, (r, w, x) in enumerate(zip(drawn.rater, drawn.winner, drawn.loser, strict=True)):
        rater, winner, loser = drawn.raters[r], drawn.items[w], drawn.items[x]
        if i % 2:
            votes.append(bbq.Comparison(f"s{i}", rater, winner, loser, "left", at=float(i)))
        else:
            votes.append(bbq.Comparison(f"s{i}", rater, loser, winner, "right", at=float(i)))
    return votes


def cast(hook: bbq.Hook, votes: list[bbq.Comparison]) -> None:
    """Vote as fast as one can without waiting for each."""
    for done in [hook.submit(vote) for vote in votes]:
        done.result()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def hook(path: Path) -> Iterator[bbq.Hook]:
    with bbq.Hook(path, refresh_every_s=0) as opened:
        yield opened


def test_a_vote_is_in_the_store_when_the_call_returns(path: Path, hook: bbq.Hook) -> None:
    made = hook.vote(
        rater="ann", left="a", right="b", outcome="tie", weight=2, at=12.5, time_s=3,
        tags={"lang": "en"},
    )  # fmt: skip
    given = hook.vote(rater=None, left="a", right="b", outcome="both_bad", key="mine")
    assert given == "mine"
    # Another connection sees what is committed and nothing else.
    found = kept(path)
    assert set(found) == {made, "mine"}
    assert found[made] == bbq.Comparison(
        made, "ann", "a", "b", "tie", 2.0, None, 12.5, 3.0, {"lang": "en"}
    )
    assert found["mine"].at is not None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"outcome": "a"}, "outcome is 'a'; expected one of left, right, tie, both_bad"),
        ({"left": " "}, "item has an empty name"),
        ({"left": 3}, "item is 3, not text"),
        ({"rater": ""}, "rater has an empty name"),
        ({"rater": 3}, "rater is 3, not text"),
        ({"right": "a"}, "left and right are both 'a'"),
        ({"right": "x" * 10_001}, "names have at most 10,000"),
        ({"right": "\ud800"}, "half a character"),
        ({"weight": 0}, "weight is 0; a weight is finite and above 0"),
        ({"key": ""}, "key is ''"),
        ({"key": 7}, "key is 7"),
        ({"key": "\ud800"}, "half a character"),
        ({"at": float("nan")}, "at is nan; expected seconds since 1970"),
        ({"at": "today"}, "at is 'today'"),
        ({"time_s": -1}, "time_s is -1; expected seconds, 0 or more"),
        ({"tags": {"lang": 3}}, "tag 'lang' is 3"),
        ({"tags": {"lang": "\udfff"}}, "half a character"),
        ({"tags": "en"}, "tags is 'en'"),
    ],
)
def test_a_vote_that_cannot_be_one_is_refused_and_not_stored(
    path: Path, hook: bbq.Hook, wrong: dict[str, Any], message: str
) -> None:
    vote: dict[str, Any] = {"rater": "ann", "left": "a", "right": "b", "outcome": "left"}
    with pytest.raises(DataError, match=message):
        hook.vote(**vote | wrong)
    assert hook.vote(**vote, key="good") == "good"
    assert set(kept(path)) == {"good"}


def test_the_same_key_again_is_the_same_answer_even_when_the_clock_went_back(path: Path) -> None:
    times = iter([1000.0, 1000.0, 900.0, 900.0, 800.0] + [800.0] * 20)
    with bbq.Hook(path, clock=lambda: next(times, 700.0)) as hook:
        for outcome in ("left", "right", "tie"):
            hook.vote(rater="ann", left="a", right="b", outcome=outcome, key="k")
    assert kept(path)["k"].outcome == "tie"
    with bbq.Hook(path) as hook:
        # Where the caller dates the answers, the newer one counts.
        hook.vote(rater="ann", left="a", right="b", outcome="left", key="k", at=5e9)
        hook.vote(rater="ann", left="a", right="b", outcome="right", key="k", at=4e9)
    assert kept(path)["k"].outcome == "left"


def test_votes_under_one_key_in_one_transaction_keep_their_order(path: Path) -> None:
    with bbq.Hook(path, clock=lambda: 1.0) as hook:
        with hook._engine.store._mutex:
            # Nothing can be committed meanwhile, so that all of it waits and goes in together.
            first = hook.submit(bbq.Comparison("first", "ann", "a", "b", "left"))
            waiting: list[Any] = [
                hook.submit(bbq.Comparison("k", "ann", "a", "b", outcome))
                for outcome in ("left", "right", "tie")
            ]
            waiting.append(hook.submit_retraction("first"))
            waiting.append(hook.submit(bbq.Comparison("last", "ann", "a", "b", "right")))
            assert not first.done()
        assert [one.result() for one in (first, *waiting)] == ["first", "k", "k", "k", True, "last"]
    assert {key: record.outcome for key, record in kept(path).items()} == {
        "k": "tie", "last": "right",
    }  # fmt: skip


def test_retracting_a_vote_equals_never_having_seen_it(path: Path, tmp_path: Path) -> None:
    votes = study()
    with bbq.Hook(path, priors="paper") as hook:
        cast(hook, votes)
        extra = hook.vote(rater="eve", left="new", right=votes[0].left, outcome="left")
        hook.flush()
        assert "new" in hook.fit.items
        assert hook.retract(extra)
        assert not hook.retract(extra)
        hook.flush()
        after = hook.leaderboard()
    with bbq.Hook(tmp_path / "other.db", priors="paper") as other:
        cast(other, votes)
        other.flush()
        expected = other.leaderboard()
    assert [row.item for row in after] == [row.item for row in expected]
    # An incremental refresh is within 0.1 Elo points of the full answer.
    np.testing.assert_allclose(
        [row.rating for row in after], [row.rating for row in expected], atol=0.2
    )


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
        first = updates.get(timeout=60)
        assert first.leaderboard_changed
        assert first.n_comparisons == 1
        assert [(c.item, c.rank_before, c.rank) for c in first.items] == [
            ("a", None, 1), ("b", None, 2),
        ]  # fmt: skip
        assert first.raters == ()
        cast(hook, study())
        hook.flush()
        second = updates.get(timeout=60)
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


def test_many_threads_vote_at_once_and_each_vote_counts_once(path: Path) -> None:
    votes = study(320)
    with bbq.Hook(path, refresh_every_s=0, priors="paper") as hook:
        hook.on_update(lambda _: None)

        def run(mine: list[bbq.Comparison]) -> None:
            for v in mine:
                hook.vote(key=v.key, rater=v.rater, left=v.left, right=v.right, outcome=v.outcome)
                if v.key.endswith("7"):
                    hook.retract(v.key)

        threads = [threading.Thread(target=run, args=(votes[i::16],)) for i in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        hook.flush()
        live = hook.fit
        stays = [v for v in votes if not v.key.endswith("7")]
        assert live.data.n_comparisons == len(stays)
        cold = bbq.fit(bbq.Comparisons.from_comparisons(stays), priors=bbq.Priors())
        assert set(live.items) == set(cold.items)
        theta = dict(zip(live.items, live.theta, strict=True))
        expected = dict(zip(cold.items, cold.theta, strict=True))
    assert set(kept(path)) == {v.key for v in stays}
    # An incremental refresh is within 0.1 Elo points of the full answer: 0.0006 nats.
    assert max(abs(theta[i] - expected[i]) for i in theta) < 1e-3


def test_a_hook_opened_again_goes_on_where_the_last_one_ended(path: Path) -> None:
    with bbq.Hook(path) as hook:
        cast(hook, study())
    updates: list[bbq.Update] = []
    with bbq.Hook(path) as again:
        again.on_update(updates.append)
        assert len(again.leaderboard()) == 8
        assert len(again.next_pairs(3)) == 3
        again.vote(rater="ann", left="new", right="newer", outcome="left")
        again.flush()
        assert len(again.leaderboard()) == 10
    assert updates[-1].n_comparisons == 601


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


def test_a_second_hook_on_the_same_store_says_who_holds_it(path: Path, hook: bbq.Hook) -> None:
    hook.vote(rater="ann", left="a", right="b", outcome="left")
    script = "import sys, bbq_plugin as bbq; bbq.Hook(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False
    )
    assert "StoreBusyError" in done.stderr
    assert f"process {os.getpid()} on " in done.stderr
    with pytest.raises(StoreBusyError, match="is being written by process"):
        bbq.Hook(path)


def test_a_vote_that_cannot_be_written_is_an_error_and_later_ones_go_on(path: Path) -> None:
    with bbq.Hook(path, refresh_every_s=0, priors="paper") as hook:
        hook.vote(rater="ann", left="a", right="b", outcome="left", key="before")
        db = hook._engine.store.db
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        # SQLite's own limit answers as a full disk does.
        db.execute(f"PRAGMA max_page_count = {pages}")
        many = [bbq.Comparison(f"x{i}" * 1000, "bob", "a", "b", "left") for i in range(1000)]
        with pytest.raises(StoreError, match="the disk is full: make room"):
            cast(hook, many)
        db.execute("PRAGMA max_page_count = 1000000")
        hook.vote(rater="bob", left="a", right="c", outcome="left", key="after")
        hook.flush()
        found = kept(path)
        assert {"before", "after"} <= set(found)
        assert hook.fit.data.n_comparisons == len(found) < len(many)


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


def test_without_votes_there_is_nothing_to_show_and_nothing_hangs(hook: bbq.Hook) -> None:
    hook.flush()
    for ask in (hook.leaderboard, hook.raters, hook.next_pairs, lambda: hook.fit):
        with pytest.raises(DataError, match="no comparisons yet"):
            ask()
    assert not hook.retract("nothing")


def test_options_that_make_no_sense_are_refused_before_the_store_is_touched(path: Path) -> None:
    for wrong in ({"refresh_every_s": -1}, {"rating_change": -1}, {"level": 1}, {"adapter": "no"}):
        with pytest.raises(UsageError):
            bbq.Hook(path, **wrong)
    assert not path.exists()


def test_a_forked_child_is_told_to_open_a_hook_of_its_own(path: Path) -> None:
    script = """
import os, sys, warnings
warnings.simplefilter("ignore")
import bbq_plugin as bbq
with bbq.Hook(sys.argv[1]) as hook:
    if os.fork() == 0:
        try:
            hook.vote(rater="ann", left="a", right="b", outcome="left")
        except bbq.BBQError as error:
            print(error, flush=True)
        os._exit(0)
    os.wait()
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    assert "open it after the fork" in done.stdout


class Ticks:
    """An adapter whose tool sends events."""

    name = "ticks"

    def sniff(self, head: bytes, name: str) -> str | None:
        """Never a file."""
        del head, name
        return None

    def read(self, *_: Any, **__: Any) -> Iterator[bbq.Comparison | Skipped]:
        """No files."""
        yield from ()

    def read_event(self, event: Mapping[str, Any]) -> Iterator[Record]:
        """One answer, or that it was taken back."""
        if event["action"] == "deleted":
            yield Skipped("event", "deleted", key=event["id"], version=event["v"], at=1.0)
        else:
            yield bbq.Comparison(
                event["id"], "ann", "a", "b", event["answer"], at=1.0, version=event["v"]
            )


def test_events_of_an_adapter_come_in_twice_and_out_of_order(path: Path) -> None:
    with bbq.Hook(path, adapter=Ticks()) as hook:
        made = {"action": "made", "id": "t1", "answer": "left", "v": 1.0}
        assert hook(made) == 1
        assert hook(made) == 0
        assert hook(made | {"answer": "right", "v": 3.0}) == 1
        assert hook(made | {"answer": "tie", "v": 2.0}) == 0
        assert hook(made | {"id": "t2"}) == 1
        assert hook({"action": "deleted", "id": "t2", "v": 4.0}) == 1
        assert hook(made | {"id": "t2", "v": 2.0}) == 0
        with pytest.raises(DataError, match="outcome is 'up'"):
            hook(made | {"id": "t3", "answer": "up"})
        hook.flush()
        assert hook.fit.data.n_comparisons == 1
    assert {key: record.outcome for key, record in kept(path).items()} == {"t1": "right"}


def test_a_bad_event_does_not_take_the_votes_beside_it_with_it(path: Path) -> None:
    with bbq.Hook(path, adapter=Ticks()) as hook:
        with hook._engine.store._mutex:
            first = hook.submit(bbq.Comparison("v1", "ann", "a", "b", "left"))
            bad = hook.submit_event({"action": "made", "id": "t", "answer": "up", "v": 1.0})
            last = hook.submit(bbq.Comparison("v2", "ann", "a", "b", "left"))
        assert (first.result(), last.result()) == ("v1", "v2")
        assert isinstance(bad.exception(), DataError)
    assert set(kept(path)) == {"v1", "v2"}


def test_an_adapter_without_events_and_a_hook_without_adapter_say_so(
    path: Path, tmp_path: Path
) -> None:
    with (
        bbq.Hook(path, adapter="arena") as hook,
        pytest.raises(UnsupportedError, match="'arena' reads files and no events"),
    ):
        hook({})
    with (
        bbq.Hook(tmp_path / "plain.db") as plain,
        pytest.raises(UsageError, match="has no adapter for events"),
    ):
        plain({})


def test_the_pairs_of_a_ranking_are_not_votes(hook: bbq.Hook) -> None:
    with pytest.raises(DataError, match=r"stored together: Engine\.add"):
        hook.submit(bbq.Comparison("k", "ann", "a", "b", "left", slate="s"))


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
