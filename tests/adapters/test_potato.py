"""The folder of a Potato project, written here as Potato writes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from bbq_adapters.potato import Potato, PotatoAdapter, config_of, ordered_file
from click.testing import CliRunner

import bbq_plugin as bbq
from bbq_plugin.cli import main
from bbq_plugin.data.files import records
from bbq_plugin.data.records import Comparison, Skipped
from bbq_plugin.errors import FormatError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from bbq_plugin.protocols import Adapter, Tool

    # By entry point no type checker sees that they keep their promises.
    ADAPTER: Adapter = PotatoAdapter()
    TOOL: Tool = Potato()

PAIRWISE = {"annotation_type": "pairwise", "name": "better", "items_key": "shown"}


class Project:
    """A folder with a configuration, tasks and annotators."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "data").mkdir()
        self.configure(PAIRWISE)
        self.tasks({"id": "t1", "shown": ["x", "y"], "model_a": "gpt", "model_b": "llama"})

    def configure(self, *schemes: dict[str, Any], **more: Any) -> None:
        said = {
            "annotation_task_name": "Study",
            "output_annotation_dir": "answers",
            "data_files": ["data/tasks.jsonl"],
            "item_properties": {"id_key": "id", "text_key": "shown"},
            "annotation_schemes": list(schemes),
        }
        # JSON is YAML too.
        (self.folder / "config.yaml").write_text(json.dumps(said | more))

    def tasks(self, *tasks: dict[str, Any]) -> None:
        lines = "".join(json.dumps(task) + "\n" for task in tasks)
        (self.folder / "data" / "tasks.jsonl").write_text(lines)

    def say(self, rater: str, answers: dict[str, dict[str, dict[str, Any]]], **more: Any) -> Path:
        """Answers by task, scheme and label."""
        file = self.folder / "answers" / rater / "user_state.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        labels = {
            task: [
                [{"schema": scheme, "name": name}, value]
                for scheme, found in given.items()
                for name, value in found.items()
            ]
            for task, given in answers.items()
        }
        state = {"user_id": rater, "instance_id_ordering": list(answers)}
        file.write_text(json.dumps(state | {"instance_id_to_label_to_value": labels} | more))
        return file

    def said(self, file: Path, **options: Any) -> list[tuple[str, str, str]]:
        found = [one for one in records(file, **options) if isinstance(one, Comparison)]
        return [(one.left, one.right, one.outcome) for one in found]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.mark.parametrize(("value", "outcome"), [("A", "left"), ("B", "right"), ("tie", "tie")])
def test_a_pair_is_read_with_the_names_of_its_task(
    project: Project, value: str, outcome: str
) -> None:
    file = project.say("ann", {"t1": {"better": {"selection": value}}})
    assert project.said(file) == [("gpt", "llama", outcome)]


def test_an_answer_counts_for_the_item_that_this_annotator_saw_first(project: Project) -> None:
    shown = {"instance_id_to_presentation_order": {"t1": {"better": [1, 0]}}}
    file = project.say("ann", {"t1": {"better": {"selection": "A"}}}, **shown)
    assert project.said(file) == [("llama", "gpt", "left")]


@pytest.mark.parametrize(("value", "outcome"), [("-2", "left"), (3, "right"), (0, "tie")])
def test_a_scale_says_which_is_better(project: Project, value: Any, outcome: str) -> None:
    project.configure(PAIRWISE | {"mode": "scale", "scale": {"min": -3, "max": 3}})
    file = project.say("ann", {"t1": {"better": {"scale_value": value}}})
    assert project.said(file) == [("gpt", "llama", outcome)]


def test_each_dimension_is_a_question(project: Project) -> None:
    dimensions = [{"name": "fluent"}, {"name": "true"}]
    project.configure(PAIRWISE | {"mode": "multi_dimension", "dimensions": dimensions})
    file = project.say("ann", {"t1": {"better": {"fluent": "A", "true": "B"}}})
    assert project.said(file, question="better.true") == [("gpt", "llama", "right")]
    with pytest.raises(
        bbq.BBQError, match=r"several schemes compare: better\.fluent, better\.true"
    ):
        project.said(file)
    with pytest.raises(UsageError, match=r"did you mean 'better\.true'"):
        project.said(file, question="better.tru")


def test_a_ranking_of_places_is_read_by_the_names_of_its_task(project: Project) -> None:
    project.configure({"annotation_type": "ranking", "name": "order", "labels": ["A", "B", "C"]})
    project.tasks({"id": "t1", "models": ["gpt", "llama", "qwen"]})
    file = project.say("ann", {"t1": {"order": {"rank_order": "C,A,B"}}})
    wins = [("qwen", "gpt", "left"), ("qwen", "llama", "left"), ("gpt", "llama", "left")]
    assert project.said(file) == wins
    (slate,) = {one.slate for one in records(file) if isinstance(one, Comparison)}
    assert slate == "potato:Study:order:t1:ann"


def test_labels_that_are_items_name_themselves(project: Project) -> None:
    project.configure({"annotation_type": "ranking", "name": "order", "labels": ["gpt", "llama"]})
    file = project.say("ann", {"t1": {"order": {"rank_order": "llama,gpt"}}})
    assert project.said(file) == [("llama", "gpt", "left")]


