"""The engine: whatever came in whatever order, the fit is that of the answers that count."""

from __future__ import annotations

import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bbq_plugin as bbq
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.records import Comparison
from bbq_plugin.errors import DataError, StoreError, UsageError
from bbq_plugin.live.engine import Engine
from bbq_plugin.store.store import records_of
from tests.model.test_camps import panel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bbq_plugin.model import Fit

PAPER = bbq.Priors()


def answers(n: int = 400, *, items: int = 6, raters: int = 9, seed: int = 0) -> list[Comparison]:
    """Votes of people of differing quality, ties and times among them."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(0, 1, items)
    quality = rng.uniform(0, 1, raters)
    found = []
    for i in range(n):
        a, b = rng.choice(items, 2, replace=False).tolist()
        rater = int(rng.integers(raters))
        informed = rng.random() < quality[rater]
        chance = 1 / (1 + np.exp(theta[b] - theta[a])) if informed else 0.5
        outcome: Any = "tie" if rng.random() < 0.1 else "left" if rng.random() < chance else "right"
        found.append(
            Comparison(f"k{i}", f"rater {rater}", f"item {a}", f"item {b}", outcome, time_s=i / 9)
        )
    return found


def cold(records: list[Comparison], **options: Any) -> Fit:
    return bbq.fit(Comparisons.from_comparisons(records), **options)


def assert_same_fit(found: Fit, expected: Fit, within: float = 1e-6) -> None:
    assert sorted(found.items) == sorted(expected.items)
    assert sorted(found.raters) == sorted(expected.raters)
    theta = dict(zip(found.items, found.theta, strict=True))
    quality = dict(zip(found.raters, found.quality, strict=True))
    for name, value in zip(expected.items, expected.theta, strict=True):
        assert theta[name] == pytest.approx(value, abs=within)
    for name, value in zip(expected.raters, expected.quality, strict=True):
        assert quality[name] == pytest.approx(value, abs=within)


ALL = answers(160)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.integers(0, len(ALL) - 1), max_size=40)),
        st.tuples(st.just("retract"), st.lists(st.integers(0, len(ALL) - 1), max_size=40)),
        st.tuples(st.just("refresh"), st.just([])),
    ),
    min_size=1,
    max_size=10,
)


@settings(deadline=None, max_examples=50)
@given(STEPS)
def test_any_split_order_duplication_and_retraction_ends_at_the_cold_fit(steps: Any) -> None:
    expected: dict[str, Comparison] = {}
    with Engine() as engine:
        for what, rows in steps:
            chosen = [ALL[i] for i in rows]
            if what == "add":
                engine.add(chosen)
                expected |= {record.key: record for record in chosen}
            elif what == "retract":
                engine.retract([record.key for record in chosen])
                for record in chosen:
                    expected.pop(record.key, None)
            elif expected:
                engine.refresh()
        if not expected:
            with pytest.raises(DataError, match="no comparisons"):
                engine.refresh(full=True)
            return
        engine.refresh(full=True)
        assert engine.fit.converged
        assert_same_fit(engine.fit, cold(list(expected.values())))


def test_an_incremental_refresh_is_close_to_the_full_answer() -> None:
    records = answers(4000, raters=60)
    # Under given priors: estimated ones are held until a full refresh.
    with Engine(priors="paper") as engine:
        engine.add(records[:3900])
        engine.refresh()
        engine.add(records[3900:])
        engine.refresh()
        assert_same_fit(engine.fit, cold(records, priors="paper"), within=0.1 / 173.7)


def test_retracting_a_rater_equals_never_having_seen_them() -> None:
    records = answers()
    others = [r for r in records if r.rater != "rater 3"]
    with Engine() as engine:
        engine.add(records)
        engine.refresh()
        engine.retract(r.key for r in records if r.rater == "rater 3")
        engine.refresh(full=True)
        assert "rater 3" not in engine.fit.raters
        assert_same_fit(engine.fit, cold(others))


@pytest.mark.parametrize("model", ["bbq", "bayes-bt", "crowd-bt"])
@pytest.mark.parametrize("priors", [PAPER, "auto", bbq.Priors(1, 0, 10, 2)])
def test_every_model_and_every_prior_ends_at_the_cold_fit(model: Any, priors: Any) -> None:
    records = answers(600)
    options = {} if model == "crowd-bt" else {"priors": priors}
    with Engine(model=model, **options) as engine:
        for start in range(0, 600, 150):
            engine.add(records[start : start + 150])
            engine.refresh()
        engine.refresh(full=True)
        assert_same_fit(engine.fit, cold(records, model=model, **options), within=1e-5)


@pytest.mark.parametrize("priors", [PAPER, "auto"])
def test_a_restart_goes_on_where_the_last_run_ended(tmp_path: Path, priors: Any) -> None:
    records = answers(500)
    with Engine(tmp_path / "s.db", priors=priors) as engine:
        engine.add(records[:490])
        engine.refresh()
        before = engine.fit
    with Engine(tmp_path / "s.db", priors=priors) as engine:
        assert_same_fit(engine.fit, before, within=1e-5)
        assert engine.fit.priors == before.priors, "not estimated anew for nothing"
        engine.add(records[490:])
        engine.refresh(full=True)
        assert_same_fit(engine.fit, cold(records, priors=priors), within=1e-5)


def outgrown(engine: Engine) -> bool:
    return engine.outgrown


def test_priors_that_are_held_are_made_up_for_later() -> None:
    records = answers(600)
    with Engine(priors="auto") as engine:
        assert not outgrown(engine), "there is nothing to estimate from"
        engine.add(records[:200])
        assert outgrown(engine)
        engine.refresh(hold_priors=True)
        before = engine.fit.priors
        assert before == cold(records[:200], priors="auto").priors, "there was nothing to hold"
        engine.add(records[200:])
        engine.refresh(hold_priors=True)
        assert outgrown(engine)
        assert engine.fit.priors == before
        assert engine.fit.data.n_comparisons == 600
        engine.refresh()
        assert not outgrown(engine)
        assert_same_fit(engine.fit, cold(records, priors="auto"), within=1e-5)
        engine.retract([record.key for record in records])
        assert not outgrown(engine), "nothing is left to estimate from"


def test_given_priors_and_one_camp_are_never_outgrown() -> None:
    with Engine(priors="paper", camps=1) as engine:
        engine.add(answers(20))
        engine.refresh()
        engine.add(answers(400))
        assert not outgrown(engine)


def test_a_fit_stays_that_of_its_moment() -> None:
    records = answers(300)
    with Engine() as engine:
        engine.add(records[:200])
        then = engine.fit
        engine.add(records[200:])
        engine.retract([r.key for r in records[:50]])
        engine.refresh()
        assert then.data.n_comparisons == 200
        assert_same_fit(then, cold(records[:200]))


def test_the_data_are_as_read_from_a_file() -> None:
    records = answers(300)
    plain = Comparisons.from_comparisons(records)
    with Engine() as engine:
        engine.add(records)
        data = engine.data
    assert data.digest == plain.digest
    assert (data.n_comparisons, data.n_ties) == (plain.n_comparisons, plain.n_ties)
    order = [data.raters.index(name) for name in plain.raters]
    assert data.left_rate is not None
    assert plain.left_rate is not None
    np.testing.assert_array_equal(data.left_rate[order], plain.left_rate)
    assert data.median_time_s is not None
    assert plain.median_time_s is not None
    np.testing.assert_array_equal(data.median_time_s[order], plain.median_time_s)


def test_answers_without_a_rater_count_until_somebody_is_named() -> None:
    nobody = [Comparison(f"n{i}", None, "a", "b", "left") for i in range(5)]
    ann = [Comparison(f"a{i}", "ann", "b", "a", "left") for i in range(3)]
    with Engine() as engine:
        engine.add(nobody)
        assert list(engine.fit.raters) == []
        assert engine.fit.theta[0] > engine.fit.theta[1]
        engine.add(ann)
        assert list(engine.fit.raters) == ["ann"]
        engine.refresh(full=True)
        assert_same_fit(engine.fit, cold(ann))
        assert engine.fit.data.n_skipped == 5
        engine.retract([record.key for record in ann])
        engine.refresh(full=True)
        assert_same_fit(engine.fit, cold(nobody))


def test_rows_without_keys_count_once_however_often_they_are_added() -> None:
    data = Comparisons.from_comparisons(answers(100))
    with Engine() as engine:
        engine.add(data)
        engine.add(data)
        engine.refresh(full=True)
        assert_same_fit(engine.fit, bbq.fit(data))


def test_one_answer_may_be_given_by_itself() -> None:
    with Engine() as engine:
        assert engine.add(Comparison("1", "ann", "a", "b", "left")) == 1
        assert engine.add(Comparison("1", "ann", "a", "b", "left")) == 0
        assert engine.retract("1") == 1
        assert engine.retract("1") == 0


def test_many_threads_may_add_at_once() -> None:
    records = answers(400)
    with Engine() as engine:

        def work(part: int) -> None:
            for record in records[part::8]:
                engine.add([record])

        threads = [threading.Thread(target=work, args=(part,)) for part in range(8)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            if engine.store.counts().n_comparisons:
                engine.refresh()
        for thread in threads:
            thread.join()
        engine.refresh(full=True)
        assert_same_fit(engine.fit, cold(records))


def interrupted_at(number: int) -> Any:
    """A trace that raises KeyboardInterrupt in the engine's own code, at the n-th line of it."""
    left = number

    def trace(frame: Any, event: str, _: object) -> Any:
        nonlocal left
        if "bbq_plugin/live" not in frame.f_code.co_filename:
            return None
        left -= event == "line"
        if left == 0:
            raise KeyboardInterrupt
        return trace

    return trace


