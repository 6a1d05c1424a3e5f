"""Percent agreement and Krippendorff's alpha, against hand-made numbers and the definition."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from bbq_plugin.analysis.agreement import inter_rater
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.records import Comparison, Outcome


def answers(table: dict[str, dict[str, Outcome]]) -> Comparisons:
    """By question, of a prompt each: what each rater said about a and b."""
    return Comparisons.from_comparisons(
        [
            Comparison(f"{question}{rater}", rater, "a", "b", said, tags={"prompt": question})
            for question, row in table.items()
            for rater, said in row.items()
        ],
    )


def test_four_questions_by_hand() -> None:
    """Three raters agree on two of four, and two of three on the others: 2/3 of all pairs."""
    rows = ["lll", "rrr", "llr", "lrr"] * 2
    sides: dict[str, Outcome] = {"l": "left", "r": "right"}
    table = {
        f"q{n}": dict(zip("xyz", (sides[s] for s in row), strict=True))
        for n, row in enumerate(rows)
    }
    found = inter_rater(answers(table))
    assert (found.tag, found.n_units) == ("prompt", 8)
    assert found.agreement == pytest.approx(2 / 3)
    # Without ties the expected disagreement is one half: alpha = 1 - (1/3) / (1/2).
    assert found.alpha == pytest.approx(1 / 3)
    assert found.agreement_lower < 2 / 3 < found.agreement_upper
    # y is in the majority always, x and z in three of four questions each.
    shares = {row.rater: row.agreement for row in found.raters}
    assert shares["y"] == pytest.approx((1 + 1 + 0.5 + 0.5) / 4)
    assert shares["x"] == pytest.approx((1 + 1 + 0.5 + 0) / 4)
    assert found.units[0].agreement == pytest.approx(1 / 3)


def test_it_is_the_definition_with_ties_and_missing_answers() -> None:
    rng = np.random.default_rng(0)
    said: list[Outcome] = ["left", "right", "tie"]
    table = {
        f"q{n}": {
            f"r{k}": said[int(rng.choice(3, p=[0.6, 0.25, 0.15] if n % 2 else [0.2, 0.6, 0.2]))]
            for k in range(6)
            if rng.random() < 0.6
        }
        for n in range(60)
    }
    shared = [list(row.values()) for row in table.values() if len(row) > 1]
    n = sum(map(len, shared))
    observed = sum(
        sum(a != b for a, b in permutations(row, 2)) / (len(row) - 1) for row in shared
    ) / n  # fmt: skip
    ties = sum(row.count("tie") for row in shared)
    decided = n - ties
    # Of two decided answers of other questions, in arbitrary order, half are the same.
    same = (decided * (decided - 1) / 2 + ties * (ties - 1)) / (n * (n - 1))
    found = inter_rater(answers(table))
    assert found.n_units == len(shared)
    assert found.alpha == pytest.approx(1 - observed / (1 - same))


def test_intervals_cover_what_many_questions_would_give() -> None:
    def drawn(rng: np.random.Generator, n: int) -> Comparisons:
        p = rng.choice([0.2, 0.5, 0.9], n)
        rows = rng.random((n, 4)) < p[:, None]
        return answers({
            f"q{k}": {f"r{j}": "left" if one else "right" for j, one in enumerate(row)}
            for k, row in enumerate(rows)
        })  # fmt: skip

    # Two raters agree with p^2 + (1 - p)^2: the mean over the three kinds of questions.
    truth = float(np.mean([0.68, 0.5, 0.82]))
    found = [inter_rater(drawn(np.random.default_rng(seed), 100)) for seed in range(100)]
    inside = np.mean([one.agreement_lower < truth < one.agreement_upper for one in found])
    alpha = np.mean([one.alpha_lower < 2 * truth - 1 < one.alpha_upper for one in found])
    # 95 of 100, give or take two standard errors of 2.2.
    assert inside > 0.89
    assert alpha > 0.89


def test_of_ties_alone_there_is_no_alpha() -> None:
    found = inter_rater(answers({f"q{n}": {"x": "tie", "y": "tie"} for n in range(5)}))
    assert found.agreement == 1
    assert found.as_dict()["alpha"] is found.as_dict()["alpha_upper"] is None
    assert "no Krippendorff's alpha, because all answers are ties" in found.text


def test_raters_who_share_nothing_have_no_agreement() -> None:
    found = inter_rater(answers({"q1": {"x": "left"}, "q2": {"y": "left"}}))
    assert found.n_units in (0, 1)
    alone = inter_rater(Comparisons.from_records([("x", "a", "b", 1.0), ("y", "c", "d", 1.0)]))
    assert alone.n_units == 0
    assert alone.as_dict()["alpha"] is None
    assert "No two raters" in alone.text
