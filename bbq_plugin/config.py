"""`bbq.toml`: one table of keys gives the file, the options, the variables and the documentation.

    settings = load(Path("bbq.toml"), os.environ, {"settle_s": 5.0})
    settings.settle_s, settings.read.adapter, settings.path("store")

What is given by hand counts before the environment, that before the file, that before the default.
"""

from __future__ import annotations

import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bbq_plugin.data.actions import ASKABLE, Policy, kinds_of
from bbq_plugin.errors import SettingsError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = [
    "KEYS",
    "OUTPUTS",
    "Choice",
    "FeedbackSettings",
    "FilePath",
    "Key",
    "Kind",
    "ModelSettings",
    "Names",
    "Number",
    "Options",
    "OutputSettings",
    "PriorsText",
    "RaterSettings",
    "ReadSettings",
    "Settings",
    "Share",
    "Switch",
    "Text",
    "Whole",
    "Wrong",
    "load",
    "near",
    "unknown_variables",
]

_TRUE = ("true", "yes", "on", "1")

_FALSE = ("false", "no", "off", "0")


class Wrong(Exception):  # noqa: N818 (it becomes a SettingsError where the key is known)
    """A value is not of its kind; the text says what is expected."""


def near(word: object, known: Iterable[str]) -> str:
    """A question to put behind a message, or nothing."""
    by_lower = {one.lower(): one for one in known}
    close = get_close_matches(str(word).lower(), by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""


@dataclass(frozen=True)
class Kind(ABC):
    """What may stand at a key; `takes` says it in the documentation."""

    @property
    @abstractmethod
    def takes(self) -> str:
        """What may stand there, in a word or two."""

    @abstractmethod
    def check(self, value: Any) -> Any:
        """The value as it is kept, from one of a TOML file."""

    def parse(self, text: str) -> Any:
        """The value as it is kept, from text."""
        return self.check(text)

    def shown(self, value: Any) -> str:
        """A default in the documentation."""
        return "" if value is None else str(value)


@dataclass(frozen=True)
class Text(Kind):
    """Text that is not empty."""

    @property
    def takes(self) -> str:
        """Text."""
        return "text"

    def check(self, value: Any) -> str:
        """Take text."""
        if not isinstance(value, str) or not value.strip():
            raise Wrong("expected text that is not empty")
        return value


@dataclass(frozen=True)
class FilePath(Text):
    """A file or a folder; `~` is the home folder."""

    @property
    def takes(self) -> str:
        """A path."""
        return "path"

    def check(self, value: Any) -> Path:  # type: ignore[override] # text that becomes a path
        """Take a path or its text."""
        if isinstance(value, Path):
            return value
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise Wrong("expected a path")
        return Path(value).expanduser()


@dataclass(frozen=True)
class Switch(Kind):
    """On or off."""

    @property
    def takes(self) -> str:
        """One of two words."""
        return "true or false"

    def check(self, value: Any) -> bool:
        """Take a boolean."""
        if not isinstance(value, bool):
            raise Wrong("expected true or false")
        return value

    def parse(self, text: str) -> bool:
        """Take the usual words."""
        word = text.strip().lower()
        if word not in (*_TRUE, *_FALSE):
            raise Wrong("expected true or false")
        return word in _TRUE

    def shown(self, value: Any) -> str:
        """As TOML has it."""
        return str(value).lower()


@dataclass(frozen=True)
class Number(Kind):
    """Seconds or another finite number, not below `least`."""

    least: float = 0.0
    unit: str = "seconds"

    @property
    def takes(self) -> str:
        """The unit."""
        return self.unit

    def check(self, value: Any) -> float:
        """Take a number, but no boolean, which Python counts among them."""
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not isfinite(value)
            or value < self.least
        ):
            raise Wrong(f"expected {self.unit}, a number of at least {self.least:g}")
        return float(value)

    def parse(self, text: str) -> float:
        """Take the text of a number."""
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        return self.check(number)

    def shown(self, value: Any) -> str:
        """Without a needless .0."""
        return "" if value is None else f"{value:g}"


@dataclass(frozen=True)
class Whole(Kind):
    """A whole number, not below `least`."""

    least: int = 0

    @property
    def takes(self) -> str:
        """A whole number."""
        return "whole number"

    def check(self, value: Any) -> int:
        """Take an integer."""
        if isinstance(value, bool) or not isinstance(value, int) or value < self.least:
            raise Wrong(f"expected a whole number of at least {self.least}")
        return value

    def parse(self, text: str) -> int:
        """Take the text of one."""
        try:
            number: object = int(text)
        except ValueError:
            number = text
        return self.check(number)


