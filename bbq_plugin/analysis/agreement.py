"""How far the raters agree: percent agreement, Krippendorff's alpha, camps and what divides them.

Agreement as the field knows it: percent agreement, and Krippendorff's alpha.

A unit is what several raters have answered: the same two items, about the same prompt or scene
where a tag names it. Its values are "the first", "the second" and "a tie". With m raters in a unit
and the share p_rc of rater r's answers with value c,

    A_u = sum over r != s, c of p_rc p_sc / (m (m - 1))            percent agreement of a unit
    D_o = sum over u of m (1 - A_u) / n,     n = sum of m          observed disagreement
    alpha = 1 - D_o / D_e,     D_e = 1 - sum over c of n_c (n_c - 1) / (n (n - 1))

Which of two items is "the first" is arbitrary, so both orders are counted half: n_c of the first
and of the second is the same. Intervals are those of sums over units, each unit a draw of its own
(linearised). No model is asked: raters of low quality count like all others.

A divided panel: who belongs to which camp, what each prefers, and along which items they differ.

A camp of the opposite taste and a group whose keys were swapped answer alike. A group that follows
the reverse of a larger camp's ranking and is less than a quarter of the raters is called inverted;
a larger one is a camp.

At the end tests: whether the raters of a panel agree more than coins would, and whether those who
are to be excluded agree with each other, or follow a ranking of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.analysis.leaderboard import Row, Rows
from bbq_plugin.data.clusters import found_tag
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.triples import Codes, Floats, Mask, Triples, count_by
from bbq_plugin.model import Fit
from bbq_plugin.model.kernels import likelihood as kernels
from bbq_plugin.model.rater_population import BY, NODE

if TYPE_CHECKING:
    from bbq_plugin.analysis.raters.leave_one_out import Evidence

#: Units that are listed, those with the least agreement first.
LISTED = 100
# Of a panel that does not agree: the level of the test, and how many random signs are drawn.
LEVEL = 0.05
TURNS = 399
# Of the raters to be excluded: the level at which they agree with each other beyond the rankings.
ALIKE_LEVEL = 0.01
ALIKE_LEAST, ALIKE_MOST = 3, 600
ALIKE_TURNS = 999
OWN_SPREADS = 0.7, 1.4  # of the items' theta in such a ranking, in nats
COIN = np.log(3.0)  # nats by which, in a divided panel, a coin explains them better than a camp
OWN_STEPS = 30
MOST_OWN = 300  # items of such a ranking
FEW_RATERS = 10  # below, 2^(raters - 1) ways to reverse them are too few
RATERS_AT_ONCE = 4096  # whose signs are held


@dataclass(frozen=True, slots=True)
class UnitAgreement(Row):
    """One unit: two items (and the value of the tag), how many raters, and how far they agree."""

    item_a: str
    item_b: str
    value: str
    n_raters: int
    agreement: float
    alpha: float


@dataclass(frozen=True, slots=True)
class RaterAgreement(Row):
    """One rater against the others in the same units; NaN where none is shared."""

    rater: str
    n_units: int
    agreement: float
    agreement_lower: float
    agreement_upper: float
    alpha: float


@dataclass(frozen=True)
class InterRater:
    """Of all raters; ``tag`` is what a unit is besides its two items, if a tag says so."""

    level: float
    tag: str | None
    n_units: int
    agreement: float
    agreement_lower: float
    agreement_upper: float
    alpha: float
    alpha_lower: float
    alpha_upper: float
    raters: tuple[RaterAgreement, ...]
    units: tuple[UnitAgreement, ...]

    @property
    def text(self) -> str:
        """In a sentence."""
        what = "the same two items" + (f" and {self.tag}" if self.tag else "")
        if not self.n_units:
            return f"No two raters have answered about {what}, so there is no percent agreement"
        alpha = (
            f"Krippendorff's alpha is {self.alpha:.2f} "
            f"({self.alpha_lower:.2f} – {self.alpha_upper:.2f})"
        )
        if np.isnan(self.alpha):
            alpha = "there is no Krippendorff's alpha, because all answers are ties"
        return (
            f"Two raters who answered about {what} agree in {self.agreement:.0%} "
            f"({self.agreement_lower:.0%} – {self.agreement_upper:.0%}); {alpha}, over "
            f"{self.n_units:,} questions with two raters or more"
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON; what is not known is null."""
        found = asdict(self)
        found["raters"] = [_known(row) for row in found["raters"]]
        found["units"] = [_known(row) for row in found["units"]]
        return _known(found)


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {
        key: None if isinstance(value, float) and np.isnan(value) else value
        for key, value in values.items()
    }


