"""Camps: raters who agree with each other, and not with the rest, follow a ranking of their own.

Rater r belongs to camp c with probability pi_c and follows its theta^c:

    P(answers of r) = sum_c pi_c int prior(q) prod (1/2 + q s^c)^w dq
    theta^c = mu + delta^c,   mu ~ log Gamma(a, b),   delta^c ~ Normal(0, trigamma(a))

so that the ranking of a small camp leans on what the others say (delta has the spread that the
items have). A screen of one pass says whether camps are worth looking for. They are searched from
the two ends of the axis along which the raters differ most, one camp more at a time, as long as
the Bayesian information criterion falls by `LEAST_GAIN` or more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, log, sqrt
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.linalg import eigh

from bbq_plugin.data.triples import Floats, Triples, some_raters
from bbq_plugin.errors import UsageError
from bbq_plugin.model.objectives import Blocks, Height, Joint, Marginal, Part, Parts, Summed
from bbq_plugin.model.prior_estimation import (
    CENTRE,
    RATE,
    Population,
    estimate_again,
    few_raters,
    is_sparse,
    priors_of,
)
from bbq_plugin.model.priors import Priors
from bbq_plugin.model.robust import summed_products
from bbq_plugin.model.solvers import Optimum, hill_solver, inverse, solve_newton

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbq_plugin.model.fit import Fit

FIRES = 1.2  # largest eigenvalue / edge from which camps are searched for
MOST_VOTES = 4.0  # times the mean rater's, that one rater counts for in the screen
BINS, HALF_STEPS = 256, 60  # of numbers of votes; of a bisection
AGAINST = -3.0  # standard deviations of a coin's agreement; raters below it may be a camp
COINS_BELOW = 0.00135  # of coins are below it: so many of a large panel say nothing
LEAST_GAIN = 6.0  # of the criterion, for one more camp
LEAST_RATERS = 3  # that a camp has to have
MOST_CAMPS = 6
WORSE = -4.0  # standard deviations below what is expected of new answers: camps are examined again
MOST_CELLS = 20_000_000  # raters x items whose scores are held; of more raters, in blocks
MOST_PARAMETERS = 1024  # camps x items of one dense system
MOST_TRIPLES = 150_000, 0  # by which the number of camps is found; the fit is of all
TRIES = 6  # steps from each start before the best goes on
STEPS = 200
ROUNDS = 12  # of camps and population in turn; four were the most that panels have taken
HALVINGS = 12
LONGEST = 2.0  # nats
CLOSE = 1e-4  # nats; shorter steps may raise the log-posterior by less than its rounding
NEGLIGIBLE = 1e-6  # of a membership: such raters tell nothing of a camp's population


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """Along which the raters differ most, apart from quality.

    ``strength`` is the largest eigenvalue over the largest that raters of one taste would have by
    chance: well above 1 the panel is divided. ``items`` says by how much each item is preferred at
    the positive end (nats, mean 0), ``raters`` where each stands, in standard deviations of
    raters of one taste. ``against`` of ``n_raters`` answer against the ranking, more often than
    coins would.
    """

    strength: float
    items: Floats
    raters: Floats
    agreement: Floats  # where each rater stands along the ranking itself
    against: int = 0
    n_raters: int = 0

    @property
    def fires(self) -> bool:
        """Whether camps are worth looking for."""
        chance = COINS_BELOW * self.n_raters
        several = self.against >= max(LEAST_RATERS, chance + 3.0 * sqrt(chance))
        return self.strength > FIRES or several


def _scores(triples: Triples, pushes: Floats) -> Floats:
    """The score of each rater, raters x items."""
    k, rater = triples.n_items, triples.rater()
    size = triples.n_raters * k
    up = np.bincount(rater * k + triples.winner, pushes, size)
    return np.asarray(up - np.bincount(rater * k + triples.loser, pushes, size)).reshape(-1, k)


def _votes(triples: Triples) -> Floats:
    counted = np.bincount(triples.rater(), triples.weight, triples.n_raters)
    return np.asarray(counted, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class _MainAxis:
    """What the raters' scores have in common; ``ahead`` and ``across`` are by item.

    A rater's score times ``ahead`` is the agreement with the ranking, times ``across`` the place
    along the axis, both but for the rater's number of votes.
    """

    strength: float
    items: Floats
    ahead: Floats
    across: Floats


def _main_axis(
    products: Floats, information: Floats, theta: Floats, votes: Floats, total: float
) -> _MainAxis:
    """The axis from the sum of the raters' score products; ``votes`` is that of `_vote_table`."""
    roots, axes = np.linalg.eigh(information)
    kept = roots > 1e-9 * float(roots[-1])
    half = axes[:, kept] * np.sqrt(roots[kept])
    white = axes[:, kept] / np.sqrt(roots[kept])
    along = half.T @ (theta - theta.mean())
    along /= max(float(np.linalg.norm(along)), 1e-300)
    # Raters who follow the ranking more or less faithfully differ along it: that is quality.
    plane = white - np.outer(white @ along, along)
    inner = plane.T @ products @ plane
    last = len(inner) - 1
    spread, ways = eigh(inner, subset_by_index=[last, last])
    edge = _largest_by_chance(votes, total, max(int(kept.sum()) - 1, 1))
    way = ways[:, 0]
    return _MainAxis(float(spread[0] / edge), white @ way, white @ along, plane @ way)


