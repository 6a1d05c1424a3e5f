"""Fits over the parts of a prepared set: the same as in memory, wherever the parts are computed.

One Dask cluster of two processes on the loopback serves all tests here; it is ended with them.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import bbq_plugin as bbq
from bbq_plugin.analysis.analysis import Analysis
from bbq_plugin.cli import main
from bbq_plugin.errors import RemoteError, UnsupportedError, UsageError
from bbq_plugin.model.objectives import added, added_up
from bbq_plugin.model.prior_estimation import few_raters
from bbq_plugin.scale.engines import DaskEngine, LocalEngine, opened_engine
from bbq_plugin.scale.parted_fit import PartedFit, PreparedParts
from bbq_plugin.scale.prepared_set import Preparation, PreparedSet, open_dataset, prepare_lake

ROLES = {"left": "a", "right": "b", "winner": "won", "rater": "rater"}
TIGHT = 1e-10
# Without types of their own.
distributed: Any = import_module("distributed")


def votes(n: int = 30_000, raters: int = 300, items: int = 9, ties: float = 0.1) -> pa.Table:
    rng = np.random.default_rng(5)
    theta = rng.normal(0, 1, items)
    quality = np.where(rng.random(raters) < 0.15, rng.beta(1, 9, raters), rng.beta(10, 2, raters))
    r, a = (raters * rng.random(n) ** 1.5).astype(int), rng.integers(0, items, n)
    b = (a + rng.integers(1, items, n)) % items
    p = 0.5 + quality[r] * (1 / (1 + np.exp(theta[b] - theta[a])) - 0.5)
    won = np.where(rng.random(n) < p, "left", "right")
    won = np.where(rng.random(n) < ties * (1 + r % 3) / 2, "tie", won)
    columns = {"rater": [f"r{x}" for x in r], "a": [f"i{x}" for x in a], "b": [f"i{x}" for x in b]}
    return pa.table({**columns, "won": won.tolist()})


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> PreparedSet:
    folder = tmp_path_factory.mktemp("prepared")
    pq.write_table(votes(), folder / "votes.parquet")
    return prepare_lake(
        [str(folder / "votes.parquet")], ROLES, Preparation(folder / "v.bbq", parts=5)
    )


@pytest.fixture(scope="module")
def dask() -> Iterator[DaskEngine]:
    print("starting a Dask cluster of two processes on 127.0.0.1")  # noqa: T201 (said to the user)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1",
            dashboard_address="127.0.0.1:0", env={"BBQ_THREADS": "1"},
        ) as cluster,
        distributed.Client(cluster.scheduler_address, set_as_default=False) as client,
    ):  # fmt: skip
        yield DaskEngine(client, cluster.scheduler_address)


def largest(a: Any, b: Any) -> float:
    return float(np.max(np.abs(np.asarray(a) - np.asarray(b))))


def by_item(fit: bbq.Fit) -> np.ndarray[Any, Any]:
    return np.argsort(fit.items)


def assert_same(found: bbq.Fit, memory: bbq.Fit) -> None:
    """Within 1e-8, the bar for both fits at tol = 1e-10."""
    i, j = by_item(found), by_item(memory)
    assert largest(found.theta[i], memory.theta[j]) < 1e-8
    if memory.population is not None:
        assert found.population is not None
        assert largest(found.population.eta, memory.population.eta) < 1e-8
    assert largest(found.covariance()[np.ix_(i, i)], memory.covariance()[np.ix_(j, j)]) < 1e-8
    quality = dict(zip(memory.raters, memory.quality.tolist(), strict=True))
    assert largest(found.quality, [quality[name] for name in found.raters]) < 1e-8
    boards = [{row.item: row for row in bbq.leaderboard(fit)} for fit in (found, memory)]
    for name, row in boards[0].items():
        other = boards[1][name]
        for field in ("rating_lower", "rating_upper", "win_share_lower", "win_share_upper", "n"):
            assert row[field] == pytest.approx(other[field], abs=1e-6), field
        assert (row.rank, row.rank_best, row.rank_worst) == (
            other.rank, other.rank_best, other.rank_worst,
        )  # fmt: skip


@pytest.mark.parametrize(
    "chosen",
    [{}, {"ties": "half"}, {"priors": "paper"}, {"cluster": "none", "camps": 1}],
    ids=["default", "half ties", "the paper's priors", "no clusters"],
)
def test_a_fit_over_parts_is_the_fit_in_memory(prepared: PreparedSet, chosen: Any) -> None:
    found = bbq.fit(prepared, tol=TIGHT, **chosen)
    assert_same(found, bbq.fit(prepared.read(), tol=TIGHT, **chosen))
    assert (found.axis is None) == (chosen.get("camps") == 1)


def test_weights_above_one_are_learnt_from_as_in_memory(tmp_path: Path) -> None:
    """Ratings count them; what is learnt of raters and camps counts each answer once."""
    table = votes(6_000, 80, 12)
    weight = np.random.default_rng(1).choice([0.1, 0.37, 1.0, 2.5, 7.3], len(table))
    pq.write_table(table.append_column("w", pa.array(weight)), tmp_path / "1.parquet")
    how = Preparation(tmp_path / "v.bbq", parts=3)
    made = prepare_lake([str(tmp_path / "1.parquet")], {**ROLES, "weight": "w"}, how)
    found, memory = bbq.fit(made, tol=TIGHT), bbq.fit(made.read(), tol=TIGHT)
    assert len(found.camps) == 1
    assert_same(found, memory)
    assert made.read().once.weight.max() <= 1 < made.read().weight.max()


class Weighing(LocalEngine):
    """Keeps how many bytes the results of parts would have on their way to the driver."""

    sent = 0

    def map(self, work: Any, tasks: Any, *args: Any) -> list[Any]:
        found = super().map(work, tasks, *args)
        self.sent += len(pickle.dumps(found))
        return found


def test_a_sample_of_raters_is_that_in_memory_and_costs_the_same_of_ten_times_as_many(
    tmp_path: Path,
) -> None:
    engine, sent = Weighing(), []
    for raters in (2_000, 20_000):
        pq.write_table(votes(2 * raters, raters), tmp_path / f"{raters}.parquet")
        how = Preparation(tmp_path / f"{raters}.bbq", parts=4)
        made, before = prepare_lake([str(tmp_path / f"{raters}.parquet")], ROLES, how), engine.sent
        some = few_raters(PreparedParts(made, engine, decided=True), (400, 0))
        assert sorted(some.names) == sorted(few_raters(made.read().decided, (400, 0)).names)
        sent.append(engine.sent - before)
    assert 150 < some.n_raters < 250
    assert sent[1] < 1.2 * sent[0]


def divided_votes(ties: float = 0.1) -> pa.Table:
    """A third of the raters prefers other items; some guess."""
    rng = np.random.default_rng(8)
    raters, items, n = 120, 7, 9_000
    theta = rng.normal(0, 1.5, (2, items))
    camp, quality = np.arange(raters) % 3 == 0, rng.beta(8, 2, raters)
    quality[rng.random(raters) < 0.1] = 0.05
    r, a = rng.integers(0, raters, n), rng.integers(0, items, n)
    b = (a + rng.integers(1, items, n)) % items
    gap = theta[camp[r].astype(int), a] - theta[camp[r].astype(int), b]
    p = 0.5 + quality[r] * (1 / (1 + np.exp(-gap)) - 0.5)
    won = np.where(rng.random(n) < p, "left", "right")
    won = np.where(rng.random(n) < ties * (1 + r % 3) / 2, "tie", won)
    columns = {"rater": [f"r{x}" for x in r], "a": [f"i{x}" for x in a], "b": [f"i{x}" for x in b]}
    return pa.table({**columns, "won": won.tolist()})


@pytest.fixture(scope="module")
def divided(tmp_path_factory: pytest.TempPathFactory) -> PreparedSet:
    folder = tmp_path_factory.mktemp("divided")
    pq.write_table(divided_votes(), folder / "votes.parquet")
    return prepare_lake(
        [str(folder / "votes.parquet")], ROLES, Preparation(folder / "v.bbq", parts=4)
    )


@pytest.fixture(scope="module")
def divided_fits(divided: PreparedSet) -> tuple[bbq.Fit, bbq.Fit]:
    """Over parts, and in memory."""
    return bbq.fit(divided, tol=TIGHT), bbq.fit(divided.read(), tol=TIGHT)


def test_camps_over_parts_are_those_in_memory(divided_fits: tuple[bbq.Fit, bbq.Fit]) -> None:
    found, memory = divided_fits
    assert len(found.camps) == len(memory.camps) == 2
    assert found.ties == memory.ties == "model"
    assert_same(found, memory)
    i, j = by_item(found), by_item(memory)
    for mine, other in zip(found.camps, memory.camps, strict=True):
        assert mine.share == pytest.approx(other.share, abs=1e-8)
        assert largest(mine.theta[i], other.theta[j]) < 1e-8
        assert largest(
            [mine.raters[name] for name in found.raters],
            [other.raters[name] for name in found.raters],
        ) < 1e-8  # fmt: skip
    pairs = zip(Analysis(found).camp_boards, Analysis(memory).camp_boards, strict=True)
    for board, same in pairs:
        by_name = {row.item: row for row in same}
        for row in board:
            for field in ("rating", "win_share", "win_share_lower", "n", "wins"):
                assert row[field] == pytest.approx(by_name[row.item][field], abs=1e-6), field


def test_raters_of_camps_are_judged_over_parts_as_in_memory(
    divided_fits: tuple[bbq.Fit, bbq.Fit],
) -> None:
    found, memory = divided_fits
    here = {row.rater: row for row in bbq.rater_report(found)}
    there = {row.rater: row for row in bbq.rater_report(memory)}
    assert here.keys() == there.keys()
    for name, row in here.items():
        assert row.p_bad == pytest.approx(there[name].p_bad, abs=1e-6)
        assert row.camp == there[name].camp
    excluded = [
        {n for n, row in rows.items() if row.verdict == "exclude"} for rows in (here, there)
    ]
    assert excluded[0]
    assert len(excluded[0] ^ excluded[1]) <= 2


def test_a_number_of_camps_may_be_given_over_parts(divided: PreparedSet) -> None:
    chosen: dict[str, Any] = {"camps": 2, "priors": "paper", "ties": "half"}
    found, memory = (
        bbq.fit(divided, tol=TIGHT, **chosen),
        bbq.fit(divided.read(), tol=TIGHT, **chosen),
    )
    i, j = by_item(found), by_item(memory)
    assert largest(found.camp_theta[:, i], memory.camp_theta[:, j]) < 1e-8


def test_raters_in_blocks_have_the_camps_of_all_at_once(
    divided: PreparedSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = divided.read()
    monkeypatch.setattr("bbq_plugin.model.camps.MOST_TRIPLES", (2000, 0))
    memory = bbq.fit(data, tol=TIGHT)
    assert len(memory.camps) == 2
    monkeypatch.setattr("bbq_plugin.model.camps.MOST_CELLS", 700)
    found = bbq.fit(data, tol=TIGHT)
    assert largest(found.camp_theta, memory.camp_theta) < 1e-8
    assert largest(found.membership, memory.membership) < 1e-8
    assert largest(found.quality, memory.quality) < 1e-8


def test_dask_gives_the_same_bits_as_one_process(prepared: PreparedSet, dask: DaskEngine) -> None:
    here, there = bbq.fit(prepared), bbq.fit(prepared, engine=dask)
    assert np.array_equal(here.theta, there.theta)
    assert np.array_equal(here.covariance(), there.covariance())
    assert np.array_equal(here.quality, there.quality)


def test_a_worker_killed_in_a_pass_changes_no_digit(
    prepared: PreparedSet, dask: DaskEngine
) -> None:
    expected = bbq.fit(prepared)
    passes = 0

    class Killing(DaskEngine):
        def sum(self, work: Any, tasks: Any, *args: Any) -> Any:
            nonlocal passes
            passes += 1
            if passes == 4:
                pids = self.client.run(os.getpid)
                futures = super()._futures(work, tasks, args)
                os.kill(next(iter(pids.values())), signal.SIGKILL)
                return added_up(
                    futures, lambda a, b: self.client.submit(added, a, b, pure=False)
                ).result()
            return super().sum(work, tasks, *args)

    found = bbq.fit(prepared, engine=Killing(dask.client, dask.where))
    assert passes > 4
    assert np.array_equal(found.theta, expected.theta)
    assert np.array_equal(found.covariance(), expected.covariance())


def test_a_run_that_was_cut_off_begins_from_the_last_finished_pass(prepared: PreparedSet) -> None:
    expected = bbq.fit(prepared)
    counts: list[int] = []

    class Failing(LocalEngine):
        def __init__(self, after: int) -> None:
            super().__init__()
            self.left = after

        def sum(self, work: Any, tasks: Any, *args: Any) -> Any:
            counts[-1] += 1
            self.left -= 1
            if self.left < 0:
                raise RemoteError("the scheduler is gone")
            return super().sum(work, tasks, *args)

    counts.append(0)
    with pytest.raises(RemoteError):
        bbq.fit(prepared, engine=Failing(6))
    counts.append(0)
    found = bbq.fit(prepared, engine=Failing(1000))
    counts.append(0)
    again = bbq.fit(prepared, engine=Failing(1000))
    # The pass that failed is made again; a run that was finished leaves nothing behind.
    assert counts[1] == counts[2] - 6
    _ = again.covariance()
    assert not Path(prepared.path, ".passes").exists()
    assert np.array_equal(found.theta, expected.theta)
    assert np.array_equal(again.theta, expected.theta)


def test_a_scheduler_that_is_gone_is_named(prepared: PreparedSet) -> None:
    with (
        pytest.raises(RemoteError, match="no Dask scheduler answers"),
        opened_engine("dask://127.0.0.1:1"),
    ):
        raise AssertionError
    cluster = distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
    )
    client = distributed.Client(cluster.scheduler_address, set_as_default=False)
    engine = DaskEngine(client, cluster.scheduler_address)
    try:
        cluster.close()
        with pytest.raises(RemoteError, match="is gone"):
            bbq.fit(prepared, engine=engine)
    finally:
        client.close()


def test_what_is_not_computed_over_parts_is_refused(prepared: PreparedSet) -> None:
    refused: list[dict[str, Any]] = [{"model": "bayes-bt"}, {"solver": "em"}]
    for chosen in refused:
        with pytest.raises(UsageError, match="memory"):
            bbq.fit(prepared, **chosen)
    with pytest.raises(UsageError, match="expected local"):
        bbq.fit(prepared, engine="spark")
    found = bbq.fit(prepared)
    with pytest.raises(UnsupportedError, match="memory"):
        found.sample(10)
    with pytest.raises(UsageError, match="open_dataset"):
        bbq.fit(prepared.read(), engine="dask")


@pytest.mark.parametrize("priors", ["auto", "paper"])
def test_a_bootstrap_over_parts_draws_the_raters_that_it_draws_in_memory(
    prepared: PreparedSet, dask: DaskEngine, priors: Any
) -> None:
    memory = bbq.fit(prepared.read(), tol=TIGHT, priors=priors)
    drawn = memory.bootstrap(4, seed=3)[:, by_item(memory)]
    assert np.ptp(drawn, axis=0).min() > 0
    for engine in (LocalEngine(), dask):
        found = bbq.fit(prepared, engine=engine, tol=TIGHT, priors=priors)
        # Each resample is fitted to 1e-5 nats or nearer.
        assert largest(found.bootstrap(4, seed=3)[:, by_item(found)], drawn) < 1e-6
    board = bbq.leaderboard(found, "bootstrap", draws=30)
    assert all(row.rating_lower < row.rating < row.rating_upper for row in board)


def test_appending_and_retracting_between_fits(tmp_path: Path) -> None:
    pq.write_table(votes(4000), tmp_path / "1.parquet")
    pq.write_table(votes(3000, raters=70), tmp_path / "2.parquet")
    how = Preparation(tmp_path / "v.bbq", parts=3)
    alone = bbq.fit(prepare_lake([str(tmp_path / "1.parquet")], ROLES, how), tol=TIGHT)
    both = prepare_lake([str(tmp_path / "2.parquet")], ROLES, how)
    assert_same(bbq.fit(both, tol=TIGHT), bbq.fit(both.read(), tol=TIGHT))
    back = Preparation(tmp_path / "v.bbq", retract=True)
    prepare_lake([str(tmp_path / "2.parquet")], ROLES, back)
    again = bbq.fit(open_dataset(tmp_path / "v.bbq"), tol=TIGHT)
    assert largest(again.theta, alone.theta) < 1e-8


def test_raters_are_judged_as_in_memory_and_written_as_parquet(prepared: PreparedSet) -> None:
    memory = {row.rater: row for row in bbq.rater_report(bbq.fit(prepared.read(), tol=TIGHT))}
    found = bbq.fit(prepared, tol=TIGHT)
    report = bbq.rater_report(found)
    for field in ("p_bad", "p_inverted", "quality", "quality_lower", "agreement", "tie_rate", "n"):
        assert largest([row[field] for row in report],
                       [memory[row.rater][field] for row in report]) < 1e-8, field  # fmt: skip
    # The rate of wrong exclusions is held in each part, and so over all: the lists differ at most
    # by raters at the margin.
    excluded = set(report.excluded)
    p_bad = [memory[name].p_bad for name in excluded]
    assert min(p_bad) >= 0.9
    assert np.mean(p_bad) >= 0.95
    differ = excluded ^ {name for name, row in memory.items() if row.verdict == "exclude"}
    assert all(memory[name].verdict != "keep" for name in differ)
    assert len(differ) <= 0.1 * len(excluded)
    assert isinstance(found, PartedFit)
    files = sorted(Path(found.results).glob("raters-*.parquet"))
    written = pa.concat_tables([pq.read_table(file) for file in files])
    assert sorted(written["rater"].to_pylist()) == sorted(memory)


@pytest.mark.parametrize("apart", [0.25, 0.0], ids=["a weak panel", "coins"])
def test_whether_a_panel_agrees_is_asked_of_all_raters_not_of_a_part(
    tmp_path: Path, apart: float
) -> None:
    rng = np.random.default_rng(2)
    n, theta = 4_000, apart * np.array([1.5, 0.5, -0.5, -1.5])
    a = rng.integers(0, 4, n)
    b = (a + rng.integers(1, 4, n)) % 4
    won = np.where(rng.random(n) < 1 / (1 + np.exp(theta[b] - theta[a])), "left", "right")
    columns = {"rater": [f"r{x}" for x in rng.integers(0, 200, n)], "won": won.tolist()}
    table = pa.table({**columns, "a": [f"i{x}" for x in a], "b": [f"i{x}" for x in b]})
    pq.write_table(table, tmp_path / "1.parquet")
    how = Preparation(tmp_path / "v.bbq", parts=20)
    made = prepare_lake([str(tmp_path / "1.parquet")], ROLES, how)
    memory, found = (bbq.rater_report(bbq.fit(data)) for data in (made.read(), made))
    # Where turning decides, both draw 399 times, each its own signs.
    assert found.p_coins == pytest.approx(memory.p_coins, abs=0.1)
    said = [text for text in found.warnings if "random answers" in text]
    assert len(said) == (0 if apart else 1)
    assert not any("parts)" in text for text in said)


def command(*words: object) -> str:
    run = CliRunner().invoke(main, [str(word) for word in words])
    assert run.exit_code == 0, run.output
    return run.stdout


def test_the_command_prints_the_same_from_memory_and_from_parts(prepared: PreparedSet) -> None:
    shown = [command("fit", prepared.path, "--engine", e) for e in ("memory", "local", "dask")]
    # Fits without some raters or answers are made in memory alone.
    alone = re.compile(
        r"^Without [\d,]+ of .*?verified by a fit without them\)\.\s*$", re.MULTILINE | re.DOTALL
    )
    tables = ["\n".join(alone.sub("", text).rstrip().splitlines()[:-2]) for text in shown]
    assert tables[0].replace("\n\n", "\n") == tables[1] == tables[2]


def test_a_document_lists_so_many_raters_unless_all_are_asked_for(
    prepared: PreparedSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bbq_plugin.analysis.raters.verdicts.MOST_LISTED", 20)
    monkeypatch.setattr("bbq_plugin.cli.fit.MOST_LISTED", 20)
    for engine in ("local", "memory"):
        some = json.loads(command("fit", prepared.path, "--engine", engine, "--format", "json"))
        assert (len(some["raters"]), some["n_raters"]) == (20, 300)
        assert some["raters"][0]["verdict"] == "exclude"
        assert any("raters are listed" in text for text in some["warnings"])
        whole = ("fit", prepared.path, "--engine", engine, "--format", "json", "--all")
        assert len(json.loads(command(*whole))["raters"]) == 300


def test_an_engine_is_for_prepared_sets(prepared: PreparedSet, tmp_path: Path) -> None:
    file = tmp_path / "v.csv"
    file.write_text("rater,winner,loser\nann,a,b\n")
    for words, why in (
        (["fit", str(file), "--engine", "dask"], "bbq prepare"),
        (["fit", prepared.path, "--engine", "local", "--drop-rater", "r1"], "--engine memory"),
        (["fit", prepared.path, "--engine", "spark"], "expected local"),
    ):
        run = CliRunner().invoke(main, words)
        assert run.exit_code == 2
        assert why in run.output
