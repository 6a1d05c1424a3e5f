"""What stands in the columns of a file: samples, vocabularies and ranges."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, cast

from bbq_adapters.row_reader import (
    RaggedRow,
    Row,
    RowPlace,
    document,
    document_rows,
    is_blank,
    is_import_id,
    is_name,
    look,
    number,
    rows,
)
from bbq_adapters.wording import tokens
from bbq_plugin.data.mappings import Column
from bbq_plugin.errors import FormatError
from bbq_plugin.text import name_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

# What is held of a file: so many cells, and so much of each.
_MOST_CELLS = 1_000_000
_LONGEST_CELL = 120
_MOST_COLUMNS = 300
_DEEPEST = 4
_LONGEST_LIST = 40
# Of lists in rows so many entries are looked at.
_MOST_ENTRIES = 20_000
# A vocabulary of up to so many values may be one of outcomes.
SMALL = 14
_SMALL_KEPT = 40
_SAMPLES = 3
# Beyond so many characters on average, a column holds texts and not names.
_TEXT = 60
# A text that comes as often is what is compared, such as a statement.
_OFTEN = 5
_HEAD = 64 * 1024


@dataclass
class ColumnProfile:
    """One column, by the rows that are held."""

    name: str
    values: list[str]
    #: Where an empty cell is an empty text.
    n: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    numeric: bool = False
    whole: bool = False
    low: float = 0.0
    high: float = 0.0
    is_list: bool = False
    is_text: bool = False

    @classmethod
    def of(
        cls, name: str, values: list[str], late: Mapping[str, int], *, is_list: bool
    ) -> ColumnProfile:
        """The profile of some cells; `late` are values of rows that are not held."""
        counts = Counter(value for value in values if value)
        for value, n in late.items():
            counts[value] += n
        found = cls(name, values, counts.total(), counts, is_list=is_list)
        numbers = [number(value) for value in counts]
        known = [value for value in numbers if value is not None]
        if counts and len(known) == len(numbers):
            found.numeric, found.low, found.high = True, min(known), max(known)
            found.whole = all(value.is_integer() for value in known)
        size = sum(len(value) * n for value, n in counts.items())
        broken = sum(n for value, n in counts.items() if "\n" in value)
        found.is_text = (
            bool(counts) and not found.numeric and (size > _TEXT * found.n or 20 * broken > found.n)
        )
        return found

    @property
    def words(self) -> list[str]:
        """The words of its name."""
        return tokens(self.name)

    @property
    def n_distinct(self) -> int:
        """How many different values there are."""
        return len(self.counts)

    @property
    def n_empty(self) -> int:
        """How many cells are empty."""
        return sum(not value for value in self.values)

    @property
    def is_constant(self) -> bool:
        """Whether all values are the same."""
        return self.n_distinct < 2

    @property
    def is_names(self) -> bool:
        """Whether its values can be names of items: no texts, no measurements."""
        return (
            bool(self.counts)
            and not self.is_list
            and (not self.is_text or self.n >= _OFTEN * self.n_distinct)
            and (not self.numeric or self.whole)
        )

    @property
    def is_small(self) -> bool:
        """Whether it has few different values."""
        return 0 < self.n_distinct <= SMALL

    def column(self) -> Column:
        """For people."""
        samples = tuple(value for value, _ in islice(self.counts.items(), _SAMPLES))
        return Column(self.name, samples, self.n_distinct, self.n_empty)


@dataclass
class ProfiledTable:
    """The columns of a file, and the rows that are held, cell by cell."""

    columns: dict[str, ColumnProfile]
    n_rows: int
    #: How the rows are found, as options of the table adapter.
    options: dict[str, Any] = field(default_factory=dict)
    format: str = ""
    n_held: int = 0
    n_ragged: int = 0
    #: What stopped the reading of the rows.
    fault: FormatError | None = None
    #: Columns that the first row of a file without a header does not have.
    further: frozenset[str] = frozenset()
    #: The entries of a list in each row, as rows of their own, by the name of the list.
    nested: dict[str, ProfiledTable] = field(default_factory=dict)

    def __getitem__(self, name: str) -> ColumnProfile:
        return self.columns[name]

    def __iter__(self) -> Iterator[ColumnProfile]:
        return iter(self.columns.values())

    def where(self, wanted: Mapping[str, str]) -> ProfiledTable:
        """The same with only those rows that have these values."""
        if not wanted:
            return self
        keep = range(self.n_held)
        for column, value in wanted.items():
            cells = self.columns[column].values if column in self.columns else []
            among = {value, *value.split("|")}
            keep = [i for i in keep if i < len(cells) and cells[i] in among]  # type: ignore[assignment]
        columns = {
            name: ColumnProfile.of(name, [one.values[i] for i in keep], {}, is_list=one.is_list)
            for name, one in self.columns.items()
        }
        share = len(keep) / max(1, self.n_held)
        return ProfiledTable(
            columns, round(self.n_rows * share), self.options, self.format, len(keep), 0,
            self.fault, self.further,
        )  # fmt: skip


def profiled(
    stream: io.BufferedReader, name: str, given: Mapping[str, Any], *, header: bool | None = None
) -> ProfiledTable:
    """The table that a stream holds."""
    head = stream.peek(_HEAD)[:_HEAD]
    is_json = look(head).kind == "json"
    options: dict[str, Any] = {}
    records = given.get("records")
    found: Iterator[tuple[RowPlace, Row]]
    if is_json:
        found, options = _json_rows(stream, name, records)
    else:
        if header is None:
            header = _has_header(head, given)
        if not header:
            options["header"] = False
        found = rows(stream, name, header=header, unique=False, uneven=True)
    first = list(islice(found, 1))
    table = _held(chain(first, found))
    if not is_json and not header:
        table.further = frozenset(table.columns) - {key for _, row in first for key in row}
    table.options = options
    table.format = _format(head, options, is_json=is_json)
    return table


def _json_rows(
    stream: io.BufferedReader, name: str, records: str | None
) -> tuple[Iterator[tuple[RowPlace, Row]], dict[str, Any]]:
    """The rows of JSON lines or an array, or those inside a document."""
    found = rows(stream, name, records=records)
    if records is not None:
        return found, {"records": records}
    first = list(islice(found, 2))
    if len(first) == 1 and first[0][0].element is None:
        # One line: perhaps a document with the rows inside.
        inside = document_rows(first[0][1], None)
        if inside is not None and len(inside[1]) > 1:
            placed = ((RowPlace(name, 1, i), row) for i, row in enumerate(inside[1], 1))
            return placed, {"records": inside[0]}
    return chain(first, found), {}


def document_path(stream: io.BufferedReader, name: str) -> str | None:
    """Where the rows of a document of many lines stand."""
    inside = document_rows(document(stream, name), None)
    return None if inside is None else inside[0]


def _format(head: bytes, options: Mapping[str, Any], *, is_json: bool) -> str:
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not is_json:
        first = text.split(b"\n", 1)[0].decode("utf-8", "replace")
        signs = {",": "CSV", "\t": "TSV", ";": "CSV with ;", "|": "CSV with |"}
        sign = max(signs, key=first.count)
        return (signs[sign] if sign in first else "text") + (
            " without a header" if options.get("header") is False else ""
        )
    if "records" in options:
        return f"JSON document with rows under {options['records']}"
    return "JSON array" if text.startswith(b"[") else "JSON lines"


def _has_header(head: bytes, given: Mapping[str, Any]) -> bool:
    """Whether the first line names the columns: its cells do not come again below it."""
    said = given.get("header")
    if said is not None:
        return str(said).lower() not in ("false", "no", "off", "0")
    whole = head[: head.rfind(b"\n") + 1] or head
    try:
        stream: Any = io.BufferedReader(cast("io.RawIOBase", io.BytesIO(whole)))
        found = list(islice(rows(stream, "head", header=False), 500))
    except FormatError:
        return True
    cells = [row for _, row in found if not isinstance(row, RaggedRow)]
    if len(cells) < 2 or any(is_import_id(row.values()) for row in cells[1:3]):
        return True
    first, rest = cells[0], cells[1:]
    again = 0
    for column, value in first.items():
        below = [row.get(column) for row in rest]
        numbers = [number(one) for one in below if one is not None]
        all_numbers = bool(numbers) and None not in numbers
        if value is None:
            continue
        if number(value) is not None and all_numbers:
            again += 1
        elif number(value) is None and all_numbers:
            # A word above numbers is a heading.
            return True
        elif value in below:
            again += 1
    return not (again and again * 2 >= sum(value is not None for value in first.values()))


def _held(found: Iterable[tuple[RowPlace, Row]]) -> ProfiledTable:
    """Read all rows, and hold the first ones."""
    cells: dict[str, list[str]] = {}
    late: dict[str, Counter[str]] = {}
    lists: set[str] = set()
    same: dict[str, str] = {}
    n_rows = n_held = n_ragged = n_cells = 0
    fault = None
    small: list[str] | None = None
    inside: dict[str, list[tuple[int, dict[str, str]]]] = {}
    try:
        for _, row in found:
            n_rows += 1
            if isinstance(row, RaggedRow):
                n_ragged += 1
                continue
            if n_cells >= _MOST_CELLS:
                if small is None:
                    small = [c for c, v in cells.items() if len(set(v)) <= _SMALL_KEPT]
                _count_late(row, small, late)
                continue
            for name, value in _flat(row, lists):
                column = cells.get(name)
                if column is None:
                    if len(cells) >= _MOST_COLUMNS:
                        continue
                    column = cells[name] = []
                column.extend([""] * (n_held - len(column)))
                column.append(same.setdefault(value, value))
                n_cells += 1
            _hold_entries(row, n_held, inside)
            n_held += 1
    except FormatError as error:
        fault = error
    for column in cells.values():
        column.extend([""] * (n_held - len(column)))
    # A list of one is the one, as where several could have been chosen.
    single = {name for name in lists if not any("\x1f" in value for value in cells[name])}
    lists -= single
    cells = {f"{name}.0" if name in single else name: values for name, values in cells.items()}
    columns = {
        name: ColumnProfile.of(name, values, late.get(name, {}), is_list=name in lists)
        for name, values in cells.items()
    }
    table = ProfiledTable(columns, n_rows, {}, "", n_held, n_ragged, fault)
    table.nested = {
        name: _of_entries(own, table, tuple(f"{other}." for other in inside))
        for name, own in inside.items()
        if not {"role", "from"} & {path.rpartition(".")[2] for _, entry in own for path in entry}
    }
    return table


def _hold_entries(row: Row, at: int, inside: dict[str, list[tuple[int, dict[str, str]]]]) -> None:
    """Keep the entries of the lists of a row, with the number of the row."""
    for name, entries in row.items():
        if isinstance(entries, list) and entries and isinstance(entries[0], dict):
            own = inside.setdefault(name, [])
            for entry in entries[: _MOST_ENTRIES - len(own)]:
                own.append((at, dict(_flat({"*": entry}, set(), f"{name}."))))


def _of_entries(
    entries: list[tuple[int, dict[str, str]]],
    table: ProfiledTable,
    lists: tuple[str, ...],
) -> ProfiledTable:
    """The entries of a list as rows, each with what its row says beside such lists."""
    cells = {
        column: [one.values[at] for at, _ in entries]
        for column, one in table.columns.items()
        if not column.startswith(lists) and not one.is_list
    }
    for column in dict.fromkeys(path for _, entry in entries for path in entry):
        cells[column] = [entry.get(column, "") for _, entry in entries]
    columns = {
        path: ColumnProfile.of(path, values, {}, is_list=any("\x1f" in value for value in values))
        for path, values in cells.items()
    }
    return ProfiledTable(columns, len(entries), {}, "", len(entries))


def _count_late(row: Row, small: list[str], late: dict[str, Counter[str]]) -> None:
    for name in small:
        value = row.get(name)
        if is_name(value) and (text := name_text(value).strip()):
            late.setdefault(name, Counter())[text[:_LONGEST_CELL]] += 1


def _flat(row: Row, lists: set[str], before: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """The cells of a row by their paths; a list of names is one cell."""
    for key, value in row.items():
        path = f"{before}{key}"
        if isinstance(value, dict):
            if depth < _DEEPEST:
                yield from _flat(value, lists, f"{path}.", depth + 1)
        elif isinstance(value, list):
            if value and all(isinstance(one, dict) for one in value):
                if depth < _DEEPEST and len(value) <= _LONGEST_LIST:
                    inner = {str(i): one for i, one in enumerate(value)}
                    yield from _flat(inner, lists, f"{path}.", depth + 1)
            elif value and len(value) <= _LONGEST_LIST and all(map(is_name, value)):
                lists.add(path)
                yield path, "\x1f".join(name_text(one).strip()[:_LONGEST_CELL] for one in value)
        else:
            yield path, cell_text(value)


def cell_text(value: object) -> str:
    """A cell as text; empty where there is nothing."""
    if isinstance(value, bool):
        return str(value).lower()
    if is_blank(value) or not is_name(value):
        return ""
    return name_text(value).strip()[:_LONGEST_CELL]


def list_cells(text: str) -> list[str]:
    """The names of a cell that is a list."""
    return text.split("\x1f")


def share(values: Iterable[Any], good: Callable[[Any], bool]) -> float:
    """The share of values for which something holds; 0 of none."""
    found = [bool(good(value)) for value in values]
    return sum(found) / len(found) if found else 0.0
