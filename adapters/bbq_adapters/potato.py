"""Potato: the answers in a project's folder, and what goes back into it.

Questions and tasks are by the project's configuration. Feedback says which tasks come first, by the
order of the lines of the data file, which Potato reads when it starts, and which annotators get no
more, by their quota, which is set through the running server. Both are undone to what they were.

Potato keeps the tuples of best-worst scaling in memory only. A running server is asked for them:

    python -m bbq_adapters.potato http://127.0.0.1:8000 PROJECT/bws_tuples.jsonl

Each tuple is looked at as an annotator would look at it, under a name of our own.
"""

from __future__ import annotations

import hashlib
import http.cookiejar
import json
import os
import re
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import msgspec

from bbq_adapters.json_csv_rows import rows
from bbq_adapters.labels_and_item_names import found_keys, name_of, tags_of, told_keys
from bbq_plugin.data.mappings import Reading, UnclearError
from bbq_plugin.data.rankings import Weights, break_ranking
from bbq_plugin.data.records import (
    UNREAD,
    Action,
    Comparison,
    FeedbackPlan,
    Outcome,
    Record,
    Skipped,
)
from bbq_plugin.errors import (
    BBQError,
    FormatError,
    RemoteError,
    UnsupportedError,
    UsageError,
    did_you_mean,
)
from bbq_plugin.protocols import TaskPage
from bbq_plugin.text import counted

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bbq_adapters.labels_and_item_names import Source
    from bbq_plugin.data.records import JournalEntry, Person, WriteState
    from bbq_plugin.protocols import (
        FeedbackGoals,
        Journal,
        PairTasks,
        ProjectAddress,
        ProjectMemory,
        TaskContent,
    )


#: What Potato calls an annotator's file.
STATE_FILE = "user_state.json"
#: The tasks of best-worst scaling, which Potato itself keeps in memory only.
TUPLES_FILE = "bws_tuples.jsonl"
_ENDINGS = (".yaml", ".yml")
# How far above the answers the configuration may be.
_LEVELS = 5
_LONGEST_CONFIG = 1 << 22

QuestionKind = Literal["pairwise", "bws", "ranking"]


@dataclass(frozen=True, slots=True)
class PotatoQuestion:
    """One comparison that the project asks for: a scheme, or one dimension of a scheme."""

    name: str
    scheme: str
    kind: QuestionKind
    #: Under which name the answer stands: a dimension, or what Potato calls the only one.
    label: str
    #: Where the task's data list what is shown.
    items_key: str = ""
    #: What a ranking sorts.
    labels: tuple[str, ...] = ()
    #: The middle of a scale: below it the first item is better. None: the answer is A, B or tie.
    middle: float | None = None


@dataclass(frozen=True, slots=True)
class PotatoTask:
    """One instance: its data, and where they stand."""

    data: dict[str, Any]
    line: int | None


@dataclass(frozen=True, slots=True)
class PotatoConfig:
    """What a configuration says."""

    file: Path
    title: str
    answers: Path
    data_files: tuple[Path, ...]
    id_key: str
    questions: tuple[PotatoQuestion, ...]
    #: The order in which Potato gives tasks out.
    strategy: str
    #: Potato makes the tasks itself, of the items in the data.
    makes_tuples: bool
    #: Potato mixes tasks of its own among those of the data.
    has_checks: bool

    @property
    def folder(self) -> Path:
        """Where the project is."""
        return self.file.parent

    @property
    def pattern(self) -> str:
        """The files with answers, seen from the project's folder."""
        return f"{self.answers.relative_to(self.folder).as_posix()}/*/{STATE_FILE}"

    def tasks(self) -> Mapping[str, PotatoTask]:
        """All tasks by their id; read again when a file has changed."""
        files = (self.folder / TUPLES_FILE,) if self.makes_tuples else self.data_files
        return _tasks(files, tuple(map(_stamp, files)), self.id_key)


def config_above(path: Path) -> Path:
    """The configuration of the project that an annotator's file belongs to."""
    answers = path.resolve().parent.parent
    for folder in [answers, *answers.parents][:_LEVELS]:
        found = [one for one in _configs(folder) if config_of(one).answers == answers]
        if len(found) > 1:
            names = ", ".join(one.name for one in found)
            problem = f"several configurations have their answers here: {names}"
            raise FormatError(problem, str(path), remedy=f"say which: -O config={found[0]}")
        if found:
            return found[0]
    problem = "this is an annotator's file of Potato, and no configuration of a project is above it"
    raise FormatError(problem, str(path), remedy="name it: -O config=PROJECT/config.yaml")


