"""docs/commands.md is run: every command in order in one folder, with the output that it shows.

python tests/cli/test_docs.py      rewrites the outputs
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from click.testing import CliRunner

from bbq_plugin.cli import main
from bbq_plugin.cli.main import HOMES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "commands.md"

_FILE = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
_COMMAND = re.compile(r"^\$ bbq (.*)$", re.MULTILINE)


def rendered(page: str) -> str:
    """The page with the outputs that its commands have now."""
    for name, content in _FILE.findall(page):
        Path(name).write_text(content, encoding="utf-8")

    def run_block(block: re.Match[str]) -> str:
        out = "".join(f"$ bbq {line}\n{output(line)}" for line in _COMMAND.findall(block[1]))
        return f"```console\n{out}```"

    return _BLOCK.sub(run_block, page)


def output(command: str) -> str:
    """What a person sees."""
    # The width of the help is that of a terminal of 80 columns, wherever this runs.
    runner = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"})
    result = runner.invoke(main, shlex.split(command), catch_exceptions=False, prog_name="bbq")
    assert result.exit_code == 0, f"{command}: {result.output}"
    return "\n".join(line.rstrip() for line in result.output.splitlines()) + "\n" * bool(
        result.output
    )


def normalised(page: str) -> str:
    """Without what may differ: the version, the time, and digits that a processor decides."""
    page = re.sub(r"\bbbq \d+\.\d+\.\d+\w*", "bbq VERSION", page)
    page = re.sub(r"│ +\d+\.\d\d │$", "│ SECONDS │", page, flags=re.MULTILINE)
    return re.sub(r"-?\d+\.\d{7,}(e-?\d+)?", lambda number: f"{float(number[0]):.4g}", page)


def test_the_page_shows_what_the_commands_print(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        now = rendered(page)
    finally:
        os.chdir(before)
    hint = "run: python tests/cli/test_docs.py"
    assert normalised(now).splitlines() == normalised(page).splitlines(), hint


def test_every_command_has_help_and_a_section() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in HOMES:
        assert f"\n## bbq {name}\n" in page
        assert f"\n$ bbq {name} --help\n" in page


def test_every_schema_that_is_written_is_documented() -> None:
    package = PAGE.parent.parent / "bbq_plugin"
    page = PAGE.read_text(encoding="utf-8")
    for folder in ("cli", "report", "live"):
        for path in (package / folder).glob("*.py"):
            for schema in re.findall(r'SCHEMA = "(bbq\.\w+/\d)"', path.read_text("utf-8")):
                assert schema in page


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        text = rendered(text)
    PAGE.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{PAGE.name} is up to date\n")
