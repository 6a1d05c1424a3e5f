"""The keys of `bbq.toml`. This is the one table: everything else is made from these fields."""

# ruff: noqa: RUF009 (every _key is a field of its dataclass)

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from bbq_plugin.errors import SettingsError
from bbq_plugin.feedback import ASKABLE, Policy, kinds_of
from bbq_plugin.live.config.kinds import (
    Choice,
    FilePath,
    Kind,
    Names,
    Number,
    Options,
    PriorsText,
    Share,
    Switch,
    Text,
    Whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = [
    "KEYS",
    "OUTPUTS",
    "FeedbackSettings",
    "Key",
    "ModelSettings",
    "OutputSettings",
    "RaterSettings",
    "ReadSettings",
    "Settings",
]

OUTPUTS = ("report.json", "leaderboard.csv", "raters.csv", "report.html")


def _key(kind: Kind, meaning: str, *, default: Any = None) -> Any:
    about = {"kind": kind, "meaning": meaning}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=about)
    return field(default=default, metadata=about)


@dataclass(frozen=True)
class ReadSettings:
    """How files are read."""

    adapter: str | None = _key(
        Text(), "How to read the files; recognised by their content if absent."
    )
    options: Mapping[str, Any] = _key(
        Options(), "Options of the adapter; `bbq formats` lists them.", default={}
    )
    strict: bool = _key(
        Switch(), "Refuse a file at the first row of it that cannot be used.", default=False
    )
    max_skipped: float = _key(
        Share(), "Refuse a file of which more than this cannot be used.", default=0.01
    )
    exports: str = _key(
        Choice(("full", "increment")),
        "What a newer export of a project means: all there is, so that what it no longer holds is "
        "taken back, or only what is new.",
        default="full",
    )
    keep_tags: bool = _key(
        Switch(),
        "Keep the tags of large Arena files too, for --where; they are read faster without.",
        default=False,
    )


@dataclass(frozen=True)
class ModelSettings:
    """What is fitted, and how uncertainty is shown."""

    model: str = _key(
        Choice(("bbq", "bbq-signed", "bayes-bt", "crowd-bt")),
        "The model, as in `bbq fit`.",
        default="bbq",
    )
    priors: str | tuple[float, float, float, float] | None = _key(
        PriorsText(),
        "Priors, as in `bbq fit`: auto if absent; crowd-bt and bbq-signed have their own.",
    )
    intervals: str = _key(
        Choice(("auto", "laplace", "posterior", "bootstrap", "paper")),
        "How uncertainty is computed.",
        default="auto",
    )
    level: float = _key(
        Share(ends=False), "Probability that an interval is meant to hold the truth.", default=0.95
    )
    scale: str = _key(Choice(("elo", "paper", "theta")), "Scale of the ratings.", default="elo")
    seed: int = _key(Whole(), "Seed of whatever is random.", default=0)

    def fit_priors(self) -> Any:
        """What `fit` and `Engine` take as ``priors``."""
        if self.priors is None:
            # These know of no population to estimate.
            return "paper" if self.model in ("crowd-bt", "bbq-signed") else "auto"
        if isinstance(self.priors, str):
            return self.priors
        from bbq_plugin.model import Priors  # noqa: PLC0415 (numba: not for reading settings)

        a, b, alpha, beta = self.priors
        return Priors(a=a, b=b, alpha=alpha, beta=beta)


@dataclass(frozen=True)
class RaterSettings:
    """When a rater is to be excluded."""

    false_rate: float = _key(
        Share(ends=False),
        "Share of honest raters to expect among the excluded, at most.",
        default=0.05,
    )
    least: int = _key(Whole(1), "Answers a rater must have before exclusion.", default=10)


@dataclass(frozen=True)
class OutputSettings:
    """What is written after each refresh."""

    write: tuple[str, ...] = _key(Names(OUTPUTS), "The files to write into `out`.", default=OUTPUTS)
    pseudonymise: bool = _key(
        Switch(),
        "Replace rater names in all outputs by pseudonyms, with the key of BBQ_PSEUDONYM_KEY.",
        default=False,
    )
    pseudonym_key_file: Path | None = _key(
        FilePath(), "File with the key of the pseudonyms instead; implies pseudonymise."
    )


