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
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.data.triples import Codes, Floats
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
LEAST_NORM = 1e-9  # of a polynomial of q: below it nothing is left of its degree
RATERS_AT_ONCE = 256  # whose nodes are held in memory


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
def _multiply_factors(q, at, spare):
    """Put the eight factors 1 + q f that wait into the product at each node; none waits then."""
    n = q.shape[1]
    a, b, c, d = spare[n], spare[n + 1], spare[n + 2], spare[n + 3]
    e, f, g, h = spare[n + 4], spare[n + 5], spare[n + 6], spare[n + 7]
    for k in range(n):
        x = q[at, k]
        one = (1.0 + x * a) * (1.0 + x * b) * (1.0 + x * c) * (1.0 + x * d)
        two = (1.0 + x * e) * (1.0 + x * f) * (1.0 + x * g) * (1.0 + x * h)
        spare[k] *= one * two
    for k in range(n, n + 8):
        spare[k] = 0.0


@inner_fast_kernel
def _drain(unit, spare, out, row):
    """Add the log of the products to ``out``; these begin again."""
    for k in range(out.shape[1]):
        out[row, k] += unit * math.log(spare[k])
        spare[k] = 1.0


@inner_fast_kernel
def add_log_products(low, high, s, weight, q, at, spare, out, row):
    """Add log prod_t (1 + 2 q s_t)^w_t to a row of ``out``, at all nodes in a row of ``q`` at once.

    Factors of small whole weights are multiplied up, eight at a time, and put into the log only
    before they could underflow: a multiplication costs a twentieth of a logarithm. Those of halves
    follow in a second round, and what remains has a logarithm of its own. ``spare`` has room for
    the products and eight factors.
    """
    n = q.shape[1]
    for k in range(n):
        spare[k] = 1.0
    for k in range(n, n + 8):
        spare[k] = 0.0
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
                spare[n + waiting] = 2.0 * s[t]
                least *= 1.0 + min(2.0 * s[t], 0.0)
                waiting, since = waiting + 1, since + 1
                if waiting == 8:
                    _multiply_factors(q, at, spare)
                    waiting = 0
                    if least < TINY or since >= FACTORS:
                        _drain(unit, spare, out, row)
                        since, least = 0, 1.0
        if since:
            _multiply_factors(q, at, spare)
            _drain(unit, spare, out, row)
        unit *= 0.5
    if others:
        for t in range(low, high):
            if weight[t] > 4.0 or 2.0 * weight[t] != math.floor(2.0 * weight[t]):
                for k in range(n):
                    out[row, k] += weight[t] * math.log(1.0 + 2.0 * q[at, k] * s[t])


@fast_kernel
def place_nodes(
    first, last, start, weight, s, parts, copies, tops, spare, q, log_mass, width, log_q, log_rest
):
    """Nodes over each part's hill, with the log of prior times likelihood times node weight.

    ``parts`` has rows (log share - log B(alpha, beta), alpha, beta); ``tops`` where to look for
    each part's top (overwritten by the top found). The factors 1/2 of the likelihood are left out.
    ``log_q`` and ``log_rest`` are those of q and 1 - q, 0 where the prior does not ask for them.
    The rows of what is written begin with rater ``first``; one who counts 0 times is not looked at.
    """
    for r in range(first, last):
        low, high, row = start[r], start[r + 1], r - first
        if copies[r] == 0.0:
            for k in range(q.shape[1]):
                q[row, k], width[row, k], log_mass[row, k] = 0.5, 1.0, 0.0
                log_q[row, k], log_rest[row, k] = 0.0, 0.0
            continue
        for c in range(parts.shape[0]):
            alpha, beta = parts[c, 1], parts[c, 2]
            top = best_quality(low, high, s, weight, alpha, beta, tops[r, c], TOP_TOLERANCE)
            tops[r, c] = top
            left, right = feet(low, high, s, weight, alpha, beta, top)
            rule = 0
            if left == 0.0 and alpha < 4.0 and alpha != math.floor(alpha):
                rule += 1
            if right == 1.0 and beta < 4.0 and beta != math.floor(beta):
                rule += 2
            constant = parts[c, 0] + math.log(right - left)
            for g in range(NODES):
                k = c * NODES + g
                x = left + (right - left) * RULE_AT[rule, g]
                q[row, k] = x
                width[row, k] = (right - left) * RULE_BY[rule, g]
                # Logarithms are what a rater of few answers costs: none that is multiplied by 0.
                by_low = math.log(x) if alpha != 1.0 else 0.0
                by_high = math.log(1.0 - x) if beta != 1.0 else 0.0
                log_q[row, k], log_rest[row, k] = by_low, by_high
                log_mass[row, k] = (
                    constant
                    + LOG_RULE_BY[rule, g]
                    + (alpha - 1.0) * by_low
                    + (beta - 1.0) * by_high
                )
        add_log_products(low, high, s, weight, q, row, spare, log_mass, row)


