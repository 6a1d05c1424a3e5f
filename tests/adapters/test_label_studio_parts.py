"""The parts of the Label Studio adapter by what a user would notice of each."""

from __future__ import annotations

import io
import json
from typing import Any, cast

import pytest
from bbq_adapters.label_studio import LabelStudioAdapter, answers
from bbq_adapters.label_studio.comparison_control import described
from bbq_adapters.labels_and_item_names import label_meaning

from bbq_plugin.data.mappings import UnclearError
from bbq_plugin.data.records import Comparison, Skipped
from bbq_plugin.errors import FormatError, UsageError


def stream(content: bytes | str) -> io.BufferedReader:
    raw = content.encode() if isinstance(content, str) else content
    return cast("io.BufferedReader", io.BufferedReader(cast("io.RawIOBase", io.BytesIO(raw))))


def read(tasks: Any, **options: Any) -> list[Comparison | Skipped]:
    content = tasks if isinstance(tasks, (bytes, str)) else json.dumps(tasks)
    found = LabelStudioAdapter().read(stream(content), "e.json", **options)
    return [record for record in found if isinstance(record, (Comparison, Skipped))]


def compared(tasks: Any, **options: Any) -> list[tuple[str, str, str]]:
    return [
        (record.left, record.right, record.outcome)
        for record in read(tasks, **options)
        if isinstance(record, Comparison)
    ]


def result(kind: str, value: Any, control: str = "c", about: str = "t") -> dict[str, Any]:
    return {"type": kind, "from_name": control, "to_name": about, "value": value}


MODELS = {"model_left": "gpt", "model_right": "llama"}


def task(
    results: list[Any] | None = None, data: Any = None, number: int = 1, **more: Any
) -> dict[str, Any]:
    default = [result("pairwise", {"selected": "left"})]
    annotation = {
        "id": number,
        "completed_by": 7,
        "result": default if results is None else results,
        **more,
    }
    return {
        "id": number,
        "project": 3,
        "data": MODELS if data is None else data,
        "annotations": [annotation],
    }


# -- nesting


@pytest.mark.parametrize("depth", [400, 900, 1100, 100_000])
@pytest.mark.parametrize("where", ["selected", "model_left", "result"])
def test_values_nested_too_deeply_are_skipped_or_refused(depth: int, where: str) -> None:
    deep = "[" * depth + "]" * depth
    ordinary = json.dumps([task(), task(), task(number=2)])
    parts = {"selected": '"left"', "model_left": '"gpt"', "result": "[{"}
    head, mark, tail = ordinary.partition(f'"{where}": {parts[where]}')
    assert mark
    broken = deep + ', "x": [{' if where == "result" else deep
    content = f'{head}"{where}": {broken}{tail}'
    try:
        assert all(isinstance(record, (Comparison, Skipped)) for record in read(content))
    except FormatError as error:
        assert "deep" in str(error) or "names of the items" in str(error)  # noqa: PT017


# -- kinds of files


def test_a_byte_order_mark_and_windows_line_ends_do_not_matter() -> None:
    content = json.dumps([task()], indent=1).replace("\n", "\r\n").encode()
    assert compared(b"\xef\xbb\xbf" + content) == [("gpt", "llama", "left")]
    table = (
        b'\xef\xbb\xbf"annotation_id","annotator","created_at","id","lead_time","model1","model2",'
        b'"pw","updated_at"\r\n1,"2","2026-01-01T00:00:00Z",5,1.5,"gpt","llama",'
        b'"[{""selected"":""right""}]",""\r\n'
    )
    assert compared(table) == [("gpt", "llama", "right")]


def test_an_empty_array_has_no_records() -> None:
    assert read("[]") == []


def test_other_json_is_not_recognised_and_not_read() -> None:
    adapter = LabelStudioAdapter()
    for head in (b'[{"model_a": "x"}]', b"[1]", b'{"annotations": []}', b"model_a,model_b\n", b""):
        assert adapter.sniff(head, "x") is None
    with pytest.raises(FormatError, match=r"not a task of Label Studio.*project as JSON"):
        read('[{"model_a": "x"}]')


