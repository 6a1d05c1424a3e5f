"""The service's own line to a project: pulling what was missed, planning feedback."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

from bbq_plugin.live.remote import pull
from bbq_plugin.live.server.feedback import Feedback
from bbq_plugin.live.server.reconcile import Reconcile

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from bbq_plugin.feedback import Policy, Project
    from bbq_plugin.live.engine import Engine
    from bbq_plugin.live.remote import Memory
    from bbq_plugin.live.server.app import Service

    Opened = AbstractContextManager[tuple[Project, Memory]]

__all__ = ["Connection"]


class Connection:
    """Opens the project when it is first needed: the server may be down when this one starts."""

    def __init__(self, engine: Engine, open_: Callable[[], Opened]) -> None:
        self._engine, self._open = engine, open_
        self._stack = ExitStack()
        self._opened: tuple[Project, Memory] | None = None
        # One request at a time: a pull and a plan would see each other's half.
        self._lock = threading.RLock()

    def join(
        self,
        service: Service,
        what: str,
        every_s: float | None,
        tell: Callable[[str], None],
        policy: Policy | None = None,
    ) -> None:
        """Give a service its feedback, and its reconciliation if it is wanted.

        After each pull, what `policy` allows is written without asking.
        """
        feedback = service.feedback = Feedback(service.view, self.use, what)
        if every_s is None:
            return

        def after() -> None:
            service.worker.wake()
            if policy is not None and feedback.act(policy):
                tell(f"feedback: {feedback.state().n_done:,} actions were carried out")

        service.reconcile = Reconcile(self.pull, every_s, after=after, tell=tell)

    def use(self, work: Callable[[Project, Memory], None]) -> None:
        """Do something with the project."""
        with self._lock:
            if self._opened is None:
                self._opened = self._stack.enter_context(self._open())
            work(*self._opened)

    def pull(self) -> str | None:
        """Bring the store up to date; what that was, in a line, unless nothing was new."""
        said: list[str] = []

        def work(project: Project, memory: Memory) -> None:
            done = pull(project, memory, on_change=self._engine.apply)
            if done.n_new or done.n_changed or done.n_retracted:
                said.append(
                    f"pulled {done.n_new:,} new, {done.n_changed:,} changed and "
                    f"{done.n_retracted:,} deleted answers that no event had brought"
                )

        self.use(work)
        return said[0] if said else None

    def close(self) -> None:
        """Let the project go."""
        self._stack.close()
