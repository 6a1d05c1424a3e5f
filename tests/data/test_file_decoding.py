"""Text in other encodings, old line ends and workbooks: found, named, and never garbled."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bbq_plugin.data import files
from bbq_plugin.data.files import opened, read
from bbq_plugin.data.mappings import UnclearError
from bbq_plugin.errors import FormatError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("Müller", "Grünkohl", "café", "Ærø")
TEXT = "judge,model_a,model_b,winner\n" + "".join(
    f"ann,{a},{b},model_a\n" for a, b in zip(NAMES, (*NAMES[1:], NAMES[0]), strict=True)
)


def written(tmp_path: Path, content: bytes, name: str = "votes.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("encoding", "called"),
    [
        ("utf-8", "UTF-8"), ("utf-8-sig", "UTF-8"), ("utf-16", "UTF-16"),
        ("utf-16-le", "UTF-16-LE"),
        ("utf-16-be", "UTF-16-BE"), ("utf-32", "UTF-32"), ("latin-1", "Windows-1252"),
        ("cp1252", "Windows-1252"),
    ],
)  # fmt: skip
def test_an_encoding_is_found_and_named(tmp_path: Path, encoding: str, called: str) -> None:
    path = written(tmp_path, TEXT.encode(encoding))
    assert set(read(path).items) == set(NAMES)
    with opened(path) as file:
        assert file.unpacked.encoding == called


def test_a_guess_is_noted(tmp_path: Path) -> None:
    data = read(written(tmp_path, TEXT.encode("latin-1")))
    assert any("is read as Windows-1252" in note for note in data.warnings)


@pytest.mark.parametrize("encoding", ["cp1251", "koi8-r", "mac-roman", "cp850", "cp1250"])
def test_what_would_be_garbled_is_asked_about(tmp_path: Path, encoding: str) -> None:
    names = (
        ("Привет", "Москва", "Волга")
        if encoding in ("cp1251", "koi8-r")
        else ("café", "Zoë", "fête")
    )
    if encoding == "cp1250":
        names = ("Łódź", "Kraków", "Gdańsk")
    text = "model_a,model_b,winner\n" + "".join(f"{a},{b},model_a\n" for a in names for b in names)
    path = written(tmp_path, text.encode(encoding))
    with pytest.raises(UnclearError, match="not UTF-8"):
        read(path)
    assert set(read(path, encoding=encoding, max_skipped=1).items) == set(names)


def test_a_byte_far_into_the_file_is_told_with_its_line(tmp_path: Path) -> None:
    rows = b"ann,oak,elm,model_a\n" * 5000
    path = written(
        tmp_path, b"judge,model_a,model_b,winner\n" + rows + b"ann,caf\xe9,elm,model_a\n"
    )
    with pytest.raises(UnclearError, match=r":5002: the text is not UTF-8") as caught:
        read(path)
    assert caught.value.readings[0].options == {"encoding": "cp1252"}
    assert "café" in read(path, encoding="cp1252").items
    with pytest.raises(UsageError, match="'latin-99', which is not known"):
        read(path, encoding="latin-99")


def test_bare_carriage_returns_end_lines(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT.replace("\n", "\r").encode())
    assert set(read(path).items) == set(NAMES)


def test_carriage_returns_inside_texts_are_no_obstacle(tmp_path: Path) -> None:
    text = 'model_a,model_b,winner,code\na,b,model_a,"x\ry"\nb,c,model_b,"\r\n"\n'
    assert read(written(tmp_path, text.encode())).n_comparisons == 2


# -- workbooks


def workbook(sheets: dict[str, list[list[Any]]]) -> bytes:
    """A small .xlsx, written part by part."""
    cells = {}
    for i, rows in enumerate(sheets.values(), 1):
        lines = []
        for row in rows:
            inside = "".join(
                f"<c><v>{one}</v></c>"
                if isinstance(one, (int, float))
                else f'<c t="inlineStr"><is><t>{one}</t></is></c>'
                for one in row
            )
            lines.append(f"<row>{inside}</row>")
        cells[f"xl/worksheets/sheet{i}.xml"] = (
            '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
            f"<sheetData>{''.join(lines)}</sheetData></worksheet>"
        )
    main = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    listed = "".join(
        f'<sheet name="{name}" sheetId="{i}" r:id="rId{i}"/>' for i, name in enumerate(sheets, 1)
    )
    links = "".join(
        f'<Relationship Id="rId{i}" Type="{main}/worksheet" Target="worksheets/sheet{i}.xml"/>'
        for i, _ in enumerate(sheets, 1)
    )
    package = "http://schemas.openxmlformats.org/package/2006"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"/>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" '
        f'Type="{main}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
        f' xmlns:r="{main}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">{links}'
        "</Relationships>",
        **cells,
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return out.getvalue()


VOTES: list[list[Any]] = [
    ["judge", "model_a", "model_b", "winner"],
    ["ann", "oak", "elm", "model_a"],
    ["bob", "elm", 7, "tie"],
]


def test_the_sheet_of_a_workbook_is_a_table(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine", reason="the extra 'xlsx' is not installed")
    data = read(written(tmp_path, workbook({"Votes": VOTES, "Empty": []}), "votes.xlsx"))
    assert (data.items, data.raters) == (("oak", "elm", "7"), ("ann", "bob"))


def test_several_sheets_are_asked_about(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine", reason="the extra 'xlsx' is not installed")
    path = written(tmp_path, workbook({"Notes": [["hello"]], "Votes": VOTES}), "votes.xlsx")
    with pytest.raises(UnclearError, match="2 sheets with rows: 'Votes', 'Notes'") as caught:
        read(path)
    assert caught.value.readings[0].options == {"sheet": "Votes"}
    assert read(path, sheet="Votes").n_comparisons == 2
    with pytest.raises(UsageError, match="no sheet 'votes'"):
        read(path, sheet="votes")


def test_a_workbook_without_its_library_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys  # noqa: PLC0415

    monkeypatch.setitem(sys.modules, "python_calamine", None)
    path = written(tmp_path, workbook({"Votes": VOTES}), "votes.xlsx")
    with pytest.raises(Exception, match=r"pip install 'bbq-plugin\[xlsx\]'"):
        read(path)


def test_an_archive_that_is_no_workbook_says_what_is_in_it(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("votes.csv", TEXT)
    with pytest.raises(FormatError, match=r"a zip archive of votes\.csv; unpack it"):
        read(written(tmp_path, out.getvalue(), "votes.zip"))


def test_a_workbook_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bbq_plugin.data.files._LARGEST_WORKBOOK", 1 << 20)
    bomb = workbook({"Votes": [["x" * 2_000_000]]})
    assert len(bomb) < 10_000
    with pytest.raises(FormatError, match="the workbook unpacks to more than 1 MB"):
        read(written(tmp_path, bomb, "bomb.xlsx"))


def test_a_workbook_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    content = bytearray(workbook({"Votes": VOTES}))
    at = content.rfind(b"xl/worksheets/sheet1.xml") - 46 + 24
    content[at : at + 4] = (5).to_bytes(4, "little")
    with pytest.raises(FormatError, match="not a readable workbook"):
        read(written(tmp_path, bytes(content), "lie.xlsx"))


def test_a_table_that_repeats_long_texts_is_read_in_small_parts_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(files, "_LONGEST_PARQUET_ROW", 100_000)
    made: list[int] = []
    turned = files._plain_times

    def turn(some: Any, arrow: Any) -> Any:
        made.append(some.num_rows)
        return turned(some, arrow)

    monkeypatch.setattr(files, "_plain_times", turn)

    def table(length: int) -> Path:
        votes = {"model_a": ["x", "y"] * 500, "model_b": ["y", "z"] * 500, "winner": ["tie"] * 1000}
        path = tmp_path / f"{length}.parquet"
        parquet.write_table(pa.table(votes | {"text": ["t" * length] * 1000}), path)
        return path

    assert read(table(1_000)).n_comparisons == 1000
    assert max(made) <= 100
    with pytest.raises(FormatError, match=r"a row has texts of 200,\d+ bytes; leave out the col"):
        read(table(200_000))


def test_a_table_of_equal_rows_without_end_is_refused(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def table(n: int) -> Path:
        said = pa.array([["x", "y", "model_a"][k] for k in range(3)])
        columns = [
            pa.DictionaryArray.from_arrays(np.full(n, k, dtype=np.int32), said) for k in range(3)
        ]
        path = tmp_path / f"{n}.parquet"
        parquet.write_table(pa.table(columns, names=["model_a", "model_b", "winner"]), path)
        return path

    assert read(table(2_000)).n_comparisons == 2_000
    refused = r"2,000,000 rows in [\d,]+ bytes, less than a bit for each; no table of answers"
    with pytest.raises(FormatError, match=refused):
        read(table(2_000_000))


@pytest.mark.parametrize("head", ["model_a,model_b,winner,judge", "winner,loser,judge,note"])
@pytest.mark.parametrize("before", [0, 100, 9000])
def test_rows_with_nul_characters_are_counted_skips(tmp_path: Path, head: str, before: int) -> None:
    more = "model_a,ann\n" if "model_a" in head else "ann,x\n"
    rows = f"oak,elm,{more}elm,oak,{more}"
    damaged = "o\0ak,elm," + more
    text = f"{head}\n{rows * before}{damaged}{rows * 100}"
    data = read(written(tmp_path, text.encode(), "votes.csv"))
    assert set(data.items) == {"oak", "elm"}
    assert data.n_comparisons == 2 * before + 200
    assert data.skip_reasons == {"holds NUL characters": 1}


def test_a_file_of_nul_characters_is_binary(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="this is a binary file"):
        read(written(tmp_path, b"abc\0\0\x01\x02" * 300, "votes.csv"))
