"""Slices of a study: partially pooled, side by side, and mixed by given shares."""

from __future__ import annotations

from io import StringIO
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import bbq_plugin as bbq
from bbq_plugin.analysis import Analysis, Leaderboard
from bbq_plugin.analysis.slices import SlicedStudy
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.errors import UsageError
from bbq_plugin.report.summary import MOST_SLICE_LINES, rescaled_text, slice_lines
from bbq_plugin.report.terminal_tables import slices_table

K = 6


def sliced(
    sizes: dict[str, int], reverse: tuple[str, ...] = (), seed: int = 0, **options: Any
) -> SlicedStudy:
    """Items i0 … i5, the best first; in the slices of ``reverse`` the best last."""
    rng = np.random.default_rng(seed)
    theta = np.linspace(1.2, -1.2, K)
    rows: dict[str, list[tuple[str, str, str, float]]] = {name: [] for name in sizes}
    for name, size in sizes.items():
        here = -theta if name in reverse else theta
        for _ in range(size):
            i, j = rng.choice(K, 2, replace=False)
            won = rng.random() < 1 / (1 + np.exp(here[j] - here[i]))
            rater = f"r{rng.integers(12)}"
            rows[name].append((rater, f"i{i if won else j}", f"i{j if won else i}", 1.0))
    everything = Comparisons.from_records([row for part in rows.values() for row in part])
    groups = {name: Comparisons.from_records(part) for name, part in rows.items()}
    fit = bbq.fit(everything, **{"camps": 1, **options})
    return SlicedStudy("language", Analysis(fit), groups)


def ratings(board: Leaderboard) -> dict[str, float]:
    return {row.item: row.rating for row in board}


@pytest.fixture(scope="module")
def alike() -> SlicedStudy:
    return sliced({"en": 1500, "de": 1500, "fr": 12})


@pytest.fixture(scope="module")
def apart() -> SlicedStudy:
    return sliced({"en": 800, "de": 800, "ja": 800}, reverse=("ja",))


def test_a_slice_of_few_answers_leans_on_all(alike: SlicedStudy) -> None:
    overall = ratings(alike.overall.leaderboard)
    small = alike.boards["fr"]
    assert len(small) == K
    for row in small:
        assert abs(row.rating - overall[row.item]) < 60
        width, usual = row.rating_upper - row.rating_lower, alike.boards["en"]
        of_en = next(one for one in usual if one.item == row.item)
        assert width > of_en.rating_upper - of_en.rating_lower
    assert not any(cell.differs for cell in alike.cells)
    assert alike.pooled.tau < 0.2


def test_a_rating_without_an_answer_in_the_slice_stands_in_brackets(alike: SlicedStudy) -> None:
    assert "In brackets" not in slice_lines(alike)[0]
    groups = dict(alike.groups)
    groups["fr"] = Comparisons.from_records([("r0", "i0", "i1"), ("r1", "i0", "i1")])
    study = SlicedStudy("language", alike.overall, groups)
    assert "In brackets: no answer of the slice has the item" in slice_lines(study)[0]
    console = Console(width=120, record=True, file=StringIO())
    console.print(slices_table(study))
    found = {cell.item: f"{cell.rating:,.0f}" for cell in study.cells if cell.slice == "fr"}
    text = console.export_text()
    assert f"({found['i4']})" in text
    assert f"({found['i0']})" not in text


def test_a_slice_with_another_ranking_keeps_it_and_is_marked(apart: SlicedStudy) -> None:
    assert [row.item for row in apart.boards["ja"]][:2] == ["i5", "i4"]
    assert [row.item for row in apart.boards["en"]][:2] == ["i0", "i1"]
    marked = {(cell.slice, cell.item): cell.difference for cell in apart.cells if cell.differs}
    assert marked["ja", "i5"] > 0 > marked["ja", "i0"]
    assert apart.pooled.tau > 0.5


def test_a_mix_of_one_slice_is_that_slice_and_shares_need_not_sum_to_one(
    apart: SlicedStudy,
) -> None:
    only = ratings(apart.target({"ja": 3.0}))
    assert only == pytest.approx(ratings(apart.boards["ja"]))
    half = ratings(apart.target({"en": 5, "ja": 5}))
    both = [ratings(apart.boards[name]) for name in ("en", "ja")]
    assert half["i0"] == pytest.approx((both[0]["i0"] + both[1]["i0"]) / 2)


def test_the_win_share_of_a_mix_is_the_mean_of_its_slices_and_no_other_slice_counts(
    apart: SlicedStudy,
) -> None:
    mix = {row.item: row for row in apart.target({"en": 0.5, "de": 0.5})}
    en, de = ({row.item: row for row in apart.boards[name]} for name in ("en", "de"))
    for item, row in mix.items():
        assert row.win_share == pytest.approx((en[item].win_share + de[item].win_share) / 2)
        assert row.win_share_lower <= row.win_share <= row.win_share_upper
        assert (row.n, row.wins) == (en[item].n + de[item].n, en[item].wins + de[item].wins)


def test_shares_that_were_divided_by_their_sum_are_said_to_be(apart: SlicedStudy) -> None:
    apart.target({"en": 0.5, "de": 0.6})
    assert rescaled_text(apart) == "The shares as given sum to 1.1; they were divided by it."
    apart.target({"en": 0.5, "de": 0.5})
    assert rescaled_text(apart) == ""