@dataclass(frozen=True)
class Share(Kind):
    """A share such as 1% or 0.01; with `ends` false neither 0 nor 1, as for a probability."""

    ends: bool = True

    @property
    def takes(self) -> str:
        """A share or a probability."""
        return "share" if self.ends else "probability"

    def check(self, value: Any) -> float:
        """Take a number, or text with a per cent sign."""
        if isinstance(value, str):
            return self.parse(value)
        inside = (
            not isinstance(value, bool)
            and isinstance(value, (int, float))
            and (0 <= value <= 1 if self.ends else 0 < value < 1)
        )
        if not inside:
            raise Wrong(self._expected(value))
        return float(value)

    def parse(self, text: str) -> float:
        """Take 5% or 0.05; 5 is refused, because it could be either."""
        stripped = text.strip()
        try:
            number = float(stripped.removesuffix("%"))
        except ValueError:
            raise Wrong(self._expected(None)) from None
        return self.check(number / 100 if stripped.endswith("%") else number)

    def _expected(self, value: Any) -> str:
        what = (
            "a share such as 1% or 0.01"
            if self.ends
            else "a probability between 0 and 1, such as 0.95"
        )
        is_percent = isinstance(value, (int, float)) and 1 < value < 100
        return f"expected {what}" + (f"; did you mean {value / 100:g}?" if is_percent else "")


@dataclass(frozen=True)
class Choice(Kind):
    """One of some words."""

    words: tuple[str, ...]

    @property
    def takes(self) -> str:
        """The words."""
        return ", ".join(self.words)

    def check(self, value: Any) -> str:
        """Take one of them, as it is written."""
        if value not in self.words:
            raise Wrong(f"expected one of {', '.join(self.words)}{near(value, self.words)}")
        return str(value)


@dataclass(frozen=True)
class Names(Kind):
    """Several words: a list in TOML, with commas between them in text."""

    words: tuple[str, ...] = ()

    @property
    def takes(self) -> str:
        """The words, or that there are any."""
        return f"list of {', '.join(self.words)}" if self.words else "list of names"

    def check(self, value: Any) -> tuple[str, ...]:
        """Take each once, in the order given."""
        if not isinstance(value, (list, tuple)) or not all(isinstance(v, str) for v in value):
            raise Wrong(f"expected a {self.takes}")
        for word in value:
            if not word.strip() or (self.words and word not in self.words):
                raise Wrong(f"{word!r} is none of {self.takes}{near(word, self.words)}")
        return tuple(dict.fromkeys(value))

    def parse(self, text: str) -> tuple[str, ...]:
        """Split at commas."""
        return self.check([part.strip() for part in text.split(",") if part.strip()])

    def shown(self, value: Any) -> str:
        """As text has it."""
        return ", ".join(value)


@dataclass(frozen=True)
class Options(Kind):
    """A table of the adapter's own options; it knows them, so here only their names are text."""

    @property
    def takes(self) -> str:
        """A table."""
        return "table"

    def check(self, value: Any) -> dict[str, Any]:
        """Take a table; TOML joins words by underscores, a command line by hyphens."""
        if not isinstance(value, Mapping):
            raise Wrong("expected a table, such as [read.options] with a line for each option")
        return {str(name).replace("-", "_"): one for name, one in value.items()}

    def parse(self, text: str) -> dict[str, Any]:
        """Take `name=value`, several with a semicolon between them."""
        found = {}
        for part in filter(str.strip, text.split(";")):
            name, sign, value = part.partition("=")
            if not sign or not name.strip():
                raise Wrong("expected name=value; with several, a semicolon between them")
            found[name.strip()] = value.strip()
        return self.check(found)

    def shown(self, value: Any) -> str:
        """An empty table is nothing."""
        return "" if not value else str(value)


@dataclass(frozen=True)
class PriorsText(Kind):
    """`auto`, `paper`, or the four numbers a, b, alpha, beta."""

    @property
    def takes(self) -> str:
        """Words or numbers."""
        return "auto, paper or a,b,alpha,beta"

    def check(self, value: Any) -> str | tuple[float, float, float, float]:
        """Take a word, or four numbers as a list or as text."""
        if value in ("auto", "paper"):
            return str(value)
        numbers = value.split(",") if isinstance(value, str) else value
        try:
            a, b, alpha, beta = (float(one) for one in numbers)
        except (TypeError, ValueError):
            meant = near(value, ("auto", "paper"))
            raise Wrong(f"expected auto, paper or four numbers a,b,alpha,beta{meant}") from None
        return a, b, alpha, beta


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


PREFIX = "BBQ_"
# Variables that are not keys: a secret, the file itself, and what other parts look at.
OTHER_VARIABLES = (
    "BBQ_CONFIG",
    "BBQ_PAGE_TOKEN",
    "BBQ_PSEUDONYM_KEY",
    "BBQ_THREADS",
    "BBQ_WEBHOOK_SECRET",
)

# Sections of the same file that other commands read: where a labelling tool's server is.
OTHER_SECTIONS = ("label_studio",)


