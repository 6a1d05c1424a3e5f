"""CONTRIBUTING.md names rooms and functions, docs/method.md names modules: all of them exist."""

from __future__ import annotations

import importlib
import itertools
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "bbq_plugin"
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MAP, WALKS = (
    TEXT.split(f"## {title}\n")[1].split("\n## ")[0]
    for title in ("The map", "Four walks through the code")
)
FUNCTIONS = sorted(
    {
        name
        for line in re.findall(r"^\d\. .*", WALKS, re.MULTILINE)
        for name in re.findall(r"`([a-z_.]+\.[A-Za-z_.]+)`", line)
    }
)
MODULES = sorted(
    set(re.findall(r"`([a-z_/]+\.py)`", (ROOT / "docs/method.md").read_text(encoding="utf-8")))
)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_the_walks_exists(name: str) -> None:
    parts = (name if name.startswith("bbq_adapters.") else f"bbq_plugin.{name}").split(".")
    modules = itertools.takewhile(str.islower, parts[:-1])
    path = ".".join(modules)
    found: Any = importlib.import_module(path)
    for part in parts[path.count(".") + 1 :]:
        found = getattr(found, part)
    assert callable(found) or isinstance(found, property)


def test_there_are_four_walks() -> None:
    assert len(re.findall(r"^\*\*.*\*\*$", WALKS, re.MULTILINE)) == 4
    assert len(FUNCTIONS) > 20


def test_every_room_is_on_the_map_and_nothing_else() -> None:
    rows = [line.split("|")[1] for line in MAP.splitlines() if line.startswith("| `")]
    named = {name.removesuffix("/") for row in rows for name in re.findall(r"`([^`]+)`", row)}
    there = {
        path.name
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert named == there - {"__init__.py", "__main__.py"}


@pytest.mark.parametrize("path", MODULES)
def test_a_module_of_the_method_exists(path: str) -> None:
    assert (PACKAGE / path).exists()
