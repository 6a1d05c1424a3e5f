"""Options of a fit and kinds of option values, the same for every command."""

from __future__ import annotations

from dataclasses import astuple
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bbq_plugin.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbq_plugin.cli.inputs import Input
    from bbq_plugin.data.dataset import Comparisons
    from bbq_plugin.model import Fit

if TYPE_CHECKING:
    from collections.abc import Iterable

    # Only new versions of click take the type in brackets when the program runs.
    _Words = click.Choice[str]
    _Number = click.ParamType[float]
    _Pair = click.ParamType[tuple[str, str]]
else:
    _Words, _Number, _Pair = click.Choice, click.ParamType, click.ParamType

#: What --seed takes, whatever is drawn.
SEED = click.IntRange(min=0)


def near_miss(word: str, known: Iterable[str]) -> str:
    """A question to put behind a message, or nothing."""
    by_lower = {one.lower(): one for one in known}
    close = get_close_matches(word.lower(), by_lower, n=1)
    return f" Did you mean {by_lower[close[0]]!r}?" if close else ""


class Choice(_Words):
    """One of some words; a near miss is recognised."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Take the word, or refuse it with the nearest one."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            known = [str(one) for one in self.choices]
            message = error.message + near_miss(str(value), known)
            raise click.BadParameter(message, ctx, param) from None


def _fraction(value: Any) -> tuple[str, float | None]:
    """What was typed, and its number: 1% is 0.01."""
    text = str(value).strip()
    number = _number(text.removesuffix("%"))
    return text, number / 100 if number is not None and text.endswith("%") else number


class Probability(_Number):
    """A number between 0 and 1, ends excluded, such as a level."""

    name = "probability"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Take 0.95 or 95%; 95 is refused with what was meant."""
        text, number = _fraction(value)
        if number is None:
            raise click.BadParameter(
                f"{text!r} is not a number; expected one such as 0.95.", ctx, param
            )
        if 0 < number < 1:
            return number
        meant = f" Did you mean {number / 100:g}?" if 1 < number < 100 else ""
        raise click.BadParameter(f"{text} is not between 0 and 1.{meant}", ctx, param)


class Share(_Number):
    """A share from nothing to all, as 1% or 0.01."""

    name = "share"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Take 1% or 0.01; 5 is refused, because it could be either."""
        text, number = _fraction(value)
        if number is None:
            raise click.BadParameter(
                f"{text!r} is not a share; expected one such as 1% or 0.01.", ctx, param
            )
        if 0 <= number <= 1:
            return number
        meant = f" Did you mean {number:g}%?" if 1 < number <= 100 and "%" not in text else ""
        raise click.BadParameter(f"{text} is not a share from 0% to 100%.{meant}", ctx, param)


class KeyValue(_Pair):
    """Two texts with an equals sign between them."""

    def __init__(self, key: str = "key", value: str = "value") -> None:
        self.name = f"{key}={value}"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Split at the first equals sign."""
        if isinstance(value, tuple):
            return value
        key, equals, rest = str(value).partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{value!r} has no '='; expected {self.name}.", ctx, param)
        return key.strip(), rest


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if number == number else None  # noqa: PLR0124 (not NaN)


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
    help="An earlier JSON report; a rater excluded there comes back only when little is left "
    "against them. Default with --store: the raters that the store has as excluded.",
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
    from bbq_plugin.cli.output import working

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
    """Who was excluded before, by their names here, and a warning if some are not in the data.

    An earlier report says so, or without one the store that is read.
    """
    if before is None:
        if source.store is None:
            return set(), ""
        from bbq_plugin.live.excluded import excluded_in
        from bbq_plugin.store import Store

        with Store(source.store, writable=False) as store:
            return source.known_as(excluded_in(store)), ""
    from bbq_plugin.report.json import excluded_names

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