@dataclass(slots=True)
class PosteriorNodes:
    """What is known of the quality of some raters: a row of nodes each, with their masses."""

    q: Floats
    mass: Floats
    width: Floats
    log_q: Floats
    log_rest: Floats
    log_likelihood: Floats


def posterior_nodes(
    first: int, last: int, start: Codes, weight: Floats, s: Floats, parts: Floats, copies: Floats,
    tops: Floats,
) -> PosteriorNodes:  # fmt: skip
    """The posterior of the quality of the raters ``first..last - 1``."""
    nodes = NODES * len(parts)
    q, mass, width, log_q, log_rest = np.empty((5, last - first, nodes))
    place_nodes(
        first, last, start, weight, s, parts, copies, tops, np.empty(nodes + 8), q, mass, width,
        log_q, log_rest,
    )  # fmt: skip
    return PosteriorNodes(q, mass, width, log_q, log_rest, to_posterior(mass))


def to_posterior(log_mass: Floats) -> Floats:
    """Normalise each row of masses in place; returns the logs of their sums."""
    top = log_mass.max(axis=1, keepdims=True)
    log_mass -= top
    np.exp(log_mass, out=log_mass)
    total = log_mass.sum(axis=1, keepdims=True)
    log_mass /= total
    return np.asarray((top + np.log(total))[:, 0])


def orthogonal_rows(q: Floats, mass: Floats) -> Floats:
    """mass * (orthonormal polynomials of degree 1, 2, … in q under mass), of each rater."""
    basis = np.empty((ROWS, *q.shape))
    _recur(q, mass, np.empty((2, q.shape[1])), basis)
    return basis


@fast_kernel
def _recur(q, mass, spare, basis):
    """Stieltjes' recurrence; ``spare`` holds the last two polynomials at the nodes."""
    nodes = q.shape[1]
    for row in range(q.shape[0]):
        norm = 0.0
        for k in range(nodes):
            spare[0, k], spare[1, k] = 0.0, 1.0
        for degree in range(ROWS):
            centre, square = 0.0, 0.0
            for k in range(nodes):
                centre += mass[row, k] * q[row, k] * spare[1, k] * spare[1, k]
            for k in range(nodes):
                now = spare[1, k]
                new = (q[row, k] - centre) * now - norm * spare[0, k]
                spare[0, k], spare[1, k] = now, new
                square += mass[row, k] * new * new
            norm = math.sqrt(square)
            # Where hardly more than a point has mass, there is no polynomial of this degree.
            shrink = 0.0
            if norm < LEAST_NORM:
                norm = 0.0
            else:
                shrink = 1.0 / norm
            for k in range(nodes):
                spare[1, k] *= shrink
                basis[degree, row, k] = mass[row, k] * spare[1, k]


