"""How a file could be read: what stands in its columns, and the mappings that would fit.

A `Reading` is plain data. It is executed by the adapter that it names, spelled as options of the
command line, and saved as the table [mapping] of a TOML file.
"""

from __future__ import annotations

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
