"""From decisions to files: JSON, CSV and tables for people."""

from bbq_plugin.report.document import SCHEMA, report_dict, report_json
from bbq_plugin.report.files import write_atomically
from bbq_plugin.report.sheet import leaderboard_csv
from bbq_plugin.report.tables import leaderboard_table, raters_table, summary_lines

__all__ = [
    "SCHEMA",
    "leaderboard_csv",
    "leaderboard_table",
    "raters_table",
    "report_dict",
    "report_json",
    "summary_lines",
    "write_atomically",
]
