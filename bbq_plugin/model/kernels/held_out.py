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
from bbq_plugin.model.kernels.quadrature import add_log_products

# The share of what is known of the items that one rater brings, below which series are enough.
SLIGHT = 0.02


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
            part = low, high, winner, loser, push, curve, rows, place, block
            leverage = 0.0
            for t in range(low, high):
                i, j = place[winner[t]], place[loser[t]]
                spread[t] = block[i, i] + block[j, j] - 2.0 * block[i, j]
                leverage += abs(curve[t]) * spread[t]
            if leverage < SLIGHT:
                light_move(*part, gap)
            elif high - low <= n:
                by_pairs(*part, gap, spread)
            else:
                by_items(*part, gap, spread)
            for t in range(low, high):
                gap[t] = theta[winner[t]] - theta[loser[t]] - gap[t]
                if not (spread[t] > 0.0 and np.isfinite(gap[t])):
                    failed[r] = True
        for i in range(n):
            place[seen[i]] = -1


@njit(cache=True, nogil=True)
def by_pairs(low, high, winner, loser, push, curve, rows, place, block, move, spread):
    """The step and the variance of each gap in the space of the rater's pairs, if these are few.

    With H_r = E M E', E the differences of the pairs, and P = E' G E:
    E' (H - H_r)^-1 E = P (I - M P)^-1, and its transpose solves (I - P M) X = P. Elimination is
    written out: a call of LAPACK for a matrix this small costs more than the work, and its threads
    wait for each other.
    """
    n = high - low
    pairs = np.empty((n, n))
    for a in range(n):
        i, j = place[winner[low + a]], place[loser[low + a]]
        for b in range(n):
            k, m = place[winner[low + b]], place[loser[low + b]]
            pairs[a, b] = block[i, k] - block[i, m] - block[j, k] + block[j, m]
    system = np.empty((n, n))
    for a in range(n):
        for b in range(n):
            system[a, b] = -pairs[a, b] * curve[low + b]
        for c in range(rows.shape[0]):
            along = 0.0
            for b in range(n):
                along += pairs[a, b] * rows[c, low + b]
            for b in range(n):
                system[a, b] += along * rows[c, low + b]
        system[a, a] += 1.0
    eliminate(system, pairs)
    for a in range(n):
        total = 0.0
        for b in range(n):
            total += pairs[b, a] * push[low + b]
        move[low + a] = total
        spread[low + a] = pairs[a, a]


@njit(cache=True, nogil=True)
def _pivot(system, k):
    """The row from k on that is largest in column k.

    A loop, here and below: each kind of slice is compiled apart, before the first result.
    """
    found = k
    for i in range(k + 1, system.shape[0]):
        if abs(system[i, k]) > abs(system[found, k]):
            found = i
    return found


@njit(cache=True, nogil=True)
def eliminate(system, right):
    """Solve system X = right in place, by elimination with pivots; X is left in ``right``."""
    n, m = right.shape
    for k in range(n):
        pivot = _pivot(system, k)
        if system[pivot, k] == 0.0:
            right[:] = np.nan
            return
        for table in (system, right):
            for j in range(table.shape[1]):
                table[pivot, j], table[k, j] = table[k, j], table[pivot, j]
        for i in range(k + 1, n):
            factor = system[i, k] / system[k, k]
            for j in range(k + 1, n):
                system[i, j] -= factor * system[k, j]
            for j in range(m):
                right[i, j] -= factor * right[k, j]
    for k in range(n - 1, -1, -1):
        for i in range(k + 1, n):
            for j in range(m):
                right[k, j] -= system[k, i] * right[i, j]
        for j in range(m):
            right[k, j] /= system[k, k]