def config_in(folder: Path) -> Path | None:
    """The only configuration in a folder; None: it is no project of Potato."""
    found = list(_configs(folder))
    if len(found) > 1:
        names = ", ".join(one.name for one in found)
        problem = f"the folder has several configurations of Potato: {names}"
        raise FormatError(problem, str(folder), remedy="give the files with answers of one of them")
    return found[0] if found else None


def _configs(folder: Path) -> list[Path]:
    """The files of a folder that are configurations of Potato."""
    if not folder.is_dir():
        return []
    named = (one for one in sorted(folder.iterdir()) if one.suffix in _ENDINGS and one.is_file())
    return [one for one in named if b"annotation_schemes" in _bytes(one)]


def _bytes(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(_LONGEST_CONFIG)


def _stamp(file: Path) -> tuple[int, int]:
    try:
        found = file.stat()
    except OSError:
        return (0, 0)
    return found.st_mtime_ns, found.st_size


def config_of(file: Path) -> PotatoConfig:
    """Read a configuration, again when it has changed."""
    return _config(file.resolve(), _stamp(file))


@lru_cache(16)
def _config(file: Path, _stamp: tuple[int, int]) -> PotatoConfig:
    try:
        import yaml  # noqa: PLC0415 (of the extra)
    except ImportError as error:
        raise UnsupportedError(
            "a project of Potato needs the extra potato; install it: pip install "
            "'bbq-plugin[potato]'"
        ) from error
    try:
        found = yaml.safe_load(_bytes(file))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        raise FormatError("this is no YAML", str(file), line, remedy="mend the file") from error
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise FormatError(problem, str(file), remedy="name the configuration") from error
    if not isinstance(found, dict) or not isinstance(found.get("annotation_schemes"), list):
        raise FormatError(
            "this is no configuration of Potato: it has no list annotation_schemes", str(file)
        )
    root = file.parent / str(found.get("task_dir") or ".")
    names = found.get("data_files") or []
    properties = found.get("item_properties") or {}
    return PotatoConfig(
        file=file,
        title=str(found.get("annotation_task_name") or file.parent.name),
        answers=(root / str(found.get("output_annotation_dir") or "annotation_output")).resolve(),
        data_files=tuple(
            (root / str(one.get("path") if isinstance(one, dict) else one)).resolve()
            for one in (names if isinstance(names, list) else [names])
        ),
        id_key=str(properties.get("id_key") or "id"),
        questions=tuple(
            question
            for scheme in found["annotation_schemes"]
            if isinstance(scheme, dict)
            for question in _questions(scheme)
        ),
        strategy=_strategy(found.get("assignment_strategy")),
        makes_tuples=bool(found.get("bws_config") or found.get("ibws_config")),
        has_checks=bool(found.get("attention_checks") or found.get("gold_standards")),
    )


def _strategy(value: Any) -> str:
    return str((value.get("name") if isinstance(value, dict) else value) or "fixed_order")


def _questions(scheme: Mapping[str, Any]) -> list[PotatoQuestion]:
    kind, name = scheme.get("annotation_type"), str(scheme.get("name"))
    shown = str(scheme.get("items_key") or "text")
    if kind == "bws":
        return [PotatoQuestion(name, name, "bws", "best")]
    if kind == "ranking":
        labels = scheme.get("labels") or []
        names = tuple(str(one["name"] if isinstance(one, dict) else one) for one in labels)
        return [PotatoQuestion(name, name, "ranking", "rank_order", shown, names)]
    if kind != "pairwise":
        return []
    mode = scheme.get("mode") or "binary"
    if mode == "multi_dimension":
        found = scheme.get("dimensions") or []
        dimensions = [str(one["name"] if isinstance(one, dict) else one) for one in found]
        return [PotatoQuestion(f"{name}.{one}", name, "pairwise", one, shown) for one in dimensions]
    if mode == "scale":
        scale = scheme.get("scale") or {}
        middle = (float(scale.get("min", -3)) + float(scale.get("max", 3))) / 2
        return [PotatoQuestion(name, name, "pairwise", "scale_value", shown, middle=middle)]
    return [PotatoQuestion(name, name, "pairwise", "selection", shown)]


@lru_cache(4)
def _tasks(
    files: Sequence[Path], _stamps: Sequence[tuple[int, int]], id_key: str
) -> Mapping[str, PotatoTask]:
    found: dict[str, PotatoTask] = {}
    for file in files:
        name = str(file)
        try:
            with file.open("rb") as stream:
                for place, row in rows(stream, name):
                    own = row.get(id_key, row.get("id") if file.name == TUPLES_FILE else None)
                    if own is None:
                        problem = f"a task has no key {id_key!r}, which names it"
                        raise FormatError(problem, name, place.line)
                    found[str(own)] = PotatoTask(row, place.line)
        except OSError as error:
            remedy = "check data_files of the configuration"
            if file.name == TUPLES_FILE:
                remedy = (
                    "Potato keeps the tuples of best-worst scaling in memory only: start it and "
                    "write this file once with: python -m bbq_adapters.potato "
                    f"http://127.0.0.1:8000 {file}"
                )
            problem = f"the tasks cannot be read ({error.strerror})"
            raise FormatError(problem, name, remedy=remedy) from error
    return found


class UserState(msgspec.Struct):
    """What is read of an annotator's file."""

    user_id: str
    instance_id_to_label_to_value: dict[str, list[tuple[dict[str, str], Any]]]
    instance_id_to_behavioral_data: dict[str, Any] = {}
    instance_id_to_presentation_order: dict[str, Any] = {}


NAME = "bbq-tuples"
# An annotator may be given a part of the tasks; so many in turn are asked.
_MOST_NAMES = 50
_TIMEOUT_S = 30


class Visitor:
    """A session on a Potato that asks for no password."""

    def __init__(self, url: str, name: str) -> None:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise UsageError(f"{url!r} is no address; expected one such as http://127.0.0.1:8000")
        self.url = url.rstrip("/")
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._open = urllib.request.build_opener(cookies).open
        self.ask("/auth", form={"action": "login", "email": name, "pass": ""})

    def ask(self, path: str, *, form: Mapping[str, str] | None = None, body: Any = None) -> bytes:
        """What the server answers."""
        data, headers = None, {}
        if form is not None:
            data = urllib.parse.urlencode(form).encode()
        elif body is not None:
            data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers)  # noqa: S310 (checked)
        try:
            with self._open(request, timeout=_TIMEOUT_S) as reply:
                return bytes(reply.read())
        except (urllib.error.URLError, OSError) as error:
            raise RemoteError(f"{self.url}{path}: Potato does not answer ({error})") from error

    def task(self) -> dict[str, Any]:
        """The task that this annotator is at."""
        found: dict[str, Any] = json.loads(self.ask("/api/current_instance"))
        return found


