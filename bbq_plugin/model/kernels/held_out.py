"""Fused passes that judge each rater by what all others say.

The curvature of the log-posterior of theta is a sum over raters, H = prior + sum_r H_r, and so is
its gradient, which is zero at the top. Without rater r the gradient there is -g_r and the curvature
H - H_r, so that one Newton step leads to

    theta_(-r) = theta - (H - H_r)^-1 g_r

H_r and g_r live on the few items that r has seen. With G = H^-1 restricted to these,
(H - H_r)^-1 = G (I - H_r G)^-1: a matrix of their number, whatever K is.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from bbq_plugin.model.kernels.likelihood import FAST
from bbq_plugin.model.kernels.quadrature import NODES, log_products, place_nodes, to_posterior

# The share of what is known of the items that one rater brings, below which series are enough.
SLIGHT = 0.02


@njit(cache=True, nogil=True, fastmath=FAST)
def marginal_push(first, last, start, weight, s, parts, tops, push):
    """d log-likelihood / d (theta_winner - theta_loser) of each triple, quality integrated out."""
    nodes = NODES * parts.shape[0]
    q, mass, width = np.empty(nodes), np.empty(nodes), np.empty(nodes)
    for r in range(first, last):
        place_nodes(start[r], start[r + 1], s, weight, parts, tops[r], q, mass, width)
        to_posterior(mass)
        for t in range(start[r], start[r + 1]):
            mean = 0.0
            for k in range(nodes):
                mean += mass[k] * q[k] / (0.5 + q[k] * s[t])
            push[t] = weight[t] * (0.25 - s[t] * s[t]) * mean


@njit(cache=True, nogil=True)
def leave_out(
    first, last, start, winner, loser, push, curve, rows, theta, inverse, most, gap, spread, failed
):
    """Without each rater: the gap of theta in each of their triples, and its variance.

    A rater without whom the posterior is no hill any more (by this step's word) is marked
    ``failed``; so is one with more than ``most`` items, for whom a refit is cheaper.
    """
    place = np.full(theta.size, -1, np.int64)
    for r in range(first, last):
        low, high = start[r], start[r + 1]
        seen = local_items(low, high, winner, loser, place)
        n = seen.size
        failed[r] = n > most
        if not failed[r]:
            block = np.empty((n, n))
            for i in range(n):
                for j in range(n):
                    block[i, j] = inverse[seen[i], seen[j]]
            leverage = 0.0
            for t in range(low, high):
                i, j = place[winner[t]], place[loser[t]]
                spread[t] = block[i, i] + block[j, j] - 2.0 * block[i, j]
                leverage += abs(curve[t]) * spread[t]
            if leverage < SLIGHT:
                move = light_move(low, high, winner, loser, push, curve, rows, place, block)
            else:
                inner, pull = own_curvature(low, high, winner, loser, push, curve, rows, place, n)
                system = -(inner @ block)
                for i in range(n):
                    system[i, i] += 1.0
                without = block @ np.linalg.inv(system)
                move = without @ pull
                for t in range(low, high):
                    i, j = place[winner[t]], place[loser[t]]
                    spread[t] = without[i, i] + without[j, j] - without[i, j] - without[j, i]
            for t in range(low, high):
                i, j = place[winner[t]], place[loser[t]]
                gap[t] = theta[winner[t]] - theta[loser[t]] - move[i] + move[j]
                if not (spread[t] > 0.0 and np.isfinite(gap[t])):
                    failed[r] = True
        for i in range(n):
            place[seen[i]] = -1


@njit(cache=True, nogil=True)
def light_move(low, high, winner, loser, push, curve, rows, place, block):
    """G g + G H_r G g: two terms of the series of (I - G H_r)^-1 G g, without a matrix of H_r.

    Enough where the trace of G H_r is at most SLIGHT: what is left out is of its square.
    """
    n = block.shape[0]
    pull, back = np.zeros(n), np.zeros(n)
    for t in range(low, high):
        pull[place[winner[t]]] += push[t]
        pull[place[loser[t]]] -= push[t]
    once = block @ pull
    for t in range(low, high):
        i, j = place[winner[t]], place[loser[t]]
        flow = curve[t] * (once[i] - once[j])
        back[i] += flow
        back[j] -= flow
    for c in range(rows.shape[0]):
        along = 0.0
        for t in range(low, high):
            along += rows[c, t] * (once[place[winner[t]]] - once[place[loser[t]]])
        for t in range(low, high):
            back[place[winner[t]]] -= rows[c, t] * along
            back[place[loser[t]]] += rows[c, t] * along
    return once + block @ back


@njit(cache=True, nogil=True)
def local_items(low, high, winner, loser, place):
    """The items of some triples, and their places among these (written into ``place``)."""
    seen = np.empty(2 * (high - low), np.int64)
    n = 0
    for t in range(low, high):
        for item in (winner[t], loser[t]):
            if place[item] < 0:
                place[item] = n
                seen[n] = item
                n += 1
    return seen[:n]


@njit(cache=True, nogil=True)
def own_curvature(low, high, winner, loser, push, curve, rows, place, n):
    """H_r and g_r on the items that the rater has seen."""
    inner, pull = np.zeros((n, n)), np.zeros(n)
    for t in range(low, high):
        i, j = place[winner[t]], place[loser[t]]
        pull[i] += push[t]
        pull[j] -= push[t]
        inner[i, i] += curve[t]
        inner[j, j] += curve[t]
        inner[i, j] -= curve[t]
        inner[j, i] -= curve[t]
    along = np.zeros(n)
    for c in range(rows.shape[0]):
        along[:] = 0.0
        for t in range(low, high):
            along[place[winner[t]]] += rows[c, t]
            along[place[loser[t]]] -= rows[c, t]
        for i in range(n):
            for j in range(n):
                inner[i, j] -= along[i] * along[j]
    return inner, pull


@njit(cache=True, nogil=True, fastmath=FAST)
def likelihood_table(first, last, raters, start, weight, s, q, out):
    """log prod_t (1 + 2 q s_t)^w_t of some raters at each q: the odds of quality q against a coin.

    ``q`` and its mirror image: the second half of the columns is for -q.
    """
    n = q.size
    found = np.empty(n)
    for k in range(first, last):
        low, high = start[raters[k]], start[raters[k] + 1]
        log_products(low, high, s, weight, q, found)
        out[k, :n] = found
        log_products(0, high - low, -s[low:high], weight[low:high], q, found)
        out[k, n:] = found
