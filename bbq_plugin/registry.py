"""Adapters by entry point, and the door through which every file comes in.

An adapter is a class without arguments, registered under the entry point group
`bbq_plugin.adapters`; the built-in ones load the same way as anyone else's.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol, cast

from bbq_plugin._gather import Gatherer
from bbq_plugin._opening import HEAD_BYTES, STANDARD_INPUT, Opened, opened
from bbq_plugin._options import Option, coerced, options_of
from bbq_plugin.comparisons import Comparison, Comparisons, Skipped
from bbq_plugin.errors import DataError, FormatError, UnsupportedError, UsageError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bbq_plugin.comparisons import Batch, Record

    Path = str | os.PathLike[str]

__all__ = [
    "GROUP",
    "HEAD_BYTES",
    "Adapter",
    "Description",
    "Option",
    "adapters",
    "check_options",
    "describe",
    "read",
    "read_by",
    "records",
]

GROUP = "bbq_plugin.adapters"


class Adapter(Protocol):
    """What turns one kind of file into records.

    Three more attributes are used if they are there. `option_help` maps the name of
    an option to a line about it. `lines_stand_alone` says that a file of lines means the
    same read in parts, so that one that grows need not be read again from its start.
    `read_batches`, with the parameters of `read`, yields `Batch` as well as records, without
    tags; it is asked instead of `read` when nobody wants tags, and is worth writing for
    files of millions of rows.
    """

    name: str

    def sniff(self, head: bytes, name: str) -> str | None:
        """Say why this file is one of mine, or None.

        `head` is what the file begins with: gzip is unpacked, and a Parquet table
        has become JSON lines.
        """

    def read(
        self, stream: io.BufferedReader, name: str, *args: Any, **options: Any
    ) -> Iterator[Comparison | Skipped] | Iterator[Record]:
        """Yield the records of one file. `name` is for messages and keys.

        Options are keyword-only parameters of the adapter's own. Text from a
        command line is turned into what they are annotated with.
        """


@dataclass(frozen=True, slots=True)
class Description:
    """An adapter as `bbq formats` shows it."""

    name: str
    summary: str
    recognised: str
    options: tuple[Option, ...]


def adapters() -> Mapping[str, Adapter]:
    """Every installed adapter by name."""
    found: dict[str, Adapter] = {}
    for entry in entry_points(group=GROUP):
        if entry.name in found:
            raise UnsupportedError(
                f"two installed packages bring an adapter {entry.name!r}; uninstall one of them"
            )
        try:
            found[entry.name] = cast("Adapter", entry.load()())
        except Exception as error:
            package = entry.dist.name if entry.dist else "an unknown package"
            raise UnsupportedError(
                f"adapter {entry.name!r} of {package} cannot be loaded "
                f"({type(error).__name__}: {error}); upgrade or uninstall that package"
            ) from error
    return found


def describe(adapter: str | Adapter | None = None) -> tuple[Description, ...]:
    """Describe one adapter, or all that are installed, in the order of their names."""
    known = adapters() if adapter is None else {"": _named(adapter)}
    return tuple(
        Description(
            one.name,
            _first_line(type(one).__doc__),
            _first_line(type(one).sniff.__doc__),
            options_of(one),
        )
        for _, one in sorted(known.items())
    )


def check_options(adapter: str, options: Mapping[str, Any]) -> None:
    """Refuse an adapter that is not there, or an option that it does not take."""
    coerced(_named(adapter), options)


def read(
    paths: Path | Sequence[Path],
    adapter: str | Adapter | None = None,
    *,
    strict: bool = False,
    max_skipped: float = 0.01,
    where: Mapping[str, str] | None = None,
    rename: Mapping[str, str] | None = None,
    drop_raters: Iterable[str] = (),
    **options: Any,
) -> Comparisons:
    """Read one file, or several as one set, into `Comparisons`.

    - `paths`: files, plain or gzip, or "-" for standard input. The adapter is
      recognised by the content of each file unless it is named.
    - The same key again, in one file or in several, is the same answer: the newest
      `version` counts, or `at`, else what comes later; `n_duplicates` says how many did not.
    - `strict` makes the first skipped row an error. Without it, a file of which more
      than the share `max_skipped` is skipped is one.
    - `where` keeps only answers with these tags; `rename` gives items other names,
      and two with the same name become one; `drop_raters` leaves these people out.
    - Other keywords are the adapter's own options, e.g. `both_bad="drop"`.
    """
    gatherer = Gatherer(strict=strict, where=where, rename=rename, drop_raters=drop_raters)
    _gather(gatherer, paths, adapter, options)
    (fields,) = _parts(gatherer, max_skipped).values()
    return Comparisons(**fields)


def read_by(
    paths: Path | Sequence[Path],
    adapter: str | Adapter | None = None,
    *,
    by: str,
    strict: bool = False,
    max_skipped: float = 0.01,
    where: Mapping[str, str] | None = None,
    rename: Mapping[str, str] | None = None,
    drop_raters: Iterable[str] = (),
    **options: Any,
) -> dict[str, Comparisons]:
    """Read like `read`, and split by the value of the tag `by`.

    Answers without that tag are counted in `n_filtered`. Nobody knows what the
    value of a skipped row is, so every part counts all of them.
    """
    gatherer = Gatherer(strict=strict, where=where, by=by, rename=rename, drop_raters=drop_raters)
    _gather(gatherer, paths, adapter, options)
    parts = _parts(gatherer, max_skipped)
    return {value: Comparisons(**parts[value]) for value in sorted(parts)}


def records(path: Path, adapter: str | Adapter | None = None, **options: Any) -> Iterator[Record]:
    """Yield the records of one file as its adapter finds them."""
    with opened(path) as file:
        chosen, _ = chosen_adapter(adapter, file.head, str(path))
        yield from chosen.read(file.stream, str(path), **coerced(chosen, options))


def _gather(
    gatherer: Gatherer,
    paths: Path | Sequence[Path],
    adapter: str | Adapter | None,
    options: Mapping[str, Any],
) -> None:
    for path in _distinct(paths):
        name = str(path)
        with opened(path) as file:
            chosen, why = chosen_adapter(adapter, file.head, name)
            log = gatherer.begin(name, chosen.name, why)
            tagged = bool(gatherer.where) or gatherer.by is not None
            for record in found_in(file, chosen, name, options, tagged=tagged):
                try:
                    gatherer.add(record)
                except FormatError:
                    raise
                except DataError as error:
                    key = f" (key {record.key!r})" if isinstance(record, Comparison) else ""
                    raise FormatError(f"{error}{key}", name) from error
            log.sha256 = file.sha256()


def found_in(
    file: Opened, adapter: Adapter, name: str, options: Mapping[str, Any], *, tagged: bool
) -> Iterator[Record | Batch]:
    """What an adapter finds in an open file, in batches unless somebody wants tags."""
    reader = adapter.read if tagged else getattr(adapter, "read_batches", adapter.read)
    found: Iterator[Record | Batch]
    found = reader(file.stream, name, **coerced(adapter, options))
    return found


def _distinct(paths: Path | Sequence[Path]) -> list[Path]:
    """The paths, each file once: a glob and a name may well say the same one."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not given:
        raise UsageError("no file was given; name at least one")
    found: dict[str, Path] = {}
    for path in given:
        name = os.fspath(path)
        found.setdefault(name if name == STANDARD_INPUT else os.path.realpath(name), path)
    return list(found.values())


