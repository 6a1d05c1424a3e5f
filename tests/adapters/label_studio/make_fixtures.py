"""Makes the Label Studio fixtures: starts a real server, fills it, and saves its exports.

    python3 -m venv LS && LS/bin/pip install label-studio==1.23.2 label-studio-sdk==2.1.2
    python tests/adapters/label_studio/make_fixtures.py LS/bin/label-studio

The server listens on the loopback only, with telemetry off and the proxies closed, on a
fresh data folder that is thrown away. `projects.py` says what is shown and who answers
what; ids come out the same in every run, times do not. Nothing but the standard library
is needed here. The expected comparisons in `expected/` were written by hand from
`projects.py`, not by the adapter.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2]))

from tests.adapters.label_studio.projects import PROJECTS, USERS, Project  # noqa: E402 - found by the line above

FIXTURES = HERE / "fixtures"
PORT = 8732
FLAT = {"JSON_MIN": "min.json", "CSV": "csv", "TSV": "tsv"}


class Server:
    """A running server and a way to talk to it."""

    def __init__(self, command: str, folder: str) -> None:
        self.token = secrets.token_hex(20)
        self.url = f"http://127.0.0.1:{PORT}"
        closed = "http://127.0.0.1:9"
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "LABEL_STUDIO_BASE_DATA_DIR": folder,
            "LABEL_STUDIO_COLLECT_ANALYTICS": "false",
            "LABEL_STUDIO_LATEST_VERSION_CHECK": "false",
            "LABEL_STUDIO_SENTRY_DSN": "",
            "LABEL_STUDIO_FRONTEND_SENTRY_DSN": "",
            "LABEL_STUDIO_FEATURE_FLAGS_OFFLINE": "true",
            "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
            "LABEL_STUDIO_USERNAME": USERS[0],
            "LABEL_STUDIO_PASSWORD": secrets.token_hex(12),
            "LABEL_STUDIO_USER_TOKEN": self.token,
            "HTTP_PROXY": closed,
            "HTTPS_PROXY": closed,
            "NO_PROXY": "127.0.0.1,localhost",
        }
        arguments = ["start", "--no-browser", "--internal-host", "127.0.0.1", "--port", str(PORT)]
        self.process = subprocess.Popen(
            [command, *arguments],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def wait(self, seconds: float = 180) -> None:
        """Until the server answers; the first start migrates its database."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            try:
                self.get("/health")
            except OSError:
                time.sleep(1)
            else:
                return
        raise SystemExit("the server did not start")

    def stop(self) -> None:
        """End the process that was started here, and no other."""
        self.process.terminate()
        self.process.wait(30)

    def call(self, method: str, path: str, body: Any = None) -> bytes:
        """One request; the answer as it comes."""
        request = urllib.request.Request(  # noqa: S310 - always the loopback
            self.url + path,
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Authorization": f"Token {self.token}", "Content-Type": "application/json"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            if path == "/health":
                raise
            raise SystemExit(f"{method} {path}: {error.code} {error.read()[:500]!r}") from None

    def get(self, path: str) -> bytes:
        return self.call("GET", path)

    def post(self, path: str, body: Any) -> Any:
        answer = self.call("POST", path, body)
        return json.loads(answer) if answer else None


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
    found = json.loads(server.get("/api/templates"))["templates"]
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
    write(f"{project.name}.json", server.get(query + "JSON"))
    for kind, ending in FLAT.items():
        if ending in project.kinds:
            write(f"{project.name}.{ending}", server.get(query + kind))
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
        while json.loads(server.get(f"{exports}{made}"))["status"] != "completed":
            time.sleep(0.5)
        download = f"{exports}{made}/download?exportType="
        write(f"{project.name}.{name}.json", server.get(download + "JSON"))
        if options:
            server.post(f"{exports}{made}/convert", {"export_type": "CSV"})
            while json.loads(server.get(f"{exports}{made}"))["converted_formats"][0]["status"] in (
                "created",
                "in_progress",
            ):
                time.sleep(0.5)
            write(f"{project.name}.{name}.csv", server.get(download + "CSV"))


def write(name: str, content: bytes) -> None:
    """As the server wrote it, but for JSON on one line, which nobody could review."""
    if name.endswith(".json") and content.count(b"\n") < 3:
        content = json.dumps(json.loads(content), indent=1, ensure_ascii=False).encode() + b"\n"
    (FIXTURES / name).write_bytes(content)


def main() -> None:
    """Start, fill, save, stop."""
    FIXTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(sys.argv[1], folder)
        try:
            server.wait()
            make_users(server)
            templates = template_configs(server)
            made = []
            for project in PROJECTS:
                config = project.config or templates[project.template]
                made.append((project, fill(server, project, config)))
            # Only now: nobody can annotate with a deleted account.
            server.call("DELETE", f"/api/users/{len(USERS)}/")
            for project, own in made:
                save(server, project, own)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
