from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner, Result

from bbq_plugin.cli import main
from bbq_plugin.cli.main import HOMES

if TYPE_CHECKING:
    from pathlib import Path

# The contract's names, in its order.
ITEM_FIELDS = [
    *("item", "rank", "rank_best", "rank_worst", "tier", "rating"),
    *("rating_lower", "rating_upper"),
    *("win_share", "win_share_lower", "win_share_upper"),
    *("theta", "theta_sd", "p_best", "n", "wins"),
]
RATER_FIELDS = [
    *("rater", "n", "quality", "quality_lower", "quality_upper", "agreement", "left_rate"),
    *("tie_rate", "median_time_s", "camp", "p_bad", "verdict", "reasons"),
    *("p_guesser", "p_inverted", "p_camp", "p_below"),
    *("agreement_expected", "left_expected", "side_bias", "side_bias_lower", "side_bias_upper"),
    *("tempo", "self_consistency"),
    *("self_consistency_expected", "drift", "n_gold", "gold_rate", "gold_expected"),
    *("moved", "shift_sd", "effect", "way_back", "model_verdict", "lead_word"),
]


def bbq(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments], catch_exceptions=False)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small simulated study as Arena votes."""
    path = tmp_path_factory.mktemp("study") / "votes.jsonl"
    options = "--items 5 --raters 12 --comparisons 400 --guessers 0.25 --ties 0.1 --seed 3"
    assert bbq("simulate", *options.split(), "-o", path).exit_code == 0
    return path


def test_help_does_not_load_what_only_a_fit_needs() -> None:
    code = (
        "import sys; from bbq_plugin.cli import main; main(['--help'], standalone_mode=False); "
        "print([m for m in ('numba', 'numpy', 'scipy', 'rich') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.endswith("[]\n")


@pytest.mark.parametrize("name", HOMES)
def test_every_command_and_option_explains_itself(name: str) -> None:
    result = bbq(name, "--help")
    assert result.exit_code == 0
    command = main.get_command(click.Context(main), name)
    assert command
    assert command.help
    for parameter in command.params:
        if parameter.param_type_name == "option":
            assert getattr(parameter, "help", None), f"{name} {parameter.name}"


def test_simulate_writes_the_votes_and_the_truth_beside_them(study: Path) -> None:
    votes = [json.loads(line) for line in study.read_text().splitlines()]
    truth = json.loads((study.parent / "votes.truth.json").read_text())
    assert len(votes) == 400
    assert len(truth["items"]) == 5
    assert [r["kind"] for r in truth["raters"]].count("guesser") == 3


def test_simulate_prints_the_votes_alone(tmp_path: Path) -> None:
    truth = tmp_path / "truth.json"
    result = bbq("simulate", "--comparisons", 40, "--format", "comparisons", "--truth", truth)
    assert result.stdout.splitlines()[0] == "rater,winner,loser,weight"
    assert len(result.stdout.splitlines()) == 41
    assert truth.exists()


def test_the_json_report_is_alone_on_standard_output(study: Path) -> None:
    result = bbq("fit", study, "--format", "json", "--intervals", "laplace")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert report["schema"] == "bbq.report/1"
    assert (report["n_comparisons"], report["n_items"], report["n_raters"]) == (400, 5, 12)
    assert report["converged"] is True
    assert report["intervals"] == "laplace"
    assert report["scale"] == "elo"
    assert list(report["items"][0]) == ITEM_FIELDS
    assert list(report["raters"][0]) == RATER_FIELDS
    assert len(report["raters"]) == 12
    assert {"model", "priors", "n_skipped", "log_posterior", "warnings", "level"} <= set(report)


def test_warnings_are_told_beside_the_csv(tmp_path: Path) -> None:
    path = tmp_path / "wins.csv"
    path.write_text("winner,loser\noak,elm\nelm,Oak\nOak,elm\n", encoding="utf-8")
    result = bbq("fit", path, "--format", "csv", "--intervals", "laplace")
    assert "Warning: items 'oak' and 'Oak' differ only in case" in result.stderr
    assert "Warning" not in result.stdout


def test_the_csv_is_the_leaderboard(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "board.csv"
    result = bbq("fit", study, "--format", "csv", "--intervals", "laplace", "-o", out)
    assert (result.exit_code, result.stdout) == (0, "")
    lines = out.read_text().splitlines()
    assert lines[0].startswith("item,rank,rank_best,rank_worst,tier,rating")
    assert len(lines) == 6


def test_the_table_names_items_and_raters(study: Path, tmp_path: Path) -> None:
    result = bbq("fit", study, "--intervals", "laplace")
    assert result.exit_code == 0
    assert "400 comparisons of 5 items, 12 raters" in result.stdout
    assert "item-1" in result.stdout
    assert "rater-01" in result.stdout
    out = tmp_path / "board.txt"
    assert bbq("fit", study, "--intervals", "laplace", "-o", out).stdout == ""
    assert "item-1" in out.read_text()


@pytest.mark.parametrize(
    "options",
    [
        ["--model", "bayes-bt"],
        ["--model", "crowd-bt"],
        ["--solver", "em"],
        ["--priors", "5,0.1,10,2"],
        ["--intervals", "paper", "--priors", "paper"],
        ["--intervals", "bootstrap"],
        ["--intervals", "posterior"],
        ["--scale", "paper", "--level", "0.9"],
        ["--scale", "theta"],
    ],
    ids=" ".join,
)
def test_every_option_of_fit_gives_a_report(study: Path, options: list[str]) -> None:
    result = bbq("fit", study, "--format", "json", *options)
    assert result.exit_code == 0, result.stderr
    assert len(json.loads(result.stdout)["items"]) == 5


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--cluster", "scene", "--intervals", "paper"], "leave one of them out"),
        (["--top-k", "5"], "of 5 items K is from 1 to 4"),
    ],
)
def test_what_would_have_no_effect_is_refused(study: Path, options: list[str], says: str) -> None:
    result = bbq("fit", study, *options)
    assert result.exit_code == 2
    assert says in result.stderr


def test_names_from_a_file_cannot_act_on_the_terminal_or_the_sheet(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    vote = {"judge": "\x1b[2J", "model_a": "[red]a[/red]", "model_b": "=cmd()", "winner": "tie"}
    path.write_text(json.dumps(vote) + "\n")
    table = bbq("fit", path, "--intervals", "laplace").stdout
    assert "\x1b[2J" not in table
    assert "[red]a[/red]" in table
    sheet = bbq("fit", path, "--intervals", "laplace", "--format", "csv").stdout
    assert "\n'=cmd()," in sheet


def test_votes_without_raters_are_fitted_and_the_report_says_so(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    votes = [{"model_a": "a", "model_b": "b", "winner": w} for w in ("model_a", "model_b", "a")]
    path.write_text("".join(json.dumps(v) + "\n" for v in votes))
    result = bbq("fit", path, "--format", "json", "--intervals", "laplace")
    report = json.loads(result.stdout)
    assert report["n_raters"] == 0
    assert report["raters"] == []
    assert any("rater" in warning for warning in report["warnings"])
    assert bbq("fit", path, "--intervals", "laplace").exit_code == 0


def test_skipped_rows_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    vote = {"judge": "ann", "model_a": "a", "model_b": "b", "winner": "a"}
    path.write_text(json.dumps(vote) + "\n" + json.dumps({**vote, "model_b": "a"}) + "\n")
    assert "1 row skipped: 1 × an item against itself" in bbq("fit", path).stdout
    report = json.loads(bbq("fit", path, "--format", "json").stdout)
    assert report["n_skipped"] == 1
    assert report["skipped"] == {"an item against itself": 1}


def test_bad_data_is_exit_code_1_and_one_line_without_traceback(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    path.write_text('{"model_a": "a", "model_b": "b", "winner": "modelA"}\n')
    result = bbq("fit", path)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(f"Error: {path}:1: winner is 'modelA'; expected")
    assert "Traceback" not in result.stderr


def test_an_output_that_cannot_be_written_is_exit_code_1(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "no" / "such" / "folder.json"
    result = bbq("fit", study, "--intervals", "laplace", "--format", "json", "-o", out)
    assert result.exit_code == 1
    assert "folder.json" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit"],
        ["fit", "votes.jsonl", "--model", "elo"],
        ["fit", "VOTES", "--adapter", "morse"],
        ["fit", "VOTES", "--priors", "1,2"],
        ["fit", "VOTES", "--level", "95"],
        ["simulate", "--items", "1"],
        ["simulate", "--slate", "3"],
        ["nonsense"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(study: Path, arguments: list[str]) -> None:
    result = bbq(*(study if a == "VOTES" else a for a in arguments))
    assert result.exit_code == 2
    assert "Error:" in result.stderr


def test_the_demo_shows_a_daemon_finding_bad_raters(tmp_path: Path) -> None:
    svg = tmp_path / "demo.svg"
    result = bbq("demo", tmp_path / "study", "--svg", svg)
    assert result.exit_code == 0
    assert "votes-5.jsonl arrived: 4,800 votes" in result.stdout
    assert "exclude rater-" in result.stdout
    assert "intervals hold the true rating" in result.stdout
    page = tmp_path / "study" / "results" / "report.html"
    assert f"the report is {page}" in result.stderr
    assert page.exists()
    assert (tmp_path / "study" / "truth.json").exists()
    assert svg.read_text().startswith("<svg")


def test_the_demo_does_not_fall_into_a_folder_that_is_in_use(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    result = bbq("demo", tmp_path)
    assert result.exit_code == 2
    assert "is not empty" in result.stderr


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of more items and raters than a screen has room for."""
    path = tmp_path_factory.mktemp("many") / "votes.jsonl"
    options = "--items 70 --raters 45 --comparisons 2000 --guessers 0.9 --seed 1"
    assert bbq("simulate", *options.split(), "-o", path).exit_code == 0
    return path


