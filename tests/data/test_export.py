"""Comparisons as files: read back here exactly, and by the tools they are made for."""

from __future__ import annotations

import csv
import json
from collections import Counter
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import bbq_plugin as bbq
from bbq_plugin.cli import main
from bbq_plugin.data.export import write_comparisons
from bbq_plugin.data.files import read
from bbq_plugin.errors import DataError
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
    given = {"priors": "paper", "camps": 1, "ties": "model"}
    first, again = (bbq.fit(bbq.read(path), tol=1e-12, **given) for path in (study, target))  # type: ignore[arg-type]
    assert by_name(again) == pytest.approx(by_name(first), abs=1e-9)
    quality = dict(zip(first.raters, first.quality.tolist(), strict=True))
    assert dict(zip(again.raters, again.quality.tolist(), strict=True)) == pytest.approx(
        quality, abs=1e-9
    )
    # An estimated population stops at a tolerance of its own, so there the digest has to do.
    assert bbq.read(target).digest == bbq.read(study).digest


@pytest.mark.parametrize("rater", ["ann", None])
def test_a_tie_comes_back_as_a_tie(tmp_path: Path, rater: str | None) -> None:
    votes = tmp_path / "votes.jsonl"
    rows = [{"model_a": "oak", "model_b": "elm", "winner": word} for word in ("tie", "model_b")]
    votes.write_bytes(b"\n".join(msgspec.json.encode(row | {"judge": rater}) for row in rows))
    original, again = bbq.read(votes), bbq.read(convert(votes, tmp_path / "wins.csv"))
    assert [(one.n_comparisons, one.n_ties) for one in (original, again)] == [(2, 1)] * 2
    assert again.triples.weight.tolist() == original.triples.weight.tolist()
    assert again.digest == original.digest


def test_ties_and_half_wins_have_different_digests(tmp_path: Path) -> None:
    found = []
    for name, rows in (("tie", "oak,elm,1,1\n"), ("half", "oak,elm,0.5,0\nelm,oak,0.5,0\n")):
        path = tmp_path / f"{name}.csv"
        path.write_text(f"winner,loser,weight,tie\n{rows}", encoding="utf-8")
        found.append(bbq.read(path))
    assert found[0].triples.weight.tolist() == found[1].triples.weight.tolist()
    assert found[0].digest != found[1].digest


def test_a_tie_that_is_neither_yes_nor_no_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "wins.csv"
    path.write_text("winner,loser,tie\noak,elm,0\noak,elm,perhaps\n", encoding="utf-8")
    found = bbq.read(path, max_skipped=1)
    assert (found.n_comparisons, found.n_skipped) == (1, 1)


def test_without_a_file_the_rows_are_printed(study: Path) -> None:
    result = run("convert", study)
    rows = list(csv.reader(StringIO(result.stdout)))
    assert rows[0] == ["rater", "winner", "loser", "weight", "tie"]
    assert {(row[3], row[4]) for row in rows[1:]} == {("1", "0"), ("1", "1")}
    lines = run("convert", study, "--format", "jsonl").stdout.splitlines()
    assert len(lines) == len(rows) - 1
    assert list(json.loads(lines[0])) == rows[0]


def test_rows_without_raters_have_no_column_for_them(tmp_path: Path) -> None:
    source = tmp_path / "votes.jsonl"
    source.write_text('{"model_a": "a", "model_b": "b", "winner": "a"}\n')
    assert run("convert", source).stdout == "winner,loser,weight\na,b,1\n"
    again = bbq.read(convert(source, tmp_path / "wins.csv"))
    assert not again.has_raters


names = st.text(min_size=1).map(str.strip).filter(lambda name: bool(name) and "\x00" not in name)


