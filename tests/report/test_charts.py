from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

import bbq_plugin as bbq
from bbq_plugin.analysis import Analysis
from bbq_plugin.errors import UnsupportedError
from bbq_plugin.report.charts import (
    FILE,
    PAGE,
    Scatter,
    axis_spec,
    camps_spec,
    chart_specs,
    matrix_limits,
    percent,
    to_svg,
    write_charts,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.report.studies import Result

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ET.fromstring(svg).iter(f"{SVG}text")]  # noqa: S314 (ours)


def test_every_chart_is_written_as_svg_and_png(demo: Result, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "charts"
    written = write_charts(folder, demo)
    assert sorted(path.name for path in written) == [
        "leaderboard.png", "leaderboard.svg", "raters.png", "raters.svg",
        "win-probability.png", "win-probability.svg",
    ]  # fmt: skip
    for path in written:
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG" if path.suffix == ".png" else b"<svg")
        assert b"var(--" not in content
    assert sorted(folder.iterdir()) == sorted(written)


def test_text_in_a_chart_stays_text(demo: Result) -> None:
    shown = texts(to_svg(chart_specs(demo)["leaderboard"]))
    for row in demo.board:
        assert any(row.item in text for text in shown)


def test_hostile_names_are_text_in_the_file_and_name_no_file(
    hostile: Result, tmp_path: Path
) -> None:
    written = write_charts(tmp_path, hostile)
    assert {path.stem for path in written} == {"leaderboard", "win-probability", "raters"}
    svg = (tmp_path / "leaderboard.svg").read_text()
    tags = {node.tag for node in ET.fromstring(svg).iter()}  # noqa: S314 (ours)
    assert tags <= {f"{SVG}{tag}" for tag in ("svg", "g", "path", "line", "rect", "text")}
    assert any("<script>" in text for text in texts(svg))
    assert "\u202e" not in svg


def test_two_names_cut_short_alike_stay_two_items() -> None:
    long = "x" * 80
    records = [("ann", f"{long}1", f"{long}2")] * 3
    fit = bbq.fit(bbq.Comparisons.from_records(records), model="bayes-bt")
    svg = to_svg(chart_specs(Analysis(fit))["leaderboard"])
    assert sum("xxx" in text for text in texts(svg)) == 2


def test_in_the_page_every_colour_is_a_variable(demo: Result) -> None:
    for spec in chart_specs(demo, PAGE).values():
        colours = set(re.findall(r'(?:fill|stroke)="([^"]+)"', to_svg(spec)))
        assert all(c in ("none", "transparent") or c.startswith("var(--") for c in colours), colours
    assert set(FILE) == set(PAGE)


def test_the_same_fit_gives_the_same_chart(demo: Result) -> None:
    spec = chart_specs(demo)["raters"]
    assert to_svg(spec) == to_svg(chart_specs(demo)["raters"])


def test_thousands_of_raters_share_dots_and_none_is_lost() -> None:
    study = bbq.simulate(items=5, raters=3000, comparisons=30000, guessers=0.1, seed=1)
    raters = bbq.rater_report(bbq.fit(study.arrays()))
    scatter = Scatter.of(raters)
    assert scatter is not None
    assert scatter.grouped
    assert sum(dot["count"] for dot in scatter.dots) == 3000
    assert len(scatter.dots) < 900


def test_without_raters_there_is_no_chart_of_them() -> None:
    fit = bbq.fit(bbq.Comparisons.from_records([(None, "a", "b")] * 3))
    assert "raters" not in chart_specs(Analysis(fit))


def test_a_mark_in_the_small_chart_lies_where_the_dot_is(demo: Result) -> None:
    scatter = Scatter.of(demo.raters)
    assert scatter is not None
    row = min(demo.raters, key=lambda rater: rater.quality)
    x, y = scatter.place(row)
    places = re.findall(r'translate\(([\d.]+),([\d.]+)\)" d="M', to_svg(scatter.small_spec(FILE)))
    # The plot itself is moved by its margin: 40 from the left, 12 from the top.
    assert any(abs(float(a) + 40 - x) < 0.6 and abs(float(b) + 12 - y) < 0.6 for a, b in places), (
        x,
        y,
        places,
    )


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.999])
def test_colour_steps_rise_at_every_level(level: float) -> None:
    limits = matrix_limits(level)
    assert limits == sorted(limits)
    assert len(limits) == 6


def test_no_square_says_that_a_chance_is_nought_or_whole() -> None:
    assert [percent(p) for p in (0.0, 0.3, 1.0)] == ["<1", "30", ">99"]


def test_without_the_library_the_error_says_what_to_install(
    demo: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'bbq-plugin\[charts\]'"):
        write_charts("unused", demo)


# -- a divided panel


def test_camps_are_drawn_side_by_side_and_what_divides_them(divided: Result) -> None:
    specs = chart_specs(divided)
    assert {"camps", "disagreement"} <= set(specs)
    shown = texts(to_svg(specs["camps"]))
    for camp in divided.division:
        assert any(f"camp {camp.camp} ({camp.n_raters} raters)" in text for text in shown)
    for row in divided.board:
        assert any(row.item in text for text in shown)
    below = specs["disagreement"]["vconcat"][1]["data"]["values"]
    assert sum(place["n"] for place in below) == len(divided.fit.raters)
    assert len({place["camp"] for place in below}) == 2


def test_of_one_taste_no_division_is_drawn(demo: Result) -> None:
    assert demo.division.axis is None
    assert not {"camps", "disagreement"} & set(chart_specs(demo))


def test_a_divided_panel_is_drawn_by_what_it_is_ordered_by(divided: Result) -> None:
    rows = chart_specs(divided)["leaderboard"]["data"]["values"]
    assert [row["rating"] for row in rows] == [row.win_share for row in divided.board]


def test_the_charts_of_camps_fit_the_page_and_cut_long_names(hostile_divided: Result) -> None:
    division, board = hostile_divided.division, hostile_divided.board
    assert division.axis is not None
    for narrow in (False, True):
        camps = camps_spec(board, division, hostile_divided.camp_boards, PAGE, narrow=narrow)
        axis = axis_spec(board, division, division.axis, PAGE, narrow=narrow)
        for spec in (camps, axis):
            svg = to_svg(spec)
            width = float(ET.fromstring(svg).attrib["width"])  # noqa: S314 (ours)
            assert width <= (350 if narrow else 800)
            assert "W" * 40 not in svg
            assert "\u202e" not in svg
            tags = {node.tag for node in ET.fromstring(svg).iter()}  # noqa: S314
            allowed = ("svg", "g", "path", "line", "rect", "text")
            assert tags <= {f"{SVG}{tag}" for tag in allowed}
            colours = set(re.findall(r'(?:fill|stroke)="([^"]+)"', svg))
            assert all(c in ("none", "transparent") or c.startswith("var(--") for c in colours)
