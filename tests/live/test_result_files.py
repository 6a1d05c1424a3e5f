from __future__ import annotations

import csv
import json
import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import bbq_plugin as bbq
from bbq_plugin.config import Settings, load
from bbq_plugin.errors import UsageError
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.result_files import Outputs, Written, limits_of, output_key
from bbq_plugin.report.documents import Origin
from bbq_plugin.report.pseudonyms import pseudonym
from tests.report.studies import HOSTILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALL = ["leaderboard.csv", "raters.csv", "report.html", "report.json"]
KEY = "correct horse battery staple"


def _named(record: bbq.Comparison, key: str | None = None) -> bbq.Comparison:
    """Under a name that no pseudonym and no anchor of the page begins with."""
    who = f"Person{str(record.rater).removeprefix('rater')}"
    return bbq.Comparison(key or record.key, who, record.left, record.right, record.outcome)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    study = bbq.simulate(items=5, raters=6, comparisons=400, guessers=0.2, seed=1)
    with Engine(tmp_path / "votes.db", priors="auto") as found:
        found.add([_named(record) for record in study.comparisons()])
        yield found


def settings(tmp_path: Path, **given: Any) -> Settings:
    return load(None, {}, {"out": tmp_path / "out" / "now", "intervals": "laplace", **given})


def write_outputs(
    engine: Engine, chosen: Settings, at: float, how: str = "full", origin: Origin | None = None
) -> Written:
    """What the daemon does after a refresh."""
    analysis = engine.analysis(limits_of(chosen))
    analysis.at = at
    outputs = Outputs(engine.store, analysis, chosen)
    outputs.record(how)
    return outputs.write(origin)


def document(tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / "out" / "now" / "report.json").read_text())
    return found


def test_all_outputs_are_written_and_tell_the_same(engine: Engine, tmp_path: Path) -> None:
    origin = Origin("bbq watch votes", 0)
    done = write_outputs(engine, settings(tmp_path), 1.7e9, how="full", origin=origin)
    out = tmp_path / "out" / "now"
    assert sorted(path.name for path in out.iterdir()) == ALL
    assert sorted(path.name for path in done.files) == ALL
    assert done.notes == ()
    report = document(tmp_path)
    assert report["n_comparisons"] == 400
    assert report["command"] == "bbq watch votes"
    with (out / "leaderboard.csv").open(encoding="utf-8", newline="") as file:
        board = list(csv.DictReader(file))
    assert [row["item"] for row in board] == [row["item"] for row in report["items"]]
    with (out / "raters.csv").open(encoding="utf-8", newline="") as file:
        raters = list(csv.DictReader(file))
    assert [row["verdict"] for row in raters] == [row["verdict"] for row in report["raters"]]
    assert report["items"][0]["item"] in (out / "report.html").read_text()


