"""`serve --push` and `watch --push` on a real server: planned, and only what is allowed written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from bbq_plugin.cli import main
from bbq_plugin.data.records import Policy, kinds_of
from bbq_plugin.live.push import act
from bbq_plugin.store import Store
from bbq_plugin.store.project_sync import Memory
from tests.live.label_studio.faults import Answer, Asked, Proxy
from tests.live.label_studio.small import Small, without
from tests.live.label_studio.study import Bbq, chose, fill
from tests.live.label_studio.test_serve import connected
from tests.live.server.serving import Serving, run, serving
from tests.live.watch.running import Nursery, Place, put

if TYPE_CHECKING:
    from pathlib import Path

    from tests.live.label_studio.server import Server, User

WRITES = ("PATCH", "PUT", "DELETE")


def state(server: Server, project: int) -> dict[int, tuple[int, bool]]:
    """Overlap and is_labeled of every task."""
    listed = server.get(f"/api/tasks/?project={project}&page_size=1000")["tasks"]
    return {task["id"]: (task["overlap"], task["is_labeled"]) for task in listed}


def relabelled(plan: dict[str, Any]) -> dict[int, tuple[int, bool]]:
    """What the tasks are after the plan of a push."""
    return {
        int(one["target"].split()[1]): (one["after"]["overlap"], one["after"]["is_labeled"])
        for one in plan["actions"]
        if one["kind"] == "relabel"
    }


def said(here: Serving, what: str) -> None:
    here.wait_until(lambda: what in here.log, f"{what!r} in the log")


def test_serve_plans_alone_and_writes_only_what_is_allowed_within_its_budget(
    label_studio: Server, people: list[User], proxy: Proxy, tmp_path: Path
) -> None:
    crowd = fill(label_studio, people[:10], n_tasks=75, n_guessers=0)
    place = {"LABEL_STUDIO_URL": proxy.url, "LABEL_STUDIO_API_KEY": label_studio.token}
    store = tmp_path / "state.db"
    project = ("--project", str(crowd.project))
    push = (*project, "--push", "--push-every-s", "0.3")
    bbq = Bbq(label_studio, store, url=proxy.url)
    before, tasks = label_studio.export(crowd.project), state(label_studio, crowd.project)

    # Without a word more it is a dry run, on the page too.
    with serving(store, *push, "--reconcile", "1h", **place) as here:
        said(here, 'feedback planned="relabel ')
        page = here.ask("/feedback").text
        assert "Nothing is written automatically" in page
        assert "planned at" in page
    plan = bbq.push(crowd.project)
    wanted = relabelled(plan)
    assert len(wanted) > 5
    assert f"relabel {len(wanted)}, tab 1" in here.log
    assert label_studio.export(crowd.project) == before
    assert label_studio.get(f"/api/dm/views/?project={crowd.project}") == []
    assert not [one for one in proxy.asked if one.method in WRITES]

    # A fault of Label Studio stops nothing, costs nothing of the budget, and passes.
    alone = (*push, "--auto-apply", "relabel", "--daily-budget", "5")
    proxy.rule = lambda asked: Answer(400) if asked.method in WRITES else None
    with serving(store, *alone, **place) as here:
        connected(label_studio, crowd.project, here)
        said(here, " feedback_failed ")
        assert here.ask("/feedback").status == 200
        proxy.rule = lambda _: None
        said(here, 'feedback done="relabel 5"')
        assert "at most 5 writes in 24 hours" in here.ask("/feedback").text
        # What comes back by the webhook is of our own making, and changes no answer.
        assert here.n() == 225
    first = dict(list(wanted.items())[:5])
    assert state(label_studio, crowd.project) == tasks | first
    writes = len(proxy.asked)

    # The next round has nothing left of the budget; another kind is never written.
    with serving(store, *alone, **place) as here:
        said(here, f'feedback planned="relabel {len(wanted) - 5}, tab 1"')
        assert "the limit of 5 writes" in here.ask("/feedback").text.lower()
    assert not [one for one in proxy.asked[writes:] if one.method in WRITES]
    assert state(label_studio, crowd.project) == tasks | first

    with serving(
        store, *push, "--auto-apply", "relabel", "--daily-budget", "1000", **place
    ) as here:
        said(here, f'feedback done="relabel {len(wanted) - 5}"')
        said(here, 'planned="tab 1"')
    assert state(label_studio, crowd.project) == tasks | wanted
    assert label_studio.get(f"/api/dm/views/?project={crowd.project}") == []
    assert label_studio.token not in here.log
    # All of it is on record, for --undo.
    with Store(store, writable=False) as opened:
        entries = Memory(opened, "label-studio", crowd.project, proxy.url).entries()
    assert {int(one.action.ref or 0) for one in entries if one.state == "done"} == set(wanted)


def test_what_was_done_alone_is_taken_back_alone_when_a_rater_recovers(small: Small) -> None:
    before = small.now()
    policy = Policy(kinds_of(["relabel"]), a_day=8)
    with small.opened() as (project, memory):
        done = act(project, memory, without(small.bob), policy)
        assert (done.n_done, [one.kind for one in done.plan.actions]) == (4, ["tab"])
        again = act(project, memory, without(small.bob), policy)
        assert (again.n_done, again.short) == (0, False)
        back = act(project, memory, without(), policy)
        assert {one.action.kind for one in back.done} == {"release"}
        assert back.plan.actions == ()
        # Four written and four taken back: that is the budget.
        last = act(project, memory, without(small.bob), policy)
        assert (last.n_done, last.short) == (0, True)
    assert small.now() == before


def test_stopping_ends_after_the_action_in_hand_and_the_rest_is_not_lost(small: Small) -> None:
    policy = Policy(kinds_of(["relabel"]))
    asked = 0

    def stopping() -> bool:
        nonlocal asked
        asked += 1
        return asked > 2

    with small.opened() as (project, memory):
        cut = act(project, memory, without(small.bob), policy, stopping)
        assert cut.n_done == 2
    with small.opened() as (project, memory):
        assert act(project, memory, without(small.bob), policy).n_done == 2
    assert set(small.now().values()) == {(3, False)}


def exported(server: Server, project: int) -> str:
    return json.dumps(server.export(project))


def test_watch_reads_on_while_label_studio_refuses_and_then_plans(
    label_studio: Server, people: list[User], proxy: Proxy, tmp_path: Path
) -> None:
    crowd = fill(label_studio, people[:10], n_tasks=75, n_guessers=0)
    before = state(label_studio, crowd.project)
    token = tmp_path / "token"
    token.write_text(label_studio.token)
    nursery = Nursery()
    more = {"project": crowd.project, "url": proxy.url, "token_file": token}
    place = Place(nursery, tmp_path, push=True, push_every_s=0.3, **more)

    def refuse(_: Asked) -> Answer:
        return Answer(401)

    proxy.rule = refuse
    try:
        place.start()
        put(place.folder / "first.json", exported(label_studio, crowd.project))
        place.await_count(225)
        place.await_said("feedback_failed")
        label_studio.annotate(crowd.tasks[0], chose("left"), people[0])
        put(place.folder / "second.json", exported(label_studio, crowd.project))
        place.await_said("file_read", n=2)
        proxy.rule = lambda _: None
        told = place.await_said("feedback")
        assert "relabel" in told["planned"]
        assert "done" not in told
        assert place.end() == 0
    finally:
        if place.pid is not None:
            place.end()
        nursery.close()
    assert {k: v for k, v in state(label_studio, crowd.project).items() if k != crowd.tasks[0]} == {
        k: v for k, v in before.items() if k != crowd.tasks[0]
    }
    assert label_studio.token not in place.log.read_text()


def test_watch_once_writes_what_bbq_push_would_within_the_budget(
    label_studio: Server, people: list[User], tmp_path: Path
) -> None:
    crowd = fill(label_studio, people[:10], n_tasks=75, n_guessers=0, seed=3)
    before = state(label_studio, crowd.project)
    folder, store, out = tmp_path / "in", tmp_path / "state.db", tmp_path / "out"
    put(folder / "export.json", exported(label_studio, crowd.project))
    place = {"LABEL_STUDIO_URL": label_studio.url, "LABEL_STUDIO_API_KEY": label_studio.token}
    words = ["watch", str(folder), "--store", str(store), "--out", str(out), "--once"]
    words += ["--write", "raters.csv", "--settle-s", "0", "--log-format", "json"]
    push = ["--push", "--project", str(crowd.project)]
    done = run(*words, *push, **place)
    assert done.returncode == 0, done.stderr
    # The export is read, and no pull has told which items a task shows.
    assert "it is not known whether new answers can change the result" in done.stderr
    assert state(label_studio, crowd.project) == before
    wanted = relabelled(Bbq(label_studio, store).push(crowd.project))
    assert len(wanted) > 4
    for _ in range(2):
        alone = ["--auto-apply", "relabel", "--daily-budget", "4"]
        done = run(*words, *push, *alone, **place)
        assert done.returncode == 0, done.stderr
        assert state(label_studio, crowd.project) == before | dict(list(wanted.items())[:4])
    assert f'"planned": "relabel {len(wanted) - 4}, tab 1"' in done.stderr


def test_what_does_not_go_together_is_refused_before_anything_starts(tmp_path: Path) -> None:
    nowhere = {"LABEL_STUDIO_URL": None, "LABEL_STUDIO_API_KEY": None}
    store = ("--store", str(tmp_path / "state.db"))
    folder = ("watch", str(tmp_path), *store, "--out", str(tmp_path / "out"), "--once")
    for words, reason in [
        (("serve", *store, "--push"), "--project"),
        (("serve", *store, "--project", "5", "--auto-apply", "relabel"), "--push"),
        (("serve", *store, "--project", "5", "--push", "--auto-apply", "cancel"), "'cancel'"),
        (
            ("serve", *store, "--project", "5", "--push", "--port", "0"),
            "address of the server is not known",
        ),
        ((*folder, "--push"), "--project"),
        ((*folder, "--auto-apply", "relabel"), "--push"),
        ((*folder, "--push", "--project", "5"), "address of the server is not known"),
    ]:
        done = CliRunner(env=nowhere).invoke(main, words, prog_name="bbq")
        assert done.exit_code == 2, (words, done.output)
        assert reason in done.stderr


def test_push_plans_with_the_model_of_bbq_toml_as_serve_does(
    label_studio: Server, people: list[User], tmp_path: Path
) -> None:
    """bbq excludes a rater who answers upside down; bbq-signed turns the answers round."""
    crowd = fill(label_studio, people[:10], n_tasks=75, n_guessers=0)
    (inverted,) = crowd.inverted
    place = {"LABEL_STUDIO_URL": label_studio.url, "LABEL_STUDIO_API_KEY": label_studio.token}
    bbq = Bbq(label_studio, tmp_path / "state.db")
    bbq.pull(crowd.project)
    file = tmp_path / "ours.toml"
    file.write_text(
        '[model]\nmodel = "bbq-signed"\n[raters]\nleast = 5\n'
        f"[feedback]\npush = true\nproject = {crowd.project}\npush_every_s = 0.3\n"
    )
    config = ("--config", str(file))
    with serving(bbq.store, *config, **place) as here:
        said(here, 'feedback planned="tab 1"')
    planned = bbq.push(crowd.project, *config)["actions"]
    assert [(one["kind"], one["target"]) for one in planned] == [("tab", "tab Spot check")]
    assert bbq.push(crowd.project, "--model", "bbq-signed")["actions"] == planned

    # What is typed counts first.
    for words in ((), (*config, "--model", "bbq", "--least", "10")):
        (tab,) = (one for one in bbq.push(crowd.project, *words)["actions"] if one["kind"] == "tab")
        assert tab["target"] == "tab Second look"
        assert [str(one["value"]) for one in tab["after"]["filters"]["items"]] == [inverted]
    # Nobody has so many answers, so nobody is excluded, and no task needs others.
    few = bbq.push(crowd.project, "--least", "1000")["actions"]
    assert [one["target"] for one in few] == ["tab Spot check"]
    file.write_text("[raters]\nleast = 1000\n")
    assert bbq.push(crowd.project, *config)["actions"] == few
    file.write_text('[model]\nmodel = "crowd-bt"\n')
    assert "bbq push judges raters" in bbq("push", crowd.project, *config, fails=2)
