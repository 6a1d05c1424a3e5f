"""What is known of theta where answers come in clusters: a covariance that is robust to them.

The model's own covariance V takes every answer of a rater as news, given the rater's quality. Real
raters have tastes, and scenes suit one item more than another, so that the answers of one rater or
of one scene vary together. With g_c the score of cluster c (its part of the gradient at the top),
the sandwich V (c/(c-1) sum g_c g_c') V holds whatever they have in common (Liang and Zeger 1986);
for two ways of clustering, raters and scenes, the sum of both minus that of their intersections
(Cameron, Gelbach and Miller 2011).

A cluster with many of the answers draws the top towards itself, so that its score is too small: of
those with more than LARGE of the votes it is (I - A_c)^-1/2 L' g_c instead, A_c = L' H_c L the part
of the information that comes from the cluster (Bell and McCaffrey 2002).

Few clusters make it unsure of itself. So it is taken in units of the model's own covariance,
S = L' (sum g_c g_c') L with V = L L', which is the identity where there are no clusters, and

- shrunk towards nu I, nu = max(1, mean eigenvalue), by the oracle approximating shrinkage (Chen,
  Wiesel, Eldar and Hero 2010) with Kish's effective number of clusters by votes, G;
- never less than the model's own: no eigenvalue below 1;
- widened by (t / 1.96)^2, t the 97.5% quantile of Student's distribution, so that plus and minus
  1.96 standard deviations are the 95% interval. Its degrees of freedom lie between G - 1 (nothing
  shrunk) and (G - 1) (K - 1) (one factor for all directions, estimated from all of them).

What is not known of estimated priors is added afterwards, as it is to the model's own.

With so many items that a K x K matrix is too large, there are variances alone: the diagonal of V
from random directions z, V z by conjugate gradients, z * V z being V_ii on average (Bekas,
Kokiopoulou and Saad 2007). The factor that all directions share comes from the same solver: with
random signs u = sum +-g_c, u' V u is the trace of V sum g_c g_c' on average (Hutchinson 1989).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import atan, gamma, inf, lgamma, pi, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.data.clusters import RATER, Clusters, clusters_of
from bbq_plugin.data.triples import Codes, Floats, Triples, even_chunks, run_chunks, triple_of
from bbq_plugin.errors import ConvergenceError, UnsupportedError
from bbq_plugin.model.kernels import likelihood as kernels
from bbq_plugin.model.objectives import LARGEST_COVARIANCE, Height, Marginal, Objective
from bbq_plugin.model.solvers import conjugate_gradients, inverse

if TYPE_CHECKING:
    from bbq_plugin.model.fit import Fit

Places = NDArray[np.int32]
FEW_CLUSTERS = 8
# With more items one factor for all directions: their differences are noise, and take hours.
MOST_DIRECTIONS = 1024
_LEVEL = 0.975
LARGE, MOST_PART = 0.04, 0.9  # of the votes; of the information, that a cluster is believed to be
# Random directions by which variances of very many items are found, and how exactly: an item that
# was compared with d others is off by some 1 / sqrt(d * DIRECTIONS).
DIRECTIONS, SOLVED = 32, 1e-3
DENSE, ROWS_AT_ONCE = 0.25, 512
ROWS_COUNTED = 1 << 20  # by clusters, at once
EQUAL = 1e-7  # of s: items as close as that are equal


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """The scores at the top of the density of theta, by camp and triple of ``fit.wins``.

    A score is d log-likelihood / d (theta_winner - theta_loser) of a camp's theta. ``push`` is its
    mean over what is not known of the rater (quality and, with several camps, which one), ``lift``
    the mean of quality times score. ``quality`` and ``square`` are, by rater and camp,
    P(camp) E[q] and P(camp) E[q^2].
    """

    push: Floats
    lifts: Callable[[], Floats]
    quality: Floats
    square: Floats

    @property
    def lift(self) -> Floats:
        """Computed when it is asked for: win shares need it, intervals of theta do not."""
        return self.lifts()


def known_quality(
    triples: Triples, theta: Floats, quality: Floats, follows: Floats | None = None,
    variance: Floats | None = None,
) -> Moments:  # fmt: skip
    """Of raters whose quality is a number: held (bayes-bt: 1), or the best for this theta.

    In the second case ``follows`` is d quality / d gap of each triple, and ``variance`` what is not
    known of each rater's.
    """
    gap = theta[triples.winner] - theta[triples.loser]
    s = 0.5 * np.tanh(0.5 * (gap if triples.offset is None else gap + triples.offset))
    q = np.repeat(quality, np.diff(triples.start))
    push = triples.weight * q * (0.25 - s * s) / (0.5 + q * s)
    square = quality**2 if variance is None else quality**2 + variance

    def lifts() -> Floats:
        return np.asarray(q * push if follows is None else q * push + follows)[None]

    return Moments(push[None], lifts, quality[:, None], square[:, None])


def integrated_quality(fit: Fit) -> Moments:
    """Of raters whose quality is integrated out, in every camp of the fit."""
    t, membership = fit.wins, fit.membership
    pushes: list[Floats] = []
    quality, square = np.empty((2, t.n_raters, len(fit.camp_theta)))
    tops, waiting = fit.top[None] if len(fit.camp_theta) == 1 else fit.camp_theta, []
    for c, theta in enumerate(tops):
        density = _asked_at(fit, theta)
        summary, belongs = density.summary, np.ascontiguousarray(membership[:, c])
        mean = summary[:, 0].copy()
        both = mean**2 + summary[:, 1]
        decides = belongs * (1.0 - fit.tie_rate)
        of_camp: Floats = density.pushes
        if fit.division is not None:
            of_camp = np.repeat(belongs, np.diff(t.start)) * of_camp
        elif fit.mode is not None:
            of_camp = of_camp.copy()  # a live density is asked elsewhere later
        pushes.append(of_camp)
        waiting.append((density, theta, (decides, mean, both)))
        # A tie is half a win of either: with rate tau, q counts 1 - tau times.
        quality[:, c], square[:, c] = decides * mean, decides * (1.0 - fit.tie_rate) * both
    push = pushes[0][None] if len(pushes) == 1 else np.array(pushes)
    return Moments(push, lambda: np.array([_lift(*one) for one in waiting]), quality, square)


def _asked_at(fit: Fit, theta: Floats) -> Marginal:
    """The density of a camp's theta, asked there last."""
    if fit.mode is not None:
        return fit.mode.density
    known = fit.laplace.density if fit.division is None and fit.wins is fit.triples else None
    if known is not None and np.array_equal(known.asked, theta):
        return known
    density = Marginal(fit.wins, fit.given_priors())
    density.at(theta, np.empty(0))
    return density


