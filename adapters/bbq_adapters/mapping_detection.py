"""How a file could be read, by evidence from its values; names of columns break ties.

Each shape of a mapping has a function that looks for it and gives readings with a score. Only what
leaves no question is certain, and is read without asking.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from bbq_adapters.column_profile import (
    SMALL,
    Coding,
    ColumnProfile,
    ProfiledTable,
    coding,
    list_cells,
    profiled,
    share,
    side_named,
)
from bbq_adapters.labels_and_item_names import (
    GROUPS,
    NO,
    NO_NAMES,
    PLACES,
    SKIPS,
    YES,
    families,
    is_check,
    is_topic,
    kept_rows,
    label_meaning,
    may_be_a_topic,
    rater_place,
    rater_word,
    tokens,
    word_set,
)
from bbq_adapters.row_values import is_nothing, number, ordinal, seconds_since_1970
from bbq_adapters.table import EACH, NONE
from bbq_plugin.data.mappings import Confidence, Inspection, Reading, Role, spelled
from bbq_plugin.data.records import OUTCOMES
from bbq_plugin.text import counted, listed
from bbq_plugin.text import share as percent

if TYPE_CHECKING:
    import io
    from collections.abc import Iterable, Iterator, Mapping, Sequence


# Orders in which things were shown, and plans; no rankings.
_PLANNED = word_set(
    "shown display displayed presentation presented session sessions visit day block trial period "
    "lane seat slot heat presentation counterbalance random randomized stimulus stimuli"
)

# Words of column names; of all of them only those of raters and of ranks decide anything alone.
_WON = word_set(
    "winner winners won win chosen preferred prefer selected better best gewinner sieger gagnant "
    "vainqueur ganador vencedor vincitore победитель 胜者 勝者 accepted favored favoured winning "
    "victor 胜方 승자"
)
_LOST = word_set(
    "loser losers lost rejected unchosen worse worst other dispreferred verlierer perdant perdedor "
    "perdente проигравший 败者 敗者 负者 opponent unpreferred discarded losing defeated "
    "beaten 负方 패자"
)
_LESS = _LOST | word_set("least disliked dislike eliminated removed odd schlechter peor pire")
_NOT = word_set("not non un nicht pas no")
_BEST = word_set("best most beste bester meilleur mejor migliore melhor max лучший")
_WORST = word_set("worst least schlechteste schlechtester pire peor peggiore pior min худший")
_CHOICE = word_set(
    "winner choice preference preferred vote answer outcome result selected selection response "
    "judgment judgement verdict decision chosen better label accepted human wahl auswahl antwort "
    "ergebnis choix reponse eleccion respuesta resultado preferencia scelta risposta won win "
    "preferencja выбор ответ pick picked rating score prefer vincitore gagnant ganador sieger "
    "wins resp gsb urteil entscheidung prefers pref "
    "overall ftr favourite favorite favorit liked 结果 选择 偏好 投票 判断 评价 結果 選択 결과 선택"
)
_TRAP = word_set(
    "true truth gold golden gt expected predicted prediction model side position order correct "
    "reference baseline length auto llm gpt sanity check attention first shown swap swapped flipped"
    " toss ht halftime serve server majority consensus"
)
# What was known or expected before, and so no answer of its own.
_EXPECTED = word_set(
    "pred predicted prediction predictions prob odds forecast expected gold golden gt truth correct"
)
_ANSWER = _WON | word_set("choice preference vote verdict decision judgment judgement outcome pick")
# Of a part of what was to be won.
_PARTLY = word_set("half period set quarter inning round map leg toss pole")
# Who is expected to win, where odds are given.
_FAVOURED = word_set("favorite favourite favored favoured")
# Columns that say something of two things together.
_ALIKE = word_set(
    "same duplicate similar similarity matching agree agreement related equal identical alike"
)
_AGREED = word_set("final gold golden majority consensus adjudicated adjudication agreed mean avg")
# Short for people, where the columns are counted.
_PEOPLE = word_set("ann anno annot human vote votes r j")
_ITEM = word_set(
    "model models system systems method item items candidate option team player name names "
    "condition generator engine variant codec algorithm stimulus repo file image video song essay "
    "script text title user entity product element alternative kandidat modell equipo jugador "
    "equipe verein mannschaft modele sistema systeme"
)
_RANK = word_set(
    "rank ranks ranking place position rang platz rango puesto posto classement rg pos"
)
_SCORE = word_set(
    "score scores goals goal points point pts gls runs rating ratings tore punkte puntos goles "
    "punti gol note result results "
    "mark marks grade likert mos quality"
)
_COUNT = word_set(
    "wins win won votes vote count counts n freq frequency times siege victories preferred"
)
_WINS = word_set("win wins won w victories")
_LOSSES = word_set("loss losses lost l defeats")
# How good an item was held to be before; above some hundreds it is no rating by people.
_STANDING = word_set("rating ratings points pts rank ranking")
_TIE = word_set("tie ties tied draw draws drawn equal")
_NO_SCORE = word_set(
    "elo old new before after pre post id number idx index length tokens time price cost prob "
    "probability date year seed"
)
_ORDERED = _RANK | word_set(
    "choice preference pref prioritat priority wahl choix opcion ranked ordering ordered sorted "
    "most favorite favourite favorites like liked preferred top best ballot ballots"
)
_MAIN = word_set(
    "main real comparison test trial experiment experimental true pairwise compare choice"
)
_WEIGHT = word_set("weight weights gewicht poids peso")
_ASKED_WEIGHT = word_set("multiplier score factor strength confidence")
_WHEN = word_set("timestamp date datetime created time tstamp submitted datum when at fecha")
_TOOK = word_set("rt duration took taken elapsed seconds latency lead")


@dataclass
class _Found:
    """A reading in the making."""

    shape: str
    options: dict[str, Any]
    score: float
    roles: list[Role] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    #: Nothing of it is a matter of opinion.
    explicit: bool = False
    #: Other ways to read the same columns: changed options, and what sets them apart.
    others: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    #: The columns that hold names of items.
    items: tuple[str, ...] = ()
    #: The doubts about what the values mean.
    of_codes: list[str] = field(default_factory=list)
    #: Why nothing of it is proposed, where the evidence does not decide.
    weak: str = ""
    #: The options that answer this.
    answers: tuple[str, ...] = ("winner", "raters")
    #: Only its values say that a column holds the choices, and not its name.
    unsaid: bool = False


# Two columns of a pair by name with a common vocabulary that comes again.
_SURE_ITEMS = 6.0
# What a reading needs to be proposed at all.
_ENOUGH = 4.0
_MOST_READINGS = 4
# Ranks of two items among those that were shown go no further.
_LAST_RANK = 12


def inspected(stream: io.BufferedReader, name: str, given: Mapping[str, Any]) -> Inspection:
    """What is in a file and how it could be read, in agreement with the options `given`."""
    table = profiled(stream, name, given)
    columns = tuple(one.column() for one in table)
    held = table.n_held < table.n_rows - table.n_ragged
    base = Inspection(name, table.format, table.n_rows, columns, sampled=held)
    if table.fault is not None and not table.columns:
        return replace(base, problem=str(table.fault))
    if not table.n_rows and table.format != "text":
        return replace(base, problem="there are no rows below the names of the columns")
    if table.n_ragged * 2 > table.n_rows or not table.columns:
        return replace(base, format="text", problem="this is text, and not a table with columns")
    found = _found(table, given)
    if not found or (found[0].weak and given.keys().isdisjoint(found[0].answers)):
        return replace(base, problem=found[0].weak if found else _why_nothing(table))
    readings = _readings(found, given)
    if not readings:
        problem = "no reading of this file agrees with the options that are given"
        return replace(base, problem=problem)
    return replace(base, readings=readings, problem=_question(readings[0]))


_ORDER = {"left": 0, "right": 1, "tie": 2, "both_bad": 3, "skip": 4}


def _in_order(values: Mapping[str, str]) -> dict[str, str]:
    """A coding in the order in which people read it."""
    return dict(sorted(values.items(), key=lambda one: (_ORDER.get(one[1], 5), one[0])))


def _found(table: ProfiledTable, given: Mapping[str, Any]) -> list[_Found]:
    """All readings, the likeliest first; of a list of answers in each row, all of them."""
    out = _found_in(table, given)
    one_of_many = [one for one in out if _LISTED.search(str(one.options.get("winner", "")))]
    if not table.nested or (out and out[0] not in one_of_many):
        return out
    inner: list[_Found] = []
    for name, part in table.nested.items():
        part.options = table.options
        for one in _found_in(part, given):
            if any(EACH in column for column in one.used):
                one.doubts.append(f"each entry of {name} is taken for an answer of its own")
                one.explicit = False
                inner.append(one)
    for one in one_of_many:
        one.weak = (
            f"{one.options['winner']} is one of several answers of the row; say which to read"
        )
    return sorted(inner, key=lambda one: -one.score) or out


# A column in an entry of a list.
_LISTED = re.compile(r"\.\d+\.")


def _found_in(table: ProfiledTable, given: Mapping[str, Any]) -> list[_Found]:
    """The readings of one table, the likeliest first, each with rater, times and rows."""
    out: list[_Found] = []
    for wanted, why in _row_filters(table, given):
        part = table.where(wanted)
        if not part.n_held:
            continue
        for one in _shapes(part, given):
            if one.used & part.further and "ranking" not in one.options:
                # Only ballots are uneven; in other rows a cell too many is a mistake.
                continue
            if wanted and "rows" not in given:
                one.options = {"rows": dict(wanted), **one.options}
                one.roles += [Role("rows", c, why) for c in wanted]
                one.explicit = False
                one.doubts.append(why)
                one.score += 1.5
            elif wanted:
                one.options["rows"] = given["rows"]
            one.options = {**part.options, **one.options}
            _add_details(one, part)
            _say_unused_winner(one, part)
            out.append(one)
    out = [one for one in out if one.score >= _ENOUGH]
    return sorted(out, key=lambda one: -one.score)


def _say_unused_winner(found: _Found, table: ProfiledTable) -> None:
    """Where scores are read, a column that is called the winner is named."""
    if not {"ranks", "wins"} & found.options.keys() or len(found.items) != 2:
        return
    names = {value for name in found.items for value in table[name].counts}
    for one in table:
        if {"winner", "won"} & set(one.words) and one.name not in found.used and one.counts:
            rows = [row for row in _cells(table, (one.name, *found.items)) if all(row)]
            if share(rows, lambda row: row[0] in names) > 0.5:
                inside = percent(share(rows, lambda row: row[0] in row[1:]))
                found.doubts.append(
                    f"{one.name} is not used: it names one of the two items in {inside} of the rows"
                )
                found.explicit = False


def _shapes(table: ProfiledTable, given: Mapping[str, Any]) -> Iterator[_Found]:
    """Every shape that the columns allow."""
    square = _matrix(table)
    if square is not None:
        yield square
        return
    yield from _candidate_columns(table)
    extremes = list(_best_worst(table))
    yield from extremes
    yield from _rankings(table)
    yield from _lists(table)
    yield from _pairs_as_columns(table)
    yield from _one_row_an_item(table)
    pairs = _item_pairs(table)
    if {"winner", "loser"} <= given.keys():
        yield from _said_winner_loser(table, given["winner"], given["loser"])
    elif not extremes:
        yield from _winner_loser(table)
    for pair in pairs[:3]:
        choices, numbers = list(_choices(table, pair)), list(_two_numbers(table, pair))
        _prefer_choice(choices, numbers, table, pair)
        yield from choices
        yield from _two_results(table, pair)
        yield from _annotators(table, pair, _listed(given.get("raters", ())))
        yield from numbers
    yield from _slates(table)


# -- items


@dataclass
class _Items:
    """Two columns that may hold the items, or one with both."""

    columns: tuple[str, ...]
    score: float
    why: str
    rows: list[tuple[str, str]]
    options: dict[str, Any]
    doubts: list[str] = field(default_factory=list)
    #: The columns that tell the sides, for words such as repo_a.
    sides: tuple[str, str] = ("", "")

    def roles(self) -> list[Role]:
        """Its columns as items, as surely as their names and values say."""
        sure: Confidence = "likely" if self.score >= _SURE_ITEMS / 2 else "possible"
        if self.score >= _SURE_ITEMS and not self.doubts:
            sure = "certain"
        return [Role("item", column, self.why, sure) for column in self.columns]


def _names_like(table: ProfiledTable) -> list[ColumnProfile]:
    """Columns that may hold names; decimals do where they are called so and come again."""
    versions = {name for pair in _decimals_named(table) for name in pair}
    return [
        one for one in table
        if one.is_names or one.name in versions
        or (one.numeric and not one.is_list and one.n >= 2 * one.n_distinct and _names_numbers(one))
    ]  # fmt: skip


def _decimals_named(table: ProfiledTable) -> Iterator[tuple[str, ...]]:
    """Two columns of decimals of which another column names one in each row: versions 1.0, 1.1."""
    numbers = [one for one in table if one.numeric and not one.whole and one.is_small]
    choices = [one for one in numbers if set(one.words) & (_WON | _CHOICE)]
    for pair in families(one.name for one in numbers):
        for one in choices if len(pair) == 2 else ():
            rows = [row for row in _cells(table, (one.name, *pair)) if all(row)]
            first = share(rows, lambda row: row[0] == row[1])
            if one.name not in pair and 0 < first < share(rows, lambda row: row[0] in row[1:]) == 1:
                yield pair


def _overlap(a: ColumnProfile, b: ColumnProfile) -> float:
    """The share of the smaller vocabulary that the other has too."""
    small, large = sorted((set(a.counts), set(b.counts)), key=len)
    return len(small & large) / len(small) if small else 0.0


def _pair_score(a: ColumnProfile, b: ColumnProfile, *, related: bool) -> tuple[float, str]:
    """How likely two columns hold the items of the same comparisons."""
    common = _overlap(a, b)
    names = a.n_distinct + b.n_distinct
    again = (a.n + b.n) / max(1, names)
    words = {*a.words, *b.words}
    called = words & {"id", "name", "number", "idx"}
    measures = words & (_RANK | _SCORE | _NO_SCORE | _WHEN | _TOOK) and not called
    score = 3 * common + 2.0 * related + (again >= 2) + (again >= 4) + bool(words & _ITEM)
    if a.numeric or b.numeric:
        # Numbers are names where they are called so, and else hardly ever.
        score -= 1.5 + 3 * bool(measures)
        score -= 0 if words & _ITEM else 1.5 if called else 2.5
    if words & {"prompt", "instruction", "question", "task", "path", "url", "reason"}:
        score -= 2
    if a.n_distinct == a.n and b.n_distinct == b.n and a.n > 20 and common < 0.2:
        score -= 3
    why = f"{percent(common)} of the names of one are in the other" if common else "a pair by name"
    return score, why


def _item_pairs(table: ProfiledTable) -> list[_Items]:
    """Pairs of columns that may hold the two items, the likeliest first."""
    found: list[_Items] = []
    columns = [
        one for one in _names_like(table)
        if not (one.is_constant and one.numeric) and not _is_yes_or_no(one)
    ]  # fmt: skip
    known = {one.name: one for one in columns}
    related = {pair for pair in families(known) if len(pair) == 2}
    family_of = {name: pair for pair in related for name in pair}
    for first, second in combinations(columns, 2):
        turned = (second.name, first.name) in related
        a, b = (second, first) if turned else (first, second)
        pair = (a.name, b.name)
        is_family = pair in related
        if not is_family and (
            _overlap(a, b) < 0.5
            or a.name in family_of
            or b.name in family_of
            or (a.numeric and not _names_numbers(a))
            or (b.numeric and not _names_numbers(b))
            or a.is_constant
            or b.is_constant
        ):
            continue
        if a.is_constant and b.is_constant and a.counts == b.counts:
            continue
        score, why = _pair_score(a, b, related=is_family)
        if (
            _is_outcome_like(a)
            and _is_outcome_like(b)
            and not ({*a.words} & _ITEM and {"3"} <= {*a.counts, *b.counts})
        ):
            continue
        sides = (a.name, b.name)
        cells = list(zip(a.values, b.values, strict=True))
        if not any(x and y for x, y in cells):
            continue
        found.append(_Items((a.name, b.name), score, why, cells, _sided(a.name, b.name), [], sides))
    found = [_composed(one, table, related) for one in found]
    found = [one for one in found if _is_sound(one, related)]
    if any(len(one.columns) == 2 and _is_plain(one, table) for one in found):
        # Where names stand in two columns, no others are made of four.
        found = [one for one in found if len(one.columns) == 2]
    for one in found:
        if (winner := _named_winner(one, table)) is not None:
            one.score += 3
            one.why = f"each value of {winner} is one of the two"
    found += _combined(table)
    found += _pointed_at(table)
    found = [one for one in found if one.score >= 2.5]
    _take_names(found)
    return sorted(found, key=lambda one: -one.score)


# What an item had or where it stood, where another column names it.
_MARKS = word_set("symbol symbols color colour colors mark piece stone sign side seat token")


def _take_names(found: list[_Items]) -> None:
    """Take names of items, and not the signs they played with; and ask."""
    words = {one.columns: {word for name in one.columns for word in tokens(name)} for one in found}
    marks = [one for one in found if words[one.columns] & _MARKS]
    names = [
        one for one in found if one not in marks and words[one.columns] & (_ITEM | {"agent", "bot"})
    ]
    if not names or not marks:
        return
    best = max(names, key=lambda one: one.score)
    found[:] = [one for one in found if one not in marks]
    unused = [name for one in marks for name in one.columns]
    best.doubts.append(
        f"{listed(best.columns, 2)} are taken for the items, not {listed(unused, 2)}"
    )


def _is_sound(items: _Items, related: Iterable[tuple[str, ...]]) -> bool:
    """Whether two columns that are not called alike hold different names in each row."""
    if items.columns[:2] in related or len(items.columns) != 2:
        return True
    return share((pair for pair in items.rows if all(pair)), lambda p: p[0] == p[1]) < 0.05


def _is_plain(items: _Items, table: ProfiledTable) -> bool:
    """Whether words that come again name two different items in each row."""
    columns = [table[name] for name in items.columns]
    return (
        items.score >= 4
        and not items.doubts
        and not any(one.numeric for one in columns)
        and sum(one.n_distinct for one in columns) > 4
    )


def _is_yes_or_no(one: ColumnProfile) -> bool:
    return {value.casefold() for value in one.counts} <= {"true", "false", "yes", "no"}


def _named_winner(items: _Items, table: ProfiledTable) -> str | None:
    """A column that names now the one and now the other item of the row."""
    if len(items.columns) != 2:
        return None
    left, right = (set(table[name].counts) for name in items.columns)
    if len(left | right) < 3:
        return None
    # Who tossed or served first is named in the same way.
    for one in sorted(table, key=lambda column: bool(set(column.words) & _TRAP)):
        if one.name in items.columns or one.is_constant or not set(one.counts) & left & right:
            continue
        rows = [(v, *p) for v, p in zip(one.values, items.rows, strict=True) if v and all(p)]
        named = share(rows, lambda row: row[0] in row[1:])
        first = share(rows, lambda row: row[0] == row[1])
        if len(rows) > 2 and named > 0.9 and 0 < first < named:
            return one.name
    return None


def _pointed_at(table: ProfiledTable) -> Iterator[_Items]:
    """Two columns whose own names are the values of a third: baseline, candidate."""
    known = {one.name.casefold(): one for one in _names_like(table)}
    for one in table:
        if not one.is_small or one.is_constant:
            continue
        meant = [known[value.casefold()] for value in one.counts if value.casefold() in known]
        if len(meant) != 2 or one in meant:
            continue
        order = list(table)
        a, b = sorted(meant, key=lambda column: [c.name for c in order].index(column.name))
        if families([a.name, b.name]):
            continue
        yield _Items(
            (a.name, b.name), 4.5, f"{one.name} names these columns",
            list(zip(a.values, b.values, strict=True)), _sided(a.name, b.name),
            sides=(a.name, b.name),
        )  # fmt: skip


def _names_numbers(one: ColumnProfile) -> bool:
    """Whether numbers can be names of items, by the name of their column."""
    words = set(one.words)
    return not one.is_small and bool(words & (_ITEM | _WON | _LOST)) and not words & _NO_SCORE


def _is_outcome_like(one: ColumnProfile) -> bool:
    """Whether its values are sides or ties, such as A and B."""
    if one.n_distinct > 4 or one.is_constant:
        return False
    meanings = [label_meaning(value) for value in one.counts]
    return None not in meanings or all(value in ("0", "1", "2", "-1") for value in one.counts)


def _sided(left: str, right: str) -> dict[str, Any]:
    return {"left": left, "right": right}


def _composed(items: _Items, table: ProfiledTable, related: Iterable[tuple[str, ...]]) -> _Items:
    """The same with a second pair of columns that sets equal names apart."""
    same = share((pair for pair in items.rows if all(pair)), lambda pair: pair[0] == pair[1])
    if same < 0.05:
        return items
    left, right = (table[name] for name in items.columns)
    best: tuple[float, tuple[str, ...]] | None = None
    for pair in related:
        if pair == items.columns or any(table[name].is_constant for name in pair):
            continue
        if any(table[name].n_distinct > 40 or _is_measured(table[name]) for name in pair):
            continue
        cells = zip(
            left.values, table[pair[0]].values, right.values, table[pair[1]].values, strict=True
        )
        still = share(cells, lambda row: (row[0], row[1]) == (row[2], row[3]))
        words = {*table[pair[0]].words}
        if (
            still < same / 3
            and not words & (_RANK | _SCORE | _COUNT)
            and (best is None or still < best[0])
        ):
            best = still, pair
    if best is None:
        items.doubts.append(
            f"{percent(same)} of the rows compare an item with itself: names may span two columns"
        )
        items.score -= 4 if same > 0.2 else 0
        return items
    second = best[1]
    parts = [(items.columns[i], second[i]) for i in (0, 1)]
    names = [
        [
            " ".join(both) if all(both) else ""
            for both in zip(table[a].values, table[b].values, strict=True)
        ]
        for a, b in parts
    ]
    return replace(
        items,
        columns=(*items.columns, *second),
        rows=list(zip(names[0], names[1], strict=True)),
        options={"items": tuple("+".join(part) for part in parts)},
        why=f"{items.columns[0]} alone is often the same on both sides",
        score=items.score + 1,
        doubts=["the names are composed of two columns"],
    )


def _is_measured(one: ColumnProfile) -> bool:
    """Whether numbers hardly come again, as counts and times do: no part of a name."""
    return one.numeric and 2 * one.n_distinct > one.n


_VERSUS = (" vs. ", " vs ", "_vs_", "-vs-", " VS ", " v ", " or ")
_BETWEEN = (
    *_VERSUS,
    "|",
    ";",
    ",",
    "/",
    " - ",
    ":",
    "_",
    "-",
)


def _combined(table: ProfiledTable) -> Iterator[_Items]:
    """One column with both items, such as `a_b`."""
    for one in table:
        if one.is_list:
            cells = [list_cells(value) for value in one.values if value]
            if cells and share(cells, lambda cell: len(cell) == 2) == 1 and _is_pair(cells):
                rows = [_both(list_cells(value) if value else []) for value in one.values]
                yield _Items((one.name,), 4.0, "a list of two names", rows, {"items": (one.name,)})
            continue
        if not one.is_names or one.numeric or one.is_constant or one.n_distinct * 2 > one.n:
            continue
        values = list(one.counts)
        for sign in _BETWEEN:
            cells = [value.split(sign) for value in values]
            if any(len(cell) != 2 or not all(map(str.strip, cell)) for cell in cells):
                continue
            if all(part.strip().isdigit() for cell in cells for part in cell):
                # 2-1, 3/9: scores and pages
                break
            if _is_pair(cells):
                rows = [_both(value.split(sign)) for value in one.values]
                options = {"items": (one.name,), "between": sign}
                yield _Items(
                    (one.name,), 3.5, f"two names with {sign!r} between them", rows, options,
                    [f"{one.name} is split at {sign!r} into the first and the second item"],
                )  # fmt: skip
            break


def _both(cell: Sequence[str]) -> tuple[str, str]:
    return (cell[0].strip(), cell[1].strip()) if len(cell) == 2 else ("", "")


def _is_pair(cells: Sequence[Sequence[str]]) -> bool:
    """Whether the two parts share a vocabulary that is smaller than that of the wholes."""
    first, second = ({cell[i].strip() for cell in cells} for i in (0, 1))
    common = len(first & second)
    return common >= 1 and common * 3 >= min(len(first), len(second)) and len(first | second) > 2


# -- who won


def _of_each_column(table: ProfiledTable, items: _Items) -> tuple[list[_Found], list[_Found]]:
    """The readings of all columns that may say who won, and of those that say who lost."""
    found: list[_Found] = []
    losers: list[_Found] = []
    for one in _choice_columns(table, items):
        reading = _by_item_names(items, one)
        if reading is None and (reading := _by_codes(table, items, one)) is not None:
            _ask_of_swap(reading, table)
        reading = reading or _by_scale(items, one)
        if reading is None or _is_marked(table, one) or _is_abx(table):
            continue
        if set(one.words) & _LESS and not set(one.words) & _NOT:
            losers.append(_of_loser(reading, one))
        else:
            found.append(reading)
    return found, losers


def _choices(table: ProfiledTable, items: _Items) -> Iterator[_Found]:
    """Two items and a column that says who won."""
    found, losers = _of_each_column(table, items)
    found = _without_guesses(found, table, items)
    if not found:
        # Who lost is said only where nothing says who won.
        yield from losers[:1]
    said = [_outcomes(one, table, items) for one in found]
    for reading, full in zip(found, said, strict=True):
        for other, gappy in zip(found, said, strict=True):
            if _fills(full, gappy):
                other.score = min(other.score, reading.score - 2)
    # Of equals the one that is called the winner, before a favourite.
    found.sort(
        key=lambda reading: (
            -reading.score - 2 * ("overall" in tokens(reading.options["winner"])),
            "winner" not in tokens(reading.options["winner"]),
        )
    )
    # A column that says the same as a better one adds nothing.
    kept = {tuple(_outcomes(one, table, items)): one for one in reversed(found)}
    found = [one for one in found if one in kept.values() or not _says_choice(one)]
    kinds = {_kind_of_values(one) for one in found if not _says_choice(one)}
    if len(found) > 1 == len(kinds) and not any(map(_says_choice, found)):
        columns = [one.options["winner"] for one in found]
        found[0].weak = (
            f"{listed(columns, 6)} have the same values: they may be the choices of several raters "
            f"(-O {shlex.quote('raters=' + spelled(columns))}) or the answers to several questions "
            f"(-O {shlex.quote('winner=' + columns[0])}); say which"
        )
    if found and (twice := _listed_twice(table, items)):
        found[0].weak = (
            f"each comparison stands twice, once from each side, with the same {twice}: "
            f"keep one row of each {twice}"
        )
    if found and (counts := _counted_beside(found[0], table, items)):
        found[0].weak = (
            f"{listed(counts, 2)} count the answers of a row, and {found[0].options['winner']} "
            f"says only which are more; count them with -O {shlex.quote('wins=' + spelled(counts))}"
        )
    near = [one.options["winner"] for one in found[1:] if one.score > found[0].score - 1.5]
    rival = _rival(found, table, items)
    if rival is not None:
        both = found[0].options["winner"], rival
        found[0].weak = found[0].weak or (
            f"{both[0]} and {both[1]} both may say who won, and often not the same: say which with "
            f"-O {shlex.quote('winner=' + both[0])} or -O {shlex.quote('winner=' + both[1])}"
        )
    elif near:
        found[0].doubts.append(f"{listed(near, 6)} could be the column of choices as well")
        found[0].explicit = False
    elif found and (same := _same_codes(found[0], table, items)):
        found[0].doubts.append(
            f"{listed(same, 6)} {'have' if len(same) > 1 else 'has'} the same values as "
            f"{found[0].options['winner']}: the answers to another question are not read"
        )
        found[0].explicit = False
    yield from found[:3]


def _kind_of_values(one: _Found) -> frozenset[tuple[str, str]]:
    """What the values of a column of choices mean; nothing where they are names of items."""
    values: Mapping[str, str] = one.options.get("values", {})
    is_coded = {"left", "right"} & {*values.values()}
    return frozenset(values.items()) if is_coded else frozenset()


def _rival(found: Sequence[_Found], table: ProfiledTable, items: _Items) -> str | None:
    """Another column that is called a choice as well, names who won in most rows and differs."""
    first = tokens(found[0].options["winner"]) if found else []
    for one in found[1:] if "overall" not in first else ():
        words = set(tokens(one.options["winner"]))
        if not words & _ANSWER or words & (_TRAP | _PARTLY | _NOT | _LESS):
            continue
        if set(first) < words and "human" not in words:
            # winner before winner_style
            continue
        both = zip(_outcomes(found[0], table, items), _outcomes(one, table, items), strict=True)
        rows = list(both)
        said = [pair for pair in rows if all(pair)]
        if len(said) > 0.5 * len(rows) and share(said, lambda pair: pair[0] == pair[1]) < 0.98:
            return str(one.options["winner"])
    return None


def _counted_beside(one: _Found, table: ProfiledTable, items: _Items) -> tuple[str, ...] | None:
    """Two columns of counts of which the larger one won in each row."""
    said = _outcomes(one, table, items)
    for pair in families([column.name for column in table if column.whole]):
        if len(pair) != 2 or any(table[n].beside != "count" for n in pair):
            continue
        rows = zip(_cells(table, _in_file_order(table, items, pair)), said, strict=True)
        counts = [(number(a), number(b), who) for (a, b), who in rows]
        uneven = [
            (a > b, who) for a, b, who in counts if a is not None and b is not None and a != b
        ]
        if share(uneven, lambda row: row[1] == ("left" if row[0] else "right")) > 0.95:
            return pair
    return None


def _of_loser(found: _Found, one: ColumnProfile) -> _Found:
    """The reading of a column that says who lost."""
    found.options["loser"] = found.options.pop("winner")
    found.doubts.append(f"{one.name} is taken for the one that lost")
    found.explicit = False
    return found


def _listed_twice(table: ProfiledTable, items: _Items) -> str | None:
    """The column by whose values each pair comes twice, the other way round."""
    for one in table:
        if (
            one.name in items.columns
            or one.n != 2 * one.n_distinct
            or set(one.counts.values()) != {2}
        ):
            continue
        first: dict[str, tuple[str, str]] = {}
        back = [
            pair == first[value][::-1]
            for value, pair in zip(one.values, items.rows, strict=True)
            if value and (value in first or first.update({value: pair}))
        ]
        if back and share(back, bool) > 0.95:
            return one.name
    return None


def _same_codes(one: _Found, table: ProfiledTable, items: _Items) -> list[str]:
    """Other columns that may be answers to another question: with the same words or codes."""
    choice = table[one.options["winner"]]
    values = set(choice.counts)
    if "values" not in one.options and not values <= {*OUTCOMES}:
        return []
    return [
        other.name
        for other in table
        if other.name not in one.used
        and set(other.counts) <= values
        and len(other.counts) > 1
        and other.values != choice.values
        and not _is_opposite(other, one, table)
        and not set(other.words) & (_EXPECTED | _ALIKE)
        and other.words[-1:] != ["ba"]
        and not _is_given_by_items(items, other)
    ]


def _choice_columns(table: ProfiledTable, items: _Items) -> Iterator[ColumnProfile]:
    """Columns that may say who won."""
    numbers = {name for pair in _number_pairs(table) for name in pair}
    odds = any(set(one.words) & _EXPECTED and one.numeric for one in table)
    for one in table:
        if one.name in items.columns or one.is_list or not one.counts:
            continue
        if one.name in numbers or (one.is_text and not one.is_names):
            continue
        # Beside winner_ab, winner_ba holds what was said with the sides swapped.
        swapped = one.words[-1:] == ["ba"]
        expected = set(one.words) & (_EXPECTED | _ALIKE) or (odds and set(one.words) & _FAVOURED)
        if _names_marks(one, items, table):
            continue
        # A flag for ties says nothing of who won.
        tie = set(one.words) & _TIE and (_is_yes_or_no(one) or set(one.counts) <= {"0", "1"})
        if not (swapped or expected or tie or (one.is_constant and one.n > 3)):
            yield one


def _names_marks(one: ColumnProfile, items: _Items, table: ProfiledTable) -> bool:
    """Whether its values are signs that other columns give to the items: X, O."""
    if not set(one.words) & _MARKS or {w for name in items.columns for w in tokens(name)} & _MARKS:
        return False
    pairs = [pair for pair in families(table.columns) if set(tokens(pair[0])) & _MARKS]
    return any(set(one.counts) & set(table[pair[0]].counts) for pair in pairs)


_RIGHT = word_set("correct accuracy acc corr hit accurate right")


def _ask_of_swap(found: _Found, table: ProfiledTable) -> None:
    """Where the two were shown now here and now there, a side may be that shown."""
    for one in table:
        is_read = one.name in found.used or _is_opposite(one, found, table)
        if is_read or not _tells_places(one, found, table):
            continue
        choice = found.options.get("winner") or found.options.get("wins", ("the choice",))[0]
        found.explicit = False
        codes = {*found.options.get("values", OUTCOMES)} - PLACES
        if "wins" in found.options or codes & table.columns.keys():
            # winner_model_a, model_a: the items of these columns are meant, wherever they stood
            found.doubts.append(
                f"{one.name} says where the two were shown: {choice} is taken for the item of that "
                "column, and not for the side that was shown"
            )
            return
        found.weak = (
            f"{one.name} says where the two of a row were shown: {choice} may be the side that was "
            f"shown, or the item of that column; if it is the side, write the item that was chosen "
            f"into {choice}, and if it is the item, drop {one.name}"
        )
        found.answers = ()
        return


def _is_opposite(one: ColumnProfile, found: _Found, table: ProfiledTable) -> bool:
    """Whether it says yes where the column of choices says no: the mark of the other item."""
    name = found.options.get("winner", one.name)
    return one.name != name and _is_one_or_other(table, (name, one.name))


def _tells_places(one: ColumnProfile, found: _Found, table: ProfiledTable) -> bool:
    """Whether a column says where the two of a row were shown, in words or by naming one."""
    if one.beside == "shown":
        # left_model and right_model say it too.
        told = {word for column in found.items for word in tokens(column)} >= {"left", "right"}
        cells = _cells(table, (*found.items, one.name))
        return not told or len({*cells}) > len({row[:-1] for row in cells})
    if not set(one.words) & PLACES or set(one.words) & _CHOICE or one.is_constant:
        return False
    rows = [row for row in _cells(table, (one.name, *found.items)) if all(row)]
    return share(rows, lambda row: row[0] in row[1:]) > 0.95


def _number_pairs(table: ProfiledTable) -> list[tuple[str, ...]]:
    """Pairs of columns with a number or a mark for each item, such as k1 and k2: no choices."""
    numeric = [
        one.name for one in table
        if one.counts and (_is_yes_or_no(one) or one.numeric)
    ]  # fmt: skip
    found = []
    for family in families(numeric):
        words = {word for name in family for word in tokens(name)}
        yes_or_no = _is_yes_or_no(table[family[0]])
        is_choice = len(family) == 2 and _is_one_or_other(table, family)
        if words & (_RANK | _SCORE | _COUNT):
            is_choice = is_choice and yes_or_no
        else:
            is_choice = is_choice or len(family) != 2 or bool(words & _CHOICE and not yes_or_no)
        if words and not is_choice:
            found.append(family)
    return found


def _is_one_or_other(table: ProfiledTable, pair: Sequence[str]) -> bool:
    """Whether in each row exactly one of several columns is marked, which is a choice."""
    if not all({value.casefold() for value in table[name].counts} <= YES | NO for name in pair):
        return False
    rows = [[cell.casefold() in YES for cell in row] for row in _cells(table, pair) if all(row)]
    small = all(table[name].n_distinct == 2 for name in pair)
    return small and len(pair) > 1 and bool(rows) and all(sum(row) == 1 for row in rows)


def _two_results(table: ProfiledTable, items: _Items) -> Iterator[_Found]:
    """A word for how the game ended for each item, of which only one is a win: chess.com."""
    words = [
        one.name for one in table if one.is_small and not one.numeric and "result" in one.words
    ]
    for pair in families(words):
        if len(pair) != 2 or items.columns == pair or len(items.columns) != 2:
            continue
        first, second = (table[name] for name in _in_file_order(table, items, pair))
        rows = [(a, b) for a, b in zip(first.values, second.values, strict=True) if a and b]
        won = [value for value in first.counts if value.casefold() in ("win", "won", "w")]
        if len(won) != 1 or any(a == b == won[0] for a, b in rows):
            continue
        meaning = {won[0]: "left"}
        for value in first.counts.keys() - {*won}:
            against = {b == won[0] for a, b in rows if a == value}
            if len(against) == 1:
                meaning[value] = "right" if against.pop() else "tie"
        if len(meaning) < first.n_distinct:
            continue
        found = _choice_reading(items, first, f"a win where {second.name} is none", 5.0)
        found.options["values"] = meaning
        found.used.add(second.name)
        found.doubts.append(f"where neither {first.name} nor {second.name} is a win, it is a tie")
        yield found


def _without_guesses(found: list[_Found], table: ProfiledTable, items: _Items) -> list[_Found]:
    """Readings whose column of choices is called so; another only where no other one is left."""
    unsaid = [one for one in found if one.unsaid]
    said = [one for one in found if one not in unsaid]
    if said or not unsaid:
        return said
    if len(unsaid) > 1:
        # Several of the same codes are asked about.
        codings = {frozenset(one.options.get("values", {}).items()) for one in unsaid}
        return unsaid if len(codings) == 1 else []
    column = table[unsaid[0].options["winner"]]
    others = [
        other.name
        for other in table
        if other.name not in items.columns
        and other is not column
        and other.counts
        and not (other.is_constant or other.is_text or other.is_list)
        and not (rater_word(other.name) or set(other.words) & (_WHEN | _TOOK))
        and other.n > other.n_distinct
    ]
    # 1 and 2 are places; 0 and 1, yes and no may say anything, such as that two are alike.
    vague = _is_yes_or_no(column) or (column.numeric and (others or column.low < 1))
    return [] if vague else unsaid


def _outcomes(one: _Found, table: ProfiledTable, items: _Items) -> list[str | None]:
    """What a column of choices says in each row; None where it is empty."""
    values: Mapping[str, str] = one.options.get("values", {})

    def outcome(value: str, pair: tuple[str, str]) -> str | None:
        if not value:
            return None
        sides = dict(zip(reversed(pair), ("right", "left"), strict=True))
        return values.get(value) or sides.get(value) or value

    cells = table[one.options["winner"]].values
    return [outcome(value, pair) for value, pair in zip(cells, items.rows, strict=True)]


def _fills(full: list[str | None], gappy: list[str | None]) -> bool:
    """Whether a column says the same as another, and something where that one is empty: ties."""
    both = list(zip(full, gappy, strict=True))
    gaps = [said for said, other in both if other is None]
    agreed = share((pair for pair in both if all(pair)), lambda pair: pair[0] == pair[1])
    return len(gaps) * 100 > len(both) and share(gaps, bool) > 0.9 and agreed > 0.95


def _prefer_choice(
    choices: Iterable[_Found], numbers: Iterable[_Found], table: ProfiledTable, items: _Items
) -> None:
    """Put who won before the scores that say the same: only it knows of games that do not count."""
    for scores in numbers:
        pair = scores.options.get("ranks", ())
        if len(pair) != 2:
            continue
        cells = _cells(table, pair)
        margins = [(number(a) or 0.0) - (number(b) or 0.0) for a, b in cells]
        for choice in filter(_says_choice, choices):
            said = zip(_outcomes(choice, table, items), margins, strict=True)
            uneven = [(who, gap) for who, gap in said if gap and who in ("left", "right")]
            same = share(uneven, lambda row: row[0] == ("left" if row[1] > 0 else "right"))
            named = "values" in choice.options and {"winner", "won"} & {
                *tokens(choice.options["winner"])
            }
            if same > 0.95 or (uneven and named):
                choice.score = max(choice.score, scores.score + 0.5)
                choice.used |= {*pair}
                if same <= 0.95:
                    choice.doubts.append(
                        f"{choice.options['winner']} says otherwise than {pair[0]} and {pair[1]} "
                        f"in {percent(1 - same)} of the rows: the scores are not read"
                    )
                    choice.explicit = False


def _says_choice(one: _Found) -> bool:
    """Whether the name of the column of choices says that it is one."""
    return bool(set(tokens(one.options["winner"])) & _CHOICE)


def _outcome_words(one: ColumnProfile) -> float:
    words = set(one.words)
    return 2.0 * bool(words & _CHOICE) - 2.0 * bool(words & _TRAP)


def _by_item_names(items: _Items, one: ColumnProfile) -> _Found | None:
    """The column holds the name of the item that won."""
    cells = [(v, a, b) for v, (a, b) in zip(one.values, items.rows, strict=True) if v and a and b]
    short = _short_names(cells) if set(one.words) & (_CHOICE | _WON) else {}
    cells = [(short.get(v, v), a, b) for v, a, b in cells]
    named = [row for row in cells if row[0] in row[1:]]
    if len(named) < 2 or len(named) < 0.3 * len(cells):
        return None
    others = Counter(v for v, a, b in cells if v not in (a, b))
    known = {name for pair in items.rows for name in pair}
    neither = [value for value in others if _third_value(value) is None and value != "=="]
    stray = bool(neither) and bool(set(one.words) & _WON) and len(named) >= 0.9 * len(cells)
    meaning = dict(short)
    doubts = [f"{value!r} is taken for {name!r}" for value, name in list(short.items())[:3]]
    for value in others:
        said = "tie" if value in ("=", "==") else label_meaning(value)
        if value in ("=", "=="):
            doubts.append(f"{value!r} is taken for a tie")
        if not isinstance(said, str):
            skip = " ".join(tokens(value)) in SKIPS
            if not stray and (not skip or len(others) > SMALL):
                return None
            said = "skip"
            doubts.append(
                f"{value!r} is taken for no answer"
                if skip
                else f"{value!r} ({counted(others[value], 'row')}) names neither item: left out"
            )
        meaning[value] = said
    if (
        share(named, lambda row: row[0] == row[1]) in (0.0, 1.0)
        and len(named) > 20
        and (not set(one.words) & _WON)
    ):
        # The name of one side again, not of the winner.
        return None
    if _is_given_by_items(items, one):
        return None
    why = f"its values are names of the two items of the row ({percent(len(named) / len(cells))})"
    found = _choice_reading(items, one, why, 5.0 + _outcome_words(one))
    # Most rows say nothing here, such as games without a shootout.
    found.score -= 4 * (one.n_empty / max(1, len(one.values)) > 0.5)
    if meaning:
        found.options["values"] = meaning
    found.doubts += doubts
    found.explicit = not doubts and bool(set(one.words) & _CHOICE) and not found.doubts
    if set(one.words) & _CHOICE and not doubts:
        found.roles[-1] = replace(found.roles[-1], sure="certain")
    if stray and (len(neither) > _MOST_STRAYS or known & {*neither} or not _can_be_typed(neither)):
        # One that is an item elsewhere, or many: no list of values to leave out.
        del found.options["values"]
        found.doubts = list(items.doubts)
        found.weak = (
            f"{one.name} names neither of the two items in {sum(others[v] for v in neither):,} of "
            f"{counted(len(cells), 'row')} ({listed(map(repr, neither), 3)}): correct these cells, "
            f"or add -O {shlex.quote('winner=' + one.name)} with --max-skipped to leave them out"
        )
        found.answers = ("winner",)
    return found


# So many values that name neither item are listed in a command.
_MOST_STRAYS = 8


def _can_be_typed(words: Iterable[str]) -> bool:
    """Whether the command line, which parts words with commas and equals signs, can hold them."""
    return not any(sign in word for word in words for sign in ",=")


def _short_names(cells: Sequence[tuple[str, str, str]]) -> dict[str, str]:
    """Values that are a part of the name of just one of the two items of each row, and its name."""
    found: dict[str, str] = {}
    for value, *pair in cells:
        words = tokens(value)
        if value in pair or not words or isinstance(label_meaning(value), str) or len(value) < 3:
            continue
        meant = [name for name in pair if words == tokens(name)[: len(words)]]
        if len(meant) != 1 or found.setdefault(value, meant[0]) != meant[0]:
            return {}
    typed = _can_be_typed(text for pair in found.items() for text in pair)
    return found if typed and len(set(found.values())) == len(found) else {}


def _choice_reading(items: _Items, one: ColumnProfile, why: str, score: float) -> _Found:
    roles = [*items.roles(), Role("outcome", one.name, why)]
    return _Found(
        "two items and who won",
        {**items.options, "winner": one.name},
        score + items.score / 2,
        roles,
        list(items.doubts),
        used={*items.columns, one.name},
        items=items.columns,
    )


def _is_marked(table: ProfiledTable, one: ColumnProfile) -> bool:
    """Whether another column says if this answer is the right one: a test, and no preference."""
    for other in table:
        if other is one or set(other.counts) != set(one.counts) or other.values == one.values:
            continue
        same = [a == b for a, b in zip(one.values, other.values, strict=True)]
        for flag in table:
            said = [value.casefold() in YES for value in flag.values]
            if flag.n_distinct == 2 and set(flag.words) & _RIGHT and said == same:
                return True
    return False


def _is_abx(table: ProfiledTable) -> bool:
    """Whether one is asked if X is A or B, which is no preference."""
    return {"a", "b", "x"} <= {name.casefold() for name in table.columns}


def _by_codes(table: ProfiledTable, items: _Items, one: ColumnProfile) -> _Found | None:
    """The column holds words or codes for the sides."""
    if not one.is_small:
        return None
    sides = items.sides if len(items.columns) == 2 else ("", "")
    found = coding(one, sides, _first_number(table, one.name), mixed=_are_mixed(items))
    if found is None or _is_given_by_items(items, one):
        return None
    shown = ", ".join(f"{value}={said}" for value, said in found.values.items())
    why = f"few values, which say who won: {shown}"
    known = {"left", "right"} <= set(found.values.values())
    named = bool(set(one.words) & _CHOICE) or side_named(one, items.sides) is not None
    named = named or _is_unnamed([one])
    if not named:
        found.doubts.append(f"only its values say that {one.name} is the column of choices")
    score = (3.5 if found.explicit else 1.5) + _outcome_words(one) - (0 if known else 1.5)
    score -= 2 * (one.n_empty / max(1, len(one.values)) > 0.5)
    # left and right of left_system and right_system, beside system_1 and system_2
    score += 1.5 * found.sided
    reading = _choice_reading(items, one, why, score)
    if not (named or found.sided):
        reading.unsaid = True
    sure: Confidence = "possible" if reading.unsaid or found.others else "likely"
    if found.explicit and named and not found.doubts:
        sure = "certain"
    reading.roles[-1] = replace(reading.roles[-1], sure=sure)
    reading.doubts += found.doubts
    reading.of_codes = found.doubts
    usual = found.explicit and all(value == said for value, said in found.values.items())
    if not usual:
        reading.options["values"] = found.values
    reading.explicit = found.explicit and not reading.doubts and bool(set(one.words) & _CHOICE)
    reading.others = [({"values": other}, difference) for other, difference in found.others]
    _ask_of_codes(reading, one.name, found)
    return reading


_SCALE = word_set("slider vas scale preference pref")
# The ends of scales, and what stands in the middle.
_SCALES = ((0, 100, 50), (-100, 100, 0), (-50, 50, 0), (0, 1, 0.5), (-1, 1, 0))


def _by_scale(items: _Items, one: ColumnProfile) -> _Found | None:
    """The column holds a place on a scale from one item to the other."""
    if not (one.numeric and set(one.words) & _SCALE) or one.is_small:
        return None
    fits = [scale for scale in _SCALES if scale[0] <= one.low and one.high <= scale[1]]
    # The narrowest of which both halves are used.
    fits = [scale for scale in fits if one.low < scale[2] < one.high]
    if not fits:
        return None
    low, high, middle = min(fits, key=lambda scale: (scale[1] - scale[0], -scale[0]))
    found = _choice_reading(items, one, f"a scale from {low} to {high}", 3.0)
    found.options["middle"] = middle
    found.doubts.append(f"below {middle:g} is taken for {items.columns[0]}, above it for the other")
    if not {"left", "right"} <= {word for side in items.sides for word in tokens(side)}:
        found.weak = (
            f"{one.name} may be a scale from one item to the other, but nothing says which is at "
            f"{low}; name the columns as -O left=… and -O right=…, with -O middle={middle:g}"
        )
        found.answers = ("middle",)
    return found


def _ask_of_codes(reading: _Found, column: str, found: Coding) -> None:
    """Where codes may as well mean something else, nothing is proposed before they are said."""
    if not found.open:
        return
    ways = [found.values, *(other for other, _ in found.others)]
    said = " or ".join(f"-O values={spelled(_in_order(way))}" for way in ways)
    reading.weak = (
        f"{column} may say who won, but nothing says what {listed(sorted(found.values), 8)} mean "
        f"there; say it with {said}"
    )
    reading.answers = ("values",)


def _are_mixed(items: _Items) -> bool:
    """Whether each item stands on the left about as often as on the right."""
    pairs = [pair for pair in items.rows if all(pair)]
    more = Counter(left for left, _ in pairs)
    more.subtract(right for _, right in pairs)
    return sum(map(abs, more.values())) < 0.6 * len(pairs)


# What is shown of an item.
_SHOWN = word_set(
    "response answer output completion summary translation generation result sys reply continuation"
)


def _first_number(table: ProfiledTable, choice: str = "") -> int | None:
    """The number from which columns count two things, as in model_1 and model_2."""
    if {"trial_type", "rt"} <= table.columns.keys():
        # jsPsych numbers its buttons from 0.
        return 0
    numbers = [
        {word for word in tokens(pair[-1]) if word in ("1", "2")}
        for pair in families(table.columns)
        if len(pair) == 2 and choice not in pair and set(tokens(pair[0])) & (_ITEM | _SHOWN)
    ]
    found = {int(word) - 1 for words in numbers for word in words if len(words) == 1}
    return found.pop() if len(found) == 1 else None


def _is_given_by_items(items: _Items, one: ColumnProfile) -> bool:
    """Whether the items alone decide the value, so that it is no answer about them."""
    by_pair: dict[tuple[str, str], set[str]] = {}
    n: Counter[tuple[str, str]] = Counter()
    for pair, value in zip(items.rows, one.values, strict=True):
        if all(pair) and value:
            by_pair.setdefault(pair, set()).add(value)
            n[pair] += 1
    again = [pair for pair in by_pair if n[pair] > 1]
    if sum(n[pair] - 1 for pair in again) < 5:
        return False
    # Where a pair comes up many times, people hardly ever agree on all of them.
    return all(len(by_pair[pair]) == 1 for pair in again) and (
        len(again) < 4 or set(one.words).isdisjoint(_CHOICE)
    )


def _listed(said: str | Sequence[str]) -> list[str]:
    """Columns as they were said, in one text or one by one."""
    return [one.strip() for one in (said.split(",") if isinstance(said, str) else said)]


def _annotators(table: ProfiledTable, items: _Items, said: Sequence[str] = ()) -> Iterator[_Found]:
    """Two items, and one column of choices a rater; those `said` to be, or by their names."""
    groups: dict[str, list[ColumnProfile]] = {}
    free = [
        one for one in table
        if (one.is_small or one.is_names) and not one.is_constant and one.name not in items.columns
    ]  # fmt: skip
    sided = {word for name in items.columns for word in tokens(name)}
    for one in free:
        who = rater_word(one.name)
        # Users may be the items: userA_won says something of one of them.
        if who and not (who == "user" and "user" in sided):
            groups.setdefault(who, []).append(one)
    short = [family for family in families([one.name for one in free]) if len(family) > 2]
    for family in short:
        stem = {word for word in tokens(family[0]) if not word.isdigit()}
        if tokens(family[0])[0] in _PEOPLE or (len(stem) == 1 and stem <= _ANSWER):
            groups.setdefault(family[0], [table[name] for name in family])
    # What was made of the answers of several is no answer of its own.
    groups = {
        who: [one for one in group if not set(one.words) & _AGREED] for who, group in groups.items()
    }
    if said:
        groups = {"": [table[name] for name in said if name in table.columns]}
    for group in groups.values():
        if len(group) < 2:
            continue
        together = ColumnProfile.of(
            group[0].name, [value for one in group for value in one.values], {}, is_list=False
        )
        sides = items.sides if len(items.columns) == 2 else ("", "")
        found = coding(together, sides, _first_number(table), mixed=_are_mixed(items))
        named = _by_item_names(replace(items, rows=items.rows * len(group)), together)
        if named is not None and not named.weak:
            found = Coding(named.options.get("values", {}), explicit=True, doubts=named.doubts)
        if found is None:
            continue
        names = tuple(one.name for one in group)
        roles = [
            *items.roles(), *(Role("outcome", name, "the choices of one rater") for name in names)
        ]  # fmt: skip
        options = {**items.options, "raters": names}
        if found.values:
            options["values"] = found.values
        reading = _Found(
            "two items and a column of choices for each rater",
            options, 8 + items.score / 2, roles, list(dict.fromkeys(items.doubts + found.doubts)),
            others=[({"values": other}, difference) for other, difference in found.others],
            used={*items.columns, *names}, items=items.columns,
        )  # fmt: skip
        _ask_of_codes(reading, names[0], found)
        _ask_of_swap(reading, table)
        words = [frozenset(word for word in one.words if not word.isdigit()) for one in group]
        if 1 < len({*words}) < len(words):
            # annotator1_fluency, annotator2_fluency, annotator1_adequacy
            reading.weak = reading.weak or (
                f"{listed(names, 4)} may be the answers of raters to several questions; say which "
                "columns to read with -O raters=…"
            )
            reading.answers = ("raters",)
        yield reading


def _winner_loser(table: ProfiledTable) -> Iterator[_Found]:
    """Two columns, one of the item that won and one of the item that lost."""
    columns = _names_like(table)
    found: list[_Found] = []
    for a in columns:
        for b in columns:
            if a is b or not _says_won(a) or not _says_lost(b, a) or (a.is_constant and a.n > 3):
                continue
            if a.is_small and _is_outcome_like(a) and not _are_letters(a, b):
                continue
            if (
                share(zip(a.values, b.values, strict=True), lambda row: row[0] == row[1] != "")
                > 0.2
            ):
                continue
            common = _overlap(a, b)
            score, why = _pair_score(a, b, related=True)
            score += 2.5
            if common == 0 and a.n > 10:
                score -= 3
            word = {*a.words} & {"winner", "won", "chosen", "preferred"}
            sure: Confidence = "certain" if word and common > 0 else "likely"
            reading = _Found(
                "winner and loser", {"winner": a.name, "loser": b.name}, score,
                [Role("winner", a.name, why, sure), Role("loser", b.name, why, sure)],
                used={a.name, b.name}, items=(a.name, b.name), explicit=sure == "certain",
            )  # fmt: skip
            found.append(reading)
    found.sort(key=lambda reading: -reading.score)
    if len(found) > 1:
        first, second = ((table[c] for c in one.items) for one in found[:2])
        one_to_one = all(x.n_distinct == y.n_distinct for x, y in zip(first, second, strict=True))
        found[0].explicit = found[0].explicit and one_to_one
    yield from found[:1]
    if not found and len(table.columns) <= 4:
        yield from _bare_pair(table)


def _are_letters(winner: ColumnProfile, loser: ColumnProfile) -> bool:
    """Whether letters name three or more items, and are not the two sides."""
    both = {*winner.counts, *loser.counts}
    named = not any(isinstance(label_meaning(value), str) for value in both)
    rows = zip(winner.values, loser.values, strict=True)
    return named and len(both) > 2 and all(a != b for a, b in rows if a and b)


def _said_winner_loser(table: ProfiledTable, winner: str, loser: str) -> Iterator[_Found]:
    """The columns of winner and loser that were named."""
    if winner in table.columns and loser in table.columns:
        roles = [Role("winner", winner, "as said"), Role("loser", loser, "as said")]
        used = (winner, loser)
        options = {"winner": winner, "loser": loser}
        yield _Found(
            "winner and loser", options, 9.0, roles, used={*used}, items=used, explicit=True
        )


def _bare_pair(table: ProfiledTable) -> Iterator[_Found]:
    """Two columns without a heading that says which won: by custom the first."""
    columns = [one for one in _names_like(table) if not one.is_constant]
    pairs = [pair for pair in combinations(columns, 2) if _overlap(*pair) >= 0.3]
    if (
        not _is_unnamed(table)
        or not pairs
        or _ballots(table, [one.name for one in columns if not one.numeric])
    ):
        return
    a, b = max(pairs, key=lambda pair: _overlap(*pair))
    if _numbers_after(table, (a.name, b.name)) or any(
        _is_outcome_like(one) or coding(one) for one in table if one not in (a, b)
    ):
        # Another column says who won.
        return
    yield _Found(
        "winner and loser without a header",
        {"winner": a.name, "loser": b.name}, 4.5 + 2 * _overlap(a, b),
        [
            Role("winner", a.name, "by custom before the loser", "possible"),
            Role("loser", b.name, "after it", "possible"),
        ],
        [f"nothing in the file says that {a.name} holds the winner"],
        others=[({"winner": b.name, "loser": a.name}, f"{b.name} holds the winner")],
        used={a.name, b.name}, items=(a.name, b.name),
    )  # fmt: skip


def _is_unnamed(columns: Iterable[ColumnProfile]) -> bool:
    """Whether the columns have no names of their own."""
    return all(one.words[:1] == ["column"] and one.words[-1].isdigit() for one in columns)


def _says_won(one: ColumnProfile) -> bool:
    words = one.words
    return bool(set(words) & (_WON | {"w"})) and not set(words) & _NOT


def _says_lost(one: ColumnProfile, winner: ColumnProfile) -> bool:
    words = set(one.words)
    if "w" in winner.words:
        # WTeam and LTeam
        return ["l" if word == "w" else word for word in winner.words] == one.words
    if words & _LOST:
        return True
    return bool(words & _NOT) and bool(words & _WON & set(winner.words))


# -- ranks, scores, counts


def _two_numbers(table: ProfiledTable, items: _Items) -> Iterator[_Found]:
    """Two items with a rank, a score or a number of wins each."""
    if len(items.columns) != 2:
        return
    numeric = [one.name for one in table if one.numeric]
    known = [
        family for family in families(numeric)
        if len(family) == 2 and not set(family) & set(items.columns)
        and not all(table[name].is_constant for name in family)
    ]  # fmt: skip
    pairs: list[tuple[str, ...]] = [_in_file_order(table, items, pair) for pair in known]
    won, lost = (
        next(
            (
                n
                for n in numeric
                if set(table[n].words) - _COUNT <= words and set(table[n].words) & words
            ),
            None,
        )
        for words in (_WINS, _LOSSES)
    )
    if won and lost:
        pairs.append((won, lost))
    readings = [_numbers_reading(table, items.columns, pair, items) for pair in pairs]
    yield from _marks(table, items, pairs)
    if not any(readings) and len(pairs) == 1 and _are_points(table, pairs[0]):
        points = _scores_reading(items, pairs[0], is_rank=False)
        _ask_of_scores(points, table, pairs[0])
        yield replace(points, score=points.score - 1)
    yield from (one for one in readings if one is not None)
    if _is_unnamed(table) and (after := _numbers_after(table, items.columns)):
        yield _scores_reading(items, after, is_rank=False)
    yield from _one_count(table, items)
    yield from _both_scores(table, items)


def _numbers_after(table: ProfiledTable, names: Sequence[str]) -> tuple[str, ...]:
    """Without a header: name, number, name, number."""
    columns = list(table)
    places = list(table.columns)
    after = [columns[i] for c in names if (i := places.index(c) + 1) < len(columns)]
    good = len(after) == 2 and all(one.numeric and not one.is_constant for one in after)
    return tuple(one.name for one in after) if good else ()


def _marks(
    table: ProfiledTable, items: _Items, pairs: Sequence[tuple[str, ...]]
) -> Iterator[_Found]:
    """A mark for each item and one for a tie, of which each row has one: winner_model_a …"""
    ties = [one.name for one in table if set(one.words) & _TIE and one.n_distinct == 2]
    flags = [pair for pair in families(one.name for one in table if _is_yes_or_no(one))
             if len(pair) == 2]  # fmt: skip
    for pair, tie in ((p, tie) for p in [*pairs, *flags] for tie in ties if tie not in p):
        if not _is_one_or_other(table, (*pair, tie)):
            continue
        what = {pair[0]: "the first item won", pair[1]: "the second item won", tie: "a tie"}
        found = _Found(
            "two items and a mark for who won", {**items.options, "wins": pair, "ties": tie},
            6.5 + items.score / 2,
            [*items.roles(), *(Role("outcome", name, said) for name, said in what.items())],
            list(items.doubts), used={*items.columns, *what}, items=items.columns, explicit=True,
        )  # fmt: skip
        _ask_of_swap(found, table)
        yield found


# 3:1, 2 - 2; no date and no span of years.
_BOTH_SCORES = re.compile(r"\d{1,3}\s*([:–-])\s*\d{1,3}")


# 9:05, 17:45: the minutes have two digits, also below ten.
_CLOCK = re.compile(r"(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?")


def _both_scores(table: ProfiledTable, items: _Items) -> Iterator[_Found]:
    """Two items, and their scores in one column."""
    for one in table:
        if one.name in items.columns or not one.counts:
            continue
        matches = [_BOTH_SCORES.fullmatch(value) for value in one.counts]
        signs = {match[1] for match in matches if match}
        if len(signs) != 1 or share(matches, bool) < 0.95 or one.n_distinct < 3:
            continue
        if all(map(_CLOCK.fullmatch, one.counts)) or set(one.words) & (
            _WHEN | {"kickoff", "start"}
        ):
            continue
        half = set(one.words) & word_set("ht half halftime set sets i")
        yield _Found(
            "two items with their scores in one column",
            {**items.options, "ranks": (one.name,), "between": signs.pop(), "higher": "better"},
            (2.5 if half else 4.0) + items.score / 2,
            [*items.roles(), Role("outcome", one.name, "the score of the first, then the second")],
            [*items.doubts, f"the first number of {one.name} is the score of {items.columns[0]}"],
            others=[({"lower": "better", "higher": None}, "a lower score is better")],
            used={*items.columns, one.name}, items=items.columns,
        )  # fmt: skip


def _are_points(table: ProfiledTable, pair: tuple[str, ...]) -> bool:
    """Whether the only two numbers of a row count something from 0 on, as points do."""
    columns = [table[name] for name in pair]
    words = {word for one in columns for word in one.words}
    return (
        not words & (_NO_SCORE | _WHEN | _TOOK | _RANK | _CHOICE | _TRAP | GROUPS)
        and all(one.whole and one.low >= 0 for one in columns)
        and min(one.low for one in columns) == 0
        and max(one.high for one in columns) > 1
    )


def _one_count(table: ProfiledTable, items: _Items) -> Iterator[_Found]:
    """How often the first item beat the second, and in another row the second the first."""
    pairs = Counter(pair for pair in items.rows if all(pair))
    back = share(pairs, lambda pair: pair[::-1] in pairs)
    if not pairs or max(pairs.values()) > 1 or back < 0.5:
        return
    for one in table:
        words = set(one.words)
        if one.name in items.columns or not (words & _COUNT and one.numeric and one.whole):
            continue
        if words & (_SCORE | _NO_SCORE) or one.low < 0 or one.is_constant:
            continue
        roles = [*items.roles(), Role("outcome", one.name, "how often the first item won")]
        first, second = items.columns
        found = _Found(
            "how often the first item beat the second",
            {"left": first, "right": second, "wins": (one.name,)}, 5.0 + items.score / 2, roles,
            [f"{one.name} is taken for how often {first} beat {second}"],
            others=[({"left": second, "right": first}, f"{one.name} counts wins of {second}")],
            used={first, second, one.name}, items=items.columns,
        )  # fmt: skip
        if not words & (_WINS | word_set("beat beats preferred votes vote")):
            found.weak = (
                f"{one.name} may be how often {first} beat {second}, or something else, such as "
                f"how many went from the one to the other; if it counts wins, add "
                f"-O {shlex.quote('wins=' + one.name)} with -O left=… (the one that won) and "
                "-O right=…"
            )
            found.answers = ("wins",)
        yield found


def _numbers_reading(
    table: ProfiledTable, names: tuple[str, ...], pair: tuple[str, ...], items: _Items
) -> _Found | None:
    words = {word for name in pair for word in table[name].words}
    low = min(table[name].low for name in pair)
    high = max(table[name].high for name in pair)
    if words & _NO_SCORE or words & _WHEN - {"time"} or (words & _STANDING and high > 500):
        return None
    used, score = {*names, *pair}, 4.0 + items.score / 2
    if (
        words & _COUNT
        and not words & _SCORE
        and all(table[name].whole for name in pair)
        and low >= 0
    ):
        ties = next((one.name for one in table if one.numeric and _TIE & set(one.words)), None)
        options = {**items.options, "wins": pair} | ({"ties": ties} if ties else {})
        roles = [
            *items.roles(), *(Role("outcome", name, "how often the item won") for name in pair)
        ]  # fmt: skip
        return _Found(
            "two items and how often each won", options, score + 0.5, roles,
            [*items.doubts, "a row stands for as many answers as it has wins"],
            used=used | ({ties} if ties else set()), items=names,
        )  # fmt: skip
    is_rank = bool(words & _RANK) and all(table[name].whole for name in pair)
    if is_rank and max(table[name].high for name in pair) > _LAST_RANK:
        # A place among all items of the world, and not among those of the row.
        return None
    is_score = bool(words & _SCORE)
    if not is_rank and not is_score:
        return None
    if is_rank and low == 0:
        # Ranks from 0, or scores: nothing tells.
        return None
    found = _scores_reading(items, pair, is_rank=is_rank)
    _ask_of_scores(found, table, pair)
    return found


def _in_file_order(table: ProfiledTable, items: _Items, pair: tuple[str, ...]) -> tuple[str, ...]:
    """The two numbers as their items stand: by the same words, else in the order of the file."""
    told = [set(tokens(name)) for name in items.columns]
    own = [set(tokens(name)) for name in pair]
    if (told[0] - told[1]) & (own[0] - own[1]) or (told[1] - told[0]) & (own[1] - own[0]):
        return pair
    places = list(table.columns)
    if (told[0] - told[1]) & (own[1] - own[0]) or (told[1] - told[0]) & (own[0] - own[1]):
        return pair[::-1]
    first, second = (places.index(name) for name in items.columns[:2])
    ordered = tuple(sorted(pair, key=places.index))
    return ordered if first < second else ordered[::-1]


# What is better where there is less of it, or says nothing of who won.
_LOWER = word_set(
    "error errors err mistake mistakes foul fouls fault faults penalty penalties wer cer loss cost "
    "stroke strokes cards time times latency distance rmse mae perplexity ppl fid bugs"
)
# Cells that stand for nothing, beside numbers from 0 on or up to ten.
_MISSING = (-1.0, -9.0, -99.0, -999.0, 99.0, 999.0, 9999.0)


def _ask_of_scores(found: _Found, table: ProfiledTable, pair: Sequence[str]) -> None:
    """Nothing is proposed where less may be better, or a number stands for a missing one."""
    words = {word for name in pair for word in table[name].words}
    values = {number(cell) or 0.0 for name in pair for cell in table[name].counts}
    odd = sorted(values & {*_MISSING})
    rest = values - {*odd}
    if words & _LOWER:
        found.weak = (
            f"nothing says whether more or less of {pair[0]} is better, or whether it says who won"
            "; say it with -O higher=better or -O lower=better"
        )
        found.answers = ("higher", "lower")
    elif odd and rest and min(rest) >= 0 and (odd[0] < 0 or odd[-1] > 4 * max(rest)):
        found.weak = (
            f"{odd[0] if odd[0] < 0 else odd[-1]:g} in {pair[0]} or {pair[-1]} may stand for no "
            "answer: leave these cells empty"
        )
        found.answers = ()


def _scores_reading(items: _Items, pair: tuple[str, ...], *, is_rank: bool) -> _Found:
    better = {"lower": "better"} if is_rank else {"higher": "better"}
    other = {"higher": "better"} if is_rank else {"lower": "better"}
    what = "a rank, 1 is the best" if is_rank else "a score, a higher one is better"
    roles = [*items.roles(), *(Role("outcome", name, what) for name in pair)]
    return _Found(
        f"two items with {'ranks' if is_rank else 'scores'}",
        {**items.options, "ranks": pair, **better}, 4.0 + items.score / 2, roles,
        [*items.doubts, f"{pair[0]} is taken for {what}; equal is a tie"],
        others=[({**other, next(iter(better)): None}, "the other way round")],
        used={*items.columns, *pair}, items=items.columns,
    )  # fmt: skip


def _slates(table: ProfiledTable) -> Iterator[_Found]:
    """Three or more items with a rank each, or of which one was chosen."""
    names = [one.name for one in _names_like(table) if not one.is_constant]
    for group in families(names):
        if len(group) < 3 or all(table[name].numeric for name in group):
            continue
        score = 2 + 2 * _vocabulary(table, group)
        for ranks in families([one.name for one in table if one.numeric]):
            words = {word for name in ranks for word in table[name].words}
            if len(ranks) != len(group) or not words & (_RANK | _SCORE):
                continue
            low = min(table[name].low for name in ranks)
            is_rank = bool(words & _RANK)
            if is_rank and low == 0:
                continue
            better = {"lower": "better"} if is_rank else {"higher": "better"}
            what = "a rank, 1 is the best" if is_rank else "a score, a higher one is better"
            roles = [Role("item", name, "one of those shown") for name in group]
            roles += [Role("outcome", name, what) for name in ranks]
            yield _Found(
                f"{len(group)} items with {'ranks' if is_rank else 'scores'}",
                {"items": group, "ranks": ranks, **better}, score + 4, roles,
                [f"{ranks[0]} is taken for {what}; equal is a tie"],
                used={*group, *ranks}, items=group,
            )  # fmt: skip
        yield from _best_of(table, group, score)
    for one in table:
        if one.is_list:
            yield from _best_of(table, (one.name,), 4.0)


def _best_of(table: ProfiledTable, group: tuple[str, ...], score: float) -> Iterator[_Found]:
    """One of several items was chosen as the best."""
    for one in table:
        if one.name in group or not set(one.words) & (_WON | _CHOICE) or not one.counts:
            continue
        if set(one.words) & word_set("odd different worst least"):
            continue
        shown = _cells(table, group)
        if len(group) == 1:
            shown = [tuple(list_cells(row[0])) if row[0] else () for row in shown]
        rows = [(said, *row) for said, row in zip(one.values, shown, strict=True) if said]
        if min(map(len, rows), default=0) <= 3:
            # Of two the side may be meant as well.
            continue
        options: dict[str, Any] = {"items": group, "best": one.name}
        places = _places(one, one, len(group)) if len(group) > 1 else None
        if share(rows, lambda row: row[0] in row[1:]) < 0.95:
            if places is None or one.is_constant:
                continue
            options["values"] = places
        roles = [Role("item", name, "one of those shown") for name in group]
        found = _Found(
            f"the best of {len(group) if len(group) > 1 else 'several'} items", options,
            score + 2.5, [*roles, Role("outcome", one.name, "the item that was chosen")],
            ["the chosen item is taken for the best; it beats the others"],
            used={*group, one.name}, items=group,
        )  # fmt: skip
        others = [other for other in families(table.columns)
                  if len(other) == len(group) > 1 and other != group]  # fmt: skip
        if "values" in options and others:
            found.weak = (
                f"each row shows {len(group)} alternatives with several properties each "
                f"({listed([group[0], *(other[0] for other in others)], 4)}), and {one.name} is "
                "the one that was chosen; a board ranks one property: say which with "
                f"-O {shlex.quote('items=' + spelled(group))} -O best={one.name} "
                f"-O values={spelled(places)}"
            )
            found.answers = ("items", "best")
        yield found


def _vocabulary(table: ProfiledTable, group: Sequence[str]) -> float:
    """How much the columns of a group have the same names."""
    sets = [set(table[name].counts) for name in group]
    union = set().union(*sets)
    return sum(len(one) for one in sets) / (len(sets) * len(union)) if union else 0.0


def _best_worst(table: ProfiledTable) -> Iterator[_Found]:
    """The best and the worst of several items."""
    names = [one for one in _names_like(table) if not one.is_constant]
    best = [one for one in names if set(one.words) & _BEST]
    worst = [one for one in names if set(one.words) & _WORST]
    for a, b in ((a, b) for a in best for b in worst if a is not b):
        groups = [g for g in families([one.name for one in names]) if not {a.name, b.name} & set(g)]
        for group in groups:
            shown = list(zip(*(table[name].values for name in group), strict=True))
            cells = [
                (x, y, row) for x, y, row in zip(a.values, b.values, shown, strict=True) if x and y
            ]
            inside = share(cells, lambda cell: cell[0] in cell[2] and cell[1] in cell[2])
            outside = share(cells, lambda cell: cell[0] not in cell[2] and cell[1] not in cell[2])
            words = {value for name in group for value in table[name].counts}
            known = share([value in words for value in (*a.counts, *b.counts)], bool)
            words_of_both = {*a.counts, *b.counts}
            options: dict[str, Any] = {"items": group, "best": a.name, "worst": b.name}
            places = _places(a, b, len(group))
            if inside < 0.9 and places and not all(table[name].numeric for name in group):
                options["values"] = places
            elif inside < 0.9 and (
                outside < 0.9 or len(words_of_both) <= len(group) or len(names) > 12 + len(group)
            ):
                continue
            doubts = [f"{a.name} beats the others, and the others beat {b.name}"]
            if inside < 0.9 and "values" not in options:
                doubts.append(
                    f"best and worst are not among {', '.join(group)}: all are taken as shown"
                )
            roles = [Role("item", name, "one of those shown") for name in group]
            roles += [Role("best", a.name, "by its name"), Role("worst", b.name, "by its name")]
            yield _Found(
                "the best and the worst of several items", options,
                6.5 + inside + known, roles, doubts, used={a.name, b.name, *group},
                items=(*group, a.name, b.name),
            )  # fmt: skip
        if not groups and _overlap(a, b) >= 0.3 and "worst" in b.words:
            yield _Found(
                "best and worst, as winner and loser", {"winner": a.name, "loser": b.name},
                5.0 + _overlap(a, b),
                [Role("winner", a.name, "by its name"), Role("loser", b.name, "by its name")],
                ["no column lists the other items that were shown"],
                used={a.name, b.name}, items=(a.name, b.name),
            )  # fmt: skip


def _places(a: ColumnProfile, b: ColumnProfile, n: int) -> dict[str, str] | None:
    """The codes of places among n items, from 1 or from 0."""
    letters = "ABCDEFGH"[:n]
    if {value.upper() for value in (*a.counts, *b.counts)} <= set(letters):
        return {v: str(letters.index(v.upper()) + 1) for v in sorted({*a.counts, *b.counts})}
    if not (a.numeric and b.numeric and a.whole and b.whole):
        return None
    low, high = min(a.low, b.low), max(a.high, b.high)
    first = 0 if low == 0 else 1
    if not (low >= 0 and high <= n - 1 + first):
        return None
    return {str(i + first): str(i + 1) for i in range(n)}


def _rankings(table: ProfiledTable) -> Iterator[_Found]:
    """Names by their rank: rank1 … rank6, 1st choice … 3rd choice; or ballots without a header."""
    names = [one.name for one in _names_like(table) if not one.numeric]
    unnamed = _is_unnamed(table)
    groups = families(names)
    if unnamed and (own := _ballots(table, names)) and own not in groups:
        groups.append(own)
    for group in groups:
        words = {word for name in group for word in table[name].words}
        bare = all(len(table[name].words) == 1 for name in group) and words & {"0", "1", "first"}
        ballots = (unnamed and len(group) == len(table.columns) and _is_uneven(table, group)) or (
            unnamed and group == own
        )
        ordered = words & _ORDERED or bare or ballots or _are_permuted(table, group)
        if len(group) < 2 or not ordered:
            continue
        if words & word_set("id number text reason comment"):
            continue
        if len(group) == 2 and not (ballots or words & (_RANK | {"first", "second"})):
            continue
        common = _vocabulary(table, group)
        if ballots:
            # Few get as far as the last place of an uneven ballot.
            common = _overlap(table[group[0]], table[group[1]])
        no_names = {
            value: "skip"
            for name in group
            for value in table[name].counts
            if " ".join(tokens(value)) in NO_NAMES
        }
        rows = [
            [cell for cell in row if cell and cell not in no_names]
            for row in zip(*(table[name].values for name in group), strict=True)
        ]
        distinct = share((row for row in rows if row), lambda row: len(set(row)) == len(row))
        places = all(ordinal(cell) is not None for row in rows for cell in row)
        if common < 0.3 or distinct < 0.9 or places:
            continue
        roles = [Role("rank", name, "the item at this rank, best first") for name in group]
        rest = [one for one in table if one.name not in group and not one.is_constant]
        alone = all(rater_word(one.name) or one.n_distinct == one.n for one in rest)
        named = words & _ORDERED or unnamed or alone or _ORDINAL.search(group[0])
        every = {cell for row in rows for cell in row}
        short = any(0 < len(row) < len(every) for row in rows) and len(every) <= len(group) + 2
        doubts = [f"{group[0]} is taken for the best", *(f"{v!r} is no name" for v in no_names)]
        others: list[tuple[dict[str, Any], str]] = [
            ({"ranking": group[::-1]}, "the last is the best")
        ]
        below: dict[str, Any] = {}
        if short:
            below = {"unranked": "below"}
            doubts.append("an item that a row does not name stands below those that it names")
            others.insert(0, ({"unranked": None}, "it is not compared in that row"))
        yield _Found(
            f"a ranking of {len(group)} items by their names",
            {"ranking": group, **below} | ({"values": no_names} if no_names else {}),
            6.0 + 2 * common, roles,
            doubts, others=others,
            weak="" if named else f"{listed(group, 3)} may be ranks, best first, or something else "
            f"that is numbered; if they are, add -O {shlex.quote('ranking=' + spelled(group))}",
            answers=("ranking",),
            used=set(group), items=group,
        )  # fmt: skip


def _are_permuted(table: ProfiledTable, group: Sequence[str]) -> bool:
    """Whether each row has all names in its own order, and no other column is an answer."""
    words = {word for name in group for word in table[name].words}
    rows = [row for row in _cells(table, group) if any(row)]
    every = {cell for row in rows for cell in row}
    rest = [one for one in table if one.name not in group and not one.is_constant]
    return (
        len(every) == len(group) > 2
        and not words & (_ITEM | _SHOWN | _PLANNED)
        and all(rater_word(one.name) or one.n_distinct == one.n for one in rest)
        and len({*rows}) > 1
        and share(rows, lambda row: len({*row}) == len(row)) > 0.95
    )


def _ballots(table: ProfiledTable, names: Sequence[str]) -> tuple[str, ...]:
    """Three or more columns of the same names, perhaps beside a number of the ballot."""
    rest = [one for one in table if one.name not in names]
    if len(names) < 3 or any(one.n_distinct < one.n for one in rest):
        return ()
    sets = [
        {value for value in table[name].counts if " ".join(tokens(value)) not in NO_NAMES}
        for name in names
    ]
    common, every = set.intersection(*sets), set.union(*sets)
    return tuple(names) if len(every) > 2 and len(common) >= 0.8 * len(every) else ()


_ORDINAL = re.compile(r"1(?:st|er|º|°|\.)")


def _is_uneven(table: ProfiledTable, group: Sequence[str]) -> bool:
    """Whether rows end early, as ballots do, or hold the same names in another order."""
    rows = [[bool(cell) for cell in row] for row in _cells(table, group)]
    early = share(rows, lambda row: not all(row))
    kinds = {frozenset(row) for row in _cells(table, group)}
    return (early > 0 and all(row == sorted(row, reverse=True) for row in rows)) or (
        len(group) > 2 and len(kinds) == 1 and len(next(iter(kinds))) == len(group)
    )


def _cells(table: ProfiledTable, group: Sequence[str]) -> list[tuple[str, ...]]:
    """The rows of some columns."""
    return list(zip(*(table[name].values for name in group), strict=True))


def _candidate_columns(table: ProfiledTable) -> Iterator[_Found]:
    """One column an item, with the rank in the cell."""
    columns = []
    for one in table:
        ranks = [ordinal(value) for value in one.counts if not is_nothing(value)]
        known = [rank for rank in ranks if rank is not None and rank.is_integer()]
        if (
            known
            and len(known) == len(ranks)
            and 1 <= min(known) <= max(known) <= len(table.columns)
        ):
            columns.append(one)
    if len(columns) < 3:
        return
    rows = [
        [cell for cell in row if not is_nothing(cell)]
        for row in zip(*(one.values for one in columns), strict=True)
    ]
    rows = [row for row in rows if row]

    called = all(set(one.words) & _RANK for one in columns)
    if any(set(one.words) & (_PLANNED | {"order"}) for one in columns) and not called:
        return

    def is_order(row: list[str]) -> bool:
        ranks = sorted(ordinal(cell) or 0 for cell in row)
        # Equal ranks could be scores, where the columns are not called ranks.
        tied = called and ranks[0] == 1 and ranks[-1] <= len(row)
        return tied or ranks == list(range(1, len(row) + 1))

    ordered = share(rows, is_order)
    if ordered < 0.8 or sum(len(row) for row in rows) < 2 * len(rows) or not rows:
        return
    names = tuple(one.name for one in columns)
    gaps = any(len(row) < len(columns) for row in rows)
    if not gaps and all(set(one.words) & _SCORE and not set(one.words) & _RANK for one in columns):
        yield _Found(
            "scores with one column an item", {"ranks": names, "higher": "better"},
            5.5 + 2 * ordered,
            [Role("item", name, "its cells are called scores") for name in names],
            ["the cells are scores, a higher one is better; each column is an item"],
            others=[({"lower": "better", "higher": None}, "1 is the best")],
            used=set(names), items=(),
        )  # fmt: skip
        return
    doubts = ["the cells are ranks, 1 for the best; each column is an item"]
    if gaps:
        doubts.append("an item without a rank stands below those with one")
    yield _Found(
        "a ranking with one column an item", {"ranks": names, "lower": "better"}, 5.5 + 2 * ordered,
        [Role("item", name, "its cells are ranks from 1 on") for name in names], doubts,
        others=[({"unranked": "unknown"}, "items without a rank are not compared")] if gaps else [],
        used=set(names), items=(),
    )  # fmt: skip


def _lists(table: ProfiledTable) -> Iterator[_Found]:
    """Names and ranks in lists, or all names of a ranking in one cell."""
    lists = [one for one in table if one.is_list]
    cells = {
        one.name: [list_cells(value) if value else [] for value in one.values] for one in lists
    }
    numeric = [
        one for one in lists
        if all(number(cell) is not None for row in cells[one.name] for cell in row)
    ]  # fmt: skip
    for one in lists:
        flat = [cell for row in cells[one.name] for cell in row]
        again = len(flat) / max(1, len(set(flat)))
        if one in numeric or again < 1.5 or max(map(len, flat)) > 80:
            continue
        if set(one.words) & (_ORDERED | {"order"}) and not set(one.words) & _PLANNED:
            yield _Found(
                "a ranking in one column", {"ranking": (one.name,)}, 6.0,
                [Role("rank", one.name, "names, best first")], ["the first is taken for the best"],
                used={one.name}, items=(one.name,),
            )  # fmt: skip
            continue
        for ranks in numeric:
            same = share(
                zip(cells[one.name], cells[ranks.name], strict=True),
                lambda both: len(both[0]) == len(both[1]),
            )
            low = min(number(c) or 0 for row in cells[ranks.name] for c in row)
            words = set(ranks.words)
            # One of the list is marked: [1, 0]
            marked = words & _CHOICE and all(
                sorted(c) == ["0"] * (len(c) - 1) + ["1"] for c in cells[ranks.name] if any(c)
            )
            if same < 0.95 or not (words & (_RANK | _SCORE) or marked):
                continue
            better = {"lower": "better"} if words & _RANK and low >= 1 else {"higher": "better"}
            if words & _RANK and low == 0:
                continue
            yield _Found(
                "a list of items with a list of ranks",
                {"items": (one.name,), "ranks": (ranks.name,), **better}, 6.0,
                [Role("item", one.name, "a list"), Role("outcome", ranks.name, "a list as long")],
                [f"{ranks.name} has a rank for each of {one.name}, in the same order"],
                used={one.name, ranks.name}, items=(one.name,),
            )  # fmt: skip
    for one in table:
        yield from _ordered_text(one)


# The order in which conditions were shown, as a rule: A,C,B.
_LETTERS = re.compile(r"\w(?:\W+\w)*")


def _ordered_text(one: ColumnProfile) -> Iterator[_Found]:
    """Cells such as a > b > c."""
    words = set(one.words)
    if one.is_list or one.numeric or not one.counts or not words & (_ORDERED | {"order"}):
        return
    if words & _PLANNED or (words == {"order"} and all(map(_LETTERS.fullmatch, one.counts))):
        return
    for sign in (">", "≻", ";", "|", ","):
        parts = [[part.strip() for part in value.split(sign)] for value in one.counts]
        names = Counter(part for row in parts for part in row)
        good = share(parts, lambda row: len(row) > 1 and all(row) and len(set(row)) == len(row))
        if good > 0.9 and len(names) <= 60 and names.total() >= 2 * len(names):
            yield _Found(
                "a ranking in one column", {"ranking": (one.name,), "between": sign},
                6.0 + (sign == ">"),
                [Role("rank", one.name, f"names with {sign!r} between them")],
                ["the first name is taken for the best"],
                others=[] , used={one.name}, items=(one.name,),
            )  # fmt: skip
            return


def _pairs_as_columns(table: ProfiledTable) -> Iterator[_Found]:
    """Columns that are called by the two items of which they name one."""
    for sign in _VERSUS:
        columns: dict[str, list[str]] = {}
        meaning: dict[str, str] = {}
        for one in table:
            parts = [part.strip() for part in one.name.split(sign)]
            others = {value: _third_value(value) for value in one.counts if value not in parts}
            if len(parts) == 2 and all(parts) and one.counts and all(others.values()):
                columns[one.name] = parts
                meaning |= {value: said for value, said in others.items() if said}
        if len(columns) < 2:
            continue
        names = tuple(columns)
        yield _Found(
            "columns that are called by two items",
            {"pairs": names, "between": sign} | ({"values": meaning} if meaning else {}), 8.0,
            [Role("outcome", name, "its values are the two of its name") for name in names],
            [f"each of {listed(names, 3)} holds the item that was chosen"],
            used={*names}, items=(),
        )  # fmt: skip
        return


def _third_value(value: str) -> str | None:
    """What a value means beside the names of two items."""
    said = label_meaning(value)
    return said if isinstance(said, str) else "skip" if " ".join(tokens(value)) in SKIPS else None


# Of a wide table so many columns are tried as the one of the items, or of the answers.
_MOST_KEYS = 8


def _one_row_an_item(table: ProfiledTable) -> Iterator[_Found]:
    """Rows that make an answer together: an item each, with its rank or a mark of the chosen."""
    outcomes = [
        one for one in table
        if one.counts and set(one.words) & (_PLACE | _WON | _CHOICE | _BEST | {"value"})
        and (one.numeric or _is_yes_or_no(one)) and not one.is_constant
    ]  # fmt: skip
    if not outcomes:
        return
    items = [
        one for one in _names_like(table)
        if one.n_distinct > 2 and one.n >= 3 * one.n_distinct and one not in outcomes
        and not rater_word(one.name) and (not one.numeric or set(one.words) & _ITEM)
    ]  # fmt: skip
    keys = [
        one for one in table
        if one not in outcomes and not one.is_text and 3 * one.n_distinct < 2 * one.n
        and not one.is_constant
    ][:_MOST_KEYS]  # fmt: skip
    for item in items[:_MOST_KEYS]:
        ways: list[tuple[ColumnProfile, ...]] = [(one,) for one in keys if one is not item]
        ways += [
            pair for pair in combinations((one for one in keys if one is not item), 2)
            if any(rater_word(one.name) or set(one.words) & _IDS for one in pair)
        ]  # fmt: skip
        for outcome in outcomes[:_MOST_KEYS]:
            for way in ways:
                if found := _grouped_answers(table, item, outcome, [one.name for one in way]):
                    yield found
                    return


# Names of columns that hold how an item was placed, and hardly ever where it was shown.
_PLACE = word_set("rank ranks ranking place rang platz rango puesto classement finish standing")


def _are_places(ranks: Sequence[float]) -> bool:
    """Whether ranks in order are 1, 2, 3, … with equal ones as 1, 2, 2, 4 or 1, 2, 2, 3."""
    sparse = [1 + sum(other < rank for other in ranks) for rank in ranks]
    dense = [1 + len({other for other in ranks if other < rank}) for rank in ranks]
    return len({*ranks}) > 1 and list(ranks) in (sparse, dense)


def _grouped_answers(
    table: ProfiledTable, item: ColumnProfile, outcome: ColumnProfile, by: Sequence[str]
) -> _Found | None:
    """The reading by which rows with equal `by` are one answer; None where they are none."""
    groups: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for key, name, said in zip(_cells(table, by), item.values, outcome.values, strict=True):
        groups.setdefault(key, []).append((name, said))
    sizes = [len(rows) for rows in groups.values()]
    if len(groups) < 3 or min(sizes) < 2 or max(sizes) > 60:
        return None
    if any(len({name for name, _ in rows}) < len(rows) for rows in groups.values()):
        return None
    values = [sorted(number(said) or 0 for _, said in rows) for rows in groups.values()]
    marks = [
        [said.casefold() in ("1", "1.0", "true", "yes") for _, said in rows]
        for rows in groups.values()
    ]
    words = set(outcome.words)
    shape: dict[str, Any] | None = None
    if words & _PLACE and share(values, _are_places) > 0.95:
        shape, said = {"ranks": (outcome.name,), "lower": "better"}, "a rank, 1 is the best"
    elif words & _PLACE or item.n_distinct <= max(sizes):
        return None
    elif set(outcome.counts) == {"-1", "0", "1"} and all(
        one.count(-1) == one.count(1) == 1 for one in values
    ):
        shape, said = {"best": outcome.name, "worst": outcome.name}, "1 is the best, -1 the worst"
    elif outcome.n_distinct == 2 and all(sum(one) == 1 for one in marks):
        shape, said = {"best": outcome.name}, "the chosen one is marked"
    if shape is None:
        return None
    return _Found(
        "one row an item, several of which are one answer",
        {"items": (item.name,), "group": tuple(by), **shape}, 7.0,
        [Role("item", item.name, "different in each row of an answer"),
         Role("outcome", outcome.name, said)],
        [f"rows with the same {' and '.join(by)} are one answer", f"{outcome.name}: {said}"],
        used={item.name, outcome.name, *(by if len(by) == 1 and not rater_word(by[0]) else ())},
        items=(item.name,),
    )  # fmt: skip


# What a cell of a square table has where nothing was counted.
_NOTHING_COUNTED = ("", "-", "–", "—", "--", "x", "X", ".", "*", "NA", "N/A")


_BEATS = word_set("win wins won winner beat beats over preferred prefers votes pairwise siege")
_FLOWS = word_set("from to source target origin node distance dist cost time minutes km flow")
# So often two are hardly ever compared in a table that people make.
_MOST_WINS = 100


def _may_be_wins(counts: Mapping[tuple[str, str], float | None], said: set[str]) -> bool:
    """Whether numbers may be wins: each pair came up equally often, or they are small."""
    sums = {(n or 0) + (counts.get(pair[::-1]) or 0) for pair, n in counts.items()}
    high = max(n or 0 for n in counts.values())
    return not said & _FLOWS and (len(sums) == 1 or 1 < high <= _MOST_WINS)


def _matrix(table: ProfiledTable) -> _Found | None:
    """A square table of wins."""
    columns = list(table)
    others = {one.name for one in columns[1:]}
    labels = columns[0] if columns and set(columns[0].counts) == others else None
    cells = [one for one in columns if one is not labels]
    n = len(cells)
    if not any(one.counts for one in cells):
        return None
    if n < 3 or not table.n_rows == table.n_held == n:
        return None
    place = {name: i for i, name in enumerate(labels.values if labels else [c.name for c in cells])}
    wins = {(a.name, b.name): b.values[place[a.name]] for a in cells for b in cells if a is not b}
    diagonal = [one.values[place[one.name]] for one in cells]
    if any(value not in _NOTHING_COUNTED and number(value) != 0 for value in diagonal):
        return None
    counts = {pair: number(value) for pair, value in wins.items() if value not in _NOTHING_COUNTED}
    if not counts or any(n is None or n < 0 or not n.is_integer() for n in counts.values()):
        return None
    if len(set(counts.values())) > 1 and all(
        counts.get(pair[::-1]) == n for pair, n in counts.items()
    ):
        # Distances and likenesses are the same from both sides.
        return None
    roles = [Role("item", one.name, "a row and a column of a square table") for one in cells]
    said = {word for one in columns if one is labels for word in one.words}
    weak = "" if said & _BEATS or _may_be_wins(counts, said) else (
        "a square table of numbers, which may be wins or something else, such as how many went "
        "from one to the other; if a cell counts wins, add -O matrix=row or -O matrix=column"
    )  # fmt: skip
    return _Found(
        f"a square table of wins of {n} items", {"matrix": "row"}, 7.0, roles,
        weak=weak, answers=("matrix",), doubts=
["a cell is taken for how often its row beat its column"],
        others=[({"matrix": "column"}, "a cell is how often its column beat its row")],
        used={one.name for one in columns}, items=(),
    )  # fmt: skip


# -- what goes with every shape


def _row_filters(
    table: ProfiledTable, given: Mapping[str, Any]
) -> list[tuple[dict[str, str], str]]:
    """Which rows are to be read: those that were said, or all, or those without checks."""
    if "rows" in given:
        said = given["rows"]
        if isinstance(said, str):
            said = dict(part.split("=", 1) for part in said.split(",") if "=" in part)
        return [({str(c): str(v) for c, v in dict(said).items()}, "as said")]
    ways: list[tuple[dict[str, str], str]] = [({}, ""), *_other_trials(table)]
    ways += _rows_of_pairs(table)
    sided = {name for pair in families(table.columns) for name in pair}
    for one in table:
        if one.name in sided or one.is_text or not 2 <= one.n_distinct <= SMALL:
            continue
        if (kept := kept_rows(one.name, one.counts)) is not None:
            others = [value for value in one.counts if value not in kept]
            why = f"rows with {one.name} {listed(others, 3)} are left out"
            ways.append(({one.name: "|".join(kept)}, why))
            continue
        ways += _filled_rows(table, one)
    return ways


def _other_trials(table: ProfiledTable) -> Iterator[tuple[dict[str, str], str]]:
    """Rows of the trials, where another column numbers those of the practice: PsychoPy's loops."""
    partly = [one for one in table if one.n_empty and one.n and one.name.count(".this") == 1]
    for one in partly:
        for other in partly if is_check(one.name) else ():
            if not is_check(other.name) and not any(
                a and b for a, b in zip(one.values, other.values, strict=True)
            ):
                yield {other.name: "*"}, f"rows with {one.name} are left out"
                return


