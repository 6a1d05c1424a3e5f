"""The adapter: the file that Potato keeps of each annotator, read with its project."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from bbq_adapters.item_names import found_keys, name_of, tags_of, told_keys
from bbq_adapters.potato.project_config import (
    PotatoConfig,
    PotatoQuestion,
    PotatoTask,
    UserState,
    config_above,
    config_in,
    config_of,
)
from bbq_plugin.data.mappings import Reading, UnclearError
from bbq_plugin.data.rankings import Weights, break_ranking
from bbq_plugin.data.records import UNREAD, Comparison, Outcome, Record, Skipped
from bbq_plugin.errors import FormatError, UsageError, did_you_mean

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

    from bbq_adapters.item_names import Source

_SAMPLE = 200
_OUTCOMES: Mapping[str, Outcome] = MappingProxyType({"A": "left", "B": "right", "tie": "tie"})
#: As the option `items` says that the labels of a ranking are the items themselves.
OWN_LABELS = "labels"
# A label such as "B", "3" or "Response B" says where an item is shown, not which it is.
_PLACE = re.compile(r"(?:\w+[ _-])?(?:[A-Z]|[0-9]{1,2})", re.IGNORECASE)


class PotatoAdapter:
    """Reads the answers of a Potato project: pairwise, best-worst and ranking schemes."""

    name = "potato"
    option_help: Mapping[str, str] = MappingProxyType(
        {
            "config": "the project's configuration; default: the one above the answers",
            "question": "the scheme to read where several compare; of several dimensions "
            "SCHEME.DIMENSION",
            "items": "the keys of the task data that name the items (model_a,model_b), the list "
            "that names them (models), or labels: a ranking's labels are the items",
            "weights": "how much the pairs of a ranking weigh: as the ranking tells, or 1 each",
        }
    )

    def sniff(self, head: bytes, name: str) -> str | None:  # noqa: ARG002 - the content decides
        """Recognise an annotator's file by its first keys."""
        text = head.lstrip()
        if not text.startswith(b"{") or b'"instance_id_ordering"' not in text:
            return None
        return "an annotator's file of Potato" if b'"user_id"' in text else None

    def beside(self, path: Path, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """The options, with the configuration of the project that a file belongs to."""
        return options if "config" in options else {**options, "config": str(config_above(path))}

    def answer_files(self, folder: Path) -> str | None:
        """Which files of a project's folder have answers."""
        found = config_in(folder)
        if found is None:
            return None
        config = config_of(found)
        if not config.answers.is_relative_to(config.folder):
            problem = f"the answers are elsewhere: {config.answers}"
            remedy = f"give that folder's files: {config.answers}/*/user_state.json"
            raise FormatError(problem, str(found), remedy=remedy)
        return config.pattern

    def read(
        self,
        stream: io.BufferedReader,
        name: str,
        *,
        config: str | None = None,
        question: str | None = None,
        items: str | Sequence[str] | None = None,
        weights: Weights = "information",
    ) -> Iterator[Record]:
        """Yield the records of one annotator."""
        if config is None:
            problem = "the answers of Potato are read with the configuration of their project"
            raise FormatError(problem, name, remedy="name it: -O config=PROJECT/config.yaml")
        try:
            state = msgspec.json.decode(stream.read(), type=UserState)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            problem = f"this is no annotator's file of Potato ({error})"
            raise FormatError(problem, name, remedy="copy it again from the project") from error
        keys = tuple(items.split(",")) if isinstance(items, str) else tuple(items or ())
        return _records(state, question_reader(Path(config), question, keys), name, weights)


def question_reader(config: Path, question: str | None, items: Sequence[str]) -> QuestionReader:
    """How the answers to one question of a project are read."""
    project = config_of(config)
    return QuestionReader(project, _chosen(project, question), tuple(items))


def _chosen(config: PotatoConfig, name: str | None) -> PotatoQuestion:
    known = {one.name: one for one in config.questions}
    if name is not None:
        if name not in known:
            raise UsageError(
                f"{config.file} has no comparing scheme {name!r}; it has: "
                f"{', '.join(known) or 'none'}{did_you_mean(name, known)}"
            )
        return known[name]
    if len(known) == 1:
        return next(iter(known.values()))
    if not known:
        problem = "no scheme compares: pairwise, bws and ranking are read"
        raise FormatError(problem, str(config.file))
    problem = f"several schemes compare: {', '.join(known)}; say which with -O question=NAME"
    readings = [
        Reading("potato", {"question": one}, "possible", "answers to one scheme of Potato",
                difference=f"the scheme {one}")
        for one in known
    ]  # fmt: skip
    raise UnclearError(problem, str(config.file), readings, inspected=True)


class QuestionReader:
    """Which items a task shows, and what an answer says of them."""

    def __init__(
        self, config: PotatoConfig, question: PotatoQuestion, items: tuple[str, ...]
    ) -> None:
        self.config, self.question = config, question
        self.tasks = config.tasks()
        self._source = self._named_by(items)

    def _named_by(self, items: tuple[str, ...]) -> Source | None:
        """Where the items' names are; None: the question itself names them."""
        kind, labels = self.question.kind, self.question.labels
        if kind == "bws" or items == (OWN_LABELS,):
            return None
        if kind == "ranking" and not items and not all(map(_PLACE.fullmatch, labels)):
            return None
        sample = list(islice(self.tasks.values(), _SAMPLE))
        file = str(next(iter(self.config.data_files), self.config.file))
        if not sample:
            raise FormatError("the project has no tasks", file, remedy="check its data_files")
        if items:
            return told_keys(items, sample, file)
        return found_keys(sample, len(labels) if kind == "ranking" else 2, file, "potato")

    def items(self, task: PotatoTask) -> list[str] | None:
        """The items of a task in the order of its data; None: one has no name."""
        if self._source is not None:
            return self._source.names(task.data)
        if self.question.kind == "ranking":
            return list(self.question.labels)
        shown = task.data.get("items")
        names = [name_of(one) for one in shown] if isinstance(shown, list) else []
        return [one for one in names if one is not None] or None

    def tags(self, task: PotatoTask) -> dict[str, str] | None:
        """What the data say of the question as a whole."""
        return tags_of(task.data, (self.question.items_key, "items"))

    def pair(self, names: Sequence[str], value: Any, order: Any) -> tuple[str, str, Outcome] | None:
        """The items as they were shown, and the answer; None: its value is not known."""
        if len(names) != 2:
            return None
        if isinstance(order, list) and sorted(map(str, order)) == ["0", "1"]:
            names = [names[int(place)] for place in order]
        middle = self.question.middle
        if middle is None:
            outcome = _OUTCOMES.get(str(value))
        else:
            try:
                moved = float(value) - middle
            except (TypeError, ValueError):
                return None
            outcome = "left" if moved < 0 else "right" if moved > 0 else "tie"
        return None if outcome is None else (names[0], names[1], outcome)

    def levels(self, names: Sequence[str], answer: Mapping[str, Any]) -> list[list[str]] | None:
        """A ranking, or best and worst, as levels with the best first; None: it is not complete."""
        if self.question.kind == "ranking":
            places = dict(zip(self.question.labels, names, strict=False))
            order = [one.strip() for one in str(answer.get("rank_order")).split(",")]
            if sorted(order) != sorted(places) or len(names) != len(places):
                return None
            return [[places[one]] for one in order]
        places = {chr(ord("A") + i): name for i, name in enumerate(names)}
        best, worst = (places.get(str(answer.get(end))) for end in ("best", "worst"))
        if best is None or worst is None or best == worst:
            return None
        middle = [name for name in names if name not in (best, worst)]
        return [[best], middle, [worst]] if middle else [[best], [worst]]


def _records(
    state: UserState, reader: QuestionReader, name: str, weights: Weights
) -> Iterator[Record]:
    question = reader.question
    for instance, labels in state.instance_id_to_label_to_value.items():
        answer = {
            label.get("name", ""): value
            for label, value in labels
            if label.get("schema") == question.scheme and value not in (None, "")
        }
        if question.label not in answer and "worst" not in answer:
            continue
        key = answer_key(reader.config.title, question.name, instance, state.user_id)
        where = f"{name} ({instance})"
        task = reader.tasks.get(instance)
        if task is None:
            expected = reader.config.has_checks
            yield Skipped(where, "a task that the project's data do not have", instance, expected)
            continue
        names = reader.items(task)
        if names is None:
            yield Skipped(where, "a task that does not name its items", instance)
            continue
        at, time_s = _times(state.instance_id_to_behavioral_data.get(instance))
        tags, rater = reader.tags(task), state.user_id
        if question.kind == "pairwise":
            shown = state.instance_id_to_presentation_order.get(instance)
            order = shown.get(question.scheme) if isinstance(shown, dict) else None
            pair = reader.pair(names, answer[question.label], order)
            if pair is None:
                yield Skipped(where, UNREAD, str(answer[question.label]))
            elif pair[0] == pair[1]:
                yield Skipped(where, "an item against itself", pair[0], expected=True)
            else:
                yield Comparison(key, rater, *pair, at=at, time_s=time_s, tags=tags)
            continue
        levels = reader.levels(names, answer)
        if levels is None or len(set(names)) < len(names):
            yield Skipped(where, "a ranking that is not complete", str(answer), expected=True)
            continue
        for i, (winner, loser, weight) in enumerate(break_ranking(levels, weights=weights)):
            yield Comparison(
                f"{key}:{i}", rater, winner, loser, "left", weight, key, at, time_s, tags
            )


def answer_key(*parts: str) -> str:
    """The key of an answer: project, question, task and annotator."""
    return "potato:" + ":".join(quote(part, safe="") for part in parts)


def _times(behaviour: Any) -> tuple[float | None, float | None]:
    """When an answer was given and how long it took, if Potato has noted it."""
    if not isinstance(behaviour, dict):
        return None, None
    at, spent_ms = behaviour.get("session_end"), behaviour.get("total_time_ms")
    return (
        float(at) if isinstance(at, (int, float)) else None,
        spent_ms / 1000 if isinstance(spent_ms, (int, float)) and spent_ms > 0 else None,
    )
