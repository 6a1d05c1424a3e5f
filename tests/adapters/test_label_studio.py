"""Exports of a real server against the comparisons that a person wrote down for them."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bbq_adapters.label_studio import LabelStudioAdapter

from bbq_plugin.data.files import read, records
from bbq_plugin.data.mappings import UnclearError
from bbq_plugin.data.records import Comparison, Skipped
from bbq_plugin.errors import FormatError
from bbq_plugin.plugins import adapters

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent / "label_studio"
FIXTURES = HERE / "fixtures"
REAL = HERE.parents[3] / "shared" / "label_studio" / "exports"


def cases() -> Iterator[Any]:
    for path in sorted((HERE / "expected").glob("*.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        for case in told["cases"]:
            case.setdefault("project", told.get("project"))
            for file in case["files"]:
                yield pytest.param(case, file, id=f"{file}: {case['desc'][:60]}")


def found(path: Path, **options: Any) -> tuple[list[Comparison], list[Skipped]]:
    everything = list(records(path, LabelStudioAdapter(), **options))
    return (
        [record for record in everything if isinstance(record, Comparison)],
        [record for record in everything if isinstance(record, Skipped)],
    )


def row(comparison: Comparison, parts: int) -> tuple[object, ...]:
    own = int(comparison.key.split(":")[2])
    assert len(comparison.key.split(":")) == parts
    return (
        own,
        comparison.rater,
        comparison.left,
        comparison.right,
        comparison.outcome,
        pytest.approx(comparison.weight),
        comparison.time_s,
    )


@pytest.mark.parametrize(("case", "file"), list(cases()))
def test_the_export_gives_the_comparisons_written_beside_it(case: Any, file: str) -> None:
    path = FIXTURES / file
    options = case.get("options", {})
    if "refused" in case:
        with pytest.raises(FormatError, match=case["refused"]) as caught:
            found(path, **options)
        assert str(caught.value).startswith(f"{path}:")
        assert caught.value.remedy
        assert caught.value.value is not None
        return
    comparisons, skipped = found(path, **options)
    broken = case.get("broken", False)
    expected = [(*told[:5], float(Fraction(told[5])), told[6]) for told in case["comparisons"]]
    rows = [row(c, 4 if broken else 3) for c in comparisons]
    assert sorted(rows, key=lambda one: str(one[:4])) == sorted(
        expected, key=lambda one: str(one[:4])
    )
    assert Counter(skip.reason for skip in skipped) == case["skipped"]
    project = case["project"] if file.endswith(".json") and ".min" not in file else ""
    for comparison in comparisons:
        assert comparison.key.startswith(f"ls:{project}:")
        assert comparison.slate == (comparison.key.rpartition(":")[0] if broken else None)
    assert len({comparison.key for comparison in comparisons}) == len(comparisons)


@pytest.mark.parametrize("path", sorted(FIXTURES.iterdir()), ids=lambda path: path.name)
def test_every_export_is_recognised_by_this_adapter_alone(path: Path) -> None:
    head = path.read_bytes()[:65536]
    known = {name: why for name, one in adapters().items() if (why := one.sniff(head, "x"))}
    assert list(known) == ["label-studio"]
    assert "annotation" in known["label-studio"]


def test_every_fixture_has_its_expected_comparisons() -> None:
    assert {case.values[1] for case in cases()} == {path.name for path in FIXTURES.iterdir()}


def test_no_fixture_holds_a_secret_or_a_person() -> None:
    for path in FIXTURES.iterdir():
        text = path.read_text(encoding="utf-8")
        assert "token" not in text.lower()
        assert "password" not in text.lower()
        assert text.count("@") == text.count("@example.com")


def test_an_answer_is_dated_by_its_creation() -> None:
    tasks = json.loads((FIXTURES / "pairwise.json").read_text(encoding="utf-8"))
    created = {
        f"ls:1:{annotation['id']}": datetime.fromisoformat(annotation["created_at"]).timestamp()
        for task in tasks
        for annotation in task["annotations"]
    }
    comparisons, _ = found(FIXTURES / "pairwise.json")
    assert {c.key: c.at for c in comparisons} == {c.key: created[c.key] for c in comparisons}
    flat, _ = found(FIXTURES / "pairwise.tsv", project=1)
    assert {c.at for c in flat} >= {c.at for c in comparisons}


@pytest.mark.parametrize("file", ["sides.json", "sides.csv", "sides.min.json"])
def test_short_task_data_become_tags_but_what_belongs_to_one_side_does_not(file: str) -> None:
    comparisons, _ = found(FIXTURES / file)
    tags = [{k: v for k, v in (c.tags or {}).items() if k != "task"} for c in comparisons]
    assert {tuple(sorted(one.items())) for one in tags} == {
        (("language", "en"), ("prompt", "Question 0?")),
        (("language", "fr"), ("prompt", "Question 1?")),
    }


@pytest.mark.parametrize("file", ["pairwise.json", "pairwise.csv", "pairwise.tsv"])
def test_an_answer_is_tagged_with_the_number_of_its_task(file: str) -> None:
    comparisons, _ = found(FIXTURES / file, project=1)
    tasks = json.loads((FIXTURES / "pairwise.json").read_text(encoding="utf-8"))
    task_of = {str(a["id"]): str(task["id"]) for task in tasks for a in task["annotations"]}
    assert len(comparisons) > 3
    for one in comparisons:
        assert (one.tags or {})["task"] == task_of[one.key.rpartition(":")[2]]


def test_one_annotation_in_several_exports_counts_once() -> None:
    data = read(
        [FIXTURES / "pairwise.json", FIXTURES / "pairwise.snapshot_full.json"], max_skipped=1
    )
    assert data.n_comparisons == 6
    assert data.raters == ("2", "3", "4")
    flat = read([FIXTURES / "sides.json", FIXTURES / "sides.csv"], project="2", max_skipped=1)
    assert flat.n_comparisons == 4


def test_a_flat_export_comes_with_a_warning_that_json_says_more() -> None:
    files = [FIXTURES / f"human_preference.{kind}" for kind in ("csv", "tsv", "min.json", "json")]
    warnings = read(files, max_skipped=1).warnings
    assert [warning.split(": ")[0] for warning in warnings] == [str(file) for file in files[:3]]
    for warning in warnings:
        assert "drafts or were accepted from predictions" in warning
        assert "export the project as JSON" in warning


def test_unfinished_projects_pass_the_guard_against_skips(tmp_path: Path) -> None:
    tasks = json.loads((FIXTURES / "human_preference.json").read_text(encoding="utf-8"))
    idle = {**tasks[0], "annotations": [], "id": 99}
    cancelled = json.loads(json.dumps(tasks[0]))
    cancelled["annotations"][0]["was_cancelled"] = True
    path = tmp_path / "half.json"
    path.write_text(json.dumps([*tasks, *[idle] * 20, cancelled]))
    assert read(path).n_skipped == 21


def real_exports() -> list[Path]:
    return sorted(REAL.iterdir()) if REAL.is_dir() else []


@pytest.mark.skipif(not REAL.is_dir(), reason="the exports of another server are not here")
def test_exports_of_another_server_are_read_alike_in_every_kind() -> None:
    assert len(real_exports()) > 20
    for letter in "ABCDE":
        told, _ = found(REAL / f"export_{letter}.json")
        assert told
        for ending in ("csv", "tsv", "min.json"):
            flat, _ = found(REAL / f"export_{letter}.{ending}")
            same = {(c.key.split(":", 2)[2], c.rater, c.left, c.right, c.outcome) for c in flat}
            # Annotation 27 was made from a prediction, which only JSON says.
            assert {one for one in same if one[0] != "27"} == {
                (c.key.split(":", 2)[2], c.rater, c.left, c.right, c.outcome) for c in told
            }


@pytest.mark.skipif(not REAL.is_dir(), reason="the exports of another server are not here")
@pytest.mark.parametrize("path", real_exports(), ids=lambda path: path.name)
def test_exports_of_another_server_are_recognised_and_read(path: Path) -> None:
    assert read(path).n_comparisons > 0


def _chosen(control: str, kind: str = "choices", **data: str) -> str:
    """Two tasks in each of which the left of oak and elm is chosen."""
    value = {"choices": ["left"]} if kind == "choices" else {"selected": "left"}
    return json.dumps([
        {"id": i, "data": {"model_a": pair[0], "model_b": pair[1], **data}, "annotations": [
            {"id": i, "completed_by": i, "was_cancelled": False, "result": [
                {"id": "r", "type": kind, "from_name": control, "to_name": "t", "value": value}]}]}
        for i, pair in enumerate([("oak", "elm"), ("elm", "oak")], start=1)
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("control", "data"),
    [("which_is_worse", {}), ("noisier", {}), ("choice", {"question": "Which one is noisier?"})],
)
def test_a_control_that_asks_for_the_worse_is_asked_about(
    tmp_path: Path, control: str, data: dict[str, str]
) -> None:
    path = tmp_path / "tasks.json"
    path.write_text(_chosen(control, **data))
    with pytest.raises(UnclearError, match="say with the option labels") as caught:
        found(path)
    first, second = caught.value.readings
    comparisons, _ = found(path, **first.options)
    assert [one.outcome for one in comparisons] == ["right", "right"]
    comparisons, _ = found(path, **second.options)
    assert [one.outcome for one in comparisons] == ["left", "left"]


def test_a_pairwise_control_that_asks_for_the_worse_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tasks.json"
    path.write_text(_chosen("worse", "pairwise"))
    with pytest.raises(FormatError, match="the better one"):
        found(path)
    assert len(found(path, control="worse")[0]) == 2


@pytest.mark.parametrize("question", ["Which is better?", "The worst day of my life"])
def test_a_control_that_asks_for_the_better_is_read(tmp_path: Path, question: str) -> None:
    path = tmp_path / "tasks.json"
    path.write_text(_chosen("better", text=question))
    assert [one.outcome for one in found(path)[0]] == ["left", "left"]