def inter_rater(data: Comparisons, level: float = 0.95) -> InterRater:
    """Percent agreement and Krippendorff's alpha of all answers, by rater and by unit."""
    tag = found_tag(data)
    unit, rater, value, names = _answers(data, tag)
    # One row for each rater in a unit, with the shares of the values.
    n_raters = max(1, data.n_raters)
    group, at = np.unique(unit * n_raters + rater, return_inverse=True)
    counts = np.bincount(at * 3 + value, minlength=3 * group.size).reshape(-1, 3)
    p = counts / counts.sum(axis=1, keepdims=True)
    of_unit, of_rater = np.divmod(group, n_raters)
    n_units = int(of_unit.max()) + 1 if group.size else 0
    m = np.bincount(of_unit, minlength=n_units).astype(np.float64)
    sums = [np.bincount(of_unit, p[:, c], n_units) for c in range(3)]
    total: Floats = np.stack(sums, axis=1).astype(np.float64)
    # Of each rater in a unit: the mean agreement with the others there.
    shared = m[of_unit] > 1
    agree = ((total[of_unit] - p) * p).sum(axis=1)
    agree = np.divide(agree, m[of_unit] - 1, out=np.full(agree.size, np.nan), where=shared)
    kept = np.flatnonzero(m > 1)
    summed = np.bincount(of_unit[shared], agree[shared], n_units)  # m A_u
    by_unit: Floats = np.asarray(summed, dtype=np.float64)[kept]
    z = NormalDist().inv_cdf((1 + level) / 2)
    expected = _expected(total[kept].sum(axis=0))
    overall = _overall(m[kept], by_unit, total[kept], expected, z)
    return InterRater(
        level=level, tag=tag, n_units=kept.size, **overall,
        raters=tuple(_raters(data, of_rater[shared], agree[shared], expected, z)),
        units=tuple(_units(names, kept, m[kept], by_unit / m[kept], expected)),
    )  # fmt: skip


def _answers(data: Comparisons, tag: str | None) -> tuple[Codes, Codes, Codes, _Names]:
    """Unit, rater and value of each answer; a tie has two rows and is one answer."""
    half = None if data.answers is None else data.answers.half
    rows = np.arange(data.weight.size) if half is None else np.flatnonzero(half != 2)
    winner, loser = data.winner[rows].astype(np.int64), data.loser[rows].astype(np.int64)
    low, high = np.minimum(winner, loser), np.maximum(winner, loser)
    value = (winner > loser).astype(np.int64)
    if half is not None:
        value[half[rows] == 1] = 2
    about = np.zeros(rows.size, np.int64) if tag is None else data.tags[tag][rows].astype(np.int64)
    code, unit = np.unique((about + 1) * data.n_items**2 + low * data.n_items + high,
                           return_inverse=True)  # fmt: skip
    return unit.ravel(), data.rater[rows].astype(np.int64), value, _Names(data, tag, code)


@dataclass(frozen=True, slots=True)
class _Names:
    """What a unit is called."""

    data: Comparisons
    tag: str | None
    code: Codes

    def of(self, unit: int) -> tuple[str, str, str]:
        about, pair = divmod(int(self.code[unit]), self.data.n_items**2)
        low, high = divmod(pair, self.data.n_items)
        names = () if self.tag is None else self.data.tag_values[self.tag]
        value = names[about - 1] if names and about > 0 else ""
        return self.data.items[low], self.data.items[high], value


