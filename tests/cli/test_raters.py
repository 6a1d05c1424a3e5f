"""bbq raters: the exclusion report as people and programs get it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bbq_plugin.cli import main


def bbq(*arguments: object, **env: str) -> Result:
    words = [str(a) for a in arguments]
    return CliRunner().invoke(main, words, catch_exceptions=False, env=env)


def document(*arguments: object, **env: str) -> dict[str, Any]:
    result = bbq("raters", *arguments, "--format", "json", **env)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture(scope="module")
def votes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "votes.jsonl"
    options = "--items 6 --raters 20 --comparisons 2400 --guessers 0.2 --spread 1.2 --seed 5"
    assert bbq("simulate", *options.split(), "-o", path).exit_code == 0
    return path


def excluded(found: dict[str, Any]) -> set[str]:
    return {row["rater"] for row in found["raters"] if row["verdict"] == "exclude"}


def test_the_json_has_the_rules_the_population_and_what_is_not_known(votes: Path) -> None:
    found = document(votes, "--threshold", "0.4", "--false-rate", "10%")
    assert (found["false_rate"], found["threshold"], found["least"]) == (0.1, 0.4, 10)
    assert 0 < found["population"]["guessers"] < 1
    assert "how long an answer took" in found["not_known"]
    assert found["without_excluded"]["matters"] in (True, False)
    assert excluded(found)
    for row in found["raters"]:
        assert row["tempo"] is None
        assert bool(row["way_back"]) == bool(row["effect"]) == (row["verdict"] == "exclude")


def test_pseudonyms_change_names_and_nothing_else(votes: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"0123456789abcdef0123456789abcdef")
    plain, hidden = document(votes), document(votes, "--pseudonym-key-file", key)
    again = document(votes, "--pseudonym-key-file", key)
    assert hidden["raters"] == again["raters"]
    for one, other in zip(plain["raters"], hidden["raters"], strict=True):
        assert other["rater"].startswith("rater-")
        assert {**one, "rater": ""} == {**other, "rater": ""}
        assert json.dumps(one["rater"]) not in json.dumps(hidden["raters"])


def test_an_earlier_report_keeps_out_whom_it_excluded(votes: Path, tmp_path: Path) -> None:
    first = document(votes)
    before = tmp_path / "before.json"
    doubtful = [r for r in first["raters"] if r["verdict"] != "exclude"]
    worst = max(doubtful, key=lambda r: r["p_guesser"] + r["p_inverted"])
    for row in first["raters"]:
        row["verdict"] = "exclude"
    before.write_text(json.dumps(first), encoding="utf-8")
    found = document(votes, "--before", before)
    bad = {r["rater"]: r["p_guesser"] + r["p_inverted"] for r in found["raters"]}
    assert excluded(found) >= {name for name, p in bad.items() if p >= 0.2}
    assert not excluded(found) & {name for name, p in bad.items() if p < 0.19}
    assert worst["rater"] in bad
    key = tmp_path / "key"
    key.write_bytes(b"0123456789abcdef0123456789abcdef")
    hidden = document(votes, "--before", before, "--pseudonym-key-file", key)
    assert len(excluded(hidden)) == len(excluded(found))


def test_something_else_than_a_report_is_refused_by_name(votes: Path, tmp_path: Path) -> None:
    for text in ("no json", '{"schema": "bbq.pairs/1", "raters": []}'):
        wrong = tmp_path / "wrong.json"
        wrong.write_text(text, encoding="utf-8")
        result = bbq("raters", votes, "--before", wrong)
        assert result.exit_code == 1
        assert "wrong.json" in result.stderr


def test_the_page_shows_an_excluded_rater_why(votes: Path, tmp_path: Path) -> None:
    page = tmp_path / "raters.html"
    assert bbq("raters", votes, "-o", page).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "to be kept again" in text
    assert "without this rater" in text
    assert "answers look random" in text.lower()


def test_the_table_says_what_leaving_them_out_does(votes: Path) -> None:
    shown = " ".join(bbq("raters", votes).stdout.split())
    assert "to exclude: no rank changes" in shown
    assert "to be kept again:" in shown
    assert "Not in these data:" in shown


def test_the_signed_model_is_there_on_the_command_line(votes: Path) -> None:
    assert document(votes, "--model", "bbq-signed")["model"] == "bbq-signed"
    result = bbq("fit", votes, "--model", "bbq-signed", "--format", "json")
    assert json.loads(result.stdout)["priors"]["inverted"] > 1
    wrong = bbq("fit", votes, "--model", "bbq-signed", "--priors", "auto")
    assert wrong.exit_code == 2
    assert "five numbers" in wrong.stderr


def test_priors_for_the_signed_model_count_or_are_refused(votes: Path) -> None:
    given = document(votes, "--model", "bbq-signed", "--priors", "5,0.1,3,1.5,1.1")["priors"]
    assert (given["source"], given["informed"], given["inverted"]) == ("given", 3.0, 1.1)
    for text in ("5,0.1,10,2", "paper"):
        wrong = bbq("raters", votes, "--model", "bbq-signed", "--priors", text)
        assert wrong.exit_code == 2
        assert "five numbers a,b,informed,guessed,inverted" in wrong.stderr


@pytest.mark.parametrize("model", ["bbq-signed", "crowd-bt"])
def test_intervals_that_a_model_does_not_have_are_wrong_usage(votes: Path, model: str) -> None:
    wrong = bbq("fit", votes, "--model", model, "--intervals", "posterior")
    assert wrong.exit_code == 2
    assert "--intervals laplace or bootstrap" in wrong.stderr


def test_table_and_page_state_the_rate_the_rule_and_the_minimum(
    votes: Path, tmp_path: Path
) -> None:
    page = tmp_path / "raters.html"
    rules = ("--false-rate", "2.5%", "--least", "12")
    assert bbq("raters", votes, *rules, "-o", page).exit_code == 0
    table = " ".join(bbq("raters", votes, *rules).stdout.split())
    for text in (table, page.read_text("utf-8")):
        assert "at most 2.5% of the excluded are expected to be honest" in text
        assert "It takes 12 answers" in text


def test_an_earlier_report_of_other_raters_is_warned_of(votes: Path, tmp_path: Path) -> None:
    key, before = tmp_path / "key", tmp_path / "before.json"
    key.write_bytes(b"0123456789abcdef0123456789abcdef")
    hidden = document(votes, "--pseudonym-key-file", key)
    before.write_text(json.dumps(hidden), "utf-8")
    n = len(excluded(hidden))
    says = f"{n} of the {n} raters that {before} excludes are not in these data"
    found = document(votes, "--before", before)
    assert any(says in text and "--pseudonym-key-file" in text for text in found["warnings"])
    csv = bbq("raters", votes, "--before", before, "--format", "csv")
    assert says in " ".join(csv.stderr.split())
    same = document(votes, "--before", before, "--pseudonym-key-file", key)
    assert not any("not in these data" in text for text in same["warnings"])


def test_a_panel_of_coins_is_warned_of_everywhere(tmp_path: Path) -> None:
    path, page = tmp_path / "coins.jsonl", tmp_path / "coins.html"
    options = "--items 6 --raters 10 --comparisons 500 --guessers 1 --seed 4"
    assert bbq("simulate", *options.split(), "-o", path).exit_code == 0
    says = "do not agree with each other more than random answers would"
    found = document(path)
    assert any(says in text for text in found["warnings"])
    assert found["p_coins"] > 0.05
    assert says in " ".join(bbq("raters", path).stdout.split())
    assert bbq("raters", path, "-o", page).exit_code == 0
    assert says in page.read_text("utf-8")
