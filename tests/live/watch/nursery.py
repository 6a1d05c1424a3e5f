"""A warmed process that forks daemons: a real process each, without its second of imports.

Run as a program; a line of JSON on standard input is an order, a line on standard output the
answer. `{"args": […], "stderr": PATH, "uid": N, "environment": {…}}` runs `bbq` with these
arguments and answers its process id; with `"kill_at": N` it is killed with -9 at the N-th of its
calls of the system and of SQLite; with `"cpu_s": N` it ends as abruptly, by SIGPROF, after so much
work of the processor, whatever else the machine does. `{"wait": PID}` answers the exit status,
negative for a signal.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NoReturn


def warm() -> None:
    """Load what a daemon needs. Nothing here may start a thread: a fork would leave it behind."""
    # Imported when a folder is watched; another user may not be able to read Python's own files.
    import watchdog.observers  # noqa: F401, PLC0415

    from bbq_plugin.cli import main  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        votes = Path(folder) / "in" / "votes.jsonl"
        votes.parent.mkdir()
        votes.write_text(
            "".join(
                f'{{"id": "{i}", "judge": "j{i % 3}", "model_a": "a{i % 2}", "model_b": "b", '
                f'"winner": "model_{"ab"[i % 2]}"}}\n'
                for i in range(30)
            )
        )
        arguments = ["watch", str(votes.parent), "--store", f"{folder}/s.db", "--out"]
        arguments += [f"{folder}/out", "--write", "report.json,leaderboard.csv,raters.csv"]
        arguments += ["--settle-s", "0", "--debounce-s", "0", "--once"]
        main(arguments, prog_name="bbq", standalone_mode=False)
        # A second file takes the way of the incremental refresh.
        votes.with_name("more.jsonl").write_text(votes.read_text().replace('"id": "', '"id": "m'))
        main(arguments, prog_name="bbq", standalone_mode=False)


def be_daemon(order: dict[str, Any]) -> NoReturn:
    """Become `bbq`, with its own standard error, perhaps as another user."""
    from bbq_plugin.cli import main  # noqa: PLC0415

    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(order["stderr"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for target, source in ((0, null), (1, null), (2, log)):
        os.dup2(source, target)
    if "uid" in order:
        os.setgroups([])
        os.setgid(order["uid"])
        os.setuid(order["uid"])
    os.environ.update(order.get("environment", {}))
    if "kill_at" in order:
        _kill_at(int(order["kill_at"]))
    if "cpu_s" in order:
        # Its default action ends a process at once; no handler and no `finally` runs.
        signal.setitimer(signal.ITIMER_PROF, order["cpu_s"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    status: int | str | None = 1
    try:
        main(order["args"], prog_name="bbq")
    except SystemExit as leaving:
        status = leaving.code
    except BaseException:  # noqa: BLE001 (the log is where a test looks)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 0)


def _kill_at(n: int) -> None:
    """Kill this process at the n-th time that it is about to ask the system or SQLite."""
    left = n

    def hear(event: str, _: object) -> None:
        nonlocal left
        if event.startswith(("os.", "fcntl.", "sqlite3.", "shutil.")):
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)


def serve() -> None:
    """Take orders until standard input ends."""
    warm()
    tasks = Path("/proc/self/task")
    n_threads = len(list(tasks.iterdir())) if tasks.exists() else 1
    print(json.dumps({"ready": os.getpid(), "threads": n_threads}), flush=True)  # noqa: T201
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            _, status = os.waitpid(order["wait"], 0)
            answer = {"status": os.waitstatus_to_exitcode(status)}
        else:
            pid = os.fork()
            if not pid:
                be_daemon(order)
            answer = {"pid": pid}
        print(json.dumps(answer), flush=True)  # noqa: T201


if __name__ == "__main__":
    serve()
