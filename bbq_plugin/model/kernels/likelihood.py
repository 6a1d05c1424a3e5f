"""Fused passes over the triples: the only loops of the fit that touch the data.

One symbol carries everything. For a triple (rater r, winner i, loser j) with y = P(i beats j),

    s = y - 1/2 = tanh((theta_i - theta_j) / 2) / 2
    p = P(r ranks i above j) = 1/2 + q_r s            (the paper's mixture)
    dy/dd = y (1 - y) = 1/4 - s^2                     (d = theta_i - theta_j)

The signed model has answers that are informed (q+), guessed (q0) or inverted (q-). With
q = q+ - q- again p = q+ sigma(d) + q- sigma(-d) + q0 / 2 = 1/2 + q s, so the likelihood sees only q
in [-1, 1]. Of the Dirichlet's log, A log q+ + C log q0 + B log q-, the best share u = q+ + q- for a
given q solves a quadratic; what remains is a concave function of q alone, and Newton's machinery of
the unsigned model serves again.

Every kernel works on the raters ``first..last - 1``, releases the interpreter lock and writes only
to its own stretch or its own sums, so that several may run at once.

The Gibbs sampler of BBQ: every conditional is conjugate, so there is nothing to tune.

One sweep draws, in the notation of the paper's appendix A,

    A_t ~ Binomial(w_t, gamma_t)          which answers were informed
    q_r ~ Beta(alpha + m_r, beta + n_r - m_r)
    Z_ij ~ Gamma(m_ij, lambda_i + lambda_j)
    lambda_i ~ Gamma(a + v_i, b + sum_j z_ij)

and at last the common level, sum(lambda) ~ Gamma(K a, b), which the comparisons do not see.

Where quality is integrated out:
the likelihood of one rater is prod_t (1/2 + q s_t)^w_t, and times a Beta with alpha, beta >= 1 it
is log-concave in q: one hill on [0, 1]. Its top is found by Newton, its foot where it has fallen by
``DROP`` nats, and a Gauss-Legendre rule between the feet integrates it to six digits or more,
whether the rater answered three times or three million times (a rule fixed on [0, 1] is exact for
few comparisons and blind for many). A population in several parts adds one such hill for each.

Where a rater is judged by what all others say:
the curvature of the log-posterior of theta is a sum over raters, H = prior + sum_r H_r, and so is
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

Q_STEPS = 60
SIGNED_Q_STEPS = 80
Q_TOLERANCE = 1e-12
BLOCK = 64  # rows of the outer products that are taken off at once
EDGE = 1e-12  # of [-1, 1], where the signed prior's log is infinite


@fast_kernel
def standing(first, last, start, winner, loser, theta, table, s):
    """s of each triple; from a table of all pairs when there are fewer pairs than triples."""
    n_items = theta.size
    if table.size:
        for t in range(start[first], start[last]):
            s[t] = table[winner[t] * n_items + loser[t]]
    else:
        for t in range(start[first], start[last]):
            s[t] = 0.5 * math.tanh(0.5 * (theta[winner[t]] - theta[loser[t]]))


@inner_fast_kernel
def kept_inside(new, q, below, above):
    """Newton's step from q, cut back to half the way to the bound that it would cross."""
    if not new < above:
        return 0.5 * (q + above)
    if not new > below:
        return 0.5 * (q + below)
    return new


@inner_fast_kernel
def rater_sums(low, high, times, quality, winner, loser, weight, s, gradient, curve, row):
    """What one rater's triples say where q is: log-likelihood, and its -d2/dq2.

    The gradient is added to; ``curve`` and ``row`` are those of ``profile_pass``, unscaled.
    """
    share, stiff = 0.0, 0.0
    for t in range(low, high):
        p = 0.5 + quality * s[t]
        slope = 0.25 - s[t] * s[t]
        ratio = slope / p
        push = weight[t] * quality * ratio
        share += weight[t] * math.log(p)
        gradient[winner[t]] += times * push
        gradient[loser[t]] -= times * push
        curve[t] = times * push * (2.0 * s[t] + quality * ratio)
        row[t] = weight[t] * ratio / (2.0 * p)
        stiff += weight[t] * (s[t] / p) ** 2
    return share, stiff


