"""Results as CSV files, one line a row of the result."""

from __future__ import annotations

import csv
import io
from math import isnan
from typing import TYPE_CHECKING

from bbq_plugin.text import cell, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bbq_plugin.analysis.rows import Row


def rows_csv(rows: Iterable[Row]) -> str:
    """Write rows under the contract's column names; what is not known is an empty cell."""
    return _csv(dict(row) for row in rows)


def grouped_csv(groups: Mapping[str, Iterable[Row]]) -> str:
    """Write the rows of several results below each other; the first column says which one."""
    return _csv({"group": name, **dict(row)} for name, rows in groups.items() for row in rows)


def _csv(rows: Iterable[Mapping[str, object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for i, row in enumerate(rows):
        if i == 0:
            writer.writerow(row)
        writer.writerow([_shown(value) for value in row.values()])
    return out.getvalue()


def _shown(value: object) -> object:
    if isinstance(value, float) and isnan(value):
        return ""
    if isinstance(value, tuple):
        value = "; ".join(map(str, value))
    return cell(plain(value)) if isinstance(value, str) else value
