"""How a service does in numbers, in the text format of Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bbq_plugin.live.server.serve_session import Service

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
