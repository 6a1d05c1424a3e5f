"""The README is run: its commands in order in one folder, its Python as it stands."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner

import bbq_plugin
from bbq_plugin.cli import main

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_commands_of_the_readme_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^\$ (.*)", "\n".join(blocks("console")), flags=re.MULTILINE)
    assert commands
    for command in commands:
        name, *arguments = shlex.split(command, comments=True)
        if name != "bbq":
            subprocess.run(command, shell=True, check=True)  # noqa: S602 - our own README
            continue
        result = CliRunner().invoke(main, arguments, catch_exceptions=False)
        assert result.exit_code == 0, f"{command}: {result.stderr}"


def test_the_python_of_the_readme_works(capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), {})  # noqa: S102 - our own README
    assert "gpt" in capsys.readouterr().out


def test_the_files_that_the_readme_points_to_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_version_is_the_same_everywhere() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{bbq_plugin.__version__}"' in project
