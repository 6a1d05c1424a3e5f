"""What each kind of file means when it comes, comes again, grows, changes or is bad."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bbq_plugin.live.ingest import GROWING, HALF_LINE, Ingest, Offer, Outcome, Reading
from bbq_plugin.live.store import Store
from bbq_plugin.live.store.reading import records_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class Folder:
    """A folder, a store, and the reading of one into the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = Store(":memory:", clock=lambda: 1000.0)
        self.ingest = Ingest(self.store)

    def write(self, name: str, text: str) -> None:
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_text(text)

    def append(self, name: str, text: str) -> None:
        with (self.path / name).open("a") as file:
            file.write(text)

    def offer(self, *names: str, settled: bool = True) -> list[Outcome]:
        with self.store.transaction() as transaction:
            return [
                self.ingest(transaction, Offer(self.path / name, name, settled)) for name in names
            ]

    def take(self, name: str, *, settled: bool = True) -> Outcome:
        (outcome,) = self.offer(name, settled=settled)
        return outcome

    @property
    def answers(self) -> list[tuple[str | None, str, str, str]]:
        return sorted((r.rater, r.left, r.right, r.outcome) for r in records_of(self.store))

    def forget(self) -> None:
        """As after a restart: nothing is remembered but the store."""
        self.ingest = Ingest(self.store, self.ingest.reading)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    yield made
    assert made.store.check() == []
    made.store.close()


def line(rater: str, winner: str = "model_a", **more: Any) -> str:
    return (
        json.dumps({"judge": rater, "model_a": "x", "model_b": "y", "winner": winner, **more})
        + "\n"
    )


def said(rater: str, outcome: str = "left") -> tuple[str, str, str, str]:
    return (rater, "x", "y", outcome)


KINDS = pytest.mark.parametrize("kind", ["jsonl", "csv"])


def rows(kind: str, *raters: str) -> str:
    if kind == "jsonl":
        return "".join(map(line, raters))
    return "".join(f"{rater},x,y,model_a\n" for rater in raters)


def begun(kind: str, *raters: str) -> str:
    header = "" if kind == "jsonl" else "judge,model_a,model_b,winner\n"
    return header + rows(kind, *raters)


# -- again, copied, moved


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


# -- growing


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


# -- changed


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
    assert "no adapter recognises" in (bad.reason or "")
    assert folder.take("bad").status == "unchanged", "tried again only when it changes"


def test_too_many_rows_that_cannot_be_used_refuse_the_file_as_a_whole(folder: Folder) -> None:
    itself = json.dumps({"judge": "a", "model_a": "x", "model_b": "x", "winner": "model_a"}) + "\n"
    folder.write("v", begun("jsonl", *"abcdef") + 6 * itself)
    outcome = folder.take("v")
    assert outcome.status == "refused"
    assert "50.00%" in (outcome.reason or "")
    assert folder.answers == []
    folder.ingest.reading = Reading(max_skipped=0.6)
    folder.append("v", line("g"))
    assert folder.take("v").n_skipped == 6
    assert folder.store.ledger()[0].skipped == {"an item against itself": 6}


def test_a_refused_file_is_tried_again_when_it_is_to_be_read_in_another_way(folder: Folder) -> None:
    folder.write("v.csv", "who,one,two,best\nann,x,y,x\n")
    assert folder.take("v.csv").status == "refused"
    assert folder.take("v.csv").status == "unchanged"
    columns = {"rater": "who", "left": "one", "right": "two", "winner": "best"}
    folder.ingest.reading = Reading(adapter="table", options=columns)
    assert folder.take("v.csv").n_new == 1


def test_a_file_says_something_else_when_it_is_read_in_another_way(folder: Folder) -> None:
    folder.write("v", line("ann", "both_bad") + line("bob"))
    folder.take("v")
    folder.ingest.reading = Reading(adapter="arena", options={"both_bad": "drop"})
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
    folder.ingest.reading = Reading(options={"both_bad": "drop"})
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


# -- Label Studio


