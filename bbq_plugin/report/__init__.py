"""From decisions to files: JSON, CSV, pages and tables for people."""

from bbq_plugin.report.csv import grouped_csv, leaderboard_csv, rows_csv
from bbq_plugin.report.files import write_atomically
from bbq_plugin.report.json import (
    SCHEMA,
    Origin,
    excluded_names,
    groups_dict,
    pairs_dict,
    raters_dict,
    report_dict,
    report_json,
    stability_dict,
    verdict_counts,
)
from bbq_plugin.report.summary import stopping_lines
from bbq_plugin.report.tables import (
    leaderboard_table,
    origin_lines,
    pairs_table,
    raters_table,
    reason_lines,
    stability_table,
    summary_lines,
    verdict_lines,
    way_back_lines,
)
from bbq_plugin.report.tasks import label_studio_json, label_studio_tasks

__all__ = [
    "SCHEMA",
    "Origin",
    "excluded_names",
    "grouped_csv",
    "groups_dict",
    "label_studio_json",
    "label_studio_tasks",
    "leaderboard_csv",
    "leaderboard_table",
    "origin_lines",
    "pairs_dict",
    "pairs_table",
    "raters_dict",
    "raters_table",
    "reason_lines",
    "report_dict",
    "report_json",
    "rows_csv",
    "stability_dict",
    "stability_table",
    "stopping_lines",
    "summary_lines",
    "verdict_counts",
    "verdict_lines",
    "way_back_lines",
    "write_atomically",
]
