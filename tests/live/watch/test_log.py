"""One event, one line, whatever a file is called."""

from __future__ import annotations

import io
import json
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbq_plugin.live.watch.log import Log

AT = 1_700_000_000.25


def line(style: Literal["text", "json"], event: str, **fields: object) -> str:
    stream = io.StringIO()
    Log(stream, style, lambda: AT)(event, **fields)  # type: ignore[arg-type]
    return stream.getvalue()


def test_text_reads_like_a_sentence_and_json_like_a_record() -> None:
    fields = {"file": "votes.jsonl", "new": 3, "took_s": 0.25, "reason": None, "full": True}
    assert line("text", "read", **fields) == (
        "2023-11-14T22:13:20.250+00:00 read file=votes.jsonl new=3 took_s=0.25 full=true\n"
    )
    assert json.loads(line("json", "read", **fields)) == {
        "at": "2023-11-14T22:13:20.250+00:00",
        "event": "read",
        "file": "votes.jsonl",
        "new": 3,
        "took_s": 0.25,
        "full": True,
    }


@pytest.mark.parametrize("style", ["text", "json"])
@given(st.text(st.characters(exclude_categories=())))
def test_a_hostile_name_stays_on_its_line_and_is_harmless(
    style: Literal["text", "json"], name: str
) -> None:
    written = line(style, "refused", file=name, reason=f"{name}:1: bad")
    assert written.endswith("\n")
    assert len(written.splitlines()) == 1
    assert written[:-1].isprintable()
    written.encode("utf-8")
    if style == "json":
        expected = name.encode("utf-8", "backslashreplace").decode()
        assert json.loads(written)["file"] == expected


def test_one_field_cannot_pretend_to_be_another() -> None:
    assert line("text", "read", file='a new=999 b="x').endswith(' file="a new=999 b=\\"x"\n')


def test_a_reader_who_left_does_not_stop_the_daemon() -> None:
    stream = io.StringIO()
    stream.close()
    Log(stream)("read", file="a")
