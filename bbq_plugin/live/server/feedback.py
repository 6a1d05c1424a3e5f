"""The plan of feedback on the page: a dry run in the background, and its going ahead."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from bbq_plugin.errors import BBQError
from bbq_plugin.live.remote import apply, make_plan, settle, wishes_of
from bbq_plugin.report.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bbq_plugin.feedback import Action, Plan, Policy, Project
    from bbq_plugin.live.remote import Memory
    from bbq_plugin.live.server.view import View

__all__ = ["Feedback", "State"]


@dataclass(frozen=True)
class State:
    """How far it is: what is going on, the last plan, and what went wrong."""

    what: str
    busy: bool = False
    at: float | None = None
    plan: Plan | None = None
    #: Names the plan: only the one that was looked at is carried out.
    mark: str = ""
    n_done: int = 0
    problem: str | None = None

    @property
    def actions(self) -> Sequence[Action]:
        """Of the plan."""
        return () if self.plan is None else self.plan.actions


class Feedback:
    """One project on a server; one thing at a time."""

    def __init__(
        self, view: View, use: Callable[[Callable[[Project, Memory], None]], None], what: str
    ) -> None:
        self._view, self._use = view, use
        self._state = State(what)
        self._lock = threading.Lock()

    def state(self) -> State:
        """As it is now."""
        return self._state

    def plan(self) -> bool:
        """Begin to make a plan; False if something is under way."""
        return self._begin(self._planned)

    def apply(self, mark: str) -> bool:
        """Begin to carry out the plan of that mark."""
        if not mark or mark != self._state.mark:
            return False
        return self._begin(self._applied)

    def act(self, policy: Policy) -> bool:
        """Plan, and carry out what the policy allows, now; whether anything was done."""
        with self._lock:
            if self._state.busy or self._view.moment is None:
                return False
            self._set(replace(self._state, busy=True, problem=None))
        self._run(lambda state: self._applied(self._planned(state), policy))
        return self._state.n_done > 0

    def _begin(self, work: Callable[[State], State]) -> bool:
        with self._lock:
            if self._state.busy:
                return False
            self._set(replace(self._state, busy=True, problem=None))
        threading.Thread(target=self._run, args=(work,), name="bbq-feedback", daemon=True).start()
        return True

    def _run(self, work: Callable[[State], State]) -> None:
        before = self._state
        try:
            after = work(before)
        except BBQError as error:
            after = replace(before, problem=plain(str(error)))
        except Exception as error:
            self._set(replace(before, busy=False, problem=type(error).__name__))
            raise
        self._set(replace(after, busy=False))

    def _planned(self, state: State) -> State:
        moment = self._view.moment
        if moment is None:
            return replace(state, problem="there are no answers yet")
        found: list[Plan] = []
        wishes = wishes_of(moment.fit, moment.raters)
        self._use(lambda project, memory: found.append(make_plan(project, memory, wishes)))
        at = self._view.engine.store.clock()
        return replace(state, plan=found[0], mark=_mark(found[0]), at=at, n_done=0)

    def _applied(self, state: State, policy: Policy | None = None) -> State:
        plan = state.plan
        if plan is None:
            return state
        n_done = 0

        def work(project: Project, memory: Memory) -> None:
            nonlocal n_done
            settle(project, memory)
            now = self._view.engine.store.clock()
            may = plan if policy is None else policy.allowed(plan, memory.written_at(), now)
            n_done = sum(done.left is None for done in apply(project, memory, may))

        self._use(work)
        return replace(state, plan=None, mark="", n_done=n_done)

    def _set(self, state: State) -> None:
        self._state = state
        self._view.touch()


def _mark(plan: Plan) -> str:
    said = msgspec.json.encode([(a.kind, a.target, a.before, a.after) for a in plan.actions])
    return hashlib.sha256(said).hexdigest()[:16]
