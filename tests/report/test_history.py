from __future__ import annotations

import json
import re
from dataclasses import astuple, replace
from itertools import pairwise
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bbq_plugin as bbq
from bbq_plugin.data.records import HistoryItem, HistoryPoint
from bbq_plugin.report.charts import FILE, PAGE, _apart, history_spec, to_svg
from bbq_plugin.report.documents import report_dict, report_json
from bbq_plugin.report.history import history_rows, most_points, thinned
from tests.report.studies import history_of

if TYPE_CHECKING:
    from bbq_plugin.analysis.leaderboard import Scale
    from tests.report.studies import Result

SVG = "{http://www.w3.org/2000/svg}"


def at(*counts: int) -> list[HistoryPoint]:
    return [
        HistoryPoint(1.7e9 + i, n, "full", {"a": HistoryItem(1000.0, 990.0, 1010.0, 1)})
        for i, n in enumerate(counts)
    ]


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=300), st.integers(3, 60))
def test_a_long_history_is_thinned_in_its_order_and_keeps_its_ends(
    counts: list[int], most: int
) -> None:
    whole = at(*counts)
    kept = thinned(whole, "elo", most)
    assert len(kept) <= most
    assert kept == sorted(kept, key=lambda moment: moment.at)
    assert (kept[0], kept[-1]) == (whole[0], whole[-1])
    if len(whole) <= most:
        assert kept == whole


def test_the_points_that_are_kept_are_spread_over_the_comparisons() -> None:
    # A thousand refreshes within the first thousand votes, and ten within the next nine thousand.
    kept = thinned(at(*range(1000), *range(1000, 10001, 1000)), "elo", 20)
    counts = [moment.n_comparisons for moment in kept]
    assert {1000 * i for i in range(2, 11)} <= set(counts)
    assert len(counts) <= 20


@pytest.mark.parametrize("scale", ["elo", "paper", "theta"])
def test_what_is_kept_means_the_same_on_every_scale(scale: Scale, demo: Result) -> None:
    board = bbq.leaderboard(demo.fit, scale=scale)
    kept = history_rows(board)
    elo = history_rows(demo.board)
    for (item, *numbers), (other, *others) in zip(kept, elo, strict=True):
        assert item == other
        assert numbers == pytest.approx(others)
    point = HistoryPoint(
        0.0, 1, "full", {item: HistoryItem(r, lo, hi, rank) for item, r, lo, hi, rank in kept}
    )
    (shown,) = thinned([point], scale, 5)
    for row in board:
        assert astuple(shown.items[row.item]) == pytest.approx(
            (row.rating, row.rating_lower, row.rating_upper, row.rank)
        )


def test_an_interval_that_was_not_computed_is_null_and_leaves_the_line(demo: Result) -> None:
    history = [
        HistoryPoint(1.7e9 + i, 100 * i, "full", {
            row.item: HistoryItem(row.rating, None, None, row.rank) for row in demo.board
        })
        for i in (1, 2)
    ]  # fmt: skip
    document = json.loads(report_json(report_dict(demo, history=history)))
    assert document["history"][0]["items"][0]["rating_lower"] is None
    rows = history_spec(demo.board, thinned(history, "elo", 9), FILE, narrow=False)["data"]
    assert all(row["lower"] == row["rating"] == row["upper"] for row in rows["values"])
    assert 'id="history"' in demo.html(history=history)


def test_nothing_is_drawn_beyond_the_axes(demo: Result) -> None:
    history = history_of(demo.board)
    for narrow, height in ((False, 380), (True, 300)):
        spec = history_spec(demo.board, history, FILE, narrow=narrow)
        (low, high) = spec["layer"][0]["encoding"]["y"]["scale"]["domain"]
        assert spec["height"] == height
        assert min(row["lower"] for row in spec["data"]["values"]) >= low
        assert max(row["upper"] for row in spec["data"]["values"]) <= high


