"""docs/label-studio-page.md is run: its commands, in order, against a real server."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from tests.live.label_studio.server import _free_port
from tests.live.label_studio.study import PAIRWISE, chose, pair
from tests.live.label_studio.test_docs import lines
from tests.live.server.serving import run, serving

if TYPE_CHECKING:
    import pytest

    from tests.live.label_studio.server import Server

PAGE = Path(__file__).resolve().parents[3] / "docs" / "label-studio-page.md"
_BLOCK = re.compile(r"```console\n\$ bbq (.*?)\n(.*?)```", re.DOTALL)


def test_the_steps_lead_to_a_live_page(
    label_studio: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    secret = "a-secret-of-the-documentation"  # noqa: S105
    Path("webhook-secret").write_text(f"{secret}\n", encoding="ascii")
    project = label_studio.project(PAIRWISE, "A crowd")
    tasks = label_studio.tasks(project, [pair("model-a", "model-b"), pair("model-b", "model-c")])
    variables = {"LABEL_STUDIO_URL": label_studio.url, "LABEL_STUDIO_API_KEY": label_studio.token}
    (serve, said), (connect, printed) = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    port = str(_free_port())
    arguments = [
        str(project) if word == "5" else word for word in shlex.split(serve) if word != "serve"
    ]
    store = arguments[arguments.index("--store") + 1]
    with serving(Path(store), *arguments, "--port", port, secret=None, **variables) as here:
        assert lines(here.log)[-1] == lines(said)[-1].replace("N", "N")
        words = [str(project) if word == "5" else word for word in shlex.split(connect)]
        done = run(*words, "--serve-url", here.url, **variables)
        assert done.returncode == 0, done.stderr
        assert lines(done.stderr + done.stdout) == lines(printed)
        for task in tasks:
            label_studio.annotate(task, chose("left"))
        here.wait_for(2)
        assert "model-a" in here.ask("/").text
