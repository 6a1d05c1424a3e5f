"""Comparisons saved by `next_pairs` against random pairs.

A study has 20 items with θ ~ Normal(0, 1) and 50 raters, of whom 20% guess and the others have
quality ~ Beta(10, 2). In each round every rater answers one comparison; then the model is fitted
again (paper's priors) and the next 50 comparisons are chosen. The first round is random for all.
All samplers ask all raters equally often, guessers too (nobody is excluded), see the same studies,
and are judged by the same fit: only the pairs differ. Counted are the comparisons until Kendall's τ
with the truth is 0.9 on average over the studies, and until the best item comes first in 95% of
them (after isotonic regression of that share, which is noisy). The criteria were chosen on studies
with seeds from 1,000 to 1,199; the seeds here are others.

Beside it two published samplers. ASAP (Mikhailiuk et al. 2020, the authors' `asap_cpu.py`,
approximate mode, n − 1 pairs of its spanning tree at a time, its own posterior renewed after each
of these) is not on PyPI: BBQ_ASAP names the file. The entropy selector is that of the package
`comparative-judgement`. BBQ_STUDIES is how many studies are drawn (200 if absent; a fifth of them
where there is no bar to meet, a tenth where the guessers found are not asked, which judges all
raters after each round). BBQ_KEEP names a folder that keeps each study when it is done, for a run
that was interrupted: some hours on a busy machine.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from common import Report, Table, arguments, best_of, figure, in_two_processes, per_cent
from numpy.typing import NDArray

from bbq_plugin import Comparisons, Fit, fit, next_pairs, simulate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Pairs = list[tuple[int, int]]

ITEMS, RATERS, SPREAD, GUESSERS, ROUND = 20, 50, 1.0, 0.2, 50
STUDIES, QUICK_STUDIES = int(os.environ.get("BBQ_STUDIES", "200")), 10
FIRST_SEED = 5_000
TAU, TOP_1 = 0.9, 0.95
MARKS_RANDOM = np.unique(np.round(np.geomspace(2, 5000, 46)).astype(int)) * ROUND
ENDS = {"random": 250_000, "ranking": 3_500, "best": 12_000, "top-k": 4_000, "asap": 4_000,
        "entropy": 5_000, "ranking+exclude": 3_000}  # fmt: skip


class World:
    """A study whose answers are drawn when they are asked for."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.theta = self.rng.normal(0, SPREAD, ITEMS)
        quality = self.rng.beta(10, 2, RATERS)
        quality[: round(GUESSERS * RATERS)] = 0.0
        self.quality = self.rng.permutation(quality)
        self.items = [f"i{i}" for i in range(ITEMS)]
        self.raters = [f"r{r}" for r in range(RATERS)]
        self.rows: list[Ints] = []

    def ask(self, rater: Ints, first: Ints, second: Ints) -> None:
        """Draw the answers and keep them."""
        gap = self.theta[first] - self.theta[second]
        p = 0.5 + self.quality[rater] * (1 / (1 + np.exp(-gap)) - 0.5)
        won = self.rng.random(rater.size) < p
        self.rows.append(
            np.array([rater, np.where(won, first, second), np.where(won, second, first)])
        )

    def ask_random(self, rounds: int = 1) -> None:
        """Rounds of random pairs."""
        n = rounds * ROUND
        first, second = self.rng.integers(0, ITEMS, n), self.rng.integers(0, ITEMS - 1, n)
        self.ask(np.arange(n) % RATERS, first, second + (second >= first))

    def wins(self) -> NDArray[np.int64]:
        """How often each item won against each other."""
        _, winner, loser = np.hstack(self.rows)
        matrix = np.zeros((ITEMS, ITEMS), dtype=np.int64)
        np.add.at(matrix, (winner, loser), 1)
        return matrix

    def fit(self) -> Fit:
        """The fit of all answers so far."""
        rater, winner, loser = np.hstack(self.rows)
        data = Comparisons.from_arrays(rater, winner, loser, raters=self.raters, items=self.items)
        return fit(data, priors="paper")

    def judged(self, found: Fit) -> tuple[float, float, float]:
        """Kendall's tau, whether the best is first, and whether the best three are."""
        theta = found.laplace.mean
        i, j = np.triu_indices(ITEMS, 1)
        tau = np.mean(np.sign(theta[i] - theta[j]) * np.sign(self.theta[i] - self.theta[j]))
        best, truth = np.argsort(-theta)[:3], np.argsort(-self.theta)[:3]
        return float(tau), float(best[0] == truth[0]), float(set(best) == set(truth))