@inner_fast_kernel
def best_quality(low, high, s, weight, alpha, beta, q, tolerance):
    """The q in [0, 1] that maximises one rater's share of the log-posterior.

    The share is concave in q (the log of affine functions plus a log-concave Beta), so Newton's
    step, cut back towards the nearer bound when it leaves the interval, cannot miss.
    """
    below, above = 0.0, 1.0
    q = min(max(q, 1e-9), 1.0 - 1e-9)
    for _ in range(Q_STEPS):
        slope, curve = 0.0, 0.0
        for t in range(low, high):
            ratio = s[t] / (0.5 + q * s[t])
            slope += weight[t] * ratio
            curve += weight[t] * ratio * ratio
        slope += (alpha - 1.0) / q - (beta - 1.0) / (1.0 - q)
        curve += (alpha - 1.0) / (q * q) + (beta - 1.0) / ((1.0 - q) * (1.0 - q))
        if slope > 0.0:
            below = q
        else:
            above = q
        if curve <= 0.0:
            return q
        new = kept_inside(q + slope / curve, q, below, above)
        moved = abs(new - q)
        q = new
        if moved <= tolerance or (1.0 - q) <= 1e-12 or q <= 1e-12:
            break
    if 1.0 - q <= 1e-11:
        return 1.0
    if q <= 1e-11:
        return 0.0
    return q


@fast_kernel
def profile_pass(
    first, last, start, winner, loser, weight, s, alpha, beta, copies, fixed, q, curve, row,
    gradient,
):  # fmt: skip
    """q at its best for the current theta, then value, gradient and curvature in theta.

    With q_r maximised out, the Hessian in theta is the Schur complement of the arrow-shaped
    Hessian in (theta, q): ``curve`` is -d2/dd2 of each triple and ``row`` its part of the vector
    c_r / sqrt(-d2/dq2) whose outer product is subtracted. Returns the raters' log-posterior.
    """
    value = 0.0
    for r in range(first, last):
        low, high = start[r], start[r + 1]
        times = copies[r]
        if times == 0.0:
            for t in range(low, high):
                curve[t], row[t] = 0.0, 0.0
            continue
        if not fixed:
            q[r] = best_quality(low, high, s, weight, alpha, beta, q[r], Q_TOLERANCE)
        quality = q[r]
        share, stiff = rater_sums(
            low, high, times, quality, winner, loser, weight, s, gradient, curve, row
        )
        if not fixed:
            if alpha > 1.0:
                share += (alpha - 1.0) * math.log(quality)
                stiff += (alpha - 1.0) / quality**2
            if beta > 1.0:
                share += (beta - 1.0) * math.log(1.0 - quality)
                stiff += (beta - 1.0) / (1.0 - quality) ** 2
        value += times * share
        # A rater at an edge of [0, 1], or whose answers say nothing of q, is held when theta moves.
        held = fixed or stiff <= 0.0 or quality <= 0.0 or quality >= 1.0
        scale = 0.0 if held else math.sqrt(times / stiff)
        for t in range(low, high):
            row[t] *= scale
    return value


@fast_kernel
def em_pass(
    first, last, start, winner, loser, weight, s, alpha, beta, copies, fixed, q, new_q, sums
):
    """One E-step and the sums that the closed-form M-step needs (the paper, section 3.3).

    ``sums`` gets wins_i = sum of w gamma over i's wins, and draw_i = lambda_i sum_j m_ij /
    (lambda_i + lambda_j), written through y so that no skill can overflow. Returns the raters'
    log-posterior.
    """
    value, wins, draw = 0.0, sums[0], sums[1]
    for r in range(first, last):
        times, quality = copies[r], q[r]
        new_q[r] = quality
        if times == 0.0:
            continue
        informed, total, share = 0.0, 0.0, 0.0
        for t in range(start[r], start[r + 1]):
            y = 0.5 + s[t]
            p = 0.5 + quality * s[t]
            expected = weight[t] * quality * y / p
            share += weight[t] * math.log(p)
            informed += expected
            total += weight[t]
            wins[winner[t]] += times * expected
            draw[winner[t]] += times * expected * y
            draw[loser[t]] += times * expected * (1.0 - y)
        if not fixed:
            new_q[r] = (informed + alpha - 1.0) / (total + alpha + beta - 2.0)
            if alpha > 1.0:
                share += (alpha - 1.0) * math.log(quality)
            if beta > 1.0:
                share += (beta - 1.0) * math.log(1.0 - quality)
        value += times * share
    return value


