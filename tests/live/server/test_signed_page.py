"""`bbq serve --model bbq-signed`: the page of a fit that reverses inverted answers."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import bbq_plugin as bbq
from bbq_plugin.live.engine import Engine
from tests.live.server.serving import serving

if TYPE_CHECKING:
    from pathlib import Path


def test_the_page_shows_the_signed_fit_and_whom_it_has_turned_round(tmp_path: Path) -> None:
    study = bbq.simulate(items=5, raters=12, comparisons=1200, inverted=0.2, spread=1.5, seed=4)
    store = tmp_path / "s.db"
    with Engine(store) as engine:
        engine.add(study.comparisons())
    data = bbq.Comparisons.from_comparisons(study.comparisons())
    cold = bbq.fit(data, model="bbq-signed")
    turned = [name for name, q in zip(cold.raters, cold.quality, strict=True) if q < -0.5]
    judged = {row.rater: row for row in bbq.rater_report(cold)}
    assert any(judged[name].reasons[0].startswith("inverted, ") for name in turned)
    with serving(store, "--model", "bbq-signed") as server:
        server.wait_for(1200)
        raters = server.ask("/raters").text
        assert "−1 (inverted)" in raters
        assert "bbq-signed" in raters
        for name in turned:
            said = html.unescape(server.ask(f"/rater?name={name}").text)
            assert judged[name].reasons
            assert all(reason[1:] in said for reason in judged[name].reasons)
        board = server.ask("/").text
        places = [board.index(item) for item in _best_first(cold)]
        assert places == sorted(places)
        assert server.ask("/pairs").status == 200
        assert server.stop() == 0


def _best_first(fit: bbq.Fit) -> list[str]:
    return [fit.items[i] for i in (-fit.theta).argsort()]