def _expected(counts: Floats) -> float:
    """D_e, the first and the second of two items taken as equally frequent."""
    n = float(counts.sum())
    if n < 2:
        return float("nan")
    decided = 0.5 * float(counts[0] + counts[1])
    same = 2 * decided * (decided - 0.5) + float(counts[2]) * (float(counts[2]) - 1)
    expected = 1.0 - same / (n * (n - 1))
    # Where all values are equal there is no alpha.
    return expected if expected > 0 else float("nan")


def _overall(
    m: Floats, agreed: Floats, total: Floats, expected: float, z: float
) -> dict[str, float]:
    names = ("agreement", "agreement_lower", "agreement_upper", "alpha", "alpha_lower",
             "alpha_upper")  # fmt: skip
    if not m.size:
        return dict.fromkeys(names, float("nan"))
    pairs = m * (m - 1)
    share = float((agreed * (m - 1)).sum() / pairs.sum())
    # The standard error of a ratio of sums over units.
    error = np.sqrt(((agreed * (m - 1) - share * pairs) ** 2).sum()) / pairs.sum()
    n = m.sum()
    observed = float((m - agreed).sum() / n)
    alpha = 1 - observed / expected
    # D_e = 1 - 2 (d/2)^2 - t^2 of the shares d and t of decided answers and ties.
    d, t = float(total[:, :2].sum() / n), float(total[:, 2].sum() / n)
    per_unit = ((m - agreed) - observed * m) / expected
    slope = -(d * (total[:, :2].sum(axis=1) - d * m) + 2 * t * (total[:, 2] - t * m))
    per_unit = per_unit - observed / expected**2 * slope
    spread = float(np.sqrt((per_unit**2).sum()) / n)
    values = (
        share, max(0.0, share - z * error), min(1.0, share + z * error),
        alpha, alpha - z * spread, float(np.minimum(1.0, alpha + z * spread)),
    )  # fmt: skip
    return dict(zip(names, map(float, values), strict=True))


def _raters(
    data: Comparisons, rater: Codes, agree: Floats, expected: float, z: float
) -> list[RaterAgreement]:
    counts = np.bincount(rater, minlength=data.n_raters)
    n = np.where(counts > 0, counts, np.nan)
    share = np.bincount(rater, agree, data.n_raters) / n
    # Wilson's interval: it is one within 0 and 1, also of few units.
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    spread = np.maximum(share * (1 - share) / n, 0.0) + z * z / (4 * n * n)
    reach = z / (1 + z * z / n) * np.sqrt(spread)
    alpha = 1 - (1 - share) / expected
    columns = zip(data.raters, counts, share, middle - reach, middle + reach, alpha, strict=False)
    return [RaterAgreement(name, int(k), *map(float, rest)) for name, k, *rest in columns]


def _units(
    names: _Names, kept: Codes, m: Floats, agree: Floats, expected: float
) -> list[UnitAgreement]:
    order = np.lexsort((-m, agree))[:LISTED]
    found = []
    for k in order.tolist():
        alpha = float(1 - (1 - agree[k]) / expected)
        named = names.of(int(kept[k]))
        found.append(UnitAgreement(*named, int(m[k]), float(agree[k]), alpha))
    return found


REVERSED = -0.9  # correlation of two rankings, below which one is the reverse of the other
OTHER_TASTE = 0.5  # correlation of two rankings, below which their camps prefer other items
SMALL = 0.25  # of the raters: a smaller reversed group is called inverted
NAMED = 2  # items named at either end of a difference


@dataclass(frozen=True, slots=True)
class CampRow(Row):
    """One camp. ``n_raters`` most probably belong to it; ``best`` is the item it prefers first.

    ``correlation`` is that of its ranking with the largest camp's. ``inverted`` says that it is a
    small group that follows the reverse of a larger camp's ranking.
    """

    camp: int
    share: float
    n_raters: int
    best: str
    correlation: float
    inverted: bool


