"""docs/label-studio.md is run: what it shows by hand, in order, against a real server."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner

from bbq_plugin.cli import main
from tests.live.label_studio.study import fill

if TYPE_CHECKING:
    import pytest

    from tests.live.label_studio.server import Server, User

PAGE = Path(__file__).resolve().parents[3] / "docs" / "label-studio.md"

_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def lines(text: str) -> list[str]:
    """Without numbers and blanks, which differ from server to server."""
    return [" ".join(re.sub(r"[0-9][0-9,]*", "N", line).split()) for line in text.splitlines()]


def section(title: str) -> str:
    """One chapter of the page."""
    (_, found) = PAGE.read_text(encoding="utf-8").split(f"\n## {title}\n")
    return found.partition("\n## ")[0]


def test_the_page_shows_what_happens(
    label_studio: Server, people: list[User], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd = fill(label_studio, people, n_tasks=120, n_guessers=0)
    monkeypatch.chdir(tmp_path)
    environment = {
        "LABEL_STUDIO_URL": label_studio.url,
        "LABEL_STUDIO_API_KEY": label_studio.token,
        "COLUMNS": "120",
    }
    commands = 0
    for block in _BLOCK.findall(section("By hand")):
        for piece in block.split("$ bbq ")[1:]:
            command, _, shown = piece.partition("\n")
            typed = command.replace("--project 5", f"--project {crowd.project}")
            result = CliRunner(env=environment).invoke(main, shlex.split(typed), prog_name="bbq")
            assert result.exit_code == 0, result.output
            happened = lines(result.output)
            for line in lines(shown):
                assert line in happened, result.output
            commands += 1
    assert commands == 5
