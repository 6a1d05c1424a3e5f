"""Several exports of one project that went on in between: what counts of each annotation."""

from __future__ import annotations

import json
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from bbq_plugin.data.files import read, read_by
from bbq_plugin.errors import FormatError

if TYPE_CHECKING:
    from pathlib import Path

    from bbq_plugin.data.dataset import Comparisons

MODELS = {"model_left": "gpt", "model_right": "llama"}
RANKED = {"items": [{"id": "a"}, {"id": "b"}, {"id": "c"}]}


def pairwise(side: str) -> list[Any]:
    return [{"type": "pairwise", "from_name": "c", "to_name": "t", "value": {"selected": side}}]


def ranker(order: str) -> list[Any]:
    value = {"ranker": {"rank": list(order)}}
    return [{"type": "ranker", "from_name": "c", "to_name": "t", "value": value}]


def annotation(result: list[Any], number: int = 1, day: int = 1, **more: Any) -> dict[str, Any]:
    """One that was made on the first of May and last changed on another day of it."""
    return {
        "id": number,
        "completed_by": 7,
        "result": result,
        "created_at": f"2026-05-01T10:00:{number:02}.123456Z",
        "updated_at": f"2026-05-{day:02}T12:00:00Z",
    } | more


def export(path: Path, *annotations: dict[str, Any], data: Any = None, **more: Any) -> Path:
    """A task for this, and one by somebody else that never changes."""
    other = annotation(pairwise("left"), 99, completed_by=8)
    if "items" in (data or {}):
        other["result"] = ranker("abc")
    tasks = [
        {"id": 1, "project": 3, "data": data or MODELS, "annotations": list(annotations)},
        {"id": 2, "project": 3, "data": data or MODELS, "annotations": [other]},
    ]
    path.write_text(json.dumps([task | more for task in tasks]))
    return path


def wins(data: Comparisons, rater: str = "7") -> list[str]:
    """The winners of this rater's comparisons."""
    if rater not in data.raters:
        return []
    mine = data.rater == data.raters.index(rater)
    return [data.items[i] for i in data.winner[mine]]


def in_any_order(files: list[Path], **options: Any) -> list[Comparisons]:
    return [read(list(order), **options) for order in permutations(files)]


def test_the_annotation_that_was_updated_last_counts(tmp_path: Path) -> None:
    old = export(tmp_path / "old.json", annotation(pairwise("left"), day=2))
    new = export(tmp_path / "new.json", annotation(pairwise("right"), day=3))
    for data in in_any_order([old, new]):
        assert wins(data) == ["llama"]
        assert (data.n_comparisons, data.n_duplicates) == (2, 2)


def test_without_any_times_the_later_file_counts(tmp_path: Path) -> None:
    none: dict[str, Any] = {"created_at": None, "updated_at": None}
    old = export(tmp_path / "old.json", annotation(pairwise("left"), **none))
    new = export(tmp_path / "new.json", annotation(pairwise("right"), **none))
    gone = export(tmp_path / "gone.json", annotation([], **none))
    assert wins(read([old, new])) == ["llama"]
    assert wins(read([new, old])) == ["gpt"]
    assert wins(read([old, gone])) == []
    assert wins(read([gone, old])) == ["gpt"]


@pytest.mark.parametrize("change", [{"was_cancelled": True}, {"result": []}])
def test_an_answer_that_was_taken_back_does_not_count(tmp_path: Path, change: Any) -> None:
    old = export(tmp_path / "old.json", annotation(pairwise("left"), day=2))
    new = export(tmp_path / "new.json", annotation(pairwise("left"), day=3) | change)
    for data in in_any_order([old, new]):
        assert wins(data) == []
        assert (data.n_comparisons, data.n_duplicates, data.n_skipped) == (1, 2, 1)
    again = export(tmp_path / "again.json", annotation(pairwise("right"), day=4))
    for data in in_any_order([old, new, again]):
        assert wins(data) == ["llama"]