def test_a_table_that_was_cut_or_edited_is_refused() -> None:
    header = "annotation_id,annotator,created_at,lead_time,updated_at,id,model1,model2,pw\n"
    with pytest.raises(FormatError, match="has 2 columns where the header has 9"):
        read(header + "1,2\n")
    with pytest.raises(FormatError, match="there is no column annotation_id"):
        read("a,b\n1,2\n")
    with pytest.raises(FormatError, match="not UTF-8"):
        read(header.encode() + b"1,2,,,,\xff,,,\n")


# -- items


@pytest.mark.parametrize(
    ("data", "names"),
    [
        ({"model1": "x", "model2": "y"}, ("x", "y")),
        ({"model_b": "y", "model_a": "x"}, ("x", "y")),
        ({"modelA": "x", "modelB": "y"}, ("x", "y")),
        ({"right_system": "y", "left_system": "x"}, ("x", "y")),
        ({"answer1_id": 4, "answer2_id": 5.0}, ("4", "5")),
        ({"first_method": "x", "second_method": "y", "method": "z"}, ("x", "y")),
        ({"models": ["x", "y"], "prompt": "?"}, ("x", "y")),
    ],
)
def test_names_are_found_when_unambiguous(data: Any, names: tuple[str, str]) -> None:
    assert compared([task(data=data)]) == [(*names, "left")]


@pytest.mark.parametrize(
    "data",
    [
        {"text1": "x", "text2": "y"},
        {"model1_answer": "x", "model2_answer": "y"},
        {"model1": "x", "model2": "y", "id1": "p", "id2": "q"},
        {"model1": "https://example.com/1.png", "model2": "https://example.com/2.png"},
        {"model1": "a\nb", "model2": "c"},
        {"model1": "x", "model2": "y", "model3": "z"},
        {"model": "x", "other": "y"},
        {},
    ],
)
def test_names_in_doubt_are_refused_with_the_keys(data: Any) -> None:
    with pytest.raises(FormatError, match="with the option items=") as caught:
        read([task(data=data)])
    for key in data:
        assert repr(key) in str(caught.value)


def test_hostile_keys_and_values_are_quoted_in_messages() -> None:
    with pytest.raises(FormatError) as caught:
        read([task(data={"a\x1b[31m\n": "b\x1b]0;x\x07" * 50})])
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700


def test_names_may_be_deep_in_the_data() -> None:
    data = {"pair": {"left": {"name": "x"}, "right": {"name": "y"}}, "both": ["p", "q"]}
    assert compared([task(data=data)], items="pair.left.name,pair.right.name") == [
        ("x", "y", "left")
    ]
    assert compared([task(data=data)], items="both.1,both.0") == [("q", "p", "left")]
    assert compared([task(data=data)], items="both") == [("p", "q", "left")]


def test_a_misspelt_key_is_refused_with_the_one_meant() -> None:
    with pytest.raises(FormatError, match=r"'modle_left'.*did you mean 'model_left'"):
        read([task()], items="modle_left,model_right")
    with pytest.raises(FormatError, match="names 3 keys where 2 items are shown"):
        read([task(data={**MODELS, "x": 1})], items="model_left,model_right,x")


def test_a_file_without_any_names_is_refused_at_its_end() -> None:
    with pytest.raises(FormatError, match="no task names its items"):
        read([task(data={"m1": None, "m2": "x"})], items="m1,m2")


# -- controls


def test_two_controls_that_compare_need_a_choice() -> None:
    both = [
        result("pairwise", {"selected": "left"}, "help"),
        result("pairwise", {"selected": "right"}, "harm"),
    ]
    with pytest.raises(FormatError, match="'help', 'harm'; say which with the option control=help"):
        read([task(both)])
    assert compared([task(both)], control="harm") == [("gpt", "llama", "right")]
    with pytest.raises(FormatError, match=r"the control 'hrm'.*did you mean 'harm'"):
        read([task(both)], control="hrm")
    with pytest.raises(FormatError, match="only if all are Ratings"):
        read([task(both)], control="help,harm")


def test_a_scale_of_numbers_beside_a_pairwise_is_not_taken_for_a_verdict() -> None:
    results = [
        result("pairwise", {"selected": "left"}, "pw"),
        result("choices", {"choices": ["2"]}, "confidence"),
    ]
    assert compared([task(results)]) == [("gpt", "llama", "left")]