def tuples_of(url: str, visit: Callable[[str, str], Visitor] = Visitor) -> dict[str, list[str]]:
    """The items of each tuple in the order shown, by the tuple's id."""
    found: dict[str, list[str]] = {}
    for number in range(_MOST_NAMES):
        before = len(found)
        one = visit(url, NAME if not number else f"{NAME}-{number}")
        one.ask("/annotate")
        for place in range(int(one.task()["total_instances"])):
            one.ask("/go_to", form={"go_to": str(place)})
            task = one.task()
            shown = task["data"].get("_bws_items")
            if not shown:
                raise RemoteError(f"{url}: its tasks are no tuples of best-worst scaling")
            ordered = sorted(shown, key=lambda item: str(item["position"]))
            found[str(task["instance_id"])] = [str(item["source_id"]) for item in ordered]
        if len(found) == before:
            break
    return found


def main(arguments: list[str]) -> int:
    """Write the file."""
    if len(arguments) != 2:
        sys.stderr.write(f"usage: python -m {__spec__.name} URL FILE\n")
        return 2
    url, file = arguments[0], Path(arguments[1])
    try:
        found = tuples_of(url)
    except BBQError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    part = file.with_name(f".{file.name}.part")
    lines = (json.dumps({"id": own, "items": items}) for own, items in sorted(found.items()))
    part.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    part.replace(file)
    sys.stdout.write(f"{len(found)} tuples written to {file}\n")
    return 0


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
            "weights": "weight of the pairs of a ranking: by its information, or 1 each",
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
                f"{config.file} has no scheme {name!r} that compares; it has: "
                f"{', '.join(known) or 'none'}"
                f"{did_you_mean(name, known) or '; name one of these with -O question=NAME'}"
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


