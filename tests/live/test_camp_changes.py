"""In a stream of answers the change of the number of camps is told."""

from __future__ import annotations

import io
import json
from functools import partial
from typing import TYPE_CHECKING

import pytest

import bbq_plugin as bbq
from bbq_plugin.config import load
from bbq_plugin.errors import UsageError
from bbq_plugin.live.engine import Engine, camp_change
from bbq_plugin.live.health import Problems
from bbq_plugin.live.log import Log
from bbq_plugin.live.server.page_state import View
from bbq_plugin.live.watch import Daemon
from bbq_plugin.simulation import write_study
from tests.live.hooks import cast
from tests.model.test_camps import panel

if TYPE_CHECKING:
    from pathlib import Path

    from bbq_plugin.data.records import Comparison


def answers() -> tuple[list[Comparison], list[Comparison]]:
    """Of the majority, and of the minority."""
    study = bbq.simulate(items=8, raters=40, comparisons=4000, minority=0.4, spread=1.2, seed=9)
    truth = study.truth
    camp = dict(zip(truth.raters, truth.camp.tolist(), strict=True))
    found: tuple[list[Comparison], list[Comparison]] = ([], [])
    for one in study.comparisons():
        found[camp[str(one.rater)] - 1].append(one)
    return found


def test_a_first_single_camp_is_nothing_to_tell() -> None:
    one, two = (bbq.fit(panel(3, minority=m)[0], priors="auto") for m in (0.0, 0.4))
    assert camp_change(None, one) is None
    assert camp_change(1, one) is None
    assert camp_change(2, two) is None
    began, split, joined = camp_change(None, two), camp_change(1, two), camp_change(2, one)
    assert began is not None
    assert split is not None
    assert joined is not None
    assert (began.before, began.now) == (None, 2)
    assert (split.before, split.now) == (1, 2)
    assert split.text.startswith("The panel is divided: 24 raters prefer ")
    assert (joined.now, joined.text) == (1, "The panel is no longer divided.")


def test_a_hook_tells_it_in_its_updates(tmp_path: Path) -> None:
    majority, minority = answers()
    updates: list[bbq.Update] = []
    with bbq.Hook(tmp_path / "state.db", refresh_every_s=3600) as hook:
        hook.on_update(updates.append)
        for part in (majority, minority):
            cast(hook, part)
            hook.flush()
        shares = [row.item for row in hook.leaderboard()]
    assert [(one.camps.before, one.camps.now) for one in updates if one.camps] == [(1, 2)]
    # Ranks are those of the leaderboard, by the panel's preference.
    rank = {one.item: one.rank for one in updates[-1].items}
    assert all(rank.get(item, place) == place for place, item in enumerate(shares, start=1))


def test_a_hook_takes_the_number_of_camps(tmp_path: Path) -> None:
    with bbq.Hook(tmp_path / "state.db", camps=1, refresh_every_s=3600) as hook:
        for part in answers():
            cast(hook, part)
        hook.flush()
        assert len(hook.fit.camps) == 1
    with pytest.raises(UsageError, match="camps=2 takes model='bbq'"):
        bbq.Hook(tmp_path / "other.db", camps=2, model="bayes-bt")


def test_the_page_keeps_the_changes_and_logs_them(tmp_path: Path) -> None:
    majority, minority = answers()
    stream = io.StringIO()
    with Engine(tmp_path / "state.db", priors="auto") as engine:
        view = View(engine, problems=Problems(Log(stream, "json")))
        for part in (majority, minority):
            engine.add(part)
            engine.refresh()
            view.publish()
        view.publish()
    ((_, change),) = view.camp_changes
    assert (change.before, change.now) == (1, 2)
    (line,) = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (line["event"], line["before"], line["now"]) == ("camps", 1, 2)
    assert line["text"] == change.text


def test_the_daemon_says_it_in_its_log(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    study = bbq.simulate(items=8, raters=40, comparisons=4000, minority=0.4, spread=1.2, seed=9)
    with (folder / "votes.jsonl").open("w") as file:
        write_study(study, file, "arena")
    given = {
        "folder": folder, "store": tmp_path / "state.db", "out": tmp_path / "out",
        "settle_s": 0.0, "debounce_s": 0.0,
    }  # fmt: skip
    for camps, expected in (("auto", [2]), (1, [])):
        settings = load(None, {}, {**given, "camps": camps, "store": tmp_path / f"{camps}.db"})
        stream = io.StringIO()
        Daemon(settings, partial(load, None, {}, given), Log(stream, "json")).run(once=True)
        said = [json.loads(line) for line in stream.getvalue().splitlines()]
        assert [line["now"] for line in said if line["event"] == "camps"] == expected
        report = json.loads((tmp_path / "out" / "report.json").read_text())
        assert len(report["camps"]) == (expected or [1])[0]


def test_a_study_that_is_to_be_divided_may_begin_with_few_raters() -> None:
    data, _ = panel(3, minority=0.4)
    with Engine(camps=2) as engine:
        engine.add(bbq.Comparisons.from_records([("ann", "a", "b"), ("ben", "b", "a")]))
        engine.refresh()
        assert len(engine.fit.camps) == 1
        assert any("camps=2 waits for more raters" in text for text in engine.fit.warnings)
        engine.add(data)
        engine.refresh(full=True)
        assert len(engine.fit.camps) == 2


def test_camps_are_examined_again_before_a_tenth_more_when_new_answers_fit_worse() -> None:
    majority, minority = answers()
    some = majority[:2000]
    extra = minority[:190]
    assert len(extra) < 0.1 * len(some)
    with Engine() as engine:
        engine.add(some)
        engine.refresh()
        examined = engine.fit
        # Answers of the same raters fit as well as before: no need to look again.
        engine.add(majority[2000:2190])
        engine.refresh()
        assert not engine.outgrown
    with Engine() as engine:
        engine.add(some)
        engine.refresh()
        engine.add(extra)
        assert engine.refresh() == "full"
        cold = bbq.fit(engine.data)
        assert len(engine.fit.camps) == len(cold.camps)
        assert engine.fit.theta == pytest.approx(cold.theta, abs=1e-5)
    assert len(examined.camps) == 1
