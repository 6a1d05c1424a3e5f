"""Honest raters whom a careless rule would exclude, blame or misdescribe."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from msgspec import structs

import bbq_plugin as bbq
from bbq_plugin.analysis import RaterReport
from bbq_plugin.analysis.raters.behaviour import signs_of
from bbq_plugin.analysis.raters.leave_one_out import consensus_of, evidence_of, given_by
from tests.model.studies import draw_study

Says = Callable[[np.random.Generator, int, int], str]


def _judged(data: bbq.Comparisons, **rules: Any) -> RaterReport:
    return bbq.rater_report(bbq.fit(data), **rules)


def _excluded(reports: Iterable[RaterReport]) -> int:
    return sum(len(report.excluded) for report in reports)


def _rankings(seed: int, **more: Any) -> bbq.Comparisons:
    made = {"comparisons": 120, "slate": 12} | more
    return bbq.simulate(
        items=20, raters=40, answer="rank", spread=1.0, seed=seed, **made
    ).arrays()  # fmt: skip


def _asked(
    seed: int,
    *,
    raters: int = 20,
    known: int = 0,
    hard: int = 0,
    ties: float = 0.0,
    lean: float = 0.0,
    dated: bool = True,
) -> list[bbq.Comparison]:
    """60 answers each by honest raters; the first ``hard`` of them get the harder questions."""
    rng, items = np.random.default_rng(seed), 8
    theta = np.sort(rng.normal(0, 1, items))
    rows: list[bbq.Comparison] = []
    for r in range(raters):
        quality = rng.beta(10, 2)
        for n in range(60):
            a, b = rng.choice(items, 2, replace=False).tolist()
            if n < known:
                a, b = rng.permutation([3, 4] if r < hard else [0, 7]).tolist()
            ahead = (theta[a] - theta[b]) * (rng.random() < quality) + rng.logistic() + lean
            says: Any = "left" if ahead > 0 else "right"
            if rng.random() < ties:
                says = "tie"
            tags = {"gold": "left" if a > b else "right"} if n < known else None
            at = float(len(rows)) if dated else None
            rows.append(
                bbq.Comparison(str(len(rows)), f"r{r:02}", f"m{a}", f"m{b}", says, at=at, tags=tags)
            )
    return rows


# -- rankings and weights: one answer is one answer


def test_a_few_long_rankings_exclude_hardly_any_honest_rater() -> None:
    # 12 studies of 40 honest raters; taken as 53 independent pairs each, five were excluded.
    assert _excluded(_judged(_rankings(seed), least=1) for seed in range(12)) <= 1


def test_long_rankings_still_find_guessers() -> None:
    study = bbq.simulate(
        items=20, raters=40, comparisons=480, slate=12, answer="rank", spread=1.0, guessers=0.2,
        seed=1,
    )  # fmt: skip
    out = set(_judged(study.arrays()).excluded)
    guessers = {
        n for n, kind in zip(study.truth.raters, study.truth.kind, strict=True) if kind == "guesser"
    }
    assert len(out & guessers) >= 6
    assert len(out - guessers) <= 1


def test_three_rankings_are_three_answers_however_long_they_are() -> None:
    data = _rankings(0, guessers=0.3)
    fitted = bbq.fit(data)
    assert set(evidence_of(fitted, 0.95, 0.5).n_answers) == {3.0}
    report = bbq.rater_report(fitted)
    assert report.excluded == ()
    told = [row.reasons[0] for row in report if row.verdict == "watch"]
    assert told
    assert all("of 53 comparisons in 3 rankings" in reason for reason in told)
    assert all("Too few to decide (at least 10 answers)" in reason for reason in told)


def test_one_heavy_row_is_one_answer() -> None:
    rows = _asked(0)
    worst, best = "m0", "m7"
    rows.append(bbq.Comparison("heavy", "heavy", worst, best, "left", weight=12.0, at=1e6))
    row = _judged(bbq.Comparisons.from_comparisons(rows))[-1]
    assert row.rater == "heavy"
    assert row.verdict != "exclude"
    assert row.n == 1.0


def test_studies_of_pairs_are_judged_by_their_very_weights() -> None:
    data = bbq.simulate(ties=0.3, seed=3).arrays()
    given = given_by(data, data.triples)
    assert given.pairs is data.triples
    assert given.weight is data.triples.weight
    assert given.slates(np.zeros(data.triples.size)) is None


# -- raters of very different quality


def test_honest_raters_of_very_different_quality_are_hardly_ever_excluded() -> None:
    reports = (
        _judged(
            bbq.simulate(
                items=8, raters=40, comparisons=4000, quality=(3.0, 2.0), spread=2.0, seed=seed
            ).arrays()
        )
        for seed in range(5000, 5012)
    )
    assert _excluded(reports) <= 1


def test_nobody_is_excluded_who_may_well_be_honest() -> None:
    for seed in range(3):
        study = bbq.simulate(
            items=10, raters=200, comparisons=8000, guessers=0.4, spread=1.0, seed=seed
        )
        report = _judged(study.arrays())
        out = [row.p_guesser + row.p_inverted for row in report if row.verdict == "exclude"]
        assert out
        assert min(out) >= 0.9


# -- known questions


@pytest.mark.parametrize("made", [{"hard": 3}, {"ties": 0.3}])
def test_harder_known_questions_or_ties_exclude_no_honest_rater(made: dict[str, Any]) -> None:
    reports = [
        _judged(bbq.Comparisons.from_comparisons(_asked(seed, known=20, **made)))
        for seed in range(8)
    ]
    assert _excluded(reports) == 0
    if "ties" in made:
        assert all(row.n_gold < 20 for report in reports for row in report if row.n_gold)


def test_a_ranking_whose_answer_is_known_is_one_known_question() -> None:
    study = bbq.simulate(items=8, raters=12, comparisons=144, slate=4, answer="rank", seed=4)
    theta = dict(zip(study.truth.items, study.truth.theta.tolist(), strict=True))
    rows = [
        bbq.Comparison(
            c.key, c.rater, c.left, c.right, c.outcome, c.weight, c.slate,
            tags={"gold": "left" if theta[c.left] > theta[c.right] else "right"},
        )
        for c in study.comparisons()
    ]  # fmt: skip
    report = _judged(bbq.Comparisons.from_comparisons(rows))
    assert {row.n_gold for row in report} == {12.0}
    assert all(0.3 < row.gold_rate < 1.0 for row in report)
    assert not any("known questions" in reason for row in report for reason in row.reasons)


# -- order, lean, repeats


def test_the_order_of_a_file_without_dates_is_held_against_nobody() -> None:
    rows = _asked(1, dated=False)
    in_order = sorted(rows, key=lambda c: (c.rater or "", c.outcome, c.left))
    report = _judged(bbq.Comparisons.from_comparisons(in_order))
    assert not any("runs" in reason for row in report for reason in row.reasons)
    as_it_came = _judged(bbq.Comparisons.from_comparisons(rows))
    assert [row.verdict for row in report] == [row.verdict for row in as_it_came]


def test_a_drift_without_dates_is_a_note_and_says_what_order_it_means() -> None:
    study = bbq.simulate(
        items=8, raters=20, comparisons=3600, spread=3.0, quality=(40.0, 5.0), seed=0
    )
    rng, rows, mine = np.random.default_rng(4), [], 0
    for answer in study.comparisons():
        mine += answer.rater == "rater-01"
        late = answer.rater == "rater-01" and mine > 120
        says: Any = ("left", "right")[rng.integers(2)] if late else answer.outcome
        rows.append(bbq.Comparison(answer.key, answer.rater, answer.left, answer.right, says))
    row = _judged(bbq.Comparisons.from_comparisons(rows))[0]
    notes = [reason for reason in row.reasons if reason.startswith("quality falls")]
    assert notes
    assert "in the order of the rows" in notes[0]
    assert row.verdict == "keep"


def test_a_lean_that_all_share_is_no_ones_fault() -> None:
    for seed in range(3):
        rows = _asked(seed, raters=30, lean=1.0)
        report = _judged(bbq.Comparisons.from_comparisons(rows))
        assert not any("leans" in reason for row in report for reason in row.reasons)
        assert np.mean([row.left_expected for row in report]) > 0.6


def test_honest_raters_contradict_themselves_as_often_as_expected() -> None:
    p = []
    for seed in range(25):
        data = bbq.simulate(seed=1000 + seed, spread=3.0, comparisons=1600).arrays()
        fitted = bbq.fit(data)
        found = evidence_of(fitted, 0.95, 0.5)
        signs = signs_of(
            data, fitted.triples, found.left_out.s, fitted.quality, found.kinds.population
        )
        assert signs.repeats is not None
        p.append(signs.repeats.p)
    # Of 1,000 raters one is due at 0.001.
    assert np.sum(np.concatenate(p) <= 0.001) <= 2


def test_pairs_of_two_rankings_are_not_repeated_questions() -> None:
    data = _rankings(0, comparisons=400)
    fitted = bbq.fit(data)
    found = evidence_of(fitted, 0.95, 0.5)
    signs = signs_of(data, fitted.triples, found.left_out.s, fitted.quality, found.kinds.population)
    assert signs.repeats is None
    assert signs.drift is not None
    # Ten rankings are ten answers, too few for a change after a third of them.
    assert set(signs.drift.n) == {10.0}


# -- words and effects


def test_someone_who_only_ties_is_told_so() -> None:
    rows = _asked(3)
    rows += [
        bbq.Comparison(f"t{n}", "tie", f"m{n % 8}", f"m{(n + 1 + n // 8) % 8}", "tie", at=1e6 + n)
        for n in range(56)
    ]
    row = _judged(bbq.Comparisons.from_comparisons(rows))[-1]
    assert row.rater == "tie"
    assert any("answered a tie to all 56 comparisons" in reason for reason in row.reasons)
    assert not any("like a coin:" in reason for reason in row.reasons)


@pytest.mark.parametrize("priors", ["paper", "auto"])
def test_the_effect_of_one_rater_is_that_of_a_fit_without_them(priors: Any) -> None:
    study = bbq.simulate(
        items=6, raters=8, comparisons=600, guessers=0.4, median_votes=20, spread=1.0, seed=2
    )
    fitted = bbq.fit(study.arrays(), priors=priors)
    report = bbq.rater_report(fitted)
    out = [r for r, row in enumerate(report) if row.verdict == "exclude"]
    assert out
    for r in out:
        before, after = fitted.theta, fitted.theta_without([r])
        moved = np.count_nonzero(np.argsort(-before) != np.argsort(-after))
        assert report[r].moved == moved


def test_one_step_without_a_rater_is_near_the_refit_of_the_same_log_posterior() -> None:
    from bbq_plugin.analysis.raters import leave_one_out as effect  # noqa: PLC0415

    fitted = bbq.fit(draw_study(5, items=8, raters=60, votes=60, guessers=0.2, spread=1.4).data)
    raters = [0, 1, 2, 3]
    consensus = consensus_of(fitted)
    exact, _ = effect.effects(fitted, raters, consensus)
    allowed, effect.EFFECT_REFITS = effect.EFFECT_REFITS, 0
    try:
        stepped, _ = effect.effects(fitted, raters, consensus)
    finally:
        effect.EFFECT_REFITS = allowed
    for r in raters:
        assert stepped[r].shift == pytest.approx(exact[r].shift, rel=0.2, abs=2e-3)


def test_a_choice_between_two_is_a_pair_and_no_ranking() -> None:
    study = bbq.simulate(items=6, raters=20, comparisons=3000, guessers=0.2, seed=5)
    rows = list(study.comparisons())
    chosen = [structs.replace(c, slate=f"task {n}") for n, c in enumerate(rows)]
    plain, choices = (
        bbq.rater_report(bbq.fit(bbq.Comparisons.from_comparisons(some))) for some in (rows, chosen)
    )
    assert any("comparisons" in " ".join(row.reasons) for row in plain)
    assert [row.reasons for row in choices] == [row.reasons for row in plain]
    assert [row.p_bad for row in choices] == pytest.approx([row.p_bad for row in plain])


def test_weights_of_very_different_size_do_not_stop_the_report() -> None:
    """Beside one rater's answers those of the others may weigh nothing: no refit without them."""
    rng = np.random.default_rng([7, 1])
    n, raters = 335, 21
    who, one = rng.integers(0, raters, n), rng.integers(0, 30, n)
    other = (one + rng.integers(1, 30, n)) % 30
    weight = rng.choice([1e-6, 1e6], n)
    data = bbq.Comparisons.from_arrays(
        who, one, other, weight,
        items=[f"i{i}" for i in range(30)], raters=[f"r{r}" for r in range(raters)],
    )  # fmt: skip
    report = bbq.rater_report(bbq.fit(data))
    assert any("includes their own votes" in text for text in report.warnings)
