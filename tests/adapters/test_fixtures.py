"""One small file for every format, and beside it what it says."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bbq_plugin.data.files import read, records
from bbq_plugin.data.records import Comparison, Note, Skipped

FIXTURES = Path(__file__).parent / "fixtures"
CASES = sorted(FIXTURES.glob("*.expected.json"))

TAGS = {
    "fastchat_cleaned.jsonl": {"language": "English", "turn": "1"},
    "arena_100k.jsonl": {"question_id": "q1", "is_code": "true"},
    "arena_140k.jsonl": {"language": "en", "evaluation_order": "1"},
    "mt_bench_human.jsonl": {"question_id": "81", "turn": "1"},
    "clic.csv": {"isGolden": "false"},
    "pwcmp.csv": {"session_id": "1", "scene": "park"},
    "afc3_best.csv": {"session_id": "1", "scene": "park"},
    "table_winner_loser.jsonl": {"domain": "law"},
}


def expected(path: Path) -> dict[str, Any]:
    case: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return case


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.name.split(".")[0])
def test_a_format_gives_the_comparisons_beside_it(path: Path) -> None:
    case = expected(path)
    adapter = None if case["sniffed"] else case["adapter"]
    found = list(records(FIXTURES / case["file"], adapter, **case["options"]))
    comparisons = [c for c in found if isinstance(c, Comparison)]
    assert [[c.rater, c.left, c.right, c.outcome] for c in comparisons] == [
        one[:4] for one in case["comparisons"]
    ], case["desc"]
    assert [c.weight for c in comparisons] == pytest.approx([one[4] for one in case["comparisons"]])
    reasons = [s.reason for s in found if isinstance(s, Skipped)]
    assert {reason: reasons.count(reason) for reason in reasons} == case["skipped"]
    assert sum(isinstance(n, Note) for n in found) == case["notes"]
    assert len({c.key for c in comparisons}) == len(comparisons)
    if case["file"] in TAGS:
        assert (comparisons[0].tags or {}).items() >= TAGS[case["file"]].items()


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.name.split(".")[0])
def test_reading_in_batches_gzip_bom_or_parquet_makes_no_difference(
    path: Path, tmp_path: Path
) -> None:
    case = expected(path)
    adapter = None if case["sniffed"] else case["adapter"]
    plain = FIXTURES / case["file"]
    whole = read(plain, adapter, max_skipped=1, **case["options"])
    assert whole.n_comparisons == len(case["comparisons"])
    assert dict(whole.skip_reasons) == case["skipped"]
    assert whole.sources[0].adapter == case["adapter"]
    packed = tmp_path / f"{case['file']}.gz"
    content = plain.read_bytes()
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n")))
    again = read(packed, adapter, max_skipped=1, **case["options"])
    assert again.digest == whole.digest
    assert again.sources[0].sha256 != whole.sources[0].sha256


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("file", ["fastchat_cleaned.jsonl", "arena_140k.jsonl", "arena_55k.csv"])
def test_a_parquet_table_says_the_same(file: str, packed: bool, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    rows = [r for _, r in _rows(FIXTURES / file)]
    path = tmp_path / "votes.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    assert read(path).digest == read(FIXTURES / file).digest


def _rows(path: Path) -> Any:
    from bbq_adapters.json_csv_rows import rows  # noqa: PLC0415

    with path.open("rb") as file:
        yield from rows(file, path.name)


def test_an_address_is_hashed_with_the_salt_and_never_kept() -> None:
    path = FIXTURES / "fastchat_raw.jsonl"
    plain = read(path)
    salted = read(path, salt="pepper")
    assert not any("192.0.2" in rater for rater in (*plain.raters, *salted.raters))
    assert set(plain.raters).isdisjoint(salted.raters)
    assert "192.0.2" not in repr(list(records(path)))
    assert any("salt=SECRET" in warning for warning in plain.warnings)
    assert not salted.warnings


def test_golden_questions_can_be_had_alone() -> None:
    assert read(FIXTURES / "clic.csv", golden="only").n_comparisons == 1
    assert read(FIXTURES / "clic.csv", where={"isGolden": "true"}).n_comparisons == 1
