"""Whatever comes in: comparisons, counted skips, or an error that says where and what to do."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bbq_plugin import simulate
from bbq_plugin.data.files import read, read_by
from bbq_plugin.errors import DataError, FormatError, UsageError
from bbq_plugin.plugins import adapters
from bbq_plugin.simulation import write_study

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURES = Path(__file__).parent / "fixtures"
MINE = ("arena", "afc", "table")
CASES = [json.loads(p.read_text()) for p in sorted(FIXTURES.glob("*.expected.json"))]
KNOWN = adapters()
ODD: list[Any] = [None, True, -1, 1e308, 10**400, "", " ", "\0", "x" * 5000, [], [[]], {}, {"a": 1}]


def outcome(content: bytes, adapter: str | None, options: dict[str, Any]) -> str:
    """Read the content as a file, fast and row by row, and say what came of it."""
    said = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "votes"
        path.write_bytes(content)
        for how in ("fast", "single"):
            try:
                if how == "fast":
                    data = read(path, KNOWN.get(adapter or ""), max_skipped=1, **options)
                    assert data.n_comparisons > 0
                    said.append(data.digest)
                else:
                    read_by(path, KNOWN.get(adapter or ""), by="language", max_skipped=1, **options)
            except UsageError as error:
                said.append(f"usage: {error}")
            except FormatError as error:
                said.append(f"format: {error}")
            # An error of any other kind ends the test: DataError without a file among them.
        for words in said:
            assert len(words) < 20_000
            assert not words.startswith("format: ") or words.startswith(f"format: {path}")
            assert not words.startswith("usage: ") or "column" in words or "tag" in words
    return said[0].split(":")[0]


def changed(draw: st.DrawFn, content: bytes) -> bytes:
    """The content with one or two things gone wrong."""
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(content)))
        how = draw(st.sampled_from(["cut", "drop", "insert", "flip", "line", "twice"]))
        if how == "cut":
            content = content[:at]
        elif how == "drop":
            content = content[:at] + content[at + draw(st.integers(1, 9)) :]
        elif how == "insert":
            odd = st.sampled_from(
                [b"\0", b'"', b"\n", b"\r", b"\xff", b"{", b"]", b",", b"\xef\xbb\xbf"]
            )
            content = content[:at] + draw(st.one_of(odd, st.binary(max_size=6))) + content[at:]
        elif how == "flip" and at < len(content):
            content = content[:at] + bytes([draw(st.integers(0, 255))]) + content[at + 1 :]
        elif how == "line":
            lines = content.split(b"\n")
            content = b"\n".join(draw(st.permutations(lines)))
        else:
            content += content
    return content


@st.composite
def broken_files(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    case = draw(st.sampled_from(CASES))
    content = changed(draw, (FIXTURES / case["file"]).read_bytes())
    return gzip.compress(content)[: draw(st.sampled_from([None, -1, -9]))] if draw(
        st.booleans()
    ) else content, case


@given(broken_files())
@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
def test_a_damaged_file_is_read_or_refused_by_name(broken: tuple[bytes, dict[str, Any]]) -> None:
    content, case = broken
    outcome(content, case["adapter"], case["options"])


@st.composite
def odd_rows(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    case = draw(st.sampled_from([c for c in CASES if c["file"].endswith(".jsonl")]))
    rows = [json.loads(line) for line in (FIXTURES / case["file"]).read_text().splitlines()]
    row = draw(st.sampled_from(rows))
    field = draw(st.sampled_from(sorted(row)))
    if draw(st.booleans()):
        row[field] = draw(st.sampled_from(ODD))
    else:
        del row[field]
    if draw(st.booleans()):
        return json.dumps(rows).encode(), case
    return b"".join(json.dumps(r).encode() + b"\n" for r in rows), case


@given(odd_rows())
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_a_value_of_the_wrong_type_is_skipped_or_refused(odd: tuple[bytes, dict[str, Any]]) -> None:
    outcome(odd[0], odd[1]["adapter"], odd[1]["options"])


@given(
    st.sampled_from(MINE), st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode))
)
@settings(max_examples=200)
def test_noise_is_refused_by_every_adapter(adapter: str, content: bytes) -> None:
    assert outcome(content, adapter, {}) in ("format", "usage")


@pytest.mark.parametrize("suffix", ["arena", "afc"])
def test_a_simulated_file_cut_anywhere_never_gives_other_votes(suffix: Any) -> None:
    text = io.StringIO()
    write_study(simulate(comparisons=40, raters=5, items=4), text, suffix)
    content = text.getvalue().encode()
    whole = outcome(content, suffix, {})
    assert whole not in ("format", "usage")
    assert outcome(b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"), suffix, {}) == whole
    assert outcome(gzip.compress(content)[:-5], suffix, {}) == "format"
    assert outcome(content.decode().encode("utf-16"), suffix, {}) == whole
    assert outcome(content.replace(b"item", b"\x81tem"), suffix, {}) == "format"


class Endless(io.RawIOBase):
    """A large file that is made while it is read."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.pieces = pieces
        self.rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.rest = self.rest or next(self.pieces, b"")
        n = min(len(buffer), len(self.rest))
        buffer[:n], self.rest = self.rest[:n], self.rest[n:]
        return n


