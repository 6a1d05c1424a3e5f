"""Events in the shape in which Label Studio 1.23 sends them, secrets and all."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

TOKEN = "0NSpY9WHnUie6GqlAUAAxKZgvfImt2Hpij42Mkqn"  # noqa: S105 (made up)
LOGIN, PASSWORD = "storage-login-7531", "storage-password-8642"
EMAIL = "alice.private@example.com"
SECRETS = (TOKEN, LOGIN, PASSWORD, EMAIL)

START = 1_790_000_000.0


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(START + seconds, UTC).isoformat().replace("+00:00", "Z")


def project(number: int = 1, control: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "id": number,
        "title": "A pairwise tag",
        "label_config": '<View><Pairwise name="pw" toName="text1,text2"/></View>',
        "parsed_label_config": control
        or {
            "pw": {
                "type": "Pairwise",
                "to_name": ["text1", "text2"],
                "inputs": [{"type": "Text", "valueType": None, "value": "pairText1"}],
                "labels": [],
                "labels_attrs": {},
            }
        },
        "expert_instruction": "<b>Please read</b>",
        "token": TOKEN,
        "control_weights": {"pw": {"overall": 1.0, "type": "Pairwise", "labels": {}}},
        "task_data_login": LOGIN,
        "task_data_password": PASSWORD,
        "created_by": {"id": 1, "email": EMAIL},
        "organization": 1,
    }


def annotation(
    number: int,
    task: int,
    rater: int,
    selected: str = "left",
    *,
    at: float = 0.0,
    updated: float | None = None,
    **fields: Any,
) -> dict[str, Any]:
    result = {"id": "r1", "type": "pairwise", "from_name": "pw", "to_name": "pw"}
    return {
        "id": number,
        "result": [{**result, "origin": "manual", "value": {"selected": selected}}],
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": stamp(at),
        "updated_at": stamp(at if updated is None else updated),
        "draft_created_at": None,
        "lead_time": 4.2,
        "unique_id": f"3e06013a-96f8-43e7-b465-{number:012d}",
        "task": task,
        "project": 1,
        "completed_by": rater,
        "updated_by": 1,
        "parent_prediction": None,
        "parent_annotation": None,
        **fields,
    }


def task(number: int, left: str, right: str) -> dict[str, Any]:
    return {
        "id": number,
        "data": {
            "pairText1": f"what {left} wrote",
            "pairText2": f"what {right} wrote",
            "model1": left,
            "model2": right,
        },
        "meta": {"batch": "b1"},
        "is_labeled": False,
        "overlap": 3,
        "inner_id": number,
        "project": 1,
        "updated_by": 1,
    }


def event(
    number: int = 1,
    *,
    rater: int = 2,
    items: tuple[str, str] = ("model-a", "model-b"),
    action: str = "ANNOTATION_CREATED",
    selected: str = "left",
    of: dict[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """An annotation that was made or changed."""
    return {
        "action": action,
        "annotation": annotation(number, number, rater, selected, **fields),
        "project": of or project(),
        "task": task(number, *items),
    }


def bulk(*events: dict[str, Any]) -> dict[str, Any]:
    """Several at once: annotation and task are lists."""
    return {
        "action": "ANNOTATIONS_CREATED",
        "annotation": [one["annotation"] for one in events],
        "project": events[0]["project"],
        "task": [one["task"] for one in events],
    }


def deleted(*numbers: int) -> dict[str, Any]:
    ids = [{"id": number} for number in numbers]
    return {"action": "ANNOTATIONS_DELETED", "annotations": ids, "project": project()}


def tasks_deleted(*numbers: int) -> dict[str, Any]:
    ids = [{"id": number} for number in numbers]
    return {"action": "TASKS_DELETED", "tasks": ids, "project": project()}


def body(found: dict[str, Any]) -> bytes:
    return json.dumps(found).encode()
