"""`bbq inspect`, and the commands that a refusal proposes, pasted into a real shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bbq_plugin.cli import main
from tests.adapters.made_votes import chosen, loser, orders, table, votes
from tests.data.test_file_decoding import workbook

VOTES = votes()


def bbq(*words: object, **more: Any) -> Result:
    return CliRunner().invoke(main, [str(w) for w in words], catch_exceptions=False, **more)


def file(tmp_path: Path, text: str, name: str = "votes.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def pasted(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The line as a person pastes it."""
    assert line.startswith("Try: bbq ")
    scripts = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}"}
    command = line.removeprefix("Try: ")
    return subprocess.run(
        ["/bin/sh", "-c", command], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def proposals(result: Result) -> list[str]:
    return [line for line in result.stderr.splitlines() if line.startswith("Try: ")]


def test_the_first_line_is_the_command_that_was_typed(tmp_path: Path) -> None:
    path = file(
        tmp_path, table(["juror", "repo a", "repo b", "choice"], chosen((1, 2))), "my votes.csv"
    )
    result = bbq("fit", path, "--format", "json", "--seed", "3")
    assert result.exit_code == 1
    assert result.stdout == ""
    first = proposals(result)[0]
    assert first.startswith(
        f"Try: bbq fit '{path}' --format json --seed 3 --adapter table -O 'left=repo a'"
    )
    done = pasted(first, tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["n_comparisons"], report["n_raters"], report["items"][0]["item"]) == (
        120,
        4,
        "oak",
    )


@pytest.mark.parametrize("command", ["raters", "pairs", "convert"])
def test_every_command_that_reads_proposes_itself(tmp_path: Path, command: str) -> None:
    path = file(tmp_path, table(["juror", "m_1", "m_2", "choice"], chosen((1, 2))))
    first = proposals(bbq(command, path))[0]
    assert first.startswith(f"Try: bbq {command} {path} --adapter table ")
    assert pasted(first, tmp_path).returncode == 0


def test_what_was_said_stays_and_is_not_said_again(tmp_path: Path) -> None:
    path = file(tmp_path, table(["juror", "m_1", "m_2", "choice"], chosen((1, 2), third=0)))
    (first, second, *_) = proposals(bbq("fit", "--adapter", "table", "-O", "rater=none", path))
    assert first.count("--adapter") == first.count("rater=") == 1
    assert "0=tie" in first
    assert "0=skip" in second
    assert proposals(bbq("fit", path, "-O", "winner=nothing")) == []


def test_odd_names_are_quoted(tmp_path: Path) -> None:
    head = ["who's judge", "model $(1)", "model `2`", "choice, final"]
    path = file(tmp_path, table(head, chosen((1, 2))), "it's; a file.csv")
    done = pasted(proposals(bbq("fit", path))[0], tmp_path)
    assert done.returncode == 0, done.stderr
    rows: list[list[object]] = [[f"v{i}", *order] for i, order in enumerate(orders())]
    named = ["voter", *(f"rank {i}, name" for i in range(1, 6))]
    done = pasted(proposals(bbq("fit", file(tmp_path, table(named, rows))))[0], tmp_path)
    assert done.returncode == 0, done.stderr


def test_standard_input_gets_the_options_in_words() -> None:
    text = table(["juror", "m_1", "m_2", "choice"], chosen((1, 2)))
    result = bbq("fit", "-", input=text.encode())
    assert result.exit_code == 1
    assert proposals(result) == []
    assert "Add: --adapter table -O left=m_1" in result.stderr
    clear = table(["judge", "winner", "loser"], [[v[3], v[2], loser(v)] for v in VOTES])
    assert bbq("fit", "-", input=clear.encode()).exit_code == 0


def test_weak_evidence_names_inspect_and_proposes_nothing(tmp_path: Path) -> None:
    path = file(tmp_path, "user,movie,rating\nann,oak,4\nbob,elm,2\nann,fir,5\n")
    result = bbq("fit", path)
    assert result.exit_code == 1
    assert proposals(result) == []
    assert f"bbq inspect {path}" in result.stderr


# -- inspect


def test_inspect_shows_columns_roles_and_the_command(tmp_path: Path) -> None:
    path = file(tmp_path, table(["juror", "repo_a", "repo_b", "choice"], chosen((1, 2))))
    result = bbq("inspect", path)
    assert result.exit_code == 0
    assert "CSV, UTF-8, 120 rows" in result.stdout
    assert "prefers" in result.stdout
    assert "120 comparisons, 5 items, 4 raters, 0 ties, 0 skipped" in result.stdout
    last = result.stdout.splitlines()[-1]
    assert pasted(last, tmp_path).returncode == 0


def test_inspect_speaks_json(tmp_path: Path) -> None:
    path = file(tmp_path, table(["juror", "repo_a", "repo_b", "choice"], chosen((1, 2), third=0)))
    document = json.loads(bbq("inspect", path, "--format", "json").stdout)
    assert document["schema"] == "bbq.inspect/1"
    (found,) = document["files"]
    assert found["n_rows"] == 120
    assert [one["name"] for one in found["columns"]] == ["juror", "repo_a", "repo_b", "choice"]
    assert found["reading"]["confidence"] == "likely"
    roles = {one["column"]: one["role"] for one in found["reading"]["roles"]}
    assert roles == {"repo_a": "item", "repo_b": "item", "choice": "outcome", "juror": "rater"}
    sure = {one["column"]: one["sure"] for one in found["reading"]["roles"]}
    # Nothing in the file says what 0 means.
    assert sure == {
        "repo_a": "certain",
        "repo_b": "certain",
        "choice": "possible",
        "juror": "certain",
    }
    assert found["counts"]["n_ties"] == 14
    assert len(found["comparisons"]) == 5
    assert len(found["commands"]) == len(found["others"]) + 1


def test_inspect_of_a_known_format_says_so(tmp_path: Path) -> None:
    text = table(["judge", "model_a", "model_b", "winner"], chosen(("model_a", "model_b")))
    result = bbq("inspect", file(tmp_path, text))
    assert "(certain)" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("Try: bbq fit ")


def test_inspect_of_no_votes_says_what_the_file_is(tmp_path: Path) -> None:
    result = bbq("inspect", file(tmp_path, "user,movie,rating\nann,oak,4\nbob,elm,2\n"))
    assert result.exit_code == 0
    assert "No votes: a table of 2 rows and 3 columns" in result.stdout
    assert "Try:" not in result.stdout


def test_a_mapping_is_saved_and_read_again(tmp_path: Path) -> None:
    path = file(tmp_path, table(["juror", "repo_a", "repo_b", "choice"], chosen((1, 2), third=0)))
    study = tmp_path / "study.toml"
    result = bbq("inspect", path, "--save-mapping", study)
    assert result.exit_code == 0
    saved = tomllib.loads(study.read_text(encoding="utf-8"))["mapping"]
    assert saved["values"] == {"1": "left", "2": "right", "0": "tie"}
    done = bbq("fit", path, "--mapping", study, "--format", "json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["n_comparisons"] == 120
    changed = bbq(
        "fit", path, "--mapping", study, "-O", "values=1=left,2=right,0=skip", "--format", "json"
    )
    assert json.loads(changed.stdout)["n_comparisons"] == 106


def test_watch_reads_by_a_saved_mapping(tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    path = file(inbox, table(["juror", "repo_a", "repo_b", "choice"], chosen((1, 2))))
    study = tmp_path / "study.toml"
    assert bbq("inspect", path, "--save-mapping", study).exit_code == 0
    words = ["watch", inbox, "--once", "--out", tmp_path / "out", "--store"]
    done = bbq(*words, tmp_path / "one.db", "--mapping", study)
    assert done.exit_code == 0, done.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert (report["n_comparisons"], report["n_raters"]) == (120, 4)
    settings = tmp_path / "bbq.toml"
    settings.write_text(study.read_text(encoding="utf-8"), encoding="utf-8")
    done = bbq(*words, tmp_path / "two.db", "--config", settings)
    assert done.exit_code == 0, done.stderr


def test_inspect_of_several_files_and_of_no_file(tmp_path: Path) -> None:
    text = table(["juror", "repo_a", "repo_b", "choice"], chosen((1, 2)))
    paths = [file(tmp_path, text, f"{i}.csv") for i in (1, 2)]
    document = json.loads(bbq("inspect", *paths, "--format", "json").stdout)
    assert len(document["files"]) == 2
    assert bbq("inspect", "-").exit_code == 2
    assert bbq("inspect", tmp_path / "none.csv").exit_code == 1


def watched(tmp_path: Path, *words: object) -> Result:
    places = ["--store", tmp_path / "s.db", "--out", tmp_path / "out"]
    return bbq("watch", tmp_path / "in", "--once", *places, *words)


def test_watch_reads_what_leaves_no_question_and_says_what_to_do_about_the_rest(
    tmp_path: Path,
) -> None:
    (tmp_path / "in").mkdir()
    rows: list[list[object]] = [[vote[3], vote[2], loser(vote)] for vote in VOTES]
    file(
        tmp_path / "in", table(["judge", "candidate_chosen", "candidate_not_chosen"], rows), "a.csv"
    )
    file(tmp_path / "in", table(["juror", "m_1", "m_2", "choice"], chosen((1, 2))), "b.csv")
    result = watched(tmp_path)
    assert "it looks like two items and who won, but that is not certain" in result.stderr
    assert "look at it with bbq inspect" in result.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert (report["n_comparisons"], report["n_raters"]) == (120, 4)


def test_a_growing_file_without_a_header_is_not_read_in_parts(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    text = '[mapping]\nheader = false\nwinner = "column1"\nloser = "column2"\n'
    study = file(tmp_path, text, "study.toml")
    for n in (3, 5):
        file(tmp_path / "in", "oak,elm\n" * n, "pairs.csv")
        result = watched(tmp_path, "--mapping", study)
        assert result.exit_code == 0, result.stderr
        report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
        assert report["n_comparisons"] == n


@pytest.mark.parametrize("codes", [("A", "B"), ("left", "right"), (1, 2), ("Model A", "Model B")])
def test_inspect_proposes_what_fit_proposes(tmp_path: Path, codes: tuple[object, object]) -> None:
    path = file(tmp_path, table(["rater", "model_a", "model_b", "winner"], chosen(codes)))
    last = bbq("inspect", path).stdout.splitlines()[-1]
    assert last == proposals(bbq("fit", path))[0]
    assert pasted(last, tmp_path).returncode == 0


def test_inspect_proposes_no_command_that_is_refused(tmp_path: Path) -> None:
    tasks = [
        {
            "id": i, "data": {"prompt": f"say {i}", "answer1": f"a text {i}", "answer2": f"b {i}"},
            "annotations": [{
                "id": i, "completed_by": 1, "was_cancelled": False,
                "result": [{
                    "id": f"r{i}", "type": "pairwise", "from_name": "c", "to_name": "c",
                    "value": {"selected": ("left", "right")[i % 2]},
                }],
            }],
        }
        for i in range(1, 30)
    ]  # fmt: skip
    path = file(tmp_path, json.dumps(tasks), "tasks.json")
    refused = bbq("fit", path)
    assert refused.exit_code == 1
    shown = bbq("inspect", path).stdout
    assert "no keys clearly hold the names of the items" in " ".join(shown.split())
    assert "Try: " not in shown
    assert "bbq inspect" not in shown


def test_inspect_proposes_what_lets_the_file_in(tmp_path: Path) -> None:
    rows: list[list[object]] = [[f"x{i}", f"y{i}", "AB"[i % 2]] for i in range(8)]
    path = file(tmp_path, table(["item_a", "item_b", "winner"], rows))
    last = bbq("inspect", path).stdout.splitlines()[-1]
    assert last.endswith(" --force")
    assert pasted(last, tmp_path).returncode == 0
    gaps = [[*row[:3], "" if i % 12 == 0 else row[3]] for i, row in enumerate(chosen(("l", "r")))]
    named = [[*row[:3], {"l": row[1], "r": row[2], "": ""}[str(row[3])]] for row in gaps]
    path = file(tmp_path, table(["rater", "left", "right", "winner"], named))
    last = bbq("inspect", path).stdout.splitlines()[-1]
    assert last.endswith(" --max-skipped 9%")
    assert pasted(last, tmp_path).returncode == 0


def test_columns_that_are_named_mean_the_adapter_of_tables(tmp_path: Path) -> None:
    rows: list[list[object]] = [[loser(vote), vote[2], vote[3]] for vote in VOTES]
    path = file(tmp_path, table(["beaten", "beat_by", "voter"], rows))
    assert bbq("fit", path).exit_code == 1
    named = ("-O", "winner=beat_by", "-O", "loser=beaten")
    done = bbq("fit", path, *named, "--format", "json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["items"][0]["item"], report["n_raters"]) == ("oak", 4)
    assert bbq("prepare", path, *named, "-o", tmp_path / "set.bbq").exit_code == 0


def test_what_a_refusal_says_of_several_columns_of_choices_helps(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [i, *row[1:], row[3], 3 - int(str(row[3]))] for i, row in enumerate(chosen((1, 2)))
    ]
    path = file(tmp_path, table(["id", "model_1", "model_2", "Ann", "Bob", "Cem"], rows))
    refused = bbq("fit", path)
    assert "-O raters=Ann,Bob,Cem" in refused.stderr
    (first, *_) = proposals(bbq("fit", path, "-O", "raters=Ann,Bob,Cem", "--format", "json"))
    done = pasted(first, tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_raters"] == 3


def test_an_unknown_choice_says_how_to_tell_what_it_means(tmp_path: Path) -> None:
    rows = [[*row[:3], row[1] if row[3] == 1 else "="] for row in chosen((1, 2))]
    path = file(tmp_path, table(["rater", "m_1", "m_2", "clicked"], rows))
    columns = ("--adapter", "table", "-O", "left=m_1", "-O", "right=m_2", "-O", "winner=clicked")
    nothing = bbq("fit", path, *columns, "-O", "values==tie")
    assert "write -O values===tie" in nothing.stderr
    assert bbq("fit", path, *columns, "-O", "values===tie").exit_code == 0
    unknown = [[*row[:3], "neutral?" if row[3] == "=" else row[3]] for row in rows]
    path = file(tmp_path, table(["rater", "m_1", "m_2", "clicked"], unknown))
    other = bbq("fit", path, *columns, "-O", "values=x=tie")
    assert "-O values=neutral?=…" in other.stderr


def test_a_picture_has_no_rows_and_no_encoding(tmp_path: Path) -> None:
    path = tmp_path / "chart.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50))
    lines = bbq("inspect", path).stdout.splitlines()
    assert lines[1].strip() == "an image (PNG)"


@pytest.mark.parametrize("head", [["who", "m_1", "m_2", "choice"], ["judge", "winner", "loser"]])
def test_a_sheet_that_is_named_is_inspected_and_stays_in_the_command(
    tmp_path: Path, head: list[str]
) -> None:
    pytest.importorskip("python_calamine", reason="the extra 'xlsx' is not installed")
    rows = [row[: len(head)] for row in chosen((1, 2), third="skip")]
    path = tmp_path / "votes.xlsx"
    path.write_bytes(workbook({"Votes": [head, *rows], "About": [["made"], ["by hand"]]}))
    shown = bbq("inspect", path, "-O", "sheet=Votes")
    assert " comparisons, 5 items" in shown.stdout
    assert "read(" not in shown.stdout
    last = shown.stdout.splitlines()[-1]
    assert last.startswith(f"Try: bbq fit {path} -O sheet=Votes")
    done = pasted(last, tmp_path)
    assert done.returncode == 0, done.stderr


def test_an_encoding_that_is_named_stays_in_the_command(tmp_path: Path) -> None:
    rows = [[row[0], *(f"{name} дуб" for name in row[1:3]), row[3]] for row in chosen((1, 2))]
    path = tmp_path / "votes.csv"
    path.write_bytes(table(["who", "m_1", "m_2", "choice"], rows).encode("cp1251"))
    shown = bbq("inspect", path, "-O", "encoding=cp1251")
    assert "120 comparisons" in shown.stdout
    done = pasted(shown.stdout.splitlines()[-1], tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_command_that_was_refused_is_not_proposed_again(tmp_path: Path) -> None:
    rows = chosen(("A", "B"), third="C")
    path = file(tmp_path, table(["rater", "model_a", "model_b", "choice"], rows))
    (first, *_) = proposals(bbq("fit", path))
    said = first.replace(",C=tie", "").removeprefix("Try: bbq ").split()
    refused = bbq(*said)
    assert refused.exit_code == 1
    assert "choice is 'C'" in refused.stderr
    assert first.replace(",C=tie", "") not in proposals(refused)
