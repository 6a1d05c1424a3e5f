"""Several studies in one store: the same keys, and nothing of one in another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import bbq_plugin as bbq
from bbq_plugin.data.records import Comparison, FullExport
from bbq_plugin.errors import UsageError
from bbq_plugin.store import Store, coded_columns, read_store, read_store_by
from bbq_plugin.store.store import records_of
from bbq_plugin.store.studies import MAIN, bind
from tests.store.answers import answer

if TYPE_CHECKING:
    from pathlib import Path

    from bbq_plugin.data.dataset import Comparisons


def outcomes(store: Store, study: int) -> dict[str, str]:
    return {one.key: one.outcome for one in records_of(store, study)}


def wins(data: Comparisons) -> list[tuple[str, str, str]]:
    rows = zip(data.rater, data.winner, data.loser, strict=True)
    return sorted((data.raters[r], data.items[w], data.items[x]) for r, w, x in rows)


def test_a_key_names_one_answer_in_each_study(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Store(path) as store:
        other = store.study("fluency")
        store.add([answer("a"), answer("b")])
        store.add([answer("a", "right"), answer("c", "tie")], study=other)
        store.retract(["b", "c"])
        assert outcomes(store, MAIN) == {"a": "left"}
        assert outcomes(store, other) == {"a": "right", "c": "tie"}
        assert [(one.name, one.n_comparisons) for one in store.studies()] == [
            ("main", 1), ("fluency", 2),
        ]  # fmt: skip
        assert store.counts().n_comparisons == 3
        assert store.check() == []
    with Store(path) as store:
        assert store.study("fluency") == other
        assert store.load(MAIN)["id"].size == 1


def test_a_study_reads_like_a_store_of_its_own(tmp_path: Path) -> None:
    with Store(tmp_path / "both.db") as both, Store(tmp_path / "own.db") as own:
        study = both.study("fluency")
        for i in range(6):
            one = answer(f"{i}", ("left", "right")[i % 2], f"r{i % 3}", right="yz"[i % 2])
            own.add([one])
            both.add([answer(f"{i}", "tie", "other", left="p", right="q")])
            both.add([one], study=study)
    wanted = read_store(tmp_path / "own.db")
    found = read_store(tmp_path / "both.db", study="fluency")
    assert wins(found) == wins(wanted)
    assert (found.items, found.raters) == (wanted.items, wanted.raters)
    assert read_store_by(tmp_path / "both.db", by="study").keys() == {"main", "fluency"}


def test_several_studies_are_named_where_one_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Store(path) as store:
        store.add([answer("a")], study=store.study("fluency"))
        assert read_store(path).n_comparisons == 1
        store.add([answer("a")])
        store.add([answer("b")])
    several = r"main \(2\), fluency \(1\); name one with --study"
    with pytest.raises(UsageError, match=several) as said:
        read_store(path)
    assert said.value.more_words == (("--study", "main"), ("--study", "fluency"))
    with pytest.raises(UsageError, match="did you mean 'fluency'"):
        read_store(path, study="fluencs")


def test_a_full_export_takes_back_the_answers_of_its_own_study_alone(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        other = store.study("fluency")
        records = [answer("p:1", version=1.0), answer("p:2", version=1.0)]
        for study in (MAIN, other):
            store.add(records, study=study)
        store.add([records[0], FullExport("p:", 2.0)], study=other)  # type: ignore[list-item]
        assert outcomes(store, MAIN).keys() == {"p:1", "p:2"}
        assert outcomes(store, other).keys() == {"p:1"}
        # What is gone in one may come in the other.
        store.add([answer("p:2", "right", version=1.5)])
        assert outcomes(store, MAIN)["p:2"] == "right"


def test_columns_keep_studies_apart_when_they_are_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coded_columns, "CHUNK_ROWS", 4)
    path = tmp_path / "s.db"
    with Store(path) as store:
        other = store.study("fluency")
        for i in range(6):
            store.add([answer(f"{i}")])
            store.add([answer(f"{i}", "right")], study=other)
        store.retract(["0"], other)
        assert store.rows("SELECT count(*) FROM chunk") != [(0,)]
        for study, n in ((MAIN, 6), (other, 5)):
            columns = store.load(study)
            assert columns["id"].size == n
            assert set(columns["study"].tolist()) == {study}
        assert store.check() == []


def test_questions_of_projects_get_studies_of_their_own(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store, store.transaction() as transaction:
        db = transaction.db
        assert bind(db, "5", ["pref"], "Chat") == {"pref": MAIN}
        assert bind(db, "6", ["overall", "pref"]) == {"overall": 2, "pref": 3}
        assert bind(db, "7", ["pref"]) == {"pref": 4}
        # A control that comes later does not move the first one.
        assert bind(db, "5", ["pref", "overall"]) == {"pref": MAIN, "overall": 5}
        assert bind(db, "8", ["overall"], named=lambda *_: "overall") == {"overall": 2}
        with pytest.raises(UsageError, match="answers of this question are in the study 'main'"):
            bind(db, "5", ["pref"], named=lambda *_: "overall")
        assert bind(db, "5", ["pref"], named=lambda *_: "chat") == {"pref": MAIN}
        with pytest.raises(UsageError, match="answers of this question are in the study 'overall'"):
            bind(db, "6", ["overall"], named=lambda *_: "all")
        assert [one.name for one in store.studies()] == [
            "chat", "overall", "pref", "pref 7", "overall 5",
        ]  # fmt: skip
        (first, *_) = store.studies()
        assert first.described == "project 5 'Chat', control 'pref'"


def test_engines_of_two_studies_share_a_store(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    votes = [Comparison(f"{i}", f"r{i % 4}", "x", "yz"[i % 2], "left") for i in range(40)]
    inverted = [Comparison(one.key, one.rater, one.right, one.left, "left") for one in votes]
    with Store(path) as store:
        first, second = bbq.Engine(store), bbq.Engine(store, study="fluency")
        first.add(votes)
        second.add(inverted)
        first.retract("0")
        assert first.fit.items[int(np.argmax(first.fit.theta))] == "x"
        assert first.n_comparisons == 39
        assert second.fit.items[int(np.argmin(second.fit.theta))] == "x"
        assert second.n_comparisons == 40
        for engine in (first, second):
            engine.refresh(full=True)
            engine.close()
    with bbq.Engine(path, study="fluency") as again:
        assert again.data.n_comparisons == 40
        alone = bbq.fit(again.data)
        np.testing.assert_allclose(again.fit.theta, alone.theta, atol=1e-4)


def test_a_hook_votes_in_its_study(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    for study in (None, "fluency"):
        with bbq.Hook(path, study=study) as hook:
            hook.vote(rater="ann", left="a", right="b", outcome="left", key="k")
            hook.vote(rater="bob", left="a", right="b", outcome="left", key="l")
            assert hook.retract("l")
            assert hook.fit.data.n_comparisons == 1
    with Store(path, writable=False) as store:
        assert [one.n_comparisons for one in store.studies()] == [1, 1]
