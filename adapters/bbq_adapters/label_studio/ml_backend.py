"""The ML backend: what Label Studio asks of a model that is connected to a project.

It is connected in the project's settings (Model). Its predictions carry no result, so that no rater
is led by them, and a score that is low where one more answer would tell much.

Label Studio asks again only for tasks that have no prediction of the version that /setup names, so
the version changes with the fit. Uncertainty sampling reads the predictions of one version that the
project names, so there a push keeps scores fresh in their place (`push_plan`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from bbq_adapters.label_studio.comparison_control import Question
from bbq_adapters.label_studio.push_plan import served_score
from bbq_plugin.errors import FormatError
from bbq_plugin.protocols import Endpoint

if TYPE_CHECKING:
    from bbq_plugin.protocols import ServerKnowledge

#: Every version of the predictions that Label Studio asks for begins with it.
MODEL = "bbq"
#: Questions that are remembered; a configuration that changes makes another one.
MOST_QUESTIONS = 256


def version_of(known: ServerKnowledge) -> str:
    """The version of the predictions: another one with every fit."""
    mark = known.fit_mark()
    return f"{MODEL} {mark}" if mark else MODEL


def is_own_version(version: object) -> bool:
    """Whether predictions of this version are of `bbq serve`."""
    return isinstance(version, str) and version.partition(" ")[0] == MODEL


class _TaskData(msgspec.Struct):
    data: dict[str, Any] = {}


class _PredictRequest(msgspec.Struct):
    """What is needed of a request for predictions; the rest has a login in it."""

    tasks: list[_TaskData] = []
    project: Any = None


class MLBackend:
    """Scores tasks; `last` has the question that each project asked last, and is shared."""

    def __init__(self, last: dict[str | None, Question]) -> None:
        self._last = last

    def endpoints(self) -> tuple[Endpoint, ...]:
        """What Label Studio asks of an ML backend, beside the address for events."""
        return (
            # Also asked without a secret, to see whether anything is there at all.
            Endpoint(
                "GET", "/health", lambda *_: {"status": "UP", "model_class": "bbq"}, public=True
            ),
            # The body holds the token of the user who connects: it is not read.
            Endpoint("POST", "/setup", lambda _, known: {"model_version": version_of(known)}),
            Endpoint("POST", "/predict", self._predict),
            # Nothing has to be started: the fit follows the answers as they come.
            Endpoint("POST", "/train", lambda *_: {}),
            Endpoint("GET", "/versions", lambda _, known: {"versions": [version_of(known)]}),
        )

    def _predict(self, body: bytes, known: ServerKnowledge) -> dict[str, Any]:
        """A score for each task: the lower, the more one more answer is expected to tell."""
        try:
            asked = msgspec.json.decode(body, type=_PredictRequest)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            problem = "this is no request for predictions of Label Studio"
            raise FormatError(problem, "predict") from None
        # A project is called by its id and the time it was made: 2.1794800129.
        project = str(asked.project or "").split(".")[0]
        found = [self._items(project, task.data) for task in asked.tasks]
        if None in found and (kept := Question.of_kept(known.reading_plan(project))) is not None:
            # Since the start no event has told how the project names its items.
            if len(self._last) < MOST_QUESTIONS:
                self._last.setdefault(project, kept)
            found = [self._items(project, task.data) for task in asked.tasks]
        results: list[dict[str, Any]] = []
        version = version_of(known)
        for items in found:
            bits = None if items is None else known.information_bits(items)
            score = None if bits is None else served_score(bits)
            results.append({"result": [], "score": score, "model_version": version})
        return {"results": results, "model_version": version}

    def _items(self, project: str, data: dict[str, Any]) -> tuple[str, ...] | None:
        """The items that a task shows, by the last question of its project."""
        question = self._last.get(project)
        names = question.source.names(data) if question and question.source else None
        return tuple(names) if names else None
