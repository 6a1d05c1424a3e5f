from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from io import StringIO
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

import bbq_plugin as bbq
from bbq_plugin.analysis import Analysis
from bbq_plugin.cli.simulate import screen_svg
from bbq_plugin.data.records import Action
from bbq_plugin.live.demo import check_against_truth
from bbq_plugin.report.documents import (
    Origin,
    grouped_csv,
    raters_dict,
    remove_leftovers,
    report_dict,
    report_json,
    rows_csv,
    write_atomically,
)
from bbq_plugin.report.pseudonyms import pseudonym, pseudonymised
from bbq_plugin.report.summary import summary_lines
from bbq_plugin.report.terminal_tables import (
    leaderboard_table,
    plan_table,
    raters_table,
    reason_lines,
)
from bbq_plugin.simulation import Study
from bbq_plugin.text import cell, chance, odds, plain, signed
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table


@pytest.fixture(scope="module")
def study() -> Study:
    return bbq.simulate(items=4, raters=10, comparisons=1000, guessers=0.2, spread=1.0, seed=1)


@pytest.fixture(scope="module")
def fit(study: Study) -> bbq.Fit:
    return bbq.fit(study.arrays())


def text_of(table: Table, width: int = 200) -> str:
    console = Console(file=StringIO(), width=width, record=True)
    console.print(table)
    return console.export_text()


@given(st.text())
def test_plain_text_holds_nothing_that_acts_on_a_terminal(text: str) -> None:
    assert plain(text).isprintable()


def test_plain_text_keeps_what_people_write() -> None:
    assert plain("Käse 日本 [red]") == "Käse 日本 [red]"
    assert plain("\x1b[31mred\u202e") == "\\x1b[31mred\\u202e"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_cell_is_never_a_formula(start: str) -> None:
    assert cell(start + "cmd()") == "'" + start + "cmd()"


def test_numbers_and_harmless_cells_stay_as_they_are() -> None:
    assert cell(-1.5) == -1.5
    assert cell("gpt-4") == "gpt-4"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    write_atomically(target, "old\n")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(target, "new \ud800")
    assert target.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [target]


_WRITER = """
import sys
from bbq_plugin.report.documents import remove_leftovers, write_atomically
for i in range(10**9):
    write_atomically(sys.argv[1], str(i % 10) * 3_000_000)
    print(flush=True)
"""


def test_a_file_is_whole_whenever_its_writer_is_killed(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    half_written: list[bool] = []

    def kill_one() -> None:
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(target)], stdout=subprocess.PIPE
        )
        assert writer.stdout is not None
        writer.stdout.readline()  # from here on it replaces one whole file by another
        time.sleep(0.003 * len(half_written))  # so that the kills fall on different instants
        writer.kill()
        writer.wait()
        writer.stdout.close()
        text = target.read_text()
        assert len(text) == 3_000_000
        assert len(set(text)) == 1
        half_written.append(len(list(tmp_path.iterdir())) > 1)
        remove_leftovers(tmp_path, frozenset({"report.json"}))
        assert list(tmp_path.iterdir()) == [target]

    def enough() -> bool:
        kill_one()
        return len(half_written) >= 12 and any(half_written)

    wait_until(enough, "a kill that falls on a half-written file")


def test_what_a_living_process_writes_and_what_is_not_ours_is_not_removed(tmp_path: Path) -> None:
    kept = [".report.json.1.part", ".other.json.999999999.part", "report.json.5.part"]
    for name in [*kept, ".report.json.999999999.part", f".report.json.{os.getpid()}.part"]:
        (tmp_path / name).touch()
    remove_leftovers(tmp_path, frozenset({"report.json"}))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)


def test_a_picture_of_the_screen_fetches_nothing() -> None:
    console = Console(record=True, file=StringIO(), width=40)
    console.print(Text("<script>alert(1)</script>"))
    svg = screen_svg(console, "demo")
    assert "alert" in svg
    assert "<script>" not in svg
    assert "@font-face" not in svg
    assert "url(http" not in svg


def test_the_report_is_json_whatever_is_unknown(fit: bbq.Fit) -> None:
    report = report_dict(Analysis(fit))
    again = json.loads(report_json(report))
    assert again["schema"] == "bbq.report/1"
    # Nobody measured the time of a simulated answer.
    assert [rater["median_time_s"] for rater in again["raters"]] == [None] * 10
    assert again["items"][0]["rating"] == report["items"][0]["rating"]
    assert isinstance(again["raters"][0]["reasons"], list)