def _rows_of_pairs(table: ProfiledTable) -> Iterator[tuple[dict[str, str], str]]:
    """Rows of the trials, where all others leave two columns of names empty: jsPsych's screens."""
    for pair in families(table.columns):
        first, second = table[pair[0]], table[pair[-1]]
        if len(pair) != 2 or not (first.is_names and second.is_names):
            continue
        filled = [bool(value) for value in first.values]
        if filled == [bool(value) for value in second.values] and 0 < first.n < 0.9 * len(filled):
            yield {first.name: "*"}, f"rows without {first.name} are left out"


def _filled_rows(table: ProfiledTable, one: ColumnProfile) -> Iterator[tuple[dict[str, str], str]]:
    """Kinds of rows that fill columns which the others leave empty."""
    partly = [
        c for c in table if c is not one and c.n_empty and c.n and c.n_empty * 50 > len(c.values)
    ]
    for value in one.counts:
        mine = [i for i, cell in enumerate(one.values) if cell == value]
        theirs = [i for i, cell in enumerate(one.values) if cell != value]
        full = [
            c for c in partly
            if share(mine, lambda i, c=c: bool(c.values[i])) > 0.98  # type: ignore[misc]
            and share(theirs, lambda i, c=c: bool(c.values[i])) < 0.02  # type: ignore[misc]
        ]  # fmt: skip
        if len(full) >= 2 and len(mine) > 1:
            yield (
                {one.name: value},
                f"only rows with {one.name} {value} have {listed((c.name for c in full), 3)}",
            )


