"""Covariates: effects of a length and of a side are found, and held equal in the ratings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

import bbq_plugin as bbq
from bbq_plugin.analysis import Analysis
from bbq_plugin.cli.main import main
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.records import Comparison
from bbq_plugin.errors import UnsupportedError, UsageError
from bbq_plugin.model.covariates import WIDE, Hill, Leans, design_of, posterior_mean
from bbq_plugin.model.objectives import Marginal
from bbq_plugin.model.solvers import inverse
from bbq_plugin.store import Store

K, RATERS, EACH = 6, 20, 100
THETA = np.linspace(1.0, -1.0, K)
#: The second best item writes most, and the best one least.
LONG = np.array([-1.0, 2.0, 0.0, 0.5, -0.5, -1.0])
LENGTH, LEAN = 0.5, 0.9


def answers(seed: int = 0, *, lengths: str = "diff", ties: float = 0.0) -> list[Comparison]:
    rng = np.random.default_rng(seed)
    lean = LEAN + 0.4 * rng.normal(size=RATERS)
    lean[0] = -2.0
    out = []
    for r in range(RATERS):
        for n in range(EACH):
            i, j = rng.choice(K, 2, replace=False)
            a, b = 3 + LONG[[i, j]] + rng.normal(size=2)
            d = THETA[i] - THETA[j] + LENGTH * (a - b) + lean[r]
            p = 0.5 + 0.9 * (1 / (1 + np.exp(-d)) - 0.5)
            outcome: Any = "left" if rng.random() < p else "right"
            outcome = "tie" if rng.random() < ties else outcome
            tags = {"length_diff": f"{a - b:.3f}"}
            if lengths == "two":
                tags = {"length_a": f"{a:.3f}", "length_b": f"{b:.3f}"}
            out.append(Comparison(f"{r}-{n}", f"r{r}", f"i{i}", f"i{j}", outcome, tags=tags))
    return out


@pytest.fixture(scope="module")
def data() -> Comparisons:
    return Comparisons.from_comparisons(answers())


@pytest.fixture(scope="module")
def held(data: Comparisons) -> bbq.Fit:
    return bbq.fit(data, covariates=("length_diff", "side"))


def best(fit: bbq.Fit) -> str:
    return bbq.leaderboard(fit)[0].item


def test_the_best_item_is_best_again_when_lengths_are_held_equal(
    data: Comparisons, held: bbq.Fit
) -> None:
    assert best(bbq.fit(data)) == "i1"
    assert best(held) == "i0"
    theta = dict(zip(held.items, held.theta - held.theta.mean(), strict=True))
    found = np.array([theta[f"i{i}"] for i in range(K)])
    # 2,000 answers: an item's place is known to about 0.15 nats.
    assert np.abs(found - THETA).max() < 0.5


def test_intervals_of_the_effects_hold_the_truth(held: bbq.Fit) -> None:
    length, side = held.effects()
    assert (length.name, side.name) == ("length_diff", "side")
    assert length.theta_lower < LENGTH * length.unit < length.theta_upper
    assert 0 < side.theta_lower < side.theta < side.theta_upper


def test_a_rater_who_leans_to_the_other_side_is_seen(held: bbq.Fit) -> None:
    lean = dict(zip(held.raters, held.known_with.lean, strict=True))
    sd = dict(zip(held.raters, held.known_with.lean_sd, strict=True))
    assert abs(lean["r0"] + 2.0) < 2 * sd["r0"]
    assert lean["r0"] + 4 * sd["r0"] < 0
    assert min(lean, key=lambda name: lean[name]) == "r0"


def test_leans_of_raters_with_very_many_answers_are_found() -> None:
    rng = np.random.default_rng(3)
    lean = np.array([-0.9, -0.3, 0.0, 0.35, 0.36, 0.4, 0.7, 1.0])
    rater, (i, j) = np.repeat(np.arange(8), 1000), rng.integers(0, 3, (2, 8000))
    j = np.where(i == j, (j + 1) % 3, j)
    left = rng.random(8000) < 1 / (1 + np.exp(-THETA[i] + THETA[j] - lean[rater]))
    rows = [
        Comparison(f"{n}", f"r{rater[n]}", f"i{i[n]}", f"i{j[n]}", "left" if left[n] else "right")
        for n in range(8000)
    ]
    data = Comparisons.from_comparisons(rows)
    found = bbq.fit(data, model="bayes-bt", covariates=("side",))
    # 1,000 answers tell a lean to about 0.07 nats; eight of them are off by at most three of that.
    assert np.abs(found.known_with.lean - lean).max() < 0.22
    (side,) = found.effects()
    assert side.theta_lower < lean.mean() < side.theta_upper
    assert abs(side.theta - found.known_with.lean.mean()) < 0.05


def test_the_trace_never_falls_and_the_gradient_is_zero_at_the_top(held: bbq.Fit) -> None:
    assert (np.diff(held.trace) >= 0).all()
    assert held.error < 1e-6


def test_gradient_and_curvature_are_those_of_the_density(data: Comparisons) -> None:
    rows = np.ones(data.rater.size, dtype=np.bool_)
    design = design_of(data, ("length_diff", "side"), rows)
    fit = bbq.fit(data, camps=1)
    density = Marginal(design.triples, fit.given_priors())
    n = design.triples.n_raters
    hill = Hill(design, density, Leans.around(np.zeros(n), np.full(n, 0.2), 0.4))
    rng = np.random.default_rng(1)
    # The effects, and a slope by the mean length of an item.
    z = np.concatenate((fit.theta + 0.1 * rng.normal(size=K), [0.3, 0.2, 0.1]))

    def at(z: Any) -> Any:
        return hill.at(z[:K], z[K:])

    def gradient(z: Any) -> Any:
        place = at(z)
        by_beta = design.x @ place.push - place.beta / WIDE**2
        return np.concatenate((place.point.gradient, by_beta))

    here, matrix = gradient(z), hill.curvature(at(z))
    for p in range(K + 3):
        step = 1e-4 * np.eye(K + 3)[p]
        slope = (at(z + step).value - at(z - step).value) / 2e-4
        # Of a quadrature to six digits, in a sum of thousands of terms.
        assert slope == pytest.approx(here[p], rel=1e-3, abs=1e-2)
        bend = -(gradient(z + step) - gradient(z - step)) / 2e-4
        np.testing.assert_allclose(bend, matrix[p], rtol=1e-2, atol=0.05 + 1e-3 * matrix[p, p])


def test_the_mean_is_where_draws_from_the_density_have_it() -> None:
    few = Comparisons.from_comparisons(answers()[::4])
    fit = bbq.fit(few, covariates=("length_diff", "side"), camps=1)
    found = fit.held
    assert found is not None
    design = found.design
    hill = Hill(design, Marginal(design.triples, fit.given_priors()), found.leans)
    place, _, _ = hill.climb(hill.at(found.phi, found.beta), 1e-5)
    own = inverse(hill.curvature(place))
    top = np.concatenate((place.theta, place.beta))
    # Importance sampling around the top, with twice its variance: draws and their mirror images.
    axes, rng = np.linalg.cholesky(2.0 * own), np.random.default_rng(5)
    half = axes @ rng.normal(size=(top.size, 1000))
    moves = np.concatenate((half, -half), axis=1)
    logs = np.array([hill.at(*np.split(top + move, [K])).value for move in moves.T])
    logs += 0.5 * np.einsum("in,ij,jn->n", moves, inverse(2.0 * own), moves)
    weight = np.exp(logs - logs.max())
    drawn = moves @ weight / weight.sum()
    told = posterior_mean(hill, place, own) - top
    # Along the places themselves: how much farther apart items are on average than at the top.
    apart = place.theta - place.theta.mean()
    farther = apart @ told[:K] / (apart @ apart)
    assert farther > 0.01
    assert farther == pytest.approx(apart @ drawn[:K] / (apart @ apart), rel=0.4)


def test_items_that_are_longer_because_they_are_better_keep_their_distances() -> None:
    slopes = []
    for seed in range(12):
        rng = np.random.default_rng([3, seed])
        theta = rng.normal(size=10)
        long = 0.9 * theta + 0.4 * rng.normal(size=10)
        rater = np.repeat(np.arange(30), 50)
        i = rng.integers(0, 10, rater.size)
        j = (i + rng.integers(1, 10, rater.size)) % 10
        gap = long[i] - long[j] + rng.normal(size=rater.size)
        d = theta[i] - theta[j] + 0.4 * gap
        quality = rng.beta(10, 2, 30)[rater]
        left = rng.random(rater.size) < 0.5 + quality * (1 / (1 + np.exp(-d)) - 0.5)
        data = Comparisons.from_comparisons(
            Comparison(f"{n}", f"r{rater[n]}", f"i{i[n]}", f"i{j[n]}",
                       "left" if left[n] else "right", tags={"length_diff": f"{gap[n]:.4f}"})
            for n in range(rater.size)
        )  # fmt: skip
        fit = bbq.fit(data, covariates=["length_diff"], camps=1)
        true = theta[[int(name[1:]) for name in fit.items]]
        slopes.append((fit.theta @ (true - true.mean()), true.var() * 10))
    found, true_square = np.sum(slopes, axis=0)
    # 0.79 without the line in the items' lengths, and with the top in place of the mean; 0.96 here.
    assert 0.92 < found / true_square < 1.08


def test_a_length_that_an_item_always_has_is_told() -> None:
    rows = [
        msgspec.structs.replace(
            one, tags={"length_diff": f"{LONG[int(one.left[1:])] - LONG[int(one.right[1:])]}"}
        )
        for one in answers()
    ]
    fit = bbq.fit(Comparisons.from_comparisons(rows), covariates=["length_diff"])
    assert any("length_diff of an item is the same" in text for text in fit.warnings)
    assert np.isfinite(fit.theta).all()


def test_two_columns_make_the_same_difference() -> None:
    one = bbq.fit(Comparisons.from_comparisons(answers()), covariates="length_diff", camps=1)
    two = Comparisons.from_comparisons(answers(lengths="two"))
    found = bbq.fit(two, covariates=["length_diff"], camps=1)
    # The difference itself was rounded to three digits.
    np.testing.assert_allclose(found.theta, one.theta, atol=1e-2)


@pytest.mark.parametrize(
    "options",
    [{"model": "bayes-bt"}, {"priors": "paper"}, {"ties": "half"}, {"cluster": "none"}, {}],
    ids=str,
)
def test_effects_are_found_with_other_settings(options: Any) -> None:
    data = Comparisons.from_comparisons(answers(1, ties=0.15))
    fit = bbq.fit(data, covariates=("length_diff", "side"), **options)
    length, side = fit.effects()
    assert length.theta_lower > 0
    assert side.theta_lower > 0
    board = bbq.leaderboard(fit)
    assert board[0].item == "i0"
    assert all(row.rating_lower < row.rating < row.rating_upper for row in board)
    assert len(bbq.rater_report(fit)) == RATERS


def test_answers_without_raters_have_one_lean_for_all() -> None:
    rows = [msgspec.structs.replace(one, rater=None) for one in answers()]
    fit = bbq.fit(Comparisons.from_comparisons(rows), covariates=("side", "length_diff"))
    assert best(fit) == "i0"
    assert fit.known_with.lean.size == 0


def test_a_length_of_which_every_value_is_new_is_kept() -> None:
    rng = np.random.default_rng(0)
    rows = [
        Comparison(f"{n}", f"r{n % 9}", f"i{n % 3}", f"i{(n + 1) % 3}",
                   "left" if rng.random() < 0.5 else "right", tags={"length_diff": f"{n}.5"})
        for n in range(12_000)
    ]  # fmt: skip
    assert "length_diff" in Comparisons.from_comparisons(rows).tags


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"camps": 2}, "covariates=side takes camps='auto' or camps='1', not camps=2"),
        ({"model": "crowd-bt"}, "model='bbq' or model='bayes-bt', not model='crowd-bt'"),
        ({"solver": "em", "priors": "paper"}, "covariates=side takes solver='auto'"),
    ],
    ids=str,
)
def test_what_does_not_go_together_is_refused(data: Comparisons, options: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("(", r"\(")):
        bbq.fit(data, covariates=["side"], **options)


def test_the_length_of_one_side_is_refused_with_what_to_ask_for() -> None:
    two = Comparisons.from_comparisons(answers(lengths="two"))
    for asked in (["length_a", "length_b"], ["length_b"]):
        with pytest.raises(UsageError, match=r"one side.*use 'length_diff' alone"):
            bbq.fit(two, covariates=asked, camps=1)


def test_names_and_values_that_cannot_be_are_refused(data: Comparisons) -> None:
    with pytest.raises(UsageError, match=r"no covariate 'length'.*length_diff"):
        bbq.fit(data, covariates=["length"])
    with pytest.raises(UsageError, match="given twice"):
        bbq.fit(data, covariates=["side", "side"])
    rows = answers()
    rows[7] = msgspec.structs.replace(rows[7], tags={"length_diff": "long"})
    with pytest.raises(UsageError, match="has the value 'long'"):
        bbq.fit(Comparisons.from_comparisons(rows), covariates=["length_diff"])
    wins = Comparisons.from_records([("a", "x", "y"), ("b", "y", "z"), ("a", "x", "z")])
    with pytest.raises(UsageError, match="do not say on which side"):
        bbq.fit(wins, covariates=["side"])


def test_sides_that_are_the_items_are_refused() -> None:
    rows = [msgspec.structs.replace(one, left="i0", right="i1") for one in answers()]
    data = Comparisons.from_comparisons(rows)
    with pytest.raises(UsageError, match=r"always shown on the same side.*leave it out"):
        bbq.fit(data, covariates=["side"])


def test_answers_without_a_value_are_counted() -> None:
    rows = answers()
    rows[3] = msgspec.structs.replace(rows[3], tags=None)
    fit = bbq.fit(Comparisons.from_comparisons(rows), covariates=["length_diff"])
    assert any("1 comparison without length_diff" in text for text in fit.warnings)


def test_intervals_that_leave_out_the_effects_are_refused(held: bbq.Fit) -> None:
    for kind in ("bootstrap", "posterior", "paper"):
        with pytest.raises(UnsupportedError, match="not defined with covariates"):
            bbq.leaderboard(held, kind)


def test_raters_are_judged_without_covariates(data: Comparisons, held: bbq.Fit) -> None:
    plain = bbq.rater_report(bbq.fit(data))
    assert [row.verdict for row in bbq.rater_report(held)] == [row.verdict for row in plain]
    assert Analysis(held).judge.fit.held is None


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("style") / "votes.csv"
    sides = {"left": "model_a", "right": "model_b"}
    lines = ["judge,model_a,model_b,winner,length_a,length_b,language"]
    for n, one in enumerate(answers(lengths="two")):
        tags = one.tags or {}
        language = "fr" if n % 25 == 0 else ("de", "en")[n % 2]
        lines.append(
            f"{one.rater},{one.left},{one.right},{sides[one.outcome]},"
            f"{tags['length_a']},{tags['length_b']},{language}"
        )
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_command_shows_effects_and_a_page_what_they_change(file: Path, tmp_path: Path) -> None:
    command = ["fit", str(file), "--covariate", "length_diff", "--covariate", "side"]
    found = CliRunner().invoke(main, [*command, "--format", "json"])
    assert found.exit_code == 0, found.output
    document = msgspec.json.decode(found.stdout)
    assert [row["covariate"] for row in document["covariates"]] == ["length_diff", "side"]
    assert all(row["effect_lower"] < row["effect"] for row in document["covariates"])
    assert len(document["leans"]) == RATERS
    assert document["items"][0]["item"] == "i0"
    table = CliRunner().invoke(main, command)
    assert "Held equal" in table.stdout
    assert "left, not right" in table.stdout
    page = tmp_path / "report.html"
    written = CliRunner().invoke(main, [*command, "-o", str(page)])
    assert written.exit_code == 0, written.output
    assert 'id="covariates"' in page.read_text(encoding="utf-8")


def test_slices_hold_covariates_equal_too(file: Path) -> None:
    command = ["fit", str(file), "--by", "language", "--format", "json"]
    held = ["--covariate", "length_diff", "--covariate", "side"]
    plain, equal = (
        msgspec.json.decode(CliRunner().invoke(main, [*command, *more]).stdout)
        for more in ([], held)
    )
    for name in ("de", "en", "fr"):
        assert plain["reports"][name]["items"][0]["item"] == "i1"
        assert equal["reports"][name]["items"][0]["item"] == "i0"
    assert equal["overall"]["items"][0]["item"] == "i0"


def test_a_watched_folder_gives_what_a_command_gives(file: Path, tmp_path: Path) -> None:
    held = ["--covariate", "length_diff", "--covariate", "side"]
    place = ["--store", str(tmp_path / "s.db"), "--out", str(tmp_path / "out"), "--keep-tags"]
    for more in ([], ["--pseudonymise", "--pseudonym-key-file", str(tmp_path / "key")]):
        (tmp_path / "key").write_text("a key that lasts", encoding="utf-8")
        command = ["watch", str(file.parent), *place, "--once", *held, *more]
        done = CliRunner().invoke(main, command, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        text = (tmp_path / "out" / "report.json").read_text(encoding="utf-8")
        document = msgspec.json.decode(text)
        assert [row["covariate"] for row in document["covariates"]] == ["length_diff", "side"]
        assert document["items"][0]["item"] == "i0"
        # The history is that without covariates, as the server writes it.
        with Store(tmp_path / "s.db") as store:
            last = store.history(1)[-1].items
        assert max(last, key=lambda item: last[item].rating) == "i1"
        assert ('"r0"' in text) == (not more)
    found = CliRunner().invoke(main, ["fit", str(file), *held, "--format", "json"])
    once = msgspec.json.decode(found.stdout)
    for one, other in zip(document["items"], once["items"], strict=True):
        assert one["item"] == other["item"]
        assert one["rating"] == pytest.approx(other["rating"], abs=0.1)


@pytest.mark.parametrize(
    ("options", "said"),
    [(("--camps", "2"), "camps='auto'"), (("--model", "crowd-bt"), "model='bayes-bt'")],
)
def test_a_daemon_refuses_at_its_start_what_does_not_go_together(
    file: Path, tmp_path: Path, options: Any, said: str
) -> None:
    place = ["--store", str(tmp_path / "s.db"), "--out", str(tmp_path / "out")]
    command = ["watch", str(file.parent), *place, "--once", "--covariate", "side", *options]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 2
    assert said in done.output
    assert not (tmp_path / "s.db").exists()
