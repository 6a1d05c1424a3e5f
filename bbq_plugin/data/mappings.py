"""How a file could be read: what stands in its columns, and the mappings that would fit.

A `Reading` is plain data. It is executed by the adapter that it names, spelled as options of the
command line, and saved as the table [mapping] of a TOML file. A file of its own has the new names
of items.
"""

from __future__ import annotations

import csv
import json
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bbq_plugin.errors import FormatError, UsageError

#: certain: read so without asking. likely: proposed first. possible: proposed after it.
Confidence = Literal["certain", "likely", "possible"]
#: The table of a TOML file that holds a mapping.
MAPPING = "mapping"


@dataclass(frozen=True, slots=True)
class Column:
    """What stands in a column."""

    name: str
    samples: tuple[str, ...]
    n_distinct: int
    n_empty: int
    #: There are more distinct values than were counted.
    more: bool = False


@dataclass(frozen=True, slots=True)
class Role:
    """What a column is taken for, and why."""

    role: str
    column: str
    why: str
    #: How sure that is, whatever is thought of the other columns.
    sure: Confidence = "likely"


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read a file."""

    adapter: str
    options: Mapping[str, Any]
    confidence: Confidence
    #: In words, such as `two items and who won`.
    shape: str
    roles: tuple[Role, ...] = ()
    #: What speaks against it, or is still to be decided.
    doubts: tuple[str, ...] = ()
    #: What sets it apart from the reading before it.
    difference: str = ""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What is in a file, and what could be made of it."""

    file: str
    #: In words: `CSV`, `JSON lines`, …
    format: str
    n_rows: int
    columns: tuple[Column, ...] = ()
    readings: tuple[Reading, ...] = ()
    #: Why none of the readings is certain, or why there are none.
    problem: str = ""
    #: Only the first rows were looked at.
    sampled: bool = False

    @property
    def certain(self) -> Reading | None:
        """The reading that needs no question."""
        first = self.readings[0] if self.readings else None
        return first if first is not None and first.confidence == "certain" else None


class UnclearError(FormatError):
    """A file that may hold votes, but not so clearly that they are read without asking."""

    def __init__(
        self,
        problem: str,
        file: str,
        readings: Sequence[Reading] = (),
        line: int | None = None,
        value: object = None,
        *,
        inspected: bool = False,
    ) -> None:
        super().__init__(problem, file, line, value, _remedy(file, readings))
        self.args = (problem, file, tuple(readings), line, value)
        self.readings = tuple(readings)
        #: All rows were looked at: there are no further readings.
        self.inspected = inspected

    def for_command_line(self) -> str:
        """The message, where commands to paste follow it."""
        return str(FormatError(self.problem, self.file, self.line, self.value))


def _remedy(file: str, readings: Sequence[Reading]) -> str:
    if not readings:
        return f"see what is in it with: bbq inspect {shlex.quote(file)}"
    first = readings[0]
    said = "".join(f", {name}={value!r}" for name, value in first.options.items())
    named = f", {first.adapter!r}" if first.adapter else ""
    return f"if it is meant so, say it: read({file!r}{named}{said})"


def spelled(value: Any) -> str:
    """The value of an option as text: a list with commas, a mapping with equals signs.

    JSON where a comma or an equals sign is part of a name.
    """
    if isinstance(value, Mapping):
        parts = [*value, *value.values()]
        plain = all(_is_plain(part, ",=") for part in parts) and not str(parts[0]).startswith("{")
        if plain:
            return ",".join(f"{name}={one}" for name, one in value.items())
        return json.dumps(dict(value), ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        if all(_is_plain(part, ",") for part in value) and not str(value[0]).startswith("["):
            return ",".join(value)
        return json.dumps(list(value), ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_plain(part: object, signs: str) -> bool:
    text = str(part)
    return text == text.strip() and bool(text) and not any(sign in text for sign in signs)


@dataclass(frozen=True, slots=True)
class SavedMapping:
    """What a file with the table [mapping] says."""

    adapter: str = "table"
    options: Mapping[str, Any] = field(default_factory=dict)


def read_mapping(path: str | Path) -> SavedMapping:
    """The table [mapping] of a TOML file, or a file that is one such table."""
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the mapping {path} cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the mapping {path} is not valid TOML ({error})") from error
    return mapping_of(found.get(MAPPING, found), str(path))


def mapping_of(found: Any, where: str) -> SavedMapping:
    """A mapping from the table of a file."""
    if not isinstance(found, dict):
        raise UsageError(f"{where}: {MAPPING} is {found!r}; expected a table, [{MAPPING}]")
    options = dict(found)
    adapter = options.pop("adapter", "table")
    if not isinstance(adapter, str):
        raise UsageError(f"{where}: adapter is {adapter!r}; expected text")
    return SavedMapping(adapter, {name.replace("-", "_"): one for name, one in options.items()})


def mapping_toml(reading: Reading) -> str:
    """A reading as the table [mapping], with what is not certain about it as comments."""
    lines = [f"# {reading.shape}", *(f"# not certain: {doubt}" for doubt in reading.doubts)]
    lines = [line.replace("\n", " ") for line in lines] + [f"[{MAPPING}]"]
    lines.append(f"adapter = {_toml(reading.adapter)}")
    lines += [f"{name} = {_toml(value)}" for name, value in reading.options.items()]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(str(k))} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, (bool, int, float)):
        return str(value).lower()
    # JSON's strings are TOML's, but for the one control character that JSON leaves as it is.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


# -- new names of items

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
            return _checked_renames(json.loads(text), path)
        if suffix == ".toml":
            return _checked_renames(tomllib.loads(text), path)
    except json.JSONDecodeError as error:
        raise FormatError(f"not valid JSON ({error.msg})", str(path), error.lineno) from error
    except tomllib.TOMLDecodeError as error:
        raise FormatError(
            f"not valid TOML ({error})", str(path), remedy='write "old name" = "new name"'
        ) from error
    if suffix in (".csv", ".txt"):
        return _csv_renames(text, path)
    raise FormatError(
        f"the suffix {suffix!r} is of no known format", str(path), remedy="use .csv, .toml or .json"
    )


def _checked_renames(names: Any, path: Path) -> dict[str, str]:
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


def _csv_renames(text: str, path: Path) -> dict[str, str]:
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
