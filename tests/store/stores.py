"""A store with sources of every kind, and the command line on it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

import bbq_plugin as bbq
from bbq_plugin.cli import main
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.file_ingest import Offer
from bbq_plugin.simulation import write_study

HOSTILE_NAME = "bad\x1b[31m;rm -rf.csv"


def run(*arguments: str | os.PathLike[str], env: dict[str, str] | None = None) -> Result:
    return CliRunner(env=env).invoke(
        main, [os.fspath(one) for one in arguments], prog_name="bbq", catch_exceptions=False
    )


def report(*arguments: str | os.PathLike[str]) -> Any:
    result = run(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def study(folder: Path, name: str = "votes.jsonl", **design: Any) -> Path:
    """A file of simulated votes."""
    path = folder / name
    design = {"items": 5, "raters": 8, "comparisons": 300, "guessers": 0.2, "seed": 3, **design}
    with path.open("w", encoding="utf-8") as file:
        write_study(bbq.simulate(**design), file, "arena")
    return path


def filled(folder: Path) -> Path:
    """A store that has read a file, refused one, seen a copy, and waits for another."""
    votes = study(folder)
    copy, bad, growing = folder / "copy.jsonl", folder / HOSTILE_NAME, folder / "growing.jsonl"
    copy.write_bytes(votes.read_bytes())
    bad.write_text("x,y\n1,2\n")
    more = study(folder, "more.jsonl", seed=4, comparisons=20).read_bytes()
    growing.write_bytes(more[:-10])
    store = folder / "votes.db"
    with Engine(store) as engine:
        offers = [Offer(votes, votes.name), Offer(copy, copy.name), Offer(bad, bad.name)]
        engine.ingest([*offers, Offer(growing, growing.name, settled=False)])
        engine.refresh(full=True)
    return store
