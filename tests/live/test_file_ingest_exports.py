"""Exports of Label Studio, and files that are no logs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from bbq_plugin.config import ReadSettings
from bbq_plugin.live.file_ingest import GROWING, Outcome
from bbq_plugin.store.store import records_of
from tests.live.folders import Folder, begun, line


def task(number: int, *annotations: dict[str, Any]) -> dict[str, Any]:
    data = {"model_left": "x", "model_right": "y"}
    return {
        "id": number,
        "project": 7,
        "data": data,
        "drafts": [],
        "annotations": list(annotations),
    }


def annotation(number: int, side: str, updated: str, **more: Any) -> dict[str, Any]:
    result = [{"type": "pairwise", "from_name": "pw", "to_name": "pw", "value": {"selected": side}}]
    return {
        "id": number, "completed_by": number % 3 + 1, "result": result, "was_cancelled": False,
        "created_at": "2026-01-01T00:00:00Z", "updated_at": f"2026-01-{updated}T00:00:00Z", **more,
    }  # fmt: skip


def exported(*tasks: dict[str, Any]) -> str:
    return json.dumps(tasks)


def test_a_newer_export_changes_and_omits_annotations(folder: Folder) -> None:
    first = [task(i, annotation(i, "left", "02")) for i in range(1, 5)]
    folder.write("monday.json", exported(*first))
    folder.take("monday.json")
    assert len(folder.answers) == 4
    later = [task(1, annotation(1, "right", "05")), *first[1:3]]
    folder.write("tuesday.json", exported(*later))
    outcome = folder.take("tuesday.json")
    assert (outcome.n_new, outcome.n_changed, outcome.n_retracted) == (0, 1, 1)
    assert len(folder.answers) == 3
    assert [a[3] for a in folder.answers].count("right") == 1
    folder.append("monday.json", "\n")
    folder.take("monday.json")
    assert len(folder.answers) == 3, "the older export comes late"


def test_an_increment_takes_nothing_back(folder: Folder) -> None:
    folder.ingest.reading = ReadSettings(exports="increment")
    folder.write("a.json", exported(*(task(i, annotation(i, "left", "02")) for i in range(1, 4))))
    folder.write("b.json", exported(task(9, annotation(9, "right", "03"))))
    folder.offer("a.json", "b.json")
    assert len(folder.answers) == 4


def test_a_file_that_is_no_log_waits_until_it_is_complete(folder: Folder) -> None:
    text = exported(task(1, annotation(1, "left", "02")))
    folder.write("e.json", text[:-10])
    assert folder.take("e.json", settled=False) == Outcome("e.json", "waiting", GROWING)
    folder.append("e.json", text[-10:])
    assert folder.take("e.json").n_new == 1


def test_a_file_cut_inside_its_first_line_waits_for_more(folder: Folder) -> None:
    folder.write("v", line("ann")[:20])
    assert folder.take("v", settled=False).status == "waiting"
    folder.write("v", line("ann"))
    assert folder.take("v", settled=False).status == "read"


def test_what_is_no_file_is_refused_without_waiting_for_it(folder: Folder) -> None:
    os.mkfifo(folder.path / "pipe")
    (folder.path / "sub").mkdir()
    folder.write("real", begun("jsonl", "ann"))
    (folder.path / "link").symlink_to(folder.path / "real")
    reasons = {o.name: (o.status, o.reason) for o in folder.offer("pipe", "sub", "link", "gone")}
    assert all(status == "refused" for status, _ in reasons.values())
    assert "a named pipe" in (reasons["pipe"][1] or "")
    assert "a folder" in (reasons["sub"][1] or "")
    assert "No such file" in (reasons["gone"][1] or "")


def test_a_name_that_is_no_text_can_be_put_on_record(folder: Folder) -> None:
    name = os.fsdecode(b"v\xff\n.jsonl")
    Path(folder.path / name).write_text(begun("jsonl", "ann"))
    assert folder.take(name).status == "read"
    assert folder.take(name).status == "unchanged"


def test_tags_are_kept_when_asked_for(folder: Folder) -> None:
    folder.ingest.reading = ReadSettings(keep_tags=True)
    folder.write("v", line("ann", language="de"))
    folder.take("v")
    (record,) = records_of(folder.store)
    assert record.tags == {"language": "de"}