def _lift(density: Marginal, theta: Floats, by_rater: tuple[Floats, ...]) -> Floats:
    """The scores by triple times quality; some raters at a time."""
    t, s = density.passes.triples, density.passes.standing(theta)
    lift = np.empty(t.size)

    def work(first: int, last: int) -> None:
        n, at = np.diff(t.start[first : last + 1]), slice(t.start[first], t.start[last])
        decides, mean, both = (np.repeat(x[first:last], n) for x in by_rater)
        lift[at] = decides * _lifts(t.weight[at], density.pushes[at], s[at], mean, both)

    run_chunks(work, density.passes.chunks)
    return lift


def _lifts(weight: Floats, pushes: Floats, s: Floats, mean: Floats, both: Floats) -> Floats:
    """The mean of quality times score of each triple, from those of q, q^2 and the score.

    Given q the score is w (1/4 - s^2) r with r (1/2 + q s) = q, so that q r = (q - r / 2) / s.
    """
    times, known = weight * (0.25 - s * s), np.abs(s) > EQUAL
    found = (times * mean - 0.5 * pushes) / np.where(known, s, 1.0)
    return np.asarray(np.where(known, found, 2.0 * times * both))


@dataclass(frozen=True, slots=True)
class Way:
    """One way in which answers were clustered; ``effective`` is Kish's number by votes."""

    name: str
    n: int
    effective: float


