"""The stopping rule: false alarms under continuous monitoring, and what it costs.

False alarms: two equal items, and someone looks after each of 10,000 votes. The raters are those of
a bad study: 20% guess, 10% are inverted, 10% always take the left, the others have quality ~
Beta(10, 2); which item is left is random, or balanced as `next_pairs` does it (each side once
in every two votes, in random order). Alarm: the rule (e at least 20) ever says that they differ.
Beside it the usual test at 5%, |z| ≥ 1.96, read after every vote.

Tastes: what the rule does not cover. Two items are equal on average over all who might be asked,
but each rater prefers one of them with a chance of their own, drawn from a Beta around 1/2, and
the same raters give all 10,000 votes. The rule then finds, rightly, that these raters prefer one.

Cost: the same raters without the bad ones (20% guess), and a true gap. A test of fixed size at 5%
with a power of 80% needs n votes, planned with the true gap known; the rule stops when it stops.
The ratio of its votes to n is given as median, mean and 80% quantile over the runs, with how often
it named the worse item. Seeds: 0, 1 and 2.
"""

from __future__ import annotations

import numpy as np
from common import Report, Table, arguments, figure, per_cent
from numpy.typing import NDArray

from bbq_plugin.analysis.stopping import log_e_value

Floats = NDArray[np.float64]

VOTES, RUNS, QUICK_RUNS = 10_000, 4_000, 200
BLOCK = 200
RATERS = 100
GAPS = (0.15, 0.3, 0.6, 1.2)
COST_RUNS = 1_000
TASTES = ((10, 0.1), (30, 0.1), (100, 0.1), (30, 0.2), (10_000, 0.2))  # raters, sd of their chances
TASTE_RUNS = 1_000
LEVEL, Z, POWER_Z = 0.05, 1.959963984540054, 0.8416212335729143


def raters(rng: np.random.Generator, runs: int, *, bad: bool) -> tuple[Floats, Floats]:
    """Quality (below 0: inverted) and lean to the left (1: always left) of each rater."""
    quality = rng.beta(10, 2, (runs, RATERS))
    lean = np.zeros((runs, RATERS))
    quality[:, :20] = 0
    if bad:
        quality[:, 20:30] *= -1
        quality[:, 30:40], lean[:, 30:40] = 0, 1
    return quality, lean


