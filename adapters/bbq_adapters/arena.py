"""Arena-style votes: JSONL or CSV with `model_a`, `model_b`, `winner` and perhaps a rater.

- `winner` is model_a, model_b, tie, both_bad (or `tie (bothbad)`), or the winning
  item's own name. Anything else is an error, never a tie; null is an unanswered row.
- The rater is the first of RATER_FIELDS that a row fills. If no row has one, the
  raters are unknown; if only some have one, the others are skipped and counted.
- The key is `id` or `key`. `question_id` alone is not unique (many judges see one
  question), so it is joined with turn, rater and items. Without either the key is
  `file:line`, which holds as long as the file only grows at its end.
"""

from __future__ import annotations

import csv
import difflib
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from bbq_plugin.comparisons import Comparison, Outcome, Skipped
from bbq_plugin.errors import FormatError, UsageError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

BothBad = Literal["tie", "drop"]

OUTCOMES: dict[str, Outcome] = {
    "model_a": "left",
    "model_b": "right",
    "tie": "tie",
    "both_bad": "both_bad",
    "tie (bothbad)": "both_bad",
}

RATER_FIELDS = (
    "judge",
    "judge_hash",
    "judge_id",
    "rater",
    "annotator",
    "annotator_id",
    "user_id",
    "worker",
    "observer",
    "participant",
    "subject",
    "completed_by",
)

# Whole conversations may stand in a column that is not read here.
_LONGEST_CSV_FIELD = 1 << 27

_BOM = b"\xef\xbb\xbf"
_BOM_AND_BLANKS = 64

_Name = str | int | float


class _Row(msgspec.Struct, gc=False):
    """The fields that are read; all others are passed over undecoded."""

    model_a: _Name
    model_b: _Name
    winner: _Name | None
    id: _Name | None = None
    key: _Name | None = None
    question_id: _Name | None = None
    turn: _Name | None = None
    tstamp: float | None = None
    judge: _Name | list[_Name] | None = None
    judge_hash: _Name | None = None
    judge_id: _Name | None = None
    rater: _Name | None = None
    annotator: _Name | None = None
    annotator_id: _Name | None = None
    user_id: _Name | None = None
    worker: _Name | None = None
    observer: _Name | None = None
    participant: _Name | None = None
    subject: _Name | None = None
    completed_by: _Name | None = None


_COLUMNS = _Row.__struct_fields__
_REQUIRED = ("model_a", "model_b", "winner")


class ArenaAdapter:
    """Reads Arena-style votes."""

    name = "arena"

    def sniff(self, head: bytes, name: str) -> str | None:  # noqa: ARG002 - the content decides
        """Recognise JSON lines or a CSV header by `model_a` and `model_b`."""
        text = head.removeprefix(_BOM).lstrip()
        if text.startswith(b"{"):
            found = b'"model_a"' in text and b'"model_b"' in text
            return "JSON lines with model_a and model_b" if found else None
        columns = next(csv.reader([text.split(b"\n", 1)[0].decode("utf-8", "replace")]), [])
        found = {"model_a", "model_b"} <= {column.strip() for column in columns}
        return "a CSV header with model_a and model_b" if found else None

    def read(
        self, stream: io.BufferedReader, name: str, *, both_bad: BothBad = "tie"
    ) -> Iterator[Comparison | Skipped]:
        """Yield one record a vote. `both_bad="drop"` skips those votes instead of tying them."""
        if both_bad not in get_args(BothBad):
            raise UsageError(f"both_bad is {both_bad!r}; expected 'tie' or 'drop'")
        is_json = stream.peek(_BOM_AND_BLANKS).removeprefix(_BOM).lstrip().startswith(b"{")
        rows = _json_rows(stream, name) if is_json else _csv_rows(stream, name)
        return _all_or_none_rated(_records(rows, name, both_bad), name)


def _json_rows(stream: io.BufferedReader, name: str) -> Iterator[tuple[int, _Row]]:
    decode = msgspec.json.Decoder(_Row).decode
    for number, line in enumerate(stream, 1):
        text = line.removeprefix(_BOM) if number == 1 else line
        if text.isspace():
            continue
        try:
            yield number, decode(text)
        except msgspec.ValidationError as error:
            raise FormatError(
                str(error),
                name,
                number,
                remedy=f"every line needs the fields {', '.join(_REQUIRED)}, as text",
            ) from error
        except msgspec.DecodeError as error:
            raise FormatError(
                f"not valid JSON ({error})",
                name,
                number,
                value=text[:80],
                remedy="every line is one whole JSON object; the line may be cut off",
            ) from error
        except UnicodeDecodeError as error:
            raise _not_utf8(name, number, error) from error


def _csv_rows(stream: io.BufferedReader, name: str) -> Iterator[tuple[int, _Row]]:
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CSV_FIELD))
    # Line by line and not through a TextIOWrapper: that one would close the caller's stream.
    lines = chain([stream.readline().removeprefix(_BOM)], stream)
    reader = csv.reader((line.decode("utf-8") for line in lines), strict=True)
    try:
        header = [column.strip() for column in next(reader, [])]
        missing = [column for column in _REQUIRED if column not in header]
        if missing:
            raise FormatError(
                f"there is no column {', '.join(missing)}",
                name,
                1,
                value=header,
                remedy=f"the header has {', '.join(header) or 'nothing'}",
            )
        places = [(column, header.index(column)) for column in _COLUMNS if column in header]
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise FormatError(
                    f"has {len(cells)} columns where the header has {len(header)}",
                    name,
                    reader.line_num,
                    remedy="put text with commas into double quotes",
                )
            yield reader.line_num, _csv_row({c: cells[i] for c, i in places}, name, reader.line_num)
    except csv.Error as error:
        raise FormatError(
            f"not valid CSV ({error})", name, reader.line_num, remedy="mend the quotes of this line"
        ) from error
    except UnicodeDecodeError as error:
        raise _not_utf8(name, reader.line_num + 1, error) from error


