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
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.data.triples import Codes
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
    """Take the products of all rows of ``gathered`` from the lower triangle, and empty it."""
    for i in range(gathered.shape[0]):
        for j in range(i):
            dot = 0.0
            for k in range(gathered.shape[1]):
                dot += gathered[i, k] * gathered[j, k]
            out[i, j] -= dot
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