def test_no_more_slices_are_named_than_counted(apart: SlicedStudy) -> None:
    n = sum(cell.differs for cell in apart.cells)
    assert n > MOST_SLICE_LINES
    told = [line for line in slice_lines(apart) if line.startswith("  ")]
    assert told[MOST_SLICE_LINES:] == [f"  and {n - MOST_SLICE_LINES} more, marked in the table"]


def test_shares_of_what_is_no_slice_are_refused(apart: SlicedStudy) -> None:
    with pytest.raises(UsageError, match="no slice 'jp' of language; language has: en, de, ja"):
        apart.target({"jp": 1.0})
    with pytest.raises(UsageError, match="positive"):
        apart.target({"ja": -1.0})


def test_raters_are_judged_by_all_their_answers(apart: SlicedStudy) -> None:
    for one in apart.analyses.values():
        assert one.raters is apart.overall.raters


def test_cells_stand_in_the_order_of_the_board_of_all(apart: SlicedStudy) -> None:
    order = [row.item for row in apart.overall.leaderboard]
    assert [cells[0].item for cells in apart.by_item()] == order
    assert {cell.slice for cell in apart.by_item()[0]} == {"en", "de", "ja"}


def test_a_divided_panel_is_sliced_as_one(apart: SlicedStudy) -> None:
    fit = bbq.fit(apart.overall.fit.data, camps=2)
    study = SlicedStudy("language", Analysis(fit), apart.groups)
    assert ratings(study.boards["ja"]) == pytest.approx(ratings(apart.boards["ja"]), abs=1)


def test_models_without_pooling_say_what_to_do() -> None:
    study = sliced({"en": 60, "de": 60}, model="crowd-bt")
    with pytest.raises(UsageError, match="--by-alone"):
        _ = study.pooled


def by_group(seed: int = 0) -> SlicedStudy:
    """Groups of raters: the screened are careful, and the others like i5 better."""
    rng = np.random.default_rng(seed)
    theta = np.linspace(1.2, -1.2, K)
    rows: dict[str, list[tuple[str, str, str, float]]] = {"screened": [], "open": []}
    for group, part in rows.items():
        here = theta + (1.5 if group == "open" else 0.0) * (np.arange(K) == K - 1)
        for r in range(12):
            q = 0.95 if group == "screened" else 0.5
            for _ in range(60):
                i, j = rng.choice(K, 2, replace=False)
                p = 0.5 + q * (1 / (1 + np.exp(here[j] - here[i])) - 0.5)
                won = rng.random() < p
                one = (f"i{i if won else j}", f"i{j if won else i}")
                part.append((f"{group}-{r}", *one, 1.0))
    everything = Comparisons.from_records([row for part in rows.values() for row in part])
    groups = {name: Comparisons.from_records(part) for name, part in rows.items()}
    return SlicedStudy("screened", Analysis(bbq.fit(everything, camps=1)), groups)


def test_groups_of_raters_differ_in_an_item_and_in_quality() -> None:
    study = by_group()
    assert study.of_raters
    gap = {row.item: row for row in study.differences}
    assert len(gap) == K
    assert gap["i5"].differs
    assert gap["i5"].difference_upper < 0 or gap["i5"].difference_lower > 0
    assert max(gap, key=lambda item: abs(gap[item].difference)) == "i5"
    screened, others = study.summaries
    assert screened.quality_lower is not None
    assert others.quality_upper is not None
    assert screened.quality_lower > others.quality_upper
    assert any("Mean quality of the raters: screened" in line for line in slice_lines(study))


def test_a_difference_is_that_of_the_two_columns(alike: SlicedStudy) -> None:
    place = {(cell.slice, cell.item): cell.rating for cell in alike.cells}
    for row in alike.differences:
        apart = place[row.slice, row.item] - place[row.other, row.item]
        assert row.difference == pytest.approx(apart, abs=1e-6)
        assert row.difference_lower < row.difference < row.difference_upper
    assert not alike.of_raters


def test_slices_allow_for_prompts_that_suit_an_item() -> None:
    rng, theta = np.random.default_rng(8), np.linspace(1.0, -1.0, K)
    suits = rng.normal(0, 1.0, (12, K))
    rows: dict[str, list[bbq.Comparison]] = {"en": [], "de": []}
    for n in range(2400):
        i, j = rng.choice(K, 2, replace=False)
        prompt, where = int(rng.integers(12)), "en" if n % 2 else "de"
        gap = theta[i] - theta[j] + suits[prompt, i] - suits[prompt, j]
        outcome: Any = "left" if rng.random() < 1 / (1 + np.exp(-gap)) else "right"
        rows[where].append(
            bbq.Comparison(
                f"{n}", f"r{n % 30}", f"i{i}", f"i{j}", outcome, tags={"prompt": f"{prompt}"}
            )
        )
    groups = {name: Comparisons.from_comparisons(part) for name, part in rows.items()}
    everything = Comparisons.from_comparisons([row for part in rows.values() for row in part])
    widths = {}
    for cluster in ("none", "rater", "auto"):
        study = SlicedStudy(
            "language", Analysis(bbq.fit(everything, camps=1, cluster=cluster)), groups
        )
        mix, board = study.target({"en": 1, "de": 1}), study.overall.leaderboard
        widths[cluster] = [
            float(np.mean([row.rating_upper - row.rating_lower for row in one]))
            for one in (mix, board)
        ]
    # By default both allow for prompts, and a mix as it was answered is known as well as the board.
    assert widths["auto"][0] > 1.5 * widths["rater"][0]
    assert widths["auto"][0] == pytest.approx(widths["auto"][1], rel=0.35)
    assert widths["none"][0] <= 1.05 * widths["rater"][0]
