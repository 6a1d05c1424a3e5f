from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bbq_plugin.data.files import read, records
from bbq_plugin.data.records import Comparison
from bbq_plugin.errors import FormatError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

TABLE = "system a;system b;choice;who;took;when;nr;lang\noak;elm;1;ann;2.5;2024-01-02;k1;de\n"
MAPPING = """
left = "system a"
right = "system b"
winner = "choice"
rater = "who"
time = "took"
at = "when"
key = "nr"
tags = ["lang"]
[values]
1 = "left"
2 = "right"
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(TABLE)
    return path


def test_a_mapping_can_be_kept_with_the_study(table: Path, tmp_path: Path) -> None:
    mapping = tmp_path / "study.toml"
    mapping.write_text(MAPPING)
    (record,) = records(table, "table", mapping=str(mapping))
    assert record == Comparison(
        "k1", "ann", "oak", "elm", "left", at=1704153600.0, time_s=2.5, tags={"lang": "de"}
    )


def test_the_command_line_counts_before_the_mapping(table: Path, tmp_path: Path) -> None:
    mapping = tmp_path / "study.toml"
    mapping.write_text(MAPPING)
    data = read(table, "table", mapping=str(mapping), values="1=tie")
    assert data.n_ties == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"left": "sytem a", "right": "system b", "winner": "choice"}, "did you mean 'system a'"),
        ({"left": "system a"}, "say which columns hold the two items"),
        ({"values": "1=first"}, "say which columns"),
        (
            {"left": "system a", "right": "system b", "winner": "choice", "values": "1=first"},
            "values maps to 'first'; expected one of left, right",
        ),
        ({"values": "1"}, "expected pairs such as 1=left"),
        ({"winer": "choice"}, "did you mean 'winner'"),
        ({"mapping": "nowhere.toml"}, "cannot be read"),
    ],
)
def test_a_wrong_mapping_is_explained(table: Path, options: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read(table, "table", **options)


@pytest.mark.parametrize(
    ("text", "message"), [("left = 1", "left is 1"), ("x = 'y'", "no 'x'"), ("=", "not valid TOML")]
)
def test_a_wrong_toml_file_is_explained(
    table: Path, tmp_path: Path, text: str, message: str
) -> None:
    mapping = tmp_path / "study.toml"
    mapping.write_text(text)
    with pytest.raises(UsageError, match=message):
        read(table, "table", mapping=str(mapping))


def test_a_value_that_nobody_explained_is_an_error_and_never_a_tie(table: Path) -> None:
    with pytest.raises(FormatError, match=r"t\.csv:2: choice is '1'; expected left, right"):
        read(table, "table", left="system a", right="system b", winner="choice")


def test_the_winner_may_be_named_by_its_column_or_itself(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(
        '{"x": "oak", "y": "elm", "won": "y"}\n{"x": "oak", "y": "elm", "won": "oak"}\n'
    )
    data = read(path, "table", left="x", right="y", winner="won")
    assert data.winner.tolist() == [1, 0]


def test_a_weight_of_nothing_is_a_counted_skip(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("winner,loser,weight,x\na,b,0,1\na,b,2,1\n")
    data = read(path, "table")
    assert data.weight.tolist() == [2.0]
    assert data.skip_reasons == {"weight is not a weight, from 1e-6 to 1e6": 1}
