"""How stable rankings are on one's own data, as in the paper, and how fragile the first place is.

Stability (the table): refits on resampled raters against the fit of all data. A resample draws as
many raters as there are, with replacement; its ranking is compared with the ranking of all data by
Kendall's tau and by whether the same item comes first. Every model sees the same resamples, so
their numbers are paired. The priors, estimated or given, are those of the fit of all data.

Growth (figure 3): n raters are drawn with replacement, or every rater keeps m of their answers, and
the ranking is compared with that of all data. Quality (figure 2): the quality of a rater against
their agreement with the ranking. Sensitivity (appendix): the stability under other priors. All of
it is resampled as in `stability`, and every model sees the same resamples.

Beyond the data there is nothing to resample. With theta ~ Normal(estimate, C) what raters of this
kind agree on, C robust to raters, the estimate of m more raters is Normal(theta, C n / m), and that
of all n + m the mean of both by their numbers. The forecast is Kendall's tau of that mean with
theta, or with the estimate of another panel.

How fragile the first place is: the fewest comparisons, and raters, without which it changes.

A comparison pushes the gap between the first item i and another one j by the influence function

    push (a_winner - a_loser),   a = V (e_i - e_j)

push being its score and V the model's covariance under its priors; a rater by the sum over theirs.
Those that hold the first item up most are left out, one after the other, until another item is
first. That is greedy and takes the fit as linear, hence it is verified: the model is fitted again
without them (priors, and the effects of covariates, stay as they are), and their number corrected
by what came out. The result is an upper bound: some other set may be smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from time import perf_counter
from typing import Any, Literal

import numpy as np

from bbq_plugin.analysis.leaderboard import Row, Rows
from bbq_plugin.analysis.uncertainty import eigen
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.triples import Codes, Floats, triple_of
from bbq_plugin.errors import ConvergenceError, UnsupportedError, UsageError, did_you_mean
from bbq_plugin.model import Fit, Priors, fit
from bbq_plugin.model.camps import screen
from bbq_plugin.model.fit import MODELS
from bbq_plugin.model.objectives import LARGEST_COVARIANCE, Joint, theta_density
from bbq_plugin.model.solvers import solve_newton

# Resamples are drawn in pieces of this many, each from a seed of its own: the size is part of what
# a seed means, and a piece is what a progress bar can show.
PIECE = 50


@dataclass(frozen=True, slots=True)
class StabilityRow(Row):
    """One model: means over the resamples, and their Monte-Carlo standard errors.

    ``tau_lower`` and ``tau_upper`` hold 95% of the resamples. ``seconds`` is for all of them.
    """

    model: str
    tau: float
    tau_se: float
    tau_lower: float
    tau_upper: float
    top1: float
    top1_se: float
    seconds: float


class Stability(Rows[StabilityRow]):
    """One row a model, in the order given."""

    def __init__(self, rows: list[StabilityRow], resamples: int, seed: int) -> None:
        super().__init__(rows)
        self.resamples, self.seed = resamples, seed

    def __repr__(self) -> str:
        return f"<Stability: {len(self)} models, {self.resamples} resamples>"


def stability(
    fits: Sequence[Fit],
    resamples: int = 1000,
    seed: int = 0,
    *,
    advance: Callable[[int], object] | None = None,
) -> Stability:
    """Compare resampled rankings with each fit's own; ``advance(n)`` hears of n more resamples."""
    if resamples < 2:
        raise UsageError(f"resamples={resamples}: ask for at least 2")
    if any(len(fit.items) < 2 for fit in fits):
        raise UsageError("a ranking takes at least two items")
    if any(fit.data.has_raters and len(fit.raters) < 2 for fit in fits):
        raise UnsupportedError("a bootstrap over raters needs at least two; these data have one")
    rows = [_row(fit, resamples, seed, advance or (lambda _: None)) for fit in fits]
    return Stability(rows, resamples, seed)


