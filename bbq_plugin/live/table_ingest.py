"""From a table of a database to the store: what is new in it, and what is gone.

A poll reads what changed since the last one, by the column of change times. A reconciliation reads
the whole table, finds what was deleted, and what no change time told of; without such a column
each poll is one. How far the table was read is stored with the answers, in one transaction.
"""

from __future__ import annotations

import hashlib
import io
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from bbq_plugin.data.database_table import ROW, DatabaseTable, Selection
from bbq_plugin.data.files import Opened, found_in, inspected
from bbq_plugin.errors import BBQError, FormatError, RemoteError, UsageError
from bbq_plugin.live.file_ingest import Ingest, Outcome, Status
from bbq_plugin.live.health import Problems
from bbq_plugin.plugins import OPENING, chosen_adapter
from bbq_plugin.store.database_file import blames_store
from bbq_plugin.store.sources_and_status import SourceEntry
from bbq_plugin.store.transaction import SourceLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import IO

    from bbq_plugin.config import Settings
    from bbq_plugin.data.database_table import Snapshot, TableShape
    from bbq_plugin.live.engine import Engine
    from bbq_plugin.live.watch import StopEvent, Wakeup
    from bbq_plugin.store.transaction import Transaction


KIND = "table"
_FIRST_RETRY_S, _LAST_RETRY_S = 1.0, 60.0


class TableState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a table was read; kept as the stamp of its source."""

    #: The change time from which on the next poll looks.
    since: str | None = None
    #: Of the whole table, where nothing was read since.
    digest: str | None = None
    #: When all of it was read last, in seconds since 1970.
    read_at: float | None = None
    key: tuple[str, ...] = ()
    changed: str | None = None


def _state_of(entry: SourceEntry | None) -> TableState:
    if entry is None or entry.stamp is None:
        return TableState()
    return msgspec.json.decode(entry.stamp, type=TableState)


@dataclass(frozen=True)
class TableOffer:
    """Rows that were read from a table, to be stored."""

    polls: TablePolls
    shape: TableShape
    lines: IO[bytes]
    #: Once they are stored.
    state: TableState
    #: The names of the rows, where they are not all.
    keys: tuple[str, ...] | None
    #: All lines of the poll, of which those that were stored before are not offered.
    seen: frozenset[bytes]

    def __call__(self, ingest: Ingest, transaction: Transaction) -> Outcome:
        """Store them; rows that cannot be read are refused together, and nothing changes."""
        name = self.shape.name
        before = transaction.source(KIND, name, ingest.study)
        try:
            with transaction.attempt():
                found, state = self._stored(ingest, transaction, before)
        except (BBQError, OSError) as error:
            if blames_store(error):
                raise
            return self._refused(ingest, transaction, before, self._placed(error))
        transaction.after_commit.append(lambda: self.polls.taken(self, state))
        return found

    def _stored(
        self, ingest: Ingest, transaction: Transaction, before: SourceEntry | None
    ) -> tuple[Outcome, TableState]:
        name, reading = self.shape.name, ingest.reading
        adapter, _ = chosen_adapter("table", b"", name, ingest.adapters)
        options, why = self._options(ingest, before)
        entry = before or SourceEntry(name, KIND, 0.0, study=ingest.study)
        source = entry.id or transaction.save(entry)
        first_id = transaction.last_id + 1
        log = SourceLog(name, adapter.name, why, 0, strict=reading.strict)
        records = (
            found_in(self._opened(), adapter, name, {**options, "key": ROW}, tagged=True)
            if self._has_rows() else ()
        )  # fmt: skip
        tally = transaction.write(
            records, source, log, study=ingest.study, by_key=True, current=True, wholes=False
        )
        skipped, n_rows = log.all_skipped.reasons, log.n_answers + log.n_skipped
        if self.keys is None:
            log.check(reading.max_skipped)
            tally.n_retracted += transaction.retract_unheld(source, tally.held)
        else:
            # A row that no longer has an answer takes back what it said.
            tally.n_retracted += transaction.retract_rows(self.keys, tally.held, ingest.study)
            skipped = Counter(entry.skipped) + skipped
            n_rows = entry.n_rows + tally.n_new
        changed = tally.n_new or tally.n_changed or tally.n_retracted
        state = self.state
        if changed and self.keys is not None:
            state = msgspec.structs.replace(state, digest=None)
        entry = replace(
            entry, status="read", reason=None, adapter=adapter.name, why=why, options=options,
            stamp=msgspec.json.encode(state).decode(), n_rows=n_rows,
            n_skipped=sum(skipped.values()), skipped=dict(skipped),
            notes=tuple(dict.fromkeys((*entry.notes, *log.notes))), at=ingest.store.clock(),
        )  # fmt: skip
        transaction.save(entry)
        if changed or before is None:
            transaction.record(source, entry, 0, first_id, tally, n_rows, log.n_skipped)
        status: Status = "read" if changed or before is None else "unchanged"
        return Outcome(
            name, status, None, adapter.name, tally.n_new, tally.n_changed, tally.n_retracted,
            log.n_skipped, what=KIND,
        ), state  # fmt: skip

    def _options(self, ingest: Ingest, before: SourceEntry | None) -> tuple[dict[str, Any], str]:
        """What the columns are: as said, as the study has it, or as the rows leave no doubt."""
        given = table_options(ingest.reading.options)
        if given:
            return given, "columns as named"
        if before is not None and before.options:
            return dict(before.options), before.why or ""
        if not self._has_rows():
            return {}, ""
        name = self.shape.name
        found = inspected(self._opened(), name, {"key": ROW}, known=ingest.adapters)
        reading = found.certain
        if reading is None or reading.adapter != "table":
            raise FormatError(
                found.problem or "it is not clear which column is what", name,
                remedy="look at it with bbq inspect, and say how it is read with -O or --mapping",
            )  # fmt: skip
        return {k: v for k, v in reading.options.items() if k != "key"}, reading.shape

    def _has_rows(self) -> bool:
        self.lines.seek(0)
        return bool(self.lines.read(1))

    def _opened(self) -> Opened:
        self.lines.seek(0)
        return Opened(_Unclosed(self.lines), self.shape.name)

    def _placed(self, error: Exception) -> Exception:
        """The error with the key of its row instead of a line that nobody can look up."""
        if not isinstance(error, FormatError) or error.line is None:
            return error
        self.lines.seek(0)
        for _ in range(error.line - 1):
            self.lines.readline()
        row = msgspec.json.decode(self.lines.readline() or b"{}").get(ROW, "")
        where = f"{self.shape.name}, {','.join(self.state.key)}={row.partition(':')[2]}"
        return FormatError(error.problem, where, None, error.value, error.remedy)

    def _refused(
        self, ingest: Ingest, transaction: Transaction, before: SourceEntry | None, error: Exception
    ) -> Outcome:
        name = self.shape.name
        old = before or SourceEntry(name, KIND, 0.0, study=ingest.study)
        reason = str(error).removeprefix(f"{name}: ")
        entry = replace(old, status="refused", reason=reason, at=ingest.store.clock())
        transaction.save(entry)
        transaction.after_commit.append(lambda: self.polls.refused(self))
        return Outcome(name, "refused", reason, old.adapter, what=KIND)


class _Unclosed:
    """The lines, which stay open when a reader of them is done."""

    def __init__(self, lines: IO[bytes]) -> None:
        self._lines = lines

    def readinto(self, buffer: Any) -> int:
        data = self._lines.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def table_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that say what columns are; the key is the table's."""
    return {name: value for name, value in options.items() if name not in ("key", *OPENING)}


