"""One default everywhere: one file through Python, the command line, engine, daemon and page.

The panel is divided, has guessers and ties, so that every part of the default (estimated priors,
camps, ties as an outcome, robust intervals) changes the numbers.
"""

from __future__ import annotations

import html
import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

import bbq_plugin as bbq
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.file_ingest import Offer
from bbq_plugin.text import chance, number, share_span, span
from tests.live.server.serving import serving
from tests.store.stores import report, run, study

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DESIGN: dict[str, Any] = {
    "items": 6, "raters": 30, "comparisons": 3000, "minority": 0.4, "guessers": 0.1, "ties": 0.2,
    "spread": 1.2, "seed": 9,
}  # fmt: skip
#: Fits end within 1e-6 nats of the optimum: 2e-4 points, and as much of what is made of them.
NEAR = 2e-3
Found = dict[str, dict[str, Any]]


def rows(items: Any, raters: Any) -> dict[str, Found]:
    return {
        "items": {row["item"]: dict(row) for row in items},
        "raters": {row["rater"]: dict(row) for row in raters},
    }


def python(votes: Path) -> dict[str, Found]:
    fit = bbq.fit(bbq.read(votes))
    return rows(bbq.leaderboard(fit), bbq.rater_report(fit))


def command_line(votes: Path) -> dict[str, Found]:
    document = report("fit", votes)
    return rows(document["items"], document["raters"])


def engine(votes: Path) -> dict[str, Found]:
    with Engine(":memory:") as found:
        found.ingest([Offer(votes, votes.name)])
        found.refresh()
        analysis = found.analysis()
        return rows(analysis.leaderboard, analysis.raters)


def daemon(votes: Path) -> dict[str, Found]:
    store, out = votes.parent / "daemon.db", votes.parent / "out"
    done = run("watch", votes.parent / "inbox", "--store", store, "--out", out, "--once")
    assert done.exit_code == 0, done.output
    document = json.loads((out / "report.json").read_text())
    return rows(document["items"], document["raters"])


@pytest.fixture(scope="module")
def votes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one-default") / "inbox"
    folder.mkdir()
    made = study(folder, **DESIGN)
    copy = folder.parent / made.name
    copy.write_bytes(made.read_bytes())
    return copy


@cache
def reference(votes: Path) -> dict[str, Found]:
    return python(votes)


def test_the_study_needs_every_part_of_the_default(votes: Path) -> None:
    data = bbq.read(votes)
    fit = bbq.fit(data)
    assert fit.priors.estimated  # type: ignore[union-attr]
    assert len(fit.camps) > 1
    assert fit.ties == "model"
    assert data.n_ties
    assert [way.name for way in fit.robust.ways] == ["rater"]
    assert {row["verdict"] for row in reference(votes)["raters"].values()} > {"keep"}


@pytest.mark.parametrize("way", [command_line, engine, daemon], ids=lambda way: way.__name__)
def test_the_same_file_gives_the_same_numbers(
    votes: Path, way: Callable[[Path], dict[str, Found]]
) -> None:
    found, expected = way(votes), reference(votes)
    for kind, numbers in (
        ("items", ("rank", "rank_best", "rank_worst", "tier", "rating", "rating_lower",
                   "rating_upper", "win_share", "win_share_lower", "win_share_upper", "theta_sd")),
        ("raters", ("n", "quality", "quality_lower", "quality_upper", "p_bad", "p_guesser",
                    "p_inverted", "camp", "tie_rate", "verdict")),
    ):  # fmt: skip
        assert found[kind].keys() == expected[kind].keys()
        for name, row in expected[kind].items():
            for field in numbers:
                value = row[field]
                same = value if isinstance(value, str) else pytest.approx(value, abs=NEAR)
                assert found[kind][name][field] == same, (name, field)


def cells(page: str, name: str, table: str) -> list[str]:
    """What is written in the row of this name."""
    inside = page.split(f'<table class="{table}">')[1].split("</table>", maxsplit=1)[0]
    found = [re.split(r"<[^>]*>", row) for row in inside.split("<tr")]
    (row,) = [[cell.strip() for cell in row] for row in found if name in row]
    return row


def test_the_page_shows_the_same_numbers(votes: Path) -> None:
    store = votes.parent / "page.db"
    with Engine(store) as engine:
        engine.ingest([Offer(votes, votes.name)])
    expected = reference(votes)
    with serving(store) as server:
        board, raters = (html.unescape(server.ask(path).text) for path in ("/", "/raters"))
    for name, row in expected["items"].items():
        shown = cells(board, name, "items")
        assert number(row["rating"]) in shown
        assert span(row["rating_lower"], row["rating_upper"]) in shown
        assert chance(row["win_share"]) in shown
        assert share_span(row["win_share_lower"], row["win_share_upper"]) in shown
    for name, row in expected["raters"].items():
        shown = cells(raters, name, "raters judged")
        assert row["verdict"] in shown
        assert str(row["camp"]) in shown
        assert number(row["quality"], 2) in shown
        assert span(row["quality_lower"], row["quality_upper"], 2) in shown
