"""The walls of the house: who may import whom, what only one room knows, one name for one thing."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parent.parent

# What each room may import, beside itself. Nothing that is not listed.
BASE = {"errors", "text"}
MODEL = BASE | {"data", "model"}
ANALYSIS = MODEL | {"analysis"}
REPORT = ANALYSIS | {"report"}
SCALE = MODEL | {"scale"}
LIVE = REPORT | {"store", "config", "plugins", "protocols", "simulation", "live"}
MAY_IMPORT = {
    "errors": set(),
    "text": set(),
    "data": BASE | {"plugins", "protocols"},
    "protocols": BASE | {"data"},
    "plugins": BASE | {"protocols"},
    "config": BASE | {"data", "plugins", "model"},
    "simulation": BASE | {"data"},
    "model": MODEL,
    "analysis": ANALYSIS,
    "report": REPORT,
    "store": BASE | {"data"},
    "scale": SCALE,
    "live": LIVE,
    "cli": LIVE | {"cli", "scale"},
    "__main__": {"cli"},
}

ADAPTERS_MAY_IMPORT = BASE | {"data", "protocols"}


def imports(path: Path) -> Iterator[str]:
    """The modules that a file imports, at its top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the room they come from"
            assert node.module is not None
            if node.module == "bbq_plugin":
                yield from (f"bbq_plugin.{alias.name}" for alias in node.names)
            else:
                yield node.module


def room(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "bbq_plugin" and len(parts) > 1 else None


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def test_every_room_is_on_the_list() -> None:
    package = ROOT / "bbq_plugin"
    rooms = {p.relative_to(package).with_suffix("").parts[0] for p in sources("bbq_plugin")}
    assert rooms - {"__init__"} == MAY_IMPORT.keys()


@pytest.mark.parametrize("path", sources("bbq_plugin"), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    here = path.relative_to(ROOT / "bbq_plugin").with_suffix("").parts[0]
    if here == "__init__":
        return
    for module in imports(path):
        assert not module.startswith("bbq_adapters"), f"{path} imports {module}"
        there = room(module)
        # Anything else under bbq_plugin is a name of its __init__, such as the version.
        if there in MAY_IMPORT and there != here:
            assert there in MAY_IMPORT[here], f"{path} imports {module}"


@pytest.mark.parametrize("path", sources("adapters"), ids=lambda p: str(p.relative_to(ROOT)))
def test_adapters_see_the_vocabulary_and_nothing_else(path: Path) -> None:
    for module in imports(path):
        if module.split(".")[0] == "bbq_plugin":
            assert room(module) in ADAPTERS_MAY_IMPORT, f"{path} imports {module}"


def test_the_folder_of_the_adapters_is_not_a_package() -> None:
    assert not (ROOT / "adapters" / "__init__.py").exists()


def everything() -> list[Path]:
    return [*sources("bbq_plugin"), *sources("adapters")]


def test_the_sql_of_the_store_stands_in_the_store_alone() -> None:
    statement = re.compile(
        r"""["'](SELECT|INSERT|UPDATE|DELETE|CREATE)\b|\.execute(many|script)?\(|\bsqlite3\b|\.db\."""
    )
    for path in everything():
        # That of DuckDB stands in scale, that of PostgreSQL in one module.
        if path.parent.name not in ("store", "scale") and path.stem != "database_table":
            found = statement.search(path.read_text(encoding="utf-8"))
            assert found is None, f"{path} has {found and found[0]!r}: give the store a function"


def test_the_adapter_of_label_studio_alone_knows_the_form_of_its_keys() -> None:
    for path in everything():
        if path.parent != ROOT / "adapters" / "bbq_adapters" / "label_studio":
            assert not re.search(r"\bls:", path.read_text(encoding="utf-8")), path


# A name stands for one thing. Those of modules that are used twice, and why.
MODULES_TWICE = {
    "fit": "the command, and what it runs",
    "store": "the commands on a store, and the store",
}


def used_twice(names: Iterable[str]) -> set[str]:
    return {name for name, n in Counter(names).items() if n > 1}


def test_module_names_are_used_once() -> None:
    assert used_twice(p.stem for p in everything() if p.stem != "__init__") == MODULES_TWICE.keys()


def test_class_names_are_used_once() -> None:
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in everything())
    names = (n.name for tree in trees for n in ast.walk(tree) if isinstance(n, ast.ClassDef))
    assert used_twice(names) == set()
