"""`bbq serve` and `bbq connect` on a real server: told, on the page; stopped, and caught up."""

from __future__ import annotations

import subprocess
from functools import partial
from typing import TYPE_CHECKING

import pytest

from bbq_plugin.store import Store
from bbq_plugin.store.project_sync import standing
from bbq_plugin.store.store import records_of
from tests.browsing import text_of
from tests.live.label_studio.server import BANNED, _free_port
from tests.live.label_studio.study import CHOICES, PAIRWISE, chose, fill, pair, ticked
from tests.live.server.serving import SECRET, Serving, run, serving
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from selenium import webdriver

    from tests.live.label_studio.server import Server, User

ITEMS = ("model-a", "model-b", "model-c")
PAGE_TOKEN = "a-token-of-the-page-0123456789"  # noqa: S105


def made(server: Server, n: int = 6) -> tuple[int, list[int]]:
    """A project with tasks."""
    project = server.project(PAIRWISE)
    pairs = [pair(ITEMS[k % 3], ITEMS[(k + 1) % 3]) for k in range(n)]
    return project, server.tasks(project, pairs)


def variables(server: Server) -> dict[str, str]:
    return {"LABEL_STUDIO_URL": server.url, "LABEL_STUDIO_API_KEY": server.token}


def run_connect(server: Server, project: int, address: str) -> subprocess.CompletedProcess[str]:
    words = ("connect", "--project", str(project), "--serve-url", address)
    return run(*words, **variables(server), BBQ_WEBHOOK_SECRET=SECRET)


def connected(server: Server, project: int, here: Serving) -> None:
    done = run_connect(server, project, here.url)
    assert done.returncode == 0, done.stderr
    assert "an event has arrived" in done.stdout


def test_every_event_of_the_server_reaches_the_page_and_no_secret_does(
    label_studio: Server, tmp_path: Path
) -> None:
    project, tasks = made(label_studio)
    with serving(tmp_path / "state.db") as here:
        connected(label_studio, project, here)
        first = label_studio.annotate(tasks[0], chose("left"))
        for task in tasks[1:4]:
            label_studio.annotate(task, chose("left"))
        here.wait_for(4)
        label_studio.patch(f"/api/annotations/{first}/", {"result": chose("right")})
        here.wait_until(lambda: "ANNOTATION_UPDATED" in here.ask("/log").text, "the change")
        label_studio.patch(f"/api/annotations/{first}/", {"was_cancelled": True})
        here.wait_for(3)
        second = label_studio.annotate(tasks[4], chose("left"))
        here.wait_for(4)
        label_studio.delete(f"/api/annotations/{second}/")
        here.wait_for(3)
        label_studio.delete(f"/api/tasks/{tasks[1]}/")
        here.wait_for(2)
        told = label_studio.get(f"/api/projects/{project}/")
        pages = "".join(here.ask(path).text for path in ("/", "/raters", "/log"))
        assert here.stop() == 0
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for secret in filter(None, (label_studio.token, told.get("token"), SECRET)):
        assert secret.encode() not in held
        assert secret not in here.log
        assert secret not in pages


def test_every_annotation_reaches_an_open_page_in_the_browser(
    label_studio: Server, browser: webdriver.Chrome, tmp_path: Path
) -> None:
    project, tasks = made(label_studio, 10)
    with serving(tmp_path / "state.db") as here:
        connected(label_studio, project, here)
        browser.get(here.url)
        for n, task in enumerate(tasks, 1):
            label_studio.annotate(task, chose("left"))
            here.wait_until(partial(_shows, browser, n), f"{n} answers on the page")


def _shows(browser: webdriver.Chrome, n: int) -> bool:
    return text_of(browser, "n") == str(n)


