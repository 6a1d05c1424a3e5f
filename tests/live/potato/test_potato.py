"""A Potato that runs: its schemes read, its folder watched, its order and quotas changed back."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from bbq_adapters.potato import Visitor
from bbq_adapters.potato import main as write_tuples
from click.testing import CliRunner

import bbq_plugin as bbq
from bbq_plugin.cli import main
from tests.live.potato.server import NoPotatoError, installed, running
from tests.waiting import HANG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MODELS = [f"model-{letter}" for letter in "abcdefgh"]
THETA = dict(zip(MODELS, np.linspace(0.0, 4.2, len(MODELS)), strict=True))
# Two who guess, and one who answers inverted.
BAD = {"rater-3": 0.0, "rater-6": 0.0, "rater-9": -1.0}
RATERS = [f"rater-{n}" for n in range(12)]
SHOWN = re.compile(r'<script id="(instance_data|bws_items)"[^>]*>(.*?)</script>', re.DOTALL)
TASK = re.compile(r'name="instance_id" type="hidden" value="([^"]*)"')
KEY = "a-key-for-the-tests"
CONFIG = f"""\
annotation_task_name: Which model is better?
task_dir: .
output_annotation_dir: annotation_output
data_files: [data/tasks.jsonl]
item_properties: {{id_key: id, text_key: text}}
require_password: false
admin_api_key: {KEY}
"""
ONE_SCHEME = """\
annotation_schemes:
- {annotation_type: pairwise, name: better, description: Choose the better, items_key: responses,
   allow_tie: true, randomize_order: true}
"""
COMPARING = (
    ONE_SCHEME
    + """\
- {annotation_type: ranking, name: order, description: Rank them, labels: [A, B, C, D]}
- {annotation_type: text, name: why, description: Reason}
"""
)
BEST_WORST = """\
bws_config: {tuple_size: 4, num_tuples: 30, seed: 7}
annotation_schemes:
- {annotation_type: bws, name: ends, description: Best and worst, tuple_size: 4}
"""


@dataclass
class Running:
    """A project that annotators have answered."""

    folder: Path
    url: str

    @property
    def data(self) -> Path:
        return self.folder / "data" / "tasks.jsonl"


def ranked(rng: np.random.Generator, rater: str, items: Sequence[str]) -> list[str]:
    """The order that a rater sees, best first: skills times their quality, with noise."""
    quality = BAD.get(rater, 1.0)
    return sorted(items, key=lambda item: -(quality * THETA[item] + rng.gumbel()))


def made(folder: Path, config: str, tasks: Sequence[dict[str, Any]]) -> Path:
    (folder / "data").mkdir(parents=True)
    (folder / "config.yaml").write_text(CONFIG + config)
    lines = "".join(json.dumps(task) + "\n" for task in tasks)
    (folder / "data" / "tasks.jsonl").write_text(lines)
    return folder


@pytest.fixture(scope="module")
def command() -> Path:
    try:
        return installed()
    except NoPotatoError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def comparing(command: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Pairs and rankings of the same tasks, answered by twelve annotators."""
    rng = np.random.default_rng(1)
    # With 30 answers each the guessers are found in half of the studies; with 56 in nearly all.
    pairs = list(combinations(MODELS, 2)) * 3
    tasks = [
        {
            "id": f"task-{i}",
            "text": f"Question {i}",
            "responses": [f"Answer of {left}", f"Answer of {right}"],
            "model_a": left,
            "model_b": right,
            "models": rng.permutation(MODELS)[:4].tolist(),
        }
        for i, (left, right) in enumerate(pairs)
    ]
    folder = made(tmp_path_factory.mktemp("potato") / "comparing", COMPARING, tasks)
    with running(command, folder) as url:
        for rater in RATERS:
            visitor = Visitor(url, rater)
            visitor.ask("/annotate")
            for place in range(56):
                answer(visitor, rng, rater, place)
        yield Running(folder, url)


def page_of(visitor: Visitor, place: int) -> tuple[str, dict[str, Any]]:
    """The task at a place of an annotator's queue as they see it: its id, and what is shown."""
    page = visitor.ask("/go_to", form={"go_to": str(place)}).decode()
    (own,) = set(TASK.findall(page))
    return own, {name: json.loads(text) for name, text in SHOWN.findall(page)}