def _row(fit: Fit, resamples: int, seed: int, advance: Callable[[int], object]) -> StabilityRow:
    sizes = [min(PIECE, resamples - done) for done in range(0, resamples, PIECE)]
    seeds = np.random.SeedSequence(seed).generate_state(len(sizes)).tolist()
    tau, same = [], []
    began = perf_counter()
    for size, its_seed in zip(sizes, seeds, strict=True):
        theta = fit.bootstrap(size, its_seed)
        tau.append(kendall_tau(fit.theta, theta))
        same.append(np.argmax(theta, axis=1) == np.argmax(fit.theta))
        advance(size)
    all_tau, all_same = np.concatenate(tau), np.concatenate(same)
    low, high = np.quantile(all_tau, [0.025, 0.975])
    top1 = float(all_same.mean())
    return StabilityRow(
        model=fit.model,
        tau=float(all_tau.mean()),
        tau_se=float(all_tau.std(ddof=1) / np.sqrt(resamples)),
        tau_lower=float(low),
        tau_upper=float(high),
        top1=top1,
        top1_se=float(np.sqrt(top1 * (1 - top1) / resamples)),
        seconds=perf_counter() - began,
    )


def kendall_tau(reference: Floats, others: Floats) -> Floats:
    """Kendall's tau-b of each row of ``others`` with ``reference``; 0 where a side is all ties."""
    first, second = np.triu_indices(reference.size, 1)
    expected = np.sign(reference[first] - reference[second])
    out = np.empty(len(others))
    for i, theta in enumerate(others):
        found = np.sign(theta[first] - theta[second])
        scale = np.sqrt(np.count_nonzero(expected) * float(np.count_nonzero(found)))
        out[i] = expected @ found / scale if scale else 0.0
    return out


BAND = 0.9  # of the resamples, or draws, inside
SIZES = 8  # of a curve
EACH = 40  # resamples of each size
DRAWS = 2000
MORE = (0.25, 0.5, 1.0, 2.0)  # raters more, in raters there are
SHAPES = (2.0, 5.0, 20.0, 100.0)
ALPHAS, BETAS = (2.0, 5.0, 10.0, 20.0), (1.5, 2.0, 5.0)


@dataclass(frozen=True, slots=True)
class GrowthRow(Row):
    """The stability of a model with so many raters, or so many comparisons of each rater."""

    model: str
    by: Literal["raters", "comparisons"]
    n: int
    tau: float
    tau_lower: float
    tau_upper: float
    top1: float
    top1_lower: float
    top1_upper: float


@dataclass(frozen=True, slots=True)
class SensitivityRow(Row):
    """The stability under given priors. b is not varied: it moves all ratings by the same."""

    model: str
    a: float
    b: float
    alpha: float
    beta: float
    tau: float
    top1: float
    #: With the ranking under the priors that were asked for.
    tau_reference: float


@dataclass(frozen=True, slots=True)
class AgreementRow(Row):
    """A rater: quality, agreement with the ranking, and the group that the rater is of."""

    rater: str
    group: str
    quality: float
    agreement: float
    n: float


@dataclass(frozen=True, slots=True)
class CorrelationRow(Row):
    """Pearson's correlation of quality and agreement in a group of raters."""

    group: str
    n_raters: int
    correlation: float
    quality: float
    agreement: float


@dataclass(frozen=True, slots=True)
class MoreRatersRow(Row):
    """What to expect with more raters of this kind: tau with the ranking of all such raters."""

    more: int
    n_raters: int
    tau: float
    tau_lower: float
    tau_upper: float
    top1: float


