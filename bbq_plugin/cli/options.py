"""Options and inputs of the commands; those with a key in `config` are made from it."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from functools import partial, wraps
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from bbq_plugin.cli.main import ARGUMENTS
from bbq_plugin.cli.output import announce_compiling, tell, working
from bbq_plugin.config import (
    JUDGED_MODEL,
    JUDGED_MODELS,
    KEYS,
    KEYS_BY_NAME,
    InvalidValue,
    ModelSettings,
    load,
    unknown_variables,
)
from bbq_plugin.data.database_table import checked_address, is_database
from bbq_plugin.data.records import covariate_tags
from bbq_plugin.errors import FormatError, UsageError, did_you_mean, fit_failures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from bbq_plugin.config import Key, Settings
    from bbq_plugin.data.dataset import Comparisons
    from bbq_plugin.data.records import LeadWord, Person
    from bbq_plugin.live.tool_connection import Address
    from bbq_plugin.model import Fit
    from bbq_plugin.protocols import Project, Tool
    from bbq_plugin.report.documents import Origin
    from bbq_plugin.scale.prepared_set import PreparedSet
    from bbq_plugin.store import Store
    from bbq_plugin.store.project_sync import Memory


if TYPE_CHECKING:
    # Only new versions of click take the type in brackets when the program runs.
    _Words = click.Choice[str]
    _Any = click.ParamType[Any]
    _Pair = click.ParamType[tuple[str, str]]
else:
    _Words, _Any, _Pair = click.Choice, click.ParamType, click.ParamType

_Command = TypeVar("_Command", bound="Callable[..., Any]")
CONFIG_VARIABLE = "BBQ_CONFIG"
CONFIG_FILE = Path("bbq.toml")
#: The type of an option that names a file.
FILE = click.Path(path_type=Path)

#: What a verdict on raters depends on: the same for every command that plans feedback.
JUDGING = tuple(
    key
    for key in KEYS
    if key.section == "raters" or key.name in ("model", "priors", "camps", "level")
)


class Choice(_Words):
    """One of some words; a near miss is recognised."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Take the word, or refuse it with the nearest one."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            known = [str(one) for one in self.choices]
            message = error.message.removesuffix(".") + (did_you_mean(value, known) or ".")
            raise click.BadParameter(message, ctx, param) from None


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


