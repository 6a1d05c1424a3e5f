"""Verdicts on raters of a store are those of the same answers in a file, by whatever way they came.

The study is an export of Label Studio with known questions (ground truth) and times; one rater is
good at first and then not, and one fails the known questions. Nobody answers in the order of the
tasks, so that the order in time is not that of the rows.
"""

from __future__ import annotations

import copy
import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bbq_plugin as bbq
from bbq_plugin.config import ReadSettings
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.event_ingest import event_reader, take
from bbq_plugin.live.file_ingest import Offer
from bbq_plugin.store import Store
from bbq_plugin.store.schema import APPLICATION_ID, MIGRATIONS
from bbq_plugin.store.store import records_of
from tests.store.stores import report, run
from tests.waiting import HANG_S

LEAD, TIRED, CARELESS = 100, 7, 8
N_TASKS, N_RATERS, ITEMS = 120, 8, 6
START = 1_790_000_000.0
PARTS = ReadSettings(exports="increment")

Task = dict[str, Any]


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(START + seconds, UTC).isoformat().replace("+00:00", "Z")


def annotation(number: int, rater: int, left: bool, at: float, **fields: Any) -> dict[str, Any]:
    value = {"selected": "left" if left else "right"}
    result = {"id": "r1", "type": "pairwise", "from_name": "pw", "to_name": "pw", "value": value}
    return {
        "id": number, "completed_by": rater, "result": [result], "was_cancelled": False,
        "ground_truth": False, "created_at": stamp(at), "updated_at": stamp(at),
        "lead_time": 2.0 + (number * 7 % 10) + (rater == CARELESS) * -1.5, **fields,
    }  # fmt: skip


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    """The export as a list of tasks."""
    rng = np.random.default_rng(11)
    theta = np.linspace(1.6, -1.6, ITEMS)
    turn = {rater: rng.permutation(N_TASKS) for rater in range(1, N_RATERS + 1)}
    found: list[Task] = []
    number = 0
    for t in range(N_TASKS):
        a, b = rng.choice(ITEMS, 2, replace=False)
        truth = bool(theta[a] > theta[b])
        annotations = []
        if known := t % 4 == 0:
            number += 1
            annotations.append(annotation(number, LEAD, truth, -100.0 + t, ground_truth=True))
        for rater in range(1, N_RATERS + 1):
            number += 1
            place = int(turn[rater][t])
            guess = rater == CARELESS if known else rater == TIRED and place >= N_TASKS // 2
            p = 0.5 if guess else 1 / (1 + np.exp(-2.0 * (theta[a] - theta[b])))
            left = bool(rng.random() < p)
            annotations.append(annotation(number, rater, left, 60.0 * place + rater))
        data = {"model_a": f"m{a}", "model_b": f"m{b}"}
        found.append({"id": t + 1, "project": 1, "data": data, "annotations": annotations})
    return found


def in_any_order(found: list[Any], seed: int) -> list[Any]:
    return [found[i] for i in np.random.default_rng(seed).permutation(len(found))]


def written(path: Path, tasks: list[Task]) -> Path:
    path.write_text(json.dumps(tasks), encoding="utf-8")
    return path


def verdicts(*arguments: str | Path) -> dict[str, dict[str, Any]]:
    """By rater, what `bbq raters --format json` says."""
    found = report("raters", *arguments)
    known = {row.pop("rater"): row for row in found["raters"]}
    known[""] = {key: found[key] for key in ("n_comparisons", "population", "not_known")}
    return known


