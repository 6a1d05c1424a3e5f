"""The unit file and the container file: what they say is what the program understands."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from bbq_plugin.cli import main
from bbq_plugin.config import KEYS

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
UNITS = sorted((EXAMPLES / "deploy").glob("*.service"))
CONTAINER = EXAMPLES / "deploy" / "Containerfile"
COMPOSE = EXAMPLES / "deploy" / "compose.yaml"
KNOWN = {key.variable for key in KEYS} | {"BBQ_CONFIG"}


def parsed(words: list[str]) -> dict[str, Any]:
    """What a command understands, as the group calls it."""
    with click.Context(main, **main.context_settings) as context:
        command = main.get_command(context, words[0])
        assert command is not None
        return command.make_context(words[0], words[1:], parent=context).params


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_the_unit_starts_a_command_that_exists(unit: Path) -> None:
    (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
    program, *words = shlex.split(line)
    assert Path(program).name == "bbq"
    assert f"bbq-{words[0]}" == unit.stem
    assert str(parsed(words)["store"]).startswith("/var/lib/bbq/")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_finds_no_fault_in_the_unit(unit: Path, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd is not installed")
    copy = tmp_path / unit.name
    # It looks whether the program is there.
    copy.write_text(unit.read_text().replace("/opt/bbq/bin/bbq", sys.executable))
    done = subprocess.run([analyze, "verify", copy], capture_output=True, text=True, check=False)
    assert unit.name not in done.stderr
    assert done.returncode == 0, done.stderr


def test_the_compose_file_opens_the_proxy_only_and_its_words_are_understood() -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    assert [name for name, one in services.items() if "ports" in one] == ["proxy"]
    words = [re.sub(r"\$\{PROJECT:-(\d+)\}", r"\1", word) for word in services["bbq"]["command"]]
    assert parsed(words)["reconcile_s"] == 300
    build = services["bbq"]["build"]
    assert (COMPOSE.parent / build["context"] / build["dockerfile"]).is_file()
    for mount in services["proxy"]["volumes"]:
        source = mount.partition(":")[0]
        assert not source.startswith("./") or (COMPOSE.parent / source).is_file()


@pytest.mark.parametrize("file", [*UNITS, CONTAINER], ids=lambda file: file.name)
def test_the_variables_are_settings(file: Path) -> None:
    assert set(re.findall(r"\bBBQ_[A-Z_]+", file.read_text())) <= KNOWN
    assert "NUMBA_CACHE_DIR" in file.read_text()


def test_the_container_gets_what_the_package_is_made_of_and_no_secrets() -> None:
    copied = {
        word
        for line in re.findall(r"^COPY (.*)$", CONTAINER.read_text(), re.MULTILINE)
        for word in line.split()[:-1]
    }
    project = tomllib.loads((EXAMPLES.parent / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    made_of = {Path(one).parts[0] for one in packages}
    own = project["project"]
    assert copied == {"pyproject.toml", own["readme"], *own["license-files"], *made_of}


def test_the_container_starts_the_daemon_itself_so_that_signals_reach_it() -> None:
    assert 'ENTRYPOINT ["bbq"]\nCMD ["watch"]\n' in CONTAINER.read_text()
