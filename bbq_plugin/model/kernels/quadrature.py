"""Fused passes with each rater's quality integrated out, also of what all others say.

The likelihood of one rater is prod_t (1/2 + q s_t)^w_t, and times a Beta with alpha, beta >= 1 it
is log-concave in q: one hill on [0, 1]. Its top is found by Newton, its foot where it has fallen by
``DROP`` nats, and a Gauss-Legendre rule between the feet integrates it to six digits or more,
whether the rater answered three times or three million times (a rule fixed on [0, 1] is exact for
few comparisons and blind for many). A population in several parts adds one such hill for each.

Fused passes that judge each rater by what all others say.

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
from numpy.typing import NDArray

from bbq_plugin.model.kernels import fast_kernel, inner_fast_kernel, inner_kernel, kernel
from bbq_plugin.model.kernels.likelihood import best_quality

NODES = 20
DROP = 16.0
TOP_TOLERANCE = 1e-4  # of q: the nodes stand around the top, they do not hang on it
TINY, FACTORS = 1e-150, 400  # when a running product of factors in (0, 2] is put into its log
BLOCK = 64  # factors of one product where only one q is asked for
SLIGHT_MASS = 1e-11  # of a rater's posterior: a node with less changes no digit that counts


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
LOG_RULE_BY = np.log(RULE_BY)
ROWS = 4  # moments of a rater's score that the curvature keeps (the rest is below rounding)


@inner_fast_kernel
def log_share(low, high, s, weight, alpha, beta, q):
    """log prod (1 + 2 q s)^w + log Beta kernel, at one q; products as in `add_log_products`."""
    total = 0.0
    for first in range(low, high, BLOCK):
        last = min(first + BLOCK, high)
        product, others = 1.0, 0
        for t in range(first, last):
            factor, w = 1.0 + 2.0 * q * s[t], weight[t]
            product *= factor if w == 1.0 else (factor * factor if w == 2.0 else 1.0)
            others += (w - 1.0) * (w - 2.0) != 0.0
        if product < TINY:
            product, others = 1.0, -1
        total += math.log(product)
        if others:
            for t in range(first, last):
                if others < 0 or (weight[t] - 1.0) * (weight[t] - 2.0) != 0.0:
                    total += weight[t] * math.log(1.0 + 2.0 * q * s[t])
    if alpha > 1.0:
        total += (alpha - 1.0) * math.log(q) if q > 0.0 else -np.inf
    if beta > 1.0:
        total += (beta - 1.0) * math.log(1.0 - q) if q < 1.0 else -np.inf
    return total


@inner_fast_kernel
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
    reach = 2.0 * DROP / (slope + math.sqrt(slope * slope + 2.0 * DROP * stiff) + 1e-300)
    left, right = top, top
    for side in range(2):
        foot = min(top + reach, 1.0) if side else max(top - reach, 0.0)
        while 0.0 < foot < 1.0:
            if log_share(low, high, s, weight, alpha, beta, foot) <= height - DROP:
                break
            foot = min(max(top + 1.6 * (foot - top), 0.0), 1.0)
        if side:
            right = foot
        else:
            left = foot
    return left, right


@inner_fast_kernel
def _multiply_factors(some, q, product):
    """Put eight factors 1 + some_j q into the product at each node; the next eight begin empty."""
    a, b, c, d, e, f, g, h = some[0], some[1], some[2], some[3], some[4], some[5], some[6], some[7]
    for k in range(q.size):
        x = q[k]
        one = (1.0 + x * a) * (1.0 + x * b) * (1.0 + x * c) * (1.0 + x * d)
        two = (1.0 + x * e) * (1.0 + x * f) * (1.0 + x * g) * (1.0 + x * h)
        product[k] *= one * two
    for k in range(8):
        some[k] = 0.0


@inner_fast_kernel
def _drain(unit, product, out):
    """Add the log of the products to ``out``; these begin again."""
    for k in range(product.size):
        out[k] += unit * math.log(product[k])
        product[k] = 1.0


@inner_fast_kernel
def add_log_products(low, high, s, weight, q, out):
    """Add log prod_t (1 + 2 q s_t)^w_t to ``out``, at all nodes at once.

    Factors of small whole weights are multiplied up, eight at a time, and put into the log only
    before they could underflow: a multiplication costs a twentieth of a logarithm. Those of halves
    follow in a second round, and what remains has a logarithm of its own.
    """
    product, some = np.ones(q.size), np.zeros(8)
    unit, others = 1.0, 1
    while others and unit > 0.25:
        waiting, since, least, others = 0, 0, 1.0, 0
        for t in range(low, high):
            # Of what the weight is a few times: wholes, halves, or nothing.
            times = weight[t] / unit
            if weight[t] > 4.0 or times != math.floor(times):
                others += 1
                continue
            if unit < 1.0 and weight[t] == math.floor(weight[t]):
                continue
            for _ in range(int(times)):
                some[waiting] = 2.0 * s[t]
                least *= 1.0 + min(2.0 * s[t], 0.0)
                waiting, since = waiting + 1, since + 1
                if waiting == 8:
                    _multiply_factors(some, q, product)
                    waiting = 0
                    if least < TINY or since >= FACTORS:
                        _drain(unit, product, out)
                        since, least = 0, 1.0
        if since:
            _multiply_factors(some, q, product)
            _drain(unit, product, out)
        unit *= 0.5
    if others:
        for t in range(low, high):
            if weight[t] > 4.0 or 2.0 * weight[t] != math.floor(2.0 * weight[t]):
                for k in range(q.size):
                    out[k] += weight[t] * math.log(1.0 + 2.0 * q[k] * s[t])


@inner_fast_kernel
def place_nodes(low, high, s, weight, parts, guess, q, log_mass, width, log_q, log_rest):
    """Nodes over each part's hill, with the log of prior times likelihood times node weight.

    ``parts`` has rows (log share - log B(alpha, beta), alpha, beta); ``guess`` where to look for
    each part's top (overwritten by the top found). The factors 1/2 of the likelihood are left out.
    ``log_q`` and ``log_rest`` are those of q and 1 - q, 0 where the prior does not ask for them.
    """
    for c in range(parts.shape[0]):
        alpha, beta = parts[c, 1], parts[c, 2]
        top = best_quality(low, high, s, weight, alpha, beta, guess[c], TOP_TOLERANCE)
        guess[c] = top
        left, right = feet(low, high, s, weight, alpha, beta, top)
        rule = 0
        if left == 0.0 and alpha < 4.0 and alpha != math.floor(alpha):
            rule += 1
        if right == 1.0 and beta < 4.0 and beta != math.floor(beta):
            rule += 2
        constant = parts[c, 0] + math.log(right - left)
        for g in range(NODES):
            k = c * NODES + g
            q[k] = left + (right - left) * RULE_AT[rule, g]
            width[k] = (right - left) * RULE_BY[rule, g]
            # Logarithms are what a rater of few answers costs: none that is multiplied by 0.
            log_q[k] = math.log(q[k]) if alpha != 1.0 else 0.0
            log_rest[k] = math.log(1.0 - q[k]) if beta != 1.0 else 0.0
            log_mass[k] = (
                constant
                + LOG_RULE_BY[rule, g]
                + (alpha - 1.0) * log_q[k]
                + (beta - 1.0) * log_rest[k]
            )
    add_log_products(low, high, s, weight, q, log_mass)


@inner_fast_kernel
def to_posterior(log_mass):
    """Normalise the nodes' masses in place; returns the log of their sum."""
    top, total = -math.inf, 0.0
    for k in range(log_mass.size):
        top = max(top, log_mass[k])
    for k in range(log_mass.size):
        log_mass[k] = math.exp(log_mass[k] - top)
        total += log_mass[k]
    for k in range(log_mass.size):
        log_mass[k] /= total
    return top + math.log(total)


