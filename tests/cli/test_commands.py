"""raters, pairs, evaluate, formats, completion, and how every command behaves on a terminal."""

from __future__ import annotations

import csv
import json
import os
import pty
import shlex
import stat
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from numba import njit

from bbq_plugin.cli import main
from bbq_plugin.cli.output import announce_compiling

BBQ = [sys.executable, "-c", "from bbq_plugin.cli import main; main(prog_name='bbq')"]


def bbq(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments], catch_exceptions=False)


def document(*arguments: object) -> dict[str, Any]:
    result = bbq(*arguments, "--format", "json")
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def rows(*arguments: object) -> list[dict[str, str]]:
    result = bbq(*arguments, "--format", "csv")
    assert result.exit_code == 0, result.stderr
    return list(csv.DictReader(StringIO(result.stdout)))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "votes.jsonl"
    options = "--items 5 --raters 12 --comparisons 1200 --guessers 0.25 --spread 1 --seed 3"
    assert bbq("simulate", *options.split(), "-o", path).exit_code == 0
    return path


# -- raters


def test_the_exclusion_report_has_verdicts_and_the_rules_behind_them(study: Path) -> None:
    found = document("raters", study, "--false-rate", "10%", "--least", "20")
    assert found["schema"] == "bbq.raters/1"
    assert (found["false_rate"], found["least"]) == (0.1, 20)
    verdicts = [row["verdict"] for row in found["raters"]]
    assert found["verdicts"] == {v: verdicts.count(v) for v in ("keep", "watch", "exclude")}
    assert found["verdicts"]["exclude"] >= 1
    assert all(row["reasons"] for row in found["raters"] if row["verdict"] == "exclude")


def test_more_evidence_asked_for_excludes_fewer(study: Path) -> None:
    found = document("raters", study, "--least", "101")
    assert found["verdicts"]["exclude"] == 0


def test_raters_as_table_and_sheet(study: Path, tmp_path: Path) -> None:
    table = bbq("raters", study).stdout
    assert "exclude" in table
    assert table.count("rater-") >= 12
    sheet = rows("raters", study)
    assert [row["rater"] for row in sheet] == [f"rater-{i:02}" for i in range(1, 13)]
    assert sheet[0]["median_time_s"] == ""
    out = tmp_path / "raters.csv"
    assert bbq("raters", study, "-o", out).stdout == ""
    assert out.read_text().startswith("rater,n,quality")


