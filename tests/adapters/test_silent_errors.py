"""What must never be wrong in silence: each rule with a file that once gave a wrong board."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from bbq_plugin.cli import main
from bbq_plugin.data.files import read, records
from bbq_plugin.data.mappings import UnclearError
from bbq_plugin.data.records import Comparison
from bbq_plugin.errors import FormatError, UnrankableError
from tests.adapters.made_votes import chosen, table, votes

if TYPE_CHECKING:
    from pathlib import Path


def write(tmp_path: Path, text: str, name: str = "votes.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def lines(tmp_path: Path, rows: list[dict[str, Any]]) -> Path:
    return write(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "votes.jsonl")


def stderr(*words: object) -> str:
    result = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code in (1, 2)
    return result.stderr


# 1. Votes of unknown raters


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_equal_rows_of_unknown_raters_are_separate_answers(tmp_path: Path, suffix: str) -> None:
    rows = [
        {"question_id": i % 5, "model_a": "gpt", "model_b": "llama", "winner": "model_a", "who": i}
        for i in range(60)
    ]
    path = lines(tmp_path, rows)
    if suffix == "csv":
        path = write(tmp_path, table(list(rows[0]), [list(row.values()) for row in rows]))
    data = read(path)
    assert (data.n_comparisons, data.n_duplicates) == (60, 0)


def test_many_answers_dropped_as_the_same_again_stop_the_file(tmp_path: Path) -> None:
    rows = [
        {"id": i % 6, "model_a": "gpt", "model_b": "llama", "winner": "model_a"} for i in range(60)
    ]
    path = lines(tmp_path, rows)
    with pytest.raises(FormatError, match="54 of 60 rows are the same answer again"):
        read(path)
    assert read(path, max_skipped=1).n_duplicates == 54


def test_the_same_export_twice_is_no_such_file(tmp_path: Path) -> None:
    rows = [{"id": i, "model_a": "gpt", "model_b": "llama", "winner": "tie"} for i in range(60)]
    first = lines(tmp_path, rows)
    second = tmp_path / "again.jsonl"
    second.write_bytes(first.read_bytes())
    assert read([first, second]).n_duplicates == 60


# 2. Ties in rankings


def test_ties_in_rankings_are_ties(tmp_path: Path) -> None:
    path = write(tmp_path, "s1,s2,s3,r1,r2,r3\na,b,c,1,1,2\nb,c,a,1,2,2\n")
    options: dict[str, Any] = {"items": "s1,s2,s3", "ranks": "r1,r2,r3", "lower": "better"}
    data = read(path, "table", **options)
    assert (data.n_comparisons, data.n_ties, data.n_skipped) == (6, 2, 0)


# 3. Advice


def test_self_comparisons_are_not_waved_through(tmp_path: Path) -> None:
    rows = [["jpeg", "jpeg", 1]] * 10 + [["jpeg", "blur", 1]] * 30
    path = write(tmp_path, table(["type1", "type2", "choice"], rows))
    said = stderr(
        "fit", path, "--adapter", "table", "-O", "left=type1", "-O", "right=type2", "-O",
        "winner=choice", "-O", "values=1=left",
    )  # fmt: skip
    assert "names of the items may span two columns" in said
    assert "max-skipped" not in said


def test_named_gaps_may_be_allowed(tmp_path: Path) -> None:
    rows = [{"model_a": "a", "model_b": "b", "winner": "a" if i % 10 else None} for i in range(100)]
    said = stderr("fit", lines(tmp_path, rows))
    assert "10 of 100 rows" in said
    assert said.splitlines()[-1].endswith("--max-skipped 10%")


def test_most_rows_without_an_answer_mean_another_column(tmp_path: Path) -> None:
    rows = [{"model_a": "a", "model_b": "b", "winner": "a" if i % 2 else None} for i in range(100)]
    said = stderr("fit", lines(tmp_path, rows))
    assert "the column of choices may be another one" in said
    assert "max-skipped" not in said


def test_a_rank_of_0_stops_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "s1,s2,r1,r2\na,b,0,1\n")
    options: dict[str, Any] = {"left": "s1", "right": "s2", "ranks": "r1,r2", "lower": "better"}
    with pytest.raises(FormatError, match=r":2: r1 is 0, and ranks count from 1; .*higher=better"):
        read(path, "table", **options)


# 4. A third value


@pytest.mark.parametrize("third", ["C", "2", "?"])
def test_a_third_value_is_asked_about(tmp_path: Path, third: str) -> None:
    codes = ("A", "B") if third != "2" else (0, 1)
    text = table(["rater", "model_a", "model_b", "answer"], chosen(codes, third=third))
    with pytest.raises(UnclearError) as caught:
        read(write(tmp_path, text))
    meanings = {said for one in caught.value.readings for said in one.options["values"].values()}
    assert {"tie", "skip"} <= meanings


def test_a_clear_word_is_not_asked_about(tmp_path: Path) -> None:
    text = table(
        ["rater", "model_a", "model_b", "winner"], chosen(("model_a", "model_b"), third="tie")
    )
    assert read(write(tmp_path, text)).n_ties == 14


# 5. No board


def test_texts_as_names_are_refused_unless_forced(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [f"a text {i} " * 12, f"a text {i + 1000} " * 12] for i in range(30)
    ]
    path = write(tmp_path, table(["good", "bad"], rows))
    with pytest.raises(UnrankableError, match="the items are texts"):
        read(path, "table", winner="good", loser="bad")
    assert len(read(path, "table", winner="good", loser="bad", force=True).items) == 60


def test_pairs_that_never_meet_are_refused_unless_forced(tmp_path: Path) -> None:
    rows: list[list[object]] = [[f"a{i % 8}", f"b{i % 8}"] for i in range(40)]
    path = write(tmp_path, table(["winner", "loser"], rows))
    with pytest.raises(UnrankableError, match="no item is compared with more than one other"):
        read(path)
    said = stderr("fit", path)
    assert said.splitlines()[-1] == f"Try: bbq fit {path} --force"
    assert read(path, force=True).n_comparisons == 40


def test_a_forced_board_of_single_votes_is_not_proposed(tmp_path: Path) -> None:
    """Where nearly every item has one vote, the names are hardly the right ones."""
    rows: list[list[object]] = [[f"a{i}", f"b{i}"] for i in range(40)]
    path = write(tmp_path, table(["winner", "loser"], rows))
    said = stderr("fit", path)
    assert "--force" in said
    assert "Try:" not in said


# 6. An explicit mapping


def test_an_explicit_mapping_wins_over_names_of_items(tmp_path: Path) -> None:
    path = write(tmp_path, "x,y,won\n1,0,0\n0,1,1\n")
    data = read(path, "table", left="x", right="y", winner="won", values="1=left,0=right")
    assert [data.items[i] for i in data.winner.tolist()] == ["0", "0"]


# 7. Broken rows


def test_a_broken_row_is_a_counted_skip_and_an_unknown_outcome_an_error(tmp_path: Path) -> None:
    good = "".join(f"{a},{b},{'model_a' if w == a else 'model_b'}\n" for a, b, w, _ in votes(300))
    head = "model_a,model_b,winner\n"
    data = read(write(tmp_path, head + good + ",elm,model_a\noak,elm\n"))
    assert (data.n_comparisons, data.n_skipped) == (300, 2)
    path = write(tmp_path, head + good + "oak,elm,modelA\n")
    with pytest.raises(FormatError, match=r":302: winner is 'modelA'; expected model_a"):
        read(path, "arena")


def test_a_time_that_cannot_be_read_stops_nothing(tmp_path: Path) -> None:
    rows = [{"model_a": "a", "model_b": "b", "winner": "a", "tstamp": t} for t in (1.5, "noon")]
    data = read(lines(tmp_path, rows))
    assert data.n_comparisons == 2
    assert any("tstamp is no moment" in note for note in data.warnings)


# 8. Combined names


def test_combined_names_are_split_on_request_and_noted(tmp_path: Path) -> None:
    path = write(tmp_path, "w,l\na+b,c\na,b\nb,c\nc,a\n")
    found = read(path, "table", winner="w", loser="l")
    assert any("'a+b'" in note and "split=+" in note for note in found.warnings)
    known = write(
        tmp_path, "left,right,winner\na+b,c,left\na,b,right\nb,c,left\nc,a,left\n", "e.csv"
    )
    assert any("split=+" in note for note in read(known).warnings)
    split = read(path, "table", winner="w", loser="l", split="+")
    assert set(split.items) == {"a", "b", "c"}
    assert split.n_comparisons == 5


def test_the_parts_of_one_name_are_not_compared_with_each_other(tmp_path: Path) -> None:
    path = write(tmp_path, "w,l\na+b,b\na,c\n")
    found = records(path, "table", winner="w", loser="l", split="+")
    pairs = [(one.left, one.right) for one in found if isinstance(one, Comparison)]
    assert pairs == [("a", "c")]


# 9. Weights


def test_a_weight_column_of_a_wide_range_is_asked_about(tmp_path: Path) -> None:
    text = "winner,loser,weight,note\n" + "a,b,1,x\nb,c,5000,x\nc,a,2,x\n"
    path = write(tmp_path, text)
    with pytest.raises(UnclearError, match="goes from 1 to 5000, which is wide for weights"):
        read(path, "table")
    assert read(path, "table", weight="weight").weight.sum() == 5003
    assert read(path, "table", weight="none").weight.sum() == 3