def answer(visitor: Visitor, rng: np.random.Generator, rater: str, place: int = 0) -> None:
    """Answer a task: the page shows the two in an order of its own for each annotator."""
    own, shown = page_of(visitor, place)
    data = shown["instance_data"]
    best = ranked(rng, rater, [data["model_a"], data["model_b"]])[0]
    side = "A" if data["responses"][0] == f"Answer of {best}" else "B"
    order = [chr(65 + data["models"].index(one)) for one in ranked(rng, rater, data["models"])]
    labels = {
        "better:::selection": side,
        "order:::rank_order": ",".join(order),
        "why:::text_box": "so",
    }
    body = {"instance_id": own, "annotations": labels}
    assert json.loads(visitor.ask("/updateinstance", body=body))["status"] == "success"


@pytest.fixture(scope="module")
def best_worst(command: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Best and worst of four, in tuples that Potato has made."""
    rng = np.random.default_rng(2)
    tasks = [{"id": model, "text": f"Answer of {model}"} for model in MODELS]
    folder = made(tmp_path_factory.mktemp("potato") / "best-worst", BEST_WORST, tasks)
    with running(command, folder) as url:
        for rater in RATERS:
            visitor = Visitor(url, rater)
            visitor.ask("/annotate")
            for place in range(24):
                own, page = page_of(visitor, place)
                shown = {one["source_id"]: one["position"] for one in page["bws_items"]}
                best, *_, worst = ranked(rng, rater, list(shown))
                labels = {"ends:::best": shown[best], "ends:::worst": shown[worst]}
                body = {"instance_id": own, "annotations": labels}
                visitor.ask("/updateinstance", body=body)
        yield Running(folder, url)


def excluded(project: Running, **options: Any) -> set[str]:
    fit = bbq.fit(bbq.read(project.folder, **options))
    board = [row.item for row in bbq.leaderboard(fit)]
    assert board[0] == MODELS[-1]
    assert board[-1] == MODELS[0]
    return {row.rater for row in bbq.rater_report(fit) if row.verdict == "exclude"}


@pytest.mark.parametrize("question", ["better", "order"])
def test_the_three_bad_annotators_and_no_others_are_excluded(
    comparing: Running, question: str
) -> None:
    assert excluded(comparing, question=question) == set(BAD)


def test_best_and_worst_find_the_same_three(
    best_worst: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    tuples = best_worst.folder / "bws_tuples.jsonl"
    tuples.unlink(missing_ok=True)
    with pytest.raises(bbq.BBQError, match="potato http"):
        bbq.read(best_worst.folder)
    before = sorted(best_worst.folder.glob("annotation_output/*/user_state.json"))
    assert write_tuples([best_worst.url, str(tuples)]) == 0
    assert "30 tuples" in capsys.readouterr().out
    assert sorted(best_worst.folder.glob("annotation_output/*/user_state.json")) == before
    assert excluded(best_worst) == set(BAD)


def test_an_answer_is_in_the_report_while_the_folder_is_watched(
    comparing: Running, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "bbq_plugin", "watch", str(comparing.folder)]
    places = ["--store", str(tmp_path / "a.db"), "--out", str(tmp_path / "out")]
    log = tmp_path / "log"
    with log.open("wb") as out:
        daemon = subprocess.Popen(
            [*command, *places, "-O", "question=better", "--write", "report.json"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=os.environ | {"NO_COLOR": "1"},
        )
    report = tmp_path / "out" / "report.json"

    def n_of(rater: str) -> int:
        if not report.exists():
            return 0
        found = json.loads(report.read_text())["raters"]
        return next((int(row["n"]) for row in found if row["rater"] == rater), 0)

    gone = lambda: daemon.poll() is not None  # noqa: E731
    try:
        wait_until(lambda: n_of("rater-0"), "the first report", log=log, ended=gone)
        visitor = Visitor(comparing.url, "rater-new")
        visitor.ask("/annotate")
        answer(visitor, np.random.default_rng(3), "rater-new")
        wait_until(lambda: n_of("rater-new") == 1, "the answer", log=log, ended=gone)
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(HANG_S)
    # Configuration, data and Potato's own log are no answers, and nobody is told that they are not.
    assert "file_refused" not in log.read_text()


def run(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(main, [*words, "--format", "json"], env={"POTATO_API_KEY": KEY})
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_commands_of_the_documentation_run(
    comparing: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Path(__file__).parents[3] / "docs" / "potato.md"
    commands = re.findall(r"^    bbq (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(commands) == 7
    monkeypatch.chdir(tmp_path)
    # As most projects are: one scheme compares, so that no question has to be named.
    shutil.copytree(comparing.folder, tmp_path / "project")
    (tmp_path / "project" / "config.yaml").write_text(CONFIG + ONE_SCHEME)
    for typed in commands:
        words = typed.split() + (["--once"] if typed.startswith("watch") else [])
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output
    assert (tmp_path / "report.html").exists()
    assert (tmp_path / "public" / "report.html").exists()


def files(project: Running) -> dict[str, bytes]:
    """The data, and what Potato keeps of each annotator."""
    kept = [project.data, *project.folder.glob("annotation_output/*/user_state.json")]
    return {str(one): one.read_bytes() for one in kept}


def quotas(project: Running) -> dict[str, int]:
    """The most tasks that each annotator gets, by the server's word."""
    asked = urllib.request.Request(  # noqa: S310 (loopback)
        f"{project.url}/admin/api/annotators", headers={"X-API-Key": KEY}
    )
    with urllib.request.urlopen(asked) as reply:  # noqa: S310
        found = json.load(reply)["annotators"]
    return {one["user_id"]: one["max_assignments"] for one in found}


def test_a_push_stops_bad_annotators_and_an_undo_leaves_the_files_as_before(
    comparing: Running, tmp_path: Path
) -> None:
    place = ["--project", str(comparing.folder), "--store", str(tmp_path / "answers.db")]
    server = [*place, "--url", comparing.url]
    run("pull", *place, "-O", "question=order")
    before, allowed = files(comparing), quotas(comparing)
    plan = run("push", *server)
    assert [action["kind"] for action in plan["actions"]] == ["pause"] * 3 + ["order"]
    stopped = {action["after"].get("annotator") for action in plan["actions"]}
    assert stopped == {*BAD, None}
    assert (files(comparing), quotas(comparing)) == (before, allowed)

    run("push", *server, "--informative", "5", "--apply")
    lines, was = comparing.data.read_bytes(), before[str(comparing.data)]
    assert lines != was
    assert sorted(lines.splitlines()) == sorted(was.splitlines())
    assert {one for one, most in quotas(comparing).items() if most != allowed[one]} == set(BAD)
    assert not run("push", *server, "--informative", "5")["actions"]
    done = run("push", *server, "--undo")
    assert [one["kind"] for one in done["actions"]] == ["order"] + ["pause"] * 3
    assert not any(one["left"] for one in done["actions"])
    assert (files(comparing), quotas(comparing)) == (before, allowed)


def test_an_annotator_who_is_stopped_gets_no_task_and_others_do(
    comparing: Running, tmp_path: Path
) -> None:
    place = ["--project", str(comparing.folder), "--store", str(tmp_path / "answers.db")]
    run("pull", *place, "-O", "question=order")
    run("push", *place, "--url", comparing.url, "--only", "pause", "--apply")
    bad, good = (Visitor(comparing.url, name) for name in ("rater-3", "rater-4"))
    for visitor in (bad, good):
        visitor.ask("/annotate")
    assert good.task()["data"]
    with pytest.raises(bbq.BBQError):
        bad.task()
    run("push", *place, "--url", comparing.url, "--undo")
    other = Visitor(comparing.url, "rater-6")
    other.ask("/annotate")
    assert other.task()["data"]


def test_a_data_file_that_a_user_has_changed_since_is_left_as_it_is(
    comparing: Running, tmp_path: Path
) -> None:
    place = ["--project", str(comparing.folder), "--store", str(tmp_path / "answers.db")]
    run("pull", *place, "-O", "question=better")
    was = comparing.data.read_bytes()
    try:
        run("push", *place, "--only", "order", "--informative", "4", "--apply")
        mine = comparing.data.read_bytes() + b'{"id": "mine", "text": "new"}\n'
        comparing.data.write_bytes(mine)
        (undone,) = run("push", *place, "--undo")["actions"]
        assert "changed by a user" in undone["left"]
        assert comparing.data.read_bytes() == mine
    finally:
        comparing.data.write_bytes(was)
