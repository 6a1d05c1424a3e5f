"""How a file could be read, by evidence from its values; names of columns break ties.

1. `profiled` tells what the values of each column are like; `_row_filters` sets apart rows that are
   no answers.
2. Each of the shapes of a mapping has a function that looks for it and yields candidates
   (`_candidates`). Pairs of columns of items are found once, and tried with all that may say who
   won: choices, raters as columns, scores, counts.
3. `_add_details` finds who answered, when, how long it took and what a row weighs.
4. `_DOUBTS` asks about everything else in the file that may change what the answers mean.
5. `_readings` ranks the candidates by their scores, which begin with those of `_SCORES`.

Only what leaves no question is certain, and is read without asking. Where the evidence is weak,
nothing is proposed, and the message says what to add.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

from bbq_adapters.column_profile import (
    SMALL,
    Coding,
    ColumnProfile,
    ProfiledTable,
    coding,
    list_cells,
    mirrored,
    profiled,
    share,
    side_named,
    third_meaning,
)
from bbq_adapters.labels_and_item_names import (
    GROUPS,
    NO_NAMES,
    PLACES,
    SKIPS,
    YES,
    asks_for_worse,
    families,
    is_check,
    is_question,
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
from bbq_adapters.table import EACH, NONE, OF_COLUMNS, pair_in_name
from bbq_plugin.data.mappings import Confidence, Inspection, Reading, Role, spelled
from bbq_plugin.data.records import OUTCOMES
from bbq_plugin.text import counted, listed
from bbq_plugin.text import share as percent

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


# -- words of column names; of all of them only those of raters and of ranks decide anything alone

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
_PIVOT = word_set("pivot reference ref original")
_BEST = word_set("best most beste bester meilleur mejor migliore melhor max лучший")
_WORST = word_set("worst least schlechteste schlechtester pire peor peggiore pior min худший")
_NO_PREFERENCE = word_set("odd different worst least")
_CHOICE = word_set(
    "winner choice preference preferred vote answer outcome result selected selection response "
    "judgment judgement verdict decision chosen better label accepted human wahl auswahl antwort "
    "ergebnis choix reponse eleccion respuesta resultado preferencia scelta risposta won win "
    "preferencja выбор ответ pick picked rating score prefer vincitore gagnant ganador sieger "
    "wins resp gsb urteil entscheidung prefers pref "
    "overall ftr favourite favorite favorit liked 结果 选择 偏好 投票 判断 评价 結果 選択 결과 선택"
)
_ANSWER = _WON | word_set("choice preference vote verdict decision judgment judgement outcome pick")
_TRAP = word_set(
    "true truth gold golden gt expected predicted prediction model side position order correct "
    "reference baseline length auto llm gpt sanity check attention first shown swap swapped flipped"
    " toss ht halftime serve server majority consensus"
)
# What was known, expected or said before, and so no answer of its own.
_EXPECTED = word_set(
    "pred predicted prediction predictions prob odds forecast expected gold golden gt truth correct"
)
_BEFORE = word_set("previous prev prior former next")
_AT_FIRST = word_set("first shown toss ht halftime serve server")
# Who is expected to win, where odds are given.
_FAVOURED = word_set("favorite favourite favored favoured")
# Of a part of what was to be won.
_PARTLY = word_set("half period set quarter inning round map leg toss pole")
_HALF_TIME = word_set("ht half halftime set sets i")
# Columns that say something of two things together, or of the answers of several.
_ALIKE = word_set(
    "same duplicate similar similarity matching agree agreement related equal identical alike"
)
_AGREED = word_set("final gold golden majority consensus adjudicated adjudication agreed mean avg")
_RIGHT = word_set("correct accuracy acc corr hit accurate right")
# Short for people, where the columns are counted.
_PEOPLE = word_set("ann anno annot human vote votes r j")
_ITEM = word_set(
    "model models system systems method item items candidate option team player name names "
    "condition generator engine variant codec algorithm stimulus repo file image video song essay "
    "script text title user entity product element alternative kandidat modell equipo jugador "
    "equipe verein mannschaft modele sistema systeme"
)
# What makes several of the items.
_MADE_BY = word_set("model system method engine generator algorithm")
# What an item had or where it stood, where another column names it; what is shown of an item.
_MARKS = word_set("symbol symbols color colour colors mark piece stone sign side seat token")
_SHOWN = word_set(
    "response answer output completion summary translation generation result sys reply continuation"
)
_NO_ITEMS = word_set("prompt instruction question task path url reason")
_RANK = word_set(
    "rank ranks ranking place position rang platz rango puesto posto classement rg pos"
)
# Names of columns that hold how an item was placed, and hardly ever where it was shown.
_PLACE = word_set("rank ranks ranking place rang platz rango puesto classement finish standing")
_SCORE = word_set(
    "score scores goals goal points point pts gls runs rating ratings tore punkte puntos goles "
    "punti gol note result results mark marks grade likert mos quality"
)
_NO_SCORE = word_set(
    "elo old new before after pre post id number idx index length tokens time price cost prob "
    "probability date year seed"
)
# What is better where there is less of it, or says nothing of who won.
_LOWER = word_set(
    "error errors err mistake mistakes foul fouls fault faults penalty penalties wer cer loss cost "
    "stroke strokes cards time times latency distance rmse mae perplexity ppl fid bugs"
)
# How good an item was held to be before; above some hundreds it is no rating by people.
_STANDING = word_set("rating ratings points pts rank ranking")
_COUNT = word_set(
    "wins win won votes vote count counts n freq frequency times siege victories preferred"
)
_WINS = word_set("win wins won w victories")
_LOSSES = word_set("loss losses lost l defeats")
_BEATS = word_set("win wins won winner beat beats over preferred prefers votes pairwise siege")
_COUNTS_WINS = _WINS | word_set("beat beats preferred votes vote")
_FLOWS = word_set("from to source target origin node distance dist cost time minutes km flow")
_TIE = word_set("tie ties tied draw draws drawn equal")
_ORDERED = _RANK | word_set(
    "choice preference pref prioritat priority wahl choix opcion ranked ordering ordered sorted "
    "most favorite favourite favorites like liked preferred top best ballot ballots"
)
# Orders in which things were shown, and plans; no rankings.
_PLANNED = word_set(
    "shown display displayed presentation presented session sessions visit day block trial period "
    "lane seat slot heat presentation counterbalance random randomized stimulus stimuli"
)
_NO_RANKING = word_set("id number text reason comment")
_SCALE = word_set("slider vas scale preference pref")
_WEIGHT = word_set("weight weights gewicht poids peso")
_ASKED_WEIGHT = word_set("multiplier score factor strength confidence")
_WHEN = word_set("timestamp date datetime created time tstamp submitted datum when at fecha")
_TOOK = word_set("rt duration took taken elapsed seconds latency lead")
_UNITS = {"ms": word_set("ms milliseconds"), "s": word_set("s sec secs seconds")}
# Names of a column that may say who answered, where its values do not deny it.
_IDS = word_set("id pid uid sid ppt resp responseid response submission form")
_NUMBERS = word_set("num nr no number sys")
# What numbers of people begin with; other things are numbered as well.
_PERSON = word_set(
    "a ann annot annotator e exp expert h human j judge juror l m o obs p part participant person "
    "pid pm pp ppt proband r rater reviewer sub subj subject tester tn u uid user v voter vp vpn w "
    "worker"
)
_THINGS = word_set(
    "sample doc document clip utt utterance sentence segment pair hit case brief match game map "
    "trial set page slide row fold run seed config experiment event scenario path folder map loc "
    "opening subset"
)

# What a candidate's score begins with; evidence of its columns is added.
_SCORES = {
    "winner and loser as said": 9.0, "pairs as columns": 8.0, "raters as columns": 8.0,
    "square table": 7.0, "group of rows": 7.0, "best and worst": 6.5, "marks": 6.5,
    "ranking": 6.0, "best of n": 2.5, "one column an item": 5.5, "names of winners": 5.0,
    "two results": 5.0, "best without others": 5.0, "one count": 5.0, "counts": 4.5,
    "pair without a header": 4.5, "two numbers": 4.0, "words": 3.5, "a scale": 3.0,
    "pair by name": 2.5, "codes": 1.5,
}  # fmt: skip
# Two columns of a pair by name with a common vocabulary that comes again.
_SURE_ITEMS = 6.0
# What a reading needs to be proposed at all, and how far below the first others may be.
_ENOUGH, _FARTHEST, _NEAR = 4.0, 3, 1.5
_MOST_READINGS = 4
# Ranks of two items among those that were shown go no further.
_LAST_RANK = 12
# Of verdicts in numbers, such as 1, 2 and 3 for a tie, the highest.
_LAST_VERDICT = 3
# Codes go no further from 0.
_HIGHEST_CODE = 9
# So often two are hardly ever compared in a table that people make.
_MOST_WINS = 100
# So many values that name neither item are listed in a command.
_MOST_STRAYS = 8
# A table in which each row is an item has no more rows.
_MOST_TURNED = 60
# Of a wide table so many columns are tried as the one of the items, or of the answers.
_MOST_KEYS = 8


@dataclass
class Candidate:
    """A reading in the making."""

    shape: str
    options: dict[str, Any]
    score: float
    roles: list[Role] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    #: Other ways to read the same columns: changed options, and what sets them apart.
    others: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    #: The columns that hold names of items.
    items: tuple[str, ...] = ()
    #: All columns that are read; those of roles and items need not be named.
    used: set[str] = field(default_factory=set)
    #: Nothing of it is a matter of opinion.
    explicit: bool = False
    #: The doubts about what the values mean.
    of_codes: list[str] = field(default_factory=list)
    #: Why nothing of it is proposed, where the evidence does not decide; the options that answer.
    weak: str = ""
    answers: tuple[str, ...] = ("winner", "raters")
    #: Only its values say that a column holds the choices, and not its name.
    unsaid: bool = False
    #: Its choices are sides, and not names of items.
    sided: bool = False

    def __post_init__(self) -> None:
        """Count the columns of its roles and items as used."""
        self.used |= {role.column for role in self.roles} | {*self.items}

    def ask(self, doubt: str, changed: dict[str, Any] | None = None, difference: str = "") -> None:
        """Note what is not certain, and perhaps the other way to read it."""
        self.doubts.append(doubt)
        self.explicit = False
        if changed is not None:
            self.others.append((changed, difference))

    def leave_open(self, why: str, *answers: str) -> None:
        """Propose nothing before one of the options `answers` is given."""
        self.weak, self.answers = why, answers


def _roles(role: str, columns: Iterable[str], why: str, sure: Confidence = "likely") -> list[Role]:
    return [Role(role, column, why, sure) for column in columns]


def _option(name: str, value: object) -> str:
    """An option as it is typed."""
    return f"-O {shlex.quote(f'{name}={spelled(value)}')}"


def _pairs(columns: Iterable[ColumnProfile]) -> list[tuple[str, ...]]:
    """Columns of which two differ in nothing but the side."""
    return [pair for pair in families(one.name for one in columns) if len(pair) == 2]


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
    if not found:
        found = list(_ranked_by_columns(table))
    if not found or (found[0].weak and given.keys().isdisjoint(found[0].answers)):
        return replace(base, problem=found[0].weak if found else _why_nothing(table))
    readings = _readings(found, given)
    if not readings:
        problem = "no reading of this file agrees with the options that are given"
    elif readings[0].confidence == "certain":
        problem = ""
    else:
        problem = f"it looks like {readings[0].shape}, but that is not certain"
    return replace(base, readings=readings, problem=problem)


# A column in an entry of a list.
_LISTED = re.compile(r"\.\d+\.")


def _found(table: ProfiledTable, given: Mapping[str, Any]) -> list[Candidate]:
    """All candidates, the likeliest first; of a list of answers in each row, all of them."""
    out = _found_in(table, given)
    one_of_many = [one for one in out if _is_one_of_many(one)]
    if not table.nested or (out and out[0] not in one_of_many):
        return out
    inner: list[Candidate] = []
    for name, part in table.nested.items():
        part.options = table.options
        for one in _found_in(part, given):
            if any(EACH in column for column in one.used):
                one.ask(f"each entry of {name} is taken for an answer of its own")
                inner.append(one)
    for one in one_of_many:
        choice = one.options.get("winner", one.items[0])
        one.weak = f"{choice} is one of several answers of the row; say which to read"
    return sorted(inner, key=lambda one: -one.score) or out


def _is_one_of_many(one: Candidate) -> bool:
    """Whether the choices are those of one entry of a list, or of entries about other items."""
    raters = one.options.get("raters", ())
    return bool(_LISTED.search(str(one.options.get("winner", "")))) or (
        bool(raters) and all(map(_LISTED.search, (*one.items, *raters)))
    )


def _found_in(table: ProfiledTable, given: Mapping[str, Any]) -> list[Candidate]:
    """The candidates of one table, the likeliest first, each with details and doubts."""
    out: list[Candidate] = []
    for wanted, why in _row_filters(table, given):
        part = table.where(wanted)
        for one in _candidates(part, given) if part.n_held else ():
            if one.used & part.further and "ranking" not in one.options:
                # Only ballots are uneven; in other rows a cell too many is a mistake.
                continue
            if wanted and "rows" not in given:
                one.options = {"rows": dict(wanted), **one.options}
                one.roles += _roles("rows", wanted, why)
                one.ask(why)
                one.score += 1.5
            elif wanted:
                one.options["rows"] = given["rows"]
            one.options = {**part.options, **one.options}
            if part.header_width:
                wide, rows = part.header_width
                end = "the last ones are taken for empty"
                if rows > wide:
                    first = next(iter(part)).name == "column1"
                    end = "the first is taken for a number" if first else "the last have no name"
                one.ask(f"the header names {wide} columns and the rows have {rows}: {end}")
            _add_details(one, part)
            for doubt in _DOUBTS:
                doubt(one, part)
            out.append(one)
    return sorted((one for one in out if one.score >= _ENOUGH), key=lambda one: -one.score)


def _candidates(table: ProfiledTable, given: Mapping[str, Any]) -> Iterator[Candidate]:
    """What every shape makes of the columns."""
    if (square := _matrix(table)) is not None:
        yield square
        return
    yield from _candidate_columns(table)
    extremes = list(_best_worst(table))
    yield from extremes
    for look_for in (_rankings, _lists, _pairs_as_columns, _one_row_an_item):
        yield from look_for(table)
    said = [given[name] for name in ("winner", "loser") if name in given]
    if len(said) == 2 and {*said} <= table.columns.keys():
        score, why = _SCORES["winner and loser as said"], ("as said", "as said")
        found = _won_lost("winner and loser", said[0], said[1], score, why, "likely")
        found.explicit = True
        yield found
    elif len(said) < 2 and not extremes:
        yield from _winner_loser(table)
    raters = given.get("raters", ())
    raters = [one.strip() for one in (raters.split(",") if isinstance(raters, str) else raters)]
    for pair in _item_pairs(table)[:3]:
        choices, numbers = list(_choices(table, pair)), list(_two_numbers(table, pair))
        _prefer_choice(choices, numbers, table, pair)
        yield from choices
        yield from _two_results(table, pair)
        yield from _annotators(table, pair, raters)
        yield from numbers
    yield from _slates(table)


# -- the readings


_ORDER = {"left": 0, "right": 1, "tie": 2, "both_bad": 3, "skip": 4}
# An option of these that is given says what shape the mapping has.
_SHAPING = (
    "left", "right", "winner", "loser", "items", "ranks", "ranking", "best", "matrix", "wins",
    "raters", "pairs", "group", "ties", "middle",
)  # fmt: skip


def _in_order(values: Mapping[str, str]) -> dict[str, str]:
    """A coding in the order in which people read it."""
    return dict(sorted(values.items(), key=lambda one: (_ORDER.get(one[1], 5), one[0])))


def _readings(found: list[Candidate], given: Mapping[str, Any]) -> tuple[Reading, ...]:
    """The likeliest reading, its own alternatives, and others that are nearly as likely."""
    out: list[Reading] = []
    for place, one in enumerate(found):
        if "values" in given:
            one.doubts = [doubt for doubt in one.doubts if doubt not in one.of_codes]
        if one.score < found[0].score - _FARTHEST and out:
            continue
        near = out and one.score > found[0].score - 1.0
        if near and out[0].confidence == "certain" and one.explicit:
            out[0] = replace(out[0], confidence="likely")
        shown = ", ".join(f"{role.role} {role.column}" for role in one.roles[:4])
        ways = [({}, f"{one.shape}: {shown}"), *(one.others if place == 0 else ())]
        for changed, difference in ways:
            options = {k: v for k, v in {**one.options, **changed}.items() if v is not None}
            options = {k: v for k, v in options.items() if given.get(k) != NONE}
            if "values" in options:
                options["values"] = _in_order(options["values"])
            known = any(options == other.options for other in out)
            if known or len(out) >= _MOST_READINGS or not _agrees(options, given):
                continue
            certain = one.explicit and not one.doubts and not out and not changed
            clear: Confidence = "certain" if certain else "possible" if out else "likely"
            # What is read without asking is sure in all its parts.
            roles = tuple(replace(role, sure="certain") if certain else role for role in one.roles)
            doubts, apart = tuple(one.doubts), difference if out else ""
            out.append(Reading("table", options, clear, one.shape, roles, doubts, apart))
    return tuple(out)


def _agrees(options: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Whether a reading says nothing else than what was given."""
    return all(
        spelled(options[name]) == spelled(value) if name in options else name not in _SHAPING
        for name, value in given.items()
    )


