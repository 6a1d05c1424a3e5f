"""Projects to fill a test server with, and the commands run against it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from click.testing import CliRunner

from bbq_plugin.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.live.label_studio.server import Server, User

PAIRWISE = (
    '<View><Pairwise name="pw" toName="a,b"/>'
    '<Text name="a" value="$text1"/><Text name="b" value="$text2"/></View>'
)
CHOICES = (
    '<View><Text name="prompt" value="$prompt"/><Choices name="preference" toName="prompt">'
    '<Choice value="Left is better"/><Choice value="Right is better"/><Choice value="Tie"/>'
    "</Choices></View>"
)


def chose(side: str) -> list[dict[str, Any]]:
    """The result of a Pairwise."""
    value = {"selected": side}
    return [{"id": "r1", "type": "pairwise", "from_name": "pw", "to_name": "pw", "value": value}]


def answer(user: User, side: str) -> dict[str, Any]:
    """An annotation to be imported with its task."""
    said = {"completed_by": user.id, "lead_time": 4.2, "ground_truth": False}
    return {"result": chose(side), **said}


def ticked(label: str) -> list[dict[str, Any]]:
    """The result of Choices."""
    about = {"from_name": "preference", "to_name": "prompt", "value": {"choices": [label]}}
    return [{"id": "r1", "type": "choices", **about}]


def pair(left: str, right: str) -> dict[str, Any]:
    """The data of a task."""
    return {"text1": "one text", "text2": "another", "model1": left, "model2": right}


@dataclass
class Bbq:
    """The command line, as the administrator of a server with a store of its own."""

    server: Server
    store: Path
    token: str = ""
    url: str = ""
    #: What came on standard error, of all commands.
    said: list[str] = field(default_factory=list)

    def __call__(self, command: str, project: int, *more: str, fails: int = 0) -> str:
        """Run a command; what it printed."""
        environment = {
            "LABEL_STUDIO_URL": self.url or self.server.url,
            "LABEL_STUDIO_API_KEY": self.token or self.server.token,
            "COLUMNS": "200",
        }
        arguments = [command, "--project", str(project), "--store", str(self.store), *more]
        result = CliRunner(env=environment).invoke(main, arguments, prog_name="bbq")
        self.said.append(result.stderr)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == fails, result.output
        secret = environment["LABEL_STUDIO_API_KEY"]
        assert secret not in result.output
        return result.stderr if fails else result.stdout

    def pull(self, project: int, *more: str) -> dict[str, Any]:
        """The numbers of a pull."""
        found: dict[str, Any] = json.loads(self("pull", project, "--format", "json", *more))
        return found

    def push(self, project: int, *more: str) -> dict[str, Any]:
        """The document of a push."""
        found: dict[str, Any] = json.loads(self("push", project, "--format", "json", *more))
        return found


@dataclass
class Crowd:
    """A project in which some answer well, some at random and one upside down."""

    project: int
    tasks: list[int]
    raters: list[User]
    guessers: set[str]
    inverted: set[str]
    #: Who answered a task, by task.
    answered: dict[int, list[str]]

    @property
    def bad(self) -> set[str]:
        """Those whom the verdicts should find."""
        return self.guessers | self.inverted


def fill(
    server: Server,
    raters: list[User],
    *,
    n_tasks: int = 300,
    overlap: int = 3,
    n_guessers: int = 2,
    n_inverted: int = 1,
    n_open: int = 0,
    seed: int = 1,
    **settings: Any,
) -> Crowd:
    """Tasks with `overlap` answers each, and `n_open` of them with none yet.

    They come in as one import that names who answered: hundreds of single requests would take
    minutes, and the server keeps both the same way.
    """
    rng = np.random.default_rng(seed)
    items = [f"model-{letter}" for letter in "abcdefgh"]
    theta = dict(zip(items, np.linspace(-2.5, 2.5, len(items)), strict=True))
    by_name = {str(user.id): user for user in raters}
    names = list(by_name)
    guessers = set(names[1 : 1 + n_guessers])
    inverted = set(names[1 + n_guessers : 1 + n_guessers + n_inverted])
    project = server.project(PAIRWISE, "A crowd", maximum_annotations=overlap, **settings)
    body, asked = [], []
    for number in range(n_tasks):
        left, right = (str(item) for item in rng.choice(items, 2, replace=False))
        who = [str(rater) for rater in rng.choice(names, overlap, replace=False)]
        if number >= n_tasks - n_open:
            who = []
        asked.append(who)
        p_left = 1 / (1 + np.exp(theta[right] - theta[left]))
        annotations = []
        for rater in who:
            p = 0.5 if rater in guessers else 1 - p_left if rater in inverted else p_left
            side = "left" if rng.random() < p else "right"
            annotations.append(answer(by_name[rater], side))
        body.append({"data": pair(left, right), "annotations": annotations})
    server.post(f"/api/projects/{project}/import", body)
    tasks = sorted(task["id"] for task in server.export(project))
    return Crowd(project, tasks, raters, guessers, inverted, dict(zip(tasks, asked, strict=True)))


def without_times(value: Any, also: Callable[[str], bool] = lambda _: False) -> Any:
    """An export without Label Studio's own time stamps."""
    if isinstance(value, dict):
        return {
            key: without_times(inside, also)
            for key, inside in value.items()
            if key not in ("updated_at", "created_ago") and not also(key)
        }
    return [without_times(inside, also) for inside in value] if isinstance(value, list) else value
