"""Fused passes with each rater's quality integrated out.

The likelihood of one rater is prod_t (1/2 + q s_t)^w_t, and times a Beta with alpha, beta >= 1 it
is log-concave in q: one hill on [0, 1]. Its top is found by Newton, its foot where it has fallen by
``DROP`` nats, and a Gauss-Legendre rule between the feet integrates it to six digits or more,
whether the rater answered three times or three million times (a rule fixed on [0, 1] is exact for
few comparisons and blind for many). A population in several parts adds one such hill for each.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bbq_plugin.model.kernels.likelihood import FAST, best_quality

NODES = 24
DROP = 16.0


def _rules() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights on [0, 1]: plain, or bent so that q^v or (1 - q)^v is smooth at an end.

    With 1 - q = u^2 the kink (1 - q)^v dq turns into u^(2 v + 1) du, which the rule takes in its
    stride; the last rule bends both ends. Rows: plain, left end, right end, both.
    """
    x, weight = np.polynomial.legendre.leggauss(NODES)
    u, w = 0.5 * (1.0 + x), 0.5 * weight
    at = [u, u**2, 1.0 - (1.0 - u) ** 2, u**2 * (3.0 - 2.0 * u)]
    by = [w, 2.0 * u * w, 2.0 * (1.0 - u) * w, 6.0 * u * (1.0 - u) * w]
    return np.array(at), np.array(by)


RULE_AT, RULE_BY = _rules()
ROWS = 4  # moments of a rater's score that the curvature keeps (the rest is below rounding)
TINY, FACTORS = 1e-150, 400  # when a running product of factors in (0, 2] is put into its log


@njit(cache=True, nogil=True, fastmath=FAST)
def log_share(low, high, s, weight, alpha, beta, q):
    """log prod (1 + 2 q s)^w + log Beta kernel, at one q."""
    total = 0.0
    for t in range(low, high):
        total += weight[t] * np.log(1.0 + 2.0 * q * s[t])
    if alpha > 1.0:
        total += (alpha - 1.0) * np.log(q) if q > 0.0 else -np.inf
    if beta > 1.0:
        total += (beta - 1.0) * np.log(1.0 - q) if q < 1.0 else -np.inf
    return total


@njit(cache=True, nogil=True, fastmath=FAST)
def feet(low, high, s, weight, alpha, beta, top):
    """Where the hill over q has fallen by DROP on either side of its top, or the end of [0, 1]."""
    height = log_share(low, high, s, weight, alpha, beta, top)
    stiff, slope = 0.0, 0.0
    for t in range(low, high):
        ratio = s[t] / (0.5 + top * s[t])
        slope += weight[t] * ratio
        stiff += weight[t] * ratio * ratio
    if top > 0.0 and top < 1.0:
        stiff += (alpha - 1.0) / top**2 + (beta - 1.0) / (1.0 - top) ** 2
        slope = 0.0
    # The parabola's own foot, were the hill one: slope x + stiff x^2 / 2 = DROP.
    slope = abs(slope)
    reach = 2.0 * DROP / (slope + np.sqrt(slope * slope + 2.0 * DROP * stiff) + 1e-300)
    left, right = max(0.0, top - reach), min(1.0, top + reach)
    while left > 0.0 and log_share(low, high, s, weight, alpha, beta, left) > height - DROP:
        left = max(0.0, top - 1.6 * (top - left))
    while right < 1.0 and log_share(low, high, s, weight, alpha, beta, right) > height - DROP:
        right = min(1.0, top + 1.6 * (right - top))
    return left, right


@njit(cache=True, nogil=True, fastmath=FAST)
def log_products(low, high, s, weight, q, out):
    """log prod_t (1 + 2 q s_t)^w_t at all nodes at once.

    Factors of weight 1 and 1/2 (a vote, half a tie) are multiplied up and put into the log only
    before they could underflow: a multiplication costs a twentieth of a logarithm.
    """
    nodes = q.size
    ones, halves = np.ones(nodes), np.ones(nodes)
    least_one, least_half = 1.0, 1.0
    count_one, count_half = 0, 0
    out[:] = 0.0
    for t in range(low, high):
        w, doubled = weight[t], 2.0 * s[t]
        least = 1.0 + min(doubled, 0.0)
        if w == 1.0:
            for g in range(nodes):
                ones[g] *= 1.0 + q[g] * doubled
            least_one *= least
            count_one += 1
            if least_one < TINY or count_one == FACTORS:
                for g in range(nodes):
                    out[g] += np.log(ones[g])
                    ones[g] = 1.0
                least_one, count_one = 1.0, 0
        elif w == 0.5:
            for g in range(nodes):
                halves[g] *= 1.0 + q[g] * doubled
            least_half *= least
            count_half += 1
            if least_half < TINY or count_half == FACTORS:
                for g in range(nodes):
                    out[g] += 0.5 * np.log(halves[g])
                    halves[g] = 1.0
                least_half, count_half = 1.0, 0
        else:
            for g in range(nodes):
                out[g] += w * np.log(1.0 + q[g] * doubled)
    for g in range(nodes):
        out[g] += np.log(ones[g]) + 0.5 * np.log(halves[g])


