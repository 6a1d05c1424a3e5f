"""docs/label-studio.md is run: from nothing to a live page and a plan, against a real server."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from tests.live.label_studio.server import _free_port
from tests.live.label_studio.study import chose, fill
from tests.live.label_studio.test_docs import lines, section
from tests.live.server.serving import run, serving

if TYPE_CHECKING:
    import pytest

    from tests.live.label_studio.server import Server, User

_BLOCK = re.compile(r"```console\n\$ bbq (.*?)\n(.*?)```", re.DOTALL)


def test_the_steps_lead_to_a_live_page_and_a_plan(
    label_studio: Server, people: list[User], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("webhook-secret").write_text("a-secret-of-the-documentation\n", encoding="ascii")
    Path("webhook-secret").chmod(0o600)
    crowd = fill(label_studio, people, n_tasks=120, n_guessers=0)
    variables = {"LABEL_STUDIO_URL": label_studio.url, "LABEL_STUDIO_API_KEY": label_studio.token}
    blocks = _BLOCK.findall(section("Ten minutes"))
    (serve, said), (connect, printed), (push, planned) = blocks

    def words(line: str) -> list[str]:
        return [str(crowd.project) if word == "5" else word for word in shlex.split(line)]

    arguments = words(serve)[1:]
    store = Path(arguments[arguments.index("--store") + 1])
    port = str(_free_port())
    before = label_studio.export(crowd.project)
    with serving(store, *arguments, "--port", port, secret=None, **variables) as here:
        here.wait_until(lambda: set(lines(said)) <= set(lines(here.log)), said)
        done = run(*words(connect), "--serve-url", here.url, **variables)
        assert done.returncode == 0, done.stderr
        assert lines(done.stderr + done.stdout) == lines(printed)
        done = run(*words(push), **variables)
        assert done.returncode == 0, done.stderr
        assert set(lines(planned)) <= set(lines(done.stdout + done.stderr))
        assert "planned at" in here.ask("/feedback").text
        assert label_studio.export(crowd.project) == before
        label_studio.annotate(crowd.tasks[0], chose("left"))
        here.wait_for(361)
        assert "model-a" in here.ask("/").text
