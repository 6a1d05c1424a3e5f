"""Weights out of bounds: refused on every way in, and named where an older store has them."""

from __future__ import annotations

import json
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest

import bbq_plugin as bbq
from bbq_plugin.errors import ConvergenceError, DataError
from bbq_plugin.live import engine as engine_module
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.file_ingest import Offer
from bbq_plugin.live.server.access_control import AccessRules
from bbq_plugin.live.server.service import Service
from bbq_plugin.model import fit
from bbq_plugin.model.streaming import Streaming
from bbq_plugin.store import Store, read_store, read_store_by
from tests.live.hooks import kept
from tests.store.stores import report, run, study

if TYPE_CHECKING:
    from collections.abc import Callable

BAD = (1e15, 1e6 * 1.01, 9e-7, 0.0, -1.0, float("inf"), float("nan"))


def votes(n: int = 60) -> list[bbq.Comparison]:
    drawn = bbq.simulate(items=4, raters=5, comparisons=n, seed=1).comparisons()
    return [msgspec.structs.replace(one, tags={"t": "y"}) for one in drawn]


def of_records(weight: float, _: Path) -> None:
    bbq.Comparisons.from_records([("ann", "a", "b", 1.0), ("ann", "a", "b", weight)])


def of_arrays(weight: float, _: Path) -> None:
    bbq.Comparisons.from_arrays(
        np.array([0, 0]), np.array([0, 0]), np.array([1, 1]), np.array([1.0, weight]),
        raters=["ann"], items=["a", "b"],
    )  # fmt: skip


def of_frame(weight: float, _: Path) -> None:
    pytest.importorskip("narwhals")
    columns = {"rater": ["ann"] * 2, "winner": ["a"] * 2, "loser": ["b"] * 2}
    frame = pytest.importorskip("pyarrow").table({**columns, "weight": [1.0, weight]})
    if isnan(weight):
        pytest.skip("a row without a weight is counted as skipped")
    bbq.Comparisons.from_frame(
        frame, rater="rater", winner="winner", loser="loser", weight="weight"
    )


def of_file(weight: float, folder: Path) -> None:
    file = folder / "v.csv"
    file.write_text(f"rater,winner,loser,weight\nann,a,b,1\nann,a,b,{weight}\n")
    bbq.read(file, strict=True)


def of_engine(weight: float, folder: Path) -> None:
    with Engine(folder / "state.db") as engine:
        engine.add([bbq.Comparison("good", "ann", "a", "b", "left"),
                    bbq.Comparison("row 1", "ann", "a", "b", "left", weight)])  # fmt: skip


def of_store(weight: float, folder: Path) -> None:
    with Store(folder / "state.db") as store:
        store.add([bbq.Comparison("row 1", "ann", "a", "b", "left", weight)])


def of_hook(weight: float, folder: Path) -> None:
    with bbq.Hook(folder / "state.db") as hook:
        hook.vote(rater="ann", left="a", right="b", outcome="left", weight=weight)


@pytest.mark.parametrize("weight", BAD)
@pytest.mark.parametrize(
    ("way", "place"),
    [
        (of_records, "row 1 "),
        (of_arrays, "row 1 "),
        (of_frame, "row 1 "),
        (of_file, "v.csv:3: "),
        (of_engine, "answer 'row 1': "),
        (of_store, "answer 'row 1': "),
        (of_hook, ""),
    ],
)
def test_a_weight_out_of_bounds_is_refused_and_its_row_named(
    way: Callable[[float, Path], None], place: str, weight: float, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=f"{place}.*weight is .*from 1e-6 to 1e6"):
        way(weight, tmp_path)
    if (tmp_path / "state.db").exists():
        assert kept(tmp_path / "state.db") == {}


