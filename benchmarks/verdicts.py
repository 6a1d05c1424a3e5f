"""Verdicts on raters: guessers found, honest raters spared, held-out raters predicted, and cost.

**Finding guessers.** Studies of HUMAINE's size (105,220 comparisons by 1,977 raters of 27 items,
20% of them guessers, as in `calibration.py`). Raters are ordered by the odds of the report: a coin
against an honest rater, by the consensus of the others. The oracle knows every θ and the true
population, Beta(8, 2), and orders by the same odds; nobody can do better. "Plain q" orders by the
fitted quality.

**Sparing the honest.** 200 studies with 5 to 100 items, 15 to 300 raters and 15 to 150 votes each,
0 to 40% bad raters (guessers, and in half of the studies a quarter or half of the bad upside
down), honest quality from Beta(10, 2) down to Beta(3, 2), with and without ties, with and without
a lean of the guessers to the left; verdicts at a stated rate of 5%. Counted are the honest who are
excluded, as a share of all honest raters and as a share of the excluded.

**Harder for the honest.** The same in studies of which the 200 hold few or none: honest raters of
very different quality (Beta(3, 2)) and clear items (θ spread by 2 nats), so that some honest raters
are hardly better than a coin; rankings of up to twelve items, which are informed or guessed as a
whole, with as few as three a rater and no minimum of answers; known questions of which some raters
got a harder lot, a tie in three tenths of the answers; a layout by which everybody leans to the
left. And what drift can be found: two of twenty raters have quality 0.9 and are coins from the
middle on.

**Prediction.** Half of the raters of a public set, drawn at random, are fitted, and each answer of
the other half is predicted: by bayes-bt as σ(d), with raters weighted (bbq, estimated priors) as
1/2 + q̄ (σ(d) − 1/2) with the mean quality q̄ of the fitted half. A tie counts half each way. Beside
it, bayes-bt on the raters that the verdicts keep.

**Cost.** `rater_report` for 2,000 raters and 100,000 comparisons, in CPU seconds: with the default
fit, of which `bbq raters` makes it, against a fit under the paper's priors; and by itself against
such a fit with 2,000 exact draws.

Thresholds and priors of the verdicts were chosen on other seeds than these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from common import (
    Report,
    Table,
    arguments,
    cpu_of,
    figure,
    in_two_processes,
    mean_and_error,
    per_cent,
    real_sets,
)
from numpy.typing import NDArray

from bbq_plugin import Comparison, Comparisons, fit, rater_report, simulate
from bbq_plugin.analysis import RaterReport
from bbq_plugin.model.rater_population import honest_evidence

STUDIES, QUICK_STUDIES = 10, 1
SMALL_STUDIES, QUICK_SMALL_STUDIES = 200, 10
HARD_STUDIES, QUICK_HARD_STUDIES = 60, 2
SPLITS, QUICK_SPLITS = 100, 3
AUC_BAR, BUSY_BAR, BUSY = 0.985, 0.99, 50
RATE = 0.05


def area(score: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """The area under the curve: P(a positive scores higher than a negative), ties half."""
    order = np.argsort(score, kind="stable")
    _, place, count = np.unique(score[order], return_inverse=True, return_counts=True)
    rank = np.empty(score.size)
    rank[order] = (np.cumsum(count) - (count - 1) / 2)[place]
    n = int(positive.sum())
    return float((rank[positive].sum() - n * (n + 1) / 2) / (n * (score.size - n)))


def large(seed: int) -> dict[str, float]:
    """Areas under the curve at HUMAINE's size."""
    drawn = simulate(
        items=27, raters=1977, comparisons=105_220, guessers=0.2, quality=(8.0, 2.0), spread=0.6,
        median_votes=30, seed=seed,
    )  # fmt: skip
    data, truth = drawn.arrays(), drawn.truth
    found = fit(data, priors="auto")
    report = rater_report(found)
    population = report.population
    assert population is not None
    guessing = np.array([kind == "guesser" for kind in truth.kind])
    t = data.triples
    s = 0.5 * np.tanh(0.5 * (truth.theta[t.winner] - truth.theta[t.loser]))
    oracle = -honest_evidence(t, s, 8.0, 2.0)
    # P(guesser) orders as the odds do, but not to the last digit near 0 and 1: the odds themselves.
    p = np.array([[row.p_guesser, row.p_inverted] for row in report])
    honest = np.maximum(1 - p.sum(axis=1), 1e-300)
    odds = np.log(np.maximum(p[:, 0], 1e-300)) - np.log(honest)
    n = np.array([row.n for row in report])
    result = {}
    for name, some in (("all", n > 0), ("busy", n >= BUSY)):
        result |= {
            name: area(odds[some], guessing[some]),
            f"{name}_oracle": area(oracle[some], guessing[some]),
            f"{name}_q": area(-found.quality[some], guessing[some]),
        }
    out = np.array([row.verdict == "exclude" for row in report])
    return result | {
        "guessers": float(guessing.sum()),
        "found": float(np.sum(out & guessing)),
        "wronged": float(np.sum(out & ~guessing)),
    }