def chosen(
    world: World, found: Fit, goal: Literal["ranking", "best", "top-k"], *, exclude: bool = False
) -> None:
    """One round of next_pairs."""
    rows = next_pairs(
        found, ROUND, goal=goal, top_k=3 if goal == "top-k" else None, raters=world.raters,
        exclude=None if exclude else (), seed=len(world.rows),
    )  # fmt: skip
    code = {name: at for at, name in enumerate(world.items)}
    rater = np.array([int((row.rater or "r0")[1:]) for row in rows])
    world.ask(
        rater,
        np.array([code[row.left] for row in rows]),
        np.array([code[row.right] for row in rows]),
    )


def loaded(path: str) -> Any:
    """A file of Python as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def entropy_file() -> str | None:
    """Where the selector is; its package as a whole would need ray, which the selector does not."""
    found = importlib.util.find_spec("cj")
    folders = list(found.submodule_search_locations or []) if found else []
    return f"{folders[0]}/pair_selector/entropy.py" if folders else None


class Asap:
    """The authors' code, with two lines of it replaced by faster and newer ones of equal result."""

    def __init__(self, seed: int) -> None:
        import random  # noqa: PLC0415 (its own source of chance)

        import networkx as nx  # noqa: PLC0415
        from scipy.special import ndtr  # noqa: PLC0415

        nx.from_numpy_matrix = nx.from_numpy_array
        module = loaded(os.environ["BBQ_ASAP"])
        # scipy.stats.norm(0, 1).pdf(x) / .cdf(x), which builds an object a call
        module.TrueSkillSolver.psi = lambda _, x: np.exp(-x * x / 2) / np.sqrt(2 * np.pi) / ndtr(x)
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 (what that code draws from)
        self.sampler: Any = module.ASAP(ITEMS, approx=True)

    def __call__(self, world: World, asked: int) -> int:
        """One spanning tree; the raters take turns."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pairs = np.asarray(self.sampler.run_asap(world.wins()), dtype=np.int64)
        rater = (asked + np.arange(len(pairs))) % RATERS
        world.ask(rater, pairs[:, 0], pairs[:, 1])
        return len(pairs)


def entropy_round(world: World, cache: dict[tuple[int, int], float]) -> None:
    """The pairs whose Beta posterior has the highest entropy, ties by chance."""
    file = entropy_file()
    assert file is not None
    selector, wins = loaded(file).EntropyPairSelector(ITEMS), world.wins()
    i, j = np.triu_indices(ITEMS, 1)
    entropy = np.empty(i.size)
    for at, (a, b) in enumerate(zip(i, j, strict=True)):
        won, lost = int(wins[a, b]), int(wins[b, a])
        if (won, lost) not in cache:
            answers = [1] * won + [0] * lost
            cache[won, lost] = float(selector.posterior_conjugate(answers, n_pts=2)[1])
        entropy[at] = cache[won, lost]
    order = np.lexsort((world.rng.random(i.size), -entropy))[:ROUND]
    world.ask(np.arange(ROUND) % RATERS, i[order], j[order])


def study(seed: int, sampler: str, end: int) -> list[tuple[float, ...]]:
    """(comparisons, tau, top-1, top-3) after rounds of one sampler."""
    world = World(seed)
    world.ask_random()
    out, asked, found = [], ROUND, world.fit()
    asap = Asap(seed) if sampler == "asap" else None
    cache: dict[tuple[int, int], float] = {}
    while asked < end:
        if asap is not None:
            before, asked = asked, asked + asap(world, asked)
            if before // ROUND == asked // ROUND:
                continue
        elif sampler == "random":
            until = int(MARKS_RANDOM[asked < MARKS_RANDOM][0])
            world.ask_random((until - asked) // ROUND)
            asked = until
        else:
            if sampler == "entropy":
                entropy_round(world, cache)
            else:
                goal, _, exclude = sampler.partition("+")
                chosen(world, found, goal, exclude=bool(exclude))  # type: ignore[arg-type]
            asked += ROUND
        found = world.fit()
        out.append((float(asked // ROUND * ROUND), *world.judged(found)))
    return out


def isotonic(values: Floats) -> Floats:
    """The nearest sequence that never falls (pool adjacent violators)."""
    level: list[list[float]] = []
    for value in values.tolist():
        level.append([value, 1.0])
        while len(level) > 1 and level[-2][0] >= level[-1][0]:
            (a, m), (b, n) = level.pop(-2), level.pop(-1)
            level.append([(a * m + b * n) / (m + n), m + n])
    return np.repeat([v for v, _ in level], [int(n) for _, n in level])


def needed(asked: Floats, score: Floats, target: float) -> float:
    """Comparisons until the mean score is at the target, between two marks on a line."""
    mean = isotonic(score.mean(axis=0))
    if mean[-1] < target:
        return float("inf")
    at = int(np.argmax(mean >= target))
    if at == 0:
        return float(asked[0])
    share = (target - mean[at - 1]) / (mean[at] - mean[at - 1])
    return float(asked[at - 1] + share * (asked[at] - asked[at - 1]))


def measured(sampler: str, studies: int, *, quick: bool) -> Floats:
    """Studies x marks x (comparisons, tau, top-1, top-3)."""
    end = min(ENDS[sampler], 1500) if quick else ENDS[sampler]
    seeds = range(FIRST_SEED, FIRST_SEED + studies)
    kept = Kept(f"{sampler}-{end}")
    new = [seed for seed in seeds if seed not in kept.runs]
    runs = in_two_processes(partial(study, sampler=sampler, end=end), new)
    for seed, run in zip(new, runs, strict=True):
        kept.add(seed, run)
    print(f"{sampler}: {studies} studies", file=sys.stderr, flush=True)
    return np.array([kept.runs[seed] for seed in seeds])


class Kept:
    """Studies by seed, on disk too where BBQ_KEEP names a folder."""

    def __init__(self, name: str) -> None:
        folder = os.environ.get("BBQ_KEEP")
        self.path = Path(folder) / f"{name}.jsonl" if folder else None
        lines = self.path.read_text().splitlines() if self.path and self.path.exists() else []
        self.runs: dict[int, list[tuple[float, ...]]] = dict(json.loads(line) for line in lines)

    def add(self, seed: int, run: list[tuple[float, ...]]) -> None:
        """Keep one more."""
        self.runs[seed] = run
        if self.path is not None:
            with self.path.open("a") as file:
                print(json.dumps([seed, run]), file=file, flush=True)


def saved(
    base: Floats, other: Floats, column: int, target: float
) -> tuple[float, float, float, float]:
    """Comparisons of both, the share saved, and its standard error by bootstrap over studies."""
    both = min(len(base), len(other))
    base, other = base[:both], other[:both]
    rng = np.random.default_rng(0)

    def counts(which: NDArray[np.int64]) -> tuple[float, float]:
        return (
            needed(base[0, :, 0], base[which, :, column], target),
            needed(other[0, :, 0], other[which, :, column], target),
        )

    one, two = counts(np.arange(both))
    again = [counts(rng.integers(0, both, both)) for _ in range(200)]
    shares = [1 - b / a for a, b in again if np.isfinite(a) and np.isfinite(b)]
    error = float(np.std(shares)) if len(shares) > 100 else float("nan")
    return one, two, 1 - two / one if np.isfinite(one) else float("nan"), error


def timings() -> tuple[float, dict[str, float]]:
    """Seconds of a fit with its posterior at HUMAINE's size, and of 50 next pairs after it."""
    data = simulate(
        items=27, raters=1977, comparisons=105_220, guessers=0.2, quality=(8.0, 2.0), spread=0.6,
        median_votes=30, seed=1,
    ).arrays()  # fmt: skip
    assert data.triples.size

    def fitted() -> Fit:
        found = fit(data, priors="paper")
        assert found.laplace.mean.size
        return found

    found = fitted()
    asks: dict[str, Callable[[], object]] = {
        "ranking": lambda: next_pairs(found, 50),
        "best": lambda: next_pairs(found, 50, goal="best"),
        "top 3": lambda: next_pairs(found, 50, goal="top-k", top_k=3),
    }
    return best_of(fitted, 5), {name: best_of(ask, 5) for name, ask in asks.items()}


