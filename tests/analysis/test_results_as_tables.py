"""Results as Arrow tables, data frames and tables of a notebook."""

from __future__ import annotations

import sys
from dataclasses import asdict
from html.parser import HTMLParser
from math import isnan
from typing import Any

import pytest

import bbq_plugin as bbq
from bbq_plugin.analysis import RaterReport
from bbq_plugin.errors import UnsupportedError, UsageError

pa = pytest.importorskip("pyarrow", reason="Arrow tables need the extra 'frames'")

ODD = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def fit() -> bbq.Fit:
    rows = [
        (ODD, "=1+1", "<b>x", 1.0), ("bob", "<b>x", "=1+1", 1.0), ("bob", "z\x1b", "=1+1", 0.5),
        ("cat", "=1+1", "z\x1b", 1.0),
    ]  # fmt: skip
    return bbq.fit(bbq.Comparisons.from_records(rows * 6))


@pytest.mark.parametrize(
    "make", [bbq.leaderboard, bbq.rater_report, lambda fit: bbq.next_pairs(fit, 3)]
)
def test_a_table_has_every_field_of_every_row(fit: bbq.Fit, make: Any) -> None:
    rows = make(fit)
    table = pa.table(rows)
    assert table.num_rows == len(rows)
    for found, row in zip(table.to_pylist(), rows, strict=True):
        wanted = {
            name: None if isinstance(value, float) and isnan(value) else value
            for name, value in asdict(row).items()
        }
        wanted |= {name: list(v) for name, v in wanted.items() if isinstance(v, tuple)}
        assert found == wanted


def test_a_report_without_raters_is_a_table_with_the_same_columns(fit: bbq.Fit) -> None:
    empty = RaterReport([]).to_arrow()
    assert empty.num_rows == 0
    assert empty.schema == bbq.rater_report(fit).to_arrow().schema


def test_it_becomes_a_frame_of_either_library(fit: bbq.Fit) -> None:
    board = bbq.leaderboard(fit)
    pandas = pytest.importorskip("pandas")
    assert isinstance(board.to_frame(), pandas.DataFrame)
    assert board.to_frame()["item"].tolist() == [row.item for row in board]
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(board)["item"].to_list() == [row.item for row in board]
    raters = bbq.rater_report(fit).to_frame("polars")
    assert raters["verdict"].to_list() == [row.verdict for row in bbq.rater_report(fit)]
    assert raters["left_rate"].null_count() == len(raters)


def test_duckdb_queries_it(fit: bbq.Fit) -> None:
    duckdb = pytest.importorskip("duckdb")
    board = bbq.leaderboard(fit)
    found = duckdb.connect().from_arrow(board.to_arrow()).filter("rank = 1").fetchall()
    assert found[0][0] == board[0].item


def test_what_is_missing_is_said(fit: bbq.Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    board = bbq.leaderboard(fit)
    with pytest.raises(UsageError, match="backend='exel'"):
        board.to_frame("exel")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UnsupportedError, match=r"bbq-plugin\[frames\]"):
        board.to_arrow()


class Page(HTMLParser):
    """The elements of a piece of HTML, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        self.elements.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_names_in_a_notebook_are_text_and_nothing_else(fit: bbq.Fit) -> None:
    shown: list[Any] = [fit.data, fit, bbq.leaderboard(fit), bbq.rater_report(fit)]
    pages = [Page(one._repr_html_()) for one in shown]
    for page in pages:
        assert set(page.elements) <= {
            "table", "caption", "thead", "tbody", "tr", "th", "td", "p", "ul", "li",
        }  # fmt: skip
        assert "\x1b" not in page.text
    assert "24" in pages[0].text
    for page in pages[1:3]:
        assert "<b>x" in page.text
        assert "z\\x1b" in page.text
    assert ODD in pages[3].text


def test_a_notebook_shows_thirty_rows_and_says_how_many_more() -> None:
    rows = [(f"r{i}", f"item {i}", f"item {i + 1}", 1.0) for i in range(40)]
    fit = bbq.fit(bbq.Comparisons.from_records(rows), model="bayes-bt", priors="paper")
    shown: list[tuple[Any, int]] = [
        (fit, 11),
        (bbq.leaderboard(fit), 11),
        (bbq.rater_report(fit), 10),
    ]
    for one, more in shown:
        page = Page(one._repr_html_())
        assert page.elements.count("tr") == 1 + 30
        assert f"{more} more rows" in page.text


def test_a_notebook_shows_what_was_skipped() -> None:
    data = bbq.Comparisons.from_comparisons(
        [bbq.Comparison("1", None, "a", "b", "left")], [bbq.Skipped("f:2", "<i>why</i>")]
    )
    page = Page(data._repr_html_())
    assert "skipped: <i>why</i>" in page.text
    assert "not known" in page.text
