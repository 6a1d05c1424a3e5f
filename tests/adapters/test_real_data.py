"""Public data, where it is at hand: what the files are known to hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from bbq_plugin.data.files import read, read_by

DATA = Path(__file__).parents[3] / "shared" / "data"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the public data are not at hand")


@pytest.mark.parametrize(
    ("file", "n", "raters", "items", "ties", "skipped"),
    [
        ("hific/comparisons.jsonl", 5218, 20, 9, 0, 2),
        ("mtbench/comparisons.jsonl", 3355, 65, 6, 780, 0),
        ("llmfao/comparisons.jsonl", 8931, 124, 59, 3471, 0),
        ("llmfao/crowd-comparisons.csv", 8931, 124, 59, 3471, 0),
    ],
)
def test_public_data_are_read_whole(
    file: str, n: int, raters: int, items: int, ties: int, skipped: int
) -> None:
    data = read(DATA / file)
    assert (data.n_comparisons, data.n_raters, data.n_items) == (n, raters, items)
    assert (data.n_ties, data.n_skipped, data.n_duplicates) == (ties, skipped, 0)
    assert data.sources[0].adapter == "arena"


def test_the_turns_of_mt_bench_are_two_sets() -> None:
    parts = read_by(DATA / "mtbench" / "comparisons.jsonl", by="turn")
    assert sorted(parts) == ["1", "2"]
    assert sum(part.n_comparisons for part in parts.values()) == 3355


def test_the_same_study_from_two_files_counts_once() -> None:
    path = DATA / "hific" / "comparisons.jsonl"
    assert read([path, path]).n_comparisons == 5218