# -- columns of items


@dataclass
class Items:
    """Columns that may hold the items, or one with all of them."""

    columns: tuple[str, ...]
    score: float
    why: str
    #: The names in each row.
    rows: Sequence[tuple[str, ...]]
    options: dict[str, Any]
    doubts: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, a: ColumnProfile, b: ColumnProfile, score: float, why: str) -> Items:
        """Two columns."""
        cells = list(zip(a.values, b.values, strict=True))
        return cls((a.name, b.name), score, why, cells, {"left": a.name, "right": b.name})

    @property
    def sides(self) -> tuple[str, str]:
        """The columns that tell the sides, for words such as repo_a."""
        return (self.columns[0], self.columns[1]) if len(self.columns) > 1 else ("", "")

    @cached_property
    def whole(self) -> list[tuple[str, ...]]:
        """The rows in which both are named."""
        return [pair for pair in self.rows if all(pair)]

    @property
    def words(self) -> set[str]:
        """The words of the names of its columns."""
        return {word for name in self.columns for word in tokens(name)}

    def roles(self) -> list[Role]:
        """Its columns as items, as surely as their names and values say."""
        sure: Confidence = "likely" if self.score >= _SURE_ITEMS / 2 else "possible"
        if self.score >= _SURE_ITEMS and len(self.columns) == 2 and not self.doubts:
            sure = "certain"
        return _roles("item", self.columns, self.why, sure)

    def candidate(self, shape: str, kind: str, outcome: list[Role], **more: Any) -> Candidate:
        """The candidate of these items with other columns, whose options are `more`."""
        score = _SCORES[kind] + self.score / 2
        return Candidate(
            shape, {**self.options, **more}, score, [*self.roles(), *outcome], list(self.doubts),
            items=self.columns,
        )  # fmt: skip


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
    for pair in _pairs(numbers):
        for one in numbers:
            if one.called(_WON | _CHOICE) and one.name not in pair:
                rows = table.rows(one.name, *pair, whole=True)
                first = share(rows, lambda row: row[0] == row[1])
                if 0 < first < share(rows, lambda row: row[0] in row[1:]) == 1:
                    yield pair


def _overlap(a: ColumnProfile, b: ColumnProfile) -> float:
    """The share of the smaller vocabulary that the other has too."""
    small, large = sorted((set(a.counts), set(b.counts)), key=len)
    return len(small & large) / len(small) if small else 0.0


def _pair_score(a: ColumnProfile, b: ColumnProfile, *, related: bool) -> tuple[float, str]:
    """How likely two columns hold the items of the same comparisons."""
    common = _overlap(a, b)
    again = (a.n + b.n) / max(1, a.n_distinct + b.n_distinct)
    words = {*a.words, *b.words}
    called = words & {"id", "name", "number", "idx"}
    measures = words & (_RANK | _SCORE | _NO_SCORE | _WHEN | _TOOK) and not called
    score = 3 * common + 2.0 * related + (again >= 2) + (again >= 4) + bool(words & _ITEM)
    if a.numeric or b.numeric:
        # Numbers are names where they are called so, and else hardly ever.
        score -= 1.5 + 3 * bool(measures)
        score -= 0 if words & _ITEM else 1.5 if called else 2.5
    if words & _NO_ITEMS:
        score -= 2
    if a.n_distinct == a.n and b.n_distinct == b.n and a.n > 20 and common < 0.2:
        score -= 3
    why = f"{percent(common)} of the names of one are in the other" if common else "a pair by name"
    return score, why


def _item_pairs(table: ProfiledTable) -> list[Items]:
    """Pairs of columns that may hold the two items, the likeliest first."""
    answers = {name for found in _pairs_as_columns(table) for name in found.options["pairs"]}
    columns = [
        one for one in _names_like(table)
        if not (one.is_constant and one.numeric) and not one.is_yes_or_no
        and one.name not in answers
    ]  # fmt: skip
    related = dict.fromkeys(_pairs(columns))
    in_pair = {name for pair in related for name in pair}
    found: list[Items] = []
    for first, second in combinations(columns, 2):
        a, b = (second, first) if (second.name, first.name) in related else (first, second)
        is_related = (a.name, b.name) in related
        alone = [
            one.name not in in_pair and not one.is_constant
            and (not one.numeric or _names_numbers(one))
            for one in (a, b)
        ]  # fmt: skip
        if not is_related and (_overlap(a, b) < 0.5 or not all(alone)):
            continue
        same = a.is_constant and b.is_constant and a.counts == b.counts
        # The one that won and the one that lost are a reading of their own.
        same = same or _are_won_and_lost(a, b) or _are_won_and_lost(b, a)
        # Three numbers may be items that are called so.
        coded = all(map(_is_outcome_like, (a, b))) and not (
            a.called(_ITEM) and "3" in {*a.counts, *b.counts}
        )
        score, why = _pair_score(a, b, related=is_related)
        if is_related and score < _SURE_ITEMS and _said_to_be_compared(a, b, table):
            score, why = _SURE_ITEMS, "by their names, and that of the column of choices"
        pair = Items.of(a, b, score, why)
        if not (same or coded) and pair.whole:
            found.append(_composed(pair, table, related))
    # Columns that are not called alike hold different names in each row.
    found = [
        one for one in found
        if one.columns[:2] in related or share(one.whole, lambda pair: pair[0] == pair[1]) < 0.05
    ]  # fmt: skip
    if any(_is_plain(one, table) for one in found):
        # Where names stand in two columns, no others are made of four.
        found = [one for one in found if len(one.columns) == 2]
    for one in found:
        if (winner := _named_winner(one, table)) is not None:
            one.score += 3
            one.why = f"each value of {winner} is one of the two"
    found += [*_combined(table), *_pointed_at(table)]
    found = _without_marks([one for one in found if one.score >= _SCORES["pair by name"]])
    return sorted(found, key=lambda one: -one.score)


def _are_won_and_lost(a: ColumnProfile, b: ColumnProfile) -> bool:
    return (a.called(_WON | _BEST) and not a.called(_NOT)) and (
        b.called(_WORST) or _says_lost(b, a)
    )


def _said_to_be_compared(a: ColumnProfile, b: ColumnProfile, table: ProfiledTable) -> bool:
    """Whether names alone say that two columns hold what was compared: left_id, right_id, choice.

    Or a1, a2 with a column such as `a1 wins` that says whether that one won.
    """
    words = {*a.words, *b.words}
    ids = {"id"} < words <= {"id", "left", "right", "a", "b", "1", "2"} | _ITEM
    for one in table if not words & (_RANK | _SCORE | _NO_ITEMS | _WHEN) else ():
        if one.is_constant or one in (a, b):
            continue
        if one.is_flag and any(_says_of(one, side) for side in (a, b)):
            return True
        small = one.is_small and one.n >= 3 * one.n_distinct
        if ids and small and {*one.words} <= _CHOICE and not rater_word(one.name):
            return True
    return False


def _says_of(one: ColumnProfile, item: ColumnProfile) -> bool:
    """Whether a column is called by that of an item and by winning: audio1 wins, a is better."""
    own, won = len(item.words), _WON | _WINS
    rest = {*one.words[own:]} - {"is", "was"}
    return one.words[:own] == item.words and bool(rest) and rest <= won


def _without_marks(found: list[Items]) -> list[Items]:
    """Take names of items, and not the signs they played with; and ask."""
    marks = [one for one in found if one.words & _MARKS]
    rest = [one for one in found if one not in marks]
    names = [one for one in rest if one.words & (_ITEM | {"agent", "bot"})]
    if not names or not marks:
        return found
    best = max(names, key=lambda one: one.score)
    unused = [name for one in marks for name in one.columns]
    best.doubts.append(
        f"{listed(best.columns, 2)} are taken for the items, not {listed(unused, 2)}"
    )
    return rest


def _is_plain(items: Items, table: ProfiledTable) -> bool:
    """Whether words that come again name two different items in each row, in two columns."""
    columns = [table[name] for name in items.columns]
    plain = len(columns) == 2 and items.score >= 4 and not items.doubts
    return (
        plain
        and not any(one.numeric for one in columns)
        and sum(one.n_distinct for one in columns) > 4
    )


def _named_winner(items: Items, table: ProfiledTable) -> str | None:
    """A column that names now the one and now the other item of the row."""
    if len(items.columns) != 2:
        return None
    left, right = (set(table[name].counts) for name in items.columns)
    if len(left | right) < 3:
        return None
    for one in table:
        # Who tossed, served first or won before is named in the same way.
        other = one.name in items.columns or one.is_constant or one.called(_TRAP | _BEFORE)
        if other or not set(one.counts) & left & right:
            continue
        rows = table.rows(one.name, *items.columns, whole=True)
        named = share(rows, lambda row: row[0] in row[1:])
        if len(rows) > 2 and named > 0.9 and 0 < share(rows, lambda row: row[0] == row[1]) < named:
            return one.name
    return None


def _pointed_at(table: ProfiledTable) -> Iterator[Items]:
    """Two columns whose own names are the values of a third: baseline, candidate."""
    known = {one.name.casefold(): one for one in _names_like(table)}
    order = list(table.columns)
    for one in table:
        meant = [known[value.casefold()] for value in one.counts if value.casefold() in known]
        if not one.is_small or one.is_constant or len(meant) != 2 or one in meant:
            continue
        a, b = sorted(meant, key=lambda column: order.index(column.name))
        if not _pairs((a, b)):
            yield Items.of(a, b, 4.5, f"{one.name} names these columns")


def _names_numbers(one: ColumnProfile) -> bool:
    """Whether numbers can be names of items, by the name of their column."""
    return not one.is_small and one.called(_ITEM | _WON | _LOST) and not one.called(_NO_SCORE)


def _is_outcome_like(one: ColumnProfile) -> bool:
    """Whether its values are sides or ties, such as A and B."""
    if one.n_distinct > 4 or one.is_constant:
        return False
    meanings = [label_meaning(value) for value in one.counts]
    if any(isinstance(said, int) and said > 2 and " " in value for value, said in
           zip(one.counts, meanings, strict=True)):  # fmt: skip
        # Photo 3 is a name, and no side of two.
        return False
    return None not in meanings or all(value in ("0", "1", "2", "-1") for value in one.counts)


def _composed(items: Items, table: ProfiledTable, related: Iterable[tuple[str, ...]]) -> Items:
    """The same with a second pair of columns that sets equal names apart."""
    same = share(items.whole, lambda pair: pair[0] == pair[1])
    if same < 0.05:
        return items
    best: tuple[float, tuple[str, ...]] = (same / 3, ())
    for pair in related:
        parts = [table[name] for name in pair]
        # What hardly comes again, as counts and times, is no part of a name.
        if pair == items.columns or any(
            one.is_constant or one.n_distinct > 40 or (one.numeric and 2 * one.n_distinct > one.n)
            for one in parts
        ):
            continue
        rows = table.rows(*items.columns, *pair)
        still = share(rows, lambda row: row[0] == row[1] and row[2] == row[3])
        if still < best[0] and not parts[0].called(_RANK | _SCORE | _COUNT):
            best = still, pair
    second = best[1]
    if not second:
        items.doubts.append(
            f"{percent(same)} of the rows compare an item with itself: names may span two columns"
        )
        items.score -= 4 if same > 0.2 else 0
        return items
    composed = tuple(zip(items.columns, second, strict=True))
    names = [[" ".join(both) if all(both) else "" for both in table.rows(*c)] for c in composed]
    return replace(
        items,
        columns=(*items.columns, *second),
        rows=list(zip(names[0], names[1], strict=True)),
        options={"items": tuple("+".join(part) for part in composed)},
        why=f"{items.columns[0]} alone is often the same on both sides",
        score=items.score + 1,
        doubts=["the names are composed of two columns"],
    )


_VERSUS = (" vs. ", " vs ", "_vs_", "-vs-", " VS ", " v ", " or ")
# Names of lists of the two items that were compared.
_PAIRS = ("pair", "models", "systems")
_BETWEEN = (*_VERSUS, "|", ";", ",", "/", " - ", ":", "_", "-")


def _combined(table: ProfiledTable) -> Iterator[Items]:
    """One column with both items, such as `a_b`."""
    for one in table:
        names = one.is_names and not (one.numeric or one.is_constant)
        signs = _BETWEEN if names and one.n_distinct * 2 <= one.n else ()
        for sign in ("\x1f",) if one.is_list else signs:
            cells = [value.split(sign) for value in one.counts]
            if any(len(cell) != 2 or not all(map(str.strip, cell)) for cell in cells):
                continue
            if not one.is_list and all(part.strip().isdigit() for cell in cells for part in cell):
                # 2-1, 3/9: scores and pages
                break
            if _is_pair(cells) or (one.is_list and one.name.casefold() in _PAIRS):
                split = [[part.strip() for part in value.split(sign)] for value in one.values]
                rows = [(cell[0], cell[1]) if len(cell) == 2 else ("", "") for cell in split]
                options: dict[str, Any] = {"items": (one.name,)}
                pair = Items((one.name,), 4.0, "a list of two names", rows, options)
                if not one.is_list:
                    pair.score, pair.why = 3.5, f"two names with {sign!r} between them"
                    pair.options["between"] = sign
                    pair.doubts.append(
                        f"{one.name} is split at {sign!r} into the first and the second item"
                    )
                yield pair
            break


