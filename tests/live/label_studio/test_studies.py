"""Several questions and projects in one store, and the health of a service, on a real server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bbq_plugin.store import Store, read_store, read_store_by
from tests.live.label_studio.faults import Answer, Proxy
from tests.live.label_studio.study import PAIRWISE, Bbq, chose, pair
from tests.live.server.serving import SECRET, serving
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.live.label_studio.server import Server, User

TWO = (
    '<View><Text name="a" value="$text1"/><Text name="b" value="$text2"/>'
    '<Choices name="overall" toName="a"><Choice value="Left is better"/>'
    '<Choice value="Right is better"/><Choice value="Tie"/></Choices>'
    '<Choices name="fluency" toName="a"><Choice value="Left is better"/>'
    '<Choice value="Right is better"/><Choice value="Tie"/></Choices></View>'
)


def ticks(**said: str) -> list[dict[str, Any]]:
    return [
        {"id": name, "type": "choices", "from_name": name, "to_name": "a",
         "value": {"choices": [label]}}
        for name, label in said.items()
    ]  # fmt: skip


def two_projects(server: Server, people: list[User]) -> tuple[int, int, list[int]]:
    """A project with two controls, the second of which says the opposite, and one with one."""
    both = server.project(TWO, "Chat answers", maximum_annotations=4)
    tasks = server.tasks(both, [pair("x", "y"), pair("y", "z"), pair("x", "z")])
    for task in tasks:
        for user in people[:3]:
            server.annotate(task, ticks(overall="Left is better", fluency="Right is better"), user)
    single = server.project(PAIRWISE, "Summaries")
    (task,) = server.tasks(single, [pair("p", "q")])
    server.annotate(task, chose("left"), people[0])
    return both, single, tasks


def test_two_controls_and_two_projects_are_studies_of_one_store(
    bbq: Bbq, label_studio: Server, people: list[User]
) -> None:
    both, single, tasks = two_projects(label_studio, people)
    done = bbq.pull(both)
    assert done["studies"] == {"main": 0, "overall": 9, "fluency": 9}
    assert bbq.pull(single)["studies"] == {"main": 1, "overall": 9, "fluency": 9}
    assert read_store(bbq.store, study="overall").items == ("x", "y", "z")
    assert read_store(bbq.store, study="main").items == ("p", "q")
    assert read_store_by(bbq.store, by="project", study="overall").keys() == {str(both)}
    with Store(bbq.store, writable=False) as store:
        about = {one.name: one.described for one in store.studies()}
    assert about["fluency"] == f"project {both} 'Chat answers', control 'fluency'"
    # An answer to one question is changed, another annotation deleted.
    exported = label_studio.export(both)
    first, second = (one["id"] for one in exported[0]["annotations"][:2])
    changed = ticks(overall="Right is better", fluency="Right is better")
    label_studio.patch(f"/api/annotations/{first}/", {"result": changed})
    label_studio.delete(f"/api/annotations/{second}/")
    assert bbq.pull(both)["studies"] == {"main": 1, "overall": 8, "fluency": 8}
    data = read_store(bbq.store, study="overall")
    won = [data.items[i] for i in data.winner.tolist()]
    assert won.count("y") == 4, tasks
    assert bbq.pull(both)["n_tasks"] == 0


def test_the_health_line_through_outage_changed_labels_and_deletion(
    label_studio: Server, people: list[User], proxy: Proxy, tmp_path: Path
) -> None:
    both, _, tasks = two_projects(label_studio, people)
    bbq = Bbq(label_studio, tmp_path / "state.db", url=proxy.url)
    bbq.pull(both)
    place = {"LABEL_STUDIO_URL": proxy.url, "LABEL_STUDIO_API_KEY": label_studio.token}
    words = ("--project", str(both), "--reconcile", "0.2s")
    with serving(bbq.store, *words, **place) as here:

        def health() -> dict[str, Any]:
            found: dict[str, Any] = json.loads(here.ask("/status.json").text)["health"]
            return found

        wait_until(lambda: health()["colour"] == "green" and health()["last_pull"], "a pull")
        page = here.ask("/?study=fluency").text
        assert 'class="health green"' in page
        assert "All is working" in page
        assert f"project {both} &#39;Chat answers&#39;, control &#39;fluency&#39;" in page
        assert '<option value="fluency" selected>' in page
        rater = here.ask(f"/rater?name={people[0].id}").text
        assert "in all studies" in rater

        proxy.rule = lambda _: Answer(503, headers={"Retry-After": "0"})
        wait_until(lambda: health()["colour"] == "red", "the outage")
        (first, *_) = health()["sentences"]
        assert first.startswith("Label Studio does not answer: ")
        assert "(since 20" in first
        assert 'class="health red"' in here.ask("/").text
        assert 'bbq_problem{what="server"} 1' in here.ask("/metrics").text
        proxy.rule = lambda _: None
        wait_until(lambda: health()["colour"] == "green", "the end of the outage")

        # A new label of one control: its answers are held, all others go on.
        end = '<Choice value="Tie"/></Choices></View>'
        config = TWO.replace(end, '<Choice value="Hmm"/>' + end)
        label_studio.patch(f"/api/projects/{both}/", {"label_config": config})
        label_studio.annotate(tasks[0], ticks(overall="Left is better", fluency="Hmm"), people[3])
        label_studio.annotate(tasks[1], ticks(overall="Left is better", fluency="Tie"), people[3])
        wait_until(
            lambda: 'bbq_answers{study="overall"} 11' in here.ask("/metrics").text, "overall"
        )
        assert 'bbq_answers{study="fluency"} 10' in here.ask("/metrics").text
        assert health()["colour"] == "amber"
        assert any("'Hmm'" in one and "held" in one for one in health()["sentences"])

        # While it deletes, Label Studio may answer 500 for a moment, which is red as well.
        proxy.rule = lambda _: Answer(500, headers={"Retry-After": "0"})
        wait_until(lambda: health()["colour"] == "red", "an answer 500")
        label_studio.delete(f"/api/projects/{both}/")
        proxy.rule = lambda _: None

        def only_gone() -> bool:
            found = health()
            (first, *others) = found["sentences"]
            gone = first.startswith(f"Reconcile fails: project {both} does not exist any more")
            unreached = any(one.startswith("Label Studio does not answer") for one in others)
            return gone and not unreached and found["colour"] == "red"

        wait_until(only_gone, "the deletion", log=lambda: here.log)
        assert f"project {both} does not exist any more" in here.ask("/").text
        # What it said stays.
        assert 'bbq_answers{study="overall"} 11' in here.ask("/metrics").text
    assert SECRET not in here.log
