"""Files that come again, are copied, or grow: each answer counts once."""

from __future__ import annotations

import os

import pytest

from bbq_plugin.live.file_ingest import HALF_LINE, Outcome
from tests.live.folders import KINDS, Folder, begun, line, rows, said


@KINDS
def test_the_same_file_again_is_read_once(folder: Folder, kind: str) -> None:
    folder.write("v", begun(kind, "ann", "bob"))
    assert folder.take("v") == Outcome("v", "read", None, "arena", n_new=2)
    assert folder.take("v").status == "unchanged"
    os.utime(folder.path / "v", (1, 1))
    assert folder.take("v").status == "unchanged"
    folder.forget()
    os.utime(folder.path / "v", (2, 2))
    assert folder.take("v").status == "unchanged"
    assert folder.answers == [said("ann"), said("bob")]


@KINDS
def test_a_copy_under_another_name_counts_once(folder: Folder, kind: str) -> None:
    for name in ("v", "sub/copy"):
        folder.write(name, begun(kind, "ann", "bob"))
    first, second = folder.offer("v", "sub/copy")
    assert (first.status, second.status) == ("read", "copy")
    assert second.reason == "the same content as v"
    assert len(folder.answers) == 2


def test_two_files_of_one_name_in_two_folders_do_not_replace_each_other(folder: Folder) -> None:
    folder.write("a/votes.jsonl", begun("jsonl", "ann"))
    folder.write("b/votes.jsonl", begun("jsonl", "bob"))
    folder.offer("a/votes.jsonl", "b/votes.jsonl")
    assert folder.answers == [said("ann"), said("bob")]


@pytest.mark.parametrize("new_first", [True, False])
def test_a_log_that_is_rotated_loses_nothing(folder: Folder, new_first: bool) -> None:
    folder.write("log", begun("jsonl", "ann", "bob"))
    folder.take("log")
    (folder.path / "log").rename(folder.path / "log.1")
    folder.write("log", begun("jsonl", "cyd"))
    names = ("log", "log.1") if new_first else ("log.1", "log")
    folder.offer(*names)
    assert folder.answers == [said("ann"), said("bob"), said("cyd")]
    folder.append("log", rows("jsonl", "dan"))
    folder.take("log")
    assert folder.answers == [said("ann"), said("bob"), said("cyd"), said("dan")]


def test_a_file_that_is_gone_keeps_its_answers(folder: Folder) -> None:
    folder.write("v", begun("jsonl", "ann"))
    folder.take("v")
    (folder.path / "v").unlink()
    assert folder.take("v").status == "refused"
    assert folder.answers == [said("ann")]


@KINDS
@pytest.mark.parametrize("restart", [True, False])
def test_a_log_that_grows_is_read_from_where_it_ended(
    folder: Folder, kind: str, restart: bool
) -> None:
    folder.write("log", begun(kind, "ann", "bob"))
    folder.take("log", settled=False)
    for rater in ("cyd", "dan"):
        if restart:
            folder.forget()
        folder.append("log", rows(kind, rater))
        assert folder.take("log", settled=False).n_new == 1
    assert folder.answers == [said(rater) for rater in ("ann", "bob", "cyd", "dan")]
    starts = folder.store.db.execute("SELECT start, offset FROM ledger ORDER BY id").fetchall()
    assert [start for start, _ in starts[1:]] == [offset for _, offset in starts[:-1]]


@KINDS
def test_a_half_written_last_line_waits(folder: Folder, kind: str) -> None:
    whole = rows(kind, "bob")
    folder.write("log", begun(kind, "ann") + whole[:-6])
    assert folder.take("log", settled=False) == Outcome("log", "read", HALF_LINE, "arena", n_new=1)
    assert folder.answers == [said("ann")]
    folder.append("log", whole[-6:])
    assert folder.take("log", settled=False) == Outcome("log", "read", None, "arena", n_new=1)
    assert folder.answers == [said("ann"), said("bob")]


def test_half_a_line_of_json_waits_even_when_nobody_writes_any_more(folder: Folder) -> None:
    folder.write("log", line("ann") + line("bob")[:-9])
    assert folder.take("log").reason == HALF_LINE
    (entry,) = folder.store.ledger()
    assert entry.status == "waiting"
    assert folder.answers == [said("ann")]


@KINDS
def test_a_last_line_without_its_line_feed_counts_once_the_file_has_settled(
    folder: Folder, kind: str
) -> None:
    folder.write("log", begun(kind, "ann", "bob").rstrip("\n"))
    folder.take("log", settled=False)
    assert folder.answers == [said("ann")]
    folder.take("log")
    assert folder.answers == [said("ann"), said("bob")]
    folder.append("log", "\n" + rows(kind, "cyd"))
    folder.take("log")
    assert folder.answers == [said("ann"), said("bob"), said("cyd")]


def test_a_name_that_was_cut_in_half_is_put_right_when_the_rest_comes(folder: Folder) -> None:
    folder.write("log.csv", "id,judge,model_a,model_b,winner\n1,ann,x,y,model_a\n2,bo")
    folder.write(
        "log.csv", "id,winner,judge,model_a,model_b\n1,model_a,ann,x,y\n2,model_a,bob,xx,y"
    )
    folder.take("log.csv")
    folder.append("log.csv", "z\n")
    folder.take("log.csv")
    assert folder.answers == [said("ann"), ("bob", "xx", "yz", "left")]


def test_a_line_feed_inside_quotes_ends_no_row(folder: Folder) -> None:
    folder.write("log.csv", 'judge,model_a,model_b,winner\nann,x,y,model_a\nbob,"x\n')
    folder.take("log.csv", settled=False)
    assert folder.answers == [said("ann")]
    folder.append("log.csv", 'x",y,model_a\n')
    folder.take("log.csv", settled=False)
    assert folder.answers == [said("ann"), ("bob", "x\nx", "y", "left")]


def test_an_error_in_the_new_part_names_its_line_and_keeps_the_old_part(folder: Folder) -> None:
    for kind, at in (("jsonl", 3), ("csv", 4)):
        folder.write(kind, begun(kind, f"{kind}-ann", f"{kind}-bob"))
        folder.take(kind)
        folder.append(
            kind,
            rows(kind, "x").replace("model_a\n", "banana\n").replace('"model_a"}', '"banana"}'),
        )
        outcome = folder.take(kind)
        assert outcome.status == "refused"
        assert outcome.reason is not None
        assert f"{kind}:{at}: " in f"{kind}:{outcome.reason}"
        assert "banana" in outcome.reason
    assert len(folder.answers) == 4