class KeyType(_Any):
    """What a key of the settings takes."""

    def __init__(self, key: Key) -> None:
        self.key = key
        # The documentation's words are too long behind an option.
        short = {"options": "name=value", "priors": "priors", "camps": "auto|N"}
        self.name = short.get(key.name) or ("name,…" if key.words else key.form.takes)
        if key.kind is int:
            self.name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse what was typed."""
        if not isinstance(value, str):
            return value
        try:
            if self.key.name == "options" and "=" in value:
                # What is typed at once is one option, whatever its value holds.
                name, _, rest = value.partition("=")
                return self.key.check({name.strip(): rest})
            return self.key.parse(value)
        except InvalidValue as invalid:
            raise click.BadParameter(f"{value!r}: {invalid}", ctx, param) from None

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[Any]:
        """Offer the words of a choice."""
        if not self.key.is_choice:
            return super().shell_complete(ctx, param, incomplete)
        from click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in self.key.words if word.startswith(incomplete)]


def together(*options: Callable[[Any], Any]) -> Callable[[_Command], _Command]:
    """Several options at once, in this order."""

    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def option_of(key: str | Key, **given: Any) -> Callable[[Any], Any]:
    """The option of a key with its default, for a command that reads no `bbq.toml`.

    ``given`` is for click.
    """
    if isinstance(key, str):
        key = KEYS_BY_NAME[key]
    if key.kind is bool:
        return click.option(key.option, key.name, **{"is_flag": True, "help": key.help, **given})
    shown = {"default": key.default, "show_default": True} if key.default is not None else {}
    return _made(key, key.help, **{**shown, **given})


def options_of(*names: str) -> Callable[[_Command], _Command]:
    """The options of several keys."""
    return together(*map(option_of, names))


def _made(key: Key, text: str, **given: Any) -> Callable[[Any], Any]:
    """A click option of a key."""
    if key.name == "options":
        return click.option(
            "-O", key.option, key.name, type=KeyType(key), multiple=True,
            callback=_merged, help=f"{text} Repeatable.",
        )  # fmt: skip
    if key.name == "covariate":
        given = {**given, "multiple": True, "show_default": False, "callback": _listed_once}
    words = f"[{'|'.join(key.words)}]" if key.is_choice else None
    return click.option(
        key.option, key.name, **{"type": KeyType(key), "help": text, "metavar": words, **given}
    )


def _listed_once(
    ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, ...], ...]
) -> tuple[str, ...]:
    names = tuple(name for some in value for name in some)
    for name in names:
        if names.count(name) > 1:
            raise click.BadParameter(f"{name!r} is given twice; give it once.", ctx, param)
    return names


def _merged(
    ctx: click.Context, param: click.Parameter, value: tuple[dict[str, Any], ...]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in value:
        for name in one:
            if name in found:
                raise click.BadParameter(f"{name!r} is given twice; give it once.", ctx, param)
        found |= one
    return found


def merged(given: dict[str, Any], short: dict[str, str | None]) -> dict[str, Any]:
    """Adapter options, each given once; only these, for an adapter may not know others."""
    named = {key: value for key, value in short.items() if value is not None}
    return given_once("the option", [*given.items(), *named.items()])


def given_once(what: str, said: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Names with their values; one that is given twice is refused."""
    out: dict[str, str] = {}
    for key, value in said:
        if key in out:
            raise UsageError(f"{what} {key!r} is given twice; give it once")
        out[key] = value
    return out


before_option = click.option(
    "--before",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="An earlier JSON report. A rater who was excluded there is kept again only when little "
    "evidence is left against them. Default with --store: the raters excluded in the store.",
)


def output_options(formats: dict[str, str]) -> Callable[[Any], Any]:
    """--format, with a word on each, and --output."""
    words = " ".join(f"{name}: {what}." for name, what in formats.items())
    return together(
        click.option(
            "--format", "output_format", type=Choice(list(formats)), help=f"{words} Default: table."
        ),
        click.option(
            "-o",
            "--output",
            type=FILE,
            help="File to write, in the format of its suffix. Default: standard output.",
        ),
    )


table_or_json_option = click.option(
    "--format",
    "output_format",
    type=Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="table: for people. json: all of it.",
)

for_camp_option = click.option(
    "--for-camp",
    metavar="N",
    type=click.IntRange(1),
    help="Plan for the ranking of this camp, by raters of it. Default: for the preference of the "
    "whole panel.",
)
all_option = click.option(
    "--all", "show_all", is_flag=True, help="Print all rows of the tables. Default: at most 30."
)


# -- commands that read bbq.toml


@dataclass(frozen=True)
class Configured:
    """Where the settings of a command come from; `load` reads them, again if need be."""

    file: Path | None
    given: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> Settings:
        """The settings as they are now."""
        tell(*unknown_variables(os.environ), what="Warning")
        return load(self.file, os.environ, self.given)


def configured_by(keys: Sequence[Key]) -> Callable[[_Command], _Command]:
    """Add --config and an option for each of these keys; the command gets them as `configured`.

    The file may hold other keys as well.
    """

    def added(command: _Command) -> _Command:
        @wraps(command)
        def wrapped(config: Path | None, **rest: Any) -> Any:
            typed = {key.name: rest.pop(key.name) for key in keys}
            if is_database(typed.get("folder")):
                typed["database"] = checked_address(typed.pop("folder"))
            # An empty list that was typed counts: it overrules that of the file.
            source = click.get_current_context().get_parameter_source
            given = {
                name: value for name, value in typed.items()
                if value not in (None, {})
                and (value != () or source(name) is not ParameterSource.DEFAULT)
            }  # fmt: skip
            file = config or (CONFIG_FILE if CONFIG_FILE.is_file() else None)
            return command(configured=Configured(file, given), **rest)

        for key in reversed(keys):
            wrapped = _configured_option(key)(wrapped)
        return click.option(  # type: ignore[return-value] # click calls it by keyword
            "--config",
            type=FILE,
            envvar=CONFIG_VARIABLE,
            help="File with the configuration. Default: bbq.toml in the current folder, if there "
            "is one.",
        )(wrapped)

    return added