def _add_details(found: _Found, table: ProfiledTable) -> None:
    """Who answered, when, how long it took and what weighs."""
    free = [
        one for one in table
        if one.counts and one.name not in found.used and one.name not in table.further
    ]  # fmt: skip
    if not {"raters", "rater"} & found.options.keys():
        _add_rater(found, free, table, unnamed=_is_unnamed(table))
    _add_weight(found, free)
    for one in free:
        _ask_of_column(found, one)
    _add_times(found, free)
    _leave_out_empty(found, table)


def _add_weight(found: _Found, free: list[ColumnProfile]) -> None:
    """The column of how many answers a row stands for, which is asked about."""
    asked = False
    sided = {name for family in families([one.name for one in free]) for name in family}
    for one in free:
        words = set(one.words)
        if words & _ASKED_WEIGHT or (
            words & _WEIGHT and one.numeric and one.high > 1000 * max(one.low, 1)
        ):
            if one.numeric and not words & {"time"} and not asked:
                asked = True
                found.doubts.append(
                    f"{one.name} is not used as a weight; add -O weight={one.name} if it is one"
                )
        elif {"weight", "wins"} & found.options.keys() or one.is_constant or one.name in sided:
            continue
        elif words <= _WEIGHT and one.numeric and one.low > 0:
            # Nothing weighs 1: of a person, or of a parcel.
            _ask_of_weight(found, one, is_weight=one.low <= 1)
        elif one.beside == "count" and one.low >= 1:
            _ask_of_weight(found, one, is_weight=True)


