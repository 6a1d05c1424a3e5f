"""Tables and lines for the terminal. Names are plain text, without markup or control characters."""

from __future__ import annotations

from collections import Counter
from math import isnan
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rich.table import Table
from rich.text import Text

from bbq_plugin.analysis.raters.verdicts import MOST_LISTED, worst_first
from bbq_plugin.text import (
    UNKNOWN,
    chance,
    counted,
    number,
    odds,
    plain,
    ranks,
    share,
    share_span,
    short_name,
    signed,
    span,
    unit_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bbq_plugin.analysis import (
        Analysis,
        ItemRow,
        Leaderboard,
        NextPairs,
        PairRow,
        RaterReport,
        RaterRow,
    )
    from bbq_plugin.analysis.leaderboard import EffectRow
    from bbq_plugin.analysis.slices import SliceCell, SlicedStudy
    from bbq_plugin.analysis.stability import Stability
    from bbq_plugin.data.records import Action, Person

_Row = TypeVar("_Row")
_Column = tuple[str, "Callable[[_Row], Text]"]

#: Rows of a table unless all are asked for.
MOST_ROWS = 30
#: Where the others are.
ALL_ROWS = "--all shows them, --format json has all"

# Of a column: a name that is longer, such as a hash of an image, is cut.
LONG_HEAD = 16
# Narrower than this, a table leaves out its less important columns.
_ROOMY, _WIDE = 80, 110

# Of a column of names, so that few of them fold.
_NAME_ROOM = 20

# Columns of words; all others hold numbers, which are not broken.
_WORDS = ("covariate", "for", "item", "left", "right", "ahead", "rater", "verdict", "reasons")
_FOLDING = ("covariate", "item", "left", "right", "ahead", "rater", "reasons")

_VERDICT_STYLE = {"keep": "green", "watch": "yellow", "exclude": "bold red"}


def leaderboard_table(
    board: Leaderboard,
    true_rating: Mapping[str, float] | None = None,
    *,
    limit: int | None = MOST_ROWS,
    width: int = _WIDE,
    title: str | None = None,
) -> Table:
    """Build the leaderboard, with the true ratings if they are known."""
    digits = 2 if board.scale == "theta" else 0
    columns: list[_Column[ItemRow]] = [
        ("rank", lambda row: _right(_rank(row))),
        ("item", lambda row: Text(short_name(row.item))),
        ("rating", lambda row: _right(number(row.rating, digits), "bold")),
        ("interval", lambda row: _right(span(row.rating_lower, row.rating_upper, digits))),
    ]
    if width >= _ROOMY and any(row.tier > 1 for row in board):
        columns.insert(1, ("tier", lambda row: _right(f"{row.tier}")))
    if width >= _ROOMY - 20:
        columns.append(("win share", lambda row: _right(_win_share(row, ends=width >= _ROOMY))))
    if true_rating is not None:
        columns.append(("truth", lambda row: _truth(row, true_rating[row.item], digits)))
    if width >= _ROOMY - 20:
        columns.append(("P(best)", lambda row: _right(chance(row.p_best))))
    if width >= _ROOMY:
        columns.append(("n", lambda row: _right(f"{row.n:,.0f}")))
        columns.append(("wins", lambda row: _right(f"{row.wins:,.1f}")))
    title = f"{title or 'Leaderboard'} ({board.scale}, {board.level:.0%} {board.intervals})"
    return _table(title, columns, board, limit, width=width, spare=("wins", "n", "tier", "P(best)"))


def effects_table(analysis: Analysis) -> Table:
    """The covariates that are held equal, with their effects."""
    digits = 2 if analysis.limits.scale == "theta" else 0
    columns: list[_Column[EffectRow]] = [
        ("covariate", lambda row: Text(plain(row.covariate))),
        ("for", lambda row: Text(unit_text(row.covariate, row.unit))),
        ("effect", lambda row: _right(signed(row.effect, digits), "bold")),
        ("interval", lambda row: _right(span(row.effect_lower, row.effect_upper, digits))),
    ]
    title = f"Held equal ({analysis.limits.scale}, {analysis.limits.level:.0%})"
    return _table(title, columns, analysis.effects, None)


def slices_table(study: SlicedStudy, *, limit: int | None = MOST_ROWS, width: int = _WIDE) -> Table:
    """Build the table of ratings with slices as columns; what differs significantly is marked."""
    digits = 2 if study.overall.limits.scale == "theta" else 0
    board, names = study.overall.leaderboard, list(study.groups)
    room = max(1, (width - 30) // 10)
    shown = names if limit is None else names[:room]
    more = ""
    if len(shown) < len(names):
        more = f" (the first {len(shown)} of {len(names):,} slices; --all shows all)"
    table = Table(
        title=f"Ratings by {plain(study.tag)}{more}; ▲ significantly higher, ▼ lower",
        caption=_rest(len(board), limit),
    )
    table.add_column("item", overflow="fold")
    table.add_column("all", justify="right")
    for name in shown:
        short = name if len(name) <= LONG_HEAD else f"{name[: LONG_HEAD - 1]}…"
        table.add_column(plain(short), justify="right", overflow="fold")
    # Of two slices the difference stands beside them.
    apart = study.differences if len(names) == len(shown) == 2 else ()
    if apart:
        table.add_column("difference", justify="right")
    for at, (row, cells) in enumerate(list(zip(board, study.by_item(), strict=True))[:limit]):
        ratings = [Text(_in_slice(cell, digits)) for cell in cells[: len(shown)]]
        if apart:
            gap = apart[at]
            ends = span(gap.difference_lower, gap.difference_upper, digits)
            ratings.append(Text(f"{signed(gap.difference, digits)} ({ends})"))
        table.add_row(
            Text(short_name(row.item)), _right(number(row.rating, digits), "bold"), *ratings
        )
    counts = [f"{row.n_comparisons:,}" for row in study.summaries[: len(shown)]]
    table.add_section()
    table.add_row("comparisons", f"{study.overall.fit.data.n_comparisons:,}", *counts)
    if any(row.quality is not None for row in study.summaries):
        qualities = [number(row.quality or 0.0, 2) for row in study.summaries[: len(shown)]]
        table.add_row("mean quality", "", *qualities)
    return table


def _in_slice(cell: SliceCell, digits: int) -> str:
    """A rating, in brackets where no answer of the slice has the item."""
    rating = number(cell.rating, digits) if cell.n else f"({number(cell.rating, digits)})"
    way = "▲" if cell.difference > 0 else "▼"
    return f"{rating} {way}" if cell.differs else rating


def raters_table(
    raters: RaterReport,
    limit: int | None = MOST_ROWS,
    *,
    kinds: Mapping[str, str] | None = None,
    reasons: bool = True,
    width: int = _WIDE,
    where: str = ALL_ROWS,
    names: Mapping[str, Person] = {},
) -> Table:
    """Build the rater report, excluded raters first; ``kinds`` is the true type of each rater.

    ``names`` are those of people, if they are to be shown.
    ``where`` says where the rows beyond ``limit`` are.
    Reasons have a column on a wide terminal; `reason_lines` has them for a narrow one.
    """
    rows = worst_first(raters)
    columns: list[_Column[RaterRow]] = [
        ("rater", lambda row: Text(short_name(row.rater))),
        ("n", lambda row: _right(f"{row.n:,.0f}")),
        ("quality", lambda row: _right(number(row.quality, 2), "bold")),
    ]
    if names:
        columns.insert(1, ("name", lambda row: Text(_name_of(row.rater, names))))
    if width >= _ROOMY:
        columns.append(
            ("interval", lambda row: _right(span(row.quality_lower, row.quality_upper, 2)))
        )
    if width >= _ROOMY - 20:
        columns.append(("agreement", lambda row: _right(share(row.agreement))))
    if width >= _ROOMY - 20 and len({row.camp for row in rows}) > 1:
        columns.append(("camp", lambda row: _right(f"{row.camp}")))
    if width >= _ROOMY and any(_known(row.p_bad) for row in rows):
        columns.append(("P(bad)", lambda row: _right(_p_bad(row))))
    # Not every tool records sides and times.
    if width >= _ROOMY and any(_known(row.left_rate) for row in rows):
        columns.append(("left", lambda row: _right(share(row.left_rate))))
    if width >= _ROOMY and any(_known(row.median_time_s) for row in rows):
        columns.append(("seconds", lambda row: _right(number(row.median_time_s, 1))))
    columns.append(("verdict", lambda row: Text(row.verdict, _VERDICT_STYLE[row.verdict])))
    if kinds is not None:
        columns.append(("truth", lambda row: Text(kinds[row.rater], "cyan")))
    if reasons and width >= _WIDE and any(row.reasons for row in rows[:limit]):
        columns.append(("reasons", lambda row: Text(plain("; ".join(row.reasons)))))
    spare = "seconds", "left", "interval"
    title = "Raters, excluded and watched first"
    table = _table(title, columns, rows, limit, where, width=width, spare=spare)
    if raters.n_raters > MOST_LISTED:
        table.caption = _rest(raters.n_raters, limit, "--all shows them, also in JSON")
    return table


def _name_of(rater: str, names: Mapping[str, Person]) -> str:
    found = names.get(rater)
    # The address below the name: side by side they leave no room for the reasons.
    return "\n".join(plain(one) for one in (found.name, found.email) if one) if found else "–"


def reason_lines(
    raters: RaterReport, limit: int | None = MOST_ROWS, *, width: int = _WIDE
) -> list[str]:
    """The reasons of the rows that `raters_table` shows, where it has no column for them."""
    if width >= _WIDE:
        return []
    rows = worst_first(raters)[:limit]
    return [
        f"{short_name(row.rater)}: {plain('; '.join(row.reasons))}" for row in rows if row.reasons
    ]


def verdict_lines(raters: RaterReport) -> list[str]:
    """Say what changes without the excluded raters, and what the data do not contain."""
    lines = []
    if raters.without_excluded is not None:
        n = counted(len(raters.excluded), "rater")
        lines.append(f"Without {n} to exclude: {plain(raters.without_excluded.text)}")
    if raters.not_known:
        lines.append(f"Not in these data: {'; '.join(raters.not_known)}")
    return lines


def way_back_lines(raters: RaterReport, limit: int | None = MOST_ROWS) -> list[str]:
    """Say what would change the verdict of each excluded rater, and what the exclusion changes."""
    out = [row for row in worst_first(raters) if row.verdict == "exclude"]
    lines = []
    for row in out[:limit]:
        without = f" Without this rater: {row.effect}." if row.effect else ""
        lines.append(plain(f"{row.rater}, to be kept again: {row.way_back}.{without}"))
    return [*lines, *filter(None, [_rest(len(out), limit)])]


def pairs_table(pairs: NextPairs, *, limit: int | None = MOST_ROWS, width: int = _WIDE) -> Table:
    """Build the list of pairs to compare next."""
    columns: list[_Column[PairRow]] = [
        ("left", lambda row: Text(plain(row.left))),
        ("right", lambda row: Text(plain(row.right))),
    ]
    if any(row.rater is not None for row in pairs):
        columns.append(("rater", lambda row: Text(plain(row.rater or UNKNOWN))))
    if width >= _ROOMY:
        columns.append(("ahead", lambda row: Text(short_name(row.item_a))))
    columns.append(("P(ahead)", lambda row: _right(chance(row.p_a_better))))
    if width >= _ROOMY - 20:
        columns.append(
            ("expected\ninformation (bits)", lambda row: _right(f"{row.information_bits:.5f}"))
        )
        columns.append(("comparisons\nso far", lambda row: _right(f"{row.n:,.0f}")))
    goal = {"ranking": "the ranking", "best": "the best item"}
    what = goal.get(pairs.goal, f"the best {pairs.top_k}")
    what = what if pairs.camp is None else f"{what} of camp {pairs.camp}"
    title = f"Pairs to compare next for {what} (rater quality {pairs.quality:.2f})"
    return _table(title, columns, pairs, limit)


def stability_table(found: Stability) -> Table:
    """Build the stability table: tau and top-1 of each model, as in the paper."""
    table = Table(title=f"Stability over {found.resamples:,} resamples of the raters")
    table.add_column("model", no_wrap=True)
    for name in ("Kendall's tau", "95% of resamples", "same best item", "seconds"):
        table.add_column(name, justify="right", overflow="fold")
    for row in found:
        tau, ends = f"{row.tau:.4f} ± {row.tau_se:.4f}", span(row.tau_lower, row.tau_upper, 2)
        table.add_row(row.model, tau, ends, f"{row.top1:.1%}", f"{row.seconds:.2f}")
    return table


def _table(
    title: str,
    columns: list[_Column[_Row]],
    rows: Sequence[_Row],
    limit: int | None,
    where: str = ALL_ROWS,
    *,
    width: int = 0,
    spare: Sequence[str] = (),
) -> Table:
    """Build a table in which names and reasons fold and numbers do not.

    Where it is wider than ``width``, the columns of ``spare`` are left out, the first one first.
    """
    cells = {name: [show(row) for row in rows[:limit]] for name, show in columns}
    room = {
        name: min(max(len(name), *(text.cell_len for text in cells[name]), 0),
                  _NAME_ROOM if name in _FOLDING else width)
        for name in cells
    }  # fmt: skip
    for name in spare:
        if sum(room.values()) + 3 * len(room) + 1 > width and room.pop(name, None) is not None:
            del cells[name]
    table = Table(title=title, caption=_rest(len(rows), limit, where))
    for name in cells:
        side: Literal["left", "right"] = "left" if name in _WORDS else "right"
        table.add_column(name, justify=side, overflow="fold", no_wrap=name not in _FOLDING)
    for row in zip(*cells.values(), strict=True):
        table.add_row(*row)
    return table


def _rest(n: int, limit: int | None, where: str = ALL_ROWS) -> str | None:
    """Say where the rows are that are not shown."""
    if limit is None or n <= limit:
        return None
    return f"… and {n - limit:,} more; {where}"


def _truth(row: ItemRow, truth: float, digits: int) -> Text:
    missed = not row.rating_lower <= truth <= row.rating_upper
    return _right(number(truth, digits), "red" if missed else "cyan")


def _rank(row: ItemRow) -> str:
    possible = ranks(row.rank_best, row.rank_worst)
    return possible if possible == f"{row.rank}" else f"{row.rank} ({possible})"


def _win_share(row: ItemRow, *, ends: bool) -> str:
    if not ends:
        return chance(row.win_share)
    return f"{chance(row.win_share)} ({share_span(row.win_share_lower, row.win_share_upper)})"


def _known(value: float | None) -> bool:
    return value is not None and not isnan(value)


def _p_bad(row: RaterRow) -> str:
    return UNKNOWN if isnan(row.p_bad) else odds(row.p_bad, 2)


def _right(text: str, style: str = "") -> Text:
    return Text(text, style, justify="right")


def plan_table(actions: Iterable[Action], title: str, *, limit: int | None = MOST_ROWS) -> Table:
    """Build the table of planned changes, each with its reason."""
    rows = list(actions)
    table = Table(title=title, caption=_rest(len(rows), limit))
    table.add_column("action", no_wrap=True)
    for name in ("what", "from", "to", "reason"):
        table.add_column(name, overflow="fold")
    for action in rows[:limit]:
        values = (action.target, _shown(action.before), _shown(action.after), action.reason)
        table.add_row(action.kind, *(Text(plain(value)) for value in values))
    return table


def _shown(values: Mapping[str, Any] | None) -> str:
    if values is None:
        return "none"
    # Of no use to a reader: what a write is checked and undone by.
    hidden = ("last_answer", "task", "rater", "file", "sha256", "places")
    return ", ".join(f"{k} {_value(v)}" for k, v in values.items() if k not in hidden) or "–"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return f"of {counted(len(value.get('items', ())), 'rater')}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value}"


def counts_line(actions: Iterable[Action]) -> str:
    """Count the actions of each kind."""
    counts = Counter(action.kind for action in actions)
    return ", ".join(f"{kind} {n:,}" for kind, n in sorted(counts.items())) or "no changes"