@pytest.mark.parametrize("file_format", FORMATS)
@given(data=st.data())
def test_every_name_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, file_format: Any, data: st.DataObject
) -> None:
    if file_format == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs the extra 'parquet'")
    odd = st.sampled_from(["=1+1", "'=1", "''@x", "-a", "+", "@", "'quoted'", "a\r\nb", '"x" y'])
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
        ("ann,a,,1", "an item has an empty name (loser)"),
        ("ann,a,b,heavy", "weight is not a weight"),
        ("ann,a,b,0", "weight is not a weight"),
        ("ann,a,b,nan", "weight is not a weight"),
        ("ann,a,b", "has 3 columns"),
    ],
)
def test_a_bad_row_is_counted_or_told_with_its_line(tmp_path: Path, row: str, says: str) -> None:
    path = tmp_path / "wins.csv"
    path.write_text(f"rater,winner,loser,weight\nann,a,b,1\n{row}\n")
    assert read(path).n_skipped == 1
    result = run("fit", path, "--strict")
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


# -- there and back


RATED = [
    bbq.Comparison("1", "ann", "oak", "elm, red", "left"),
    bbq.Comparison("2", "ann", "elm, red", "=fir", "right"),
    bbq.Comparison("3", "bob", "=fir", "oak", "tie"),
    bbq.Comparison("4", "bob", "oak", "elm, red", "right"),
    bbq.Comparison("5", "bob", "oak", "=fir", "left", 2.5),
]


def written(data: bbq.Comparisons, path: Path, layout: Any, file_format: Any) -> list[str]:
    with path.open("wb") as file:
        return write_comparisons(data, file, file_format, layout)


@pytest.mark.parametrize("file_format", ["jsonl", "parquet"])
def test_arena_votes_come_back_with_raters_sides_ties_and_weights(
    tmp_path: Path, file_format: str
) -> None:
    data = bbq.Comparisons.from_comparisons(RATED)
    path = tmp_path / f"votes.{file_format}"
    (note,) = written(data, path, "arena", file_format)
    assert "weights are not 1" in note
    back = bbq.read(path)
    assert back.digest == data.digest
    assert (back.n_comparisons, back.n_ties) == (5, 1)
    assert (back.n_sided, back.n_left) == (data.n_sided, data.n_left) == (4, 2)


def test_arena_votes_of_a_study_come_back_from_csv(study: Path, tmp_path: Path) -> None:
    original = bbq.read(study)
    target = convert(study, tmp_path / "votes.csv", "--layout", "arena")
    assert target.read_text().splitlines()[0] == "model_a,model_b,winner,judge"
    back = bbq.read(target)
    assert back.digest == original.digest
    assert (back.n_ties, back.n_left) == (original.n_ties, original.n_left)


def test_an_item_that_is_called_like_an_outcome_is_refused(tmp_path: Path) -> None:
    data = bbq.Comparisons.from_records([("ann", "tie", "oak")])
    with pytest.raises(DataError, match="an item is called 'tie'"):
        written(data, tmp_path / "votes.csv", "arena", "csv")


def test_a_name_with_a_guard_is_noted(tmp_path: Path) -> None:
    data = bbq.Comparisons.from_comparisons(RATED)
    for layout in ("arena", "evalica"):
        notes = written(data, tmp_path / "votes.csv", layout, "csv")
        assert any("apostrophe" in note for note in notes)
        assert not any("apostrophe" in n for n in written(data, tmp_path / "v", layout, "jsonl"))


def test_evalica_pairs_come_back_with_their_weights(tmp_path: Path) -> None:
    unrated = [msgspec.structs.replace(one, rater=None) for one in RATED]
    data = bbq.Comparisons.from_comparisons(unrated)
    for file_format in ("jsonl", "csv"):
        path = tmp_path / f"pairs.{file_format}"
        assert written(data, path, "evalica", file_format)
        back = bbq.read(path, rename={"'=fir": "=fir"})
        assert (back.digest, back.n_ties) == (data.digest, data.n_ties)


@pytest.mark.parametrize("layout", ["evalica", "choix", "preflib"])
def test_raters_that_a_layout_cannot_hold_are_noted(study: Path, layout: str) -> None:
    result = run("convert", study, "--layout", layout)
    assert result.exit_code == 0
    assert "no raters: the names of 15 raters are left out" in result.stderr


