"""What labels and the names of keys mean, by their words; where a task names its items."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, Protocol

from bbq_adapters.row_values import lookup
from bbq_plugin.data.mappings import Reading, UnclearError
from bbq_plugin.errors import FormatError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence


def word_set(text: str, separator: str | None = None) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split(separator))


def word_lists(text: str) -> tuple[tuple[str, ...], ...]:
    """The words of each part of a text between upright strokes, in order."""
    return tuple(tuple(part.split()) for part in text.split("|"))


_TOKENS = re.compile(r"\d+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")
_NEGATIVE = re.compile(r"\s*-\s*[0-9.]+\s*")
_SIGNED = re.compile(r"\s*(\w+)\s*(>+|<+|=+|≈)\s*(\w+)\s*")
# Ways to count the things shown, each from the first one on. The last two do so in the names of
# columns only.
_COUNTS = word_lists(
    "left right|leftvote rightvote|links rechts|gauche droite|izquierda derecha|"
    "izquierdo derecho|esquerda direita|sinistra destra|слева справа|左 右|左边 右边|"
    "왼쪽 오른쪽|sol sag|lewy prawy|home away|home visitor|home visiting|home guest|heim gast|"
    "local visitante|mandante visitante|casa trasferta|casa ospite|domicile exterieur|"
    "white black|red blue|r b|primero segundo|premier second|erste zweite|erstes zweites|"
    "first second third fourth fifth sixth|one two three four five six|a b c d e f g h|"
    f"{' '.join(map(str, range(1, 21)))}|l r|{' '.join(map(str, range(20)))}"
)
# Counts of which the first word is often left out.
_COUNTED_ON = frozenset({"second", "2", "1"})
_ANY_COUNT = frozenset(word for count in _COUNTS for word in count)
# A key that ends in one of these words names an item (answer1_model); one that ends in
# another holds what was shown (model1_answer).
NAME_WORDS = word_set(
    "model system method name id condition generator engine variant codec algorithm "
    "checkpoint policy"
)
#: The same without the words that every list has.
STRONG_NAME_WORDS = NAME_WORDS - {"id", "name"}
# What people write around a side without changing its meaning.
_FILLERS = word_set(
    "is are was the this that i prefer preferred better best wins winner much slightly clearly "
    "strongly answer response model option image text output video audio system candidate "
    "sample side item choose chosen version summary translation picture result "
    "sentence passage paragraph story caption clip photo "
    "ist besser klingt mieux est mejor meglio melhor es variante"
)
# The same words where a script has no blanks: 左边更好 is 左边.
_GLUED = re.compile(r"(?<=.)(?:更好|较好|好|胜出|胜|赢|的?模型)$")
_TIES = word_set(
    "tie|tied|draw|equal|equally good|both equal|both good|both are good|both equally good|same|"
    "tievote|the same|about the same|no preference|no difference|equivalent|neither is better|"
    "both|both are equal|they are equal|they are the same|both are equally good|about equal|"
    "roughly equal|roughly the same|equal quality|same quality|no clear winner|"
    "equals|equally|even|ties|drawn|undecided draw|both same|both the same|equal both|"
    "egal|gleich|gleich gut|beide gleich|beide gleich gut|gleichwertig|unentschieden|"
    "kein unterschied|"
    "egalite|match nul|nul|identique|pareil|les deux|"
    "empate|igual|iguales|ambos|ambas|sin diferencia|pareggio|uguale|uguali|entrambi|"
    "ничья|одинаково|равны|平局|平|同じ|引き分け|无差别|一样|一样好|"
    "差不多|持平|打平|平手|同样好|同等|無差別|どちらも同じ|무승부|동일|berabere|"
    "esit|remis|tak samo",
    "|",
)
_BOTH_BAD = word_set(
    "both bad|bothbad|both are bad|equally bad|tie both bad|tie bothbad|neither is good|"
    "bothbad vote|both are equally bad|both equally bad|both poor|neither good",
    "|",
)
#: What ballots have in the place of a name.
NO_NAMES = word_set(
    "undervote|overvote|skipped|skip|blank|none|exhausted|no choice|no preference|under vote|"
    "over vote|skipped ranking|n a|undeclared|blanc|abstention|abstain|enthaltung|"
    "noprefs|no prefs|nopref|no vote|nulo|en blanco|vote blanc",
    "|",
)
#: What people write where no choice was made.
SKIPS = word_set(
    "skip|skipped|none|na|n a|null|error|invalid|unsure|not sure|cannot decide|cant decide|unknown|"
    "i dont know|dont know|idk|pass|no answer|timeout|missing|unclear|abstain|uberspringen|"
    "weiss nicht|ubersprungen|passer|omitir|no se|saltar|keine|keiner|keines|keine von beiden|"
    "aucun|aucune|ninguno|ninguna|nessuno|nessuna|nenhum|nenhuma|none of them",
    "|",
)
# Words of columns that say that the two sides were shown the other way round, or where they stood.
_SWAPPED = word_set(
    "swap swapped flip flipped reverse reversed switched mirror mirrored inverted vertauscht "
    "getauscht shuffled counterbalance counterbalanced"
)
_SHOWN = word_set(
    "order presentation presented shown display displayed reihenfolge position pos side location"
)
#: Words for where one of two stood.
PLACES = word_set("left right first second top bottom shown presented")
# The order in which two were shown, as a value: AB, B-A, 2,1.
_ORDERS = re.compile(r"(a\W?b|b\W?a|1\W?2|2\W?1|0\W1|1\W0)")
#: What says no and yes.
NO, YES = word_set("false no 0 f n"), word_set("true yes 1 t y")
# Flags of rows that count and of those that do not, and what is said of the latter.
_COUNTED_IN = word_set("valid passed include included approved keep kept gultig")
_LEFT_OUT = word_set(
    "practice training catch attention check sanity vigilance warmup tutorial dummy golden gold "
    "test demo example excluded exclude deleted removed invalid spam flagged cancelled canceled "
    "void duplicate outlier discarded withdrawn banned bot screened trap"
)
_NO_ANSWERS = word_set(
    "practice training catch attention vigilance warmup tutorial dummy sanity deleted removed "
    "cancelled canceled invalid excluded undo undone retracted withdrawn rejected spam void "
    "abandoned aborted"
)
# Columns that tell kinds of rows apart, and what they call those that are no answers.
_ROW_KINDS = word_set(
    "kind type phase stage block task part event trial condition screen category section name "
    "practice training catch attention check golden"
)
_OTHER_ROWS = _NO_ANSWERS | word_set(
    "check example golden gold instructions instruction demo consent survey break control quality "
    "ubung"
)
# How many answers a row stands for.
_COUNTED = word_set(
    "count counts freq frequency votes n num nb times wins games matches battles "
    "comparisons judgments judgements annotators raters voters respondents anzahl "
    "stimmen of"
)
_TIED = word_set("tie ties tied draw draws drawn equal")
# What people were asked: names of columns, and what they hold.
_QUESTIONS = word_set(
    "criterion criteria aspect aspects dimension facet attribute metric kriterium critere criterio"
)
_CRITERIA = word_set(
    "fluency adequacy relevance relevancy coherence clarity accuracy naturalness helpfulness "
    "harmlessness overall informativeness consistency factuality aesthetics realism grammar "
    "faithfulness engagingness humanness correctness usefulness readability intelligibility "
    "similarity honesty safety quality truthfulness completeness conciseness beauty"
)
_MORE = word_set("better best most more prefer preferred like liked higher")
_LESS = word_set("worse worst least less dislike disliked dispreferred lower")
# What a text asks for, where it asks for the worse of two.
_WORSE = word_set(
    "worse worst inferior poorer poorest dislike disliked reject rejected remove eliminate discard "
    "loser lost schlechter schlechtere schlechteste peor peores pire pires peggio peggiore pior "
    "хуже 更差 较差"
)
_FLAWS = word_set(
    "noise noisy noisier noisiest annoying annoyed annoyance distorted distortion distortions "
    "artifact artifacts artefact artefacts toxic toxicity blur blurry blurrier blurriest blurred "
    "degraded degradation unpleasant ugly uglier ugliest harmful offensive disturbing impaired "
    "impairment impairments errors flaws defects biased hateful rude boring unnatural unrealistic "
    "inaccurate irritating fake bad storend storender storendste"
)
_FEWER = word_set("less least fewer fewest lower lowest without no not free")
_BETTER = word_set("better best prefer preferred preference nicer superior")
# What more of is better, so that less of it is worse.
_GOOD = _BETTER | word_set(
    "like liked natural realistic pleasant helpful good attractive appealing beautiful quality "
    "accurate correct useful safe sharp clear convincing favorite favourite"
)
# Names of columns of what was asked, and words of such texts.
_ASKED = _QUESTIONS | word_set("question instruction instructions task frage consigne pregunta")
_CUES = word_set(
    "which select choose pick click mark identify welche welches welcher wahle quelle quel cual "
    "quale qual choisissez elige"
)
_FEW = 14
# Words of columns that say who answered, the surer ones first; and words that make such a column
# something else.
_RATERS = (
    "judge", "rater", "annotator", "evaluator", "assessor", "juror", "reviewer", "labeler",
    "labeller", "observer", "worker", "performer", "participant", "subject", "respondent", "voter",
    "expert", "coder", "grader", "answerer", "prolific", "listener", "teilnehmer", "bewerter",
    "gutachter", "juge", "annotateur", "evaluateur", "participante", "juez", "evaluador",
    "giudice", "valutatore", "prufer", "pruferin", "tester", "testperson", "richter", "panelist",
    "marker", "examiner", "scorer", "taster", "critic", "crowdworker", "utilisateur", "usuario",
    "votante", "encuestado", "avaliador", "jurado", "jure", "juri", "student", "teacher", "email",
    "nickname", "visitor", "标注员", "标注者", "评委", "评价者", "评估者", "用户", "評価者",
    "평가자", "оценщик", "эксперт", "annotatorid", "judgeid", "raterid", "workerid",
    "participantid", "subjectid", "turker", "user", "username", "userid", "person", "proband",
    "vp", "subj", "sbj", "ppt", "ppn", "vpn", "stakeholder", "session",
)  # fmt: skip
_NOT_RATERS = word_set(
    "time at date duration rt age gender sex comment reason text answer response trial hit "
    "assignment group type language lang country agent elo score count confidence index idx "
    "rating rank notes feedback education prompt query message input output status"
)
#: Columns of such names group the questions or the items; they name neither people nor items.
GROUPS = word_set(
    "lang language category domain type topic task dataset city country tournament group prompt "
    "question url link version split source scene batch neutral gender status venue round season "
    "league mode level difficulty precinct ward district county region state school"
)
# Those of them that may name an item as well.
_OF_ITEMS = word_set("source version group")
# What also names a field of knowledge, or one of two models.
_UNSURE_RATERS = word_set("subject student teacher critic coder expert marker person scorer")
_TOPICS = word_set(
    "math maths mathematics algebra geometry calculus physics chemistry biology history law "
    "medicine economics geography philosophy psychology literature politics astronomy anatomy "
    "statistics engineering business finance coding programming writing science"
)
_VERDICTS = word_set("left right better best prefer preferred wins winner choose chosen")
# Buckets whose order their names say, best first.
_SCALES = word_lists(
    "best good ok bad worst|excellent good okay poor terrible|excellent good average poor bad|"
    "good fair poor|good neutral bad|top middle bottom|high medium low|relevant irrelevant|"
    "better worse"
)


def tokens(text: str) -> list[str]:
    """The words and numbers of a name, without accents: `answer1_model` → answer, 1, model."""
    return list(_tokens(text))


@lru_cache(maxsize=4096)
def _tokens(text: str) -> tuple[str, ...]:
    if not text.isascii():
        text = "".join(
            c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)
        )
    found = [token.lower() for token in _TOKENS.findall(text)]
    # 1st choice, 2nd choice: the number says it.
    return tuple(
        token
        for before, token in zip(["", *found], found, strict=False)
        if not (before.isdigit() and token in ("st", "nd", "rd", "th"))
    )


def families(keys: Iterable[str]) -> list[tuple[str, ...]]:
    """Groups of keys that differ in nothing but a count from the first on, in that order."""
    keys = list(keys)
    groups: dict[tuple[int, int, tuple[str, ...]], dict[str, str]] = {}
    for key in keys:
        words = tokens(key)
        for place, word in enumerate(words):
            stem = (*words[:place], *words[place + 1 :])
            for which, count in enumerate(_COUNTS):
                if word in count:
                    groups.setdefault((which, place, stem), {})[word] = key
    found: list[tuple[str, ...]] = []
    for (which, _, _), members in groups.items():
        count = _COUNTS[which]
        if len(members) < 2 or set(count[: len(members)]) != set(members):
            continue
        family = tuple(members[word] for word in count[: len(members)])
        if family not in found:
            found.append(family)
    # The first of several may go without its number: name and name2, item and item.1.
    counted = {key for family in found for key in family}
    alone = {tuple(tokens(key)): key for key in keys if key not in counted}
    for (which, _, stem), members in groups.items():
        count = _COUNTS[which]
        if _COUNTED_ON.isdisjoint(count) or count[0] in members or stem not in alone:
            continue
        if set(count[1 : len(members) + 1]) == set(members):
            family = (alone[stem], *(members[word] for word in count[1 : len(members) + 1]))
            if counted.isdisjoint(family):
                found.append(family)
                counted.update(family)
    # Of those counted from 0, those from 1 on are no family of their own.
    return [one for one in found if not any(set(one) < set(other) for other in found)]


@lru_cache(maxsize=256)
def side_keys(keys: tuple[str, ...]) -> frozenset[str]:
    """The keys that speak of one side only."""
    return frozenset(key for family in families(keys) for key in family)


def names_an_item(key: str, *, words: Collection[str] = NAME_WORDS) -> bool:
    """Whether a key looks like one that holds the name of an item."""
    own = [word for word in tokens(key) if word not in _ANY_COUNT]
    return bool(own) and own[-1].removesuffix("s") in words


def rater_word(key: str) -> str | None:
    """The word by which a key names who answered: `judge` of judge_model, `worker` of A:worker_id.

    Of a path or a prefixed name the last part decides, if it has such a word.
    """
    *_, before, end = ["", *re.split(r"[.:]", key)]
    # users.0 is the first of a list of users.
    last = tokens(before.removesuffix("s") if end.isdigit() else end)
    words = last if set(last) & set(_RATERS) else tokens(key)
    if set(words) & _NOT_RATERS:
        return None
    if {"human", "id"} <= set(words):
        return "annotator"
    return min((word for word in words if word in _RATERS), key=_RATERS.index, default=None)


def may_be_a_topic(key: str, values: Iterable[str]) -> bool:
    """Whether a key that may name who answered may as well name what it was about, or a model."""
    words = tokens(key)
    unsure = len(words) == 1 and words[0] in _UNSURE_RATERS
    return unsure and not any(any(map(str.isdigit, value)) or "@" in value for value in values)


def is_topic(values: Iterable[str]) -> bool:
    """Whether values are fields of knowledge."""
    return any(set(tokens(value)) & _TOPICS for value in values)


def rater_place(word: str) -> int:
    """How surely a word of `rater_word` names raters, 0 for the surest."""
    return _RATERS.index(word)


def label_meaning(label: str) -> str | int | None:
    """What a well-known label means: tie, both_bad, or the place of an item counted from 1."""
    if (signed := _SIGNED.fullmatch(label)) is not None:
        # `A > B`, `A >> B`, `A = B`, `A < B`
        sides = (signed[1].lower(), signed[3].lower())
        for first, second in ((1, 2), (2, 1)):
            if any(sides == count[:2] for count in _COUNTS[:-2]):
                return {">": first, "<": second}.get(signed[2][0], "tie")
            # `B > A`
            sides = sides[::-1]
        return None
    words = [_GLUED.sub("", word) or word for word in tokens(label.replace("'", ""))]
    phrase = " ".join(words)
    if phrase in _TIES or label.strip() in _TIES:
        return "tie"
    if phrase in _BOTH_BAD:
        return "both_bad"
    # -1 is no 1
    said = (
        [word for word in words if word not in _FILLERS] if not _NEGATIVE.fullmatch(label) else []
    )
    for count in _COUNTS[:-2] if len(said) == 1 else ():
        if said[0] in count:
            return count.index(said[0]) + 1
    return None


def beside(name: str, cells: Sequence[str]) -> str | None:
    """What a column beside the votes may change in their meaning, by its name and its cells.

    `shown`: where the two stood; `rows`: which rows are answers; `count`: how many a row stands
    for; `tie`: which rows are ties; `question`: what was asked. None: nothing of these.
    """
    values = {cell for cell in cells if cell}
    if _counts(name, cells):
        return "count"
    if not 2 <= len(values) <= _FEW:
        return None
    words = set(tokens(name))
    flags = {value.casefold() for value in values} <= YES | NO
    said = [label_meaning(value) for value in values]
    if kept_rows(name, values) is not None:
        return "rows"
    if _is_shown(words, values):
        return "shown"
    if (flags and words & _TIED) or ("tie" in said and not any(isinstance(s, int) for s in said)):
        return "tie"
    return "question" if not flags and _asks(words, values) else None


def _counts(name: str, cells: Sequence[str]) -> bool:
    """Whether whole numbers say how many answers a row stands for, and do not number the rows."""
    words = set(tokens(name)) - _ANY_COUNT
    if not words or not words <= _COUNTED or not all(map(str.isdigit, filter(None, cells))):
        return False
    numbers = [int(cell) for cell in cells[:5000] if 0 < len(cell) < 16 and cell.isascii()]
    steps = [after - before for before, after in pairwise(numbers)]
    return max(numbers, default=0) > 1 and 2 * steps.count(1) <= len(steps)


def kept_rows(name: str, values: Collection[str]) -> list[str] | None:
    """The values of a column whose rows are answers, where it marks others that are none."""
    if not 2 <= len(values) <= _FEW:
        return None
    words = set(tokens(name))
    if {value.casefold() for value in values} <= YES | NO:
        wanted = YES if words & _COUNTED_IN else NO if words & _LEFT_OUT else frozenset[str]()
        kept = [value for value in values if value.casefold() in wanted]
    else:
        others = _OTHER_ROWS if words & _ROW_KINDS else _NO_ANSWERS
        kept = [value for value in values if not set(tokens(value)) & others]
    return kept if 0 < len(kept) < len(values) else None


def is_check(name: str) -> bool:
    """Whether a name speaks of practice and the like."""
    return not _NO_ANSWERS.isdisjoint(tokens(name))


def _is_shown(words: set[str], values: Collection[str]) -> bool:
    """Whether two values say where the two of a row stood."""
    low = {value.casefold() for value in values}
    flags = low <= YES | NO
    if len(low) != 2 or words & _VERDICTS - PLACES:
        return False
    if all(map(_ORDERS.fullmatch, low)) or (words & _SWAPPED and (flags or low <= {"1", "2"})):
        return True
    if any(set(tokens(value)) & _SWAPPED for value in values):
        return True
    placed = low == {"l", "r"} or all(isinstance(label_meaning(value), int) for value in values)
    # The order of 1 and 2 may be that of votes, as evaluation_order is.
    numbered = all(map(str.isdigit, low)) and words & {"order", "pos", "position"}
    return bool(words & (_SHOWN | PLACES)) and (flags or placed) and not numbered


def _asks(words: set[str], values: Collection[str]) -> bool:
    """Whether values are what was asked: several criteria, or the better and the worse.

    Lists and objects are remarks, whatever their words.
    """
    said = [set(tokens(value)) for value in values if not value.startswith(("[", "{"))]
    sides = [any(one & way for one in said) for way in (_MORE, _LESS)]
    return (
        bool(words & _QUESTIONS)
        or sum(bool(one & _CRITERIA) for one in said) > 1
        or (all(sides) and not any(isinstance(label_meaning(value), str | int) for value in values))
    )


def asks_for_worse(text: str) -> bool | None:
    """Whether a text asks for the worse of two: noisier, least liked; None where that is unclear.

    Who asks for the better one may speak of flaws as well: for fewer of them.
    """
    words = set(tokens(text))
    worse, fewer = words & _WORSE, words & _FEWER
    if worse:
        return None if fewer or words & _BETTER else True
    if words & _FLAWS and not words & _BETTER:
        more = words & {"more", "most"}
        return (None if more else False) if fewer else True
    if words & _FLAWS or not fewer - {"no", "not", "without", "free"}:
        return False
    return True if words & _GOOD and not words & {"more", "most"} else None


def is_question(name: str, text: str) -> bool:
    """Whether a text may be what was asked, by the name of its column or by its own words."""
    return bool({*tokens(name)} & _ASKED or {*tokens(text)} & _CUES)


def is_bare(label: str) -> bool:
    """Whether a label is a lone letter or number, which may as well be something else."""
    words = tokens(label)
    return len(words) == 1 and (len(words[0]) == 1 or words[0].isdigit())


def is_sided(label: str) -> bool:
    """Whether a label speaks of left or right, which only two things have."""
    return not {"left", "right"}.isdisjoint(tokens(label))


def is_verdict(label: str) -> bool:
    """Whether a label with a meaning can hardly be anything but an answer."""
    return isinstance(label_meaning(label), str) or not _VERDICTS.isdisjoint(tokens(label))


def ordered_buckets(names: Sequence[str]) -> list[str] | None:
    """Buckets best first where their names say so, else None."""
    for scale in _SCALES:
        places: dict[int, str] = {}
        for name in names:
            on_scale = [scale.index(word) for word in tokens(name) if word in scale]
            if len(on_scale) == 1:
                places[on_scale[0]] = name
        if len(places) == len(names):
            return [places[place] for place in sorted(places)]
    return None


_LONGEST_NAME = 120
_LONGEST_TAG = 60
_MOST_TAGS = 30
_SHOWN_KEYS = 25
_MISSING = object()
# How an entry of a list is known to the control that shows it: a Ranker takes the id,
# Choices take the alias, else the value.
_IDENTITIES = ("id", "alias", "value")


class NamingTask(Protocol):
    """A task of any tool: its data, and the line of its file."""

    @property
    def data(self) -> dict[str, Any]:
        """What the task shows, by key."""

    @property
    def line(self) -> int | None:
        """Where it stands."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The items stand under keys of their own, in the order in which they are shown."""

    keys: tuple[str, ...]

    def names(self, data: dict[str, Any]) -> list[str] | None:
        """The items' names, or None if one is missing."""
        found = [name_of(lookup(data, key)) for key in self.keys]
        names = [name for name in found if name is not None]
        return names if len(names) == len(found) else None


