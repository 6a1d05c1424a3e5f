"""The hook for programs that run on an event loop: the same, and the loop is never kept waiting."""

from __future__ import annotations

import asyncio
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Self, Unpack

from bbq_plugin.data.records import Comparison
from bbq_plugin.errors import UsageError
from bbq_plugin.live.hook import Hook, inside
from bbq_plugin.live.votes import key_text

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from bbq_plugin.analysis import Leaderboard, NextPairs, RaterReport
    from bbq_plugin.data.records import Outcome
    from bbq_plugin.live.hook import Options
    from bbq_plugin.live.updates import Update
    from bbq_plugin.model import Fit

__all__ = [
    "AsyncHook",
]


class AsyncHook:
    """`Hook` with methods to await; options are the same.

        async with bbq.AsyncHook("state.db") as hook:
            key = await hook.vote(rater="ann", left="a", right="b", outcome="left")

    Without `async with`: `await hook.open()` first and `await hook.close()` at the end.
    """

    def __init__(self, store: str | os.PathLike[str], **options: Unpack[Options]) -> None:
        self._store, self._options = store, options
        self._opened: Hook | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self) -> Self:
        """Take the store; reading what is in it may take a moment."""
        if self._opened is not None:
            raise UsageError("this hook is open already")
        self._loop = asyncio.get_running_loop()
        self._opened = await asyncio.to_thread(Hook, self._store, **self._options)
        return self

    async def close(self) -> None:
        """Store and fit what is waiting, call the callbacks a last time, and free the store."""
        self._hook.check_not_inside("close")
        await asyncio.to_thread(self._hook.close)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def _hook(self) -> Hook:
        if self._opened is None:
            raise UsageError(
                "this hook is not open; use 'async with', or await its open() before anything else"
            )
        return self._opened

    # -- answers

    async def vote(
        self,
        *,
        rater: str | None,
        left: str,
        right: str,
        outcome: Outcome,
        key: str | None = None,
        weight: float = 1.0,
        at: float | None = None,
        time_s: float | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> str:
        """Store one answer; its key. It is on the disk when this returns.

        A task that is cancelled while it waits may have voted or not: give a key of your own
        where that matters, and vote again under it.
        """
        answer = Comparison(
            "" if key is None else key_text(key), rater, left, right, outcome, weight,
            at=at, time_s=time_s, tags=tags,  # type: ignore[arg-type] # copied when checked
        )  # fmt: skip
        return await asyncio.wrap_future(self._hook.submit(answer))

    async def retract(self, key: str) -> bool:
        """Take an answer back, durably; whether there was one under this key."""
        return await asyncio.wrap_future(self._hook.submit_retraction(key))

    async def __call__(self, event: Mapping[str, Any]) -> int:
        """Take an event of the adapter's tool; how many answers came, changed or went."""
        return await asyncio.wrap_future(self._hook.submit_event(event))

    # -- results

    def on_update(
        self, callback: Callable[[Update], Awaitable[object] | object]
    ) -> Callable[[], None]:
        """Have `callback(update)` called on the loop after each refit, and awaited if need be.

        What this returns ends it. An exception in the callback is logged and stops nothing; the
        next update waits until the callback is done with the last.
        """
        loop = self._loop
        hook = self._hook

        def tell(update: Update) -> None:
            assert loop is not None  # noqa: S101 (an open hook has one)
            telling = _told(hook, callback, update)
            try:
                done = asyncio.run_coroutine_threadsafe(telling, loop)
            except RuntimeError:
                # The loop has ended.
                telling.close()
                raise
            done.result()

        return hook.on_update(tell)

    @property
    def fit(self) -> Awaitable[Fit]:
        """The last fit: `await hook.fit`."""
        return asyncio.to_thread(lambda: self._hook.fit)

    async def leaderboard(self) -> Leaderboard:
        """The leaderboard of the last fit."""
        return await asyncio.to_thread(self._hook.leaderboard)

    async def raters(self) -> RaterReport:
        """The raters of the last fit, with verdicts."""
        return await asyncio.to_thread(self._hook.raters)

    async def next_pairs(self, n: int = 50, *, among: Sequence[str] | None = None) -> NextPairs:
        """What to compare next, by the last fit."""
        return await asyncio.to_thread(self._hook.next_pairs, n, among=among)

    async def flush(self) -> None:
        """Wait until every vote so far is in the fit and the callbacks were called."""
        self._hook.check_not_inside("flush")
        await asyncio.to_thread(self._hook.flush)


async def _told(
    hook: Hook, callback: Callable[[Update], Awaitable[object] | object], update: Update
) -> None:
    inside.set(hook)
    result = callback(update)
    if isawaitable(result):
        await result