@pytest.mark.parametrize("call", ["add", "retract", "refresh"])
def test_after_an_interrupt_anywhere_the_fit_is_that_of_the_store(call: str) -> None:
    records = answers(60)
    n_interrupted = 0
    for line in range(1, 400, 7):
        with Engine() as engine:
            engine.add(records[:40])
            engine.refresh()
            engine.add(records[40:50])
            work: dict[str, Callable[[], object]] = {
                "add": partial(engine.add, records[50:]),
                "retract": partial(engine.retract, [r.key for r in records[:9]]),
                "refresh": engine.refresh,
            }
            before = sys.gettrace()
            sys.settrace(interrupted_at(line))
            try:
                work[call]()
            except KeyboardInterrupt:
                n_interrupted += 1
            finally:
                sys.settrace(before)
            engine.retract([records[20].key])
            engine.refresh(full=True)
            assert engine.store.check() == []
            assert_same_fit(engine.fit, cold(list(records_of(engine.store))))
    assert n_interrupted > 5


@pytest.mark.parametrize(
    "change",
    [
        {"at": "monday"}, {"at": float("nan")}, {"time_s": -5.0}, {"tags": {"l": 1}},
        {"tags": "x"}, {"slate": 5}, {"key": "\ud800"}, {"key": ""}, {"version": "new"},
    ],
)  # fmt: skip
def test_what_cannot_be_stored_is_refused_by_name(change: dict[str, Any]) -> None:
    good = {"key": "1", "rater": "ann", "left": "a", "right": "b", "outcome": "left"}
    with Engine() as engine, pytest.raises(DataError, match=next(iter(change))[:3]):
        engine.add(Comparison(**{**good, **change}))


