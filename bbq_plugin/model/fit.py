"""``fit``: from comparisons to the optimum of a model; ``Fit``: what can be asked of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, get_args

import numpy as np

from bbq_plugin.data.clusters import checked_cluster
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.repeated_answers import Treatment, checked_repeats
from bbq_plugin.data.triples import Codes, Floats, Triples, run_chunks
from bbq_plugin.errors import ConvergenceError, UnsupportedError, UsageError, did_you_mean
from bbq_plugin.model.camps import MOST_CAMPS, Axis, Division, divided, followed, no_majority
from bbq_plugin.model.covariates import (
    CovariateEffect,
    Held,
    Known,
    effects_of,
    held_equal,
    known_with,
)
from bbq_plugin.model.kernels import likelihood as kernels
from bbq_plugin.model.models import BBQModel, CrowdModel, SignedModel
from bbq_plugin.model.objectives import (
    LARGEST_COVARIANCE,
    Joint,
    Marginal,
    Objective,
    Resample,
    theta_density,
)
from bbq_plugin.model.prior_estimation import Population
from bbq_plugin.model.priors import AnyPriors, Priors, SignedPriors
from bbq_plugin.model.robust import Moments, Robust, robust_covariance
from bbq_plugin.model.solvers import (
    LAPLACE_TOLERANCE,
    Laplace,
    Optimum,
    ThetaMode,
    solve_newton,
)
from bbq_plugin.model.ties import (
    TieModel,
    Ties,
    TiesUsed,
    checked_ties,
    closeness_of,
    shares_of_camps,
    tie_model,
    tie_rates,
    ties_used,
    wins_of,
)
from bbq_plugin.model.win_share import PanelSums, panel_sums
from bbq_plugin.text import MOST_HTML_ROWS, counted, html_notes, html_table, number

if TYPE_CHECKING:
    from bbq_plugin.model.sampling import Draws

Model = Literal["bbq", "bbq-signed", "bayes-bt", "crowd-bt"]
Solver = Literal["auto", "em"]
T = TypeVar("T")
EQUAL = 1e4  # alpha + beta of raters of one quality
_OTHER_INTERVALS = "use intervals='laplace' or 'bootstrap', or fit model='bbq'"


class RatingModel(Protocol):
    """What a model does for `fit` and for a `Fit` of it."""

    rated: bool  # whether each rater has a quality
    gives_verdicts: bool  # whether raters can be judged by a fit of it
    uses_inverted: bool  # whether it uses the answers of an inverted rater in reverse

    def checked(self, priors: AnyPriors | str) -> AnyPriors | Literal["auto"]:
        """The priors as this model takes them; those that it does not have are refused."""

    def solve(
        self, data: Comparisons, triples: Triples, priors: AnyPriors | str, solver: str, tol: float
    ) -> Optimum:
        """The maximum of its log-posterior; ``triples`` are the wins that count."""

    def density(self, fit: Fit) -> Objective | None:
        """The log-density of theta with quality integrated out, if it has one."""

    def laplace(self, fit: Fit) -> Laplace:
        """Mode and covariance of theta, quality integrated out."""

    def moments(self, fit: Fit) -> Moments:
        """The scores of each triple at the top, and what is known of quality there."""

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
    if not 0 < tol < 1:
        raise UsageError(f"tol={tol!r}: expected nats above 0 and below 1, such as 1e-6")


@dataclass(frozen=True, slots=True)
class Needs:
    """What one choice takes of others, and what is chosen instead where that is not so."""

    name: str
    value: str
    others: Mapping[str, tuple[str, ...]]
    instead: str


SEVERAL = "2 or more"
#: What does not go together is refused; "auto" picks what does. The documentation has this table.
TOGETHER: tuple[Needs, ...] = (
    Needs(
        "camps", SEVERAL, {"model": ("bbq",), "solver": ("auto",), "raters": ("known",)}, "camps=1"
    ),
    Needs("ties", "model", {"model": ("bbq",), "solver": ("auto",)}, "ties='half'"),
    Needs(
        "solver", "em", {"model": ("bbq", "bbq-signed", "bayes-bt"), "priors": ("given",)},
        "solver='auto'",
    ),
    Needs(
        "covariates", "some",
        {"model": ("bbq", "bayes-bt"), "solver": ("auto",), "camps": ("auto", "1")},
        "one of these, or no covariates",
    ),
    Needs("slices", "pooled", {"model": ("bbq", "bayes-bt")}, "--by-alone, or one of these"),
    Needs("model", "bbq-signed", {"raters": ("known",)}, "model='bayes-bt'"),
    Needs("model", "crowd-bt", {"raters": ("known",)}, "model='bayes-bt'"),
)  # fmt: skip


def check_together(
    *, model: str, solver: str, priors: object, camps: int | str, ties: str,
    has_raters: bool | None, covariates: Sequence[str] = (), pooled: bool = False,
) -> None:  # fmt: skip
    """Refuse what does not go together; ``has_raters`` is None before the data are known."""
    asked = {
        "model": model,
        "solver": solver,
        "priors": "estimated"
        if priors == "auto" or getattr(priors, "estimated", False)
        else "given",
        "camps": SEVERAL if camps not in ("auto", 1) else str(camps),
        "ties": ties,
        "covariates": "some" if covariates else "none",
        "slices": "pooled" if pooled else "none",
    }
    if has_raters is not None:
        asked["raters"] = "known" if has_raters else "none"
    shown = {name: f"{name}={value!r}" for name, value in asked.items()}
    shown |= {"camps": f"camps={camps}", "priors": f"{asked['priors']} priors"}
    shown |= {"covariates": f"covariates={','.join(covariates)}", "slices": "pooling of slices"}
    for rule in TOGETHER:
        if asked[rule.name] != rule.value:
            continue
        what = shown[rule.name]
        for name, allowed in rule.others.items():
            if name not in asked or asked[name] in allowed:
                continue
            if name == "raters":
                raise UsageError(f"{what} needs raters, and these data have none; {_use(rule)}")
            takes = " or ".join(_in_words(name, one) for one in allowed)
            raise UsageError(f"{what} takes {takes}, not {shown[name]}; {_use(rule)}")


def _in_words(name: str, value: str) -> str:
    return f"{value} priors" if name == "priors" else f"{name}={value!r}"


def _use(rule: Needs) -> str:
    return f"use {rule.instead}"


def checked_camps(camps: int | str) -> int | Literal["auto"]:
    """A number of camps, or "auto"."""
    if camps == "auto":
        return "auto"
    if isinstance(camps, bool) or not isinstance(camps, int) or not 1 <= camps <= MOST_CAMPS:
        raise UsageError(f"camps={camps!r}: expected 'auto' or a number from 1 to {MOST_CAMPS}")
    return camps


def allowed_priors(model: str, solver: str, priors: T) -> T | Literal["paper"]:
    """``auto``, the default, means given priors where none are estimated."""
    estimated = model in ("bbq", "bayes-bt") and solver == "auto"
    return "paper" if priors == "auto" and not estimated else priors


def check_priors(model: Model, priors: AnyPriors | str) -> None:
    """Refuse priors that a model does not have."""
    if isinstance(priors, str) and priors not in ("paper", "auto"):
        raise UsageError(f"priors={priors!r}: expected 'paper', 'auto' or a Priors")
    MODELS[model].checked(priors)


def warnings_of(data: Comparisons, model: Model) -> list[str]:
    """What is to be known about these data, whatever comes out."""
    t, warnings = data.pooled, []
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
    if note := data.repeats.note():
        warnings.append(note)
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


@dataclass(frozen=True, slots=True, eq=False)
class Camp:
    """Raters who share a ranking: their share of the panel, its theta, and who belongs to it."""

    share: float
    theta: Floats
    raters: Mapping[str, float]  # P(the rater belongs to this camp)


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """An optimum with the data it belongs to.

    ``theta`` (nats) and ``quality`` are aligned with ``items`` and ``raters``. Under given priors
    they are the joint maximum of the paper's log-posterior; under estimated priors theta is the
    maximum with quality integrated out (with covariates its mean) and ``quality`` its posterior
    mean. Of bbq-signed, ``quality`` is q+ - q- in [-1, 1]. ``log_posterior`` is the last entry of
    ``trace``, up to the priors' constants.
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
    #: Along which the raters differ most; None where nobody looked.
    axis: Axis | None = None
    #: The raters in camps; None: one camp.
    division: Division | None = None
    #: What answers are clustered by: auto, none, or names of tags.
    cluster: tuple[str, ...] = ("auto",)
    #: Whether a tie is an outcome of its own, or half a win each way.
    ties: TiesUsed = "half"
    #: The covariates whose effects are estimated and held equal; None: none.
    held: Held | None = None

    @property
    def in_parts(self) -> bool:
        """Whether single raters are known where the parts of the data are, and not here."""
        return False

    @property
    def judged(self) -> Fit:
        """The fit that raters are judged by: of covariates, the one without them."""
        return self if self.held is None else self.held.plain

    @property
    def camp_theta(self) -> Floats:
        """The ranking of each camp (camps x items); with one camp, ``theta`` is its only row."""
        return self.theta[None, :] if self.division is None else self.division.theta

    @property
    def membership(self) -> Floats:
        """P(rater belongs to a camp), raters x camps."""
        if self.division is None:
            return np.ones((len(self.raters), 1))
        return self.division.membership

    @property
    def camp_sizes(self) -> Floats:
        """The part of the panel that each camp is."""
        return np.ones(1) if self.division is None else self.division.size

    @property
    def member_counts(self) -> Codes:
        """How many raters most probably belong to each camp."""
        return np.bincount(self.membership.argmax(axis=1), minlength=len(self.camp_theta))

    @cached_property
    def camps(self) -> tuple[Camp, ...]:
        """One or more, the largest first."""
        share = self.camp_sizes.tolist()
        return tuple(
            Camp(
                part, theta,
                MappingProxyType(dict(zip(self.raters, belongs.tolist(), strict=True))),
            )
            for part, theta, belongs in zip(
                share, self.camp_theta, self.membership.T, strict=True
            )
        )  # fmt: skip

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

    def _repr_html_(self) -> str:
        order = np.argsort(-self.theta, kind="stable")[:MOST_HTML_ROWS].tolist()
        rows = ((self.items[i], number(float(self.theta[i]), 3)) for i in order)
        title = (
            f"Fit of {self.model}: {counted(self.data.n_comparisons, 'comparison')}, "
            f"{counted(len(self.items), 'item')}, {counted(len(self.raters), 'rater')}, "
            f"{self.priors}, {'converged' if self.converged else 'not converged'}"
        )
        heads = ("item", "theta (nats)")
        table = html_table(title, heads, rows, len(self.items), words=("item",))
        return table + html_notes(self.warnings)

    def __repr__(self) -> str:
        return (
            f"<Fit {self.model}: {len(self.items)} items, {len(self.raters)} raters, "
            f"{self.data.n_comparisons} comparisons, {self.priors}>"
        )

    @cached_property
    def wins(self) -> Triples:
        """The aggregated wins that count, by rater: without ties where these are an outcome."""
        if self.held is not None:
            return self.held.design.triples
        return wins_of(self.data, self.ties)

    @cached_property
    def triples(self) -> Triples:
        """The same as the model sees them: of all raters together where it has none."""
        return self.wins if self.rated else self.wins.without_raters()

    @cached_property
    def tie_rate(self) -> Floats:
        """P(tie) of each rater, partially pooled; 0 where ties are half wins, or not known."""
        return tie_rates(self.data) if self.ties == "model" else np.zeros(len(self.raters))

    @cached_property
    def tie_model(self) -> TieModel:
        """How likely a tie is, by rater and by how close the items are; used to predict answers."""
        return tie_model(self)

    def predict(
        self, raters: Sequence[str | None], left: Sequence[str], right: Sequence[str]
    ) -> Floats:
        """P(left), P(tie) and P(right) of answers; a rater who is not known is a typical one."""
        code = {name: r for r, name in enumerate(self.raters)}
        item = {name: i for i, name in enumerate(self.items)}
        for name in (*left, *right):
            if name not in item:
                raise UsageError(f"there is no item {name!r}{did_you_mean(name, self.items)}")
        who = np.array([-1 if name is None else code.get(name, -1) for name in raters], np.int64)
        first, second = (
            np.array([item[name] for name in side], np.int64) for side in (left, right)
        )
        quality = self.quality if self.rated else np.ones(len(self.raters))
        quality = np.append(quality, quality.mean() if quality.size else 1.0)[who]
        shares = shares_of_camps(self)[who]
        gaps = self.camp_theta[:, first] - self.camp_theta[:, second]
        s = np.einsum("nc,cn->n", shares, 0.5 * np.tanh(0.5 * gaps))
        tie = self.tie_model.p_tie(who, closeness_of(self, who, first, second))
        won = (1.0 - tie) * (0.5 + quality * s)
        return np.stack((won, tie, 1.0 - tie - won), axis=1)

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
                f"(the limit is {LARGEST_COVARIANCE}); the default intervals do without it "
                "(intervals='robust')"
            )
        return MODELS[self.model].laplace(self) if self.held is None else self.known_with.laplace

    @cached_property
    def known_with(self) -> Known:
        """What is known of theta and the effects of the covariates together."""
        if self.held is None:
            raise UsageError("this fit has no covariates; name them: fit(data, covariates=…)")
        return known_with(self, self.held)

    def effects(self, level: float = 0.95) -> tuple[CovariateEffect, ...]:
        """The effects of the covariates, with intervals; none of a fit without."""
        return effects_of(self, level)

    @cached_property
    def top(self) -> Floats:
        """Where the density of theta is highest, quality integrated out."""
        density = self.theta_density()
        if density is None or len(self.items) <= LARGEST_COVARIANCE:
            return self.laplace.mean
        start = self.quality if self.rated else np.ones(1)
        return solve_newton(density, self.theta, start, 1e-4).theta

    def theta_density(self) -> Objective | None:
        """The log-density of theta with quality integrated out.

        crowd-bt has none, and neither have several camps, nor covariates.

        Of bbq-signed it has quality at its best.
        """
        if self.held is not None:
            return None
        return MODELS[self.model].density(self)

    @cached_property
    def mode(self) -> ThetaMode | None:
        """What is known at theta, where it is the top with quality integrated out; None: it is not.

        Intervals, win shares and verdicts use the same pass.
        """
        priors = self.priors
        if not (isinstance(priors, Priors) and priors.estimated and self.rated):
            return None
        if self.in_parts or self.error > LAPLACE_TOLERANCE or self.division or self.held:
            return None
        density = Marginal(self.triples, priors)
        return ThetaMode(density, density.at(self.theta, np.empty(0)))

    @cached_property
    def moments(self) -> Moments:
        """The scores of each triple at the top, and what is known of quality there."""
        return MODELS[self.model].moments(self)

    @cached_property
    def panel(self) -> PanelSums:
        """What the win shares need of all raters, in sums."""
        return panel_sums(self)

    @cached_property
    def robust(self) -> Robust:
        """The covariance of theta that allows for clusters of answers, and the clusters used."""
        return robust_covariance(self) if self.held is None else self.known_with.robust

    def covariance(self) -> Floats:
        """Of theta, as all intervals use it: robust to the clusters that ``cluster`` names.

        The model's own is that of ``laplace``. It holds the factor for few clusters with which
        1.96 standard deviations are the 95% interval. Of more than 4,096 items there is none;
        `robust` has the variances.
        """
        if len(self.items) > LARGEST_COVARIANCE:
            return self.laplace.covariance  # which says why there is none
        return self.robust.covariance

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
        priors = self._one_camp("sample() (intervals='posterior')")
        if priors.flat_items:
            raise UnsupportedError(
                "without a prior on the items (a = 1, b = 0) there is no posterior to sample; "
                "use intervals='laplace' or 'bootstrap', or give a > 1"
            )
        triples, fixed = self.triples, not self.rated
        if method == "auto":
            # Of very many items there is no covariance to propose by: estimated priors are given.
            suits = not priors.estimated or len(self.items) > LARGEST_COVARIANCE
            suits = suits and whole_weights(triples)
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

    def _one_camp(self, what: str) -> Priors:
        """The priors, for ``what`` has only one ranking to speak of."""
        self._no_covariates(what)
        if self.division is not None:
            raise UnsupportedError(
                f"{what} is not defined for several camps; use intervals='robust', or fit camps=1"
            )
        return self.given_priors(what, _OTHER_INTERVALS)

    def _no_covariates(self, what: str) -> None:
        if self.held is not None:
            raise UnsupportedError(
                f"{what} is not defined with covariates; use intervals='robust' or 'laplace'"
            )

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
        self._no_covariates("a bootstrap over raters (intervals='bootstrap')")
        n_raters = len(self.raters) if self.data.has_raters else 0
        if n_raters < 2:
            needs = "raters, and these data have none"
            if n_raters:
                needs = "at least two raters, and these data have one"
            raise UnsupportedError(
                f"a bootstrap over raters needs {needs}; use intervals='laplace' or 'posterior'"
            )
        drawn = (Resample(seed, number, n_raters) for number in range(n))
        return np.array([self.resampled(one) for one in drawn])

    def resampled(self, resample: Resample) -> Floats:
        """theta of one resample of the raters, fitted from this fit on."""
        return MODELS[self.model].refit(self, resample.copies())

    def theta_without(self, raters: Sequence[int]) -> Floats:
        """theta as it would be without these raters (places in ``raters``); the priors stay."""
        copies = np.ones(self.wins.n_raters)
        copies[list(raters)] = 0.0
        return MODELS[self.model].refit(self, copies)

    def paper_posterior(self) -> tuple[Floats, Floats]:
        """Shape and rate of the paper's Gamma for each skill, the latents at their expectation.

        It takes the other skills and every quality as known, hence its intervals are too narrow.
        """
        priors = self._one_camp("the paper's posterior (intervals='paper')")
        quality = self.quality if self.rated else np.ones(1)
        joint = Joint(self.triples, priors, fixed=not self.rated)
        wins, draw = joint.e_step(self.theta, quality)[2:]
        return priors.a + wins, priors.b + draw / np.exp(self.theta)

    def rater_posterior(self, level: float = 0.95, threshold: float = 0.5) -> RaterPosterior:
        """The posterior of each rater's quality, theta at its mode, by the same rule as the fit."""
        priors = self.given_priors("the posterior of quality")
        if not self.rated:
            raise UnsupportedError(f"{self.model} has no rater quality; fit model='bbq'")
        t = self.triples
        if self.mode is not None:
            density = self.mode.density
        else:
            density = Marginal(t, priors)
            density.at(self.theta, np.empty(0))
        common = t.start, t.weight, density.passes.standing(self.theta), density.parts, density.tops
        tails = np.array([(1 - level) / 2, (1 + level) / 2])
        ends, below = np.empty((t.n_raters, 2)), np.empty(t.n_raters)

        def work(first: int, last: int) -> None:
            kernels.known_quality(first, last, *common, tails, threshold, ends, below)

        run_chunks(work, density.passes.chunks)
        mean, _, p_guesser, _ = density.summary.T
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


