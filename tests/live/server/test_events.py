"""What events of Label Studio mean, and what the store makes of them, in whatever order."""

from __future__ import annotations

from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

import bbq_plugin as bbq
from bbq_plugin.data.records import Comparison, Skipped
from bbq_plugin.errors import FormatError, UsageError
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.event_ingest import event_reader, take
from bbq_plugin.store.store import records_of
from tests.live.server.payloads import (
    EMAIL,
    SECRETS,
    body,
    bulk,
    deleted,
    event,
    project,
    tasks_deleted,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def stored(
    *events: dict[str, Any], given: Sequence[tuple[int, int]] = ()
) -> dict[str, tuple[str, str]]:
    """What is in a store that was told these events: the outcome and the rater by key."""
    reader = event_reader("label-studio")
    with Engine() as engine:
        for one in events:
            with engine.store.transaction() as transaction:
                take(transaction, reader, [reader(body(one), given)], "webhook", "test", 0.0)
            engine.apply(transaction.change)
        return {c.key: (c.outcome, str(c.rater)) for c in records_of(engine.store)}


def updated(selected: str = "right", **fields: Any) -> dict[str, Any]:
    return event(action="ANNOTATION_UPDATED", selected=selected, updated=60.0, **fields)


def test_a_created_annotation_is_an_answer_under_the_key_of_an_export() -> None:
    (record,) = event_reader("label-studio")(event()).records
    assert isinstance(record, Comparison)
    assert (record.key, record.rater) == ("ls:1:1", "2")
    assert (record.left, record.right, record.outcome) == ("model-a", "model-b", "left")
    assert record.time_s == 4.2


def test_a_changed_annotation_replaces_the_answer_whichever_event_comes_first() -> None:
    assert stored(event(), updated()) == {"ls:1:1": ("right", "2")}
    assert stored(updated(), event()) == {"ls:1:1": ("right", "2")}


def again(number: int, selected: str, at: float, **fields: Any) -> dict[str, Any]:
    """An annotation of rater 2 to task 1, whatever its own number is."""
    found = event(number, selected=selected, at=at, **fields)
    found["annotation"]["task"] = 1
    found["task"]["id"] = 1
    return found


def test_of_two_answers_of_a_rater_to_a_task_the_later_counts_at_once_in_any_order() -> None:
    first, second = again(1, "left", 0.0), again(2, "right", 60.0)
    others = again(3, "left", 30.0, rater=5)
    expected = {"ls:1:2": ("right", "2"), "ls:1:3": ("left", "5")}
    for order in permutations((first, second, others)):
        assert stored(*order) == expected
        # As a pull has it, where all of them stand side by side in one task.
        assert stored(bulk(*order)) == expected
    # The first one, changed after the second was made, is the later answer.
    changed = again(1, "right", 0.0, updated=90.0, action="ANNOTATION_UPDATED")
    for order in permutations((first, second, changed)):
        assert stored(*order) == {"ls:1:1": ("right", "2")}


def test_a_second_ranking_of_a_rater_replaces_all_pairs_of_the_first() -> None:
    def ranked(number: int, order: list[str], at: float) -> dict[str, Any]:
        of = {"r": {"type": "Ranker", "to_name": ["list"], "labels": []}}
        found = again(number, "left", at, of=project(1, of))
        found["task"]["data"] = {"images": [{"id": one, "title": one} for one in "abc"]}
        found["annotation"]["result"] = [
            {
                "type": "ranker", "from_name": "r", "to_name": "list",
                "value": {"ranker": {"rank": order}},
            }
        ]  # fmt: skip
        return found

    first, second = ranked(1, ["a", "b", "c"], 0.0), ranked(2, ["c", "b", "a"], 60.0)
    assert {key.rpartition(":")[0] for key in stored(first)} == {"ls:1:1"}
    for order in permutations((first, second)):
        assert {key.rpartition(":")[0] for key in stored(*order)} == {"ls:1:2"}


def test_a_later_answer_that_goes_away_asks_for_a_pull_of_the_earlier() -> None:
    first, second = again(1, "left", 0.0), again(2, "right", 60.0)
    cancelled = again(
        2, "right", 60.0, updated=90.0, was_cancelled=True, action="ANNOTATION_UPDATED"
    )
    for last in (deleted(2), cancelled):
        assert asked_for_a_pull(first, second, last) == [False, False, True]
    # Nothing is missing where another rater's answer, or an only one, is deleted.
    others = again(3, "left", 30.0, rater=5)
    assert not any(asked_for_a_pull(first, others, deleted(3), deleted(1)))


def asked_for_a_pull(*events: dict[str, Any]) -> list[bool]:
    reader, asked = event_reader("label-studio"), []
    with Engine() as engine:
        for one in events:
            calls: list[int] = []
            with engine.store.transaction() as transaction:
                news = [reader(body(one))]
                on_partial = partial(calls.append, 1)
                take(transaction, reader, news, "webhook", "test", 0.0, on_partial=on_partial)
            engine.apply(transaction.change)
            asked.append(bool(calls))
    return asked


def test_the_same_event_twice_is_one_answer() -> None:
    assert stored(event(), event()) == {"ls:1:1": ("left", "2")}


def test_what_was_deleted_stays_out_in_whatever_order_the_events_come() -> None:
    for order in permutations([event(), updated(), deleted(1), event(2)]):
        assert stored(*order) == {"ls:1:2": ("left", "2")}


def test_a_deleted_task_takes_its_answers_along() -> None:
    assert stored(event(1), event(2), tasks_deleted(1)) == {"ls:1:2": ("left", "2")}


def test_a_bulk_event_brings_all_of_its_annotations() -> None:
    events = [event(n, rater=n, items=("a", f"b{n}")) for n in range(1, 4)]
    assert set(stored(bulk(*events))) == {"ls:1:1", "ls:1:2", "ls:1:3"}


def test_an_annotation_that_is_cancelled_takes_the_answer_back() -> None:
    cancelled = updated("left", was_cancelled=True)
    assert stored(event(), cancelled) == {}
    assert stored(cancelled, event()) == {}


def test_an_annotation_that_we_cancelled_goes_on_counting() -> None:
    cancelled = updated("left", was_cancelled=True)
    assert stored(event(), cancelled, given=[(1, 1)]) == {"ls:1:1": ("left", "2")}


def test_an_event_of_an_unknown_kind_is_counted_and_changes_nothing() -> None:
    news = event_reader("label-studio")({"action": "SOMETHING_NEW", "project": {"id": 1}})
    (record,) = news.records
    assert isinstance(record, Skipped)
    assert record.expected


@pytest.mark.parametrize("action", ["ANNOTATION_CREATED", "TASKS_CREATED", "ANNOTATIONS_DELETED"])
def test_an_event_that_tells_too_little_asks_for_a_pull(action: str) -> None:
    assert event_reader("label-studio")({"action": action}).partial


def test_choices_are_read_alike_whichever_label_comes_first() -> None:
    control = {"pref": {"type": "Choices", "to_name": ["p"], "labels": ["A", "B", "tie"]}}

    def chosen(number: int, label: str) -> dict[str, Any]:
        found = event(number, of=project(control=control))
        found["annotation"]["result"] = [
            {"type": "choices", "from_name": "pref", "to_name": "p", "value": {"choices": [label]}}
        ]
        return found

    events = [chosen(1, "A"), chosen(2, "B"), chosen(3, "tie")]
    expected = {"ls:1:1": ("left", "2"), "ls:1:2": ("right", "2"), "ls:1:3": ("tie", "2")}
    for order in permutations(events):
        assert stored(*order) == expected


def test_a_project_whose_items_have_no_names_is_refused_with_the_keys() -> None:
    nameless = event()
    nameless["task"]["data"] = {"pairText1": "some text here", "other": "another text here"}
    with pytest.raises(FormatError, match="items="):
        event_reader("label-studio")(nameless)


def test_options_of_the_adapter_say_what_names_the_items() -> None:
    found = event()
    found["task"]["data"] = {"x": "model-a", "y": "model-b"}
    reader = event_reader("label-studio", {"items": "x,y"})
    (record,) = reader(found).records
    assert isinstance(record, Comparison)
    assert (record.left, record.right) == ("model-a", "model-b")


def test_no_secret_of_an_event_is_kept() -> None:
    found = event(completed_by={"id": 2, "email": EMAIL, "first_name": "Alice"})
    action, kept = event_reader("label-studio").stripped(body(found))
    assert action == "ANNOTATION_CREATED"
    assert not [secret for secret in SECRETS if secret.encode() in kept]
    (record,) = event_reader("label-studio")(kept).records
    assert isinstance(record, Comparison)
    assert record.rater == "2"


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b'{"action": 5}', b'{"action": "A", "task": 5}', b"\xff", b"[" * 9999],
)
def test_what_is_no_event_is_refused(text: bytes) -> None:
    with pytest.raises(FormatError):
        event_reader("label-studio").stripped(text)


def test_a_hook_takes_the_same_events(tmp_path: Path) -> None:
    with bbq.Hook(tmp_path / "state.db", adapter="label-studio") as hook:
        assert hook(event()) == 1
        assert hook(updated()) == 1
        assert hook(event()) == 0
        assert hook(bulk(event(2), event(3), event(4))) == 3
        assert hook(deleted(2)) == 1
        assert hook(event(2)) == 0
        assert hook(tasks_deleted(3)) == 1
        hook.flush()
        assert hook.fit.data.n_comparisons == 2
    told = event()
    told["task"]["data"] = {"x": "model-a", "y": "model-b"}
    with bbq.Hook(":memory:", adapter="label-studio", options={"items": "x,y"}) as hook:
        assert hook(told) == 1


def test_an_adapter_without_events_says_so() -> None:
    with pytest.raises(UsageError, match="no events"):
        event_reader("arena")