@dataclass(frozen=True, slots=True, eq=False)
class Robust:
    """The covariance that intervals are made of, and how it came to be.

    ``stacked`` is that of all camps' theta one after the other, priors taken as known, and
    ``own`` the model's of the same. ``factor`` is (t / 1.96)^2, of ``freedom`` degrees of freedom.
    ``wider`` is how many times as wide as the model's own the interval of a difference became, on
    average; 1 without clusters. ``variances`` are those of theta relative to the mean item, where
    there are too many items for the matrices, which are empty then.
    """

    covariance: Floats
    stacked: Floats
    own: Floats
    ways: tuple[Way, ...] = ()
    freedom: float = inf
    wider: float = 1.0
    remarks: tuple[str, ...] = ()
    variances: Floats | None = None

    @property
    def factor(self) -> float:
        """How much larger the variances are for few clusters."""
        return t_factor(self.freedom)


def robust_covariance(fit: Fit) -> Robust:
    """The covariance of theta, robust to the clusters that ``fit.cluster`` names."""
    ways = clusters_of(fit.data, fit.cluster)
    votes = [_votes(fit, way) for way in ways]
    told = tuple(Way(way.name, way.n, kish(of)) for way, of in zip(ways, votes, strict=True))
    if len(fit.items) > LARGEST_COVARIANCE:
        return _variances(fit, ways, told)
    if not ways:
        return unclustered(fit)
    own, push = own_covariance(fit), fit.moments.push
    more = np.sum(
        [
            of_large(fit, way, own, float(of.sum()), way.n, of)
            for way, of in zip(ways, votes, strict=True)
        ],
        axis=0,
    )
    return sandwich(fit, own, sum_of_products(fit, ways, push), told, more)


def of_large(
    fit: Fit, way: Clusters, own: Floats, votes: float, n: int, by_cluster: Floats | None = None
) -> Floats:
    """What the scores of large clusters lack, in units of the model's own covariance.

    ``votes`` and ``n`` are those of all clusters, of which the fit may have a part.
    """
    large = np.flatnonzero((_votes(fit, way) if by_cluster is None else by_cluster) > LARGE * votes)
    size, k = len(own), len(fit.items)
    if not large.size or size > MOST_DIRECTIONS:
        return np.zeros((size, size))
    start, winner, loser, push = _rows_of(fit, way, fit.moments.push)
    told = _rows_of(fit, way, _information(fit))[3]
    half, out = _root(own), np.zeros((size, size))
    for c in large.tolist():
        rows = slice(start[c], start[c + 1])
        won, lost = winner[rows], loser[rows]
        score, part = np.zeros(size), np.zeros((size, size))
        for camp in range(len(push)):
            mine = slice(camp * k, (camp + 1) * k)
            score[mine] = np.bincount(won, push[camp, rows], k)
            score[mine] -= np.bincount(lost, push[camp, rows], k)
            pair = np.bincount(won.astype(np.int64) * k + lost, told[camp, rows], k * k)
            both = pair.reshape(k, k) + pair.reshape(k, k).T
            part[mine, mine] = np.diag(both.sum(axis=1)) - both
        roots, axes = np.linalg.eigh(half.T @ part @ half)
        along = axes.T @ (half.T @ score)
        more = along / np.sqrt(1.0 - np.clip(roots, 0.0, MOST_PART))
        # It takes the place of c/(c-1), which is the same where all clusters are equal.
        change = np.outer(more, more) - np.outer(along, along) * (n / (n - 1))
        out += axes @ change @ axes.T
    return out