def _ask_of_weight(found: _Found, one: ColumnProfile, *, is_weight: bool) -> None:
    found.options["weight"] = one.name if is_weight else NONE
    found.explicit = False
    taken, other = f"{one.name} is taken for the number of answers that a row stands for", NONE
    if is_weight:
        found.roles.append(Role("weight", one.name, "by its name", "possible"))
    else:
        taken, other = f"{one.name} is not used as a weight", one.name
    found.doubts.append(taken)
    found.others.append(({"weight": other}, f"{one.name} is {'no' if is_weight else 'a'} weight"))


def _ask_of_column(found: _Found, one: ColumnProfile) -> None:
    """Ask about a column that is not read and may change what the answers mean."""
    kind = one.beside
    if kind == "tie" and "tie" not in found.options.get("values", {}).values():
        if {"winner", "best"} & found.options.keys() and "ties" not in found.options:
            found.weak = found.weak or (
                f"{one.name} says which rows are ties, and {found.options.get('winner')} names a "
                f"winner there as well: write a word such as tie into the winner of these rows"
            )
    elif kind == "question" and "rows" not in found.options:
        some = listed(one.counts, 4)
        found.weak = found.weak or (
            f"{one.name} says what was asked ({some}), and answers to different questions make no "
            f"common ranking; read one of them with --rows {shlex.quote(f'{one.name}=…')}"
        )
        found.answers = ("rows",)