def test_a_closed_engine_says_so() -> None:
    engine = Engine()
    engine.close()
    with pytest.raises(StoreError, match=r"closed.*open it again"):
        engine.add(answers(1))


def test_wrong_settings_are_refused_before_anything_is_opened(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected 'paper', 'auto' or a Priors"):
        Engine(tmp_path / "s.db", priors="best")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="model='elo'"):
        Engine(tmp_path / "s.db", model="elo")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="tol"):
        Engine(tmp_path / "s.db", tol=0)
    assert not (tmp_path / "s.db").exists()


def test_what_is_no_comparison_is_refused_and_nothing_of_the_call_is_kept() -> None:
    with Engine() as engine:
        with pytest.raises(DataError, match="expected a Comparison"):
            engine.add([Comparison("1", "ann", "a", "b", "left"), ("ann", "a", "b")])  # type: ignore[list-item]
        assert engine.store.counts().n_comparisons == 0


def test_camps_are_followed_between_two_looks_and_end_where_a_cold_fit_ends() -> None:
    data, _ = panel(1, minority=0.3)
    names = zip(data.rater.tolist(), data.winner.tolist(), data.loser.tolist(), strict=True)
    answers = [
        Comparison(f"c{i}", data.raters[r], data.items[w], data.items[x], "left")
        for i, (r, w, x) in enumerate(names)
    ]
    order = np.random.default_rng(0).permutation(len(answers))
    shuffled = [answers[i] for i in order]
    with Engine(priors="auto") as engine:
        engine.add(shuffled[:3900])
        assert len(engine.fit.camps) == 2
        engine.add(shuffled[3900:])
        assert engine.refresh() == "incremental"
        followed = engine.fit
        engine.refresh(full=True)
        cold = bbq.fit(engine.data, priors="auto")
        assert len(followed.camps) == len(cold.camps) == 2
        for one, other in zip(engine.fit.camps, cold.camps, strict=True):
            assert np.array_equal(one.theta, other.theta)
        assert followed.theta == pytest.approx(cold.theta, abs=0.05)
        member = followed.camps[1].raters
        assert [member[f"r{i:02}"] > 0.5 for i in range(40)] == [i < 12 for i in range(40)]
