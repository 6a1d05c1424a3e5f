from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

from bbq_plugin import fit, simulate
from bbq_plugin.data.files import read, records
from bbq_plugin.data.records import Comparison
from bbq_plugin.errors import FormatError, UsageError
from bbq_plugin.simulation import write_study

if TYPE_CHECKING:
    from pathlib import Path

SLATE = "observer,condition_1,condition_2,condition_3,selected\n"


def log(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("design", "options"),
    [
        ({}, {}),
        ({"slate": 3, "answer": "rank"}, {}),
        ({"slate": 4, "answer": "best"}, {"task": "best-of-n"}),
    ],
)
def test_a_simulated_log_reads_back_as_the_study_that_it_is(
    tmp_path: Path, design: Any, options: Any
) -> None:
    study = simulate(comparisons=400, raters=20, items=6, **design)
    text = io.StringIO()
    write_study(study, text, "afc")
    data = read(log(tmp_path, text.getvalue()), **options)
    known = study.arrays()
    assert data.n_comparisons == len(list(study.comparisons()))
    theta = dict(zip(data.items, fit(data, priors="paper").theta, strict=True))
    assert [theta[item] for item in known.items] == pytest.approx(
        fit(known, priors="paper").theta, abs=1e-6
    )


def test_a_choice_of_three_is_not_guessed_at(tmp_path: Path) -> None:
    path = log(tmp_path, SLATE + "o1,a,b,c,1\n")
    with pytest.raises(FormatError, match=r"different things .*task=…: best-of-n, triplet-ref"):
        read(path)


def test_the_odd_one_out_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not which is better"):
        read(log(tmp_path, SLATE + "o1,a,b,c,1\n"), task="oddity")


def test_unit_weights_are_an_option(tmp_path: Path) -> None:
    path = log(tmp_path, SLATE + "o1,a,b,c,1\n")
    assert read(path, task="best-of-n", weights="unit").weight.tolist() == [1.0, 1.0]


def test_the_reference_leaves_a_slate_and_the_others_stay(tmp_path: Path) -> None:
    path = log(tmp_path, SLATE + "o1,ref,b,c,2\no1,ref,b,c,1\n")
    data = read(path, task="best-of-n", reference="ref")
    assert data.items == ("b", "c")
    assert data.weight.tolist() == [1.0]
    assert sum(data.skip_reasons.values()) == 1


def test_the_pivot_may_be_a_column_of_its_own(tmp_path: Path) -> None:
    text = "observer,pivot,condition_A,condition_B,selected\no1,p,a,b,1\n"
    (record,) = records(log(tmp_path, text), task="triplet-ref", pivot="pivot")
    assert isinstance(record, Comparison)
    assert (record.outcome, record.tags) == ("right", {"pivot": "p"})


def test_choosing_the_pivot_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=":2: the pivot itself was chosen"):
        read(log(tmp_path, SLATE + "o1,a,b,c,1\n"), task="triplet-ref")


@pytest.mark.parametrize(
    ("column", "value", "options", "seconds"),
    [
        ("rt_ms", "500", {}, 0.5),
        ("time_s", "0.25", {}, 0.25),
        ("rt", "300", {"time_unit": "ms"}, 0.3),
        ("dauer", "2", {"time": "dauer", "time_unit": "s"}, 2.0),
    ],
)
def test_reaction_times_are_kept_in_seconds(
    tmp_path: Path, column: str, value: str, options: Any, seconds: float
) -> None:
    text = f"observer,condition_A,condition_B,is_A_selected,{column}\no1,a,b,1,{value}\n"
    data = read(log(tmp_path, text), **options)
    assert data.median_time_s is not None
    assert data.median_time_s.tolist() == pytest.approx([seconds])


def test_times_without_a_unit_are_not_guessed_at(tmp_path: Path) -> None:
    text = "observer,condition_A,condition_B,is_A_selected,rt\no1,a,b,1,300\n"
    data = read(log(tmp_path, text))
    assert data.median_time_s is None
    assert "time_unit" in data.warnings[0]


def test_the_pairs_of_one_slate_have_one_time(tmp_path: Path) -> None:
    text = "observer,condition_1,condition_2,condition_3,selected,time_s\no1,a,b,c,1,3\n"
    found = list(records(log(tmp_path, text), task="best-of-n"))
    assert [c.time_s for c in found if isinstance(c, Comparison)] == [3.0, None]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("observer,condition_A,condition_B,picked\no,a,b,1\n", {}, "which column holds the answer"),
        ("participant,a.keys,psychopyVersion\np,f,1\n", {}, "which columns hold the items"),
        (SLATE + "o,a,b,c,1\n", {"task": "2afc"}, "3 items a row"),
        (SLATE + "o,a,b,c,1\n", {"task": "rank-of-n"}, "name them with ranks="),
        (SLATE + "o,a,b,c,1\n", {"task": "best-of-m"}, "did you mean 'best-of-n'"),
        (SLATE + "o,a,b,c,9\n", {"task": "best-of-n"}, ":2: .*none of the 3 items"),
        (SLATE + "o,a,b,c,x\n", {"task": "best-of-n"}, ":2: selected is 'x'"),
        (SLATE + "o,a,b,,1\n", {"task": "best-of-n"}, "1 × an item has an empty name"),
        (SLATE + "o,a,b,c,1\n", {"items": "condition_1,condition2"}, "did you mean 'condition_2'"),
        (
            "observer,condition_A,condition_B,selected\no,a,b,3\n",
            {},
            ":2: .*task=2afc-tie",
        ),
        (
            "observer,condition_1,condition_2,rank_1,rank_2\no,a,b,good,2\n",
            {},
            "1 × rank_1 is not a rank",
        ),
    ],
)
def test_what_cannot_be_told_is_asked_for(
    tmp_path: Path, text: str, options: Any, message: str
) -> None:
    with pytest.raises((FormatError, UsageError), match=message):
        read(log(tmp_path, text), "afc", **options)


def test_a_ranking_may_leave_items_out_or_tie_them(tmp_path: Path) -> None:
    head = "observer,condition_1,condition_2,condition_3,rank_1,rank_2,rank_3\n"
    data = read(log(tmp_path, head + "o,a,b,c,1,,\no,a,b,c,1,1,2\no,a,b,c,1,1,1\n"), max_skipped=1)
    assert data.skip_reasons == {}
    # One above two; then a tie above one; then three ties.
    assert (data.n_comparisons, data.n_ties) == (8, 4)


def test_buttons_count_from_0_and_places_in_values_from_1(tmp_path: Path) -> None:
    text = "trial_type,trial_index,rt,stimulus_left,stimulus_right,response\n"
    text += "choice,1,400,a,b,0\nchoice,2,400,a,b,neither\n"
    with pytest.raises(FormatError, match=r"a button from 0 to 1.*where places count from 1"):
        read(log(tmp_path, text), "afc")
    data = read(log(tmp_path, text), "afc", values={"0": "1", "neither": "2"})
    assert data.n_comparisons == 2
