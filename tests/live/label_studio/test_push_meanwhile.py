"""What happens between a plan and its writes: people change things, answers get lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bbq_plugin.data.records import Policy, kinds_of
from bbq_plugin.errors import RemoteError
from bbq_plugin.live import push
from bbq_plugin.live.push import act
from tests.live.label_studio.faults import Answer, Asked, Proxy
from tests.live.label_studio.small import Small, by_first, without
from tests.live.label_studio.study import chose, pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbq_plugin.data.records import ActionResult, FeedbackPlan
    from bbq_plugin.protocols import FeedbackGoals
    from tests.live.label_studio.server import Server


def carried_out(small: Small, plan: FeedbackPlan) -> dict[str, str | None]:
    """What was left, and why, by target."""
    with small.opened() as (project, memory):
        return {one.action.target: one.left for one in push.apply(project, memory, plan)}


def test_a_task_that_people_changed_since_the_plan_is_left_and_the_value_named(
    small: Small, label_studio: Server
) -> None:
    raised, answered, closed, gone = small.tasks
    plan = small.plan(without(small.bob))
    label_studio.patch(f"/api/tasks/{raised}/", {"overlap": 10})
    label_studio.annotate(answered, chose("left"), small.cat)
    label_studio.patch(f"/api/tasks/{closed}/", {"is_labeled": False})
    label_studio.delete(f"/api/tasks/{gone}/")
    before = small.snapshot()
    left = carried_out(small, plan)
    assert left.pop("tab Second look") is None
    assert left == {
        f"task {raised}": f"changed since the plan: task {raised} has overlap 10 (was 2)",
        f"task {answered}": f"changed since the plan: task {answered} has other answers",
        f"task {closed}": f"changed since the plan: task {closed} has is_labeled False (was True)",
        f"task {gone}": f"changed since the plan: task {gone} no longer exists",
    }
    # Nothing was put on record for them, so nothing is put back either.
    assert len(small.undo()) == 1
    assert small.snapshot() == before


def test_sampling_predictions_and_tabs_that_people_changed_since_the_plan_are_left(
    small: Small, label_studio: Server
) -> None:
    goals = without(small.bob, information_bits=by_first, sampling=True, n_informative=2)
    plan = small.plan(goals)
    open_, other = (int(a.after["task"]) for a in plan.actions if a.kind == "predict")
    (tab,) = [action for action in plan.actions if action.kind == "tab"]
    label_studio.patch(f"/api/projects/{small.id}/", {"sampling": "Uniform sampling"})
    label_studio.post("/api/dm/views/", {"project": small.id, "data": dict(tab.after)})
    score = {"result": [], "score": 0.1, "model_version": "next-comparisons"}
    label_studio.post("/api/predictions/", {"task": open_, **score})
    left = carried_out(small, plan)
    assert left["project"] == (
        "changed since the plan: project has sampling 'Uniform sampling' "
        "(was 'Sequential sampling')"
    )
    assert "tab Second look already exists" in str(left["tab Second look"])
    assert "already exists" in str(left[f"prediction for task {open_}"])
    assert left[f"prediction for task {other}"] is None
    # A person's own is never taken for ours.
    assert small.plan(without(small.bob, kinds=frozenset({"tab"}))).actions == ()
    small.undo()
    assert len(label_studio.get(f"/api/dm/views/?project={small.id}")) == 1
    (theirs,) = label_studio.get(f"/api/predictions/?project={small.id}")
    assert theirs["task"] == open_
    assert label_studio.get(f"/api/projects/{small.id}/")["sampling"] == "Uniform sampling"


def test_predictions_and_tabs_of_ours_that_people_edit_are_not_overwritten(
    small: Small, label_studio: Server
) -> None:
    label_studio.tasks(small.id, [pair("y", "x")])
    goals = without(small.bob, information_bits=by_first, sampling=True, n_informative=1)
    small.apply(goals)
    later = without(
        small.ann, small.bob, information_bits=lambda _: 0.2, sampling=True, n_informative=1
    )
    plan = small.plan(later)
    (prediction,) = label_studio.get(f"/api/predictions/?project={small.id}")
    (tab,) = label_studio.get(f"/api/dm/views/?project={small.id}")
    label_studio.patch(f"/api/predictions/{prediction['id']}/", {"score": 0.77})
    data = {**tab["data"], "title": "Mine"}
    label_studio.patch(f"/api/dm/views/{tab['id']}/", {"project": small.id, "data": data})
    left = carried_out(small, plan)
    assert "score 0.77 (was" in str(left[f"prediction for task {prediction['task']}"])
    assert "title 'Mine' (was 'Second look')" in str(left["tab Second look"])
    assert label_studio.get(f"/api/predictions/{prediction['id']}/")["score"] == 0.77


def test_a_cancellation_that_people_did_themselves_is_not_ours_to_take_back(
    small: Small, label_studio: Server
) -> None:
    plan = small.plan(without(small.bob, cancel=True, kinds=frozenset({"cancel"})))
    theirs = small.answers[small.tasks[0], small.bob.id]
    label_studio.patch(f"/api/annotations/{theirs}/", {"was_cancelled": True})
    left = carried_out(small, plan)
    assert "was_cancelled True" in str(left.pop(f"annotation {theirs}"))
    assert set(left.values()) == {None}
    small.undo()
    exported = label_studio.export(small.id)
    cancelled = [a["id"] for task in exported for a in task["annotations"] if a["was_cancelled"]]
    assert cancelled == [theirs]


def test_looking_before_writing_costs_few_requests(small: Small, proxy: Proxy) -> None:
    small.url = proxy.url
    with small.opened() as (project, memory):
        plan = push.make_plan(project, memory, without(small.bob))
        asked = len(proxy.asked)
        list(push.apply(project, memory, plan))
    reads = [one for one in proxy.asked[asked:] if one.method == "GET"]
    # One for all tasks, one for all tabs.
    assert len(reads) == 2


@pytest.mark.usefixtures("no_waiting")
def test_after_a_failure_only_what_was_tried_is_in_doubt(small: Small, proxy: Proxy) -> None:
    writes = 0

    def fail_the_second(asked: Asked) -> Answer | None:
        nonlocal writes
        writes += asked.method == "PATCH"
        return Answer(400) if asked.method == "PATCH" and writes > 1 else None

    small.url, proxy.rule = proxy.url, fail_the_second
    with small.opened() as (project, memory):
        plan = push.make_plan(project, memory, without(small.bob))
        with pytest.raises(RemoteError):
            list(push.apply(project, memory, plan))
        assert [entry.state for entry in memory.entries()] == ["done", "begun"]
        proxy.rule = lambda _: None
        assert push.settle(project, memory) == 1
        list(push.apply(project, memory, push.make_plan(project, memory, without(small.bob))))
        writes, proxy.rule = 0, fail_the_second
        with pytest.raises(RemoteError):
            list(push.undo(project, memory))
        # The tab is gone, one task is back; of the three that are left one is in doubt.
        assert [entry.state for entry in memory.entries()] == ["done", "done", "undoing"]


@pytest.mark.usefixtures("no_waiting")
def test_a_removal_whose_answer_was_lost_is_done(
    small: Small, proxy: Proxy, label_studio: Server
) -> None:
    small.apply(without(small.bob))
    lost: list[Asked] = []

    def lose_the_first(asked: Asked) -> Answer | None:
        if asked.method != "DELETE":
            return None
        lost.append(asked)
        return Answer(502, after=True) if len(lost) == 1 else None

    small.url, proxy.rule = proxy.url, lose_the_first
    assert not [one.left for one in small.undo() if one.left]
    assert len(lost) == 2
    assert label_studio.get(f"/api/dm/views/?project={small.id}") == []
    assert small.undo() == []


def by_somebody(small: Small, goals: FeedbackGoals, shown: FeedbackPlan) -> list[ActionResult]:
    with small.opened() as (project, memory):
        return list(push.by_hand(project, memory, goals, shown))


def alone(small: Small, goals: FeedbackGoals, _: FeedbackPlan) -> list[ActionResult]:
    policy = Policy(kinds_of(["relabel", "tab", "predict"]), a_day=1000)
    with small.opened() as (project, memory):
        return list(act(project, memory, goals, policy).done)


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize("way", [by_somebody, alone], ids=["page", "alone"])
@pytest.mark.parametrize("what", ["/api/dm/views/", "/api/predictions/"])
def test_what_was_made_before_a_cut_is_not_made_twice_whoever_goes_on(
    small: Small,
    proxy: Proxy,
    label_studio: Server,
    what: str,
    way: Callable[[Small, FeedbackGoals, FeedbackPlan], list[Any]],
) -> None:
    label_studio.tasks(small.id, [pair("x", "y")])
    before = small.snapshot()
    goals = without(small.bob, information_bits=by_first, sampling=True)
    shown = small.plan(goals)

    def lose(asked: Asked) -> Answer | None:
        lost = asked.method == "POST" and asked.path.startswith(what)
        return Answer(502, after=True) if lost else None

    small.url, proxy.rule = proxy.url, lose
    with pytest.raises(RemoteError):
        way(small, goals, shown)
    small.url = small.server.url
    way(small, goals, shown)
    assert small.plan(goals).actions == ()
    assert len(label_studio.get(f"/api/dm/views/?project={small.id}")) == 1
    listed = label_studio.get(f"/api/predictions/?project={small.id}")
    assert len(listed) == len({one["task"] for one in listed}) == len(small.tasks) + 1
    small.undo()
    assert small.snapshot()[2] == before[2]
    assert label_studio.get(f"/api/predictions/?project={small.id}") == []


def test_of_a_plan_of_yesterday_only_what_is_planned_still_is_carried_out(small: Small) -> None:
    shown = small.plan(without(small.bob))
    before = small.snapshot()
    # By now Bob is no longer excluded.
    done = by_somebody(small, without(), shown)
    assert {one.left for one in done} == {
        "tab Second look is not planned any more",
        *(f"task {task} is not planned any more" for task in small.tasks),
    }
    assert small.snapshot() == before


def test_a_plan_of_predictions_can_be_carried_out_though_its_scores_have_moved(
    small: Small, label_studio: Server
) -> None:
    shown = small.plan(without(information_bits=by_first, sampling=True))
    assert shown.actions == ()
    (task,) = label_studio.tasks(small.id, [pair("x", "y")])
    shown = small.plan(without(information_bits=lambda _: 0.25, sampling=True))
    done = by_somebody(small, without(information_bits=lambda _: 0.001, sampling=True), shown)
    assert [one.left for one in done] == [None, None]
    (made,) = label_studio.get(f"/api/predictions/?project={small.id}")
    # That of a thousandth of a bit: a third of the way to a billionth.
    assert (made["task"], made["score"]) == (task, 0.333)


def test_after_an_undo_nothing_is_written_alone_until_somebody_does_by_hand(small: Small) -> None:
    goals, policy = without(small.bob), Policy(kinds_of(["relabel", "tab"]))
    with small.opened() as (project, memory):
        assert act(project, memory, goals, policy).n_done == 5
        list(push.undo(project, memory))
    # A restart does not change that.
    with small.opened() as (project, memory):
        held = act(project, memory, goals, policy)
        assert (held.n_done, held.short, len(held.plan.actions)) == (0, False, 5)
        assert "undone by hand" in str(held.fields()["note"])
        list(push.by_hand(project, memory, goals, held.plan))
        assert not memory.held
        list(act(project, memory, without(), policy).done)
        assert memory.entries() == []
        assert act(project, memory, goals, policy).n_done == 5
