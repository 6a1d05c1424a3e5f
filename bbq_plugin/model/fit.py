"""``fit``: from comparisons to the optimum of a model; ``Fit``: what can be asked of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from bbq_plugin.data.aggregate import Triples
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.errors import UnsupportedError, UsageError
from bbq_plugin.model.bbq import Floats, Joint
from bbq_plugin.model.kernels import likelihood as kernels
from bbq_plugin.model.kernels import quadrature
from bbq_plugin.model.marginal import Marginal, ThetaDensity, theta_density
from bbq_plugin.model.population import MOST_ITEMS, Population, estimate_priors
from bbq_plugin.model.priors import CrowdPriors, Priors
from bbq_plugin.model.sampling import Draws, gibbs, metropolis, whole_weights
from bbq_plugin.model.signed import Signed, SignedPriors, signed_density
from bbq_plugin.model.solvers import Solution, solve_em, solve_newton, with_level
from bbq_plugin.threads import run_chunks

if TYPE_CHECKING:
    from bbq_plugin.model.crowd import CrowdBT

__all__ = [
    "LARGEST_COVARIANCE",
    "Fit",
    "Laplace",
    "Model",
    "RaterPosterior",
    "Solver",
    "check_choices",
    "check_priors",
    "crowd_of",
    "fit",
    "joint_of",
    "multiplicities",
    "optimum_at",
    "rater_posterior",
    "resampled",
    "warnings_of",
]

Model = Literal["bbq", "bbq-signed", "bayes-bt", "crowd-bt"]

Solver = Literal["auto", "em"]


def check_choices(model: str, solver: str, tol: float) -> None:
    """Refuse what no fit can be asked for."""
    for name, value, choices in (
        ("model", model, get_args(Model)),
        ("solver", solver, get_args(Solver)),
    ):
        if value not in choices:
            raise UsageError(f"{name}={value!r}: expected one of {', '.join(choices)}")
    if not 0 < tol < 1:
        raise UsageError(f"tol={tol!r}: expected nats above 0 and below 1, such as 1e-6")


def check_priors(model: Model, priors: Priors | SignedPriors | str) -> None:
    """Refuse priors that a model does not have."""
    if isinstance(priors, str) and priors not in ("paper", "auto"):
        raise UsageError(f"priors={priors!r}: expected 'paper', 'auto' or a Priors")
    usual = priors in (Priors(), "paper")
    if model == "bbq-signed" and not (usual or isinstance(priors, SignedPriors)):
        raise UsageError(
            "bbq-signed has priors of its own, which are not estimated: leave priors out "
            "(in Python SignedPriors may be given), or fit model='bbq'"
        )
    if model != "bbq-signed" and isinstance(priors, SignedPriors):
        raise UsageError(f"SignedPriors belong to model='bbq-signed', not to {model!r}")
    if model == "crowd-bt" and not usual:
        raise UsageError("crowd-bt has priors of its own (Chen et al. 2013); leave priors out")


def warnings_of(data: Comparisons, model: Model) -> list[str]:
    """What is to be known about these data, whatever comes out."""
    warnings = _connection_warnings(data)
    if model == "bbq" and not data.has_raters:
        warnings.append("no rater is known: fitted without rater quality, as bayes-bt")
    return warnings


def _connection_warnings(data: Comparisons) -> list[str]:
    """Groups of items that nobody compared with each other."""
    t = data.triples
    group = kernels.groups(t.winner, t.loser, t.n_items)
    labels, sizes = np.unique(group, return_counts=True)
    if labels.size < 2:
        return []
    examples = []
    for label, size in zip(labels[:4], sizes[:4], strict=True):
        some = ", ".join(data.items[i] for i in np.flatnonzero(group == label)[:3])
        examples.append(f"{{{some}, …}}" if size > 3 else f"{{{some}}}")
    shown = " | ".join(examples) + (" | …" if labels.size > 4 else "")
    return [
        (
            f"the items fall into {labels.size} groups that were never compared with each other: "
            f"{shown}; ratings across groups rest on the prior alone"
        )
    ]


@dataclass(frozen=True, slots=True, eq=False)
class RaterPosterior:
    """Of each rater: mean and interval of quality, P(quality below a threshold), P(guesser)."""

    mean: Floats
    lower: Floats
    upper: Floats
    p_below: Floats
    p_guesser: Floats  # zero throughout when the priors know no guessers


def rater_posterior(
    triples: Triples, priors: Priors, theta: Floats, level: float, threshold: float
) -> RaterPosterior:
    """Integrate each rater's quality at ``theta``, by the same rule as the fit."""
    density = Marginal(triples, priors)
    density.at(theta, np.empty(0))
    s, t = density.passes.standing(theta), triples
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    ends, below = np.empty((t.n_raters, 2)), np.empty(t.n_raters)

    def work(first: int, last: int) -> None:
        common = (first, last, t.start, t.weight, s, density.parts, density.tops)
        quadrature.quality_quantiles(*common, tails, ends)
        quadrature.quality_below(*common, threshold, below)

    run_chunks(work, density.passes.chunks)
    summary = density.summary
    return RaterPosterior(summary[:, 0], ends[:, 0], ends[:, 1], below, summary[:, 2])