def _is_pair(cells: Sequence[Sequence[str]]) -> bool:
    """Whether the two parts share a vocabulary that is smaller than that of the wholes."""
    first, second = ({cell[i].strip() for cell in cells} for i in (0, 1))
    common = len(first & second)
    return common >= 1 and common * 3 >= min(len(first), len(second)) and len(first | second) > 2


# -- a column that says who won


def _choices(table: ProfiledTable, items: Items) -> Iterator[Candidate]:
    """Two items and a column that says who won."""
    found: list[Candidate] = []
    losers: list[Candidate] = []
    # Whether X is A or B is no preference.
    is_abx = {"a", "b", "x"} <= {name.casefold() for name in table.columns}
    for one in () if is_abx else _choice_columns(table, items):
        reading = _by_item_names(items, one) or _by_codes(table, items, one)
        reading = reading or _by_scale(items, one)
        if reading is None or _is_marked(table, items, one):
            continue
        if (one.called(_LESS) and not one.called(_NOT)) or _is_called_worse(one):
            reading.options["loser"] = reading.options.pop("winner")
            reading.ask(f"{one.name} is taken for the one that lost")
            losers.append(reading)
        else:
            found.append(reading)
    found = _without_guesses(found, table, items)
    if not found:
        # Who lost is said only where nothing says who won.
        yield from losers[:1]
        return
    said = {one.options["winner"]: _outcomes(one, table, items) for one in found}
    for full in found:
        for gappy in found:
            if _fills(said[full.options["winner"]], said[gappy.options["winner"]]):
                gappy.score = min(gappy.score, full.score - 2)

    def place(one: Candidate) -> tuple[float, bool]:
        # Of equals the one that is called the winner, before a favourite.
        words = tokens(one.options["winner"])
        return -one.score - 2 * ("overall" in words), "winner" not in words

    found.sort(key=place)
    # A column that says the same as a better one adds nothing.
    kept = {tuple(said[one.options["winner"]]): one for one in reversed(found)}
    found = [one for one in found if one in kept.values() or not _says_choice(one)]
    _ask_of_other_choices(found, said, table, items)
    yield from found[:3]


def _is_called_worse(one: ColumnProfile) -> bool:
    """Whether its name says that the worse was chosen: noisier, most annoying; no mark of one."""
    return asks_for_worse(one.name) is True and not (one.is_flag or one.called(_CHOICE | _WON))


def _ask_of_other_choices(
    found: list[Candidate],
    said: Mapping[str, list[str | None]],
    table: ProfiledTable,
    items: Items,
) -> None:
    """Ask about what else may be the column of choices, or what it leaves out."""
    first = found[0]
    choice = first.options["winner"]
    columns = [one.options["winner"] for one in found]
    kinds = {_kind_of_values(one) for one in found if not _says_choice(one)}
    if len(found) > 1 == len(kinds) and not any(map(_says_choice, found)):
        first.weak = (
            f"{listed(columns, 6)} have the same values: they may be the choices of several raters "
            f"({_option('raters', columns)}) or the answers to several questions "
            f"({_option('winner', choice)}); say which"
        )
    if twice := _listed_twice(table, items):
        first.weak = (
            f"each comparison stands twice, once from each side, with the same {twice}: "
            f"keep one row of each {twice}"
        )
    if counts := _counted_beside(said[choice], table, items):
        first.weak = (
            f"{listed(counts, 2)} count the answers of a row, and {choice} "
            f"says only which are more; count them with {_option('wins', counts)}"
        )
    near = [one.options["winner"] for one in found[1:] if one.score > first.score - _NEAR]
    if (rival := _rival(columns, said)) is not None:
        first.weak = first.weak or (
            f"{choice} and {rival} both may say who won, and often not the same: say which with "
            f"{_option('winner', choice)} or {_option('winner', rival)}"
        )
    elif near:
        first.ask(f"{listed(near, 6)} could be the column of choices as well")
    elif same := _same_codes(first, table, items):
        first.ask(
            f"{listed(same, 6)} {'have' if len(same) > 1 else 'has'} the same values as "
            f"{choice}: the answers to another question are not read"
        )


def _kind_of_values(one: Candidate) -> frozenset[tuple[str, str]]:
    """What the values of a column of choices mean; nothing where they are names of items."""
    values: Mapping[str, str] = one.options.get("values", {})
    return frozenset(values.items()) if {"left", "right"} & {*values.values()} else frozenset()


def _rival(columns: Sequence[str], said: Mapping[str, list[str | None]]) -> str | None:
    """Another column that is called a choice as well, names who won in most rows and differs."""
    first = tokens(columns[0])
    for column in columns[1:] if "overall" not in first else ():
        words = set(tokens(column))
        if not words & _ANSWER or words & (_TRAP | _PARTLY | _NOT | _LESS):
            continue
        if set(first) < words and "human" not in words:
            # winner before winner_style
            continue
        rows = list(zip(said[columns[0]], said[column], strict=True))
        both = [pair for pair in rows if all(pair)]
        if len(both) > 0.5 * len(rows) and share(both, lambda pair: pair[0] == pair[1]) < 0.98:
            return column
    return None


def _counted_beside(
    said: list[str | None], table: ProfiledTable, items: Items
) -> tuple[str, ...] | None:
    """Two columns of counts of which the larger one won in each row."""
    for pair in _pairs(one for one in table if one.whole and one.beside == "count"):
        counts = table.rows(*_in_file_order(table, items, pair))
        if share(_agreed(counts, said), bool) > 0.95:
            return pair
    return None


def _agreed(numbers: Iterable[Sequence[str]], said: Iterable[str | None]) -> list[bool]:
    """Whether the item with the larger number won, for each row in which one of the two did."""
    gaps = [(number(a) or 0.0) - (number(b) or 0.0) for a, b in numbers]
    return [
        (gap > 0) == (who == "left")
        for gap, who in zip(gaps, said, strict=True)
        if gap and who in ("left", "right")
    ]


def _listed_twice(table: ProfiledTable, items: Items) -> str | None:
    """The column by whose values each pair comes twice, the other way round."""
    for one in table:
        if one.name in items.columns or {*one.counts.values()} != {2}:
            continue
        rows: dict[str, list[tuple[str, ...]]] = {}
        for value, pair in zip(one.values, items.rows, strict=True):
            rows.setdefault(value, []).append(pair)
        twice = [pairs for value, pairs in rows.items() if value and len(pairs) == 2]
        if share(twice, lambda pairs: pairs[0] == pairs[1][::-1]) > 0.95:
            return one.name
    return None


def _same_codes(one: Candidate, table: ProfiledTable, items: Items) -> list[str]:
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
        and not other.called(_EXPECTED | _ALIKE)
        and other.words[-1:] != ["ba"]
        and not _is_given_by_items(items, other)
    ]


def _choice_columns(table: ProfiledTable, items: Items) -> Iterator[ColumnProfile]:
    """Columns that may say who won."""
    numbers = {name for pair in _number_pairs(table) for name in pair}
    odds = any(one.called(_EXPECTED) and one.numeric for one in table)
    for one in table:
        flag = one.is_yes_or_no or {*one.counts} <= {"0", "1"}
        ruled_out = (
            one.name in (*items.columns, *numbers)
            or one.is_list
            or not one.counts
            or (one.is_text and not one.is_names)
            # Beside winner_ab, winner_ba holds what was said with the sides swapped.
            or one.words[-1:] == ["ba"]
            or one.called(_EXPECTED | _ALIKE | _BEFORE)
            or (one.called(_AT_FIRST) and not one.called(_CHOICE))
            or (odds and one.called(_FAVOURED))
            # A flag for ties says nothing of who won.
            or (flag and one.called(_TIE))
            or (one.is_constant and one.n > 3)
            or _names_marks(one, items, table)
        )
        if not ruled_out:
            yield one


def _names_marks(one: ColumnProfile, items: Items, table: ProfiledTable) -> bool:
    """Whether its values are signs that other columns give to the items: X, O."""
    if not one.called(_MARKS) or items.words & _MARKS:
        return False
    signs = [table[pair[0]] for pair in families(table.columns) if {*tokens(pair[0])} & _MARKS]
    return any(set(one.counts) & set(sign.counts) for sign in signs)


def _is_opposite(one: ColumnProfile, found: Candidate, table: ProfiledTable) -> bool:
    """Whether it says yes where the column of choices says no: the mark of the other item."""
    name = found.options.get("winner", one.name)
    return one.name != name and _is_one_or_other(table, (name, one.name))


def _number_pairs(table: ProfiledTable) -> list[tuple[str, ...]]:
    """Pairs of columns with a number or a mark for each item, such as k1 and k2: no choices."""
    found = []
    for family in families(
        one.name for one in table if one.counts and (one.is_yes_or_no or one.numeric)
    ):
        words = {word for name in family for word in tokens(name)}
        marks = table[family[0]].is_yes_or_no
        is_choice = len(family) == 2 and _is_one_or_other(table, family)
        if words & (_RANK | _SCORE | _COUNT):
            is_choice = is_choice and marks
        else:
            is_choice = is_choice or len(family) != 2 or bool(words & _CHOICE and not marks)
        if words and not is_choice:
            found.append(family)
    return found


def _is_one_or_other(table: ProfiledTable, columns: Sequence[str]) -> bool:
    """Whether in each row exactly one of several columns is marked, which is a choice."""
    both = [table[name] for name in columns]
    if any(one.n_distinct != 2 or not one.is_flag for one in both):
        return False
    rows = [[cell.casefold() in YES for cell in row] for row in table.rows(*columns, whole=True)]
    return bool(rows) and all(sum(row) == 1 for row in rows)


def _two_results(table: ProfiledTable, items: Items) -> Iterator[Candidate]:
    """A word for how the game ended for each item, of which only one is a win: chess.com."""
    words = [one for one in table if one.is_small and not one.numeric and "result" in one.words]
    for pair in _pairs(words) if len(items.columns) == 2 else ():
        if items.columns == pair:
            continue
        first, second = (table[name] for name in _in_file_order(table, items, pair))
        rows = table.rows(first.name, second.name, whole=True)
        won = [value for value in first.counts if value.casefold() in ("win", "won", "w")]
        if len(won) != 1 or any(a == b == won[0] for a, b in rows):
            continue
        meaning = {won[0]: "left"}
        for value in first.counts.keys() - {*won}:
            against = {b == won[0] for a, b in rows if a == value}
            if len(against) == 1:
                meaning[value] = "right" if against.pop() else "tie"
        if len(meaning) == first.n_distinct:
            why = f"a win where {second.name} is none"
            found = _choice_reading(items, first, why, "two results", values=meaning)
            found.used.add(second.name)
            found.doubts.append(
                f"where neither {first.name} nor {second.name} is a win, it is a tie"
            )
            yield found


def _without_guesses(found: list[Candidate], table: ProfiledTable, items: Items) -> list[Candidate]:
    """Readings whose column of choices is called so; another only where no other one is left."""
    unsaid = [one for one in found if one.unsaid]
    if len(unsaid) < len(found) or not unsaid:
        return [one for one in found if not one.unsaid]
    if len(unsaid) > 1:
        # Several of the same codes are asked about.
        codings = {frozenset(one.options.get("values", {}).items()) for one in unsaid}
        return unsaid if len(codings) == 1 else []
    column = table[unsaid[0].options["winner"]]
    others = any(
        other.counts
        and other.name not in (*items.columns, column.name)
        and not (other.is_constant or other.is_text or other.is_list)
        and not (rater_word(other.name) or other.called(_WHEN | _TOOK))
        and other.n > other.n_distinct
        for other in table
    )
    # 1 and 2 are places; 0 and 1, yes and no may say anything, such as that two are alike.
    vague = column.is_yes_or_no or (column.numeric and (others or column.low < 1))
    return [] if vague else unsaid


def _outcomes(one: Candidate, table: ProfiledTable, items: Items) -> list[str | None]:
    """What a column of choices says in each row; None where it is empty."""
    values: Mapping[str, str] = one.options.get("values", {})
    cells = table[one.options["winner"]].values
    return [
        (values.get(value) or {b: "right", a: "left"}.get(value, value)) if value else None
        for value, (a, b) in zip(cells, items.rows, strict=True)
    ]


def _fills(full: list[str | None], gappy: list[str | None]) -> bool:
    """Whether a column says the same as another, and something where that one is empty: ties."""
    both = list(zip(full, gappy, strict=True))
    gaps = [said for said, other in both if other is None]
    agreed = share((pair for pair in both if all(pair)), lambda pair: pair[0] == pair[1])
    return len(gaps) * 100 > len(both) and share(gaps, bool) > 0.9 and agreed > 0.95


def _prefer_choice(
    choices: Sequence[Candidate],
    numbers: Iterable[Candidate],
    table: ProfiledTable,
    items: Items,
) -> None:
    """Put who won before the scores: only it knows of games that do not count."""
    for scores in numbers:
        pair = scores.options.get("ranks", ())
        for choice in filter(_says_choice, choices) if len(pair) == 2 else ():
            agreed = _agreed(table.rows(*pair), _outcomes(choice, table, items))
            same, winner = share(agreed, bool), choice.options["winner"]
            named = not {*tokens(winner)} & (_TRAP | _PARTLY | _SCORE - {"result", "results"})
            if same > 0.95 or (agreed and named):
                choice.score = max(choice.score, scores.score + 0.5)
                choice.used |= {*pair}
                if same <= 0.95:
                    choice.ask(
                        f"{winner} says otherwise than {pair[0]} and {pair[1]} "
                        f"in {percent(1 - same)} of the rows: the scores are not read"
                    )


def _says_choice(one: Candidate) -> bool:
    """Whether the name of the column of choices says that it is one."""
    return bool(set(tokens(one.options["winner"])) & _CHOICE)


def _choice_reading(
    items: Items, one: ColumnProfile, why: str, kind: str, **more: Any
) -> Candidate:
    """Two items and a column of choices, by its values and its name."""
    role = [Role("outcome", one.name, why)]
    found = items.candidate("two items and who won", kind, role, winner=one.name, **more)
    if kind in ("names of winners", "words", "codes"):
        found.score += 2.0 * one.called(_CHOICE) - 2.0 * one.called(_TRAP)
    return found


def _by_item_names(items: Items, one: ColumnProfile) -> Candidate | None:
    """The column holds the name of the item that won."""
    cells = [(v, a, b) for v, (a, b) in zip(one.values, items.rows, strict=True) if v and a and b]
    is_won = one.called(_WON)
    short = _short_names(cells) if is_won or one.called(_CHOICE) else {}
    cells = [(short.get(v, v), a, b) for v, a, b in cells]
    named = [row for row in cells if row[0] in row[1:]]
    if len(named) < 2 or len(named) < 0.3 * len(cells):
        return None
    others = Counter(v for v, a, b in cells if v not in (a, b))
    neither = [value for value in others if _third_value(value) is None]
    stray = bool(neither) and is_won and len(named) >= 0.9 * len(cells)
    meaning = dict(short)
    doubts = [f"{value!r} is taken for {name!r}" for value, name in list(short.items())[:3]]
    for value, n in others.items():
        meaning[value] = _third_value(value) or "skip"
        is_skip = " ".join(tokens(value)) in SKIPS
        if not stray and (value in neither or (is_skip and len(others) > SMALL)):
            return None
        if value in ("=", "=="):
            doubts.append(f"{value!r} is taken for a tie")
        elif is_skip and not isinstance(label_meaning(value), str):
            doubts.append(f"{value!r} is taken for no answer")
        elif value in neither:
            doubts.append(f"{value!r} ({counted(n, 'row')}) names neither item: left out")
    # The name of one side again is not that of the winner.
    first = share(named, lambda row: row[0] == row[1])
    if (first in (0.0, 1.0) and len(named) > 20 and not is_won) or _is_given_by_items(items, one):
        return None
    why = f"its values are names of the two items of the row ({percent(len(named) / len(cells))})"
    found = _choice_reading(items, one, why, "names of winners")
    # Most rows say nothing here, such as games without a shootout.
    found.score -= 4 * (one.n_empty / max(1, len(one.values)) > 0.5)
    known = {name for pair in items.rows for name in pair}
    if stray and (len(neither) > _MOST_STRAYS or known & {*neither} or not _can_be_typed(neither)):
        # One that is an item elsewhere, or many: no list of values to leave out.
        found.leave_open(
            f"{one.name} names neither of the two items in {sum(others[v] for v in neither):,} of "
            f"{counted(len(cells), 'row')} ({listed(map(repr, neither), 3)}): correct these cells, "
            f"or add {_option('winner', one.name)} with --max-skipped to leave them out", "winner",
        )  # fmt: skip
    elif meaning:
        found.options["values"] = meaning
        found.doubts += doubts
    if one.called(_CHOICE) and not doubts:
        found.roles[-1] = replace(found.roles[-1], sure="certain")
    found.explicit = not doubts and one.called(_CHOICE) and not found.doubts
    return found


