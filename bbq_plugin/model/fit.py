"""``fit``: from comparisons to the optimum of a model; ``Fit``: what can be asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol, get_args

import numpy as np

from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.triples import Floats, Triples, run_chunks
from bbq_plugin.errors import UnsupportedError, UsageError
from bbq_plugin.model.bbq import BBQModel
from bbq_plugin.model.crowd import CrowdModel
from bbq_plugin.model.kernels import likelihood as kernels
from bbq_plugin.model.kernels import quadrature
from bbq_plugin.model.objectives import (
    LARGEST_COVARIANCE,
    Joint,
    Marginal,
    Objective,
    theta_density,
)
from bbq_plugin.model.population import Population
from bbq_plugin.model.priors import AnyPriors, Priors, SignedPriors
from bbq_plugin.model.signed import SignedModel
from bbq_plugin.model.solvers import Laplace, Optimum

if TYPE_CHECKING:
    from bbq_plugin.model.sampling import Draws

Model = Literal["bbq", "bbq-signed", "bayes-bt", "crowd-bt"]
Solver = Literal["auto", "em"]
_OTHER_INTERVALS = "use intervals='laplace' or 'bootstrap', or fit model='bbq'"


class RatingModel(Protocol):
    """What a model does for `fit` and for a `Fit` of it."""

    solvers: tuple[str, ...]
    rated: bool  # whether each rater has a quality
    needs_raters: bool  # whether data without raters are refused
    gives_verdicts: bool  # whether raters can be judged by a fit of it
    uses_inverted: bool  # whether it uses the answers of an inverted rater in reverse

    def checked(self, priors: AnyPriors | str) -> AnyPriors | Literal["auto"]:
        """The priors as this model takes them; those that it does not have are refused."""

    def solve(self, data: Comparisons, priors: AnyPriors | str, solver: str, tol: float) -> Optimum:
        """The maximum of its log-posterior."""

    def density(self, fit: Fit) -> Objective | None:
        """The log-density of theta with quality integrated out, if it has one."""

    def laplace(self, fit: Fit) -> Laplace:
        """Mode and covariance of theta, quality integrated out."""

    def refit(self, fit: Fit, copies: Floats) -> Floats:
        """theta with each rater counted ``copies`` times; the priors stay as they are."""


#: The models by name. Sampling and the posterior of quality exist for those under `Priors`.
MODELS: dict[str, RatingModel] = {
    "bbq": BBQModel("bbq", rated=True),
    "bbq-signed": SignedModel(),
    "bayes-bt": BBQModel("bayes-bt", rated=False),
    "crowd-bt": CrowdModel(),
}


def check_choices(model: str, solver: str, tol: float) -> None:
    """Refuse what no fit can be asked for."""
    asked = (("model", model, tuple(MODELS)), ("solver", solver, get_args(Solver)))
    for name, value, choices in asked:
        if value not in choices:
            raise UsageError(f"{name}={value!r}: expected one of {', '.join(choices)}")
    if solver not in MODELS[model].solvers:
        raise UsageError(f"{model} has no EM; use solver='auto'")
    if not 0 < tol < 1:
        raise UsageError(f"tol={tol!r}: expected nats above 0 and below 1, such as 1e-6")


def check_priors(model: Model, priors: AnyPriors | str) -> None:
    """Refuse priors that a model does not have."""
    if isinstance(priors, str) and priors not in ("paper", "auto"):
        raise UsageError(f"priors={priors!r}: expected 'paper', 'auto' or a Priors")
    MODELS[model].checked(priors)


def warnings_of(data: Comparisons, model: Model) -> list[str]:
    """What is to be known about these data, whatever comes out."""
    t, warnings = data.triples, []
    group = kernels.groups(t.winner, t.loser, t.n_items)
    labels, sizes = np.unique(group, return_counts=True)
    if labels.size > 1:
        examples = []
        for label, size in zip(labels[:4], sizes[:4], strict=True):
            some = ", ".join(data.items[i] for i in np.flatnonzero(group == label)[:3])
            examples.append(f"{{{some}, …}}" if size > 3 else f"{{{some}}}")
        shown = " | ".join(examples) + (" | …" if labels.size > 4 else "")
        warnings.append(
            f"the items fall into {labels.size} groups that were never compared with each other: "
            f"{shown}; ratings across groups rest on the prior alone"
        )
    if MODELS[model].rated and not data.has_raters:
        warnings.append("no rater is known: fitted without rater quality, as bayes-bt")
    return warnings


@dataclass(frozen=True, slots=True, eq=False)
class RaterPosterior:
    """Of each rater: mean and interval of quality, P(quality below a threshold), P(guesser)."""

    mean: Floats
    lower: Floats
    upper: Floats
    p_below: Floats
    p_guesser: Floats  # zero throughout when the priors know no guessers


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """An optimum with the data it belongs to.

    ``theta`` (nats) and ``quality`` are aligned with ``items`` and ``raters``. Under given priors
    they are the joint maximum of the paper's log-posterior; under estimated priors theta is the
    maximum with quality integrated out and ``quality`` its posterior mean. Of bbq-signed,
    ``quality`` is q+ - q- in [-1, 1]. ``log_posterior`` is the last entry of ``trace``, up to the
    priors' constants.
    """

    data: Comparisons
    model: Model
    solver: Solver
    priors: AnyPriors
    theta: Floats
    quality: Floats
    trace: Floats
    error: float
    converged: bool
    warnings: tuple[str, ...]
    population: Population | None = None

    @property
    def items(self) -> tuple[str, ...]:
        """Names, aligned with ``theta``."""
        return self.data.items

    @property
    def raters(self) -> tuple[str, ...]:
        """Names, aligned with ``quality``; empty when no rater is known."""
        return self.data.raters

    @property
    def log_posterior(self) -> float:
        """The height of the optimum, up to the priors' constants."""
        return float(self.trace[-1])

    @property
    def rated(self) -> bool:
        """Whether each rater has a quality."""
        return MODELS[self.model].rated and self.data.has_raters

    def __repr__(self) -> str:
        return (
            f"<Fit {self.model}: {len(self.items)} items, {len(self.raters)} raters, "
            f"{self.data.n_comparisons} comparisons, {self.priors}>"
        )

    @cached_property
    def triples(self) -> Triples:
        """The aggregated wins as the model sees them: of all raters together where it has none."""
        return self.data.triples if self.rated else self.data.triples.without_raters()

    def given_priors(self, what: str = "this", instead: str = "fit model='bbq'") -> Priors:
        """The priors of bbq or bayes-bt; of other models ``what`` needs them is refused."""
        if not isinstance(self.priors, Priors):
            raise UnsupportedError(f"{what} is not defined for {self.model}; {instead}")
        return self.priors

    @cached_property
    def laplace(self) -> Laplace:
        """Mode and covariance of theta, rater quality (and estimated priors) taken into account."""
        k = len(self.items)
        if k > LARGEST_COVARIANCE:
            raise UnsupportedError(
                f"the covariance of {k} items is a {k} x {k} matrix, more than is sensible "
                f"(the limit is {LARGEST_COVARIANCE}); whole weights can be sampled "
                "(intervals='posterior'), ties and other fractions resampled ('bootstrap')"
            )
        return MODELS[self.model].laplace(self)

    def theta_density(self) -> Objective | None:
        """The log-density of theta with quality integrated out; crowd-bt has none.

        Of bbq-signed it has quality at its best.
        """
        return MODELS[self.model].density(self)

    def covariance(self) -> Floats:
        """Of theta, with rater quality integrated out: the inverse curvature of the posterior."""
        return self.laplace.covariance

    def sample(
        self,
        n: int = 2000,
        seed: int = 0,
        *,
        method: Literal["auto", "gibbs", "metropolis"] = "auto",
        keep_quality: bool = True,
    ) -> Draws:
        """``n`` draws of (theta, quality) from the exact posterior.

        Gibbs where it applies (given priors, whole weights), else Metropolis; under estimated
        priors Metropolis draws the population's parameters too. ``keep_quality=False`` saves the
        memory of draws x raters.
        """
        # Few fits are sampled.
        from bbq_plugin.model.sampling import gibbs, metropolis, whole_weights  # noqa: PLC0415

        if n < 8:
            raise UsageError(f"sample(n={n}): at least 8 draws, else nothing can be said of mixing")
        priors = self.given_priors("sample() (intervals='posterior')", _OTHER_INTERVALS)
        if priors.flat_items:
            raise UnsupportedError(
                "without a prior on the items (a = 1, b = 0) there is no posterior to sample; "
                "use intervals='laplace' or 'bootstrap', or give a > 1"
            )
        triples, fixed = self.triples, not self.rated
        if method == "auto":
            suits = not priors.estimated and whole_weights(triples)
            method = "gibbs" if suits else "metropolis"
        if method == "gibbs":
            if not whole_weights(triples):
                raise UnsupportedError(
                    "the Gibbs sampler needs whole weights, and these data have fractions "
                    "(ties or broken rankings); use method='metropolis'"
                )
            start = self.theta, self.quality if self.rated else np.ones(1)
            return gibbs(triples, priors, *start, n, seed, fixed=fixed, keep_quality=keep_quality)
        near = self._joint_laplace()
        return metropolis(triples, priors, *near, n, seed, fixed=fixed, keep_quality=keep_quality)

    def _joint_laplace(self) -> tuple[Floats, Floats]:
        """Centre and covariance of theta and, when it was estimated, the population's eta."""
        laplace, population = self.laplace, self.population
        if population is None:
            return laplace.mean, laplace.covariance
        both = population.slope @ population.covariance
        covariance = [[laplace.covariance, both], [both.T, population.covariance]]
        return np.concatenate((laplace.mean, population.eta)), np.block(covariance)

    def bootstrap(self, n: int = 1000, seed: int = 0) -> Floats:
        """theta of ``n`` resamples of raters (rows), each fitted from this fit on."""
        n_raters = len(self.raters) if self.data.has_raters else 0
        if n_raters < 2:
            needs = "raters, and these data have none"
            if n_raters:
                needs = "at least two raters, and these data have one"
            raise UnsupportedError(
                f"a bootstrap over raters needs {needs}; use intervals='laplace' or 'posterior'"
            )
        even = np.full(n_raters, 1.0 / n_raters)
        drawn = np.random.default_rng(seed).multinomial(n_raters, even, size=n).astype(np.float64)
        return np.array([MODELS[self.model].refit(self, copies) for copies in drawn])

    def theta_without(self, raters: Sequence[int]) -> Floats:
        """theta as it would be without these raters (places in ``raters``); the priors stay."""
        copies = np.ones(self.data.triples.n_raters)
        copies[list(raters)] = 0.0
        return MODELS[self.model].refit(self, copies)

    def paper_posterior(self) -> tuple[Floats, Floats]:
        """Shape and rate of the paper's Gamma for each skill, the latents at their expectation.

        It takes the other skills and every quality as known, hence its intervals are too narrow.
        """
        priors = self.given_priors("the paper's posterior (intervals='paper')", _OTHER_INTERVALS)
        quality = self.quality if self.rated else np.ones(1)
        joint = Joint(self.triples, priors, fixed=not self.rated)
        wins, draw = joint.e_step(self.theta, quality)[2:]
        return priors.a + wins, priors.b + draw / np.exp(self.theta)

    def rater_posterior(self, level: float = 0.95, threshold: float = 0.5) -> RaterPosterior:
        """The posterior of each rater's quality, theta at its mode, by the same rule as the fit."""
        priors = self.given_priors("the posterior of quality")
        if not self.rated:
            raise UnsupportedError(f"{self.model} has no rater quality; fit model='bbq'")
        t, density = self.triples, Marginal(self.triples, priors)
        density.at(self.theta, np.empty(0))
        common = t.start, t.weight, density.passes.standing(self.theta), density.parts, density.tops
        tails = np.array([(1 - level) / 2, (1 + level) / 2])
        ends, below = np.empty((t.n_raters, 2)), np.empty(t.n_raters)

        def work(first: int, last: int) -> None:
            quadrature.known_quality(first, last, *common, tails, threshold, ends, below)

        run_chunks(work, density.passes.chunks)
        mean, _, p_guesser = density.summary.T
        return RaterPosterior(mean, ends[:, 0], ends[:, 1], below, p_guesser)


