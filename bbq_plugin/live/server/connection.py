"""The service's own line to a project: pulling what was missed, planning feedback."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from bbq_plugin.data.actions import Policy
from bbq_plugin.errors import BBQError
from bbq_plugin.live.feedback import OpenProject, Rounds, pull, standing
from bbq_plugin.live.server.plans import Feedback
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbq_plugin.live.engine import Engine
    from bbq_plugin.live.feedback import Memory
    from bbq_plugin.live.feedback.connection import Opened
    from bbq_plugin.live.server.app import Service
    from bbq_plugin.protocols import Project

__all__ = [
    "Connection",
    "Reconcile",
]

# After an event that tells of more than it brings, and before what it tells of is all there.
_SOON_S = 1.0


class Reconcile:
    """A thread that pulls at the start, every so often, and soon after it is asked to.

    `pull` brings the store up to date and says what it did, or None if there was nothing new.
    """

    def __init__(
        self,
        pull: Callable[[], str | None],
        every_s: float,
        *,
        after: Callable[[], None] = lambda: None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._pull, self._every_s, self._after, self._tell = pull, every_s, after, tell
        self._stop = threading.Event()
        self._asked = threading.Event()
        self._problem: str | None = None
        self._thread = threading.Thread(target=self._run, name="bbq-reconcile", daemon=True)

    def start(self) -> None:
        """Begin, with what was missed while nobody listened."""
        self._thread.start()

    def soon(self) -> None:
        """Do not wait for the next time."""
        self._asked.set()

    def stop(self) -> None:
        """End after the page under way; a pull that is cut off goes on where it was."""
        self._stop.set()
        self._asked.set()
        if self._thread.is_alive():
            # A request that hangs is not waited for: the thread dies with the process.
            self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                done = self._pull()
                if done is not None:
                    self._tell(done)
                self._after()
                self._problem = None
            except BBQError as error:
                self._failed(plain(str(error)))
            except Exception as error:  # noqa: BLE001 (whatever it is, the next time may be better)
                self._failed(f"{type(error).__name__}: {plain(str(error))}")
            if self._asked.wait(self._every_s) and not self._stop.is_set():
                self._asked.clear()
                self._stop.wait(_SOON_S)

    def _failed(self, problem: str) -> None:
        """Tell it once: an outage may last for many times."""
        if problem != self._problem:
            self._tell(f"pulling failed, will be tried again: {problem}")
        self._problem = problem


class Connection(OpenProject):
    """Gives a service its feedback, and what else needs the project."""

    def __init__(
        self,
        engine: Engine,
        open_: Callable[[Callable[[str], None]], Opened],
        tell: Callable[[str], None],
    ) -> None:
        super().__init__(open_, tell)
        self._engine = engine

    def join(
        self,
        service: Service,
        project: int,
        tell: Callable[[str], None],
        *,
        reconcile_s: float | None = None,
        policy: Policy | None = None,
        push_s: float = 60.0,
    ) -> None:
        """Pull every so often; with a policy, plan after each refresh and act within it."""
        store = self._engine.store
        service.worker.project = str(project)
        feedback = service.feedback = Feedback(
            service.view,
            self.use,
            f"Project {project}",
            lambda: standing(store, service.worker.tool, project),
        )
        if reconcile_s is not None:
            service.reconcile = Reconcile(
                self.pull, reconcile_s, after=service.worker.wake, tell=tell
            )
        if policy is not None:
            service.pushing = _rounds(feedback, policy, push_s, tell)

    def pull(self) -> str | None:
        """Bring the store up to date; what that was, in a line, unless nothing was new."""
        said: list[str] = []

        def work(project: Project, memory: Memory) -> None:
            engine = self._engine
            done = pull(project, memory, on_change=engine.apply, alone=engine.writing)
            if done.n_new or done.n_changed or done.n_retracted:
                said.append(
                    f"pulled {done.n_new:,} new, {done.n_changed:,} changed and "
                    f"{done.n_retracted:,} deleted answers that no event had brought"
                )

        self.use(work, "pulling")
        return said[0] if said else None


def _rounds(
    feedback: Feedback, policy: Policy, every_s: float, tell: Callable[[str], None]
) -> Rounds:
    last = ""

    def one() -> bool:
        nonlocal last
        done = feedback.act(policy, rounds.stopping)
        if done is None:
            # Somebody plans by hand: this one is due again.
            rounds.soon()
            return False
        if done.told() != last or done.done:
            last = done.told()
            tell(f"feedback: {last}")
        return done.short

    rounds = Rounds(
        one, every_s, lambda problem: tell(f"feedback failed, will be tried again: {problem}")
    )
    feedback.announce(_announced(policy, every_s))
    feedback.on_written = rounds.soon
    return rounds


def _announced(policy: Policy, every_s: float) -> str:
    """What the page says about it."""
    kinds = ", ".join(sorted(policy.kinds))
    alone = (
        f"Carried out without asking: {kinds}, at most {policy.a_day:,} writes in 24 hours"
        if kinds
        else "Nothing is written without asking"
    )
    return f"A plan is made after each change, at most every {every_s:g} s. {alone}."
