"""The rows of a CSV or TSV export, one at a time, as the dictionaries that JSON_MIN has."""

from __future__ import annotations

import csv
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from bbq_adapters.label_studio.scanner import BOM
from bbq_plugin.errors import FormatError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

#: The columns that every table of Label Studio has, whatever the project.
COLUMNS = ("annotation_id", "annotator", "created_at", "lead_time", "updated_at")

# Whole documents may stand in one cell.
_LONGEST_CELL = 1 << 27


def columns(line: bytes) -> tuple[list[str], str]:
    """The names in a header line, and what separates them."""
    text = line.removeprefix(BOM).decode("utf-8", "replace").rstrip("\r\n")
    separator = "\t" if text.count("\t") > text.count(",") else ","
    try:
        return next(csv.reader([text], delimiter=separator), []), separator
    except csv.Error:
        return [], separator


def rows(stream: io.BufferedReader, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each row with its line; empty cells are left out, JSON cells are decoded."""
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
    first = stream.readline().removeprefix(BOM)
    header, separator = columns(first)
    missing = [column for column in COLUMNS if column not in header]
    if missing:
        raise FormatError(
            f"there is no column {', '.join(missing)}",
            name,
            1,
            value=header[:40],
            remedy="expected a CSV or TSV export as Label Studio writes it",
        )
    lines = _Lines(chain([first], stream))
    reader = csv.reader(lines, delimiter=separator, strict=True)
    try:
        next(reader)
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise FormatError(
                    f"has {len(cells)} columns where the header has {len(header)}",
                    name,
                    reader.line_num,
                    value=cells[0][:60],
                    remedy="export the project again; the file may be cut off or was edited",
                )
            yield (
                reader.line_num,
                {
                    column: _decoded(cell)
                    for column, cell in zip(header, cells, strict=True)
                    if cell
                },
            )
    except csv.Error as error:
        raise FormatError(
            f"not valid CSV ({error})",
            name,
            max(1, reader.line_num),
            value=lines.last[:60],
            remedy="export the project again; the file may be cut off or was edited",
        ) from error
    except UnicodeDecodeError as error:
        raise FormatError(
            f"the text is not UTF-8 ({error.reason})",
            name,
            reader.line_num + 1,
            value=error.object[error.start : error.start + 20],
            remedy="save the file as UTF-8",
        ) from error


class _Lines:
    """Lines as text, the last one kept for a message."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self.last = ""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self.last = next(self._lines).decode("utf-8")
        return self.last


def _decoded(cell: str) -> Any:
    """Lists and objects come as JSON in a cell; a text that only looks so stays a text."""
    if cell[0] not in "[{":
        return cell
    try:
        return msgspec.json.decode(cell)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return cell
