"""Which answers belong together, and which tags say so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bbq_plugin as bbq
from bbq_plugin.data.clusters import clusters_of, found_tag
from bbq_plugin.data.files import records
from bbq_plugin.data.records import is_subject
from bbq_plugin.store import read_store

SCENES = 10


def votes(path: Path, *, field: str = "question_id", n: int = 400, scenes: int = SCENES) -> Path:
    rng = np.random.default_rng(0)
    rows = [
        {
            "model_a": "oak", "model_b": ("elm", "ash")[i % 2], "winner": "model_a", "id": f"v{i}",
            "judge": f"r{rng.integers(12)}", field: int(rng.integers(scenes)), "note": f"n{i % 3}",
        }
        for i in range(n)
    ]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.mark.parametrize("field", ["question_id", "scene", "seed_image", "Prompt-ID"])
def test_a_field_that_names_the_question_becomes_a_tag_to_cluster_by(
    tmp_path: Path, field: str
) -> None:
    data = bbq.read(votes(tmp_path / "votes.jsonl", field=field))
    assert found_tag(data) == field
    assert [(way.name, way.n) for way in clusters_of(data, ("auto",))] == [
        ("rater", 12), (field, SCENES)
    ]  # fmt: skip


def test_batches_and_single_rows_have_the_same_clusters(tmp_path: Path) -> None:
    path = votes(tmp_path / "votes.jsonl")
    fast, rows = bbq.read(path), bbq.Comparisons.from_comparisons(records(path))
    assert np.array_equal(fast.tags["question_id"], rows.tags["question_id"])
    assert "note" in rows.tags


def test_a_tag_follows_its_answers_where_some_are_left_out(tmp_path: Path) -> None:
    data = bbq.read(votes(tmp_path / "votes.jsonl"), drop_raters=["r3"])
    assert data.tags["question_id"].size == data.winner.size
    tied = [
        bbq.Comparison(f"{i}", "ann", "oak", "elm", ("tie", "left")[i % 2], tags={"scene": f"{i}"})
        for i in range(4)
    ]
    assert bbq.Comparisons.from_comparisons(tied).tags["scene"].tolist() == [0, 0, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("scenes", "why"), [(4, "too few values"), (10_000, "none of them comes again")]
)
def test_a_tag_that_cannot_be_a_way_of_clustering_is_not_found(
    tmp_path: Path, scenes: int, why: str
) -> None:
    assert found_tag(bbq.read(votes(tmp_path / "votes.jsonl", scenes=scenes))) is None, why


def test_of_two_such_tags_none_is_taken() -> None:
    rng = np.random.default_rng(0)
    answers = [
        bbq.Comparison(
            f"{i}", f"r{i % 9}", "oak", "elm", "left",
            tags={name: f"{rng.integers(10)}" for name in ("scene", "prompt")},
        )
        for i in range(300)
    ]  # fmt: skip
    data = bbq.Comparisons.from_comparisons(answers)
    assert found_tag(data) is None
    assert [way.name for way in clusters_of(data, ("rater", "prompt"))] == ["rater", "prompt"]


def test_an_answer_without_a_value_is_a_cluster_of_its_own() -> None:
    answers = [
        bbq.Comparison(
            f"{i}", "ann", "oak", "elm", "left", tags={"scene": "a"} if i < 3 else None
        )
        for i in range(6)
    ]  # fmt: skip
    (way,) = clusters_of(bbq.Comparisons.from_comparisons(answers), ("scene",))
    assert way.n == 4
    assert len(set(way.code[:3].tolist())) == 1


def test_names_of_subjects() -> None:
    assert is_subject("Question_ID")
    assert not is_subject("judge")


@pytest.mark.parametrize("path", ["state.db", ":memory:"])
def test_an_engine_clusters_by_the_tags_of_its_store(tmp_path: Path, path: str) -> None:
    rng = np.random.default_rng(0)
    answers = [
        bbq.Comparison(
            f"{i}", f"r{i % 9}", "oak", ("elm", "ash")[i % 2], ("left", "right")[int(i % 3 == 0)],
            tags={"scene": f"{rng.integers(10)}", "mood": f"{i % 4}"},
        )
        for i in range(300)
    ]  # fmt: skip
    store = path if path == ":memory:" else str(tmp_path / path)
    with bbq.Engine(store, priors="paper", cluster="rater,mood") as engine:
        engine.add(answers[:200])
        assert [way.n for way in engine.fit.robust.ways] == [9, 4]
        engine.add(answers[200:])
        engine.retract(["0", "1"])
        engine.refresh(full=True)
        data = bbq.Comparisons.from_comparisons(answers[2:])
        cold = bbq.fit(data, priors="paper", cluster="rater,mood")
        assert engine.fit.covariance() == pytest.approx(cold.covariance(), rel=1e-4)
    if path == ":memory:":
        return
    found = read_store(store)
    assert [(way.name, way.n) for way in clusters_of(found, ("auto",))] == [
        ("rater", 9), ("scene", 10)
    ]  # fmt: skip
    assert "mood" in read_store(store, tags=("mood",)).tags


def test_the_number_of_a_task_counts_where_no_prompt_is_named() -> None:
    rater = np.tile(np.arange(4), 20)
    task = np.repeat(np.arange(20), 4)
    votes = bbq.Comparisons.from_arrays(
        rater, np.zeros(80, np.int64), np.ones(80, np.int64), np.ones(80),
        raters=["r", "s", "t", "u"], items=["a", "b"],
    )  # fmt: skip

    def tagged(**tags: Any) -> Any:
        named = {name: tuple(map(str, range(20))) for name in tags}
        return replace(votes, tags=tags, tag_values=named)

    code = task.astype(np.int32)
    assert found_tag(tagged(task=code)) == "task"
    assert found_tag(tagged(task=code, prompt=code // 2)) == "prompt"
    # A prompt that half of the answers have as a tag is none.
    assert found_tag(tagged(task=code, prompt=np.where(code < 10, -1, code))) == "task"
    assert found_tag(tagged(scene=code, prompt=code // 2)) is None
