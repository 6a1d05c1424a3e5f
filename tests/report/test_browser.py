"""The report in a real browser. Without Chromium and its driver these tests are skipped."""

from __future__ import annotations

import base64
import io
import json
from typing import TYPE_CHECKING, Any

import pypdf
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

from tests.browsing import DESK, PHONE, complaints, look
from tests.report.studies import HOSTILE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.report.studies import Result


@pytest.fixture(scope="session")
def pages(
    demo_html: str, hostile_html: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    found = {"demo": folder / "demo.html", "hostile": folder / "hostile.html"}
    found["demo"].write_text(demo_html, encoding="utf-8")
    found["hostile"].write_text(hostile_html, encoding="utf-8")
    return found


def show(browser: webdriver.Chrome, page: Path, width: int = DESK, scheme: str = "light") -> None:
    look(browser, width, scheme)
    for kind in ("browser", "performance"):
        browser.get_log(kind)  # type: ignore[no-untyped-call] # forget what was before
    browser.get(page.as_uri())


def logged(browser: webdriver.Chrome, kind: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = browser.get_log(kind)  # type: ignore[no-untyped-call]
    return entries


@pytest.mark.parametrize("name", ["demo", "hostile"])
def test_no_request_goes_out_and_the_console_is_silent(
    name: str, browser: webdriver.Chrome, pages: dict[str, Path]
) -> None:
    show(browser, pages[name])
    assert logged(browser, "browser") == []
    events = [json.loads(entry["message"])["message"] for entry in logged(browser, "performance")]
    asked = {
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    }
    assert asked <= {pages[name].as_uri()}
    assert any(event["method"] == "Network.requestWillBeSent" for event in events)


@pytest.mark.parametrize("name", ["demo", "hostile"])
@pytest.mark.parametrize("width", [DESK, PHONE])
def test_the_page_never_scrolls_sideways(
    name: str, width: int, browser: webdriver.Chrome, pages: dict[str, Path]
) -> None:
    show(browser, pages[name], width)
    assert browser.execute_script("return document.documentElement.scrollWidth") == width
    # What does not fit scrolls inside its own frame, which the keyboard reaches.
    beyond = browser.execute_script(
        """return [...document.querySelectorAll('section *')].filter(node =>
             node.getBoundingClientRect().right > innerWidth + 1
             && !node.closest('.scroll, .scrolls, details:not([open])')).map(n => n.outerHTML)"""
    )
    assert beyond == []


@pytest.mark.parametrize(
    ("name", "scheme", "width"),
    [
        ("demo", "light", DESK),
        ("demo", "dark", DESK),
        ("demo", "light", PHONE),
        ("demo", "dark", PHONE),
        ("hostile", "light", DESK),
        ("hostile", "dark", PHONE),
    ],
)
def test_axe_finds_nothing_to_complain_of(
    name: str, scheme: str, width: int, browser: webdriver.Chrome, pages: dict[str, Path]
) -> None:
    show(browser, pages[name], width, scheme)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    wrong, n_passed = complaints(browser)
    assert wrong == []
    assert n_passed > 20


def test_light_and_dark_are_two_looks_of_the_same_page(
    browser: webdriver.Chrome, pages: dict[str, Path]
) -> None:
    colours = []
    for scheme in ("light", "dark"):
        show(browser, pages["demo"], DESK, scheme)
        colours.append(
            browser.execute_script(
                """const of = (css, what) => getComputedStyle(document.querySelector(css))[what];
                   return [of('section', 'backgroundColor'), of('body', 'color'),
                           of('#leaderboard .wide text', 'fill')]"""
            )
        )
    (light, ink, label), (dark, dark_ink, dark_label) = colours
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(24, 29, 37)")
    # Letters in a chart are as dark or light as the letters around it.
    assert (ink, dark_ink) == (label, dark_label)


def test_hostile_names_neither_run_nor_hide(
    browser: webdriver.Chrome, pages: dict[str, Path]
) -> None:
    show(browser, pages["hostile"])
    assert browser.execute_script("return typeof window.pwned") == "undefined"
    assert browser.execute_script("return document.scripts.length + document.images.length") == 0
    table = browser.find_element(By.CSS_SELECTOR, "table.items").text
    for name in HOSTILE[:6]:
        assert name in table


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_one_chart_of_each_kind_is_shown_at_a_time(
    width: int, browser: webdriver.Chrome, pages: dict[str, Path]
) -> None:
    show(browser, pages["demo"], width)
    shown = {
        kind: [
            chart.is_displayed()
            for chart in browser.find_elements(By.CSS_SELECTOR, f".chart > .{kind}")
        ]
        for kind in ("wide", "narrow")
    }
    assert set(shown["wide"]) == {width == DESK}
    assert set(shown["narrow"]) == {width == PHONE}


def test_labels_in_charts_do_not_run_into_each_other(
    browser: webdriver.Chrome, pages: dict[str, Path]
) -> None:
    for name in ("demo", "hostile"):
        for width in (DESK, PHONE):
            show(browser, pages[name], width)
            clashes = browser.execute_script(
                """const clash = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
                     && a.top < b.bottom - 3 && b.top < a.bottom - 3;
                   return [...document.querySelectorAll('.chart svg, .small')].flatMap(svg => {
                     const texts = [...svg.querySelectorAll('text')].map(node =>
                       [node.textContent, node.getBoundingClientRect()])
                       .filter(([_, box]) => box.width);
                     return texts.flatMap(([one, a], i) => texts.slice(i + 1)
                       .filter(([_, b]) => clash(a, b)).map(([other]) => [one, other]));
                   })"""
            )
            assert clashes == [], (name, width)


def test_in_print_every_verdict_has_its_page(
    demo: Result, browser: webdriver.Chrome, pages: dict[str, Path]
) -> None:
    show(browser, pages["demo"], DESK, "dark")
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    pdf = pypdf.PdfReader(io.BytesIO(base64.b64decode(printed["data"])))
    for page in pdf.pages:
        # A4 in points.
        assert float(page.mediabox.width) == pytest.approx(595.3, abs=1)
        assert float(page.mediabox.height) == pytest.approx(841.9, abs=1)
    texts = [page.extract_text() for page in pdf.pages]
    assert "is best" in texts[0]
    judged = [row.rater for row in demo.raters if row.verdict != "keep"]
    for rater in judged:
        assert sum(text.strip().startswith(rater) for text in texts) == 1
    assert sum("Efficient Bayesian Inference" in text for text in texts) == 1
    assert 4 + len(judged) <= len(texts) <= 9 + len(judged)
