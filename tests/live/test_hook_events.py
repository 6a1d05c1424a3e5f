"""Events of a labelling tool, taken by the hook inside a program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import bbq_plugin as bbq
from bbq_plugin.data.records import Skipped
from bbq_plugin.errors import DataError, UnsupportedError, UsageError
from tests.live.hooks import kept

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bbq_plugin.data.records import Record


class Ticks:
    """An adapter whose tool sends events."""

    name = "ticks"

    def sniff(self, head: bytes, name: str) -> str | None:
        """Never a file."""
        del head, name
        return None

    def read(self, *_: Any, **__: Any) -> Iterator[bbq.Comparison | Skipped]:
        """No files."""
        yield from ()

    def read_event(self, event: Mapping[str, Any]) -> Iterator[Record]:
        """One answer, or that it was taken back."""
        if event["action"] == "deleted":
            yield Skipped("event", "deleted", key=event["id"], version=event["v"], at=1.0)
        else:
            yield bbq.Comparison(
                event["id"], "ann", "a", "b", event["answer"], at=1.0, version=event["v"]
            )


def test_events_of_an_adapter_come_in_twice_and_out_of_order(path: Path) -> None:
    with bbq.Hook(path, adapter=Ticks()) as hook:
        made = {"action": "made", "id": "t1", "answer": "left", "v": 1.0}
        assert hook(made) == 1
        assert hook(made) == 0
        assert hook(made | {"answer": "right", "v": 3.0}) == 1
        assert hook(made | {"answer": "tie", "v": 2.0}) == 0
        assert hook(made | {"id": "t2"}) == 1
        assert hook({"action": "deleted", "id": "t2", "v": 4.0}) == 1
        assert hook(made | {"id": "t2", "v": 2.0}) == 0
        with pytest.raises(DataError, match="outcome is 'up'"):
            hook(made | {"id": "t3", "answer": "up"})
        hook.flush()
        assert hook.fit.data.n_comparisons == 1
    assert {key: record.outcome for key, record in kept(path).items()} == {"t1": "right"}


def test_a_bad_event_does_not_take_the_votes_beside_it_with_it(path: Path) -> None:
    with bbq.Hook(path, adapter=Ticks()) as hook:
        with hook._engine.store._mutex:
            first = hook.submit(bbq.Comparison("v1", "ann", "a", "b", "left"))
            bad = hook.submit_event({"action": "made", "id": "t", "answer": "up", "v": 1.0})
            last = hook.submit(bbq.Comparison("v2", "ann", "a", "b", "left"))
        assert (first.result(), last.result()) == ("v1", "v2")
        assert isinstance(bad.exception(), DataError)
    assert set(kept(path)) == {"v1", "v2"}


def test_an_adapter_without_events_and_a_hook_without_adapter_say_so(
    path: Path, tmp_path: Path
) -> None:
    with (
        bbq.Hook(path, adapter="arena") as hook,
        pytest.raises(UnsupportedError, match="'arena' reads files and no events"),
    ):
        hook({})
    with (
        bbq.Hook(tmp_path / "plain.db") as plain,
        pytest.raises(UsageError, match="has no adapter for events"),
    ):
        plain({})
