"""Kinds of values: what a key takes, from a TOML file and from text.

``check`` takes what a TOML file or a Python caller gives, ``parse`` what was typed. Both return
the value as `Settings` holds it, or raise `Wrong` with what is expected.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "Choice",
    "FilePath",
    "Kind",
    "Names",
    "Number",
    "Options",
    "PriorsText",
    "Share",
    "Switch",
    "Text",
    "Whole",
    "Wrong",
    "near",
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
