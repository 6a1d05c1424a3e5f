"""The leaderboard as a CSV file."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from bbq_plugin.report.text import cell, plain

if TYPE_CHECKING:
    from bbq_plugin.insight import Leaderboard


def leaderboard_csv(board: Leaderboard) -> str:
    """Write one line an item, best first, under the contract's column names."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    rows = [dict(row) for row in board]
    if rows:
        writer.writerow(rows[0])
    writer.writerows(
        [cell(plain(value) if isinstance(value, str) else value) for value in row.values()]
        for row in rows
    )
    return out.getvalue()
