"""From a fit to decisions: the leaderboard, the raters, what to compare next, how stable it is."""

from bbq_plugin.insight.compare import Difference, compare
from bbq_plugin.insight.leaderboard import ItemRow, Leaderboard, leaderboard
from bbq_plugin.insight.pairs import NextPairs, PairRow, next_pairs, prediction_scores
from bbq_plugin.insight.raters import RaterReport, RaterRow, rater_report
from bbq_plugin.insight.stability import Stability, StabilityRow, stability
from bbq_plugin.insight.stopping import HeadToHead, Stopping, stopping
from bbq_plugin.insight.uncertainty import Uncertainty, uncertainty

__all__ = [
    "Difference",
    "HeadToHead",
    "ItemRow",
    "Leaderboard",
    "NextPairs",
    "PairRow",
    "RaterReport",
    "RaterRow",
    "Stability",
    "StabilityRow",
    "Stopping",
    "Uncertainty",
    "compare",
    "leaderboard",
    "next_pairs",
    "prediction_scores",
    "rater_report",
    "stability",
    "stopping",
    "uncertainty",
]
