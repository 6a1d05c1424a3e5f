from __future__ import annotations

import gzip
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

import pytest

from bbq_plugin import plugins
from bbq_plugin.data import files
from bbq_plugin.data.records import Comparison, Skipped
from bbq_plugin.errors import FormatError, UnsupportedError, UsageError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator
    from pathlib import Path


class Dots:
    """A made-up format: one line `rater.winner.loser` a vote."""

    name = "dots"

    def sniff(self, head: bytes, name: str) -> str | None:
        return "named .dots" if name.endswith(".dots") and b"." in head else None

    def read(
        self, stream: io.BufferedReader, name: str, *, lower: bool = False
    ) -> Iterator[Comparison | Skipped]:
        for i, line in enumerate(stream, 1):
            text = line.decode().strip()
            rater, winner, loser = (text.lower() if lower else text).split(".")
            yield Comparison(f"{name}:{i}", rater, winner, loser, "left")


class MoreDots(Dots):
    name = "more-dots"


class Broken:
    def __init__(self) -> None:
        raise RuntimeError("no such codec")


def installed(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Make only these classes of this file the installed adapters."""
    here = {c.__name__: c for c in (Dots, MoreDots, Broken)}
    monkeypatch.setattr(EntryPoint, "load", lambda self: here[self.value])
    entries = [EntryPoint(getattr(here[n], "name", "broken"), n, plugins.ADAPTERS) for n in names]
    monkeypatch.setattr(plugins, "entry_points", lambda **_: entries)


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    path = tmp_path / "votes.dots"
    path.write_text("ann.A.B\nbob.B.A\n")
    return path


def test_the_arena_adapter_is_found_like_anyone_elses() -> None:
    assert "arena" in plugins.adapters()


def test_a_file_is_recognised_by_the_adapter_that_gives_a_reason(
    votes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, "Dots")
    data = files.read(votes)
    assert data.items == ("A", "B")
    assert data.raters == ("ann", "bob")


def test_several_files_are_one_set(votes: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.dots"
    other.write_text("cyd.A.C\n")
    data = files.read([votes, other], Dots())
    assert data.items == ("A", "B", "C")
    assert data.raters == ("ann", "bob", "cyd")


def test_options_reach_the_adapter(votes: Path) -> None:
    assert files.read(votes, Dots(), lower=True).items == ("a", "b")


def test_an_option_that_the_adapter_does_not_have_is_wrong_usage(votes: Path) -> None:
    with pytest.raises(UsageError, match="'dots' has no option 'upper'; it has: lower"):
        files.read(votes, Dots(), upper=True)


def test_an_option_of_another_adapter_names_that_adapter(tmp_path: Path) -> None:
    file = tmp_path / "votes.csv"
    file.write_text("model_a,model_b,winner,judge\nA,B,model_a,ann\n")
    with pytest.raises(UsageError, match="table has it: add --adapter table"):
        files.read(file, left="model_a", right="model_b")


def test_two_adapters_that_claim_a_file_are_named(
    votes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, "Dots", "MoreDots")
    with pytest.raises(FormatError, match="name one of them: dots, more-dots"):
        files.read(votes)
    assert files.read(votes, "more-dots").n_comparisons == 2


def test_a_file_that_nobody_knows_is_refused_with_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "poem.txt"
    path.write_text("Roses are red\n")
    with pytest.raises(FormatError, match=r"poem\.txt: this is text, and not a table"):
        files.read(path)


def test_an_adapter_that_is_not_installed_is_wrong_usage(votes: Path) -> None:
    with pytest.raises(UsageError, match=r"no adapter 'morse'; known: .*arena"):
        files.read(votes, "morse")


def test_an_adapter_that_cannot_be_loaded_is_named(
    votes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, "Broken")
    with pytest.raises(UnsupportedError, match=r"'broken' .*no such codec"):
        files.read(votes)


def test_two_packages_with_the_same_adapter_are_an_error(
    votes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, "Dots", "Dots")
    with pytest.raises(UnsupportedError, match="two installed packages bring an adapter 'dots'"):
        files.read(votes)


@pytest.mark.parametrize("content", [b"", b"\n \r\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "votes.dots"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"votes\.dots: the file is empty"):
        files.read(path, Dots())


def test_a_file_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"gone\.jsonl: cannot be read \(No such file"):
        files.read(tmp_path / "gone.jsonl")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_text_in_utf16_is_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "votes.dots"
    path.write_text("ann.A.B\n", encoding=encoding)
    data = files.read(path, Dots())
    assert (data.items, data.raters) == (("A", "B"), ("ann",))


def test_a_binary_file_is_not_called_utf16(tmp_path: Path) -> None:
    path = tmp_path / "votes.xlsx"
    path.write_bytes(
        b"PK\x03\x04\x14\x00\x06\x00\x08\x00\x00\x00!\x00" + b"\x00" * 20 + b"[Content"
    )
    with pytest.raises(FormatError) as caught:
        files.read(path)
    assert "UTF-16" not in str(caught.value)


def test_gzip_is_unpacked_whatever_the_name(votes: Path) -> None:
    votes.write_bytes(gzip.compress(votes.read_bytes()))
    assert files.read(votes, Dots()).n_comparisons == 2


def test_a_gzip_file_that_breaks_off_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "votes.dots.gz"
    lines = b"".join(b"r%d.A.B\n" % i for i in range(50_000))
    path.write_bytes(gzip.compress(lines)[:-3000])
    with pytest.raises(FormatError, match=r"votes\.dots\.gz:\d{4,}: the gzip data end early"):
        files.read(path, Dots())


def test_no_file_at_all_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="no file was given"):
        files.read([])
