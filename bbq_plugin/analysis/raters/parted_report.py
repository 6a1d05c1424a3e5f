"""The raters of a fit over parts: judged where their answers are, and written there as Parquet.

What all raters decide together (the consensus, and the population that they are drawn from) is
found first, and is the same as in memory. The rate of wrong exclusions is then held in each part,
and so over all of them; tests of groups of raters look at the raters of one part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from bbq_plugin.analysis.raters.agreement import WholePanel, views_of
from bbq_plugin.analysis.raters.report import RaterReport, RaterRow, judged, worst_first
from bbq_plugin.analysis.raters.verdicts import Rules
from bbq_plugin.data.triples import Codes, Floats
from bbq_plugin.model import Fit, Priors
from bbq_plugin.model.camps import CampDensity
from bbq_plugin.model.fit import PartedResult
from bbq_plugin.model.leave_out import TOLERANCE
from bbq_plugin.model.objectives import theta_density
from bbq_plugin.model.rater_types import (
    LikelyPopulations,
    likelihood_rows,
    likely_populations,
    sampled_raters,
)
from bbq_plugin.model.solvers import solve_newton

#: Rows that are read back; the files have all.
MOST_LISTED = 10_000


class PartedRaterReport(RaterReport):
    """The raters that matter most; ``counts`` is of all of them."""

    def __init__(
        self, rows: list[RaterRow], warnings: tuple[str, ...], counts: Mapping[str, int],
        read_all: Callable[[], list[RaterRow]], **about: Any,
    ) -> None:  # fmt: skip
        super().__init__(rows, warnings, **about)
        self.counts, self._read_all = counts, read_all

    @property
    def everyone(self) -> Sequence[RaterRow]:
        """All raters, read from what the parts wrote."""
        return self._read_all()


def parted_report(fit: Fit, level: float, rules: Rules, before: Collection[str]) -> RaterReport:
    """Judge the raters of every part; those to exclude and to watch are read back first."""
    if not (isinstance(fit.priors, Priors) and fit.priors.estimated):
        text = "over the parts of a set raters are judged under estimated priors (priors='auto')"
        return RaterReport([], (text,), rules=rules)
    parted = cast("PartedResult", fit)
    whole = _consensus(fit, fit.priors)
    rows = parted.by_parts(_sampled, whole, sampled_raters(fit.data.n_raters))
    known: LikelyPopulations = likely_populations(np.concatenate(rows))
    whole = replace(whole, kinds=known)
    found = parted.by_parts(_written, whole, level, rules, before, parted.results)
    counts: Counter[str] = Counter()
    warnings: dict[str, int] = {}
    not_known: tuple[str, ...] = ()
    p_coins = float("nan")
    for one in found:
        counts.update(one["counts"])
        for text in one["warnings"]:
            warnings[text] = warnings.get(text, 0) + 1
        not_known = not_known or one["not_known"]
        p_coins = float(np.nanmin((p_coins, one["p_coins"]))) if one["counts"] else p_coins
    files = tuple(one["file"] for one in found if one["counts"])
    listed = _worst(parted, files, MOST_LISTED)
    told = [f"{text} (in {n} of {len(files)} parts)" for text, n in warnings.items()]
    n = sum(counts.values())
    if n > len(listed):
        told.append(f"the rows of all {n:,} raters are in {parted.results}")
    return PartedRaterReport(
        listed, tuple(told), rules=rules, population=known[1], not_known=not_known,
        p_coins=p_coins, counts=dict(counts),
        read_all=lambda: [row for name in files for row in rows_of(parted.read_result(name))],
    )  # fmt: skip


def _consensus(fit: Fit, priors: Priors) -> WholePanel:
    """The ranking of all raters, or of the members of each camp, that a rater is judged by."""
    parts: Any = fit.triples
    if fit.division is None:
        density: Any = theta_density(parts, priors, fixed=False)
        points = [density.at(fit.theta, np.empty(0))]
    else:
        points = []
        for camp, theta in enumerate(fit.division.theta):
            density = CampDensity(parts, priors, fit.division, camp)
            points.append(solve_newton(density, theta, np.empty(0), TOLERANCE).point)
    found = [np.linalg.inv(density.passes.curvature(point)) for point in points]
    return WholePanel(tuple(point.theta for point in points), tuple(found))


def _sampled(fit: Fit, first: int, whole: WholePanel, chosen: Codes) -> Floats:
    """What the answers of the sampled raters of a part say of their kinds."""
    mine = chosen[(chosen >= first) & (chosen < first + fit.data.n_raters)] - first
    given, _, _, views = views_of(fit, whole)
    return likelihood_rows(given.pairs, views, mine)


def _written(
    fit: Fit, first: int, whole: WholePanel, level: float, rules: Rules, before: Collection[str],
    results: str,
) -> dict[str, Any]:  # fmt: skip
    """Judge the raters of a part, and write their rows."""
    if not fit.data.n_raters:
        return {"counts": {}, "warnings": (), "not_known": (), "p_coins": np.nan, "file": ""}
    report = judged(fit, level, rules, before, whole)
    name = f"raters-{first:09d}.parquet"
    write_parquet(report.to_arrow(), results, name)
    return {
        "counts": Counter(row.verdict for row in report), "warnings": report.warnings,
        "not_known": report.not_known, "p_coins": report.p_coins, "file": name,
    }  # fmt: skip


def write_parquet(table: Any, folder: str, name: str) -> None:
    """Write a table as a whole, or not at all."""
    import pyarrow.parquet as pq  # noqa: PLC0415 (an extra)

    if "://" in folder:
        import fsspec  # noqa: PLC0415 (for object stores alone)

        with fsspec.open(f"{folder}/{name}", "wb") as file:
            pq.write_table(table, file)
        return
    from pathlib import Path  # noqa: PLC0415 (for folders alone)

    target = Path(folder, name)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_suffix(".new")
    pq.write_table(table, fresh)
    fresh.replace(target)


def _worst(parted: PartedResult, files: tuple[str, ...], most: int) -> list[RaterRow]:
    """The rows of the raters that matter most, read part by part."""
    rows: list[RaterRow] = []
    for name in files:
        rows += rows_of(parted.read_result(name))
        if len(rows) > 2 * most:
            rows = worst_first(rows)[:most]
    return worst_first(rows)[:most] if len(rows) > most else rows


def rows_of(table: Any) -> list[RaterRow]:
    """The rows of one file; a number that is not known is NaN."""
    columns = [table[name].to_pylist() for name in RaterRow.__dataclass_fields__]
    found = []
    for values in zip(*columns, strict=True):
        given = dict(zip(RaterRow.__dataclass_fields__, values, strict=True))
        for name, value in given.items():
            if value is None:
                given[name] = float("nan")
        given["reasons"] = tuple(given["reasons"])
        found.append(RaterRow(**given))
    return found