@pytest.mark.parametrize("weight", [1e-6, 1e6])
@pytest.mark.parametrize(
    "way", [of_records, of_arrays, of_frame, of_file, of_engine, of_store, of_hook]
)
def test_a_weight_at_its_bounds_is_taken(
    way: Callable[[float, Path], None], weight: float, tmp_path: Path
) -> None:
    way(weight, tmp_path)


def test_a_file_with_such_a_row_is_read_without_it(tmp_path: Path) -> None:
    file = tmp_path / "v.csv"
    file.write_text("rater,winner,loser,weight\nann,a,b,1e15\nann,b,a,1\nann,a,b,1\n")
    data = bbq.read(file)
    assert data.n_comparisons == 2
    assert [one.where for one in data.skipped] == [f"{file}:2"]
    good = study(tmp_path)
    with Engine(tmp_path / "state.db") as engine:
        read, other = engine.ingest([Offer(file, file.name), Offer(good, good.name)])
        assert (read.n_new, read.n_skipped) == (2, 1)
        assert (other.status, other.n_new) == ("read", 300)
        engine.refresh(full=True)


# -- a store of before


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store that an earlier version filled with one row of weight 1e15."""
    path = tmp_path / "old.db"
    with Store(path) as store:
        store.add(votes())
        store.add([bbq.Comparison("odd one", "ann", "item 1", "item 2", "left", tags={"t": "x"})],
                  kind="file", name="big.csv")  # fmt: skip
        store.db.execute("UPDATE comparison SET weight = 1e15 WHERE key = 'odd one'")
    return path


NAMED = "'odd one' of big.csv (weight 1e+15)"


def test_it_is_read_without_the_row_which_is_named(old: Path) -> None:
    data = read_store(old)
    assert data.n_comparisons == 60
    assert any(NAMED in warning for warning in data.warnings)
    assert sum(data.skip_reasons.values()) == 1
    found = bbq.fit(data, priors="auto")
    with Engine(priors="auto") as engine:
        engine.add(votes())
        assert found.theta == pytest.approx(bbq.fit(engine.data, priors="auto").theta)
    parts = read_store_by(old, by="t")
    assert all(any(NAMED in w for w in part.warnings) for part in parts.values())


def test_the_commands_work_on_it_and_name_the_row(old: Path, tmp_path: Path) -> None:
    found = report("fit", "--store", old)
    assert found["n_comparisons"] == 60
    assert any(NAMED in warning for warning in found["warnings"])
    shown = run("store", "check", "--store", old)
    assert shown.exit_code == 0
    assert NAMED in " ".join(shown.output.split())
    (tmp_path / "in").mkdir()
    watched = run(
        "watch", tmp_path / "in", "--once", "--store", old, "--out", tmp_path / "out"
    )  # fmt: skip
    assert watched.exit_code == 0, watched.output
    assert NAMED in (tmp_path / "out" / "report.json").read_text()


def test_an_engine_follows_it_and_may_correct_or_retract_the_row(old: Path) -> None:
    with Engine(old, priors="auto") as engine:
        engine.refresh(full=True)
        assert engine.fit.data.n_comparisons == 60
        assert any(NAMED in warning for warning in engine.fit.data.warnings)
        engine.add(bbq.Comparison("odd one", "ann", "item 1", "item 2", "left", 2.0))
        engine.refresh()
        assert engine.fit.data.n_comparisons == 61
        assert not any(NAMED in warning for warning in engine.fit.data.warnings)
    with Store(old) as store:
        store.db.execute("UPDATE comparison SET weight = 1e15 WHERE key = 'odd one'")
    with Engine(old, priors="auto") as engine:
        engine.refresh()
        assert engine.retract("odd one") == 1
        engine.refresh()
        assert engine.data.n_comparisons == 60
        assert engine.data.skip_reasons == {}
        assert engine.store.check() == []


def test_a_hook_opens_it(old: Path) -> None:
    with bbq.Hook(old, refresh_every_s=0) as hook:
        hook.vote(rater="ann", left="item 1", right="item 2", outcome="left")
        hook.flush()
        assert hook.fit.data.n_comparisons == 61


# -- a fit that fails for another reason


class Fault:
    """Makes the fits of an engine fail while it is on, as no input is known to by now."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.on = False
        real = Streaming.refresh, fit

        def follow(*args: Any, **more: Any) -> Any:
            return self._or(real[0], *args, **more)

        def start(*args: Any, **more: Any) -> Any:
            return self._or(real[1], *args, **more)

        monkeypatch.setattr(Streaming, "refresh", follow)
        monkeypatch.setattr(engine_module, "fit", start)

    def _or(self, real: Callable[..., Any], *args: Any, **more: Any) -> Any:
        if self.on:
            raise ZeroDivisionError("division by zero")
        return real(*args, **more)


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Fault:
    return Fault(monkeypatch)


