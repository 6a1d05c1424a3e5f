"""What goes in: the files and how they are read, the same for every command."""

from __future__ import annotations

import csv
import json
import re
import shlex
import tomllib
from dataclasses import dataclass, fields
from functools import wraps
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bbq_plugin.cli.main import ARGUMENTS
from bbq_plugin.cli.options import FILE, Choice, KeyValue, given_once, merged, option_of, together
from bbq_plugin.cli.output import tell, working
from bbq_plugin.data.database_table import checked_address, is_database
from bbq_plugin.data.records import covariate_tags
from bbq_plugin.errors import FormatError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bbq_plugin.data.dataset import Comparisons
    from bbq_plugin.report.documents import Origin
    from bbq_plugin.scale.prepared_set import PreparedSet

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
        _check_there(path)
        return [typed]
    # Not Path.glob: a pattern may be absolute, relative, or climb out with "..".
    matches = glob(typed, recursive=True)  # noqa: PTH207
    found = sorted(name for name in matches if Path(name).is_file())
    if not found:
        raise FormatError("no file matches this pattern", typed, remedy="check the path")
    return found


def _check_there(path: Path) -> None:
    """Refuse a file that is missing before what reads files is loaded."""
    try:
        path.stat()
    except OSError as error:
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


_HEADINGS = ({"old", "from", "item", "before"}, {"new", "to", "name", "after"})


def read_renames(path: Path) -> dict[str, str]:
    """The new name of each old one."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"the text is not UTF-8 ({error.reason})", str(path), remedy="save it as UTF-8"
        ) from error
    except OSError as error:
        raise FormatError(
            f"cannot be read ({error.strerror})", str(path), remedy="check the path"
        ) from error
    suffix = path.suffix.lower()
    try:
        if suffix == ".json":
            return _checked(json.loads(text), path)
        if suffix == ".toml":
            return _checked(tomllib.loads(text), path)
    except json.JSONDecodeError as error:
        raise FormatError(f"not valid JSON ({error.msg})", str(path), error.lineno) from error
    except tomllib.TOMLDecodeError as error:
        raise FormatError(
            f"not valid TOML ({error})", str(path), remedy='write "old name" = "new name"'
        ) from error
    if suffix in (".csv", ".txt"):
        return _csv(text, path)
    raise FormatError(
        f"the suffix {suffix!r} is of no known format", str(path), remedy="use .csv, .toml or .json"
    )


def _checked(names: Any, path: Path) -> dict[str, str]:
    if not isinstance(names, dict):
        raise FormatError(
            "expected one table of old and new names", str(path), remedy='write {"old": "new"}'
        )
    for old, new in names.items():
        if not isinstance(new, str) or not old.strip() or not new.strip():
            raise FormatError(
                f"{old!r} is to be called {new!r}",
                str(path),
                value=new,
                remedy="both names are text and not empty",
            )
    return dict(names)


def _csv(text: str, path: Path) -> dict[str, str]:
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    names: dict[str, str] = {}
    try:
        for i, cells in enumerate(reader):
            if not cells:
                continue
            line = reader.line_num
            if len(cells) != 2:
                raise FormatError(
                    f"has {len(cells)} columns",
                    str(path),
                    line,
                    remedy="expected two, the old name and the new one",
                )
            old, new = (cell.strip() for cell in cells)
            if i == 0 and old.lower() in _HEADINGS[0] and new.lower() in _HEADINGS[1]:
                continue
            if not old or not new:
                raise FormatError("a name is empty", str(path), line, remedy="name both")
            if names.get(old, new) != new:
                raise FormatError(
                    f"{old!r} is to be called {new!r}, and above {names[old]!r}",
                    str(path),
                    line,
                    remedy="keep one of the two lines",
                )
            names[old] = new
    except csv.Error as error:
        raise FormatError(f"not valid CSV ({error})", str(path), reader.line_num) from error
    return names


_Command = TypeVar("_Command", bound="Callable[..., Any]")

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
        help="Make a leaderboard even where it can hardly be one, as of texts that never come "
        "again.",
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


def _key(key_file: Path | None, *, wanted: bool) -> bytes | None:
    if not wanted and key_file is None:
        return None
    from bbq_plugin.report.pseudonyms import pseudonym_key

    key, notes = pseudonym_key(key_file)
    tell(*notes, what="Warning")
    return key