def load(path: Path | None, env: Mapping[str, str], given: Mapping[str, Any]) -> Settings:
    """The settings of now: ``given`` (by key's name) over ``env`` over the file over defaults.

    Paths in the file are relative to it, all others to the current folder.
    """
    found: dict[str, Any] = {}
    if path is not None:
        _take(found, _from_file(path))
    _take(found, _from_environment(env))
    _take(found, _from_caller(given))
    settings = _built(found)
    _check_together(settings)
    return settings


def unknown_variables(env: Mapping[str, str]) -> list[str]:
    """What to say about variables that look like a key of ours, spelt wrong.

    They are no error: a platform may well set variables with this beginning.
    """
    known = [*(key.variable for key in KEYS), *OTHER_VARIABLES]
    notes = []
    for name in sorted(env):
        if name.startswith(PREFIX) and name not in known:
            close = get_close_matches(name, known, n=1, cutoff=0.8)
            if close:
                notes.append(f"the variable {name} is not known; did you mean {close[0]}?")
    return notes


def _take(found: dict[str, Any], more: Iterator[tuple[Key, Any]]) -> None:
    for key, value in more:
        if isinstance(key.kind, Options):
            # One option typed does not take the others of the file away.
            found[key.dotted] = {**found.get(key.dotted, {}), **value}
        else:
            found[key.dotted] = value


def _from_file(path: Path) -> Iterator[tuple[Key, Any]]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: the text is not UTF-8 ({error.reason}); save it as UTF-8"
                            ) from error  # fmt: skip
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML ({error})") from error
    except OSError as error:
        raise SettingsError(
            f"{path}: cannot be read ({error.strerror}); check the path of the configuration"
        ) from error
    by_name = {key.dotted: key for key in KEYS}
    for dotted, value in _flat(document, path):
        key = by_name.get(dotted)
        if key is None:
            raise SettingsError(f"{path}: there is no key {dotted!r}{_meant(dotted)}")
        checked = _checked(f"{path}: {dotted}", key.kind.check, value)
        if isinstance(key.kind, FilePath):
            checked = path.parent / checked
        yield key, checked


def _flat(document: Mapping[str, Any], path: Path) -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        if name in OTHER_SECTIONS:
            continue
        if name not in SECTIONS:
            yield name, value
        elif isinstance(value, dict):
            yield from ((f"{name}.{inner}", one) for inner, one in value.items())
        else:
            raise SettingsError(
                f"{path}: {name} is {value!r}; expected a table, [{name}], with keys of its own"
            )


def _meant(dotted: str) -> str:
    """The key that was probably meant: in another section, or spelt otherwise."""
    last = dotted.rpartition(".")[2].replace("-", "_")
    for key in KEYS:
        if key.name == last:
            return f"; did you mean {key.dotted!r}?"
    return near(dotted, [*(key.dotted for key in KEYS), *SECTIONS])


def _from_environment(env: Mapping[str, str]) -> Iterator[tuple[Key, Any]]:
    for key in KEYS:
        # Empty is how a container file says that it has nothing to say.
        if text := env.get(key.variable, ""):
            yield key, _checked(key.variable, key.kind.parse, text)


def _from_caller(given: Mapping[str, Any]) -> Iterator[tuple[Key, Any]]:
    by_name = {key.name: key for key in KEYS}
    for name, value in given.items():
        if name not in by_name:
            raise SettingsError(f"there is no key {name!r}{near(name, by_name)}")
        key = by_name[name]
        yield key, _checked(key.option, key.kind.check, value)


def _checked(name: str, check: Callable[[Any], Any], value: Any) -> Any:
    try:
        return check(value)
    except Wrong as wrong:
        raise SettingsError(f"{name} is {value!r}; {wrong}") from None


def _built(found: Mapping[str, Any]) -> Settings:
    parts: dict[str | None, dict[str, Any]] = {None: {}, **{section: {} for section in SECTIONS}}
    for key in KEYS:
        if key.dotted in found:
            parts[key.section][key.name] = found[key.dotted]
    sections = {section: holder(**parts[section]) for section, holder in SECTIONS.items()}
    return Settings(**parts[None], **sections)


def _check_together(settings: Settings) -> None:
    """What no single key can show to be wrong."""
    if settings.max_delay_s < settings.debounce_s:
        raise SettingsError(
            f"max_delay_s is {settings.max_delay_s:g} and debounce_s {settings.debounce_s:g}; "
            "the first is the longest that the second may become, so it cannot be smaller"
        )
    if settings.read.adapter is not None:
        _check_adapter(settings.read.adapter, settings.read.options)


def _check_adapter(adapter: str, options: Mapping[str, Any]) -> None:
    """Now, and not when the first file comes: an adapter that is not there, an option not its."""
    from bbq_plugin.plugins import check_options  # noqa: PLC0415 (loads all adapters)

    try:
        check_options(adapter, options)
    except UsageError as error:
        raise SettingsError(f"read.adapter or read.options: {error}") from error
