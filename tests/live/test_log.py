"""One event, one line, whatever a file is called; a problem is told once, and its end."""

from __future__ import annotations

import io
import json
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbq_plugin.data.mappings import Reading, UnclearError
from bbq_plugin.errors import FormatError, RemoteError
from bbq_plugin.live.health import Problem, Problems, reason_of
from bbq_plugin.live.log import Log

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


class Recorded:
    """Problems with a clock of their own, and what they log."""

    def __init__(self) -> None:
        self.now = 10.0
        self.events: list[str] = []
        self.problems = Problems(self._log, lambda: self.now)

    def _log(self, event: str, reason: str = "", **fields: object) -> None:
        self.events.append(" ".join([event, reason, *map(str, fields.values())]).strip())


def test_a_problem_is_told_when_it_begins_or_changes_and_when_it_is_over() -> None:
    seen = Recorded()
    problems = seen.problems
    for wait_s in (1, 2, 60, 60, 60):
        problems.report("store", OSError(28, "No space left on device"), retry_s=wait_s)
    problems.over("store")
    problems.over("store")
    full = "store_failed [Errno 28] No space left on device"
    assert seen.events == [f"{full} 1", f"{full} 2", f"{full} 60", "store_recovered"]


def test_the_current_problems_say_since_when_and_what_to_do() -> None:
    seen = Recorded()
    problems = seen.problems
    problems.report("pull", RemoteError("503"))
    seen.now = 20.0
    problems.report("events", FormatError("bad", "a.json", remedy="mend it"))
    problems.report("pull", RemoteError("502"))
    assert list(problems) == [
        Problem("pull", "502", 10.0),
        Problem("events", "a.json: bad; mend it", 20.0, "mend it"),
    ]
    assert "pull" in problems
    problems.over("pull")
    assert [problem.what for problem in problems] == ["events"]


def test_an_error_that_was_not_expected_is_named_by_its_kind() -> None:
    assert reason_of(ZeroDivisionError("by\nnothing")) == "ZeroDivisionError: by\\nnothing"
    assert reason_of(RemoteError("cannot be reached")) == "cannot be reached"


def test_what_mends_a_project_is_told_as_it_is_typed() -> None:
    reading = Reading("label-studio", {"labels": {"Left": "left", "Hmm": "tie"}}, "likely", "")
    told = reason_of(UnclearError("'Hmm' is not known", "project 1", [reading], 0))
    assert told == (
        "project 1: 'Hmm' is not known; if it is meant so, start again with "
        "-O labels=Left=left,Hmm=tie"
    )
