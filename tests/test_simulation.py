from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.files import read
from bbq_plugin.errors import UsageError
from bbq_plugin.simulation import Study, StudyFormat, simulate, write_study, write_truth

if TYPE_CHECKING:
    from pathlib import Path


def rows(study: Study, file_format: StudyFormat) -> list[dict[str, str]]:
    file = io.StringIO()
    write_study(study, file, file_format)
    return list(csv.DictReader(io.StringIO(file.getvalue())))


def weights(data: Comparisons) -> dict[tuple[str, str, str], float]:
    triples = data.triples
    rater = np.repeat(np.arange(data.n_raters), np.diff(triples.start))
    return {
        (data.raters[r], data.items[w], data.items[lo]): weight
        for r, w, lo, weight in zip(
            rater, triples.winner, triples.loser, triples.weight.tolist(), strict=True
        )
    }


def test_the_same_seed_gives_the_same_study() -> None:
    first, second, other = (simulate(seed=s, ties=0.2, left_bias=0.5) for s in (1, 1, 2))
    assert np.array_equal(first.shown, second.shown)
    assert np.array_equal(first.order, second.order)
    assert not np.array_equal(first.shown, other.shown)


def test_a_generator_may_be_passed_in() -> None:
    rng = np.random.default_rng(3)
    assert not np.array_equal(simulate(seed=rng).shown, simulate(seed=rng).shown)


def test_answers_follow_the_model() -> None:
    study = simulate(items=4, raters=50, comparisons=200_000, quality=(8, 4), seed=5)
    truth = study.truth
    ranked = np.take_along_axis(study.shown, study.order, axis=1)
    q = truth.quality[study.rater]
    y = 1 / (1 + np.exp(truth.theta[ranked[:, 1]] - truth.theta[ranked[:, 0]]))
    for i in range(4):
        for j in range(i):
            pair = (np.sort(ranked, axis=1) == (j, i)).all(axis=1)
            higher = ranked[pair, 0] == i
            y_i = np.where(higher, y[pair], 1 - y[pair])
            expected = (0.5 + q[pair] * (y_i - 0.5)).mean()
            # Five standard errors of a share over about 33,000 answers.
            assert higher.mean() == pytest.approx(expected, abs=5 * 0.5 / np.sqrt(pair.sum()))


def test_every_pair_of_items_is_shown_equally_often_on_either_side() -> None:
    study = simulate(items=5, raters=10, comparisons=100_000)
    count = np.zeros((5, 5))
    np.add.at(count, (study.shown[:, 0], study.shown[:, 1]), 1)
    off_diagonal = count[~np.eye(5, dtype=bool)]
    assert np.diag(count).sum() == 0
    assert np.abs(off_diagonal / 5000 - 1).max() < 0.1


def test_guessers_guess_and_the_inverted_answer_upside_down() -> None:
    study = simulate(
        items=2, raters=10, comparisons=40_000, guessers=0.3, inverted=0.2, spread=2.0, seed=1
    )
    truth = study.truth
    assert sorted(truth.kind) == ["guesser"] * 3 + ["honest"] * 5 + ["inverted"] * 2
    better = int(truth.theta.argmax())
    winner = np.take_along_axis(study.shown, study.order, axis=1)[:, 0]
    for code, kind in enumerate(truth.kind):
        share = (winner[study.rater == code] == better).mean()
        if kind == "guesser":
            assert truth.quality[code] == 0
            assert share == pytest.approx(0.5, abs=0.05)
        elif kind == "inverted":
            assert truth.quality[code] < 0
            assert share < 0.5
        else:
            assert share > 0.5


def test_left_bias_is_the_share_of_coin_flips_that_go_left_anyway() -> None:
    study = simulate(raters=1, comparisons=40_000, guessers=1.0, left_bias=0.6)
    assert (study.order[:, 0] == 0).mean() == pytest.approx(0.8, abs=0.02)
    left_rate = study.arrays().left_rate
    assert left_rate is not None
    assert left_rate[0] == pytest.approx(0.8, abs=0.02)


