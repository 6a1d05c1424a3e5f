"""Everything that is compiled on first use, used once: later it would keep events waiting."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

from bbq_plugin.comparisons import Comparison, Outcome
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.server.outlook import outlook
from bbq_plugin.live.server.view import Moment, Thresholds

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["warm_up"]

_ITEMS = "abcdefghij"
_RATERS = "rstuvwxy"


def warm_up(engine: Engine) -> None:
    """Fit some answers the way that an engine does, and look at all of the result.

    The first rater has given enough of them to be followed without being read again, which is
    work of its own; so is a change too small to estimate the priors anew, and to take one back.
    """
    with Engine(model=engine.model, priors=engine.priors, tol=engine.tol) as other:
        known = list(_answers())
        other.add(known)
        other.refresh()
        for turn, rater in enumerate(_RATERS[:2]):
            other.add(Comparison(f"more {turn}", rater, "a", "b", "left"))
            other.refresh()
        other.retract(known[0].key)
        other.refresh()
        moment = Moment(other.fit, 0.0, Thresholds())
        for part in (moment.better, moment.raters, moment.pairs, moment.n_groups):
            del part
        outlook(moment)
        moment.information_bits(_ITEMS[:2])


def _answers() -> Iterator[Comparison]:
    """All pairs both ways round by the first rater, a part of them by each of the others."""
    for n, (left, right) in enumerate(permutations(_ITEMS, 2)):
        for m, rater in enumerate(_RATERS):
            if m == 0 or (n + m) % 4 == 0:
                outcome: Outcome = "left" if m == 0 or left < right else ("right", "tie")[n % 2]
                yield Comparison(f"{rater}{left}{right}", rater, left, right, outcome)
