"""Held-out answers of three outcomes: does a rater's tie rate predict them better?

Public sets with ties, and studies of comparative judgement, which have none. A fifth of the
answers, drawn at random, is held out, and predicted with the rest: left, right or tie. Compared
are, in nats an answer,

- bayes-bt with one tie rate: ties as half wins, P(tie) the share of ties among all answers;
- ties as half wins, with a tie rate of each rater beside it (bbq, estimated priors);
- ties as an outcome of their own: the default fit, bbq of the decided answers with as many camps as
  it finds, the same tie rates;
- the same with ties likelier between close items, as `fit.predict` has it.

Differences are paired by answer, means over the splits; the standard error is that of one split.
How the spread of sparse items is found was chosen on every second study of comparative judgement
(in the order of their names); the others are counted apart. If two models predicted equally well,
one study in 44 would be worse by two standard errors by chance. A second table, of the sets with
ties, holds out three tenths of the raters instead; of them only what is typical is known.
"""

from __future__ import annotations

import csv
import gzip
import json
from itertools import combinations
from typing import Any

import numpy as np
from common import DATA, Report, Table, arguments, in_two_processes
from numpy.typing import NDArray

from bbq_plugin import Comparison, Comparisons, fit
from bbq_plugin.model.ties import tie_counts, tie_rates

Floats = NDArray[np.float64]
SPLITS, FEW_SPLITS, QUICK_SPLITS = 10, 3, 1
MANY_ROWS = 3000  # from which the fits of one split are worth more than further splits
JUDGED = "comparative judgement"
LATER = ("Hunter2018",)  # too large to choose anything on
WAYS = ("bayes-bt, one tie rate", "half wins, rater rates", "own outcome", "own outcome, distance")
Answer = tuple[str, str, str, str]


def arena(name: str) -> list[Answer]:
    """MT-Bench's or LLMFAO's answers."""
    says = {"model_a": "left", "model_b": "right"}
    found = []
    with (DATA / name / "comparisons.jsonl").open(encoding="utf-8") as file:
        for row in map(json.loads, file):
            answer = says.get(row["winner"], "tie")
            if row["model_a"] == row["model_b"]:
                continue
            found.append((str(row["judge"]), row["model_a"], row["model_b"], answer))
    return found


def jpeg_aic(_: str) -> list[Answer]:
    """The crowd's answers, without known questions; the chosen image is the worse one."""
    says = {"left": "right", "right": "left", "notsure": "tie"}
    with gzip.open(DATA / "jpeg_aic" / "btc_responses.csv.gz", "rt", encoding="utf-8") as file:
        return [
            (row["worker"], row["img_left"], row["img_right"], says[row["response"]])
            for row in csv.DictReader(file)
            if row["is_trap"] == "0" and row["response"] in says
            and row["img_left"] != row["img_right"]
        ]  # fmt: skip


def ranked(name: str) -> list[Answer]:
    """Systems ranked side by side, equal ranks are ties."""
    found = []
    with (DATA / "wild" / name).open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            n = 5 if "system5Id" in row else 2
            for i, j in combinations(range(1, n + 1), 2):
                left, right = row[f"system{i}Id"], row[f"system{j}Id"]
                one, other = int(row[f"system{i}rank"]), int(row[f"system{j}rank"])
                if left != right and one > 0 and other > 0:
                    says = "tie" if one == other else "left" if one < other else "right"
                    found.append((row.get("judgeID") or row["judgeId"], left, right, says))
    return found


def pandalm(name: str) -> list[Answer]:
    """Three annotators in columns."""
    says = {"1": "left", "2": "right", "0": "tie"}
    rows = json.loads((DATA / "wild" / name).read_text(encoding="utf-8"))
    return [
        (who, *row["cmp_key"].split("_"), says[str(row[who])])
        for row in rows
        for who in ("annotator1", "annotator2", "annotator3")
    ]


def judged(name: str) -> list[Answer]:
    """A study of comparative judgement, which has no ties; sides are drawn."""
    columns = ("judge", "candidate_chosen", "candidate_not_chosen")
    with (DATA / "cj" / name).open(encoding="utf-8-sig", newline="") as file:
        rows = [tuple(row[c].strip() for c in columns) for row in csv.DictReader(file)]
    side = np.random.default_rng(5).random(len(rows)) < 0.5
    return [
        (who, won, lost, "left") if left else (who, lost, won, "right")
        for (who, won, lost), left in zip(rows, side.tolist(), strict=True)
        if who and won and lost and won != lost
    ]


SETS: dict[str, tuple[Any, str, str]] = {
    "HiFiC": (arena, "hific", "hific/comparisons.jsonl"),
    "MT-Bench": (arena, "mtbench", "mtbench/comparisons.jsonl"),
    "LLMFAO": (arena, "llmfao", "llmfao/comparisons.jsonl"),
    "JPEG AIC": (jpeg_aic, "", "jpeg_aic/btc_responses.csv.gz"),
    "WMT 2016 IT": (ranked, "wmt16it_eng-bul.csv", "wild/wmt16it_eng-bul.csv"),
    "WMT 2013 fr-en": (ranked, "wmt_trueskill_fr-en.csv", "wild/wmt_trueskill_fr-en.csv"),
    "PandaLM": (pandalm, "pandalm_testset.json", "wild/pandalm_testset.json"),
}
SETS |= {
    path.stem: (judged, path.name, f"cj/{path.name}")
    for path in sorted((DATA / "cj").glob("*.csv"))
}


def comparisons(rows: list[Answer]) -> Comparisons:
    """The answers as a data set."""
    return Comparisons.from_comparisons(
        Comparison(str(i), who, left, right, says)  # type: ignore[arg-type]
        for i, (who, left, right, says) in enumerate(rows)
    )


