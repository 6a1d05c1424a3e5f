"""The webhooks of a project: made, found again, tried, removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bbq_adapters.label_studio.client import plain
from bbq_plugin.errors import RemoteError

if TYPE_CHECKING:
    from bbq_adapters.label_studio.client import Client

#: What is told; nothing fires for imported answers, drafts and predictions.
ACTIONS = (
    "ANNOTATION_CREATED",
    "ANNOTATIONS_CREATED",
    "ANNOTATION_UPDATED",
    "ANNOTATIONS_DELETED",
    "TASKS_CREATED",
    "TASKS_DELETED",
    "PROJECT_UPDATED",
)
#: The event that `provoke` causes.
PROVOKED = "PROJECT_UPDATED"

# How Label Studio says that it sends nothing to addresses of its own network.
_BLOCKED = ("URL was not allowed", "reserved network address")

SSRF_REMEDY = (
    "Label Studio sends nothing to addresses of its own machine or a private network unless its "
    "operator allows it: start it with LABEL_STUDIO_SSRF_PROTECTION_ENABLED=false (and, for an ML "
    "backend, LABEL_STUDIO_ML_BLOCK_LOCAL_IP=false), or give bbq serve a public address"
)


class Hooks:
    """The webhooks of one project."""

    def __init__(self, client: Client, project: int) -> None:
        self._client, self._project = client, project

    def subscribe(self, url: str, headers: Mapping[str, str]) -> tuple[int, bool]:
        """Have events sent to an address; the id of the webhook, and whether it is a new one."""
        wanted: dict[str, Any] = {
            "url": url,
            "headers": dict(headers),
            "actions": list(ACTIONS),
            "is_active": True,
            "send_payload": True,
            "send_for_all_actions": False,
        }
        try:
            own = self._find(url)
            if own is not None:
                self._client.call(
                    "changing the webhook", lambda sdk: sdk.webhooks.update(id=own, **wanted)
                )
                return own, False
            made = self._client.call(
                "making the webhook",
                lambda sdk: sdk.webhooks.create(project=self._project, **wanted),
                creates=True,
            )
        except RemoteError as error:
            if not any(words in str(error) for words in _BLOCKED):
                raise
            raise RemoteError(
                f"{self._client.url}: Label Studio refuses to send events to {url}; {SSRF_REMEDY}"
            ) from error
        return int(plain(made)["id"]), True

    def _find(self, url: str) -> int | None:
        listed = self._client.call(
            "looking for webhooks", lambda sdk: sdk.webhooks.list(project=str(self._project))
        )
        for hook in map(plain, listed):
            if hook.get("url") == url and hook.get("project") == self._project:
                return int(hook["id"])
        return None

    def provoke(self) -> str:
        """Cause an event without changing anything: the project is saved as it is."""
        title = self._client.call(
            "looking at the project", lambda sdk: sdk.projects.get(id=self._project)
        ).title
        self._client.call(
            "causing an event",
            lambda sdk: sdk.projects.update(id=self._project, title=title),
        )
        return PROVOKED

    def unsubscribe(self, own: int) -> None:
        """Remove a webhook that was made here."""
        self._client.delete("removing the webhook", lambda sdk: sdk.webhooks.delete(id=own))