def _can_be_typed(words: Iterable[str]) -> bool:
    """Whether the command line, which parts words with commas and equals signs, can hold them."""
    return not any(sign in word for word in words for sign in ",=")


def _third_value(value: str) -> str | None:
    """What a value means beside the names of two items."""
    return "tie" if value in ("=", "==") else third_meaning(value)


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


def _right_answers(columns: Iterable[ColumnProfile]) -> list[str]:
    """Columns that say whether an answer was right; not whether one of two items was."""
    flags = [one for one in columns if one.is_flag and one.called(_RIGHT - {"right", "hit"})]
    sided = {name for family in families(one.name for one in flags) for name in family}
    alone = [one for one in flags if one.name not in sided and not side_named(one, ("", ""))]
    return [one.name for one in alone if one.n_distinct == 2 and "check" not in one.words]


def _is_marked(table: ProfiledTable, items: Items, one: ColumnProfile) -> bool:
    """Whether another column says if this answer is the right one: a test, and no preference.

    Of two items all tests make a preference for the one that was oftener right.
    """
    if _right_answers(table) and len({name for pair in items.whole for name in pair}) == 2:
        return True
    flags = [flag for flag in table if flag.n_distinct == 2 and flag.called(_RIGHT)]
    marks = [[value.casefold() in YES for value in flag.values] for flag in flags]
    return any(
        [a == b for a, b in zip(one.values, other.values, strict=True)] in marks
        for other in (table if marks else ())
        if other is not one and {*other.counts} == {*one.counts} and other.values != one.values
    )


def _coding(table: ProfiledTable, items: Items, one: ColumnProfile) -> Coding | None:
    """What the words or codes of a column mean for two items."""
    sides = items.sides if len(items.columns) == 2 else ("", "")
    return coding(one, sides, _first_number(table, one.name), mixed=_are_mixed(items))


def _by_codes(table: ProfiledTable, items: Items, one: ColumnProfile) -> Candidate | None:
    """The column holds words or codes for the sides."""
    found = _coding(table, items, one) if one.is_small else None
    if found is None or _is_given_by_items(items, one):
        return None
    if len(items.columns) == 2 and not (found.sided or found.open or families(items.columns)):
        _ask_of_sides(found, items)
    shown = ", ".join(f"{value}={said}" for value, said in found.values.items())
    why = f"few values, which say who won: {shown}"
    reading = _choice_reading(items, one, why, "words" if found.explicit else "codes")
    named = one.called(_CHOICE) or _is_unnamed([one])
    if not named and side_named(one, items.sides) is None:
        found.doubts.append(f"only its values say that {one.name} is the column of choices")
        reading.unsaid = not found.sided
    else:
        named = True
    reading.score -= 1.5 * (not {"left", "right"} <= {*found.values.values()})
    reading.score -= 2 * (one.n_empty / max(1, len(one.values)) > 0.5)
    # left and right of left_system and right_system, beside system_1 and system_2
    reading.score += 1.5 * found.sided
    sure: Confidence = "possible" if reading.unsaid or found.others else "likely"
    if found.explicit and named and not found.doubts:
        sure = "certain"
    reading.roles[-1] = replace(reading.roles[-1], sure=sure)
    if not found.explicit or any(value != said for value, said in found.values.items()):
        reading.options["values"] = found.values
    _take_codes(reading, found, one.name)
    reading.explicit = found.explicit and not reading.doubts and one.called(_CHOICE)
    return reading


def _ask_of_sides(found: Coding, items: Items) -> None:
    """Ask about sides of two columns of which only the order in the file says which is which."""
    swapped = mirrored(found.values)
    value, said = next(
        (v, said) for v, said in _in_order(found.values).items() if swapped[v] != said
    )
    first, second = items.columns if said == "left" else items.columns[::-1]
    known = any(other == swapped for other, _ in found.others)
    found.doubts.append(f"{value!r} is taken for {first}, by the order of the columns")
    if not known:
        found.others.append((swapped, f"{value!r} is {second}"))


def _take_codes(reading: Candidate, found: Coding, column: str) -> None:
    """Take over the doubts of a coding, and ask where its codes may as well mean the opposite."""
    reading.sided = True
    reading.of_codes = found.doubts
    reading.doubts = list(dict.fromkeys(reading.doubts + found.doubts))
    reading.others = [({"values": other}, difference) for other, difference in found.others]
    if found.open:
        ways = [found.values, *(other for other, _ in found.others)]
        said = " or ".join(f"-O values={spelled(_in_order(way))}" for way in ways)
        reading.leave_open(
            f"{column} may say who won, but nothing says what {listed(sorted(found.values), 8)} "
            f"mean there; say it with {said}", "values",
        )  # fmt: skip


# The ends of scales, and what stands in the middle.
_SCALES = ((0, 100, 50), (-100, 100, 0), (-50, 50, 0), (0, 1, 0.5), (-1, 1, 0))


def _by_scale(items: Items, one: ColumnProfile) -> Candidate | None:
    """The column holds a place on a scale from one item to the other."""
    if not (one.numeric and one.called(_SCALE)) or one.is_small:
        return None
    # The narrowest of which both halves are used.
    fits = [
        scale for scale in _SCALES
        if scale[0] <= one.low < scale[2] < one.high <= scale[1]
    ]  # fmt: skip
    if not fits:
        return None
    low, high, middle = min(fits, key=lambda scale: (scale[1] - scale[0], -scale[0]))
    why = f"a scale from {low} to {high}"
    found = _choice_reading(items, one, why, "a scale", middle=middle)
    found.doubts.append(f"below {middle:g} is taken for {items.columns[0]}, above it for the other")
    if not {"left", "right"} <= {word for side in items.sides for word in tokens(side)}:
        found.leave_open(
            f"{one.name} may be a scale from one item to the other, but nothing says which is at "
            f"{low}; name the columns as -O left=… and -O right=…, with -O middle={middle:g}",
            "middle",
        )
    return found


def _are_mixed(items: Items) -> bool:
    """Whether each item stands on the left about as often as on the right."""
    more = Counter(left for left, _ in items.whole)
    more.subtract(right for _, right in items.whole)
    return sum(map(abs, more.values())) < 0.6 * len(items.whole)


def _first_number(table: ProfiledTable, choice: str = "") -> int | None:
    """The number from which columns count two things, as in model_1 and model_2."""
    if {"trial_type", "rt"} <= table.columns.keys():
        # jsPsych numbers its buttons from 0.
        return 0
    found = {
        tuple(word for word in tokens(pair[1]) if word in ("1", "2"))
        for pair in _pairs(table)
        if choice not in pair and {*tokens(pair[0])} & (_ITEM | _SHOWN)
    }
    first = {int(words[0]) - 1 for words in found if len({*words}) == 1}
    return first.pop() if len(first) == 1 else None


def _is_given_by_items(items: Items, one: ColumnProfile) -> bool:
    """Whether the items alone decide the value, so that it is no answer about them."""
    by_pair: dict[tuple[str, ...], list[str]] = {}
    for pair, value in zip(items.rows, one.values, strict=True):
        if all(pair) and value:
            by_pair.setdefault(pair, []).append(value)
    again = [values for values in by_pair.values() if len(values) > 1]
    if sum(len(values) - 1 for values in again) < 5:
        return False
    # Where a pair comes up many times, people hardly ever agree on all of them.
    agreed = all(len({*values}) == 1 for values in again)
    return agreed and (len(again) < 4 or not one.called(_CHOICE))


def _annotators(table: ProfiledTable, items: Items, said: Sequence[str]) -> Iterator[Candidate]:
    """Two items, and one column of choices a rater; those `said` to be, or by their names."""
    groups: dict[str, list[ColumnProfile]] = {}
    free = [
        one for one in table
        if (one.is_small or one.is_names) and not one.is_constant and one.name not in items.columns
    ]  # fmt: skip
    for one in free:
        who = rater_word(one.name)
        # Users may be the items: userA_won says something of one of them.
        if who and not (who == "user" and "user" in items.words):
            groups.setdefault(who, []).append(one)
    for family in families(one.name for one in free):
        stem = {word for word in tokens(family[0]) if not word.isdigit()}
        short = tokens(family[0])[0] in _PEOPLE or (len(stem) == 1 and stem <= _ANSWER)
        if len(family) > 2 and short:
            groups.setdefault(family[0], [table[name] for name in family])
    if said:
        groups = {"": [table[name] for name in said if name in table.columns]}
    for every in groups.values():
        # What was made of the answers of several is no answer of its own.
        group = [one for one in every if said or not one.called(_AGREED)]
        if len(group) < 2:
            continue
        names = tuple(one.name for one in group)
        cells = [value for one in group for value in one.values]
        together = ColumnProfile.of(names[0], cells, {}, is_list=False)
        named = _by_item_names(replace(items, rows=[*items.rows] * len(group)), together)
        if named is not None and not named.weak:
            values = named.options.get("values", {})
            found: Coding | None = Coding(values, explicit=True, doubts=named.doubts)
        else:
            found = _coding(table, items, together)
        if found is None:
            continue
        roles = _roles("outcome", names, "the choices of one rater")
        shape = "two items and a column of choices for each rater"
        reading = items.candidate(shape, "raters as columns", roles, raters=names)
        if found.values:
            reading.options["values"] = found.values
        _take_codes(reading, found, names[0])
        words = [frozenset(word for word in one.words if not word.isdigit()) for one in group]
        if 1 < len({*words}) < len(words):
            # annotator1_fluency, annotator2_fluency, annotator1_adequacy
            reading.leave_open(
                reading.weak or f"{listed(names, 4)} may be the answers of raters to several "
                "questions; say which columns to read with -O raters=…", "raters",
            )  # fmt: skip
        yield reading


# -- two columns that say who won and who lost


def _winner_loser(table: ProfiledTable) -> Iterator[Candidate]:
    """Two columns, one of the item that won and one of the item that lost."""
    columns = _names_like(table)
    found: list[Candidate] = []
    won = [one for one in columns if one.called(_WON | {"w"}) and not one.called(_NOT)]
    for a in (one for one in won if not (one.is_constant and one.n > 3)):
        for b in (one for one in columns if one is not a and _says_lost(one, a)):
            same = share(table.rows(a.name, b.name), lambda row: row[0] == row[1] != "")
            coded = a.is_small and _is_outcome_like(a) and not _are_letters(a, b)
            if same > 0.2 or coded:
                continue
            common = _overlap(a, b)
            score, why = _pair_score(a, b, related=True)
            score += 2.5 - 3 * (common == 0 and a.n > 10)
            if _are_ids_of(a, b):
                score = max(score, _SCORES["winner and loser as said"] / 2 + 3 * common)
            word = {*a.words} & {"winner", "won", "chosen", "preferred"}
            sure: Confidence = "certain" if word and common > 0 else "likely"
            found.append(_won_lost("winner and loser", a.name, b.name, score, (why, why), sure))
    found.sort(key=lambda reading: -reading.score)
    if len(found) > 1:
        first, second = ((table[c] for c in one.items) for one in found[:2])
        one_to_one = all(x.n_distinct == y.n_distinct for x, y in zip(first, second, strict=True))
        found[0].explicit = found[0].explicit and one_to_one
    yield from found[:1]
    if not found and len(table.columns) <= 4:
        yield from _bare_pair(table)


def _are_ids_of(won: ColumnProfile, lost: ColumnProfile) -> bool:
    """Whether names say that two columns of ids name who won and who lost: Winner ID, Loser ID."""
    words = ({*won.words} & {"winner", "won"}, {*lost.words} & {"loser", "lost"})
    rest = ({*won.words} - words[0], {*lost.words} - words[1])
    return all(words) and rest[0] == rest[1] and bool(rest[0] & (_IDS | _ITEM | {"number"}))


def _won_lost(
    shape: str, winner: str, loser: str, score: float, why: tuple[str, str], sure: Confidence
) -> Candidate:
    roles = [Role("winner", winner, why[0], sure), Role("loser", loser, why[1], sure)]
    return Candidate(
        shape, {"winner": winner, "loser": loser}, score, roles, items=(winner, loser),
        explicit=sure == "certain",
    )  # fmt: skip


def _are_letters(winner: ColumnProfile, loser: ColumnProfile) -> bool:
    """Whether letters name three or more items, and are not the two sides."""
    both = {*winner.counts, *loser.counts}
    named = not any(isinstance(label_meaning(value), str) for value in both)
    rows = zip(winner.values, loser.values, strict=True)
    return named and len(both) > 2 and all(a != b for a, b in rows if a and b)


def _bare_pair(table: ProfiledTable) -> Iterator[Candidate]:
    """Two columns without a heading that says which won: by custom the first."""
    columns = [one for one in _names_like(table) if not one.is_constant]
    pairs = [pair for pair in combinations(columns, 2) if _overlap(*pair) >= 0.3]
    names = [one.name for one in columns if not one.numeric]
    if not _is_unnamed(table) or not pairs or _ballots(table, names):
        return
    a, b = max(pairs, key=lambda pair: _overlap(*pair))
    rest = [one for one in table if one not in (a, b)]
    codes = [
        one.name for one in rest
        if one.numeric and one.is_small and one.n >= 3 * one.n_distinct
        and -_HIGHEST_CODE <= one.low < 0 and one.high <= _HIGHEST_CODE
    ]  # fmt: skip
    if not _numbers_after(table, (a.name, b.name)) and not any(
        _is_outcome_like(one) or coding(one) for one in rest
    ):
        # No other column says who won.
        score = _SCORES["pair without a header"] + 2 * _overlap(a, b)
        why = ("by custom before the loser", "after it")
        shape = "winner and loser without a header"
        found = _won_lost(shape, a.name, b.name, score, why, "possible")
        swapped = {"winner": b.name, "loser": a.name}
        doubt = f"nothing in the file says that {a.name} holds the winner"
        found.ask(doubt, swapped, f"{b.name} holds the winner")
        if codes:
            found.leave_open(
                f"{a.name} and {b.name} may hold the compared items, and {listed(codes, 3)} codes "
                "that say who won or which rows count, but nothing says what they mean; say it "
                f"with {_option('left', a.name)} {_option('right', b.name)} "
                f"{_option('winner', codes[0])} -O values=…, or with {_option('winner', a.name)} "
                f"{_option('loser', b.name)}, and perhaps --rows", "winner",
            )  # fmt: skip
        yield found


