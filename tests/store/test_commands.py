from __future__ import annotations

import csv
import io
import json
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING, Literal

import pytest

import bbq_plugin as bbq
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.file_ingest import Offer
from tests.store.stores import filled, report, run, study

if TYPE_CHECKING:
    from pathlib import Path


SIDES: dict[str, Literal["left", "right"]] = {"en": "left", "de": "right"}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A file, and a store that has read it."""
    folder = tmp_path_factory.mktemp("both")
    votes = study(folder)
    with Engine(folder / "votes.db") as engine:
        engine.ingest([Offer(votes, votes.name)])
    return votes, folder / "votes.db"


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (["fit"], "items"),
        (["fit", "--drop-rater", "rater-1"], "raters"),
        (["raters", "--least", "5"], "raters"),
        (["pairs", "-n", "3"], "pairs"),
    ],
)
def test_a_store_gives_what_its_files_give(
    command: list[str], what: str, both: tuple[Path, Path]
) -> None:
    votes, store = both
    from_file, from_store = report(*command, votes), report(*command, "--store", store)
    assert from_file["digest"] == from_store["digest"]
    assert [_rounded(row) for row in from_store[what]] == [_rounded(row) for row in from_file[what]]


def _rounded(row: dict[str, object]) -> dict[str, object]:
    # The order of rows, and so of sums, is the store's own: the last digits may differ.
    return {key: round(v, 6) if isinstance(v, float) else v for key, v in row.items()}


def test_evaluate_and_convert_take_a_store_too(both: tuple[Path, Path]) -> None:
    votes, store = both
    options = ("--resamples", "3", "--model", "bayes-bt")
    assert report("evaluate", *options, "--store", store)["n_comparisons"] == 300
    assert sorted(run("convert", "--store", store).stdout.splitlines()) == sorted(
        run("convert", votes).stdout.splitlines()
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "nothing to read; name FILES, or a store with --store"),
        (["{votes}", "--store", "{store}"], "are both given; read one or the other"),
        (["--store", "{store}", "--adapter", "arena"], "--adapter says how FILES are read"),
        (["--store", "{store}", "-O", "a=b"], "--option says how FILES are read"),
        (["--store", "{store}", "--max-skipped", "2%"], "--max-skipped says how FILES are read"),
        (["--store", "{store}", "--strict"], "--strict says how FILES are read"),
        (["--store", "{store}", "--by", "nothing"], "no row has a tag 'nothing'"),
    ],
)
def test_wrong_use_is_told(arguments: list[str], says: str, both: tuple[Path, Path]) -> None:
    votes, store = both
    result = run("fit", *(one.format(votes=votes, store=store) for one in arguments))
    assert result.exit_code == 2
    assert says in " ".join(result.stderr.split())
    assert result.stdout == ""


def test_tags_rename_and_pseudonyms_work_on_a_store(tmp_path: Path) -> None:
    with Engine(tmp_path / "a.db") as engine:
        engine.add(
            [
                bbq.Comparison(f"{lang}{i}", f"r{i % 3}", "a", "b", side, tags={"lang": lang})
                for lang, side in SIDES.items()
                for i in range(12)
            ]
        )
    store = tmp_path / "a.db"
    (tmp_path / "names.csv").write_text("a,Alpha\n")
    some = report("fit", "--store", store, "--where", "lang=en", "--rename", tmp_path / "names.csv")
    assert (some["n_comparisons"], some["items"][0]["item"]) == (12, "Alpha")
    groups = report("fit", "--store", store, "--by", "lang")["reports"]
    assert {value: one["items"][0]["item"] for value, one in groups.items()} == {
        "de": "b", "en": "a",
    }  # fmt: skip
    hidden = run("raters", "--store", store, "--pseudonymise", env={"BBQ_PSEUDONYM_KEY": "k" * 20})
    assert "rater-" in hidden.stdout


@pytest.mark.parametrize("command", ["fit", "raters", "pairs", "status"])
def test_what_is_no_store_is_refused_with_the_remedy(command: str, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no store at all, but long enough to look at " * 20)
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE t (x)")
    other.close()
    for name, says in (
        ("none.db", "there is no such store"),
        ("text.db", "damaged or no store at all"),
        ("other.db", "a database of another program"),
    ):
        result = run(command, "--store", tmp_path / name)
        assert result.exit_code == 1
        assert says in result.stderr
        assert name in result.stderr


def test_a_store_without_answers_says_so(tmp_path: Path) -> None:
    Engine(tmp_path / "a.db").close()
    result = run("fit", "--store", tmp_path / "a.db")
    assert result.exit_code == 1
    assert "there are no comparisons in the store yet" in result.stderr


_WRITES = """
import sys
import bbq_plugin as bbq
from bbq_plugin.store import Store
with Store(sys.argv[1]) as store:
    for batch in range(10**9):
        store.add([
            bbq.Comparison(f"{batch}-{i}", f"r{i % 5}", f"i{i % 3}", f"i{(i + 1) % 3}", "left")
            for i in range(50)
        ])
        print(batch, flush=True)
