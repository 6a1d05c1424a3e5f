"""A file of item names: old ones and what they are to be called.

CSV has two columns, old and new, with or without that header; TOML and JSON have one table of
`old = "new"`. The suffix tells which.
"""

from __future__ import annotations

import csv
import json
import tomllib
from typing import TYPE_CHECKING, Any

from bbq_plugin.errors import FormatError

if TYPE_CHECKING:
    from pathlib import Path

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
    if suffix == ".json":
        return _checked(_json(text, path), path)
    if suffix == ".toml":
        return _checked(_toml(text, path), path)
    if suffix in (".csv", ".txt"):
        return _csv(text, path)
    raise FormatError(
        f"the suffix {suffix!r} tells no format", str(path), remedy="use .csv, .toml or .json"
    )


def _json(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError(f"not valid JSON ({error.msg})", str(path), error.lineno) from error


def _toml(text: str, path: Path) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FormatError(
            f"not valid TOML ({error})", str(path), remedy='write "old name" = "new name"'
        ) from error


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
