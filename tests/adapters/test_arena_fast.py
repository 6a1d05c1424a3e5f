"""The quick way through a large file says the same as the slow one."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from bbq_adapters import arena
from hypothesis import given, settings
from hypothesis import strategies as st

from bbq_plugin.data.files import read
from bbq_plugin.data.records import Batch
from bbq_plugin.errors import FormatError
from bbq_plugin.plugins import adapters

names = st.sampled_from(["oak", "elm", "elm ", "ash", "tie", "model_a", 7, 7.0, "7", "ü"])
raters = st.sampled_from(["ann", " ann", "bob", "", None, 3, ["x", "y"]])
winners = st.sampled_from(["model_a", "model_b", "tie", "both_bad", "tie (bothbad)", "oak", None])


@st.composite
def votes(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows that have much in common and sometimes something out of the ordinary."""
    usual = {"judge": "ann", "model_a": "oak", "model_b": "elm", "winner": "model_a"}
    extra: dict[str, Any] = draw(
        st.sampled_from([{}, {"id": 0}, {"key": "k"}, {"question_id": 1, "turn": 1}])
    )
    kinds: dict[str, Any] = {
        "judge": raters,
        "user_id": raters,
        "model_a": names,
        "model_b": names,
        "winner": winners,
        "tstamp": st.sampled_from([1, 2.5, None]),
        "time": st.sampled_from([3, 2.5, "2026-01-01T00:00:00Z", "2.5", "soon", None, [1]]),
        "evaluation_session_id": st.just("s"),
        "language": st.just("de"),
    }
    rows = []
    for i in range(draw(st.integers(1, 12))):
        odd = draw(st.lists(st.sampled_from(sorted(kinds)), max_size=2))
        own = {k: (f"{v}{i}" if k in ("id", "key") else v) for k, v in extra.items()}
        rows.append({**usual, **own, **{field: draw(kinds[field]) for field in odd}})
    return rows


def result(path: Path, adapter: Any) -> Any:
    try:
        data = read(path, adapter, max_skipped=1)
    except FormatError as error:
        return str(error)
    bad = None if data.both_bad_rate is None else data.both_bad_rate.tolist()
    rates = bad and dict(zip(data.items, bad, strict=True))
    skips = dict(data.skip_reasons)
    counts = data.n_duplicates, data.n_left, data.n_sided
    return data.digest, counts, skips, data.warnings, set(data.items), rates


class Slow:
    """The same adapter without its batches."""

    name = "arena"

    def __init__(self) -> None:
        self.read = adapters()["arena"].read
        self.sniff = adapters()["arena"].sniff


SLOW = Slow()


@given(votes())
@settings(max_examples=300)
def test_batches_say_the_same_as_rows(rows: list[dict[str, Any]]) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        # Pieces of a line or two, so that ordinary and odd ones follow each other.
        patch.setattr(arena, "_PIECE", 150)
        path = Path(folder) / "votes.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        quick, slow = result(path, adapters()["arena"]), result(path, SLOW)
    assert quick == slow


def test_a_fault_far_into_a_large_file_has_the_right_line(tmp_path: Path) -> None:
    row = {"judge": "ann", "model_a": "oak", "model_b": "elm", "winner": "model_a"}
    lines = [json.dumps({**row, "prompt": "x" * (i % 300)}) for i in range(9000)]
    lines[7654] = json.dumps({**row, "winner": "modelA"})
    path = tmp_path / "votes.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(FormatError, match=r"votes\.jsonl:7655: winner is 'modelA'"):
        read(path)
    lines[7654] = json.dumps({**row, "model_b": "oak"})
    path.write_text("\n".join(lines))
    assert [s.where for s in read(path).skipped] == [f"{path}:7655"]


def test_ordinary_lines_become_batches(tmp_path: Path) -> None:
    row = {
        "id": 1,
        "judge": "ann",
        "model_a": "oak",
        "model_b": "elm",
        "winner": "tie",
        "extra": {},
    }
    path = tmp_path / "votes.jsonl"
    path.write_text("".join(json.dumps({**row, "id": i}) + "\n" for i in range(5000)))
    adapter: Any = adapters()["arena"]
    with path.open("rb") as stream:
        found = list(adapter.read_batches(stream, "votes.jsonl"))
    assert all(isinstance(one, Batch) for one in found)
    assert sum(len(one.lines) for one in found) == 5000


PLAIN_LINE = "ann,oak,elm,left"
ODD_LINES = (
    *('"ann","oak, old",elm,left', '"a\nb",oak,elm,right', "ann,oak,elm", "ann,oak,elm,left,more"),
    *(
        "",
        "ann,oak,,left",
        ",oak,elm,right",
        " ann ,oak,elm,left",
        "ann,oak,elm,tie",
        "ann,oak,oak,",
    ),
    *("ann,oak,elm,left,", "bo,o\rk,elm,left", "ann,oak,elm,perhaps"),
)


@given(st.lists(st.sampled_from([*[PLAIN_LINE] * 20, *ODD_LINES]), min_size=1, max_size=30),
       st.sampled_from(["\n", "\r\n"]), st.booleans())  # fmt: skip
@settings(max_examples=300)
def test_tables_by_column_say_the_same_as_by_row(lines: list[str], end: str, ended: bool) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(arena, "_PIECE", 80)
        path = Path(folder) / "votes.csv"
        text = end.join(["judge,left,right,winner", *lines]) + (end if ended else "")
        path.write_bytes(text.encode())
        quick, slow = result(path, adapters()["arena"]), result(path, SLOW)
    assert quick == slow


def test_a_fault_far_into_a_large_table_has_the_right_line(tmp_path: Path) -> None:
    lines = ["judge,left,right,winner", *[PLAIN_LINE] * 30_000]
    lines[23_456] = "ann,oak,oak,left"
    path = tmp_path / "votes.csv"
    path.write_text("\n".join(lines))
    assert [s.where for s in read(path).skipped] == [f"{path}:23457"]
    lines[23_456] = '"ann",oak,elm,what'
    path.write_text("\n".join(lines))
    with pytest.raises(FormatError, match=r"votes\.csv:23457: winner is 'what'"):
        read(path)
