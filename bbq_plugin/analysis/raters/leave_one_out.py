"""What all others say about the pairs a rater has answered: the consensus without the rater.

A rater's own votes pull the ranking towards them. Judged by a ranking that holds these votes, a
busy guesser agrees with himself; so each rater is judged by theta_(-r). Of this comes each rater's
evidence. At the end: what leaving raters out changes in the leaderboard.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.analysis.leaderboard import to_rating
from bbq_plugin.analysis.uncertainty import relative_sd
from bbq_plugin.data.dataset import Comparisons, shown_as_pairs, slate_of_row
from bbq_plugin.data.rankings import information_weight
from bbq_plugin.data.triples import Codes, Floats, Mask, Triples, count_by, run_chunks, triple_of
from bbq_plugin.errors import ConvergenceError
from bbq_plugin.model import Fit
from bbq_plugin.model.camps import refit
from bbq_plugin.model.kernels import likelihood as kernels
from bbq_plugin.model.models import Signed, signed_density
from bbq_plugin.model.objectives import LARGEST_COVARIANCE, Height, Joint, Marginal
from bbq_plugin.model.priors import CrowdPriors, Priors, SignedPriors
from bbq_plugin.model.rater_population import CampView, Kinds, LikelyPopulations, Slates, kinds_of
from bbq_plugin.model.solvers import ThetaMode, inverse, solve_newton
from bbq_plugin.model.ties import tie_counts
from bbq_plugin.model.win_share import standing

TOLERANCE = 1e-4  # nats
LARGE_SHARE = 0.1  # of all weight: without such a rater one Newton step may not be enough
MOST_LOCAL = 400  # items of one rater whose matrix is inverted
MOST_REFITS = 64
WEAK = Priors()


@dataclass(frozen=True, slots=True, eq=False)
class LeftOut:
    """By triple: theta_winner - theta_loser (nats) without the rater, its variance, and s.

    ``s`` is E[y] - 1/2 over what is not known of the gap (MacKay's moderated output): an
    uncertain consensus asks less of a rater. ``exact`` are raters without whom was refitted,
    ``within`` those whose own votes could not be left out.
    """

    gap: Floats
    spread: Floats
    s: Floats
    exact: tuple[int, ...]
    within: tuple[int, ...]


class Consensus:
    """The top of the log-density of theta with all raters, and the way to those without one."""

    def __init__(
        self, triples: Triples, priors: Priors | SignedPriors, theta: Floats, quality: Floats, *,
        joint: bool = False, copies: Floats | None = None, mode: ThetaMode | None = None,
        covariance: Floats | None = None,
    ) -> None:  # fmt: skip
        """``joint``: the top of the log-posterior of (theta, q) instead, as a fit has it.

        ``covariance``: that of all raters, where these are some of them: theta is the top of all,
        and none of them is refitted without.

        ``mode``: theta is the top already, as that of a fit under estimated priors is.
        ``copies`` counts each rater so many times: of one camp, the probability to belong to it.
        """
        if isinstance(priors, Priors) and priors.flat_items:
            # Without a prior two items that only one rater compared would be infinitely uncertain.
            priors = replace(priors, a=WEAK.a, b=WEAK.b)
        self.triples, self.priors = triples, priors
        self.copies = np.ones(triples.n_raters) if copies is None else copies
        objective: Marginal | Signed | Joint
        self.of_all = covariance is not None
        if mode is not None:
            objective, self.point = mode.density, mode.point
        else:
            objective = _objective(triples, priors, joint=joint, copies=copies)
            if not self.of_all:
                theta = solve_newton(objective, theta, quality, TOLERANCE).theta
            self.point = objective.at(theta, quality)
        self.chunks = objective.passes.chunks
        self.theta = self.point.theta
        #: The covariance of theta; empty with so many items that it is not sensible.
        self.covariance: Floats = np.empty((0, 0))
        if covariance is not None:
            self.covariance = np.ascontiguousarray(covariance)
        elif mode is not None and triples.n_items <= LARGEST_COVARIANCE:
            self.covariance = mode.covariance
        elif triples.n_items <= LARGEST_COVARIANCE:
            curvature = objective.passes.curvature(self.point)
            self.covariance = inverse(curvature)
        self.push = _push(objective, self.point)
        #: theta without a rater, of those without whom was refitted.
        self.without: dict[int, Floats] = {}

    def theta_without(self, rater: int) -> Floats:
        """One Newton step to the theta of all others, for every item."""
        t = self.triples
        rows = slice(t.start[rater], t.start[rater + 1])
        if rows.start == rows.stop or not self.covariance.size:
            return self.theta
        # H_r and g_r on the items that the rater has seen, and the step of kernels.likelihood.
        seen, at = np.unique(np.stack((t.winner[rows], t.loser[rows])), return_inverse=True)
        ends = np.eye(seen.size)[at.reshape(2, -1)]
        pairs = ends[0] - ends[1]
        along = self.point.rows[:, rows] @ pairs
        curvature = (pairs.T * self.point.curve[rows]) @ pairs - along.T @ along
        to_seen = self.covariance[:, seen]
        system = np.eye(seen.size) - curvature @ to_seen[seen]
        step = np.linalg.solve(system, self.push[rows] @ pairs)
        return np.asarray(self.theta - to_seen @ step)

    def leave_each_out(self) -> LeftOut:
        """Without each rater in turn, for the pairs that the rater has answered."""
        t = self.triples
        gap, spread = np.empty(t.size), np.zeros(t.size)
        failed = np.ones(t.n_raters, dtype=np.bool_)
        exact: list[int] = []
        if self.covariance.size:

            def work(first: int, last: int) -> None:
                kernels.leave_out(
                    first, last, t.start, t.winner, t.loser, self.push, self.point.curve,
                    self.point.rows, self.theta, self.covariance, MOST_LOCAL, gap, spread, failed,
                )  # fmt: skip

            run_chunks(work, self.chunks)
            wanted = [] if self.of_all else _to_refit(t, self.copies, failed)
            exact = [r for r in wanted if self._without(r, gap, spread)]
            failed[wanted] = True
        within = tuple(r for r in np.flatnonzero(failed).tolist() if r not in exact)
        for r in within:
            self._put(r, self.theta, self.covariance, gap, spread)
        return LeftOut(gap, spread, _moderated(gap, spread), tuple(exact), within)

    def _without(self, r: int, gap: Floats, spread: Floats) -> bool:
        """Whether a refit is possible: the others' weights may be too small beside the rater's."""
        copies = self.copies.copy()
        copies[r] = 0.0
        objective = _objective(self.triples, self.priors, copies=copies)
        try:
            found = solve_newton(objective, self.theta, self.point.quality, TOLERANCE)
        except ConvergenceError:
            return False
        self.without[r] = found.theta
        covariance = inverse(objective.passes.curvature(found.point))
        self._put(r, found.theta, covariance, gap, spread)
        return True

    def _put(self, r: int, theta: Floats, covariance: Floats, gap: Floats, spread: Floats) -> None:
        t = self.triples
        rows = slice(t.start[r], t.start[r + 1])
        i, j = t.winner[rows], t.loser[rows]
        gap[rows] = theta[i] - theta[j]
        if covariance.size:
            spread[rows] = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]


def _objective(
    triples: Triples, priors: Priors | SignedPriors, *, joint: bool = False,
    copies: Floats | None = None,
) -> Marginal | Signed | Joint:  # fmt: skip
    if isinstance(priors, SignedPriors):
        return (Signed if joint else signed_density)(triples, priors, copies=copies)
    if joint:
        return Joint(triples, priors, copies=copies)
    return Marginal(triples, priors, copies=copies)


def _push(objective: Marginal | Signed | Joint, point: Height) -> Floats:
    """Each triple's part of the gradient."""
    if isinstance(objective, Marginal):
        return objective.pushes
    passes, t = objective.passes, objective.passes.triples
    s = passes.standing(point.theta)
    q, times = (np.repeat(x, np.diff(t.start)) for x in (point.quality, passes.copies))
    return np.asarray(times * t.weight * q * (0.25 - s * s) / (0.5 + q * s))


def _to_refit(t: Triples, copies: Floats, failed: NDArray[np.bool_]) -> list[int]:
    """Raters with a large share of all votes, and those whom one step cannot leave out."""
    total = copies * np.bincount(t.rater(), t.weight, t.n_raters)
    share = total / max(float(total.sum()), 1e-300)
    wanted = np.flatnonzero((share > LARGE_SHARE) | failed)
    return sorted(wanted[np.argsort(-share[wanted], kind="stable")][:MOST_REFITS].tolist())


def _moderated(gap: Floats, spread: Floats) -> Floats:
    """E[sigma(d)] - 1/2 for d ~ Normal(gap, spread), by sigma(gap / sqrt(1 + pi spread / 8))."""
    return np.asarray(0.5 * np.tanh(0.5 * gap / np.sqrt(1.0 + np.pi * spread / 8.0)))


EQUAL = 1e-3  # nats: a gap this small is none, and an answer across it agrees half
NEVER = 1e-9  # an answer against a certain consensus is this likely at least


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """By rater: how many comparisons, agreement, quality's interval, kinds, and p against a coin.

    ``n`` is the weight of the comparisons, ``n_told`` of those that say something about a rater
    (without ties where these are an outcome of their own), ``given`` counts the answers.
    With several camps a rater is compared with the camp that the rater most probably belongs to.
    ``p_coin_below`` is the chance that a coin agrees with the others as little as this rater does:
    exact whatever the others think, because a coin does not care and they have not seen it.
    """

    n: Floats
    n_told: Floats
    agreement: Floats
    lower: Floats
    upper: Floats
    p_coin_below: Floats
    kinds: Kinds
    left_out: LeftOut
    given: Given
    consensus: tuple[Consensus, ...]

    @property
    def n_answers(self) -> Floats:
        """How many answers there are: a ranking is one, and so is a row of any weight."""
        return self.given.n_answers

    @property
    def p_bad(self) -> Floats:
        """P(low quality or inverted)."""
        return self.kinds.p_bad


@dataclass(frozen=True, slots=True, eq=False)
class WholePanel:
    """What is known of all raters, where a fit has some of them: a part."""

    #: Of the consensus of each camp: the top, and its covariance.
    theta: tuple[Floats, ...]
    covariance: tuple[Floats, ...]
    kinds: LikelyPopulations | None = None
    #: Of those who look bad, the share with a ranking of their own.
    own_share: float | None = None


def views_of(
    fit: Fit, whole: WholePanel | None = None
) -> tuple[Given, tuple[Consensus, ...], list[LeftOut], list[CampView]]:
    """What each rater gave, and what the consensus of each camp without the rater says of it."""
    given, consensus = given_by(fit.data, fit.triples), consensus_of(fit, whole)
    by_camp = [camp.leave_each_out() for camp in consensus]
    views = [
        CampView(share, told.s, given.slates(told.s))
        for share, told in zip(fit.camp_sizes.tolist(), by_camp, strict=True)
    ]
    return given, consensus, by_camp, views


def evidence_of(
    fit: Fit, level: float, threshold: float, whole: WholePanel | None = None
) -> Evidence:
    """Leave each rater out, then judge them by what remains."""
    t = fit.triples
    given, consensus, by_camp, views = views_of(fit, whole)
    kinds = kinds_of(
        given.pairs, views, threshold=threshold, level=level,
        known=None if whole is None else whole.kinds,
    )  # fmt: skip
    left_out = _of_own_camp(t, by_camp, np.argmax(fit.membership, axis=1))
    rater, weight = t.rater(), given.weight
    n = count_by(rater, t.n_raters, weight)
    ahead = np.where(np.abs(left_out.gap) < EQUAL, 0.0, np.sign(left_out.gap))
    agreed = np.bincount(rater, weight * 0.5 * (1.0 + ahead), t.n_raters)
    told = np.bincount(rater, weight * np.abs(ahead), t.n_raters)
    along = 2.0 * left_out.s
    total = np.bincount(rater, weight * along, t.n_raters)
    spread = np.sqrt(np.bincount(rater, weight * along**2, t.n_raters))
    lower, upper = kinds.lower, kinds.upper
    if isinstance(fit.priors, Priors) and len(by_camp) == 1:
        known = fit.rater_posterior(level)
        lower, upper = known.lower, known.upper
    elif isinstance(fit.priors, Priors):
        # Inverted raters have none below 0 in this model: they are told by P(inverted).
        lower, upper = np.maximum(lower, 0.0), np.maximum(upper, 0.0)
    # The mode, which is what a fit reports, may lie beyond an interval's end: both count.
    return Evidence(
        n=n + _ties_apart(fit),
        n_told=n,
        # Without others who say something there is nothing to agree with.
        agreement=np.divide(agreed, n, out=np.full(n.size, np.nan), where=told > 0),
        lower=np.minimum(lower, fit.quality),
        upper=np.maximum(upper, fit.quality),
        p_coin_below=phi(np.divide(total, spread, out=np.zeros(n.size), where=spread > 0)),
        kinds=kinds,
        left_out=left_out,
        given=given,
        consensus=consensus,
    )


def _ties_apart(fit: Fit) -> Floats:
    """The answers of each rater that were ties, where these are an outcome of their own."""
    if fit.ties == "half":
        return np.zeros(len(fit.raters))
    return tie_counts(fit.data)[0]


def consensus_of(fit: Fit, whole: WholePanel | None = None) -> tuple[Consensus, ...]:
    """The consensus of each camp, that raters are judged by.

    Under estimated priors it is that of the fit itself. The paper's priors know no guessers, who
    would pull it towards equal items: there it allows for them.
    """
    priors = fit.priors
    if not isinstance(priors, SignedPriors) and not (
        isinstance(priors, Priors) and priors.estimated
    ):
        a, b = getattr(priors, "a", 0.0), getattr(priors, "b", 0.0)
        priors = SignedPriors(a=a, b=b) if a > 1 and b > 0 else SignedPriors()
    quality, several = np.clip(fit.quality, -0.95, 0.95), len(fit.camp_theta) > 1
    tops = fit.camp_theta if whole is None else whole.theta
    return tuple(
        Consensus(
            fit.triples,
            priors,
            theta,
            quality,
            copies=belongs if several else None,
            mode=fit.mode if whole is None else None,
            covariance=None if whole is None else whole.covariance[c],
        )
        for c, (theta, belongs) in enumerate(zip(tops, fit.membership.T, strict=True))
    )


def _of_own_camp(t: Triples, by_camp: list[LeftOut], own: Codes) -> LeftOut:
    """Of each rater, what the camp says that the rater most probably belongs to."""
    if len(by_camp) == 1:
        return by_camp[0]
    camp, rows = own[t.rater()], np.arange(t.size)
    gap, spread, s = (
        np.array([getattr(told, name) for told in by_camp])[camp, rows]
        for name in ("gap", "spread", "s")
    )
    exact, within = (
        tuple(sorted({r for told in by_camp for r in getattr(told, name)}))
        for name in ("exact", "within")
    )
    return LeftOut(gap, spread, s, exact, within)


def phi(z: Floats) -> Floats:
    """The normal distribution function."""
    from scipy.special import ndtr  # noqa: PLC0415 (loads slowly)

    return np.asarray(ndtr(z))


# -- what each rater gave


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """What each rater gave. ``pairs`` are the data's triples, weighted by answers shown as pairs.

    ``weight`` is that of all answers by triple, ``n_answers`` counts by rater what was asked: a
    ranking once, a row of whatever weight once, and ``n_slates`` how many of these are rankings
    or choices. ``tied`` are raters who never decided. ``ranked`` are the pairs of rankings and
    choices: slate, place among the triples, and weight of each.
    """

    pairs: Triples
    weight: Floats
    n_answers: Floats
    n_slates: Floats
    tied: Mask
    ranked: tuple[Codes, Codes, Floats] | None = None

    def slates(self, s: Floats) -> Slates | None:
        """The likelihood of each slate, ``s`` being y - 1/2 of each triple by the others."""
        told = self.slate_sums(*(np.log(np.maximum(1.0 + x, NEVER)) for x in (2.0 * s, -2.0 * s)))
        if told is None:
            return None
        rater, upright, turned = told
        order = np.argsort(rater, kind="stable")
        ends = np.cumsum(np.bincount(rater, None, self.pairs.n_raters))
        start = np.concatenate(([0], ends)).astype(np.int64)
        return Slates(start, upright[order], turned[order])

    def slate_sums(self, first: Floats, second: Floats) -> tuple[Codes, Floats, Floats] | None:
        """By slate: its rater, and two quantities of the triples summed with its pairs' weights."""
        if self.ranked is None:
            return None
        slate, at, weight = self.ranked
        n = int(slate.max()) + 1
        rater = np.zeros(n, dtype=np.int64)
        rater[slate] = np.searchsorted(self.pairs.start, at, side="right") - 1
        one, two = (count_by(slate, n, weight * x[at]) for x in (first, second))
        return rater, one, two


def given_by(data: Comparisons, t: Triples) -> Given:
    """Count the answers; data without single answers are taken by their weights."""
    answers = data.answers
    rater = t.rater()
    tied = np.zeros(t.n_raters, dtype=np.bool_)
    most: Floats = np.ones(data.weight.size)
    counts: Mask = np.ones(data.weight.size, dtype=np.bool_)
    if answers is not None and answers.half is not None:
        tied = np.bincount(data.rater[answers.half == 0], None, t.n_raters) == 0
        most[answers.half > 0] = 0.5
        if t is not data.triples:
            counts = answers.half == 0
    plain = answers is None or (answers.slate is None and not (data.weight > most).any())
    if answers is None or (plain and not data.repeats):
        n = count_by(rater, t.n_raters, t.weight)
        return Given(t, t.weight, n, np.zeros(t.n_raters), tied)
    # An answer that was stored again is one answer.
    weight = np.minimum(data.merged().weight, most)
    at = np.zeros(weight.size, dtype=np.int64)
    at[counts] = triple_of_row(data, t, np.flatnonzero(counts))
    single = counts if answers.slate is None else counts & shown_as_pairs(data, answers.slate)
    by_pair = count_by(at[single], t.size, weight[single])
    pairs = replace(t, weight=by_pair)
    n = count_by(rater, t.n_raters, by_pair)
    if answers.slate is None or single[counts].all():
        return Given(pairs, by_pair, n, np.zeros(t.n_raters), tied)
    rows = np.flatnonzero(counts & ~single)
    slate = slate_of_row(data, answers.slate, rows)
    row_weight = np.minimum(weight[rows], _most_informative(data, rows, slate))
    first = np.unique(slate, return_index=True)[1]
    n_slates = count_by(data.rater[rows[first]], t.n_raters)
    by_slate = count_by(at[rows], t.size, row_weight)
    ranked = slate, at[rows], row_weight
    return Given(pairs, by_pair + by_slate, n + n_slates, n_slates, tied, ranked)


def triple_of_row(data: Comparisons, t: Triples, rows: Codes) -> Codes:
    """The place of each of these wins among the triples of the model."""
    return triple_of(t, data.rater[rows], data.winner[rows], data.loser[rows])


def _most_informative(data: Comparisons, rows: Codes, slate: Codes) -> Floats:
    """The weight of a pair in a full ranking of as many items: none can tell more."""
    n, k = int(slate.max()) + 1, data.n_items
    seen = np.unique(
        np.concatenate([slate * k + column[rows] for column in (data.winner, data.loser)])
    )
    items = np.bincount(seen // k, None, n)
    by_size = {m: information_weight([1] * m) for m in np.unique(items).tolist()}
    most = np.array([by_size.get(m, 1.0) for m in range(int(items.max()) + 1)])
    return np.asarray(most[items][slate])


# -- what an exclusion changes

VISIBLE = 0.01  # nats: a smaller move is none to a reader
MATTERS = 1.0  # posterior standard deviations that an item has to move by
MOST_EFFECTS = 500  # raters whose effect is computed
EFFECT_REFITS = 100_000  # triples to fit again, over all raters who are left out alone


@dataclass(frozen=True, slots=True)
class Effect:
    """``moved`` items change places; ``shift_sd`` is the largest move in the item's own sd."""

    best_with: str
    best_without: str
    moved: int
    shift: float
    shift_sd: float

    @property
    def matters(self) -> bool:
        """Another best item, or an item that moves by more than its standard deviation."""
        return self.best_with != self.best_without or self.shift_sd > MATTERS

    @property
    def text(self) -> str:
        """What changes in the leaderboard, in words."""
        same_best = self.best_with == self.best_without
        if same_best and not self.moved and self.shift < VISIBLE:
            return "no rank changes"
        best = f"stays {self.best_with}"
        if not same_best:
            best = f"is {self.best_without} instead of {self.best_with}"
        moved = f"{self.moved} items change rank" if self.moved else "no rank changes"
        moved_to, stayed = to_rating(np.array([self.shift, 0.0]), "elo")
        points = round(float(moved_to - stayed))
        shift = f"{points:,} Elo points, {self.shift_sd:.1f} standard deviations of its rating"
        return f"the best item {best}, and {moved}. The rating that moves most moves by {shift}"


def effects(
    fit: Fit, raters: list[int], consensus: tuple[Consensus, ...]
) -> tuple[dict[int, Effect], Effect | None]:
    """Of leaving out each of these raters alone, and all of them, under the fit's own priors.

    Each is a refit, as far as `EFFECT_REFITS` goes, those with the largest effect first; of the
    others, in large studies, it is one Newton step of the same log-posterior.
    """
    priors = fit.priors
    if not raters or isinstance(priors, CrowdPriors) or len(fit.items) > LARGEST_COVARIANCE:
        return {}, None
    raters_shown = raters[:MOST_EFFECTS]
    # The mode that the leaderboard shows: joint under given priors, else quality integrated out.
    joint = not (isinstance(priors, Priors) and priors.estimated)
    top = consensus[0]
    if joint or len(consensus) > 1:
        top = Consensus(fit.triples, priors, fit.theta, fit.quality, joint=joint)
    sd = relative_sd(fit.laplace.covariance)
    step = {r: top.theta_without(r) - top.theta for r in raters_shown}
    without = {r: (fit.camp_sizes, fit.camp_theta + step[r]) for r in raters_shown}
    n_refits = EFFECT_REFITS // max(fit.triples.size, 1)
    if len(fit.raters) > 1:
        for r in sorted(raters_shown, key=lambda r: -float(np.ptp(step[r])))[:n_refits]:
            without[r] = _camps_without(fit, [r])
    alone = {r: _compared(fit, *without[r], sd) for r in raters_shown}
    if len(raters) == len(fit.raters):
        return alone, None
    return alone, _compared(fit, *_camps_without(fit, raters), sd)


def _camps_without(fit: Fit, raters: list[int]) -> tuple[Floats, Floats]:
    """Sizes and theta of the camps (or of the one) as they would be without these raters."""
    if fit.division is None:
        return fit.camp_sizes, fit.theta_without(raters)[None, :]
    copies = np.ones(len(fit.raters))
    copies[raters] = 0.0
    return refit(fit.wins, fit.given_priors(), fit.division, copies)


def _ordered(fit: Fit, size: Floats, theta: Floats) -> Codes:
    """The items as the leaderboard has them: by rating or, in a divided panel, by win share."""
    by = theta[0]
    if len(theta) > 1:
        quality = fit.panel.quality / (fit.panel.n * fit.camp_sizes)
        by = size * quality @ np.array([standing(camp) for camp in theta])
    return np.argsort(-by, kind="stable")


def _compared(fit: Fit, size: Floats, theta: Floats, sd: Floats) -> Effect:
    """The board of the fit with one of camps of this size, and their theta."""
    before, after = fit.theta - fit.theta.mean(), size @ (theta - theta.mean(axis=1)[:, None])
    first, second = _ordered(fit, fit.camp_sizes, fit.camp_theta), _ordered(fit, size, theta)
    shift = np.abs(after - before)
    return Effect(
        best_with=fit.items[int(first[0])],
        best_without=fit.items[int(second[0])],
        moved=int(np.count_nonzero(first != second)),
        shift=float(shift.max()),
        shift_sd=float((shift / np.maximum(sd, 1e-150)).max()),
    )
