"""A line to a client: what it asks for has to be there in time.

uvicorn waits for the headers of a request as long as a client likes. Whoever opens many lines and
sends a byte now and then would hold all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio

__all__ = ["HEAD_BYTES", "HEAD_S", "Protocol"]

#: From the first byte of a request, or from the beginning of a line, to the end of the headers.
HEAD_S = 5.0
HEAD_BYTES = 1 << 16

_LATE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n"
    b"connection: close\r\n\r\n"
)


class Protocol(HttpToolsProtocol):
    """HTTP as uvicorn speaks it, with a limit to the time and the size of headers."""

    _patience: asyncio.TimerHandle | None = None
    _n_head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait."""
        super().connection_made(transport)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to wait for any more."""
        self._have_headers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless the headers grow without end."""
        if self._patience is None and (self.cycle is None or self.cycle.response_complete):
            self._expect_headers()
        before = self._patience
        super().data_received(data)
        if self._patience is not None and self._patience is before:
            self._n_head += len(data)
            if self._n_head > HEAD_BYTES and not self.transport.is_closing():
                self._end(_LARGE)

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        if self._patience is None:
            self._expect_headers()

    def on_headers_complete(self) -> None:
        """In time."""
        self._have_headers()
        super().on_headers_complete()

    def _expect_headers(self) -> None:
        self._n_head = 0
        self._patience = self.loop.call_later(HEAD_S, self._late)

    def _have_headers(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _late(self) -> None:
        # A browser keeps lines in store and asks nothing: these just end.
        self._end(_LATE if self._n_head else b"")

    def _end(self, answer: bytes) -> None:
        self._have_headers()
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(answer)
        self.transport.close()
