"""Arrays of any length, read object by object."""

from __future__ import annotations

import io
import json
from typing import Any, cast

import pytest
from bbq_adapters.json_csv_rows import LONGEST_ROW, array_objects, rows
from hypothesis import given
from hypothesis import strategies as st

from bbq_plugin.errors import FormatError


def stream(content: bytes | str) -> io.BufferedReader:
    raw = content.encode() if isinstance(content, str) else content
    return cast("io.BufferedReader", io.BufferedReader(cast("io.RawIOBase", io.BytesIO(raw))))


@given(st.lists(st.dictionaries(st.text(max_size=4), st.text(max_size=9) | st.integers())))
def test_the_scanner_finds_what_a_decoder_finds(tree: list[Any]) -> None:
    for text in (json.dumps(tree), json.dumps(tree, indent=2, ensure_ascii=False)):
        content = text.encode("utf-8", "surrogatepass")
        got = [
            json.loads(raw.decode("utf-8", "surrogatepass"))
            for _, raw in array_objects(stream(content), "x", "task")
        ]
        assert got == tree


@pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 1, 3_000_000])
def test_a_task_longer_than_the_window_is_found(size: int) -> None:
    text = 'x\\"{}' * (size // 5)
    content = '[{"a": "' + text + '"},\n {"b": [{}, "}"]}]'
    assert [(line, len(raw)) for line, raw in array_objects(stream(content), "x", "task")] == [
        (1, len(text) + 9),
        (2, 16),
    ]


def test_the_line_of_a_task_is_that_of_its_brace() -> None:
    assert [line for line, _ in array_objects(stream('\n[\n{"a":\n1},\n\n{}\n]\n'), "x")] == [3, 6]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('[{"a": 1}', "ends before the end"),
        ('[{"a": 1}, {"b": "', "ends inside task 2"),
        ('[{"a": 1} {}]', "no comma after task 1"),
        ('[{"a": 1},]', "task 2 of the array is not a JSON object"),
        ("[1, 2]", "task 1 of the array is not a JSON object"),
        ("[{}] x", "more text after the end"),
        ('{"a": 1}', "not a JSON array"),
    ],
)
def test_a_broken_array_is_refused_with_the_place(content: str, problem: str) -> None:
    with pytest.raises(FormatError, match=problem) as caught:
        list(array_objects(stream(content), "e.json", "task"))
    assert str(caught.value).startswith("e.json:1: ")


def test_arrays_may_follow_each_other_in_a_log() -> None:
    found = list(rows(stream('[{"a": 1}, {"a": 2}]\n[{"a": 3}]'), "log.json"))
    assert [(place.line, place.element, row) for place, row in found] == [
        (1, 1, {"a": 1}),
        (1, 2, {"a": 2}),
        (2, 3, {"a": 3}),
    ]


def test_an_element_that_never_ends_is_refused_before_the_memory_is_full() -> None:
    with pytest.raises(FormatError, match="a row is longer than 64 MB"):
        list(rows(stream(b'[{"a": "' + b"x" * (LONGEST_ROW + (2 << 20))), "log.json"))
