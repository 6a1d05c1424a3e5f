"""The plan of feedback on the page: a dry run in the background, and its going ahead."""

from __future__ import annotations

import hashlib
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from bbq_plugin.errors import BBQError
from bbq_plugin.live.remote import act, apply, make_plan, settle, wishes_of
from bbq_plugin.report.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bbq_plugin.feedback import Action, Plan, Policy, Project, Wishes
    from bbq_plugin.live.remote import Memory, Round
    from bbq_plugin.live.server.view import Moment, View

__all__ = ["Feedback", "State"]


@dataclass(frozen=True)
class State:
    """How far it is: what is going on, the last plan, and what went wrong."""

    what: str
    #: What is done without anybody asking.
    alone: str = ""
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

    def announce(self, alone: str) -> None:
        """Say on the page what is done without anybody asking."""
        self._set(replace(self._state, alone=alone))

    def act(self, policy: Policy, stopping: Callable[[], bool]) -> Round | None:
        """Plan, and carry out what the policy allows, now; None if something is under way."""
        found: list[Round] = []

        def work(project: Project, memory: Memory) -> None:
            # Not before it is our turn: a pull that was under way has brought more.
            moment = self._view.moment
            if moment is not None:
                found.append(act(project, memory, self._wishes(moment), policy, stopping))

        def acted(state: State) -> State:
            self._use(work)
            if not found:
                return state
            (done,) = found
            state = self._with(state, done.plan)
            return replace(state, n_done=state.n_done + done.n_done)

        if not self._claim():
            return None
        self._work(acted)
        return found[0] if found else None

    def _claim(self) -> bool:
        with self._lock:
            if self._state.busy:
                return False
            self._set(replace(self._state, busy=True, problem=None))
            return True

    def _begin(self, work: Callable[[State], State]) -> bool:
        if not self._claim():
            return False
        threading.Thread(target=self._run, args=(work,), name="bbq-feedback", daemon=True).start()
        return True

    def _run(self, work: Callable[[State], State]) -> None:
        # The page shows what was wrong.
        with suppress(BBQError):
            self._work(work)

    def _work(self, work: Callable[[State], State]) -> None:
        before = self._state
        try:
            after = work(before)
        except Exception as error:
            said = plain(str(error)) if isinstance(error, BBQError) else type(error).__name__
            self._set(replace(before, busy=False, problem=said))
            raise
        self._set(replace(after, busy=False))

    def _planned(self, state: State) -> State:
        moment = self._view.moment
        if moment is None:
            return replace(state, problem="there are no answers yet")
        found: list[Plan] = []
        wishes = self._wishes(moment)
        self._use(lambda project, memory: found.append(make_plan(project, memory, wishes)))
        return replace(self._with(state, found[0]), n_done=0)

    def _with(self, state: State, plan: Plan) -> State:
        return replace(state, plan=plan, mark=_mark(plan), at=self._view.engine.store.clock())

    def _applied(self, state: State) -> State:
        plan = state.plan
        if plan is None:
            return state
        n_done = 0

        def work(project: Project, memory: Memory) -> None:
            nonlocal n_done
            settle(project, memory)
            n_done = sum(done.left is None for done in apply(project, memory, plan))

        self._use(work)
        return replace(state, plan=None, mark="", n_done=n_done)

    def _wishes(self, moment: Moment) -> Wishes:
        found = wishes_of(moment.fit, moment.raters)
        self._view.excluded.keep(found.excluded)
        return found

    def _set(self, state: State) -> None:
        self._state = state
        self._view.touch()


def _mark(plan: Plan) -> str:
    said = msgspec.json.encode([(a.kind, a.target, a.before, a.after) for a in plan.actions])
    return hashlib.sha256(said).hexdigest()[:16]
