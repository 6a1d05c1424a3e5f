"""Writes into a project, each of which can be looked up afterwards and put back.

Nothing that people made is ever deleted; what is deleted on undoing is a tab, a prediction or a
pause that an earlier write created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bbq_adapters.label_studio.client import plain
from bbq_adapters.label_studio.planning import MODEL_VERSION, RETIRED
from bbq_plugin.errors import RemoteError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bbq_adapters.label_studio.client import Client
    from bbq_plugin.feedback import Action, Entry, State

#: What a paused rater reads.
_PAUSED = "Paused for now; the project's managers will be in touch."


class Writing:
    """The calls, a pair for each kind of action: there and back."""

    def __init__(self, client: Client, project: int) -> None:
        self.client = client
        self.project = project
        #: Tasks as they were a moment ago; each is used once, for then it may have been written.
        self.seen: dict[int, dict[str, Any]] = {}

    def perform(self, action: Action) -> int | None:
        """Write what is planned; the id of what it made or changed."""
        after, ref = action.after, action.ref
        if action.kind == "relabel":
            self._task(_known(ref), after)
        elif action.kind == "cancel":
            self._annotation(_known(ref), after)
        elif action.kind == "project":
            self._project(after)
        elif action.kind == "tab":
            return self._tab(ref, after)
        elif action.kind == "predict":
            return self._predict(ref, after)
        elif action.kind == "pause":
            return self._pause(after["rater"])
        else:
            raise AssertionError(action.kind)
        return ref

    def settle(self, entry: Entry) -> tuple[State, int | None]:
        """Whether a write of which the end is unknown was done."""
        action = entry.action
        ref = action.ref if action.ref is not None else self._created(action)
        if action.kind == "project":
            ref = 0
        if ref is None:
            return "void", None
        now = self._now(action, ref)
        done = now is not None and all(now[key] == action.after[key] for key in _compared(action))
        return ("done" if done else "void"), action.ref if action.kind == "project" else ref

    def revert(self, entry: Entry) -> str | None:
        """Put the values before back, unless somebody has changed what was written since."""
        action = entry.action
        ref = 0 if action.kind == "project" else action.ref
        if ref is None:
            return None
        now = self._now(action, ref)
        if now is None:
            return None if action.before is None else f"{action.target} is not there any more"
        keys = _compared(action)
        if action.before is not None and all(now[key] == action.before[key] for key in keys):
            return None
        if any(now[key] != action.after[key] for key in keys):
            return f"{action.target} was changed by somebody since: left as it is"
        if action.kind == "relabel" and action.before is not None:
            return self._close_again(ref, action.before)
        self._back(action, ref)
        return None

    def _close_again(self, ref: int, before: Mapping[str, Any]) -> str | None:
        """Take a task out of the queue again, unless answers that it had are gone."""
        if before.get("is_labeled"):
            task = self._get(lambda sdk: sdk.tasks.get(id=str(ref))) or {}
            answers = sum(not one.get("was_cancelled") for one in task.get("annotations") or ())
            if answers < int(before.get("overlap") or 1):
                self._task(ref, {**before, "is_labeled": False})
                return f"task {ref} has only {answers} answers by now: it stays in the queue"
        self._task(ref, before)
        return None

    def _back(self, action: Action, ref: int) -> None:
        before = action.before
        if action.kind == "cancel" and before is not None:
            self._annotation(ref, before)
        elif action.kind == "project" and before is not None:
            self._project(before)
        elif action.kind == "tab":
            if before is None:
                self._delete_tab(ref)
            else:
                self._tab(ref, before)
        elif action.kind == "predict":
            if before is None:
                self._delete_prediction(ref)
            else:
                self._predict(ref, before)
        elif action.kind == "pause":
            self._resume(action.after["rater"], ref)

    # -- what there is

    def _now(self, action: Action, ref: int) -> dict[str, Any] | None:
        """The values of a target at this moment; None if it does not exist."""
        if action.kind == "relabel":
            seen = self.seen.pop(ref, None)
            return seen or self._get(lambda sdk: sdk.tasks.get(id=str(ref)))
        if action.kind == "cancel":
            return self._get(lambda sdk: sdk.annotations.get(id=ref))
        if action.kind == "project":
            return self._get(lambda sdk: sdk.projects.get(id=self.project))
        if action.kind == "predict":
            return self._get(lambda sdk: sdk.predictions.get(id=ref))
        if action.kind == "tab":
            tab = self.tabs().get(ref)
            return None if tab is None else {"title": tab[0], "filters": tab[1]}
        paused = self._pauses(action.after["rater"])
        return {"rater": action.after["rater"]} if ref in paused else None

    def _get(self, request: Any) -> dict[str, Any] | None:
        try:
            return dict(plain(self.client.call("looking at what was written", request)))
        except RemoteError as error:
            if error.status == 404:
                return None
            raise

    def _created(self, action: Action) -> int | None:
        """What a write made whose answer never came."""
        if action.kind == "tab":
            wanted = (action.after["title"], action.after["filters"])
            return next((own for own, tab in self.tabs().items() if tab == wanted), None)
        if action.kind == "predict":
            own = [
                one["id"]
                for one in map(
                    plain,
                    self.client.call(
                        "looking for predictions",
                        lambda sdk: sdk.predictions.list(task=action.after["task"]),
                    ),
                )
                if one.get("model_version") in (MODEL_VERSION, RETIRED)
            ]
            return int(max(own)) if own else None
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

    # -- writes

    def _task(self, task: int, values: Mapping[str, Any]) -> None:
        self.client.call(
            f"changing task {task}",
            lambda sdk: sdk.tasks.update(
                id=str(task), overlap=values["overlap"], is_labeled=values["is_labeled"]
            ),
            missing=f"there is no task {task}",
        )

    def _annotation(self, annotation: int, values: Mapping[str, Any]) -> None:
        self.client.call(
            f"changing annotation {annotation}",
            lambda sdk: sdk.annotations.update(
                id=annotation, was_cancelled=values["was_cancelled"]
            ),
            missing=f"there is no annotation {annotation}",
        )

    def _project(self, values: Mapping[str, Any]) -> None:
        self.client.call(
            "changing the project",
            lambda sdk: sdk.projects.update(
                id=self.project,
                model_version=values["model_version"],
                sampling=values["sampling"],
            ),
        )

    def _tab(self, ref: int | None, values: Mapping[str, Any]) -> int:
        data: Any = {"title": values["title"], "filters": values["filters"]}
        if ref is None:
            made = self.client.call(
                "making a tab",
                lambda sdk: sdk.views.create(project=self.project, data=data),
                creates=True,
            )
            return int(plain(made)["id"])
        self.client.call(
            "changing a tab",
            lambda sdk: sdk.views.update(id=str(ref), project=self.project, data=data),
        )
        return ref

    def _delete_tab(self, ref: int) -> None:
        self.client.call("removing our tab", lambda sdk: sdk.views.delete(id=str(ref)))

    def _predict(self, ref: int | None, values: Mapping[str, Any]) -> int:
        if ref is None:
            made = self.client.call(
                "adding a prediction",
                # Without a result: raters are not to be led.
                lambda sdk: sdk.predictions.create(
                    task=values["task"],
                    result=[],
                    score=values["score"],
                    model_version=values["model_version"],
                ),
                creates=True,
            )
            return int(plain(made)["id"])
        self.client.call(
            "changing a prediction",
            lambda sdk: sdk.predictions.update(
                id=ref, score=values["score"], model_version=values["model_version"]
            ),
        )
        return ref

    def _delete_prediction(self, ref: int) -> None:
        self.client.call("removing our prediction", lambda sdk: sdk.predictions.delete(id=ref))

    def _pause(self, rater: str) -> int:
        made = self.client.call(
            f"pausing rater {rater}",
            lambda sdk: sdk.projects.pauses.create(
                project_pk=self.project,
                user_pk=int(rater),
                reason="MANUAL",
                verbose_reason=_PAUSED,
            ),
            creates=True,
        )
        return int(plain(made)["id"])

    def _resume(self, rater: str, ref: int) -> None:
        self.client.call(
            f"letting rater {rater} go on",
            lambda sdk: sdk.projects.pauses.delete(
                project_pk=self.project, user_pk=int(rater), id=ref
            ),
        )


def _compared(action: Action) -> tuple[str, ...]:
    """The values by which to tell whether others have changed what was written."""
    return {
        # Label Studio itself changes is_labeled as answers come.
        "relabel": ("overlap",),
        "cancel": ("was_cancelled",),
        "project": ("model_version", "sampling"),
        "tab": ("title", "filters"),
        "predict": ("model_version", "score"),
        "pause": ("rater",),
    }[action.kind]


def _known(ref: int | None) -> int:
    if ref is None:
        raise AssertionError("an action on something that exists has its id")
    return ref
