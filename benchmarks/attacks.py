"""Attacks: honest raters who look bad, and answers that go together where nobody says so.

**Honest raters.** Panels of 40 raters (8 items, θ ~ Normal(0, 0.9), quality ~ Beta(10, 2)), some of
whom differ in a way that is no guessing. Counted are those of them whom the default excludes, and
all other raters who are excluded; nobody here guesses, unless the row says so.

**Intervals.** Panels in which answers go together. Counted is how often the 95% interval of an
item's win share holds the win share among the raters, prompts and sessions that those of the study
were drawn from (by 4,000 raters drawn anew). A row in italics hides from the fit what goes
together: no method could see it, and it shows what that costs.

**Pairs chosen by earlier answers.** 60 items in ten rounds, 20 raters; items with as many wins meet
(a Swiss tournament, adaptive comparative judgement), or any two. Counted is how often the 95%
interval of a difference of two items holds the true one, and which share of all pairs is told
apart.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from common import Report, Table, arguments, in_two_processes, mean_and_error, per_cent
from numpy.typing import NDArray

from bbq_plugin import Comparison, Comparisons, fit, leaderboard, rater_report

Floats = NDArray[np.float64]
Rows = list[tuple[int, int, int]]  # rater, winner, loser
SEED = 90_000
ITEMS, RATERS = 8, 40
NAMES = (("i", ITEMS), ("r", RATERS))
STUDIES, QUICK_STUDIES = 16, 2
OF_RATERS = 40  # studies of honest raters


def asked(rng: np.random.Generator, n: int, items: int = ITEMS) -> NDArray[np.int64]:
    """``n`` pairs of different items."""
    one = rng.integers(0, items, n)
    return np.stack((one, (one + rng.integers(1, items, n)) % items), axis=1)


def answers(
    rng: np.random.Generator, rater: int, theta: Floats, quality: float, pairs: NDArray[np.int64]
) -> Rows:
    """Those of one rater with this ranking."""
    gap = theta[pairs[:, 0]] - theta[pairs[:, 1]]
    won = rng.random(len(pairs)) < 0.5 + quality * 0.5 * np.tanh(0.5 * gap)
    return [
        (rater, a, b) if w else (rater, b, a) for (a, b), w in zip(pairs.tolist(), won, strict=True)
    ]


def data_of(rows: Rows) -> Comparisons:
    """Plain answers, without times and tags."""
    rater, winner, loser = np.array(rows).T
    items, raters = ([f"{word}{n}" for n in range(most)] for word, most in NAMES)
    return Comparisons.from_arrays(rater, winner, loser, items=items, raters=raters)


# -- honest raters


def own_taste(rng: np.random.Generator, n: int, who: int) -> tuple[Rows, int]:
    """So many raters, each with a ranking of their own."""
    theta, rows = rng.normal(0, 0.9, ITEMS), []
    for r in range(RATERS):
        mine = rng.normal(0, 0.9, ITEMS) if r < who else theta
        rows += answers(rng, r, mine, rng.beta(10, 2), asked(rng, n))
    return rows, who


def shared_taste(rng: np.random.Generator, n: int, who: int, guessers: int = 0) -> tuple[Rows, int]:
    """So many raters with one ranking that is not that of the others; the last ones guess."""
    theta, other, rows = *rng.normal(0, 0.9, (2, ITEMS)), []
    for r in range(RATERS):
        quality = 0.0 if r >= RATERS - guessers else rng.beta(10, 2)
        rows += answers(rng, r, other if r < who else theta, quality, asked(rng, n))
    return rows, who


def language(
    rng: np.random.Generator, n: int, who: int, *, of_items: bool = False
) -> tuple[Rows, int]:
    """A group that guesses in the half of the tasks that are in a language they do not read.

    Or wherever one of half of the items is shown: in 79% of the tasks.
    """
    theta, rows = rng.normal(0, 0.9, ITEMS), []
    for r in range(RATERS):
        pairs, quality = asked(rng, n), rng.beta(10, 2)
        foreign = (pairs < ITEMS // 2).any(axis=1) if of_items else rng.random(n) < 0.5
        foreign &= r < who
        rows += answers(rng, r, theta, quality, pairs[~foreign])
        rows += answers(rng, r, theta, 0.0, pairs[foreign])
    return rows, who


def close_pairs(rng: np.random.Generator, n: int, who: int) -> tuple[Rows, int]:
    """Some see only neighbours in the ranking, the hardest pairs there are."""
    theta, rows = np.sort(rng.normal(0, 0.9, ITEMS)), []
    for r in range(RATERS):
        pairs = asked(rng, n)
        if r < who:
            first = rng.integers(0, ITEMS - 1, n)
            pairs = np.stack((first, first + 1), axis=1)
        rows += answers(rng, r, theta, rng.beta(10, 2), pairs)
    return rows, who


def few_answers(rng: np.random.Generator, n: int, who: int) -> tuple[Rows, int]:
    """Some have few answers, the others 100."""
    theta, rows = rng.normal(0, 0.9, ITEMS), []
    for r in range(RATERS):
        rows += answers(rng, r, theta, rng.beta(10, 2), asked(rng, n if r < who else 100))
    return rows, who


def skewed(rng: np.random.Generator, n: int, who: int) -> tuple[Rows, int]:
    """Numbers of answers that differ a hundredfold; everyone is honest."""
    theta, rows = rng.normal(0, 0.9, ITEMS), []
    votes = np.maximum(1, rng.lognormal(np.log(n), 1.5, RATERS)).astype(np.int64)
    for r in range(RATERS):
        rows += answers(rng, r, theta, rng.beta(10, 2), asked(rng, int(votes[r])))
    return rows, who


def mediocre(rng: np.random.Generator, n: int, who: int) -> tuple[Rows, int]:
    """Some are honest and weak, with qualities from 0.3 to 0.6, among good raters."""
    theta, rows = rng.normal(0, 0.9, ITEMS), []
    for r in range(RATERS):
        quality = rng.uniform(0.3, 0.6) if r < who else rng.beta(18, 2)
        rows += answers(rng, r, theta, quality, asked(rng, n))
    return rows, who


def experts(rng: np.random.Generator, n: int, who: int) -> tuple[Rows, int]:
    """Some judge substance, the others length: two rankings with a correlation of 0.5."""
    theta = rng.normal(0, 0.9, ITEMS)
    other, rows = 0.5 * theta + np.sqrt(0.75) * rng.normal(0, 0.9, ITEMS), []
    for r in range(RATERS):
        rows += answers(rng, r, other if r < who else theta, rng.beta(10, 2), asked(rng, n))
    return rows, who


def continuum(rng: np.random.Generator, n: int, who: int) -> tuple[Rows, int]:
    """Everyone has a taste of their own, as far apart as the items."""
    theta, rows = rng.normal(0, 0.9, ITEMS), []
    for r in range(RATERS):
        rows += answers(rng, r, theta + rng.normal(0, 0.9, ITEMS), rng.beta(10, 2), asked(rng, n))
    return rows, who


def copies(rng: np.random.Generator, n: int, who: int) -> tuple[Rows, int]:
    """Everyone's answers are stored three times, without time or identifier."""
    theta, rows = rng.normal(0, 0.9, ITEMS), []
    for r in range(RATERS):
        rows += 3 * answers(rng, r, theta, rng.beta(10, 2), asked(rng, n))
    return rows, who


