"""Signals while the daemon runs."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def handled(stop: Callable[[], None], reread: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on SIGTERM and SIGINT, `reread` on SIGHUP; afterwards all is as before.

    Only the main thread may do this; in another one nothing happens.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    wanted = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: reread}
    before = {number: signal.getsignal(number) for number in wanted}
    for number in wanted:
        signal.signal(number, lambda caught, _: wanted[signal.Signals(caught)]())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