def population_scores(
    found: PosteriorNodes, turn: Floats, bend: Floats
) -> tuple[Floats, Floats, Floats]:
    """What the raters' posteriors over the nodes say of the population's parameters.

    ``turn`` has for each part a row (by log q, by log(1 - q), constant) for each parameter: the
    derivative of the log of the part's density is ``turn · (log q, log(1 - q), 1)``. ``bend`` has
    the second derivatives that do not follow from these (the derivative of the constants).
    Returns mass * (derivative - its mean) at the nodes, and for each rater the mean of the
    derivatives and the matrix of second derivatives of the log-likelihood.
    """
    n, raters = turn.shape[1], len(found.q)
    score, mean, second = (
        np.empty((n, *found.q.shape)),
        np.zeros((raters, n)),
        np.zeros((raters, n, n)),
    )
    for part in range(len(turn)):
        at = slice(part * NODES, (part + 1) * NODES)
        mass, low, high = found.mass[:, at], found.log_q[:, at], found.log_rest[:, at]
        for p, (by_low, by_high, constant, repeats) in enumerate(turn[part]):
            told = score[p, :, at]
            told[:] = constant
            if by_low:
                told += by_low * low
            if by_high:
                told += by_high * high
            here = np.einsum("rk,rk->r", mass, told)
            mean[:, p] += here
            # Where the density's logarithm is linear in exp(eta), it repeats in the second.
            second[:, p, p] += repeats * here
        second += mass.sum(axis=1)[:, None, None] * bend[part]
    score -= mean.T[:, :, None]
    weighted = score * found.mass
    for p in range(n):
        for o in range(n):
            second[:, p, o] += np.einsum("rk,rk->r", weighted[p], score[o])
    return weighted, mean, second


def blocks(first: int, last: int) -> Iterator[tuple[int, int]]:
    """The raters ``first..last - 1``, few at a time: their nodes stay in the cache."""
    for begin in range(first, last, RATERS_AT_ONCE):
        yield begin, min(begin + RATERS_AT_ONCE, last)


def marginal_value(
    first: int, last: int, start: Codes, weight: Floats, s: Floats, parts: Floats, copies: Floats,
    tops: Floats,
) -> float:  # fmt: skip
    """sum_r log of the integral over q_r, and nothing else: what a sampler asks for."""
    value = 0.0
    for begin, end in blocks(first, last):
        found = posterior_nodes(begin, end, start, weight, s, parts, copies, tops)
        value += float(copies[begin:end] @ found.log_likelihood)
    return value


@fast_kernel
def _triple_sums(
    first, last, start, winner, loser, weight, s, copies, q, mass, basis, score, spare, curve, rows,
    pushes, mixed, sums,
):  # fmt: skip
    """Gradient, curvature, EM sums and what else is a sum over nodes, triple by triple.

    ``spare`` has a row for each of: q, mass, ratio, the rows of ``basis`` and those of ``score``.
    """
    nodes, n = q.shape[1], score.shape[0]
    for r in range(first, last):
        times, row = copies[r], r - first
        root, kept = math.sqrt(times), 0
        # The nodes that count are moved to the front.
        for k in range(nodes):
            if mass[row, k] > SLIGHT_MASS:
                spare[0, kept], spare[1, kept] = q[row, k], mass[row, k]
                for d in range(ROWS):
                    spare[3 + d, kept] = basis[d, row, k]
                for p in range(n):
                    spare[3 + ROWS + p, kept] = score[p, row, k]
                kept += 1
        for t in range(start[r], start[r + 1]):
            here = s[t]
            for k in range(kept):
                spare[2, k] = spare[0, k] / (0.5 + spare[0, k] * here)
            one, two, a, b, c, e = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for k in range(kept):
                ratio = spare[2, k]
                one += spare[1, k] * ratio
                two += spare[1, k] * ratio * ratio
                a += spare[3, k] * ratio
                b += spare[4, k] * ratio
                c += spare[5, k] * ratio
                e += spare[6, k] * ratio
            slope = 0.25 - here * here
            part = weight[t] * slope
            push = times * part * one
            pushes[t] = push
            sums[0, winner[t]] += push
            sums[0, loser[t]] -= push
            y = 0.5 + here
            expected = times * weight[t] * y * one
            sums[1, winner[t]] += expected
            sums[2, winner[t]] += expected * y
            sums[2, loser[t]] += expected * (1.0 - y)
            curve[t] = times * part * (2.0 * here * one + slope * two)
            scale = root * part
            rows[0, t], rows[1, t] = scale * a, scale * b
            rows[2, t], rows[3, t] = scale * c, scale * e
            for p in range(n):
                along = 0.0
                for k in range(kept):
                    along += spare[3 + ROWS + p, k] * spare[2, k]
                turned = times * part * along
                sums[3 + p, winner[t]] += turned
                sums[3 + p, loser[t]] -= turned
                if mixed.shape[1]:
                    mixed[p, t] = turned


