"""docs/live.md: its configuration is read, and its commands are run on a store made for it.

python tests/live/test_docs.py      writes the outputs anew
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from bbq_plugin.config import load
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.file_ingest import Offer
from tests.cli.test_docs import rendered
from tests.store.stores import study

PAGE = Path(__file__).resolve().parents[2] / "docs" / "live.md"


def shown(page: str) -> str:
    """The page with the outputs that its commands have on a store with every kind of source."""
    before = Path.cwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            with Engine("votes.db", clock=lambda: 1.7e9) as engine:
                engine.ingest(list(_offers(Path())))
                engine.refresh(full=True)
            return rendered(page)
        finally:
            os.chdir(before)


def _offers(folder: Path) -> list[Offer]:
    study_lines = study(folder, "all.jsonl", raters=12, comparisons=640).read_bytes()
    first = study_lines.splitlines(keepends=True)[:600]
    monday, again, tuesday, notes = (
        folder / name for name in ("monday.jsonl", "monday (1).jsonl", "tuesday.jsonl", "notes.txt")
    )
    monday.write_bytes(b"".join(first))
    again.write_bytes(b"".join(first))
    tuesday.write_bytes(study_lines.removeprefix(b"".join(first))[:-10])
    notes.write_text("call Ann\n")
    return [
        Offer(monday, monday.name),
        Offer(again, again.name),
        Offer(notes, notes.name),
        Offer(tuesday, tuesday.name, settled=False),
    ]


def test_the_page_shows_what_the_commands_print() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert shown(page).splitlines() == page.splitlines(), "run: python tests/live/test_docs.py"


def test_the_configuration_on_the_page_is_read(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    found = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert found is not None
    (tmp_path / "bbq.toml").write_text(found[1], encoding="utf-8")
    settings = load(tmp_path / "bbq.toml", {}, {})
    assert settings.path("store") == tmp_path / "state" / "votes.db"
    assert settings.outputs.write == ("report.json", "report.html")


if __name__ == "__main__":
    PAGE.write_text(shown(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{PAGE.name} is up to date\n")
