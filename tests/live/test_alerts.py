"""What a lead should not miss is told to an address or a command, once a cause and hour."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import bbq_plugin as bbq
from bbq_plugin.config import AlertSettings
from bbq_plugin.errors import UsageError
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.health import Alerts, Health, Problems, sender, told_by
from bbq_plugin.simulation import write_study
from tests.live.server.serving import run, serving
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUR_S = 3600.0


class Post:
    """An address that takes alerts."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.status = 200
        self.location: str | None = None
        post = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if post.status == 200:
                    post.got.append(json.loads(body))
                self.send_response(post.status)
                if post.location:
                    self.send_header("Location", post.location)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook/secret-part-of-it"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def texts(self) -> list[str]:
        return [one["text"] for one in self.got]


@pytest.fixture
def post() -> Iterator[Post]:
    found = Post()
    yield found
    found.server.shutdown()
    found.server.server_close()


class Bench:
    """Alerts on a store, with a clock that is set by hand."""

    def __init__(self, post: Post, store: Path) -> None:
        self.now_s, self.post = 1_790_000_000.0, post
        self.engine = Engine(store, clock=lambda: self.now_s)
        self.problems = Problems()
        self.alerts = self._alerts()

    def _alerts(self) -> Alerts:
        send = sender(AlertSettings(), {"BBQ_ALERT_URL": self.post.url})
        assert send is not None
        alerts = Alerts(send, self.engine.store, self.problems)
        alerts.job.start()
        return alerts

    def health(self) -> None:
        self.alerts.health(Health(tuple(told_by(self.problems))))

    def told(self) -> list[str]:
        """All that was sent once what is due is through; the alerts are then started again."""
        self.alerts.job.wake()
        self.alerts.job.stop(HANG_S, finish=True)
        self.alerts = self._alerts()
        return self.post.texts()

    def analyse(self) -> None:
        self.engine.refresh(full=True)
        analysis = self.engine.analysis()
        _ = analysis.raters
        self.alerts.analysed(self.engine.study, "main", analysis)
        self.engine.keep_verdicts(analysis)


@pytest.fixture
def bench(post: Post, tmp_path: Path) -> Iterator[Bench]:
    found = Bench(post, tmp_path / "state.db")
    yield found
    found.alerts.job.stop()
    found.engine.close()


def test_red_is_told_at_once_and_again_after_an_hour_at_the_earliest(bench: Bench) -> None:
    bench.health()
    assert bench.told() == []
    bench.problems.report("server", "no route")
    bench.health()
    assert bench.told()[0].startswith("bbq: health is red. Label Studio does not answer: no route")
    for _ in range(5):
        bench.problems.over("server")
        bench.health()
        bench.problems.report("server", "no route")
        bench.health()
    assert len(bench.told()) == 1
    bench.now_s += HOUR_S + 1
    assert len(bench.told()) == 2


def test_what_is_over_before_its_hour_is_not_told(bench: Bench) -> None:
    for reason in ("first", "second"):
        bench.problems.report("server", reason)
        bench.health()
        assert len(bench.told()) == 1
        bench.problems.over("server")
        bench.health()
    bench.now_s += HOUR_S + 1
    assert len(bench.told()) == 1


def test_excluded_raters_and_a_settled_leader_are_told_once_also_after_a_restart(
    bench: Bench,
) -> None:
    study = bbq.simulate(items=6, raters=12, comparisons=3000, guessers=0.2, seed=3)
    bench.engine.add(study.comparisons())
    bench.analyse()
    (text,) = bench.told()
    assert text.startswith("bbq: study main: ")
    assert "newly excluded: " in text
    bench.analyse()
    assert bench.told() == [text]
    for _ in range(2):
        bench.alerts.settled(1, "main", "model-1", bench.now_s)
        assert "the leader is settled: model-1" in bench.told()[1]
        bench.now_s += HOUR_S + 1
    assert len(bench.told()) == 2


def test_a_camp_that_appears_is_told_once(bench: Bench) -> None:
    study = bbq.simulate(items=8, raters=40, comparisons=4000, minority=0.4, spread=1.2, seed=9)
    bench.engine.add(study.comparisons())
    for _ in range(2):
        bench.analyse()
        bench.told()
        assert [one["camps"] for one in bench.post.got if one["cause"] == "camps"] == [2]
        bench.now_s += HOUR_S + 1
    assert any("The panel is divided" in text for text in bench.told())