def test_the_line_of_the_model_says_what_was_fitted_without_raters(fit: bbq.Fit) -> None:
    answers = [bbq.Comparison(f"{n}", None, "elm", "oak", "left") for n in range(3)]
    some = bbq.fit(bbq.Comparisons.from_comparisons(answers))
    line = summary_lines(some.data, some)[1]
    assert line.startswith("model bbq, without raters: as bayes-bt; priors: ")
    assert summary_lines(fit.data, fit)[1].startswith("model bbq; priors: ")


def test_one_minus_sign_everywhere() -> None:
    assert [signed(value) for value in (-78.2, 0.0, 85.0, -1234.0)] == ["−78", "0", "+85", "−1,234"]


def test_the_items_that_are_called_bad_most_often_are_named(fit: bbq.Fit) -> None:
    answers = [
        bbq.Comparison(f"{name}{i}", None, name, "elm", "both_bad" if i < n else "left")
        for n, name in enumerate(("o[b]ak", "fir", "ash", "yew"))
        for i in range(4)
    ]
    some = bbq.fit(bbq.Comparisons.from_comparisons(answers))
    report = json.loads(report_json(report_dict(Analysis(some))))
    assert report["both_bad_rate"] == {
        "o[b]ak": 0.0, "elm": 0.375, "fir": 0.25, "ash": 0.5, "yew": 0.75
    }  # fmt: skip
    assert (
        "38% of the comparisons were answered both bad; highest: yew 75%, ash 50%, elm 38%"
        in summary_lines(some.data, some)
    )
    assert "both_bad_rate" not in report_dict(Analysis(fit))
    assert not any("both bad" in line for line in summary_lines(fit.data, fit))


def test_the_csv_reads_back_as_the_leaderboard(fit: bbq.Fit) -> None:
    board = bbq.leaderboard(fit)
    rows = list(csv.DictReader(StringIO(rows_csv(board))))
    assert [row["item"] for row in rows] == [row.item for row in board]
    assert [float(row["rating"]) for row in rows] == [row.rating for row in board]


def test_columns_that_nobody_filled_are_left_out(fit: bbq.Fit) -> None:
    shown = text_of(raters_table(bbq.rater_report(fit)))
    assert "left" in shown
    assert "seconds" not in shown


def test_a_long_list_of_raters_is_cut_and_says_so(fit: bbq.Fit) -> None:
    raters = bbq.rater_report(fit)
    shown = text_of(raters_table(raters, limit=3))
    worst = sorted(raters, key=lambda row: row.quality)[:3]
    assert all(row.rater in shown for row in worst)
    assert "and 7 more; --all shows them" in shown


def test_the_summary_says_what_was_fitted_with_which_priors(fit: bbq.Fit) -> None:
    lines = summary_lines(fit.data, fit)
    assert lines[0] == "1,000 comparisons of 4 items, 10 raters"
    assert str(fit.priors) in lines[1]


def test_the_summary_counts_one_as_one() -> None:
    some = bbq.fit(
        bbq.Comparisons.from_comparisons([bbq.Comparison("1", "ann", "oak", "elm", "left")])
    )
    assert summary_lines(some.data, some)[0] == "1 comparison of 2 items, 1 rater"


def test_no_estimated_chance_is_shown_as_certain() -> None:
    answers = [bbq.Comparison(f"{i}", None, "oak", "elm", "left") for i in range(2000)]
    board = bbq.leaderboard(bbq.fit(bbq.Comparisons.from_comparisons(answers)))
    assert [row.p_best for row in board] == [1.0, 0.0]
    shown = text_of(leaderboard_table(board))
    assert ">99%" in shown
    assert "<1%" in shown
    assert "100%" not in shown


@given(st.floats(0, 1))
def test_no_probability_is_written_as_0_or_1(p: float) -> None:
    assert chance(p) not in {"0%", "100%"}
    assert odds(p) not in {"0.000", "1.000"}


@pytest.mark.parametrize("p", [0.0005, 0.005, 0.995, 0.9995])
def test_a_probability_on_the_border_of_rounding_is_not_certain(p: float) -> None:
    assert chance(p) in {"<1%", ">99%"}
    assert odds(p) not in {"0.000", "1.000"}


