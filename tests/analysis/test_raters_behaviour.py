"""Signs in single answers: each is found where it was planted, with its number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import bbq_plugin as bbq
from bbq_plugin.analysis import RaterReport, RaterRow
from bbq_plugin.analysis.raters.verdicts import benjamini_hochberg, most_certain

RATERS, VOTES = 20, 180
FIRST = "rater-01"


def _answers(seed: int = 0, spread: float = 1.2) -> list[bbq.Comparison]:
    """A study of honest raters, its votes in a fixed order, a few seconds each."""
    study = bbq.simulate(
        items=8, raters=RATERS, comparisons=RATERS * VOTES, spread=spread, quality=(40.0, 5.0),
        seed=seed,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    seconds = rng.lognormal(2.0, 0.4, len(study))
    return [
        bbq.Comparison(c.key, c.rater, c.left, c.right, c.outcome, at=float(i), time_s=float(s))
        for i, (c, s) in enumerate(zip(study.comparisons(), seconds, strict=True))
    ]


def _changed(answers: list[bbq.Comparison], change: object) -> list[bbq.Comparison]:
    """The same with the first rater's answers changed: ``change(number, answer)``."""
    number = 0
    out = []
    for answer in answers:
        if answer.rater == FIRST:
            out.append(change(number, answer))  # type: ignore[operator]
            number += 1
        else:
            out.append(answer)
    return out


def _with(answer: bbq.Comparison, **fields: object) -> bbq.Comparison:
    values = {name: getattr(answer, name) for name in answer.__struct_fields__}
    return bbq.Comparison(**{**values, **fields})


def _report(answers: list[bbq.Comparison]) -> RaterReport:
    return bbq.rater_report(bbq.fit(bbq.Comparisons.from_comparisons(answers)))


def _first(report: RaterReport) -> RaterRow:
    return next(row for row in report if row.rater == FIRST)


def _others(report: RaterReport) -> Iterator[str]:
    return (row.verdict for row in report if row.rater != FIRST)


def test_honest_raters_with_nothing_to_say_against_them_are_kept_without_reasons() -> None:
    report = _report(_answers())
    assert [row.verdict for row in report].count("keep") >= RATERS - 1
    assert sum(bool(row.reasons) for row in report) <= 2
    assert report.not_known == (
        "which questions have a known answer",
        "in which order the items of a ranking were shown",
    )


def test_someone_who_always_presses_the_same_button_is_excluded_for_it() -> None:
    report = _report(_changed(_answers(), lambda _, c: _with(c, outcome="left")))
    row = _first(report)
    assert row.verdict == "exclude"
    assert row.left_rate == 1.0
    assert 0.3 < row.left_expected < 0.7
    assert any("always the same button: 100% of 180 answers went left" in r for r in row.reasons)
    assert "both buttons" in row.way_back
    assert "exclude" not in set(_others(report))


def _leaning(share: float, votes: int = VOTES) -> list[bbq.Comparison]:
    """The first rater answers left, whatever is shown, in this share of so many answers."""
    rng = np.random.default_rng(5)

    def lean(_: int, answer: bbq.Comparison) -> bbq.Comparison:
        return _with(answer, outcome="left") if rng.random() < share else answer

    changed = _changed(_answers(), lean)
    mine = [answer for answer in changed if answer.rater == FIRST][:votes]
    return [answer for answer in changed if answer.rater != FIRST] + mine


def test_a_lean_to_one_side_is_told_with_its_interval() -> None:
    row = _first(_report(_leaning(0.6)))
    assert 0.1 < row.side_bias_lower < row.side_bias < row.side_bias_upper < 0.5
    assert any(reason.startswith("leans to one side: ") for reason in row.reasons)
    assert any("Of two equal items the rater chooses the left one in " in r for r in row.reasons)


def test_a_lean_that_few_answers_show_is_drawn_to_that_of_the_others() -> None:
    many, few = (_first(_report(_leaning(0.6, votes))) for votes in (VOTES, 12))
    assert few.left_rate > 0.7
    assert 0 < few.side_bias < many.side_bias
    assert not any("leans" in reason for reason in few.reasons)


