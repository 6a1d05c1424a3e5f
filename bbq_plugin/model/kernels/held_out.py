"""Fused passes that judge each rater by what all others say.

The curvature of the log-posterior of theta is a sum over raters, H = prior + sum_r H_r, and so is
its gradient, which is zero at the top. Without rater r the gradient there is -g_r and the curvature
H - H_r, so that one Newton step leads to

    theta_(-r) = theta - (H - H_r)^-1 g_r

H_r and g_r live on the few items that r has seen. With G = H^-1 restricted to these,
(H - H_r)^-1 = (I - G H_r)^-1 G: a matrix of their number, whatever K is. Of a rater with fewer
pairs than items, the differences of these pairs take the place of the items.
"""

from __future__ import annotations

import math

import numpy as np

from bbq_plugin.model.kernels import fast_kernel, inner_fast_kernel, inner_kernel, kernel
from bbq_plugin.model.kernels.quadrature import add_log_products

# The share of what is known of the items that one rater brings, below which series are enough.
SLIGHT = 0.02


@kernel
def leave_out(
    first, last, start, winner, loser, push, curve, rows, theta, inverse, most, gap, spread, failed
):
    """Without each rater: the gap of theta in each of their triples, and its variance.

    Where the trace of G H_r is at most SLIGHT, the step G g + G H_r G g and the variance by G are
    enough: what is left out is of its square. A rater without whom the posterior is no hill any
    more (by this step's word) is marked ``failed``; so is one with more than ``most`` items, for
    whom a refit is cheaper.
    """
    place = np.empty(theta.size, np.int64)
    for i in range(theta.size):
        place[i] = -1
    for r in range(first, last):
        low, high = start[r], start[r + 1]
        seen, n = np.empty(2 * (high - low), np.int64), 0
        for t in range(low, high):
            for side in range(2):
                item = loser[t] if side else winner[t]
                if place[item] < 0:
                    place[item], seen[n] = n, item
                    n += 1
        failed[r] = n > most
        if n <= most:
            # Row and column `size` stay zero: the other end of a triple that is its own pair.
            size = min(n, high - low)
            ends, block = np.empty((2, high - low), np.int64), np.zeros((size + 1, size + 1))
            for a in range(size):
                for b in range(size):
                    if size == n:
                        block[a, b] = inverse[seen[a], seen[b]]
                        continue
                    i, j, k, m = winner[low + a], loser[low + a], winner[low + b], loser[low + b]
                    block[a, b] = inverse[i, k] - inverse[i, m] - inverse[j, k] + inverse[j, m]
            pull, once = np.zeros(size + 1), np.zeros(size + 1)
            along, leverage = np.zeros((rows.shape[0], size + 1)), 0.0
            for t in range(low, high):
                a = t - low if size < n else place[winner[t]]
                b = size if size < n else place[loser[t]]
                ends[0, t - low], ends[1, t - low] = a, b
                pull[a] += push[t]
                pull[b] -= push[t]
                for c in range(rows.shape[0]):
                    along[c, a] += rows[c, t]
                    along[c, b] -= rows[c, t]
                leverage += abs(curve[t]) * (block[a, a] + block[b, b] - 2.0 * block[a, b])
            if leverage < SLIGHT:
                _multiply(block, pull, once)
                _add_curvature(1.0, low, high, ends, curve, along, once, pull)
            else:
                system = np.zeros((size + 1, size + 1))
                for a in range(size + 1):
                    system[a, a] = 1.0
                    _add_curvature(-1.0, low, high, ends, curve, along, block[a], system[a])
                eliminate(system, block)
            _multiply(block, pull, once)
            for t in range(low, high):
                a, b = ends[0, t - low], ends[1, t - low]
                spread[t] = block[a, a] + block[b, b] - block[a, b] - block[b, a]
                gap[t] = theta[winner[t]] - theta[loser[t]] - (once[a] - once[b])
                if not (spread[t] > 0.0 and math.isfinite(gap[t])):
                    failed[r] = True
        for i in range(n):
            place[seen[i]] = -1


@inner_fast_kernel
def _multiply(matrix, vector, out):
    """out = matrix vector."""
    for a in range(out.size):
        total = 0.0
        for b in range(vector.size):
            total += matrix[a, b] * vector[b]
        out[a] = total


@inner_fast_kernel
def _add_curvature(sign, low, high, ends, curve, along, vector, out):
    """out += sign H_r vector."""
    for t in range(low, high):
        i, j = ends[0, t - low], ends[1, t - low]
        flow = sign * curve[t] * (vector[i] - vector[j])
        out[i] += flow
        out[j] -= flow
    for c in range(along.shape[0]):
        dot = 0.0
        for a in range(vector.size):
            dot += along[c, a] * vector[a]
        for a in range(vector.size):
            out[a] -= sign * dot * along[c, a]


@inner_kernel
def eliminate(system, right):
    """Solve system X = right in place, by elimination with pivots; X is left in ``right``.

    Written out: a call of LAPACK for a matrix this small costs more than the work, and its threads
    wait for each other. Of a singular system X is NaN or infinite.
    """
    n = right.shape[0]
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(system[i, k]) > abs(system[pivot, k]):
                pivot = i
        for j in range(n):
            system[pivot, j], system[k, j] = system[k, j], system[pivot, j]
            right[pivot, j], right[k, j] = right[k, j], right[pivot, j]
        for i in range(k + 1, n):
            factor = system[i, k] / system[k, k]
            for j in range(n):
                if j > k:
                    system[i, j] -= factor * system[k, j]
                right[i, j] -= factor * right[k, j]
    for k in range(n - 1, -1, -1):
        for i in range(k + 1, n):
            for j in range(n):
                right[k, j] -= system[k, i] * right[i, j]
        for j in range(n):
            right[k, j] /= system[k, k]


@fast_kernel
def turned_sums(who, item, x, signs, out):
    """Add x to its item's row, each rater's times a sign; ``signs`` has a column for each draw."""
    for t in range(x.size):
        for draw in range(out.shape[1]):
            out[item[t], draw] += x[t] * signs[who[t], draw]


@fast_kernel
def likelihood_table(first, last, raters, start, weight, s, q, out):
    """Add log prod_t (1 + 2 q s_t)^w_t of some raters at each q: the odds against a coin."""
    for k in range(first, last):
        add_log_products(start[raters[k]], start[raters[k] + 1], s, weight, q, out[k])
