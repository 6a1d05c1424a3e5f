"""Answers for the tests of a store, and what a store holds."""

from __future__ import annotations

from typing import Any

from bbq_plugin.data.records import Comparison
from bbq_plugin.store import Store
from bbq_plugin.store.store import records_of


def answer(key: str, outcome: Any = "left", rater: str | None = "ann", **more: Any) -> Comparison:
    return Comparison(key, rater, more.pop("left", "x"), more.pop("right", "y"), outcome, **more)


def held(store: Store) -> dict[str, str]:
    return {record.key: record.outcome for record in records_of(store)}


def ranking(key: str, *pairs: str, version: float = 1.0) -> list[Comparison]:
    return [
        answer(f"{key}:{i}", left=a, right=b, slate=key, version=version, at=1.0)
        for i, (a, b) in enumerate(map(tuple, pairs))
    ]