def test_tasks_have_scores_after_a_restart_though_no_event_came(
    label_studio: Server, tmp_path: Path
) -> None:
    store = tmp_path / "state.db"
    project, tasks = made(label_studio, 7)
    for task in tasks[:6]:
        label_studio.annotate(task, chose("left"))
    options = ("--project", str(project), "--reconcile", "1h")
    shown = label_studio.get(f"/api/tasks/{tasks[6]}/")
    asked = {"tasks": [{"id": tasks[6], "data": shown["data"]}], "project": f"{project}.1"}
    with serving(store, *options, **variables(label_studio)) as here:
        here.wait_for(6)
    # Neither a pull nor an event since the start: what the store knows has to do.
    with serving(store) as here:
        here.wait_for(6)
        (found,) = here.send(asked, path="/predict").json()["results"]
        assert 0 <= found["score"] <= 1
        # And Label Studio itself gets it, from a model that was started again.
        body = {
            "project": project, "title": "bbq", "auth_method": "BASIC_AUTH",
            "url": here.url.replace("http://", f"http://bbq:{SECRET}@"),
            "basic_auth_user": "bbq", "basic_auth_pass": SECRET,
        }  # fmt: skip
        assert label_studio.post("/api/ml/", body)["state"] == "CO"
        label_studio.patch(
            f"/api/projects/{project}/", {"evaluate_predictions_automatically": True}
        )
        predicted = wait_until(
            lambda: label_studio.get(f"/api/tasks/{tasks[6]}/?project={project}")["predictions"],
            "a prediction",
        )
        assert predicted[0]["score"] == pytest.approx(found["score"])


def test_a_second_answer_to_a_task_counts_at_once_as_a_pull_has_it(
    label_studio: Server, tmp_path: Path
) -> None:
    project, tasks = made(label_studio, 3)
    store, pulled = tmp_path / "state.db", tmp_path / "pulled.db"
    options = ("--project", str(project), "--reconcile", "1h")
    with serving(store, *options, **variables(label_studio)) as here:
        connected(label_studio, project, here)
        for task in tasks:
            label_studio.annotate(task, chose("left"))
        here.wait_for(3)
        second = label_studio.annotate(tasks[0], chose("right"))
        label_studio.annotate(tasks[1], chose("right"))
        here.wait_until(lambda: "later answer" in here.ask("/log").text, "the first answers' end")
        here.wait_for(3)
        words = ("pull", "--project", str(project), "--store", str(pulled))
        assert run(*words, **variables(label_studio)).returncode == 0
        wait_until(lambda: answers(store) == answers(pulled), "the same answers")
        # The earlier one counts again when the later one goes.
        label_studio.delete(f"/api/annotations/{second}/")
        assert run(*words, **variables(label_studio)).returncode == 0
        assert f"ls:{project}:{second}" not in answers(pulled)
        wait_until(lambda: answers(store) == answers(pulled), "the earlier answer again")
        here.wait_for(3)


def answers(store: Path) -> dict[str, str]:
    with Store(store, writable=False) as opened:
        return {record.key: record.outcome for record in records_of(opened)}


def test_running_connect_again_renews_the_same_webhook(
    label_studio: Server, tmp_path: Path
) -> None:
    project, _ = made(label_studio, 1)
    with serving(tmp_path / "state.db") as here:
        connected(label_studio, project, here)
        connected(label_studio, project, here)
        assert len(label_studio.get(f"/api/webhooks/?project={project}")) == 1
        # An address at which nobody listens is found out, and nothing is left behind.
        done = run_connect(label_studio, project, "http://127.0.0.1:9/")
        assert done.returncode == 1
        assert "cannot be reached" in done.stderr
        assert len(label_studio.get(f"/api/webhooks/?project={project}")) == 1


def test_what_was_annotated_while_nobody_listened_is_not_missing(
    label_studio: Server, tmp_path: Path
) -> None:
    store = tmp_path / "state.db"
    project, tasks = made(label_studio)
    # The webhook knows one address: the second start is at the same.
    port = str(_free_port())
    options = ("--project", str(project), "--reconcile", "1h", "--port", port)
    with serving(store, *options, **variables(label_studio)) as here:
        connected(label_studio, project, here)
        first = label_studio.annotate(tasks[0], chose("left"))
        label_studio.annotate(tasks[1], chose("left"))
        here.wait_for(2)
    label_studio.annotate(tasks[2], chose("right"))
    label_studio.delete(f"/api/annotations/{first}/")
    label_studio.annotate(tasks[3], chose("left"))
    with serving(store, *options, **variables(label_studio)) as here:
        here.wait_for(3)
        # Tasks that are imported with answers are told without them: a pull brings these.
        answer = {"result": chose("left"), "completed_by": 1}
        body = [{"data": pair("model-a", "model-c"), "annotations": [answer]}]
        label_studio.post(f"/api/projects/{project}/import", body)
        here.wait_for(4)


