"""What the fixture projects show and who answers what."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: The ids are 1, 2, 3 …; the account of the last one is deleted before the exports.
USERS = ("admin@example.com", "ann@example.com", "bob@example.com", "cat@example.com",
         "gone@example.com")  # fmt: skip
ADMIN, ANN, BOB, CAT, GONE = range(1, 6)


@dataclass
class Answer:
    """One annotation; `then` replaces its result, `copy_of` is the place of its parent."""

    by: int
    result: Any
    time_s: float | None = 4.2
    cancelled: bool = False
    ground_truth: bool = False
    copy_of: int | None = None
    then: Any = None


@dataclass
class Shown:
    """One task."""

    data: dict[str, Any]
    answers: list[Answer] = field(default_factory=list)
    drafts: list[Any] = field(default_factory=list)
    predictions: list[Any] = field(default_factory=list)
    accept_predictions: bool = False


@dataclass
class Project:
    """A project of a shipped template, or of a config of its own."""

    name: str
    tasks: list[Shown]
    template: str = ""
    config: str = ""
    kinds: tuple[str, ...] = ("min.json", "csv", "tsv")


def result(kind: str, control: str, about: str, **value: Any) -> dict[str, Any]:
    return {"id": "r1", "type": kind, "from_name": control, "to_name": about,
            "origin": "manual", "value": value}  # fmt: skip


def pw(side: Any, control: str = "pw") -> list[dict[str, Any]]:
    return [result("pairwise", control, control, selected=side)]


def choice(*labels: Any, control: str = "pref", about: str = "prompt") -> list[dict[str, Any]]:
    return [result("choices", control, about, choices=list(labels))]


def rank(ids: Any, about: str) -> list[dict[str, Any]]:
    return [result("ranker", "rank", about, ranker=ids)]


def rate(left: Any, right: Any) -> list[dict[str, Any]]:
    rated = (("rating_left", "text1", left), ("rating_right", "text2", right))
    return [result("rating", c, to, rating=r) for c, to, r in rated if r is not None]


def pair(number: int, left: str, right: str, **more: Any) -> dict[str, Any]:
    return {"pairText1": f"answer {number} of {left}", "pairText2": f"answer {number} of {right}",
            "model1": left, "model2": right, "item_id": f"q{number}", **more}  # fmt: skip


def sides(number: int, left: str, right: str) -> dict[str, Any]:
    return {"prompt": f"Question {number}?", "text1": f"It is {number}.", "text2": "I doubt it.",
            "model_left": left, "model_right": right,
            "language": ("en", "fr")[number % 2]}  # fmt: skip


def listed(number: int, *models: str) -> dict[str, Any]:
    return {"prompt": f"Question {number}?",
            "items": [{"id": m, "title": f"Answer {i}", "body": f"text {i} of task {number}"}
                      for i, m in enumerate(models, 1)]}  # fmt: skip


def side_by_side(controls: str) -> str:
    return f"""<View><Text name="prompt" value="$prompt"/>
  <Text name="text1" value="$text1"/><Text name="text2" value="$text2"/>{controls}</View>"""


def choices(name: str, *labels: str) -> str:
    inside = "".join(f'<Choice value="{label}"/>' for label in labels)
    return f'<Choices name="{name}" toName="prompt" choice="single">{inside}</Choices>'


def ranker(*buckets: str) -> str:
    inside = "".join(f'<Bucket name="{name}" title="{name}"/>' for name in buckets)
    return f"""<View><Text name="prompt" value="$prompt"/>
  <List name="results" value="$items" title="Answers"/>
  <Ranker name="rank" toName="results">{inside}</Ranker></View>"""


PROJECTS = [
    Project(
        "pairwise",
        [
            Shown(pair(0, "gpt", "llama"), [
                Answer(ANN, pw("left")), Answer(BOB, pw("right"), 9.75), Answer(GONE, pw("right")),
            ]),
            Shown(pair(1, "llama", "mistral"), [
                Answer(ANN, [], 3.3), Answer(BOB, pw("right"), 1.1, cancelled=True),
                Answer(CAT, pw("right"), 7.0, ground_truth=True),
            ]),
            Shown(pair(2, "mistral", "gpt"), [Answer(ANN, pw("left"), then=pw("right"))],
                  drafts=[pw("left")], predictions=[pw("left")]),
            Shown(pair(3, "llama", "gpt"), [
                Answer(BOB, pw("left")), Answer(BOB, pw("right"), 5.0),
                Answer(CAT, pw("right"), copy_of=1), Answer(ANN, pw("left"), copy_of=1),
            ]),
            Shown(pair(4, "gpt", "mistral"), [
                Answer(ANN, pw("banana")), Answer(BOB, pw("left") + pw("right")),
            ], predictions=[pw("right")], accept_predictions=True),
            Shown(pair(5, "gpt", "llama")),
            Shown(pair(6, "gpt", "gpt"), [Answer(CAT, pw("left"))]),
            Shown({"pairText1": "x", "pairText2": "y", "model1": "gpt"}, [Answer(CAT, pw("left"))]),
        ],
        template="Pairwise classification",
        kinds=("min.json", "csv", "tsv", "snapshot"),
    ),
    Project(
        "sides",
        [
            Shown(sides(0, "gpt", "llama"), [
                Answer(ANN, choice("left")), Answer(BOB, choice("tie")),
                Answer(CAT, choice("right")),
            ]),
            Shown(sides(1, "llama", "mistral"), [
                Answer(ANN, choice("right")), Answer(BOB, choice("left", "tie")),
            ]),
        ],
        config=side_by_side(choices("pref", "left", "right", "tie")),
    ),
    Project(
        "known_labels",
        [
            Shown(sides(0, "gpt", "llama"), [
                Answer(ANN, choice("A is better") + choice("High", control="confidence")),
                Answer(BOB, choice("About the same") + choice("Low", control="confidence")),
            ]),
            Shown(sides(1, "llama", "mistral"), [
                Answer(ANN, choice("B is better")), Answer(BOB, choice("Both are bad")),
                Answer(CAT, choice("High", control="confidence")),
            ]),
        ],
        config=side_by_side(
            choices("pref", "A is better", "B is better", "About the same", "Both are bad")
            + choices("confidence", "High", "Low")
        ),
    ),
    Project(
        "own_labels",
        [
            Shown(sides(0, "gpt", "llama"), [
                Answer(ANN, choice("gauche")), Answer(BOB, choice("pareil, ou presque")),
            ]),
            Shown(sides(1, "llama", "mistral"), [
                Answer(ANN, choice("droite")), Answer(BOB, choice("je passe")),
            ]),
        ],
        config=side_by_side(choices("pref", "gauche", "droite", "pareil, ou presque", "je passe")),
    ),
    Project(
        "ranker",
        [
            Shown(listed(0, "llama", "mistral", "gpt"), [
                Answer(ANN, rank({"rank": ["gpt", "llama", "mistral"]}, "results")),
                Answer(BOB, rank({"rank": ["gpt", "mistral", "llama"]}, "results")),
            ]),
            Shown(listed(1, "gpt", "llama"), [
                Answer(CAT, rank({"rank": ["llama", "gpt"]}, "results")),
                Answer(ANN, rank({"rank": ["llama", "banana"]}, "results")),
                Answer(BOB, rank("banana", "results")),
            ]),
        ],
        config=ranker(),
    ),
    Project(
        "tiers",
        [
            Shown(listed(0, "llama", "mistral", "gpt", "phi"), [
                Answer(ANN, rank({"bad": ["phi"], "good": ["gpt", "llama"], "ok": ["mistral"]},
                                 "results")),
                Answer(BOB, rank({"_": ["phi", "gpt"], "bad": [], "good": ["llama"],
                                  "ok": ["mistral"]}, "results")),
                Answer(CAT, rank({"_": ["llama", "mistral", "gpt", "phi"], "good": [], "ok": [],
                                  "bad": []}, "results")),
            ]),
        ],
        config=ranker("good", "ok", "bad"),
    ),
    Project(
        "ratings",
        [
            Shown(sides(0, "gpt", "llama"), [
                Answer(ANN, rate(4, 2)), Answer(BOB, rate(3, 3)), Answer(CAT, rate(5, None)),
            ]),
            Shown(sides(1, "llama", "mistral"), [
                Answer(ANN, rate(1, 5)), Answer(BOB, rate(2, "banana")),
            ]),
        ],
        config=side_by_side(
            '<Rating name="rating_left" toName="text1"/>'
            '<Rating name="rating_right" toName="text2"/>'
        ),
    ),
    Project(
        "human_preference",
        [
            Shown({"prompt": "Q0", "answer1": "Because it is.", "answer1_model": "gpt",
                   "answer2": "No idea.", "answer2_model": "llama"},
                  [Answer(ANN, pw("left", "comparison")), Answer(BOB, pw("right", "comparison"))]),
            Shown({"prompt": "Q1", "answer1": "Yes.", "answer1_model": "llama",
                   "answer2": "No.", "answer2_model": "mistral"},
                  [Answer(ANN, pw("right", "comparison"))]),
        ],
        template="Human Preference collection for RLHF",
    ),
    Project(
        "nameless",
        [Shown({"prompt": "Q0", "answer1": "Because it is.", "answer2": "No idea."},
               [Answer(ANN, pw("left", "comparison"))])],
        template="Human Preference collection for RLHF",
    ),
    Project(
        "llm_ranker",
        [
            Shown({"task": "Rank.", **listed(0, "llama", "mistral", "gpt")}, [
                Answer(ANN, rank({"_": ["gpt"], "relevant_results": ["mistral", "llama"],
                                  "biased_results": []}, "answers")),
                Answer(BOB, rank({"_": [], "relevant_results": ["gpt", "llama"],
                                  "biased_results": ["mistral"]}, "answers")),
            ]),
        ],
        template="LLM Ranker",
    ),
    Project(
        "visual_ranker",
        [
            Shown({"prompt": "A chair.",
                   "images": [{"id": f"chair_{n}", "html": f"<img src='/chair{n}.png'/>"}
                              for n in (1, 2, 3)]},
                  [Answer(ANN, rank({"rank": ["chair_3", "chair_1", "chair_2"]},
                                    "generated_images"))]),
        ],
        template="Visual Ranker",
    ),
    Project(
        "text_to_image",
        [
            Shown({"prompt": "An astronaut on a horse.",
                   "images": [{"value": f"id{n}", "html": f"<img src='/{n}.jpg'/>"}
                              for n in (0, 1, 2)]},
                  [Answer(ANN, choice("id1", control="images")),
                   Answer(BOB, choice("id0", "id2", control="images")),
                   Answer(CAT, choice("id0", "id1", "id2", control="images"))]),
        ],
        template="Text-to-Image Generation",
        kinds=("csv",),
    ),
    Project(
        "asr_hypotheses",
        [
            Shown({"audio": "/data/one.wav",
                   "transcriptions": [{"value": "it is a nice day", "engine": "whisper"},
                                      {"value": "it is a nice tray", "engine": "conformer"},
                                      {"value": "it's an ice day", "engine": "kaldi"}]},
                  [Answer(ANN, choice("it is a nice day", control="transcriptions", about="audio")),
                   Answer(BOB, choice("it is a banana", control="transcriptions", about="audio"))]),
            Shown({"audio": "/data/two.wav",
                   "transcriptions": [{"value": "hello", "engine": "kaldi"},
                                      {"value": "yellow", "engine": "whisper"}]},
                  [Answer(ANN, choice("hello", control="transcriptions", about="audio"))]),
        ],
        template="ASR Hypotheses Selection",
        kinds=("csv",),
    ),
    Project(
        "image_retrieval",
        [
            Shown({"query_image": "/q.png", "image1": "/1.png", "image2": "/2.png",
                   "image3": "/3.png", "method1": "clip", "method2": "resnet", "method3": "vit"},
                  [Answer(ANN, choice("One", control="similar", about="query")),
                   Answer(BOB, choice("Two", "Three", control="similar", about="query"))]),
        ],
        template="Content-based Image Retrieval",
        kinds=("csv",),
    ),
    Project(
        "document_retrieval",
        [
            Shown({"query": "black holes", "text1": "a", "text2": "b", "text3": "c",
                   "system1": "bm25", "system2": "dense", "system3": "random"},
                  [Answer(ANN, choice("Two", control="selection", about="query")),
                   Answer(BOB, choice("One", "Two", control="selection", about="query"))]),
        ],
        template="Document Retrieval",
        kinds=("csv",),
    ),
    Project(
        "search_page",
        [
            Shown({"text": "black holes",
                   "options": [{"value": "r1", "html": "<p>1</p>",
                                "children": [{"value": "r11", "html": "<p>11</p>"}]},
                               {"value": "r2", "html": "<p>2</p>"}]},
                  [Answer(ANN, [*choice(["r1", "r11"], control="dynamic_choices", about="text"),
                                result("rating", "relevance", "text", rating=4),
                                *choice("High", control="confidence", about="text")])]),
        ],
        template="Search Page Ranking",
        kinds=("csv",),
    ),
    Project(
        "pairwise_regression",
        [Shown({"image1": "/1.png", "image2": "/2.png"},
               [Answer(ANN, [result("rating", "rating", "image1", rating=3)])])],
        template="Pairwise regression",
        kinds=("csv",),
    ),
    Project(
        "response_grading",
        [Shown({"document": ["A long text."], "summary": "A text."},
               [Answer(ANN, [result("rating", "rating", "summary", rating=3)])])],
        template="LLM Response Grading",
        kinds=("csv",),
    ),
    Project(
        "chatbot_assessment",
        [Shown({"messages": [{"role": "user", "content": "Hi"}]},
               [Answer(ANN, choice("Yes", control="hallucination", about="dialogue"))])],
        template="Chatbot Model Assessment",
        kinds=("csv",),
    ),
]  # fmt: skip
