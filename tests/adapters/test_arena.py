from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest
from bbq_adapters.arena import ArenaAdapter
from bbq_adapters.row_values import RATER_FIELDS

from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.files import read, records
from bbq_plugin.data.records import Comparison, Record, Skipped
from bbq_plugin.errors import FormatError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

VOTE = {"id": "v1", "judge": "ann", "model_a": "gpt", "model_b": "llama", "winner": "model_a"}


def vote(**changes: Any) -> dict[str, Any]:
    """VOTE with fields changed, or left out where the change is ...."""
    return {k: v for k, v in {**VOTE, **changes}.items() if v is not ...}


def jsonl(tmp_path: Path, *votes: dict[str, Any]) -> Path:
    path = tmp_path / "votes.jsonl"
    path.write_text("".join(json.dumps(v) + "\n" for v in votes))
    return path


def found(path: Path, **options: Any) -> list[Record]:
    return list(records(path, ArenaAdapter(), **options))


def one(path: Path) -> Comparison:
    (record,) = found(path)
    assert isinstance(record, Comparison)
    return record


@pytest.mark.parametrize(
    ("winner", "outcome"),
    [
        ("model_a", "left"),
        ("model_b", "right"),
        ("tie", "tie"),
        ("tie (bothbad)", "both_bad"),
        ("both_bad", "both_bad"),
        ("gpt", "left"),
        ("llama", "right"),
    ],
)
def test_every_way_to_say_who_won(tmp_path: Path, winner: str, outcome: str) -> None:
    assert one(jsonl(tmp_path, vote(winner=winner))).outcome == outcome


def test_an_unknown_winner_is_an_error_and_never_a_tie(tmp_path: Path) -> None:
    path = jsonl(tmp_path, vote(), vote(winner="modelA"))
    with pytest.raises(FormatError) as caught:
        found(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:2: winner is 'modelA'; expected model_a, model_b, tie or")
    assert message.endswith("did you mean 'model_a'?")
    assert caught.value.value == "modelA"


def test_a_winner_that_resembles_nothing_is_still_explained(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"winner is '§'; expected .*correct or drop the line"):
        found(jsonl(tmp_path, vote(winner="§")))


def test_an_item_that_is_called_like_an_outcome_is_ambiguous(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="both an outcome and the name of an item"):
        found(jsonl(tmp_path, vote(model_b="model_a")))
    assert one(jsonl(tmp_path, vote(model_a="model_a"))).outcome == "left"


@pytest.mark.parametrize("field", RATER_FIELDS)
def test_the_rater_is_known_under_many_names(tmp_path: Path, field: str) -> None:
    assert one(jsonl(tmp_path, vote(**{"judge": ..., field: "bob"}))).rater == "bob"


@pytest.mark.parametrize(
    ("judge", "rater"), [(7, "7"), (7.0, "7"), (["gpt-4", "pair"], "gpt-4, pair")]
)
def test_a_rater_may_be_a_number_or_a_list(tmp_path: Path, judge: object, rater: str) -> None:
    assert one(jsonl(tmp_path, vote(judge=judge))).rater == rater


def test_a_file_without_raters_invents_none(tmp_path: Path) -> None:
    path = jsonl(tmp_path, vote(judge=...), vote(id=2, judge=None), vote(id=3, judge=""))
    data = read(path, "arena")
    assert not data.has_raters
    assert data.n_comparisons == 3


def test_unrated_rows_among_rated_ones_are_skipped_wherever_they_stand(tmp_path: Path) -> None:
    votes = [vote(id=1, judge=None), vote(), vote(id=3, judge="")]
    data = read(jsonl(tmp_path, *votes), max_skipped=1)
    assert data.n_comparisons == 1
    assert [s.where.rsplit(" ", 1)[1] for s in data.skipped] == ["'1'", "'3'"]
    assert set(data.skip_reasons) == {"no rater in this row, while others have one"}


def test_rows_that_compare_nothing_are_skipped_and_counted(tmp_path: Path) -> None:
    votes = [vote(), vote(model_b="gpt"), vote(winner=None)]
    data = read(jsonl(tmp_path, *votes), max_skipped=1)
    assert data.skip_reasons == {"an item against itself": 1, "no winner recorded": 1}


def test_both_bad_is_a_tie_unless_it_is_to_be_dropped(tmp_path: Path) -> None:
    path = jsonl(tmp_path, vote(), vote(id=2, winner="both_bad"))
    assert read(path).n_both_bad == 1
    assert read(path).both_bad_rate == pytest.approx([0.5, 0.5])
    dropped = read(path, both_bad="drop")
    assert dropped.both_bad_rate is None
    assert dropped.n_comparisons == 1
    assert dropped.skip_reasons == {"both bad, dropped as asked": 1}
    with pytest.raises(UsageError, match="both_bad is 'keep'; expected 'tie' or 'drop'"):
        read(path, both_bad="keep")


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"id": "v9"}, "v9"),
        ({"id": 9}, "9"),
        ({"id": ..., "key": "k9"}, "k9"),
        ({"id": ..., "question_id": 81, "turn": 2}, "81/2/ann/gpt/llama"),
        ({"id": ..., "question_id": "q"}, "q/ann/gpt/llama"),
        ({"id": ...}, "votes.jsonl:1"),
    ],
)
def test_every_vote_has_a_key_of_its_own(tmp_path: Path, fields: Any, key: str) -> None:
    assert one(jsonl(tmp_path, vote(**fields))).key == key


