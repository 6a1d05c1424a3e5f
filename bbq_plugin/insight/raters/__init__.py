"""Which raters to keep, to watch, to exclude, and why: evidence, signs, rules, words."""

from bbq_plugin.insight.raters.report import RaterReport, RaterRow, rater_report
from bbq_plugin.insight.raters.rules import Verdict

__all__ = ["RaterReport", "RaterRow", "Verdict", "rater_report"]
