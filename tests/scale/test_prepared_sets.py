"""Prepared sets: the same votes as the files have, whatever was appended and taken back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import bbq_plugin as bbq
from bbq_plugin.cli import main
from bbq_plugin.scale.prepared_set import open_dataset

ROLES = {"left": "model_a", "right": "model_b", "winner": "winner", "rater": "judge"}


def columns(n: int = 4000, seed: int = 0) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    rater, a = rng.integers(0, 40, n), rng.integers(0, 8, n)
    b = (a + rng.integers(1, 8, n)) % 8
    won = rng.random(n) < 1 / (1 + np.exp((a - b) / 3))
    words = np.where(rng.random(n) < 0.1, "tie", np.where(won, "model_a", "model_b"))
    return {
        "judge": [f"rater {r}" for r in rater],
        "model_a": [f"item {i}" for i in a],
        "model_b": [f"item {i}" for i in b],
        "winner": words.tolist(),
        "scene": [f"scene {s}" for s in rng.integers(0, 9, n)],
    }


def parquet(path: Path, table: dict[str, list[Any]]) -> Path:
    pq.write_table(pa.table(table), path)
    return path


def prepare(*files: Path, to: Path, options: dict[str, str] | None = None, more: Any = ()) -> str:
    given = [f"-O{role}={name}" for role, name in (ROLES if options is None else options).items()]
    run = CliRunner().invoke(main, ["prepare", *map(str, files), *given, "-o", str(to), *more])
    assert run.exit_code == 0, run.output
    return run.output


def refused(*words: object) -> tuple[int, str]:
    run = CliRunner().invoke(main, [str(word) for word in words])
    return run.exit_code, run.output


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    return parquet(tmp_path / "votes.parquet", columns())


@pytest.mark.parametrize("through", ["duckdb", "adapter"])
def test_a_prepared_set_reads_as_the_file_itself(votes: Path, tmp_path: Path, through: str) -> None:
    prepare(
        votes, to=tmp_path / "v.bbq", options=None if through == "duckdb" else {"rater": "judge"}
    )
    told, found = bbq.read(votes, rater="judge"), open_dataset(tmp_path / "v.bbq").read()
    assert found.digest == told.digest
    assert (found.n_comparisons, found.n_ties) == (told.n_comparisons, told.n_ties)
    assert (found.n_sided, found.n_left) == (told.n_sided, told.n_left)
    assert told.left_rate is not None
    assert found.left_rate is not None
    rates = dict(zip(told.raters, told.left_rate.tolist(), strict=True))
    assert dict(zip(found.raters, found.left_rate.tolist(), strict=True)) == pytest.approx(rates)
    assert found.sources[0].sha256 == told.sources[0].sha256


def test_rows_that_are_equal_in_what_is_kept_become_one(votes: Path, tmp_path: Path) -> None:
    prepare(votes, to=tmp_path / "side.bbq")
    prepare(votes, to=tmp_path / "none.bbq", more=["--keep", "none"])
    side, none = open_dataset(tmp_path / "side.bbq"), open_dataset(tmp_path / "none.bbq")
    assert none.n_rows < side.n_rows < side.n_comparisons == none.n_comparisons == 4000
    assert none.read().digest == side.read().digest
    # What was not kept is told as not known.
    assert none.read().left_rate is None
    assert none.read().n_sided == 0


def test_the_order_of_summed_rows_is_no_drift(votes: Path, tmp_path: Path) -> None:
    prepare(votes, to=tmp_path / "v.bbq")
    data = open_dataset(tmp_path / "v.bbq").read()
    report = bbq.rater_report(bbq.fit(data))
    assert "in which order the answers were given" in report.not_known
    assert not any("quality falls" in reason for row in report for reason in row.reasons)


def test_a_tag_that_intervals_would_use_is_named_where_it_is_not_kept(tmp_path: Path) -> None:
    table = columns()
    table["scene"] = [f"scene {i % 80}" for i in range(4000)]
    votes = parquet(tmp_path / "asked.parquet", table)
    adapter = {"rater": "judge"}
    told = prepare(votes, to=tmp_path / "v.bbq", options=adapter)
    assert "--keep side,scene" in " ".join(told.split())
    kept = ["--keep", "side,scene"]
    assert "belong together" not in prepare(
        votes, to=tmp_path / "k.bbq", options=adapter, more=kept
    )


def test_appending_touches_no_old_file_and_equals_one_preparation(tmp_path: Path) -> None:
    first = parquet(tmp_path / "1.parquet", columns(seed=1))
    second = parquet(tmp_path / "2.parquet", {**columns(seed=2), "judge": ["new"] * 4000})
    prepare(first, to=tmp_path / "v.bbq")
    before = {f: f.read_bytes() for f in (tmp_path / "v.bbq").glob("batch*/*")}
    prepare(second, to=tmp_path / "v.bbq")
    assert all(file.read_bytes() == content for file, content in before.items())
    prepare(first, second, to=tmp_path / "both.bbq")
    appended, both = (open_dataset(tmp_path / name).read() for name in ("v.bbq", "both.bbq"))
    assert appended.digest == both.digest


def test_retracting_a_file_equals_never_having_seen_it(votes: Path, tmp_path: Path) -> None:
    prepare(votes, to=tmp_path / "v.bbq")
    alone = open_dataset(tmp_path / "v.bbq").read().digest
    more = parquet(tmp_path / "more.parquet", columns(seed=3))
    prepare(more, to=tmp_path / "v.bbq")
    prepare(more, to=tmp_path / "v.bbq", more=["--retract"])
    found = open_dataset(tmp_path / "v.bbq")
    assert found.read().digest == alone
    assert found.n_comparisons == 4000


def test_votes_that_are_not_there_cannot_be_retracted(votes: Path, tmp_path: Path) -> None:
    prepare(votes, to=tmp_path / "v.bbq")
    other = parquet(tmp_path / "other.parquet", columns(seed=4))
    before = sorted((tmp_path / "v.bbq").rglob("*"))
    options = [f"-O{role}={name}" for role, name in ROLES.items()]
    code, said = refused("prepare", other, *options, "--retract", "-o", tmp_path / "v.bbq")
    assert code == 1
    assert "nothing was changed" in said
    assert sorted((tmp_path / "v.bbq").rglob("*")) == before


def test_a_file_that_is_in_the_set_is_refused(votes: Path, tmp_path: Path) -> None:
    prepare(votes, to=tmp_path / "v.bbq")
    copy = tmp_path / "copy.parquet"
    copy.write_bytes(votes.read_bytes())
    code, said = refused("prepare", copy, "-Orater=judge", "-o", tmp_path / "v.bbq")
    assert code == 1
    assert "already" in said


def test_names_are_only_names(tmp_path: Path) -> None:
    table = columns(600)
    evil = "x'); DROP TABLE votes; --"
    table["judge"] = [evil if r == "rater 1" else r for r in table["judge"]]
    for side in ("model_a", "model_b"):
        table[side] = ['a"b,=1\n<b>' if i == "item 1" else i for i in table[side]]
    table['left "item"; --'] = table.pop("model_a")
    odd = tmp_path / "it's; odd"
    odd.mkdir()
    file = parquet(odd / "votes.parquet", table)
    prepare(file, to=odd / "v.bbq", options={**ROLES, "left": 'left "item"; --'})
    found = open_dataset(odd / "v.bbq").read()
    assert evil in found.raters
    assert 'a"b,=1\n<b>' in found.items
    assert found.n_comparisons == 600


def test_what_cannot_be_used_is_counted_and_what_is_not_known_refused(tmp_path: Path) -> None:
    table = columns(1000)
    table["model_a"][0] = table["model_b"][0]
    table["winner"][1] = None
    table["judge"][2] = " "
    prepare(parquet(tmp_path / "v.parquet", table), to=tmp_path / "v.bbq")
    found = open_dataset(tmp_path / "v.bbq").read()
    assert found.n_comparisons == 997
    assert sorted(found.skip_reasons.values()) == [1, 1, 1]
    table["winner"][3] = "modelA"
    file = parquet(tmp_path / "typo.parquet", table)
    options = [f"-O{role}={name}" for role, name in ROLES.items()]
    code, said = refused("prepare", file, *options, "-o", tmp_path / "w.bbq")
    assert code == 1
    assert "'modelA'" in said
    assert not (tmp_path / "w.bbq").exists()


def test_tags_that_are_kept_can_be_asked_for(votes: Path, tmp_path: Path) -> None:
    for name, options in (("lake", None), ("memory", {"rater": "judge"})):
        to = tmp_path / f"{name}.bbq"
        prepare(votes, to=to, options=options, more=["--keep", "side,scene"])
        told = bbq.read(votes, rater="judge", where={"scene": "scene 3"})
        assert open_dataset(to).read(where={"scene": "scene 3"}).digest == told.digest
        by = open_dataset(to).read_by("scene")
        assert by["scene 3"].digest == told.digest
        assert len(by) == 9


def test_a_set_that_was_damaged_is_refused(votes: Path, tmp_path: Path) -> None:
    prepare(votes, to=tmp_path / "v.bbq")
    one = next((tmp_path / "v.bbq").glob("batch*/votes-*"))
    one.write_bytes(one.read_bytes()[:-10])
    code, said = refused("fit", tmp_path / "v.bbq")
    assert code == 1
    assert one.name in said


@pytest.mark.parametrize(
    "words",
    [
        ["--keep", "side,scenery"],
        ["--memory", "lots"],
        ["--parts", "7"],
    ],
)
def test_wrong_use_is_refused(votes: Path, tmp_path: Path, words: list[str]) -> None:
    prepare(votes, to=tmp_path / "v.bbq")
    code, _ = refused("prepare", votes, "-Orater=judge", *words, "-o", tmp_path / "v.bbq")
    assert code in (1, 2)
    code, said = refused("fit", tmp_path / "v.bbq", votes)
    assert code == 2
    assert "bbq prepare" in said


@pytest.mark.parametrize("command", [["fit"], ["raters"], ["pairs"], ["convert"]])
def test_commands_take_a_set_as_they_take_files(
    votes: Path, tmp_path: Path, command: list[str]
) -> None:
    prepare(votes, to=tmp_path / "v.bbq")
    run = CliRunner().invoke(main, [*command, str(tmp_path / "v.bbq"), "--seed", "1"])
    assert run.exit_code == 0, run.output


def test_a_set_at_an_address_is_read_as_a_folder(votes: Path, tmp_path: Path) -> None:
    target = tmp_path / "v.bbq"
    prepare(votes, to=target)
    told = [
        CliRunner().invoke(main, ["fit", place, "--engine", "local", "--format", "csv"]).stdout
        for place in (str(target), f"file://{target}")
    ]
    assert told[0] == told[1] != ""
    assert "no prepared set" in refused("fit", f"file://{tmp_path}/other.bbq")[1]
    assert "Protocol not known" in refused("fit", "nostore://bucket/v.bbq")[1]


def test_inspect_says_what_a_set_holds(votes: Path, tmp_path: Path) -> None:
    more, target = parquet(tmp_path / "more.parquet", columns(500, seed=1)), tmp_path / "v.bbq"
    prepare(votes, to=target)
    prepare(more, to=target)
    prepare(more, to=target, more=["--retract"])
    run = CliRunner().invoke(main, ["inspect", str(target)])
    assert run.exit_code == 0, run.output
    assert "4,000 comparisons of 8 items by 40 raters" in run.stdout
    assert f"retracted 500 comparisons of {more}" in run.stdout
    assert run.stdout.splitlines()[-1] == f"bbq fit {target}"
    run = CliRunner().invoke(main, ["inspect", str(target), "--format", "json"])
    told = json.loads(run.stdout)["set"]
    assert (told["n_comparisons"], len(told["batches"])) == (4000, 3)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_the_values_mean_can_be_said_as_for_every_command(tmp_path: Path, ending: str) -> None:
    rows = [(a, b, r) for a, b in ("ab", "bc", "ca") for r in ("1", "0.0", "0.5", "1.00")]
    left, right, result = (list(column) for column in zip(*rows, strict=True))
    file = tmp_path / f"games.{ending}"
    if ending == "csv":
        lines = ["one,two,result", *(",".join(row) for row in rows)]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        parquet(file, {"one": left, "two": right, "result": [float(x) for x in result]})
    told: dict[str, Any] = {
        "left": "one",
        "right": "two",
        "winner": "result",
        "values": "1=left,0=right,0.5=tie",
    }
    prepare(file, to=tmp_path / "g.bbq", options=told)
    found = open_dataset(tmp_path / "g.bbq").read()
    assert (found.n_comparisons, found.n_ties) == (12, 3)
    assert found.digest == bbq.read(file, "table", **told).digest
    skipping = told | {"values": "1=left,0=right,0.5=skip"}
    prepare(file, to=tmp_path / "s.bbq", options=skipping)
    assert open_dataset(tmp_path / "s.bbq").read().n_comparisons == 9


def test_blanks_around_names_and_utf_16_do_not_matter(tmp_path: Path) -> None:
    table = columns(600)
    plain = prepare_and_read(tmp_path, "plain", table, "utf-8")
    table["model_a"][0] += " "
    table["judge"][1] += "  "
    for name, encoding in (("blanks", "utf-8"), ("wide", "utf-16")):
        found = prepare_and_read(tmp_path, name, table, encoding)
        assert (sorted(found.items), found.digest) == (sorted(plain.items), plain.digest)


def prepare_and_read(folder: Path, name: str, table: dict[str, list[Any]], encoding: str) -> Any:
    file = folder / f"{name}.csv"
    rows = [",".join(table), *map(",".join, zip(*table.values(), strict=True))]
    file.write_text("\n".join(rows) + "\n", encoding=encoding)
    prepare(file, to=folder / f"{name}.bbq")
    return open_dataset(folder / f"{name}.bbq").read()