def test_csv_says_the_same_as_json_lines(tmp_path: Path) -> None:
    table = tmp_path / "votes.csv"
    table.write_text(
        "id,judge,model_a,model_b,winner,tstamp,prompt\n"
        'v1,ann,gpt,llama,model_a,12.5,"Hello, you"\n'
        "\n"
        "v2,bob,gpt,llama,tie,,\n"
    )
    lines = jsonl(
        tmp_path, vote(tstamp=12.5, prompt="Hello, you"), vote(id="v2", judge="bob", winner="tie")
    )
    assert found(table) == found(lines)


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_marks_line_ends_and_compression_make_no_difference(tmp_path: Path, suffix: str) -> None:
    text = {
        "csv": "judge,model_a,model_b,winner\r\nann,gpt,llama,tie\r\n",
        "jsonl": json.dumps(vote(winner="tie")) + "\r\n",
    }[suffix]
    path = tmp_path / f"votes.{suffix}.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.encode()))
    data = read(path)
    assert (data.n_comparisons, data.n_ties, data.items) == (1, 1, ("gpt", "llama"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"model_a": "a", "model_b": "b", "winner": "tie"}\n{"model_a": "a", "mo', ":2: not val"),
        (b'{"model_a": "a", "model_b": "b"}\n', ":1: there is no field winner"),
        (b'{"model_a": "a", "model_b": "b", "winner": {}}\n', ":1: winner is {}; expected"),
        (b'{"model_a": "\x81", "model_b": "b", "winner": "tie"}\n', ":1: .*UTF-8"),
        (b'{"model_a": "a", "model_b": " ", "winner": "tie"}\n', "1 × an item has an empty name"),
        (b"model_a,model_b,judge\na,b,c\n", ":2: there is no field winner; the row has: model_a"),
        (b"model_a,model_b,winner\na,b\n", "1 × has 2 columns where the header has 3"),
        (b"model_a,model_b,winner\n,b,tie\n", "1 × an item has an empty name"),
        (b'model_a,model_b,winner\na,b,"tie\n', ":2: not valid CSV"),
        (b"model_a,model_b,winner\na,b,tie\n\x81,b,tie\n", ":[23]: the text is not UTF-8"),
    ],
)
def test_a_broken_file_is_an_error_with_file_line_and_remedy(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "votes"
    path.write_bytes(content)
    with pytest.raises(FormatError, match="votes(: .*)?" + message):
        read(path, "arena")


def test_a_long_conversation_in_a_csv_cell_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text(f"model_a,model_b,winner,prompt\na,b,tie,{'x' * 200_000}\n")
    assert read(path).n_comparisons == 1


def test_an_array_may_have_numbers_that_only_python_writes(tmp_path: Path) -> None:
    path = tmp_path / "votes.json"
    path.write_text('[{"model_a": "a", "model_b": "b", "winner": "model_a", "score": NaN}]')
    assert read(path).n_comparisons == 1


def test_a_plain_table_is_read_in_batches_as_row_by_row(tmp_path: Path) -> None:
    words = ("left", "right", "tie")
    lines = [f"r{i % 7},{'a' if i % 3 else 'c'},b,{words[i % 3]}" for i in range(9000)]
    lines += ["r1,a,b,b", "r1,a,b,both_bad", "r1,a,b,", "r1,a,a,left"]
    path = tmp_path / "votes.csv"
    path.write_text("\n".join(["judge,left,right,winner", *lines]) + "\n")
    fast = read(path)
    slow = Comparisons.from_comparisons(
        record for record in records(path) if isinstance(record, (Comparison, Skipped))
    )
    assert fast.digest == slow.digest
    assert (fast.n_comparisons, fast.n_ties) == (slow.n_comparisons, slow.n_ties)
    assert (fast.n_skipped, fast.n_left) == (slow.n_skipped, slow.n_left)


def test_a_log_may_begin_with_rows_of_another_kind(tmp_path: Path) -> None:
    chat = {"tstamp": 1, "type": "chat", "model": "gpt", "ip": "10.0.0.1"}
    states = [{"model_name": name, "conv_id": name} for name in ("gpt", "llama")]
    battle = {
        "tstamp": 2,
        "type": "leftvote",
        "models": ["", ""],
        "states": states,
        "ip": "10.0.0.1",
    }
    skipped, _, first = found(jsonl(tmp_path, chat, battle))
    assert isinstance(skipped, Skipped)
    assert isinstance(first, Comparison)
    assert (first.left, first.right, first.outcome) == ("gpt", "llama", "left")


@pytest.mark.parametrize("name", ["tstamp", "timestamp", "created_at", "time", "date", "at"])
def test_answers_stored_again_are_recognised_by_their_time(tmp_path: Path, name: str) -> None:
    path = tmp_path / "votes.csv"
    rows = [
        f"ann,{a},{b},{a},2026-01-01T00:00:{n:02}Z"
        for n, (a, b) in enumerate([("x", "y"), ("y", "z")])
    ]
    path.write_text("\n".join([f"rater,left,right,winner,{name}", *rows, *rows, *rows]) + "\n")
    data = read(path)
    assert data.n_comparisons == 6
    assert (data.repeats.n_rows, data.repeats.n_copied) == (6, 2)


def test_a_time_that_is_a_number_may_be_how_long_an_answer_took(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("rater,left,right,winner,time\n" + "ann,x,y,x,3.5\n" * 3)
    data = read(path)
    assert not data.repeats
    assert data.answers is not None
    assert not data.answers.dated