@njit(cache=True, nogil=True, fastmath=FAST)
def place_nodes(low, high, s, weight, parts, guess, q, log_mass, width):
    """Nodes over each part's hill, with the log of prior times likelihood times node weight.

    ``parts`` has rows (log share - log B(alpha, beta), alpha, beta); ``guess`` where to look for
    each part's top (overwritten by the top found). The factors 1/2 of the likelihood are left out.
    """
    for c in range(parts.shape[0]):
        alpha, beta = parts[c, 1], parts[c, 2]
        top = best_quality(low, high, s, weight, alpha, beta, guess[c])
        guess[c] = top
        left, right = feet(low, high, s, weight, alpha, beta, top)
        rule = 0
        if left == 0.0 and alpha < 4.0 and alpha != np.floor(alpha):
            rule += 1
        if right == 1.0 and beta < 4.0 and beta != np.floor(beta):
            rule += 2
        for g in range(NODES):
            k = c * NODES + g
            q[k] = left + (right - left) * RULE_AT[rule, g]
            width[k] = (right - left) * RULE_BY[rule, g]
    log_products(low, high, s, weight, q, log_mass)
    for c in range(parts.shape[0]):
        for k in range(c * NODES, (c + 1) * NODES):
            log_mass[k] += (
                parts[c, 0]
                + (parts[c, 1] - 1.0) * np.log(q[k])
                + (parts[c, 2] - 1.0) * np.log(1.0 - q[k])
                + np.log(width[k])
            )


@njit(cache=True, nogil=True, fastmath=FAST)
def to_posterior(log_mass):
    """Normalise the nodes' masses in place; returns the log of their sum."""
    top = np.max(log_mass)
    total = 0.0
    for k in range(log_mass.size):
        log_mass[k] = np.exp(log_mass[k] - top)
        total += log_mass[k]
    for k in range(log_mass.size):
        log_mass[k] /= total
    return top + np.log(total)


@njit(cache=True, nogil=True, fastmath=FAST)
def orthogonal_rows(q, mass, basis):
    """mass * (orthonormal polynomials of degree 1, 2, … in q under mass): Stieltjes' recurrence."""
    nodes = q.size
    before, now = np.zeros(nodes), np.ones(nodes)
    norm_before = 0.0
    for degree in range(basis.shape[0]):
        centre = 0.0
        for k in range(nodes):
            centre += mass[k] * q[k] * now[k] * now[k]
        norm = 0.0
        for k in range(nodes):
            new = (q[k] - centre) * now[k] - norm_before * before[k]
            before[k], now[k] = now[k], new
            norm += mass[k] * new * new
        norm = np.sqrt(norm)
        if norm < 1e-9:
            basis[degree:] = 0.0
            return
        for k in range(nodes):
            now[k] /= norm
            basis[degree, k] = mass[k] * now[k]
        norm_before = norm


@njit(cache=True, nogil=True, fastmath=FAST)
def marginal_value(first, last, start, weight, s, parts, copies, tops):
    """sum_r log of the integral over q_r, and nothing else: what a sampler asks for."""
    nodes = NODES * parts.shape[0]
    q, mass, width = np.empty(nodes), np.empty(nodes), np.empty(nodes)
    value = 0.0
    for r in range(first, last):
        if copies[r] == 0.0:
            continue
        place_nodes(start[r], start[r + 1], s, weight, parts, tops[r], q, mass, width)
        value += copies[r] * to_posterior(mass)
    return value


