"""Files that a user writes about how data are read: new names of items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bbq_plugin.data.mappings import read_renames
from bbq_plugin.errors import FormatError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("n.csv", "old,new\na,b\na,c\n", "n.csv:3: 'a' is to be called 'c', and above 'b'"),
        ("n.csv", "a,b,c\n", "n.csv:1: has 3 columns"),
        ("n.csv", "a,\n", "n.csv:1: a name is empty"),
        ("n.csv", '"a', "n.csv:1: not valid CSV"),
        ("n.toml", "a = 1\n", "n.toml: 'a' is to be called 1"),
        ("n.toml", "a b\n", "n.toml: not valid TOML"),
        ("n.json", '{"a": "b",\n"c" 1}', "n.json:2: not valid JSON"),
        ("n.json", "[]", "n.json: expected one table"),
        ("n.yaml", "a: b", "n.yaml: the suffix '.yaml' is of no known format"),
    ],
)
def test_a_bad_file_of_names_is_told_with_its_line(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        read_renames(path)
    assert says in str(caught.value)
