"""Files that say something else than before, or cannot be read."""

from __future__ import annotations

import json
import os
from contextlib import suppress

import pytest

from bbq_plugin.config import ReadSettings
from bbq_plugin.live.file_ingest import Offer
from tests.live.folders import KINDS, Folder, begun, line, said


@KINDS
def test_a_file_rewritten_in_place_replaces_what_it_said(folder: Folder, kind: str) -> None:
    folder.write("v", begun(kind, "ann", "bob", "cyd"))
    folder.take("v")
    folder.write("v", begun(kind, "ann", "eve"))
    outcome = folder.take("v")
    assert (outcome.status, outcome.n_changed + outcome.n_new, outcome.n_retracted) == (
        "read",
        1,
        2,
    )
    assert folder.answers == [said("ann"), said("eve")]


def test_what_another_file_has_said_since_is_not_taken_back_by_a_rewritten_one(
    folder: Folder,
) -> None:
    folder.write("old", line("ann", id="1") + line("bob", id="2"))
    folder.write("new", line("ann", "model_b", id="1"))
    folder.offer("old", "new")
    folder.write("old", line("bob", id="2"))
    folder.take("old")
    assert folder.answers == [said("ann", "right"), said("bob")]


def test_a_changed_file_that_cannot_be_read_takes_nothing_back(folder: Folder) -> None:
    folder.write("v", begun("jsonl", "ann"))
    folder.take("v")
    folder.write("v", '{"what": "is this"}\n')
    assert folder.take("v").status == "refused"
    assert folder.answers == [said("ann")]
    folder.write("v", begun("jsonl", "bob"))
    assert folder.take("v").status == "read"
    assert folder.answers == [said("bob")]


def test_a_bad_file_is_on_record_and_does_not_stop_the_others(folder: Folder) -> None:
    folder.write("bad", "certainly\x00not\nan export\n")
    folder.write("good", begun("jsonl", "ann"))
    bad, good = folder.offer("bad", "good")
    assert (bad.status, good.status) == ("refused", "read")
    entry = folder.store.ledger()[0]
    assert (entry.name, entry.status) == ("bad", "refused")
    assert entry.reason == bad.reason
    assert "this is a binary file" in (bad.reason or "")
    assert folder.take("bad").status == "unchanged", "tried again only when it changes"


def test_too_many_rows_that_cannot_be_used_refuse_the_file_as_a_whole(folder: Folder) -> None:
    itself = json.dumps({"judge": "a", "model_a": "x", "model_b": "x", "winner": "model_a"}) + "\n"
    folder.write("v", begun("jsonl", *"abcdef") + 6 * itself)
    outcome = folder.take("v")
    assert outcome.status == "refused"
    assert "50.00%" in (outcome.reason or "")
    assert folder.answers == []
    folder.ingest.reading = ReadSettings(max_skipped=0.6)
    folder.append("v", line("g"))
    assert folder.take("v").n_skipped == 6
    assert folder.store.ledger()[0].skipped == {"an item against itself": 6}


def test_a_refused_file_is_tried_again_when_it_is_to_be_read_in_another_way(folder: Folder) -> None:
    folder.write("v.csv", "who,one,two,best\nann,x,y,x\n")
    assert folder.take("v.csv").status == "refused"
    assert folder.take("v.csv").status == "unchanged"
    columns = {"rater": "who", "left": "one", "right": "two", "winner": "best"}
    folder.ingest.reading = ReadSettings(adapter="table", options=columns)
    assert folder.take("v.csv").n_new == 1


def test_a_file_says_something_else_when_it_is_read_in_another_way(folder: Folder) -> None:
    folder.write("v", line("ann", "both_bad") + line("bob"))
    folder.take("v")
    folder.ingest.reading = ReadSettings(adapter="arena", options={"both_bad": "drop"})
    assert folder.take("v").n_retracted == 1
    assert folder.answers == [said("bob")]


def test_a_change_that_keeps_size_and_time_is_noticed(folder: Folder) -> None:
    folder.write("v", begun("jsonl", "ann"))
    before = (folder.path / "v").stat()
    folder.take("v")
    folder.write("v", begun("jsonl", "bob"))
    os.utime(folder.path / "v", ns=(before.st_atime_ns, before.st_mtime_ns))
    folder.take("v")
    assert folder.answers == [said("bob")]


def many(*raters: str, wrong: range = range(0)) -> str:
    """A file of more than its first and last 4 KiB."""
    votes = [line(f"rater {i:03}", "model_b" if i in wrong else "model_a") for i in range(400)]
    return "".join((*votes, *map(line, raters)))