def test_best_and_worst_need_the_tuples_that_potato_keeps_to_itself(project: Project) -> None:
    project.configure({"annotation_type": "bws", "name": "ends"}, bws_config={"tuple_size": 4})
    file = project.say("ann", {"bws_tuple_0001": {"ends": {"best": "D", "worst": "A"}}})
    with pytest.raises(FormatError, match=r"python -m bbq_adapters\.potato http"):
        project.said(file)
    tuples = {"id": "bws_tuple_0001", "items": ["gpt", "llama", "qwen", "phi"]}
    (project.folder / "bws_tuples.jsonl").write_text(json.dumps(tuples) + "\n")
    assert {(one[0], one[1]) for one in project.said(file)} == {
        ("phi", "llama"), ("phi", "qwen"), ("phi", "gpt"), ("llama", "gpt"), ("qwen", "gpt"),
    }  # fmt: skip


def test_what_cannot_be_used_is_counted_with_a_reason(project: Project) -> None:
    said = {"t1": {"better": {"selection": "neither"}}, "t9": {"better": {"selection": "A"}}}
    found = [one for one in records(project.say("ann", said)) if isinstance(one, Skipped)]
    assert [(one.value, one.expected) for one in found] == [("neither", False), ("t9", False)]


def test_names_that_are_not_clear_are_asked_for(project: Project) -> None:
    project.tasks({"id": "t1", "shown": ["x", "y"], "left": "gpt", "right": "llama"})
    file = project.say("ann", {"t1": {"better": {"selection": "A"}}})
    with pytest.raises(bbq.BBQError, match="names of the items"):
        project.said(file)
    assert project.said(file, items="left,right") == [("gpt", "llama", "left")]


def test_a_folder_is_read_as_it_is(project: Project) -> None:
    for rater in ("ann", "bob: the 2nd", "="):
        project.say(rater, {"t1": {"better": {"selection": "A"}}})
    data = bbq.read(project.folder)
    assert sorted(data.raters) == ["=", "ann", "bob: the 2nd"]
    assert data.n_comparisons == 3


def test_a_folder_without_answers_and_a_folder_of_no_project_say_so(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.raises(FormatError, match="a project of potato, and it has no answers yet"):
        bbq.read(project.folder)
    with pytest.raises(FormatError, match=r"is a folder; name its files"):
        bbq.read(tmp_path_factory.mktemp("other"))


def test_an_annotators_file_without_its_project_says_what_is_missing(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = project.say("ann", {"t1": {"better": {"selection": "A"}}})
    alone = tmp_path_factory.mktemp("alone") / "user_state.json"
    alone.write_bytes(file.read_bytes())
    with pytest.raises(FormatError, match="no configuration of a project is above it"):
        bbq.read(alone)
    found = bbq.read(alone, config=str(project.folder / "config.yaml"))
    assert found.n_comparisons == 1


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ("annotation_schemes: [", "config.yaml:1: this is no YAML"),
        ("annotation_schemes: 3", "it has no list annotation_schemes"),
        ("annotation_schemes: [{annotation_type: span, name: a}]", "no scheme compares"),
        ("annotation_schemes: []\noutput_annotation_dir: /elsewhere", "the answers are elsewhere"),
    ],
)
def test_a_bad_configuration_is_named(project: Project, config: str, why: str) -> None:
    project.say("ann", {"t1": {"better": {"selection": "A"}}})
    text = config if "elsewhere" in config else f"output_annotation_dir: answers\n{config}"
    (project.folder / "config.yaml").write_text(config if "YAML" in why else text)
    with pytest.raises(FormatError, match=why):
        bbq.read(project.folder)


def test_inspect_shows_a_project_as_one_and_its_command_runs(project: Project) -> None:
    project.tasks(
        {"id": "t1", "shown": ["x", "y"], "model_a": "gpt", "model_b": "llama"},
        {"id": "t2", "shown": ["x", "y"], "model_a": "llama", "model_b": "palm"},
    )
    for rater in ("ann", "bob"):
        pairs = {task: {"better": {"selection": "A"}} for task in ("t1", "t2")}
        project.say(rater, pairs)
    done = CliRunner().invoke(main, ["inspect", str(project.folder)])
    assert done.exit_code == 0, done.output
    assert "2 files with answers" in done.output
    assert "4 comparisons, 3 items, 2 raters, 0 ties, 0 skipped" in done.output
    assert done.output.splitlines()[-1] == f"Try: bbq fit {project.folder}"


def test_inspect_names_the_schemes_of_a_project_that_has_two(project: Project) -> None:
    project.configure(PAIRWISE, PAIRWISE | {"name": "nicer"})
    both = {"better": {"selection": "A"}, "nicer": {"selection": "B"}}
    project.say("ann", {"t1": both})
    done = CliRunner().invoke(main, ["inspect", str(project.folder)])
    assert done.exit_code == 0, done.output
    assert done.output.count(f"bbq fit {project.folder} ") == 2
    assert "-O question=nicer" in done.output
    assert "-O question=better" in done.output


@pytest.mark.parametrize(
    ("name", "content", "is_ordered"),
    [
        ("tasks.jsonl", '{"id": "t1"}\n{"id": "t2"}\n', True),
        ("tasks.json", '{"id": "t1"}\n{"id": "t2"}\n', True),
        ("tasks.json", '[{"id": "t1"}, {"id": "t2"}]', False),
        ("tasks.json", '[\n{"id": "t1"},\n{"id": "t2"}\n]', False),
        ("tasks.csv", "id,text\nt1,x\n", False),
    ],
)
def test_tasks_are_ordered_where_each_is_a_line(
    project: Project, name: str, content: str, is_ordered: bool
) -> None:
    project.configure(PAIRWISE, data_files=[f"data/{name}"])
    file = project.folder / "data" / name
    file.write_text(content)
    found = ordered_file(config_of(project.folder / "config.yaml"))
    assert found == (file if is_ordered else found)
    assert isinstance(found, str) is not is_ordered
