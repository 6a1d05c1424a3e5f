"""The vocabulary of the package: a comparison, a row left out, a write to a labelling project."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from bbq_plugin.text import chance, counted, number, plain

Outcome = Literal["left", "right", "tie", "both_bad"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
#: What an answer "both are bad" counts as.
BothBad = Literal["tie", "drop"]

#: The tag with which an adapter names the right answer of a known question: an outcome, or "other"
#: where only that the answer given is wrong is known.
GOLD = "gold"
#: The value of that tag on the answer that is itself the known one; no rater is judged by it.
TRUTH = "truth"
#: The tag, on one pair of a ranking, of whether it keeps the order shown: "kept" or "changed".
SHOWN_ORDER = "shown_order"

#: The covariate that is no tag: on which side an item stood.
SIDE = "side"
#: How two tags end of which a covariate such as `length_diff` is the difference.
COVARIATE_ENDS = (("_left", "_right"), ("_a", "_b"), ("_1", "_2"))

#: Tags that name what a question was about, as files call them (lower case, no separators).
_SUBJECTS = (
    "scene", "sceneid", "prompt", "promptid", "question", "questionid", "image", "imageid",
    "seedimage", "sourceimage", "refimage", "reference", "source", "sourceid", "segment",
    "segmentid", "segid", "sentence", "sentenceid", "document", "documentid", "docid", "video",
    "videoid", "clip", "instruction", "instructionid", "passage", "content", "contentid", "query",
    "queryid", "topic", "stimulus", "conversationid", "task", "taskid",
)  # fmt: skip

#: Beyond these one answer drowns all others, or is drowned by them, and a fit of both may fail.
LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 1e6
WEIGHT_BOUNDS = "a weight is above 0, from 1e-6 to 1e6"

#: Why a row was left out, where several readers say so.
AGAINST_ITSELF = "an item against itself"
NO_WINNER = "no winner recorded"
#: How the reason begins for which an answer to a known question cannot be read.
UNREAD = "a label that is not known"
BAD_WEIGHT = f"a weight out of bounds ({WEIGHT_BOUNDS})"


def is_subject(name: str) -> bool:
    """Whether a tag or field of this name says what a question was about."""
    return _bare(name) in _SUBJECTS


def is_task_number(name: str) -> bool:
    """Whether a tag of this name is the number of a task, of which several may ask the same."""
    return _bare(name) in ("task", "taskid")


def _bare(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def covariate_pairs(name: str) -> list[tuple[str, str]]:
    """Pairs of tags that may stand for a covariate: of the item on the left and on the right."""
    stem = name.removesuffix("_diff")
    return [(stem + left, stem + right) for left, right in COVARIATE_ENDS]


def covariate_of_side(name: str) -> tuple[str, str] | None:
    """Of a tag called as that of one side: the difference to ask for, and the other side's tag."""
    for ends in COVARIATE_ENDS:
        for mine, other in (ends, ends[::-1]):
            stem = name.removesuffix(mine)
            if stem and stem != name:
                return f"{stem}_diff", stem + other
    return None


def covariate_tags(names: Sequence[str]) -> list[str]:
    """All tags that these covariates may be made of, and those of the other side."""
    pairs = [tag for name in names for pair in covariate_pairs(name) for tag in pair]
    sides = [side[1] for name in names if (side := covariate_of_side(name)) is not None]
    return list(dict.fromkeys((*names, *pairs, *sides)))


class Comparison(msgspec.Struct, frozen=True, gc=False):
    """One answer as it was shown: who saw which two items where, and what they said.

    `slate` names the ranking or choice that this pair was broken out of; such a
    pair was not shown side by side, so its left and right mean nothing. `version` is
    when the answer was last changed (or any number that grows): of one key it is the
    highest version that counts.
    """

    key: str
    rater: str | None
    left: str
    right: str
    outcome: Outcome
    weight: float = 1.0
    slate: str | None = None
    at: float | None = None
    time_s: float | None = None
    tags: dict[str, str] | None = None
    version: float | None = None


class Skipped(msgspec.Struct, frozen=True, gc=False):
    """A row that was read and left out, with the place and the reason.

    `expected` says that this is no sign of trouble: the user asked for it, or the
    row is no answer by the format's own word. It is counted like any other, but
    `strict` and `max_skipped` pass over it. With a `key` it takes back what an older
    record with this key and the same `at` said: an answer that was cancelled or emptied.
    """

    where: str
    reason: str
    value: str | None = None
    expected: bool = False
    key: str | None = None
    version: float | None = None
    at: float | None = None


class Note(msgspec.Struct, frozen=True, gc=False):
    """Something about a file that the reader of the results should know."""

    text: str


class FullExport(msgspec.Struct, frozen=True, gc=False):
    """This file holds every answer whose key begins so, as of the newest change in it.

    A store takes back what such a file no longer holds; where single files are read,
    it changes nothing.
    """

    prefix: str
    as_of: float


#: What stands in `Batch.outcome` for a row without an answer.
NO_ANSWER = 255


