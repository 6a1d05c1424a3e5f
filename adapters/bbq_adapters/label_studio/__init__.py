"""Label Studio exports: JSON, JSON_MIN, CSV, TSV and snapshots of comparing projects.

`adapter` is the door; `scanner` and `tables` cut a file into tasks or rows, `tasks`
brings both to one shape, `plan` finds the control and the item names, `answers` turns
what a rater said into comparisons. docs/label-studio-exports.md states every treatment.
"""

from bbq_adapters.label_studio.adapter import LabelStudioAdapter

__all__ = ["LabelStudioAdapter"]
