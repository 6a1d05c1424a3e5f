"""A project on a Label Studio server: requests and their faults, answers out, feedback in.

First the client: the SDK behind retries, and errors that say what to do. Then what raters saw in a
task and wrote beside their answers, for a lead who looks at an answer: texts are texts, and
addresses stay the task's own, nothing is fetched from them here. Then the answers, in pages: what
changed since the last time, and what is gone. At the end the writes, each of which is checked right
before, and undone when that is asked for.

Tasks come in the order of their ids, each page asks for ids above the last one: nothing is lost
or read twice when others work meanwhile, and a pull that was interrupted goes on from its last
page. A task's `updated_at` moves with every answer that is made, changed or deleted in it, so only
tasks that changed are asked for. Deleted tasks are on no page: after each pull the numbers of tasks
and answers on both sides are compared, and where they differ, or where events have told of tasks
that were on no page, the ids and counts of all tasks are gone through.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from bbq_adapters.label_studio.answers import (
    TaskReading,
    epoch,
    identifier,
    key_of,
    task_of_api,
    without_address,
)
from bbq_adapters.label_studio.comparison_control import (
    Question,
    asked_questions,
    checked,
    comparing_controls,
    described,
    find_questions,
    kept_questions,
    meaning,
    problem_text,
    questions_of_kept,
)
from bbq_adapters.label_studio.ml_backend import is_own_version
from bbq_adapters.label_studio.push_plan import (
    OUR_VERSIONS,
    ServerAnswer,
    ServerState,
    ServerTask,
    import_tasks,
    planned,
)
from bbq_adapters.label_studio.store_keys import answer_key, task_ref
from bbq_adapters.label_studio.webhook_events import EVENT_PATHS
from bbq_adapters.labels_and_item_names import Listed, entries, families, identity
from bbq_adapters.row_values import lookup
from bbq_plugin.data.records import UNREAD, Note, Person, Skipped, TaskState, row_counts
from bbq_plugin.errors import RemoteError, UnsupportedError, UsageError
from bbq_plugin.protocols import ShownField, ShownSide, TaskContent, TaskPage
from bbq_plugin.text import counted

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import httpx
    from label_studio_sdk import LabelStudio as Sdk

    from bbq_adapters.label_studio.answers import ExportedTask
    from bbq_adapters.label_studio.comparison_control import LabelStudioOptions, Question
    from bbq_plugin.data.records import (
        Action,
        FeedbackPlan,
        JournalEntry,
        Record,
        TaskRef,
        WriteState,
    )
    from bbq_plugin.errors import FormatError
    from bbq_plugin.protocols import (
        FeedbackGoals,
        Journal,
        ProjectAddress,
        ProjectMemory,
        TaskContent,
        TaskPage,
    )

    Values = dict[str, Any]


_T = TypeVar("_T")
#: How long one request may take, how often it is tried, and the first wait in between.
TIMEOUT_S = 60.0
TRIES = 5
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
# Answers that another try may change.
_AGAIN = frozenset((408, 425, 429, 500, 502, 503, 504))
# Those of them after which a write has certainly not been done.
_NOT_DONE = frozenset((408, 425, 429, 503))
# What the SDK raises for an answer that it cannot read.
_UNREAD = (ValueError, TypeError, AttributeError)
_SHOWN = 200


class Client:
    """One server, as one user. The SDK is imported and built when it is first needed."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout_s: float = TIMEOUT_S,
        tries: int = TRIES,
        sleep: Callable[[float], None] = time.sleep,
        notice: Callable[[str], None] | None = None,
    ) -> None:
        self.url = checked_url(url)
        self._token = checked_token(token)
        self._timeout_s, self._tries, self._sleep = timeout_s, tries, sleep
        self._notice = notice or (lambda _: None)
        self._sdk: Sdk | None = None
        self._http: httpx.Client | None = None
        self._worked = False

    def call(
        self,
        what: str,
        request: Callable[[Sdk], _T],
        *,
        missing: str | None = None,
        creates: bool = False,
    ) -> _T:
        """Do one request, again after a pause if that may help.

        `what` and `missing` (for 404) are for messages. A request that `creates` something is
        not repeated where the first one may have been done.
        """
        renewed = False
        for turn in range(1, self._tries + 1):
            try:
                answer = request(self._client())
            except Exception as error:  # noqa: BLE001 (the SDK lets everything through)
                failure = _Failure(error, self.url, what, missing)
            else:
                self._worked = True
                return answer
            last = turn == self._tries
            if failure.status == 401 and self._worked and not (renewed or last):
                # A token of five minutes may run out on the way; a new client gets another.
                renewed = True
                self.close()
                continue
            if last or not failure.again(creates=creates):
                raise failure.explained(turn) from failure.error
            wait_s = failure.wait_s(turn)
            self._notice(f"{failure.brief()}; trying again in {wait_s:.0f} s")
            self._sleep(wait_s)
        raise AssertionError  # the last turn returns or raises

    def delete(self, what: str, request: Callable[[Sdk], Any]) -> None:
        """Remove something; it is gone as well if only the answer to an earlier try was lost."""
        tries = 0

        def counted(sdk: Sdk) -> Any:
            nonlocal tries
            tries += 1
            return request(sdk)

        try:
            self.call(what, counted)
        except RemoteError as error:
            if error.status != 404 or tries == 1:
                raise

    def close(self) -> None:
        """Close the connections; the next call opens others."""
        if self._http is not None:
            self._http.close()
        self._http = self._sdk = None

    def _client(self) -> Sdk:
        if self._sdk is None:
            try:
                import httpx  # noqa: PLC0415
                from label_studio_sdk import LabelStudio as Sdk  # noqa: PLC0415 (half a second, 100 MB)
            except ImportError as error:
                raise UnsupportedError(
                    "Label Studio's server is reached through label-studio-sdk, which is not "
                    "installed; pip install 'bbq-plugin[label-studio]'"
                ) from error
            self._http = httpx.Client(
                timeout=self._timeout_s,
                follow_redirects=True,
                # Called for every request, that of a redirect included, before it is sent.
                event_hooks={"request": [self._check_origin]},
            )
            # With the slash at the end the SDK also finds the tokens of a server below a path.
            self._sdk = Sdk(  # type: ignore[no-untyped-call]
                base_url=self.url + "/",
                api_key=self._token,
                timeout=self._timeout_s,
                max_retries=0,
                httpx_client=self._http,
            )
        return self._sdk

    def _check_origin(self, request: httpx.Request) -> None:
        """Let no request, and so no token, go anywhere else: whatever a redirect says."""
        asked, own = _origin(str(request.url)), _origin(self.url)
        if asked != own:
            raise RemoteError(
                f"{self.url}: the server redirects to {asked}, which gets no token from here; if "
                f"that is where Label Studio is, give its address there (--url {asked}/…)"
            )


