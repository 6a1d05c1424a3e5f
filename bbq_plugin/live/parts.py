"""A file from where it was last read up to where its lines are whole."""

from __future__ import annotations

import hashlib
import io
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import msgspec
import numpy as np

from bbq_plugin._opening import HEAD_BYTES, Opened
from bbq_plugin.errors import FormatError

if TYPE_CHECKING:
    from pathlib import Path

_BLOCK = 1 << 20
# How much of both ends of what was read is compared when a log has grown.
_EDGE = 1 << 12
_QUOTE, _LINE_FEED = 0x22, 0x0A
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Digest:
    """The hash of the first bytes of a file, ready to go on, and both ends of these bytes."""

    state: Any
    #: Device and inode.
    file: str
    size: int
    lines: int
    head: bytes
    tail: bytes

    @property
    def sha256(self) -> str:
        """Of all of it."""
        return str(self.state.hexdigest())


class OpenFile:
    """A regular file as it is at this moment; what is written to it afterwards is for later."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        try:
            # Only looked at, not opened: opening a pipe and closing it again cuts its writer off,
            # and opening some devices does something.
            _check_is_file(os.lstat(path), name)
            # In case it became one just now: a pipe would wait for a writer, a link lead anywhere.
            self.fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise FormatError(
                f"cannot be read ({error.strerror})", name, remedy="check the file and its folder"
            ) from error
        found = os.fstat(self.fd)
        try:
            _check_is_file(found, name)
        except FormatError:
            os.close(self.fd)
            raise
        self.size = found.st_size
        # A writer may set the time of a change, but not that at which it did so.
        times = f"{found.st_mtime_ns}:{found.st_ctime_ns}"
        self.identity = f"{found.st_dev}:{found.st_ino}"
        self.stamp = f"{self.identity}:{found.st_size}:{times}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def piece(self, start: int, end: int) -> bytes:
        """These bytes, or those of them that are still there."""
        pieces = []
        while start < end and (piece := os.pread(self.fd, min(_BLOCK, end - start), start)):
            pieces.append(piece)
            start += len(piece)
        return b"".join(pieces)

    def digest(self, end: int, known: Digest | None = None) -> Digest:
        """The hash of the first `end` bytes, going on from what is known of them."""
        state = hashlib.sha256() if known is None else known.state.copy()
        at, lines = (0, 0) if known is None else (known.size, known.lines)
        while at < end and (piece := os.pread(self.fd, min(_BLOCK, end - at), at)):
            state.update(piece)
            lines += piece.count(b"\n")
            at += len(piece)
        if at < end:
            raise FormatError("the file became shorter while it was read", self.name)
        return Digest(
            state,
            self.identity,
            end,
            lines,
            self.piece(0, min(end, _EDGE)),
            self.piece(max(0, end - _EDGE), end),
        )

    def still_begins_with(self, known: Digest) -> bool:
        """Whether a log has grown: the same file, longer, and both ends of what was read stand.

        Whatever else has changed has to be read again to know.
        """
        end = known.size
        return (
            self.identity == known.file
            and self.size > end
            and self.piece(0, len(known.head)) == known.head
            and self.piece(end - len(known.tail), end) == known.tail
        )

    def head(self) -> bytes:
        """What it begins with, as an adapter sees it."""
        return Opened(_Part(self, b"", 0, self.size), self.name).head

    def first_line(self) -> bytes:
        """The header of a table."""
        head = self.piece(0, HEAD_BYTES)
        end = head.find(b"\n") + 1
        return head[:end] if end else head

    def is_lines(self) -> bool:
        """Whether it is text of which every line, perhaps after a header, stands for itself."""
        head = self.piece(0, HEAD_BYTES)
        if head.startswith((b"\x1f\x8b", b"PAR1")):
            return False
        line = head.removeprefix(_BOM).lstrip().split(b"\n", 1)[0]
        if not line.startswith((b"{", b"[")):
            return True
        return line.startswith(b"{") and is_json(line)

    def is_table(self) -> bool:
        """Whether its first line is a header."""
        return not self.piece(0, _EDGE).removeprefix(_BOM).lstrip().startswith(b"{")

    def whole_lines(self, start: int, *, settled: bool) -> int:
        """Where the last line ends that is complete.

        Once a file has settled its last line needs no line feed, but a piece of JSON is none.
        """
        if self.is_table():
            return self.size if settled else self._last_row_end(start)
        end = self._last_line_end(start)
        rest = self.piece(end, self.size)
        return self.size if settled and rest and is_json(rest) else end

    def _last_line_end(self, start: int) -> int:
        at = self.size
        while at > start:
            low = max(start, at - _BLOCK)
            found = self.piece(low, at).rfind(b"\n")
            if found >= 0:
                return low + found + 1
            at = low
        return start

    def _last_row_end(self, start: int) -> int:
        """The same for a table, where a line feed inside a quoted field ends no row."""
        at, end, quotes = start, start, 0
        while at < self.size and (piece := self.piece(at, min(self.size, at + _BLOCK))):
            data = np.frombuffer(piece, dtype=np.uint8)
            before = quotes + np.cumsum(data == _QUOTE)
            ends = np.flatnonzero((data == _LINE_FEED) & (before % 2 == 0))
            if ends.size:
                end = at + int(ends[-1]) + 1
            quotes = int(before[-1])
            at += len(piece)
        return end

    def part(self, start: int, end: int) -> Opened:
        """These bytes for an adapter, after the header if it is a table and they are not."""
        header = self.first_line() if start and self.is_table() else b""
        return Opened(_Part(self, header, start, end), self.name)


class _Part(io.RawIOBase):
    """A stretch of a file, read without moving anybody's place in it."""

    def __init__(self, file: OpenFile, header: bytes, start: int, end: int) -> None:
        self._file, self._header, self._at, self._end = file, header, start, end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._header:
            n = min(len(buffer), len(self._header))
            buffer[:n], self._header = self._header[:n], self._header[n:]
            return n
        n = min(len(buffer), self._end - self._at)
        data = os.pread(self._file.fd, n, self._at) if n > 0 else b""
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def is_json(line: bytes) -> bool:
    """Whether this is one whole value."""
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return True


def _check_is_file(found: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise FormatError(
            f"this is {_kind(found.st_mode)}, not a file", name, remedy="put files here"
        )


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFLNK: "a link",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFDIR: "a folder",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "something else")