def judging_options(command: _Command) -> _Command:
    """Add --config and what verdicts depend on to a command that does nothing else with a fit."""
    keys = [JUDGED_MODEL if key.name == "model" else key for key in JUDGING]
    return configured_by(keys)(command)


def check_judged(chosen: Settings, command: str) -> None:
    """Refuse a model that raters cannot be judged with; the file may name any."""
    if chosen.model.model not in JUDGED_MODELS:
        raise UsageError(
            f"model.model is {chosen.model.model!r}, and {command} judges raters, which needs "
            f"{' or '.join(JUDGED_MODELS)}; choose one of these with --model"
        )


class _FolderType(KeyType):
    """A folder, or the address of a database, which is no path."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse what was typed."""
        return value if is_database(value) else super().convert(value, param, ctx)


def _configured_option(key: Key) -> Callable[[Any], Any]:
    """The option of a key without its default: what is not typed is looked up elsewhere."""
    if key.name == "folder":
        return click.argument("folder", required=False, type=_FolderType(key))
    shown = key.shown(key.default)
    text = f"{key.help} Default: {shown}." if shown else key.help
    if key.kind is bool:
        both = f"{key.option}/--no-{key.option.removeprefix('--')}"
        return click.option(both, key.name, default=None, help=text)
    return _made(key, text)


# -- what the commands that fit have in common


def fitted(data: Comparisons, *, model: Any, priors: Any, solver: Any = "auto", **more: Any) -> Fit:
    """Fit, with a sign of life; ``more`` is for `bbq.fit`."""
    given = ModelSettings(model=model, priors=priors).fit_priors()
    return fitted_with(data, model=model, priors=given, solver=solver, **more)


def fitted_with(data: Comparisons, **chosen: Any) -> Fit:
    """The same with the priors of `bbq.toml`, which are read already."""
    # Over parts a bar shows the passes.
    sign = working("Fitting") if not hasattr(data, "fitted") else nullcontext()
    with sign, fit_failures():
        from bbq_plugin.model import fit

        announce_compiling()
        return fit(data, **chosen)


def check_intervals(model: str, intervals: str, cluster: tuple[str, ...]) -> None:
    """Refuse intervals that a model does not have, before the files are read."""
    if intervals != "robust" and not {"auto", "none"}.issuperset(cluster):
        raise UsageError(
            f"--cluster {','.join(cluster)} is for --intervals robust; --intervals {intervals} "
            "allows for no clusters that are named, so leave one of them out"
        )
    if model in ("bbq-signed", "crowd-bt") and intervals in ("posterior", "paper"):
        raise UsageError(
            f"--intervals {intervals} is not defined for --model {model}; "
            "use --intervals laplace or bootstrap, or --model bbq"
        )


def lead_words(source: Input) -> dict[str, LeadWord]:
    """What a lead has decided about raters in the store that is read, by their names here."""
    if source.store is None:
        return {}
    from bbq_plugin.store import Store

    with Store(source.store, writable=False) as store:
        found = store.lead_words()
    return {
        known: word if known == name else word.pseudonymous(known)
        for name, word in found.items()
        for known in source.known_as([name])
    }