@dataclass(frozen=True)
class Evaluation:
    """All of it, for the report and the charts."""

    fits: tuple[Fit, ...]
    stability: Stability
    growth: tuple[GrowthRow, ...]
    sensitivity: tuple[SensitivityRow, ...]
    agreement: tuple[AgreementRow, ...]
    correlations: tuple[CorrelationRow, ...]
    forecast: tuple[MoreRatersRow, ...]
    #: Raters whose answers have several values of the tag that groups them.
    in_several: int = 0
    #: Whether raters differ in more than quality: then no forecast of one ranking holds.
    divided: bool = False

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the forecasts must know."""
        if not self.divided:
            return ()
        told = (
            "raters differ in more than quality, so the panel may be divided. Then the forecasts "
            "with more raters promise too much: do not plan by them before bbq fit says that the "
            "raters form no camps"
        )
        return (told,)


def evaluation(
    fits: Sequence[Fit], resamples: int = 200, seed: int = 0, *, group: str | None = None,
    more: Sequence[int] = (), advance: Callable[[int], object] | None = None,
) -> Evaluation:  # fmt: skip
    """Everything about these fits of the same data; ``group`` is a tag that parts the raters."""
    heard = advance or (lambda _: None)
    table = stability(fits, resamples, seed, advance=advance)
    curves = tuple(row for one in fits for row in growth(one, seed, advance=heard))
    judge = next((one for one in fits if one.rated and MODELS[one.model].gives_verdicts), None)
    dots: tuple[AgreementRow, ...] = ()
    in_several = 0
    if judge is not None:
        dots = agreement(judge, group)
        if group is not None:
            answers = _answers_by(judge.data, group)[:, :-1]
            in_several = int(np.sum(np.count_nonzero(answers, axis=1) > 1))
    return Evaluation(
        tuple(fits), table, curves,
        tuple(row for one in fits for row in sensitivity(one, seed)),
        dots, correlations(dots), forecast_more(fits[0], more, seed=seed),
        in_several, divided_panel(fits[0]),
    )  # fmt: skip


def divided_panel(found: Fit) -> bool:
    """Whether a look at all raters' answers says that the panel may have several rankings."""
    axis = found.axis or (screen(found.wins) if found.rated else None)
    return found.division is not None or (axis is not None and axis.fires)


def _sizes(most: int) -> list[int]:
    return sorted({max(2, round(x)) for x in np.geomspace(2, most, SIZES)})


def growth(
    found: Fit, seed: int = 0, *, advance: Callable[[int], object] = lambda _: None
) -> list[GrowthRow]:
    """The curve over raters, and that over comparisons of each rater."""
    data, n = found.data, len(found.raters)
    rows = []
    for size in _sizes(n):
        rng = np.random.default_rng([seed, 1, size])
        drawn = rng.multinomial(size, np.full(n, 1.0 / n), size=EACH).astype(np.float64)
        rows.append(_grown(found, "raters", size, [_refit(found, one) for one in drawn]))
        advance(1)
    each = np.bincount(data.rater, data.weight, n)
    for size in _sizes(max(2, int(each.max()))):
        rng = np.random.default_rng([seed, 2, size])
        thetas = []
        for _ in range(EACH):
            copies = rng.multinomial(n, np.full(n, 1.0 / n)).astype(np.float64)
            part = replace(found, data=_thinned(data, size, rng))
            thetas.append(_refit(part, copies))
        rows.append(_grown(found, "comparisons", size, thetas))
        advance(1)
    return rows


def _refit(found: Fit, copies: Floats) -> Floats | None:
    try:
        return MODELS[found.model].refit(found, copies)
    except (ConvergenceError, np.linalg.LinAlgError):
        # crowd-bt of one or two raters may have no optimum.
        return None


def _thinned(data: Comparisons, each: int, rng: np.random.Generator) -> Comparisons:
    """The data with at most so many answers of each rater, drawn at random; a tie stays whole."""
    key = rng.random(data.rater.size)
    half = None if data.answers is None else data.answers.half
    if half is not None:
        again = np.flatnonzero((half[1:] == 2) & (half[:-1] == 1)) + 1
        key[again] = key[again - 1]
    order = np.lexsort((key, data.rater))
    rater, sorted_key = data.rater[order], key[order]
    new = np.concatenate(([True], rater[1:] != rater[:-1]))
    answer = np.cumsum(new | np.concatenate(([True], sorted_key[1:] != sorted_key[:-1])))
    begin = np.maximum.accumulate(np.where(new, answer, 0))
    kept = np.sort(order[answer - begin < each])
    columns: dict[str, Any] = {
        name: getattr(data, name)[kept] for name in ("rater", "winner", "loser", "weight")
    }
    return replace(data, answers=None, tags={}, winner_first=None, **columns)


def _grown(
    found: Fit, by: Literal["raters", "comparisons"], size: int, thetas: list[Floats | None]
) -> GrowthRow:
    # A ranking that does not exist is as good as one drawn by lot.
    tau = np.array([0.0 if t is None else kendall_tau(found.theta, t[None])[0] for t in thetas])
    first = int(np.argmax(found.theta))
    same = np.array([t is not None and int(np.argmax(t)) == first for t in thetas])
    low, high = np.quantile(tau, [(1 - BAND) / 2, (1 + BAND) / 2])
    top1, n = float(same.mean()), len(thetas)
    # Wilson's interval, which holds at 0 and 1 too.
    z = NormalDist().inv_cdf((1 + BAND) / 2)
    middle, wide = (top1 + z * z / (2 * n)) / (1 + z * z / n), z / (1 + z * z / n)
    reach = wide * float(np.sqrt(top1 * (1 - top1) / n + z * z / (4 * n * n)))
    return GrowthRow(
        found.model, by, size, float(tau.mean()), float(low), float(high), top1,
        max(0.0, middle - reach), min(1.0, middle + reach),
    )  # fmt: skip


