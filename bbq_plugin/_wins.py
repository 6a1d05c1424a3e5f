"""Coded answers to wins: names that are used, ties as two halves, and what is counted."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from bbq_plugin._coding import left_rate, median_time_s, sides_known
from bbq_plugin._singles import answers_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bbq_plugin.comparisons import Comparisons

    Mask = NDArray[np.bool_]

# Indices into OUTCOMES; what is not below TIE is a tie of some kind.
RIGHT, TIE, BOTH_BAD = 1, 2, 3


def wins_of(
    columns: dict[str, NDArray[Any]],
    keep: Mask,
    items: tuple[str, ...],
    raters: tuple[str, ...],
) -> dict[str, Any]:
    """The arrays and counts of `Comparisons` from those answers that are kept."""
    if not keep.all():
        columns = {name: column[keep] for name, column in columns.items()}
    rater, left, right = columns["rater"], columns["left"], columns["right"]
    (rater,), raters = _used(raters, rater)
    (left, right), items = _used(items, left, right)
    outcome, weight = columns["outcome"], columns["weight"]
    decided = outcome < TIE
    sided = decided & (columns["slate"] == 0)
    went_left = outcome[sided] != RIGHT
    known = sides_known(rater[sided], went_left, len(raters))
    timed = ~np.isnan(columns["time_s"])
    answers: dict[str, Any] = {
        "n_comparisons": int(outcome.size),
        "n_ties": int((outcome == TIE).sum()),
        "n_both_bad": int((outcome == BOTH_BAD).sum()),
        "both_bad_rate": _both_bad_rate(left, right, outcome == BOTH_BAD, len(items)),
        "n_sided": int(went_left.size) if known else 0,
        "n_left": int(went_left.sum()) if known else 0,
        "left_rate": left_rate(rater[sided], went_left, len(raters)) if known and raters else None,
        "left_excess": _left_excess(left, right, columns["slate"] == 0, len(items))
        if known
        else None,
        "median_time_s": median_time_s(rater[timed], columns["time_s"][timed], len(raters)),
        "items": items,
        "raters": raters,
        "has_raters": len(raters) > 0,
    }
    first = outcome != RIGHT
    row = half = None
    if not decided.all():
        # A tie is two half wins, one each way, next to each other.
        row = np.repeat(np.arange(outcome.size), np.where(decided, 1, 2))
        again = np.zeros(row.size, dtype=np.bool_)
        again[1:] = row[1:] == row[:-1]
        weight = np.where(decided, weight, weight / 2)[row]
        rater, left, right, first = rater[row], left[row], right[row], first[row] & ~again
        half = np.where(decided[row], 0, 1 + again).astype(np.int8)
    if raters:
        answers["answers"] = answers_of(columns, row, half, sides=known)
    return answers | {
        "rater": rater,
        "winner": np.where(first, left, right),
        "loser": np.where(first, right, left),
        "weight": weight,
    }


def _left_excess(
    left: NDArray[Any], right: NDArray[Any], shown: Mask, n_items: int
) -> NDArray[np.int64]:
    n_left = np.bincount(left[shown], minlength=n_items)
    return np.asarray(n_left - np.bincount(right[shown], minlength=n_items), dtype=np.int64)


def _both_bad_rate(
    left: NDArray[Any], right: NDArray[Any], both_bad: Mask, n_items: int
) -> NDArray[np.float64] | None:
    if not both_bad.any():
        return None
    n = np.bincount(left, minlength=n_items) + np.bincount(right, minlength=n_items)
    bad = np.bincount(left[both_bad], minlength=n_items)
    bad += np.bincount(right[both_bad], minlength=n_items)
    # Every item that is left here has been compared.
    return np.asarray(bad / n, dtype=np.float64)


def _used(
    names: tuple[str, ...], *columns: NDArray[Any]
) -> tuple[list[NDArray[Any]], tuple[str, ...]]:
    """The codes counted anew over the names that occur; code −1 (nobody) becomes 0."""
    seen = np.zeros(len(names) + 1, dtype=np.bool_)
    for column in columns:
        seen[column] = True
    seen[-1] = False
    code = np.cumsum(seen, dtype=np.int32) - np.int32(1)
    code[-1] = 0
    used = tuple(name for name, is_used in zip(names, seen.tolist(), strict=False) if is_used)
    return [code[column] for column in columns], used


def digest_of(data: Comparisons) -> str:
    """SHA-256 over the sorted names and the rows sorted by them."""
    item_order = sorted(range(data.n_items), key=data.items.__getitem__)
    rater_order = sorted(range(data.n_raters), key=data.raters.__getitem__)
    item_rank, rater_rank = np.empty(data.n_items, "<i4"), np.zeros(max(1, data.n_raters), "<i4")
    item_rank[item_order] = np.arange(data.n_items)
    rater_rank[rater_order] = np.arange(data.n_raters)
    rows = [
        rater_rank[data.rater],
        item_rank[data.winner],
        item_rank[data.loser],
        data.weight.astype("<f8"),
    ]
    order = np.lexsort(rows[::-1])
    digest = hashlib.sha256(b"bbq.comparisons/1\0" + (b"rated" if data.has_raters else b"unrated"))
    for names in (data.items, data.raters):
        digest.update(b"\0".join(b"%d %s" % (len(t), t) for t in _encoded(sorted(names))) + b"\n")
    for column in rows:
        digest.update(column[order].tobytes())
    return digest.hexdigest()


def _encoded(names: list[str]) -> list[bytes]:
    return [name.encode("utf-8", "surrogatepass") for name in names]
