"""What the values of a column say: samples, vocabularies and ranges, and what choices mean."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, cast

from bbq_adapters.json_csv_rows import document_rows, header_width, is_import_id, look, rows
from bbq_adapters.labels_and_item_names import (
    NO,
    SKIPS,
    YES,
    beside,
    label_meaning,
    tokens,
    word_set,
)
from bbq_adapters.row_values import RaggedRow, Row, RowPlace, is_blank, is_name, number
from bbq_adapters.table import OF_COLUMNS, transposed
from bbq_plugin.data.mappings import Column
from bbq_plugin.errors import FormatError
from bbq_plugin.text import name_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping


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

    def called(self, words: Collection[str]) -> bool:
        """Whether its name has one of the words."""
        return not set(self.words).isdisjoint(words)

    @cached_property
    def beside(self) -> str | None:
        """What it may change in the meaning of votes beside it."""
        return beside(self.name, self.values)

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
    def is_yes_or_no(self) -> bool:
        """Whether its values are true and false, or yes and no."""
        return {value.casefold() for value in self.counts} <= {"true", "false", "yes", "no"}

    @property
    def is_flag(self) -> bool:
        """Whether its values say yes and no, also as numbers or letters."""
        return {value.casefold() for value in self.counts} <= YES | NO

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
    #: How many columns the header and the rows have, where these are not the same.
    header_width: tuple[int, int] | None = None

    def __getitem__(self, name: str) -> ColumnProfile:
        return self.columns[name]

    def __iter__(self) -> Iterator[ColumnProfile]:
        return iter(self.columns.values())

    def rows(self, *names: str, whole: bool = False) -> list[tuple[str, ...]]:
        """The rows of some columns; only those without an empty cell if they are to be `whole`."""
        found = zip(*(self.columns[name].values for name in names), strict=True)
        return [row for row in found if all(row)] if whole else list(found)

    def turned(self) -> ProfiledTable | None:
        """The same with a row for each column but the first, which names the columns."""
        if len(self.columns) < 2 or self.n_held < self.n_rows:
            return None
        first, *others = self
        cells = [[one.name for one in others], *zip(*(one.values for one in others), strict=True)]
        names = [OF_COLUMNS, *first.values]
        if len({*names}) < len(names) or not all(names):
            return None
        columns = {
            name: ColumnProfile.of(name, list(values), {}, is_list=False)
            for name, values in zip(names, cells, strict=True)
        }
        options = {**self.options, "transposed": True}
        return ProfiledTable(columns, len(others), options, self.format, len(others))

    def where(self, wanted: Mapping[str, str]) -> ProfiledTable:
        """The same with only those rows that have these values."""
        if not wanted:
            return self
        keep = range(self.n_held)
        for column, value in wanted.items():
            cells = self.columns[column].values if column in self.columns else []
            among = {value, *value.split("|")}
            keep = [
                i
                for i in keep
                if i < len(cells) and (cells[i] in among or (value == "*" and cells[i]))
            ]  # type: ignore[assignment]
        columns = {
            name: ColumnProfile.of(name, [one.values[i] for i in keep], {}, is_list=one.is_list)
            for name, one in self.columns.items()
        }
        share = len(keep) / max(1, self.n_held)
        return ProfiledTable(
            columns, round(self.n_rows * share), self.options, self.format, len(keep), 0,
            self.fault, self.further, {}, self.header_width,
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
    if str(given.get("transposed")).lower() in ("true", "yes", "on", "1"):
        found, options["transposed"] = transposed(found), True
    first = list(islice(found, 1))
    table = _held(chain(first, found))
    if not is_json and not header:
        table.further = frozenset(table.columns) - {key for _, row in first for key in row}
    elif not is_json:
        table.header_width = header_width(head)
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
    first = cells[0]
    # Where files were joined, the header comes again as a whole.
    rest = [row for row in cells[1:] if row != first]
    rest = rest if len(rest) > 0.9 * (len(cells) - 1) else cells[1:]
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
    entries: list[tuple[int, dict[str, str]]], table: ProfiledTable, lists: tuple[str, ...]
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


# Names of columns in which 0 is the first item, and in which 1 says that it won.
_INDEX = word_set("index idx")
_FLAG = word_set("outcome score result win won wins")
_PRESSED = word_set("key keys response choice resp answer button pressed keypress")
_OVER = word_set("better over than beats beat preferred prefers wins gt above vs")
_BUTTON = word_set("response button")
# How a tie is written where it is no word.
_TIE_LIKE = word_set("c 0 0.5 3 s e t d n = x 2 -")


@dataclass
class Coding:
    """What the values of a column of choices mean."""

    values: dict[str, str]
    #: Written in words, and not in numbers or letters.
    explicit: bool
    #: The values are the names of the two columns, or the words that set them apart.
    sided: bool = False
    #: Nothing says which value is which: another coding fits as well.
    open: bool = False
    doubts: list[str] = field(default_factory=list)
    others: list[tuple[dict[str, str], str]] = field(default_factory=list)


def coding(
    one: ColumnProfile,
    sides: tuple[str, str] = ("", ""),
    first: int | None = None,
    *,
    mixed: bool = False,
) -> Coding | None:
    """What the values of a column mean for two items; None where that cannot be told.

    `first` is the number from which the columns of the file count two things, if they do.
    `mixed`: the items stand on both sides alike, so each side wins about as often.
    """
    values = [value for value, _ in one.counts.most_common()]
    if not 2 <= len(values) <= SMALL and not (len(values) == 1 and one.n < 20):
        return None
    return (
        _by_sides(values, sides)
        or _by_results(values, one)
        or _by_numbers(values, one, sides, first, mixed=mixed)
        or _by_words(values)
    )


_THIRDS = {"tie": "a tie", "skip": "no answer"}
_SWAPPED = {"left": "right", "right": "left"}


def _asked(
    meaning: dict[str, str],
    thirds: Mapping[str, bool] | None = None,
    *,
    explicit: bool = False,
    told: bool = True,
    swaps: bool = False,
) -> Coding:
    """A coding with what is asked about it, and the other ways to read it.

    `thirds` may be a tie or no answer: whether the file says which. `swaps`: the sides may be
    the other way round, which fits as well where nothing has `told`.
    """
    found = Coding(meaning, explicit=explicit, open=not told)
    for value, evident in (thirds or {}).items():
        said = meaning[value]
        other = "skip" if said == "tie" else "tie"
        nothing = "" if evident else ", which nothing in the file says"
        found.doubts.append(f"{value!r} is taken for {_THIRDS[said]}{nothing}")
        # Other meanings of one value keep those of all others.
        found.others.append(({**meaning, value: other}, f"{value!r} is {_THIRDS[other]}"))
    if swaps:
        first = next(value for value, said in meaning.items() if said in _SWAPPED)
        found.doubts.append(
            f"{first!r} is taken for the {meaning[first]} item; it may be the other one"
        )
        found.others.append((mirrored(meaning), "the other way round"))
    return found


def mirrored(meaning: Mapping[str, str]) -> dict[str, str]:
    """The same coding with its sides exchanged."""
    return {value: _SWAPPED.get(said, said) for value, said in meaning.items()}


def _by_sides(values: list[str], sides: tuple[str, str]) -> Coding | None:
    """The columns' own names, or the words that set them apart: a of model_a, Red of R_fighter."""
    known = dict(zip((side.casefold() for side in sides), ("left", "right"), strict=True))
    meaning = {value: known.get(value.casefold()) for value in values}
    left, right = (set(tokens(side)) for side in sides)
    # Beside b, a is not short for away.
    whole = {"a", "b"} <= {value.casefold() for value in values}
    if len(left - right) == len(right - left) == 1:
        words = (*(left - right), *(right - left))
        short: dict[str, str] = {}
        for value in values:
            same = [_is_short_for(word, value, words, whole=whole) for word in words]
            if sum(same) == 1:
                short[value] = ("left", "right")[same.index(True)]
        # loss alone is not short for left.
        if {*short.values()} == {"left", "right"} or {*short} <= {*words}:
            meaning |= short
    if not any(meaning.values()):
        return None
    found = _with_third({v: said or third_meaning(v) for v, said in meaning.items()}, explicit=True)
    if found is not None:
        # A lone letter may as well be a group or a version.
        found.sided = all(len(v) > 1 for v, said in meaning.items() if said)
    return found


