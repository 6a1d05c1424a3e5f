"""The service's own line to a project: pulling what was missed, planning feedback."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bbq_plugin.feedback import Policy
from bbq_plugin.live.remote import Line, Rounds, pull, standing
from bbq_plugin.live.server.feedback import Feedback
from bbq_plugin.live.server.reconcile import Reconcile

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbq_plugin.feedback import Project
    from bbq_plugin.live.engine import Engine
    from bbq_plugin.live.remote import Memory
    from bbq_plugin.live.remote.line import Opened
    from bbq_plugin.live.server.app import Service

__all__ = ["Connection"]


class Connection(Line):
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
