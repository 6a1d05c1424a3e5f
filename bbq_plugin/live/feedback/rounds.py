"""Feedback with nobody at hand: a plan after each refresh, and of it what a policy allows."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bbq_plugin.data.actions import FeedbackPlan
from bbq_plugin.errors import BBQError
from bbq_plugin.live.feedback.push import apply, make_plan, settle
from bbq_plugin.report.tables import counts_line
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbq_plugin.data.actions import ActionResult, Policy
    from bbq_plugin.protocols import FeedbackGoals, Project
    from bbq_plugin.store.remote import Memory

__all__ = [
    "Round",
    "Rounds",
    "act",
]

HELD = (
    "everything was put back by hand, so nothing is carried out without asking until somebody "
    "carries out a plan by hand again"
)

# What the budget had no room for is looked at again so much later, even if nothing else happens.
_LATER_S = 900.0
# A plan reads the whole project: a quarter of the time at most its server is asked for that.
_REST = 3.0

_LONGEST_STOP_S = 5.0


@dataclass(frozen=True, slots=True)
class Round:
    """What was done, and the plan that is left for somebody to look at."""

    plan: FeedbackPlan
    done: tuple[ActionResult, ...] = ()
    #: Some of what is left is allowed, but not today.
    short: bool = False

    @property
    def n_done(self) -> int:
        """How many actions were carried out."""
        return sum(one.left is None for one in self.done)

    def told(self) -> str:
        """Say it in a line."""
        left = counts_line(self.plan.actions)
        if self.n_done == 0:
            held = f" ({HELD})" if HELD in self.plan.notes else ""
            return f"planned, not written: {left}{held}"
        done = counts_line(one.action for one in self.done if one.left is None)
        return f"{self.n_done:,} actions were carried out ({done}); planned, not written: {left}"


def act(
    project: Project,
    memory: Memory,
    goals: FeedbackGoals,
    policy: Policy,
    stopping: Callable[[], bool] = lambda: False,
) -> Round:
    """Plan, and carry out what the policy allows, each write on record before it is done."""
    settle(project, memory)
    plan = make_plan(project, memory, goals)
    if policy.kinds and memory.held:
        plan, policy = (
            FeedbackPlan(plan.actions, (*plan.notes, HELD)),
            replace(policy, kinds=frozenset()),
        )
    may = policy.allowed(plan, memory.written_at(), memory.store.clock())
    chosen = {id(action) for action in may.actions}
    left = tuple(action for action in plan.actions if id(action) not in chosen)
    done: list[ActionResult] = []
    if not stopping():
        with closing(apply(project, memory, may)) as written:
            for one in written:
                done.append(one)
                if stopping():
                    break
    short = any(action.is_of(policy.kinds) for action in left)
    return Round(FeedbackPlan(left, may.notes), tuple(done), short)


class Rounds:
    """A thread that acts soon after it is asked to, at most every so often.

    `act` says whether there is more to do later, though nobody asks. What goes wrong is told once
    through `failed`, and tried again.
    """

    def __init__(
        self, act: Callable[[], bool], every_s: float, failed: Callable[[str], None]
    ) -> None:
        self._act, self._every_s, self._failed = act, every_s, failed
        self._stop = threading.Event()
        self._asked = threading.Event()
        self._problem: str | None = None
        self._thread = threading.Thread(target=self._run, name="bbq-push", daemon=True)

    def start(self) -> None:
        """Begin to wait."""
        self._thread.start()

    def soon(self) -> None:
        """Say that there are new verdicts."""
        self._asked.set()

    def stopping(self) -> bool:
        """Say whether writing has to end after the action in hand."""
        return self._stop.is_set()

    def stop(self) -> None:
        """End after the action in hand; a request that hangs is not waited for."""
        self._stop.set()
        self._asked.set()
        if self._thread.is_alive():
            self._thread.join(timeout=_LONGEST_STOP_S)

    def _run(self) -> None:
        again_s: float | None = None
        while True:
            self._asked.wait(again_s)
            if self._stop.is_set():
                return
            self._asked.clear()
            begun = time.monotonic()
            try:
                again_s = max(_LATER_S, self._every_s) if self._act() else None
                self._problem = None
            except Exception as error:  # noqa: BLE001 (whatever it is, the rest goes on)
                again_s = 0.0
                self._tell(error)
            rest_s = _REST * (time.monotonic() - begun)
            if self._stop.wait(max(self._every_s, rest_s)):
                return

    def _tell(self, error: Exception) -> None:
        known = isinstance(error, BBQError)
        problem = plain(str(error)) if known else f"{type(error).__name__}: {plain(str(error))}"
        if problem != self._problem and not self._stop.is_set():
            self._failed(problem)
        self._problem = problem