def test_equal_items_tie_as_often_as_asked_and_unequal_ones_hardly() -> None:
    equal = simulate(items=2, raters=1, comparisons=40_000, ties=0.3, spread=0.0)
    unequal = simulate(
        items=2, raters=1, comparisons=40_000, ties=0.3, spread=20.0, quality=(1e6, 1)
    )
    assert equal.tie.mean() == pytest.approx(0.3, abs=0.02)
    assert unequal.tie.mean() < 0.01


@pytest.mark.parametrize("inverted", [0.0, 1.0])
def test_a_win_and_half_a_tie_have_the_probability_of_the_model(inverted: float) -> None:
    study = simulate(
        items=2, raters=1, comparisons=100_000, ties=0.5, spread=1.5, inverted=inverted, seed=2
    )
    theta, (quality,) = study.truth.theta, study.truth.quality
    first_won = np.take_along_axis(study.shown, study.order, axis=1)[:, 0] == 0
    score = np.where(study.tie, 0.5, first_won).mean()
    y = 1 / (1 + np.exp(theta[1] - theta[0]))
    assert abs(y - 0.5) > 0.1
    assert study.tie.mean() > 0.1
    # Five standard errors of a share over 100,000 answers.
    assert score == pytest.approx(0.5 + quality * (y - 0.5), abs=0.008)


def test_votes_a_rater_have_the_median_and_the_total_asked_for() -> None:
    study = simulate(raters=2000, comparisons=106_000, median_votes=30)
    votes = np.bincount(study.rater, minlength=2000)
    assert votes.sum() == 106_000
    assert votes.min() >= 1
    assert np.median(votes) == pytest.approx(30, rel=0.15)
    equal = np.bincount(simulate(raters=7, comparisons=100).rater)
    assert sorted(set(equal.tolist())) == [14, 15]


def test_slates_hold_distinct_items() -> None:
    study = simulate(items=5, slate=5, answer="rank", comparisons=500)
    assert (np.sort(study.shown, axis=1) == np.arange(5)).all()
    assert (np.sort(study.order, axis=1) == np.arange(5)).all()


@pytest.mark.parametrize(
    "design", [{"ties": 0.3}, {"slate": 4, "answer": "best"}, {"slate": 4, "answer": "rank"}]
)
def test_arrays_records_and_comparisons_file_are_the_same_data(design: dict[str, Any]) -> None:
    study = simulate(items=6, raters=5, comparisons=200, **design)
    from_arrays = weights(study.arrays())
    from_records = weights(Comparisons.from_comparisons(study.comparisons()))
    from_file = weights(
        Comparisons.from_records(
            (row["rater"], row["winner"], row["loser"], float(row["weight"]))
            for row in rows(study, "comparisons")
        )
    )
    assert from_records == pytest.approx(from_arrays)
    assert from_file == pytest.approx(from_arrays)


def test_an_arena_file_reads_back_as_the_study(tmp_path: Path) -> None:
    study = simulate(comparisons=300, ties=0.2, left_bias=0.5, guessers=0.2)
    path = tmp_path / "votes.jsonl"
    with path.open("w") as file:
        write_study(study, file, "arena")
    data, expected = read(path), study.arrays()
    assert weights(data) == pytest.approx(weights(expected))
    assert (data.n_comparisons, data.n_ties) == (expected.n_comparisons, expected.n_ties)
    assert data.left_rate is not None
    assert expected.left_rate is not None
    by_name = dict(zip(expected.raters, expected.left_rate, strict=True))
    assert data.left_rate == pytest.approx([by_name[r] for r in data.raters], nan_ok=True)
    assert (data.n_left, data.n_sided) == (expected.n_left, expected.n_sided)


def test_a_pair_log_has_the_columns_of_pwcmp() -> None:
    study = simulate(comparisons=50)
    log = rows(study, "afc")
    assert list(log[0]) == [
        "observer",
        "session_id",
        "scene",
        "condition_A",
        "condition_B",
        "is_A_selected",
    ]
    selected = [int(row["is_A_selected"]) for row in log]
    assert selected == (study.order[:, 0] == 0).astype(int).tolist()


def test_a_slate_log_has_the_place_of_the_best_or_all_ranks() -> None:
    best = simulate(slate=3, comparisons=50)
    for row, c in zip(rows(best, "afc"), best.answers(), strict=True):
        _, shown, order, _ = c
        assert row[f"condition_{row['selected']}"] == best.truth.items[shown[order[0]]]
    rank = simulate(slate=3, comparisons=50, answer="rank")
    for row, c in zip(rows(rank, "afc"), rank.answers(), strict=True):
        _, shown, order, _ = c
        ranked = sorted((1, 2, 3), key=lambda place: int(row[f"rank_{place}"]))
        assert [row[f"condition_{p}"] for p in ranked] == [
            rank.truth.items[shown[place]] for place in order
        ]