def test_the_document_has_the_history_where_there_is_one(demo: Result) -> None:
    without = report_dict(demo)
    assert "history" not in without
    history = history_of(demo.board, 300)
    document = json.loads(report_json(report_dict(demo, history=history)))
    assert document["schema"] == without["schema"] == "bbq.report/1"
    assert 100 < len(document["history"]) <= 200
    last = document["history"][-1]
    assert last["at"] == "2023-11-17T00:13:20+00:00"
    assert last["n_comparisons"] == 75000
    assert [row["item"] for row in last["items"]] == [row.item for row in demo.board]
    assert list(last["items"][0]) == ["item", "rank", "rating", "rating_lower", "rating_upper"]


def test_many_items_leave_room_for_fewer_points() -> None:
    assert [most_points(n) for n in (1, 50, 100, 400, 1000, 10**6)] == [200, 200, 200, 50, 20, 20]


def test_the_page_draws_the_history_and_has_it_as_a_table(demo: Result, demo_html: str) -> None:
    assert 'id="history"' in demo_html
    table = demo_html.partition('<table class="history">')[2].partition("</table>")[0]
    assert table.count("<tr>") == 1 + len(demo.board)
    assert f"{demo.board[0].rating:,.0f} (#1)" in table
    assert "3,000" in table


@pytest.mark.parametrize("points", [[], at(5), at(5, 5, 5)])
def test_without_two_points_to_join_there_is_no_chart(
    points: list[HistoryPoint], demo: Result
) -> None:
    known = [replace(p, items=history_of(demo.board)[0].items) for p in points]
    assert 'id="history"' not in demo.html(history=known)


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ET.fromstring(svg).iter(f"{SVG}text")]  # noqa: S314 (ours)


def test_ten_lines_are_drawn_each_with_its_name_at_its_end(hostile: Result) -> None:
    spec = history_spec(hostile.board, history_of(hostile.board), FILE, narrow=False)
    shown = texts(to_svg(spec))
    for row in hostile.board:
        assert any(text.startswith(f"{row.rank}  ") for text in shown) == (row.rank <= 10)
    assert len({row["line"] for row in spec["data"]["values"]}) == 10


def test_hostile_names_are_text_in_the_chart_and_colours_are_variables(hostile: Result) -> None:
    svg = to_svg(history_spec(hostile.board, history_of(hostile.board), PAGE, narrow=True))
    tags = {node.tag for node in ET.fromstring(svg).iter()}  # noqa: S314 (ours)
    assert tags <= {f"{SVG}{tag}" for tag in ("svg", "g", "path", "line", "rect", "text")}
    assert "\u202e" not in svg
    colours = set(re.findall(r'(?:fill|stroke)="([^"]+)"', svg))
    assert all(c in ("none", "transparent") or c.startswith("var(--") for c in colours), colours


def test_an_item_that_came_later_begins_later_and_one_that_left_is_not_drawn(demo: Result) -> None:
    history = history_of(demo.board, 4)
    late = demo.board[0].item
    for moment in history[:2]:
        items = dict(moment.items)
        del items[late]
        history[history.index(moment)] = replace(
            moment, items={**items, "gone": HistoryItem(2000.0, 1990.0, 2010.0, 1)}
        )
    rows = history_spec(demo.board, history, FILE, narrow=False)["data"]["values"]
    assert [row["n"] for row in rows if row["line"].endswith(late)] == [750, 1000]
    assert max(row["rating"] for row in rows) < 2000


@given(
    st.lists(st.floats(0, 380, allow_nan=False), min_size=1, max_size=10).map(sorted),
)
def test_names_beside_lines_never_overlap_and_keep_their_order(wanted: list[float]) -> None:
    places = _apart(wanted, 17, 380)
    assert all(b - a >= 17 - 1e-6 for a, b in pairwise(places))
    assert places[0] >= 0
    assert places[-1] <= 380 + 1e-6
    if all(b - a >= 17 for a, b in pairwise(wanted)):
        assert places == pytest.approx(wanted)
