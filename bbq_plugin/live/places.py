"""Under which key the store has a row, and which line of the whole file it stands in."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from bbq_plugin.comparisons import Batch, Comparison, Skipped
from bbq_plugin.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bbq_plugin.comparisons import Record


class Places:
    """Rows that have no key of their own are named by their source and line."""

    def __init__(self, name: str, source: int, shift: int) -> None:
        self._name = name
        self._source = source
        self._shift = shift

    @cached_property
    def _place(self) -> re.Pattern[str]:
        # Adapters say where a row stands, by the file's path or by its name alone.
        names = f"{re.escape(self._name)}|{re.escape(PurePath(self._name).name)}"
        return re.compile(rf"(?:{names}):([0-9]+)(.*)", re.DOTALL)

    def named(self, found: Iterable[Record | Batch]) -> Iterator[Record | Batch]:
        """The same under the keys that the store has for them."""
        for record in found:
            yield self._batch(record) if isinstance(record, Batch) else self._record(record)

    def _record(self, record: Record) -> Record:
        if isinstance(record, Comparison):
            return self._comparison(record)
        if isinstance(record, Skipped) and self._shift:
            return self._skipped(record)
        return record

    def _key(self, key: str) -> str:
        place = self._place.match(key)
        if place is None:
            return key
        return f"#{self._source}:{int(place[1]) + self._shift}{place[2]}"

    def _comparison(self, record: Comparison) -> Comparison:
        key = self._key(record.key)
        if key == record.key:
            return record
        slate = None if record.slate is None else self._key(record.slate)
        return Comparison(
            key, record.rater, record.left, record.right, record.outcome, record.weight, slate,
            record.at, record.time_s, record.tags, record.version,
        )  # fmt: skip

    def _batch(self, batch: Batch) -> Batch:
        records = batch.records
        lines: Any = batch.lines
        if self._shift:
            lines = [line + self._shift for line in lines]
        keys = batch.keys
        if keys is None:
            keys = [f"#{self._source}:{line}" for line in lines]
        again = None if records is None else (lambda: map(self._record, records()))
        return replace(batch, lines=lines, keys=keys, records=again)

    def _skipped(self, record: Skipped) -> Skipped:
        line = record.where.removeprefix(f"{self._name}:")
        if not line.isdigit():
            return record
        where = f"{self._name}:{int(line) + self._shift}"
        return Skipped(
            where, record.reason, record.value, record.expected, record.key, record.version,
            record.at,
        )  # fmt: skip

    def moved_error(self, error: FormatError) -> FormatError:
        """The error with the line that the whole file has it at."""
        if not self._shift or error.line is None:
            return error
        line = error.line + self._shift
        return FormatError(error.problem, error.file, line, error.value, error.remedy)