def design(seed: int) -> dict[str, Any]:
    """One of many kinds of studies."""
    rng = np.random.default_rng([6, seed])
    raters, votes = round(15 * 20 ** rng.random()), round(15 * 10 ** rng.random())
    bad = float(rng.choice([0.0, 0.1, 0.2, 0.3, 0.4]))
    inverted = bad * float(rng.choice([0.0, 0.0, 0.25, 0.5]))
    return {
        "items": round(5 * 20 ** rng.random()),
        "raters": raters,
        "comparisons": raters * votes,
        "guessers": bad - inverted,
        "inverted": inverted,
        "spread": float(rng.choice([0.4, 0.7, 1.0, 1.5])),
        "quality": ((10.0, 2.0), (8.0, 2.0), (5.0, 2.0), (3.0, 2.0))[rng.integers(4)],
        "ties": float(rng.choice([0.0, 0.0, 0.2])),
        "left_bias": float(rng.choice([0.0, 0.0, 0.5])),
        "median_votes": None if rng.random() < 0.5 else 0.7 * votes,
    }


def small(seed: int) -> dict[str, float]:
    """Who is excluded in one of many kinds of studies."""
    made = design(seed)
    drawn = simulate(**made, seed=seed)
    report = rater_report(fit(drawn.arrays(), priors="auto"), false_rate=RATE)
    honest = np.array([kind == "honest" for kind in drawn.truth.kind])
    out = np.array([row.verdict == "exclude" for row in report])
    return {
        "bad_share": made["guessers"] + made["inverted"],
        "items": made["items"],
        "honest": float(honest.sum()),
        "bad": float((~honest).sum()),
        "wronged": float(np.sum(out & honest)),
        "found": float(np.sum(out & ~honest)),
    }


@dataclass(frozen=True, slots=True)
class Hard:
    """A kind of study that is hard on honest raters; ``least`` answers before an exclusion."""

    name: str
    design: dict[str, Any]
    least: int = 10


_PANEL: dict[str, Any] = {"items": 8, "raters": 40, "comparisons": 1600, "spread": 2.0}
_RANKS: dict[str, Any] = {"items": 20, "raters": 40, "spread": 1.0, "answer": "rank"}
HARD = (
    Hard("pairs, Beta(3, 2), 40 votes", _PANEL | {"quality": (3.0, 2.0)}),
    Hard("pairs, Beta(3, 2), 100 votes", _PANEL | {"quality": (3.0, 2.0), "comparisons": 4000}),
    Hard("pairs, Beta(5, 2), 10% guessers", _PANEL | {"quality": (5.0, 2.0), "guessers": 0.1}),
    Hard("pairs, Beta(10, 2), 10% guessers", _PANEL | {"guessers": 0.1}),
    Hard("3 rankings of 12", _RANKS | {"comparisons": 120, "slate": 12}, 1),
    Hard("3 rankings of 12, 20% guessers", _RANKS | {"comparisons": 120, "slate": 12,
                                                       "guessers": 0.2}, 1),
    Hard("4 rankings of 8, 20% guessers", _RANKS | {"comparisons": 160, "slate": 8,
                                                      "guessers": 0.2}, 1),
    Hard("12 rankings of 12, 20% guessers", _RANKS | {"comparisons": 480, "slate": 12,
                                                        "guessers": 0.2}),
    Hard("30 choices of 6, 20% guessers", _RANKS | {"comparisons": 1200, "slate": 6,
                                                      "answer": "best", "guessers": 0.2}),
)  # fmt: skip


def hard(task: tuple[int, int]) -> dict[str, float]:
    """Who is excluded in a study that is hard on honest raters."""
    kind, seed = task
    drawn = simulate(**HARD[kind].design, seed=20_000 + seed)
    report = rater_report(
        fit(drawn.arrays(), priors="auto"), false_rate=RATE, least=HARD[kind].least
    )
    return _counts(report, np.array([name == "honest" for name in drawn.truth.kind]))


