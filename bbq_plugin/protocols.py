"""What an adapter, a reader of events, a labelling tool and its project promise."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from bbq_plugin.data.records import Comparison, Record, Skipped

if TYPE_CHECKING:
    import io

    Path = str | os.PathLike[str]

__all__ = [
    "Adapter",
    "EventReader",
    "Hooks",
    "News",
]


class Adapter(Protocol):
    """What turns one kind of file into records.

    Three more attributes are used if they are there. `option_help` maps the name of
    an option to a line about it. `lines_stand_alone` says that a file of lines means the
    same read in parts, so that one that grows need not be read again from its start.
    `read_batches`, with the parameters of `read`, yields `Batch` as well as records, without
    tags; it is asked instead of `read` when nobody wants tags, and is worth writing for
    files of millions of rows.
    """

    name: str

    def sniff(self, head: bytes, name: str) -> str | None:
        """Say why this file is one of mine, or None.

        `head` is what the file begins with: gzip is unpacked, and a Parquet table
        has become JSON lines.
        """

    def read(
        self, stream: io.BufferedReader, name: str, *args: Any, **options: Any
    ) -> Iterator[Comparison | Skipped] | Iterator[Record]:
        """Yield the records of one file. `name` is for messages and keys.

        Options are keyword-only parameters of the adapter's own. Text from a
        command line is turned into what they are annotated with.
        """


class TaskRef(NamedTuple):
    """A task: the name that its answers are stored under, and the numbers that its server uses."""

    name: str
    project: int | None = None
    number: int | None = None


@dataclass(frozen=True, slots=True)
class News:
    """What one event says."""

    #: What happened, in the tool's own word.
    action: str
    project: str | None = None
    records: tuple[Record, ...] = ()
    #: Keys of answers that were deleted: whatever comes under them later is older.
    gone: tuple[str, ...] = ()
    #: Which answer belongs to which task, as pairs of task and key.
    answers: tuple[tuple[TaskRef, str], ...] = ()
    #: Tasks that were deleted with all their answers.
    gone_tasks: tuple[TaskRef, ...] = ()
    #: More has happened than the event tells; a pull would bring it.
    partial: bool = False
    #: How the answers of the project are read, to be kept for `remember`.
    plan: str | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """What the answers of one task make of one another."""

    #: Answers that do not count beside the others.
    replaced: tuple[Skipped, ...] = ()
    #: Comparisons that get other tags, by their place among those of the task.
    tags: Mapping[int, Mapping[str, str] | None] = field(default_factory=dict)


class EventReader(Protocol):
    """Reads the events of one tool; remembers how the answers of a project are read."""

    def __call__(
        self, event: bytes | Mapping[str, Any], given: Collection[tuple[int, int]] = ()
    ) -> News:
        """What an event means.

        `given` are answers that this side has marked as cancelled, by the tool's numbers of
        project and answer: their raters did give them, and they go on counting.
        """

    def settle(
        self, before: Sequence[Comparison], now: Sequence[Comparison], told: Collection[str]
    ) -> Settled:
        """Which answers of a task count beside one another, and what is known of the right one.

        An event has one answer of a task; the others are in the store, as they were `before` the
        event and as they are `now`. `told` are the keys of the answers that events have brought.
        """

    def task(self, name: str) -> TaskRef:
        """A task by the name that its answers are stored under."""

    def stripped(self, body: bytes) -> bytes:
        """The part of an event that is needed, without secrets; FormatError for no event."""

    def remember(self, project: str, plan: Mapping[str, Any]) -> None:
        """How a project's answers were read before, by events or by a pull."""

    def items(self, project: str, data: Mapping[str, Any]) -> tuple[str, ...] | None:
        """The items that a task shows, if it is known by now how the project names them."""


class Hooks(Protocol):
    """Where a project sends its events; a project of a tool that can has a method `hooks`."""

    def subscribe(self, url: str, headers: Mapping[str, str]) -> tuple[int, bool]:
        """Have events sent to an address; the id of that, and whether it is new."""

    def provoke(self) -> str:
        """Cause an event without changing anything; its action."""

    def unsubscribe(self, own: int) -> None:
        """Have events sent there no more."""


TOOLS = "bbq_plugin.feedback"

Kind = Literal["relabel", "release", "tab", "predict", "project", "pause", "cancel"]

KINDS: tuple[Kind, ...] = ("relabel", "release", "tab", "predict", "project", "pause", "cancel")
#: What can be asked for by its name; the others go along with these, or need a word of their own.
ASKABLE: tuple[Kind, ...] = ("relabel", "tab", "predict", "pause")

#: begun: on record, perhaps written. undoing: perhaps taken back. void: it was never written.
State = Literal["begun", "done", "undoing", "undone", "void"]

SECONDS_A_DAY = 86_400.0


# -- answers in


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


@dataclass(frozen=True, slots=True)
class Page:
    """Some tasks with all that is said in them; `state` says where to go on after it."""

    records: Sequence[Record]
    tasks: Sequence[TaskState]
    state: Mapping[str, Any]
    n_done: int
    n_total: int
    #: Tasks that were there before and exist no more.
    gone: Sequence[TaskRef] = ()
    #: `Known.last_id` from before the tool was asked which tasks there are: what events have told
    #: of these since is of a new task with the same id.
    last_id: int = 0