class PartedResult(Protocol):
    """What a fit over parts offers beside a `Fit`: work on the raters of each part."""

    @property
    def results(self) -> str:
        """The folder, or address, of what the parts write."""

    def by_parts(self, work: Callable[..., T], *args: Any) -> list[T]:
        """``work(fit, first, *args)`` of every part: the fit of its raters, the first of whom."""

    def read_result(self, name: str) -> Any:
        """An Arrow table that a part wrote."""


class Fittable(Protocol):
    """Comparisons that are not in memory, and know how a model is fitted to them."""

    def fitted(self, engine: Any, **chosen: Any) -> Fit:
        """The fit, with what was chosen in `fit`."""


def fit(
    data: Comparisons | Fittable,
    model: Model = "bbq",
    priors: Priors | SignedPriors | Literal["paper", "auto"] = "auto",
    camps: int | Literal["auto"] = "auto",
    ties: Ties = "auto",
    cluster: str | Sequence[str] = "auto",
    solver: Solver = "auto",
    tol: float = 1e-6,
    repeats: Treatment = "keep",
    engine: Any = None,
    covariates: Sequence[str] = (),
) -> Fit:
    """Fit a model to comparisons, or to a prepared set.

    ``model``: ``bbq``, ``bbq-signed`` (raters may be inverted), ``bayes-bt`` (every quality 1) or
    ``crowd-bt``. ``priors``: ``"auto"`` to estimate them from the data, ``"paper"``, or any
    ``Priors``, also those that were estimated for another fit. Where priors cannot be estimated,
    ``auto`` means given ones: the paper's for ``solver="em"``, their own for bbq-signed (which
    takes ``SignedPriors``) and crowd-bt. ``camps``: how many rankings the panel has, or ``"auto"``
    for as many as the answers ask for (bbq alone). ``solver``: ``auto`` (Newton guarded by EM) or
    ``em`` (the paper's closed-form steps). ``tol``: the distance to the optimum, in nats of theta,
    that the gradient may still imply; not reaching it is an error. ``cluster``: which answers
    belong together, for the intervals: ``auto`` (raters, and the only tag that names prompts or
    scenes), ``none``, or up to two names such as ``"rater,scene"``. ``repeats``: whether rows that
    are one answer (stored again, or a ranking written as pairs) all count (``keep``), or as one
    (``merge``). ``ties``: ``model`` (an outcome of its own, with a rate of each rater), ``half``
    (two half wins, as in the paper), or ``auto``, which is ``model`` where it can be had: of bbq,
    with solver ``auto`` and known raters. ``engine``: where the parts of
    a prepared set are computed: ``local`` (the default: here, one after the other), ``dask`` (by a
    cluster that is started and ended), ``dask://HOST:PORT``, or a `scale.engines.MapEngine`.
    ``covariates``: what else moves an answer, estimated and held equal: ``"side"`` (with a lean of
    each rater), or names of tags that are numbers, left less right, such as ``"length_diff"``.
    """
    covariates = checked_covariates(covariates)
    if not isinstance(data, Comparisons):
        if covariates:
            raise UsageError("covariates need all votes in memory; use --engine memory")
        return data.fitted(
            engine, model=model, priors=priors, camps=camps, ties=ties, cluster=cluster,
            solver=solver, tol=tol, repeats=repeats,
        )  # fmt: skip
    if engine is not None:
        raise UsageError("an engine fits prepared sets; open one with bbq.open_dataset")
    clusters = checked_cluster(cluster)
    if checked_repeats(repeats) == "merge":
        data = data.merged()
    check_choices(model, solver, tol)
    priors = allowed_priors(model, solver, priors)
    check_priors(model, priors)
    asked = checked_camps(camps)
    check_together(
        model=model, solver=solver, priors=priors, camps=asked, ties=checked_ties(ties),
        has_raters=data.has_raters, covariates=covariates,
    )  # fmt: skip
    used = ties_used(ties, model, solver, data)
    # What raters and camps there are is learnt from each answer once.
    once = data.once
    found = _solved(once, model, priors, solver, tol, used)
    if asked != 1 and model == "bbq" and solver == "auto" and data.has_raters:
        wanted = None if asked == "auto" else asked
        found = _divided(once, found, wanted, tol, used)
    if once is not data:
        found = _of_all_rows(data, model, solver, found, tol, used)
    fitted = _fit_of(data, model, solver, found, clusters, used)
    return _with_covariates(fitted, covariates, tol) if covariates else fitted


