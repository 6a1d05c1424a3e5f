"""Verdicts on raters: found when bad, spared when honest, and always with a reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bbq_plugin.analysis import rater_report
from bbq_plugin.analysis.raters.leave_one_out import Effect
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.errors import UsageError
from bbq_plugin.model import fit
from bbq_plugin.report.pseudonyms import pseudonymised
from bbq_plugin.simulation import simulate
from tests.model.studies import draw_study

FIELDS = [
    *("rater", "n", "quality", "quality_lower", "quality_upper", "agreement", "left_rate"),
    *("tie_rate", "median_time_s", "camp", "p_bad", "verdict", "reasons"),
    *("p_guesser", "p_inverted", "p_camp", "p_below"),
    *(
        "agreement_expected",
        "left_expected",
        "side_bias",
        "side_bias_lower",
        "side_bias_upper",
        "tempo",
        "self_consistency",
    ),
    *("self_consistency_expected", "drift", "n_gold", "gold_rate", "gold_expected"),
    *("moved", "shift_sd", "effect", "way_back", "model_verdict", "lead_word"),
]


def test_guessers_are_excluded_and_honest_raters_are_not() -> None:
    found, missed, wronged, honest = 0, 0, 0, 0
    for seed in range(4):
        study = draw_study(seed, items=10, raters=60, votes=80, guessers=0.2, spread=1.5)
        verdicts = np.array([row.verdict for row in rater_report(fit(study.data, priors="auto"))])
        guessing = study.quality == 0
        found += int(np.sum(verdicts[guessing] == "exclude"))
        missed += int(np.sum(verdicts[guessing] == "keep"))
        wronged += int(np.sum(verdicts[~guessing] == "exclude"))
        honest += int(np.sum(~guessing))
    assert found > 8 * missed
    assert wronged <= 0.05 * (found + wronged)
    assert wronged <= 0.03 * honest


def test_every_reason_is_at_most_two_short_sentences() -> None:
    study = simulate(items=8, raters=60, comparisons=2400, guessers=0.3, inverted=0.1, seed=2)
    data = Comparisons.from_comparisons(study.comparisons())
    report = rater_report(fit(data, priors="auto"))
    reasons = [reason for row in report for reason in row.reasons]
    assert reasons
    for reason in reasons:
        assert reason.count(". ") <= 1, reason
        assert len(reason) <= 200, reason
    assert report.rule.count(". ") == 1


def test_a_verdict_comes_with_numbers_in_words() -> None:
    study = draw_study(0, items=10, raters=60, votes=80, guessers=0.2, spread=0.9)
    report = rater_report(fit(study.data, priors="auto"))
    for row in report:
        assert list(dict(row)) == FIELDS
        assert 0 <= row.quality_lower <= row.quality <= row.quality_upper <= 1
        if row.verdict == "exclude":
            bad = row.p_guesser + row.p_inverted
            shown = f"= {bad:.3f}" if bad < 0.9995 else "> 0.999"
            assert f"P(guessing or inverted) {shown}: agrees" in row.reasons[0]
            assert bad >= 0.9
            assert "80 comparisons" in row.reasons[0]
        elif row.verdict == "keep":
            assert row.reasons == ()


def test_someone_upside_down_is_told_from_someone_who_guesses() -> None:
    study = draw_study(1, items=8, raters=30, votes=60, spread=1.2)
    t = study.data.triples
    rater = t.rater()
    turned = rater == 4
    data = Comparisons.from_arrays(
        rater, np.where(turned, t.loser, t.winner), np.where(turned, t.winner, t.loser), t.weight
    )
    row = rater_report(fit(data, priors="auto"))[4]
    assert row.verdict == "exclude"
    assert row.agreement < 0.4
    assert any("inverted" in reason for reason in row.reasons)


def test_nobody_is_excluded_on_a_handful_of_answers() -> None:
    study = draw_study(2, raters=40, votes=60, spread=1.5)
    t = study.data.triples
    best, worst = int(np.argmax(study.theta)), int(np.argmin(study.theta))
    few = 9
    data = Comparisons.from_arrays(
        np.append(t.rater(), [40] * few),
        np.append(t.winner, [worst] * few),
        np.append(t.loser, [best] * few),
        np.append(t.weight, [1.0] * few),
    )
    row = rater_report(fit(data, priors="auto"))[40]
    assert row.verdict == "watch"
    assert "Too few to decide" in row.reasons[0]


def test_agreement_is_with_the_others_and_counts_half_for_ties() -> None:
    rows = [("r", "a", "b", 8.0), ("s", "a", "b", 0.5), ("s", "b", "a", 0.5), ("t", "b", "a", 1.0)]
    report = rater_report(fit(Comparisons.from_records(rows)))
    # Without r's own eight votes the others prefer b.
    assert report[0].agreement == 0.0
    assert report[1].agreement == 0.5
    assert report[1].n == 1.0


@pytest.mark.parametrize("model", ["bayes-bt", "crowd-bt"])
def test_models_without_verdicts_say_so(model: Any) -> None:
    report = rater_report(fit(draw_study(3).data, model=model))
    assert "model='bbq'" in report.warnings[0]
    assert {row.verdict for row in report} == {"keep"}


def test_no_raters_no_rows() -> None:
    report = rater_report(fit(Comparisons.from_records([(None, "a", "b", 1.0)])))
    assert len(report) == 0
    assert report.warnings == ()


def test_a_level_in_percent_is_refused() -> None:
    with pytest.raises(UsageError, match="level"):
        rater_report(fit(draw_study(3).data), level=95)


def _with_bad_raters(seed: int = 5) -> Comparisons:
    study = draw_study(seed, items=8, raters=40, votes=80, guessers=0.2, spread=1.4)
    return study.data


def test_what_the_verdict_rests_on_and_what_leads_back_is_said() -> None:
    report = rater_report(fit(_with_bad_raters(), priors="auto"))
    out = [row for row in report if row.verdict == "exclude"]
    assert out
    for row in out:
        assert row.p_guesser + row.p_inverted > 0.5
        assert row.p_below > 0.5
        assert "further comparisons" in row.way_back
        assert row.effect == "no rank changes" or "best item stays" in row.effect
        assert row.shift_sd >= 0
    assert all(row.effect == row.way_back == "" for row in report if row.verdict != "exclude")
    assert report.without_excluded is not None
    assert report.population is not None
    assert 0.05 < report.population.guessers < 0.5


def test_the_effect_of_all_exclusions_is_that_of_a_fit_without_them() -> None:
    data = _with_bad_raters()
    found = fit(data, priors="auto")
    report = rater_report(found)
    out = [data.raters.index(name) for name in report.excluded]
    kept = ~np.isin(data.rater, out)
    rest = Comparisons.from_arrays(
        data.rater[kept], data.winner[kept], data.loser[kept], data.weight[kept], items=data.items
    )
    # The priors stay those of the whole; given them, nothing else differs.
    again = found.theta_without(out)
    order = np.argsort(-fit(rest, priors="auto").theta)
    assert np.corrcoef(again, fit(rest, priors="auto").theta)[0, 1] > 0.999
    assert report.without_excluded is not None
    assert report.without_excluded.best_without == data.items[int(order[0])]


def test_someone_whom_the_others_cannot_judge_is_not_excluded() -> None:
    rows = [("ann", "a", "b", 1.0), ("bob", "b", "a", 1.0)] * 6
    rows += [("cyd", "a", "b", 1.0)] * 40
    report = rater_report(fit(Comparisons.from_records(rows)))
    assert {row.verdict for row in report} <= {"keep", "watch"}


def test_the_way_back_is_longer_than_the_way_out() -> None:
    # Few votes: of some raters one cannot be sure.
    data = draw_study(5, items=8, raters=60, votes=30, guessers=0.2, spread=1.4).data
    found = fit(data, priors="auto")
    report = rater_report(found)
    p = {row.rater: row.p_guesser + row.p_inverted for row in report}
    between = [name for name in p if 0.2 < p[name] < 0.5]
    sure = [name for name in p if p[name] < 0.05]
    assert between
    again = {row.rater: row for row in rater_report(found, before=[*between, *sure])}
    for name in between:
        assert again[name].verdict == "exclude"
        assert any("was excluded before" in reason for reason in again[name].reasons)
    assert all(again[name].verdict != "exclude" for name in sure)


def test_other_names_for_the_raters_change_nothing_else() -> None:
    data = _with_bad_raters()
    plain = rater_report(fit(data, priors="auto"))
    hidden = rater_report(fit(pseudonymised(data, b"k" * 32), priors="auto"))
    for one, other in zip(plain, hidden, strict=True):
        assert one.rater != other.rater
        assert repr(replace(one, rater="")) == repr(replace(other, rater=""))
        assert not any(one.rater in text for text in (*other.reasons, other.effect))


def test_verdicts_hardly_depend_on_how_the_priors_were_chosen() -> None:
    data = _with_bad_raters()
    auto, paper = (rater_report(fit(data, priors=priors)) for priors in ("auto", "paper"))
    assert set(auto.excluded) == set(paper.excluded)


def test_under_bbq_signed_someone_upside_down_is_watched_and_used() -> None:
    study = draw_study(1, items=8, raters=30, votes=100, spread=1.4)
    t = study.data.triples
    turned = t.rater() == 4
    data = Comparisons.from_arrays(
        t.rater(), np.where(turned, t.loser, t.winner), np.where(turned, t.winner, t.loser),
        t.weight,
    )  # fmt: skip
    found = fit(data, model="bbq-signed")
    row = rater_report(found)[4]
    assert found.quality[4] < 0
    assert row.verdict == "watch"
    assert row.reasons[0].startswith("inverted")
    assert -1 <= row.quality_lower <= row.quality <= row.quality_upper <= 1
    assert rater_report(fit(data))[4].verdict == "exclude"


@pytest.mark.parametrize("wrong", [{"false_rate": 0.0}, {"threshold": 1.5}])
def test_a_rate_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        rater_report(fit(draw_study(3).data), **wrong)


def test_a_lone_rater_agrees_with_nobody_in_a_known_share() -> None:
    rows = [("ann", "oak", "elm", 1.0), ("ann", "elm", "ash", 1.0), ("ann", "oak", "ash", 1.0)] * 4
    (row,) = rater_report(fit(Comparisons.from_records(rows)))
    assert np.isnan(row.agreement)


def test_what_an_exclusion_changes_is_told_in_points_of_the_rating() -> None:
    # 400 points are odds of ten to one.
    told = Effect("a", "b", 2, float(np.log(10)), 1.3).text
    assert told == (
        "the best item is b instead of a, and 2 items change rank. The rating that moves most "
        "moves by 400 Elo points, 1.3 standard deviations of its rating"
    )