def excluded_before(source: Input, data: Comparisons, before: Path | None) -> tuple[set[str], str]:
    """Who was excluded before, by their names here, and a warning if some are not in the data.

    An earlier report says so, or without one the store that is read.
    """
    if before is None:
        if source.store is None:
            return set(), ""
        from bbq_plugin.store import Store

        with Store(source.store, writable=False) as store:
            return source.known_as(store.excluded(store.chosen_study(source.study))), ""
    from bbq_plugin.report.documents import excluded_names

    named = excluded_names(before.read_bytes(), str(before))
    known = source.known_as(named)
    here = set(data.raters)
    gone = sum(not here & {name, source.rater_name(name)} for name in named)
    if not gone:
        return known, ""
    return known, (
        f"{gone:,} of the {len(named):,} raters that {before} excludes are not in these data, and "
        "are not excluded here; if it was made with --pseudonymise, use the same key "
        "(--pseudonym-key-file, BBQ_PSEUDONYM_KEY)"
    )


# -- a project on a labelling tool's server

#: Where the server is, for a command that has a --config of its own.
place_options = together(
    click.option(
        "--url", help="Address of Label Studio. Default: LABEL_STUDIO_URL, else bbq.toml."
    ),
    click.option(
        "--token-file",
        type=FILE,
        help="File with Label Studio's token. Default: LABEL_STUDIO_API_KEY, else bbq.toml.",
    ),
)
#: The same with a --config.
address_options = together(
    place_options,
    click.option(
        "--config",
        type=FILE,
        help="File with a section [label_studio]. Default: bbq.toml, if there is one.",
    ),
)
project_option = click.option(
    "--project", type=click.IntRange(1), required=True, help="The project's number."
)


class ProjectName(click.ParamType[int | Path]):
    """The number of a project on a server, or the folder of one."""

    name = "number or folder"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | Path:
        """A number above 0, or a folder that exists."""
        text = str(value)
        if text.isascii() and text.isdigit() and int(text):
            return int(text)
        if not Path(text).is_dir():
            self.fail(f"{text!r} is neither the number of a project nor a folder", param, ctx)
        return Path(text)


webhook_secret_option = click.option(
    "--webhook-secret-file",
    type=FILE,
    help="File with the webhook's secret, the same for bbq serve and bbq connect. "
    "Default: BBQ_WEBHOOK_SECRET.",
)
_project_options = together(
    click.option(
        "--project",
        type=ProjectName(),
        required=True,
        help="The project's number in Label Studio, or the folder of a Potato project.",
    ),
    click.option("--store", type=FILE, required=True, help="The store to keep the answers in."),
)
_request_options = together(
    click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(0, min_open=True),
        default=60.0,
        show_default=True,
        help="Seconds to wait for a response of the server.",
    ),
    click.option("--moved", is_flag=True, help="The same server has a new address."),
)
_naming_options = together(
    click.option(
        "--items", help="Fields of the task data that name the items; the same as -O items=…."
    ),
    click.option("--labels", help="What the labels of Choices mean; the same as -O labels=…."),
    option_of("options"),
)


def naming_options(command: _Command) -> _Command:
    """Add how an adapter finds the items' names; the command gets all of it as `naming`."""

    @wraps(command)
    def wrapped(
        *, items: str | None, labels: str | None, options: dict[str, Any], **rest: Any
    ) -> Any:
        return command(naming=merged(options, {"items": items, "labels": labels}), **rest)

    return _naming_options(wrapped)  # type: ignore[return-value] # click calls it by keyword


