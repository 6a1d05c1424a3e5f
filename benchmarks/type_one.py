"""Type I error: two equal items, 50 comparisons a rater, 1 to 1,024 raters, nominal 1%.

Two items are called different when `compare` gives a p-value below 1% under the paper's priors: the
test of the difference by its own posterior. All answers are coin flips, so each rejection is an
error.

How so many trials are possible: with two items a rater's data are the number of wins out of 50,
and raters with equal numbers are exchangeable, so a trial is a histogram over 0..50. The common
level of both items is not seen by the comparisons; at its best, what remains of the log-posterior
is a function of the difference d alone,

    P(d) = Σ_c n_c log ∫ Beta(q) (1/2 + q s)^c (1/2 − q s)^(50 − c) dq + a log(y (1 − y)),

with y = 1/(1 + exp(−d)) and s = y − 1/2. The integral is a polynomial of degree 50 in q, so 26
Gauss-Jacobi nodes are exact; each of the 51 functions is kept as a Chebyshev series, and the mode
of P, its curvature and its fall from there to d = 0 are found for thousands of trials at once. That
this gives the z of the package is not taken on trust: `fit` and `compare` themselves run on a
sample of the trials of every size, and the largest difference in z is part of the result. exp(P) is
the exact posterior of d as well, so its test is shown beside; and so are Wald's test (the mode of d
in its Laplace standard deviations) and two rules that ask whether separate intervals overlap: the
right 99% intervals, and the paper's Gammas (from the plain fits of the sample).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb

import numpy as np
from common import Report, Table, arguments, figure, per_cent, within
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri, roots_jacobi
from scipy.stats import binom

from bbq_plugin import Comparisons, compare, fit
from bbq_plugin.errors import ConvergenceError

Floats = NDArray[np.float64]

EACH = 50
SIZES = [2**k for k in range(11)]
TRIALS, QUICK_TRIALS = 400_000, 40_000
CHECKED, QUICK_CHECKED = 1000, 20
PIECE = 20_000
ENUMERATED = 2  # raters: up to here all trials that exist are gone through
A, ALPHA, BETA = 5.0, 10.0, 2.0
Z = 2.5758293035489004  # of 99%, two-sided
NEARLY_EQUAL = 1e-3  # standard deviations, below which `compare` keeps to Wald's
REACH = 3.5  # nats; five and more prior standard deviations
DEGREE = 150
LOW, HIGH, FROM_RATERS, LARGEST_ERROR = 0.008, 0.012, 8, 0.0005


def log_shares(d: Floats) -> Floats:
    """log of the integral over q, for c = 0..50 (rows) and each d (columns)."""
    nodes, weights = roots_jacobi(EACH // 2 + 1, BETA - 1, ALPHA - 1)
    q, weights = (nodes + 1) / 2, weights / weights.sum()
    s = 0.5 * np.tanh(d / 2)
    up, down = 0.5 + q[:, None] * s, 0.5 - q[:, None] * s
    return np.log([weights @ (up**c * down ** (EACH - c)) for c in range(EACH + 1)])


def log_prior(d: Floats) -> Floats:
    """log of (y (1 - y))^a, the Gamma priors at the best common level."""
    return -2.0 * A * np.logaddexp(d / 2, -d / 2)


def series() -> tuple[Floats, Floats]:
    """Chebyshev coefficients on [-REACH, REACH] of the 51 functions (rows) and of the prior."""
    nodes = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
    shares = chebyshev.chebfit(nodes, log_shares(REACH * nodes).T, DEGREE).T
    prior = chebyshev.chebfit(nodes, log_prior(REACH * nodes), DEGREE)
    x = np.random.default_rng(0).uniform(-0.95, 0.95, 500)
    wrong = np.max(np.abs(chebyshev.chebval(x, shares.T) - log_shares(REACH * x)))
    assert wrong < 1e-9, f"the series is off by {wrong}"
    return np.asarray(shares), np.asarray(prior)


@dataclass(frozen=True, eq=False)
class Trials:
    """Mode and curvature of d in each trial, and its coefficients."""

    coefficients: Floats
    d: Floats
    curve: Floats

    @property
    def wald(self) -> Floats:
        """The mode in its own standard deviations."""
        return self.d * np.sqrt(self.curve)

    @property
    def z(self) -> Floats:
        """The signed root of the posterior's fall to d = 0, corrected to third order.

        v = P'(0) / sqrt(-P''(top)): the direction other than d has the same curvature, 2a, at
        both points, and cancels.
        """
        even = np.zeros(len(self.d))
        slopes = chebyshev.chebder(self.coefficients, 1, axis=1) / REACH
        top, equal, slope = (
            chebyshev.chebval(x, c.T, tensor=False)
            for x, c in (
                (self.d / REACH, self.coefficients),
                (even, self.coefficients),
                (even, slopes),
            )
        )
        v = slope / np.sqrt(self.curve)
        z = self.wald.copy()
        far = (np.abs(z) > NEARLY_EQUAL) & (top > equal)
        r = np.sign(z[far]) * np.sqrt(2 * (top - equal)[far])
        z[far] = r + np.log(v[far] / r) / r
        return z

    def posterior_tail(self) -> Floats:
        """The exact posterior probability of the less likely sign, where there is any doubt."""
        out = np.where(np.abs(self.wald) < 1, 0.5, 0.0)
        near = np.flatnonzero((np.abs(self.wald) >= 1) & (np.abs(self.wald) < 6))
        nodes, weights = np.polynomial.legendre.leggauss(48)
        for part in np.array_split(near, max(1, near.size // 5000)):
            if not part.size:
                continue
            flip = np.sign(self.d[part])
            c = self.coefficients[part].T[:, :, None]
            reach = 11 / np.sqrt(self.curve[part])
            ends = [np.abs(self.d[part]) - reach, np.abs(self.d[part]) + reach]
            top = chebyshev.chebval(self.d[part, None] / REACH, c, tensor=False)
            mass = []
            for begin, end in (
                (np.minimum(ends[0], -0.1 * reach), np.zeros(part.size)),
                (np.zeros(part.size), ends[1]),
            ):
                low, high = np.clip(begin, -REACH, REACH), np.clip(end, -REACH, REACH)
                x = flip[:, None] * (low[:, None] + (high - low)[:, None] * (nodes + 1) / 2)
                value = chebyshev.chebval(x / REACH, c, tensor=False)
                mass.append((high - low) * (np.exp(value - top) @ weights))
            out[part] = mass[0] / (mass[0] + mass[1])
        return out


def solve(histograms: Floats, shares: Floats, prior: Floats) -> Trials:
    """Newton's method on P for all trials at once."""
    c = histograms @ shares + prior
    first = chebyshev.chebder(c, 1, axis=1) / REACH
    second = chebyshev.chebder(c, 2, axis=1) / REACH**2
    d = np.zeros(len(c))
    for _ in range(60):
        slope = chebyshev.chebval(d / REACH, first.T, tensor=False)
        curve = -chebyshev.chebval(d / REACH, second.T, tensor=False)
        step = np.clip(slope / np.maximum(curve, 1.0), -0.5, 0.5)
        d = np.clip(d + step, -0.9 * REACH, 0.9 * REACH)
        if np.max(np.abs(step)) < 1e-12:
            break
    curve = -chebyshev.chebval(d / REACH, second.T, tensor=False)
    return Trials(c, d, curve)


