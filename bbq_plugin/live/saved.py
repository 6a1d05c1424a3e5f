"""What is kept of a fit, so that the next start begins where the last one ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from bbq_plugin.model import Priors
from bbq_plugin.model.population import Population

if TYPE_CHECKING:
    from bbq_plugin.model import Fit
    from bbq_plugin.model.objective import Floats

__all__ = ["LastFit", "last_fit", "packed"]


class LastFit(msgspec.Struct, frozen=True):
    """The optimum by name, and the priors it was found under."""

    model: str
    #: incremental or full.
    how: str
    n_comparisons: int
    n_raters: int
    priors: dict[str, Any]
    theta: dict[str, float]
    #: The estimate of the population, if priors were estimated: eta, its covariance, the slope.
    population: tuple[list[float], list[list[float]], list[list[float]]] | None = None
    #: How many answers there were when it was estimated.
    estimated_at: int = 0

    def theta_of(self, names: tuple[str, ...], level: float) -> Floats:
        """Where to start for these items; new ones at the level of the prior."""
        return np.array([self.theta.get(name, level) for name in names])

    def given(self) -> Priors:
        """The priors."""
        return Priors(**self.priors)

    def estimate(self) -> Population | None:
        """The population, for the items of `theta` in their order."""
        if self.population is None:
            return None
        eta, covariance, slope = map(np.array, self.population)
        theta = np.array(list(self.theta.values()))
        return Population(self.given(), eta, covariance, slope, theta)

    def fits(self, model: str, priors: Priors | Literal["auto"]) -> bool:
        """Whether it was made under these settings."""
        same = self.population is not None if priors == "auto" else self.given() == priors
        return self.model == model and same


def packed(fit: Fit, how: str, n_comparisons: int, n_raters: int, estimated_at: int) -> bytes:
    """A fit in a few bytes."""
    population = None
    if fit.population is not None:
        estimate = fit.population
        population = (
            estimate.eta.tolist(), estimate.covariance.tolist(), estimate.slope.tolist(),
        )  # fmt: skip
    priors = {field: getattr(fit.priors, field) for field in Priors.__dataclass_fields__}
    theta = dict(zip(fit.items, fit.theta.tolist(), strict=True))
    return msgspec.json.encode(
        LastFit(fit.model, how, n_comparisons, n_raters, priors, theta, population, estimated_at)
    )


def last_fit(data: bytes) -> LastFit:
    """A fit from these bytes."""
    return msgspec.json.decode(data, type=LastFit)
