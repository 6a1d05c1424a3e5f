"""Settings for all tests, and what there is one of in a run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.browsing import CHROMIUM, DESK, DRIVER, browsing, look

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium import webdriver

# The workers share the cores; a second thread for matrices this small only takes them away.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The first example of a test may have to compile a kernel, which no deadline foresees.
settings.register_profile("bbq", deadline=None)
settings.load_profile("bbq")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than there are cores: much of the time goes by waiting for a server."""
    return (os.cpu_count() or 1) + 1


# Fixtures that a run has once: a real Label Studio, and a real browser.
ONE_A_RUN = {"label_studio", "browser"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests stay together when several workers share them.

    Those that need what a run has once go to one worker, and come first, because together they
    take longest. Of the others, a module stays together for the sake of its fixtures.
    """

    def needs_the_one(item: pytest.Item) -> bool:
        return not ONE_A_RUN.isdisjoint(getattr(item, "fixturenames", ()))

    for item in items:
        group = "one of a run" if needs_the_one(item) else item.path.stem
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=needs_the_one, reverse=True)


@pytest.fixture(scope="session")
def _chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("Chromium and chromedriver are not installed (.ci/run installs them)")
    with browsing(tmp_path_factory.mktemp("profile"), "performance") as driver:
        yield driver


@pytest.fixture
def browser(_chromium: webdriver.Chrome) -> webdriver.Chrome:
    """A browser that remembers nothing of the test before."""
    _chromium.get("about:blank")
    _chromium.execute_cdp_cmd("Network.clearBrowserCookies", {})
    look(_chromium, DESK, "light")
    return _chromium
