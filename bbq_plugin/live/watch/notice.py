"""Which files have arrived.

The system's events are hints; what counts is the state of the files. A file has arrived when it
was closed or renamed into place and nothing touched it since, or when its state did not change for
the settle time. A file that keeps growing is offered unsettled after the maximum delay, so that
its whole lines can be read. A scan of the whole folder, at the start and every now and then, finds
what no event told of.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Protocol

from bbq_plugin.live.ingest import Offer
from bbq_plugin.live.watch.names import LeftOut, Stamp, ledger_name, look, stamp_of, walk
from bbq_plugin.live.watch.notifier import Polling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from bbq_plugin.live.watch.log import Field
    from bbq_plugin.live.watch.notifier import Hint, Notifier

# Hints that come within this time are looked at together.
_GATHER_S = 0.02
# After so many hints at once the kernel's queue may have overflowed: look for oneself.
_MANY_HINTS = 1000
# Looking through a folder may take this share of the time at most.
_SCAN_SHARE = 0.1


class Stop(Protocol):
    """Anything that knows whether to stop, such as `threading.Event`."""

    def is_set(self) -> bool:
        """Say whether to stop."""


@dataclass(frozen=True)
class Waits:
    """How long is waited for what, in seconds."""

    settle_s: float = 2.0
    debounce_s: float = 0.5
    max_delay_s: float = 10.0
    rescan_s: float = 30.0


class Bell:
    """Wakes whoever waits. `ring` may be called by other threads and by signal handlers."""

    def __init__(self) -> None:
        # `put` of this queue alone is safe in a signal handler; an Event's lock is not.
        self._rung: SimpleQueue[None] = SimpleQueue()

    def ring(self) -> None:
        """Wake the one who waits, now or as soon as they wait."""
        self._rung.put(None)

    def wait(self, timeout_s: float) -> bool:
        """Wait for a ring; say whether there was one. Rings that came together count as one."""
        try:
            self._rung.get(timeout=max(timeout_s, 0.0))
        except Empty:
            return False
        while not self._rung.empty():
            self._rung.get()
        return True


@dataclass(slots=True)
class _Pending:
    """A file that changed and was not offered as settled since."""

    stamp: Stamp
    changed_s: float  # when its state was last seen to be another
    waiting_s: float  # since when it waits to be offered
    closed: bool = False  # and not touched since
    was_offered: bool = False  # though not as settled

    def due_s(self, waits: Waits) -> float:
        if self.closed:
            return self.changed_s
        return min(self.changed_s + waits.settle_s, self.waiting_s + waits.max_delay_s)


class Notices:
    """Watches one folder and gathers what has arrived into batches."""

    def __init__(
        self,
        folder: Path,
        notifier: Notifier,
        *,
        waits: Waits,
        left_out: LeftOut | None = None,
        recursive: bool = True,
        fall_back: bool = True,
        log: Callable[..., None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        bell: Bell | None = None,
    ) -> None:
        """`fall_back`: where the system's events cannot be had, look by ourselves instead."""
        self.folder = folder
        self.waits = waits
        self.left_out = LeftOut() if left_out is None else left_out
        self.bell = Bell() if bell is None else bell
        self._notifier = notifier
        self._recursive = recursive
        self._fall_back = fall_back
        self._log = log or _silent
        self._clock = clock
        self._top = os.path.join(os.fspath(folder), "")  # noqa: PTH118 (Path drops the slash)
        self._lock = threading.Lock()
        self._hints: dict[str, Hint] = {}
        self._pending: dict[str, _Pending] = {}
        self._offered: dict[str, Stamp] = {}
        self._faults: dict[str, str] = {}
        self._folder_id: tuple[int, int] | None = None
        self._gone = False
        self._restart = True
        self._last_change_s = self._next_scan_s = clock()

    # -- what happens in other threads

    def hint(self, path: str, what: Hint) -> None:
        """Take a hint; any thread may give one."""
        with self._lock:
            first = not self._hints
            self._hints[path] = what
        if first:
            self.bell.ring()

    # -- what happens in the daemon's thread

    def wait(self, stop: Stop, until_s: float | None = None) -> list[Offer]:
        """Wait for the next batch, at most until this moment of the clock; stopped: no batch."""
        while not stop.is_set():
            offers = self.gather()
            now_s = self._clock()
            if offers or (until_s is not None and now_s >= until_s):
                return offers
            wake_s = self._wake_s() if until_s is None else min(self._wake_s(), until_s)
            if self.bell.wait(wake_s - now_s) and not stop.is_set():
                self.bell.wait(_GATHER_S)
        return []

    def gather(self) -> list[Offer]:
        """Look at what changed, and give what is to be read now."""
        now_s = self._clock()
        self._take_hints(now_s)
        if now_s >= self._next_scan_s:
            self._scan(now_s)
        return self._ready(now_s)

    def give_back(self, offers: Iterable[Offer]) -> None:
        """Offer these again: they could not be stored."""
        now_s = self._clock()
        for offer in offers:
            name = os.fspath(offer.path).removeprefix(self._top)
            state = look(self._top + name)
            if state is not None and name not in self._pending:
                self._offered.pop(name, None)
                self._pending[name] = _Pending(stamp_of(state), now_s, now_s, offer.settled)

    def is_idle(self) -> bool:
        """Say whether nothing waits to be offered but files that keep growing."""
        return not self._hints and all(entry.was_offered for entry in self._pending.values())

    def close(self) -> None:
        """Stop watching."""
        self._notifier.stop()

    def _take_hints(self, now_s: float) -> None:
        with self._lock:
            hints, self._hints = self._hints, {}
        if len(hints) >= _MANY_HINTS:
            self._next_scan_s = now_s
        for path, what in hints.items():
            if what == "lost":
                self._restart = True
            if what in {"lost", "folder"}:
                self._next_scan_s = now_s
                continue
            name = path.removeprefix(self._top)
            if name == path or name in self.left_out:
                continue
            state = look(path)
            if state is None:
                self._pending.pop(name, None)
                continue
            self._changed(name, stamp_of(state), now_s, closed=what == "closed")

    def _changed(self, name: str, stamp: Stamp, now_s: float, *, closed: bool = False) -> None:
        self._last_change_s = now_s
        entry = self._pending.get(name)
        if entry is None:
            self._pending[name] = _Pending(stamp, now_s, now_s, closed)
        else:
            entry.stamp, entry.changed_s, entry.closed = stamp, now_s, closed

    def _scan(self, now_s: float) -> None:
        """Look through the whole folder; an event may have been lost, or the folder itself."""
        self._watch_anew()
        found = walk(self.folder, self.left_out, recursive=self._recursive)
        for name, stamp in found.files.items():
            entry = self._pending.get(name)
            known = self._offered.get(name) if entry is None else entry.stamp
            if known != stamp:
                self._changed(name, stamp, now_s)
        for known_files in (self._pending, self._offered):
            for name in [name for name in known_files if name not in found.files]:
                del known_files[name]
        for name, fault in found.faults.items():
            if self._faults.get(name) != fault:
                self._log("folder_unreadable", folder=ledger_name(name) or ".", reason=fault)
        self._faults = found.faults
        self._next_scan_s = now_s + self._scan_every_s(self._clock() - now_s)

    def _scan_every_s(self, took_s: float) -> float:
        if self._folder_id is not None and not isinstance(self._notifier, Polling):
            return self.waits.rescan_s
        return min(max(self.waits.settle_s, took_s / _SCAN_SHARE), self.waits.rescan_s)

    def _watch_anew(self) -> None:
        """Begin to watch, or begin again where the folder is another one under the same name."""
        try:
            state = self.folder.stat()
            folder_id = (state.st_dev, state.st_ino)
        except OSError:
            folder_id = None
        if folder_id == self._folder_id and not self._restart and self._notifier.is_alive():
            return
        if folder_id is None:
            if not self._gone:
                self._log("folder_gone", folder=str(self.folder))
        elif self._folder_id is not None or self._gone:
            self._log("folder_back", folder=str(self.folder))
        self._gone = folder_id is None
        self._notifier.stop()
        self._folder_id, self._restart = folder_id, False
        if folder_id is not None:
            self._start()

    def _start(self) -> None:
        try:
            self._notifier.start(self.folder, self.hint, recursive=self._recursive)
        except FileNotFoundError:
            # Gone again already; the next scan sees to it.
            self._restart = True
        except OSError as error:
            if not self._fall_back:
                raise
            self._log("polling", reason=f"no events from the system ({error})")
            self._notifier = Polling()

    def _ready(self, now_s: float) -> list[Offer]:
        due = {n: e for n, e in self._pending.items() if now_s >= e.due_s(self.waits)}
        quiet = now_s >= self._last_change_s + self.waits.debounce_s
        if not quiet and not any(
            now_s >= entry.waiting_s + self.waits.max_delay_s for entry in due.values()
        ):
            return []
        ready = []
        for name, entry in due.items():
            state = look(self._top + name)
            if state is None:
                del self._pending[name]
                continue
            settled = stamp_of(state) == entry.stamp and (
                entry.closed or now_s >= entry.changed_s + self.waits.settle_s
            )
            if settled:
                del self._pending[name]
                self._offered[name] = entry.stamp
            else:
                self._changed_again(entry, stamp_of(state), now_s)
                if now_s < entry.waiting_s + self.waits.max_delay_s:
                    continue
                entry.waiting_s, entry.was_offered = now_s, True
            path = self.folder / name
            ready.append((state.st_mtime_ns, Offer(path, ledger_name(name), settled)))
        # The older file first, as far as that can be told.
        return [offer for _, offer in sorted(ready, key=lambda pair: (pair[0], pair[1].name))]

    def _changed_again(self, entry: _Pending, stamp: Stamp, now_s: float) -> None:
        if stamp != entry.stamp:
            entry.stamp, entry.changed_s, entry.closed = stamp, now_s, False

    def _wake_s(self) -> float:
        """Find when there is something to do even if no hint comes."""
        if not self._pending:
            return self._next_scan_s
        quiet_s = self._last_change_s + self.waits.debounce_s
        due_s = min(
            min(max(e.due_s(self.waits), quiet_s), e.waiting_s + self.waits.max_delay_s)
            for e in self._pending.values()
        )
        return min(due_s, self._next_scan_s)


def _silent(event: str, **fields: Field) -> None:
    """Tell nobody."""
