"""Noise or taste: camps on simulated panels and on real studies of skill and of taste.

Simulated panels have one taste with guessers, a minority or two halves with rankings of their own,
a continuum of tastes, or a group that answers in reverse. In others a few raters gave most of the
answers; there it is counted how often the screen fires, which has camps looked for and the axis of
disagreement drawn. The real studies are those of the shared data folder with at most 25 items and
8 raters or more.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from common import DATA, Report, Table, arguments, in_two_processes, mean_and_error, per_cent

if TYPE_CHECKING:
    from pathlib import Path

    from bbq_plugin import Comparisons

SEED = 20_000  # those of the tests and of the choices made while writing it are below
MOST_ITEMS, LEAST_RATERS = 25, 8
DIVIDED = ("Spehar2016_expt2-Edges", "Spehar2016_expt2-Plain")


@dataclass(frozen=True)
class Panel:
    """A kind of panel: how many studies of it, and what they are drawn from."""

    name: str
    studies: int
    items: int = 8
    raters: int = 40
    votes: int = 100
    guessers: float = 0.0
    minority: float = 0.0
    taste: float = 0.0
    reverse: bool = False


ONE_TASTE = [
    Panel(f"one taste, {g:.0%} guessers, {k} items, {r} raters, {n} answers each", 0, k, r, n, g)
    for g in (0.0, 0.1, 0.2, 0.3, 0.4)
    for k, r, n in ((8, 40, 38), (8, 40, 150), (20, 60, 100), (12, 100, 50))
]
MINORITIES = [
    Panel("20% minority, 100 answers each", 0, minority=0.2),
    Panel("20% minority, 200 answers each", 0, minority=0.2, votes=200),
    Panel("20% minority and 10% guessers, 100 answers each", 0, minority=0.2, guessers=0.1),
    Panel("40% minority and 10% guessers, 150 answers each", 0, 8, 40, 150, 0.1, 0.4),
    Panel("two halves, 9 items, 50 raters, 72 answers each", 0, 9, 50, 72, minority=0.5),
]
OTHERS = [
    Panel("tastes of their own (sd 0.5 nats), 100 answers each", 0, taste=0.5),
    Panel("15% answer in reverse, 100 answers each", 0, minority=0.15, reverse=True),
]
#: Items, raters, answers, and the answers of the median rater.
UNEQUAL = (
    (8, 40, 4_000, 50), (20, 100, 10_000, 40), (27, 1_977, 105_220, 12), (100, 1_000, 50_000, 25),
    (200, 2_000, 60_000, 12),
)  # fmt: skip


def drawn(panel: Panel, seed: int) -> tuple[Comparisons, Any]:
    """One study, and who is of the minority."""
    from bbq_plugin import Comparisons  # noqa: PLC0415 (in the child)

    rng = np.random.default_rng(seed)
    k, n = panel.items, panel.raters
    first, second = rng.normal(0, 0.9, (2, k))
    if panel.reverse:
        second = -first
    other = np.arange(n) < round(panel.minority * n)
    quality = rng.beta(10, 2, n)
    quality[n - round(panel.guessers * n) :] = 0.0
    theta = np.where(other[:, None], second, first) + panel.taste * rng.normal(0, 1, (n, k))
    rater = np.repeat(np.arange(n), panel.votes)
    a = rng.integers(0, k, rater.size)
    b = (a + rng.integers(1, k, rater.size)) % k
    y = 1 / (1 + np.exp(theta[rater, b] - theta[rater, a]))
    won = rng.random(rater.size) < 0.5 + quality[rater] * (y - 0.5)
    return Comparisons.from_arrays(rater, np.where(won, a, b), np.where(won, b, a)), other


def one_study(work: tuple[Panel, int]) -> dict[str, Any]:
    """How many camps are found, who is in them, and who is excluded."""
    import bbq_plugin as bbq  # noqa: PLC0415 (in the child)

    data, other = drawn(*work)
    fit = bbq.fit(data, priors="auto")
    verdicts = [row.verdict for row in bbq.rater_report(fit)]
    excluded = np.array([verdict == "exclude" for verdict in verdicts])
    member = fit.membership.argmax(axis=1)
    panel = work[0]
    guesser = np.arange(other.size) >= other.size - round(panel.guessers * other.size)
    return {
        "camps": len(fit.camps),
        "minority": int(other.sum()),
        "minority_excluded": int(excluded[other].sum()),
        "guessers": int(guesser.sum()),
        "guessers_excluded": int(excluded[guesser].sum()),
        "honest_excluded": int(excluded[~other & ~guesser].sum()),
        "right": float(max(np.mean((member > 0) == other), np.mean((member == 0) == other))),
    }


def studies_of_others() -> list[Path]:
    """The real studies that are small enough, if the folder is there."""
    found = []
    for path in sorted((DATA / "cj").glob("*.csv")):
        rows = list(csv.DictReader(path.open(encoding="utf-8-sig")))
        items = {row[c] for row in rows for c in ("candidate_chosen", "candidate_not_chosen")}
        raters = {row["judge"] for row in rows}
        if len(items) <= MOST_ITEMS and len(raters) >= LEAST_RATERS:
            found.append(path)
    return found


def real_study(path: Path) -> dict[str, Any]:
    """The same of a file of others."""
    import bbq_plugin as bbq  # noqa: PLC0415 (in the child)

    rows = csv.DictReader(path.open(encoding="utf-8-sig"))
    data = bbq.Comparisons.from_records(
        (row["judge"], row["candidate_chosen"], row["candidate_not_chosen"])
        for row in rows
        if row["candidate_chosen"] != row["candidate_not_chosen"]
    )
    fit = bbq.fit(data, priors="auto")
    report = bbq.rater_report(fit)
    return {
        "name": path.stem,
        "items": len(fit.items),
        "raters": len(fit.raters),
        "strength": float("nan") if fit.axis is None else fit.axis.strength,
        "camps": len(fit.camps),
        "shares": [round(camp.share, 2) for camp in fit.camps],
        "correlation": float(np.corrcoef(fit.camp_theta)[0, 1]) if len(fit.camps) > 1 else None,
        "excluded": len(report.excluded),
    }


def simulated(report: Report) -> None:
    """The rows about panels with a known truth."""
    each = 2 if report.quick else 10
    work = [(panel, SEED + i) for panel in ONE_TASTE for i in range(each)]
    found = list(in_two_processes(one_study, work))
    ones = [float(result["camps"] == 1) for result in found]
    share, error = mean_and_error(ones)
    report.check(
        f"one taste with 0–40% guessers, {len(ones)} studies: one camp",
        f"{per_cent(share)} ± {per_cent(error)}", "at least 97%", ok=share >= 0.97 or report.quick,
    )  # fmt: skip
    rows = []
    for panel in (*MINORITIES, *OTHERS):
        n = 4 if report.quick else 25
        found = list(in_two_processes(one_study, [(panel, SEED + i) for i in range(n)]))
        camps = np.array([result["camps"] for result in found])
        minority, guessers = (sum(r[what] for r in found) for what in ("minority", "guessers"))
        gone = sum(result["minority_excluded"] for result in found) / max(minority, 1)
        rows.append(
            [
                panel.name, str(n), ", ".join(f"{c}: {np.sum(camps == c)}" for c in set(camps)),
                per_cent(float(np.mean([result["right"] for result in found])), 0),
                per_cent(gone, 1) if minority else "",
                str(sum(result["honest_excluded"] for result in found)),
                f"{sum(result['guessers_excluded'] for result in found)} of {guessers}"
                if guessers else "",
            ]
        )  # fmt: skip
        if panel.minority == 0.2 and not panel.guessers:
            report.check(f"{panel.name}: of it excluded", per_cent(gone), "≤ 5%", ok=gone <= 0.05)
        if panel.reverse:
            report.check(f"{panel.name}: of them excluded", per_cent(gone), "none", ok=gone == 0)
    header = [
        "panel", "studies", "camps found", "members right", "of the minority excluded",
        "others excluded", "guessers excluded",
    ]  # fmt: skip
    report.tables.append(Table("Simulated panels.", header, rows))
    report.values["simulated"] = rows


def screened(work: tuple[tuple[int, int, int, int], float, int]) -> tuple[float, bool]:
    """Of a panel whose raters gave unequal numbers of answers: the strength, and if it fires."""
    from bbq_plugin import simulate  # noqa: PLC0415 (in the child)
    from bbq_plugin.model.camps import screen  # noqa: PLC0415

    (items, raters, answers, median), minority, seed = work
    study = simulate(
        items=items, raters=raters, comparisons=answers, median_votes=median, guessers=0.1,
        minority=minority, seed=seed,
    )  # fmt: skip
    axis = screen(study.arrays().triples)
    return (0.0, False) if axis is None else (axis.strength, axis.fires)


def unequal(report: Report) -> None:
    """The rows about panels in which a few raters gave most of the answers."""
    rows, fired = [], []
    n = 2 if report.quick else 10
    for size in UNEQUAL:
        row = [f"{size[0]} items, {size[1]:,} raters, {size[2]:,} answers, median {size[3]}"]
        for minority in (0.0, 0.2, 0.5):
            work = [(size, minority, SEED + i) for i in range(n)]
            strength, fires = zip(*in_two_processes(screened, work), strict=True)
            row.append(f"{sum(fires)} of {n} ({np.median(strength):.2f})")
            fired += fires if not minority else ()
        rows.append(row)
    share = float(np.mean(fired))
    report.check(
        "one taste, unequal numbers of answers: the screen fires",
        f"{sum(fired)} of {len(fired)}", "at most 3%", ok=share <= 0.03,
    )  # fmt: skip
    header = ["panel", "one taste", "20% minority", "two halves"]
    report.tables.append(
        Table("Unequal numbers of answers: the screen fires (median strength).", header, rows)
    )
    report.values["unequal"] = rows


def real(report: Report) -> None:
    """The rows about studies of others."""
    paths = studies_of_others()
    if not paths:
        report.notes.append("The real studies were skipped: the shared data folder is not there.")
        return
    found = list(in_two_processes(real_study, paths))
    rows = []
    for result in found:
        shares = " / ".join(f"{share:g}" for share in result["shares"])
        correlation = result["correlation"]
        rows.append(
            [
                result["name"], str(result["items"]), str(result["raters"]),
                f"{result['strength']:.2f}", str(result["camps"]), shares,
                "" if correlation is None else f"{correlation:.2f}", str(result["excluded"]),
            ]
        )  # fmt: skip
        if result["name"] in DIVIDED:
            report.check(
                f"{result['name']}: camps", str(result["camps"]), "2 or more",
                ok=result["camps"] >= 2,
            )  # fmt: skip
            report.check(
                f"{result['name']}: raters excluded", f"{result['excluded']} of {result['raters']}",
                "at most 3", ok=result["excluded"] <= 3,
            )  # fmt: skip
    header = ["study", "items", "raters", "strength", "camps", "shares", "correlation", "excluded"]
    report.tables.append(Table("Real studies: camps and exclusions.", header, rows))
    report.values["real"] = found


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__ or "")
    report = Report("camps", "Camps: noise or taste", __doc__ or "", options.quick)
    simulated(report)
    unequal(report)
    real(report)
    report.finish()


if __name__ == "__main__":
    main()