def _origin(url: str) -> str:
    """Scheme, host and port of an address."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{port}"


def checked_url(url: str) -> str:
    """The address of the server, without a slash at its end."""
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"the address of Label Studio is {url!r}; expected one such as http://127.0.0.1:8080"
        )
    if parts.username or parts.password:
        raise UsageError(
            "the address of Label Studio holds a password; give a token in LABEL_STUDIO_API_KEY "
            "instead"
        )
    if parts.query or parts.fragment or "/projects" in parts.path:
        raise UsageError(
            f"the address of Label Studio is {url!r}, which is one of its pages; give the address "
            f"of the server, such as {parts.scheme}://{parts.netloc}"
        )
    return url.strip().rstrip("/")


def checked_token(token: str) -> str:
    """A token without the line's end that a file puts behind it."""
    token = token.strip()
    if not token or not token.isascii() or any(map(str.isspace, token)):
        raise UsageError(
            "the token of Label Studio is empty or has blanks in it; copy it from "
            "Account & Settings as a whole"
        )
    return token


class _Failure:
    """A request that failed: what it was, whether to try again, what to tell the user."""

    def __init__(self, error: Exception, url: str, what: str, missing: str | None) -> None:
        if isinstance(error, (UnsupportedError, UsageError)):
            raise error
        import httpx  # noqa: PLC0415 (the SDK brings it)
        from label_studio_sdk.core.api_error import ApiError  # noqa: PLC0415
        from pydantic import ValidationError  # noqa: PLC0415 (so does it)

        self.error, self.url, self.what, self.missing = error, url, what, missing
        self.status: int | None = None
        self.body: Any = None
        self.headers: Mapping[str, str] = {}
        if isinstance(error, ApiError):
            self.status, self.body = error.status_code, error.body
            self.headers = {key.lower(): value for key, value in (error.headers or {}).items()}
        elif not isinstance(error, (httpx.TransportError, httpx.DecodingError, *_UNREAD)):
            raise error
        self.late = isinstance(error, httpx.TimeoutException)
        self.unreached = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
        #: JSON, but not of the shape that the SDK knows. A pydantic error is a ValueError.
        self.odd = isinstance(error, (ValidationError, TypeError, AttributeError))
        self.no_json = (isinstance(error, ValueError) and not self.odd) or (
            isinstance(self.body, str) and (self.status or 0) < 400
        )

    def again(self, *, creates: bool) -> bool:
        if self.no_json or self.odd:
            return False
        if creates:
            return self.unreached or self.status in _NOT_DONE
        return self.status is None or self.status in _AGAIN

    def wait_s(self, turn: int) -> float:
        said = self.headers.get("retry-after", "")
        if said.strip().isdigit():
            return min(float(said), LONGEST_WAIT_S)
        return float(min(FIRST_WAIT_S * 2 ** (turn - 1), LONGEST_WAIT_S))

    def brief(self) -> str:
        if self.late:
            return "Label Studio did not answer in time"
        if self.status is None:
            return "Label Studio cannot be reached"
        return f"Label Studio answered {self.status}"

    def explained(self, turns: int) -> RemoteError:
        tries = f" ({turns} tries)" if turns > 1 else ""
        status = self.status
        if self.no_json:
            text = (
                "the answer is a web page and not JSON; check that this is the address of Label "
                "Studio itself and not of a login page or a proxy in front of it"
            )
        elif self.odd:
            text = (
                f"label-studio-sdk can make nothing of the answer ({self._first()}); is the server "
                "newer? Try: pip install -U label-studio-sdk"
            )
        elif self.late:
            text = f"no answer in time{tries}; the server may be overloaded, try again later"
        elif status is None:
            reason = str(self.error).strip() or type(self.error).__name__
            text = f"cannot be reached ({reason}){tries}; is it running, and is this its address?"
        elif status in (401, 403):
            text = (
                f"the token is refused ({status}{self._detail()}); make a new one under Account & "
                "Settings, and put it into LABEL_STUDIO_API_KEY or the token file"
            )
        elif status == 404:
            text = (
                f"{self.missing or 'not found'} (404); check the number and the address, and that "
                "the user of the token may see it"
            )
        elif status == 429:
            text = f"too many requests (429){tries}; try again later"
        else:
            text = f"the server answered {status}{self._detail()}{tries}; its own log says more"
        return RemoteError(f"{self.url}: {self.what}: {text}", status)

    def _first(self) -> str:
        """What is wrong with an answer, without its values."""
        errors = getattr(self.error, "errors", None)
        if errors is None:
            return f"{type(self.error).__name__}: {self.error}"[:_SHOWN]
        first = errors(include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:_SHOWN]

    def _detail(self) -> str:
        """What the server says about it, where it is a sentence and no page."""
        said = self.body.get("detail") if isinstance(self.body, dict) else None
        return f": {said[:_SHOWN]}" if isinstance(said, str) and said else ""


