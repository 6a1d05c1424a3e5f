"""Writes to a labelling project as data: planned, allowed, applied, on record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from bbq_plugin.text import chance, counted, number, plain

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
            f"{chance(self.p_best_expected)} ({chance(self.p_best)} now)"
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
