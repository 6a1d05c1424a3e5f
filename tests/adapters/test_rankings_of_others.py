"""Files of rankings that other tools write: PrefLib's profiles and Appraise's XML."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bbq_plugin.data.files import read
from bbq_plugin.errors import FormatError

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """# FILE NAME: trees.toc
# NUMBER ALTERNATIVES: 3
# ALTERNATIVE NAME 1: oak
# ALTERNATIVE NAME 2: elm
# ALTERNATIVE NAME 3: ash
"""


def write(tmp_path: Path, text: str, name: str) -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_every_voter_is_a_ballot(tmp_path: Path) -> None:
    data = read(write(tmp_path, HEAD + "5: 1,2,3\n2: 3,2,1\n", "trees.soc"))
    assert data.n_comparisons == 21
    oak_elm = [
        (data.items[w], data.items[lo])
        for w, lo in zip(data.winner.tolist(), data.loser.tolist(), strict=True)
    ]
    assert oak_elm.count(("oak", "elm")) == 5
    assert data.weight.tolist() == pytest.approx([7 / 9] * 21)


def test_braces_are_ties_and_a_short_order_says_nothing_of_the_rest(tmp_path: Path) -> None:
    data = read(write(tmp_path, HEAD + "1: 1,{2,3}\n1: 2,1\n", "trees.toi"))
    assert (data.n_comparisons, data.n_ties) == (4, 1)


def test_the_old_format_is_read(tmp_path: Path) -> None:
    text = "3\n1,oak\n2,elm\n3,ash\n7,7,2\n5,1,2,3\n2,3,{1,2}\n"
    data = read(write(tmp_path, text, "trees.toc"))
    assert (data.n_comparisons, data.n_ties) == (21, 2)


def test_a_broken_order_is_a_counted_skip(tmp_path: Path) -> None:
    data = read(write(tmp_path, HEAD + "200: 1,2,3\n1: 1,9\n", "trees.soc"))
    assert data.skip_reasons == {"an alternative of the ranking has no name": 1}


XML = """<?xml version="1.0"?>
<appraise-results><ranking-task id="1">
<ranking-result user="ann" duration="00:00:10">
  <translation system="oak" rank="1"/><translation system="elm" rank="1"/>
  <translation system="ash" rank="2"/>
</ranking-result>
<ranking-result user="bob">
  <translation system="oak,elm" rank="1"/><translation system="ash" rank="2"/>
</ranking-result></ranking-task></appraise-results>"""


def test_appraise_is_read_with_its_raters_and_ties(tmp_path: Path) -> None:
    data = read(write(tmp_path, XML, "results.xml"))
    assert data.raters == ("ann", "bob")
    assert (data.n_comparisons, data.n_ties) == (5, 1)
    assert set(data.items) == {"oak", "elm", "ash"}


def test_entities_are_refused(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + XML.partition("?>")[2]
    with pytest.raises(FormatError, match="the XML declares entities"):
        read(write(tmp_path, bomb, "results.xml"), "appraise")


def test_other_xml_is_refused_with_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="a file of XML that no adapter knows"):
        read(write(tmp_path, "<a><b/></a>", "x.xml"))


@given(st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_files_are_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    name, text = data.draw(st.sampled_from([("preflib", HEAD + "5: 1,{2,3}\n"), ("appraise", XML)]))
    content = bytearray(text.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        content[at : at + data.draw(st.integers(0, 6))] = data.draw(st.binary(max_size=4))
    path = tmp_path / "file"
    path.write_bytes(bytes(content))
    with suppress(FormatError):
        assert read(path, name, max_skipped=1).n_comparisons


def test_pairs_of_preflib_are_wins(tmp_path: Path) -> None:
    head = HEAD.replace("# FILE NAME: trees.toc", "# FILE NAME: trees.pwg\n# DATA TYPE: pwg")
    data = read(write(tmp_path, head + "3.0, 1, 2\n2.0, 2, 1\n4.0, 2, 3\n", "trees.pwg"))
    assert data.n_comparisons == 9
    old = "3\n1,oak\n2,elm\n3,ash\n9,9,3\n3,1,2\n2,2,1\n4,2,3\n"
    assert read(write(tmp_path, old, "old.pwg")).n_comparisons == 9


def test_a_graph_of_preflib_holds_no_rankings(tmp_path: Path) -> None:
    head = HEAD.replace("# FILE NAME: trees.toc", "# FILE NAME: trees.wmd\n# DATA TYPE: wmd")
    with pytest.raises(FormatError, match="wmd is a type of PrefLib without rankings"):
        read(write(tmp_path, head + "1.0, 1, 2\n", "trees.wmd"))


def test_a_ranking_without_a_rater_is_one_skipped_answer(tmp_path: Path) -> None:
    text = XML.replace('<ranking-result user="ann" ', "<ranking-result ")
    data = read(write(tmp_path, text, "results.xml"), max_skipped=1)
    assert data.n_skipped == 1
    assert data.raters == ("bob",)
    with pytest.raises(FormatError, match="1 of 2 rows"):
        read(write(tmp_path, text, "results.xml"), max_skipped=0)
