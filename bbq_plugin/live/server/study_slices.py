"""The slices of a study by a tag, pooled, made behind the page for the tags that are looked at."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bbq_plugin.analysis.slices import SlicedStudy
from bbq_plugin.data.dataset_builder import OWN_TAGS
from bbq_plugin.live.jobs import Job, Next
from bbq_plugin.store.store_reader import read_store_by, tag_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbq_plugin.analysis import Analysis
    from bbq_plugin.live.engine import Engine
    from bbq_plugin.live.log import Problems

#: A tag with more values names single tasks or prompts, and no slices.
MOST_SLICES = 12
#: A slice of fewer answers is left to the pool.
LEAST_ANSWERS = 10
#: Beyond, splitting the answers takes too long to follow them.
MOST_ANSWERS = 1_000_000
# A tag is no slicing if most of its values are too rare to be slices.
_LEAST_SHARE = 0.8
# This share of the time at most, as for what else is made behind the page.
_SHARE = 0.2


@dataclass(frozen=True)
class Sliced:
    """The slices by one tag, of one analysis."""

    study: SlicedStudy
    n_comparisons: int


class Slices:
    """Which tags a study can be sliced by, and its slices by those that a page asks for."""

    def __init__(
        self,
        engine: Engine,
        newest: Callable[[], Analysis | None],
        on_news: Callable[[], None],
        problems: Problems,
    ) -> None:
        self._engine, self._newest = engine, newest
        self._on_news, self._problems = on_news, problems
        self._made: dict[str, tuple[weakref.ref[Analysis], Sliced | None]] = {}
        self._tags: tuple[str, ...] | None = None
        self._tags_at = 0
        self._wanted: str | None = None
        self.job = Job("slices", self._make, self._failed)

    def tags(self) -> tuple[str, ...] | None:
        """The tags there are slices by; None before they are known."""
        n = self._engine.n_comparisons
        if self._tags is None or not self._tags_at / 1.5 <= n <= self._tags_at * 1.5:
            self.job.wake()
        return self._tags

    def last(self, tag: str) -> Sliced | None:
        """The last slices by a tag; newer ones will follow, if there is something new."""
        made = self._made.get(tag)
        if made is None or made[0]() is not self._newest():
            self._wanted = tag
            self.job.wake()
        return None if made is None else made[1]

    def _make(self) -> Next:
        analysis, engine = self._newest(), self._engine
        if analysis is None:
            return Next()
        n = engine.n_comparisons
        if self._tags is None or not self._tags_at / 1.5 <= n <= self._tags_at * 1.5:
            self._tags, self._tags_at = self._found(), n
        tag, self._wanted = self._wanted, None
        if tag in self._tags:
            # Of one that fails as well: it is not tried again.
            before = self._made.get(tag, (None, None))[1]
            self._made[tag] = weakref.ref(analysis), before
            self._made[tag] = weakref.ref(analysis), self._sliced(tag, analysis)
        self._problems.over("slices")
        return self._rest()

    def _found(self) -> tuple[str, ...]:
        if self._engine.n_comparisons > MOST_ANSWERS:
            return ()
        store, own = self._engine.store, self._engine.study
        tags = [
            tag
            for tag, (values, n) in sorted(tag_values(store.path, own, LEAST_ANSWERS).items())
            if 1 < len(values) <= MOST_SLICES and sum(values.values()) >= _LEAST_SHARE * n
            and tag not in OWN_TAGS
        ]  # fmt: skip
        questions = next(one.questions for one in store.studies() if one.id == own)
        # The key of an answer tells its project.
        several = len({one.project for one in questions}) > 1
        return tuple(dict.fromkeys([*(["project"] if several else []), *tags]))

    def _sliced(self, tag: str, analysis: Analysis) -> Sliced | None:
        engine = self._engine
        names = {one.id: one.name for one in engine.store.studies()}
        parts = read_store_by(engine.store.path, by=tag, study=names[engine.study])
        known, raters = set(analysis.fit.items), set(analysis.fit.raters)
        # There may be newer answers by now, about items that the analysis does not know.
        groups = {
            value: data
            for value, data in parts.items()
            if data.n_comparisons >= LEAST_ANSWERS
            and known.issuperset(data.items)
            and (not analysis.fit.rated or raters.issuperset(data.raters))
        }
        if not 1 < len(groups) <= MOST_SLICES:
            return None
        study = SlicedStudy(tag, analysis, groups)
        parts_of_page = study.cells, study.summaries
        del parts_of_page
        return Sliced(study, analysis.fit.data.n_comparisons)

    def _failed(self, error: Exception) -> Next:
        self._problems.report("slices", error)
        return self._rest()

    def _rest(self) -> Next:
        self._on_news()
        return Next(self.job.spent_s * (1 / _SHARE - 1))
