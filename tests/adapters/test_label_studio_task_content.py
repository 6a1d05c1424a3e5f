"""What a task of Label Studio shows: prompt, sides and reasons, from data that may be anything."""

from __future__ import annotations

from typing import Any

from bbq_adapters.label_studio.comparison_control import Question
from bbq_adapters.label_studio.server_project import LONGEST_TEXT, task_content
from bbq_adapters.labels_and_item_names import Keys, Listed

from bbq_plugin.protocols import ShownField, TaskContent

SIDES = Question("places", ("pref",), Keys(("model1", "model2")))


def shown(data: dict[str, Any], config: str, question: Question | None = SIDES) -> TaskContent:
    task = {"id": 7, "data": data, "annotations": []}
    return task_content(
        task, server="http://ls.example", project=5, config=config, parsed={}, question=question
    )


def test_only_what_the_configuration_shows_is_parted_into_prompt_and_sides() -> None:
    data = {"prompt": "Why?", "text2": "b", "text1": "a", "model1": "m", "model2": "n", "id": "x"}
    config = '<Text value="$prompt"/><Text value="$text1"/><Text value="$text2"/>'
    found = shown(data, config)
    assert found.prompt == (ShownField("prompt", "Why?"),)
    assert [(side.item, [one.text for one in side.fields]) for side in found.sides] == [
        ("m", ["a"]), ("n", ["b"]),
    ]  # fmt: skip


def test_a_pairwise_control_says_which_key_is_left_whatever_it_is_called() -> None:
    question = Question("pairwise", ("pw",), Keys(("x", "y")))
    parsed = {"pw": {"inputs": [{"value": "swan"}, {"value": "crow"}]}}
    task = {"data": {"crow": "c", "swan": "s", "x": "m", "y": "n", "ask": "?"}}
    config = "$crow $swan $ask"
    found = task_content(
        task, server="", project=5, config=config, parsed=parsed, question=question
    )
    assert [(side.item, side.fields[0].text) for side in found.sides] == [("m", "s"), ("n", "c")]
    assert [one.name for one in found.prompt] == ["ask"]


def test_addresses_are_links_of_the_task_and_of_the_server_and_nothing_else_is() -> None:
    data = {
        "a": "https://x.example/1.wav", "b": "/data/upload/5/a b.png", "c": "/data/upload/5/a.png",
        "d": "javascript:alert(1)", "e": "s3://bucket/key", "f": "//evil.example/x", "g": "/etc",
    }  # fmt: skip
    found = {one.name: one.url for one in shown(data, "", None).prompt}
    assert found.pop("a") == "https://x.example/1.wav"
    assert found.pop("c") == "http://ls.example/data/upload/5/a.png"
    assert set(found.values()) == {None}


def test_entries_of_a_list_are_the_sides_of_a_ranking() -> None:
    question = Question("ranker", ("rank",), Listed("answers", "model"))
    entries = [
        {"id": "1", "title": "T", "body": "first", "model": "m"},
        {"id": "2", "body": "second", "model": "n"},
    ]
    found = shown({"answers": entries, "ask": "?"}, "$answers $ask", question)
    assert [side.item for side in found.sides] == ["m", "n"]
    assert "first" in [one.text for one in found.sides[0].fields]
    assert found.prompt == (ShownField("ask", "?"),)


def test_dialogues_long_texts_and_other_values_are_text() -> None:
    turns = [{"author": "me", "text": "hi"}, {"text": "ho"}]
    data = {"chat": turns, "long": "x" * (LONGEST_TEXT + 5), "n": 3, "o": {"k": [1]}}
    found = {one.name: one.text for one in shown(data, "", None).prompt}
    assert found["chat"] == "me: hi\nho"
    assert len(found["long"]) == LONGEST_TEXT + 2
    assert found["n"] == "3"
    assert '"k"' in found["o"]


def test_reasons_belong_to_their_answer_and_odd_results_are_passed_over() -> None:
    def area(value: Any) -> dict[str, Any]:
        return {"type": "textarea", "value": value}

    results = [area({"text": ["because", " "]}), area({"text": "and"}), area(None), "odd", 3]
    task = {"data": {}, "annotations": [{"id": 9, "result": results}, {"id": 10, "result": None}]}
    found = task_content(task, server="", project=5, config="", parsed=None, question=None)
    assert found.reasons == {"ls:5:9": ("because", "and")}
