"""Results as JSON documents and CSV files, never seen half written."""

from __future__ import annotations

import csv
import io
import os
import re
import stat
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from math import isnan
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

import bbq_plugin
from bbq_plugin.errors import FormatError
from bbq_plugin.text import cell, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from bbq_plugin.analysis import Analysis, Leaderboard, NextPairs, RaterReport
    from bbq_plugin.analysis.leaderboard import Row
    from bbq_plugin.analysis.raters.verdicts import RaterRow
    from bbq_plugin.analysis.slices import SlicedStudy
    from bbq_plugin.analysis.stability import Evaluation, Stability
    from bbq_plugin.data.dataset import Comparisons
    from bbq_plugin.data.records import ActionResult, FeedbackPlan, HistoryPoint
    from bbq_plugin.model import Fit


SCHEMA = "bbq.report/1"
GROUPS_SCHEMA = "bbq.reports/1"
RATERS_SCHEMA = "bbq.raters/1"
PAIRS_SCHEMA = "bbq.pairs/1"
STABILITY_SCHEMA = "bbq.stability/1"
PUSH_SCHEMA = "bbq.push/1"
VERDICTS = ("keep", "watch", "exclude")
AXIS_RATERS = 10_000  # at most so many are listed with where they stand
_PART = re.compile(r"\.(?P<name>.+)\.(?P<pid>\d+)\.part")


@dataclass(frozen=True)
class Origin:
    """How to reproduce a result: the command, without secrets, and the random seed."""

    command: str | None = None
    seed: int | None = None

    def fields(self, data: Comparisons) -> dict[str, Any]:
        """The fields at the head of every document."""
        return {
            "version": bbq_plugin.__version__,
            **asdict(self),
            "digest": data.digest,
            "sources": [asdict(source) for source in data.sources],
        }


def report_dict(
    analysis: Analysis,
    origin: Origin = Origin(),
    history: Sequence[HistoryPoint] | None = None,
    most_raters: int | None = None,
) -> dict[str, Any]:
    """The document of one fit; ``history`` is the leaderboard over time, if a store keeps one.

    Of more than ``most_raters`` those to exclude and to watch are listed first.
    """
    fit, board = analysis.fit, analysis.leaderboard
    data = fit.data
    document = {
        "schema": SCHEMA,
        **origin.fields(data),
        "model": fit.model,
        "priors": fit.priors.describe(),
        "scale": board.scale,
        "intervals": board.intervals,
        "clusters": [asdict(way) for way in board.clusters],
        "intervals_wider": board.wider,
        "level": board.level,
        "n_comparisons": data.n_comparisons,
        "n_ties": data.n_ties,
        "n_both_bad": data.n_both_bad,
        **_both_bad_rate(data),
        "n_items": data.n_items,
        "n_raters": data.n_raters,
        "n_skipped": data.n_skipped,
        "skipped": dict(data.skip_reasons),
        "n_duplicates": data.n_duplicates,
        "n_dropped": data.n_dropped,
        "n_filtered": data.n_filtered,
        "converged": fit.converged,
        "log_posterior": fit.log_posterior,
        "items": [dict(row) for row in board],
        **_covariates(analysis),
        "camps": _camps(analysis),
        "axis": _axis(analysis),
        "raters": [dict(row) for row in _listed(analysis.raters, most_raters)],
        "stopping": analysis.stopping.as_dict(),
        "fragility": analysis.fragility and analysis.fragility.as_dict(),
        "warnings": all_warnings(analysis),
    }
    if len(document["raters"]) < data.n_raters and most_raters is not None:
        document["warnings"].append(
            f"{len(document['raters']):,} of {data.n_raters:,} raters are listed, those to "
            "exclude and to watch first; --all lists all of them"
        )
    if history is not None:
        # Not at the top: a document without a fit must not load numpy.
        from bbq_plugin.report.history import history_dicts, most_points, thinned  # noqa: PLC0415

        kept = thinned(history, board.scale, most_points(len(board)))
        document["history"] = history_dicts(kept)
    return document