@dataclass(frozen=True)
class FeedbackSettings:
    """What goes back to the labelling project, and what of it without asking."""

    push: bool = _key(
        Switch(),
        "Plan feedback for the labelling project after each refresh, as `bbq push` does.",
        default=False,
    )
    project: int | None = _key(Whole(1), "The number of the labelling project.")
    push_every_s: float = _key(Number(0.1), "Plan no more often than this.", default=60.0)
    auto_apply: tuple[str, ...] = _key(
        Names(ASKABLE),
        "Kinds of feedback to carry out without asking; all others are only planned.",
        default=(),
    )
    daily_budget: int = _key(
        Whole(), "Most writes to the labelling project in 24 hours.", default=100
    )

    def policy(self) -> Policy:
        """What may be written without asking."""
        return Policy(kinds_of(self.auto_apply), self.daily_budget)

    def check(self) -> None:
        """Refuse what does not go together, for a command that takes all of it."""
        if self.push and self.project is None:
            raise SettingsError(
                "feedback.push is on and feedback.project is not given; name the project that the "
                "feedback goes to with --project"
            )
        if self.auto_apply and not self.push:
            raise SettingsError(
                f"feedback.auto_apply is {', '.join(self.auto_apply)} and feedback.push is off; "
                "say --push as well"
            )


@dataclass(frozen=True)
class Settings:
    """Everything that can be said to the daemon."""

    folder: Path | None = _key(FilePath(), "The folder to watch.")
    store: Path | None = _key(FilePath(), "The store: a file, made if it is missing.")
    out: Path | None = _key(FilePath(), "The folder for the outputs, made if it is missing.")
    recursive: bool = _key(Switch(), "Watch the folders inside the folder as well.", default=False)
    observer: str = _key(
        Choice(("auto", "native", "polling")),
        "How changes are noticed: by the operating system, or by looking. auto looks where the "
        "system tells nothing, as on network mounts.",
        default="auto",
    )
    settle_s: float = _key(
        Number(), "A file that has not changed for so long counts as complete.", default=2.0
    )
    debounce_s: float = _key(
        Number(), "Wait so long for more files before a batch is read.", default=0.5
    )
    max_delay_s: float = _key(
        Number(), "Read a batch after so long even if files keep coming.", default=10.0
    )
    rescan_s: float = _key(
        Number(0.1),
        "Look through the whole folder so often, in case a change went unnoticed.",
        default=30.0,
    )
    idle_full_s: float = _key(
        Number(),
        "After so long without news the fit is computed in full, to its tolerance.",
        default=30.0,
    )
    log_format: str = _key(
        Choice(("text", "json")), "One line an event, as text or JSON.", default="text"
    )
    read: ReadSettings = field(default_factory=ReadSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    raters: RaterSettings = field(default_factory=RaterSettings)
    outputs: OutputSettings = field(default_factory=OutputSettings)
    feedback: FeedbackSettings = field(default_factory=FeedbackSettings)

    def path(self, name: str) -> Path:
        """`folder`, `store` or `out`, which a command cannot do without."""
        found: Path | None = getattr(self, name)
        if found is None:
            key = next(one for one in KEYS if one.dotted == name)
            raise SettingsError(
                f"{name} is not given; name it as {key.typed}, as {key.variable} in the "
                f"environment, or as `{name}` in bbq.toml"
            )
        return found


@dataclass(frozen=True)
class Key:
    """One key, with all the names it goes by."""

    section: str | None
    name: str
    kind: Kind
    default: Any
    meaning: str

    @property
    def dotted(self) -> str:
        """Its name in messages: read.adapter."""
        return self.name if self.section is None else f"{self.section}.{self.name}"

    @property
    def option(self) -> str:
        """Its name on the command line, as in the other commands: no section."""
        return "--option" if self.name == "options" else f"--{self.name.replace('_', '-')}"

    @property
    def typed(self) -> str:
        """What is typed on the command line."""
        if self.name == "folder":
            return "FOLDER"
        if self.name == "options":
            return "-O, --option NAME=VALUE"
        if isinstance(self.kind, Switch):
            return f"{self.option} / --no-{self.option.removeprefix('--')}"
        return self.option

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return f"BBQ_{self.name.upper()}"


SECTIONS = {
    "read": ReadSettings,
    "model": ModelSettings,
    "raters": RaterSettings,
    "outputs": OutputSettings,
    "feedback": FeedbackSettings,
}


def _keys() -> Iterator[Key]:
    for section, holder in ((None, Settings), *SECTIONS.items()):
        for one in fields(holder):
            if one.metadata:
                yield _described(section, one)


def _described(section: str | None, one: Field[Any]) -> Key:
    default = one.default_factory() if callable(one.default_factory) else one.default
    return Key(section, one.name, one.metadata["kind"], default, one.metadata["meaning"])


#: Every key, in the order of the documentation.
KEYS: tuple[Key, ...] = tuple(_keys())