_ADMIN_TIMEOUT_S = 60.0


class Potato:
    """Potato, by the folder of a project; its server is needed for quotas only."""

    name = "potato"
    by_folder = True
    url_variable = "POTATO_URL"
    token_variable = "POTATO_API_KEY"  # noqa: S105 (the name of it)

    def open(self, at: ProjectAddress) -> PotatoProject:
        """Reach a project by its folder, which is one page."""
        folder = Path(str(at.project))
        if PotatoAdapter().answer_files(folder) is None:
            raise UsageError(f"{folder} is no project of Potato: it has no configuration")
        admin = _Admin(at.url, at.token, at.timeout_s) if at.url else None
        return PotatoProject(folder, at.options, admin)

    def people(self, url: str, token: str, timeout_s: float | None = None) -> Mapping[str, Person]:  # noqa: ARG002 (no question is asked)
        """Potato knows no more of annotators than the names in its files."""
        return {}

    def import_tasks(self, asked: PairTasks) -> str:
        """Pairs as lines of a data file, the most informative first."""
        pairs, raters, scores = asked.pairs, asked.raters, asked.scores
        order = sorted(range(len(pairs)), key=lambda i: scores[i] if scores else i)
        lines = []
        for i in order:
            names = dict(zip(asked.keys, pairs[i], strict=True))
            own: dict[str, Any] = {"id": f"bbq-{i + 1}", **names}
            if asked.rater_key and i < len(raters) and raters[i] is not None:
                own[asked.rater_key] = raters[i]
            lines.append(json.dumps(own, ensure_ascii=False) + "\n")
        return "".join(lines)


class _Admin:
    """The part of the server that its administrator's key opens."""

    def __init__(self, url: str, key: str, timeout_s: float | None) -> None:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise UsageError(f"{url!r} is no address; expected one such as http://127.0.0.1:8000")
        self.url, self._key, self._timeout_s = url.rstrip("/"), key, timeout_s or _ADMIN_TIMEOUT_S

    def _ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"X-API-Key": self._key, "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers)  # noqa: S310 (checked)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as reply:  # noqa: S310
                return msgspec.json.decode(reply.read())
        except urllib.error.HTTPError as error:
            why = "the key is refused; set POTATO_API_KEY to admin_api_key of the configuration"
            problem = why if error.code in (401, 403) else f"Potato answers {error.code}"
            raise RemoteError(f"{self.url}: {problem}") from error
        except (OSError, msgspec.DecodeError) as error:
            raise RemoteError(f"{self.url}: Potato does not answer ({error})") from error

    def quotas(self) -> dict[str, tuple[int, int]]:
        """Of each annotator the most tasks they get, -1 for all, and how many they answered."""
        return {
            str(one["user_id"]): (int(one["max_assignments"]), int(one["total_annotations"]))
            for one in self._ask("/admin/api/annotators")["annotators"]
        }

    def set_quota(self, annotator: str, most: int) -> None:
        """Set the most tasks that an annotator gets."""
        own = urllib.parse.quote(annotator, safe="")
        self._ask(f"/admin/api/user/{own}/set_instances", {"max_instances": most})


