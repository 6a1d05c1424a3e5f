from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from bbq_plugin.report.files import write_atomically
from bbq_plugin.report.screen import screen_svg
from bbq_plugin.report.text import cell, plain

if TYPE_CHECKING:
    from pathlib import Path


@given(st.text())
def test_plain_text_holds_nothing_that_acts_on_a_terminal(text: str) -> None:
    assert plain(text).isprintable()


def test_plain_text_keeps_what_people_write() -> None:
    assert plain("Käse 日本 [red]") == "Käse 日本 [red]"
    assert plain("\x1b[31mred\u202e") == "\\x1b[31mred\\u202e"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_cell_is_never_a_formula(start: str) -> None:
    assert cell(start + "cmd()") == "'" + start + "cmd()"


def test_numbers_and_harmless_cells_stay_as_they_are() -> None:
    assert cell(-1.5) == -1.5
    assert cell("gpt-4") == "gpt-4"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    write_atomically(target, "old\n")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(target, "new \ud800")
    assert target.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [target]


def test_a_picture_of_the_screen_fetches_nothing() -> None:
    console = Console(record=True, file=StringIO(), width=40)
    console.print(Text("<script>alert(1)</script>"))
    svg = screen_svg(console, "demo")
    assert "alert" in svg
    assert "<script>" not in svg
    assert "@font-face" not in svg
    assert "url(http" not in svg
