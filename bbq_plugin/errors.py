"""The errors a user may see. A message says what, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

# Comparing two long texts takes the square of their length.
_LONGEST_WORD = 100


def did_you_mean(
    word: object,
    known: Iterable[str],
    otherwise: str = "",
    *,
    before: str = "; ",
    cutoff: float = 0.6,
) -> str:
    """The end of a message about an unknown word: `; did you mean 'tie'?`.

    Without a known word that is near (`cutoff` is the least similarity, 1 for equal words), it is
    `otherwise`, and nothing if that is empty.
    """
    by_lower = {name.lower(): name for name in known}
    short = str(word)[:_LONGEST_WORD].lower()
    close = difflib.get_close_matches(short, by_lower, n=1, cutoff=cutoff)
    text = f"did you mean {by_lower[close[0]]!r}?" if close else otherwise
    return before + text if text else ""


class BBQError(Exception):
    """Anything this package refuses to do, with a message meant for people."""


class UsageError(BBQError, ValueError):
    """The call itself is wrong: an unknown option, an impossible combination.

    `more_words`, where it is set, are words that mend a command, the likeliest first.
    """

    more_words: tuple[tuple[str, ...], ...]


class SettingsError(UsageError):
    """The configuration is wrong: the message names the file, the key and what is expected."""


class UnsupportedError(BBQError):
    """The request makes sense, but this installation or this model cannot do it."""


class DataError(BBQError, ValueError):
    """The data are at fault: the message names the row and the value."""


class FormatError(DataError):
    """A file is at fault: the message names the file, the line and the remedy."""

    def __init__(
        self,
        problem: str,
        file: str | None = None,
        line: int | None = None,
        value: object = None,
        remedy: str | None = None,
    ) -> None:
        # All of it goes into args, so that the error survives pickling between processes.
        super().__init__(problem, file, line, value, remedy)
        self.problem = problem
        self.file = file
        self.line = line
        self.value = value
        self.remedy = remedy

    def __str__(self) -> str:
        where = ""
        if self.file is not None:
            where = f"{self.file}: " if self.line is None else f"{self.file}:{self.line}: "
        elif self.line is not None:
            where = f"line {self.line}: "
        return where + self.problem + (f"; {self.remedy}" if self.remedy else "")


class UnrecognisedError(FormatError):
    """No adapter recognises a file by what it begins with."""


class UnknownOutcomeError(FormatError):
    """A value says who won, and it is not known what it means."""


class UnrankableError(FormatError):
    """The comparisons were read, and no leaderboard can be made of them."""

    def __init__(
        self, problem: str, file: str | None, more_words: tuple[tuple[str, ...], ...] = ()
    ) -> None:
        super().__init__(problem, file)
        self.args = (problem, file, more_words)
        #: Words that, added to the command, would go on all the same.
        self.more_words = more_words


class IncompleteMappingError(UsageError):
    """A mapping does not yet say which column is what."""


class StoreError(BBQError):
    """The store cannot be opened, read or written: the message names it and the remedy."""


class StoreBusyError(StoreError):
    """Another process writes this store: the message says which."""


class RemoteError(BBQError):
    """A server is at fault, or cannot be reached: the message names it and the remedy.

    `status` is its HTTP status, where it answered at all.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message, status)
        self.status = status

    def __str__(self) -> str:
        return str(self.args[0])


class ConvergenceError(BBQError):
    """The optimiser stopped before the gradient reached the tolerance."""


@contextmanager
def fit_failures() -> Iterator[None]:
    """Whatever ends a fit inside this, as an error with a message meant for people."""
    try:
        yield
    except (BBQError, OSError, RuntimeError):
        # RuntimeError: numba says so where it cannot keep compiled code.
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}".rstrip(": ")
        raise ConvergenceError(
            f"the answers could not be fitted ({said}); nothing is lost, and earlier results "
            "stand: look for an odd answer among the last, and report this as a fault"
        ) from error
