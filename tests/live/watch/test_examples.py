"""The unit file and the container file: what they say is what the program understands."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from bbq_plugin.cli import main
from bbq_plugin.config import KEYS

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
UNIT = EXAMPLES / "systemd" / "bbq-watch.service"
CONTAINER = EXAMPLES / "container" / "Containerfile"
KNOWN = {key.variable for key in KEYS} | {"BBQ_CONFIG"}


def test_the_unit_starts_a_command_that_exists() -> None:
    (line,) = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(), re.MULTILINE)
    program, command, *arguments = shlex.split(line)
    assert Path(program).name == "bbq"
    # As the group calls it: a command remembers the first words for its help that it was asked for.
    with click.Context(main, **main.context_settings) as context:
        watch = main.get_command(context, command)
        assert watch is not None
        parsed = watch.make_context("watch", arguments, parent=context)
    assert str(parsed.params["store"]) == "/var/lib/bbq/votes.db"
    assert parsed.params["log_format"] == "json"


def test_systemd_finds_no_fault_in_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd is not installed")
    unit = tmp_path / UNIT.name
    # It looks whether the program is there.
    unit.write_text(UNIT.read_text().replace("/opt/bbq/bin/bbq", sys.executable))
    done = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, check=False)
    assert UNIT.name not in done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("file", [UNIT, CONTAINER], ids=lambda file: file.name)
def test_the_variables_are_settings(file: Path) -> None:
    assert set(re.findall(r"\bBBQ_[A-Z_]+", file.read_text())) <= KNOWN
    assert "NUMBA_CACHE_DIR" in file.read_text()


def test_the_container_starts_the_daemon_itself_so_that_signals_reach_it() -> None:
    assert 'ENTRYPOINT ["bbq", "watch"]' in CONTAINER.read_text()