@njit(cache=True, nogil=True)
def theta_without(low, high, winner, loser, push, curve, rows, theta, inverse):
    """One Newton step to the theta of all others, for every item."""
    place = np.full(theta.size, -1, np.int64)
    seen = local_items(low, high, winner, loser, place)
    n = seen.size
    inner, pull = own_curvature(low, high, winner, loser, push, curve, rows, place, n)
    system, right = np.empty((n, n)), pull.reshape(n, 1).copy()
    for i in range(n):
        for j in range(n):
            total = 1.0 if i == j else 0.0
            for k in range(n):
                total -= inner[i, k] * inverse[seen[k], seen[j]]
            system[i, j] = total
    eliminate(system, right)
    found = theta.copy()
    for j in range(n):
        for i in range(theta.size):
            found[i] -= inverse[seen[j], i] * right[j, 0]
    return found


@njit(cache=True, nogil=True)
def ranking_evidence(won, lost, weight, n, steps):
    """log of the integral over theta ~ Normal(0, 1) of a ranking of these answers, by Laplace.

    Less that of a coin. ``n`` is the number of items.
    """
    theta, curve, right = np.zeros(n), np.empty((n, n)), np.empty((n, 1))
    log_det, value = 0.0, 0.0
    for _ in range(steps):
        curve[:] = 0.0
        for i in range(n):
            right[i, 0] = -theta[i]
        value = 0.0
        for t in range(won.size):
            i, j = won[t], lost[t]
            y = 1.0 / (1.0 + np.exp(theta[j] - theta[i]))
            push, bend = weight[t] * (1.0 - y), weight[t] * y * (1.0 - y)
            value += weight[t] * np.log(2.0 * y)
            right[i, 0] += push
            right[j, 0] -= push
            curve[i, i] += bend
            curve[j, j] += bend
            curve[i, j] -= bend
            curve[j, i] -= bend
        for i in range(n):
            curve[i, i] += 1.0
            value -= 0.5 * theta[i] ** 2
        eliminate(curve, right)
        log_det = 0.0
        for i in range(n):
            log_det += np.log(abs(curve[i, i]))
        longest = 0.0
        for i in range(n):
            far = abs(right[i, 0])
            # What is no number stays.
            if far > longest or np.isnan(far):
                longest = far
        if longest < 1e-4:
            break
        for i in range(n):
            theta[i] += right[i, 0] * min(1.0, 2.0 / longest)
    return value - 0.5 * log_det


@njit(cache=True, nogil=True, fastmath=FAST)
def turned_sums(who, item, x, signs, n_items):
    """The sum of x by item, each rater's times a sign; ``signs`` has a column for each draw."""
    out = np.zeros((n_items, signs.shape[1]))
    for t in range(x.size):
        row, sign, by = out[item[t]], signs[who[t]], x[t]
        for draw in range(row.size):
            row[draw] += by * sign[draw]
    return out


@njit(cache=True, nogil=True)
def by_items(low, high, winner, loser, push, curve, rows, place, block, move, spread):
    """The same in the space of the rater's items."""
    n = block.shape[0]
    inner, pull = own_curvature(low, high, winner, loser, push, curve, rows, place, n)
    system = inner @ block
    for i in range(n):
        for j in range(n):
            system[i, j] = (1.0 if i == j else 0.0) - system[i, j]
    without = block @ np.linalg.inv(system)
    by_item = without @ pull
    for t in range(low, high):
        i, j = place[winner[t]], place[loser[t]]
        move[t] = by_item[i] - by_item[j]
        spread[t] = without[i, i] + without[j, j] - without[i, j] - without[j, i]


@njit(cache=True, nogil=True)
def light_move(low, high, winner, loser, push, curve, rows, place, block, move):
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
    by_item = block @ back
    for i in range(n):
        by_item[i] += once[i]
    for t in range(low, high):
        move[t] = by_item[place[winner[t]]] - by_item[place[loser[t]]]


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
    out[first:last] = 0.0
    for k in range(first, last):
        low, high = start[raters[k]], start[raters[k] + 1]
        add_log_products(low, high, s, weight, q, out[k, :n])
        add_log_products(0, high - low, -s[low:high], weight[low:high], q, out[k, n:])
