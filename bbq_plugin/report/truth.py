"""How close a fit came to the truth of a simulated study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bbq_plugin.insight.leaderboard import to_rating

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bbq_plugin.insight import Leaderboard, RaterReport
    from bbq_plugin.simulation import Truth


@dataclass(frozen=True)
class TruthCheck:
    """What the fit got right: intervals that hold the truth, and bad raters by verdict."""

    rating: Mapping[str, float]
    kind: Mapping[str, str]
    held: int
    n_bad: int
    n_honest: int
    bad_excluded: tuple[str, ...]
    bad_watched: tuple[str, ...]
    bad_kept: tuple[str, ...]
    honest_excluded: tuple[str, ...]
    honest_watched: tuple[str, ...]

    def lines(self) -> list[str]:
        """Say it in words."""
        bad = (
            f"{self.n_bad} raters guess or answer upside down: {len(self.bad_excluded)} of them "
            f"to exclude, {len(self.bad_watched)} to watch, {_counted(self.bad_kept)} missed."
        )
        honest = (
            f"{self.n_honest} raters are honest: {_counted(self.honest_excluded)} of them "
            f"excluded wrongly, {_counted(self.honest_watched)} to watch."
        )
        return [f"{self.held} of {len(self.rating)} intervals hold the true rating.", bad, honest]


def check_against_truth(board: Leaderboard, raters: RaterReport, truth: Truth) -> TruthCheck:
    """Compare a leaderboard and a rater report with what the study was drawn from."""
    true_rating = _true_rating(board, truth)
    kind = dict(zip(truth.raters, truth.kind, strict=True))
    by_verdict: dict[tuple[bool, str], list[str]] = {}
    for row in raters:
        by_verdict.setdefault((kind[row.rater] != "honest", row.verdict), []).append(row.rater)

    def who(*, bad: bool, verdict: str) -> tuple[str, ...]:
        return tuple(by_verdict.get((bad, verdict), ()))

    held = sum(r.rating_lower <= true_rating[r.item] <= r.rating_upper for r in board)
    n_bad = sum(k != "honest" for k in kind.values())
    return TruthCheck(
        rating=true_rating,
        kind=kind,
        held=held,
        n_bad=n_bad,
        n_honest=len(kind) - n_bad,
        bad_excluded=who(bad=True, verdict="exclude"),
        bad_watched=who(bad=True, verdict="watch"),
        bad_kept=who(bad=True, verdict="keep"),
        honest_excluded=who(bad=False, verdict="exclude"),
        honest_watched=who(bad=False, verdict="watch"),
    )


def _true_rating(board: Leaderboard, truth: Truth) -> dict[str, float]:
    """The truth on the leaderboard's scale, relative to the same items."""
    theta = dict(zip(truth.items, truth.theta.tolist(), strict=True))
    known = np.array([theta[row.item] for row in board])
    rating = to_rating(known - known.mean(), board.scale)
    return dict(zip((row.item for row in board), rating.tolist(), strict=True))


def _counted(names: tuple[str, ...]) -> str:
    return f"{len(names)} ({', '.join(names)})" if names else "none"
