"""Votes of a small study, in the shapes that people keep them in; all made here."""

from __future__ import annotations

import csv
import io
import random
from itertools import combinations

ITEMS = ("oak", "elm", "ash", "fir", "yew")
STRENGTH = dict(zip(ITEMS, (5.0, 3.0, 2.0, 1.2, 0.7), strict=True))
RATERS = ("ann", "bob", "cat", "dan")
#: Left, right, the winner, the rater.
Vote = tuple[str, str, str, str]


def votes(n: int = 120, seed: int = 1) -> list[Vote]:
    """Pairs of all items in turn, each with its winner and its rater."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    pairs = list(combinations(ITEMS, 2))
    out = []
    for i in range(n):
        a, b = pairs[i % len(pairs)]
        a, b = (b, a) if draw.random() < 0.5 else (a, b)
        first = draw.random() < STRENGTH[a] / (STRENGTH[a] + STRENGTH[b])
        out.append((a, b, a if first else b, RATERS[i % 4]))
    return out


def orders(n: int = 40, seed: int = 2) -> list[list[str]]:
    """Rankings of all items, best first."""
    draw = random.Random(seed)  # noqa: S311
    return [sorted(ITEMS, key=lambda one: -STRENGTH[one] * draw.random()) for _ in range(n)]


def loser(vote: Vote) -> str:
    """The item that did not win."""
    return vote[1] if vote[2] == vote[0] else vote[0]


def table(head: list[str] | None, rows: list[list[object]], sign: str = ",") -> str:
    """Rows as delimited text."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=sign, lineterminator="\n")
    if head:
        writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()


def chosen(codes: tuple[object, object], *, third: object = None) -> list[list[object]]:
    """Rater, left, right and a code for the choice; every ninth row has the third value."""
    return [
        [who, a, b, third if third is not None and i % 9 == 0 else codes[winner == b]]
        for i, (a, b, winner, who) in enumerate(votes())
    ]
