"""How things are on the server: asked for many at once, right before they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bbq_adapters.label_studio.client import plain, query
from bbq_adapters.label_studio.planning import OUR_VERSIONS
from bbq_adapters.label_studio.pulling import ANSWERS
from bbq_plugin.errors import RemoteError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bbq_adapters.label_studio.client import Client
    from bbq_plugin.data.actions import Action

    Values = dict[str, Any]
    #: What is asked, the question, the fields and how many tasks: as `Pulling.listed` takes it.
    Listed = Callable[..., tuple[list[Values], int]]

_FIELDS = f"id,overlap,is_labeled,predictions,model_version,score,{ANSWERS}"
_TASKS_AT_ONCE = 100


class Seeing:
    """The values of targets, by kind and id.

    What was seen is used once: by the second time it may have been written.
    """

    def __init__(self, client: Client, project: int, listed: Listed) -> None:
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
