"""The live page of a divided panel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import bbq_plugin as bbq
from bbq_plugin.analysis import Analysis
from bbq_plugin.analysis.agreement import panel_division
from bbq_plugin.data.records import Comparison
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.server import page_charts
from bbq_plugin.live.server.pages import answers_of
from tests.live.server.serving import Serving, serving
from tests.model.test_camps import panel
from tests.report.studies import HOSTILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    store = tmp_path_factory.mktemp("divided") / "state.db"
    study = bbq.simulate(items=12, raters=40, comparisons=6000, minority=0.4, spread=1.2, seed=6)
    item = dict(zip(study.truth.items, HOSTILE, strict=True))
    with Engine(store, priors="auto") as engine:
        engine.add(
            Comparison(one.key, one.rater, item[one.left], item[one.right], one.outcome)
            for one in study.comparisons()
        )
        engine.refresh()
        assert len(engine.fit.camps) == 2
    with serving(store) as found:
        found.wait_until(lambda: "The panel is divided" in found.ask("/").text, "the camps")
        yield found


def test_the_board_shows_camps_and_what_divides_them(server: Serving) -> None:
    text = server.ask("/").text
    for shown in ("Camp 1, 24 raters", "Camp 2, 16 raters", "What divides the raters",
                  "Leaderboard of the whole panel", "Items are ordered by win share"):  # fmt: skip
        assert shown in text
    assert text.index("The panel is divided") < text.index('id="camps"') < text.index('id="board"')
    assert "<script>window" not in text
    assert "<img" not in text


def test_raters_show_their_camp_and_can_be_sorted_by_it(server: Serving) -> None:
    text = server.ask("/raters?sort=camp").text
    assert "sort=camp" in text
    assert server.ask("/raters?sort=camp&down=1").text != text


def test_a_raters_page_says_which_camp_and_how_it_differs(server: Serving) -> None:
    text = server.ask("/rater?name=rater-01").text
    assert "of 2, P " in text
    assert "Compared with the others it prefers" in text


def test_answers_are_held_against_the_ranking_of_the_raters_own_camp(tmp_path: Path) -> None:
    data, other = panel(3, minority=0.4)
    with Engine(tmp_path / "state.db", priors="auto") as engine:
        engine.add(data)
        fit = engine.fit
        assert len(fit.camps) == 2
        theta = dict(zip(fit.items, fit.camp_theta[1].tolist(), strict=True))
        assert other[0]
        said, n = answers_of(engine.store.path, "r00", fit, first=0, most=200)
    assert n == len(said) == 100
    for one in said:
        gap = theta[one.left] - theta[one.right]
        p = 1 / (1 + np.exp(-gap if one.outcome == "left" else gap))
        assert one.chance == pytest.approx(p)


def test_the_log_tells_when_the_panel_was_divided(server: Serving) -> None:
    text = server.ask("/log").text
    assert 'id="camp-changes"' in text
    assert "2 camps. The panel is divided" in text


def test_bars_and_blocks_lie_inside_their_charts() -> None:
    found = Analysis(bbq.fit(panel(3, minority=0.4)[0], priors="auto"))
    cells = page_charts.camp_cells(found.leaderboard, found.camp_boards)
    assert len(cells) == 8
    for row, line in zip(found.leaderboard, cells, strict=True):
        for cell, board in zip(line, found.camp_boards, strict=True):
            own = next(one for one in board if one.item == row.item)
            assert (cell.rank, cell.win_share) == (own.rank, own.win_share)
            assert 0 <= cell.bar.lower <= cell.bar.at <= cell.bar.upper <= 100
    for narrow in (False, True):
        chart = page_charts.axis_chart(found.division, narrow=narrow)
        assert chart is not None
        assert sum(block.n for block in chart.blocks) == 40
        assert {block.camp for block in chart.blocks} == {1, 2}
        for block in chart.blocks:
            assert chart.left <= block.x
            assert block.x + block.width <= chart.width
            assert block.y >= 0
            assert block.y + block.height <= chart.bottom + 0.2
        assert all(bar.lower == 50 or bar.upper == 50 for _, bar in chart.items)


def test_of_one_taste_there_is_no_axis_to_draw() -> None:
    assert page_charts.axis_chart(panel_division(bbq.fit(panel(3)[0], priors="auto"))) is None