def test_a_server_that_is_down_is_waited_for(tmp_path: Path) -> None:
    token = "a" * 40
    away = {"LABEL_STUDIO_URL": "http://127.0.0.1:9", "LABEL_STUDIO_API_KEY": token}
    options = ("--project", "1", "--reconcile", "1h")
    with serving(tmp_path / "state.db", *options, **away) as here:
        here.wait_until(lambda: " server_failed " in here.log, "word of it")
        # Meanwhile events are taken.
        assert here.ask("/").status == 200
    assert token not in here.log


def test_it_can_be_connected_as_a_model_in_the_settings(
    label_studio: Server, tmp_path: Path
) -> None:
    project, tasks = made(label_studio)
    with serving(tmp_path / "state.db") as here:
        # The webhook that Label Studio makes for a model carries nothing but its address.
        body = {
            "project": project,
            "title": "bbq",
            "url": here.url.replace("http://", f"http://bbq:{SECRET}@"),
            "auth_method": "BASIC_AUTH",
            "basic_auth_user": "bbq",
            "basic_auth_pass": SECRET,
        }
        backend = label_studio.post("/api/ml/", body)
        assert backend["state"] == "CO", backend
        for task in tasks[:5]:
            label_studio.annotate(task, chose("left"))
        here.wait_for(5)
        # Opening a task asks the model: the answer is a score and no result.
        label_studio.patch(
            f"/api/projects/{project}/", {"evaluate_predictions_automatically": True}
        )
        predicted = wait_until(
            lambda: label_studio.get(f"/api/tasks/{tasks[5]}/?project={project}")["predictions"],
            "a prediction",
        )
        assert predicted[0]["result"] == []
        assert 0 <= predicted[0]["score"] <= 1
        first = predicted[0]["model_version"]
        assert first.startswith("bbq 20")
        # The version changes with the fit: "Retrieve Predictions" brings new scores each time.
        label_studio.annotate(tasks[0], chose("right"))
        here.wait_until(lambda: here.send({}, path="/setup").json() != {"model_version": first},
                        "another fit")  # fmt: skip
        action = f"/api/dm/actions?id=retrieve_tasks_predictions&project={project}"
        label_studio.post(action, {"selectedItems": {"all": False, "included": [tasks[5]]}})
        listed = label_studio.get(f"/api/predictions/?task={tasks[5]}")
        assert len({one["model_version"] for one in listed}) == len(listed) == 2


def test_the_next_task_is_another_once_answers_make_another_pair_the_most_informative(
    label_studio: Server, tmp_path: Path
) -> None:
    sampling = {"sampling": "Uncertainty sampling"}
    project = label_studio.project(PAIRWISE, **sampling)
    close = label_studio.tasks(project, [pair("model-b", "model-c")] * 8)
    new = label_studio.tasks(project, [pair("model-a", "model-b")] * 12)

    def served() -> int:
        # Once: the task is locked for this user until it is answered.
        return int(label_studio.get(f"/api/projects/{project}/next/")["id"])

    def scores() -> dict[int, float]:
        listed = label_studio.get(f"/api/predictions/?project={project}")
        # Old scores are replaced: no task has two.
        assert len({one["task"] for one in listed}) == len(listed)
        return {one["task"]: one["score"] for one in listed}

    for n, task in enumerate(close[:6]):
        label_studio.annotate(task, chose("left" if n % 2 else "right"))
    words = ("--project", str(project), "--reconcile", "1h", "--push", "--push-every-s", "0.2",
             "--auto-apply", "predict", "--daily-budget", "20")  # fmt: skip
    with serving(tmp_path / "state.db", *words, **variables(label_studio)) as here:
        connected(label_studio, project, here)
        # No answer names model-a yet: the tasks that show it come first, whatever the others are.
        here.wait_until(
            lambda: len(found := scores()) == 14 and min(found, key=lambda t: found[t]) in new,
            "scores of the open tasks by all answers",
        )
        # The last thing that is written: tasks are served by these scores from then on.
        here.wait_until(
            lambda: label_studio.get(f"/api/projects/{project}/")["model_version"],
            "a project that serves by the scores",
        )
        first = served()
        assert first in new
        # Now model-a is far ahead, and the other two are as close as before.
        rest = [task for task in new if task != first]
        for task in (first, *rest[:9]):
            label_studio.annotate(task, chose("left"))
        here.wait_until(lambda: scores()[close[7]] < scores()[rest[10]], "new scores")
        assert served() in close
        # New scores of our own are no part of the limit.
    with Store(tmp_path / "state.db", writable=False) as opened:
        assert standing(opened, "label-studio", project).kinds == {"predict": 14, "project": 1}