def _is_unnamed(columns: Iterable[ColumnProfile]) -> bool:
    """Whether the columns have no names of their own."""
    return all(one.words[:1] == ["column"] and one.words[-1].isdigit() for one in columns)


def _says_lost(one: ColumnProfile, winner: ColumnProfile) -> bool:
    if "w" in winner.words:
        # WTeam and LTeam
        return ["l" if word == "w" else word for word in winner.words] == one.words
    return one.called(_LOST) or (one.called(_NOT) and one.called(_WON & {*winner.words}))


# -- ranks, scores, counts


def _two_numbers(table: ProfiledTable, items: Items) -> Iterator[Candidate]:
    """Two items with a rank, a score or a number of wins each."""
    if len(items.columns) != 2:
        return
    pairs = [
        _in_file_order(table, items, pair) for pair in _pairs(one for one in table if one.numeric)
        if not set(pair) & set(items.columns) and not all(table[name].is_constant for name in pair)
        # Numbers with names of their own are ids.
        and not {f"{name}.name" for name in pair} <= table.columns.keys()
    ]  # fmt: skip
    won, lost = (
        [one.name for one in table if one.numeric and one.called(words)
         and {*one.words} - _COUNT <= words]
        for words in (_WINS, _LOSSES)
    )  # fmt: skip
    pairs += [(won[0], lost[0])] if won and lost else []
    readings = [reading for pair in pairs if (reading := _with_numbers(table, items, pair))]
    in_order = [*_pairs(table), (*won[:1], *lost[:1])]
    for reading in readings if families(items.columns) else ():
        name = "ranks" if "ranks" in reading.options else "wins"
        pair = reading.options[name]
        if pair not in in_order:
            # In the file they stand the other way round than they count.
            reading.others.insert(0, ({name: pair[::-1]}, f"{pair[1]} is of {items.columns[0]}"))
            reading.leave_open(
                f"nothing says which of {pair[0]} and {pair[1]} is of {items.columns[0]}; name it "
                f"first, as in {_option(name, pair)} or {_option(name, pair[::-1])}", name,
            )  # fmt: skip
    yield from _marks(table, items, pairs)
    if not readings and len(pairs) == 1 and _are_points(table, pairs[0]):
        points = _ranked(table, items, pairs[0], is_rank=False)
        points.score -= 1
        yield points
    yield from readings
    if _is_unnamed(table) and (after := _numbers_after(table, items.columns)):
        yield _ranked(table, items, after, is_rank=False)
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
    table: ProfiledTable, items: Items, pairs: Sequence[tuple[str, ...]]
) -> Iterator[Candidate]:
    """A mark for each item and one for a tie, of which each row has one: winner_model_a …"""
    ties = [one.name for one in table if one.called(_TIE) and one.n_distinct == 2]
    flags = _pairs(one for one in table if one.is_yes_or_no)
    for pair, tie in ((p, tie) for p in [*pairs, *flags] for tie in ties if tie not in p):
        if _is_one_or_other(table, (*pair, tie)):
            what = {pair[0]: "the first item won", pair[1]: "the second item won", tie: "a tie"}
            roles = [Role("outcome", name, said) for name, said in what.items()]
            shape = "two items and a mark for who won"
            found = items.candidate(shape, "marks", roles, wins=pair, ties=tie)
            found.explicit = found.sided = True
            yield found


# 3:1, 2 - 2; no date and no span of years.
_BOTH_SCORES = re.compile(r"\d{1,3}\s*([:–-])\s*\d{1,3}")
# 9:05, 17:45: the minutes have two digits, also below ten.
_CLOCK = re.compile(r"(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?")


def _both_scores(table: ProfiledTable, items: Items) -> Iterator[Candidate]:
    """Two items, and their scores in one column."""
    for one in table:
        matches = [_BOTH_SCORES.fullmatch(value) for value in one.counts]
        signs = {match[1] for match in matches if match}
        if one.name in items.columns or len(signs) != 1 or one.n_distinct < 3:
            continue
        is_time = one.called(_WHEN | {"kickoff", "start"}) or all(map(_CLOCK.fullmatch, one.counts))
        if share(matches, bool) < 0.95 or is_time:
            continue
        role = [Role("outcome", one.name, "the score of the first, then the second")]
        shape = "two items with their scores in one column"
        options = {"ranks": (one.name,), "between": signs.pop(), "higher": "better"}
        found = items.candidate(shape, "two numbers", role, **options)
        found.score -= 1.5 * one.called(_HALF_TIME)
        found.doubts.append(f"the first number of {one.name} is the score of {items.columns[0]}")
        found.others.append(({"lower": "better", "higher": None}, "a lower score is better"))
        yield found


def _are_points(table: ProfiledTable, pair: tuple[str, ...]) -> bool:
    """Whether the only two numbers of a row count something from 0 on, as points do."""
    columns = [table[name] for name in pair]
    other = _NO_SCORE | _WHEN | _TOOK | _RANK | _CHOICE | _TRAP | GROUPS
    return (
        all(one.whole and not one.called(other) for one in columns)
        and min(one.low for one in columns) == 0
        and max(one.high for one in columns) > 1
    )


def _one_count(table: ProfiledTable, items: Items) -> Iterator[Candidate]:
    """How often the first item beat the second, and in another row the second the first."""
    pairs = Counter(items.whole)
    back = share(pairs, lambda pair: pair[::-1] in pairs)
    lost = [one for one in table if one.whole and one.called(_LOSSES)]
    if not pairs or max(pairs.values()) > 1 or back < (1 if lost else 0.5):
        return
    first, second = items.columns
    for one in table:
        count = one.whole and one.called(_COUNT) and not one.called(_SCORE | _NO_SCORE)
        if not count or one.name in items.columns or one.low < 0 or one.is_constant:
            continue
        role = [Role("outcome", one.name, "how often the first item won")]
        shape = "how often the first item beat the second"
        found = items.candidate(shape, "one count", role, wins=(one.name,))
        found.doubts.append(f"{one.name} is taken for how often {first} beat {second}")
        found.others = [({"left": second, "right": first}, f"{one.name} counts wins of {second}")]
        if not one.called(_COUNTS_WINS):
            found.leave_open(
                f"{one.name} may be how often {first} beat {second}, or something else, such as "
                f"how many went from the one to the other; if it counts wins, add "
                f"{_option('wins', one.name)} with -O left=… (the one that won) and -O right=…",
                "wins",
            )
        yield found


def _with_numbers(table: ProfiledTable, items: Items, pair: tuple[str, ...]) -> Candidate | None:
    """Two items with ranks, scores or counts of wins, as their names say; None if they do not."""
    columns = [table[name] for name in pair]
    words = {word for one in columns for word in one.words}
    low, high = min(one.low for one in columns), max(one.high for one in columns)
    whole = all(one.whole for one in columns)
    if words & _NO_SCORE or words & _WHEN - {"time"} or (words & _STANDING and high > 500):
        return None
    if words & _COUNT and not words & _SCORE and whole and low >= 0:
        roles = _roles("outcome", pair, "how often the item won")
        found = items.candidate("two items and how often each won", "counts", roles, wins=pair)
        found.doubts.append("a row stands for as many answers as it has wins")
        if mirrored := _mirrored(table, items, pair):
            found.leave_open(
                f"{counted(mirrored, 'pair')} of items stand twice, once from each side with the "
                f"same counts, which would count these answers twice: keep one row of each, or add "
                f"{_option('wins', pair)} if they are different answers", "wins",
            )  # fmt: skip
        if ties := [one.name for one in table if one.numeric and one.called(_TIE)]:
            found.options["ties"] = ties[0]
        found.used |= {*pair, *ties[:1]}
        return found
    is_rank = bool(words & _RANK) and whole
    # A place among all items of the world is none among those of the row; ranks from 0 may as
    # well be scores.
    unclear = is_rank and (high > _LAST_RANK or low == 0)
    if unclear or not (is_rank or words & _SCORE):
        return None
    return _ranked(table, items, pair, is_rank=is_rank)


def _mirrored(table: ProfiledTable, items: Items, pair: tuple[str, ...]) -> int:
    """How many pairs stand in two rows that say the same from both sides; 0 if others do not."""
    counts = dict(zip(items.rows, table.rows(*pair), strict=True))
    both = [(own, counts[names[::-1]]) for names, own in counts.items() if names[::-1] in counts]
    same = share(both, lambda rows: rows[0] == rows[1][::-1])
    return len(both) // 2 if same > 0.5 else 0


def _in_file_order(table: ProfiledTable, items: Items, pair: tuple[str, ...]) -> tuple[str, ...]:
    """The two numbers as their items stand: by the same words, else in the order of the file."""
    if len(items.columns) < 2:
        return pair
    told = [set(tokens(name)) for name in items.columns]
    own = [set(tokens(name)) for name in pair]
    for ordered, (first, second) in ((pair, own), (pair[::-1], own[::-1])):
        if (told[0] - told[1]) & (first - second) or (told[1] - told[0]) & (second - first):
            return ordered
    places = list(table.columns).index
    ordered = tuple(sorted(pair, key=places))
    return ordered if places(items.columns[0]) < places(items.columns[1]) else ordered[::-1]


# Cells that stand for nothing, beside numbers from 0 on or up to ten.
_MISSING = (-1.0, -9.0, -99.0, -999.0, 99.0, 999.0, 9999.0)
_IS_RANK = {True: ("a rank, 1 is the best", "lower"), False: ("a score, a higher one is better",
            "higher")}  # fmt: skip


def _ranked(
    table: ProfiledTable, items: Items, pair: tuple[str, ...], *, is_rank: bool
) -> Candidate:
    """Two items with ranks or scores."""
    what, better = _IS_RANK[is_rank]
    n = "two" if len(pair) == 2 else str(len(pair))
    shape = f"{n} items with {'ranks' if is_rank else 'scores'}"
    options = {"ranks": pair, better: "better"}
    found = items.candidate(shape, "two numbers", _roles("outcome", pair, what), **options)
    found.doubts.append(f"{pair[0]} is taken for {what}; equal is a tie")
    found.others = [({_IS_RANK[not is_rank][1]: "better", better: None}, "the other way round")]
    # Nothing is proposed where less may be better, or a number stands for a missing one.
    columns = [table[name] for name in pair]
    values = {number(cell) or 0.0 for one in columns for cell in one.counts}
    odd = sorted(values & {*_MISSING})
    rest = values - {*odd}
    if any(one.called(_LOWER) for one in columns):
        found.leave_open(
            f"nothing says whether more or less of {pair[0]} is better, or whether it says who won"
            "; say it with -O higher=better or -O lower=better", "higher", "lower",
        )  # fmt: skip
    elif odd and rest and min(rest) >= 0 and (odd[0] < 0 or odd[-1] > 4 * max(rest)):
        found.leave_open(
            f"{odd[0] if odd[0] < 0 else odd[-1]:g} in {pair[0]} or {pair[-1]} may stand for no "
            "answer: leave these cells empty"
        )
    return found


# -- several items


def _slates(table: ProfiledTable) -> Iterator[Candidate]:
    """Three or more items with a rank each, or of which one was chosen; also in a list."""
    names = [one.name for one in _names_like(table) if not one.is_constant]
    for group in families(names):
        if len(group) < 3 or all(table[name].numeric for name in group):
            continue
        if len({value for name in group for value in table[name].counts}) < 3:
            # The votes of several people, rather than what they were shown.
            continue
        score = 4 + 4 * _vocabulary(table, group)
        items = Items(group, score, "one of those shown", table.rows(*group), {"items": group})
        for ranks in families(one.name for one in table if one.numeric):
            words = {word for name in ranks for word in table[name].words}
            is_rank = bool(words & _RANK)
            low = min(table[name].low for name in ranks)
            if len(ranks) != len(group) or not words & (_RANK | _SCORE) or (is_rank and low == 0):
                continue
            yield _ranked(table, items, ranks, is_rank=is_rank)
        yield from _best_of(table, items)
    for one in table:
        if one.is_list:
            rows = [tuple(list_cells(value)) if value else () for value in one.values]
            options = {"items": (one.name,)}
            yield from _best_of(table, Items((one.name,), 8.0, "those shown", rows, options))


def _best_of(table: ProfiledTable, items: Items) -> Iterator[Candidate]:
    """One of several items was chosen as the best."""
    group = items.columns
    for one in table:
        chosen = one.called(_WON | _CHOICE) and not one.called(_NO_PREFERENCE)
        if one.name in group or not chosen:
            continue
        rows = [row for row in zip(one.values, items.rows, strict=True) if row[0]]
        if min((len(row[1]) for row in rows), default=0) < 3:
            # Of two the side may be meant as well.
            continue
        role = [Role("outcome", one.name, "the item that was chosen")]
        several = f"{len(group)} items" if len(group) > 1 else "several items"
        found = items.candidate(f"the best of {several}", "best of n", role, best=one.name)
        found.doubts.append("the chosen item is taken for the best; it beats the others")
        if share(rows, lambda row: row[0] in row[1]) < 0.95:
            places = _places(one, one, len(group)) if len(group) > 1 else None
            if places is None or one.is_constant:
                continue
            found.options["values"] = places
            others = [other[0] for other in families(table.columns)
                      if len(other) == len(group) and other != group]  # fmt: skip
            if others:
                found.leave_open(
                    f"each row shows {len(group)} alternatives with several properties each "
                    f"({listed([group[0], *others], 4)}), and {one.name} is the one that was "
                    f"chosen; a board ranks one property: say which with {_option('items', group)} "
                    f"-O best={one.name} -O values={spelled(places)}", "items", "best",
                )  # fmt: skip
        yield found


def _vocabulary(table: ProfiledTable, group: Sequence[str]) -> float:
    """How much the columns of a group have the same names."""
    sets = [set(table[name].counts) for name in group]
    union = set().union(*sets)
    return sum(len(one) for one in sets) / (len(sets) * len(union)) if union else 0.0


def _best_worst(table: ProfiledTable) -> Iterator[Candidate]:
    """The best and the worst of several items."""
    names = [one for one in _names_like(table) if not one.is_constant]
    extremes = [
        (a, b) for a in names for b in names
        if a is not b and a.called(_BEST) and b.called(_WORST)
    ]  # fmt: skip
    for a, b in extremes:
        roles = [Role("best", a.name, "by its name"), Role("worst", b.name, "by its name")]
        groups = [g for g in families(one.name for one in names) if not {a.name, b.name} & {*g}]
        for group in groups:
            if all(table[name].numeric for name in group) and not (a.numeric or b.numeric):
                # Lengths of the two, or prices.
                continue
            rows = table.rows(a.name, b.name, *group)
            rows = [row for row in rows if row[0] and row[1]]
            inside = share(rows, lambda row: {*row[:2]} <= {*row[2:]})
            outside = share(rows, lambda row: not {*row[:2]} & {*row[2:]})
            words = {value for name in group for value in table[name].counts}
            known = share((*a.counts, *b.counts), words.__contains__)
            options: dict[str, Any] = {"items": group, "best": a.name, "worst": b.name}
            doubts = [f"{a.name} beats the others, and the others beat {b.name}"]
            if inside < 0.9:
                places = _places(a, b, len(group))
                if places and not all(table[name].numeric for name in group):
                    options["values"] = places
                elif (
                    outside < 0.9
                    or len({*a.counts, *b.counts}) <= len(group)
                    or len(names) > 12 + len(group)
                ):
                    continue
                else:
                    doubts.append(
                        f"best and worst are not among {', '.join(group)}: all are taken as shown"
                    )
            yield Candidate(
                "the best and the worst of several items", options,
                _SCORES["best and worst"] + inside + known,
                [*_roles("item", group, "one of those shown"), *roles], doubts,
                items=(*group, a.name, b.name),
            )  # fmt: skip
        if not groups and _overlap(a, b) >= 0.3 and "worst" in b.words:
            score = _SCORES["best without others"] + _overlap(a, b)
            why = ("by its name", "by its name")
            shape = "best and worst, as winner and loser"
            found = _won_lost(shape, a.name, b.name, score, why, "likely")
            found.doubts.append("no column lists the other items that were shown")
            yield found


