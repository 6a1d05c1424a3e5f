"""A forecast with more raters: does the ranking of a larger panel come out as it says?

Each study of data/cj with at least 12 raters and 3 items is split at random by raters, several
times: a third is the panel now, a third is added to it, and a third is another panel. From the
first third alone the forecast is made of Kendall's tau between the ranking with the raters added
and the ranking of the other panel; then both are fitted. How often the 90% interval holds the tau
that came out, mean over splits and studies (a study of many splits counts once). Items that a third
has not seen are left out. Fits are of one ranking with the default priors. Splits: seeds 0 to 7 for
the number that the bar is about; seeds 100 to 107 were looked at while the forecast was made.
"""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
from common import DATA, Report, Table, arguments, per_cent, within

from bbq_plugin import Comparisons, fit
from bbq_plugin.analysis.stability import forecast_more, kendall_tau
from bbq_plugin.errors import BBQError

LEAST, MOST_ITEMS = 12, 60


def judged(path: Any) -> list[tuple[str, str, str]]:
    """The decided answers of a study: rater, winner, loser."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    heads = {head.lower().replace(".", "_").replace(" ", "_"): head for head in rows[0]}
    rater = next(heads[h] for h in ("judge", "judge_id", "rater") if h in heads)
    won = next(heads[h] for h in ("candidate_chosen", "winner", "won") if h in heads)
    lost = next(heads[h] for h in ("candidate_not_chosen", "loser", "lost") if h in heads)
    return [(r[rater], r[won], r[lost]) for r in rows if r[won] != r[lost] and r[won] and r[lost]]


def ranked(rows: list[tuple[str, str, str]]) -> Any:
    """A fit of one ranking."""
    return fit(Comparisons.from_records(rows), camps=1, cluster="rater")


def split(rows: list[tuple[str, str, str]], seed: int) -> tuple[bool, float, float] | None:
    """Whether the interval held tau, tau less the forecast, and the width."""
    raters = sorted({row[0] for row in rows})
    part = dict(zip(np.random.default_rng([5, seed]).permutation(raters).tolist(),
                    np.arange(len(raters)) * 3 // len(raters), strict=True))  # fmt: skip
    thirds = [[row for row in rows if part[row[0]] == p] for p in range(3)]
    try:
        now, then, other = ranked(thirds[0]), ranked(thirds[0] + thirds[1]), ranked(thirds[2])
    except BBQError:
        return None
    shared = [i for i in now.items if i in then.items and i in other.items]
    if len(shared) < 3:
        return None
    place = [{name: i for i, name in enumerate(one.items)} for one in (then, other)]
    a, b = (
        np.array([one.theta[at[name]] for name in shared])
        for one, at in zip((then, other), place, strict=True)
    )
    tau = float(kendall_tau(a, b[None])[0])
    (_, row) = forecast_more(now, [len(then.raters) - len(now.raters)], against=len(other.raters))
    # One step of a tau of few items: the interval's ends are such steps too.
    return (
        row.tau_lower - 1e-9 <= tau <= row.tau_upper + 1e-9,
        tau - row.tau,
        (row.tau_upper - row.tau_lower),
    )


def main() -> None:
    """Measure and report."""
    quick: bool = arguments(__doc__ or "").quick
    report = Report("more_raters", "A forecast with more raters", __doc__ or "", quick)
    table, held = [], []
    for path in sorted((DATA / "cj").glob("*.csv"))[: 8 if quick else None]:
        rows = judged(path)
        n_raters = len({row[0] for row in rows})
        n_items = len({x for row in rows for x in row[1:]})
        if n_raters < LEAST or not 3 <= n_items <= MOST_ITEMS:
            continue
        found = [one for seed in range(8) if (one := split(rows, seed)) is not None]
        if not found:
            continue
        inside = float(np.mean([one[0] for one in found]))
        held.append(inside)
        table.append(
            [path.stem, f"{n_raters}", f"{n_items}", f"{len(found)}", per_cent(inside, 0),
             f"{np.mean([one[1] for one in found]):+.3f}",
             f"{np.mean([one[2] for one in found]):.2f}"]
        )  # fmt: skip
    if not held:
        report.notes.append("Skipped: data/cj is not in the shared data folder.")
        report.finish()
    mean, error = float(np.mean(held)), float(np.std(held) / np.sqrt(len(held)))
    report.check(
        f"90% intervals hold the tau that came out ({len(held)} studies)",
        f"{per_cent(mean)} ± {per_cent(error)}", "83–97%", ok=within(mean, 0.83, 0.97),
    )  # fmt: skip
    heads = ["study", "raters", "items", "splits", "held", "tau less forecast", "width"]
    report.tables.append(Table("By study", heads, table))
    report.finish()


if __name__ == "__main__":
    main()
