"""Writes into a project: each one checked right before, and undone when that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bbq_adapters.label_studio.client import plain, query
from bbq_adapters.label_studio.feedback import OUR_VERSIONS
from bbq_adapters.label_studio.task_pages import ANSWERS
from bbq_plugin.errors import RemoteError
from bbq_plugin.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bbq_adapters.label_studio.client import Client
    from bbq_plugin.data.actions import Action, JournalEntry, WriteState

    Values = dict[str, Any]
    #: As `TaskReader.listed`.
    ListTasks = Callable[..., tuple[list[Values], int]]

_FIELDS = f"id,overlap,is_labeled,predictions,model_version,score,{ANSWERS}"
_TASKS_AT_ONCE = 100


class CurrentValues:
    """The values of targets, by kind and id.

    What was seen is used once: by the second time it may have been written.
    """

    def __init__(self, client: Client, project: int, listed: ListTasks) -> None:
        self.client, self.project, self._listed = client, project, listed
        self._seen: dict[tuple[str, int], Values] = {}
        self._tabs: dict[int, tuple[str, Any]] | None = None
        #: Ids of predictions of ours, by task.
        self._predictions: dict[int, list[int]] = {}

    def look(self, actions: Iterable[Action]) -> None:
        """Ask for all that these are about, and forget what was seen before."""
        actions = list(actions)
        kinds = {action.kind for action in actions}
        self._seen, self._predictions, self._tabs = {}, {}, None
        tasks = sorted({task for task in map(_task_of, actions) if task is not None})
        for start in range(0, len(tasks), _TASKS_AT_ONCE):
            self._look_at(tasks[start : start + _TASKS_AT_ONCE])
        if "tab" in kinds:
            self._tabs = self.tabs()
            for own, (title, filters) in self._tabs.items():
                self._seen["tab", own] = {"title": title, "filters": filters}
        if "project" in kinds:
            self._seen["project", 0] = self._project() or {}

    def _look_at(self, tasks: Sequence[int]) -> None:
        chosen = query([], selectedItems={"all": False, "included": list(tasks)})
        found, _ = self._listed("looking at tasks", chosen, _FIELDS, len(tasks), whole=True)
        for task in found:
            own = int(task["id"])
            self._seen["relabel", own] = _task_values(task)
            for answer in task.get("annotations") or ():
                self._seen["cancel", int(answer["id"])] = answer
            predictions = task.get("predictions") or ()
            self._predictions[own] = _ours(predictions)
            for one in predictions:
                self._seen["predict", int(one["id"])] = one

    def forget_tasks(self) -> None:
        """An answer was written, which changes its task as well."""
        self._seen = {key: value for key, value in self._seen.items() if key[0] != "relabel"}

    def now(self, action: Action, ref: int) -> Values | None:
        """The values of a target; None if it does not exist."""
        seen = self._seen.pop((action.kind, ref), None)
        return self._asked(action, ref) if seen is None else seen

    def _asked(self, action: Action, ref: int) -> Values | None:
        if action.kind == "relabel":
            task = self._get(lambda sdk: sdk.tasks.get(id=str(ref)))
            return None if task is None else _task_values(task)
        if action.kind == "cancel":
            return self._get(lambda sdk: sdk.annotations.get(id=ref))
        if action.kind == "project":
            return self._project()
        if action.kind == "predict":
            return self._get(lambda sdk: sdk.predictions.get(id=ref))
        if action.kind == "tab":
            tab = self.tabs().get(ref)
            return None if tab is None else {"title": tab[0], "filters": tab[1]}
        paused = self._pauses(action.after["rater"])
        return {"rater": action.after["rater"]} if ref in paused else None

    def created(self, action: Action) -> int | None:
        """What there is of the kind that an action makes."""
        if action.kind == "tab":
            tabs = self.tabs() if self._tabs is None else self._tabs
            wanted = (action.after["title"], action.after["filters"])
            return next((own for own, tab in tabs.items() if tab == wanted), None)
        if action.kind == "predict":
            task = int(action.after["task"])
            found = self._predictions.get(task)
            if found is None:
                found = _ours(map(plain, self._predictions_of(task)))
            return max(found, default=None)
        if action.kind == "pause":
            return max(self._pauses(action.after["rater"]), default=None)
        return None

    def tabs(self) -> dict[int, tuple[str, Any]]:
        """Title and filters of every tab, by id."""
        found = self.client.call("listing tabs", lambda sdk: sdk.views.list(project=self.project))
        tabs = {}
        for view in map(plain, found):
            data = view.get("data") or {}
            tabs[int(view["id"])] = (str(data.get("title") or ""), data.get("filters"))
        return tabs

    def paused(self, raters: Iterable[str]) -> frozenset[str]:
        """Which of these are paused (Enterprise)."""
        return frozenset(r for r in raters if r.isdigit() and self._pauses(r))

    def _pauses(self, rater: str) -> list[int]:
        listed = self.client.call(
            "listing pauses",
            lambda sdk: sdk.projects.pauses.list(project_pk=self.project, user_pk=int(rater)),
        )
        found = map(plain, listed)
        return [int(one["id"]) for one in found if not one.get("deleted_at")]

    def _predictions_of(self, task: int) -> Any:
        return self.client.call(
            "looking for predictions", lambda sdk: sdk.predictions.list(task=task)
        )

    def _project(self) -> Values | None:
        found = self._get(lambda sdk: sdk.projects.get(id=self.project))
        # The answer also holds passwords and tokens, which go nowhere.
        return found and {key: str(found.get(key) or "") for key in ("model_version", "sampling")}

    def _get(self, request: Any) -> Values | None:
        try:
            return dict(plain(self.client.call("looking at what was written", request)))
        except RemoteError as error:
            if error.status == 404:
                return None
            raise


def _task_of(action: Action) -> int | None:
    """The task that an action is about; entries of an older journal may not name it."""
    if action.kind == "relabel":
        return action.ref
    if action.kind in ("cancel", "predict") and action.after.get("task") is not None:
        return int(action.after["task"])
    return None


def _task_values(task: Values) -> Values:
    answers = task.get("annotations") or ()
    return {
        "overlap": int(task.get("overlap") or 1),
        "is_labeled": bool(task.get("is_labeled")),
        "last_answer": max((int(one["id"]) for one in answers), default=0),
        "n_answers": sum(not one.get("was_cancelled") for one in answers),
    }


def _ours(predictions: Iterable[Values]) -> list[int]:
    return [int(one["id"]) for one in predictions if one.get("model_version") in OUR_VERSIONS]


#: What a paused rater reads.
_PAUSED = "Paused for now; the project's managers will be in touch."
# How each kind is written: by the SDK, the project, and the values and id of what it is about.
_CREATE: dict[str, Callable[[Any, int, Mapping[str, Any]], Any]] = {
    "tab": lambda sdk, project, to: sdk.views.create(project=project, data=_tab(to)),
    # Without a result: raters are not to be led.
    "predict": lambda sdk, _, to: sdk.predictions.create(
        task=to["task"], result=[], score=to["score"], model_version=to["model_version"]
    ),
    "pause": lambda sdk, project, to: sdk.projects.pauses.create(
        project_pk=project, user_pk=int(to["rater"]), reason="MANUAL", verbose_reason=_PAUSED
    ),
}
_UPDATE: dict[str, Callable[[Any, int, Mapping[str, Any], int | None], Any]] = {
    "relabel": lambda sdk, _, to, ref: sdk.tasks.update(
        id=str(ref), overlap=to["overlap"], is_labeled=to["is_labeled"]
    ),
    "cancel": lambda sdk, _, to, ref: sdk.annotations.update(
        id=ref, was_cancelled=to["was_cancelled"]
    ),
    "project": lambda sdk, project, to, _: sdk.projects.update(
        id=project, model_version=to["model_version"], sampling=to["sampling"]
    ),
    "tab": lambda sdk, project, to, ref: sdk.views.update(
        id=str(ref), project=project, data=_tab(to)
    ),
    "predict": lambda sdk, _, to, ref: sdk.predictions.update(
        id=ref, score=to["score"], model_version=to["model_version"]
    ),
}
_DELETE: dict[str, Callable[[Any, int, Mapping[str, Any], int], Any]] = {
    "tab": lambda sdk, _, __, ref: sdk.views.delete(id=str(ref)),
    "predict": lambda sdk, _, __, ref: sdk.predictions.delete(id=ref),
    "pause": lambda sdk, project, made, ref: sdk.projects.pauses.delete(
        project_pk=project, user_pk=int(made["rater"]), id=ref
    ),
}

# The values by which to see whether users have changed what was written.
_COMPARED: dict[str, tuple[str, ...]] = {
    # Label Studio itself changes is_labeled as answers come.
    "relabel": ("overlap",),
    "cancel": ("was_cancelled",),
    "project": ("model_version", "sampling"),
    "tab": ("title", "filters"),
    "predict": ("model_version", "score"),
    "pause": ("rater",),
}


def _tab(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"title": values["title"], "filters": values["filters"]}


class ProjectWriter:
    """Writes actions, and undoes them."""

    def __init__(self, client: Client, project: int, current: CurrentValues) -> None:
        self.client, self.project, self._current = client, project, current

    def changed(self, action: Action) -> str | None:
        """What is otherwise than when the action was planned; None if nothing is."""
        if action.before is None:
            if self._current.created(action) is None:
                return None
            is_so = "is already paused" if action.kind == "pause" else "already exists"
            return f"changed since the plan: {action.target} {is_so}"
        now = self._current.now(action, action.ref or 0)
        if now is None:
            return f"changed since the plan: {action.target} no longer exists"
        other = [key for key, was in action.before.items() if key in now and now[key] != was]
        if not other:
            return None
        found = ", ".join(_said(key, now[key], action.before[key]) for key in other)
        return f"changed since the plan: {action.target} has {found}"

    def perform(self, action: Action) -> int | None:
        """Write what is planned; the id of what it made or changed."""
        if action.ref is not None or action.kind not in _CREATE:
            self._update(action, action.after)
            return action.ref
        create = _CREATE[action.kind]
        made = self.client.call(
            f"creating {action.target}",
            lambda sdk: create(sdk, self.project, action.after),
            creates=True,
        )
        return int(plain(made)["id"])

    def _update(self, action: Action, values: Mapping[str, Any]) -> None:
        update = _UPDATE[action.kind]
        self.client.call(
            f"changing {action.target}",
            lambda sdk: update(sdk, self.project, values, action.ref),
            missing=f"there is no {action.target}",
        )
        if action.kind == "cancel":
            self._current.forget_tasks()

    def settle(self, entry: JournalEntry) -> tuple[WriteState, int | None]:
        """Whether a write of which the end is unknown was done."""
        action = entry.action
        ref = action.ref if action.ref is not None else self._current.created(action)
        if action.kind == "project":
            ref = 0
        if ref is None:
            return "void", None
        now = self._current.now(action, ref)
        done = now is not None and all(
            now[key] == action.after[key] for key in _COMPARED[action.kind]
        )
        return ("done" if done else "void"), action.ref if action.kind == "project" else ref

    def revert(self, entry: JournalEntry) -> str | None:
        """Restore the values before, unless a user has changed what was written since."""
        action = entry.action
        ref = 0 if action.kind == "project" else action.ref
        if ref is None:
            return None
        now = self._current.now(action, ref)
        if now is None:
            return None if action.before is None else f"{action.target} no longer exists"
        keys = _COMPARED[action.kind]
        if action.before is not None and all(now[key] == action.before[key] for key in keys):
            return None
        if any(now[key] != action.after[key] for key in keys):
            return f"{action.target} was changed by a user since; it is left as it is"
        return self._restore(action, ref, now)

    def _restore(self, action: Action, ref: int, now: Values) -> str | None:
        if action.before is None:
            delete = _DELETE[action.kind]
            self.client.delete(
                f"removing {action.target}",
                lambda sdk: delete(sdk, self.project, action.after, ref),
            )
            return None
        before, n_answers = action.before, now.get("n_answers", 0)
        if before.get("is_labeled") and n_answers < int(before.get("overlap") or 1):
            # Answers that it had are gone.
            self._update(action, {**before, "is_labeled": False})
            return f"task {ref} has only {counted(n_answers, 'answer')} now; it stays in the queue"
        self._update(action, before)
        return None


def _said(key: str, now: Any, was: Any) -> str:
    """A value that is another by now."""
    other = {"last_answer": "other answers", "filters": "other filters"}
    return other.get(key) or f"{key} {now!r} (was {was!r})"