def multiplicities(n_raters: int, n: int, seed: int) -> Floats:
    """How often each rater was drawn, for ``n`` resamples of as many raters as there are."""
    rng = np.random.default_rng(seed)
    even = np.full(n_raters, 1.0 / n_raters)
    return rng.multinomial(n_raters, even, size=n).astype(np.float64)


def resampled(triples: Triples, refit: Callable[[Floats], Floats], n: int, seed: int) -> Floats:
    """theta of each resample, by rows; ``refit(copies)`` fits with each rater counted so often."""
    out = np.empty((n, triples.n_items))
    for row, copies in enumerate(multiplicities(triples.n_raters, n, seed)):
        out[row] = refit(copies)
    return out


LAPLACE_TOLERANCE = 1e-4  # nats, of which the last step leaves the square

_OTHER_INTERVALS = "use intervals='laplace' or 'bootstrap', or fit model='bbq'"

LARGEST_COVARIANCE = 4096  # items; beyond, one K x K matrix is a gigabyte and more


@dataclass(frozen=True, slots=True, eq=False)
class Laplace:
    """The Gaussian that the posterior of theta looks like near its top, q integrated out."""

    mean: Floats
    covariance: Floats


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
    priors: Priors | SignedPriors | CrowdPriors
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
        """Whether the model has a quality for each rater."""
        return self.model != "bayes-bt" and self.data.has_raters

    def __repr__(self) -> str:
        return (
            f"<Fit {self.model}: {len(self.items)} items, {len(self.raters)} raters, "
            f"{self.data.n_comparisons} comparisons, {self.priors}>"
        )

    @property
    def _triples(self) -> Triples:
        return self.data.triples if self.rated else self._pooled

    @cached_property
    def _pooled(self) -> Triples:
        return self.data.triples.without_raters()

    def _given_priors(self, what: str, instead: str = "fit model='bbq'") -> Priors:
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
        if isinstance(self.priors, CrowdPriors):
            crowd = crowd_of(self.data.triples)
            curvature = crowd.curvature(self.theta, 0.5 * (1.0 + self.quality))
            return Laplace(self.theta, _inverse(curvature))
        if isinstance(self.priors, SignedPriors):
            signed = signed_density(self._triples, self.priors)
            top = solve_newton(signed, self.theta, self.quality, LAPLACE_TOLERANCE)
            return Laplace(top.theta, _inverse(signed.passes.curvature(top.point)))
        density = theta_density(self._triples, self.priors, fixed=not self.rated)
        start = self.quality if self.rated else np.ones(1)
        found = solve_newton(density, self.theta, start, LAPLACE_TOLERANCE)
        curvature = density.passes.curvature(found.point)
        covariance = _inverse(with_level(curvature, flat=self.priors.flat_items))
        if self.priors.flat_items:
            # Only differences are known: what was added to pin the level is taken out again.
            middle = np.eye(k) - 1.0 / k
            covariance = middle @ covariance @ middle
        if self.population is not None:
            slope = self.population.slope
            covariance = covariance + slope @ self.population.covariance @ slope.T
        return Laplace(found.theta, covariance)

    def theta_density(self) -> ThetaDensity | None:
        """The log-density of theta with quality integrated out; crowd-bt has none.

        Of bbq-signed it has quality at its best.
        """
        if isinstance(self.priors, CrowdPriors):
            return None
        if isinstance(self.priors, SignedPriors):
            return signed_density(self._triples, self.priors)
        return theta_density(self._triples, self.priors, fixed=not self.rated)

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
        if n < 8:
            raise UsageError(f"sample(n={n}): at least 8 draws, else nothing can be said of mixing")
        priors = self._given_priors("sample() (intervals='posterior')", _OTHER_INTERVALS)
        if priors.flat_items:
            raise UnsupportedError(
                "without a prior on the items (a = 1, b = 0) there is no posterior to sample; "
                "use intervals='laplace' or 'bootstrap', or give a > 1"
            )
        triples, fixed = self._triples, not self.rated
        if method == "auto":
            suits = not priors.estimated and whole_weights(triples)
            method = "gibbs" if suits else "metropolis"
        if method == "gibbs":
            if not whole_weights(triples):
                raise UnsupportedError(
                    "the Gibbs sampler needs whole weights, and these data have fractions "
                    "(ties or broken rankings); use method='metropolis'"
                )
            quality = self.quality if self.rated else np.ones(1)
            draws = gibbs(
                triples,
                priors,
                self.theta,
                quality,
                n,
                seed,
                fixed=fixed,
                keep_quality=keep_quality,
            )
        else:
            centre, covariance = self._joint_laplace()
            draws = metropolis(
                triples, priors, centre, covariance, n, seed, fixed=fixed, keep_quality=keep_quality
            )
        return draws

    def _joint_laplace(self) -> tuple[Floats, Floats]:
        """Centre and covariance of theta and, when it was estimated, the population's eta."""
        laplace, population = self.laplace, self.population
        if population is None:
            return laplace.mean, laplace.covariance
        both = population.slope @ population.covariance
        return (
            np.concatenate((laplace.mean, population.eta)),
            np.block([[laplace.covariance, both], [both.T, population.covariance]]),
        )

    def bootstrap(self, n: int = 1000, seed: int = 0) -> Floats:
        """theta of ``n`` resamples of raters (rows), each fitted from this fit on."""
        if not self.data.has_raters:
            raise UnsupportedError(
                "a bootstrap over raters needs raters, and these data have none; "
                "use intervals='laplace' or 'posterior'"
            )
        if len(self.raters) < 2:
            raise UnsupportedError(
                "a bootstrap over raters needs at least two raters, and these data have one; "
                "use intervals='laplace' or 'posterior'"
            )
        return resampled(self.data.triples, self._refit, n, seed)

    def theta_without(self, raters: Sequence[int]) -> Floats:
        """theta as it would be without these raters (places in ``raters``); the priors stay."""
        copies = np.ones(self.data.triples.n_raters)
        copies[list(raters)] = 0.0
        return self._refit(copies)

    def _refit(self, copies: Floats) -> Floats:
        """theta with each rater counted ``copies`` times; the priors stay as they are."""
        triples, fixed = self.data.triples, not self.rated
        if isinstance(self.priors, CrowdPriors):
            here = self.theta, 0.5 * (1.0 + self.quality)
            return crowd_of(triples, copies).solve(1e-5, here)[0]
        if isinstance(self.priors, SignedPriors):
            signed = Signed(triples, self.priors, copies=copies)
            return solve_newton(signed, self.theta, self.quality, 1e-6).theta
        quality = self.quality if self.rated else np.ones(triples.n_raters)
        if self.priors.estimated:
            density = theta_density(triples, self.priors, fixed=fixed, copies=copies)
            return solve_newton(density, self.theta, quality, 1e-5).theta
        return solve_newton(
            joint_of(triples, self.priors, fixed=fixed, copies=copies), self.theta, quality, 1e-6
        ).theta

    def paper_posterior(self) -> tuple[Floats, Floats]:
        """Shape and rate of the paper's Gamma for each skill, the latents at their expectation.

        It takes the other skills and every quality as known, hence its intervals are too narrow.
        """
        priors = self._given_priors("the paper's posterior (intervals='paper')", _OTHER_INTERVALS)
        quality = self.quality if self.rated else np.ones(1)
        wins, draw = joint_of(self._triples, priors, fixed=not self.rated).em_sums(
            self.theta, quality
        )
        return priors.a + wins, priors.b + draw / np.exp(self.theta)

    def rater_posterior(self, level: float = 0.95, threshold: float = 0.5) -> RaterPosterior:
        """The posterior of each rater's quality, theta at its mode."""
        return self.rater_posterior_under(
            self._given_priors("the posterior of quality"), level, threshold
        )

    def rater_posterior_under(
        self, priors: Priors, level: float = 0.95, threshold: float = 0.5
    ) -> RaterPosterior:
        """The same, had the raters come from another population."""
        if not self.rated:
            raise UnsupportedError(f"{self.model} has no rater quality; fit model='bbq'")
        return rater_posterior(self.data.triples, priors, self.theta, level, threshold)