def _csv_row(cells: dict[str, str], name: str, line: int) -> _Row:
    # CSV has no null: an empty cell is one, except in the columns that name the items.
    values: dict[str, Any] = {
        c: v if v or c in ("model_a", "model_b") else None for c, v in cells.items()
    }
    if values.get("tstamp") is not None:
        try:
            values["tstamp"] = float(values["tstamp"])
        except ValueError:
            raise FormatError(
                f"tstamp is {values['tstamp']!r}",
                name,
                line,
                value=values["tstamp"],
                remedy="expected seconds since 1970, or nothing",
            ) from None
    return _Row(**values)


def _not_utf8(name: str, line: int, error: UnicodeDecodeError) -> FormatError:
    return FormatError(
        f"the text is not UTF-8 ({error.reason})", name, line, remedy="save the file as UTF-8"
    )


def _records(
    rows: Iterator[tuple[int, _Row]], name: str, both_bad: BothBad
) -> Iterator[tuple[int, Comparison | Skipped]]:
    """Rows to records, each with its line."""
    stem = PurePath(name).name
    for line, row in rows:
        left, right = _text(row.model_a), _text(row.model_b)
        if not left.strip() or not right.strip():
            raise FormatError(
                "an item has an empty name", name, line, remedy="name it or drop the line"
            )
        if row.winner is None:
            yield line, Skipped(f"{name}:{line}", "no winner recorded")
            continue
        if left == right:
            yield line, Skipped(f"{name}:{line}", "an item against itself", left)
            continue
        outcome = _outcome(_text(row.winner), left, right, name, line)
        if outcome == "both_bad" and both_bad == "drop":
            yield line, Skipped(f"{name}:{line}", "both bad, dropped as asked")
            continue
        rater = _rater(row)
        key = _key(row, rater, left, right) or f"{stem}:{line}"
        yield line, Comparison(key, rater, left, right, outcome, at=row.tstamp)


def _outcome(winner: str, left: str, right: str, name: str, line: int) -> Outcome:
    said = OUTCOMES.get(winner)
    named: Outcome | None = "left" if winner == left else "right" if winner == right else None
    if named is None:
        if said is None:
            raise _unknown_outcome(winner, left, right, name, line)
        return said
    if said not in (None, named):
        raise FormatError(
            f"winner is {winner!r}, which is both an outcome and the name of an item",
            name,
            line,
            value=winner,
            remedy="rename the item",
        )
    return named


def _unknown_outcome(winner: str, left: str, right: str, name: str, line: int) -> FormatError:
    by_lower = {word.lower(): word for word in (left, right, *OUTCOMES)}
    close = difflib.get_close_matches(winner.lower(), by_lower, n=1)
    return FormatError(
        f"winner is {winner!r}; expected model_a, model_b, tie or both_bad "
        "(or one of the two item names)",
        name,
        line,
        value=winner,
        remedy=f"did you mean {by_lower[close[0]]!r}?" if close else "mend or drop the line",
    )


def _rater(row: _Row) -> str | None:
    for field in RATER_FIELDS:
        value = getattr(row, field)
        if value is None:
            continue
        # MT-Bench's judge may be a list such as ["gpt-4", "pair-v2"]: together they are one rater.
        rater = ", ".join(map(_text, value)) if isinstance(value, list) else _text(value)
        if rater.strip():
            return rater
    return None


def _key(row: _Row, rater: str | None, left: str, right: str) -> str | None:
    own = row.id if row.id is not None else row.key
    if own is not None:
        return _text(own)
    if row.question_id is None:
        return None
    parts = [_text(row.question_id)] + ([] if row.turn is None else [_text(row.turn)])
    return "/".join([*parts, rater or "", left, right])


def _text(value: _Name) -> str:
    if type(value) is str:
        return value
    # pandas writes whole numbers of a column with gaps as 12.0.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _all_or_none_rated(
    found: Iterator[tuple[int, Comparison | Skipped]], name: str
) -> Iterator[Comparison | Skipped]:
    """Skip unrated rows of a file that has rated ones.

    The rows before the first rated one have to wait: only the end of the file
    shows that nobody is named in it.
    """

    def unrated(line: int) -> Skipped:
        return Skipped(f"{name}:{line}", "no rater in this row, while others have one")

    waiting: list[tuple[int, Comparison]] = []
    rated = False
    for line, record in found:
        if isinstance(record, Skipped):
            yield record
        elif record.rater is None and not rated:
            waiting.append((line, record))
        elif record.rater is None:
            yield unrated(line)
        else:
            if not rated:
                rated = True
                yield from (unrated(place) for place, _ in waiting)
                waiting.clear()
            yield record
    yield from (record for _, record in waiting)