def _damping(votes: Floats, mean: float) -> Floats:
    """By how much the scores of each rater count, so that a few with most votes do not decide."""
    return np.minimum(1.0, MOST_VOTES * mean / np.maximum(votes, 1e-300))


def _vote_table(votes: Floats, mean: float, weight: Floats) -> Floats:
    """How many raters have about as many votes that count, and the sum of these votes."""
    counted = votes * _damping(votes, mean)
    at = np.minimum(counted / max(MOST_VOTES * mean, 1e-300) * BINS, BINS - 1.0).astype(np.int64)
    return np.array([np.bincount(at, x, BINS) for x in (weight, weight * counted)])


def _largest_by_chance(votes: Floats, total: float, free: int) -> float:
    """The largest eigenvalue of raters of one taste, who have unequal shares w of all votes.

    The edge of the spectrum is min over u of 1/u + sum w / (1 - free w u) (Silverstein and Choi
    1995); of R equal shares that is Marchenko and Pastur's (1 + sqrt(free / R))^2.
    """
    times, counted = votes[:, votes[1] > 0.0]
    w = counted / times / max(total, 1e-300)
    if not w.size:
        return 1.0
    # Just below the pole, which the search would round to where hardly any rater is there.
    low, high = 0.0, (1.0 - 1e-9) / (free * float(w.max()))
    for _ in range(HALF_STEPS):
        u = 0.5 * (low + high)
        if free * float(times @ np.square(u * w / (1.0 - free * w * u))) < 1.0:
            low = u
        else:
            high = u
    return float(1.0 / low + times @ (w / (1.0 - free * w * low)))


def axis_of(
    triples: Triples, pushes: Floats, information: Floats, theta: Floats, weight: Floats
) -> Axis:
    """The axis of the raters' scores, of which ``pushes`` are the parts by triple.

    Each rater counts ``weight`` times.
    """
    votes = _votes(triples)
    n = float(votes @ weight)
    mean = n / max(float(weight.sum()), 1e-300)
    times = np.sqrt(weight * _damping(votes, mean))[triples.rater()]
    products = _products(triples, pushes * times)
    found = _main_axis(products, information, theta, _vote_table(votes, mean, weight), n)
    unit = np.sqrt(np.maximum(votes / max(n, 1e-300), 1e-300))
    items, stand = found.items, _along(triples, pushes, found.across) / unit
    # Either end may be called the positive one: the smaller group of raters is at it.
    if float(weight @ np.sign(stand)) > 0:
        items, stand = -items, -stand
    return Axis(
        found.strength, items - items.mean(), np.asarray(stand),
        np.asarray(_along(triples, pushes, found.ahead) / unit),
    )  # fmt: skip


def _products(triples: Triples, pushes: Floats) -> Floats:
    """The sum of the raters' score products, items x items."""
    t = triples
    return summed_products(t.start, t.winner, t.loser, pushes[None, :], t.n_items)


def _along(triples: Triples, pushes: Floats, direction: Floats) -> Floats:
    """Each rater's score times a direction."""
    t = triples
    told = pushes * (direction[t.winner] - direction[t.loser])
    return np.asarray(np.bincount(t.rater(), told, t.n_raters), dtype=np.float64)


def divisible(triples: Triples | Parts) -> bool:
    """Whether there are raters enough to look for camps, and not too many items."""
    n, k = triples.n_raters, triples.n_items
    few = n < 2 * LEAST_RATERS or k < 3
    return not few and k <= MOST_PARAMETERS // 2


def no_majority(triples: Triples | Parts, theta: Floats) -> bool:
    """Whether half of a panel too small for camps, or more, answers against its ranking.

    Then as good a ranking is the reverse, with the other raters as those who guess.
    """
    n = triples.n_raters
    if not 1 < n < 2 * LEAST_RATERS:
        return False
    return 2 * _screened(few_raters(triples, MOST_TRIPLES), theta)[1] >= n