"""


def test_readers_work_while_another_process_writes(tmp_path: Path) -> None:
    store = tmp_path / "a.db"
    writer = subprocess.Popen([sys.executable, "-c", _WRITES, store], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    with writer, writer.stdout:
        writer.stdout.readline()
        seen = []
        for _ in range(5):
            seen.append(report("fit", "--store", store)["n_comparisons"])
            writer.stdout.readline()  # it has gone on meanwhile
        checked = run("store", "check", "--store", store)
        busy = run("store", "vacuum", "--store", store)
        writer.kill()
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]
    # Batches of fifty: never a part of one.
    assert [n % 50 for n in seen] == [0] * 5
    assert checked.exit_code == 0, checked.output
    assert busy.exit_code == 1
    assert f"being written by process {writer.pid}" in busy.stderr


def test_check_finds_a_whole_store_whole_and_a_damaged_one_not(tmp_path: Path) -> None:
    store = filled(tmp_path)
    result = run("store", "check", "--store", store)
    assert (result.exit_code, result.stdout) == (0, f"{store} is intact: 319 comparisons\n")
    with sqlite3.connect(store) as db:
        db.execute("DELETE FROM comparison WHERE id = (SELECT min(id) FROM comparison)")
    db.close()
    broken = run("store", "check", "--store", store)
    assert broken.exit_code == 1
    assert "Problem: 1 comparisons more or less than the store's own count" in broken.stderr
    assert "this store is damaged; make a copy of it" in broken.stderr
    assert broken.stdout == ""


def test_vacuum_gives_space_back_and_keeps_every_answer(tmp_path: Path) -> None:
    store = tmp_path / "a.db"
    with Engine(store) as engine:
        keys = [f"{i:05}" for i in range(20_000)]
        engine.add(bbq.Comparison(key, "r", "a", "b", "left") for key in keys)
        engine.retract(keys[100:])
    size = store.stat().st_size
    result = run("store", "vacuum", "--store", store)
    assert result.exit_code == 0, result.output
    assert store.stat().st_size < size / 2
    assert f"{store.stat().st_size:,} now" in result.stdout
    assert run("store", "check", "--store", store).exit_code == 0
    assert report("status", "--store", store)["n_comparisons"] == 100


@pytest.mark.parametrize("command", ["check", "vacuum", "export"])
def test_a_store_that_is_not_there_is_not_made(command: str, tmp_path: Path) -> None:
    result = run("store", command, "--store", tmp_path / "no.db")
    assert result.exit_code == 1
    assert "there is no such store" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_export_writes_what_this_project_reads_back(tmp_path: Path) -> None:
    store = filled(tmp_path)
    rows = list(csv.DictReader(io.StringIO(run("store", "export", "--store", store).stdout)))
    assert list(rows[0]) == ["rater", "winner", "loser", "weight"]
    digest = report("fit", "--store", store)["digest"]
    for name in ("all.csv", "all.jsonl", "all.parquet"):
        path = tmp_path / name
        assert run("store", "export", "--store", store, "-o", path).exit_code == 0
        assert report("fit", path)["digest"] == digest
    line = json.loads((tmp_path / "all.jsonl").read_text().splitlines()[0])
    assert sorted(line) == ["loser", "rater", "weight", "winner"]


def test_a_misspelt_part_of_the_command_is_recognised(tmp_path: Path) -> None:
    result = run("store", "chek", "--store", tmp_path / "a.db")
    assert result.exit_code == 2
    assert "did you mean 'check'?" in result.stderr


def test_several_studies_are_fitted_side_by_side_or_named_in_commands_to_paste(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.db"
    with Engine(path) as engine:
        for name, winner in (("main", "left"), ("fluency", "right")):
            answers = [
                bbq.Comparison(f"{n}", f"r{n % 4}", "a", "bc"[n % 2], winner)  # type: ignore[arg-type]
                for n in range(12)
            ]
            engine.store.add(answers, study=engine.store.study(name))
    done = run("fit", "--store", path)
    assert done.exit_code == 2
    tried = [line for line in done.stderr.splitlines() if line.startswith("Try: ")]
    assert tried == [f"Try: bbq fit --store {path} --study {name}" for name in ("main", "fluency")]
    groups = report("fit", "--store", path, "--by", "study")["reports"]
    first = {name: one["items"][0]["item"] for name, one in groups.items()}
    assert first["main"] == "a"
    assert first["fluency"] != "a"