def loss(p: Floats, says: NDArray[np.int64]) -> Floats:
    """Nats of each answer; left, tie, right are 0, 1, 2."""
    return np.asarray(-np.log(np.maximum(p[np.arange(says.size), says], 1e-12)))


def with_rate(p: Floats, rate: Floats) -> Floats:
    """The same odds of left and right, with another rate of ties."""
    rest = (1.0 - rate)[:, None] * p[:, [0, 2]] / (p[:, 0] + p[:, 2])[:, None]
    return np.stack((rest[:, 0], rate, rest[:, 1]), axis=1)


def losses(task: tuple[str, str, int]) -> list[list[float]] | None:
    """Of one split: each held-out answer's loss, by way of predicting."""
    name, by, seed = task
    load, argument, _ = SETS[name]
    rows = load(argument)
    rng = np.random.default_rng([77, seed])
    held = rng.random(len(rows)) < 0.2
    if by == "raters":
        raters = sorted({row[0] for row in rows})
        if len(raters) < 8:
            return None
        out = set(np.array(raters)[rng.random(len(raters)) < 0.3].tolist())
        held = np.array([row[0] in out for row in rows])
    known = comparisons([row for row, h in zip(rows, held, strict=True) if not h])
    there = set(known.items)
    asked = [row for row, h in zip(rows, held, strict=True) if h and {row[1], row[2]} <= there]
    who, left, right = ([row[k] for row in asked] for k in range(3))
    says = np.array([("left", "tie", "right").index(row[3]) for row in asked])
    tied, n = tie_counts(known)
    share = float(tied.sum() / n.sum())
    rates = dict(zip(known.raters, tie_rates(known).tolist(), strict=True))
    rate = np.array([rates.get(name, share) for name in who])
    one = np.full(says.size, share)
    plain = fit(known, model="bayes-bt").predict(who, left, right)
    halves = fit(known, priors="auto", ties="half", camps=1).predict(who, left, right)
    own = fit(known).predict(who, left, right)
    found = (with_rate(plain, one), with_rate(halves, rate), with_rate(own, rate), own)
    return [loss(p, says).tolist() for p in found]


def main() -> None:
    """Run all sets."""
    quick: bool = arguments(__doc__ or "").quick
    report = Report("log_loss", "Ties as an outcome of their own", __doc__ or "", quick)
    names = [name for name, (_, _, path) in SETS.items() if (DATA / path).exists()]
    report.notes += [
        f"{name} was skipped: its file is not in the shared data folder."
        for name in SETS
        if name not in names
    ]
    tied = [name for name in names if SETS[name][0] is not judged]
    gaps: dict[str, tuple[float, float]] = {}
    for by in ("answers", "raters"):
        here = names if by == "answers" else tied
        n = {name: splits_of(name, quick=quick) for name in here}
        tasks = [(name, by, seed) for name in here for seed in range(n[name])]
        found = dict(zip(tasks, in_two_processes(losses, tasks), strict=True))
        rows = []
        for name in here:
            of_set = [x for seed in range(n[name]) if (x := found[name, by, seed]) is not None]
            if not of_set:
                continue
            mean = np.mean([np.mean(split, axis=1) for split in of_set], axis=0)
            apart = [np.array(split)[3] - np.array(split)[0] for split in of_set]
            gap = 1000 * float(np.mean([g.mean() for g in apart]))
            error = 1000 * float(np.mean([g.std() / np.sqrt(g.size) for g in apart]))
            difference = f"{gap:+.1f} ± {error:.1f}"
            rows.append([name, *(f"{x:.4f}" for x in mean), difference])
            report.values[f"{name}, {by}"] = [*mean.tolist(), gap, error]
            if by == "answers":
                gaps[name] = gap, error
            if by == "answers" and name in tied:
                report.check(
                    f"{name}: less the loss of bayes-bt with one tie rate, millinats", difference,
                    "≤ 2 standard errors", ok=gap <= 2 * error,
                )  # fmt: skip
        header = ["set", *WAYS, "last less first, millinats"]
        report.tables.append(Table(f"Nats an answer, {by} held out", header, rows))
    of_judges = [name for name in gaps if name not in tied]
    chosen_on = [name for name in of_judges if name not in LATER][::2]
    held = [name for name in of_judges if name not in chosen_on]
    for what, some in ((JUDGED, of_judges), (f"{JUDGED}, held out", held)):
        worse = [name for name in some if gaps[name][0] > 2 * gaps[name][1]]
        better = [name for name in some if gaps[name][0] < -2 * gaps[name][1]]
        report.check(
            f"{what}: studies worse by two standard errors",
            f"{len(worse)} of {len(some)}" + (f" ({', '.join(worse)})" if worse else ""),
            "none" if what == JUDGED else "", ok=not worse if what == JUDGED else None,
        )  # fmt: skip
        report.check(f"{what}: studies better by as much", f"{len(better)} of {len(some)}")
    n_better = sum(gap < 0 for gap, _ in gaps.values())
    report.check("sets on which it is better", f"{n_better} of {len(gaps)}", "most",
                 ok=2 * n_better > len(gaps))  # fmt: skip
    report.finish()


def splits_of(name: str, *, quick: bool) -> int:
    """How many splits a set is worth."""
    if quick:
        return QUICK_SPLITS
    load, argument, _ = SETS[name]
    rows = load(argument)
    if len(rows) > 10 * MANY_ROWS or len({row[1] for row in rows}) > 500:
        return 1
    return FEW_SPLITS if len(rows) > MANY_ROWS else SPLITS


if __name__ == "__main__":
    main()
