"""Bootstrap over raters: a resampled rater is the same data again.

So a resample is a vector of multiplicities on the same aggregated arrays, and each fit starts from
the fit of all the data: milliseconds each.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bbq_plugin.aggregate import Triples
from bbq_plugin.model.objective import Floats

__all__ = ["multiplicities", "resampled"]


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