def enumerate_trials(raters: int) -> tuple[Floats, Floats]:
    """All histograms that exist, with their probabilities."""
    chance = even_chances()
    kinds = list(combinations_with_replacement(range(EACH + 1), raters))
    histograms = np.array([np.bincount(kind, minlength=EACH + 1) for kind in kinds], dtype=float)
    orders = [1 if len(set(kind)) < 2 else 2 for kind in kinds]
    return histograms, np.array(orders) * np.array([chance[list(kind)].prod() for kind in kinds])


@dataclass(frozen=True, slots=True)
class Rates:
    """Shares of trials that each rule rejects."""

    raters: int
    trials: int  # 0: all that exist, weighted by their probability
    test: float
    wald: float
    posterior: float
    overlap: float
    error: float = 0.0  # standard error of the rate of the test


@dataclass(frozen=True, slots=True)
class Lattice:
    """What is rejected by the number of wins, and what follows from it."""

    table: Table
    note: str


def even_chances() -> Floats:
    """P(0..50 wins) of a rater who sees two equal items."""
    return np.array([comb(EACH, c) / 2**EACH for c in range(EACH + 1)])


def decisions(trials: Trials) -> Floats:
    """What is rejected, by rows: the test, Wald's, the exact posterior, the overlap of intervals.

    Two separate intervals have half the variance of the difference each; they part where the
    difference is the square root of 2 times as far out as its own interval reaches.
    """
    wald = np.abs(trials.wald)
    rejected = (
        np.abs(trials.z) > Z, wald > Z, trials.posterior_tail() < 0.005, wald > Z * np.sqrt(2)
    )  # fmt: skip
    return np.array(rejected, dtype=float)


def all_rates(raters: int, shares: Floats, prior: Floats) -> Rates:
    """The rates of each rule over all trials that exist."""
    histograms, chance = enumerate_trials(raters)
    test, wald, posterior, overlap = decisions(solve(histograms, shares, prior)) @ chance
    return Rates(raters, 0, float(test), float(wald), float(posterior), float(overlap))


