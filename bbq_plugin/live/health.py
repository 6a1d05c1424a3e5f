"""What does not work at present, in a colour and sentences; and alerts about it.

The same in numbers: `metrics_text`, in the text format of Prometheus.

Alerts: an address or a command hears of what a lead should not miss.

Health turns red, a rater is newly excluded, a camp appears, the leader is settled. Each of these is
a cause, in each study; it is told at once, and at most once an hour: what comes meanwhile is told
together when the hour is over. What was told, and what waits, is in the store: a restart loses and
repeats nothing.
"""

from __future__ import annotations

import shlex
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import msgspec

from bbq_plugin.config import ALERTS, AlertKind
from bbq_plugin.data.mappings import UnclearError, spelled
from bbq_plugin.errors import BBQError, RemoteError, UsageError
from bbq_plugin.live.job_runner import Job, Next
from bbq_plugin.live.log import silent
from bbq_plugin.store.sources_and_status import ALERTS_NOTE, iso
from bbq_plugin.text import counted, listed, moment, plain

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from bbq_plugin.analysis import Analysis
    from bbq_plugin.config import AlertSettings
    from bbq_plugin.live.log import Field
    from bbq_plugin.live.server.service import Service
    from bbq_plugin.store import Store
    from bbq_plugin.store.sources_and_status import ServiceFacts, Status


Colour = Literal["green", "amber", "red"]
_SEVERITY: dict[Colour, int] = {"green": 0, "amber": 1, "red": 2}

# Events that wait longer than this mean that the service does not keep up.
_LATE_S = 60.0
_SHOWN = 3

