"""When to stop: worked out behind the page, for whoever looks at it.

A forecast takes up to some seconds, so no request waits for it. A page that is asked for shows the
last one and has the next one made, if the answers are others by now; when it is there, the page
is told. Where nobody looks nothing is made.
"""

from __future__ import annotations

import threading
import time
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bbq_plugin.insight import stopping
from bbq_plugin.insight.stopping import told_apart
from bbq_plugin.report.stopping import StopSection, stop_section

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbq_plugin.live.server.view import Moment

__all__ = ["MATRIX", "Outlook", "Outlooks"]

#: Items whose pairs the page shows one by one.
MATRIX = 16
# A share of the time at most: whoever sends or looks needs the rest.
_SHARE = 0.2
_LONGEST_WAIT_S = 5.0


@dataclass(frozen=True)
class Outlook:
    """What the answers of one moment say."""

    #: When the answers were as they are taken here.
    at: float
    n_comparisons: int
    section: StopSection
    #: Pairs of the best items that the rule which holds at all times has told apart.
    apart: frozenset[tuple[str, str]]


def outlook(moment: Moment) -> Outlook:
    """Work it out, from the answers as they stand."""
    board = moment.board
    # The rule needs nothing but counts of votes: to take them anew at each moment gives what
    # somebody who followed vote by vote would have.
    section = stop_section(stopping(moment.fit, board))
    shown = [row.item for row in board[:MATRIX]]
    apart = told_apart(moment.fit, shown, board.level)
    return Outlook(moment.at, moment.fit.data.n_comparisons, section, apart)


class Outlooks:
    """A thread that makes an outlook for the newest moment when a page asks for it."""

    def __init__(
        self,
        newest: Callable[[], Moment | None],
        on_news: Callable[[], None],
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._newest, self._on_news, self._tell = newest, on_news, tell
        self._last: Outlook | None = None
        # The moment it is of, which may go: it holds all answers.
        self._of: weakref.ref[Moment] | None = None
        self._problem: str | None = None
        self._wanted = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bbq-outlook", daemon=True)

    def last(self) -> Outlook | None:
        """The last one there is; a newer one will follow, if there is something new."""
        if not self._is_of(self._newest()):
            self._wanted.set()
        return self._last

    def _is_of(self, moment: Moment | None) -> bool:
        return moment is None or (self._of is not None and self._of() is moment)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after what is under way."""
        self._stop.set()
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join(_LONGEST_WAIT_S)

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._stop.is_set():
                return
            begun = time.monotonic()
            self._make()
            spent = time.monotonic() - begun
            self._stop.wait(spent * (1 / _SHARE - 1))

    def _make(self) -> None:
        moment = self._newest()
        if moment is None or self._is_of(moment):
            return
        try:
            self._last = outlook(moment)
        except Exception as error:  # noqa: BLE001 (the leaderboard is there without it)
            problem = f"{type(error).__name__}: {error}"
            if problem != self._problem:
                self._tell(f"when to stop could not be worked out: {problem}")
            self._problem = problem
        self._of = weakref.ref(moment)
        self._on_news()
