"""How fragile the first place is: the fewest comparisons, and raters, without which it changes.

A comparison pushes the gap between the first item i and another one j by the influence function

    push (a_winner - a_loser),   a = V (e_i - e_j)

push being its score and V the model's covariance under its priors; a rater by the sum over theirs.
Those that hold the first item up most are left out, one after the other, until another item is
first. That is greedy and takes the fit as linear, hence it is verified: the model is fitted again
without them (priors, and the effects of covariates, stay as they are), and their number corrected
by what came out. The result is an upper bound: some other set may be smaller.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from bbq_plugin.data.triples import Codes, Floats, triple_of
from bbq_plugin.errors import ConvergenceError
from bbq_plugin.model import Fit, Priors
from bbq_plugin.model.objectives import LARGEST_COVARIANCE, Joint, theta_density
from bbq_plugin.model.solvers import solve_newton

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


class _Study:
    """The answers of a fit, what each of them pushes, and fits without some of them."""

    def __init__(self, fit: Fit) -> None:
        self.fit, t = fit, fit.wins
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
        return solve_newton(objective, fit.theta, quality, 1e-4).theta

    def fewest(self, gaps: Any, weights: Any) -> tuple[int, str, Codes] | None:
        """The smallest set found: how many, which item is first without it, and what is in it."""
        theta = self.fit.theta
        others = [i for i in np.argsort(-theta).tolist() if i != self.first]
        lines = []
        for other in others:
            found = gaps(other)
            order = np.argsort(-found, kind="stable")
            moved = np.cumsum(np.maximum(found[order], 0.0))
            needed = int(np.searchsorted(moved, theta[self.first] - theta[other])) + 1
            lines.append((needed, other, order, moved))
        lines.sort(key=lambda line: line[0])
        best: tuple[int, str, Codes] | None = None
        for needed, other, order, moved in lines[:CHALLENGERS]:
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