#: What a problem is called, and how bad it is.
_PROBLEMS: dict[str, tuple[Colour, str]] = {
    "server": ("red", "Label Studio does not answer"),
    "pull": ("red", "Reconcile fails"),
    "events": ("red", "Events wait and cannot be read into the store"),
    "fit": ("red", "The fit fails, and the last one is shown"),
    "weights": ("amber", "Some answers are left out"),
    "feedback": ("amber", "Feedback fails"),
    "plan": ("amber", "The feedback plan fails"),
    "outlook": ("amber", "When to stop cannot be computed"),
    "history": ("amber", "The history cannot be computed"),
    "slices": ("amber", "Slices cannot be computed"),
    "names": ("amber", "The names of raters are not known"),
    "alerts": ("amber", "Alerts are not delivered"),
    "store": ("red", "The store cannot be written"),
    "results": ("red", "The results cannot be written"),
    "folder": ("red", "The watched folder cannot be read"),
}


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that does not work at present."""

    what: str
    reason: str
    #: When it began, in seconds since 1970.
    since: float
    remedy: str | None = None


class Problems:
    """The current problems; each is logged when it begins or changes, and when it is over.

    The events are WHAT_failed and WHAT_recovered, unless others are named.
    """

    def __init__(
        self, log: Callable[..., None] = silent, clock: Callable[[], float] = time.time
    ) -> None:
        self.log = log
        self._clock = clock
        self._lock = threading.Lock()
        self._current: dict[str, tuple[Problem, dict[str, Field]]] = {}
        #: How often each was reported since the start.
        self.n_failures: Counter[str] = Counter()
        #: Called after one has begun, changed or ended.
        self.on_change: Callable[[], None] = lambda: None

    def report(
        self,
        what: str,
        error: Exception | str,
        *,
        event: str | None = None,
        remedy: str | None = None,
        **fields: Field,
    ) -> None:
        """Something failed, perhaps again; `fields` are logged with it."""
        reason = error if isinstance(error, str) else reason_of(error)
        remedy = remedy or getattr(error, "remedy", None)
        with self._lock:
            known = self._current.get(what)
            since = self._clock() if known is None else known[0].since
            found = Problem(what, reason, since, remedy), fields
            self._current[what] = found
            self.n_failures[what] += 1
        if known != found:
            self.log(event or f"{what}_failed", reason=reason, **fields)
            self.on_change()

    def over(self, what: str, *, event: str | None = None, **fields: Field) -> None:
        """It works; the end of a problem is logged if there was one."""
        with self._lock:
            known = self._current.pop(what, None)
        if known is not None:
            self.log(event or f"{what}_recovered", **fields)
            self.on_change()

    def __contains__(self, what: str) -> bool:
        return what in self._current

    def __iter__(self) -> Iterator[Problem]:
        """Oldest first."""
        with self._lock:
            found = [problem for problem, _ in self._current.values()]
        return iter(sorted(found, key=lambda problem: problem.since))


def reason_of(error: Exception) -> str:
    """An error in one line: messages meant for people as they are, others with their kind."""
    if isinstance(error, UnclearError) and error.readings:
        # What mends it is typed where the program is started, not in Python.
        options = error.readings[0].options.items()
        words = shlex.join([w for name, one in options for w in ("-O", f"{name}={spelled(one)}")])
        return plain(f"{error.file}: {error.problem}; if it is meant so, start again with {words}")
    said = plain(str(error))
    return said if isinstance(error, (BBQError, OSError)) else f"{type(error).__name__}: {said}"


class HealthSentence(msgspec.Struct, frozen=True):
    """One thing that is to be known, with what to do about it in the same line."""

    colour: Colour
    text: str
    #: When it began, in seconds since 1970.
    since: float | None = None

    def __str__(self) -> str:
        if self.since is None:
            return self.text
        return f"{self.text} (since {moment(self.since)})"


class Health(msgspec.Struct, frozen=True):
    """A service at one moment."""

    sentences: tuple[HealthSentence, ...] = ()
    #: When a pull last went through, and when events last came, in seconds since 1970.
    last_pull: float | None = None
    last_event: float | None = None
    #: Events that wait to be read, those that were refused, and the age of the oldest waiting.
    n_waiting: int = 0
    n_held: int = 0
    lag_s: float = 0.0

    @property
    def colour(self) -> Colour:
        """The worst of the sentences."""
        found = (one.colour for one in self.sentences)
        return max(found, key=_SEVERITY.__getitem__, default="green")

    @property
    def lines(self) -> list[str]:
        """What is to be said, the worst first."""
        said = [str(one) for one in sorted(self.sentences, key=lambda one: -_SEVERITY[one.colour])]
        return said or ["All is working"]

    def document(self) -> dict[str, object]:
        """All of it as JSON."""
        times = {"last_pull": self.last_pull, "last_event": self.last_event}
        return {
            "colour": self.colour,
            "sentences": self.lines,
            **{name: None if at is None else iso(at) for name, at in times.items()},
            "n_waiting": self.n_waiting,
            "n_held": self.n_held,
            "lag_s": round(self.lag_s, 3),
        }


def health_of(facts: ServiceFacts, told: Iterable[HealthSentence], now: float) -> Health:
    """How a service does, by what it tells itself and by its store."""
    sentences = list(told)
    lag_s = 0.0 if facts.oldest is None else max(0.0, now - facts.oldest)
    if lag_s > _LATE_S:
        waiting = counted(facts.n_waiting, "event")
        text = f"{waiting} wait to be read, the oldest for {lag_s:.0f} s"
        sentences.append(HealthSentence("amber", text))
    for reason, n in facts.held[:_SHOWN]:
        text = f"{counted(n, 'event')} held because {plain(reason)}"
        sentences.append(HealthSentence("amber", text))
    for reason, n in facts.unread[:_SHOWN]:
        text = f"{counted(n, 'answer')} held because of {plain(reason)}"
        sentences.append(HealthSentence("amber", text))
    if facts.n_refused:
        text = (
            f"{facts.n_refused:,} of {counted(facts.n_sources, 'source')} refused; bbq status says "
            "why"
        )
        sentences.append(HealthSentence("amber", text))
    return Health(
        tuple(sentences), facts.last_pull, facts.last_event, facts.n_waiting,
        sum(n for _, n in facts.held), lag_s,
    )  # fmt: skip


def told_by(problems: Iterable[Problem], advice: str | None = None) -> list[HealthSentence]:
    """What a service itself tells; `advice` is what is not set up yet, and the command to type."""
    found = [_sentence(problem) for problem in problems]
    return found if advice is None else [*found, HealthSentence("amber", advice)]


def stored_health(status: Status, now: float) -> Health:
    """How the service does that writes a store, by the store alone."""
    note = status.facts.told if status.writer is not None else None
    told = msgspec.json.decode(note, type=list[HealthSentence]) if note else []
    return health_of(status.facts, told, now)


def _sentence(problem: Problem) -> HealthSentence:
    kind = problem.what.partition(" ")[0]
    colour, what = _PROBLEMS.get(kind, ("amber", f"{problem.what} fails"))
    remedy = f"; {plain(problem.remedy)}" if problem.remedy else ""
    return HealthSentence(colour, f"{what}: {plain(problem.reason)}{remedy}", problem.since)


METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_COLOURS = {"green": 0, "amber": 1, "red": 2}

Samples = list[tuple[dict[str, str], float]]


def metrics_text(service: Service) -> str:
    """All metrics of this moment; what is not known yet is left out."""
    health, worker, store = service.health(), service.worker, service.engine.store
    found: dict[str, tuple[str, str, Samples]] = {
        "bbq_answers": (
            "gauge", "Comparisons in each study.",
            [({"study": one.name}, one.n_comparisons) for one in store.studies()],
        ),
        "bbq_events_received_total": (
            "counter", "Events since the start, by action.",
            _labelled("action", service.webhook.n_received),
        ),
        "bbq_events_refused_total": (
            "counter", "Requests without the secret since the start.",
            [({}, service.webhook.n_refused)],
        ),
        "bbq_events_waiting": ("gauge", "Events on disk, not read yet.", [({}, health.n_waiting)]),
        "bbq_events_held": ("gauge", "Events kept because they cannot be read.",
                            [({}, health.n_held)]),
        "bbq_event_lag_seconds": ("gauge", "Age of the oldest waiting event.",
                                  [({}, health.lag_s)]),
        "bbq_last_event_timestamp_seconds": ("gauge", "When events were last read.",
                                             _known(health.last_event)),
        "bbq_last_pull_timestamp_seconds": ("gauge", "When a pull last went through.",
                                            _known(health.last_pull)),
        "bbq_fit_seconds": ("gauge", "How long the last fit took.", _known(worker.fit_s)),
        "bbq_failures_total": (
            "counter", "Failures since the start, by what failed.",
            _labelled("what", service.problems.n_failures),
        ),
        "bbq_problem": (
            "gauge", "1 for each thing that does not work now.",
            [({"what": one.what}, 1) for one in service.problems],
        ),
        "bbq_health": ("gauge", "0 green, 1 amber, 2 red.", [({}, _COLOURS[health.colour])]),
    }  # fmt: skip
    return "".join(_lines(name, *metric) for name, metric in found.items())


def _known(value: float | None) -> Samples:
    return [] if value is None else [({}, value)]


def _labelled(label: str, counts: Mapping[str, int]) -> Samples:
    return [({label: name}, n) for name, n in sorted(counts.items())]


def _lines(name: str, kind: str, text: str, samples: Iterable[tuple[dict[str, str], float]]) -> str:
    lines = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        told = ",".join(f'{label}="{_escaped(one)}"' for label, one in labels.items())
        lines.append(f"{name}{{{told}}} {value:.15g}" if told else f"{name} {value:.15g}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


SCHEMA = "bbq.alert/1"
VARIABLE = "BBQ_ALERT_URL"
EVERY_S = 3600.0
# An alert that could not be sent is tried again after this long.
_RETRY_S = 60.0
_SEND_S = 10.0
_COMMAND_S = 60.0
_LONGEST_URL = 4096
_NAMED = 20

#: Sends one alert, as JSON; BBQError if it did not arrive.
Send = Callable[[bytes], None]


class _Alert(msgspec.Struct, frozen=True):
    """An alert that waits for its turn."""

    kind: AlertKind
    study: str | None
    at: float
    text: str = ""
    raters: tuple[str, ...] = ()
    more: dict[str, Any] = {}

    def document(self) -> dict[str, Any]:
        text = self.text
        if self.raters:
            names = listed(map(plain, self.raters), _NAMED)
            who = counted(len(self.raters), "rater")
            text = f"{who} newly excluded: {names}"
        where = "" if self.study is None else f"study {plain(self.study)}: "
        return {
            "schema": SCHEMA, "at": iso(self.at), "cause": self.kind, "study": self.study,
            "text": f"bbq: {where}{text}", **self.more,
            **({"raters": self.raters} if self.raters else {}),
        }  # fmt: skip


class _AlertMemory(msgspec.Struct):
    """What is to be known after a restart."""

    pending: dict[str, _Alert] = {}
    is_red: bool = False
    #: When each cause was last told, in seconds since 1970.
    sent: dict[str, float] = {}
    #: Of each study: how many camps there were, and which item was settled.
    camps: dict[str, int] = {}
    best: dict[str, str] = {}


class Alerts:
    """Notices what is to be told, and tells it in the background."""

    def __init__(
        self,
        send: Send,
        store: Store,
        problems: Problems,
        kinds: Collection[AlertKind] = ALERTS,
        *,
        every_s: float = EVERY_S,
    ) -> None:
        self._send, self._store, self._problems = send, store, problems
        self.kinds, self._every_s = frozenset(kinds), every_s
        self._lock = threading.Lock()
        kept = store.note(ALERTS_NOTE)
        self._memory = msgspec.json.decode(kept, type=_AlertMemory) if kept else _AlertMemory()
        self._excluded: dict[int, frozenset[str]] = {}
        self.job = Job("alerts", self._work, self._failed)

    # -- what happens

    def health(self, health: Health) -> None:
        """Take over how the service does now."""
        is_red = health.colour == "red"
        with self._lock:
            turned = is_red != self._memory.is_red
            self._memory.is_red = is_red
            if not is_red:
                # Over before its turn came.
                self._memory.pending.pop("red", None)
        if turned and not is_red:
            self._keep()
        elif turned:
            reasons = [str(one) for one in health.sentences if one.colour == "red"]
            text = f"health is red. {'. '.join(reasons)}"
            self._add(_Alert("red", None, self._store.clock(), text))

    def analysed(self, study: int, name: str, analysis: Analysis) -> None:
        """Take over an analysis that has its verdicts."""
        self._judged(study, name, analysis)
        n = len(analysis.fit.camps)
        before = self._memory.camps.get(str(study), 1)
        if n != before:
            self._memory.camps[str(study)] = n
            self._keep()
        if n > before:
            from bbq_plugin.live.engine import panel_text  # noqa: PLC0415 (a model)

            text, more = plain(panel_text(analysis.fit)), {"camps": n}
            self._add(_Alert("camps", name, analysis.at, text, more=more))

    def _judged(self, study: int, name: str, analysis: Analysis) -> None:
        if not analysis.judged:
            return
        now = frozenset(analysis.raters.excluded_by_model)
        before = analysis.previously_excluded | self._excluded.get(study, frozenset())
        self._excluded[study] = now
        new = tuple(sorted(now - before))
        if new:
            self._add(_Alert("excluded", name, analysis.at, "raters are newly excluded", new))

    def settled(self, study: int, name: str, best: str | None, at: float) -> None:
        """Take over which item is significantly the best under continuous monitoring, if any is."""
        before = self._memory.best.get(str(study))
        if best is None or best == before:
            return
        self._memory.best[str(study)] = best
        self._keep()
        text = f"the leader is settled: {plain(best)} is significantly the best"
        self._add(_Alert("settled", name, at, text, more={"item": best}))

    def _add(self, new: _Alert) -> None:
        if new.kind not in self.kinds:
            return
        cause = new.kind if new.study is None else f"{new.kind} {new.study}"
        with self._lock:
            waiting = self._memory.pending.get(cause)
            if waiting is not None and new.raters:
                raters = tuple(dict.fromkeys((*waiting.raters, *new.raters)))
                new = msgspec.structs.replace(new, raters=raters)
            self._memory.pending[cause] = new
        self._keep()
        self.job.wake()

    # -- telling it

    def _work(self) -> Next:
        while (due := self._due()) is not None:
            cause, one = due
            self._send(msgspec.json.encode(one.document()))
            with self._lock:
                if self._memory.pending.get(cause) is one:
                    del self._memory.pending[cause]
                self._memory.sent[cause] = self._store.clock()
            self._keep()
        self._problems.over("alerts")
        return Next(again_s=self._until_next_s())

    def _due(self) -> tuple[str, _Alert] | None:
        with self._lock:
            due = (pair for pair in self._memory.pending.items() if self._wait_s(pair[0]) <= 0)
            return next(due, None)

    def _until_next_s(self) -> float | None:
        with self._lock:
            return min(map(self._wait_s, self._memory.pending), default=None)

    def _wait_s(self, cause: str) -> float:
        """How long a cause has to wait; a clock that was set back holds nothing up for longer."""
        sent = self._memory.sent.get(cause)
        if sent is None:
            return 0.0
        return min(self._every_s, sent + self._every_s - self._store.clock())

    def _failed(self, error: Exception) -> Next:
        self._problems.report("alerts", error, retry_s=_RETRY_S)
        return Next(_RETRY_S, 0.0)

    def _keep(self) -> None:
        with self._lock:
            kept = msgspec.json.encode(self._memory).decode()
        # A store that cannot be written may be what the alert is about.
        with suppress(BBQError):
            self._store.keep_note(ALERTS_NOTE, kept)


def sender(settings: AlertSettings, environment: Mapping[str, str]) -> Send | None:
    """How alerts are sent, by the settings; None if they are not."""
    url, command = _url(settings, environment), settings.alert_command
    words: list[str] = []
    if command is not None:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"alert_command is {command!r}: {error}; mend the quotes") from None
    if url is None and not words:
        return None

    def send(body: bytes) -> None:
        if url is not None:
            _post(url, body)
        if words:
            _run(words, body)

    return send


def _url(settings: AlertSettings, environment: Mapping[str, str]) -> str | None:
    """The address, which is a secret by itself: from a file or the environment."""
    file = settings.alert_url_file
    if file is not None:
        try:
            found = file.read_bytes()[:_LONGEST_URL].decode("ascii", "replace").strip()
        except OSError as error:
            raise UsageError(f"{file}: the address cannot be read ({error.strerror})") from error
        where = str(file)
    else:
        found, where = environment.get(VARIABLE, "").strip(), VARIABLE
        if not found:
            return None
    parts = urlsplit(found)
    if parts.scheme not in ("http", "https") or not parts.hostname or not found.isascii():
        raise UsageError(f"{where}: expected an address such as https://example.org/hook")
    return found


def _post(url: str, body: bytes) -> None:
    from bbq_plugin.live.tool_connection import NoRedirect  # noqa: PLC0415 (only if wanted)

    # The address is not named in messages: it may hold a secret.
    host = urlsplit(url).hostname
    request = urllib.request.Request(  # noqa: S310 (checked)
        url, body, {"Content-Type": "application/json", "User-Agent": "bbq"}
    )
    try:
        with urllib.request.build_opener(NoRedirect()).open(request, timeout=_SEND_S) as answer:
            answer.read(1 << 16)
    except urllib.error.HTTPError as error:
        raise RemoteError(
            f"the alert was refused by {host} with {error.code}; check the address", error.code
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise RemoteError(f"the alert did not reach {host} ({reason})") from None


def _run(words: list[str], body: bytes) -> None:
    """Run the command, without a shell; the alert is on its standard input."""
    try:
        done = subprocess.run(  # noqa: S603 (what the user has set)
            words, input=body, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
            timeout=_COMMAND_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise BBQError(f"the alert command {words[0]!r} took over {_COMMAND_S:g} s") from None
    except OSError as error:
        raise BBQError(
            f"the alert command {words[0]!r} cannot be run ({error.strerror}); check alert_command"
        ) from None
    if done.returncode:
        said = (done.stderr.decode("utf-8", "replace").strip().splitlines() or [""])[-1]
        raise BBQError(
            f"the alert command {words[0]!r} ended with {done.returncode}: {plain(said)[:200]}"
        )