def test_the_truth_stands_beside_each_rating(study: Study, fit: bbq.Fit) -> None:
    board, raters = bbq.leaderboard(fit), bbq.rater_report(fit)
    check = check_against_truth(board, raters, study.truth)
    best = study.truth.items[int(study.truth.theta.argmax())]
    assert max(check.rating, key=lambda item: check.rating[item]) == best
    assert sum(check.rating.values()) / 4 == pytest.approx(1000)
    assert check.n_bad == 2
    assert check.n_honest == 8
    assert sum(map(len, check.bad.values())) == 2
    assert f"{check.held} of 4 intervals hold the true rating." in check.lines()
    assert f"{check.rating[best]:,.0f}" in text_of(leaderboard_table(board, check.rating))


def test_a_narrow_table_keeps_names_ratings_and_verdicts(fit: bbq.Fit) -> None:
    board, raters = bbq.leaderboard(fit), bbq.rater_report(fit)
    shown = text_of(leaderboard_table(board, width=40))
    assert all(row.item in shown for row in board)
    assert "wins" not in shown
    narrow = text_of(raters_table(raters, width=40))
    assert all(row.rater in narrow for row in raters)
    assert "reasons" not in narrow
    why = [row for row in raters if row.reasons]
    assert len(reason_lines(raters, width=40)) == len(why) >= 1
    assert reason_lines(raters, width=200) == []


def test_numbers_of_millions_of_votes_do_not_push_the_names_out() -> None:
    rng = np.random.default_rng(0)
    winner = rng.integers(0, 30, 3_000)
    names, loser = [f"model-{i}" for i in range(30)], (winner + rng.integers(1, 30, 3_000)) % 30
    data = bbq.Comparisons.from_arrays(
        rng.integers(0, 50, 3_000), winner, loser, np.full(3_000, 700.0), items=names
    )
    board = bbq.leaderboard(bbq.fit(data, priors="paper", camps=1))
    shown = text_of(leaderboard_table(board, width=80), width=80)
    assert "wins" not in shown
    assert all(f" {row.item} " in shown for row in board)
    assert f" {board[0].rating:,.0f} " in shown
    assert "wins" in text_of(leaderboard_table(board, width=110), width=110)


def test_the_exclusion_report_counts_its_verdicts(fit: bbq.Fit) -> None:
    document = raters_dict(Analysis(fit), Origin("bbq raters x", 3))
    assert sum(document["verdicts"].values()) == 10
    assert (document["command"], document["seed"]) == ("bbq raters x", 3)
    assert json.loads(report_json(document))["digest"] == fit.data.digest


def test_several_leaderboards_stand_in_one_sheet(fit: bbq.Fit) -> None:
    found = Analysis(fit)
    rows = list(csv.DictReader(StringIO(grouped_csv({"=de": found, "en": found}))))
    assert [row["group"] for row in rows] == ["'=de"] * 4 + ["en"] * 4


def test_what_is_not_known_is_an_empty_cell(fit: bbq.Fit) -> None:
    rows = list(csv.DictReader(StringIO(rows_csv(bbq.rater_report(fit)))))
    assert {row["median_time_s"] for row in rows} == {""}


def test_a_pseudonym_depends_on_the_name_and_on_every_bit_of_a_key() -> None:
    assert pseudonym("ann", b"k" * 99) == pseudonym("ann", b"k" * 99)
    assert pseudonym("ann", b"k" * 99) != pseudonym("ann", b"k" * 98 + b"l")
    assert pseudonym("ann", b"key") != pseudonym("Ann", b"key")


def test_pseudonyms_change_names_and_nothing_else(fit: bbq.Fit) -> None:
    hidden = pseudonymised(fit.data, b"key")
    assert not set(hidden.raters) & set(fit.raters)
    again = bbq.fit(hidden)
    assert again.theta.tolist() == fit.theta.tolist()
    assert again.quality.tolist() == fit.quality.tolist()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file") as caught:
        write_atomically(tmp_path / "no" / "report.json", "x")
    assert caught.value.filename == str(tmp_path / "no" / "report.json")


def test_a_plan_shows_what_a_reader_can_use_and_no_checksum() -> None:
    before = {"file": "/data/tasks.jsonl", "sha256": "ab" * 32, "places": [3, 1]}
    action = Action("order", "tasks.jsonl", "the 2 most informative tasks come first", before, {})
    file = StringIO()
    Console(file=file, width=200).print(plan_table([action], "Project 1"))
    shown = file.getvalue()
    assert "the 2 most informative tasks come first" in shown
    assert "abab" not in shown
    assert "sha256" not in shown
