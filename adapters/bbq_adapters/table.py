"""Any table: the user says which column is what, on the command line or in a TOML file.

    left = "system_1"          # two items and who won …
    right = "system_2"
    winner = "choice"
    rater = "annotator"
    tags = ["language", "domain"]

    [values]                   # what stands in the column of the winner
    1 = "left"
    2 = "right"
    0 = "tie"

With `loser` instead of left and right, `winner` and `loser` name the two items.
"""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bbq_adapters.row_reader import (
    Row,
    RowPlace,
    is_name,
    item,
    known_columns,
    line_key,
    look,
    number,
    outcome,
    rater,
    rows,
    seconds_since_1970,
    tags,
    weight,
)
from bbq_plugin.data.records import (
    AGAINST_ITSELF,
    NO_WINNER,
    OUTCOMES,
    Comparison,
    Outcome,
    Skipped,
)
from bbq_plugin.errors import UsageError, did_you_mean
from bbq_plugin.text import listed, name_text

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator, Mapping, Sequence

_SKIP = "skip"
_OWN = {"rater", "winner", "loser", "weight"}
# What a column is taken for when it is called so and nothing else is said.
_USUAL = {
    "left": "left", "right": "right", "winner": "winner", "loser": "loser", "rater": "rater",
    "weight": "weight", "time": "time_s", "key": "key", "at": "at",
}  # fmt: skip


@dataclass(frozen=True)
class TableColumns:
    """Which column is what."""

    left: str | None = None
    right: str | None = None
    winner: str | None = None
    loser: str | None = None
    rater: str | None = None
    weight: str | None = None
    time: str | None = None
    key: str | None = None
    at: str | None = None
    tags: Sequence[str] | None = None
    values: Mapping[str, str] = field(default_factory=dict)

    def named(self) -> dict[str, str]:
        """The columns that are said to be something, by what they are."""
        return {what: c for what, c in asdict(self).items() if isinstance(c, str)}


class TableAdapter:
    """Any table, with the columns named by options or in a TOML file."""

    name = "table"
    lines_stand_alone = True
    option_help = {  # noqa: RUF012 - read by plugins, never written
        "left": "column of the item on the left",
        "right": "column of the item on the right",
        "winner": "column that says who won; with loser, the item that won",
        "loser": "column of the item that lost",
        "rater": "column of who answered",
        "weight": "column of the weight",
        "time": "column of the time an answer took, in seconds",
        "key": "column that names the answer",
        "at": "column of the moment, in seconds since 1970 or ISO 8601",
        "tags": "columns to keep as tags; all short ones if not given",
        "values": "what stands in winner: 1=left,2=right,0=tie; also both_bad and skip",
        "mapping": "TOML file with these options, to be kept with the study",
    }

    def sniff(self, head: bytes, name: str) -> str | None:  # noqa: ARG002 - the content decides
        """By `winner` and `loser` beside other columns; for all else name it, with its columns."""
        fields = look(head).fields
        found = {"winner", "loser"} <= fields and not fields <= _OWN
        return "columns winner and loser" if found else None

    def read(
        self,
        stream: io.BufferedReader,
        name: str,
        *,
        left: str | None = None,
        right: str | None = None,
        winner: str | None = None,
        loser: str | None = None,
        rater: str | None = None,
        weight: str | None = None,
        time: str | None = None,
        key: str | None = None,
        at: str | None = None,
        tags: Sequence[str] | None = None,
        values: Mapping[str, str] | None = None,
        mapping: str | None = None,
    ) -> Iterator[Comparison | Skipped]:
        """Yield one record a row."""
        columns = TableColumns() if mapping is None else _from_toml(mapping)
        given: dict[str, Any] = {
            "left": left, "right": right, "winner": winner, "loser": loser, "rater": rater,
            "weight": weight, "time": time, "key": key, "at": at, "tags": tags, "values": values,
        }  # fmt: skip
        # What is said on the command line counts before what the file says.
        columns = replace(columns, **{w: c for w, c in given.items() if c is not None})
        return _records(rows(stream, name), columns)


