"""Feedback for a Potato project: which tasks come first, and which annotators get no more.

The order is that of the lines of the data file, which Potato reads when it starts. The quota of an
annotator is set through the running server. Both are undone to what they were.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bbq_adapters.potato.project import PotatoAdapter, QuestionReader, config_in, question_reader
from bbq_plugin.data.records import Action, FeedbackPlan
from bbq_plugin.errors import FormatError, RemoteError, UsageError
from bbq_plugin.protocols import TaskPage
from bbq_plugin.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bbq_adapters.potato.project import PotatoConfig
    from bbq_plugin.data.records import JournalEntry, Person, Record, WriteState
    from bbq_plugin.protocols import (
        FeedbackGoals,
        Journal,
        PairTasks,
        ProjectAddress,
        ProjectMemory,
        TaskContent,
    )

_TIMEOUT_S = 60.0


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
        self.url, self._key, self._timeout_s = url.rstrip("/"), key, timeout_s or _TIMEOUT_S

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