@inner_fast_kernel
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
        norm = math.sqrt(norm)
        if norm < 1e-9:
            for rest in range(degree, basis.shape[0]):
                for k in range(nodes):
                    basis[rest, k] = 0.0
            return
        for k in range(nodes):
            now[k] /= norm
            basis[degree, k] = mass[k] * now[k]
        norm_before = norm


@fast_kernel
def marginal_value(first, last, start, weight, s, parts, copies, tops):
    """sum_r log of the integral over q_r, and nothing else: what a sampler asks for."""
    nodes = NODES * parts.shape[0]
    q, mass, width = np.empty(nodes), np.empty(nodes), np.empty(nodes)
    log_q, log_rest = np.empty(nodes), np.empty(nodes)
    value = 0.0
    for r in range(first, last):
        if copies[r] == 0.0:
            continue
        place_nodes(
            start[r], start[r + 1], s, weight, parts, tops[r], q, mass, width, log_q, log_rest
        )
        value += copies[r] * to_posterior(mass)
    return value


@inner_fast_kernel
def population_scores(log_q, log_rest, mass, turn, bend, score, out):
    """What one rater's posterior over the nodes says of the population's parameters.

    ``turn`` has for each part a row (by log q, by log(1 - q), constant) for each parameter: the
    derivative of the log of the part's density is ``turn · (log q, log(1 - q), 1)``. ``bend`` has
    the second derivatives that do not follow from these (the derivative of the constants).
    ``score`` becomes mass * (derivative - its mean); ``out`` gets the mean of the derivatives and
    then the matrix of second derivatives of the rater's log-likelihood, row by row.
    """
    n, nodes = turn.shape[1], mass.size
    for p in range(n + n * n):
        out[p] = 0.0
    for part in range(turn.shape[0]):
        first, whole = part * NODES, 0.0
        for k in range(first, first + NODES):
            whole += mass[k]
        for p in range(n):
            by_low, by_high, constant = turn[part, p, 0], turn[part, p, 1], turn[part, p, 2]
            mean = 0.0
            for k in range(first, first + NODES):
                told = by_low * log_q[k] + by_high * log_rest[k] + constant
                score[p, k] = told
                mean += mass[k] * told
            out[p] += mean
            # Where the density's logarithm is linear in exp(eta), it repeats in the second.
            out[n + p * n + p] += turn[part, p, 3] * mean
            for o in range(n):
                out[n + p * n + o] += whole * bend[part, p, o]
    for p in range(n):
        for k in range(nodes):
            score[p, k] -= out[p]
    for p in range(n):
        for o in range(n):
            both = 0.0
            for k in range(nodes):
                both += mass[k] * score[p, k] * score[o, k]
            out[n + p * n + o] += both
    for p in range(n):
        for k in range(nodes):
            score[p, k] *= mass[k]