@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize("replaced", [True, False])
def test_a_change_in_the_middle_that_keeps_the_size_is_read(
    folder: Folder, restart: bool, replaced: bool
) -> None:
    folder.write("v", many())
    folder.take("v")
    if restart:
        folder.forget()
    folder.write("v.new" if replaced else "v", many(wrong=range(150, 250)))
    if replaced:
        (folder.path / "v.new").replace(folder.path / "v")
    folder.take("v")
    assert [a[3] for a in folder.answers].count("right") == 100


def test_what_a_transaction_that_failed_has_read_is_read_again(folder: Folder) -> None:
    folder.write("v", begun("jsonl", "ann"))
    folder.take("v")
    folder.write("v", begun("jsonl", "bob"))
    with suppress(KeyboardInterrupt), folder.store.transaction() as transaction:
        folder.ingest(transaction, Offer(folder.path / "v", "v"))
        raise KeyboardInterrupt
    assert folder.answers == [said("ann")]
    folder.take("v")
    assert folder.answers == [said("bob")]


def test_an_id_may_hold_any_character(folder: Folder) -> None:
    folder.write("v", line("ann", id="a\x00b") + line("ann", "model_b", id="a\x00b"))
    folder.write("w", line("ann", id="a\x00c"))
    assert [o.status for o in folder.offer("v", "w")] == ["read", "read"]
    assert folder.answers == [said("ann"), said("ann", "right")]


def test_options_that_do_not_fit_a_file_refuse_it_and_no_other(folder: Folder) -> None:
    folder.ingest.reading = ReadSettings(options={"both_bad": "drop"})
    folder.write("table.csv", "rater,winner,loser\nann,x,y\n")
    folder.write("v", line("bob"))
    table, votes = folder.offer("table.csv", "v")
    assert (table.status, votes.status) == ("refused", "read")
    assert "has no option 'both_bad'" in (table.reason or "")


def test_an_id_that_several_people_share_counts_once_for_each(folder: Folder) -> None:
    folder.write("a", line("ann", id="p1") + line("cyd", id="p2"))
    folder.write("b", line("bob", id="p1"))
    folder.offer("a", "b")
    folder.write("a", line("cyd", id="p2"))
    folder.take("a")
    folder.write("d", line("bob", id="p1") + line("dan", id="p1"))
    folder.take("d")
    assert folder.answers == [said("bob"), said("cyd"), said("dan")]


def test_what_two_files_agree_on_stays_when_one_of_them_drops_it(folder: Folder) -> None:
    folder.write("a", line("ann", id="1") + line("bob", id="2"))
    folder.write("b", line("ann", id="1") + line("cyd", id="3"))
    folder.offer("a", "b")
    folder.write("a", line("bob", id="2"))
    folder.take("a")
    assert folder.answers == [said("ann"), said("bob"), said("cyd")]
    folder.write("b", line("cyd", id="3"))
    folder.take("b")
    assert folder.answers == [said("bob"), said("cyd")]


def test_a_copy_of_a_log_counts_once_whatever_has_become_of_the_log(folder: Folder) -> None:
    folder.write("log", begun("jsonl", "ann", "bob") + line("cyd")[:-5])
    folder.take("log", settled=False)
    folder.write("copy", begun("jsonl", "ann", "bob") + line("cyd")[:-5])
    assert folder.take("copy", settled=False).status == "copy"
    folder.write("earlier", begun("jsonl", "ann", "bob"))
    folder.append("log", line("cyd")[-5:])
    folder.take("log")
    assert folder.take("earlier").status == "copy"
    assert folder.answers == [said("ann"), said("bob"), said("cyd")]
    folder.append("earlier", line("dan"))
    folder.take("earlier")
    assert folder.answers == [said("ann"), said("bob"), said("cyd"), said("dan")]


def test_a_time_that_no_table_can_hold_does_not_spoil_the_file(folder: Folder) -> None:
    folder.write("v", line("ann", tstamp=10**20) + line("bob", tstamp=1.5))
    assert folder.take("v").status == "read"
    assert len(folder.answers) == 2


def test_a_stray_quote_does_not_hold_up_the_reading(folder: Folder) -> None:
    header = "judge,model_a,model_b,winner\n"
    stray = 'ann,5" screen,y,model_a\n' + "".join(f"r{i},x,y,model_a\n" for i in range(50_000))
    folder.write("v.csv", header + stray)
    assert folder.take("v.csv", settled=False).status in ("read", "waiting")
    assert folder.take("v.csv").n_new + len(folder.answers) >= 50_000
