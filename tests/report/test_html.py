from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment

import bbq_plugin as bbq
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.records import Comparison
from bbq_plugin.errors import UnsupportedError
from bbq_plugin.report.html_report import data_quality, pooled_bias, position_bias, raters_section
from bbq_plugin.report.templating import environment, show_name
from bbq_plugin.text import count, needed, number
from tests.report.studies import HOSTILE, history_of, result_of

if TYPE_CHECKING:
    from tests.report.studies import Result


class Page(HTMLParser):
    """Tags, attributes and text of a page, as a browser would see them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_says_who_is_best_and_how_to_get_it_again(demo: Result, demo_html: str) -> None:
    page = Page(demo_html)
    best = demo.board[0]
    assert f"{best.item} is best, P" in page.text
    for row in demo.board:
        assert f"{row.rating:,.0f}" in page.text
    assert demo.data.digest in page.text
    assert bbq.__version__ in page.text
    assert "bbq fit votes.jsonl -o report.html" in page.text
    assert "Efficient Bayesian Inference from Noisy Pairwise Comparisons" in page.text
    assert str(demo.fit.priors) in page.text


def test_each_rater_who_is_not_kept_has_a_page_with_the_reasons(
    demo: Result, demo_html: str
) -> None:
    judged = [row for row in demo.raters if row.verdict != "keep"]
    assert judged
    page = Page(demo_html)
    assert sum(attrs.get("class") == "page" for _, attrs in page.tags) == len(judged)
    for row in judged:
        assert row.reasons[0][1:] in page.text


def test_the_same_result_gives_the_same_file(demo: Result, demo_html: str) -> None:
    command = "bbq fit votes.jsonl -o report.html"
    again = demo.html(
        title="A study",
        command=command,
        history=history_of(demo.board),
    )
    assert again == demo_html


@pytest.mark.parametrize("which", ["demo_html", "hostile_html"])
def test_nothing_is_fetched_and_nothing_runs(which: str, request: pytest.FixtureRequest) -> None:
    html: str = request.getfixturevalue(which)
    page = Page(html)
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "img", "link", "iframe", "object", "embed", "form", "base"}
    assert sum(tag == "style" for tag, _ in page.tags) == 1
    for tag, attrs in page.tags:
        assert not [name for name in attrs if name.startswith("on") or name == "style"], tag
        for name in ("href", "src", "xlink:href"):
            assert (attrs.get(name) or "#").startswith("#"), (tag, attrs)
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_the_policy_allows_this_style_sheet_and_nothing_else(demo_html: str) -> None:
    policy = next(a["content"] for tag, a in Page(demo_html).tags if "http-equiv" in a)
    style = re.search(r"<style>(.*?)</style>", demo_html, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def test_hostile_names_are_shown_as_they_are_spelt(hostile_html: str) -> None:
    page = Page(hostile_html)
    for name in HOSTILE[:6]:
        assert name in page.text
    assert "\\u202egnp.exe\\u2066" in page.text
    assert "a\\x00b\\x1b[31mc\\nd" in page.text
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", hostile_html)
    assert any(attrs.get("title") == "W" * 300 for _, attrs in page.tags)


@given(st.text(min_size=1))
def test_any_name_is_one_piece_of_text(name: str) -> None:
    shown = Environment(autoescape=True).from_string("{{ x }}").render(x=show_name(name))
    page = Page(shown)
    assert [tag for tag, _ in page.tags] == ["bdi"]
    assert all(set(attrs) <= {"title"} for _, attrs in page.tags)
    assert page.text.isprintable()
    assert len(page.text) <= 60


def test_thirty_items_and_fifty_raters_fit_into_an_e_mail() -> None:
    study = bbq.simulate(items=30, raters=50, comparisons=9000, guessers=0.1, seed=2)
    assert len(result_of(study.arrays()).html().encode()) < 500_000


def test_five_thousand_raters_stay_in_one_small_folded_file() -> None:
    study = bbq.simulate(items=6, raters=5000, comparisons=60000, guessers=0.1, seed=2)
    found = result_of(study.arrays())
    html = found.html()
    assert len(html.encode()) < 1_000_000
    page = Page(html)
    assert sum(tag == "details" for tag, _ in page.tags) >= 20
    assert all(f">{rater}<" in html for rater in found.data.raters)


def test_without_raters_the_page_has_no_section_on_them() -> None:
    data = Comparisons.from_records([(None, "a", "b")] * 9 + [(None, "b", "a")])
    page = Page(result_of(data).html())
    assert "raters" not in {attrs.get("id") for _, attrs in page.tags}
    assert "no rater names" in page.text


@pytest.mark.parametrize("model", ["bayes-bt", "crowd-bt"])
def test_a_model_without_verdicts_shows_none(model: str, demo: Result) -> None:
    page = Page(result_of(demo.data, model=model).html())
    assert "to exclude" not in page.text
    assert "verdict" not in {
        part for _, attrs in page.tags for part in (attrs.get("class") or "").split()
    }


def test_groups_that_never_met_are_told_and_listed() -> None:
    data = Comparisons.from_records([("ann", "a", "b")] * 5 + [("ann", "c", "d")] * 5)
    page = Page(result_of(data).html())
    assert "There is no overall best item" in page.text
    assert "never compared with each other: no common scale" in page.text


def test_beyond_forty_items_the_matrix_shows_the_best_and_says_so() -> None:
    study = bbq.simulate(items=50, raters=10, comparisons=3000, seed=1)
    page = Page(result_of(study.arrays()).html())
    assert "the first 40 of 50 items" in page.text


def test_a_lean_to_the_left_is_found_with_raters_as_clusters() -> None:
    bias = position_bias(np.array([0.6, 0.64, 0.58, 0.62]), np.full(4, 50.0))
    assert bias is not None
    assert bias.rate == pytest.approx(0.61)
    # sd of the four rates over the root of 4, times 1.96
    assert bias.upper - bias.rate == pytest.approx(1.96 * 0.0258 / 2, rel=1e-2)
    assert "position bias to the left" in bias.verdict
    assert position_bias(None, np.ones(1)) is None
    fair = position_bias(np.array([0.4, 0.6, np.nan]), np.full(3, 50.0))
    assert fair is not None
    assert "no position bias" in fair.verdict


def test_a_lean_to_the_left_is_found_without_raters() -> None:
    bias = pooled_bias(60, 100)
    assert bias is not None
    # Wilson's interval of 60 in 100, as tables have it
    assert (bias.lower, bias.upper) == pytest.approx((0.5020, 0.6906), abs=1e-4)
    assert "position bias to the left" in bias.verdict
    assert pooled_bias(0, 0) is None
    answers = [
        Comparison(str(i), None, "oak", "elm", "left" if i % 10 < 6 else "right")
        for i in range(100)
    ]
    page = Page(result_of(Comparisons.from_comparisons(answers)).html())
    assert "95% interval 50.2% – 69.1%; position bias to the left" in page.text
    # Who wins is always named first: that is no side.
    first = Comparisons.from_comparisons(answers[:6])
    assert "sides were not recorded" in Page(result_of(first).html()).text


def test_the_data_are_counted_as_they_are(demo: Result) -> None:
    quality = data_quality(demo.data)
    assert quality.pairs_seen == quality.pairs_possible == 28
    assert quality.n_groups == 1
    assert quality.per_rater is not None
    assert quality.per_rater.median == 100
    assert quality.tie_share == demo.data.n_ties / 3000


def test_the_page_says_what_a_tie_is(demo: Result, demo_html: str) -> None:
    assert "of the comparisons; an outcome of its own, with a rate of each rater" in demo_html
    halves = result_of(demo.data, ties="half").html()
    assert "of the comparisons; a tie counts half for either side" in halves


def test_items_that_are_called_bad_are_listed_worst_first(demo_html: str) -> None:
    bad = Comparisons.from_comparisons(
        [
            Comparison("1", None, "oak", "<elm>", "both_bad"),
            Comparison("2", None, "oak", "ash", "left"),
            Comparison("3", None, "ash", "fir", "right"),
        ]
    )
    quality = data_quality(bad)
    assert quality.both_bad == [("<elm>", 1.0, 1.0), ("oak", 0.5, 2.0)]
    html = result_of(bad).html()
    assert html.index("<bdi>&lt;elm&gt;</bdi></th><td>100.0%") < html.index(
        "<bdi>oak</bdi></th><td>50.0%</td><td>2</td>"
    )
    assert "Answered both bad, by item" not in demo_html


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (number(-0.004, 2), "0.00"),
        (number(-1234.5, 1), "−1,234.5"),
        (number(float("nan")), "–"),
        (count(3.0), "3"),
        (count(3.5), "3.5"),
        (needed(float("inf")), "out of reach"),
        (needed(87.0), "87"),
        (needed(1234.0), "1,200"),
    ],
)
def test_numbers_are_written_for_people(shown: str, text: str) -> None:
    assert shown == text


def test_all_filters_have_their_names() -> None:
    assert {"name", "sentence", "plain", "number"} <= environment(
        "bbq_plugin.report"
    ).filters.keys()


def test_without_the_library_the_error_says_what_to_install(
    demo: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "bbq_plugin.report.templating", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'bbq-plugin\[charts\]'"):
        demo.html()


def test_reports_as_tables_do_not_wait_for_charts() -> None:
    code = (
        "import sys, bbq_plugin.report.terminal_tables, bbq_plugin.report.html_report\n"
        "assert not {'vl_convert', 'jinja2'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_excluded_rater_has_a_page_and_what_is_left_out_is_said() -> None:
    study = bbq.simulate(items=6, raters=120, comparisons=9000, guessers=0.4, spread=1.5, seed=1)
    found = result_of(study.arrays(), priors="auto")
    out = set(found.raters.excluded)
    assert len(out) > 25
    html = found.html()
    pages = set(re.findall(r'<h2 id="rater-\d+"><bdi>([^<]*)</bdi>', html))
    assert out <= pages
    assert len(pages - out) <= 20
    assert "The ranking is that of the other raters, without this rater's votes." in html
    # The rule stands beside the reasons.
    assert html.count("It takes 10 answers") >= len(out) + 1


def test_of_many_to_watch_twenty_have_a_page_and_the_others_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bbq_plugin.report.html_report.WATCHED_PAGES", 1)
    study = bbq.simulate(items=6, raters=40, comparisons=1600, guessers=0.3, spread=1.0, seed=1)
    found = result_of(study.arrays(), priors="auto")
    n = sum(row.verdict == "watch" for row in found.raters)
    assert n > 1
    page = Page(found.html())
    assert f"{n - 1} more raters to watch have no page here" in page.text


def test_answers_are_held_against_the_ranking_of_the_others() -> None:
    """One rater has most of the votes, and with them the ranking; the others disagree."""
    loud = [("loud", "b", "a")] * 24
    others = [
        (f"r{n}", *pair) for n in range(3) for pair in (("a", "b"), ("a", "c"), ("c", "b")) * 2
    ]
    found = result_of(Comparisons.from_records([*loud, *others]))
    assert found.board[0].item == "b"
    pages = {page.row.rater: page for page in raters_section(found, None).pages}
    (pair,) = pages["loud"].pairs
    assert (pair.worse, pair.better, pair.against, pair.n) == ("b", "a", 24, 24)
    assert pair.expected < 8


def test_what_is_usual_for_repeated_answers_is_said_beside_them(demo: Result) -> None:
    row = next(row for row in demo.raters if row.verdict == "exclude")
    assert 0.5 < row.self_consistency_expected <= 1
    cell = f"same answer to repeated pairs</th><td>{row.self_consistency:.0%}<td>"
    assert f"{cell}{row.self_consistency_expected:.0%}" in demo.html()


def test_a_verdict_in_the_table_leads_to_its_page(demo_html: str) -> None:
    page = Page(demo_html)
    ids = [attrs["id"] for _, attrs in page.tags if attrs.get("id")]
    assert len(ids) == len(set(ids))
    links = [attrs["href"] for tag, attrs in page.tags if tag == "a" and attrs.get("href")]
    assert "#rater-1" in links
    assert {str(link).removeprefix("#") for link in links} <= set(ids)


def test_more_items_than_a_matrix_can_hold_are_still_reported(
    demo: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("analysis.analysis", "report.summary"):
        monkeypatch.setattr(f"bbq_plugin.{module}.LARGEST_COVARIANCE", 4)
    page = Page(demo.html())
    assert f"{demo.board[0].item} is best" in page.text
    assert "pairs" not in {attrs.get("id") for _, attrs in page.tags}


def test_the_page_says_when_to_stop(demo_html: str) -> None:
    section = demo_html.split('id="stop"')[1].split("</section>", maxsplit=1)[0]
    assert "Significant under continuous monitoring (95%)" in section
    for question in ("The best item", "The best 3", "Every pair of neighbours"):
        assert question in section