class TablePolls:
    """Looks at a table again and again, and offers what is new; it stands where `Arrivals` do."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        *,
        once: bool,
        problems: Problems,
        wakeup: Wakeup,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        if settings.database is None:
            raise UsageError("there is no database to follow; give its address")
        self.wakeup, self._clock, self._wall_clock = wakeup, clock, wall_clock
        self._settings, self._engine, self._once, self._problems = settings, engine, once, problems
        self._read = settings.read
        if self._read.adapter not in (None, "table"):
            raise UsageError(
                f"--adapter {self._read.adapter}: the rows of a database are read by the adapter "
                "table; say what the columns are with -O or --mapping"
            )
        self._table = DatabaseTable(settings.database, settings.table)
        self._next_s, self._retry_s = clock(), _FIRST_RETRY_S
        self._state: TableState | None = None
        self._mapping = ""
        self._begun = False
        # The lines of the last poll, and whether they are stored.
        self._seen: frozenset[bytes] = frozenset()
        self._is_refused = False
        self._refused_digest: str | None = None

    # -- as the daemon wants it

    def wait(self, stop: StopEvent, until_s: float | None = None) -> list[TableOffer]:
        """Wait for rows, at most until this moment of the clock; stopped: none."""
        while not stop.is_set():
            offers = self.gather()
            now_s = self._clock()
            if offers or (until_s is not None and now_s >= until_s):
                return offers
            wake_s = self._next_s if until_s is None else min(self._next_s, until_s)
            self.wakeup.wait(max(0.0, wake_s - now_s))
        return []

    def gather(self) -> list[TableOffer]:
        """Look at the table, if it is time to."""
        if self._clock() < self._next_s or (self._once and self._begun):
            return []
        try:
            with self._table.snapshot() as found:
                offer = self._look(found)
        except RemoteError as error:
            if self._once:
                raise
            self._problems.report(KIND, error, retry_s=self._retry_s)
            self._next_s = self._clock() + self._retry_s
            self._retry_s = min(2 * self._retry_s, _LAST_RETRY_S)
            return []
        except BBQError as error:
            if not self._begun:
                raise
            # A table may be away for a while, as when it is moved.
            self._problems.report(KIND, error)
            self._next_s = self._clock() + _LAST_RETRY_S
            return []
        self._problems.over(KIND)
        self._begun, self._retry_s = True, _FIRST_RETRY_S
        self._next_s = self._clock() + self._settings.poll_s
        return [] if offer is None else [offer]

    def give_back(self, offers: Iterable[object]) -> None:
        """They could not be stored: the next poll reads them again."""
        del offers
        self._next_s = self._clock()

    def is_idle(self) -> bool:
        """Say whether nothing is known to wait; once, the table has to be seen first."""
        return self._begun or not self._once

    def close(self) -> None:
        """Leave the server."""
        self._table.close()

    # -- what became of an offer

    def taken(self, offer: TableOffer, state: TableState) -> None:
        """It is stored."""
        self._state, self._is_refused, self._refused_digest = state, False, None
        self._seen = offer.seen
        offer.lines.close()

    def refused(self, offer: TableOffer) -> None:
        """It cannot be read as it is: it is offered again when the rows are others."""
        self._is_refused, self._seen = offer.keys is not None, offer.seen
        if offer.keys is None:
            self._refused_digest = offer.state.digest
        offer.lines.close()

    # -- looking

    def _look(self, found: Snapshot) -> TableOffer | None:
        shape, state = found.shape, self._known(found)
        chosen = Selection(
            _prefix(shape.name), state.key, state.changed, self._hidden(shape, state)
        )
        due = state.read_at is None or (
            self._wall_clock() - state.read_at >= self._settings.reconcile_s
        )
        if self._once or state.changed is None or due:
            return self._whole(found, chosen, state)
        with found.lines(chosen, state.since) as lines:
            rows = list(lines)
        seen = frozenset(rows)
        if self._is_refused and seen == self._seen:
            return None
        fresh = [one for one in rows if self._is_refused or one not in self._seen]
        if not fresh:
            return None
        keys = tuple(msgspec.json.decode(line)[ROW] for line in fresh)
        new = msgspec.structs.replace(state, since=found.newest(state.changed, state.since))
        return TableOffer(self, shape, io.BytesIO(b"".join(fresh)), new, keys, seen)

    def _whole(self, found: Snapshot, chosen: Selection, state: TableState) -> TableOffer | None:
        found.check_key(chosen.key)
        digest, now = found.digest(chosen), self._wall_clock()
        same = digest == state.digest and state.read_at is not None
        if same or digest == self._refused_digest:
            self._state = msgspec.structs.replace(state, read_at=now)
            return None
        since = None if state.changed is None else found.newest(state.changed, None)
        new = msgspec.structs.replace(state, since=since, digest=digest, read_at=now)
        return TableOffer(self, found.shape, found.lines(chosen), new, None, frozenset())

    def _known(self, found: Snapshot) -> TableState:
        """How far the table was read, if it is to be read as it was before."""
        if self._state is not None:
            return self._state
        shape, read, changed = found.shape, self._read, self._settings.changed
        key: tuple[str, ...] = shape.primary_key
        if "key" in read.options:
            key = tuple(shape.checked(one, "key") for one in str(read.options["key"]).split("+"))
        if not key:
            raise UsageError(
                f"{shape.name} has no primary key; name the column that names a row with -O "
                "key=COLUMN (a+b for two)"
            )
        if changed is not None:
            found.newest(shape.checked(changed, "changed"), None)
        known = self._engine.store.ledger(self._engine.study)
        entry = next((e for e in known if e.kind == KIND and e.name == shape.name), None)
        given = table_options(read.options)
        state = _state_of(entry)
        other = given and entry is not None and dict(entry.options) != given
        if state.key != key or state.changed != changed or other:
            state = TableState(key=key, changed=changed)
        # A column that the mapping names is needed.
        mapping = given or (dict(entry.options) if entry is not None else {})
        self._mapping = str([*mapping.items()])
        self._state = state
        return state

    def _hidden(self, shape: TableShape, state: TableState) -> frozenset[str]:
        """What names and times a row, and says nothing else."""
        own = {*state.key, state.changed}
        return frozenset(
            name for name in shape.columns if name in own and name not in self._mapping
        )


def _prefix(name: str) -> str:
    return f"#t{hashlib.sha256(name.encode()).hexdigest()[:12]}:"
