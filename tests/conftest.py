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

# The first example of a test may have to compile a kernel, which no deadline foresees.
settings.register_profile("bbq", deadline=None)
settings.load_profile("bbq")

# A run has one Label Studio and one browser. The tests that need either stay on one worker.
ONE_A_RUN = (
    "tests/live/label_studio/",
    "tests/live/server/test_page.py",
    "tests/report/test_browser.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what has to stay on one worker: together it takes longest."""
    items.sort(key=lambda item: item.nodeid.startswith(ONE_A_RUN), reverse=True)


class Scheduling(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """Which tests stay together: those of a module for its fixtures, and all of `ONE_A_RUN`."""

    def _split_scope(self, nodeid: str) -> str:
        return "one a run" if nodeid.startswith(ONE_A_RUN) else nodeid.partition("::")[0]


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
    assert request.node.nodeid.startswith(ONE_A_RUN), "add this module to ONE_A_RUN"
    _chromium.get("about:blank")
    _chromium.execute_cdp_cmd("Network.clearBrowserCookies", {})
    look(_chromium, DESK, "light")
    return _chromium