@pytest.mark.parametrize(
    ("command", "rows"),
    [
        (["fit"], {"item-": (30, 70), "rater-": (15, 45)}),
        (["raters"], {"rater-": (30, 45)}),
        (["pairs", "-n", "40"], {"item-": (30, 40)}),
    ],
    ids=["fit", "raters", "pairs"],
)
def test_a_table_has_at_most_30_rows_unless_all_are_asked_for(
    many: Path, command: list[str], rows: dict[str, tuple[int, int]]
) -> None:
    short = bbq(*command, many, "--priors", "paper").stdout
    whole = bbq(*command, many, "--priors", "paper", "--all").stdout
    for name, (few, every) in rows.items():
        lines = [line for line in short.splitlines() if "│" in line and name in line]
        assert len(lines) == few
        assert f"… and {every - few} more; --all shows them, --format json has all" in short
        assert sum("│" in line and name in line for line in whole.splitlines()) == every
    assert "--all shows them" not in whole


@pytest.mark.parametrize("address", ["https://example.org/votes.csv", "s3://bucket/votes.csv"])
def test_an_address_is_refused_as_what_it_is(address: str) -> None:
    result = CliRunner().invoke(main, ["fit", address])
    assert result.exit_code == 1
    assert f"Error: {address}: this is an address; votes are read from files" in result.stderr