def _leave_out_empty(found: _Found, table: ProfiledTable) -> None:
    """Where many rows have no answer, or no items, they are named and left out."""
    if "rows" in found.options or not {"winner", "best"} & found.options.keys():
        return
    needed = [role.column for role in found.roles if role.role in ("item", "outcome", "winner")]
    gaps = [
        table[c] for c in needed if c in table.columns and table[c].n_empty * 100 > table.n_held
    ]
    if "raters" in found.options or not gaps:
        return
    one = max(gaps, key=lambda column: column.n_empty)
    if (other := _says_tie(table, one)) is not None:
        found.weak = (
            f"{counted(one.n_empty, 'row')} have no {one.name}, and {other} says that these are "
            f"ties; write a word such as tie into {one.name} there"
        )
        found.answers = ()
    found.options = {"rows": {one.name: "*"}, **found.options}
    found.doubts.append(
        f"{counted(one.n_empty, 'row')} ({percent(one.n_empty / table.n_held)}) without {one.name} "
        "are left out"
    )
    found.explicit = False


def _says_tie(table: ProfiledTable, gappy: ColumnProfile) -> str | None:
    """The column that has a word for a tie where another one is empty, and only there."""
    for one in table:
        ties = {value for value in one.counts if label_meaning(value) == "tie"}
        rows = list(zip(one.values, gappy.values, strict=True))
        if ties and all(bool(said) != (value in ties) for value, said in rows if value):
            return one.name
    return None