class PotatoProject:
    """Answers out, order and quotas in."""

    def __init__(self, folder: Path, options: Mapping[str, Any], admin: _Admin | None) -> None:
        self.folder, self._admin = folder, admin
        self._options, self._adapter = dict(options), PotatoAdapter()
        self._config = Path(self._options.get("config") or config_in(folder) or folder)
        self._quotas: dict[str, tuple[int, int]] = {}

    def _reader(self) -> QuestionReader:
        items = self._options.get("items") or ()
        keys = items.split(",") if isinstance(items, str) else items
        return question_reader(self._config, self._options.get("question"), keys)

    def close(self) -> None:
        """Nothing is held open."""

    def describe(self) -> str:
        """Title and question."""
        reader = self._reader()
        return f"project {reader.config.title!r}: scheme {reader.question.name!r}"

    def pages(self, known: ProjectMemory, *, everything: bool = False) -> Iterator[TaskPage]:  # noqa: ARG002 (a folder is read whole)
        """All answers, as one page."""
        files = sorted(self.folder.glob(self._adapter.answer_files(self.folder) or ""))
        records: list[Record] = []
        for file in files:
            options = {**self._options, "config": str(self._config)}
            with file.open("rb") as stream:
                records += self._adapter.read(stream, str(file), **options)
        reader = self._reader()
        yield TaskPage(
            records, (), {}, len(reader.tasks), len(reader.tasks),
            question=reader.question.name, title=reader.config.title,
        )  # fmt: skip

    def contents(self, tasks: Sequence[int], known: ProjectMemory) -> Mapping[int, TaskContent]:  # noqa: ARG002
        """Tasks of Potato have names and no numbers, so none of these is here."""
        return {}

    # -- feedback

    def plan(self, goals: FeedbackGoals, journal: Journal, known: ProjectMemory) -> FeedbackPlan:  # noqa: ARG002
        """What to write, from the files and the server's state of this moment."""
        actions: list[Action] = []
        notes: list[str] = []
        if "pause" in goals.kinds and self._admin is not None:
            actions += _pauses(self._admin.quotas(), goals, journal.entries())
        elif "pause" in goals.kinds and goals.excluded:
            notes.append(
                "no annotator is paused: that needs the running Potato (--url, and its "
                "admin_api_key in POTATO_API_KEY)"
            )
        if "order" in goals.kinds:
            order = self._order(goals)
            if isinstance(order, Action):
                actions.append(order)
                notes.append("Potato reads the order of its tasks when it starts")
            elif order:
                notes.append(order)
        return FeedbackPlan(tuple(actions), tuple(notes))

    def _order(self, goals: FeedbackGoals) -> Action | str | None:
        """The most informative tasks at the front of the data file; else why not."""
        reader = self._reader()
        config = reader.config
        file = ordered_file(config)
        if isinstance(file, str):
            return file
        lines = _Lines(file)
        bits = []
        for place, own in enumerate(lines.ids(config.id_key)):
            names = reader.items(reader.tasks[own]) if own in reader.tasks else None
            told = goals.information_bits(names) if names else None
            # Items that no answer has told of yet come before all others.
            bits.append((told is not None, -(told or 0.0), place))
        first = [place for *_, place in sorted(bits)[: goals.n_informative]]
        after = lines.moved(first)
        if after == lines.content:
            return None
        return Action(
            "order",
            file.name,
            f"the {counted(len(first), 'most informative task')} come first",
            {"file": str(file), "sha256": _sha256(lines.content), "places": first},
            {"file": str(file), "sha256": _sha256(after)},
        )

    def look(self, actions: Sequence[Action]) -> None:
        """Ask once for the quotas of all annotators."""
        wanted = any(action.kind == "pause" for action in actions)
        if wanted and self._admin is None:
            raise UsageError("quotas were set through the server; give --url of the running Potato")
        if wanted and self._admin is not None:
            self._quotas = self._admin.quotas()

    def _is(self, action: Action, values: Mapping[str, Any]) -> bool:
        """Whether the project has these values now."""
        if action.kind == "pause":
            most: int = values["max_instances"]
            quota, n_answered = self._quotas.get(values["annotator"], (None, 0))
            # Potato raises a quota to what was answered by the time it is set.
            raised = values is action.after and quota is not None and most <= quota <= n_answered
            return quota == most or raised
        try:
            return _sha256(Path(values["file"]).read_bytes()) == str(values["sha256"])
        except OSError:
            return False

    def changed(self, action: Action) -> str | None:
        """What is otherwise than when the action was planned."""
        if self._is(action, action.before or {}):
            return None
        return f"changed since the plan: {action.target}"

    def perform(self, action: Action) -> int | None:
        """Write a quota, or the order."""
        if action.kind == "pause":
            self._set_quota(action.after)
        else:
            lines = _Lines(Path(action.after["file"]))
            lines.write(lines.moved((action.before or {})["places"]))
        return None

    def _set_quota(self, values: Mapping[str, Any]) -> None:
        if self._admin is not None:
            self._admin.set_quota(values["annotator"], int(values["max_instances"]))

    def settle(self, entry: JournalEntry) -> tuple[WriteState, int | None]:
        """Whether a write of which the end is unknown was done."""
        return ("done" if self._is(entry.action, entry.action.after) else "void"), None

    def revert(self, entry: JournalEntry) -> str | None:
        """Restore what was, unless it was changed by others since."""
        action, before = entry.action, entry.action.before or {}
        if self._is(action, before):
            return None
        if not self._is(action, action.after):
            return f"{action.target} was changed by a user since; it is left as it is"
        if action.kind == "pause":
            self._set_quota(before)
        else:
            lines = _Lines(Path(action.after["file"]))
            lines.write(lines.moved_back(before["places"]))
        return None


