"""A plan of feedback as a table for people and as a document."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

import bbq_plugin
from bbq_plugin.report.text import counted, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bbq_plugin.feedback import Action, Done, Plan

PUSH_SCHEMA = "bbq.push/1"

#: Rows of the table; --format json has all of them.
_MOST = 40


def plan_table(actions: Iterable[Action], title: str) -> Table:
    """Build the table of what is to be written, and why."""
    rows = list(actions)
    table = Table(title=title)
    table.add_column("action", no_wrap=True)
    for name in ("what", "from", "to", "reason"):
        table.add_column(name, overflow="fold")
    for action in rows[:_MOST]:
        values = (action.target, _shown(action.before), _shown(action.after), action.reason)
        table.add_row(action.kind, *(Text(plain(value)) for value in values))
    if len(rows) > _MOST:
        table.caption = f"and {len(rows) - _MOST:,} more; --format json has all of them"
    return table


def _shown(values: Mapping[str, Any] | None) -> str:
    if values is None:
        return "nothing yet"
    hidden = ("last_answer", "task", "rater")
    return ", ".join(f"{k} {_value(v)}" for k, v in values.items() if k not in hidden) or "–"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return f"of {counted(len(value.get('items', ())), 'rater')}"
    return (
        {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else f"{value}"
    )


def counts_line(actions: Iterable[Action]) -> str:
    """Say how many of each kind."""
    counts = Counter(action.kind for action in actions)
    return ", ".join(f"{kind} {n:,}" for kind, n in sorted(counts.items())) or "nothing to do"


def push_dict(
    project: int, plan: Plan, *, applied: bool, undone: bool = False, done: Iterable[Done] = ()
) -> dict[str, Any]:
    """Collect a plan and what became of it under the names of the contract."""
    # By the action itself: of two writes to the same task one may be left and one put back.
    left = {id(one.action): one.left for one in done}
    return {
        "schema": PUSH_SCHEMA,
        "version": bbq_plugin.__version__,
        "project": project,
        "applied": applied,
        "undone": undone,
        "n_actions": len(plan.actions),
        "actions": [
            {
                "kind": action.kind,
                "target": action.target,
                "reason": action.reason,
                "before": action.before,
                "after": action.after,
                "left": left.get(id(action)),
            }
            for action in plan.actions
        ],
        "notes": list(plan.notes),
    }