def marginal_pass(
    first: int, last: int, start: Codes, winner: NDArray[np.int32], loser: NDArray[np.int32],
    weight: Floats, s: Floats, parts: Floats, copies: Floats, tops: Floats, turn: Floats,
    bend: Floats, curve: Floats, rows: Floats, pushes: Floats, mixed: Floats, summary: Floats,
    about: Floats, sums: Floats,
) -> float:  # fmt: skip
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
    n = int(turn.shape[1])
    value, spare = 0.0, np.empty((3 + ROWS + n, NODES * len(parts)))
    for begin, end in blocks(first, last):
        found = posterior_nodes(begin, end, start, weight, s, parts, copies, tops)
        q, mass, times = found.q, found.mass, copies[begin:end]
        value += float(times @ found.log_likelihood)
        mean = np.einsum("rk,rk->r", mass, q)
        spread = np.einsum("rk,rk->r", mass, (q - mean[:, None]) ** 2)
        told = np.column_stack((mean, spread, mass[:, NODES:].sum(axis=1), found.log_likelihood))
        np.copyto(summary[begin:end], told, where=(times > 0.0)[:, None])
        score = np.empty((0, *q.shape))
        if n:
            score, first_by, second_by = population_scores(found, turn, bend)
            about[begin:end, :n] = times[:, None] * first_by
            about[begin:end, n:] = times[:, None] * second_by.reshape(-1, n * n)
        _triple_sums(
            begin, end, start, winner, loser, weight, s, copies, q, mass,
            orthogonal_rows(q, mass), score, spare, curve, rows, pushes, mixed, sums,
        )  # fmt: skip
    return value


def known_quality(
    first: int, last: int, start: Codes, weight: Floats, s: Floats, parts: Floats, tops: Floats,
    levels: Floats, threshold: float, ends: Floats, below: Floats,
) -> None:  # fmt: skip
    """Of each rater given theta: quantiles of q, and P(q < threshold).

    The nodes' masses are spread over their cells.
    """
    once = np.ones(len(tops))
    for begin, end in blocks(first, last):
        found = posterior_nodes(begin, end, start, weight, s, parts, once, tops)
        part = (threshold - found.q) / found.width + 0.5
        below[begin:end] = np.einsum("rk,rk->r", found.mass, np.clip(part, 0.0, 1.0))
        order = np.argsort(found.q, axis=1, kind="stable")
        q, mass, width = (
            np.take_along_axis(one, order, axis=1) for one in (found.q, found.mass, found.width)
        )
        for level, share in enumerate(levels):
            ends[begin:end, level] = _quantile(q, mass, width, np.full((len(q), 1), share))


def _quantile(q: Floats, mass: Floats, width: Floats, share: Floats) -> Floats:
    """Of each rater the q below which this share of the mass is, as the nodes stand."""
    passed = np.cumsum(mass, axis=1)
    reached = np.minimum((passed < share).sum(axis=1), q.shape[1] - 1)
    at = np.arange(len(q)), reached
    inside = (share[:, 0] - passed[at]) / np.maximum(mass[at], 1e-300) + 0.5
    return np.asarray(np.clip(q[at] + np.clip(inside, -0.5, 0.5) * width[at], 0.0, 1.0))


def draw_quality(
    first: int, last: int, start: Codes, weight: Floats, s: Floats, parts: Floats, tops: Floats,
    uniform: Floats, out: Floats,
) -> None:  # fmt: skip
    """One draw of each rater's quality given theta: a node by its mass, then within its cell."""
    once = np.ones(len(tops))
    for begin, end in blocks(first, last):
        found = posterior_nodes(begin, end, start, weight, s, parts, once, tops)
        share = uniform[begin:end, None]
        out[begin:end] = _quantile(found.q, found.mass, found.width, share)


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
def likelihood_table(first, last, raters, start, weight, s, q, spare, out):
    """Add log prod_t (1 + 2 q s_t)^w_t of some raters at each q: the odds against a coin.

    ``q`` has a row for each rater or one for all, ``spare`` room for a row and eight more.
    """
    for k in range(first, last):
        low, high = start[raters[k]], start[raters[k] + 1]
        add_log_products(low, high, s, weight, q, k % q.shape[0], spare, out, k)