def _places(a: ColumnProfile, b: ColumnProfile, n: int) -> dict[str, str] | None:
    """The codes of places among n items, from 1 or from 0."""
    letters = "ABCDEFGH"[:n]
    values = sorted({*a.counts, *b.counts})
    if {value.upper() for value in values} <= set(letters):
        return {value: str(letters.index(value.upper()) + 1) for value in values}
    low, high = min(a.low, b.low), max(a.high, b.high)
    first = 0 if low == 0 else 1
    if a.whole and b.whole and low >= 0 and high <= n - 1 + first:
        return {str(i + first): str(i + 1) for i in range(n)}
    return None


# -- rankings


def _rankings(table: ProfiledTable) -> Iterator[Candidate]:
    """Names by their rank: rank1 … rank6, 1st choice … 3rd choice; or ballots without a header."""
    names = [one.name for one in _names_like(table) if not one.numeric]
    unnamed = _is_unnamed(table)
    groups = families(names)
    own = _ballots(table, names) if unnamed else ()
    for group in [*groups, *([own] if own and own not in groups else [])]:
        words = {word for name in group for word in table[name].words}
        ballots = group == own or (
            unnamed and len(group) == len(table.columns) and _is_uneven(table, group)
        )
        bare = all(len(table[name].words) == 1 for name in group) and words & {"0", "1", "first"}
        ordered = words & _ORDERED or bare or ballots or _are_permuted(table, group)
        two = len(group) == 2 and not (ballots or words & (_RANK | {"first", "second"}))
        if not ordered or two or words & _NO_RANKING:
            continue
        common = _vocabulary(table, group)
        if ballots:
            # Few get as far as the last place of an uneven ballot.
            common = _overlap(table[group[0]], table[group[1]])
        no_names = {
            value: "skip" for name in group for value in table[name].counts if _is_no_name(value)
        }
        rows = [
            [cell for cell in row if cell and cell not in no_names] for row in table.rows(*group)
        ]
        distinct = share(filter(None, rows), lambda row: len(set(row)) == len(row))
        places = all(ordinal(cell) is not None for row in rows for cell in row)
        if common < 0.3 or distinct < 0.9 or places:
            continue
        named = words & _ORDERED or unnamed or _stand_alone(table, group)
        every = {cell for row in rows for cell in row}
        short = any(0 < len(row) < len(every) for row in rows) and len(every) <= len(group) + 2
        found = Candidate(
            f"a ranking of {len(group)} items by their names", {"ranking": group},
            _SCORES["ranking"] + 2 * common,
            _roles("rank", group, "the item at this rank, best first"),
            [f"{group[0]} is taken for the best", *(f"{value!r} is no name" for value in no_names)],
            [({"ranking": group[::-1]}, "the last is the best")], items=group,
        )  # fmt: skip
        if short:
            found.options["unranked"] = "below"
            found.doubts.append("an item that a row does not name stands below those that it names")
            found.others.insert(0, ({"unranked": None}, "it is not compared in that row"))
        if no_names:
            found.options["values"] = no_names
        if not (named or _ORDINAL.search(group[0])):
            found.weak = (
                f"{listed(group, 3)} may be ranks, best first, or something else that is numbered; "
                f"if they are, add {_option('ranking', group)}"
            )
        found.answers = ("ranking",)
        yield found


_ORDINAL = re.compile(r"1(?:st|er|º|°|\.)")


def _is_no_name(value: str) -> bool:
    return " ".join(tokens(value)) in NO_NAMES


def _stand_alone(table: ProfiledTable, group: Sequence[str]) -> bool:
    """Whether no other column is an answer, but at most a name or a number of the row."""
    rest = [one for one in table if one.name not in group and not one.is_constant]
    return all(rater_word(one.name) or one.n_distinct == one.n for one in rest)


def _are_permuted(table: ProfiledTable, group: Sequence[str]) -> bool:
    """Whether each row has all names in its own order, and no other column is an answer."""
    words = {word for name in group for word in table[name].words}
    rows = [row for row in table.rows(*group) if any(row)]
    every = {cell for row in rows for cell in row}
    return (
        len(every) == len(group) > 2
        and not words & (_ITEM | _SHOWN | _PLANNED)
        and _stand_alone(table, group)
        and len({*rows}) > 1
        and share(rows, lambda row: len({*row}) == len(row)) > 0.95
    )


def _ballots(table: ProfiledTable, names: Sequence[str]) -> tuple[str, ...]:
    """Three or more columns of the same names, perhaps beside a number of the ballot."""
    rest = [one for one in table if one.name not in names]
    if len(names) < 3 or any(one.n_distinct < one.n for one in rest):
        return ()
    sets = [{value for value in table[name].counts if not _is_no_name(value)} for name in names]
    common, every = set.intersection(*sets), set.union(*sets)
    return tuple(names) if len(every) > 2 and len(common) >= 0.8 * len(every) else ()


def _is_uneven(table: ProfiledTable, group: Sequence[str]) -> bool:
    """Whether rows end early, as ballots do, or hold the same names in another order."""
    rows = [[bool(cell) for cell in row] for row in table.rows(*group)]
    early = not all(all(row) for row in rows)
    kinds = {frozenset(row) for row in table.rows(*group)}
    return (early and all(row == sorted(row, reverse=True) for row in rows)) or (
        len(group) > 2 and len(kinds) == 1 and len(next(iter(kinds))) == len(group)
    )


def _candidate_columns(table: ProfiledTable) -> Iterator[Candidate]:
    """One column an item, with the rank in the cell."""
    columns = []
    for one in table:
        ranks = [ordinal(value) for value in one.counts if not is_nothing(value)]
        if ranks and all(
            rank is not None and rank.is_integer() and 1 <= rank <= len(table.columns)
            for rank in ranks
        ):
            columns.append(one)
    names = tuple(one.name for one in columns)
    cells = [[ordinal(cell) or 0 for cell in row if not is_nothing(cell)]
             for row in table.rows(*names)]  # fmt: skip
    rows = [sorted(row) for row in cells if row]
    called = all(one.called(_RANK) for one in columns)
    planned = any(one.called(_PLANNED | {"order"}) for one in columns) and not called
    if len(columns) < 3 or planned or sum(map(len, rows)) < 2 * len(rows):
        return
    # Equal ranks could be scores, where the columns are not called ranks.
    ordered = share(
        rows,
        lambda row: (
            (called and row[0] == 1 and row[-1] <= len(row)) or row == list(range(1, len(row) + 1))
        ),
    )
    if ordered < 0.8:
        return
    gaps = any(len(row) < len(columns) for row in rows)
    scores = not gaps and all(one.called(_SCORE) and not one.called(_RANK) for one in columns)
    score = _SCORES["one column an item"] + 2 * ordered
    if scores:
        found = Candidate(
            "scores with one column an item", {"ranks": names, "higher": "better"}, score,
            _roles("item", names, "its cells are called scores"),
            ["the cells are scores, a higher one is better; each column is an item"],
            [({"lower": "better", "higher": None}, "1 is the best")],
        )  # fmt: skip
    else:
        found = Candidate(
            "a ranking with one column an item", {"ranks": names, "lower": "better"}, score,
            _roles("item", names, "its cells are ranks from 1 on"),
            ["the cells are ranks, 1 for the best; each column is an item"],
        )  # fmt: skip
    if gaps:
        found.ask(
            "an item without a rank stands below those with one", {"unranked": "unknown"},
            "items without a rank are not compared",
        )  # fmt: skip
    yield found


def _ranked_by_columns(table: ProfiledTable) -> Iterator[Candidate]:
    """The first column names the items, and each of the others is a ranking of them."""
    turned: ProfiledTable | None = table
    if not table.options.get("transposed"):
        turned = table.turned() if 2 < table.n_held <= _MOST_TURNED else None
    if turned is None:
        return
    _, *items = turned
    names = tuple(one.name for one in items)
    whole = all(one.whole and not one.n_empty for one in items)
    rows = [sorted(number(rank) or 0 for rank in row) for row in turned.rows(*names)]
    if not whole or len(rows) < 3 or all(number(name) is not None for name in names):
        return
    every = [float(place) for place in range(1, len(names) + 1)]
    if share(rows, lambda row: row == every) > 0.5 and all(map(_are_places, rows)):
        options = {**turned.options, "ranks": names, "lower": "better", "rater": OF_COLUMNS}
        first = next(iter(table)).name
        yield Candidate(
            "one row an item and one column a ranking", options, _SCORES["one column an item"],
            [Role("item", first, "a name for each row")],
            [f"each column but {first} is a ranking by somebody, 1 for the best"],
            [({"rater": NONE}, "the columns are no people")],
        )  # fmt: skip


def _lists(table: ProfiledTable) -> Iterator[Candidate]:
    """Names and ranks in lists, or all names of a ranking in one cell."""
    cells = {one.name: [list_cells(value) for value in one.values if value]
             for one in table if one.is_list}  # fmt: skip
    numbers = {name: [number(cell) for row in rows for cell in row] for name, rows in cells.items()}
    numeric = {name: [n for n in one if n is not None] for name, one in numbers.items()
               if None not in one}  # fmt: skip
    for name in (name for name in cells if name not in numeric):
        flat = [cell for row in cells[name] for cell in row]
        again = len(flat) >= 1.5 * len(set(flat))
        if max(map(len, flat)) > 80:
            continue
        is_order = table[name].called(_ORDERED | {"order"}) and not table[name].called(_PLANNED)
        if again and is_order:
            yield _ranking_in_one(name, "names, best first", "the first is taken for the best")
            continue
        sizes = [value.count("\x1f") if value else -1 for value in table[name].values]
        for ranks, values in numeric.items():
            long = [value.count("\x1f") if value else -1 for value in table[ranks].values]
            called, low = _holds_ranks(table[ranks], cells[ranks]), min(values)
            # One of the list is marked: [1, 0]
            marked = table[ranks].called(_CHOICE) and all(
                sorted(row) == ["0"] * (len(row) - 1) + ["1"] for row in cells[ranks]
            )
            if share(zip(sizes, long, strict=True), lambda both: both[0] == both[1]) < 0.95:
                continue
            if (called and low == 0) or not (called or table[ranks].called(_SCORE) or marked):
                continue
            if not (called or again):
                continue
            better = "lower" if called and low >= 1 else "higher"
            what = "a rank, 1 for the best," if better == "lower" else "a score or a mark"
            found = Candidate(
                "a list of items with a list of ranks",
                {"items": (name,), "ranks": (ranks,), better: "better"}, _SCORES["ranking"],
                [Role("item", name, "a list"), Role("outcome", ranks, "a list as long")],
                [f"{ranks} has {what} for each of {name}, in the same order; equal is a tie"],
                items=(name,),
            )  # fmt: skip
            found.score += 0.5 * again + 0.5 * table[name].called(_ITEM)
            yield found
    for one in table:
        yield from _ordered_text(one)


def _holds_ranks(one: ColumnProfile, rows: Iterable[Sequence[str]]) -> bool:
    """Whether a list of numbers has the rank of each item, and not their order."""
    equal = any(len({*row}) < len(row) for row in rows)
    return one.called(_RANK) or (one.called({"order", "ordering"}) and equal)


def _ranking_in_one(name: str, why: str, doubt: str, **more: Any) -> Candidate:
    return Candidate(
        "a ranking in one column", {"ranking": (name,), **more}, _SCORES["ranking"],
        [Role("rank", name, why)], [doubt], items=(name,),
    )  # fmt: skip


# The order in which conditions were shown, as a rule: A,C,B.
_LETTERS = re.compile(r"\w(?:\W+\w)*")


def _ordered_text(one: ColumnProfile) -> Iterator[Candidate]:
    """Cells such as a > b > c."""
    if one.is_list or one.numeric or not one.counts or not one.called(_ORDERED | {"order"}):
        return
    letters = one.words == ["order"] and all(map(_LETTERS.fullmatch, one.counts))
    for sign in () if letters or one.called(_PLANNED) else (">", "≻", ";", "|", ","):
        parts = [[part.strip() for part in value.split(sign)] for value in one.counts]
        names = Counter(part for row in parts for part in row)
        good = share(parts, lambda row: len(row) > 1 and all(row) and len(set(row)) == len(row))
        if good > 0.9 and len(names) <= 60 and names.total() >= 2 * len(names):
            doubt = "the first name is taken for the best"
            why = f"names with {sign!r} between them"
            found = _ranking_in_one(one.name, why, doubt, between=sign)
            found.score += sign == ">"
            yield found
            return


# -- other shapes


def _pairs_as_columns(table: ProfiledTable) -> Iterator[Candidate]:
    """Columns that are called by the two items of which they name one."""
    for sign in _VERSUS:
        columns: list[str] = []
        meaning: dict[str, str] = {}
        for one in table:
            parts = pair_in_name(one.name, sign)
            if len(parts) != 2 or not all(parts) or not one.counts:
                continue
            others = {value: _third_value(value) for value in one.counts if value not in parts}
            if all(others.values()):
                columns.append(one.name)
                meaning |= {value: said for value, said in others.items() if said}
        if len(columns) > 1:
            names = tuple(columns)
            values = {"values": meaning} if meaning else {}
            yield Candidate(
                "columns that are called by two items",
                {"pairs": names, "between": sign, **values}, _SCORES["pairs as columns"],
                _roles("outcome", names, "its values are the two of its name"),
                [f"each of {listed(names, 3)} holds the item that was chosen"],
            )  # fmt: skip
            return


def _one_row_an_item(table: ProfiledTable) -> Iterator[Candidate]:
    """Rows that make an answer together: an item each, with its rank or a mark of the chosen."""
    outcomes = [
        one for one in table
        if one.counts and one.called(_PLACE | _WON | _CHOICE | _BEST | {"value"})
        and (one.numeric or one.is_yes_or_no) and not one.is_constant
    ]  # fmt: skip
    rest = [one for one in table if one not in outcomes] if outcomes else []
    items = [
        one for one in _names_like(table)
        if one in rest and one.n_distinct > 2 and one.n >= 3 * one.n_distinct
        and not rater_word(one.name)
        and (not one.numeric or one.called(_ITEM | _IDS | _NUMBERS - {"no"}))
    ]  # fmt: skip
    keys = [
        one for one in rest
        if not one.is_text and 3 * one.n_distinct < 2 * one.n and not one.is_constant
    ][:_MOST_KEYS]  # fmt: skip
    # Numbers are names where nothing else is.
    items.sort(key=lambda one: one.numeric)
    for item in items[:_MOST_KEYS]:
        others = [one for one in keys if one is not item]
        ways: list[tuple[ColumnProfile, ...]] = [(one,) for one in others]
        ways += [
            pair for pair in combinations(others, 2)
            if any(rater_word(one.name) or one.called(_IDS) for one in pair)
        ]  # fmt: skip
        for outcome in outcomes[:_MOST_KEYS]:
            for way in ways:
                if found := _grouped_answers(table, item, outcome, [one.name for one in way]):
                    yield found
                    return


