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


def modules() -> dict[str, str]:
    """The modules of the example: a block that begins with a name, and those that go on with it."""
    text = README.read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        named = re.match(r"# (\w+\.py)\n", code)
        if named:
            found[named[1]] = code
        elif code.startswith("class "):
            last = next(reversed(found))
            found[last] += "\n\n" + code
    return found


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
        **modules(),
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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example as a package that pip has installed."""
    pytest.importorskip("pip", reason="this environment has no pip to install the package with")
    folder = tmp_path_factory.mktemp("package")
    quiet = ["--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "install", *quiet]
    subprocess.run([*pip, "--target", str(folder / "site"), str(wheel(folder))], check=True)
    return folder / "site"


def run(site: Path, folder: Path, *words: str) -> str:
    """Run Python with the package installed."""
    root = Path(__file__).parents[2]
    paths = [str(site), str(root), str(root / "adapters")]
    found = subprocess.run(
        [sys.executable, "-W", "error", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_the_adapter_of_the_readme_works_as_a_package_of_its_own(
    site: Path, tmp_path: Path
) -> None:
    (tmp_path / "club.chess").write_text("Anna Bert 1-0\nBert Cleo 1/2-1/2\nCleo Anna *\n")
    said = json.loads(run(site, tmp_path, "-c", USE))
    assert {"chess", "arena"} <= set(said.pop("known"))
    assert said == {
        "why": "a file called .chess",
        "items": ["Anna", "Bert"],
        "n": 1,
        "skipped": {"drawn, left out as asked": 1, "the game was not finished": 1},
        "options": [["draws", "true|false", "true", "keep drawn games as ties, or leave them out"]],
    }


EVENTS = """
import bbq_plugin as bbq
game = {"game": 7, "white": "Anna", "black": "Bert", "result": "1-0", "arbiter": "Kim"}
with bbq.Hook("games.db", adapter="club") as hook:
    hook(game)
    hook(game)
    hook(game | {"result": "0-1"})
    hook(game | {"game": 8})
from bbq_plugin.store import read_store
data = read_store("games.db")
print(data.n_comparisons, list(data.raters))
"""


def test_the_events_of_the_readme_are_stored_once_and_corrected(site: Path, tmp_path: Path) -> None:
    assert run(site, tmp_path, "-c", EVENTS) == "2 ['Kim']\n"


def test_the_feedback_of_the_readme_is_planned_applied_and_undone(
    site: Path, tmp_path: Path
) -> None:
    club = tmp_path / "club"
    club.mkdir()
    names = ["Anna", "Bert", "Cleo"]
    games = [f"{a} {b} 1-0 {who}\n" for who in "KLM" for a in names for b in names if a < b]
    (club / "may.chess").write_text("".join(games * 4))
    queue = "Anna Cleo\nAnna Bert\nBert Cleo\n"
    (club / "queue.txt").write_text(queue)
    bbq = ["-m", "bbq_plugin"]
    place = ["--project", "club", "--store", "games.db"]
    assert "36 new" in run(site, tmp_path, *bbq, "pull", *place)
    (action,) = json.loads(run(site, tmp_path, *bbq, "push", *place, "--format", "json"))["actions"]
    assert action["kind"] == "order"
    assert (club / "queue.txt").read_text() == queue
    run(site, tmp_path, *bbq, "push", *place, "--apply")
    assert (club / "queue.txt").read_text() == action["after"]["text"] != queue
    run(site, tmp_path, *bbq, "push", *place, "--undo")
    assert (club / "queue.txt").read_text() == queue