def task(number: int, *annotations: dict[str, Any]) -> dict[str, Any]:
    data = {"model_left": "x", "model_right": "y"}
    return {
        "id": number,
        "project": 7,
        "data": data,
        "drafts": [],
        "annotations": list(annotations),
    }


def annotation(number: int, side: str, updated: str, **more: Any) -> dict[str, Any]:
    result = [{"type": "pairwise", "from_name": "pw", "to_name": "pw", "value": {"selected": side}}]
    return {
        "id": number, "completed_by": number % 3 + 1, "result": result, "was_cancelled": False,
        "created_at": "2026-01-01T00:00:00Z", "updated_at": f"2026-01-{updated}T00:00:00Z", **more,
    }  # fmt: skip


def exported(*tasks: dict[str, Any]) -> str:
    return json.dumps(tasks)


def test_a_newer_export_changes_and_omits_annotations(folder: Folder) -> None:
    first = [task(i, annotation(i, "left", "02")) for i in range(1, 5)]
    folder.write("monday.json", exported(*first))
    folder.take("monday.json")
    assert len(folder.answers) == 4
    later = [task(1, annotation(1, "right", "05")), *first[1:3]]
    folder.write("tuesday.json", exported(*later))
    outcome = folder.take("tuesday.json")
    assert (outcome.n_new, outcome.n_changed, outcome.n_retracted) == (0, 1, 1)
    assert len(folder.answers) == 3
    assert [a[3] for a in folder.answers].count("right") == 1
    folder.append("monday.json", "\n")
    folder.take("monday.json")
    assert len(folder.answers) == 3, "the older export comes late"


def test_an_increment_takes_nothing_back(folder: Folder) -> None:
    folder.ingest.reading = Reading(exports="increment")
    folder.write("a.json", exported(*(task(i, annotation(i, "left", "02")) for i in range(1, 4))))
    folder.write("b.json", exported(task(9, annotation(9, "right", "03"))))
    folder.offer("a.json", "b.json")
    assert len(folder.answers) == 4


def test_a_file_that_is_no_log_waits_until_it_is_complete(folder: Folder) -> None:
    text = exported(task(1, annotation(1, "left", "02")))
    folder.write("e.json", text[:-10])
    assert folder.take("e.json", settled=False) == Outcome("e.json", "waiting", GROWING)
    folder.append("e.json", text[-10:])
    assert folder.take("e.json").n_new == 1


def test_a_file_cut_inside_its_first_line_waits_for_more(folder: Folder) -> None:
    folder.write("v", line("ann")[:20])
    assert folder.take("v", settled=False).status == "waiting"
    folder.write("v", line("ann"))
    assert folder.take("v", settled=False).status == "read"


# -- what is no file


def test_what_is_no_file_is_refused_without_waiting_for_it(folder: Folder) -> None:
    os.mkfifo(folder.path / "pipe")
    (folder.path / "sub").mkdir()
    folder.write("real", begun("jsonl", "ann"))
    (folder.path / "link").symlink_to(folder.path / "real")
    reasons = {o.name: (o.status, o.reason) for o in folder.offer("pipe", "sub", "link", "gone")}
    assert all(status == "refused" for status, _ in reasons.values())
    assert "a named pipe" in (reasons["pipe"][1] or "")
    assert "a folder" in (reasons["sub"][1] or "")
    assert "No such file" in (reasons["gone"][1] or "")


def test_a_name_that_is_no_text_can_be_put_on_record(folder: Folder) -> None:
    name = os.fsdecode(b"v\xff\n.jsonl")
    Path(folder.path / name).write_text(begun("jsonl", "ann"))
    assert folder.take(name).status == "read"
    assert folder.take(name).status == "unchanged"


def test_tags_are_kept_when_asked_for(folder: Folder) -> None:
    folder.ingest.reading = Reading(keep_tags=True)
    folder.write("v", line("ann", language="de"))
    folder.take("v")
    (record,) = records_of(folder.store)
    assert record.tags == {"language": "de"}