@dataclass(frozen=True, slots=True)
class Listed:
    """The items are the entries of a list; `field` names them, else what identifies them."""

    key: str
    field: str | None = None

    def names(self, data: dict[str, Any]) -> list[str] | None:
        """The items' names, or None if one is missing."""
        shown = list(self.by_identity(data).values())
        names = [name for name in shown if name is not None]
        return names if names and len(names) == len(shown) else None

    def by_identity(self, data: dict[str, Any]) -> dict[str, str | None]:
        """The names of the entries by what the control calls them."""
        return {
            own: name_of(entry.get(self.field)) if self.field and isinstance(entry, dict) else own
            for entry in entries(lookup(data, self.key))
            if (own := identity(entry)) is not None
        }


Source = Keys | Listed


def entries(value: Any) -> Iterator[Any]:
    """The entries of a list, and those nested in them as `children`."""
    if not isinstance(value, list):
        return
    waiting = list(reversed(value))
    while waiting:
        entry = waiting.pop()
        yield entry
        if isinstance(entry, dict) and isinstance(entry.get("children"), list):
            waiting.extend(reversed(entry["children"]))


def identity(entry: Any) -> str | None:
    """What the control calls an entry of its list."""
    if isinstance(entry, dict):
        return next((own for key in _IDENTITIES if (own := name_of(entry.get(key)))), None)
    return name_of(entry)


