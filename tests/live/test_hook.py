"""The hook inside a program: votes that are kept, whatever happens."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bbq_plugin as bbq
from bbq_plugin.errors import DataError, StoreBusyError, StoreError, UsageError
from tests.live.hooks import cast, kept, study


def test_a_vote_is_in_the_store_when_the_call_returns(path: Path, hook: bbq.Hook) -> None:
    made = hook.vote(
        rater="ann", left="a", right="b", outcome="tie", weight=2, at=12.5, time_s=3,
        tags={"lang": "en"},
    )  # fmt: skip
    given = hook.vote(rater="bob", left="a", right="b", outcome="both_bad", key="mine")
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
        ({"rater": None}, "rater is None; a vote names its rater"),
        ({"right": "a"}, "left and right are both 'a'"),
        ({"right": "x" * 10_001}, "names have at most 10,000"),
        ({"right": "\ud800"}, "half a character"),
        ({"weight": 0}, "weight is 0; a weight is above 0, from 1e-6 to 1e6"),
        ({"key": ""}, "key is ''"),
        ({"key": 7}, "key is 7"),
        ({"key": "k" * 1_000_000}, r"key has 1,000,000 characters \('kkk.*at most 10,000"),
        ({"key": "\ud800"}, "half a character"),
        ({"at": float("nan")}, "at is nan; expected seconds since 1970"),
        ({"at": "today"}, "at is 'today'"),
        ({"time_s": -1}, "time_s is -1; expected seconds, 0 or more"),
        ({"tags": {"lang": 3}}, "tag 'lang' is 3"),
        ({"tags": {"text": "x" * 200_000}}, "the tags have 200,011 characters .* at most 100,000"),
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


def test_many_threads_vote_at_once_and_each_vote_counts_once(path: Path) -> None:
    votes = study(320)
    with bbq.Hook(path, refresh_every_s=0, priors="paper") as hook:
        hook.on_update(lambda _: None)

        def run(mine: list[bbq.Comparison]) -> None:
            for v in mine:
                assert v.rater is not None
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


def test_the_pairs_of_a_ranking_are_not_votes(hook: bbq.Hook) -> None:
    with pytest.raises(DataError, match=r"stored together: Engine\.add"):
        hook.submit(bbq.Comparison("k", "ann", "a", "b", "left", slate="s"))