def optimum_at(found: Fit, theta: Floats) -> tuple[Floats, float]:
    """Quality of each rater at this theta, and the height of the log-posterior there."""
    priors, triples = found.given_priors("quality at theta"), found.triples
    joint = Joint(triples, priors, fixed=not found.rated)
    objective: Objective = joint
    if priors.estimated:
        objective = theta_density(triples, priors, fixed=not found.rated)
    point = objective.at(theta, joint.prior_quality())
    return point.quality, point.value


def fit(
    data: Comparisons,
    model: Model = "bbq",
    priors: Priors | SignedPriors | Literal["paper", "auto"] = Priors(),  # noqa: B008 (frozen)
    solver: Solver = "auto",
    tol: float = 1e-6,
) -> Fit:
    """Fit a model to comparisons.

    ``model``: ``bbq``, ``bbq-signed`` (raters may be inverted), ``bayes-bt`` (every quality 1) or
    ``crowd-bt``. ``priors``: the paper's by default (bbq-signed has its own, and takes
    ``SignedPriors``), any ``Priors``, also those that were estimated for another fit, or ``"auto"``
    to estimate them from the data. ``solver``: ``auto`` (Newton guarded by EM) or ``em`` (the
    paper's closed-form steps). ``tol``: the distance to the optimum, in nats of theta, that the
    gradient may still imply; not reaching it is an error.
    """
    check_choices(model, solver, tol)
    check_priors(model, priors)
    if MODELS[model].needs_raters and not data.has_raters:
        raise UsageError(f"{model} needs raters, and these data have none; fit model='bayes-bt'")
    found = MODELS[model].solve(data, priors, solver, tol)
    return Fit(
        data=data, model=model, solver=solver, priors=found.priors, theta=found.theta,
        quality=found.quality, trace=np.array(found.trace), error=found.error, converged=True,
        warnings=(*warnings_of(data, model), *found.warnings), population=found.population,
    )  # fmt: skip