def sensitivity(found: Fit, seed: int = 0) -> list[SensitivityRow]:
    """The stability under a grid of given priors; none of models that have priors of their own."""
    if not isinstance(found.priors, Priors) or found.division is not None:
        return []
    grid = [Priors(a=a) for a in SHAPES]
    if found.rated:
        grid += [Priors(alpha=alpha, beta=beta) for alpha in ALPHAS for beta in BETAS]
    rows = []
    for priors in grid:
        other = fit(found.data, found.model, priors=priors, camps=1, ties=found.ties)
        thetas = other.bootstrap(EACH, seed)
        first = np.argmax(other.theta)
        rows.append(
            SensitivityRow(
                found.model, priors.a, priors.b, priors.alpha, priors.beta,
                float(kendall_tau(other.theta, thetas).mean()),
                float(np.mean(np.argmax(thetas, axis=1) == first)),
                float(kendall_tau(found.theta, other.theta[None])[0]),
            )
        )  # fmt: skip
    return rows


def agreement(found: Fit, group: str | None = None) -> tuple[AgreementRow, ...]:
    """Quality and agreement with the ranking of each rater: the share of decided answers."""
    t = found.data.decided
    rater = t.rater()
    gap = found.theta[t.winner] - found.theta[t.loser]
    agree = t.weight * (0.5 + 0.5 * np.sign(gap))
    n = np.bincount(rater, t.weight, t.n_raters)
    with np.errstate(invalid="ignore"):
        share = np.bincount(rater, agree, t.n_raters) / n
    names = _groups(found.data, group)
    return tuple(
        AgreementRow(name, names[r], float(found.quality[r]), float(share[r]), float(n[r]))
        for r, name in enumerate(found.raters)
        if n[r] > 0
    )


def _groups(data: Comparisons, tag: str | None) -> list[str]:
    """The value of a tag that most answers of each rater have; "" without one."""
    if tag is None:
        return [""] * data.n_raters
    if tag not in data.tags:
        raise UsageError(f"no answer has a tag {tag!r}{did_you_mean(tag, list(data.tags))}")
    values = data.tag_values.get(tag, ())
    return [(*values, "")[int(row.argmax())] for row in _answers_by(data, tag)]


def _answers_by(data: Comparisons, tag: str) -> Codes:
    """How many answers of each rater have each value of a tag; those without one are last."""
    counts: Codes = np.zeros((data.n_raters, len(data.tag_values.get(tag, ())) + 1), dtype=np.int64)
    np.add.at(counts, (data.rater, data.tags[tag].astype(np.int64)), 1)
    return counts


def correlations(dots: Sequence[AgreementRow]) -> tuple[CorrelationRow, ...]:
    """Of each group, and of all raters where there are several."""
    groups = sorted({dot.group for dot in dots})
    parts = {group: [dot for dot in dots if dot.group == group] for group in groups}
    if len(groups) > 1:
        parts["all raters"] = list(dots)
    rows = []
    for group, some in parts.items():
        q, a = np.array([dot.quality for dot in some]), np.array([dot.agreement for dot in some])
        known = len(some) > 2 and q.std() > 0 and a.std() > 0
        r = float(np.corrcoef(q, a)[0, 1]) if known else float("nan")
        rows.append(CorrelationRow(group, len(some), r, float(q.mean()), float(a.mean())))
    return tuple(rows)


