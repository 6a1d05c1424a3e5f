"""From a file to the store: what is new in it, under which keys, what is gone."""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec
import numpy as np

from bbq_plugin.config import ReadSettings
from bbq_plugin.data.files import HEAD_BYTES, PACKED, Opened, found_in, inspected
from bbq_plugin.data.records import Batch, Comparison, Skipped
from bbq_plugin.errors import BBQError, FormatError, UnrecognisedError
from bbq_plugin.plugins import adapters, chosen_adapter
from bbq_plugin.store.database_file import blames_store
from bbq_plugin.store.sources_and_status import SourceEntry
from bbq_plugin.store.studies import MAIN
from bbq_plugin.store.transaction import SourceLog, Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from bbq_plugin.data.records import Record
    from bbq_plugin.protocols import Adapter
    from bbq_plugin.store.store import Store
    from bbq_plugin.store.transaction import Transaction


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

    def __init__(self, path: Path, name: str, opening: Mapping[str, Any] | None = None) -> None:
        """`opening`: options about its encoding, and the sheet of a workbook."""
        self.path, self.name, self.opening = path, name, opening
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
        return b"".join(self._blocks(start, end))

    def _blocks(self, start: int, end: int) -> Iterator[bytes]:
        while start < end and (block := os.pread(self.fd, min(_BLOCK, end - start), start)):
            yield block
            start += len(block)

    def digest(self, end: int, known: Digest | None = None) -> Digest:
        """The hash of the first `end` bytes, going on from what is known of them."""
        state = hashlib.sha256() if known is None else known.state.copy()
        at, lines = (0, 0) if known is None else (known.size, known.lines)
        for block in self._blocks(at, end):
            state.update(block)
            lines += block.count(b"\n")
            at += len(block)
        if at < end:
            raise FormatError("the file became shorter while it was read", self.name)
        edges = self.piece(0, min(end, _EDGE)), self.piece(max(0, end - _EDGE), end)
        return Digest(state, self.identity, end, lines, *edges)

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
        return self.part(0, self.size).head

    def first_line(self) -> bytes:
        """The header of a table."""
        head = self.piece(0, HEAD_BYTES)
        end = head.find(b"\n") + 1
        return head[:end] if end else head

    def is_lines(self) -> bool:
        """Whether it is text of which every line, perhaps after a header, stands for itself."""
        head = self.piece(0, HEAD_BYTES)
        if head.startswith(PACKED):
            return False
        line = head.removeprefix(_BOM).lstrip().split(b"\n", 1)[0]
        return is_json(line) if line.startswith(b"{") else not line.startswith(b"[")

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
        for block in self._blocks(start, self.size):
            data = np.frombuffer(block, dtype=np.uint8)
            before = quotes + np.cumsum(data == _QUOTE)
            ends = np.flatnonzero((data == _LINE_FEED) & (before % 2 == 0))
            if ends.size:
                end = at + int(ends[-1]) + 1
            quotes = int(before[-1])
            at += len(block)
        return end

    def part(self, start: int, end: int) -> Opened:
        """These bytes for an adapter, after the header if it is a table and they are not."""
        header = self.first_line() if start and self.is_table() else b""
        return Opened(_FileRange(self, header, start, end), self.name, self.opening)


class _FileRange(io.RawIOBase):
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


