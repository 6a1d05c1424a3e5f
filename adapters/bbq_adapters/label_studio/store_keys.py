"""The keys that answers, tasks and projects of Label Studio have in a store.

No other module knows their form.
"""

from __future__ import annotations

import re
from urllib.parse import urlencode

from bbq_plugin.data.records import TaskRef

_ANSWER = re.compile(r"ls:([0-9]+):([0-9]+)")
_OF_PROJECT = re.compile(r"ls:([^:]+):")
_TASK = re.compile(r"ls:([^:]*):task:(.*)", re.DOTALL)
# As a server writes its ids: without a zero in front.
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")


def project_prefix(project: str) -> str:
    """What the keys of all answers of a project begin with."""
    return f"ls:{project}:"


def answer_key(project: str | None, annotation: str) -> str:
    """The key of an annotation: the same from exports, pages and webhooks."""
    return f"ls:{project or ''}:{annotation}"


def key_tags(key: str) -> dict[str, str]:
    """What the key of an answer tells: its project."""
    found = _OF_PROJECT.match(key)
    return {"project": found[1]} if found else {}


def pair_key(answer: str, number: int) -> str:
    """The key of one comparison of an annotation that ranks several items."""
    return f"{answer}:{number}"


def task_ref(project: str | None, task: str) -> TaskRef:
    """A task as the store knows it."""
    name = f"ls:{project or ''}:task:{task}"
    numbers = number(project), number(task)
    return TaskRef(name) if None in numbers else TaskRef(name, *numbers)


def task_named(name: str) -> TaskRef:
    """A task by its name in a store."""
    found = _TASK.fullmatch(name)
    return task_ref(found[1], found[2]) if found else TaskRef(name)


def number(identifier: str | None) -> int | None:
    """The number of a project, task or annotation, if a server can have given it."""
    return int(identifier) if identifier and _NUMBER.fullmatch(identifier) else None


def annotation_number(key: str) -> int:
    """The id of the annotation of a key, which grows with every new one; -1: it has none."""
    found = number(key.rpartition(":")[2])
    return -1 if found is None else found


def answer_place(key: str, task: str | int) -> tuple[int, int] | None:
    """The numbers of project and task of an annotation; `task` as in `answer_url`."""
    answer = _ANSWER.fullmatch(key)
    own = task if isinstance(task, int) else task_named(task).number
    return None if answer is None or own is None else (int(answer[1]), own)


def answer_url(server: str, key: str, task: str | int) -> str | None:
    """The page of an annotation on a server; `task` is the task's number, or its name in a store.

    None for an answer that is not from a server.
    """
    place = answer_place(key, task)
    if place is None:
        return None
    query = urlencode({"task": place[1], "annotation": key.rpartition(":")[2]})
    return f"{server}/projects/{place[0]}/data?{query}"


def task_url(server: str, project: int, task: int) -> str:
    """The page of a task on a server."""
    return f"{server}/projects/{project}/data?{urlencode({'task': task})}"
