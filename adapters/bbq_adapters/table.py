"""Any table: the user says which column is what, on the command line or in a TOML file.

    [mapping]
    left = "system_1"          # two items and who won …
    right = "system_2"
    winner = "choice"
    rater = "annotator"
    tags = ["language", "domain"]
    values = {1 = "left", 2 = "right", 0 = "tie"}     # what stands in the column of the winner

A mapping has one of these shapes; `mapping_detection` finds the likely one.

- `winner` and `loser`: the two items.
- `left` and `right` (or two `items`) with `winner`: two items and a choice; with `raters` instead
  of `winner`: one column of choices a rater; with `ranks`: two ranks or scores; with `wins`:
  how often each won, or the first.
- `items` with `ranks`: a ranking of several; `ranks` alone: one column an item; `ranking`: the
  names, best first.
- `items` with `best`, and perhaps `worst`: the best and the worst of those shown.
- `matrix`: a square table of wins.

A column is named as it is called, by a path of dots into nested values (`answer1.name`), or as
several of which the name is composed (`type1+level1`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal, cast

from bbq_adapters.json_csv_rows import first_whole, rows
from bbq_adapters.labels_and_item_names import label_meaning
from bbq_adapters.row_values import (
    BrokenRow,
    RaggedRow,
    Row,
    RowPlace,
    broken_field,
    check_row,
    is_blank,
    is_name,
    is_nothing,
    known_columns,
    line_key,
    lookup,
    no_item,
    number,
    outcome,
    rank_of,
    rater,
    seconds_since_1970,
    tags,
    weight,
)
from bbq_plugin.data.mappings import Reading, UnclearError, read_mapping
from bbq_plugin.data.rankings import (
    Pair,
    Weights,
    best_worst_pairs,
    ranked_pairs,
    slate_comparisons,
)
from bbq_plugin.data.records import AGAINST_ITSELF, OUTCOMES, Comparison, Note, Outcome, Skipped
from bbq_plugin.errors import FormatError, IncompleteMappingError, UsageError, did_you_mean
from bbq_plugin.text import brief, counted, listed, name_text

if TYPE_CHECKING:
    import io

    from bbq_plugin.data.mappings import Inspection

Better = Literal["better"]
Beats = Literal["row", "column"]
Unranked = Literal["below", "unknown"]
Unit = Literal["s", "ms"]

_SKIP = "skip"
#: Said of a column in rows: that it is not empty.
ANY = "*"
_ABSENT = object()
# All names of the rankings of a file, in each of its rows.
_ALL_NAMES = "\x00all names"
#: In the path of a column: of each entry of a list.
EACH = ".*."
#: Said instead of a column: there is none.
NONE = "none"

#: Among so many further rows one is looked for that has every column.
_N_HEAD = 200
# What a column is taken for when it is called so and nothing else is said.
_USUAL = {
    "left": "left", "right": "right", "winner": "winner", "loser": "loser", "rater": "rater",
    "weight": "weight", "time": "time_s", "key": "key", "at": "at",
}  # fmt: skip
_LISTS = ("items", "ranks", "ranking", "wins", "raters", "tags", "pairs", "group")
_TABLES = ("values", "rows")
# A weight that spans more than this is hardly a number of votes.
WIDEST_WEIGHTS = 1000
# More votes in one row are a mistake.
_MOST_VOTES = 1_000_000
# What tables have where nothing was counted, as on their diagonal.
_DASHES = ("-", "–", "—", "--", "x", "X", ".", "*")
_BETWEEN = re.compile(r"\s*(?:>+|≻|;|\||,)\s*")


@dataclass(frozen=True)
class TableColumns:
    """Which column is what."""

    left: str | None = None
    right: str | None = None
    winner: str | None = None
    middle: float | None = None
    loser: str | None = None
    pairs: Sequence[str] = ()
    items: Sequence[str] = ()
    group: Sequence[str] = ()
    between: str | None = None
    best: str | None = None
    worst: str | None = None
    ranks: Sequence[str] = ()
    higher: Better | None = None
    lower: Better | None = None
    unranked: Unranked | None = None
    ranking: Sequence[str] = ()
    wins: Sequence[str] = ()
    ties: str | None = None
    matrix: Beats | None = None
    raters: Sequence[str] = ()
    rater: str | None = None
    weight: str | None = None
    time: str | None = None
    time_unit: Unit = "s"
    key: str | None = None
    at: str | None = None
    tags: Sequence[str] | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, str] = field(default_factory=dict)
    split: str | None = None
    weights: Weights = "information"
    records: str | None = None
    header: bool = True
    transposed: bool = False

    def named(self) -> list[str]:
        """The columns that are said to be something, parts of composed names one by one."""
        single = (
            self.left, self.right, self.winner, self.loser, self.best, self.worst, self.ties,
            self.rater, self.weight, self.time, self.key, self.at,
        )  # fmt: skip
        many = (
            *self.items, *self.ranks, *self.ranking, *self.wins, *self.raters, *self.pairs,
            *self.group,
        )  # fmt: skip
        return [c for c in (*single, *many) if c is not None and c != NONE]

    @property
    def pair(self) -> tuple[str, ...]:
        """The columns of the items."""
        return (self.left, self.right) if self.left and self.right else tuple(self.items)


#: The names of all options that make up a mapping.
OPTIONS = tuple(one.name for one in fields(TableColumns))


class TableAdapter:
    """Any table, with the columns named by options or in a TOML file."""

    name = "table"
    lines_stand_alone = True
    #: Who says one of these means this adapter.
    telling_options = (
        "left", "right", "winner", "loser", "items", "best", "ranks", "ranking", "wins", "matrix",
        "raters", "pairs",
    )  # fmt: skip
    #: With these a file is read as a whole.
    whole_options = ("matrix", "records", "header", "group", "unranked", "transposed")
    option_help = {  # noqa: RUF012 - read by plugins, never written
        "left": "column of the item on the left",
        "right": "column of the item on the right",
        "winner": "column that says which item won; with loser, the item that won",
        "middle": "winner holds a scale: below this number left is better, above it right",
        "loser": "column of the item that lost; with two items, column that says which one lost",
        "pairs": "columns named after two items, such as a vs b, that hold the choice",
        "items": "columns of the items shown; a+b composes a name of two columns",
        "group": "one row per item: columns that are the same in all rows of one answer",
        "between": "separator of two items or scores in one column, or of the names of a ranking",
        "best": "column of the best of items, by name",
        "worst": "column of the worst of items, by name",
        "ranks": "columns of ranks or scores, one for each of items; alone: one column per item",
        "higher": "higher=better: ranks holds scores",
        "lower": "lower=better: ranks holds ranks, 1 for the best",
        "unranked": "what an item without a rank is: below the others, or not compared",
        "ranking": "columns of names, best first; or one column with all of them",
        "wins": "columns of how often the first and the second item won, or of the first",
        "ties": "with wins: column of how often they tied",
        "matrix": "a square table of wins: who beats whom in a cell, the row or the column",
        "raters": "columns of choices, one for each rater; the column's name is the rater",
        "rater": "column of the rater; none: there is none",
        "weight": "column of the weight; none: there is none",
        "time": "column of the time an answer took",
        "time_unit": "unit of the time",
        "key": "column that names the answer",
        "at": "column of the moment, in ISO 8601 or seconds or milliseconds since 1970",
        "tags": "columns to keep as tags; all short ones if not given",
        "values": "values of winner: 1=left,2=right,0=tie; also both_bad, skip or an item",
        "rows": "only rows with these values: trial_type=comparison; a|b for either, * for any",
        "split": "sign between names of one combined item, such as +",
        "weights": "weight of the pairs of a ranking",
        "records": "path of the list of rows in a JSON document; . is the document itself",
        "header": "false: the first line is a row, and the columns are column1, column2, …",
        "transposed": "true: each column but the first is an answer, and the first names its parts",
        "mapping": "TOML file with these options, to be kept with the study",
    }

    def sniff(self, head: bytes, name: str) -> str | None:  # noqa: ARG002 - all rows decide
        """By the values of all rows: `bbq inspect` shows what they say."""
        return None

    def inspect(self, stream: io.BufferedReader, name: str, given: Mapping[str, Any]) -> Inspection:
        """What is in a file and how it could be read, in agreement with the options `given`."""
        # Long, and no fit needs it.
        from bbq_adapters.mapping_detection import inspected  # noqa: PLC0415

        return inspected(stream, name, given)

    def read(
        self,
        stream: io.BufferedReader,
        name: str,
        *,
        left: str | None = None,
        right: str | None = None,
        winner: str | None = None,
        middle: float | None = None,
        loser: str | None = None,
        pairs: Sequence[str] | None = None,
        items: Sequence[str] | None = None,
        group: Sequence[str] | None = None,
        between: str | None = None,
        best: str | None = None,
        worst: str | None = None,
        ranks: Sequence[str] | None = None,
        higher: Better | None = None,
        lower: Better | None = None,
        unranked: Unranked | None = None,
        ranking: Sequence[str] | None = None,
        wins: Sequence[str] | None = None,
        ties: str | None = None,
        matrix: Beats | None = None,
        raters: Sequence[str] | None = None,
        rater: str | None = None,
        weight: str | None = None,
        time: str | None = None,
        time_unit: Unit | None = None,
        key: str | None = None,
        at: str | None = None,
        tags: Sequence[str] | None = None,
        values: Mapping[str, str] | None = None,
        rows: Mapping[str, str] | None = None,
        split: str | None = None,
        weights: Weights | None = None,
        records: str | None = None,
        header: bool | None = None,
        transposed: bool | None = None,
        mapping: str | None = None,
    ) -> Iterator[Comparison | Skipped | Note]:
        """Yield the records of each row."""
        said = locals()
        given = {option: said[option] for option in OPTIONS if said[option] is not None}
        columns = TableColumns() if mapping is None else _saved(mapping)
        # What is said on the command line counts before what the file says.
        columns = replace(columns, **given)
        return _records(stream, name, columns)


def _saved(path: str) -> TableColumns:
    """The columns that a TOML file names."""
    found = read_mapping(path).options
    for what, column in found.items():
        if what not in OPTIONS:
            meant = did_you_mean(what, OPTIONS)
            raise UsageError(f"{path}: there is no {what!r}; known: {', '.join(OPTIONS)}{meant}")
        good: type = list if what in _LISTS else dict if what in _TABLES else str
        good = bool if what in ("header", "transposed") else float if what == "middle" else good
        if not isinstance(column, good) and not (good is float and isinstance(column, int)):
            raise UsageError(f"{path}: {what} is {column!r}; expected {good.__name__}")
    return TableColumns(**found)


# -- one row as answers


@dataclass(frozen=True, slots=True)
class RowAnswer:
    """What one rater says in a row."""

    pairs: Sequence[Pair]
    #: Sets the answers of a row apart.
    part: str = ""
    rater: str | None = None
    #: So many of the items shown were shown before in the row.
    again: int = 0


_Answers = Callable[[Row, RowPlace], Iterator[RowAnswer | Skipped]]


def _records(
    stream: io.BufferedReader, name: str, columns: TableColumns
) -> Iterator[Comparison | Skipped | Note]:
    found = rows(
        stream, name, records=columns.records, header=columns.header, unique=False,
        uneven=bool(columns.ranking),
    )  # fmt: skip
    if columns.transposed:
        found = transposed(found)
    found = _with_all_names(_grouped(_entries(found, columns), columns), columns)
    ragged, first = first_whole(found)
    yield from ragged
    if first is None:
        return
    told_weight = columns.weight is not None
    head = [first, *islice(found, _N_HEAD)]
    # Objects of one JSON file may differ: where no row has every column, all rows together may.
    typical = next((row for _, row in head if _has(row, columns)), None)
    if typical is None:
        typical = {field: value for _, row in reversed(head) for field, value in row.items()}
    columns = _completed(columns, typical)
    table = _MappedRows(columns, typical)
    for place, row in chain(head, found):
        yield from table.records(row, place)
    if not told_weight:
        table.check_weights(name)
    yield from table.notes()


def _entries(
    found: Iterator[tuple[RowPlace, Row]], columns: TableColumns
) -> Iterator[tuple[RowPlace, Row]]:
    """The rows; where columns are said as trials.*.choice, one for each entry of that list."""
    said = (*columns.named(), *columns.rows, *(columns.tags or ()))
    lists = {part.partition(EACH)[0] for one in said for part in one.split("+") if EACH in part}
    if len(lists) > 1:
        raise UsageError(f"{listed(sorted(lists))} are several lists; rows are entries of one")
    if not lists:
        return found
    (name,) = lists
    return (
        (place._replace(part=f"/{i}"), {**row, name: {"*": entry}})
        for place, row in found
        if isinstance(inside := row.get(name), list)
        for i, entry in enumerate(inside, 1)
    )


#: What the names of the columns of a transposed table are: of those who answered.
OF_COLUMNS = "rater"


def transposed(found: Iterator[tuple[RowPlace, Row]]) -> Iterator[tuple[RowPlace, Row]]:
    """Each column but the first as a row, whose columns are called by the first column."""
    held: list[tuple[RowPlace, Row]] = []
    for place, row in found:
        if isinstance(row, RaggedRow):
            yield place, row
        else:
            held.append((place, row))
    if not held:
        return
    first, *others = held[0][1]
    names = [_word(row.get(first)) for _, row in held]
    for name, (place, row) in zip(names, held, strict=True):
        if not name or names.count(name) > 1:
            raise place.error(
                f"{first} is to name each row", row.get(first), "give each row its own name"
            )
    for i, other in enumerate(others, 1):
        cells = {name: row.get(other) for name, (_, row) in zip(names, held, strict=True)}
        yield held[0][0]._replace(element=i), {OF_COLUMNS: other, **cells}


def _grouped(
    found: Iterator[tuple[RowPlace, Row]], columns: TableColumns
) -> Iterator[tuple[RowPlace, Row]]:
    """The rows; where several make one answer, one for each, with lists of what they hold."""
    if not columns.group:
        yield from found
        return
    listed_columns = [c for c in (*columns.items, *columns.ranks, columns.best, columns.worst) if c]
    answers: dict[tuple[str, ...], tuple[RowPlace, list[Row]]] = {}
    for place, row in found:
        if isinstance(row, RaggedRow):
            yield place, row
        elif _is_wanted(row, columns.rows):
            key = tuple(_word(lookup(row, column)) for column in columns.group)
            answers.setdefault(key, (place, []))[1].append(row)
    for place, rows_of in answers.values():
        lists = {c: [lookup(row, c) for row in rows_of] for c in listed_columns}
        yield place, {**rows_of[0], **lists}


def _with_all_names(
    found: Iterator[tuple[RowPlace, Row]], columns: TableColumns
) -> Iterator[tuple[RowPlace, Row]]:
    """The rows; where names that a ranking leaves out stand below it, each with all names."""
    if not columns.ranking or columns.unranked != "below":
        return found
    held = list(found)
    wanted = [
        row for _, row in held if not isinstance(row, RaggedRow) and _is_wanted(row, columns.rows)
    ]
    every = [*dict.fromkeys(name for row in wanted for name in _names_by_rank(row, columns))]
    return (
        (place, row if isinstance(row, RaggedRow) else {**row, _ALL_NAMES: every})
        for place, row in held
    )


def _has(row: Row, columns: TableColumns) -> bool:
    """Whether a row has every column that was named."""
    named = _parts_of(columns.named(), row)
    return all(lookup(row, column, _ABSENT) is not _ABSENT for column in named)


class _MappedRows:
    """Reads rows by a mapping, and remembers what is to be said about them at the end."""

    def __init__(self, columns: TableColumns, first: Row) -> None:
        self.columns = columns
        self._used = _parts_of(columns.named(), first)
        self._answers = _reader(columns, first)
        self._unread: dict[str, list[Any]] = {}
        self._weights: list[float] = []
        self._n_split = 0
        self._n_again = 0

    def records(self, row: Row, place: RowPlace) -> Iterator[Comparison | Skipped]:
        columns = self.columns
        try:
            check_row(row, place)
            if not _is_wanted(row, columns.rows):
                wanted = " and ".join(f"{c}={v}" for c, v in columns.rows.items())
                yield Skipped(str(place), f"not a row with {wanted}", expected=True)
                return
            heavy = 1.0
            if columns.weight:
                heavy = weight({columns.weight: lookup(row, columns.weight)}, columns.weight, place)
                self._weigh(heavy)
            answers = list(self._answers(row, place))
        except BrokenRow as broken:
            yield broken.skipped(place)
            return
        own = lookup(row, columns.key) if columns.key else None
        key = name_text(own) if is_name(own) and name_text(own) else line_key(place)
        kept = row if columns.tags is None else {c: lookup(row, c) for c in columns.tags}
        found = tags(kept, self._used if columns.tags is None else ())
        who = rater({"": lookup(row, columns.rater)}, ("",)) if columns.rater else None
        at = self._moment(row, place)
        time_s = self._seconds(row, place)
        for answer in answers:
            if isinstance(answer, Skipped):
                yield answer
                continue
            self._n_again += answer.again > 0
            pairs = [replace(p, weight=p.weight * heavy) for p in self._split(answer.pairs)]
            if not pairs:
                yield Skipped(str(place), AGAINST_ITSELF)
                continue
            yield from slate_comparisons(
                pairs, key + answer.part, answer.rater or who, at=at, time_s=time_s, tags=found
            )

    def _split(self, pairs: Sequence[Pair]) -> Sequence[Pair]:
        """The pairs with names of several items split, where that is asked for."""
        sign = self.columns.split
        if sign is None:
            return pairs
        out: list[Pair] = []
        for pair in pairs:
            lefts, rights = (
                [part.strip() for part in name.split(sign) if part.strip()]
                for name in (pair.left, pair.right)
            )
            if len(lefts) == len(rights) == 1:
                out.append(pair)
                continue
            self._n_split += 1
            out += [
                replace(pair, left=a, right=b, in_slate=True)
                for a in lefts
                for b in rights
                if a not in rights and b not in lefts
            ]
        return out

    def _moment(self, row: Row, place: RowPlace) -> float | None:
        column = self.columns.at
        value = lookup(row, column) if column else None
        found = seconds_since_1970(value)
        if found is None and not is_nothing(value):
            self._left_out(f"{column} is no moment", value, place)
        return found

    def _seconds(self, row: Row, place: RowPlace) -> float | None:
        column = self.columns.time
        value = lookup(row, column) if column else None
        found = number(value)
        if found is not None and found >= 0:
            return found / (1000 if self.columns.time_unit == "ms" else 1)
        if not is_nothing(value):
            self._left_out(f"{column} is no duration", value, place)
        return None

    def _left_out(self, what: str, value: object, place: RowPlace) -> None:
        seen = self._unread.setdefault(what, [0, place, value])
        seen[0] += 1

    def _weigh(self, found: float) -> None:
        low, high = self._weights or (found, found)
        self._weights = [min(low, found), max(high, found)]

    def check_weights(self, name: str) -> None:
        """Ask about weights that nobody named and that can hardly be numbers of votes."""
        if not self._weights or self._weights[1] <= WIDEST_WEIGHTS * self._weights[0]:
            return
        low, high = self._weights
        column = self.columns.weight
        kept = Reading("table", {"weight": column}, "likely", "as weights")
        left = Reading("table", {"weight": NONE}, "possible", "without weights")
        raise UnclearError(
            f"the column {column!r} goes from {low:g} to {high:g}, which is wide for weights",
            name,
            (replace(left, confidence="likely"), replace(kept, confidence="possible")),
        )

    def notes(self) -> Iterator[Note]:
        """What the reader of the results should know."""
        for what, (n, place, value) in self._unread.items():
            where = f"in {counted(n, 'row')}, first in {place}: {brief(value)}"
            yield Note(f"{what} {where}; it is left out there")
        if self._n_again:
            yield Note(
                f"{counted(self._n_again, 'row')} showed an item more than once; it is compared "
                "with the others of the row once, and not with itself"
            )
        if self._n_split:
            sign = self.columns.split
            yield Note(
                f"{counted(self._n_split, 'pair')} with combined names were split at {sign!r}"
            )


def _is_wanted(row: Row, wanted: Mapping[str, str]) -> bool:
    for column, value in wanted.items():
        found = _word(lookup(row, column))
        if found != value and found not in value.split("|") and not (value == ANY and found):
            return False
    return True


def _word(value: object) -> str:
    """A value as the user would write it."""
    if isinstance(value, bool):
        return str(value).lower()
    return name_text(value).strip() if is_name(value) and not is_blank(value) else ""


def _parts_of(columns: Sequence[str], row: Row) -> set[str]:
    """The columns by themselves, where some are composed."""
    found: set[str] = set()
    for column in columns:
        single = "+" not in column or lookup(row, column, _ABSENT) is not _ABSENT
        found.update([column] if single else column.split("+"))
    return found


def _completed(columns: TableColumns, row: Row) -> TableColumns:
    """What was not said is taken from columns that are called so; the rest is checked."""
    known_columns(_parts_of(columns.named(), row), row)
    known_columns([*(columns.tags or ()), *columns.rows], row)
    shaped = columns.pair or columns.loser or columns.ranks or columns.ranking or columns.matrix
    # A column that was named for something else, such as the key that was pressed, is no other.
    free = row.keys() - set(columns.named())
    usual = {w: c for w, c in _USUAL.items() if c in free and getattr(columns, w) is None}
    if shaped or columns.best:
        usual = {w: c for w, c in usual.items() if w not in ("left", "right", "loser")}
    elif columns.left or columns.right:
        usual.pop("loser", None)
    if columns.raters or columns.ranks or columns.wins or columns.best or columns.ranking:
        usual.pop("winner", None)
    columns = replace(columns, **usual)  # type: ignore[arg-type] # all of these are columns
    gone = {
        w: None for w in ("rater", "weight", "key", "time", "at") if getattr(columns, w) == NONE
    }
    columns = replace(columns, **gone)  # type: ignore[arg-type]
    _check_shape(columns, row)
    return columns


def _check_shape(columns: TableColumns, row: Row) -> None:
    c = columns
    two = len(c.pair) == 2 or (len(c.pair) == 1 and bool(c.between))
    shaped = c.pairs or (
        (c.winner and (c.loser or two or len(c.pair) == 1))
        or (c.loser and two)
        or (two and (c.raters or c.wins))
        or c.ranks or c.ranking or c.matrix
        or (c.best and (c.worst or c.pair))
    )  # fmt: skip
    if not shaped:
        raise IncompleteMappingError(
            "say which columns hold the two items and who won: left=, right= and winner=, or "
            f"winner= and loser=; the file has: {listed(map(str, row), 40)}"
        )
    both = len(c.pair) == 2 and len(c.ranks) == 1 and c.between
    if c.ranks and c.pair and len(c.ranks) != len(c.pair) and not both:
        raise UsageError(f"there are {len(c.pair)} columns of items and {len(c.ranks)} of ranks")
    if c.ranks and bool(c.higher) == bool(c.lower):
        raise IncompleteMappingError(
            "say whether a column of ranks is better when it is lower (ranks, lower=better) or "
            "higher (scores, higher=better)"
        )
    if len(c.wins) > 2:
        raise UsageError(
            f"wins names {len(c.wins)} columns; expected two, one for each item, or that of the "
            "first item"
        )
    for said in c.values.values():
        known = said in (*OUTCOMES, _SKIP) or (c.best and said.isdigit())
        wrong = label_meaning(said) is not None or did_you_mean(said, (*OUTCOMES, _SKIP))
        if not known and wrong:
            raise UsageError(
                f"values maps to {said!r}; expected one of {', '.join((*OUTCOMES, _SKIP))}, or "
                "the name of an item"
            )


# -- the shapes


def _reader(columns: TableColumns, first: Row) -> _Answers:
    """What reads the rows of this shape."""
    shapes: tuple[tuple[object, Callable[[TableColumns, Row], _Answers]], ...] = (
        (columns.matrix, _matrix),
        (columns.ranking, _ranking),
        (columns.ranks, _ranks),
        (columns.best, _best),
        (columns.pairs, _named_pairs),
        (columns.wins, _wins),
        (columns.winner and columns.loser, _winner_loser),
        (True, _choices),
    )
    return next(make for said, make in shapes if said)(columns, first)


def _names(columns: Sequence[str], first: Row) -> list[Callable[[Row, RowPlace], str]]:
    return [_name_of(column, first) for column in columns]


def _name_of(column: str, first: Row) -> Callable[[Row, RowPlace], str]:
    """What finds the name of an item: in one column, or composed of several."""
    if lookup(first, column, _ABSENT) is not _ABSENT or "+" not in column:
        return lambda row, place: _name(row, column, place)
    parts = [part.strip() for part in column.split("+")]
    return lambda row, place: " ".join(_name(row, part, place) for part in parts)


def _name(row: Row, column: str, place: RowPlace) -> str:
    value = lookup(row, column)
    found = name_text(value).strip() if is_name(value) and not is_blank(value) else ""
    if not found:
        raise no_item(place, column, value)
    return found


def _two(columns: TableColumns, first: Row) -> Callable[[Row, RowPlace], tuple[str, str]]:
    """What finds the two items of a row."""
    if len(columns.pair) == 2:
        left, right = _names(columns.pair, first)
        return lambda row, place: (left(row, place), right(row, place))
    (column,), sign = columns.pair, columns.between

    def both(row: Row, place: RowPlace) -> tuple[str, str]:
        value = lookup(row, column)
        parts = value if isinstance(value, list) else str(value or "").split(sign or ",")
        found = [name_text(part).strip() for part in parts if is_name(part)]
        if len(found) != 2 or not all(found):
            raise broken_field(place, column, value, f"two items with {sign!r} between them")
        return found[0], found[1]

    return both


def _choices(columns: TableColumns, first: Row) -> _Answers:
    """Two items, and a choice by one rater or by several."""
    two = _two(columns, first)
    words = _words(columns)
    asked = list(columns.raters) or [columns.winner or columns.loser or ""]
    inverted = not columns.raters and columns.winner is None

    def answers(row: Row, place: RowPlace) -> Iterator[RowAnswer | Skipped]:
        left, right = two(row, place)
        if left == right:
            yield Skipped(str(place), AGAINST_ITSELF, left)
            return
        for column in asked:
            one = _choice(lookup(row, column), column, (left, right), words, columns, place)
            if isinstance(one, RowAnswer) and columns.raters:
                one = replace(one, part=f"/{column}", rater=column)
            if isinstance(one, RowAnswer) and inverted:
                (pair,) = one.pairs
                said = _OTHER_SIDE.get(pair.outcome, pair.outcome)
                one = replace(one, pairs=[replace(pair, outcome=said)])
            yield one

    return answers


_OTHER_SIDE: dict[Outcome, Outcome] = {"left": "right", "right": "left"}


def _choice(
    value: object,
    column: str,
    items: tuple[str, str],
    words: Mapping[str, Any],
    columns: TableColumns,
    place: RowPlace,
) -> RowAnswer | Skipped:
    """What a cell says of two items."""
    if columns.middle is not None and not is_nothing(value):
        at = number(value)
        if at is None:
            raise broken_field(place, column, value, "a number")
        side = (at > columns.middle) - (at < columns.middle)
        scale: tuple[Outcome, ...] = ("tie", "right", "left")
        return RowAnswer([Pair(*items, scale[side])])
    if not (is_name(value) and name_text(value).strip() in items and not columns.values):
        value = _canonical(value)
    known = _matched(words, value)
    if (named := known.get(str(value))) is not None and named not in (*OUTCOMES, _SKIP):
        # Another name of an item.
        value, known = named, {}
    told = bool(columns.values)
    said = outcome({column: value}, column, known, *items, place, told=told, tellable=True)
    if isinstance(said, Skipped):
        return said
    if cast("str", said) == _SKIP:
        return Skipped(str(place), "skipped by the values of winner", expected=True)
    return RowAnswer([Pair(*items, said)])


# The rows of a grid in a form: Which is better? [oak vs elm]
_ROW_OF_GRID = re.compile(r".*\[([^\[\]]+)\]\s*", re.DOTALL)


def pair_in_name(column: str, sign: str) -> list[str]:
    """The items in the name of a column, or in the brackets at its end."""
    inside = _ROW_OF_GRID.fullmatch(column)
    name = inside[1] if inside and sign in inside[1] else column
    return [part.strip() for part in name.split(sign)]


def _named_pairs(columns: TableColumns, first: Row) -> _Answers:  # noqa: ARG001 - one signature
    """Columns that are called by two items, and say which of them was chosen."""
    sign = columns.between or " vs "
    shown = {column: pair_in_name(column, sign) for column in columns.pairs}
    for column, names in shown.items():
        if len(names) != 2 or not all(names):
            raise UsageError(f"pairs names {column!r}; expected two items with {sign!r} between")
    words = {str(_canonical(word)): said for word, said in columns.values.items()}
    words = words or {word: word for word in OUTCOMES}

    def answers(row: Row, place: RowPlace) -> Iterator[RowAnswer | Skipped]:
        for column, (left, right) in shown.items():
            one = _choice(lookup(row, column), column, (left, right), words, columns, place)
            yield replace(one, part=f"/{column}") if isinstance(one, RowAnswer) else one

    return answers


def _words(columns: TableColumns) -> dict[str, Any]:
    if columns.values:
        return {str(_canonical(word)): said for word, said in columns.values.items()}
    sides = dict(zip(columns.pair, ("left", "right"), strict=False))
    return {word: word for word in OUTCOMES} | sides


def _canonical(value: object) -> object:
    """A value as text, the same for 1, 1.0 and "1.00"; None for an empty one."""
    if is_blank(value):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        value = value.strip()
    if (found := number(value)) is not None and len(str(value)) < 16:
        return f"{found:g}"
    return value


def _matched(words: Mapping[str, Outcome], value: object) -> Mapping[str, Outcome]:
    """The words, with the value among them where only its case is another."""
    if not isinstance(value, str) or value in words:
        return words
    same = {said for word, said in words.items() if word.casefold() == value.casefold()}
    return {**words, value: same.pop()} if len(same) == 1 else words


def _winner_loser(columns: TableColumns, first: Row) -> _Answers:
    winner, loser = _names((columns.winner or "", columns.loser or ""), first)

    def answers(row: Row, place: RowPlace) -> Iterator[RowAnswer | Skipped]:
        if is_nothing(lookup(row, columns.winner or "")) and "+" not in (columns.winner or ""):
            yield Skipped(str(place), "no winner recorded")
            return
        won, lost = winner(row, place), loser(row, place)
        if won == lost:
            yield Skipped(str(place), AGAINST_ITSELF, won)
            return
        # They stood on sides that were not recorded.
        yield RowAnswer([Pair(won, lost, "left", in_slate=True)])

    return answers


def _ranks(columns: TableColumns, first: Row) -> _Answers:
    """Items with ranks or scores, in columns or in lists; or one column an item."""
    higher = columns.higher is not None
    below = (columns.unranked or ("unknown" if columns.pair else "below")) == "below"
    names = _names(columns.pair, first)

    def answers(row: Row, place: RowPlace) -> Iterator[RowAnswer | Skipped]:
        given = [lookup(row, column) for column in columns.ranks]
        if len(given) == 1 and len(names) == 2 and not is_nothing(given[0]):
            # Both in one cell, such as 3:1.
            given = [part.strip() for part in str(given[0]).split(columns.between or ":")]
            if len(given) != 2:
                expected = f"two numbers with {columns.between!r} between them"
                raise broken_field(place, columns.ranks[0], lookup(row, columns.ranks[0]), expected)
        if len(given) == 1 and len(names) == 1 and isinstance(given[0], list):
            shown, given = _listed_names(row, columns.pair[0], place), given[0]
            if len(shown) != len(given):
                raise broken_field(place, columns.ranks[0], given, "as long as the list of items")
        else:
            shown = [name(row, place) for name in names] or list(columns.ranks)
        given = given if len(given) == len(shown) else [None] * len(shown)
        ranks: list[tuple[str, float]] = []
        unranked = []
        for i, (name, value) in enumerate(zip(shown, given, strict=True)):
            rank = rank_of(value, columns.ranks[i % len(columns.ranks)], place, higher=higher)
            if rank is None:
                unranked.append(name)
            else:
                ranks.append((name, rank))
        yield _ranked(ranks, unranked if below else [], columns, place, higher=higher)

    return answers


def _ranked(
    ranks: list[tuple[str, float]],
    unranked: list[str],
    columns: TableColumns,
    place: RowPlace,
    *,
    higher: bool = False,
) -> RowAnswer | Skipped:
    shown = [*(name for name, _ in ranks), *unranked]
    if not ranks:
        return Skipped(str(place), "no rank is given")
    if len(shown) < 2:
        return Skipped(str(place), "only one item is ranked")
    if len(set(shown)) < len(shown):
        return Skipped(str(place), AGAINST_ITSELF, next(n for n in shown if shown.count(n) > 1))
    return RowAnswer(ranked_pairs(ranks, unranked, columns.weights, higher=higher))


def _listed_names(row: Row, column: str, place: RowPlace) -> list[str]:
    value = lookup(row, column)
    if not isinstance(value, list) or not all(is_name(one) for one in value):
        raise broken_field(place, column, value, "a list of names")
    return [name_text(one).strip() for one in value]


def _ranking(columns: TableColumns, first: Row) -> _Answers:  # noqa: ARG001 - one signature
    """Names, best first, in several columns or in one."""

    def answers(row: Row, place: RowPlace) -> Iterator[RowAnswer | Skipped]:
        names = _names_by_rank(row, columns)
        others = [name for name in row.get(_ALL_NAMES, ()) if name not in names]
        if len(names) == 1 and not others:
            # A ballot that names one item says nothing about two.
            yield Skipped(str(place), "only one item is ranked", expected=True)
            return
        if not names and any(
            str(lookup(row, c)).strip() in columns.values for c in columns.ranking
        ):
            yield Skipped(str(place), "skipped by the values of ranking", expected=True)
            return
        yield _ranked([(name, i) for i, name in enumerate(names, 1)], others, columns, place)

    return answers


def _names_by_rank(row: Row, columns: TableColumns) -> list[str]:
    """The names of a ranking, best first."""
    values = [lookup(row, column) for column in columns.ranking]
    if len(values) == 1:
        (value,) = values
        sign = columns.between
        values = (
            value
            if isinstance(value, list)
            else (str(value or "").split(sign) if sign else _BETWEEN.split(str(value or "")))
        )
    names = [name_text(one).strip() for one in values if is_name(one) and not is_nothing(one)]
    return [name for name in names if columns.values.get(name) != _SKIP]


def _best(columns: TableColumns, first: Row) -> _Answers:  # noqa: ARG001 - one signature
    """The best, and perhaps the worst, of several items."""
    chosen = [column for column in (columns.best, columns.worst) if column]

    def answers(row: Row, place: RowPlace) -> Iterator[RowAnswer | Skipped]:
        shown = [name_text(v).strip() for c in columns.pair if is_name(v := lookup(row, c))]
        if len(columns.pair) == 1 and isinstance(lookup(row, columns.pair[0]), list):
            shown = _listed_names(row, columns.pair[0], place)
        if columns.group:
            said = [
                name
                for i, column in enumerate(chosen)
                for name, mark in zip(shown, lookup(row, column), strict=True)
                if str(_canonical(mark)).casefold() in _marks(columns, worst=i > 0)
            ]
            if len(said) != len(chosen):
                yield Skipped(str(place), "not one item of the answer is marked")
                return
            worst = said[1] if len(said) > 1 else None
            yield RowAnswer(best_worst_pairs(said[0], worst, shown, columns.weights))
            return
        if all(is_nothing(lookup(row, column)) for column in chosen):
            yield Skipped(str(place), "no winner recorded")
            return
        said = [_chosen(row, column, shown, columns, place) for column in chosen]
        # Some files list only those that were neither.
        shown += [name for name in said if name not in shown]
        # A placeholder, such as that of a removed text, may have been shown twice.
        different = list(dict.fromkeys(shown))
        if len(different) < len(shown) and len(set(said)) < len(said) == 2:
            yield Skipped(str(place), "the best is the worst as well", said[0], expected=True)
        elif len(set(said)) < len(said):
            yield Skipped(str(place), AGAINST_ITSELF, said[0])
        elif len(different) < 2:
            yield Skipped(str(place), "only one item was shown")
        else:
            worst = said[1] if len(said) > 1 else None
            pairs = best_worst_pairs(said[0], worst, different, columns.weights)
            yield RowAnswer(pairs, again=len(shown) - len(different))

    return answers


def _marks(columns: TableColumns, *, worst: bool) -> tuple[str, ...]:
    """How the item is marked that was chosen; where one column has both, the worst is -1."""
    return (
        ("-1", "worst") if worst and columns.worst == columns.best else ("1", "true", "yes", "best")
    )


def _chosen(
    row: Row, column: str, shown: Sequence[str], columns: TableColumns, place: RowPlace
) -> str:
    """The item that a column names, by its name or by its place among those shown."""
    value = lookup(row, column)
    word = str(_canonical(value)) if is_name(value) else ""
    place_of = columns.values.get(word)
    if place_of is None:
        return _name(row, column, place)
    if not 1 <= int(place_of) <= len(shown):
        raise broken_field(place, column, value, f"a place from 1 to {len(shown)}")
    return shown[int(place_of) - 1]


def _wins(columns: TableColumns, first: Row) -> _Answers:
    """How often each of two items won."""
    two = _two(columns, first)
    sides: tuple[Outcome, ...] = ("left", "right")
    counted_as = list(zip(columns.wins, sides, strict=False))
    if columns.ties:
        counted_as.append((columns.ties, "tie"))

    def answers(row: Row, place: RowPlace) -> Iterator[RowAnswer | Skipped]:
        left, right = two(row, place)
        if left == right:
            yield Skipped(str(place), AGAINST_ITSELF, left)
            return
        for column, said in counted_as:
            n = _times(lookup(row, column), column, place)
            for i in range(n):
                yield RowAnswer([Pair(left, right, said)], part=f"/{column}/{i}")

    return answers


def _times(value: object, column: str, place: RowPlace) -> int:
    if is_nothing(value) or value in _DASHES:
        return 0
    n = number({"true": 1, "false": 0}.get(str(value).lower(), value))
    if n is not None and not n.is_integer():
        raise FormatError(
            f"{column} is {n:g}, which is no number of wins",
            place.name,
            place.line,
            value,
            "shares of wins do not say how many answers they stand for; give the numbers of wins",
        )
    if n is None or not 0 <= n <= _MOST_VOTES:
        raise broken_field(place, column, value, f"a number of wins from 0 to {_MOST_VOTES:,}")
    return int(n)


def _matrix(columns: TableColumns, first: Row) -> _Answers:
    """A square table; its rows are called by a column of names, or like its columns in order."""
    cells = list(first)
    if len(cells) < 2:
        raise UsageError(f"matrix needs a column for each item; the file has: {listed(cells)}")
    start = first[cells[0]]
    labels = cells[0] if number(start) is None and not is_nothing(start) else None
    if number(cells[0]) is None and all(number(column) is not None for column in cells[1:]):
        # Items that are called by numbers.
        labels = cells[0]
    names = [column for column in cells if column != labels]
    seen = 0

    def answers(row: Row, place: RowPlace) -> Iterator[RowAnswer | Skipped]:
        nonlocal seen
        seen += 1
        if labels is None and seen > len(names):
            raise FormatError(
                f"the table has {len(names)} columns and more rows, so it is not square",
                place.name,
                place.line,
                remedy="a matrix has a row and a column for each item",
            )
        own = names[seen - 1] if labels is None else _name(row, labels, place)
        for other in names:
            if other == own:
                continue
            winner, loser = (own, other) if columns.matrix == "row" else (other, own)
            for i in range(_times(row.get(other), other, place)):
                yield RowAnswer([Pair(winner, loser, "left", in_slate=True)], f"/{other}/{i}")

    return answers