def test_the_plan_on_the_page_is_dry_until_somebody_with_the_token_carries_it_out(
    label_studio: Server, people: list[User], tmp_path: Path
) -> None:
    crowd = fill(label_studio, people, n_tasks=200)
    store = tmp_path / "state.db"
    options = ("--project", str(crowd.project), "--reconcile", "1h")
    with serving(store, *options, **variables(label_studio), BBQ_PAGE_TOKEN=PAGE_TOKEN) as here:
        here.wait_for(600)
        before = label_studio.export(crowd.project)
        form = {"Origin": here.url, "Content-Type": "application/x-www-form-urlencoded"}
        assert here.ask("/feedback/dry-run", b"", form).status == 303
        page = wait_until(lambda: _planned(here), "a plan")
        assert "relabel" in page
        assert "read-only" in page
        assert label_studio.export(crowd.project) == before
        login = here.ask("/login", f"token={PAGE_TOKEN}".encode(), form)
        cookie = login.headers["set-cookie"].split(";")[0]
        assert "HttpOnly" in login.headers["set-cookie"]
        mark = here.ask("/feedback", headers={"Cookie": cookie}).text.split('name="plan" value="')
        plan = mark[1].split('"')[0]
        wrong = here.ask("/feedback/apply", b"plan=another", {**form, "Cookie": cookie})
        assert wrong.status == 303
        assert label_studio.export(crowd.project) == before
        here.ask("/feedback/apply", f"plan={plan}".encode(), {**form, "Cookie": cookie})
        here.wait_until(lambda: "were applied" in here.ask("/feedback").text, "the plan's end")
    after = label_studio.export(crowd.project)
    reopened = {t["id"] for t, b in zip(after, before, strict=True) if t != b}
    assert reopened
    assert reopened <= {task for task, raters in crowd.answered.items() if crowd.bad & set(raters)}


def _planned(here: Serving) -> str:
    page = here.ask("/feedback").text
    return page if "planned at" in page and "Working" not in page else ""


def test_a_server_that_protects_its_network_is_explained(
    label_studio: Server, tmp_path: Path
) -> None:
    project, _ = made(label_studio, 1)
    with serving(tmp_path / "state.db", "--host", BANNED) as here:
        done = run_connect(label_studio, project, here.url)
    assert done.returncode == 1
    assert "LABEL_STUDIO_SSRF_PROTECTION_ENABLED=false" in done.stderr
    assert label_studio.get(f"/api/webhooks/?project={project}") == []


def test_a_check_shows_what_connect_would_do_and_writes_nothing(
    label_studio: Server, people: list[User], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    project = label_studio.project(CHOICES, "Preferences")
    (task,) = label_studio.tasks(project, [{"prompt": "p", "left": "gpt", "right": "llama"}])
    label_studio.annotate(task, ticked("Tie"), people[0])
    before = label_studio.get(f"/api/projects/{project}/")
    words = ("connect", "--project", str(project), "--check", "--items", "left,right")
    done = run(*words, **variables(label_studio))
    assert done.returncode == 0, done.stderr
    for shown in (
        "control 'preference' (Choices", "items named by left and right",
        "Labels: 'Left is better' = left, 'Right is better' = right, 'Tie' = tie",
        "Study main: 1 comparison, 1 rater, 2 items: gpt, llama",
        "Would register a webhook: http://127.0.0.1:8765/webhook/label-studio",
        "Nothing was written.",
    ):  # fmt: skip
        assert shown in done.stdout, done.stdout
    assert "no secret is set" in done.stderr
    assert label_studio.get(f"/api/webhooks/?project={project}") == []
    assert label_studio.get(f"/api/projects/{project}/") == before
    assert not list(tmp_path.iterdir())


def test_a_mistyped_address_binds_no_store(label_studio: Server, tmp_path: Path) -> None:
    project, _ = made(label_studio)
    words = ("pull", "--project", str(project), "--store", str(tmp_path / "s.db"))
    wrong = run(*words, "--url", f"http://127.0.0.1:{_free_port()}", "--timeout", "1",
                LABEL_STUDIO_API_KEY=label_studio.token)  # fmt: skip
    assert wrong.returncode == 1
    right = run(*words, **variables(label_studio))
    assert right.returncode == 0, right.stderr
