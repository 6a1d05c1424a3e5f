"""Known questions and rankings left as shown: what the adapters tell the rater report of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import bbq_plugin as bbq
from bbq_plugin.data.files import records
from bbq_plugin.data.records import GOLD, SHOWN_ORDER, Comparison


def _annotation(number: int, rater: int, result: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": number, "completed_by": rater, "result": [result], "lead_time": 3.0,
        "created_at": f"2026-01-01T00:{number % 60:02}:00Z", "was_cancelled": False,
        "ground_truth": False, **more,
    }  # fmt: skip


def _pairwise(side: str) -> dict[str, Any]:
    return {
        "from_name": "which", "to_name": "a,b", "type": "pairwise", "value": {"selected": side},
    }  # fmt: skip


def _written(path: Path, tasks: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps(tasks), encoding="utf-8")
    return path


def _comparisons(path: Path) -> list[Comparison]:
    return [one for one in records(path, "label-studio") if isinstance(one, Comparison)]


def test_ground_truth_is_the_known_answer_of_the_others_on_the_same_task(tmp_path: Path) -> None:
    tasks = [
        {
            "id": 1,
            "data": {"model_a": "oak", "model_b": "elm"},
            "annotations": [
                _annotation(1, 1, _pairwise("left"), ground_truth=True),
                _annotation(2, 2, _pairwise("left")),
                _annotation(3, 3, _pairwise("right")),
            ],
        },
        {
            "id": 2,
            "data": {"model_a": "elm", "model_b": "ash"},
            "annotations": [_annotation(4, 2, _pairwise("left"))],
        },
    ]
    path = _written(tmp_path / "export.json", tasks)
    gold = {one.key.split(":")[2]: (one.tags or {}).get(GOLD) for one in _comparisons(path)}
    assert gold == {"1": "truth", "2": "left", "3": "left", "4": None}
    data = bbq.read(path)
    assert data.answers is not None
    assert data.answers.gold is not None
    by_rater = {
        data.raters[r]: g
        for r, g in zip(data.rater.tolist(), data.answers.gold.tolist(), strict=True)
        if g
    }
    assert sorted(by_rater.values()) == [-1, 1]


def _ranking(order: list[str]) -> dict[str, Any]:
    return {
        "from_name": "rank", "to_name": "list", "type": "ranker",
        "value": {"ranker": {"best": order}},
    }  # fmt: skip


def _ranking_tasks() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    names = [f"item-{i}" for i in range(1, 6)]
    tasks = []
    for number in range(1, 31):
        shown = [names[i] for i in rng.permutation(5)]
        items = [{"id": name, "title": name, "body": name} for name in shown]
        said = [sorted(shown) for _ in range(5)] + [shown]
        tasks.append(
            {
                "id": number,
                "data": {"items": items},
                "annotations": [
                    _annotation(100 * number + rater, rater, _ranking(order))
                    for rater, order in enumerate(said, 1)
                ],
            }
        )
    return tasks


def test_a_ranking_left_as_shown_is_told_once_a_ranking(tmp_path: Path) -> None:
    found = _comparisons(_written(tmp_path / "export.json", _ranking_tasks()))
    told = [
        (one.rater, (one.tags or {})[SHOWN_ORDER])
        for one in found
        if SHOWN_ORDER in (one.tags or {})
    ]
    assert len(told) == 30 * 6
    lazy = {rater for rater, order in told if order == "kept" and rater}
    assert len([1 for rater, order in told if order == "kept"]) >= 30
    assert lazy


def test_someone_who_never_touches_the_ranking_is_told_so(tmp_path: Path) -> None:
    data = bbq.read(_written(tmp_path / "export.json", _ranking_tasks()))
    report = bbq.rater_report(bbq.fit(data))
    lazy = [row for row in report if any(r.startswith("untouched: left 100%") for r in row.reasons)]
    assert len(lazy) == 1
    assert lazy[0].verdict != "keep"
    assert "in which order the items of a ranking were shown" not in report.not_known


def test_a_golden_row_of_clic_says_whether_the_answer_given_was_right(tmp_path: Path) -> None:
    path = tmp_path / "clic.csv"
    path.write_text(
        "answerer,methodA,methodB,answerValue,isGolden,modelProbability\n"
        "r1,oak,elm,A,0,\n"
        "r1,oak,elm,B,1,1\n"
        "r1,oak,elm,B,1,0\n"
        "r1,elm,ash,draw,1,0\n"
        "r2,oak,ash,A,1,\n",
        encoding="utf-8",
    )
    tags = [one.tags or {} for one in records(path, "arena") if isinstance(one, Comparison)]
    assert [tag.get(GOLD) for tag in tags] == [None, "right", "left", "other", None]
    data = bbq.read(path)
    assert data.answers is not None
    assert data.answers.gold is not None
    whole = data.answers.half is None or data.answers.half < 2
    assert data.answers.gold[whole].tolist() == [0, 1, -1, -1, 0]
