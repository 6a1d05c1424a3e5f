"""Two halves of the raters agree: real panels, which no simulation drew.

Each study of comparative judgement in the shared data with at most 25 items and 8 raters or more is
split ten times at random into two halves of its raters, and each half is fitted by default. An
interval that means what it says makes |a - b| <= 1.96 sqrt(se_a^2 + se_b^2) hold in 95% of the
cases, for the win share of each item and for the difference of each two items. Items that one half
has not seen are left out of both. `laplace` is the model's own covariance, which takes answers as
independent given the quality of their raters.

How to steady the covariance of few clusters was chosen on every second study (in the order of their
names), with one camp; the others are shown apart. Panels that are divided have several camps.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from common import (
    DATA,
    Report,
    Table,
    arguments,
    in_two_processes,
    per_cent,
    within,
)
from numpy.typing import NDArray

from bbq_plugin import Comparisons, fit
from bbq_plugin.model import Fit
from bbq_plugin.model.win_share import win_shares

STUDIES = DATA / "cj"
SPLITS, QUICK_SPLITS = 10, 2
MOST_ITEMS, LEAST_RATERS = 25, 8
MEAN, LOW, LOWEST, LOW_SHARE = (0.93, 0.98), 0.85, 0.70, 0.10
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Of one study: how often its halves agree."""

    name: str
    items: int
    raters: int
    camps: float
    differences: float
    shares: float
    own_differences: float
    own_shares: float


def read(path: Path) -> Comparisons:
    """The judgements of a study."""
    columns = ("judge", "candidate_chosen", "candidate_not_chosen")
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = [tuple(row[c].strip() for c in columns) for row in csv.DictReader(file)]
    rows = [row for row in rows if all(row) and row[1] != row[2]]
    return Comparisons.from_records(rows)  # type: ignore[arg-type]


def halves(data: Comparisons, rng: np.random.Generator) -> list[Comparisons]:
    """Two halves of the raters, with the items that both have seen."""
    first = rng.permutation(data.n_raters) < data.n_raters // 2
    side = first[data.rater]
    keep = np.ones(side.size, dtype=bool)
    while True:
        seen = [
            np.isin(np.arange(data.n_items), np.r_[data.winner[part], data.loser[part]])
            for part in (keep & side, keep & ~side)
        ]
        both = seen[0] & seen[1]
        new = keep & both[data.winner] & both[data.loser]
        if np.array_equal(new, keep):
            break
        keep = new
    place = np.cumsum(both) - 1
    names = [name for name, there in zip(data.items, both, strict=True) if there]
    found = []
    for part in (keep & side, keep & ~side):
        rater = np.unique(data.rater[part], return_inverse=True)[1]
        pairs = place[data.winner[part]], place[data.loser[part]]
        found.append(Comparisons.from_arrays(rater, *pairs, data.weight[part], items=names))
    return found


def agree(a: Floats, b: Floats, variance: Floats) -> float:
    """The share of cases in which two estimates are as near as they should be."""
    return float(np.mean(np.abs(a - b) <= 1.96 * np.sqrt(variance)))


def gaps(one: Fit, *, own: bool) -> tuple[Floats, Floats]:
    """The differences of all pairs and their variances."""
    i, j = np.triu_indices(len(one.items), 1)
    c = one.laplace.covariance if own else one.covariance()
    return one.theta[i] - one.theta[j], c[i, i] + c[j, j] - 2 * c[i, j]


def shares(one: Fit, *, own: bool) -> tuple[Floats, Floats]:
    """The win share of all items and its variance, before an interval is cut at 0 and 1."""
    found = win_shares(one, 0.5, own=own)
    reach = np.maximum(found.upper - found.share, found.share - found.lower)
    return found.share, (reach / 0.6744897501960817) ** 2


def study(task: tuple[Path, int]) -> Agreement | None:
    """Split one study and compare the halves."""
    path, splits = task
    data = read(path)
    if data.n_items > MOST_ITEMS or data.n_raters < LEAST_RATERS:
        return None
    rng = np.random.default_rng(7)
    rows, camps = [], []
    for _ in range(splits):
        both = [fit(part, priors="auto") for part in halves(data, rng)]
        camps += [len(one.camps) for one in both]
        row = []
        for measure in (gaps, shares):
            for own in (False, True):
                (a, va), (b, vb) = (measure(one, own=own) for one in both)
                row.append(agree(a, b, va + vb))
        rows.append(row)
    differences, own_differences, of_shares, own_shares = np.mean(rows, axis=0).tolist()
    return Agreement(
        path.stem, data.n_items, data.n_raters, float(np.mean(camps)), differences, of_shares,
        own_differences, own_shares,
    )  # fmt: skip


def main() -> None:
    """Measure all studies."""
    quick: bool = arguments(__doc__ or "").quick
    report = Report("halves", "Two halves of the raters agree", __doc__ or "", quick)
    if not STUDIES.is_dir():
        report.notes.append(f"the studies are not here ({STUDIES}): nothing was measured")
        report.finish()
    splits = QUICK_SPLITS if quick else SPLITS
    tasks = [(path, splits) for path in sorted(STUDIES.glob("*.csv"))]
    found = [one for one in in_two_processes(study, tasks) if one is not None]
    rows = []
    for place, one in enumerate(found):
        used = ("chosen on", "held out")[place % 2]
        shown = (one.differences, one.shares, one.own_differences, one.own_shares)
        camps = f"{one.camps:.1f}"
        rows.append([one.name, used, f"{one.items}", f"{one.raters}", camps, *map(per_cent, shown)])
    for what in ("differences", "shares"):
        values = np.array([getattr(one, what) for one in found])
        own = np.array([getattr(one, f"own_{what}") for one in found])
        name = {"differences": "differences", "shares": "win_share"}[what]
        mean, least, low = float(values.mean()), float(values.min()), int((values < LOW).sum())
        report.check(f"{name}: mean", per_cent(mean), "93–98%", ok=within(mean, *MEAN))
        enough = low <= LOW_SHARE * values.size
        report.check(f"{name}: studies below 85%", f"{low} of {values.size}", "≤ 10%", ok=enough)
        report.check(f"{name}: worst study", per_cent(least), "≥ 70%", ok=least >= LOWEST)
        report.check(f"{name}: mean, laplace", per_cent(float(own.mean())))
        report.check(f"{name}: mean of the held-out studies", per_cent(float(values[1::2].mean())))
        report.values[what] = {"mean": mean, "least": least, "below": low}
    header = [
        "study", "used", "items", "raters", "camps", "differences", "win_share",
        "differences, laplace", "win_share, laplace",
    ]  # fmt: skip
    report.tables.append(Table(f"{len(found)} studies, {splits} splits each", header, rows))
    report.finish()


if __name__ == "__main__":
    main()