def test_ratings_are_paired_by_what_they_are_about() -> None:
    results = [
        result("rating", {"rating": 2}, "quality", "text1"),
        result("rating", {"rating": 5}, "worth", "text2"),
    ]
    assert compared([task(results)]) == [("gpt", "llama", "right")]


def test_three_ratings_rank_three_items() -> None:
    data = {"model1": "a", "model2": "b", "model3": "c"}
    results = [result("rating", {"rating": r}, f"r{i}") for i, r in ((1, 3), (2, 5), (3, 3))]
    assert compared([task(results, data)]) == [("b", "a", "left"), ("b", "c", "left")]


@pytest.mark.parametrize(
    ("label", "outcome"),
    [
        ("left", "left"),
        ("A", "left"),
        ("Response B", "right"),
        ("I prefer the second answer", "right"),
        ("Model 1 is much better", "left"),
        ("Tie", "tie"),
        ("No preference", "tie"),
        ("Equally good", "tie"),
        ("tie (bothbad)", "both_bad"),
        ("Both are bad", "both_bad"),
        ("A >> B", "left"),
        ("1 < 2", "right"),
        ("B > A", "right"),
        ("Left = Right", "tie"),
    ],
)
def test_well_known_labels(label: str, outcome: str) -> None:
    assert compared([task([result("choices", {"choices": [label]})])]) == [
        ("gpt", "llama", outcome)
    ]


@pytest.mark.parametrize(
    "label",
    ["A is worse", "not A", "A or B", "neither", "left right", "A > 2", "yes", "", "ñ"],
)
def test_labels_that_could_mean_anything_are_not_guessed(label: str) -> None:
    assert label_meaning(label) is None


def test_a_label_that_turns_up_late_is_refused_where_it_stands() -> None:
    many = [task([result("choices", {"choices": ["left"]})], number=n) for n in range(150)]
    many.append(task([result("choices", {"choices": ["dunno"]})], number=150))
    with pytest.raises(FormatError, match=r"'dunno' is not known .*task 150.*labels=dunno=skip"):
        read(many)


def test_entries_with_a_model_beside_the_id_need_a_choice() -> None:
    data = {"items": [{"id": "t1-1", "model": "gpt"}, {"id": "t1-2", "model": "llama"}]}
    ranked = [result("ranker", {"ranker": {"c": ["t1-2", "t1-1"]}})]
    with pytest.raises(FormatError, match=r"items=items\.model or items=items"):
        read([task(ranked, data)])
    assert compared([task(ranked, data)], items="items.model") == [("llama", "gpt", "left")]
    assert compared([task(ranked, data)], items="items") == [("t1-2", "t1-1", "left")]


def test_a_ranking_whose_list_is_not_in_the_data_names_the_items_itself() -> None:
    ranked = [result("ranker", {"ranker": {"c": ["x", "y"]}})]
    assert compared([task(ranked, {"prompt": "?"})]) == [("x", "y", "left")]


def test_a_misspelt_bucket_is_refused_with_the_one_meant() -> None:
    ranked = [result("ranker", {"ranker": {"good": ["x"], "bad": ["y"], "_": []}})]
    data = {"items": ["x", "y"]}
    with pytest.raises(FormatError, match=r"bucket 'goood'.*'bad', 'good'; did you mean 'good'"):
        read([task(ranked, data)], buckets="goood,bad")
    assert compared([task(ranked, data)], buckets="bad,good") == [("y", "x", "left")]


# -- annotations


def test_a_task_with_very_many_annotations_is_read_in_time() -> None:
    many = [{**task()["annotations"][0], "id": n, "completed_by": n % 5000} for n in range(10_000)]
    assert len(compared([{**task(), "annotations": many}])) == 5000


def test_the_newest_answer_of_a_rater_to_a_task_counts_whatever_the_order() -> None:
    old = task(updated_at="2026-01-01T00:00:00Z")["annotations"][0]
    right = [result("pairwise", {"selected": "right"})]
    new = task(right, number=2, updated_at="2026-01-02T00:00:00Z")["annotations"][0]
    for order in ([old, new], [new, old]):
        both = {**task(), "annotations": order}
        assert compared([both]) == [("gpt", "llama", "right")]