def test_an_engine_says_so_keeps_the_last_fit_and_goes_on_afterwards(fault: Fault) -> None:
    with Engine(priors="auto") as engine:
        engine.add(votes())
        engine.refresh()
        before = engine._fit
        fault.on = True
        engine.add(bbq.Comparison("more", "ann", "item 1", "item 2", "left"))
        with pytest.raises(ConvergenceError, match=r"ZeroDivisionError: division by zero.*stand"):
            engine.refresh()
        assert engine._fit is before
        fault.on = False
        engine.refresh()
        assert engine.fit.data.n_comparisons == 61


def test_a_hook_says_so_and_keeps_the_last_fit(fault: Fault, tmp_path: Path) -> None:
    with bbq.Hook(tmp_path / "a.db", refresh_every_s=0) as hook:
        for n in range(20):
            hook.vote(rater="ann", left="a", right="b", outcome="left", key=f"k{n}")
        hook.flush()
        before = hook.fit
        fault.on = True
        hook.vote(rater="bob", left="a", right="b", outcome="right")
        with pytest.raises(ConvergenceError, match="division by zero"):
            hook.flush()
        assert hook.fit is before
        fault.on = False
        hook.flush()
        assert hook.fit.data.n_comparisons == 21


def test_a_server_starts_reports_it_and_shows_the_last_fit(fault: Fault, tmp_path: Path) -> None:
    with Engine(tmp_path / "a.db", priors="auto") as engine:
        engine.add(votes())
        service = Service(engine, AccessRules())
        service.worker.follow()
        before = service.view.analysis
        assert before is not None
        fault.on = True
        engine.add(bbq.Comparison("more", "ann", "item 1", "item 2", "left"))
        service.worker.follow()
        assert service.view.analysis is before
        assert [p.what for p in service.problems] == ["fit"]
        assert "division by zero" in next(iter(service.problems)).reason
        fault.on = False
        service.worker.follow()
        assert not list(service.problems)
        assert service.view.analysis is not before


def test_a_server_that_cannot_fit_starts_all_the_same(fault: Fault, tmp_path: Path) -> None:
    with Engine(tmp_path / "a.db", priors="auto") as engine:
        engine.add(votes())
        service = Service(engine, AccessRules())
        # After the engine's own trial, which compiles.
        service.view.outlooks.job.start()
        fault.on = True
        service.worker.follow()
        service.worker.start()
        assert [p.what for p in service.problems] == ["fit"]
        service.worker.job.stop()
        service.view.outlooks.job.stop()
        service.inbox.close()


def test_a_command_prints_it_without_a_traceback_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, out = tmp_path / "a.db", tmp_path / "report.json"
    with Store(store) as opened:
        opened.add(votes())
    given = ("fit", "--store", store, "--format", "json", "-o", out)
    assert run(*given).exit_code == 0
    before = out.read_bytes()

    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("bbq_plugin.model.fit", fail)
    result = run(*given)
    assert result.exit_code == 1
    assert "Error: the answers could not be fitted (ZeroDivisionError" in result.stderr
    assert out.read_bytes() == before
    assert json.loads(before)["n_comparisons"] == 60
