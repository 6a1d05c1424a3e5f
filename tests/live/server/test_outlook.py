"""When to stop, on the live page: the words of the report, made behind it, valid at every look."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from starlette.requests import Request

import bbq_plugin as bbq
from bbq_plugin.analysis import Analysis, Limits, stopping
from bbq_plugin.analysis.stopping import MIXTURE
from bbq_plugin.data.records import Comparison, Outcome
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.health import Problems
from bbq_plugin.live.server.access_control import AccessRules
from bbq_plugin.live.server.page_state import Outlooks, outlook
from bbq_plugin.live.server.pages import Pages
from bbq_plugin.live.server.service import Service
from bbq_plugin.report.summary import stopping_lines
from bbq_plugin.simulation import simulate
from tests.live.server.payloads import event
from tests.live.server.serving import Serving, serving
from tests.waiting import HANG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def votes(n: int, seed: int = 1, share: float = 0.5) -> Iterator[Comparison]:
    """Votes between two items, one after the other, shown to either side by turns."""
    rng = np.random.default_rng(seed)
    for k in range(n):
        left, right = ("a", "b") if k % 2 else ("b", "a")
        outcome: Outcome = "left" if (rng.random() < share) == (left == "a") else "right"
        yield Comparison(f"k{k}", f"r{k % 3}", left, right, outcome, version=float(k))


def e_value(engine: Engine) -> float:
    """What the page would say at this moment of the votes between the two."""
    (pair,) = outlook(Analysis(engine.fit)).section.pairs
    return pair.e_value


def gambler(found: list[Comparison]) -> Iterator[float]:
    """The stake of somebody who bets on each vote in the order of arrival, from those before."""
    stake, won = 1.0, {"a": 0, "b": 0}
    for vote in found:
        winner = vote.left if vote.outcome == "left" else vote.right
        chance = (won[winner] + MIXTURE) / (sum(won.values()) + 2 * MIXTURE)
        stake *= chance / 0.5
        won[winner] += 1
        yield stake


def test_each_look_shows_the_stake_of_a_gambler_who_followed_vote_by_vote() -> None:
    found = list(votes(60, share=0.85))
    with Engine() as engine:
        looks = []
        for vote in found:
            engine.add(vote)
            looks.append(e_value(engine))
    assert looks == pytest.approx(list(gambler(found)), rel=1e-9)
    assert max(looks) > 20


def test_the_order_of_arrival_and_a_restart_change_nothing_of_it(tmp_path: Path) -> None:
    found = list(votes(40, share=0.7))
    *_, last = gambler(found)
    for name, order in (("forth", found), ("back", found[::-1])):
        with Engine(tmp_path / name) as engine:
            engine.add(order)
            assert e_value(engine) == pytest.approx(last, rel=1e-9)
        with Engine(tmp_path / name) as engine:
            assert e_value(engine) == pytest.approx(last, rel=1e-9)


def test_an_answer_told_twice_is_one_bet_and_one_taken_back_is_none() -> None:
    found = list(votes(30, share=0.7))
    *_, last = gambler(found)
    with Engine() as engine:
        engine.add(found)
        engine.add(found[:10])
        assert e_value(engine) == pytest.approx(last, rel=1e-9)
        engine.retract(found[-1].key)
        *_, before = gambler(found[:-1])
        assert e_value(engine) == pytest.approx(before, rel=1e-9)


# -- on the page


def filled(store: Path) -> None:
    study = simulate(items=6, raters=12, comparisons=1500, seed=2)
    with Engine(store) as engine:
        engine.add(study.comparisons())
        engine.refresh(full=True)


def section(page: str, own: str) -> str:
    """The text of a part of a page."""
    found = re.search(rf'<section id="{own}" data-live>(.*?)</section>', page, re.DOTALL)
    assert found, page
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", found[1]))


def worked_out(server: Serving, path: str = "/", own: str = "stop") -> str:
    """The part of the page once it is there."""

    def ready() -> str:
        text = section(server.ask(path).text, own)
        return text if "continuous monitoring (" in text else ""

    return str(wait_until(ready, "the section"))


def test_the_page_says_when_to_stop_in_the_words_of_the_report(tmp_path: Path) -> None:
    store = tmp_path / "state.db"
    filled(store)
    with Engine(store) as engine:
        fit = engine.fit
        report = stopping_lines(stopping(fit, bbq.leaderboard(fit)))
    with serving(store) as server:
        shown = worked_out(server)
        pairs = worked_out(server, "/pairs", "matrix")
        page = server.ask("/pairs").text
    # "Significant under continuous monitoring (95%): …", the same on both pages.
    plain = re.sub(r"\s+([.;])", r"\1", shown)
    assert report[-1] in plain
    assert report[-1] in re.sub(r"\s+([.;])", r"\1", pairs)
    for asked in ("The best item", "The best 3", "Every pair of neighbours"):
        assert asked in shown
    assert "As of 1,500 comparisons" in shown
    # The matrix frames the pairs that the sentence counts, each on both sides of the diagonal.
    told = re.search(r"(\d+) of 15 pairs\.", shown)
    assert told
    assert page.count(' apart"') == 2 * int(told[1])


def test_the_section_follows_the_answers_without_anybody_waiting(tmp_path: Path) -> None:
    with serving(tmp_path / "state.db") as server:
        for n in range(1, 5):
            assert server.send(event(n)).status == 200
        server.wait_for(4)
        assert "0 of 1 pair." in worked_out(server)
        assert server.send(event(5)).status == 200
        server.wait_for(5)
        wait_until(lambda: "As of 5 comparisons" in worked_out(server), "the fifth answer")


def test_a_failure_behind_the_page_is_said_once_and_leaves_the_rest() -> None:
    with Engine() as engine:
        engine.add(votes(10))
        analysis = Analysis(engine.fit, Limits(level=2.0))
        told: list[str] = []
        news = threading.Event()
        problems = Problems(lambda event, reason: told.append(f"{event}: {reason}"))
        outlooks = Outlooks(lambda: analysis, news.set, problems)
        outlooks.job.start()
        try:
            assert outlooks.last() is None
            assert news.wait(HANG_S)
            # The analysis is not tried again.
            assert outlooks.last() is None
        finally:
            outlooks.job.stop()
    assert len(told) == 1
    assert told[0].startswith("outlook_failed: ")
    assert [problem.what for problem in problems] == ["outlook"]


# -- pages show what is computed, and compute nothing


def made(name: object, make: object) -> Any:
    raise AssertionError(f"a page computes {name}: {make}")


async def answered(endpoint: Any, asked: Request) -> Any:
    """What a route answers, whether it is awaited or runs in a thread."""
    found = endpoint(asked)
    return await found if inspect.isawaitable(found) else found


@pytest.mark.parametrize("path", ["/", "/raters", "/pairs", "/rater?name=rater-01", "/log"])
def test_a_page_computes_nothing_and_waits_for_no_fit(tmp_path: Path, path: str) -> None:
    store = tmp_path / "state.db"
    filled(store)
    with Engine(store) as engine:
        service = Service(engine, AccessRules(secret=b"0123456789abcdef"))
        service.view.publish(now=True)
        analysis = service.view.analysis
        assert analysis is not None
        service.view.outlooks.last()
        service.view.outlooks.job.start()
        wait_until(service.view.outlooks.last, "the outlook")
        known = dict(analysis._parts)
        analysis._once = lambda name, make: known[name] if name in known else made(name, make)  # type: ignore[method-assign]
        pages = Pages(service, service.webhook, service.rules)
        route = next(one for one in pages.routes() if one.path == path.partition("?")[0])
        asked = Request({
            "type": "http", "method": "GET", "path": route.path, "headers": [], "root_path": "",
            "query_string": path.partition("?")[2].encode(), "server": ("localhost", 80),
        })  # fmt: skip
        # As during a fit, which takes half a minute with ten thousand raters.
        with ThreadPoolExecutor() as another, engine._mutex:
            answer = another.submit(lambda: asyncio.run(answered(route.endpoint, asked)))
            assert answer.result(HANG_S).status_code == 200
        service.view.outlooks.job.stop()