def pieces(start: bytes, filler: bytes, end: bytes) -> Iterator[bytes]:
    """200 MB on one line."""
    yield start
    block = filler * (1 + (1 << 16) // len(filler))
    for _ in range(200_000_000 // len(block)):
        yield block
    yield end


VOTE = b'{"model_a": "a", "model_b": "b", "winner": "tie", "prompt": "' + b"x" * 100_000 + b'"}'


@pytest.mark.parametrize(
    ("adapter", "start", "filler", "end"),
    [
        ("arena", b'{"model_a": "', b"x", b'"}\n'),
        ("arena", b'[{"model_a": "', b"x", b'"}]'),
        ("arena", b"model_a,model_b,winner\n", b"x", b"\n"),
        ("arena", b'model_a,model_b,winner\na,b,"', b"x" * 1000 + b"\n", b'"\n'),
        ("afc", b'observer,condition_A,condition_B,selected\no,a,b,"', b"x", b"\n"),
        ("table", b"winner,loser,", b"x,", b"\n"),
    ],
)
@pytest.mark.parametrize("batched", [False, True])
def test_200_mb_on_one_line_is_refused_without_being_held(
    adapter: str, start: bytes, filler: bytes, end: bytes, batched: bool
) -> None:
    one: Any = KNOWN[adapter]
    stream = io.BufferedReader(Endless(pieces(start, filler, end)), 1 << 16)
    how = getattr(one, "read_batches", None) if batched else one.read
    if how is None:
        pytest.skip("this adapter has no batches")
    with pytest.raises((FormatError, UsageError)) as caught:
        list(how(stream, "huge"))
    assert len(str(caught.value)) < 20_000


def test_an_array_of_200_mb_on_one_line_is_read_piece_by_piece() -> None:
    stream: Any = io.BufferedReader(Endless(pieces(b"[" + VOTE, b"," + VOTE, b"]")), 1 << 16)
    found = len(list(KNOWN["arena"].read(stream, "huge")))
    assert found > 1900


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '{"a": ' + "[" * 100_000])
def test_deep_nesting_is_refused(text: str) -> None:
    assert outcome(text.encode(), "arena", {}) == "format"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PAR1 and no more", "not a readable Parquet table"),
        (b'[{"model_a": "a"', ":1: the file ends inside element 1"),
        (
            b'[{"model_a": "a", "model_b": "b", "winner": "a"},\n 7]',
            ":2: element 2 of the array is not a JSON object",
        ),
        (b'[{"model_a": "a", "model_b": "b", "winner": "tie"}\n {}]', ":2: .*comma"),
        (b'["a", "b"]', ":1: element 1 of the array is not a JSON object"),
        (b"model_a,model_b,winner,winner\na,b,a,b\n", "two columns are called 'winner'"),
        (b'[{"model_a": "\x81"}]', ":1: the text is not UTF-8"),
        (b'[{"model_a":\n"\x81"}]', ":2: the text is not UTF-8"),
        (b'[{"model_a": a}]', ":1: element 1: not valid JSON"),
    ],
)
def test_a_fault_is_named_with_its_place(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "votes"
    path.write_bytes(content)
    if content.startswith(b"PAR1"):
        pytest.importorskip("pyarrow")
    with pytest.raises(FormatError, match=message) as caught:
        read(path, "arena")
    assert caught.value.remedy


def test_parquet_without_pyarrow_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys  # noqa: PLC0415

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "votes.parquet"
    path.write_bytes(b"PAR1....")
    with pytest.raises(Exception, match=r"pip install 'bbq-plugin\[parquet\]'"):
        read(path)


def test_an_empty_table_says_that_there_is_nothing(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("model_a,model_b,winner\n")
    with pytest.raises(DataError, match=r"votes\.csv: there are no comparisons"):
        read(path)
