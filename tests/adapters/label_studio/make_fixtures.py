"""Makes the Label Studio fixtures: starts a real server, fills it, and saves its exports.

    python tests/adapters/label_studio/make_fixtures.py

The server is that of `tests/live/label_studio/server.py`, on data of its own. `projects.py`
says what is shown and who answers what; ids come out the same in every run, times do not.
The expected comparisons in `expected/` were written by hand from `projects.py`, not by the
adapter.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2]))

from tests.adapters.label_studio.projects import PROJECTS, USERS, Project  # noqa: E402 - found by the line above
from tests.live.label_studio.server import Server, running  # noqa: E402 - the same

FIXTURES = HERE / "fixtures"
FLAT = {"JSON_MIN": "min.json", "CSV": "csv", "TSV": "tsv"}


def make_users(server: Server) -> None:
    """The first user exists; the others get the ids 2, 3, 4 … ."""
    for number, email in enumerate(USERS[1:], 2):
        first = email.split("@", 1)[0].title()
        made = server.post(
            "/api/users/",
            {"email": email, "username": email, "first_name": first, "last_name": "R"},
        )
        assert made["id"] == number, made


def template_configs(server: Server) -> dict[str, str]:
    """The shipped templates by title."""
    found = server.get("/api/templates")["templates"]
    return {template["title"]: template["config"] for template in found}


def fill(server: Server, project: Project, config: str) -> int:
    """Create the project with its tasks and answers; the answer is its id."""
    own = int(
        server.post(
            "/api/projects/",
            {
                "title": project.name,
                "label_config": config,
                "enable_empty_annotation": True,
                "maximum_annotations": 5,
            },
        )["id"]
    )
    for shown in project.tasks:
        task = server.post("/api/tasks/", {"project": own, "data": shown.data})["id"]
        made: list[int] = []
        for answer in shown.answers:
            body = {
                "result": answer.result,
                "completed_by": answer.by,
                "lead_time": answer.time_s,
                "was_cancelled": answer.cancelled,
                "ground_truth": answer.ground_truth,
            }
            if answer.copy_of is not None:
                body["parent_annotation"] = made[answer.copy_of]
            made.append(server.post(f"/api/tasks/{task}/annotations/", body)["id"])
            if answer.then is not None:
                server.call("PATCH", f"/api/annotations/{made[-1]}/", {"result": answer.then})
        for result in shown.drafts:
            server.post(f"/api/tasks/{task}/drafts", {"result": result, "lead_time": 1.5})
        for result in shown.predictions:
            server.post(
                "/api/predictions/",
                {"task": task, "result": result, "score": 0.9, "model_version": "v1"},
            )
        if shown.predictions and shown.accept_predictions:
            server.post(
                f"/api/dm/actions?id=predictions_to_annotations&project={own}",
                {"selectedItems": {"all": False, "included": [task]}, "model_version": "v1"},
            )
    return own


def save(server: Server, project: Project, own: int) -> None:
    """Write every kind of export."""
    query = f"/api/projects/{own}/export?download_all_tasks=true&exportType="
    write(f"{project.name}.json", server.call("GET", query + "JSON"))
    for kind, ending in FLAT.items():
        if ending in project.kinds:
            write(f"{project.name}.{ending}", server.call("GET", query + kind))
    if "snapshot" in project.kinds:
        save_snapshots(server, project, own)


def save_snapshots(server: Server, project: Project, own: int) -> None:
    """Snapshots with the raters as ids, as objects, and the CSV made from the latter."""
    whole = {
        "annotations__completed_by": {"only_id": False},
        "drafts": {"only_id": False},
        "predictions": {"only_id": False},
    }
    for name, options in (("snapshot", None), ("snapshot_full", whole)):
        body = {"title": name, "task_filter_options": {"only_with_annotations": False}}
        if options:
            body["serialization_options"] = options
        exports = f"/api/projects/{own}/exports/"
        made = server.post(exports, body)["id"]
        while server.get(f"{exports}{made}")["status"] != "completed":
            time.sleep(0.5)
        download = f"{exports}{made}/download?exportType="
        write(f"{project.name}.{name}.json", server.call("GET", download + "JSON"))
        if options:
            server.post(f"{exports}{made}/convert", {"export_type": "CSV"})
            while server.get(f"{exports}{made}")["converted_formats"][0]["status"] in (
                "created",
                "in_progress",
            ):
                time.sleep(0.5)
            write(f"{project.name}.{name}.csv", server.call("GET", download + "CSV"))


def write(name: str, content: bytes) -> None:
    """As the server wrote it, but for JSON on one line, which nobody could review."""
    if name.endswith(".json") and content.count(b"\n") < 3:
        content = json.dumps(json.loads(content), indent=1, ensure_ascii=False).encode() + b"\n"
    (FIXTURES / name).write_bytes(content)


def main() -> None:
    """Start, fill, save, stop."""
    FIXTURES.mkdir(exist_ok=True)
    with running() as server:
        make_users(server)
        templates = template_configs(server)
        made = []
        for project in PROJECTS:
            config = project.config or templates[project.template]
            made.append((project, fill(server, project, config)))
        # Only now: nobody can annotate with a deleted account.
        server.delete(f"/api/users/{len(USERS)}/")
        for project, own in made:
            save(server, project, own)


if __name__ == "__main__":
    main()