def name_of(value: Any) -> str | None:
    """A name as text without blanks around it, or None for what is none."""
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return str(int(value)) if float(value).is_integer() else str(value)
    except (ValueError, OverflowError):
        return None


def told_keys(paths: tuple[str, ...], sample: Sequence[NamingTask], file: str) -> Source:
    """The source that the option `items` names, checked against the data."""
    if len(paths) == 1:
        return told_list(paths[0], sample, file)
    for path in paths:
        if all(lookup(task.data, path, _MISSING) is _MISSING for task in sample):
            raise _no_such_key(path, sample, file)
    return Keys(paths)


def told_list(path: str, sample: Sequence[NamingTask], file: str) -> Listed:
    """A list, or a field of its entries: `images` or `images.model`."""
    if any(isinstance(lookup(task.data, path), list) for task in sample):
        return Listed(path)
    key, dot, field = path.rpartition(".")
    if dot and any(
        isinstance(entry, dict) and field in entry
        for task in sample
        for entry in entries(lookup(task.data, key))
    ):
        return Listed(key, field)
    raise _no_such_key(path, sample, file)


def _no_such_key(path: str, sample: Sequence[NamingTask], file: str) -> FormatError:
    keys = sorted({key for task in sample for key in task.data})
    problem = f"no task has the key {path!r} that the option items names; {described(sample)}"
    remedy = did_you_mean(path, keys, "name keys that the tasks have", before="")
    return FormatError(problem, file, sample[0].line, path, remedy)