def _parts(gatherer: Gatherer, max_skipped: float) -> dict[str, dict[str, Any]]:
    if not 0 <= max_skipped <= 1:
        raise UsageError(f"max_skipped is {max_skipped}; expected a share from 0 to 1")
    try:
        return gatherer.parts(max_skipped)
    except FormatError:
        raise
    except DataError as error:
        raise FormatError(str(error), ", ".join(log.name for log in gatherer.files)) from error


def _named(adapter: str | Adapter, known: Mapping[str, Adapter] | None = None) -> Adapter:
    if not isinstance(adapter, str):
        return adapter
    known = adapters() if known is None else known
    if adapter not in known:
        close = difflib.get_close_matches(adapter, known, n=1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        raise UsageError(f"there is no adapter {adapter!r}; {meant}known: {_listed(known)}")
    return known[adapter]


def chosen_adapter(
    adapter: str | Adapter | None,
    head: bytes,
    name: str,
    known: Mapping[str, Adapter] | None = None,
) -> tuple[Adapter, str]:
    """The adapter to read a file with, which begins with `head`, and why that one.

    `known`: what `adapters` gave before. Looking through all installed packages takes longer than
    reading a small file.
    """
    if adapter is not None:
        return _named(adapter, known), "named by the caller"
    known = adapters() if known is None else known
    reasons = {key: why for key, one in known.items() if (why := one.sniff(head, name))}
    if len(reasons) == 1:
        ((key, why),) = reasons.items()
        return known[key], why
    if reasons:
        listed = "; ".join(f"{key}: {reason}" for key, reason in reasons.items())
        raise FormatError(
            f"several adapters could read this file ({listed})",
            name,
            remedy=f"name one of them: {_listed(reasons)}",
        )
    raise FormatError(
        "no adapter recognises this file",
        name,
        value=head[:80],
        remedy=f"name the adapter if you know it; known: {_listed(known)} "
        "(`bbq formats` tells what each needs)",
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _first_line(docstring: str | None) -> str:
    return (docstring or "").strip().split("\n", 1)[0]
