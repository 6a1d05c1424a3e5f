"""A project on a Label Studio server: what the entry point `bbq_plugin.feedback` names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bbq_adapters.label_studio.adapter import checked
from bbq_adapters.label_studio.client import TIMEOUT_S, Client, plain, query
from bbq_adapters.label_studio.exports import task_of_api
from bbq_adapters.label_studio.feedback import (
    OUR_VERSIONS,
    ServerAnswer,
    ServerState,
    ServerTask,
    import_tasks,
    planned,
)
from bbq_adapters.label_studio.question import Question, described
from bbq_adapters.label_studio.task_pages import ANSWERS, PAGE_SIZE, TaskReader
from bbq_adapters.label_studio.webhooks import EVENT_PATHS
from bbq_adapters.label_studio.write import CurrentValues, ProjectWriter
from bbq_plugin.errors import RemoteError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bbq_plugin.data.actions import Action, FeedbackPlan, JournalEntry, WriteState
    from bbq_plugin.protocols import FeedbackGoals, Journal, ProjectMemory, TaskPage

#: What is told; nothing fires for imported answers, drafts and predictions.
ACTIONS = (
    "ANNOTATION_CREATED",
    "ANNOTATIONS_CREATED",
    "ANNOTATION_UPDATED",
    "ANNOTATIONS_DELETED",
    "TASKS_CREATED",
    "TASKS_DELETED",
    "PROJECT_UPDATED",
)
#: The event that `provoke` causes.
PROVOKED = "PROJECT_UPDATED"
# How Label Studio says that it sends nothing to addresses of its own network.
_BLOCKED = ("URL was not allowed", "reserved network address")
SSRF_REMEDY = (
    "Label Studio sends nothing to addresses of its own machine or a private network unless its "
    "operator allows it: start it with LABEL_STUDIO_SSRF_PROTECTION_ENABLED=false (and, for an ML "
    "backend, LABEL_STUDIO_ML_BLOCK_LOCAL_IP=false), or give bbq serve a public address"
)


class ProjectWebhooks:
    """The webhooks of one project."""

    path = EVENT_PATHS[0]

    def __init__(self, client: Client, project: int) -> None:
        self._client, self._project = client, project

    def subscribe(self, url: str, headers: Mapping[str, str]) -> tuple[int, bool]:
        """Have events sent to an address; the id of the webhook, and whether it is a new one."""
        wanted: dict[str, Any] = {
            "url": url,
            "headers": dict(headers),
            "actions": list(ACTIONS),
            "is_active": True,
            "send_payload": True,
            "send_for_all_actions": False,
        }
        try:
            own = self._find(url)
            if own is not None:
                self._client.call(
                    "changing the webhook", lambda sdk: sdk.webhooks.update(id=own, **wanted)
                )
                return own, False
            made = self._client.call(
                "making the webhook",
                lambda sdk: sdk.webhooks.create(project=self._project, **wanted),
                creates=True,
            )
        except RemoteError as error:
            if not any(words in str(error) for words in _BLOCKED):
                raise
            raise RemoteError(
                f"{self._client.url}: Label Studio refuses to send events to {url}; {SSRF_REMEDY}"
            ) from error
        return int(plain(made)["id"]), True

    def _find(self, url: str) -> int | None:
        listed = self._client.call(
            "looking for webhooks", lambda sdk: sdk.webhooks.list(project=str(self._project))
        )
        for hook in map(plain, listed):
            if hook.get("url") == url and hook.get("project") == self._project:
                return int(hook["id"])
        return None

    def provoke(self) -> str:
        """Cause an event without changing anything: the project is saved as it is."""
        title = self._client.call(
            "looking at the project", lambda sdk: sdk.projects.get(id=self._project)
        ).title
        self._client.call(
            "causing an event",
            lambda sdk: sdk.projects.update(id=self._project, title=title),
        )
        return PROVOKED

    def unsubscribe(self, own: int) -> None:
        """Remove a webhook that was made here."""
        self._client.delete("removing the webhook", lambda sdk: sdk.webhooks.delete(id=own))


_FIELDS = f"id,project,data,overlap,is_labeled,predictions,model_version,score,{ANSWERS}"
#: What is looked at of a project.
_SEEN = (
    "title",
    "label_config",
    "parsed_label_config",
    "model_version",
    "sampling",
    "maximum_annotations",
    "overlap_cohort_percentage",
)


class LabelStudio:
    """Label Studio, through its SDK."""

    name = "label-studio"
    url_variable = "LABEL_STUDIO_URL"
    token_variable = "LABEL_STUDIO_API_KEY"  # noqa: S105 (the name of it)

    def open(
        self,
        url: str,
        token: str,
        project: int,
        *,
        options: Mapping[str, Any],
        page_size: int | None = None,
        timeout_s: float | None = None,
        notice: Callable[[str], None] | None = None,
    ) -> LabelStudioProject:
        """Reach a project."""
        client = Client(url, token, timeout_s=timeout_s or TIMEOUT_S, notice=notice)
        try:
            return LabelStudioProject(client, project, options, page_size or PAGE_SIZE)
        except BaseException:
            client.close()
            raise

    import_tasks = staticmethod(import_tasks)


class LabelStudioProject:
    """Pages out, feedback in."""

    def __init__(
        self, client: Client, project: int, options: Mapping[str, Any], page_size: int
    ) -> None:
        self.client = client
        self.project = project
        self.url = client.url
        self._options = checked(**{**options, "project": project})
        self._page_size = page_size
        self._read_as(self._project())
        self._question: Question | None = None
        self._looked = False

    def _read_as(self, info: dict[str, Any]) -> None:
        """Read answers by this configuration."""
        self._info = info
        self._reader = TaskReader(self.client, self.project, info, self._options, self._page_size)
        self._current = CurrentValues(self.client, self.project, self._reader.listed)
        self._writer = ProjectWriter(self.client, self.project, self._current)

    def _refresh(self) -> None:
        """Look at the project again: one that is held open for days is changed meanwhile.

        Read by an old configuration, answers to the new one would be taken out as no answers.
        """
        info = self._project()
        if self._reader.reads(info):
            self._info = info
        else:
            self._read_as(info)

    def _project(self) -> dict[str, Any]:
        got = self.client.call(
            "looking at the project",
            lambda sdk: sdk.projects.get(id=self.project),
            missing=f"there is no project {self.project}",
        )
        # The answer also holds passwords and tokens, which go nowhere.
        return {name: plain(got).get(name) for name in _SEEN}

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def hooks(self) -> ProjectWebhooks:
        """Its webhooks."""
        return ProjectWebhooks(self.client, self.project)

    def describe(self) -> str:
        """Title, control and where the items' names are."""
        reader = self._reader
        what = described(self._question, reader.candidates, reader.parsed, looked=self._looked)
        return f"project {self.project} ({self._info['title']!r}): {what}"

    def pages(self, known: ProjectMemory, *, everything: bool = False) -> Iterator[TaskPage]:
        """What has changed."""
        self._looked = True
        self._refresh()
        self._question = self._reader.question(known)
        for page in self._reader.pages(known, everything=everything):
            self._question = Question.of_kept(page.state.get("plan"))
            yield page

    # -- feedback

    def plan(self, goals: FeedbackGoals, journal: Journal, known: ProjectMemory) -> FeedbackPlan:
        """What to write, from the server's state of this moment."""
        self._refresh()
        info = self._info
        self._question = self._reader.question(known)
        entries = journal.entries()
        enterprise = self._edition() == "enterprise"
        now = ServerState(
            tasks=tuple(self._tasks()),
            model_version=str(info["model_version"] or ""),
            sampling=str(info["sampling"] or ""),
            tabs=self._current.tabs(),
            enterprise=enterprise,
            paused=self._current.paused(goals.excluded) if enterprise else frozenset(),
            overlap=int(info["maximum_annotations"] or 1),
            cohort_percent=_percent(info["overlap_cohort_percentage"]),
        )
        return planned(now, goals, entries)

    def perform(self, action: Action) -> int | None:
        """Write one action."""
        return self._writer.perform(action)

    def settle(self, entry: JournalEntry) -> tuple[WriteState, int | None]:
        """Whether it was written."""
        return self._writer.settle(entry)

    def look(self, actions: Sequence[Action]) -> None:
        """One question for all tasks, and one for all tabs."""
        self._current.look(actions)

    def changed(self, action: Action) -> str | None:
        """What is otherwise than when it was planned."""
        return self._writer.changed(action)

    def revert(self, entry: JournalEntry) -> str | None:
        """Undo it."""
        return self._writer.revert(entry)

    def _edition(self) -> str:
        got = self.client.call("asking for the version", lambda sdk: sdk.versions.get())
        return str(plain(got).get("edition") or "").lower()

    def _tasks(self) -> Iterator[ServerTask]:
        """All tasks, as they are now."""
        after = 0
        source = self._question.source if self._question else None
        while True:
            asked = query([("id", "greater", "Number", after)])
            tasks, _ = self._reader.listed(
                "looking at tasks", asked, _FIELDS, self._reader.page_size, whole=True
            )
            if not tasks:
                return
            after = int(tasks[-1]["id"])
            for task in tasks:
                yield _task(task, source, self._reader.name)


def _percent(value: Any) -> int:
    return 100 if value is None else int(value)


def _task(task: dict[str, Any], source: Any, name: str) -> ServerTask:
    shown = task_of_api(task, name)
    names = source.names(shown.data) if source is not None else None
    return ServerTask(
        id=int(task["id"]),
        overlap=int(task.get("overlap") or 1),
        is_labeled=bool(task.get("is_labeled")),
        answers=tuple(
            ServerAnswer(int(answer.id), answer.rater or "", answer.cancelled)
            for answer in shown.answers
            if answer.id is not None
        ),
        items=tuple(names or ()),
        predictions={
            int(one["id"]): (str(one.get("model_version")), one.get("score"))
            for one in task.get("predictions") or ()
            if one.get("model_version") in OUR_VERSIONS
        },
    )