def found_keys(
    sample: Sequence[NamingTask], most: int | None, file: str, adapter: str = "label-studio"
) -> Source:
    """The keys that name the items, or a refusal that lists the keys.

    A group of keys qualifies if they differ only in a side (model1, model2), one of
    their words says that they name something, and every task has short texts there.
    `most` is how many items the control shows, None if it may be any number.
    """
    keys = list(dict.fromkeys(key for task in sample for key in task.data))
    good: list[Source] = [
        Keys(family)
        for family in families(keys)
        if most in (None, len(family))
        and all(names_an_item(key) for key in family)
        and _all_short(Keys(family), sample)
    ]
    good += [
        Listed(key)
        for key in keys
        if names_an_item(key)
        and _is_plain_list(key, most, sample)
        and _all_short(Listed(key), sample)
    ]
    if len(good) == 1:
        return good[0]
    what = "several groups of keys could hold" if good else "no keys clearly hold"
    problem = f"{what} the names of the items; {described(sample)}"
    likely = good or _by_values(sample, keys, most)
    if likely:
        shown = " or items=".join(",".join(_paths(source)) for source in likely[:3])
        problem += f"; say which with the option items={shown}"
    else:
        example = ",".join(("KEY",) * (most or 2))
        problem += (
            f"; name them with the option items={example}, or add the names to the tasks where "
            "they are missing"
        )
    readings = [
        Reading(
            adapter, {"items": _paths(source)}, "possible" if i else "likely",
            "items named by keys of the task data",
            difference=f"{', '.join(_paths(source))} name the items",
            doubts=(_values_shown(source, sample),),
        )
        for i, source in enumerate(likely[:3])
    ]  # fmt: skip
    raise UnclearError(problem, file, readings, sample[0].line, keys[:_SHOWN_KEYS])


