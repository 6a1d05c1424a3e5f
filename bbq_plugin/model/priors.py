"""What is believed before the first vote: skills ~ Gamma(a, b), qualities ~ Beta(alpha, beta).

A population of raters may have two parts, the honest ones and the guessers; then quality is drawn
from ``guessers * Beta(1, guesser_beta) + (1 - guessers) * Beta(alpha, beta)``.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from bbq_plugin.errors import UsageError

# With 99 a guesser answers by the model in one comparison out of a hundred, on average: a coin, in
# short, but with a density, so that all parts of the population are integrated in the same way.
GUESSER_BETA = 99.0


@dataclass(frozen=True, slots=True)
class Priors:
    """The paper's priors unless told otherwise; ``a=1, b=0`` is no prior on the items at all.

    ``guessers`` is the expected share of raters who guess (0: one population, as in the paper);
    their quality is Beta(1, ``guesser_beta``), with its mean near 0.
    ``estimated`` marks priors that were fitted to the data at hand.
    """

    a: float = 5.0
    b: float = 0.1
    alpha: float = 10.0
    beta: float = 2.0
    guessers: float = 0.0
    estimated: bool = False
    guesser_beta: float = GUESSER_BETA

    def __post_init__(self) -> None:
        for name in ("a", "b", "alpha", "beta", "guessers", "guesser_beta"):
            if not math.isfinite(getattr(self, name)):
                raise UsageError(f"Priors({name}={getattr(self, name)}): not a finite number")
        if min(self.alpha, self.beta, self.guesser_beta) < 1:
            raise UsageError(
                f"Priors(alpha={self.alpha}, beta={self.beta}, guesser_beta={self.guesser_beta}): "
                "each must be at least 1, "
                "else the posterior has no maximum (it grows without bound at quality 0 or 1)"
            )
        if not 0 <= self.guessers < 1:
            raise UsageError(f"Priors(guessers={self.guessers}): a share, at least 0 and below 1")
        if self.estimated:
            if self.a <= 0 or self.b <= 0:
                raise UsageError(f"Priors(a={self.a}, b={self.b}): both must be above 0")
        elif not ((self.a > 1 and self.b > 0) or (self.a == 1 and self.b == 0)):
            raise UsageError(
                f"Priors(a={self.a}, b={self.b}): use a > 1 with b > 0, "
                "or a = 1 with b = 0 for no prior on the items (plain Bradley-Terry)"
            )

    @property
    def flat_items(self) -> bool:
        """Whether there is no prior on the items (plain Bradley-Terry)."""
        return self.b == 0

    def components(self) -> tuple[tuple[float, float, float], ...]:
        """(share, alpha, beta) of each part of the population of raters; the honest come first."""
        honest = (1.0 - self.guessers, self.alpha, self.beta)
        if self.guessers == 0:
            return (honest,)
        return (honest, (self.guessers, 1.0, self.guesser_beta))

    def describe(self) -> dict[str, float | str]:
        """The numbers, and where they come from, for a report."""
        numbers, given = asdict(self), "paper" if self == Priors() else "given"
        return {"source": "estimated" if numbers.pop("estimated") else given, **numbers}

    def text(self, *, rated: bool = True) -> str:
        """In words; without the part on raters where the model has none."""
        what = f"skill ~ Gamma({self.a:.4g}, {self.b:.4g}), " if self.b else "no prior on skills, "
        if rated:
            what += f"quality ~ Beta({self.alpha:.4g}, {self.beta:.4g})"
            what += f", {self.guessers:.0%} guessers" if self.guessers else ""
        return f"{self.describe()['source']}: {what.removesuffix(', ')}"

    __str__ = text


@dataclass(frozen=True, slots=True)
class CrowdPriors:
    """What Crowd-BT believes: eta ~ Beta(alpha, beta), and a virtual item all have tied with."""

    tie_to_zero: float = 0.5
    alpha: float = 10.0
    beta: float = 1.0

    def describe(self) -> dict[str, float | str]:
        """The numbers, and where they come from, for a report."""
        return {"source": "crowd-bt", **asdict(self)}

    def text(self, *, rated: bool = True) -> str:
        """In words; crowd-bt always has raters."""
        del rated
        eta = f"eta ~ Beta({self.alpha:g}, {self.beta:g})"
        return f"crowd-bt: {eta}, virtual item of weight {self.tie_to_zero:g}"

    __str__ = text


@dataclass(frozen=True, slots=True)
class SignedPriors:
    """Skills ~ Gamma(a, b); (q+, q0, q-) of each rater ~ Dirichlet(informed, guessed, inverted)."""

    a: float = 5.0
    b: float = 0.1
    informed: float = 4.0
    guessed: float = 1.2
    inverted: float = 1.05

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not math.isfinite(value):
                raise UsageError(f"SignedPriors({name}={value}): not a finite number")
        if self.a <= 1 or self.b <= 0:
            raise UsageError(f"SignedPriors(a={self.a}, b={self.b}): use a > 1 with b > 0")
        if self.informed <= 1 or self.guessed <= 1 or self.inverted < 1:
            raise UsageError(
                f"SignedPriors(informed={self.informed}, guessed={self.guessed}, "
                f"inverted={self.inverted}): the first two above 1, the third at least 1, "
                "else the posterior has no maximum"
            )

    def describe(self) -> dict[str, float | str]:
        """The numbers, and where they come from, for a report."""
        return {"source": "default" if self == SignedPriors() else "given", **asdict(self)}

    def text(self, *, rated: bool = True) -> str:
        """In words; without the part on raters where none is named."""
        what = f"skill ~ Gamma({self.a:.4g}, {self.b:.4g})"
        if rated:
            what += (
                ", (informed, guessed, inverted) ~ "
                f"Dirichlet({self.informed:.4g}, {self.guessed:.4g}, {self.inverted:.4g})"
            )
        return f"{self.describe()['source']}: {what}"

    __str__ = text


AnyPriors = Priors | SignedPriors | CrowdPriors