@dataclass(frozen=True)
class Server:
    """Where a project is, and how to get at it."""

    project: int | Path
    store: Path
    url: str | None
    token_file: Path | None
    config: Path | None
    timeout_s: float
    moved: bool
    #: Warnings that were given, each of which is enough.
    warned: set[str] = field(default_factory=set, compare=False)

    @property
    def tool(self) -> Tool:
        """The labelling tool: that of the folder, or Label Studio for a number."""
        from bbq_plugin.plugins import answer_files, tool

        if isinstance(self.project, int):
            return tool()
        found = answer_files(self.project)
        if found is None:
            raise UsageError(
                f"{self.project} is no project of a labelling tool that keeps its answers in a "
                "folder; give the folder with the tool's configuration"
            )
        return tool(found[0])

    @property
    def number(self) -> int:
        """The project's number in the store; the project in a folder is the first of its tool."""
        return self.project if isinstance(self.project, int) else 1

    def config_file(self) -> Path | None:
        """The configuration, if there is one."""
        return self.config or (CONFIG_FILE if CONFIG_FILE.is_file() else None)

    def address(self) -> Address:
        """Address and token of the server; refused if either is not known."""
        return server_address(self.url, self.token_file, self.config, self.warned, self.tool)

    @contextmanager
    def open(
        self,
        store: Store,
        options: Mapping[str, Any] | None = None,
        page_size: int | None = None,
        notice: Callable[[str], None] = tell,
    ) -> Iterator[tuple[Project, Memory]]:
        """Reach the project, and what the store knows of it; `notice` hears of retries."""
        from bbq_plugin.live.tool_connection import adapter_options
        from bbq_plugin.protocols import ProjectAddress
        from bbq_plugin.store.project_sync import Memory

        tool, address = self.tool, self.address()
        url = address.url.rstrip("/")
        given = adapter_options(tool, options or {})
        # What a folder is called does not change with the address of its server.
        place = str(self.project.resolve()) if isinstance(self.project, Path) else url
        memory = Memory(
            store, tool.name, self.number, place, options=given, moved=self.moved, bind=False
        )
        at = ProjectAddress(
            url, address.token, self.project, memory.options, page_size, self.timeout_s, notice
        )
        project = tool.open(at)
        try:
            # A mistyped address or number would else be the store's for ever.
            memory.bind()
            yield project, memory
        finally:
            project.close()


def server_address(
    url: str | None,
    token_file: Path | None,
    config: Path | None,
    warned: set[str],
    tool: Tool | None = None,
) -> Address:
    """Address and token of the server; warns of a token that other users can read."""
    from bbq_plugin.live.tool_connection import address
    from bbq_plugin.plugins import tool as labelling_tool

    config = config or (CONFIG_FILE if CONFIG_FILE.is_file() else None)
    found = address(tool or labelling_tool(), url=url, token_file=token_file, config=config)
    tell(*(text for text in found.warnings if text not in warned), what="Warning")
    warned.update(found.warnings)
    return found


def people_of(
    url: str | None, token_file: Path | None = None, config: Path | None = None
) -> Callable[[], Mapping[str, Person]]:
    """What asks the server who the raters are; refused here if address or token is not known."""
    from bbq_plugin.plugins import tool

    found = server_address(url, token_file, config, set())
    return partial(tool().people, found.url.rstrip("/"), found.token, 30.0)


def warn_of_readers(*files: Path | None) -> None:
    """Warn of files with a secret that others on this machine can read."""
    named = [file for file in files if file is not None]
    if not named:
        return
    from bbq_plugin.live.tool_connection import seen_by_others

    found = map(seen_by_others, named)
    tell(*(text for text in found if text is not None), what="Warning")


def server_options(command: _Command) -> _Command:
    """Add the options to a command, which gets them as one ``server``."""

    @wraps(command)
    def wrapped(config: Path | None, **rest: Any) -> Any:
        server = _server(config, rest)
        return command(server=server, **rest)

    return together(_project_options, address_options, _request_options)(wrapped)  # type: ignore[return-value] # click's


def configured_server_options(command: _Command) -> _Command:
    """Add the same to a command that gets a ``configured``, with the --config of that."""

    @wraps(command)
    def wrapped(configured: Configured, **rest: Any) -> Any:
        server = _server(configured.file, rest)
        return command(server=server, configured=configured, **rest)

    return together(_project_options, place_options, _request_options)(wrapped)  # type: ignore[return-value] # click's


def _server(config: Path | None, typed: dict[str, Any]) -> Server:
    """Take the options of a server out of what was typed."""
    names = ("project", "store", "url", "token_file", "timeout_s", "moved")
    return Server(config=config, **{name: typed.pop(name) for name in names})


STDIN = "-"