def _paths(source: Source) -> tuple[str, ...]:
    return source.keys if isinstance(source, Keys) else (source.key,)


def _values_shown(source: Source, sample: Sequence[NamingTask]) -> str:
    """Some of the names, for a message."""
    found = dict.fromkeys(name for task in sample for name in source.names(task.data) or ())
    some = ", ".join(repr(name[:40]) for name in list(found)[:4])
    return (
        f"{', '.join(_paths(source))} would name the items {some}{' …' if len(found) > 4 else ''}"
    )


def _by_values(sample: Sequence[NamingTask], keys: list[str], most: int | None) -> list[Source]:
    """Groups of keys whose few values come again in many tasks, as names do and texts do not.

    A language comes again as well.
    """
    for task in sample[:1]:
        keys = keys + [f"{k}.{inner}" for k, v in task.data.items() if isinstance(v, dict)
                       for inner in v]  # fmt: skip
    keys = [key for key in keys if {*tokens(key)} - _ANY_COUNT - (GROUPS - _OF_ITEMS)]
    groups = [family for family in families(keys) if most in (None, len(family))]
    if most in (None, 2):
        groups += [pair for pair in combinations(keys, 2) if pair not in groups]
    found: list[tuple[float, Source]] = []
    for group in groups:
        source = Keys(tuple(group))
        named = [names for task in sample if (names := source.names(task.data))]
        values = [{names[i] for names in named} for i in range(len(group))]
        union = set().union(*values)
        if len(named) * 2 <= len(sample) or len(named) < 3 or not _all_short(source, sample):
            continue
        common = set.intersection(*values)
        if len(union) * 2 > len(named) or len(union) < 2 or len(common) * 2 < min(map(len, values)):
            continue
        found.append((len(union), source))
    found.sort(key=lambda one: -one[0])
    return [source for _, source in found]


