"""`bbq simulate` and `bbq demo`: studies with a known truth."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bbq_plugin.cli.main import Command
from bbq_plugin.cli.options import FILE, Choice, option_of, together
from bbq_plugin.cli.output import check_writable, console, emit, tell, working
from bbq_plugin.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console


def screen_svg(console: Console, title: str) -> str:
    """Draw a recorded console as SVG that fetches nothing."""
    # A fixed id, so that the same screen gives the same file.
    svg = console.export_svg(title=title, unique_id="screen")
    # rich's template loads its font from a content network; a local monospace does as well.
    return re.sub(r"\s*@font-face\s*{[^}]*}", "", svg)


_SHARE = click.FloatRange(0, 1)
_study_options = together(
    click.option("--items", default=8, show_default=True, help="Number of items."),
    click.option("--raters", default=40, show_default=True, help="Number of raters."),
    click.option("--comparisons", default=1520, show_default=True, help="Number of answers."),
    click.option("--guessers", type=_SHARE, default=0.0, help="Share of raters who guess."),
    click.option(
        "--inverted", type=_SHARE, default=0.0, help="Share of raters who answer inverted."
    ),
    click.option(
        "--minority",
        type=_SHARE,
        default=0.0,
        help="Share of honest raters with a ranking of their own: a divided panel.",
    ),
    click.option(
        "--left-bias",
        type=_SHARE,
        default=0.0,
        help="Share of guessed answers that choose the left item.",
    ),
    click.option("--ties", type=_SHARE, default=0.0, help="Probability that two equal items tie."),
    click.option("--slate", default=2, show_default=True, help="Items shown at once."),
    click.option(
        "--answer",
        type=Choice(["best", "rank"]),
        default="best",
        show_default=True,
        help="What a rater answers about a slate: the best item, or a full ranking.",
    ),
    click.option(
        "--quality",
        nargs=2,
        type=float,
        default=(10.0, 2.0),
        show_default=True,
        help="Beta distribution of the honest raters' quality.",
    ),
    click.option("--shape", default=5.0, show_default=True, help="Gamma shape of the skills."),
    click.option("--spread", type=float, help="Normal skills with this sd in nats instead."),
    click.option(
        "--median-votes", type=float, help="Median of the votes per rater, which are log-normal."
    ),
    option_of("seed", help="Seed of the study."),
)


@click.command(cls=Command)
@_study_options
@click.option(
    "--format",
    "file_format",
    type=Choice(["arena", "afc", "comparisons"]),
    default="arena",
    show_default=True,
    help="arena: JSON lines. afc: a forced-choice log (CSV). comparisons: weighted wins (CSV).",
)
@click.option("-o", "--output", type=FILE, help="File for the answers.")
@click.option(
    "--truth",
    type=FILE,
    help="File for the truth. Default: beside OUTPUT, with the suffix .truth.json.",
)
def simulate(file_format: Any, output: Path | None, truth: Path | None, **design: Any) -> None:
    """Write a simulated study whose truth is known."""
    import io

    from bbq_plugin.simulation import simulate as draw
    from bbq_plugin.simulation import write_study, write_truth

    check_writable(output)
    check_writable(truth)
    with working("Simulating"):
        study = draw(**design)
    answers = io.StringIO()
    write_study(study, answers, file_format)
    emit(answers.getvalue(), output)
    if output is not None:
        truth = truth or output.with_suffix(".truth.json")
    if truth is not None:
        known = io.StringIO()
        write_truth(study.truth, known)
        emit(known.getvalue(), truth)


@click.command(cls=Command)
@click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path))
@option_of("seed", help="Seed of the study.")
@click.option("--svg", type=FILE, help="Also write the screen as SVG into this file.")
def demo(folder: Path | None, seed: int, svg: Path | None) -> None:
    """Show bbq at work on a simulated study.

    Votes arrive file by file in a folder that a daemon watches; the leaderboard changes, and bad
    raters are found. At the end all results are compared with the truth. They stay in FOLDER, or
    in a new temporary folder.
    """
    from tempfile import mkdtemp

    from bbq_plugin.live.demo import run_demo

    check_writable(svg)
    screen = console(record=svg is not None, **({"width": 110} if svg else {}))
    if folder is None:
        folder = Path(mkdtemp(prefix="bbq-demo-"))
    elif folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; name a new folder for the demo")
    folder.mkdir(parents=True, exist_ok=True)
    report = run_demo(folder, seed, screen)
    tell(f"the report is {report}")
    if svg is not None:
        emit(screen_svg(screen, "bbq demo"), svg)
