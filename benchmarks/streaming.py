"""1,000 new comparisons on a history of 10⁵ to 10⁷: what a refresh costs, and how far off it is.

27 items; either 33 comparisons a rater, so that raters grow with the history, or always 2,000
raters, so that the history of each grows. A cold fit is `Comparisons.from_arrays` and `fit` under
the same priors, aggregation included; under estimated priors, which a refresh holds, it is the
aggregation and the solution with quality integrated out. The clock of a refresh runs over
`Streaming.change` and `Streaming.refresh`. The quality of raters whom a refresh did not touch is
not in it: that is one pass over the data, made when asked for, and is shown beside it. Errors are
the largest of all items, against a cold fit of the same data to 1e-8 nats.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

import numpy as np
from common import PAPERS, Report, Table, arguments, best_of
from numpy.typing import NDArray

from bbq_plugin import Comparisons, Priors, fit, simulate
from bbq_plugin.data.triples import Triples, aggregate
from bbq_plugin.model.objectives import theta_density
from bbq_plugin.model.solvers import solve_newton
from bbq_plugin.model.streaming import Streaming

ITEMS, BATCH, EACH, FEW_RATERS = 27, 1000, 33, 2000
SIZES = [10**5, 10**6, 10**7]
JUDGED = 10**6
REFRESHES, IN_A_ROW = 12, 100
ELO = 400.0 / np.log(10.0)
SHARE, LARGEST_ERROR, GROWTH = 30.0, 0.1, 2.0
ESTIMATED = Priors(4.0, 0.1, 8.0, 2.0, 0.2, estimated=True)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Study:
    """Coded rows in random order; the first ``history`` are there before the stream begins."""

    rater: NDArray[np.int64]
    winner: NDArray[np.int64]
    loser: NDArray[np.int64]
    n_raters: int
    history: int
    marginal: bool = False

    def triples(self, n: int) -> Triples:
        """The first ``n`` rows, aggregated."""
        rater, winner, loser = (
            column[:n].astype(np.int32) for column in (self.rater, self.winner, self.loser)
        )
        return aggregate(rater, winner, loser, np.ones(n), self.n_raters, ITEMS)

    def cold(self, n: int, tol: float = 1e-6) -> Floats:
        """theta of the first ``n`` rows, from arrays."""
        if self.marginal:
            density = theta_density(self.triples(n), ESTIMATED, fixed=False)
            start = np.full(ITEMS, np.log(ESTIMATED.a / ESTIMATED.b))
            return solve_newton(density, start, np.full(self.n_raters, 0.8), tol).theta
        rows = (self.rater[:n], self.winner[:n], self.loser[:n])
        return fit(Comparisons.from_arrays(*rows), tol=tol, **PAPERS).theta

    def stream(self) -> Streaming:
        """A solved fit of the history."""
        priors = ESTIMATED if self.marginal else Priors()
        stream = Streaming(self.triples(self.history), priors, marginal=self.marginal)
        stream.solve()
        return stream


def draw(history: int, n_raters: int, new: int, *, marginal: bool = False) -> Study:
    """A history and what comes after it, a fifth of the raters guessing."""
    drawn = simulate(
        items=ITEMS, raters=n_raters, comparisons=history + new, guessers=0.2, quality=(8.0, 2.0),
        spread=0.6, seed=history % 97 + n_raters,
    ).arrays()  # fmt: skip
    order = np.random.default_rng(history).permutation(drawn.winner.size)
    rater, winner, loser = (
        getattr(drawn, name)[order].astype(np.int64) for name in ("rater", "winner", "loser")
    )
    return Study(rater, winner, loser, n_raters, history, marginal)


def follow(study: Study, stream: Streaming, batch: int) -> tuple[float, float, bool]:
    """Seconds and CPU seconds of the refresh after this batch, and whether it was full."""
    low = study.history + BATCH * batch
    new = slice(low, low + BATCH)
    begin, cpu = time.perf_counter(), time.process_time()
    stream.change(study.rater[new], study.winner[new], study.loser[new], np.ones(BATCH))
    done = stream.refresh()
    return time.perf_counter() - begin, time.process_time() - cpu, done.how == "full"


def distance(study: Study, n: int, stream: Streaming) -> float:
    """The largest error of a rating, in Elo."""
    return ELO * float(np.max(np.abs(study.cold(n, 1e-8) - stream.theta)))


def measure(study: Study) -> tuple[dict[str, float], list[str]]:
    """One history: cold fit, refreshes, error at the end, and the row of the table."""
    cold = best_of(lambda: study.cold(study.history), 3)
    stream = study.stream()
    done = [follow(study, stream, batch) for batch in range(REFRESHES)]
    seconds, full = [each[0] for each in done], sum(each[2] for each in done)
    cpu = median(each[1] for each in done)
    error = distance(study, study.history + BATCH * REFRESHES, stream)
    begin = time.perf_counter()
    stream.quality  # noqa: B018 (what is timed is the pass it makes)
    quality = time.perf_counter() - begin
    found = {
        "cold": cold, "refresh": min(seconds), "median_cpu": cpu, "full": full,
        "error": error, "quality": quality,
    }  # fmt: skip
    row = [
        f"{study.history:,}", f"{study.n_raters:,}", f"{1e3 * cold:.1f}",
        f"{1e3 * min(seconds):.2f}", f"{1e3 * cpu:.2f}", f"{cold / min(seconds):.0f}",
        f"{full} of {REFRESHES}", f"{error:.4f}", f"{1e3 * quality:.1f}",
    ]  # fmt: skip
    print(" | ".join(row), flush=True)
    return found, row


def judge_growth(report: Report, shape: str, found: dict[int, dict[str, float]]) -> None:
    """The largest history against the cheapest one: the shortest refresh, and the median's CPU."""
    sizes = f"{min(found):,} to {max(found):,}"
    for key, what in (("refresh", "cost"), ("median_cpu", "median CPU time")):
        times = [values[key] for values in found.values()]
        growth = times[-1] / min(times)
        report.check(
            f"{shape}: {what} of a refresh, {sizes}", f"grows {growth:.2f} times",
            f"≤ {GROWTH:g} times", ok=growth <= GROWTH,
        )  # fmt: skip


