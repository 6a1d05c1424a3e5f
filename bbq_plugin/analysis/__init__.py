"""From a fit to decisions: the leaderboard, the raters, what to compare next, how stable it is."""

from __future__ import annotations

from bbq_plugin.analysis.analysis import Analysis, Limits
from bbq_plugin.analysis.leaderboard import ItemRow, Leaderboard, leaderboard
from bbq_plugin.analysis.next_pairs import NextPairs, PairRow, next_pairs, prediction_scores
from bbq_plugin.analysis.raters import RaterReport, RaterRow, rater_report
from bbq_plugin.analysis.stopping import HeadToHead, Stopping, stopping
from bbq_plugin.analysis.uncertainty import Uncertainty, uncertainty

__all__ = [
    "Analysis",
    "HeadToHead",
    "ItemRow",
    "Leaderboard",
    "Limits",
    "NextPairs",
    "PairRow",
    "RaterReport",
    "RaterRow",
    "Stopping",
    "Uncertainty",
    "leaderboard",
    "next_pairs",
    "prediction_scores",
    "rater_report",
    "stopping",
    "uncertainty",
]