def forecast_more(
    found: Fit, more: Sequence[int] = (), *, against: int | None = None, seed: int = 0
) -> tuple[MoreRatersRow, ...]:
    """What to expect with more raters, in steps of those there are, or as many as ``more`` says.

    ``against``: tau with the ranking of another panel of so many raters, instead of all there are.
    """
    n = len(found.raters)
    if n < 2:
        raise UnsupportedError("a forecast with more raters needs two or more; these data have one")
    steps = sorted({*more}) or sorted({max(1, round(part * n)) for part in MORE})
    roots, axes = eigen(found.covariance())
    spread = axes * np.sqrt(roots)
    rng = np.random.default_rng([seed, 3])
    k = len(found.items)
    truth = found.laplace.mean + rng.standard_normal((DRAWS, k)) @ spread.T
    noise = rng.standard_normal((2, DRAWS, k))
    aim = truth
    if against is not None:
        aim = truth + np.sqrt(n / against) * noise[1] @ spread.T
    rows = []
    for step in (0, *steps):
        # Without any more raters it is today's ranking.
        new = truth + np.sqrt(n / max(step, 1)) * noise[0] @ spread.T
        then = (n * found.laplace.mean + step * new) / (n + step)
        tau = np.array([kendall_tau(a, b[None])[0] for a, b in zip(aim, then, strict=True)])
        low, high = np.quantile(tau, [(1 - BAND) / 2, (1 + BAND) / 2])
        same = float(np.mean(np.argmax(then, axis=1) == np.argmax(aim, axis=1)))
        rows.append(MoreRatersRow(step, n + step, float(tau.mean()), float(low), float(high), same))
    return tuple(rows)


MOST_TRIPLES = (
    50_000  # to be fitted again, some dozens of times: beyond, it would take most of the time
)
CHALLENGERS = 3  # of the next items, those that take least
REFITS = 12
MOST_LEFT_OUT = 0.5  # of all: beyond, it is another study
EQUAL = 1e-6  # nats: a tie, which takes no first place


@dataclass(frozen=True, slots=True)
class Removal:
    """A set without which another item is first: how many, of how many, and which item that is.

    ``raters`` names them, where it is raters who are left out.
    """

    n: int
    of: int
    first: str
    raters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fragility:
    """What the first place hangs on; None where no half of the answers, or of the raters, does."""

    first: str
    comparisons: Removal | None
    raters: Removal | None
    #: Whether there are answers without a winner; these hold no item up and are not counted.
    ties: bool = False

    def as_dict(self) -> dict[str, Any]:
        """For the JSON document."""
        return asdict(self)


def fragility(fit: Fit) -> Fragility | None:
    """The first place of a fit of one ranking by bbq or bayes-bt; None of others, or too large."""
    known = fit.division is None and not fit.in_parts and isinstance(fit.priors, Priors)
    if not known or not 1 < len(fit.items) <= LARGEST_COVARIANCE or fit.wins.size > MOST_TRIPLES:
        return None
    study = _Study(fit)
    if not study.rows.size:
        # No answer has a winner.
        return None
    votes = study.fewest(study.row_gaps, study.row_weights)
    raters = None
    if fit.data.n_raters > 2:
        raters = study.fewest(study.rater_gaps, study.rater_weights)
    named = () if raters is None else tuple(fit.raters[r] for r in raters[2].tolist())
    return Fragility(
        fit.items[study.first],
        None if votes is None else Removal(votes[0], study.rows.size, votes[1]),
        None if raters is None else Removal(raters[0], fit.data.n_raters, raters[1], named),
        study.rows.size < fit.data.rater.size,
    )


def _reaches(pushes: Floats, n: int, gap: float) -> bool:
    """Whether the n largest may add up to so much: far cheaper than to sort them all."""
    if n < 1 or n * float(np.max(pushes)) < gap:
        return False
    largest = np.partition(pushes, -n)[-n:] if n < pushes.size else pushes
    return float(np.maximum(largest, 0.0).sum()) >= gap * (1.0 - 1e-9)


