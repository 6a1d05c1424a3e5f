"""Which raters to keep, to watch, to exclude, and why: evidence, signs, rules, words."""

from bbq_plugin.insight.raters.report import RaterReport, RaterRow, judging_fit, rater_report
from bbq_plugin.insight.raters.rules import FALSE_RATE, LEAST, Verdict

__all__ = [
    "FALSE_RATE", "LEAST", "RaterReport", "RaterRow", "Verdict", "judging_fit", "rater_report",
]  # fmt: skip