@dataclass(frozen=True, slots=True)
class Batch:
    """Many answers of one file as columns: the fast way to hand over a large file.

    All columns have the same length. A row of an item against itself, and one
    whose outcome is NO_ANSWER, is counted as skipped; a blank rater is none.
    """

    #: The line of each row, for messages.
    lines: Sequence[int]
    #: None: no rater is named.
    rater: Sequence[str | int | float | None] | None
    left: Sequence[str | int | float]
    right: Sequence[str | int | float]
    #: One byte a row, an index into OUTCOMES.
    outcome: bytes
    #: None: the rows have no names of their own, and are never merged with others.
    keys: Sequence[str | int | float] | None = None
    at: Sequence[float | None] | None = None
    #: Tags by name, those that answers may be clustered by; None where a row has no value.
    tags: Mapping[str, Sequence[str | int | float | None]] = field(default_factory=dict)
    #: Names that no item of a batch can have, because they mean something else.
    reserved: frozenset[str] = frozenset()
    #: The same rows as single records, for a batch with a name that cannot be one.
    records: Callable[[], Iterator[Record]] | None = None


Record = Comparison | Skipped | Note | FullExport


@dataclass(frozen=True, slots=True)
class Source:
    """One file that went in: how it was read, what came of it, and its fingerprint."""

    file: str
    adapter: str
    why: str
    n_comparisons: int
    n_skipped: int
    #: Of the bytes of the file as it is, compressed or not.
    sha256: str


@dataclass(frozen=True, slots=True)
class LeadWord:
    """What a lead has decided about a rater, whatever the model says; "" takes it back."""

    rater: str
    verdict: Literal["keep", "exclude", ""]
    reason: str
    #: Who said so, and when, in seconds since 1970.
    by: str
    at: float

    @property
    def text(self) -> str:
        """In a sentence."""
        what = f"{self.verdict} {self.rater}" if self.verdict else f"{self.rater} as the model says"
        day = datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%d")
        return f"{self.by} has decided on {day}: {what}, because {self.reason}"

    def pseudonymous(self, rater: str) -> LeadWord:
        """The same under another name; the reason may have the real one in it."""
        return replace(self, rater=rater, reason="of a reason that the store has", by="a lead")


class Person(NamedTuple):
    """Who a rater is, for a lead who asks; kept nowhere."""

    name: str
    email: str

    @property
    def text(self) -> str:
        """Both in a line."""
        return f"{self.name} <{self.email}>" if self.name and self.email else self.name + self.email


class TaskRef(NamedTuple):
    """A task: the name that its answers are stored under, and the numbers that its server uses."""

    name: str
    project: int | None = None
    number: int | None = None