def test_a_ranking_is_updated_and_taken_back_as_a_whole(tmp_path: Path) -> None:
    old = export(tmp_path / "old.json", annotation(ranker("abc"), day=2), data=RANKED)
    new = export(tmp_path / "new.json", annotation(ranker("cba"), day=3), data=RANKED)
    gone = annotation(ranker("cba"), day=4, was_cancelled=True)
    cancelled = export(tmp_path / "cancelled.json", gone, data=RANKED)
    for data in in_any_order([old, new]):
        assert sorted(wins(data)) == ["b", "c", "c"]
    for data in in_any_order([old, new, cancelled]):
        assert wins(data) == []
        assert sorted(wins(data, "8")) == ["a", "a", "b"]


def test_a_later_answer_to_the_same_task_replaces_the_one_in_an_older_export(
    tmp_path: Path,
) -> None:
    first = annotation(pairwise("left"), day=2)
    old = export(tmp_path / "old.json", first)
    new = export(tmp_path / "new.json", first, annotation(pairwise("right"), 2, day=3))
    for data in in_any_order([old, new]):
        assert wins(data) == ["llama"]


def test_an_item_that_was_renamed_in_between_makes_no_second_answer(tmp_path: Path) -> None:
    old = export(tmp_path / "old.json", annotation(pairwise("left"), day=2))
    renamed = {"model_left": "gpt-2", "model_right": "llama"}
    new = export(tmp_path / "new.json", annotation(pairwise("left"), day=3), data=renamed)
    for data in in_any_order([old, new]):
        assert wins(data) == ["gpt-2"]


def test_an_answer_that_left_the_filter_does_not_count_from_an_older_export(
    tmp_path: Path,
) -> None:
    old = export(
        tmp_path / "old.json", annotation(pairwise("left"), day=2), data=MODELS | {"l": "de"}
    )
    new = export(
        tmp_path / "new.json", annotation(pairwise("left"), day=3), data=MODELS | {"l": "en"}
    )
    for order in ([old, new], [new, old]):
        assert wins(read_by(order, by="l")["en"]) == ["gpt"]
        assert wins(read(order, where={"l": "en"})) == ["gpt"]
        with pytest.raises(FormatError, match="there are no comparisons"):
            read([*order, new], where={"l": "de"}, drop_raters=["8"])


def test_the_rater_of_a_deleted_account_is_known_from_an_older_export(tmp_path: Path) -> None:
    old = export(tmp_path / "old.json", annotation(pairwise("left"), day=2))
    new = export(tmp_path / "new.json", annotation(pairwise("left"), day=2, completed_by=None))
    for data in in_any_order([old, new], max_skipped=1):
        assert wins(data) == ["gpt"]


def test_another_server_may_use_the_same_numbers(tmp_path: Path) -> None:
    here = export(tmp_path / "here.json", annotation(pairwise("left"), day=2))
    there = annotation(pairwise("left"), day=3, created_at="2026-05-01T10:00:01Z", completed_by=5)
    cancelled = export(tmp_path / "cancelled.json", there | {"was_cancelled": True})
    answered = export(tmp_path / "answered.json", there)
    for data in in_any_order([here, cancelled]):
        assert wins(data) == ["gpt"]
    for data in in_any_order([here, answered]):
        assert wins(data) == wins(data, "5") == ["gpt"]


def test_a_flat_export_and_a_json_export_tell_the_same_version(tmp_path: Path) -> None:
    old = tmp_path / "old.csv"
    old.write_text(
        "annotation_id,annotator,c,created_at,id,lead_time,model_left,model_right,updated_at\n"
        '1,7,"[{""selected"": ""left""}]",2026-05-01T10:00:01.123456Z,1,2.5,gpt,llama,'
        "2026-05-02T12:00:00Z\n"
    )
    new = export(tmp_path / "new.json", annotation(pairwise("right"), day=3))
    for data in in_any_order([old, new], project=3):
        assert wins(data) == ["llama"]
