"""`bbq watch` as a user meets it: real processes, real signals, real files."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import bbq_plugin as bbq
from bbq_plugin.simulation import write_study
from bbq_plugin.store import Store
from tests.live.watch.running import Place, Votes, put
from tests.waiting import HANG_S

BBQ = [sys.executable, "-c", "from bbq_plugin.cli import main; main(prog_name='bbq')"]


def status(place: Place) -> dict[str, str]:
    with Store(place.store, writable=False) as store:
        return {entry.name: entry.status for entry in store.ledger()}


@pytest.mark.parametrize("observer", ["native", "polling"])
def test_files_present_and_files_that_come_end_up_in_the_results(
    place: Place, observer: str
) -> None:
    place.settings["observer"] = observer
    votes = Votes()
    put(place.folder / "before.jsonl", votes.lines(40))
    place.start()
    place.await_count(40)
    put(place.folder / "renamed.jsonl", votes.lines(10))
    place.await_count(50)
    (place.folder / "closed.jsonl").write_text(votes.lines(10))
    place.await_count(60)
    assert place.end() == 0
    assert place.events()[-1]["event"] == "stopped"
    with Store(place.store, writable=False) as store:
        assert [point.n_comparisons for point in store.history()] == [40, 50, 60]


def test_bbq_signed_from_bbq_toml_gives_the_results_of_a_cold_fit(place: Place) -> None:
    config = place.top / "bbq.toml"
    config.write_text('[model]\nmodel = "bbq-signed"\n')
    study = bbq.simulate(
        items=5, raters=15, comparisons=1500, inverted=0.2, spread=1.5, ties=0.1, seed=2
    )
    lines = io.StringIO()
    write_study(study, lines, "arena")
    votes = lines.getvalue().splitlines(keepends=True)
    place.start("--config", str(config))
    for n in range(3):
        put(place.folder / f"{n}.jsonl", "".join(votes[500 * n : 500 * (n + 1)]))
        place.await_count(500 * (n + 1))
    assert place.end() == 0
    # Its changes are not followed: each refresh is a full fit.
    assert {one["how"] for one in place.said("refreshed")} == {"full"}
    cold = bbq.fit(bbq.read(sorted(place.folder.iterdir())), model="bbq-signed")
    judged = {row.rater: row for row in bbq.rater_report(cold)}
    report = json.loads((place.out / "report.json").read_text())
    assert report["model"] == "bbq-signed"
    theta = {item["item"]: item["theta"] for item in report["items"]}
    # Both stop within 1e-6 of the optimum.
    assert theta == pytest.approx(dict(zip(cold.items, cold.theta, strict=True)), abs=2e-6)
    for row in report["raters"]:
        same = judged[row["rater"]]
        assert (row["verdict"], tuple(row["reasons"])) == (same.verdict, same.reasons)
        assert row["quality"] == pytest.approx(same.quality, abs=1e-4)
    assert min(row["quality"] for row in report["raters"]) < -0.5


@pytest.mark.parametrize("command", ["watch", "serve", "fit"])
def test_estimated_priors_of_bbq_signed_are_refused_at_once_with_the_remedy(
    place: Place, command: str
) -> None:
    put(place.folder / "votes.jsonl", Votes().lines(40))
    where = {
        "watch": [str(place.folder), "--store", str(place.store), "--out", str(place.out)],
        "serve": ["--store", str(place.store), "--port", "0"],
        "fit": [str(place.folder / "votes.jsonl")],
    }[command]
    told = subprocess.run(
        [*BBQ, command, *where, "--model", "bbq-signed", "--priors", "auto"],
        capture_output=True, text=True, check=False, timeout=HANG_S,
    )  # fmt: skip
    assert told.returncode == 2
    assert "leave priors out, or give five numbers" in told.stderr


def test_the_results_after_an_idle_while_are_those_of_a_cold_fit(place: Place) -> None:
    place.settings["idle_full_s"] = 0.2
    place.settings["priors"] = "paper"
    votes = Votes()
    place.start()
    for n in range(3):
        put(place.folder / f"{n}.jsonl", votes.lines(60))
        place.await_count(60 * (n + 1))
    place.await_said("refreshed", how="full", comparisons=180)
    assert place.end() == 0
    cold = bbq.fit(bbq.read(sorted(place.folder.iterdir())), priors="paper")
    report = json.loads((place.out / "report.json").read_text())
    theta = {item["item"]: item["theta"] for item in report["items"]}
    expected = dict(zip(cold.items, cold.theta, strict=True))
    # Both stop within 1e-6 of the optimum.
    assert theta == pytest.approx(expected, abs=3e-6)


def test_a_log_is_read_as_it_grows_and_its_half_line_waits(place: Place) -> None:
    votes = Votes()
    log = place.folder / "log.jsonl"
    place.start()
    with log.open("w") as file:
        file.write(votes.lines(5))
        last = votes.line()
        file.write(last[:20])
        file.flush()
        place.await_count(5)
        file.write(last[20:] + votes.lines(4))
        file.flush()
        place.await_count(10)
    with log.open("a") as file:
        file.write(votes.lines(3).rstrip("\n"))
    place.await_count(13)
    assert place.end() == 0
    assert place.said("file_refused") == []


def test_a_bad_file_is_on_record_does_not_stop_others_and_is_tried_when_it_changes(
    place: Place,
) -> None:
    votes = Votes()
    place.start()
    unknown = '{"id": "x", "judge": "j", "model_a": "a", "model_b": "b", "winner": "nobody"}\n'
    put(place.folder / "bad.jsonl", votes.line() + unknown)
    put(place.folder / "good.jsonl", votes.lines(5))
    refused = place.await_said("file_refused", file="bad.jsonl")
    assert "2" in refused["reason"]
    place.await_count(5)
    # A while later, with other files coming, nobody tried it again.
    put(place.folder / "more.jsonl", votes.lines(5))
    place.await_count(10)
    assert len(place.said("file_refused")) == 1
    assert status(place)["bad.jsonl"] == "refused"
    put(place.folder / "bad.jsonl", votes.lines(2))
    place.await_count(12)
    assert status(place)["bad.jsonl"] == "read"
    assert place.end() == 0


def test_once_reads_what_is_there_and_leaves(place: Place) -> None:
    put(place.folder / "a.jsonl", Votes().lines(30))
    assert place.once() == 0
    assert place.reported() == 30
    assert place.said("refreshed")[-1]["how"] == "full"
    assert place.once() == 0
    assert place.said("batch")[-1]["unchanged"] == 1


def test_once_on_an_empty_folder_is_no_fault(place: Place) -> None:
    assert place.once() == 0
    assert place.reported() is None


def test_once_tells_a_script_of_refused_files_until_they_are_corrected(place: Place) -> None:
    bad = place.folder / "bad.jsonl"
    put(bad, '{"model_a": "x", "model_b": "y", "winner": "z"}\n')
    for _ in range(2):
        assert place.once() == 1
        said = place.log.read_text().splitlines()[-1]
        assert said.startswith("Error: 1 source refused: bad.jsonl: ")
        assert "'z'" in said
        assert f"bbq status --store {place.store}" in said
    votes = Votes()
    put(place.folder / "good.jsonl", votes.lines(20))
    assert place.once() == 1
    assert place.reported() == 20
    put(bad, votes.lines(5))
    assert place.once() == 0
    assert place.reported() == 25


def test_the_page_has_the_history(place: Place) -> None:
    place.settings["write"] = "report.html"
    votes = Votes()
    for n in range(3):
        put(place.folder / f"{n}.jsonl", votes.lines(20))
        assert place.once() == 0
    page = (place.out / "report.html").read_text()
    assert page.rstrip().endswith("</html>")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_the_batch_in_hand(place: Place, number: signal.Signals) -> None:
    put(place.folder / "a.jsonl", Votes().lines(3000))
    place.start()
    place.await_said("started")
    # Nobody knows where in its work this meets the daemon; nothing may be half done after it.
    assert place.end(number) == 0
    assert place.events()[-1]["event"] == "stopped"
    with Store(place.store, writable=False) as store:
        n = store.counts().n_comparisons
    assert n in {0, 3000}
    assert place.reported() == (n or None)


def test_sighup_reads_the_configuration_again_and_keeps_the_old_if_it_is_bad(
    place: Place,
) -> None:
    config = place.top / "bbq.toml"
    config.write_text('[outputs]\nwrite = ["report.json"]\n')
    del place.settings["write"]
    votes = Votes()
    put(place.folder / "a.jsonl", votes.lines(20))
    pid = place.start("--config", str(config))
    place.await_said("refreshed")
    assert sorted(p.name for p in place.out.iterdir()) == ["report.json"]

    config.write_text('[outputs]\nwrite = ["report.jsn"]\n')
    os.kill(pid, signal.SIGHUP)
    assert "outputs.write" in place.await_said("config_refused")["reason"]

    config.write_text('[outputs]\nwrite = ["report.json", "raters.csv"]\n')
    os.kill(pid, signal.SIGHUP)
    place.await_said("config_reread")
    put(place.folder / "b.jsonl", votes.lines(20))
    place.await_count(40)
    assert place.end() == 0
    assert sorted(p.name for p in place.out.iterdir()) == ["raters.csv", "report.json"]


def test_a_second_daemon_is_refused_and_told_who_holds_the_store(place: Place) -> None:
    first = place.start()
    place.await_said("started")
    done = subprocess.run(
        [*BBQ, *place.arguments()], capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert done.returncode == 1
    assert f"process {first}" in done.stderr
    assert "Traceback" not in done.stderr
    assert place.end() == 0


def test_a_folder_that_is_not_there_at_the_start_is_an_error(place: Place) -> None:
    place.folder.rmdir()
    assert place.once() == 1
    assert "no such folder" in place.log.read_text()


def test_readers_see_the_store_while_the_daemon_runs(place: Place) -> None:
    put(place.folder / "a.jsonl", Votes().lines(50))
    place.start()
    place.await_count(50)
    with Store(place.store, writable=False) as store:
        assert store.counts().n_comparisons == 50
        assert store.check() == []
    assert place.end() == 0


def test_hostile_names_are_read_and_leave_one_line_an_event(place: Place) -> None:
    votes = Votes()
    raw = os.fsencode(place.folder)
    names = [b"bad-\xff\xfe.jsonl", b"new\nline.jsonl", b"esc\x1b]0;x\x07.jsonl", b"-rf.jsonl"]
    for name in names:
        path = os.path.join(raw, name)  # noqa: PTH118 (bytes)
        with open(path, "w") as file:  # noqa: PTH123 (bytes)
            file.write(votes.lines(5))
    place.start()
    place.await_count(20)
    assert place.end() == 0
    for line in place.log.read_text().splitlines():
        json.loads(line)
    assert len(place.said("file_read")) == 4


def test_deleting_a_file_takes_nothing_back(place: Place) -> None:
    votes = Votes()
    gone = put(place.folder / "a.jsonl", votes.lines(10))
    place.start()
    place.await_count(10)
    gone.unlink()
    put(place.folder / "b.jsonl", votes.lines(10))
    place.await_count(20)
    assert place.end() == 0


def test_help_names_every_setting() -> None:
    done = subprocess.run([*BBQ, "watch", "--help"], capture_output=True, text=True, check=True)
    for option in ("--store", "--out", "--once", "--settle-s", "--log-format", "--observer"):
        assert option in done.stdout


def test_without_a_store_the_remedy_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [*BBQ, "watch", str(tmp_path)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode in {1, 2}
    assert "--store" in done.stderr


def test_results_do_not_outlive_the_answers_that_they_are_of(place: Place) -> None:
    put(place.folder / "a.jsonl", Votes().lines(20))
    place.start()
    place.await_said("refreshed")
    put(place.folder / "a.jsonl", '{"winner": "x", "loser": "x"}\n')
    put(place.folder / "a.jsonl", "winner,loser\n")
    place.await_said("results_removed")
    assert list(place.out.iterdir()) == []
    assert place.end() == 0


def test_a_daemon_with_nothing_to_do_sleeps(place: Place) -> None:
    place.settings |= {"idle_full_s": 0.1, "rescan_s": 60}
    pid = place.start()
    place.await_said("started")

    def worked() -> tuple[int, int]:
        """Ticks of CPU, and how often any of its threads was woken."""
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        threads = Path(f"/proc/{pid}/task").glob("*/status")
        woken = [
            int(line.split()[1])
            for status in threads
            for line in status.read_text().splitlines()
            if line.startswith("voluntary_ctxt_switches:")
        ]
        return int(fields[11]) + int(fields[12]), sum(woken)

    since_s, (ticks, woken) = time.monotonic(), worked()

    def sleeps() -> bool:
        nonlocal since_s, ticks, woken
        if time.monotonic() - since_s < 1:
            return False
        before, (ticks, woken), since_s = (ticks, woken), worked(), time.monotonic()
        return ticks - before[0] < 0.1 * os.sysconf("SC_CLK_TCK") and woken - before[1] < 10

    # Not at once: how long the start takes is the machine's affair.
    place.wait_until(sleeps, "a second in which the daemon sleeps")
    assert place.end() == 0


def test_a_restart_without_news_adds_nothing_to_the_history(place: Place) -> None:
    votes = Votes()
    put(place.folder / "a.jsonl", votes.lines(20))
    put(place.folder / "bad.jsonl", "{}\n")
    for _ in range(3):
        assert place.once() == 1
    put(place.folder / "b.jsonl", votes.lines(20))
    assert place.once() == 1
    with Store(place.store, writable=False) as store:
        assert [point.n_comparisons for point in store.history()] == [20, 40]


def test_a_store_removed_under_the_daemon_ends_it_and_the_next_one_reads_all_again(
    place: Place,
) -> None:
    votes = Votes()
    put(place.folder / "a.jsonl", votes.lines(20))
    place.start()
    place.await_count(20)
    for path in place.top.glob("state.db*"):
        path.unlink()
    put(place.folder / "b.jsonl", votes.lines(20))
    assert place.end(None) == 1
    assert "removed or replaced" in place.log.read_text().splitlines()[-1]
    assert place.once() == 0
    assert place.reported() == 40


def test_sighup_while_the_folder_is_away_does_no_harm(place: Place) -> None:
    votes = Votes()
    put(place.folder / "a.jsonl", votes.lines(20)).unlink()
    pid = place.start()
    place.await_said("started")
    place.folder.rmdir()
    place.await_said("folder_gone")
    os.kill(pid, signal.SIGHUP)
    place.await_said("config_reread")
    put(place.folder / "b.jsonl", votes.lines(20))
    place.await_count(20)
    assert place.end() == 0
