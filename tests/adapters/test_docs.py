"""docs/formats.md names every option, and its example is one that works."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from bbq_adapters.table import TableColumns

from bbq_plugin.plugins import describe

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "formats.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("adapter", ["arena", "afc", "table"])
def test_every_option_is_documented(adapter: str) -> None:
    section = TEXT.split(f"\n## {adapter}\n")[1].split("\n## ")[0]
    for option in describe(adapter)[0].options:
        assert re.search(rf"\b{option.name}\b", section), option.name


def test_the_mapping_in_the_docs_is_one() -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    assert TableColumns(**tomllib.loads(block)["mapping"]).values["?"] == "skip"


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (DOCS / target).exists(), target
