"""Known answers where answers come one by one: what the other answers of a task make of an event.

An export and a page of a pull have whole tasks, so their adapter knows which answer of a task is
the known one (the value TRUTH of the tag GOLD) and names it on all others. An event has one answer
only: the others are in the store.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from bbq_plugin.data.records import GOLD, OUTCOMES, TRUTH, Comparison
from bbq_plugin.store import events

if TYPE_CHECKING:
    from bbq_plugin.protocols import ParsedEvent
    from bbq_plugin.store.transaction import Transaction
    from bbq_plugin.store.upsert import StoredRow

__all__ = ["KnownAnswers", "keys_of", "numbers_of"]

_TURNED = {"left": "right", "right": "left"}

#: The right answer by the items on both sides.
_Right = dict[tuple[int, int], str]


class KnownAnswers:
    """The tasks that some events are about; made before the store takes these in."""

    def __init__(self, transaction: Transaction, news: Sequence[ParsedEvent]) -> None:
        self._transaction = transaction
        self._news = news
        tasks = {task for one in news for task, _ in one.answers}
        # An answer that is deleted is named without its task.
        gone = {key for one in news for key in one.gone}
        truths = [row for row in events.rows_of(transaction, gone) if _gold(row) == TRUTH]
        for row in truths:
            tasks |= events.tasks_of(transaction, _answer(row))
        self._before = {task: _rows(transaction, task) for task in sorted(tasks)}

    def settle(self) -> int:
        """Name the right answer on all other answers of a task; how many of them changed."""
        told = {
            task
            for one in self._news
            if any(isinstance(r, Comparison) and GOLD in (r.tags or ()) for r in one.records)
            for task, _ in one.answers
        }
        tags: dict[int, str | None] = {}
        for task, before in self._before.items():
            if task in told or any(_gold(row) is not None for row in before):
                now = _rows(self._transaction, task)
                tags |= _settled(before, now, told=task in told)
        return self._transaction.retag(tags)


def _settled(before: list[StoredRow], now: list[StoredRow], *, told: bool) -> dict[int, str | None]:
    """The tags, by id, of those answers of a task whose tags are not right any more.

    `told`: an event has named a known answer. The tool has one of them in a task, and tells
    nothing of the one before, so the newest is the one. Only an import can bring several.
    """
    truths = [row for row in now if _gold(row) == TRUTH]
    if told and truths:
        newest = max(truths, key=lambda row: (row.when, row.id))
        truths = [row for row in truths if _answer(row) == _answer(newest)]
    right = _right(truths, [OUTCOMES[row.outcome] for row in truths])
    if not truths and not any(_gold(row) == TRUTH for row in before):
        return _as_before(before, now)
    changed = {}
    for row in now:
        wanted = right.get((row.left, row.right))
        if row not in truths and _gold(row) != wanted:
            changed[row.id] = _with_gold(row, wanted)
    return changed


def _as_before(before: list[StoredRow], now: list[StoredRow]) -> dict[int, str | None]:
    """Where nothing says which answer is the known one, what was said of the others stands.

    So it is in stores from before the known answer was tagged, and where it came in a file, which
    does not name its task. It may be among the answers that were there, so only new ones get it.
    """
    named = [row for row in before if _gold(row) is not None]
    right = _right(named, [_gold(row) or "" for row in named])
    old = {row.id for row in before}
    return {
        row.id: _with_gold(row, right[row.left, row.right])
        for row in now
        if row.id not in old and _gold(row) is None and (row.left, row.right) in right
    }


def _right(rows: list[StoredRow], said: list[str]) -> _Right:
    found: _Right = {}
    for row, gold in zip(rows, said, strict=True):
        found[row.left, row.right] = gold
        found[row.right, row.left] = _TURNED.get(gold, gold)
    return found


def keys_of(transaction: Transaction, task: str) -> set[str]:
    """The keys of the answers of a task."""
    return events.task_keys(transaction, task, *numbers_of(task))


def numbers_of(task: str) -> tuple[int, int]:
    """Project and task of a name such as ls:1:task:17; below zero if it is none such."""
    named = re.fullmatch(r"ls:([0-9]{1,18}):task:([0-9]{1,18})", task)
    return (int(named[1]), int(named[2])) if named else (-1, -1)


def _rows(transaction: Transaction, task: str) -> list[StoredRow]:
    return events.rows_of(transaction, keys_of(transaction, task))


def _answer(row: StoredRow) -> str:
    """The key of the answer that a comparison is of."""
    return row.slate or row.key


def _tags(row: StoredRow) -> dict[str, str]:
    return msgspec.json.decode(row.tags, type=dict[str, str]) if row.tags else {}


def _gold(row: StoredRow) -> str | None:
    return _tags(row).get(GOLD) if row.tags and GOLD in row.tags else None


def _with_gold(row: StoredRow, gold: str | None) -> str | None:
    tags = _tags(row)
    tags.pop(GOLD, None)
    if gold is not None:
        tags[GOLD] = gold
    return msgspec.json.encode(tags, order="sorted").decode() if tags else None
