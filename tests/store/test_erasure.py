"""A person who is erased is gone from the store, down to the bytes of its file."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import msgspec
import pytest

from bbq_plugin.data.records import Action, LeadWord, Skipped
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.event_ingest import event_reader
from bbq_plugin.live.health import HealthSentence
from bbq_plugin.store import Store
from bbq_plugin.store.event_inbox import Inbox
from bbq_plugin.store.project_sync import Memory
from tests.live.server.payloads import body, event
from tests.store.answers import answer, held
from tests.store.stores import report, run

if TYPE_CHECKING:
    from pathlib import Path

#: A name that is unlike all else, with what SQL, patterns and JSON take for something else.
PERSON = "zoë'x.*\"quaxolotl"
URL = "http://127.0.0.1:1"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store in which a person is wherever a person can be."""
    path = tmp_path / "votes.db"
    with Engine(path) as engine:
        engine.add(
            [
                answer(f"k{n}", rater=who, left=a, right=b, version=1.0)
                for n, (who, a, b) in enumerate(
                    (who, a, b)
                    for who in ("ann", PERSON, "bob")
                    for a, b in ("xy", "yz", "zx") * 20
                )
            ]
        )
        engine.refresh(full=True)
        opened = engine.store
        opened.add([answer(f"{PERSON}:1", rater=PERSON), answer("other", rater="ann")])
        opened.add([Skipped("votes", f"rater {PERSON} said nothing")])
        opened.retract([f"{PERSON}:2"], for_good=True)
        opened.keep_excluded(["bob", PERSON])
        opened.add_lead_word(LeadWord(PERSON, "exclude", "copies others", "carol", 1.0))
        opened.add_lead_word(LeadWord("bob", "keep", f"like {PERSON}", PERSON, 2.0))
        memory = Memory(opened, "label-studio", 5, URL)
        because = f"it has 1 of 2 answers without rater {PERSON}"
        memory.begin([Action("relabel", "task 7", because, {"overlap": 2}, {"overlap": 3}, 7)])
        told = [HealthSentence("red", f"of {PERSON}")]
        opened.keep_note("health", msgspec.json.encode(told).decode())
    return path


def contents(path: Path) -> bytes:
    """All bytes of a store and of what is beside it."""
    return b"".join(one.read_bytes() for one in path.parent.glob(f"{path.name}*"))


def test_nothing_of_a_person_is_left_in_the_file(store: Path) -> None:
    parts = (PERSON.encode(), b"quaxolotl")
    assert all(part in contents(store) for part in parts)
    assert report("status", "--store", store)["n_raters"] == 3
    result = run("store", "erase", "--store", store, "--rater", PERSON)
    assert result.exit_code == 0, result.output
    assert report("status", "--store", store)["n_raters"] == 2
    counts = "61 answers, 0 events, 2 lead's decisions, 1 journal row, 4 notes\n"
    assert result.stdout.endswith(counts)
    for unreached in ("backups", "reports", "Label Studio"):
        assert unreached in result.stderr
    assert not any(part in contents(store) for part in parts)
    with Store(store) as opened:
        assert opened.check() == []
        assert len(held(opened)) == 121
        assert opened.excluded() == {"bob"}
        assert list(opened.lead_words()) == ["bob"]
        (entry,) = Memory(opened, "label-studio", 5, URL).entries()
        assert (entry.action.target, entry.action.after) == ("task 7", {"overlap": 3})
    assert run("raters", "--store", store).exit_code == 0
    again = run("store", "erase", "--store", store, "--rater", PERSON)
    assert again.exit_code == 2
    assert "has no rater" in again.stderr


def test_answers_that_a_pull_brings_again_stay_out_and_new_ones_count(store: Path) -> None:
    run("store", "erase", "--store", store, "--rater", PERSON)
    with Store(store) as opened:
        opened.add([answer("k60", rater=PERSON, version=1.0)])
        assert "k60" not in held(opened)
        opened.add([answer("new", rater=PERSON, version=1.0)])
        assert "new" in held(opened)
        assert opened.check() == []


def test_others_are_as_they_were(store: Path, tmp_path: Path) -> None:
    run("store", "erase", "--store", store, "--rater", PERSON)
    with Engine(store) as engine, Engine(tmp_path / "never.db") as never:
        never.add([answer(f"k{n}", rater=who, left=a, right=b) for n, (who, a, b) in enumerate(
            (who, a, b) for who in ("ann", "bob") for a, b in ("xy", "yz", "zx") * 20
        )])  # fmt: skip
        never.add([answer("other", rater="ann")])
        assert engine.data.raters == never.data.raters
        assert engine.fit.theta == pytest.approx(never.fit.theta, abs=3e-6)


def test_events_of_the_person_go_and_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "votes.db"
    reader = event_reader("label-studio")
    with Store(path) as opened:
        opened.add([answer("1", rater="7"), answer("2", rater="8")])
        inbox = Inbox(opened)
        for rater in (7, 8, 7):
            said = body(event(rater, rater=rater))
            inbox.put(reader.stripped(said)[1]).result()
        inbox.close()
    result = run("store", "erase", "--store", path, "--rater", "7")
    assert "1 answer, 2 events" in result.stdout
    with sqlite3.connect(path) as db:
        (left,) = db.execute("SELECT body FROM event").fetchone()
    db.close()
    assert reader.raters(left) == {"8"}


def test_a_tab_that_names_the_person_has_to_be_undone_first(tmp_path: Path) -> None:
    path = tmp_path / "votes.db"
    filters = {"items": [{"filter": "filter:tasks:annotators", "value": 7}]}
    with Store(path) as opened:
        opened.add([answer("1", rater="7"), answer("2", rater="8")])
        memory = Memory(opened, "label-studio", 5, URL)
        tab = Action("tab", "tab", "tasks", None, {"title": "Second look", "filters": filters})
        (entry,) = memory.begin([tab])
        memory.mark({entry: 12}, "done")
    refused = run("store", "erase", "--store", path, "--rater", "7")
    assert refused.exit_code == 2
    assert "bbq push --project 5 --undo" in refused.stderr
    with Store(path) as opened:
        assert set(held(opened)) == {"1", "2"}
        memory = Memory(opened, "label-studio", 5, URL)
        memory.mark({entry: None}, "undone")
    assert run("store", "erase", "--store", path, "--rater", "7").exit_code == 0
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT target, after FROM journal").fetchall() == [("erased", "{}")]
    db.close()
