"""What an adapter, a reader of events, a labelling tool and its project promise."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from bbq_plugin.data.records import (
    ACTION_KINDS,
    Action,
    Comparison,
    FeedbackPlan,
    JournalEntry,
    Person,
    PlanWorth,
    Record,
    Relabel,
    Skipped,
    TaskRef,
    TaskState,
    WriteState,
)


class Adapter(Protocol):
    """What turns one kind of file into records.

    Some more attributes are used if they are there. `key_tags(key)` gives what the key of an answer
    tells, as tags such as its project, for `--by` and `--where`. `option_help` maps the name of
    an option to a line about it. `lines_stand_alone` says that a file of lines means the
    same read in parts, so that one that grows need not be read again from its start; with any
    of its `whole_options` it does not.
    `read_batches`, with the parameters of `read`, yields `Batch` as well as records, without
    tags; it is asked instead of `read` when no tags are wanted, and is worth writing for
    files of millions of rows. `inspect(stream, name, options)` gives an `Inspection` of a file
    that no adapter recognises by its first bytes.
    Where answers are one part of a project's folder, `answer_files(folder)` gives the pattern of
    the files that hold them (`answers/*/state.json`), or None for a folder that is no such
    project; and `beside(path, options)` adds to the options of `read` what the file at this path
    is read with, such as the project's configuration, where the user has not named it.
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


@dataclass(frozen=True, slots=True)
class ParsedEvent:
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
    #: The question that the records answer, where the tool tells; empty: it is not told.
    question: str = ""
    #: The records of further questions that the project asks, by the question.
    others: Mapping[str, Sequence[Record]] = field(default_factory=dict)
    #: The title of the project.
    title: str = ""
    #: Why some of the event could not be read; it is to be tried again.
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """What the answers of one task make of one another."""

    #: Answers that do not count beside the others.
    replaced: tuple[Skipped, ...] = ()
    #: Comparisons that get other tags, by their place among those of the task.
    tags: Mapping[int, Mapping[str, str] | None] = field(default_factory=dict)


class ServerKnowledge(Protocol):
    """What a running server knows, for its answers to the tool."""

    def information_bits(self, items: Sequence[str]) -> float | None:
        """What one more answer about these items is expected to tell; None: it is not known yet."""

    def fit_mark(self) -> str | None:
        """Names the fit that this is by: another one after every change; None: there is none."""

    def reading_plan(self, project: str) -> Mapping[str, Any] | None:
        """How the answers of a project were read before, by events or by a pull."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address that a tool calls; `answer` makes of a body what is sent back as JSON.

    A DataError is answered with 400.
    """

    method: Literal["GET", "POST"]
    path: str
    answer: Callable[[bytes, ServerKnowledge], Any]
    #: Answered without the secret.
    public: bool = False


class EventReader(Protocol):
    """Reads the events of one tool; remembers how the answers of a project are read."""

    def __call__(
        self, event: bytes | Mapping[str, Any], given: Collection[tuple[int, int]] = ()
    ) -> ParsedEvent:
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

    def stripped(self, body: bytes) -> tuple[str, bytes]:
        """What has happened, and the part of an event that is needed, without secrets.

        FormatError for what is no event.
        """

    def raters(self, body: bytes) -> frozenset[str]:
        """Whose answers an event holds."""

    #: Where a server takes the tool's events.
    event_paths: tuple[str, ...]

    def endpoints(self) -> Sequence[Endpoint]:
        """What else the tool asks of a server."""

    def answer_url(self, server: str, key: str, task: str | int) -> str | None:
        """The page of an answer in the tool; `task` is the number of its task, or its name."""

    def answer_place(self, key: str, task: str | int) -> tuple[int, int] | None:
        """The numbers of an answer's project and task, if a server gave it."""

    def task_url(self, server: str, project: int, task: int) -> str:
        """The page of a task in the tool."""


class EventSubscription(Protocol):
    """Where a project sends its events; a project of a tool that can has a method `hooks`."""

    #: Where a server takes them.
    path: str

    def find(self, url: str) -> int | None:
        """The id of what sends events to an address; None if nothing does."""

    def subscribe(self, url: str, headers: Mapping[str, str]) -> tuple[int, bool]:
        """Have events sent to an address; the id of that, and whether it is new."""

    def provoke(self) -> str:
        """Cause an event without changing anything; its action."""

    def unsubscribe(self, own: int) -> None:
        """Have events sent there no more."""


@dataclass(frozen=True, slots=True)
class TaskPage:
    """Some tasks with all that is said in them; `state` says where to go on after it."""

    records: Sequence[Record]
    tasks: Sequence[TaskState]
    state: Mapping[str, Any]
    n_done: int
    n_total: int
    #: Tasks that were there before and exist no more.
    gone: Sequence[TaskRef] = ()
    #: `ProjectMemory.last_id` from before the tool was asked which tasks there are: what events
    #: have told of these since is of a new task with the same id.
    last_id: int = 0
    #: As in `ParsedEvent`.
    question: str = ""
    others: Mapping[str, Sequence[Record]] = field(default_factory=dict)
    title: str = ""