def checked_covariates(covariates: Sequence[str]) -> tuple[str, ...]:
    """Names of covariates, each once; one alone may be given as text."""
    names = (covariates,) if isinstance(covariates, str) else tuple(covariates)
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise UsageError(f"covariates has {name!r}; expected names such as 'side'")
        if names.count(name) > 1:
            raise UsageError(f"covariate {name!r} is given twice; give it once")
    return names


def _with_covariates(plain: Fit, names: tuple[str, ...], tol: float) -> Fit:
    """The same answers with the effects of covariates, of one ranking."""
    one, warnings = plain, list(plain.warnings)
    if plain.division is not None:
        one = fit(plain.data, plain.model, camps=1, ties=plain.ties, cluster=plain.cluster, tol=tol)
        warnings.append(
            f"without covariates the raters form {len(plain.camps)} camps; with them the panel is "
            "taken as one. Look at the camps without covariates"
        )

    found, held = held_equal(one, names, tol)
    return replace(
        one, priors=found.priors, theta=found.theta, quality=found.quality,
        trace=np.array(found.trace), error=found.error, population=found.population,
        warnings=(*warnings, *held.design.warnings), held=replace(held, plain=plain),
    )  # fmt: skip


def _solved(
    data: Comparisons, model: Model, priors: AnyPriors | str, solver: Solver, tol: float,
    ties: TiesUsed,
) -> Optimum:  # fmt: skip
    """The optimum; where priors cannot be estimated that were not asked for, the paper's."""
    wins = wins_of(data, ties)
    try:
        found = MODELS[model].solve(data, wins, priors, solver, tol)
    except ConvergenceError:
        if priors != "auto":
            raise
        found = MODELS[model].solve(data, wins, "paper", solver, tol)
        text = "the priors could not be estimated from these data: the paper's were used"
        return replace(found, warnings=(*found.warnings, text))
    rated = priors == "auto" and MODELS[model].rated and data.has_raters
    if rated and no_majority(wins, found.theta):
        return _all_equal(data, wins, found.priors, tol)
    return found


