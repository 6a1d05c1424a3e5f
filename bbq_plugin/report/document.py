"""The report as one JSON document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

import bbq_plugin

if TYPE_CHECKING:
    from bbq_plugin.comparisons import Comparisons
    from bbq_plugin.insight import Leaderboard, RaterReport
    from bbq_plugin.model import Fit

SCHEMA = "bbq.report/1"


def report_dict(
    data: Comparisons, fit: Fit, board: Leaderboard, raters: RaterReport
) -> dict[str, Any]:
    """Collect everything that is known about one fit under the names of the contract."""
    return {
        "schema": SCHEMA,
        "version": bbq_plugin.__version__,
        "model": fit.model,
        "priors": fit.priors.describe(),
        "scale": board.scale,
        "intervals": board.intervals,
        "level": board.level,
        "n_comparisons": data.n_comparisons,
        "n_ties": data.n_ties,
        "n_both_bad": data.n_both_bad,
        "n_items": data.n_items,
        "n_raters": data.n_raters,
        "n_skipped": data.n_skipped,
        "skipped": dict(data.skip_reasons),
        "converged": fit.converged,
        "log_posterior": fit.log_posterior,
        "items": [dict(row) for row in board],
        "raters": [dict(row) for row in raters],
        "warnings": all_warnings(fit, board, raters),
    }


def report_json(report: dict[str, Any]) -> str:
    """Write a report as JSON; a number that is not known (NaN) becomes null."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def all_warnings(fit: Fit, board: Leaderboard, raters: RaterReport) -> list[str]:
    """Every warning once, in the order of the work."""
    return list(dict.fromkeys([*fit.warnings, *board.warnings, *raters.warnings]))