def row_counts(records: Iterable[object]) -> Counter[str]:
    """How many answers there are, under "", and how many rows are left out, by reason."""
    found: Counter[str] = Counter()
    last: str | None = None
    for one in records:
        if isinstance(one, Skipped):
            found[one.reason] += 1
        elif isinstance(one, Comparison):
            if one.left == one.right:
                found[AGAINST_ITSELF] += 1
            elif one.slate is None or one.slate != last:
                found[""] += 1
            last = one.slate
    return found


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task as it was when its page was read."""

    task: TaskRef
    #: When it last changed, as the tool writes it, and in seconds since 1970.
    stamp: str
    at: float
    n_answers: int
    n_cancelled: int
    #: The keys of all its answers, whether they count or not.
    keys: tuple[str, ...]
    #: For each question what `row_counts` finds in its answers.
    rows: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HistoryItem:
    """An item at one point of the history."""

    rating: float
    lower: float | None
    upper: float | None
    rank: int


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """The leaderboard after one refresh, in Elo."""

    #: In seconds since 1970.
    at: float
    n_comparisons: int
    #: incremental or full.
    how: str
    items: Mapping[str, HistoryItem]


def spread(counts: Sequence[int], most: int) -> list[int]:
    """Indices of at most so many points, spread over their numbers of comparisons."""
    if len(counts) <= most:
        return list(range(len(counts)))
    low, high = min(counts), max(counts)
    steps = max(1, most - 2)
    # The first and the last are always kept; the others are the newest of their steps.
    newest = {int((n - low) / max(1, high - low) * (steps - 1)): i for i, n in enumerate(counts)}
    return sorted({0, len(counts) - 1, *newest.values()})


ActionKind = Literal["relabel", "release", "tab", "predict", "project", "order", "pause", "cancel"]

ACTION_KINDS: tuple[ActionKind, ...] = get_args(ActionKind)
#: What can be asked for by its name; the others go along with these, or need a word of their own.
ASKABLE: tuple[ActionKind, ...] = ("relabel", "tab", "predict", "order", "pause")

#: begun: on record, perhaps written. undoing: perhaps undone. void: it was never written.
WriteState = Literal["begun", "done", "undoing", "undone", "void"]

SECONDS_A_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Action:
    """One write that is planned, with its reason and the values before and after it."""

    kind: ActionKind
    #: What it is about, such as "task 17": the same in every plan.
    target: str
    reason: str
    #: None: it does not exist yet.
    before: Mapping[str, Any] | None
    after: Mapping[str, Any]
    #: The id that the tool has given it.
    ref: int | None = None
    #: A release undoes these entries of the journal, which are of this kind.
    entries: tuple[int, ...] = ()
    released: ActionKind | None = None
    #: Because of whom.
    raters: tuple[str, ...] = ()

    def is_of(self, kinds: Collection[str]) -> bool:
        """Whether it does one of these, or undoes one of these."""
        return (self.released or self.kind) in kinds

    @property
    def n_writes(self) -> int:
        """How often the server is written to, as a limit counts it.

        A release undoes its entries one by one. A new score of our own prediction counts for
        nothing: scores follow every fit.
        """
        is_score = self.kind == "predict" and self.before is not None
        return 0 if is_score else max(1, len(self.entries))


#: Which tasks of excluded raters are asked again: those whose answers may change something, or all.
Relabel = Literal["useful", "all"]


@dataclass(frozen=True, slots=True)
class PlanWorth:
    """What the answers that a plan asks for are expected to change.

    ``p_best`` is that of the leader; the expected one that of the leader by then. A pair of items
    is open while it is not decided which of the two is better.
    """

    n_answers: int
    leader: str
    p_best: float
    p_best_expected: float
    #: The chance that P(best) of the leader by then is at least the level of the leaderboard.
    p_decided: float
    n_pairs: int
    n_open: int
    n_open_expected: float
    #: The study, where the same answers count in several; and what they change in the others.
    study: str = ""
    others: tuple[PlanWorth, ...] = ()

    @property
    def text(self) -> str:
        """In a sentence."""
        found = [
            (f"study {plain(one.study)}: " if one.study else "") + one._change
            for one in (self, *self.others)
        ]
        return f"{counted(self.n_answers, 'answer')} by typical raters: {'; '.join(found)}"

    @property
    def _change(self) -> str:
        return (
            f"P(best) of the leader, {chance(self.p_best)} now ({plain(self.leader)}), is expected "
            f"to become {chance(self.p_best_expected)}, and {self._open} to be open "
            f"({self.n_open:,} now)"
        )

    @property
    def best_text(self) -> str:
        """What becomes of the leader."""
        return (
            f"after {counted(self.n_answers, 'more answer')} by typical raters, on pairs chosen "
            "for the best item, P(best) of the leader is expected to be "
            f"{chance(self.p_best_expected)} ({chance(self.p_best)} now), and the best item to be "
            f"decided with a chance of {chance(self.p_decided)}"
        )

    @property
    def open_text(self) -> str:
        """What becomes of the pairs that are open."""
        return (
            f"after {counted(self.n_answers, 'more answer')} by typical raters, on pairs chosen "
            f"for the whole ranking, {self._open} are expected to be open ({self.n_open:,} now)"
        )

    @property
    def _open(self) -> str:
        still = number(self.n_open_expected, 1 if self.n_open < 100 else 0)
        return f"{still} of {counted(self.n_pairs, 'pair')}"


@dataclass(frozen=True, slots=True)
class FeedbackPlan:
    """What to write, in this order, and what has to be said about it."""

    actions: tuple[Action, ...]
    notes: tuple[str, ...] = ()
    #: What the tasks that are asked again buy; None: there are none, or it is not known.
    worth: PlanWorth | None = None


@dataclass(frozen=True, slots=True)
class ActionResult:
    """An action that was applied, or left with a reason."""

    action: Action
    left: str | None = None


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """An action on record."""

    id: int
    action: Action
    state: WriteState
    #: When it was put on record, in seconds since 1970.
    at: float


def kinds_of(asked: Iterable[str]) -> frozenset[str]:
    """The kinds that go with those asked for: predictions are served once the project says so."""
    kinds = frozenset(asked)
    return kinds | {"project"} if "predict" in kinds else kinds


@dataclass(frozen=True, slots=True)
class Policy:
    """What may be written without asking: these kinds, and so many writes in any 24 hours.

    Each write counts for 24 hours, whatever the day. What undoes a kind goes with it.
    """

    kinds: frozenset[str]
    a_day: int = 100

    def allowed(self, plan: FeedbackPlan, written: Iterable[float], now: float) -> FeedbackPlan:
        """The part of the plan that may be applied; `written` are the times of writes."""
        spent = sum(now - SECONDS_A_DAY < at <= now for at in written)
        room = max(0, self.a_day - spent)
        wanted = [action for action in plan.actions if action.is_of(self.kinds)]
        n_wanted, notes = sum(action.n_writes for action in wanted), plan.notes
        if n_wanted > room:
            planned, limit = counted(n_wanted, "write"), counted(self.a_day, "write")
            notes += (f"{planned} planned; the limit of {limit} a day allows {room:,} now",)
        return replace(plan, actions=tuple(_within(wanted, room)), notes=notes)


def _within(actions: Iterable[Action], room: int) -> Iterator[Action]:
    """The first actions, as many as there is room for; of a release its newest entries.

    A release that is larger than a day's budget would otherwise wait for ever.
    """
    for action in actions:
        if room <= 0 < action.n_writes:
            continue
        if action.n_writes > room:
            action = replace(action, entries=action.entries[-room:])  # noqa: PLW2901
        room -= action.n_writes
        yield action
