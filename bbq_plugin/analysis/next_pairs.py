"""What to compare next, for the whole ranking, for the best item or for the best k.

``ranking``  the answer with the most expected information on the orders of all pairs
``best``     top-two Thompson sampling: two items of which either may be the best
``top-k``    the same for the best k: an item that may belong to them and one that may not

A batch is chosen one answer after the other, each time with the covariance that the answers before
it are expected to leave, and no rater is asked the same twice.

The ranking that the answers are to decide is that of one camp, its theta, or, of a panel with
several camps, the panel's preference: the single ranking with the same win shares, for raters of
the panel's mean quality Q,

    1/2 + Q mean over j of (sigma(t_i - t_j) - 1/2) = win_share_i    for every item i

There is exactly one such t (Zermelo 1929: these are the equations of a Bradley-Terry maximum
likelihood). Its covariance follows from that of the win shares: with J = d win_share / d t it is
J^-1 C J^-1, so that it allows for who is in which camp, and how many.

The maths. Under the Laplace posterior the gap d = theta_i - theta_j is N(m, v). A rater of quality
q answers "i" with probability p(d) = 1/2 + q (sigma(d) - 1/2), so one answer adds the Fisher
information

    k = E[p'(d)^2 / (p (1 - p))]

to the precision of d, and the covariance S of all items becomes S - c c' k / (1 + k v) with
c = S (e_i - e_j). (q may be unknown: p is linear in q, so its posterior mean is all that counts.)

What that is worth for the whole ranking. With z = m / sqrt(v), the order of a pair (a, b) is known
up to H(Phi(z)) bits. A reduction of v_ab by a small amount r is expected to tell about it

    g_ab r,     g_ab = phi(z)^2 / (2 ln 2 Phi(z) Phi(-z) v_ab)

(half the curvature of H, times the variance that Phi(z) is about to gain). The sum over all pairs
is a quadratic form of c with the Laplacian matrix G of the weights g, so that the expected
information of one answer on i and j, in bits on the orders of all pairs, is

    k / (1 + k v) (M_ii + M_jj - 2 M_ij),     M = S G S

for every pair at once. G is that of the posterior at hand throughout a batch; S and M follow each
choice by an update of low rank.

What more answers on given pairs are expected to change: n answers of typical raters on the items i
and j add n k to the precision of their gap. Before they are given, the means of all items will move
by c s along c = S (e_i - e_j), with

    s ~ N(0, h),    h = n k / (1 + n k v),

and the covariance becomes S - h c c'. So whether the leader changes, or a pair of items becomes
decided or open again, depends on one number s: each of these is an interval of s, and the chance
that anything changes is what the Gaussian has outside of their intersection.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import cycle, islice
from math import sqrt
from statistics import NormalDist
from typing import Any, Literal, get_args

import numpy as np

from bbq_plugin.analysis.leaderboard import Leaderboard, Row, Rows, checked_camp
from bbq_plugin.analysis.raters import judging_fit, rater_report
from bbq_plugin.analysis.uncertainty import camp_covariance, eigen
from bbq_plugin.data.records import PlanWorth
from bbq_plugin.data.triples import Codes, Floats, Mask
from bbq_plugin.errors import UsageError, did_you_mean
from bbq_plugin.model import Fit, Priors
from bbq_plugin.model.win_share import share_slope, standing, win_shares

STEPS, SMALL, LONGEST = 100, 1e-10, 1.0


@dataclass(frozen=True, slots=True, eq=False)
class PanelRanking:
    """A ranking and its covariance, and whose answers are to come.

    ``counted`` is how much each rater counts (None: once), ``quality`` the mean quality of their
    answers so far, and ``informative`` that of the same mean information, which grows like its
    square.
    """

    mean: Floats
    covariance: Floats
    counted: Floats | None
    quality: float
    informative: float


def panel_ranking(fit: Fit, camp: int | None = None) -> PanelRanking:
    """What the next answers are to decide; ``camp`` (from 1): for that camp alone."""
    counted, mine = None, slice(None)
    if camp is not None and checked_camp(fit, camp) >= 0 and fit.division is not None:
        counted, mine = fit.membership[:, camp - 1], slice(camp - 1, camp)
    quality, informative = 1.0, 1.0
    if fit.rated:
        votes = float(fit.panel.votes[mine].sum())
        quality = float(np.clip(fit.panel.votes_quality[mine].sum() / votes, 0.0, 1.0))
        informative = float(np.sqrt(fit.panel.votes_told[mine].sum() / votes))
    if fit.division is None:
        mean, covariance = fit.laplace.mean, fit.covariance()
    elif camp is not None:
        mean = fit.camp_theta[camp - 1]
        covariance = camp_covariance(fit, fit.robust.stacked, camp - 1)
    else:
        mean, covariance = _of_the_panel(fit)
    return PanelRanking(mean, covariance, counted, quality, informative)


def _of_the_panel(fit: Fit) -> tuple[Floats, Floats]:
    shares = win_shares(fit, 0.95)
    level = float(fit.panel.quality.sum()) / fit.panel.n
    wanted, mean = (shares.share - 0.5) / level, fit.theta - fit.theta.mean()
    for _ in range(STEPS):
        step = np.linalg.pinv(share_slope(mean), hermitian=True) @ (wanted - standing(mean))
        longest = float(np.max(np.abs(step)))
        mean = mean + step * min(1.0, LONGEST / max(longest, 1e-300))
        if longest < SMALL:
            break
    back = np.linalg.pinv(level * share_slope(mean), hermitian=True)
    if shares.covariance is None:
        raise ValueError("the win shares of several camps have a covariance")
    return mean, np.asarray(back @ shares.covariance @ back)


Goal = Literal["ranking", "best", "top-k"]

# Below, an answer gives so little information that the choice of its pair would be one of rounding.
LEAST_QUALITY = 0.01
# Gauss-Hermite nodes for expectations over a gap; k comes out to three digits and better.
_NODES, _SHARES = np.polynomial.hermite_e.hermegauss(15)
_SHARES = _SHARES / _SHARES.sum()
LEAST_VARIANCE = 1e-12
# Pairs that are looked at for each choice: of very many, those that promise most at the beginning.
MOST_CANDIDATES = 1 << 14
_BLOCK = 1 << 16
# Draws of the posterior that stand for it in Thompson sampling.
DRAWS = 256
_TRIES = 20


@dataclass(frozen=True, slots=True)
class PairRow(Row):
    """Two items to compare; ``item_a`` is the one that is ahead now.

    ``left`` and ``right`` are the same two as they should be shown, and ``rater`` is whom to ask,
    None if anyone. ``information_bits`` is what the answer is expected to tell about the orders of
    all pairs beyond the answers before it in the list; ``n`` is how often (by weight) the two were
    compared so far.
    """

    item_a: str
    item_b: str
    p_a_better: float
    information_bits: float
    n: float
    left: str
    right: str
    rater: str | None


class NextPairs(Rows[PairRow]):
    """Pairs in the order in which to ask. ``quality`` is a typical rater's, as assumed here."""

    def __init__(
        self, rows: list[PairRow], quality: float, warnings: tuple[str, ...] = (), *,
        goal: Goal = "ranking", top_k: int | None = None, camp: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(rows)
        self.quality, self.warnings, self.goal, self.top_k = quality, warnings, goal, top_k
        #: Whose ranking they are for, from 1; None: the panel's.
        self.camp = camp

    def __repr__(self) -> str:
        goal = self.goal if self.top_k is None else f"the best {self.top_k}"
        return f"<NextPairs: {len(self)} for {goal}, raters of quality {self.quality:.2f}>"


@dataclass(frozen=True, slots=True)
class _Slot:
    """Who gives one answer."""

    rater: str | None
    quality: float


def next_pairs(
    fit: Fit,
    n: int = 50,
    *,
    goal: Goal = "ranking",
    top_k: int | None = None,
    among: Sequence[str] | None = None,
    raters: Sequence[str] | None = None,
    exclude: Collection[str] | None = None,
    camp: int | None = None,
    seed: int = 0,
) -> NextPairs:
    """The ``n`` comparisons to ask for next.

    ``among`` limits them to some of the items, and the goal to these. Without ``raters`` every
    pair comes at most once, for a typical rater. With ``raters``, those who are
    available, each row names one of them: the best first, all equally often but for one, none
    the same pair twice. Never named are those in ``exclude``; by default, whom `rater_report`
    excludes (of a bbq fit of the same data, where the model gives no verdicts). Sides are balanced
    for each item, with what is known of the past.

    Of a panel that is divided into camps the goal is the panel's preference, or with ``camp``
    (from 1) the ranking of that camp: then only its raters, and new ones, are named.
    """
    chosen = _codes(fit.items, among)
    _check(n, goal, top_k, chosen.size, seed)
    rng = np.random.default_rng(seed)
    target = panel_ranking(fit, camp)
    quality = target.quality
    slots, warnings = _slots(fit, n, raters, exclude, target, camp)
    n_pairs = chosen.size * (chosen.size - 1) // 2
    n_able = n_pairs * (1 if raters is None else len({slot.rater for slot in slots}))
    if n > n_able:
        who = "" if raters is None else f" for {n_able // n_pairs} raters"
        warnings.append(f"there are only {n_pairs} pairs of {chosen.size} items{who}, all listed")
    if quality == 0:
        warnings.append("the raters answer like coins on average: no comparison gives information")
    mean = target.mean[chosen]
    covariance = target.covariance[np.ix_(chosen, chosen)]
    design = Design(mean, covariance, max(quality, LEAST_QUALITY))
    batch = PairBatch(design, goal, rng, top_k)
    asked: dict[str | None, set[tuple[int, int]]] = {}
    picked = [
        (*batch.pick(slot.quality, asked.setdefault(slot.rater, set())), slot.rater)
        for slot in slots[:n_able]
    ]
    rows = _rows(fit, target.mean, chosen, covariance, picked, rng)
    return NextPairs(rows, quality, tuple(warnings), goal=goal, top_k=top_k, camp=camp)


def prediction_scores(pairs: NextPairs, tasks: Iterable[tuple[str, str]]) -> list[float]:
    """A score for each task of a labelling project, by the two items it shows in either order.

    Label Studio serves the lowest prediction score first: the first pair of the list gets the
    lowest, and tasks that are not in the list get 1.
    """
    place: dict[frozenset[str], int] = {}
    for row in pairs:
        place.setdefault(frozenset((row.item_a, row.item_b)), len(place))
    return [place.get(frozenset(task), len(place)) / max(1, len(place)) for task in tasks]


def information_of(fit: Fit) -> Callable[[Sequence[str]], float | None]:
    """Expected information of an answer on some items, in bits; of several, the best pair."""
    code = {name: i for i, name in enumerate(fit.items)}
    target = panel_ranking(fit)
    quality = max(target.quality, LEAST_QUALITY)
    design = Design(target.mean, target.covariance, quality)
    pairs = zip(design.first.tolist(), design.second.tolist(), strict=True)
    known: dict[Any, float] = dict(zip(pairs, design.gain(quality).tolist(), strict=True))

    def of(items: Sequence[str]) -> float | None:
        codes = sorted({code[name] for name in items if name in code})
        if len(codes) < len(set(items)) or len(codes) < 2:
            return None
        # Of very many pairs only the best are computed.
        return max(known.get((i, j), 0.0) for n, i in enumerate(codes) for j in codes[n + 1 :])

    return of


class PairBatch:
    """Answers chosen one after the other for a goal."""

    def __init__(
        self, design: Design, goal: Goal, rng: np.random.Generator, top_k: int | None = None
    ) -> None:
        border = {"ranking": None, "best": 1, "top-k": top_k}[goal]
        self.design = design
        self.contenders = None if border is None else Contenders(design, border, rng)

    def pick(
        self, quality: float, asked: set[tuple[int, int]] | None = None
    ) -> tuple[int, int, float]:
        """The next pair for a rater of this quality, and the bits that the answer adds.

        It is none of those in ``asked``, and is put there; without it a pair may come again.
        """

        def allowed(i: int, j: int) -> bool:
            return asked is None or (min(i, j), max(i, j)) not in asked

        if self.contenders is not None:
            i, j = self.contenders.pick(allowed)
        else:
            i, j = self._most_informative(quality, allowed)
        if asked is not None:
            asked.add((min(i, j), max(i, j)))
        bits, column, told = self.design.take(i, j, quality)
        if self.contenders is not None:
            self.contenders.take(column, told, i, j)
        return i, j, bits

    def _most_informative(
        self, quality: float, allowed: Callable[[int, int], bool]
    ) -> tuple[int, int]:
        design = self.design
        for place in np.argsort(-design.gain(quality), kind="stable"):
            i, j = int(design.first[place]), int(design.second[place])
            if allowed(i, j):
                return i, j
        # Of very many pairs only the most promising were candidates: take whatever is left.
        n = design.mean.size
        return next((i, j) for i in range(n) for j in range(i + 1, n) if allowed(i, j))


def _check(n: int, goal: str, top_k: int | None, n_items: int, seed: int) -> None:
    if n < 1:
        raise UsageError(f"n={n}: ask for at least one pair")
    if n_items < 2:
        raise UsageError("a pair takes two items; name at least two different ones")
    if goal not in get_args(Goal):
        raise UsageError(f"goal={goal!r}: expected one of {', '.join(get_args(Goal))}")
    if (top_k is None) is (goal == "top-k"):
        remedy = "leave top_k out" if top_k is not None else "say how many, such as top_k=3"
        raise UsageError(f"goal={goal!r} with top_k={top_k}: only 'top-k' takes it; {remedy}")
    if top_k is not None and not 1 <= top_k < n_items:
        raise UsageError(
            f"top_k={top_k} of {n_items} items: expected from 1 to {n_items - 1}, "
            "since all items are always the best of all"
        )
    if seed < 0:
        raise UsageError(f"seed={seed}: expected 0 or more")


def _slots(
    fit: Fit, n: int, raters: Sequence[str] | None, exclude: Collection[str] | None,
    target: PanelRanking, camp: int | None,
) -> tuple[list[_Slot], list[str]]:  # fmt: skip
    """Who gives each of the ``n`` answers, the best raters first, and what there is to warn of."""
    quality = target.quality
    if raters is None:
        return [_Slot(None, max(quality, LEAST_QUALITY))] * n, []
    if isinstance(raters, str):
        raise UsageError(f"raters={raters!r}: give a list of names")
    names = list(dict.fromkeys(raters))
    warnings = []
    if exclude is None:
        judge = judging_fit(fit)
        exclude = rater_report(judge).excluded
        if judge is not fit:
            warnings.append(judged_elsewhere(fit))
    left = [name for name in names if name not in exclude]
    if not left:
        raise UsageError(
            f"none of the {len(names)} raters named is left to ask: all are excluded; name others"
        )
    if len(left) < len(names):
        out = ", ".join(name for name in names if name in exclude)
        warnings.append(f"not asked, because their answers do not count: {out}")
    if camp is not None and fit.division is not None:
        belongs = dict(zip(fit.raters, fit.membership.argmax(axis=1).tolist(), strict=True))
        others = [name for name in left if belongs.get(name, camp - 1) != camp - 1]
        left = [name for name in left if name not in set(others)]
        if not left:
            raise UsageError(f"none of the raters named is of camp {camp}; name others")
        if others:
            some = ", ".join(others[:5]) + (" …" if len(others) > 5 else "")
            warnings.append(f"not asked, because they are of another camp: {some}")
    known = dict(zip(fit.raters, np.abs(fit.quality), strict=True)) if fit.rated else {}
    new = [name for name in left if name not in fit.raters]
    if new and fit.data.has_raters:
        some = ", ".join(new[:5]) + (" …" if len(new) > 5 else "")
        warnings.append(f"not in the data, taken as typical raters: {some}")
    typical = quality
    if fit.rated and isinstance(fit.priors, Priors):
        # The mean quality of the population that the priors describe.
        typical = float(sum(share * a / (a + b) for share, a, b in fit.priors.components()))
    able = [_Slot(name, max(float(known.get(name, typical)), LEAST_QUALITY)) for name in left]
    able.sort(key=lambda slot: -slot.quality)
    return list(islice(cycle(able), n)), warnings


def judged_elsewhere(fit: Fit) -> str:
    """What to say where raters are not judged by the model that chooses the pairs."""
    return (
        f"{fit.model} gives no verdicts on raters: who is not to be asked was judged by a bbq fit "
        "of the same data"
    )


def _rows(
    fit: Fit, mean: Floats, chosen: Codes, covariance: Floats,
    picked: list[tuple[int, int, float, str | None]], rng: np.random.Generator,
) -> list[PairRow]:  # fmt: skip
    ndtr = _special().ndtr
    met = _met(fit)
    past = fit.data.left_excess
    sides = _Sides(np.zeros(len(fit.items), dtype=np.int64) if past is None else past.copy(), rng)
    rows = []
    for a, b, bits, rater in picked:
        if mean[chosen[a]] < mean[chosen[b]]:
            a, b = b, a  # noqa: PLW2901 (the one ahead comes first)
        i, j = int(chosen[a]), int(chosen[b])
        spread = covariance[a, a] + covariance[b, b] - 2 * covariance[a, b]
        better = float(ndtr((mean[i] - mean[j]) / np.sqrt(max(spread, 1e-300))))
        left, right = sides.of(i, j)
        rows.append(
            PairRow(
                item_a=fit.items[i],
                item_b=fit.items[j],
                p_a_better=better,
                information_bits=bits,
                n=met.get((min(i, j), max(i, j)), 0.0),
                left=fit.items[left],
                right=fit.items[right],
                rater=rater,
            )
        )
    return rows


class _Sides:
    """Left and right: even for each pair in the batch, then for each item, else by a coin."""

    def __init__(self, excess: Codes, rng: np.random.Generator) -> None:
        self.excess, self.rng = excess, rng
        self._planned: dict[tuple[int, int], int] = {}

    def of(self, i: int, j: int) -> tuple[int, int]:
        """Which of the two stands left, and which right."""
        low, high = min(i, j), max(i, j)
        lead = self._planned.get((low, high), 0) or int(self.excess[low] - self.excess[high])
        left_first = self.rng.random() < 0.5 if lead == 0 else lead < 0
        left, right = (low, high) if left_first else (high, low)
        self._planned[low, high] = self._planned.get((low, high), 0) + (1 if left_first else -1)
        self.excess[left] += 1
        self.excess[right] -= 1
        return left, right


def _codes(items: tuple[str, ...], among: Sequence[str] | None) -> Codes:
    if among is None:
        return np.arange(len(items))
    code = {name: i for i, name in enumerate(items)}
    for name in among:
        if name not in code:
            raise UsageError(f"there is no item {name!r} in these data{did_you_mean(name, items)}")
    return np.unique(np.array([code[name] for name in among], dtype=np.intp))


def _met(fit: Fit) -> dict[tuple[int, int], float]:
    """Weighted number of comparisons of each pair of items that met."""
    t = fit.data.pooled
    low, high = np.minimum(t.winner, t.loser), np.maximum(t.winner, t.loser)
    pair, place = np.unique(low.astype(np.int64) * t.n_items + high, return_inverse=True)
    n = np.bincount(place, t.weight).tolist()
    return {divmod(p, t.n_items): w for p, w in zip(pair.tolist(), n, strict=True)}


# -- the expected information of an answer, on arrays


def _special() -> Any:
    """scipy.special, which loads slowly and which only these questions need."""
    return import_module("scipy.special")


def fisher(mean: Floats, variance: Floats, quality: float) -> Floats:
    """E[p'(d)^2 / (p (1 - p))] for d ~ N(mean, variance), elementwise."""
    mean, variance = np.asarray(mean), np.asarray(variance)
    told, flat = np.empty(mean.size), mean.reshape(-1)
    sd = np.sqrt(np.maximum(variance, 0.0)).reshape(-1)
    for begin in range(0, flat.size, _BLOCK):
        part = slice(begin, begin + _BLOCK)
        s = 0.5 * np.tanh(0.5 * (flat[part, None] + sd[part, None] * _NODES))
        # With s = sigma(d) - 1/2: sigma' = 1/4 - s^2 and p (1 - p) = 1/4 - (q s)^2.
        slope = quality * (0.25 - s * s)
        told[part] = (slope * slope / np.maximum(0.25 - (quality * s) ** 2, 1e-300)) @ _SHARES
    return told.reshape(mean.shape)


def order_weight(mean: Floats, variance: Floats) -> Floats:
    """g: bits on the order of a pair for each unit by which the variance of its gap falls."""
    ndtr = _special().ndtr
    z = np.abs(mean) / np.sqrt(variance)
    # Far out phi(z) / Phi(-z) grows like z while both vanish: beyond, nothing is left to tell.
    z = np.minimum(z, 30.0)
    density = np.exp(-0.5 * z * z) / sqrt(2 * np.pi)
    weight: Floats = density**2 / (2 * np.log(2) * ndtr(z) * ndtr(-z) * variance)
    return weight


def gap_variance(covariance: Floats) -> Floats:
    """The variance of every difference."""
    own = np.diag(covariance)
    return np.maximum(own[:, None] + own[None, :] - 2 * covariance, LEAST_VARIANCE)


class Design:
    """What is left to know while a batch grows: the covariance, and the worth of every pair."""

    def __init__(self, mean: Floats, covariance: Floats, quality: float) -> None:
        self.mean, self.covariance = mean, covariance.copy()
        self._weights = -order_weight(mean[:, None] - mean[None, :], gap_variance(covariance))
        np.fill_diagonal(self._weights, 0.0)
        np.fill_diagonal(self._weights, -self._weights.sum(axis=1))
        self._worth = self.covariance @ self._weights @ self.covariance
        first, second = np.triu_indices(mean.size, 1)
        self.first, self.second = first.astype(np.int64), second.astype(np.int64)
        self._told: dict[float, Floats] = {}
        if self.first.size > MOST_CANDIDATES:
            gain = self.gain(quality)
            kept = np.sort(np.argpartition(gain, -MOST_CANDIDATES)[-MOST_CANDIDATES:])
            self.first, self.second = self.first[kept], self.second[kept]
            self._told = {}

    def variance(self, i: Any, j: Any) -> Any:
        """Of the gap of two items."""
        s = self.covariance
        return np.maximum(s[i, i] + s[j, j] - 2 * s[i, j], LEAST_VARIANCE)

    def gain(self, quality: float) -> Floats:
        """Bits of one answer on each candidate pair, by a rater of this quality."""
        i, j = self.first, self.second
        v = self.variance(i, j)
        if quality not in self._told:
            # As at the beginning of the batch, which is when the answers are drawn.
            self._told[quality] = fisher(self.mean[i] - self.mean[j], v, quality)
        k = self._told[quality]
        m = self._worth
        gain: Floats = k / (1 + k * v) * (m[i, i] + m[j, j] - 2 * m[i, j])
        return np.maximum(gain, 0.0)

    def take(self, i: int, j: int, quality: float) -> tuple[float, Floats, float]:
        """Count on one answer: its bits, the column S (e_i - e_j), and k."""
        v = float(self.variance(i, j))
        k = float(fisher(self.mean[i] - self.mean[j], np.asarray(v), quality))
        column = self.covariance[:, i] - self.covariance[:, j]
        weighted = self._weights @ column
        other = self.covariance @ weighted
        share = k / (1 + k * v)
        bits = share * float(column @ weighted)
        # S G S with S - share c c' in the place of S
        self._worth -= share * (np.outer(column, other) + np.outer(other, column))
        self._worth += share * bits * np.outer(column, column)
        self.covariance -= share * np.outer(column, column)
        return bits, column, k


class Contenders:
    """Top-two Thompson sampling for the best ``top_k`` items.

    Two draws of the posterior that disagree about who the best ``top_k`` are name an item that only
    the first has among them and one that only the second has: these two are compared. For one
    item this is top-two Thompson sampling (Russo 2016) with an even chance for either.
    """

    def __init__(self, design: Design, top_k: int, rng: np.random.Generator) -> None:
        self.design, self.top_k, self.rng = design, top_k, rng
        roots, axes = eigen(design.covariance)
        noise = rng.standard_normal((DRAWS, roots.size))
        self._label = rng.standard_normal(roots.size)
        self.draws = design.mean + noise @ (axes * np.sqrt(roots)).T

    def pick(self, allowed: Callable[[int, int], bool]) -> tuple[int, int]:
        """A pair that may still be asked about."""
        inside = self._inside(self.draws)
        label = inside @ self._label  # the same for the same items, and for no others
        for _ in range(_TRIES):
            one = self.rng.integers(DRAWS)
            others = np.flatnonzero(label != label[one])
            if not others.size:
                break
            mine, theirs = inside[one], inside[others[self.rng.integers(others.size)]]
            i, j = self._any(mine & ~theirs), self._any(theirs & ~mine)
            if allowed(i, j):
                return i, j
        return self._closest(allowed)

    def _any(self, chosen: Mask) -> int:
        places = np.flatnonzero(chosen)
        return int(places[self.rng.integers(places.size)])

    def take(self, column: Floats, told: float, i: int, j: int) -> None:
        """Let the draws be of what is left to know after one more answer that changes no mean.

        Matheron's rule: a draw, moved by how far its own noisy observation lies from the expected.
        """
        variance = float(column[i] - column[j])
        if told <= 0:
            return
        seen = self.draws[:, i] - self.draws[:, j]
        seen = seen + self.rng.standard_normal(DRAWS) / sqrt(told)
        expected = float(self.design.mean[i] - self.design.mean[j])
        step = column * (told / (1 + told * variance))
        self.draws += np.outer(expected - seen, step)

    def _inside(self, theta: Floats) -> Mask:
        """Whether each item is among the best, by draw."""
        n, k = theta.shape[1], self.top_k
        best = np.argpartition(theta, n - k, axis=1)[:, n - k :]
        inside = np.zeros(theta.shape, dtype=np.bool_)
        np.put_along_axis(inside, best, values=True, axis=1)
        return inside

    def _closest(self, allowed: Callable[[int, int], bool]) -> tuple[int, int]:
        """The pair across the border that is most in doubt; then any other, by the same measure."""
        mean = self.design.mean
        z = np.abs(mean[:, None] - mean[None, :]) / np.sqrt(gap_variance(self.design.covariance))
        inside = self._inside(mean[None, :])[0]
        first, second = np.triu_indices(mean.size, 1)
        across = inside[first] != inside[second]
        order = np.lexsort((z[first, second], ~across))
        return next(
            (int(i), int(j))
            for i, j in zip(first[order], second[order], strict=True)
            if allowed(int(i), int(j))
        )


# How the future is drawn: means after the answers, as many as take little time (with 64 the
# expected P(best) is off by 2%, with 1,024 by 0.3%), and thetas around each of these.
_FUTURES, _CELLS, _DRAWS = (64, 1024), 200_000, 512
_CLOSE = 1e-12
_PHI = NormalDist().cdf


class AnswerWorth:
    """The worth of answers that are not given yet, by the posterior of a fit."""

    def __init__(self, fit: Fit, board: Leaderboard, seed: int = 0) -> None:
        target = panel_ranking(fit)
        self._quality = max(target.quality, LEAST_QUALITY)
        self._mean, self._covariance = target.mean, target.covariance
        self._code = {name: i for i, name in enumerate(fit.items)}
        self._board, self._seed = board, seed
        self._z = NormalDist().inv_cdf((1 + board.level) / 2)
        self._pairs = np.triu_indices(len(fit.items), 1)

    @cached_property
    def _gain(self) -> tuple[Design, Floats]:
        design = Design(self._mean, self._covariance, self._quality)
        return design, design.gain(self._quality)

    def _pair(self, items: Sequence[str]) -> tuple[int, int] | None:
        """The two items of a task; of several, those on which an answer tells most."""
        codes = sorted({self._code[name] for name in items if name in self._code})
        if len(codes) < len(set(items)) or len(codes) < 2:
            return None
        if len(codes) > 2:
            design, gain = self._gain
            inside = np.isin(design.first, codes) & np.isin(design.second, codes)
            if inside.any():
                at = int(np.argmax(np.where(inside, gain, -1.0)))
                return int(design.first[at]), int(design.second[at])
        return codes[0], codes[1]

    def _told(self, i: int, j: int, variance: float) -> float:
        """h of one answer more, k / (1 + k v)."""
        gap = self._mean[i] - self._mean[j]
        k = float(fisher(gap, np.asarray(variance), self._quality))
        return k / (1 + k * variance)

    def chance(self, items: Sequence[str], n: int) -> float | None:
        """P(n answers on these items change the leader, or decide or open a pair).

        None: one of the items is not known yet.
        """
        pair = self._pair(items)
        if pair is None:
            return None
        i, j = pair
        column = self._covariance[:, i] - self._covariance[:, j]
        v = now = max(float(column[i] - column[j]), LEAST_VARIANCE)
        for _ in range(n):
            now -= self._told(i, j, now) * now * now
        h = (v - now) / (v * v)
        if h <= 0:
            return 0.0
        low, high = self._unchanged(column, h)
        inside = _PHI(high / h**0.5) - _PHI(low / h**0.5) if low < high else 0.0
        return min(1.0, max(0.0, 1.0 - inside))

    def _unchanged(self, column: Floats, h: float) -> tuple[float, float]:
        """The values of s that change nothing."""
        a, b = self._pairs
        gap, along = self._mean[a] - self._mean[b], column[a] - column[b]
        variance = gap_variance(self._covariance)[a, b]
        reach = self._z * np.sqrt(variance)
        after = self._z * np.sqrt(np.maximum(variance - h * along**2, _CLOSE))
        side = np.sign(gap)
        decided = np.abs(gap) >= reach
        # side (gap + along s) >= after where decided, else between -after and after.
        ends = [(side * gap - after, side * along, decided)]
        ends += [(after - sign * gap, -sign * along, ~decided) for sign in (1.0, -1.0)]
        best = int(np.argmax(self._mean))
        ends.append((side * gap, side * along, (a == best) | (b == best)))
        low, high = -np.inf, np.inf
        for level, slope, counts in ends:
            # level + slope s >= 0
            moves = counts & (np.abs(slope) > _CLOSE)
            with np.errstate(divide="ignore"):
                bound = -level[moves] / slope[moves]
            up = slope[moves] > 0
            low = max(low, float(bound[up].max(initial=-np.inf)))
            high = min(high, float(bound[~up].min(initial=np.inf)))
            if (level[counts & ~moves] < -_CLOSE).any():
                return 0.0, 0.0
        return low, high

    def together(self, asked: Iterable[tuple[Sequence[str], int]]) -> PlanWorth:
        """What all of these answers are expected to change; items that are not known count not."""
        after, n = self._covariance.copy(), 0
        for items, some in asked:
            n += some
            pair = self._pair(items)
            for _ in range(0 if pair is None else some):
                i, j = pair or (0, 0)
                column = after[:, i] - after[:, j]
                v = max(float(column[i] - column[j]), LEAST_VARIANCE)
                after -= self._told(i, j, v) * np.outer(column, column)
        return self._bought(n, after)

    def chosen(self, n: int, goal: Goal) -> PlanWorth:
        """What n answers are expected to change on pairs that are chosen one after the other.

        As `next_pairs` chooses them for this goal, but a pair may come again: other raters, or
        other prompts, can be asked about it.
        """
        rng = np.random.default_rng(self._seed)
        batch = PairBatch(Design(self._mean, self._covariance, self._quality), goal, rng)
        for _ in range(n):
            batch.pick(self._quality)
        return self._bought(n, batch.design.covariance)

    def _bought(self, n: int, after: Floats) -> PlanWorth:
        """What n answers change that leave this covariance."""
        a, b = self._pairs
        now, then = gap_variance(self._covariance)[a, b], gap_variance(after)[a, b]
        gap = self._mean[a] - self._mean[b]
        n_open = int(np.count_nonzero(np.abs(gap) < self._z * np.sqrt(now)))
        leader = self._board[0]
        known = float(leader.p_best >= self._board.level)
        gained, decided = self._gained(after, self._code[leader.item]) if n else (0.0, known)
        return PlanWorth(
            n_answers=n,
            leader=leader.item,
            p_best=leader.p_best,
            p_best_expected=float(np.clip(leader.p_best + gained, 0.0, 1.0)),
            p_decided=decided,
            n_pairs=gap.size,
            n_open=n_open,
            n_open_expected=float(_p_open(gap, now, then, self._z).sum()) if n else float(n_open),
        )

    def _gained(self, after: Floats, leader: int) -> tuple[float, float]:
        """E[max over items of P(best)] after the answers, less P(best) of today's leader.

        Then P(this maximum is at least the level).

        The leader's P(best) is the same on average after answers as it is before: what is gained
        is that another item may be ahead by then, and surely so.
        """
        rng = np.random.default_rng(self._seed)
        k = self._mean.size
        n_futures = int(np.clip(_CELLS // k, *_FUTURES))
        future = rng.standard_normal((n_futures, k)) @ _root(self._covariance - after)
        around = rng.standard_normal((_DRAWS, k)) @ _root(after)
        gains, highest = [], []
        for mean in self._mean + future:
            best = np.bincount(np.argmax(mean + around, axis=1), minlength=k) / _DRAWS
            highest.append(best.max())
            gains.append(best.max() - best[leader])
        return float(np.mean(gains)), float(np.mean(np.array(highest) >= self._board.level))


def _p_open(gap: Floats, now: Floats, then: Floats, z: float) -> Floats:
    """P(a pair is open after the answers): its mean moves by N(0, now - then)."""
    from scipy.special import ndtr  # noqa: PLC0415 (loads slowly)

    sd = np.sqrt(np.maximum(now - then, 0.0))
    reach = z * np.sqrt(then)
    moving = sd > 1e-9
    safe: Any = np.where(moving, sd, 1.0)
    inside = ndtr((reach - gap) / safe) - ndtr((-reach - gap) / safe)
    return np.where(moving, inside, (np.abs(gap) < reach).astype(np.float64))


def _root(covariance: Floats) -> Floats:
    roots, axes = eigen(covariance)
    return np.asarray((axes * np.sqrt(roots)).T)