def judge(report: Report, what: str, found: dict[str, float]) -> None:
    """Time and error of a refresh beside a cold fit."""
    times = found["cold"] / found["refresh"]
    report.check(
        f"{what}: refresh, of a cold fit", f"1/{times:.0f}", f"≤ 1/{SHARE:g}", ok=times >= SHARE
    )
    report.check(
        f"{what}: error after {REFRESHES} refreshes", f"{found['error']:.4f} Elo",
        f"≤ {LARGEST_ERROR} Elo", ok=found["error"] <= LARGEST_ERROR,
    )  # fmt: skip


def judge_in_a_row(report: Report, shape: str, study: Study, batches: int) -> None:
    """Many refreshes without a solve between them, looked at after every tenth."""
    stream, full, errors = study.stream(), 0, [0.0]
    for batch in range(batches):
        full += follow(study, stream, batch)[2]
        if batch % 10 == 9:
            errors.append(distance(study, study.history + BATCH * (batch + 1), stream))
    report.check(
        f"{shape}: largest error in {batches} refreshes in a row, {full} of them full",
        f"{max(errors):.4f} Elo", f"≤ {LARGEST_ERROR} Elo", ok=max(errors) <= LARGEST_ERROR,
    )  # fmt: skip


def main() -> None:
    """Measure all histories, then many refreshes in a row."""
    quick: bool = arguments(__doc__ or "").quick
    report = Report("streaming", "1,000 new comparisons on a long history", __doc__ or "", quick)
    sizes = SIZES[:-1] if quick else SIZES
    in_a_row = 20 if quick else IN_A_ROW
    measure(draw(10**4, 300, BATCH * REFRESHES))  # loads, or compiles, what will be timed
    measure(draw(10**5, 300, BATCH * REFRESHES))
    rows: list[list[str]] = []
    for shape, raters_of in (
        ("raters grow", lambda size: size // EACH),
        ("2,000 raters", lambda _: FEW_RATERS),
    ):
        found: dict[int, dict[str, float]] = {}
        for size in sizes:
            found[size], row = measure(draw(size, raters_of(size), BATCH * REFRESHES))
            rows.append(["given", *row])
        judge(report, f"{JUDGED:,} comparisons, {shape}", found[JUDGED])
        judge_growth(report, shape, found)
        judge_in_a_row(report, shape, draw(JUDGED, raters_of(JUDGED), BATCH * in_a_row), in_a_row)
        report.values[shape] = {str(size): values for size, values in found.items()}
        integrated, row = measure(draw(JUDGED, raters_of(JUDGED), BATCH * REFRESHES, marginal=True))
        rows.append(["estimated", *row])
        judge(report, f"{JUDGED:,} comparisons, {shape}, estimated priors", integrated)
    header = [
        "priors", "history", "raters", "cold, ms", "refresh, ms", "median, ms of CPU",
        "cold / refresh", "full", "error, Elo", "all quality, ms",
    ]  # fmt: skip
    report.tables.append(Table("Milliseconds, and Elo after the last refresh", header, rows))
    report.finish()


if __name__ == "__main__":
    main()
