"""A fit of answers that keep coming: what is costly is worked out when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bbq_plugin.live.table import comparisons_of
from bbq_plugin.model.fitting import Fit, optimum_at, warnings_of

if TYPE_CHECKING:
    from bbq_plugin.comparisons import Comparisons
    from bbq_plugin.live.store import Entry
    from bbq_plugin.live.store.names import Names
    from bbq_plugin.live.table import View
    from bbq_plugin.model.objective import Floats

__all__ = ["LiveFit", "Moment"]


@dataclass(frozen=True, eq=False, slots=True)
class Moment:
    """The answers that a fit belongs to, whatever has come since."""

    view: View
    names: Names
    items: tuple[str, ...]
    entries: tuple[Entry, ...]


class LiveFit(Fit):
    """A `Fit` like any other; its data, qualities and trace are made when first used."""

    moment: Moment

    def __init__(self, moment: Moment, **known: Any) -> None:
        # Not the dataclass's own: that would want now what is made later.
        self.__dict__.update(known, solver="auto", moment=moment)

    @property
    def items(self) -> tuple[str, ...]:
        """Names, aligned with `theta`."""
        return self.moment.items

    @cached_property
    def data(self) -> Comparisons:
        """The answers that were fitted."""
        moment = self.moment
        # Names are only ever added, so those of now hold those of then.
        items, raters = moment.names.items.names, moment.names.raters.names
        return comparisons_of(moment.view.alive(), items, raters, moment.entries)

    @cached_property
    def _optimum(self) -> tuple[Floats, float]:
        return optimum_at(self, self.theta)

    @cached_property
    def quality(self) -> Floats:
        """Of each rater, at `theta`."""
        if not self.rated:
            return np.ones(len(self.raters))
        return self._optimum[0]

    @cached_property
    def trace(self) -> Floats:
        """The height of the log-posterior at `theta`."""
        return np.array([self._optimum[1]])

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What the reader of the results should know."""
        return tuple(warnings_of(self.data, self.model))


def aligned(population: Any, items: tuple[str, ...], then: tuple[str, ...]) -> Any:
    """An estimate of the population for other items than those it was made with."""
    if population is None or items == then:
        return population
    row = {name: i for i, name in enumerate(then)}
    theta = np.zeros(len(items))
    slope = np.zeros((len(items), population.slope.shape[1]))
    for i, name in enumerate(items):
        if name in row:
            theta[i], slope[i] = population.theta[row[name]], population.slope[row[name]]
    return replace(population, slope=slope, theta=theta)
