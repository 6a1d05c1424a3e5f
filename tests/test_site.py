"""The site of docs/: it builds without a warning, and works from a folder without a server."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browsing import DESK, PHONE, complaints, look
from tests.waiting import wait_until

if TYPE_CHECKING:
    from selenium import webdriver

ROOT = Path(__file__).resolve().parents[1]

#: One page of each kind.
LOOKED_AT = [
    "index", "start", "tutorial", "guide-label-studio", "guide-arena", "potato",
    "reference/commands", "reference/configuration", "reference/python", "evidence",
]  # fmt: skip


def built(folder: Path) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "adapters"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder),
         "-f", str(ROOT / "mkdocs.yml")],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": paths},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("mkdocs") is None or find_spec("material") is None:
        pytest.skip("mkdocs-material is not installed (make docs installs it)")
    folder = tmp_path_factory.mktemp("site")
    done = built(folder)
    assert not done.returncode, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_no_page_names_a_resource_of_another_place(site: Path) -> None:
    # Links that a reader follows are of course allowed.
    loaded = re.compile(
        r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\s>]*"
        r"|<link\b[^>]*\bhref=[\"']?(?:https?:)?//[^\s>]*"
        r"|url\([\"']?(?:https?:)?//[^)]*|@import[^;]*//[^;]*"
    )
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(pages) > 20
    for page in pages:
        assert not loaded.findall(page.read_text(encoding="utf-8")), page


def test_pages_load_only_what_is_in_the_folder(site: Path, browser: webdriver.Chrome) -> None:
    for name in ("index", "reference/python", "tutorial"):
        browser.get_log("performance")  # type: ignore[no-untyped-call] # what was before
        browser.get((site / f"{name}.html").as_uri())
        entries: list[Any] = browser.get_log("performance")  # type: ignore[no-untyped-call]
        events = [json.loads(entry["message"])["message"] for entry in entries]
        addresses = [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]
        assert addresses
        for address in addresses:
            assert address.startswith((site.as_uri(), "data:", "about:", "blob:")), address


def test_the_search_works_without_a_server(site: Path, browser: webdriver.Chrome) -> None:
    browser.get((site / "index.html").as_uri())
    browser.execute_script(
        "document.getElementById('__search').click();"
        "const field = document.querySelector('.md-search__input');"
        "field.focus(); field.value = 'Krippendorff';"
        "field.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true}))"
    )
    found = wait_until(
        lambda: browser.execute_script(
            "return [...document.querySelectorAll('.md-search-result__link')].map(a => a.href)"
        ),
        "results of the search",
    )
    assert any("report.html" in link for link in found), found


@pytest.mark.parametrize("name", LOOKED_AT)
def test_axe_finds_nothing_serious(site: Path, browser: webdriver.Chrome, name: str) -> None:
    for width, scheme in ((DESK, "light"), (PHONE, "dark")):
        look(browser, width, scheme)
        browser.get((site / f"{name}.html").as_uri())
        wrong, passed = complaints(browser, ("serious", "critical"))
        assert passed > 10
        assert not wrong, (width, scheme)


FAULTS = {
    "    bbq fits votes.jsonl\n": "no command fits",
    "```console\n$ bbq fit votes.jsonl --modell bbq\n```\n": "no option --modell",
    "```python\nimport bbq_plugin as bbq\n\nbbq.leaderbord(fit)\n```\n": "has no leaderbord",
    "```python\nfrom bbq_plugin import Fitt\n```\n": "has no Fitt",
    "```python\nprint(\n```\n": "cannot be parsed",
    "```toml\nstore = \n```\n": "cannot be parsed",
    "```json\n{judge: 1}\n```\n": "cannot be parsed",
}


def test_the_build_checks_every_code_block(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mkdocs", reason="make docs installs it")
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    build = importlib.import_module("build")
    for text, problem in FAULTS.items():
        ((_, said),) = build.faults(f"# A page\n\n{text}")
        assert problem in said
    assert not list(build.faults("# A page\n\n    bbq fit votes.jsonl --model bbq\n"))
