"""What a labelling tool tells by itself: an event, and what it means for the answers.

An adapter whose tool sends events has a method `events`, with the options of `read`, that gives an
`EventReader`. The webhook of `bbq serve` and `bbq.Hook` read through it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from bbq_plugin.comparisons import Record

__all__ = ["EventReader", "Hooks", "News"]


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
    answers: tuple[tuple[str, str], ...] = ()
    #: Tasks that were deleted with all their answers.
    gone_tasks: tuple[str, ...] = ()
    #: More has happened than the event tells; a pull would bring it.
    partial: bool = False
    #: How the answers of the project are read, to be kept for `remember`.
    plan: str | None = None


class EventReader(Protocol):
    """Reads the events of one tool; remembers how the answers of a project are read."""

    def stripped(self, body: bytes) -> bytes:
        """The part of an event that is needed, without secrets; FormatError for no event."""

    def __call__(self, event: bytes | Mapping[str, Any], given: Collection[str] = ()) -> News:
        """What an event means.

        `given` are keys of answers that this side has marked as cancelled: their raters did
        give them, and they go on counting.
        """

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