def crowd_of(triples: Triples, copies: Floats | None = None) -> CrowdBT:
    """The log-posterior of Crowd-BT."""
    # scipy's optimiser and sparse matrices, which only this baseline needs, load slowly
    from bbq_plugin.model.crowd import CrowdBT  # noqa: PLC0415

    return CrowdBT(triples, copies)


def _inverse(matrix: Floats) -> Floats:
    inverse = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    return 0.5 * (inverse + inverse.T)


def joint_of(
    triples: Triples, priors: Priors, *, fixed: bool, copies: Floats | None = None
) -> Joint:
    """The paper's log-posterior, each rater counted ``copies`` times."""
    return Joint(triples, priors.a, priors.b, priors.alpha, priors.beta, fixed=fixed, copies=copies)


def optimum_at(found: Fit, theta: Floats) -> tuple[Floats, float]:
    """Quality of each rater at this theta, and the height of the log-posterior there."""
    priors, triples = found._given_priors("quality at theta"), found._triples
    joint = joint_of(triples, priors, fixed=not found.rated)
    objective: Joint | ThetaDensity = joint
    if priors.estimated:
        objective = theta_density(triples, priors, fixed=not found.rated)
    point = objective.at(theta, joint.usual_quality())
    return point.quality, point.value


def fit(
    data: Comparisons,
    model: Model = "bbq",
    priors: Priors | SignedPriors | Literal["paper", "auto"] = Priors(),  # noqa: B008 (frozen)
    solver: Solver = "auto",
    tol: float = 1e-6,
) -> Fit:
    """Fit a model to comparisons.

    ``model``: ``bbq``, ``bbq-signed`` (raters may answer upside down), ``bayes-bt`` (every quality
    1) or ``crowd-bt``. ``priors``: the paper's by default (bbq-signed has its own, and takes
    ``SignedPriors``), any ``Priors``, also those that were estimated for another fit, or ``"auto"``
    to estimate them from the data. ``solver``: ``auto`` (Newton guarded by EM) or ``em`` (the
    paper's closed-form steps). ``tol``: the distance to the optimum, in nats of theta, that the
    gradient may still imply; not reaching it is an error.
    """
    check_choices(model, solver, tol)
    check_priors(model, priors)
    if priors == "paper":
        priors = Priors()
    warnings = warnings_of(data, model)
    if model == "bbq-signed" or isinstance(priors, SignedPriors):
        own = priors if isinstance(priors, SignedPriors) else SignedPriors()
        return _fit_signed(data, own, solver, tol, warnings)
    if model == "crowd-bt":
        return _fit_crowd(data, solver, tol, warnings)
    if isinstance(priors, Priors) and priors.guessers and not priors.estimated:
        raise UsageError(
            "a two-part population (guessers > 0) is estimated, not given: use priors='auto'"
        )
    if priors == "auto" and len(data.items) > MOST_ITEMS:
        priors = Priors()
        warnings.append(
            f"with more than {MOST_ITEMS:,} items priors are not estimated: the paper's were used"
        )
    rated = model == "bbq" and data.has_raters
    triples = data.triples if rated else data.triples.without_raters()
    estimated = not isinstance(priors, Priors) or priors.estimated
    if estimated and solver == "em":
        raise UsageError("solver='em' is the paper's, under given priors; use solver='auto'")
    given = Priors() if estimated or not isinstance(priors, Priors) else priors
    first = joint_of(triples, given, fixed=not rated)
    population = None
    if not isinstance(priors, Priors):
        found, population = _fit_auto(first, triples, tol, fixed=not rated)
        priors = population.priors
    elif priors.estimated:
        # Those of another fit: taken as they are, quality integrated out as it was there.
        density = theta_density(triples, priors, fixed=not rated)
        found = solve_newton(density, *first.start(), tol)
    else:
        found = (solve_em if solver == "em" else solve_newton)(first, *first.start(), tol)
    quality = found.quality if rated else np.ones(len(data.raters))
    return Fit(
        data=data, model=model, solver=solver, priors=priors, theta=found.theta, quality=quality,
        trace=np.array(found.trace), error=found.error, converged=True, warnings=tuple(warnings),
        population=population,
    )  # fmt: skip