_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def _check_is_file(found: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise FormatError(f"this is {kind}, not a file", name, remedy="put files here")


def _lines_stand_alone(adapter: Adapter, options: Mapping[str, Any]) -> bool:
    """Whether a file of lines means the same read in parts."""
    whole = getattr(adapter, "whole_options", ())
    return getattr(adapter, "lines_stand_alone", False) and not any(o in options for o in whole)


class RowKeys:
    """Rows that have no key of their own are named by their source and line."""

    def __init__(self, name: str, source: int, shift: int) -> None:
        self._name, self._source, self._shift = name, source, shift

    @cached_property
    def _place(self) -> re.Pattern[str]:
        # Adapters say where a row stands, by the file's path or by its name alone.
        names = f"{re.escape(self._name)}|{re.escape(PurePath(self._name).name)}"
        return re.compile(rf"(?:{names}):([0-9]+)(.*)", re.DOTALL)

    def named(self, found: Iterable[Record | Batch]) -> Iterator[Record | Batch]:
        """The same under the keys that the store has for them."""
        for record in found:
            yield self._batch(record) if isinstance(record, Batch) else self._record(record)

    def _record(self, record: Record) -> Record:
        if isinstance(record, Comparison):
            return self._comparison(record)
        if isinstance(record, Skipped) and self._shift:
            return self._skipped(record)
        return record

    def _key(self, key: str) -> str:
        place = self._place.match(key)
        if place is None:
            return key
        return f"#{self._source}:{int(place[1]) + self._shift}{place[2]}"

    def _comparison(self, record: Comparison) -> Comparison:
        key = self._key(record.key)
        if key == record.key:
            return record
        slate = None if record.slate is None else self._key(record.slate)
        return Comparison(
            key, record.rater, record.left, record.right, record.outcome, record.weight, slate,
            record.at, record.time_s, record.tags, record.version,
        )  # fmt: skip

    def _batch(self, batch: Batch) -> Batch:
        records = batch.records
        lines: Any = batch.lines
        if self._shift:
            lines = [line + self._shift for line in lines]
        keys = batch.keys
        if keys is None:
            keys = [f"#{self._source}:{line}" for line in lines]
        again = None if records is None else (lambda: map(self._record, records()))
        return replace(batch, lines=lines, keys=keys, records=again)

    def _skipped(self, record: Skipped) -> Skipped:
        line = record.where.removeprefix(f"{self._name}:")
        if not line.isdigit():
            return record
        return msgspec.structs.replace(record, where=f"{self._name}:{int(line) + self._shift}")

    def moved_error(self, error: FormatError) -> FormatError:
        """The error with the line that the whole file has it at."""
        if not self._shift or error.line is None:
            return error
        line = error.line + self._shift
        return FormatError(error.problem, error.file, line, error.value, error.remedy)


Status = Literal["read", "unchanged", "copy", "waiting", "refused"]

# Logs that grow at the same time; a file that is not among them is hashed from its start.
_MOST_DIGESTS = 1000
GROWING = "it is still being written"
HALF_LINE = "its last line is not finished"


@dataclass(frozen=True)
class Offer:
    """A file to look at; `settled` says that no program writes to it any more."""

    path: Path
    #: How it is called on the record: its path inside the watched folder.
    name: str
    settled: bool = True


@dataclass(frozen=True)
class Outcome:
    """What became of an offer."""

    name: str
    status: Status
    #: Of one that is unchanged: why it was refused before.
    reason: str | None = None
    adapter: str | None = None
    n_new: int = 0
    n_changed: int = 0
    n_retracted: int = 0
    n_skipped: int = 0
    #: What was offered: a file, or a table of a database.
    what: str = "file"


class Ingest:
    """Reads files into a store; remembers between calls how far each was hashed."""

    def __init__(
        self,
        store: Store,
        reading: ReadSettings = ReadSettings(),  # noqa: B008 (frozen)
        study: int = MAIN,
    ) -> None:
        self.store, self.reading, self.study = store, reading, study
        self._digests: dict[int, Digest] = {}

    @cached_property
    def adapters(self) -> Mapping[str, Adapter]:
        """What can be read."""
        return adapters()

    def __call__(self, transaction: Transaction, offer: Offer) -> Outcome:
        """Look at one file, inside a transaction of which a failure undoes only this part."""
        # A name on disk may be no text; on the record it has to be.
        name = os.fsencode(offer.name).decode("utf-8", "backslashreplace")
        before = transaction.source("file", name, self.study)
        stamp = None
        try:
            with transaction.attempt(), OpenFile(offer.path, name, self.reading.options) as file:
                # A file is looked at again when it is to be read in another way.
                said = msgspec.json.encode(self.reading, order="sorted", enc_hook=str)
                stamp = f"{file.stamp}:{hashlib.sha256(said).hexdigest()[:16]}"
                file.stamp = stamp
                if before and before.stamp == stamp and before.status != "waiting":
                    still = before.reason if before.status == "refused" else None
                    return Outcome(name, "unchanged", still, before.adapter)
                return _Visit(self, transaction, file, before, settled=offer.settled).outcome()
        except (BBQError, OSError) as error:
            if blames_store(error):
                raise
            return self._refused(transaction, name, before, stamp, error)
        except Exception as error:  # an adapter is anybody's code
            if blames_store(error):
                raise
            why = f"the adapter failed ({type(error).__name__}: {error})"
            failed = FormatError(why, name, remedy="tell its authors, or name another adapter")
            return self._refused(transaction, name, before, stamp, failed)

    def _refused(
        self,
        transaction: Transaction,
        name: str,
        before: SourceEntry | None,
        stamp: str | None,
        error: Exception,
    ) -> Outcome:
        """Put the reason on record; what the file said before stands."""
        old = before or SourceEntry(name, "file", 0.0, study=self.study)
        reason = str(error).removeprefix(f"{name}: ")
        now = self.store.clock()
        entry = replace(old, status="refused", reason=reason, stamp=stamp, at=now)
        source = transaction.save(entry)
        transaction.record(source, entry, old.offset, transaction.last_id + 1, Tally())
        return Outcome(name, "refused", reason, old.adapter)

    def known_digest(self, entry: SourceEntry, file: OpenFile) -> Digest | None:
        """What is known of the bytes that were read, if the file still begins with them."""
        known = self._digests.get(entry.id)
        if known is not None and known.size == entry.offset and file.still_begins_with(known):
            return known
        if file.size < entry.offset:
            return None
        found = file.digest(entry.offset)
        return found if found.sha256 == entry.sha256 else None

    def remember(self, source: int, digest: Digest) -> None:
        """Keep a hash, to go on from there; those of the files that were read last are enough."""
        self._digests.pop(source, None)
        self._digests[source] = digest
        while len(self._digests) > _MOST_DIGESTS:
            del self._digests[next(iter(self._digests))]


class _Visit:
    """One look at one file."""

    def __init__(
        self,
        ingest: Ingest,
        transaction: Transaction,
        file: OpenFile,
        before: SourceEntry | None,
        *,
        settled: bool,
    ) -> None:
        self.ingest, self.transaction, self.file = ingest, transaction, file
        self.before, self.settled = before, settled
        self.reading, self.now = ingest.reading, ingest.store.clock()

    def outcome(self) -> Outcome:
        before = self.before
        if before is None or not before.offset:
            return self._whole(None)
        known = self.ingest.known_digest(before, self.file)
        if known is None:
            # Where the old content lives on under another name, that name has its answers.
            return self._whole(None if self.transaction.give_to_copy(before) else before)
        reading = self.reading
        same = reading.adapter in (None, before.adapter) and reading.options == dict(before.options)
        if before.status != "copy" and not same:
            return self._whole(before)
        if self.file.size == before.offset:
            return self._same(before)
        ended = known.tail.endswith(b"\n")
        if ended and self._grows(before) and self.file.is_lines():
            return self._appended(before, known)
        return self._whole(before)

    def _adapter(self, adapter: str | None, head: bytes = b"") -> tuple[Adapter, str]:
        return chosen_adapter(adapter, head, self.file.name, self.ingest.adapters)

    def _grows(self, before: SourceEntry) -> bool:
        known = None if before.adapter is None else self._adapter(before.adapter)[0]
        return known is not None and _lines_stand_alone(known, before.options)

    def _same(self, before: SourceEntry) -> Outcome:
        self.transaction.save(replace(before, status="read", reason=None, stamp=self.file.stamp))
        return Outcome(self.file.name, "unchanged", None, before.adapter)

    # -- reading

    def _whole(self, before: SourceEntry | None) -> Outcome:
        """Read all of it; it replaces what it said before."""
        file, options = self.file, dict(self.reading.options)
        try:
            adapter, why = self._adapter(self.reading.adapter, file.head())
        except FormatError as error:
            if not self.settled:
                # Its first line may be half there.
                return self._waits(before, GROWING)
            if not isinstance(error, UnrecognisedError):
                raise
            adapter, why, options = self._inspected(options)
        in_lines = _lines_stand_alone(adapter, options) and file.is_lines()
        if not self.settled and not in_lines:
            return self._waits(before, GROWING)
        end = file.whole_lines(0, settled=self.settled) if in_lines else file.size
        if not end:
            return self._waits(before, HALF_LINE)
        digest = file.digest(end)
        if before is None or not before.n_rows:
            twin = self.transaction.same_content(
                file.name, digest.sha256, digest.size, self.ingest.study
            )
            if twin is not None:
                return self._copy(before, twin, digest)
        entry = replace(
            before or self._new(),
            adapter=adapter.name, why=why, options=options,
            n_rows=0, n_skipped=0, skipped={}, notes=(),
        )  # fmt: skip
        return self._read(entry, digest, 0)

    def _inspected(self, options: dict[str, Any]) -> tuple[Adapter, str, dict[str, Any]]:
        """How to read a file that no adapter recognises, where that leaves no question."""
        name = self.file.name
        found = inspected(
            self.file.part(0, self.file.size), name, options, known=self.ingest.adapters
        )
        reading = found.certain
        if reading is None:
            how = "look at it with bbq inspect, and say how it is read with --mapping"
            raise FormatError(found.problem, name, remedy=how if found.readings else None)
        adapter, _ = self._adapter(reading.adapter)
        return adapter, reading.shape, {**reading.options, **options}

    def _appended(self, before: SourceEntry, known: Digest) -> Outcome:
        """Read what a log has gained."""
        end = self.file.whole_lines(before.offset, settled=self.settled)
        if end == before.offset:
            return self._waits(before, HALF_LINE)
        return self._read(before, self.file.digest(end, known), before.offset)

    def _read(self, entry: SourceEntry, digest: Digest, start: int) -> Outcome:
        file, reading = self.file, self.reading
        source = entry.id or self.transaction.save(entry)
        first_id = self.transaction.last_id + 1
        adapter, _ = self._adapter(entry.adapter)
        log = SourceLog(file.name, adapter.name, entry.why or "", 0, strict=reading.strict)
        # A table is handed over with its header again, which is a line of its own.
        shift = entry.lines - file.is_table() if start else 0
        row_keys = RowKeys(file.name, source, shift)
        opened = file.part(start, digest.size)
        try:
            found = found_in(
                opened, adapter, file.name, dict(entry.options), tagged=reading.keep_tags,
                path=file.path,
            )  # fmt: skip
            tally = self.transaction.write(
                row_keys.named(found), source, log, study=self.ingest.study,
                wholes=reading.exports == "full",
            )  # fmt: skip
            log.check(reading.max_skipped)
        except FormatError as error:
            raise row_keys.moved_error(error) from error
        if not start and entry.id:
            tally.n_retracted += self.transaction.retract_unheld(source, tally.held)
        self.transaction.after_commit.append(lambda: self.ingest.remember(source, digest))
        half = digest.size < file.size
        entry = replace(
            entry,
            status="waiting" if half else "read",
            reason=HALF_LINE if half else None,
            sha256=digest.sha256, offset=digest.size, lines=digest.lines, stamp=file.stamp,
            n_rows=entry.n_rows + log.n_answers + log.n_skipped,
            n_skipped=entry.n_skipped + log.n_skipped,
            skipped=dict(Counter(entry.skipped) + log.all_skipped.reasons),
            notes=tuple(dict.fromkeys((*entry.notes, *log.notes))),
            at=self.now,
        )  # fmt: skip
        self.transaction.save(entry)
        self.transaction.record(
            source, entry, start, first_id, tally, log.n_answers + log.n_skipped, log.n_skipped
        )
        return Outcome(
            file.name, "read", entry.reason, entry.adapter,
            tally.n_new, tally.n_changed, tally.n_retracted, log.n_skipped,
        )  # fmt: skip

    # -- not reading

    def _copy(self, before: SourceEntry | None, twin: SourceEntry, digest: Digest) -> Outcome:
        reason = f"the same content as {twin.name}"
        entry = replace(
            before or self._new(),
            status="copy", reason=reason, sha256=digest.sha256, offset=digest.size,
            lines=digest.lines, stamp=self.file.stamp, adapter=twin.adapter, at=self.now,
        )  # fmt: skip
        self._note(entry)
        return Outcome(self.file.name, "copy", reason, twin.adapter)

    def _waits(self, before: SourceEntry | None, reason: str) -> Outcome:
        entry = before or self._new()
        changed = entry.status != "waiting" or entry.reason != reason
        entry = replace(entry, status="waiting", reason=reason, stamp=self.file.stamp, at=self.now)
        if changed:
            self._note(entry)
        return Outcome(self.file.name, "waiting", reason, entry.adapter)

    def _new(self) -> SourceEntry:
        return SourceEntry(self.file.name, "file", self.now, study=self.ingest.study)

    def _note(self, entry: SourceEntry) -> None:
        source = self.transaction.save(entry)
        self.transaction.record(source, entry, entry.offset, self.transaction.last_id + 1, Tally())
