"""Settings for all tests, and what there is one of in a run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from tests.browsing import CHROMIUM, DESK, DRIVER, browsing, look

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium import webdriver

# The workers share the cores; a second thread for matrices this small only takes them away.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The first example of a test may have to compile a kernel, which no deadline foresees. A run of the
# tests tries the same examples each time; `make fuzz` tries new ones.
settings.register_profile("bbq", deadline=None, derandomize=True)
settings.register_profile("new-examples", deadline=None)
settings.load_profile("bbq")

# Tests that share a worker, and with it a Label Studio or the browser: to start one takes longer
# than most tests. There are two such groups, about equally long, and only one has the browser.
_LABEL_STUDIO = "tests/live/label_studio/"
TOGETHER = {
    "a Label Studio": tuple(
        f"{_LABEL_STUDIO}test_{name}.py"
        for name in ("push", "push_alone", "push_cut", "push_meanwhile", "push_page", "kill")
    ),
    "the browser, and a Label Studio": (
        _LABEL_STUDIO,
        "tests/live/server/test_page.py",
        "tests/report/test_browser.py",
        "tests/test_site.py",
    ),
}
HAS_BROWSER = "the browser, and a Label Studio"


def together(nodeid: str) -> str | None:
    """The group of a test, if it has one."""
    return next((name for name, some in TOGETHER.items() if nodeid.startswith(some)), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the groups: together they take longest."""
    order = [*TOGETHER, None]
    items.sort(key=lambda item: order.index(together(item.nodeid)))


class Scheduling(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """Which tests stay together: those of a group, and those of a module for its fixtures."""

    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid) or nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    """Give tests to workers that way."""
    return Scheduling(config, log)


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than there are cores: much of the time goes by waiting for a server."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session")
def _chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("Chromium and chromedriver are not installed (.ci/run installs them)")
    with browsing(tmp_path_factory.mktemp("profile"), "performance") as driver:
        yield driver


@pytest.fixture
def browser(_chromium: webdriver.Chrome, request: pytest.FixtureRequest) -> webdriver.Chrome:
    """A browser that remembers nothing of the test before."""
    assert together(request.node.nodeid) == HAS_BROWSER, "add this module to TOGETHER"
    _chromium.get("about:blank")
    _chromium.execute_cdp_cmd("Network.clearBrowserCookies", {})
    look(_chromium, DESK, "light")
    return _chromium