# Names of a column that may say who answered, where its values do not deny it.
_IDS = word_set("id pid uid sid ppt resp responseid response submission form")
_NUMBERS = word_set("num nr no number sys")


def _answering_id(
    found: _Found, free: list[ColumnProfile], table: ProfiledTable
) -> ColumnProfile | None:
    """A bare id that stands in several rows, each about other items: of who answered.

    The id of a question or a pair comes with the same items again.
    """
    cells = _cells(table, [name for name in found.items if name in table.columns])
    for one in free:
        words = set(one.words)
        bare = words <= _IDS | _NUMBERS and bool(words & _IDS) and words != {"response"}
        if not bare or not cells:
            continue
        shown: dict[str, list[tuple[str, ...]]] = {}
        for who, row in zip(one.values, cells, strict=True):
            shown.setdefault(who, []).append(tuple(sorted(row)))
        several = [rows for who, rows in shown.items() if who and len(rows) > 1]
        if len(several) < 0.8 * len(shown) or len(shown) < 2 or one.n < 3 * one.n_distinct:
            continue
        if share(several, lambda rows: len(set(rows)) > min(2, len(rows) - 1)) > 0.8:
            return one
    return None


# Of verdicts in numbers, such as 1, 2 and 3 for a tie, the highest.
_LAST_VERDICT = 3


