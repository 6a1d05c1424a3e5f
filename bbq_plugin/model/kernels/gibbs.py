"""The Gibbs sampler of BBQ: every conditional is conjugate, so there is nothing to tune.

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

from bbq_plugin.model.kernels import inner_kernel, kernel


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