def _fit_auto(
    first: Joint, triples: Triples, tol: float, *, fixed: bool
) -> tuple[Solution, Population]:
    guess = solve_newton(first, *first.start(), 1e-3)
    population = estimate_priors(triples, guess.theta, fixed=fixed)
    density = theta_density(triples, population.priors, fixed=fixed)
    return solve_newton(density, population.theta, guess.quality, tol), population


def _fit_signed(
    data: Comparisons, priors: SignedPriors, solver: Solver, tol: float, warnings: list[str]
) -> Fit:
    if not data.has_raters:
        raise UsageError("bbq-signed needs raters, and these data have none; fit model='bayes-bt'")
    signed = Signed(data.triples, priors)
    theta, quality = signed.start()
    if solver == "em":
        found = solve_em(signed, theta, signed.split(quality), tol)
        quality = found.quality[:, 0] - found.quality[:, 2]
    else:
        found = solve_newton(signed, theta, quality, tol)
        quality = found.quality
    return Fit(
        data=data, model="bbq-signed", solver=solver, priors=priors, theta=found.theta,
        quality=quality, trace=np.array(found.trace), error=found.error, converged=True,
        warnings=tuple(warnings),
    )  # fmt: skip


def _fit_crowd(data: Comparisons, solver: Solver, tol: float, warnings: list[str]) -> Fit:
    if solver == "em":
        raise UsageError("crowd-bt has no EM; use solver='auto'")
    if not data.has_raters:
        raise UsageError("crowd-bt needs raters, and these data have none; fit model='bayes-bt'")
    if len(data.items) > LARGEST_COVARIANCE:
        raise UnsupportedError(
            f"crowd-bt, a baseline, is built for up to {LARGEST_COVARIANCE} items; fit model='bbq'"
        )
    crowd = crowd_of(data.triples)
    theta, eta, trace = crowd.solve(tol)
    return Fit(
        data=data, model="crowd-bt", solver=solver, priors=CrowdPriors(), theta=theta,
        quality=2.0 * eta - 1.0, trace=np.array(trace), error=crowd.error(theta, eta),
        converged=True, warnings=tuple(warnings),
    )  # fmt: skip