def _may_rate(found: _Found, one: ColumnProfile, word: str, table: ProfiledTable) -> bool:
    """Whether the values of a column that is called by a word for raters do not deny it."""
    shown = [name for name in found.items if name in table.columns]
    rows = [row for row in _cells(table, (one.name, *shown)) if all(row)]
    if len(shown) > 1 and share(rows, lambda row: row[0] in row[1:]) > 0.95:
        # What a rater has chosen, and not who chose.
        return False
    slate = {"ranks", "ranking", "best", "pairs"} & found.options.keys()
    if one.is_text or one.is_list or (one.numeric and not one.whole):
        return False
    if (
        "winner" in found.options
        and "loser" not in found.options
        and (_is_outcome_like(one) and not set(one.words) & {"id", "number", "no", "nr"})
        and not (one.numeric and one.high > _LAST_VERDICT)
    ):
        # The verdict of a judge, rather than the number of one.
        found.doubts.append(f"{one.name} is not taken for the rater, by its values")
        found.others.append(({"rater": one.name}, f"{one.name} says who answered"))
        found.explicit = False
        return False
    if one.is_constant and one.n > 1 and word not in ("judge", "annotator", "rater"):
        return False
    return one.n >= 1.5 * one.n_distinct or one.n <= 20 or bool(slate)