def agree(one: Any, other: Any, where: str = "") -> None:
    """All words are the same, and all numbers but for what a fit leaves open."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            agree(one[key], other[key], f"{where}/{key}")
    elif isinstance(one, float):
        # θ is fitted to 1e-6, and p-values follow it steeply.
        assert one == pytest.approx(other, rel=1e-4, abs=1e-6, nan_ok=True), where
    else:
        assert one == other, where


@pytest.fixture(scope="module")
def from_file(tasks: list[Task], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return verdicts(written(tmp_path_factory.mktemp("file") / "export.json", tasks))


def test_the_study_is_one_in_which_time_and_known_questions_decide(
    from_file: dict[str, Any],
) -> None:
    assert any("quality falls" in why for why in from_file[str(TIRED)]["reasons"])
    assert not any("in the order of the rows" in why for why in from_file[str(TIRED)]["reasons"])
    assert any("known questions" in why for why in from_file[str(CARELESS)]["reasons"])
    assert from_file[str(CARELESS)]["n_gold"] == N_TASKS / 4
    assert from_file[str(CARELESS)]["tempo"] < 1


def ingested(store: Path, folder: Path, *parts: list[Task], reading: ReadSettings = PARTS) -> None:
    folder.mkdir(exist_ok=True)
    with Engine(store, reading=reading) as engine:
        for part in parts:
            path = written(folder / f"{len(list(folder.iterdir()))}.json", part)
            (outcome,) = engine.ingest([Offer(path, path.name)])
            assert outcome.status == "read", outcome


def test_files_in_any_order_give_the_verdicts_of_the_whole(
    tasks: list[Task], from_file: dict[str, Any], tmp_path: Path
) -> None:
    shuffled = in_any_order(tasks, 3)
    parts = [shuffled[i::5] for i in range(5)]
    ingested(tmp_path / "s.db", tmp_path / "in", *parts)
    agree(verdicts("--store", tmp_path / "s.db"), from_file)


def test_the_engine_in_memory_says_what_the_store_says(tasks: list[Task], tmp_path: Path) -> None:
    path = written(tmp_path / "export.json", tasks)
    cold = bbq.rater_report(bbq.fit(bbq.read(path), priors="auto"))
    with Engine(tmp_path / "s.db", priors="auto", reading=PARTS) as engine:
        for i, part in enumerate((tasks[60:], tasks[:60])):
            file = written(tmp_path / f"{i}.json", part)
            engine.ingest([Offer(file, file.name)])
            engine.refresh(full=True)
        rows = {row.rater: row for row in bbq.rater_report(engine.fit)}
    for row in cold:
        agree(asdict(row), asdict(rows[row.rater]))


def test_rankings_are_judged_as_whole_answers_in_a_store_too(tmp_path: Path) -> None:
    """Also after some were given anew: the pairs that stayed and those that changed are one."""
    design = {"items": 12, "raters": 15, "comparisons": 90, "slate": 8, "answer": "rank"}
    first, later = (
        list(bbq.simulate(**design, guessers=0.3, spread=1.0, seed=seed).comparisons())  # type: ignore[arg-type]
        for seed in (1, 2)
    )
    # The second study's answer takes the place of the first's under the same name.
    renewed = {one.slate for one in later[: len(later) // 3]}
    now = [one for one in first if one.slate not in renewed]
    now += [one for one in later if one.slate in renewed]
    with Engine(tmp_path / "s.db", priors="auto") as engine:
        engine.add(first)
        engine.add([one for one in later if one.slate in renewed])
        found = {row.rater: asdict(row) for row in bbq.rater_report(engine.fit)}
    with Engine(tmp_path / "s.db", priors="auto") as engine:
        again = {row.rater: asdict(row) for row in bbq.rater_report(engine.fit)}
    data = bbq.Comparisons.from_comparisons(now)
    cold = {row.rater: asdict(row) for row in bbq.rater_report(bbq.fit(data, priors="auto"))}
    assert sum(row["n"] for row in cold.values()) == pytest.approx(sum(one.weight for one in now))
    agree(found, cold)
    agree(again, cold)


def test_edits_and_retractions_give_the_verdicts_of_the_newer_export(
    tasks: list[Task], tmp_path: Path
) -> None:
    newer = copy.deepcopy(tasks)
    for task in newer[:40:4]:
        # Another known answer, given later; those of the raters stay as they are.
        truth = task["annotations"][0]
        value = truth["result"][0]["value"]
        value["selected"] = "right" if value["selected"] == "left" else "left"
        truth["updated_at"] = stamp(10_000.0)
    newer[44]["annotations"][0]["ground_truth"] = False
    newer[44]["annotations"][0]["updated_at"] = stamp(10_000.0)
    del newer[48]["annotations"][0]
    for task in newer[1::9]:
        del task["annotations"][3]
    newer[2]["annotations"][1]["updated_at"] = stamp(20_000.0)
    expected = verdicts(written(tmp_path / "newer.json", newer))
    store = tmp_path / "s.db"
    ingested(store, tmp_path / "in", tasks, newer, reading=ReadSettings())
    agree(verdicts("--store", store), expected)
    with Store(store) as found:
        assert found.check() == []


KILLED = """
import os, signal, sys
from pathlib import Path
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.file_ingest import Offer
from bbq_plugin.config import ReadSettings
engine = Engine(sys.argv[1], reading=ReadSettings(exports="increment"))
engine.ingest([Offer(Path(sys.argv[2]), "first.json")])
engine.refresh()
with engine.store.transaction() as transaction:
    engine._ingest(transaction, Offer(Path(sys.argv[3]), "second.json"))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_and_a_restart_change_no_verdict(
    tasks: list[Task], from_file: dict[str, Any], tmp_path: Path
) -> None:
    store = tmp_path / "s.db"
    first, second = written(tmp_path / "a", tasks[50:]), written(tmp_path / "b", tasks[:50])
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, store, first, second], check=False, timeout=HANG_S
    )
    assert killed.returncode == -signal.SIGKILL
    with Engine(store, reading=PARTS) as engine:
        assert engine.store.counts().n_comparisons == sum(len(t["annotations"]) for t in tasks[50:])
        offers = [Offer(first, "first.json"), Offer(second, "second.json")]
        assert [one.status for one in engine.ingest(offers)] == ["unchanged", "read"]
    agree(verdicts("--store", store), from_file)


