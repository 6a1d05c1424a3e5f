"""What P(bad) is worth: its reliability, the power of exclusions, and raters who only look bad.

**Reliability.** Studies of HUMAINE's size (105,220 comparisons by 1,977 raters of 27 items, a
median of 30 a rater), 20% of the raters bad: coins, or with quality ~ Beta(1, 9) or Beta(2, 6).
Raters of all studies are put into bins of P(bad); in each, P(bad) is compared with the share who
are bad. Beside it an oracle that knows θ and the population, and populations that the model does
not assume: honest raters in two lumps (0.45 to 0.75, and 0.85 to 1), and raters with tastes of
their own (an sd of 0.4 nats an item around the common θ).

**Power.** Raters with 50 to 200 answers each; found are bad raters who are excluded at a stated
rate of 5%, as a share of those whom the oracle finds under the same floor (P(bad) of at least 0.9
and ten answers). Beside it the share of honest raters among the excluded.

**Raters who only look bad.** Honest raters who answer a tie 70% or 88% of the time, with 100
answers; studies in which each answer is stored three times, with its time; and a real crowd
(JPEG AIC), whose hidden known questions are not shown to the fit.

Priors and thresholds were chosen on other seeds than these.
"""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from datetime import datetime
from typing import Any

import numpy as np
from common import (
    DATA,
    Report,
    Table,
    arguments,
    figure,
    in_two_processes,
    mean_and_error,
    per_cent,
)
from numpy.typing import NDArray

from bbq_plugin import Comparison, Comparisons, fit, rater_report
from bbq_plugin.analysis.raters.verdicts import LEAST, SURE, most_certain
from bbq_plugin.model.rater_population import CampView, _beta, _Table

Floats = NDArray[np.float64]
SEED = 50_000
RATE, HONEST, SHARE = 0.05, (8.0, 2.0), 0.2
KINDS: dict[str, tuple[float, float] | None] = {
    "coins": None, "Beta(1, 9)": (1.0, 9.0), "Beta(2, 6)": (2.0, 6.0),
}  # fmt: skip
LARGE: dict[str, dict[str, Any]] = {
    **{f"bad: {name}": {"kind": name} for name in KINDS},
    "bad: Beta(1, 9), honest in two lumps": {"kind": "Beta(1, 9)", "lumps": True},
    "bad: Beta(1, 9), tastes of their own": {"kind": "Beta(1, 9)", "taste": 0.4},
}
SIZES = ((8, 40), (20, 60), (27, 400))
VOTES = (50, 100, 200)


def drawn(
    seed: int, kind: str, items: int, raters: int, votes: NDArray[Any], *, spread: float,
    lumps: bool = False, taste: float = 0.0,
) -> tuple[Comparisons, Floats, NDArray[np.bool_]]:  # fmt: skip
    """A study, its θ, and who is bad."""
    rng = np.random.default_rng([SEED, seed])
    theta = rng.normal(0, spread, items)
    quality = rng.beta(*HONEST, raters)
    if lumps:
        low, high = rng.uniform(0.45, 0.75, raters), rng.uniform(0.85, 1.0, raters)
        quality = np.where(rng.random(raters) < 0.5, low, high)
    bad = np.zeros(raters, dtype=np.bool_)
    bad[rng.permutation(raters)[: round(SHARE * raters)]] = True
    beta = KINDS[kind]
    quality[bad] = 0.0 if beta is None else rng.beta(*beta, int(bad.sum()))
    who = np.repeat(np.arange(raters), votes)
    one = rng.integers(0, items, who.size)
    other = (one + rng.integers(1, items, who.size)) % items
    own = theta + taste * rng.normal(size=(raters, items))
    gap = own[who, one] - own[who, other]
    won = rng.random(who.size) < 0.5 + quality[who] * 0.5 * np.tanh(0.5 * gap)
    data = Comparisons.from_arrays(
        who, np.where(won, one, other), np.where(won, other, one),
        items=[str(i) for i in range(items)], raters=[str(r) for r in range(raters)],
    )  # fmt: skip
    return data, theta, bad