def _all_equal(data: Comparisons, wins: Triples, priors: AnyPriors, tol: float) -> Optimum:
    """The optimum with one quality for all raters, a typical one of these ``priors``."""
    spread = MODELS["bayes-bt"].solve(data, wins, "auto", "auto", tol).priors
    if not (isinstance(spread, Priors) and isinstance(priors, Priors)):
        raise UsageError("priors are estimated for model='bbq' alone")
    times = EQUAL / (priors.alpha + priors.beta)
    one = replace(spread, alpha=times * priors.alpha, beta=times * priors.beta)
    found = MODELS["bbq"].solve(data, wins, one, "auto", tol)
    text = (
        "half of the raters or more contradict the others, and it is not known who is right: all "
        "count equally, and the order of the items means little"
    )
    return replace(found, warnings=(*found.warnings, text))


def _divided(
    data: Comparisons, found: Optimum, wanted: int | None, tol: float, ties: TiesUsed
) -> Optimum:
    """The optimum in camps; in one where nobody asked for more, and the search does not end."""
    try:
        return divided(wins_of(data, ties), data.items, found, wanted, tol)
    except ConvergenceError:
        if wanted is not None:
            raise
        text = (
            "whether the panel is divided could not be told, perhaps because weights are very "
            "unequal: it is taken as one camp"
        )
        return replace(found, warnings=(*found.warnings, text))


