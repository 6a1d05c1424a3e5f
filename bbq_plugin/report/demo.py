"""The demo: a study with bad raters, its files, its fit, and where the truth was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from bbq_plugin.insight import leaderboard, rater_report
from bbq_plugin.model import fit
from bbq_plugin.registry import read
from bbq_plugin.report.tables import leaderboard_table, raters_table, summary_lines
from bbq_plugin.report.truth import check_against_truth
from bbq_plugin.simulation import simulate
from bbq_plugin.simulation.files import write_study, write_truth

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

RATERS_SHOWN = 12


def run_demo(folder: Path, seed: int, console: Console) -> None:
    """Simulate into a folder, read the votes back as anyone would, fit and compare."""
    study = simulate(
        items=8,
        raters=40,
        comparisons=4800,
        guessers=0.15,
        inverted=0.05,
        left_bias=0.5,
        ties=0.1,
        spread=1.0,
        seed=seed,
    )
    votes, truth_file = folder / "votes.jsonl", folder / "truth.json"
    with votes.open("w", encoding="utf-8") as file:
        write_study(study, file, "arena")
    with truth_file.open("w", encoding="utf-8") as file:
        write_truth(study.truth, file)

    data = read(votes)
    fitted = fit(data, priors="auto")
    board = leaderboard(fitted)
    raters = rater_report(fitted)
    check = check_against_truth(board, raters, study.truth)
    opening = "A simulated study, in which some raters guess or answer upside down:"
    console.print(Text(opening, style="bold"))
    for line in summary_lines(data, fitted):
        console.print(Text(line))
    console.print(leaderboard_table(board, check.rating))
    console.print(raters_table(raters, RATERS_SHOWN, kinds=check.kind, reasons=False))
    worst = min(raters, key=lambda row: row.quality)
    for reason in worst.reasons:
        console.print(Text(f"{worst.rater} {reason}."))
    console.print(Text("Where the truth was:", style="bold"))
    for line in check.lines():
        console.print(Text(line))