def oracle(data: Comparisons, theta: Floats, kind: str) -> Floats:
    """P(bad) of one who knows θ and the population."""
    t = data.triples
    s = 0.5 * np.tanh(0.5 * (theta[t.winner] - theta[t.loser]))
    table = _Table.of(t, (CampView(1.0, s),), np.arange(t.n_raters))
    honest = table.upright @ _beta(*HONEST)
    beta = KINDS[kind]
    low = np.exp(-table.top) if beta is None else table.upright @ _beta(*beta)
    return np.asarray(SHARE * low / np.maximum(SHARE * low + (1 - SHARE) * honest, 1e-300))


def judged(data: Comparisons, theta: Floats, kind: str) -> tuple[Floats, Floats, Any, Any]:
    """P(bad) and who is excluded: ours, and the oracle's under the same floor."""
    report = rater_report(fit(data, priors="auto"), false_rate=RATE)
    ours = np.array([row.p_bad for row in report])
    out = np.array([row.verdict == "exclude" for row in report])
    best = oracle(data, theta, kind)
    able = (np.bincount(data.rater, minlength=ours.size) >= LEAST) & (best >= SURE)
    return ours, best, out, most_certain(best, able, RATE)


def large(task: tuple[str, int]) -> list[list[float]]:
    """P(bad), that of the oracle, and whether bad, of each rater of one large study."""
    name, seed = task
    rng = np.random.default_rng([SEED + 1, seed])
    share = rng.lognormal(0.0, np.sqrt(2 * np.log(105_220 / 1977 / 30)), 1977)
    votes = 1 + np.floor(share / share.sum() * (105_220 - 1977)).astype(np.int64)
    made = dict(LARGE[name])
    kind = made.pop("kind")
    data, theta, bad = drawn(seed, kind, 27, 1977, votes, spread=0.6, **made)
    ours, best, out, theirs = judged(data, theta, kind)
    return [ours.tolist(), best.tolist(), bad.tolist(), out.tolist(), theirs.tolist()]


def power(task: tuple[str, int, int, int, int]) -> list[int]:
    """Bad found, honest excluded, bad found by the oracle, bad there."""
    kind, items, raters, n, seed = task
    votes = np.full(raters, n)
    data, theta, bad = drawn(1000 + seed, kind, items, raters, votes, spread=0.8)
    _, _, out, theirs = judged(data, theta, kind)
    return [int(np.sum(x)) for x in (out & bad, out & ~bad, theirs & bad, theirs & ~bad, bad)]


def in_bins(p: Floats, bad: NDArray[np.bool_], least: int) -> list[tuple[int, float, float]]:
    """Of bins of width 0.2 with so many raters: how many, mean P(bad), share who are bad."""
    place = np.minimum((p / 0.2).astype(np.int64), 4)
    some = [place == k for k in range(5)]
    return [
        (int(mine.sum()), float(p[mine].mean()), float(bad[mine].mean()))
        for mine in some
        if mine.sum() >= least
    ]


