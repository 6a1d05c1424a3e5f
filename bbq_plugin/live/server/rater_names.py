"""Who the raters are: names and addresses from the labelling tool, asked for and kept in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bbq_plugin.live.jobs import Job, Next

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bbq_plugin.data.records import Person
    from bbq_plugin.live.log import Problems

# So often at most the tool is asked about raters that it did not know the last time.
_REST_S = 60.0


class RaterNames:
    """Looked up behind the pages, which show what is known by then."""

    def __init__(
        self, ask: Callable[[], Mapping[str, Person]], on_news: Callable[[], None],
        problems: Problems,
    ) -> None:  # fmt: skip
        self._ask, self._on_news, self._problems = ask, on_news, problems
        self._known: Mapping[str, Person] = {}
        self.job = Job("names", self._look, self._failed)

    def __call__(self, rater: str) -> Person | None:
        """Who a rater is, if that is known by now."""
        found = self._known.get(rater)
        if found is None:
            self.job.wake()
        return found

    def _look(self) -> Next:
        found = self._ask()
        if found != self._known:
            self._known = found
            self._on_news()
        self._problems.over("names")
        return Next(_REST_S)

    def _failed(self, error: Exception) -> Next:
        self._problems.report("names", error)
        return Next(_REST_S, _REST_S)
