"""Adapters by entry point, and the door through which every file comes in.

An adapter is a class without arguments, registered under the entry point group
`bbq_plugin.adapters`; the built-in ones load the same way as anyone else's.
"""

from __future__ import annotations

import gzip
import inspect
import io
import zlib
from importlib.metadata import entry_points
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

from bbq_plugin.comparisons import Comparison, Comparisons, Skipped
from bbq_plugin.errors import FormatError, UnsupportedError, UsageError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

GROUP = "bbq_plugin.adapters"

# Enough for the first lines of any table or log; sniffing never reads more.
HEAD_BYTES = 64 * 1024

_GZIP_MAGIC = b"\x1f\x8b"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class Adapter(Protocol):
    """What turns one kind of file into records."""

    name: str

    def sniff(self, head: bytes, name: str) -> str | None:
        """Say why this file is one of mine, or None. `head` is decompressed already."""

    def read(
        self, stream: io.BufferedReader, name: str, *args: Any, **options: Any
    ) -> Iterator[Comparison | Skipped]:
        """Yield the records of one file. `name` is for messages and keys.

        Options are keyword-only parameters of the adapter's own.
        """


def adapters() -> Mapping[str, Adapter]:
    """Every installed adapter by name."""
    found: dict[str, Adapter] = {}
    for entry in entry_points(group=GROUP):
        if entry.name in found:
            raise UnsupportedError(
                f"two installed packages bring an adapter {entry.name!r}; uninstall one of them"
            )
        try:
            found[entry.name] = cast("Adapter", entry.load()())
        except Exception as error:
            package = entry.dist.name if entry.dist else "an unknown package"
            raise UnsupportedError(
                f"adapter {entry.name!r} of {package} cannot be loaded "
                f"({type(error).__name__}: {error}); upgrade or uninstall that package"
            ) from error
    return found


def read(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    adapter: str | Adapter | None = None,
    **options: Any,
) -> Comparisons:
    """Read one file, or several as one set, into `Comparisons`.

    The adapter is recognised by the content of each file unless it is named.
    Other keywords are the adapter's own options, e.g. `both_bad="drop"`.
    """
    paths = list(path) if isinstance(path, (list, tuple)) else [path]
    if not paths:
        raise UsageError("no file was given; name at least one")
    return Comparisons.from_comparisons(
        chain.from_iterable(
            records(cast("str | os.PathLike[str]", one), adapter, **options) for one in paths
        )
    )


def records(
    path: str | os.PathLike[str], adapter: str | Adapter | None = None, **options: Any
) -> Iterator[Comparison | Skipped]:
    """Yield the records of one file as its adapter finds them."""
    name = str(path)
    try:
        with Path(path).open("rb", buffering=HEAD_BYTES) as file:
            stream = _decompressed(cast("io.BufferedReader", file), name)
            head = stream.peek(HEAD_BYTES)[:HEAD_BYTES]
            _check_head(head, name)
            chosen = _choose(adapter, head, name)
            _check_options(chosen, options)
            yield from chosen.read(stream, name, **options)
    except OSError as error:
        why = error.strerror or str(error)
        raise FormatError(f"cannot be read ({why})", name, remedy="check the path") from error


def _check_head(head: bytes, name: str) -> None:
    if not head.strip(b"\xef\xbb\xbf \t\r\n"):
        raise FormatError("the file is empty", name, remedy="give a file with comparisons")
    if head.startswith(_UTF16_MARKS):
        raise FormatError("the text is UTF-16", name, 1, remedy="save it as UTF-8")


def _choose(adapter: str | Adapter | None, head: bytes, name: str) -> Adapter:
    if adapter is not None and not isinstance(adapter, str):
        return adapter
    known = adapters()
    if adapter is not None:
        if adapter not in known:
            raise UsageError(f"there is no adapter {adapter!r}; known: {_listed(known)}")
        return known[adapter]
    reasons = {key: reason for key, one in known.items() if (reason := one.sniff(head, name))}
    if len(reasons) == 1:
        return known[next(iter(reasons))]
    if reasons:
        why = "; ".join(f"{key}: {reason}" for key, reason in reasons.items())
        raise FormatError(
            f"several adapters could read this file ({why})",
            name,
            remedy=f"name one of them: {_listed(reasons)}",
        )
    raise FormatError(
        "no adapter recognises this file",
        name,
        value=head[:80],
        remedy=f"name the adapter if you know it; known: {_listed(known)}",
    )


def _check_options(adapter: Adapter, options: Mapping[str, object]) -> None:
    parameters = inspect.signature(adapter.read).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    allowed = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    for option in options:
        if option not in allowed:
            raise UsageError(
                f"adapter {adapter.name!r} has no option {option!r}; it has: {_listed(allowed)}"
            )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _decompressed(file: io.BufferedReader, name: str) -> io.BufferedReader:
    """The file as it is, or as gzip unpacks it: the content decides, not the name."""
    if not file.peek(2).startswith(_GZIP_MAGIC):
        return file
    return io.BufferedReader(_GuardedGzip(file, name), HEAD_BYTES)


class _GuardedGzip(io.RawIOBase):
    """A gzip stream whose faults name the file and the last whole line."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._gzip = gzip.GzipFile(fileobj=file)
        self._name = name
        self._lines = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            # read1 hands over what is there before it meets a broken end, so the count is right.
            data = self._gzip.read1(len(buffer))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise FormatError(
                f"the gzip data break off or are damaged after line {self._lines} ({error})",
                self._name,
                self._lines + 1,
                remedy="copy or download the file again",
            ) from error
        self._lines += data.count(b"\n")
        buffer[: len(data)] = data
        return len(data)
