"""The words of column names, keys and labels: which side, which item, tie or no answer."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence


def word_set(text: str, separator: str | None = None) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split(separator))


_TOKENS = re.compile(r"\d+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")
_SIGNED = re.compile(r"\s*(\w+)\s*(>+|<+|=+|≈)\s*(\w+)\s*")
# Ways to count the things shown, each from the first one on.
_COUNTS: tuple[tuple[str, ...], ...] = (
    ("left", "right"),
    ("leftvote", "rightvote"),
    ("links", "rechts"),
    ("gauche", "droite"),
    ("izquierda", "derecha"),
    ("izquierdo", "derecho"),
    ("esquerda", "direita"),
    ("sinistra", "destra"),
    ("слева", "справа"),
    ("左", "右"),
    ("左边", "右边"),
    ("왼쪽", "오른쪽"),
    ("sol", "sag"),
    ("lewy", "prawy"),
    ("home", "away"),
    ("home", "visitor"),
    ("home", "visiting"),
    ("home", "guest"),
    ("heim", "gast"),
    ("white", "black"),
    ("red", "blue"),
    ("r", "b"),
    ("primero", "segundo"),
    ("premier", "second"),
    ("erste", "zweite"),
    ("erstes", "zweites"),
    ("first", "second", "third", "fourth", "fifth", "sixth"),
    ("one", "two", "three", "four", "five", "six"),
    tuple("abcdefgh"),
    tuple(str(n) for n in range(1, 21)),
    tuple(str(n) for n in range(20)),
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
    "over vote|skipped ranking|n a|undeclared",
    "|",
)
#: What people write where no choice was made.
SKIPS = word_set(
    "skip|skipped|none|na|n a|null|error|invalid|unsure|not sure|cannot decide|cant decide|unknown|"
    "i dont know|dont know|idk|pass|no answer|timeout|missing|unclear|abstain|uberspringen|"
    "weiss nicht|ubersprungen|passer|omitir|no se|saltar",
    "|",
)
#: Words of columns that say that the two sides were shown the other way round.
SWAPPED = word_set(
    "swap swapped flip flipped reverse reversed switched mirrored inverted vertauscht getauscht"
)
#: Words of columns that say which rows are checks or practice, and no answers of the study.
CHECKS = word_set("attention catch practice training warmup vigilance sanity tutorial dummy")
#: Words of columns that say in which order the two were shown.
SHOWN_ORDER = word_set("order presentation presented shown display displayed reihenfolge")
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
    "vp", "session",
)  # fmt: skip
_NOT_RATERS = word_set(
    "time at date duration rt age gender sex comment reason text answer response trial hit "
    "assignment group type language lang country agent elo score count confidence index idx "
    "rating rank notes feedback education prompt query message input output status"
)
_VERDICTS = word_set("left right better best prefer preferred wins winner choose chosen")
# Buckets whose order their names say, best first.
_SCALES: tuple[tuple[str, ...], ...] = (
    ("best", "good", "ok", "bad", "worst"),
    ("excellent", "good", "okay", "poor", "terrible"),
    ("excellent", "good", "average", "poor", "bad"),
    ("good", "fair", "poor"),
    ("good", "neutral", "bad"),
    ("top", "middle", "bottom"),
    ("high", "medium", "low"),
    ("relevant", "irrelevant"),
    ("better", "worse"),
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
    last = tokens(re.split(r"[.:]", key)[-1])
    words = last if set(last) & set(_RATERS) else tokens(key)
    if set(words) & _NOT_RATERS:
        return None
    if {"human", "id"} <= set(words):
        return "annotator"
    return min((word for word in words if word in _RATERS), key=_RATERS.index, default=None)


def rater_place(word: str) -> int:
    """How surely a word of `rater_word` names raters, 0 for the surest."""
    return _RATERS.index(word)


def label_meaning(label: str) -> str | int | None:
    """What a well-known label means: tie, both_bad, or the place of an item counted from 1."""
    if (signed := _SIGNED.fullmatch(label)) is not None:
        # `A > B`, `A >> B`, `A = B`, `A < B`
        sides = (signed[1].lower(), signed[3].lower())
        for first, second in ((1, 2), (2, 1)):
            if any(sides == count[:2] for count in _COUNTS[:-1]):
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
    said = [word for word in words if word not in _FILLERS]
    for count in _COUNTS[:-1] if len(said) == 1 else ():
        if said[0] in count:
            return count.index(said[0]) + 1
    return None


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
