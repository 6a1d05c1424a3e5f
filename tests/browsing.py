"""Chromium without a screen."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from tests.waiting import HANG_S

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars",
)  # fmt: skip

DESK, PHONE = 1280, 390


@contextmanager
def browsing(profile: Path, *logs: str) -> Iterator[webdriver.Chrome]:
    """A browser with a profile of its own; it keeps these logs beside its console."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", dict.fromkeys(("browser", *logs), "ALL"))
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    driver.set_page_load_timeout(HANG_S)
    driver.set_script_timeout(HANG_S)
    try:
        yield driver
    finally:
        driver.quit()


def text_of(browser: webdriver.Chrome, own: str) -> str:
    """What an element shows now; nothing if it is not there."""
    found = browser.execute_script(
        "const e = document.getElementById(arguments[0]); return e && e.innerText", own
    )
    return str(found or "")


def look(browser: webdriver.Chrome, width: int, scheme: str) -> None:
    """Have pages shown at this width, light or dark."""
    scheme_feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme_feature]})
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == PHONE},
    )


def complaints(
    browser: webdriver.Chrome, impacts: Collection[str] | None = None
) -> tuple[list[tuple[str, str, list[str]]], int]:
    """What axe finds wrong with the page that is shown (of these impacts), and how many passed."""
    axe = files("selenium_axe_python").joinpath("axe-core/axe.min.js").read_text("utf-8")
    browser.execute_script(axe)
    found = browser.execute_async_script(
        "axe.run(document, {resultTypes: ['violations']}).then(arguments[0])"
    )
    wrong = [
        (v["id"], v["help"], [node["html"][:200] for node in v["nodes"][:3]])
        for v in found["violations"]
        if impacts is None or v["impact"] in impacts
    ]
    return wrong, len(found["passes"])
