"""Comparisons as files: read back here exactly, and by the tools they are made for."""

from __future__ import annotations

import csv
import json
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import bbq_plugin as bbq
from bbq_plugin.cli import main
from bbq_plugin.data.export import write_comparisons
from bbq_plugin.text import cell, unguarded

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = ["csv", "jsonl", "parquet"]

# Plain Bradley-Terry by maximum likelihood, which the other tools compute too.
FLAT = bbq.Priors(a=1, b=0)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments], catch_exceptions=False)


def convert(source: Path, target: Path, *more: object) -> Path:
    result = run("convert", source, "-o", target, *more)
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    return target


def centred(theta: dict[str, float]) -> dict[str, float]:
    mean = sum(theta.values()) / len(theta)
    return {item: value - mean for item, value in theta.items()}


def by_name(fit: bbq.Fit) -> dict[str, float]:
    return dict(zip(fit.items, fit.theta.tolist(), strict=True))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "votes.jsonl"
    options = "--items 6 --raters 15 --comparisons 900 --ties 0.2 --guessers 0.2 --seed 5"
    assert run("simulate", *options.split(), "-o", path).exit_code == 0
    return path


@pytest.fixture(scope="module")
def truth(study: Path) -> dict[str, float]:
    """What plain Bradley-Terry makes of the study, ties as half wins."""
    return centred(by_name(bbq.fit(bbq.read(study), model="bayes-bt", priors=FLAT, tol=1e-10)))


# -- our own layout


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_fit_of_the_converted_file_is_the_fit_of_the_original(
    study: Path, tmp_path: Path, suffix: str
) -> None:
    if suffix == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs the extra 'parquet'")
    target = convert(study, tmp_path / f"wins.{suffix}")
    first, again = (bbq.fit(bbq.read(path), tol=1e-12) for path in (study, target))
    assert by_name(again) == pytest.approx(by_name(first), abs=1e-9)
    quality = dict(zip(first.raters, first.quality.tolist(), strict=True))
    assert dict(zip(again.raters, again.quality.tolist(), strict=True)) == pytest.approx(
        quality, abs=1e-9
    )
    # An estimated population stops at a tolerance of its own, so there the digest has to do.
    assert bbq.read(target).digest == bbq.read(study).digest


def test_a_tie_is_written_as_two_wins_of_half_the_weight(tmp_path: Path) -> None:
    votes = tmp_path / "votes.csv"
    votes.write_text("model_a,model_b,winner,judge\noak,elm,tie,ann\n", encoding="utf-8")
    original, again = bbq.read(votes), bbq.read(convert(votes, tmp_path / "wins.csv"))
    assert (original.n_comparisons, again.n_comparisons) == (1, 2)
    assert again.triples.weight.tolist() == [0.5, 0.5]
    assert again.digest == original.digest


def test_without_a_file_the_rows_are_printed(study: Path) -> None:
    result = run("convert", study)
    rows = list(csv.reader(StringIO(result.stdout)))
    assert rows[0] == ["rater", "winner", "loser", "weight"]
    assert {row[3] for row in rows[1:]} == {"1", "0.5"}
    lines = run("convert", study, "--format", "jsonl").stdout.splitlines()
    assert len(lines) == len(rows) - 1
    assert list(json.loads(lines[0])) == rows[0]


def test_rows_without_raters_have_no_column_for_them(tmp_path: Path) -> None:
    source = tmp_path / "votes.jsonl"
    source.write_text('{"model_a": "a", "model_b": "b", "winner": "a"}\n')
    assert run("convert", source).stdout == "winner,loser,weight\na,b,1\n"
    again = bbq.read(convert(source, tmp_path / "wins.csv"))
    assert not again.has_raters


names = st.text(min_size=1).filter(lambda name: bool(name.strip()) and "\x00" not in name)


@pytest.mark.parametrize("file_format", FORMATS)
@given(data=st.data())
def test_every_name_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, file_format: Any, data: st.DataObject
) -> None:
    if file_format == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs the extra 'parquet'")
    odd = st.sampled_from(["=1+1", "'=1", "''@x", "-a", "+", "@", "'quoted'", "a\r\nb", ' "x" '])
    winner, loser, rater = data.draw(st.lists(odd | names, min_size=3, max_size=3, unique=True))
    weight = data.draw(st.floats(1e-3, 1e3))
    one = bbq.Comparisons.from_records([(rater, winner, loser, weight)])
    path = tmp_path_factory.mktemp("names") / "wins"
    with path.open("wb") as file:
        assert write_comparisons(one, file, file_format) == []
    back = bbq.read(path)
    assert back.items == one.items
    assert back.raters == one.raters
    assert back.weight.tolist() == [weight]


def test_no_cell_of_a_csv_file_is_a_formula() -> None:
    one = bbq.Comparisons.from_records([("@rater", "=1+1", "-b", 1.0)])
    out = BytesIO()
    write_comparisons(one, out)
    assert out.getvalue().decode().splitlines()[1] == "'@rater,'=1+1,'-b,1"