def main() -> None:
    """Run all samplers."""
    quick: bool = arguments(__doc__ or "").quick
    n = QUICK_STUDIES if quick else STUDIES
    report = Report("next_pairs", "Comparisons saved by the next pairs", __doc__ or "", quick)
    fit_s, ask_s = timings()
    for name, seconds in ask_s.items():
        shown = f"{1000 * seconds:.0f} ms, {seconds / fit_s:.2f} of the fit's {1000 * fit_s:.0f} ms"
        report.check(f"50 next pairs of 27 items for {name}", shown, "below 1", ok=seconds < fit_s)
    few, fewer = max(n // 5, 2), max(n // 10, 2)
    runs = {s: measured(s, n, quick=quick) for s in ("random", "ranking", "best")}
    runs["top-k"] = measured("top-k", few, quick=quick)
    if "BBQ_ASAP" in os.environ:
        runs["asap"] = measured("asap", few, quick=quick)
    else:
        report.notes.append("ASAP was not run: BBQ_ASAP does not name the authors' file.")
    if entropy_file() is not None:
        runs["entropy"] = measured("entropy", few, quick=quick)
    else:
        report.notes.append("The entropy selector was not run: comparative-judgement is missing.")
    runs["ranking+exclude"] = measured("ranking+exclude", fewer, quick=quick)
    if "BBQ_KEEP" in os.environ:
        report.notes.append("Run in parts (BBQ_KEEP): the time above is that of the last one.")
    judge(report, runs)
    draw(report, runs)
    report.finish()


LABEL = {
    "random": "random pairs",
    "ranking": "next_pairs, goal ranking",
    "best": "next_pairs, goal best",
    "top-k": "next_pairs, goal top-k (3)",
    "asap": "ASAP, approximate",
    "entropy": "entropy selector",
    "ranking+exclude": "next_pairs, goal ranking, guessers found are not asked",
}
QUESTIONS = (("τ of 0.9", 1, TAU), ("best first in 95%", 2, TOP_1), ("best three in 90%", 3, 0.9))


def judge(report: Report, runs: dict[str, Floats]) -> None:
    """The bars, and a table of everything."""
    for sampler, (what, column, target), bar in (
        ("best", QUESTIONS[1], 0.4),
        ("ranking", QUESTIONS[0], 0.25),
    ):
        one, two, share, error = saved(runs["random"], runs[sampler], column, target)
        shown = f"{per_cent(share, 0)} ± {per_cent(error, 0)} ({two:,.0f} instead of {one:,.0f})"
        ok = None if report.quick else bool(share >= bar)
        report.check(f"saved to {what}", shown, f"at least {per_cent(bar, 0)}", ok=ok)
    rows = []
    for sampler, run in runs.items():
        cells = [LABEL[sampler], str(len(run))]
        for _, column, target in QUESTIONS:
            _, two, share, error = saved(runs["random"], run, column, target)
            reached = f"{two:,.0f}" if np.isfinite(two) else f"> {run[0, -1, 0]:,.0f}"
            if sampler != "random" and np.isfinite(share) and share > -10:
                reached += f" ({per_cent(share, 0)} ± {per_cent(error, 0)})"
            cells.append(reached)
        rows.append(cells)
    header = ["sampler", "studies", *(what for what, _, _ in QUESTIONS)]
    caption = "Comparisons needed, and the share saved against random pairs on the same studies"
    report.tables.append(Table(caption, header, rows))
    report.values = {
        sampler: {"asked": run[0, :, 0].tolist(), "mean": run[:, :, 1:].mean(axis=0).tolist()}
        for sampler, run in runs.items()
    }


def draw(report: Report, runs: dict[str, Floats]) -> None:
    """One figure for each bar."""
    for stem, column, name, target in (
        ("next_pairs_tau", 1, "Kendall's τ with the truth", TAU),
        ("next_pairs_best", 2, "studies with the best item first, %", TOP_1),
    ):
        with figure(report, stem) as axes:
            for sampler, run in runs.items():
                scale = 100 if column == 2 else 1
                axes.plot(
                    run[0, :, 0], scale * run[:, :, column].mean(axis=0), label=LABEL[sampler]
                )
            axes.axhline(target * (100 if column == 2 else 1), color="black", linestyle="--")
            axes.set_xscale("log")
            axes.set_xlabel("comparisons")
            axes.set_ylabel(name)
            axes.legend(frameon=False)


if __name__ == "__main__":
    main()
