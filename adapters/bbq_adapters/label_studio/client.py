"""Talking to a Label Studio server: the SDK behind retries, and errors that say what to do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from bbq_plugin.errors import RemoteError, UnsupportedError, UsageError

if TYPE_CHECKING:
    import httpx
    from label_studio_sdk import LabelStudio

_T = TypeVar("_T")
#: How long one request may take, how often it is tried, and the first wait in between.
TIMEOUT_S = 60.0
TRIES = 5
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
# Answers that another try may change.
_AGAIN = frozenset((408, 425, 429, 500, 502, 503, 504))
# Those of them after which a write has certainly not been done.
_NOT_DONE = frozenset((408, 425, 429, 503))
# What the SDK raises for an answer that it cannot read.
_UNREAD = (ValueError, TypeError, AttributeError)
_SHOWN = 200


class Client:
    """One server, as one user. The SDK is imported and built when it is first needed."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout_s: float = TIMEOUT_S,
        tries: int = TRIES,
        sleep: Callable[[float], None] = time.sleep,
        notice: Callable[[str], None] | None = None,
    ) -> None:
        self.url = checked_url(url)
        self._token = checked_token(token)
        self._timeout_s, self._tries, self._sleep = timeout_s, tries, sleep
        self._notice = notice or (lambda _: None)
        self._sdk: LabelStudio | None = None
        self._http: httpx.Client | None = None
        self._worked = False

    def call(
        self,
        what: str,
        request: Callable[[LabelStudio], _T],
        *,
        missing: str | None = None,
        creates: bool = False,
    ) -> _T:
        """Do one request, again after a pause if that may help.

        `what` and `missing` (for 404) are for messages. A request that `creates` something is
        not repeated where the first one may have been done.
        """
        renewed = False
        for turn in range(1, self._tries + 1):
            try:
                answer = request(self._client())
            except Exception as error:  # noqa: BLE001 (the SDK lets everything through)
                failure = _Failure(error, self.url, what, missing)
            else:
                self._worked = True
                return answer
            last = turn == self._tries
            if failure.status == 401 and self._worked and not (renewed or last):
                # A token of five minutes may run out on the way; a new client gets another.
                renewed = True
                self.close()
                continue
            if last or not failure.again(creates=creates):
                raise failure.explained(turn) from failure.error
            wait_s = failure.wait_s(turn)
            self._notice(f"{failure.brief()}; trying again in {wait_s:.0f} s")
            self._sleep(wait_s)
        raise AssertionError  # the last turn returns or raises

    def delete(self, what: str, request: Callable[[LabelStudio], Any]) -> None:
        """Remove something; it is gone as well if only the answer to an earlier try was lost."""
        tries = 0

        def counted(sdk: LabelStudio) -> Any:
            nonlocal tries
            tries += 1
            return request(sdk)

        try:
            self.call(what, counted)
        except RemoteError as error:
            if error.status != 404 or tries == 1:
                raise

    def close(self) -> None:
        """Close the connections; the next call opens others."""
        if self._http is not None:
            self._http.close()
        self._http = self._sdk = None

    def _client(self) -> LabelStudio:
        if self._sdk is None:
            try:
                import httpx  # noqa: PLC0415
                from label_studio_sdk import LabelStudio  # noqa: PLC0415 (half a second, 100 MB)
            except ImportError as error:
                raise UnsupportedError(
                    "Label Studio's server is reached through label-studio-sdk, which is not "
                    "installed; pip install 'bbq-plugin[label-studio]'"
                ) from error
            self._http = httpx.Client(
                timeout=self._timeout_s,
                follow_redirects=True,
                # Called for every request, that of a redirect included, before it is sent.
                event_hooks={"request": [self._check_origin]},
            )
            # With the slash at the end the SDK also finds the tokens of a server below a path.
            self._sdk = LabelStudio(  # type: ignore[no-untyped-call]
                base_url=self.url + "/",
                api_key=self._token,
                timeout=self._timeout_s,
                max_retries=0,
                httpx_client=self._http,
            )
        return self._sdk

    def _check_origin(self, request: httpx.Request) -> None:
        """Let no request, and so no token, go anywhere else: whatever a redirect says."""
        asked, own = _origin(str(request.url)), _origin(self.url)
        if asked != own:
            raise RemoteError(
                f"{self.url}: the server redirects to {asked}, which gets no token from here; if "
                f"that is where Label Studio is, give its address there (--url {asked}/…)"
            )


def _origin(url: str) -> str:
    """Scheme, host and port of an address."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{port}"


def checked_url(url: str) -> str:
    """The address of the server, without a slash at its end."""
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"the address of Label Studio is {url!r}; expected one such as http://127.0.0.1:8080"
        )
    if parts.username or parts.password:
        raise UsageError(
            "the address of Label Studio holds a password; give a token in LABEL_STUDIO_API_KEY "
            "instead"
        )
    if parts.query or parts.fragment or "/projects" in parts.path:
        raise UsageError(
            f"the address of Label Studio is {url!r}, which is one of its pages; give the address "
            f"of the server, such as {parts.scheme}://{parts.netloc}"
        )
    return url.strip().rstrip("/")


def checked_token(token: str) -> str:
    """A token without the line's end that a file puts behind it."""
    token = token.strip()
    if not token or not token.isascii() or any(map(str.isspace, token)):
        raise UsageError(
            "the token of Label Studio is empty or has blanks in it; copy it from "
            "Account & Settings as a whole"
        )
    return token


