"""What a module or a command loads: neither help, nor an error, nor `status` waits for numba."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from bbq_plugin import Comparison, Engine

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = ("numba", "scipy", "matplotlib", "starlette")
COMMAND = "from bbq_plugin.cli import main\ntry:\n    main({words!r}, prog_name='bbq')\n"
COMMAND += "except SystemExit:\n    pass\n"


def loaded(code: str, *names: str, folder: Path | None = None) -> list[str]:
    """Which of these packages a new process has loaded after this code."""
    asked = (
        f"import json, sys\nprint()\nprint(json.dumps([n for n in {names} if n in sys.modules]))"
    )
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\n{asked}"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: list[str] = json.loads(run.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    "module",
    ["text", "errors", "plugins", "config", "store", "cli.main", "data.dataset", "data.files"],
)
def test_importing_what_every_command_needs_loads_no_numerics(module: str) -> None:
    assert loaded(f"import bbq_plugin.{module}", *HEAVY) == []


@pytest.mark.parametrize(
    "module",
    ["text", "errors", "config", "cli.main", "plugins", "protocols", "data.records"],
)
def test_settings_and_texts_need_no_arrays(module: str) -> None:
    assert loaded(f"import bbq_plugin.{module}", "numpy", "rich") == []


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "fit --help",
        "fit missing.jsonl",
        "raters missing.jsonl",
        "pairs missing.jsonl",
        "evaluate missing.jsonl",
        "convert missing.jsonl",
        "fit --level 95 missing.jsonl",
        "fit --priors nonsense missing.jsonl",
        "watch",
        "pull --project 1 --store s.db",
        "push --project 1 --store s.db",
        "connect --project 1",
        "completion bash",
    ],
)
def test_help_and_errors_of_use_load_no_arrays(words: str, tmp_path: Path) -> None:
    code = COMMAND.format(words=words.split())
    assert loaded(code, *HEAVY, "numpy", "rich", folder=tmp_path) == []


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of two votes in it, and a file that cannot be read."""
    folder = tmp_path_factory.mktemp("store")
    with Engine(folder / "s.db") as engine:
        engine.add(Comparison(f"k{i}", "ann", "a", "b", "left") for i in range(2))
    (folder / "empty.jsonl").touch()
    (folder / "strange.jsonl").write_text('{"no": "vote"}\n', encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "words",
    [
        "status --store s.db",
        "status --store s.db --format json",
        "status --store missing.db",
        "store check --store s.db",
        "store export --store s.db",
        "formats",
        "formats --json",
        "fit empty.jsonl",
        "fit strange.jsonl",
        "fit --store missing.db",
    ],
)
def test_a_store_a_format_and_a_wrong_file_are_told_of_without_the_model(
    words: str, store: Path
) -> None:
    assert loaded(COMMAND.format(words=words.split()), *HEAVY, folder=store) == []


@pytest.mark.parametrize("words", ["--store s.db", "--store s.db --format json", "--store no.db"])
def test_the_status_of_a_store_needs_no_arrays(words: str, store: Path) -> None:
    code = COMMAND.format(words=["status", *words.split()])
    assert loaded(code, *HEAVY, "numpy", folder=store) == []