def _are_places(ranks: Sequence[float]) -> bool:
    """Whether ranks in order are 1, 2, 3, … with equal ones as 1, 2, 2, 4 or 1, 2, 2, 3."""
    sparse = [1 + sum(other < rank for other in ranks) for rank in ranks]
    dense = [1 + len({other for other in ranks if other < rank}) for rank in ranks]
    return len({*ranks}) > 1 and list(ranks) in (sparse, dense)


def _grouped_answers(
    table: ProfiledTable, item: ColumnProfile, outcome: ColumnProfile, by: Sequence[str]
) -> Candidate | None:
    """The reading by which rows with equal `by` are one answer; None where they are none."""
    groups: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for key, name, said in zip(table.rows(*by), item.values, outcome.values, strict=True):
        groups.setdefault(key, []).append((name, said))
    sizes = [len(rows) for rows in groups.values()]
    if len(groups) < 3 or min(sizes) < 2 or max(sizes) > 60:
        return None
    if any(len({name for name, _ in rows}) < len(rows) for rows in groups.values()):
        return None
    values = [sorted(number(said) or 0 for _, said in rows) for rows in groups.values()]
    marked = [
        sum(said.casefold() in ("1", "1.0", "true", "yes") for _, said in rows) == 1
        for rows in groups.values()
    ]
    shape: dict[str, Any]
    if outcome.called(_PLACE):
        if share(values, _are_places) <= 0.95:
            return None
        shape, meant = {"ranks": (outcome.name,), "lower": "better"}, "a rank, 1 is the best"
    elif item.n_distinct <= max(sizes) or (item.numeric and not item.called(_ITEM)):
        return None
    elif {*outcome.counts} == {"-1", "0", "1"} and all(
        one.count(-1) == one.count(1) == 1 for one in values
    ):
        shape, meant = {"best": outcome.name, "worst": outcome.name}, "1 is the best, -1 the worst"
    elif outcome.n_distinct == 2 and all(marked):
        shape, meant = {"best": outcome.name}, "the chosen one is marked"
    else:
        return None
    return Candidate(
        "one row an item, several of which are one answer",
        {"items": (item.name,), "group": tuple(by), **shape}, _SCORES["group of rows"],
        [Role("item", item.name, "different in each row of an answer"),
         Role("outcome", outcome.name, meant)],
        [f"rows with the same {' and '.join(by)} are one answer", f"{outcome.name}: {meant}"],
        used={*by} if len(by) == 1 and not rater_word(by[0]) else set(), items=(item.name,),
    )  # fmt: skip


# What a cell of a square table has where nothing was counted.
_NOTHING_COUNTED = ("", "-", "–", "—", "--", "x", "X", ".", "*", "NA", "N/A")


def _matrix(table: ProfiledTable) -> Candidate | None:
    """A square table of wins."""
    columns = list(table)
    others = {one.name for one in columns[1:]}
    labels = columns[0] if columns and {*columns[0].counts} == others else None
    cells = [one for one in columns if one is not labels]
    n = len(cells)
    if n < 3 or not table.n_rows == table.n_held == n or not any(one.counts for one in cells):
        return None
    names = [one.name for one in cells]
    wins = {
        (own, one.name): value
        for one in cells
        for own, value in zip(labels.values if labels else names, one.values, strict=True)
        if value not in _NOTHING_COUNTED
    }
    counts = {pair: number(value) for pair, value in wins.items() if pair[0] != pair[1]}
    diagonal = [number(value) for pair, value in wins.items() if pair[0] == pair[1]]
    if not counts or any(diagonal) or None in diagonal:
        return None
    if any(n is None or n < 0 or not n.is_integer() for n in counts.values()):
        return None
    if len({*counts.values()}) > 1 and all(
        counts.get(pair[::-1]) == n for pair, n in counts.items()
    ):
        # Distances and likenesses are the same from both sides.
        return None
    found = Candidate(
        f"a square table of wins of {n} items", {"matrix": "row"}, _SCORES["square table"],
        _roles("item", names, "a row and a column of a square table"),
        ["a cell is taken for how often its row beat its column"],
        [({"matrix": "column"}, "a cell is how often its column beat its row")],
        used={one.name for one in columns},
    )  # fmt: skip
    said = {*labels.words} if labels else set()
    # Wins: each pair came up equally often, or the numbers are small.
    sums = {(n or 0) + (counts.get(pair[::-1]) or 0) for pair, n in counts.items()}
    small = len(sums) == 1 or 1 < max(n or 0 for n in counts.values()) <= _MOST_WINS
    if not said & _BEATS and (said & _FLOWS or not small):
        found.leave_open(
            "a square table of numbers, which may be wins or something else, such as how many went "
            "from one to the other; if a cell counts wins, add -O matrix=row or -O matrix=column",
            "matrix",
        )
    return found


# -- which rows are answers


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
        else:
            ways += _filled_rows(table, one)
    return ways


def _other_trials(table: ProfiledTable) -> Iterator[tuple[dict[str, str], str]]:
    """Rows of the trials, where another column numbers those of the practice: PsychoPy's loops."""
    partly = [one for one in table if one.n_empty and one.n and one.name.count(".this") == 1]
    trials = [one for one in partly if not is_check(one.name)]
    for one in partly:
        for other in trials if is_check(one.name) else ():
            if not table.rows(one.name, other.name, whole=True):
                yield {other.name: "*"}, f"rows with {one.name} are left out"
                return


def _rows_of_pairs(table: ProfiledTable) -> Iterator[tuple[dict[str, str], str]]:
    """Rows of the trials, where all others leave two columns of names empty: jsPsych's screens."""
    for pair in _pairs(table):
        first, second = (table[name] for name in pair)
        filled = [bool(value) for value in first.values]
        alike = filled == [bool(value) for value in second.values]
        names = first.is_names and second.is_names
        if alike and names and 0 < first.n < 0.9 * len(filled):
            yield {first.name: "*"}, f"rows without {first.name} are left out"


def _filled_rows(table: ProfiledTable, one: ColumnProfile) -> Iterator[tuple[dict[str, str], str]]:
    """Kinds of rows that fill columns which the others leave empty."""
    partly = [
        c for c in table if c is not one and c.n_empty and c.n and c.n_empty * 50 > len(c.values)
    ]
    for value, n in one.counts.items() if partly else ():
        mine = [cell == value for cell in one.values]
        full = []
        for column in partly:
            both = Counter(zip(mine, map(bool, column.values), strict=True))
            inside, outside = (
                both[kind, True] / max(1, both[kind, True] + both[kind, False])
                for kind in (True, False)
            )
            if inside > 0.98 and outside < 0.02:
                full.append(column.name)
        if len(full) >= 2 and n > 1:
            yield {one.name: value}, f"only rows with {one.name} {value} have {listed(full, 3)}"


# -- who answered, when, how long it took, and what a row weighs


def _add_details(found: Candidate, table: ProfiledTable) -> None:
    """The columns that go with every shape."""
    free = [
        one for one in table
        if one.counts and one.name not in found.used and one.name not in table.further
    ]  # fmt: skip
    if not {"raters", "rater"} & found.options.keys():
        _add_rater(found, free, table)
    _add_weight(found, free)
    _add_times(found, free)


def _add_rater(found: Candidate, free: list[ColumnProfile], table: ProfiledTable) -> None:
    """The column of who answered, if its name says so and its values do not deny it."""
    named: list[tuple[float, int, ColumnProfile]] = []
    for one in free:
        word = rater_word(one.name)
        if word is None or not _may_rate(found, one, word, table):
            continue
        if may_be_a_topic(one.name, one.counts):
            names = {value for name in found.items for value in table[name].counts}
            if is_topic(one.counts) or {*one.counts} <= names:
                found.ask(
                    f"{one.name} is not taken for the rater", {"rater": one.name},
                    f"{one.name} says who answered",
                )  # fmt: skip
                continue
            _ask_of_rater(found, one, "")
        rank = rater_place(word) + 0.5 * (len(one.words) > 2)
        named.append((rank + 100 * (one.n_empty > 0.02 * len(one.values)), len(named), one))
    if named:
        *_, best = min(named)
        _take_rater(found, best, "by its name; ", sure="session" not in best.words)
        if "session" in best.words:
            found.ask(f"{best.name} names sessions, not people")
    elif _is_unnamed(table) and (best_of := _by_position(found, free, table)) is not None:
        found.ask(f"{best_of.name} is taken for the rater")
        _take_rater(found, best_of, "", sure=False)
    elif (own := _answering_id(found, free, table)) is not None:
        _ask_of_rater(found, own, ": it comes with different items")
        _take_rater(found, own, "different items each time; ")
    elif (voter := _voter(found, free, table)) is not None:
        _ask_of_rater(found, voter, ", by its values")
        _take_rater(found, voter, "a name beside each ballot; ")
    else:
        _name_possible_raters(found, free)


def _ask_of_rater(found: Candidate, one: ColumnProfile, why: str) -> None:
    found.ask(
        f"{one.name} is taken for the rater{why}", {"rater": None},
        f"{one.name} does not say who answered",
    )  # fmt: skip


def _take_rater(found: Candidate, one: ColumnProfile, why: str, *, sure: bool = True) -> None:
    found.options["rater"] = one.name
    why = f"{why}{one.n_distinct:,} values over {one.n:,} rows"
    found.roles.append(Role("rater", one.name, why, "certain" if sure else "possible"))


def _may_rate(found: Candidate, one: ColumnProfile, word: str, table: ProfiledTable) -> bool:
    """Whether the values of a column that is called by a word for raters do not deny it."""
    shown = [name for name in found.items if name in table.columns]
    rows = table.rows(one.name, *shown, whole=True)
    if len(shown) > 1 and share(rows, lambda row: row[0] in row[1:]) > 0.95:
        # What a rater has chosen, and not who chose.
        return False
    if one.is_text or one.is_list or (one.numeric and not one.whole):
        return False
    has_choice = "winner" in found.options and "loser" not in found.options
    is_verdict = _is_outcome_like(one) and not one.called(_NUMBERED_PEOPLE)
    if has_choice and is_verdict and not (one.numeric and one.high > _LAST_VERDICT):
        # The verdict of a judge, rather than the number of one.
        found.ask(
            f"{one.name} is not taken for the rater, by its values", {"rater": one.name},
            f"{one.name} says who answered",
        )  # fmt: skip
        return False
    if one.is_constant and one.n > 1 and word not in ("judge", "annotator", "rater"):
        return False
    slate = {"ranks", "ranking", "best", "pairs"} & found.options.keys()
    return one.n >= 1.5 * one.n_distinct or one.n <= 20 or bool(slate)


_NUMBERED_PEOPLE = word_set("id number no nr")


def _by_position(
    found: Candidate, free: list[ColumnProfile], table: ProfiledTable
) -> ColumnProfile | None:
    """Of columns without names the first with few names over many rows that are no items."""
    items = [table[name] for name in found.items if name in table.columns]
    for one in free:
        few = one.is_names and not one.is_constant and one.n >= 3 * one.n_distinct
        letters = all(any(map(str.isalpha, value)) for value in one.counts)
        alike = any(_overlap(one, item) >= 0.5 for item in items)
        if few and letters and not alike and _are_ids(one) is not False:
            return one
    return None


def _answering_id(
    found: Candidate, free: list[ColumnProfile], table: ProfiledTable
) -> ColumnProfile | None:
    """A bare id that stands in several rows, each about other items: of who answered.

    The id of a question or a pair comes with the same items again.
    """
    cells = table.rows(*(name for name in found.items if name in table.columns))
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


def _voter(
    found: Candidate, free: list[ColumnProfile], table: ProfiledTable
) -> ColumnProfile | None:
    """The first column, where it has another name beside each ranking."""
    first = next(iter(table))
    is_ballot = "ranking" in found.options or len(found.options.get("ranks", ())) > 2
    is_name = first.is_names and not (first.numeric or first.is_text)
    named = first.called(GROUPS | _THINGS | _ITEM | _WHEN | _TOOK)
    if is_ballot and is_name and first in free and not named:
        return first if first.n_distinct == first.n == table.n_held else None
    return None


def _name_possible_raters(found: Candidate, free: list[ColumnProfile]) -> None:
    """Where no name says who answered, columns that may well do so are a question."""
    sided = {name for family in families(one.name for one in free) for name in family}
    for one in free:
        few = 3 <= one.n_distinct <= one.n / 3 and not (one.numeric or one.is_text or one.is_list)
        other = one.called(GROUPS | _WHEN | _TOOK | _CHOICE | _TRAP)
        if not few or other or one.name in sided:
            continue
        if _are_ids(one):
            _ask_of_rater(found, one, ", by its values")
            found.options["rater"] = one.name
            why = "numbered, few over many rows"
            found.roles.append(Role("rater", one.name, why, "possible"))
        else:
            found.ask(
                f"no column is taken for the rater; if it is {one.name}, "
                f"add {_option('rater', one.name)}"
            )
        return


_NUMBERED = re.compile(r"([A-Za-z]+)[-_]?\d+|[\w.+-]+@[\w.-]+")


def _are_ids(one: ColumnProfile) -> bool | None:
    """Whether values are numbers of people, such as p01, p02, or addresses; None if no numbers."""
    matches = [_NUMBERED.fullmatch(value) for value in one.counts]
    begun = {match[1].casefold() if match[1] else "" for match in matches if match}
    if not all(matches) or len(begun) != 1:
        return None
    return begun <= _PERSON | {""} and not one.called(_ITEM | _THINGS)


def _add_weight(found: Candidate, free: list[ColumnProfile]) -> None:
    """The column of how many answers a row stands for, which is asked about."""
    asked = False
    sided = {name for family in families(one.name for one in free) for name in family}
    for one in free:
        wide = one.called(_WEIGHT) and one.numeric and one.high > 1000 * max(one.low, 1)
        if wide or one.called(_ASKED_WEIGHT):
            if one.numeric and "time" not in one.words and not asked:
                asked = True
                found.doubts.append(
                    f"{one.name} is not used as a weight; add -O weight={one.name} if it is one"
                )
            continue
        is_weight = {*one.words} <= _WEIGHT and one.numeric and one.low > 0
        is_count = one.beside == "count" and one.low >= 1
        known = {"weight", "wins"} & found.options.keys()
        if known or one.is_constant or one.name in sided or not (is_weight or is_count):
            continue
        # Nothing weighs 1: of a person, or of a parcel.
        taken = is_count if not is_weight else one.low <= 1
        found.options["weight"] = one.name if taken else NONE
        if taken:
            found.roles.append(Role("weight", one.name, "by its name", "possible"))
            doubt = f"{one.name} is taken for the number of answers that a row stands for"
            found.ask(doubt, {"weight": NONE}, f"{one.name} is no weight")
        else:
            doubt = f"{one.name} is not used as a weight"
            found.ask(doubt, {"weight": one.name}, f"{one.name} is a weight")