class _Study:
    """The answers of a fit, what each of them pushes, and fits without some of them."""

    def __init__(self, fit: Fit) -> None:
        self.fit, t = fit, fit.wins
        self._beyond: Floats | float = 0.0
        self.first = int(np.argmax(fit.theta))
        half = None if fit.data.answers is None else fit.data.answers.half
        # Half a win each way holds no item up.
        self.rows: Codes = (
            np.arange(fit.data.rater.size) if half is None else np.flatnonzero(half == 0)
        )
        rater, winner, loser = (
            column[self.rows] for column in (fit.data.rater, fit.data.winner, fit.data.loser)
        )
        if fit.held is not None:
            self._at = fit.held.design.at[self.rows]
        else:
            self._at = triple_of(t, rater, winner, loser)
        self._part = fit.data.weight[self.rows] / t.weight[self._at]
        self._push = fit.moments.push[0]
        self._own = fit.robust.own
        # With covariates theta is a mean, and fits again are tops: by how much they differ.
        if fit.held is not None:
            self._beyond = fit.theta - self._theta(t.weight)

    def _by_triple(self, other: int) -> Floats:
        """By how much each triple holds the first item above this one."""
        t = self.fit.wins
        along = self._own[:, self.first] - self._own[:, other]
        return np.asarray(self._push * (along[t.winner] - along[t.loser]))

    def row_gaps(self, other: int) -> Floats:
        """The same by comparison."""
        return np.asarray(self._by_triple(other)[self._at] * self._part)

    def rater_gaps(self, other: int) -> Floats:
        """The same by rater."""
        t = self.fit.wins
        return np.asarray(np.bincount(t.rater(), self._by_triple(other), t.n_raters))

    def row_weights(self, out: Codes) -> Floats:
        """The weight of each triple without these comparisons."""
        t = self.fit.wins
        less = np.bincount(self._at[out], self.fit.data.weight[self.rows[out]], t.size)
        return np.asarray(np.maximum(t.weight - less, 0.0))

    def rater_weights(self, out: Codes) -> Floats:
        """The weight of each triple without these raters."""
        t = self.fit.wins
        return np.where(np.isin(t.rater(), out), 0.0, t.weight)

    def _theta(self, weight: Floats) -> Floats:
        """theta with these weights of the triples, from the fit on."""
        fit, t = self.fit, replace(self.fit.wins, weight=weight)
        priors, fixed = fit.given_priors(), not fit.rated
        quality = fit.quality if fit.rated else np.ones(t.n_raters)
        objective = (
            theta_density(t, priors, fixed=fixed) if priors.estimated
            else Joint(t, priors, fixed=fixed)
        )  # fmt: skip
        return solve_newton(objective, fit.theta, quality, 1e-4).theta + self._beyond

    def fewest(self, gaps: Any, weights: Any) -> tuple[int, str, Codes] | None:
        """The smallest set found: how many, which item is first without it, and what is in it."""
        theta = self.fit.theta
        others = [i for i in np.argsort(-theta).tolist() if i != self.first]
        lines: list[tuple[int, int, Codes, Floats]] = []
        for other in others:
            found, gap = gaps(other), float(theta[self.first] - theta[other])
            if len(lines) == CHALLENGERS and not _reaches(found, lines[-1][0] - 1, gap):
                continue
            order = np.argsort(-found, kind="stable")
            moved = np.cumsum(np.maximum(found[order], 0.0))
            needed = int(np.searchsorted(moved, gap)) + 1
            lines = sorted([*lines, (needed, other, order, moved)], key=lambda line: line[0])
            del lines[CHALLENGERS:]
        best: tuple[int, str, Codes] | None = None
        for needed, other, order, moved in lines:
            most = int(MOST_LEFT_OUT * order.size) if best is None else best[0] - 1
            verified = self._verified(needed, other, order, moved, weights, most)
            best = verified or best
        return best

    def _verified(
        self, needed: int, other: int, order: Codes, moved: Floats, weights: Any, most: int
    ) -> tuple[int, str, Codes] | None:
        """The fewest of this order without which another item is first, by fits again.

        Between a number that is enough and one that is not, the next one tried is where the gap,
        were it in proportion to what the influence functions say, would close.
        """
        gap = max(float(self.fit.theta[self.first] - self.fit.theta[other]), 1e-9)
        low, high, found = 0, most + 1, None
        n = min(needed, most)
        for _ in range(REFITS):
            if not low < n < high:
                break
            try:
                theta = self._theta(weights(order[:n]))
            except ConvergenceError:
                break
            top = int(np.argmax(theta))
            if theta[top] > theta[self.first] + EQUAL:
                high, found = n, (n, self.fit.items[top], order[:n])
            else:
                low = n
            left = float(theta[self.first] - theta[other])
            share = max(gap - left, 1e-3 * gap) / gap
            guess = int(np.searchsorted(moved, moved[n - 1] / share)) + 1
            n = guess if low < guess < high else (low + high) // 2 if found else min(2 * n, most)
        return found