def test_the_same_annotation_twice_in_a_task_counts_once() -> None:
    one = task()["annotations"][0]
    assert compared([{**task(), "annotations": [one, one]}]) == [("gpt", "llama", "left")]


@pytest.mark.parametrize(
    ("person", "rater"),
    [
        (7, "7"),
        ({"id": 7, "email": "ann@example.com"}, "7"),
        ({"email": "ann@example.com"}, "ann@example.com"),
        ("ann@example.com", "ann@example.com"),
    ],
)
def test_the_same_person_has_one_name_in_all_json_exports(person: Any, rater: str) -> None:
    (record,) = read([task(completed_by=person)])
    assert isinstance(record, Comparison)
    assert record.rater == rater


@pytest.mark.parametrize("person", [None, {}, True, [], {"id": None}, ""])
def test_nobody_is_invented_for_a_deleted_account(person: Any) -> None:
    (record,) = read([task(completed_by=person)])
    assert isinstance(record, Skipped)
    assert record.reason == "the rater's account was deleted"


def test_an_accepted_prediction_that_a_person_submitted_counts() -> None:
    assert compared([task(parent_prediction=1, lead_time=2.5)]) == [("gpt", "llama", "left")]
    assert compared([task(parent_prediction=1, lead_time=None)]) == []


def test_odd_times_are_unknown_and_not_an_error() -> None:
    odd: tuple[Any, ...] = (-1, "soon", True, 10**400, [], "nan")
    for time in odd:
        (record,) = read([task(lead_time=time, created_at=time)])
        assert isinstance(record, Comparison)
        assert record.time_s is None
        assert record.at is None


# -- options


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"items": "a,,b"}, "items is 'a,,b'"),
        ({"items": 5}, "items is 5"),
        ({"control": "a,a"}, "control is 'a,a'; expected different names"),
        ({"labels": "left"}, "labels is 'left'; expected labels and what they mean"),
        ({"labels": "A=first"}, "a label means 'first'; expected left, right, tie"),
        ({"labels": {"A": True}}, "a label means True"),
        ({"labels": {}}, "labels is {}"),
        ({"labels": "{broken"}, "labels is '{broken'"),
        ({"weights": "heavy"}, "weights is 'heavy'; expected 'information' or 'unit'"),
        ({"within": None}, "within is None"),
        ({"ground_truth": ["use"]}, "ground_truth is"),
    ],
)
def test_wrong_options_are_refused_with_the_right_ones(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UsageError) as caught:
        LabelStudioAdapter().read(stream("[]"), "x", **options)
    assert problem in str(caught.value)


def test_labels_on_a_command_line() -> None:
    results = [result("choices", {"choices": ["x = y is best"]})]
    assert compared([task(results)], labels="x = y is best=right, no=tie") == [
        ("gpt", "llama", "right")
    ]


def test_both_bad_can_be_dropped() -> None:
    tasks = [task([result("choices", {"choices": ["both bad"]})])]
    assert compared(tasks) == [("gpt", "llama", "both_bad")]
    (record,) = read(tasks, both_bad="drop")
    assert isinstance(record, Skipped)
    assert record.expected


def test_places_as_labels() -> None:
    data = {"model1": "a", "model2": "b", "model3": "c"}
    results = [result("choices", {"choices": ["rot", "blau"]})]
    labels = {"rot": 1, "grün": "2", "blau": 3}
    assert compared([task(results, data)], labels=labels) == [
        ("a", "b", "left"),
        ("c", "b", "left"),
    ]


# -- what is proposed


def sources(n: int = 20) -> list[dict[str, Any]]:
    names = ("gpt", "llama", "palm")
    return [
        task(
            data={
                "text1": f"a long answer {i}", "text2": f"another answer {i}", "prompt": f"q{i}",
                "source_of_first": names[i % 3], "source_of_second": names[(i + 1) % 3],
            },
            number=i + 1,
        )
        for i in range(n)
    ]  # fmt: skip