def test_the_history_grows_with_each_refresh_and_is_drawn(engine: Engine, tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    write_outputs(engine, chosen, 1.7e9, how="full")
    assert 'id="history"' not in (tmp_path / "out" / "now" / "report.html").read_text()
    more = bbq.simulate(items=5, raters=6, comparisons=100, seed=2)
    engine.add([_named(record, f"again-{i}") for i, record in enumerate(more.comparisons())])
    how = engine.refresh()
    write_outputs(engine, chosen, 1.7e9 + 60, how=how)
    report = document(tmp_path)
    assert [point["n_comparisons"] for point in report["history"]] == [400, 500]
    last = {row["item"]: row["rating"] for row in report["history"][-1]["items"]}
    assert last == pytest.approx({row["item"]: row["rating"] for row in report["items"]})
    assert 'id="history"' in (tmp_path / "out" / "now" / "report.html").read_text()


def test_a_long_history_is_read_from_the_store_in_part_and_keeps_its_ends(engine: Engine) -> None:
    (item, *_) = engine.fit.items
    for n in range(1, 61):
        engine.store.add_history(
            1.7e9 + n, 10 * n, "incremental", [(item, 1000.0 + n, None, None, 1)]
        )
    whole, part = engine.store.history(), engine.store.history(12)
    assert len(whole) == 60
    assert len(part) <= 12
    assert (part[0], part[-1]) == (whole[0], whole[-1])
    assert [point for point in whole if point in part] == part


def test_another_scale_later_leaves_the_history_as_it_was(engine: Engine, tmp_path: Path) -> None:
    write_outputs(engine, settings(tmp_path), 1.7e9)
    write_outputs(engine, settings(tmp_path, scale="theta"), 1.7e9 + 60)
    first, second = document(tmp_path)["history"]
    for before, after in zip(first["items"], second["items"], strict=True):
        assert before["rating"] == pytest.approx(after["rating"], abs=1e-6)
        assert abs(before["rating"]) < 10


def test_settings_reach_the_report(engine: Engine, tmp_path: Path) -> None:
    chosen = settings(tmp_path, level=0.8, least=1000, write=["report.json"], scale="paper")
    done = write_outputs(engine, chosen, 1.7e9)
    assert [path.name for path in done.files] == ["report.json"]
    report = document(tmp_path)
    assert (report["level"], report["scale"], report["intervals"]) == (0.8, "paper", "laplace")
    assert all(row["verdict"] != "exclude" for row in report["raters"])


def test_pseudonyms_are_everywhere_or_nothing_is_written(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BBQ_PSEUDONYM_KEY", raising=False)
    chosen = settings(tmp_path, pseudonymise=True)
    with pytest.raises(UsageError, match="no pseudonym key in BBQ_PSEUDONYM_KEY"):
        output_key(chosen)
    with pytest.raises(UsageError, match="no pseudonym key"):
        write_outputs(engine, chosen, 1.7e9)
    assert not (tmp_path / "out").exists()
    monkeypatch.setenv("BBQ_PSEUDONYM_KEY", KEY)
    write_outputs(engine, chosen, 1.7e9)
    names = set(engine.fit.raters)
    shown = {row["rater"] for row in document(tmp_path)["raters"]}
    assert shown == {pseudonym(name, KEY.encode()) for name in names}
    for path in (tmp_path / "out" / "now").iterdir():
        text = path.read_text()
        assert not [name for name in names if name in text], path.name
        assert KEY not in text


def test_a_key_file_gives_the_same_pseudonyms_as_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BBQ_PSEUDONYM_KEY", raising=False)
    (tmp_path / "key").write_text(f"{KEY}\n")
    assert output_key(settings(tmp_path, pseudonym_key_file=tmp_path / "key")) == (KEY.encode(), [])
    assert output_key(settings(tmp_path)) == (None, [])


def test_hostile_names_do_no_harm_in_any_file(tmp_path: Path) -> None:
    records = [
        bbq.Comparison(f"{i}-{j}", f"=cmd{i % 3}", HOSTILE[i], HOSTILE[j], "left")
        for i in range(len(HOSTILE))
        for j in range(len(HOSTILE))
        if i != j
    ]
    with Engine(tmp_path / "votes.db") as engine:
        engine.add(records[:40])
        engine.refresh()
        write_outputs(engine, settings(tmp_path), 1.7e9)
        engine.add(records)
        engine.refresh()
        write_outputs(engine, settings(tmp_path), 1.7e9 + 1)
    report = document(tmp_path)
    assert {row["item"] for row in report["items"]} == set(HOSTILE)
    assert {row["item"] for row in report["history"][-1]["items"]} == set(HOSTILE)
    page = (tmp_path / "out" / "now" / "report.html").read_text()
    assert "<script" not in page
    assert "<img" not in page
    for line in (tmp_path / "out" / "now" / "raters.csv").read_text().splitlines()[1:]:
        assert line.startswith("'=cmd")


_WITHOUT = """
import sys
sys.modules[sys.argv[3]] = None
from pathlib import Path
from bbq_plugin.config import load
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.result_files import Outputs, limits_of
with Engine(sys.argv[1]) as engine:
    settings = load(None, {}, {"out": Path(sys.argv[2])})
    done = Outputs(engine.store, engine.analysis(limits_of(settings)), settings).write()
print(done.notes)
"""


@pytest.mark.parametrize("library", ["jinja2", "vl_convert"])
def test_without_the_charts_the_page_is_left_out_and_the_rest_is_written(
    library: str, engine: Engine, tmp_path: Path
) -> None:
    engine.close()
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, tmp_path / "votes.db", tmp_path / "out", library],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.count("report.html is left out") == 1
    assert "pip install 'bbq-plugin[charts]'" in done.stdout
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "leaderboard.csv", "raters.csv", "report.json",
    ]  # fmt: skip


def test_what_a_killed_daemon_left_half_written_goes_and_other_files_stay(
    engine: Engine, tmp_path: Path
) -> None:
    out = tmp_path / "out" / "now"
    out.mkdir(parents=True)
    (out / ".report.json.999999999.part").write_text("half")
    (out / "mine.txt").write_text("not ours")
    write_outputs(engine, settings(tmp_path, write=["report.json"]), 1.7e9)
    assert sorted(path.name for path in out.iterdir()) == ["mine.txt", "report.json"]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_that_cannot_be_written_is_named(engine: Engine, tmp_path: Path) -> None:
    out = tmp_path / "out" / "now"
    out.mkdir(parents=True)
    out.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(PermissionError, match=r"report\.json"):
        write_outputs(engine, settings(tmp_path), 1.7e9)


def test_a_file_where_the_folder_should_be_is_named(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(OSError, match="out") as caught:
        write_outputs(
            engine, msgspec.structs.replace(settings(tmp_path), out=tmp_path / "out"), 1.7e9
        )
    assert str(caught.value.filename) == str(tmp_path / "out")


def test_results_are_for_their_owner_alone_unless_the_owner_says_otherwise(
    tmp_path: Path, engine: Engine
) -> None:
    chosen = settings(tmp_path)
    done = write_outputs(engine, chosen, 1.0)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in done.files}
    assert modes == dict.fromkeys(ALL, 0o600)
    page = next(file for file in done.files if file.name == "report.html")
    page.chmod(0o644)
    write_outputs(engine, chosen, 2.0)
    assert stat.S_IMODE(page.stat().st_mode) == 0o644