def _add_rater(
    found: _Found, free: list[ColumnProfile], table: ProfiledTable, *, unnamed: bool
) -> None:
    """The column of who answered, if its name says so and its values do not deny it."""
    best: tuple[float, ColumnProfile] | None = None
    for one in free:
        word = rater_word(one.name)
        if word is None or not _may_rate(found, one, word, table):
            continue
        if may_be_a_topic(one.name, one.counts):
            found.explicit = False
            if is_topic(one.counts) or {*one.counts} <= {
                v for c in found.items for v in table[c].counts
            }:
                found.doubts.append(f"{one.name} is not taken for the rater")
                found.others.append(({"rater": one.name}, f"{one.name} says who answered"))
                continue
            found.doubts.append(f"{one.name} is taken for the rater")
            found.others.append(({"rater": None}, f"{one.name} does not say who answered"))
        rank = (
            rater_place(word)
            + (0.0 if len(one.words) <= 2 else 0.5)
            + 100 * (one.n_empty > 0.02 * len(one.values))
        )
        if best is None or rank < best[0]:
            best = rank, one
    why = "by its name; "
    if best is None and unnamed:
        few = [one for one in free if one.n >= 3 * one.n_distinct and one.n_distinct > 1]
        items = [table[name] for name in found.items if name in table.columns]
        named = [
            one for one in few
            if one.is_names and all(any(map(str.isalpha, value)) for value in one.counts)
            and not any(_overlap(one, item) >= 0.5 for item in items)
        ]  # fmt: skip
        best = next(((0.0, one) for one in named if _are_ids(one) is not False), None)
        why = ""
        if best is not None:
            found.doubts.append(f"{best[1].name} is taken for the rater")
    if best is None and (own := _answering_id(found, free, table)) is not None:
        best = 0.0, own
        why = "different items each time; "
        found.doubts.append(f"{own.name} is taken for the rater: it comes with different items")
        found.others.append(({"rater": None}, f"{own.name} does not say who answered"))
        found.explicit = False
    if best is None and (voter := _voter(found, free, table)) is not None:
        best = 0.0, voter
        why = "a name beside each ballot; "
        found.doubts.append(f"{voter.name} is taken for the rater, by its values")
        found.others.append(({"rater": None}, f"{voter.name} does not say who answered"))
        found.explicit = False
    if best is None:
        _name_possible_raters(found, free)
        return
    one = best[1]
    found.options["rater"] = one.name
    sure: Confidence = "certain" if why and "session" not in one.words else "possible"
    found.roles.append(
        Role("rater", one.name, f"{why}{one.n_distinct:,} values over {one.n:,} rows", sure)
    )
    if "session" in one.words:
        found.doubts.append(f"{one.name} names sessions, not people")
        found.explicit = False


def _voter(found: _Found, free: list[ColumnProfile], table: ProfiledTable) -> ColumnProfile | None:
    """The first column, where it has another name beside each ranking."""
    first = next(iter(table))
    is_ballot = "ranking" in found.options or len(found.options.get("ranks", ())) > 2
    is_name = first.is_names and not (first.numeric or first.is_text or first.is_list)
    named = set(first.words) & (GROUPS | _THINGS | _ITEM | _WHEN | _TOOK)
    if is_ballot and is_name and first in free and not named:
        return first if first.n_distinct == first.n == table.n_held else None
    return None


_THINGS = word_set(
    "sample doc document clip utt utterance sentence segment pair hit case brief match game map "
    "trial set page slide row fold run seed config experiment event scenario path folder map loc "
    "opening subset"
)


def _name_possible_raters(found: _Found, free: list[ColumnProfile]) -> None:
    """Where no name says who answered, columns that may well do so are a question."""
    sided = {name for family in families([one.name for one in free]) for name in family}
    for one in free:
        if one.name in sided:
            continue
        few = (
            3 <= one.n_distinct <= one.n / 3
            and not one.numeric
            and not one.is_text
            and not one.is_list
        )
        if few and not set(one.words) & (GROUPS | _WHEN | _TOOK | _CHOICE | _TRAP):
            found.explicit = False
            if _are_ids(one):
                found.options["rater"] = one.name
                found.roles.append(
                    Role("rater", one.name, "numbered, few over many rows", "possible")
                )
                found.doubts.append(f"{one.name} is taken for the rater, by its values")
                found.others.append(({"rater": None}, f"{one.name} does not say who answered"))
            else:
                found.doubts.append(
                    f"no column is taken for the rater; if it is {one.name}, "
                    f"add -O {shlex.quote('rater=' + one.name)}"
                )
            return


# What numbers of people begin with; other things are numbered as well.
_NUMBERED = re.compile(r"([A-Za-z]+)[-_]?\d+|[\w.+-]+@[\w.-]+")
_PERSON = word_set(
    "a ann annot annotator e exp expert h human j judge juror l m o obs p part participant person "
    "pid pm pp ppt proband r rater reviewer sub subj subject tester tn u uid user v voter vp vpn w "
    "worker"
)


def _are_ids(one: ColumnProfile) -> bool | None:
    """Whether values are numbers of people, such as p01, p02, or addresses; None if no numbers."""
    matches = [_NUMBERED.fullmatch(value) for value in one.counts]
    begun = {match[1].casefold() if match[1] else "" for match in matches if match}
    if not all(matches) or len(begun) != 1:
        return None
    return begun <= _PERSON | {""} and not set(one.words) & (_ITEM | _THINGS)


def _add_times(found: _Found, free: list[ColumnProfile]) -> None:
    for one in free:
        words = set(one.words)
        sample = [value for value in one.values if value][:50]
        if (
            words & _WHEN
            and "at" not in found.options
            and not words & _TOOK
            and not words & {"response", "reaction"}
        ):
            moments = [seconds_since_1970(value) for value in sample]
            if None not in moments and (not one.numeric or one.low > 1e8):
                found.options["at"] = one.name
                found.roles.append(Role("time", one.name, "moments", "certain"))
        took = words & _TOOK or {"response", "time"} <= words or {"reaction", "time"} <= words
        if (
            took
            and one.numeric
            and one.low >= 0
            and "time" not in found.options
            and not one.is_constant
        ):
            unit = (
                "ms"
                if words & {"ms", "milliseconds"}
                else "s"
                if words & {"s", "sec", "secs", "seconds"}
                else None
            )
            if unit is None and "taken" in words and one.high < 10_000:
                unit = "s"
            if unit is not None:
                found.options["time"] = one.name
                if unit == "ms":
                    found.options["time_unit"] = "ms"
                found.roles.append(Role("duration", one.name, f"in {unit}", "certain"))


# -- the readings


def _readings(found: list[_Found], given: Mapping[str, Any]) -> tuple[Reading, ...]:
    """The likeliest reading, its own alternatives, and others that are nearly as likely."""
    out: list[Reading] = []
    seen: list[dict[str, Any]] = []

    def add(one: _Found, changed: Mapping[str, Any], difference: str) -> None:
        options = {k: v for k, v in {**one.options, **changed}.items() if v is not None}
        options = {k: v for k, v in options.items() if given.get(k) != NONE}
        if "values" in options:
            options["values"] = _in_order(options["values"])
        if not _agrees(options, given) or options in seen or len(out) >= _MOST_READINGS:
            return
        seen.append(options)
        certain = one.explicit and not one.doubts and not out and not changed
        clear: Confidence = "certain" if certain else "possible" if out else "likely"
        # What is read without asking is sure in all its parts.
        roles = tuple(replace(role, sure="certain") if certain else role for role in one.roles)
        doubts = tuple(one.doubts)
        out.append(Reading("table", options, clear, one.shape, roles, doubts, difference))

    for place, one in enumerate(found):
        if "values" in given:
            one.doubts = [doubt for doubt in one.doubts if doubt not in one.of_codes]
        if one.score < found[0].score - 3 and out:
            continue
        near = out and one.score > found[0].score - 1.0
        if near and out[0].confidence == "certain" and one.explicit:
            out[0] = replace(out[0], confidence="likely")
        add(one, {}, f"{one.shape}: {_shown(one)}" if out else "")
        if place == 0:
            for changed, difference in one.others:
                add(one, changed, difference if out else "")
    return tuple(out)


def _shown(one: _Found) -> str:
    return ", ".join(f"{role.role} {role.column}" for role in one.roles[:4])


def _agrees(options: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Whether a reading says nothing else than what was given."""
    for name, value in given.items():
        if name in options and spelled(options[name]) != spelled(value):
            return False
        if name not in options and name in (
            "left",
            "right",
            "winner",
            "loser",
            "items",
            "ranks",
            "ranking",
            "best",
            "matrix",
            "wins",
            "raters",
        ):
            return False
    return True


def _question(first: Reading) -> str:
    if first.confidence == "certain":
        return ""
    return f"it looks like {first.shape}, but that is not certain"


def _is_prose(one: ColumnProfile) -> bool:
    """Whether a column holds texts, also short ones: of four words and more."""
    return (
        one.is_text or sum(n * value.count(" ") for value, n in one.counts.items()) >= 3 * one.n > 0
    )


# A vote as a sentence.
_SENTENCE = re.compile(
    r"([^<>]+?)\s*(?:\bover\b|\bbeats?\b|\bpreferred to\b|\bbetter than\b|>)\s*([^<>]+)"
)


def _to_rewrite(table: ProfiledTable) -> str | None:
    """How to write a file that holds votes in a shape that is not read."""
    for one in table:
        if one.counts and not one.numeric and all(map(_SENTENCE.fullmatch, one.counts)):
            return (
                f"{one.name} holds a sentence about two items, such as {next(iter(one.counts))!r}: "
                "write them into two columns called winner and loser"
            )
    first, *others = table
    orders = [sorted(one.values) for one in others if one.whole and one.low == 1]
    places = [str(place) for place in range(1, len(first.values) + 1)]
    is_named = first.n_distinct == first.n > 2 and len(orders) == len(others) > 2
    if is_named and share(orders, lambda order: order == sorted(places)) > 0.5:
        return (
            f"each column but {first.name} may be a ranking of what {first.name} names: "
            "swap rows and columns, so that each row is a ranking"
        )
    if scores := _alike_scales(table):
        return (
            f"{listed(scores, 4)} hold numbers of the same scale: if each is an item with its "
            f"score in each row, add -O {shlex.quote('ranks=' + spelled(scores))} with "
            "-O higher=better or -O lower=better"
        )
    wins = [one.name for one in table if one.whole and set(one.words) & _WINS]
    totals = [one.name for one in table if one.whole and set(one.words) & {"total", "n", "games"}]
    if len(wins) == len(totals) == 1:
        return (
            f"{wins[0]} may be how often the first item won, of {totals[0]}: add a column with "
            f"{totals[0]} less {wins[0]}, and name both with -O wins={wins[0]},…"
        )
    return None


def _alike_scales(table: ProfiledTable) -> list[str]:
    """Three or more columns of numbers from one scale, where all others say who and when."""
    ids = _IDS | _NUMBERS | _WHEN | _TOOK
    rest = [one for one in table if one.counts and not rater_word(one.name)]
    rest = [one for one in rest if not set(one.words) & ids and one.n_distinct < table.n_held]
    spans = [one.high - one.low for one in rest if one.numeric]
    alike = len(spans) == len(rest) > 2 and 0 < min(spans) >= 0.5 * max(spans)
    common = alike and max(one.low for one in rest) < min(one.high for one in rest)
    return [one.name for one in rest] if common and max(spans) > 1 else []


def _why_nothing(table: ProfiledTable) -> str:
    """What the file is, and why no comparison is seen in it."""
    columns = list(table)
    texts = [one for one in columns if _is_prose(one) and one.n_distinct > 0.8 * one.n]
    pairs = [(pair[0], pair[1]) for pair in families(one.name for one in texts) if len(pair) == 2]
    if not pairs and {"chosen", "rejected"} <= {word for one in columns for word in one.words}:
        found = [one.name for one in columns if {"chosen", "rejected"} & set(one.words)]
        pairs = [(found[0], found[-1])]
    if pairs:
        return (
            f"{pairs[0][0]} and {pairs[0][1]} hold texts, and hardly any comes twice: these are "
            "pairs of texts without names of what wrote them, so no ranking follows from them"
        )
    zero = [one.name for one in columns if one.numeric and one.low == 0 and set(one.words) & _RANK]
    if zero and len(zero) > 1:
        return (
            f"{zero[0]} holds 0, and ranks count from 1: these may be scores, or ranks from 0; say "
            "which with -O higher=better or -O lower=better, and correct ranks of 0"
        )
    if len(columns) == 1:
        lines = counted(table.n_rows, "line")
        return f"one column of {lines} of text, and no table with columns of items and choices"
    if how := _to_rewrite(table):
        return how
    about = f"{counted(table.n_rows, 'row')} and {counted(len(columns), 'column')}"
    names = listed((one.name for one in columns), 12)
    if items := [one for one in _item_pairs(table) if len(one.columns) == 2]:
        first, second = items[0].columns
        empty = [one.name for one in columns if not one.counts and set(one.words) & _CHOICE]
        expected = [one.name for one in columns if set(one.words) & _EXPECTED & set(_TRAP)]
        missing = f"{empty[0]} is empty" if empty else "no column clearly says who won"
        if expected and not empty:
            missing += f" ({expected[0]} looks like what was known or expected)"
        scores = [
            pair for pair in families([one.name for one in columns if one.numeric])
            if len(pair) == 2 and not {first, second} & set(pair)
        ]  # fmt: skip
        if scores and not (empty or expected):
            said = shlex.quote("ranks=" + spelled(scores[0]))
            missing += (
                f"; if {scores[0][0]} and {scores[0][1]} are scores, add -O {said} with "
                "-O higher=better or -O lower=better"
            )
        return (
            f"a table of {about} ({names}); {first} and {second} may hold the compared items, but "
            f"{missing}; columns can be named, as in bbq fit FILE "
            f"-O {shlex.quote('left=' + first)} -O {shlex.quote('right=' + second)} "
            "-O winner=COLUMN"
        )
    small = [one.name for one in columns if one.is_small and set(one.words) & _CHOICE]
    missing = "no two columns hold the names of compared items"
    ranks = [one.name for one in columns if one.numeric and set(one.words) & _RANK]
    if len(ranks) == 1:
        missing += (
            f" (if {ranks[0]} is the rank of one item a row, bring each ranking into one row)"
        )
    if small:
        missing += (
            f", though {small[0]} may hold answers (if they are about the same two things in each "
            "row, add two columns, left and right, with their names)"
        )
    return f"a table of {about} ({names}); {missing}, so no votes are seen in it"
