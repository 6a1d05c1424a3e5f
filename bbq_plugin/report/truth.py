"""How close a fit came to the truth of a simulated study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
        n = len(self.rating)
        return [
            f"{self.held} of {n} intervals hold the true rating.",
            f"Of {self.n_bad} raters who guess or answer upside down, "
            f"{len(self.bad_excluded)} would be excluded and {len(self.bad_watched)} are watched"
            + _missed(self.bad_kept),
            f"Of {self.n_honest} honest raters, {len(self.honest_excluded)} would be excluded "
            f"wrongly and {len(self.honest_watched)} are watched" + _listed(self.honest_excluded),
        ]


def check_against_truth(
    board: Leaderboard, raters: RaterReport, truth: Truth, true_rating: Mapping[str, float]
) -> TruthCheck:
    """Compare a leaderboard and a rater report with what the study was drawn from."""
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


def _missed(kept: tuple[str, ...]) -> str:
    return f"; missed: {', '.join(kept)}." if kept else "; none was missed."


def _listed(names: tuple[str, ...]) -> str:
    return f": {', '.join(names)}." if names else "."