class ProjectMemory(Protocol):
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


class Journal(Protocol):
    """All writes to one project, on record before they are done."""

    def entries(self) -> list[JournalEntry]:
        """Those that are not undone or void, oldest first."""


class WorthEstimate(Protocol):
    """What answers that are not given yet are expected to change."""

    def chance(self, items: Sequence[str], n: int) -> float | None:
        """P(n answers on these items change the result); None: an item is not known yet."""

    def together(self, asked: Iterable[tuple[Sequence[str], int]]) -> PlanWorth:
        """What all of them change: items and how many answers, of each task."""


@dataclass(frozen=True, slots=True)
class FeedbackGoals:
    """What the fit says about the project, and what the user allows."""

    #: Raters with the reason why their answers should not be leant on, or should be looked at.
    excluded: Mapping[str, str]
    watched: Mapping[str, str] = field(default_factory=dict)
    #: What one answer about these items is expected to tell, in bits; None: one is not known yet.
    information_bits: Callable[[Sequence[str]], float | None] = lambda _: None
    #: What new answers would change; None: it is not known, and all are asked for.
    worth: WorthEstimate | None = None
    relabel: Relabel = "useful"
    #: What is to be planned, and taken back.
    kinds: frozenset[str] = frozenset(ACTION_KINDS)
    #: Mark the answers of excluded raters as cancelled.
    cancel: bool = False
    #: Switch the project to serving the most informative tasks first.
    sampling: bool = False
    #: How many of these there are to be at a time.
    n_informative: int = 50


class ShownField(NamedTuple):
    """Something that raters saw: a text, or the address of an image or a sound."""

    #: The key of the task's data; empty where there is none.
    name: str
    text: str
    #: Where it is, if it is an address.
    url: str | None = None


class ShownSide(NamedTuple):
    """What raters saw of one item."""

    item: str
    fields: tuple[ShownField, ...]


@dataclass(frozen=True, slots=True)
class TaskContent:
    """What a task shows, and what raters wrote beside their answers; fetched when it is asked for.

    ``sides`` are in the order in which they are shown; empty where the data do not part them.
    """

    prompt: tuple[ShownField, ...]
    sides: tuple[ShownSide, ...] = ()
    #: By the key of the answer.
    reasons: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Project(Protocol):
    """One project on a tool's server.

    Of a tool whose answers are labels it may have a method `labels`: what each of them means.
    """

    def close(self) -> None:
        """Close its connections."""

    def describe(self) -> str:
        """What it is and how its answers are read, in a line."""

    def pages(self, known: ProjectMemory, *, everything: bool = False) -> Iterator[TaskPage]:
        """What has changed since the last page, or everything again."""

    def contents(self, tasks: Sequence[int], known: ProjectMemory) -> Mapping[int, TaskContent]:
        """What these tasks show, as it is now; of tasks that are gone nothing."""

    def plan(self, goals: FeedbackGoals, journal: Journal, known: ProjectMemory) -> FeedbackPlan:
        """What to write; nothing is written."""

    def perform(self, action: Action) -> int | None:
        """Write one action; the id of what it made."""

    def settle(self, entry: JournalEntry) -> tuple[WriteState, int | None]:
        """Whether a write that was begun was done, by the look of the server."""

    def look(self, actions: Sequence[Action]) -> None:
        """Fetch at once the values that are about to be written or undone."""

    def changed(self, action: Action) -> str | None:
        """Why it should not be written any more: what people have changed since the plan."""

    def revert(self, entry: JournalEntry) -> str | None:
        """Restore the values before; the reason if they were left, since others changed them."""


@dataclass(frozen=True, slots=True)
class ProjectAddress:
    """Where a project is, by its number on the server or by its folder, and how to talk to it."""

    url: str
    token: str
    project: int | Path
    #: Those of the tool's adapter.
    options: Mapping[str, Any] = field(default_factory=dict)
    page_size: int | None = None
    timeout_s: float | None = None
    #: Hears of requests that are tried again.
    notice: Callable[[str], None] | None = None


@dataclass(frozen=True, slots=True)
class PairTasks:
    """Pairs of items that are to be tasks of a project."""

    pairs: Sequence[tuple[str, str]]
    #: Where the tasks have the items' names, as the adapter's option `items` has it.
    keys: Sequence[str]
    #: Under this key stands whom to ask.
    rater_key: str | None = None
    raters: Sequence[str | None] = ()
    #: The task with the lowest is served first.
    scores: Sequence[float] | None = None


class Tool(Protocol):
    """What the entry point names."""

    name: str
    #: A project is a folder, and its server needs no address to be read from.
    by_folder: bool
    #: Environment variables that hold the server's address and the token.
    url_variable: str
    token_variable: str

    def open(self, at: ProjectAddress) -> Project:
        """Reach a project."""

    def people(self, url: str, token: str, timeout_s: float | None = None) -> Mapping[str, Person]:
        """Who the raters are, by what a store calls them."""

    def import_tasks(self, asked: PairTasks) -> str:
        """The text of a file that a project imports: one task for each pair."""