def own_scene(rng: np.random.Generator, n: int, who: int) -> tuple[Rows, int]:
    """Each rater sees one of ten scenes, and items are better or worse in it (sd 0.7 nats)."""
    theta, rows = rng.normal(0, 0.9, ITEMS), []
    scene = theta + rng.normal(0, 0.7, (10, ITEMS))
    for r in range(RATERS):
        rows += answers(rng, r, scene[r % 10], rng.beta(10, 2), asked(rng, n))
    return rows, who


def beside_a_rule(rng: np.random.Generator, n: int, who: int) -> tuple[Rows, int]:
    """The last rater has a fifth of all answers, and always chooses by an order of their own."""
    theta, rows = rng.normal(0, 0.9, ITEMS), []
    for r in range(who):
        rows += answers(rng, r, theta, rng.beta(10, 2), asked(rng, n))
    return rows + ruled(rng, who, n * who // 4), who


def ruled(rng: np.random.Generator, rater: int, n: int) -> Rows:
    """The answers of a rater who always chooses by some order of the items."""
    order = np.asarray(99.0 * rng.permutation(ITEMS), np.float64)
    return answers(rng, rater, order, 1.0, asked(rng, n))


Attack = tuple[str, Callable[..., tuple[Rows, int]], int, int, dict[str, Any]]
HONEST: list[Attack] = [
    ("one rater with a ranking of their own, 30 answers each", own_taste, 30, 1, {}),
    ("one rater with a ranking of their own, 100 answers each", own_taste, 100, 1, {}),
    ("five raters, each with a ranking of their own, 100 answers", own_taste, 100, 5, {}),
    ("two raters who share another ranking, 100 answers", shared_taste, 100, 2, {}),
    ("four raters who share another ranking, 30 answers", shared_taste, 30, 4, {}),
    ("four raters who share another ranking, 100 answers", shared_taste, 100, 4, {}),
    ("the same beside 8 guessers", shared_taste, 100, 4, {"guessers": 8}),
    ("six experts against the crowd (correlation 0.5), 100 answers", experts, 100, 6, {}),
    ("six raters who cannot read half of the tasks, 50 answers", language, 50, 6, {}),
    ("the same, 100 answers", language, 100, 6, {}),
    ("six raters who see only neighbours, 100 answers", close_pairs, 100, 6, {}),
    ("ten raters with 12 answers, the others 100", few_answers, 12, 10, {}),
    ("all: numbers of answers from 1 to 1,000, median 40", skewed, 40, RATERS, {}),
    ("six weak but honest raters (quality 0.3–0.6), 100 answers", mediocre, 100, 6, {}),
    ("the same, 400 answers", mediocre, 400, 6, {}),
    ("all: tastes as far apart as the items, 100 answers", continuum, 100, RATERS, {}),
    ("all: one scene each (sd 0.7), 60 answers", own_scene, 60, RATERS, {}),
    ("all: each answer stored three times without a time, 40 answers", copies, 40, RATERS, {}),
    ("six who cannot read half of the items, 100 answers", language, 100, 6, {"of_items": True}),
    ("one rater with a ranking of their own, 200 answers each", own_taste, 200, 1, {}),
    (
        "all, beside one with a fifth of the answers who always chooses by another order",
        beside_a_rule,
        100,
        RATERS - 1,
        {},
    ),
]


def honest(task: tuple[int, int]) -> tuple[int, int, int, int, int]:
    """Excluded of those attacked and how many these are, watched, excluded of others, camps."""
    place, seed = task
    _, make, n, who, more = HONEST[place]
    rows, attacked = make(np.random.default_rng([SEED, place, seed]), n, who, **more)
    found = fit(data_of(rows))
    verdicts = np.array([row.verdict for row in rater_report(found)])
    guessers = more.get("guessers", 0)
    others = verdicts[attacked : RATERS - guessers]
    return (
        int(np.sum(verdicts[:attacked] == "exclude")), attacked,
        int(np.sum(verdicts[:attacked] == "watch")), int(np.sum(others == "exclude")),
        len(found.camps),
    )  # fmt: skip


# -- intervals


class Panel:
    """A population of raters and prompts, and a study of it."""

    def __init__(
        self, rng: np.random.Generator, *, raters: int = 30, votes: int = 60, taste: float = 0.0,
        prompts: int = 0, suits: float = 0.0, mood: float = 0.0, first: float = 0.0,
    ) -> None:  # fmt: skip
        self.rng, self.raters, self.taste, self.suits, self.mood = rng, raters, taste, suits, mood
        self.theta = rng.normal(0, 0.8, ITEMS)
        self.scenes = rng.normal(0, suits, (max(prompts, 1), ITEMS))
        self.votes = np.full(raters, votes)
        if first:
            # The first rater has this share of all votes.
            self.votes[0] = round(first / (1 - first) * votes * (raters - 1))

    def quality(self) -> float:
        """That of one rater."""
        return float(self.rng.beta(10, 2))

    def truth(self) -> Floats:
        """The win shares in the population."""
        n, rng = 4000, self.rng
        sd = np.sqrt(self.taste**2 + self.suits**2 + self.mood**2)
        own = self.theta + sd * rng.normal(size=(n, ITEMS))
        q = rng.beta(10, 2, n)[:, None, None]
        gap = 0.5 * np.tanh(0.5 * (own[:, :, None] - own[:, None, :]))
        return np.asarray(0.5 + (q * gap).mean(axis=0).sum(axis=1) / (ITEMS - 1))

    def study(self, *, tagged: bool) -> Comparisons:
        """One, with a tag that names the prompt, or without."""
        rng, rows, size = self.rng, [], 10
        for r in range(self.raters):
            mine, q = self.theta + rng.normal(0, self.taste, ITEMS), self.quality()
            mood = np.zeros(ITEMS)
            for n in range(int(self.votes[r])):
                if n % size == 0:
                    mood = rng.normal(0, self.mood, ITEMS)
                p = int(rng.integers(0, len(self.scenes)))
                own = mine + mood + self.scenes[p]
                a, b = rng.choice(ITEMS, 2, replace=False).tolist()
                left = rng.random() < 0.5 + q * 0.5 * np.tanh(0.5 * (own[a] - own[b]))
                tags = {"prompt": f"p{p:02}"} if tagged else None
                says: Any = "left" if left else "right"
                rows.append(Comparison(f"{r}-{n}", f"r{r}", f"i{a}", f"i{b}", says, tags=tags))
        return Comparisons.from_comparisons(rows)


def rankings(rng: np.random.Generator, *, timed: bool) -> tuple[Comparisons, Floats]:
    """Full rankings of five of eight items, each written as ten plain pairs."""
    panel, rows = Panel(rng, taste=0.3), []
    for r in range(30):
        mine, q = panel.theta + rng.normal(0, panel.taste, ITEMS), panel.quality()
        for n in range(12):
            items = rng.choice(ITEMS, 5, replace=False)
            # Plackett and Luce's order, or, not attended to, any.
            told = mine[items] if rng.random() < q else np.zeros(5)
            order = items[np.argsort(-(told + rng.gumbel(size=5)))]
            rows += [
                Comparison(
                    f"{r}-{n}-{i}{j}", f"r{r}", f"i{order[i]}", f"i{order[j]}", "left",
                    at=1000.0 * r + n if timed else None,
                )
                for i, j in combinations(range(5), 2)
            ]  # fmt: skip
    return Comparisons.from_comparisons(rows), panel.truth()


def stored_again(rng: np.random.Generator) -> tuple[Comparisons, Floats]:
    """Each answer stored three times, without a time."""
    panel = Panel(rng)
    plain = panel.study(tagged=False)
    columns = (np.tile(column, 3) for column in (plain.rater, plain.winner, plain.loser))
    return Comparisons.from_arrays(*columns, items=plain.items, raters=plain.raters), panel.truth()


def beside_one_rule(rng: np.random.Generator) -> tuple[Comparisons, Floats]:
    """One rater has a fifth of the answers, and always chooses by an order of their own."""
    panel = Panel(rng)
    plain = panel.study(tagged=False)
    rater, won, lost = np.array(ruled(rng, panel.raters, 450)).T
    columns = (plain.rater, rater), (plain.winner, won), (plain.loser, lost)
    data = Comparisons.from_arrays(
        *(np.concatenate(column) for column in columns),
        items=plain.items, raters=(*plain.raters, f"r{panel.raters}"),
    )  # fmt: skip
    return data, panel.truth()


INTERVALS: list[tuple[str, dict[str, Any] | Callable[..., Any], dict[str, Any]]] = [
    ("nothing goes together, 30 raters, 60 answers each", {}, {"tagged": False}),
    ("tastes (sd 0.5)", {"taste": 0.5}, {"tagged": False}),
    ("tastes, 12 raters", {"taste": 0.5, "raters": 12}, {"tagged": False}),
    ("tastes, 6 raters", {"taste": 0.5, "raters": 6}, {"tagged": False}),
    ("tastes, 4 raters", {"taste": 0.5, "raters": 4}, {"tagged": False}),
    ("tastes, 3 raters", {"taste": 0.5, "raters": 3}, {"tagged": False}),
    ("tastes, one rater has half of the votes", {"taste": 0.5, "first": 0.5}, {"tagged": False}),
    ("moods: sessions of ten answers (sd 0.5)", {"mood": 0.5}, {"tagged": False}),
    ("20 prompts that suit some items (sd 0.5), with a tag",
     {"prompts": 20, "suits": 0.5}, {"tagged": True}),
    ("_the same, without a tag_", {"prompts": 20, "suits": 0.5}, {"tagged": False}),
    ("tastes and prompts, with a tag",
     {"prompts": 20, "suits": 0.5, "taste": 0.5}, {"tagged": True}),
    ("rankings of five written as pairs, with a time", rankings, {"timed": True}),
    ("_the same, without a time_", rankings, {"timed": False}),
    ("_each answer stored three times, without a time_", stored_again, {}),
    ("one rater with a fifth of the votes always chooses by another order", beside_one_rule, {}),
]  # fmt: skip


def interval(task: tuple[int, int]) -> tuple[float, float]:
    """The share of items whose interval holds the truth, and the mean width."""
    place, seed = task
    _, made, how = INTERVALS[place]
    rng = np.random.default_rng([SEED + 1, place, seed])
    if callable(made):
        data, truth = made(rng, **how)
    else:
        panel = Panel(rng, **made)
        data, truth = panel.study(**how), panel.truth()
    inside, width = [], []
    for row in leaderboard(fit(data), draws=10):
        true = truth[int(row.item[1:])]
        inside.append(row.win_share_lower <= true <= row.win_share_upper)
        width.append(row.win_share_upper - row.win_share_lower)
    return float(np.mean(inside)), float(np.mean(width))


def tournament(task: tuple[bool, float, int]) -> tuple[float, float, float]:
    """Coverage of differences, the share of pairs told apart, and of these told wrongly."""
    adaptive, spread, seed = task
    rng = np.random.default_rng([SEED + 2, seed])
    n, rows = 60, []
    theta, wins, quality = rng.normal(0, spread, n), np.zeros(n), rng.beta(10, 2, 20)
    for _ in range(10):
        order = rng.permutation(n)
        if adaptive:
            order = order[np.argsort(wins[order], kind="stable")]
        for pair in order.reshape(-1, 1, 2):
            r = int(rng.integers(20))
            rows += answers(rng, r, theta, float(quality[r]), pair)
            wins[rows[-1][1]] += 1
    rater, winner, loser = np.array(rows).T
    found = fit(Comparisons.from_arrays(rater, winner, loser, items=[str(i) for i in range(n)]))
    c, (i, j) = found.covariance(), np.triu_indices(n, 1)
    sd = 1.96 * np.sqrt(c[i, i] + c[j, j] - 2 * c[i, j])
    gap, true = found.theta[i] - found.theta[j], theta[i] - theta[j]
    apart = np.abs(gap) > sd
    wrong = apart & (gap * true <= 0)
    return float(np.mean(np.abs(gap - true) <= sd)), float(apart.mean()), float(wrong.mean())


def main() -> None:
    """Run all attacks."""
    quick: bool = arguments(__doc__ or "").quick
    report = Report("attacks", "Attacks on verdicts and intervals", __doc__ or "", quick)
    n = QUICK_STUDIES if quick else OF_RATERS
    rows = []
    tasks = [(place, seed) for place in range(len(HONEST)) for seed in range(n)]
    found = np.array(list(in_two_processes(honest, tasks))).reshape(len(HONEST), n, 5)
    for (name, *_), counts in zip(HONEST, found, strict=True):
        out, there, watched, others, _ = counts.sum(axis=0).tolist()
        divided = int(np.sum(counts[:, 4] > 1))
        rows.append(
            [
                name,
                per_cent(out / there, 1),
                per_cent(watched / there, 1),
                str(others),
                f"{divided} of {n}",
            ]
        )
        report.values[name] = [out, there, watched, others, divided]
    header = ["panel", "of them excluded", "watched", "others excluded", "divided into camps"]
    report.tables.append(Table(f"Honest raters who look bad, {n} studies each", header, rows))
    rows, n = [], 3 * (QUICK_STUDIES if quick else STUDIES)
    tasks = [(place, seed) for place in range(len(INTERVALS)) for seed in range(n)]
    held = np.array(list(in_two_processes(interval, tasks))).reshape(len(INTERVALS), n, 2)
    for (name, *_), values in zip(INTERVALS, held, strict=True):
        mean, error = mean_and_error(values[:, 0].tolist())
        rows.append(
            [name, f"{per_cent(mean, 1)} ± {per_cent(error, 1)}", f"{values[:, 1].mean():.3f}"]
        )
        report.values[name] = [mean, error, float(values[:, 1].mean())]
    header = ["panel", "coverage ± s.e.", "mean width"]
    report.tables.append(Table(f"95% intervals of win shares, {n} studies each", header, rows))
    rows, n = [], n // 6
    kinds = [(adaptive, spread) for adaptive in (True, False) for spread in (0.0, 0.5, 1.0, 2.0)]
    told = list(in_two_processes(tournament, [(*kind, s) for kind in kinds for s in range(n)]))
    of_kinds = np.array(told).reshape(len(kinds), n, 3).mean(axis=1)
    for (adaptive, spread), values in zip(kinds, of_kinds.tolist(), strict=True):
        name = f"{'equals meet' if adaptive else 'any two meet'}, items {spread:g} nats apart (sd)"
        rows.append([name, *(per_cent(value, 1) for value in values)])
        report.values[name] = values
    header = ["study", "coverage of differences", "pairs told apart", "wrongly"]
    report.tables.append(Table(f"Pairs chosen by earlier answers, {n} studies each", header, rows))
    report.finish()


if __name__ == "__main__":
    main()