def _all_short(source: Source, sample: Sequence[NamingTask]) -> bool:
    """Whether most tasks have names there, and none has anything else."""
    found = [names for task in sample if (names := source.names(task.data))]
    return len(found) * 2 > len(sample) and all(
        len(name) <= _LONGEST_NAME and "\n" not in name and "://" not in name
        for names in found
        for name in names
    )


def _is_plain_list(key: str, most: int | None, sample: Sequence[NamingTask]) -> bool:
    lists = [task.data[key] for task in sample if key in task.data]
    return all(
        isinstance(one, list)
        and len(one) >= 2
        and most in (None, len(one))
        and all(isinstance(entry, str) for entry in one)
        for one in lists
    )


def described(sample: Sequence[NamingTask]) -> str:
    """The keys of the tasks with a value each, for a message."""
    seen: dict[str, Any] = {}
    for task in sample:
        for key, value in task.data.items():
            seen.setdefault(key, value)
    shown = [f"{key!r} (e.g. {_brief(value)})" for key, value in list(seen.items())[:_SHOWN_KEYS]]
    rest = ", …" if len(seen) > _SHOWN_KEYS else ""
    return f"the task data have {', '.join(shown)}{rest}" if shown else "the tasks have no data"


def _brief(value: Any) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}" + (f": {_briefest(value[0])}" if value else "")
    return _briefest(value)


def _briefest(value: Any, longest: int = 40) -> str:
    if isinstance(value, dict):
        return "an object with " + ", ".join(repr(key)[:longest] for key in list(value)[:6])
    name = name_of(value)
    if name is None:
        return "a list" if isinstance(value, list) else type(value).__name__
    return repr(name[:longest] + "…" if len(name) > longest else name)


def tags_of(data: dict[str, Any], without: Iterable[str]) -> dict[str, str] | None:
    """What the data say about the comparison as a whole: short values, of no single side."""
    left_out = side_keys(tuple(data)).union(without)
    tags: dict[str, str] = {}
    for key, value in data.items():
        if key in left_out or len(tags) == _MOST_TAGS:
            continue
        text = ("true" if value else "false") if isinstance(value, bool) else name_of(value)
        if text is not None and len(text) <= _LONGEST_TAG and "\n" not in text:
            tags[key] = text
    return tags or None
