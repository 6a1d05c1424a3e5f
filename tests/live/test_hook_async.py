"""The hook on an event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

import bbq_plugin as bbq
from bbq_plugin.errors import DataError, StoreBusyError, UsageError
from bbq_plugin.store import Store
from bbq_plugin.store.store import records_of

if TYPE_CHECKING:
    from pathlib import Path

A_VOTE: dict[str, Any] = {"rater": "ann", "left": "a", "right": "b", "outcome": "left"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def keys(path: Path) -> list[str]:
    with Store(path, writable=False) as store:
        return sorted(record.key for record in records_of(store))


def test_votes_are_stored_when_awaited_and_results_can_be_asked_for(path: Path) -> None:
    async def run() -> None:
        async with bbq.AsyncHook(path, refresh_every_s=0) as hook:
            assert await hook.vote(**A_VOTE, key="k") == "k"
            assert keys(path) == ["k"]
            made = await asyncio.gather(*(hook.vote(**A_VOTE) for _ in range(50)))
            assert keys(path) == sorted(["k", *made])
            assert await hook.retract(made[0])
            assert not await hook.retract(made[0])
            await hook.flush()
            assert (await hook.fit).data.n_comparisons == 50
            assert (await hook.leaderboard())[0].item == "a"
            assert [row.rater for row in await hook.raters()] == ["ann"]
            assert len(await hook.next_pairs(5)) == 1
            with pytest.raises(DataError, match="outcome is 'a'"):
                await hook.vote(**A_VOTE | {"outcome": "a"})
            with pytest.raises(UsageError, match="no adapter for events"):
                await hook({})
            with pytest.raises(StoreBusyError):
                await bbq.AsyncHook(path).open()

    asyncio.run(run())
    assert len(keys(path)) == 50


def test_the_loop_goes_on_while_a_vote_waits_for_the_disk(path: Path) -> None:
    async def run() -> None:
        async with bbq.AsyncHook(path) as hook:
            free, held = threading.Event(), asyncio.Event()
            loop = asyncio.get_running_loop()

            def hold() -> None:
                with hook._hook._engine.store._mutex:
                    loop.call_soon_threadsafe(held.set)
                    free.wait()

            holding = asyncio.create_task(asyncio.to_thread(hold))
            await held.wait()
            voting = [asyncio.create_task(hook.vote(**A_VOTE)) for _ in range(3)]
            gone = asyncio.create_task(hook.vote(**A_VOTE, key="gone"))
            # Were the loop kept waiting, this would never come to an end.
            for _ in range(100):
                await asyncio.sleep(0)
            assert not any(vote.done() for vote in voting)
            gone.cancel()
            with pytest.raises(asyncio.CancelledError):
                await gone
            free.set()
            await holding
            made = await asyncio.gather(*voting)
            assert set(made) <= set(keys(path))

    asyncio.run(run())


def test_callbacks_run_on_the_loop_whether_they_are_to_be_awaited_or_not(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[tuple[str, int, bool]] = []

    async def run() -> None:
        here = threading.current_thread()

        def plain(update: bbq.Update) -> None:
            told.append(("plain", update.n_comparisons, threading.current_thread() is here))

        async def slow(update: bbq.Update) -> None:
            await asyncio.sleep(0)
            # A callback may ask and vote, but not wait for itself.
            board = await hook.leaderboard()
            assert board[0].item == "a"
            if update.n_comparisons == 1:
                await hook.vote(**A_VOTE, key="reaction")
            with pytest.raises(UsageError, match="would wait for itself"):
                await hook.flush()
            with pytest.raises(UsageError, match="would wait for itself"):
                await hook.close()
            told.append(("slow", update.n_comparisons, threading.current_thread() is here))

        async def fail(_: bbq.Update) -> None:
            raise RuntimeError("the printer is on fire")

        async with bbq.AsyncHook(path, refresh_every_s=0) as hook:
            stop = hook.on_update(plain)
            hook.on_update(fail)
            hook.on_update(slow)
            await hook.vote(**A_VOTE)
            await hook.flush()
            await hook.flush()
            stop()
            await hook.vote(**A_VOTE)

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert told == [
        ("plain", 1, True), ("slow", 1, True), ("plain", 2, True), ("slow", 2, True),
        ("slow", 3, True),
    ]  # fmt: skip
    assert "the printer is on fire" in caplog.text


def test_asking_in_a_callback_when_all_is_gone_is_an_error_and_no_deadlock(path: Path) -> None:
    found: list[str] = []

    async def run() -> None:
        async with bbq.AsyncHook(path, refresh_every_s=0) as hook:
            key = await hook.vote(**A_VOTE)
            await hook.flush()

            async def ask(_: bbq.Update) -> None:
                with pytest.raises(DataError, match="no comparisons yet"):
                    await hook.leaderboard()
                found.append("asked")

            hook.on_update(ask)
            await hook.retract(key)

    asyncio.run(run())
    assert found == ["asked"]


def test_a_hook_that_is_not_open_says_how_to_open_it(path: Path) -> None:
    async def run() -> None:
        hook = bbq.AsyncHook(path)
        with pytest.raises(UsageError, match="use 'async with'"):
            await hook.vote(**A_VOTE)
        await hook.open()
        with pytest.raises(UsageError, match="open already"):
            await hook.open()
        await hook.vote(**A_VOTE)
        await hook.close()
        with pytest.raises(UsageError, match="this hook is closed"):
            await hook.vote(**A_VOTE)

    asyncio.run(run())