def test_a_level_above_one_is_only_taken_for_percent_where_it_looks_like_it() -> None:
    result = CliRunner().invoke(main, ["fit", "votes.csv", "--level", "1.5"])
    assert "did you mean" not in result.stderr
    result = CliRunner().invoke(main, ["fit", "votes.csv", "--level", "95"])
    assert "did you mean 0.95?" in result.stderr


def test_a_name_that_would_fill_the_screen_is_cut_in_tables_and_whole_in_csv(
    tmp_path: Path,
) -> None:
    long = "x" * 3000
    path = tmp_path / "wins.csv"
    rows = [f"{a},{b},r{i % 4}\n" for i in range(12) for a, b in (("oak", long), (long, "elm"))]
    path.write_text("winner,loser,rater\n" + "".join(rows), encoding="utf-8")
    shown = CliRunner().invoke(main, ["fit", str(path)], env={"COLUMNS": "80"})
    assert shown.exit_code == 0
    assert "…" in shown.stdout
    assert shown.stdout.count("x") < 1000
    assert long in CliRunner().invoke(main, ["fit", str(path), "--format", "csv"]).stdout


def test_a_skipped_row_is_named_with_what_stands_there(tmp_path: Path) -> None:
    path = tmp_path / "wins.csv"
    rows = "oak,elm,1\nelm,oak,1\n" * 60 + "oak,elm,heavy\n"
    path.write_text(f"winner,loser,weight\n{rows}", encoding="utf-8")
    assert f"(first in {path}:122: 'heavy')" in CliRunner().invoke(
        main, ["fit", str(path)], env={"COLUMNS": "300"}
    ).stdout.replace("\n", "")


def test_answers_without_any_winner_say_nothing_of_the_first_place(tmp_path: Path) -> None:
    path = tmp_path / "ties.csv"
    rows = "ann,oak,elm,tie\nbob,elm,ash,tie\ncat,oak,ash,tie\n" * 5
    path.write_text(f"rater,left,right,winner\n{rows}", encoding="utf-8")
    result = CliRunner().invoke(main, ["fit", str(path)])
    assert result.exit_code == 0
    assert "No half" not in result.stdout


def test_one_slice_is_no_table_of_differences(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    rows = "ann,oak,elm,left,en\nbob,elm,ash,right,en\ncat,oak,ash,left,en\n" * 5
    path.write_text(f"rater,left,right,winner,lang\n{rows}", encoding="utf-8")
    result = CliRunner().invoke(main, ["fit", str(path), "--by", "lang"])
    assert "there is nothing to compare" in result.stdout
    assert "Ratings by lang" not in result.stdout