def _counts(report: RaterReport, honest: NDArray[np.bool_]) -> dict[str, float]:
    out = np.array([row.verdict == "exclude" for row in report])
    return {
        "honest": float(honest.sum()),
        "bad": float((~honest).sum()),
        "wronged": float(np.sum(out & honest)),
        "found": float(np.sum(out & ~honest)),
        "watched": float(sum(row.verdict == "watch" for row in report)),
    }


ASKED = {
    "known questions, some raters got hard ones": {"hard": 3},
    "known questions, three tenths of the answers ties": {"ties": 0.3},
    "everybody leans to the left": {"lean": 1.0, "known": 0},
    "drift, 60 answers": {"drift": 2, "known": 0},
    "drift, 150 answers": {"drift": 2, "known": 0, "votes": 150},
    "drift, 400 answers": {"drift": 2, "known": 0, "votes": 400},
}


def asked(task: tuple[str, int]) -> dict[str, float]:
    """Honest raters, single answers with times: known questions, a common lean, drift."""
    name, seed = task
    made: dict[str, Any] = {"hard": 0, "ties": 0.0, "lean": 0.0, "drift": 0, "known": 20,
                            "votes": 60} | ASKED[name]  # fmt: skip
    rng, raters, items = np.random.default_rng([7, seed]), 20, 8
    theta = np.sort(rng.normal(0, 1, items))
    rows = []
    for r in range(raters):
        quality = 0.9 if made["drift"] else rng.beta(10, 2)
        for n in range(made["votes"]):
            a, b = rng.choice(items, 2, replace=False).tolist()
            if n < made["known"]:
                pair = [items // 2, items // 2 + 1] if r < made["hard"] else [0, items - 1]
                a, b = rng.permutation(pair).tolist()
            guessed = r < made["drift"] and 2 * n >= made["votes"]
            informed = rng.random() < quality and not guessed
            left = (theta[a] - theta[b]) * informed + rng.logistic() + made["lean"] > 0
            says = "tie" if rng.random() < made["ties"] else "left" if left else "right"
            tags = {"gold": "left" if a > b else "right"} if n < made["known"] else None
            when = float(len(rows))
            rows.append(
                Comparison(str(len(rows)), f"r{r:02}", str(a), str(b), says, at=when, tags=tags)
            )
    report = rater_report(fit(Comparisons.from_comparisons(rows), priors="auto"), false_rate=RATE)
    honest = np.array([not (made["drift"] and row.rater in ("r00", "r01")) for row in report])
    flagged = np.array([any("quality falls" in why for why in row.reasons) for row in report])
    leans = np.array([any("leans" in why for why in row.reasons) for row in report])
    return _counts(report, honest) | {
        "drifted": float(np.sum(flagged & ~honest)),
        "false_drift": float(np.sum(flagged & honest)),
        "leans": float(leans.sum()),
    }


def part_of(data: Comparisons, chosen: NDArray[np.bool_]) -> Comparisons:
    """The comparisons of some raters, all items kept."""
    rows = chosen[data.rater]
    rater = np.unique(data.rater[rows], return_inverse=True)[1]
    return Comparisons.from_arrays(
        rater, data.winner[rows], data.loser[rows], data.weight[rows], items=data.items
    )


def log_loss(data: Comparisons, theta: NDArray[np.float64], quality: float = 1.0) -> float:
    """Nats an answer."""
    p = 0.5 + quality * 0.5 * np.tanh(0.5 * (theta[data.winner] - theta[data.loser]))
    return float(-np.sum(data.weight * np.log(p)) / data.weight.sum())


def predicted(data: Comparisons, splits: int) -> NDArray[np.float64]:
    """Log loss by split: bayes-bt, raters weighted, raters excluded; and how many were."""
    rows = []
    for seed in range(splits):
        chosen = np.zeros(data.n_raters, dtype=np.bool_)
        chosen[np.random.default_rng(seed).permutation(data.n_raters)[: data.n_raters // 2]] = True
        known, held_out = part_of(data, chosen), part_of(data, ~chosen)
        plain, weighted = fit(known, model="bayes-bt"), fit(known, priors="auto")
        keep = np.array([row.verdict != "exclude" for row in rater_report(weighted)])
        kept = plain if keep.all() else fit(part_of(known, keep), model="bayes-bt")
        rows.append(
            [
                log_loss(held_out, plain.theta),
                log_loss(held_out, weighted.theta, float(weighted.quality.mean())),
                log_loss(held_out, kept.theta),
                float(np.sum(~keep)),
            ]
        )
    return np.array(rows)


def find_guessers(report: Report, n: int) -> None:
    """The first two bars."""
    studies = list(in_two_processes(large, range(n)))
    column = {key: np.array([study[key] for study in studies]) for key in studies[0]}
    rows = []
    for name, shown, bar in (
        ("all", "all raters", AUC_BAR),
        ("busy", f"raters with {BUSY} comparisons or more", BUSY_BAR),
    ):
        ratio = float(np.mean(column[name] / column[f"{name}_oracle"]))
        report.check(f"AUC over the oracle's, {shown}", f"{ratio:.4f}", f"≥ {bar}", ok=ratio >= bar)
        rows.append(
            [shown, *(f"{column[f'{name}{end}'].mean():.4f}" for end in ("", "_oracle", "_q"))]
        )
    header = ["who", "AUC of the report", "of the oracle", "of plain q"]
    report.tables.append(Table(f"Finding guessers, mean of {n} studies", header, rows))
    found, wronged, there = (column[key].sum() for key in ("found", "wronged", "guessers"))
    report.check("guessers excluded at HUMAINE's size", per_cent(found / there, 1))
    report.check("honest among these exclusions", per_cent(wronged / max(found + wronged, 1), 1))
    report.values["large"] = {key: values.tolist() for key, values in column.items()}


def spare_the_honest(report: Report, n: int) -> None:
    """The bar on wrong exclusions, in two readings."""
    studies = list(in_two_processes(small, range(n)))
    column = {key: np.array([study[key] for study in studies]) for key in studies[0]}
    share = column["wronged"] / column["honest"]
    pooled = float(column["wronged"].sum() / column["honest"].sum())
    mean, error = mean_and_error(share)
    report.check(
        "honest raters excluded, all studies together", per_cent(pooled), f"≤ {RATE:.0%}",
        ok=pooled <= RATE,
    )  # fmt: skip
    report.check(
        "the same, mean of the studies", f"{per_cent(mean)} ± {per_cent(error)}", f"≤ {RATE:.0%}",
        ok=mean <= RATE,
    )  # fmt: skip
    false = column["wronged"] / np.maximum(column["wronged"] + column["found"], 1)
    mean, error = mean_and_error(false)
    report.check(
        "honest among the excluded (false discovery rate), mean of the studies",
        f"{per_cent(mean)} ± {per_cent(error)}", f"≤ {RATE:.0%}", ok=mean <= RATE,
    )  # fmt: skip
    worst = f"{share.max():.0%}; over {RATE:.0%} in {np.sum(share > RATE)} of {n} studies"
    report.check("honest raters excluded in the worst study", worst)
    rows = []
    for bad in sorted(set(column["bad_share"].round(2).tolist())):
        some = column["bad_share"].round(2) == bad
        there = column["bad"][some].sum()
        rows.append(
            [
                f"{bad:.0%}",
                str(int(some.sum())),
                per_cent(column["wronged"][some].sum() / column["honest"][some].sum()),
                per_cent(float(false[some].mean())),
                per_cent(column["found"][some].sum() / there, 1) if there else "–",
            ]
        )
    header = ["bad raters", "studies", "honest excluded", "honest among excluded", "bad excluded"]
    report.tables.append(Table("By the share of bad raters", header, rows))
    report.values["small"] = {key: values.tolist() for key, values in column.items()}
    with figure(report, "verdicts") as axes:
        places = range(len(rows))
        axes.bar(places, [float(row[2].rstrip("%")) for row in rows])
        axes.axhline(100 * RATE, color="black", linewidth=1, linestyle="--")
        axes.set_xticks(list(places), [row[0] for row in rows])
        axes.set_xlabel("share of bad raters")
        axes.set_ylabel("honest raters excluded, %")


def spare_the_hard_ones(report: Report, n: int) -> None:
    """False discoveries where honest raters are hard to tell from guessers."""
    tasks = [(kind, seed) for kind in range(len(HARD)) for seed in range(n)]
    studies = dict(zip(tasks, in_two_processes(hard, tasks), strict=True))
    rows = []
    for kind, made in enumerate(HARD):
        column = _column([studies[kind, seed] for seed in range(n)])
        mean, error = mean_and_error(_false(column))
        there = column["bad"].sum()
        rows.append(
            [
                made.name, per_cent(column["wronged"].sum() / column["honest"].sum()),
                f"{per_cent(mean)} ± {per_cent(error)}",
                per_cent(column["found"].sum() / there, 1) if there else "–",
            ]
        )  # fmt: skip
        report.values[made.name] = {key: values.tolist() for key, values in column.items()}
    header = ["studies", "honest excluded", "honest among excluded", "bad excluded"]
    report.tables.append(Table(f"Harder for the honest, {n} studies of each kind", header, rows))
    names = [(name, seed) for name in ASKED for seed in range(n)]
    told = dict(zip(names, in_two_processes(asked, names), strict=True))
    rows = []
    for name in ASKED:
        column = _column([told[name, seed] for seed in range(n)])
        honest, bad = column["honest"].sum(), column["bad"].sum()
        rows.append(
            [
                name, per_cent(column["wronged"].sum() / honest),
                f"{np.sum(column['wronged'] > 0):.0f} of {n}",
                per_cent(column["leans"].sum() / honest),
                per_cent(column["drifted"].sum() / bad, 1) if bad else "–",
                per_cent(column["false_drift"].sum() / honest),
            ]
        )  # fmt: skip
        report.values[name] = {key: values.tolist() for key, values in column.items()}
    header = ["studies of 20 raters", "honest excluded", "studies with one", "told they lean",
              "drift found", "drift of honest ones"]  # fmt: skip
    report.tables.append(Table("Known questions, a common lean, drift", header, rows))


def _column(studies: list[dict[str, float]]) -> dict[str, NDArray[np.float64]]:
    return {key: np.array([study[key] for study in studies]) for key in studies[0]}


def _false(column: dict[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.asarray(column["wronged"] / np.maximum(column["wronged"] + column["found"], 1))


def predict(report: Report, splits: int) -> None:
    """The bar on public data."""
    rows = []
    for name, data in real_sets(report, "llmfao", "mtbench", "hific").items():
        loss = predicted(data, splits)
        gain, error = mean_and_error(loss[:, 1] - loss[:, 0])
        better = float(np.mean(loss[:, 1] < loss[:, 0]))
        report.check(
            f"{name}: log loss with raters weighted, less that of bayes-bt",
            f"{1000 * gain:+.2f} ± {1000 * error:.2f} millinats, better in {better:.0%}", "< 0",
            ok=gain < 0,
        )  # fmt: skip
        rows.append([name, *(f"{x:.5f}" for x in loss[:, :3].mean(axis=0)),
                     f"{loss[:, 3].mean():.1f}"])  # fmt: skip
        report.values[name] = loss.tolist()
    header = ["set", "bayes-bt", "bbq, raters weighted", "bayes-bt, raters excluded", "excluded"]
    report.tables.append(
        Table(f"Nats an answer of held-out raters, mean of {splits} halvings", header, rows)
    )


def cost(report: Report, *, quick: bool) -> None:
    """The bar on seconds."""
    raters, comparisons = (200, 10_000) if quick else (2000, 100_000)
    data = simulate(
        items=27, raters=raters, comparisons=comparisons, guessers=0.2, quality=(8.0, 2.0),
        spread=0.6, median_votes=30, seed=0,
    ).arrays()  # fmt: skip
    found = fit(data, priors="auto")
    verdicts = cpu_of(lambda: rater_report(found), 3)
    default = cpu_of(lambda: fit(data), 3)
    plain = cpu_of(lambda: fit(data, priors="paper", camps=1), 5)
    draws = cpu_of(lambda: fit(data, priors="paper", camps=1).sample(2000, keep_quality=False), 1)
    ratio = (default + verdicts) / plain
    report.check(
        "default fit and verdicts, in fits with priors='paper'", f"{ratio:.1f}", "≤ 60",
        ok=ratio <= 60,
    )  # fmt: skip
    ratio = verdicts / draws
    report.check(
        "verdicts, in fits under the paper's priors with 2,000 draws", f"{ratio:.2f}", "< 1",
        ok=ratio < 1,
    )  # fmt: skip
    rows = [
        ["rater_report", f"{verdicts:.3f}"],
        ["default fit", f"{default:.3f}"],
        ["fit, paper's priors, and 2,000 draws", f"{draws:.3f}"],
        ["fit, paper's priors", f"{plain:.3f}"],
    ]
    report.tables.append(
        Table(f"CPU seconds, {raters:,} raters, {comparisons:,} comparisons", ["what", "s"], rows)
    )
    report.values["cost"] = {
        "verdicts": verdicts, "default": default, "draws": draws, "paper": plain,
    }  # fmt: skip


def main() -> None:
    """Run all parts."""
    quick: bool = arguments(__doc__ or "").quick
    report = Report("verdicts", "Verdicts on raters", __doc__ or "", quick)
    cost(report, quick=quick)
    predict(report, QUICK_SPLITS if quick else SPLITS)
    spare_the_honest(report, QUICK_SMALL_STUDIES if quick else SMALL_STUDIES)
    spare_the_hard_ones(report, QUICK_HARD_STUDIES if quick else HARD_STUDIES)
    find_guessers(report, QUICK_STUDIES if quick else STUDIES)
    report.finish()


if __name__ == "__main__":
    main()
