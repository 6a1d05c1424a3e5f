"""A rater's own answers against the model, the surprising ones first."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import msgspec

from bbq_plugin.comparisons import OUTCOMES
from bbq_plugin.live.store.schema import connect

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bbq_plugin.model import Fit

__all__ = ["Said", "answers_of"]

_KEY = re.compile(r"ls:(\d+):(\d+)(?::\d+)?")

_ANSWERS = (
    "SELECT c.key, a.name, b.name, c.outcome, c.at, c.time_s FROM comparison c "
    "JOIN item a ON a.id = c.left JOIN item b ON b.id = c.right "
    "WHERE c.rater = (SELECT id FROM rater WHERE name = ?)"
)


@dataclass(frozen=True, slots=True)
class Said:
    """One answer, with the chance that the model gives it from a careful rater."""

    left: str
    right: str
    outcome: str
    chance: float
    at: float | None
    time_s: float | None
    #: Where it is in the labelling tool, if that is known.
    link: str | None = None

    @property
    def chosen(self) -> str | None:
        """The item that was preferred."""
        return {"left": self.left, "right": self.right}.get(self.outcome)


def answers_of(
    path: str, rater: str, fit: Fit, *, first: int, most: int, base_url: str | None = None
) -> tuple[list[Said], int]:
    """Some of a rater's answers, the least expected first, and how many there are."""
    theta = dict(zip(fit.items, fit.theta.tolist(), strict=True))
    db = connect(path, writable=False)
    try:
        rows = db.execute(_ANSWERS, (rater,)).fetchall()
        found = sorted(
            (_chance(theta, left, right, outcome), key, left, right, OUTCOMES[outcome], at, time_s)
            for key, left, right, outcome, at, time_s in rows
        )
        shown = found[first : first + most]
        tasks = _tasks(db, [row[1] for row in shown]) if base_url else {}
    finally:
        db.close()
    said = [
        Said(left, right, outcome, chance, at, time_s, _link(key, base_url, tasks))
        for chance, key, left, right, outcome, at, time_s in shown
    ]
    return said, len(found)


def _chance(theta: Mapping[str, float], left: str, right: str, outcome: int) -> float:
    """P(this answer) if a careful rater has to choose; of a tie, what it leaves to be expected."""
    gap = theta.get(left, 0.0) - theta.get(right, 0.0)
    p_left = 1 / (1 + exp(-max(-700.0, min(700.0, gap))))
    if OUTCOMES[outcome] == "left":
        return p_left
    if OUTCOMES[outcome] == "right":
        return 1 - p_left
    # A tie is half an answer to either side: the geometric mean of both, 1/2 where none is ahead.
    return float((p_left * (1 - p_left)) ** 0.5)


def _tasks(db: sqlite3.Connection, keys: Iterable[str]) -> dict[str, str]:
    """The task of each answer, as an event or a pull has told it."""
    wanted = msgspec.json.encode(sorted({_annotation(key) for key in keys})).decode()
    found = {
        key: task.rpartition(":")[2]
        for key, task in db.execute(
            "SELECT key, task FROM task_answer WHERE key IN (SELECT value FROM json_each(?))",
            (wanted,),
        )
    }
    for key, task in db.execute(
        "SELECT k.value, t.task FROM remote_task t, json_each(t.keys) k "
        "WHERE k.value IN (SELECT value FROM json_each(?))",
        (wanted,),
    ):
        found.setdefault(key, str(task))
    return found


def _annotation(key: str) -> str:
    """The key of the annotation that a comparison is part of."""
    match = _KEY.fullmatch(key)
    return f"ls:{match[1]}:{match[2]}" if match else key


def _link(key: str, base_url: str | None, tasks: Mapping[str, str]) -> str | None:
    match = _KEY.fullmatch(key)
    task = tasks.get(_annotation(key))
    if base_url is None or match is None or task is None or not task.isdigit():
        return None
    return (
        f"{base_url}/projects/{match[1]}/data?{urlencode({'task': task, 'annotation': match[2]})}"
    )
