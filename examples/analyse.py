"""From votes to decisions: who is best, whom to trust, what to compare next.

    python examples/analyse.py [votes.jsonl]

Without a file it makes a study of its own, in which a fifth of the raters guess.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import bbq_plugin as bbq
from bbq_plugin.simulation import write_study


def main() -> None:
    """Read, fit, and print what one would act on."""
    data = bbq.read(sys.argv[1]) if len(sys.argv) > 1 else simulated()
    print(data)

    # priors="auto" estimates how good the raters are as a group, and how many of them guess.
    fit = bbq.fit(data, priors="auto")
    board = bbq.leaderboard(fit)
    print(f"\n{'rank':>9}  {'item':<10} {'rating':>6}  {board.level:.0%} interval   P(best)")
    for row in board:
        rank = f"{row.rank} ({row.rank_best}-{row.rank_worst})"
        interval = f"{row.rating_lower:5.0f} to {row.rating_upper:5.0f}"
        print(f"{rank:>9}  {row.item:<10} {row.rating:6.0f}  {interval}  {row.p_best:7.1%}")

    # P(row i is better than row j), in the order of the leaderboard
    first, second = board[0], board[1]
    print(f"\nP({first.item} is better than {second.item}) = {board.better[0, 1]:.3f}")

    print("\nRaters to look at:")
    for rater in bbq.rater_report(fit):
        if rater.verdict != "keep":
            print(f"  {rater.rater}: {rater.verdict}, {'; '.join(rater.reasons)}")

    print("\nPairs to compare next:")
    for pair in bbq.next_pairs(fit, 5):
        print(f"  {pair.item_a} and {pair.item_b}, P(first is better) = {pair.p_a_better:.2f}")

    # The draws of the posterior answer any other question: here, the best two in any order.
    draws = fit.sample(2000, seed=0).theta
    best_two = {first.item, second.item}
    top = (-draws).argsort(axis=1)[:, :2]
    same = sum({fit.items[i] for i in pair} == best_two for pair in top.tolist())
    print(f"\nP({first.item} and {second.item} are the best two) = {same / len(draws):.2f}")


def simulated() -> bbq.Comparisons:
    """Votes as a file, as a labelling tool would export them, read back."""
    study = bbq.simulate(
        items=6, raters=30, comparisons=1200, guessers=0.2, ties=0.1, spread=0.7, seed=4
    )
    with TemporaryDirectory() as folder:
        votes = Path(folder) / "votes.jsonl"
        with votes.open("w", encoding="utf-8") as file:
            write_study(study, file, "arena")
        return bbq.read(votes)


if __name__ == "__main__":
    main()