def _is_short_for(word: str, value: str, words: tuple[str, ...], *, whole: bool) -> bool:
    """Whether a word that sets two columns apart is a value, or its first letter unless `whole`."""
    said = value.casefold()
    if not word.isalpha() or not said.isalpha() or isinstance(label_meaning(value), str):
        return False
    # Of words that begin with a or b, hardly any means the one or the other.
    short = 1 in (len(word), len(said)) and set(words) != {"a", "b"} and not whole
    return said == word or (short and said[0] == word[0])


def third_meaning(value: str) -> str | None:
    """What a value means that is no side: a tie, both bad, or no answer."""
    said = label_meaning(value)
    if isinstance(said, str):
        return said
    return "skip" if " ".join(tokens(value.replace("'", ""))) in SKIPS else None


# What is left, right and a tie in letters and words that only together mean something.
_RESULTS = tuple(
    {word: side for side, words in zip(("left", "right", "tie"), row, strict=True)
     for word in words.split()}
    for row in (
        ("h", "a", "d"), ("g", "b", "s"), ("w", "l", "d t"),
        ("win won", "loss lose lost", "draw"), ("f", "j", ""), ("z", "m", ""), ("q", "p", ""),
        ("arrowleft", "arrowright", "arrowdown arrowup"), ("> >>", "< <<", "= =="),
        ("1-0", "0-1", "1/2-1/2 ½-½ 1/2 ½"), ("l", "r", "t n d s e"), ("a", "b", "s t d e ="),
    )
)  # fmt: skip


