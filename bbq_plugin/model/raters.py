"""What the comparisons say of each rater, theta being known: the posterior of q by quadrature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bbq_plugin.aggregate import Triples
from bbq_plugin.model import kernels_quadrature as quadrature
from bbq_plugin.model.marginal import population_table
from bbq_plugin.model.objective import Floats
from bbq_plugin.model.priors import Priors
from bbq_plugin.threads import even_chunks, run_chunks

__all__ = ["RaterPosterior", "rater_posterior", "rater_posterior_at"]


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
    gap = theta[triples.winner] - theta[triples.loser]
    return rater_posterior_at(triples, priors, 0.5 * np.tanh(0.5 * gap), level, threshold)


def rater_posterior_at(
    triples: Triples, priors: Priors, s: Floats, level: float, threshold: float
) -> RaterPosterior:
    """The same where y - 1/2 is known by triple: one and the same pair may differ by rater."""
    t, parts = triples, population_table(priors)
    tops = np.tile(parts[:, 1] / parts[:, 1:].sum(axis=1), (t.n_raters, 1))
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    ends, below = np.empty((t.n_raters, 2)), np.empty(t.n_raters)
    summary = np.empty((t.n_raters, 2))

    def work(first: int, last: int) -> None:
        common = (first, last, t.start, t.weight, s, parts, tops)
        quadrature.quality_quantiles(*common, tails, ends)
        quadrature.quality_below(*common, threshold, below)
        quadrature.quality_summary(*common, summary)

    run_chunks(work, even_chunks(t.start))
    return RaterPosterior(summary[:, 0], ends[:, 0], ends[:, 1], below, summary[:, 1])