def _information(fit: Fit) -> Floats:
    """What each triple is expected to tell about its difference, by camp."""
    t, member = fit.wins, fit.membership
    quality = fit.quality if fit.rated else np.ones(t.n_raters)
    q = np.repeat(np.clip(quality, -1.0, 1.0), np.diff(t.start))
    out = np.empty((len(fit.camp_theta), t.size))
    for c, theta in enumerate(fit.camp_theta):
        s = 0.5 * np.tanh(0.5 * (theta[t.winner] - theta[t.loser]))
        slope = q * (0.25 - s * s)
        belongs = member[:, c] if len(member) == t.n_raters else np.ones(t.n_raters)
        belongs = np.repeat(belongs, np.diff(t.start))
        out[c] = t.weight * belongs * slope**2 / np.maximum(0.25 - (q * s) ** 2, 1e-12)
    return out


def _variances(fit: Fit, ways: list[Clusters], told: tuple[Way, ...]) -> Robust:
    """Of very many items: each one's variance, and one factor for the clusters."""
    density = fit.theta_density()
    if density is None:
        raise UnsupportedError(
            f"{fit.model} has no intervals of more than {LARGEST_COVARIANCE:,} items; "
            "fit model='bbq'"
        )
    k, rng = len(fit.items), np.random.default_rng(0)
    top = density.at(fit.top, fit.quality if fit.rated else np.ones(1))
    diagonal = np.zeros(k)
    for _ in range(DIRECTIONS):
        z = rng.choice((-1.0, 1.0), k)
        diagonal += z * _solved(density, top, z - z.mean()) / DIRECTIONS
    # No variance is below that of an item whose neighbours are known.
    least = 1.0 / (density.passes.pair_diagonal(top) + top.prior_curve)
    own = np.maximum(diagonal, least)
    factor, freedom = 1.0, inf
    if ways:
        # What the model expects: all directions but those that the prior alone tells of.
        expected = max(k - 1.0 - float(own @ top.prior_curve), 1.0)
        rank = k - 1
        factor = max(1.0, _trace(fit, ways, density, top, rng) / expected)
        freedom = (min(way.effective for way in told) - 1.0) * rank
        factor *= t_factor(freedom)
    variances = own * factor
    if fit.population is not None:
        slope = fit.population.slope - fit.population.slope.mean(axis=0)
        variances = variances + np.einsum("ip,pq,iq->i", slope, fit.population.covariance, slope)
    told_of = (
        f"of more than {LARGEST_COVARIANCE:,} items there is no covariance: variances come from "
        f"{DIRECTIONS} random directions, one factor for clusters holds for all items, and ranks "
        "take two items as independent"
    )
    remarks = (told_of, *(remarks_on_few(told) if ways else unclustered_remarks(fit)))
    none = np.empty((0, 0))
    return Robust(none, none, none, told, freedom, sqrt(factor), remarks, variances)


def _solved(density: Objective, top: Height, column: Floats) -> Floats:
    """V times a column, relative to the mean item."""
    alone = replace(top, gradient=column)
    found = conjugate_gradients(density, alone, flat=False, relative=SOLVED).change
    if found is None:
        raise ConvergenceError(
            "the intervals of these data could not be computed; fit more of them"
        )
    return np.asarray(found - found.mean())