def _covariates(analysis: Analysis) -> dict[str, Any]:
    """The effects that are held equal, and the lean of each rater, if there are covariates."""
    fit = analysis.fit
    if fit.held is None:
        return {}
    known = fit.known_with
    return {
        "covariates": [dict(row) for row in analysis.effects],
        "leans": [
            {"rater": name, "theta": float(mean), "theta_sd": float(sd)}
            for name, mean, sd in zip(fit.raters, known.lean, known.lean_sd, strict=False)
        ],
    }


def _listed(raters: RaterReport, most: int | None) -> Sequence[RaterRow]:
    """All of them, or so many: those to exclude and to watch first."""
    if most is None:
        return raters.everyone
    if len(raters) <= most:
        return raters
    # Not at the top: a document without a fit must not load numpy.
    from bbq_plugin.analysis.raters.verdicts import worst_first  # noqa: PLC0415

    return worst_first(raters)[:most]


def _camps(analysis: Analysis) -> list[dict[str, Any]]:
    """The camps, the largest first; the leaderboard of a single one is the panel's."""
    boards = analysis.camp_boards or ((),)
    return [
        {**dict(row), "items": [dict(one) for one in board]}
        for row, board in zip(analysis.division, boards, strict=True)
    ]


def _axis(analysis: Analysis) -> dict[str, Any] | None:
    """What divides the panel and where each rater stands, of very many those furthest out."""
    axis, member = analysis.division.axis, analysis.division.member
    if axis is None:
        return None
    raters = axis.raters
    if len(raters) > AXIS_RATERS:
        half = AXIS_RATERS // 2
        raters = (*raters[:half], *raters[-half:])
    return {
        "strength": axis.strength,
        "items": [{"item": name, "position": at} for name, at in axis.items],
        "raters": [
            {"rater": name, "position": at, "camp": member[name].camp} for name, at in raters
        ],
    }


def _both_bad_rate(data: Comparisons) -> dict[str, dict[str, float]]:
    """By item, if there is any such answer."""
    if data.both_bad_rate is None:
        return {}
    return {"both_bad_rate": dict(zip(data.items, data.both_bad_rate.tolist(), strict=True))}


def groups_dict(tag: str, reports: Mapping[str, dict[str, Any]], origin: Origin) -> dict[str, Any]:
    """The documents of one fit for each value of a tag."""
    return {
        "schema": GROUPS_SCHEMA,
        "version": bbq_plugin.__version__,
        **asdict(origin),
        "by": tag,
        "reports": dict(reports),
    }


def sliced_dict(study: SlicedStudy, mix: Leaderboard | None, origin: Origin) -> dict[str, Any]:
    """The documents of all slices, of all answers, and what differs between slices."""
    reports = {name: report_dict(one, origin) for name, one in study.analyses.items()}
    found = groups_dict(study.tag, reports, origin)
    found["overall"] = report_dict(study.overall, origin)
    found["pooling"] = {"tau": study.pooled.tau, "dispersion": study.pooled.dispersion}
    found["slices"] = [dict(row) for row in study.summaries]
    found["cells"] = [dict(row) for row in study.cells]
    found["differences"] = [dict(row) for row in study.differences]
    found["of_raters"] = study.of_raters
    found["target"] = None if mix is None else [dict(row) for row in mix]
    found["target_shares"] = None if mix is None else study.shares
    return found


def raters_dict(analysis: Analysis, origin: Origin) -> dict[str, Any]:
    """The rater report: the verdicts and their rules."""
    fit, raters = analysis.fit, analysis.raters
    data, effect = fit.data, raters.without_excluded
    return {
        "schema": RATERS_SCHEMA,
        **origin.fields(data),
        "model": fit.model,
        "priors": fit.priors.describe(),
        "level": analysis.limits.level,
        "false_rate": raters.false_rate,
        "least": raters.least,
        "threshold": raters.threshold,
        "population": None if raters.population is None else asdict(raters.population),
        "without_excluded": effect and {**asdict(effect), "matters": effect.matters},
        "not_known": list(raters.not_known),
        "p_coins": raters.p_coins,
        "inter_rater": analysis.inter_rater and analysis.inter_rater.as_dict(),
        "n_comparisons": data.n_comparisons,
        "n_raters": data.n_raters,
        "n_skipped": data.n_skipped,
        "verdicts": verdict_counts(raters),
        "raters": [dict(row) for row in raters],
        "warnings": distinct(data.warnings, fit.warnings, raters.warnings),
    }