@inner_fast_kernel
def _sums(mass, basis, ratio, kept, along):
    """sum_k of mass r, mass r^2, and each of the four rows of ``basis`` times r, in one loop."""
    one, two, a, b, c, d = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(kept):
        r = ratio[k]
        one += mass[k] * r
        two += mass[k] * r * r
        a += basis[0, k] * r
        b += basis[1, k] * r
        c += basis[2, k] * r
        d += basis[3, k] * r
    along[0], along[1], along[2], along[3] = a, b, c, d
    return one, two


@fast_kernel
def marginal_pass(
    first, last, start, winner, loser, weight, s, parts, copies, tops, turn, bend, curve, rows,
    pushes, mixed, summary, about, sums,
):  # fmt: skip
    """The same value with gradient, curvature, EM sums and what is known of each rater.

    ``pushes`` gets each triple's part of the gradient, ``about`` what `population_scores` says.
    ``mixed`` (parameters x triples; of no parameter where no population is estimated, of no triple
    where the sums are enough) gets the derivatives of the pushes by the population's parameters.

    Gradient and curvature follow from differentiating under the integral: the score is the
    posterior mean of the scores given q, and the Hessian the mean of the Hessians given q plus the
    covariance of the scores, whose leading terms (in orthogonal polynomials of q) are ``rows``.
    ``summary`` has for each rater: mean of q, variance of q, P(guesser), log-likelihood. ``sums``
    gets the gradient, the two sums of the M-step, as in ``em_pass``, and the derivatives of the
    gradient by each of the population's parameters.
    """
    nodes, n = NODES * parts.shape[0], turn.shape[1]
    q, mass, width, ratio = np.empty(nodes), np.empty(nodes), np.empty(nodes), np.empty(nodes)
    basis, score = np.empty((ROWS, nodes)), np.empty((n, nodes))
    log_q, log_rest = np.empty(nodes), np.empty(nodes)
    value, along = 0.0, np.empty(ROWS)
    for r in range(first, last):
        low, high, times = start[r], start[r + 1], copies[r]
        if times == 0.0:
            for t in range(low, high):
                curve[t], pushes[t] = 0.0, 0.0
                for d in range(ROWS):
                    rows[d, t] = 0.0
                if mixed.shape[1]:
                    for p in range(n):
                        mixed[p, t] = 0.0
            for p in range(n + n * n):
                about[r, p] = 0.0
            continue
        place_nodes(low, high, s, weight, parts, tops[r], q, mass, width, log_q, log_rest)
        summary[r, 3] = to_posterior(mass)
        value += times * summary[r, 3]
        orthogonal_rows(q, mass, basis)
        if n:
            population_scores(log_q, log_rest, mass, turn, bend, score, about[r])
            for p in range(n + n * n):
                about[r, p] *= times
        guesser, mean, spread = 0.0, 0.0, 0.0
        for k in range(NODES, nodes):
            guesser += mass[k]
        # The nodes that count are moved to the front.
        root, kept = math.sqrt(times), 0
        for k in range(nodes):
            if mass[k] > SLIGHT_MASS:
                q[kept], mass[kept] = q[k], mass[k]
                mean += mass[k] * q[k]
                for d in range(ROWS):
                    basis[d, kept] = basis[d, k]
                for d in range(n):
                    score[d, kept] = score[d, k]
                kept += 1
        for k in range(kept):
            spread += mass[k] * (q[k] - mean) ** 2
        summary[r, 0], summary[r, 1], summary[r, 2] = mean, spread, guesser
        for t in range(low, high):
            for k in range(kept):
                ratio[k] = q[k] / (0.5 + q[k] * s[t])
            one, two = _sums(mass, basis, ratio, kept, along)
            slope = 0.25 - s[t] * s[t]
            part = weight[t] * slope
            push = times * part * one
            pushes[t] = push
            sums[0, winner[t]] += push
            sums[0, loser[t]] -= push
            y = 0.5 + s[t]
            expected = times * weight[t] * y * one
            sums[1, winner[t]] += expected
            sums[2, winner[t]] += expected * y
            sums[2, loser[t]] += expected * (1.0 - y)
            curve[t] = times * part * (2.0 * s[t] * one + slope * two)
            for d in range(ROWS):
                rows[d, t] = root * part * along[d]
            if n:
                _sums(mass, score, ratio, kept, along)
                for p in range(n):
                    turned = times * part * along[p]
                    sums[3 + p, winner[t]] += turned
                    sums[3 + p, loser[t]] -= turned
                    if mixed.shape[1]:
                        mixed[p, t] = turned
    return value


