"""What does not work at present, in a colour and sentences: the same on the page and elsewhere.

The same in numbers: `metrics_text`, in the text format of Prometheus.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

from bbq_plugin.errors import BBQError
from bbq_plugin.live.log import silent
from bbq_plugin.store.sources import iso
from bbq_plugin.text import counted, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from bbq_plugin.live.log import Field
    from bbq_plugin.live.server.service import Service
    from bbq_plugin.store.sources import ServiceFacts, Status


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
    said = plain(str(error))
    return said if isinstance(error, (BBQError, OSError)) else f"{type(error).__name__}: {said}"


class HealthSentence(msgspec.Struct, frozen=True):
    """One thing that is to be known, with what to do about it in the same line."""

    colour: Colour
    text: str
    #: When it began, in seconds since 1970.
    since: float | None = None

    def __str__(self) -> str:
        return self.text if self.since is None else f"{self.text} (since {iso(self.since)})"


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
