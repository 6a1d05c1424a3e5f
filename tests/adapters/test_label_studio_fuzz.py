"""Whatever comes in: comparisons, counted skips, or a FormatError with file, place and remedy."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, cast

import pytest
from bbq_adapters.label_studio import LabelStudioAdapter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.records import Comparison, Skipped
from bbq_plugin.errors import DataError, FormatError

FIXTURES = Path(__file__).resolve().parent / "label_studio" / "fixtures"
# One export of each shape is enough to mutate; the others differ in content.
BASES = [
    FIXTURES / name
    for name in (
        "pairwise.json",
        "pairwise.snapshot_full.json",
        "pairwise.min.json",
        "pairwise.csv",
        "sides.tsv",
        "known_labels.json",
        "tiers.json",
        "ranker.csv",
        "ratings.min.json",
        "search_page.json",
        "asr_hypotheses.csv",
    )
]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"items": "model1,model2"},
    {"items": "items.title"},
    {"control": "rank", "buckets": "good,bad,_", "within": "tied"},
    {"labels": "left=left,right=right,tie=tie"},
    {"ground_truth": "only"},
]

common = settings(
    max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["left", "right", "tie", "banana", "gpt", "A is better", "", " ", "_", "\n"])
    | st.text(max_size=8)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["selected", "choices", "ranker", "rating", "rank", "_", "id", "good"])
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


def outcome(content: bytes, options: dict[str, Any]) -> list[Comparison | Skipped] | FormatError:
    """Read, and check that the outcome is one of those that a user may see."""
    stream = cast("io.BufferedReader", io.BufferedReader(cast("io.RawIOBase", io.BytesIO(content))))
    try:
        found = LabelStudioAdapter().read(stream, "file.json", **options)
        records = [record for record in found if isinstance(record, (Comparison, Skipped))]
    except FormatError as error:
        return checked(error)
    for record in records:
        if isinstance(record, Comparison):
            assert record.key.startswith("ls:")
            assert record.rater
            assert record.left.strip()
            assert record.right.strip()
            assert record.left != record.right
            assert record.outcome in ("left", "right", "tie", "both_bad")
        else:
            assert record.where.startswith("file.json:")
            assert record.reason
    return records


def checked(error: FormatError) -> FormatError:
    assert error.file == "file.json"
    assert error.line is not None
    assert error.line >= 1
    assert error.value is not None
    assert error.remedy
    assert str(error)
    return error


def fits(records: list[Comparison | Skipped]) -> None:
    """Whatever was read can be gathered, or is refused as having no comparisons."""
    if any(isinstance(record, Comparison) for record in records):
        assert Comparisons.from_comparisons(records).n_comparisons
        return
    with pytest.raises(DataError):
        Comparisons.from_comparisons(records)


@common
@given(data=st.data())
def test_mutated_bytes_of_real_exports(data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from(BASES)).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, max(0, len(content) - 1)))
        length = data.draw(st.integers(0, 40))
        content[start : start + length] = data.draw(st.binary(max_size=8))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content))) :]
    outcome(bytes(content), data.draw(st.sampled_from(OPTIONS)))


@common
@given(data=st.data())
def test_swapped_and_deleted_values_of_real_exports(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([base for base in BASES if base.suffix == ".json"]))
    tree = json.loads(path.read_text(encoding="utf-8"))
    for _ in range(data.draw(st.integers(1, 6))):
        mutate(tree, data)
    records = outcome(json.dumps(tree).encode(), data.draw(st.sampled_from(OPTIONS)))
    if isinstance(records, list):
        fits(records)


def mutate(tree: Any, data: st.DataObject) -> None:
    """Delete or replace one value somewhere in the tree."""
    here = tree
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        deeper = isinstance(here[key], (dict, list)) and here[key]
        if deeper and data.draw(st.integers(0, 4)):
            here = here[key]
            continue
        if data.draw(st.booleans()):
            del here[key]
        else:
            here[key] = data.draw(values)
        return


@common
@given(
    kind=st.sampled_from(["pairwise", "choices", "ranker", "rating", "textarea"]),
    results=st.lists(values, min_size=1, max_size=4),
    first=st.sampled_from(
        [{"selected": "left"}, {"choices": ["tie"]}, {"ranker": {"r": ["a", "b"]}}, {"rating": 2}]
    ),
)
def test_any_value_that_the_server_would_accept(kind: str, results: list[Any], first: Any) -> None:
    tasks = [
        {
            "id": number,
            "project": 1,
            "data": {"model_a": "x", "model_b": "y", "items": [{"id": "a"}, {"id": "b"}]},
            "annotations": [
                {
                    "id": number,
                    "completed_by": 2,
                    "result": [{"from_name": "c", "to_name": "t", "type": kind, "value": value}],
                }
            ],
        }
        for number, value in enumerate([first, *results])
    ]
    records = outcome(json.dumps(tasks).encode(), {})
    if isinstance(records, list):
        fits(records)


@common
@given(content=st.binary(max_size=200), json_like=st.booleans())
def test_any_bytes(content: bytes, json_like: bool) -> None:
    assert isinstance(outcome((b"[{" if json_like else b"") + content, {}), (list, FormatError))


@common
@given(cells=st.lists(st.text(max_size=12), min_size=7, max_size=7), tab=st.booleans())
def test_any_row_of_a_table(cells: list[str], tab: bool) -> None:
    header = ["annotation_id", "annotator", "created_at", "lead_time", "updated_at", "id", "pw"]
    separator = "\t" if tab else ","
    quoted = ['"' + cell.replace('"', '""') + '"' for cell in cells]
    try:
        content = "\n".join((separator.join(header), separator.join(quoted))).encode()
    except UnicodeEncodeError:
        return
    outcome(content, {})


@pytest.mark.parametrize("path", BASES, ids=lambda path: path.name)
def test_an_export_cut_anywhere_near_its_end_is_never_read_as_whole_json(path: Path) -> None:
    content = path.read_bytes()
    for cut in range(1, min(400, len(content)), 7):
        got = outcome(content[:-cut], {})
        if path.suffix == ".json" and content[:-cut].rstrip()[-1:] != b"]":
            assert isinstance(got, FormatError)
