"""Whatever a table holds: comparisons, counted skips or a FormatError, and never a traceback."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bbq_plugin.data.files import inspected, opened, read
from bbq_plugin.data.mappings import UnclearError
from bbq_plugin.errors import BBQError, FormatError, UsageError
from tests.adapters.made_votes import ITEMS, chosen, orders, table

NAMES = (
    "id", "judge", "worker_id", "winner", "loser", "model_a", "model_b", "left", "right", "choice",
    "rank1", "rank2", "rank3", "home_score", "away_score", "best", "worst", "option1", "option2",
    "trial_type", "rt", "weight", "count", "timestamp", "kind", "valid", "annotator1", "annotator2",
    "a+b", "x,y", "=cmd", "", "wins_left", "wins_right", "column1", "ranking", "generations",
    "oak vs elm", "oak vs ash", "worse", "rank", "task", "item", "slider", "white_result",
    "black_result", "a.b", "practice.thisN", "trials.thisN", "votes", "votes_a", "votes_b",
    "status", "criterion", "order", "subject", "draw", "winner1", "winner2", "winner3", "errors_a",
    "errors_b",
)  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(
        ["oak", "elm", "ash", "A", "B", "C", "tie", "left", "right", "1", "2", "0", "-1", "0.5", "",
         "nan", "true", "false", "oak>elm>ash", "oak_elm", "x" * 300, "a\nb", "2024-01-02", "main",
         "vigilance", "1e999", "∞", "a+b"]
    ),
    st.text(max_size=8),
)  # fmt: skip


def outcome(content: bytes, name: str = "votes.csv") -> None:
    """Look at the content, and read it in every way that is proposed."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            with opened(path) as file:
                found = inspected(file, str(path), {})
        except FormatError:
            found = None
        for reading in found.readings if found else ():
            with suppress(FormatError):
                read(path, reading.adapter, max_skipped=1, **reading.options)
        with suppress(UnclearError, FormatError):
            read(path)


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    head = draw(
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=draw(st.booleans()))
    )
    rows = draw(st.lists(st.lists(VALUES, min_size=len(head), max_size=len(head)), max_size=12))
    if draw(st.booleans()) and rows:
        rows[0] = rows[0][:-1]
    # The same rows again make vocabularies.
    times = draw(st.sampled_from([1, 3, 9]))
    text = table(head if draw(st.booleans()) else None, rows * times)  # type: ignore[arg-type]
    return text.encode(draw(st.sampled_from(["utf-8", "utf-16", "utf-8-sig"])), "replace")


@given(tables())
@settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_table_is_read_or_refused(content: bytes) -> None:
    outcome(content)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**20) | st.floats() | VALUES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5)
    ),
    max_leaves=25,
)


@given(JSON, st.booleans(), st.integers(1, 6))
@example([{"winner": False}, {"loser": False}], False, 1)
@example([{}, {"winner": False, "count": 0, "loser": True}], False, 1)
@settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_document_is_read_or_refused(value: Any, lines: bool, times: int) -> None:
    text = (
        "\n".join([json.dumps(value)] * times) if lines else json.dumps([value] * times, indent=1)
    )
    outcome(text.encode("utf-8", "surrogatepass"), "votes.json")


@given(st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_damaged_table_is_read_or_refused(data: st.DataObject) -> None:
    ranks = [[order.index(one) + 1 for one in ITEMS] for order in orders(12)]
    texts = [
        table(["worker", "m_1", "m_2", "choice"], chosen((1, 2), third=0)[:30]),
        table(list(ITEMS), ranks),  # type: ignore[arg-type]
        table(["", *ITEMS], [[one, *row] for one, row in zip(ITEMS, ranks, strict=False)]),
    ]
    content = bytearray(data.draw(st.sampled_from(texts)).encode())
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(content)))
        content[at : at + data.draw(st.integers(0, 9))] = data.draw(
            st.one_of(st.binary(max_size=5), st.sampled_from([b"\r", b'"', b"\n\n", b",,", b"\0"]))
        )
    outcome(bytes(content))


@given(
    st.dictionaries(
        st.sampled_from(
            ["left", "right", "winner", "loser", "items", "ranks", "ranking", "best", "worst",
             "wins", "raters", "rater", "weight", "at", "time", "matrix", "higher", "lower",
             "rows", "split", "values", "between", "header", "records", "unranked", "tags", "key",
             "ties", "group", "pairs", "middle"]
        ),
        st.sampled_from(
            ["worker", "m_1", "m_2", "choice", "m_1,m_2", "m_1+m_2,m_2+m_1", "row", "better",
             "true", "1=left,2=right,0=tie", "worker=ann", "+", "below", '["m_1","m_2"]', "{", "",
             "1.5", "_", "worker,m_1", "1=oak"]
        ),
        max_size=6,
    )
)  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_any_options_are_taken_or_refused(options: dict[str, str]) -> None:
    text = table(["worker", "m_1", "m_2", "choice"], chosen((1, 2), third=0)[:20])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "votes.csv"
        path.write_text(text)
        with suppress(UsageError, FormatError, BBQError):
            read(path, "table", max_skipped=1, **options)  # type: ignore[arg-type]