@fast_kernel
def schur_dense(first, last, start, winner, loser, curve, rows, n_items, out):
    """Add to ``out`` the off-diagonal curvature of these raters: pairs minus outer products.

    ``rows`` is (components, triples): each component of each rater is one outer product. Those of a
    rater who has seen few of the items are added item by item; the others are gathered 64 at a time
    so that the products become one blocked multiplication. Every row of the whole matrix sums to
    zero (only differences of theta count), so the caller gets the other triangle by symmetry and
    the diagonal from the sums.
    """
    parts, used = rows.shape[0], 0
    for t in range(start[first], start[last]):
        out[winner[t], loser[t]] -= curve[t]
    gathered = np.zeros((n_items, BLOCK))
    # Items of one rater who has seen few, and what each component has of them.
    few = n_items // 4
    place, seen = np.empty(n_items, dtype=np.int64), np.empty(few + 2, dtype=np.int64)
    mine = np.zeros((few + 2, parts))
    for item in range(n_items):
        place[item] = -1
    for r in range(first, last):
        low, high = start[r], start[r + 1]
        if 2 * (high - low) > few:
            for c in range(parts):
                for t in range(low, high):
                    gathered[winner[t], used] += rows[c, t]
                    gathered[loser[t], used] -= rows[c, t]
                used += 1
                if used == BLOCK:
                    _subtract_products(gathered, out)
                    used = 0
            continue
        n = 0
        for t in range(low, high):
            for side in range(2):
                item = loser[t] if side else winner[t]
                at = place[item]
                if at < 0:
                    at = n
                    place[item], seen[n] = n, item
                    n += 1
                for c in range(parts):
                    mine[at, c] += -rows[c, t] if side else rows[c, t]
        for i in range(n):
            place[seen[i]] = -1
            for j in range(i):
                dot = 0.0
                for c in range(parts):
                    dot += mine[i, c] * mine[j, c]
                out[max(seen[i], seen[j]), min(seen[i], seen[j])] -= dot
        for i in range(n):
            for c in range(parts):
                mine[i, c] = 0.0
    if used:
        _subtract_products(gathered, out)


@inner_fast_kernel
def _subtract_products(gathered, out):
    """Take the products of all rows of ``gathered`` from the lower triangle, and empty it.

    By two rows and two columns at once: each number that is loaded is used twice.
    """
    n = gathered.shape[0]
    for i in range(0, n, 2):
        below = min(i + 1, n - 1)
        for j in range(0, i, 2):
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            for k in range(gathered.shape[1]):
                one, two = gathered[i, k], gathered[below, k]
                left, right = gathered[j, k], gathered[j + 1, k]
                a += one * left
                b += one * right
                c += two * left
                d += two * right
            out[i, j] -= a
            out[i, j + 1] -= b
            if below > i:
                out[below, j] -= c
                out[below, j + 1] -= d
        if below > i:
            dot = 0.0
            for k in range(gathered.shape[1]):
                dot += gathered[below, k] * gathered[i, k]
            out[below, i] -= dot
    for i in range(gathered.shape[0]):
        for k in range(gathered.shape[1]):
            gathered[i, k] = 0.0


@fast_kernel
def schur_times(first, last, start, winner, loser, curve, rows, vector, out):
    """out += (the same K x K matrix) @ vector, without forming it."""
    for r in range(first, last):
        low, high = start[r], start[r + 1]
        for t in range(low, high):
            flow = curve[t] * (vector[winner[t]] - vector[loser[t]])
            out[winner[t]] += flow
            out[loser[t]] -= flow
        for c in range(rows.shape[0]):
            along = 0.0
            for t in range(low, high):
                along += rows[c, t] * (vector[winner[t]] - vector[loser[t]])
            for t in range(low, high):
                flow = rows[c, t] * along
                out[winner[t]] -= flow
                out[loser[t]] += flow


@fast_kernel
def schur_diagonal(first, last, start, winner, loser, curve, out):
    """The diagonal of the pair part alone: a preconditioner that cannot be negative by rounding."""
    for t in range(start[first], start[last]):
        out[winner[t]] += curve[t]
        out[loser[t]] += curve[t]


