"""A line to a project that is held open while a program runs."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from bbq_plugin.feedback import Project
    from bbq_plugin.live.remote.memory import Memory

    Opened = AbstractContextManager[tuple[Project, Memory]]

__all__ = ["Line"]


class Line:
    """Opens the project when it is first needed: the server may be down when this one starts."""

    def __init__(self, open_: Callable[[], Opened]) -> None:
        self._open = open_
        self._stack = ExitStack()
        self._opened: tuple[Project, Memory] | None = None
        # One request at a time: a pull and a plan would see each other's half.
        self._lock = threading.RLock()

    def use(self, work: Callable[[Project, Memory], None]) -> None:
        """Do something with the project."""
        with self._lock:
            if self._opened is None:
                self._opened = self._stack.enter_context(self._open())
            work(*self._opened)

    def close(self) -> None:
        """Let the project go."""
        self._stack.close()