def test_raters_who_follow_within_the_hour_are_told_together(bench: Bench) -> None:
    study = bbq.simulate(items=6, raters=24, comparisons=8000, guessers=0.3, seed=3)
    answers = list(study.comparisons())
    bench.engine.add(answers)
    bench.engine.refresh(full=True)
    *_, third, fourth = bench.engine.analysis().raters.excluded_by_model
    others = (third, fourth)
    bench.engine.retract([one.key for one in answers if one.rater in others])
    bench.analyse()
    assert len(bench.told()) == 1
    for rater in others:
        bench.engine.add([one for one in answers if one.rater == rater])
        bench.analyse()
        assert len(bench.told()) == 1
    bench.now_s += HOUR_S + 1
    bench.told()
    assert set(bench.post.got[1]["raters"]) == set(others)


def test_an_alert_that_does_not_arrive_is_tried_again_and_no_secret_is_told(bench: Bench) -> None:
    bench.post.status, bench.post.location = 307, "http://127.0.0.1:1/elsewhere"
    bench.problems.report("server", "no route")
    bench.health()
    assert bench.told() == []
    (problem,) = [one for one in bench.problems if one.what == "alerts"]
    assert "refused by 127.0.0.1 with 307" in problem.reason
    assert "secret" not in problem.reason
    bench.post.status = 200
    assert len(bench.told()) == 1
    assert "alerts" not in bench.problems


@pytest.mark.parametrize(
    ("settings", "variable", "why"),
    [
        ({"alert_url_file": Path("/none/such")}, "", "cannot be read"),
        ({}, "ftp://example.org", "expected an address"),
        ({}, "no address", "expected an address"),
        ({"alert_command": "notify 'half"}, "", "quotes"),
    ],
)
def test_a_wrong_setting_is_refused_at_the_start(
    settings: dict[str, Any], variable: str, why: str
) -> None:
    with pytest.raises(UsageError, match=why) as error:
        sender(AlertSettings(**settings), {"BBQ_ALERT_URL": variable})
    assert not variable or variable not in str(error.value)


def test_a_server_tells_a_command_and_an_address(post: Post, tmp_path: Path) -> None:
    heard, script = tmp_path / "heard", tmp_path / "tell.py"
    script.write_text(f"import sys; open({str(heard)!r}, 'a').write(sys.stdin.read() + '\\n')\n")
    store = tmp_path / "state.db"
    with Engine(store) as engine:
        study = bbq.simulate(items=6, raters=12, comparisons=3000, guessers=0.2, spread=1.0, seed=3)
        engine.add(study.comparisons())
    command = f"{sys.executable} {script}"
    with serving(store, "--alert-command", command, BBQ_ALERT_URL=post.url) as here:
        # Both at once: excluded raters, and a leader that was never told.
        here.wait_until(lambda: len(post.got) >= 2, "two alerts")
        causes = {one["cause"]: one for one in post.got}
        assert set(causes) == {"excluded", "settled"}
        assert causes["excluded"]["schema"] == "bbq.alert/1"
        assert set(causes["excluded"]["raters"]) <= set(study.truth.raters)
        here.wait_until(lambda: heard.exists() and heard.read_text().count("\n") >= 2, "both")
    assert [json.loads(line) for line in heard.read_text().splitlines()] == post.got
    assert "secret-part" not in here.log


def test_a_daemon_tells_it_too_before_it_ends(post: Post, tmp_path: Path) -> None:
    (tmp_path / "votes").mkdir()
    with (tmp_path / "votes" / "a.jsonl").open("w") as file:
        study = bbq.simulate(items=6, raters=12, comparisons=3000, guessers=0.2, seed=3)
        write_study(study, file, "arena")
    words = ("watch", str(tmp_path / "votes"), "--store", str(tmp_path / "s.db"))
    done = run(*words, "--out", str(tmp_path / "out"), "--once", "--alert-on", "excluded",
               BBQ_ALERT_URL=post.url)  # fmt: skip
    assert done.returncode == 0, done.stderr
    (told,) = post.got
    assert told["cause"] == "excluded"