def wins(
    rng: np.random.Generator, runs: int, votes: int, gap: float, *, bad: bool, balanced: bool
) -> Floats:
    """How often the first item has won after each vote: runs x votes."""
    quality, lean = raters(rng, runs, bad=bad)
    who = rng.integers(0, RATERS, (runs, votes))
    left = rng.random((runs, votes)) < 0.5
    if balanced:
        left[:, 1::2] = ~left[:, : votes // 2 * 2 : 2]
    q, tilt = np.take_along_axis(quality, who, 1), np.take_along_axis(lean, who, 1)
    p = 0.5 + q * (1 / (1 + np.exp(-gap)) - 0.5) + 0.5 * tilt * np.where(left, 1.0, -1.0)
    return np.cumsum(rng.random((runs, votes)) < p, axis=1, dtype=np.float64)


def alarms(runs: int, *, balanced: bool) -> tuple[Floats, Floats]:
    """The share of runs with an alarm up to each vote: of the rule, and of the usual test."""
    rng = np.random.default_rng(0)
    n = np.arange(1.0, VOTES + 1)
    first = np.zeros((2, VOTES))
    for begin in range(0, runs, BLOCK):
        size = min(BLOCK, runs - begin)
        won = wins(rng, size, VOTES, 0.0, bad=True, balanced=balanced)
        rule = log_e_value(won, n - won) >= -np.log(LEVEL)
        usual = (np.abs(2 * won - n) >= Z * np.sqrt(n)) & (n >= 10)
        for at, hit in enumerate((rule, usual)):
            first[at] += np.bincount(hit.argmax(axis=1)[hit.any(axis=1)], minlength=VOTES)
    return first[0].cumsum() / runs, first[1].cumsum() / runs


def cost(gap: float, runs: int) -> tuple[int, Floats, float]:
    """Votes of the fixed test, the rule's votes in each run, and how often it was wrong."""
    rng = np.random.default_rng(1)
    mean_quality = 0.8 * 10 / 12
    p = 0.5 + mean_quality * (1 / (1 + np.exp(-gap)) - 0.5)
    fixed = int(np.ceil(((Z * 0.5 + POWER_Z * np.sqrt(p * (1 - p))) / (p - 0.5)) ** 2))
    most, stopped, wrong = 12 * fixed, [], 0
    n = np.arange(1.0, most + 1)
    for begin in range(0, runs, BLOCK // 4):
        size = min(BLOCK // 4, runs - begin)
        won = wins(rng, size, most, gap, bad=False, balanced=False)
        hit = log_e_value(won, n - won) >= -np.log(LEVEL)
        at = np.where(hit.any(axis=1), hit.argmax(axis=1), most - 1)
        stopped.append(at + 1.0)
        score = won[np.arange(size), at] / (at + 1.0)
        wrong += int((hit.any(axis=1) & (score < 0.5)).sum())
    return fixed, np.concatenate(stopped), wrong / runs


def taste_alarms(n_raters: int, sd: float, runs: int) -> float:
    """The share of runs in which raters with tastes that cancel out on average set the rule off."""
    rng = np.random.default_rng(2)
    shape = (0.25 / sd**2 - 1) / 2
    n, found = np.arange(1.0, VOTES + 1), 0
    for begin in range(0, runs, BLOCK):
        size = min(BLOCK, runs - begin)
        p = rng.beta(shape, shape, (size, n_raters))
        who = rng.integers(0, n_raters, (size, VOTES))
        voted = rng.random((size, VOTES)) < np.take_along_axis(p, who, 1)
        won = np.cumsum(voted, axis=1, dtype=np.float64)
        found += int((log_e_value(won, n - won) >= -np.log(LEVEL)).any(axis=1).sum())
    return found / runs


def tastes(report: Report, runs: int) -> None:
    """The table of what the rule does not cover."""
    rows = []
    for n_raters, sd in TASTES:
        share = taste_alarms(n_raters, sd, runs)
        error = float(np.sqrt(share * (1 - share) / runs))
        rows.append([f"{n_raters:,}", f"{sd:g}", f"{per_cent(share, 1)} ± {per_cent(error, 1)}"])
        report.values[f"tastes {n_raters} {sd:g}"] = share
    header = ["raters", "standard deviation of their chances", "significant within 10,000 votes"]
    caption = "Equal on average, but the raters have tastes of their own"
    report.tables.append(Table(caption, header, rows))


def main() -> None:
    """Run both parts."""
    quick: bool = arguments(__doc__ or "").quick
    runs = QUICK_RUNS if quick else RUNS
    report = Report("stopping", "A stopping rule under continuous monitoring", __doc__ or "", quick)
    shown = {}
    for name, balanced in (("random sides", False), ("sides balanced", True)):
        rule, usual = alarms(runs, balanced=balanced)
        shown[name] = (rule, usual)
        error = float(np.sqrt(rule[-1] * (1 - rule[-1]) / runs))
        report.check(
            f"false alarms over {VOTES:,} votes, {name}",
            f"{per_cent(rule[-1])} ± {per_cent(error)}",
            "at most 5%",
            ok=bool(rule[-1] <= LEVEL + (3 * error if quick else 0.0)),
        )
        report.check(f"the usual test at every vote, {name}", per_cent(usual[-1], 1))
        report.values[name] = {"rule": float(rule[-1]), "usual": float(usual[-1])}
    tastes(report, TASTE_RUNS // (10 if quick else 1))
    rows = []
    for gap in GAPS:
        fixed, stopped, wrong = cost(gap, COST_RUNS // (10 if quick else 1))
        ratio = stopped / fixed
        p = 0.5 + 0.8 * 10 / 12 * (1 / (1 + np.exp(-gap)) - 0.5)
        rows.append(
            [
                f"{gap:g} nats ({per_cent(p, 1)} of votes)",
                f"{fixed:,}",
                f"{np.median(stopped):,.0f}",
                f"{np.median(ratio):.2f}",
                f"{ratio.mean():.2f}",
                f"{np.quantile(ratio, 0.8):.2f}",
                per_cent(wrong, 1),
            ]
        )
        report.values[f"gap {gap:g}"] = {
            "fixed": fixed, "median": float(np.median(ratio)), "mean": float(ratio.mean()),
            "quantile_80": float(np.quantile(ratio, 0.8)), "wrong": wrong,
        }  # fmt: skip
    header = [
        "true gap",
        "fixed test",
        "rule, median",
        "ratio: median",
        "mean",
        "80% quantile",
        "wrong item",
    ]
    report.tables.append(Table("Votes between two items that differ", header, rows))
    with figure(report, "stopping") as axes:
        rule, usual = shown["random sides"]
        n = np.arange(1, VOTES + 1)
        axes.plot(n, 100 * usual, label="the usual test, read after every vote")
        axes.plot(n, 100 * rule, label="the rule")
        axes.axhline(100 * LEVEL, color="black", linestyle="--")
        axes.set_xscale("log")
        axes.set_xlabel("votes between two equal items")
        axes.set_ylabel("studies with a false alarm so far, %")
        axes.legend(frameon=False)
    report.finish()


if __name__ == "__main__":
    main()
