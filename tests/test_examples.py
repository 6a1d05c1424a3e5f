"""The examples run as they stand."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import runpy
import sys
from pathlib import Path
from typing import Any

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


NOTEBOOK = EXAMPLES / "tutorial.ipynb"


def run_notebook(document: dict[str, Any]) -> dict[str, Any]:
    """Run the cells in order, as a kernel would, and give each of them its outputs."""
    space: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for cell in document["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        tree = ast.parse("".join(cell["source"]))
        shown = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        out = io.StringIO()
        value = None
        with contextlib.redirect_stdout(out):
            exec(compile(tree, f"cell {count}", "exec"), space)  # noqa: S102 - our own notebook
            if isinstance(shown, ast.Expr):
                code = compile(ast.Expression(shown.value), f"cell {count}", "eval")
                value = eval(code, space)  # noqa: S307 - our own notebook
        cell["execution_count"] = count
        cell["outputs"] = []
        if out.getvalue():
            text = out.getvalue().splitlines(keepends=True)
            cell["outputs"].append({"name": "stdout", "output_type": "stream", "text": text})
        if value is not None:
            data = {"text/plain": repr(value).splitlines(keepends=True)}
            if hasattr(value, "_repr_html_"):
                data["text/html"] = value._repr_html_().splitlines(keepends=True)
            cell["outputs"].append(
                {"data": data, "execution_count": count, "metadata": {},
                 "output_type": "execute_result"}
            )  # fmt: skip
    return space


def test_the_tutorial_runs_from_top_to_bottom_and_shows_what_it_prints(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("VOTES_FOLDER", raising=False)
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    before = json.dumps(document)
    space = run_notebook(document)
    # The folder of the simulated votes holds the same answers.
    assert space["yours"].n_comparisons == space["data"].n_comparisons
    assert json.dumps(document) == before, "run: python tests/test_examples.py"


def test_the_tutorial_takes_a_folder_of_the_readers_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ["observer,scene,condition_A,condition_B,is_A_selected"]
    rows += [
        f"{who},s{n},jxl,{other},{n % 4 != 0:d}"
        for who in ("ann", "bob", "cat")
        for n in range(20)
        for other in ("avif", "jpeg")
    ]
    (tmp_path / "log.csv").write_text("\n".join(rows))
    monkeypatch.setenv("VOTES_FOLDER", str(tmp_path))
    space = run_notebook(json.loads(NOTEBOOK.read_text(encoding="utf-8")))
    assert space["yours"].n_comparisons == 120
    assert set(space["your_fit"].items) == {"jxl", "avif", "jpeg"}


if __name__ == "__main__":
    saved = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    run_notebook(saved)
    text = json.dumps(saved, indent=1, ensure_ascii=False)
    NOTEBOOK.write_text(f"{text}\n", encoding="utf-8")
    sys.stdout.write(f"{NOTEBOOK.name} is up to date\n")
