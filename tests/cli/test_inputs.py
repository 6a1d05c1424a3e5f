"""How files go in, whatever the command: patterns, tags, names, pseudonyms, bad input."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bbq_plugin.cli import main

VOTES = [
    ("ann", "gpt", "llama", "model_a"),
    ("ann", "llama", "palm", "model_a"),
    ("bob", "gpt", "palm", "model_a"),
    ("bob", "palm", "llama", "model_b"),
    ("cat", "gpt", "llama", "model_b"),
    ("cat", "palm", "gpt", "tie"),
]


def bbq(
    *arguments: object, stdin: bytes | None = None, env: dict[str, str] | None = None
) -> Result:
    return CliRunner(env=env).invoke(
        main, [str(a) for a in arguments], input=stdin, catch_exceptions=False
    )


def report(*arguments: object, **more: Any) -> dict[str, Any]:
    result = bbq(*arguments, "--format", "json", **more)
    assert result.exit_code == 0, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def write(path: Path, votes: list[tuple[str, str, str, str]]) -> Path:
    rows = [
        {"id": f"{path.stem}-{i}", "judge": judge, "model_a": a, "model_b": b, "winner": winner}
        for i, (judge, a, b, winner) in enumerate(votes)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    return write(tmp_path / "votes.jsonl", VOTES)


@pytest.fixture
def tagged(tmp_path: Path) -> Path:
    """Votes on two scenes, one of which is called like a path."""
    path = tmp_path / "tagged.jsonl"
    wins = [("ann", "a", "b"), ("bob", "b", "c"), ("bob", "a", "c")]
    rows = [
        {"judge": judge, "model_a": a, "model_b": b, "winner": "model_a", "scene": scene}
        for scene in ("beach", "../street")
        for judge, a, b in wins
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


# -- files


def test_a_pattern_that_the_shell_left_alone_is_expanded(tmp_path: Path) -> None:
    write(tmp_path / "votes.jsonl", VOTES)
    write(tmp_path / "more.jsonl", VOTES)
    found = report("fit", f"{tmp_path}/*.jsonl")
    assert found["n_comparisons"] == 12
    assert [Path(source["file"]).name for source in found["sources"]] == [
        "more.jsonl",
        "votes.jsonl",
    ]


def test_a_pattern_without_a_match_is_told(tmp_path: Path) -> None:
    result = bbq("fit", f"{tmp_path}/*.nothing")
    assert result.exit_code == 1
    assert "no file matches" in result.stderr


def test_a_file_whose_name_looks_like_a_pattern_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "votes[1].jsonl", VOTES)
    assert report("fit", path)["n_comparisons"] == 6


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input_is_read_like_a_file(votes: Path, packed: bool) -> None:
    text = votes.read_bytes()
    found = report("fit", "-", stdin=gzip.compress(text) if packed else text)
    assert found["items"] == report("fit", votes)["items"]


def test_the_same_answer_in_two_exports_counts_once(tmp_path: Path, votes: Path) -> None:
    again = tmp_path / "again.jsonl"
    again.write_bytes(votes.read_bytes())
    found = report("fit", votes, again)
    assert (found["n_comparisons"], found["n_duplicates"]) == (6, 6)


def test_a_folder_is_refused_with_what_to_type(tmp_path: Path) -> None:
    result = bbq("fit", tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "is a folder; name its files, such as" in result.stderr


def test_windows_files_are_read(tmp_path: Path, votes: Path) -> None:
    path = tmp_path / "windows.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + votes.read_bytes().replace(b"\n", b"\r\n"))
    assert report("fit", path)["items"] == report("fit", votes)["items"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"\xef\xbb\xbf\r\n", "empty"),
        (b"a,b\n1,2\n", "a table of 1 row and 2 columns (a, b)"),
        (b'{"model_a": "caf\x81", "model_b": "b", "winner": "model_a"}\n', "not UTF-8"),
        (gzip.compress(b'{"model_a": "a", "model_b": "b", "winner": "a"}\n' * 99)[:-9], "gzip"),
        (b'{"model_a": "a", "model_b": "b", "winner": "mod', "not valid JSON"),
        (b'{"model_a": "a", "model_b": "b", "winner": "modle_a"}\n', "did you mean"),
    ],
    ids=["empty", "blank", "columns", "bytes", "gzip", "cut", "typo"],
)
@pytest.mark.parametrize("command", ["fit", "raters", "pairs", "evaluate", "convert"])
def test_bad_files_are_told_in_one_line_with_exit_code_1(
    tmp_path: Path, content: bytes, says: str, command: str
) -> None:
    path = tmp_path / "bad"
    path.write_bytes(content)
    result = bbq(command, path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert says in result.stderr
    assert result.stderr.startswith(f"Error: {path}")
    assert not [
        line for line in result.stderr.splitlines()[1:] if not line.startswith(("Try", " "))
    ]


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    result = bbq("fit", tmp_path / "missing.jsonl")
    assert result.exit_code == 1
    assert "missing.jsonl: cannot be read (No such file or directory)" in result.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_forbidden_file_is_told(votes: Path) -> None:
    votes.chmod(0)
    result = bbq("fit", votes)
    assert result.exit_code == 1
    assert "Permission denied" in result.stderr


# -- tags


def test_each_value_of_a_tag_gets_its_leaderboard(tagged: Path) -> None:
    document = report("fit", tagged, "--by", "scene", "--by-alone", "--priors", "paper")
    assert (document["schema"], document["by"]) == ("bbq.reports/1", "scene")
    assert list(document["reports"]) == ["../street", "beach"]
    for one in document["reports"].values():
        assert one["schema"] == "bbq.report/1"
        assert one["n_comparisons"] == 3
    alone = ("--by", "scene", "--by-alone", "--priors", "paper")
    table = bbq("fit", tagged, *alone).stdout
    assert "scene: beach" in table
    assert "scene: ../street" in table
    sheet = bbq("fit", tagged, *alone, "--format", "csv").stdout
    lines = sheet.splitlines()
    assert lines[0].startswith("group,item,rank")
    assert len(lines) == 1 + 2 * 3


def test_pages_per_tag_stay_in_the_folder_whatever_the_value(tagged: Path, tmp_path: Path) -> None:
    pytest.importorskip("jinja2", reason="the page needs the extra 'charts'")
    folder = tmp_path / "out"
    folder.mkdir()
    alone = ("--by", "scene", "--by-alone", "--priors", "paper")
    result = bbq("fit", tagged, *alone, "-o", folder / "page.html")
    assert result.exit_code == 0, result.stderr
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 2
    assert names[1] == "page-beach.html"
    assert names[0].startswith("page-_street-")


def test_slices_stand_beside_each_other(tagged: Path, tmp_path: Path) -> None:
    document = report("fit", tagged, "--by", "scene", "--priors", "paper")
    assert (document["schema"], document["by"]) == ("bbq.reports/1", "scene")
    assert [one["slice"] for one in document["slices"]] == list(document["reports"])
    assert document["overall"]["n_comparisons"] == 6
    for one in document["reports"].values():
        assert (one["schema"], one["n_comparisons"]) == ("bbq.report/1", 3)
    assert document["target"] is None
    shown = bbq("fit", tagged, "--target", "scene=beach:1,../street:3", "--priors", "paper").stdout
    assert "Ratings by scene" in shown
    assert "../street 75%" in shown
    pytest.importorskip("jinja2", reason="the page needs the extra 'charts'")
    page = tmp_path / "page.html"
    result = bbq("fit", tagged, "--by", "scene", "--priors", "paper", "-o", page)
    assert result.exit_code == 0, result.stderr
    assert 'id="slices"' in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--target", "scene"), "expected a tag and shares"),
        (("--target", "scene=beach:x"), "expected a tag and shares"),
        (("--target", "scene=beach:1,beach:2"), "expected a tag and shares"),
        (("--target", "scene=beech:1"), "did you mean 'beach'"),
        (("--target", "scene=beach:1", "--by", "other"), "give no other --by"),
        (("--target", "scene=beach:1", "--target", "scene=beach:1"), "given 2 times"),
        (("--target", "scene=beach:1", "--by-alone"), "leave --by-alone out"),
        (("--by", "scene", "--model", "bbq-signed"), "use --by-alone"),
        (("--by-alone",), "name a tag with --by"),
    ],
)
def test_a_mix_that_is_none_is_refused(tagged: Path, options: tuple[str, ...], said: str) -> None:
    result = bbq("fit", tagged, "--priors", "paper", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in " ".join(result.stderr.split())


def test_one_slice_is_said_to_be_nothing_to_compare(tagged: Path) -> None:
    found = bbq("fit", tagged, "--by", "scene", "--where", "scene=beach", "--priors", "paper")
    assert "Every answer with a value has scene=beach" in found.stdout
    assert "differ between them" not in found.stdout


def test_a_column_of_numbers_is_noted_as_a_covariate(tmp_path: Path) -> None:
    rows = [f"r{n % 3},a,b,a,{n / 7:.3f}" for n in range(30)]
    file = tmp_path / "votes.csv"
    file.write_text("\n".join(["rater,left,right,winner,length_diff", *rows]), encoding="utf-8")
    found = bbq("fit", file, "--by", "length_diff", "--priors", "paper")
    assert found.exit_code == 0, found.stderr
    assert "--covariate length_diff" in found.stderr


def test_only_what_has_the_tag_is_fitted(tagged: Path) -> None:
    found = report("fit", tagged, "--where", "scene=beach", "--priors", "paper")
    assert (found["n_comparisons"], found["n_filtered"]) == (3, 3)


def test_an_unknown_tag_is_refused_with_the_near_miss(tagged: Path) -> None:
    result = bbq("fit", tagged, "--where", "scen=beach")
    assert result.exit_code == 2
    assert "did you mean 'scene'" in result.stderr
    assert bbq("fit", tagged, "--by", "langauge").exit_code == 2


def test_a_tag_is_given_once(votes: Path) -> None:
    result = bbq("fit", votes, "--where", "a=1", "--where", "a=2")
    assert result.exit_code == 2
    assert "given twice" in result.stderr


# -- names


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("names.csv", "old,new\nllama,GPT\ngpt,GPT\n"),
        ("names.csv", "\ufeffllama,GPT\r\n\r\ngpt,GPT\r\n"),
        ("names.toml", 'llama = "GPT"\ngpt = "GPT"\n'),
        ("names.json", '{"llama": "GPT", "gpt": "GPT"}'),
    ],
)
def test_renaming_merges_items(tmp_path: Path, votes: Path, name: str, text: str) -> None:
    names = tmp_path / name
    names.write_text(text, encoding="utf-8")
    found = report("fit", votes, "--rename", names)
    assert sorted(row["item"] for row in found["items"]) == ["GPT", "palm"]


def test_a_dropped_rater_is_gone(votes: Path) -> None:
    found = report("fit", votes, "--drop-rater", "ann", "--drop-rater", "bob")
    assert [row["rater"] for row in found["raters"]] == ["cat"]
    assert found["n_dropped"] == 4


def test_an_unknown_rater_is_refused_with_the_near_miss(votes: Path) -> None:
    result = bbq("fit", votes, "--drop-rater", "anne")
    assert result.exit_code == 2
    assert "did you mean 'ann'" in result.stderr


# -- pseudonyms

KEY = {"BBQ_PSEUDONYM_KEY": "correct horse battery staple"}


def rater_names(document: dict[str, Any]) -> set[str]:
    return {row["rater"] for row in document["raters"]}


def test_pseudonyms_are_stable_under_a_key_and_differ_under_another(
    votes: Path, tmp_path: Path
) -> None:
    first = report("fit", votes, "--pseudonymise", env=KEY)
    again = report("raters", votes, "--pseudonymise", env=KEY)
    assert rater_names(first) == rater_names(again)
    assert all(name.startswith("rater-") for name in rater_names(first))
    key_file = tmp_path / "key"
    key_file.write_text(KEY["BBQ_PSEUDONYM_KEY"] + "\n")
    assert rater_names(report("fit", votes, "--pseudonym-key-file", key_file)) == rater_names(first)
    other = report("fit", votes, "--pseudonymise", env={"BBQ_PSEUDONYM_KEY": "x" * 20})
    assert rater_names(other).isdisjoint(rater_names(first))


def test_no_name_of_a_rater_leaves_the_program(tmp_path: Path) -> None:
    named = [(f"{judge} Q. Public", a, b, winner) for judge, a, b, winner in VOTES]
    votes = write(tmp_path / "votes.jsonl", named)
    for arguments in (
        ["fit", votes],
        ["fit", votes, "--format", "json", "--drop-rater", "ann Q. Public"],
        ["fit", votes, "--format", "json", "--drop-rater=ann Q. Public"],
        ["raters", votes],
        ["raters", votes, "--format", "csv"],
        ["convert", votes],
        ["convert", votes, "--layout", "crowd-kit", "--format", "jsonl"],
    ):
        result = bbq(*arguments, "--pseudonymise", env=KEY)
        assert result.exit_code == 0, result.stderr
        assert "Public" not in result.output, arguments


def test_without_a_key_the_names_are_not_stable_and_that_is_said(votes: Path) -> None:
    env = {"BBQ_PSEUDONYM_KEY": ""}
    first = bbq("raters", votes, "--pseudonymise", "--format", "json", env=env)
    again = bbq("raters", votes, "--pseudonymise", "--format", "json", env=env)
    assert "the pseudonyms will be different in the next run" in first.stderr
    assert rater_names(json.loads(first.stdout)).isdisjoint(rater_names(json.loads(again.stdout)))


def test_a_weak_or_empty_key_is_told(votes: Path, tmp_path: Path) -> None:
    weak = bbq("raters", votes, "--pseudonymise", env={"BBQ_PSEUDONYM_KEY": "abc"})
    assert "has only 3 bytes" in weak.stderr
    empty = tmp_path / "key"
    empty.write_text("\n")
    result = bbq("raters", votes, "--pseudonym-key-file", empty)
    assert (result.exit_code, "is empty" in result.stderr) == (1, True)


# -- what a report says about itself


def test_a_report_says_how_to_get_it_again(votes: Path) -> None:
    found = report("fit", votes, "--seed", "7", "--priors", "paper")
    assert found["command"] == f"bbq fit {votes} --seed 7 --priors paper --format json"
    assert found["seed"] == 7
    assert len(found["digest"]) >= 32
    assert found["version"]
    assert found["sources"][0]["adapter"] == "arena"
    table = bbq("fit", votes, "--priors", "paper").stdout
    assert found["digest"][:16] in table
    assert f"To reproduce: bbq fit {votes} --priors paper" in table


def test_the_digest_does_not_depend_on_the_order_of_lines(tmp_path: Path, votes: Path) -> None:
    turned = tmp_path / "turned.jsonl"
    turned.write_text("".join(reversed(votes.read_text().splitlines(keepends=True))))
    assert report("fit", turned)["digest"] == report("fit", votes)["digest"]


@pytest.mark.parametrize(
    "how", [["-O", "salt=abc"], ["--option", "salt=abc"], ["--option=salt=abc"]]
)
def test_secrets_are_not_reported(votes: Path, how: list[str]) -> None:
    result = bbq("fit", votes, "--format", "json", *how)
    if result.exit_code:
        pytest.skip("the adapter has no option with a secret")
    command = json.loads(result.stdout)["command"]
    assert "abc" not in command
    assert "salt=***" in command


def test_the_same_seed_gives_the_same_report(votes: Path) -> None:
    arguments = ["fit", votes, "--intervals", "posterior", "--priors", "paper"]
    assert report(*arguments, "--seed", "1")["items"] == report(*arguments, "--seed", "1")["items"]
    assert report(*arguments, "--seed", "1")["items"] != report(*arguments, "--seed", "2")["items"]


def test_an_option_is_said_once(votes: Path) -> None:
    result = bbq("fit", votes, "--both-bad", "drop", "-O", "both-bad=tie")
    assert result.exit_code == 2
    assert "given twice" in result.stderr


def test_strict_stops_at_the_first_row_left_out(tmp_path: Path) -> None:
    itself = ("ann", "gpt", "gpt", "model_a")
    path = write(tmp_path / "votes.jsonl", [*VOTES, itself, itself])
    assert report("fit", path, "--max-skipped", "50%")["n_skipped"] == 2
    strict = bbq("fit", path, "--strict")
    assert strict.exit_code == 1
    assert f"{path}:7" in strict.stderr
    for share in ("1%", "0.01"):
        guarded = bbq("fit", path, "--max-skipped", share)
        assert guarded.exit_code == 1
        assert "2 of 8 rows (25.00%) were skipped" in guarded.stderr
