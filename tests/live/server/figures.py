"""Draws docs/page*.png, the live page of studies made for it: `make figures`. Needs Chromium.

Names, content and reasons come from a real Label Studio, as in tests/live/label_studio.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

import bbq_plugin as bbq
from bbq_plugin.data.records import Comparison
from bbq_plugin.live.engine import Engine
from tests.browsing import browsing
from tests.live.label_studio.server import running
from tests.live.label_studio.study import chose
from tests.live.server.serving import serving
from tests.live.server.test_page import show
from tests.waiting import wait_until

if TYPE_CHECKING:
    from selenium import webdriver

    from tests.live.label_studio.server import Server, User
    from tests.live.server.serving import Serving

DOCS = Path(__file__).parents[3] / "docs"
WIDTH = 1100
WEEKS_S = 4 * 7 * 24 * 3600.0  # how long the simulated study took
BEGUN = 1.79e9  # seconds since 1970


def kept(store: Path) -> None:
    """A store with a study of four weeks, in three languages."""
    study = bbq.simulate(items=10, raters=40, comparisons=6000, guessers=0.1, spread=0.6, seed=4)
    rng = np.random.default_rng(4)
    moments = np.sort(rng.uniform(0, WEEKS_S, 6000)) + BEGUN
    with Engine(store) as engine:
        engine.add(
            Comparison(
                one.key, one.rater, one.left, one.right, one.outcome, at=float(at),
                tags={"language": str(rng.choice(["de", "en", "fr"]))},
            )
            for one, at in zip(study.comparisons(), moments, strict=True)
        )  # fmt: skip


# -- a project of Label Studio, with people who have names

CONFIG = (
    '<View><Text name="ask" value="$prompt"/><Pairwise name="better" toName="a,b"/>'
    '<Text name="a" value="$answer1"/><Text name="b" value="$answer2"/>'
    '<Choices name="fluency" toName="ask"><Choice value="Left is better"/>'
    '<Choice value="Right is better"/><Choice value="Tie"/></Choices>'
    '<TextArea name="reason" toName="ask"/></View>'
)
PEOPLE = (
    "Ada Berg", "Bo Ek", "Cleo Diaz", "Dana Fox", "Eli Gold", "Finn Holm", "Gia Ito", "Hal Jones",
    "Ines Kraus", "Jo Lind", "Kai Moss", "Lea Noor",
)  # fmt: skip
MODELS = ("heron", "ibis", "jay", "kite")
PROMPTS = (
    "Why is the sky blue? Explain it to a child.",
    "Write a short note to a neighbour whose music is too loud.",
    "What should I check before I buy a used bicycle?",
    "Summarise how a bill becomes a law, in three sentences.",
)
#: From the best model to the worst.
ANSWERS = {
    "heron": "Here is a clear answer, step by step, with an example that fits the question.",
    "ibis": "A good answer that is a little long, and repeats its first sentence at the end.",
    "jay": "Some of this is right. One step is missing, and the example is about something else.",
    "kite": "It depends on many things, and there are many opinions about it.",
}
BAD = 1  # Bo Ek prefers what others do not


def made(server: Server) -> tuple[int, list[User]]:
    """A project with two questions, four models, and one rater who answers in reverse."""
    people = [server.sign_up(f"{name.replace(' ', '.').lower()}@example.com") for name in PEOPLE]
    for user, name in zip(people, PEOPLE, strict=True):
        first, last = name.split()
        server.patch(f"/api/users/{user.id}/", {"first_name": first, "last_name": last})
    project = server.project(CONFIG, "Chat answers", maximum_annotations=4)
    rng = np.random.default_rng(7)
    body = []
    for k in range(140):
        one, two = (int(place) for place in rng.choice(len(MODELS), 2, replace=False))
        data = {
            "prompt": PROMPTS[k % 4], "answer1": ANSWERS[MODELS[one]],
            "answer2": ANSWERS[MODELS[two]], "model1": MODELS[one], "model2": MODELS[two],
        }  # fmt: skip
        said = []
        for place in rng.choice(len(people), 4, replace=False):
            p = 1 / (1 + np.exp(0.9 * (one - two)))
            left = rng.random() < (1 - p if place == BAD else p)
            said.append({"completed_by": people[place].id, "lead_time": float(rng.exponential(20)),
                         "result": results(rng, left=bool(left), bad=place == BAD)})  # fmt: skip
        body.append({"data": data, "annotations": said})
    server.post(f"/api/projects/{project}/import", body)
    return project, people


def results(rng: np.random.Generator, *, left: bool, bad: bool) -> list[dict[str, Any]]:
    """Both questions, and a reason."""
    better = {**chose("left" if left else "right")[0], "from_name": "better", "to_name": "better"}
    label = str(rng.choice(["Left is better", "Right is better", "Tie"]))
    fluency = {"id": "f", "type": "choices", "from_name": "fluency", "to_name": "ask",
               "value": {"choices": [label]}}  # fmt: skip
    text = "Shorter is better." if bad else "It answers the question."
    why = {"id": "w", "type": "textarea", "from_name": "reason", "to_name": "ask",
           "value": {"text": [text]}}  # fmt: skip
    return [better, fluency, why]


# -- pictures


def draw(browser: webdriver.Chrome, server: Serving, path: str, name: str, upto: str = "") -> None:
    """A page as a picture, down to the end of a section, or all of it."""
    show(browser, server.url + path, WIDTH)
    wait_until(
        lambda: browser.find_element("id", "status").text in ("live", "still"), "the live page"
    )
    end = (
        f"document.querySelector({upto!r}).getBoundingClientRect().bottom + scrollY + 16"
        if upto else "document.documentElement.scrollHeight"
    )  # fmt: skip
    height = int(browser.execute_script(f"return {end}"))
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False},
    )
    browser.save_screenshot(str(DOCS / name))
    sys.stdout.write(f"docs/{name}\n")


def main() -> None:
    """Draw them."""
    with TemporaryDirectory() as folder, browsing(Path(folder) / "profile") as browser:
        store = Path(folder) / "state.db"
        kept(store)
        with serving(store) as here:
            here.wait_until(lambda: "time (UTC)" in here.ask("/").text, "the history")
            here.wait_until(lambda: "As of" in here.ask("/").text, "when to stop")
            draw(browser, here, "/", "page.png")
        with running() as server:
            project, people = made(server)
            place = {"LABEL_STUDIO_URL": server.url, "LABEL_STUDIO_API_KEY": server.token}
            words = ("--project", str(project), "--reconcile", "1h", "--show-names")
            with serving(Path(folder) / "answers.db", *words, **place) as here:
                here.wait_until(lambda: "Bo Ek" in here.ask("/raters").text, "names")
                here.wait_until(lambda: "As of" in here.ask("/").text, "when to stop")
                here.wait_until(lambda: "200 more answers" in here.ask("/pairs").text, "the worth")
                draw(browser, here, "/", "page-first.png", "#board")
                draw(browser, here, "/raters", "page-raters.png")
                odd = f"/rater?name={people[BAD].id}&content=1&study=better"
                draw(browser, here, odd, "page-rater.png", ".content")
                draw(browser, here, "/pairs", "page-pairs.png")


if __name__ == "__main__":
    main()
