"""The project of a running service: pulls what was missed, and gives the page its feedback."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from bbq_plugin.errors import RemoteError
from bbq_plugin.live.health import Problems
from bbq_plugin.live.job_runner import Job, Next
from bbq_plugin.live.pull import pull
from bbq_plugin.live.push import Feedback, Rounds
from bbq_plugin.live.server.service import STOP_S
from bbq_plugin.live.tool_connection import OpenProject, report_use
from bbq_plugin.store.project_sync import standing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bbq_plugin.data.records import Policy, Relabel
    from bbq_plugin.live.server.page_state import View
    from bbq_plugin.live.server.service import Service
    from bbq_plugin.live.tool_connection import Opened
    from bbq_plugin.protocols import Project, TaskContent
    from bbq_plugin.store.project_sync import Memory

# So long a reader waits for another one who asks what tasks show.
_VIEW_S = 10.0
# After an event that tells of more than it brings, and before what it tells of is all there.
_SOON_S = 1.0


class ViewedProject(OpenProject):
    """A connection of its own for readers: none waits for a pull, and nothing is tried again."""

    def _retried(self, reason: str) -> None:
        raise RemoteError(reason.partition("; trying again")[0])


class ServedProject(OpenProject):
    """The project of a service: pulls what was missed, and gives the page its feedback."""

    def __init__(
        self,
        service: Service,
        project: int,
        open_: Callable[[Callable[[str], None]], Opened],
        *,
        reconcile_s: float | None = None,
        policy: Policy | None = None,
        push_s: float = 60.0,
        relabel: Relabel = "useful",
    ) -> None:
        """`reconcile_s`: pull that often. With a policy, plan after each fit and act within it."""
        super().__init__(open_, service.problems)
        self._service, self.number = service, project
        store, tool = service.engine.store, service.worker.tool
        service.worker.projects |= {str(project)}
        if reconcile_s is not None:
            service.worker.pulled |= {str(project)}
        self.feedback = Feedback(
            service.view,
            self,
            project,
            lambda: standing(store, tool, project),
            service.problems,
            relabel,
            self._views,
        )
        self._viewed = ViewedProject(open_, Problems())
        self._viewing = threading.Lock()
        self._reconcile_s = reconcile_s
        self._pulling = Job("reconcile", self._pull, self._not_pulled)
        self._rounds: Rounds | None = None
        if policy is not None:
            self._rounds = Rounds(
                lambda stopping: self.feedback.act(policy, stopping), push_s, service.problems
            )
            self.feedback.announce(_announced(policy, push_s))
            self.feedback.on_written = self._rounds.soon

    def start(self) -> None:
        """Begin, with what was missed before."""
        self.feedback.job.start()
        if self._reconcile_s is not None:
            self._pulling.start(due=True)
        if self._rounds is not None:
            self._rounds.start()

    def stop(self) -> None:
        """End after the page or the action in hand; a pull that is cut off goes on where it was."""
        self._pulling.stop(STOP_S)
        if self._rounds is not None:
            self._rounds.stop()
        self.feedback.job.stop(STOP_S)

    def _views(self) -> dict[str, View]:
        """What is shown of each study that the project asks a question of; else the first."""
        service = self._service
        of_project = (one for one in service.engine.store.studies() if one.asks(self.number))
        found = {one.name: service.views[one.id] for one in of_project if one.id in service.views}
        return found or {"": service.view}

    def fitted(self) -> None:
        """Say that there are new verdicts."""
        if self._rounds is not None:
            self._rounds.soon()

    def contents(self, tasks: Sequence[int]) -> Mapping[int, TaskContent]:
        """What tasks show, asked for now and kept nowhere."""
        # One reader at a time, and no queue of them behind a server that hangs.
        if not self._viewing.acquire(timeout=_VIEW_S):
            raise RemoteError("Label Studio is slow to answer; try again later")
        try:
            return self._viewed.use(lambda project, memory: project.contents(tasks, memory))
        finally:
            self._viewing.release()

    def close(self) -> None:
        """Let the project go."""
        self._viewed.close()
        super().close()

    def pull_soon(self) -> None:
        """Say that the project has more than its events have brought."""
        if self._reconcile_s is not None:
            self._pulling.wake(_SOON_S)

    def _pull(self) -> Next:
        engines, problems = self._service.engines, self._service.problems

        def work(project: Project, memory: Memory) -> None:
            done = pull(
                project, memory, on_change=engines.apply, alone=engines.writing,
                named=self._service.named,
            )  # fmt: skip
            if done.n_new or done.n_changed or done.n_retracted:
                problems.log(
                    "pulled", new=done.n_new, changed=done.n_changed, retracted=done.n_retracted
                )

        self.use(work, "pulling")
        self._service.worker.job.wake()
        problems.over(self._what)
        self._service.news.touch()
        return Next(again_s=self._reconcile_s)

    @property
    def _what(self) -> str:
        """The name of its problem: each project has its own."""
        first = self._service.projects[:1] in ([], [self])
        return "pull" if first else f"pull {self.number}"

    def _not_pulled(self, error: Exception) -> Next:
        reason: Exception | str = error
        if isinstance(error, RemoteError) and error.status == 404:
            reason = (
                f"project {self.number} does not exist any more, or the user of the token may not "
                "see it; its answers in the store stay as they are"
            )
        report_use(self._service.problems, self._what, reason, self._reconcile_s)
        return Next(again_s=self._reconcile_s)


def _announced(policy: Policy, every_s: float) -> str:
    """What the page says about it."""
    kinds = ", ".join(sorted(policy.kinds))
    automatic = (
        f"Applied automatically: {kinds}, at most {policy.a_day:,} writes in 24 hours"
        if kinds
        else "Nothing is written automatically"
    )
    return f"A plan is made after each change, at most every {every_s:g} s. {automatic}."