def expanded(files: tuple[str, ...]) -> list[str]:
    """The files to read, in the order typed; a shell may have left a pattern as it is."""
    return [name for typed in files for name in _matching(typed)]


def _matching(typed: str) -> list[str]:
    if is_database(typed):
        return [checked_address(typed)]
    path = Path(typed)
    if path.is_dir():
        from bbq_plugin.data.files import files_of

        return list(map(str, files_of(path)))
    if typed == STDIN or path.exists():
        return [typed]
    if not has_magic(typed):
        _check_there(path, typed)
        return [typed]
    # Not Path.glob: a pattern may be absolute, relative, or climb out with "..".
    matches = glob(typed, recursive=True)  # noqa: PTH207
    found = sorted(name for name in matches if Path(name).is_file())
    if not found:
        raise FormatError("no file matches this pattern", typed, remedy="check the path")
    return found


def _check_there(path: Path, typed: str) -> None:
    """Refuse a file that is missing before what reads files is loaded."""
    try:
        path.stat()
    except OSError as error:
        if "://" in typed:
            remedy = "votes are read from files: download it first"
            raise FormatError("this is an address", typed, remedy=remedy) from error
        raise FormatError(
            f"cannot be read ({error.strerror})", str(path), remedy="check the path"
        ) from error


_SECRET = re.compile(r"secret|token|passw|api_?key|credential|auth|salt", re.IGNORECASE)
_HIDDEN = "***"
_RATERS = ("--drop-rater", "--rater")


def typed_command(hide_rater: Callable[[str], str] | None = None) -> str | None:
    """What was typed; ``hide_rater`` replaces the names that --drop-rater and --rater give."""
    context = click.get_current_context(silent=True)
    if context is None or ARGUMENTS not in context.meta:
        return None
    return shlex.join(["bbq", *hidden_words(context.meta[ARGUMENTS], hide_rater)])


def hidden_words(arguments: list[str], hide_rater: Callable[[str], str] | None = None) -> list[str]:
    """What was typed without secrets."""
    out: list[str] = []
    option = ""
    for word in arguments:
        name, equals, value = word.partition("=")
        if option in ("-O", "--option") or (name == "--option" and equals):
            # key=value of an adapter's option
            shown = word if option else value
            key, _, _ = shown.partition("=")
            if _SECRET.search(key):
                shown = f"{key}={_HIDDEN}"
            out.append(shown if option else f"{name}={shown}")
        elif option in _RATERS and hide_rater:
            out.append(hide_rater(word))
        elif name in _RATERS and equals and hide_rater:
            out.append(f"{name}={hide_rater(value)}")
        else:
            out.append(word)
        option = word if not option and word in ("-O", "--option", *_RATERS) else ""
    return out


_OPTIONS = [
    click.argument("files", nargs=-1),
    click.option("--store", type=FILE, help="Read the comparisons of this store instead of FILES."),
    option_of("study"),
    option_of("adapter"),
    option_of("options"),
    click.option("--task", help="The question of a forced-choice log; the same as -O task=…."),
    click.option(
        "--items",
        help="Fields that name the items; a+b composes a name of two. The same as -O items=….",
    ),
    click.option(
        "--rows",
        metavar="COLUMN=VALUE",
        help="Only rows of a table with this value, such as trial_type=comparison. The same as "
        "-O rows=….",
    ),
    click.option(
        "--table", help="The table of a database, if FILES is its address; the same as -O table=…."
    ),
    option_of("mapping"),
    click.option(
        "--labels", help="What the labels of a choice mean (Label Studio); the same as -O labels=…."
    ),
    click.option(
        "--both-bad",
        type=Choice(["tie", "drop"]),
        help="What a vote 'both are bad' counts as. Default: tie.",
    ),
    option_of("strict"),
    option_of("max_skipped"),
    click.option(
        "--force",
        is_flag=True,
        help="Make a leaderboard even if the data hardly allow one, such as texts that occur once, "
        "or two equal files.",
    ),
    click.option(
        "--where",
        type=KeyValue("tag"),
        multiple=True,
        help="Only comparisons with this tag. Repeatable: all tags must match.",
    ),
    click.option(
        "--rename",
        type=FILE,
        help="File with old and new item names (CSV, TOML or JSON); items with the same new name "
        "are merged.",
    ),
    click.option("--drop-rater", multiple=True, help="Leave out this rater. Repeatable."),
    option_of("pseudonymise"),
    option_of("pseudonym_key_file"),
    option_of("seed"),
]


