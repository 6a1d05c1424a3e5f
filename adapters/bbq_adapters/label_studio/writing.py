"""Writes into a project, each of which can be looked up afterwards and put back.

Nothing that people made is ever deleted; what is deleted on undoing is a tab, a prediction or a
pause that an earlier write created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bbq_adapters.label_studio.client import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bbq_adapters.label_studio.client import Client
    from bbq_adapters.label_studio.seeing import Seeing
    from bbq_plugin.data.actions import Action, JournalEntry, WriteState

#: What a paused rater reads.
_PAUSED = "Paused for now; the project's managers will be in touch."


class Writing:
    """The calls, a pair for each kind of action: there and back."""

    def __init__(self, client: Client, project: int, seeing: Seeing) -> None:
        self.client, self.project, self.seeing = client, project, seeing

    def changed(self, action: Action) -> str | None:
        """What is otherwise than when the action was planned; None if nothing is."""
        if action.before is None:
            if self.seeing.created(action) is None:
                return None
            is_so = "is paused" if action.kind == "pause" else "is there"
            return f"changed since the plan: {action.target} {is_so} already"
        now = self.seeing.now(action, 0 if action.kind == "project" else _known(action.ref))
        if now is None:
            return f"changed since the plan: {action.target} is not there any more"
        other = [key for key, was in action.before.items() if key in now and now[key] != was]
        if not other:
            return None
        found = ", ".join(_said(key, now[key], action.before[key]) for key in other)
        return f"changed since the plan: {action.target} has {found}"

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

    def settle(self, entry: JournalEntry) -> tuple[WriteState, int | None]:
        """Whether a write of which the end is unknown was done."""
        action = entry.action
        ref = action.ref if action.ref is not None else self.seeing.created(action)
        if action.kind == "project":
            ref = 0
        if ref is None:
            return "void", None
        now = self.seeing.now(action, ref)
        done = now is not None and all(now[key] == action.after[key] for key in _compared(action))
        return ("done" if done else "void"), action.ref if action.kind == "project" else ref

    def revert(self, entry: JournalEntry) -> str | None:
        """Put the values before back, unless somebody has changed what was written since."""
        action = entry.action
        ref = 0 if action.kind == "project" else action.ref
        if ref is None:
            return None
        now = self.seeing.now(action, ref)
        if now is None:
            return None if action.before is None else f"{action.target} is not there any more"
        keys = _compared(action)
        if action.before is not None and all(now[key] == action.before[key] for key in keys):
            return None
        if any(now[key] != action.after[key] for key in keys):
            return f"{action.target} was changed by somebody since: left as it is"
        if action.kind == "relabel" and action.before is not None:
            return self._close_again(ref, action.before, int(now["n_answers"]))
        self._back(action, ref)
        return None

    def _close_again(self, ref: int, before: Mapping[str, Any], n_answers: int) -> str | None:
        """Take a task out of the queue again, unless answers that it had are gone."""
        if before.get("is_labeled") and n_answers < int(before.get("overlap") or 1):
            self._task(ref, {**before, "is_labeled": False})
            return f"task {ref} has only {n_answers} answers by now: it stays in the queue"
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
        self.seeing.forget_tasks()

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
        self.client.delete("removing our tab", lambda sdk: sdk.views.delete(id=str(ref)))

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
        self.client.delete("removing our prediction", lambda sdk: sdk.predictions.delete(id=ref))

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
        self.client.delete(
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


def _said(key: str, now: Any, was: Any) -> str:
    """A value that is another by now."""
    if key == "last_answer":
        return "other answers"
    if key == "filters":
        return "other filters"
    return f"{key} {now!r} and had {was!r}"


def _known(ref: int | None) -> int:
    if ref is None:
        raise AssertionError("an action on something that exists has its id")
    return ref
