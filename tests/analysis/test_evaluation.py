"""The paper's figures on one's own data: growth, sensitivity, agreement, and more raters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

import bbq_plugin as bbq
from bbq_plugin.analysis.stability import (
    Evaluation,
    agreement,
    correlations,
    evaluation,
    forecast_more,
)
from bbq_plugin.cli.main import main
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.errors import UnsupportedError, UsageError
from bbq_plugin.report.charts import FILE, agreement_spec
from bbq_plugin.report.summary import evaluation_lines

MODELS: Sequence[Any] = ("bbq", "bayes-bt", "crowd-bt")


@pytest.fixture(scope="module")
def data() -> Comparisons:
    return bbq.simulate(
        items=7, raters=24, comparisons=1500, guessers=0.2, ties=0.1, spread=0.5, seed=2
    ).arrays()


@pytest.fixture(scope="module")
def found(data: Comparisons) -> Evaluation:
    fits = [
        bbq.fit(
            data, model, camps=1, ties="half", priors="auto" if model == "crowd-bt" else "paper"
        )
        for model in MODELS
    ]
    return evaluation(fits, 30, more=(5, 48))


def test_more_raters_and_more_comparisons_make_rankings_more_stable(found: Evaluation) -> None:
    for model in MODELS:
        for by in ("raters", "comparisons"):
            rows = [row for row in found.growth if (row.model, row.by) == (model, by)]
            assert [row.n for row in rows] == sorted(row.n for row in rows)
            assert rows[0].tau < rows[-1].tau - 0.1
            assert all(row.tau_lower <= row.tau <= row.tau_upper for row in rows)
            assert all(0 <= row.top1_lower <= row.top1 <= row.top1_upper <= 1 for row in rows)


def test_a_divided_panel_is_said_to_break_the_forecast(found: Evaluation) -> None:
    assert found.warnings == ()
    rng, rows = np.random.default_rng(4), []
    for r in range(30):
        theta = np.array([1.5, 0.5, -0.5, -1.5])[:: 1 if r < 15 else -1]
        for _ in range(40):
            i, j = rng.choice(4, 2, replace=False)
            won = rng.random() < 1 / (1 + np.exp(theta[j] - theta[i]))
            rows.append((f"r{r}", f"i{i if won else j}", f"i{j if won else i}", 1.0))
    two = bbq.fit(Comparisons.from_records(rows), camps=1, priors="paper")
    told = evaluation([two], 5)
    assert "promise too much" in told.warnings[0]
    assert evaluation_lines(told)["forecast"][0].startswith("Raters differ in more than quality")


def test_all_raters_drawn_are_the_table(found: Evaluation) -> None:
    for row in found.stability:
        last = [one for one in found.growth if (one.model, one.by) == (row.model, "raters")][-1]
        # Two samples of 30 and 40 draws, each of a spread of about 0.1.
        assert last.tau == pytest.approx(row.tau, abs=0.08)


def test_each_prior_of_the_grid_has_a_row(found: Evaluation) -> None:
    of = [row.model for row in found.sensitivity]
    assert (of.count("bbq"), of.count("bayes-bt"), of.count("crowd-bt")) == (16, 4, 0)
    assert all(-1 <= row.tau_reference <= 1 for row in found.sensitivity)


def test_a_rate_of_the_prior_moves_nothing(data: Comparisons) -> None:
    one, other = (
        bbq.fit(data, "bayes-bt", priors=bbq.Priors(a=5, b=b), camps=1).theta for b in (0.02, 2.0)
    )
    np.testing.assert_allclose(one - one.mean(), other - other.mean(), atol=1e-6)


def test_more_raters_are_expected_to_agree_more(found: Evaluation) -> None:
    today, few, many = found.forecast
    assert (today.more, few.more, many.more) == (0, 5, 48)
    assert today.n_raters == 24
    assert today.tau < few.tau < many.tau
    assert many.tau_upper - many.tau_lower <= today.tau_upper - today.tau_lower


def test_a_panel_to_compare_with_is_uncertain_too(found: Evaluation) -> None:
    fit = found.fits[0]
    small, large, all_of_them = (forecast_more(fit, [24], against=n)[1].tau for n in (5, 500, None))
    assert small < large - 0.05
    # A panel of 500 is nearly all of them; the rest is what 2,000 draws leave.
    assert large == pytest.approx(all_of_them, abs=0.03)


def test_raters_are_grouped_by_a_tag() -> None:
    rows = [
        bbq.Comparison(
            f"{r}-{n}", f"r{r}", f"i{n % 4}", f"i{(n + 1 + r % 3) % 4}",
            "left" if (n * 7 + r) % 5 else "right", tags={"screened": "yes" if r < 8 else "no"},
        )
        for r in range(14)
        for n in range(30)
        if n % 4 != (n + 1 + r % 3) % 4
    ]  # fmt: skip
    fit = bbq.fit(Comparisons.from_comparisons(rows), camps=1)
    dots = agreement(fit, "screened")
    assert {dot.rater for dot in dots if dot.group == "yes"} == {f"r{r}" for r in range(8)}
    assert [(row.group, row.n_raters) for row in correlations(dots)] == [
        ("no", 6), ("yes", 8), ("all raters", 14),
    ]  # fmt: skip
    with pytest.raises(UsageError, match="no answer has a tag 'country'"):
        agreement(fit, "country")


def test_raters_with_answers_in_several_groups_are_counted() -> None:
    rows = [
        bbq.Comparison(
            f"{r}-{n}", f"r{r}", f"i{n % 4}", f"i{(n + 1) % 4}", "left" if n % 3 else "right",
            tags={"language": "de" if n < 10 and r < 5 else "en"},
        )
        for r in range(8)
        for n in range(24)
    ]  # fmt: skip
    fit = bbq.fit(Comparisons.from_comparisons(rows), camps=1)
    found = evaluation([fit], 5, group="language")
    assert found.in_several == 5
    first = evaluation_lines(found)["correlations"][0]
    assert first.startswith("Each rater is in one group")
    assert "5 raters of 8 have answers in several" in first


def test_raters_who_do_not_differ_have_no_correlation() -> None:
    rows = [(f"r{r}", f"i{n % 3}", f"i{n % 3 + 1}", 1.0) for r in range(3) for n in range(9)]
    found = evaluation([bbq.fit(Comparisons.from_records(rows))], 5)
    (line,) = evaluation_lines(found)["correlations"]
    assert "nan" not in line
    assert line.startswith("Quality or agreement of 3 raters do not differ")
    assert "nan" not in str(agreement_spec(found, FILE, narrow=False))


def test_one_rater_cannot_be_forecast() -> None:
    data = Comparisons.from_records([("a", "x", "y"), ("a", "y", "z"), ("a", "x", "z")])
    with pytest.raises(UnsupportedError, match="two or more"):
        forecast_more(bbq.fit(data, "bayes-bt"))


def test_a_command_writes_numbers_a_page_and_charts(tmp_path: Path) -> None:
    votes = tmp_path / "votes.jsonl"
    simulated = ["simulate", "--raters", "12", "--comparisons", "400", "--seed", "1", "-o"]
    assert CliRunner().invoke(main, [*simulated, str(votes)]).exit_code == 0
    command = ["evaluate", str(votes), "--resamples", "5", "--model", "bbq"]
    told = CliRunner().invoke(main, [*command, "--more", "20"])
    assert told.exit_code == 0, told.output
    assert "With 20 more raters of this kind expect τ" in told.stdout
    document = msgspec.json.decode(CliRunner().invoke(main, [*command, "--format", "json"]).stdout)
    parts = ("growth", "forecast", "agreement", "correlations", "sensitivity", "models")
    assert all(document[part] for part in parts)
    page, charts = tmp_path / "page.html", tmp_path / "charts"
    written = CliRunner().invoke(main, [*command, "-o", str(page), "--charts", str(charts)])
    assert written.exit_code == 0, written.output
    text = page.read_text(encoding="utf-8")
    assert all(
        f'id="{part}"' in text for part in ("stability", "growth", "more", "priors", "times")
    )
    names = ("by-raters", "by-comparisons", "more-raters", "agreement", "times")
    assert all((charts / f"{name}.svg").stat().st_size > 1000 for name in names)