def _is_set_address(name: str) -> bool:
    """Whether this is where an object store has a prepared set: files there are read by DuckDB."""
    return "://" in name and not is_database(name) and name.rstrip("/").endswith(".bbq")


@dataclass(frozen=True)
class Input:
    """The files of one command, with everything that was said about reading them."""

    files: tuple[str, ...]
    store: Path | None
    study: str | None
    adapter: str | None
    options: dict[str, Any]
    strict: bool
    max_skipped: float
    force: bool
    where: dict[str, str]
    rename: Path | None
    drop_rater: tuple[str, ...]
    key: bytes | None
    seed: int

    def read(self, cluster: tuple[str, ...] = (), covariates: tuple[str, ...] = ()) -> Comparisons:
        """Read all files as one set, or what the store holds; ``cluster`` are tags to keep.

        So are those of ``covariates``, however many values they have.
        """
        kept = covariate_tags(covariates)
        if self.store is not None:
            from bbq_plugin.store import read_store

            with working("Reading"):
                data = read_store(
                    self.store, tags=(*cluster, *kept), study=self.study, **self._filters()
                )
                return self._named(data)
        if (prepared := self.prepared()) is not None:
            with working("Reading"):
                return self._named(prepared.read(**self._filters()))
        files = expanded(self.files)
        with working("Reading"):
            from bbq_plugin.data.files import read

            named = not {"auto", "none", "rater"}.issuperset(cluster)
            data = read(files, self.adapter, keep_tags=kept or named, **self._keywords())
        return self._named(data)

    def read_by(self, tag: str, covariates: tuple[str, ...] = ()) -> dict[str, Comparisons]:
        """Read all files, or the store, as one set for each value of a tag."""
        kept = covariate_tags(covariates)
        if self.store is not None:
            from bbq_plugin.store import read_store_by

            with working("Reading"):
                found = read_store_by(
                    self.store, by=tag, study=self.study, tags=kept, **self._filters()
                )
            return {value: self._named(data) for value, data in found.items()}
        if (prepared := self.prepared()) is not None:
            with working("Reading"):
                parts = prepared.read_by(tag, **self._filters())
            return {value: self._named(data) for value, data in parts.items()}
        files = expanded(self.files)
        with working("Reading"):
            from bbq_plugin.data.files import read_by

            groups = read_by(files, self.adapter, by=tag, keep_tags=kept, **self._keywords())
        return {value: self._named(data) for value, data in groups.items()}

    def prepared(self) -> PreparedSet | None:
        """The prepared set that is to be read, if it is one; it stands alone."""
        folders = [
            name
            for name in self.files
            if _is_set_address(name) or (Path(name) / "manifest.json").is_file()
        ]
        if not folders:
            return None
        if len(self.files) > 1:
            raise UsageError(
                f"{folders[0]} is a prepared set, which is read alone; append the other files to "
                f"it with bbq prepare … -o {folders[0]}"
            )
        from bbq_plugin.scale.prepared_set import open_dataset

        return open_dataset(folders[0])

    def origin(self) -> Origin:
        """The command and the seed that give these results."""
        from bbq_plugin.report.documents import Origin
        from bbq_plugin.report.pseudonyms import pseudonym

        key = self.key
        hide = None if key is None else lambda name: pseudonym(name, key)
        return Origin(typed_command(hide), self.seed)

    def rater_name(self, name: str) -> str:
        """What a rater is called in the results."""
        from bbq_plugin.report.pseudonyms import pseudonym

        return name if self.key is None else pseudonym(name, self.key)

    def known_as(self, names: Iterable[str]) -> set[str]:
        """These raters under the names that they have here, pseudonyms or not."""
        return {known for name in names for known in (name, self.rater_name(name))}

    def _keywords(self) -> dict[str, Any]:
        refusals = {
            "strict": self.strict,
            "max_skipped": self.max_skipped,
            "force": self.force,
        }
        return {**refusals, **self._filters(), **self.options}

    def _filters(self) -> dict[str, Any]:
        from bbq_plugin.data.mappings import read_renames

        return {
            "where": self.where,
            "rename": None if self.rename is None else read_renames(self.rename),
            "drop_raters": self.drop_rater,
        }

    def _named(self, data: Comparisons) -> Comparisons:
        if self.key is None:
            return data
        from bbq_plugin.report.pseudonyms import pseudonymised

        return pseudonymised(data, self.key)