def test_votes_without_raters_have_no_exclusion_report(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    path.write_text('{"model_a": "a", "model_b": "b", "winner": "a"}\n')
    for command in ("raters", "evaluate"):
        result = bbq(command, path)
        assert result.exit_code == 1
        assert "no rater names" in result.stderr
    assert bbq("pairs", path).exit_code == 0


# -- pairs


def test_pairs_come_as_table_json_and_csv(study: Path) -> None:
    found = document("pairs", study, "-n", "3")
    assert found["schema"] == "bbq.pairs/1"
    assert len(found["pairs"]) == 3
    assert list(found["pairs"][0]) == [
        *("item_a", "item_b", "p_a_better", "information_bits", "n", "left", "right", "rater")
    ]
    assert 0 < found["rater_quality"] < 1
    sheet = rows("pairs", study, "-n", "3")
    assert [row["item_a"] for row in sheet] == [row["item_a"] for row in found["pairs"]]
    assert "Pairs to compare next" in bbq("pairs", study).stdout


def test_all_pairs_are_listed_when_more_are_asked_for(study: Path) -> None:
    found = document("pairs", study, "-n", "99")
    assert len(found["pairs"]) == 10
    assert "only 10 pairs" in found["warnings"][0]


def test_pairs_among_some_items(study: Path) -> None:
    found = document("pairs", study, "--among", "item-1", "--among", "item-2")
    assert {found["pairs"][0]["item_a"], found["pairs"][0]["item_b"]} == {"item-1", "item-2"}
    result = bbq("pairs", study, "--among", "item-1", "--among", "itme-2")
    assert result.exit_code == 2
    assert "did you mean 'item-2'" in result.stderr


# -- evaluate


def test_the_stability_of_three_models(study: Path) -> None:
    found = document("evaluate", study, "--resamples", "5")
    assert found["schema"] == "bbq.stability/1"
    assert [row["model"] for row in found["models"]] == ["bbq", "bayes-bt", "crowd-bt"]
    assert all(-1 <= row["tau"] <= 1 and 0 <= row["top1"] <= 1 for row in found["models"])
    assert all(row["seconds"] > 0 for row in found["models"])


def test_the_stability_of_one_model_is_repeatable(study: Path) -> None:
    runs = [rows("evaluate", study, "--model", "bbq", "--resamples", "60") for _ in range(2)]
    taus = [[row["tau"] for row in run] for run in runs]
    assert taus[0] == taus[1]
    assert len(runs[0]) == 1
    assert "Kendall's tau" in bbq("evaluate", study, "--model", "bbq", "--resamples", 5).stdout


# -- formats and completion


def test_formats_lists_adapters_with_their_options() -> None:
    found = json.loads(bbq("formats", "--json").stdout)
    assert found["schema"] == "bbq.formats/1"
    names = [one["name"] for one in found["adapters"]]
    assert {"arena", "comparisons"} <= set(names)
    arena = found["adapters"][names.index("arena")]
    assert "both_bad" in [option["name"] for option in arena["options"]]
    assert all(one["summary"] and one["recognised"] for one in found["adapters"])
    assert "both_bad" in bbq("formats", "arena").stdout
    wrong = bbq("formats", "arnea")
    assert wrong.exit_code == 2
    assert "did you mean 'arena'" in wrong.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_printed(shell: str) -> None:
    result = bbq("completion", shell)
    assert result.exit_code == 0
    assert f"_BBQ_COMPLETE={shell}_complete" in result.stdout


def test_completion_knows_commands_and_values() -> None:
    env = {
        **os.environ,
        "_BBQ_COMPLETE": "bash_complete",
        "COMP_WORDS": "bbq ev",
        "COMP_CWORD": "1",
    }
    run = subprocess.run(BBQ, env=env, capture_output=True, text=True, check=False)
    assert run.stdout == "plain,evaluate\n"


# -- the near miss


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["evalute", "x"], "'evaluate'"),
        (["fit", "VOTES", "--model", "bayesbt"], "'bayes-bt'"),
        (["fit", "VOTES", "--format", "jsn"], "'json'"),
        (["fit", "VOTES", "--adapter", "arenas"], "'arena'"),
        (["fit", "VOTES", "-O", "bothbad=tie"], "'both_bad'"),
        (["fit", "VOTES", "--level", "95"], "0.95"),
        (["fit", "VOTES", "--max-skipped", "5"], "5%"),
        (["convert", "VOTES", "--layout", "crowdkit"], "'crowd-kit'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_a_near_miss_is_recognised(study: Path, arguments: list[str], meant: str) -> None:
    result = bbq(*(study if a == "VOTES" else a for a in arguments))
    assert result.exit_code == 2
    assert f"did you mean {meant}" in result.stderr.lower()


@pytest.mark.parametrize(
    "typed",
    [
        "demo --seed -1",
        "fit VOTES --seed -1",
        "simulate --seed -1",
        "simulate --spread -1",
        "simulate --quality 0 0",
        "simulate --quality nan 2",
        "simulate --shape nan",
        "simulate --items 0",
    ],
)
def test_a_number_that_nothing_can_be_drawn_with_is_wrong_usage(study: Path, typed: str) -> None:
    arguments = typed.split()
    result = bbq(*(study if a == "VOTES" else a for a in arguments))
    assert result.exit_code == 2
    option = next(a for a in arguments if a.startswith("--")).removeprefix("--")
    assert option in result.stderr.splitlines()[-1]


@pytest.mark.parametrize("level", ["0", "1", "nan", "-0.5", "150", "high"])
def test_an_impossible_level_is_refused(study: Path, level: str) -> None:
    result = bbq("fit", study, "--level", level)
    assert result.exit_code == 2
    assert "--level" in result.stderr


def test_a_level_in_percent_is_taken(study: Path) -> None:
    assert document("fit", study, "--level", "90%", "--priors", "paper")["level"] == 0.9


# -- outputs


def test_the_suffix_tells_the_format(study: Path, tmp_path: Path) -> None:
    for name, start in (("b.json", "{"), ("b.csv", "item,"), ("b.txt", "1,200 comparisons")):
        out = tmp_path / name
        result = bbq("fit", study, "--priors", "paper", "-o", out)
        assert (result.exit_code, result.stdout) == (0, "")
        assert out.read_text().startswith(start)
    odd = bbq("fit", study, "-o", tmp_path / "b.docx")
    assert odd.exit_code == 2
    assert "is of no known format" in odd.stderr
    assert bbq("fit", study, "--format", "csv", "-o", tmp_path / "b.docx").exit_code == 0


def test_the_page_is_one_file(study: Path, tmp_path: Path) -> None:
    pytest.importorskip("jinja2", reason="the page needs the extra 'charts'")
    out = tmp_path / "report.html"
    result = bbq("fit", study, "--priors", "paper", "-o", out)
    assert (result.exit_code, result.stdout) == (0, "")
    page = out.read_text()
    assert page.lower().startswith("<!doctype html>")
    assert "bbq fit" in page
    assert bbq("fit", study, "--priors", "paper", "--format", "html").stdout.startswith(page[:15])


def test_charts_go_into_a_folder(study: Path, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert", reason="charts need the extra 'charts'")
    folder = tmp_path / "a" / "charts"
    result = bbq("fit", study, "--priors", "paper", "--format", "csv", "--charts", folder)
    assert result.exit_code == 0
    assert "the charts are in" in result.stderr
    assert list(folder.glob("*.svg"))


@pytest.mark.parametrize("command", ["fit", "raters", "pairs", "evaluate", "convert", "simulate"])
def test_a_missing_folder_is_told_before_the_work(
    study: Path, command: str, tmp_path: Path
) -> None:
    files = [] if command == "simulate" else [study]
    result = bbq(command, *files, "-o", tmp_path / "no" / "out.csv")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no folder" in result.stderr
    assert bbq(command, *files, "-o", tmp_path).exit_code in (1, 2)


# -- pipes and terminals


@pytest.mark.parametrize("arguments", [["fit"], ["convert"], ["raters", "--format", "csv"]])
def test_a_closed_pipe_is_no_error(study: Path, arguments: list[str]) -> None:
    run = subprocess.Popen(
        [*BBQ, *arguments, str(study)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.close()
    stderr = run.stderr.read()
    run.stderr.close()
    assert (run.wait(), stderr) == (0, b"")


@pytest.mark.parametrize(
    ("closed", "arguments", "code", "says"),
    [("<&-", "fit -", 1, "empty"), (">&-", "convert", 0, ""), ("2>&-", "fit --format csv", 0, "")],
)
def test_a_closed_stream_does_not_end_in_a_traceback(
    study: Path, closed: str, arguments: str, code: int, says: str
) -> None:
    given = "" if "-" in arguments.split() else str(study)
    line = f"{shlex.join(BBQ)} {arguments} {given} {closed}"
    run = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False)
    assert run.returncode == code, run.stderr
    assert says in run.stderr
    assert "Traceback" not in run.stderr
    assert not closed.startswith("2") or run.stdout.startswith("item,rank")


def on_terminal(columns: int, *commands: list[str], files: list[Path], **env: str) -> str:
    """What a person sees: standard output and standard error on a terminal of that width."""
    ours, theirs = pty.openpty()
    each = [[*command, *map(str, files)] for command in commands]
    code = "import sys, json; from bbq_plugin.cli import main\n"
    code += "for one in json.loads(sys.argv[1]): main(one, prog_name='bbq', standalone_mode=False)"
    run = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(each)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color", **env},
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux says so when the other side is closed
            break
        if not piece:
            break
        seen += piece
    os.close(ours)
    assert run.wait() == 0, seen.decode()
    return seen.decode()


def test_numbers_stay_whole_on_a_narrow_terminal(study: Path) -> None:
    seen = on_terminal(44, ["raters"], files=[study], NO_COLOR="1")
    for row in rows("raters", study):
        assert row["rater"] in seen
    assert "exclude" in seen


def test_no_color_is_heeded(study: Path) -> None:
    assert "\x1b[3" in on_terminal(100, ["fit"], files=[study])
    plain = on_terminal(100, ["fit"], files=[study], NO_COLOR="1")
    assert "\x1b[31m" not in plain
    assert "\x1b[32m" not in plain


def test_names_do_not_act_on_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    vote = {"judge": "\x1b]0;owned\x07", "model_a": "\x1b[2Ja", "model_b": "b", "winner": "tie"}
    path.write_text(json.dumps(vote) + "\n")
    commands = (["fit"], ["raters"], ["pairs"], ["convert"], ["convert", "--layout", "choix"])
    seen = on_terminal(100, *commands, files=[path])
    assert seen.count("owned") >= 3
    assert "\x1b]0;owned" not in seen
    assert "\x1b[2Ja" not in seen


def test_progress_is_on_standard_error(study: Path) -> None:
    seen = on_terminal(80, ["evaluate", "--model", "bbq", "--resamples", "4"], files=[study])
    assert "Resampling" in seen
    assert "Resampling" not in bbq("evaluate", study, "--model", "bbq", "--resamples", 4).output


def test_an_old_code_page_does_not_end_in_a_traceback(study: Path) -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    run = subprocess.run([*BBQ, "fit", str(study)], env=env, capture_output=True, check=False)
    assert (run.returncode, run.stderr) == (0, b"")
    run = subprocess.run(
        [*BBQ, "fit", str(study), "--format", "json"], env=env, capture_output=True, check=False
    )
    assert json.loads(run.stdout.decode("utf-8"))["n_items"] == 5


def test_files_with_the_names_of_raters_are_for_their_owner_alone(
    study: Path, tmp_path: Path
) -> None:
    for words, name in ((["fit"], "a.json"), (["raters"], "b.csv"), (["convert"], "c.csv")):
        assert bbq(*words, study, "-o", tmp_path / name).exit_code == 0
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    # A file that is there keeps what its owner gave it.
    (tmp_path / "c.csv").chmod(0o644)
    assert bbq("convert", study, "-o", tmp_path / "c.csv").exit_code == 0
    assert stat.S_IMODE((tmp_path / "c.csv").stat().st_mode) == 0o644


@pytest.mark.parametrize("command", ["fit", "raters", "pairs", "evaluate", "convert"])
def test_no_output_replaces_what_is_read(study: Path, tmp_path: Path, command: str) -> None:
    votes, link = tmp_path / "votes.csv", tmp_path / "link.csv"
    assert bbq("convert", study, "-o", votes).exit_code == 0
    link.symlink_to(votes)
    before = votes.read_bytes()
    for named, output in ((votes, votes), (votes, link), (tmp_path / "*.csv", votes)):
        found = bbq(command, named, "-o", output)
        assert found.exit_code == 2
        assert "would be overwritten" in found.stderr
    assert votes.read_bytes() == before


def test_a_dash_is_standard_output(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert document("fit", study, "-o", "-")["schema"] == "bbq.report/1"
    assert not list(tmp_path.iterdir())


def test_a_link_is_followed_and_a_pipe_stays_a_pipe(study: Path, tmp_path: Path) -> None:
    real, link, pipe = (tmp_path / name for name in ("real.csv", "link.csv", "pipe.csv"))
    real.write_text("old")
    link.symlink_to(real)
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)  # noqa: S607
    for out in (link, pipe):
        assert bbq("convert", study, "-o", out).exit_code == 0
    said, _ = reader.communicate()
    assert link.is_symlink()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert real.read_bytes() == said != b"old"


def test_the_first_use_says_once_on_a_terminal_that_it_compiles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for terminal, times in ((False, 0), (True, 1)):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        announce_compiling()
        for by in (1, 2):
            njit(lambda x, by=by: x + by)(1)
        assert capsys.readouterr().err.count("compiling for the first use") == times
