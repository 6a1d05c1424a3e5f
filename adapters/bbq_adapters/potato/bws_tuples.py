"""The tuples of best-worst scaling, asked of a running Potato: it keeps them in memory only.

    python -m bbq_adapters.potato.bws_tuples http://127.0.0.1:8000 PROJECT/bws_tuples.jsonl

Each tuple is looked at as an annotator would look at it, under a name of our own.
"""

from __future__ import annotations

import http.cookiejar
import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bbq_plugin.errors import BBQError, RemoteError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NAME = "bbq-tuples"
# An annotator may be given a part of the tasks; so many in turn are asked.
_MOST_NAMES = 50
_TIMEOUT_S = 30


class Visitor:
    """A session on a Potato that asks for no password."""

    def __init__(self, url: str, name: str) -> None:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise UsageError(f"{url!r} is no address; expected one such as http://127.0.0.1:8000")
        self.url = url.rstrip("/")
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._open = urllib.request.build_opener(cookies).open
        self.ask("/auth", form={"action": "login", "email": name, "pass": ""})

    def ask(self, path: str, *, form: Mapping[str, str] | None = None, body: Any = None) -> bytes:
        """What the server answers."""
        data, headers = None, {}
        if form is not None:
            data = urllib.parse.urlencode(form).encode()
        elif body is not None:
            data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers)  # noqa: S310 (checked)
        try:
            with self._open(request, timeout=_TIMEOUT_S) as reply:
                return bytes(reply.read())
        except (urllib.error.URLError, OSError) as error:
            raise RemoteError(f"{self.url}{path}: Potato does not answer ({error})") from error

    def task(self) -> dict[str, Any]:
        """The task that this annotator is at."""
        found: dict[str, Any] = json.loads(self.ask("/api/current_instance"))
        return found


def tuples_of(url: str, visit: Callable[[str, str], Visitor] = Visitor) -> dict[str, list[str]]:
    """The items of each tuple in the order shown, by the tuple's id."""
    found: dict[str, list[str]] = {}
    for number in range(_MOST_NAMES):
        before = len(found)
        one = visit(url, NAME if not number else f"{NAME}-{number}")
        one.ask("/annotate")
        for place in range(int(one.task()["total_instances"])):
            one.ask("/go_to", form={"go_to": str(place)})
            task = one.task()
            shown = task["data"].get("_bws_items")
            if not shown:
                raise RemoteError(f"{url}: its tasks are no tuples of best-worst scaling")
            ordered = sorted(shown, key=lambda item: str(item["position"]))
            found[str(task["instance_id"])] = [str(item["source_id"]) for item in ordered]
        if len(found) == before:
            break
    return found


def main(arguments: list[str]) -> int:
    """Write the file."""
    if len(arguments) != 2:
        sys.stderr.write(f"usage: python -m {__spec__.name} URL FILE\n")
        return 2
    url, file = arguments[0], Path(arguments[1])
    try:
        found = tuples_of(url)
    except BBQError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    part = file.with_name(f".{file.name}.part")
    lines = (json.dumps({"id": own, "items": items}) for own, items in sorted(found.items()))
    part.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    part.replace(file)
    sys.stdout.write(f"{len(found)} tuples written to {file}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
