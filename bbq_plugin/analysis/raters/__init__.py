"""Which raters to keep, to watch, to exclude, and why: evidence, signs, rules, words."""

from __future__ import annotations

from bbq_plugin.analysis.raters.report import RaterReport, RaterRow, judging_fit, rater_report
from bbq_plugin.analysis.raters.rules import FALSE_RATE, LEAST, Verdict

__all__ = [
    "FALSE_RATE",
    "LEAST",
    "RaterReport",
    "RaterRow",
    "Verdict",
    "judging_fit",
    "rater_report",
]
