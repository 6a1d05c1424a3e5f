"""Verdicts on raters: found when bad, spared when honest, and always with a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bbq_plugin.comparisons import Comparisons
from bbq_plugin.errors import UsageError
from bbq_plugin.insight import rater_report
from bbq_plugin.model import fit
from tests.model.studies import draw_study

FIELDS = [
    *("rater", "n", "quality", "quality_lower", "quality_upper", "agreement", "left_rate"),
    *("median_time_s", "verdict", "reasons", "p_guesser", "p_inverted", "p_below"),
    *("agreement_expected", "left_expected", "tempo", "self_consistency", "drift", "n_gold"),
    *("gold_rate", "moved", "shift_sd", "effect", "way_back"),
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


def test_a_verdict_comes_with_numbers_in_words() -> None:
    study = draw_study(0, items=10, raters=60, votes=80, guessers=0.2, spread=0.9)
    report = rater_report(fit(study.data, priors="auto"))
    for row in report:
        assert list(dict(row)) == FIELDS
        assert 0 <= row.quality_lower <= row.quality <= row.quality_upper <= 1
        if row.verdict == "exclude":
            assert "P(guesser)" in row.reasons[0]
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
    assert any("upside down" in reason for reason in row.reasons)


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
    assert "too few to decide" in row.reasons[0]


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
