"""Loops of the streaming fit: a log of changes, merging it, and raters with a long history.

The rows of rater ``r`` are ``low[r]:high[r]`` of the base or, where ``moved[r]``, of the tail. What
came since is a linked list through the log, from ``head[r]`` on (-1 ends it).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.data.triples import Codes, Floats, sort_by_code
from bbq_plugin.model.kernels import fast_kernel, inner_fast_kernel, inner_kernel, kernel
from bbq_plugin.model.kernels.likelihood import (
    Q_STEPS,
    Q_TOLERANCE,
    ROWS,
    kept_inside,
    orthogonal_rows,
    posterior_nodes,
    to_posterior,
)

MOMENTS = 4


@kernel
def push(rater, winner, loser, weight, first, head, log_winner, log_loser, log_weight, log_next):
    """Put each change before the list of its rater."""
    for k in range(rater.size):
        slot, r = first + k, rater[k]
        log_winner[slot] = winner[k]
        log_loser[slot] = loser[k]
        log_weight[slot] = weight[k]
        log_next[slot] = head[r]
        head[r] = slot


@inner_kernel
def list_length(slot, log_next):
    """How many changes a list has."""
    n = 0
    while slot >= 0:
        n += 1
        slot = log_next[slot]
    return n


@kernel
def list_lengths(raters, head, log_next, out):
    """The same for the lists of these raters."""
    for k in range(raters.size):
        out[k] = list_length(head[raters[k]], log_next)


@kernel
def gather(
    raters, low, high, moved, base_winner, base_loser, base_weight,
    tail_winner, tail_loser, tail_weight, winner, loser, weight,
):  # fmt: skip
    """The rows of these raters, one after the other."""
    at = 0
    for k in range(raters.size):
        r = raters[k]
        for t in range(low[r], high[r]):
            if moved[r]:
                winner[at], loser[at], weight[at] = tail_winner[t], tail_loser[t], tail_weight[t]
            else:
                winner[at], loser[at], weight[at] = base_winner[t], base_loser[t], base_weight[t]
            at += 1


@kernel
def merge(
    raters, head, log_winner, log_loser, log_weight, log_next, n_items, rounding, largest,
    old_start, old_winner, old_loser, old_weight, start, winner, loser, weight,
):  # fmt: skip
    """Old rows plus the list of each rater, equal pairs summed; returns (bad rater or -1, largest).

    A sum that took something back and is zero up to ``rounding`` times the ``largest`` sum ever
    held leaves no row; one clearly below zero is bad (more was taken back than given).
    """
    at, bad = 0, -1
    for k in range(raters.size):
        n = list_length(head[raters[k]], log_next)
        if n == 0:
            for t in range(old_start[k], old_start[k + 1]):
                winner[at], loser[at], weight[at] = old_winner[t], old_loser[t], old_weight[t]
                at += 1
            start[k + 1] = at
            continue
        codes, values = np.empty(n, np.int64), np.empty(n)
        slot = head[raters[k]]
        for j in range(n):
            codes[j] = np.int64(log_winner[slot]) * n_items + log_loser[slot]
            values[j] = log_weight[slot]
            slot = log_next[slot]
        sort_by_code(0, n, codes, values)
        j, t, end = 0, old_start[k], old_start[k + 1]
        while j < n or t < end:
            old = np.int64(-1)
            if t < end:
                old = np.int64(old_winner[t]) * n_items + old_loser[t]
            if j == n or (t < end and old < codes[j]):
                winner[at], loser[at], weight[at] = old_winner[t], old_loser[t], old_weight[t]
                at += 1
                t += 1
                continue
            code, total, given, taken = codes[j], 0.0, 0.0, False
            if old == code:
                total = given = old_weight[t]
                t += 1
            while j < n and codes[j] == code:
                value = values[j]
                total += value
                given += max(value, 0.0)
                taken = taken or value < 0.0
                j += 1
            largest = max(largest, given)
            zero = rounding * largest
            if total < -zero and bad < 0:
                bad = raters[k]
            if not taken or total > zero:
                winner[at], loser[at], weight[at] = code // n_items, code % n_items, total
                at += 1
        start[k + 1] = at
    return bad, largest


@fast_kernel
def expand_joint(
    index, slots, start, winner, loser, weight, table, n_items, quality, centre, moments, cross
):
    """What a long history says of (theta, q) near here, in a few numbers for each rater.

    With z = s/p at the rater's q, x the change of q and D that of theta, its log-likelihood is
    M1 x - M2 x^2/2 + M3 x^3/3 - M4 x^4/4 + (c x + e x^2) D + (terms in D alone), M_k = sum w z^k,
    c = sum w (1/4 - s^2) / (2 p^2) and e = -sum w (1/4 - s^2) s / (2 p^3), winner minus loser.
    """
    for k in range(index.size):
        r, slot = index[k], slots[k]
        q = quality[r]
        centre[slot] = q
        for m in range(MOMENTS):
            moments[slot, m] = 0.0
        for i in range(n_items):
            cross[slot, 0, i], cross[slot, 1, i] = 0.0, 0.0
        for t in range(start[r], start[r + 1]):
            i, j = winner[t], loser[t]
            s = table[i * n_items + j]
            p = 0.5 + q * s
            z, power = s / p, weight[t]
            for m in range(MOMENTS):
                power *= z
                moments[slot, m] += power
            first = weight[t] * (0.25 - s * s) / (2.0 * p * p)
            cross[slot, 0, i] += first
            cross[slot, 0, j] -= first
            cross[slot, 1, i] -= first * z
            cross[slot, 1, j] += first * z


@inner_fast_kernel
def _near_quality(
    q, centre, m, pull, bend, alpha, beta, head, log_winner, log_loser, log_weight, log_next,
    table, n_items,
):  # fmt: skip
    """The best q of the series plus the list and the Beta, both exact; and minus d2/dq2 there."""
    below, above = 0.0, 1.0
    q = min(max(q, 1e-9), 1.0 - 1e-9)
    curve = 0.0
    for _ in range(Q_STEPS):
        x = q - centre
        slope = m[0] - x * (m[1] - x * (m[2] - x * m[3])) + pull + 2.0 * bend * x
        curve = m[1] - x * (2.0 * m[2] - 3.0 * x * m[3]) - 2.0 * bend
        slot = head
        while slot >= 0:
            s = table[log_winner[slot] * n_items + log_loser[slot]]
            z = s / (0.5 + q * s)
            slope += log_weight[slot] * z
            curve += log_weight[slot] * z * z
            slot = log_next[slot]
        slope += (alpha - 1.0) / q - (beta - 1.0) / (1.0 - q)
        curve += (alpha - 1.0) / (q * q) + (beta - 1.0) / ((1.0 - q) * (1.0 - q))
        if slope > 0.0:
            below = q
        else:
            above = q
        if curve <= 0.0:
            break
        new = kept_inside(q + slope / curve, q, below, above)
        moved = abs(new - q)
        q = new
        if moved <= Q_TOLERANCE or (1.0 - q) <= 1e-12 or q <= 1e-12:
            break
    return q, curve


@fast_kernel
def near_joint(
    sign, raters, slots, heads, log_winner, log_loser, log_weight, log_next, table, n_items,
    alpha, beta, trail, stamp, centre, moments, cross, quality, gradient, half, rows, strain, far,
):  # fmt: skip
    """Add ``sign`` times what these raters say, from their series and lists, where theta is now.

    ``gradient``: (c x + e x^2) + the list's. ``half``: the curvature of the list's pairs.
    ``rows``: (c + 2 e x + the list's) / sqrt(-d2/dq2), whose outer products the caller takes off.
    ``strain``: the next term of the series, about c x^3; ``far``: how far q is from its centre.
    """
    now = trail.shape[0] - 1
    for k in range(raters.size):
        slot = slots[k]
        pull, bend = 0.0, 0.0
        for i in range(n_items):
            moved = trail[now, i] - trail[stamp[slot], i]
            pull += cross[slot, 0, i] * moved
            bend += cross[slot, 1, i] * moved
        q, curve = _near_quality(
            quality[raters[k]], centre[slot], moments[slot], pull, bend, alpha, beta, heads[k],
            log_winner, log_loser, log_weight, log_next, table, n_items,
        )  # fmt: skip
        quality[raters[k]] = q
        x = q - centre[slot]
        far[k] = abs(x)
        for i in range(n_items):
            c, e = cross[slot, 0, i], cross[slot, 1, i]
            gradient[i] += sign * x * (c + x * e)
            rows[k, i] = c + 2.0 * x * e
            strain[i] += sign * abs(x) * x * x * c
        at = heads[k]
        while at >= 0:
            i, j, w = log_winner[at], log_loser[at], log_weight[at]
            s = table[i * n_items + j]
            p = 0.5 + q * s
            ratio = (0.25 - s * s) / p
            push = w * q * ratio
            gradient[i] += sign * push
            gradient[j] -= sign * push
            half[i, j] -= sign * push * (2.0 * s + q * ratio)
            rows[k, i] += w * ratio / (2.0 * p)
            rows[k, j] -= w * ratio / (2.0 * p)
            at = log_next[at]
        held = curve <= 0.0 or q <= 1e-11 or q >= 1.0 - 1e-11
        scale = 0.0 if held else 1.0 / math.sqrt(curve)
        for i in range(n_items):
            rows[k, i] *= scale


def expand_marginal(
    index: Codes, slots: Codes, start: Codes, winner: NDArray[np.int32], loser: NDArray[np.int32],
    weight: Floats, s: Floats, parts: Floats, tops: Floats, rows: Floats, node: Floats,
    mass: Floats, cross: Floats,
) -> None:  # fmt: skip
    """The posterior of each rater's q on its nodes, and the score of theta as a function of q.

    The score at q is its mean plus sum_d cross_d phi_d(q), phi orthonormal under the posterior.
    """
    once = np.ones(len(tops))
    for r, slot in zip(index.tolist(), slots.tolist(), strict=True):
        found = posterior_nodes(r, r + 1, start, weight, s, parts, once, tops)
        node[slot], mass[slot] = found.q[0], found.mass[0]
    _cross_sums(index, slots, start, winner, loser, rows, cross)


@fast_kernel
def _cross_sums(index, slots, start, winner, loser, rows, cross):
    """What each rater's score has along each of its moments, by item."""
    for k in range(index.size):
        r, slot = index[k], slots[k]
        for d in range(ROWS):
            for i in range(cross.shape[2]):
                cross[slot, d, i] = 0.0
            for t in range(start[r], start[r + 1]):
                cross[slot, d, winner[t]] += rows[d, t]
                cross[slot, d, loser[t]] -= rows[d, t]


def near_marginal(
    sign: float, raters: Codes, slots: Codes, heads: Codes, log_winner: NDArray[np.int32],
    log_loser: NDArray[np.int32], log_weight: Floats, log_next: Codes, table: Floats, n_items: int,
    trail: Floats, stamp: Codes, node: Floats, mass: Floats, cross: Floats, quality: Floats,
    gradient: Floats, half: Floats, rows: Floats, far: Floats,
) -> None:  # fmt: skip
    """The same with q integrated out; ``far``: standard deviations that the mean of q has moved.

    The masses become mass exp(sum_d (cross_d D) phi_d(q)) prod_list (1 + 2 q s)^w, with D what
    theta has moved since they were made; the history's score turns with them.
    """
    q, along = node[slots], cross[slots]
    least = np.maximum(mass[slots], 1e-300)
    phi = orthogonal_rows(q, mass[slots]) / least
    moved = trail[-1] - trail[stamp[slots]]
    tilted = np.log(least) + np.einsum("rdi,ri,drg->rg", along, moved, phi, optimize=True)
    log = log_winner, log_loser, log_weight, log_next
    _add_listed(heads, *log, table, n_items, q, tilted)
    to_posterior(tilted)
    turned = orthogonal_rows(q, tilted)
    quality[raters] = np.einsum("rg,rg->r", tilted, q)
    shift = np.einsum("rg,erg->re", tilted, phi)
    gradient += sign * np.einsum("re,rei->i", shift, along)
    rows[:] = np.matmul(np.einsum("drg,erg->rde", turned, phi), along)
    far[:] = np.abs(shift[:, 0])
    _listed_sums(sign, heads, *log, table, n_items, q, tilted, turned, gradient, half, rows)


@fast_kernel
def _add_listed(heads, log_winner, log_loser, log_weight, log_next, table, n_items, q, log_mass):
    """Add log prod (1 + 2 q s)^w of each rater's list to their row of ``log_mass``."""
    for k in range(heads.size):
        at = heads[k]
        while at >= 0:
            s = table[log_winner[at] * n_items + log_loser[at]]
            for g in range(q.shape[1]):
                log_mass[k, g] += log_weight[at] * math.log(1.0 + 2.0 * q[k, g] * s)
            at = log_next[at]


@fast_kernel
def _listed_sums(
    sign, heads, log_winner, log_loser, log_weight, log_next, table, n_items, q, mass, turned,
    gradient, half, rows,
):  # fmt: skip
    """Gradient, curvature and its moments of each rater's list."""
    for k in range(heads.size):
        at = heads[k]
        while at >= 0:
            i, j, w = log_winner[at], log_loser[at], log_weight[at]
            s = table[i * n_items + j]
            slope = 0.25 - s * s
            one, two = 0.0, 0.0
            for g in range(q.shape[1]):
                ratio = q[k, g] / (0.5 + q[k, g] * s)
                one += mass[k, g] * ratio
                two += mass[k, g] * ratio * ratio
                for d in range(ROWS):
                    rows[k, d, i] += w * slope * turned[d, k, g] * ratio
                    rows[k, d, j] -= w * slope * turned[d, k, g] * ratio
            gradient[i] += sign * w * slope * one
            gradient[j] -= sign * w * slope * one
            half[i, j] -= sign * w * slope * (2.0 * s * one + slope * two)
            at = log_next[at]