def test_names_are_proposed_by_their_values_and_texts_are_not() -> None:
    with pytest.raises(UnclearError, match="items=source_of_first,source_of_second") as caught:
        read(sources())
    (first, *rest) = caught.value.readings
    assert first.options == {"items": ("source_of_first", "source_of_second")}
    assert "'gpt', 'llama', 'palm'" in first.doubts[0]
    assert all("text1" not in one.options["items"] for one in rest)
    assert len(compared(sources(), items="source_of_first,source_of_second")) == 20


def test_texts_alone_are_not_proposed_as_names() -> None:
    tasks = [
        {**one, "data": {key: one["data"][key] for key in ("text1", "text2", "prompt")}}
        for one in sources()
    ]
    with pytest.raises(UnclearError, match="add the names to the tasks") as caught:
        read(tasks)
    assert not caught.value.readings


def test_an_unknown_label_is_asked_about_and_egal_is_a_tie() -> None:
    def answer(label: str, number: int) -> dict[str, Any]:
        return task([result("choices", {"choices": [label]})], number=number)

    known = [answer(label, i) for i, label in enumerate(("links", "egal", "rechts"), 1)]
    assert [outcome for _, _, outcome in compared(known)] == ["left", "tie", "right"]
    unknown = [answer(label, i) for i, label in enumerate(("links", "wurscht", "rechts"), 1)]
    with pytest.raises(UnclearError, match="'wurscht'") as caught:
        read(unknown)
    said = [one.options["labels"]["wurscht"] for one in caught.value.readings]
    assert said == ["tie", "skip"]
    labels = {"links": "left", "rechts": "right", "wurscht": "tie"}
    assert caught.value.readings[0].options["labels"] == labels


def test_a_label_that_says_none_is_first_no_answer() -> None:
    labels = ("Option A", "Keine", "Option B")
    unknown = [
        task([result("choices", {"choices": [label]})], number=i)
        for i, label in enumerate(labels, 1)
    ]
    with pytest.raises(UnclearError, match="'Keine'") as caught:
        read(unknown)
    assert [one.options["labels"]["Keine"] for one in caught.value.readings] == ["skip", "tie"]


def test_languages_are_not_proposed_as_names_and_nested_names_are() -> None:
    tongues = ("en", "de", "fr")
    tasks = [
        {**one, "data": {
            "lang1": tongues[i % 3], "lang2": tongues[(i + 1) % 3], "text1": f"a long answer {i}",
            "text2": f"another answer {i}",
            "sys": {"first": one["data"]["source_of_first"],
                    "second": one["data"]["source_of_second"]},
        }}
        for i, one in enumerate(sources())
    ]  # fmt: skip
    with pytest.raises(UnclearError) as caught:
        read(tasks)
    assert [one.options["items"] for one in caught.value.readings] == [("sys.first", "sys.second")]
    assert len(compared(tasks, items="sys.first,sys.second")) == 20


def test_all_controls_that_compare_are_named() -> None:
    three = [
        result("pairwise", {"selected": "left"}, control)
        for control in ("fluency", "tone", "overall")
    ]
    with pytest.raises(
        UnclearError, match="control=fluency or control=tone or control=overall"
    ) as caught:
        read([task(three)])
    assert [one.options["control"] for one in caught.value.readings] == [
        ("fluency",), ("tone",), ("overall",),
    ]  # fmt: skip


def test_a_task_of_unusual_length_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_LONGEST_TASK", 1 << 20)
    long = task(data={**MODELS, "prompt": "x" * (4 << 20)})
    with pytest.raises(FormatError, match="a task is longer than 1 MB"):
        read([task(), long])


def test_answers_are_found_behind_any_number_of_open_tasks() -> None:
    many = [{"id": n, "data": MODELS, "annotations": [], "drafts": []} for n in range(20_000)]
    found = read([*many, task(number=20_001)])
    assert [one for one in found if isinstance(one, Comparison)]
    assert sum(isinstance(one, Skipped) for one in found) == 20_000


def test_all_questions_of_a_project_are_named_before_its_answers_are_read() -> None:
    controls = {name: {"type": "Choices", "to_name": ["t"]} for name in ("overall", "fluency")}
    found = described((), list(controls), controls, looked=False)
    assert found == "control 'overall' (Choices of t); control 'fluency' (Choices of t)"
