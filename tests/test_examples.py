"""The examples run as they stand."""

from __future__ import annotations

import ast
import importlib
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"


def test_the_script_prints_what_one_would_act_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["analyse.py"])
    runpy.run_path(str(EXAMPLES / "analyse.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "P(best)" in out
    assert "exclude" in out
    assert "Pairs to compare next" in out


def test_the_script_takes_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    votes = tmp_path / "wins.csv"
    votes.write_text("rater,winner,loser\n" + "ann,a,b\nbob,b,c\nbob,a,c\ncat,b,a\n" * 5)
    monkeypatch.setattr(sys, "argv", ["analyse.py", str(votes)])
    runpy.run_path(str(EXAMPLES / "analyse.py"), run_name="__main__")
    assert "of 3 items by 3 raters" in capsys.readouterr().out


def test_the_notebook_goes_from_data_frame_to_data_frame(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pandas = pytest.importorskip("pandas", reason="this example is about pandas")
    left = runpy.run_path(str(EXAMPLES / "with_pandas.py"))
    assert isinstance(left["board"], pandas.DataFrame)
    assert list(left["board"]["rank"]) == [1, 2, 3, 4, 5]
    assert len(left["raters"]) == 25
    assert "Largest change of theta" in capsys.readouterr().out


def test_the_other_notebook_goes_from_sql_to_sql(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("duckdb", reason="this example is about DuckDB")
    left = runpy.run_path(str(EXAMPLES / "with_duckdb.py"))
    assert left["board"]["rank"].to_pylist() == [1, 2, 3, 4]
    out = capsys.readouterr().out
    assert "'no winner recorded': 1" in out
    assert left["board"]["item"][0].as_py() in out


SCRIPTS = sorted([*(ROOT / "benchmarks").glob("*.py"), *EXAMPLES.rglob("*.py")])


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_benchmarks_and_examples_import_what_is_there(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("bbq_"):
            module = importlib.import_module(str(node.module))
            for name in node.names:
                found = hasattr(module, name.name)
                assert found or importlib.import_module(f"{node.module}.{name.name}")