def in_blocks(triples: Triples | Parts) -> Triples | Parts:
    """In parts if there are more raters than those whose scores are held at once."""
    if isinstance(triples, Parts) or triples.n_raters * triples.n_items <= MOST_CELLS:
        return triples
    return Blocks(triples, MOST_CELLS // 4 // triples.n_items)


def screen(triples: Triples | Parts) -> Axis | None:
    """Whether the raters differ in more than quality, at the plain Bradley-Terry ranking."""
    if not divisible(triples):
        return None
    triples = in_blocks(triples)
    pooled = triples.without_raters()
    plain = Joint(pooled, Priors(), fixed=True)
    theta, quality = plain.start()
    theta = solve_newton(plain, theta, quality, 1e-4).theta
    k, y = pooled.n_items, _p_upset(pooled, theta)
    cell = pooled.winner.astype(np.int64) * k + pooled.loser
    half = np.bincount(cell, pooled.weight * y * (1.0 - y), k * k).reshape(k, k)
    both = np.asarray(half + half.T, dtype=np.float64)
    information: Floats = np.diag(both.sum(axis=1)) - both
    if isinstance(triples, Parts):
        return _screen_parts(triples, theta, information, float(pooled.weight.sum()))
    pushes, against = _screened(triples, theta)
    axis = axis_of(triples, pushes, information, theta, np.ones(triples.n_raters))
    return replace(axis, against=against, n_raters=triples.n_raters)


def _p_upset(triples: Triples, theta: Floats) -> Floats:
    """P(the loser wins) of each triple."""
    return 0.5 - 0.5 * np.tanh(0.5 * (theta[triples.winner] - theta[triples.loser]))


def _screened(triples: Triples, theta: Floats) -> tuple[Floats, int]:
    """Each triple's part of the score; and how many raters answer against the ranking."""
    y, rater = _p_upset(triples, theta), triples.rater()
    s = 0.5 - y
    total = np.bincount(rater, triples.weight * s, triples.n_raters)
    spread = np.sqrt(np.bincount(rater, triples.weight * s**2, triples.n_raters))
    against = int(np.sum(total < AGAINST * spread))
    return np.asarray(triples.weight * y), against


def _screen_parts(parts: Parts, theta: Floats, information: Floats, total: float) -> Axis:
    """The same with raters in parts; where each of them stands is not gathered."""
    mean = total / max(parts.n_raters, 1)
    products, votes, against = parts.summed(_part_products, theta, mean)
    found = _main_axis(products, information, theta, votes, total)
    (ahead,) = parts.summed(_part_ends, theta, found.across)
    items = -found.items if ahead > 0 else found.items
    none, n = np.empty(0), parts.n_raters
    return Axis(found.strength, items - items.mean(), none, none, int(against), n)


def _part_products(part: Part, theta: Floats, mean: float) -> tuple[Floats, Floats, int]:
    t = part.triples
    (pushes, against), votes = _screened(t, theta), _votes(t)
    times = np.sqrt(_damping(votes, mean))[t.rater()]
    return _products(t, pushes * times), _vote_table(votes, mean, np.ones(votes.size)), against


def _part_ends(part: Part, theta: Floats, across: Floats) -> tuple[float]:
    pushes, _ = _screened(part.triples, theta)
    return (float(np.sign(_along(part.triples, pushes, across)).sum()),)


@dataclass(slots=True, eq=False)
class Division:
    """The log-posterior of all camps at one theta (camps x items), shares at their best."""

    theta: Floats
    share: Floats
    membership: Floats  # raters x camps; empty where the raters are in parts
    quality: Floats  # raters
    likelihood: float
    value: float
    gradient: Floats  # camps x items
    curvature: Floats  # minus the Hessian, of all camps stacked
    complete: Floats  # the same if memberships were known
    size: Floats  # the part of the panel that each camp is
    n_raters: int
    #: By the shares' logits: the gradient, minus the Hessian, and that by them and theta.
    pull: Floats
    of_share: Floats
    by_share: Floats
    #: How many camps were asked for, None where the criterion decided; and how many it asks for.
    asked: int | None = None
    supported: int | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """That there are more camps than the answers ask for."""
        if self.asked is None or self.supported is None or self.supported >= len(self.theta):
            return ()
        found = "one camp" if self.supported == 1 else f"{self.supported} camps"
        text = f"camps={self.asked} was asked for, but the answers support {found}"
        return (f"{text}: that the panel is divided into {len(self.theta)} is not supported",)

    def covariance(self, population: Population | None) -> Floats:
        """Of the mean of theta over all raters, their division into camps being uncertain too."""
        k = self.theta.shape[1]
        whole = inverse(self.curvature)
        if population is not None:
            whole = whole + population.slope @ population.covariance @ population.slope.T
        mean = np.kron(self.size, np.eye(k))
        share = (np.diag(self.size) - np.outer(self.size, self.size)) / self.n_raters
        return np.asarray(mean @ whole @ mean.T + self.theta.T @ share @ self.theta)


class Mixture:
    """The log-posterior of several rankings, quality and membership integrated out."""

    def __init__(
        self, triples: Triples, priors: Priors, n_camps: int, copies: Floats | None = None
    ) -> None:
        from scipy.special import polygamma  # noqa: PLC0415 (loads slowly)

        self.triples, self.priors = triples, priors
        self.camps = [Marginal(triples, priors) for _ in range(n_camps)]
        self.copies = np.ones(triples.n_raters) if copies is None else copies
        self._pooling = 1.0 / float(polygamma(1, priors.a))
        self._halves = float(triples.weight @ self.copies[triples.rater()]) * log(0.5)

    def _prior(self, theta: Floats) -> tuple[float, Floats, Floats, Floats]:
        """Value, gradient, and curvature within a camp's item and between two camps'."""
        n = theta.shape[0]
        mean, apart = theta.mean(axis=0), theta - theta.mean(axis=0)
        skill = self.priors.b * np.exp(mean)
        value = float(np.sum(self.priors.a * mean - skill))
        value -= 0.5 * self._pooling * float(np.sum(apart**2))
        gradient = (self.priors.a - skill) / n - self._pooling * apart
        between = skill / n**2 - self._pooling / n
        return value, gradient, between + self._pooling, between

    def at(self, theta: Floats, share: Floats) -> Division:
        """One pass for each camp; ``share`` is where to look for the best shares from."""
        points = [camp.at(row, np.empty(0)) for camp, row in zip(self.camps, theta, strict=True)]
        told = np.column_stack([camp.summary[:, 3] for camp in self.camps])
        share, membership, likelihood = _shares(told, share, self.copies)
        sums = _camp_sums(self.camps, points, membership, self.copies)
        quality = np.sum(membership * np.column_stack([p.quality for p in points]), axis=1)
        size, n = np.asarray(membership.mean(axis=0)), float(self.copies.sum())
        found = self._division(theta, share, likelihood + self._halves, sums, size, n)
        return replace(found, membership=membership, quality=quality, n_raters=len(membership))

    def _division(
        self, theta: Floats, share: Floats, likelihood: float, sums: tuple[Floats, ...],
        size: Floats, n_raters: float,
    ) -> Division:  # fmt: skip
        """From sums over raters; each counted once in ``size``, and ``n_raters`` times in all."""
        members, both, pushed, known, lost, mixed = sums
        prior, gradient, within, between = self._prior(theta)
        n, k = theta.shape
        blocks, of_item = np.zeros((n, k, n, k)), np.arange(k)
        for c in range(n):
            blocks[c, :, c] = known[c]
            for d in range(n):
                blocks[c, of_item, d, of_item] += within if c == d else between
        complete: Floats = blocks.reshape(n * k, n * k)
        # The shares move with theta: their own part of the Hessian is eliminated.
        of_share = (n_raters + n) * (np.diag(share) - np.outer(share, share))
        of_share -= np.diag(members) - both
        by_share = mixed.reshape(n * k, n)
        seen = lost.reshape(n * k, n * k) - by_share @ np.linalg.pinv(of_share) @ by_share.T
        return Division(
            theta, share, np.empty((0, n)), np.empty(0), likelihood, likelihood + prior,
            gradient + pushed, complete + seen, complete, size, int(n_raters),
            members + 1.0 - (n_raters + n) * share, of_share, by_share,
        )  # fmt: skip

    def step(self, now: Division) -> tuple[Floats, bool]:
        """Newton's step, or, where the log-posterior is no hill, that of EM."""
        gradient = now.gradient.ravel()
        solve = hill_solver(now.curvature)
        newton = solve is not None
        if solve is None:
            solve = hill_solver(now.complete)
        if solve is None:
            step = gradient / np.maximum(np.diag(now.complete), 1e-9)
        else:
            step = solve(gradient)
        return step.reshape(now.theta.shape), newton

    def climb(self, now: Division, tol: float, most: int = STEPS) -> tuple[Division, list[float]]:
        """To the top nearby, or ``most`` steps; every step raises the log-posterior."""
        trace = [now.value]
        for _ in range(most):
            step, newton = self.step(now)
            size = self._length(now, step)
            if newton and size <= tol:
                return now, trace
            step = step * min(1.0, LONGEST / max(size, 1e-300))
            for halving in range(HALVINGS):
                trial = self._moved(now, step * 0.5**halving)
                if trial.value > now.value:
                    break
            else:
                if newton and size < CLOSE and _is_nearer(trial := self._moved(now, step), now):
                    now = trial
                    continue
                return now, trace
            now = trial
            trace.append(now.value)
        return now, trace

    def _length(self, now: Division, step: Floats) -> float:
        del now
        return float(np.max(np.abs(step)))

    def _moved(self, now: Division, step: Floats) -> Division:
        return self.at(now.theta + step, now.share)

    def axis(self, now: Division, camp: int) -> Axis:
        """Along which the members of one camp differ most."""
        k, weight = now.theta.shape[1], now.membership[:, camp]
        at = slice(camp * k, (camp + 1) * k)
        pushes = self.camps[camp].pushes
        return axis_of(self.triples, pushes, now.complete[at, at], now.theta[camp], weight)


def _is_nearer(trial: Division, now: Division) -> bool:
    """Whether a step leads to the top that is too short for the log-posterior to show it."""
    lost = now.value - trial.value
    return lost <= 1e-13 * abs(now.value) and bool(
        np.max(np.abs(trial.gradient)) < 0.5 * np.max(np.abs(now.gradient))
    )


def _camp_sums(
    camps: list[Marginal], points: list[Height], membership: Floats, copies: Floats
) -> tuple[Floats, ...]:
    """Sums over raters: memberships, their products, and what theta's derivatives are made of."""
    triples = camps[0].passes.triples
    n, k = len(camps), triples.n_items
    counted = membership * copies[:, None]
    mine = counted[triples.rater()].T
    scores = [_scores(triples, camp.pushes) for camp in camps]
    pushed, known = np.zeros((n, k)), np.zeros((n, k, k))
    lost, mixed = np.zeros((n, k, n, k)), np.zeros((n, k, n))
    for c, (point, camp) in enumerate(zip(points, camps, strict=True)):
        lone = Height(
            point.theta, point.quality, 0.0, point.gradient, np.zeros(k),
            point.curve * mine[c], point.rows * np.sqrt(mine[c]),
        )  # fmt: skip
        known[c] = camp.passes.curvature(lone)
        pushed[c] = counted[:, c] @ scores[c]
        # Louis' formula: what is not known of memberships is taken off.
        lost[c, :, c] -= (scores[c] * counted[:, c, None]).T @ scores[c]
        for d in range(n):
            both = counted[:, c] * membership[:, d]
            lost[c, :, d] += (scores[c] * both[:, None]).T @ scores[d]
        mixed[c] = -(scores[c] * counted[:, c, None]).T @ membership
        mixed[c, :, c] += pushed[c]
    return counted.sum(axis=0), counted.T @ membership, pushed, known, lost, mixed


def _belongs(
    part: Part, priors: Priors, theta: Floats, share: Floats
) -> tuple[list[Marginal], list[Height], Floats, float]:
    """The camps as the raters of a part see them: P(camp) of each, and their log-likelihood."""
    camps = [Marginal(part.triples, priors) for _ in theta]
    points = [camp.at(row, np.empty(0)) for camp, row in zip(camps, theta, strict=True)]
    told = np.column_stack([camp.summary[:, 3] for camp in camps])
    top = told.max(axis=1, keepdims=True)
    joint = np.maximum(np.exp(told - top) * share, 1e-300)
    total = joint.sum(axis=1, keepdims=True)
    likelihood = float(np.sum(np.log(total) + top) + part.triples.weight.sum() * log(0.5))
    return camps, points, joint / total, likelihood


def _part_division(
    part: Part, priors: Priors, theta: Floats, share: Floats
) -> tuple[float | Floats, ...]:
    if part.empty:
        return ()
    camps, points, membership, likelihood = _belongs(part, priors, theta, share)
    return likelihood, *_camp_sums(camps, points, membership, np.ones(len(membership)))


def members_of(part: Part, priors: Priors, theta: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Of each rater of a part: P(camp), and quality."""
    _, points, membership, _ = _belongs(part, priors, theta, share)
    quality = np.sum(membership * np.column_stack([p.quality for p in points]), axis=1)
    return membership, quality


class PartedMixture(Mixture):
    """The same over parts. Shares are climbed with theta, so that a step is one pass."""

    def __init__(self, parts: Parts, priors: Priors, n_camps: int) -> None:
        from scipy.special import polygamma  # noqa: PLC0415 (loads slowly)

        del n_camps  # theta has them
        self.parts, self.priors = parts, priors
        self._pooling = 1.0 / float(polygamma(1, priors.a))

    def at(self, theta: Floats, share: Floats) -> Division:
        """One pass over all parts, at these shares."""
        found = self.parts.summed(_part_division, self.priors, theta, share)
        likelihood, sums, n = cast("float", found[0]), cast("Any", found[1:]), self.parts.n_raters
        likelihood += float(np.sum(np.log(share)))
        return self._division(theta, share, likelihood, sums, sums[0] / n, n)

    def step(self, now: Division) -> tuple[Floats, bool]:
        """Newton's step of theta, shares at their best along it; or that of EM."""
        # A part of the shares' Hessian is 0, along all logits together: rounding may be below.
        hill = np.linalg.eigvalsh(now.of_share)[0] > -1e-9 * now.n_raters
        back = now.by_share @ (np.linalg.pinv(now.of_share) @ now.pull)
        pulled = replace(now, gradient=now.gradient + back.reshape(now.theta.shape))
        step, newton = super().step(pulled if hill else now)
        return step, newton and bool(hill)

    def _logits(self, now: Division, step: Floats) -> Floats:
        """How the shares move with theta."""
        return np.asarray(np.linalg.pinv(now.of_share) @ (now.pull + now.by_share.T @ step.ravel()))

    def _length(self, now: Division, step: Floats) -> float:
        return max(super()._length(now, step), float(np.max(np.abs(self._logits(now, step)))))

    def _moved(self, now: Division, step: Floats) -> Division:
        full, newton = self.step(now)
        if newton:
            at = float(np.vdot(step, full) / max(float(np.vdot(full, full)), 1e-300))
            logits = at * self._logits(now, full)
        else:
            # EM's shares.
            total = now.pull + (now.n_raters + len(now.share)) * now.share
            logits = np.log(total / now.share) - np.log(now.n_raters + len(now.share))
        share = now.share * np.exp(logits - logits.max())
        return self.at(now.theta + step, share / share.sum())


def _camp_pass(
    part: Part, priors: Priors, camps: Floats, share: Floats, camp: int, theta: Floats
) -> tuple[float | Floats, ...]:
    """As `part_pass`, and the sums of `part_em`, each rater counted as a member of one camp."""
    membership = _belongs(part, priors, camps, share)[2]
    flat = replace(priors, a=1.0, b=0.0, estimated=False)
    objective = Marginal(part.triples, flat, copies=membership[:, camp])
    point = objective.at(theta, np.empty(0))
    passes = objective.passes
    sums = point.value, point.gradient, passes.curvature(point), passes.total_weight
    return *sums, *objective.em_sums


class CampDensity(Summed):
    """The log-density of the ranking of one camp's members, who are in parts."""

    def __init__(self, parts: Parts, priors: Priors, division: Division, camp: int) -> None:
        super().__init__(parts, priors, "marginal")
        self._division, self._camp = division, camp

    def _summed(self, theta: Floats) -> tuple[Any, ...]:
        camps = self._division.theta, self._division.share, self._camp
        return self.parts.summed(_camp_pass, self.priors, *camps, theta)

    def _sums(self, theta: Floats) -> tuple[Any, ...]:
        return self._summed(theta)[:4]

    def _em_sums(self, theta: Floats) -> tuple[Any, ...]:
        return self._summed(theta)[4:]


def _shares(told: Floats, share: Floats, copies: Floats) -> tuple[Floats, Floats, float]:
    """Shares at their best for these log-likelihoods (raters x camps), by EM; memberships.

    One rater for each camp is put to the counts, so that no share falls to zero.
    """
    top = told.max(axis=1, keepdims=True)
    by = np.exp(told - top)
    n, camps = float(copies.sum()), told.shape[1]
    for _ in range(500):
        joint = by * share
        membership = joint / joint.sum(axis=1, keepdims=True)
        new = (copies @ membership + 1.0) / (n + camps)
        moved = float(np.max(np.abs(new - share)))
        share = new
        if moved < 1e-13:
            break
    joint = np.maximum(by * share, 1e-300)
    total = joint.sum(axis=1, keepdims=True)
    value = float(copies @ (np.log(total[:, 0]) + top[:, 0])) + float(np.sum(np.log(share)))
    return share, joint / total, value


def _splits(axis: Axis) -> list[Floats]:
    """Groups of raters by where they stand: halves, or a fifth at an end.

    A camp that prefers nearly the reverse shows along the ranking itself, as low agreement.
    """
    cuts = [(axis.raters, share) for share in (0.5, 0.2, 0.8)]
    cuts += [(axis.agreement, share) for share in (0.5, 0.2)]
    return [(stand > np.quantile(stand, share)).astype(np.float64) for stand, share in cuts]


def _criterion(now: Division, answers: float) -> float:
    """The Bayesian information criterion, with the answers as the sample."""
    n, k = now.theta.shape
    return -2.0 * now.likelihood + (n * (k - 1) + n - 1) * log(answers)


def _answers(triples: Triples) -> float:
    """The sample of the criterion."""
    return max(float(triples.weight.sum()), 2.0)


def _stacked(triples: Triples, n: int) -> Triples:
    """The triples once for each camp, as if raters and items of each camp were different ones."""
    start = np.concatenate([triples.start[:-1] + c * triples.size for c in range(n)])
    shift = np.repeat(np.arange(n, dtype=np.int32) * triples.n_items, triples.size)
    return Triples(
        np.append(start, n * triples.size), np.tile(triples.winner, n) + shift,
        np.tile(triples.loser, n) + shift, np.tile(triples.weight, n), n * triples.n_items,
    )  # fmt: skip


@dataclass(slots=True, eq=False)
class Camps:
    """A division with the priors that it is under, and the population if these are estimated."""

    division: Division
    priors: Priors
    population: Population | None = None
    #: How many camps the criterion asks for, where more were wanted.
    supported: int | None = None

    @property
    def n(self) -> int:
        """How many camps there are."""
        return int(self.division.theta.shape[0])


def _settled(triples: Triples, now: Division, eta: Floats, goal: float) -> Camps:
    """The division and the population of its raters, estimated in turn.

    Not to the end where the criterion will stay above ``goal``: it falls by less each round.
    """
    hold, answers = is_sparse(triples), _answers(triples)
    n, stack, log_det = now.theta.shape[0], _stacked(triples, now.theta.shape[0]), None
    for _ in range(ROUNDS):
        before = _criterion(now, answers)
        copies = now.membership.T.ravel()
        members = np.flatnonzero(copies > NEGLIGIBLE)
        # Each camp at the level that the prior gives its items.
        level = np.log(np.exp(eta[0]) / RATE) - np.log(np.mean(np.exp(now.theta), axis=1))
        theta = (now.theta + level[:, None]).ravel()
        population, same, log_det = estimate_again(
            some_raters(stack, members), copies[members], theta, eta, hold=hold, log_det=log_det
        )
        eta, mixture = population.eta, Mixture(triples, population.priors, n)
        now = mixture.climb(mixture.at(now.theta, now.share), 1e-8)[0]
        after = _criterion(now, answers)
        if same or after - goal > 2.0 * max(before - after, 0.0):
            break
    return Camps(now, population.priors, population)


def _plain(triples: Triples, theta: Floats, copies: Floats) -> Floats:
    """The ranking of some raters without rater quality, at the level of another one."""
    plain = Joint(triples, Priors(), fixed=True, copies=copies)
    found = solve_newton(plain, theta, np.ones(triples.n_raters), 1e-2).theta
    return np.asarray(found + theta.mean() - found.mean())


def _more_camps(
    triples: Triples, priors: Priors, now: Division, axes: list[Axis]
) -> Division | None:
    """The best division with one camp more, from the ends of the axis of each camp.

    None: along each axis all raters but a part of one stand at the same end.
    """
    n = now.theta.shape[0]
    mixture = Mixture(triples, priors, n + 1)
    tried = []
    for camp, axis in enumerate(axes):
        rest, others = np.delete(now.theta, camp, axis=0), np.delete(now.share, camp)
        for split in _splits(axis):
            # Each part by its own plain ranking: as a part of the whole it may look like guessing.
            parts = [now.membership[:, camp] * part for part in (1.0 - split, split)]
            sizes = [float(part.mean()) for part in parts]
            if min(sizes) * triples.n_raters < 1.0:
                continue
            theta = [_plain(triples, now.theta[camp], part) for part in parts]
            start = mixture.at(np.vstack((rest, *theta)), np.append(others, sizes))
            tried.append(mixture.climb(start, 1e-2, TRIES)[0])
    if not tried:
        return None
    best = max(tried, key=lambda division: division.value)
    return mixture.climb(mixture.at(best.theta, best.share), 1e-3)[0]


def search(
    triples: Triples, priors: Priors, theta: Floats, axis: Axis | None, wanted: int | None
) -> Camps:
    """As many camps as the criterion asks for, or ``wanted``; ``theta`` is the one ranking.

    Estimated ``priors`` are estimated again for each number of camps: raters of another camp are
    no guessers.
    """
    mixture = Mixture(triples, priors, 1)
    one = mixture.climb(mixture.at(theta[None, :], np.ones(1)), 1e-3)[0]
    now = Camps(one, priors)
    if axis is None:
        return now
    axes, answers = [axis], _answers(triples)
    usual = priors_of(CENTRE) if priors.estimated else priors
    most = min(MOST_CAMPS if wanted is None else wanted, MOST_PARAMETERS // triples.n_items)
    supported = None
    while now.n < most:
        division = _more_camps(triples, usual, now.division, axes)
        if division is None:
            break
        more, before = Camps(division, priors), _criterion(now.division, answers)
        if priors.estimated:
            begin = CENTRE if now.population is None else now.population.eta
            if is_sparse(triples):
                begin = np.append(log(priors.a), begin[1:])
            goal = before - LEAST_GAIN if wanted is None else inf
            more = _settled(triples, division, begin, goal)
        division = more.division
        counted = np.bincount(division.membership.argmax(axis=1), minlength=more.n)
        gain = before - _criterion(division, answers)
        if gain < LEAST_GAIN or counted.min() < LEAST_RATERS:
            if wanted is None:
                break
            supported = now.n if supported is None else supported
        now, mixture = more, Mixture(triples, more.priors, more.n)
        now.division = mixture.at(division.theta, division.share)
        axes = [mixture.axis(now.division, camp) for camp in range(now.n)]
    now.supported = now.n if supported is None else supported
    return now


def divided(
    triples: Triples | Parts, items: tuple[str, ...], found: Optimum, wanted: int | None, tol: float
) -> Optimum:
    """The optimum with its raters divided into camps, where they are to be.

    ``wanted`` is a number of camps, None as many as the criterion asks for. The number is found on
    a part of the raters where there are very many; the division is of all.
    """
    priors = found.priors
    if not isinstance(priors, Priors):
        raise UsageError("camps are defined for model='bbq' alone; use camps=1")
    axis = screen(triples)
    if axis is None or (wanted is None and not axis.fires):
        if wanted is not None and axis is None:
            raise UsageError(
                f"camps={wanted}: camps are searched for among {2 * LEAST_RATERS} raters or more, "
                f"with 3 to {MOST_PARAMETERS // 2} items, and here are {triples.n_raters:,} raters "
                f"and {triples.n_items:,} items; use camps=1"
            )
        return replace(found, axis=axis)
    if priors.flat_items:
        priors = replace(priors, a=Priors().a, b=Priors().b)
    part = few_raters(triples, MOST_TRIPLES)
    if in_blocks(part) is not part:
        # So many items, and raters with hardly an answer: who stands where cannot be held.
        return replace(found, axis=axis)
    camps = search(part, priors, found.theta, axis if part is triples else screen(part), wanted)
    found = replace(found, axis=axis)
    if wanted is not None and camps.n < wanted:
        text = f"camps={wanted} was asked for, but no more than {camps.n} could be distinguished"
        found = replace(found, warnings=(*found.warnings, text))
    if camps.n == 1:
        return found
    found = replace(found, priors=camps.priors, population=camps.population)
    near = camps.division
    found = settled(in_blocks(triples), items, found, near.theta, near.share, tol)
    if wanted is None:
        return found
    return _as_asked(found, wanted, camps.supported if axis.fires else 1)


def _as_asked(found: Optimum, asked: int | None, supported: int | None) -> Optimum:
    """The optimum, with how many camps were asked for and how many the answers ask for."""
    division = replace(cast("Division", found.division), asked=asked, supported=supported)
    return replace(found, division=division)


def settled(
    triples: Triples | Parts, items: tuple[str, ...], found: Optimum, theta: Floats, share: Floats,
    tol: float,
) -> Optimum:  # fmt: skip
    """The top for all raters, from a division nearby; the largest camp comes first."""
    priors, n = found.priors, theta.shape[0]
    if not isinstance(priors, Priors):
        raise UsageError("camps are defined for model='bbq' alone; use camps=1")
    mixture = (
        PartedMixture(triples, priors, n)
        if isinstance(triples, Parts)
        else Mixture(triples, priors, n)
    )
    now, trace = mixture.climb(mixture.at(theta, share), tol)
    size = now.size
    best = [items[i] for i in now.theta.argmax(axis=1)]
    order = sorted(range(n), key=lambda c: (-round(float(size[c]), 9), best[c]))
    now = mixture.at(now.theta[order], now.share[order])
    error = float(np.max(np.abs(mixture.step(now)[0])))
    if isinstance(triples, Blocks):
        told = triples.each(members_of, priors, now.theta, now.share)
        membership, quality = (np.concatenate(column) for column in zip(*told, strict=True))
        now = replace(now, membership=membership, quality=quality)
    population = found.population
    if population is not None:
        k = len(items)
        slope = population.slope.reshape(n, k, -1)[order].reshape(n * k, -1)
        population = replace(population, slope=slope, theta=now.theta.ravel())
    return replace(
        found, theta=now.size @ now.theta, quality=now.quality, trace=trace, error=error,
        population=population, division=now,
    )  # fmt: skip


def followed(
    triples: Triples, items: tuple[str, ...], last: Division, known: tuple[str, ...],
    found: Optimum, tol: float,
) -> Optimum:  # fmt: skip
    """The same camps after answers came and went; ``known`` are the items of the ``last`` division.

    A new item begins between the others in every camp.
    """
    place = {name: i for i, name in enumerate(known)}
    at = np.array([place.get(name, -1) for name in items])
    theta = np.where(at >= 0, last.theta[:, at], last.theta.mean(axis=1, keepdims=True))
    population = found.population
    if population is not None:
        slope = population.slope.reshape(len(theta), len(known), -1)[:, at]
        slope[:, at < 0] = 0.0
        population = replace(population, slope=slope.reshape(theta.size, -1))
    found = replace(found, population=population)
    found = settled(triples, items, found, theta, last.share, tol)
    return _as_asked(found, last.asked, last.supported)


def refit(triples: Triples, priors: Priors, now: Division, copies: Floats) -> tuple[Floats, Floats]:
    """Sizes and theta of the camps with each rater counted ``copies`` times, from a division on."""
    mixture = Mixture(triples, priors, now.theta.shape[0], copies)
    found = mixture.climb(mixture.at(now.theta, now.share), 1e-5)[0]
    return copies @ found.membership / max(float(copies.sum()), 1e-300), found.theta


class Surprise:
    """Whether new answers fit worse than the fit by which camps were last examined expects.

    Of a win with probability p it expects p log p + (1 - p) log(1 - p) nats. A rater who is not
    known is a typical one, in any of the camps.
    """

    def __init__(self, fit: Fit) -> None:
        self._item = {name: i for i, name in enumerate(fit.items)}
        self._rater = {name: r for r, name in enumerate(fit.raters)}
        self._theta = fit.camp_theta
        self._belongs = np.vstack((fit.membership, fit.membership.mean(axis=0)))
        self._quality = np.append(fit.quality, fit.quality.mean())
        self._total = self._variance = 0.0

    def take(
        self, raters: Sequence[str], winners: Sequence[str], losers: Sequence[str], weight: Floats
    ) -> None:
        """Take in wins; those of items that the fit has not seen say nothing."""
        won, lost = (
            np.array([self._item.get(name, -1) for name in side], np.int64)
            for side in (winners, losers)
        )
        who = np.array([self._rater.get(name, -1) for name in raters], np.int64)
        known = (won >= 0) & (lost >= 0)
        won, lost, who, weight = won[known], lost[known], who[known], weight[known]
        gap = self._theta[:, won] - self._theta[:, lost]
        s = np.einsum("nc,cn->n", self._belongs[who], 0.5 * np.tanh(0.5 * gap))
        p = np.clip(0.5 + self._quality[who] * s, 1e-9, 1.0 - 1e-9)
        odds = np.log(p) - np.log1p(-p)
        self._total += float(weight @ ((1.0 - p) * odds))
        self._variance += float(weight**2 @ (p * (1.0 - p) * odds**2))

    @property
    def worse(self) -> bool:
        """Whether it is worse by more than chance."""
        return self._total < WORSE * sqrt(max(self._variance, 1.0))
