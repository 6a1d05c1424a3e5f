"""What raters saw in a task and wrote beside their answers, for a lead who looks at an answer.

Texts are texts, and addresses stay the task's own: nothing is fetched from them here.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from bbq_adapters.item_names import Listed, entries, identity
from bbq_adapters.label_studio.exports import identifier
from bbq_adapters.label_studio.store_keys import answer_key
from bbq_adapters.row_reader import lookup
from bbq_adapters.wording import families
from bbq_plugin.protocols import ShownField, ShownSide, TaskContent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bbq_adapters.label_studio.comparison_control import Question

#: Characters of one text; the page has a link to all of it.
LONGEST_TEXT = 20_000
# A key of the task's data in a labelling configuration: value="$answer1".
_VARIABLE = re.compile(r"\$([A-Za-z_][\w.-]*)")
# Where a server keeps uploads and leads to files of a storage, for users who have logged in.
_OWN_PATHS = ("/data/", "/tasks/", "/storage-data/", "/api/")
_LONGEST_ADDRESS = 4_000


def task_content(
    task: Mapping[str, Any],
    *,
    server: str,
    project: int,
    config: str,
    parsed: Any,
    question: Question | None,
) -> TaskContent:
    """The prompt, what was compared, and the reasons, by the keys that the configuration shows."""
    data = task.get("data") or {}
    shown = list(dict.fromkeys(key.rstrip(".-") for key in _VARIABLE.findall(config)))
    shown = [key for key in shown if lookup(data, key) is not None] or list(data)
    source = question.source if question else None
    if isinstance(source, Listed) and isinstance(lookup(data, source.key), list):
        names = source.by_identity(data)
        sides = [
            ShownSide(names.get(own) or own, tuple(_fields_of(entry, server)))
            for entry in entries(lookup(data, source.key))
            if (own := identity(entry)) is not None
        ]
        of_sides = {source.key}
    else:
        items = list((source.names(data) if source else None) or ("", ""))
        groups = _side_keys(shown, parsed, question, len(items))
        sides = [
            ShownSide(item, tuple(_field(key, lookup(data, key), server) for key in keys))
            for item, keys in zip(items, zip(*groups, strict=True), strict=True)
        ] if groups else []  # fmt: skip
        of_sides = {key for group in groups for key in group}
    prompt = tuple(_field(key, lookup(data, key), server) for key in shown if key not in of_sides)
    return TaskContent(prompt, tuple(sides), dict(_reasons(task, project)))


def _side_keys(
    shown: Sequence[str], parsed: Any, question: Question | None, n: int
) -> list[tuple[str, ...]]:
    """The keys that belong to one side each, in the order of the sides."""
    found: list[tuple[str, ...]] = []
    control = (parsed or {}).get(question.controls[0]) if question else None
    if question is not None and question.way == "pairwise" and isinstance(control, dict):
        named = [str(one.get("value") or "") for one in control.get("inputs") or ()]
        if len(named) == n and len(set(named)) == n and set(named) <= set(shown):
            found.append(tuple(named))
    taken = {key for group in found for key in group}
    return found + [
        family for family in families(shown) if len(family) == n and not taken.intersection(family)
    ]


def _fields_of(entry: Any, server: str) -> Iterator[ShownField]:
    """What a list shows of one of its entries."""
    if not isinstance(entry, dict):
        yield _field("", entry, server)
        return
    for key, value in entry.items():
        if key not in ("id", "children", "html") or (key == "html" and "body" not in entry):
            yield _field(str(key), value, server)


def _field(key: str, value: Any, server: str) -> ShownField:
    text = _text(value)
    if len(text) > LONGEST_TEXT:
        text = text[:LONGEST_TEXT] + " …"
    return ShownField(key, text, _address(value, server))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, dict) and "text" in one for one in value):
        # A dialogue, one object for each turn.
        turns = ((one.get("author") or one.get("role"), one["text"]) for one in value)
        return "\n".join(f"{who}: {said}" if who else str(said) for who, said in turns)
    return json.dumps(value, ensure_ascii=False, indent=1)


def _address(value: Any, server: str) -> str | None:
    """Where an image or a sound is: the task's own address, of the web or of the server."""
    if not isinstance(value, str) or len(value) > _LONGEST_ADDRESS or any(map(str.isspace, value)):
        return None
    if value.startswith(("http://", "https://")):
        return value
    return server + value if value.startswith(_OWN_PATHS) else None


def _reasons(task: Mapping[str, Any], project: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What raters wrote into a TextArea, by the key of their answer."""
    for annotation in task.get("annotations") or ():
        own = identifier(annotation.get("id"))
        written = tuple(_written(annotation.get("result") or ()))
        if own is not None and written:
            yield answer_key(str(project), own), written


def _written(results: Iterable[Any]) -> Iterator[str]:
    for result in results:
        if isinstance(result, dict) and result.get("type") == "textarea":
            value = result.get("value")
            said = value.get("text") if isinstance(value, dict) else None
            for text in said if isinstance(said, list) else [said]:
                if isinstance(text, str) and text.strip():
                    yield text.strip()[:LONGEST_TEXT]
