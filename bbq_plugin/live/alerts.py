"""Alerts: an address or a command hears of what a lead should not miss.

Health turns red, a rater is newly excluded, a camp appears, the leader is settled. Each of these is
a cause, in each study; it is told at once, and at most once an hour: what comes meanwhile is told
together when the hour is over. What was told, and what waits, is in the store: a restart loses and
repeats nothing.
"""

from __future__ import annotations

import shlex
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from bbq_plugin.config import ALERTS, AlertKind
from bbq_plugin.errors import BBQError, RemoteError, UsageError
from bbq_plugin.live.jobs import Job, Next
from bbq_plugin.live.tool_connection import NoRedirect
from bbq_plugin.store.sources import ALERTS_NOTE, iso
from bbq_plugin.text import counted, listed, plain

if TYPE_CHECKING:
    from collections.abc import Collection

    from bbq_plugin.analysis import Analysis
    from bbq_plugin.config import AlertSettings
    from bbq_plugin.live.health import Health, Problems
    from bbq_plugin.store import Store

SCHEMA = "bbq.alert/1"
VARIABLE = "BBQ_ALERT_URL"
EVERY_S = 3600.0
# An alert that could not be sent is tried again after this long.
_RETRY_S = 60.0
_SEND_S = 10.0
_COMMAND_S = 60.0
_LONGEST_URL = 4096
_NAMED = 20

#: Sends one alert, as JSON; BBQError if it did not arrive.
Send = Callable[[bytes], None]


class _Alert(msgspec.Struct, frozen=True):
    """An alert that waits for its turn."""

    kind: AlertKind
    study: str | None
    at: float
    text: str = ""
    raters: tuple[str, ...] = ()
    more: dict[str, Any] = {}

    def document(self) -> dict[str, Any]:
        text = self.text
        if self.raters:
            names = listed(map(plain, self.raters), _NAMED)
            who = counted(len(self.raters), "rater")
            text = f"{who} newly excluded: {names}"
        where = "" if self.study is None else f"study {plain(self.study)}: "
        return {
            "schema": SCHEMA, "at": iso(self.at), "cause": self.kind, "study": self.study,
            "text": f"bbq: {where}{text}", **self.more,
            **({"raters": self.raters} if self.raters else {}),
        }  # fmt: skip


class _AlertMemory(msgspec.Struct):
    """What is to be known after a restart."""

    pending: dict[str, _Alert] = {}
    is_red: bool = False
    #: When each cause was last told, in seconds since 1970.
    sent: dict[str, float] = {}
    #: Of each study: how many camps there were, and which item was settled.
    camps: dict[str, int] = {}
    best: dict[str, str] = {}


