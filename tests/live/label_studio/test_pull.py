"""`bbq pull` on a real server: what comes in, what goes again, and what a user is told."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from bbq_adapters.label_studio import server_project
from click.testing import CliRunner

import bbq_plugin
from bbq_plugin.cli import main
from bbq_plugin.data.files import records
from bbq_plugin.live.pull import pull
from bbq_plugin.plugins import tool
from bbq_plugin.protocols import ProjectAddress
from bbq_plugin.store import Store, read_store
from bbq_plugin.store.project_sync import Memory
from bbq_plugin.store.store import records_of
from tests.live.label_studio.study import CHOICES, PAIRWISE, Bbq, chose, pair, ticked

if TYPE_CHECKING:
    from pathlib import Path

    from bbq_plugin.data.records import Comparison
    from bbq_plugin.live.pull import Pulled
    from tests.live.label_studio.server import Server, User


def answers(bbq: Bbq) -> dict[str, Comparison]:
    """What the store holds, by key."""
    with Store(bbq.store, writable=False) as store:
        return {record.key: record for record in records_of(store)}


@pytest.fixture(scope="module")
def small(label_studio: Server, people: list[User]) -> tuple[int, list[int]]:
    """A project that tests only read: five tasks, of which four are answered."""
    project = label_studio.project(PAIRWISE, "Small", maximum_annotations=2)
    tasks = label_studio.tasks(project, [pair("x", "y"), pair("y", "z")] * 2 + [pair("z", "x")])
    for task in tasks[:4]:
        for user in people[:2]:
            label_studio.annotate(task, chose("left"), user)
    return project, tasks


def test_a_pull_holds_what_the_export_holds(
    bbq: Bbq, label_studio: Server, small: tuple[int, list[int]], tmp_path: Path
) -> None:
    project, _ = small
    told = bbq.pull(project)
    assert (told["n_new"], told["n_comparisons"]) == (8, 8)
    assert "control 'pw' (Pairwise of a and b)" in told["found"]
    assert "items named by model1 and model2" in told["found"]
    file = tmp_path / "export.json"
    file.write_text(json.dumps(label_studio.export(project)))
    assert read_store(bbq.store).digest == bbq_plugin.read(file).digest
    exported = {
        record.key: record for record in _records(file) if isinstance(record, bbq_plugin.Comparison)
    }
    assert answers(bbq) == exported


def _records(file: Path) -> list[object]:

    return list(records(file, "label-studio"))


def test_a_second_pull_reads_nothing_again(bbq: Bbq, small: tuple[int, list[int]]) -> None:
    project, _ = small
    bbq.pull(project)
    again = bbq.pull(project)
    assert (again["n_tasks"], again["n_new"], again["n_changed"]) == (0, 0, 0)


def test_pages_of_one_task_give_the_same(bbq: Bbq, small: tuple[int, list[int]]) -> None:
    project, _ = small
    assert bbq.pull(project, "--page-size", "1")["n_new"] == 8


def test_edits_deletions_and_new_answers_arrive(
    bbq: Bbq, label_studio: Server, people: list[User]
) -> None:
    project = label_studio.project(PAIRWISE, maximum_annotations=3)
    tasks = label_studio.tasks(project, [pair("x", "y")] * 5)
    made = [label_studio.annotate(task, chose("left"), people[0]) for task in tasks[:4]]
    assert bbq.pull(project)["n_new"] == 4

    label_studio.patch(f"/api/annotations/{made[0]}/", {"result": chose("right")})
    label_studio.delete(f"/api/annotations/{made[1]}/")
    label_studio.patch(f"/api/annotations/{made[2]}/", {"was_cancelled": True})
    label_studio.delete(f"/api/tasks/{tasks[3]}/")
    new = label_studio.annotate(tasks[4], chose("right"), people[1])
    told = bbq.pull(project)

    found = answers(bbq)
    assert set(found) == {f"ls:{project}:{made[0]}", f"ls:{project}:{new}"}
    assert found[f"ls:{project}:{made[0]}"].outcome == "right"
    assert (told["n_new"], told["n_changed"], told["n_retracted"]) == (1, 1, 3)
    assert bbq.pull(project)["n_tasks"] == 0


def test_ground_truth_arrives_on_the_other_answers_of_its_task_and_goes_again(
    bbq: Bbq, label_studio: Server, people: list[User], tmp_path: Path
) -> None:
    project = label_studio.project(PAIRWISE, maximum_annotations=3)
    (task,) = label_studio.tasks(project, [pair("x", "y")])
    truth, right, wrong = (
        label_studio.annotate(task, chose(side), user)
        for side, user in zip(("left", "left", "right"), people, strict=False)
    )

    def gold() -> dict[int, str | None]:
        bbq.pull(project)
        file = tmp_path / "export.json"
        file.write_text(json.dumps(label_studio.export(project)))
        exported = [r for r in _records(file) if isinstance(r, bbq_plugin.Comparison)]
        assert answers(bbq) == {record.key: record for record in exported}
        return {int(r.key.split(":")[2]): (r.tags or {}).get("gold") for r in exported}

    assert gold() == {truth: None, right: None, wrong: None}
    label_studio.patch(f"/api/annotations/{truth}/", {"ground_truth": True})
    assert gold() == {truth: "truth", right: "left", wrong: "left"}
    data = read_store(bbq.store)
    assert data.answers is not None
    assert data.answers.gold is not None
    assert sorted(data.answers.gold.tolist()) == [-1, 0, 1]
    label_studio.patch(f"/api/annotations/{truth}/", {"ground_truth": False})
    assert gold() == {truth: None, right: None, wrong: None}


def test_an_answer_counts_again_when_the_later_one_in_its_place_is_deleted(
    bbq: Bbq, label_studio: Server, people: list[User]
) -> None:
    project = label_studio.project(PAIRWISE, maximum_annotations=3)
    (task,) = label_studio.tasks(project, [pair("x", "y")])
    first = label_studio.annotate(task, chose("left"), people[0])
    later = label_studio.annotate(task, chose("right"), people[0])
    bbq.pull(project)
    assert set(answers(bbq)) == {f"ls:{project}:{later}"}
    label_studio.delete(f"/api/annotations/{later}/")
    bbq.pull(project)
    assert set(answers(bbq)) == {f"ls:{project}:{first}"}


def test_what_changes_behind_a_pull_that_is_under_way_comes_with_the_next_one(
    label_studio: Server, people: list[User], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if the pull took longer than a change may be late.
    monkeypatch.setattr(server_project, "_OVERLAP", timedelta(0))
    project = label_studio.project(PAIRWISE, maximum_annotations=3)
    tasks = label_studio.tasks(project, [pair("x", "y")] * 6)
    made = [label_studio.annotate(task, chose("left"), people[0]) for task in tasks]
    opened = tool().open(ProjectAddress(label_studio.url, label_studio.token, project, page_size=2))

    def edit(done: Pulled) -> None:
        if done.n_pages == 1:
            for number in (made[0], made[-1]):
                label_studio.patch(f"/api/annotations/{number}/", {"result": chose("right")})

    with Store(tmp_path / "s.db") as store, closing(opened):
        memory = Memory(store, "label-studio", project, label_studio.url)
        pull(opened, memory, progress=edit)
        pull(opened, memory)
        found = {record.key: record.outcome for record in records_of(store)}
    assert found[f"ls:{project}:{made[0]}"] == "right"
    assert found[f"ls:{project}:{made[-1]}"] == "right"


def test_everything_reads_all_again_and_changes_nothing(
    bbq: Bbq, small: tuple[int, list[int]]
) -> None:
    project, tasks = small
    bbq.pull(project)
    before = answers(bbq)
    again = bbq.pull(project, "--everything")
    assert (again["n_tasks"], again["n_new"], again["n_changed"]) == (len(tasks), 0, 0)
    assert answers(bbq) == before


def test_rows_left_out_are_counted_once_however_often_they_are_read(
    bbq: Bbq, label_studio: Server, people: list[User]
) -> None:
    project = label_studio.project(PAIRWISE, maximum_annotations=3)
    tasks = label_studio.tasks(project, [pair("x", "y"), pair("y", "z")])
    for task in tasks:
        label_studio.annotate(task, chose("left"), people[0])
        skipped = label_studio.annotate(task, chose("left"), people[1], was_cancelled=True)

    def counts() -> tuple[int, dict[str, int]]:
        with Store(bbq.store, writable=False) as store:
            (entry,) = store.ledger()
        return entry.n_rows, dict(entry.skipped)

    cancelled = "skipped by the rater (was_cancelled)"
    bbq.pull(project)
    assert counts() == (4, {cancelled: 2})
    bbq.pull(project, "--everything")
    assert counts() == (4, {cancelled: 2})
    # Another answer changes the task, so it is read again.
    label_studio.annotate(tasks[0], chose("right"), people[2])
    bbq.pull(project)
    assert counts() == (5, {cancelled: 2})
    label_studio.patch(f"/api/annotations/{skipped}/", {"was_cancelled": False})
    bbq.pull(project)
    assert counts() == (5, {cancelled: 1})
    label_studio.delete(f"/api/tasks/{tasks[0]}/")
    bbq.pull(project)
    assert counts() == (2, {})
    assert read_store(bbq.store).skip_reasons == {}


def test_choices_with_ties_are_read_with_the_items_that_the_user_names(
    bbq: Bbq, label_studio: Server, people: list[User]
) -> None:
    project = label_studio.project(CHOICES, maximum_annotations=3)
    data = {"prompt": "?", "one": "x", "other": "y"}
    (task,) = label_studio.tasks(project, [data])
    for label, user in zip(("Left is better", "Tie"), people, strict=False):
        label_studio.annotate(task, ticked(label), user)
    assert "items=" in bbq("pull", project, fails=1)
    told = bbq.pull(project, "--items", "one,other")
    assert "control 'preference' (Choices of prompt)" in told["found"]
    assert sorted(one.outcome for one in answers(bbq).values()) == ["left", "tie"]
    # What was said once holds for the next time.
    label_studio.annotate(task, ticked("Right is better"), people[2])
    assert bbq.pull(project)["n_new"] == 1


def test_other_options_read_the_answers_again(
    bbq: Bbq, label_studio: Server, people: list[User]
) -> None:
    project = label_studio.project(PAIRWISE)
    data = {**pair("x", "y"), "one": "p", "other": "q"}
    (task,) = label_studio.tasks(project, [data])
    label_studio.annotate(task, chose("left"), people[0])
    bbq.pull(project, "--items", "model1,model2")
    bbq.pull(project, "--items", "one,other")
    (found,) = answers(bbq).values()
    assert (found.left, found.right) == ("p", "q")


def test_a_project_that_compares_nothing_is_refused(bbq: Bbq, label_studio: Server) -> None:
    config = '<View><Text name="t" value="$t"/><TextArea name="note" toName="t"/></View>'
    said = bbq("pull", label_studio.project(config), fails=1)
    assert "'note' (TextArea)" in said
    assert "expected Pairwise" in said


def test_a_project_without_answers_is_described(bbq: Bbq, label_studio: Server) -> None:
    project = label_studio.project(PAIRWISE)
    label_studio.tasks(project, [pair("x", "y")])
    told = bbq.pull(project)
    assert told["n_new"] == 0
    assert "no answers yet" in told["found"]


def test_a_personal_access_token_works_and_a_token_file_too(
    bbq: Bbq, label_studio: Server, small: tuple[int, list[int]], tmp_path: Path
) -> None:
    project, _ = small
    token = label_studio.personal_token()
    file = tmp_path / "token"
    file.write_text(token + "\n")
    bbq.token = "the-file-counts"  # noqa: S105
    assert bbq.pull(project, "--token-file", str(file))["n_new"] == 8
    bbq.token = token
    assert bbq.pull(project)["n_new"] == 0


def test_bbq_toml_names_server_and_token_file(
    label_studio: Server,
    small: tuple[int, list[int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "token").write_text(label_studio.token)
    (tmp_path / "bbq.toml").write_text(
        f'[label_studio]\nurl = "{label_studio.url}"\ntoken_file = "token"\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LABEL_STUDIO_URL", raising=False)
    monkeypatch.delenv("LABEL_STUDIO_API_KEY", raising=False)
    result = CliRunner().invoke(main, ["pull", "--project", str(small[0]), "--store", "a.db"])
    assert result.exit_code == 0, result.output
    assert "8 new" in result.stdout


def test_two_projects_share_a_store(
    bbq: Bbq, label_studio: Server, people: list[User], small: tuple[int, list[int]]
) -> None:
    other = label_studio.project(PAIRWISE)
    (task,) = label_studio.tasks(other, [pair("x", "y")])
    label_studio.annotate(task, chose("left"), people[0])
    bbq.pull(small[0])
    assert bbq.pull(other)["n_comparisons"] == 9
    assert bbq.pull(small[0])["n_tasks"] == 0


def test_no_secret_of_the_project_is_in_the_store(
    bbq: Bbq, label_studio: Server, people: list[User]
) -> None:
    hidden = {"task_data_login": "the-login", "task_data_password": "the-password"}
    project = label_studio.project(PAIRWISE, **hidden)
    (task,) = label_studio.tasks(project, [pair("x", "y")])
    label_studio.annotate(task, chose("left"), people[0])
    bbq.pull(project)
    kept = b"".join(file.read_bytes() for file in bbq.store.parent.iterdir() if file.is_file())
    for secret in (label_studio.token, "the-login", "the-password", people[0].email):
        assert secret.encode() not in kept
    assert "the-password" not in "".join(bbq.said)