def test_both_bad_is_noted_where_it_becomes_a_tie(tmp_path: Path) -> None:
    source = tmp_path / "votes.csv"
    source.write_text("model_a,model_b,winner,judge\noak,elm,both_bad,ann\nelm,oak,model_a,bob\n")
    for layout in ("bbq", "arena", "preflib"):
        result = run("convert", source, "--layout", layout)
        assert "1 answer 'both bad' written as ties" in result.stderr


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_pairs_of_choix_come_back(study: Path, tmp_path: Path, suffix: str) -> None:
    target = convert(study, tmp_path / f"pairs.{suffix}", "--layout", "choix")
    original, back = bbq.read(study), bbq.read(target)
    assert sorted(back.items) == sorted(original.items)
    assert won_by_name(back) == {pair: 2 * weight for pair, weight in won_by_name(original).items()}


def won_by_name(data: bbq.Comparisons) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for won, lost, weight in zip(data.winner, data.loser, data.weight, strict=True):
        found[data.items[won], data.items[lost]] += float(weight)  # type: ignore[assignment]
    return found


def test_choix_takes_the_json_as_it_is(
    study: Path, tmp_path: Path, truth: dict[str, float]
) -> None:
    choix = pytest.importorskip("choix", reason="choix comes with the extra 'dev'")
    found = json.loads(convert(study, tmp_path / "c.json", "--layout", "choix").read_bytes())
    theta = choix.ilsr_pairwise(found["n_items"], found["data"], tol=1e-12)
    named = dict(zip(found["items"], theta.tolist(), strict=True))
    assert centred(named) == pytest.approx(truth, abs=1e-6)


def test_what_choix_generates_is_read(tmp_path: Path) -> None:
    choix = pytest.importorskip("choix", reason="choix comes with the extra 'dev'")
    np.random.seed(3)  # noqa: NPY002 - choix draws from this one
    params = choix.generate_params(5, interval=3.0)
    pairs = choix.generate_pairwise(params, 400)
    rankings = choix.generate_rankings(params, 300, size=4)
    for data, fitted in (
        (pairs, choix.ilsr_pairwise(5, pairs, tol=1e-10)),
        (rankings, choix.ilsr_rankings(5, rankings, tol=1e-10)),
    ):
        path = tmp_path / "data.json"
        path.write_text(json.dumps([[int(i) for i in entry] for entry in data]))
        read = bbq.read(path, adapter="choix")
        fit = bbq.fit(read, model="bayes-bt", priors=FLAT, tol=1e-10)
        found = centred(by_name(fit))
        wanted = centred({str(i): float(x) for i, x in enumerate(fitted)})
        # Pairs are the same likelihood; rankings broken into pairs are consistent, not equal.
        assert found == pytest.approx(wanted, abs=1e-6 if data is pairs else 0.35)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("[0]", "is no comparison"),
        ("[0, 7]", "item 7 has no name"),
        ("[0, 0]", "has an item twice"),
        ('[0, "b"]', "is no number of an item"),
        ("[0, []]", "is no choice"),
        ("[true, 1]", "is no number of an item"),
    ],
)
def test_a_broken_entry_of_choix_is_a_counted_skip(tmp_path: Path, entry: str, says: str) -> None:
    path = tmp_path / "pairs.json"
    good = "[0, 1], [1, 0], [0, 1, 2], [2, [0, 1]]"
    head = '{"n_items": 3, "items": ["a", "b", "c"], "data": '
    path.write_text(f"{head}[{good}, {entry}]}}")
    data = bbq.read(path)
    assert data.items == ("a", "b", "c")
    ((reason, n),) = data.skip_reasons.items()
    assert says in reason
    assert n == 1


def ranking(key: str, *wins: tuple[str, str, float]) -> list[bbq.Comparison]:
    return [
        bbq.Comparison(f"{key}/{i}", None, won, lost, "left", weight, slate=key)
        for i, (won, lost, weight) in enumerate(wins)
    ]


