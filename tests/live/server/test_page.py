"""The page in a real browser, on a real `bbq serve`. Skipped without Chromium and its driver."""

from __future__ import annotations

import csv
import io
import re
import struct
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

import bbq_plugin as bbq
from bbq_plugin.data.records import Comparison
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.server.pages import TABLES
from bbq_plugin.simulation import simulate
from bbq_plugin.store import Store
from bbq_plugin.store.store import records_of
from tests.browsing import DESK, PHONE, complaints, look, text_of
from tests.live.server.payloads import event
from tests.live.server.serving import Serving, serving
from tests.report.studies import HOSTILE
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LANGUAGES = ("de", HOSTILE[0])
TOKEN = "a-token-of-the-page-0123456789"  # noqa: S105


def filled(store: Path, items: tuple[str, ...], raters: tuple[str, ...], n: int) -> None:
    """A store with a study under other names, and two points of history."""
    study = simulate(items=len(items), raters=len(raters), comparisons=n, guessers=0.1, seed=3)
    item = dict(zip(study.truth.items, items, strict=True))
    rater = dict(zip(study.truth.raters, raters, strict=True))
    answers = [
        Comparison(
            f"ls:1:{k}", rater[str(c.rater)], item[c.left], item[c.right], c.outcome,
            at=1.79e9 + k, time_s=2.5, version=1.79e9 + k, tags={"language": LANGUAGES[k % 2]},
        )
        for k, c in enumerate(study.comparisons(), 1)
    ]  # fmt: skip
    with Engine(store) as engine:
        for part in (answers[: n // 2], answers[n // 2 :]):
            engine.add(part)
            board = bbq.leaderboard(engine.fit)
            rows = [(r.item, r.rating, r.rating_lower, r.rating_upper, r.rank) for r in board]
            engine.store.add_history(1.79e9, len(part), "full", rows)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Names that mean harm, for items and raters."""
    store = tmp_path_factory.mktemp("hostile") / "state.db"
    filled(store, HOSTILE, HOSTILE, 900)
    url = "http://label-studio.example"
    with serving(store, LABEL_STUDIO_URL=url, BBQ_PAGE_TOKEN=TOKEN) as found:
        # A word of a stranger in the log as well.
        assert found.send({"action": HOSTILE[0]}).status == 200
        yield found


def show(browser: webdriver.Chrome, url: str, width: int = DESK, scheme: str = "light") -> None:
    look(browser, width, scheme)
    browser.get_log("browser")  # type: ignore[no-untyped-call] # forget what was before
    browser.get(url)


PAGES = ("/", "/raters", "/rater", "/pairs", "/slices", "/feedback", "/log", "/login")


def address(server: Serving, page: str) -> str:
    name = "?name=%3Cscript%3Ewindow.pwned%3D1%3C%2Fscript%3E" if page == "/rater" else ""
    return f"{server.url}{page}{name}"


@pytest.mark.parametrize("page", PAGES)
def test_hostile_names_neither_run_nor_hide_nor_widen_the_page(
    page: str, browser: webdriver.Chrome, hostile: Serving
) -> None:
    for width in (DESK, PHONE):
        show(browser, address(hostile, page), width)
        assert browser.execute_script("return typeof window.pwned") == "undefined"
        assert browser.execute_script("return document.scripts.length") == 1
        assert browser.execute_script("return document.images.length") == 0
        assert browser.execute_script("return document.documentElement.scrollWidth") == width
        wait_until(lambda: browser.find_element(By.ID, "status").text == "live", "the live line")
        # Not even a complaint of the policy: nothing has tried.
        log = browser.get_log("browser")  # type: ignore[no-untyped-call]
        assert [entry for entry in log if entry["level"] != "DEBUG"] == []
    shown = browser.find_element(By.TAG_NAME, "main").text
    if page in ("/", "/raters", "/rater", "/pairs", "/log"):
        assert HOSTILE[0] in shown


@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_nothing_to_complain_of(
    page: str, browser: webdriver.Chrome, hostile: Serving
) -> None:
    for scheme, width in (("light", DESK), ("dark", PHONE)):
        show(browser, address(hostile, page), width, scheme)
        wrong, n_passed = complaints(browser)
        assert wrong == []
        assert n_passed > 15


def test_the_page_fills_and_follows_without_being_loaded_again(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    with serving(tmp_path / "state.db") as server:
        show(browser, server.url)
        assert "No answers yet" in browser.find_element(By.TAG_NAME, "main").text
        browser.execute_script("window.same = 'page'")
        for n in range(1, 4):
            server.send(event(n, items=("first-model", "second-model")))
        wait_until(lambda: text_of(browser, "n") == "3", "three answers on the page")
        assert "first-model" in text_of(browser, "board")
        for n in range(4, 30):
            server.send(event(n, items=("third-model", "first-model")))
        wait_until(lambda: text_of(browser, "n") == "29", "29 answers on the page")
        assert "third-model" in text_of(browser, "board")
        assert browser.execute_script("return window.same") == "page"


def _says(browser: webdriver.Chrome, word: str) -> bool:
    return word in text_of(browser, "foot")


def test_thousands_of_raters_come_in_parts_sorted_and_found(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    store = tmp_path / "state.db"
    raters = tuple(f"rater-{n:04d}" for n in range(3000))
    filled(store, tuple("abcdef"), raters, 30_000)
    with serving(store) as server:
        first = server.ask("/raters").text
        assert len(first) < 400_000
        assert "1–50 of 3,000 raters" in first
        assert "2,951–3,000 of 3,000" in server.ask("/raters?page=60").text
        assert "2,951–3,000 of 3,000" in server.ask("/raters?page=999999").text
        assert "rater-1234" in server.ask("/raters?q=1234").text
        show(browser, f"{server.url}/raters?sort=rater", PHONE)
        names = [e.text for e in browser.find_elements(By.CSS_SELECTOR, ".raters tbody th")]
        assert names == sorted(raters)[:50]
        browser.find_element(By.LINK_TEXT, "next").click()
        names = [e.text for e in browser.find_elements(By.CSS_SELECTOR, ".raters tbody th")]
        assert names == sorted(raters)[50:100]


def test_whoever_has_the_token_may_log_in_and_nobody_else(
    browser: webdriver.Chrome, hostile: Serving
) -> None:
    show(browser, hostile.url)
    assert "log in" in text_of(browser, "foot")
    for token, foot in (("wrong", "log in"), (TOKEN, "may write")):
        show(browser, f"{hostile.url}/login")
        browser.find_element(By.ID, "token").send_keys(token)
        browser.find_element(By.CSS_SELECTOR, "main button").click()
        wait_until(partial(_says, browser, foot), foot)


# -- without a browser


def test_every_answer_carries_the_headers_that_keep_a_page_in_its_place(hostile: Serving) -> None:
    for path in ("/", "/raters", "/static/page.js", "/health", "/nothing"):
        headers = hostile.ask(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
    html = hostile.ask("/").text
    assert "<style" not in html
    assert " style=" not in html
    assert html.count("<script") == 1


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("127.0.0.1:8765", 200), ("[::1]:1", 200),
        ("evil.example", 421), ("localhost.evil.example", 421), ("", 421), ("[", 421),
    ],
)  # fmt: skip
def test_the_page_answers_only_to_names_of_this_machine(
    host: str, status: int, hostile: Serving
) -> None:
    assert hostile.ask("/", headers={"Host": host}).status == status


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", "http://127.0.0.1:1"])
def test_a_post_from_another_page_is_refused(origin: str | None, hostile: Serving) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    if origin is not None:
        headers["Origin"] = origin
    for path in ("/feedback/dry-run", "/feedback/apply", "/login"):
        assert hostile.ask(path, b"token=x", headers).status == 403


def test_nothing_is_written_without_the_token(hostile: Serving) -> None:
    headers = {"Origin": hostile.url, "Content-Type": "application/x-www-form-urlencoded"}
    assert hostile.ask("/feedback/apply", b"plan=x", headers).status == 403
    assert hostile.ask("/", b"", headers).status == 405
    assert hostile.ask("/feedback/apply", method="DELETE").status in (403, 405)


@pytest.mark.parametrize(
    "query",
    ["page=-1", "page=x", "page=99999999999999999999", "page=%C2%B2", "sort=__class__", "q=%00"],
)
def test_odd_questions_are_answered(query: str, hostile: Serving) -> None:
    for path in ("/", "/raters", "/log"):
        assert hostile.ask(f"{path}?{query}").status == 200
    assert hostile.ask(f"/rater?name=nobody&{query}").status == 404


def test_an_answer_leads_into_label_studio(tmp_path: Path) -> None:
    with serving(tmp_path / "state.db", LABEL_STUDIO_URL="http://ls.example:8080/") as server:
        for n in range(1, 4):
            assert server.send(event(n, rater=7)).status == 200
        server.wait_for(3)
        page = server.ask("/rater?name=7").text
        assert 'href="http://ls.example:8080/projects/1/data?task=2&amp;annotation=2"' in page


def test_the_pairs_page_says_what_more_answers_would_buy(tmp_path: Path) -> None:
    filled(tmp_path / "state.db", ("a", "b", "c"), ("ann", "bob"), 30)
    with serving(tmp_path / "state.db") as server:
        server.wait_for(30)
        said = "After 200 more answers by typical raters, on pairs chosen for "
        server.wait_until(lambda: said in server.ask("/pairs").text, "the outlook")
        page = server.ask("/pairs").text
    assert said + "the best item, P(best) of the leader is expected to be " in page
    assert said + "the whole ranking, " in page
    assert "86–100%" in page


# -- what a lead looks at


WEEK_S = 7 * 24 * 3600.0
BEGAN = 1.7e9


def weeks_of(store: Path, n: int = 600) -> None:
    """A study that ran for four weeks and came into the store at once, years later."""
    study = simulate(items=5, raters=12, comparisons=n, guessers=0.2, seed=3)
    answers = [
        Comparison(
            f"ls:1:{k}", str(c.rater), c.left, c.right, c.outcome,
            at=BEGAN + 4 * WEEK_S * k / n,
            tags={"language": ("de", "en", "fr")[k % 3], "prompt": f"p{k % 40}"},
        )
        for k, c in enumerate(study.comparisons(), 1)
    ]  # fmt: skip
    with Engine(store) as engine:
        engine.add(answers)


@pytest.fixture(scope="module")
def weeks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    store = tmp_path_factory.mktemp("weeks") / "state.db"
    weeks_of(store)
    with serving(store) as found:
        found.wait_until(lambda: "As of 600" in found.ask("/").text, "when to stop")
        yield found


def test_a_study_that_ran_for_weeks_shows_its_weeks(weeks: Serving) -> None:
    weeks.wait_until(lambda: "time (UTC)" in weeks.ask("/").text, "the history of the answers")
    rows = weeks.ask("/download/history.json").json()["rows"]
    moments = sorted({datetime.fromisoformat(row["at"]).timestamp() for row in rows})
    assert len(moments) > 10
    assert moments[0] < BEGAN + WEEK_S
    # It ends with the last answer, and not with the day on which it was looked at.
    assert moments[-1] == pytest.approx(BEGAN + 4 * WEEK_S, abs=1)
    counts = [row["n_comparisons"] for row in rows]
    assert counts == sorted(counts)
    assert counts[-1] == 600
    # What was known by the middle is what the answers until then say.
    with Engine(weeks.store.with_name("half.db")) as half:
        half.add(c for c in records(weeks.store) if c.at is not None and c.at <= moments[14])
        board = {row.item: row.rating for row in bbq.leaderboard(half.fit)}
    then = {r["item"]: r["rating"] for r in rows if r["n_comparisons"] == half_of(rows, 14)}
    assert max(abs(board[name] - then[name]) for name in board) < 60


def half_of(rows: list[dict[str, Any]], place: int) -> int:
    return int(sorted({row["n_comparisons"] for row in rows})[place])


def records(store: Path) -> list[Comparison]:
    with Store(store, writable=False) as opened:
        return list(records_of(opened))


def test_the_first_screen_says_what_the_raters_change_and_what_to_do_next(weeks: Serving) -> None:
    page = weeks.ask("/").text
    first = page[: page.index('id="board"')]
    assert re.search(r"Of 12 raters, \d are to be excluded and \d to be watched\.", first), first
    assert "What to do next" in first
    assert "#stop" in first or "after 200 more answers by typical raters" in first
    # The axis of the leaderboard, and the tables of the stopping rule folded away.
    assert 'class="scale"' in page
    stop = page[page.index('id="stop"') : page.index('id="history"')]
    assert stop.index("<details") < stop.index("<table")
    assert stop.count("<p>") >= 3


def test_agreement_is_by_prompt_where_answers_name_theirs(weeks: Serving) -> None:
    rows = weeks.ask("/download/agreement.json").json()["rows"]
    assert rows
    assert all(re.fullmatch(r"p\d+", row["value"]) for row in rows)
    assert "two items and prompt" in weeks.ask("/raters").text


def test_slices_by_tag_are_made_behind_the_page(weeks: Serving) -> None:
    weeks.wait_until(lambda: "3 slices by language" in weeks.ask("/slices").text, "the slices")
    page = weeks.ask("/slices?tag=language").text
    assert page.count("answers<br>12 raters") == 3
    rows = weeks.ask("/download/slices.json?tag=language").json()["rows"]
    assert {row["slice"] for row in rows} == {"de", "en", "fr"}
    assert len(rows) == 15


def test_the_board_with_covariates_held_equal_stands_beside_the_slices(tmp_path: Path) -> None:
    weeks_of(tmp_path / "state.db")
    with serving(tmp_path / "state.db", "--covariate", "side") as server:
        server.wait_until(lambda: "left, not right" in server.ask("/slices").text, "the effect")
        page = server.ask("/slices").text
        assert "3 slices by language" in page or "being computed" in page
        assert '<th scope="col">held equal</th>' in page
        (effect,) = server.ask("/download/covariates.json").json()["rows"]
        assert effect["covariate"] == "side"
        assert len(server.ask("/download/held-equal.json").json()["rows"]) == 5
    with serving(tmp_path / "state.db", BBQ_COVARIATE="length_dif") as server:
        server.wait_until(
            lambda: "no covariate &#39;length_dif&#39;" in server.ask("/slices").text, "the reason"
        )


@pytest.mark.parametrize("page", ["/", "/raters", "/rater?name=rater-01", "/pairs", "/log"])
def test_each_table_has_its_downloads_beside_it(page: str, weeks: Serving) -> None:
    weeks.wait_until(lambda: "being computed" not in weeks.ask(page).text, "all of the page")
    _, *tables = weeks.ask(page).text.split('class="scroll"')
    assert tables
    for table in tables:
        beside = table[table.index("</table>") :]
        for kind in (".csv?", ".json?", "data-png="):
            assert kind in beside, table[:200]


@pytest.mark.parametrize("table", [*TABLES, "sources", "plan", "answers", "slices", "verdicts"])
def test_each_table_is_a_file(table: str, weeks: Serving) -> None:
    query = "?name=rater-01&tag=language"
    text = weeks.ask(f"/download/{table}.csv{query}")
    assert text.status == 200
    assert text.headers["content-disposition"].startswith('attachment; filename="bbq-main-')
    document = weeks.ask(f"/download/{table}.json{query}").json()
    assert document["schema"] == "bbq.table/1"
    rows = list(csv.DictReader(io.StringIO(text.text)))
    assert len(rows) == len(document["rows"])
    assert rows or table in ("axis", "plan", "slices", "sources", "covariates", "held-equal")
    assert weeks.ask(f"/download/{table}.xml").status == 404
    assert weeks.ask("/download/nothing.csv").status == 404


def test_a_file_runs_no_formula(hostile: Serving) -> None:
    for table in ("leaderboard", "raters", "pairwise"):
        for row in csv.reader(io.StringIO(hostile.ask(f"/download/{table}.csv").text)):
            assert not any(cell.startswith(("=", "+", "@")) for cell in row)


@pytest.mark.parametrize(("page", "section"), [("/", "board"), ("/raters", "scatter")])
def test_tables_and_charts_are_drawn_as_png(
    page: str, section: str, browser: webdriver.Chrome, weeks: Serving, tmp_path: Path
) -> None:
    browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    show(browser, weeks.url + page, scheme="dark")
    browser.find_element(By.CSS_SELECTOR, f"[data-png={section}]").click()
    head = wait_until(
        lambda: b"".join(file.read_bytes() for file in tmp_path.glob("*.png")), "the picture"
    )
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:24])
    assert width > 1500
    assert height > 400
    # Not an empty sheet.
    assert len(head) > 20_000
    log = browser.get_log("browser")  # type: ignore[no-untyped-call]
    assert [entry for entry in log if entry["level"] != "DEBUG"] == []
