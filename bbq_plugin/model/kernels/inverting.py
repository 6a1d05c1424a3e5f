"""Fused passes for raters who may answer upside down.

Each answer is informed (q+), guessed (q0) or inverted (q-), and with q = q+ - q-

    p = q+ sigma(d) + q- sigma(-d) + q0 / 2 = 1/2 + q s

so the likelihood sees only q in [-1, 1]. Of the Dirichlet's log, A log q+ + C log q0 + B log q-,
the best share u = q+ + q- for a given q solves a quadratic; what remains is a concave function of
q alone, and Newton's machinery of the unsigned model serves again.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from bbq_plugin.model.kernels.likelihood import FAST, kept_inside, rater_sums

Q_STEPS = 80

Q_TOLERANCE = 1e-12

EDGE = 1e-12  # of [-1, 1], where the prior's log is infinite


@njit(cache=True, nogil=True, fastmath=FAST)
def decided_share(q, up, none, down):
    """u = q+ + q- at its best for this q; the exponents are those of q+, q0 and q-."""
    total = up + none + down
    half = up + down + (up - down) * q
    rest = (up - down) * q - none * q * q
    root = np.sqrt(max(half * half - 4.0 * total * rest, 0.0))
    return min(max((half + root) / (2.0 * total), abs(q)), 1.0)


@njit(cache=True, nogil=True, fastmath=FAST)
def prior_bend(q, up, none, down):
    """First and second derivative of the profiled log-Dirichlet in q."""
    if down == 0.0:
        # q- = 0 is then allowed, and best for every q above this one: the unsigned model's Beta.
        if q >= up / (up + 2.0 * none):
            return up / q - none / (1.0 - q), -up / q**2 - none / (1.0 - q) ** 2
        return (up + none) / (1.0 + q), -(up + none) / (1.0 + q) ** 2
    u = decided_share(q, up, none, down)
    plus, minus = u + q, u - q
    by_u = 2.0 * (up + none + down) * u - (up + down) - (up - down) * q
    by_q = (up - down) * (1.0 - u) - 2.0 * none * q
    follow = -by_q / by_u
    first = up / plus - down / minus
    second = -up * (follow + 1.0) / plus**2 + down * (follow - 1.0) / minus**2
    return first, second


@njit(cache=True, nogil=True, fastmath=FAST)
def prior_value(q, up, none, down):
    """The log-Dirichlet at its best for this q, up to its constant."""
    u = decided_share(q, up, none, down)
    value = up * np.log(0.5 * (u + q)) + none * np.log(1.0 - u)
    if down > 0.0:
        value += down * np.log(0.5 * (u - q))
    return value


@njit(cache=True, nogil=True, fastmath=FAST)
def best_signed(low, high, s, weight, up, none, down, q):
    """The q in (-1, 1) that maximises one rater's share: Newton inside a shrinking bracket."""
    below, above = -1.0, 1.0
    q = min(max(q, EDGE - 1.0), 1.0 - EDGE)
    for _ in range(Q_STEPS):
        slope, curve = prior_bend(q, up, none, down)
        curve = -curve
        for t in range(low, high):
            ratio = s[t] / (0.5 + q * s[t])
            slope += weight[t] * ratio
            curve += weight[t] * ratio * ratio
        if slope > 0.0:
            below = q
        else:
            above = q
        new = kept_inside(q + slope / curve, q, below, above)
        moved = abs(new - q)
        q = new
        if moved <= Q_TOLERANCE:
            break
    return min(max(q, EDGE - 1.0), 1.0 - EDGE)


@njit(cache=True, nogil=True, fastmath=FAST)
def signed_pass(
    first, last, start, winner, loser, weight, s, up, none, down, copies, q, gradient, curve, row
):
    """As ``profile_pass`` of the unsigned model: q at its best, then value, gradient, curvature."""
    value = 0.0
    for r in range(first, last):
        low, high, times = start[r], start[r + 1], copies[r]
        if times == 0.0:
            curve[low:high] = 0.0
            row[low:high] = 0.0
            continue
        quality = best_signed(low, high, s, weight, up, none, down, q[r])
        q[r] = quality
        share, stiff = rater_sums(
            low, high, times, quality, winner, loser, weight, s, gradient, curve, row
        )
        share += prior_value(quality, up, none, down)
        stiff -= prior_bend(quality, up, none, down)[1]
        value += times * share
        scale = np.sqrt(times / stiff)
        for t in range(low, high):
            row[t] *= scale
    return value


@njit(cache=True, nogil=True, fastmath=FAST)
def signed_em_pass(
    first, last, start, winner, loser, weight, s, up, none, down, copies, shares, new, wins, draw
):
    """One E-step: each win is informed, guessed or inverted, and the sums of the M-step.

    An inverted win of i over j is a win of j over i. ``shares`` has rows (q+, q0, q-). Returns the
    raters' log-posterior.
    """
    value = 0.0
    for r in range(first, last):
        times = copies[r]
        plus, coin, minus = shares[r, 0], shares[r, 1], shares[r, 2]
        new[r, 0], new[r, 1], new[r, 2] = plus, coin, minus
        if times == 0.0:
            continue
        informed, inverted, total, share = 0.0, 0.0, 0.0, 0.0
        for t in range(start[r], start[r + 1]):
            y = 0.5 + s[t]
            p = plus * y + minus * (1.0 - y) + 0.5 * coin
            right = weight[t] * plus * y / p
            wrong = weight[t] * minus * (1.0 - y) / p
            share += weight[t] * np.log(p)
            informed += right
            inverted += wrong
            total += weight[t]
            wins[winner[t]] += times * right
            wins[loser[t]] += times * wrong
            draw[winner[t]] += times * (right + wrong) * y
            draw[loser[t]] += times * (right + wrong) * (1.0 - y)
        whole = total + up + none + down
        new[r, 0] = (informed + up) / whole
        new[r, 1] = (total - informed - inverted + none) / whole
        new[r, 2] = (inverted + down) / whole
        share += up * np.log(plus) + none * np.log(coin)
        if down > 0.0:
            share += down * np.log(minus)
        value += times * share
    return value