def reliability(report: Report, n: int) -> None:
    """The bar on P(bad)."""
    # Of populations that the model does not assume fewer studies, and smaller bins, have to do.
    times = {name: n if set(made) == {"kind"} else max(2, n // 3) for name, made in LARGE.items()}
    tasks = [(name, seed) for name in LARGE for seed in range(times[name])]
    studies = dict(zip(tasks, in_two_processes(large, tasks), strict=True))
    rows, curves = [], {}
    for name in LARGE:
        columns = zip(*(studies[name, seed] for seed in range(times[name])), strict=True)
        ours, best, bad, out, theirs = (np.concatenate(column) for column in columns)
        bad, out, theirs = (column.astype(np.bool_) for column in (bad, out, theirs))
        bins, ideal = (in_bins(p, bad, 300 if times[name] >= 10 else 60) for p in (ours, best))
        worst, of_oracle = (max(abs(p - seen) for _, p, seen in x) for x in (bins, ideal))
        assumed = "lumps" not in name and "tastes" not in name
        report.check(
            f"{name}: P(bad) off by at most, bins of width 0.2", f"{worst:.3f}",
            "≤ 0.1" if assumed else "", ok=worst <= 0.1 if assumed else None,
        )  # fmt: skip
        rows.append(
            [
                name, f"{worst:.3f}", f"{of_oracle:.3f}",
                f"{np.sum(out & bad)} ({np.sum(out & ~bad)} wrong)",
                f"{np.sum(theirs & bad)} ({np.sum(theirs & ~bad)} wrong)", str(int(bad.sum())),
            ]
        )  # fmt: skip
        curves[name] = bins
        report.values[name] = bins
    header = ["studies", "off by", "oracle off by", "bad excluded", "by the oracle", "bad there"]
    report.tables.append(
        Table(f"HUMAINE's size, {n} studies of each kind, of the last two {n // 3}", header, rows)
    )
    with figure(report, "reliability") as axes:
        axes.plot([0, 1], [0, 1], color="black", linewidth=1, linestyle="--")
        for name, bins in curves.items():
            axes.plot([p for _, p, _ in bins], [seen for _, _, seen in bins], "o-", label=name)
        axes.set_xlabel("P(bad), mean of a bin")
        axes.set_ylabel("share who are bad")
        axes.legend()


def excluded(report: Report, n: int) -> None:
    """The bar on power, and on false discoveries."""
    tasks = [
        (kind, items, raters, votes, seed)
        for kind in KINDS
        for items, raters in SIZES
        for votes in VOTES
        for seed in range(n if raters < 400 else max(1, n // 5))
    ]
    found = dict(zip(tasks, in_two_processes(power, tasks), strict=True))
    rows = []
    for kind in KINDS:
        mine = np.array([count for task, count in found.items() if task[0] == kind])
        ratio = mine[:, 0].sum() / max(mine[:, 2].sum(), 1)
        report.check(
            f"bad raters ({kind}) excluded, against the oracle's", per_cent(ratio, 0), "≥ 85%",
            ok=ratio >= 0.85,
        )  # fmt: skip
        false = mine[:, 1] / np.maximum(mine[:, 0] + mine[:, 1], 1)
        mean, error = mean_and_error(false)
        report.check(
            f"honest among the excluded ({kind}), mean of the studies",
            f"{per_cent(mean, 1)} ± {per_cent(error, 1)}", "≤ 5%", ok=mean <= RATE + 2 * error,
        )  # fmt: skip
        for items, raters in SIZES:
            for votes in VOTES:
                some = np.array(
                    [c for task, c in found.items() if task[:4] == (kind, items, raters, votes)]
                ).sum(axis=0)
                rows.append(
                    [
                        kind, f"{items} × {raters} × {votes}", f"{some[0]} ({some[1]} wrong)",
                        f"{some[2]} ({some[3]} wrong)", str(some[4]),
                    ]
                )  # fmt: skip
    header = ["bad raters", "items × raters × answers", "excluded", "by the oracle", "there"]
    report.tables.append(Table(f"Power, {n} studies (a fifth of 400 raters)", header, rows))


def tying(task: tuple[float, str, int]) -> float:
    """The share of honest raters excluded of those who tie so often."""
    rate, ties, seed = task
    rng = np.random.default_rng([SEED + 2, seed])
    theta, rows = rng.normal(0, 1, 8), []
    for r in range(40):
        quality, often = rng.beta(10, 2), rate if r % 2 else 0.1
        for _ in range(100):
            a, b = rng.choice(8, 2, replace=False).tolist()
            left = rng.random() < 0.5 + quality * 0.5 * np.tanh(0.5 * (theta[a] - theta[b]))
            says: Any = "tie" if rng.random() < often else "left" if left else "right"
            rows.append(Comparison(str(len(rows)), f"r{r:02}", f"i{a}", f"i{b}", says))
    data = Comparisons.from_comparisons(rows)
    report = rater_report(fit(data, priors="auto", ties=ties))  # type: ignore[arg-type]
    return float(np.mean([row.verdict == "exclude" for row in list(report)[1::2]]))


def stored_again(seed: int) -> list[int]:
    """Bad and honest raters excluded where each answer is stored three times."""
    rng = np.random.default_rng([SEED + 3, seed])
    theta, rows = rng.normal(0, 0.8, 8), []
    for r in range(40):
        quality = rng.beta(*HONEST) if r >= 8 else 0.0
        for n in range(60):
            a, b = rng.choice(8, 2, replace=False).tolist()
            left = rng.random() < 0.5 + quality * 0.5 * np.tanh(0.5 * (theta[a] - theta[b]))
            says: Any = "left" if left else "right"
            rows += [
                Comparison(f"{r}-{n}-{c}", f"r{r:02}", f"i{a}", f"i{b}", says, at=1e4 * r + n)
                for c in range(3)
            ]
    report = rater_report(fit(Comparisons.from_comparisons(rows), priors="auto"))
    out = [int(row.rater[1:]) < 8 for row in report if row.verdict == "exclude"]
    return [sum(out), len(out) - sum(out)]


def looking_bad(report: Report, n: int) -> None:
    """The bars on tie habits and repeats."""
    tasks = [(rate, ties, seed) for rate in (0.7, 0.88) for ties in ("auto", "half")
             for seed in range(n)]  # fmt: skip
    shares = dict(zip(tasks, in_two_processes(tying, tasks), strict=True))
    for rate in (0.7, 0.88):
        for ties in ("auto", "half"):
            mean = float(np.mean([shares[rate, ties, seed] for seed in range(n)]))
            name = "an outcome of their own" if ties == "auto" else "half wins"
            report.check(
                f"honest raters who tie {rate:.0%} of the time, excluded; ties {name}",
                per_cent(mean, 1), "≤ 5%" if ties == "auto" else "",
                ok=mean <= RATE if ties == "auto" else None,
            )  # fmt: skip
    counts = np.array(list(in_two_processes(stored_again, range(n))))
    mean, error = mean_and_error(counts[:, 1] / np.maximum(counts.sum(axis=1), 1))
    report.check(
        "each answer stored three times: honest among the excluded, mean of the studies",
        f"{per_cent(mean, 1)} ± {per_cent(error, 1)}", "≤ 5%", ok=mean <= RATE,
    )  # fmt: skip


def crowd(report: Report) -> None:
    """The bar on a real crowd: who failed its hidden known questions, and who is excluded."""
    path = DATA / "jpeg_aic" / "btc_responses.csv.gz"
    if not path.exists():
        report.notes.append("JPEG AIC was skipped: its file is not in the shared data folder.")
        return
    right, rows = defaultdict(list), []
    worse: dict[str, Any] = {"left": "right", "right": "left", "notsure": "tie"}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for i, row in enumerate(csv.DictReader(file)):
            says, images = row["response"], (row["img_left"], row["img_right"])
            if row["is_trap"] == "1":
                bad = "left" if int(row["dlevel_left"]) > int(row["dlevel_right"]) else "right"
                right[row["worker"]].append(says == bad)
            elif says != "skip" and images[0] != images[1]:
                when = datetime.fromisoformat(row["submission_time"]).timestamp()
                rows.append(
                    Comparison(
                        str(i), row["worker"], *images, worse[says], at=when,
                        time_s=float(row["response_time"]) / 1000,
                    )
                )  # fmt: skip
    failed = {worker for worker, all_of in right.items() if np.mean(all_of) < 0.7}
    found = rater_report(fit(Comparisons.from_comparisons(rows)))
    out = set(found.excluded)
    report.check(
        "JPEG AIC: workers excluded who passed the known questions", str(len(out - failed)), "0",
        ok=not out - failed,
    )  # fmt: skip
    report.check(
        f"JPEG AIC: of {len(failed)} who failed them (below 70%), not excluded",
        str(len(failed - out)), "≤ 1", ok=len(failed - out) <= 1,
    )  # fmt: skip


def main() -> None:
    """Run all parts."""
    quick: bool = arguments(__doc__ or "").quick
    report = Report("reliability", "What P(bad) is worth", __doc__ or "", quick)
    crowd(report)
    looking_bad(report, 4 if quick else 12)
    excluded(report, 3 if quick else 8)
    reliability(report, 2 if quick else 10)
    report.finish()


if __name__ == "__main__":
    main()
