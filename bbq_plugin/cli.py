"""The command line: it parses, calls and prints. The work is done elsewhere.

Imports stand inside the commands, because `bbq --help` should not wait for numba.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bbq_plugin import __version__
from bbq_plugin.errors import BBQError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from rich.console import Console

    from bbq_plugin.comparisons import Comparisons
    from bbq_plugin.insight import Leaderboard, RaterReport
    from bbq_plugin.model import Fit

# More raters than this on a screen are noise; the JSON report has all of them.
RATERS_SHOWN = 15

# In a pipe rich would cut tables at 80 columns and lose numbers.
PIPE_WIDTH = 132

_Command = TypeVar("_Command", bound="Callable[..., Any]")


class _Commands(click.Group):
    """Turns this package's errors into a line on standard error and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UsageError as error:
            raise click.UsageError(_printable(error), ctx) from error
        except (BBQError, OSError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            click.echo(f"Error: {_printable(error)}", err=True)
            ctx.exit(1)


def _printable(error: Exception) -> str:
    from bbq_plugin.report.text import plain

    return plain(str(error))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="bbq")
def main() -> None:
    """Leaderboards with honest intervals, and rater quality, from pairwise votes."""


def _fit_options(command: _Command) -> _Command:
    options = [
        click.option(
            "--model",
            type=click.Choice(["bbq", "bayes-bt", "crowd-bt"]),
            default="bbq",
            show_default=True,
            help="bbq: Bradley-Terry with rater quality. bayes-bt: the same, raters taken as "
            "equal. crowd-bt: Chen et al. 2013.",
        ),
        click.option(
            "--solver",
            type=click.Choice(["auto", "em"]),
            default="auto",
            show_default=True,
            help="auto: accelerated. em: the paper's closed-form steps. Same optimum.",
        ),
        click.option(
            "--intervals",
            type=click.Choice(["auto", "laplace", "posterior", "bootstrap", "paper"]),
            default="auto",
            show_default=True,
            help="How uncertainty is computed.",
        ),
        click.option(
            "--level",
            type=click.FloatRange(0, 1, min_open=True, max_open=True),
            default=0.95,
            show_default=True,
            help="Probability that an interval is meant to hold the truth.",
        ),
        click.option(
            "--priors",
            help="auto: estimated from the data. paper: a=5, b=0.1, alpha=10, beta=2. "
            "Or four numbers a,b,alpha,beta. Default: auto; with --solver em, paper; "
            "crowd-bt has its own.",
        ),
        click.option(
            "--scale",
            type=click.Choice(["elo", "paper", "theta"]),
            default="elo",
            show_default=True,
            help="Scale of the ratings; theta is always in the report.",
        ),
        click.option(
            "--seed", default=0, show_default=True, help="Seed of whatever is drawn at random."
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@main.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="table: for people. json: the whole report. csv: the leaderboard.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write instead.")
@_fit_options
@click.option("--adapter", help="How to read the files; recognised by their content if not given.")
@click.option(
    "--both-bad",
    type=click.Choice(["tie", "drop"]),
    default="tie",
    show_default=True,
    help="What a vote 'both are bad' counts as.",
)
def fit(
    files: tuple[Path, ...],
    output_format: str,
    output: Path | None,
    adapter: str | None,
    both_bad: str,
    **options: Any,
) -> None:
    """Fit FILES together and print leaderboard and raters."""
    from bbq_plugin import report
    from bbq_plugin.registry import read

    # Only what differs from the default is passed on: an adapter may not know the option.
    adapter_options = {} if both_bad == "tie" else {"both_bad": both_bad}
    with _working("Reading"):
        data = read(files, adapter, **adapter_options)
    fitted, board, raters = _fit_and_judge(data, **options)
    if output_format == "json":
        text = report.report_json(report.report_dict(data, fitted, board, raters))
    elif output_format == "csv":
        text = report.leaderboard_csv(board)
    else:
        _print_tables(data, fitted, board, raters, output)
        return
    if output is None:
        click.echo(text, nl=False)
    else:
        report.write_atomically(output, text)


def _fit_and_judge(
    data: Comparisons,
    *,
    model: Any,
    solver: Any,
    priors: str | None,
    intervals: Any,
    level: float,
    scale: Any,
    seed: int,
) -> tuple[Fit, Leaderboard, RaterReport]:
    chosen = _priors(priors, model, solver)
    with _working("Fitting"):
        from bbq_plugin.insight import leaderboard, rater_report
        from bbq_plugin.model import fit as fit_model

        fitted = fit_model(data, model=model, priors=chosen, solver=solver)
    with _working("Computing intervals"):
        board = leaderboard(fitted, intervals=intervals, level=level, scale=scale, seed=seed)
        raters = rater_report(fitted, level=level)
    return fitted, board, raters


def _priors(text: str | None, model: str, solver: str) -> Any:
    if text is None:
        # Neither the closed-form steps nor crowd-bt know of a population to estimate.
        return "paper" if solver == "em" or model == "crowd-bt" else "auto"
    if text in ("auto", "paper"):
        return text
    try:
        a, b, alpha, beta = map(float, text.split(","))
    except ValueError:
        raise UsageError(
            f"--priors is {text!r}; expected auto, paper or four numbers a,b,alpha,beta"
        ) from None
    from bbq_plugin.model import Priors

    return Priors(a=a, b=b, alpha=alpha, beta=beta)


def _print_tables(
    data: Comparisons, fitted: Fit, board: Leaderboard, raters: RaterReport, output: Path | None
) -> None:
    import io

    from rich.text import Text

    from bbq_plugin import report
    from bbq_plugin.report.document import all_warnings
    from bbq_plugin.report.text import plain

    buffer = io.StringIO() if output else None
    console = _console(buffer)
    for line in report.summary_lines(data, fitted):
        console.print(Text(line))
    console.print(report.leaderboard_table(board))
    if fitted.rated:
        console.print(report.raters_table(raters, RATERS_SHOWN))
    for warning in all_warnings(fitted, board, raters):
        console.print(Text(f"Warning: {plain(warning)}", style="yellow"))
    if output and buffer:
        report.write_atomically(output, buffer.getvalue())


def _console(file: Any = None, **options: Any) -> Console:
    from rich.console import Console

    console = Console(file=file, highlight=False, **options)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def _working(what: str) -> AbstractContextManager[Any]:
    """A sign of life on a terminal; nothing in a pipe."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(f"{what} …")


def _study_options(command: _Command) -> _Command:
    share = click.FloatRange(0, 1)
    options = [
        click.option("--items", default=8, show_default=True, help="Number of items."),
        click.option("--raters", default=40, show_default=True, help="Number of raters."),
        click.option("--comparisons", default=1520, show_default=True, help="Number of answers."),
        click.option("--guessers", type=share, default=0.0, help="Share of raters who guess."),
        click.option(
            "--inverted", type=share, default=0.0, help="Share of raters who answer upside down."
        ),
        click.option(
            "--left-bias",
            type=share,
            default=0.0,
            help="Share of guessed answers that go left whatever is shown.",
        ),
        click.option(
            "--ties", type=share, default=0.0, help="Probability that two equal items tie."
        ),
        click.option("--slate", default=2, show_default=True, help="Items shown at once."),
        click.option(
            "--answer",
            type=click.Choice(["best", "rank"]),
            default="best",
            show_default=True,
            help="What is said of a slate: the best item, or a full ranking.",
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
            "--median-votes", type=float, help="Log-normal votes a rater, with this median."
        ),
        click.option("--seed", default=0, show_default=True, help="Seed of the study."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@main.command()
@_study_options
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["arena", "afc", "comparisons"]),
    default="arena",
    show_default=True,
    help="arena: JSON lines. afc: a forced-choice log (CSV). comparisons: weighted wins (CSV).",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File for the answers.")
@click.option(
    "--truth",
    type=click.Path(path_type=Path),
    help="File for the truth; beside OUTPUT as .truth.json if not given.",
)
def simulate(file_format: Any, output: Path | None, truth: Path | None, **design: Any) -> None:
    """Write a study with known truth."""
    import io

    from bbq_plugin.report import write_atomically
    from bbq_plugin.simulation import simulate as draw
    from bbq_plugin.simulation.files import write_study, write_truth

    with _working("Simulating"):
        study = draw(**design)
    answers = io.StringIO()
    write_study(study, answers, file_format)
    if output is None:
        click.echo(answers.getvalue(), nl=False)
    else:
        write_atomically(output, answers.getvalue())
        truth = truth or output.with_suffix(".truth.json")
    if truth is not None:
        known = io.StringIO()
        write_truth(study.truth, known)
        write_atomically(truth, known.getvalue())


@main.command()
@click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--seed", default=0, show_default=True, help="Seed of the study.")
@click.option("--svg", type=click.Path(path_type=Path), help="Also draw the screen into this file.")
def demo(folder: Path | None, seed: int, svg: Path | None) -> None:
    """Simulate a study with bad raters, fit it, and compare with the truth.

    The votes and the truth stay in FOLDER if it is given.
    """
    from tempfile import TemporaryDirectory

    from bbq_plugin.report.demo import run_demo

    console = _console(record=svg is not None, **({"width": 110} if svg else {}))
    if folder is None:
        with TemporaryDirectory(prefix="bbq-demo-") as temporary:
            run_demo(Path(temporary), seed, console)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        run_demo(folder, seed, console)
        click.echo(f"The files are in {folder}.")
    if svg is not None:
        from bbq_plugin.report import write_atomically
        from bbq_plugin.report.screen import screen_svg

        write_atomically(svg, screen_svg(console, "bbq demo"))