@fast_kernel
def known_quality(first, last, start, weight, s, parts, tops, levels, threshold, ends, below):
    """Of each rater given theta: quantiles of q, and P(q < threshold).

    The nodes' masses are spread over their cells.
    """
    nodes = NODES * parts.shape[0]
    q, mass, width = np.empty(nodes), np.empty(nodes), np.empty(nodes)
    log_q, log_rest = np.empty(nodes), np.empty(nodes)
    order = np.empty(nodes, dtype=np.int64)
    for r in range(first, last):
        place_nodes(
            start[r], start[r + 1], s, weight, parts, tops[r], q, mass, width, log_q, log_rest
        )
        to_posterior(mass)
        # Those of one part are in order.
        for k in range(nodes):
            j = k
            while j > 0 and q[order[j - 1]] > q[k]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = k
        for level in range(levels.size):
            passed = 0.0
            ends[r, level] = q[order[nodes - 1]]
            for j in range(nodes):
                k = order[j]
                if passed + mass[k] >= levels[level]:
                    inside = (levels[level] - passed) / mass[k] - 0.5
                    ends[r, level] = min(max(q[k] + inside * width[k], 0.0), 1.0)
                    break
                passed += mass[k]
        total = 0.0
        for k in range(nodes):
            total += mass[k] * min(max((threshold - q[k]) / width[k] + 0.5, 0.0), 1.0)
        below[r] = total


@fast_kernel
def draw_quality(first, last, start, weight, s, parts, tops, uniform, out):
    """One draw of each rater's quality given theta: a node by its mass, then within its cell."""
    nodes = NODES * parts.shape[0]
    q, mass, width = np.empty(nodes), np.empty(nodes), np.empty(nodes)
    log_q, log_rest = np.empty(nodes), np.empty(nodes)
    for r in range(first, last):
        place_nodes(
            start[r], start[r + 1], s, weight, parts, tops[r], q, mass, width, log_q, log_rest
        )
        to_posterior(mass)
        left = uniform[r]
        out[r] = q[nodes - 1]
        for k in range(nodes):
            if left < mass[k]:
                out[r] = min(max(q[k] + (left / mass[k] - 0.5) * width[k], 0.0), 1.0)
                break
            left -= mass[k]


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
