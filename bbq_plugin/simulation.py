"""Studies with a known truth: drawn from the model, and written as the files people have."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf, log, sqrt
from typing import TYPE_CHECKING, Any, Literal, TextIO, get_args

import msgspec
import numpy as np

from bbq_plugin.data.dataset import Answers, Comparisons, left_rate
from bbq_plugin.data.rankings import break_choice, break_ranking, information_weight
from bbq_plugin.data.records import Comparison, Outcome
from bbq_plugin.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

RaterKind = Literal["honest", "guesser", "inverted"]
AnswerKind = Literal["best", "rank"]

# Answers are drawn in pieces of this many, so that the memory beyond the result stays small.
_PIECE = 1 << 18


@dataclass(frozen=True, eq=False)
class Truth:
    """What the study was drawn from: `theta` in nats by item, `quality` and `kind` by rater.

    P(i above j) = 1/2 + quality · (y_ij − 1/2): a guesser has quality 0, and one
    who inverts answers has a quality below 0. Raters of the second camp, the minority, follow
    `minority_theta`.
    """

    items: tuple[str, ...]
    theta: NDArray[np.float64]
    raters: tuple[str, ...]
    quality: NDArray[np.float64]
    kind: tuple[RaterKind, ...]
    #: 1 or 2 for each rater.
    camp: NDArray[np.int8]
    minority_theta: NDArray[np.float64] | None = None


@dataclass(frozen=True, eq=False)
class Study:
    """The answers of a simulated study as codes, and its truth.

    A row of `shown` holds the items of one answer from left to right, the same
    row of `order` their places (0 is leftmost) from best to worst. With `answer`
    "best" only the first of them was said. `tie` marks the ties between two.
    """

    truth: Truth
    rater: NDArray[np.int32]
    shown: NDArray[np.int32]
    order: NDArray[np.int8]
    tie: NDArray[np.bool_]
    answer: AnswerKind

    def __len__(self) -> int:
        return int(self.rater.size)

    @property
    def slate(self) -> int:
        """How many items a rater saw at once."""
        return int(self.shown.shape[1])

    def arrays(self) -> Comparisons:
        """Give the study to the model, without a name or an object per row."""
        ranked = np.take_along_axis(self.shown, self.order, axis=1)
        if self.slate == 2:
            return self._pair_arrays(ranked[:, 0], ranked[:, 1])
        pairs = _pairs(self.slate, self.answer)
        sizes = [1, self.slate - 1] if self.answer == "best" else [1] * self.slate
        data = Comparisons.from_arrays(
            np.tile(self.rater, len(pairs)),
            np.concatenate([ranked[:, a] for a, _ in pairs]),
            np.concatenate([ranked[:, b] for _, b in pairs]),
            np.full(len(pairs) * len(self), information_weight(sizes)),
            raters=self.truth.raters,
            items=self.truth.items,
        )
        number = np.tile(np.arange(len(self), dtype=np.int64), len(pairs))
        answers = Answers(
            side=None, time_s=None, order=number.astype(np.int32), dated=False, gold=None,
            kept=None, half=None, slate=number + 1,
        )  # fmt: skip
        return replace(data, answers=answers)

    def _pair_arrays(self, winner: NDArray[np.int32], loser: NDArray[np.int32]) -> Comparisons:
        tie, decided = self.tie, ~self.tie
        data = Comparisons.from_arrays(
            np.concatenate([self.rater, self.rater[tie]]),
            np.concatenate([winner, loser[tie]]),
            np.concatenate([loser, winner[tie]]),
            np.concatenate([np.where(tie, 0.5, 1.0), np.full(int(tie.sum()), 0.5)]),
            raters=self.truth.raters,
            items=self.truth.items,
        )
        went_left = self.order[decided, 0] == 0
        n_left, n_right = (
            np.bincount(self.shown[:, place], minlength=len(self.truth.items)) for place in (0, 1)
        )
        return replace(
            data,
            n_comparisons=len(self),
            n_ties=int(tie.sum()),
            n_sided=int(decided.sum()),
            n_left=int(went_left.sum()),
            left_excess=n_left - n_right,
            left_rate=left_rate(self.rater[decided], went_left, len(self.truth.raters)),
            winner_first=np.concatenate([self.order[:, 0] == 0, self.order[tie, 0] != 0]),
            answers=self._answers(),
        )

    def _answers(self) -> Answers:
        """Sides of the wins as `_pair_arrays` lays them out: second halves of ties at the end."""
        side = np.where(self.order[:, 0] == 0, 1, -1).astype(np.int8)
        side[self.tie] = 0
        again = np.flatnonzero(self.tie)
        row = np.concatenate([np.arange(len(self)), again]).astype(np.int32)
        half = np.concatenate([self.tie.astype(np.int8), np.full(again.size, 2, dtype=np.int8)])
        ties = bool(again.size)
        return Answers(
            side=side[row], time_s=None, order=row if ties else None, dated=False, gold=None,
            kept=None, half=half if ties else None,
        )  # fmt: skip

    def comparisons(self) -> Iterator[Comparison]:
        """Yield the study as records, as an adapter would."""
        items = self.truth.items
        for i, (rater, shown, order, tie) in enumerate(self.answers()):
            if len(shown) == 2:
                outcome: Outcome = "tie" if tie else "left" if order[0] == 0 else "right"
                yield Comparison(f"c{i}", rater, items[shown[0]], items[shown[1]], outcome)
                continue
            names = [items[shown[place]] for place in order]
            wins = break_choice(names[0], names) if self.answer == "best" else break_ranking(names)
            for j, (winner, loser, weight) in enumerate(wins):
                yield Comparison(f"c{i}-{j}", rater, winner, loser, "left", weight, slate=f"c{i}")

    def answers(self) -> Iterator[tuple[str, list[int], list[int], bool]]:
        """Yield (rater, shown, order, tie) of each answer."""
        columns = (self.rater, self.shown, self.order, self.tie)
        for begin in range(0, len(self), _PIECE):
            piece = (column[begin : begin + _PIECE].tolist() for column in columns)
            for rater, shown, order, tie in zip(*piece, strict=True):
                yield self.truth.raters[rater], shown, order, tie


def simulate(
    *,
    items: int = 8,
    raters: int = 40,
    comparisons: int = 1520,
    guessers: float = 0.0,
    inverted: float = 0.0,
    minority: float = 0.0,
    left_bias: float = 0.0,
    ties: float = 0.0,
    slate: int = 2,
    answer: AnswerKind = "best",
    quality: tuple[float, float] = (10.0, 2.0),
    shape: float = 5.0,
    spread: float | None = None,
    median_votes: float | None = None,
    seed: int | np.random.Generator = 0,
) -> Study:
    """Draw a study of `comparisons` answers with a known truth.

    Skills are Gamma(`shape`, 0.1) as in the paper, or normal in θ with standard
    deviation `spread`. `guessers`, `inverted` and `minority` are shares of the raters;
    the quality of all but the guessers is Beta(*`quality`). The minority is honest
    and follows a ranking of its own: the same skills, dealt out to the items anew.
    Raters answer equally often, or, with `median_votes`, log-normally with that median and the mean
    that `comparisons` and `raters` imply (at least once each).
    """
    _check_shares(
        guessers=guessers, inverted=inverted, minority=minority, left_bias=left_bias, ties=ties
    )
    _check_design(items, raters, comparisons, slate, answer, ties)
    first, second = quality
    _check_positive(shape=shape, **{"quality[0]": first, "quality[1]": second})
    if spread is not None and not 0 <= spread < inf:
        raise UsageError(f"spread is {spread}; expected a finite number, 0 or more")
    if not isinstance(seed, np.random.Generator) and seed < 0:
        raise UsageError(f"seed is {seed}; expected 0 or more")
    if guessers + inverted + minority > 1 + 1e-9:
        added = f"guessers {guessers}, inverted {inverted} and minority {minority}"
        raise UsageError(f"{added} add up to more than 1")
    rng = np.random.default_rng(seed)
    truth = _draw_truth(rng, items, raters, guessers, inverted, quality, shape, spread)
    if minority:
        truth = _with_minority(rng, truth, round(minority * raters))
    votes = _votes(rng, raters, comparisons, median_votes)
    rater = np.repeat(np.arange(raters, dtype=np.int32), votes)
    shown = np.empty((comparisons, slate), dtype=np.int32)
    order = np.empty((comparisons, slate), dtype=np.int8)
    tie = np.zeros(comparisons, dtype=np.bool_)
    for begin in range(0, comparisons, _PIECE):
        part = slice(begin, min(begin + _PIECE, comparisons))
        shown[part], order[part], tie[part] = _draw_answers(
            rng, truth, rater[part], slate, left_bias, ties
        )
    return Study(truth, rater, shown, order, tie, answer)


def _draw_truth(
    rng: np.random.Generator,
    items: int,
    raters: int,
    guessers: float,
    inverted: float,
    quality: tuple[float, float],
    shape: float,
    spread: float | None,
) -> Truth:
    # 10 = 1/b of the paper's prior; the scale of the skills is invisible in the answers.
    theta = (
        np.log(rng.gamma(shape, 10.0, items)) if spread is None else rng.normal(0, spread, items)
    )
    n_guessers, n_inverted = round(guessers * raters), round(inverted * raters)
    sign: NDArray[np.float64] = np.ones(raters)
    sign[:n_guessers] = 0
    sign[n_guessers : n_guessers + n_inverted] = -1
    sign = rng.permutation(sign)
    kinds: dict[float, RaterKind] = {1.0: "honest", 0.0: "guesser", -1.0: "inverted"}
    return Truth(
        items=_numbered("item", items),
        theta=theta,
        raters=_numbered("rater", raters),
        quality=sign * rng.beta(*quality, raters),
        kind=tuple(kinds[s] for s in sign.tolist()),
        camp=np.ones(raters, dtype=np.int8),
    )


def _with_minority(rng: np.random.Generator, truth: Truth, n: int) -> Truth:
    """The same with ``n`` of the honest raters in a camp of their own."""
    honest = np.flatnonzero([kind == "honest" for kind in truth.kind])
    camp = truth.camp.copy()
    camp[rng.permutation(honest)[:n]] = 2
    return replace(truth, camp=camp, minority_theta=rng.permutation(truth.theta))


def _draw_answers(
    rng: np.random.Generator,
    truth: Truth,
    rater: NDArray[np.int32],
    slate: int,
    left_bias: float,
    ties: float,
) -> tuple[NDArray[np.int32], NDArray[np.int8], NDArray[np.bool_]]:
    n = rater.size
    shown = _draw_slates(rng, n, len(truth.items), slate)
    quality = truth.quality[rater]
    by_skill = rng.random(n) < np.abs(quality)
    theta = truth.theta[shown]
    if truth.minority_theta is not None:
        theta = np.where(truth.camp[rater, None] == 2, truth.minority_theta[shown], theta)
    # Skills plus Gumbel noise, sorted, are a Plackett-Luce order; without skills, a random one.
    utility = np.where(by_skill[:, None], theta, 0.0) + rng.gumbel(size=(n, slate))
    order = np.argsort(-utility, axis=1).astype(np.int8)
    inverted = by_skill & (quality < 0)
    order[inverted] = order[inverted, ::-1]
    if left_bias:
        leftmost = ~by_skill & (rng.random(n) < left_bias)
        order[leftmost] = np.arange(slate, dtype=np.int8)
    tie: NDArray[np.bool_] = np.zeros(n, dtype=np.bool_)
    if ties:
        gap = np.where(by_skill, theta[:, 0] - theta[:, 1], 0.0) * np.where(quality < 0, -1.0, 1.0)
        # exp(−gap) if the expected answer was given, which is y / (1 − y); 1 if the other was.
        expected = (order[:, 0] == 0) == (gap > 0)
        tie = rng.random(n) < ties * np.where(expected, np.exp(-np.abs(gap)), 1.0)
    return shown, order, tie


def _draw_slates(rng: np.random.Generator, n: int, items: int, slate: int) -> NDArray[np.int32]:
    """`slate` distinct items a row, every ordered choice equally likely."""
    shown = np.empty((n, slate), dtype=np.int32)
    for place in range(slate):
        # A number among the items left, counted on past those that are taken.
        pick = rng.integers(0, items - place, n, dtype=np.int32)
        for taken in np.sort(shown[:, :place], axis=1).T:
            pick += pick >= taken
        shown[:, place] = pick
    return shown


def _votes(
    rng: np.random.Generator, raters: int, total: int, median: float | None
) -> NDArray[np.int64]:
    mean = total / raters
    if median is None:
        equal = np.full(raters, total // raters, dtype=np.int64)
        equal[: total % raters] += 1
        return equal
    if not 1 <= median <= mean:
        raise UsageError(
            f"median_votes is {median} but the mean is {mean:.1f} votes a rater; "
            "a skewed distribution has a median between 1 and the mean"
        )
    # A log-normal with median m and mean μ has σ² = 2 ln(μ / m).
    share = rng.lognormal(0.0, sqrt(2 * log(mean / median)), raters)
    extra: NDArray[np.float64] = share / share.sum() * (total - raters)
    votes = 1 + np.floor(extra).astype(np.int64)
    left_over = total - int(votes.sum())
    votes[np.argsort(np.floor(extra) - extra, kind="stable")[:left_over]] += 1
    return votes


def _pairs(slate: int, answer: AnswerKind) -> list[tuple[int, int]]:
    """The ranks that one answer compares: the best with all, or all with all."""
    return [(a, b) for a, b in combinations(range(slate), 2) if answer == "rank" or a == 0]


def _numbered(stem: str, n: int) -> tuple[str, ...]:
    width = len(str(n))
    return tuple(f"{stem}-{i:0{width}}" for i in range(1, n + 1))


def _check_shares(**shares: float) -> None:
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise UsageError(f"{name} is {share}; expected a share from 0 to 1")


def _check_positive(**numbers: float) -> None:
    for name, number in numbers.items():
        if not 0 < number < inf:
            raise UsageError(f"{name} is {number}; expected a finite number above 0")


def _check_design(
    items: int, raters: int, comparisons: int, slate: int, answer: str, ties: float
) -> None:
    if items < 2:
        raise UsageError(f"items is {items}; expected 2 or more")
    if not 2 <= slate <= min(items, 100):
        raise UsageError(f"slate is {slate}; expected from 2 up to the {items} items (at most 100)")
    if raters < 1 or comparisons < raters:
        raise UsageError(
            f"{comparisons} comparisons by {raters} raters; every rater answers at least once"
        )
    if answer not in get_args(AnswerKind):
        raise UsageError(f"answer is {answer!r}; expected 'best' or 'rank'")
    if ties and slate > 2:
        raise UsageError(f"ties are defined between two items, but the slate is {slate}")


StudyFormat = Literal["arena", "afc", "comparisons"]
SUFFIX: dict[StudyFormat, str] = {"arena": ".jsonl", "afc": ".csv", "comparisons": ".csv"}


def write_study(study: Study, file: TextIO, file_format: StudyFormat) -> None:
    """Write the answers in one of the formats above."""
    if file_format not in SUFFIX:
        raise UsageError(f"the file format is {file_format!r}; expected one of {', '.join(SUFFIX)}")
    if file_format == "arena":
        _write_arena(study, file)
        return
    rows = _comparison_rows(study)
    if file_format == "afc":
        rows = _afc_pairs(study) if study.slate == 2 else _afc_slates(study)
    csv.writer(file, lineterminator="\n").writerows(rows)


def write_truth(truth: Truth, file: TextIO) -> None:
    """Write θ per item (of either camp), and quality, kind and camp per rater, as JSON."""
    columns = {"item": truth.items, "theta": truth.theta.tolist()}
    if truth.minority_theta is not None:
        columns["minority_theta"] = truth.minority_theta.tolist()
    raters = {
        "rater": truth.raters, "quality": truth.quality.tolist(), "kind": truth.kind,
        "camp": truth.camp.tolist(),
    }  # fmt: skip
    document = {
        "schema": "bbq.truth/1",
        "items": [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ],
        "raters": [
            dict(zip(raters, row, strict=True)) for row in zip(*raters.values(), strict=True)
        ],
    }
    file.write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")


def _write_arena(study: Study, file: TextIO) -> None:
    if study.slate > 2:
        raise UsageError(
            f"Arena votes have two items, this study has slates of {study.slate}; "
            "write it as afc or comparisons"
        )
    words = {"left": "model_a", "right": "model_b", "tie": "tie"}
    for c in study.comparisons():
        vote = {
            "id": c.key, "judge": c.rater, "model_a": c.left, "model_b": c.right,
            "winner": words[c.outcome],
        }  # fmt: skip
        file.write(msgspec.json.encode(vote).decode() + "\n")


def _afc_pairs(study: Study) -> Iterator[list[Any]]:
    if study.tie.any():
        raise UsageError(
            "a forced-choice log has no ties, this study has; "
            "simulate without ties, or write it as arena or comparisons"
        )
    yield ["observer", "session_id", "scene", "condition_A", "condition_B", "is_A_selected"]
    items = study.truth.items
    for i, (rater, (left, right), order, _) in enumerate(study.answers()):
        yield [rater, 1, f"scene-{i}", items[left], items[right], int(order[0] == 0)]


def _afc_slates(study: Study) -> Iterator[list[Any]]:
    places = range(1, study.slate + 1)
    said = ["selected"] if study.answer == "best" else [f"rank_{i}" for i in places]
    yield ["observer", "session_id", "scene", *(f"condition_{i}" for i in places), *said]
    items = study.truth.items
    for i, (rater, shown, order, _) in enumerate(study.answers()):
        ranks = [order.index(place) + 1 for place in range(study.slate)]
        answer = [order[0] + 1] if study.answer == "best" else ranks
        yield [rater, 1, f"scene-{i}", *(items[item] for item in shown), *answer]


def _comparison_rows(study: Study) -> Iterator[list[Any]]:
    yield ["rater", "winner", "loser", "weight"]
    for c in study.comparisons():
        if c.outcome == "tie":
            yield [c.rater, c.left, c.right, c.weight / 2]
            yield [c.rater, c.right, c.left, c.weight / 2]
        else:
            winner, loser = (c.left, c.right) if c.outcome == "left" else (c.right, c.left)
            yield [c.rater, winner, loser, c.weight]