def plain(model: Any) -> Any:
    """What the SDK made of an answer, as JSON would have it."""
    if isinstance(model, (dict, list, str, int, float, type(None))):
        return model
    return model.model_dump(mode="json", warnings=False)


def query(filters: list[tuple[str, str, str, Any]], **more: Any) -> str:
    """A question to the Data Manager: (column, operator, type, value), all of which must hold."""
    items = [
        {"filter": f"filter:tasks:{column}", "operator": operator, "type": kind, "value": value}
        for column, operator, kind, value in filters
    ]
    asked = {"filters": {"conjunction": "and", "items": items}, "ordering": ["tasks:id"], **more}
    return json.dumps(asked)


#: Characters of one text; the page has a link to all of it.
LONGEST_TEXT = 20_000
# A key of the task's data in a labelling configuration: value="$answer1".
_VARIABLE = re.compile(r"\$([A-Za-z_][\w.-]*)")
# Where a server keeps uploads and leads to files of a storage, for users who have logged in.
_OWN_PATHS = ("/data/", "/tasks/", "/storage-data/", "/api/")
_LONGEST_ADDRESS = 4_000


def task_content(
    task: Mapping[str, Any],
    *,
    server: str,
    project: int,
    config: str,
    parsed: Any,
    question: Question | None,
) -> TaskContent:
    """The prompt, what was compared, and the reasons, by the keys that the configuration shows."""
    data = task.get("data") or {}
    shown = list(dict.fromkeys(key.rstrip(".-") for key in _VARIABLE.findall(config)))
    shown = [key for key in shown if lookup(data, key) is not None] or list(data)
    source = question.source if question else None
    if isinstance(source, Listed) and isinstance(lookup(data, source.key), list):
        names = source.by_identity(data)
        sides = [
            ShownSide(names.get(own) or own, tuple(_fields_of(entry, server)))
            for entry in entries(lookup(data, source.key))
            if (own := identity(entry)) is not None
        ]
        of_sides = {source.key}
    else:
        items = list((source.names(data) if source else None) or ("", ""))
        groups = _side_keys(shown, parsed, question, len(items))
        sides = [
            ShownSide(item, tuple(_field(key, lookup(data, key), server) for key in keys))
            for item, keys in zip(items, zip(*groups, strict=True), strict=True)
        ] if groups else []  # fmt: skip
        of_sides = {key for group in groups for key in group}
    prompt = tuple(_field(key, lookup(data, key), server) for key in shown if key not in of_sides)
    return TaskContent(prompt, tuple(sides), dict(_reasons(task, project)))


def _side_keys(
    shown: Sequence[str], parsed: Any, question: Question | None, n: int
) -> list[tuple[str, ...]]:
    """The keys that belong to one side each, in the order of the sides."""
    found: list[tuple[str, ...]] = []
    control = (parsed or {}).get(question.controls[0]) if question else None
    if question is not None and question.way == "pairwise" and isinstance(control, dict):
        named = [str(one.get("value") or "") for one in control.get("inputs") or ()]
        if len(named) == n and len(set(named)) == n and set(named) <= set(shown):
            found.append(tuple(named))
    taken = {key for group in found for key in group}
    return found + [
        family for family in families(shown) if len(family) == n and not taken.intersection(family)
    ]


def _fields_of(entry: Any, server: str) -> Iterator[ShownField]:
    """What a list shows of one of its entries."""
    if not isinstance(entry, dict):
        yield _field("", entry, server)
        return
    for key, value in entry.items():
        if key not in ("id", "children", "html") or (key == "html" and "body" not in entry):
            yield _field(str(key), value, server)


