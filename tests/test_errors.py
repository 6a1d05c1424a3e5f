from __future__ import annotations

import pickle

import pytest

from bbq_plugin import errors


def test_a_format_error_reads_as_file_line_problem_and_remedy() -> None:
    error = errors.FormatError("winner is 'x'", "votes.jsonl", 17, "x", "mend it")
    assert str(error) == "votes.jsonl:17: winner is 'x'; mend it"
    assert str(errors.FormatError("is empty", "votes.jsonl")) == "votes.jsonl: is empty"
    assert str(errors.FormatError("is empty", line=3)) == "line 3: is empty"


def test_a_format_error_survives_the_way_between_processes() -> None:
    error = errors.FormatError("winner is 'x'", "votes.jsonl", 17, "x", "mend it")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - bytes of our own making
    assert (str(again), again.line, again.value) == (str(error), 17, "x")


@pytest.mark.parametrize(
    "kind",
    [errors.UsageError, errors.UnsupportedError, errors.DataError, errors.ConvergenceError],
)
def test_one_except_clause_catches_every_error_of_the_package(kind: type[Exception]) -> None:
    assert issubclass(kind, errors.BBQError)


@pytest.mark.parametrize(
    ("word", "otherwise", "says"),
    [
        ("tei", "", "; did you mean 'tie'?"),
        ("TIE", "", "; did you mean 'tie'?"),
        ("nothing like it", "", ""),
        ("nothing like it", "drop the line", "; drop the line"),
        ("x" * 1_000_000, "", ""),
    ],
)
def test_a_misspelt_word_is_answered_with_the_nearest_known_one(
    word: str, otherwise: str, says: str
) -> None:
    assert errors.did_you_mean(word, ["tie", "both_bad"], otherwise) == says
