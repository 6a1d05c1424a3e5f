"""The release: the same bytes from any copy of a commit, and a wheel that works when installed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PYTHONS = ["3.11", "3.12", "3.13"]
NOT_SHIPPED = shutil.ignore_patterns(".git", ".venv", ".*_cache", ".hypothesis", "__pycache__")


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def built(source: Path, into: Path) -> dict[str, bytes]:
    pytest.importorskip("hatchling")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(into)],
        cwd=source,
        env=environment,
        check=True,
        capture_output=True,
    )
    return {one.name: one.read_bytes() for one in into.iterdir()}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    built(ROOT, folder)
    (found,) = folder.glob("*.whl")
    return found


def test_two_copies_give_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(ROOT, copy, ignore=NOT_SHIPPED)
    again = built(copy, tmp_path / "dist")
    first = {one.name: one.read_bytes() for one in wheel.parent.iterdir()}
    assert {n: hashlib.sha256(b).hexdigest() for n, b in again.items()} == {
        n: hashlib.sha256(b).hexdigest() for n, b in first.items()
    }


def test_the_version_is_the_same_everywhere() -> None:
    import bbq_plugin  # noqa: PLC0415 (its version)

    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == project()["version"] == bbq_plugin.__version__


def test_the_extra_all_has_every_extra_of_users() -> None:
    extras = project()["optional-dependencies"]
    (named,) = extras["all"]
    assert set(named.partition("[")[2].rstrip("]").split(",")) == set(extras) - {
        "all", "bench", "dev", "docs",
    }  # fmt: skip


SEEN = """
import json, pathlib, bbq_plugin, bbq_adapters
from bbq_plugin.plugins import adapters
here = pathlib.Path(bbq_plugin.__file__).parent
print(json.dumps({
    "version": bbq_plugin.__version__,
    "typed": (here / "py.typed").is_file(),
    "n": len(adapters()),
    "templates": len(list(here.rglob("*.j2"))),
}))
"""


def named(version: str) -> list[str]:
    """Where a version of Python may be: on the path, or among those of pyenv."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [f"python{version}", *map(str, root.glob(f"versions/{version}.*/bin/python"))]
    return [path for one in found if (path := shutil.which(one))]


def works(python: str) -> bool:
    # A shim of pyenv is there for versions too that are not switched on.
    return not subprocess.run(
        [python, "-c", "import venv"], capture_output=True, check=False
    ).returncode


@pytest.mark.parametrize("version", PYTHONS)
def test_the_wheel_works_in_an_environment_of_its_own(
    wheel: Path, tmp_path: Path, version: str
) -> None:
    python = next((one for one in named(version) if works(one)), None)
    if python is None:
        pytest.skip(f"there is no python{version} here")
    subprocess.run([python, "-m", "venv", str(tmp_path / "clean")], check=True)
    there = tmp_path / "clean" / "bin"
    pip = [str(there / "python"), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    # To compile all of scipy would take longer than everything else here.
    done = subprocess.run(
        [*pip, "--no-compile", str(wheel)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"its dependencies cannot be installed: {done.stderr.strip()[-200:]}")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    said = subprocess.run(
        [str(there / "python"), "-c", SEEN],
        cwd=tmp_path,
        env=clean,
        check=True,
        capture_output=True,
        text=True,
    )
    assert json.loads(said.stdout) == {
        "version": project()["version"],
        "typed": True,
        "n": len(project()["entry-points"]["bbq_plugin.adapters"]),
        "templates": len(list((ROOT / "bbq_plugin").rglob("*.j2"))),
    }
    for words in (["simulate", "-o", "votes.jsonl"], ["inspect", "votes.jsonl"], ["--version"]):
        subprocess.run([str(there / "bbq"), *words], cwd=tmp_path, env=clean, check=True)