def reading_options(command: _Command) -> _Command:
    """Add files and reading options to a command, which gets them as one ``source``."""

    @wraps(command)
    def wrapped(**typed: Any) -> Any:
        _check_source(typed["files"], typed["store"], typed["study"])
        if "output" in typed:
            typed["output"] = _checked_output(typed["output"], typed["files"], typed["store"])
        short = {name: typed.pop(name) for name in _SHORT}
        typed["options"] = merged(typed["options"], short)
        mapping = typed.pop("mapping")
        if mapping is not None:
            from bbq_plugin.data.mappings import read_mapping

            saved = read_mapping(mapping)
            typed["adapter"] = typed["adapter"] or saved.adapter
            typed["options"] = {**saved.options, **typed["options"]}
        typed["where"] = given_once("--where", typed["where"])
        typed["key"] = _key(typed.pop("pseudonym_key_file"), wanted=typed.pop("pseudonymise"))
        source = Input(**{field.name: typed.pop(field.name) for field in fields(Input)})
        return command(source, **typed)

    return together(*_OPTIONS)(wrapped)  # type: ignore[return-value] # click calls it by keyword


# Options of adapters that have a name of their own on the command line.
_SHORT = ("task", "items", "labels", "both_bad", "rows", "table")
# How files are read: a store has its answers read already.
_FOR_FILES = ("adapter", "options", "strict", "max_skipped", "mapping", "force", *_SHORT)


def _check_source(files: tuple[str, ...], store: Path | None, study: str | None) -> None:
    """Either files or a store, and nothing about reading files with a store."""
    if store is None:
        if not files:
            raise UsageError("nothing to read; name FILES, or a store with --store")
        if study is not None:
            raise UsageError(f"--study {study} is one of a store; name the store with --store")
        return
    if files:
        raise UsageError(
            f"FILES ({files[0]}) and --store ({store}) are both given; read one or the other"
        )
    context = click.get_current_context()
    for option in context.command.params:
        said = context.get_parameter_source(option.name or "")
        if option.name in _FOR_FILES and said is click.core.ParameterSource.COMMANDLINE:
            raise UsageError(
                f"{option.opts[-1]} says how FILES are read, and --store reads none; leave it out"
            )


def _checked_output(output: Path | None, files: tuple[str, ...], store: Path | None) -> Path | None:
    """Where to write: never over what is read; ``-`` is standard output, as it is for input."""
    if output is None or str(output) == STDIN:
        return None
    if output.is_file():
        matched = (glob(typed, recursive=True) if has_magic(typed) else [typed] for typed in files)  # noqa: PTH207
        read = [*(Path(name) for names in matched for name in names), *filter(None, (store,))]
        if any(path.is_file() and path.samefile(output) for path in read):
            raise UsageError(
                f"-o {output}: this file is to be read, and would be overwritten; name another one"
            )
    return output


def _key(key_file: Path | None, *, wanted: bool) -> bytes | None:
    if not wanted and key_file is None:
        return None
    from bbq_plugin.report.pseudonyms import pseudonym_key

    key, notes = pseudonym_key(key_file)
    tell(*notes, what="Warning")
    return key