@njit(cache=True, nogil=True, fastmath=FAST)
def marginal_pass(
    first, last, start, winner, loser, weight, s, parts, copies, tops, curve, rows, summary, sums
):
    """The same value with gradient, curvature, EM sums and what is known of each rater.

    Gradient and curvature follow from differentiating under the integral: the score is the
    posterior mean of the scores given q, and the Hessian the mean of the Hessians given q plus the
    covariance of the scores, whose leading terms (in orthogonal polynomials of q) are ``rows``.
    ``summary`` has for each rater: mean of q, variance of q, P(guesser). ``sums`` gets the gradient
    and the two sums of the M-step, as in ``em_pass``.
    """
    nodes = NODES * parts.shape[0]
    q, mass, width = np.empty(nodes), np.empty(nodes), np.empty(nodes)
    basis = np.empty((ROWS, nodes))
    ratio = np.empty(nodes)
    value, gradient, wins, draw = 0.0, sums[0], sums[1], sums[2]
    for r in range(first, last):
        low, high, times = start[r], start[r + 1], copies[r]
        if times == 0.0:
            curve[low:high] = 0.0
            rows[:, low:high] = 0.0
            continue
        place_nodes(low, high, s, weight, parts, tops[r], q, mass, width)
        value += times * to_posterior(mass)
        orthogonal_rows(q, mass, basis)
        mean, square, guesser = 0.0, 0.0, 0.0
        for k in range(nodes):
            mean += mass[k] * q[k]
            square += mass[k] * q[k] * q[k]
            if k >= NODES:
                guesser += mass[k]
        summary[r, 0] = mean
        summary[r, 1] = max(square - mean * mean, 0.0)
        summary[r, 2] = guesser
        root = np.sqrt(times)
        for t in range(low, high):
            one, two = 0.0, 0.0
            for k in range(nodes):
                ratio[k] = q[k] / (0.5 + q[k] * s[t])
                one += mass[k] * ratio[k]
                two += mass[k] * ratio[k] * ratio[k]
            slope = 0.25 - s[t] * s[t]
            push = times * weight[t] * slope * one
            gradient[winner[t]] += push
            gradient[loser[t]] -= push
            y = 0.5 + s[t]
            expected = times * weight[t] * y * one
            wins[winner[t]] += expected
            draw[winner[t]] += expected * y
            draw[loser[t]] += expected * (1.0 - y)
            curve[t] = times * weight[t] * slope * (2.0 * s[t] * one + slope * two)
            for d in range(rows.shape[0]):
                dot = 0.0
                for k in range(nodes):
                    dot += basis[d, k] * ratio[k]
                rows[d, t] = root * weight[t] * slope * dot
    return value


@njit(cache=True, nogil=True, fastmath=FAST)
def known_quality(first, last, start, weight, s, parts, tops, levels, threshold, ends, below):
    """Of each rater given theta: quantiles of q, and P(q < threshold).

    The nodes' masses are spread over their cells.
    """
    nodes = NODES * parts.shape[0]
    q, mass, width = np.empty(nodes), np.empty(nodes), np.empty(nodes)
    for r in range(first, last):
        place_nodes(start[r], start[r + 1], s, weight, parts, tops[r], q, mass, width)
        to_posterior(mass)
        order = np.argsort(q)
        for level in range(levels.size):
            passed = 0.0
            ends[r, level] = q[order[-1]]
            for k in order:
                if passed + mass[k] >= levels[level]:
                    inside = (levels[level] - passed) / mass[k] - 0.5
                    ends[r, level] = min(max(q[k] + inside * width[k], 0.0), 1.0)
                    break
                passed += mass[k]
        total = 0.0
        for k in range(nodes):
            total += mass[k] * min(max((threshold - q[k]) / width[k] + 0.5, 0.0), 1.0)
        below[r] = total


@njit(cache=True, nogil=True, fastmath=FAST)
def draw_quality(first, last, start, weight, s, parts, tops, uniform, out):
    """One draw of each rater's quality given theta: a node by its mass, then within its cell."""
    nodes = NODES * parts.shape[0]
    q, mass, width = np.empty(nodes), np.empty(nodes), np.empty(nodes)
    for r in range(first, last):
        place_nodes(start[r], start[r + 1], s, weight, parts, tops[r], q, mass, width)
        to_posterior(mass)
        left = uniform[r]
        out[r] = q[nodes - 1]
        for k in range(nodes):
            if left < mass[k]:
                out[r] = min(max(q[k] + (left / mass[k] - 0.5) * width[k], 0.0), 1.0)
                break
            left -= mass[k]