class Alerts:
    """Notices what is to be told, and tells it in the background."""

    def __init__(
        self,
        send: Send,
        store: Store,
        problems: Problems,
        kinds: Collection[AlertKind] = ALERTS,
        *,
        every_s: float = EVERY_S,
    ) -> None:
        self._send, self._store, self._problems = send, store, problems
        self.kinds, self._every_s = frozenset(kinds), every_s
        self._lock = threading.Lock()
        kept = store.note(ALERTS_NOTE)
        self._memory = msgspec.json.decode(kept, type=_AlertMemory) if kept else _AlertMemory()
        self._excluded: dict[int, frozenset[str]] = {}
        self.job = Job("alerts", self._work, self._failed)

    # -- what happens

    def health(self, health: Health) -> None:
        """Take over how the service does now."""
        is_red = health.colour == "red"
        with self._lock:
            turned = is_red != self._memory.is_red
            self._memory.is_red = is_red
            if not is_red:
                # Over before its turn came.
                self._memory.pending.pop("red", None)
        if turned and not is_red:
            self._keep()
        elif turned:
            reasons = [str(one) for one in health.sentences if one.colour == "red"]
            text = f"health is red. {'. '.join(reasons)}"
            self._add(_Alert("red", None, self._store.clock(), text))

    def analysed(self, study: int, name: str, analysis: Analysis) -> None:
        """Take over an analysis that has its verdicts."""
        self._judged(study, name, analysis)
        n = len(analysis.fit.camps)
        before = self._memory.camps.get(str(study), 1)
        if n != before:
            self._memory.camps[str(study)] = n
            self._keep()
        if n > before:
            from bbq_plugin.live.engine import panel_text  # noqa: PLC0415 (a model)

            text, more = plain(panel_text(analysis.fit)), {"camps": n}
            self._add(_Alert("camps", name, analysis.at, text, more=more))

    def _judged(self, study: int, name: str, analysis: Analysis) -> None:
        if not analysis.judged:
            return
        now = frozenset(analysis.raters.excluded_by_model)
        before = analysis.previously_excluded | self._excluded.get(study, frozenset())
        self._excluded[study] = now
        new = tuple(sorted(now - before))
        if new:
            self._add(_Alert("excluded", name, analysis.at, "raters are newly excluded", new))

    def settled(self, study: int, name: str, best: str | None, at: float) -> None:
        """Take over which item is significantly the best under continuous monitoring, if any is."""
        before = self._memory.best.get(str(study))
        if best is None or best == before:
            return
        self._memory.best[str(study)] = best
        self._keep()
        text = f"the leader is settled: {plain(best)} is significantly the best"
        self._add(_Alert("settled", name, at, text, more={"item": best}))

    def _add(self, new: _Alert) -> None:
        if new.kind not in self.kinds:
            return
        cause = new.kind if new.study is None else f"{new.kind} {new.study}"
        with self._lock:
            waiting = self._memory.pending.get(cause)
            if waiting is not None and new.raters:
                raters = tuple(dict.fromkeys((*waiting.raters, *new.raters)))
                new = msgspec.structs.replace(new, raters=raters)
            self._memory.pending[cause] = new
        self._keep()
        self.job.wake()

    # -- telling it

    def _work(self) -> Next:
        while (due := self._due()) is not None:
            cause, one = due
            self._send(msgspec.json.encode(one.document()))
            with self._lock:
                if self._memory.pending.get(cause) is one:
                    del self._memory.pending[cause]
                self._memory.sent[cause] = self._store.clock()
            self._keep()
        self._problems.over("alerts")
        return Next(again_s=self._until_next_s())

    def _due(self) -> tuple[str, _Alert] | None:
        with self._lock:
            due = (pair for pair in self._memory.pending.items() if self._wait_s(pair[0]) <= 0)
            return next(due, None)

    def _until_next_s(self) -> float | None:
        with self._lock:
            return min(map(self._wait_s, self._memory.pending), default=None)

    def _wait_s(self, cause: str) -> float:
        """How long a cause has to wait; a clock that was set back holds nothing up for longer."""
        sent = self._memory.sent.get(cause)
        if sent is None:
            return 0.0
        return min(self._every_s, sent + self._every_s - self._store.clock())

    def _failed(self, error: Exception) -> Next:
        self._problems.report("alerts", error, retry_s=_RETRY_S)
        return Next(_RETRY_S, 0.0)

    def _keep(self) -> None:
        with self._lock:
            kept = msgspec.json.encode(self._memory).decode()
        # A store that cannot be written may be what the alert is about.
        with suppress(BBQError):
            self._store.keep_note(ALERTS_NOTE, kept)


def sender(settings: AlertSettings, environment: Mapping[str, str]) -> Send | None:
    """How alerts are sent, by the settings; None if they are not."""
    url, command = _url(settings, environment), settings.alert_command
    words: list[str] = []
    if command is not None:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"alert_command is {command!r}: {error}; mend the quotes") from None
    if url is None and not words:
        return None

    def send(body: bytes) -> None:
        if url is not None:
            _post(url, body)
        if words:
            _run(words, body)

    return send


def _url(settings: AlertSettings, environment: Mapping[str, str]) -> str | None:
    """The address, which is a secret by itself: from a file or the environment."""
    file = settings.alert_url_file
    if file is not None:
        try:
            found = file.read_bytes()[:_LONGEST_URL].decode("ascii", "replace").strip()
        except OSError as error:
            raise UsageError(f"{file}: the address cannot be read ({error.strerror})") from error
        where = str(file)
    else:
        found, where = environment.get(VARIABLE, "").strip(), VARIABLE
        if not found:
            return None
    parts = urlsplit(found)
    if parts.scheme not in ("http", "https") or not parts.hostname or not found.isascii():
        raise UsageError(f"{where}: expected an address such as https://example.org/hook")
    return found


def _post(url: str, body: bytes) -> None:
    # The address is not named in messages: it may hold a secret.
    host = urlsplit(url).hostname
    request = urllib.request.Request(  # noqa: S310 (checked)
        url, body, {"Content-Type": "application/json", "User-Agent": "bbq"}
    )
    try:
        with urllib.request.build_opener(NoRedirect()).open(request, timeout=_SEND_S) as answer:
            answer.read(1 << 16)
    except urllib.error.HTTPError as error:
        raise RemoteError(
            f"the alert was refused by {host} with {error.code}; check the address", error.code
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise RemoteError(f"the alert did not reach {host} ({reason})") from None


def _run(words: list[str], body: bytes) -> None:
    """Run the command, without a shell; the alert is on its standard input."""
    try:
        done = subprocess.run(  # noqa: S603 (what the user has set)
            words, input=body, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
            timeout=_COMMAND_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise BBQError(f"the alert command {words[0]!r} took over {_COMMAND_S:g} s") from None
    except OSError as error:
        raise BBQError(
            f"the alert command {words[0]!r} cannot be run ({error.strerror}); check alert_command"
        ) from None
    if done.returncode:
        said = (done.stderr.decode("utf-8", "replace").strip().splitlines() or [""])[-1]
        raise BBQError(
            f"the alert command {words[0]!r} ended with {done.returncode}: {plain(said)[:200]}"
        )
