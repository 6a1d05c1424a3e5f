"""A divided panel on the command line: --camps, and what the commands say of camps."""

from __future__ import annotations

import csv
import json
from io import StringIO
from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner, Result

from bbq_plugin.cli import main

if TYPE_CHECKING:
    from pathlib import Path


def bbq(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments], catch_exceptions=False)


@pytest.fixture(scope="module")
def votes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("two") / "votes.jsonl"
    design = "--raters 40 --comparisons 4000 --minority 0.4 --spread 1.2 --seed 9"
    assert bbq("simulate", *design.split(), "-o", path).exit_code == 0
    return path


def test_fit_says_first_that_the_panel_is_divided(votes: Path) -> None:
    out = bbq("fit", votes).stdout
    assert "The panel is divided: " in out
    places = [
        out.index(text)
        for text in ("The panel is divided", "Camp 1,", "Camp 2,", "Whole panel, 2 camps")
    ]
    assert places == sorted(places)
    truth = json.loads(votes.with_suffix(".truth.json").read_text())
    minority = sum(row["camp"] == 2 for row in truth["raters"])
    assert f"Camp 2, {minority} raters" in out


def test_fit_says_that_tastes_differ_where_there_are_no_camps(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    theta = np.linspace(-1.5, 1.5, 8) + 0.7 * rng.standard_normal((40, 8))
    rater, left = np.repeat(np.arange(40), 100), rng.integers(0, 8, 4000)
    right = (left + rng.integers(1, 8, 4000)) % 8
    won = rng.random(4000) < 1 / (1 + np.exp(theta[rater, right] - theta[rater, left]))
    says = np.where(won, "left", "right")
    path = tmp_path / "votes.csv"
    lines = (f"r{r},i{a},i{b},{w}\n" for r, a, b, w in zip(rater, left, right, says, strict=True))
    path.write_text("judge,left,right,winner\n" + "".join(lines))
    out = " ".join(bbq("fit", path).stdout.split())
    assert "The raters differ in taste, but form no camps. They disagree most on i" in out
    assert "Camp 1" not in out


def test_camps_1_is_one_ranking(votes: Path) -> None:
    out = bbq("fit", votes, "--camps", "1").stdout
    assert "divided" not in out
    assert "Camp 1" not in out
    document = json.loads(bbq("fit", votes, "--camps", 1, "--format", "json").stdout)
    assert len(document["camps"]) == 1


def test_as_many_camps_as_asked_for(votes: Path) -> None:
    document = json.loads(bbq("fit", votes, "--camps", 3, "--format", "json").stdout)
    assert [camp["camp"] for camp in document["camps"]] == [1, 2, 3]


def test_camps_that_were_asked_for_are_said_to_be_so(votes: Path, tmp_path: Path) -> None:
    found = bbq("fit", votes, "--camps", 2).stdout
    assert "The panel is divided, as asked (camps=2): " in found
    assert "is not supported" not in found, "the answers ask for two as well"
    one = tmp_path / "one.jsonl"
    design = "--raters 30 --comparisons 1500 --seed 4"
    assert bbq("simulate", *design.split(), "-o", one).exit_code == 0
    assert len(json.loads(bbq("fit", one, "--format", "json").stdout)["camps"]) == 1
    document = json.loads(bbq("fit", one, "--camps", 2, "--format", "json").stdout)
    assert len(document["camps"]) == 2
    assert any(
        "camps=2 was asked for, but the answers support one camp" in text
        for text in document["warnings"]
    )


def test_csv_tells_whose_row_it_is(votes: Path) -> None:
    rows = list(csv.DictReader(StringIO(bbq("fit", votes, "--format", "csv").stdout)))
    assert [row["camp"] for row in rows] == [""] * 8 + ["1"] * 8 + ["2"] * 8


@pytest.mark.parametrize("value", ["0", "7", "two", "-1", "1.5"])
def test_a_number_of_camps_that_is_none_is_refused(votes: Path, value: str) -> None:
    result = bbq("fit", votes, "--camps", value)
    assert result.exit_code == 2
    assert "expected auto, or a whole number from 1 to 6" in result.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("fit", "--model", "bayes-bt"), "camps=2 takes model='bbq'"),
        (("fit", "--solver", "em"), "camps=2 takes solver='auto'"),
        (("raters", "--model", "bbq-signed"), "camps=2 takes model='bbq'"),
        (("pairs", "--model", "crowd-bt"), "camps=2 takes model='bbq'"),
        (("evaluate", "--model", "bayes-bt"), "--camps 2 is for --model bbq"),
    ],
)
def test_what_does_not_go_with_camps_is_wrong_usage(
    votes: Path, options: tuple[str, ...], says: str
) -> None:
    result = bbq(options[0], votes, "--camps", 2, *options[1:])
    assert result.exit_code == 2
    assert says in result.stderr