def drawn_rates(raters: int, n: int, shares: Floats, prior: Floats) -> tuple[Rates, Lattice]:
    """The rates of each rule over drawn trials, post-stratified by the wins of the winner.

    How often each number of wins comes up is known (a binomial), so only the share rejected
    among trials with that number is estimated: less noise for the same trials. Also the lattice.
    """
    rng = np.random.default_rng(1000 + raters)
    half = raters * EACH // 2
    seen, rejected = np.zeros(half + 1), np.zeros((4, half + 1))
    for _ in range(n // PIECE):
        histograms = rng.multinomial(raters, even_chances(), PIECE).astype(float)
        surplus = np.abs(histograms @ np.arange(EACH + 1) - half).astype(int)
        seen += np.bincount(surplus, minlength=half + 1)
        for row, reject in enumerate(decisions(solve(histograms, shares, prior))):
            rejected[row] += np.bincount(surplus, reject, half + 1)
    chance = 2 * binom.pmf(half + np.arange(half + 1), raters * EACH, 0.5)
    chance[0] /= 2
    # A surplus that never came up takes after its neighbours (far out, where all is rejected).
    at = np.flatnonzero(seen)
    share = np.array([np.interp(np.arange(half + 1), at, row[at] / seen[at]) for row in rejected])
    rates = share @ chance
    noise = np.divide(share[0] * (1 - share[0]), seen, out=np.zeros(half + 1), where=seen > 0)
    error = float(np.sqrt(chance**2 @ noise))
    rows = [
        [
            f"{half + k}", per_cent(chance[k], 3), per_cent(share[0, k], 1),
            per_cent(chance[k:].sum(), 3),
        ]
        for k in range(half + 1)
        if 0.0004 < chance[k:].sum() < 0.025 and seen[k]
    ]  # fmt: skip
    header = ["wins of the winner", "P(exactly so many)", "rejected", "P(so many or more)"]
    caption = f"The lattice: wins out of {raters * EACH:,} comparisons by {raters} raters"
    sure, possible = int(np.argmax(share[0] >= 0.999)), int(np.argmax(share[0] > 0.001))
    note = (
        f"With {raters} raters no trial with under {half + possible} wins of {raters * EACH} is "
        f"rejected, and all with {half + sure} or more are. The number of wins is whole, so a test "
        f"by it alone could only reject {per_cent(chance[sure:].sum(), 3)} or "
        f"{per_cent(chance[sure - 1 :].sum(), 3)} of the time; how the wins fall on the raters "
        "decides the rest."
    )
    table = Table(caption, header, rows)
    test, wald, posterior, overlap = map(float, rates)
    return Rates(raters, n, test, wald, posterior, overlap, error), Lattice(table, note)


def plain_fit(histogram: Floats) -> tuple[float, bool]:
    """z of `compare` on the plain fit of a trial, and whether the paper's intervals part."""
    wins = np.repeat(np.arange(EACH + 1), histogram.astype(int))
    raters = np.arange(wins.size)
    rater = np.concatenate((raters, raters))
    won = np.concatenate((np.zeros_like(raters), np.ones_like(raters)))
    weight = np.concatenate((wins, EACH - wins)).astype(float)
    seen = weight > 0
    data = Comparisons.from_arrays(
        rater[seen], won[seen], 1 - won[seen], weight[seen], items=["one", "two"]
    )
    # All raters answer alike here: the test that takes answers as independent.
    found = fit(data, priors="paper", cluster="none")
    z = ndtri(compare(found, "one", "two").p_better)
    shape, rate = found.paper_posterior()
    low, high = (gammaincinv(shape, tail) / rate for tail in (0.005, 0.995))
    return float(z), bool(low[0] > high[1] or low[1] > high[0])


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the trials of a sample compare with the plain fit."""

    gap: float  # the largest difference in z
    differ: int  # decisions
    failed: int  # plain fits that did not converge
    paper: float  # share of trials in which the paper's intervals part


def sampled(raters: int, n: int, shares: Floats, prior: Floats) -> Comparison:
    """Run the plain fit on a sample of trials."""
    rng = np.random.default_rng(raters)
    histograms = rng.multinomial(raters, even_chances(), n).astype(float)
    fast = solve(histograms, shares, prior).z
    gaps, parted, differ = [0.0], [], 0
    for histogram, z in zip(histograms, fast, strict=True):
        try:
            plain, part = plain_fit(histogram)
        except ConvergenceError:
            continue
        gaps.append(abs(plain - z))
        parted.append(part)
        differ += (abs(plain) > Z) != (abs(z) > Z)
    return Comparison(float(max(gaps)), differ, n - len(parted), float(np.mean(parted)))


def main() -> None:
    """Measure all sizes."""
    quick: bool = arguments(__doc__ or "").quick
    n, checked = (QUICK_TRIALS, QUICK_CHECKED) if quick else (TRIALS, CHECKED)
    report = Report("type_one", "Type I error of the test of a difference", __doc__ or "", quick)
    shares, prior = series()
    rows: list[list[str]] = []
    found: list[Rates] = []
    samples: list[Comparison] = []
    lattices: list[Table] = []
    allowed = 3 if quick else 0
    for raters in SIZES:
        if raters <= ENUMERATED:
            rate = all_rates(raters, shares, prior)
        else:
            rate, lattice = drawn_rates(raters, n, shares, prior)
            if raters == FROM_RATERS:
                lattices.append(lattice.table)
                report.notes.append(lattice.note)
        sample = sampled(raters, checked, shares, prior)
        found.append(rate)
        samples.append(sample)
        trials = f"{rate.trials:,}" if rate.trials else "all, exact"
        shown = f"{per_cent(rate.test, 3)} ± {per_cent(rate.error, 3)}"
        rows.append(
            [
                f"{raters:,}", trials, shown, per_cent(rate.wald, 3), per_cent(rate.posterior, 3),
                per_cent(rate.overlap, 3), per_cent(sample.paper, 1), f"{sample.gap:.0e}",
            ]
        )  # fmt: skip
        print(" | ".join(rows[-1]), flush=True)
        report.values[str(raters)] = {
            "test": rate.test, "wald": rate.wald, "error": rate.error, "posterior": rate.posterior,
            "overlap": rate.overlap, "paper": sample.paper, "largest z difference": sample.gap,
        }  # fmt: skip
        if raters >= FROM_RATERS:
            ok = within(rate.test, LOW - allowed * rate.error, HIGH + allowed * rate.error)
            bar = f"{per_cent(LOW, 1)}–{per_cent(HIGH, 1)}"
        else:
            ok, bar = rate.test <= HIGH, f"≤ {per_cent(HIGH, 1)}"
        report.check(f"{raters:,} rater{'s' * (raters > 1)}", shown, bar, ok=ok)
    largest = max(rate.error for rate in found)
    ok = largest < LARGEST_ERROR
    report.check("largest standard error", per_cent(largest, 3), "< 0.05%", ok=ok)
    worst = max(sample.gap for sample in samples)
    what = f"largest difference in z to plain fits ({checked:,} trials of every size)"
    report.check(what, f"{worst:.1e}", "≤ 1e-3", ok=worst <= 1e-3)
    for what, count in (
        ("decisions that differ from the plain fit's", sum(s.differ for s in samples)),
        ("plain fits that did not converge", sum(s.failed for s in samples)),
    ):
        report.check(f"{what}, of {checked * len(SIZES):,}", str(count), "0", ok=count == 0)
    header = [
        "raters", "trials", "test of the difference", "Wald's", "exact posterior",
        "overlap of two 99% intervals", "overlap of the paper's Gamma intervals", "z to plain fit",
    ]  # fmt: skip
    report.tables.append(Table("Share of trials that call equal items different", header, rows))
    report.tables += lattices
    report.notes.append(
        f"Rates are post-stratified by the number of wins, whose distribution is known; counted "
        f"plainly, {n:,} trials would have a standard error of "
        f"{per_cent((0.01 * 0.99 / n) ** 0.5, 3)}. Up to {ENUMERATED} raters all trials that exist "
        "were gone through."
    )
    draw(report, found)
    report.finish()


def draw(report: Report, found: list[Rates]) -> None:
    """The rates by the number of raters."""
    with figure(report, "type_one") as axes:
        x = [rate.raters for rate in found]
        axes.axhspan(100 * LOW, 100 * HIGH, color="C0", alpha=0.12, label="0.8–1.2%")
        axes.errorbar(
            x, [100 * rate.test for rate in found], yerr=[200 * rate.error for rate in found],
            marker="o", capsize=3, label="test of the difference, ± 2 s.e.",
        )  # fmt: skip
        axes.plot(
            x, [100 * r.posterior for r in found], marker="s", ls="--", label="exact posterior"
        )
        axes.plot(x, [100 * r.wald for r in found], marker="x", ls="-.", label="Wald's z")
        axes.plot(x, [100 * r.wald for r in found], marker="v", ls="-.", label="Wald's test")
        axes.plot(
            x, [100 * r.overlap for r in found], marker="^", ls=":", label="overlap of intervals"
        )
        axes.set_xscale("log", base=2)
        axes.set_xticks(x, [str(v) for v in x])
        axes.set_ylim(bottom=0)
        axes.set_xlabel("raters, 50 comparisons each")
        axes.set_ylabel("equal items called different, %")
        axes.legend(frameon=False, loc="center right")


if __name__ == "__main__":
    main()
