"""Draws docs/page.png, the live page of a simulated study: `make figures`. Needs Chromium."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import bbq_plugin as bbq
from bbq_plugin.live.engine import Engine
from bbq_plugin.report.history import history_rows
from tests.browsing import browsing
from tests.live.server.serving import serving
from tests.live.server.test_page import show
from tests.waiting import wait_until

PICTURE = Path(__file__).parents[3] / "docs" / "page.png"
WIDTH = 1100
STEP = 200  # answers between two points of the history
BEGUN = 1.79e9  # seconds since 1970


def kept(store: Path) -> None:
    """A store whose answers came in by and by."""
    study = bbq.simulate(items=10, raters=40, comparisons=6000, guessers=0.1, spread=0.6, seed=4)
    answers = list(study.comparisons())
    with Engine(store, priors="auto") as engine:
        for first in range(0, len(answers), STEP):
            engine.add(answers[first : first + STEP])
            rows = history_rows(bbq.leaderboard(engine.fit))
            engine.store.add_history(BEGUN + first, first + STEP, "full", rows)


def main() -> None:
    """Draw it."""
    with TemporaryDirectory() as folder:
        store = Path(folder) / "state.db"
        kept(store)
        with serving(store) as server, browsing(Path(folder) / "profile") as browser:
            server.wait_until(
                lambda: "continuous monitoring" in server.ask("/").text, "when to stop"
            )
            show(browser, server.url, WIDTH)
            wait_until(lambda: browser.find_element("id", "status").text == "live", "the live page")
            height = browser.execute_script("return document.documentElement.scrollHeight")
            browser.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False},
            )
            browser.save_screenshot(str(PICTURE))
    sys.stdout.write("docs/page.png\n")


if __name__ == "__main__":
    main()
