"""The settings: the only list of their keys, types, bounds, defaults and help texts.

    settings = load(Path("bbq.toml"), os.environ, {"settle_s": 5.0})
    settings.settle_s, settings.read.adapter, settings.path("store")

A value that is typed counts before the environment, that before `bbq.toml`, that before the
default. The options of all commands, the variables and the documentation are made from `KEYS`.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from bbq_plugin.data.mappings import MAPPING, SavedMapping, mapping_of, read_mapping
from bbq_plugin.data.records import Policy, kinds_of
from bbq_plugin.errors import SettingsError, UsageError, did_you_mean

OutputName = Literal["report.json", "leaderboard.csv", "raters.csv", "report.html"]
OUTPUTS: tuple[OutputName, ...] = get_args(OutputName)

#: The models that raters can be judged with.
JUDGED_MODELS = ("bbq", "bbq-signed")
_JUDGED_HELP = (
    "bbq: Bradley-Terry with rater quality. bbq-signed: the same, for raters who may answer "
    "inverted."
)
#: The models that have priors of their own, and no population to estimate.
_OWN_PRIORS = ("bbq-signed", "crowd-bt")


class InvalidValue(ValueError):  # noqa: N818 (it becomes a SettingsError where the key is known)
    """A value is not what its key takes; the text says what is expected."""


class Form(NamedTuple):
    """How values of a type are written."""

    #: What may stand there, in the documentation.
    takes: str
    #: The same in a message.
    expected: str
    #: From text to a value that the type is checked against; ValueError if there is none.
    parse: Callable[[str], Any] = str
    #: Whether a file may have it as text as well.
    text_in_file: bool = False


def _switch(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "yes", "on", "1", "false", "no", "off", "0"):
        raise ValueError
    return word in ("true", "yes", "on", "1")


def _fraction(text: str) -> float:
    stripped = text.strip()
    number = float(stripped.removesuffix("%"))
    return number / 100 if stripped.endswith("%") else number


def _path(text: str) -> Path:
    if not text.strip() or "\0" in text:
        raise ValueError
    return Path(text).expanduser()


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _table(text: str) -> dict[str, str]:
    """Take `name=value`, several with a semicolon between them."""
    found = {}
    for part in filter(str.strip, text.split(";")):
        name, sign, value = part.partition("=")
        if not sign or not name.strip():
            raise InvalidValue("expected name=value; with several, a semicolon between them")
        found[name.strip()] = value.strip()
    return found


def _priors(text: str) -> str | list[float]:
    return text if text in ("auto", "paper") else [float(part) for part in text.split(",")]


# Any number but infinity.
_FINITE = sys.float_info.max


def _help(text: str) -> Meta:
    """What a key means; it is the last annotation of its type."""
    return Meta(description=text)


Text = Annotated[str, Meta(pattern=r"\S"), Form("text", "text that is not empty")]
Switch = Annotated[bool, Form("true or false", "true or false", _switch)]
FilePath = Annotated[Path, Form("path", "a path", _path, text_in_file=True)]
Seconds = Annotated[
    float, Meta(ge=0, le=_FINITE), Form("seconds", "seconds, a number of at least 0", float)
]
SomeSeconds = Annotated[
    float, Meta(ge=0.1, le=_FINITE), Form("seconds", "seconds, a number of at least 0.1", float)
]
Share = Annotated[
    float,
    Meta(ge=0, le=1),
    Form("share", "a share such as 1% or 0.01", _fraction, text_in_file=True),
]
Probability = Annotated[
    float,
    Meta(gt=0, lt=1),
    Form(
        "probability", "a probability between 0 and 1, such as 0.95", _fraction, text_in_file=True
    ),
]
Count = Annotated[int, Meta(ge=0), Form("whole number", "a whole number of at least 0", int)]
Number = Annotated[int, Meta(ge=1), Form("whole number", "a whole number of at least 1", int)]
Options = Annotated[
    dict[str, Any],
    Form("table", "a table, such as [read.options] with a line for each option", _table),
]
PriorsValue = Annotated[
    Literal["auto", "paper"] | Annotated[tuple[float, ...], Meta(min_length=4, max_length=5)],
    Form(
        "auto, paper or a,b,alpha,beta",
        "auto, paper or four numbers a,b,alpha,beta",
        _priors,
        text_in_file=True,
    ),
]


MOST_CAMPS = 6
CampsValue = Annotated[
    Literal["auto"] | Annotated[int, Meta(ge=1, le=MOST_CAMPS)],
    Form(
        f"auto or 1 to {MOST_CAMPS}",
        f"auto, or a whole number from 1 to {MOST_CAMPS}",
        lambda text: text if text == "auto" else int(text),
        text_in_file=True,
    ),
]


ClusterValue = Annotated[
    tuple[Text, ...],
    Meta(min_length=1, max_length=2),
    Form(
        "auto, none or names of tags",
        "auto, none, or one or two names such as rater,scene",
        _names,
        text_in_file=True,
    ),
]


NameList = Annotated[
    tuple[Text, ...], Form("names", "one or more names", _names, text_in_file=True)
]


class ReadSettings(Struct, frozen=True, kw_only=True):
    """How files are read."""

    adapter: Annotated[Text, _help("How to read the files. Default: by their content.")] | None = (
        None
    )
    options: Annotated[Options, _help("Options of the adapter; 'bbq formats' lists them.")] = {}
    mapping: (
        Annotated[
            FilePath,
            _help(
                "File with a table [mapping], which says what the columns are; 'bbq inspect' "
                "writes one."
            ),
        ]
        | None
    ) = None
    strict: Annotated[Switch, _help("Refuse a file at the first row that cannot be used.")] = False
    max_skipped: Annotated[
        Share, _help("Refuse a file if a larger share of its rows cannot be used.")
    ] = 0.01
    exports: Annotated[
        Literal["full", "increment"],
        _help(
            "What a newer export of a project holds. full: all answers; those that it "
            "no longer has are retracted. increment: only new answers."
        ),
    ] = "full"
    keep_tags: Annotated[
        Switch, _help("Keep the tags of large Arena files, for --where. Reading is slower.")
    ] = False


class ModelSettings(Struct, frozen=True, kw_only=True):
    """What is fitted, and how uncertainty is shown."""

    model: Annotated[
        Literal["bbq", "bbq-signed", "bayes-bt", "crowd-bt"],
        _help(f"{_JUDGED_HELP} bayes-bt: all raters equal. crowd-bt: Chen et al. 2013."),
    ] = "bbq"
    priors: (
        Annotated[
            PriorsValue,
            _help(
                "auto: estimated from the data. paper: a=5, b=0.1, alpha=10, beta=2. "
                "Or four numbers a,b,alpha,beta. bbq-signed has priors of its own, or takes five "
                "numbers a,b,informed,guessed,inverted; crowd-bt has its own."
            ),
        ]
        | None
    ) = None
    camps: Annotated[
        CampsValue,
        _help(
            "How many rankings the panel has. auto: as many as the answers ask for. More than one "
            "needs --model bbq and the names of raters."
        ),
    ] = "auto"
    intervals: Annotated[
        Literal["auto", "robust", "laplace", "posterior", "bootstrap", "paper"],
        _help(
            "How uncertainty is computed. robust: allows for answers that come in clusters. "
            "laplace: the model's own."
        ),
    ] = "auto"
    cluster: Annotated[
        ClusterValue,
        _help(
            "Which answers vary together, for the intervals: rater, names of tags (at most two in "
            "all), none, or auto: rater, and the only tag that names prompts or scenes."
        ),
    ] = ("auto",)
    ties: Annotated[
        Literal["auto", "model", "half"],
        _help(
            "What a tie is. model: an outcome of its own, with a rate of each rater. half: half a "
            "win each way, as in the paper. auto: model, where raters are known and model is bbq."
        ),
    ] = "auto"
    repeats: Annotated[
        Literal["keep", "merge"],
        _help(
            "Rows that are one answer (stored again, or a ranking written as pairs). keep: ratings "
            "count every row. merge: each answer counts once."
        ),
    ] = "keep"
    covariate: Annotated[
        NameList,
        _help(
            "What else influences an answer; its effect is estimated, and held equal in the "
            "ratings. side: the side on which an item was shown. Or a column of numbers, left "
            "minus right, such as length_diff; without one, length_diff is length_left minus "
            "length_right. Repeatable. The live page shows the leaderboard with them held equal "
            "beside its own."
        ),
    ] = ()
    level: Annotated[
        Probability, _help("Probability that an interval contains the true value.")
    ] = 0.95
    scale: Annotated[
        Literal["elo", "paper", "theta"],
        _help("Scale of the ratings; theta is always in the report."),
    ] = "elo"
    seed: Annotated[Count, _help("Seed of the random numbers.")] = 0

    def fit_options(self) -> dict[str, Any]:
        """What `fit` and `Engine` are told besides the model."""
        names = ("camps", "ties", "cluster", "repeats")
        return {"priors": self.fit_priors()} | {name: getattr(self, name) for name in names}

    def fit_priors(self) -> Any:
        """What `fit` and `Engine` take as ``priors``; UsageError if the model has no such ones."""
        self.check_priors()
        if self.priors is None:
            # Where priors are not estimated, `fit` takes this as given ones.
            return "auto"
        if isinstance(self.priors, str):
            return self.priors
        # numba: not for reading settings
        from bbq_plugin.model import Priors, SignedPriors  # noqa: PLC0415

        if self.model in _OWN_PRIORS:
            a, b, informed, guessed, inverted = self.priors
            return SignedPriors(a=a, b=b, informed=informed, guessed=guessed, inverted=inverted)
        a, b, alpha, beta = self.priors
        return Priors(a=a, b=b, alpha=alpha, beta=beta)

    def check_priors(self) -> None:
        """Refuse priors that the model does not take."""
        given = self.priors
        if given is None:
            return
        if self.model in _OWN_PRIORS:
            problem = f"priors is {given!r}, and {self.model} has priors of its own"
            if self.model == "crowd-bt":
                raise UsageError(f"{problem} (Chen et al. 2013); leave priors out")
            if isinstance(given, str) or len(given) != 5:
                raise UsageError(
                    f"{problem}; leave priors out, or give five numbers "
                    "a,b,informed,guessed,inverted"
                )
        elif not isinstance(given, str) and len(given) != 4:
            raise UsageError(
                f"priors has {len(given)} numbers; {self.model} takes four: a,b,alpha,beta"
            )


class RaterSettings(Struct, frozen=True, kw_only=True):
    """When a rater is to be excluded."""

    false_rate: Annotated[
        Probability, _help("Largest expected share of honest raters among the excluded.")
    ] = 0.05
    least: Annotated[Number, _help("Answers that a rater must have given before exclusion.")] = 10


class OutputSettings(Struct, frozen=True, kw_only=True):
    """What is written after each refresh."""

    write: Annotated[tuple[OutputName, ...], _help("The files to write into `out`.")] = OUTPUTS
    pseudonymise: Annotated[
        Switch,
        _help(
            "Replace rater names in all outputs by pseudonyms, with the key of BBQ_PSEUDONYM_KEY."
        ),
    ] = False
    pseudonym_key_file: (
        Annotated[FilePath, _help("File with the key of the pseudonyms; implies pseudonymise.")]
        | None
    ) = None


class FeedbackSettings(Struct, frozen=True, kw_only=True):
    """What is written to the labelling project, and what of it without asking."""

    push: Annotated[
        Switch,
        _help("Plan feedback for the labelling project after each refresh, as `bbq push` does."),
    ] = False
    project: Annotated[Number, _help("The number of the labelling project.")] | None = None
    push_every_s: Annotated[SomeSeconds, _help("Plan at most this often.")] = 60.0
    auto_apply: Annotated[
        tuple[Literal["relabel", "tab", "predict", "order", "pause"], ...],
        _help("Kinds of feedback to apply without asking; others are only planned."),
    ] = ()
    relabel: Annotated[
        Literal["useful", "all"],
        _help(
            "Which tasks of excluded raters to ask again. useful: those whose new answers may "
            "change the result. all: all of them."
        ),
    ] = "useful"
    daily_budget: Annotated[Count, _help("Most writes to the labelling project in 24 hours.")] = 100

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
                "add --push"
            )


AlertKind = Literal["red", "excluded", "camps", "settled"]
ALERTS: tuple[AlertKind, ...] = get_args(AlertKind)


class AlertSettings(Struct, frozen=True, kw_only=True):
    """Who is told of what, at most once a cause and hour."""

    alert_url_file: (
        Annotated[
            FilePath,
            _help(
                "File with the address that alerts are sent to, as JSON by POST. Default: "
                "BBQ_ALERT_URL."
            ),
        ]
        | None
    ) = None
    alert_command: (
        Annotated[
            Text,
            _help("Command that is run for an alert, without a shell, with JSON on its input."),
        ]
        | None
    ) = None
    alert_on: Annotated[
        tuple[AlertKind, ...],
        _help(
            "When to send one. red: health turns red. excluded: a rater is newly excluded. camps: "
            "a camp appears. settled: the leader is settled."
        ),
    ] = ALERTS


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that the daemon and the server can be told."""

    folder: Annotated[FilePath, _help("The folder to watch.")] | None = None
    database: (
        Annotated[
            Text,
            _help(
                "The address of a PostgreSQL database, of which a table is followed instead of a "
                "folder: postgresql://USER@HOST/NAME. The password is not in it, but in PGPASSWORD "
                "or a password file."
            ),
        ]
        | None
    ) = None
    table: Annotated[Text, _help("The table of the database.")] | None = None
    changed: (
        Annotated[
            Text,
            _help(
                "The column with the time at which a row of the table last changed. Without one "
                "each poll reads the whole table."
            ),
        ]
        | None
    ) = None
    store: Annotated[FilePath, _help("The store: a file, created if it is missing.")] | None = None
    out: (
        Annotated[FilePath, _help("The folder for the outputs, created if it is missing.")] | None
    ) = None
    study: (
        Annotated[
            Text,
            _help(
                "The study in the store: answers to one question, which are fitted together. "
                "Default: the only one there is."
            ),
        ]
        | None
    ) = None
    recursive: Annotated[Switch, _help("Watch the folders inside the folder too.")] = False
    observer: Annotated[
        Literal["auto", "native", "polling"],
        _help(
            "How changes are noticed. native: by the operating system. polling: by "
            "looking. auto: polling where the system reports nothing, as on network mounts."
        ),
    ] = "auto"
    settle_s: Annotated[
        Seconds, _help("A file counts as complete after this long without a change.")
    ] = 2.0
    debounce_s: Annotated[
        Seconds, _help("Wait this long for more files before a batch is read.")
    ] = 0.5
    max_delay_s: Annotated[
        Seconds, _help("Read a batch after this long even if files keep coming.")
    ] = 10.0
    rescan_s: Annotated[
        SomeSeconds, _help("Search the whole folder this often, in case a change was missed.")
    ] = 30.0
    poll_s: Annotated[SomeSeconds, _help("Look for changed rows of the table this often.")] = 2.0
    reconcile_s: Annotated[
        SomeSeconds,
        _help("Compare the whole table this often, to find deleted rows and late changes."),
    ] = 300.0
    idle_full_s: Annotated[
        Seconds, _help("Compute the fit in full after this long without new answers.")
    ] = 30.0
    log_format: Annotated[
        Literal["text", "json"], _help("One line per event, as text or JSON.")
    ] = "text"
    read: ReadSettings = ReadSettings()
    model: ModelSettings = ModelSettings()
    raters: RaterSettings = RaterSettings()
    outputs: OutputSettings = OutputSettings()
    feedback: FeedbackSettings = FeedbackSettings()
    alerts: AlertSettings = AlertSettings()

    def path(self, name: str) -> Path:
        """`folder`, `store` or `out`, which a command cannot do without."""
        found: Path | None = getattr(self, name)
        if found is None:
            key = KEYS_BY_NAME[name]
            raise SettingsError(
                f"{name} is not given; name it as {key.typed}, as {key.variable} in the "
                f"environment, or as `{name}` in bbq.toml"
            )
        return found


