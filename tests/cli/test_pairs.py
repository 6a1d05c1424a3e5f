"""`bbq pairs` for a goal, for raters and for Label Studio; when to stop, as `bbq fit` says it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import bbq_plugin as bbq
from bbq_plugin.cli import main


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments], catch_exceptions=False)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "votes.jsonl"
    options = "--items 6 --raters 10 --comparisons 1500 --guessers 0.2 --spread 1 --seed 3"
    assert run("simulate", *options.split(), "-o", path).exit_code == 0
    return path


def pairs(study: Path, *options: object) -> dict[str, Any]:
    result = run("pairs", study, "--format", "json", *options)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_goal_is_asked_for_and_named(study: Path) -> None:
    assert pairs(study, "-n", "2")["goal"] == "ranking"
    assert pairs(study, "-n", "2", "--goal", "best")["goal"] == "best"
    found = pairs(study, "-n", "2", "--top-k", "2")
    assert (found["goal"], found["top_k"]) == ("top-k", 2)
    table = run("pairs", study, "-n", "2", "--top-k", "2")
    assert "for the best 2" in table.stdout


def test_all_raters_but_those_excluded(study: Path) -> None:
    report = json.loads(run("raters", study, "--format", "json").stdout)
    out = {row["rater"] for row in report["raters"] if row["verdict"] == "exclude"}
    everyone = {row["rater"] for row in report["raters"]}
    assert out
    found = pairs(study, "-n", "40", "--all-raters")
    assert {row["rater"] for row in found["pairs"]} == everyone - out
    assert all(any(name in text for text in found["warnings"]) for name in out)


@pytest.mark.parametrize("model", ["bbq", "bayes-bt", "crowd-bt"])
def test_whom_the_report_excludes_is_not_asked_under_the_same_rules(
    study: Path, tmp_path: Path, model: str
) -> None:
    before = tmp_path / "before.json"
    assert run("raters", study, "-o", before).exit_code == 0
    earlier = json.loads(before.read_text("utf-8"))
    for row in earlier["raters"]:
        row["verdict"] = "exclude"
    before.write_text(json.dumps(earlier), "utf-8")
    seen = set()
    for rules in (["--least", "9999"], ["--false-rate", "30%"], ["--before", before]):
        report = json.loads(run("raters", study, "--format", "json", *rules).stdout)
        out = {row["rater"] for row in report["raters"] if row["verdict"] == "exclude"}
        everyone = {row["rater"] for row in report["raters"]}
        found = pairs(study, "-n", "40", "--all-raters", "--model", model, *rules)
        assert {row["rater"] for row in found["pairs"]} == everyone - out
        told = any("judged by a bbq fit" in text for text in found["warnings"])
        assert told == (model != "bbq")
        seen.add(len(out))
    assert 0 in seen
    assert len(seen) > 1


def test_names_of_raters_stay_hidden_under_pseudonyms(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BBQ_PSEUDONYM_KEY", "a key of sixteen bytes")
    options = ("-n", "3", "--rater", "rater-01", "--rater=newcomer", "--pseudonymise")
    result = run("pairs", study, "--format", "json", *options)
    found = json.loads(result.stdout)
    assert len({row["rater"] for row in found["pairs"]}) == 2
    assert "newcomer" not in result.output
    assert "rater-01" not in result.output


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--goal", "top-k"], "add --top-k K"),
        (["--top-k", "6"], "from 1 to 5"),
        (["--goal", "best", "--top-k", "2"], "--top-k is for --goal top-k"),
        (["--before", __file__], "--all-raters"),
        (["--model", "crowd-bt", "--priors", "5,0.1,10,2"], "leave priors out"),
        (["--scores"], "label-studio"),
        (["--format", "label-studio", "--rater-key", "who"], "--all-raters"),
        (["--format", "label-studio", "--item-keys", "a,b,c"], "two keys"),
        (["--format", "label-studio", "--item-keys", "a,a.b"], "same place"),
        (["--format", "label-studio", "--item-keys", "a,"], "no key"),
    ],
)
def test_what_does_not_go_together_is_wrong_usage(
    study: Path, options: list[str], says: str
) -> None:
    result = run("pairs", study, *options)
    assert result.exit_code == 2
    assert says in result.stderr


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ("model_left,model_right", None),
        ("pair.first.name,pair.second.name", "pair.first.name,pair.second.name"),
        ("who_a,who_b", "who_a,who_b"),
        ("images.model", "images.model"),
        ("models", None),
    ],
)
def test_tasks_go_into_a_project_and_its_export_comes_back(
    study: Path, tmp_path: Path, keys: str, told: str | None
) -> None:
    """The file is what an import takes; the export is the same tasks with answers."""
    tasks_file = tmp_path / "tasks.json"
    options = ("--format", "label-studio", "--item-keys", keys, "-n", "8", "-o", tasks_file)
    assert run("pairs", study, *options).exit_code == 0
    tasks = json.loads(tasks_file.read_text("utf-8"))
    assert all(set(task) == {"data"} for task in tasks)
    export = tmp_path / "export.json"
    answered = [_answered(at, task) for at, task in enumerate(tasks, start=1)]
    export.write_text(json.dumps(answered), "utf-8")
    options_read: dict[str, Any] = {} if told is None else {"items": told}
    data = bbq.read(export, **options_read)
    wanted = Counter(frozenset((r["left"], r["right"])) for r in pairs(study, "-n", "8")["pairs"])
    met = zip(data.winner.tolist(), data.loser.tolist(), strict=True)
    assert Counter(frozenset((data.items[w], data.items[x])) for w, x in met) == wanted
    assert data.n_comparisons == len(tasks) == 8


def _answered(at: int, task: dict[str, Any]) -> dict[str, Any]:
    result = {
        "from_name": "better", "to_name": "left", "type": "pairwise",
        "value": {"selected": "left" if at % 2 else "right"},
    }  # fmt: skip
    annotation = {
        "id": 100 + at, "completed_by": 1 + at % 2, "was_cancelled": False, "ground_truth": False,
        "result": [result], "created_at": "2026-01-01T00:00:00Z", "lead_time": 4.0,
        "updated_at": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    return {"id": at, "project": 1, "annotations": [annotation], **task}


def test_scores_put_the_most_informative_task_first(study: Path) -> None:
    options = ("-n", "5", "--format", "label-studio", "--scores", "--all-raters")
    result = run("pairs", study, *options, "--rater-key", "meta.ask")
    tasks = json.loads(result.stdout)
    scores = [task["predictions"][0]["score"] for task in tasks]
    assert scores[0] == min(scores) == 0
    assert all(0 <= score < 1 for score in scores)
    assert all(task["data"]["meta"]["ask"].startswith("rater-") for task in tasks)
    assert "not asked" in result.stderr


def test_the_fit_says_when_to_stop(study: Path) -> None:
    table = run("fit", study, "--top-k", "2")
    assert "Comparisons needed (forecast, 95% level, 50% chance)" in table.stdout
    assert "the best 2:" in table.stdout
    assert "Significant under continuous monitoring" in table.stdout
    found = json.loads(run("fit", study, "--top-k", "2", "--format", "json").stdout)["stopping"]
    assert [row["question"] for row in found["milestones"]] == ["best", "top-k", "neighbours"]
    assert found["for_good"]["compared"] == 15
    page = run("fit", study, "--format", "html").stdout
    assert 'id="stop"' in page
