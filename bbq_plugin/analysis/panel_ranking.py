"""The ranking that the next answers are to decide, and what is known of it.

Of one camp it is that camp's theta. Of a panel with several camps it is the panel's preference:
the single ranking with the same win shares, for raters of the panel's mean quality Q,

    1/2 + Q mean over j of (sigma(t_i - t_j) - 1/2) = win_share_i    for every item i

There is exactly one such t (Zermelo 1929: these are the equations of a Bradley-Terry maximum
likelihood). Its covariance follows from that of the win shares: with J = d win_share / d t it is
J^-1 C J^-1, so that it allows for who is in which camp, and how many.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bbq_plugin.analysis.leaderboard import checked_camp
from bbq_plugin.analysis.uncertainty import camp_covariance
from bbq_plugin.data.triples import Floats
from bbq_plugin.model import Fit
from bbq_plugin.model.win_share import share_slope, standing, win_shares

STEPS, SMALL, LONGEST = 100, 1e-10, 1.0


@dataclass(frozen=True, slots=True, eq=False)
class PanelRanking:
    """A ranking and its covariance, and whose answers are to come.

    ``counted`` is how much each rater counts (None: once), ``quality`` the mean quality of their
    answers so far, and ``informative`` that of the same mean information, which grows like its
    square.
    """

    mean: Floats
    covariance: Floats
    counted: Floats | None
    quality: float
    informative: float


def panel_ranking(fit: Fit, camp: int | None = None) -> PanelRanking:
    """What the next answers are to decide; ``camp`` (from 1): for that camp alone."""
    counted, mine = None, slice(None)
    if camp is not None and checked_camp(fit, camp) >= 0 and fit.division is not None:
        counted, mine = fit.membership[:, camp - 1], slice(camp - 1, camp)
    quality, informative = 1.0, 1.0
    if fit.rated:
        votes = float(fit.panel.votes[mine].sum())
        quality = float(np.clip(fit.panel.votes_quality[mine].sum() / votes, 0.0, 1.0))
        informative = float(np.sqrt(fit.panel.votes_told[mine].sum() / votes))
    if fit.division is None:
        mean, covariance = fit.laplace.mean, fit.covariance()
    elif camp is not None:
        mean = fit.camp_theta[camp - 1]
        covariance = camp_covariance(fit, fit.robust.stacked, camp - 1)
    else:
        mean, covariance = _of_the_panel(fit)
    return PanelRanking(mean, covariance, counted, quality, informative)


def _of_the_panel(fit: Fit) -> tuple[Floats, Floats]:
    shares = win_shares(fit, 0.95)
    level = float(fit.panel.quality.sum()) / fit.panel.n
    wanted, mean = (shares.share - 0.5) / level, fit.theta - fit.theta.mean()
    for _ in range(STEPS):
        step = np.linalg.pinv(share_slope(mean), hermitian=True) @ (wanted - standing(mean))
        longest = float(np.max(np.abs(step)))
        mean = mean + step * min(1.0, LONGEST / max(longest, 1e-300))
        if longest < SMALL:
            break
    back = np.linalg.pinv(level * share_slope(mean), hermitian=True)
    if shares.covariance is None:
        raise ValueError("the win shares of several camps have a covariance")
    return mean, np.asarray(back @ shares.covariance @ back)
