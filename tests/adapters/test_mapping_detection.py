"""Which reading a file gets: by evidence from its values, in many spellings of every shape."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from bbq_plugin.data.files import inspected, opened, read
from bbq_plugin.data.mappings import UnclearError
from bbq_plugin.errors import FormatError, UnrankableError
from tests.adapters.made_votes import ITEMS, RATERS, chosen, loser, orders, table, votes

if TYPE_CHECKING:
    from pathlib import Path

    from bbq_plugin.data.dataset import Comparisons
    from bbq_plugin.data.mappings import Inspection

VOTES = votes()
ORDERS = orders()


def file(tmp_path: Path, content: str | bytes, name: str = "votes.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def look(path: Path, **given: Any) -> Inspection:
    with opened(path) as one:
        return inspected(one, str(path), given)


def as_proposed(path: Path) -> tuple[Comparisons, dict[str, Any]]:
    """The file read as the first proposal says, or at once."""
    try:
        return read(path), {}
    except UnclearError as error:
        first = error.readings[0]
        return read(path, first.adapter, **first.options), dict(first.options)


def check(data: Comparisons, *, raters: int = 4, ties: int = 0, third: bool = False) -> None:
    """The board has the votes of `VOTES`, of which every ninth may be the third value."""
    kept = [vote for i, vote in enumerate(VOTES) if not (third and i % 9 == 0)]
    expected = {item: sum(vote[2] == item for vote in kept) for item in ITEMS}
    wins = dict.fromkeys(data.items, 0.0)
    half = data.n_ties / max(1, ties) if ties else 1
    assert data.n_ties == ties
    for winner, weight in zip(data.winner.tolist(), data.weight.tolist(), strict=True):
        if weight == 1:
            wins[data.items[winner]] += 1
    assert half == 1
    assert wins == expected
    assert len(data.raters) == raters


N_THIRD = len([i for i in range(len(VOTES)) if i % 9 == 0])

#: Head and rows, and what is known about the third value: a tie, or no answer.
CHOICES: dict[str, tuple[list[str], list[list[object]], str | None]] = {
    "german": (["Bewerter", "links", "rechts", "Wahl"], chosen(("links", "rechts")), None),
    "french": (
        ["juge", "gauche", "droite", "choix"], chosen(("gauche", "droite"), third="égalité"), "tie",
    ),
    "spanish": (
        ["evaluador", "modelo_izquierda", "modelo_derecha", "preferencia"],
        chosen(("izquierda", "derecha"), third="empate"), "tie",
    ),
    "one or two": (["worker_id", "model_1", "model_2", "choice"], chosen((1, 2)), None),
    "two is a tie": (["WorkerId", "sys1", "sys2", "choice"], chosen((1, 2), third=0), "tie"),
    "index": (["participant", "option_a", "option_b", "acceptedIndex"], chosen((0, 1)), None),
    "float index": (["juror", "repo_a", "repo_b", "acceptedIndex"], chosen((0.0, 1.0)), None),
    "score of the first": (
        ["user", "player1", "player2", "score"], chosen((1, 0), third=0.5), "tie",
    ),
    "signed": (["rater_id", "sys_a", "sys_b", "result"], chosen((1, -1), third=0), "tie"),
    "letters": (["annotator", "item_a", "item_b", "answer"], chosen(("A", "B"), third="C"), "tie"),
    "same": (["labeler", "A", "B", "label"], chosen(("a", "b"), third="s"), "tie"),
    "left and right": (["observer", "image_l", "image_r", "resp"], chosen(("L", "R")), None),
    "result of a match": (
        ["referee_id", "HomeTeam", "AwayTeam", "FTR"], chosen(("H", "A"), third="D"), "tie",
    ),
    "chess": (
        ["judge", "white", "black", "result"], chosen(("1-0", "0-1"), third="1/2-1/2"), "tie",
    ),
    "flag": (["user_id", "left_item", "right_item", "left_won"], chosen((True, False)), None),
    "chinese": (
        ["标注员", "模型1", "模型2", "结果"], chosen(("左边好", "右边好"), third="一样好"), "tie",
    ),
    "numbered codes": (["proband_nr", "Bild A", "Bild B", "Wahl"], chosen(("A", "B")), None),
    "better than": (["rater", "item_a", "item_b", "a_better_than_b"], chosen((1, 0)), None),
    "a tie in the middle": (
        ["evaluator_id", "system_x", "system_y", "preference"], chosen((1, 3), third=2), "tie",
    ),
    "id of a survey": (
        ["Response ID", "Option 1", "Option 2", "Which do you prefer?"],
        chosen(("Option 1", "Option 2")), None,
    ),
    "keys of both hands": (["participant", "stimA", "stimB", "key"], chosen(("d", "k")), None),
    "a bare id": (["id", "stimA", "stimB", "choice"], chosen(("A", "B")), None),
    "from left to right": (
        ["user_id", "left_item", "right_item", "vote"], chosen((-1, 1), third=0), "tie",
    ),
    "sentences": (
        ["evaluator", "system1", "system2", "verdict"],
        chosen(("System 1 is better", "System 2 is better"), third="About the same"), "tie",
    ),
    "columns": (["judge_id", "repo_a", "repo_b", "winner"], chosen(("repo_a", "repo_b")), None),
    "corners": (
        ["judge", "R_fighter", "B_fighter", "Winner"], chosen(("Red", "Blue"), third="Draw"), "tie",
    ),
    "flag of the second": (
        ["user", "home_team", "visiting_team", "visiting_win"], chosen((0, 1)), None,
    ),
    "flag by a letter": (["judge", "redTeam", "blueTeam", "bResult"], chosen((0, 1)), None),
    "brackets": (
        ["judge", "assistant_a", "assistant_b", "verdict"],
        chosen(("[[A]]", "[[B]]"), third="[[C]]"), "tie",
    ),
    "signs": (
        ["username", "model_a", "model_b", "label"], chosen(("A>B", "B>>A"), third="A=B"), "tie",
    ),
    "keys": (["participant", "leftImage", "rightImage", "response"], chosen(("f", "j")), None),
    "prefixed": (
        ["ASSIGNMENT:worker_id", "INPUT:left", "INPUT:right", "OUTPUT:result"],
        chosen(("left", "right")), None,
    ),
    "skipped": (
        ["reviewer", "text_id_a", "text_id_b", "choice"], chosen(("A", "B"), third="skip"), "skip",
    ),
}  # fmt: skip


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", CHOICES)
def test_two_items_and_a_choice_in_any_coding(tmp_path: Path, name: str, sign: str) -> None:
    head, rows, third = CHOICES[name]
    data, _ = as_proposed(file(tmp_path, table(head, rows, sign)))
    raters = 0 if name == "result of a match" else 4
    check(data, third=third is not None, ties=N_THIRD if third == "tie" else 0, raters=raters)


@pytest.mark.parametrize(
    ("won", "lost"),
    [
        ("candidate_chosen", "candidate_not_chosen"), ("Winner Text", "Loser Text"),
        ("winner_name", "loser_name"), ("chosen", "rejected"), ("best", "worst"),
        ("WTeamID", "LTeamID"), ("Sieger", "Verlierer"), ("gagnant", "perdant"),
        ("ganador", "perdedor"),
    ],
)  # fmt: skip
def test_winner_and_loser_by_any_names(tmp_path: Path, won: str, lost: str) -> None:
    rows: list[list[object]] = [[vote[3], vote[2], loser(vote)] for vote in VOTES]
    check(as_proposed(file(tmp_path, table(["judge", won, lost], rows)))[0])


def test_the_winner_may_be_named(tmp_path: Path) -> None:
    rows: list[list[object]] = [[a, b, winner] for a, b, winner, _ in VOTES]
    data = read(file(tmp_path, table(["home_team", "away_team", "winner"], rows)))
    check(data, raters=0)


@pytest.mark.parametrize("rated", [False, True])
def test_a_file_without_a_header_is_asked_about(tmp_path: Path, rated: bool) -> None:
    rows: list[list[object]] = [[vote[2], loser(vote)] for vote in VOTES]
    if rated:
        rows = [[vote[3], *row] for vote, row in zip(VOTES, rows, strict=True)]
    path = file(tmp_path, table(None, rows))
    with pytest.raises(UnclearError, match="without a header") as caught:
        read(path)
    assert len(caught.value.readings) == 2
    check(as_proposed(path)[0], raters=4 if rated else 0)


def test_a_choice_without_a_header_counts_before_winner_and_loser(tmp_path: Path) -> None:
    check(as_proposed(file(tmp_path, table(None, chosen((1, 2)))))[0])
    rows: list[list[object]] = [[a, b, w] for a, b, w, _ in VOTES]
    assert rows[0][2] in rows[0][:2]
    check(as_proposed(file(tmp_path, table(None, rows)))[0], raters=0)


def test_a_delimiter_at_the_end_of_each_line_is_no_column(tmp_path: Path) -> None:
    rows: list[list[object]] = [[w, loser((a, b, w, who)), who, ""] for a, b, w, who in VOTES]
    check(read(file(tmp_path, table(["winner", "loser", "judge"], rows))))


def test_a_judge_by_another_name_is_a_rater_and_noted(tmp_path: Path) -> None:
    rows: list[list[object]] = [[a, b, w, f"lab/{who}", "api"] for a, b, w, who in VOTES]
    head = ["model_a", "model_b", "winner", "judge_model", "judge_platform"]
    data = read(file(tmp_path, table(head, rows)))
    check(data)
    assert any("judge_model is taken for the rater" in note for note in data.warnings)
    data = read(file(tmp_path, table([*head[:3], "session_id", "platform"], rows)))
    check(data)
    assert any("the raters are sessions (session_id)" in note for note in data.warnings)


def test_items_called_by_numbers_are_told_from_places(tmp_path: Path) -> None:
    """1 and 2 are places where the choice is often none of the two items by name."""
    code = {item: str(i) for i, item in enumerate(ITEMS[:3], 1)}
    rows: list[list[object]] = [
        [who, code[a], code[b], 1 + (w == b)] for a, b, w, who in VOTES if {a, b} <= code.keys()
    ]
    data, options = as_proposed(
        file(tmp_path, table(["user", "item_left", "item_right", "choice"], rows))
    )
    assert options["values"] == {"1": "left", "2": "right"}
    assert data.n_comparisons == len(rows)


def test_items_may_be_called_by_decimals_that_come_again(tmp_path: Path) -> None:
    lines = ["candidate_chosen,judge,candidate_not_chosen,time_taken,choice"]
    for i in range(300):
        won, lost = sorted((i % 25, (i * 7 + 3) % 25))
        if won != lost:
            side = ("left", "right", "NA")[i % 3]
            lines.append(f"{won + 20}.1,J{i % 4},{lost + 20}.1,{3 + i / 7:.3f},{side}")
    data, _ = as_proposed(file(tmp_path, "\n".join(lines)))
    assert len(data.items) == 24
    assert (
        sum(data.winner == data.items.index("20.1"))
        > 0
        == sum(data.loser == data.items.index("20.1"))
    )
    assert len(data.raters) == 4


def test_statements_that_come_again_are_items(tmp_path: Path) -> None:
    said = {item: f"the statement that {item} is a tree which people like to see " * 2
            for item in ITEMS}  # fmt: skip
    rows: list[list[object]] = [
        [who, said[w], said[loser((a, b, w, who))]] for a, b, w, who in VOTES
    ]
    data, _ = as_proposed(file(tmp_path, table(["Session ID", "Winner Text", "Loser Text"], rows)))
    assert (data.n_comparisons, len(data.items), len(data.raters)) == (len(VOTES), 5, 4)


def test_who_won_is_told_from_who_began(tmp_path: Path) -> None:
    """Both columns hold names of the two items."""
    rows: list[list[object]] = [[a, b, (a, b)[i % 2], w] for i, (a, b, w, _) in enumerate(VOTES)]
    head = ["team1", "team2", "toss_winner", "winner"]
    data, _ = as_proposed(file(tmp_path, table(head, rows)))
    check(data, raters=0)


def test_a_place_in_the_world_is_no_rank_in_the_row(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [a, b, 16 if w == a else 3, 3 if w == a else 16, 1 + i % 90, 1 + i % 7]
        for i, (a, b, w, _) in enumerate(VOTES)
    ]
    head = ["team_1", "team_2", "result_1", "result_2", "rank_1", "rank_2"]
    data, options = as_proposed(file(tmp_path, table(head, rows)))
    assert options["ranks"] == ("result_1", "result_2")
    check(data, raters=0)


def test_items_without_an_answer_are_named_as_such(tmp_path: Path) -> None:
    rows: list[list[object]] = [[i, a, b] for i, (a, b, _, _) in enumerate(VOTES)]
    with pytest.raises(UnclearError, match=r"image_a and image_b may hold .* no column clearly"):
        read(file(tmp_path, table(["pair_id", "image_a", "image_b"], rows)))


def test_several_columns_of_the_same_codes_are_not_guessed_at(tmp_path: Path) -> None:
    """They may be people, or questions."""
    rows: list[list[object]] = [
        [a, b, 1 + (w == b), 1 + (w == b), 1 + (w == a)] for a, b, w, _ in VOTES
    ]
    path = file(tmp_path, table(["model_1", "model_2", "alice", "bob", "carol"], rows))
    with pytest.raises(
        UnclearError, match=r"several raters .* or the answers to several"
    ) as caught:
        read(path)
    assert not caught.value.readings


def test_a_number_above_numbers_is_no_header(tmp_path: Path) -> None:
    code = {item: i for i, item in enumerate(ITEMS)}
    rows: list[list[object]] = [[code[vote[2]], code[loser(vote)]] for vote in VOTES]
    data, options = as_proposed(file(tmp_path, table(None, rows)))
    assert options["header"] is False
    assert data.n_comparisons == len(VOTES)


def test_scores_are_better_when_higher_and_ranks_when_lower(tmp_path: Path) -> None:
    scored: list[list[object]] = [
        [a, b, 3 if w == a else 1, 1 if w == a else 3] for a, b, w, _ in VOTES
    ]
    data, options = as_proposed(
        file(tmp_path, table(["home", "away", "home_score", "away_score"], scored))
    )
    check(data, raters=0)
    assert options["higher"] == "better"
    ranked: list[list[object]] = [
        [who, a, b, 1 if w == a else 2, 2 if w == a else 1] for a, b, w, who in VOTES
    ]
    head = ["judgeID", "system1Id", "system2Id", "system1rank", "system2rank"]
    data, options = as_proposed(file(tmp_path, table(head, ranked)))
    check(data)
    assert options["lower"] == "better"


def test_ranks_of_0_are_not_guessed_at(tmp_path: Path) -> None:
    rows: list[list[object]] = [[a, b, int(w == b), int(w == a)] for a, b, w, _ in VOTES]
    path = file(tmp_path, table(["sys1", "sys2", "rank1", "rank2"], rows))
    with pytest.raises(UnclearError, match="rank1 holds 0, and ranks count from 1") as caught:
        read(path)
    assert not caught.value.readings


def test_a_column_that_the_items_decide_is_no_answer(tmp_path: Path) -> None:
    """Where `ours` stands is told beside who won."""
    rows = [
        {
            "user_id": RATERS[i % 4], "left_model": a, "right_model": b,
            "ours_side": "left" if a == "ours" else "right", "choice": said,
        }
        for i in range(40)
        for a, b in [("ours", "base") if i % 2 else ("base", "ours")]
        for said in ["tie" if i % 10 == 0 else "left" if i % 3 else "right"]
    ]  # fmt: skip
    text = "".join(json.dumps(row) + "\n" for row in rows)
    data = read(file(tmp_path, text, "votes.jsonl"))
    assert (data.n_comparisons, data.n_ties, len(data.raters)) == (40, 4, 4)


# -- more than two items


def test_ranks_and_names_of_a_ranking(tmp_path: Path) -> None:
    n = len(ORDERS)
    ranks: list[list[object]] = [
        [i, *(order.index(item) + 1 for item in ITEMS)] for i, order in enumerate(ORDERS)
    ]
    by_item, options = as_proposed(file(tmp_path, table(["id", *ITEMS], ranks)))
    assert options["ranks"] == ITEMS
    names: list[list[object]] = [[f"v{i}", *order] for i, order in enumerate(ORDERS)]
    head = ["Voter", *(f"{place} Choice" for place in ("1st", "2nd", "3rd", "4th", "5th"))]
    by_rank, _ = as_proposed(file(tmp_path, table(head, names)))
    text: list[list[object]] = [[f"v{i}", " > ".join(order)] for i, order in enumerate(ORDERS)]
    in_one, _ = as_proposed(file(tmp_path, table(["voter", "ranking"], text)))
    lines = "".join(json.dumps({"items": list(ITEMS), "ranks": row[1:]}) + "\n" for row in ranks)
    in_lists, _ = as_proposed(file(tmp_path, lines, "votes.jsonl"))
    boards = []
    for data in (by_item, by_rank, in_one, in_lists):
        assert data.n_comparisons == 10 * n
        wins = dict.fromkeys(data.items, 0)
        for winner in data.winner.tolist():
            wins[data.items[winner]] += 1
        boards.append(wins)
    assert all(board == boards[0] for board in boards)
    assert max(boards[0], key=boards[0].__getitem__) == "oak"


def test_ranks_may_be_written_as_places(tmp_path: Path) -> None:
    place = ("1st choice", "2nd choice", "3rd choice", "4th choice", "5th choice")
    rows: list[list[object]] = [
        ["2024/01/02 3:04:05 PM", *(place[order.index(item)] for item in ITEMS)] for order in ORDERS
    ]
    head = ["Timestamp", *(f"Rank them [{item}]" for item in ITEMS)]
    data, options = as_proposed(file(tmp_path, table(head, rows)))
    assert options["lower"] == "better"
    assert data.n_comparisons == 10 * len(ORDERS)


def test_ballots_with_gaps_rank_the_named_above_the_others(tmp_path: Path) -> None:
    rows: list[list[object]] = []
    for i, order in enumerate(ORDERS):
        named = order[: 1 + i % 3]
        rows.append([f"P-{i % 7}", *named, *["undervote"] * (3 - len(named))])
    head = ["Precinct", "1ST CHOICE MAYOR", "2ND CHOICE MAYOR", "3RD CHOICE MAYOR"]
    data, options = as_proposed(file(tmp_path, table(head, rows)))
    assert options["values"] == {"undervote": "skip"}
    assert options["unranked"] == "below"
    pairs = (4, 3 + 4, 2 + 3 + 4)
    assert data.n_comparisons == sum(pairs[i % 3] for i in range(len(ORDERS)))
    assert set(data.items) == set(ITEMS)


def test_one_of_a_list_of_choices_is_the_winner(tmp_path: Path) -> None:
    text = "".join(
        json.dumps({"options": [{"id": a}, {"id": b}], "accept": [w], "_annotator_id": who}) + "\n"
        for a, b, w, who in VOTES
    )
    check(as_proposed(file(tmp_path, text, "votes.jsonl"))[0])


def test_a_slate_with_ties_keeps_them(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [RATERS[i % 4], *order[:3], 1, 1, 2] for i, order in enumerate(ORDERS)
    ]
    head = [
        "WorkerId",
        "Input.sys1",
        "Input.sys2",
        "Input.sys3",
        *(f"Answer.rank{i}" for i in (1, 2, 3)),
    ]
    data, _ = as_proposed(file(tmp_path, table(head, rows)))
    assert (data.n_comparisons, data.n_ties) == (3 * len(ORDERS), len(ORDERS))


@pytest.mark.parametrize("listed", ["all", "others", "index"])
def test_the_best_beats_all_and_all_beat_the_worst(tmp_path: Path, listed: str) -> None:
    rows: list[list[object]] = []
    for i, order in enumerate(ORDERS):
        shown = sorted(order[:4])
        best, worst = order[0], order[3]
        if listed == "others":
            rows.append(
                [RATERS[i % 4], *(one for one in shown if one not in (best, worst)), best, worst]
            )
        elif listed == "index":
            rows.append([RATERS[i % 4], *shown, shown.index(best) + 1, shown.index(worst) + 1])
        else:
            rows.append([RATERS[i % 4], *shown, best, worst])
    n = 2 if listed == "others" else 4
    head = ["annotator", *(f"option{i}" for i in range(1, n + 1)), "best", "worst"]
    data, options = as_proposed(file(tmp_path, table(head, rows)))
    assert {"items", "best", "worst"} <= options.keys()
    assert data.n_comparisons == 5 * len(ORDERS)


def test_every_annotator_is_a_column(tmp_path: Path) -> None:
    rows = [[f"{a}_{b}", *((1, 2)[w == b] for _ in range(3))] for a, b, w, _ in VOTES]
    head = ["cmp_key", "annotator1", "annotator2", "annotator3"]
    data, options = as_proposed(file(tmp_path, table(head, rows)))  # type: ignore[arg-type]
    assert (options["items"], options["between"]) == (("cmp_key",), "_")
    assert data.raters == ("annotator1", "annotator2", "annotator3")
    assert data.n_comparisons == 3 * len(VOTES)


def test_matrices_and_counts(tmp_path: Path) -> None:
    wins = {(a, b): 0 for a in ITEMS for b in ITEMS}
    for vote in VOTES:
        wins[vote[2], loser(vote)] += 1
    square = [[a, *(wins[a, b] for b in ITEMS)] for a in ITEMS]
    check(as_proposed(file(tmp_path, table(["", *ITEMS], square)))[0], raters=0)
    # Rows go by their names, not by their order.
    turned = file(tmp_path, table(["", *ITEMS], square[::-1]))
    check(as_proposed(turned)[0], raters=0)
    numbered = [[i, *row[1:]] for i, row in enumerate(square)]
    data, _ = as_proposed(file(tmp_path, table(["item", *map(str, range(5))], numbered)))
    assert data.n_comparisons == len(VOTES)
    bare = [row[1:] for row in square]
    check(as_proposed(file(tmp_path, table(list(ITEMS), bare)))[0], raters=0)
    counts: list[list[object]] = [
        [a, b, wins[a, b], wins[b, a]] for i, a in enumerate(ITEMS) for b in ITEMS[i + 1 :]
    ]
    for head in (["left", "right", "wins_left", "wins_right"], ["item1", "item2", "n1", "n2"]):
        check(as_proposed(file(tmp_path, table(head, counts)))[0], raters=0)


# -- names, rows and documents


def test_names_over_two_columns_are_composed(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [
            RATERS[i % 4],
            "jpeg" if i % 2 else "blur",
            1 + i % 4,
            "jpeg" if i % 3 else "blur",
            1 + (i + 1) % 4,
            1 + i % 2,
        ]
        for i in range(120)
    ]
    head = ["observer", "dist_type1", "dist_level1", "dist_type2", "dist_level2", "choice"]
    data, options = as_proposed(file(tmp_path, table(head, rows)))
    assert options["items"] == ("dist_type1+dist_level1", "dist_type2+dist_level2")
    assert (data.n_comparisons, len(data.items)) == (120, 8)


def test_trials_among_other_rows_are_found(tmp_path: Path) -> None:
    rows: list[list[object]] = []
    for i, (a, b, w, who) in enumerate(VOTES):
        if i % 10 == 0:
            rows.append(["instructions", 1200, "", "", "", who])
        rows.append(["comparison", 900, a, b, int(w == b), who])
    head = ["trial_type", "rt", "stim_left", "stim_right", "response", "subject"]
    data, options = as_proposed(file(tmp_path, table(head, rows)))
    assert options["rows"] == {"trial_type": "comparison"}
    check(data)


def test_checks_of_attention_are_left_out(tmp_path: Path) -> None:
    rows: list[list[object]] = [["main", *row] for row in chosen((1, 2))]
    rows += [["vigilance", "ann", "_broken", "oak", 2]] * 12
    head = ["kind", "worker", "model_a", "model_b", "choice"]
    data, options = as_proposed(file(tmp_path, table(head, rows)))
    assert options["rows"] == {"kind": "main"}
    check(data)


def test_rows_are_found_inside_a_document(tmp_path: Path) -> None:
    inside = [
        {"judge": who, "left": {"model": a, "text": "x" * 90},
         "right": {"model": b, "text": "y" * 90}, "preferred": "left" if w == a else "right"}
        for a, b, w, who in VOTES
    ]  # fmt: skip
    for indent in (None, 1):
        text = json.dumps({"meta": {"version": 1}, "study": {"votes": inside}}, indent=indent)
        check(as_proposed(file(tmp_path, text, "votes.json"))[0])


def test_lists_columns_and_pairs_of_json_are_rows(tmp_path: Path) -> None:
    pairs = json.dumps([[vote[2], loser(vote)] for vote in VOTES])
    check(as_proposed(file(tmp_path, pairs, "pairs.json"))[0], raters=0)
    cycle = file(tmp_path, '{"n_items": 3, "data": [[0, 1], [1, 2], [2, 0]]}', "cycle.json")
    assert as_proposed(cycle)[0].n_comparisons == 3
    columns = {"model_a": 0, "model_b": 1, "judge": 3}
    frame: dict[str, Any] = {
        c: {str(i): v[k] for i, v in enumerate(VOTES)} for c, k in columns.items()
    }
    frame["winner"] = {
        str(i): "model_a" if v[2] == v[0] else "model_b" for i, v in enumerate(VOTES)
    }
    check(as_proposed(file(tmp_path, json.dumps(frame), "frame.json"))[0])
    both = "".join(
        json.dumps({"models": [a, b], "choice": "AB"[w == b], "user": who}) + "\n"
        for a, b, w, who in VOTES
    )
    check(as_proposed(file(tmp_path, both, "both.jsonl"))[0])


# -- no votes


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("user,movie,rating\nann,oak,4\nbob,elm,2\nann,fir,5\n", "a table of 3 rows and 3 columns"),
        ("just a text\nwith some lines\n", "text"),
        ('{"name": "x", "scripts": {"a": "b"}}', "no two columns"),
        ('{\n "name": "x",\n "scripts": {"a": "b"}\n}', "a JSON document without a list of rows"),
        ('[Event "x"]\n1. e4 e5 1-0\n', "chess"),
        ("<!DOCTYPE html><html></html>", "HTML"),
        (b"%PDF-1.7 \xe2\xe3", "PDF"),
        (b"\x00\x01\x02\x03" * 20, "binary"),
    ],
)
def test_a_file_without_votes_is_refused_with_what_it_is(
    tmp_path: Path, content: str | bytes, says: str
) -> None:
    with pytest.raises(FormatError, match=says) as caught:
        read(file(tmp_path, content, "file"))
    assert not getattr(caught.value, "readings", ())


def test_texts_without_names_are_refused(tmp_path: Path) -> None:
    rows = [{"chosen": f"answer {i} " * 20, "rejected": f"other {i} " * 20} for i in range(40)]
    path = file(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "pairs.jsonl")
    with pytest.raises(UnclearError, match="hold texts, and hardly any comes twice") as caught:
        read(path)
    assert not caught.value.readings


def test_named_models_beside_texts_are_the_items(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [f"answer {i} " * 20, f"other {i} " * 20, vote[2], loser(vote)]
        for i, vote in enumerate(VOTES)
    ]
    head = ["chosen", "rejected", "chosen_model", "rejected_model"]
    check(as_proposed(file(tmp_path, table(head, rows)))[0], raters=0)


# -- what is said already


def test_readings_agree_with_what_is_given(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [*row, "A" if i % 2 else "B"] for i, row in enumerate(chosen((1, 2)))
    ]
    path = file(tmp_path, table(["worker", "m1", "m2", "fluency_choice", "overall_choice"], rows))
    found = look(path, winner="overall_choice")
    assert found.readings
    assert {one.options["winner"] for one in found.readings} == {"overall_choice"}
    assert not look(path, winner="worker").readings


def test_a_wide_column_of_weights_is_not_taken_for_one(tmp_path: Path) -> None:
    rows: list[list[object]] = [[*row, 10 ** (i % 4)] for i, row in enumerate(chosen((1, 2)))]
    path = file(tmp_path, table(["juror", "repo_a", "repo_b", "choice", "multiplier"], rows))
    first = look(path).readings[0]
    assert "weight" not in first.options
    assert any("multiplier is not used as a weight" in doubt for doubt in first.doubts)


def test_the_number_of_a_place_or_a_round_is_no_choice(tmp_path: Path) -> None:
    """A column of 1 and 2 that is not called a choice may stand for anything."""
    rows: list[list[object]] = [
        [a, b, 1 + i % 2, ("mon", "tue", "wed")[i % 3]] for i, (a, b, _, _) in enumerate(VOTES)
    ]
    path = file(tmp_path, table(["team_a", "team_b", "court", "day"], rows))
    assert not look(path).readings
    empty = [[*row, ""] for row in rows]
    path = file(tmp_path, table(["team_a", "team_b", "court", "day", "winner"], empty))
    assert "winner is empty" in look(path).problem


def test_a_group_of_people_is_no_choice(tmp_path: Path) -> None:
    """A and B of a column that is not called a choice are beside one that is."""
    rows: list[list[object]] = [
        [a, b, "AB"[i // 3 % 2], "AB"[w == b]] for i, (a, b, w, _) in enumerate(VOTES)
    ]
    path = file(tmp_path, table(["model_1", "model_2", "version", "preferred"], rows))
    data, options = as_proposed(path)
    assert options.get("winner", "preferred") == "preferred"
    check(data, raters=0)


def test_the_answer_and_what_was_to_be_said_are_no_pair_of_items(tmp_path: Path) -> None:
    """Two columns of the same words that often agree hold no two items."""
    rows: list[list[object]] = [
        [who, ("hold", "shift")[i % 2], ("hold", "shift")[i % 2 if i % 3 else i // 2 % 2], i % 3]
        for i, (_, _, _, who) in enumerate(VOTES)
    ]
    path = file(tmp_path, table(["participant", "event_type", "said", "choice"], rows))
    assert not look(path).readings


def test_two_numbers_that_count_from_0_are_points(tmp_path: Path) -> None:
    """Whatever they are called; numbers from 1 on may as well be ranks."""
    rows: list[list[object]] = [
        [a, b, 3 if w == a else i % 3, 3 if w == b else i % 3]
        for i, (a, b, w, _) in enumerate(VOTES)
    ]
    path = file(tmp_path, table(["id1", "id2", "k1", "k2"], rows))
    data, options = as_proposed(path)
    assert options["higher"] == "better"
    check(data, raters=0)
    later: list[list[object]] = [[a, b, int(str(k)) + 1, int(str(n)) + 1] for a, b, k, n in rows]
    path = file(tmp_path, table(["id1", "id2", "k1", "k2"], later))
    assert not look(path).readings


def test_items_with_numbers_for_names_are_found_by_their_winner(tmp_path: Path) -> None:
    """Each value of the winner is one of the two, and of no other pair of columns."""
    number = {item: 101 + i for i, item in enumerate(ITEMS)}
    rows: list[list[object]] = [
        [i, number[a], number[b], 200 + number[a], 200 + number[b], number[w]]
        for i, (a, b, w, _) in enumerate(VOTES)
    ]
    head = ["match_ID", "player1_ID", "player2_ID", "player1_deck_ID", "player2_deck_ID", "won_ID"]
    data, _ = as_proposed(file(tmp_path, table(head, rows)))
    assert set(data.items) == {str(n) for n in number.values()}
    wins = sum(data.items[w] == "101" for w in data.winner.tolist())
    assert wins == sum(vote[2] == ITEMS[0] for vote in VOTES)


def test_a_number_of_wins_for_each_order_of_a_pair(tmp_path: Path) -> None:
    beaten = {(a, b): 0 for a in ITEMS for b in ITEMS if a != b}
    for vote in VOTES:
        beaten[vote[2], loser(vote)] += 1
    rows: list[list[object]] = [[a, b, n] for (a, b), n in beaten.items() if n]
    data, _ = as_proposed(file(tmp_path, table(["Candidate_1", "Candidate_2", "Wins"], rows)))
    assert data.weight.sum() == len(VOTES)
    first = sum(
        n for w, n in zip(data.winner.tolist(), data.weight.tolist(), strict=True)
        if data.items[w] == ITEMS[0]
    )  # fmt: skip
    assert first == sum(vote[2] == ITEMS[0] for vote in VOTES)


@pytest.mark.parametrize("head", [["0", "1", "2", "3", "4"], ["1st", "2nd", "3rd", "4th", "5th"]])
def test_columns_named_by_the_place_alone_are_a_ranking(tmp_path: Path, head: list[str]) -> None:
    data, options = as_proposed(file(tmp_path, table(head, ORDERS)))  # type: ignore[arg-type]
    assert options["ranking"] == tuple(head)
    assert data.n_comparisons == 10 * len(ORDERS)


def test_ballots_without_a_header_may_end_early(tmp_path: Path) -> None:
    ballots = [order[: 1 + i % 4] for i, order in enumerate(ORDERS)]
    path = file(tmp_path, "\n".join(", ".join(ballot) for ballot in ballots))
    data, options = as_proposed(path)
    assert options["header"] is False
    full = [(*ballot, *(item for item in ITEMS if item not in ballot)) for ballot in ballots]
    pairs = [
        (a, b)
        for ballot, order in zip(ballots, full, strict=True)
        for i, a in enumerate(ballot)
        for b in order[i + 1 :]
    ]
    assert data.n_comparisons == len(pairs)
    # Said otherwise, a ballot of one name says nothing.
    named = read(path, "table", **{key: v for key, v in options.items() if key != "unranked"})
    assert named.skip_reasons == {"only one item is ranked": sum(len(b) == 1 for b in ballots)}
    for w, lost in zip(data.winner.tolist(), data.loser.tolist(), strict=True):
        assert (data.items[w], data.items[lost]) in pairs


def test_the_first_of_two_may_go_without_its_number(tmp_path: Path) -> None:
    head = ["Which did you like the most?", "Which did you like the second most?"]
    firsts: list[list[object]] = [list(order[:2]) for order in ORDERS]
    data, options = as_proposed(file(tmp_path, table(head, firsts)))
    assert options["ranking"] == tuple(head)
    assert data.n_comparisons == len(ORDERS)
    rows: list[list[object]] = [[a, b, w] for a, b, w, _ in VOTES]
    data, _ = as_proposed(file(tmp_path, table(["name", "name.1", "winner"], rows)))
    check(data, raters=0)


def test_a_header_without_rows_is_said_to_be_one(tmp_path: Path) -> None:
    path = file(tmp_path, "user1,user2,winner\n")
    assert "no rows below" in look(path).problem


def test_a_winner_that_is_empty_in_a_tie_does_not_lose_the_ties(tmp_path: Path) -> None:
    """Where two columns say the same, the one that knows ties counts."""
    rows: list[list[object]] = [
        [who, a, b, "tie" if i % 9 == 0 else "ab"[w == b], "" if i % 9 == 0 else w]
        for i, (a, b, w, who) in enumerate(VOTES)
    ]
    path = file(tmp_path, table(["rater", "shown_a", "shown_b", "pick", "winner"], rows))
    data, _ = as_proposed(path)
    check(data, ties=N_THIRD, third=True)
    toss: list[list[object]] = [[*row[:3], row[4], row[1 + i % 2]] for i, row in enumerate(rows)]
    path = file(tmp_path, table(["rater", "team1", "team2", "winner", "toss_winner"], toss))
    _, options = as_proposed(path)
    assert options["winner"] == "winner"


def test_what_is_known_of_each_item_is_not_its_name(tmp_path: Path) -> None:
    """Age and stance of two fighters, and marks for each, are no items and no choices."""
    stance = dict(zip(ITEMS, ("left", "open", "open", "left", "high"), strict=True))
    age = {item: 20 + i for i, item in enumerate(ITEMS)}
    rows: list[list[object]] = [
        [a, b, ("Red", "Blue")[w == b], stance[a], stance[b], age[a], age[b], a < "f", b < "f"]
        for a, b, w, _ in VOTES
    ]
    head = ["R_fighter", "B_fighter", "Winner", "R_Stance", "B_Stance", "R_age", "B_age"]
    path = file(tmp_path, table([*head, "is_R_safe", "is_B_safe"], rows))
    data, _ = as_proposed(path)
    check(data, raters=0)


def test_the_questions_below_the_header_of_a_survey_are_no_rows(tmp_path: Path) -> None:
    """Qualtrics writes each question and its id into rows of their own."""
    head = ["ResponseId", "system_left", "system_right", "Q1"]
    top: list[list[object]] = [
        ["Response ID", "system_left", "system_right", "Which one do you prefer?"],
        [f'{{"ImportId":"QID{i}"}}' for i in range(4)],
    ]
    rows: list[list[object]] = [
        [f"R_{i}", a, b, ("Left", "Right")[w == b]] for i, (a, b, w, _) in enumerate(VOTES)
    ]
    data, _ = as_proposed(file(tmp_path, table(head, [*top, *rows])))
    check(data, raters=0)


@pytest.mark.parametrize(
    ("head", "codes", "third"),
    [
        (["annotator", "sys_a", "sys_b", "gsb"], ("G", "B"), "S"),
        (["Bewerter", "Variante A", "Variante B", "Urteil"], ("A besser", "B besser"), "gleich"),
        (["subject", "stimA", "stimB", "resp"], ("A", "B"), None),
        (["human_id", "model_1", "model_2", "human_label"], (1, 2), None),
    ],
)
def test_more_names_of_choices_and_their_codes(
    tmp_path: Path, head: list[str], codes: tuple[object, object], third: object
) -> None:
    path = file(tmp_path, table(head, chosen(codes, third=third)))
    data, _ = as_proposed(path)
    check(data, ties=N_THIRD if third else 0, third=third is not None)


def test_what_was_expected_is_no_answer(tmp_path: Path) -> None:
    """A predicted winner is not who won, and a mark of likeness is no choice."""
    rows: list[list[object]] = [[a, b, w] for a, b, w, _ in VOTES]
    path = file(tmp_path, table(["home_team", "away_team", "pred_winner"], rows))
    assert not look(path).readings
    assert "no column clearly says who won" in look(path).problem
    alike: list[list[object]] = [[a, b, int(w == a)] for a, b, w, _ in VOTES]
    path = file(tmp_path, table(["q1_name", "q2_name", "is_duplicate"], alike))
    assert not look(path).readings


def test_people_in_numbered_columns_count_before_their_majority(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [a, b, *("AB"[w == b] for _ in range(3)), "AB"[w == b]] for a, b, w, _ in VOTES
    ]
    head = ["sysA", "sysB", "ann_1", "ann_2", "ann_3", "majority"]
    data, options = as_proposed(file(tmp_path, table(head, rows)))
    assert options["raters"] == ("ann_1", "ann_2", "ann_3")
    assert data.n_comparisons == 3 * len(VOTES)


def test_three_judges_with_numbers_are_raters(tmp_path: Path) -> None:
    rows: list[list[object]] = [[1 + i % 3, vote[2], loser(vote)] for i, vote in enumerate(VOTES)]
    data, _ = as_proposed(
        file(tmp_path, table(["judge", "candidate_chosen", "candidate_not_chosen"], rows))
    )
    check(data, raters=3)
    numbered: list[list[object]] = [
        [1 + i % 2, a, b, "AB"[w == b]] for i, (a, b, w, _) in enumerate(VOTES)
    ]
    path = file(tmp_path, table(["judge_id", "model_1", "model_2", "preferred"], numbered))
    check(as_proposed(path)[0], raters=2)


def test_whether_two_are_alike_is_no_choice(tmp_path: Path) -> None:
    rows: list[list[object]] = [[a, b, ("yes", "no")[w == b], who] for a, b, w, who in VOTES]
    for name in ("same_author", "flagged"):
        path = file(tmp_path, table(["name_a", "name_b", name, "annotator"], rows))
        assert not look(path).readings


def test_marks_of_two_users_are_not_the_choices_of_raters(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [a, b, int(a < "f"), int(b < "f"), ("userA", "userB")[w == b]] for a, b, w, _ in VOTES
    ]
    head = ["userA", "userB", "userA_pro", "userB_pro", "outcome"]
    data, options = as_proposed(file(tmp_path, table(head, rows)))
    assert "raters" not in options
    check(data, raters=0)


@pytest.mark.parametrize(
    ("column", "straight", "turned"),
    [
        ("swapped", "False", "True"),
        ("is_swapped", "0", "1"),
        ("flipped", "no", "yes"),
        ("order", "AB", "BA"),
        ("presentation", "ab", "ba"),
    ],
)
@pytest.mark.parametrize("words", [("left", "right"), ("first", "second"), ("model_a", "model_b")])
@pytest.mark.parametrize("choice", ["shown_choice", "winner"])
def test_sides_that_were_shown_swapped_are_asked_about(
    tmp_path: Path, column: str, straight: str, turned: str, words: tuple[str, str], choice: str
) -> None:
    rows = []
    for i, (rater, a, b, side) in enumerate(chosen(words)):
        rows.append([rater, a, b, turned if i % 2 else straight, side])
    path = file(tmp_path, table(["rater", "model_a", "model_b", column, choice], rows))
    with pytest.raises(UnclearError) as refused:
        read(path)
    said = [str(refused.value), *(doubt for one in refused.value.readings for doubt in one.doubts)]
    assert any(f"{column} says where the two" in one for one in said)
    # A place may be that shown; the name of a column is an item, wherever it stood.
    proposed = [one.options["winner"] for one in refused.value.readings[:1]]
    assert proposed == ([choice] if words[0] == "model_a" else [])


@pytest.mark.parametrize(
    ("column", "words", "places"),
    [
        ("a_position", ("left", "right"), ("left", "right")),
        ("system_side", ("L", "R"), ("L", "R")),
        ("left_is", ("left", "right"), ("A", "B")),
        ("a_on_left", ("left", "right"), (0, 1)),
        ("counterbalance", ("first", "second"), (1, 2)),
        ("presentation_order", ("first", "second"), ("A,B", "B,A")),
    ],
)
def test_where_an_item_stood_is_asked_about(
    tmp_path: Path, column: str, words: tuple[str, str], places: tuple[object, object]
) -> None:
    rows = [[*row, places[i * 7 // 3 % 2]] for i, row in enumerate(chosen(words))]
    path = file(tmp_path, table(["rater", "item_a", "item_b", "choice", column], rows))
    with pytest.raises(UnclearError, match=f"{column} says where") as refused:
        read(path)
    assert not refused.value.readings


@pytest.mark.parametrize(
    ("column", "good", "bad"),
    [
        ("phase", "main", "practice"),
        ("status", "active", "deleted"),
        ("valid", "true", "false"),
        ("excluded", 0, 1),
        ("is_test", "False", "True"),
        ("action", "vote", "undo"),
    ],
)
@pytest.mark.parametrize("names", ["model_a,model_b,winner", "left,right,winner", "condition_A"])
def test_rows_that_do_not_count_are_asked_about(
    tmp_path: Path, column: str, good: object, bad: object, names: str
) -> None:
    head = ["condition_A", "condition_B", "selected"] if "," not in names else names.split(",")
    words = (
        (1, 2)
        if "," not in names
        else ("model_a", "model_b")
        if "model" in names
        else ("left", "right")
    )
    rows = [[*row[1:], row[0], good] for row in chosen(words)]
    rows += [[*row[1:], row[0], bad] for row in chosen(words[::-1])][:20]
    data, options = as_proposed(file(tmp_path, table([*head, "observer", column], rows)))
    assert options["rows"] == {column: str(good)}
    check(data)


@pytest.mark.parametrize("column", ["votes", "n", "times", "num_wins"])
@pytest.mark.parametrize("head", [["left", "right", "winner"], ["winner", "loser"]])
def test_how_many_answers_a_row_stands_for_is_asked(
    tmp_path: Path, column: str, head: list[str]
) -> None:
    rows = [
        [*((v[2], loser(v)) if len(head) == 2 else v[:3]), 1 + i * i % 5]
        for i, v in enumerate(VOTES)
    ]
    data, options = as_proposed(file(tmp_path, table([*head, column], rows)))
    assert options["weight"] == column
    assert data.weight.sum() == sum(1 + i * i % 5 for i in range(len(VOTES)))


def test_a_winner_beside_the_counts_of_both_is_not_one_vote(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [a, b, 3 if w == a else 1, 1 if w == a else 3, w] for a, b, w, _ in VOTES
    ]
    path = file(tmp_path, table(["model_a", "model_b", "votes_a", "votes_b", "winner"], rows))
    with pytest.raises(UnclearError, match="votes_a, votes_b count the answers of a row"):
        read(path)
    check_wins = read(path, "table", left="model_a", right="model_b", wins="votes_a,votes_b")
    assert check_wins.weight.sum() == 4 * len(VOTES)


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("draw", (0, 1), "says which rows are ties"),
        ("is_tie", ("false", "true"), "says which rows are ties"),
        ("result", ("win", "draw"), "says which rows are ties"),
        ("criterion", ("speed", "looks"), "says what was asked"),
        ("question", ("clarity", "accuracy"), "says what was asked"),
        ("prompt", ("Which is better?", "Which is worse?"), "says what was asked"),
    ],
)
@pytest.mark.parametrize("head", [["left", "right", "winner"], ["winner", "loser", "user"]])
def test_a_column_that_changes_what_answers_mean_is_asked_about(
    tmp_path: Path, column: str, values: tuple[object, object], said: str, head: list[str]
) -> None:
    rows = [
        [*((v[2], loser(v), v[3]) if "loser" in head else v[:3]), values[i // 4 % 2]]
        for i, v in enumerate(VOTES)
    ]
    path = file(tmp_path, table([*head, column], rows))
    with pytest.raises(UnclearError, match=said) as refused:
        read(path)
    assert not refused.value.readings


def test_minus_one_is_no_side(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [v[0], v[1], -1 if i % 5 == 0 else 1 if v[2] == v[0] else 2] for i, v in enumerate(VOTES)
    ]
    path = file(tmp_path, table(["bot_a", "bot_b", "winner"], rows))
    with pytest.raises(UnclearError, match="not certain") as refused:
        read(path)
    first, *_ = refused.value.readings
    assert first.options["values"] == {"1": "left", "2": "right", "-1": "skip"}


def test_lists_of_what_was_liked_are_no_questions(tmp_path: Path) -> None:
    liked = ('["overall: warm"]', '["quality: high"]')
    rows: list[list[object]] = [
        [v[2], loser(v), v[3], liked[i // 4 % 2]] for i, v in enumerate(VOTES)
    ]
    path = file(tmp_path, table(["winner", "loser", "user", "liked"], rows))
    assert read(path).weight.sum() == len(VOTES)


def test_two_columns_of_choices_that_differ_are_asked_about(tmp_path: Path) -> None:
    rows = [[*row, "BA"[i // 5 % 2]] for i, row in enumerate(chosen(("model_a", "model_b")))]
    path = file(tmp_path, table(["judge", "model_a", "model_b", "winner", "human_choice"], rows))
    with pytest.raises(UnclearError, match="winner and human_choice both may say who won"):
        read(path)


def test_names_of_columns_that_come_again_are_no_answer(tmp_path: Path) -> None:
    text = table(["winner", "loser", "user"], [[v[2], loser(v), v[3]] for v in VOTES])
    path = file(tmp_path, text + text)
    data, _ = as_proposed(path)
    assert (len(data.items), data.n_comparisons) == (len(ITEMS), 2 * len(VOTES))
    assert [one.reason for one in data.skipped] == ["repeats the names of the columns"]


@pytest.mark.parametrize(
    ("low", "high", "corner"), [(100, 9000, "model"), (1, 9, "from"), (0, 1, "node")]
)
def test_a_square_table_of_something_else_is_not_proposed(
    tmp_path: Path, low: int, high: int, corner: str
) -> None:
    spread = high - low + 1
    cells = [
        [a, *(0 if a == b else low + 7 * i * j % spread for j, b in enumerate(ITEMS))]
        for i, a in enumerate(ITEMS, 1)
    ]
    path = file(tmp_path, table([corner, *ITEMS], cells))
    assert "square table of numbers" in look(path).problem
    assert not look(path).readings
    assert read(path, "table", matrix="row").n_comparisons


@pytest.mark.parametrize("name", ["errors", "fouls", "error_score"])
def test_less_of_a_fault_is_not_taken_for_a_worse_score(tmp_path: Path, name: str) -> None:
    rows = [[a, b, 3 + i % 4, i % 5] for i, (a, b, *_) in enumerate(VOTES)]
    path = file(tmp_path, table(["item_a", "item_b", f"{name}_a", f"{name}_b"], rows))
    assert not look(path).readings


def test_a_number_that_may_stand_for_no_score_is_named(tmp_path: Path) -> None:
    rows = [
        [a, b, 1 + i % 4, -1 if i % 7 == 0 else 1 + i % 5] for i, (a, b, *_) in enumerate(VOTES)
    ]
    path = file(tmp_path, table(["item_a", "item_b", "score_a", "score_b"], rows))
    assert "-1 in score_a or score_b may stand for no answer" in look(path).problem


def test_names_that_a_ballot_leaves_out_are_asked_about(tmp_path: Path) -> None:
    rows: list[list[object]] = [[*order[:2], ""] for order in ORDERS]
    rows.append(["oak", "elm", "ash"])
    path = file(tmp_path, table(["rank1", "rank2", "rank3"], rows))
    below, listed = (one.options for one in look(path).readings[:2])
    assert below == {**listed, "unranked": "below"}
    every = {name for row in rows for name in row if name}
    assert read(path, "table", **listed).n_comparisons == len(ORDERS) + 3
    pairs = len(ORDERS) * (1 + 2 * (len(every) - 2)) + 3 + 3 * (len(every) - 3)
    assert read(path, "table", **below).n_comparisons == pairs


@pytest.mark.parametrize("name", ["time", "kickoff", "slot"])
def test_the_time_of_day_is_no_score(tmp_path: Path, name: str) -> None:
    rows: list[list[object]] = [
        [a, b, f"{10 + i % 9}:{5 * i % 60:02}"] for i, (a, b, *_) in enumerate(VOTES)
    ]
    assert not look(file(tmp_path, table(["home", "away", name], rows))).readings


def test_numbered_winners_are_those_of_several_raters(tmp_path: Path) -> None:
    names = ("model_1", "model_2")
    rows = [
        [a, b, *(names[(w == b) != (i % 7 == rater)] for rater in range(3))]
        for i, (a, b, w, _) in enumerate(VOTES)
    ]
    head: list[str] = [*names, "winner1", "winner2", "winner3"]
    data, options = as_proposed(file(tmp_path, table(head, [[*row] for row in rows])))
    assert options["raters"] == ("winner1", "winner2", "winner3")
    assert data.n_comparisons == 3 * len(VOTES)


def test_the_practice_loop_of_psychopy_is_left_out(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [a, b, "", i, side, who] for i, (who, a, b, side) in enumerate(chosen(("left", "right")))
    ]
    rows += [[*row[:2], i, "", "left", row[-1]] for i, row in enumerate(rows[:6])]
    head = [
        "img_left",
        "img_right",
        "practice.thisN",
        "trials.thisN",
        "key_resp.keys",
        "participant",
    ]
    data, options = as_proposed(file(tmp_path, table(head, rows)))
    assert options["rows"] == {"trials.thisN": "*"}
    check(data)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (["user", "vote"], "write them into two columns called winner and loser"),
        (["item_a", "item_b", "wins_a", "total"], "add a column with total less wins_a"),
        (["listener", "utterance", "preference"], "add two columns, left and right"),
    ],
)
def test_a_shape_that_is_not_read_says_how_to_write_it(
    tmp_path: Path, head: list[str], said: str
) -> None:
    rows: list[list[object]] = []
    for i, v in enumerate(VOTES):
        ways: dict[str, list[object]] = {
            "user": [v[3], f"{v[2]} over {loser(v)}"],
            "item_a": [*v[:2], i % 4, 5 + i % 3],
            "listener": [v[3], i, "AB"[v[2] == v[1]]],
        }
        rows.append(ways[head[0]])
    found = look(file(tmp_path, table(head, rows)))
    assert said in found.problem
    assert not found.readings


def test_a_subject_may_be_what_it_is_about(tmp_path: Path) -> None:
    topics = ["biology", "law", "history"]
    rows: list[list[object]] = [[a, b, w, topics[i % 3]] for i, (a, b, w, _) in enumerate(VOTES)]
    path = file(tmp_path, table(["model_a", "model_b", "winner", "subject"], rows))
    data, options = as_proposed(path)
    assert "rater" not in options
    check(data, raters=0)


def test_a_winner_by_name_is_the_same_on_both_sides(tmp_path: Path) -> None:
    rows = [[v[3], *sorted((v[2], loser(v))), i % 2, v[2]] for i, v in enumerate(VOTES)]
    path = file(tmp_path, table(["rater", "model_a", "model_b", "swapped", "winner"], rows))
    check(read(path))


def test_what_was_said_with_swapped_sides_is_not_proposed(tmp_path: Path) -> None:
    rows = [[*row, "B" if row[-1] == "A" else "A"] for row in chosen(("A", "B"))]
    path = file(tmp_path, table(["rater", "item_a", "item_b", "winner_ab", "winner_ba"], rows))
    assert [one.options["winner"] for one in look(path).readings] == ["winner_ab"]


def test_a_second_question_with_the_same_codes_is_named(tmp_path: Path) -> None:
    rows = [[*row, "AB"[i // 3 % 2], "AB"[i // 7 % 2]] for i, row in enumerate(chosen(("A", "B")))]
    head = ["rater", "model_a", "model_b", "overall", "fluency", "style"]
    path = file(tmp_path, table(head, rows))
    with pytest.raises(UnclearError) as refused:
        read(path)
    first = refused.value.readings[0]
    assert first.options["winner"] == "overall"
    said = next(one for one in first.doubts if "the same values as overall" in one)
    assert "fluency" in said
    assert "style" in said


def test_names_with_an_equals_sign_for_a_tie(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [v[3], v[0], v[1], "=" if i % 9 == 0 else v[2]] for i, v in enumerate(VOTES)
    ]
    path = file(tmp_path, table(["user", "option_1", "option_2", "clicked"], rows))
    data, options = as_proposed(path)
    assert options["values"] == {"=": "tie"}
    check(data, ties=N_THIRD, third=True)


def test_the_buttons_of_an_arena_are_known_in_any_table(tmp_path: Path) -> None:
    rows = chosen(("leftvote", "rightvote"), third="tievote")
    path = file(tmp_path, table(["user", "left_name", "right_name", "vote"], rows))
    check(as_proposed(path)[0], ties=N_THIRD, third=True)


def test_columns_of_ranks_may_hold_equal_ranks(tmp_path: Path) -> None:
    rows: list[list[object]] = []
    for i, order in enumerate(ORDERS):
        ranks = [order.index(item) + 1 for item in ITEMS]
        rows.append([RATERS[i % 4], *(1 if rank == 2 and i % 2 else rank for rank in ranks)])
    path = file(tmp_path, table(["rater", *(f"{item}_rank" for item in ITEMS)], rows))
    data, options = as_proposed(path)
    assert options["lower"] == "better"
    assert (data.n_ties, len(data.raters)) == (len(ORDERS) // 2, 4)
    scores = file(tmp_path, table(["rater", *ITEMS], rows), "scores.csv")
    assert not look(scores).readings


def test_a_winner_and_a_loser_may_be_letters(tmp_path: Path) -> None:
    letter = dict(zip(ITEMS[:4], "abcd", strict=True))
    known = [vote for vote in VOTES if {vote[0], vote[1]} <= letter.keys()]
    rows: list[list[object]] = [
        [v[3], letter[v[2]], letter[loser(v)]] for v in known if letter[v[2]] != "d"
    ]
    data = read(file(tmp_path, table(["judge", "winner", "loser"], rows)))
    assert (data.n_comparisons, len(data.items), len(data.raters)) == (len(rows), 4, 4)


def test_no_rank_may_be_written_as_na(tmp_path: Path) -> None:
    rows: list[list[object]] = []
    for i, order in enumerate(ORDERS):
        ranked = {item: rank for rank, item in enumerate(order[: 2 + i % 4], 1)}
        rows.append([f"voter{i}", *(ranked.get(item, "NA") for item in ITEMS)])
    blank = [["" if cell == "NA" else cell for cell in row] for row in rows]
    head = ["voter", *ITEMS]
    data, options = as_proposed(file(tmp_path, table(head, rows)))
    same, _ = as_proposed(file(tmp_path, table(head, blank), "blank.csv"))
    assert tuple(options["ranks"]) == ITEMS
    assert data.n_comparisons == same.n_comparisons
    assert (data.winner.tolist(), data.weight.tolist()) == (
        same.winner.tolist(), same.weight.tolist(),
    )  # fmt: skip


def test_ranks_may_be_written_as_words(tmp_path: Path) -> None:
    words = ("First", "Second", "Third", "Fourth", "Fifth")
    rows: list[list[object]] = [
        [RATERS[i % 4], *(words[order.index(item)] for item in ITEMS)]
        for i, order in enumerate(ORDERS)
    ]
    data, options = as_proposed(file(tmp_path, table(["rater", *ITEMS], rows)))
    assert (tuple(options["ranks"]), options["lower"]) == (ITEMS, "better")
    assert data.n_comparisons == 10 * len(ORDERS)


SCORES = [(3, 1) if v[2] == v[0] else (0, 2) if i % 9 else (1, 1) for i, v in enumerate(VOTES)]


@pytest.mark.parametrize("sign", [":", "-", " - "])
def test_both_scores_may_stand_in_one_column(tmp_path: Path, sign: str) -> None:
    rows: list[list[object]] = [
        [v[0], v[1], f"{a}{sign}{b}"] for v, (a, b) in zip(VOTES, SCORES, strict=True)
    ]
    data, options = as_proposed(file(tmp_path, table(["Heim", "Gast", "Ergebnis"], rows)))
    assert (options["ranks"], options["higher"]) == (("Ergebnis",), "better")
    assert data.n_comparisons == len(VOTES)
    assert data.n_ties == sum(a == b for a, b in SCORES)


def test_decimals_may_have_a_comma(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [v[0], v[1], f"{a},5", f"{b},5"] for v, (a, b) in zip(VOTES, SCORES, strict=True)
    ]
    head = ["Team 1", "Team 2", "Punkte 1", "Punkte 2"]
    data, _ = as_proposed(file(tmp_path, table(head, rows, ";")))
    assert (data.n_comparisons, data.n_ties) == (len(VOTES), sum(a == b for a, b in SCORES))


def test_a_score_of_one_side_is_no_choice(tmp_path: Path) -> None:
    matches = [
        {
            "home": {"name": v[0], "goals": 2 if v[2] == v[0] else 0},
            "away": {"name": v[1], "goals": 1},
        }
        for v in VOTES
    ]
    path = file(tmp_path, json.dumps({"matches": matches}), "cup.json")
    check(as_proposed(path)[0], raters=0)


def test_the_answers_of_a_list_are_all_read(tmp_path: Path) -> None:
    """Where a row has the answers of several raters, one of them is not taken for all."""
    rows = [
        {
            "model_a": v[0],
            "model_b": v[1],
            "annotations": [
                {"annotator": who, "choice": "B" if v[2] == v[1] else "A"} for who in RATERS
            ],
        }
        for v in VOTES
    ]
    data, options = as_proposed(file(tmp_path, json.dumps(rows), "votes.json"))
    assert options["winner"] == "annotations.*.choice"
    assert (data.n_comparisons, len(data.raters)) == (4 * len(VOTES), 4)


def test_the_trials_of_a_participant_may_be_a_list(tmp_path: Path) -> None:
    rows = [
        {
            "participant": who,
            "trials": [
                {"left": v[0], "right": v[1], "choice": "right" if v[2] == v[1] else "left"}
                for v in VOTES
                if v[3] == who
            ],
        }
        for who in RATERS
    ]
    content = "".join(json.dumps(row) + "\n" for row in rows)
    check(as_proposed(file(tmp_path, content, "trials.jsonl"))[0])


def test_marks_with_one_for_a_tie_are_counted_once(tmp_path: Path) -> None:
    rows: list[list[object]] = []
    for i, v in enumerate(VOTES):
        said = 2 if i % 9 == 0 else int(v[2] == v[1])
        rows.append([v[0], v[1], *(int(said == j) for j in range(3)), i % 2 == 0])
    head = ["model_a", "model_b", "winner_model_a", "winner_model_b", "winner_tie"]
    plain = file(tmp_path, table(head, [row[:-1] for row in rows]))
    check(read(plain), raters=0, ties=N_THIRD, third=True)
    swapped = file(tmp_path, table([*head, "swapped"], rows), "swapped.csv")
    with pytest.raises(UnclearError) as refused:
        read(swapped)
    first = refused.value.readings[0]
    assert "swapped says where" in first.doubts[-1]
    check(read(swapped, first.adapter, **first.options), raters=0, ties=N_THIRD, third=True)


def test_a_second_question_beside_arena_votes_is_asked_about(tmp_path: Path) -> None:
    words = ("model_a", "model_b")
    rows = [[*row, words[i // 3 % 2]] for i, row in enumerate(chosen(words))]
    path = file(tmp_path, table(["judge", "model_a", "model_b", "winner", "style"], rows))
    with pytest.raises(UnclearError) as refused:
        read(path)
    first = refused.value.readings[0]
    assert first.options["winner"] == "winner"
    assert any("style" in doubt for doubt in first.doubts)
    check(read(path, first.adapter, **first.options))


def test_a_flag_of_one_side_is_no_choice_between_both(tmp_path: Path) -> None:
    rows = [[*row, "true", ("true", "false")[i % 2]] for i, row in enumerate(chosen((0, 1)))]
    head = ["rater", "model_0", "model_1", "better_id", "is_0_safe", "is_1_safe"]
    data, options = as_proposed(file(tmp_path, table(head, rows)))
    assert options["winner"] == "better_id"
    check(data)


def square(cell: Any, diagonal: object = 0) -> str:
    rows = [[a, *(diagonal if a == b else cell(a, b) for b in ITEMS)] for a in ITEMS]
    return table(["", *ITEMS], rows)


def test_the_diagonal_of_a_square_table_may_be_a_dash(tmp_path: Path) -> None:
    def won(a: str, b: str) -> int:
        return sum(v[2] == a and loser(v) == b for v in VOTES)

    check(as_proposed(file(tmp_path, square(won, "-")))[0], raters=0)


def test_a_symmetric_table_holds_no_wins(tmp_path: Path) -> None:
    far = file(tmp_path, square(lambda a, b: 100 + ITEMS.index(a) * ITEMS.index(b)))
    assert not look(far).readings


@pytest.mark.parametrize("named", ["expected", "X"])
def test_a_test_with_right_answers_is_no_preference(tmp_path: Path, named: str) -> None:
    rows: list[list[object]] = []
    for i, row in enumerate(chosen(("A", "B"))):
        target = "AB"[i // 2 % 2]
        rows.append([*row, target, int(row[-1] == target)])
    path = file(tmp_path, table(["subject", "A", "B", "response", named, "correct"], rows))
    assert not look(path).readings


def test_numbered_values_are_proposed_as_raters(tmp_path: Path) -> None:
    code = {who: f"tn{i:02d}" for i, who in enumerate(RATERS, 1)}
    rows = [[code[str(row[0])], *row[1:]] for row in chosen(("left", "right"))]
    path = file(tmp_path, table(["code", "left_image", "right_image", "choice"], rows))
    data, options = as_proposed(path)
    assert options["rater"] == "code"
    check(data)


def test_wins_and_losses_against_an_opponent(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [a, b, *(sum((v[2], loser(v)) == both for v in VOTES) for both in ((a, b), (b, a))), 0]
        for i, a in enumerate(ITEMS)
        for b in ITEMS[i + 1 :]
    ]
    head = ["model", "opponent", "wins", "losses", "ties"]
    check(as_proposed(file(tmp_path, table(head, rows)))[0], raters=0)


def test_a_list_of_marks_says_which_of_a_list_won(tmp_path: Path) -> None:
    rows = [
        {"models": v[:2], "human_preference": [int(v[2] == v[0]), int(v[2] == v[1])]} for v in VOTES
    ]
    check(as_proposed(file(tmp_path, json.dumps(rows), "votes.json"))[0], raters=0)


def test_ratings_before_and_after_a_game_are_no_scores(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [v[0], v[1], 990 + i, 1010 - i, int(v[2] == v[0]), 1000 + i, 1000 - i]
        for i, v in enumerate(VOTES)
    ]
    head = ["player1", "player2", "rating1", "rating2", "result", "elo1_after", "elo2_after"]
    data, options = as_proposed(file(tmp_path, table(head, rows)))
    assert options["winner"] == "result"
    check(data, raters=0)


def test_conversations_are_no_lists_of_answers(tmp_path: Path) -> None:
    def talk(i: int, answer: str) -> list[dict[str, str]]:
        asked = {"role": "user", "content": f"What of {i}?"}
        return [asked, {"role": "assistant", "content": f"{answer} {i} is what I would say."}]

    rows = [{"chosen": talk(i, "Yes,"), "rejected": talk(i, "No,")} for i in range(60)]
    assert not look(file(tmp_path, json.dumps(rows), "dpo.json")).readings


@pytest.mark.parametrize(
    "before", ["# a study, of trees\n# made in 2024\n", "The results,,,\n,,,\n", "Results\n\n"]
)
def test_lines_before_the_header_are_left_out(tmp_path: Path, before: str) -> None:
    content = table(["rater", "item_a", "item_b", "winner"], chosen(("item_a", "item_b")))
    path = file(tmp_path, before + content)
    check(as_proposed(path)[0])
    broken = file(tmp_path, before + content + "ann,oak\n" * 5, "broken.csv")
    with pytest.raises(FormatError, match="5 of 125 rows"):
        as_proposed(broken)


def test_a_header_may_begin_with_a_hash(tmp_path: Path) -> None:
    rows = [[i, *row] for i, row in enumerate(chosen(("item_a", "item_b")))]
    content = table(["#id", "rater", "item_a", "item_b", "winner"], rows, "\t")
    check(as_proposed(file(tmp_path, content))[0])


def test_a_winner_that_few_rows_have_is_not_read_before_the_scores(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [v[0], v[1], a, b, v[2] if a == b else ""] for v, (a, b) in zip(VOTES, SCORES, strict=True)
    ]
    head = ["home", "away", "home_goals", "away_goals", "shootout_winner"]
    data, options = as_proposed(file(tmp_path, table(head, rows)))
    assert tuple(options["ranks"]) == ("home_goals", "away_goals")
    assert data.n_comparisons == len(VOTES)


def test_numbers_of_unknown_direction_are_asked_about(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [v[0], v[1], 12.5 + a, 12.5 + b] for v, (a, b) in zip(VOTES, SCORES, strict=True)
    ]
    found = look(file(tmp_path, table(["runner_a", "runner_b", "time_a", "time_b"], rows)))
    assert not found.readings
    assert "-O ranks=time_a,time_b with -O higher=better or -O lower=better" in found.problem


def test_scores_of_one_column_each_are_no_ranks(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [RATERS[i % 4], *(5 - order.index(item) for item in ITEMS)]
        for i, order in enumerate(ORDERS)
    ]
    head = ["rater", *(f"{item} points" for item in ITEMS)]
    data, options = as_proposed(file(tmp_path, table(head, rows)))
    assert options["higher"] == "better"
    assert "lower" not in options
    assert data.n_comparisons == 10 * len(ORDERS)


def test_best_and_worst_may_be_letters_of_places(tmp_path: Path) -> None:
    rows: list[list[object]] = []
    for i, order in enumerate(ORDERS):
        shown = sorted(order[:4])
        best, worst = ("ABCD"[shown.index(order[place])] for place in (0, 3))
        rows.append([RATERS[i % 4], *shown, best, worst])
    head = ["rater", "item_A", "item_B", "item_C", "item_D", "most", "least"]
    data, options = as_proposed(file(tmp_path, table(head, rows)))
    assert options["values"]["A"] == "1"
    assert set(data.items) == set(ITEMS)
    assert data.n_comparisons == 5 * len(ORDERS)


def test_scores_without_a_side_follow_the_order_of_the_file(tmp_path: Path) -> None:
    rows: list[list[object]] = [[v[1], b, v[0], a] for v, (a, b) in zip(VOTES, SCORES, strict=True)]
    data, _ = as_proposed(file(tmp_path, table(["Visitor", "G", "Home", "G.1"], rows)))
    home = sum(a > b for a, b in SCORES)
    assert data.n_ties == sum(a == b for a, b in SCORES)
    won = dict.fromkeys(data.items, 0)
    for winner, weight in zip(data.winner.tolist(), data.weight.tolist(), strict=True):
        won[data.items[winner]] += weight == 1
    expected = dict.fromkeys(data.items, 0)
    for v, (a, b) in zip(VOTES, SCORES, strict=True):
        if a != b:
            expected[v[0] if a > b else v[1]] += 1
    assert won == expected
    assert home


def test_a_game_that_stands_twice_is_not_read_twice(tmp_path: Path) -> None:
    rows: list[list[object]] = []
    for i, v in enumerate(VOTES):
        rows.append([i, v[0], v[1], "W" if v[2] == v[0] else "L"])
        rows.append([i, v[1], v[0], "L" if v[2] == v[0] else "W"])
    found = look(file(tmp_path, table(["game_id", "team", "opponent", "result"], rows)))
    assert not found.readings
    assert "each comparison stands twice" in found.problem


@pytest.mark.parametrize("winner", ["winner", "answer"])
def test_attention_checks_are_asked_about(tmp_path: Path, winner: str) -> None:
    rows = [[*row, i % 8 == 0] for i, row in enumerate(chosen(("left", "right")))]
    path = file(tmp_path, table(["rater", "left", "right", winner, "is_attention_check"], rows))
    with pytest.raises(UnclearError) as refused:
        read(path)
    first = refused.value.readings[0]
    assert first.options["rows"] == {"is_attention_check": "False"}
    data = read(path, first.adapter, **first.options)
    assert data.n_comparisons == sum(i % 8 != 0 for i in range(len(VOTES)))


def test_an_item_called_gold_is_no_check(tmp_path: Path) -> None:
    new = {item: "gold" if item == "oak" else item for item in ITEMS}
    code = {item: str(400 + i) for i, item in enumerate(ITEMS)}
    rows: list[list[object]] = [
        [v[3], code[v[0]], new[v[0]], code[v[1]], new[v[1]], code[v[2]]] for v in VOTES
    ]
    head = ["user_id", "left_id", "left_name", "right_id", "right_name", "winner_id"]
    data, _ = as_proposed(file(tmp_path, table(head, rows)))
    assert (data.n_comparisons, len(data.items), len(data.raters)) == (len(VOTES), 5, 4)


def test_a_choice_without_a_header_is_read_before_a_winner(tmp_path: Path) -> None:
    data, options = as_proposed(file(tmp_path, table(None, chosen(("L", "R")))))
    assert options["values"] == {"L": "left", "R": "right"}
    check(data)


def test_numbered_events_are_no_raters(tmp_path: Path) -> None:
    rows = [[f"Cup {i // 10}", *row[1:]] for i, row in enumerate(chosen(("team_1", "team_2")))]
    path = file(tmp_path, table(["event", "team_1", "team_2", "outcome"], rows))
    check(as_proposed(path)[0], raters=0)


def test_the_number_of_a_respondent_is_the_rater(tmp_path: Path) -> None:
    number = {who: 100 + i for i, who in enumerate(RATERS)}
    rows = [[number[str(row[0])], *row[1:]] for row in chosen(("A", "B"))]
    path = file(tmp_path, table(["sys_RespNum", "item_a", "item_b", "choice"], rows))
    check(as_proposed(path)[0])


def test_the_favourite_of_three_beats_the_others(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [RATERS[i % 4], *sorted(order[:3]), order[0]] for i, order in enumerate(ORDERS)
    ]
    head = ["rater", "photo_1", "photo_2", "photo_3", "favourite"]
    data, options = as_proposed(file(tmp_path, table(head, rows)))
    assert options["best"] == "favourite"
    assert data.n_comparisons == 2 * len(ORDERS)


def test_best_and_worst_may_stand_beside_the_others_that_were_shown(tmp_path: Path) -> None:
    """Words of a large vocabulary: hardly any of them comes twice."""
    rows: list[list[object]] = [[i, *(f"word{4 * i + j}" for j in range(4))] for i in range(60)]
    head = ["trial", "best", "worst", "option1", "option2"]
    (first, *_) = look(file(tmp_path, table(head, rows))).readings
    assert (first.options["items"], first.options["best"]) == (("option1", "option2"), "best")


@pytest.mark.parametrize(
    ("column", "codes", "third"),
    [
        ("label", (0, 1), None),
        ("choice", (1, 0), None),
        ("preference", (-1, 1), 0),
        ("label", (0, 1), 0.5),
        ("cmos_preference", (-2, 2), 0),
        ("answer", ("true", "false"), None),
    ],
)
def test_nothing_is_proposed_where_the_opposite_fits_as_well(
    tmp_path: Path, column: str, codes: tuple[object, object], third: object
) -> None:
    path = file(tmp_path, table(["rater", "sys_a", "sys_b", column], chosen(codes, third=third)))
    with pytest.raises(UnclearError, match=f"{column} may say who won.*-O values=.* or ") as error:
        read(path)
    assert error.value.readings == ()
    said = {str(codes[0]): "left", str(codes[1]): "right"}
    said |= {} if third is None else {str(third): "tie"}
    (first, *_) = look(path, values=said).readings
    data = read(path, first.adapter, **{**first.options, "values": said})
    check(data, ties=0 if third is None else N_THIRD, third=third is not None)


def test_three_codes_are_asked_about_where_each_comes_as_often(tmp_path: Path) -> None:
    rows = [
        [who, a, b, {0: i % 2, 1: i % 2, 2: 2}[i % 3]] for i, (a, b, _, who) in enumerate(VOTES)
    ]
    path = file(tmp_path, table(["rater", "sys_a", "sys_b", "label"], rows))
    with pytest.raises(UnclearError, match="nothing says what 0, 1, 2 mean") as error:
        read(path)
    assert error.value.readings == ()


def test_numbers_of_the_columns_say_what_codes_mean(tmp_path: Path) -> None:
    from_zero = table(["rater", "sys_0", "sys_1", "label"], chosen((0, 1)))
    check(as_proposed(file(tmp_path, from_zero))[0])
    from_one = table(["rater", "sys_1", "sys_2", "label"], chosen((1, 2), third=3))
    check(as_proposed(file(tmp_path, from_one))[0], ties=N_THIRD, third=True)


def test_a_winner_may_be_called_by_the_beginning_of_its_name(tmp_path: Path) -> None:
    full = {name: f"{name} (May {i})" for i, name in enumerate(ITEMS)}
    rows: list[list[object]] = [[who, full[a], full[b], w] for a, b, w, who in VOTES]
    path = file(tmp_path, table(["rater", "system_1", "system_2", "preferred"], rows))
    data, options = as_proposed(path)
    assert options["values"] == {name: full[name] for name in ITEMS}
    check(read(path, "table", **options, rename={new: old for old, new in full.items()}))
    assert set(data.items) == set(full.values())


def test_versions_are_names_where_a_column_names_one_of_them(tmp_path: Path) -> None:
    version = {name: f"1.{i}" for i, name in enumerate(ITEMS)}
    rows: list[list[object]] = [[who, version[a], version[b], version[w]] for a, b, w, who in VOTES]
    path = file(tmp_path, table(["tester", "version_a", "version_b", "preferred_version"], rows))
    data, options = as_proposed(path)
    assert set(data.items) == set(version.values())
    check(read(path, **options, rename={new: old for old, new in version.items()}))


def test_one_column_a_pair(tmp_path: Path) -> None:
    pairs = [(a, b) for i, a in enumerate(ITEMS) for b in ITEMS[i + 1 :]]
    rows: list[list[object]] = [
        [f"p{i:02d}", *((a, b, "no preference")[(i + k) % 3] for k, (a, b) in enumerate(pairs))]
        for i in range(30)
    ]
    path = file(tmp_path, table(["participant", *(f"{a} vs {b}" for a, b in pairs)], rows))
    data, options = as_proposed(path)
    assert (data.n_comparisons, len(data.raters)) == (30 * len(pairs), 30)
    assert set(data.items) == set(ITEMS)
    assert data.n_ties == sum(row.count("no preference") for row in rows)
    assert options["between"] == " vs "


def placed() -> list[list[object]]:
    """The rankings, one row an item: which one, the item and its place."""
    return [[i, name, at] for i, order in enumerate(ORDERS) for at, name in enumerate(order, 1)]


def test_one_row_an_item_with_its_rank(tmp_path: Path) -> None:
    data, options = as_proposed(file(tmp_path, table(["ballot", "candidate", "rank"], placed())))
    assert options["group"] == ("ballot",)
    head = [f"rank{i}" for i in range(1, len(ITEMS) + 1)]
    wide = read(file(tmp_path, table(head, [[*one] for one in ORDERS])), "table", ranking=head)
    wins, expected = (
        {item: sum(one.weight[one.winner == i]) for i, item in enumerate(one.items)}
        for one in (data, wide)
    )
    assert wins == pytest.approx(expected)


def test_one_row_an_item_with_best_and_worst_marked(tmp_path: Path) -> None:
    rows = []
    for i in range(40):
        shown = [ITEMS[(i + k) % len(ITEMS)] for k in range(3)]
        rows += [[i % 8, i // 8, name, mark] for name, mark in zip(shown, (1, 0, -1), strict=True)]
    data, options = as_proposed(
        file(tmp_path, table(["respondent", "task", "item", "choice"], rows))
    )
    assert options["group"] == ("respondent", "task")
    assert (options["best"], options["worst"]) == ("choice", "choice")
    assert data.n_comparisons == 40 * 3
    assert len(data.raters) == 8


def test_a_display_position_is_no_rank(tmp_path: Path) -> None:
    with pytest.raises(UnclearError) as error:
        read(file(tmp_path, table(["session", "item", "position"], placed())))
    assert error.value.readings == ()


def test_a_slider_between_left_and_right(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [who, a, b, 20 + i % 25 if w == a else 60 + i % 40]
        for i, (a, b, w, who) in enumerate(VOTES)
    ]
    data, options = as_proposed(file(tmp_path, table(["who_id", "left", "right", "slider"], rows)))
    assert options["middle"] == 50
    check(data, raters=len(data.raters))
    path = file(tmp_path, table(["rater", "design_a", "design_b", "slider"], rows))
    with pytest.raises(UnclearError, match="nothing says which is at") as error:
        read(path)
    assert error.value.readings == ()


def test_a_header_in_two_rows(tmp_path: Path) -> None:
    rows: list[list[object]] = [["", "", *ITEMS]]
    rows += [
        [100 + i, "x", *(order.index(name) + 1 for name in ITEMS)] for i, order in enumerate(ORDERS)
    ]
    head = ["Respondent ID", "Collector", "Please rank", *([""] * (len(ITEMS) - 1))]
    data, options = as_proposed(file(tmp_path, table(head, rows)))
    assert options["ranks"] == tuple(ITEMS)
    assert set(data.items) == set(ITEMS)


def test_fields_with_dots_in_their_names(tmp_path: Path) -> None:
    rows = [
        {"model_A": a, "model_B": b, "pick.responses": ["A" if w == a else "B"],
         "pick.responses.users": [who]}
        for a, b, w, who in VOTES
    ]  # fmt: skip
    path = file(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "votes.jsonl")
    check(as_proposed(path)[0])


def test_scenarios_are_not_proposed_as_raters(tmp_path: Path) -> None:
    rows = [[f"s{i % 9}", *row[1:]] for i, row in enumerate(chosen(("model_a", "model_b")))]
    _, options = as_proposed(
        file(tmp_path, table(["scenario_id", "model_a", "model_b", "winner"], rows))
    )
    assert "rater" not in options


def test_the_winner_counts_before_a_favourite(tmp_path: Path) -> None:
    rows: list[list[object]] = [[a, b, (a, b)[i % 2], w] for i, (a, b, w, _) in enumerate(VOTES)]
    path = file(tmp_path, table(["fighter_1", "fighter_2", "favorite", "winner"], rows))
    assert as_proposed(path)[1]["winner"] == "winner"


def test_lists_of_rows_by_the_name_of_a_part_are_read_together(tmp_path: Path) -> None:
    rows = [{"a": a, "b": b, "winner": "a" if w == a else "b"} for a, b, w, _ in VOTES]
    document = {"spring": rows[:70], "autumn": rows[70:], "winter": []}
    data, _ = as_proposed(file(tmp_path, json.dumps(document, indent=2), "games.json"))
    check(data, raters=0)


def test_rows_without_a_winner_that_another_column_calls_ties_are_asked_about(
    tmp_path: Path,
) -> None:
    rows: list[list[object]] = [
        [a, b, "", "draw"] if i % 9 == 0 else [a, b, "white" if w == a else "black", "resign"]
        for i, (a, b, w, _) in enumerate(VOTES)
    ]
    with pytest.raises(UnclearError, match="14 rows have no winner, and status says") as error:
        read(file(tmp_path, table(["white", "black", "winner", "status"], rows)))
    assert error.value.readings == ()


def test_a_column_that_says_who_lost_is_not_read_as_the_winner(tmp_path: Path) -> None:
    rows: list[list[object]] = [[who, a, b, loser((a, b, w, who))] for a, b, w, who in VOTES]
    path = file(tmp_path, table(["user", "img1", "img2", "worse"], rows))
    data, options = as_proposed(path)
    assert options["loser"] == "worse"
    assert "winner" not in options
    check(data)


def test_a_word_for_each_side_of_which_one_is_a_win(tmp_path: Path) -> None:
    rows: list[list[object]] = []
    for i, (a, b, w, _) in enumerate(VOTES):
        ends = ("win", ("resigned", "timeout")[i % 2])
        ends = ("stalemate", "stalemate") if i % 9 == 0 else ends if w == a else ends[::-1]
        rows.append([a, b, 1500 + i, 1600, *ends])
    head = ["white", "black", "white_rating", "black_rating", "white_result", "black_result"]
    data, _ = as_proposed(file(tmp_path, table(head, rows)))
    check(data, raters=0, ties=N_THIRD, third=True)


def test_counts_of_something_else_are_not_taken_for_wins(tmp_path: Path) -> None:
    rows: list[list[object]] = [[a, b, 3 + i] for i, a in enumerate(ITEMS) for b in ITEMS if a != b]
    with pytest.raises(UnclearError, match="may be how often") as error:
        read(file(tmp_path, table(["from_city", "to_city", "count"], rows)))
    assert error.value.readings == ()
    check_wins = as_proposed(file(tmp_path, table(["city_1", "city_2", "wins"], rows)))[0]
    assert check_wins.n_comparisons > 0


def test_left_and_right_are_those_of_the_columns_called_so(tmp_path: Path) -> None:
    rows: list[list[object]] = []
    for i, (a, b, w, who) in enumerate(VOTES):
        shown = (a, b) if i % 2 else (b, a)
        rows.append([who, a, b, *shown, "left" if w == shown[0] else "right"])
    head = ["worker", "system_1", "system_2", "left_system", "right_system", "choice"]
    check(as_proposed(file(tmp_path, table(head, rows)))[0])


def test_results_without_a_header_are_not_raters(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [a, "1/2" if i % 9 == 0 else "1-0" if w == a else "0-1", b]
        for i, (a, b, w, _) in enumerate(VOTES)
    ]
    data, _ = as_proposed(file(tmp_path, table(None, rows, " "), "games.txt"))
    check(data, raters=0, ties=N_THIRD, third=True)


def test_a_winner_and_its_name_are_one_answer(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [a, b, "project_a" if w == a else "project_b", w] for a, b, w, _ in VOTES
    ]
    path = file(tmp_path, table(["project_a", "project_b", "winner", "winner_name"], rows))
    check(read(path), raters=0)


def test_numbers_of_other_columns_say_nothing_of_codes(tmp_path: Path) -> None:
    rows = [[*row, "x", "y"] for row in chosen((0, 1), third=2)[:24]]
    path = file(tmp_path, table(["rater", "sys_a", "sys_b", "label", "turn1", "turn2"], rows))
    with pytest.raises(UnclearError, match="nothing says what 0, 1, 2 mean"):
        read(path)


def test_a_winner_that_names_neither_in_a_few_rows_is_still_the_winner(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [left, right, f"{i % 4} - {i % 3}", winner]
        for i, (left, right, winner, *_) in enumerate(VOTES)
    ]
    rows[3][3], rows[8][3] = "team 1", "nobody here"
    path = file(tmp_path, table(["Player 1", "Player 2", "Score", "Winner"], rows))
    first, *others = look(path).readings
    assert first.options["winner"] == "Winner"
    assert first.options["values"] == {"nobody here": "skip", "team 1": "skip"}
    assert "'team 1' (1 row) names neither item: left out" in first.doubts
    assert any("ranks" in other.options for other in others)
    data, _ = as_proposed(path)
    assert data.n_comparisons == len(VOTES) - 2


def test_a_winner_of_another_row_is_asked_about_and_not_left_for_scores(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [left, right, f"{i % 4} - {i % 3}", winner]
        for i, (left, right, winner, *_) in enumerate(VOTES)
    ]
    for row in rows[:3]:
        row[3] = next(item for item in ITEMS if item not in row[:2])
    found = look(file(tmp_path, table(["Player 1", "Player 2", "Score", "Winner"], rows)))
    assert not found.readings
    assert f"Winner names neither of the two items in 3 of {len(rows)} rows" in found.problem


def test_scores_name_a_winner_that_they_leave_unused(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [left, right, f"{i % 4} - {i % 3}", winner]
        for i, (left, right, winner, *_) in enumerate(VOTES)
    ]
    for i, row in enumerate(rows[::4]):
        row[3] = f"{row[3]} after {i}, extra"
    first = look(file(tmp_path, table(["Player 1", "Player 2", "Score", "Winner"], rows)))
    assert first.readings[0].options["ranks"] == ("Score",)
    assert any(one.startswith("Winner is not used") for one in first.readings[0].doubts)


def test_names_are_the_items_and_not_the_signs_they_play_with(tmp_path: Path) -> None:
    rows: list[list[object]] = []
    for i in range(30):
        signs, winner = ("X", "O") if i % 2 else ("O", "X"), "ABA"[i % 3]
        rows.append(["deep", "quick", *signs, winner, signs["AB".index(winner)]])
    head = ["A_name", "B_name", "A_symbol", "B_symbol", "winner_agent", "winner_symbol"]
    first = look(file(tmp_path, table(head, rows))).readings[0]
    assert (first.options["left"], first.options["right"]) == ("A_name", "B_name")
    assert first.options["winner"] == "winner_agent"
    assert "A_name, B_name are taken for the items, not A_symbol, B_symbol" in first.doubts


def test_ballots_without_a_header_are_rankings_and_blank_votes_no_items(tmp_path: Path) -> None:
    names = ["Aude", "Bo", "Cyr"]
    ballots = [[names[i % 3], names[(i + 1) % 3], names[(i + 2) % 3]] for i in range(9)]
    ballots += [[names[1], names[0], names[2]], ["BLANC"] * 3, ["BLANC"] * 3]
    text = "".join(",".join([str(1000 + 37 * i), *row]) + "\n" for i, row in enumerate(ballots))
    path = file(tmp_path, text)
    found = look(path).readings
    assert found[0].options["ranking"] == ("column2", "column3", "column4")
    assert found[0].options["values"] == {"BLANC": "skip"}
    assert not any({"loser", "rater"} & one.options.keys() for one in found)
    data, _ = as_proposed(path)
    assert sorted(data.items) == names
    assert data.n_comparisons == 30


def test_one_column_of_wins_counts_each_win(tmp_path: Path) -> None:
    pairs = [(a, b) for a in ITEMS[:3] for b in ITEMS[:3] if a != b]
    wins = dict(zip(pairs, (40, 31, 25, 20, 9, 17), strict=True))
    path = file(
        tmp_path,
        table(["Candidate_1", "Candidate_2", "Wins"], [[*pair, n] for pair, n in wins.items()]),
    )
    data, options = as_proposed(path)
    assert options == {"left": "Candidate_1", "right": "Candidate_2", "wins": ("Wins",)}
    assert data.n_comparisons == sum(wins.values())
    won = [data.items[one] for one in data.winner.tolist()]
    assert [won.count(name) for name in ITEMS[:3]] == [71, 45, 26]


def test_names_are_not_composed_with_what_was_measured(tmp_path: Path) -> None:
    kinds = ["fast", "wide", "deep"]
    rows: list[list[object]] = [
        [kinds[i % 3], kinds[i // 3 % 3], 1 + i % 2, 1000 + 71 * i, 900 + 97 * i] for i in range(27)
    ]
    path = file(tmp_path, table(["p1_kind", "p2_kind", "winner", "nodes_p1", "nodes_p2"], rows))
    assert all("items" not in one.options for one in look(path).readings)


def test_columns_that_hold_all_names_in_each_row_are_a_ranking(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [i, *(ITEMS[(i * k + j) % len(ITEMS)] for j in range(len(ITEMS)))]
        for i, k in enumerate([1, 2, 3] * 8, 1)
    ]
    head = ["", *(f"V{i}" for i in range(1, len(ITEMS) + 1))]
    assert look(file(tmp_path, table(head, rows))).readings[0].options["ranking"] == tuple(head[1:])
    # Beside an answer they may be what was shown.
    rows = [[*row, row[1 + i % 2]] for i, row in enumerate(rows)]
    found = look(file(tmp_path, table([*head, "choice"], rows))).readings
    assert not any("ranking" in one.options for one in found)


@pytest.mark.parametrize("head", [("胜者", "负者"), ("vainqueur", "perdant")])
def test_winner_and_loser_in_other_languages(tmp_path: Path, head: tuple[str, str]) -> None:
    rows: list[list[object]] = [
        [winner, right if winner == left else left] for left, right, winner, *_ in VOTES
    ]
    first = look(file(tmp_path, table(list(head), rows))).readings[0]
    assert (first.options["winner"], first.options["loser"]) == head


def test_goals_of_local_and_visitante_and_scores_without_a_header(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [left, i % 4, right, (i * 7) % 5] for i, (left, right, *_) in enumerate(VOTES)
    ]
    head = ["Local", "Goles_Local", "Visitante", "Goles_Visitante"]
    first = look(file(tmp_path, table(head, rows))).readings[0]
    assert first.options["ranks"] == ("Goles_Local", "Goles_Visitante")
    text = "".join(f"{a},{x}.5,{b},{y}.25\n" for a, x, b, y in rows)
    first = look(file(tmp_path, text)).readings[0]
    assert first.options["ranks"] == ("column2", "column4")
    assert first.confidence != "certain"


def test_where_no_column_says_who_won_the_message_shows_how_to_name_it(tmp_path: Path) -> None:
    rows: list[list[object]] = [[left, right, 3.5 + i] for i, (left, right, *_) in enumerate(VOTES)]
    found = look(file(tmp_path, table(["model_a", "model_b", "delta"], rows)))
    assert "-O left=model_a -O right=model_b -O winner=COLUMN" in found.problem


def test_who_won_goes_before_the_scores_that_say_the_same(tmp_path: Path) -> None:
    # Only the winner tells of games that do not count, whatever their scores.
    rows: list[list[object]] = []
    for i, (left, right, winner, _) in enumerate(VOTES):
        first = winner == left
        points = (30 + i % 7, 20 - i % 5) if first else (11 + i % 5, 25 + i % 9)
        rows.append([i, left, right, *points, -1 if i % 20 == 0 else 1 if first else 2])
    head = ["game", "bot1", "bot2", "score1", "score2", "winner"]
    first_reading, *others = look(file(tmp_path, table(head, rows))).readings
    assert first_reading.options["winner"] == "winner"
    assert first_reading.options["values"] == {"1": "left", "2": "right", "-1": "skip"}
    assert any(other.options.get("ranks") == ("score1", "score2") for other in others)


def test_the_name_beside_each_ballot_is_proposed_as_the_rater(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [f"voter {'abcdefghij'[i % 10]}{i}", *(order.index(item) + 1 for item in ITEMS)]
        for i, order in enumerate(ORDERS)
    ]
    path = file(tmp_path, table(["", *ITEMS], rows))
    data, options = as_proposed(path)
    assert options["rater"] == "column1"
    assert len(data.raters) == len(ORDERS)


def test_rankings_in_columns_are_read_with_rows_and_columns_swapped(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [item, *(order.index(item) + 1 for order in ORDERS[:9])] for item in ITEMS
    ]
    head = ["candidate", *(f"juror{i}" for i in range(9))]
    path = file(tmp_path, table(head, rows))
    expected: dict[str, Any] = {
        "transposed": True,
        "ranks": ITEMS,
        "lower": "better",
        "rater": "rater",
    }
    assert dict(look(path).readings[0].options) == expected
    assert dict(look(path, transposed=True).readings[0].options) == expected
    data, _ = as_proposed(path)
    assert data.raters == tuple(f"juror{i}" for i in range(9))
    first = dict.fromkeys(ITEMS, 0)
    for winner in data.winner.tolist():
        first[data.items[winner]] += 1
    assert first == {
        item: sum(4 - order.index(item) for order in ORDERS[:9]) for item in ITEMS
    }  # fmt: skip
    # Numbers of people, and measurements, are no rankings.
    other = [[item, *(10 * i + j for j in range(9))] for i, item in enumerate(ITEMS)]
    assert not look(file(tmp_path, table(head, [[*row] for row in other]))).readings
    twice = file(tmp_path, table(head, [*rows, rows[0]]))
    with pytest.raises(FormatError, match="candidate is to name each row"):
        read(twice, "table", **expected)


def test_trials_among_screens_of_the_same_kind_are_found_by_their_items(tmp_path: Path) -> None:
    rows: list[list[object]] = []
    for i, (left, right, winner, who) in enumerate(VOTES):
        rows.append([900, "<p>+</p>", "null", "html-keyboard-response", 2 * i, who, "", ""])
        screen, key = f"<img src='{left}'> <img src='{right}'>", "f" if winner == left else "j"
        rows.append([700 + i, screen, key, "html-keyboard-response", 2 * i + 1, who, left, right])
    head = ["rt", "stimulus", "response", "trial_type", "trial_index", "subject", "left_img"]
    data, options = as_proposed(file(tmp_path, table([*head, "right_img"], rows)))
    assert options["rows"] == {"left_img": "*"}
    check(data)


def test_other_meanings_of_one_value_keep_those_of_all_others(tmp_path: Path) -> None:
    rows = chosen(("A", "B"), third="C")
    for row in rows[4::7]:
        row[3] = "skip"
    path = file(tmp_path, table(["rater", "model_a", "model_b", "choice"], rows))
    found = look(path).readings
    assert [one.difference for one in found] == ["", "'skip' is a tie", "'C' is no answer"]
    for one in found:
        assert {*one.options["values"]} == {"A", "B", "C", "skip"}
        read(path, one.adapter, **one.options)


NAMED = [
    [i, left, right, winner, winner if i % 3 else left, winner if i % 4 else right]
    for i, (left, right, winner, _) in enumerate(VOTES)
]


def test_raters_as_columns_that_hold_names_are_read_as_raters(tmp_path: Path) -> None:
    head = ["id", "model_a", "model_b", "rater1", "rater2", "rater3"]
    data, options = as_proposed(file(tmp_path, table(head, NAMED)))
    assert options["raters"] == ("rater1", "rater2", "rater3")
    assert "rater" not in options
    assert (data.n_comparisons, len(data.raters)) == (3 * len(VOTES), 3)
    ties = [["tie" if cell == "oak" and i % 5 == 0 else cell for cell in row[3:]]
            for i, row in enumerate(NAMED)]  # fmt: skip
    rows: list[list[object]] = [row[:3] + more for row, more in zip(NAMED, ties, strict=True)]
    data, options = as_proposed(file(tmp_path, table(head, rows)))
    assert len(data.raters) == 3
    assert data.n_ties == sum(cell == "tie" for row in ties for cell in row) > 0


def test_people_or_questions_as_columns_that_hold_names_are_asked_about(tmp_path: Path) -> None:
    path = file(tmp_path, table(["id", "model_a", "model_b", "anna", "bert", "carla"], NAMED))
    found = look(path)
    assert not found.readings
    assert "-O raters=anna,bert,carla" in found.problem
    (first, *_) = look(path, raters="anna,bert,carla").readings
    assert len(read(path, first.adapter, **first.options).raters) == 3


@pytest.mark.parametrize(
    ("sides", "items"),
    [
        (("Answer.left.on", "Answer.right.on"), ("Input.model_a", "Input.model_b")),
        (("Answer.choice.A", "Answer.choice.B"), ("Input.model_a", "Input.model_b")),
        (("Answer.preferred.optionA", "Answer.preferred.optionB"), ("Input.m1", "Input.m2")),
    ],
)
def test_two_boxes_of_which_one_is_ticked_are_one_choice(
    tmp_path: Path, sides: tuple[str, str], items: tuple[str, str]
) -> None:
    rows: list[list[object]] = [
        [who, left, right, str(winner == left).lower(), str(winner == right).lower()]
        for left, right, winner, who in VOTES
    ]
    path = file(tmp_path, table(["WorkerId", *items, *sides], rows))
    data, options = as_proposed(path)
    assert options["values"] == {"true": "left", "false": "right"}
    check(data)
    third: list[list[object]] = [
        [*row[:3], "false", "false", "true"] if i % 9 == 0 else [*row, "false"]
        for i, row in enumerate(rows)
    ]
    path = file(tmp_path, table(["WorkerId", *items, *sides, "Answer.tie.on"], third))
    data, _ = as_proposed(path)
    check(data, ties=N_THIRD, third=True)


def test_scores_with_one_column_an_item_are_refused_with_the_options(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [f"u{i}", *(1 + (i * k + i // k) % 5 for k in (2, 3, 7, 8, 9))] for i in range(60)
    ]
    path = file(tmp_path, table(["participant", *ITEMS], rows))
    problem = look(path).problem
    assert f"-O ranks={','.join(ITEMS)} with -O higher=better or -O lower=better" in problem
    assert read(path, "table", ranks=list(ITEMS), higher="better").n_comparisons > 0


def test_a_winner_goes_before_the_scores_that_often_say_otherwise(tmp_path: Path) -> None:
    rows: list[list[object]] = []
    for i, (left, right, winner, _) in enumerate(VOTES):
        first = winner == left
        scores = (30 + i % 7, 20 - i % 5) if first == (i % 8 > 0) else (11 + i % 5, 25 + i % 9)
        rows.append([left, right, *scores, -1 if i % 20 == 0 else 1 if first else 2])
    head = ["bot1", "bot2", "score1", "score2", "winner"]
    first_reading = look(file(tmp_path, table(head, rows))).readings[0]
    assert first_reading.options["winner"] == "winner"
    assert any("otherwise than score1 and score2" in one for one in first_reading.doubts)


def test_lists_of_names_are_ballots_or_hold_the_chosen_one(tmp_path: Path) -> None:
    ballots = [{"voter": f"v{i}", "ballot": order} for i, order in enumerate(ORDERS)]
    data, options = as_proposed(file(tmp_path, json.dumps(ballots), "votes.json"))
    assert options == {"ranking": ("ballot",), "rater": "voter"}
    assert len(data.raters) == len(ORDERS)
    shown = [{"options": order[:3], "chosen": min(order[:3])} for order in ORDERS]
    data, options = as_proposed(file(tmp_path, json.dumps(shown), "votes.json"))
    assert options == {"items": ("options",), "best": "chosen"}
    assert data.n_comparisons == 2 * len(ORDERS)


def test_the_chosen_of_several_alternatives_may_be_told_by_its_place(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [f"r{i % 8}", *order[:4], 1 + i % 4] for i, order in enumerate(ORDERS)
    ]
    head = ["resp_id", "brand_1", "brand_2", "brand_3", "brand_4"]
    data, options = as_proposed(file(tmp_path, table([*head, "choice"], rows)))
    assert (options["best"], options["values"]) == ("choice", {str(i): str(i) for i in range(1, 5)})
    wins = [order[i % 4] for i, order in enumerate(ORDERS)]
    won = dict.fromkeys(ITEMS, 0)
    for winner in data.winner.tolist():
        won[data.items[winner]] += 1
    assert won == {one: 3 * wins.count(one) for one in ITEMS}
    # Alternatives with two properties: which one is to be ranked is asked.
    both: list[list[object]] = [
        [row[0], *(cell for k in range(4) for cell in (row[1 + k], 10 * (1 + k % 3))), row[5]]
        for row in rows
    ]
    head = ["resp_id", *(name for k in range(1, 5) for name in (f"brand_{k}", f"price_{k}"))]
    found = look(file(tmp_path, table([*head, "choice"], both)))
    assert not found.readings
    assert "-O items=brand_1,brand_2,brand_3,brand_4 -O best=choice" in found.problem


def test_a_rater_in_numbers_is_no_verdict(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [i, left, right, 1 + RATERS.index(who), "left" if winner == left else "right"]
        for i, (left, right, winner, who) in enumerate(VOTES)
    ]
    path = file(tmp_path, table(["id", "model_a", "model_b", "annotator", "pref"], rows))
    data, _ = as_proposed(path)
    check(data)
    few = [[*row[:3], min(3, int(str(row[3]))), row[4]] for row in rows]
    first, other, *_ = look(
        file(tmp_path, table(["id", "model_a", "model_b", "annotator", "pref"], few))
    ).readings
    assert "rater" not in first.options
    assert any("annotator is not taken for the rater" in doubt for doubt in first.doubts)
    assert other.options["rater"] == "annotator"


@pytest.mark.parametrize("decoy", ["previous_winner", "first_shown"])
def test_who_won_before_or_was_shown_first_is_no_choice(tmp_path: Path, decoy: str) -> None:
    rows: list[list[object]] = [
        [who, left, right, (left, right)[i % 7 > 2], {left: "up", right: "down"}[winner]]
        for i, (left, right, winner, who) in enumerate(VOTES)
    ]
    found = look(file(tmp_path, table(["judge", "model_a", "model_b", decoy, "x"], rows)))
    assert all(one.options.get("winner") != decoy for one in found.readings)
    lost: list[list[object]] = [
        [vote[3], loser(vote), vote[2], vote[i % 2]] for i, vote in enumerate(VOTES)
    ]
    data, options = as_proposed(file(tmp_path, table(["judge", "worst", "best", decoy], lost)))
    assert (options["winner"], options["loser"]) == ("best", "worst")
    check(data)


def test_sides_of_columns_that_name_none_are_asked_about(tmp_path: Path) -> None:
    rows = [[row[0], row[2], row[1], row[3]] for row in chosen(("left", "right"))]
    path = file(tmp_path, table(["judge", "baseline", "candidate", "verdict"], rows))
    first, other = look(path).readings
    assert first.confidence == "likely"
    assert "'left' is taken for baseline, by the order of the columns" in str(first.doubts)
    assert other.options["values"] == {"left": "right", "right": "left"}
    check(read(path, other.adapter, **other.options))


def test_a_letter_or_a_word_is_not_short_for_one_side_alone(tmp_path: Path) -> None:
    path = file(tmp_path, table(["judge", "home", "away", "selected"], chosen(("A", "B"))))
    data, options = as_proposed(path)
    assert options["values"] == {"A": "left", "B": "right"}
    check(data)
    path = file(tmp_path, table(["judge", "img_l", "img_r", "chosen"], chosen(("win", "loss"))))
    check(as_proposed(path)[0])


def test_numbers_that_stand_otherwise_than_they_count_are_asked_about(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [left, 1 + i % 3, 5 if winner == left else 0, right]
        for i, (left, right, winner, _) in enumerate(VOTES)
    ]
    path = file(tmp_path, table(["option_left", "score_2", "score_1", "option_right"], rows))
    found = look(path)
    assert not found.readings
    assert "-O ranks=score_2,score_1 or -O ranks=score_1,score_2" in found.problem
    for ranks in ("score_1,score_2", "score_2,score_1"):
        (first, *_) = look(path, ranks=ranks).readings
        assert ",".join(first.options["ranks"]) == ranks
        assert (first.options["left"], first.options["right"]) == ("option_left", "option_right")


def test_a_column_called_a_choice_goes_before_scores_of_something_else(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [who, left, right, "A" if winner == left else "B", i * 7 % 5, i * 3 % 5]
        for i, (left, right, winner, who) in enumerate(VOTES)
    ]
    head = ["judge", "model_a", "model_b", "preference", "score_a", "score_b"]
    data, options = as_proposed(file(tmp_path, table(head, rows)))
    assert options.get("winner", "preference") == "preference"
    check(data)


def test_items_and_their_ranks_may_stand_in_two_lists(tmp_path: Path) -> None:
    rows = [
        {"id": i, "outputs": sorted(order[:4]), "ranking": [1 + order.index(x) % 3 for x in
         sorted(order[:4])]} for i, order in enumerate(ORDERS)
    ]  # fmt: skip
    data, options = as_proposed(file(tmp_path, json.dumps(rows), "votes.json"))
    assert options == {"items": ("outputs",), "ranks": ("ranking",), "lower": "better"}
    # The first and the fourth have equal ranks.
    assert (data.n_comparisons, data.n_ties) == (6 * len(ORDERS), len(ORDERS))
    # Each item comes in one row only: read in the same way, and refused for that.
    single = [
        {"outputs": [f"out{i}.{k}" for k in range(4)], "ranking": [1 + (i + k) % 4 for k in
         range(4)]} for i in range(30)
    ]  # fmt: skip
    path = file(tmp_path, json.dumps(single), "single.json")
    first = look(path).readings[0]
    assert dict(first.options)["ranks"] == ("ranking",)
    assert any("1 for the best" in doubt and "equal is a tie" in doubt for doubt in first.doubts)
    # An order of equal numbers holds ranks; else it may as well name the items in order.
    as_order = [{"models": row["outputs"], "order": row["ranking"]} for row in rows]
    data, options = as_proposed(file(tmp_path, json.dumps(as_order), "order.json"))
    assert options["ranks"] == ("order",)
    as_order = [{"models": sorted(one), "order": [1, 2, 3, 4, 5]} for one in ORDERS]
    assert not look(file(tmp_path, json.dumps(as_order), "order.json")).readings


def test_a_long_ranking_of_numbered_items_is_grouped_by_who_ranked(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [i, ITEMS.index(name), "yes", place]
        for i, order in enumerate(ORDERS)
        for place, name in enumerate(order, 1)
    ]
    path = file(tmp_path, table(["Student ID", "School ID", "Included", "Preference Rank"], rows))
    data, options = as_proposed(path)
    assert options["items"] == ("School ID",)
    assert (options["group"], options["rater"]) == (("Student ID",), "Student ID")
    assert (options["ranks"], options["lower"]) == (("Preference Rank",), "better")
    assert (data.n_comparisons, len(data.raters)) == (10 * len(ORDERS), len(ORDERS))
    assert sorted(data.items) == ["0", "1", "2", "3", "4"]


MTURK = ["WorkerId", "Input.text1", "Input.text2", "Input.model1", "Input.model2", "Answer.choice"]


def test_a_header_may_be_longer_or_shorter_than_all_rows(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [who, f"said {i}", f"told {i}", a, b, "Sentence A" if winner == a else "Sentence B"]
        for i, (a, b, winner, who) in enumerate(VOTES)
    ]
    data, _ = as_proposed(file(tmp_path, table([*MTURK, "Approve", "Reject"], rows)))
    check(data)
    found = look(file(tmp_path, table([*MTURK, "Approve", "Reject"], rows)))
    assert [one.name for one in found.columns if not one.n_distinct] == ["Approve", "Reject"]
    # Columns without a name at the end.
    path = file(tmp_path, table([*MTURK, ""], [[*row, 17e8 + i, ""] for i, row in enumerate(rows)]))
    check(as_proposed(path)[0])
    path = file(tmp_path, table(MTURK, [[*row, 17e8 + i] for i, row in enumerate(rows)]))
    check(as_proposed(path)[0])
    # R numbers the rows, without a name above.
    path = file(tmp_path, table(MTURK, [[i, *row] for i, row in enumerate(rows, 1)]))
    check(as_proposed(path)[0])
    # Where the first column numbers them, the one without a name is the last.
    short = [[i, a, b, winner, who] for i, (a, b, winner, who) in enumerate(VOTES)]
    found = look(file(tmp_path, table(["trial", "left", "right", "winner"], short)))
    assert [one.name for one in found.columns] == ["trial", "left", "right", "winner", "column5"]
    # So do those of well-known names, where nothing else would be asked.
    known = [[*row[1:], row[0]] for row in short]
    for head, rated in (
        (["left", "right", "winner"], 0),
        (["left", "right", "winner", "rater", "x", "y"], 4),
    ):
        path = file(tmp_path, table(head, [[*row] for row in known]))
        assert look(path).readings[0].confidence == "likely"
        data, _ = as_proposed(path)
        assert (data.n_comparisons, len(data.raters)) == (len(VOTES), rated)
    numbered = [[i, vote[2], loser(vote)] for i, vote in enumerate(VOTES, 1)]
    path = file(tmp_path, table(["winner", "loser"], [[*row] for row in numbered]))
    assert sorted(as_proposed(path)[0].items) == sorted(ITEMS)
    # Single rows that end early are still damaged.
    path = file(tmp_path, table(MTURK, [*rows[:50], rows[50][:4], *rows[51:]]))
    assert read(path, max_skipped=0.5).n_comparisons == len(VOTES) - 1


def test_names_of_columns_say_what_was_compared_where_ids_hardly_come_twice(tmp_path: Path) -> None:
    rows: list[list[object]] = [[i, 2 * i, 2 * i + 1, i % 2] for i in range(40)]
    path = file(tmp_path, table(["nr", "Winner ID", "Loser ID", "expert"], rows))
    assert dict(look(path).readings[0].options).items() >= {
        "winner": "Winner ID", "loser": "Loser ID",
    }.items()  # fmt: skip
    with pytest.raises(UnrankableError, match="no item is compared with more than one other"):
        as_proposed(path)
    said = [[f"a/{i}.wav", f"b/{i}.wav", ("True", "False")[i % 3 == 0]] for i in range(40)]
    path = file(tmp_path, table(["clip1", "clip2", "clip2 wins"], [[*row] for row in said]))
    options = dict(look(path).readings[0].options)
    assert (options["left"], options["winner"]) == ("clip1", "clip2 wins")
    assert options["values"] == {"False": "left", "True": "right"}
    # What 0 and 1 mean is asked.
    path = file(tmp_path, table(["left_id", "right_id", "choice"], [row[1:] for row in rows]))
    found = look(path)
    assert not found.readings
    assert "choice may say who won" in found.problem


def test_counts_from_both_sides_are_not_counted_twice(tmp_path: Path) -> None:
    won = {(a, b): 3 + i for i, (a, b) in enumerate(combinations(ITEMS, 2))}
    rows: list[list[object]] = [[a, b, n, 20 - n] for (a, b), n in won.items()]
    head = ["deck", "versus", "won", "lost"]
    assert as_proposed(file(tmp_path, table(head, rows)))[0].n_comparisons == 20 * len(rows)
    mirrored = [*rows, *([b, a, lost, n] for a, b, n, lost in rows[:4])]
    found = look(file(tmp_path, table(head, mirrored)))
    assert not found.readings
    assert "4 pairs of items stand twice" in found.problem
    # Where these are other games, the same columns may be named.
    path = file(tmp_path, table(head, mirrored))
    assert look(path, wins="won,lost").readings


def test_codes_beside_two_names_without_a_header_are_asked_about(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [vote[2], loser(vote), -2 if i % 9 == 0 else -1] for i, vote in enumerate(VOTES)
    ]
    found = look(file(tmp_path, table(None, rows)))
    assert not found.readings
    assert "column3 codes that say who won" in found.problem


def test_sides_of_several_votes_are_no_items(tmp_path: Path) -> None:
    rows = [
        {"pair": ["oak", "elm"], "winner": "AB"[i % 2],
         "votes": [{"judge": who, "winner": "AB"[(i + k) % 2]} for k, who in enumerate(RATERS)]}
        for i in range(10)
    ]  # fmt: skip
    text = "".join(json.dumps(row) + "\n" for row in rows)
    for one in look(file(tmp_path, text, "votes.jsonl")).readings:
        assert one.options["items"] == ("pair",)


def test_a_task_with_right_answers_is_no_vote(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        ["box_1", "box_2", f"box_{1 + i % 3 % 2}", int(i % 7 > 0)] for i in range(40)
    ]
    found = look(file(tmp_path, table(["left_box", "right_box", "selected_box", "correct"], rows)))
    assert not found.readings
    assert "correct says which answers are right" in found.problem
    # Whether each of the two was right says nothing of the task.
    both: list[list[object]] = [[*row[:3], row[3], i % 2] for i, row in enumerate(rows)]
    head = ["left_box", "right_box", "selected_box", "correct_1", "correct_2"]
    assert look(file(tmp_path, table(head, both))).readings


def test_fewer_names_of_winners_are_asked_about(tmp_path: Path) -> None:
    made_by = dict(zip(ITEMS, ("hard", "soft", "hard", "soft", "soft"), strict=True))
    rows: list[list[object]] = [
        [a, b, "A" if winner == a else "B", made_by[winner]] for a, b, winner, _ in VOTES
    ]
    path = file(tmp_path, table(["a_run", "b_run", "winner", "winner_model"], rows))
    found = look(path)
    assert not found.readings
    assert "winner_model names the winner otherwise" in found.problem
    data = read(
        path, "table", left="a_run", right="b_run", winner="winner", values="A=left,B=right"
    )
    check(data, raters=0)


def test_options_shown_twice_are_compared_once(tmp_path: Path) -> None:
    rows: list[list[object]] = [[*order[:4], order[0], order[3]] for order in ORDERS]
    for row in rows[:3]:
        row[2] = row[0]
    rows[3][3] = rows[3][5] = rows[3][4]
    head = ["Item1", "Item2", "Item3", "Item4", "BestItem", "WorstItem"]
    data, _ = as_proposed(file(tmp_path, table(head, rows)))
    # Three rows of three different items; in one the best is the worst as well.
    assert data.n_comparisons == 3 * 3 + 5 * (len(ORDERS) - 4)
    assert any("3 rows showed an item more than once" in note for note in data.warnings)
    assert data.skip_reasons == {"the best is the worst as well": 1}


@pytest.mark.parametrize("on_one_line", [True, False])
def test_of_several_lists_in_a_document_the_one_with_the_games_is_read(
    tmp_path: Path, *, on_one_line: bool
) -> None:
    players = [{"id": i, "name": name, "image": ""} for i, name in enumerate(ITEMS, 7)]
    numbers = {one["name"]: one["id"] for one in players}
    games = [
        {"id": 100 + i, "player1Id": numbers[a], "player2Id": numbers[b],
         "score": {str(numbers[a]): 11 if winner == a else i % 9,
                   str(numbers[b]): 11 if winner == b else i % 9}}
        for i, (a, b, winner, _) in enumerate(VOTES[:30])
    ]  # fmt: skip
    spectators = [{"id": i, "name": f"guest {i}"} for i in range(99)]
    document = {"players": players, "matches": games, "guests": spectators}
    text = json.dumps(document, indent=None if on_one_line else 1)
    data, options = as_proposed(file(tmp_path, text, "games.json"))
    assert (options["left"], options["right"]) == ("player1.name", "player2.name")
    assert (options["ranks"], options["higher"]) == (("player1.score", "player2.score"), "better")
    wins = dict.fromkeys(data.items, 0)
    for winner in data.winner.tolist():
        wins[data.items[winner]] += 1
    assert wins == {item: sum(vote[2] == item for vote in VOTES[:30]) for item in ITEMS}
    # An id of the winner, and lists by name: as before, the longest list.
    for game, vote in zip(games, VOTES, strict=False):
        game["winner_id"] = numbers[vote[2]]
        del game["score"]
    path = file(tmp_path, json.dumps(document), "games.json")
    data, options = as_proposed(path)
    assert options["winner"] in ("winner.name", "winner_id")
    assert sorted(data.items) == sorted(ITEMS)
    guests = file(tmp_path, json.dumps({"players": players, "guests": spectators}), "guests.json")
    assert look(guests).n_rows == len(spectators)


def test_numbered_photos_are_names_and_no_sides(tmp_path: Path) -> None:
    rows = [[vote[3], *(f"Photo {1 + ITEMS.index(x)}" for x in vote[:3])] for vote in VOTES]
    rows = [row for row in rows if "Photo 5" not in row]
    path = file(
        tmp_path, table(["judge", "alpha_1", "alpha_2", "choice"], [[*row] for row in rows])
    )
    data, _ = as_proposed(path)
    assert sorted(data.items) == [f"Photo {i}" for i in range(1, 5)]
    assert data.n_comparisons == len(rows)


def test_numbers_that_may_be_ids_of_other_rows_are_not_joined(tmp_path: Path) -> None:
    teams = [{"id": i, "name": name} for i, name in enumerate(ITEMS)]
    games = [
        {"home_id": ITEMS.index(a), "away_id": ITEMS.index(b),
         "home_goals": 3 if winner == a else 1, "away_goals": 3 if winner == b else 1}
        for a, b, winner, _ in VOTES[:30]
    ]  # fmt: skip
    path = file(tmp_path, json.dumps({"teams": teams, "games": games}), "games.json")
    names = [one.name for one in look(path).columns]
    assert {"home.name", "away.name"} < {*names}
    assert not {"home_goals.name", "away_goals.name"} & {*names}
    assert as_proposed(path)[1]["ranks"] == ("home_goals", "away_goals")
    # Nor are the ids scores.
    edges = [{"user1": i % 5, "user2": (i + 1 + i // 5) % 5, "weight": i % 3} for i in range(40)]
    path = file(tmp_path, json.dumps({"users": teams, "edges": edges}), "users.json")
    assert not look(path).readings


@pytest.mark.parametrize("empty", ["NA", "N/A"])
def test_an_empty_cell_as_programs_write_it_is_no_item(tmp_path: Path, empty: str) -> None:
    rows: list[list[object]] = [[vote[2], loser(vote)] for vote in VOTES]
    path = file(tmp_path, table(["winner", "loser"], [*rows, ["oak", empty], ["elm", empty]]))
    with pytest.raises(UnrankableError, match="which is how programs write an empty cell"):
        as_proposed(path)
    assert empty in read(path, force=True).items
    assert "Na" in read(file(tmp_path, table(["winner", "loser"], [*rows, ["oak", "Na"]]))).items


def worst() -> list[list[object]]:
    """Rater, left, right and the one that lost."""
    return [[vote[3], vote[0], vote[1], loser(vote)] for vote in VOTES]


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("question", "Which image is worse?"),
        ("instruction", "Select the image with more artifacts"),
        ("task", "noisier"),
        ("criterion", "Which one do you like least?"),
    ],
)
def test_a_question_for_the_worse_is_never_read_as_one_for_the_better(
    tmp_path: Path, name: str, asked: str
) -> None:
    head = ["rater", "left", "right", "choice", name]
    rows = [[*row, asked] for row in worst()]
    sides = [[who, a, b, ("left", "right")[lost == b], asked] for who, a, b, lost in worst()]
    for cells in (rows, sides):
        path = file(tmp_path, table(head, cells))
        with pytest.raises(UnclearError):
            read(path)
        data, options = as_proposed(path)
        assert options["loser"] == "choice"
        check(data)


def test_of_raters_as_columns_the_sides_are_turned_where_the_worse_was_asked(
    tmp_path: Path,
) -> None:
    rows: list[list[object]] = [
        ["Which is worse?", a, b, *["A" if winner == b else "B"] * 3] for a, b, winner, _ in VOTES
    ]
    head = ["question", "model_a", "model_b", "annotator_1", "annotator_2", "annotator_3"]
    data, options = as_proposed(file(tmp_path, table(head, rows)))
    assert options["values"] == {"B": "left", "A": "right"}
    wins = Counter(data.items[winner] for winner in data.winner.tolist())
    assert wins == {item: 3 * sum(vote[2] == item for vote in VOTES) for item in ITEMS}


@pytest.mark.parametrize(
    "asked",
    [
        "Which one is better?",
        "Which one has fewer artifacts?",
        "Select the best, whatever the noise",
    ],
)
def test_a_question_for_the_better_changes_nothing(tmp_path: Path, asked: str) -> None:
    rows: list[list[object]] = [[who, a, b, won, asked] for a, b, won, who in VOTES]
    check(read(file(tmp_path, table(["rater", "left", "right", "choice", "question"], rows))))


def test_words_of_prompts_say_nothing_of_the_choice(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [who, a, b, won, f"Which day was the worst of year {i}?"]
        for i, (a, b, won, who) in enumerate(VOTES)
    ]
    check(read(file(tmp_path, table(["rater", "left", "right", "choice", "prompt"], rows))))


def test_one_prompt_that_may_ask_for_the_worse_is_asked_about(tmp_path: Path) -> None:
    rows: list[list[object]] = [[*row, "Which one is worse?"] for row in worst()]
    path = file(tmp_path, table(["rater", "left", "right", "choice", "prompt"], rows))
    assert not look(path).readings
    said = look(path, winner="choice").readings[0]
    assert (said.confidence, said.options["winner"]) == ("likely", "choice")
    (said,) = look(path, loser="choice").readings
    assert (said.confidence, said.options["loser"]) == ("likely", "choice")


def test_two_questions_of_which_one_is_for_the_worse_are_not_read(tmp_path: Path) -> None:
    asked = ("Which is nicer?", "Which is noisier?")
    rows: list[list[object]] = [[*row, asked[i % 2]] for i, row in enumerate(worst())]
    inspection = look(file(tmp_path, table(["rater", "left", "right", "choice", "task"], rows)))
    assert not inspection.readings
    assert "the better or the worse" in inspection.problem


@pytest.mark.parametrize("name", ["most_annoying", "more distorted", "noisier", "more_toxic"])
def test_a_column_of_the_worse_is_proposed_as_the_loser(tmp_path: Path, name: str) -> None:
    sides = [[who, a, b, ("left", "right")[lost == b]] for who, a, b, lost in worst()]
    for rows in (worst(), sides):
        data, options = as_proposed(file(tmp_path, table(["rater", "left", "right", name], rows)))
        assert options["loser"] == name
        check(data)


def test_a_name_that_says_neither_better_nor_worse_is_asked_about(tmp_path: Path) -> None:
    rows: list[list[object]] = [[who, a, b, won] for a, b, won, who in VOTES]
    inspection = look(file(tmp_path, table(["rater", "left", "right", "brighter"], rows)))
    first, second = inspection.readings
    assert "the one that brighter says is taken for the better" in first.doubts
    assert (first.options["winner"], second.options["loser"]) == ("brighter", "brighter")


def test_lists_of_votes_are_not_read_across_votes(tmp_path: Path) -> None:
    said = [{"left": a, "right": b, "pick": "left" if won == a else "right"}
            for a, b, won, _ in VOTES]  # fmt: skip
    people = [{"user": f"u{i}", "votes": said[i : i + 4]} for i in range(0, len(said), 4)]
    data, options = as_proposed(file(tmp_path, json.dumps(people), "votes.json"))
    assert (options["left"], options["winner"]) == ("votes.*.left", "votes.*.pick")
    check(data, raters=len(people))


def test_a_grid_of_a_form_names_each_pair_in_brackets(tmp_path: Path) -> None:
    pairs = list(combinations(ITEMS, 2))
    head = ["Email Address", *(f"Which looks better? [{a} vs {b}]" for a, b in pairs)]
    rows: list[list[object]] = [
        [f"{who}@x.org", *(pair[(i + j) % 3 == 0] for j, pair in enumerate(pairs))]
        for i, who in enumerate("abcdefgh")
    ]
    path = file(tmp_path, table(head, rows))
    data, options = as_proposed(path)
    assert options["pairs"] == tuple(head[1:])
    assert sorted(data.items) == sorted(ITEMS)
    assert data.n_comparisons == 8 * len(pairs)
    assert look(path, pairs=",".join(head[1:3])).readings == ()
    worse = [name.replace("better", "worse") for name in head]
    assert not look(file(tmp_path, table(worse, rows))).readings


def test_a_third_item_beside_the_two_may_be_what_they_were_compared_with(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [who, a, b, "stone", "left" if won == a else "right", int(i % 7 == 3)]
        for i, (a, b, won, who) in enumerate(VOTES)
    ]
    head = ["worker", "img_left", "img_right", "img_pivot", "response", "is_trap"]
    first, second, *_ = look(file(tmp_path, table(head, rows))).readings
    assert (first.options["winner"], second.options["loser"]) == ("response", "response")
    assert "differs more from img_pivot" in second.difference
    assert first.options["rows"] == {"is_trap": "0"}
