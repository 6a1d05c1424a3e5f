"""What the comparisons say of each rater, theta being known: the posterior of q by quadrature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bbq_plugin.aggregate import Triples
from bbq_plugin.model import kernels_quadrature as quadrature
from bbq_plugin.model.marginal import Marginal
from bbq_plugin.model.objective import Floats
from bbq_plugin.model.priors import Priors
from bbq_plugin.threads import run_chunks

__all__ = ["RaterPosterior", "rater_posterior"]


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