@kernel
def score_products(first, last, start, winner, loser, push, n_items, out):
    """Add sum_c g_c g_c' of these clusters to ``out``, its lower triangle.

    ``push`` has a row for each camp, and g_c one entry for each camp and item. Costs the square of
    what a cluster has seen, whatever the number of items.
    """
    camps, size = push.shape[0], push.shape[0] * n_items
    score, met = np.zeros(size), np.zeros(size)
    seen = np.empty(size, dtype=np.int64)
    for c in range(first, last):
        n = 0
        for camp in range(camps):
            for t in range(start[c], start[c + 1]):
                for side in range(2):
                    i = camp * n_items + (loser[t] if side else winner[t])
                    score[i] += -push[camp, t] if side else push[camp, t]
                    if met[i] == 0.0:
                        met[i], seen[n] = 1.0, i
                        n += 1
        for a in range(n):
            i = seen[a]
            for b in range(a + 1):
                j = seen[b]
                out[max(i, j), min(i, j)] += score[i] * score[j]
        for a in range(n):
            score[seen[a]], met[seen[a]] = 0.0, 0.0


def groups(winner: NDArray[np.int32], loser: NDArray[np.int32], n_items: int) -> Codes:
    """The group of each item, where compared items are in one group (union-find)."""
    parent = np.arange(n_items)
    _join_groups(winner, loser, parent)
    return parent


@kernel
def _join_groups(winner, loser, parent):
    """Let each item point to the first of its group; ``parent`` points to the item itself."""
    left = parent.size
    for t in range(winner.size):
        if left == 1:
            break
        i, j = winner[t], loser[t]
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        while parent[j] != j:
            parent[j] = parent[parent[j]]
            j = parent[j]
        if i != j:
            parent[max(i, j)] = min(i, j)
            left -= 1
    for i in range(parent.size):
        parent[i] = parent[parent[i]]


# -- the signed model


@fast_kernel
def decided_share(q, up, none, down):
    """u = q+ + q- at its best for this q; the exponents are those of q+, q0 and q-."""
    total = up + none + down
    half = up + down + (up - down) * q
    rest = (up - down) * q - none * q * q
    root = math.sqrt(max(half * half - 4.0 * total * rest, 0.0))
    return min(max((half + root) / (2.0 * total), abs(q)), 1.0)


@fast_kernel
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


@fast_kernel
def prior_value(q, up, none, down):
    """The log-Dirichlet at its best for this q, up to its constant."""
    u = decided_share(q, up, none, down)
    value = up * math.log(0.5 * (u + q)) + none * math.log(1.0 - u)
    if down > 0.0:
        value += down * math.log(0.5 * (u - q))
    return value


@inner_fast_kernel
def best_signed(low, high, s, weight, up, none, down, q):
    """The q in (-1, 1) that maximises one rater's share: Newton inside a shrinking bracket."""
    below, above = -1.0, 1.0
    q = min(max(q, EDGE - 1.0), 1.0 - EDGE)
    for _ in range(SIGNED_Q_STEPS):
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


@fast_kernel
def signed_pass(
    first, last, start, winner, loser, weight, s, up, none, down, copies, q, curve, row, gradient
):
    """As ``profile_pass`` of the unsigned model: q at its best, then value, gradient, curvature."""
    value = 0.0
    for r in range(first, last):
        low, high, times = start[r], start[r + 1], copies[r]
        if times == 0.0:
            for t in range(low, high):
                curve[t], row[t] = 0.0, 0.0
            continue
        quality = best_signed(low, high, s, weight, up, none, down, q[r])
        q[r] = quality
        share, stiff = rater_sums(
            low, high, times, quality, winner, loser, weight, s, gradient, curve, row
        )
        share += prior_value(quality, up, none, down)
        stiff -= prior_bend(quality, up, none, down)[1]
        value += times * share
        scale = math.sqrt(times / stiff)
        for t in range(low, high):
            row[t] *= scale
    return value


@fast_kernel
def signed_em_pass(
    first, last, start, winner, loser, weight, s, up, none, down, copies, shares, new, sums
):
    """One E-step: each win is informed, guessed or inverted, and the sums of the M-step.

    An inverted win of i over j is a win of j over i. ``shares`` has rows (q+, q0, q-). Returns the
    raters' log-posterior.
    """
    value, wins, draw = 0.0, sums[0], sums[1]
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
            share += weight[t] * math.log(p)
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
        share += up * math.log(plus) + none * math.log(coin)
        if down > 0.0:
            share += down * math.log(minus)
        value += times * share
    return value


