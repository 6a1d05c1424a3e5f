"""Who was excluded before a restart comes back when their quality recovers, and not sooner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import bbq_plugin as bbq
from bbq_plugin.analysis import Analysis
from bbq_plugin.config import load
from bbq_plugin.data.records import Comparison
from bbq_plugin.errors import RemoteError
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.health import Problems
from bbq_plugin.live.push import Pusher, goals_of, merged_goals
from bbq_plugin.live.server.page_state import View

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bbq_plugin.config import Settings
    from bbq_plugin.live.tool_connection import Opened
    from bbq_plugin.store import Store

# So many good answers of somebody who has guessed 60 times before.
SURELY_BAD, BETWEEN, RECOVERED = 0, 30, 70


def answers(n_good: int) -> list[Comparison]:
    """Ten people who answer well, and Late, who guesses and then answers well."""
    rng = np.random.default_rng(1)
    theta = np.linspace(-2, 2, 6)
    found = []

    def add(key: str, rater: str, *, informed: bool) -> None:
        a, b = rng.choice(6, 2, replace=False).tolist()
        left = theta[a] > theta[b] if informed else rng.random() < 0.5
        found.append(Comparison(key, rater, f"i{a}", f"i{b}", "left" if left else "right"))

    for k in range(600):
        add(f"g{k}", f"good {k % 10}", informed=bool(rng.random() < 0.9))
    for k in range(60):
        add(f"l{k}", "late", informed=False)
    for k in range(n_good):
        add(f"m{k}", "late", informed=True)
    return found


def on_the_page(store: Path, n_good: int) -> frozenset[str]:
    """Start a server's view on a store with these answers; whom it excludes."""
    with Engine(store) as engine:
        engine.add(answers(n_good))
        engine.refresh(full=True)
        view = View(engine)
        view.publish()
        assert view.analysis is not None
        found = frozenset(row.rater for row in view.analysis.raters if row.verdict == "exclude")
        view.record()
        return found


def nobody(_: Settings, __: Store, ___: Callable[[str], None]) -> Opened:
    raise RemoteError("there is no server")


def in_the_daemon(store: Path, n_good: int) -> frozenset[str]:
    """The same for the daemon's feedback, whose server need not answer for that."""
    with Engine(store) as engine:
        engine.add(answers(n_good))
        engine.refresh(full=True)
        pusher = Pusher(load(None, {}, {}), engine, nobody, Problems())
        pusher.offer(engine.analysis())
        with pytest.raises(RemoteError, match="no server"):
            pusher.now()
        return engine.store.excluded()


@pytest.mark.parametrize("run", [on_the_page, in_the_daemon])
def test_a_restart_does_not_forget_who_was_excluded(
    run: Callable[[Path, int], frozenset[str]], tmp_path: Path
) -> None:
    store = tmp_path / "state.db"
    assert run(store, SURELY_BAD) == {"late"}
    assert run(store, BETWEEN) == {"late"}
    assert run(store, RECOVERED) == frozenset()
    # Without the memory those answers do not suffice to exclude anybody.
    assert run(tmp_path / "another.db", BETWEEN) == frozenset()


def test_a_server_that_is_killed_has_the_verdicts_that_were_acted_on(tmp_path: Path) -> None:
    store = tmp_path / "state.db"
    with Engine(store) as engine:
        engine.add(answers(SURELY_BAD))
        engine.refresh(full=True)
        view = View(engine)
        view.publish()
        assert view.analysis is not None
        assert view.analysis.raters.excluded == ("late",)
        engine.keep_verdicts(view.analysis)
    assert on_the_page(store, BETWEEN) == {"late"}


def test_a_plan_follows_the_verdicts_of_all_questions_of_a_project() -> None:
    studies = [
        bbq.simulate(items=6, raters=12, comparisons=3000, guessers=0.2, seed=seed)
        for seed in (3, 4)
    ]
    goals = {
        name: goals_of(Analysis(bbq.fit(study.arrays())))
        for name, study in zip(("overall", "fluency"), studies, strict=True)
    }
    one, two = goals["overall"], goals["fluency"]
    assert one.excluded
    assert set(two.excluded) - set(one.excluded)
    both = merged_goals(goals)
    assert set(both.excluded) == set(one.excluded) | set(two.excluded)
    assert not set(both.watched) & set(both.excluded)
    for rater in set(two.excluded) - set(one.excluded):
        assert both.excluded[rater] == f"study fluency: {two.excluded[rater]}"
    items = ("item-1", "item-2")
    bits = [goal.information_bits(items) for goal in (one, two, both)]
    assert bits[0]
    assert bits[1]
    assert bits[2] == pytest.approx(bits[0] + bits[1])
    chances = [goal.worth.chance(items, 5) for goal in (one, two, both) if goal.worth]
    assert chances[2] is not None
    assert chances[2] >= max(chance for chance in chances[:2] if chance is not None)
    # What new answers buy is told of each question.
    assert both.worth is not None
    bought = both.worth.together([(items, 5)])
    assert [part.study for part in (bought, *bought.others)] == ["overall", "fluency"]
    assert "; study fluency: P(best) of the leader, " in bought.text
    assert merged_goals({"overall": one}) is one