class ServerSettings(Struct, frozen=True, kw_only=True):
    """Where a labelling tool's server is: a section such as [label_studio] of the same file."""

    url: Annotated[Text, _help("Address of the server.")] | None = None
    token_file: Annotated[FilePath, _help("File with the server's token.")] | None = None


class StudySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A study of several in one store: a section [studies.NAME] of the same file."""

    #: Empty: any project.
    projects: tuple[Annotated[int, Meta(ge=1)], ...] = ()
    #: The control of the labelling configuration; may be left out where a project has one.
    control: str | None = None


class FitOptions(Struct, frozen=True, kw_only=True):
    """What can only be typed: no keys of the file."""

    solver: Annotated[
        Literal["auto", "em"],
        _help("auto: accelerated. em: the closed-form steps of the paper. Same optimum."),
    ] = "auto"
    threshold: Annotated[
        Probability, _help("Report the probability that a quality is below this.")
    ] = 0.5


@dataclass(frozen=True)
class Key:
    """One key, with all the names it goes by."""

    section: str | None
    name: str
    #: The type of its values, with bounds and help.
    type: Any
    default: Any

    @property
    def kind(self) -> Any:
        """The type without bounds."""
        return get_args(self.type)[0]

    @property
    def help(self) -> str:
        """What it means."""
        return str(self.type.__metadata__[-1].description)

    @property
    def words(self) -> tuple[str, ...]:
        """The words to choose from, if there are any."""
        found: list[str] = []
        for inner in (self.kind, *get_args(self.kind)):
            if get_origin(inner) is Literal:
                found += get_args(inner)
        return tuple(found)

    @property
    def is_choice(self) -> bool:
        """Whether it takes exactly one of its words."""
        return get_origin(self.kind) is Literal

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
        if self.kind is bool:
            return f"{self.option} / --no-{self.option.removeprefix('--')}"
        return self.option

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return f"{PREFIX}{self.name.upper()}"

    @property
    def form(self) -> Form:
        """How its values are written."""
        for one in self.type.__metadata__:
            if isinstance(one, Form):
                return one
        words = ", ".join(self.words)
        if self.is_choice:
            return Form(words, f"one of {words}")
        return Form(f"list of {words}", f"a list of {words}", _names)

    def parse(self, text: str) -> Any:
        """The value as it is kept, from text; InvalidValue if there is none."""
        try:
            return self._converted(self.form.parse(text))
        except InvalidValue:
            raise
        except ValueError:
            raise self._invalid(text) from None

    def check(self, value: Any) -> Any:
        """The value as it is kept, from one of a TOML file."""
        if isinstance(value, str) and self.form.text_in_file:
            return self.parse(value)
        return self._converted(value)

    def shown(self, value: Any) -> str:
        """A default in the documentation; nothing for None and what is empty."""
        if value is None or value in ((), {}):
            return ""
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, tuple):
            return ", ".join(map(str, value))
        return f"{value:g}" if isinstance(value, float) else str(value)

    def _converted(self, value: Any) -> Any:
        try:
            found = msgspec.convert(value, self.type)
        except msgspec.ValidationError:
            raise self._invalid(value) from None
        if get_origin(self.kind) is tuple:
            return tuple(dict.fromkeys(found))
        if get_origin(self.kind) is dict:
            # TOML joins words by underscores, a command line by hyphens.
            return {name.replace("-", "_"): one for name, one in found.items()}
        return found

    def _invalid(self, value: Any) -> InvalidValue:
        """What is expected, and what was probably meant."""
        if get_origin(self.kind) is tuple and isinstance(value, (list, tuple)) and self.words:
            wrong = next((word for word in value if word not in self.words), "")
            words = ", ".join(self.words)
            return InvalidValue(f"{wrong!r} is none of {words}{did_you_mean(wrong, self.words)}")
        meant = did_you_mean(value, self.words)
        # 95 is meant in percent; 1.5 may be anything.
        percent = isinstance(value, (int, float)) and (5 <= value < 100)
        if self.form.parse is _fraction and percent:
            near = f"{value:g}%" if self.form.takes == "share" else f"{value / 100:g}"
            meant = f"; did you mean {near}?"
        return InvalidValue(f"expected {self.form.expected}{meant}")


SECTIONS = {
    "read": ReadSettings,
    "model": ModelSettings,
    "raters": RaterSettings,
    "outputs": OutputSettings,
    "feedback": FeedbackSettings,
    "alerts": AlertSettings,
}

PREFIX = "BBQ_"
# Variables that are not keys: a secret, the file itself, and what other parts look at.
OTHER_VARIABLES = (
    "BBQ_ALERT_URL",
    "BBQ_CONFIG",
    "BBQ_PAGE_TOKEN",
    "BBQ_PSEUDONYM_KEY",
    "BBQ_THREADS",
    "BBQ_WEBHOOK_SECRET",
)
# Sections of the same file with the settings of a labelling tool's server.
SERVER_SECTIONS = ("label_studio",)
STUDIES = "studies"


def _keys(section: str | None, holder: Any) -> Iterator[Key]:
    hints = get_type_hints(holder, include_extras=True)
    for one in msgspec.structs.fields(holder):
        hint = hints[one.name]
        if get_origin(hint) is not Annotated:
            # An optional key; a section has no annotation at all.
            hint = next((arg for arg in get_args(hint) if arg is not NoneType), None)
        if hint is not None:
            default = one.default_factory() if one.default is msgspec.NODEFAULT else one.default
            yield Key(section, one.name, hint, default)


#: Every key of the file, in the order of the documentation.
KEYS: tuple[Key, ...] = tuple(
    key for section in ((None, Settings), *SECTIONS.items()) for key in _keys(*section)
)
#: These and what can only be typed.
KEYS_BY_NAME = {key.name: key for key in (*KEYS, *_keys(None, FitOptions))}
#: The model where raters are judged.
JUDGED_MODEL = replace(
    KEYS_BY_NAME["model"], type=Annotated[Literal[JUDGED_MODELS], _help(_JUDGED_HELP)]
)


def load(path: Path | None, env: Mapping[str, str], given: Mapping[str, Any]) -> Settings:
    """The settings of now: ``given`` (by key's name) over ``env`` over the file over defaults.

    Paths in the file are relative to it, all others to the current folder.
    """
    found: dict[str, Any] = {}
    own: SavedMapping | None = None
    if path is not None:
        by_name = {key.dotted: key for key in KEYS}
        whole = _document(path)
        if MAPPING in whole:
            own = _mapping(lambda: mapping_of(whole[MAPPING], str(path)))
        _take(found, _values(_flat(whole, path), by_name, path))
    _take(found, _from_environment(env))
    _take(found, _from_caller(given))
    if (file := found.get("read.mapping")) is not None:
        own = _mapping(lambda: read_mapping(file))
    if own is not None:
        if found.get("read.adapter") is None:
            found["read.adapter"] = own.adapter
        found["read.options"] = {**own.options, **found.get("read.options", {})}
    settings = _built(found)
    _check_together(settings)
    return settings


def _mapping(read: Callable[[], SavedMapping]) -> SavedMapping:
    try:
        return read()
    except UsageError as error:
        raise SettingsError(str(error)) from error


def load_server(path: Path, section: str) -> ServerSettings:
    """Where a server is, by its section of the file; empty if there is none."""
    table = _document(path).get(section, {})
    if not isinstance(table, dict):
        raise SettingsError(f"{path}: {section} is {table!r}; expected a table, [{section}]")
    by_name = {key.dotted: key for key in _keys(section, ServerSettings)}
    pairs = ((f"{section}.{name}", value) for name, value in table.items())
    return ServerSettings(**{key.name: value for key, value in _values(pairs, by_name, path)})


def load_studies(path: Path | None) -> dict[str, StudySettings]:
    """The sections [studies.NAME] of the file, by name."""
    table = {} if path is None else _document(path).get(STUDIES, {})
    try:
        return msgspec.convert(table, dict[str, StudySettings])
    except msgspec.ValidationError as error:
        raise SettingsError(
            f"{path}: {STUDIES}: {error}; expected tables such as [studies.fluency] with "
            'projects = [5] and control = "fluency"'
        ) from None


def study_names(
    studies: Mapping[str, StudySettings], typed: str | None = None
) -> Callable[[str, str, bool], str | None]:
    """What names the study of a project's question: `typed`, for its only one, or the file."""

    def named(project: str, question: str, alone: bool) -> str | None:  # noqa: FBT001
        for name, one in studies.items():
            mine = not one.projects or project in map(str, one.projects)
            if mine and (alone if one.control is None else one.control == question):
                return name
        return typed if alone else None

    return named


def unknown_variables(env: Mapping[str, str]) -> list[str]:
    """What to say about variables that look like a key of ours, spelt wrong.

    They are no error: a platform may well set variables with this beginning.
    """
    known = [*(key.variable for key in KEYS), *OTHER_VARIABLES]
    notes = []
    for name in sorted(env):
        if name.startswith(PREFIX) and name not in known:
            # Nearer than other words have to be, since most such variables are not meant for us.
            meant = did_you_mean(name, known, cutoff=0.8)
            if meant:
                notes.append(f"the variable {name} is not known{meant}")
    return notes


def _take(found: dict[str, Any], more: Iterator[tuple[Key, Any]]) -> None:
    for key, value in more:
        # One option typed does not take the others of the file away.
        merged = key.name == "options" and found.get(key.dotted)
        found[key.dotted] = {**merged, **value} if merged else value


def _document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"{path}: the text is not UTF-8 ({error.reason}); save it as UTF-8"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML ({error})") from error
    except OSError as error:
        raise SettingsError(
            f"{path}: cannot be read ({error.strerror}); check the path of the configuration"
        ) from error


def _values(
    pairs: Iterable[tuple[str, Any]], by_name: Mapping[str, Key], path: Path
) -> Iterator[tuple[Key, Any]]:
    """The values of a file, checked; paths are relative to it."""
    for dotted, value in pairs:
        key = by_name.get(dotted)
        if key is None:
            raise SettingsError(f"{path}: there is no key {dotted!r}{_meant(dotted, by_name)}")
        checked = _checked(f"{path}: {dotted}", key.check, value)
        yield key, path.parent / checked if key.kind is Path else checked


def _flat(document: Mapping[str, Any], path: Path) -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        if name in (*SERVER_SECTIONS, MAPPING, STUDIES):
            continue
        if name not in SECTIONS:
            yield name, value
        elif isinstance(value, dict):
            yield from ((f"{name}.{inner}", one) for inner, one in value.items())
        else:
            raise SettingsError(
                f"{path}: {name} is {value!r}; expected a table, [{name}], with keys of its own"
            )


def _meant(dotted: str, by_name: Mapping[str, Key]) -> str:
    """The key that was probably meant: in another section, or spelt otherwise."""
    last = dotted.rpartition(".")[2].replace("-", "_")
    for key in by_name.values():
        if key.name == last:
            return f"; did you mean {key.dotted!r}?"
    return did_you_mean(dotted, [*by_name, *SECTIONS])


def _from_environment(env: Mapping[str, str]) -> Iterator[tuple[Key, Any]]:
    for key in KEYS:
        # Empty is how a container file says that it has nothing to say.
        if text := env.get(key.variable, ""):
            yield key, _checked(key.variable, key.parse, text)


def _from_caller(given: Mapping[str, Any]) -> Iterator[tuple[Key, Any]]:
    by_name = {key.name: key for key in KEYS}
    for name, value in given.items():
        if name not in by_name:
            raise SettingsError(f"there is no key {name!r}{did_you_mean(name, by_name)}")
        key = by_name[name]
        yield key, _checked(key.option, key.check, value)


def _checked(name: str, check: Callable[[Any], Any], value: Any) -> Any:
    try:
        return check(value)
    except InvalidValue as invalid:
        raise SettingsError(f"{name} is {value!r}; {invalid}") from None


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
            "max_delay_s must be at least debounce_s"
        )
    try:
        settings.model.check_priors()
    except UsageError as error:
        raise SettingsError(f"model.priors or model.model: {error}") from error
    if settings.read.adapter is not None:
        # Now, and not when the first file comes.
        from bbq_plugin.plugins import check_options  # noqa: PLC0415 (loads all adapters)

        try:
            check_options(settings.read.adapter, settings.read.options)
        except UsageError as error:
            raise SettingsError(f"read.adapter or read.options: {error}") from error
