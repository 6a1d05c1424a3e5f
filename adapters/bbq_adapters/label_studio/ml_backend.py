"""The protocol of an ML backend: what Label Studio asks of one, and what it is answered.

It is connected in the project's settings (Model). Its predictions carry no result, so that no
rater is led by them, and a score that is low where one more answer would tell much: a project with
uncertainty sampling serves the lowest score first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from bbq_plugin.errors import FormatError
from bbq_plugin.protocols import Endpoint

if TYPE_CHECKING:
    from bbq_adapters.label_studio.webhooks import LabelStudioEvents
    from bbq_plugin.protocols import ServerKnowledge

MODEL_VERSION = "bbq"


class _PredictTask(msgspec.Struct):
    data: dict[str, Any] = {}


class _PredictRequest(msgspec.Struct):
    """What is needed of a request for predictions; the rest has a login in it."""

    tasks: list[_PredictTask] = []
    project: Any = None


class MLBackend:
    """Answers the requests of Label Studio; `reader` knows which items a task shows."""

    def __init__(self, reader: LabelStudioEvents) -> None:
        self._reader = reader

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The addresses that Label Studio calls, beside the one for events."""
        return (
            # Also asked without a secret, to see whether anything is there at all.
            Endpoint("GET", "/health", self.health, public=True),
            Endpoint("POST", "/setup", self.setup),
            Endpoint("POST", "/predict", self.predict),
            Endpoint("POST", "/train", self.train),
            Endpoint("GET", "/versions", self.versions),
        )

    def health(self, _body: bytes, _known: ServerKnowledge) -> dict[str, Any]:
        """Say that it is there, and nothing else."""
        return {"status": "UP", "model_class": "bbq"}

    def setup(self, _body: bytes, _known: ServerKnowledge) -> dict[str, Any]:
        """Greet a project. The body holds the token of the user who connects: it is not read."""
        return {"model_version": MODEL_VERSION}

    def versions(self, _body: bytes, _known: ServerKnowledge) -> dict[str, Any]:
        """The one version that there is."""
        return {"versions": [MODEL_VERSION]}

    def train(self, _body: bytes, _known: ServerKnowledge) -> dict[str, Any]:
        """Nothing has to be started: the fit follows the answers as they come."""
        return {}

    def predict(self, body: bytes, known: ServerKnowledge) -> dict[str, Any]:
        """A score for each task: 1 minus the bits that one more answer is expected to tell."""
        try:
            asked = msgspec.json.decode(body, type=_PredictRequest)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise FormatError(
                "this is no request for predictions of Label Studio", "predict"
            ) from None
        # A project is called by its id and the time it was made: 2.1794800129.
        project = str(asked.project or "").split(".")[0]
        data = [task.data for task in asked.tasks]
        found = [self._reader.items(project, one) for one in data]
        if None in found and (plan := known.reading_plan(project)) is not None:
            # Since the start no event has told how the project names its items.
            self._reader.remember(project, plan)
            found = [self._reader.items(project, one) for one in data]
        bits = [None if items is None else known.information_bits(items) for items in found]
        results: list[dict[str, Any]] = [
            {
                "result": [],
                "score": None if one is None else max(0.0, 1.0 - one),
                "model_version": MODEL_VERSION,
            }
            for one in bits
        ]
        return {"results": results, "model_version": MODEL_VERSION}