def _pauses(
    quotas: Mapping[str, tuple[int, int]], goals: FeedbackGoals, entries: Sequence[JournalEntry]
) -> Iterator[Action]:
    """No more tasks for excluded raters; those who are excluded no more get them again."""
    for rater, reason in goals.excluded.items():
        most, n_answered = quotas.get(rater, (0, 0))
        if rater in quotas and not 0 <= most <= n_answered:
            before = {"annotator": rater, "max_instances": most}
            after = {"annotator": rater, "max_instances": n_answered}
            target = f"annotator {rater}"
            yield Action("pause", target, reason, before, after, raters=(rater,))
    for entry in entries:
        rater = str(entry.action.after.get("annotator"))
        if entry.action.kind == "pause" and entry.state == "done" and rater not in goals.excluded:
            values = entry.action.after, entry.action.before or {}
            reason = "no longer excluded"
            yield Action(
                "release", f"annotator {rater}", reason, *values,
                entries=(entry.id,), released="pause", raters=(rater,),
            )  # fmt: skip


def ordered_file(config: PotatoConfig) -> Path | str:
    """The data file whose lines are in the order of the tasks; else why there is none."""
    if config.makes_tuples:
        return "the order of the tasks stays: Potato makes its tuples of the data in their order"
    if config.strategy != "fixed_order":
        return f"the order of the tasks stays: assignment_strategy is {config.strategy!r}"
    if len(config.data_files) != 1 or not _has_lines(config.data_files[0]):
        names = ", ".join(one.name for one in config.data_files)
        return f"the order of the tasks stays: it needs one data file of JSON lines, not {names}"
    return config.data_files[0]


def _has_lines(file: Path) -> bool:
    """Whether each task is a line; Potato reads such lines from .json as well."""
    if file.suffix not in (".json", ".jsonl"):
        return False
    with file.open("rb") as stream:
        try:
            return isinstance(msgspec.json.decode(stream.readline()), dict)
        except msgspec.DecodeError:
            return False


class _Lines:
    """The lines of a file in another order, byte for byte."""

    def __init__(self, file: Path) -> None:
        self.file, self.content = file, file.read_bytes()
        # What follows the last line feed is no line, but stays at the end.
        *self._lines, self._rest = self.content.split(b"\n")
        if self._rest.strip():
            self._lines.append(self._rest)
            self._rest = b""
            self._ended = b""
        else:
            self._ended = b"\n"

    def ids(self, key: str) -> list[str]:
        """The id of the task of each line."""
        found = []
        for number, line in enumerate(self._lines, 1):
            try:
                found.append(str(msgspec.json.decode(line)[key]))
            except (msgspec.DecodeError, KeyError, TypeError) as error:
                problem = f"this line is no task with a key {key!r}"
                raise FormatError(problem, str(self.file), number) from error
        return found

    def moved(self, first: Sequence[int]) -> bytes:
        """With these lines at the front."""
        chosen = set(first)
        rest = [line for i, line in enumerate(self._lines) if i not in chosen]
        return self._joined([*(self._lines[i] for i in first), *rest])

    def moved_back(self, first: Sequence[int]) -> bytes:
        """With the lines that `moved` has put to the front where they were."""
        lines = self._lines[len(first) :]
        for place, line in sorted(zip(first, self._lines, strict=False)):
            lines.insert(place, line)
        return self._joined(lines)

    def _joined(self, lines: Sequence[bytes]) -> bytes:
        return b"\n".join(lines) + self._ended + self._rest

    def write(self, content: bytes) -> None:
        """Replace the file at once, with the rights that it has."""
        fd, part = tempfile.mkstemp(prefix=f".{self.file.name}.", dir=self.file.parent)
        with os.fdopen(fd, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        Path(part).chmod(self.file.stat().st_mode & 0o777)
        Path(part).replace(self.file)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
