"""From a file to the store: what is new in it, under which keys, and what it takes back.

- The same content again, under any name, is read once.
- A log that grew is read from where it ended, if its adapter says that lines stand alone.
- A file that changed otherwise replaces what it said before: newer replaces older by key, and
  what it no longer holds is taken back.
- A file that was moved away keeps its answers; deleting one takes nothing back.
- A full export takes back what it no longer holds of its project (`exports="full"`).
- A file that cannot be read is on record with the reason, and what it said before stands.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from bbq_plugin.errors import BBQError, FormatError, StoreError
from bbq_plugin.live.parts import OpenFile
from bbq_plugin.live.places import Places
from bbq_plugin.live.store.ledger import Entry, entries
from bbq_plugin.live.store.transaction import SourceLog
from bbq_plugin.live.store.writing import Tally
from bbq_plugin.registry import adapters, chosen_adapter, found_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bbq_plugin.live.parts import Digest
    from bbq_plugin.live.store.store import Store
    from bbq_plugin.live.store.transaction import Transaction
    from bbq_plugin.registry import Adapter

Status = Literal["read", "unchanged", "copy", "waiting", "refused"]
Exports = Literal["full", "increment"]

# Logs that grow at the same time; a file that is not among them is hashed from its start.
_MOST_DIGESTS = 1000

GROWING = "it is still being written"
HALF_LINE = "its last line is not finished"


@dataclass(frozen=True)
class Offer:
    """A file to look at; `settled` says that nobody is writing to it any more."""

    path: Path
    #: How it is called on the record: its path inside the watched folder.
    name: str
    settled: bool = True


@dataclass(frozen=True)
class Outcome:
    """What became of an offer."""

    name: str
    status: Status
    reason: str | None = None
    adapter: str | None = None
    n_new: int = 0
    n_changed: int = 0
    n_retracted: int = 0
    n_skipped: int = 0


@dataclass(frozen=True)
class Reading:
    """How files are read; the same words as in `bbq.read`."""

    adapter: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False
    max_skipped: float = 0.01
    #: Whether a Label Studio export holds all of its project, or is one of several parts.
    exports: Exports = "full"
    #: Keep the tags of large Arena files too, which are read faster without.
    keep_tags: bool = False

    @property
    def digest(self) -> str:
        """Of all of it: a file is looked at again when it is to be read in another way."""
        said = msgspec.json.encode(asdict(self), order="sorted", enc_hook=str)
        return hashlib.sha256(said).hexdigest()[:16]

    def is_that_of(self, entry: Entry) -> bool:
        """Whether a file was read in this way."""
        return self.adapter in (None, entry.adapter) and dict(self.options) == dict(entry.options)


class Ingest:
    """Reads files into a store; remembers between calls how far each was hashed."""

    def __init__(self, store: Store, reading: Reading = Reading()) -> None:  # noqa: B008 (frozen)
        self.store = store
        self.reading = reading
        self._digests: dict[int, Digest] = {}

    @cached_property
    def adapters(self) -> Mapping[str, Adapter]:
        """What can be read."""
        return adapters()

    def __call__(self, transaction: Transaction, offer: Offer) -> Outcome:
        """Look at one file, inside a transaction of which a failure undoes only this part."""
        # A name on disk may be no text; on the record it has to be.
        name = os.fsencode(offer.name).decode("utf-8", "backslashreplace")
        before = transaction.source("file", name)
        stamp = None
        try:
            with transaction.attempt(), OpenFile(offer.path, name) as file:
                stamp = f"{file.stamp}:{self.reading.digest}"
                file.stamp = stamp
                if before and before.stamp == stamp and before.status != "waiting":
                    return Outcome(name, "unchanged", before.reason, before.adapter)
                return _Visit(self, transaction, file, before, settled=offer.settled).outcome()
        except (StoreError, sqlite3.OperationalError, sqlite3.InternalError):
            # The fault of the store or its disk, not of the file.
            raise
        except (BBQError, OSError) as error:
            return self._refused(transaction, name, before, stamp, error)
        except Exception as error:  # noqa: BLE001 (an adapter is anybody's code)
            why = f"the adapter failed ({type(error).__name__}: {error})"
            failed = FormatError(why, name, remedy="tell its authors, or name another adapter")
            return self._refused(transaction, name, before, stamp, failed)

    def _refused(
        self,
        transaction: Transaction,
        name: str,
        before: Entry | None,
        stamp: str | None,
        error: Exception,
    ) -> Outcome:
        """Put the reason on record; what the file said before stands."""
        old = before or Entry(name, "file", 0.0)
        reason = str(error).removeprefix(f"{name}: ")
        now = self.store.clock()
        entry = replace(old, status="refused", reason=reason, stamp=stamp, at=now)
        source = transaction.save(entry)
        transaction.record(source, entry, old.offset, transaction.last_id + 1, Tally())
        return Outcome(name, "refused", reason, old.adapter)

    def known_digest(self, entry: Entry, file: OpenFile) -> Digest | None:
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
        before: Entry | None,
        *,
        settled: bool,
    ) -> None:
        self.ingest = ingest
        self.transaction = transaction
        self.file = file
        self.before = before
        self.settled = settled
        self.reading = ingest.reading
        self.now = ingest.store.clock()

    def outcome(self) -> Outcome:
        before = self.before
        if before is None or not before.offset:
            return self._whole(None)
        known = self.ingest.known_digest(before, self.file)
        if known is None:
            return self._whole(self._moved_away(before))
        if before.status != "copy" and not self.reading.is_that_of(before):
            return self._whole(before)
        if self.file.size == before.offset:
            return self._same(before)
        ended = known.tail.endswith(b"\n")
        if ended and self._grows(before.adapter) and self.file.is_lines():
            return self._appended(before, known)
        return self._whole(before)

    def _adapter(self, adapter: str | None, head: bytes = b"") -> tuple[Adapter, str]:
        return chosen_adapter(adapter, head, self.file.name, self.ingest.adapters)

    def _grows(self, adapter: str | None) -> bool:
        return adapter is not None and bool(
            getattr(self._adapter(adapter)[0], "lines_stand_alone", False)
        )

    def _same(self, before: Entry) -> Outcome:
        self.transaction.save(replace(before, status="read", reason=None, stamp=self.file.stamp))
        return Outcome(self.file.name, "unchanged", None, before.adapter)

    def _moved_away(self, before: Entry) -> Entry | None:
        """Where the old content lives on under another name, that name has its answers."""
        heirs = entries(
            self.transaction.db,
            "WHERE kind = 'file' AND status = 'copy' AND sha256 = ? AND offset = ? LIMIT 1",
            (before.sha256, before.offset),
        )
        if not heirs:
            return before
        db = self.transaction.db
        db.execute("DELETE FROM ledger WHERE source = ?", (heirs[0].id,))
        db.execute("DELETE FROM source WHERE id = ?", (heirs[0].id,))
        db.execute("UPDATE source SET name = ? WHERE id = ?", (heirs[0].name, before.id))
        return None

    # -- reading

    def _whole(self, before: Entry | None) -> Outcome:
        """Read all of it; it replaces what it said before."""
        file = self.file
        try:
            adapter, why = self._adapter(self.reading.adapter, file.head())
        except FormatError:
            if self.settled:
                raise
            # Its first line may be half there.
            return self._waits(before, GROWING)
        in_lines = getattr(adapter, "lines_stand_alone", False) and file.is_lines()
        if not self.settled and not in_lines:
            return self._waits(before, GROWING)
        end = file.whole_lines(0, settled=self.settled) if in_lines else file.size
        if not end:
            return self._waits(before, HALF_LINE)
        digest = file.digest(end)
        if before is None or not before.n_rows:
            twin = self._twin(digest)
            if twin is not None:
                return self._copy(before, twin, digest)
        entry = replace(
            before or Entry(file.name, "file", self.now),
            adapter=adapter.name, why=why, options=dict(self.reading.options),
            n_rows=0, n_skipped=0, skipped={}, notes=(),
        )  # fmt: skip
        return self._read(entry, digest, 0)

    def _appended(self, before: Entry, known: Digest) -> Outcome:
        """Read what a log has gained."""
        end = self.file.whole_lines(before.offset, settled=self.settled)
        if end == before.offset:
            return self._waits(before, HALF_LINE)
        return self._read(before, self.file.digest(end, known), before.offset)

    def _read(self, entry: Entry, digest: Digest, start: int) -> Outcome:
        file, reading = self.file, self.reading
        source = entry.id or self.transaction.save(entry)
        first_id = self.transaction.last_id + 1
        adapter, _ = self._adapter(entry.adapter)
        log = SourceLog(file.name, adapter.name, entry.why or "", 0, strict=reading.strict)
        # A table is handed over with its header again, which is a line of its own.
        shift = entry.lines - file.is_table() if start else 0
        places = Places(file.name, source, shift)
        opened = file.part(start, digest.size)
        try:
            found = found_in(
                opened, adapter, file.name, dict(entry.options), tagged=reading.keep_tags
            )
            tally = self.transaction.write(
                places.named(found), source, log, wholes=reading.exports == "full"
            )
            log.check(reading.max_skipped)
        except FormatError as error:
            raise places.moved_error(error) from error
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

    def _twin(self, digest: Digest) -> Entry | None:
        """Another file that has been read with the same content."""
        # Also the content that a log once had, if it has only grown since.
        found = entries(
            self.transaction.db,
            "WHERE kind = 'file' AND status != 'copy' AND name != ? AND id IN ("
            "SELECT source FROM ledger l WHERE sha256 = ? AND offset = ? AND NOT EXISTS ("
            "SELECT 1 FROM ledger m WHERE m.source = l.source AND m.id > l.id AND m.start = 0 "
            "AND m.status != 'refused')) LIMIT 1",
            (self.file.name, digest.sha256, digest.size),
        )
        return found[0] if found else None

    def _copy(self, before: Entry | None, twin: Entry, digest: Digest) -> Outcome:
        reason = f"the same content as {twin.name}"
        entry = replace(
            before or Entry(self.file.name, "file", self.now),
            status="copy", reason=reason, sha256=digest.sha256, offset=digest.size,
            lines=digest.lines, stamp=self.file.stamp, adapter=twin.adapter, at=self.now,
        )  # fmt: skip
        self._note(entry)
        return Outcome(self.file.name, "copy", reason, twin.adapter)

    def _waits(self, before: Entry | None, reason: str) -> Outcome:
        entry = before or Entry(self.file.name, "file", self.now)
        changed = entry.status != "waiting" or entry.reason != reason
        entry = replace(entry, status="waiting", reason=reason, stamp=self.file.stamp, at=self.now)
        if changed:
            self._note(entry)
        return Outcome(self.file.name, "waiting", reason, entry.adapter)

    def _note(self, entry: Entry) -> None:
        source = self.transaction.save(entry)
        self.transaction.record(source, entry, entry.offset, self.transaction.last_id + 1, Tally())
