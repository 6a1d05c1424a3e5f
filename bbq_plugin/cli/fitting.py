"""Options of a fit, the same for every command that fits."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bbq_plugin.cli.output import working
from bbq_plugin.cli.types import Choice, Probability
from bbq_plugin.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbq_plugin.cli.reading import Input
    from bbq_plugin.comparisons import Comparisons
    from bbq_plugin.model import Fit

_Command = TypeVar("_Command", bound="Callable[..., Any]")

PRIORS_HELP = (
    "auto: estimated from the data. paper: a=5, b=0.1, alpha=10, beta=2. "
    "Or four numbers a,b,alpha,beta."
)

model_option = click.option(
    "--model",
    type=Choice(["bbq", "bbq-signed", "bayes-bt", "crowd-bt"]),
    default="bbq",
    show_default=True,
    help="bbq: Bradley-Terry with rater quality. bbq-signed: the same for raters who may answer "
    "upside down. bayes-bt: raters taken as equal. crowd-bt: Chen et al. 2013.",
)
#: The models that verdicts can be had from.
JUDGED_MODELS = ("bbq", "bbq-signed")
judged_model_option = click.option(
    "--model",
    type=Choice(list(JUDGED_MODELS)),
    default="bbq",
    show_default=True,
    help="bbq-signed uses the answers of raters who answer upside down, turned round.",
)
solver_option = click.option(
    "--solver",
    type=Choice(["auto", "em"]),
    default="auto",
    show_default=True,
    help="auto: accelerated. em: the paper's closed-form steps. Same optimum.",
)
priors_option = click.option(
    "--priors",
    help=f"{PRIORS_HELP} Default: auto; with --solver em, paper. bbq-signed has its own, or takes "
    "five numbers a,b,informed,guessed,inverted; crowd-bt has its own.",
)
level_option = click.option(
    "--level",
    type=Probability(),
    default=0.95,
    show_default=True,
    help="Probability that an interval is meant to hold the truth.",
)
false_rate_option = click.option(
    "--false-rate",
    type=Probability(),
    default=0.05,
    show_default=True,
    help="Share of honest raters to expect among the excluded, at most.",
)
least_option = click.option(
    "--least",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Answers a rater must have before exclusion.",
)
before_option = click.option(
    "--before",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="An earlier JSON report; who was excluded there comes back only when little is left "
    "against them.",
)
intervals_option = click.option(
    "--intervals",
    type=Choice(["auto", "laplace", "posterior", "bootstrap", "paper"]),
    default="auto",
    show_default=True,
    help="How uncertainty is computed.",
)
scale_option = click.option(
    "--scale",
    type=Choice(["elo", "paper", "theta"]),
    default="elo",
    show_default=True,
    help="Scale of the ratings; theta is always in the report.",
)


def options(*chosen: Callable[[Any], Any]) -> Callable[[_Command], _Command]:
    """Several options at once, in this order."""

    def decorate(command: _Command) -> _Command:
        for option in reversed(chosen):
            command = option(command)
        return command

    return decorate


def fitted(data: Comparisons, model: Any, priors: str | None, solver: Any = "auto") -> Fit:
    """Fit, with a sign of life."""
    return fitted_with(data, model, parsed_priors(priors, model, solver), solver)


def fitted_with(data: Comparisons, model: Any, priors: Any, solver: Any = "auto") -> Fit:
    """The same with the priors of `bbq.toml`, which are read already."""
    with working("Fitting"):
        from bbq_plugin.model import fit

        return fit(data, model=model, priors=priors, solver=solver)


def check_intervals(model: str, intervals: str) -> None:
    """Refuse intervals that a model does not have, before the files are read."""
    if model in ("bbq-signed", "crowd-bt") and intervals in ("posterior", "paper"):
        raise UsageError(
            f"--intervals {intervals} is not defined for --model {model}; "
            "use --intervals laplace or bootstrap, or --model bbq"
        )


def excluded_before(source: Input, data: Comparisons, before: Path | None) -> tuple[set[str], str]:
    """Whom an earlier report excluded, as they are called here, and a warning if some are not."""
    if before is None:
        return set(), ""
    from bbq_plugin.report import excluded_names

    named = excluded_names(before.read_bytes(), str(before))
    known = source.known_as(named)
    here = set(data.raters)
    gone = sum(not here & {name, source.rater_name(name)} for name in named)
    if not gone:
        return known, ""
    return known, (
        f"{gone:,} of the {len(named):,} raters that {before} excludes are not in these data, and "
        "are not kept out; if it was made with --pseudonymise, use the same key here "
        "(--pseudonym-key-file, BBQ_PSEUDONYM_KEY)"
    )


def parsed_priors(text: str | None, model: str, solver: str = "auto") -> Any:
    """From what was typed to what ``fit`` takes."""
    if text is None:
        # Neither the closed-form steps nor these models know of a population to estimate.
        own = solver == "em" or model in ("crowd-bt", "bbq-signed")
        return "paper" if own else "auto"
    if model == "bbq-signed":
        return _signed_priors(text)
    if model == "crowd-bt":
        raise UsageError(
            f"--priors is {text!r}, and --model crowd-bt has priors of its own (Chen et al. 2013); "
            "leave --priors out"
        )
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


def _signed_priors(text: str) -> Any:
    """Priors of bbq-signed, which knows neither the paper's nor estimated ones."""
    from bbq_plugin.model import SignedPriors

    try:
        a, b, informed, guessed, inverted = map(float, text.split(","))
    except ValueError:
        raise UsageError(
            f"--priors is {text!r}, and --model bbq-signed has priors of its own: leave --priors "
            "out, or give five numbers a,b,informed,guessed,inverted such as "
            f"{','.join(f'{value:g}' for value in astuple(SignedPriors()))}"
        ) from None
    return SignedPriors(a=a, b=b, informed=informed, guessed=guessed, inverted=inverted)