def _trace(
    fit: Fit, ways: list[Clusters], density: Objective, top: Height, rng: np.random.Generator
) -> float:
    """Of V times the sum of the clusters' score products, as `sum_of_products` has it."""
    signed = [(1.0, way) for way in ways]
    if len(ways) > 1:
        signed.append((-1.0, _intersections(*ways)))
    total = 0.0
    for sign, way in signed:
        start, winner, loser, push = _rows_of(fit, way, fit.moments.push)
        for _ in range(DIRECTIONS // 4):
            flips = np.repeat(rng.choice((-1.0, 1.0), way.n), np.diff(start)) * push[0]
            k = len(fit.items)
            u = np.asarray(
                np.bincount(winner, flips, k) - np.bincount(loser, flips, k), dtype=np.float64
            )
            part = float(u @ _solved(density, top, u)) / (DIRECTIONS // 4)
            total += sign * part * way.n / (way.n - 1)
    return total


def unclustered(fit: Fit) -> Robust:
    """The model's own covariance, and why it is this one."""
    own = own_covariance(fit)
    return Robust(fit.laplace.covariance, own, own, remarks=unclustered_remarks(fit))


def raters_of(fit: Fit) -> Clusters:
    """The raters as clusters."""
    return Clusters(RATER, fit.data.rater)


def rater_clusters(fit: Fit) -> tuple[Floats, int, float, float]:
    """The sum of the raters' score products; how many raters, their votes, and votes squared."""
    way = raters_of(fit)
    votes = _votes(fit, way, fit.data.n_raters)
    inner = _score_products(fit, way, fit.moments.push)
    return inner, fit.data.n_raters, float(votes.sum()), float(votes @ votes)


def sandwich(
    fit: Fit, own: Floats, inner: Floats, told: tuple[Way, ...], more: Floats | None = None
) -> Robust:
    """The robust covariance from the sum of the clusters' score products.

    ``more`` is added to it, in units of the model's own: what large clusters lack.
    """
    effective = min(way.effective for way in told)
    rank = len(fit.camp_theta) * (len(fit.items) - 1)
    stacked, freedom = shrunk(own, inner, effective, rank, more)
    covariance = _of_theta(fit, stacked, t_factor(freedom))
    wider = sqrt(mean_gap(covariance) / max(mean_gap(_of_theta(fit, own, 1.0)), 1e-300))
    if fit.population is not None:
        slope = _mean_of_camps(fit) @ fit.population.slope
        covariance = covariance + slope @ fit.population.covariance @ slope.T
    return Robust(covariance, stacked, own, told, freedom, wider, remarks_on_few(told))


def _mean_of_camps(fit: Fit) -> Floats:
    """What theta is of all camps' theta one after the other."""
    return np.asarray(np.kron(fit.camp_sizes[None, :], np.eye(len(fit.items))), np.float64)


def _of_theta(fit: Fit, stacked: Floats, factor: float) -> Floats:
    """The covariance of theta, from that of all camps; which camp a rater is of is chance too."""
    theta, share = fit.camp_theta, fit.camp_sizes
    if len(theta) == 1:
        return stacked
    mean = _mean_of_camps(fit)
    drawn = (np.diag(share) - np.outer(share, share)) / fit.data.n_raters
    return np.asarray(mean @ stacked @ mean.T + factor * theta.T @ drawn @ theta)


def own_covariance(fit: Fit) -> Floats:
    """The model's covariance of all camps' theta, the priors taken as known."""
    if fit.division is not None:
        return inverse(fit.division.curvature)
    if fit.population is None:
        return fit.laplace.covariance
    slope = fit.population.slope
    return np.asarray(fit.laplace.covariance - slope @ fit.population.covariance @ slope.T)


def unclustered_remarks(fit: Fit) -> tuple[str, ...]:
    """Why no cluster is allowed for."""
    if fit.cluster == ("none",):
        return ()
    why = "no rater is known" if not fit.data.has_raters else "there is one rater"
    own = "the intervals are the model's own, which take all answers as independent"
    return (f"{why}, and no tag names prompts or scenes: {own}",)


def remarks_on_few(ways: tuple[Way, ...]) -> tuple[str, ...]:
    """What to say of few clusters."""
    return tuple(
        f"there are only {way.n} clusters ({plural(way.name)}): intervals that allow for them are "
        "themselves uncertain, and are made wider for it"
        for way in ways
        if way.n < FEW_CLUSTERS
    )


def plural(name: str) -> str:
    """How a way of clustering is called where its clusters are counted."""
    return "raters" if name == RATER else f"values of {name}"


def _votes(fit: Fit, way: Clusters, n: int | None = None) -> Floats:
    """The votes of each cluster, some rows at a time: NumPy copies 32-bit codes."""
    votes = np.zeros(way.n if n is None else n)
    for first in range(0, way.code.size, ROWS_COUNTED):
        rows = slice(first, first + ROWS_COUNTED)
        votes += np.bincount(way.code[rows], fit.data.weight[rows], votes.size)
    return votes


def kish(votes: Floats) -> float:
    """The effective number of clusters: that of equal ones with the same variance of a mean."""
    return float(votes.sum() ** 2 / max(float(votes @ votes), 1e-300))


def mean_gap(covariance: Floats) -> float:
    """The mean variance of a difference of two items, but for a factor."""
    return float(np.trace(covariance) - covariance.sum() / len(covariance))


def sum_of_products(fit: Fit, ways: list[Clusters], push: Floats) -> Floats:
    """sum_c g_c g_c' over the clusters, with c/(c-1); of two ways as Cameron et al. (2011)."""
    if len(ways) == 1:
        return _products(fit, ways[0], push)
    first, second = ways
    apart: Floats = _products(fit, first, push) + _products(fit, second, push)
    return apart - _products(fit, _intersections(first, second), push)


def _intersections(first: Clusters, second: Clusters) -> Clusters:
    both = first.code.astype(np.int64) * second.n + second.code
    _, code = np.unique(both, return_inverse=True)
    return Clusters("both", code.astype(np.int64).ravel())


def _products(fit: Fit, way: Clusters, push: Floats) -> Floats:
    return np.asarray(_score_products(fit, way, push) * (way.n / (way.n - 1)))


def _rows_of(fit: Fit, way: Clusters, push: Floats) -> tuple[Codes, Places, Places, Floats]:
    """Where each cluster's rows start, their winners and losers, and their scores by camp."""
    t, data = fit.wins, fit.data
    if way.name == RATER and RATER not in data.tags:
        return t.start, t.winner, t.loser, push
    order = np.argsort(way.code, kind="stable")
    if fit.ties == "model" and data.answers is not None and data.answers.half is not None:
        order = order[data.answers.half[order] == 0]
    counts = np.bincount(way.code[order], minlength=way.n)
    start: Codes = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    winner, loser = data.winner[order], data.loser[order]
    at = triple_of(t, data.rater[order], winner, loser)
    push = np.ascontiguousarray(push[:, at] * (data.weight[order] / t.weight[at]))
    return start, winner, loser, push


def _score_products(fit: Fit, way: Clusters, push: Floats) -> Floats:
    return summed_products(*_rows_of(fit, way, push), fit.wins.n_items)


def summed_products(start: Codes, winner: Any, loser: Any, push: Floats, k: int) -> Floats:
    """sum_c g_c g_c' of the clusters start[c]:start[c + 1]; ``push`` has a row for each camp."""
    size = len(push) * k
    # Where a cluster has seen a good part of the items, whole rows are multiplied faster.
    dense = size <= MOST_DIRECTIONS and start[-1] > (start.size - 1) * k * DENSE

    def work(first: int, last: int) -> Floats:
        out = np.zeros((size, size))
        if not dense:
            kernels.score_products(first, last, start, winner, loser, push, k, out)
            return out
        for one in range(first, last, ROWS_AT_ONCE):
            end = min(one + ROWS_AT_ONCE, last)
            at = slice(start[one], start[end])
            row = np.repeat(np.arange(end - one) * size, np.diff(start[one : end + 1]))
            some = np.zeros((end - one) * size)
            for camp, pushes in enumerate(push):
                won, lost = (row + camp * k + side[at] for side in (winner, loser))
                some += np.bincount(won, pushes[at], some.size)
                some -= np.bincount(lost, pushes[at], some.size)
            whole = some.reshape(-1, size)
            out += whole.T @ whole
        return np.tril(out)

    # Each piece has a matrix of its own: of many items one is enough.
    chunks = even_chunks(start) if size <= MOST_DIRECTIONS else [(0, start.size - 1)]
    half, *others = run_chunks(work, chunks)
    for other in others:
        half += other
    full = half + half.T
    full[np.diag_indices(size)] *= 0.5
    return np.asarray(full)


def shrunk(
    own: Floats, inner: Floats, effective: float, rank: int, more: Floats | None = None
) -> tuple[Floats, float]:
    """The sandwich own inner own, steadied for few clusters, and its degrees of freedom."""
    if len(own) > MOST_DIRECTIONS:
        level = max(1.0, float(np.sum(own * inner)) / max(rank, 1))
        freedom = (effective - 1.0) * rank
        return own * (level * t_factor(freedom)), freedom
    half = _root(own)
    s = half.T @ inner @ half
    if more is not None:
        s = s + more
    total, squares = float(np.trace(s)), float(np.sum(s * s))
    level = max(1.0, total / max(rank, 1))
    intensity = shrinkage(total, squares, rank, effective)
    roots, axes = np.linalg.eigh((1.0 - intensity) * s + intensity * level * np.eye(len(s)))
    basis = half @ axes
    low, high = max(effective - 1.0, 1.0), max((effective - 1.0) * rank, 1.0)
    freedom = 1.0 / ((1.0 - intensity) / low + intensity / high)
    return (basis * (np.maximum(roots, 1.0) * t_factor(freedom))) @ basis.T, freedom


def shrinkage(total: float, squares: float, p: int, n: float) -> float:
    """How far to shrink a sample covariance of ``n`` draws in ``p`` dimensions (Chen et al. 2010).

    ``total`` is its trace and ``squares`` that of its square.
    """
    if p < 2:
        return 0.0
    spread = (n + 1.0 - 2.0 / p) * (squares - total**2 / p)
    if spread <= 0.0:
        return 1.0
    return min(1.0, ((1.0 - 2.0 / p) * squares + total**2) / spread)


def _root(covariance: Floats) -> Floats:
    """L with L L' = covariance; without a prior on the items one direction has no variance."""
    try:
        return np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    except np.linalg.LinAlgError:
        roots, axes = np.linalg.eigh(covariance)
        return np.asarray(axes * np.sqrt(np.maximum(roots, 0.0)), dtype=np.float64)


def t_factor(freedom: float) -> float:
    """(t / z)^2 of the 97.5% quantiles of Student's and the normal distribution."""
    return (t_quantile(freedom) / NormalDist().inv_cdf(_LEVEL)) ** 2


_AT, _BY = np.polynomial.legendre.leggauss(64)


def t_quantile(freedom: float, level: float = _LEVEL) -> float:
    """The quantile of Student's distribution, by bisection.

    P(0 < T < x) = Gamma((f+1)/2) / (Gamma(f/2) sqrt(pi)) int_0^atan(x/sqrt f) cos^(f-1).
    """
    if freedom > 1e4 or freedom == inf:
        return NormalDist().inv_cdf(level)
    f = max(freedom, 1.0)
    if f < 100:
        scale = gamma((f + 1) / 2) / gamma(f / 2) / sqrt(pi)
    else:
        scale = float(np.exp(lgamma((f + 1) / 2) - lgamma(f / 2))) / sqrt(pi)

    def inside(x: float) -> float:
        end = atan(x / sqrt(f))
        return scale * 0.5 * end * float(_BY @ np.cos(0.5 * end * (_AT + 1.0)) ** (f - 1.0))

    low, high = 0.0, 20.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if inside(middle) < level - 0.5 else (low, middle)
    return 0.5 * (low + high)
