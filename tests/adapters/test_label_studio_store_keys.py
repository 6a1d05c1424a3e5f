"""The keys of Label Studio's answers and tasks: what a store, a page and a pull make of them."""

from __future__ import annotations

import pytest
from bbq_adapters.label_studio import store_keys

from bbq_plugin.data.records import TaskRef


def test_the_key_of_a_pair_begins_with_that_of_its_answer_and_its_project() -> None:
    answer = store_keys.answer_key("3", "17")
    assert answer == "ls:3:17"
    assert store_keys.pair_key(answer, 0) == "ls:3:17:0"
    assert answer.startswith(store_keys.project_prefix("3"))
    assert store_keys.answer_key(None, "17") == "ls::17"
    assert store_keys.annotation_number(answer) == 17


@pytest.mark.parametrize(
    ("project", "task", "numbers"),
    [
        ("3", "4", (3, 4)),
        # A number with zeros before it, and one that is none, name no task of a server.
        ("3", "04", (None, None)),
        ("3", "x", (None, None)),
        (None, "4", (None, None)),
        ("3", "1" * 19, (None, None)),
    ],
)
def test_a_task_is_found_again_by_its_name(
    project: str | None, task: str, numbers: tuple[int | None, int | None]
) -> None:
    ref = store_keys.task_ref(project, task)
    assert ref[1:] == numbers
    assert store_keys.task_named(ref.name) == ref


def test_only_answers_of_a_server_have_a_page() -> None:
    url = "http://ls.example/projects/3/data?task=4&annotation=17"
    assert store_keys.answer_url("http://ls.example", "ls:3:17", 4) == url
    assert store_keys.answer_url("http://ls.example", "ls:3:17", "ls:3:task:4") == url
    assert store_keys.answer_url("http://ls.example", "ls::17", 4) is None
    assert store_keys.answer_url("http://ls.example", "ls:3:17", "ls:3:task:x") is None
    assert store_keys.answer_url("http://ls.example", "vote 7", 4) is None
    assert store_keys.task_named("elsewhere") == TaskRef("elsewhere")
