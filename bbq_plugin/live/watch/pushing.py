"""The daemon's feedback: the verdicts of the last refresh, on their way back into the project."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from bbq_plugin.live.excluded import keep_verdicts
from bbq_plugin.live.feedback import OpenProject, Rounds, act, goals_of
from bbq_plugin.report.tables import counts_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbq_plugin.analysis import Analysis
    from bbq_plugin.config import Settings
    from bbq_plugin.live.feedback import Memory, Round
    from bbq_plugin.live.feedback.connection import Opened
    from bbq_plugin.live.watch.log import Log
    from bbq_plugin.protocols import Project
    from bbq_plugin.store import Store

    #: Reaches the project of these settings, and what the store knows of it; tells of retries.
    Reach = Callable[[Settings, Store, Callable[[str], None]], Opened]

__all__ = ["Pushing"]


class Pushing:
    """Takes the newest analysis from the daemon, and plans and acts in a thread of its own."""

    def __init__(self, settings: Settings, store: Store, reach: Reach, log: Log) -> None:
        self._settings, self._store, self._log = settings, store, log
        wanted = settings.feedback
        self._policy = wanted.policy()
        self._line = OpenProject(
            lambda notice: reach(settings, store, notice),
            lambda note: log("feedback_server", note=note),
        )
        self._rounds = Rounds(self._act, wanted.push_every_s, self._failed)
        self._lock = threading.Lock()
        self._analysis: Analysis | None = None
        self._told = ""

    def start(self) -> None:
        """Begin to wait for an analysis."""
        self._rounds.start()

    def offer(self, analysis: Analysis) -> None:
        """Take over an analysis, under the names that the labelling project knows."""
        with self._lock:
            self._analysis = analysis
        self._rounds.soon()

    def now(self) -> None:
        """Act at once, for a daemon that is about to leave."""
        self._act()

    def stop(self) -> None:
        """End after the action in hand."""
        self._rounds.stop()
        self._line.close()

    def _act(self) -> bool:
        with self._lock:
            analysis = self._analysis
        if analysis is None:
            return False
        goals = goals_of(analysis)
        keep_verdicts(self._store, analysis)
        found: list[Round] = []

        def work(project: Project, memory: Memory) -> None:
            found.append(act(project, memory, goals, self._policy, self._rounds.stopping))

        self._line.use(work)
        self._tell(found[0])
        return found[0].short

    def _tell(self, done: Round) -> None:
        if done.told() == self._told and not done.done:
            return
        self._told = done.told()
        carried_out = [one.action for one in done.done if one.left is None]
        self._log(
            "feedback",
            done=counts_line(carried_out) if carried_out else None,
            planned=counts_line(done.plan.actions),
            note="; ".join(done.plan.notes) or None,
        )

    def _failed(self, problem: str) -> None:
        self._log("feedback_failed", reason=problem, retry_s=self._settings.feedback.push_every_s)
