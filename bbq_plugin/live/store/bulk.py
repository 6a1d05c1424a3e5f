"""Many answers at once: what is new goes in without a step a row, the rest one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bbq_plugin._coding import as_text
from bbq_plugin._gather import AGAINST_ITSELF, NO_WINNER
from bbq_plugin.comparisons import NO_ANSWER, Batch, Comparison, Skipped
from bbq_plugin.errors import DataError
from bbq_plugin.live.store.rows import Row, among

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bbq_plugin.live.store.writing import Writer

_INSERT = (
    "INSERT OR IGNORE INTO comparison (id, key, rater, left, right, outcome, at, source) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)


class Answers:
    """The answers of a batch in codes."""

    def __init__(
        self, codes: NDArray[np.int32], keys: list[str], at: list[float | None], source: int
    ) -> None:
        #: rater, left, right and outcome, a row each
        self.codes = codes
        self.keys = keys
        self.at = at
        self.source = source

    @property
    def dated(self) -> bool:
        """Whether any of them has a time."""
        return any(moment is not None for moment in self.at)

    def __len__(self) -> int:
        return len(self.keys)

    def chosen(self, mask: NDArray[np.bool_]) -> Answers:
        """Some of them."""
        if mask.all():
            return self
        rows = np.flatnonzero(mask).tolist()
        keys, at = [self.keys[i] for i in rows], [self.at[i] for i in rows]
        return Answers(self.codes[:, rows], keys, at, self.source)

    def rows(self) -> list[Row]:
        """They as rows of the table, without ids."""
        return [
            Row(0, key, 0, None, rater + 1 if rater >= 0 else None, left + 1, right + 1, outcome,
                1.0, at, None, None, None, self.source)
            for (rater, left, right, outcome), key, at in zip(
                self.codes.T.tolist(), self.keys, self.at, strict=True
            )
        ]  # fmt: skip


def add_batch(writer: Writer, batch: Batch) -> None:
    """Take a batch; each answer in it has a key."""
    writer.flush()
    codes = _codes(writer, batch)
    if codes is None:
        for record in batch.records() if batch.records else ():
            if isinstance(record, (Comparison, Skipped)):
                writer.add(record)
        writer.flush()
        return
    _, left, right, outcome = codes
    good = (left != right) & (outcome != NO_ANSWER)
    for i in np.flatnonzero(~good).tolist():
        writer.log.skip(_skipped(writer.log.name, batch, i))
    keys = list(map(as_text, batch.keys or ()))
    answers = Answers(codes, keys, _times(batch.at, len(keys)), writer.source).chosen(good)
    writer.names.write(writer.db)
    writer.log.n_answers += len(answers)
    shared = _shared(writer, answers.keys)
    if not shared:
        writer.put_all(_insert(writer, answers).rows())
        return
    first = np.array([key not in shared for key in answers.keys])
    writer.put_all(_insert(writer, answers.chosen(first)).rows())
    writer.put_all(answers.chosen(~first).rows())


def _codes(writer: Writer, batch: Batch) -> NDArray[np.int32] | None:
    """Rater, left, right and outcome; None where the rows have to be looked at one by one."""
    n, names = len(batch.lines), writer.names
    try:
        left, right = names.item_codes(batch.left, n), names.item_codes(batch.right, n)
        rater = names.rater_codes(batch.rater, n)
    except DataError:
        if batch.records is None:
            raise
        return None
    if batch.records and any(word in names.items for word in batch.reserved):
        return None
    outcome = np.frombuffer(batch.outcome, dtype=np.uint8).astype(np.int32)
    return np.stack((rater, left, right, outcome))


def _insert(writer: Writer, answers: Answers) -> Answers:
    """Insert those whose key is new; the others are left."""
    n = len(answers)
    first = writer.last_id + 1
    writer.last_id += n
    ids = np.arange(first, first + n)
    rater, left, right, outcome = answers.codes
    columns = (
        ids.tolist(), answers.keys, [code + 1 if code >= 0 else None for code in rater.tolist()],
        (left + 1).tolist(), (right + 1).tolist(), outcome.tolist(), answers.at,
        [answers.source] * n,
    )  # fmt: skip
    inserted = writer.db.executemany(_INSERT, zip(*columns, strict=True)).rowcount if n else 0
    fresh: NDArray[np.bool_] = np.ones(n, dtype=np.bool_)
    if inserted != n:
        found = writer.db.execute("SELECT id FROM comparison WHERE id >= ?", (first,)).fetchall()
        fresh = np.isin(ids, np.array(found, dtype=np.int64).ravel())
    told = {"id": ids, "rater": rater, "left": left, "right": right,
            "outcome": outcome.astype(np.int8)}  # fmt: skip
    if answers.dated:
        # None, an unknown time, becomes NaN.
        told["at"] = np.array(answers.at, dtype=np.float64)
    writer.note_inserted({name: column[fresh] for name, column in told.items()})
    return answers.chosen(~fresh)


def _shared(writer: Writer, keys: list[str]) -> set[str]:
    """Those of the keys under which the store has answers of several people or pairs."""
    # By name, because SQLite would rather go through all keys than use an index of a part.
    twins = "FROM comparison INDEXED BY comparison_twin WHERE twin > 0"
    if not writer.db.execute(f"SELECT 1 {twins} LIMIT 1").fetchone():
        return set()
    select = f"SELECT key {twins} AND key"
    return {key for (key,) in among(writer.db, select, set(keys))}


def _times(at: Sequence[float | None] | None, n: int) -> list[float | None]:
    """Times as numbers that fit into the table, whatever a file has."""
    if at is None:
        return [None] * n
    if None in at:
        return [None if value is None else float(value) for value in at]
    found: list[float | None] = np.array(at, dtype=np.float64).tolist()
    return found


def _skipped(name: str, batch: Batch, i: int) -> Skipped:
    lines: Sequence[Any] = batch.lines
    where = f"{name}:{lines[i]}"
    if batch.left[i] == batch.right[i]:
        return Skipped(where, AGAINST_ITSELF, str(batch.left[i]))
    return Skipped(where, NO_WINNER)
