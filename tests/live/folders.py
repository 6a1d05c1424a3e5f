"""A folder whose files are read into a store, and what is written into them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bbq_plugin.live.file_ingest import Ingest, Offer, Outcome
from bbq_plugin.store import Store
from bbq_plugin.store.store import records_of


class Folder:
    """A folder, a store, and the reading of one into the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = Store(":memory:", clock=lambda: 1000.0)
        self.ingest = Ingest(self.store)

    def write(self, name: str, text: str) -> None:
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_text(text)

    def append(self, name: str, text: str) -> None:
        with (self.path / name).open("a") as file:
            file.write(text)

    def offer(self, *names: str, settled: bool = True) -> list[Outcome]:
        with self.store.transaction() as transaction:
            return [
                self.ingest(transaction, Offer(self.path / name, name, settled)) for name in names
            ]

    def take(self, name: str, *, settled: bool = True) -> Outcome:
        (outcome,) = self.offer(name, settled=settled)
        return outcome

    @property
    def answers(self) -> list[tuple[str | None, str, str, str]]:
        return sorted((r.rater, r.left, r.right, r.outcome) for r in records_of(self.store))

    def forget(self) -> None:
        """As after a restart: nothing is remembered but the store."""
        self.ingest = Ingest(self.store, self.ingest.reading)


KINDS = pytest.mark.parametrize("kind", ["jsonl", "csv"])


def line(rater: str, winner: str = "model_a", **more: Any) -> str:
    return (
        json.dumps({"judge": rater, "model_a": "x", "model_b": "y", "winner": winner, **more})
        + "\n"
    )


def said(rater: str, outcome: str = "left") -> tuple[str, str, str, str]:
    return (rater, "x", "y", outcome)


def rows(kind: str, *raters: str) -> str:
    if kind == "jsonl":
        return "".join(map(line, raters))
    return "".join(f"{rater},x,y,model_a\n" for rater in raters)


def begun(kind: str, *raters: str) -> str:
    header = "" if kind == "jsonl" else "judge,model_a,model_b,winner\n"
    return header + rows(kind, *raters)