@dataclass(frozen=True, slots=True, eq=False)
class AxisOfTaste:
    """Along which raters differ most.

    ``raters`` stand where they stand, in standard deviations of raters of one taste. ``items`` have
    the nats by which a rater who stands at 1, with as many answers as the mean, prefers them more
    than the panel does.
    """

    strength: float
    items: tuple[tuple[str, float], ...]  # the most preferred at the positive end first
    raters: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class CampTaste:
    """The items that a camp prefers more than the other raters do, and those it prefers less."""

    more: tuple[str, ...]
    less: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """The camp (from 1) that a rater most probably belongs to, and with what probability."""

    camp: int
    p: float


class PanelDivision(Rows[CampRow]):
    """The camps of a fit, the largest first, and the axis along which raters differ."""

    def __init__(
        self, rows: list[CampRow], correlations: Floats, axis: AxisOfTaste | None,
        tastes: tuple[CampTaste, ...], member: Mapping[str, Member],
        asked: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(rows)
        #: Of each rater.
        self.member = member
        #: Of each camp, what it prefers more and less than the others.
        self.tastes = tastes
        #: Between the rankings of all camps.
        self.correlations = correlations
        #: None unless the raters differ in more than quality.
        self.axis = axis
        #: How many camps were asked for; None where the answers decided.
        self.asked = asked

    def reverse_of(self, camp: int) -> int:
        """The camp (from 1) whose ranking is nearest to the reverse of this one's."""
        return int(np.argmin(self.correlations[camp - 1])) + 1

    @property
    def divided(self) -> bool:
        """Whether there is more than one camp."""
        return len(self) > 1

    def __repr__(self) -> str:
        return f"<PanelDivision: {len(self)} camps>"


def panel_division(fit: Fit) -> PanelDivision:
    """Describe the camps of a fit."""
    # Over parts who is where is known where the parts are: here are numbers alone.
    member = np.empty(0, np.int64) if fit.in_parts else fit.membership.argmax(axis=1)
    n = fit.member_counts
    # A ranking of one item has no correlation, nor has one in which all are equal.
    correlations: Floats = np.ones((1, 1))
    if fit.division is not None:
        correlations = np.asarray(np.corrcoef(fit.camp_theta), dtype=np.float64)
    inverted = inverted_camps(fit)
    rows = [
        CampRow(
            c + 1, camp.share, int(n[c]), fit.items[int(camp.theta.argmax())],
            float(correlations[0, c]), c in inverted,
        )
        for c, camp in enumerate(fit.camps)
    ]  # fmt: skip
    named: dict[str, Member] = {}
    if not fit.in_parts:
        belongs = zip(member.tolist(), fit.membership.max(axis=1).tolist(), strict=True)
        members = [Member(camp + 1, p) for camp, p in belongs]
        named = dict(zip(fit.raters, members, strict=True))
    asked = None if fit.division is None else fit.division.asked
    return PanelDivision(rows, correlations, _axis(fit), _tastes(fit), named, asked)


def _tastes(fit: Fit) -> tuple[CampTaste, ...]:
    if fit.division is None:
        return ()
    share, theta = fit.camp_sizes, fit.camp_theta
    theta = theta - theta.mean(axis=1, keepdims=True)
    found = []
    for c, mine in enumerate(theta):
        others = np.average(np.delete(theta, c, axis=0), axis=0, weights=np.delete(share, c))
        order = np.argsort(others - mine, kind="stable")
        names = [fit.items[i] for i in order]
        few = min(NAMED, len(names) // 2)
        found.append(CampTaste(tuple(names[:few]), tuple(names[::-1][:few])))
    return tuple(found)


def inverted_camps(fit: Fit) -> dict[int, int]:
    """The camps (from 0) that are small groups in reverse, and of which larger camp each is."""
    if fit.division is None:
        return {}
    correlations = np.corrcoef(fit.camp_theta)
    share = fit.camp_sizes
    found = {}
    for c in range(len(share)):
        other = int(np.argmin(correlations[c]))
        if correlations[c, other] < REVERSED and share[c] < SMALL and share[c] < share[other]:
            found[c] = other
    return found


def differ_in_taste(fit: Fit) -> bool:
    """Whether some camps prefer other items, not only the same ones more or less clearly.

    Groups in reverse do not count: they are called inverted.
    """
    if fit.division is None:
        return False
    kept = [c for c in range(len(fit.camp_theta)) if c not in inverted_camps(fit)]
    correlations = np.atleast_2d(np.corrcoef(fit.camp_theta[kept]))
    return bool(correlations.min() < OTHER_TASTE)


def _axis(fit: Fit) -> AxisOfTaste | None:
    axis = fit.axis
    if axis is None or not axis.fires:
        return None
    # A rater's own share of the information is 1/R: delta_r = sqrt(R) stand_r items.
    nats = axis.items * np.sqrt(fit.data.n_raters)
    order = np.argsort(-nats, kind="stable")
    raters = np.argsort(-axis.raters, kind="stable")
    return AxisOfTaste(
        axis.strength,
        tuple((fit.items[i], float(nats[i])) for i in order),
        tuple((fit.raters[r], float(axis.raters[r])) for r in raters),
    )


def alike_p(fit: Fit, evidence: Evidence, raters: Codes) -> float:
    """How often raters who share nothing agree as much as these, beyond the camps' rankings.

    What is left of a rater's answers when the ranking is taken out, as far as the rater follows it,
    is summed by item; raters reversed at random say what chance brings. NaN below ALIKE_LEAST.
    """
    if raters.size < ALIKE_LEAST:
        return float("nan")
    t, k = fit.triples, len(fit.items)
    # What is drawn at random is drawn for the same raters and items in whatever order they come.
    rank, item_rank = _ranks(t)
    raters = raters[np.argsort(rank[raters])]
    if raters.size > ALIKE_MOST:
        raters = raters[np.linspace(0, raters.size, ALIKE_MOST, endpoint=False).astype(np.int64)]
    n = np.diff(t.start)[raters]
    at = np.repeat(t.start[raters] - np.cumsum(n) + n, n) + np.arange(int(n.sum()))
    who = np.repeat(np.arange(raters.size), n)
    at = at[np.lexsort((item_rank[t.loser[at]], item_rank[t.winner[at]], who))]
    s, weight = evidence.left_out.s[at], evidence.given.weight[at]
    told, by = (count_by(who, raters.size, weight * x) for x in (0.5 * s, s * s))
    quality = np.clip(told / np.maximum(by, 1e-300), -1.0, 1.0)
    met = np.bincount(t.winner[at], weight, k) + np.bincount(t.loser[at], weight, k)
    by_item = 1.0 / np.sqrt(np.maximum(met, 1e-300))

    def together(rest: Floats) -> Floats:
        """What each two of them have in common."""
        whose, item, x = _scores(who, t.winner[at], t.loser[at], rest, k)
        table = np.zeros((raters.size, k))
        table[whose, item] = x * by_item[item]
        common = table @ table.T
        np.fill_diagonal(common, 0.0)
        return np.asarray(common)

    seen, rng = together(weight * (0.5 - quality[who] * s)), np.random.default_rng(0)
    if raters.size < FEW_RATERS:
        # Too few ways to reverse them: every answer is drawn again, by the rater's quality.
        p = 0.5 + quality[who] * s
        spread = np.sqrt(weight * p * (1.0 - p))
        drawn = [together(z * spread).sum() for z in rng.standard_normal((TURNS, spread.size))]
        return _share(np.array(drawn), float(seen.sum()))
    signs = rng.choice([-1.0, 1.0], (ALIKE_TURNS, raters.size))
    drawn = np.einsum("ij,ij->i", signs @ seen, signs)
    return _share(drawn, float(seen.sum()))


def own_ranking(
    fit: Fit, evidence: Evidence, raters: Codes, some: Codes, share: float | None = None
) -> Floats:
    """P(a ranking of their own) of these raters, who then are no guessers.

    A Bradley-Terry ranking of the rater's answers alone has the evidence B against that of low
    quality, of reversed answers of any quality or of a coin, whichever is highest. Of those who
    look bad (``some`` of all raters) the ``share`` w follows a ranking of its own, by EM, so that a
    panel of many guessers, whose answers suit no ranking, spares hardly one of them:

        p = w B / (w B + 1 - w),     w = (sum p + 1/2) / (n + 1)
    """
    population = evidence.kinds.population
    own = ranking_evidence(fit.triples, evidence.given.weight, np.union1d(raters, some))
    for r in np.flatnonzero(own > -np.inf).tolist():
        rows = slice(fit.triples.start[r], fit.triples.start[r + 1])
        weight, s = evidence.given.weight[rows], evidence.left_out.s[rows]
        low = _log_mean(weight, s, population.low_masses)
        own[r] -= max(0.0, low, _log_mean(weight, -s, BY))
    share = share_of_own(own[some]) if share is None else share
    return _p_own(own[raters], share)


def share_of_own(ahead: Floats) -> float:
    """Of raters who look bad, the share with a ranking of their own, from log B of each."""
    share, ahead = 0.5, ahead[ahead < np.inf]
    for _ in range(OWN_STEPS):
        share = (float(_p_own(ahead, share).sum()) + 0.5) / (ahead.size + 1.0)
    return share


def _p_own(ahead: Floats, share: float) -> Floats:
    odds = np.log((1.0 - share) / share) - ahead
    return np.asarray(1.0 / (1.0 + np.exp(np.clip(odds, -500.0, 500.0))))


def ranking_evidence(t: Triples, weights: Floats, raters: Codes) -> Floats:
    """By rater, log evidence of a ranking of these raters' own against a coin; -inf where none.

    The mean over OWN_SPREADS; infinite of raters who met two items alone.
    """
    found = np.full(t.n_raters, -np.inf)
    for r in raters.tolist():
        rows = slice(t.start[r], t.start[r + 1])
        weight = weights[rows]
        items, at = np.unique(np.concatenate((t.winner[rows], t.loser[rows])), return_inverse=True)
        if items.size == 2:
            # Who prefers the other one is no more inverted, or random, than of another mind.
            found[r] = np.inf
        elif items.size <= MOST_OWN:
            won, lost = at[: weight.size], at[weight.size :]
            by = [_ranking_evidence(won, lost, weight, items.size, sd) for sd in OWN_SPREADS]
            found[r] = np.logaddexp.reduce(by) - np.log(len(by))
    return found


def _log_mean(weight: Floats, s: Floats, masses: Floats) -> float:
    """log P(answers) less that of a coin, over qualities of these masses at the nodes."""
    told = np.log1p(2.0 * np.outer(NODE, s) * (1 - 1e-9)) @ weight
    top = float(told.max())
    return top + float(np.log(max(float(masses @ np.exp(told - top)), 1e-300)))


def _ranking_evidence(won: Codes, lost: Codes, weight: Floats, n: int, spread: float) -> float:
    """log of the integral over theta ~ Normal(0, spread^2) of a ranking, less that of a coin.

    By Laplace, from the answers ``won`` over ``lost`` about n items.
    """
    theta, value, curve, prior = np.zeros(n), 0.0, np.eye(n), spread**-2
    for _ in range(OWN_STEPS):
        y = 1.0 / (1.0 + np.exp(theta[lost] - theta[won]))
        push = weight * (1.0 - y)
        value = float(weight @ np.log(2.0 * y)) - 0.5 * prior * float(theta @ theta)
        half = np.bincount(won * n + lost, push * y, n * n).reshape(n, n)
        curve = np.asarray(-(half + half.T), dtype=np.float64)
        curve[np.diag_indices(n)] = prior - curve.sum(axis=1)
        slope = np.bincount(won, push, n) - np.bincount(lost, push, n) - prior * theta
        step = np.linalg.solve(curve, slope)
        longest = float(np.max(np.abs(step)))
        if longest < 1e-4:
            break
        theta += step * min(1.0, 2.0 / longest)
    return value - 0.5 * float(np.linalg.slogdet(curve / prior)[1])


def coins_among(fit: Fit, evidence: Evidence, raters: Codes) -> Mask:
    """Whose answers a coin explains better than the rater's camp does, by COIN nats.

    The quality under the camp may be any, q ~ Uniform(0, 1). In a divided panel a rater of low
    quality may stand between the camps; only a coin is explained by none.
    """
    t, found = fit.triples, np.zeros(raters.size, dtype=np.bool_)
    for place, r in enumerate(raters.tolist()):
        rows = slice(t.start[r], t.start[r + 1])
        weight, s = evidence.given.weight[rows], evidence.left_out.s[rows]
        found[place] = -_log_mean(weight, s, BY) > COIN
    return found


def panel_warning(p: float, *, all_tied: bool = False) -> str:
    """What to say of a panel; nothing if it agrees."""
    if all_tied:
        return (
            "every answer is a tie. Nothing tells which item is better, and no rater can be "
            "judged: all are kept"
        )
    if np.isnan(p):
        return "no two raters answered about the same items. No rater can be judged: all are kept"
    if p <= LEVEL:
        return ""
    if p > 1.0 - LEVEL:
        return (
            "the raters contradict each other more than random answers would. No rater can be "
            "judged: it is not known who is right"
        )
    return (
        f"the raters do not agree with each other more than random answers would (p = {p:.2g}). "
        "No rater can be judged: they guess, or there are too few answers for items so close"
    )


def rest_tells(fit: Fit, evidence: Evidence, out: Mask, p_coins: float) -> bool:
    """Whether those who stay tell that these raters are the wrong ones.

    They are two or more, agree with each other, and are more than those whom they reverse.
    """
    inverted = out & (evidence.kinds.p_inverted > evidence.kinds.p_guesser)
    if np.sum(~out) < max(2, int(inverted.sum()) + 1):
        return False
    return p_coins <= LEVEL or panel_p(fit.data, ~out) <= LEVEL


def _ranks(t: Triples) -> tuple[Codes, Codes]:
    """The places of raters and of items in an order that does not hang on that of the rows."""
    won, lost = (np.bincount(items, t.weight, t.n_items) for items in (t.winner, t.loser))
    # By votes, then by how often the items win that a rater prefers, and those that lost. Rounded:
    # sums of the same numbers in another order differ in their last digits.
    by = t.weight * won[t.loser], t.weight * won[t.winner], t.weight
    raters = np.lexsort(np.round([np.bincount(t.rater(), x, t.n_raters) for x in by], 3))
    items = np.lexsort(np.round((lost, won), 3))
    return np.argsort(raters), np.argsort(items)


def panel_p(data: Comparisons, among: Mask | None = None) -> float:
    """How often coins agree as much as these raters, or a bound below LEVEL; NaN: no two met.

    ``among``: of these raters alone.
    """
    t, (rank, item_rank) = data.triples, _ranks(data.triples)
    among = np.ones(data.n_raters, dtype=np.bool_) if among is None else among
    rows = among[t.rater()]
    rater, k, weight = rank[t.rater()[rows]], data.n_items, t.weight[rows]
    winner, loser = item_rank[t.winner[rows]], item_rank[t.loser[rows]]
    d = np.bincount(winner, weight, k) + np.bincount(loser, weight, k)
    who, item, x = _scores(rater, winner, loser, weight, k)
    shared = np.bincount(item, minlength=k) > 1
    if not shared.any():
        return float("nan")
    by = 1.0 / np.maximum(d, 1e-300)
    own = float(np.sum(x**2 * by[item]))
    together = float(np.sum(np.bincount(item, x, k) ** 2 * by))
    if not own:
        # Ties alone: nobody prefers anything, and there is nothing to agree about.
        return float("nan")
    rng = np.random.default_rng(0)
    if among.sum() < FEW_RATERS:
        return _by_answers(data, among, rank, item_rank, by, together - own, rng)
    if own <= LEVEL * together:
        # Markov's inequality: turned at random, |sum|^2 is `own` on average.
        return own / together
    signs = rng.choice([-1.0, 1.0], (TURNS, data.n_raters))
    turned = np.zeros((k, TURNS))
    kernels.turned_sums(who, item, x, np.ascontiguousarray(signs.T), turned)
    return _share(np.asarray(by @ turned**2), together)


def panel_sums(data: Comparisons) -> tuple[Floats, Floats, Floats, Floats]:
    """What `panel_p` needs of some of the raters, by item; parts of the raters add up.

    Answers, wins less losses, the squares of these by rater, and the number of raters.
    """
    t, k = data.triples, data.n_items
    d = np.bincount(t.winner, t.weight, k) + np.bincount(t.loser, t.weight, k)
    _, item, x = _scores(t.rater(), t.winner, t.loser, t.weight, k)
    sums = d, np.bincount(item, x, k), np.bincount(item, x**2, k), np.bincount(item, minlength=k)
    one, two, three, four = (np.asarray(each, dtype=np.float64) for each in sums)
    return one, two, three, four


def turned_panel(data: Comparisons, seed: int) -> Floats:
    """The wins less losses by item, each rater turned at random, TURNS times."""
    t, k, rng = data.triples, data.n_items, np.random.default_rng([0, seed])
    who, item, x = _scores(t.rater(), t.winner, t.loser, t.weight, k)
    turned = np.zeros((k, TURNS))
    for first in range(0, data.n_raters, RATERS_AT_ONCE):
        low, high = np.searchsorted(who, (first, first + RATERS_AT_ONCE))
        signs = rng.choice([-1.0, 1.0], (min(RATERS_AT_ONCE, data.n_raters - first), TURNS))
        kernels.turned_sums(who[low:high] - first, item[low:high], x[low:high], signs, turned)
    return turned


def panel_p_over(
    sums: tuple[Floats, Floats, Floats, Floats], turned: Callable[[], Floats]
) -> float:
    """`panel_p` of raters in parts: of the sums over all of them, and what turning gave."""
    d, total, squares, raters = sums
    if not (raters > 1).any():
        return float("nan")
    by = 1.0 / np.maximum(d, 1e-300)
    own, together = float(squares @ by), float(total**2 @ by)
    if not own:
        return float("nan")
    if own <= LEVEL * together:
        return own / together
    return _share(np.asarray(by @ turned() ** 2), together)


def _scores(
    rater: Codes, winner: NDArray[Any], loser: NDArray[Any], margin: Floats, k: int
) -> tuple[Codes, Codes, Floats]:
    """Rater, item, and its wins less losses by this rater, where the two met."""
    base = rater.astype(np.int64) * k
    cell, at = np.unique(np.concatenate((base + winner, base + loser)), return_inverse=True)
    x = np.bincount(at, np.concatenate((margin, -margin)), cell.size)
    return cell // k, cell % k, np.asarray(x, np.float64)


def _by_answers(
    data: Comparisons, among: Mask, rank: Codes, item_rank: Codes, by: Floats, seen: float,
    rng: np.random.Generator,
) -> float:  # fmt: skip
    """Every answer a coin: for each rater and pair of items, N(0, sum of squared weights)."""
    k, half = data.n_items, None if data.answers is None else data.answers.half
    rows = among[data.rater]
    row = np.flatnonzero(rows if half is None else rows & (half == 0))
    if not row.size:
        return 1.0
    winner, loser = item_rank[data.winner[row]], item_rank[data.loser[row]]
    low, high = np.minimum(winner, loser), np.maximum(winner, loser)
    cell, at = np.unique((rank[data.rater[row]] * k + low) * k + high, return_inverse=True)
    spread = np.sqrt(np.bincount(at, data.weight[row] ** 2, cell.size))
    place, high = cell // k, cell % k
    rater, low = place // k, place % k
    drawn = []
    for z in rng.standard_normal((TURNS, cell.size)):
        _, item, x = _scores(rater, low, high, z * spread, k)
        total = np.bincount(item, x, k)
        drawn.append(np.sum(total**2 * by) - np.sum(x**2 * by[item]))
    return _share(np.array(drawn), seen)


def _share(drawn: Floats, seen: float) -> float:
    """The p-value of a Monte Carlo test; rounding must not part what is equal."""
    near = 1e-9 * max(abs(seen), 1.0)
    return float((1 + np.sum(drawn >= seen - near)) / (1 + drawn.size))