def test_rankings_come_back_from_preflib(tmp_path: Path) -> None:
    records = ranking("v1", *bbq.break_ranking(["oak", "elm", "fir"]))
    records += ranking("v2", *bbq.break_ranking(["oak", "elm", "fir"]))
    records += ranking("v3", *bbq.break_ranking(["<b>fir", "oak", "elm"]))
    records += [bbq.Comparison("p", None, "elm", "oak", "tie")]
    records += [bbq.Comparison("q", None, "elm", "oak", "left", 2.0)]
    data = bbq.Comparisons.from_comparisons(records)
    path = tmp_path / "votes.toi"
    assert written(data, path, "preflib", "toi") == []
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    assert sorted(lines) == ["1: 4,1,2", "1: {1,2}", "2: 1,2,3", "2: 2,1"]
    back = bbq.read(path)
    # Two votes of weight 1 for one of weight 2.
    assert back.triples.weight.tolist() == data.triples.weight.tolist()
    assert (back.items, back.n_ties) == (data.items, 1)
    again = tmp_path / "again.toi"
    written(back, again, "preflib", "toi")
    assert again.read_text() == path.read_text()


def test_rankings_with_ties_come_back_from_preflib(tmp_path: Path) -> None:
    head = "".join(f"# ALTERNATIVE NAME {i}: {name}\n" for i, name in enumerate("abcd", 1))
    path, again = tmp_path / "in.toc", tmp_path / "again.toc"
    path.write_text(head + "7: 1,{2,3},4\n5: {1,2},3,4\n2: 4,3,2,1\n1: {1,2,3},4\n")
    data = bbq.read(path)
    written(data, again, "preflib", "toc")
    back = bbq.read(again)
    assert (back.digest, back.n_ties) == (data.digest, data.n_ties)
    orders = [line for line in again.read_text().splitlines() if not line.startswith("#")]
    assert orders == ["7: 1,{2,3},4", "5: {1,2},3,4", "2: 4,3,2,1", "1: {1,2,3},4"]


@pytest.mark.parametrize("kind", ["soc", "soi", "toc"])
def test_a_kind_of_preflib_that_cannot_hold_it_is_refused(
    study: Path, tmp_path: Path, kind: str
) -> None:
    result = run("convert", study, "-o", tmp_path / f"votes.{kind}")
    assert result.exit_code == 1
    assert f"this cannot be a .{kind} file" in result.stderr
    assert ".toi" in result.stderr
    assert not (tmp_path / f"votes.{kind}").exists()


def test_choices_are_written_to_preflib_pair_by_pair(tmp_path: Path) -> None:
    wins = bbq.break_choice("oak", ["oak", "elm", "fir"])
    data = bbq.Comparisons.from_comparisons(ranking("v1", *wins))
    notes = written(data, tmp_path / "votes.soi", "preflib", "soi")
    assert any("each pair is written by itself" in note for note in notes)
    back = bbq.read(tmp_path / "votes.soi")
    assert back.triples.weight.tolist() == [2.0, 2.0]
    assert any("a comparison of weight 1 is written 3 times" in note for note in notes)


@pytest.mark.parametrize("name", ["a\nb", " a", "a\u2028b"])
def test_a_name_that_preflib_cannot_hold_is_refused(tmp_path: Path, name: str) -> None:
    data = bbq.Comparisons.from_records([(None, name, "oak")])
    with pytest.raises(DataError, match="one name a line"):
        written(data, tmp_path / "votes.toi", "preflib", "toi")


@pytest.mark.parametrize(
    ("layout", "file_format"), [("preflib", "csv"), ("choix", "jsonl"), ("arena", "json")]
)
def test_a_format_that_a_layout_does_not_have_is_refused(
    study: Path, layout: str, file_format: str
) -> None:
    result = run("convert", study, "--layout", layout, "--format", file_format)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"cannot be written as {file_format}" in result.stderr


def test_a_large_weight_of_a_vote_is_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("model_a,model_b,winner,weight\noak,elm,model_a,2\nelm,oak,model_a,5000\n")
    with pytest.raises(DataError, match=r":3: weight is 5000; .*--adapter table"):
        bbq.read(path)