@given(st.text())
def test_the_guard_against_formulas_can_be_taken_back(text: str) -> None:
    guarded = str(cell(text))
    assert not guarded.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert unguarded(guarded) == text


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("ann,a,,1", "an item has an empty name: loser is None"),
        ("ann,a,b,heavy", "weight is 'heavy'"),
        ("ann,a,b,0", "weight is '0'"),
        ("ann,a,b,nan", "weight is 'nan'"),
        ("ann,a,b", "has 3 columns"),
    ],
)
def test_a_bad_row_is_told_with_its_line(tmp_path: Path, row: str, says: str) -> None:
    path = tmp_path / "wins.csv"
    path.write_text(f"rater,winner,loser,weight\nann,a,b,1\n{row}\n")
    result = run("fit", path)
    assert result.exit_code == 1
    assert f"{path}:3: {says}" in result.stderr


# -- other tools


def test_evalica_reads_it_and_finds_the_same_skills(
    study: Path, tmp_path: Path, truth: dict[str, float]
) -> None:
    evalica = pytest.importorskip("evalica", reason="evalica comes with the extra 'dev'")
    reader = pytest.importorskip("evalica.__main__", reason="its reader needs pandas")
    target = convert(study, tmp_path / "evalica.csv", "--layout", "evalica")
    with target.open(encoding="utf-8") as file:
        left, right, winner = reader.read_csv(file)
    assert len(left) == 900
    found = evalica.bradley_terry(left, right, winner, tolerance=1e-12, limit=10_000).scores
    theta = {item: float(np.log(score)) for item, score in found.items()}
    assert centred(theta) == pytest.approx(truth, abs=1e-5)


def test_choix_reads_it_and_finds_the_same_skills(
    study: Path, tmp_path: Path, truth: dict[str, float]
) -> None:
    choix = pytest.importorskip("choix", reason="choix comes with the extra 'dev'")
    target = convert(study, tmp_path / "choix.csv", "--layout", "choix")
    items = [
        json.loads(line.split(" ", 2)[2])
        for line in target.read_text().splitlines()
        if line.startswith("#")
    ]
    pairs = np.loadtxt(target, delimiter=",", dtype=int)
    theta = choix.ilsr_pairwise(len(items), pairs, tol=1e-12)
    assert centred(dict(zip(items, theta.tolist(), strict=True))) == pytest.approx(truth, abs=1e-6)


def test_crowd_kit_reads_it_and_finds_the_same_skills(
    study: Path, tmp_path: Path, truth: dict[str, float]
) -> None:
    reason = "crowd-kit needs transformers, too much to install for one test"
    aggregation = pytest.importorskip("crowdkit.aggregation", reason=reason)
    pandas = pytest.importorskip("pandas")
    target = convert(study, tmp_path / "crowd.csv", "--layout", "crowd-kit")
    frame = pandas.read_csv(target)
    scores = aggregation.BradleyTerry(n_iter=10_000, tol=0).fit_predict(frame)
    theta = {item: float(np.log(score)) for item, score in scores.items()}
    assert centred(theta) == pytest.approx(truth, abs=1e-5)


def test_crowd_kit_gets_its_documented_columns(study: Path) -> None:
    result = run("convert", study, "--layout", "crowd-kit")
    rows = list(csv.DictReader(StringIO(result.stdout)))
    assert list(rows[0]) == ["worker", "left", "right", "label"]
    assert all(row["label"] in (row["left"], row["right"]) for row in rows)
    # Weights are told by repetition: a vote twice, a tie once each way.
    assert len(rows) == 2 * 900
    assert "a comparison of weight 1 is written 2 times" in result.stderr


def test_our_own_reading_of_the_other_layouts_is_the_same(study: Path, tmp_path: Path) -> None:
    evalica = bbq.read(convert(study, tmp_path / "e.csv", "--layout", "evalica"))
    original = bbq.read(study)
    assert evalica.n_ties == original.n_ties
    assert evalica.n_comparisons == original.n_comparisons
    crowd = bbq.read(convert(study, tmp_path / "c.csv", "--layout", "crowd-kit"))
    assert sorted(crowd.raters) == sorted(original.raters)


def test_weights_that_repetition_cannot_tell_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "wins.csv"
    path.write_text("rater,winner,loser,weight\nann,a,b,0.123\nann,b,a,1\n")
    for layout in ("crowd-kit", "choix"):
        result = run("convert", path, "--layout", layout)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "use a layout with weights" in result.stderr
    result = run("convert", path, "--layout", "evalica")
    assert result.exit_code == 0
    assert "give the column weight to evalica" in result.stderr


def test_the_suffix_tells_the_format_or_it_is_refused(study: Path, tmp_path: Path) -> None:
    result = run("convert", study, "-o", tmp_path / "wins.xlsx")
    assert result.exit_code == 2
    assert ".parquet" in result.stderr
    assert run("convert", study, "-o", tmp_path / "w.jsonl", "--layout", "choix").exit_code == 2


def test_a_failed_conversion_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "wins.csv"
    target.write_text("old\n")
    bad = tmp_path / "votes.jsonl"
    bad.write_text('{"model_a": "a", "model_b": "b", "winner": "c"}\n')
    assert run("convert", bad, "-o", target).exit_code == 1
    assert target.read_text() == "old\n"