class _Failure:
    """A request that failed: what it was, whether to try again, what to tell the user."""

    def __init__(self, error: Exception, url: str, what: str, missing: str | None) -> None:
        if isinstance(error, (UnsupportedError, UsageError)):
            raise error
        import httpx  # noqa: PLC0415 (the SDK brings it)
        from label_studio_sdk.core.api_error import ApiError  # noqa: PLC0415
        from pydantic import ValidationError  # noqa: PLC0415 (so does it)

        self.error, self.url, self.what, self.missing = error, url, what, missing
        self.status: int | None = None
        self.body: Any = None
        self.headers: Mapping[str, str] = {}
        if isinstance(error, ApiError):
            self.status, self.body = error.status_code, error.body
            self.headers = {key.lower(): value for key, value in (error.headers or {}).items()}
        elif not isinstance(error, (httpx.TransportError, httpx.DecodingError, *_UNREAD)):
            raise error
        self.late = isinstance(error, httpx.TimeoutException)
        self.unreached = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
        #: JSON, but not of the shape that the SDK knows. A pydantic error is a ValueError.
        self.odd = isinstance(error, (ValidationError, TypeError, AttributeError))
        self.no_json = (isinstance(error, ValueError) and not self.odd) or (
            isinstance(self.body, str) and (self.status or 0) < 400
        )

    def again(self, *, creates: bool) -> bool:
        if self.no_json or self.odd:
            return False
        if creates:
            return self.unreached or self.status in _NOT_DONE
        return self.status is None or self.status in _AGAIN

    def wait_s(self, turn: int) -> float:
        said = self.headers.get("retry-after", "")
        if said.strip().isdigit():
            return min(float(said), LONGEST_WAIT_S)
        return float(min(FIRST_WAIT_S * 2 ** (turn - 1), LONGEST_WAIT_S))

    def brief(self) -> str:
        if self.late:
            return "Label Studio did not answer in time"
        if self.status is None:
            return "Label Studio cannot be reached"
        return f"Label Studio answered {self.status}"

    def explained(self, turns: int) -> RemoteError:
        tries = f" ({turns} tries)" if turns > 1 else ""
        status = self.status
        if self.no_json:
            text = (
                "the answer is a web page and not JSON; check that this is the address of Label "
                "Studio itself and not of a login page or a proxy in front of it"
            )
        elif self.odd:
            text = (
                f"label-studio-sdk can make nothing of the answer ({self._first()}); is the server "
                "newer? Try: pip install -U label-studio-sdk"
            )
        elif self.late:
            text = f"no answer in time{tries}; the server may be overloaded, try again later"
        elif status is None:
            reason = str(self.error).strip() or type(self.error).__name__
            text = f"cannot be reached ({reason}){tries}; is it running, and is this its address?"
        elif status in (401, 403):
            text = (
                f"the token is refused ({status}{self._detail()}); make a new one under Account & "
                "Settings, and put it into LABEL_STUDIO_API_KEY or the token file"
            )
        elif status == 404:
            text = (
                f"{self.missing or 'not found'} (404); check the number and the address, and that "
                "the user of the token may see it"
            )
        elif status == 429:
            text = f"too many requests (429){tries}; try again later"
        else:
            text = f"the server answered {status}{self._detail()}{tries}; its own log says more"
        return RemoteError(f"{self.url}: {self.what}: {text}", status)

    def _first(self) -> str:
        """What is wrong with an answer, without its values."""
        errors = getattr(self.error, "errors", None)
        if errors is None:
            return f"{type(self.error).__name__}: {self.error}"[:_SHOWN]
        first = errors(include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:_SHOWN]

    def _detail(self) -> str:
        """What the server says about it, where it is a sentence and no page."""
        said = self.body.get("detail") if isinstance(self.body, dict) else None
        return f": {said[:_SHOWN]}" if isinstance(said, str) and said else ""


def plain(model: Any) -> Any:
    """What the SDK made of an answer, as JSON would have it."""
    if isinstance(model, (dict, list, str, int, float, type(None))):
        return model
    return model.model_dump(mode="json", warnings=False)


def query(filters: list[tuple[str, str, str, Any]], **more: Any) -> str:
    """A question to the Data Manager: (column, operator, type, value), all of which must hold."""
    items = [
        {"filter": f"filter:tasks:{column}", "operator": operator, "type": kind, "value": value}
        for column, operator, kind, value in filters
    ]
    asked = {"filters": {"conjunction": "and", "items": items}, "ordering": ["tasks:id"], **more}
    return json.dumps(asked)
