"""The objects of a JSON array one by one, without holding the array.

A decoder needs a whole value, and an export of two gigabytes is one value. This finds
where each top-level object ends and hands over its bytes; only the task at hand is in
memory. Everything between two braces is passed over by one match of a regular
expression, strings included, so Python runs once a brace and not once a byte.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bbq_plugin.errors import FormatError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

BOM = b"\xef\xbb\xbf"

_CHUNK = 1 << 20
_BLANK = b" \t\r\n"

# Up to the next brace outside a string. Possessive, so it never goes back over what it read;
# a string that the window cuts off is left where it starts.
_TO_BRACE = re.compile(rb'[^"{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}]*+)*+', re.DOTALL)

_EXPORT_AGAIN = "export the project again; the file may be cut off"


def objects(stream: io.BufferedReader, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield each object of the array with the line it starts on."""
    return _Scanner(stream, name).objects()


class _Scanner:
    def __init__(self, stream: io.BufferedReader, name: str) -> None:
        self._stream = stream
        self._name = name
        self._window = b""
        self._at = 0
        self._line = 1
        self._count = 0

    def objects(self) -> Iterator[tuple[int, bytes]]:
        self._more()
        if self._window.startswith(BOM):
            self._at = len(BOM)
        if self._next() != b"[":
            raise self._broken("this is not a JSON array of tasks")
        self._at += 1
        first = True
        while True:
            byte = self._next()
            if byte == b"]" and first:
                break
            if byte != b"{":
                raise self._broken(f"task {self._count + 1} of the array is not a JSON object")
            line = self._line
            raw = self._object()
            self._count += 1
            yield line, raw
            first = False
            byte = self._next()
            if byte == b"]":
                break
            if byte != b",":
                raise self._broken(f"no comma after task {self._count} of the array")
            self._at += 1
        self._at += 1
        if self._next():
            raise self._broken("there is more text after the end of the array")

    def _more(self) -> bool:
        """Drop what was read, and at least double the rest: a long string is not read n² times."""
        rest = self._window[self._at :]
        fresh = self._stream.read(max(_CHUNK, len(rest)))
        self._window, self._at = rest + fresh, 0
        return bool(fresh)

    def _next(self) -> bytes:
        """The next byte that is no blank, not consumed; empty at the end of the file."""
        while True:
            rest = self._window[self._at : self._at + 64]
            blanks = len(rest) - len(rest.lstrip(_BLANK))
            self._line += rest.count(b"\n", 0, blanks)
            self._at += blanks
            if blanks < len(rest):
                return rest[blanks : blanks + 1]
            if not rest and not self._more():
                return b""

    def _object(self) -> bytes:
        """The object that starts here; consumed."""
        depth = 0
        here = self._at
        while True:
            match = _TO_BRACE.match(self._window, here)
            here = match.end() if match else here
            brace = self._window[here : here + 1]
            if brace == b"{":
                depth += 1
            elif brace == b"}":
                depth -= 1
                if depth == 0:
                    break
            else:
                here -= self._at
                if not self._more():
                    raise self._broken(f"the file breaks off inside task {self._count + 1}")
                continue
            here += 1
        raw = self._window[self._at : here + 1]
        self._line += raw.count(b"\n")
        self._at = here + 1
        return raw

    def _broken(self, problem: str) -> FormatError:
        sample = self._window[self._at : self._at + 60].decode("utf-8", "replace")
        if not sample:
            problem = "the file breaks off before the end of the array"
        return FormatError(problem, self._name, self._line, sample, remedy=_EXPORT_AGAIN)
