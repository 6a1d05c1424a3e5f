from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import bbq_plugin as bbq
from bbq_plugin.live.engine import Engine
from bbq_plugin.report.history import history_rows
from bbq_plugin.store import SourceEntry
from tests.store.stores import HOSTILE_NAME, filled, report, run

if TYPE_CHECKING:
    from pathlib import Path


def test_it_says_what_was_read_refused_and_waits_and_why(tmp_path: Path) -> None:
    found = report("status", "--store", filled(tmp_path))
    assert found["schema"] == "bbq.status/1"
    assert (found["n_comparisons"], found["n_items"], found["n_raters"]) == (319, 5, 8)
    assert found["n_sources"] == {"read": 1, "copy": 1, "waiting": 1, "refused": 1}
    by_name = {source["name"]: source for source in found["sources"]}
    assert by_name["votes.jsonl"]["adapter"] == "arena"
    assert by_name["votes.jsonl"]["n_rows"] == 300
    assert by_name["copy.jsonl"]["reason"] == "the same content as votes.jsonl"
    assert "a table of 1 row and 2 columns (x, y)" in by_name[HOSTILE_NAME]["reason"]
    assert by_name["growing.jsonl"]["status"] == "waiting"
    assert by_name["growing.jsonl"]["reason"] == "its last line is not finished"
    assert found["health"]["colour"] == "amber"
    assert found["health"]["sentences"] == ["1 of 4 sources refused; bbq status says why"]


def test_a_person_sees_it_and_no_name_acts_on_the_terminal(tmp_path: Path) -> None:
    shown = run("status", "--store", filled(tmp_path)).stdout
    assert "319 comparisons, 5 items, 8 raters" in shown
    assert "1 read, 1 copy, 1 waiting, 1 refused" in shown
    assert "bad\\x1b[31m;rm -rf.csv" in shown
    assert "\x1b[31m" not in shown
    assert "a table of 1 row and 2 columns (x, y)" in " ".join(shown.split())
    assert "(full, 319 comparisons)" in shown


def test_rows_left_out_are_told_with_their_reasons(tmp_path: Path) -> None:
    with Engine(tmp_path / "a.db") as engine:
        votes = [bbq.Comparison(str(i), "ann", "a", "b", "left") for i in range(3)]
        engine.store.add([*votes, bbq.Skipped("x:1", "no winner"), bbq.Skipped("x:2", "no winner")])
    found = report("status", "--store", tmp_path / "a.db")
    assert (found["n_skipped"], found["skipped"]) == (2, {"no winner": 2})
    assert found["last_fit"] is None
    shown = run("status", "--store", tmp_path / "a.db").stdout
    assert "no winner" in shown
    assert "Fitted: not yet" in shown


def test_the_last_fit_is_told_whether_in_full_or_not(tmp_path: Path) -> None:
    with Engine(tmp_path / "a.db", clock=lambda: 1.7e9) as engine:
        engine.add(list(bbq.simulate(comparisons=3000, seed=1).comparisons()))
        assert engine.refresh(full=True) == "full"
        # What the daemon puts on record after a refresh that followed one more answer.
        rows = history_rows(bbq.leaderboard(engine.fit))
        engine.store.add_history(1.7e9 + 60, 3001, "incremental", rows)
    found = report("status", "--store", tmp_path / "a.db")
    assert found["last_fit"] == {
        "at": "2023-11-14T22:14:20+00:00", "how": "incremental", "n_comparisons": 3001,
    }  # fmt: skip
    assert found["last_full_fit"] == {
        "at": "2023-11-14T22:13:20+00:00", "how": "full", "n_comparisons": 3000,
    }  # fmt: skip
    shown = run("status", "--store", tmp_path / "a.db").stdout
    assert (
        "Fitted: 2023-11-14 22:14:20 UTC (incremental, 3,001 comparisons); "
        "in full 2023-11-14 22:13:20 UTC (3,000 comparisons)"
    ) in shown


_HOLDS = """
import sys
from bbq_plugin.store import Store
with Store(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_who_writes_the_store_is_named_as_long_as_they_do(tmp_path: Path) -> None:
    store = filled(tmp_path)
    writer = subprocess.Popen(
        [sys.executable, "-c", _HOLDS, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert writer.stdin is not None
    assert writer.stdout is not None
    with writer, writer.stdin, writer.stdout:
        writer.stdout.readline()
        found = report("status", "--store", store)
        shown = run("status", "--store", store).stdout
        writer.kill()
    assert found["writer"]["pid"] == writer.pid
    assert f"Writer: process {writer.pid} on {os.uname().nodename}" in shown
    assert report("status", "--store", store)["writer"] is None
    assert "Writer: none" in run("status", "--store", store).stdout


def test_the_store_may_be_named_in_the_environment(tmp_path: Path) -> None:
    result = run("status", env={"BBQ_STORE": str(filled(tmp_path))})
    assert result.exit_code == 0
    assert "319 comparisons" in result.stdout
    missing = run("status", env={"BBQ_STORE": ""})
    assert missing.exit_code == 2
    assert "--store" in missing.stderr


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    result = run("status", "--store", tmp_path / "no.db")
    assert result.exit_code == 1
    assert "there is no such store; check the path" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_thousands_of_bad_files_do_not_fill_the_screen(tmp_path: Path) -> None:
    with Engine(tmp_path / "a.db") as engine, engine.store.transaction() as transaction:
        for i in range(3000):
            transaction.save(SourceEntry(f"{i}.csv", "file", 1.7e9 + i, "refused", "no"))
    shown = run("status", "--store", tmp_path / "a.db").stdout
    assert len(shown.splitlines()) < 40
    assert "2999.csv" in shown
    assert "and 2,980 more" in shown
    assert len(report("status", "--store", tmp_path / "a.db")["sources"]) == 3000


def test_a_tag_that_was_not_kept_is_named_with_the_remedy(tmp_path: Path) -> None:
    result = run("fit", "--store", filled(tmp_path), "--by", "language")
    assert result.exit_code == 2
    assert "no row has a tag 'language'" in result.stderr
    assert "--keep-tags" in result.stderr