def _by_results(values: list[str], one: ColumnProfile) -> Coding | None:
    """Letters and words that only together mean something: home, away, draw."""
    small = [value.casefold() for value in values]
    for known in _RESULTS:
        first = next(iter(known))
        if first in small and len(small) > 1 and all(value in known for value in small):
            meaning = {value: known[value.casefold()] for value in values}
            thirds = [value for value, said in meaning.items() if said == "tie" and len(value) == 1]
            return _asked(meaning, dict.fromkeys(thirds, True), explicit=len(first) > 1)
    return _by_keys(small, values, one)


# The keys under the left and under the right hand.
_LEFT_HAND, _RIGHT_HAND = frozenset("qwertasdfgzxcvb"), frozenset("yuiophjklnm")


def _by_keys(small: list[str], values: list[str], one: ColumnProfile) -> Coding | None:
    """Two keys of a keyboard, one for each hand."""
    hands = [
        "left" if key in _LEFT_HAND else "right" if key in _RIGHT_HAND else "" for key in small
    ]
    if sorted(hands) != ["left", "right"] or not set(one.words) & _PRESSED:
        return None
    return _asked(dict(zip(values, hands, strict=True)), swaps=True)


def _by_words(values: list[str]) -> Coding | None:
    """Words that people know: left, model_a, A is better, tie, both bad."""
    meaning: dict[str, str | None] = {}
    bare = False
    for value in values:
        said = label_meaning(value)
        if isinstance(said, int):
            meaning[value] = {1: "left", 2: "right"}.get(said)
            bare = bare or len(value) == 1
        else:
            meaning[value] = third_meaning(value)
    if "left" not in meaning.values() and "right" not in meaning.values():
        return None
    return _with_third(meaning, explicit=not bare)


def _with_third(meaning: Mapping[str, str | None], *, explicit: bool) -> Coding | None:
    """A coding where one value may be unknown: it is asked about."""
    unknown = [value for value, said in meaning.items() if said is None]
    known = {value: said for value, said in meaning.items() if said is not None}
    if len(unknown) > 1 or not {"left", "right"} & set(known.values()):
        return None
    thirds = {value: True for value, said in known.items() if said == "skip"}
    for value in unknown:
        tie = value.casefold() in _TIE_LIKE or tokens(value) == ["c"]
        known[value], thirds[value] = "tie" if tie else "skip", False
    return _asked(known, thirds, explicit=explicit and not thirds)