# -- events: one answer at a time


def events_of(tasks: list[Task]) -> list[dict[str, Any]]:
    config = {"pw": {"type": "Pairwise", "to_name": ["a", "b"], "inputs": [], "labels": []}}
    return [
        {
            "action": "ANNOTATION_CREATED",
            "annotation": {**one, "task": task["id"], "project": 1},
            "task": {"id": task["id"], "project": 1, "data": task["data"]},
            "project": {"id": 1, "parsed_label_config": config},
        }
        for task in tasks
        for one in task["annotations"]
    ]


def told(store: Path, events: list[dict[str, Any]], each: int = 50) -> None:
    reader = event_reader("label-studio")
    with Engine(store) as engine:
        for start in range(0, len(events), each):
            news = [reader(json.dumps(one).encode()) for one in events[start : start + each]]
            with engine.store.transaction() as transaction:
                take(transaction, reader, news, "webhook", "test", 0.0)
            engine.apply(transaction.change)
        assert engine.store.check() == []
        engine.refresh()


def test_events_in_any_order_give_the_verdicts_of_the_export(
    tasks: list[Task], from_file: dict[str, Any], tmp_path: Path
) -> None:
    told(tmp_path / "s.db", in_any_order(events_of(tasks), 5))
    agree(verdicts("--store", tmp_path / "s.db"), from_file)


def gold_of(store: Path) -> dict[str, str]:
    with Store(store, writable=False) as found:
        return {
            one.key: one.tags["gold"]
            for one in records_of(found)
            if one.tags and "gold" in one.tags
        }


def few(tasks: list[Task]) -> tuple[list[Task], dict[str, str]]:
    """A task with a known answer, and what the store has to say of it."""
    task = copy.deepcopy(tasks[0])
    truth, *others = task["annotations"]
    right = truth["result"][0]["value"]["selected"]
    gold = {f"ls:1:{truth['id']}": "truth"} | {f"ls:1:{one['id']}": right for one in others}
    return [task], gold


