"""A line to a project that is held open while a program runs."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

from bbq_plugin.errors import RemoteError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from bbq_plugin.protocols import Project
    from bbq_plugin.store.remote import Memory

    Opened = AbstractContextManager[tuple[Project, Memory]]

__all__ = [
    "OpenProject",
]


class OpenProject:
    """Opens the project when it is first needed: the server may be down when this one starts.

    `open_` gets whom to tell of requests that are tried again. Of an outage `tell` hears once, and
    once more when it is over, however often the project is needed meanwhile.
    """

    def __init__(
        self, open_: Callable[[Callable[[str], None]], Opened], tell: Callable[[str], None]
    ) -> None:
        self._open, self._tell = open_, tell
        self._stack = ExitStack()
        self._opened: tuple[Project, Memory] | None = None
        # One request at a time: a pull and a plan would see each other's half.
        self._lock = threading.RLock()
        self._doing = ""
        #: What did not work the last time: reading may have, when writing did not.
        self._out: set[str] = set()
        self._is_outage = False

    def use(self, work: Callable[[Project, Memory], None], what: str = "feedback") -> None:
        """Do something with the project; `what` says what for."""
        with self._lock:
            self._doing = what
            try:
                if self._opened is None:
                    self._opened = self._stack.enter_context(self._open(self._again))
                work(*self._opened)
            except RemoteError:
                self._failed()
                raise
            if what in self._out:
                self._out.remove(what)
                if self._is_outage:
                    self._is_outage = False
                    self._tell("the server of the labelling project answers again")

    def _again(self, notice: str) -> None:
        if self._failed():
            self._tell(notice)

    def _failed(self) -> bool:
        """Whether that is the beginning of an outage."""
        known = self._is_outage or self._doing in self._out
        self._is_outage = self._is_outage or not known
        self._out.add(self._doing)
        return not known

    def close(self) -> None:
        """Let the project go."""
        self._stack.close()
