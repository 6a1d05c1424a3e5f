"""The tables of the page as files: rows that are computed already, as CSV or JSON."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bbq_plugin.live.server.page_state import PAIRS
from bbq_plugin.report.documents import board_rows, report_json, rows_csv
from bbq_plugin.report.history import history_dicts
from bbq_plugin.store.sources import iso

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from bbq_plugin.analysis import Analysis
    from bbq_plugin.live.server.page_state import View

    Line = Mapping[str, Any]

TABLE_SCHEMA = "bbq.table/1"
TYPES = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


def _leaderboard(analysis: Analysis, _: View) -> Iterable[Line]:
    return board_rows(analysis)


def _axis(analysis: Analysis, _: View) -> Iterator[Line]:
    axis = analysis.division.axis
    for kind, places in (("item", axis.items), ("rater", axis.raters)) if axis else ():
        for name, at in places:
            yield {"kind": kind, "name": name, "place": at}


def _raters(analysis: Analysis, _: View) -> Iterable[Line]:
    return (dict(row) for row in analysis.raters)


def _agreement(_: Analysis, view: View) -> Iterable[Line]:
    outlook = view.outlooks.last()
    found = outlook.inter_rater if outlook else None
    return [dict(unit) for unit in found.units] if found else []


def _pairwise(analysis: Analysis, _: View) -> Iterator[Line]:
    better, board = analysis.better, analysis.leaderboard
    for i, row in enumerate(board if better is not None else ()):
        for j, other in enumerate(board):
            if better is not None and i != j:
                p = float(better[i, j])
                yield {"item": row.item, "other": other.item, "p_better": p}


def _next_pairs(analysis: Analysis, _: View) -> Iterable[Line]:
    return (dict(row) for row in analysis.pairs(PAIRS)) if len(analysis.leaderboard) > 1 else ()


def _history(_: Analysis, view: View) -> Iterator[Line]:
    for point in history_dicts(view.history()):
        for item in point["items"]:
            yield {"at": point["at"], "n_comparisons": point["n_comparisons"], **item}


def _forecast(_: Analysis, view: View) -> Iterable[Line]:
    outlook = view.outlooks.last()
    return [dict(row) for _, row in outlook.section.forecast] if outlook else []


def _open_pairs(_: Analysis, view: View) -> Iterable[Line]:
    outlook = view.outlooks.last()
    found = outlook.section.open_pairs if outlook else None
    return [dict(row) for row in found] if found is not None else []


def _direct_votes(_: Analysis, view: View) -> Iterable[Line]:
    outlook = view.outlooks.last()
    return [dict(pair) for pair in outlook.section.pairs] if outlook else []


#: By the name of the file, the rows that an analysis and what was made behind the page have.
TABLES = {
    "leaderboard": _leaderboard,
    "axis": _axis,
    "raters": _raters,
    "agreement": _agreement,
    "pairwise": _pairwise,
    "next-pairs": _next_pairs,
    "history": _history,
    "forecast": _forecast,
    "open-pairs": _open_pairs,
    "direct-votes": _direct_votes,
}


def table_file(
    table: str, kind: str, rows: Iterable[Line], analysis: Analysis | None, study: str
) -> str:
    """A table as the text of a file."""
    if kind == "csv":
        return rows_csv(rows)
    about = {
        "schema": TABLE_SCHEMA,
        "table": table,
        "study": study,
        "at": None if analysis is None else iso(analysis.at),
        "n_comparisons": 0 if analysis is None else analysis.fit.data.n_comparisons,
    }
    return report_json({**about, "rows": list(rows)})


def file_name(table: str, kind: str, study: str) -> str:
    """What a browser calls the file."""
    safe = re.sub(r"[^A-Za-z0-9_-]+", "_", study)[:40].strip("_")
    return f"bbq-{safe}-{table}.{kind}" if safe else f"bbq-{table}.{kind}"