def _from_toml(path: str) -> TableColumns:
    try:
        with Path(path).open("rb") as file:
            found = tomllib.load(file)
    except OSError as error:
        raise UsageError(f"the mapping {path} cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the mapping {path} is not valid TOML ({error})") from error
    known = TableColumns.__dataclass_fields__
    for what, column in found.items():
        if what not in known:
            meant = did_you_mean(what, known)
            raise UsageError(f"{path}: there is no {what!r}; known: {', '.join(known)}{meant}")
        good: tuple[type, ...] = {"tags": (list,), "values": (dict,)}.get(what, (str,))
        if not isinstance(column, good):
            raise UsageError(f"{path}: {what} is {column!r}; expected {good[0].__name__}")
    return TableColumns(**found)


def _completed(columns: TableColumns, row: Row) -> TableColumns:
    """What was not said is taken from columns that are called so."""
    named = columns.named()
    known_columns([*named.values(), *(columns.tags or ())], row)
    usual: dict[str, Any] = {w: c for w, c in _USUAL.items() if c in row and w not in named}
    if "loser" in named:
        usual.pop("left", None), usual.pop("right", None)
    elif {"left", "right"} & named.keys():
        usual.pop("loser", None)
    found = replace(columns, **usual)
    if found.winner is None or not (found.loser or (found.left and found.right)):
        raise UsageError(
            "say which columns hold the two items and who won: left=, right= and winner=, or "
            f"winner= and loser=; the file has: {listed(map(str, row), 40)}"
        )
    for said in columns.values.values():
        if said not in (*OUTCOMES, _SKIP):
            raise UsageError(
                f"values maps to {said!r}; expected one of {', '.join((*OUTCOMES, _SKIP))}"
            )
    return found


def _records(
    found: Iterator[tuple[RowPlace, Row]], columns: TableColumns
) -> Iterator[Comparison | Skipped]:
    first = next(found, None)
    if first is None:
        return
    columns = _completed(columns, first[1])
    used = set(columns.named().values())
    for place, row in chain([first], found):
        said = _answer(row, columns, place)
        if isinstance(said, Skipped):
            yield said
            continue
        left, right, outcome = said
        own = row.get(columns.key) if columns.key else None
        key = name_text(own) if is_name(own) and name_text(own) else line_key(place)
        kept = row if columns.tags is None else {c: row.get(c) for c in columns.tags}
        yield Comparison(
            key,
            rater(row, (columns.rater,)) if columns.rater else None,
            left,
            right,
            outcome,
            weight(row, columns.weight, place),
            # A winner and a loser stood on sides that were not recorded.
            slate=None if columns.left and columns.right else key,
            at=seconds_since_1970(row.get(columns.at)) if columns.at else None,
            time_s=_time(row, columns),
            tags=tags(kept, used if columns.tags is None else ()),
        )


def _answer(row: Row, columns: TableColumns, place: RowPlace) -> tuple[str, str, Outcome] | Skipped:
    winner = columns.winner or ""
    if not (columns.left and columns.right):
        if row.get(winner) is None:
            return Skipped(str(place), NO_WINNER)
        left, right = item(row, winner, place), item(row, columns.loser or "", place)
        said: str | Skipped = "left"
    else:
        left, right = item(row, columns.left, place), item(row, columns.right, place)
        usual = {word: word for word in OUTCOMES} | {columns.left: "left", columns.right: "right"}
        words: dict[str, Any] = dict(columns.values) or usual
        if isinstance(row.get(winner), bool):
            row = {**row, winner: str(row[winner]).lower()}
        said = outcome(row, winner, words, left, right, place) if left != right else ""
    if left == right:
        return Skipped(str(place), AGAINST_ITSELF, left)
    if said == _SKIP:
        return Skipped(str(place), "skipped by the values of winner", expected=True)
    return said if isinstance(said, Skipped) else (left, right, cast("Outcome", said))


def _time(row: Row, columns: TableColumns) -> float | None:
    found = number(row.get(columns.time)) if columns.time else None
    return found if found is not None and found >= 0 else None
