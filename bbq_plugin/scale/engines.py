"""Where the parts of a prepared set are computed: in this process, or by Dask.

An engine maps a function over tasks and adds results up by a fixed tree: nothing more, so that
another one can follow without touching the model. Scheduling, retries and the way of arguments
and results are Dask's own.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from bbq_plugin.errors import RemoteError, UsageError
from bbq_plugin.model.objectives import added, added_up
from bbq_plugin.scale.prepared_set import needs_extra

if TYPE_CHECKING:
    #: Not typed by its authors.
    Client = Any

T = TypeVar("T")
DASK = "dask"
TIMEOUT_S = 30


class MapEngine(Protocol):
    """What a fit over parts asks for. ``heard(done, of)`` is told how far a pass is."""

    heard: Callable[[int, int], object]

    def map(self, work: Callable[..., T], tasks: Sequence[Any], *args: Any) -> list[T]:
        """``work(task, *args)`` of all tasks, in their order."""

    def sum(self, work: Callable[..., T], tasks: Sequence[Any], *args: Any) -> T:
        """The results added up, as `added_up` says."""


def _unheard(_done: int, _of: int) -> None:
    pass


class LocalEngine:
    """One part after the other in this process; the passes use all cores themselves."""

    def __init__(self) -> None:
        self.heard: Callable[[int, int], object] = _unheard

    def map(self, work: Callable[..., T], tasks: Sequence[Any], *args: Any) -> list[T]:
        """``work(task, *args)`` of all tasks, in their order."""
        return list(self._each(work, tasks, args))

    def sum(self, work: Callable[..., T], tasks: Sequence[Any], *args: Any) -> T:
        """The same tree as `added_up`, holding one result a level."""
        held: list[tuple[int, Any]] = []
        value: Any
        for value in self._each(work, tasks, args):
            level, whole = 0, value
            while held and held[-1][0] == level:
                whole, level = added(held.pop()[1], whole), level + 1
            held.append((level, whole))
        total: Any = held.pop()[1]
        while held:
            total = added(held.pop()[1], total)
        return cast("T", total)

    def _each(
        self, work: Callable[..., T], tasks: Sequence[Any], args: tuple[Any, ...]
    ) -> Iterator[T]:
        for done, task in enumerate(tasks, start=1):
            yield work(task, *args)
            self.heard(done, len(tasks))


class DaskEngine:
    """The same by the workers of a Dask cluster."""

    def __init__(self, client: Client, where: str) -> None:
        self.client, self.where = client, where
        self.heard: Callable[[int, int], object] = _unheard

    def map(self, work: Callable[..., T], tasks: Sequence[Any], *args: Any) -> list[T]:
        """``work(task, *args)`` of all tasks, in their order."""
        with self._gone():
            found: list[T] = self.client.gather(self._futures(work, tasks, args))
        return found

    def sum(self, work: Callable[..., T], tasks: Sequence[Any], *args: Any) -> T:
        """The results added up where they are; one result comes back."""
        with self._gone():
            submit = self.client.submit
            whole = added_up(
                self._futures(work, tasks, args), lambda a, b: submit(added, a, b, pure=False)
            )
            found: T = whole.result()
        return found

    def _futures(
        self, work: Callable[..., Any], tasks: Sequence[Any], args: tuple[Any, ...]
    ) -> list[Any]:
        done = 0

        def heard(_future: Any) -> None:
            nonlocal done
            done += 1
            self.heard(min(done, len(tasks)), len(tasks))

        futures = [self.client.submit(_one_thread, work, t, *args, pure=False) for t in tasks]
        for future in futures:
            future.add_done_callback(heard)
        return futures

    @contextmanager
    def _gone(self) -> Iterator[None]:
        """What the cluster may fail with, as errors that say what to do."""
        from concurrent.futures import CancelledError  # noqa: PLC0415 (with dask)

        from distributed import KilledWorker  # noqa: PLC0415 (an extra)

        try:
            yield
        except KilledWorker as error:
            raise RemoteError(
                f"the workers of {self.where} ended several times on the same part ({error}); give "
                "them more memory, or prepare the set with more --parts"
            ) from error
        except (CancelledError, OSError, TimeoutError) as error:
            raise RemoteError(
                f"the scheduler at {self.where} is gone ({type(error).__name__}); start it and run "
                "the command again: it begins from the last finished pass"
            ) from error


def _one_thread(work: Callable[..., T], *args: Any) -> T:
    """Work where a worker is: the parts keep all cores busy, unless BBQ_THREADS says otherwise."""
    os.environ.setdefault("BBQ_THREADS", "1")
    return work(*args)


@contextmanager
def opened_engine(
    engine: str | MapEngine | None, tell: Callable[[str], object] = lambda _text: None
) -> Iterator[MapEngine]:
    """An engine by its name: ``local``, ``dask`` (a cluster of its own), ``dask://HOST:PORT``."""
    if not isinstance(engine, str):
        yield LocalEngine() if engine is None else engine
    elif engine == "local":
        yield LocalEngine()
    elif engine == DASK:
        with _local_cluster(tell) as found:
            yield found
    elif engine.startswith(f"{DASK}://"):
        with _client(f"tcp://{engine.removeprefix(f'{DASK}://')}") as client:
            yield DaskEngine(client, engine)
    else:
        raise UsageError(
            f"engine={engine!r}: expected local, dask or dask://HOST:PORT (on the command line "
            "also auto and memory)"
        )


@contextmanager
def _client(address: str) -> Iterator[Client]:
    try:
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise needs_extra(error) from error
    try:
        client = distributed.Client(address, timeout=TIMEOUT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise RemoteError(
            f"no Dask scheduler answers at {address}; start one with: dask scheduler"
        ) from error
    # It writes a traceback when the scheduler is gone; here an error says so.
    log = logging.getLogger("distributed.client")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield client
    finally:
        client.close(timeout=5)
        log.setLevel(level)


@contextmanager
def _local_cluster(tell: Callable[[str], object]) -> Iterator[DaskEngine]:
    try:
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise needs_extra(error) from error
    from bbq_plugin.data.triples import worker_count  # noqa: PLC0415 (numba loads slowly)

    n = max(2, worker_count())
    tell(f"starting a Dask cluster of {n} processes on this machine")
    with distributed.LocalCluster(
        n_workers=n, threads_per_worker=1, processes=True, host="127.0.0.1",
        dashboard_address="127.0.0.1:0", silence_logs="ERROR", env=_paths(),
    ) as cluster, _client(cluster.scheduler_address) as client:  # fmt: skip
        yield DaskEngine(client, cluster.scheduler_address)


def _paths() -> dict[str, str]:
    """Where compiled code is kept, if it was said."""
    return {name: os.environ[name] for name in ("NUMBA_CACHE_DIR",) if name in os.environ}
