"""What `read` decides over all files together."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.files import read, read_by, records
from bbq_plugin.data.records import Batch, Comparison, Skipped
from bbq_plugin.errors import DataError, FormatError, UsageError
from bbq_plugin.plugins import describe
from tests.strategies import comparisons

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def vote(
    key: str | None, rater: str | None, left: str, right: str, winner: str, **more: Any
) -> Any:
    row = {"id": key, "judge": rater, "model_a": left, "model_b": right, "winner": winner, **more}
    return {k: v for k, v in row.items() if v is not None}


def votes(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


A = vote("1", "ann", "oak", "elm", "model_a", language="de", tstamp=5)
B = vote("2", "bob", "elm", "ash", "model_b", language="en", tstamp=5)
C = vote("3", "bob", "oak", "ash", "tie", language="de", tstamp=5)


def test_the_same_vote_in_two_exports_counts_once(tmp_path: Path) -> None:
    first, second = votes(tmp_path / "1.jsonl", A, B), votes(tmp_path / "2.jsonl", B, C)
    data = read([first, second])
    assert (data.n_comparisons, data.n_duplicates) == (3, 1)
    assert [s.n_comparisons for s in data.sources] == [1, 2]
    assert data.digest == read(votes(tmp_path / "3.jsonl", C, B, A)).digest


@pytest.mark.parametrize(("tstamp", "ties"), [(9, 1), (1, 0), (5, 1)])
def test_the_newest_of_two_votes_counts_else_the_later_one(
    tmp_path: Path, tstamp: float, ties: int
) -> None:
    first = votes(tmp_path / "1.jsonl", A)
    second = votes(tmp_path / "2.jsonl", {**A, "winner": "tie", "tstamp": tstamp})
    data = read([first, second])
    assert (data.n_comparisons, data.n_ties) == (1, ties)


def test_a_vote_that_is_corrected_in_the_same_file_counts_once(tmp_path: Path) -> None:
    data = read(votes(tmp_path / "1.jsonl", A, {**A, "winner": "model_b"}))
    assert (data.n_comparisons, data.n_duplicates) == (1, 1)
    assert data.items[data.winner[0]] == "elm"


def test_an_id_that_many_raters_share_merges_nobody(tmp_path: Path) -> None:
    data = read(votes(tmp_path / "1.jsonl", *({**A, "judge": f"r{i}"} for i in range(9))))
    assert (data.n_comparisons, data.n_duplicates) == (9, 0)


def test_rows_without_a_key_are_never_merged(tmp_path: Path) -> None:
    row = vote(None, "ann", "oak", "elm", "model_a")
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        votes(tmp_path / folder / "same.jsonl", row)
    paths = [tmp_path / "x" / "same.jsonl", tmp_path / "y" / "same.jsonl"]
    assert read(paths).n_comparisons == 2
    assert read(paths, where={}).n_comparisons == 2


def test_rows_without_a_key_are_not_merged_when_read_one_by_one_either(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "log.csv").write_text(
            "observer,condition_A,condition_B,is_A_selected\no,a,b,1\n"
        )
    assert read([tmp_path / "x" / "log.csv", tmp_path / "y" / "log.csv"]).n_comparisons == 2


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    path = votes(tmp_path / "1.jsonl", vote(None, "ann", "oak", "elm", "tie"))
    assert read([path, str(path), tmp_path / "." / "1.jsonl"]).n_comparisons == 1


class Rankings:
    """A made-up format: `slate time winner>loser…` a line."""

    name = "rankings"

    def sniff(self, head: bytes, name: str) -> str | None:  # noqa: ARG002 - of the protocol
        return None

    def read(self, stream: io.BufferedReader, name: str) -> Iterator[Comparison | Skipped]:
        assert name
        for line in stream:
            slate, at, *pairs = line.decode().split()
            for i, pair in enumerate(pairs):
                winner, loser = pair.split(">")
                yield Comparison(
                    f"{slate}/{i}", "ann", winner, loser, "left", 0.5, slate, at=float(at)
                )


class States:
    """A made-up format: `key rater left right version` a line; `-` for left takes back."""

    name = "states"

    def sniff(self, head: bytes, name: str) -> str | None:  # noqa: ARG002 - of the protocol
        return None

    def read(self, stream: io.BufferedReader, name: str) -> Iterator[Comparison | Skipped]:
        for line in stream:
            key, rater, left, right, version = line.decode().split()
            new = None if version == "?" else float(version)
            if left == "-":
                yield Skipped(name, "gone", expected=True, key=key, version=new, at=1.0)
            else:
                yield Comparison(key, rater, left, right, "left", at=1.0, version=new)


@pytest.mark.parametrize(
    ("states", "winners"),
    [
        (["k ann a b 5", "k ann b a 4"], "a"),
        (["k ann a b 5", "k ann a b 5"], "a"),
        (["k ann a b 4", "k bob c b 5"], "c"),
        (["k ann a b ?", "k ann c b ?"], "ac"),
        (["k ann a b 4", "k - - - 5"], ""),
        (["k - - - 5", "k ann a b 4"], ""),
        (["k - - - 5", "k ann a b 5"], "a"),
        (["k ann a b 5", "k - - - 5"], ""),
        (["k ann a b 4", "k - - - 5", "k ann c b 6", "k - - - 3"], "c"),
        (["k ann a b 4", "l - - - 5"], "a"),
        (["k ann a b ?", "k - - - ?"], ""),
    ],
)
def test_the_newest_version_counts_and_a_newer_skip_takes_back(
    tmp_path: Path, states: list[str], winners: str
) -> None:
    lines = ["other ann x y 1", *states]
    one = tmp_path / "all"
    one.write_text("\n".join(lines))
    several = [tmp_path / str(i) for i in range(len(lines))]
    for path, line in zip(several, lines, strict=True):
        path.write_text(line)
    for paths in ([one], several):
        data = read(paths, States())
        assert sorted(data.items[i] for i in data.winner) == [*winners, "x"]
        assert data.n_comparisons + data.n_duplicates + data.n_skipped == len(lines)


def test_a_ranking_is_corrected_as_a_whole(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("s1 1 a>b a>c b>c\ns2 1 a>b\n")
    new.write_text("s1 2 c>a c>b\n")
    for order in ([old, new], [new, old]):
        data = read(order, Rankings())
        assert (data.n_comparisons, data.n_duplicates) == (3, 3)


def test_only_votes_with_the_tag_are_kept(tmp_path: Path) -> None:
    path = votes(tmp_path / "1.jsonl", A, B, C)
    data = read(path, where={"language": "de"})
    assert (data.n_comparisons, data.n_filtered, data.items) == (2, 1, ("oak", "elm", "ash"))
    assert data.n_ties == 1
    with pytest.raises(UsageError, match="no row has a tag 'langage'; did you mean 'language'"):
        read(path, where={"langage": "de"})
    with pytest.raises(DataError, match="none of the 3 answers has language=fr"):
        read(path, where={"language": "fr"})


def test_a_set_can_be_split_by_a_tag(tmp_path: Path) -> None:
    path = votes(tmp_path / "1.jsonl", A, B, C, {**B, "id": "4", "language": None})
    parts = read_by(path, by="language")
    assert {value: part.n_comparisons for value, part in parts.items()} == {"de": 2, "en": 1}
    assert parts["en"].items == ("elm", "ash")
    assert parts["en"].n_filtered == 1
    assert parts["en"].sources[0].n_comparisons == 1


def test_items_can_be_merged_by_renaming_them(tmp_path: Path) -> None:
    path = votes(tmp_path / "1.jsonl", *[{**A, "id": str(i)} for i in range(200)], B, C)
    data = read(path, rename={"ash": "elm", "yew": "fir"})
    assert data.items == ("oak", "elm")
    assert data.skip_reasons == {"one item after renaming": 1}
    assert data.warnings == ("there is no item 'yew' to rename",)


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
@pytest.mark.parametrize("strict", [False, True])
def test_answers_between_two_items_made_one_are_no_fault(
    tmp_path: Path, suffix: str, strict: bool
) -> None:
    path = tmp_path / f"1.{suffix}"
    if suffix == "jsonl":
        votes(path, A, *[{**B, "id": f"b{i}"} for i in range(20)])
    else:
        rows = ["oak,elm,model_a,ann", *["elm,ash,model_a,bob"] * 20]
        path.write_text("\n".join(["model_a,model_b,winner,judge", *rows]), encoding="utf-8")
    data = read(path, rename={"elm": "tree", "ash": "tree"}, strict=strict)
    assert data.n_comparisons == 1
    assert data.skip_reasons == {"one item after renaming": 20}


def test_an_item_that_met_itself_before_renaming_is_still_a_fault(tmp_path: Path) -> None:
    path = votes(tmp_path / "1.jsonl", A, *[{**B, "id": f"b{i}", "model_b": "elm"} for i in "123"])
    with pytest.raises(FormatError, match="an item against itself"):
        read(path, rename={"elm": "tree"})


def test_raters_can_be_dropped_by_name(tmp_path: Path) -> None:
    path = votes(tmp_path / "1.jsonl", A, B, C)
    data = read(path, drop_raters=["bob"])
    assert (data.n_comparisons, data.n_dropped, data.raters) == (1, 2, ("ann",))
    assert data.items == ("oak", "elm")
    with pytest.raises(UsageError, match="no rater 'bobb' to drop; did you mean 'bob'"):
        read(path, drop_raters=["bobb"])
    with pytest.raises(DataError, match="all 3 are of raters to be dropped"):
        read(path, drop_raters=["bob", "ann"])


def test_strict_makes_the_first_skip_an_error_with_its_place(tmp_path: Path) -> None:
    path = votes(tmp_path / "1.jsonl", A, {**B, "model_b": "elm"})
    with pytest.raises(FormatError, match=r"1\.jsonl:2: an item against itself") as caught:
        read(path, strict=True)
    assert (caught.value.file, caught.value.line) == (str(path), 2)
    with pytest.raises(FormatError, match="an item against itself"):
        read(path, strict=True, where={"language": "en"})
    with pytest.raises(FormatError, match="no rater in this row"):
        read(votes(tmp_path / "2.jsonl", A, vote("9", None, "oak", "elm", "tie")), strict=True)
    bad = votes(tmp_path / "3.jsonl", A, {**A, "id": "7", "winner": "both_bad"})
    assert read(bad, strict=True, both_bad="drop").n_comparisons == 1


@pytest.mark.parametrize(("n", "percent"), [(7, 7), (14, 14), (28, 28), (29, 29)])
def test_the_share_that_a_refusal_names_is_enough(tmp_path: Path, n: int, percent: int) -> None:
    good = [{**A, "id": str(i)} for i in range(100 - n)]
    gaps = [{**A, "id": f"g{i}", "winner": None} for i in range(n)]
    path = votes(tmp_path / "1.jsonl", *good, *gaps)
    with pytest.raises(FormatError) as caught:
        read(path)
    allowed = float(str(caught.value).rpartition("max_skipped=")[2].rstrip(")"))
    assert percent <= 100 * allowed <= percent + 1
    assert read(path, max_skipped=allowed).n_skipped == n


def test_too_many_skips_are_what_a_wrong_adapter_looks_like(tmp_path: Path) -> None:
    good = [{**A, "id": str(i)} for i in range(98)]
    gaps = [{**A, "id": f"g{i}", "winner": None} for i in range(2)]
    path = votes(tmp_path / "1.jsonl", *good, *gaps)
    with pytest.raises(FormatError) as caught:
        read(path)
    message = str(caught.value)
    assert "2 of 100 rows (2.00%) were skipped, more than the 1.00% allowed" in message
    assert "no winner recorded" in message
    assert "(--max-skipped 2%, in Python max_skipped=0.02)" in message
    assert read(path, max_skipped=0.02).n_skipped == 2
    one = votes(tmp_path / "2.jsonl", *good[:3], gaps[0])
    assert read(one).n_skipped == 1
    with pytest.raises(FormatError, match=r"more than the 0\.00% allowed"):
        read(one, max_skipped=0)
    with pytest.raises(UsageError, match="max_skipped is 5"):
        read(path, max_skipped=5)


def test_one_bad_file_among_many_is_not_hidden(tmp_path: Path) -> None:
    good = votes(tmp_path / "good.jsonl", *[{**A, "id": str(i)} for i in range(1000)])
    bad = votes(tmp_path / "bad.jsonl", B, {**C, "winner": None}, {**C, "winner": None})
    with pytest.raises(FormatError, match=r"bad\.jsonl: 2 of 3 rows"):
        read([good, bad])


def test_standard_input_is_sniffed_and_hashed_like_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = votes(tmp_path / "1.jsonl", A, B, C)

    class Pipe(io.RawIOBase):
        """Hands over a few bytes at a time, as a slow program does."""

        def __init__(self) -> None:
            self.rest = path.read_bytes()

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            n = min(7, len(buffer), len(self.rest))
            buffer[:n], self.rest = self.rest[:n], self.rest[n:]
            return n

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Pipe(), 16)))
    data = read("-")
    assert data.n_comparisons == 3
    assert data.sources[0].file == "-"
    assert data.sources[0].sha256 == read(path).sources[0].sha256


def test_a_source_says_how_a_file_was_read(tmp_path: Path) -> None:
    path = votes(tmp_path / "1.jsonl", A, B, C)
    (source,) = read(path).sources
    assert source.adapter == "arena"
    assert source.why == "JSON with model_a, model_b, winner (votes)"
    assert read(path, "arena").sources[0].why == "named by the caller"


@given(comparisons(), st.randoms(use_true_random=False))
def test_the_digest_is_that_of_the_content(answers: list[Comparison], random: Any) -> None:
    data = Comparisons.from_comparisons(answers)
    shuffled = answers.copy()
    random.shuffle(shuffled)
    assert Comparisons.from_comparisons(shuffled).digest == data.digest
    more = Comparisons.from_comparisons([*answers, answers[0]])
    assert more.digest != data.digest


def test_names_that_run_into_each_other_have_different_digests() -> None:
    one = Comparisons.from_records([("r", "a\0", "b"), ("r", "a\0", "c")])
    other = Comparisons.from_records([("r", "a", "\0b"), ("r", "a", "c")])
    assert one.digest != other.digest
    unrated = Comparisons.from_records([(None, "a\0", "b"), (None, "a\0", "c")])
    assert unrated.digest != one.digest


def test_records_that_a_program_gives_are_taken_as_they_are() -> None:
    answers = [Comparison("k", "ann", "a", "b", "left", version=v) for v in (1.0, 2.0)]
    data = Comparisons.from_comparisons([*answers, Skipped("x", "gone", key="k", version=3.0)])
    assert (data.n_comparisons, data.n_duplicates, data.n_skipped) == (2, 0, 1)


def test_a_batch_is_the_same_as_its_rows() -> None:
    rows = Comparisons.from_comparisons(
        [Comparison("1", "ann", "a", "b", "left"), Comparison("2", "7", "c", "a", "tie")]
    )
    batch = Batch(range(1, 3), ["ann", 7], ["a", "c"], ["b", "a"], bytes([0, 2]), ["1", "2"])
    together = Comparisons.from_comparisons([batch])  # type: ignore[list-item]
    assert together.digest == rows.digest
    assert np.array_equal(together.weight, rows.weight)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("both_bad", "drp", "both_bad is 'drp'; expected 'tie' or 'drop'; did you mean 'drop'"),
        ("strong", "three", "strong is 'three'; expected a number"),
        ("bothbad", "drop", "no option 'bothbad'; it has: .*; did you mean 'both_bad'"),
    ],
)
def test_an_option_that_cannot_be_is_explained(
    tmp_path: Path, name: str, value: str, message: str
) -> None:
    option: dict[str, Any] = {name: value}
    with pytest.raises(UsageError, match=message):
        read(votes(tmp_path / "1.jsonl", A), **option)


def test_options_are_spelt_with_hyphens_on_a_command_line(tmp_path: Path) -> None:
    path = votes(tmp_path / "1.jsonl", A, {**A, "id": "4", "winner": "both_bad"})
    option: dict[str, Any] = {"both-bad": "drop"}
    assert read(path, **option).n_comparisons == 1


def test_every_adapter_describes_itself_and_all_its_options() -> None:
    found = {one.name: one for one in describe()}
    assert {"arena", "afc", "table"} <= found.keys()
    for one in found.values():
        assert one.summary, one.name
        assert one.recognised, one.name
        for option in one.options:
            assert option.help, f"{one.name}: {option.name}"
            assert option.takes
    task = next(o for o in found["afc"].options if o.name == "task")
    assert task.takes.startswith("2afc|")
    assert describe("table") == (found["table"],)


def test_records_come_one_by_one(tmp_path: Path) -> None:
    found = records(votes(tmp_path / "1.jsonl", A, B))
    assert next(found) == Comparison(
        "1", "ann", "oak", "elm", "left", at=5.0, tags={"language": "de"}
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [("x" * 20_000, "name of 20,000 characters"), ("a\ud800", "half a character")],
)
def test_a_name_that_cannot_be_shown_is_refused_with_its_file(
    tmp_path: Path, name: str, message: str
) -> None:
    path = tmp_path / "1.json"
    path.write_text(json.dumps([{**A, "model_a": name}]))
    with pytest.raises(FormatError, match=message):
        read(path)


@pytest.mark.parametrize("ending", ["jsonl", "csv", "json"])
def test_blanks_around_a_name_make_no_other_item_or_rater(tmp_path: Path, ending: str) -> None:
    rows = [
        {"judge": who, "model_a": a, "model_b": "llama", "winner": won}
        for who, a, won in (("ann", "gpt", "gpt"), ("ann ", "gpt ", "gpt"), ("ann", "gpt", "gpt "))
    ]
    path = tmp_path / f"votes.{ending}"
    if ending == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    elif ending == "json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    else:
        lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
        path.write_text("\n".join(lines), encoding="utf-8")
    found = read(path)
    assert (set(found.items), found.raters, found.n_comparisons) == ({"gpt", "llama"}, ("ann",), 3)
    assert set(found.winner.tolist()) == {found.items.index("gpt")}


def test_names_that_differ_only_in_case_are_named(tmp_path: Path) -> None:
    path = tmp_path / "wins.csv"
    path.write_text("winner,loser\nGPT,llama\ngpt,llama\nllama,Gpt\n", encoding="utf-8")
    (said,) = read(path).warnings
    assert said.startswith("items 'GPT' and 'gpt' differ only in case, and 1 more")


def test_a_file_that_is_named_twice_is_read_once_and_noted(tmp_path: Path) -> None:
    path = tmp_path / "wins.csv"
    path.write_text("winner,loser\ngpt,llama\n", encoding="utf-8")
    found = read([path, path])
    assert found.n_comparisons == 1
    assert found.warnings == (f"{path} is named more than once, and read once",)


@pytest.mark.parametrize("ids", [True, False])
def test_rows_that_are_all_there_twice_are_noted_and_all_count(tmp_path: Path, ids: bool) -> None:
    rows = [
        {"judge": f"r{n}", "model_a": a, "model_b": b, "winner": "model_a"}
        for n in range(10)
        for a, b in ("xy", "yz", "zx")
    ]
    once, twice = tmp_path / "once.jsonl", tmp_path / "twice.jsonl"
    for path, some in ((once, rows), (twice, rows + rows)):
        named = [row | ({"id": n} if ids else {}) for n, row in enumerate(some)]
        path.write_text("\n".join(map(json.dumps, named)), encoding="utf-8")
    assert read(once).warnings == ()
    found = read(twice)
    assert found.n_comparisons == 60
    assert any("100% of the rows are there exactly twice" in one for one in found.warnings) != ids


def test_a_file_that_is_a_copy_of_another_is_noted(tmp_path: Path) -> None:
    first, second, other = (tmp_path / name for name in ("a.csv", "b.csv", "c.csv"))
    first.write_text("winner,loser\ngpt,llama\n", encoding="utf-8")
    second.write_text("winner,loser\ngpt,llama\n", encoding="utf-8")
    other.write_text("winner,loser\nllama,gpt\n", encoding="utf-8")
    (said,) = read([first, second, other]).warnings
    assert said.startswith(f"{second} has the same content as {first}: rows without ids count")


def test_two_equal_files_are_one_unless_it_is_said(tmp_path: Path) -> None:
    first, second = tmp_path / "votes.csv", tmp_path / "votes (1).csv"
    rows = "gpt,llama\nllama,gpt\ngpt,claude\n" * 10
    for path in (first, second):
        path.write_text(f"winner,loser\n{rows}", encoding="utf-8")
    with pytest.raises(FormatError, match=r"has the same content as .*votes\.csv.*--force"):
        read([first, second])
    assert read(first).n_comparisons == 30
    assert read([first, second], force=True).n_comparisons == 60


def test_what_programs_write_for_an_empty_cell_is_no_name(tmp_path: Path) -> None:
    rows = "gpt,llama,model_a,ann\nllama,gpt,model_b,bob\n" * 40
    path = tmp_path / "votes.csv"
    path.write_text(f"model_a,model_b,winner,judge\n{rows}NaN,gpt,model_b,ann\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"an item is called 'NaN'.*empty cell"):
        read(path)
    assert "NaN" in read(path, force=True).items
    rows = "gpt,llama,ann\nllama,gpt,bob\n" * 5
    path = tmp_path / "wins.csv"
    path.write_text(f"winner,loser,rater\n{rows}nan,gpt,ann\n", encoding="utf-8")
    found = read(path)
    assert set(found.items) == {"gpt", "llama"}
    assert found.n_skipped == 1


def test_too_many_skips_name_the_first_row_and_its_value(tmp_path: Path) -> None:
    path = tmp_path / "wins.csv"
    rows = "gpt,llama,1\n" * 9 + "gpt,llama,heavy\n" * 2
    path.write_text(f"winner,loser,weight\n{rows}", encoding="utf-8")
    with pytest.raises(
        FormatError, match=r"weight is not a weight.*first in .*wins.csv:11: 'heavy'"
    ):
        read(path)