def excluded_names(document: bytes, name: str) -> list[str]:
    """The raters that an earlier JSON report, of either schema, excluded."""
    try:
        found = msgspec.json.decode(document, type=_Earlier)
    except msgspec.MsgspecError as error:
        raise FormatError(
            f"not a report of raters ({error})", name,
            remedy="give the output of bbq raters --format json or bbq fit --format json",
        ) from None  # fmt: skip
    if found.schema not in (RATERS_SCHEMA, SCHEMA):
        raise FormatError(
            f"schema is {found.schema!r}", name, remedy=f"expected {RATERS_SCHEMA} or {SCHEMA}"
        )
    return [row.rater for row in found.raters if row.verdict == "exclude"]


class _EarlierRow(msgspec.Struct):
    rater: str
    verdict: str


class _Earlier(msgspec.Struct):
    schema: str
    raters: list[_EarlierRow]


def pairs_dict(fit: Fit, pairs: NextPairs, origin: Origin) -> dict[str, Any]:
    """The pairs to compare next."""
    data = fit.data
    return {
        "schema": PAIRS_SCHEMA,
        **origin.fields(data),
        "model": fit.model,
        "priors": fit.priors.describe(),
        "goal": pairs.goal,
        "top_k": pairs.top_k,
        "camp": pairs.camp,
        "rater_quality": pairs.quality,
        "n_comparisons": data.n_comparisons,
        "n_items": data.n_items,
        "pairs": [dict(row) for row in pairs],
        "warnings": distinct(data.warnings, fit.warnings, pairs.warnings),
    }


def evaluation_dict(data: Comparisons, found: Evaluation, origin: Origin) -> dict[str, Any]:
    """The stability of the models, how it grows, what it depends on, and a forecast."""
    parts = ("growth", "forecast", "agreement", "correlations", "sensitivity")
    return {
        **stability_dict(data, found.stability, origin),
        **{name: [dict(row) for row in getattr(found, name)] for name in parts},
        "warnings": [*data.warnings, *found.warnings],
    }


def stability_dict(data: Comparisons, found: Stability, origin: Origin) -> dict[str, Any]:
    """The stability of the models."""
    return {
        "schema": STABILITY_SCHEMA,
        **origin.fields(data),
        "resamples": found.resamples,
        "n_comparisons": data.n_comparisons,
        "n_items": data.n_items,
        "n_raters": data.n_raters,
        "models": [dict(row) for row in found],
        "warnings": list(data.warnings),
    }


def report_json(report: Mapping[str, Any]) -> str:
    """Write a document as JSON; an unknown number (NaN) becomes null."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def all_warnings(analysis: Analysis) -> list[str]:
    """Every warning of the data, the fit, the leaderboard and the raters once, in this order."""
    fit, board, raters = analysis.fit, analysis.leaderboard, analysis.raters
    return distinct(fit.data.warnings, fit.warnings, board.warnings, raters.warnings)


def distinct(*warnings: Iterable[str]) -> list[str]:
    """Every warning once, in the order given."""
    return list(dict.fromkeys(chain(*warnings)))


def verdict_counts(raters: RaterReport) -> dict[str, int]:
    """How many raters have each verdict."""
    n: Counter[str] = Counter(row.verdict for row in raters)
    return {verdict: n[verdict] for verdict in VERDICTS}


def push_dict(
    project: int,
    plan: FeedbackPlan,
    *,
    applied: bool,
    undone: bool = False,
    done: Iterable[ActionResult] = (),
) -> dict[str, Any]:
    """Collect a plan and what became of it under the names of the contract."""
    # By the action itself: of two changes to one task, one may be skipped and one undone.
    left = {id(one.action): one.left for one in done}
    return {
        "schema": PUSH_SCHEMA,
        "version": bbq_plugin.__version__,
        "project": project,
        "applied": applied,
        "undone": undone,
        "n_actions": len(plan.actions),
        "actions": [
            {
                "kind": action.kind, "target": action.target, "reason": action.reason,
                "before": action.before, "after": action.after, "left": left.get(id(action)),
            }
            for action in plan.actions
        ],
        "worth": None if plan.worth is None else asdict(plan.worth),
        "notes": list(plan.notes),
    }  # fmt: skip


# -- CSV


def rows_csv(rows: Iterable[Row | Mapping[str, object]]) -> str:
    """Write rows under the contract's column names; what is not known is an empty cell."""
    return _csv(dict(row) for row in rows)