def test_a_layout_that_favours_one_side_is_no_sign_against_each_rater() -> None:
    rng = np.random.default_rng(6)
    shown = [_with(c, outcome="left") if rng.random() < 0.3 else c for c in _answers()]
    report = _report(shown)
    assert np.mean([row.side_bias for row in report]) > 0.1
    assert not any("leans" in reason for row in report for reason in row.reasons)


def test_nothing_is_said_of_a_side_where_side_and_item_are_the_same_thing() -> None:
    fixed = [
        c if c.left < c.right else _with(
            c, left=c.right, right=c.left,
            outcome={"left": "right", "right": "left"}.get(c.outcome, c.outcome),
        )
        for c in _answers()
        if "item-1" in (c.left, c.right)
    ]  # fmt: skip
    report = _report(fixed)
    assert all(np.isnan(row.side_bias) for row in report)
    assert any("always shown on the same side" in text for text in report.not_known)


def test_a_winner_shown_first_is_no_lean_when_the_items_explain_it() -> None:
    # The better item always stands on the left, and the rater is right: many lefts, no bias.
    rng = np.random.default_rng(0)
    rows = []
    for n in range(RATERS * VOTES):
        left, right = sorted(rng.choice(8, 2, replace=False) + 1)
        rater = n % RATERS
        says = "left" if rng.random() < 0.95 else "right"
        if rater:
            flip = rng.random() < 0.5
            pair = (f"item-{right}", f"item-{left}") if flip else (f"item-{left}", f"item-{right}")
            outcome = {"left": "right", "right": "left"}[says] if flip else says
        else:
            pair, outcome = (f"item-{left}", f"item-{right}"), says
        rows.append(bbq.Comparison(f"{n}", f"rater-{rater + 1:02}", *pair, outcome))  # type: ignore[arg-type]
    row = _first(_report(rows))
    assert row.left_rate > 0.9
    assert abs(row.left_rate - row.left_expected) < 0.1
    assert row.verdict == "keep"


def test_alternating_sides_are_seen_in_the_order_of_time() -> None:
    turn = ("left", "right")
    planted = _changed(_answers(), lambda n, c: _with(c, outcome=turn[n % 2]))
    # The file's order is not that of time.
    shuffled = [planted[i] for i in np.random.default_rng(1).permutation(len(planted))]
    for answers in (planted, shuffled):
        row = _first(_report(answers))
        assert any(
            reason.startswith("alternates: the side changes in 100%") for reason in row.reasons
        )
        assert row.verdict in ("watch", "exclude")


def test_haste_is_noted_and_not_held_against_someone_whose_answers_are_informed() -> None:
    fast = _changed(_answers(), lambda _, c: _with(c, time_s=0.3))
    row = _first(_report(fast))
    assert row.tempo < 0.1
    assert any(reason.startswith("fast: takes") for reason in row.reasons)
    assert row.verdict == "keep"
    assert row.reasons[-1] == "noted only: the answers themselves are clearly informed"


def test_haste_of_someone_who_may_be_guessing_is_watched() -> None:
    rng = np.random.default_rng(3)
    coin = ("left", "right")
    planted = _changed(_answers(), lambda _, c: _with(c, time_s=0.3, outcome=coin[rng.integers(2)]))
    row = _first(_report(planted))
    assert row.verdict != "keep"
    assert any(reason.startswith("fast: takes") for reason in row.reasons)


def test_someone_who_stops_trying_is_told_from_someone_who_never_tried() -> None:
    rng = np.random.default_rng(4)
    coin = ("left", "right")
    planted = _changed(
        _answers(spread=3.0), lambda n, c: c if n < 90 else _with(c, outcome=coin[rng.integers(2)])
    )
    row = _first(_report(planted))
    assert row.drift < -0.3
    assert any(reason.startswith("quality falls: about") for reason in row.reasons)
    assert row.verdict in ("watch", "exclude")