def test_the_truth_file_names_everyone() -> None:
    study = simulate(items=3, raters=4, comparisons=20, guessers=0.5)
    file = io.StringIO()
    write_truth(study.truth, file)
    truth = json.loads(file.getvalue())
    assert truth["schema"] == "bbq.truth/1"
    assert [i["theta"] for i in truth["items"]] == study.truth.theta.tolist()
    assert [r["kind"] for r in truth["raters"]] == list(study.truth.kind)


@pytest.mark.parametrize(
    ("design", "message"),
    [
        ({"guessers": 1.5}, "guessers is 1.5"),
        ({"guessers": 0.6, "inverted": 0.6}, "add up to more than 1"),
        ({"slate": 9}, "slate is 9"),
        ({"slate": 1}, "slate is 1"),
        ({"items": 1}, "items is 1; expected 2 or more"),
        ({"raters": 100, "comparisons": 50}, "every rater answers at least once"),
        ({"answer": "worst"}, "answer is 'worst'"),
        ({"slate": 3, "ties": 0.1}, "ties are defined between two items"),
        ({"median_votes": 1000}, "median between 1 and the mean"),
        ({"items": 0}, "items is 0; expected 2 or more"),
        ({"seed": -1}, "seed is -1; expected 0 or more"),
        ({"spread": -1.0}, "spread is -1.0; expected a finite number, 0 or more"),
        ({"spread": float("nan")}, "spread is nan"),
        ({"shape": float("nan")}, "shape is nan; expected a finite number above 0"),
        ({"shape": float("inf")}, "shape is inf"),
        ({"quality": (0, 0)}, r"quality\[0\] is 0; expected a finite number above 0"),
        ({"quality": (float("nan"), 2)}, r"quality\[0\] is nan"),
        ({"quality": (2, float("inf"))}, r"quality\[1\] is inf"),
    ],
)
def test_an_impossible_design_is_wrong_usage(design: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        simulate(**design)


def test_a_file_format_that_cannot_hold_the_study_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="slates of 3; write it as afc or comparisons"):
        rows(simulate(slate=3), "arena")
    with pytest.raises(UsageError, match="has no ties"):
        rows(simulate(ties=0.5), "afc")
    with pytest.raises(UsageError, match="expected one of arena, afc, comparisons"):
        rows(simulate(), "xml")  # type: ignore[arg-type]


def test_a_minority_follows_a_ranking_of_its_own_that_the_truth_names() -> None:
    study = simulate(items=6, raters=20, comparisons=20_000, minority=0.3, guessers=0.2, seed=4)
    truth = study.truth
    assert truth.camp.tolist().count(2) == 6
    assert all(truth.kind[r] == "honest" for r in np.flatnonzero(truth.camp == 2))
    assert truth.minority_theta is not None
    assert sorted(truth.minority_theta) == sorted(truth.theta)
    ranked = np.take_along_axis(study.shown, study.order, axis=1)
    mine = truth.camp[study.rater] == 2
    ahead = truth.minority_theta[ranked[:, 0]] > truth.minority_theta[ranked[:, 1]]
    assert ahead[mine].mean() > 0.6
    assert ahead[mine].mean() > ahead[~mine].mean() + 0.05
    file = io.StringIO()
    write_truth(truth, file)
    written = json.loads(file.getvalue())
    assert [row["camp"] for row in written["raters"]] == truth.camp.tolist()
    assert [row["minority_theta"] for row in written["items"]] == truth.minority_theta.tolist()


def test_without_a_minority_there_is_one_camp() -> None:
    study = simulate(seed=1)
    assert (study.truth.camp == 1).all()
    assert study.truth.minority_theta is None


def test_shares_that_add_up_to_more_than_all_raters_are_refused() -> None:
    with pytest.raises(UsageError, match=r"minority 0\.6 add up to more than 1"):
        simulate(guessers=0.3, inverted=0.2, minority=0.6)
