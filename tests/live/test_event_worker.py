"""What is done behind the answers to events, so that it does not hold them up."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import bbq_plugin as bbq
from bbq_plugin.data.records import Comparison
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.event_ingest import Worker, event_reader
from bbq_plugin.live.health import Problems
from bbq_plugin.store import event_inbox as inbox_module
from bbq_plugin.store.event_inbox import Inbox, refused_events, retry_refused
from tests.live.server.payloads import body, event
from tests.waiting import HANG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Clock:
    """Every look at it takes a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@contextmanager
def working(**options: Any) -> Iterator[tuple[Worker, Callable[[int, int], None]]]:
    """A worker whose thread is not started, and what sends it events."""
    with Engine(priors="auto") as engine:
        inbox = Inbox(engine.store)
        worker = Worker(engine, event_reader("label-studio"), **options)

        def send(first: int, last: int) -> None:
            for n in range(first, last):
                told = event(
                    n, rater=n % 5, items=(f"m{n % 4}", f"m{4 + n % 3}"),
                    selected="left" if n % 7 else "right",
                )  # fmt: skip
                inbox.put(body(told)).result(HANG_S)
            worker.job.wake()

        try:
            yield worker, send
        finally:
            inbox.close()
            worker.job.stop()


def work_off(worker: Worker) -> None:
    while worker.work():
        pass


def test_the_fit_follows_at_once_and_the_priors_when_it_is_their_turn() -> None:
    clock, fits = Clock(), list[None]()
    with working(clock=clock, on_fit=lambda _: fits.append(None)) as (worker, send):
        engine = worker.engine
        send(1, 41)
        work_off(worker)
        worker.follow()
        before = engine.fit.priors
        send(41, 121)
        work_off(worker)
        worker.follow()
        assert engine.fit.data.n_comparisons == 120
        assert engine.fit.priors == before
        worker.follow()
        assert len(fits) == 2, "nothing is new and nothing is due"
        clock.now += 60.0
        worker.follow()
        assert len(fits) == 3
        assert engine.fit.priors == bbq.fit(engine.data, priors="auto").priors


def test_the_priors_follow_though_no_more_events_come() -> None:
    with working() as (worker, send):
        engine = worker.engine
        worker.start()
        send(1, 41)
        wait_until(lambda: not engine.changed, "a fit of the first events")
        send(41, 121)
        wait_until(
            lambda: (
                engine.store.counts().n_comparisons == 120
                and not engine.changed
                and not engine.outgrown
            ),
            "an estimate of the priors from all events",
        )
        assert engine.fit.priors == bbq.fit(engine.data, priors="auto").priors


def test_events_of_another_project_are_kept_with_the_reason_and_do_not_count() -> None:
    said: list[str] = []
    problems = Problems(lambda event, reason: said.append(f"{event}: {reason}"))
    with working(problems=problems) as (worker, send):
        worker.projects = frozenset({"2"})
        send(0, 3)
        work_off(worker)
        assert worker.engine.store.counts().n_comparisons == 0
        (told,) = said
        assert told.startswith("event_refused: it is of project 1, and --project 2 was given")
        worker.projects = frozenset({"1"})
        assert retry_refused(worker.engine.store) == 3
        work_off(worker)
        assert worker.engine.store.counts().n_comparisons == 3


def test_an_event_without_an_answer_is_the_last_event_as_well() -> None:
    """`bbq connect` causes one: the page must not go on to say that none has come."""
    with working() as (worker, send):
        store = worker.engine.store
        assert store.service_facts().last_event is None
        inbox = Inbox(store)
        inbox.put(body({"action": "PROJECT_UPDATED", "project": {"id": 1}})).result(HANG_S)
        came = store.service_facts().last_event
        assert came is not None
        work_off(worker)
        assert store.service_facts().n_waiting == 0
        assert store.service_facts().last_event == pytest.approx(came, abs=1e-3)  # kept as text
        send(0, 1)
        later = store.service_facts().last_event
        assert later is not None
        assert later > came - 1e-3
        inbox.close()


def test_refused_events_are_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "MOST_REFUSED", 5)
    said: list[tuple[str, dict[str, Any]]] = []
    problems = Problems(lambda event, **fields: said.append((event, fields)))
    with working(problems=problems) as (worker, send):
        worker.projects = frozenset({"2"})
        for turn in range(4):
            send(3 * turn, 3 * turn + 3)
            work_off(worker)
        store = worker.engine.store
        assert sum(one.n for one in refused_events(store)) == 5
        dropped = [fields for event, fields in said if event == "refused_events_dropped"]
        assert sum(fields["n"] for fields in dropped) == 7
        # The newest are kept.
        worker.projects = frozenset({"1"})
        assert retry_refused(store) == 5
        work_off(worker)
        assert store.counts().n_comparisons == 5


def test_who_needs_all_studies_is_told_once_after_the_fits_of_all() -> None:
    told: list[str] = []
    answers = [Comparison(f"{n}", f"r{n % 3}", "a", "bc"[n % 2], "left") for n in range(12)]
    with Engine(priors="auto") as engine:
        engine.add(answers)
        engine.store.add(answers, study=engine.store.study("fluency"))
        worker = Worker(
            engine,
            event_reader("label-studio"),
            on_fit=lambda one: told.append(f"fit {one.study}"),
            on_followed=lambda: told.append("all"),
        )
        worker.follow()
        assert told == ["fit 1", "fit 2", "all"]
        worker.follow()
        assert told == ["fit 1", "fit 2", "all"]
        worker.job.stop()
        worker.engines.close()