def test_camps_without_raters_are_wrong_usage(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("winner,loser\na,b\nb,c\nc,a\n" * 5)
    result = bbq("fit", path, "--camps", 2)
    assert result.exit_code == 2
    assert "camps=2 needs raters, and these data have none; use camps=1" in result.stderr


def test_evaluate_takes_camps_for_the_model_that_has_them(votes: Path) -> None:
    out = bbq("evaluate", votes, "--camps", "auto", "--resamples", 3, "--format", "json").stdout
    assert [row["model"] for row in json.loads(out)["models"]] == ["bbq", "bayes-bt", "crowd-bt"]


def test_charts_of_a_divided_panel_are_written(votes: Path, tmp_path: Path) -> None:
    assert bbq("fit", votes, "--charts", tmp_path, "--format", "csv").exit_code == 0
    assert {"camps.svg", "disagreement.svg"} <= {path.name for path in tmp_path.iterdir()}


def test_the_minority_is_not_excluded(votes: Path) -> None:
    document = json.loads(bbq("raters", votes, "--format", "json").stdout)
    assert document["verdicts"]["exclude"] == 0


def test_pairs_are_for_the_panel_or_for_one_camp(votes: Path) -> None:
    documents = [
        json.loads(bbq("pairs", votes, "-n", 8, "--format", "json", *more).stdout)
        for more in ((), ("--for-camp", 1), ("--for-camp", 2))
    ]
    assert [document["camp"] for document in documents] == [None, 1, 2]
    pairs = [[(row["item_a"], row["item_b"]) for row in one["pairs"]] for one in documents]
    assert pairs[1] != pairs[2]
    assert "the ranking of camp 2" in bbq("pairs", votes, "-n", 3, "--for-camp", 2).stdout


def test_a_camp_that_is_not_there_is_wrong_usage(votes: Path) -> None:
    result = bbq("pairs", votes, "--for-camp", 3)
    assert result.exit_code == 2
    assert "the camps 1 to 2" in result.stderr


def test_the_stopping_rule_of_one_camp_is_about_its_ranking(votes: Path) -> None:
    out = bbq("fit", votes, "--for-camp", 2).stdout
    assert "Comparisons needed by raters of camp 2, for its ranking (forecast" in out
    whole, camp = (
        json.loads(bbq("fit", votes, *more, "--format", "json").stdout)["stopping"]
        for more in ((), ("--for-camp", 2))
    )
    assert (whole["camp"], camp["camp"]) == (None, 2)
    assert whole["milestones"] != camp["milestones"]
    refused = bbq("fit", votes, "--for-camp", 5)
    assert refused.exit_code == 2
    assert "the camps 1 to 2" in refused.stderr


def test_status_tells_the_camps(votes: Path, tmp_path: Path) -> None:
    store = tmp_path / "state.db"
    watched = tmp_path / "in"
    watched.mkdir()
    (watched / "votes.jsonl").write_bytes(votes.read_bytes())
    done = bbq("watch", watched, "--store", store, "--out", tmp_path / "out", "--once")
    assert done.exit_code == 0
    assert "Camps: 2. The panel is divided: " in " ".join(
        bbq("status", "--store", store).stdout.split()
    )
    document = json.loads(bbq("status", "--store", store, "--format", "json").stdout)
    assert document["n_camps"] == 2
    assert document["panel"].startswith("The panel is divided: ")
