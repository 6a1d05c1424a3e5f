"""From a fit to decisions: the leaderboard and the raters."""

from bbq_plugin.insight.leaderboard import ItemRow, Leaderboard, leaderboard
from bbq_plugin.insight.raters import RaterReport, RaterRow, rater_report
from bbq_plugin.insight.uncertainty import Uncertainty, uncertainty

__all__ = [
    "ItemRow",
    "Leaderboard",
    "RaterReport",
    "RaterRow",
    "Uncertainty",
    "leaderboard",
    "rater_report",
    "uncertainty",
]
