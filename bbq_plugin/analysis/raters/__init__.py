"""Which raters to keep, to watch, to exclude, and why: agreement, behaviour, rules, words."""

from __future__ import annotations

from bbq_plugin.analysis.raters.verdicts import (
    FALSE_RATE,
    LEAST,
    THRESHOLD,
    RaterReport,
    RaterRow,
    Verdict,
    gives_verdicts,
    judging_fit,
    rater_report,
)

__all__ = [
    "FALSE_RATE",
    "LEAST",
    "THRESHOLD",
    "RaterReport",
    "RaterRow",
    "Verdict",
    "gives_verdicts",
    "judging_fit",
    "rater_report",
]