def _by_numbers(
    values: list[str], one: ColumnProfile, sides: tuple[str, str], first: int | None, *, mixed: bool
) -> Coding | None:
    """Codes such as 1/2/0, 0/1, -1/0/1 and true/false."""
    words = set(one.words)
    named = side_named(one, sides)
    won, lost = ("right", "left") if named == "right" else ("left", "right")
    # What is called a win or a score speaks of the first item.
    is_flag = named is not None or bool(words & _FLAG)
    if one.is_yes_or_no:
        meaning = {value: won if value.casefold() in ("true", "yes") else lost for value in values}
        return _asked(meaning, told=is_flag, swaps=named is None)
    if not one.numeric:
        return None
    codes = {value: number(value) or 0.0 for value in values}
    kinds = frozenset(codes.values())
    is_index = first == 0 or bool(words & _INDEX)
    # From the left to the right, as on a scale.
    is_scale = {"left", "right"} <= {word for side in sides for word in tokens(side)}
    if kinds in ({0, 1, 2}, {1, 2, 3}):
        often = {code: one.counts[value] for value, code in codes.items()} if mixed else {}
        first = 0 if is_index else first
        return _three(codes, often, first, is_button=bool(words & _BUTTON))
    thirds: dict[str, bool] = {}
    told, low, high = is_flag or is_scale, min(kinds), max(kinds)
    meant: dict[float, str]
    if kinds <= {0, 1}:
        told = is_flag or is_index
        index = named is None and (is_index or not is_flag)
        meant = {0: "left", 1: "right"} if index else {0: lost, 1: won}
    elif kinds <= {1, 2}:
        return _asked(_coded(codes, {1: "left", 2: "right"}))
    elif {0, 1} <= kinds and len(kinds) == 3 and 0 < (part := max(kinds - {0, 1})) < 1:
        # How much of a win an item has: 1, 0 and something between.
        told, meant = is_flag, {1: won, 0: lost, part: "tie" if part == 0.5 else "skip"}
        thirds = {} if part == 0.5 else {v: False for v, code in codes.items() if code == part}
    elif kinds <= {-1, 0, 1}:
        meant = {-1: lost, 1: won, 0: "tie"} if is_flag else {-1: "left", 1: "right", 0: "tie"}
    elif one.whole and (low, high) in ((1, 5), (1, 7), (-2, 2), (-3, 3)):
        # A scale from one side over the middle to the other; below 0 may as well be: worse.
        told, middle = is_scale or low > 0, (low + high) / 2
        meant = {
            code: "tie" if code == middle else "left" if code < middle else "right"
            for code in kinds
        }
    else:
        return None
    return _asked(_coded(codes, meant), thirds, told=told, swaps=True)


def _coded(codes: Mapping[str, float], meaning: Mapping[float, str]) -> dict[str, str]:
    return {value: meaning[code] for value, code in codes.items()}


def _three(
    codes: Mapping[str, float], often: Mapping[float, int], first: int | None, *, is_button: bool
) -> Coding:
    """Two sides and a third value, which is a tie or no answer.

    Where the numbers of the columns do not say which, `often` does if it is known: two sides
    come about equally often.
    """
    has_zero = 0 in codes.values()
    from_one: dict[float, str] = {1: "left", 2: "right", 0 if has_zero else 3: "tie"}
    other: dict[float, str] = (
        {0: "left", 1: "right", 2: "tie"} if has_zero else {1: "left", 3: "right", 2: "tie"}
    )
    ways = [from_one, other]
    if has_zero and first == 0:
        ways.reverse()
    told = first is not None
    if not told and sum(often.values()) >= _MANY:
        uneven = [_unevenness(often, way) for way in ways]
        ways = [way for _, way in sorted(zip(uneven, ways, strict=True), key=lambda one: one[0])]
        told = min(uneven) < _EVEN and max(uneven) > _UNEVEN
    value = next(v for v, code in codes.items() if ways[0][code] == "tie")
    # A third button: those who skip are not to be counted as undecided.
    third = {value: "skip" if is_button else "tie"}
    found = _asked({**_coded(codes, ways[0]), **third}, {value: False}, told=told)
    said = ", ".join(f"{code:g}={side}" for code, side in ways[1].items())
    found.others.append((_coded(codes, ways[1]), said))
    return found


# How many times as often as the other a side may come, and what is too often for sides.
_EVEN, _UNEVEN = 1.5, 1.8
# Fewer answers do not show it.
_MANY = 30


def _unevenness(often: Mapping[float, int], way: Mapping[float, str]) -> float:
    """How many times as often the one side would come as the other."""
    rare, frequent = sorted(n for code, n in often.items() if way.get(code) in ("left", "right"))
    return frequent / rare


def side_named(one: ColumnProfile, sides: tuple[str, str]) -> str | None:
    """The side that a flag speaks of: left of is_A_selected, right of away_won; None if neither."""
    left, right = (set(tokens(side)) for side in sides)
    first, second = (
        (left - right) | {"a", "left", "first"},
        (right - left) | {"b", "right", "second"},
    )
    own = set(one.words)
    if own & _OVER and own & first and own & second:
        # a_better_than_b speaks of the one that it names first.
        earlier = next(word for word in one.words if word in first | second)
        return "left" if earlier in first else "right"
    if not own & (first | second):
        # bResult of blueTeam and redTeam
        first, second = ({word[0] for word in words} for words in (left - right, right - left))
    if bool(own & (first - second)) == bool(own & (second - first)):
        return None
    return "left" if own & (first - second) else "right"
