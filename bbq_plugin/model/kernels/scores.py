"""Fused passes over the scores: each triple's part of the gradient, summed within clusters."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def score_products(first, last, start, winner, loser, push, n_items, out):
    """Add sum_c g_c g_c' of these clusters to ``out``, its lower triangle.

    ``push`` has a row for each camp, and g_c one entry for each camp and item. Costs the square of
    what a cluster has seen, whatever the number of items.
    """
    camps = push.shape[0]
    score = np.zeros(camps * n_items)
    seen = np.empty(camps * n_items, np.int64)
    new = np.ones(camps * n_items, np.bool_)
    for c in range(first, last):
        n = 0
        for camp in range(camps):
            for t in range(start[c], start[c + 1]):
                i, j = camp * n_items + winner[t], camp * n_items + loser[t]
                score[i] += push[camp, t]
                score[j] -= push[camp, t]
                if new[i]:
                    new[i] = False
                    seen[n] = i
                    n += 1
                if new[j]:
                    new[j] = False
                    seen[n] = j
                    n += 1
        for a in range(n):
            i = seen[a]
            for b in range(a + 1):
                j = seen[b]
                if i >= j:
                    out[i, j] += score[i] * score[j]
                else:
                    out[j, i] += score[i] * score[j]
        for a in range(n):
            score[seen[a]] = 0.0
            new[seen[a]] = True