def boards_csv(analysis: Analysis) -> str:
    """Write the leaderboard; of a divided panel with a column camp, the panel's rows first."""
    return _csv(board_rows(analysis))


def board_rows(analysis: Analysis) -> Iterator[dict[str, object]]:
    """The rows of the leaderboard; of a divided panel those of the camps follow."""
    return _board_rows(analysis, several=analysis.division.divided)


def grouped_csv(groups: Mapping[str, Analysis]) -> str:
    """Write several leaderboards below each other; the first column says which one."""
    several = any(one.division.divided for one in groups.values())
    return _csv(
        {"group": name, **row}
        for name, analysis in groups.items()
        for row in _board_rows(analysis, several=several)
    )


def _board_rows(analysis: Analysis, *, several: bool) -> Iterator[dict[str, object]]:
    for board in (analysis.leaderboard, *analysis.camp_boards):
        camp: dict[str, object] = {"camp": "" if board.camp is None else board.camp}
        for row in board:
            yield {**(camp if several else {}), **dict(row)}


def _csv(rows: Iterable[Mapping[str, object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for i, row in enumerate(rows):
        if i == 0:
            writer.writerow(row)
        writer.writerow([_csv_cell(value) for value in row.values()])
    return out.getvalue()


def _csv_cell(value: object) -> object:
    if isinstance(value, float) and isnan(value):
        return ""
    if isinstance(value, tuple):
        value = "; ".join(map(str, value))
    return cell(plain(value)) if isinstance(value, str) else value


# -- atomic writes: a reader sees the old file or the complete new one


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Replace a file by a complete new one."""
    with open_atomically(path) as file:
        file.write(text.encode("utf-8"))


_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


@contextmanager
def open_atomically(path: str | os.PathLike[str]) -> Iterator[IO[Any]]:
    """Open a binary file that replaces the old one when it is closed without an error.

    It is synced to disk before it replaces the old one, so this holds for a power cut as well.
    Results have the names of raters in them: a new file is for its owner alone, as a store is; one
    that is there keeps the permissions that its owner gave it. A link is followed, and what is no
    file, such as /dev/stdout or a pipe, is written to as it is.
    """
    target = Path(path)
    if target.exists() and not target.is_file() and not target.is_dir():
        with target.open("wb") as stream:
            yield stream
        return
    target = target.resolve()
    # In the same folder: a rename within a file system is atomic.
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with os.fdopen(os.open(partial, _NEW_FILE, 0o600), "wb") as file:
            os.fchmod(file.fileno(), _mode(target))
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
        _sync_folder(target.parent)
    except OSError as error:
        # The partial file's name means nothing to the reader of the message.
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        partial.unlink(missing_ok=True)


def _mode(target: Path) -> int:
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except OSError:
        return 0o600


def remove_leftovers(folder: Path, names: frozenset[str]) -> None:
    """Remove partial files of processes that were killed while writing one of these files."""
    for path in folder.iterdir():
        part = _PART.fullmatch(path.name)
        if part and part["name"] in names and not _lives(int(part["pid"])):
            path.unlink(missing_ok=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    # An earlier process had the same id as this one.
    return pid != os.getpid()


def _sync_folder(folder: Path) -> None:
    """Sync the new directory entry; Windows has no such call and does not need it."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError:
        pass  # Some network file systems refuse to sync a folder; the file itself is synced.
    finally:
        os.close(handle)
