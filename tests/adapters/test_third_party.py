"""The adapter of adapters/README.md, installed as a package of its own."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

README = Path(__file__).parents[2] / "adapters" / "README.md"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found.group(1)


def wheel(folder: Path) -> Path:
    """A wheel as a build tool makes it of the two files, without fetching a build tool."""
    project = tomllib.loads(block("toml"))["project"]
    info = f"bbq_chess-{project['version']}.dist-info"
    entries = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in found.items())
        for group, found in project["entry-points"].items()
    )
    requires = "".join(f"Requires-Dist: {one}\n" for one in project["dependencies"])
    files = {
        "bbq_chess.py": block("python"),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {project['name']}\n"
        f"Version: {project['version']}\n{requires}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": entries,
    }
    record = ""
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=")
        record += f"{name},sha256={digest.decode()},{len(content.encode())}\n"
    path = folder / f"bbq_chess-{project['version']}-py3-none-any.whl"
    with ZipFile(path, "w") as archive:
        for name, content in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(name, content)
    return path


USE = """
import json
import bbq_plugin as bbq
from bbq_plugin.plugins import adapters, describe
data = bbq.read("club.chess", draws="false")
print(json.dumps({
    "known": sorted(adapters()),
    "why": data.sources[0].why,
    "items": data.items,
    "n": data.n_comparisons,
    "skipped": dict(data.skip_reasons),
    "options": [[o.name, o.takes, o.default, o.help] for o in describe("chess")[0].options],
}))
"""


def test_the_adapter_of_the_readme_is_short() -> None:
    assert len([line for line in block("python").splitlines() if line.strip()]) <= 35


def test_the_adapter_of_the_readme_works_as_a_package_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("pip", reason="this environment has no pip to install the package with")
    site = tmp_path / "site"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-index",
            "--no-deps",
            "--disable-pip-version-check",
            "--target",
            str(site),
            str(wheel(tmp_path)),
        ],
        check=True,
    )
    (tmp_path / "club.chess").write_text("Anna Bert 1-0\nBert Cleo 1/2-1/2\nCleo Anna *\n")
    root = Path(__file__).parents[2]
    paths = [str(site), str(root), str(root / "adapters")]
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", USE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    said = json.loads(found.stdout)
    assert {"chess", "arena"} <= set(said.pop("known"))
    assert said == {
        "why": "a file called .chess",
        "items": ["Anna", "Bert"],
        "n": 1,
        "skipped": {"drawn, left out as asked": 1, "the game was not finished": 1},
        "options": [["draws", "true|false", "true", "keep drawn games as ties, or leave them out"]],
    }