class Known(Protocol):
    """What the store knows of the project from earlier pages."""

    @property
    def state(self) -> Mapping[str, Any]:
        """What came with the last page; empty before the first."""

    def n_tasks(self) -> int:
        """How many tasks are known."""

    def n_answers(self) -> int:
        """How many answers are known, cancelled ones apart."""

    def tasks(self) -> Mapping[int, tuple[str, int, int]]:
        """Stamp, answers and cancelled answers of each task."""

    def told_tasks(self) -> frozenset[int]:
        """Tasks that events have told of and no page."""

    def last_id(self) -> int:
        """What comes into the store from now on has a higher id."""

    def cancelled_by_push(self) -> frozenset[int]:
        """The tool's ids of answers that were cancelled by us: their raters did give them."""


# -- feedback out


@dataclass(frozen=True, slots=True)
class Action:
    """One write that is planned, with its reason and the values before and after it."""

    kind: Kind
    #: What it is about, such as "task 17": the same in every plan.
    target: str
    reason: str
    #: None: it does not exist yet.
    before: Mapping[str, Any] | None
    after: Mapping[str, Any]
    #: The id that the tool has given it.
    ref: int | None = None
    #: A release takes back these entries of the journal, which are of this kind.
    entries: tuple[int, ...] = ()
    released: Kind | None = None

    def is_of(self, kinds: Collection[str]) -> bool:
        """Whether it does one of these, or takes one of these back."""
        return (self.released or self.kind) in kinds

    @property
    def n_writes(self) -> int:
        """How often the server is written to: a release puts its entries back one by one."""
        return max(1, len(self.entries))


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write, in this order, and what has to be said about it."""

    actions: tuple[Action, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """An action that was carried out, or left with a reason."""

    action: Action
    left: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """An action on record."""

    id: int
    action: Action
    state: State
    #: When it was put on record, in seconds since 1970.
    at: float


class Journal(Protocol):
    """All writes to one project, on record before they are done."""

    def entries(self) -> list[Entry]:
        """Those that are not undone or void, oldest first."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the fit says about the project, and what the user allows."""

    #: Raters with the reason why their answers should not be leant on, or should be looked at.
    excluded: Mapping[str, str]
    watched: Mapping[str, str] = field(default_factory=dict)
    #: What one answer about these items is expected to tell, in bits; None: one is not known yet.
    information_bits: Callable[[Sequence[str]], float | None] = lambda _: None
    #: What is to be planned, and taken back.
    kinds: frozenset[str] = frozenset(KINDS)
    #: Mark the answers of excluded raters as cancelled.
    cancel: bool = False
    #: Switch the project to serving the most informative tasks first.
    sampling: bool = False
    #: How many of these there are to be at a time.
    n_informative: int = 50


class Project(Protocol):
    """One project on a tool's server."""

    def close(self) -> None:
        """Close its connections."""

    def describe(self) -> str:
        """What it is and how its answers are read, in a line."""

    def pages(self, known: Known, *, everything: bool = False) -> Iterator[Page]:
        """What has changed since the last page, or everything again."""

    def plan(self, wishes: Wishes, journal: Journal, known: Known) -> Plan:
        """What to write; nothing is written."""

    def perform(self, action: Action) -> int | None:
        """Write one action; the id of what it made."""

    def settle(self, entry: Entry) -> tuple[State, int | None]:
        """Whether a write that was begun was done, by the look of the server."""

    def look(self, actions: Sequence[Action]) -> None:
        """See at once how things are that are about to be written, or put back."""

    def changed(self, action: Action) -> str | None:
        """Why it should not be written any more: what people have changed since the plan."""

    def revert(self, entry: Entry) -> str | None:
        """Put the values before back; the reason if they were left, since others changed them."""


class Tool(Protocol):
    """What the entry point names."""

    name: str
    #: Environment variables that hold the server's address and the token.
    url_variable: str
    token_variable: str

    def open(
        self,
        url: str,
        token: str,
        project: int,
        *,
        options: Mapping[str, Any],
        page_size: int | None = None,
        timeout_s: float | None = None,
        notice: Callable[[str], None] | None = None,
    ) -> Project:
        """Reach a project; `options` are those of the tool's adapter."""


def kinds_of(asked: Iterable[str]) -> frozenset[str]:
    """The kinds that go with those asked for: predictions are served once the project says so."""
    kinds = frozenset(asked)
    return kinds | {"project"} if "predict" in kinds else kinds


@dataclass(frozen=True, slots=True)
class Policy:
    """What may be written without asking: these kinds, and so many writes in any 24 hours.

    Nothing starts anew at midnight: each write counts for 24 hours. What takes a kind back goes
    with it: what was done on one's own can be undone on one's own.
    """

    kinds: frozenset[str]
    a_day: int = 100

    def allowed(self, plan: Plan, written: Iterable[float], now: float) -> Plan:
        """The part of the plan that may be carried out; `written` are the times of writes."""
        spent = sum(now - SECONDS_A_DAY < at <= now for at in written)
        room = max(0, self.a_day - spent)
        wanted = [action for action in plan.actions if action.is_of(self.kinds)]
        may = tuple(_within(wanted, room))
        n_wanted = sum(action.n_writes for action in wanted)
        notes = plan.notes
        if n_wanted > room:
            notes += (
                f"the budget of {self.a_day} writes a day leaves {room} of {n_wanted} writes",
            )
        return Plan(may, notes)


def _within(actions: Iterable[Action], room: int) -> Iterator[Action]:
    """The first actions, as many as there is room for; of a release its newest entries.

    A release that is larger than a day's budget would otherwise wait for ever.
    """
    for action in actions:
        if room <= 0:
            return
        if action.n_writes > room:
            action = replace(action, entries=action.entries[-room:])  # noqa: PLW2901
        room -= action.n_writes
        yield action
