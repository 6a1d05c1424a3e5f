"""What is said and shown of a divided panel."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bbq_plugin.analysis.agreement import CampRow, CampTaste, Member, PanelDivision, panel_division
from bbq_plugin.report import documents
from bbq_plugin.report.documents import boards_csv, grouped_csv, report_dict, report_json
from bbq_plugin.report.summary import answer, camp_sentence, camp_title, division_sentences
from tests.model.test_camps import panel
from tests.report.studies import result_of
from tests.report.test_html import Page

if TYPE_CHECKING:
    from tests.report.studies import Result


def division_of(
    *camps: tuple[int, str], correlation: Any = -0.83, **inverted: bool
) -> PanelDivision:
    """Camps of so many raters who prefer an item first; `two=True`: the second is inverted."""
    n, total = len(camps), sum(size for size, _ in camps)
    correlations = np.full((n, n), correlation) if np.isscalar(correlation) else correlation
    np.fill_diagonal(correlations, 1.0)
    rows = [
        CampRow(
            c + 1, size / total, size, best, float(correlations[0, c]), c == 1 and bool(inverted)
        )
        for c, (size, best) in enumerate(camps)
    ]
    tastes = tuple(CampTaste(("x", "y"), ("v",)) for _ in rows)
    return PanelDivision(rows, correlations, None, tastes, {"ann": Member(2, 0.97)})


def told(division: PanelDivision) -> str:
    return " ".join("".join(sentence) for sentence in division_sentences(division))


def test_two_camps_are_named_by_what_they_prefer() -> None:
    assert told(division_of((26, "A"), (24, "F"))) == (
        "The panel is divided: 26 raters prefer A first, 24 prefer F first. "
        "Their rankings correlate with −0.83."
    )


def test_each_of_three_camps_is_named() -> None:
    between = np.array([[1.0, -0.83, 0.2], [-0.83, 1.0, 0.1], [0.2, 0.1, 1.0]])
    found = told(division_of((1200, "A"), (24, "F"), (3, "B"), correlation=between))
    assert found == (
        "The panel is divided into 3 camps: 1,200 raters prefer A first, 24 prefer F first, "
        "3 prefer B first. The correlations between their rankings are −0.83 to 0.20."
    )


def test_camps_that_prefer_the_same_item_first_are_still_told() -> None:
    assert told(division_of((26, "A"), (24, "A"), correlation=0.3)).startswith(
        "The panel is divided into 2 camps of 26 and 24 raters. All of them prefer A first; "
    )


def test_an_inverted_group_is_called_that_with_what_to_check() -> None:
    found = told(division_of((34, "A"), (6, "F"), correlation=-0.97, two=True))
    assert "divided" not in found
    assert found.startswith(
        "6 of 40 raters follow the reverse of the others' ranking (correlation −0.97): they may be "
        "inverted. Check the wording of the question and the keys of these raters"
    )


def test_the_division_comes_first_and_the_whole_panel_after_it(divided: Result) -> None:
    found = answer(divided.board, 1, None, divided.division)
    first, second = divided.division
    assert "".join(found.headline) == (
        f"The panel is divided: {first.n_raters} raters prefer {first.best} first, "
        f"{second.n_raters} prefer {second.best} first."
    )
    alone = answer(divided.board)
    assert ("Whole panel: ", *alone.headline) in found.details
    assert found.settled == alone.settled


def test_a_continuum_of_tastes_is_told_without_camps(divided: Result) -> None:
    one = replace(divided.fit, division=None, population=None)
    axis = panel_division(one)
    assert axis.axis is not None
    found = answer(divided.board, 1, None, axis)
    ends = axis.axis.items[0][0], axis.axis.items[-1][0]
    assert "divided" not in "".join(found.headline)
    assert "".join(found.details[-1]) == (
        "The raters differ in taste, but form no camps. They disagree most on "
        f"{ends[0]} and {ends[1]}."
    )


def test_one_taste_is_told_as_ever(demo: Result) -> None:
    assert answer(demo.board, 1, None, demo.division) == answer(demo.board)


def test_a_rater_is_told_their_camp_and_how_it_differs() -> None:
    assert "".join(camp_sentence(division_of((30, "A"), (10, "F")), "ann")) == (
        "Camp 2 of 2, P = 0.97: 25% of the panel, prefers F first. "
        "Compared with the others it prefers x and y more and v less."
    )
    inverted = camp_sentence(division_of((34, "A"), (6, "F"), correlation=-0.97, two=True), "ann")
    assert "check the wording and the keys" in "".join(inverted)


def test_json_has_camps_with_their_items_and_the_axis(divided: Result) -> None:
    found = json.loads(report_json(report_dict(divided)))
    assert found["schema"] == "bbq.report/1"
    names = ["camp", "share", "n_raters", "best", "correlation", "inverted", "items"]
    assert [list(camp) for camp in found["camps"]] == [names, names]
    for camp, board in zip(found["camps"], divided.camp_boards, strict=True):
        assert [row["item"] for row in camp["items"]] == [row.item for row in board]
        assert list(camp["items"][0]) == list(found["items"][0])
    assert found["axis"]["strength"] > 1.2
    assert {row["item"] for row in found["axis"]["items"]} == set(divided.fit.items)
    assert {row["camp"] for row in found["axis"]["raters"]} == {1, 2}
    assert [row["win_share"] for row in found["items"]] == sorted(
        (row["win_share"] for row in found["items"]), reverse=True
    )


def test_json_of_one_taste_has_one_camp_and_no_axis(demo: Result) -> None:
    found = report_dict(demo)
    (camp,) = found["camps"]
    assert (camp["camp"], camp["share"], camp["items"]) == (1, 1.0, [])
    assert camp["best"] == found["items"][0]["item"]
    assert found["axis"] is None


def test_of_very_many_raters_those_at_the_ends_are_listed(
    divided: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "AXIS_RATERS", 10)
    listed = report_dict(divided)["axis"]["raters"]
    whole = [at for _, at in divided.division.axis.raters] if divided.division.axis else []
    assert [row["position"] for row in listed] == [*whole[:5], *whole[-5:]]


def test_csv_has_the_panel_first_and_then_each_camp(divided: Result, demo: Result) -> None:
    rows = list(csv.DictReader(StringIO(boards_csv(divided))))
    assert [row["camp"] for row in rows] == [""] * 8 + ["1"] * 8 + ["2"] * 8
    assert [row["item"] for row in rows[16:]] == [row.item for row in divided.camp_boards[1]]
    assert "camp" not in next(csv.reader(StringIO(boards_csv(demo))))


def test_groups_of_which_one_is_divided_have_the_same_columns(
    divided: Result, demo: Result
) -> None:
    rows = list(csv.DictReader(StringIO(grouped_csv({"de": demo, "en": divided}))))
    assert list(rows[0])[:2] == ["group", "camp"]
    assert [row["camp"] for row in rows] == [""] * 16 + ["1"] * 8 + ["2"] * 8


def test_the_page_shows_camps_their_leaderboards_and_the_axis(divided: Result) -> None:
    page = Page(divided.html())
    for row, board in zip(divided.division, divided.camp_boards, strict=True):
        assert camp_title(divided.division, board) == f"Camp {row.camp}, {row.n_raters} raters"
        assert camp_title(divided.division, board) in page.text
    assert "What divides the raters" in page.text
    assert "Leaderboard of the whole panel" in page.text
    assert "items are ordered by win share" in page.text


def test_a_watched_raters_page_names_the_camp(divided: Result) -> None:
    page = Page(divided.html())
    watched = [row.rater for row in divided.raters if row.verdict != "keep"]
    for rater in watched:
        assert "".join(camp_sentence(divided.division, rater)) in page.text


def test_a_continuum_is_shown_without_camps(divided: Result) -> None:
    one = type(divided)(replace(divided.fit, division=None, population=None))
    page = Page(one.html())
    assert "their tastes are a continuum" in page.text
    assert "Whole panel" not in page.text


def test_of_one_taste_the_page_speaks_of_no_camps(demo_html: str) -> None:
    page = Page(demo_html)
    assert "Camps" not in page.text
    assert "What divides the raters" not in page.text


def test_names_in_camps_are_text(hostile_divided: Result) -> None:
    assert hostile_divided.division.divided
    text = hostile_divided.html()
    assert "<script>window" not in text
    assert "<img" not in text
    assert "\u202e" not in text
    sentences = division_sentences(hostile_divided.division)
    assert all("\x1b" not in part and "\n" not in part for one in sentences for part in one)


def test_an_inverted_group_is_titled_so_everywhere() -> None:
    found = result_of(panel(2, minority=0.2, reverse=True)[0], priors="auto")
    assert camp_title(found.division, found.camp_boards[1]) == "Inverted group 2, 8 raters"
    assert "Inverted group 2, 8 raters" in Page(found.html()).text