def _add_times(found: Candidate, free: list[ColumnProfile]) -> None:
    """When the answer was given, and how long it took, where the unit is known."""
    for one in free:
        words = set(one.words)
        took = bool(words & _TOOK or {"response", "time"} <= words or {"reaction", "time"} <= words)
        is_when = words & _WHEN and not words & (_TOOK | {"response", "reaction"})
        if is_when and "at" not in found.options and (not one.numeric or one.low > 1e8):
            sample = [value for value in one.values if value][:50]
            if None not in map(seconds_since_1970, sample):
                found.options["at"] = one.name
                found.roles.append(Role("time", one.name, "moments", "certain"))
        if not took or "time" in found.options or one.is_constant:
            continue
        unit = next((unit for unit, said in _UNITS.items() if words & said), None)
        if unit is None and "taken" in words and one.high < 10_000:
            unit = "s"
        if one.numeric and one.low >= 0 and unit is not None:
            found.options |= {"time": one.name} | ({"time_unit": "ms"} if unit == "ms" else {})
            found.roles.append(Role("duration", one.name, f"in {unit}", "certain"))


# -- what else in the file may change what the answers mean


def _ask_of_places(found: Candidate, table: ProfiledTable) -> None:
    """Where the two were shown now here and now there, a side may be that shown."""
    for one in table if found.sided else ():
        is_read = one.name in found.used or _is_opposite(one, found, table)
        if is_read or not _tells_places(one, found, table):
            continue
        said = found.options
        choice = said.get("winner") or said.get("loser")
        choice = choice or (said.get("wins") or said.get("raters") or ("the choice",))[0]
        codes = {*said.get("values", OUTCOMES)} - PLACES
        if "wins" in said or codes & table.columns.keys():
            # winner_model_a, model_a: the items of these columns are meant, wherever they stood
            found.ask(
                f"{one.name} says where the two were shown: {choice} is taken for the item of that "
                "column, and not for the side that was shown"
            )
        else:
            found.leave_open(
                f"{one.name} says where the two of a row were shown: {choice} may be the side that "
                "was shown, or the item of that column; if it is the side, write the item that was "
                f"chosen into {choice}, and if it is the item, drop {one.name}"
            )
        return


def _tells_places(one: ColumnProfile, found: Candidate, table: ProfiledTable) -> bool:
    """Whether a column says where the two of a row were shown, in words or by naming one."""
    if one.beside == "shown":
        # left_model and right_model say it too.
        told = {word for column in found.items for word in tokens(column)} >= {"left", "right"}
        cells = table.rows(*found.items, one.name)
        return not told or len({*cells}) > len({row[:-1] for row in cells})
    if not one.called(PLACES) or one.called(_CHOICE) or one.is_constant:
        return False
    rows = table.rows(one.name, *found.items, whole=True)
    return share(rows, lambda row: row[0] in row[1:]) > 0.95


def _ask_of_column(found: Candidate, table: ProfiledTable) -> None:
    """Ask about a column that says which rows are ties, or what was asked."""
    choice = found.options.get("winner")
    for one in table:
        if not one.counts or one.name in found.used or one.name in table.further or found.weak:
            continue
        ties = "ties" in found.options or "tie" in found.options.get("values", {}).values()
        if one.beside == "tie" and not ties and {"winner", "best"} & found.options.keys():
            found.weak = (
                f"{one.name} says which rows are ties, and {choice} names a "
                f"winner there as well: write a word such as tie into the winner of these rows"
            )
        elif one.beside == "question" and "rows" not in found.options:
            found.leave_open(
                f"{one.name} says what was asked ({listed(one.counts, 4)}), and answers to "
                "different questions make no common ranking; read one of them with --rows "
                f"{shlex.quote(f'{one.name}=…')}", "rows",
            )  # fmt: skip


def _leave_out_empty(found: Candidate, table: ProfiledTable) -> None:
    """Where many rows have no answer, or no items, they are named and left out."""
    if {"rows", "raters"} & found.options.keys() or not {"winner", "best"} & found.options.keys():
        return
    needed = [role.column for role in found.roles if role.role in ("item", "outcome", "winner")]
    gaps = [
        table[c] for c in needed if c in table.columns and table[c].n_empty * 100 > table.n_held
    ]
    if not gaps:
        return
    one = max(gaps, key=lambda column: column.n_empty)
    n = counted(one.n_empty, "row")
    if (other := _says_tie(table, one)) is not None:
        found.leave_open(
            f"{n} have no {one.name}, and {other} says that these are "
            f"ties; write a word such as tie into {one.name} there"
        )
    found.options = {"rows": {one.name: "*"}, **found.options}
    found.ask(f"{n} ({percent(one.n_empty / table.n_held)}) without {one.name} are left out")


def _says_tie(table: ProfiledTable, gappy: ColumnProfile) -> str | None:
    """The column that has a word for a tie where another one is empty, and only there."""
    for one in table:
        ties = {value for value in one.counts if label_meaning(value) == "tie"}
        rows = list(zip(one.values, gappy.values, strict=True))
        if ties and all(bool(said) != (value in ties) for value, said in rows if value):
            return one.name
    return None


def _ask_of_unused_winner(found: Candidate, table: ProfiledTable) -> None:
    """Where scores are read, a column that is called the winner is named."""
    if not {"ranks", "wins"} & found.options.keys() or len(found.items) != 2:
        return
    names = {value for name in found.items for value in table[name].counts}
    for one in table:
        if {"winner", "won"} & {*one.words} and one.name not in found.used and one.counts:
            rows = table.rows(one.name, *found.items, whole=True)
            if share(rows, lambda row: row[0] in names) > 0.5:
                inside = percent(share(rows, lambda row: row[0] in row[1:]))
                found.ask(
                    f"{one.name} is not used: it names one of the two items in {inside} of the rows"
                )


def _ask_of_other_names(found: Candidate, table: ProfiledTable) -> None:
    """Where a column names the model of the winner, several of the items may be the same one."""
    choice = found.options.get("winner")
    if choice is None or "loser" in found.options or len(found.items) != 2:
        return
    said: Mapping[str, str] = found.options.get("values", {})
    sides = {"left": 0, "right": 1}
    pairs = table.rows(*found.items)
    won = [
        pair[sides[side]] if (side := said.get(value, value)) in sides else value
        for value, pair in zip(table[choice].values, pairs, strict=True)
    ]
    names = {name for pair in pairs for name in pair if name}
    for one in table if choice in table.columns else ():
        model = one.called(_WON) and one.called(_MADE_BY)
        if one.name in (choice, *found.items) or not model or {*one.counts} & names:
            continue
        called: dict[str, set[str]] = {}
        for name, other in zip(won, one.values, strict=True):
            if name in names and other:
                called.setdefault(name, set()).add(other)
        others = {other for each in called.values() for other in each}
        if 1 < len(others) < len(called) and all(len(each) == 1 for each in called.values()):
            (other,) = called[first := next(iter(called))]
            found.leave_open(
                f"{one.name} names the winner otherwise than {found.items[0]} and "
                f"{found.items[1]}, with fewer names ({other} for {first}): to compare by these "
                f"names, add {_option('winner', choice)} with --rename FILE; without a file it "
                f"compares the items of {found.items[0]} and {found.items[1]}", "winner",
            )  # fmt: skip
            return


def _ask_of_direction(found: Candidate, table: ProfiledTable) -> None:
    """Where the worse may have been asked for, or nothing says that it was the better."""
    said = found.options
    if "loser" in said or "worst" in said:
        return
    columns: Sequence[str] = said.get("raters") or said.get("pairs") or ()
    choice = said.get("winner") or said.get("best") or (columns[0] if columns else None)
    if choice not in table.columns:
        return
    asked = _asked_for_worse(found, table, columns or (choice,))
    if asked is not None:
        _take_for_worse(found, choice, *asked)
    elif "winner" in said and (pivot := _compared_with(found, table)) is not None:
        found.ask(
            f"both were compared with {pivot}: {choice} may be the one that differs more from it, "
            "and is taken for the better"
        )
        differs = f"{choice} differs more from {pivot}"
        found.others.insert(0, ({"winner": None, "loser": choice}, differs))
    elif "winner" in said and _is_silent(table[choice], found):
        found.ask(
            f"the one that {choice} says is taken for the better",
            {"winner": None, "loser": choice}, f"the one that {choice} says is the worse",
        )  # fmt: skip


def _compared_with(found: Candidate, table: ProfiledTable) -> str | None:
    """A third column beside those of the two items, of what they were compared with: img_pivot."""
    common = set.intersection(*({*tokens(name)} for name in found.items))
    pivots = [one for one in table if one.called(_PIVOT) and one.is_names and common]
    return next((one.name for one in pivots if {*one.words} - _PIVOT == common), None)


def _is_silent(one: ColumnProfile, found: Candidate) -> bool:
    """Whether the name of a column of choices says neither choice nor better, nor a side."""
    if asks_for_worse(one.name) is not False:
        return True
    sides = found.items[:2] if len(found.items) > 1 else ("", "")
    known = one.called(_CHOICE | _WON | _BEST | _SCALE) or _is_unnamed([one])
    return not (known or found.explicit) and side_named(one, (sides[0], sides[1])) is None


def _asked_for_worse(
    found: Candidate, table: ProfiledTable, choices: Sequence[str]
) -> tuple[str, bool] | None:
    """What asks for the worse, and whether it surely does, by its words; None: nothing does."""
    for choice in choices if "pairs" in found.options else ():
        if asks_for_worse(choice) is not False:
            return f"{choice!r} may ask for the worse", False
    for one in table:
        if one.name in found.used or one.numeric or not 1 <= one.n_distinct <= 2:
            continue
        if not any(is_question(one.name, text) for text in one.counts):
            continue
        ways = {asks_for_worse(text) for text in one.counts}
        if ways != {False}:
            # What a model was asked may speak of anything.
            sure = ways == {True} and not one.called({"prompt", "text"})
            return f"{one.name} asks {listed(map(repr, one.counts), 2)}", sure
    return None


def _take_for_worse(found: Candidate, choice: str, why: str, sure: bool) -> None:  # noqa: FBT001
    """Read the chosen one as the worse where that is sure, and else ask which it is."""
    values: Mapping[str, str] = found.options.get("values", {})
    if "winner" in found.options and sure:
        found.options["loser"] = found.options.pop("winner")
        changed: dict[str, Any] = {"loser": None, "winner": choice}
    elif "raters" in found.options and sure and {"left", "right"} & {*values.values()}:
        found.options["values"] = mirrored(values)
        changed = {"values": values}
    else:
        if "winner" in found.options:
            found.ask(
                f"{why}, and {choice} is taken for the better",
                {"winner": None, "loser": choice}, f"{choice} says which one lost",
            )  # fmt: skip
            how = f": say it with {_option('winner', choice)} or {_option('loser', choice)}"
            answers: tuple[str, ...] = ("winner", "loser")
        else:
            found.ask(f"{why}, and {choice} is taken for the better")
            how, answers = "", ("raters", "pairs", "best")
        if not found.weak:
            found.leave_open(f"{why}, and {choice} may be the better or the worse{how}", *answers)
        return
    found.ask(f"{why}, so {choice} may well say which one lost", changed, f"{choice} won")


#: All that is asked about a candidate once its columns are known.
_DOUBTS: tuple[Callable[[Candidate, ProfiledTable], None], ...] = (
    _ask_of_places, _ask_of_column, _leave_out_empty, _ask_of_unused_winner, _ask_of_other_names,
    _ask_of_direction,
)  # fmt: skip


# -- why nothing is read


# A vote as a sentence.
_SENTENCE = re.compile(
    r"([^<>]+?)\s*(?:\bover\b|\bbeats?\b|\bpreferred to\b|\bbetter than\b|>)\s*([^<>]+)"
)


def _to_rewrite(table: ProfiledTable) -> str | None:
    """How to write, or to read, a file that holds votes in a shape that is not found."""
    for one in table:
        if one.counts and not one.numeric and all(map(_SENTENCE.fullmatch, one.counts)):
            return (
                f"{one.name} holds a sentence about two items, such as {next(iter(one.counts))!r}: "
                "write them into two columns called winner and loser"
            )
    if scores := _alike_scales(table):
        return (
            f"{listed(scores, 4)} hold numbers of the same scale: if each is an item with its "
            f"score in each row, add {_option('ranks', scores)} with "
            "-O higher=better or -O lower=better"
        )
    wins = [one.name for one in table if one.whole and one.called(_WINS)]
    totals = [one.name for one in table if one.whole and {*one.words} & {"total", "n", "games"}]
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
    rest = [one for one in rest if not one.called(ids) and one.n_distinct < table.n_held]
    spans = [one.high - one.low for one in rest if one.numeric]
    alike = len(spans) == len(rest) > 2 and 0 < min(spans) >= 0.5 * max(spans)
    common = alike and max(one.low for one in rest) < min(one.high for one in rest)
    return [one.name for one in rest] if common and max(spans) > 1 else []


def _is_prose(one: ColumnProfile) -> bool:
    """Whether a column holds texts that hardly come again, also short ones of four words."""
    words = sum(n * value.count(" ") for value, n in one.counts.items())
    return (one.is_text or words >= 3 * one.n > 0) and one.n_distinct > 0.8 * one.n


def _why_nothing(table: ProfiledTable) -> str:
    """What the file is, and why no comparison is seen in it."""
    columns = list(table)
    pairs = _pairs(filter(_is_prose, columns))
    if not pairs and {"chosen", "rejected"} <= {word for one in columns for word in one.words}:
        found = [one.name for one in columns if {"chosen", "rejected"} & {*one.words}]
        pairs = [(found[0], found[-1])]
    if pairs:
        return (
            f"{pairs[0][0]} and {pairs[0][1]} hold texts, and hardly any comes twice: these are "
            "pairs of texts without names of what wrote them, so no ranking follows from them"
        )
    ranks = [one for one in columns if one.numeric and one.called(_RANK)]
    zero = [one.name for one in ranks if one.low == 0]
    if len(zero) > 1:
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
        return (
            f"a table of {about} ({names}); {first} and {second} may hold the compared items, but "
            f"{_what_is_missing(columns, first, second)}; columns can be named, as in bbq fit FILE "
            f"{_option('left', first)} {_option('right', second)} -O winner=COLUMN"
        )
    missing = "no two columns hold the names of compared items"
    if len(ranks) == 1:
        missing += (
            f" (if {ranks[0].name} is the rank of one item a row, bring each ranking into one row)"
        )
    if small := [one.name for one in columns if one.is_small and one.called(_CHOICE)]:
        missing += (
            f", though {small[0]} may hold answers (if they are about the same two things in each "
            "row, add two columns, left and right, with their names)"
        )
    return f"a table of {about} ({names}); {missing}, so no votes are seen in it"


def _what_is_missing(columns: Sequence[ColumnProfile], first: str, second: str) -> str:
    """Why two columns of items are no comparisons."""
    if right := _right_answers(columns):
        return f"{right[0]} says which answers are right, and a task with right answers is no vote"
    if empty := [one.name for one in columns if not one.counts and one.called(_CHOICE)]:
        return f"{empty[0]} is empty"
    missing = "no column clearly says who won"
    if expected := [one.name for one in columns if one.called(_EXPECTED & _TRAP)]:
        return f"{missing} ({expected[0]} looks like what was known or expected)"
    names = {one.name for one in columns}
    pairs = _pairs(
        one for one in columns
        if one.numeric and not one.called(_IDS) and f"{one.name}.name" not in names
    )  # fmt: skip
    if scores := [pair for pair in pairs if not {first, second} & {*pair}]:
        missing += (
            f"; if {scores[0][0]} and {scores[0][1]} are scores, add {_option('ranks', scores[0])} "
            "with -O higher=better or -O lower=better"
        )
    return missing
