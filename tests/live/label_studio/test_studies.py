"""Several questions and projects in one store, and the health of a service, on a real server."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from selenium.webdriver.common.by import By

from bbq_plugin.store import Store, read_store, read_store_by
from tests.browsing import complaints, text_of
from tests.live.label_studio.faults import Answer, Asked, Proxy
from tests.live.label_studio.study import PAIRWISE, Bbq, chose, pair
from tests.live.server.serving import SECRET, Serving, run, serving
from tests.waiting import HANG_S, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from selenium import webdriver

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
            return health_of(here)

        wait_until(lambda: health()["colour"] == "green" and health()["last_pull"], "a pull")
        page = here.ask("/?study=fluency").text
        # The answer to each question, on the first screen.
        first = page[page.index("All questions") : page.index('id="board"')]
        assert first.index('study=overall">') < first.index('study=fluency"')
        assert first.count("Nothing is decided yet") == 2
        assert 'class="health green"' in page
        assert "All is working" in page
        assert f"project {both} &#39;Chat answers&#39;, control &#39;fluency&#39;" in page
        assert '<option value="fluency" selected>' in page
        rater = here.ask(f"/rater?name={people[0].id}").text
        assert "in all studies" in rater

        proxy.rule = lambda _: Answer(503, headers={"Retry-After": "0"})
        wait_until(lambda: health()["colour"] == "red", "the outage")
        (first, *_) = health()["sentences"]
        assert first.startswith("Label Studio does not answer: Label Studio answered 503 (since 20")
        assert 'class="health red"' in here.ask("/").text
        assert 'bbq_problem{what="server"} 1' in here.ask("/metrics").text
        proxy.rule = lambda _: None
        wait_until(lambda: health()["colour"] == "green", "the end of the outage")

        a_new_label_holds_its_answers_alone(label_studio, both, tasks, people[3], here)

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


def health_of(here: Serving) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(here.ask("/status.json").text)["health"]
    return found


def a_new_label_holds_its_answers_alone(
    label_studio: Server, both: int, tasks: list[int], user: User, here: Serving
) -> None:
    """A new label of one control: its answers are held, all others go on."""
    end = '<Choice value="Tie"/></Choices></View>'
    config = TWO.replace(end, '<Choice value="Hmm"/>' + end)
    label_studio.patch(f"/api/projects/{both}/", {"label_config": config})
    said = ticks(overall="Left is better", fluency="Hmm")
    hmm = label_studio.annotate(tasks[0], said, user)
    label_studio.annotate(tasks[1], ticks(overall="Left is better", fluency="Tie"), user)
    wait_until(lambda: 'bbq_answers{study="overall"} 11' in here.ask("/metrics").text, "overall")
    assert 'bbq_answers{study="fluency"} 10' in here.ask("/metrics").text
    assert health_of(here)["colour"] == "amber"
    assert any("'Hmm'" in one and "held" in one for one in health_of(here)["sentences"])
    # The rater thinks better of it: nothing is held any more.
    label_studio.patch(f"/api/annotations/{hmm}/", {"result": ticks(overall="Tie", fluency="Tie")})
    wait_until(lambda: health_of(here)["colour"] == "green", "the last held answer to be read")


REASONED = (
    '<View><Text name="ask" value="$prompt"/><Image name="img" value="$picture"/>'
    '<Pairwise name="pw" toName="a,b"/>'
    '<Text name="a" value="$answer1"/><Text name="b" value="$answer2"/>'
    '<TextArea name="why" toName="ask"/></View>'
)
HARM = "<script>window.pwned = 1</script>"
PAGE_TOKEN = "a-token-of-the-page-0123456789"  # noqa: S105


def reasoned(server: Server, people: list[User], n: int = 6) -> int:
    """A project with prompts, pictures and reasons; the second rater prefers what all others do
    not, and says why."""
    project = server.project(REASONED, "Chat answers", maximum_annotations=4)
    tasks = server.tasks(
        project,
        [
            {
                "prompt": f"Question {k}? {HARM}", "picture": f"/data/upload/1/p{k}.png",
                "answer1": f"A long answer {k}", "answer2": f"Short {k} {HARM}",
                "model1": "model-a", "model2": ("model-b", "model-c")[k % 2],
            }
            for k in range(n)
        ],
    )  # fmt: skip
    for task in tasks:
        for place, user in enumerate(people[:4]):
            said = chose("right" if place == 1 else "left")
            if place == 1:
                value = {"text": [f"I like it short {HARM}"]}
                said += [{"id": "w", "type": "textarea", "from_name": "why", "to_name": "ask",
                          "value": value}]  # fmt: skip
            server.annotate(task, said, user)
    return project


def test_a_lead_sees_who_answered_what_and_why_and_nothing_of_it_is_kept(
    label_studio: Server,
    people: list[User],
    proxy: Proxy,
    browser: webdriver.Chrome,
    tmp_path: Path,
) -> None:
    project, odd = reasoned(label_studio, people), people[1]
    label_studio.patch(f"/api/users/{odd.id}/", {"first_name": "Bo", "last_name": "Ek"})
    place = {"LABEL_STUDIO_URL": proxy.url, "LABEL_STUDIO_API_KEY": label_studio.token}
    store = tmp_path / "state.db"
    words = ("--project", str(project), "--reconcile", "1h")
    with serving(store, *words, **place) as here:
        here.wait_for(24)
        # Names are shown to a lead who asks for them, and to no other.
        assert odd.email not in here.ask(f"/rater?name={odd.id}").text
    token = {"BBQ_PAGE_TOKEN": PAGE_TOKEN}
    with serving(store, *words, "--show-names", **place, **token) as here:
        here.wait_until(lambda: "Bo Ek" in here.ask("/raters").text, "the names")
        assert f"{odd.id}</bdi>" in here.ask(f"/raters?q={odd.email}").text
        assert odd.email in here.ask("/raters?q=bo+ek").text
        # What was asked is for who has logged in, and says so.
        address = f"{here.url}/rater?name={odd.id}"
        assert "Question 1?" not in here.ask(f"/rater?name={odd.id}&content=1").text
        browser.get(f"{here.url}/login")
        browser.find_element(By.ID, "token").send_keys(PAGE_TOKEN)
        browser.find_element(By.CSS_SELECTOR, "main button").click()
        wait_until(lambda: "may write" in text_of(browser, "foot"), "the login")
        browser.get(address)
        assert "Question" not in text_of(browser, "said")
        browser.find_element(By.PARTIAL_LINK_TEXT, "Show what was asked").click()
        wait_until(lambda: "Question 1?" in text_of(browser, "said"), "what was asked")
        said = text_of(browser, "said")
        for text in ("A long answer 1", "Short 1", "I like it short", "model-b, chosen", HARM):
            assert text in said
        assert browser.execute_script("return typeof window.pwned") == "undefined"
        assert browser.execute_script("return document.images.length") == 0
        picture = browser.find_element(By.PARTIAL_LINK_TEXT, "/data/upload/1/p1.png")
        assert picture.get_attribute("href") == f"{proxy.url}/data/upload/1/p1.png"
        assert not any("/data/upload" in asked.path for asked in proxy.asked)
        assert complaints(browser)[0] == []
        # It is asked for each time, and a server that fails is said so at once.
        proxy.rule = lambda _: Answer(503)
        browser.refresh()
        assert "Some of it is missing: Label Studio answered 503" in text_of(browser, "said")
        others_read_on(here, proxy, browser, f"/rater?name={odd.id}&content=1")
        browser.delete_all_cookies()
        raters = here.ask("/download/raters.csv").text
    # Neither in the store nor in the log nor in a file that was asked for without names.
    kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    for text in (odd.email, "Bo Ek", "A long answer 1", "I like it short"):
        assert text.encode() not in kept
        assert text not in here.log + raters
    names_are_printed_when_asked_for(store, odd, **place)


def others_read_on(here: Serving, proxy: Proxy, browser: webdriver.Chrome, path: str) -> None:
    """Readers who wait for a server that hangs keep no page from others."""
    known = browser.get_cookie("bbq_page")
    assert known is not None
    cookie = {"Cookie": f"bbq_page={known['value']}"}
    held, asked = threading.Event(), len(proxy.asked)

    def hang(_: Asked) -> Answer | None:
        held.wait(HANG_S)
        return None

    proxy.rule = hang
    with ThreadPoolExecutor(3) as readers:
        slow = [readers.submit(here.ask, path, headers=cookie) for _ in range(3)]
        try:
            wait_until(lambda: len(proxy.asked) > asked, "the first of them at the server")
            assert here.ask("/").status == 200
            assert not any(one.done() for one in slow)
        finally:
            held.set()
        assert [one.result().status for one in slow] == [200] * 3
    proxy.rule = lambda _: None


def names_are_printed_when_asked_for(store: Path, odd: User, **place: str) -> None:
    """What `bbq raters` prints with and without --show-names."""
    run_in = {**place, "COLUMNS": "200"}
    shown = run("raters", "--store", str(store), "--show-names", **run_in)
    assert "Bo Ek" in shown.stdout, shown.stderr
    assert odd.email in shown.stdout
    rows = json.loads(run("raters", "--store", str(store), "--format", "json", **run_in).stdout)
    assert "email" not in rows["raters"][0]
    wanted = ("raters", "--store", str(store), "--show-names", "--format", "json")
    named = {row["rater"]: row for row in json.loads(run(*wanted, **run_in).stdout)["raters"]}
    assert (named[str(odd.id)]["name"], named[str(odd.id)]["email"]) == ("Bo Ek", odd.email)
    refused = run(*wanted, "--pseudonymise", **run_in)
    assert refused.returncode == 2
    assert "do not go together" in refused.stderr
