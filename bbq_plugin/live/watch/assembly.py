"""What the daemon is put together from, by its settings."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from bbq_plugin.errors import DataError
from bbq_plugin.live.config.settings import OUTPUTS
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.ingest import Reading
from bbq_plugin.live.watch.names import LeftOut
from bbq_plugin.live.watch.notice import Bell, Notices, Waits
from bbq_plugin.live.watch.notifier import Polling, chosen
from bbq_plugin.report.history import history_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bbq_plugin.live.config import Settings
    from bbq_plugin.live.ingest import Exports
    from bbq_plugin.live.outputs import Judged
    from bbq_plugin.live.watch.log import Log
    from bbq_plugin.live.watch.notifier import Choice, Notifier
    from bbq_plugin.live.watch.pushing import Pushing, Reach
    from bbq_plugin.model.fitting import Model


class Parts:
    """The engine, the eyes and the hands of the daemon."""

    def __init__(
        self, wall_clock: Callable[[], float] = time.time, reach: Reach | None = None
    ) -> None:
        """`wall_clock` gives the seconds since 1970 that go on record.

        `reach` opens the labelling project that feedback goes to.
        """
        self.wall_clock = wall_clock
        self.reach = reach

    def engine(self, settings: Settings) -> Engine:
        """Open the store for writing, or say who writes it."""
        return Engine(
            settings.path("store"),
            model=cast("Model", settings.model.model),
            priors=settings.model.fit_priors(),
            reading=reading_of(settings),
            clock=self.wall_clock,
        )

    def checked_folder(self, settings: Settings) -> Path:
        """Get the folder to watch; at the start it has to be there."""
        folder = settings.path("folder")
        if not folder.is_dir():
            raise DataError(f"{folder}: there is no such folder to watch; make it, or name another")
        return folder

    def notices(
        self,
        settings: Settings,
        log: Log,
        clock: Callable[[], float],
        bell: Bell,
        *,
        once: bool = False,
    ) -> Notices:
        """Watch the folder; `once`: look at it, with no need for events."""
        folder = settings.path("folder").absolute()
        choice = cast("Choice", settings.observer)
        notifier: Notifier
        notifier, why = (Polling(), None) if once else chosen(choice, folder)
        if why is not None:
            log("polling", reason=why)
        return Notices(
            folder,
            notifier,
            waits=waits_of(settings, once=once),
            left_out=left_out(settings, folder),
            recursive=settings.recursive,
            fall_back=choice == "auto",
            log=log,
            clock=clock,
            bell=bell,
        )

    def pushing(self, settings: Settings, engine: Engine, log: Log) -> Pushing | None:
        """What takes verdicts back into the project, if that is wanted."""
        if not settings.feedback.push or self.reach is None:
            return None
        from bbq_plugin.live.watch.pushing import Pushing  # noqa: PLC0415 (only if wanted)

        return Pushing(settings, engine.store, self.reach, log)

    def add_history(self, engine: Engine, found: Judged, how: str) -> None:
        """Put the leaderboard of this moment into the store."""
        store = engine.store
        rows = history_rows(found.board)
        store.add_history(store.clock(), found.fit.data.n_comparisons, how, rows)


def reading_of(settings: Settings) -> Reading:
    """How files are read."""
    read = settings.read
    return Reading(
        adapter=read.adapter,
        options=read.options,
        strict=read.strict,
        max_skipped=read.max_skipped,
        exports=cast("Exports", read.exports),
        keep_tags=read.keep_tags,
    )


def waits_of(settings: Settings, *, once: bool = False) -> Waits:
    """How long is waited for what; once, a file that grows is not waited for."""
    longest_s = min(settings.max_delay_s, settings.settle_s) if once else settings.max_delay_s
    return Waits(
        settle_s=settings.settle_s,
        debounce_s=min(settings.debounce_s, longest_s),
        max_delay_s=longest_s,
        rescan_s=settings.rescan_s,
    )


def left_out(settings: Settings, folder: Path) -> LeftOut:
    """What of our own lies in the watched folder."""
    return LeftOut.below(folder, store=settings.store, out=settings.out, outputs=OUTPUTS)