@pytest.mark.parametrize("each", [1, 100])
def test_ground_truth_given_changed_and_taken_back_by_events_reaches_all_answers_of_the_task(
    tasks: list[Task], tmp_path: Path, each: int
) -> None:
    store = tmp_path / "s.db"
    some, gold = few(tasks)
    events = events_of(some)
    told(store, [*events[1:], events[0]], each)
    assert gold_of(store) == gold
    told(store, events, each)
    assert gold_of(store) == gold

    truth = events[0]["annotation"]
    key = f"ls:1:{truth['id']}"
    turned = {"left": "right", "right": "left"}
    value = truth["result"][0]["value"]
    value["selected"] = turned[value["selected"]]
    truth["updated_at"] = stamp(500.0)
    told(store, [events[0] | {"action": "ANNOTATION_UPDATED"}], each)
    gold = {one: said if one == key else turned[said] for one, said in gold.items()}
    assert gold_of(store) == gold

    # A rater changes their mind: the question is a known one as before.
    answer = events[3]["annotation"]
    answer["updated_at"] = stamp(600.0)
    answer["result"][0]["value"]["selected"] = value["selected"]
    told(store, [events[3] | {"action": "ANNOTATION_UPDATED"}], each)
    assert gold_of(store) == gold

    gone = {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": truth["id"]}]}
    told(store, [gone | {"project": {"id": 1}}], each)
    assert gold_of(store) == {}


@pytest.mark.parametrize("each", [1, 100])
def test_ground_truth_that_its_rater_has_replaced_says_the_same_by_events_and_in_a_file(
    tasks: list[Task], tmp_path: Path, each: int
) -> None:
    some, gold = few(tasks)
    truth = some[0]["annotations"][0]
    again = copy.deepcopy(truth) | {"id": 90001, "ground_truth": False}
    again |= {"created_at": stamp(700.0), "updated_at": stamp(700.0)}
    some[0]["annotations"].append(again)
    right = truth["result"][0]["value"]["selected"]
    expected = {**gold, "ls:1:90001": right}
    del expected[f"ls:1:{truth['id']}"]
    ingested(tmp_path / "file.db", tmp_path / "in", some)
    assert gold_of(tmp_path / "file.db") == expected
    told(tmp_path / "events.db", events_of(some), each)
    assert gold_of(tmp_path / "events.db") == expected


def test_unmarking_the_ground_truth_by_an_event_unmarks_the_question(
    tasks: list[Task], tmp_path: Path
) -> None:
    store = tmp_path / "s.db"
    events = events_of(few(tasks)[0])
    told(store, events)
    events[0]["annotation"] |= {"ground_truth": False, "updated_at": stamp(500.0)}
    told(store, [events[0] | {"action": "ANNOTATION_UPDATED"}])
    assert gold_of(store) == {}


def test_an_event_keeps_what_an_export_has_said_of_the_question(
    tasks: list[Task], tmp_path: Path
) -> None:
    store = tmp_path / "s.db"
    some, gold = few(tasks)
    ingested(store, tmp_path / "in", some)
    assert gold_of(store) == gold
    changed = events_of(some)[2]
    changed["annotation"]["updated_at"] = stamp(500.0)
    value = changed["annotation"]["result"][0]["value"]
    value["selected"] = "right" if value["selected"] == "left" else "left"
    told(store, [changed | {"action": "ANNOTATION_UPDATED"}])
    assert gold_of(store) == gold
    with Store(store) as found:
        assert found.check() == []


def test_an_event_on_a_task_of_a_store_of_before_does_not_blame_or_praise_the_ground_truth(
    tasks: list[Task], tmp_path: Path
) -> None:
    store = tmp_path / "s.db"
    some, gold = few(tasks)
    events = events_of(some)
    told(store, events[:-1])
    truth = f"ls:1:{events[0]['annotation']['id']}"
    with Store(store) as found, found.transaction() as transaction:
        ((number,),) = found.rows("SELECT id FROM comparison WHERE key = ?", (truth,))
        transaction.retag({number: None})
    told(store, events[-1:])
    assert gold_of(store) == {key: said for key, said in gold.items() if key != truth}


def test_the_hook_takes_known_questions_and_times(tasks: list[Task], tmp_path: Path) -> None:
    path = written(tmp_path / "export.json", tasks)
    ingested(tmp_path / "s.db", tmp_path / "in", tasks)
    with Store(tmp_path / "s.db", writable=False) as found:
        votes = in_any_order(list(records_of(found)), 9)
    with bbq.Hook(tmp_path / "hook.db", priors="auto") as hook:
        waiting = [hook.submit(bbq.Comparison(
            one.key, one.rater, one.left, one.right, one.outcome, at=one.at, time_s=one.time_s,
            tags=one.tags,
        )) for one in votes]  # fmt: skip
        for one in waiting:
            one.result(timeout=HANG_S)
    agree(verdicts("--store", tmp_path / "hook.db"), verdicts(path))


# -- stores of before


def test_a_store_of_before_is_brought_up_to_date_with_nothing_lost(
    tasks: list[Task], from_file: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bbq_plugin.store.coded_columns.CHUNK_ROWS", 100)
    store = tmp_path / "s.db"
    ingested(store, tmp_path / "in", *(tasks[i::5] for i in range(5)))
    _aged(store)
    told_no = run("raters", "--store", store)
    assert told_no.exit_code == 1
    assert "older than" in told_no.stderr
    assert "bbq store vacuum" in told_no.stderr
    with Engine(store) as engine:
        assert engine.store.check() == []
        assert engine.store.db.execute("SELECT count(*) FROM chunk").fetchone()[0] > 5
    agree(verdicts("--store", store), from_file)


def _aged(store: Path) -> None:
    """Make it a store of the time when columns held neither time nor gold, with its own tables."""
    old, bytes_before = store.with_suffix(".old"), 38
    with closing(sqlite3.connect(old, isolation_level=None)) as db:
        db.executescript(
            f"PRAGMA journal_mode = WAL; BEGIN; {''.join(MIGRATIONS[:3])}"
            f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 3; COMMIT;"
        )
        db.execute("ATTACH ? AS new", (str(store),))
        tables = db.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            there = {row[1] for row in db.execute(f"PRAGMA new.table_info({table})")}
            names = [row[1] for row in db.execute(f"PRAGMA main.table_info({table})")]
            both = ", ".join(name for name in names if name in there)
            if both:
                db.execute(f"DELETE FROM main.{table}")  # noqa: S608
                db.execute(f"INSERT INTO main.{table} ({both}) SELECT {both} FROM new.{table}")  # noqa: S608
        db.execute("INSERT INTO counter SELECT 'n_comparisons', n_comparisons FROM new.study")
        for first, n, data in db.execute("SELECT first_id, n, data FROM chunk").fetchall():
            columns = data[: bytes_before * n]
            db.execute("UPDATE chunk SET data = ?, crc = ? WHERE first_id = ?", (columns, 0, first))
    old.replace(store)