def _field(key: str, value: Any, server: str) -> ShownField:
    text = _text(value)
    if len(text) > LONGEST_TEXT:
        text = text[:LONGEST_TEXT] + " …"
    return ShownField(key, text, _address(value, server))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, dict) and "text" in one for one in value):
        # A dialogue, one object for each turn.
        turns = ((one.get("author") or one.get("role"), one["text"]) for one in value)
        return "\n".join(f"{who}: {said}" if who else str(said) for who, said in turns)
    return json.dumps(value, ensure_ascii=False, indent=1)


def _address(value: Any, server: str) -> str | None:
    """Where an image or a sound is: the task's own address, of the web or of the server."""
    if not isinstance(value, str) or len(value) > _LONGEST_ADDRESS or any(map(str.isspace, value)):
        return None
    if value.startswith(("http://", "https://")):
        return value
    return server + value if value.startswith(_OWN_PATHS) else None


def _reasons(task: Mapping[str, Any], project: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What raters wrote into a TextArea, by the key of their answer."""
    for annotation in task.get("annotations") or ():
        own = identifier(annotation.get("id"))
        written = tuple(_written(annotation.get("result") or ()))
        if own is not None and written:
            yield answer_key(str(project), own), written


def _written(results: Iterable[Any]) -> Iterator[str]:
    for result in results:
        if isinstance(result, dict) and result.get("type") == "textarea":
            value = result.get("value")
            said = value.get("text") if isinstance(value, dict) else None
            for text in said if isinstance(said, list) else [said]:
                if isinstance(text, str) and text.strip():
                    yield text.strip()[:LONGEST_TEXT]


PAGE_SIZE = 200
#: Tasks whose ids and counts are compared at once.
SWEEP_SIZE = 2000
# What is asked of a task and, under the same names, of its annotations; the rest is three
# quarters of the bytes.
ANSWERS = (
    "annotations,result,completed_by,was_cancelled,ground_truth,created_at,lead_time,"
    "parent_annotation,parent_prediction"
)
_FIELDS = f"id,project,data,drafts,updated_at,total_annotations,cancelled_annotations,{ANSWERS}"
_COUNTS = "id,updated_at,total_annotations,cancelled_annotations"
# A change may become visible a little after its own time.
_OVERLAP = timedelta(seconds=60)


@dataclass(frozen=True)
class PullState:
    """Where a pull stands; kept with every page."""

    #: Of configuration and options: answers read in another way are read again.
    fingerprint: str
    plan: dict[str, Any] | None = None
    #: The plan under the configuration or the options of before.
    before: dict[str, Any] | None = None
    #: All changes up to this time are in; empty before the first pull has ended.
    since: str = ""
    #: Where the pull under way stands: the last task, and the latest change when it began. What
    #: changes meanwhile, before or behind it, is for the next pull.
    after: int = 0
    began: str = ""


class TaskReader:
    """One project, page by page."""

    def __init__(
        self,
        client: Client,
        project: int,
        info: Mapping[str, Any],
        options: LabelStudioOptions,
        page_size: int,
    ) -> None:
        self.client, self.project, self.options = client, project, options
        self.page_size = page_size
        self.name = f"label-studio project {project}"
        self.parsed = info.get("parsed_label_config")
        self.candidates = comparing_controls(self.parsed, options, self.name)
        self.asked = asked_questions(self.parsed, options)
        self.title = str(info.get("title") or "")
        self.fingerprint = self._fingerprint(info)

    def reads(self, info: Mapping[str, Any]) -> bool:
        """Whether this is the configuration that answers are read by."""
        return self._fingerprint(info) == self.fingerprint

    def _fingerprint(self, info: Mapping[str, Any]) -> str:
        """Changes when answers have to be read in another way."""
        read_by = msgspec.json.encode((str(info.get("label_config")), self.options), order="sorted")
        return sha256(read_by).hexdigest()[:16]

    def questions(self, known: ProjectMemory) -> list[Question]:
        """How the answers are read, if that is known by now."""
        return questions_of_kept(self._kept(known.state).plan)

    def _kept(self, state: Mapping[str, Any]) -> PullState:
        if state.get("fingerprint") != self.fingerprint:
            # All is read again; how it was read before helps where a new label makes it unclear.
            return PullState(self.fingerprint, before=state.get("plan") or state.get("before"))
        return msgspec.convert({k: v for k, v in state.items() if v is not None}, PullState)

    def pages(self, known: ProjectMemory, *, everything: bool = False) -> Iterator[TaskPage]:
        """Everything that changed; the last page says that all is in."""
        state = self._kept(known.state)
        if everything:
            state = PullState(self.fingerprint, before=state.before)
        if not state.began:
            state = replace(state, began=self._latest())
        n_done = 0
        for tasks, n_left in self._changed(state, known):
            page = self._page(tasks, state, known, n_done, n_left)
            yield page
            state, n_done = PullState(**page.state), page.n_done
        state = replace(state, since=max(state.began, state.since), after=0, began="")
        yield TaskPage((), (), asdict(state), n_done, n_done)
        counted = known.n_tasks(), known.n_answers()
        if everything or known.told_tasks() or self._counts() != counted:
            yield from self._sweep(state, known, n_done)

    def _page(
        self,
        tasks: list[dict[str, Any]],
        state: PullState,
        known: ProjectMemory,
        n_done: int,
        n_left: int,
    ) -> TaskPage:
        given = known.cancelled_by_push()
        for task in tasks:
            for annotation in task.get("annotations") or () if given else ():
                if annotation.get("id") in given:
                    annotation["was_cancelled"] = False
        shown = [task_of_api(task, self.name) for task in tasks]
        questions, by_question, rows = self._read(shown, state)
        states = tuple(map(self._task_state, tasks, shown, rows))
        state = replace(state, plan=kept_questions(questions), after=int(tasks[-1]["id"]))
        (first, records), *others = by_question.items()
        return TaskPage(
            records, states, asdict(state), n_done + len(tasks), n_done + n_left,
            question=first, others=dict(others), title=self.title,
        )  # fmt: skip

    def _read(
        self, shown: list[ExportedTask], state: PullState
    ) -> tuple[list[Question], dict[str, list[Record]], list[dict[str, Counter[str]]]]:
        """All questions that are known by now, the records of each that is asked, and their counts.

        The counts are those of each task.
        """
        sample = [task for task in shown if task.is_answered]
        known, before = questions_of_kept(state.plan), questions_of_kept(state.before)
        found = find_questions(
            sample, self.options, self.name, self.asked, self.candidates, known, before
        )
        several = [",".join(chosen) for chosen in self.asked] if len(self.asked) > 1 else []
        names = dict.fromkeys([*several, *(question.name for question in found.known)])
        by_question: dict[str, list[Record]] = {}
        rows: list[dict[str, Counter[str]]] = [{} for _ in shown]
        for name in names or ("",):
            question = found.of(name)
            records = by_question[name] = []
            # Nobody has answered it yet, or it cannot be read.
            why = found.problems.get(name) if question is None and several else None
            reading = TaskReading(question, self.options, self.name, lenient=bool(known or before))
            for task, counts in zip(shown, rows, strict=True):
                said: list[Record] = []
                if question is None and several:
                    said += [] if why is None else _unread(task, name.split(","), why)
                elif task.answers:
                    # A task without an answer is no row that was left out.
                    said += reading.records(task)
                counts[name] = row_counts(said)
                records += said
            if question not in known and not (question is None and several):
                reading.check_names(sample)
        for name, error in found.problems.items():
            by_question[name].append(Note(problem_text(error)))
        return list(found.known), by_question, rows

    def _ref(self, task: Any) -> TaskRef:
        return task_ref(str(self.project), str(task))

    def _task_state(
        self, task: dict[str, Any], shown: ExportedTask, rows: dict[str, Counter[str]]
    ) -> TaskState:
        stamp, total, cancelled = _counts_of(task)
        keys = tuple(key_of(shown, answer) for answer in shown.answers if answer.id is not None)
        at = epoch(stamp) or 0.0
        return TaskState(self._ref(task["id"]), stamp, at, total, cancelled, keys, rows)

    # -- questions to the server

    def _changed(
        self, state: PullState, known: ProjectMemory
    ) -> Iterator[tuple[list[dict[str, Any]], int]]:
        """Whole tasks that changed, in the order of their ids, and how many are left."""
        if state.since:
            since = datetime.fromisoformat(state.since).astimezone(UTC) - _OVERLAP
            stamp = since.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            filters = [("updated_at", "greater", "Datetime", stamp)]
            yield from self._whole(self._differing(known.tasks(), set(), filters, state.after))
        else:
            yield from self.by_id("reading tasks", _FIELDS, self.page_size, state.after, whole=True)

    def by_id(
        self,
        what: str,
        fields: str,
        size: int,
        after: int = 0,
        filters: Sequence[tuple[str, str, str, Any]] = (),
        *,
        whole: bool = False,
    ) -> Iterator[tuple[list[dict[str, Any]], int]]:
        """Tasks in the order of their ids, page by page, and how many are left."""
        while True:
            asked = query([("id", "greater", "Number", after), *filters])
            tasks, n_left = self.listed(what, asked, fields, size, whole=whole)
            if not tasks:
                return
            after = int(tasks[-1]["id"])
            yield tasks, n_left

    def _whole(self, ids: list[int]) -> Iterator[tuple[list[dict[str, Any]], int]]:
        for start in range(0, len(ids), self.page_size):
            some = ids[start : start + self.page_size]
            chosen = query([], selectedItems={"all": False, "included": some})
            tasks, _ = self.listed("reading tasks", chosen, _FIELDS, self.page_size, whole=True)
            if tasks:
                yield tasks, len(ids) - start

    def _differing(
        self,
        before: Mapping[int, tuple[str, int, int]],
        missing: set[int],
        filters: list[tuple[str, str, str, Any]],
        after: int = 0,
    ) -> list[int]:
        """Tasks that are not as they were known; what there is leaves `missing`."""
        differ: list[int] = []
        for tasks, _ in self.by_id("comparing tasks", _COUNTS, SWEEP_SIZE, after, filters):
            for task in tasks:
                missing.discard(int(task["id"]))
                if before.get(int(task["id"])) != _counts_of(task):
                    differ.append(int(task["id"]))
        return differ

    def _latest(self) -> str:
        """When a task last changed, by the server's clock."""
        asked = query([], ordering=["-tasks:updated_at"])
        tasks, _ = self.listed("looking for changes", asked, _COUNTS, 1)
        return str(tasks[0].get("updated_at") or "") if tasks else ""

    def _counts(self) -> tuple[int, int]:
        """How many tasks and answers there are, cancelled answers apart."""
        listed: Any = self.client.call(
            "counting tasks",
            lambda sdk: sdk.tasks.list(project=self.project, page=1, page_size=1, include="id"),
            missing=f"there is no project {self.project}",
        )
        totals = plain(listed.response)
        return int(totals.get("total") or 0), int(totals.get("total_annotations") or 0)

    def _sweep(self, state: PullState, known: ProjectMemory, n_done: int) -> Iterator[TaskPage]:
        """Compare ids and counts of all tasks: read what differs, drop what is gone."""
        # Before the list is asked for: what comes later may be newer than the list.
        last_id = known.last_id()
        before = known.tasks()
        missing = set(before) | known.told_tasks()
        for tasks, n_left in self._whole(self._differing(before, missing, [])):
            page = self._page(tasks, state, known, n_done, n_left)
            # Where to go on is not a matter of these.
            state, n_done = replace(state, plan=page.state["plan"]), page.n_done
            yield replace(page, state=asdict(state))
        if missing:
            gone = tuple(map(self._ref, sorted(missing)))
            yield TaskPage((), (), asdict(state), n_done, n_done, gone, last_id)

    def listed(
        self, what: str, asked: str, fields: str, size: int, *, whole: bool = False
    ) -> tuple[list[dict[str, Any]], int]:
        """Tasks that match, and how many match in all; `whole`: with what hangs on them."""
        found: Any = self.client.call(
            what,
            lambda sdk: sdk.tasks.list(
                project=self.project,
                page=1,
                page_size=size,
                fields="all" if whole else "task_only",
                include=fields,
                query=asked,
                # Links to a cloud storage would be signed one by one, and names of items no more.
                resolve_uri=False,
            ),
            missing=f"there is no project {self.project}",
        )
        tasks = [plain(task) for task in found.items or ()]
        total = plain(found.response).get("total")
        if not isinstance(total, int) or not all("id" in task for task in tasks):
            raise RemoteError(
                f"{self.client.url}: {what}: the answer has an unexpected shape; is this the "
                "address of Label Studio, and of a version that this package knows?"
            )
        return tasks, total


def _unread(task: ExportedTask, controls: Sequence[str], why: FormatError) -> list[Skipped]:
    """The answers to a question that cannot be read; they count as soon as it can be."""
    return [
        Skipped(answer.where, f"{UNREAD}: {why.problem}")
        for answer in task.answers
        if not answer.cancelled and any(answer.of(control) for control in controls)
    ]


def _counts_of(task: Mapping[str, Any]) -> tuple[str, int, int]:
    return (
        str(task.get("updated_at") or ""),
        int(task.get("total_annotations") or 0),
        int(task.get("cancelled_annotations") or 0),
    )


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

    def find(self, url: str) -> int | None:
        """The id of the webhook that sends to an address; None if there is none."""
        own = self._project
        what = "looking for webhooks"
        hooks = map(plain, self._client.call(what, lambda sdk: sdk.webhooks.list(project=str(own))))
        same = (h["id"] for h in hooks if (h.get("url"), h.get("project")) == (url, own))
        return next(map(int, same), None)

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
        own, call = self._project, self._client.call
        try:
            known = self.find(url)
            if known is not None:
                what = "changing the webhook"
                call(what, lambda sdk: sdk.webhooks.update(id=known, **wanted))
                return known, False
            what = "making the webhook"
            made = call(what, lambda sdk: sdk.webhooks.create(project=own, **wanted), creates=True)
        except RemoteError as error:
            if not any(words in str(error) for words in _BLOCKED):
                raise
            raise RemoteError(
                f"{self._client.url}: Label Studio refuses to send events to {url}; {SSRF_REMEDY}"
            ) from error
        return int(plain(made)["id"]), True

    def provoke(self) -> str:
        """Cause an event without changing anything: the project is saved as it is."""
        own, call = self._project, self._client.call
        title = call("looking at the project", lambda sdk: sdk.projects.get(id=own)).title
        call("causing an event", lambda sdk: sdk.projects.update(id=own, title=title))
        return "PROJECT_UPDATED"

    def unsubscribe(self, own: int) -> None:
        """Remove a webhook that was made here."""
        self._client.delete("removing the webhook", lambda sdk: sdk.webhooks.delete(id=own))


# What is looked at of a task to write into it, and of all tasks to plan.
_WRITTEN = f"id,overlap,is_labeled,predictions,model_version,score,{ANSWERS}"
_PLANNED = f"project,data,{_WRITTEN}"
_TASKS_AT_ONCE = 100
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


class CurrentValues:
    """The values of targets, by kind and id.

    What was seen is used once: by the second time it may have been written.
    """

    def __init__(self, reader: TaskReader) -> None:
        self._client, self._project_id, self._listed = reader.client, reader.project, reader.listed
        self._seen: dict[tuple[str, int], Values] = {}
        self._tabs: dict[int, tuple[str, Any]] | None = None
        #: Ids of predictions of ours, by task.
        self._predictions: dict[int, list[int]] = {}

    def look(self, actions: Sequence[Action]) -> None:
        """Ask for all that these are about, and forget what was seen before."""
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
        found, _ = self._listed("looking at tasks", chosen, _WRITTEN, len(tasks), whole=True)
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
                what = "looking for predictions"
                listed = self._client.call(what, lambda sdk: sdk.predictions.list(task=task))
                found = _ours(map(plain, listed))
            return max(found, default=None)
        if action.kind == "pause":
            return max(self._pauses(action.after["rater"]), default=None)
        return None

    def tabs(self) -> dict[int, tuple[str, Any]]:
        """Title and filters of every tab, by id."""
        own = self._project_id
        found = self._client.call("listing tabs", lambda sdk: sdk.views.list(project=own))
        return {
            int(view["id"]): (str(data.get("title") or ""), data.get("filters"))
            for view in map(plain, found)
            for data in [view.get("data") or {}]
        }

    def paused(self, raters: Iterable[str]) -> frozenset[str]:
        """Which of these are paused (Enterprise)."""
        return frozenset(r for r in raters if r.isdigit() and self._pauses(r))

    def _pauses(self, rater: str) -> list[int]:
        listed = self._client.call(
            "listing pauses",
            lambda sdk: sdk.projects.pauses.list(project_pk=self._project_id, user_pk=int(rater)),
        )
        return [int(one["id"]) for one in map(plain, listed) if not one.get("deleted_at")]

    def _project(self) -> Values | None:
        found = self._get(lambda sdk: sdk.projects.get(id=self._project_id))
        # The answer also holds passwords and tokens, which go nowhere.
        return found and {key: str(found.get(key) or "") for key in ("model_version", "sampling")}

    def _get(self, request: Any) -> Values | None:
        try:
            return dict(plain(self._client.call("looking at what was written", request)))
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


# Values that are too long for a message about what has changed.
_OTHER = {"last_answer": "other answers", "filters": "other filters"}


def _tab(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"title": values["title"], "filters": values["filters"]}


class LabelStudio:
    """Label Studio, through its SDK."""

    name = "label-studio"
    by_folder = False
    url_variable = "LABEL_STUDIO_URL"
    token_variable = "LABEL_STUDIO_API_KEY"  # noqa: S105 (the name of it)

    def open(self, at: ProjectAddress) -> LabelStudioProject:
        """Reach a project."""
        client = Client(at.url, at.token, timeout_s=at.timeout_s or TIMEOUT_S, notice=at.notice)
        number, page_size = int(str(at.project)), at.page_size or PAGE_SIZE
        try:
            return LabelStudioProject(client, number, at.options, page_size)
        except BaseException:
            client.close()
            raise

    def people(self, url: str, token: str, timeout_s: float | None = None) -> dict[str, Person]:
        """Names and addresses of all accounts, by their number, and by the hash of an address."""
        client = Client(url, token, timeout_s=timeout_s or TIMEOUT_S)
        try:
            found = client.call("asking for the names of raters", lambda sdk: sdk.users.list())
        finally:
            client.close()
        people: dict[str, Person] = {}
        for user in map(plain, found):
            own, email = identifier(user.get("id")), str(user.get("email") or "")
            parts = (user.get("first_name"), user.get("last_name"))
            person = Person(" ".join(str(part).strip() for part in parts if part), email)
            if own is not None and any(person):
                people[own] = person
            if "@" in email:
                people[str(without_address(email))] = person
        return people

    import_tasks = staticmethod(import_tasks)


class LabelStudioProject:
    """Pages out, feedback in."""

    def __init__(
        self, client: Client, project: int, options: Mapping[str, Any], page_size: int
    ) -> None:
        self.client, self.project = client, project
        self._options = checked(**{**options, "project": project})
        self._page_size = page_size
        self._read_as(self._project())
        self._questions: list[Question] = []
        self._looked = False

    def _read_as(self, info: dict[str, Any]) -> None:
        """Read answers by this configuration."""
        self._info = info
        self._reader = TaskReader(self.client, self.project, info, self._options, self._page_size)
        self._current = CurrentValues(self._reader)

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
        what = described(self._questions, reader.candidates, reader.parsed, looked=self._looked)
        return f"project {self.project} ({self._info['title']!r}): {what}"

    def labels(self) -> dict[str, str | None]:
        """What the labels of its comparison controls mean; None: that is not known."""
        # A choice of several has further places.
        words = {1: "left", 2: "right"} | {n: f"item {n}" for n in range(3, 101)}
        found: dict[str, str | None] = {}
        for name in self._reader.candidates:
            control = (self._reader.parsed or {}).get(name, {})
            if control.get("type") == "Choices":
                for label in map(str, control.get("labels") or ()):
                    told = meaning(label, self._options.labels)
                    found[label] = words[told] if isinstance(told, int) else told
        return found

    def pages(self, known: ProjectMemory, *, everything: bool = False) -> Iterator[TaskPage]:
        """What has changed."""
        self._looked = True
        self._refresh()
        self._questions = self._reader.questions(known)
        for page in self._reader.pages(known, everything=everything):
            self._questions = questions_of_kept(page.state.get("plan"))
            yield page

    def contents(self, tasks: Sequence[int], known: ProjectMemory) -> dict[int, TaskContent]:
        """What these tasks show, and what raters wrote; one request, and nothing is kept."""
        self._refresh()
        questions = self._reader.questions(known)
        chosen = query([], selectedItems={"all": False, "included": list(tasks)})
        found, _ = self._reader.listed(
            "looking at tasks", chosen, f"id,data,{ANSWERS}", len(tasks), whole=True
        )
        about = {
            "server": self.client.url,
            "project": self.project,
            "config": str(self._info["label_config"] or ""),
            "parsed": self._info["parsed_label_config"],
            "question": questions[0] if questions else None,
        }
        return {int(task["id"]): task_content(task, **about) for task in found}

    # -- feedback

    def plan(self, goals: FeedbackGoals, journal: Journal, known: ProjectMemory) -> FeedbackPlan:
        """What to write, from the server's state of this moment."""
        self._refresh()
        info = self._info
        self._questions = self._reader.questions(known)
        entries = journal.entries()
        version = plain(self.client.call("asking for the version", lambda sdk: sdk.versions.get()))
        enterprise = str(version.get("edition") or "").lower() == "enterprise"
        percent = info["overlap_cohort_percentage"]
        now = ServerState(
            tasks=tuple(self._tasks()),
            model_version=str(info["model_version"] or ""),
            sampling=str(info["sampling"] or ""),
            tabs=self._current.tabs(),
            enterprise=enterprise,
            own_model=self._own_model(str(info["model_version"] or "")),
            paused=self._current.paused(goals.excluded) if enterprise else frozenset(),
            overlap=int(info["maximum_annotations"] or 1),
            cohort_percent=100 if percent is None else int(percent),
        )
        return planned(now, goals, entries)

    def _own_model(self, served: str) -> bool:
        """Whether the project serves the predictions of `bbq serve`, connected as a model."""
        if is_own_version(served) or not served:
            return bool(served)
        what = "looking at models"
        found = self.client.call(what, lambda sdk: sdk.ml.list(project=self.project))
        return any(
            one.get("title") == served and is_own_version(one.get("model_version"))
            for one in map(plain, found)
        )

    def _tasks(self) -> Iterator[ServerTask]:
        """All tasks, as they are now."""
        reader = self._reader
        source = self._questions[0].source if self._questions else None
        what = "looking at tasks"
        for tasks, _ in reader.by_id(what, _PLANNED, reader.page_size, whole=True):
            for task in tasks:
                yield _task(task, source, reader.name)

    # -- writing

    def look(self, actions: Sequence[Action]) -> None:
        """One question for all tasks, and one for all tabs."""
        self._current.look(actions)

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
        other = [
            _OTHER.get(key) or f"{key} {now[key]!r} (was {was!r})"
            for key, was in action.before.items()
            if key in now and now[key] != was
        ]
        if not other:
            return None
        return f"changed since the plan: {action.target} has {', '.join(other)}"

    def perform(self, action: Action) -> int | None:
        """Write what is planned; the id of what it made or changed."""
        if action.ref is not None or action.kind not in _CREATE:
            self._update(action, action.after)
            return action.ref
        create, what = _CREATE[action.kind], f"creating {action.target}"
        made = self.client.call(
            what, lambda sdk: create(sdk, self.project, action.after), creates=True
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
        if ref is None and action.kind != "project":
            return "void", None
        now = self._current.now(action, ref or 0)
        keys = _COMPARED[action.kind]
        done = now is not None and all(now[key] == action.after[key] for key in keys)
        return ("done" if done else "void"), ref

    def revert(self, entry: JournalEntry) -> str | None:
        """Restore the values before, unless a user has changed what was written since."""
        action, before = entry.action, entry.action.before
        ref = 0 if action.kind == "project" else action.ref
        if ref is None:
            return None
        now = self._current.now(action, ref)
        if now is None:
            return None if before is None else f"{action.target} no longer exists"
        keys = _COMPARED[action.kind]
        if before is not None and all(now[key] == before[key] for key in keys):
            return None
        if any(now[key] != action.after[key] for key in keys):
            return f"{action.target} was changed by a user since; it is left as it is"
        return self._restore(action, ref, now)

    def _restore(self, action: Action, ref: int, now: Values) -> str | None:
        before, n_answers = action.before, now.get("n_answers", 0)
        if before is None:
            delete, what = _DELETE[action.kind], f"removing {action.target}"
            self.client.delete(what, lambda sdk: delete(sdk, self.project, action.after, ref))
            return None
        if before.get("is_labeled") and n_answers < int(before.get("overlap") or 1):
            # Answers that it had are gone.
            self._update(action, {**before, "is_labeled": False})
            return f"task {ref} has only {counted(n_answers, 'answer')} now; it stays in the queue"
        self._update(action, before)
        return None


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