@inner_kernel
def draw_part(rng, parts, quality, log_odds):
    """To which part of the population a rater of this quality belongs."""
    n_parts = parts.shape[0]
    inside = min(max(quality, 1e-300), 1.0 - 1e-16)
    for c in range(n_parts):
        log_odds[c] = (
            parts[c, 0]
            + (parts[c, 1] - 1.0) * math.log(inside)
            + (parts[c, 2] - 1.0) * math.log(1.0 - inside)
        )
    top, total = -math.inf, 0.0
    for c in range(n_parts):
        top = max(top, log_odds[c])
    for c in range(n_parts):
        log_odds[c] = math.exp(log_odds[c] - top)
        total += log_odds[c]
    left = rng.random() * total
    for c in range(n_parts):
        left -= log_odds[c]
        if left <= 0.0:
            return c
    return n_parts - 1


@inner_kernel
def draw_raters(rng, start, winner, loser, weight, pair, parts, part, skill, q, wins, met):
    """Which answers were informed, and each rater's quality given these counts."""
    log_odds = np.empty(parts.shape[0])
    for r in range(start.size - 1):
        informed, total, quality = 0.0, 0.0, q[r]
        for t in range(start[r], start[r + 1]):
            w, i = weight[t], winner[t]
            y = skill[i] / (skill[i] + skill[loser[t]])
            gamma = quality * y / (quality * y + 0.5 * (1.0 - quality))
            if w == 1.0:
                drawn = 1.0 if rng.random() < gamma else 0.0
            else:
                drawn = float(rng.binomial(np.int64(w), min(gamma, 1.0)))
            wins[i] += drawn
            met[pair[t]] += drawn
            informed += drawn
            total += w
        c = part[r]
        q[r] = rng.beta(parts[c, 1] + informed, parts[c, 2] + total - informed)
        if parts.shape[0] > 1:
            part[r] = draw_part(rng, parts, q[r], log_odds)


@inner_kernel
def draw_skills(rng, pair_one, pair_two, a, b, wins, met, skill):
    """Arrival times of the informed answers, the skills given these, and the common level."""
    rate = np.zeros(skill.size)
    for k in range(met.size):
        if met[k] > 0.0:
            i, j = pair_one[k], pair_two[k]
            z = rng.standard_gamma(met[k]) / (skill[i] + skill[j])
            rate[i] += z
            rate[j] += z
    total = 0.0
    for i in range(skill.size):
        skill[i] = max(rng.standard_gamma(a + wins[i]), 1e-290) / (b + rate[i])
        total += skill[i]
    level = rng.standard_gamma(a * skill.size) / b / total
    for i in range(skill.size):
        skill[i] *= level


@kernel
def gibbs_chain(
    rng, start, winner, loser, weight, pair, pair_one, pair_two, a, b, parts, fixed,
    theta, q, warm_up, thin, theta_draws, q_draws,
):  # fmt: skip
    """Run one chain and fill ``theta_draws`` and, unless it has no columns, ``q_draws``.

    With ``fixed`` quality every answer is informed: the counts are the weights, once and for all.
    """
    skill = np.zeros(theta.size)
    for i in range(theta.size):
        skill[i] = math.exp(theta[i])
    part = np.zeros(start.size - 1, dtype=np.int64)
    wins, met = np.zeros(theta.size), np.zeros(pair_one.size)
    if fixed:
        for t in range(winner.size):
            wins[winner[t]] += weight[t]
            met[pair[t]] += weight[t]
    for sweep in range(warm_up + thin * theta_draws.shape[0]):
        if not fixed:
            for i in range(wins.size):
                wins[i] = 0.0
            for k in range(met.size):
                met[k] = 0.0
            draw_raters(rng, start, winner, loser, weight, pair, parts, part, skill, q, wins, met)
        draw_skills(rng, pair_one, pair_two, a, b, wins, met, skill)
        kept = sweep - warm_up
        if kept >= 0 and (kept + 1) % thin == 0:
            for i in range(theta.size):
                theta_draws[kept // thin, i] = math.log(skill[i])
            for r in range(q_draws.shape[1]):
                q_draws[kept // thin, r] = q[r]


NODES = 20
DROP = 16.0
TOP_TOLERANCE = 1e-4  # of q: the nodes stand around the top, they do not hang on it
TINY, FACTORS = 1e-150, 400  # when a running product of factors in (0, 2] is put into its log
FACTORS = 64  # factors of one product where only one q is asked for
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
    for first in range(low, high, FACTORS):
        last = min(first + FACTORS, high)
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