def _of_all_rows(
    data: Comparisons, model: Model, solver: Solver, once: Optimum, tol: float, ties: TiesUsed
) -> Optimum:
    """The optimum where every row counts, with priors and camps as each answer once told them."""
    wins = wins_of(data, ties)
    if once.division is not None:
        return followed(wins, data.items, once.division, data.items, once, tol)
    found = MODELS[model].solve(data, wins, once.priors, solver, tol)
    return replace(found, population=once.population, axis=once.axis, warnings=once.warnings)


def follow_camps(data: Comparisons, last: Fit, tol: float = 1e-6) -> Fit:
    """A fit of ``data`` with the camps of an earlier one: from there on, not looked for again."""
    if last.division is None:
        raise UsageError("the earlier fit has one camp; use fit()")
    found = Optimum(
        last.theta, last.quality, last.priors, [], 0.0, last.population, axis=last.axis
    )  # fmt: skip
    wins = wins_of(data, last.ties)
    found = followed(wins, data.items, last.division, last.items, found, tol)
    return _fit_of(data, last.model, last.solver, found, last.cluster, last.ties)


def in_camps(last: Fit, n: int, tol: float = 1e-4) -> Fit:
    """The same answers in ``n`` camps, whatever the criterion says of them."""
    found = Optimum(last.theta, last.quality, last.priors, [], 0.0, last.population)
    once = last.data.once
    found = divided(wins_of(once, last.ties), last.items, found, n, tol)
    return _fit_of(once, last.model, last.solver, found, last.cluster, last.ties)


def _fit_of(
    data: Comparisons, model: Model, solver: Solver, found: Optimum, clusters: tuple[str, ...],
    ties: TiesUsed,
) -> Fit:  # fmt: skip
    of_camps = () if found.division is None else found.division.warnings
    if not (np.isfinite(found.theta).all() and np.isfinite(found.quality).all()):
        raise ConvergenceError(
            "the fit of these data is not a number; fit model='bayes-bt', or other priors "
            "(priors='paper', on the command line --priors paper)"
        )
    return Fit(
        data=data, model=model, solver=solver, priors=found.priors, theta=found.theta,
        quality=found.quality, trace=np.array(found.trace), error=found.error, converged=True,
        warnings=(*warnings_of(data, model), *found.warnings, *of_camps),
        population=found.population, axis=found.axis, division=found.division, cluster=clusters,
        ties=ties,
    )  # fmt: skip