def test_contradicting_oneself_on_repeated_pairs_counts() -> None:
    times: dict[frozenset[str], int] = {}

    def in_turn(_: int, answer: bbq.Comparison) -> bbq.Comparison:
        pair = frozenset((answer.left, answer.right))
        times[pair] = times.get(pair, 0) + 1
        first = times[pair] % 2 == 1
        return _with(answer, outcome="left" if first == (answer.left < answer.right) else "right")

    report = _report(_changed(_answers(spread=3.0), in_turn))
    row = _first(report)
    assert row.self_consistency == 0
    assert any(
        reason.startswith("inconsistent: gave the same answer to 0%") for reason in row.reasons
    )
    assert row.verdict != "keep"
    kept = [other for other in report if other.verdict == "keep"]
    assert np.mean([other.self_consistency for other in kept]) > 0.7


@pytest.mark.parametrize(("elsewhere", "verdict"), [("informed", "watch"), ("coin", "exclude")])
def test_known_questions_are_evidence_of_their_own(elsewhere: str, verdict: str) -> None:
    rng = np.random.default_rng(5)
    study = bbq.simulate(items=8, raters=2, comparisons=2, spread=1.2, seed=0)
    theta = dict(zip(study.truth.items, study.truth.theta.tolist(), strict=True))
    answers = []
    for n, answer in enumerate(_answers()):
        right = "left" if theta[answer.left] > theta[answer.right] else "right"
        known = n % 3 == 0
        wrong = {"left": "right", "right": "left"}[right]
        says = right if answer.rater != FIRST else wrong if n % 2 else right
        fields: dict[str, object] = {"tags": {"gold": right}} if known else {}
        if known:
            fields["outcome"] = says
        elif answer.rater == FIRST and elsewhere == "coin":
            fields["outcome"] = ("left", "right")[rng.integers(2)]
        answers.append(_with(answer, **fields))
    report = _report(answers)
    row = _first(report)
    assert row.n_gold == 60
    assert row.gold_rate == 0.5
    assert any(reason.startswith("known questions: 50% of 60 right") for reason in row.reasons)
    assert row.verdict == verdict
    assert all(other.gold_rate == 1 for other in report if other.rater != FIRST)
    assert "which questions have a known answer" not in report.not_known


def test_without_single_answers_the_report_says_what_it_cannot_know() -> None:
    data = bbq.Comparisons.from_comparisons(_answers())
    report = bbq.rater_report(bbq.fit(replace(data, answers=None)))
    assert report.not_known[0].startswith("sides, times and the order")
    assert all(np.isnan(row.tempo) for row in report)


def test_benjamini_and_hochberg_name_the_longest_list_and_pass_over_what_is_not_known() -> None:
    p = np.array([0.001, 0.03, np.nan, 0.9, 0.012])
    assert benjamini_hochberg(p, 0.05).tolist() == [True, True, False, False, True]
    assert not benjamini_hochberg(np.array([0.2, 0.9]), 0.05).any()
    assert not benjamini_hochberg(np.full(3, np.nan), 0.05).any()


def test_the_most_certain_are_excluded_while_the_expected_share_of_honest_ones_allows() -> None:
    p = np.array([0.99, 0.6, 0.93, 0.97])
    able = np.array([True, True, True, True])
    # 1%, then 2%, then 3.7%, then 12.75% of the list are expected to be honest.
    assert most_certain(p, able, 0.05).tolist() == [True, False, True, True]
    assert most_certain(p, np.array([False, True, True, True]), 0.05).tolist() == [
        False, False, True, True,
    ]  # fmt: skip


def test_the_order_of_rows_without_dates_changes_no_verdict() -> None:
    rng, rows = np.random.default_rng(1), []
    theta = rng.normal(0, 0.9, 8)
    for r in range(20):
        quality = rng.uniform(-1, 1)
        for n in range(60):
            a, b = rng.choice(8, 2, replace=False).tolist()
            left = rng.random() < 0.5 + quality * 0.5 * np.tanh(0.5 * (theta[a] - theta[b]))
            a, b = (a, b) if left else (b, a)
            rows.append(bbq.Comparison(f"{r}-{n}", f"r{r}", f"i{a}", f"i{b}", "left"))
    found = []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(rows))
        report = _report([rows[i] for i in order])
        found.append(
            {
                row.rater: (row.verdict, row.reasons, round(row.self_consistency, 9))
                for row in report
            }
        )
    assert found[0] == found[1] == found[2] == found[3]
