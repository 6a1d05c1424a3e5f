"""`bbq push` on a real server: what it writes, that it writes once, and that it takes it back."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from bbq_plugin.data.records import Policy
from bbq_plugin.live import push
from bbq_plugin.live.pull import pull
from bbq_plugin.store import Store
from tests.live.label_studio.faults import Answer, Asked, Proxy
from tests.live.label_studio.small import Small, by_first, kinds, without
from tests.live.label_studio.study import (
    PAIRWISE,
    Bbq,
    Crowd,
    chose,
    fill,
    pair,
    without_times,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.live.label_studio.server import Server, User


def last_touched(key: str) -> bool:
    """Label Studio notes who wrote last, and nobody can write that back.

    An import leaves `result_count` at 0 until anything is written to the annotation.
    """
    return key in ("updated_by", "result_count")


def test_the_loop_with_twelve_raters_three_of_them_bad(
    label_studio: Server, people: list[User], bbq: Bbq
) -> None:
    """Pull, plan, write, serve to somebody new, undo: on 300 tasks with three answers each."""
    crowd: Crowd = fill(label_studio, people)
    bbq.pull(crowd.project)
    before = label_studio.export(crowd.project)
    plan = bbq.push(crowd.project, "--relabel", "all")
    assert not plan["applied"]
    assert without_times(label_studio.export(crowd.project)) == without_times(before)

    leaning = {task for task, who in crowd.answered.items() if crowd.bad.intersection(who)}
    relabelled = [action for action in plan["actions"] if action["kind"] == "relabel"]
    assert {int(action["target"].split()[1]) for action in relabelled} == leaning
    (tab,) = [action for action in plan["actions"] if action["kind"] == "tab"]
    listed = {str(item["value"]) for item in tab["after"]["filters"]["items"]}
    assert listed == crowd.bad
    for action in relabelled:
        who = crowd.answered[int(action["target"].split()[1])]
        assert action["after"]["overlap"] == 3 + len(crowd.bad.intersection(who))

    # By default only what may change the result is asked again, and what that buys is said.
    useful = bbq.push(crowd.project)
    chosen = [action for action in useful["actions"] if action["kind"] == "relabel"]
    assert 0 < len(chosen) < len(relabelled)
    said = [action["target"] for action in relabelled]
    assert said[: len(chosen)] == [action["target"] for action in chosen]
    assert any("left out" in note for note in useful["notes"])
    assert any("serves these tasks to excluded raters too" in note for note in useful["notes"])
    n_answers = [sum(who in crowd.bad for who in crowd.answered[int(one.split()[1])])
                 for one in said]  # fmt: skip
    assert useful["worth"]["n_answers"] == sum(n_answers[: len(chosen)])
    assert plan["worth"]["n_answers"] == sum(n_answers)
    for worth in (useful["worth"], plan["worth"]):
        assert worth["p_best_expected"] >= worth["p_best"]
    assert "relabel asks for" in bbq("push", crowd.project) + bbq.said[-1]

    newcomer = label_studio.sign_up("newcomer@example.com")
    with pytest.raises(OSError, match="next/: 404"):
        label_studio.get(f"/api/projects/{crowd.project}/next/", token=newcomer.token)
    everything = ("--apply", "--relabel", "all")
    assert bbq.push(crowd.project, *everything)["actions"] == plan["actions"]
    tasks = label_studio.get(f"/api/tasks/?project={crowd.project}&page_size=1000")["tasks"]
    assert {task["id"] for task in tasks if not task["is_labeled"]} == leaning
    served = label_studio.get(f"/api/projects/{crowd.project}/next/", token=newcomer.token)
    assert served["id"] in leaning

    assert bbq.push(crowd.project, *everything)["n_actions"] == 0
    undone = bbq.push(crowd.project, "--undo")
    assert undone["n_actions"] == plan["n_actions"]
    assert without_times(label_studio.export(crowd.project)) == without_times(before)
    tasks = label_studio.get(f"/api/tasks/?project={crowd.project}&page_size=1000")["tasks"]
    assert {(task["overlap"], task["is_labeled"]) for task in tasks} == {(3, True)}
    assert bbq.push(crowd.project, "--undo")["n_actions"] == 0


def test_an_excluded_rater_who_answers_the_queue_does_not_close_it(
    small: Small, label_studio: Server
) -> None:
    """Community serves the queue to every rater, also to those it is there because of."""
    one = small.tasks[0]
    label_studio.delete(f"/api/annotations/{small.answers[one, small.ann.id]}/")
    label_studio.annotate(one, chose("right"), small.cat)
    goals = without(small.bob, small.ann)
    small.apply(goals)
    assert small.now()[one] == (3, False)
    served = label_studio.get(f"/api/projects/{small.id}/next/", token=small.ann.token)
    assert served["id"] == one
    label_studio.annotate(one, chose("left"), small.ann)
    assert small.now()[one] == (3, True)
    small.apply(goals)
    assert small.now()[one] == (4, False)
    dee = label_studio.sign_up("dee@example.com")
    label_studio.annotate(one, chose("left"), dee)
    assert small.now()[one] == (4, True)
    assert [action for action in small.plan(goals).actions if action.ref == one] == []


def test_the_stream_serves_all_requeued_tasks_and_no_other(
    small: Small, label_studio: Server
) -> None:
    one = small.tasks[2]
    label_studio.delete(f"/api/annotations/{small.answers[one, small.bob.id]}/")
    label_studio.annotate(one, chose("left"), small.ann)
    label_studio.patch(f"/api/tasks/{one}/", {"overlap": 2, "is_labeled": True})
    small.apply(without(small.bob))
    served = []
    for _ in range(3):
        task = label_studio.get(f"/api/projects/{small.id}/next/", token=small.cat.token)["id"]
        served.append(task)
        label_studio.annotate(task, chose("left"), small.cat)
    assert sorted(served) == sorted(set(small.tasks) - {one})
    with pytest.raises(OSError, match="next/: 404"):
        label_studio.get(f"/api/projects/{small.id}/next/", token=small.cat.token)


def test_writing_twice_writes_once_and_undo_puts_everything_back(small: Small) -> None:
    before = small.snapshot()
    done = small.apply(without(small.bob))
    assert kinds(done) == ["relabel", "tab"]
    assert set(small.now().values()) == {(3, False)}
    written = small.snapshot()
    assert small.apply(without(small.bob)) == []
    assert small.snapshot() == written
    small.undo()
    assert small.snapshot() == before
    assert small.undo() == []


def test_a_rater_who_recovers_is_released_where_nobody_has_answered_yet(
    small: Small, label_studio: Server
) -> None:
    small.apply(without(small.bob))
    answered = small.tasks[0]
    label_studio.annotate(answered, chose("left"), small.cat)
    done = small.apply(without())
    assert kinds(done) == ["release"]
    now = small.now()
    assert now.pop(answered) == (3, True)
    assert set(now.values()) == {(2, True)}
    assert label_studio.get(f"/api/dm/views/?project={small.id}") == []
    assert small.apply(without()) == []


def test_a_second_bad_rater_makes_room_for_one_more(small: Small) -> None:
    before = small.snapshot()
    small.apply(without(small.bob))
    small.apply(without(small.ann, small.bob))
    assert set(small.now().values()) == {(4, False)}
    small.apply(without(small.bob))
    assert set(small.now().values()) == {(3, False)}
    small.undo()
    assert small.snapshot() == before


def test_what_people_changed_since_is_left_to_them(small: Small, label_studio: Server) -> None:
    small.apply(without(small.bob))
    theirs = small.tasks[0]
    label_studio.patch(f"/api/tasks/{theirs}/", {"overlap": 7})
    left = [one for one in small.undo() if one.left]
    assert [one.action.target for one in left] == [f"task {theirs}"]
    assert "changed by a user" in str(left[0].left)
    now = small.now()
    assert now.pop(theirs)[0] == 7
    assert set(now.values()) == {(2, True)}


def test_a_tab_that_somebody_deleted_is_not_made_again(small: Small, label_studio: Server) -> None:
    small.apply(without(small.bob))
    (tab,) = label_studio.get(f"/api/dm/views/?project={small.id}")
    assert tab["data"]["title"] == "Second look"
    shown = label_studio.get(f"/api/tasks/?project={small.id}&view={tab['id']}")
    assert shown["total"] == len(small.tasks)
    label_studio.delete(f"/api/dm/views/{tab['id']}/")
    assert small.apply(without(small.bob)) == []
    small.undo()


def test_cancelling_on_request_keeps_the_evidence_and_is_taken_back(
    small: Small, label_studio: Server
) -> None:
    before = small.snapshot()
    done = small.apply(without(small.bob, cancel=True))
    assert kinds(done) == ["cancel", "tab"]
    exported = label_studio.export(small.id)
    cancelled = {a["id"] for task in exported for a in task["annotations"] if a["was_cancelled"]}
    assert cancelled == {small.answers[task, small.bob.id] for task in small.tasks}
    assert set(small.now().values()) == {(2, False)}
    # Bob did answer: were that forgotten, he would be released, excluded, released ...
    with small.opened() as (project, memory):
        told = pull(project, memory)
    assert (told.n_new, told.n_retracted) == (0, 0)
    with Store(small.store, writable=False) as store:
        assert store.counts().n_comparisons == 2 * len(small.tasks)
    assert small.apply(without(small.bob, cancel=True)) == []
    assert small.apply(without(small.bob)) == []
    assert kinds(small.apply(without())) == ["release"]
    assert without_times(small.snapshot(), last_touched) == without_times(before, last_touched)


def test_cancelling_after_relabelling_needs_no_more_room(small: Small) -> None:
    small.apply(without(small.bob))
    small.apply(without(small.bob, cancel=True))
    assert set(small.now().values()) == {(2, False)}
    small.undo()
    assert set(small.now().values()) == {(2, True)}


def test_the_most_informative_tasks_are_served_first(
    label_studio: Server, people: list[User], tmp_path: Path
) -> None:
    small = Small(label_studio, people, tmp_path / "answers.db")
    more = label_studio.tasks(small.id, [pair(a, b) for a, b in ("xy", "yz", "zx", "yx")])
    before = small.snapshot()
    goals = without(information_bits=by_first, n_informative=2)
    plan = small.plan(goals)
    assert plan.actions == ()
    assert "--uncertainty-sampling" in plan.notes[0]

    goals = replace(goals, sampling=True)
    done = small.apply(goals)
    assert [one.action.kind for one in done] == ["predict", "predict", "project"]
    listed = label_studio.get(f"/api/predictions/?project={small.id}")
    assert {(one["task"], one["score"]) for one in listed} == {(more[1], 0.005), (more[3], 0.005)}
    assert all(one["result"] == [] for one in listed)
    for _ in range(2):
        served = label_studio.get(f"/api/projects/{small.id}/next/", token=small.cat.token)["id"]
        assert served in (more[1], more[3])
        for user in (small.cat, people[3]):
            label_studio.annotate(served, chose("left"), user)
    assert small.plan(replace(goals, sampling=False)).actions != ()
    # Those are answered; others take their place, and nothing is posted twice.
    small.apply(replace(goals, sampling=False))
    assert small.apply(replace(goals, sampling=False)) == []
    served = label_studio.get(f"/api/projects/{small.id}/next/", token=small.cat.token)["id"]
    assert served in (more[0], more[2])
    listed = label_studio.get(f"/api/predictions/?project={small.id}")
    assert len(listed) == len({one["task"] for one in listed}) == 4

    small.undo()
    assert label_studio.get(f"/api/predictions/?project={small.id}") == []
    _, _, tabs, project = small.snapshot()
    assert tabs == before[2]
    same = ("model_version", "sampling", "total_predictions_number")
    assert [project[key] for key in same] == [before[3][key] for key in same]


def test_predictions_of_somebody_else_are_left_alone(
    label_studio: Server, people: list[User], tmp_path: Path
) -> None:
    settings = {"sampling": "Uncertainty sampling"}
    small = Small(label_studio, people, tmp_path / "answers.db", **settings)
    (task,) = label_studio.tasks(small.id, [pair("x", "y")])
    body = {"task": task, "result": [], "score": 0.3, "model_version": "theirs"}
    label_studio.post("/api/predictions/", body)
    label_studio.patch(f"/api/projects/{small.id}/", {"model_version": "theirs"})
    plan = small.plan(without(information_bits=by_first))
    assert plan.actions == ()
    assert "'theirs'" in plan.notes[0]


def test_nobody_is_paused_on_the_community_edition(small: Small) -> None:
    assert "pause" not in kinds(small.plan(without(small.bob)).actions)


def test_on_enterprise_an_excluded_rater_is_paused_and_let_go_on(
    small: Small, proxy: Proxy
) -> None:
    """There is no Enterprise server here: the proxy answers for it what the SDK documents."""
    place = f"/api/projects/{small.id}/members/{small.bob.id}/pauses/"
    paused: dict[int, dict[str, Any]] = {}
    others: list[str] = []

    def enterprise(asked: Asked) -> Answer | None:
        if asked.path == "/api/version/":
            return Answer(200, b'{"release": "2.30", "edition": "Enterprise"}')
        if "/pauses/" not in asked.path:
            return None
        if asked.path.startswith(place) and asked.method == "POST":
            paused[7] = {"id": 7, "project": small.id, "user": small.bob.id, "reason": "MANUAL"}
            return Answer(201, json.dumps(paused[7]).encode())
        if asked.path == f"{place}7/" and asked.method == "DELETE":
            del paused[7]
            return Answer(204, b"")
        if asked.path.split("?")[0] != place:
            others.append(asked.path)
        return Answer(200, json.dumps(list(paused.values())).encode())

    small.url, proxy.rule = proxy.url, enterprise
    assert kinds(small.apply(without(small.bob))) == ["pause", "relabel", "tab"]
    assert list(paused) == [7]
    assert small.apply(without(small.bob)) == []
    assert kinds(small.apply(without())) == ["release"]
    assert paused == {}
    # Whom somebody has paused between the plan and the write is paused once.
    plan = small.plan(without(small.bob))
    paused[9] = {"id": 9, "project": small.id, "user": small.bob.id, "reason": "MANUAL"}
    with small.opened() as (project, memory):
        left = [one for one in push.apply(project, memory, plan) if one.left]
    assert [one.action.kind for one in left] == ["pause"]
    assert f"rater {small.bob.id} is already paused" in str(left[0].left)
    small.undo()
    assert list(paused) == [9]
    del paused[9]
    small.apply(without(small.bob))
    small.undo()
    assert paused == {}
    assert others == []


def test_what_may_be_done_alone_keeps_to_its_kinds_and_its_budget(small: Small) -> None:
    policy = Policy(frozenset({"relabel"}), a_day=3)
    plan = small.plan(without(small.bob))
    now = 1_000_000.0
    allowed = policy.allowed(plan, [], now)
    assert kinds(allowed.actions) == ["relabel"]
    assert len(allowed.actions) == 3
    assert "the limit of 3 writes a day" in allowed.notes[-1]
    assert len(policy.allowed(plan, [now - 10, now - 86_401], now).actions) == 2
    with small.opened() as (project, memory):
        list(push.apply(project, memory, allowed))
        assert policy.allowed(plan, memory.written_at(), memory.store.clock()).actions == ()
    assert sorted(small.now().values()) == [(2, True)] + [(3, False)] * 3
    release = small.plan(without())
    assert policy.allowed(release, [], now).actions == release.actions


def test_a_push_needs_a_pull_first(bbq: Bbq, label_studio: Server, small: Small) -> None:
    bbq.store = small.store
    other = label_studio.project(PAIRWISE)
    assert f"bbq pull --project {other}" in bbq("push", other, fails=2)


def test_the_plan_for_people_says_what_and_why(
    bbq: Bbq, label_studio: Server, people: list[User]
) -> None:
    crowd = fill(label_studio, people, n_tasks=120, n_guessers=0)
    bbq.pull(crowd.project)
    shown = bbq("push", crowd.project, "--all")
    assert "nothing is applied yet" in shown
    assert "Second look" in shown
    assert "--apply applies this plan" in bbq.said[-1]
    plan = bbq.push(crowd.project)
    assert plan["schema"] == "bbq.push/1"
    (bad,) = crowd.bad
    reasons = {one["reason"] for one in plan["actions"] if one["kind"] == "relabel"}
    said = rf"it has 2 of 3 answers without rater {bad}; chance to change the result \d+%"
    assert reasons
    assert all(re.fullmatch(said, reason) for reason in reasons)
    only = bbq.push(crowd.project, "--only", "tab")
    assert kinds_of(only) == {"tab"}


def kinds_of(document: dict[str, Any]) -> set[str]:
    return {action["kind"] for action in document["actions"]}


def test_undo_names_the_write_that_was_left_and_not_the_one_put_back(
    bbq: Bbq, small: Small, label_studio: Server
) -> None:
    small.apply(without(small.bob))
    theirs = small.tasks[0]
    label_studio.patch(f"/api/tasks/{theirs}/", {"overlap": 9})
    small.apply(without(small.bob))
    assert small.now()[theirs] == (10, False)
    bbq.store = small.store
    undone = bbq.push(small.id, "--undo")
    writes = [one for one in undone["actions"] if one["target"] == f"task {theirs}"]
    assert [(one["after"]["overlap"], one["left"] is None) for one in writes] == [
        (10, True),
        (3, False),
    ]
    assert "changed by a user" in writes[1]["left"]
    assert small.now()[theirs][0] == 9
